//! The store that keeps every row in memory: the counted tree as an implementation of this crate's
//! traits.
//!
//! A snapshot is a clone of the tree, that is, of its root. A flush writes one to a checkpoint.

pub(crate) mod run;
pub mod tree;

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use quartet_env::Disk;
use quartet_model::Version;

use crate::checkpoint::files::{CheckpointFiles, FoundCheckpoint};
use crate::error::StoreError;
use crate::interface::{Cleared, Flush, Flushed, Read, Snapshot, Store, Walk};
use crate::memory::tree::{INNER_CHILDREN, LEAF_ROWS, RemovedRows, Tree, TreeBuilder, Way};
use crate::open_error::OpenError;
use crate::options::StoreOptions;
use crate::position::Position;
use crate::row::Row;

/// The latest state in memory. A new store is empty; a filled one is built by a [`MemoryBuilder`].
#[derive(Default)]
pub struct MemoryStore {
    tree: Tree,
    /// The places of keys that will be written next.
    fetched: Fetched,
    /// The position of the newest checkpoint.
    applied: Position,
    /// The checkpoints' files; none for a store that is never flushed.
    files: Option<CheckpointFiles>,
}

impl MemoryStore {
    /// An empty store that belongs to no disk: its flush writes nothing and succeeds.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Opens the store of the newest checkpoint in `disk`; an empty store if there is none. Changes
    /// nothing on the disk.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        options: &StoreOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(MemoryStore, Option<FoundCheckpoint>), OpenError> {
        let files = CheckpointFiles::new(disk, options);
        let mut builder = MemoryBuilder::new();
        let checkpoint = files.load_newest(&mut |row| builder.push(row), progress)?;
        let store = MemoryStore {
            applied: checkpoint
                .as_ref()
                .map_or(Position::default(), |checkpoint| checkpoint.summary.position),
            files: Some(files),
            ..builder.finish()
        };
        Ok((store, checkpoint))
    }

    /// Takes away what an unfinished checkpoint has left, and, with `remove_other`, what another
    /// store's conversion has.
    pub(crate) fn tidy(&self, remove_other: fn(&dyn Disk) -> io::Result<()>) {
        self.files.iter().for_each(|files| files.tidy_all(remove_other));
    }

    /// Replaces all rows with these.
    pub(crate) fn take_rows(&mut self, rows: MemoryBuilder) {
        self.tree = rows.tree.finish();
    }

    /// Removes every checkpoint.
    pub(crate) fn remove(disk: &dyn Disk) -> io::Result<()> {
        CheckpointFiles::remove_all(disk)
    }
}

/// Keys that have been looked for before they are written, in their order.
#[derive(Default)]
struct Fetched {
    keys: Vec<(Mark, Option<Way>)>,
    /// Number of them that have been written.
    written: usize,
}

/// A short fingerprint of a key: its end and its length.
type Mark = (u32, u32);

fn mark(key: &[u8]) -> Mark {
    let end = key.last_chunk().map_or(0, |end| u32::from_le_bytes(*end));
    (end, key.len() as u32)
}

impl Fetched {
    /// The way to the key, if it is the next to be written.
    fn take(&mut self, key: &[u8]) -> Option<Way> {
        let (next, way) = self.keys.get(self.written)?;
        if *next != mark(key) {
            return None;
        }
        self.written += 1;
        *way
    }

    /// The keys that have not been looked up yet, of these next keys to be written.
    fn missing<'a, 'k>(&mut self, keys: &'a [&'k [u8]]) -> &'a [&'k [u8]] {
        let ahead = &self.keys[self.written..];
        let matching = ahead.iter().zip(keys).take_while(|((next, _), key)| *next == mark(key));
        let matching = matching.count();
        if matching < ahead.len() && matching < keys.len() || self.written == self.keys.len() {
            self.keys.clear();
            self.written = 0;
            return keys;
        }
        &keys[matching..]
    }
}

/// A moment of a [`MemoryStore`].
#[derive(Clone)]
pub struct MemorySnapshot {
    tree: Tree,
}

