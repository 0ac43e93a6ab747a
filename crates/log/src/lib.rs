//! The durable order of epochs: append, sync, read, trim.
//!
//! A log holds payloads under consecutive sequences. Appending names the tail the caller believes
//! in (*compare-and-append*), so a writer that is behind cannot append: the log alone decides who
//! is **home**. The time from a writer's opening the log to another's appending is its **term**; a
//! writer whose append is refused because the tail is another's steps down.
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
/// or to sync, every later one that would touch the log answers `LogError::Failed`: the writer must
/// stop and open the log again. `NoRoom` is no such failure.
pub trait Log: Send {
    /// The sequence of the last record that this writer knows, durable or not; `LogSequence::ZERO`
    /// for a log that never held one.
    fn tail(&self) -> LogSequence;

    /// Appends a payload (it may be empty), given in pieces, if the tail is `expected_tail`, and
    /// answers the new tail. Not durable yet.
    ///
    /// Errors: `TailMoved`, `TooLarge` and `NoRoom` leave the log as it was.
    fn append(&mut self, expected_tail: LogSequence, payload: &[&[u8]]) -> Result<LogSequence, LogError>;

    /// Makes what was appended durable, and answers the sequence up to which it is: at most the
    /// tail. A log that is not done with the newest records may answer less, and is asked again.
    fn sync(&mut self) -> Result<LogSequence, LogError>;

    /// Writes down, without syncing, how far the log is known to be durable. Later records
    /// distinguish damage to a record from an unfinished write; this does so for the last ones.
    /// Call it when idle; it costs nothing when there is nothing new to write.
    fn mark_durable(&mut self) -> Result<(), LogError>;

    /// Makes everything durable, and with it what tells damage from a log that ended here. Nothing
    /// is appended afterwards.
    fn close(&mut self) -> Result<(), LogError>;

    /// Allows records below `sequence` to be dropped. They may go later, and never the last one.
    fn trim_below(&mut self, sequence: LogSequence) -> Result<(), LogError>;

    /// Bytes of the records held. Falls only as records are dropped.
    fn bytes(&self) -> u64;

    /// Returns the parts that can be dropped, oldest first. The last can not.
    fn parts(&self) -> Vec<LogPart>;

    /// Where others read what this writer appends.
    fn source(&self) -> Arc<dyn LogSource>;

    /// Returns the room that the log is sure to have.
    fn room(&self) -> Arc<dyn LogRoom>;
}

/// The room that a log is sure to have. Any thread may ask, and make more.
pub trait LogRoom: Send + Sync {
    /// Records that take no more bytes than this together ([`record_bytes`]) are sure to fit,
    /// whatever happens elsewhere.
    fn room(&self) -> u64;

    /// True if there is as much room ahead as there usually is.
    fn is_prepared(&self) -> bool;

    /// Makes room ahead, unless it is there. May wait for the disk.
    ///
    /// Errors: `NoRoom`: try again later.
    fn prepare(&self) -> Result<(), LogError>;

    /// Makes `room` for records. Nothing is lost by trying.
    fn extend(&self, room: u64) -> Result<(), LogError>;
}

/// Takes records, in order. Its error ends the reading.
pub type Replay<'a> = dyn FnMut(LogSequence, &[u8]) -> Result<(), Cause> + 'a;

/// How far opening has come. `bytes_read` grows to `bytes_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayProgress {
    /// So far.
    pub bytes_read: u64,
    /// In all that is to be read.
    pub bytes_total: u64,
}

/// Opens one log, whatever its kind.
pub trait LogOpener {
    /// Begins a term: opens the log, or begins one at `replay_from` if there is none, and gives
    /// `replay` every record from `replay_from` on. Afterwards all of them are durable.
    fn open(
        self: Box<Self>,
        replay_from: LogSequence,
        replay: &mut Replay<'_>,
        progress: &mut dyn FnMut(ReplayProgress),
    ) -> Result<Box<dyn Log>, LogError>;
}
