//! Determines, without a clock, which requests were verifiably served by the home of the running
//! term.
//!
//! Every attempt that reads the value of `term` (an append, or a read of `term` only) gets the next
//! number when it is sent. A request records the last number at its arrival. The sequencer reads
//! `term` after the sending of an attempt, so an attempt with a higher number that found the term
//! unchanged confirms the request: at that instant, between the request's arrival and its reply, no
//! later term had started, so nothing newer than this home's state had been acknowledged.

/// The arrival of a request, as the number of attempts sent before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival(pub u64);

/// The number of an attempt; it was sent after every arrival with a lower number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attempt(u64);

/// `confirmed <= sent`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Confirmations {
    /// Attempts sent.
    sent: u64,
    /// The highest attempt that found the term unchanged.
    confirmed: u64,
    /// The newest arrival that waits.
    wanted: Option<Arrival>,
}

impl Confirmations {
    pub fn arrival(&self) -> Arrival {
        Arrival(self.sent)
    }

    pub fn want(&mut self, arrival: Arrival) {
        self.wanted = self.wanted.max(Some(arrival));
    }

    pub fn begin(&mut self) -> Attempt {
        self.sent += 1;
        Attempt(self.sent)
    }

    pub fn confirm(&mut self, attempt: Attempt) {
        self.confirmed = self.confirmed.max(attempt.0);
    }

    /// Arrivals below it are confirmed.
    pub fn confirmed_below(&self) -> Arrival {
        Arrival(self.confirmed)
    }

    pub fn is_confirmed(&self, arrival: Arrival) -> bool {
        self.confirmed > arrival.0
    }

    /// Returns true if a waiting request cannot be confirmed by any outstanding attempt.
    pub fn needs_attempt(&self, outstanding: impl IntoIterator<Item = Attempt>) -> bool {
        let newest = outstanding.into_iter().map(|attempt| attempt.0).max().unwrap_or(0);
        self.wanted
            .is_some_and(|attempt| !self.is_confirmed(attempt) && newest <= attempt.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_confirms_only_requests_that_arrived_before_it() {
        let mut confirmations = Confirmations::default();
        let early = confirmations.arrival();
        let attempt = confirmations.begin();
        let late = confirmations.arrival();
        assert!(!confirmations.is_confirmed(early));
        confirmations.confirm(attempt);
        assert!(confirmations.is_confirmed(early) && !confirmations.is_confirmed(late));
        let second = confirmations.begin();
        confirmations.confirm(second);
        assert!(confirmations.is_confirmed(late));
    }

    #[test]
    fn waiting_requests_share_an_attempt() {
        let mut confirmations = Confirmations::default();
        assert!(!confirmations.needs_attempt([]));
        confirmations.want(confirmations.arrival());
        assert!(confirmations.needs_attempt([]));
        let first = confirmations.begin();
        assert!(!confirmations.needs_attempt([first]));
        confirmations.want(confirmations.arrival());
        assert!(
            confirmations.needs_attempt([first]),
            "it began before the second arrived"
        );
        let second = confirmations.begin();
        confirmations.confirm(first);
        assert!(!confirmations.needs_attempt([second]));
        confirmations.confirm(second);
        assert!(!confirmations.needs_attempt([]));
    }
}
