//! Concurrent histories are equal to running the transactions one at a time in the order of their
//! versions.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

use quartet_engine::{CommitError, CommitRequest, Engine, Mutation, versionstamp};
use quartet_model::{AtomicOperation, KeyRange, Version};

use crate::world::{ALWAYS, OTHER_RELAXED, RELAXED, Random, World, execute, set};

const KEYS: u64 = 8;
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// One committed transaction as its thread saw it.
struct Event {
    /// Its read version and commit version; equal for a read-only transaction.
    read: Version,
    written: Version,
    start: Vec<u8>,
    end: Vec<u8>,
    rows: Rows,
    writes: Writes,
}

fn random_event(engine: &Engine, random: &mut Random) -> Option<Event> {
    let bounds = [random.below(KEYS) as u8, random.below(KEYS + 1) as u8];
    let writes: Vec<_> = (0..random.below(3))
        .map(|_| {
            let value = (random.below(4) > 0).then(|| random.below(1 << 40).to_be_bytes().to_vec());
            (vec![random.below(KEYS) as u8], value)
        })
        .collect();
    let marker = random.below(u64::MAX).to_be_bytes().to_vec();
    let outcome = engine.run(ALWAYS, 20, |tx| {
        let mut rows = Rows::new();
        tx.scan(&bounds[..1], &bounds[1..], false, &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        });
        std::thread::yield_now();
        for (key, value) in &writes {
            match value {
                Some(value) => tx.set(key, value),
                None => tx.clear(key),
            }
        }
        if !writes.is_empty() {
            // Its row's version shows the transaction's commit version afterwards.
            tx.set(&[b"marker", marker.as_slice()].concat(), b"");
        }
        Ok::<_, Infallible>((tx.read_version(), rows))
    });
    let ((read, rows), _) = outcome.ok()?;
    let written = match writes.is_empty() {
        true => read,
        false => {
            let row = execute(engine, ALWAYS, |tx| tx.get(&[b"marker", marker.as_slice()].concat())).0;
            row.expect("a committed marker").version()
        }
    };
    let (start, end) = (bounds[..1].to_vec(), bounds[1..].to_vec());
    Some(Event {
        read,
        written,
        start,
        end,
        rows,
        writes,
    })
}

