//! Means of waiting for the lock. The test of its interleavings has others under the same names.

use std::time::Instant;

pub use std::sync::atomic::AtomicU64;
pub use std::sync::{Condvar, Mutex, MutexGuard};
pub use std::thread::Thread;

/// The number of checks by a thread that finds the lock taken, before it sleeps: about the duration
/// of a short transaction.
pub const SPINS: u32 = 40;

pub fn now() -> Instant {
    Instant::now()
}

pub fn spin() {
    std::hint::spin_loop();
}

pub fn current() -> Thread {
    std::thread::current()
}

/// Sleeps until another thread wakes this thread, or until `until`. May also return spuriously.
pub fn park(until: Option<Instant>) {
    match until {
        None => std::thread::park(),
        Some(until) => std::thread::park_timeout(until.saturating_duration_since(now())),
    }
}
