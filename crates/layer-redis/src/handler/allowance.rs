//! The time for which a command that may visit much continues on its thread.
//!
//! With the partition's lock held it continues for a moment. Then its result is dropped, and it
//! starts again on a thread that may take long, at a snapshot and without the lock
//! ([`crate::execution::long_run`]). There it runs until its own time has ended, or until no client
//! waits for the answer any more.
//!
//! A command of a script or of a transaction that holds the lock ends when that must.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::connections::clients::Client;
use crate::scripting::long_scripts::{LongScripts, Stop};

/// Longest time for which a command may continue with the lock held, in microseconds.
pub const WITH_LOCK_MICROS: u64 = 1_000;

/// Elements that a command may visit with the lock held, if it knows their number before it starts:
/// about the number that it can visit in that time.
pub const WITH_LOCK_ELEMENTS: u64 = 10_000;

pub struct Allowance<'c> {
    bound: Bound<'c>,
    is_used_up: Cell<bool>,
}

enum Bound<'c> {
    /// The lock is held until this time.
    Until(u64),
    /// The answer is wanted while the client is connected and the server does not stop.
    Wanted(Arc<Client>, &'c LongScripts),
    /// The script or the transaction of the command continues.
    Of(&'c dyn Run),
}

/// A script or a transaction that holds the lock while its commands run.
pub trait Run {
    /// It must end now.
    fn must_end(&self, now_micros: u64) -> bool;

    /// Its next command is known to take long. Returns true if it must end before that.
    fn must_end_before_long(&self) -> bool;

    /// Why it must end, once it must.
    fn stopped(&self) -> Option<Stop>;
}

impl<'c> Allowance<'c> {
    /// For a command that started at `started_micros` and blocks others.
    pub fn with_lock(started_micros: u64) -> Allowance<'c> {
        Allowance::new(Bound::Until(started_micros + WITH_LOCK_MICROS))
    }

    /// For a command that blocks only its client.
    pub fn without_lock(client: &Arc<Client>, long_scripts: &'c LongScripts) -> Allowance<'c> {
        Allowance::new(Bound::Wanted(client.clone(), long_scripts))
    }

    /// For a command of a script or a transaction that holds the lock.
    pub fn within(run: &'c dyn Run) -> Allowance<'c> {
        Allowance::new(Bound::Of(run))
    }

    fn new(bound: Bound<'c>) -> Allowance<'c> {
        Allowance {
            bound,
            is_used_up: Cell::new(false),
        }
    }

    /// Returns true if the command must end without a reply. Called at intervals.
    pub fn ends(&self, now_micros: u64) -> bool {
        let ends = match &self.bound {
            Bound::Until(until_micros) => now_micros > *until_micros,
            Bound::Wanted(client, long_scripts) => {
                client.killed.load(Ordering::SeqCst)
                    || client.is_gone.load(Ordering::SeqCst)
                    || long_scripts.is_abandoned()
            }
            Bound::Of(run) => run.must_end(now_micros),
        };
        if ends {
            self.is_used_up.set(true);
        }
        ends
    }

    /// The command is known to take long: it has to end if it holds the lock by itself.
    pub fn ends_before_long(&self) -> bool {
        let ends = match &self.bound {
            Bound::Until(_) => true,
            Bound::Wanted(..) => false,
            Bound::Of(run) => run.must_end_before_long(),
        };
        if ends {
            self.is_used_up.set(true);
        }
        ends
    }

    /// Why the script or the transaction must end that the command is of, if it must.
    pub fn stopped(&self) -> Option<Stop> {
        match &self.bound {
            Bound::Of(run) => run.stopped(),
            Bound::Until(_) | Bound::Wanted(..) => None,
        }
    }

    /// The command had to end: what it has answered is none.
    pub fn is_used_up(&self) -> bool {
        self.is_used_up.get()
    }
}
