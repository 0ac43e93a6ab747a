//! A full disk: the engine refuses writes that would not fit, loses nothing, and resumes unaided.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quartet_engine::{Dependency, Engine, ExecuteError, Transaction};
use quartet_env::{Disk, Fault, Operation};

use crate::world::{ALWAYS, Random, World, execute, set};

const SEGMENT_BYTES: u64 = 64 << 10;

fn world() -> World {
    World {
        segment_bytes: SEGMENT_BYTES,
        ..World::default()
    }
}

/// Prevents all files from growing.
fn fill(world: &World) {
    world.disk.set_capacity(Some(world.disk.taken_bytes()));
}

fn attempt(engine: &Engine, body: impl FnOnce(&mut Transaction<'_>)) -> Result<Dependency, ExecuteError<()>> {
    let executed = engine.partition().execute(ALWAYS, |tx| {
        body(tx);
        Ok(())
    });
    executed.map(|((), dependency)| dependency)
}

fn try_set(engine: &Engine, number: u64, value_bytes: usize) -> Result<Dependency, ExecuteError<()>> {
    attempt(engine, |tx| drop(tx.set(&number.to_be_bytes(), &vec![7; value_bytes])))
}

/// Writes rows of 500 bytes until the disk is full. Answers how many there are.
fn write_until_full(engine: &Engine) -> u64 {
    for number in 0.. {
        match try_set(engine, number, 500) {
            Ok(dependency) => assert!(engine.wait_durable(dependency)),
            Err(ExecuteError::DiskFull(_)) => return number,
            Err(other) => panic!("{other:?}"),
        }
    }
    unreachable!("no disk is that large")
}

fn wait_until(story: &str, is_done: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_done() {
        assert!(started.elapsed() < Duration::from_secs(60), "{story}");
        std::thread::yield_now();
    }
}

#[test]
fn a_full_disk_refuses_writes_and_takes_deletions_and_reads() {
    let world = world();
    let engine = world.open();
    fill(&world);
    let count = write_until_full(&engine);
    assert!(count > 50 && engine.is_disk_full(), "{count}");
    let (row, dependency) = execute(&engine, ALWAYS, |tx| tx.get(&0u64.to_be_bytes()));
    assert!(row.is_some() && engine.is_durable(dependency));
    let missing = execute(&engine, ALWAYS, |tx| tx.get(&count.to_be_bytes())).0;
    assert!(missing.is_none(), "what was refused was taken back");
    assert!(
        matches!(try_set(&engine, 0, 500), Err(ExecuteError::DiskFull(_))),
        "no larger, and no smaller"
    );
    try_set(&engine, 0, 400).unwrap();
    for number in 1..count / 2 {
        let dependency = attempt(&engine, |tx| drop(tx.clear(&number.to_be_bytes()))).unwrap();
        assert!(engine.wait_durable(dependency));
    }
    let range = |from: u64, to: u64| (from.to_be_bytes(), to.to_be_bytes());
    let (start, end) = range(count / 2, count - 1);
    attempt(&engine, |tx| assert!(tx.clear_range(&start, &end) > 0)).unwrap();
    attempt(&engine, |tx| {
        tx.deletes();
        tx.set(b"trace", b"of a deletion");
    })
    .unwrap();
    let expected = engine.state_hash(None).unwrap();
    engine.close().unwrap();
    assert_eq!(world.failures.load(Ordering::SeqCst), 0);
    let engine = world.open();
    assert_eq!(engine.state_hash(None).unwrap(), expected, "a full disk opens");
    assert!(engine.is_disk_full() || try_set(&engine, 1, 100).is_ok());
}

#[test]
fn writes_resume_when_there_is_space() {
    let world = world();
    let engine = world.open();
    fill(&world);
    let count = write_until_full(&engine);
    world.disk.set_capacity(None);
    // Without writes or waiting replies, the engine still notices it.
    wait_until("there is space again", || !engine.is_disk_full());
    let dependency = set(&engine, ALWAYS, &count.to_be_bytes(), b"one more");
    assert!(engine.wait_durable(dependency));
}

/// Deleted rows take space until a checkpoint has been written without them, and a checkpoint takes
/// space itself.
#[test]
fn deleting_makes_room_on_a_full_disk() {
    let world = world();
    let engine = world.open();
    world
        .disk
        .set_capacity(Some(world.disk.taken_bytes() + 4 * SEGMENT_BYTES));
    let count = write_until_full(&engine);
    assert!(count * 500 > 3 * SEGMENT_BYTES, "{count}");
    world.disk.set_capacity(Some(world.disk.taken_bytes()));
    assert_eq!(world.disk.available_bytes().unwrap(), 0);
    for number in 0..count - 10 {
        attempt(&engine, |tx| drop(tx.clear(&number.to_be_bytes()))).unwrap();
    }
    wait_until("the checkpoint gave back what was deleted", || !engine.is_disk_full());
    let dependency = set(&engine, ALWAYS, b"again", &[1; 2000]);
    assert!(engine.wait_durable(dependency));
    // The last checkpoint may have used the file, before the next exists.
    let reserved = || {
        let file = world.disk.open(match world.is_ssd() {
            true => "base.next",
            false => "checkpoint.partial",
        });
        file.is_ok_and(|file| file.allocated_bytes().unwrap() == SEGMENT_BYTES / 4)
    };
    wait_until("room for the next checkpoint is reserved", reserved);
    let expected = engine.state_hash(None).unwrap();
    engine.close().unwrap();
    assert_eq!(world.open().state_hash(None).unwrap(), expected);
}

/// Deletions had 16 MiB of a full disk. A database with longer keys could not be emptied, and a
/// checkpoint has no room before most rows are deleted. Other writes stop earlier now: with long
/// values at a share of the rows, and while a checkpoint still fits if a deletion writes more than
/// its row. The ssd engine has no such promise: its flush may rewrite every page.
#[test]
fn a_full_disk_has_room_to_delete_everything_one_by_one() {
    for (value_bytes, disk_bytes) in [(150, 8 * SEGMENT_BYTES), (0, 4 * SEGMENT_BYTES)] {
        let world = world();
        if world.is_ssd() {
            return;
        }
        let engine = world.open();
        world.disk.set_capacity(Some(world.disk.taken_bytes() + disk_bytes));
        let mut count = 0u64;
        while let Ok(dependency) = try_set(&engine, count, value_bytes) {
            assert!(engine.wait_durable(dependency));
            count += 1;
        }
        assert!(
            count * (150 + 36) > disk_bytes / 2,
            "{count} rows of {value_bytes} bytes"
        );
        for number in 0..count {
            let cleared = attempt(&engine, |tx| drop(tx.clear(&number.to_be_bytes())));
            let dependency = cleared.unwrap_or_else(|error| panic!("{number} of {count}: {error:?}"));
            assert!(engine.wait_durable(dependency));
        }
        wait_until("there is room again", || !engine.is_disk_full());
        let dependency = set(&engine, ALWAYS, b"again", &[1; 2000]);
        assert!(engine.wait_durable(dependency));
    }
}

/// Other writes stop before the log's own room is used up, so a database was emptied without a
/// failing write: no checkpoint was written, and the log kept the disk. With the memory engine.
#[test]
fn a_disk_that_was_full_gets_a_checkpoint_once_one_fits() {
    let world = world();
    if world.is_ssd() {
        return;
    }
    let engine = world.open();
    world
        .disk
        .set_capacity(Some(world.disk.taken_bytes() + 8 * SEGMENT_BYTES));
    let count = write_until_full(&engine);
    fill(&world);
    for number in 10..count {
        let dependency = attempt(&engine, |tx| drop(tx.clear(&number.to_be_bytes()))).unwrap();
        assert!(engine.wait_durable(dependency));
    }
    let written = || engine.statistics().checkpoints.load(Ordering::SeqCst);
    wait_until("a checkpoint was written", || written() > 0);
    wait_until("the log is freed", || {
        world.disk.available_bytes().unwrap() > SEGMENT_BYTES
    });
}

/// A deletion settled the waiting documents of an index, which wrote a thousand times the bytes of
/// the deletion: 133 deletions of 23,674 used up the room that a full disk reserves for them.
#[test]
fn upkeep_that_does_not_fit_waits_and_leaves_no_trace() {
    let world = world();
    let engine = world.open();
    for number in 0u64..40 {
        try_set(&engine, 1_000_000 + number, 100).unwrap();
    }
    let upkeep = |tx: &mut Transaction<'_>| {
        for number in 0u64..40 {
            tx.set(&(1_000_000 + number).to_be_bytes(), &[1; 4000]);
        }
        tx.patch_parts(&[&1_000_000u64.to_be_bytes()], 10, b"patched");
        tx.clear(&1_000_001u64.to_be_bytes());
        tx.clear_range(&1_000_002u64.to_be_bytes(), &1_000_009u64.to_be_bytes());
        tx.set(b"one that was not there", b"");
    };
    let attempted = attempt(&engine, |tx| assert!(tx.optionally(upkeep), "there is room"));
    assert!(engine.wait_durable(attempted.unwrap()));
    assert_eq!(execute(&engine, ALWAYS, |tx| tx.count(b"", &[u8::MAX])).0, 40 - 8 + 1);
    fill(&world);
    let count = write_until_full(&engine);
    let stored = |engine: &Engine| {
        execute(engine, ALWAYS, |tx| {
            let mut rows = Vec::new();
            tx.scan(&1_000_000u64.to_be_bytes(), &[u8::MAX], false, &mut |row| {
                rows.push((row.key().to_vec(), row.value().to_vec()));
                std::ops::ControlFlow::Continue(())
            });
            rows
        })
        .0
    };
    let before = stored(&engine);
    // Upkeep that has failed is not started again.
    let (mut starts, mut done) = (0, 0);
    for number in 0..count {
        attempt(&engine, |tx| {
            drop(tx.clear(&number.to_be_bytes()));
            done += u64::from(tx.optionally(|tx| {
                starts += 1;
                upkeep(tx);
            }));
        })
        .unwrap();
        if done > 0 {
            break;
        }
    }
    assert!(done == 0 && starts < 2, "{done} {starts}");
    assert_eq!(stored(&engine), before);
    let expected = engine.state_hash(None).unwrap();
    engine.close().unwrap();
    assert_eq!(world.open().state_hash(None).unwrap(), expected);
}

