//! A write or a sync that fails ends all acknowledgements; earlier acknowledged writes are present
//! after a restart.

use std::sync::atomic::Ordering;
use std::time::Duration;

use quartet_engine::{Dependency, Engine};
use quartet_env::{Fault, Operation};

use crate::world::{ALWAYS, World, execute, set};

/// Waits both as a thread that serves other connections, and as a thread that does not.
fn check(fail: impl Fn(&World)) {
    check_waiting(&fail, Engine::wait_durable);
    check_waiting(&fail, |engine, dependency| {
        engine.make_durable(dependency) || engine.wait_durable(dependency)
    });
}

fn check_waiting(fail: impl Fn(&World), wait: impl Fn(&Engine, Dependency) -> bool) {
    let world = World::default();
    let engine = world.open();
    fail(&world);
    let mut acknowledged = 0;
    for count in 1..200u64 {
        let dependency = set(&engine, ALWAYS, &count.to_be_bytes(), &[1; 100]);
        if !wait(&engine, dependency) {
            break;
        }
        acknowledged = count;
    }
    let failed = engine.close().is_err();
    assert_eq!(world.failures.load(Ordering::SeqCst), usize::from(failed), "told once");
    world.disk.crash();
    let engine = world.open();
    for count in 1..=acknowledged {
        let (row, _) = execute(&engine, ALWAYS, |tx| tx.get(&count.to_be_bytes()));
        assert!(row.is_some(), "{count} of {acknowledged} acknowledged is lost");
    }
}

#[test]
fn a_failed_sync_ends_acknowledgements() {
    for nth in 1..20 {
        check(|world| world.disk.fail(Operation::Sync, nth, Fault::Error));
    }
}

#[test]
fn a_failed_write_ends_acknowledgements() {
    for nth in 1..20 {
        check(|world| world.disk.fail(Operation::Write, nth, Fault::Error));
    }
}

/// A disk that takes less than it had reserved, as some file systems do: what was committed waits,
/// and is acknowledged once there is room.
#[test]
fn a_full_disk_is_no_failure() {
    for nth in 1..20 {
        for fault in [Fault::NoSpace, Fault::Short] {
            let world = World::default();
            let engine = world.open();
            world.disk.fail(Operation::Write, nth, fault);
            for count in 1..60u64 {
                let dependency = set(&engine, ALWAYS, &count.to_be_bytes(), &[1; 100]);
                assert!(engine.make_durable(dependency) || engine.wait_durable(dependency));
            }
            engine.close().unwrap();
            assert_eq!(world.failures.load(Ordering::SeqCst), 0);
        }
    }
}

/// The newest segment is never trimmed, and it counted: a log with a newest segment above the limit
/// triggered one checkpoint after another, without a single write.
#[test]
fn a_large_newest_segment_requests_one_checkpoint() {
    let world = World {
        checkpoint_log_bytes: 2000,
        ..World::default()
    };
    let engine = world.open();
    engine.wait_durable(set(&engine, ALWAYS, b"k", &[1; 3000]));
    execute(&engine, ALWAYS, |tx| drop(tx.clear(b"k")));
    engine.checkpoint().unwrap();
    engine.checkpoint().unwrap();
    let statistics = engine.statistics();
    let count = statistics.checkpoints.load(Ordering::SeqCst);
    // Before any version becomes durable, the flusher has checked whether a checkpoint is due.
    assert!(engine.wait_durable(set(&engine, ALWAYS, b"l", b"v")));
    assert!(!statistics.checkpoint_running.load(Ordering::SeqCst));
    assert_eq!(statistics.checkpoints.load(Ordering::SeqCst), count);
}

/// Log kept for readers counted as if no checkpoint had it: each start wrote another, of all rows,
/// before anything had changed.
#[test]
fn a_start_requests_no_checkpoint_of_checkpointed_records() {
    let world = World {
        checkpoint_log_bytes: 6000,
        log_retention: Duration::from_secs(3600),
        ..World::default()
    };
    let engine = world.open();
    for key in 0..50 {
        engine.wait_durable(set(&engine, ALWAYS, &[key], &[1; 500]));
    }
    engine.checkpoint().unwrap();
    let retained_bytes = &engine.statistics().log_retained_bytes;
    assert!(retained_bytes.load(Ordering::SeqCst) > world.checkpoint_log_bytes);
    engine.close().unwrap();
    let engine = world.open();
    let statistics = engine.statistics();
    for _ in 0..2 {
        assert!(engine.wait_durable(set(&engine, ALWAYS, b"l", b"v")));
        assert!(!statistics.checkpoint_running.load(Ordering::SeqCst));
    }
    assert_eq!(statistics.checkpoints.load(Ordering::SeqCst), 0);
    engine.close().unwrap();
}
