//! Making a reader under the partition's lock.

use quartet_model::Version;

use crate::partition::reader::Readable;
use crate::partition::shared::Shared;
use crate::partition::state::PartitionState;
use crate::{Dependency, Durability, PartitionGuard, Reader, Space};

/// The hold of an answer that may depend on anything committed so far.
pub(crate) fn latest_dependency_of(shared: &Shared, state: &PartitionState, space: Space) -> Dependency {
    match space.durability {
        Durability::Always => state.dependency_on_everything(shared.durable()),
        Durability::Interval | Durability::None => Version::ZERO,
    }
}

/// One space at the latest commit.
pub(crate) fn reader_of(shared: &Shared, state: &PartitionState, space: Space, now_micros: u64) -> Reader {
    let durable = shared.durable();
    let dependency = latest_dependency_of(shared, state, space);
    Reader {
        present_micros: state.present(now_micros),
        snapshot: Readable::new(state.snapshot()),
        prefix: space.prefix(),
        version: state.last_version(),
        durable: if dependency == Version::ZERO {
            state.last_version()
        } else {
            durable
        },
        dependency,
        now_micros,
    }
}

impl PartitionGuard<'_> {
    /// One space at the latest commit.
    pub fn reader(&self, space: Space) -> Reader {
        reader_of(self.shared, &self.state, space, self.now_micros)
    }
}
