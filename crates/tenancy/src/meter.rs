//! How much a logical database has used.
//!
//! Relaxed atomics: each figure is exact, but no two are read at the same moment. The catalogue
//! writes them to the system space at intervals and when the server stops; a crash loses the counts
//! since, a few seconds' worth at most.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::quotas::{Exceeded, Limits};

/// A request's cost. Units are thousandths, because DynamoDB counts in halves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    pub read_milliunits: u64,
    pub write_milliunits: u64,
}

impl Charge {
    pub const READ: Charge = Charge {
        read_milliunits: 1000,
        write_milliunits: 0,
    };
    pub const WRITE: Charge = Charge {
        read_milliunits: 0,
        write_milliunits: 1000,
    };
}

#[derive(Default)]
pub struct Meter {
    commands: AtomicU64,
    refused: AtomicU64,
    read_milliunits: AtomicU64,
    write_milliunits: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    /// The present day since 1970-01-01 UTC, and what was executed on it.
    day: AtomicU64,
    commands_of_day: AtomicU64,
    /// The present second, modulo 2^32, in the high half; commands of it in the low one.
    second: AtomicU64,
    /// Time of the latest command, in microseconds since the Unix epoch.
    active_micros: AtomicU64,
    /// Changed since it was last written down.
    changed: std::sync::atomic::AtomicBool,
    /// The durations of requests since the start. Not persistent.
    pub durations: BriefHistogram,
}

