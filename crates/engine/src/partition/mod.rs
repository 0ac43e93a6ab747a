//! The partition's lock, held, and short transactions under it.
//!
//! The holder of a [`PartitionGuard`] executes any number of transactions, each atomic on its own;
//! dropping it lets the next thread in.

pub(crate) mod before_long;
pub(crate) mod busy;
mod event;
mod fair_lock;
pub(crate) mod frozen;
pub(crate) mod hold_times;
pub(crate) mod lock;
mod primitives;
pub(crate) mod raw;
pub(crate) mod read_guard;
pub(crate) mod reader;
mod reading;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod statistics;
pub(crate) mod transaction;
pub(crate) mod watch;

use quartet_model::{KeyRange, Version};

use crate::partition::before_long::Shown;
use crate::partition::busy::Announcement;
use crate::partition::fair_lock::Mode;
use crate::partition::hold_times::Stopwatch;
use crate::partition::raw::Guard;
use crate::partition::shared::Shared;
use crate::partition::state::PartitionState;
use crate::partition::state::{Change, Dependency};
use crate::partition::statistics::Statistics;
use crate::partition::transaction::{Refused, Transaction};
use crate::partition::watch::{Callback, WatchId};
use crate::space::{SPACE_BYTES, Space};

/// An epoch that will not be synced at once is still handed to the log when it has grown to this
/// size.
const PENDING_BYTES_WAKE: usize = 1 << 20;

/// The transaction was rolled back and has changed nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum ExecuteError<E> {
    /// The answer of the layer's code. It may rest on the code's reads: send it once the dependency
    /// is durable.
    Layer(E, Dependency),
    /// A key, a value or the transaction's effects exceed the limits of `quartet_model` (keys 64
    /// KiB, values 512 MiB) or 1 GiB for all effects. Retrying cannot help. Send it once the
    /// dependency is durable.
    TooLarge(Dependency),
    /// The disk has no room for its effects. Reads and deletions continue, and it may succeed once
    /// there is room. Send it once the dependency is durable.
    DiskFull(Dependency),
    /// The disk did not return something that the transaction read, so the answer of the layer's
    /// code is worthless. The reason is in the server's log. It may succeed another time. Send it
    /// once the dependency is durable.
    Unreadable(Dependency),
    /// Nothing was executed: another node is home, or this one cannot prove at present that it is;
    /// or the database has moved to another partition.
    NotHome,
}

impl<E> From<Refused> for ExecuteError<E> {
    fn from(refused: Refused) -> ExecuteError<E> {
        match refused {
            Refused::TooLarge(dependency) => ExecuteError::TooLarge(dependency),
            Refused::DiskFull(dependency) => ExecuteError::DiskFull(dependency),
            Refused::Unsure => ExecuteError::NotHome,
        }
    }
}

/// The partition's lock, held.
pub struct PartitionGuard<'e> {
    shared: &'e Shared,
    state: Guard<'e, PartitionState>,
    now_micros: u64,
    stopwatch: Stopwatch,
    /// Declared after the guard: it is dropped once the lock is free.
    _release: Release<'e>,
    /// The state before this holder's transaction that others have read. Declared after the
    /// release, as is `spent`: dropping them takes as long as the transaction had rows, and no
    /// client waits for it.
    before: Option<Shown>,
    spent: Vec<Change>,
}

/// Notifies the threads that gave up waiting that the lock is free.
struct Release<'e>(&'e Announcement);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.released();
    }
}

