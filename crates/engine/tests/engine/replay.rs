//! Acknowledged writes survive closing, a loss of power, and checkpoints; damage is refused.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use quartet_engine::{Engine, ExecuteError, Transaction};
use quartet_env::{Disk, Fault, FaultyDisk, Operation};
use quartet_model::{VALUE_BYTES_MAX, Version};
use quartet_store::Read;

use crate::world::{ALWAYS, RELAXED, Random, World, execute};

fn random_transaction(engine: &Engine, random: &mut Random) -> Version {
    let space = if random.below(4) == 0 { RELAXED } else { ALWAYS };
    let (version, _) = execute(engine, space, |tx| {
        for _ in 0..=random.below(4) {
            let mut key = vec![random.below(40) as u8];
            if random.below(2) == 0 {
                // Logged as what differs from one before.
                key.extend([7; 80]);
            }
            match random.below(11) {
                8.. => tx.patch_parts(&[&key], random.below(90) as usize, &vec![9; random.below(9) as usize]),
                0 => drop(tx.clear_range(&key, &[key[0].saturating_add(5)])),
                1 | 2 => drop(tx.clear(&key)),
                _ => drop(tx.set(&key, &vec![7; random.below(60) as usize])),
            }
        }
        tx.commit_version()
    });
    version
}

#[test]
fn closing_and_opening_keeps_the_state() {
    for seed in 0..12 {
        let world = World::default();
        let mut random = Random(seed);
        let mut last = Version::ZERO;
        for _ in 0..4 {
            let engine = world.open();
            for _ in 0..60 {
                let version = random_transaction(&engine, &mut random);
                assert!(version > last, "versions ascend, also after the clock was set back");
                last = version;
            }
            if random.below(2) == 0 {
                engine.checkpoint().unwrap();
            }
            let expected = engine.state_hash(None).unwrap();
            engine.close().unwrap();
            world.clock.set(random.below(1000));
            assert_eq!(world.open().state_hash(None).unwrap(), expected, "seed {seed}");
        }
    }
}

/// A model of the rows, compared with an engine, through patches of rows that are set, patched or
/// cleared in the same transaction, half of them rolled back; reopened every few transactions, when
/// rows are read from the log only.
#[test]
fn patches_are_what_a_slice_would_be_through_rollbacks_and_replays() {
    for seed in 0..8 {
        let (world, mut random) = (World::default(), Random(seed));
        let mut model = BTreeMap::new();
        for round in 0..6 {
            let engine = world.open();
            for _ in 0..40 {
                let before = model.clone();
                let fails = random.below(2) == 0;
                let done: Result<_, ExecuteError<()>> = engine.partition().execute(ALWAYS, |tx| {
                    for _ in 0..=random.below(5) {
                        change(tx, &mut model, &mut random);
                    }
                    if fails { Err(()) } else { Ok(()) }
                });
                if done.is_err() {
                    model = before;
                }
                assert_eq!(values_of(&engine), model, "seed {seed}, round {round}");
            }
            if random.below(3) == 0 {
                engine.checkpoint().unwrap();
            }
            let hash = engine.state_hash(None).unwrap();
            engine.close().unwrap();
            let opened = world.open();
            assert_eq!(opened.state_hash(None).unwrap(), hash);
            assert_eq!(values_of(&opened), model, "seed {seed}, round {round}");
        }
    }
}

fn change(tx: &mut Transaction<'_>, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, random: &mut Random) {
    let key = vec![random.below(4) as u8];
    match random.below(8) {
        0 => {
            tx.clear(&key);
            model.remove(&key);
        }
        1 => {
            tx.clear_range(&key, &[key[0] + 2]);
            model.retain(|other, _| *other < key || *other >= vec![key[0] + 2]);
        }
        2 => {
            let value = vec![1; random.below(400) as usize];
            tx.set(&key, &value);
            model.insert(key, value);
        }
        number => {
            let (offset, bytes) = (
                random.below(400) as usize,
                vec![number as u8; random.below(20) as usize],
            );
            tx.patch_parts(&[&key], offset, &bytes);
            let value = model.entry(key).or_default();
            value.resize(value.len().max(offset + bytes.len()), 0);
            value[offset..][..bytes.len()].copy_from_slice(&bytes);
        }
    }
}

