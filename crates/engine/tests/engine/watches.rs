//! Watches fire for every committed change in commit order, and for nothing else.

use std::sync::{Arc, Mutex};

use quartet_engine::ExecuteError;
use quartet_model::KeyRange;

use crate::world::{ALWAYS, RELAXED, Random, World, execute, set};

type Told = Arc<Mutex<Vec<Vec<u8>>>>;
type Callback = Arc<dyn Fn(&[u8]) + Send + Sync>;

fn listener(reported: &Told) -> Callback {
    let reported = reported.clone();
    Arc::new(move |key| reported.lock().unwrap().push(key[3..].to_vec()))
}

#[test]
fn each_change_is_reported_once_in_order_unless_rolled_back() {
    let engine = World::default().open();
    let reported = Told::default();
    let mut partition = engine.partition();
    let id = partition.watch_key(ALWAYS, b"a", listener(&reported));
    partition.watch_range(ALWAYS, &KeyRange::new("b", "d"), listener(&reported));
    drop(partition);
    execute(&engine, ALWAYS, |tx| {
        tx.set(b"c", b"1");
        tx.set(b"a", b"1");
        tx.clear(b"c");
        tx.clear(b"absent");
    });
    let failed = engine.partition().execute(ALWAYS, |tx| {
        tx.set(b"a", b"2");
        Err::<(), _>(())
    });
    assert!(matches!(failed, Err(ExecuteError::Layer((), _))));
    engine.partition().unwatch(id);
    set(&engine, ALWAYS, b"a", b"3");
    assert_eq!(*reported.lock().unwrap(), [b"c", b"a", b"c"]);
}

/// New keys are recorded, and rolled back, by their offset in the pending log: between large
/// values, which are not stored in it, after other transactions, and in full or not.
#[test]
fn a_failure_leaves_nothing_and_a_commit_is_reported_key_by_key() {
    for seed in 0..4 {
        let world = World::default();
        let engine = world.open();
        let reported = Told::default();
        let mut random = Random(seed);
        engine
            .partition()
            .watch_range(ALWAYS, &KeyRange::new("", "z"), listener(&reported));
        for _ in 0..60 {
            let before = engine.state_hash(None).unwrap();
            let fails = random.below(2) == 0;
            let mut changed = Vec::new();
            let space = if random.below(2) == 0 { RELAXED } else { ALWAYS };
            let outcome = engine.partition().execute(space, |tx| {
                for _ in 0..random.below(12) {
                    // Long keys are logged as their difference from an earlier key.
                    let key = vec![b'k'; (random.below(6) + random.below(2) * 100) as usize];
                    if random.below(4) > 0 {
                        let bytes = if random.below(20) == 0 { 1 << 20 } else { 5 };
                        tx.set(&key, &vec![7; bytes]);
                        changed.push(key);
                    } else if tx.clear(&key).is_some() {
                        changed.push(key);
                    }
                }
                if fails { Err(()) } else { Ok(()) }
            });
            assert_eq!(outcome.is_err(), fails);
            let reported = std::mem::take(&mut *reported.lock().unwrap());
            if fails {
                assert_eq!(engine.state_hash(None).unwrap(), before, "seed {seed}");
                changed.clear();
            }
            assert_eq!(reported, changed, "seed {seed}");
        }
        let expected = engine.state_hash(None).unwrap();
        engine.close().unwrap();
        assert_eq!(world.open().state_hash(None).unwrap(), expected, "seed {seed}");
    }
}

/// Clearing a range fired the watches of absent keys: Redis' FLUSHALL does not trigger a WATCH of
/// an absent key, so EXEC failed where Redis' succeeds.
#[test]
fn a_cleared_range_reports_only_present_rows() {
    let engine = World::default().open();
    let reported = Told::default();
    set(&engine, ALWAYS, b"k", b"v");
    let mut partition = engine.partition();
    partition.watch_key(ALWAYS, b"k", listener(&reported));
    partition.watch_key(ALWAYS, b"absent", listener(&reported));
    partition.watch_range(ALWAYS, &KeyRange::new("x", "y"), listener(&reported));
    drop(partition);
    execute(&engine, ALWAYS, |tx| tx.clear_range(b"", b"z"));
    assert_eq!(*reported.lock().unwrap(), [b"k"]);
}
