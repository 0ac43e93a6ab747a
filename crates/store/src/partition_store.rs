//! The store of a data directory, of either kind.
//!
//! One `match` a call instead of a call through a table: reading a row is the hottest thing there
//! is.

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use quartet_env::Disk;
use quartet_model::Version;

use crate::checkpoint::files::{self, CheckpointFiles, FoundCheckpoint};
use crate::error::StoreError;
use crate::interface::{Cleared, Flush, Flushed, Read, Snapshot, Store, Walk};
use crate::load::{PartitionLoad, Rows};
use crate::memory::{MemoryBuilder, MemoryCleared, MemoryFlush, MemoryFlushed, MemorySnapshot, MemoryStore};
use crate::open_error::OpenError;
use crate::options::{StoreKind, StoreOptions};
use crate::position::Position;
use crate::row::Row;
use crate::ssd::{self, DiskUse, SsdCleared, SsdFlush, SsdFlushed, SsdOutdated, SsdSnapshot, SsdStore};

impl StoreKind {
    /// The kind that the directory holds; `None` if it is empty.
    pub fn of(disk: &dyn Disk) -> io::Result<Option<StoreKind>> {
        if ssd::is_in(disk)? {
            return Ok(Some(StoreKind::Ssd));
        }
        let is_data = |name: &String| name.starts_with("log-") || files::is_checkpoint(name);
        Ok(disk.list()?.iter().any(is_data).then_some(StoreKind::Memory))
    }
}

/// A store as its directory has it, before the log's rest is applied.
pub struct Opened {
    /// The rows up to [`Store::applied`]; later records of the log have yet to be applied.
    pub store: PartitionStore,
    /// The checkpoint that was read; `None` if there was none, and always for the ssd store.
    pub checkpoint: Option<FoundCheckpoint>,
}

/// The rows of a partition, in the form that its data directory has.
pub enum PartitionStore {
    /// Every row is in memory.
    Memory(MemoryStore),
    /// Rows are in files.
    Ssd(Box<SsdStore>),
    /// A moment of one of these, as code reads it that is written for a store. It takes no writes.
    Frozen(Box<PartitionSnapshot>),
}

const FROZEN: &str = "a moment takes no writes";

/// The snapshot that a transaction reads.
#[derive(Clone)]
pub enum PartitionSnapshot {
    /// A snapshot of a [`MemoryStore`]: never fails.
    Memory(MemorySnapshot),
    /// A snapshot of an [`SsdStore`]: reads its files, which may fail.
    Ssd(SsdSnapshot),
}

/// The rows that a range clear removed. They can be restored only into the store that they are
/// from: any other panics.
pub enum PartitionCleared {
    /// Rows of a [`MemoryStore`].
    Memory(MemoryCleared),
    /// Rows of an [`SsdStore`].
    Ssd(Box<SsdCleared>),
}

/// The work of writing the rows to disk.
pub enum PartitionFlush {
    /// Writes a checkpoint of all rows.
    Memory(MemoryFlush),
    /// Writes what has changed as a new generation of the tree.
    Ssd(Box<SsdFlush>),
}

/// The result of a flush. Only the store that started it may adopt it: any other panics.
pub enum PartitionFlushed {
    /// A checkpoint.
    Memory(MemoryFlushed),
    /// A new generation of the tree.
    Ssd(Box<SsdFlushed>),
}

