//! The errors of any log, by how the caller can respond.

use quartet_model::LogSequence;

/// The description by a log of one kind, for the reader of the message.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a log did not do what it was asked to.
#[expect(missing_docs, reason = "the fields are what the messages say")]
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log goes on after another record than the caller believes: another writer has appended,
    /// so the caller's term has ended and it is home no longer. Nothing was written, and what was
    /// appended before and is not durable may not have survived. The caller steps down.
    #[error("the log's tail is {}, not {}: another node is its home", tail.0, expected.0)]
    TailMoved { expected: LogSequence, tail: LogSequence },
    /// The payload does not fit a record. Nothing was written; a smaller one may be.
    #[error("a payload of {bytes} bytes is larger than a log record can be")]
    TooLarge { bytes: usize },
    /// There is no room for it. Nothing was appended; the same call may succeed later.
    #[error("{0}")]
    NoRoom(Cause),
    /// Records so old are not kept any more: a checkpoint holds what they say.
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
