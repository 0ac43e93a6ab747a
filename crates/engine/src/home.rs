//! The partition's current state and the lock around it.
//!
//! A [`Home`] is the lock held. Whoever holds it executes any number of transactions, each atomic on its own; dropping it
//! lets the next thread in.
//!
//! Invariants: versions of committed transactions strictly increase, and reach the log; `full_epochs` and then `pending` hold
//! exactly the effects of committed transactions that the flusher has not taken yet, in version order; the journal is empty
//! between transactions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::MutexGuard;
use quartet_model::{EffectsWriter, KeyRange, Version};
use quartet_store::{Cleared, Row, Snapshot, Store};

use crate::busy::Announcement;
use crate::changes::{Generation, RecentChanges};
use crate::epochs::{Epoch, FullEpochs};
use crate::room::Room;
use crate::transaction::{Refused, SPACE_BYTES, Transaction};
use crate::watch::{Callback, WatchId, Watches};
use crate::{Durability, Engine, Hold, Shared, Space};

/// Interactive clients may commit against a read version this old.
pub(crate) const CONFLICT_WINDOW_MICROS: u64 = 5_000_000;
/// An epoch that will not be synced at once is still handed to the log when it has grown to this size.
const PENDING_BYTES_WAKE: usize = 1 << 20;
/// The journal keeps room for so many changes.
const JOURNAL_CHANGES_KEPT: usize = 1024;
/// A transaction whose effects have grown larger than this is refused. Its last effect may exceed it by one row.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 1 << 30;

/// The transaction was rolled back and has changed nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum ExecuteError<E> {
    /// What the layer's code answered.
    /// It may rest on what the code had read: it may be told once the hold is durable.
    Layer(E, Hold),
    /// A key, a value or the transaction's effects exceed the limits of `quartet_model` (keys 64 KiB, values 512 MiB) or
    /// 1 GiB for all effects. Retrying cannot help. Told once the hold is durable.
    TooLarge(Hold),
    /// The disk has no room for its effects. Reads and deletions go on, and it may succeed once there is room. Told once
    /// the hold is durable.
    DiskFull(Hold),
}

impl<E> From<Refused> for ExecuteError<E> {
    fn from(refused: Refused) -> ExecuteError<E> {
        match refused {
            Refused::TooLarge(hold) => ExecuteError::TooLarge(hold),
            Refused::DiskFull(hold) => ExecuteError::DiskFull(hold),
        }
    }
}

/// One step of the open transaction: how to take it back, and what to tell the watchers.
pub(crate) enum Change {
    Set {
        new: Row,
        old: Option<Row>,
    },
    Cleared {
        old: Row,
    },
    ClearedRange {
        range: KeyRange,
        cleared: Cleared,
        /// The watches of what was there.
        watches: Vec<WatchId>,
    },
    Touched {
        key: Vec<u8>,
    },
}

pub(crate) struct HomeState {
    pub store: Box<dyn Store>,
    /// Of the newest transaction in the log or on its way there; while a transaction is open it may be that one's. A version
    /// that does not reach the log is never seen outside: after a restart with the clock set back it may be given again.
    last: Version,
    pub full_epochs: FullEpochs,
    pub pending: EffectsWriter,
    /// `pending` holds effects whose acknowledgement waits for a sync.
    pub pending_needs_sync: bool,
    pub changes: RecentChanges,
    pub watches: Watches,
    pub journal: Vec<Change>,
    /// Scratch for building full keys.
    pub key: Vec<u8>,
    /// Read versions of the optimistic transactions that are running, with how many run at each.
    readers: BTreeMap<Version, usize>,
    /// Interactive commits may arrive until this time.
    interactive_until_micros: u64,
    /// Cleared rows, dropped by the flusher outside the lock.
    pub garbage: Vec<Cleared>,
    /// How many of them the flusher has taken and not dropped yet.
    pub being_freed: Arc<AtomicUsize>,
}

impl HomeState {
    pub fn new(store: Box<dyn Store>, last: Version) -> HomeState {
        HomeState {
            store,
            last,
            full_epochs: FullEpochs::default(),
            pending: EffectsWriter::default(),
            pending_needs_sync: false,
            changes: RecentChanges::after(last),
            watches: Watches::default(),
            journal: Vec::new(),
            key: Vec::new(),
            readers: BTreeMap::new(),
            interactive_until_micros: 0,
            garbage: Vec::new(),
            being_freed: Arc::default(),
        }
    }

    pub fn last_version(&self) -> Version {
        self.last
    }

