//! The inputs of [`crate::admission`]: the amount of unflushed data, and whether requests wait.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) struct Pressure {
    /// Memory that what is not in the store's files may take.
    limit_bytes: u64,
    /// Unflushed bytes after the newest commit.
    unflushed_bytes: AtomicU64,
    /// Effects that the log has not taken.
    pub waiting_bytes: AtomicU64,
    /// Effects that the flusher of a shared log has taken and that are not confirmed.
    pub in_flight_bytes: AtomicU64,
    /// Bytes of epochs on their way to the log, as the process' memory has them
    /// ([`crate::durability::memory::Memory::epochs_changed`]).
    pub epoch_bytes: AtomicU64,
    /// The flusher currently takes no epoch, because the store has a backlog.
    pub is_held: AtomicBool,
    /// True if a request was put aside since the listeners were last called.
    pub is_waited_for: AtomicBool,
    /// Since when too much has gathered, in microseconds; zero if it has not.
    pub behind_since_micros: AtomicU64,
    /// Since when memory is short although little has gathered, in microseconds; zero if it is not.
    pub short_since_micros: AtomicU64,
    /// The engine is about to be closed: the flusher holds no epochs back.
    pub is_ending: AtomicBool,
}

impl Pressure {
    pub fn new(limit_bytes: u64) -> Pressure {
        Pressure {
            limit_bytes,
            unflushed_bytes: AtomicU64::new(0),
            waiting_bytes: AtomicU64::new(0),
            in_flight_bytes: AtomicU64::new(0),
            epoch_bytes: AtomicU64::new(0),
            is_held: AtomicBool::new(false),
            is_waited_for: AtomicBool::new(false),
            behind_since_micros: AtomicU64::new(0),
            short_since_micros: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
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

    /// Returns true once the engine is about to be closed: pending writes then go to the log
    /// however large the store's backlog is.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}

/// Ends the condition that `since_micros` records. Every write calls this, so the cache line is
/// only written to if it changes.
pub(crate) fn is_over(since_micros: &AtomicU64) {
    if since_micros.load(Ordering::Relaxed) != 0 {
        since_micros.store(0, Ordering::Relaxed);
    }
}

/// The duration of a state at `now_micros`; `since_micros` is zero until it is first seen.
pub(crate) fn lasted(since_micros: &AtomicU64, now_micros: u64) -> u64 {
    let now_micros = now_micros.max(1);
    let first = since_micros.compare_exchange(0, now_micros, Ordering::Relaxed, Ordering::Relaxed);
    first.err().map_or(0, |since| now_micros.saturating_sub(since))
}
