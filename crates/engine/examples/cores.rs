//! The work that a partition does with two cores: operations a second and CPU per operation of each
//! thread, without sockets.
//!
//! `cargo run --release -p quartet-engine --example cores [ROWS] [SECONDS]`: a million rows and a
//! second for each measurement, unless it says otherwise. Rounds are measured one after the other,
//! and their medians shown. On an idle machine only: it has no other way to know which core waits.

use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quartet_engine::{Durability, Engine, EngineOptions, Space, StoreKind};
use quartet_env::{MemoryDisk, SystemClock};
use quartet_model::{DatabaseId, LayerId};

const ROUNDS: usize = 5;
const KEY_BYTES: usize = 16;
const VALUE: [u8; 64] = [b'v'; 64];
const SPACE: Space = Space {
    database: DatabaseId(1),
    layer: LayerId::Redis,
    durability: Durability::Interval,
};

#[derive(Clone, Copy, PartialEq)]
enum Work {
    Read,
    Write,
}

/// The work of one thread.
#[derive(Clone, Copy, Default)]
struct Done {
    per_second: f64,
    cpu_nanos: f64,
    longest_millis: f64,
}

fn main() {
    let mut named = std::env::args()
        .skip(1)
        .map(|number| number.parse::<u64>().expect("a number"));
    let rows = named.next().unwrap_or(1_000_000);
    let time = Duration::from_secs(named.next().unwrap_or(1));
    let engines = [filled(rows), filled(rows)];
    let [first, second] = engines.each_ref();
    let scenes: [(&str, Vec<(&Engine, Work)>); 7] = [
        ("one reader", vec![(first, Work::Read)]),
        ("two readers", vec![(first, Work::Read), (first, Work::Read)]),
        ("a writer", vec![(first, Work::Write)]),
        ("a reader and a writer", vec![(first, Work::Read), (first, Work::Write)]),
        ("two writers", vec![(first, Work::Write), (first, Work::Write)]),
        (
            "a reader in each of two partitions",
            vec![(first, Work::Read), (second, Work::Read)],
        ),
        (
            "a writer in each of two partitions",
            vec![(first, Work::Write), (second, Work::Write)],
        ),
    ];
    let mut rounds: Vec<Vec<Vec<Done>>> = Vec::new();
    for _ in 0..ROUNDS {
        let measured = scenes.iter().map(|(_, works)| run(works, rows, time));
        rounds.push(measured.collect());
    }
    let medians: Vec<Vec<Done>> = (0..scenes.len())
        .map(|scene| {
            let threads = 0..scenes[scene].1.len();
            let median_of = |thread: usize| median(rounds.iter().map(|round| round[scene][thread]).collect());
            threads.map(median_of).collect()
        })
        .collect();
    println!("{rows} rows, medians of {ROUNDS} rounds of {} s", time.as_secs());
    for ((name, works), threads) in scenes.iter().zip(&medians) {
        println!("{name}");
        for ((_, work), done) in works.iter().zip(threads) {
            let work = if *work == Work::Read { "read" } else { "write" };
            println!(
                "  {work:5} {:>10.0}/s  {:>6.0} ns of CPU each  longest {:.1} ms",
                done.per_second, done.cpu_nanos, done.longest_millis
            );
        }
    }
    let rate = |scene: usize| medians[scene].iter().map(|done| done.per_second).sum::<f64>();
    let cpu = |scene: usize| {
        let threads = &medians[scene];
        threads.iter().map(|done| done.cpu_nanos).sum::<f64>() / threads.len() as f64
    };
    let share = |thread: usize, alone: usize| medians[3][thread].per_second / rate(alone);
    println!(
        "\ntwo readers over one: {:.2}, CPU {:.2}",
        rate(1) / rate(0),
        cpu(1) / cpu(0)
    );
    let (reader, writer) = (share(0, 0), share(1, 2));
    println!(
        "beside each other, over alone: reader {reader:.2}, writer {writer:.2}, together {:.2}",
        reader + writer
    );
    println!(
        "a writer in each of two partitions over one: {:.2}, CPU {:.2}",
        rate(6) / rate(2),
        cpu(6) / cpu(2)
    );
}

fn filled(rows: u64) -> Engine {
    let options = EngineOptions {
        store: Some(StoreKind::Memory),
        ..EngineOptions::default()
    };
    let (disk, clock) = (Arc::new(MemoryDisk::new(64 << 30)), Arc::new(SystemClock));
    let failure = |error: &_| panic!("the log failed: {error}");
    let engine = Engine::open(disk, clock, options, Box::new(failure), &mut |_| {}).expect("a new partition");
    for first in (0..rows).step_by(1000) {
        let filled = engine.partition().execute(SPACE, |tx| {
            (first..rows.min(first + 1000)).for_each(|row| drop(tx.set(&key(row), &VALUE)));
            Ok::<_, ()>(())
        });
        filled.expect("room for the rows");
    }
    engine
}

/// Spread over the key space, so that neighbours in time are none in the tree.
fn key(row: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&row.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&row.to_be_bytes());
    key
}

/// Runs each work on its own thread, in parallel, and returns the counts of each.
fn run(works: &[(&Engine, Work)], rows: u64, time: Duration) -> Vec<Done> {
    let (is_over, starts) = (AtomicBool::new(false), Barrier::new(works.len() + 1));
    thread::scope(|scope| {
        let threads: Vec<_> = works
            .iter()
            .enumerate()
            .map(|(number, &(engine, work))| {
                let (is_over, starts) = (&is_over, &starts);
                scope.spawn(move || {
                    let mut random = Random(number as u64 + 1);
                    starts.wait();
                    measure(is_over, || one(engine, work, &key(random.below(rows))))
                })
            })
            .collect();
        starts.wait();
        thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread"))
            .collect()
    })
}

#[inline(never)]
fn one(engine: &Engine, work: Work, key: &[u8]) {
    match work {
        Work::Read => {
            let read = engine.read().execute(SPACE, |tx| Ok::<_, ()>(tx.get(key).is_some()));
            assert!(matches!(read, Ok(Ok((true, _)))), "a row that is there");
        }
        Work::Write => {
            let written = engine.partition().execute(SPACE, |tx| {
                tx.set_parts(&[key], &[&VALUE]);
                Ok::<_, ()>(())
            });
            written.expect("room for a row");
        }
    }
}

fn measure(is_over: &AtomicBool, mut operation: impl FnMut()) -> Done {
    let (began, cpu_before) = (Instant::now(), ran_nanos());
    let (mut count, mut last, mut longest) = (0_u64, began, Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        operation();
        count += 1;
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    let count = count.max(1) as f64;
    Done {
        per_second: count / began.elapsed().as_secs_f64(),
        cpu_nanos: (ran_nanos() - cpu_before) as f64 / count,
        longest_millis: longest.as_secs_f64() * 1e3,
    }
}

/// The running time of this thread: the first number of the scheduler's statistics.
fn ran_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with statistics");
    let first = text.split(' ').next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

/// The median of each number, taken separately.
fn median(all: Vec<Done>) -> Done {
    let of = |number: fn(&Done) -> f64| {
        let mut numbers: Vec<f64> = all.iter().map(number).collect();
        numbers.sort_by(f64::total_cmp);
        numbers[numbers.len() / 2]
    };
    Done {
        per_second: of(|done| done.per_second),
        cpu_nanos: of(|done| done.cpu_nanos),
        longest_millis: of(|done| done.longest_millis),
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
