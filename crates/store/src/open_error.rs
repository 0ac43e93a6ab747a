//! Why a data directory cannot be opened.

use std::io;

use crate::error::StoreError;

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The newest checkpoint cannot be read. Nothing else holds its rows; only damage makes that
    /// final.
    #[error("checkpoint {file}: {source}; restore it from a backup or a replica: the log before it has been trimmed")]
    Checkpoint {
        /// Its name in the data directory.
        file: String,
        /// Why it cannot be read.
        source: CheckpointError,
    },
    /// A file of the ssd engine cannot be read, or what it holds is damaged.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// Another version of this program wrote the directory, which must stay unchanged.
    #[error("the base has format version {0}, which this program does not support: use the program that wrote it")]
    UnknownFormat(u32),
    #[error(
        "the data are the {found} engine's, not the {wanted} engine's: start with --engine {found}, or convert them with `quartet convert --to {wanted}` while no server runs"
    )]
    /// The directory holds the rows of one engine, and another was requested. Nothing was changed.
    OtherEngine {
        /// Name of the engine of the data.
        found: &'static str,
        /// Name of the requested engine.
        wanted: &'static str,
    },
    /// The directory could not be listed or a file not opened; trying again may help.
    #[error("reading the data directory: {0}")]
    Io(#[from] io::Error),
}

impl OpenError {
    /// Returns true if what was durable cannot be read back. Otherwise the disk or the program
    /// cannot read it, now or ever.
    pub fn is_damage(&self) -> bool {
        match self {
            OpenError::Checkpoint { source, .. } => matches!(source, CheckpointError::Damaged { .. }),
            OpenError::Store(error) => error.is_damage(),
            OpenError::Io(_) | OpenError::UnknownFormat(_) | OpenError::OtherEngine { .. } => false,
        }
    }
}

/// Why a checkpoint could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The input failed; reading again may help.
    #[error("reading the checkpoint at byte {offset}")]
    Input {
        /// Bytes read before the failure.
        offset: u64,
        /// The input's own error.
        #[source]
        source: io::Error,
    },
    /// The bytes are not an intact checkpoint; use another one.
    #[error("damaged checkpoint: {what} in the part that starts at byte {offset}")]
    Damaged {
        /// The start of the damaged part, in bytes from the start of the stream.
        offset: u64,
        /// The fault, as the object of a sentence.
        what: &'static str,
    },
    /// Written by a version of this program with another format; use that version.
    #[error("checkpoint of format version {0}, which this program does not support")]
    UnknownFormat(u32),
}
