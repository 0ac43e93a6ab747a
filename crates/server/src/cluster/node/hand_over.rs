//! The hand-over of a home to another node, without an unfinished write.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quartet_engine::{Condition, Dependency, Durability, Engine, Role};
use quartet_log_replicated::{NodeId, PartitionId};
use tokio::io::AsyncWriteExt;

use super::{DRAIN_TIMEOUT, LOOK_EVERY, Shared};
use crate::cluster::link;
use crate::cluster::members::Member;
use crate::cluster::protocol::NodeRequest;
use crate::connections::stream::Stream;
use crate::settings::node_id;

/// A node must have read etcd within this time to become home. It does so each second.
const READ_WITHIN: Duration = Duration::from_millis(2_500);
/// The refusal of a node that may have a wrong state.
pub(super) const STATE_DIFFERS: &str = "its state differs from another node's";
/// The refusal of a node without a comparison of its state since it started.
const STATE_NOT_COMPARED: &str =
    "it has not compared its state with the others' since it started: ask again in some seconds";
/// How long requests may be held until the running requests have ended.
const HOLD_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a stopping node waits for the clients that continue at another node.
const LEAVING_TIMEOUT: Duration = Duration::from_secs(2);

impl Shared {
    /// Makes the named node home of all partitions of this node, without interrupting a write.
    pub(super) fn make_home(&self, name: &str) -> Result<()> {
        let view = self.home.members.view();
        let successor = view.members.into_values().find(|member| member.name == name);
        let successor = successor.with_context(|| format!("no node {name} is there"))?;
        ensure!(self.foundation.engine.is_home(), "this node is not home");
        ensure!(name != self.settings.node_name, "this node is home already");
        let partitions = self.foundation.partitions.iter();
        let own = partitions.filter(|(_, engine)| engine.is_home());
        self.hand_over_to(&own.map(|(partition, _)| partition).collect::<Vec<_>>(), &successor)
    }

    pub(super) fn hand_over_own(&self, partition: PartitionId, node: NodeId) -> Result<()> {
        let successor = self.home.members.member(node).context("the node is not there")?;
        ensure!(node != self.settings.node(), "this node is home already");
        ensure!(
            self.foundation.partitions.engine(partition).is_home(),
            "this node is not home"
        );
        self.hand_over_to(&[partition], &successor)
    }

    /// Makes another node home of some of this node's partitions.
    pub(super) fn hand_over_to(&self, partitions: &[PartitionId], successor: &Member) -> Result<()> {
        ensure!(self.state().begin_hand_over(), "another hand-over is under way");
        let handed = self.hand_over_once(partitions, successor);
        self.state().end_hand_over();
        handed
    }

    fn hand_over_once(&self, partitions: &[PartitionId], successor: &Member) -> Result<()> {
        // Requests wait only for a node that is reached and could take over.
        let asked = self.ask(successor, &NodeRequest::MayTakeOver, &[], 2 * READ_WITHIN);
        asked.with_context(|| format!("{} could not take over", successor.name))?;
        let engines = || partitions.iter().map(|id| self.foundation.partitions.engine(*id));
        let held = || engines().all(|engine| engine.hold_requests(HOLD_TIMEOUT));
        let handed = held()
            .then(|| engines().for_each(|engine| engine.drain()))
            .context("a request takes long, and has to end first")
            .and_then(|()| self.ask_to_take_over(partitions, successor))
            .and_then(|()| engines().try_for_each(|engine| self.wait_for(engine, &successor.name)));
        if handed.is_err() {
            engines().for_each(|engine| engine.resume());
        }
        handed
    }

    fn ask_to_take_over(&self, partitions: &[PartitionId], successor: &Member) -> Result<()> {
        let until = Instant::now() + DRAIN_TIMEOUT;
        let is_drained = |id: &PartitionId| {
            matches!(
                self.foundation.partitions.engine(*id).role(),
                Role::Home {
                    condition: Condition::Drained,
                    ..
                }
            )
        };
        while !partitions.iter().all(is_drained) {
            ensure!(Instant::now() < until, "not everything was confirmed in time");
            std::thread::sleep(LOOK_EVERY);
        }
        for partition in partitions {
            self.call_once(successor, &NodeRequest::TakeOver(*partition))?;
        }
        Ok(())
    }

