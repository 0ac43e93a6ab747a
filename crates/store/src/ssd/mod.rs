//! The store for more rows than memory has: a tree on disk, and in memory what has changed since it
//! was written.
//!
//! ```text
//!   writes --> overlay   what has changed since the tree was written: bounded, in memory
//!   reads  --> view   =  overlay over the tree; a snapshot is a clone of both roots
//!              tree      on disk: checksummed nodes that are never changed, a cache of those that were read
//! ```
//!
//! A flush writes a new generation of the tree from the previous generation and the overlay,
//! together with the position of the log that it reaches, while reads and writes continue. Writes
//! that arrive meanwhile go into the overlay and into a second one, `ahead`, which is based on the
//! state at the start of the flush. When the flush has ended, `ahead` is based on the new tree and
//! replaces the first; no sorting is needed, and it costs no time under a lock. If the flush fails,
//! `ahead` is dropped.
//!
//! The tree has no log of its own: the partition's log holds what is not in it yet.
//! `docs/storage.md` draws the files.
//!
//! | file      | what it is                                                           |
//! |-----------|----------------------------------------------------------------------|
//! | `overlay` | the changes, and the rows of the tree that they hide, counted        |
//! | `view`    | reads of overlay and tree as one                                     |
//! | `base`    | reads of the tree                                                    |
//! | `node_cache` | the nodes that stay open                                          |
//! | `node`    | the tree's nodes, byte by byte                                       |
//! | `heads`   | the search for a key in a node                                       |
//! | `files`   | the tree's files, their cache, their readers                         |
//! | `rebuild` | a new generation of the tree                                         |
//! | `load`    | the first generation, from rows in key order                         |
//! | `space`   | the choice of files to be emptied, which bounds the dead space       |
//! | `writer`  | the writer of new nodes and files                                    |
//! | `root`    | the file that names the newest generation                            |

mod base;
mod files;
mod heads;
mod load;
mod node;
mod node_cache;
mod overlay;
mod rebuild;
mod root;
mod salvage;
mod space;
mod view;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_env::Disk;
use quartet_model::Version;

use self::base::Base;
use self::files::{Files, Pin};
use self::node::Place;
use self::node_cache::OpenTree;
use self::overlay::{ClearedPart, Overlay, hidden_bytes};
use self::rebuild::{Edit, Rebuild};
use self::root::{Root, Tree, Use};
use self::writer::{RESERVE, Writer};
use crate::checkpoint::files::remove_some;
use crate::error::StoreError;
use crate::interface::{Cleared, Flush, Flushed, Read, Store};
use crate::memory::FAR_FROM_ROWS;
use crate::open_error::OpenError;
use crate::position::Position;
use crate::row::Row;

pub use self::load::SsdLoad;
pub(crate) use self::salvage::salvage;
pub use self::view::SsdSnapshot;

/// The latest state of a directory with a tree in files. Opened by way of
/// [`PartitionStore`](crate::PartitionStore).
pub struct SsdStore {
    view: SsdSnapshot,
    /// While a flush runs, or waits to.
    ahead: Option<Ahead>,
    /// The position that the tree reaches.
    applied: Position,
    /// The tree's files.
    uses: BTreeMap<u32, Use>,
    files: Arc<Files>,
    reserved_bytes: u64,
}

/// The changes since the start of a flush.
struct Ahead {
    overlay: Overlay,
    since: SsdSnapshot,
}

/// The rows that a range clear removed.
pub struct SsdCleared {
    count: u64,
    /// Size of the tree's rows that are hidden now, including rows that were hidden individually
    /// before.
    bytes_below: u64,
    part: Option<ClearedPart>,
    ahead: Option<ClearedPart>,
}

/// A new generation of the tree, to be written.
pub struct SsdFlush {
    since: SsdSnapshot,
    uses: BTreeMap<u32, Use>,
    files: Arc<Files>,
    reserved_bytes: u64,
}

/// A new generation of the tree, on disk.
pub struct SsdFlushed {
    position: Position,
    base: Base,
    uses: BTreeMap<u32, Use>,
    bytes: u64,
    freed: Vec<Place>,
}

/// The state that a flush has replaced. Dropping it frees the changes up to the start of the flush,
/// and unneeded cached nodes of the older tree.
pub struct SsdOutdated {
    view: SsdSnapshot,
    freed: Vec<Place>,
}

