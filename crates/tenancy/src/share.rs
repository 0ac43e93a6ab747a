//! Fair shares of a partition's one lock.
//!
//! A database that executes for `t` while `n` databases are active owes the others `t * (n - 1)`:
//! until that time has passed none of its connections takes another turn. So a busy database holds
//! the lock for at most one n-th of the time, however many connections it opens, and another
//! database waits for at most the running turn. A single active database is never delayed.
//!
//! A start-time fair queue in spirit (Goyal, Vin, Cheng 1996) without a queue: each database has
//! one figure, the start time of its next turn.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The number of recently active databases; set about ten times a second.
#[derive(Default)]
pub struct Share {
    active: AtomicU64,
}

/// The earliest time of a database's next turn, in microseconds.
#[derive(Default)]
pub struct Turns {
    next_micros: AtomicU64,
    /// One of its connections has a turn that takes long.
    is_long: AtomicBool,
}

/// Smaller debts are ignored: a pause is no shorter than a timer's tick.
const DEBT_MICROS_MIN: u64 = 1000;
/// Largest debt for turns, so that one long transaction does not shut its database out.
const DEBT_MICROS_MAX: u64 = 100_000;

impl Share {
    pub fn set_active(&self, count: usize) {
        self.active.store(count as u64, Ordering::Relaxed);
    }

    /// Returns true if more than one database is active: turns are then measured.
    #[inline]
    pub fn is_contended(&self) -> bool {
        self.active.load(Ordering::Relaxed) > 1
    }

    /// Records the end of a turn that started at `started_micros`.
    pub fn took_turn(&self, turns: &Turns, started_micros: u64, ended_micros: u64) {
        let active = self.active.load(Ordering::Relaxed).max(1);
        let elapsed = ended_micros.saturating_sub(started_micros);
        let _ = turns
            .next_micros
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                // Its own turn and one as long for each of the others. Time that passes during its
                // own turns pays nothing back.
                let next = next.max(started_micros).saturating_add(elapsed.saturating_mul(active));
                Some(next.min(ended_micros + DEBT_MICROS_MAX))
            });
    }
}

impl Turns {
    /// Starts a long turn, unless another is running: many connections that each start one before
    /// any has ended would have no debt yet. If it returns true, the caller must call
    /// [`Turns::end_long`].
    pub fn begin_long(&self) -> bool {
        !self.is_long.swap(true, Ordering::SeqCst)
    }

    pub fn end_long(&self) {
        self.is_long.store(false, Ordering::SeqCst);
    }

    /// Time to wait before the next turn; zero if it may start immediately.
    pub fn pause_micros(&self, now_micros: u64) -> u64 {
        let debt = self.next_micros.load(Ordering::Relaxed).saturating_sub(now_micros);
        if debt < DEBT_MICROS_MIN {
            0
        } else {
            debt.min(DEBT_MICROS_MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two databases that always want the lock get half of the time each; a third that wants little
    /// is never made to wait.
    #[test]
    fn every_database_gets_an_equal_part() {
        let share = Share::default();
        share.set_active(2);
        let (turns, mut now, mut used) = (Turns::default(), 1_000_000, 0);
        let started = now;
        while now < started + 1_000_000 {
            now += turns.pause_micros(now);
            share.took_turn(&turns, now, now + 300);
            now += 300;
            used += 300;
        }
        assert!((480_000..=520_000).contains(&used), "{used} of 1000000 microseconds");
        let quiet = Turns::default();
        for second in 1..100 {
            assert_eq!(quiet.pause_micros(second * 1_000_000), 0);
            share.took_turn(&quiet, second * 1_000_000, second * 1_000_000 + 50);
        }
    }

    #[test]
    fn a_single_active_database_never_waits() {
        let (share, turns) = (Share::default(), Turns::default());
        share.set_active(1);
        share.took_turn(&turns, 0, 10_000_000);
        assert_eq!(turns.pause_micros(10_000_000), 0);
        assert!(!share.is_contended());
    }
}
