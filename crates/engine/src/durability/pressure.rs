//! The figures by which [`crate::durability::admission`] decides: what has gathered, and who waits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) struct Pressure {
    /// Memory that what is not in the store's files may take.
    limit_bytes: u64,
    /// Unflushed bytes after the newest commit.
    unflushed_bytes: AtomicU64,
    /// Effects that the log has not taken.
    pub waiting_bytes: AtomicU64,
    /// The flusher takes no epoch for the moment, because the store is behind.
    pub is_held: AtomicBool,
    /// True if a request was put aside since the listeners were last called.
    pub is_waited_for: AtomicBool,
    /// Since when memory is short although little has gathered, in microseconds; zero if it is not.
    pub short_since_micros: AtomicU64,
}

impl Pressure {
    pub fn new(limit_bytes: u64) -> Pressure {
        Pressure {
            limit_bytes,
            unflushed_bytes: AtomicU64::new(0),
            waiting_bytes: AtomicU64::new(0),
            is_held: AtomicBool::new(false),
            is_waited_for: AtomicBool::new(false),
            short_since_micros: AtomicU64::new(0),
        }
    }

    /// Records the gathered bytes, after a commit or after the flusher has taken some.
    pub fn gathered(&self, unflushed_bytes: u64, waiting_bytes: u64) {
        self.unflushed_bytes.store(unflushed_bytes, Ordering::Relaxed);
        self.waiting_bytes.store(waiting_bytes, Ordering::Relaxed);
    }

    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Returns true if enough has gathered to be worth a flush.
    pub fn wants_flush(&self, unflushed_bytes: u64) -> bool {
        unflushed_bytes > self.limit_bytes / 6
    }

    pub fn unflushed_bytes(&self) -> u64 {
        self.unflushed_bytes.load(Ordering::Relaxed)
    }

    /// The flusher takes epochs, or takes none for the moment.
    pub fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Relaxed);
    }
}
