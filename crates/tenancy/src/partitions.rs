//! The partitions of a process: an engine each, with its own log and lock. Every logical database
//! is in exactly one of them; the catalogue and the default database are in the first.
//!
//! A row of the system space of each partition except the first has its number:
//!
//! ```text
//! 'P'   the number of the partition, u32, big endian
//! ```

use std::sync::Arc;

use quartet_engine::{Engine, PartitionId};

pub(crate) const NUMBER: &[u8] = b"P";

/// The engines, by the numbers of their partitions.
pub struct Partitions {
    engines: Vec<Arc<Engine>>,
    /// The id of the first engine's partition.
    first: PartitionId,
}

impl Partitions {
    /// `engines` has one at least.
    pub fn new(engines: Vec<Arc<Engine>>) -> Partitions {
        assert!(!engines.is_empty(), "the catalogue is in the first partition");
        let first = PartitionId(0);
        Partitions { engines, first }
    }

    /// A single partition after the first: its server sees no other.
    pub fn of_one(first: PartitionId, engine: Arc<Engine>) -> Partitions {
        let engines = vec![engine];
        Partitions { engines, first }
    }

    /// The engine of the catalogue and of the default database; or of the single partition of this
    /// process.
    #[inline]
    pub fn first(&self) -> &Arc<Engine> {
        &self.engines[0]
    }

    /// The engine of a partition that there is: the catalogue names no other.
    #[inline]
    pub fn engine(&self, id: PartitionId) -> &Arc<Engine> {
        &self.engines[self.place(id)]
    }

    /// Index of a partition among those of this process. The first of them also has the index of
    /// partition 0, to which all requests without a database belong.
    #[inline]
    pub fn place(&self, id: PartitionId) -> usize {
        id.0.saturating_sub(self.first.0) as usize
    }

    pub fn count(&self) -> usize {
        self.engines.len()
    }

    pub fn has(&self, id: PartitionId) -> bool {
        id >= self.first && self.place(id) < self.engines.len()
    }

    /// In the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (PartitionId, &Arc<Engine>)> {
        (self.first.0..).map(PartitionId).zip(&self.engines)
    }

    pub fn into_engines(self) -> Vec<Arc<Engine>> {
        self.engines
    }
}

/// The bytes of a partition's row.
pub(crate) fn number_row(id: PartitionId) -> [u8; 4] {
    id.0.to_be_bytes()
}

/// Parses them.
pub(crate) fn number_in(row: &[u8]) -> Option<PartitionId> {
    row.try_into().ok().map(u32::from_be_bytes).map(PartitionId)
}
