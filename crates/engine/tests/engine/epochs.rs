//! For any amount of commits under one hold of the lock, no single log record and no memory has to
//! hold all of them.

use std::sync::atomic::Ordering;

use quartet_engine::{Dependency, Engine, ExecuteError, PartitionGuard};
use quartet_env::{Fault, Operation};
use quartet_model::Version;

use crate::world::{ALWAYS, World, execute, set};

const EPOCH_BYTES: usize = 1000;
/// Largest number of epochs in flight: two queued, and one at the flusher.
const UNWRITTEN_MAX: u64 = 3;

fn world() -> World {
    World {
        epoch_bytes_max: EPOCH_BYTES,
        ..World::default()
    }
}

/// Under one hold of the lock, `count` transactions that each fill an epoch. Also the epochs in the
/// log before it ends.
fn fill(engine: &Engine, count: u64) -> (Dependency, u64) {
    let mut dependency = Version::ZERO;
    let mut partition = engine.partition();
    for number in 0..count {
        // A failure that hits the making of the next segment refuses one transaction, as a full
        // disk does.
        dependency = loop {
            let set: Result<_, ExecuteError<()>> =
                partition.execute(ALWAYS, |tx| Ok(tx.set(&number.to_be_bytes(), &[1; EPOCH_BYTES])));
            if !matches!(set, Err(ExecuteError::DiskFull(_))) {
                break set.unwrap().1;
            }
        };
    }
    (dependency, engine.statistics().epochs.load(Ordering::SeqCst))
}

/// All writes of one pipeline became one record: past 4 GiB the log refused it, and memory had held
/// all of it.
#[test]
fn one_hold_of_the_lock_becomes_many_records_while_it_lasts() {
    let world = world();
    let engine = world.open();
    let (dependency, written) = fill(&engine, 100);
    assert!(written >= 100 - UNWRITTEN_MAX, "{written} of 100 epochs");
    assert!(engine.wait_durable(dependency));
    let expected = engine.state_hash(None).unwrap();
    world.disk.crash();
    assert_eq!(world.open().state_hash(None).unwrap(), expected);
}

/// A thread that waits for the log while holding it lends the lock only to the flusher.
#[test]
fn no_transaction_runs_between_those_of_one_hold() {
    let engine = world().open();
    let seen_by_holder = |partition: &mut PartitionGuard<'_>| {
        let seen: Result<_, ExecuteError<()>> = partition.execute(ALWAYS, |tx| {
            tx.set(b"filler", &[1; EPOCH_BYTES]);
            Ok(tx.get(b"intruder"))
        });
        seen.unwrap().0
    };
    std::thread::scope(|scope| {
        let intruder = scope.spawn(|| {
            (0..300u64).for_each(|count| {
                set(&engine, ALWAYS, b"intruder", &count.to_be_bytes());
            })
        });
        for _ in 0..10 {
            let mut partition = engine.partition();
            let first = seen_by_holder(&mut partition);
            assert!((0..20).all(|_| seen_by_holder(&mut partition) == first));
        }
        intruder.join().unwrap();
    });
    let mut partition = engine.partition();
    assert_eq!(seen_by_holder(&mut partition).unwrap().value(), 299u64.to_be_bytes());
}

#[test]
fn a_checkpoint_amid_full_epochs_is_at_an_edge() {
    let world = world();
    let engine = world.open();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..20).map(|_| fill(&engine, 10)).max());
        for _ in 0..5 {
            engine.checkpoint().unwrap();
        }
    });
    execute(&engine, ALWAYS, |tx| drop(tx.clear(&0u64.to_be_bytes())));
    let expected = engine.state_hash(None).unwrap();
    engine.close().unwrap();
    assert_eq!(world.open().state_hash(None).unwrap(), expected);
}

#[test]
fn no_reply_waits_for_a_failed_log() {
    for nth in 1..40 {
        let world = world();
        let engine = world.open();
        world.disk.fail(Operation::Write, nth, Fault::Error);
        let (dependency, _) = fill(&engine, 30);
        let durable = engine.wait_durable(dependency);
        // The next segment may fail as well, which is made beside the flusher and may be late.
        assert!(engine.close().is_err() || durable);
    }
}
