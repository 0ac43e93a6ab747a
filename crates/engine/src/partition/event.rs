//! Something that happens again and again, to be waited for without the partition's lock.
//!
//! A waiter notes the count before it looks whether it has to: what happens after that look ends
//! the waiting, so no notice is lost.

use std::sync::PoisonError;
use std::time::Instant;

use super::primitives::{Condvar, Mutex, MutexGuard, now};

/// Counts occurrences of an event.
pub struct Event {
    count: Mutex<u64>,
    happened: Condvar,
}

impl Event {
    pub const fn new() -> Event {
        Event {
            count: Mutex::new(0),
            happened: Condvar::new(),
        }
    }

    pub fn count(&self) -> u64 {
        *self.counted()
    }

    pub fn happens(&self) {
        *self.counted() += 1;
        self.happened.notify_all();
    }

    /// Waits until it has happened after `count` was read.
    pub fn wait(&self, count: u64) {
        let waited = self.happened.wait_while(self.counted(), |now| *now == count);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// The same, but gives up at `deadline`, and returns false.
    pub fn wait_until(&self, count: u64, deadline: Instant) -> bool {
        let timeout = deadline.saturating_duration_since(now());
        let waited = self
            .happened
            .wait_timeout_while(self.counted(), timeout, |now| *now == count);
        let (counted, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *counted != count
    }

    /// No thread panics while it holds it.
    fn counted(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
