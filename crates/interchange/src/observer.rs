//! The watcher of a copy: shows how far it is, keeps rejected records, and may end it.

use crate::error::Result;

pub trait Observer {
    /// Starts a stage, with the number of its records, if that is known.
    fn phase(&mut self, text: &str, records: Option<u64>);

    /// Reports records that are finished.
    fn advance(&mut self, records: u64);

    /// Reports a record that the target refuses, or that is malformed. An error ends the copy:
    /// there are too many.
    fn reject(&mut self, description: &str, reason: &str) -> Result<()>;

    /// Returns true if the copy shall end as soon as the records in flight are complete.
    fn is_stopped(&self) -> bool;
}

/// The message when a killed export is restarted.
pub const BEGUN_ANEW: &str = "an earlier export ended in the middle: it is begun anew";
