//! Readers concurrent with each other and with writers: every answer fits an order of all
//! transactions that respects real time, and a crash undoes none that was sent.
//!
//! Each write sets all registers to the next number and appends an element to a list, so an answer
//! shows the number of preceding writes. More operations with `QUARTET_BESIDE_OPERATIONS`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use quartet_engine::{Dependency, Engine, ExecuteError, MustWrite, Transaction};

use crate::world::{ALWAYS, World, execute, set};

const REGISTERS: u8 = 6;
const LIST: &[u8] = b"list/";
const LIST_END: &[u8] = b"list0";
const CRASHES: usize = 4;

/// The known part of the order, by the numbers of writes.
#[derive(Default)]
struct Order {
    /// The largest number with a started write.
    begun: AtomicU64,
    /// The largest number that a finished operation has written or read.
    known: AtomicU64,
    /// The largest that an answer which was sent rests on.
    sent: AtomicU64,
}

impl Order {
    fn over(&self, engine: &Engine, number: u64, dependency: Dependency) {
        self.known.fetch_max(number, Ordering::SeqCst);
        if engine.durable() >= dependency {
            self.sent.fetch_max(number, Ordering::SeqCst);
        }
    }
}

fn number_at(tx: &mut Transaction<'_>, register: u8) -> u64 {
    let row = tx.get(&[register]);
    row.map_or(0, |row| u64::from_be_bytes(row.value().try_into().unwrap()))
}

fn write(engine: &Engine, order: &Order) {
    let acknowledged = order.known.load(Ordering::SeqCst);
    let (number, dependency) = execute(engine, ALWAYS, |tx| {
        let number = number_at(tx, 0) + 1;
        order.begun.fetch_max(number, Ordering::SeqCst);
        for register in 0..REGISTERS {
            assert_eq!(number_at(tx, register), number - 1, "half a transaction");
            tx.set(&[register], &number.to_be_bytes());
        }
        let element = [LIST, &number.to_be_bytes()].concat();
        assert!(tx.set(&element, b"").is_none(), "an element twice");
        number
    });
    assert!(
        number > acknowledged,
        "{number} was written after {acknowledged} was known"
    );
    order.over(engine, number, dependency);
}

/// The number of the newest write, verified to be equal in all registers and the list.
fn newest(tx: &mut Transaction<'_>) -> u64 {
    let number = number_at(tx, 0);
    for register in 1..REGISTERS {
        assert_eq!(number_at(tx, register), number, "half a transaction");
    }
    assert_eq!(tx.count(LIST, LIST_END), number, "elements");
    if number > 0 {
        let last = tx.nth(LIST, LIST_END, number - 1).unwrap();
        assert!(last.key().ends_with(&number.to_be_bytes()));
    }
    number
}

fn read(engine: &Engine, order: &Order) {
    let acknowledged = order.known.load(Ordering::SeqCst);
    let mut partition = engine.read();
    if acknowledged.is_multiple_of(64) {
        thread::yield_now();
    }
    let mut look = || {
        partition
            .execute(ALWAYS, |tx| Ok::<_, ()>(newest(tx)))
            .unwrap()
            .unwrap()
    };
    let (number, dependency) = look();
    assert_eq!(look().0, number, "somebody has written under a reader");
    drop(partition);
    assert!(
        number >= acknowledged,
        "{number} was read after {acknowledged} was known"
    );
    assert!(
        number <= order.begun.load(Ordering::SeqCst),
        "{number} was read and not written"
    );
    order.over(engine, number, dependency);
}

/// The same without the lock while it looks.
fn read_apart(engine: &Engine, order: &Order) {
    let acknowledged = order.known.load(Ordering::SeqCst);
    let reader = engine.reader(ALWAYS).unwrap();
    let number = reader.count(LIST, LIST_END);
    let registers = (0..REGISTERS).filter_map(|register| reader.get(&[register]));
    for register in registers {
        assert_eq!(register, number.to_be_bytes(), "half a transaction");
    }
    assert!(
        number >= acknowledged,
        "{number} was read after {acknowledged} was known"
    );
    order.over(engine, number, reader.dependency);
}

