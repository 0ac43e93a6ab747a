//! Why a data directory cannot be opened.

use std::io;

use crate::checkpoint::CheckpointError;
use crate::error::StoreError;

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("checkpoint {file}: {source}; restore it from a backup or a replica: the log before it has been trimmed")]
    Checkpoint { file: String, source: CheckpointError },
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("the base has format version {0}, which this program does not know: use the one that wrote it")]
    UnknownFormat(u32),
    #[error(
        "the data are the {found} engine's, not the {wanted} engine's: start with --engine {found}, or bring them over with \
         `quartet convert --to {wanted}` while no server runs"
    )]
    OtherEngine { found: &'static str, wanted: &'static str },
    #[error("reading the data directory: {0}")]
    Io(#[from] io::Error),
}

impl OpenError {
    /// True if what was durable cannot be read back. Otherwise the disk or the program cannot read it, now or ever.
    pub fn is_damage(&self) -> bool {
        match self {
            OpenError::Checkpoint { source, .. } => matches!(source, CheckpointError::Damaged { .. }),
            OpenError::Store(error) => error.is_damage(),
            OpenError::Io(_) | OpenError::UnknownFormat(_) | OpenError::OtherEngine { .. } => false,
        }
    }
}
