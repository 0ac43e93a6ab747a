use std::collections::BTreeMap;

use quartet_env::{Fault, FaultyDisk, Operation};
use quartet_model::{LogSequence, Version};

use super::rebuild::LEAF_BYTES;
use super::*;
use crate::memory::MemoryStore;

type Model = BTreeMap<Vec<u8>, Row>;

const CACHE_BYTES: u64 = 1 << 20;

fn open(disk: &FaultyDisk) -> SsdStore {
    try_open(disk).expect("a sound directory opens")
}

fn try_open(disk: &FaultyDisk) -> Result<SsdStore, OpenError> {
    let disk = Arc::new(disk.clone());
    if !is_in(disk.as_ref())? {
        create(disk.as_ref())?;
    }
    let store = SsdStore::open(disk, CACHE_BYTES, 1 << 16)?;
    store.tidy(|_| Ok(()));
    Ok(store)
}

fn at(sequence: u64) -> Position {
    Position {
        version: Version(sequence),
        sequence: LogSequence(sequence),
    }
}

fn flush(store: &mut SsdStore, sequence: u64) -> Result<(), StoreError> {
    let flushed = store.begin_flush().run(at(sequence));
    let failure = flushed.as_ref().err().cloned();
    drop(store.end_flush(flushed.ok()));
    failure.map_or(Ok(()), Err)
}

fn numbered(number: u64) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

fn row(number: u64, value_bytes: usize, version: u64) -> Row {
    Row::new(&numbered(number), &vec![number as u8; value_bytes], Version(version))
}

/// A store of `rows` rows, all of them on disk.
fn filled(disk: &FaultyDisk, rows: u64, value_bytes: usize) -> SsdStore {
    let mut store = open(disk);
    for number in 0..rows {
        store.set(row(number, value_bytes, 1)).unwrap();
    }
    flush(&mut store, 1).unwrap();
    store
}

