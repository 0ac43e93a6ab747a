//! A reader-writer lock with bounded waiting.
//!
//! A thread that finds the lock free takes it, also before threads that sleep: handing it over at
//! each short transaction would cost more than the transactions. Once the oldest waiter has waited
//! for [`TURN`], the lock closes: it is granted in queue order until that waiter has run, and the
//! next waiter is admitted for as long. So uninterrupted readers and an uninterrupted writer take
//! turns, and a wait lasts at most one turn plus the holds of older waiters.
//!
//! ```text
//! bit 0      a writer holds it
//! bit 1      somebody is in the queue: whoever makes the lock free wakes the first
//! bit 2      closed: only the first of the queue may take it
//! bits 3..   how many readers hold it
//! ```

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::primitives::{AtomicU64, Mutex, MutexGuard, SPINS, Thread, current, now, park, spin};

const ALONE: u64 = 1;
const QUEUED: u64 = 2;
const CLOSED: u64 = 4;
const READER: u64 = 8;

/// The time for which other threads may take the lock before the oldest waiter.
const TURN: Duration = Duration::from_micros(500);

/// How a thread holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Beside others of this mode.
    Shared,
    Alone,
}

/// The lock without the protected value.
pub struct FairLock {
    word: AtomicU64,
    queue: Mutex<Queue>,
}

struct Queue {
    /// The waiters, the oldest first.
    waiters: VecDeque<Waiter>,
    next: u64,
}

struct Waiter {
    number: u64,
    thread: Thread,
    since: Instant,
    /// It was woken, and has not looked since.
    is_woken: bool,
}

impl FairLock {
    pub const fn new() -> FairLock {
        FairLock {
            word: AtomicU64::new(0),
            queue: Mutex::new(Queue {
                waiters: VecDeque::new(),
                next: 0,
            }),
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_take(&self, mode: Mode) -> bool {
        self.take(mode, false)
    }

    /// Takes the lock, or gives up at `deadline`.
    #[inline]
    pub fn take_until(&self, mode: Mode, deadline: Option<Instant>) -> bool {
        self.take(mode, false) || self.wait(mode, deadline)
    }

    #[inline]
    pub fn release(&self, mode: Mode) {
        let (before, is_free) = match mode {
            Mode::Alone => (self.word.fetch_and(!ALONE, Ordering::SeqCst), true),
            Mode::Shared => {
                let before = self.word.fetch_sub(READER, Ordering::SeqCst);
                (before, before < 2 * READER)
            }
        };
        if is_free && before & QUEUED != 0 {
            self.queue().wake_first();
        }
    }

    pub fn is_taken(&self) -> bool {
        self.word.load(Ordering::Relaxed) & !(QUEUED | CLOSED) != 0
    }

    /// There are threads that wait for it.
    pub fn is_wanted(&self) -> bool {
        self.word.load(Ordering::Relaxed) & QUEUED != 0
    }

    pub fn is_taken_alone(&self) -> bool {
        self.word.load(Ordering::Relaxed) & ALONE != 0
    }

    /// Returns true if it is free, with an empty queue and no flag set.
    #[cfg(test)]
    #[allow(dead_code, reason = "for the test of the interleavings, which includes this file")]
    pub fn is_at_rest(&self) -> bool {
        self.word.load(Ordering::SeqCst) == 0
    }

    /// Takes the lock if it is free for `mode`, and open or the taker `is_first` of the queue.
    #[inline]
    fn take(&self, mode: Mode, is_first: bool) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let is_free = match mode {
                Mode::Shared => word & ALONE == 0,
                Mode::Alone => word & ALONE == 0 && word < READER,
            };
            if !is_free || word & CLOSED != 0 && !is_first {
                return false;
            }
            let next = match mode {
                Mode::Shared => word + READER,
                Mode::Alone => word | ALONE,
            };
            match self
                .word
                .compare_exchange_weak(word, next, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(changed) => word = changed,
            }
        }
    }

    #[cold]
    fn wait(&self, mode: Mode, deadline: Option<Instant>) -> bool {
        for _ in 0..SPINS {
            spin();
            if self.take(mode, false) {
                return true;
            }
        }
        let since = now();
        let number = self.queue().add(since);
        // Before the first check: the thread that frees the lock afterwards sees that it has a
        // waiter.
        loop {
            let mut queue = self.queue();
            self.word.fetch_or(QUEUED, Ordering::SeqCst);
            let is_first = queue.is_first(number);
            let now = now();
            let turn_ends = since + TURN;
            if is_first {
                queue.waiters[0].is_woken = false;
                if now >= turn_ends {
                    self.word.fetch_or(CLOSED, Ordering::SeqCst);
                }
            }
            let is_taken = self.take(mode, is_first);
            if is_taken || deadline.is_some_and(|deadline| now >= deadline) {
                self.leave(&mut queue, number, now);
                return is_taken;
            }
            drop(queue);
            let turn_ends = (is_first && now < turn_ends).then_some(turn_ends);
            park(turn_ends.into_iter().chain(deadline).min());
        }
    }

    /// Removes a waiter from the queue. The next becomes the first, and checks: a reader may enter
    /// with another reader, and a waiter that gives up may have been woken instead of it.
    fn leave(&self, queue: &mut Queue, number: u64, now: Instant) {
        let was_first = queue.is_first(number);
        queue.waiters.retain(|waiter| waiter.number != number);
        let Some(first) = queue.waiters.front() else {
            self.word.fetch_and(!(QUEUED | CLOSED), Ordering::SeqCst);
            return;
        };
        if was_first {
            match now >= first.since + TURN {
                true => self.word.fetch_or(CLOSED, Ordering::SeqCst),
                false => self.word.fetch_and(!CLOSED, Ordering::SeqCst),
            };
            queue.wake_first();
        }
    }

    /// No thread panics while it holds it.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn add(&mut self, since: Instant) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiters.push_back(Waiter {
            number,
            thread: current(),
            since,
            is_woken: false,
        });
        number
    }

    fn is_first(&self, number: u64) -> bool {
        self.waiters.front().is_some_and(|waiter| waiter.number == number)
    }

    fn wake_first(&mut self) {
        if let Some(first) = self.waiters.front_mut()
            && !std::mem::replace(&mut first.is_woken, true)
        {
            first.thread.unpark();
        }
    }
}
