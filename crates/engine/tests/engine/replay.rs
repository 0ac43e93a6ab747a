//! What was acknowledged is there after closing, after a loss of power, and after checkpoints; damage is refused.

use quartet_engine::Engine;
use quartet_env::Disk;
use quartet_model::Version;
use quartet_store::state_hash;

use crate::world::{ALWAYS, RELAXED, Random, World, execute};

fn random_transaction(engine: &Engine, random: &mut Random) -> Version {
    let space = if random.below(4) == 0 { RELAXED } else { ALWAYS };
    let (version, _) = execute(engine, space, |tx| {
        for _ in 0..=random.below(4) {
            let key = [random.below(40) as u8];
            match random.below(8) {
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
            let expected = engine.state_hash(None);
            engine.close().unwrap();
            world.clock.set(random.below(1000));
            assert_eq!(world.open().state_hash(None), expected, "seed {seed}");
        }
    }
}

#[test]
fn a_crash_leaves_a_prefix_with_everything_acknowledged() {
    for seed in 0..30 {
        let world = World::default();
        let mut random = Random(seed);
        let engine = world.open();
        let mut states = vec![engine.state_hash(None)];
        let mut acknowledged = 0;
        for count in 1..80 {
            let version = random_transaction(&engine, &mut random);
            states.push(state_hash(engine.snapshot().0.as_ref(), None));
            if random.below(10) == 0 {
                assert!(engine.wait_durable(version));
                acknowledged = count;
            }
            if random.below(30) == 0 {
                engine.checkpoint().unwrap();
            }
        }
        match random.below(2) {
            0 => world.disk.crash(),
            _ => world.disk.crash_keeping_some(seed),
        }
        let found = world.open().state_hash(None);
        assert!(states[acknowledged..].contains(&found), "seed {seed}");
    }
}

/// A small closed directory with a checkpoint and a log behind it, and every state that it went through.
fn small_directory() -> (World, Vec<u128>) {
    let world = World::default();
    let engine = world.open();
    let mut states = vec![engine.state_hash(None)];
    let mut random = Random(1);
    for count in 0..12 {
        let version = random_transaction(&engine, &mut random);
        engine.wait_durable(version);
        states.push(engine.state_hash(None));
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
                assert_eq!(Some(&engine.state_hash(None)), states.last(), "{name} at {offset}");
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
                assert!(states.contains(&engine.state_hash(None)), "{name} cut to {bytes}");
            }
        }
    }
}