fn values_of(engine: &Engine) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut values = BTreeMap::new();
    let scanned = engine.snapshot().0.scan(b"", &[0xff; 16], false, &mut |row| {
        values.insert(Transaction::layer_key(row).to_vec(), row.value().to_vec());
        ControlFlow::Continue(())
    });
    scanned.unwrap();
    values
}

#[test]
fn a_patch_costs_the_log_what_it_changes() {
    let world = World {
        segment_bytes: 1 << 20,
        ..World::default()
    };
    let engine = world.open();
    execute(&engine, ALWAYS, |tx| drop(tx.set(b"key", &vec![7; 100_000])));
    engine.close().unwrap();
    let engine = world.open();
    let mut reader = engine.read_log(engine.durable_sequence().next()).unwrap();
    for offset in [0, 50_000, 100_000, 200_000] {
        let (_, version) = execute(&engine, ALWAYS, |tx| {
            tx.patch_parts(&[b"key"], offset, b"sixteen new ones")
        });
        assert!(engine.wait_durable(version));
        let record = reader.next().unwrap().expect("a record of it");
        assert!(record.payload.len() < 60, "{} bytes", record.payload.len());
    }
    assert_eq!(engine.snapshot().0.len(), 1);
}

#[test]
fn a_patch_beyond_the_longest_value_is_refused() {
    let engine = World::default().open();
    let refused: Result<_, ExecuteError<()>> = engine.partition().execute(ALWAYS, |tx| {
        tx.patch_parts(&[b"key"], VALUE_BYTES_MAX, b"x");
        Ok(())
    });
    assert!(matches!(refused, Err(ExecuteError::TooLarge(_))));
}

/// The states that an engine went through: the hash after each transaction, and its version.
struct Past(Vec<(Version, u128)>);

impl Past {
    fn of(engine: &Engine) -> Past {
        Past(vec![(Version::ZERO, engine.state_hash(None).unwrap())])
    }

    fn transaction(&mut self, engine: &Engine, random: &mut Random) -> Version {
        let version = random_transaction(engine, random);
        self.0.push((version, engine.state_hash(None).unwrap()));
        version
    }

    /// Asserts that the contents of `world`'s disk are one of these states, and none older than
    /// `acknowledged`.
    fn check(&self, world: &World, acknowledged: Version, story: &str) {
        let restored = world.open().state_hash(None).unwrap();
        let mut possible = self.0.iter().filter(|(version, _)| *version >= acknowledged);
        let last_acknowledged = self.0.iter().rfind(|(version, _)| *version <= acknowledged);
        let is_prefix = last_acknowledged
            .into_iter()
            .chain(&mut possible)
            .any(|(_, hash)| *hash == restored);
        assert!(is_prefix, "{story}");
    }
}

/// Epochs, segments and checkpoints so small that a few transactions fill each.
fn busy_world(disk: FaultyDisk) -> World {
    World {
        disk,
        checkpoint_log_bytes: 3000,
        epoch_bytes_max: 200,
        ..World::default()
    }
}

#[test]
fn a_crash_at_any_moment_leaves_a_prefix_with_everything_acknowledged() {
    for seed in 0..10 {
        let world = busy_world(FaultyDisk::default());
        let mut random = Random(seed);
        let engine = world.open();
        let mut past = Past::of(&engine);
        for moment in 0..80 {
            let version = past.transaction(&engine, &mut random);
            if random.below(4) == 0 {
                assert!(engine.wait_durable(version));
            }
            let acknowledged = engine.durable();
            let crashed = busy_world(world.disk.fork());
            match random.below(3) {
                0 => crashed.disk.crash(),
                1 => crashed.disk.crash_keeping_some(random.below(1 << 40)),
                _ => {} // The process alone was killed.
            }
            past.check(
                &crashed,
                acknowledged,
                &format!("seed {seed}, after transaction {moment}"),
            );
        }
    }
}