fn all(rows: &impl Read) -> Result<Vec<Row>, StoreError> {
    let mut all = Vec::new();
    rows.walk(b"", &mut |row| {
        all.push(row.clone());
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// Nodes that are looked at while `work` runs.
fn nodes(work: impl FnOnce()) -> u64 {
    let before = files::tests::NODES.get();
    work();
    files::tests::NODES.get() - before
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

#[test]
fn conforms() {
    crate::conformance::check(|| open(&FaultyDisk::new()));
}

/// Random writes of many rows, so that the tree is deep, beside a sorted map: with flushes that
/// overlap them, fail, or end in a restart, and snapshots held over all of it.
struct Walk {
    disk: FaultyDisk,
    store: SsdStore,
    model: Model,
    /// The contents of the newest flush.
    durable: Model,
    /// The contents of flushes that have failed since: a flush that failed at its very end may take
    /// effect after a loss of power.
    uncertain: Vec<Model>,
    flush: Option<(SsdFlush, Model)>,
    snapshots: Vec<(SsdSnapshot, Model)>,
    random: Random,
    keys: u64,
    step: u64,
}

impl Walk {
    fn run(seed: u64, steps: u64, keys: u64) {
        let disk = FaultyDisk::new();
        let mut walk = Walk {
            store: open(&disk),
            disk,
            model: Model::new(),
            durable: Model::new(),
            uncertain: Vec::new(),
            flush: None,
            snapshots: Vec::new(),
            random: Random(seed),
            keys,
            step: 0,
        };
        for step in 1..=steps {
            walk.step = step;
            match walk.random.below(1000) {
                0..600 => walk.write_some(),
                600..760 => walk.clear_some(),
                760..830 => walk.clear_range(),
                830..920 => walk.read(),
                920..960 => walk.flush(),
                960..975 => walk.snapshots.push((walk.store.snapshot(), walk.model.clone())),
                975..985 => drop(walk.snapshots.pop()),
                _ => walk.restart(),
            }
        }
        walk.compare();
    }

    fn number(&mut self) -> u64 {
        self.random.below(self.keys)
    }

    fn write_some(&mut self) {
        let (first, count) = (self.number(), 1 + self.random.below(60));
        let stride = 1 + self.random.below(20);
        for index in 0..count {
            let value_bytes = match self.random.below(40) {
                0 => 2000 + self.random.below(9000),
                _ => self.random.below(60),
            };
            let row = row((first + index * stride) % self.keys, value_bytes as usize, self.step);
            let old = self.model.insert(row.key().to_vec(), row.clone());
            assert_eq!(self.store.set(row).unwrap(), old);
        }
    }

    fn clear_some(&mut self) {
        let first = self.number();
        for number in first..first + self.random.below(40) {
            let key = numbered(number);
            assert_eq!(self.store.clear(&key).unwrap(), self.model.remove(&key));
        }
    }

    fn range(&mut self) -> (Vec<u8>, Vec<u8>) {
        let start = self.number();
        let length = match self.random.below(3) {
            0 => self.random.below(10),
            1 => self.random.below(self.keys / 50),
            _ => self.random.below(self.keys / 4),
        };
        (numbered(start), numbered(start + length))
    }

    /// Kept, or undone together with later writes, as a transaction does.
    fn clear_range(&mut self) {
        let (start, end) = self.range();
        let expected = in_range(&self.model, &start, &end);
        let cleared = self.store.clear_range(&start, &end).unwrap();
        let bytes: u64 = expected.iter().map(Row::stored_bytes).sum();
        assert_eq!((cleared.count(), cleared.row_bytes()), (expected.len() as u64, bytes));
        if self.random.below(2) == 0 {
            self.model.retain(|key, _| !(start <= *key && *key < end));
            return;
        }
        let other = self.number();
        let new = row(other, 5, self.step);
        match self.store.set(new.clone()).unwrap() {
            Some(old) => drop(self.store.set(old).unwrap()),
            None => drop(self.store.clear(new.key()).unwrap()),
        }
        self.store.restore(&cleared);
    }

    fn read(&mut self) {
        let (start, end) = self.range();
        let expected = in_range(&self.model, &start, &end);
        let store = &self.store;
        assert_eq!(store.len(), self.model.len() as u64);
        assert_eq!(store.count(&start, &end).unwrap(), expected.len() as u64);
        assert_eq!(store.get(&start).unwrap(), self.model.get(&start).cloned());
        let index = self.random.below(expected.len() as u64 + 2);
        assert_eq!(
            store.nth(&start, &end, index).unwrap(),
            expected.get(index as usize).cloned()
        );
        let keys: Vec<Vec<u8>> = (0..self.random.below(40))
            .map(|_| numbered(self.random.below(self.keys + 5)))
            .collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        store.view.fetch(&keys);
        let each = store.get_each(&keys).unwrap();
        let stored = keys.iter().map(|key| self.model.get(*key));
        assert!(each.iter().map(Option::as_ref).eq(stored));
        let limit = 1 + self.random.below(300) as usize;
        assert!(
            scan(store, &start, &end, false, limit)
                .iter()
                .eq(expected.iter().take(limit))
        );
        assert!(
            scan(store, &start, &end, true, limit)
                .iter()
                .eq(expected.iter().rev().take(limit))
        );
    }

    fn flush(&mut self) {
        let Some((flush, model)) = self.flush.take() else {
            self.flush = Some((self.store.begin_flush(), self.model.clone()));
            return;
        };
        let fails = self.random.below(3) == 0;
        if fails {
            let operation = [Operation::Write, Operation::Sync, Operation::Create, Operation::Read];
            let nth = 1 + self.random.below(3);
            self.disk
                .fail(operation[self.random.below(4) as usize], nth, Fault::Error);
        }
        let flushed = flush.run(at(self.step));
        // A fault that did not occur must not fail another operation.
        self.disk.clear_faults();
        match flushed {
            Ok(flushed) => {
                drop(self.store.end_flush(Some(flushed)));
                self.durable = model;
                self.uncertain.clear();
                self.store.verify().unwrap();
            }
            Err(_) => {
                drop(self.store.end_flush(None));
                self.uncertain.push(model);
            }
        }
        self.compare();
    }

    /// Loses power: the content of the newest flush is present, and nothing else.
    fn restart(&mut self) {
        self.flush = None;
        match self.random.below(2) {
            0 => self.disk.crash_keeping_some(self.step),
            _ => self.disk.crash(),
        }
        self.snapshots.clear();
        self.store = open(&self.disk);
        self.store.verify().unwrap();
        let rows = all(&self.store).unwrap();
        let mut possible = self.uncertain.drain(..).chain([std::mem::take(&mut self.durable)]);
        assert!(possible.any(|model| rows.iter().eq(model.values())));
        drop(possible);
        self.model = rows.into_iter().map(|row| (row.key().to_vec(), row)).collect();
        self.durable = self.model.clone();
    }

    fn compare(&self) {
        assert!(all(&self.store).unwrap().iter().eq(self.model.values()));
        for (snapshot, model) in &self.snapshots {
            assert!(all(snapshot).unwrap().iter().eq(model.values()));
            assert_eq!(snapshot.len(), model.len() as u64);
        }
    }
}

fn in_range(model: &Model, start: &[u8], end: &[u8]) -> Vec<Row> {
    if start >= end {
        return Vec::new();
    }
    model
        .range(start.to_vec()..end.to_vec())
        .map(|(_, row)| row.clone())
        .collect()
}

fn scan(rows: &impl Read, start: &[u8], end: &[u8], reverse: bool, limit: usize) -> Vec<Row> {
    let mut visited = Vec::new();
    let visit = &mut |row: &Row| {
        visited.push(row.clone());
        match visited.len() == limit {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    rows.scan(start, end, reverse, visit).unwrap();
    visited
}

/// `QUARTET_STORE_WALKS` walks many more.
#[test]
fn a_walk_agrees_with_a_sorted_map() {
    let walks = std::env::var("QUARTET_STORE_WALKS").map_or(6, |walks| walks.parse().unwrap());
    for seed in 0..walks {
        Walk::run(seed, 250, [300, 3000, 20_000][seed as usize % 3]);
    }
}

/// For every disk operation that fails during a flush, a loss of power leaves either the previous
/// state or the flush's.
#[test]
fn every_operation_of_a_flush_may_fail() {
    for operation in Operation::ALL {
        for nth in 1.. {
            let disk = FaultyDisk::new();
            let mut store = filled(&disk, 2000, 20);
            let before = all(&store).unwrap();
            for number in (0..2000).step_by(7) {
                store.set(row(number, 3000, 2)).unwrap();
            }
            store.clear_range(&numbered(500), &numbered(1500)).unwrap();
            let after = all(&store).unwrap();
            disk.fail(operation, nth, Fault::Error);
            let flushed = flush(&mut store, 2);
            let came_up = !disk.fault_pending();
            disk.clear_faults();
            assert_eq!(all(&store).unwrap(), after, "{operation:?} {nth}");
            disk.crash_keeping_some(nth);
            let store = open(&disk);
            store.verify().unwrap();
            let rows = all(&store).unwrap();
            let is_after = rows == after && store.applied() == at(2);
            let is_before = rows == before && store.applied() == at(1);
            assert!(is_after || (is_before && flushed.is_err()), "{operation:?} {nth}");
            if !came_up {
                break;
            }
        }
    }
}

/// A disk that is full refuses a flush and loses nothing; with room again it succeeds, and takes no
/// more than it needs.
#[test]
fn a_full_disk_refuses_a_flush() {
    let disk = FaultyDisk::new();
    let mut store = filled(&disk, 3000, 100);
    let capacity = disk.taken_bytes();
    for number in 3000..9000 {
        store.set(row(number, 100, 2)).unwrap();
    }
    let expected = all(&store).unwrap();
    disk.set_capacity(Some(capacity));
    assert!(flush(&mut store, 2).is_err());
    assert_eq!(all(&store).unwrap(), expected);
    assert!(disk.taken_bytes() <= capacity, "what a failed flush took is given back");
    store.clear(&numbered(1)).unwrap();
    disk.set_capacity(None);
    flush(&mut store, 2).unwrap();
    disk.crash();
    assert_eq!(open(&disk).len(), 8999);
}

/// For any damaged byte, no wrong row is ever returned: an answer is right or an error.
#[test]
fn a_flipped_byte_is_refused_or_harmless() {
    let disk = FaultyDisk::new();
    let mut store = filled(&disk, 600, 20);
    store.set(row(5, 3000, 2)).unwrap();
    flush(&mut store, 2).unwrap();
    let expected = all(&store).unwrap();
    let files: Vec<String> = disk.list().unwrap();
    let (mut refused, mut harmless) = (0, 0);
    for name in files.iter().filter(|name| name.starts_with("base")) {
        let bytes = disk.content(name).len() as u64;
        for offset in (0..bytes).step_by(29) {
            let damaged = disk.fork();
            damaged.flip(name, offset, 1 << (offset % 8));
            let rows = try_open(&damaged).ok().and_then(|store| all(&store).ok());
            match rows {
                Some(rows) => {
                    assert_eq!(rows, expected, "{name} at {offset}");
                    harmless += 1;
                }
                None => refused += 1,
            }
        }
    }
    assert!(refused > harmless, "{refused} refused, {harmless} harmless");
}

/// A read that fails is an error, and the next may succeed; a write that cannot read what it
/// replaces changes nothing.
#[test]
fn an_unreadable_node_is_an_error() {
    let disk = FaultyDisk::new();
    drop(filled(&disk, 2000, 100));
    let mut store = open(&disk);
    let fail = || disk.fail(Operation::Read, 1, Fault::Error);
    fail();
    assert!(store.get(&numbered(7)).is_err());
    fail();
    assert!(store.get_each(&[&numbered(8), &numbered(9)]).is_err());
    fail();
    store.view.fetch(&[&numbered(10)]);
    fail();
    assert!(store.set(row(900, 1, 2)).is_err());
    fail();
    assert!(store.clear(&numbered(1300)).is_err());
    fail();
    assert!(store.clear_range(&numbered(1500), &numbered(1900)).is_err());
    assert_eq!(store.len(), 2000);
    assert_eq!(store.get(&numbered(900)).unwrap(), Some(row(900, 100, 1)));
}

/// Operations that take O(log n) in memory visit a few nodes here, regardless of the number of rows
/// and of the overlay.
#[test]
fn counting_looks_at_few_nodes() {
    let disk = FaultyDisk::new();
    let mut store = filled(&disk, 30_000, 10);
    for number in 0..20_000 {
        store.clear(&numbered(number)).unwrap();
    }
    store.clear_range(&numbered(25_000), &numbered(28_000)).unwrap();
    for number in (20_000..30_000).step_by(3) {
        store.set(row(number, 11, 2)).unwrap();
    }
    let (start, end) = (numbered(100), numbered(30_000));
    let few = 12;
    assert!(nodes(|| assert_eq!(store.count(&start, &end).unwrap(), 8_000)) <= few);
    assert!(nodes(|| drop(store.nth(&start, &end, 4_000).unwrap())) <= few);
    let first = nodes(|| assert_eq!(scan(&store, &start, &end, false, 1)[0].key(), numbered(20_000)));
    assert!(first <= 3 * few, "{first} nodes behind 20,000 that were cleared");
    let last = nodes(|| assert_eq!(scan(&store, b"key", &numbered(20_000), true, 1), []));
    assert!(last <= 3 * few, "{last} nodes before 20,000 that were cleared");
    assert_eq!(nodes(|| assert_eq!(store.len(), 8_000)), 0);
}

#[test]
fn newer_rows_are_found_at_few_nodes() {
    let disk = FaultyDisk::new();
    let mut store = filled(&disk, 20_000, 10);
    let newest = all(&store).unwrap().iter().map(Row::version).max().unwrap();
    let newer = Version(newest.0 + 1);
    store.set(row(9_000, 10, newer.0)).unwrap();
    flush(&mut store, 20_000).unwrap();
    let check = |start, end, version, answer| {
        let (start, end) = (numbered(start), numbered(end));
        assert_eq!(store.has_newer(&start, &end, version).unwrap(), answer);
    };
    assert!(nodes(|| check(0, 20_000, newest, true)) <= 10);
    assert!(nodes(|| check(0, 8_999, newest, false)) <= 10);
    assert!(nodes(|| check(9_001, 20_000, newest, false)) <= 10);
    assert_eq!(nodes(|| check(0, 20_000, newer, false)), 0);
}

/// The nodes and rows of another format are never read as this format's.
#[test]
fn trees_of_every_other_format_are_refused() {
    let disk = FaultyDisk::new();
    drop(filled(&disk, 20, 10));
    let written = disk.content(root::NAME);
    for unknown in [0, 2, 6] {
        let mut bytes = written.clone();
        bytes[8] = unknown;
        bytes.truncate(bytes.len() - 8);
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes);
        bytes.extend(checksum.to_le_bytes());
        disk.open(root::NAME).unwrap().write_at(0, &bytes).unwrap();
        let Err(OpenError::UnknownFormat(named)) = Root::read(&disk) else {
            panic!("format {unknown} is read");
        };
        assert_eq!(named, u32::from(unknown));
    }
}

/// Opening reads the root and nothing of the tree, and tidying the root and its copy.
#[test]
fn opening_does_not_depend_on_the_rows() {
    let disk = FaultyDisk::new();
    drop(filled(&disk, 20_000, 50));
    disk.fail(Operation::Read, 4, Fault::Error);
    let store = open(&disk);
    assert_eq!(store.len(), 20_000);
    assert!(disk.fault_pending(), "three reads");
}

/// Only a repair reads the copy, so a missing or outdated copy would go unnoticed.
#[test]
fn the_copy_of_the_root_equals_the_root() {
    let disk = FaultyDisk::new();
    let mut store = filled(&disk, 20, 10);
    let is_copied = || disk.content(root::NAME) == disk.content(root::COPY);
    assert!(is_copied());
    let older = disk.content(root::COPY);
    store.set(row(3, 10, 2)).unwrap();
    flush(&mut store, 2).unwrap();
    assert!(is_copied() && disk.content(root::NAME) != older);
    drop(store);
    disk.create(root::COPY).unwrap().write_at(0, &older).unwrap();
    drop(open(&disk));
    assert!(is_copied());
    disk.remove(root::COPY).unwrap();
    drop(open(&disk));
    assert!(is_copied());
}

/// The flush that makes room on a full disk failed if there was none for the copy.
#[test]
fn a_root_without_room_for_its_copy_is_in_force() {
    let disk = FaultyDisk::new();
    let mut store = filled(&disk, 20, 10);
    store.set(row(3, 10, 2)).unwrap();
    // The root itself is created before; the file of rows is the reserved one.
    disk.fail(Operation::Create, 2, Fault::Error);
    flush(&mut store, 2).unwrap();
    assert!(!disk.fault_pending() && !disk.exists(root::COPY).unwrap());
    drop(store);
    assert_eq!(open(&disk).applied(), at(2));
    assert_eq!(disk.content(root::NAME), disk.content(root::COPY));
}

/// A flush that fails after renaming its root, at the directory, leaves a root on disk that is not
/// the store's. Files that only the former needs were removed to make room.
#[test]
fn files_of_a_failed_flush_are_kept_if_the_root_on_disk_needs_them() {
    for operation in [Operation::Create, Operation::Write, Operation::Sync] {
        for nth in 1.. {
            let disk = FaultyDisk::new();
            let mut store = filled(&disk, 200, 10);
            store.set(row(3, 10, 2)).unwrap();
            disk.fail(operation, nth, Fault::Error);
            let flushed = flush(&mut store, 2);
            let is_beyond = disk.fault_pending();
            disk.clear_faults();
            store.tidy(|_| Ok(()));
            drop((flushed, store));
            let store = open(&disk);
            let mut count = 0;
            let scanned = store.scan(b"", b"\xff", false, &mut |_| {
                count += 1;
                ControlFlow::Continue(())
            });
            assert!(
                scanned.is_ok() && count == 200,
                "{operation:?} {nth}: {scanned:?}, {count} rows"
            );
            if is_beyond {
                break;
            }
        }
    }
}

/// The next flush gives deleted space back to the file system, and a flush with little else to do
/// gives back the rest.
#[test]
fn deleted_space_is_given_back() {
    let disk = FaultyDisk::new();
    let mut store = filled(&disk, 30_000, 1000);
    let full = store.disk_use();
    // Nine of ten, all over the tree.
    for number in (0..30_000).filter(|number| number % 10 != 0) {
        store.clear(&numbered(number)).unwrap();
    }
    flush(&mut store, 2).unwrap();
    let used = store.disk_use();
    assert!(used.bytes < full.bytes / 3, "{used:?} after {full:?}");
    flush(&mut store, 3).unwrap();
    let used = store.disk_use();
    let bound = used.live_bytes + used.live_bytes / 16 + space::SLACK_BYTES;
    assert!(used.bytes <= bound, "{used:?}");
    assert!(!store.is_loose());
    let on_disk = disk.taken_bytes() - (1 << 16);
    assert!(on_disk < used.bytes + 64 * 1024, "{on_disk} taken for {used:?}");
    store.verify().unwrap();
    assert_eq!(store.len(), 3000);
    store.clear_range(b"", b"z").unwrap();
    flush(&mut store, 4).unwrap();
    assert_eq!(store.disk_use(), DiskUse::default());
    assert!(disk.taken_bytes() < 128 * 1024);
}

/// Overwrites at random, `writes` of `rows` per flush, with or without large values, until
/// everything was overwritten several times. Returns the largest size on disk relative to the keys
/// and values: during a flush, including all files that are removed at its end.
fn most_held_while_overwriting(rows: u64, writes: u64, large_of_ten: u64) -> f64 {
    let disk = FaultyDisk::new();
    let (mut store, mut random) = (open(&disk), Random(writes));
    let mut sizes = vec![0; rows as usize];
    let mut most = 0.0_f64;
    for round in 1..=(3 * rows / writes).clamp(6, 400) {
        for index in 0..if round == 1 { rows } else { writes } {
            let number = if round == 1 { index } else { random.below(rows) };
            let value_bytes = if random.below(10) < large_of_ten { 5000 } else { 1000 };
            sizes[number as usize] = value_bytes + 12;
            store.set(row(number, value_bytes, round)).unwrap();
        }
        let flushed = store.begin_flush().run(at(round)).unwrap();
        let live: usize = sizes.iter().sum();
        most = most.max((disk.taken_bytes() - (1 << 16)) as f64 / live as f64);
        drop(store.end_flush(Some(flushed)));
        let used = store.disk_use();
        let bound = used.live_bytes + used.live_bytes / 8 * 5 + space::SLACK_BYTES;
        assert!(used.bytes <= bound, "{writes} writes, round {round}: {used:?}");
        assert_eq!(used.pinned_bytes, 0);
    }
    store.verify().unwrap();
    most
}

/// The disk held 2.9 times the live size while a gigabyte was overwritten. For any size of flushes,
/// it is less now.
#[test]
fn overwriting_does_not_grow_the_files() {
    for (writes, large_of_ten) in [(80, 0), (400, 0), (1200, 0), (3000, 0), (8000, 0), (600, 2)] {
        let most = most_held_while_overwriting(3000, writes, large_of_ten);
        assert!(most <= 2.5, "{writes} writes a flush: {most:.2} of what is live");
    }
}

#[test]
fn a_snapshot_keeps_its_files_and_no_longer() {
    let disk = FaultyDisk::new();
    let mut store = filled(&disk, 20_000, 100);
    let (snapshot, expected) = (store.snapshot(), all(&store).unwrap());
    store.clear_range(b"", b"z").unwrap();
    flush(&mut store, 2).unwrap();
    assert!(store.disk_use().pinned_bytes > 0);
    assert_eq!(all(&snapshot).unwrap(), expected);
    drop(snapshot);
    assert_eq!(store.disk_use(), DiskUse::default());
    assert!(disk.list().unwrap().iter().all(|name| Files::number(name).is_none()));
}

/// Snapshots that are held indefinitely do not keep the disk: the oldest end in an error.
#[test]
fn a_snapshot_that_keeps_too_much_expires() {
    let disk = FaultyDisk::new();
    let mut store = filled(&disk, 20_000, 100);
    let (snapshot, expected) = (store.snapshot(), all(&store).unwrap());
    store.clear_range(b"", b"z").unwrap();
    flush(&mut store, 2).unwrap();
    store.files.expire(3, 1 << 30);
    assert_eq!(all(&snapshot).unwrap(), expected);
    store.files.expire(3, 0);
    assert!(all(&snapshot).is_err());
    assert_eq!(store.disk_use().pinned_bytes, 0);
}

/// Rows of all sizes, in key order.
fn mixed_rows(count: u64) -> Vec<Row> {
    let mut random = Random(count);
    let sizes = [0, 30, 60, 200, 1000, LEAF_BYTES, 9000];
    let size = |random: &mut Random| match random.below(50) {
        0 => sizes[random.below(sizes.len() as u64) as usize],
        _ => sizes[random.below(3) as usize],
    };
    (0..count)
        .map(|number| row(number, size(&mut random), 1 + random.below(9)))
        .collect()
}

fn loaded(disk: &FaultyDisk, rows: &[Row]) -> SsdStore {
    let mut store = open(disk);
    let mut load = store.begin_load();
    for row in rows {
        load.push(row.key(), row.value(), row.version()).unwrap();
    }
    store.end_load(load, at(7)).unwrap();
    store
}

/// Counts are those around which a node is closed, and enough for a tree of three levels.
#[test]
fn a_loaded_tree_is_as_if_each_row_had_been_set() {
    for count in [0, 1, 2, 50, 10_000, 60_000] {
        let (disk, rows) = (FaultyDisk::new(), mixed_rows(count));
        let store = loaded(&disk, &rows);
        let mut other = open(&FaultyDisk::new());
        rows.iter().for_each(|row| drop(other.set(row.clone()).unwrap()));
        flush(&mut other, 7).unwrap();
        store.verify().unwrap();
        assert_eq!(all(&store).unwrap(), rows, "{count} rows");
        assert_eq!(store.len(), count);
        assert_eq!(store.row_bytes(b"", b"z").unwrap(), other.row_bytes(b"", b"z").unwrap());
        for version in 0..10 {
            let newer = |store: &SsdStore| store.has_newer(b"key:00000100", b"key:00000104", Version(version));
            assert_eq!(newer(&store).unwrap(), newer(&other).unwrap(), "{count} rows");
        }
        let height = store.view.base.tree.as_ref().map_or(0, |open| open.tree.height);
        assert!(count < 60_000 || height >= 2, "a tree of {height} levels");
        disk.crash();
        let reopened = open(&disk);
        assert_eq!((reopened.len(), reopened.applied()), (count, at(7)));
        assert_eq!(all(&reopened).unwrap(), rows, "{count} rows, after a crash");
    }
}

#[test]
fn a_loaded_store_is_written_to_like_any_other() {
    let disk = FaultyDisk::new();
    let mut store = loaded(&disk, &mixed_rows(5000));
    for number in (0..6000).step_by(3) {
        store.set(row(number, 40, 20)).unwrap();
    }
    store.clear_range(&numbered(100), &numbered(900)).unwrap();
    let expected = all(&store).unwrap();
    flush(&mut store, 8).unwrap();
    store.verify().unwrap();
    assert_eq!(all(&open(&disk)).unwrap(), expected);
}

/// A load of any number of rows holds a few hundred nodes in memory.
#[test]
fn a_load_holds_few_nodes() {
    let store = open(&FaultyDisk::new());
    let mut load = store.begin_load();
    let mut most = 0;
    for number in 0..60_000 {
        load.push(&numbered(number), &[1; 200], Version(1)).unwrap();
        most = most.max(load.held_nodes());
    }
    assert!((200..600).contains(&most), "{most} nodes");
}

/// If any operation of the disk fails, the store has either no rows or all of them, and abandoned
/// files are removed.
#[test]
fn a_load_that_fails_leaves_an_empty_store() {
    let rows = mixed_rows(3000);
    for operation in [Operation::Write, Operation::Sync, Operation::Rename] {
        let mut failures = 0;
        for nth in 1.. {
            let disk = FaultyDisk::new();
            let mut store = open(&disk);
            disk.fail(operation, nth, Fault::Error);
            let mut load = store.begin_load();
            let pushed = rows
                .iter()
                .try_for_each(|row| load.push(row.key(), row.value(), row.version()));
            let ended = match pushed {
                Ok(()) => store.end_load(load, at(7)),
                Err(error) => {
                    drop(load);
                    Err(error)
                }
            };
            if ended.is_ok() {
                assert_eq!(store.len(), 3000);
                // Or it was the copy of the root that failed.
                if disk.fault_pending() {
                    break;
                }
                continue;
            }
            failures += 1;
            assert_eq!(store.len(), 0);
            drop(store);
            disk.crash();
            let reopened = open(&disk);
            assert!([0, 3000].contains(&reopened.len()));
            reopened.verify().unwrap();
            let is_file = |name: &String| Files::number(name).is_some();
            let files = disk.list().unwrap().iter().filter(|name| is_file(name)).count();
            assert_eq!(files > 0, !reopened.is_empty(), "{operation:?} {nth}");
        }
        assert!(failures > 0, "{operation:?}");
    }
}

/// Nodes that a flush replaced stayed cached until they were evicted, and took the room of nodes in
/// use.
#[test]
fn nodes_that_a_flush_has_replaced_are_not_cached() {
    let disk = FaultyDisk::new();
    let mut store = filled(&disk, 2_000, 100);
    let mut counts = Vec::new();
    for version in 2..6 {
        (0..2_000).for_each(|number| _ = store.set(row(number, 100, version)).unwrap());
        flush(&mut store, version).unwrap();
        (0..2_000).for_each(|number| _ = store.get(&numbered(number)).unwrap());
        counts.push(store.files.kept_nodes());
    }
    assert!(
        counts[0] > 50 && counts.iter().all(|nodes| *nodes == counts[0]),
        "{counts:?}"
    );
}

/// The nodes below kept nodes are read from the cache, and read again from disk once they are
/// evicted.
#[test]
fn nodes_that_are_not_cached_any_more_are_read() {
    let disk = FaultyDisk::new();
    drop(filled(&disk, 30_000, 100));
    let store = open(&disk);
    for _ in 0..3 {
        for number in 0..30_000 {
            let foreign = row(number, 100, 1);
            assert_eq!(store.get(&numbered(number)).unwrap(), Some(foreign));
        }
    }
    assert!(store.files.kept_nodes() < 500, "the cache has room for a part only");
}

/// A backup that read everything once put what others read again and again out of the cache.
#[test]
fn a_walk_keeps_no_leaves_in_memory() {
    let disk = FaultyDisk::new();
    drop(filled(&disk, 20_000, 100));
    let store = open(&disk);
    assert_eq!(all(&store).unwrap().len(), 20_000);
    let inner_nodes = store.files.kept_nodes();
    assert!(inner_nodes < 20, "{inner_nodes} nodes");
    let mut visited = 0;
    store
        .scan(b"", b"z", false, &mut |_| {
            visited += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(visited, 20_000);
    assert!(store.files.kept_nodes() > 10 * inner_nodes);
}

/// Each opening waited for the disk twice, though it had removed nothing.
#[test]
fn an_opening_that_removes_nothing_syncs_nothing() {
    let disk = FaultyDisk::new();
    drop(filled(&disk, 100, 20));
    open(&disk).tidy(MemoryStore::remove);
    let store = open(&disk);
    disk.fail(Operation::Sync, 1, Fault::Error);
    store.tidy(MemoryStore::remove);
    assert!(disk.fault_pending());
    disk.clear_faults();
    // The rest of an unfinished flush goes durably.
    drop(disk.create(root::PARTIAL).unwrap());
    disk.sync_directory().unwrap();
    store.tidy(MemoryStore::remove);
    disk.crash();
    assert!(!disk.exists(root::PARTIAL).unwrap());
}
