//! Means of waiting for the lock. The test of its interleavings has others under the same names.

use std::time::Instant;

pub use std::sync::atomic::AtomicU64;
pub use std::sync::{Condvar, Mutex, MutexGuard};
pub use std::thread::Thread;

/// How often a thread that has come in vain looks again before it goes to sleep: about as long as a
/// short transaction takes.
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

/// Sleeps until somebody wakes this thread, or `until`. It may also return for no reason.
pub fn park(until: Option<Instant>) {
    match until {
        None => std::thread::park(),
        Some(until) => std::thread::park_timeout(until.saturating_duration_since(now())),
    }
}
