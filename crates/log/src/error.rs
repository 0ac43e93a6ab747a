//! The errors of any log, by how the caller can respond.

use quartet_model::LogSequence;

/// The description by a log of one kind, for the reader of the message.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a log operation failed.
#[expect(missing_docs, reason = "the fields are what the messages say")]
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log's tail is not the caller's expected tail: another writer has appended, so the
    /// caller's term has ended and it is no longer home. Nothing was written, and earlier appends
    /// that are not durable may be lost. The caller steps down.
    #[error("the log's tail is {}, not {}: another node is its home", tail.0, expected.0)]
    TailMoved { expected: LogSequence, tail: LogSequence },
    /// The payload does not fit a record. Nothing was written; a smaller payload may succeed.
    #[error("a payload of {bytes} bytes is larger than a log record can be")]
    TooLarge { bytes: usize },
    /// There is no room for it. Nothing was appended; the same call may succeed later.
    #[error("{0}")]
    NoRoom(Cause),
    /// Records of that age have been trimmed: a checkpoint holds their effects.
    #[error("the log starts at record {}, and record {} was requested", first.0, wanted.0)]
    Trimmed { wanted: LogSequence, first: LogSequence },
    /// Durable records cannot be read back, or cannot be applied: an operator must decide.
    #[error("{0}")]
    Damaged(Cause),
    /// The medium has failed. While appending or syncing, it is unknown how much of the unsynced
    /// part is durable.
    #[error("{0}")]
    Failing(Cause),
    /// An earlier call failed. Nothing more is written: the log must be opened again.
    #[error("the log has failed before and takes no more writes; restart to recover it")]
    Failed,
}
