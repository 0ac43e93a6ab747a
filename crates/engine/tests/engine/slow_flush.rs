//! Writes during a long flush of the store.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use quartet_engine::{Admission, Engine, EngineOptions, Parts, StoreKind};
use quartet_env::{Disk, FaultyDisk, File, ManualClock};
use quartet_log::FileLogOptions;

use crate::world::{ALWAYS, RELAXED, execute, set};

/// A disk on which no file of the tree can be created while it is held.
#[derive(Clone, Default)]
struct HeldDisk {
    disk: FaultyDisk,
    held: Arc<(Mutex<bool>, Condvar)>,
}

/// Lets it go when dropped, also by a test that fails: nothing ends while it is held.
struct Hold<'d>(&'d HeldDisk);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        *self.0.held.0.lock().unwrap() = false;
        self.0.held.1.notify_all();
    }
}

impl HeldDisk {
    fn hold(&self) -> Hold<'_> {
        *self.held.0.lock().unwrap() = true;
        Hold(self)
    }

    fn wait(&self, name: &str) {
        if name.starts_with("base-") {
            let is_held = self.held.0.lock().unwrap();
            drop(self.held.1.wait_while(is_held, |is_held| *is_held).unwrap());
        }
    }
}

impl Disk for HeldDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.wait(name);
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.disk.open(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.disk.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.wait(to);
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn available_bytes(&self) -> io::Result<u64> {
        self.disk.available_bytes()
    }
}

fn open(disk: &HeldDisk) -> Engine {
    open_with(
        disk,
        EngineOptions {
            unflushed_log_bytes: 64 << 10,
            ..EngineOptions::default()
        },
    )
}

fn open_with(disk: &HeldDisk, options: EngineOptions) -> Engine {
    let options = EngineOptions {
        store: Some(StoreKind::Ssd),
        cache_bytes: 1 << 20,
        ..options
    };
    let clock = Arc::new(ManualClock::default());
    let parts = Parts::with_file_log(Arc::new(disk.clone()), clock, FileLogOptions::default());
    let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
    Engine::open_with(parts, options, failure, &mut |_| {}).unwrap()
}

/// Writes were blocked once four times as much had gathered as triggers a flush. From half of that
/// on they are slower, and continue.
#[test]
fn writes_become_slower_and_continue() {
    let disk = HeldDisk::default();
    let engine = open(&disk);
    let write = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            let dependency = set(&engine, ALWAYS, &number.to_be_bytes(), &[1; 4000]);
            assert!(engine.wait_durable(dependency));
        }
    };
    let hold = disk.hold();
    // The flush starts with the seventeenth; at the fiftieth, half of the limit has gathered.
    write(0..50);
    let began = Instant::now();
    write(50..64);
    assert!(began.elapsed() >= Duration::from_millis(100), "nobody was slowed down");
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| write(64..200));
        drop(hold);
        writer.join().unwrap();
    });
    let count = execute(&engine, ALWAYS, |tx| {
        (0..200_u64)
            .filter(|number| tx.get(&number.to_be_bytes()).is_some())
            .count()
    });
    assert_eq!(count.0, 200);
    engine.close().unwrap();
}

/// Limit on unflushed bytes in the tests below.
const LIMIT: u64 = 1 << 20;

fn with_little_memory() -> EngineOptions {
    EngineOptions {
        unflushed_bytes_max: LIMIT,
        epoch_bytes_max: 16 << 10,
        ..EngineOptions::default()
    }
}

fn count(engine: &Engine) -> usize {
    execute(engine, RELAXED, |tx| {
        let mut count = 0;
        tx.scan(b"", &[255], false, &mut |_| {
            count += 1;
            std::ops::ControlFlow::Continue(())
        });
        count
    })
    .0
}