impl PartitionStore {
    /// Opens the store in `disk`, or an empty store if the disk is empty; calls `progress` with the
    /// number of rows read. Changes nothing on the disk, unless it is empty and a kind is
    /// requested.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: &StoreOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Opened, OpenError> {
        let stored = StoreKind::of(disk.as_ref())?;
        let kind = options.kind.or(stored).unwrap_or(StoreKind::Memory);
        match (kind, stored) {
            (requested, Some(stored)) if requested != stored => {
                return Err(OpenError::OtherEngine {
                    found: stored.name(),
                    wanted: requested.name(),
                });
            }
            (StoreKind::Ssd, None) => ssd::create(disk.as_ref())?,
            _ => {}
        }
        match kind {
            StoreKind::Memory => {
                let (store, checkpoint) = MemoryStore::open(disk, options, progress)?;
                let store = PartitionStore::Memory(store);
                Ok(Opened { store, checkpoint })
            }
            StoreKind::Ssd => {
                let store = SsdStore::open(disk, options.cache_bytes, options.reserved_bytes)?;
                let (store, checkpoint) = (PartitionStore::Ssd(Box::new(store)), None);
                Ok(Opened { store, checkpoint })
            }
        }
    }

    /// Which of the two it is; never changes while it is open.
    pub fn kind(&self) -> StoreKind {
        match self {
            PartitionStore::Memory(_) => StoreKind::Memory,
            PartitionStore::Ssd(_) => StoreKind::Ssd,
            PartitionStore::Frozen(_) => unreachable!("{FROZEN}"),
        }
    }

    /// Writes the rows, which are the state at `position` of the log, in the form of the other kind
    /// of store, and then removes this kind's files: a crash leaves the directory in one form or
    /// the other, with every row. The caller opens the directory again.
    pub fn convert(&mut self, disk: Arc<dyn Disk>, position: Position) -> Result<StoreKind, StoreError> {
        match self {
            PartitionStore::Memory(store) => {
                ssd::fill(disk.clone(), store, position)?;
                MemoryStore::remove(disk.as_ref()).map_err(|source| StoreError::io("checkpoint", source))?;
                Ok(StoreKind::Ssd)
            }
            PartitionStore::Ssd(store) => {
                CheckpointFiles::new(disk.clone(), &StoreOptions::default()).write(store.snapshot(), position)?;
                ssd::remove(disk.as_ref()).map_err(|source| StoreError::io("base", source))?;
                Ok(StoreKind::Memory)
            }
            PartitionStore::Frozen(_) => unreachable!("{FROZEN}"),
        }
    }

    /// Starts to fill the store, which is empty. It stays empty until the load has ended, and must
    /// not be written meanwhile.
    pub fn begin_load(&self) -> PartitionLoad {
        PartitionLoad::new(match self {
            PartitionStore::Memory(_) => Rows::Memory(MemoryBuilder::new()),
            PartitionStore::Ssd(store) => Rows::Ssd(Box::new(store.begin_load())),
            PartitionStore::Frozen(_) => unreachable!("{FROZEN}"),
        })
    }

    /// Takes over what was loaded, which is the state at `position`. Rows of a store on disk are
    /// durable then, others with the next flush.
    pub fn end_load(&mut self, load: PartitionLoad, position: Position) -> Result<(), StoreError> {
        match (self, load.into_rows()) {
            (PartitionStore::Memory(store), Rows::Memory(rows)) => {
                store.take_rows(rows);
                Ok(())
            }
            (PartitionStore::Ssd(store), Rows::Ssd(load)) => store.end_load(*load, position),
            _ => unreachable!("a store takes over what was loaded for it"),
        }
    }

    /// Takes away what unfinished flushes have left on the disk, and keeps the reserved bytes
    /// ready. Never while one runs.
    pub fn tidy(&self) {
        match self {
            PartitionStore::Memory(store) => store.tidy(ssd::remove),
            PartitionStore::Ssd(store) => store.tidy(MemoryStore::remove),
            PartitionStore::Frozen(_) => {}
        }
    }

    /// Reads everything that is on disk and was not read when the store was opened, and verifies
    /// it.
    pub fn verify(&self) -> Result<(), StoreError> {
        match self {
            PartitionStore::Memory(_) | PartitionStore::Frozen(_) => Ok(()),
            PartitionStore::Ssd(store) => store.verify(),
        }
    }

    /// Returns true if a flush would free much of the size of the store's files.
    pub fn is_loose(&self) -> bool {
        match self {
            PartitionStore::Memory(_) | PartitionStore::Frozen(_) => false,
            PartitionStore::Ssd(store) => store.is_loose(),
        }
    }

    /// Memory of changes that are not in the store's files yet, in bytes; zero for a store that
    /// keeps all rows in memory. O(1).
    pub fn unflushed_bytes(&self) -> u64 {
        match self {
            PartitionStore::Memory(_) | PartitionStore::Frozen(_) => 0,
            PartitionStore::Ssd(store) => store.unflushed_bytes(),
        }
    }

    /// Returns the disk use of the store's files, if its rows are read from them.
    pub fn disk_use(&self) -> Option<DiskUse> {
        match self {
            PartitionStore::Memory(_) | PartitionStore::Frozen(_) => None,
            PartitionStore::Ssd(store) => Some(store.disk_use()),
        }
    }
}

