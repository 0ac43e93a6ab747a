//! When the store is flushed to its files, and how much of the log a flush covers.

use std::time::Duration;

use quartet_store::{PartitionFlushed, Position, StoreError, StoreKind};

use crate::durability::backlog::Backlog;
use crate::durability::job::Job;
use crate::durability::pressure::Pressure;

/// Minimum delay before the next automatic checkpoint after a failed one or one forced by a full
/// disk.
const RETRY: Duration = Duration::from_secs(30);
/// Upper bound on the time between two flushes of a store on disk, however little has changed: a
/// flush gives back the space of deleted rows, and the next start reads little of the log.
const INTERVAL: Duration = Duration::from_secs(60);
/// Upper bound on the log during a flush, as a multiple of `flush_log_bytes`; above half of it
/// writers are slowed down.
const UNFLUSHED_MAX: u64 = 4;

/// A flush of the store that runs on a thread of its own.
pub(super) struct RunningCheckpoint {
    pub position: Position,
    pub job: Job<Result<PartitionFlushed, StoreError>>,
}

/// The flushes of a store.
pub(super) struct Checkpoints {
    pub store: StoreKind,
    pub running: Option<RunningCheckpoint>,
    /// Start of the last flush.
    pub started_at: Duration,
    /// Size of the last checkpoint.
    pub bytes: u64,
    /// Bytes of the log that the running checkpoint covers, should it fail.
    pub covered_log_bytes: u64,
    pub not_before: Duration,
    /// Bytes appended since the last checkpoint, not the log's size: its newest segment is never
    /// trimmed, and a large segment would trigger checkpoints indefinitely.
    pub log_bytes: u64,
    pub backlog: Backlog,
    /// Bytes in memory that were not in the store's files at the start of the running flush.
    pub unflushed_at_start: u64,
}

impl Checkpoints {
    /// The state after opening: `log_bytes` of the log follow a checkpoint of `bytes`.
    pub fn new(store: StoreKind, bytes: u64, log_bytes: u64, now: Duration) -> Checkpoints {
        Checkpoints {
            store,
            running: None,
            started_at: now,
            bytes,
            covered_log_bytes: 0,
            not_before: now,
            log_bytes,
            backlog: Backlog::default(),
            unflushed_at_start: 0,
        }
    }

    /// Returns true while a flush runs and new writes gather in memory.
    pub fn is_flushing_rows(&self) -> bool {
        self.store == StoreKind::Ssd && self.running.is_some()
    }

    /// Returns true if the last flush started more than the interval ago.
    pub fn is_old(&self, now: Duration) -> bool {
        now - self.started_at >= INTERVAL
    }

    /// Returns true if the running checkpoint's thread is done.
    pub fn is_finished(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.job.is_finished())
    }

    /// Records the start of a flush of a store with `unflushed_bytes` in memory.
    pub fn flush_begins(&mut self, unflushed_bytes: u64) {
        self.unflushed_at_start = unflushed_bytes;
    }

    /// The flush covers the log up to here.
    pub fn begin(&mut self, now: Duration, disk_is_full: bool) {
        self.started_at = now;
        self.covered_log_bytes = std::mem::take(&mut self.log_bytes);
        if disk_is_full {
            self.not_before = now + RETRY;
        }
    }

    /// Leaves the bytes of a failed flush to the next one, after a delay.
    pub fn failed(&mut self, now: Duration) {
        self.log_bytes += self.covered_log_bytes;
        self.not_before = now + RETRY;
    }

    /// Returns the share of the limits that has gathered since the start of the flush: the larger
    /// of the log's share and memory's.
    pub fn gathered_share(&self, unflushed_log_bytes: u64, pressure: &Pressure) -> f64 {
        let log_bytes_max = unflushed_log_bytes.saturating_mul(UNFLUSHED_MAX).max(1);
        let log_share = self.log_bytes as f64 / log_bytes_max as f64;
        let limit = pressure.limit_bytes();
        let more = pressure.unflushed_bytes().saturating_sub(self.unflushed_at_start);
        // Above three sevenths the next flush would start so large that little could gather besides
        // it.
        let room = limit
            .saturating_sub(self.unflushed_at_start)
            .clamp(limit / 8, limit / 7 * 3)
            .max(1);
        log_share.max(more as f64 / room as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_flush_leaves_its_log_to_the_next_and_waits_before_it() {
        let mut checkpoints = Checkpoints::new(StoreKind::Memory, 0, 100, Duration::ZERO);
        checkpoints.begin(Duration::from_secs(1), false);
        assert_eq!((checkpoints.log_bytes, checkpoints.not_before), (0, Duration::ZERO));
        checkpoints.log_bytes += 20;
        checkpoints.failed(Duration::from_secs(2));
        assert_eq!(
            (checkpoints.log_bytes, checkpoints.not_before),
            (120, Duration::from_secs(2) + RETRY)
        );
    }

    #[test]
    fn a_flush_on_a_full_disk_puts_off_the_next() {
        let mut checkpoints = Checkpoints::new(StoreKind::Ssd, 0, 100, Duration::ZERO);
        checkpoints.begin(Duration::from_secs(1), true);
        assert_eq!(checkpoints.not_before, Duration::from_secs(1) + RETRY);
    }
}
