//! The files of the tree on disk: reading nodes and values, what is cached, which files are still
//! needed.
//!
//! A file `base-<number, 10 digits>` is written once, by one flush, and never changed. Numbers are
//! never reused while the program runs. An unneeded file is removed as soon as no snapshot can read
//! it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use quartet_env::{Disk, File};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::node::{Node, Place};
use crate::error::StoreError;

pub(super) struct Files {
    pub disk: Arc<dyn Disk>,
    open: Mutex<Open>,
    cache: Cache<(u32, u32), Arc<Node>, Bytes>,
    /// Bytes of a tree's inner nodes that are kept beside the cache.
    pub kept_bytes: u64,
    pub next_number: AtomicU32,
    pins: Mutex<Pins>,
    /// Bytes of files that only snapshots need.
    pinned_bytes: AtomicU64,
}

/// Files that are kept open.
#[derive(Default)]
struct Open {
    files: BTreeMap<u32, Arc<dyn File>>,
    /// Their numbers, the longest open first.
    order: VecDeque<u32>,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<(u32, u32), Arc<Node>> for Bytes {
    fn weight(&self, _: &(u32, u32), node: &Arc<Node>) -> u64 {
        node.memory_bytes()
    }
}

/// The readers of each generation of the tree, and the files to be removed once the older
/// generations have no readers.
#[derive(Default)]
struct Pins {
    readers: BTreeMap<u64, usize>,
    /// The first generation that does not need it, number, bytes.
    doomed: Vec<(u64, u32, u64)>,
}

/// Keeps the files of one generation of the tree.
pub(super) struct Pin {
    files: Arc<Files>,
    generation: u64,
}

const NODES_EXPECTED_BYTES: u64 = 4096;
/// Divisor of the cache for inner nodes that are kept: with it they are all kept, if the tree is
/// cached whole.
const KEPT_PART: u64 = 16;
/// Limit of open files: the file that has been open for the longest time is closed for another.
const OPEN_MAX: usize = 256;

impl Files {
    pub fn new(disk: Arc<dyn Disk>, cache_bytes: u64) -> Files {
        let kept_bytes = cache_bytes / KEPT_PART;
        let cache_bytes = cache_bytes - kept_bytes;
        let nodes = (cache_bytes / NODES_EXPECTED_BYTES).clamp(16, 1 << 30) as usize;
        Files {
            disk,
            open: Mutex::default(),
            cache: Cache::with_weighter(nodes, cache_bytes, Bytes),
            kept_bytes,
            next_number: AtomicU32::new(1),
            pins: Mutex::default(),
            pinned_bytes: AtomicU64::new(0),
        }
    }

    pub fn name(number: u32) -> String {
        format!("{PREFIX}{number:010}")
    }

    pub fn number(name: &str) -> Option<u32> {
        let digits = name.strip_prefix(PREFIX).filter(|digits| digits.len() == 10)?;
        digits.parse().ok()
    }

    /// Returns a number above those of all existing files.
    pub fn next_unused(disk: &dyn Disk) -> io::Result<u32> {
        let listed = disk.list()?.iter().filter_map(|name| Files::number(name)).max();
        Ok(listed.map_or(1, |number| number.saturating_add(1)))
    }

    /// The node at `place`, which is cached from now on.
    pub fn node(&self, place: &Place) -> Result<Arc<Node>, StoreError> {
        self.count_node();
        if let Some(node) = self.cached(place) {
            return Ok(node);
        }
        let node = Arc::new(self.read_node(place)?);
        self.cache(place, node.clone());
        Ok(node)
    }

    /// Tests count the nodes that are looked at.
    pub fn count_node(&self) {
        #[cfg(test)]
        tests::NODES.with(|count| count.set(count.get() + 1));
    }

    /// Reads the nodes at the places that are not cached, all at once: a disk reads many in the
    /// time that a few take one after the other.
    pub fn will_need<'p>(&self, places: impl IntoIterator<Item = &'p Place>) {
        for place in places {
            if self.peek(place).is_none()
                && let Ok(file) = self.file(place.file)
            {
                file.will_need(place.offset.into(), place.bytes.into());
            }
        }
    }

