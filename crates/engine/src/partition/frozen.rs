//! A space as it was at one version, read without the lock by code that is written for
//! transactions.
//!
//! It holds what was live then, however long that takes: whoever freezes a space reads it through
//! and drops it. Nothing may be written: a transaction of it panics.

use quartet_model::Version;
use quartet_store::PartitionStore;

use crate::partition::state::PartitionState;
use crate::{Dependency, PartitionGuard, Space, Transaction};

/// One space as it was when it was frozen, to be read by transactions.
pub struct Frozen {
    state: PartitionState,
    space: Space,
    now_micros: u64,
    /// The dependency of all its contents; zero if everything was durable.
    pub dependency: Dependency,
    /// The latest commit that it shows.
    pub version: Version,
}

impl PartitionGuard<'_> {
    /// The space at the latest commit.
    pub fn freeze(&mut self, space: Space) -> Frozen {
        let now_micros = self.now_micros();
        let dependency = self.latest_dependency(space);
        let state = self.state();
        let version = state.last_version();
        Frozen {
            state: PartitionState::new(PartitionStore::Frozen(Box::new(state.snapshot())), version),
            space,
            now_micros,
            dependency,
            version,
        }
    }
}

impl Frozen {
    /// The time at which it was frozen, in microseconds since the Unix epoch.
    pub fn now_micros(&self) -> u64 {
        self.now_micros
    }

    /// Returns a transaction that reads. [`Transaction::is_unreadable`] reports that it could not
    /// read something.
    pub fn transaction(&mut self) -> Transaction<'_> {
        Transaction::new(&mut self.state, self.space, self.version, self.now_micros)
    }
}
