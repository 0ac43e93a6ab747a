//! The dependency of an answer covers every write that a crash could undo, and no version that
//! never becomes durable.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quartet_engine::{CommitError, CommitRequest, ExecuteError, Mutation, RunError};
use quartet_env::{Fault, Operation};
use quartet_model::{KeyRange, Version};

use crate::world::{ALWAYS, OTHER_RELAXED, RELAXED, World, execute, set};

/// An error reply reveals the rows that the failed command read (WRONGTYPE: the key exists). It
/// carried no dependency, so it was sent before that row was durable.
#[test]
fn an_error_waits_for_what_it_read() {
    let engine = World::default().open();
    let mut partition = engine.partition();
    let written: Result<_, ExecuteError<()>> = partition.execute(ALWAYS, |tx| Ok(tx.set(b"k", b"v")));
    let (_, dependency) = written.unwrap();
    let read = partition.execute(ALWAYS, |tx| {
        tx.get(b"k");
        Err::<(), _>("wrong type")
    });
    assert_eq!(read, Err(ExecuteError::Layer("wrong type", dependency)));
    let overwritten = partition.execute(ALWAYS, |tx| {
        tx.set(b"k", b"w");
        Err::<(), _>("no")
    });
    assert_eq!(
        overwritten,
        Err(ExecuteError::Layer("no", dependency)),
        "its own version is taken back"
    );
    drop(partition);
    assert!(engine.wait_durable(dependency));
    let failed = engine.run(ALWAYS, 1, |tx| tx.get(b"k").map_or(Ok(()), |_| Err("seen")));
    assert_eq!(failed, Err(RunError::Layer("seen", Version::ZERO)));
}

/// Reads of several rows at once, and of numbers at the ends of keys, find what single reads do and
/// wait for as much.
#[test]
fn batched_reads_have_the_dependency_of_single_reads() {
    let engine = World::default().open();
    let mut partition = engine.partition();
    let numbers = || (0..100).map(|root: u64| root * root * 50);
    let key = |number: u64| [&b"n"[..], &number.to_be_bytes()].concat();
    let written: Result<_, ExecuteError<()>> = partition.execute(ALWAYS, |tx| {
        numbers().for_each(|number| _ = tx.set(&key(number), b"v"));
        Ok(())
    });
    let (_, dependency) = written.unwrap();
    let read = partition.execute(ALWAYS, |tx| {
        let rows = tx.get_each(b"n", [200, 201, 50].map(u64::to_be_bytes).iter());
        let values = rows.iter().map(|row| row.as_ref().map(|row| row.value()));
        assert!(values.eq([Some(&b"v"[..]), None, Some(&b"v"[..])]));
        Err::<(), _>("several")
    });
    assert_eq!(read, Err(ExecuteError::Layer("several", dependency)));
    let read = partition.execute(ALWAYS, |tx| {
        tx.clear(&key(450));
        let (mut visited, start) = (Vec::new(), key(1));
        tx.scan_numbers(&start..b"o", start.len(), &mut |numbers| {
            visited.extend_from_slice(numbers);
            ControlFlow::Continue(())
        });
        assert!(
            visited
                .into_iter()
                .eq(numbers().filter(|number| ![0, 450].contains(number)))
        );
        Err::<(), _>("numbers")
    });
    assert_eq!(read, Err(ExecuteError::Layer("numbers", dependency)));
}

/// A transaction that took a version and then wrote nothing was given that version as its
/// dependency. It never reached the log, so the reply hung until another client wrote; so did every
/// snapshot taken after it.
#[test]
fn versions_without_effects_are_not_waited_for_or_reach_the_log() {
    let engine = World::default().open();
    assert_eq!(execute(&engine, ALWAYS, |tx| tx.unique_id()).1, Version::ZERO);
    assert_eq!(engine.snapshot().2, Version::ZERO);
    let (version, dependency) = execute(&engine, ALWAYS, |tx| tx.commit_version());
    assert!(version == dependency && engine.wait_durable(dependency));
    let (version, dependency) = engine.commit(ALWAYS, &without_effects()).unwrap();
    assert!(version == dependency && engine.wait_durable(dependency));
    assert_eq!(execute(&engine, ALWAYS, |tx| drop(tx.get(b"a"))).1, Version::ZERO);
    let nothing = engine.commit(ALWAYS, &CommitRequest::default());
    assert_eq!(nothing, Ok((version, Version::ZERO)));
}

