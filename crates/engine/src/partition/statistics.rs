//! The engine's counters.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use quartet_store::DiskUse;

use crate::partition::hold_times::{HoldTimes, MeasuredHolds};

/// Counters for `INFO` and metrics. All count from the start of the process.
#[derive(Default)]
pub struct Statistics {
    /// Transactions executed with the exclusive lock.
    transactions: AtomicU64,
    /// Transactions executed beside others.
    reads: Reads,
    pub(crate) hold_times: HoldTimes,
    /// Epochs appended to the log.
    pub epochs: AtomicU64,
    /// Bytes of the payloads of these epochs.
    pub epoch_bytes: AtomicU64,
    /// Size of the log, in bytes.
    pub log_bytes: AtomicU64,
    /// Size of the part of it that is kept only for readers.
    pub log_retained_bytes: AtomicU64,
    /// Number of readers of the log.
    pub log_readers: AtomicU64,
    /// Readers of the log that lagged beyond its retention and were stopped.
    pub log_readers_lost: AtomicU64,
    /// Syncs of the log.
    pub syncs: AtomicU64,
    /// The duration of the last of them.
    pub sync_micros: AtomicU64,
    /// Checkpoints written.
    pub checkpoints: AtomicU64,
    /// A checkpoint is being written.
    pub checkpoint_running: AtomicBool,
    /// Version of the newest checkpoint.
    pub checkpoint_last_version: AtomicU64,
    /// Time at which the newest checkpoint was written, in microseconds since the Unix epoch. After
    /// opening, the checkpoint's version until another one is written; 0 without a checkpoint.
    pub checkpoint_last_micros: AtomicU64,
    /// The last attempt at one failed; the log still holds everything.
    pub checkpoint_failed: AtomicBool,
    /// Checkpoints that failed.
    pub checkpoints_failed: AtomicU64,
    /// Optimistic attempts and interactive commits that were refused.
    pub conflicts: AtomicU64,
    /// Transactions with writes committed since the newest checkpoint was started.
    pub transactions_since_checkpoint: AtomicU64,
    /// Size of the ssd store's files at its last flush; zero for the memory store.
    pub store_bytes: AtomicU64,
    /// Size of the part of them that its newest tree needs.
    pub store_live_bytes: AtomicU64,
    /// Size of the part that is kept only for snapshots.
    pub store_pinned_bytes: AtomicU64,
    /// Bytes that its flushes have taken from the log, and the time of all of them.
    pub store_flushed_bytes: AtomicU64,
    /// See `store_flushed_bytes`.
    pub store_flush_micros: AtomicU64,
    /// Bytes of removed files that the file system has not freed yet.
    pub removed_bytes: AtomicU64,
}

/// A counter that many threads add to concurrently, in parts, so that they do not contend for one
/// cache line.
#[derive(Default)]
struct Reads([ReadsOfSome; READS_PARTS]);

/// Aligned to a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct ReadsOfSome(AtomicU64);

const READS_PARTS: usize = 16;

thread_local! {
    /// The part that this thread adds to.
    static READS_PART: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % READS_PARTS
    };
}

impl Statistics {
    /// Executed transactions, including read-only transactions.
    pub fn transactions(&self) -> u64 {
        let reads = self.reads.0.iter().map(|part| part.0.load(Ordering::Relaxed));
        reads.sum::<u64>() + self.transactions.load(Ordering::Relaxed)
    }

    /// The durations of the partition lock's holds, by layer and mode: one hold in 31 is measured.
    pub fn holds(&self) -> Vec<MeasuredHolds> {
        self.hold_times.measured()
    }

    /// Counts transactions that were executed beside others.
    #[inline]
    pub(crate) fn reads_ended(&self, count: u64) {
        let part = READS_PART.with(|part| *part);
        self.reads.0[part].0.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a transaction. Under the partition's lock, as everything is that changes these two: a
    /// load and a store lose nothing there, and take a fraction of the time of an atomic addition.
    #[inline]
    pub(crate) fn transaction_ended(&self, has_written: bool) {
        let count = |counter: &AtomicU64| {
            let sum = counter.load(Ordering::Relaxed) + 1;
            counter.store(sum, Ordering::Relaxed);
        };
        count(&self.transactions);
        if has_written {
            count(&self.transactions_since_checkpoint);
        }
    }

    pub(crate) fn store_takes(&self, used: DiskUse) {
        self.store_bytes.store(used.bytes, Ordering::Relaxed);
        self.store_live_bytes.store(used.live_bytes, Ordering::Relaxed);
        self.store_pinned_bytes.store(used.pinned_bytes, Ordering::Relaxed);
    }
}
