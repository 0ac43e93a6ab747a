//! Making a reader under the partition's lock.

use quartet_model::Version;

use crate::partition::reader::Readable;
use crate::{PartitionGuard, Reader, Space};

impl PartitionGuard<'_> {
    /// One space at the latest commit.
    pub fn reader(&mut self, space: Space) -> Reader {
        let now_micros = self.now_micros();
        let durable = self.durable();
        let dependency = self.latest_dependency(space);
        let state = self.state();
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
}
