//! The time, as something that can be handed in.
//!
//! Versions are taken from it as `max(last + 1, now)`, so it may jump or stand still without harm to correctness.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What tells the time.
pub trait Clock: Send + Sync {
    /// Microseconds since the Unix epoch. Not monotonic: an operator may set the machine's clock back.
    fn now_micros(&self) -> u64;
}

/// The machine's own clock. A clock set before 1970 reads 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_micros(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros() as u64)
    }
}

/// A clock that moves only when it is told to.
#[derive(Debug, Default)]
pub struct ManualClock {
    micros: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `micros` since the Unix epoch.
    pub fn new(micros: u64) -> ManualClock {
        ManualClock {
            micros: AtomicU64::new(micros),
        }
    }

    /// Shows `micros` from now on, which may be earlier than before.
    pub fn set(&self, micros: u64) {
        self.micros.store(micros, Ordering::SeqCst);
    }

    /// Goes on by `micros`.
    pub fn advance(&self, micros: u64) {
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_micros(&self) -> u64 {
        self.micros.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(5);
        clock.advance(2);
        assert_eq!(clock.now_micros(), 7);
        clock.set(1);
        assert_eq!(clock.now_micros(), 1);
    }

    #[test]
    fn the_system_clock_is_past_2020() {
        assert!(SystemClock.now_micros() > 1_577_836_800_000_000);
    }
}
