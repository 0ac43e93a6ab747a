//! The partition's current state: what the lock guards.
//!
//! Invariants: versions of committed transactions strictly increase, and reach the log;
//! `full_epochs` and then `pending` hold exactly the effects of committed transactions that the
//! flusher has not taken yet, in version order; the journal is empty between transactions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use quartet_model::{
    DatabaseId, Effect, EffectsError, EffectsReader, EffectsWriter, KeyRange, Savepoint, Version, WrittenKey,
};
use quartet_store::{PartitionCleared, PartitionSnapshot, PartitionStore, Read, Row, Store, StoreError};

use crate::conflicts::changes::{Generation, RecentChanges};
use crate::conflicts::full_keys::FullKeys;
use crate::durability::epochs::{Epoch, FullEpochs};
use crate::durability::room::Room;
use crate::durability::stored::{StoredBytes, database_of, row_bytes};
use crate::options::Durability;
use crate::partition::watch::{WatchId, Watches};

/// Why an epoch of another node was not applied.
#[derive(Debug)]
pub(crate) enum ApplyError {
    /// It is nothing that an engine commits.
    Record,
    Store(StoreError),
}

impl From<EffectsError> for ApplyError {
    fn from(_: EffectsError) -> ApplyError {
        ApplyError::Record
    }
}

impl From<StoreError> for ApplyError {
    fn from(error: StoreError) -> ApplyError {
        ApplyError::Store(error)
    }
}

/// The newest version an answer depends on. `Version::ZERO`: nothing to wait for.
pub type Dependency = Version;

/// Interactive clients may commit against a read version this old.
pub(crate) const CONFLICT_WINDOW_MICROS: u64 = 5_000_000;
/// Number of changes that the journal keeps room for.
const JOURNAL_CHANGES_KEPT: usize = 1024;

/// One step of the open transaction: how to undo it, and which watches it triggers.
pub(crate) enum Change {
    Added {
        key: WrittenKey,
    },
    /// By a row with the same key.
    Replaced {
        old: Row,
    },
    Cleared {
        old: Row,
    },
    /// One of many rows of a range, which [`Change::ManyCleared`] names.
    ClearedOfMany {
        old: Row,
    },
    /// A range with many rows that were cleared one by one. It is the evidence for all of them,
    /// since a piece for each costs more than the rows.
    ManyCleared(Box<KeyRange>),
    /// Boxed: most changes are of one row, and each is moved about.
    ClearedRange(Box<ClearedRange>),
    Touched {
        key: Box<[u8]>,
    },
}

pub(crate) struct ClearedRange {
    pub range: KeyRange,
    pub cleared: PartitionCleared,
    /// The watches of the replaced value.
    pub watches: Vec<WatchId>,
}

/// A point within the open transaction.
pub(crate) struct StateSavepoint {
    changes: usize,
    effects: Savepoint,
}

pub(crate) struct PartitionState {
    pub store: PartitionStore,
    /// The version of the newest transaction in the log or in flight; while a transaction is open
    /// it may be that transaction's. A version that does not reach the log is never seen outside:
    /// after a restart with the clock set back it may be assigned again.
    last: Version,
    /// Commits land above it, in microseconds since the Unix epoch: a time that a reader was given
    /// or a layer has shown.
    floor_micros: AtomicU64,
    pub full_epochs: FullEpochs,
    pub pending: EffectsWriter,
    /// True if `pending` holds effects that a sync must precede before they are acknowledged.
    pub pending_needs_sync: bool,
    pub changes: RecentChanges,
    pub watches: Watches,
    pub journal: Vec<Change>,
    /// Changes of the last long transaction of this hold: the holder drops their rows once the lock
    /// is free.
    pub spent: Vec<Change>,
    /// Scratch for building full keys, while no transaction has it.
    pub key: Vec<u8>,
    /// Read versions of the optimistic transactions that are running, with how many run at each.
    readers: BTreeMap<Version, usize>,
    /// Interactive commits may arrive until this time.
    interactive_until_micros: AtomicU64,
    /// Cleared rows and their database, dropped by the flusher outside the lock.
    pub garbage: Vec<(DatabaseId, PartitionCleared)>,
    /// False while another is home: nothing is executed here.
    pub is_home: bool,
    /// The state is what the shared log has up to some record: this node is not home, and none of
    /// its own commits is unconfirmed.
    pub follows: bool,
    /// Databases that have left for another partition: nothing of theirs is executed here.
    pub fenced: Vec<DatabaseId>,
    /// Longest effects of one transaction, in bytes.
    pub effects_bytes_max: usize,
    /// The number of them that the flusher has taken and not dropped yet.
    pub being_freed: Arc<AtomicUsize>,
}