fn without_effects() -> CommitRequest {
    CommitRequest {
        mutations: vec![Mutation::Clear { key: b"absent".into() }],
        write_conflicts: vec![KeyRange::new("a", "b")],
        ..CommitRequest::default()
    }
}

/// The version of a transaction without effects was in no log: after a restart with the clock set
/// back it was assigned again. A reader at that version was then treated as having seen later
/// writes at or below it.
#[test]
fn a_reported_version_is_not_given_again() {
    let world = World::default();
    world.clock.set(5_000);
    let engine = world.open();
    engine.wait_durable(set(&engine, ALWAYS, b"k", b"v"));
    world.clock.set(9_000);
    execute(&engine, ALWAYS, |tx| tx.unique_id());
    let failed: Result<((), _), _> = engine.partition().execute(ALWAYS, |tx| {
        tx.set(b"k", b"taken back");
        Err(())
    });
    assert!(failed.is_err());
    let read_version = engine.read_version(ALWAYS).version;
    assert_eq!(read_version, Version(5_000), "what leaves no trace has no version");
    let (committed, dependency) = engine.commit(ALWAYS, &without_effects()).unwrap();
    engine.wait_durable(dependency);
    let read_version = engine.read_version(ALWAYS).version;
    assert_eq!((read_version, committed), (Version(9_000), Version(9_000)));
    drop(engine);
    world.disk.crash();
    world.clock.set(1_000);
    let engine = world.open();
    set(&engine, ALWAYS, b"k", b"w");
    let request = CommitRequest {
        read_version,
        read_conflicts: vec![KeyRange::point(b"k")],
        ..without_effects()
    };
    assert_eq!(engine.commit(ALWAYS, &request), Err(CommitError::Conflict(Vec::new())));
}

/// The row a transaction read may be its own: its version is rolled back with it, and waiting for
/// it hung the error reply.
#[test]
fn a_failed_transaction_does_not_wait_for_itself() {
    let engine = World::default().open();
    engine.wait_durable(set(&engine, ALWAYS, b"k", b"v"));
    let failed = engine.partition().execute(ALWAYS, |tx| {
        tx.set(b"k", b"w");
        tx.get(b"k");
        Err::<(), _>(())
    });
    let Err(ExecuteError::Layer((), dependency)) = failed else {
        panic!("{failed:?}")
    };
    assert!(engine.is_durable(dependency));
}

/// Clearing in a relaxed database dropped the evidence of all databases' clears: a reader of a key
/// cleared under `always` did not wait, and saw a removal that a crash could undo. So did a reader
/// after a switch from `interval` to `always`.
#[test]
fn gaps_are_waited_for_regardless_of_their_maker() {
    let engine = World::default().open();
    engine.wait_durable(set(&engine, ALWAYS, b"k", b"v"));
    engine.wait_durable(set(&engine, ALWAYS, b"l", b"v"));
    set(&engine, OTHER_RELAXED, b"x", b"v");
    let mut partition = engine.partition();
    let mut run = |space, key: &[u8], clear: bool| {
        let outcome: Result<_, ExecuteError<()>> =
            partition.execute(space, |tx| Ok(if clear { tx.clear(key) } else { tx.get(key) }));
        outcome.unwrap().1
    };
    let cleared = run(ALWAYS, b"k", true);
    run(OTHER_RELAXED, b"x", true);
    assert_eq!(run(ALWAYS, b"k", false), cleared);
    run(RELAXED, b"l", true);
    assert!(run(ALWAYS, b"l", false) > cleared);
    let empty: Result<_, ExecuteError<()>> = partition.execute(ALWAYS, |tx| Ok(tx.clear_range(b"k", b"m")));
    assert!(empty.unwrap().1 > cleared, "a range found empty is a gap too");
}

