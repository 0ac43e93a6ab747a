//! Reading without a transaction: the state as it was, for layers that keep their own history.
//!
//! A [`Reader`] is never certified and never waits; a caller that returns data newer than `durable`
//! holds the answer back.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use quartet_model::Version;
use quartet_store::Walk;
use quartet_store::{PartitionSnapshot, Read, Row, StoreError};

use crate::conflicts::full_keys::FullKeys;
use crate::partition::state::Dependency;
use crate::space::{SPACE_BYTES, Space};

/// One space at the latest commit. Keys are relative to the space.
pub struct Reader {
    pub(crate) snapshot: Readable,
    pub(crate) prefix: [u8; SPACE_BYTES],
    /// The latest commit.
    pub version: Version,
    /// `durable <= version`.
    pub durable: Version,
    /// The dependency of an answer that rests on everything; zero if everything is durable.
    pub dependency: Dependency,
    /// The clock's time at the start, in microseconds since the Unix epoch.
    pub now_micros: u64,
    /// The microsecond before, but never before a commit or an earlier reader's, also if the clock
    /// was set back. Later commits land above it.
    pub present_micros: u64,
}

/// A snapshot that remembers whether all of it could be read.
pub(crate) struct Readable {
    snapshot: PartitionSnapshot,
    failed: AtomicBool,
}

impl Readable {
    pub fn new(snapshot: PartitionSnapshot) -> Readable {
        Readable {
            snapshot,
            failed: AtomicBool::new(false),
        }
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub fn get(&self, key: &[u8]) -> Option<Row> {
        self.readable(self.snapshot.get(key))
    }

    pub fn count(&self, start: &[u8], end: &[u8]) -> u64 {
        self.readable(self.snapshot.count(start, end))
    }

    pub fn nth(&self, start: &[u8], end: &[u8], index: u64) -> Option<Row> {
        self.readable(self.snapshot.nth(start, end, index))
    }

    pub fn scan(&self, start: &[u8], end: &[u8], reverse: bool, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) {
        self.readable(self.snapshot.scan(start, end, reverse, visit));
    }

    pub fn get_each(&self, keys: &[&[u8]]) -> Vec<Option<Row>> {
        self.readable(self.snapshot.get_each(keys))
    }

    pub fn fetch_walks(&self, walks: &[Walk<'_>]) {
        self.snapshot.fetch_walks(walks);
    }

    #[inline]
    fn readable<T: Default>(&self, read: Result<T, StoreError>) -> T {
        read.unwrap_or_else(|error| {
            tracing::error!(%error, "a snapshot could not be read");
            self.failed.store(true, Ordering::Relaxed);
            T::default()
        })
    }
}

/// The value of a row, in place. Holding it keeps the row, but no snapshot.
#[derive(Clone)]
pub enum RowValue {
    /// A row of the store.
    Stored(Row),
    /// A value that the transaction itself has written.
    Written(Vec<u8>),
}

impl std::ops::Deref for RowValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            RowValue::Stored(row) => row.value(),
            RowValue::Written(value) => value,
        }
    }
}

/// Takes a key, relative to the space, and its value.
pub type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

impl Reader {
    /// One space of an immutable state. Its time is that of its newest commit.
    pub(crate) fn of_snapshot(snapshot: PartitionSnapshot, space: Space, version: Version) -> Reader {
        Reader {
            snapshot: Readable::new(snapshot),
            prefix: space.prefix(),
            version,
            durable: version,
            dependency: Version::ZERO,
            now_micros: version.0,
            present_micros: version.0,
        }
    }

    /// Returns true if the disk did not return something that was read: do not send an answer that
    /// rests on it. The reason is in the server's log.
    pub fn is_unreadable(&self) -> bool {
        self.snapshot.has_failed()
    }

    /// The value at `key`.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get_row(key).map(|value| value.to_vec())
    }

    /// Like `get`, without copying.
    pub fn get_row(&self, key: &[u8]) -> Option<RowValue> {
        let row = self.snapshot.get(&[&self.prefix, key].concat());
        row.map(RowValue::Stored)
    }

    /// The rows at the keys, in their order: several take little longer than one row.
    pub fn get_each(&self, keys: &[&[u8]]) -> Vec<Option<Row>> {
        let mut full = FullKeys::new();
        keys.iter().for_each(|key| _ = full.push(&self.prefix, key));
        self.snapshot.get_each(&full.iter().collect::<Vec<_>>())
    }

    /// Prefetches the nodes that several walks will visit.
    pub fn fetch_walks(&self, walks: &[Walk<'_>]) {
        let mut full = FullKeys::new();
        walks.iter().for_each(|walk| _ = full.push(&self.prefix, walk.from));
        let walks = full.iter().zip(walks).map(|(from, walk)| Walk { from, ..*walk });
        self.snapshot.fetch_walks(&walks.collect::<Vec<_>>());
    }

    /// Returns true if the row is one of this space, at `key`.
    pub fn is_at(&self, row: &Row, key: &[u8]) -> bool {
        row.key().strip_prefix(&self.prefix[..]) == Some(key)
    }

    /// The number of rows in `start..end`.
    pub fn count(&self, start: &[u8], end: &[u8]) -> u64 {
        let (start, end) = ([&self.prefix, start].concat(), [&self.prefix, end].concat());
        self.snapshot.count(&start, &end)
    }

    /// The row at position `index` of `start..end`, counted from zero. Its key carries the space's
    /// prefix: see [`crate::Transaction::layer_key`].
    pub fn nth(&self, start: &[u8], end: &[u8], index: u64) -> Option<Row> {
        let (start, end) = ([&self.prefix, start].concat(), [&self.prefix, end].concat());
        self.snapshot.nth(&start, &end, index)
    }

    /// Visits the rows of `start..end` in key order until `visit` breaks. Their keys carry the
    /// space's prefix: see [`crate::Transaction::layer_key`].
    pub fn scan_rows(&self, start: &[u8], end: &[u8], visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) {
        let (start, end) = ([&self.prefix, start].concat(), [&self.prefix, end].concat());
        self.snapshot.scan(&start, &end, false, visit);
    }

    /// Visits keys and values of `start..end` in key order, or backwards, until `visit` breaks.
    pub fn scan(&self, start: &[u8], end: &[u8], reverse: bool, visit: Visit<'_>) {
        let (start, end) = ([&self.prefix, start].concat(), [&self.prefix, end].concat());
        self.snapshot.scan(&start, &end, reverse, &mut |row| {
            visit(&row.key()[SPACE_BYTES..], row.value())
        });
    }
}