impl PartitionState {
    pub fn new(store: PartitionStore, last: Version) -> PartitionState {
        PartitionState {
            store,
            last,
            floor_micros: AtomicU64::new(0),
            full_epochs: FullEpochs::default(),
            pending: EffectsWriter::default(),
            pending_needs_sync: false,
            changes: RecentChanges::after(last),
            watches: Watches::default(),
            journal: Vec::new(),
            spent: Vec::new(),
            key: Vec::new(),
            readers: BTreeMap::new(),
            interactive_until_micros: AtomicU64::new(0),
            garbage: Vec::new(),
            is_home: true,
            follows: false,
            fenced: Vec::new(),
            effects_bytes_max: usize::MAX,
            being_freed: Arc::default(),
        }
    }

    /// Returns true if transactions of this database are executed here.
    #[inline]
    pub fn executes(&self, database: DatabaseId) -> bool {
        self.is_home && (self.fenced.is_empty() || !self.fenced.contains(&database))
    }

    /// Returns true if transactions that only read this database may run here, although another
    /// node is home.
    pub fn shows(&self, database: DatabaseId) -> bool {
        self.follows && !self.fenced.contains(&database)
    }

    /// Forgets everything that was committed and not confirmed.
    pub fn roll_back_to(&mut self, store: PartitionStore, last: Version) {
        self.store = store;
        self.last = last;
        self.full_epochs.queue.clear();
        self.pending = EffectsWriter::default();
        self.changes = RecentChanges::after(last);
        self.garbage.clear();
    }

    /// Applies the transactions of an epoch that another node has committed.
    pub fn apply(&mut self, epoch: &[u8], stored: &StoredBytes) -> Result<(), ApplyError> {
        let mut reader = EffectsReader::new(epoch);
        while let Some((version, mut effects)) = reader.next_transaction()? {
            if version <= self.last {
                return Err(ApplyError::Record);
            }
            while let Some(effect) = effects.next() {
                self.apply_effect(version, effect?, stored)?;
            }
            self.last = version;
        }
        Ok(())
    }

    fn apply_effect(&mut self, version: Version, effect: Effect<'_>, stored: &StoredBytes) -> Result<(), ApplyError> {
        let key = effect.start();
        let (old, new_bytes) = match effect {
            Effect::Set { value, .. } => self.put(Row::new(key, value, version))?,
            Effect::Row { value, version, .. } => self.put(Row::new(key, value, version))?,
            Effect::Patch { offset, bytes, .. } => {
                let old = self.store.get(key)?;
                self.put(Row::patched(old.as_ref(), key, offset, bytes, version))?
            }
            Effect::Clear { .. } => (self.store.clear(key)?, 0),
            Effect::ClearRange { start, end } => {
                let watches = self.watches.of_present(&self.store, start, end)?;
                let cleared = self.store.clear_range(start, end)?;
                watches.iter().for_each(|&id| self.watches.tell(id, start));
                self.garbage.push((database_of(start), cleared));
                return Ok(());
            }
        };
        stored.add(database_of(key), new_bytes - old.as_ref().map_or(0, row_bytes));
        self.watches.key_changed(key);
        Ok(())
    }

