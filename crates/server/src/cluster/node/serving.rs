//! The services of a node: layers at a home, and at other nodes listeners that forward to the home.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use quartet_cluster::silence::BEAT_EVERY;
use quartet_cluster::start_marks::StartMarks;
use quartet_cluster::state::{Action, Cause, Reason, Service};
use quartet_engine::{Arrival, Dependency, Durability, Engine, Role, Settled};
use quartet_layer_redis::Redis;
use quartet_log_replicated::{PartitionId, Term};
use quartet_tenancy::Catalogue;

use super::{EXIT_REMOVED, LOOK_EVERY, Shared};
use crate::cluster::archive::Archiving;
use crate::cluster::copying;
use crate::cluster::standby::Standby;
use crate::partition_folders;
use crate::serving::{Entrances, Foundation, Serving};
use crate::tenants::Tenants;

/// The exit status that requests a restart, to copy the home.
const EXIT_NEEDS_COPY: i32 = 75;

/// The service at the sockets now.
#[derive(Default)]
pub(super) enum Stage {
    /// Layers over the first partitions.
    Layers(Serving),
    Standby(Standby),
    /// Nothing: the node has stopped, or is between two of these.
    #[default]
    Closed,
}

/// The running services of a node.
#[derive(Default)]
pub(super) struct Services {
    pub(super) stage: Stage,
    /// The layers of each partition except the first, while this node is home of some partitions,
    /// but not of all.
    own: BTreeMap<PartitionId, Serving>,
    /// The backup of this home, or of its last term as home.
    pub(super) archiving: Option<Archiving>,
}

impl Services {
    /// All layers: those at the sockets, and those of partitions.
    pub(super) fn layers(&self) -> impl Iterator<Item = &Serving> {
        let first = match &self.stage {
            Stage::Layers(serving) => Some(serving),
            Stage::Standby(_) | Stage::Closed => None,
        };
        first.into_iter().chain(self.own.values())
    }

    /// Returns true if this node serves nothing itself, and its listeners pass clients on.
    pub(super) fn pass_all_on(&self) -> bool {
        matches!(self.stage, Stage::Standby(_)) && self.own.is_empty()
    }
}

/// The way in to what a home serves.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) entrances: Arc<Entrances>,
    pub(super) tenants: Arc<Tenants>,
    pub(super) redis: Option<Arc<Redis>>,
}

impl Way {
    pub(super) fn to(serving: &Serving) -> Way {
        Way {
            entrances: serving.entrances.clone(),
            tenants: serving.tenants.clone(),
            redis: serving.redis.clone(),
        }
    }
}

/// A pending check that an engine's node is still home.
#[derive(Default)]
struct Question(Option<Arrival>);

impl Question {
    /// Returns true after a confirmation that the node was home since the first call. The next call
    /// starts a new check.
    pub(super) fn is_answered(&mut self, engine: &Engine) -> bool {
        let arrival = *self.0.get_or_insert_with(|| engine.arrival(Durability::Always));
        match engine.settled(Dependency::ZERO, arrival) {
            Settled::NotYet => false,
            settled => {
                self.0 = None;
                settled == Settled::Yes && engine.is_home()
            }
        }
    }
}

/// The steps in progress until a home of the first partition serves.
#[derive(Default)]
struct Becoming {
    question: Question,
    /// The terms of `question`.
    terms: Option<Vec<Term>>,
    /// The catalogue of a home that is not home of all, in this term.
    preparing: Option<(Term, JoinHandle<Result<Catalogue>>)>,
}

impl Becoming {
    /// Returns true if it is shown that this node was home of the first partition once it was home
    /// of all in these terms.
    fn is_shown(&mut self, terms: &[Term], first: &Engine) -> bool {
        if self.terms.as_deref() != Some(terms) {
            (self.terms, self.question) = (Some(terms.to_vec()), Question::default());
        }
        self.question.is_answered(first)
    }

    /// The catalogue of a home in this term, after its preparation. Meanwhile a separate thread
    /// announces the decider to the other partitions.
    fn prepared(&mut self, term: Term, foundation: &Arc<Foundation>) -> Result<Option<Catalogue>> {
        match self.preparing.take() {
            Some((of, preparing)) if preparing.is_finished() => {
                let prepared = preparing.join();
                let prepared = prepared.map_err(|_| anyhow::anyhow!("preparing the catalogue panicked"))?;
                // One of an earlier term may lack a decision.
                if of == term {
                    return prepared.map(Some);
                }
            }
            Some(preparing) => {
                self.preparing = Some(preparing);
                return Ok(None);
            }
            None => {}
        }
        let foundation = foundation.clone();
        let preparing = std::thread::Builder::new().name("prepare".into());
        let preparing = preparing.spawn(move || Serving::prepare_apart(&foundation))?;
        self.preparing = Some((term, preparing));
        Ok(None)
    }
}

