//! The catalogue of a node that is not home: it is read, and never written.
//!
//! The copy is as of one state of the node. A request reads it again once one of its rows has
//! changed, so that a revoked credential opens nothing.

use std::sync::Arc;

use quartet_engine::{Busy, Durability, Engine, PartitionGuard, WatchId};
use quartet_model::{KeyRange, LayerId};

use crate::catalogue::{Catalogue, Database, Random, Seen};
use crate::partitions::Partitions;
use crate::rows::{CatalogueError, space};

/// The rows of usage, which change all the time and are in no catalogue's index.
const USAGE: u8 = b'U';

impl Catalogue {
    /// Reads the catalogue at a node that is not home. Its meters start empty: they count what this
    /// node answers.
    pub fn open_replica(partitions: Arc<Partitions>, random: Random) -> Result<Catalogue, CatalogueError> {
        Catalogue::read_rows(partitions, Seen::Replica, random)
    }
}

/// Calls `changed` whenever a row of the catalogue changes, under the partition's lock.
pub fn watch_catalogue(first: &Engine, changed: Arc<dyn Fn() + Send + Sync>) -> Result<[WatchId; 2], Busy> {
    let mut partition: PartitionGuard<'_> = first.partition_in_time()?;
    let before = KeyRange::new(Vec::new(), vec![USAGE]);
    let after = KeyRange::new(vec![USAGE + 1], vec![u8::MAX]);
    Ok([before, after].map(|range| {
        let changed = changed.clone();
        partition.watch_range(space(Durability::Always), &range, Arc::new(move |_: &[u8]| changed()))
    }))
}

impl Database {
    /// Returns true if a node that is not home may answer reads of one of its layers: every write
    /// is acknowledged after its record, and no quota counts requests, which only the home counts.
    /// `has_one_partition`: the database is never moved.
    pub fn is_read_at_replicas(&self, layer: LayerId, has_one_partition: bool) -> bool {
        let definition = self.definition();
        let quotas = &definition.quotas;
        let is_counted = quotas.commands_per_second.is_some() || quotas.commands_per_day.is_some();
        self.space(layer).durability == Durability::Always && has_one_partition && !is_counted && !self.is_closed()
    }
}
