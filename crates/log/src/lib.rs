//! The durable order of epochs: append, sync, replay, trim.
//!
//! A log holds payloads under consecutive sequences. Appending names the tail the caller believes in, so a writer that
//! is behind cannot append. What is appended is durable, and may be acknowledged, only once `sync` has returned.
//! The log never looks inside a payload.

mod check;
mod error;
mod file_log;
mod options;
mod reach;
mod reader;
mod record;
mod recovery;
mod reserve;
mod segment;
mod survey;

pub use check::{LogReport, UnfinishedWrite, check};
pub use error::LogError;
pub use file_log::{FileLog, record_bytes};
pub use options::FileLogOptions;
pub use reserve::Reserve;
pub use survey::{Replay, ReplayProgress};

use quartet_model::LogSequence;

/// An append-only sequence of payloads. After any call has failed to write or to sync, every later one that would touch
/// the log answers `LogError::Failed`: the process must stop and open the log again. `NoRoom` is no such failure.
pub trait Log: Send {
    /// The sequence of the last appended record, durable or not; `LogSequence::ZERO` for a log that never held one.
    fn tail(&self) -> LogSequence;

    /// Appends a payload (it may be empty), given in pieces, if the tail is `expected_tail`, and answers the new tail. Not durable yet.
    ///
    /// Errors: `TailMoved`, `TooLarge` and `NoRoom` leave the log as it was.
    fn append(&mut self, expected_tail: LogSequence, payload: &[&[u8]]) -> Result<LogSequence, LogError>;

    /// Makes everything appended durable, and answers the sequence up to which it is.
    fn sync(&mut self) -> Result<LogSequence, LogError>;

    /// Writes down, without syncing, how far the log is known to be durable. Damage to a record is told from an
    /// unfinished write by what later records say; this says it for the last ones. Call it when idle; it costs nothing
    /// when there is nothing new to say.
    fn confirm(&mut self) -> Result<(), LogError>;

    /// Makes everything durable, and with it what tells damage from a log that ended here. Nothing is appended afterwards.
    fn close(&mut self) -> Result<(), LogError>;

    /// Allows records below `sequence` to be dropped. They go a whole segment at a time, and never the newest segment.
    fn trim_below(&mut self, sequence: LogSequence) -> Result<(), LogError>;

    /// Bytes of the records held. Falls only as whole segments are trimmed.
    fn bytes(&self) -> u64;
}