/// Fills a store with rows that arrive in key order, as a checkpoint's do; several times faster
/// than setting each.
#[derive(Default)]
pub struct MemoryBuilder {
    tree: TreeBuilder<LEAF_ROWS, INNER_CHILDREN>,
}

impl MemoryBuilder {
    /// Starts without rows.
    pub fn new() -> MemoryBuilder {
        MemoryBuilder::default()
    }

    /// Panics unless the key is above all before it.
    pub fn push(&mut self, row: Row) {
        self.tree.push(row);
    }

    /// Returns the store of the pushed rows. Like a new store it belongs to no disk.
    pub fn finish(self) -> MemoryStore {
        MemoryStore {
            tree: self.tree.finish(),
            ..MemoryStore::default()
        }
    }
}

/// The rows that a range clear took out of a store.
pub struct MemoryCleared {
    rows: RemovedRows,
}

impl Cleared for MemoryCleared {
    fn count(&self) -> u64 {
        self.rows.count()
    }

    fn row_bytes(&self) -> u64 {
        self.rows.rows().map(Row::stored_bytes).sum()
    }
}

/// The rows of one moment, on their way to a checkpoint.
pub struct MemoryFlush {
    rows: MemorySnapshot,
    files: Option<CheckpointFiles>,
}

/// A checkpoint that is on disk.
pub struct MemoryFlushed {
    position: Position,
    bytes: u64,
}

impl Store for MemoryStore {
    type Snapshot = MemorySnapshot;
    type Cleared = MemoryCleared;
    type Flush = MemoryFlush;
    type Outdated = ();

    #[inline]
    fn set(&mut self, row: Row) -> Result<Option<Row>, StoreError> {
        let row = match self.fetched.take(row.key()) {
            None => row,
            Some(way) => match self.tree.replace(&way, row) {
                Ok(old) => return Ok(Some(old)),
                Err(row) => row,
            },
        };
        Ok(self.tree.insert(row))
    }

    fn fetch(&mut self, keys: &[&[u8]]) {
        let missing = self.fetched.missing(keys);
        let mut marks = missing.iter().map(|key| mark(key));
        self.tree.fetch(missing, &mut |way| {
            self.fetched.keys.extend(marks.next().map(|mark| (mark, way)))
        });
    }

    fn clear(&mut self, key: &[u8]) -> Result<Option<Row>, StoreError> {
        self.fetched.take(key);
        Ok(self.tree.remove(key))
    }

    fn clear_nth(&mut self, start: &[u8], end: &[u8], index: u64) -> Result<Option<Row>, StoreError> {
        let rank = nth(&self.tree, start, end, index).map(|(rank, _)| rank);
        Ok(rank.and_then(|rank| self.tree.remove_nth(rank)))
    }

    fn clear_end(&mut self, start: &[u8], end: &[u8], last: bool) -> Result<Option<Row>, StoreError> {
        Ok(self.tree.remove_end(start, end, last))
    }

    fn clear_range(&mut self, start: &[u8], end: &[u8]) -> Result<MemoryCleared, StoreError> {
        Ok(MemoryCleared {
            rows: self.tree.remove_range(start, end),
        })
    }

    fn restore(&mut self, cleared: &MemoryCleared) {
        for row in cleared.rows.rows() {
            self.tree.insert(row.clone());
        }
    }

    fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot {
            tree: self.tree.clone(),
        }
    }

    fn applied(&self) -> Position {
        self.applied
    }

    fn begin_flush(&mut self) -> MemoryFlush {
        MemoryFlush {
            rows: self.snapshot(),
            files: self.files.clone(),
        }
    }

    fn end_flush(&mut self, flushed: Option<MemoryFlushed>) {
        if let Some(flushed) = flushed {
            self.applied = flushed.position;
        }
    }
}

impl Flush for MemoryFlush {
    type Flushed = MemoryFlushed;

    fn run(self, position: Position) -> Result<MemoryFlushed, StoreError> {
        let bytes = match self.files {
            Some(files) => files.write(self.rows, position)?,
            None => 0,
        };
        Ok(MemoryFlushed { position, bytes })
    }
}