    fn put(&mut self, row: Row) -> Result<(Option<Row>, i64), StoreError> {
        let new_bytes = row_bytes(&row);
        Ok((self.store.set(row)?, new_bytes))
    }

    /// Starts a term: its commits are above `floor`, and transactions that read before it cannot be
    /// certified.
    pub fn begin_term(&mut self, floor: Version) -> Result<(), ApplyError> {
        if floor <= self.last {
            return Err(ApplyError::Record);
        }
        self.last = floor;
        self.changes = RecentChanges::after(floor);
        Ok(())
    }

    pub fn last_version(&self) -> Version {
        self.last
    }

    /// Returns the dependency of a reader of everything.
    pub fn dependency_on_everything(&self, durable: Version) -> Dependency {
        if self.last > durable { self.last } else { Version::ZERO }
    }

    pub fn next_version(&mut self, now_micros: u64) -> Version {
        let above = self.last.0.max(*self.floor_micros.get_mut());
        self.last = Version(now_micros.max(above.saturating_add(1)));
        self.last
    }

    /// Makes every later commit land above `micros`, also if the clock is set back.
    pub fn land_above(&self, micros: u64) {
        self.floor_micros.fetch_max(micros, Ordering::Relaxed);
    }

    /// The time of a reader when the clock shows `now_micros`: the microsecond before, which has
    /// passed. It never decreases, and later commits are above it.
    pub fn present(&self, now_micros: u64) -> u64 {
        self.land_above(now_micros.saturating_sub(1).max(self.last.0));
        self.floor_micros.load(Ordering::Relaxed)
    }

    /// Closes the epoch: everything committed since the previous one. `spare` is a buffer for the
    /// next.
    pub fn close_epoch(&mut self, spare: Vec<u8>, room: &Room) -> Epoch {
        room.take(self.pending.len());
        Epoch {
            payload: self.pending.take(spare),
            version: self.last,
            needs_sync: std::mem::take(&mut self.pending_needs_sync),
        }
    }