    /// Waits until the named node has become home in place of this node.
    pub(super) fn wait_for(&self, engine: &Engine, name: &str) -> Result<()> {
        let until = Instant::now() + DRAIN_TIMEOUT;
        loop {
            match engine.role() {
                Role::Following { home: Some(home), .. } if home.node == node_id(name) => return Ok(()),
                Role::Following { home: Some(home), .. } if home.node != self.settings.node() => {
                    anyhow::bail!("another node than {name} has become home")
                }
                Role::Copying | Role::Stopped(_) => anyhow::bail!("this node is no longer home, and serves nothing"),
                _ => ensure!(Instant::now() < until, "{name} has not taken over in time"),
            }
            // Requests a confirmation, which fails if this node is no longer home.
            let _ = engine.settled(Dependency::ZERO, engine.arrival(Durability::Always));
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub(super) async fn hear_hand_over(
        self: Arc<Shared>,
        partition: PartitionId,
        node: NodeId,
        mut stream: Box<dyn Stream>,
    ) -> std::io::Result<()> {
        link::accept(stream.as_mut()).await?;
        let handed = tokio::task::spawn_blocking(move || self.hand_over_own(partition, node)).await;
        let handed = handed.unwrap_or_else(|error| Err(error.into()));
        link::say(stream.as_mut(), handed.map_err(|error| format!("{error:#}"))).await
    }

    /// Returns true while the state of any partition differs from another node's.
    pub(super) fn is_in_doubt(&self) -> bool {
        let mut partitions = self.foundation.partitions.iter();
        partitions.any(|(id, _)| self.state().is_in_doubt(id))
    }

    /// Says whether this node could take over: its state was compared and does not differ from
    /// other nodes', and etcd answers a read that starts now.
    pub(super) async fn hear_may_take_over(&self, mut stream: Box<dyn Stream>) -> std::io::Result<()> {
        link::accept(stream.as_mut()).await?;
        let asked = Instant::now();
        let answer = loop {
            let is_late = asked.elapsed() >= READ_WITHIN;
            match self.why_not_home(asked) {
                None => break Ok(()),
                Some(refusal) if is_late || refusal == STATE_DIFFERS => break Err(refusal.to_owned()),
                Some(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        link::say(stream.as_mut(), answer).await
    }

    /// Returns why this node could not take over now.
    fn why_not_home(&self, asked: Instant) -> Option<&'static str> {
        if self.is_in_doubt() {
            return Some(STATE_DIFFERS);
        }
        let mut partitions = self.foundation.partitions.iter();
        if !partitions.all(|(id, engine)| engine.is_home() || self.state().has_agreed(id)) {
            return Some(STATE_NOT_COMPARED);
        }
        let began = self.home.members.view().term_read_began(PartitionId(0));
        let is_answered = began.is_some_and(|began| began >= asked);
        (!is_answered).then_some("etcd does not answer this node")
    }

    /// Waits, after a hand-over, until the layers have ended and other nodes have their clients,
    /// and new clients are passed on: without a listener, clients in its queue would be reset.
    pub(super) fn wait_until_left(&self) {
        let until = Instant::now() + LEAVING_TIMEOUT;
        while Instant::now() < until && (!self.services.lock().pass_all_on() || !self.carried.is_empty()) {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Calls another node, which must accept the request.
    pub(super) fn call_once(&self, node: &Member, request: &NodeRequest) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let called = runtime.block_on(self.home.link.call(&node.address, request));
        called
            .map(drop)
            .with_context(|| format!("asking {}: {request}", node.name))
    }

    /// Sends a request to another node and waits for its answer.
    pub(super) fn ask(
        &self,
        node: &Member,
        request: &NodeRequest,
        bytes: &[u8],
        limit: Duration,
    ) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let asked = async {
            let mut stream = self.home.link.call(&node.address, request).await?;
            stream.write_all(bytes).await?;
            stream.flush().await?;
            link::hear_said(stream.as_mut()).await
        };
        let timed = async { tokio::time::timeout(limit, asked).await };
        runtime.block_on(timed)?
    }
}