#[test]
fn every_answer_is_of_an_order_that_respects_real_time() {
    let named = std::env::var("QUARTET_BESIDE_OPERATIONS");
    let operations: u64 = named.map_or(30_000, |number| number.parse().expect("a number of operations"));
    let (world, order) = (small_epochs(World::default()), &Order::default());
    let engine = &world.open();
    let works: [fn(&Engine, &Order); 6] = [write, write, read, read, read, read_apart];
    thread::scope(|scope| {
        for work in works {
            scope.spawn(move || (0..operations / works.len() as u64).for_each(|_| work(engine, order)));
        }
        for _ in 0..CRASHES {
            let sent = order.sent.load(Ordering::SeqCst);
            let crashed = small_epochs(World {
                disk: world.disk.fork(),
                ..World::default()
            });
            crashed.disk.crash();
            let survived = execute(&crashed.open(), ALWAYS, newest).0;
            assert!(survived >= sent, "{sent} was told, and {survived} survived");
        }
    });
    let written = execute(engine, ALWAYS, newest).0;
    assert_eq!(written, 2 * (operations / works.len() as u64));
    let statistics = engine.statistics();
    assert!(statistics.transactions() > operations, "reads are counted");
}

/// So small that holders of the lock lend it to the flusher again and again.
fn small_epochs(world: World) -> World {
    World {
        segment_bytes: 1 << 20,
        epoch_bytes_max: 600,
        ..world
    }
}

/// Threads that never pause let the others in: each of them has a number of transactions to do.
#[test]
fn no_thread_starves_beside_threads_without_pauses() {
    const TRANSACTIONS: u64 = 200;
    let world = World::default();
    let engine = &world.open();
    set(engine, ALWAYS, b"k", b"0");
    let read = || drop(engine.read().execute(ALWAYS, |tx| Ok::<_, ()>(tx.get(b"k"))));
    let write = || _ = set(engine, ALWAYS, b"k", b"1");
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    read();
                }
            });
        }
        (0..TRANSACTIONS).for_each(|_| write());
        is_over.store(true, Ordering::SeqCst);
    });
    is_over.store(false, Ordering::SeqCst);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                write();
            }
        });
        (0..TRANSACTIONS).for_each(|_| read());
        is_over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_transaction_that_only_reads_writes_nothing() {
    let world = World::default();
    let engine = world.open();
    set(&engine, ALWAYS, b"k", b"v");
    let before = (engine.state_hash(None).unwrap(), engine.snapshot().1);
    let attempts: [fn(&mut Transaction<'_>); 9] = [
        |tx| drop(tx.set(b"k", b"w")),
        |tx| tx.patch_parts(&[b"k"], 0, b"w"),
        |tx| drop(tx.clear(b"k")),
        |tx| drop(tx.clear_nth(b"a", b"z", 0)),
        |tx| drop(tx.clear_end(b"a", b"z", true)),
        |tx| _ = tx.clear_range(b"a", b"z"),
        |tx| tx.clear_all(),
        |tx| _ = tx.commit_version(),
        |tx| _ = tx.unique_id(),
    ];
    for attempt in attempts {
        let executed = engine.read().execute(ALWAYS, |tx| {
            attempt(tx);
            Ok::<_, ()>(())
        });
        assert_eq!(executed, Err(MustWrite));
        assert_eq!((engine.state_hash(None).unwrap(), engine.snapshot().1), before);
    }
    let failed = engine.read().execute(ALWAYS, |tx| Err::<(), _>(tx.get(b"k").is_some()));
    assert!(matches!(failed, Ok(Err(ExecuteError::Layer(true, _)))));
}

/// One hold in 31 of a thread is measured, in either mode.
#[test]
fn holds_of_the_lock_are_measured() {
    let world = World::default();
    let engine = world.open();
    for number in 0..62_u64 {
        set(&engine, ALWAYS, b"k", &number.to_be_bytes());
    }
    for _ in 0..62 {
        let read = engine.read().execute(ALWAYS, |tx| Ok::<_, ()>(tx.get(b"k")));
        assert!(matches!(read, Ok(Ok((Some(_), _)))));
    }
    let holds = engine.statistics().holds();
    for is_alone in [true, false] {
        let measured = holds.iter().find(|holds| holds.is_alone == is_alone).unwrap();
        assert_eq!((measured.layer, measured.count), (ALWAYS.layer, 2));
        let within = &measured.within_micros;
        assert!(within.is_sorted() && within.last().is_none_or(|(_, count)| *count <= 2));
    }
}
