//! Messages from a home of the first partition to the other homes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use quartet_engine::{Dependency, Durability};
use quartet_log_replicated::PartitionId;
use tokio::io::AsyncReadExt;

use super::{NOT_HOME, Shared};
use crate::cluster::link;
use crate::cluster::protocol::NodeRequest;
use crate::connections::stream::Stream;

/// Time limit of its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

impl Shared {
    /// Takes what the home of the first partition has decided, durably.
    pub(super) fn take_push(&self, partition: PartitionId, number: u64, bytes: &[u8]) -> Result<(), String> {
        let Some(way) = self.way(partition).filter(|_| partition != PartitionId(0)) else {
            // Another node may be home of the first partition: a home detects that by a check.
            let first = &self.foundation.engine;
            let _ = first.settled(Dependency::ZERO, first.arrival(Durability::Always));
            return Err(NOT_HOME.to_owned());
        };
        way.tenants.take_push(number, bytes).map_err(|error| error.to_string())
    }

    pub(super) async fn hear_push(
        self: Arc<Shared>,
        partition: PartitionId,
        number: u64,
        bytes: u64,
        mut stream: Box<dyn Stream>,
    ) -> std::io::Result<()> {
        link::accept(stream.as_mut()).await?;
        let mut pushed = Vec::new();
        stream.as_mut().take(bytes).read_to_end(&mut pushed).await?;
        if pushed.len() as u64 != bytes {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let took = tokio::task::spawn_blocking(move || self.take_push(partition, number, &pushed)).await;
        link::say(stream.as_mut(), took.unwrap_or_else(|error| Err(error.to_string()))).await
    }

    pub(super) fn push_to_other(&self, partition: PartitionId, number: u64, bytes: &[u8]) -> Result<(), String> {
        let home = self.home.members.other_home(partition).ok_or(NOT_HOME)?;
        let push = NodeRequest::Push {
            partition,
            number,
            bytes: bytes.len() as u64,
        };
        self.ask(&home, &push, bytes, ANSWER_TIMEOUT)
            .map_err(|error| error.to_string())
    }
}
