//! The partition's lock, as a batch of requests holds it.

use quartet_engine::{Frozen, PartitionGuard, ReadGuard};
use quartet_model::Version;

use crate::execution::call::Reading;

/// The partition's lock, as a batch of requests holds it.
pub(super) enum Hold<'p> {
    Alone(PartitionGuard<'p>),
    /// Beside others who read.
    Beside(ReadGuard<'p>),
    /// Without the lock, which another keeps for a long transaction: the state before that.
    BeforeLong(Box<Frozen>),
}

impl<'p> Hold<'p> {
    /// The state for a request that only reads. `None`: the lock is held exclusively.
    pub(super) fn reading<'r>(&'r mut self) -> Option<Reading<'r, 'p>> {
        match self {
            Hold::Alone(_) => None,
            Hold::Beside(partition) => Some(Reading::Beside(partition)),
            Hold::BeforeLong(frozen) => Some(Reading::BeforeLong(frozen)),
        }
    }

    /// The latest commit.
    pub(super) fn last_version(&self) -> Version {
        match self {
            Hold::Alone(partition) => partition.last_version(),
            Hold::Beside(partition) => partition.last_version(),
            Hold::BeforeLong(frozen) => frozen.version,
        }
    }
}
