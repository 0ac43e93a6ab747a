//! A directory is converted from one store to the other with every row, despite failures in
//! between.

use std::sync::Arc;

use quartet_engine::{OpenError, StoreKind, convert};
use quartet_env::{Disk, Fault, Operation};

use crate::world::{ALWAYS, World, execute, set};

fn other(kind: StoreKind) -> StoreKind {
    match kind {
        StoreKind::Memory => StoreKind::Ssd,
        StoreKind::Ssd => StoreKind::Memory,
    }
}

fn try_convert(world: &World, to: StoreKind) -> Result<bool, OpenError> {
    convert(Arc::new(world.disk.clone()), world.clock.clone(), to, &mut |_| {})
}

/// A closed directory of that kind: some rows are in a checkpoint, some only in the log, some
/// cleared there.
fn filled(kind: StoreKind) -> (World, u128) {
    let world = World {
        store: Some(kind),
        ..World::default()
    };
    let engine = world.open();
    for number in 0..300u64 {
        set(&engine, ALWAYS, &number.to_be_bytes(), &[number as u8; 60]);
    }
    engine.checkpoint().unwrap();
    for number in 200..400u64 {
        set(
            &engine,
            ALWAYS,
            &number.to_be_bytes(),
            &vec![1; 40 * number as usize % 4000],
        );
    }
    execute(&engine, ALWAYS, |tx| {
        tx.clear_range(&10u64.to_be_bytes(), &150u64.to_be_bytes())
    });
    let hash = engine.state_hash(None).unwrap();
    engine.close().unwrap();
    (world, hash)
}

#[test]
fn converting_keeps_every_row() {
    for kind in StoreKind::ALL {
        let (mut world, hash) = filled(kind);
        let to = other(kind);
        assert!(!try_convert(&world, kind).unwrap(), "it is that already");
        assert!(try_convert(&world, to).unwrap());
        let refused = world.try_open().err().expect("it is another store's now").to_string();
        let advice = format!("quartet convert --to {}", kind.name());
        assert!(refused.contains(&advice), "{refused}");
        world.store = None;
        let engine = world.open();
        assert_eq!(engine.state_hash(None).unwrap(), hash);
        set(&engine, ALWAYS, b"more", b"value");
        let hash = engine.state_hash(None).unwrap();
        engine.close().unwrap();
        assert_eq!(StoreKind::of(&world.disk).unwrap(), Some(to));
        let files = world.disk.list().unwrap();
        let foreign = if to == StoreKind::Ssd { "checkpoint" } else { "base" };
        assert!(files.iter().all(|name| !name.starts_with(foreign)), "{files:?}");
        assert!(try_convert(&world, kind).unwrap());
        assert_eq!(world.open().state_hash(None).unwrap(), hash);
    }
}

#[test]
fn converting_may_end_anywhere() {
    for kind in StoreKind::ALL {
        let (filled, hash) = filled(kind);
        for operation in Operation::ALL {
            for nth in 1.. {
                let world = World {
                    disk: filled.disk.fork(),
                    ..World::default()
                };
                world.disk.fail(operation, nth, Fault::Error);
                let converted = try_convert(&world, other(kind));
                let came_up = !world.disk.fault_pending();
                world.disk.crash_keeping_some(nth);
                let world = World { store: None, ..world };
                let actual = world.open().state_hash(None).unwrap();
                assert_eq!(actual, hash, "{operation:?} {nth}: {converted:?}");
                if !came_up {
                    break;
                }
            }
        }
    }
}
