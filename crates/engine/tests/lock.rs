//! The lock of a partition under a scheduler that chooses, from a seed, the thread of each step:
//! writers are exclusive, no wake-up is lost, no waiter is overtaken indefinitely.
//!
//! Time is the scheduler's too: at each reading of the clock a waiter's turn may be due. A sleeping
//! thread is woken only by others, so a lost wake-up is a deadlock, which the scheduler reports.

mod primitives {
    use std::cell::{Cell, RefCell};
    use std::time::{Duration, Instant};

    pub use shuttle::sync::atomic::AtomicU64;
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub use shuttle::thread::{Thread, ThreadId, current};

    pub const SPINS: u32 = 1;

    thread_local! {
        static START: Instant = Instant::now();
        /// The current time, and its advance at each reading.
        static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        static STEP: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        /// Sleepers are woken by the time as well.
        static HAS_TIMERS: Cell<bool> = const { Cell::new(false) };
        /// The sleeping threads, and whether the timer would wake each the first time.
        static SLEEPERS: RefCell<Vec<(ThreadId, bool)>> = const { RefCell::new(Vec::new()) };
    }

    /// Resets the state. All threads of the scheduler run on this thread.
    pub fn begin(step: Duration, has_timers: bool) {
        PASSED.set(Duration::ZERO);
        STEP.set(step);
        HAS_TIMERS.set(has_timers);
        SLEEPERS.with_borrow_mut(Vec::clear);
    }

    pub fn now() -> Instant {
        PASSED.set(PASSED.get() + STEP.get());
        START.with(|start| *start) + PASSED.get()
    }

    pub fn spin() {
        shuttle::thread::yield_now();
    }

    /// The sleeping threads, the first first.
    pub fn sleepers() -> Vec<ThreadId> {
        SLEEPERS.with_borrow(|sleepers| sleepers.iter().map(|(id, _)| *id).collect())
    }

    /// Returns true if the time would have woken this thread when it went to sleep first, if it
    /// did.
    pub fn first_sleep_had_an_end() -> Option<bool> {
        let own = current().id();
        SLEEPERS.with_borrow(|sleepers| sleepers.iter().find(|(id, _)| *id == own).map(|(_, ends)| *ends))
    }

    pub fn park(until: Option<Instant>) {
        let id = current().id();
        SLEEPERS.with_borrow_mut(|sleepers| {
            if !sleepers.iter().any(|(sleeper, _)| *sleeper == id) {
                sleepers.push((id, until.is_some()));
            }
        });
        match until {
            Some(until) if HAS_TIMERS.get() => {
                let from = START.with(|start| *start);
                PASSED.set(PASSED.get().max(until - from));
                shuttle::thread::yield_now();
            }
            _ => shuttle::thread::park(),
        }
    }
}

#[path = "../src/partition/event.rs"]
#[allow(dead_code)]
mod event;
#[path = "../src/partition/fair_lock.rs"]
#[allow(dead_code)]
mod fair_lock;

use std::sync::Arc;
use std::time::Duration;

use event::Event;
use fair_lock::{FairLock, Mode};
use shuttle::scheduler::PctScheduler;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

/// The schedules are the same in each run.
const SEED: u64 = 1;
/// Longer than a turn.
const LONG: Duration = Duration::from_secs(1);
/// A turn has several of them.
const SHORT: Duration = Duration::from_micros(170);

/// Runs `world` under many schedules: random schedules, and schedules with few thread switches.
/// `QUARTET_LOCK_SCHEDULES` sets their number; `SHUTTLE_RANDOM_SEED` another seed.
fn explore(world: impl Fn() + Clone + Send + Sync + 'static) {
    let named = std::env::var("QUARTET_LOCK_SCHEDULES");
    let schedules = named.map_or(600, |number| number.parse().expect("a number of schedules"));
    shuttle::check_random_with_seed(world.clone(), SEED, schedules);
    let few_changes = PctScheduler::new_from_seed(SEED, 4, schedules);
    shuttle::Runner::new(few_changes, shuttle::Config::default()).run(world);
}

