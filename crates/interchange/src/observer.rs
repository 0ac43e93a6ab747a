//! Whoever watches a copy: shows how far it is, keeps what was rejected, and may end it.

use crate::error::Result;

pub trait Observer {
    /// What is being done from now on, and how many records there are, if that is known.
    fn phase(&mut self, text: &str, records: Option<u64>);

    /// So many records more are done with.
    fn advance(&mut self, records: u64);

    /// A record that the target does not take, or that nobody understands. The error ends the copy: there are too many.
    fn reject(&mut self, what: &str, reason: &str) -> Result<()>;

    /// The copy is to end as soon as what is under way is whole.
    fn is_stopped(&self) -> bool;
}

/// What is said when an export that somebody killed is begun again.
pub const BEGUN_ANEW: &str = "an earlier export ended in the middle: it is begun anew";