impl Shared {
    /// Follows the engines' roles until the node ends.
    pub(super) fn control(&self, reports: &Receiver<(PartitionId, Role)>) {
        let mut becoming = Becoming::default();
        self.follow_roles(reports, &mut becoming);
        if let Some((_, preparing)) = becoming.preparing
            && preparing.join().is_err()
        {
            tracing::error!("preparing the catalogue panicked");
        }
    }

    fn follow_roles(&self, reports: &Receiver<(PartitionId, Role)>, becoming: &mut Becoming) {
        let mut start_marks = BTreeMap::new();
        while !self.is_over() {
            if self.home.members.is_removed() {
                tracing::error!("this node was removed from the cluster: stopping");
                std::process::exit(EXIT_REMOVED);
            }
            match reports.recv_timeout(LOOK_EVERY) {
                Ok((partition, role)) => {
                    tracing::info!(partition = partition.0, ?role, "this node's part in the cluster");
                    self.home.members.look_soon();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let roles: Vec<Role> = self.engines().map(|engine| engine.role()).collect();
            let outlook = |partition| {
                let figures = self.foundation.partitions.engine(partition).replication();
                self.home.members.outlook(partition, &figures)
            };
            let actions = self.state().turn(&roles, outlook, Instant::now());
            self.mark_for_started_nodes(&mut start_marks);
            let mut actions = actions.into_iter();
            if let Err(error) = actions.try_for_each(|action| self.carry_out(action, &roles, becoming)) {
                tracing::error!("serving failed, and is tried again: {error:#}");
                std::thread::sleep(BEAT_EVERY);
            }
        }
    }

    /// Makes a mark once another node runs that has no state hash yet.
    fn mark_for_started_nodes(&self, start_marks: &mut BTreeMap<PartitionId, StartMarks>) {
        for (partition, engine) in self.foundation.partitions.iter().filter(|(_, engine)| engine.is_home()) {
            let without_hash = self.home.members.nodes_without_hash(partition);
            let took = Duration::from_micros(engine.replication().hash_micros);
            let marks = start_marks.entry(partition).or_default();
            if marks.is_due(&without_hash, took, Instant::now()) {
                engine.mark();
            }
        }
    }

    fn carry_out(&self, action: Action, roles: &[Role], becoming: &mut Becoming) -> Result<()> {
        match action {
            Action::End => {
                self.close_stage(&mut self.services.lock());
                // The hand-over has ended.
                self.engines().for_each(|engine| engine.resume());
            }
            Action::EndOwn(partition) => self.end_own(partition),
            Action::Serve(terms) => self.serve_all(terms, becoming)?,
            Action::ServeFirst(term) => self.serve_first(term, becoming)?,
            Action::ServeOwn(partition, term) => self.serve_own(partition, term)?,
            Action::StandBy => self.stand_by()?,
            Action::TakeOver(partition, cause) => {
                let (number, role) = (partition.0, &roles[partition.0 as usize]);
                match cause {
                    Cause::Silence => {
                        tracing::info!(partition = number, ?role, "the home is silent: trying to take over");
                    }
                    Cause::HandOver => {
                        tracing::info!(partition = number, ?role, "the home hands over: taking over");
                    }
                }
                self.foundation.partitions.engine(partition).take_over();
            }
            Action::Stop(partition) => {
                self.close_all();
                tracing::error!(
                    partition = partition.0,
                    role = ?roles[partition.0 as usize],
                    "this node serves nothing any more: an operator must decide; if etcd was lost or has gone back \
                     in time, `quartet cluster adopt` begins a new log"
                );
            }
            Action::EndForCopy(partition, reason) => self.end_for_a_copy(partition, reason),
        }
        Ok(())
    }

    /// Drops the layers of a partition other than the first.
    fn end_own(&self, partition: PartitionId) {
        self.state().ended_own(partition);
        let ended = self.services.lock().own.remove(&partition);
        if let Some(serving) = ended {
            self.ways.write()[partition.0 as usize] = None;
            serving.end();
            self.foundation.partitions.engine(partition).resume();
        }
    }

    fn end_all_own(&self) {
        let own: Vec<_> = self.services.lock().own.keys().copied().collect();
        own.into_iter().for_each(|partition| self.end_own(partition));
    }

    /// Serves all databases by layers over all partitions.
    fn serve_all(&self, terms: Vec<Term>, becoming: &mut Becoming) -> Result<()> {
        // It may have lost the first partition while it took over the others.
        if terms.len() > 1 && !becoming.is_shown(&terms, &self.foundation.engine) {
            return Ok(());
        }
        // Any push that they accepted from a home of the first partition is older than this term.
        self.end_all_own();
        self.begin_layers(terms, || Serving::begin(&self.foundation))
    }

    /// Serves the first partition's databases, and forwards clients of other databases.
    fn serve_first(&self, term: Term, becoming: &mut Becoming) -> Result<()> {
        let Some(catalogue) = becoming.prepared(term, &self.foundation)? else {
            return Ok(());
        };
        self.begin_layers(vec![term], || Serving::begin_apart(&self.foundation, catalogue))
    }

    /// Replaces the service at the sockets by layers over the first partitions.
    fn begin_layers(&self, terms: Vec<Term>, begin: impl FnOnce() -> Result<Serving>) -> Result<()> {
        let mut services = self.services.lock();
        self.close_stage(&mut services);
        let served = self.engines().take(terms.len());
        served.for_each(|engine| engine.hold_requests_after_term());
        let serving = begin()?;
        self.ways.write()[0] = Some(Way::to(&serving));
        self.begin_archive(&mut services, &serving);
        services.stage = Stage::Layers(serving);
        self.state().began(Service::Layers(terms));
        Ok(())
    }

    /// Serves the databases of a partition except the first, by layers of its own.
    fn serve_own(&self, partition: PartitionId, term: Term) -> Result<()> {
        self.foundation.partitions.engine(partition).hold_requests_after_term();
        let serving = Serving::of_partition(&self.foundation, partition)?;
        self.ways.write()[partition.0 as usize] = Some(Way::to(&serving));
        self.services.lock().own.insert(partition, serving);
        self.state().began_own(partition, term);
        Ok(())
    }

    fn begin_archive(&self, services: &mut Services, serving: &Serving) {
        let Some(address) = &self.settings.archive else {
            return;
        };
        if let Some(earlier) = services.archiving.take() {
            earlier.end();
        }
        match Archiving::begin(
            address,
            self.settings.archive_keeps,
            &self.has_archived,
            &serving.tenants,
        ) {
            Ok(begun) => services.archiving = Some(begun),
            Err(error) => tracing::error!(%error, "no thread for the archive: it is not kept in this term"),
        }
    }

    /// This node's data of a partition are unusable: the next start copies it.
    fn end_for_a_copy(&self, id: PartitionId, reason: Reason) -> ! {
        let has_differed = reason == Reason::Differs;
        let folders = self
            .foundation
            .settings
            .storage
            .data
            .folder()
            .map(partition_folders::partition_folders);
        let marked = folders.and_then(Result::ok).and_then(|mut folders| {
            let folder = folders.drain(..).nth(id.0 as usize)?;
            Some(copying::mark(&folder, has_differed))
        });
        if let Some(Err(error)) = marked {
            tracing::error!("marking the folder: {error:#}");
        }
        tracing::error!(
            partition = id.0,
            ?reason,
            "this node is too far behind, or its state is not that of most nodes: the next start copies the home"
        );
        std::process::exit(EXIT_NEEDS_COPY);
    }

    pub(super) fn stand_by(&self) -> Result<()> {
        let standby = Standby::begin(&self.foundation, &self.home, self.pages(), &self.carriers)?;
        self.services.lock().stage = Stage::Standby(standby);
        self.state().began(Service::StandBy);
        // Any hand-over has ended.
        self.engines().for_each(|engine| engine.resume());
        Ok(())
    }

    /// Ends everything that is served.
    pub(super) fn close_all(&self) {
        self.close_stage(&mut self.services.lock());
        self.end_all_own();
    }

    fn close_stage(&self, services: &mut Services) {
        self.state().ended();
        self.ways.write()[0] = None;
        self.carried.begin_end();
        self.forget_replica_layers();
        if let Some(archiving) = &services.archiving {
            archiving.stop();
        }
        match std::mem::take(&mut services.stage) {
            Stage::Layers(serving) => serving.end(),
            Stage::Standby(standby) => standby.end(),
            Stage::Closed => {}
        }
    }

    pub(super) fn way(&self, partition: PartitionId) -> Option<Way> {
        self.ways.read()[partition.0 as usize].clone()
    }
}
