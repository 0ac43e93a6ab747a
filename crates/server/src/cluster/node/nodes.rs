//! The nodes as layers and operators see them.

use std::any::Any;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use quartet_log_etcd::Etcd;
use quartet_log_replicated::PartitionId;
use serde_json::json;
use tokio::sync::watch;

use super::serving::Way;
use super::{LOOK_EVERY, NOT_HOME, Shared};
use crate::cluster::carrying::PATIENCE;
use crate::cluster::formats;
use crate::cluster::forward;
use crate::layers::parts::{Calling, Leaving, Nodes, OtherNode, PushError, Whereabouts};
use crate::metrics::Service;

/// Time for which a push is repeated.
const PUSH_TIMEOUT: Duration = Duration::from_secs(10);

impl Nodes for Shared {
    fn describe(&self) -> serde_json::Value {
        let mut described = self.home.members.describe(self.own_member());
        let mut records = 0;
        self.engines()
            .for_each(|engine| records += engine.replication().window_bytes);
        described["etcd"] = json!({
            "members": self.home.members.etcd(),
            "records_bytes": records,
            "budget_bytes": self.settings.etcd.budget_bytes,
        });
        described
    }

    fn home_of(&self, partition: PartitionId) -> Option<String> {
        self.home.members.home_of(partition)
    }

    fn hears_home(&self) -> bool {
        self.heard_homes().first().copied().flatten().is_some()
    }

    fn whereabouts(&self, partition: PartitionId) -> Whereabouts {
        if self.foundation.partitions.engine(partition).is_home() {
            return Whereabouts::Here;
        }
        let other = self.home.members.other_home(partition);
        other.map_or(Whereabouts::Nobody, |home| Whereabouts::Elsewhere(home.name))
    }

    fn call(self: Arc<Self>, partition: PartitionId, listener: &'static str, peer: SocketAddr) -> Calling {
        Box::pin(async move {
            let until = Instant::now() + PATIENCE;
            loop {
                let called = match self.whereabouts(partition) {
                    Whereabouts::Here => self.enter(partition, listener, peer).await?,
                    Whereabouts::Elsewhere(_) => self.home.call_partition(partition, listener, peer).await,
                    Whereabouts::Nobody => None,
                };
                if let Some(stream) = called {
                    return Ok(stream);
                }
                if Instant::now() >= until {
                    return Err(std::io::ErrorKind::TimedOut.into());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
    }

    fn carry(self: Arc<Self>, leaving: Leaving) {
        let Some(leaving) = self.carried.give(leaving) else {
            return;
        };
        let (home, pages) = (self.home.clone(), self.pages().clone());
        self.carriers.spawn(forward::continue_elsewhere(home, leaving, pages));
    }

    fn may_carry(&self) -> bool {
        !self.is_over()
    }

    fn push(&self, partition: PartitionId, number: u64, bytes: &[u8]) -> Result<(), PushError> {
        let until = Instant::now() + PUSH_TIMEOUT;
        loop {
            if !self.foundation.engine.is_home() || self.is_over() {
                return Err(PushError::Over);
            }
            let pushed = match self.whereabouts(partition) {
                Whereabouts::Here => self.take_push(partition, number, bytes),
                Whereabouts::Elsewhere(_) => self.push_to_other(partition, number, bytes),
                Whereabouts::Nobody => Err(NOT_HOME.to_owned()),
            };
            match pushed {
                Ok(()) => return Ok(()),
                Err(reason) => tracing::debug!(partition = partition.0, number, reason, "a push is repeated"),
            }
            if Instant::now() >= until {
                return Err(PushError::NoHome(partition));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn gather(&self) {
        self.state().gather(Instant::now());
    }

    fn hand_over(&self, name: &str) -> Result<()> {
        self.make_home(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut sequencer = Etcd::open(&self.settings.etcd).context("log")?;
        self.home.members.remove(&mut sequencer, name)
    }

    fn finish_upgrade(&self) -> Result<u32> {
        let mut sequencer = Etcd::open(&self.settings.etcd).context("log")?;
        formats::finish_upgrade(&mut sequencer, &self.home.members)
    }

    fn outlive_terms(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let mut over = self.over.subscribe();
        self.carriers.spawn(async move {
            tokio::select! {
                () = task => {}
                _ = over.wait_for(|over| *over) => {}
            }
        });
    }

    fn redis_home(&self) -> watch::Receiver<Option<String>> {
        self.home.members.redis_home()
    }

    fn own_redis(&self) -> Option<String> {
        self.own_member().redis
    }

    fn others(&self) -> Vec<OtherNode> {
        self.home.members.others()
    }

    fn records(&self) -> u64 {
        self.foundation.engine.replication().applied
    }

    fn services(&self) -> Vec<Box<dyn Any + Send + Sync>> {
        let ways = self.ways.read();
        let others = (0..).map(PartitionId).zip(&*ways).skip(1);
        let services = others.filter_map(|(partition, way)| {
            let Way { tenants, redis, .. } = way.clone()?;
            Some(Box::new(Service {
                partition,
                redis: redis?,
                tenants,
            }) as Box<dyn Any + Send + Sync>)
        });
        services.collect()
    }
}