/// Segments that were still empty took small writes, so the disk did not count as full, and each
/// deletion from an index started upkeep that did not fit: 0.17 s each.
#[test]
fn upkeep_that_did_not_fit_is_started_again_once_it_does() {
    let world = world();
    let engine = world.open();
    for number in 0..200 {
        try_set(&engine, number, 100).unwrap();
    }
    let deletes = |from: u64, to: u64, starts: &mut u64| -> u64 {
        let mut done = 0;
        for number in from..to {
            let deleted = attempt(&engine, |tx| {
                drop(tx.clear(&number.to_be_bytes()));
                done += u64::from(tx.optionally(|tx| {
                    *starts += 1;
                    tx.set(b"upkeep", &vec![1; 4 * SEGMENT_BYTES as usize]);
                }));
            });
            assert!(engine.wait_durable(deleted.unwrap()));
        }
        done
    };
    fill(&world);
    let mut starts = 0;
    assert_eq!((deletes(0, 100, &mut starts), starts), (0, 1));
    assert!(!engine.is_disk_full());
    world.disk.set_capacity(None);
    assert_eq!((deletes(100, 101, &mut starts), starts), (1, 2));
}

/// A checkpoint that failed left its part of a file on the full disk.
#[test]
fn a_checkpoint_that_fails_leaves_nothing_and_is_seen() {
    let world = world();
    let engine = world.open();
    for number in 0..200 {
        set(&engine, ALWAYS, &u64::to_be_bytes(number), &[number as u8; 1000]);
    }
    fill(&world);
    let before = world.disk.taken_bytes();
    let failed = engine.checkpoint().unwrap_err().to_string();
    assert!(failed.contains("No space left on device"), "{failed}");
    assert!(world.disk.taken_bytes() <= before);
    if !world.is_ssd() {
        assert_eq!(world.disk.content("checkpoint.partial"), []);
    }
    let statistics = engine.statistics();
    assert!(statistics.checkpoint_failed.load(Ordering::SeqCst));
    assert_eq!(statistics.checkpoints_failed.load(Ordering::SeqCst), 1);
    world.disk.set_capacity(None);
    engine.checkpoint().unwrap();
    assert!(!statistics.checkpoint_failed.load(Ordering::SeqCst));
    // A crash in the middle leaves such a part, too: it goes at the next start.
    engine.close().unwrap();
    let obstacle = match world.is_ssd() {
        true => world.disk.create("base-0000009999").unwrap(),
        false => world.disk.open("checkpoint.partial").unwrap(),
    };
    obstacle.write_at(0, &[1; 100_000]).unwrap();
    let occupied = world.disk.taken_bytes();
    let engine = world.open();
    assert!(world.disk.taken_bytes() < occupied);
    engine.close().unwrap();
}