/// The same through `commit`: reads at a version, then certifies with explicit read and write
/// conflict ranges.
fn interactive_event(engine: &Engine, random: &mut Random) -> Option<Event> {
    let (start, end) = (vec![random.below(KEYS) as u8], vec![random.below(KEYS + 1) as u8]);
    let reader = engine.read_version(ALWAYS);
    let (read, dependency) = (reader.version, reader.dependency);
    let mut rows = Rows::new();
    reader.scan(&start, &end, false, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    std::thread::yield_now();
    let (mutations, writes): (Vec<_>, Vec<_>) = (0..random.below(3)).map(|_| random_mutation(random)).unzip();
    let read_conflicts = vec![KeyRange::new(start.clone(), end.clone())];
    let request = CommitRequest {
        read_version: read,
        read_conflicts,
        mutations,
        ..CommitRequest::default()
    };
    assert!(engine.wait_durable(dependency));
    let written = match writes.is_empty() {
        true => read,
        false => engine.commit(ALWAYS, &request).ok()?.0,
    };
    Some(Event {
        read,
        written,
        start,
        end,
        rows,
        writes: writes.concat(),
    })
}

type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn random_mutation(random: &mut Random) -> (Mutation, Writes) {
    let key = random.below(KEYS) as u8;
    match random.below(4) {
        0 => {
            let end = (key + 1 + random.below(3) as u8).min(KEYS as u8);
            let range = KeyRange::new([key], [end]);
            let cleared = (key..end).map(|key| (vec![key], None)).collect();
            (Mutation::ClearRange { range }, cleared)
        }
        1 => (Mutation::Clear { key: vec![key] }, vec![(vec![key], None)]),
        _ => {
            let value = random.below(1 << 40).to_be_bytes().to_vec();
            let written = vec![(vec![key], Some(value.clone()))];
            (Mutation::Set { key: vec![key], value }, written)
        }
    }
}

/// A reader at a version sees what was written at it; a writer sees only what was before.
fn check(mut events: Vec<Event>) {
    events.sort_by_key(|event| (event.written, event.writes.is_empty()));
    let mut model = BTreeMap::new();
    for event in events {
        assert!(event.read <= event.written);
        let expected: Rows = match event.start < event.end {
            true => model
                .range(event.start..event.end)
                .map(|(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone()))
                .collect(),
            false => Rows::new(),
        };
        assert_eq!(event.rows, expected, "at {:?}", event.written);
        for (key, value) in event.writes {
            match value {
                Some(value) => drop(model.insert(key, value)),
                None => drop(model.remove(&key)),
            }
        }
    }
}

/// Four threads make events side by side; all of them fit one order.
fn check_concurrent(make: &[fn(&Engine, &mut Random) -> Option<Event>]) {
    let engine = World::default().open();
    let events = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                let engine = &engine;
                scope.spawn(move || {
                    let mut random = Random(seed);
                    (0..300)
                        .filter_map(|_| make[random.below(make.len() as u64) as usize](engine, &mut random))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    assert!(events.len() > 300, "{} committed", events.len());
    check(events);
}

#[test]
fn concurrent_transactions_are_strictly_serializable() {
    check_concurrent(&[random_event]);
}

#[test]
fn concurrent_interactive_transactions_are_strictly_serializable() {
    check_concurrent(&[interactive_event]);
    check_concurrent(&[interactive_event, random_event]);
}

/// A cleared range leaves no row, so it can be certified only as long as the evidence is kept.
#[test]
fn a_read_version_before_the_conflict_window_is_too_old() {
    let world = World::default();
    let engine = world.open();
    world.clock.set(100_000_000);
    engine.wait_durable(set(&engine, ALWAYS, b"k", b"v"));
    engine.wait_durable(set(&engine, ALWAYS, b"l", b"v"));
    let read_at_each_second: Vec<Version> = (0..8)
        .map(|second: u8| {
            world.clock.advance(1_000_000);
            let read_version = engine.read_version(ALWAYS).version;
            execute(&engine, ALWAYS, |tx| match second {
                3 => tx.clear(b"k"),
                _ => tx.set(b"other", b""),
            });
            execute(&engine, ALWAYS, |tx| drop(tx.set(b"gone", b"")));
            // Evidence is dropped when an epoch is taken; at the second epoch the first is durable.
            for _ in 0..2 {
                engine.wait_durable(execute(&engine, ALWAYS, |tx| drop(tx.clear(b"gone"))).1);
                engine.wait_durable(set(&engine, ALWAYS, b"gone", b""));
            }
            read_version
        })
        .collect();
    let commit = |second: usize, key: &[u8]| {
        let request = CommitRequest {
            read_version: read_at_each_second[second],
            read_conflicts: vec![KeyRange::point(key)],
            ..CommitRequest::default()
        };
        engine.commit(ALWAYS, &request).map(|_| ())
    };
    assert_eq!(commit(0, b"l"), Err(CommitError::TooOld));
    assert_eq!(commit(3, b"k"), Err(CommitError::Conflict(Vec::new())));
    assert_eq!(commit(4, b"k"), Ok(()));
    assert_eq!(commit(3, b"l"), Ok(()));
}

/// While a transaction runs, the evidence for its certification is kept, durable or not: clears of
/// other keys do not refuse it.
#[test]
fn a_running_transaction_can_be_certified() {
    let engine = World::default().open();
    for key in [b"a", b"b"] {
        engine.wait_durable(set(&engine, ALWAYS, key, b"v"));
    }
    let outcome = engine.run(ALWAYS, 1, |tx| {
        for _ in 0..3 {
            engine.wait_durable(execute(&engine, ALWAYS, |tx| drop(tx.clear(b"b"))).1);
            engine.wait_durable(set(&engine, ALWAYS, b"b", b"v"));
        }
        tx.get(b"a");
        tx.set(b"c", b"v");
        Ok::<_, Infallible>(())
    });
    assert!(outcome.is_ok());
}

/// A relaxed database keeps no evidence of its clears while no transaction needs certification; a
/// transaction that read before is then refused.
#[test]
fn a_read_version_without_evidence_is_too_old() {
    let world = World::default();
    let engine = world.open();
    set(&engine, RELAXED, b"k", b"v");
    let read_version = engine.read_version(RELAXED).version;
    world.clock.set(6_000_000);
    set(&engine, RELAXED, b"l", b"v");
    execute(&engine, RELAXED, |tx| drop(tx.clear(b"k")));
    engine.read_version(RELAXED);
    let request = CommitRequest {
        read_version,
        read_conflicts: vec![KeyRange::point(b"l")],
        ..CommitRequest::default()
    };
    assert_eq!(engine.commit(RELAXED, &request), Err(CommitError::TooOld));
}

/// Two interactive transactions read at one version; the second to commit must not land if the
/// first wrote what it read.
fn second_of_two(reads: [KeyRange; 2], first: Mutation, second: Mutation) -> Result<(), CommitError> {
    let engine = World::default().open();
    set(&engine, ALWAYS, b"a", b"1");
    set(&engine, ALWAYS, b"b", b"1");
    let read_version = engine.read_version(ALWAYS).version;
    let [first_reads, second_reads] = reads;
    let request = |read: KeyRange, mutation| CommitRequest {
        read_version,
        read_conflicts: vec![read],
        mutations: vec![mutation],
        ..CommitRequest::default()
    };
    engine.commit(ALWAYS, &request(first_reads, first)).unwrap();
    engine.commit(ALWAYS, &request(second_reads, second)).map(|_| ())
}

fn write(key: &str) -> Mutation {
    Mutation::Set {
        key: key.into(),
        value: b"2".to_vec(),
    }
}

#[test]
fn lost_update_write_skew_read_skew_and_phantoms_are_refused() {
    let point = |key: &str| KeyRange::point(key.as_bytes());
    let refused = Err(CommitError::Conflict(Vec::new()));
    let lost_update = second_of_two([point("a"), point("a")], write("a"), write("a"));
    assert_eq!(lost_update, refused);
    let write_skew = second_of_two([point("b"), point("a")], write("a"), write("b"));
    assert_eq!(write_skew, refused);
    let read_skew = second_of_two([point("b"), KeyRange::new("a", "c")], write("b"), write("z"));
    assert_eq!(read_skew, refused);
    let phantom = second_of_two([point("z"), KeyRange::new("c", "d")], write("cc"), write("z"));
    assert_eq!(phantom, refused);
    let removed = Mutation::ClearRange {
        range: KeyRange::new("a", "b"),
    };
    let vanished = second_of_two([point("z"), KeyRange::new("a", "b")], removed, write("z"));
    assert_eq!(vanished, refused);
    assert_eq!(second_of_two([point("b"), point("b")], write("a"), write("c")), Ok(()));
}

#[test]
fn snapshots_do_not_move() {
    let engine = World::default().open();
    let mut random = Random(3);
    let mut snapshots = Vec::new();
    for round in 0..200u64 {
        let key = [random.below(50) as u8];
        execute(&engine, ALWAYS, |tx| match random.below(6) {
            0 => drop(tx.clear_range(&key, &[key[0] + 9])),
            1 => {
                let end = [key[0] + 9];
                let keys: Vec<[u8; 1]> = (key[0]..end[0]).step_by(2).map(|key| [key]).collect();
                tx.clear_many(&key..&end, keys.iter().map(|key| [&key[..]]), &mut |_| {});
            }
            _ => drop(tx.set(&key, &round.to_be_bytes())),
        });
        if round % 20 == 0 {
            engine.checkpoint_in_background();
            let (snapshot, ..) = engine.snapshot();
            let hash = quartet_store::state_hash(&snapshot, None).unwrap();
            snapshots.push((snapshot, hash));
        }
    }
    for (snapshot, hash) in snapshots {
        assert_eq!(quartet_store::state_hash(&snapshot, None).unwrap(), hash);
    }
}

/// The value of `k` after `mutation` was applied to `old`.
fn mutated(old: Option<&[u8]>, mutation: Mutation) -> Option<Vec<u8>> {
    let engine = World::default().open();
    if let Some(old) = old {
        set(&engine, ALWAYS, b"k", old);
    }
    let request = CommitRequest {
        mutations: vec![mutation],
        ..CommitRequest::default()
    };
    engine.commit(ALWAYS, &request).unwrap();
    execute(&engine, ALWAYS, |tx| tx.get(b"k").map(|row| row.value().to_vec())).0
}

#[test]
fn atomic_mutations_compute_from_the_value_at_commit() {
    let atomic = |operation, operand: &[u8]| Mutation::Atomic {
        operation,
        key: b"k".to_vec(),
        operand: operand.to_vec(),
    };
    let sum = mutated(Some(&[0xff, 7]), atomic(AtomicOperation::Add, &[1, 0]));
    assert_eq!(sum.as_deref(), Some(&[0, 8][..]));
    assert_eq!(
        mutated(Some(b"ab"), atomic(AtomicOperation::CompareAndClear, b"ab")),
        None
    );
}

#[test]
fn versionstamps_are_the_commit_version_and_grow() {
    let engine = World::default().open();
    let commit = |mutation| {
        let request = CommitRequest {
            mutations: vec![mutation],
            ..CommitRequest::default()
        };
        versionstamp(engine.commit(ALWAYS, &request).unwrap().0)
    };
    let first = commit(Mutation::SetVersionstampedKey {
        key: b"k----------z".to_vec(),
        offset: 1,
        value: b"v".to_vec(),
    });
    let second = commit(Mutation::SetVersionstampedValue {
        key: b"l".to_vec(),
        value: b"----------".to_vec(),
        offset: 0,
    });
    assert!(first < second);
    let key = [b"k".as_slice(), &first, b"z"].concat();
    let reader = engine.read_version(ALWAYS);
    assert_eq!(reader.get(&key).as_deref(), Some(&b"v"[..]));
    assert_eq!(reader.get(b"l").as_deref(), Some(&second[..]));
}

#[test]
fn a_refusal_names_the_changed_ranges_on_request() {
    let engine = World::default().open();
    let read_version = engine.read_version(ALWAYS).version;
    set(&engine, ALWAYS, b"b", b"1");
    set(&engine, ALWAYS, b"d", b"1");
    let mut request = CommitRequest {
        read_version,
        read_conflicts: ["a", "b", "c", "d"].map(|key| KeyRange::point(key.as_bytes())).to_vec(),
        ..CommitRequest::default()
    };
    assert_eq!(engine.commit(ALWAYS, &request), Err(CommitError::Conflict(Vec::new())));
    request.report_conflicts = true;
    assert_eq!(engine.commit(ALWAYS, &request), Err(CommitError::Conflict(vec![1, 3])));
}

/// A read version used to hand out the state of the whole partition.
#[test]
fn a_read_version_shows_one_space_only() {
    let engine = World::default().open();
    set(&engine, ALWAYS, b"k", b"mine");
    set(&engine, OTHER_RELAXED, b"l", b"another's");
    let reader = engine.read_version(ALWAYS);
    let mut keys = Vec::new();
    reader.scan(b"", b"\xff", false, &mut |key, _| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    });
    assert_eq!(keys, [b"k"]);
    assert_eq!(reader.count(b"", b"\xff"), 1);
}

/// Programs fence each other off with a clear of an empty range. It left no row, and no trace
/// either, so transactions that had read in it committed. A mutation's writes count, even where
/// they change no row.
#[test]
fn clearing_absent_keys_conflicts_with_their_readers() {
    let clear = |key: &[u8]| Mutation::Clear { key: key.to_vec() };
    let clear_range = |start, end| Mutation::ClearRange {
        range: KeyRange::new(start, end),
    };
    let compare_and_clear = |key: &[u8]| Mutation::Atomic {
        operation: AtomicOperation::CompareAndClear,
        key: key.to_vec(),
        operand: b"v".to_vec(),
    };
    let check = |mutation: Mutation, read: KeyRange, refused: bool| {
        let engine = World::default().open();
        let read_version = engine.read_version(ALWAYS).version;
        let write = CommitRequest {
            mutations: vec![mutation.clone()],
            ..CommitRequest::default()
        };
        engine.commit(ALWAYS, &write).unwrap();
        let judged = CommitRequest {
            read_version,
            read_conflicts: vec![read.clone()],
            ..CommitRequest::default()
        };
        let is_refused = engine.commit(ALWAYS, &judged) == Err(CommitError::Conflict(Vec::new()));
        assert_eq!(is_refused, refused, "{mutation:?} {read:?}");
    };
    for written in [clear(b"n"), compare_and_clear(b"n"), clear_range("m", "o")] {
        check(written.clone(), KeyRange::point(b"n"), true);
        check(written.clone(), KeyRange::new("mm", "z"), true);
        check(written.clone(), KeyRange::new("o", "z"), false);
        check(written, KeyRange::new("a", "m"), false);
    }
    check(clear_range("n", "n"), KeyRange::new("a", "z"), false);
    check(clear_range("o", "n"), KeyRange::new("a", "z"), false);
}
