//! A space as it was at one version, read without the lock by code that is written for
//! transactions.
//!
//! It keeps the rows of that version in memory until it is dropped: the caller reads the space once
//! and drops it. It cannot be written.

use quartet_model::Version;
use quartet_store::{PartitionSnapshot, PartitionStore};

use crate::partition::ExecuteError;
use crate::partition::PartitionGuard;
use crate::partition::read_guard::{MustWrite, ReadGuard};
use crate::partition::shared::Shared;
use crate::partition::state::Dependency;
use crate::partition::state::PartitionState;
use crate::partition::transaction::Transaction;
use crate::space::Space;

/// One space as it was when it was frozen, read by transactions.
pub struct Frozen {
    state: PartitionState,
    space: Space,
    now_micros: u64,
    /// The dependency of all its contents; zero if everything was durable.
    pub dependency: Dependency,
    /// The latest commit that it shows.
    pub version: Version,
}

fn freeze(shared: &Shared, state: &PartitionState, space: Space, now_micros: u64) -> Frozen {
    let version = state.last_version();
    let mut frozen = Frozen::of_snapshot(state.snapshot(), space, version);
    frozen.state.is_home = state.is_home;
    frozen.now_micros = now_micros;
    frozen.dependency = shared.latest_dependency(state, space);
    frozen
}

impl PartitionGuard<'_> {
    /// The space at the latest commit.
    pub fn freeze(&self, space: Space) -> Frozen {
        freeze(self.shared, &self.state, space, self.now_micros())
    }
}

impl ReadGuard<'_> {
    /// The space at the latest commit.
    pub fn freeze(&self, space: Space) -> Frozen {
        freeze(self.shared(), self.state(), space, self.now_micros())
    }
}

impl Frozen {
    /// One space of an immutable state. Its time is that of its newest commit.
    pub(crate) fn of_snapshot(snapshot: PartitionSnapshot, space: Space, version: Version) -> Frozen {
        let store = PartitionStore::Frozen(Box::new(snapshot));
        Frozen {
            state: PartitionState::new(store, version),
            space,
            now_micros: version.0,
            dependency: Dependency::ZERO,
            version,
        }
    }

    /// See [`crate::Engine::frozen_before_long`].
    pub(crate) fn before_long(shared: &Shared, space: Space) -> Option<Frozen> {
        let (snapshot, version) = shared.before_long.copy(space.database)?;
        let mut frozen = Frozen::of_snapshot(snapshot, space, version);
        frozen.now_micros = shared.clock.now_micros();
        frozen.dependency = shared.latest_dependency(&frozen.state, space);
        Some(frozen)
    }

    /// The time of the freeze, in microseconds since the Unix epoch.
    pub fn now_micros(&self) -> u64 {
        self.now_micros
    }

    /// Returns a transaction that reads. [`Transaction::is_unreadable`] reports that it could not
    /// read something.
    pub fn transaction(&mut self) -> Transaction<'_> {
        let key = std::mem::take(&mut self.state.key);
        Transaction::reading(&self.state, key, self.space, self.version, self.now_micros)
    }

    /// Runs `body` as one transaction, as [`ReadGuard::execute`] does it, without the lock. Its
    /// answer depends on all that was committed when the space was frozen.
    pub fn execute<R, E>(
        &mut self,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<Result<(R, Dependency), ExecuteError<E>>, MustWrite> {
        if !self.state.is_home {
            return Ok(Err(ExecuteError::NotHome));
        }
        let dependency = self.dependency;
        let mut transaction = self.transaction();
        let answer = transaction.run(body);
        if transaction.must_write() {
            return Err(MustWrite);
        }
        let Some(answer) = answer else {
            return Ok(Err(ExecuteError::Unreadable(dependency)));
        };
        Ok(match answer {
            Ok(answer) => Ok((answer, dependency)),
            Err(error) => Err(ExecuteError::Layer(error, dependency)),
        })
    }
}