/// The guarded state: a number that is written in two steps.
#[derive(Default)]
struct Guarded {
    number: AtomicU64,
    readers: AtomicU64,
    writers: AtomicU64,
}

impl Guarded {
    fn write(&self) {
        assert_eq!(self.writers.fetch_add(1, Ordering::SeqCst), 0, "two writers");
        assert_eq!(self.readers.load(Ordering::SeqCst), 0, "a writer beside readers");
        let number = self.number.load(Ordering::SeqCst);
        thread::yield_now();
        self.number.store(number + 1, Ordering::SeqCst);
        self.writers.fetch_sub(1, Ordering::SeqCst);
    }

    fn read(&self) {
        self.readers.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.writers.load(Ordering::SeqCst), 0, "a reader beside a writer");
        thread::yield_now();
        assert_eq!(self.writers.load(Ordering::SeqCst), 0, "a reader beside a writer");
        self.readers.fetch_sub(1, Ordering::SeqCst);
    }

    fn hold(&self, lock: &FairLock, mode: Mode) {
        assert!(lock.take_until(mode, None));
        self.used(lock, mode);
    }

    fn used(&self, lock: &FairLock, mode: Mode) {
        match mode {
            Mode::Alone => self.write(),
            Mode::Shared => self.read(),
        }
        lock.release(mode);
    }
}

fn is_open(lock: &FairLock) -> bool {
    if !lock.is_at_rest() {
        return false;
    }
    let grants = [Mode::Alone, Mode::Shared].map(|mode| {
        let is_taken = lock.try_take(mode);
        if is_taken {
            lock.release(mode);
        }
        is_taken
    });
    grants == [true, true]
}

#[test]
fn a_writer_excludes_others_and_no_thread_sleeps_indefinitely() {
    for step in [Duration::ZERO, SHORT, LONG] {
        explore(move || {
            primitives::begin(step, false);
            let shared = Arc::new((FairLock::new(), Guarded::default()));
            let modes = [Mode::Alone, Mode::Shared, Mode::Alone, Mode::Shared, Mode::Shared];
            let threads = modes.map(|mode| {
                let shared = shared.clone();
                thread::spawn(move || (0..2).for_each(|_| shared.1.hold(&shared.0, mode)))
            });
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(shared.1.number.load(Ordering::SeqCst), 4);
            assert!(is_open(&shared.0));
        });
    }
}

/// Once the first waiter of the queue sleeps and its turn is due, no other thread takes the lock
/// before it, however often they try.
fn is_not_passed_by(waiting: Mode, greedy: Mode, greedy_count: usize) {
    explore(move || {
        primitives::begin(LONG, false);
        let shared = Arc::new((FairLock::new(), Guarded::default(), AtomicU64::new(0)));
        let threads: Vec<_> = (0..greedy_count)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for _ in 0..8 {
                        let (lock, guarded, is_served) = &*shared;
                        // The first sleeper is the waiter: greedy threads sleep only after it.
                        let comes_later = !primitives::sleepers().is_empty();
                        assert!(lock.take_until(greedy, None));
                        let passes_by = comes_later && is_served.load(Ordering::SeqCst) == 0;
                        assert!(!passes_by, "somebody passed the first of the queue by");
                        guarded.used(lock, greedy);
                    }
                })
            })
            .collect();
        let (lock, guarded, is_served) = &*shared;
        assert!(lock.take_until(waiting, None));
        is_served.store(1, Ordering::SeqCst);
        guarded.used(lock, waiting);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(is_open(lock));
    });
}

#[test]
fn readers_that_never_pause_do_not_pass_a_writer_by() {
    is_not_passed_by(Mode::Alone, Mode::Shared, 3);
}

#[test]
fn a_writer_that_never_pauses_does_not_pass_a_reader_by() {
    is_not_passed_by(Mode::Shared, Mode::Alone, 1);
}

