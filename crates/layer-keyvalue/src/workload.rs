//! Counts of a database's requests since its layer was opened, and their rates, for its status.
//!
//! Each session counts by itself and adds its counts at the end of a batch: a counter that all
//! sessions share for each read would be their bottleneck.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use quartet_wire_keyvalue::{Commit, Request};
use serde_json::{Map, Value, json};

/// The counted requests, in the order of [`Tally`].
#[derive(Clone, Copy)]
pub(crate) enum Count {
    Started,
    Committed,
    Conflicted,
    Reads,
    Writes,
    BytesRead,
    BytesWritten,
}

/// Each count's object in `workload`, and its name there.
const NAMES: [(&str, &str); COUNTS] = [
    ("transactions", "started"),
    ("transactions", "committed"),
    ("transactions", "conflicted"),
    ("operations", "reads"),
    ("operations", "writes"),
    ("bytes", "read"),
    ("bytes", "written"),
];
const COUNTS: usize = 7;
/// Rates are of at least this period.
const PERIOD_MICROS_MIN: u64 = 1_000_000;

/// The counts of a session's batch.
#[derive(Default)]
pub(crate) struct Tally([u64; COUNTS]);

impl Tally {
    pub fn add(&mut self, count: Count, number: u64) {
        self.0[count as usize] += number;
    }

    /// Counts a request that was answered with `reply_bytes`.
    pub fn add_answered(&mut self, request: &Request<'_>, reply_bytes: usize) {
        match request {
            Request::ReadVersion => self.add(Count::Started, 1),
            Request::Get { .. } | Request::GetKey { .. } | Request::GetRange(_) => {
                self.add(Count::Reads, 1);
                self.add(Count::BytesRead, reply_bytes as u64);
            }
            _ => {}
        }
    }

    pub fn add_committed(&mut self, commit: &Commit<'_>) {
        let mutations = commit.mutations.iter();
        let bytes: usize = mutations
            .map(|mutation| mutation.key.len() + mutation.value.len())
            .sum();
        self.add(Count::Committed, 1);
        self.add(Count::Writes, commit.mutations.len() as u64);
        self.add(Count::BytesWritten, bytes as u64);
    }
}

/// The counts of all sessions.
#[derive(Default)]
pub(crate) struct Workload {
    counts: [AtomicU64; COUNTS],
    periods: Mutex<[Sample; 2]>,
}

/// The counts as of a moment.
#[derive(Clone, Copy, Default)]
struct Sample {
    micros: u64,
    counts: [u64; COUNTS],
}

impl Workload {
    pub fn add(&self, tally: Tally) {
        for (shared, number) in self.counts.iter().zip(tally.0) {
            if number > 0 {
                shared.fetch_add(number, Ordering::Relaxed);
            }
        }
    }

    /// The counters with their rates, in the shape of the original's `workload`. A rate is that
    /// since the status before the last, and zero for the first.
    pub fn described(&self, now_micros: u64) -> Value {
        let counts = std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed));
        let before = self.start_of_period(Sample {
            micros: now_micros,
            counts,
        });
        let seconds = now_micros.saturating_sub(before.micros) as f64 / 1e6;
        let mut described = Map::new();
        for (at, (object, name)) in NAMES.into_iter().enumerate() {
            let hz = match before.micros {
                0 => 0.0,
                _ => (counts[at] - before.counts[at]) as f64 / seconds.max(1e-6),
            };
            let parts = described.entry(object).or_insert_with(|| json!({}));
            parts[name] = json!({ "counter": counts[at], "hz": hz, "roughness": 0.0 });
        }
        described.into()
    }

    /// Returns the start of a period that is long enough, and begins another one in time.
    fn start_of_period(&self, now: Sample) -> Sample {
        let mut periods = self.periods.lock();
        let [_, newer] = *periods;
        if now.micros >= newer.micros + PERIOD_MICROS_MIN {
            *periods = [newer, now];
            return newer;
        }
        periods[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(described: &Value) -> (u64, f64) {
        let reads = &described["operations"]["reads"];
        (reads["counter"].as_u64().unwrap(), reads["hz"].as_f64().unwrap())
    }

    #[test]
    fn a_rate_covers_at_least_a_second() {
        let workload = Workload::default();
        let read = |count| {
            let mut tally = Tally::default();
            tally.add(Count::Reads, count);
            workload.add(tally);
        };
        read(5);
        assert_eq!(rate(&workload.described(10_000_000)), (5, 0.0));
        read(30);
        assert_eq!(rate(&workload.described(13_000_000)), (35, 10.0));
        // Soon afterwards, the period is still the one of before.
        read(5);
        assert_eq!(rate(&workload.described(13_500_000)), (40, 10.0));
        assert_eq!(rate(&workload.described(18_000_000)), (40, 1.0));
    }
}