    /// Prefetches the rows about to be written at the keys, in this order.
    pub fn fetch<'k>(&mut self, prefix: &[u8], keys: impl Iterator<Item = &'k [u8]>) {
        let mut full = FullKeys::new();
        keys.for_each(|key| _ = full.push(prefix, key));
        self.store.fetch(&full.iter().collect::<Vec<_>>());
    }

    pub fn snapshot(&self) -> PartitionSnapshot {
        self.store.snapshot()
    }

    /// Closes the open transaction: its version and effects join the epoch.
    pub fn commit(&mut self, version: Version, durability: Durability) {
        self.pending.commit(version);
        self.pending_needs_sync |= durability == Durability::Always;
        self.close_journal(version, durability);
    }

    /// Closes the open transaction, which had no effects. `last` is the version before it: its own
    /// is released.
    pub fn commit_without_effects(&mut self, last: Version) {
        self.pending.rollback();
        self.last = last;
        self.close_journal(last, Durability::Always);
    }

    /// Records the evidence of all clears before any watcher is notified: watchers are a layer's,
    /// and may panic.
    fn close_journal(&mut self, version: Version, durability: Durability) {
        // A transaction that only read: most are.
        if self.journal.is_empty() {
            return;
        }
        let mut journal = std::mem::take(&mut self.journal);
        let keep = durability == Durability::Always || self.certification_expected();
        for change in &journal {
            match change {
                Change::Cleared { old } if keep => self.changes.add_point(old.key(), version),
                Change::Cleared { old } => self.changes.add_unrecorded(old.key(), version),
                Change::ClearedRange(cleared) if keep => self.changes.add_range(&cleared.range, version),
                Change::ClearedRange(cleared) => self.changes.add_unrecorded(&cleared.range.start, version),
                Change::ManyCleared(range) if keep => self.changes.add_range(range, version),
                Change::ManyCleared(range) => self.changes.add_unrecorded(&range.start, version),
                Change::Added { .. }
                | Change::Replaced { .. }
                | Change::ClearedOfMany { .. }
                | Change::Touched { .. } => {}
            }
        }
        if !self.watches.is_empty() {
            journal.iter().for_each(|change| self.tell_watchers(change));
        }
        let ranges = journal.extract_if(.., |change| matches!(change, Change::ClearedRange(_)));
        for change in ranges {
            if let Change::ClearedRange(cleared) = change {
                self.garbage.push((database_of(&cleared.range.start), cleared.cleared));
            }
        }
        if journal.len() > JOURNAL_CHANGES_KEPT {
            self.spent = journal;
            return;
        }
        journal.clear();
        journal.shrink_to(JOURNAL_CHANGES_KEPT);
        self.journal = journal;
    }

    fn tell_watchers(&self, change: &Change) {
        match change {
            Change::Added { key } => self.watches.key_changed(&self.pending.key(*key)),
            Change::Touched { key } => self.watches.key_changed(key),
            Change::Replaced { old } | Change::Cleared { old } | Change::ClearedOfMany { old } => {
                self.watches.key_changed(old.key());
            }
            Change::ManyCleared(_) => {}
            Change::ClearedRange(cleared) => {
                let ids = cleared.watches.iter();
                ids.for_each(|&id| self.watches.tell(id, &cleared.range.start));
            }
        }
    }

    /// Rolls back the open transaction. `last` is the version before it.
    pub fn rollback(&mut self, last: Version) {
        self.last = last;
        self.undo(0);
        self.pending.rollback();
    }

    /// Returns a point for [`PartitionState::rollback_to`].
    pub fn savepoint(&self) -> StateSavepoint {
        StateSavepoint {
            changes: self.journal.len(),
            effects: self.pending.savepoint(),
        }
    }

    /// Rolls the open transaction back to an earlier point of it.
    pub fn rollback_to(&mut self, savepoint: StateSavepoint) {
        self.undo(savepoint.changes);
        self.pending.rollback_to(savepoint.effects);
    }

    /// Reverts the changes after the first `count` of the journal, the last first.
    fn undo(&mut self, count: usize) {
        while self.journal.len() > count
            && let Some(change) = self.journal.pop()
        {
            let undone = match change {
                Change::Replaced { old } | Change::Cleared { old } | Change::ClearedOfMany { old } => {
                    self.store.set(old)
                }
                Change::Added { key } => take_back_added(&mut self.store, &self.pending.key(key)),
                Change::ClearedRange(cleared) => {
                    self.store.restore(&cleared.cleared);
                    continue;
                }
                Change::Touched { .. } | Change::ManyCleared(_) => continue,
            };
            undone.expect("what was written can be taken back");
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

    pub fn interactive_reader(&self, now_micros: u64) {
        let until_micros = now_micros.max(self.last.0) + CONFLICT_WINDOW_MICROS;
        self.interactive_until_micros.fetch_max(until_micros, Ordering::Relaxed);
    }

    fn interactive_until_micros(&self) -> u64 {
        self.interactive_until_micros.load(Ordering::Relaxed)
    }

    fn certification_expected(&self) -> bool {
        !self.readers.is_empty() || self.interactive_until_micros() >= self.last.0
    }

    /// Drops evidence that is no longer needed. The caller frees the returned generations without
    /// the lock.
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
        if self.interactive_until_micros() >= present {
            floor = floor.min(Version(present.saturating_sub(CONFLICT_WINDOW_MICROS)));
        }
        self.changes.forget_through(floor)
    }
}

/// Removes a row that was added. It is made old first, so that nothing remembers a version that
/// never was ([`quartet_store::Read::has_newer`]).
fn take_back_added(store: &mut PartitionStore, key: &[u8]) -> Result<Option<Row>, StoreError> {
    store.set(Row::new(key, b"", Version::ZERO))?;
    store.clear(key)
}
