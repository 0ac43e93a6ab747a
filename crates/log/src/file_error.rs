//! What can go wrong with a log, by what the caller can do about it.

use quartet_model::LogSequence;
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Somebody else appended, or the caller lost count. Nothing was written.
    #[error("the log's tail is {}, not {}", tail.0, expected.0)]
    TailMoved { expected: LogSequence, tail: LogSequence },
    /// The payload does not fit a record. Nothing was written; a smaller one may be.
    #[error("a payload of {bytes} bytes is larger than a log record can be")]
    TooLarge { bytes: usize },
    /// The disk failed. While appending or syncing, it is unknown how much of what was not yet synced is on disk.
    #[error("cannot {operation} {file}: {source}")]
    Disk {
        operation: &'static str,
        file: String,
        source: io::Error,
    },
    /// There is no space for it, or no file descriptor. Nothing was appended; the same call may succeed later.
    #[error("no room to {operation} {file}: {source}")]
    NoRoom {
        operation: &'static str,
        file: String,
        source: io::Error,
    },
    /// An earlier call failed. Nothing more is written: the log must be opened again.
    #[error("the log has failed before and takes no more writes; restart to recover it")]
    Failed,
    /// Data that was durable cannot be read back.
    #[error(
        "{file} is damaged at byte {offset}, in record {}, which was durable: {reason}. \
         Restore this file from a backup or a replica; `quartet check` says how to go on without it", sequence.0
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
         Restore the missing files from a backup or a replica; `quartet check` says how to go on without them", found.0, needed.0
    )]
    Gap {
        needed: LogSequence,
        found: LogSequence,
        reason: &'static str,
    },
    /// Records at the log's end that were durable are missing with their file, or with all files.
    #[error(
        "{file}, which the log had begun, is missing: the log ends at record {}, and it was durable at least up to \
         record {}. Restore the missing files from a backup or a replica; `quartet check` says how to go on without them",
        tail.0, durable.0
    )]
    EndMissing {
        tail: LogSequence,
        durable: LogSequence,
        file: String,
    },
    /// The statement of how far the log reached cannot be read, so nobody can tell whether its end is missing.
    #[error(
        "log-reach, which says how far the log reached, is damaged. \
         Restore it from a backup; `quartet check` says how to go on without it"
    )]
    ReachUnreadable,
    /// The file was written by a version of the program that this one does not know.
    #[error("{file} has log format {version}, which this version cannot read; use the version that wrote it")]
    Format { file: String, version: u32 },
    /// The caller could not apply a record while the log was opened.
    #[error("cannot apply log record {}: {source}", sequence.0)]
    Replay {
        sequence: LogSequence,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl LogError {
    /// For `map_err`: wraps an error of the disk with what was done to which file.
    pub(crate) fn disk(operation: &'static str, file: &str) -> impl FnOnce(io::Error) -> LogError {
        let file = file.to_owned();
        move |source| LogError::Disk {
            operation,
            file,
            source,
        }
    }

    /// The same, for an operation after whose failure nothing is lost: if the system is short of something, it may be tried
    /// again. Never for a sync.
    pub(crate) fn no_room(operation: &'static str, file: &str) -> impl FnOnce(io::Error) -> LogError {
        let file = file.to_owned();
        move |source| match quartet_env::is_shortage(&source) {
            true => LogError::NoRoom {
                operation,
                file,
                source,
            },
            false => LogError::Disk {
                operation,
                file,
                source,
            },
        }
    }
}
