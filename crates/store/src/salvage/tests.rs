use std::collections::BTreeMap;

use quartet_env::FaultyDisk;
use quartet_model::{LogSequence, Version};

use super::*;
use crate::checkpoint::{FRAME_BYTES, HEADER_BYTES, u32_at};
use crate::error::StoreError;
use crate::interface::{Flush, Store};
use crate::options::StoreOptions;
use crate::partition_store::PartitionStore;
use crate::position::Position;
use crate::row::Row;

const ROWS: u64 = 4000;
const POSITION: Position = Position {
    version: Version(5_000),
    sequence: LogSequence(89),
};

fn value(number: u64) -> Vec<u8> {
    match number % 500 {
        0 => vec![number as u8; 5_000],
        _ => vec![number as u8; 40],
    }
}

/// A directory of rows on disk, and those rows.
fn directory(kind: StoreKind, value: impl Fn(u64) -> Vec<u8>) -> (FaultyDisk, BTreeMap<Vec<u8>, Row>) {
    let disk = FaultyDisk::new();
    let options = StoreOptions {
        kind: Some(kind),
        ..StoreOptions::default()
    };
    let mut store = PartitionStore::open(Arc::new(disk.clone()), &options, &mut |_| {})
        .unwrap()
        .store;
    let mut rows = BTreeMap::new();
    for number in 0..ROWS {
        let key = format!("key:{number:06}").into_bytes();
        let row = Row::new(&key, &value(number), Version(number + 1));
        store.set(row.clone()).unwrap();
        rows.insert(key, row);
    }
    flush(&mut store).unwrap();
    (disk, rows)
}

fn flush(store: &mut PartitionStore) -> Result<(), StoreError> {
    let flushed = store.begin_flush().run(POSITION)?;
    drop(store.end_flush(Some(flushed)));
    Ok(())
}

struct Outcome {
    salvaged: Salvaged,
    lost: Vec<Lost>,
    mended: Vec<String>,
    missing: u64,
}

/// Salvages a disk, and expects every row that is not reported as lost to be present unchanged, and
/// no other.
fn salvage_and_judge(disk: &FaultyDisk, rows: &BTreeMap<Vec<u8>, Row>) -> Outcome {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (mut saved, mut lost, mut mended) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut keep = |row: Row| {
        saved.insert(row.key().to_vec(), row);
        ControlFlow::Continue(())
    };
    let mut tell = |damage| match damage {
        Damage::Lost(piece) => lost.push(piece),
        Damage::Mended(name) => mended.push(name),
    };
    let salvaged = salvage(&shared, &mut keep, &mut tell).unwrap();
    assert_eq!(salvaged.rows, saved.len() as u64);
    let mut missing = 0;
    for (key, row) in rows {
        let is_lost = |piece: &&Lost| piece.from <= *key && piece.before.as_ref().is_none_or(|before| key < before);
        match saved.remove(key) {
            Some(stored) => assert_eq!(&stored, row),
            None => {
                assert!(lost.iter().any(|piece| is_lost(&piece)), "{:?} is missing", row.key());
                missing += 1;
            }
        }
    }
    assert!(saved.is_empty(), "{} rows that nobody has written", saved.len());
    if let Some(said) = salvaged.missing {
        assert_eq!(said, missing, "{lost:?}");
    }
    Outcome {
        salvaged,
        lost,
        mended,
        missing,
    }
}

fn checkpoint_name(disk: &FaultyDisk) -> String {
    crate::checkpoint::files::newest(disk).unwrap().unwrap()
}

/// The offsets of its parts.
fn parts(content: &[u8]) -> Vec<usize> {
    let mut starts = vec![HEADER_BYTES];
    while let Some(&last) = starts.last()
        && last < content.len()
    {
        starts.push(last + FRAME_BYTES + u32_at(content, last + 1) as usize);
    }
    starts.pop();
    starts
}

#[test]
fn a_flipped_byte_of_a_checkpoint_loses_one_block() {
    let (disk, rows) = directory(StoreKind::Memory, value);
    let name = checkpoint_name(&disk);
    let content = disk.content(&name);
    let starts = parts(&content);
    assert!(starts.len() >= 4, "three blocks and a footer");
    let frames = starts.iter().flat_map(|start| *start..start + FRAME_BYTES);
    let everywhere = (0..content.len()).step_by(1709);
    for offset in (0..HEADER_BYTES + 40).chain(frames).chain(everywhere) {
        let damaged = disk.fork();
        damaged.flip(&name, offset as u64, 1 << (offset % 8));
        let outcome = salvage_and_judge(&damaged, &rows);
        assert!(outcome.missing < ROWS / 2, "byte {offset}: {} rows", outcome.missing);
        assert!(outcome.lost.len() <= 1);
        assert!(!outcome.lost.is_empty() || !outcome.mended.is_empty(), "byte {offset}");
        assert_eq!(outcome.salvaged.position.sequence, POSITION.sequence);
        assert!(outcome.salvaged.position.version <= POSITION.version);
        assert_eq!(offset < HEADER_BYTES, outcome.salvaged.position != POSITION);
    }
}

#[test]
fn a_length_that_is_wrong_loses_nothing() {
    let (disk, rows) = directory(StoreKind::Memory, value);
    let name = checkpoint_name(&disk);
    let second = parts(&disk.content(&name))[1] as u64;
    for byte in 0..5 {
        disk.flip(&name, second + byte, 0xff);
    }
    let outcome = salvage_and_judge(&disk, &rows);
    assert_eq!((outcome.missing, outcome.mended.len()), (0, 1));
}

