//! The interface of a store; any implementation that passes `conformance` may be used.

use std::ops::{ControlFlow, Range};

use quartet_model::Version;

use crate::error::StoreError;
use crate::position::Position;
use crate::row::Row;

/// A few rows that will be visited, from a key on or backwards from it.
#[derive(Clone, Copy, Debug)]
pub struct Walk<'k> {
    /// The lower bound of the walk's keys, inclusive; backwards, the upper bound, exclusive.
    pub from: &'k [u8],
    /// Towards lower keys.
    pub reverse: bool,
    /// Upper bound on the rows visited.
    pub rows: usize,
}

/// Reading rows, of a store or of a snapshot. An error is the disk's; a store in memory has none.
pub trait Read {
    /// The row under `key`. O(log n).
    fn get(&self, key: &[u8]) -> Result<Option<Row>, StoreError>;

    /// Visits the rows of the range in key order, or against it if `reverse`, until the visitor
    /// breaks. O(log n) and then constant for each row. After an error, what was visited is right
    /// and not all there is.
    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        reverse: bool,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// Visits the last eight bytes of each key of the range as a big-endian number, in key order
    /// and several at a time, until the visitor breaks. Every key of the range is `key_bytes` long.
    /// Rows in memory are not accessed where the tree has the numbers.
    fn scan_numbers(
        &self,
        range: Range<&[u8]>,
        _key_bytes: usize,
        visit: &mut dyn FnMut(&[u64]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.scan(range.start, range.end, false, &mut |row| visit(&[number_of(row.key())]))
    }

    /// Visits all rows from `start` on in key order until the visitor breaks: the only range
    /// without an end. For callers that read everything once: it evicts no cached data.
    fn walk(&self, start: &[u8], visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) -> Result<(), StoreError>;

    /// The number of rows in the range. About O(log n).
    fn count(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError>;

    /// The row with `index` rows of the range before it, if the range is that long. About O(log n).
    fn nth(&self, start: &[u8], end: &[u8], index: u64) -> Result<Option<Row>, StoreError>;

    /// Returns the sum of [`Row::stored_bytes`] over the range. May visit each row that is in
    /// memory.
    fn row_bytes(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError>;

    /// Returns true if a row of the range is newer than `version`. About O(log n), regardless of
    /// the number of rows. A removed row of such a version may still count.
    fn has_newer(&self, start: &[u8], end: &[u8], version: Version) -> Result<bool, StoreError>;

    /// The number of all rows. O(1).
    fn len(&self) -> u64;

    /// Returns the rows under the keys, in their order. For rows in memory several take little
    /// longer than one row.
    fn get_each(&self, keys: &[&[u8]]) -> Result<Vec<Option<Row>>, StoreError> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Prefetches the rows under the keys, which will be read soon. Changes nothing and returns
    /// nothing.
    fn fetch_rows(&self, _keys: &[&[u8]]) {}

    /// Prefetches the nodes that several walks will visit. Changes nothing and returns nothing.
    fn fetch_walks(&self, _walks: &[Walk<'_>]) {}

    /// Returns true if there is no row at all. O(1).
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The number that a key ends with.
#[inline]
pub(crate) fn number_of(key: &[u8]) -> u64 {
    let number = key.last_chunk().expect("the key ends with a number");
    u64::from_be_bytes(*number)
}

/// A store as it was when the snapshot was taken; later writes do not show.
pub trait Snapshot: Read + Send + Sync {
    /// Visits all rows in key order until the visitor breaks, and releases visited nodes as it
    /// proceeds: a writer need not keep the old versions of those.
    fn drain(self, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) -> Result<(), StoreError>;
}

/// The rows that a range clear removed from a store. Dropping it frees them, on any thread.
pub trait Cleared: Send {
    /// The number of rows. O(1).
    fn count(&self) -> u64;

    /// Returns the sum of their [`Row::stored_bytes`]. May visit each row that is in memory.
    fn row_bytes(&self) -> u64;
}

/// The latest state, written by one thread at a time. A write that answers an error has changed
/// nothing.
///
/// Writes can be undone in reverse order: [`Store::set`] the row that a set replaced or a clear
/// removed, [`Store::clear`] the row that a set added, [`Store::restore`] a range. Undoing never
/// fails, since it needs only rows that the write has loaded into memory.
pub trait Store: Read + Send {
    /// The result of [`Store::snapshot`]: readable on any thread while this store continues to be
    /// written.
    type Snapshot: Snapshot;
    /// The rows that [`Store::clear_range`] removed, kept until its transaction can no longer be
    /// rolled back.
    type Cleared: Cleared;
    /// The result of [`Store::begin_flush`]: work for another thread.
    type Flush: Flush;
    /// The nodes that a flush has replaced.
    type Outdated: Send;

    /// Replaces the row with the same key, which is returned, or adds the row. O(log n).
    fn set(&mut self, row: Row) -> Result<Option<Row>, StoreError>;

    /// Prefetches the nodes on the paths to `keys`. The keys are about to be set or cleared, in
    /// this order, so their paths are remembered. The first of them may have been fetched before.
    fn fetch(&mut self, _keys: &[&[u8]]) {}

    /// Removes and returns the row under `key`. O(log n).
    fn clear(&mut self, key: &[u8]) -> Result<Option<Row>, StoreError>;

    /// Removes and returns the row with `index` rows of the range before it, if the range is that
    /// long. About O(log n).
    fn clear_nth(&mut self, start: &[u8], end: &[u8], index: u64) -> Result<Option<Row>, StoreError> {
        match self.nth(start, end, index)? {
            Some(row) => self.clear(row.key()),
            None => Ok(None),
        }
    }

    /// Removes and returns the first row of the range, or the last. O(log n).
    fn clear_end(&mut self, start: &[u8], end: &[u8], last: bool) -> Result<Option<Row>, StoreError> {
        let mut removed = None;
        self.scan(start, end, last, &mut |row| {
            removed = Some(row.clone());
            ControlFlow::Break(())
        })?;
        match removed {
            Some(row) => self.clear(row.key()),
            None => Ok(None),
        }
    }

    /// Takes out all rows of the range. O(log n) and the number of nodes cut off whole.
    fn clear_range(&mut self, start: &[u8], end: &[u8]) -> Result<Self::Cleared, StoreError>;

    /// Restores the rows that `clear_range` removed. Later writes to that range must have been
    /// undone before. O(log n) for each row that was in memory.
    fn restore(&mut self, cleared: &Self::Cleared);

    /// The store as it is now. O(1); while a snapshot lives, the first write to each node copies
    /// that node.
    fn snapshot(&self) -> Self::Snapshot;

    /// The log position up to which the disk has the state: opening needs the log from there on.
    fn applied(&self) -> Position;

    /// Starts to write the store's current state to disk. No other flush is running. O(1).
    fn begin_flush(&mut self) -> Self::Flush;

    /// Adopts the result of a flush; `None` if it failed or never ran. O(1). The caller drops the
    /// returned value outside of locks: that frees memory and removes files.
    fn end_flush(&mut self, flushed: Option<<Self::Flush as Flush>::Flushed>) -> Self::Outdated;
}

/// The work of writing a store to disk, for any thread.
pub trait Flush: Send + 'static {
    /// The result that the store takes over by [`Store::end_flush`].
    type Flushed: Flushed;

    /// Writes the store's state at the start of the flush, which is the state at `position` of the
    /// log, and makes it durable atomically: after an error or a crash the previous state is on
    /// disk. Releases space that is no longer needed.
    fn run(self, position: Position) -> Result<Self::Flushed, StoreError>;
}

/// The result of a flush.
pub trait Flushed: Send + 'static {
    /// Bytes written.
    fn bytes(&self) -> u64;
}
