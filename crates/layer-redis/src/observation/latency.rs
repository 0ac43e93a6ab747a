//! LATENCY: the commands that took longer than `latency-monitor-threshold`, and how long every
//! command's calls took.
//!
//! An event keeps its latest samples, at most one a second: the worst. A histogram has one bucket
//! for each power of two of microseconds, so a percentile read from it is exact to a factor of two;
//! that costs a command one addition.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::observation::counting::{Held, add};

/// Samples kept of one event: Redis' figure.
const SAMPLES_MAX: usize = 160;

#[derive(Default)]
pub struct LatencyEvents {
    events: BTreeMap<&'static str, Event>,
}

#[derive(Clone, Debug, Default)]
pub struct Event {
    /// Oldest first.
    pub samples: VecDeque<Sample>,
    pub worst_ms: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub at_seconds: u64,
    pub milliseconds: u64,
}

impl LatencyEvents {
    pub fn add(&mut self, event: &'static str, at_seconds: u64, milliseconds: u64) {
        let event = self.events.entry(event).or_default();
        event.worst_ms = event.worst_ms.max(milliseconds);
        match event
            .samples
            .back_mut()
            .filter(|sample| sample.at_seconds == at_seconds)
        {
            Some(sample) => sample.milliseconds = sample.milliseconds.max(milliseconds),
            None => event.samples.push_back(Sample {
                at_seconds,
                milliseconds,
            }),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }

    pub fn find(&self, name: &[u8]) -> Option<&Event> {
        std::str::from_utf8(name).ok().and_then(|name| self.events.get(name))
    }

    pub fn all(&self) -> impl ExactSizeIterator<Item = (&'static str, &Event)> {
        self.events.iter().map(|(name, event)| (*name, event))
    }

    /// Forgets the event. False if there was none.
    pub fn forget(&mut self, name: &[u8]) -> bool {
        std::str::from_utf8(name).is_ok_and(|name| self.events.remove(name).is_some())
    }

    pub fn forget_all(&mut self) -> usize {
        std::mem::take(&mut self.events).len()
    }
}

const BUCKETS: usize = 32;

/// The number of calls that took up to 1, 2, 4, ... microseconds.
#[derive(Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
}

impl Histogram {
    pub fn add(&self, micros: u64) {
        self.add_under_lock(micros, Held::Beside);
    }

    /// The same where all additions are under the partition's lock. `counting` is the caller's
    /// mode.
    #[inline]
    pub fn add_under_lock(&self, micros: u64, counting: Held) {
        let bucket = (u64::BITS - micros.saturating_sub(1).leading_zeros()) as usize;
        add(&self.buckets[bucket.min(BUCKETS - 1)], 1, counting);
    }

    pub fn reset(&self) {
        self.buckets
            .iter()
            .for_each(|bucket| bucket.store(0, Ordering::Relaxed));
    }

    /// Upper bounds in microseconds with the number of calls up to each, without the buckets that
    /// add nothing.
    pub fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut total = 0;
        let mut steps = Vec::new();
        for (power, bucket) in self.buckets.iter().enumerate() {
            let calls = bucket.load(Ordering::Relaxed);
            total += calls;
            if calls > 0 {
                steps.push((1 << power, total));
            }
        }
        steps
    }

    /// The time within which `percent` of the calls ended; 0 before the first call.
    pub fn percentile(&self, percent: f64) -> u64 {
        let steps = self.cumulative();
        let Some(&(longest, total)) = steps.last() else {
            return 0;
        };
        let position = (total as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let step = steps.iter().find(|(_, calls)| *calls >= position);
        step.map_or(longest, |(micros, _)| *micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_upper_bounds() {
        let histogram = Histogram::default();
        [0, 1, 2, 3, 1000, u64::MAX]
            .iter()
            .for_each(|micros| histogram.add(*micros));
        assert_eq!(
            histogram.cumulative(),
            [(1, 2), (2, 3), (4, 4), (1024, 5), (1 << 31, 6)]
        );
        assert_eq!(histogram.percentile(0.0), 1);
        assert_eq!(histogram.percentile(50.0), 2);
        assert_eq!(histogram.percentile(100.0), 1 << 31);
    }
}
