//! What the engine counts.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// Counters for `INFO` and metrics. All count from the start of the process.
#[derive(Default)]
pub struct Statistics {
    pub transactions: AtomicU64,
    pub epochs: AtomicU64,
    pub epoch_bytes: AtomicU64,
    pub syncs: AtomicU64,
    pub checkpoints: AtomicU64,
    pub checkpoint_running: AtomicBool,
    pub checkpoint_last_version: AtomicU64,
    /// The last attempt at one failed; the log still holds everything.
    pub checkpoint_failed: AtomicBool,
    pub checkpoints_failed: AtomicU64,
    /// Optimistic attempts and interactive commits that were refused.
    pub conflicts: AtomicU64,
    /// Transactions with writes committed since the newest checkpoint was started.
    pub transactions_since_checkpoint: AtomicU64,
}
