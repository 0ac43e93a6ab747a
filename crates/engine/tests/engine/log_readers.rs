//! Reading the log of a running engine: in order, without gaps, only durable records; and retention
//! for readers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quartet_engine::{Engine, LogReadError, LogReader};
use quartet_env::Disk;
use quartet_model::{Effect, EffectsReader, LogSequence, Version};
use quartet_store::Read;

use crate::shelf::until;
use crate::world::{ALWAYS, Random, World, execute};

type Rows = BTreeMap<Vec<u8>, (Version, Vec<u8>)>;

/// Applies all that can be read now; the versions of the transactions, in order.
fn read_all(reader: &mut LogReader, rows: &mut Rows) -> Vec<Version> {
    let (mut versions, mut expected) = (Vec::new(), reader.position());
    while let Some(record) = reader.next().unwrap() {
        assert_eq!(record.sequence, expected);
        expected = expected.next();
        let mut transactions = EffectsReader::new(record.payload);
        while let Some((version, mut effects)) = transactions.next_transaction().unwrap() {
            assert!(versions.last() < Some(&version));
            versions.push(version);
            while let Some(effect) = effects.next() {
                apply(rows, version, effect.unwrap());
            }
        }
    }
    versions
}

fn apply(rows: &mut Rows, version: Version, effect: Effect<'_>) {
    match effect {
        Effect::Set { key, value } => drop(rows.insert(key.to_vec(), (version, value.to_vec()))),
        Effect::Row { key, value, version } => drop(rows.insert(key.to_vec(), (version, value.to_vec()))),
        Effect::Clear { key } => drop(rows.remove(key)),
        Effect::ClearRange { start, end } => rows.retain(|key, _| &key[..] < start || &key[..] >= end),
        Effect::Patch { key, offset, bytes } => {
            let (at, value) = rows.entry(key.to_vec()).or_default();
            *at = version;
            patch(value, offset, bytes);
        }
    }
}

fn patch(value: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    value.resize(value.len().max(offset + bytes.len()), 0);
    value[offset..][..bytes.len()].copy_from_slice(bytes);
}

