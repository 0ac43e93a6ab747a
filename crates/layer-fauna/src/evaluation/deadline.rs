//! The time limit of a query, and its transfer when it takes longer.
//!
//! A query starts on a thread that serves many connections. If it has to hash a password, must wait
//! for an issuer's keys, or is still running after [`HAND_OVER_MICROS`], its work is dropped and it
//! is restarted where it may take long. There it runs until its deadline. Time is the engine's; it
//! is checked every few steps.

use crate::evaluation::Evaluation;
use crate::language::error::{Code, Errors, Result};

/// Time that a query may take on a thread that others wait for.
const HAND_OVER_MICROS: u64 = 25_000;
/// The deadline of a request that names none.
const TIMEOUT_MS: u64 = 120_000;
/// Steps between two looks at the time.
const STEPS_BETWEEN_LOOKS: u64 = 256;
/// Bytes of a row that count as one step when it is read or written.
const BYTES_OF_A_STEP: usize = 1024;
/// Function calls in a query; the original allows 12,000 compute operations of 50 calls.
const STEPS_MAX: u64 = 600_000;

#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    deadline_micros: u64,
    /// Time at which to restart on another thread; `None`: this thread may take long.
    hand_over_micros: Option<u64>,
}

impl Deadline {
    pub fn new(may_take_long: bool, now_micros: u64, timeout_ms: Option<u64>) -> Deadline {
        let timeout_micros = timeout_ms.unwrap_or(TIMEOUT_MS) * 1_000;
        Deadline {
            deadline_micros: now_micros.saturating_add(timeout_micros),
            hand_over_micros: (!may_take_long).then_some(now_micros + HAND_OVER_MICROS),
        }
    }

    pub fn unlimited() -> Deadline {
        Deadline {
            deadline_micros: u64::MAX,
            hand_over_micros: None,
        }
    }

    pub fn may_take_long(&self) -> bool {
        self.hand_over_micros.is_none()
    }

    fn check(&self, now_micros: u64) -> Result<()> {
        if now_micros >= self.deadline_micros {
            return Err(Errors::protocol(Code::TimeOut, "Query timed out."));
        }
        match self.hand_over_micros {
            Some(end) if now_micros >= end => Err(takes_long()),
            _ => Ok(()),
        }
    }
}

/// Something keeps the partition's lock.
pub fn busy() -> Errors {
    Errors::protocol(
        Code::Busy,
        "The database is busy with something that takes long. Try again.",
    )
}

/// Stored data could not be read.
pub fn unreadable() -> Errors {
    Errors::protocol(Code::Unavailable, "The disk could not be read. Try again later.")
}

/// Another is home of the database now, or the log has failed.
pub fn not_home() -> Errors {
    Errors::protocol(Code::Unavailable, "The database has moved. Try again later.")
}

/// Not a reply: the query must be restarted where it may take long.
pub fn takes_long() -> Errors {
    Errors::protocol(Code::TakesLong, "")
}

impl Evaluation<'_> {
    /// Counts work that one function does many times.
    pub fn step(&mut self, count: usize) -> Result<()> {
        self.cost.steps += count as u64;
        match self.cost.steps < self.next_look && self.unlooked_work < STEPS_BETWEEN_LOOKS {
            true => Ok(()),
            false => self.look(),
        }
    }

    /// Counts work that is no call of a function, such as reading the parts of a set or its events:
    /// the time is looked at as often as for steps.
    pub fn work(&mut self, count: usize) -> Result<()> {
        self.unlooked_work = self.unlooked_work.saturating_add(count as u64);
        self.step(0)
    }

    /// Counts the bytes of a row as work, which the next step looks at: a query that reads or
    /// writes large documents takes long in few steps.
    pub fn work_on_row(&mut self, bytes: usize) {
        self.unlooked_work += 1 + (bytes / BYTES_OF_A_STEP) as u64;
    }

    fn look(&mut self) -> Result<()> {
        if let Some(errors) = &self.interrupted {
            return Err(errors.clone());
        }
        let steps = self.cost.steps;
        self.unlooked_work = 0;
        let in_time = match steps > STEPS_MAX {
            true => Err(Errors::new(
                Code::BadRequest,
                "Query exceeded the limit of compute operations.",
            )),
            // It has just started.
            false if self.next_look == 0 => self.deadline.check(self.view.clock_micros()),
            false => self.deadline.check(self.host.now_micros()),
        };
        self.next_look = (steps + STEPS_BETWEEN_LOOKS).min(STEPS_MAX + 1);
        in_time.map_err(|errors| self.interrupt(errors))
    }

    /// Ends the query with these errors, even where an error would be caught: predicates do.
    pub fn interrupt(&mut self, errors: Errors) -> Errors {
        self.next_look = 0;
        self.interrupted.get_or_insert(errors).clone()
    }

    /// Must be called before operations that take milliseconds.
    pub fn take_long(&mut self) -> Result<()> {
        match self.deadline.may_take_long() {
            true => Ok(()),
            false => Err(self.interrupt(takes_long())),
        }
    }
}
