//! One thread holds the lock for long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::scope;
use std::time::{Duration, Instant};

use quartet_engine::{BriefWaits, Busy, RunError};
use quartet_model::Version;

use crate::world::{ALWAYS, World, execute, set};

/// Every entry point refuses a thread that may not block. The lock used to block it for as long as
/// a script ran.
#[test]
fn a_thread_that_serves_connections_never_waits_for_long() {
    let world = World::default();
    let engine = world.open();
    let freed = Arc::new(AtomicUsize::new(0));
    let count = freed.clone();
    let _listening = engine.on_free(Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    assert!(!engine.is_busy());
    let partition = engine.partition();
    scope(|threads| {
        let serving = threads.spawn(|| {
            let _brief = BriefWaits::begin();
            assert_eq!(engine.partition_in_time().err(), Some(Busy));
            assert_eq!(engine.reader(ALWAYS).err(), Some(Busy));
            let ran = engine.run(ALWAYS, 1, |_| Ok::<(), ()>(()));
            assert_eq!(ran, Err(RunError::Busy));
            assert!(!engine.make_durable(Version(engine.durable().0 + 1)));
        });
        serving.join().unwrap();
    });
    assert!(engine.is_busy());
    assert_eq!(freed.load(Ordering::SeqCst), 0);
    drop(partition);
    assert!(!engine.is_busy());
    assert_eq!(freed.load(Ordering::SeqCst), 1);
    drop(engine.partition());
    assert_eq!(freed.load(Ordering::SeqCst), 1, "nobody had waited");
    in_time("the lock is free", || engine.partition_in_time());
}

/// The answer of a thread that waits briefly, once the lock is free. The flusher takes it at
/// intervals, and on a busy machine may hold it for longer than such a thread waits.
fn in_time<T>(story: &str, ask: impl Fn() -> Result<T, Busy>) -> T {
    let _brief = BriefWaits::begin();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(Busy) => assert!(Instant::now() < deadline, "{story}"),
        }
    }
}

/// A reader gives up on a writer, and a writer on readers.
#[test]
fn both_sides_of_the_lock_wait_briefly() {
    let world = World::default();
    let engine = world.open();
    let freed = Arc::new(AtomicUsize::new(0));
    let count = freed.clone();
    let _listening = engine.on_free(Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    let partition = engine.read();
    scope(|threads| {
        let serving = threads.spawn(|| {
            let _brief = BriefWaits::begin();
            assert_eq!(engine.partition_in_time().err(), Some(Busy));
            assert!(engine.is_busy());
        });
        serving.join().unwrap();
    });
    drop(partition);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
    let partition = engine.partition();
    scope(|threads| {
        let serving = threads.spawn(|| {
            let _brief = BriefWaits::begin();
            assert_eq!(engine.read_in_time().err(), Some(Busy));
        });
        serving.join().unwrap();
    });
    drop(partition);
    assert_eq!(freed.load(Ordering::SeqCst), 2);
}

/// A transaction that cannot be certified because the lock is held leaves no trace: its evidence is
/// dropped later.
#[test]
fn an_optimistic_transaction_gives_up_at_its_commit() {
    let world = World::default();
    let engine = world.open();
    let (is_taken, may_go) = (Barrier::new(2), Barrier::new(2));
    scope(|threads| {
        let mut brief = None;
        let ran = engine.run(ALWAYS, 1, |transaction| {
            transaction.set(b"k", b"v");
            threads.spawn(|| {
                let _home = engine.partition_for_long();
                is_taken.wait();
                may_go.wait();
            });
            is_taken.wait();
            // It starts in any case; the flusher may hold the lock for a moment.
            brief = Some(BriefWaits::begin());
            Ok::<(), ()>(())
        });
        drop(brief);
        may_go.wait();
        assert_eq!(ran, Err(RunError::Busy));
    });
    assert_eq!(in_time("nobody keeps it", || engine.reader(ALWAYS)).get(b"k"), None);
    let again = engine.run(ALWAYS, 1, |transaction| {
        transaction.set(b"k", b"v");
        Ok::<(), ()>(())
    });
    assert!(again.is_ok());
}

/// A reply waited for the flusher, and the flusher for the lock, for as long as the script ran.
#[test]
fn earlier_commits_become_durable_while_the_lock_is_kept() {
    let world = World::default();
    let engine = world.open();
    for round in 0..20u8 {
        let dependency = set(&engine, ALWAYS, &[round], b"v");
        let mut partition = engine.partition_for_long();
        assert!(engine.wait_durable(dependency));
        let written = partition.execute(ALWAYS, |tx| -> Result<(), ()> {
            tx.set(&[round, 0], b"w");
            Ok(())
        });
        drop(partition);
        assert!(engine.wait_durable(written.unwrap().1));
    }
    let rows = execute(&engine, ALWAYS, |tx| tx.count(&[], &[0xff])).0;
    assert_eq!(rows, 40);
}