fn rows_of(engine: &Engine) -> Rows {
    let mut rows = Rows::new();
    engine
        .snapshot()
        .0
        .scan(b"", &[0xff; 16], false, &mut |row| {
            rows.insert(row.key().to_vec(), (row.version(), row.value().to_vec()));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    rows
}

fn write_something(engine: &Engine, random: &mut Random) -> Version {
    execute(engine, ALWAYS, |tx| {
        for _ in 0..1 + random.below(4) {
            let key = [random.below(50) as u8];
            match random.below(10) {
                0 => drop(tx.clear(&key)),
                1 => drop(tx.clear_range(&key, &[key[0].saturating_add(5)])),
                2..5 => tx.patch_parts(&[&key], random.below(300) as usize, b"patch"),
                _ => drop(tx.set(&key, &vec![7; random.below(200) as usize])),
            }
        }
        tx.set(b"always", b"something");
    })
    .1
}

#[test]
fn a_reader_beside_the_writer_reaches_the_same_rows() {
    let world = World {
        checkpoint_log_bytes: 20_000,
        ..World::default()
    };
    let (engine, mut random) = (world.open(), Random(1));
    let mut reader = engine.read_log(LogSequence(1)).unwrap();
    let mut rows = Rows::new();
    for _ in 0..20 {
        let mut last = Version::ZERO;
        for _ in 0..random.below(60) {
            last = write_something(&engine, &mut random);
        }
        assert!(engine.wait_durable(last));
        read_all(&mut reader, &mut rows);
        assert_eq!(rows, rows_of(&engine));
    }
    // Many were due, and the thread that writes them may be late.
    until("a checkpoint is written", || {
        engine.statistics().checkpoints.load(Ordering::Relaxed) > 0
    });
    engine.close().unwrap();
}

/// A log kept for a reader that never returned filled the disk.
#[test]
fn a_reader_never_fills_the_disk() {
    let world = World {
        segment_bytes: 64 << 10,
        checkpoint_log_bytes: 200_000,
        ..World::default()
    };
    let engine = world.open();
    let mut slow = engine.read_log(LogSequence(1)).unwrap();
    world.disk.set_capacity(Some(world.disk.taken_bytes() + 2_000_000));
    for round in 0..8000u32 {
        let value = [round as u8; 500];
        let written = execute(&engine, ALWAYS, |tx| drop(tx.set(b"key", &value))).1;
        assert!(engine.wait_durable(written));
    }
    assert_eq!(engine.statistics().log_readers_lost.load(Ordering::Relaxed), 1);
    assert!(matches!(slow.next(), Err(LogReadError::TooOld { .. })));
    world.disk.set_capacity(None);
    engine.close().unwrap();
}

#[test]
fn records_being_read_are_kept_through_checkpoints_and_trimmed_afterwards() {
    let world = World::default();
    let (engine, mut random) = (world.open(), Random(2));
    let mut reader = engine.read_log(LogSequence(1)).unwrap();
    for _ in 0..100 {
        let written = write_something(&engine, &mut random);
        assert!(engine.wait_durable(written));
    }
    engine.checkpoint().unwrap();
    assert!(engine.statistics().log_retained_bytes.load(Ordering::Relaxed) > 10_000);
    let mut rows = Rows::new();
    read_all(&mut reader, &mut rows);
    assert_eq!(rows, rows_of(&engine));
    // The reader has advanced: nothing before its position is kept.
    engine.checkpoint().unwrap();
    assert_eq!(engine.statistics().log_retained_bytes.load(Ordering::Relaxed), 0);
    assert!(matches!(
        engine.read_log(LogSequence(1)),
        Err(LogReadError::TooOld { .. })
    ));
    assert!(read_all(&mut reader, &mut rows).is_empty());
    drop(reader);
    engine.close().unwrap();
}

#[test]
fn a_reader_that_lags_beyond_the_budget_gets_an_error() {
    let world = World {
        log_retention_bytes: 10_000,
        ..World::default()
    };
    let (engine, mut random) = (world.open(), Random(3));
    let mut slow = engine.read_log(LogSequence(1)).unwrap();
    assert!(slow.next().unwrap().is_none());
    let notified = Arc::new(AtomicUsize::new(0));
    let tells = notified.clone();
    slow.on_more(Arc::new(move || {
        tells.fetch_add(1, Ordering::SeqCst);
    }));
    let statistics = engine.statistics();
    while statistics.log_readers_lost.load(Ordering::Relaxed) == 0 {
        for _ in 0..50 {
            write_something(&engine, &mut random);
        }
        engine.checkpoint().unwrap();
        let segment_bytes: u64 = segments(&world)
            .iter()
            .map(|name| world.disk.open(name).unwrap().len().unwrap())
            .sum();
        assert!(segment_bytes < 10_000 + 50 * 1000 + 3 * 4096, "{segment_bytes}");
    }
    assert!(matches!(slow.next(), Err(LogReadError::TooOld { .. })));
    assert!(notified.load(Ordering::SeqCst) > 0);
    engine.close().unwrap();
}

fn segments(world: &World) -> Vec<String> {
    let mut names = world.disk.list().unwrap();
    names.retain(|name| name.starts_with("log-0"));
    names
}

#[test]
fn a_version_finds_its_place() {
    // A flush of the ssd engine trims the log like a checkpoint, whenever it is due.
    let mut world = World {
        log_retention: Duration::from_secs(3600),
        ..World::default()
    };
    let (mut engine, mut random) = (world.open(), Random(4));
    let mut versions = Vec::new();
    for round in 0..3 {
        for _ in 0..40 {
            versions.push(write_something(&engine, &mut random));
        }
        assert!(engine.wait_durable(versions[versions.len() - 1]));
        for _ in 0..30 {
            let index = random.below(versions.len() as u64) as usize;
            let mut reader = engine.read_log_after(versions[index]).unwrap();
            let mut read = read_all(&mut reader, &mut Rows::new());
            read.retain(|version| *version > versions[index]);
            assert_eq!(read, versions[index + 1..], "round {round}, after {index}");
        }
        let mut from_start = engine.read_log_after(Version::ZERO).unwrap();
        assert_eq!(read_all(&mut from_start, &mut Rows::new()), versions);
        drop(from_start);
        engine.close().unwrap();
        if round == 2 {
            world.log_retention = Duration::ZERO;
        }
        engine = world.open();
    }
    engine.checkpoint().unwrap();
    for _ in 0..100 {
        write_something(&engine, &mut random);
    }
    engine.checkpoint().unwrap();
    assert!(matches!(
        engine.read_log_after(versions[5]),
        Err(LogReadError::TooOld { .. })
    ));
    let beyond = engine.durable_sequence().next().next();
    assert!(matches!(engine.read_log(beyond), Err(LogReadError::Beyond { .. })));
    engine.close().unwrap();
}
