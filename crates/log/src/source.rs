//! Reading a log beside its writer.
//!
//! Only the writer knows how far the log is durable, so each concurrent read names the last record
//! that it may return. Records at or below a durable sequence never change; they may only be
//! trimmed.

use quartet_model::LogSequence;

use crate::LogError;

/// Read access to a log, on any thread, while its writer continues.
pub trait LogSource: Send + Sync {
    /// Sequences from which a read can start directly, without skipping earlier records, ascending.
    /// The first is the oldest kept record; empty if the log was removed.
    fn starts(&self) -> Result<Vec<LogSequence>, LogError>;

    /// Creates a cursor at `from`. Nothing is read yet.
    fn cursor(&self, from: LogSequence) -> Box<dyn LogCursor>;
}

/// One reader's place in a log.
pub trait LogCursor: Send {
    /// The sequence of the record that is given next.
    fn position(&self) -> LogSequence;

    /// The next record, if it is at or below `through`, which must be the sequence of a record that
    /// the log holds: a durable one, unless the caller is the log's writer.
    ///
    /// Errors: `Trimmed`; `Damaged`; `Failing`. The cursor keeps its position, and the call may be
    /// repeated.
    fn next(&mut self, through: LogSequence) -> Result<Option<LogRecord<'_>>, LogError>;
}

/// One record of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord<'r> {
    /// Its place in the order.
    pub sequence: LogSequence,
    /// The appended payload.
    pub payload: &'r [u8],
}

/// Records that can be dropped only together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPart {
    /// The first of them.
    pub first: LogSequence,
    /// Their size.
    pub bytes: u64,
}
