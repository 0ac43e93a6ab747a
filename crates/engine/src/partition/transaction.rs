//! A transaction that executes at the latest state, under the partition's lock.
//!
//! A transaction that shares the lock is read-only. A write that it attempts does nothing except
//! set a flag; its answer is dropped, and its code runs again with the exclusive lock.
//!
//! It sees its own writes. Keys are relative to its space: the prefix is added here and nowhere
//! else, so a layer cannot reach outside its logical database. Dropped without a commit (an error,
//! a panic in the layer), it takes everything back.

use std::ops::{ControlFlow, Deref, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;

use quartet_model::{KEY_BYTES_MAX, KeyRange, VALUE_BYTES_MAX, Version, WrittenKey};
use quartet_store::{Cleared, Read, Row, Store, StoreError};

use crate::conflicts::full_keys::FullKeys;
use crate::durability::room::Room;
use crate::durability::stored::row_bytes;
use crate::options::Durability;
use crate::partition::reader::Reader;
use crate::partition::state::Dependency;
use crate::partition::state::{Change, ClearedRange, PartitionState};
use crate::partition::watch::{Callback, WatchId};
use crate::space::{SPACE_BYTES, Space};

/// Largest size of a transaction's effects, in bytes; a larger transaction is refused. Its last
/// effect may exceed the limit by one row.
const TRANSACTION_BYTES_MAX: usize = 1 << 30;

/// Overhead of a row beside its key and value, in bytes.
const ROW_BYTES_MIN: i64 = 36;

/// A value of at least this size is not copied on its way to the log: the row holds it.
const SHARED_FROM: usize = 1 << 20;

/// A row as the value that it holds.
struct ValueOf(Row);

impl AsRef<[u8]> for ValueOf {
    fn as_ref(&self) -> &[u8] {
        self.0.value()
    }
}

/// Never given out twice in a space's life: the transaction's version and a counter within it.
/// Sorts by age.
pub type UniqueId = [u8; 10];

/// The state, as a transaction may use it.
enum Access<'h> {
    Alone(&'h mut PartitionState),
    Shared(&'h PartitionState),
}

impl Deref for Access<'_> {
    type Target = PartitionState;

    #[inline]
    fn deref(&self) -> &PartitionState {
        match self {
            Access::Alone(state) => state,
            Access::Shared(state) => state,
        }
    }
}

/// A transaction at the latest state. Keys are relative to its space.
pub struct Transaction<'h> {
    state: Access<'h>,
    /// Scratch for building full keys.
    key: Vec<u8>,
    space: Space,
    prefix: [u8; SPACE_BYTES],
    /// The room on the disk; `None` for a transaction that only reads.
    room: Option<&'h Room>,
    /// The durable version at the start of the transaction: the answer must wait for newer versions
    /// that it reads.
    durable: Version,
    /// The newest version at the start of the transaction.
    last: Version,
    /// Zero until the first write.
    version: Version,
    /// The layer has seen its commit version, so the version goes to the log even if nothing else
    /// does.
    version_told: bool,
    now_micros: u64,
    dependency: Dependency,
    unique_ids: u32,
    /// By how much the rows that it has set and cleared one by one have grown.
    grown_bytes: i64,
    /// Rows that it has cleared by ranges.
    rows_cleared: u64,
    /// True if its writes serve to delete something.
    deletes: bool,
    /// It will be refused. Sets do nothing from now on; clears still work, because layers that
    /// clear until a range is empty would never end otherwise.
    too_large: bool,
    /// True if something could not be read: its work is in vain, and its answer is never sent.
    unreadable: bool,
    /// It has the lock beside others, and tried to write.
    must_write: bool,
    finished: bool,
}

/// Why a transaction was rolled back at its commit, and what that depends on.
#[derive(Debug)]
pub(crate) enum Refused {
    TooLarge(Dependency),
    DiskFull(Dependency),
    /// The home of a replicated log cannot show that it is one.
    Unsure,
}

