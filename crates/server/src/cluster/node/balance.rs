//! Spreads the homes over the nodes, so that all have about the same number, or gathers them at one
//! node.

use std::time::Instant;

use anyhow::{Context, Result};
use quartet_cluster::silence::BEAT_EVERY;
use quartet_cluster::state::{Homes, Move};
use quartet_log_replicated::{NodeId, PartitionId};

use super::{DRAIN_TIMEOUT, Shared};
use crate::cluster::protocol::NodeRequest;

impl Shared {
    /// Moves homes as the state decides, until the node ends.
    pub(super) fn balance(&self) {
        while !self.is_over() {
            std::thread::sleep(BEAT_EVERY);
            let way = self.way(PartitionId(0));
            let known = Homes {
                homes: self.home.members.all_homes(),
                fit: self.home.members.fit(),
                is_moving: way.is_some_and(|way| way.tenants.is_any_moving()),
            };
            let is_home = self.foundation.engine.is_home();
            let next = self.state().balance(&known, is_home, Instant::now());
            let Some(Move { partition, to }) = next else {
                continue;
            };
            if let Err(error) = self.give(partition, to) {
                tracing::info!(partition = partition.0, "no other node became home: {error:#}");
                self.state().balance_failed(Instant::now());
            }
        }
    }

    /// Makes a node home of a partition that has another home.
    pub(super) fn give(&self, partition: PartitionId, node: NodeId) -> Result<()> {
        let members = &self.home.members;
        if self.foundation.partitions.engine(partition).is_home() {
            return self.hand_over_own(partition, node);
        }
        // Clients would reach it through this node.
        if node != self.settings.node() {
            let successor = members.member(node).context("the node is not there")?;
            self.call_once(&successor, &NodeRequest::Watch(PartitionId(0)))?;
        }
        let home = members.other_home(partition).context("no node is home")?;
        Ok(self.ask(
            &home,
            &NodeRequest::HandOver { partition, node },
            &[],
            3 * DRAIN_TIMEOUT,
        )?)
    }
}
