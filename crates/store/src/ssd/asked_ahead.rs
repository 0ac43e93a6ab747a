//! Tests that leaves are requested together before they are read.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use quartet_env::{Disk, FaultyDisk, File};
use quartet_model::{LogSequence, Version};

use super::*;

/// A disk that records announced places, and counts reads of other places.
#[derive(Clone, Default)]
struct WatchedDisk {
    disk: FaultyDisk,
    reads: Arc<Mutex<Reads>>,
}

#[derive(Default)]
struct Reads {
    announced: BTreeSet<(String, u64)>,
    of_announced: u64,
    of_others: u64,
}

struct WatchedFile {
    name: String,
    file: Box<dyn File>,
    reads: Arc<Mutex<Reads>>,
}

impl WatchedDisk {
    fn watched(&self, name: &str, file: io::Result<Box<dyn File>>) -> io::Result<Box<dyn File>> {
        Ok(Box::new(WatchedFile {
            name: name.to_owned(),
            file: file?,
            reads: self.reads.clone(),
        }))
    }

    /// Reads of announced and of other places while `work` runs.
    fn reads_of(&self, work: impl FnOnce()) -> (u64, u64) {
        *self.reads.lock() = Reads::default();
        work();
        let reads = self.reads.lock();
        (reads.of_announced, reads.of_others)
    }
}

impl Disk for WatchedDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.watched(name, self.disk.create(name))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.watched(name, self.disk.open(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.disk.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn available_bytes(&self) -> io::Result<u64> {
        self.disk.available_bytes()
    }
}

impl File for WatchedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut reads = self.reads.lock();
        match reads.announced.remove(&(self.name.clone(), offset)) {
            true => reads.of_announced += 1,
            false => reads.of_others += 1,
        }
        drop(reads);
        self.file.read_at(offset, buffer)
    }

    fn will_need(&self, offset: u64, _bytes: u64) {
        self.reads.lock().announced.insert((self.name.clone(), offset));
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.file.allocate(bytes)
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.file.allocated_bytes()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Little, so that few leaves are cached.
const CACHE_BYTES: u64 = 64 << 10;
const ROWS: u64 = 20_000;
/// Distance between the read rows: more than the rows of a leaf, so that each is in another.
const APART: u64 = 100;

fn row(number: u64, version: u64) -> Row {
    Row::new(&number.to_be_bytes(), &[7; 100], Version(version))
}

fn flush(store: &mut SsdStore, sequence: u64) {
    let position = Position {
        version: Version(sequence),
        sequence: LogSequence(sequence),
    };
    let flushed = store.begin_flush().run(position).unwrap();
    drop(store.end_flush(Some(flushed)));
}

/// Each read waited for the previous one: rows in random order were written at the pace of
/// sequential reads, both by the flush and by the writer before it, although the disk could do five
/// reads in that time.
#[test]
fn leaves_are_requested_before_the_first_of_them_is_read() {
    let disk = WatchedDisk::default();
    create(&disk).unwrap();
    let mut store = SsdStore::open(Arc::new(disk.clone()), CACHE_BYTES, 0).unwrap();
    (0..ROWS).for_each(|number| drop(store.set(row(number, 1)).unwrap()));
    flush(&mut store, 1);

    let mut store = SsdStore::open(Arc::new(disk.clone()), CACHE_BYTES, 0).unwrap();
    let keys: Vec<[u8; 8]> = (0..ROWS).step_by(APART as usize).map(u64::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_slice()).collect();
    let leaves = keys.len() as u64;
    let (announced, unannounced) =
        disk.reads_of(|| assert!(store.get_each(&keys).unwrap().iter().all(Option::is_some)));
    assert!(
        announced > leaves / 2 && unannounced < leaves / 8,
        "{announced} and {unannounced}"
    );

    let changed = (0..ROWS).step_by(APART as usize).map(|number| number + APART / 2);
    changed.for_each(|number| drop(store.set(row(number, 2)).unwrap()));
    let (announced, unannounced) = disk.reads_of(|| flush(&mut store, 2));
    assert!(
        announced > leaves / 2 && unannounced < leaves / 8,
        "{announced} and {unannounced}"
    );
}