impl<'h> Transaction<'h> {
    pub(crate) fn new(
        state: &'h mut PartitionState,
        room: &'h Room,
        space: Space,
        durable: Version,
        now_micros: u64,
    ) -> Transaction<'h> {
        state.pending.begin();
        let key = std::mem::take(&mut state.key);
        let mut transaction = Transaction::over(Access::Alone(state), key, space, durable, now_micros);
        transaction.room = Some(room);
        transaction
    }

    /// Starts a read-only transaction that shares the lock. `key` is scratch, which
    /// [`Transaction::into_read`] returns.
    pub(crate) fn reading(
        state: &'h PartitionState,
        key: Vec<u8>,
        space: Space,
        durable: Version,
        now_micros: u64,
    ) -> Transaction<'h> {
        Transaction::over(Access::Shared(state), key, space, durable, now_micros)
    }

    fn over(state: Access<'h>, key: Vec<u8>, space: Space, durable: Version, now_micros: u64) -> Transaction<'h> {
        let last = state.last_version();
        Transaction {
            state,
            key,
            space,
            prefix: space.prefix(),
            room: None,
            durable,
            last,
            version: Version::ZERO,
            version_told: false,
            now_micros,
            dependency: Version::ZERO,
            unique_ids: 0,
            grown_bytes: 0,
            rows_cleared: 0,
            deletes: false,
            too_large: false,
            unreadable: false,
            must_write: false,
            finished: false,
        }
    }

    /// Returns true if it may write; if not, its need is recorded.
    #[inline]
    fn may_write(&mut self) -> bool {
        self.must_write |= matches!(self.state, Access::Shared(_));
        !self.must_write
    }

    /// The state, to be written to.
    #[inline]
    fn alone(&mut self) -> &mut PartitionState {
        match &mut self.state {
            Access::Alone(state) => state,
            Access::Shared(_) => unreachable!("asked whether it may write"),
        }
    }

    /// Returns true if it is read-only, and tried to write: its result will be dropped.
    pub(crate) fn must_write(&self) -> bool {
        self.must_write
    }

    /// Returns true if it shares the lock or reads a frozen state: everything it sees was committed
    /// before.
    pub fn only_reads(&self) -> bool {
        matches!(self.state, Access::Shared(_))
    }

    /// The time of this transaction, in microseconds since the Unix epoch. The same for all it
    /// does.
    pub fn now_micros(&self) -> u64 {
        self.now_micros
    }

    /// The version at which this transaction will commit. Calling this makes it a write, even if it
    /// changes nothing: a version that has left the engine must not be assigned again after a
    /// restart.
    pub fn commit_version(&mut self) -> Version {
        self.version_told = true;
        self.take_version()
    }

    fn take_version(&mut self) -> Version {
        if self.version == Version::ZERO && self.may_write() {
            let now_micros = self.now_micros;
            self.version = self.alone().next_version(now_micros);
        }
        self.version
    }

    /// Returns an identifier that no other write in this space ever carries. For keys and values;
    /// an identifier sent to a client by a transaction that writes nothing may be repeated. At most
    /// 2^24 in a transaction; panics beyond.
    pub fn unique_id(&mut self) -> UniqueId {
        self.unique_ids += 1;
        assert!(self.unique_ids < 1 << 24, "at most 2^24 unique ids in a transaction");
        let mut id = [0; 10];
        // Seven bytes of microseconds last until the year 4253.
        id[..7].copy_from_slice(&self.take_version().0.to_be_bytes()[1..]);
        id[7..].copy_from_slice(&self.unique_ids.to_be_bytes()[1..]);
        id
    }

    /// The row at `key`. Its key carries the space's prefix: see [`Transaction::layer_key`].
    pub fn get(&mut self, key: &[u8]) -> Option<Row> {
        self.get_parts(&[key])
    }

    /// As [`Transaction::get`], with the key in parts.
    pub fn get_parts(&mut self, key: &[&[u8]]) -> Option<Row> {
        self.build_key(key);
        let row = self.state.store.get(&self.key);
        let row = self.readable(row);
        if self.space.durability == Durability::Always {
            let version = match &row {
                Some(row) => row.version(),
                None => self.state.changes.newest_at(&self.key),
            };
            self.depend_on(version);
        }
        row
    }

    /// The space as this transaction currently sees it, for reads after the lock is released. The
    /// answer depends on everything committed before.
    pub fn reader(&mut self) -> Reader {
        self.depend_on_everything();
        Reader::of_snapshot(self.state.snapshot(), self.space, self.last)
    }

    /// Sets the value of a key, both given in parts. Returns the replaced row.
    pub fn set_parts(&mut self, key: &[&[u8]], value: &[&[u8]]) -> Option<&Row> {
        let bytes = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).sum::<usize>();
        self.too_large |= bytes(key) + SPACE_BYTES > KEY_BYTES_MAX || bytes(value) > VALUE_BYTES_MAX;
        if self.too_large || !self.may_write() {
            return None;
        }
        let version = self.take_version();
        let row = Row::from_parts(&self.prefix, key, value, version);
        self.set_row(row)
    }

    /// Gives `key` this value. Returns the row it replaced.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Option<Row> {
        self.set_parts(&[key], &[value]).cloned()
    }

    /// Puts a row of another partition here, with its version, which is before this transaction's.
    pub(crate) fn put_row(&mut self, row: Row) {
        debug_assert!(row.key().starts_with(&self.prefix), "a row of this space");
        if self.too_large || !self.may_write() {
            return;
        }
        self.take_version();
        let pending = &mut self.alone().pending;
        let key = if row.value().len() >= SHARED_FROM {
            pending.row_shared(row.key(), Box::new(ValueOf(row.clone())), row.version())
        } else {
            pending.row(row.key(), row.value(), row.version())
        };
        self.store_row(row, key);
    }

    fn set_row(&mut self, row: Row) -> Option<&Row> {
        let pending = &mut self.alone().pending;
        let key = if row.value().len() >= SHARED_FROM {
            pending.set_shared(row.key(), Box::new(ValueOf(row.clone())))
        } else {
            pending.set(row.key(), row.value())
        };
        self.store_row(row, key)
    }

    /// `key` locates the row's key among the effects.
    fn store_row(&mut self, row: Row, key: WrittenKey) -> Option<&Row> {
        let state = self.alone();
        let new_bytes = row_bytes(&row);
        let old = match state.store.set(row) {
            Ok(old) => old,
            Err(error) => {
                self.fail(&error);
                return None;
            }
        };
        self.grown_bytes += new_bytes - old.as_ref().map_or(0, row_bytes);
        self.alone().journal.push(match old {
            Some(old) => Change::Replaced { old },
            None => Change::Added { key },
        });
        self.check_size();
        match self.state.journal.last() {
            Some(Change::Replaced { old }) => Some(old),
            _ => None,
        }
    }

    /// Writes `bytes` over a part of the value at `key`, which is given in parts, from `offset` on.
    /// A value that ends before it is padded with zeros, and an absent row counts as an empty
    /// value. The log gets only the bytes, so a small change of a large value costs a copy of the
    /// value in memory, and only the change on disk.
    pub fn patch_parts(&mut self, key: &[&[u8]], offset: usize, bytes: &[u8]) {
        self.build_key(key);
        self.too_large |= self.key.len() > KEY_BYTES_MAX || offset.saturating_add(bytes.len()) > VALUE_BYTES_MAX;
        if self.too_large || !self.may_write() {
            return;
        }
        let old = self.state.store.get(&self.key);
        let old = self.readable(old);
        if self.unreadable {
            return;
        }
        let version = self.take_version();
        let row = Row::patched(old.as_ref(), &self.key, offset, bytes, version);
        self.patch_row(old, row, offset, bytes);
    }

    fn patch_row(&mut self, old: Option<Row>, row: Row, offset: usize, bytes: &[u8]) {
        // A row of this transaction's own is already in the journal: a rollback restores the row
        // before it.
        let is_own = old.as_ref().is_some_and(|old| old.version() == row.version());
        let counted_bytes = if is_own { bytes.len() } else { row.value().len() };
        self.grown_bytes += row_bytes(&row) - old.as_ref().map_or(0, row_bytes);
        let state = self.alone();
        let key = state.pending.patch(row.key(), offset, bytes, counted_bytes);
        if let Err(error) = state.store.set(row) {
            return self.fail(&error);
        }
        match old {
            Some(_) if is_own => {}
            Some(old) => state.journal.push(Change::Replaced { old }),
            None => state.journal.push(Change::Added { key }),
        }
        self.check_size();
    }

    /// The keys will be written next, in this order.
    pub(crate) fn fetch<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let prefix = self.prefix;
        if self.may_write() {
            self.alone().fetch(&prefix, keys);
        }
    }

    /// The rows at the keys, each after `prefix`, in the order of the keys: several rows take
    /// little longer than a single row.
    pub fn get_each(&mut self, prefix: &[u8], keys: impl Iterator<Item = impl AsRef<[u8]>>) -> Vec<Option<Row>> {
        let (mut full, prefix) = (FullKeys::new(), [&self.prefix, prefix].concat());
        keys.for_each(|key| _ = full.push(&prefix, key.as_ref()));
        let keys: Vec<&[u8]> = full.iter().collect();
        let rows = self.state.store.get_each(&keys);
        let mut rows = self.readable(rows);
        // Nothing, if the disk did not return one.
        rows.resize(keys.len(), None);
        if self.space.durability == Durability::Always {
            for (row, key) in rows.iter().zip(keys) {
                let version = match row {
                    Some(row) => row.version(),
                    None => self.state.changes.newest_at(key),
                };
                self.depend_on(version);
            }
        }
        rows
    }

    /// Prefetches the rows at the keys, which will be read soon: several take little longer than
    /// a single row.
    pub fn fetch_rows(&self, keys: &[impl AsRef<[u8]>]) {
        let mut full = FullKeys::new();
        keys.iter().for_each(|key| _ = full.push(&self.prefix, key.as_ref()));
        self.state.store.fetch_rows(&full.iter().collect::<Vec<_>>());
    }

    /// Removes `key`. Returns the removed row.
    pub fn clear(&mut self, key: &[u8]) -> Option<Row> {
        self.clear_parts(&[key])
    }

    /// As [`Transaction::clear`], with the key in parts.
    pub fn clear_parts(&mut self, key: &[&[u8]]) -> Option<Row> {
        if !self.may_write() {
            return None;
        }
        self.build_key(key);
        let key = std::mem::take(&mut self.key);
        let cleared = self.alone().store.clear(&key);
        self.key = key;
        let Some(old) = self.readable(cleared) else {
            let version = self.state.changes.newest_at(&self.key);
            self.depend_on(version);
            return None;
        };
        self.note_cleared(old.clone(), |old| Change::Cleared { old });
        Some(old)
    }

    /// Removes many rows of `range`, their keys given in parts, and shows each to `visit`.
    /// Keys in their order are found fastest. A reader of the range counts as affected by all of
    /// it.
    pub fn clear_many<'k, const PARTS: usize>(
        &mut self,
        range: Range<&[u8]>,
        keys: impl Iterator<Item = [&'k [u8]; PARTS]>,
        visit: &mut dyn FnMut(&Row),
    ) {
        if !self.may_write() {
            return;
        }
        let (mut any_cleared, mut any_absent) = (false, false);
        for key in keys {
            self.build_key(&key);
            let key = std::mem::take(&mut self.key);
            let cleared = self.alone().store.clear(&key);
            self.key = key;
            match self.readable(cleared) {
                Some(old) => {
                    visit(&old);
                    self.note_cleared(old, |old| Change::ClearedOfMany { old });
                    any_cleared = true;
                }
                None => any_absent = true,
            }
        }
        let range = self.full_range(range.start, range.end);
        if any_absent {
            let newest = self.state.changes.newest_in(&range.start, &range.end);
            self.depend_on(newest);
        }
        if any_cleared {
            self.alone().journal.push(Change::ManyCleared(Box::new(range)));
        }
    }

    /// Removes the row at position `index` of `start..end`, counted from zero, and returns it.
    pub fn clear_nth(&mut self, start: &[u8], end: &[u8], index: u64) -> Option<Row> {
        if !self.may_write() {
            return None;
        }
        self.depend_on_everything();
        let old = self.between(start, end, |transaction, start, end| {
            let cleared = transaction.alone().store.clear_nth(start, end, index);
            transaction.readable(cleared)
        })?;
        self.note_cleared(old.clone(), |old| Change::Cleared { old });
        Some(old)
    }

    /// Removes the first row of `start..end`, or the last, and returns it.
    pub fn clear_end(&mut self, start: &[u8], end: &[u8], last: bool) -> Option<Row> {
        if !self.may_write() {
            return None;
        }
        let old = self.between(start, end, |transaction, start, end| {
            let cleared = transaction.alone().store.clear_end(start, end, last);
            let old = transaction.readable(cleared);
            if old.is_none() {
                let newest = transaction.state.changes.newest_in(start, end);
                transaction.depend_on(newest);
            }
            old
        })?;
        self.note_cleared(old.clone(), |old| Change::Cleared { old });
        Some(old)
    }

    fn note_cleared(&mut self, old: Row, change: impl FnOnce(Row) -> Change) {
        self.take_version();
        self.grown_bytes -= row_bytes(&old);
        let too_large = self.too_large;
        let state = self.alone();
        if !too_large {
            state.pending.clear(old.key());
        }
        state.journal.push(change(old));
        self.check_size();
    }

    /// The number of cleared ranges with rows that still take memory. The flusher frees them.
    pub fn unfreed_count(&self) -> usize {
        self.state.garbage.len() + self.state.being_freed.load(Ordering::Relaxed)
    }

    /// Removes every key of `start..end`. Returns how many there were.
    pub fn clear_range(&mut self, start: &[u8], end: &[u8]) -> u64 {
        let range = self.full_range(start, end);
        self.clear_full_range(range)
    }

    /// Removes everything in the space.
    pub fn clear_all(&mut self) {
        self.clear_full_range(KeyRange::prefix(&self.prefix));
    }

    /// Removes every key between two keys that carry the space's prefix.
    pub(crate) fn clear_full(&mut self, start: Vec<u8>, end: Vec<u8>) {
        self.clear_full_range(KeyRange::new(start, end));
    }

    fn clear_full_range(&mut self, range: KeyRange) -> u64 {
        if !self.may_write() {
            return 0;
        }
        let watches = self
            .state
            .watches
            .of_present(&self.state.store, &range.start, &range.end);
        let watches = self.readable(watches);
        let cleared = self.alone().store.clear_range(&range.start, &range.end);
        let Some(cleared) = self.readable(cleared.map(Some)) else {
            return 0;
        };
        let count = cleared.count();
        self.rows_cleared += count;
        if count > 0 {
            self.take_version();
            let too_large = self.too_large;
            let state = self.alone();
            if !too_large {
                state.pending.clear_range(&range.start, &range.end);
            }
            state.journal.push(Change::ClearedRange(Box::new(ClearedRange {
                range,
                cleared,
                watches,
            })));
            self.check_size();
        } else {
            let newest = self.state.changes.newest_in(&range.start, &range.end);
            self.depend_on(newest);
        }
        count
    }

    /// Visits the rows of `start..end` in key order, or backwards, until `visit` breaks.
    pub fn scan(&mut self, start: &[u8], end: &[u8], reverse: bool, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) {
        self.between(start, end, |transaction, start, end| {
            let mut newest = Version::ZERO;
            let scanned = transaction.state.store.scan(start, end, reverse, &mut |row| {
                newest = newest.max(row.version());
                visit(row)
            });
            transaction.readable(scanned);
            if transaction.space.durability == Durability::Always {
                let newest = newest.max(transaction.state.changes.newest_in(start, end));
                transaction.depend_on(newest);
            }
        });
    }

    /// Visits the last eight bytes of each key of `range` as a big-endian number, in key order
    /// and several at a time, until `visit` breaks. Every key of the range is `key_bytes` long.
    /// Several times faster than [`Transaction::scan`].
    pub fn scan_numbers(
        &mut self,
        range: Range<&[u8]>,
        key_bytes: usize,
        visit: &mut dyn FnMut(&[u64]) -> ControlFlow<()>,
    ) {
        self.depend_on_everything();
        self.between(range.start, range.end, |transaction, start, end| {
            let key_bytes = SPACE_BYTES + key_bytes;
            let scanned = transaction.state.store.scan_numbers(start..end, key_bytes, visit);
            transaction.readable(scanned)
        })
    }

    /// The number of rows in `start..end`.
    pub fn count(&mut self, start: &[u8], end: &[u8]) -> u64 {
        self.depend_on_everything();
        self.between(start, end, |transaction, start, end| {
            let count = transaction.state.store.count(start, end);
            transaction.readable(count)
        })
    }

    /// The row at position `index` of `start..end`, counted from zero.
    pub fn nth(&mut self, start: &[u8], end: &[u8], index: u64) -> Option<Row> {
        self.depend_on_everything();
        self.between(start, end, |transaction, start, end| {
            let row = transaction.state.store.nth(start, end, index);
            transaction.readable(row)
        })
    }

    /// Notifies the watches of `key` of a change although its row is unchanged, because the entity
    /// that it represents has changed.
    pub fn touch(&mut self, key: &[u8]) {
        if !self.state.watches.is_empty() && self.may_write() {
            let key = [&self.prefix, key].concat().into();
            self.alone().journal.push(Change::Touched { key });
        }
    }

    /// See [`crate::PartitionGuard::watch_key`].
    /// Panics in a transaction that only reads.
    pub fn watch_key(&mut self, key: &[u8], callback: Callback) -> WatchId {
        let key = [&self.prefix, key].concat();
        self.alone().watches.add_point(key, callback)
    }

    /// Ends a watch. Panics in a transaction that only reads.
    pub fn unwatch(&mut self, id: WatchId) {
        self.alone().watches.remove(id);
    }

    /// Returns true if it has exceeded the limit and will be refused: its further writes are
    /// dropped.
    pub fn is_too_large(&self) -> bool {
        self.too_large
    }

    /// Refuses the transaction because it is too large: its later operations have no effect.
    pub fn refuse_as_too_large(&mut self) {
        self.too_large = true;
    }

    /// True if this transaction has written something.
    pub fn has_written(&self) -> bool {
        self.version != Version::ZERO
    }

    /// The part of a row's key that the layer knows.
    pub fn layer_key(row: &Row) -> &[u8] {
        &row.key()[SPACE_BYTES..]
    }

    pub(crate) fn grown_bytes(&self) -> i64 {
        self.grown_bytes
    }

    /// On a full disk the transaction may use the last reserved room, because it serves to delete
    /// data, even if it leaves a trace larger than the deleted data.
    pub fn deletes(&mut self) {
        self.deletes = true;
    }

    /// Runs work that may be postponed, such as upkeep, and keeps its writes only if the disk has
    /// room for all of the transaction beside the room reserved for deletions. A disk without room
    /// for what did not fit before skips the work. Returns true if it was done.
    pub fn optionally(&mut self, work: impl FnOnce(&mut Self)) -> bool {
        let bytes_before = self.state.pending.len();
        let Some(room) = self.room.filter(|room| room.admits_upkeep(bytes_before)) else {
            return false;
        };
        let savepoint = self.state.savepoint();
        let before = (self.grown_bytes, self.rows_cleared, self.too_large);
        work(self);
        let bytes = self.state.pending.len();
        let fits = room.admits(bytes, false);
        room.note_upkeep(bytes - bytes_before, fits);
        if !fits {
            self.alone().rollback_to(savepoint);
            (self.grown_bytes, self.rows_cleared, self.too_large) = before;
        }
        fits
    }

    fn makes_smaller(&self) -> bool {
        let cleared_bytes = (self.rows_cleared as i64).saturating_mul(ROW_BYTES_MIN);
        self.deletes || self.grown_bytes < cleared_bytes
    }

    /// Returns true if a commit may notify a client.
    pub(crate) fn has_watchers(&self) -> bool {
        !self.state.watches.is_empty()
    }

    pub(crate) fn commit(mut self) -> Result<Dependency, Refused> {
        let room = self.room.expect("a transaction that only reads has no commit");
        if self.too_large {
            return Err(Refused::TooLarge(self.failure_dependency()));
        }
        let has_effects = self.version_told || self.state.pending.open_bytes() > 0;
        if has_effects && !room.admits(self.state.pending.len(), self.makes_smaller()) {
            return Err(match room.is_refused() {
                true => Refused::Unsure,
                false => Refused::DiskFull(self.failure_dependency()),
            });
        }
        self.finished = true;
        let (version, durability, last) = (self.version, self.space.durability, self.last);
        if has_effects {
            self.alone().commit(version, durability);
            self.depend_on(version);
        } else {
            self.alone().commit_without_effects(last);
        }
        Ok(self.dependency)
    }

    /// Ends a read-only transaction. Returns its answer's dependency, and the scratch.
    pub(crate) fn into_read(mut self) -> (Dependency, Vec<u8>) {
        (self.failure_dependency(), std::mem::take(&mut self.key))
    }

    /// Returns the dependency of a failed transaction's answer. A write reveals the previous row
    /// without its version, so a writer depends on the latest commit; never on its own version,
    /// which is rolled back.
    pub(crate) fn failure_dependency(&mut self) -> Dependency {
        if self.has_written() {
            self.depend_on_everything();
        }
        self.dependency.min(self.last)
    }

    /// Runs a layer's code. Returns `None` if a row could not be read: the code may then panic over
    /// a row that must exist, which ends only the transaction.
    pub(crate) fn run<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> Option<R> {
        let answer = catch_unwind(AssertUnwindSafe(|| body(self)));
        match answer {
            _ if self.unreadable => None,
            Ok(answer) => Some(answer),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Returns true if a row could not be read: the transaction will be refused, and its answer
    /// dropped.
    pub fn is_unreadable(&self) -> bool {
        self.unreadable
    }

    /// Returns the result of a read, or nothing and marks the transaction as refused if it failed.
    #[inline]
    fn readable<T: Default>(&mut self, read: Result<T, StoreError>) -> T {
        match read {
            Ok(read) => read,
            Err(error) => {
                self.fail(&error);
                T::default()
            }
        }
    }

    #[cold]
    fn fail(&mut self, error: &StoreError) {
        if !self.unreadable {
            tracing::error!(%error, "a transaction could not read what is stored");
        }
        self.unreadable = true;
    }

    fn check_size(&mut self) {
        let pending = &self.state.pending;
        if pending.open_bytes_in_full() > TRANSACTION_BYTES_MAX || pending.open_bytes() > self.state.effects_bytes_max {
            self.too_large = true;
        }
    }

    fn depend_on(&mut self, version: Version) {
        if version > self.durable && version > self.dependency && self.space.durability == Durability::Always {
            self.dependency = version;
        }
    }

    /// Counting does not see the versions of the counted rows, so it depends on the latest commit.
    fn depend_on_everything(&mut self) {
        self.depend_on(self.last);
    }

    fn build_key(&mut self, key: &[&[u8]]) {
        self.key.clear();
        self.key.extend_from_slice(&self.prefix);
        key.iter().for_each(|part| self.key.extend_from_slice(part));
    }

    /// Runs `read` with the store's form of two keys, which use the scratch meanwhile.
    fn between<R>(&mut self, start: &[u8], end: &[u8], read: impl FnOnce(&mut Self, &[u8], &[u8]) -> R) -> R {
        let mut bounds = std::mem::take(&mut self.key);
        bounds.clear();
        for part in [&self.prefix, start, &self.prefix, end] {
            bounds.extend_from_slice(part);
        }
        let (start, end) = bounds.split_at(SPACE_BYTES + start.len());
        let answer = read(self, start, end);
        self.key = bounds;
        answer
    }

    fn full_range(&self, start: &[u8], end: &[u8]) -> KeyRange {
        KeyRange::new([&self.prefix, start].concat(), [&self.prefix, end].concat())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let Access::Alone(state) = &mut self.state {
            state.key = std::mem::take(&mut self.key);
            if !self.finished {
                state.rollback(self.last);
            }
        }
    }
}
