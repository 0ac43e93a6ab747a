//! Watches are told of every committed change in commit order, and of nothing else.

use std::sync::{Arc, Mutex};

use quartet_engine::ExecuteError;
use quartet_model::KeyRange;

use crate::world::{ALWAYS, World, execute, set};

type Told = Arc<Mutex<Vec<Vec<u8>>>>;
type Callback = Arc<dyn Fn(&[u8]) + Send + Sync>;

fn listener(told: &Told) -> Callback {
    let told = told.clone();
    Arc::new(move |key| told.lock().unwrap().push(key[3..].to_vec()))
}

#[test]
fn each_change_is_told_once_in_order_unless_rolled_back() {
    let engine = World::default().open();
    let told = Told::default();
    let mut partition = engine.partition();
    let id = partition.watch_key(ALWAYS, b"a", listener(&told));
    partition.watch_range(ALWAYS, &KeyRange::new("b", "d"), listener(&told));
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
    assert_eq!(*told.lock().unwrap(), [b"c", b"a", b"c"]);
}

/// Clearing a range told the watches of keys that had never been there: Redis' FLUSHALL leaves a WATCH of an absent key
/// alone, so EXEC failed where Redis' succeeds.
#[test]
fn a_cleared_range_tells_only_of_what_was_there() {
    let engine = World::default().open();
    let told = Told::default();
    set(&engine, ALWAYS, b"k", b"v");
    let mut partition = engine.partition();
    partition.watch_key(ALWAYS, b"k", listener(&told));
    partition.watch_key(ALWAYS, b"absent", listener(&told));
    partition.watch_range(ALWAYS, &KeyRange::new("x", "y"), listener(&told));
    drop(partition);
    execute(&engine, ALWAYS, |tx| tx.clear_range(b"", b"z"));
    assert_eq!(*told.lock().unwrap(), [b"k"]);
}