/// A write under `interval` was synced within a second, and a reader under `always` waited that
/// long for it.
#[test]
fn a_waiting_reader_hurries_the_sync() {
    let engine = World::default().open();
    let rounds = 20;
    let mut waits = Vec::new();
    for round in 0..rounds {
        let started = Instant::now();
        set(&engine, RELAXED, b"k", &[round]);
        let (_, dependency) = execute(&engine, ALWAYS, |tx| drop(tx.get(b"k")));
        assert!(engine.wait_durable(dependency));
        waits.push(started.elapsed());
    }
    waits.sort_unstable();
    assert!(waits[waits.len() / 2] < Duration::from_millis(500), "{waits:?}");
    set(&engine, RELAXED, b"k", b"v");
    let read = engine.run(RELAXED, 1, |tx| Ok::<_, Infallible>(tx.get(b"k")));
    assert_eq!(
        read,
        Ok((Some(b"v".to_vec()), Version::ZERO)),
        "a relaxed mode waits for nothing"
    );
}

/// Writes that change nothing had the empty dependency of their commit, although the answer depends
/// on the rows that were read.
#[test]
fn optimistic_writes_without_effect_wait_for_their_reads() {
    let world = World::default();
    let engine = world.open();
    world.disk.fail(Operation::Sync, 1, Fault::Error);
    let written = set(&engine, ALWAYS, b"k", b"v");
    let outcome = engine.run(ALWAYS, 1, |tx| {
        let is_present = tx.get(b"k").is_some();
        tx.clear(b"absent");
        Ok::<_, Infallible>(is_present)
    });
    assert_eq!(outcome, Ok((true, written)));
    assert!(!engine.wait_durable(written));
    let failed = engine.run(ALWAYS, 1, |tx| tx.get(b"k").map_or(Ok(()), |_| Err("seen")));
    assert_eq!(failed, Err(RunError::Layer("seen", written)));
}

