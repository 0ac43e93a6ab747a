//! The part of the log that is kept beyond the store's needs: for present and future readers.
//!
//! Kept are the records that a [`LogReader`](crate::LogReader) holds and those younger than the
//! retention time, together no more than the retention's bytes, no more than half of the disk's
//! free space without them, and nothing while the disk is short of room. Pure: the time and the
//! disk's room are arguments.

use std::collections::VecDeque;
use std::time::Duration;

use quartet_log::LogPart;
use quartet_model::LogSequence;

pub(crate) struct Retention {
    bytes_max: u64,
    time: Duration,
    /// The log's ends at some times, oldest first.
    written: VecDeque<(Duration, LogSequence)>,
}

/// Number of samples over the retention time.
const SAMPLES: u32 = 32;

impl Retention {
    /// Starts with a log up to `tail`, whose records have no known times: they count as written at
    /// `now`.
    pub fn new(bytes_max: u64, time: Duration, now: Duration, tail: LogSequence) -> Retention {
        Retention {
            bytes_max,
            time,
            written: VecDeque::from([(now, tail.next())]),
        }
    }

    /// Records, at intervals, that the records from `next` on are not written yet.
    pub fn note(&mut self, now: Duration, next: LogSequence) {
        let is_due = |&(last, _): &(Duration, LogSequence)| now.saturating_sub(last) >= self.time / SAMPLES;
        if self.written.back().is_none_or(is_due) {
            self.written.push_back((now, next));
        }
        while self
            .written
            .get(1)
            .is_some_and(|&(then, _)| now.saturating_sub(then) >= self.time)
        {
            self.written.pop_front();
        }
    }

    /// Returns the lowest record to be kept. The store needs those from `needed` on, readers those
    /// from `held` on; `parts` are the log's parts, and the disk has `available_bytes` besides:
    /// zero while it is short of room.
    pub fn floor(
        &self,
        now: Duration,
        needed: LogSequence,
        held: Option<LogSequence>,
        parts: &[LogPart],
        available_bytes: u64,
    ) -> LogSequence {
        let young = self.young(now);
        let floor = held.unwrap_or(needed).min(young.unwrap_or(needed)).min(needed);
        floor.max(self.affordable(needed, parts, available_bytes))
    }

    /// The first record that is younger than the time.
    fn young(&self, now: Duration) -> Option<LogSequence> {
        if self.time.is_zero() {
            return None;
        }
        let old = self.written.iter().rev();
        let mut old = old.filter(|&&(then, _)| now.saturating_sub(then) >= self.time);
        Some(old.next().map_or(LogSequence::ZERO, |&(_, next)| next))
    }

    /// Returns the lowest record from which the records that the store does not need fit their
    /// limit.
    fn affordable(&self, needed: LogSequence, parts: &[LogPart], available_bytes: u64) -> LogSequence {
        let half_of_free = (available_bytes.saturating_add(bytes_before(parts, needed))) / 2;
        let bytes_max = if available_bytes == 0 {
            0
        } else {
            self.bytes_max.min(half_of_free)
        };
        let mut bytes = 0;
        let mut first = needed;
        for pair in parts.windows(2).rev().filter(|pair| pair[1].first <= needed) {
            bytes += pair[0].bytes;
            if bytes > bytes_max {
                return pair[1].first;
            }
            first = pair[0].first;
        }
        first.min(parts.first().map_or(needed, |part| part.first))
    }
}

/// Returns the size of the parts that hold nothing from `needed` on.
pub(crate) fn bytes_before(parts: &[LogPart], needed: LogSequence) -> u64 {
    let ends_before = |pair: &&[LogPart]| pair[1].first <= needed;
    parts.windows(2).filter(ends_before).map(|pair| pair[0].bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn parts(firsts: &[u64]) -> Vec<LogPart> {
        let part = |&first: &u64| LogPart {
            first: LogSequence(first),
            bytes: 100,
        };
        firsts.iter().map(part).collect()
    }

    fn check(retention: &Retention, now: u32, held: Option<u64>, available_bytes: u64, floor: u64) {
        let parts = parts(&[1, 11, 21, 31, 41]);
        let held = held.map(LogSequence);
        let actual = retention.floor(SECOND * now, LogSequence(35), held, &parts, available_bytes);
        assert_eq!(actual, LogSequence(floor), "at {now}, held {held:?}");
    }

    #[test]
    fn records_that_readers_hold_are_kept_within_the_budget() {
        let retention = Retention::new(200, Duration::ZERO, Duration::ZERO, LogSequence(40));
        check(&retention, 0, None, 9999, 35);
        check(&retention, 0, Some(38), 9999, 35);
        check(&retention, 0, Some(25), 9999, 25);
        check(&retention, 0, Some(5), 9999, 11);
        check(&retention, 0, Some(5), 100, 11);
        check(&retention, 0, Some(5), 99, 21);
        check(&retention, 0, Some(25), 0, 31);
        let nothing = Retention::new(0, Duration::ZERO, Duration::ZERO, LogSequence(40));
        check(&nothing, 0, Some(5), 9999, 31);
    }

    #[test]
    fn young_records_are_kept() {
        let mut retention = Retention::new(10_000, SECOND * 32, Duration::ZERO, LogSequence(0));
        let note = |retention: &mut Retention, seconds: std::ops::Range<u32>| {
            seconds.for_each(|second| retention.note(SECOND * second, LogSequence(1 + u64::from(second))));
        };
        note(&mut retention, 0..40);
        check(&retention, 40, None, 9999, 9);
        note(&mut retention, 40..100);
        assert!(retention.written.len() < 40);
        check(&retention, 99, None, 9999, 35);
        check(&retention, 99, Some(3), 9999, 3);
        let mut young = Retention::new(10_000, SECOND * 32, Duration::ZERO, LogSequence(20));
        young.note(SECOND * 5, LogSequence(25));
        check(&young, 6, None, 9999, 1);
    }

    #[test]
    fn bytes_before_count_whole_parts() {
        let parts = parts(&[1, 11, 21]);
        for (needed, bytes) in [(1, 0), (10, 0), (11, 100), (20, 100), (21, 200), (99, 200)] {
            assert_eq!(bytes_before(&parts, LogSequence(needed)), bytes, "{needed}");
        }
    }
}
