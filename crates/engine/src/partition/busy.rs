//! Giving up on a lock that is held for long.
//!
//! A script may hold the partition's lock for any time. A thread that serves many connections must
//! not block meanwhile: it waits briefly, then gets [`Busy`], puts the request aside and continues
//! with others. A thread that gives up announces it; from then on no other thread waits in vain,
//! and the holder calls the listeners when it releases the lock.
//!
//! A listener may be missed: the announcement can arrive just after the lock was released. A thread
//! that waits for a listener therefore also polls.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

/// Something has kept the partition's lock for longer than the calling thread may wait. Nothing was
/// done; the same may succeed once the lock is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the partition is busy with something that takes long")]
pub struct Busy;

/// Time for which a thread that serves connections waits for the lock: longer than any usual hold.
const SERVING_TIMEOUT: Duration = Duration::from_millis(10);
/// Time for which any other thread waits.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

thread_local! {
    static SERVES_CONNECTIONS: Cell<bool> = const { Cell::new(false) };
}

/// Declares that the calling thread serves many connections: it never waits long for the
/// partition's lock.
pub fn serve_on_this_thread() {
    SERVES_CONNECTIONS.set(true);
}

/// While this value exists, the calling thread waits for the partition's lock as briefly as a
/// thread that serves connections, because such threads may be waiting for it.
pub struct BriefWaits {
    before: bool,
}

impl BriefWaits {
    /// From here on the calling thread waits briefly.
    pub fn begin() -> BriefWaits {
        BriefWaits {
            before: SERVES_CONNECTIONS.replace(true),
        }
    }
}

impl Drop for BriefWaits {
    fn drop(&mut self) {
        SERVES_CONNECTIONS.set(self.before);
    }
}

pub(crate) fn is_serving_thread() -> bool {
    SERVES_CONNECTIONS.get()
}

/// A listener's own part.
type Listen = dyn Fn() + Send + Sync;

/// A registered listener of the engine. Dropping it ends the calls.
#[must_use]
pub struct Listening {
    _listener: Arc<Listen>,
}

/// The listeners of one kind of event. Dropped listeners are removed when another is added.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<Weak<Listen>>>);

impl Listeners {
    pub fn add(&self, listener: Arc<Listen>) -> Listening {
        let mut all = self.0.lock();
        all.retain(|listener| listener.strong_count() > 0);
        all.push(Arc::downgrade(&listener));
        Listening { _listener: listener }
    }

    pub fn call(&self) {
        let all = self.0.lock();
        all.iter().filter_map(Weak::upgrade).for_each(|listener| listener());
    }
}

/// Records that a thread has given up on the lock, and notifies the listeners when it is free.
#[derive(Default)]
pub(crate) struct Announcement {
    is_busy: AtomicBool,
    listeners: Listeners,
}

impl Announcement {
    /// Time for which the calling thread may wait for the lock.
    pub fn timeout(&self) -> Duration {
        match (is_serving_thread(), self.is_busy()) {
            (false, _) => BUSY_TIMEOUT,
            (true, false) => SERVING_TIMEOUT,
            (true, true) => Duration::ZERO,
        }
    }

    pub fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    pub fn announce(&self) {
        self.is_busy.store(true, Ordering::SeqCst);
    }

    pub fn listen(&self, listener: Arc<Listen>) -> Listening {
        self.listeners.add(listener)
    }

    /// The lock was released.
    pub fn released(&self) {
        if self.is_busy() {
            self.is_busy.store(false, Ordering::SeqCst);
            self.call_listeners();
        }
    }

    pub fn call_listeners(&self) {
        self.listeners.call();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_listener_that_was_dropped_is_neither_called_nor_kept() {
        let (listeners, calls) = (Listeners::default(), Arc::new(AtomicU32::new(0)));
        let listen = || {
            let calls = calls.clone();
            listeners.add(Arc::new(move || {
                calls.fetch_add(1, Ordering::Relaxed);
            }))
        };
        let first = listen();
        let second = listen();
        listeners.call();
        drop(first);
        listeners.call();
        assert_eq!(calls.load(Ordering::Relaxed), 3);
        let third = listen();
        assert_eq!(listeners.0.lock().len(), 2);
        drop((second, third));
    }
}