/// Touching a watched key without writing closed the same effects twice and panicked.
#[test]
fn a_touch_without_a_write_notifies_watchers() {
    let engine = World::default().open();
    let notifications = Arc::new(AtomicUsize::new(0));
    let counter = notifications.clone();
    let callback = Arc::new(move |_: &[u8]| {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    engine.partition().watch_key(ALWAYS, b"k", callback);
    execute(&engine, ALWAYS, |tx| tx.touch(b"k"));
    assert_eq!(notifications.load(Ordering::SeqCst), 1);
}

/// Each of many rows that one command removed was evidence of its own, which cost more than the
/// removal; and beyond 131,072 of them no earlier reader could be verified. They are one
/// range now, which every check includes.
#[test]
fn many_cleared_rows_are_evidence_as_one_range() {
    let engine = World::default().open();
    execute(&engine, ALWAYS, |tx| {
        [b"a", b"b", b"c", b"x"].iter().for_each(|key| drop(tx.set(*key, b"v")));
    });
    let read_version = engine.read_version(ALWAYS).version;
    let clear = |tx: &mut quartet_engine::Transaction<'_>| {
        let mut cleared = Vec::new();
        let keys = [b"a", b"b", b"n"].iter().map(|key| [key.as_slice()]);
        tx.clear_many(b"a"..b"w", keys, &mut |row| cleared.push(row.key()[3..].to_vec()));
        cleared
    };
    let before = engine.state_hash(None).unwrap();
    let taken_back = engine.partition().execute(ALWAYS, |tx| {
        clear(tx);
        Err::<(), _>(())
    });
    assert!(matches!(taken_back, Err(ExecuteError::Layer((), _))));
    assert_eq!(engine.state_hash(None).unwrap(), before);
    let notifications = Arc::new(AtomicUsize::new(0));
    let counter = notifications.clone();
    engine.partition().watch_key(
        ALWAYS,
        b"b",
        Arc::new(move |_: &[u8]| _ = counter.fetch_add(1, Ordering::SeqCst)),
    );
    let (cleared, dependency) = execute(&engine, ALWAYS, clear);
    assert_eq!(cleared, [b"a", b"b"]);
    assert_eq!(notifications.load(Ordering::SeqCst), 1);
    let (absent, read) = execute(&engine, ALWAYS, |tx| tx.get(b"a").is_none());
    assert!(
        absent && read >= dependency,
        "a reader of the gap waits for the removal"
    );
    let second = |key: &[u8]| {
        let request = CommitRequest {
            read_version,
            read_conflicts: vec![KeyRange::point(key)],
            write_conflicts: vec![KeyRange::point(b"z")],
            ..CommitRequest::default()
        };
        engine.commit(ALWAYS, &request).map(drop)
    };
    assert!(matches!(second(b"b"), Err(CommitError::Conflict(_))));
    assert_eq!(second(b"x"), Ok(()));
}

#[test]
fn a_panic_in_a_layer_takes_its_transaction_back() {
    let engine = World::default().open();
    set(&engine, ALWAYS, b"k", b"old");
    let before = engine.state_hash(None).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        execute(&engine, ALWAYS, |tx| {
            tx.set(b"k", b"new");
            tx.clear_range(b"", b"z");
            panic!("a bug in a layer");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(engine.state_hash(None).unwrap(), before);
    assert!(
        engine.wait_durable(set(&engine, ALWAYS, b"l", b"v")),
        "the lock is free"
    );
}

/// The evidence against old read versions is lost with the process, but a read version from before
/// a restart was certified as if no key had been cleared since.
#[test]
fn a_read_version_from_before_a_restart_is_too_old() {
    let world = World::default();
    let engine = world.open();
    set(&engine, ALWAYS, b"k", b"v");
    let read_version = engine.read_version(ALWAYS).version;
    execute(&engine, ALWAYS, |tx| drop(tx.clear(b"k")));
    engine.close().unwrap();
    let request = CommitRequest {
        read_version,
        read_conflicts: vec![KeyRange::point(b"k")],
        ..CommitRequest::default()
    };
    assert_eq!(world.open().commit(ALWAYS, &request), Err(CommitError::TooOld));
}

#[test]
fn a_thread_with_one_connection_makes_its_write_durable_itself() {
    let world = World::default();
    let engine = world.open();
    let syncs = || engine.statistics().syncs.load(Ordering::Relaxed);
    for count in 1..=100u64 {
        let dependency = set(&engine, ALWAYS, b"k", &count.to_be_bytes());
        let made = engine.make_durable(dependency) || engine.wait_durable(dependency);
        assert!(made && engine.durable() >= dependency);
    }
    let before = syncs();
    assert!(engine.make_durable(engine.durable()), "nothing is left to do");
    assert_eq!(syncs(), before);
}

/// Invariant 6: an interactive transaction reads at a version of the partition, and sees one
/// logical database of it.
#[test]
fn a_read_version_shows_one_logical_database() {
    let world = World::default();
    let engine = world.open();
    set(&engine, ALWAYS, b"k", b"ours");
    set(&engine, OTHER_RELAXED, b"k", b"theirs");
    set(&engine, OTHER_RELAXED, b"l", b"theirs");
    let reader = engine.read_version(ALWAYS);
    let mut seen = Vec::new();
    reader.scan(b"", &[0xff; 8], false, &mut |key, value| {
        seen.push((key.to_vec(), value.to_vec()));
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(seen, [(b"k".to_vec(), b"ours".to_vec())]);
    assert_eq!(reader.count(b"", &[0xff; 8]), 1);
    assert!(reader.get(b"l").is_none());
    engine.close().unwrap();
}