/// Small rows were counted by their size in the log, less than half of their size in memory,
/// against a bound outside of the budget. So memory ran out before it, and every write was refused
/// permanently.
#[test]
fn growing_writes_wait_for_the_flush_and_are_not_refused() {
    let disk = HeldDisk::default();
    let engine = open_with(&disk, with_little_memory());
    let woken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let wakes = woken.clone();
    let _listening = engine.on_free(Arc::new(move || {
        wakes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }));
    let hold = disk.hold();
    let mut written = 0_u64;
    while engine.admission() == Admission::Now {
        set(&engine, RELAXED, &written.to_be_bytes(), b"small");
        written += 1;
    }
    assert_eq!(engine.admission(), Admission::Later);
    assert!(engine.is_behind() && engine.unflushed_bytes() < 2 * LIMIT);
    assert!(written > 1000);
    assert_eq!(count(&engine) as u64, written, "reading goes on");
    execute(&engine, RELAXED, |tx| drop(tx.clear(&0_u64.to_be_bytes())));
    drop(hold);
    assert_eq!(engine.wait_for_room(), Admission::Now);
    let deadline = Instant::now() + Duration::from_secs(60);
    while woken.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        assert!(Instant::now() < deadline, "nobody was told");
        std::thread::yield_now();
    }
    assert_eq!(count(&engine) as u64, written - 1);
    engine.close().unwrap();
}

/// A stopping server waited for the flush with its last commits, however long the disk took.
#[test]
fn before_the_end_nothing_waits_for_the_flush() {
    let disk = HeldDisk::default();
    let engine = open_with(&disk, with_little_memory());
    let hold = disk.hold();
    let (mut written, mut admitted) = (0_u64, Instant::now());
    // Before the log takes nothing at all, it takes an epoch every 400 ms.
    loop {
        if engine.admission() == Admission::Now {
            set(&engine, RELAXED, &written.to_be_bytes(), b"small");
            (written, admitted) = (written + 1, Instant::now());
        } else if admitted.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(1));
        } else {
            break;
        }
    }
    let (_, newest, _) = engine.snapshot();
    assert!(engine.durable() < newest, "the log was to be held back");
    engine.end_waiting();
    let deadline = Instant::now() + Duration::from_secs(60);
    while engine.durable() < newest {
        assert!(Instant::now() < deadline, "it waited for the flush");
        std::thread::yield_now();
    }
    drop(hold);
    engine.close().unwrap();
}

/// A flush started only when no full epoch was left, and a thread that writes without releasing the
/// lock always leaves one, unless the flusher is faster. Now a due flush takes all queued epochs: a
/// writer is never more than these ahead of the flusher, so flushes start and end while the lock is
/// held.
#[test]
fn one_hold_of_the_lock_writes_more_than_may_gather() {
    let engine = open_with(&HeldDisk::default(), with_little_memory());
    let rows = 40_000_u64;
    let mut partition = engine.partition();
    for number in 0..rows {
        let written = partition.execute(RELAXED, |tx| {
            tx.set(&number.to_be_bytes(), &[7; 100]);
            Ok::<(), ()>(())
        });
        written.unwrap();
    }
    // All rows take seven times what may gather, so no fewer flushes make room for them.
    let flushes = engine.statistics().checkpoints.load(Ordering::SeqCst);
    drop(partition);
    assert!(flushes >= 6, "{flushes} flushes within the hold");
    assert_eq!(count(&engine) as u64, rows);
    engine.close().unwrap();
}

/// Rows that a snapshot holds are no reason to wait: only its end would end that.
#[test]
fn a_held_snapshot_blocks_no_writer() {
    let engine = open_with(&HeldDisk::default(), with_little_memory());
    for number in 0..2_000_u64 {
        set(&engine, RELAXED, &number.to_be_bytes(), &[7; 100]);
    }
    let (snapshot, _, _) = engine.snapshot();
    for number in 0..40_000_u64 {
        assert_eq!(engine.wait_for_room(), Admission::Now);
        set(&engine, RELAXED, &number.to_be_bytes(), &[8; 100]);
    }
    assert_eq!(quartet_store::Read::len(&snapshot), 2_000);
    assert_eq!(count(&engine), 40_000);
    drop(snapshot);
    engine.close().unwrap();
}