/// When the first waiter of the queue is served, the second's turn is due as well: no thread that
/// tries to take the lock after both went to sleep overtakes it.
#[test]
fn the_second_of_the_queue_is_not_passed_by_either() {
    explore(|| {
        primitives::begin(LONG, false);
        let shared = Arc::new((FairLock::new(), Guarded::default(), AtomicU64::new(0)));
        let waiters = [(); 2].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (lock, guarded, served) = &*shared;
                assert!(lock.take_until(Mode::Alone, None));
                served.fetch_add(1, Ordering::SeqCst);
                guarded.used(lock, Mode::Alone);
            })
        });
        let ids: Vec<_> = waiters.iter().map(|waiter| waiter.thread().id()).collect();
        let (lock, guarded, served) = &*shared;
        for _ in 0..12 {
            let sleepers = primitives::sleepers();
            let comes_later = sleepers.len() >= 2 && ids.iter().all(|id| sleepers[..2].contains(id));
            assert!(lock.take_until(Mode::Shared, None));
            let passes_by = comes_later && served.load(Ordering::SeqCst) < 2;
            assert!(!passes_by, "somebody passed the second of the queue by");
            guarded.used(lock, Mode::Shared);
        }
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert!(is_open(lock));
    });
}

/// Overlapping readers never leave the lock free. A sleeping writer is woken only by the timer, and
/// closes the lock to them.
#[test]
fn overlapping_readers_end_at_the_turn_of_a_writer() {
    explore(|| {
        primitives::begin(SHORT, true);
        let shared = Arc::new((FairLock::new(), Guarded::default(), AtomicU64::new(0)));
        let reading = shared.clone();
        let readers = thread::spawn(move || {
            let (lock, _, is_served) = &*reading;
            assert!(lock.take_until(Mode::Shared, None));
            while is_served.load(Ordering::SeqCst) == 0 {
                let has_next = lock.try_take(Mode::Shared);
                lock.release(Mode::Shared);
                if !has_next {
                    assert!(lock.take_until(Mode::Shared, None));
                }
                thread::yield_now();
            }
            lock.release(Mode::Shared);
        });
        let (lock, guarded, is_served) = &*shared;
        assert!(lock.take_until(Mode::Alone, None));
        // The scheduler also wakes sleepers for no reason, which is no proof.
        assert_ne!(primitives::first_sleep_had_an_end(), Some(false));
        is_served.store(1, Ordering::SeqCst);
        guarded.used(lock, Mode::Alone);
        readers.join().unwrap();
        assert!(is_open(lock));
    });
}