/// Durations in a few buckets, because there is one for each database.
#[derive(Default)]
pub struct BriefHistogram {
    /// Number of durations up to each bound and above the previous bound; the last: above all
    /// bounds.
    counts: [AtomicU64; DURATION_BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// Upper bounds in microseconds: powers of two, so that histograms of those can be added.
pub const DURATION_BOUNDS: [u64; 3] = [1 << 10, 1 << 14, 1 << 18];

impl BriefHistogram {
    #[inline]
    pub fn add(&self, micros: u64) {
        let bucket = DURATION_BOUNDS.iter().filter(|bound| micros > **bound).count();
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The counts, and the sum in microseconds.
    pub fn figures(&self) -> ([u64; DURATION_BOUNDS.len() + 1], u64) {
        let counts = std::array::from_fn(|index| self.counts[index].load(Ordering::Relaxed));
        (counts, self.micros.load(Ordering::Relaxed))
    }
}

/// The figures of a meter, as they are written down and shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub commands: u64,
    /// On the day that `day` counts since 1970-01-01 UTC.
    pub commands_of_day: u64,
    pub day: u64,
    /// Requests that a quota refused.
    pub refused: u64,
    pub read_units: f64,
    pub write_units: f64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// The counts of a database at a node that is not home, to be added at its home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counted {
    pub commands: u64,
    pub refused: u64,
    pub read_milliunits: u64,
    pub write_milliunits: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Counted {
    pub fn add(&mut self, other: &Counted) {
        self.commands += other.commands;
        self.refused += other.refused;
        self.read_milliunits += other.read_milliunits;
        self.write_milliunits += other.write_milliunits;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }
}

const DAY_MICROS: u64 = 24 * 3600 * 1_000_000;
const MILLIUNITS: f64 = 1000.0;

impl Meter {
    pub fn from_usage(usage: &Usage) -> Meter {
        let milliunits = |units: f64| AtomicU64::new((units * MILLIUNITS) as u64);
        Meter {
            commands: AtomicU64::new(usage.commands),
            refused: AtomicU64::new(usage.refused),
            read_milliunits: milliunits(usage.read_units),
            write_milliunits: milliunits(usage.write_units),
            bytes_in: AtomicU64::new(usage.bytes_in),
            bytes_out: AtomicU64::new(usage.bytes_out),
            day: AtomicU64::new(usage.day),
            commands_of_day: AtomicU64::new(usage.commands_of_day),
            ..Meter::default()
        }
    }

    /// The figures at `now_micros`.
    pub fn usage(&self, now_micros: u64) -> Usage {
        self.turn_the_day(now_micros);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Usage {
            commands: read(&self.commands),
            commands_of_day: read(&self.commands_of_day),
            day: read(&self.day),
            refused: read(&self.refused),
            read_units: read(&self.read_milliunits) as f64 / MILLIUNITS,
            write_units: read(&self.write_milliunits) as f64 / MILLIUNITS,
            bytes_in: read(&self.bytes_in),
            bytes_out: read(&self.bytes_out),
        }
    }

    /// Counts a command, unless a limit is exceeded. A refused command is not counted as executed.
    pub fn command(&self, limits: &Limits, now_micros: u64) -> Result<(), Exceeded> {
        self.active_micros.store(now_micros, Ordering::Relaxed);
        self.changed.store(true, Ordering::Relaxed);
        let counted = self
            .check_day(limits, now_micros)
            .and_then(|()| self.count_second(limits, now_micros));
        match counted {
            Ok(()) => {
                self.commands_of_day.fetch_add(1, Ordering::Relaxed);
                self.commands.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => self.refuse(),
        }
        counted
    }

    /// Uncounts a command that was put aside; it is counted when it is retried. A second that has
    /// passed since keeps its count.
    pub fn take_back_command(&self, now_micros: u64) {
        let less = |count: u64| count.checked_sub(1);
        let second = (now_micros / 1_000_000) << 32;
        let decremented = |count: u64| (count & !LOW == second & !LOW && count & LOW > 0).then(|| count - 1);
        // A counter that is zero by now has been reset.
        let _ = self.commands.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let _ = self
            .commands_of_day
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let _ = self
            .second
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, decremented);
    }

    /// A quota has refused a request.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.changed.store(true, Ordering::Relaxed);
    }

    pub fn charge(&self, charge: Charge) {
        self.read_milliunits
            .fetch_add(charge.read_milliunits, Ordering::Relaxed);
        self.write_milliunits
            .fetch_add(charge.write_milliunits, Ordering::Relaxed);
    }

    pub fn transferred(&self, bytes_in: usize, bytes_out: usize) {
        self.bytes_in.fetch_add(bytes_in as u64, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes_out as u64, Ordering::Relaxed);
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Takes what was counted since the last call; `None`: nothing was.
    pub fn take_counted(&self) -> Option<Counted> {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        self.take_changed().then(|| Counted {
            commands: take(&self.commands),
            refused: take(&self.refused),
            read_milliunits: take(&self.read_milliunits),
            write_milliunits: take(&self.write_milliunits),
            bytes_in: take(&self.bytes_in),
            bytes_out: take(&self.bytes_out),
        })
    }

    /// Adds what another node has counted, to the present day.
    pub fn add_counted(&self, counted: &Counted, now_micros: u64) {
        self.turn_the_day(now_micros);
        let add = |counter: &AtomicU64, more: u64| _ = counter.fetch_add(more, Ordering::Relaxed);
        add(&self.commands, counted.commands);
        add(&self.commands_of_day, counted.commands);
        add(&self.refused, counted.refused);
        add(&self.read_milliunits, counted.read_milliunits);
        add(&self.write_milliunits, counted.write_milliunits);
        add(&self.bytes_in, counted.bytes_in);
        add(&self.bytes_out, counted.bytes_out);
        self.put_changed_back();
    }

    /// Time of the latest command.
    pub fn active_micros(&self) -> u64 {
        self.active_micros.load(Ordering::Relaxed)
    }

    /// The change that was taken is not written down yet.
    pub(crate) fn put_changed_back(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Returns true once after a change.
    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    fn check_day(&self, limits: &Limits, now_micros: u64) -> Result<(), Exceeded> {
        self.turn_the_day(now_micros);
        let limit = limits.commands_per_day.load(Ordering::Relaxed);
        let usage = self.commands_of_day.load(Ordering::Relaxed);
        if usage < limit {
            return Ok(());
        }
        Err(Exceeded::CommandsPerDay { limit, usage })
    }

    fn turn_the_day(&self, now_micros: u64) {
        let today = now_micros / DAY_MICROS;
        if self.day.load(Ordering::Relaxed) != today && self.day.swap(today, Ordering::Relaxed) != today {
            self.commands_of_day.store(0, Ordering::Relaxed);
        }
    }

    fn count_second(&self, limits: &Limits, now_micros: u64) -> Result<(), Exceeded> {
        let limit = limits.commands_per_second.load(Ordering::Relaxed);
        if limit == u64::MAX {
            return Ok(());
        }
        let present = (now_micros / 1_000_000) << 32;
        let counted = self
            .second
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |second| {
                let count = if second & !LOW == present & !LOW {
                    second & LOW
                } else {
                    0
                };
                (count < limit.min(LOW)).then_some(present | (count + 1))
            });
        counted.map(|_| ()).map_err(|_| Exceeded::CommandsPerSecond { limit })
    }
}

const LOW: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quotas;

    const NOON: u64 = 20_000 * DAY_MICROS + DAY_MICROS / 2;

    fn limits(second: Option<u64>, day: Option<u64>) -> Limits {
        Limits::of(&Quotas {
            commands_per_second: second,
            commands_per_day: day,
            ..Quotas::default()
        })
    }

    #[test]
    fn a_second_and_a_day_end() {
        let (meter, limits) = (Meter::default(), limits(Some(2), Some(3)));
        assert_eq!(meter.command(&limits, NOON), Ok(()));
        assert_eq!(meter.command(&limits, NOON + 999_999), Ok(()));
        let refused = meter.command(&limits, NOON + 999_999);
        assert_eq!(refused, Err(Exceeded::CommandsPerSecond { limit: 2 }));
        assert_eq!(meter.command(&limits, NOON + 1_000_000), Ok(()));
        let refused = meter.command(&limits, NOON + 2_000_000);
        assert_eq!(refused, Err(Exceeded::CommandsPerDay { limit: 3, usage: 3 }));
        assert_eq!(meter.command(&limits, NOON + DAY_MICROS), Ok(()));
        let usage = meter.usage(NOON + DAY_MICROS);
        assert_eq!((usage.commands, usage.commands_of_day, usage.refused), (4, 1, 2));
    }

    /// A request that waited for the disk was looked at ten times a second, and paid for each time.
    #[test]
    fn a_command_that_was_put_aside_is_counted_once() {
        let (meter, limits) = (Meter::default(), limits(Some(2), Some(3)));
        for micros in [0, 100_000, 200_000, 1_100_000] {
            assert_eq!(meter.command(&limits, NOON + micros), Ok(()));
            meter.take_back_command(NOON + micros);
        }
        for micros in [1_200_000, 1_300_000] {
            assert_eq!(meter.command(&limits, NOON + micros), Ok(()));
        }
        let usage = meter.usage(NOON);
        assert_eq!((usage.commands, usage.commands_of_day, usage.refused), (2, 2, 0));
        meter.take_back_command(NOON + 2_000_000);
        let refused = meter.command(&limits, NOON + 1_400_000);
        assert_eq!(refused, Err(Exceeded::CommandsPerSecond { limit: 2 }), "another second");
    }

    #[test]
    fn what_another_node_has_counted_is_added_once() {
        let (home, other, limits) = (Meter::default(), Meter::default(), limits(None, None));
        assert_eq!(other.take_counted(), None);
        for meter in [&home, &other] {
            assert_eq!(meter.command(&limits, NOON), Ok(()));
            meter.charge(Charge::READ);
            meter.transferred(10, 20);
        }
        let counted = other.take_counted().unwrap();
        assert_eq!(other.take_counted(), None);
        home.add_counted(&counted, NOON);
        let usage = home.usage(NOON);
        assert_eq!((usage.commands, usage.commands_of_day, usage.read_units), (2, 2, 2.0));
        assert_eq!((usage.bytes_in, usage.bytes_out), (20, 40));
    }

    #[test]
    fn written_counts_continue() {
        let meter = Meter::default();
        assert_eq!(meter.command(&limits(None, None), NOON), Ok(()));
        meter.charge(Charge::WRITE);
        meter.charge(Charge {
            read_milliunits: 500,
            write_milliunits: 0,
        });
        meter.transferred(10, 20);
        let usage = meter.usage(NOON);
        let again = Meter::from_usage(&usage);
        assert_eq!(again.usage(NOON), usage);
        assert_eq!(
            (usage.read_units, usage.write_units, usage.bytes_in, usage.bytes_out),
            (0.5, 1.0, 10, 20)
        );
        let refused = again.command(&limits(None, Some(1)), NOON);
        assert_eq!(refused, Err(Exceeded::CommandsPerDay { limit: 1, usage: 1 }));
    }
}