/// Makes the n-th write or sync fail for every n that occurs, in any file. Returns their number.
fn fail_everywhere(order: impl Fn(&FaultyDisk, u64)) -> u64 {
    for nth in 1.. {
        let world = busy_world(FaultyDisk::default());
        let engine = world.open();
        order(&world.disk, nth);
        let (mut past, mut random) = (Past::of(&engine), Random(nth));
        for moment in 0..40 {
            let version = past.transaction(&engine, &mut random);
            if random.below(2) == 0 && !engine.wait_durable(version) {
                break;
            }
            if moment % 15 == 14 {
                // A failed checkpoint costs space, not data.
                let _ = engine.checkpoint();
            }
        }
        let acknowledged = engine.durable();
        let closed = engine.close();
        if world.disk.fault_pending() {
            return nth;
        }
        let acknowledged = if closed.is_ok() {
            past.0[past.0.len() - 1].0
        } else {
            acknowledged
        };
        for seed in 0..3 {
            let crashed = busy_world(world.disk.fork());
            crashed.disk.crash_keeping_some(seed);
            past.check(&crashed, acknowledged, &format!("failure {nth}, seed {seed}"));
        }
        world.disk.crash();
        past.check(&world, acknowledged, &format!("failure {nth}"));
    }
    unreachable!("no run has that many operations")
}

#[test]
fn a_failure_of_any_write_or_sync_leaves_a_prefix_with_everything_acknowledged() {
    assert!(fail_everywhere(|disk, nth| disk.fail(Operation::Sync, nth, Fault::Error)) > 20);
    for fault in [Fault::Error, Fault::NoSpace, Fault::Short] {
        assert!(fail_everywhere(|disk, nth| disk.fail(Operation::Write, nth, fault)) > 20);
    }
}

#[test]
fn a_failure_beside_the_log_leaves_a_prefix_with_everything_acknowledged() {
    use Operation::{Allocate, Create, List, Open, Remove, Rename, Resize};
    for operation in [Create, Open, List, Rename, Remove, Resize, Allocate] {
        for fault in [Fault::Error, Fault::NoDescriptor] {
            let count = fail_everywhere(|disk, nth| disk.fail(operation, nth, fault));
            // A flush of the ssd store knows its files without looking.
            let is_reached = count > 1 || operation == List && World::default().is_ssd();
            assert!(is_reached, "{operation:?} was never reached");
        }
    }
}

/// A small closed directory with a checkpoint and later records, and the hash of every state in its
/// history.
fn small_directory() -> (World, Vec<u128>) {
    let world = World::default();
    let engine = world.open();
    let mut states = vec![engine.state_hash(None).unwrap()];
    let mut random = Random(1);
    for count in 0..12 {
        let version = random_transaction(&engine, &mut random);
        engine.wait_durable(version);
        states.push(engine.state_hash(None).unwrap());
        if count == 6 {
            engine.checkpoint().unwrap();
        }
    }
    engine.close().unwrap();
    (world, states)
}

/// The bytes of a file up to the zeros that were written ahead.
fn used_bytes(world: &World, name: &str) -> u64 {
    let content = world.disk.content(name);
    content
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last as u64 + 1)
}

#[test]
fn no_flipped_byte_changes_the_state() {
    let (world, states) = small_directory();
    for name in world.disk.list().unwrap() {
        for offset in 0..used_bytes(&world, &name) {
            let copy = World {
                disk: world.disk.fork(),
                ..World::default()
            };
            copy.disk.flip(&name, offset, 0xff);
            if let Ok(engine) = copy.try_open() {
                assert_eq!(
                    Some(&engine.state_hash(None).unwrap()),
                    states.last(),
                    "{name} at {offset}"
                );
            }
        }
    }
}

#[test]
fn no_truncation_yields_a_wrong_state() {
    let (world, states) = small_directory();
    for name in world.disk.list().unwrap() {
        for bytes in 0..used_bytes(&world, &name) {
            let copy = World {
                disk: world.disk.fork(),
                ..World::default()
            };
            copy.disk.truncate(&name, bytes);
            if let Ok(engine) = copy.try_open() {
                assert!(
                    states.contains(&engine.state_hash(None).unwrap()),
                    "{name} cut to {bytes}"
                );
            }
        }
    }
}