    /// What a reader of everything has to wait for.
    pub fn hold_of_everything(&self, durable: Version) -> Hold {
        if self.last > durable { self.last } else { Version::ZERO }
    }

    pub fn next_version(&mut self, now_micros: u64) -> Version {
        self.last = Version(now_micros.max(self.last.0 + 1));
        self.last
    }

    /// Ends the epoch: everything committed since the one before. `spare` is a buffer for the next.
    pub fn close_epoch(&mut self, spare: Vec<u8>, room: &Room) -> Epoch {
        room.take(self.pending.len());
        Epoch {
            payload: self.pending.take(spare),
            version: self.last,
            needs_sync: std::mem::take(&mut self.pending_needs_sync),
        }
    }

    pub fn snapshot(&self) -> Arc<dyn Snapshot> {
        self.store.snapshot()
    }

    /// Closes the open transaction: its version and effects join the epoch.
    pub fn commit(&mut self, version: Version, durability: Durability) {
        self.pending.commit(version);
        self.pending_needs_sync |= durability == Durability::Always;
        self.close_journal(version, durability);
    }

    /// Closes the open transaction, which had no effects. `last` is the version before it: its own is taken back.
    pub fn commit_without_effects(&mut self, last: Version) {
        self.pending.rollback();
        self.last = last;
        self.close_journal(last, Durability::Always);
    }

    /// Keeps the evidence of what was cleared, all of it before any watcher is told: these are a layer's, and may panic.
    fn close_journal(&mut self, version: Version, durability: Durability) {
        let mut journal = std::mem::take(&mut self.journal);
        let keep = durability == Durability::Always || self.certification_expected();
        for change in &journal {
            match change {
                Change::Cleared { old } if keep => self.changes.add_point(old.key(), version),
                Change::Cleared { old } => self.changes.add_unrecorded(old.key(), version),
                Change::ClearedRange { range, .. } if keep => self.changes.add_range(range, version),
                Change::ClearedRange { range, .. } => self.changes.add_unrecorded(&range.start, version),
                Change::Set { .. } | Change::Touched { .. } => {}
            }
        }
        if !self.watches.is_empty() {
            journal.iter().for_each(|change| self.tell_watchers(change));
        }
        for change in journal.drain(..) {
            if let Change::ClearedRange { cleared, .. } = change {
                self.garbage.push(cleared);
            }
        }
        journal.shrink_to(JOURNAL_CHANGES_KEPT);
        self.journal = journal;
    }

    fn tell_watchers(&self, change: &Change) {
        match change {
            Change::Set { new, .. } => self.watches.key_changed(new.key()),
            Change::Touched { key } => self.watches.key_changed(key),
            Change::Cleared { old } => self.watches.key_changed(old.key()),
            Change::ClearedRange { range, watches, .. } => {
                watches.iter().for_each(|&id| self.watches.tell(id, &range.start));
            }
        }
    }

    /// Takes back the open transaction. `last` is the version before it.
    pub fn rollback(&mut self, last: Version) {
        self.pending.rollback();
        self.last = last;
        while let Some(change) = self.journal.pop() {
            match change {
                Change::Set { old: Some(old), .. } | Change::Cleared { old } => {
                    self.store.set(old);
                }
                Change::Set { new, old: None } => {
                    self.store.clear(new.key());
                }
                Change::ClearedRange { cleared, .. } => self.store.restore(&cleared),
                Change::Touched { .. } => {}
            }
        }
    }

    pub fn reader_started(&mut self, version: Version) {
        *self.readers.entry(version).or_default() += 1;
    }

    pub fn reader_ended(&mut self, version: Version) {
        if let Some(count) = self.readers.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                self.readers.remove(&version);
            }
        }
    }

    pub fn interactive_reader(&mut self, now_micros: u64) {
        self.interactive_until_micros = now_micros.max(self.last.0) + CONFLICT_WINDOW_MICROS;
    }

    fn certification_expected(&self) -> bool {
        !self.readers.is_empty() || self.interactive_until_micros >= self.last.0
    }

    /// Forgets the evidence that nobody can need any more. What it returns is to be freed without the lock.
    #[must_use]
    pub fn forget_changes(&mut self, durable: Version, now_micros: u64) -> Vec<Generation> {
        if self.changes.is_empty() {
            return Vec::new();
        }
        let mut floor = durable;
        if let Some((&oldest, _)) = self.readers.first_key_value() {
            floor = floor.min(oldest);
        }
        // The window is counted in versions: after the clock was set back they run ahead of it.
        let present = now_micros.max(self.last.0);
        if self.interactive_until_micros >= present {
            floor = floor.min(Version(present.saturating_sub(CONFLICT_WINDOW_MICROS)));
        }
        self.changes.forget_through(floor)
    }
}

