//! Whichever store a data directory holds.
//!
//! One `match` a call instead of a call through a table: reading a row is the hottest thing there is.

use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_env::Disk;

use crate::checkpoint_files::FoundCheckpoint;
use crate::error::StoreError;
use crate::interface::{Cleared, Flush, Flushed, Read, Snapshot, Store};
use crate::memory::{MemoryCleared, MemoryFlush, MemoryFlushed, MemorySnapshot, MemoryStore};
use crate::open_error::OpenError;
use crate::position::Position;
use crate::row::Row;

/// How a store is opened.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// Bytes to keep reserved on the disk, so that a small checkpoint can be written when it is full.
    pub reserved_bytes: u64,
}

/// A store as its directory has it, before the log's rest is applied.
pub struct Opened {
    pub store: PartitionStore,
    pub checkpoint: Option<FoundCheckpoint>,
}

pub enum PartitionStore {
    Memory(MemoryStore),
}

/// What a transaction reads.
pub enum PartitionSnapshot {
    Memory(MemorySnapshot),
}

pub enum PartitionCleared {
    Memory(MemoryCleared),
}

pub enum PartitionFlush {
    Memory(MemoryFlush),
}

pub enum PartitionFlushed {
    Memory(MemoryFlushed),
}

impl PartitionStore {
    /// Opens what is in `disk`, an empty store if that is empty; `progress` hears how many rows have been read. Changes
    /// nothing on the disk.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: &StoreOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Opened, OpenError> {
        let (store, checkpoint) = MemoryStore::open(disk, options.reserved_bytes, progress)?;
        Ok(Opened {
            store: PartitionStore::Memory(store),
            checkpoint,
        })
    }

    /// Takes away what unfinished flushes have left on the disk, and keeps the reserved bytes ready. Never while one runs.
    pub fn tidy(&self) {
        match self {
            PartitionStore::Memory(store) => store.tidy(),
        }
    }
}

impl Read for PartitionStore {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.get(key),
        }
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        reverse: bool,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        match self {
            PartitionStore::Memory(store) => store.scan(start, end, reverse, visit),
        }
    }

    fn walk(&self, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) -> Result<(), StoreError> {
        match self {
            PartitionStore::Memory(store) => store.walk(visit),
        }
    }

    fn count(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.count(start, end),
        }
    }

    fn nth(&self, start: &[u8], end: &[u8], index: u64) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.nth(start, end, index),
        }
    }

    fn row_bytes(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.row_bytes(start, end),
        }
    }

    fn len(&self) -> u64 {
        match self {
            PartitionStore::Memory(store) => store.len(),
        }
    }
}

impl Read for PartitionSnapshot {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.get(key),
        }
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        reverse: bool,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.scan(start, end, reverse, visit),
        }
    }

    fn walk(&self, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) -> Result<(), StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.walk(visit),
        }
    }

    fn count(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.count(start, end),
        }
    }

    fn nth(&self, start: &[u8], end: &[u8], index: u64) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.nth(start, end, index),
        }
    }

    fn row_bytes(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.row_bytes(start, end),
        }
    }

    fn len(&self) -> u64 {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.len(),
        }
    }
}

impl Snapshot for PartitionSnapshot {
    fn drain(self, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) -> Result<(), StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.drain(visit),
        }
    }
}

impl Store for PartitionStore {
    type Snapshot = PartitionSnapshot;
    type Cleared = PartitionCleared;
    type Flush = PartitionFlush;

    #[inline]
    fn set(&mut self, row: Row) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.set(row),
        }
    }

    fn clear(&mut self, key: &[u8]) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.clear(key),
        }
    }

    fn clear_range(&mut self, start: &[u8], end: &[u8]) -> Result<PartitionCleared, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.clear_range(start, end).map(PartitionCleared::Memory),
        }
    }

    fn restore(&mut self, cleared: &PartitionCleared) {
        match (self, cleared) {
            (PartitionStore::Memory(store), PartitionCleared::Memory(cleared)) => store.restore(cleared),
        }
    }

    fn snapshot(&self) -> PartitionSnapshot {
        match self {
            PartitionStore::Memory(store) => PartitionSnapshot::Memory(store.snapshot()),
        }
    }

    fn applied(&self) -> Position {
        match self {
            PartitionStore::Memory(store) => store.applied(),
        }
    }

    fn begin_flush(&mut self) -> PartitionFlush {
        match self {
            PartitionStore::Memory(store) => PartitionFlush::Memory(store.begin_flush()),
        }
    }

    fn end_flush(&mut self, flushed: Option<PartitionFlushed>) {
        match (self, flushed) {
            (PartitionStore::Memory(store), Some(PartitionFlushed::Memory(flushed))) => store.end_flush(Some(flushed)),
            (PartitionStore::Memory(store), None) => store.end_flush(None),
        }
    }
}

impl Cleared for PartitionCleared {
    fn count(&self) -> u64 {
        match self {
            PartitionCleared::Memory(cleared) => cleared.count(),
        }
    }

    fn row_bytes(&self) -> u64 {
        match self {
            PartitionCleared::Memory(cleared) => cleared.row_bytes(),
        }
    }
}

impl Flush for PartitionFlush {
    type Flushed = PartitionFlushed;

    fn run(self, position: Position) -> Result<PartitionFlushed, StoreError> {
        match self {
            PartitionFlush::Memory(flush) => flush.run(position).map(PartitionFlushed::Memory),
        }
    }
}

impl Flushed for PartitionFlushed {
    fn bytes(&self) -> u64 {
        match self {
            PartitionFlushed::Memory(flushed) => flushed.bytes(),
        }
    }
}