/// Disk use of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// All that the files of the newest tree take.
    pub bytes: u64,
    /// Bytes of it that the newest tree needs.
    pub live_bytes: u64,
    /// Bytes that only snapshots of older trees need, beside all that.
    pub pinned_bytes: u64,
}

/// Lower bound of the limit of files kept only for snapshots; the limit is this, or half of the
/// live size if that is more. Beyond it, older snapshots return errors.
const PINNED_BYTES_MIN: u64 = 1 << 30;

/// Size of a tree's nodes in memory per row; rows in no order fill them to two thirds.
const NODE_BYTES: u64 = 28;
/// Bytes that a flush holds per written row: the list of changes, and the entries of the current
/// leaf.
const FLUSHED_ROW_BYTES: u64 = 72;

/// Returns true if the directory is this store's.
pub(crate) fn is_in(disk: &dyn Disk) -> io::Result<bool> {
    disk.exists(root::NAME)
}

/// Makes an empty directory this store's.
pub(crate) fn create(disk: &dyn Disk) -> io::Result<()> {
    create_from(disk, 1)
}

/// The same, its files numbered from there on.
fn create_from(disk: &dyn Disk, next_file: u32) -> io::Result<()> {
    let empty = Root {
        next_file,
        ..Root::default()
    };
    empty.write_partial(disk)?;
    empty.rename_partial(disk)
}

/// Creates a store in the empty directory `anew`, with other file names than those of `damaged`.
pub(crate) fn create_beside(anew: &dyn Disk, damaged: &dyn Disk) -> Result<(), OpenError> {
    let (root, _) = Root::read_mended(damaged)?;
    Ok(create_from(anew, root.next_file.max(Files::next_unused(damaged)?))?)
}