    /// The node at `place`, for a caller that needs it once: the cache stays unchanged.
    pub fn node_once(&self, place: &Place) -> Result<Arc<Node>, StoreError> {
        match self.peek(place) {
            Some(node) => Ok(node),
            None => self.read_node(place).map(Arc::new),
        }
    }

    #[cfg(test)]
    pub fn kept_nodes(&self) -> usize {
        self.cache.len()
    }

    fn cached(&self, place: &Place) -> Option<Arc<Node>> {
        self.cache.get(&(place.file, place.offset))
    }

    /// The node at `place`, if it is cached. That counts for no use.
    pub fn peek(&self, place: &Place) -> Option<Arc<Node>> {
        self.cache.peek(&(place.file, place.offset))
    }

    /// Evicts nodes, to make room for others.
    pub fn uncache(&self, places: &[Place]) {
        for place in places {
            self.cache.remove(&(place.file, place.offset));
        }
    }

    pub fn cache(&self, place: &Place, node: Arc<Node>) {
        self.cache.insert((place.file, place.offset), node);
    }

    pub fn read_node(&self, place: &Place) -> Result<Node, StoreError> {
        let bytes = self.read(place)?;
        Node::parse(bytes).ok_or_else(|| damaged(place, "no node"))
    }

    /// The bytes at `place`, verified.
    pub fn read(&self, place: &Place) -> Result<Vec<u8>, StoreError> {
        let bytes = self.read_unverified(place)?;
        match place.holds(&bytes) {
            true => Ok(bytes),
            false => Err(damaged(place, "a wrong checksum")),
        }
    }

    /// Reads the number of bytes that the place states, without verifying them.
    pub fn read_unverified(&self, place: &Place) -> Result<Vec<u8>, StoreError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => damaged(place, "the file is not there"),
            _ => StoreError::io(Files::name(place.file), source),
        };
        let file = self.file(place.file).map_err(failed)?;
        // A damaged place cannot cause a large allocation.
        if place.bytes > UNASKED_BYTES_MAX {
            let length = file.len().map_err(failed)?;
            if u64::from(place.offset) + u64::from(place.bytes) > length {
                return Err(damaged(place, ENDS_BEFORE));
            }
        }
        let mut bytes = vec![0; place.bytes as usize];
        let read = file.read_at(place.offset.into(), &mut bytes).map_err(failed)?;
        match read == bytes.len() {
            true => Ok(bytes),
            false => Err(damaged(place, ENDS_BEFORE)),
        }
    }

    fn file(&self, number: u32) -> io::Result<Arc<dyn File>> {
        if let Some(file) = self.open.lock().files.get(&number) {
            return Ok(file.clone());
        }
        let file: Arc<dyn File> = self.disk.open(&Files::name(number))?.into();
        self.keep_open(number, file.clone());
        Ok(file)
    }

    pub fn keep_open(&self, number: u32, file: Arc<dyn File>) {
        let mut open = self.open.lock();
        if open.files.insert(number, file).is_some() {
            return;
        }
        open.order.push_back(number);
        if open.order.len() > OPEN_MAX
            && let Some(longest) = open.order.pop_front()
        {
            open.files.remove(&longest);
        }
    }

    /// Removes a file without readers.
    pub fn remove(&self, number: u32) {
        self.close(number);
        if let Err(error) = self.disk.remove_gently(&Files::name(number)) {
            // It takes room until the next start.
            tracing::warn!(%error, number, "a file of the store could not be removed");
        }
    }

    /// Renames a file without readers.
    pub fn rename(&self, number: u32, name: &str) -> io::Result<()> {
        self.close(number);
        self.disk.rename(&Files::name(number), name)
    }

    fn close(&self, number: u32) {
        let mut open = self.open.lock();
        if open.files.remove(&number).is_some() {
            open.order.retain(|other| *other != number);
        }
    }

    /// From `generation` on nothing needs the file.
    pub fn doom(&self, generation: u64, number: u32, bytes: u64) {
        self.pinned_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.pins.lock().doomed.push((generation, number, bytes));
    }

    pub fn is_doomed(&self, number: u32) -> bool {
        self.pins.lock().doomed.iter().any(|(_, other, _)| *other == number)
    }

    /// Bytes of files that are kept only for snapshots.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes.load(Ordering::Relaxed)
    }

    /// Removes files that only snapshots older than `generation` need, the longest kept first,
    /// until those kept for snapshots take no more than `bytes_max`.
    pub fn expire(&self, generation: u64, bytes_max: u64) {
        let mut expired = Vec::new();
        let mut pins = self.pins.lock();
        let mut excess = self.pinned_bytes().saturating_sub(bytes_max);
        pins.doomed.retain(|&(since, number, bytes)| {
            let goes = excess > 0 && since <= generation;
            if goes {
                excess = excess.saturating_sub(bytes);
                expired.push((number, bytes));
            }
            !goes
        });
        drop(pins);
        if !expired.is_empty() {
            tracing::warn!(
                files = expired.len(),
                "a snapshot was held for too long: it can no longer be read"
            );
        }
        for (number, bytes) in expired {
            self.pinned_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.remove(number);
        }
    }

    /// Removes files that no reader needs.
    fn sweep(&self) {
        let mut pins = self.pins.lock();
        let oldest = pins.readers.keys().next().copied().unwrap_or(u64::MAX);
        let (removed, pinned) = pins
            .doomed
            .drain(..)
            .partition(|(generation, ..)| *generation <= oldest);
        pins.doomed = pinned;
        drop(pins);
        let removed: Vec<(u64, u32, u64)> = removed;
        if removed.is_empty() {
            return;
        }
        for (_, number, bytes) in removed {
            self.pinned_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.remove(number);
        }
        if let Err(error) = self.disk.sync_directory() {
            tracing::warn!(%error, "the room of removed files may come back later");
        }
    }
}

