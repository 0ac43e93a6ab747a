//! The lock around the partition's state, and how its holder waits until the flusher has taken full
//! epochs.
//!
//! Admitting another thread between two transactions of one hold would surprise the holder. So it
//! only *lends* the lock while it waits: the flusher takes it; any other thread that obtains it
//! sees that it is lent, and waits until it is returned.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quartet_model::Version;

use crate::durability::epochs::Epoch;
use crate::durability::room::Room;
use crate::partition::busy::{Announcement, Busy, is_serving_thread};
use crate::partition::event::Event;
use crate::partition::raw::{Guard, Lock, SharedGuard, is_wanted};
use crate::partition::state::PartitionState;
use crate::partition::watch::WatchId;

/// With more queued, the holder of the lock waits.
const QUEUED_MAX: usize = 2;

/// A thread that was woken takes the lock within a few of these.
const GIVES_WAY: Duration = Duration::from_micros(20);
const GIVES_WAY_MAX: usize = 8;
/// Interval of checks for the end of a hold of requests.
const HELD_LOOK: Duration = Duration::from_millis(1);
/// The longest wait for it. The home may be another by then, and the waiting thread is to end.
const HELD_LONGEST: Duration = Duration::from_millis(200);

/// Cleanup that was put off because another thread kept the lock.
#[derive(Default)]
struct Left {
    /// Read versions of optimistic transactions that ended.
    readers: Vec<Version>,
    watches: Vec<WatchId>,
}

/// The lock around the partition's state, shared between readers and exclusive for a writer.
pub(crate) struct PartitionLock {
    state: Lock<PartitionState>,
    /// The flusher has taken epochs, or has stopped taking them.
    taken: Event,
    /// The lent lock was returned.
    returned: Event,
    /// The log has failed: epochs are no longer taken or acknowledged.
    failed: AtomicBool,
    /// Requests wait: threads that take the lock in time find the partition busy.
    is_held: AtomicBool,
    /// Requests wait from the end of this term on.
    holds_after_term: AtomicBool,
    pub announcement: Announcement,
    left: Mutex<Left>,
}

impl PartitionLock {
    pub fn new(state: PartitionState) -> PartitionLock {
        PartitionLock {
            state: Lock::new(state),
            taken: Event::new(),
            returned: Event::new(),
            failed: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            holds_after_term: AtomicBool::new(false),
            announcement: Announcement::default(),
            left: Mutex::default(),
        }
    }

