//! Reading a log beside its writer.
//!
//! The writer alone knows how far the log is durable, so each read beside it names the last record
//! that it may return. Records at or below a durable sequence never change; they may only be
//! trimmed.

use quartet_model::LogSequence;

use crate::LogError;

/// Where a log can be read, on any thread, while its writer goes on.
pub trait LogSource: Send + Sync {
    /// Sequences at which reading begins without reading over others before them, ascending. The
    /// first is that of the oldest record that is still kept; empty if the log was removed.
    fn starts(&self) -> Result<Vec<LogSequence>, LogError>;

    /// Begins to read at `from`. Nothing is looked at yet.
    fn cursor(&self, from: LogSequence) -> Box<dyn LogCursor>;
}

/// One reader's place in a log.
pub trait LogCursor: Send {
    /// The sequence of the record that is given next.
    fn position(&self) -> LogSequence;

    /// The next record, if it is at or below `through`, which must be the sequence of a record that
    /// the log holds: a durable one, unless the log's writer itself asks.
    ///
    /// Errors: `Trimmed`; `Damaged`; `Failing`. The cursor stays where it is, and may be asked
    /// again.
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