impl Flushed for MemoryFlushed {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Snapshot for MemorySnapshot {
    fn drain(self, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) -> Result<(), StoreError> {
        self.tree.drain(visit);
        Ok(())
    }
}

/// Below this number, rows are mostly in the processor's caches: looking them up twice costs more
/// than the prefetch saves. With small rows and a shared cache of 32 MiB, walks of ten rows gain
/// from 60,000 rows on. Single lookups gain with any number.
pub(crate) const FAR_FROM_ROWS: u64 = 1 << 16;

fn is_far(tree: &Tree) -> bool {
    tree.len() >= FAR_FROM_ROWS
}

/// The common reads of a store and its snapshots.
trait Rows {
    fn tree(&self) -> &Tree;
}

impl Rows for MemoryStore {
    fn tree(&self) -> &Tree {
        &self.tree
    }
}

impl Rows for MemorySnapshot {
    fn tree(&self) -> &Tree {
        &self.tree
    }
}

impl<T: Rows> Read for T {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Row>, StoreError> {
        Ok(self.tree().get(key).cloned())
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        reverse: bool,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.tree().visit(start, end, reverse, visit);
        Ok(())
    }

    fn scan_numbers(
        &self,
        range: Range<&[u8]>,
        key_bytes: usize,
        visit: &mut dyn FnMut(&[u64]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.tree().visit_numbers(range.start, range.end, key_bytes, visit);
        Ok(())
    }

    fn walk(&self, start: &[u8], visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) -> Result<(), StoreError> {
        // The visitor decides when to stop; the caller knows that it did.
        let _ = self.tree().rows_from(start).try_for_each(visit);
        Ok(())
    }

    fn count(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        Ok(self.tree().count(start, end))
    }

    fn nth(&self, start: &[u8], end: &[u8], index: u64) -> Result<Option<Row>, StoreError> {
        Ok(nth(self.tree(), start, end, index).map(|(_, row)| row.clone()))
    }

    fn row_bytes(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        Ok(self.tree().range(start, end).map(Row::stored_bytes).sum())
    }

    fn has_newer(&self, start: &[u8], end: &[u8], version: Version) -> Result<bool, StoreError> {
        Ok(self.tree().has_newer(start, end, version))
    }

    fn len(&self) -> u64 {
        self.tree().len()
    }

    fn get_each(&self, keys: &[&[u8]]) -> Result<Vec<Option<Row>>, StoreError> {
        let mut rows = Vec::with_capacity(keys.len());
        self.tree().get_each(keys, &mut |row| rows.push(row.cloned()));
        Ok(rows)
    }

    fn fetch_rows(&self, keys: &[&[u8]]) {
        if is_far(self.tree()) {
            self.tree().fetch_rows(keys);
        }
    }

    fn fetch_walks(&self, walks: &[Walk<'_>]) {
        if is_far(self.tree()) {
            self.tree().fetch_walks(walks);
        }
    }
}

/// The row with `index` rows of the range before it, and its rank in the tree.
fn nth<'t>(tree: &'t Tree, start: &[u8], end: &[u8], index: u64) -> Option<(u64, &'t Row)> {
    if start >= end {
        return None;
    }
    let rank = tree.rank(start).checked_add(index)?;
    let row = tree.nth(rank).filter(|row| row.key() < end)?;
    Some((rank, row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conforms() {
        crate::conformance::check(MemoryStore::new);
    }

    /// The number of keys that wait to be written, with a way or without.
    fn waiting(store: &MemoryStore) -> (usize, usize) {
        let keys = &store.fetched.keys[store.fetched.written..];
        let resolved = keys.iter().filter(|(_, way)| way.is_some()).count();
        (resolved, keys.len() - resolved)
    }

    #[test]
    fn fetched_lines_are_not_fetched_again() {
        let mut store = MemoryStore::new();
        let key = |number: u64| number.to_be_bytes();
        let row = |number, version| Row::new(&key(number), b"v", Version(version));
        (0..1000)
            .step_by(2)
            .for_each(|number| _ = store.set(row(number, 1)).unwrap());
        let fetch = |store: &mut MemoryStore, numbers: &[u64]| {
            let keys: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
            store.fetch(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>());
        };
        let replaces = |store: &mut MemoryStore, number| store.set(row(number, 2)).unwrap().is_some();
        fetch(&mut store, &[2, 4, 5, 6, 8]);
        assert_eq!(waiting(&store), (4, 1));
        assert!(replaces(&mut store, 2));
        fetch(&mut store, &[4, 5]);
        assert_eq!(waiting(&store), (3, 1));
        assert!(store.clear(&key(4)).unwrap().is_some());
        assert!(!replaces(&mut store, 5) && replaces(&mut store, 6));
        fetch(&mut store, &[8, 10]);
        assert_eq!(waiting(&store), (2, 0));
        // Other keys are written than were announced.
        assert!(replaces(&mut store, 100));
        assert_eq!(waiting(&store), (2, 0));
        fetch(&mut store, &[102, 10]);
        assert_eq!(waiting(&store), (2, 0));
        assert!(replaces(&mut store, 102) && replaces(&mut store, 10));
        assert_eq!(waiting(&store), (0, 0));
        assert_eq!(store.len(), 500);
    }

    /// Prefetching reads rows' headers, of any length of theirs, and of keys that are not there.
    #[test]
    fn rows_of_any_size_are_fetched() {
        let mut store = MemoryStore::new();
        let key = |number: u64| number.to_be_bytes();
        for number in (0..2 * FAR_FROM_ROWS).step_by(2) {
            let value = vec![7; [0, 40, 500, 3_000][number as usize / 2 % 4]];
            store.set(Row::new(&key(number), &value, Version(1))).unwrap();
        }
        let keys: Vec<_> = (0..1000).map(|number| key(number * 131)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let each = |store: &MemoryStore| store.get_each(&keys).unwrap();
        let before = each(&store);
        store.fetch_rows(&keys);
        store.fetch_rows(&[]);
        assert!(each(&store) == before && before.iter().flatten().count() == 500);
    }

    /// Each state that is kept holds a leaf of its own, and so a handle of every row in it: more
    /// than a row can count.
    #[test]
    fn more_states_are_kept_than_a_row_has_handles() {
        use quartet_model::Version;
        const STATES: u64 = 10_000;
        let mut store = MemoryStore::new();
        let put = |store: &mut MemoryStore, key: u8, number: u64| {
            let row = Row::new(&[key], &number.to_be_bytes(), Version(number));
            store.set(row).unwrap();
        };
        (0..10).for_each(|key| put(&mut store, key, 1));
        let mut states = Vec::new();
        for number in 1..=STATES {
            put(&mut store, 3, number);
            states.push((number, store.snapshot()));
        }
        let holds = |state: &dyn Read, key: u8, number: u64| {
            let row = state.get(&[key]).unwrap().unwrap();
            assert_eq!(
                (row.value(), row.version()),
                (&number.to_be_bytes()[..], Version(number))
            );
        };
        for interval in [1, 3, 1000] {
            states.retain(|(number, _)| number % interval == 0);
            for (number, state) in &states {
                holds(state, 3, *number);
                (4..10).for_each(|key| holds(state, key, 1));
            }
        }
        drop(states);
        holds(&store, 3, STATES);
        (4..10).for_each(|key| holds(&store, key, 1));
    }

    /// For tests of reading ahead it was one row for a while.
    #[test]
    fn few_rows_are_not_far() {
        let mut store = MemoryStore::new();
        for number in 0..50_000_u64 {
            store
                .set(Row::new(&number.to_be_bytes(), b"", quartet_model::Version(1)))
                .unwrap();
        }
        assert!(!is_far(&store.tree));
    }

    #[test]
    fn a_built_store_holds_what_was_pushed() {
        let mut builder = MemoryBuilder::new();
        let rows: Vec<Row> = (0..100u8)
            .map(|byte| Row::new(&[byte], b"v", quartet_model::Version(1)))
            .collect();
        rows.iter().for_each(|row| builder.push(row.clone()));
        let store = builder.finish();
        assert_eq!(store.len(), 100);
        assert_eq!(store.nth(&[10], &[200], 5).unwrap(), Some(rows[15].clone()));
    }
}
