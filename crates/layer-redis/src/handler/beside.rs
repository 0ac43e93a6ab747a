//! The notes of a command that only reads, beside others that do: kept by itself until the command
//! is over, since what the layer gathers belongs to the one command that has the lock alone.

use std::cell::{Cell, RefCell};

use crate::command::Command;
use crate::command::error_reply::ErrorReply;
use crate::keyspace::changes::{Changes, What};

/// A command of a transaction that has run, to be counted when the transaction is over.
pub struct Ran {
    pub command: &'static Command,
    /// How long it took.
    pub micros: u64,
    /// When it ended.
    pub ended_micros: u64,
    /// The error that it has answered.
    pub error: Option<ErrorReply>,
}

pub struct Beside {
    changes: Changes,
    hits: Cell<u64>,
    misses: Cell<u64>,
    /// The lock is needed alone.
    must_be_alone: Cell<bool>,
    ran: RefCell<Vec<Ran>>,
}

impl Beside {
    /// `are_changes_wanted`: somebody wants to hear of what the command notes about keys.
    pub fn new(are_changes_wanted: bool) -> Beside {
        let changes = Changes::default();
        changes.index(false);
        changes.want(are_changes_wanted);
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

    /// There is something to do for which the lock is needed alone: a key has expired, and is to be
    /// removed and announced.
    pub fn needs_lock_alone(&self) {
        self.must_be_alone.set(true);
    }

    /// A command of a transaction is over.
    pub fn has_run(&self, ran: Ran) {
        self.ran.borrow_mut().push(ran);
    }

    pub fn take_ran(&self) -> Vec<Ran> {
        self.ran.take()
    }

    /// There is something to do or to announce for which the lock is needed alone. Misses are
    /// announced if `are_misses_told`.
    pub fn must_be_alone(&self, are_misses_told: bool) -> bool {
        let is_told = |what: What| what != What::Missed || are_misses_told;
        let (changes, expired_fields) = self.changes.take_with_fields();
        if !expired_fields.is_empty() || changes.iter().any(|change| is_told(change.what)) {
            self.needs_lock_alone();
        }
        self.must_be_alone.get()
    }
}
