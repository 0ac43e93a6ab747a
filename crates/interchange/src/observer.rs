//! The watcher of a copy: shows how far it is, keeps rejected records, and may end it.

use crate::error::Result;

pub trait Observer {
    /// Begins a stage, with the number of its records, if that is known.
    fn phase(&mut self, text: &str, records: Option<u64>);

    /// Reports records that are finished.
    fn advance(&mut self, records: u64);

    /// A record that the target does not take, or that nobody understands. The error ends the copy:
    /// there are too many.
    fn reject(&mut self, what: &str, reason: &str) -> Result<()>;

    /// The copy is to end as soon as what is under way is whole.
    fn is_stopped(&self) -> bool;
}

/// The message when an export that was killed is begun again.
pub const BEGUN_ANEW: &str = "an earlier export ended in the middle: it is begun anew";
