//! The lock around the partition's state, and how its holder waits until the flusher has taken full
//! epochs.
//!
//! Letting somebody in between two transactions of one hold would surprise the holder. So it only
//! *lends* the lock while it waits: the flusher takes it, everybody else who gets hold of it sees
//! that it is lent, and waits until it is returned.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use quartet_model::Version;

use crate::durability::epochs::Epoch;
use crate::durability::room::Room;
use crate::partition::busy::{Announcement, Busy};
use crate::partition::state::PartitionState;
use crate::partition::watch::WatchId;

/// With more queued, the holder of the lock waits.
const QUEUED_MAX: usize = 2;

/// Cleanup that was put off because another thread kept the lock.
#[derive(Default)]
struct Left {
    /// Read versions of optimistic transactions that ended.
    readers: Vec<Version>,
    watches: Vec<WatchId>,
}

/// The lock around the partition's state.
pub(crate) struct PartitionLock {
    state: Mutex<PartitionState>,
    taken: Condvar,
    /// How often the lent lock was returned. Waited for without the lock itself, which whoever
    /// returns it may keep for long.
    returns: Mutex<u64>,
    returned: Condvar,
    /// The log has failed: nobody takes epochs any more, and none is ever acknowledged.
    failed: AtomicBool,
    pub announcement: Announcement,
    left: Mutex<Left>,
}

impl PartitionLock {
    pub fn new(state: PartitionState) -> PartitionLock {
        PartitionLock {
            state: Mutex::new(state),
            taken: Condvar::new(),
            returns: Mutex::new(0),
            returned: Condvar::new(),
            failed: AtomicBool::new(false),
            announcement: Announcement::default(),
            left: Mutex::default(),
        }
    }

