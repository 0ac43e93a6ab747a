//! Why a backup could not be taken, read or restored.

use std::io;

/// A failure, described for an operator.
#[expect(missing_docs, reason = "the fields are what the messages say")]
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The target failed an operation.
    #[error("{name} in the backup's target: {source}")]
    Target { name: String, source: io::Error },
    /// The target does not support the request.
    #[error("{0}")]
    Address(String),
    /// The backup's bytes are not what was written.
    #[error("the backup is damaged: {file}, at byte {offset}: {reason}")]
    Damaged {
        file: String,
        offset: u64,
        reason: &'static str,
    },
    /// Something that belongs to the backup is not there.
    #[error("the backup is incomplete: {0}")]
    Incomplete(String),
    /// Written by a later version of this program.
    #[error("{file} has backup format {format}, which this version cannot read; use the version that wrote it")]
    Format { file: String, format: u32 },
    /// No backup reaches the requested version.
    #[error("{0}")]
    NotCovered(String),
    /// The server, or its engine, failed to return rows or records.
    #[error("the server: {0}")]
    Source(String),
    /// The restored data could not be written.
    #[error("writing the restored data: {0}")]
    Restore(String),
}

impl BackupError {
    /// The backup can never be restored as it is.
    pub fn is_damage(&self) -> bool {
        matches!(self, BackupError::Damaged { .. } | BackupError::Incomplete(_))
    }

    pub(crate) fn target(name: &str) -> impl FnOnce(io::Error) -> BackupError {
        let name = name.to_owned();
        move |source| BackupError::Target { name, source }
    }
}
