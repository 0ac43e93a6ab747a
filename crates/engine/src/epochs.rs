//! Epochs that are full, and how the lock's holder waits until the flusher has taken them.
//!
//! One hold of the lock may commit more than a log record can carry, or than memory should keep. So an epoch that has grown
//! to its limit is closed at the end of a transaction and queued, and the holder waits while too many are queued.
//!
//! Letting somebody in between two transactions of one hold would surprise the holder. So it only *lends* the lock while it
//! waits: the flusher takes it, everybody else who gets hold of it sees that it is lent, and waits until it is returned.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use quartet_model::Version;

use crate::home::HomeState;
use crate::room::Room;

/// Committed transactions that become durable together, as one log record.
pub(crate) struct Epoch {
    pub payload: Vec<u8>,
    /// Of the newest transaction in it and before it.
    pub version: Version,
    /// Somebody waits for it to be durable.
    pub needs_sync: bool,
}

/// With more queued, the holder of the lock waits.
const QUEUED_MAX: usize = 2;

/// What the lock guards of all this.
#[derive(Default)]
pub(crate) struct FullEpochs {
    /// Oldest first.
    queue: VecDeque<Epoch>,
    is_lent: bool,
}

/// The lock around the partition's state.
pub(crate) struct HomeLock {
    state: Mutex<HomeState>,
    taken: Condvar,
    returned: Condvar,
    /// The log has failed: nobody takes epochs any more, and none is ever acknowledged.
    failed: AtomicBool,
}

impl HomeLock {
    pub fn new(state: HomeState) -> HomeLock {
        HomeLock {
            state: Mutex::new(state),
            taken: Condvar::new(),
            returned: Condvar::new(),
            failed: AtomicBool::new(false),
        }
    }

    /// For whoever executes transactions.
    pub fn lock(&self) -> MutexGuard<'_, HomeState> {
        let mut state = self.state.lock();
        while state.full_epochs.is_lent {
            self.returned.wait(&mut state);
        }
        state
    }

    /// The same, but gives up after about `patience`.
    pub fn lock_within(&self, patience: Duration) -> Option<MutexGuard<'_, HomeState>> {
        let mut state = self.state.try_lock_for(patience)?;
        let is_lent = |state: &mut HomeState| state.full_epochs.is_lent;
        let waited = self.returned.wait_while_for(&mut state, is_lent, patience);
        (!waited.timed_out()).then_some(state)
    }

    /// For whoever only looks or tidies up, which may be done between any two transactions: it does not wait for a lock
    /// that is lent.
    pub fn borrow(&self) -> MutexGuard<'_, HomeState> {
        self.state.lock()
    }

    /// Queues `epoch`, tells the flusher, and lends it the lock while too many are queued and the log takes them.
    pub fn push(&self, state: &mut MutexGuard<'_, HomeState>, epoch: Epoch, room: &Room, wake_flusher: impl FnOnce()) {
        if self.has_failed() {
            return;
        }
        state.full_epochs.queue.push_back(epoch);
        wake_flusher();
        while state.full_epochs.queue.len() > QUEUED_MAX && !self.has_failed() && !room.is_stuck() {
            state.full_epochs.is_lent = true;
            self.taken.wait(state);
        }
        if std::mem::take(&mut state.full_epochs.is_lent) {
            self.returned.notify_all();
        }
    }

    /// The oldest full epoch, for the flusher.
    pub fn pop(&self, state: &mut MutexGuard<'_, HomeState>) -> Option<Epoch> {
        let epoch = state.full_epochs.queue.pop_front();
        if epoch.is_some() {
            self.taken.notify_all();
        }
        epoch
    }

    /// The flusher has ended: lets those go who wait for it.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
        self.release();
    }

    /// Lets those look again who wait for the flusher to take epochs. Whoever has looked before holds the lock until it waits,
    /// and then is notified.
    pub fn release(&self) {
        drop(self.state.lock());
        self.taken.notify_all();
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}
