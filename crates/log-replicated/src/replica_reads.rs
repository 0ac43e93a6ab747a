//! Strict reads at a node that is not home.
//!
//! ```text
//!   request arrives --> next range of the log is sent --> answered, its records applied --> read here
//!        notes the ranges sent         higher number              `confirm`
//! ```
//!
//! Each write that was acknowledged before the request arrived was in the log at that time, or had
//! been read from it. The sequencer answers a range, up to the end of the log, as of an instant
//! after its sending. So once a range that was sent after the arrival is answered to the end of the
//! log and applied, this node's state contains all of that. A range under way when a request
//! arrives does not count: the end that it finds may be from before. All waiting requests share the
//! next one.
//!
//! The numbers never restart: a node's state contains every record that it ever had applied from
//! the log, except while it is home, when it must not be read in this way.

use crate::confirmations::{Arrival, Attempt, Confirmations};

/// The requests that wait for a range, and the range that is under way.
#[derive(Clone, Debug, Default)]
pub struct ReplicaReads {
    confirmations: Confirmations,
    asked: Option<Attempt>,
}

impl ReplicaReads {
    /// The arrival of a request now.
    pub fn arrival(&self) -> Arrival {
        self.confirmations.arrival()
    }

    /// A request that arrived then waits.
    pub fn want(&mut self, arrival: Arrival) {
        self.confirmations.want(arrival);
    }

    /// Returns true if a waiting request needs another range than the one under way.
    pub fn needs_range(&self) -> bool {
        self.confirmations.needs_attempt(self.asked)
    }

    /// A range is about to be sent, up to the end of the log. Returns the arrival of a request from
    /// now on, which must be published before the range is sent.
    pub fn asks(&mut self) -> Arrival {
        self.asked = Some(self.confirmations.begin());
        self.arrival()
    }

    /// The range was answered. `reaches_end`: to the end of the log, and its records are applied
    /// before anything else happens. A range without an answer reaches nothing.
    pub fn answered(&mut self, reaches_end: bool) {
        if let (Some(attempt), true) = (self.asked.take(), reaches_end) {
            self.confirmations.confirm(attempt);
        }
    }

    /// Requests that arrived before may be answered here.
    pub fn confirmed_below(&self) -> Arrival {
        self.confirmations.confirmed_below()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_confirmed(reads: &ReplicaReads, arrival: Arrival) -> bool {
        arrival < reads.confirmed_below()
    }

    #[test]
    fn a_range_under_way_serves_no_later_arrival() {
        let mut reads = ReplicaReads::default();
        assert!(!reads.needs_range());
        let first = reads.arrival();
        reads.want(first);
        assert!(reads.needs_range());
        reads.asks();
        assert!(!reads.needs_range());
        let later = reads.arrival();
        reads.want(later);
        assert!(reads.needs_range());
        reads.answered(true);
        assert!(is_confirmed(&reads, first) && !is_confirmed(&reads, later));
        assert!(reads.needs_range());
        reads.asks();
        let last = reads.arrival();
        reads.answered(true);
        assert!(is_confirmed(&reads, later) && !is_confirmed(&reads, last));
        assert!(!reads.needs_range());
    }

    #[test]
    fn a_range_that_fails_or_ends_early_confirms_nothing() {
        let mut reads = ReplicaReads::default();
        let arrival = reads.arrival();
        reads.want(arrival);
        for _ in 0..2 {
            reads.asks();
            reads.answered(false);
            assert!(!is_confirmed(&reads, arrival) && reads.needs_range());
        }
        reads.asks();
        reads.answered(true);
        assert!(is_confirmed(&reads, arrival));
    }
}
