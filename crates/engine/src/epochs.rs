//! Epochs that are full, on their way from the lock's holder to the flusher.
//!
//! One hold of the lock may commit more than a log record can carry, or than memory should keep. So an epoch that has grown
//! to its limit is closed at the end of a transaction and queued here, and the holder waits while too many are queued.
//!
//! The holder waits with the lock in its hand: letting somebody in between its transactions would surprise it. Therefore
//! the flusher takes from here without the lock, and never waits long for the lock before it looks here again.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};
use quartet_model::Version;

/// Committed transactions that become durable together, as one log record.
pub(crate) struct Epoch {
    pub payload: Vec<u8>,
    /// Of the newest transaction in it and before it.
    pub version: Version,
    /// Somebody waits for it to be durable.
    pub needs_sync: bool,
}

/// With these queued, the holder of the lock waits.
const QUEUED_MAX: usize = 2;

#[derive(Default)]
pub(crate) struct FullEpochs {
    queue: Mutex<Queue>,
    taken: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Oldest first.
    epochs: VecDeque<Epoch>,
    /// Nobody takes epochs any more: the log has failed.
    abandoned: bool,
}

impl FullEpochs {
    /// Queues `epoch`, tells the flusher, and waits while more are queued than memory should keep.
    pub fn push(&self, epoch: Epoch, wake_flusher: impl FnOnce()) {
        let mut queue = self.queue.lock();
        if queue.abandoned {
            return;
        }
        queue.epochs.push_back(epoch);
        wake_flusher();
        while queue.epochs.len() > QUEUED_MAX {
            self.taken.wait(&mut queue);
        }
    }

    pub fn pop(&self) -> Option<Epoch> {
        let epoch = self.queue.lock().epochs.pop_front();
        self.taken.notify_all();
        epoch
    }

    pub fn is_empty(&self) -> bool {
        self.queue.lock().epochs.is_empty()
    }

    /// Lets those go who wait. What is queued, and what comes, is never acknowledged.
    pub fn abandon(&self) {
        let mut queue = self.queue.lock();
        queue.abandoned = true;
        queue.epochs.clear();
        self.taken.notify_all();
    }
}
