//! One thread holds the lock for long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::scope;
use std::time::{Duration, Instant};

use quartet_engine::{BriefWaits, Busy, RunError, Transaction};
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

/// All other clients waited for a transaction that changes much, also readers of what it does not
/// change. The state before it is the latest until its commit, and is read meanwhile; not after.
#[test]
fn the_state_before_a_long_transaction_is_read_until_its_commit() {
    let world = World::default();
    let engine = world.open();
    set(&engine, ALWAYS, b"k", b"before");
    let value = || {
        let mut frozen = engine.frozen_before_long(ALWAYS)?;
        let read = frozen.execute(|tx| Ok::<_, ()>(tx.get(b"k").map(|row| row.value().to_vec())));
        read.expect("it only reads").expect("its space is served").0
    };
    let before = Some(b"before".to_vec());
    let mut partition = engine.partition_for_long();
    assert_eq!(value(), None, "it is not shown");
    partition.show_state();
    assert_eq!(value(), before);
    // A transaction that is rolled back leaves the state as it was.
    let refused = partition.execute(ALWAYS, |tx| {
        tx.set(b"k", b"refused");
        assert_eq!(value(), before);
        Err::<(), ()>(())
    });
    assert!(refused.is_err());
    assert_eq!(value(), before);
    let frozen = engine.frozen_before_long(ALWAYS);
    let written = partition.execute(ALWAYS, |tx| {
        tx.set(b"k", b"after");
        assert_eq!(value(), before);
        Ok::<(), ()>(())
    });
    assert!(written.is_ok());
    assert_eq!(value(), None, "others have to see the commit from now on");
    let version = frozen.map(|frozen| frozen.version);
    assert!(version < Some(partition.last_version()));
    partition.show_state();
    drop(partition);
    assert_eq!(value(), None, "the lock is free");
    assert_eq!(execute(&engine, ALWAYS, |tx| tx.get(b"k")).0.unwrap().value(), b"after");
}

/// The rows that a long transaction had removed were freed with the lock held, and the state that
/// others had read before the waiting threads were notified that the lock is free: a reader of
/// other keys waited for both.
#[test]
fn the_rows_of_a_long_transaction_are_freed_after_the_lock() {
    const ROWS: u32 = 3000;
    const ROW_BYTES: usize = 20_000;
    let world = World {
        segment_bytes: 256 << 20,
        epoch_bytes_max: 256 << 20,
        ..World::default()
    };
    if world.is_ssd() {
        return;
    }
    let engine = world.open();
    let value = vec![b'v'; ROW_BYTES];
    let dependency = execute(&engine, ALWAYS, |tx| {
        (0..ROWS).for_each(|number| drop(tx.set(&number.to_be_bytes(), &value)))
    });
    assert!(engine.wait_durable(dependency.1));
    let half = u64::from(ROWS) * ROW_BYTES as u64 / 2;
    let full = quartet_store::all_rows_bytes();
    let told = Arc::new(AtomicUsize::new(0));
    let bytes = told.clone();
    let _listening = engine.on_free(Arc::new(move || {
        bytes.store(quartet_store::all_rows_bytes() as usize, Ordering::SeqCst);
    }));
    for shows in [false, true] {
        let mut partition = engine.partition_for_long();
        if shows {
            partition.show_state();
        }
        let remove = |tx: &mut Transaction<'_>| {
            let rows = (0..ROWS).filter(|number| number % 2 == u32::from(shows));
            rows.for_each(|number| drop(tx.clear(&number.to_be_bytes())));
            Ok::<(), ()>(())
        };
        assert!(partition.execute(ALWAYS, remove).is_ok());
        scope(|threads| {
            threads.spawn(|| {
                let _brief = BriefWaits::begin();
                assert_eq!(engine.partition_in_time().err(), Some(Busy));
            });
        });
        let before = full - half * u64::from(shows);
        drop(partition);
        let told = told.swap(0, Ordering::SeqCst) as u64;
        assert!(told + half / 2 > before, "{told} of {before}");
        assert!(quartet_store::all_rows_bytes() + half / 2 < before);
    }
}
