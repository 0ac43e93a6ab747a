//! When a node tries to become home: the home has been silent, and it is this node's turn.
//!
//! ```text
//!   home heard ---- 1 s ----> suspected ---- rank x 150 ms ----> try
//!   its connection closed and a new one failed ---> suspected at once
//! ```
//!
//! Safety does not depend on this module: the sequencer's transaction decides which node is home. A
//! node that tries too early deposes a living home; a node that tries too late leaves the cluster
//! without a home for longer. Silence counts only together with a read of the sequencer that this
//! node has started since and that found the same term: a node without contact to both has no
//! information about the home.

use std::time::{Duration, Instant};

/// Interval of a living home's heartbeats to each listener.
pub const BEAT_EVERY: Duration = Duration::from_millis(200);
/// Silence after which a home is suspected.
pub const SILENCE: Duration = Duration::from_secs(1);
/// The head start of each node over the next node in rank.
pub const RANK_STEP: Duration = Duration::from_millis(150);
/// The delay of a node with a wrong clock, because versions would jump with it, and of a node with
/// a full disk, because it could not commit.
pub const UNFIT_PENALTY: Duration = Duration::from_secs(2);

/// The signs of one home's life, as one node has them.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    /// The last heartbeat; initially, the time when this node learned that it is home.
    pub heard: Instant,
    /// The time since which there is no connection to it and none succeeds.
    pub unreachable_since: Option<Instant>,
    /// The start of the newest read of the sequencer that found it home.
    pub found_home: Option<Instant>,
}

/// A node's place among the candidates.
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

    /// Returns true while two beats or more are missing.
    pub fn is_silent(&self, now: Instant) -> bool {
        self.unreachable_since.is_some() || now.saturating_duration_since(self.heard) > 2 * BEAT_EVERY
    }

    /// The time from which the home is suspected, without another heartbeat.
    fn suspected_from(&self) -> Instant {
        let silent = self.heard + SILENCE;
        self.unreachable_since.map_or(silent, |since| since.min(silent))
    }

    /// Returns true if it is this node's turn to try to become home.
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

    /// The first tenth of a second when `turn` tries, for a home with a single heartbeat at the
    /// start; reads of the sequencer return at once until `reads_end`.
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

    /// A node that lost contact to both the home and the sequencer must not depose the home as soon
    /// as the sequencer is reachable: it tries after a read that started within the silence.
    #[test]
    fn silence_without_reads_of_the_sequencer_is_nothing() {
        assert_eq!(tries_at(None, FIRST, 900), None);
        assert_eq!(tries_at(Some(500), FIRST, 400), None);
        assert_eq!(tries_at(Some(500), FIRST, 500), Some(500));
    }
}