impl<'e> PartitionGuard<'e> {
    pub(crate) fn new(shared: &'e Shared, state: Guard<'e, PartitionState>) -> PartitionGuard<'e> {
        PartitionGuard {
            shared,
            state,
            now_micros: shared.clock.now_micros(),
            stopwatch: Stopwatch::begin(&*shared.runtime),
            _release: Release(&shared.partition.announcement),
            before: None,
            spent: Vec::new(),
        }
    }

    /// Hands what was committed before to the flusher, for a holder that may take long: replies
    /// that wait for it leave meanwhile.
    pub(crate) fn hand_over_pending(&mut self) {
        if !self.state.pending.is_empty() {
            let Shared { partition, room, .. } = self.shared;
            let epoch = self.state.close_epoch(Vec::new(), room);
            self.shared.note_epochs(0);
            partition.hand_over(&mut self.state, epoch, room, || self.shared.flusher.wake());
        }
    }

    /// Lets others read the latest state without the lock until this holder's next commit, which
    /// takes long. Each first change of a node of the tree copies the node from now on.
    pub fn show_state(&mut self) {
        if self.state.is_home {
            self.shared.before_long.show(&self.state);
            self.shared.partition.announcement.call_listeners();
        }
    }

    /// The time that every transaction under this lock sees, in microseconds since the Unix epoch.
    pub fn now_micros(&self) -> u64 {
        self.now_micros
    }

    /// Makes every later commit land above `micros` since the Unix epoch, until the engine is
    /// closed. For a layer that shows times which are in no record of the log.
    pub fn land_above(&self, micros: u64) {
        self.state.land_above(micros);
    }

    /// The version of the latest commit.
    pub fn last_version(&self) -> Version {
        self.state.last_version()
    }

    /// Reads the clock again, for a holder that executes many transactions.
    pub fn refresh_now(&mut self) {
        self.now_micros = self.shared.clock.now_micros();
    }

    /// Runs `body` as one transaction at the latest state. `Err` rolls it back. Waits while the log
    /// cannot keep up; no other transaction runs in between.
    pub fn execute<R, E>(
        &mut self,
        space: Space,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<(R, Dependency), ExecuteError<E>> {
        if !self.state.executes(space.database) {
            return Err(ExecuteError::NotHome);
        }
        self.execute_here(space, body)
    }

    /// The same for a database that is not here, or not yet.
    pub(crate) fn execute_here<R, E>(
        &mut self,
        space: Space,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<(R, Dependency), ExecuteError<E>> {
        self.stopwatch.executes(space.layer);
        let durable = self.shared.durable();
        let mut transaction = Transaction::new(&mut self.state, &self.shared.room, space, durable, self.now_micros);
        let Some(answer) = transaction.run(body) else {
            return Err(ExecuteError::Unreadable(transaction.failure_dependency()));
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Err(ExecuteError::Layer(error, transaction.failure_dependency())),
        };
        let has_written = transaction.has_written();
        let grown_bytes = transaction.grown_bytes();
        // A watcher that is notified of the commit never reads the state before it.
        if transaction.has_watchers() && self.shared.before_long.is_shown() {
            self.before = self.shared.before_long.withdraw();
        }
        let committed = transaction.commit();
        if self.shared.before_long.is_shown() {
            self.before = self.shared.before_long.withdraw();
        }
        let dependency = committed?;
        self.shared.statistics.transaction_ended(has_written);
        if has_written {
            self.shared.stored.add(space.database, grown_bytes);
        }
        if self.state.pending.len() >= self.shared.epoch_bytes_max {
            let Shared { partition, room, .. } = self.shared;
            let epoch = self.state.close_epoch(self.shared.buffer_for_full_epoch(), room);
            self.shared.note_epochs(0);
            partition.push(&mut self.state, epoch, room, || self.shared.flusher.wake());
        }
        if has_written && (!self.shared.is_all_in_memory || self.shared.standing.is_some()) {
            self.shared.note_gathered(&self.state);
        }
        Ok((answer, dependency))
    }

    /// Frees cleared ranges immediately, instead of leaving them to the flusher: for clears that
    /// relieve a shortage of memory.
    pub fn free_cleared(&mut self) {
        for (database, cleared) in std::mem::take(&mut self.state.garbage) {
            self.shared.stored.freed(database, &cleared);
        }
    }

    /// The dependency of an answer that may depend on anything committed before.
    pub fn latest_dependency(&self, space: Space) -> Dependency {
        self.shared.latest_dependency(&self.state, space)
    }

    /// Calls `callback` with the key whenever `key` of `space` is written, cleared or touched by a
    /// committed transaction.
    pub fn watch_key(&mut self, space: Space, key: &[u8], callback: Callback) -> WatchId {
        self.state.watches.add_point([&space.prefix(), key].concat(), callback)
    }

    /// The same for every key of a range.
    pub fn watch_range(&mut self, space: Space, range: &KeyRange, callback: Callback) -> WatchId {
        let prefix = space.prefix();
        let range = KeyRange::new(
            [&prefix, range.start.as_slice()].concat(),
            [&prefix, range.end.as_slice()].concat(),
        );
        self.state.watches.add_range(range, callback)
    }

    /// Ends a watch.
    pub fn unwatch(&mut self, id: WatchId) {
        self.state.watches.remove(id);
    }

    /// The part of a watched key that the layer knows.
    pub fn layer_key(full_key: &[u8]) -> &[u8] {
        &full_key[SPACE_BYTES.min(full_key.len())..]
    }

    pub(crate) fn state(&mut self) -> &mut PartitionState {
        &mut self.state
    }

    pub(crate) fn statistics(&self) -> &Statistics {
        &self.shared.statistics
    }
}

impl Drop for PartitionGuard<'_> {
    fn drop(&mut self) {
        if self.shared.before_long.is_shown() {
            self.before = self.shared.before_long.withdraw();
        }
        self.spent = std::mem::take(&mut self.state.spent);
        // Readers that wait for a sync wake the flusher (`Engine::is_durable`).
        let wakes_above = if self.shared.flusher.is_idle() {
            0
        } else {
            PENDING_BYTES_WAKE
        };
        if self.state.pending.len() > wakes_above {
            self.shared.note_epochs(self.state.pending.len());
            self.shared.flusher.wake();
        }
        let Shared {
            runtime, statistics, ..
        } = self.shared;
        self.stopwatch.end(&**runtime, Mode::Alone, &statistics.hold_times);
    }
}
