//! The notes of a command that only reads, beside others that do: kept by itself until the command
//! is over, since what the layer gathers belongs to the one command that has the lock alone.

use std::cell::Cell;

use crate::keyspace::changes::{Changes, What};

pub struct Beside {
    changes: Changes,
    hits: Cell<u64>,
    misses: Cell<u64>,
    found_expired: Cell<bool>,
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
            found_expired: Cell::new(false),
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

    /// A key has expired, and is to be removed and announced.
    pub fn found_expired(&self) {
        self.found_expired.set(true);
    }

    /// There is something to do or to announce for which the lock is needed alone. Misses are
    /// announced if `are_misses_told`.
    pub fn must_be_alone(&self, are_misses_told: bool) -> bool {
        let is_told = |what: What| what != What::Missed || are_misses_told;
        let (changes, expired_fields) = self.changes.take_with_fields();
        self.found_expired.get() || !expired_fields.is_empty() || changes.iter().any(|change| is_told(change.what))
    }
}