impl Read for PartitionStore {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.get(key),
            PartitionStore::Ssd(store) => store.get(key),
            PartitionStore::Frozen(snapshot) => snapshot.get(key),
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
            PartitionStore::Ssd(store) => store.scan(start, end, reverse, visit),
            PartitionStore::Frozen(snapshot) => snapshot.scan(start, end, reverse, visit),
        }
    }

    fn scan_numbers(
        &self,
        range: Range<&[u8]>,
        key_bytes: usize,
        visit: &mut dyn FnMut(&[u64]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        match self {
            PartitionStore::Memory(store) => store.scan_numbers(range, key_bytes, visit),
            PartitionStore::Ssd(store) => store.scan_numbers(range, key_bytes, visit),
            PartitionStore::Frozen(snapshot) => snapshot.scan_numbers(range, key_bytes, visit),
        }
    }

    fn walk(&self, start: &[u8], visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) -> Result<(), StoreError> {
        match self {
            PartitionStore::Memory(store) => store.walk(start, visit),
            PartitionStore::Ssd(store) => store.walk(start, visit),
            PartitionStore::Frozen(snapshot) => snapshot.walk(start, visit),
        }
    }

    fn count(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.count(start, end),
            PartitionStore::Ssd(store) => store.count(start, end),
            PartitionStore::Frozen(snapshot) => snapshot.count(start, end),
        }
    }

    fn nth(&self, start: &[u8], end: &[u8], index: u64) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.nth(start, end, index),
            PartitionStore::Ssd(store) => store.nth(start, end, index),
            PartitionStore::Frozen(snapshot) => snapshot.nth(start, end, index),
        }
    }

    fn row_bytes(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.row_bytes(start, end),
            PartitionStore::Ssd(store) => store.row_bytes(start, end),
            PartitionStore::Frozen(snapshot) => snapshot.row_bytes(start, end),
        }
    }

    fn has_newer(&self, start: &[u8], end: &[u8], version: Version) -> Result<bool, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.has_newer(start, end, version),
            PartitionStore::Ssd(store) => store.has_newer(start, end, version),
            PartitionStore::Frozen(snapshot) => snapshot.has_newer(start, end, version),
        }
    }

    fn len(&self) -> u64 {
        match self {
            PartitionStore::Memory(store) => store.len(),
            PartitionStore::Ssd(store) => store.len(),
            PartitionStore::Frozen(snapshot) => snapshot.len(),
        }
    }

    fn get_each(&self, keys: &[&[u8]]) -> Result<Vec<Option<Row>>, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.get_each(keys),
            PartitionStore::Ssd(store) => store.get_each(keys),
            PartitionStore::Frozen(snapshot) => snapshot.get_each(keys),
        }
    }

    fn fetch_rows(&self, keys: &[&[u8]]) {
        match self {
            PartitionStore::Memory(store) => store.fetch_rows(keys),
            PartitionStore::Ssd(store) => store.fetch_rows(keys),
            PartitionStore::Frozen(snapshot) => snapshot.fetch_rows(keys),
        }
    }

    fn fetch_walks(&self, walks: &[Walk<'_>]) {
        match self {
            PartitionStore::Memory(store) => store.fetch_walks(walks),
            PartitionStore::Ssd(store) => store.fetch_walks(walks),
            PartitionStore::Frozen(snapshot) => snapshot.fetch_walks(walks),
        }
    }
}