/// Makes the directory this store's, with these rows, which are the state at `position` of the log.
/// Until all of it is durable the directory is what it was before.
pub(crate) fn fill(disk: Arc<dyn Disk>, rows: &impl Read, position: Position) -> Result<(), StoreError> {
    let opened = SsdStore::open(disk, FILL_CACHE_BYTES, 0);
    let mut store = opened.map_err(|error| StoreError::io(root::NAME, io::Error::other(error)))?;
    let (mut load, mut loaded) = (store.begin_load(), Ok(()));
    rows.walk(b"", &mut |row| {
        loaded = load.push(row.key(), row.value(), row.version());
        match loaded {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    loaded?;
    store.end_load(load, position)
}

const FILL_CACHE_BYTES: u64 = 16 << 20;

/// Removes every file of this store, starting with the file that marks the directory as a store's.
pub(crate) fn remove(disk: &dyn Disk) -> io::Result<()> {
    if disk.exists(root::NAME)? {
        disk.remove(root::NAME)?;
        disk.sync_directory()?;
    }
    let is_own = |name: &str| [root::PARTIAL, root::COPY, RESERVE].contains(&name) || Files::number(name).is_some();
    remove_some(disk, is_own)
}

impl SsdStore {
    /// Opens what is in `disk`, however large it is, by reading its root. Changes nothing on the
    /// disk.
    pub(crate) fn open(disk: Arc<dyn Disk>, cache_bytes: u64, reserved_bytes: u64) -> Result<SsdStore, OpenError> {
        let root = Root::read(disk.as_ref())?.unwrap_or_default();
        let next = root.next_file.max(Files::next_unused(disk.as_ref())?);
        let files = Arc::new(Files::new(disk, cache_bytes));
        files.next_number.store(next, Ordering::Relaxed);
        let base = Base {
            tree: root.tree.map(|tree| OpenTree::new(tree, &files)),
            pin: Pin::new(files.clone(), 1),
            files: files.clone(),
        };
        Ok(SsdStore {
            view: SsdSnapshot {
                overlay: Overlay::default(),
                base,
            },
            ahead: None,
            applied: root.position,
            uses: root.files,
            files,
            reserved_bytes,
        })
    }

    /// Starts to fill the store, which is empty and stays so until the load has ended. Meanwhile no
    /// flush may run.
    pub(crate) fn begin_load(&self) -> SsdLoad {
        SsdLoad::new(self.files.clone())
    }

    /// Takes over what was loaded, which is the state at `position`, and makes it durable as a
    /// whole.
    pub(crate) fn end_load(&mut self, mut load: SsdLoad, position: Position) -> Result<(), StoreError> {
        let tree = load.finish()?;
        let root = self.files.write_root(position, tree, load.writer())?;
        load.keep();
        root.rename_partial(self.files.disk.as_ref())
            .map_err(|source| StoreError::io(root::NAME, source))?;
        self.applied = position;
        self.uses = root.files;
        self.view.base.tree = root.tree.map(|tree| OpenTree::new(tree, &self.files));
        Ok(())
    }

    /// Removes what unfinished flushes have left, and, with `remove_other`, what another store's
    /// conversion has; keeps room for the next flush. Never while one runs.
    pub(crate) fn tidy(&self, remove_other: fn(&dyn Disk) -> io::Result<()>) {
        let tidied = remove_other(self.files.disk.as_ref()).and_then(|()| self.remove_leftovers());
        if let Err(error) = tidied.and_then(|()| reserve(self.files.disk.as_ref(), self.reserved_bytes)) {
            tracing::warn!(%error, "what an unfinished flush has left could not be removed, or no room reserved for the next");
        }
    }

    fn remove_leftovers(&self) -> io::Result<()> {
        let disk = &self.files.disk;
        // A flush may have failed after renaming its root: then that root is the one that the next
        // start reads.
        let on_disk = Root::read_and_copy(disk.as_ref()).map_err(io::Error::other)?;
        let is_needed = |number: &u32| self.uses.contains_key(number) || on_disk.files.contains_key(number);
        let is_unknown = |number: u32| !is_needed(&number) && !self.files.is_doomed(number);
        remove_some(disk.as_ref(), |name| {
            name == root::PARTIAL || Files::number(name).is_some_and(is_unknown)
        })
    }

    /// Sums over the files, from figures in memory: no file is read.
    pub(crate) fn disk_use(&self) -> DiskUse {
        DiskUse {
            bytes: self.uses.values().map(|usage| usage.bytes).sum(),
            live_bytes: self.uses.values().map(|usage| usage.live_bytes).sum(),
            pinned_bytes: self.files.pinned_bytes(),
        }
    }

    /// Memory that what is not in the files takes, in bytes, of a flush that runs included: that is
    /// what the end of it gives back. Snapshots may hold more beside it.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        let view = &self.view.overlay;
        let nodes = view.entries() * NODE_BYTES;
        match &self.ahead {
            None => view.bytes() + nodes,
            // The rows written since are the same in both overlays. The nodes of the overlay at the
            // start of the flush exist as long as the flush runs, even those that the view has
            // copied.
            Some(Ahead { overlay, since }) => {
                let flushed = &since.overlay;
                let own = flushed.bytes() + flushed.entries() * (NODE_BYTES + FLUSHED_ROW_BYTES);
                own + overlay.bytes() + overlay.entries() * NODE_BYTES + nodes
            }
        }
    }

    /// Returns true if a flush would free much of the size of the files.
    pub(crate) fn is_loose(&self) -> bool {
        let used = self.disk_use();
        space::is_loose(used.bytes, used.live_bytes)
    }

    /// Reads everything that is on disk and verifies it, checksums, order and counts.
    pub(crate) fn verify(&self) -> Result<(), StoreError> {
        let mut bytes_of_files: BTreeMap<u32, u64> = BTreeMap::new();
        self.view.base.verify(&mut |place| {
            *bytes_of_files.entry(place.file).or_default() += u64::from(place.bytes);
        })?;
        let said = self.uses.iter().filter(|(_, usage)| usage.live_bytes > 0);
        let agrees = said
            .map(|(number, usage)| (*number, usage.live_bytes))
            .eq(bytes_of_files);
        match agrees {
            true => Ok(()),
            false => Err(StoreError::damaged(
                root::NAME,
                0,
                "bytes in use unlike those of the tree",
            )),
        }
    }
}

fn reserve(disk: &dyn Disk, bytes: u64) -> io::Result<()> {
    let file = match disk.exists(RESERVE)? {
        true => disk.open(RESERVE)?,
        false => disk.create(RESERVE)?,
    };
    // A file that was used by a flush may be longer.
    if file.len()? > bytes {
        file.set_len(bytes)?;
    }
    file.allocate(bytes)
}

impl Read for SsdStore {
    fn get(&self, key: &[u8]) -> Result<Option<Row>, StoreError> {
        self.view.get(key)
    }

    fn get_each(&self, keys: &[&[u8]]) -> Result<Vec<Option<Row>>, StoreError> {
        self.view.get_each(keys)
    }

    fn fetch_rows(&self, keys: &[&[u8]]) {
        self.view.fetch(keys);
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        reverse: bool,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.view.scan(start, end, reverse, visit)
    }

    fn walk(&self, start: &[u8], visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) -> Result<(), StoreError> {
        self.view.walk(start, visit)
    }

    fn count(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        self.view.count(start, end)
    }

    fn nth(&self, start: &[u8], end: &[u8], index: u64) -> Result<Option<Row>, StoreError> {
        self.view.nth(start, end, index)
    }

    fn row_bytes(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        self.view.row_bytes(start, end)
    }

    fn has_newer(&self, start: &[u8], end: &[u8], version: Version) -> Result<bool, StoreError> {
        self.view.has_newer(start, end, version)
    }

    fn len(&self) -> u64 {
        self.view.len()
    }
}

impl Store for SsdStore {
    type Snapshot = SsdSnapshot;
    type Cleared = SsdCleared;
    type Flush = SsdFlush;
    type Outdated = Option<SsdOutdated>;

    fn set(&mut self, row: Row) -> Result<Option<Row>, StoreError> {
        let seen = self.view.get(row.key())?;
        if let Some(ahead) = &mut self.ahead {
            ahead.overlay.put(row.clone(), seen.as_ref());
        }
        self.view.overlay.put(row, seen.as_ref());
        Ok(seen)
    }

    fn fetch(&mut self, keys: &[&[u8]]) {
        if self.len() >= FAR_FROM_ROWS {
            self.view.fetch(keys);
        }
    }

    fn clear(&mut self, key: &[u8]) -> Result<Option<Row>, StoreError> {
        let Some(seen) = self.view.get(key)? else {
            return Ok(None);
        };
        if let Some(ahead) = &mut self.ahead {
            ahead.overlay.take(&seen);
        }
        self.view.overlay.take(&seen);
        Ok(Some(seen))
    }

    fn clear_range(&mut self, start: &[u8], end: &[u8]) -> Result<SsdCleared, StoreError> {
        let count = self.view.count(start, end)?;
        if count == 0 {
            return Ok(SsdCleared {
                count,
                bytes_below: 0,
                part: None,
                ahead: None,
            });
        }
        let plan = self.view.overlay.plan_clear(&self.view.base, start, end)?;
        let bytes_below = match &plan {
            overlay::ClearPlan::Hide(keys) => keys.iter().map(hidden_bytes).sum(),
            overlay::ClearPlan::Mask { .. } => self.view.unmasked_bytes(start, end)?,
        };
        let ahead_plan = match &self.ahead {
            Some(ahead) => Some(ahead.overlay.plan_clear(&ahead.since, start, end)?),
            None => None,
        };
        let ahead = self.ahead.as_mut().zip(ahead_plan);
        Ok(SsdCleared {
            count,
            bytes_below,
            part: Some(self.view.overlay.clear_range(plan, start, end)),
            ahead: ahead.map(|(ahead, plan)| ahead.overlay.clear_range(plan, start, end)),
        })
    }

    fn restore(&mut self, cleared: &SsdCleared) {
        if let Some(part) = &cleared.part {
            self.view.overlay.restore(part);
        }
        if let (Some(ahead), Some(part)) = (&mut self.ahead, &cleared.ahead) {
            ahead.overlay.restore(part);
        }
    }

    fn snapshot(&self) -> SsdSnapshot {
        self.view.clone()
    }

    fn applied(&self) -> Position {
        self.applied
    }

    fn begin_flush(&mut self) -> SsdFlush {
        let since = self.view.clone();
        self.ahead = Some(Ahead {
            overlay: Overlay::default(),
            since: since.clone(),
        });
        SsdFlush {
            since,
            uses: self.uses.clone(),
            files: self.files.clone(),
            reserved_bytes: self.reserved_bytes,
        }
    }

    fn end_flush(&mut self, flushed: Option<SsdFlushed>) -> Option<SsdOutdated> {
        let ahead = self.ahead.take()?;
        let flushed = flushed?;
        self.applied = flushed.position;
        self.uses = flushed.uses;
        let view = SsdSnapshot {
            overlay: ahead.overlay,
            base: flushed.base,
        };
        Some(SsdOutdated {
            view: std::mem::replace(&mut self.view, view),
            freed: flushed.freed,
        })
    }
}

impl Drop for SsdOutdated {
    fn drop(&mut self) {
        self.view.base.files.uncache(&self.freed);
    }
}

impl Cleared for SsdCleared {
    fn count(&self) -> u64 {
        self.count
    }

    fn row_bytes(&self) -> u64 {
        let Some(part) = &self.part else { return 0 };
        let own: u64 = part.rows.rows().map(Row::stored_bytes).sum();
        let hidden_before: u64 = part.unhidden.rows().map(hidden_bytes).sum();
        own + self.bytes_below - hidden_before
    }
}

impl Flush for SsdFlush {
    type Flushed = SsdFlushed;

    fn run(self, position: Position) -> Result<SsdFlushed, StoreError> {
        let (files, reserved_bytes) = (self.files.clone(), self.reserved_bytes);
        let flushed = self.write(position);
        if let Err(error) = reserve(files.disk.as_ref(), reserved_bytes) {
            tracing::warn!(%error, "no room is reserved for the next flush");
        }
        flushed
    }
}

impl SsdFlush {
    fn write(self, position: Position) -> Result<SsdFlushed, StoreError> {
        let mut writer = Writer::new(self.files.clone(), self.uses.clone());
        let tree = self.write_tree(&mut writer);
        let written = tree.and_then(|tree| self.files.write_root(position, tree, &writer));
        let root = match written {
            Ok(root) => root,
            Err(error) => {
                writer.abandon();
                return Err(error);
            }
        };
        // From here on the new files may be needed after a restart, also if this fails.
        root.rename_partial(self.files.disk.as_ref())
            .map_err(|source| StoreError::io(root::NAME, source))?;
        self.remove_unneeded(&writer);
        let generation = self.since.base.pin.generation() + 1;
        Ok(SsdFlushed {
            position,
            base: Base {
                tree: root.tree.map(|tree| OpenTree::new(tree, &self.files)),
                pin: Pin::new(self.files.clone(), generation),
                files: self.files.clone(),
            },
            uses: root.files,
            bytes: writer.written_bytes,
            freed: writer.freed,
        })
    }

    /// Writes the new tree and makes it durable. Unneeded files are removed from the writer's.
    fn write_tree(&self, writer: &mut Writer) -> Result<Option<Tree>, StoreError> {
        let (base, overlay) = (&self.since.base, &self.since.overlay);
        let mut rebuild = Rebuild {
            writer,
            files: &self.files,
            masks: overlay.masks(),
            victims: BTreeSet::new(),
        };
        let mut tree = rebuild.tree(base.tree.as_ref().map(|open| &open.tree), &Edit::all_of(overlay))?;
        let victims = space::to_be_emptied(&rebuild.writer.uses, rebuild.writer.written_bytes);
        if !victims.is_empty() {
            rebuild.writer.end_file()?;
            rebuild.masks = &[];
            rebuild.victims = victims;
            tree = rebuild.tree(tree.as_ref(), &[])?;
        }
        writer.finish()?;
        Ok(tree)
    }

    /// Removes the files that the new tree does not need: immediately, or once no snapshot reads
    /// them.
    fn remove_unneeded(&self, writer: &Writer) {
        let generation = self.since.base.pin.generation() + 1;
        for (number, usage) in &writer.dropped {
            match self.uses.contains_key(number) {
                true => self.files.doom(generation, *number, usage.bytes),
                false => self.files.remove(*number),
            }
        }
        let live: u64 = writer.uses.values().map(|usage| usage.live_bytes).sum();
        self.files.expire(generation - 1, PINNED_BYTES_MIN.max(live / 2));
    }
}

impl Files {
    /// Writes the root of the written tree; it takes effect once it is renamed.
    fn write_root(&self, position: Position, tree: Option<Tree>, writer: &Writer) -> Result<Root, StoreError> {
        let root = Root {
            position,
            tree,
            files: writer.uses.clone(),
            next_file: self.next_number.load(Ordering::Relaxed),
        };
        let partial = root.write_partial(self.disk.as_ref());
        partial.map_err(|source| StoreError::io(root::PARTIAL, source))?;
        Ok(root)
    }
}

impl Flushed for SsdFlushed {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod asked_ahead;
#[cfg(test)]
mod tests;