const PREFIX: &str = "base-";
const ENDS_BEFORE: &str = "the file ends before it";
/// Bytes that are read without querying the file's length: any node.
const UNASKED_BYTES_MAX: u32 = 64 << 10;

pub(super) fn damaged(place: &Place, reason: &'static str) -> StoreError {
    StoreError::damaged(Files::name(place.file), place.offset.into(), reason)
}

impl Pin {
    pub fn new(files: Arc<Files>, generation: u64) -> Arc<Pin> {
        *files.pins.lock().readers.entry(generation).or_default() += 1;
        Arc::new(Pin { files, generation })
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.files.pins.lock();
        if let Some(count) = pins.readers.get_mut(&self.generation) {
            *count -= 1;
            if *count == 0 {
                pins.readers.remove(&self.generation);
            }
        }
        drop(pins);
        self.files.sweep();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use quartet_env::FaultyDisk;

    use super::*;

    thread_local! {
        /// Nodes looked at on this thread: the work of a look-up.
        pub static NODES: Cell<u64> = const { Cell::new(0) };
    }

    /// All of them were closed for one more, and a tree of more files opened one for nearly each
    /// read.
    #[test]
    fn one_file_too_many_closes_only_the_oldest() {
        let disk = Arc::new(FaultyDisk::new());
        let files = Files::new(disk.clone(), 0);
        let last = OPEN_MAX as u32 + 2;
        for number in 1..=last {
            let file = disk.create(&Files::name(number)).unwrap();
            files.keep_open(number, file.into());
        }
        let open_files = |files: &Files| files.open.lock().files.keys().copied().collect::<Vec<u32>>();
        assert_eq!(open_files(&files), (3..=last).collect::<Vec<u32>>());
        files.file(1).unwrap();
        files.remove(4);
        assert_eq!(
            open_files(&files),
            [1].into_iter().chain(5..=last).collect::<Vec<u32>>()
        );
        let open = files.open.lock();
        assert!(open.order.iter().copied().eq((5..=last).chain([1])));
    }
}
