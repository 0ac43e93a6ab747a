//! The heartbeats of homes: each node listens to the home of each partition, and a home sends them.

use std::sync::Arc;
use std::time::Instant;

use quartet_cluster::silence::BEAT_EVERY;
use quartet_cluster::state::Health;
use quartet_engine::Engine;
use quartet_log_replicated::{NodeId, PartitionId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::{LOOK_EVERY, Shared};
use crate::cluster::link;
use crate::cluster::protocol::NodeRequest;
use crate::connections::stream::Stream;

impl Shared {
    /// Returns true if this node sends heartbeats as home of the partition.
    fn is_living_home(&self, partition: PartitionId) -> bool {
        let health = |engine: &Arc<Engine>| {
            let figures = engine.replication();
            Health {
                is_home: engine.is_home(),
                is_cut_off: figures.is_cut_off,
                stalled_millis: figures.stalled_millis,
                is_disk_full: engine.is_disk_full(),
            }
        };
        let engines: Vec<Health> = self.engines().map(health).collect();
        let has_fit_other = self.home.members.has_fit_other();
        self.state().beats(partition, &engines, has_fit_other, Instant::now())
    }

    pub(super) fn is_disk_full(&self) -> bool {
        self.engines().any(|engine| engine.is_disk_full())
    }

    pub(super) fn is_any_home_silent(&self) -> bool {
        self.state().is_any_home_silent(Instant::now())
    }

    /// The known homes, by partition.
    pub(super) fn heard_homes(&self) -> Vec<Option<u64>> {
        let heard = self.state().heard_homes(Instant::now());
        heard.into_iter().map(|home| home.map(|home| home.0)).collect()
    }

    fn heard(&self, partition: PartitionId) {
        self.state().heard(partition, Instant::now());
    }

    pub(super) async fn listen_for_homes(self: &Arc<Shared>) {
        let mut listening = JoinSet::new();
        for (partition, _) in self.foundation.partitions.iter() {
            let shared = self.clone();
            listening.spawn(async move { shared.listen_for_home(partition).await });
        }
        while listening.join_next().await.is_some() {}
    }

    /// Receives the heartbeats of a partition's home, on any node.
    async fn listen_for_home(&self, partition: PartitionId) {
        let watch = NodeRequest::Watch(partition);
        let members = &self.home.members;
        loop {
            let home = members.home(partition);
            self.state().listens_to(partition, home, Instant::now());
            if self.foundation.partitions.engine(partition).is_home() {
                self.heard(partition);
                tokio::time::sleep(BEAT_EVERY).await;
                continue;
            }
            let called = match members.other_home(partition) {
                Some(member) => self.home.link.call(&member.address, &watch).await.ok(),
                None => None,
            };
            match called {
                Some(stream) => self.hear_beats(partition, home, stream).await,
                None => self.state().unreachable(partition, Instant::now()),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Receives the heartbeats of one home until its connection ends, or another node is home.
    async fn hear_beats(&self, partition: PartitionId, home: Option<NodeId>, mut stream: Box<dyn Stream>) {
        let heard = || {
            self.heard(partition);
            let members = &self.home.members;
            home.inspect(|home| members.note_heard(partition, *home, Instant::now()));
        };
        heard();
        loop {
            match tokio::time::timeout(BEAT_EVERY, stream.read_u8()).await {
                Ok(Ok(_)) => heard(),
                Ok(Err(_)) => return,
                // Silence: its length is the time since the last beat.
                Err(_) => {}
            }
            if self.home.members.home(partition) != home {
                return;
            }
        }
    }

    /// Says that this home of a partition lives, as long as the caller listens.
    pub(super) async fn beat(&self, partition: PartitionId, mut stream: Box<dyn Stream>) -> std::io::Result<()> {
        link::accept(stream.as_mut()).await?;
        loop {
            if self.is_living_home(partition) {
                stream.write_u8(b'.').await?;
                stream.flush().await?;
            }
            // The peer sends nothing more, so any read returns the end.
            if let Ok(end) = tokio::time::timeout(BEAT_EVERY, stream.read_u8()).await {
                return end.map(drop);
            }
        }
    }
}
