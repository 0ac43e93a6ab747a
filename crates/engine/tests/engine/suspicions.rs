//! A randomized search for two breaches: a commit over a changed read, and a sent answer whose
//! dependency a crash undid.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::{
    CommitError, CommitRequest, Dependency, Engine, ExecuteError, Mutation, Reader, SPACE_BYTES, Space, Transaction,
};
use quartet_model::{KeyRange, Version};

use crate::world::{ALWAYS, RELAXED, Random, World, execute};

const KEYS: u64 = 12;

fn random_range(random: &mut Random) -> (Vec<u8>, Vec<u8>) {
    let start = random.below(KEYS) as u8;
    (vec![start], vec![start + random.below(5) as u8])
}

/// One random write, of a key or of a range.
fn random_write(tx: &mut Transaction<'_>, random: &mut Random) {
    let (start, end) = random_range(random);
    match random.below(6) {
        0 => drop(tx.clear_range(&start, &end)),
        1 | 2 => drop(tx.clear(&start)),
        _ => drop(tx.set(&start, &random.below(1 << 40).to_be_bytes())),
    }
}

/// A transaction of a few writes, in either mode, sometimes rolled back. Returns its dependency if
/// it commits.
fn random_transaction(engine: &Engine, random: &mut Random) -> Option<Dependency> {
    let space = if random.below(3) == 0 { RELAXED } else { ALWAYS };
    let fails = random.below(5) == 0;
    let outcome = engine.partition().execute(space, |tx| {
        for _ in 0..=random.below(3) {
            random_write(tx, random);
        }
        if fails { Err(()) } else { Ok(()) }
    });
    outcome.ok().map(|((), dependency)| dependency)
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rows_in(reader: &Reader, (start, end): &(Vec<u8>, Vec<u8>)) -> Rows {
    let mut rows = Rows::new();
    reader.scan(start, end, false, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    rows
}

/// A reader's earlier answers. The reader itself may be lost later: a crash takes files that only
/// it reads.
struct Seen {
    reader: Reader,
    rows: Rows,
    crashed: bool,
}

impl Seen {
    fn new(reader: Reader) -> Seen {
        let rows = rows_in(&reader, &everything());
        assert!(!reader.is_unreadable());
        Seen {
            reader,
            rows,
            crashed: false,
        }
    }

    fn rows_in(&self, range: &(Vec<u8>, Vec<u8>), story: &str) -> Rows {
        let within = |key: &Vec<u8>| range.0 <= *key && *key < range.1;
        let rows: Rows = self.rows.iter().filter(|(key, _)| within(key)).cloned().collect();
        let again = rows_in(&self.reader, range);
        if self.reader.is_unreadable() {
            assert!(self.crashed, "{story}: a reader is lost without a crash");
        } else {
            assert_eq!(again, rows, "{story}: a reader shows something else than before");
        }
        rows
    }
}

/// Commits as if `range` had been read at `seen`; whenever that is allowed, the range must be now
/// as it was then.
fn check_commit(engine: &Engine, seen: &Seen, range: (Vec<u8>, Vec<u8>), story: &str) -> Result<(), CommitError> {
    let now = rows_in(&engine.reader(ALWAYS).unwrap(), &range);
    let version = seen.reader.version;
    let request = CommitRequest {
        read_version: version,
        read_conflicts: vec![KeyRange::new(range.0.clone(), range.1.clone())],
        mutations: vec![Mutation::Set {
            key: b"marker".to_vec(),
            value: Vec::new(),
        }],
        ..CommitRequest::default()
    };
    engine.commit(ALWAYS, &request)?;
    assert_eq!(
        seen.rows_in(&range, story),
        now,
        "{story}: {range:?} read at {version:?}"
    );
    Ok(())
}

/// Sets, clears, cleared ranges, rollbacks, relaxed writes, evidence forgotten, a clock that jumps,
/// closing and crashes.
#[test]
fn no_commit_lands_over_a_read_that_has_changed() {
    let (mut landed, mut refused) = (0, 0);
    for seed in 0..40 {
        let (world, mut random) = (World::default(), Random(seed));
        world.clock.set(50_000_000);
        let mut engine = world.open();
        let mut readers: Vec<Seen> = Vec::new();
        for step in 0..400 {
            match random.below(40) {
                0 => {
                    match random.below(2) {
                        0 => engine.close().unwrap(),
                        _ => {
                            drop(engine);
                            world.disk.crash();
                            readers.iter_mut().for_each(|seen| seen.crashed = true);
                        }
                    }
                    world.clock.set(random.below(60_000_000));
                    engine = world.open();
                }
                1 => world.clock.set(random.below(60_000_000)),
                2..6 => world.clock.advance(random.below(2_000_000)),
                6..12 => {
                    let reader = engine.read_version(ALWAYS);
                    assert!(engine.wait_durable(reader.dependency));
                    readers.push(Seen::new(reader));
                }
                12..20 if !readers.is_empty() => {
                    let seen = &readers[random.below(readers.len() as u64) as usize];
                    let story = format!("seed {seed}, step {step}");
                    match check_commit(&engine, seen, random_range(&mut random), &story) {
                        Ok(()) => landed += 1,
                        Err(_) => refused += 1,
                    }
                }
                20..24 => drop(engine.wait_durable(engine.snapshot().2)),
                _ => drop(random_transaction(&engine, &mut random)),
            }
        }
    }
    assert!(landed > 300 && refused > 300, "{landed} landed, {refused} refused");
}

/// For each key, the version that changed it last: what an answer about it rests on.
#[derive(Default)]
struct Changes(BTreeMap<Vec<u8>, Version>);

impl Changes {
    /// Notes what differs between two moments.
    fn note(&mut self, before: &Rows, after: &Rows, version: Version) {
        let of = |rows: &Rows| rows.iter().cloned().collect::<BTreeMap<_, _>>();
        let (before, after) = (of(before), of(after));
        for key in before.keys().chain(after.keys()) {
            if before.get(key) != after.get(key) {
                self.0.insert(key.clone(), version);
            }
        }
    }

    fn newest_in(&self, (start, end): &(Vec<u8>, Vec<u8>)) -> Version {
        if start >= end {
            return Version::ZERO;
        }
        let newest = self
            .0
            .range(start.clone()..end.clone())
            .map(|(_, version)| *version)
            .max();
        newest.unwrap_or_default()
    }
}

fn everything() -> (Vec<u8>, Vec<u8>) {
    (vec![0], vec![255])
}

/// Reads once in `always`, by a random way, sometimes ending in an error. Returns what it looked
/// at, and the answer's dependency.
fn random_read(engine: &Engine, random: &mut Random) -> ((Vec<u8>, Vec<u8>), Dependency) {
    let range = random_range(random);
    let (start, end) = (&range.0, &range.1);
    let point = (start.clone(), [start.as_slice(), &[0]].concat());
    let (kind, fails) = (random.below(6), random.below(4) == 0);
    let mut looked_at = range.clone();
    let outcome = engine.partition().execute(ALWAYS, |tx| {
        match kind {
            0 => drop(tx.count(start, end)),
            1 => drop(tx.nth(start, end, 0)),
            2 => tx.scan(start, end, true, &mut |_| ControlFlow::Continue(())),
            // A clear reveals the previous rows.
            3 => drop(tx.clear_range(start, end)),
            4 => {
                tx.clear(start);
                looked_at = point;
            }
            _ => {
                tx.get(start);
                looked_at = point;
            }
        }
        // For reads only: all writes are rolled back.
        if fails || matches!(kind, 3 | 4) {
            Err(())
        } else {
            Ok(())
        }
    });
    let dependency = match outcome {
        Ok(((), dependency)) | Err(ExecuteError::Layer((), dependency)) => dependency,
        Err(ExecuteError::TooLarge(_) | ExecuteError::DiskFull(_)) => unreachable!("nothing large was written"),
        Err(ExecuteError::Unreadable(_)) => unreachable!("all rows are in memory"),
        Err(ExecuteError::NotHome) => unreachable!("the log is sound"),
    };
    (looked_at, dependency)
}

fn optimistic_read(engine: &Engine, random: &mut Random) -> ((Vec<u8>, Vec<u8>), Dependency) {
    let range = random_range(random);
    let read = engine.run(ALWAYS, 1, |tx| {
        tx.scan(&range.0, &range.1, false, &mut |_, _| ControlFlow::Continue(()));
        Ok::<_, std::convert::Infallible>(())
    });
    let ((), dependency) = read.expect("reading alone cannot conflict");
    (range, dependency)
}

#[test]
fn no_sent_reply_depends_on_a_write_that_a_crash_undid() {
    let mut lost = 0;
    for seed in 0..60 {
        let (world, mut random) = (World::default(), Random(seed));
        let engine = world.open();
        let mut changes = Changes::default();
        // Everything that the answers sent by now rest on.
        let mut sent = Vec::new();
        for step in 0..120 {
            let before = rows_in(&engine.reader(ALWAYS).unwrap(), &everything());
            match random.below(10) {
                0..5 => drop(random_transaction(&engine, &mut random)),
                5..9 => {
                    let read = if random.below(4) == 0 {
                        optimistic_read
                    } else {
                        random_read
                    };
                    let (looked_at, dependency) = read(&engine, &mut random);
                    if engine.durable() >= dependency {
                        sent.push((changes.newest_in(&looked_at), step));
                    }
                }
                _ => drop(engine.wait_durable(engine.snapshot().2)),
            }
            let after = engine.reader(ALWAYS).unwrap();
            changes.note(&before, &rows_in(&after, &everything()), after.version);
        }
        let last = engine.snapshot().1;
        let crashed = World {
            disk: world.disk.fork(),
            ..World::default()
        };
        crashed.disk.crash();
        let survived = crashed.open().durable();
        lost += u64::from(survived < last);
        for (rests_on, step) in sent {
            assert!(
                rests_on <= survived,
                "seed {seed}: the answer of step {step} was taken back"
            );
        }
    }
    assert!(lost > 5, "only {lost} crashes took something back");
}

/// A failed transaction leaves no trace of having run: no row, no version, no log record.
#[test]
fn a_failed_transaction_leaves_no_trace() {
    for seed in 0..200 {
        let (world, mut random) = (World::default(), Random(seed));
        let engine = world.open();
        for _ in 0..10 {
            random_transaction(&engine, &mut random);
        }
        engine.wait_durable(engine.snapshot().2);
        let trace = |engine: &Engine| {
            let (rows, epochs) = (engine.state_hash(None).unwrap(), &engine.statistics().epochs);
            (
                rows,
                engine.snapshot().1,
                epochs.load(std::sync::atomic::Ordering::SeqCst),
            )
        };
        let before = trace(&engine);
        let failed: Result<((), _), _> = engine.partition().execute(ALWAYS, |tx| {
            tx.unique_id();
            (0..8).for_each(|_| random_write(tx, &mut random));
            tx.commit_version();
            Err(())
        });
        assert!(failed.is_err());
        assert_eq!(trace(&engine), before, "seed {seed}");
        engine.close().unwrap();
        assert_eq!(world.open().state_hash(None).unwrap(), before.0, "seed {seed}");
    }
}

/// Every key has a watch. Watches of changed rows fire; watches of other rows do not.
#[test]
fn no_watch_is_lost() {
    for seed in 0..100 {
        let mut random = Random(seed);
        let engine = World::default().open();
        let reported = Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
        for key in 0..KEYS as u8 + 5 {
            let reported = reported.clone();
            let callback = Arc::new(move |full: &[u8]| {
                reported.lock().unwrap().insert(full[SPACE_BYTES..].to_vec());
            });
            engine.partition().watch_key(ALWAYS, &[key], callback);
        }
        for step in 0..100 {
            let before: BTreeMap<_, _> = rows_in(&engine.reader(ALWAYS).unwrap(), &everything())
                .into_iter()
                .collect();
            random_transaction(&engine, &mut random);
            let after: BTreeMap<_, _> = rows_in(&engine.reader(ALWAYS).unwrap(), &everything())
                .into_iter()
                .collect();
            let reported = std::mem::take(&mut *reported.lock().unwrap());
            for key in before.keys().chain(after.keys()) {
                let changed = before.get(key) != after.get(key);
                assert!(
                    !changed || reported.contains(key),
                    "seed {seed}, step {step}: {key:?} changed"
                );
            }
        }
    }
}

#[test]
fn closing_amid_checkpoints_and_full_epochs_ends() {
    for round in 0..60 {
        let world = World {
            epoch_bytes_max: 100,
            checkpoint_log_bytes: 200,
            ..World::default()
        };
        let (engine, mut random) = (world.open(), Random(round));
        for _ in 0..=random.below(30) {
            random_transaction(&engine, &mut random);
            if random.below(5) == 0 {
                engine.checkpoint_in_background();
            }
        }
        let expected = engine.state_hash(None).unwrap();
        engine.close().unwrap();
        assert_eq!(world.open().state_hash(None).unwrap(), expected);
    }
}

/// A callback that panicked while a commit notified the watchers took the rest of the journal with
/// it, and so the evidence of other clears: readers of these gaps did not wait, and commits over
/// them were let through.
#[test]
fn a_panicking_watcher_takes_no_evidence_with_it() {
    let engine = World::default().open();
    for key in [b"a", b"b"] {
        engine.wait_durable(execute(&engine, RELAXED, |tx| drop(tx.set(key, b"v"))).1);
    }
    engine.wait_durable(engine.snapshot().2);
    engine
        .partition()
        .watch_key(ALWAYS, b"a", Arc::new(|_: &[u8]| panic!("a bug in a layer")));
    let mut partition = engine.partition();
    let clear_both = |tx: &mut Transaction<'_>| {
        tx.clear(b"a");
        tx.clear(b"b");
        Ok::<_, ()>(())
    };
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| partition.execute(ALWAYS, clear_both)));
    assert!(panicked.is_err());
    for key in [b"a", b"b"] {
        let dependency = read_dependency(&mut partition, ALWAYS, key);
        assert!(dependency > Version::ZERO, "the gap at {key:?} is not durable");
    }
}

fn read_dependency(partition: &mut quartet_engine::PartitionGuard<'_>, space: Space, key: &[u8]) -> Dependency {
    let read: Result<_, ExecuteError<()>> = partition.execute(space, |tx| Ok(tx.get(key)));
    read.unwrap().1
}