/// A transaction larger than the whole reserve: the reserve grows while the disk has space,
/// otherwise only that transaction is refused.
#[test]
fn a_large_transaction_has_room_made_for_it() {
    let world = world();
    let engine = world.open();
    let dependency = try_set(&engine, 1, 10 * SEGMENT_BYTES as usize).unwrap();
    assert!(engine.wait_durable(dependency));
    world
        .disk
        .set_capacity(Some(world.disk.taken_bytes() + 2 * SEGMENT_BYTES));
    assert!(matches!(
        try_set(&engine, 2, 30 * SEGMENT_BYTES as usize),
        Err(ExecuteError::DiskFull(_))
    ));
    assert!(engine.wait_durable(try_set(&engine, 3, 100).unwrap()));
}

/// The disk repeatedly fills up and empties, with and without loss of power: acknowledged writes
/// are present, refused writes are not, and the log never fails.
#[test]
fn nothing_acknowledged_is_lost_while_the_disk_fills_and_empties() {
    for seed in 0..12 {
        let mut random = Random(seed);
        let world = World {
            checkpoint_log_bytes: 20_000,
            segment_bytes: 8 << 10,
            ..World::default()
        };
        let mut rows: BTreeMap<u64, usize> = BTreeMap::new();
        let mut refused = 0;
        for _ in 0..6 {
            let engine = world.open();
            for _ in 0..60 {
                match random.below(12) {
                    0 => fill(&world),
                    1 => world
                        .disk
                        .set_capacity(Some(world.disk.taken_bytes() + random.below(40_000))),
                    2 => world.disk.set_capacity(None),
                    3 => engine.checkpoint_in_background(),
                    4 | 5 => {
                        let number = random.below(30);
                        if attempt(&engine, |tx| drop(tx.clear(&number.to_be_bytes()))).is_ok() {
                            rows.remove(&number);
                        }
                    }
                    _ => {
                        let (number, bytes) = (random.below(30), random.below(3000) as usize);
                        match try_set(&engine, number, bytes) {
                            Ok(_) => drop(rows.insert(number, bytes)),
                            Err(ExecuteError::DiskFull(_)) => refused += 1,
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                }
            }
            let (_, _, dependency) = engine.snapshot();
            assert!(engine.wait_durable(dependency), "seed {seed}");
            let crashed = world.disk.fork();
            engine.close().unwrap();
            if random.below(2) == 0 {
                crashed.crash_keeping_some(random.below(1000));
                let crashed = World {
                    disk: crashed,
                    ..World::default()
                };
                check_rows(&crashed.open(), &rows, seed);
            }
            check_rows(&world.open(), &rows, seed);
        }
        assert_eq!(world.failures.load(Ordering::SeqCst), 0, "seed {seed}");
        assert!(refused > 0, "seed {seed}: the disk was never full");
    }
}

fn check_rows(engine: &Engine, rows: &BTreeMap<u64, usize>, seed: u64) {
    let (stored, _) = execute(engine, ALWAYS, |tx| {
        let mut stored = BTreeMap::new();
        tx.scan(&[], &[0xff; 9], false, &mut |row| {
            let number = Transaction::layer_key(row).try_into().map(u64::from_be_bytes);
            stored.insert(number.unwrap(), row.value().len());
            std::ops::ControlFlow::Continue(())
        });
        stored
    });
    assert_eq!(&stored, rows, "seed {seed}");
}

/// No descriptor for the next segment ended the server.
#[test]
fn no_descriptor_for_the_next_segment_is_no_failure() {
    let world = World::default();
    let engine = world.open();
    for nth in 1..4 {
        world.disk.fail(Operation::Create, nth, Fault::NoDescriptor);
        world.disk.fail(Operation::Open, nth, Fault::NoDescriptor);
    }
    for number in 0..200u64 {
        let dependency = set(&engine, ALWAYS, &number.to_be_bytes(), &[1; 300]);
        assert!(engine.wait_durable(dependency));
    }
    engine.close().unwrap();
    assert_eq!(world.failures.load(Ordering::SeqCst), 0);
}