/// The partition's lock, held.
pub struct Home<'e> {
    engine: &'e Engine,
    state: MutexGuard<'e, HomeState>,
    now_micros: u64,
    /// Behind the guard: it is dropped when the lock is free.
    _release: Release<'e>,
}

/// Tells those who gave up waiting that the lock is free.
struct Release<'e>(&'e Announcement);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.released();
    }
}

impl<'e> Home<'e> {
    pub(crate) fn new(engine: &'e Engine, state: MutexGuard<'e, HomeState>) -> Home<'e> {
        Home {
            engine,
            state,
            now_micros: engine.now_micros(),
            _release: Release(&engine.shared().home.announcement),
        }
    }

    /// Hands what was committed before to the flusher, for a holder that may take long: replies that wait for it leave meanwhile.
    pub(crate) fn hand_over_pending(&mut self) {
        if !self.state.pending.is_empty() {
            let Shared { home, room, .. } = self.engine.shared();
            let epoch = self.state.close_epoch(Vec::new(), room);
            home.hand_over(&mut self.state, epoch, room, || self.engine.wake_flusher());
        }
    }

    /// The time that every transaction under this lock sees, in microseconds since the Unix epoch.
    pub fn now_micros(&self) -> u64 {
        self.now_micros
    }

    /// The version of the latest commit.
    pub fn last_version(&self) -> Version {
        self.state.last_version()
    }

    /// Takes the time anew, for a holder that executes many transactions.
    pub fn refresh_now(&mut self) {
        self.now_micros = self.engine.now_micros();
    }

    /// Runs `body` as one transaction at the latest state. `Err` rolls it back. Waits while the log cannot keep up; no
    /// other transaction comes in between.
    pub fn execute<R, E>(
        &mut self,
        space: Space,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<(R, Hold), ExecuteError<E>> {
        let durable = self.engine.durable();
        let mut transaction = Transaction::new(&mut self.state, space, durable, self.now_micros);
        let answer = match body(&mut transaction) {
            Ok(answer) => answer,
            Err(error) => return Err(ExecuteError::Layer(error, transaction.failure_hold())),
        };
        let has_written = transaction.has_written();
        let grown_bytes = transaction.grown_bytes();
        let hold = transaction.commit(&self.engine.shared().room)?;
        self.engine
            .shared()
            .statistics
            .transactions
            .fetch_add(1, Ordering::Relaxed);
        if has_written {
            self.engine.shared().stored.add(space.database, grown_bytes);
            let count = &self.engine.shared().statistics.transactions_since_checkpoint;
            count.fetch_add(1, Ordering::Relaxed);
        }
        if self.state.pending.len() >= self.engine.epoch_bytes_max() {
            let Shared { home, room, .. } = self.engine.shared();
            let epoch = self.state.close_epoch(Vec::new(), room);
            home.push(&mut self.state, epoch, room, || self.engine.wake_flusher());
        }
        Ok((answer, hold))
    }

    /// Frees at once what range clears took out, instead of leaving it to the flusher: for whoever clears because memory is short.
    pub fn free_cleared(&mut self) {
        for cleared in std::mem::take(&mut self.state.garbage) {
            self.engine.shared().stored.freed(cleared.rows());
        }
    }

    /// The hold of an answer that may depend on anything committed so far.
    pub fn latest_hold(&self, space: Space) -> Hold {
        let relaxed = space.durability != Durability::Always;
        if relaxed {
            Version::ZERO
        } else {
            self.state.hold_of_everything(self.engine.durable())
        }
    }

    /// Calls `callback` with the key whenever `key` of `space` is written, cleared or touched by a committed transaction.
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

    pub fn unwatch(&mut self, id: WatchId) {
        self.state.watches.remove(id);
    }

    /// The part of a watched key that the layer knows.
    pub fn layer_key(full_key: &[u8]) -> &[u8] {
        &full_key[SPACE_BYTES.min(full_key.len())..]
    }

    pub(crate) fn state(&mut self) -> &mut HomeState {
        &mut self.state
    }

    pub(crate) fn durable(&self) -> Version {
        self.engine.durable()
    }

    pub(crate) fn statistics(&self) -> &crate::Statistics {
        self.engine.statistics()
    }
}

impl Drop for Home<'_> {
    fn drop(&mut self) {
        // Who waits for a sync wakes the flusher (`Engine::is_durable`).
        if self.state.pending.len() > PENDING_BYTES_WAKE {
            self.engine.wake_flusher();
        }
    }
}