impl Read for PartitionSnapshot {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.get(key),
            PartitionSnapshot::Ssd(snapshot) => snapshot.get(key),
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
            PartitionSnapshot::Ssd(snapshot) => snapshot.scan(start, end, reverse, visit),
        }
    }

    fn scan_numbers(
        &self,
        range: Range<&[u8]>,
        key_bytes: usize,
        visit: &mut dyn FnMut(&[u64]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.scan_numbers(range, key_bytes, visit),
            PartitionSnapshot::Ssd(snapshot) => snapshot.scan_numbers(range, key_bytes, visit),
        }
    }

    fn walk(&self, start: &[u8], visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) -> Result<(), StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.walk(start, visit),
            PartitionSnapshot::Ssd(snapshot) => snapshot.walk(start, visit),
        }
    }

    fn count(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.count(start, end),
            PartitionSnapshot::Ssd(snapshot) => snapshot.count(start, end),
        }
    }

    fn nth(&self, start: &[u8], end: &[u8], index: u64) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.nth(start, end, index),
            PartitionSnapshot::Ssd(snapshot) => snapshot.nth(start, end, index),
        }
    }

    fn row_bytes(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.row_bytes(start, end),
            PartitionSnapshot::Ssd(snapshot) => snapshot.row_bytes(start, end),
        }
    }

    fn has_newer(&self, start: &[u8], end: &[u8], version: Version) -> Result<bool, StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.has_newer(start, end, version),
            PartitionSnapshot::Ssd(snapshot) => snapshot.has_newer(start, end, version),
        }
    }

    fn len(&self) -> u64 {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.len(),
            PartitionSnapshot::Ssd(snapshot) => snapshot.len(),
        }
    }

    fn get_each(&self, keys: &[&[u8]]) -> Result<Vec<Option<Row>>, StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.get_each(keys),
            PartitionSnapshot::Ssd(snapshot) => snapshot.get_each(keys),
        }
    }

    fn fetch_rows(&self, keys: &[&[u8]]) {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.fetch_rows(keys),
            PartitionSnapshot::Ssd(snapshot) => snapshot.fetch_rows(keys),
        }
    }

    fn fetch_walks(&self, walks: &[Walk<'_>]) {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.fetch_walks(walks),
            PartitionSnapshot::Ssd(snapshot) => snapshot.fetch_walks(walks),
        }
    }
}

impl Snapshot for PartitionSnapshot {
    fn drain(self, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) -> Result<(), StoreError> {
        match self {
            PartitionSnapshot::Memory(snapshot) => snapshot.drain(visit),
            PartitionSnapshot::Ssd(snapshot) => snapshot.drain(visit),
        }
    }
}

impl Store for PartitionStore {
    type Snapshot = PartitionSnapshot;
    type Cleared = PartitionCleared;
    type Flush = PartitionFlush;
    type Outdated = Option<SsdOutdated>;