/// The lock is released only after all waiters have given up.
#[test]
fn a_wait_ends_at_its_deadline_while_the_lock_is_kept() {
    explore(|| {
        primitives::begin(SHORT, true);
        let shared = Arc::new((FairLock::new(), Guarded::default()));
        let lock = &shared.0;
        assert!(lock.take_until(Mode::Alone, None));
        let threads = [Mode::Alone, Mode::Shared, Mode::Alone].map(|mode| {
            let shared = shared.clone();
            thread::spawn(move || {
                let deadline = primitives::now() + 5 * SHORT;
                assert!(!shared.0.take_until(mode, Some(deadline)));
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        lock.release(Mode::Alone);
        assert!(is_open(lock));
    });
}

/// A reader that sleeps after a writer because the lock is closed enters with the other readers
/// once the writer gives up, although the lock never becomes free.
#[test]
fn a_reader_queued_after_a_cancelled_writer_gets_the_lock() {
    explore(|| {
        primitives::begin(SHORT, true);
        let shared = Arc::new((FairLock::new(), Guarded::default(), AtomicU64::new(0)));
        let lock = &shared.0;
        assert!(lock.take_until(Mode::Shared, None));
        let waiting = shared.clone();
        let writer = thread::spawn(move || {
            let deadline = primitives::now() + 5 * SHORT;
            assert!(!waiting.0.take_until(Mode::Alone, Some(deadline)));
        });
        let waiting = shared.clone();
        let reader = thread::spawn(move || waiting.1.hold(&waiting.0, Mode::Shared));
        writer.join().unwrap();
        reader.join().unwrap();
        lock.release(Mode::Shared);
        assert!(is_open(lock));
    });
}

#[test]
fn a_cancelled_waiter_leaves_no_trace() {
    for step in [SHORT, LONG] {
        explore(move || {
            primitives::begin(step, true);
            let shared = Arc::new((FairLock::new(), Guarded::default()));
            let modes = [Mode::Alone, Mode::Shared, Mode::Alone, Mode::Shared];
            let threads = modes.map(|mode| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (lock, guarded) = &*shared;
                    let deadline = primitives::now() + 3 * SHORT;
                    if lock.take_until(mode, Some(deadline)) {
                        guarded.used(lock, mode);
                    }
                    guarded.hold(lock, mode);
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(is_open(&shared.0));
        });
    }
}

/// Lending as `PartitionLock` does it: the holder waits until the flusher has taken the queued
/// epochs, all other threads wait until the lock is returned.
#[test]
fn a_lent_lock_is_returned_without_another_holder() {
    struct World {
        lock: FairLock,
        guarded: Guarded,
        taken: Event,
        returned: Event,
        is_lent: AtomicU64,
        queued: AtomicU64,
    }
    const EPOCHS: u64 = 3;
    impl World {
        fn take_unlent(&self, mode: Mode) {
            loop {
                assert!(self.lock.take_until(mode, None));
                if self.is_lent.load(Ordering::SeqCst) == 0 {
                    return;
                }
                let returns = self.returned.count();
                self.lock.release(mode);
                self.returned.wait(returns);
            }
        }

        fn push_all(&self) {
            self.take_unlent(Mode::Alone);
            let number = self.guarded.number.load(Ordering::SeqCst);
            for _ in 0..EPOCHS {
                self.queued.fetch_add(1, Ordering::SeqCst);
                loop {
                    let takings = self.taken.count();
                    if self.queued.load(Ordering::SeqCst) == 0 {
                        break;
                    }
                    self.is_lent.store(1, Ordering::SeqCst);
                    self.lock.release(Mode::Alone);
                    self.taken.wait(takings);
                    assert!(self.lock.take_until(Mode::Alone, None));
                }
                if self.is_lent.swap(0, Ordering::SeqCst) == 1 {
                    self.returned.happens();
                }
            }
            assert_eq!(self.guarded.number.load(Ordering::SeqCst), number, "a writer came in");
            self.lock.release(Mode::Alone);
        }

        fn flush_all(&self) {
            let mut flushed = 0;
            while flushed < EPOCHS {
                assert!(self.lock.take_until(Mode::Alone, None));
                if self.queued.swap(0, Ordering::SeqCst) == 1 {
                    flushed += 1;
                    self.taken.happens();
                }
                self.lock.release(Mode::Alone);
                thread::yield_now();
            }
        }
    }
    for step in [Duration::ZERO, LONG] {
        explore(move || {
            primitives::begin(step, false);
            let world = Arc::new(World {
                lock: FairLock::new(),
                guarded: Guarded::default(),
                taken: Event::new(),
                returned: Event::new(),
                is_lent: AtomicU64::new(0),
                queued: AtomicU64::new(0),
            });
            let works: [fn(&World); 4] = [
                World::push_all,
                World::flush_all,
                |world| {
                    world.take_unlent(Mode::Alone);
                    world.guarded.used(&world.lock, Mode::Alone);
                },
                |world| {
                    world.take_unlent(Mode::Shared);
                    world.guarded.used(&world.lock, Mode::Shared);
                },
            ];
            let threads = works.map(|work| {
                let world = world.clone();
                thread::spawn(move || work(&world))
            });
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(is_open(&world.lock));
        });
    }
}
