//! The errors of the file log, with the affected file, for an operator who has to repair it.

use crate::LogError;
use crate::error::Cause;
use quartet_model::LogSequence;
use std::io;

/// The reason why the file log could not be opened, or why an operation failed.
#[expect(missing_docs, reason = "the fields are what the messages say")]
#[derive(Debug, thiserror::Error)]
pub enum FileLogError {
    /// The disk failed. While appending or syncing, it is unknown which of the unsynced bytes are
    /// on disk.
    #[error("cannot {operation} {file}: {source}")]
    Disk {
        operation: &'static str,
        file: String,
        source: io::Error,
    },
    /// There is no space for it, or no file descriptor. Nothing was appended; the same call may
    /// succeed later.
    #[error("no room to {operation} {file}: {source}")]
    NoRoom {
        operation: &'static str,
        file: String,
        source: io::Error,
    },
    /// Data that was durable cannot be read back.
    #[error(
        "{file} is damaged at byte {offset}, in record {}, which was durable: {reason}. \
         Restore this file from a backup or a replica; `quartet check` says how to continue without it", sequence.0
    )]
    Damaged {
        file: String,
        offset: u64,
        sequence: LogSequence,
        reason: &'static str,
    },
    /// Records between the checkpoint and the log, or inside the log, are missing as a whole.
    #[error(
        "the log continues at record {} but record {} is needed: {reason}. \
         Restore the missing files from a backup or a replica; `quartet check` says how to continue without them", found.0, needed.0
    )]
    Gap {
        needed: LogSequence,
        found: LogSequence,
        reason: &'static str,
    },
    /// Records at the log's end that were durable are missing with their file, or with all files.
    #[error(
        "{file}, which the log had begun, is missing: the log ends at record {}, and it was durable at least up to \
         record {}. Restore the missing files from a backup or a replica; `quartet check` says how to continue without them",
        tail.0, durable.0
    )]
    EndMissing {
        tail: LogSequence,
        durable: LogSequence,
        file: String,
    },
    /// The statement of the log's reach is unreadable, so a missing end would go unnoticed.
    #[error(
        "log-reach, which says how far the log reached, is damaged. \
         Restore it from a backup; `quartet check` says how to continue without it"
    )]
    ReachUnreadable,
    /// A version of the program that this one does not know wrote the file.
    #[error("{file} has log format {version}, which this version cannot read; use the version that wrote it")]
    Format { file: String, version: u32 },
    /// The caller could not apply a record while the log was opened.
    #[error("cannot apply log record {}: {source}", sequence.0)]
    Replay { sequence: LogSequence, source: Cause },
}

impl LogError {
    /// Returns the file log's description, if it was that log.
    pub fn of_file_log(&self) -> Option<&FileLogError> {
        match self {
            LogError::NoRoom(cause) | LogError::Damaged(cause) | LogError::Failing(cause) => cause.downcast_ref(),
            _ => None,
        }
    }
}

impl From<FileLogError> for LogError {
    fn from(error: FileLogError) -> LogError {
        use FileLogError::{Damaged, Disk, EndMissing, Format, Gap, NoRoom, ReachUnreadable, Replay};
        match error {
            NoRoom { .. } => LogError::NoRoom(error.into()),
            Damaged { .. } | Gap { .. } | EndMissing { .. } | ReachUnreadable | Replay { .. } => {
                LogError::Damaged(error.into())
            }
            Disk { .. } | Format { .. } => LogError::Failing(error.into()),
        }
    }
}

impl FileLogError {
    /// For `map_err`: wraps an error of the disk with the operation and the file.
    pub(crate) fn disk(operation: &'static str, file: &str) -> impl FnOnce(io::Error) -> FileLogError {
        let file = file.to_owned();
        move |source| FileLogError::Disk {
            operation,
            file,
            source,
        }
    }

    /// The same, for an operation that loses nothing when it fails: if the system is short of a
    /// resource, it may be retried. Never for a sync.
    pub(crate) fn no_room(operation: &'static str, file: &str) -> impl FnOnce(io::Error) -> FileLogError {
        let file = file.to_owned();
        move |source| match quartet_env::is_shortage(&source) {
            true => FileLogError::NoRoom {
                operation,
                file,
                source,
            },
            false => FileLogError::Disk {
                operation,
                file,
                source,
            },
        }
    }
}
