//! When a node tries to become home: the home has been silent, and it is this node's turn.
//!
//! ```text
//!   home heard ---- 1 s ----> suspected ---- rank x 150 ms ----> try
//!   its connection closed and a new one failed ---> suspected at once
//! ```
//!
//! Nothing here is needed for safety: the sequencer's transaction decides who is home. A node that
//! tries too early deposes a living home; one that tries too late leaves the cluster without one
//! for longer. Silence counts only beside a read of the sequencer that this node has begun since
//! and that found the same term: a node that is cut off from everything has nothing to say about
//! the home.

use std::time::{Duration, Instant};

/// Silence after which a home is suspected.
pub const SILENCE: Duration = Duration::from_secs(1);
/// The head start of each node over the one that is next in rank.
pub const RANK_STEP: Duration = Duration::from_millis(150);
/// A node whose clock is off tries this much later, because versions would jump with its clock; so
/// does one whose disk is full, which could not commit.
pub const UNFIT_PENALTY: Duration = Duration::from_secs(2);

/// The signs of one home's life, as one node has them.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    /// When it was heard last; at first, when this node learned that it is home.
    pub heard: Instant,
    /// Since when no connection to it stands and none could be made.
    pub unreachable_since: Option<Instant>,
    /// When the newest read of the sequencer began that found it home.
    pub found_home: Option<Instant>,
}

/// A node's place among those that would try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// 0: no other node that lives has more of the log.
    pub rank: u32,
    /// Its clock is off, or its disk is full.
    pub is_unfit: bool,
}

impl Signs {
    pub fn of_new_home(now: Instant) -> Signs {
        Signs {
            heard: now,
            unreachable_since: None,
            found_home: None,
        }
    }

    /// From when on the home is suspected, if it is not heard again.
    fn suspected_from(&self) -> Instant {
        let silent = self.heard + SILENCE;
        self.unreachable_since.map_or(silent, |since| since.min(silent))
    }

    /// True if it is this node's turn to try to become home.
    pub fn is_time_to_try(&self, turn: Turn, now: Instant) -> bool {
        let suspected = self.suspected_from();
        let is_known_elsewhere = self.found_home.is_some_and(|began| began >= suspected);
        is_known_elsewhere && now >= suspected + turn.delay()
    }
}

impl Turn {
    fn delay(self) -> Duration {
        let penalty = if self.is_unfit { UNFIT_PENALTY } else { Duration::ZERO };
        RANK_STEP * self.rank + penalty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Turn = Turn {
        rank: 0,
        is_unfit: false,
    };

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Signs of a home heard at the start, and the first tenth of a second in which `turn` tries;
    /// reads of the sequencer are answered at once until `reads_end`.
    fn tries_at(unreachable_since: Option<u64>, turn: Turn, reads_end: u64) -> Option<u64> {
        let start = Instant::now();
        (0..60).map(|tenth| tenth * 100).find(|at| {
            let signs = Signs {
                heard: start,
                unreachable_since: unreachable_since.map(|since| start + millis(since)),
                found_home: Some(start + millis(*at.min(&reads_end))),
            };
            signs.is_time_to_try(turn, start + millis(*at))
        })
    }

    #[test]
    fn silence_lasts_a_second_and_a_closed_connection_counts_at_once() {
        assert_eq!(tries_at(None, FIRST, u64::MAX), Some(1000));
        assert_eq!(tries_at(Some(200), FIRST, u64::MAX), Some(200));
    }

    #[test]
    fn the_most_caught_up_tries_first_and_a_wrong_clock_last() {
        let second = Turn { rank: 2, ..FIRST };
        let wrong = Turn {
            is_unfit: true,
            ..FIRST
        };
        assert_eq!(tries_at(Some(0), second, u64::MAX), Some(300));
        assert_eq!(tries_at(Some(0), wrong, u64::MAX), Some(2000));
    }

    /// A node that was cut off from the home and the sequencer alike must not depose the home as
    /// soon as the sequencer is back: it tries after a read that was begun within the silence.
    #[test]
    fn silence_without_reads_of_the_sequencer_is_nothing() {
        assert_eq!(tries_at(None, FIRST, 900), None);
        assert_eq!(tries_at(Some(500), FIRST, 400), None);
        assert_eq!(tries_at(Some(500), FIRST, 500), Some(500));
    }
}