    #[inline]
    fn set(&mut self, row: Row) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.set(row),
            PartitionStore::Ssd(store) => store.set(row),
            PartitionStore::Frozen(_) => unreachable!("{FROZEN}"),
        }
    }

    fn fetch(&mut self, keys: &[&[u8]]) {
        match self {
            PartitionStore::Memory(store) => store.fetch(keys),
            PartitionStore::Ssd(store) => store.fetch(keys),
            PartitionStore::Frozen(_) => unreachable!("{FROZEN}"),
        }
    }

    fn clear(&mut self, key: &[u8]) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.clear(key),
            PartitionStore::Ssd(store) => store.clear(key),
            PartitionStore::Frozen(_) => unreachable!("{FROZEN}"),
        }
    }

    fn clear_nth(&mut self, start: &[u8], end: &[u8], index: u64) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.clear_nth(start, end, index),
            PartitionStore::Ssd(store) => store.clear_nth(start, end, index),
            PartitionStore::Frozen(_) => unreachable!("{FROZEN}"),
        }
    }

    fn clear_end(&mut self, start: &[u8], end: &[u8], last: bool) -> Result<Option<Row>, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.clear_end(start, end, last),
            PartitionStore::Ssd(store) => store.clear_end(start, end, last),
            PartitionStore::Frozen(_) => unreachable!("{FROZEN}"),
        }
    }

    fn clear_range(&mut self, start: &[u8], end: &[u8]) -> Result<PartitionCleared, StoreError> {
        match self {
            PartitionStore::Memory(store) => store.clear_range(start, end).map(PartitionCleared::Memory),
            PartitionStore::Ssd(store) => {
                let cleared = store.clear_range(start, end)?;
                Ok(PartitionCleared::Ssd(Box::new(cleared)))
            }
            PartitionStore::Frozen(_) => unreachable!("{FROZEN}"),
        }
    }

    fn restore(&mut self, cleared: &PartitionCleared) {
        match (self, cleared) {
            (PartitionStore::Memory(store), PartitionCleared::Memory(cleared)) => store.restore(cleared),
            (PartitionStore::Ssd(store), PartitionCleared::Ssd(cleared)) => store.restore(cleared),
            _ => unreachable!("a store takes back what it has cleared itself"),
        }
    }

    fn snapshot(&self) -> PartitionSnapshot {
        match self {
            PartitionStore::Memory(store) => PartitionSnapshot::Memory(store.snapshot()),
            PartitionStore::Ssd(store) => PartitionSnapshot::Ssd(store.snapshot()),
            PartitionStore::Frozen(_) => unreachable!("{FROZEN}"),
        }
    }

    fn applied(&self) -> Position {
        match self {
            PartitionStore::Memory(store) => store.applied(),
            PartitionStore::Ssd(store) => store.applied(),
            PartitionStore::Frozen(_) => unreachable!("{FROZEN}"),
        }
    }

    fn begin_flush(&mut self) -> PartitionFlush {
        match self {
            PartitionStore::Memory(store) => PartitionFlush::Memory(store.begin_flush()),
            PartitionStore::Ssd(store) => PartitionFlush::Ssd(Box::new(store.begin_flush())),
            PartitionStore::Frozen(_) => unreachable!("{FROZEN}"),
        }
    }

    fn end_flush(&mut self, flushed: Option<PartitionFlushed>) -> Option<SsdOutdated> {
        match (self, flushed) {
            (PartitionStore::Memory(store), Some(PartitionFlushed::Memory(flushed))) => {
                store.end_flush(Some(flushed));
                None
            }
            (PartitionStore::Ssd(store), Some(PartitionFlushed::Ssd(flushed))) => store.end_flush(Some(*flushed)),
            (PartitionStore::Ssd(store), None) => store.end_flush(None),
            (PartitionStore::Memory(_), None) => None,
            _ => unreachable!("a store takes over what its own flush has made"),
        }
    }
}

impl Cleared for PartitionCleared {
    fn count(&self) -> u64 {
        match self {
            PartitionCleared::Memory(cleared) => cleared.count(),
            PartitionCleared::Ssd(cleared) => cleared.count(),
        }
    }

    fn row_bytes(&self) -> u64 {
        match self {
            PartitionCleared::Memory(cleared) => cleared.row_bytes(),
            PartitionCleared::Ssd(cleared) => cleared.row_bytes(),
        }
    }
}

impl Flush for PartitionFlush {
    type Flushed = PartitionFlushed;

    fn run(self, position: Position) -> Result<PartitionFlushed, StoreError> {
        match self {
            PartitionFlush::Memory(flush) => flush.run(position).map(PartitionFlushed::Memory),
            PartitionFlush::Ssd(flush) => flush
                .run(position)
                .map(|flushed| PartitionFlushed::Ssd(Box::new(flushed))),
        }
    }
}

impl Flushed for PartitionFlushed {
    fn bytes(&self) -> u64 {
        match self {
            PartitionFlushed::Memory(flushed) => flushed.bytes(),
            PartitionFlushed::Ssd(flushed) => flushed.bytes(),
        }
    }
}