#[test]
fn the_keys_that_a_damaged_block_names_are_listed() {
    let (disk, rows) = directory(StoreKind::Memory, value);
    let name = checkpoint_name(&disk);
    let second = parts(&disk.content(&name))[1] as u64;
    // The first bytes of a version.
    disk.flip(&name, second + FRAME_BYTES as u64, 0xff);
    let outcome = salvage_and_judge(&disk, &rows);
    assert_eq!(outcome.lost[0].likely.len() as u64, outcome.missing);
    assert_eq!(outcome.salvaged.missing, Some(outcome.missing));
}

/// A sector that reads as zeros, at any offset: a frame, rows, the footer.
#[test]
fn a_sector_of_zeros_costs_only_the_rows_it_overlaps() {
    for kind in StoreKind::ALL {
        let (disk, rows) = directory(kind, value);
        for name in disk.list().unwrap().iter().filter(|name| name.contains('-')) {
            let content = disk.content(name);
            // Looking for a turned bit takes long without optimization.
            let trials = if kind == StoreKind::Ssd { 2 } else { 15 };
            for start in (0..content.len()).step_by(content.len() / trials) {
                let damaged = disk.fork();
                for (offset, byte) in content.iter().enumerate().skip(start).take(512) {
                    damaged.flip(name, offset as u64, *byte);
                }
                let outcome = salvage_and_judge(&damaged, &rows);
                let is_node_of_nodes = outcome.lost.iter().any(|piece| piece.likely.is_empty());
                assert!(outcome.missing < ROWS / 2 || is_node_of_nodes, "{name} at {start}");
            }
        }
    }
}

#[test]
fn the_start_of_a_truncated_checkpoint_is_saved() {
    let (disk, rows) = directory(StoreKind::Memory, value);
    let name = checkpoint_name(&disk);
    let third = parts(&disk.content(&name))[2] as u64;
    disk.truncate(&name, third + 1000);
    let outcome = salvage_and_judge(&disk, &rows);
    assert!(outcome.missing > 0 && outcome.salvaged.rows > 0);
    assert_eq!(outcome.lost[0].before, None);
}

/// A client stores a block of a checkpoint as a value. It is never read as rows, even if the block
/// around it is damaged.
#[test]
fn bytes_of_a_value_are_not_taken_for_a_block() {
    let (other, _) = directory(StoreKind::Memory, |_| b"forged".to_vec());
    let forged = other.content(&checkpoint_name(&other))[HEADER_BYTES..].to_vec();
    let (disk, rows) = directory(StoreKind::Memory, |number| match number {
        1000 => forged.clone(),
        _ => value(number),
    });
    let name = checkpoint_name(&disk);
    let content = disk.content(&name);
    let around = content.windows(forged.len()).position(|bytes| bytes == forged).unwrap();
    let start = parts(&content).into_iter().rfind(|start| *start < around).unwrap();
    for damaged_bytes in [FRAME_BYTES, FRAME_BYTES + 200, around - start] {
        let damaged = disk.fork();
        (0..damaged_bytes).for_each(|byte| damaged.flip(&name, (start + byte) as u64, 0xa5));
        assert!(salvage_and_judge(&damaged, &rows).missing > 0);
    }
}

#[test]
fn a_flipped_bit_of_a_tree_is_turned_back() {
    let (disk, rows) = directory(StoreKind::Ssd, value);
    let mut mended = 0;
    for (name, trials) in [("base", 6), ("base-0000000001", 2)] {
        let length = disk.content(name).len();
        for offset in (0..length).step_by(length / trials) {
            let damaged = disk.fork();
            damaged.flip(name, offset as u64, 1 << (offset % 8));
            let outcome = salvage_and_judge(&damaged, &rows);
            assert_eq!((outcome.missing, outcome.salvaged.position), (0, POSITION));
            mended += outcome.mended.len();
        }
    }
    assert!(mended >= 8, "{mended}");
}

#[test]
fn only_the_content_of_a_damaged_node_or_value_is_lost() {
    let (disk, rows) = directory(StoreKind::Ssd, value);
    for name in disk.list().unwrap().iter().filter(|name| name.starts_with("base-")) {
        let length = disk.content(name).len();
        // Not the root of the tree, which is the last of the file.
        for offset in (0..length * 9 / 10).step_by(length / 3) {
            let damaged = disk.fork();
            (0..3).for_each(|byte| damaged.flip(name, (offset + byte) as u64, 0x5a));
            let outcome = salvage_and_judge(&damaged, &rows);
            assert!((1..ROWS / 2).contains(&outcome.missing), "{name} at {offset}");
            assert_eq!(outcome.salvaged.missing, Some(outcome.missing));
        }
    }
}

#[test]
fn a_file_of_a_tree_that_is_not_there_is_lost() {
    let (disk, rows) = directory(StoreKind::Ssd, value);
    disk.remove("base-0000000001").unwrap();
    assert_eq!(salvage_and_judge(&disk, &rows).missing, ROWS);
}

#[test]
fn a_root_that_is_damaged_has_a_copy() {
    let (disk, rows) = directory(StoreKind::Ssd, value);
    (10..40).for_each(|byte| disk.flip("base", byte, 0x5a));
    let outcome = salvage_and_judge(&disk, &rows);
    assert_eq!((outcome.missing, outcome.salvaged.position), (0, POSITION));
    assert_eq!(outcome.mended, ["base, from base.copy"]);
}

#[test]
fn nothing_is_saved_without_a_root() {
    let (disk, _) = directory(StoreKind::Ssd, value);
    disk.flip("base", 20, 0x18);
    disk.flip("base.copy", 20, 0x18);
    let shared: Arc<dyn Disk> = Arc::new(disk);
    let refused = salvage(&shared, &mut |_| ControlFlow::Continue(()), &mut |_| {});
    assert!(refused.unwrap_err().is_damage());
}
