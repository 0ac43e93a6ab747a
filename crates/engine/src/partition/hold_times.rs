//! Hold times of the partition's lock by layer and mode, the measure of its remaining capacity.
//!
//! One hold in [`SAMPLED`] of each thread is measured, so that the cost is negligible.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quartet_env::Runtime;
use quartet_model::LayerId;

use crate::partition::fair_lock::Mode;

/// The sampling interval in holds. A prime: a thread that alternates between reads and writes is
/// measured at both.
const SAMPLED: u32 = 31;

/// Upper bounds of the buckets, in microseconds. Longer holds are in none of them.
const BOUNDS_MICROS: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// The holds of one layer in one mode.
#[derive(Default)]
struct Holds {
    within: [AtomicU64; BOUNDS_MICROS.len()],
    count: AtomicU64,
    nanos: AtomicU64,
}

/// The holds that were measured.
#[derive(Default)]
pub(crate) struct HoldTimes([[Holds; 2]; LayerId::ALL.len()]);

/// The durations of one layer's measured holds.
pub struct MeasuredHolds {
    /// The layer of the executed transactions.
    pub layer: LayerId,
    /// The lock was held exclusively, not shared with readers.
    pub is_alone: bool,
    /// Upper bounds in microseconds, ascending, each with the number of holds that lasted no
    /// longer.
    pub within_micros: Vec<(u64, u64)>,
    /// Number of holds.
    pub count: u64,
    /// Their sum, in microseconds.
    pub micros: u64,
}

impl HoldTimes {
    fn add(&self, layer: LayerId, mode: Mode, time: Duration) {
        let holds = &self.0[layer as usize][mode as usize];
        let micros = time.as_micros() as u64;
        if let Some(place) = BOUNDS_MICROS.iter().position(|bound| micros < *bound) {
            holds.within[place].fetch_add(1, Ordering::Relaxed);
        }
        holds.count.fetch_add(1, Ordering::Relaxed);
        holds.nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn measured(&self) -> Vec<MeasuredHolds> {
        let mut all = Vec::new();
        for layer in LayerId::ALL {
            for mode in [Mode::Shared, Mode::Alone] {
                let holds = &self.0[layer as usize][mode as usize];
                let mut sum = 0;
                let within = holds.within.iter().zip(BOUNDS_MICROS).map(|(within, bound)| {
                    sum += within.load(Ordering::Relaxed);
                    (bound, sum)
                });
                all.push(MeasuredHolds {
                    layer,
                    is_alone: mode == Mode::Alone,
                    within_micros: within.collect(),
                    count: holds.count.load(Ordering::Relaxed),
                    micros: holds.nanos.load(Ordering::Relaxed) / 1000,
                });
            }
        }
        all.retain(|holds| holds.count > 0);
        all
    }
}

thread_local! {
    /// Remaining holds before the next measured one.
    static UNTIL_MEASURED: Cell<u32> = const { Cell::new(0) };
}

/// The timer of one hold of the lock.
pub(crate) struct Stopwatch {
    /// Start of the hold, if it is measured.
    began: Option<Duration>,
    /// The layer of the last executed transaction.
    layer: Option<LayerId>,
}

impl Stopwatch {
    /// The lock was just taken.
    #[inline]
    pub fn begin(runtime: &dyn Runtime) -> Stopwatch {
        let countdown = UNTIL_MEASURED.get();
        UNTIL_MEASURED.set(if countdown == 0 { SAMPLED - 1 } else { countdown - 1 });
        Stopwatch {
            began: (countdown == 0).then(|| runtime.now()),
            layer: None,
        }
    }

    #[inline]
    pub fn executes(&mut self, layer: LayerId) {
        self.layer = Some(layer);
    }

    /// Ends the measurement when the lock is released.
    #[inline]
    pub fn end(&self, runtime: &dyn Runtime, mode: Mode, times: &HoldTimes) {
        if let (Some(began), Some(layer)) = (self.began, self.layer) {
            times.add(layer, mode, runtime.now().saturating_sub(began));
        }
    }
}
