//! Ordered storage of rows: what the engine reads and writes, and the engine that keeps everything in memory.
//!
//! A store holds the latest row of every key and hands out snapshots: the whole store as it was at that moment, to be
//! read on any thread without a lock. It keeps no log and no clock and judges no conflicts; rows carry the version that
//! wrote them, and that is all it knows of time. Ranges include their start and exclude their end, and are empty when
//! `start >= end`.
//!
//! | file         | what it is                                                       |
//! |--------------|------------------------------------------------------------------|
//! | `row`        | key, value and version behind one pointer; the only unsafe code  |
//! | `run`        | a short sorted run of rows: the body of a tree node              |
//! | `tree`       | the persistent B+tree that counts                                |
//! | `memory`     | the store in memory: the tree behind the traits below            |
//! | `hash`       | the hash by which replicas compare their states                  |
//! | `checkpoint` | a snapshot as a stream of checksummed bytes, and back            |
//! | `conformance`| the tests that every store must pass                             |

use std::ops::ControlFlow;
use std::sync::Arc;

pub mod checkpoint;
#[doc(hidden)]
pub mod conformance;
mod hash;
mod memory;
mod row;
mod run;
pub mod tree;

pub use hash::{StateHasher, state_hash};
pub use memory::{Cleared, MemoryBuilder, MemorySnapshot, MemoryStore};
pub use row::{Row, all_rows_bytes};

/// Reading rows, of a store or of a snapshot.
///
/// Costs are those of the memory engine for `n` rows. An engine without counts may have to scan for `count` and `nth`.
pub trait Read {
    /// The row under `key`. O(log n).
    fn get(&self, key: &[u8]) -> Option<Row>;

    /// Visits the rows of the range in key order, or against it if `reverse`, until the visitor breaks.
    /// O(log n) and then constant for each row.
    fn scan(&self, start: &[u8], end: &[u8], reverse: bool, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>);

    /// Visits all rows in key order until the visitor breaks: the one range without an end.
    fn walk(&self, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>);

    /// The number of rows in the range. O(log n).
    fn count(&self, start: &[u8], end: &[u8]) -> u64;

    /// The row with `index` rows of the range before it, if the range is that long. O(log n).
    fn nth(&self, start: &[u8], end: &[u8], index: u64) -> Option<Row>;

    /// The number of all rows. O(1).
    fn len(&self) -> u64;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A store as it was when the snapshot was taken; later writes do not show.
pub trait Snapshot: Read + Send + Sync {
    /// Visits all rows in key order until the visitor breaks, and lets go of what it has visited as it goes: whoever writes
    /// there meanwhile need not keep what was there before. A snapshot that somebody else holds as well stays whole.
    fn drain(self: Arc<Self>, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>);
}

/// The latest state, written by one thread at a time.
pub trait Store: Read + Send {
    /// Puts the row in the place of the one with the same key, which is returned, or adds it. O(log n).
    fn set(&mut self, row: Row) -> Option<Row>;

    /// Removes and returns the row under `key`. O(log n).
    fn clear(&mut self, key: &[u8]) -> Option<Row>;

    /// Takes out all rows of the range. O(log n) and the number of nodes cut off whole; freeing the rows costs whoever
    /// drops the answer.
    fn clear_range(&mut self, start: &[u8], end: &[u8]) -> Cleared;

    /// Puts back what `clear_range` took out, replacing rows written under the same keys since; rows written under
    /// other keys stay. To undo a transaction, undo its effects in reverse order. O(log n) for each row.
    fn restore(&mut self, cleared: &Cleared);

    /// The store as it is now. O(1); while a snapshot lives, the first write to each node copies that node.
    fn snapshot(&self) -> Arc<dyn Snapshot>;
}