    /// Locks the state to execute transactions.
    pub fn lock(&self) -> Guard<'_, PartitionState> {
        loop {
            let state = self.state.write();
            if !state.full_epochs.is_lent {
                return state;
            }
            let returns = self.returned.count();
            drop(state);
            self.returned.wait(returns);
        }
    }

    /// The same, but gives up after `timeout`.
    pub fn lock_within(&self, timeout: Duration) -> Option<Guard<'_, PartitionState>> {
        let deadline = Instant::now() + timeout;
        self.unlent_until(deadline, || self.state.try_write_until(deadline))
    }

    /// Locks the state for reading, shared with other readers.
    pub fn read(&self) -> SharedGuard<'_, PartitionState> {
        loop {
            let state = self.state.read();
            if !state.full_epochs.is_lent {
                return state;
            }
            let returns = self.returned.count();
            drop(state);
            self.returned.wait(returns);
        }
    }

    fn read_within(&self, timeout: Duration) -> Option<SharedGuard<'_, PartitionState>> {
        let deadline = Instant::now() + timeout;
        self.unlent_until(deadline, || self.state.try_read_until(deadline))
    }

    /// Takes the lock as `take` does until it is not lent. `None` at the deadline.
    fn unlent_until<G: std::ops::Deref<Target = PartitionState>>(
        &self,
        deadline: Instant,
        take: impl Fn() -> Option<G>,
    ) -> Option<G> {
        loop {
            let state = take()?;
            if !state.full_epochs.is_lent {
                return Some(state);
            }
            let returns = self.returned.count();
            drop(state);
            if !self.returned.wait_until(returns, deadline) {
                return None;
            }
        }
    }

    /// Lets waiters go first, for a moment.
    pub fn give_way(&self) {
        for _ in 0..GIVES_WAY_MAX {
            if !is_wanted(&self.state) {
                return;
            }
            thread::sleep(GIVES_WAY);
        }
    }

    /// As `lock`, but gives up after as long as the calling thread may wait.
    pub fn lock_in_time(&self) -> Result<Guard<'_, PartitionState>, Busy> {
        self.in_time(|| self.try_lock(), |timeout| self.lock_within(timeout))
    }

    /// As `read`, but gives up after as long as the calling thread may wait.
    pub fn read_in_time(&self) -> Result<SharedGuard<'_, PartitionState>, Busy> {
        self.in_time(|| self.try_read(), |timeout| self.read_within(timeout))
    }

    /// A thread that gives up tries once more after it has announced that: a holder that released
    /// the lock before it could see the announcement calls no listener.
    fn in_time<G>(&self, now: impl Fn() -> Option<G>, within: impl Fn(Duration) -> Option<G>) -> Result<G, Busy> {
        // Looked at with the lock, under which requests begin to be held.
        let now = || now().filter(|_| !self.is_held());
        let within = |timeout| within(timeout).filter(|_| !self.is_held());
        if self.is_held() {
            self.wait_while_held();
        }
        if let Some(state) = now() {
            return Ok(state);
        }
        let timeout = self.announcement.timeout();
        if let Some(state) = (!timeout.is_zero()).then(|| within(timeout)).flatten() {
            return Ok(state);
        }
        self.announcement.announce();
        now().ok_or(Busy)
    }

    /// Makes requests wait, after the running one; false if that has not ended within `timeout`.
    pub fn hold_requests(&self, timeout: Duration) -> bool {
        let Some(state) = self.lock_within(timeout) else {
            return false;
        };
        self.is_held.store(true, Ordering::SeqCst);
        drop(state);
        true
    }

    /// Ends [`PartitionLock::hold_requests`].
    pub fn release_requests(&self) {
        if self.is_held.swap(false, Ordering::SeqCst) {
            self.announcement.announce();
            self.announcement.released();
        }
    }

    /// Layers run in this term.
    pub fn hold_after_term(&self) {
        self.holds_after_term.store(true, Ordering::SeqCst);
    }

    /// A term starts, without layers.
    pub fn begin_term(&self) {
        self.holds_after_term.store(false, Ordering::SeqCst);
        self.release_requests();
    }

    /// The term ends. `_state`: under the lock, so that no request executes after the term.
    pub fn end_term(&self, _state: &mut PartitionState) {
        if self.holds_after_term.swap(false, Ordering::SeqCst) {
            self.is_held.store(true, Ordering::SeqCst);
        }
    }

    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    /// A thread that may wait does so for a moment, until requests are no longer held.
    fn wait_while_held(&self) {
        let deadline = Instant::now() + HELD_LONGEST;
        while !is_serving_thread() && self.is_held() && Instant::now() < deadline {
            thread::sleep(HELD_LOOK);
        }
    }

    fn try_lock(&self) -> Option<Guard<'_, PartitionState>> {
        self.state.try_write().filter(|state| !state.full_epochs.is_lent)
    }

    fn try_read(&self) -> Option<SharedGuard<'_, PartitionState>> {
        self.state.try_read().filter(|state| !state.full_epochs.is_lent)
    }

    /// Locks the state for maintenance, which may run between any two transactions: it does not
    /// wait for a lock that is lent.
    pub fn borrow(&self) -> Guard<'_, PartitionState> {
        self.state.write()
    }

    /// The same for reading only.
    pub fn look(&self) -> SharedGuard<'_, PartitionState> {
        self.state.read()
    }

    /// As `borrow`, but gives up after `timeout`.
    pub fn borrow_within(&self, timeout: Duration) -> Option<Guard<'_, PartitionState>> {
        self.state.try_write_for(timeout)
    }

    /// An optimistic transaction that read at `version` ended without the lock. Never waits.
    pub fn reader_ended(&self, version: Version) {
        match self.state.try_write() {
            Some(mut state) => state.reader_ended(version),
            None => self.left.lock().readers.push(version),
        }
    }

    /// Ends watches: now, or once the lock is free. Never waits.
    pub fn unwatch(&self, watches: Vec<WatchId>) {
        match self.state.try_write() {
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

    /// Queues `epoch`, notifies the flusher, and lends it the lock while the queue is full and the
    /// log takes epochs.
    pub fn push(&self, state: &mut Guard<'_, PartitionState>, epoch: Epoch, room: &Room, wake_flusher: impl FnOnce()) {
        self.push_leaving(QUEUED_MAX, state, epoch, room, wake_flusher);
    }

    /// Queues `epoch` and lends the lock until the flusher has taken it and all before it.
    pub fn hand_over(
        &self,
        state: &mut Guard<'_, PartitionState>,
        epoch: Epoch,
        room: &Room,
        wake_flusher: impl FnOnce(),
    ) {
        self.push_leaving(0, state, epoch, room, wake_flusher);
    }

    fn push_leaving(
        &self,
        queued_max: usize,
        state: &mut Guard<'_, PartitionState>,
        epoch: Epoch,
        room: &Room,
        wake_flusher: impl FnOnce(),
    ) {
        if self.has_failed() {
            return;
        }
        state.full_epochs.queue.push_back(epoch);
        wake_flusher();
        loop {
            // Before it looks: what changes after that is waited for.
            let takings = self.taken.count();
            let is_over = !state.is_home || self.has_failed() || room.is_stuck();
            if is_over || state.full_epochs.queue.len() <= queued_max {
                break;
            }
            state.full_epochs.is_lent = true;
            Guard::unlocked(state, || self.taken.wait(takings));
        }
        self.give_back(state);
    }

    fn give_back(&self, state: &mut PartitionState) {
        if std::mem::take(&mut state.full_epochs.is_lent) {
            self.returned.happens();
        }
    }

    /// The oldest full epoch, for the flusher.
    pub fn pop(&self, state: &mut PartitionState) -> Option<Epoch> {
        let epoch = state.full_epochs.queue.pop_front();
        if epoch.is_some() {
            self.taken.happens();
        }
        epoch
    }

    /// All full epochs, oldest first, for the flusher.
    pub fn pop_all(&self, state: &mut PartitionState) -> VecDeque<Epoch> {
        self.taken.happens();
        std::mem::take(&mut state.full_epochs.queue)
    }

    /// Releases the threads that wait for the flusher, which has ended.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
        self.release();
    }

    /// Wakes the threads that wait for the flusher to take epochs, once they have a reason to wait
    /// no longer.
    pub fn release(&self) {
        self.taken.happens();
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
                    let mut state = lock.state.write();
                    let takings = lock.taken.count();
                    state.full_epochs.is_lent = true;
                    lent.send(()).unwrap();
                    Guard::unlocked(&mut state, || lock.taken.wait(takings));
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
