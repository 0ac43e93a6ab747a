//! Making a reader under the partition's lock.

use quartet_model::Version;

use crate::partition::PartitionGuard;
use crate::partition::reader::Readable;
use crate::partition::reader::Reader;
use crate::partition::shared::Shared;
use crate::partition::state::PartitionState;
use crate::space::Space;

/// One space at the latest commit.
pub(crate) fn reader_of(shared: &Shared, state: &PartitionState, space: Space, now_micros: u64) -> Reader {
    let durable = shared.durable();
    let dependency = shared.latest_dependency(state, space);
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
