//! The durable order of epochs: append, sync, read, trim.
//!
//! A log holds payloads under consecutive sequences. An append names the caller's expected tail
//! (*compare-and-append*), so a writer that lags cannot append: only the log decides which node is
//! **home** (leader). The time from a writer's opening the log to another's appending is its
//! **term**; a writer whose append is refused because the tail is another's steps down.
//!
//! A record is durable, and may be acknowledged, only up to the sequence that `sync` returns. The
//! log never looks inside a payload. Every implementation must pass `conformance`.

#![warn(missing_docs)]

mod check;
pub mod conformance;
mod error;
mod file_error;
mod file_log;
mod file_source;
mod options;
mod reach;
mod reader;
mod record;
mod recovery;
mod reserve;
mod segment;
mod source;
mod survey;

pub use check::{LogReport, UnfinishedWrite, check};
pub use error::{Cause, LogError};
pub use file_error::FileLogError;
pub use file_log::{FileLog, FileLogOpener, record_bytes};
pub use options::FileLogOptions;
pub use reach::is_one_of_several;
pub use reserve::Reserve;
pub use source::{LogCursor, LogPart, LogRecord, LogSource};
pub use survey::first_record;

use std::sync::Arc;

use quartet_model::LogSequence;

/// An append-only sequence of payloads, as one writer sees it. After any call has failed to write
/// or to sync, every later call that would write answers `LogError::Failed`: the writer must stop
/// and open the log again. `NoRoom` is no such failure.
pub trait Log: Send {
    /// The sequence of the last record that this writer knows, durable or not; `LogSequence::ZERO`
    /// for a log that never held one.
    fn tail(&self) -> LogSequence;

    /// Appends a payload (it may be empty), given in pieces, if the tail is `expected_tail`, and
    /// answers the new tail. Not durable yet.
    ///
    /// Errors: `TailMoved`, `TooLarge` and `NoRoom` leave the log as it was.
    fn append(&mut self, expected_tail: LogSequence, payload: &[&[u8]]) -> Result<LogSequence, LogError>;

    /// Makes the appended records durable, and returns the last durable sequence: at most the tail.
    /// A log that has not finished the newest records may return less, and the caller syncs again.
    fn sync(&mut self) -> Result<LogSequence, LogError>;

    /// Records, without syncing, how far the log is known to be durable. Later records distinguish
    /// damage to a record from an unfinished write; this does so for the last ones. Call it when
    /// idle; it costs nothing when the statement is current.
    fn mark_durable(&mut self) -> Result<(), LogError>;

    /// Makes everything durable, including the statement that distinguishes damage from the log's
    /// end. Nothing is appended afterwards.
    fn close(&mut self) -> Result<(), LogError>;

    /// Allows records below `sequence` to be dropped, at any later time. The last record is never
    /// dropped.
    fn trim_below(&mut self, sequence: LogSequence) -> Result<(), LogError>;

    /// Bytes of the records held. Falls only as records are dropped.
    fn bytes(&self) -> u64;

    /// Returns the parts that can be dropped, oldest first. The last can not.
    fn parts(&self) -> Vec<LogPart>;

    /// The source for readers of this writer's records.
    fn source(&self) -> Arc<dyn LogSource>;

    /// Returns the room that the log is sure to have.
    fn room(&self) -> Arc<dyn LogRoom>;
}

/// The room that a log guarantees. Callable from any thread, also to extend it.
pub trait LogRoom: Send + Sync {
    /// Records of at most this size together ([`record_bytes`]) are guaranteed to fit, regardless
    /// of other uses of the disk.
    fn room(&self) -> u64;

    /// Returns true if there is as much room ahead as there usually is.
    fn is_prepared(&self) -> bool;

    /// Reserves room ahead, unless it is reserved. May wait for the disk.
    ///
    /// Errors: `NoRoom`: try again later.
    fn prepare(&self) -> Result<(), LogError>;

    /// Makes `room` for records. Nothing is lost by trying.
    fn extend(&self, room: u64) -> Result<(), LogError>;
}

/// Takes records, in order. Its error ends the reading.
pub type Replay<'a> = dyn FnMut(LogSequence, &[u8]) -> Result<(), Cause> + 'a;

/// Progress of opening. `bytes_read` grows to `bytes_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayProgress {
    /// Bytes that have been read.
    pub bytes_read: u64,
    /// Total number of bytes to be read.
    pub bytes_total: u64,
}

/// Opens a log of any kind.
pub trait LogOpener {
    /// Starts a term: opens the log, or starts one at `replay_from` if there is none, and passes
    /// `replay` every record from `replay_from` on. Afterwards all of them are durable.
    fn open(
        self: Box<Self>,
        replay_from: LogSequence,
        replay: &mut Replay<'_>,
        progress: &mut dyn FnMut(ReplayProgress),
    ) -> Result<Box<dyn Log>, LogError>;
}