    /// For whoever executes transactions.
    pub fn lock(&self) -> MutexGuard<'_, PartitionState> {
        loop {
            let state = self.state.lock();
            if !state.full_epochs.is_lent {
                return state;
            }
            let seen = *self.returns.lock();
            drop(state);
            let mut returns = self.returns.lock();
            self.returned.wait_while(&mut returns, |returns| *returns == seen);
        }
    }

    /// The same, but gives up after about `timeout`.
    pub fn lock_within(&self, timeout: Duration) -> Option<MutexGuard<'_, PartitionState>> {
        let state = self.state.try_lock_for(timeout)?;
        if !state.full_epochs.is_lent {
            return Some(state);
        }
        let seen = *self.returns.lock();
        drop(state);
        let is_out = |returns: &mut u64| *returns == seen;
        let mut returns = self.returns.lock();
        let waited = self.returned.wait_while_for(&mut returns, is_out, timeout);
        drop(returns);
        if waited.timed_out() {
            return None;
        }
        let state = self.state.try_lock_for(timeout);
        state.filter(|state| !state.full_epochs.is_lent)
    }

    /// The same, but gives up after as long as the calling thread may wait.
    pub fn lock_in_time(&self) -> Result<MutexGuard<'_, PartitionState>, Busy> {
        if let Some(state) = self.try_lock() {
            return Ok(state);
        }
        let timeout = self.announcement.timeout();
        let in_time = (!timeout.is_zero()).then(|| self.lock_within(timeout)).flatten();
        in_time.map_or_else(|| self.announce_busy(), Ok)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, PartitionState>> {
        self.state.try_lock().filter(|state| !state.full_epochs.is_lent)
    }

    /// Looks once more afterwards: a holder that let go before it could see the announcement tells
    /// nobody.
    fn announce_busy(&self) -> Result<MutexGuard<'_, PartitionState>, Busy> {
        self.announcement.announce();
        self.try_lock().ok_or(Busy)
    }

    /// For whoever only looks or tidies up, which may be done between any two transactions: it does
    /// not wait for a lock that is lent.
    pub fn borrow(&self) -> MutexGuard<'_, PartitionState> {
        self.state.lock()
    }

    /// The same, but gives up after `timeout`.
    pub fn borrow_within(&self, timeout: Duration) -> Option<MutexGuard<'_, PartitionState>> {
        self.state.try_lock_for(timeout)
    }

    /// An optimistic transaction that read at `version` ended without the lock. Never waits.
    pub fn reader_ended(&self, version: Version) {
        match self.state.try_lock() {
            Some(mut state) => state.reader_ended(version),
            None => self.left.lock().readers.push(version),
        }
    }

    /// Ends watches: now, or once the lock is free. Never waits.
    pub fn unwatch(&self, watches: Vec<WatchId>) {
        match self.state.try_lock() {
            Some(mut state) => watches.into_iter().for_each(|watch| state.watches.remove(watch)),
            None => self.left.lock().watches.extend(watches),
        }
    }

    /// Tidies up what was left.
    pub fn tidy(&self, state: &mut PartitionState) {
        let left = std::mem::take(&mut *self.left.lock());
        left.readers.into_iter().for_each(|version| state.reader_ended(version));
        left.watches.into_iter().for_each(|watch| state.watches.remove(watch));
    }

    /// Queues `epoch`, tells the flusher, and lends it the lock while too many are queued and the
    /// log takes them.
    pub fn push(
        &self,
        state: &mut MutexGuard<'_, PartitionState>,
        epoch: Epoch,
        room: &Room,
        wake_flusher: impl FnOnce(),
    ) {
        self.push_leaving(QUEUED_MAX, state, epoch, room, wake_flusher);
    }

    /// Queues `epoch` and lends the lock until the flusher has taken it and all before it.
    pub fn hand_over(
        &self,
        state: &mut MutexGuard<'_, PartitionState>,
        epoch: Epoch,
        room: &Room,
        wake_flusher: impl FnOnce(),
    ) {
        self.push_leaving(0, state, epoch, room, wake_flusher);
    }

    fn push_leaving(
        &self,
        queued_max: usize,
        state: &mut MutexGuard<'_, PartitionState>,
        epoch: Epoch,
        room: &Room,
        wake_flusher: impl FnOnce(),
    ) {
        if self.has_failed() {
            return;
        }
        state.full_epochs.queue.push_back(epoch);
        wake_flusher();
        while state.is_home && state.full_epochs.queue.len() > queued_max && !self.has_failed() && !room.is_stuck() {
            state.full_epochs.is_lent = true;
            self.taken.wait(state);
        }
        self.give_back(state);
    }

    fn give_back(&self, state: &mut PartitionState) {
        if std::mem::take(&mut state.full_epochs.is_lent) {
            *self.returns.lock() += 1;
            self.returned.notify_all();
        }
    }

    /// The oldest full epoch, for the flusher.
    pub fn pop(&self, state: &mut MutexGuard<'_, PartitionState>) -> Option<Epoch> {
        let epoch = state.full_epochs.queue.pop_front();
        if epoch.is_some() {
            self.taken.notify_all();
        }
        epoch
    }

    /// All full epochs, oldest first, for the flusher.
    pub fn pop_all(&self, state: &mut MutexGuard<'_, PartitionState>) -> VecDeque<Epoch> {
        self.taken.notify_all();
        std::mem::take(&mut state.full_epochs.queue)
    }

    /// The flusher has ended: lets those go who wait for it.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
        self.release();
    }

    /// Wakes the threads that wait for the flusher to take epochs. A thread that has checked before
    /// holds the lock until it waits, and is then notified.
    pub fn release(&self) {
        drop(self.state.lock());
        self.taken.notify_all();
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use quartet_env::FaultyDisk;
    use quartet_store::{PartitionStore, StoreOptions};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);
    const FOREVER: Duration = Duration::from_secs(60);

    /// A thread that had waited for a lent lock to be returned waited on without end when a script
    /// then kept it.
    #[test]
    fn a_lock_that_was_returned_and_is_kept_is_not_waited_for() {
        let disk = std::sync::Arc::new(FaultyDisk::new());
        for _ in 0..10 {
            let opened = PartitionStore::open(disk.clone(), &StoreOptions::default(), &mut |_| {}).unwrap();
            let lock = &PartitionLock::new(PartitionState::new(opened.store, Version::ZERO));
            let ((lent, is_lent), (let_go, may_let_go), (gave_up, has_given_up)) =
                (mpsc::channel(), mpsc::channel::<()>(), mpsc::channel());
            let outcome = thread::scope(|scope| {
                scope.spawn(move || {
                    let mut state = lock.state.lock();
                    state.full_epochs.is_lent = true;
                    lent.send(()).unwrap();
                    lock.taken.wait(&mut state);
                    lock.give_back(&mut state);
                    may_let_go.recv().unwrap();
                });
                is_lent.recv().unwrap();
                scope.spawn(move || gave_up.send(lock.lock_within(PATIENCE).is_none()).unwrap());
                (0..100).for_each(|_| thread::yield_now());
                lock.release();
                let outcome = has_given_up.recv_timeout(FOREVER);
                let_go.send(()).unwrap();
                outcome
            });
            assert_eq!(outcome, Ok(true));
        }
    }
}
