//! The time, as something that can be handed in.
//!
//! Versions are taken from it as `max(last + 1, now)`, so it may jump or stop without harm to
//! correctness.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of the time.
pub trait Clock: Send + Sync {
    /// Microseconds since the Unix epoch. Not monotonic: an operator may set the machine's clock
    /// back.
    fn now_micros(&self) -> u64;
}

/// The machine's own clock. A clock set before 1970 reads 0.
///
/// Each thread queries the system once a millisecond; in between, it measures the elapsed time by
/// the processor's counter, at less than half the price. So a clock that is set, or slewed, is
/// followed within that millisecond.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// One moment, on the processor's counter and by the system's clock.
#[derive(Clone, Copy)]
struct Moment {
    counter: u64,
    nanos: u64,
}

const ASK_AGAIN_NANOS: u64 = 1_000_000;

/// The counter is read before and after the system's clock: if the readings are further apart than
/// this, the thread was interrupted and the two do not belong together.
const SAME_MOMENT_NANOS: u64 = 10_000;

static COUNTER: LazyLock<quanta::Clock> = LazyLock::new(quanta::Clock::new);

thread_local! {
    static ASKED: Cell<Moment> = const { Cell::new(Moment { counter: 0, nanos: 0 }) };
}

impl Clock for SystemClock {
    fn now_micros(&self) -> u64 {
        let counter = COUNTER.raw();
        let reading = ASKED.get();
        let passed = COUNTER.delta_as_nanos(reading.counter, counter);
        let nanos = if counter >= reading.counter && passed < ASK_AGAIN_NANOS {
            reading.nanos + passed
        } else {
            ask_system(counter)
        };
        nanos / 1000
    }
}

/// Nanoseconds since the Unix epoch, remembered together with `counter` if they belong together.
#[cold]
fn ask_system(counter: u64) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanos = since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos());
    if COUNTER.delta_as_nanos(counter, COUNTER.raw()) <= SAME_MOMENT_NANOS {
        ASKED.set(Moment { counter, nanos });
    }
    nanos
}

/// A clock that is corrected by what other machines' clocks show.
pub struct CorrectedClock {
    clock: Arc<dyn Clock>,
    ahead_micros: AtomicI64,
}

impl CorrectedClock {
    /// The same time as `clock` shows, until it is corrected.
    pub fn new(clock: Arc<dyn Clock>) -> CorrectedClock {
        CorrectedClock {
            clock,
            ahead_micros: AtomicI64::new(0),
        }
    }

    /// Takes `ahead_micros` off what the clock shows from now on.
    pub fn correct(&self, ahead_micros: i64) {
        self.ahead_micros.store(ahead_micros, Ordering::Relaxed);
    }
}

impl Clock for CorrectedClock {
    fn now_micros(&self) -> u64 {
        let ahead = self.ahead_micros.load(Ordering::Relaxed);
        self.clock.now_micros().saturating_add_signed(ahead.saturating_neg())
    }
}

/// A clock that moves only by request.
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

    /// Advances by `micros`.
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
    fn a_manual_clock_moves_only_when_set() {
        let clock = ManualClock::new(5);
        clock.advance(2);
        assert_eq!(clock.now_micros(), 7);
        clock.set(1);
        assert_eq!(clock.now_micros(), 1);
    }

    #[test]
    fn a_corrected_clock_shows_the_time_of_most() {
        let machines = Arc::new(ManualClock::new(3_600_000_005));
        let clock = CorrectedClock::new(machines.clone());
        clock.correct(3_600_000_000);
        assert_eq!(clock.now_micros(), 5);
        machines.set(7);
        assert_eq!(clock.now_micros(), 0, "before 1970");
        clock.correct(-3);
        assert_eq!(clock.now_micros(), 10);
    }

    /// Runs for more than one millisecond, so that the system is queried again in between.
    #[test]
    fn the_system_clock_is_the_systems() {
        let micros = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
        let end = micros() + 20_000;
        while micros() < end {
            let earliest = micros();
            let now = SystemClock.now_micros();
            let latest = micros();
            assert!(
                now + 2_000 >= earliest && now <= latest + 2_000,
                "{now} is not between {earliest} and {latest}"
            );
        }
    }
}
