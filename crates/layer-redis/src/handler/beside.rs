//! The notes of a read-only command that shares the lock: kept separately until its end, since the
//! layer's own lists belong to the command with the exclusive lock.

use std::cell::{Cell, RefCell};

use crate::command::Command;
use crate::command::error_reply::ErrorReply;
use crate::keyspace::changes::{Changes, What};

/// A command of a transaction that has run, to be counted at the end of the transaction.
pub struct Ran {
    pub command: &'static Command,
    /// Its duration.
    pub micros: u64,
    /// The time of its end.
    pub ended_micros: u64,
    /// The error that it has answered.
    pub error: Option<ErrorReply>,
}

pub struct Beside {
    changes: Changes,
    hits: Cell<u64>,
    misses: Cell<u64>,
    /// The exclusive lock is required.
    must_be_alone: Cell<bool>,
    ran: RefCell<Vec<Ran>>,
}

impl Beside {
    /// `are_changes_wanted`: the command's notes about keys will be published.
    /// `home_decides_until_ms`: see [`Changes::leave_to_home`].
    pub fn new(are_changes_wanted: bool, home_decides_until_ms: Option<u64>) -> Beside {
        let changes = Changes::default();
        changes.index(false);
        changes.want(are_changes_wanted);
        if let Some(until_ms) = home_decides_until_ms {
            changes.leave_to_home(until_ms);
        }
        Beside {
            changes,
            hits: Cell::new(0),
            misses: Cell::new(0),
            must_be_alone: Cell::new(false),
            ran: RefCell::default(),
        }
    }

    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    pub fn key_read(&self, hit: bool) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.set(counter.get() + 1);
    }

    /// Keys that were found, and that were looked for in vain.
    pub fn keys_read(&self) -> (u64, u64) {
        (self.hits.get(), self.misses.get())
    }

    /// Records work that requires the exclusive lock: a key has expired, and must be removed and
    /// announced.
    pub fn needs_lock_alone(&self) {
        self.must_be_alone.set(true);
    }

    /// Records a finished command of a transaction.
    pub fn has_run(&self, ran: Ran) {
        self.ran.borrow_mut().push(ran);
    }

    pub fn take_ran(&self) -> Vec<Ran> {
        self.ran.take()
    }

    /// Returns true if there is work or a notification that requires the exclusive lock. Misses are
    /// published if `are_misses_told`.
    pub fn must_be_alone(&self, are_misses_told: bool) -> bool {
        let is_told = |what: What| what != What::Missed || are_misses_told;
        let (changes, expired_fields) = self.changes.take_with_fields();
        if self.changes.is_for_home() || !expired_fields.is_empty() || changes.iter().any(|change| is_told(change.what))
        {
            self.needs_lock_alone();
        }
        self.must_be_alone.get()
    }
}
