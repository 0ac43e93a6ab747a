//! A node of a cluster: it follows the home, or is it; it answers other nodes; and it tries to take
//! over when the home is silent.
//!
//! Each partition has a log and a term of its own, and all have their home at one node. Nodes try
//! for the first partition alone; its home then takes over every other one, and serves once it is
//! home of all. So whoever begins to serve has ended every term in which somebody else could answer
//! from any partition, and the catalogue, in the first one, is right for all of them.
//!
//! ```text
//!   control    one thread: makes layers when this node becomes home, drops them when it is deposed,
//!              and decides when to try
//!   members    one thread: keeps this node's key in the sequencer, reads the others'
//!   talk       one thread: listens to other nodes, listens for the home, passes clients on
//! ```
//!
//! Layers are made after this node has become home and are all gone before it may try again: so no
//! layer ever sees two terms, and none a version that came again with other content.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use parking_lot::{Mutex, RwLock};
use quartet_engine::{
    Arrival, Condition, Dependency, Durability, Engine, Parts, Replicated, Replication, Role, Settled, StoreKind,
};
use quartet_layer_redis::Announcement;
use quartet_log_etcd::{Etcd, EtcdOptions, OpenError, Waker};
use quartet_log_replicated::drive::ask;
use quartet_log_replicated::{
    Answer, ClusterId, Failure, Hold, NodeId, ObjectOptions, PartitionId, Place, Request, Sequencer, Term, Writer,
};
use quartet_model::LogSequence;
use quartet_tenancy::Partitions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::archive::Archiving;
use super::copying::{self, KeptHold};
use super::forward::{self, HomeCaller};
use super::identity;
use super::link::{self, Callers, Heard, Link};
use super::members::{Member, Members, now_us};
use super::object_store::{self, EtcdWithStore};
use super::silence::Signs;
use super::standby::Standby;
use super::waiting::Waiting;
use crate::connections::sockets::Sockets;
use crate::connections::stream::Stream;
use crate::layers::parts::{Nodes, OtherNode};
use crate::metrics::replication;
use crate::observability::exposition::Text;
use crate::partition_folders;
use crate::process::system::fill_random;
use crate::serving::{Entrances, Foundation, Serving};
use crate::settings::{ClusterSettings, Settings, node_id};

/// How often a living node says so to each that listens.
const BEAT_EVERY: Duration = Duration::from_millis(200);
/// How often it is looked whether the home is silent.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The exit status of a node that is to be started again, to copy the home.
const EXIT_NEEDS_COPY: i32 = 75;
/// The exit status of a node that an operator has removed, or whose name another process has.
const EXIT_REMOVED: i32 = 78;
/// A home whose log's thread has waited for its disk for as long serves nobody. Writing down the
/// longest transaction takes seconds as well.
const STALLED_MILLIS: u64 = 10_000;
/// How long a hand-over may take until everything is confirmed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
const NO_PARTITION: &str = "no such partition";
/// Bytes that the system keeps each way of a connection within this process.
const PAIR_BUFFER_BYTES: u32 = 128 << 10;

/// The service at the sockets now.
enum Stage {
    /// In this term of each partition: layers of one see no other.
    Serving(Vec<Term>, Serving),
    Standby(Standby),
    /// Nothing: the node has stopped, or is between two of these.
    Closed,
}

/// A running node.
pub struct Node {
    shared: Arc<Shared>,
    control: Option<JoinHandle<()>>,
    members: Option<JoinHandle<()>>,
    talk: Option<JoinHandle<()>>,
}

/// The state that the threads of a node share.
pub struct Shared {
    foundation: Arc<Foundation>,
    settings: ClusterSettings,
    home: Arc<HomeCaller>,
    stage: Mutex<Stage>,
    /// Listeners of this node before it became home, until the last answer has been given.
    leaving: Mutex<Vec<Standby>>,
    /// The way in for clients that other nodes pass on, while this node is home.
    entrances: RwLock<Option<Arc<Entrances>>>,
    /// Since when this node has been home of the first partition and not of all others.
    incomplete_since: Mutex<Option<Instant>>,
    /// The backup of this home, or of the last term in which it was one.
    archiving: Mutex<Option<Archiving>>,
    /// This process has added to the archive.
    has_archived: Arc<AtomicBool>,
    /// The life signs of each partition's home that is known, `None` for the home that there is not.
    signs: Mutex<Vec<(Option<NodeId>, Signs)>>,
    /// Another number for each process.
    process: u64,
    is_over: AtomicBool,
    over: watch::Sender<bool>,
}

/// A cluster that was joined, and what a node over its logs is made of.
pub struct Joined {
    /// That of the first partition.
    place: Place,
    /// Roles of the engines, as they report them.
    roles: Receiver<(PartitionId, Role)>,
    /// For the members' thread.
    sequencer: Etcd,
    copied: Vec<CopiedPartition>,
}

/// A partition that was copied just now.
struct CopiedPartition {
    id: PartitionId,
    /// Keeps the records behind the copy.
    hold: KeptHold,
    /// It has replaced a state that was another than the home's.
    has_differed: bool,
}

/// How the cluster's partitions stand at this node, all of them together.
#[derive(Debug, PartialEq, Eq)]
enum Together {
    /// No log is shared.
    Alone,
    /// It is home of each, in these terms.
    Home(Vec<Term>),
    /// It is not home of each, and may become it.
    Waiting,
    /// Nothing of this partition can be continued.
    NeedsCopy(PartitionId),
    /// An operator has to decide.
    Stopped(PartitionId),
}

impl Together {
    fn of(roles: &[Role]) -> Together {
        let find = |is_it: fn(&Role) -> bool| (0..).map(PartitionId).zip(roles).find(|(_, role)| is_it(role));
        if let Some((id, _)) = find(|role| matches!(role, Role::Copying)) {
            return Together::NeedsCopy(id);
        }
        if let Some((id, _)) = find(|role| matches!(role, Role::Stopped(_))) {
            return Together::Stopped(id);
        }
        if find(|role| *role == Role::Alone).is_some() {
            return Together::Alone;
        }
        let term = |role: &Role| match role {
            Role::Home { term, .. } => Some(*term),
            _ => None,
        };
        let terms: Option<Vec<Term>> = roles.iter().map(term).collect();
        terms.map_or(Together::Waiting, Together::Home)
    }
}

/// A question to an engine whether its node is home still, begun at some moment.
#[derive(Default)]
struct Question(Option<Arrival>);

impl Question {
    /// True once it is shown that the node was home after this was asked first. The next call asks
    /// anew.
    fn is_answered(&mut self, engine: &Engine) -> bool {
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

impl Joined {
    /// Joins the cluster, or founds it: asks its etcd, which is judged first, and is waited for
    /// while it does not answer. A folder that has nothing to go on from gets a copy of the home.
    /// `parts` open a partition's folder. Health is answered at the sockets meanwhile.
    pub fn new(
        cluster: &ClusterSettings,
        settings: &Settings,
        sockets: &Sockets,
        parts: &OpenParts<'_>,
    ) -> Result<(Joined, Vec<Replicated>)> {
        cluster.check(settings)?;
        let waiting = Waiting::begin(settings, sockets)?;
        loop {
            match Joined::try_new(cluster, settings, &waiting, parts) {
                Err(error) if is_silence(&error) => {
                    tracing::debug!("etcd does not answer: {error:#}");
                    waiting.say("waiting for etcd, which does not answer");
                }
                joined => return joined,
            }
            std::thread::sleep(BEAT_EVERY);
        }
    }

    /// Every step may be repeated.
    fn try_new(
        cluster: &ClusterSettings,
        settings: &Settings,
        waiting: &Waiting,
        parts: &OpenParts<'_>,
    ) -> Result<(Joined, Vec<Replicated>)> {
        let folder = settings.storage.data.folder();
        let folder = folder.context("a node keeps its log in a folder")?;
        let mut sequencer = Etcd::open(&cluster.etcd).context("log")?;
        let wanted = settings.storage.partitions;
        let there = partition_folders::wanted_folders(folder, wanted)?.len() as u32;
        let new = Place::new(&cluster.root, ClusterId(random()), PartitionId(0)).with_partitions(there);
        let place = identity::join(&mut sequencer, cluster, folder, &new, || parts(folder))?;
        let partitions = place.partitions();
        ensure!(
            wanted.is_none_or(|wanted| wanted == partitions),
            "partitions: the cluster has {partitions}, and keeps that number: start with --partitions {partitions} or \
             without it"
        );
        ensure!(
            partitions == 1 || cluster.archive.is_none(),
            "cluster-archive: the archive is of one partition, and the cluster has {partitions}: take `quartet backup \
             --partition` of each"
        );
        let folders = partition_folders::wanted_folders(folder, Some(partitions))?;
        let members = Members::new(place.clone(), cluster.node(), cluster.nodes);
        members.refuse_second(&mut sequencer, &cluster.address())?;
        identity::configure(&mut sequencer, &place, cluster)?;
        object_store::agree(&mut sequencer, &place, cluster)?;
        let mut joined = Joined::of(place, sequencer, cluster);
        for (id, folder) in (0..).map(PartitionId).zip(&folders) {
            joined.0.copy_if_needed(id, cluster, settings, waiting, folder, parts)?;
            // One that has not begun yet is not missing beside one that was copied.
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        identity::keep(folder, joined.0.place.cluster)?;
        Ok(joined)
    }

    /// How many partitions the cluster has.
    pub fn partitions(&self) -> u32 {
        self.place.partitions()
    }

    fn of(place: Place, sequencer: Etcd, cluster: &ClusterSettings) -> (Joined, Vec<Replicated>) {
        let (reports, roles) = channel();
        let ids = (0..place.partitions()).map(PartitionId);
        let shared = ids.map(|id| replicated(place.of(id), cluster, reports.clone()));
        let shared = shared.collect();
        let joined = Joined {
            place,
            roles,
            sequencer,
            copied: Vec::new(),
        };
        (joined, shared)
    }

    /// Copies the home into a partition's folder that has nothing to go on from. Before the first
    /// term there is nothing to copy; without a home it is waited for.
    fn copy_if_needed(
        &mut self,
        id: PartitionId,
        cluster: &ClusterSettings,
        settings: &Settings,
        waiting: &Waiting,
        folder: &Path,
        parts: &OpenParts<'_>,
    ) -> Result<()> {
        if !copying::is_needed(folder)? {
            return Ok(());
        }
        let members = Members::new(self.place.clone(), cluster.node(), cluster.nodes);
        let home = loop {
            members.look_once(&mut self.sequencer).context("log")?;
            match (members.home(id), members.other_home(id)) {
                (None, _) => return Ok(()),
                (_, Some(home)) => break home,
                _ => waiting.say("waiting for a home to copy from"),
            }
            std::thread::sleep(BEAT_EVERY);
        };
        let place = self.place.of(id);
        waiting.say(&format!("copying {}", home.name));
        let has_differed = copying::has_differed(folder);
        copying::begin(folder, has_differed)?;
        let hold = Hold::begin(Box::new(Etcd::open(&cluster.etcd)?), &place, cluster.node())?;
        let hold = KeptHold::new(hold).context("keeping a hold")?;
        let link = Link::new(self.place.cluster, cluster.certificates.as_ref())?;
        let kind = settings.storage.engine.unwrap_or(StoreKind::Memory);
        let fetched = copying::fetch(&link, &home.address, id, parts(folder)?, kind);
        fetched.with_context(|| format!("copying {}", home.name))?;
        copying::finish(folder)?;
        self.copied.push(CopiedPartition { id, hold, has_differed });
        Ok(())
    }
}

/// A node's part in the log of one partition. Each takes an equal part of the budget in etcd.
fn replicated(place: Place, cluster: &ClusterSettings, reports: Sender<(PartitionId, Role)>) -> Replicated {
    let (etcd, store, id) = (cluster.etcd.clone(), cluster.store.clone(), place.cluster);
    let (partition, partitions) = (place.partition, u64::from(place.partitions()));
    Replicated {
        place,
        me: Writer {
            node: cluster.node(),
            incarnation: random() as u64,
        },
        nodes: cluster.nodes,
        sequencer: Box::new(move |waker| {
            let opened = open_again(&etcd, waker.clone());
            let both = EtcdWithStore::new(opened, store.as_deref(), id, waker);
            Box::new(both.expect("a thread for the object store"))
        }),
        on_role: Box::new(move |role| {
            // The receiver is gone while the node ends.
            let _ = reports.send((partition, role.clone()));
        }),
        budget_bytes: cluster.etcd.budget_bytes / partitions,
        objects: cluster.store.is_some().then(ObjectOptions::default),
    }
}

/// The state of a home of the first partition until it is home of all.
struct Gathering {
    /// The term of each partition that this node has tried to end.
    tried: Vec<Option<Term>>,
    question: Question,
    /// The terms of which `question` is asked.
    terms: Option<Vec<Term>>,
}

impl Gathering {
    fn new(partitions: usize) -> Gathering {
        Gathering {
            tried: vec![None; partitions],
            question: Question::default(),
            terms: None,
        }
    }

    /// The next time has nothing to do with this one.
    fn lost_first(&mut self) {
        *self = Gathering::new(self.tried.len());
    }

    /// True if it is shown that this node was home of the first partition once it was home of all
    /// in these terms.
    fn is_complete(&mut self, terms: Vec<Term>, first: &Engine) -> bool {
        if self.terms.as_ref() != Some(&terms) {
            (self.terms, self.question) = (Some(terms), Question::default());
        }
        self.question.is_answered(first)
    }
}

/// Gives the parts that open a partition's folder.
pub type OpenParts<'p> = dyn Fn(&Path) -> Result<Parts> + 'p;

/// True if etcd has not answered: a node that starts waits for it.
fn is_silence(error: &anyhow::Error) -> bool {
    let is_silence = |cause: &(dyn std::error::Error + 'static)| {
        let is_unreachable = matches!(cause.downcast_ref(), Some(OpenError::Unreachable(_)));
        is_unreachable || matches!(cause.downcast_ref(), Some(Failure::Unknown(_)))
    };
    error.chain().any(is_silence)
}

/// Opens another handle of an etcd that was judged to be fit.
fn open_again(options: &EtcdOptions, waker: Waker) -> Etcd {
    loop {
        match Etcd::open_waking(options, waker.clone()) {
            Ok(etcd) => return etcd,
            Err(error) => tracing::warn!(%error, "etcd is asked again"),
        }
        std::thread::sleep(BEAT_EVERY);
    }
}

pub fn random() -> u128 {
    let mut bytes = [0; 16];
    fill_random(&mut bytes);
    u128::from_le_bytes(bytes)
}

impl Node {
    pub fn start(joined: Joined, foundation: Arc<Foundation>) -> Result<Node> {
        let Joined {
            place,
            roles,
            mut sequencer,
            copied,
        } = joined;
        for copied in copied.iter().filter(|copied| copied.has_differed) {
            foundation.partitions.engine(copied.id).count_hash_mismatch();
        }
        let settings = foundation.settings.cluster.clone().expect("a cluster was joined");
        let partitions = foundation.partitions.count();
        let me = settings.node();
        let link = Link::new(place.cluster, settings.certificates.as_ref())?;
        let members = Members::new(place, me, settings.nodes);
        let listener = std::net::TcpListener::bind(settings.node_listen);
        let listener =
            listener.with_context(|| format!("cannot listen on {} (--node-listen)", settings.node_listen))?;
        let shared = Arc::new(Shared {
            foundation,
            settings,
            home: Arc::new(HomeCaller { link, members }),
            stage: Mutex::new(Stage::Closed),
            leaving: Mutex::default(),
            entrances: RwLock::default(),
            incomplete_since: Mutex::default(),
            archiving: Mutex::default(),
            has_archived: Arc::default(),
            signs: Mutex::new(vec![(None, Signs::of_new_home(Instant::now())); partitions]),
            process: random() as u64,
            is_over: AtomicBool::new(false),
            over: watch::Sender::new(false),
        });
        let nodes: Arc<dyn Nodes> = shared.clone();
        shared.foundation.nodes.get_or_init(|| Arc::downgrade(&nodes));
        shared.stand_by()?;
        for CopiedPartition { id, hold, .. } in copied {
            let shared = shared.clone();
            let keep = move || {
                let engine = shared.foundation.partitions.engine(id);
                copying::keep_until_caught_up(hold, engine, || shared.is_over());
            };
            drop(spawn("hold", keep)?);
        }
        let (control, keeping, talking) = (shared.clone(), shared.clone(), shared.clone());
        Ok(Node {
            shared,
            control: Some(spawn("control", move || control.control(&roles))?),
            members: Some(spawn("members", move || keeping.keep_members(&mut sequencer))?),
            talk: Some(spawn("talk", move || talking.talk(listener))?),
        })
    }

    /// Acts upon the layers, unless another node is home.
    pub fn with_serving<T>(&self, act: impl FnOnce(&Serving) -> T) -> Option<T> {
        match &*self.shared.stage.lock() {
            Stage::Serving(_, serving) => Some(act(serving)),
            Stage::Standby(_) | Stage::Closed => None,
        }
    }

    /// Ends all threads and everything that is served.
    pub fn end(mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.shared.over.send_replace(true);
        for thread in [self.control.take(), self.members.take(), self.talk.take()] {
            if thread.is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("a thread of the cluster panicked");
            }
        }
        self.shared.close();
        if let Some(archiving) = self.shared.archiving.lock().take() {
            archiving.end();
        }
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    // ---- what is served

    /// In the order of the partitions.
    fn engines(&self) -> impl Iterator<Item = &Arc<Engine>> {
        self.foundation.partitions.iter().map(|(_, engine)| engine)
    }

    /// Follows the engines' roles until the node ends.
    fn control(&self, reports: &Receiver<(PartitionId, Role)>) {
        let mut tried = None;
        let mut gathering = Gathering::new(self.foundation.partitions.count());
        while !self.is_over() {
            if self.home.members.is_removed() {
                tracing::error!("this node was removed from the cluster: stopping");
                std::process::exit(EXIT_REMOVED);
            }
            match reports.recv_timeout(LOOK_EVERY) {
                Ok((partition, role)) => {
                    tracing::info!(partition = partition.0, ?role, "this node's part in the cluster");
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let roles: Vec<Role> = self.engines().map(|engine| engine.role()).collect();
            if let Err(error) = self.serve_as(&roles, &mut gathering) {
                tracing::error!("serving failed, and is tried again: {error:#}");
                std::thread::sleep(BEAT_EVERY);
            }
            match roles[0] {
                Role::Following { term, home }
                    if tried != Some(term)
                        && !matches!(Together::of(&roles), Together::Stopped(_))
                        && self.is_time_to_try(PartitionId(0), home) =>
                {
                    tracing::info!(?term, "the home is silent: trying to take over");
                    tried = Some(term);
                    self.foundation.engine.take_over();
                }
                Role::Following { .. } | Role::Candidate { .. } => {}
                _ => tried = None,
            }
        }
    }

    fn serve_as(&self, roles: &[Role], gathering: &mut Gathering) -> Result<()> {
        let mut stage = self.stage.lock();
        match (Together::of(roles), &*stage) {
            (Together::Alone, _) => Ok(()),
            (Together::Home(terms), Stage::Serving(of, _)) if terms == *of => Ok(()),
            (Together::Home(terms), current) => {
                // Layers of another term see nothing of this one.
                if matches!(current, Stage::Serving(..)) {
                    self.close_stage(&mut stage);
                }
                // It may have lost the first partition while it took over the others.
                if roles.len() > 1 && !gathering.is_complete(terms.clone(), &self.foundation.engine) {
                    return Ok(());
                }
                self.leave_stage(&mut stage);
                let serving = Serving::begin(&self.foundation)?;
                *self.entrances.write() = Some(serving.entrances.clone());
                self.begin_archive(&serving);
                *stage = Stage::Serving(terms, serving);
                Ok(())
            }
            (Together::Waiting, Stage::Standby(_)) => {
                drop(stage);
                self.gather(roles, gathering);
                Ok(())
            }
            (Together::Waiting, _) => {
                self.close_stage(&mut stage);
                // A hand-over is over.
                self.engines().for_each(|engine| engine.resume());
                drop(stage);
                self.stand_by()
            }
            (Together::NeedsCopy(id), _) => self.end_for_a_copy(id),
            (Together::Stopped(_), Stage::Closed) => Ok(()),
            (Together::Stopped(id), _) => {
                tracing::error!(
                    partition = id.0,
                    role = ?roles[id.0 as usize],
                    "this node serves nothing any more: an operator must decide; if etcd was lost or has gone back in \
                     time, `quartet cluster adopt` begins a new log"
                );
                self.close_stage(&mut stage);
                Ok(())
            }
        }
    }

    /// Takes over what is missing, if this node is home of the first partition. No layer is there.
    fn gather(&self, roles: &[Role], gathering: &mut Gathering) {
        let first = &self.foundation.engine;
        if roles.len() == 1 || !matches!(roles[0], Role::Home { .. }) {
            return gathering.lost_first();
        }
        let is_due = |(tried, role): (&Option<Term>, &Role)| match role {
            Role::Following { term, .. } => *tried != Some(*term),
            _ => false,
        };
        // A node that was deposed and has not heard of it yet would take what its successor has.
        if gathering.tried.iter().zip(roles).any(is_due) && gathering.question.is_answered(first) {
            for ((engine, role), tried) in self.engines().zip(roles).zip(&mut gathering.tried) {
                if let Role::Following { term, .. } = role
                    && *tried != Some(*term)
                {
                    *tried = Some(*term);
                    engine.take_over();
                }
            }
        }
    }

    fn begin_archive(&self, serving: &Serving) {
        let Some(address) = &self.settings.archive else {
            return;
        };
        let mut archiving = self.archiving.lock();
        if let Some(earlier) = archiving.take() {
            earlier.end();
        }
        match Archiving::begin(
            address,
            self.settings.archive_keeps,
            &self.has_archived,
            &serving.tenants,
        ) {
            Ok(begun) => *archiving = Some(begun),
            Err(error) => tracing::error!(%error, "no thread for the archive: it is not kept in this term"),
        }
    }

    /// Nothing of what this node has of a partition can be continued: the next start copies it.
    fn end_for_a_copy(&self, id: PartitionId) -> ! {
        let engine = self.foundation.partitions.engine(id);
        let has_differed = engine.replication().hash_mismatches > 0;
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
            "this node is too far behind, or its state differs from the home's: the next start copies the home"
        );
        std::process::exit(EXIT_NEEDS_COPY);
    }

    fn stand_by(&self) -> Result<()> {
        let (partitions, members) = (self.foundation.partitions.clone(), self.home.members.clone());
        let pages = Arc::new(move |path: &str| own_page(path, &partitions, &members));
        let standby = Standby::begin(&self.foundation, &self.home, pages)?;
        *self.stage.lock() = Stage::Standby(standby);
        Ok(())
    }

    fn close(&self) {
        let mut stage = self.stage.lock();
        self.close_stage(&mut stage);
        self.leaving.lock().drain(..).for_each(Standby::end);
    }

    /// Makes room for layers. Answers of the home before are not waited for.
    fn leave_stage(&self, stage: &mut Stage) {
        match std::mem::replace(stage, Stage::Closed) {
            Stage::Standby(standby) => {
                standby.stop();
                let mut leaving = self.leaving.lock();
                leaving
                    .extract_if(.., |standby| standby.has_ended())
                    .for_each(Standby::end);
                leaving.push(standby);
            }
            other => {
                *stage = other;
                self.close_stage(stage);
            }
        }
    }

    fn close_stage(&self, stage: &mut Stage) {
        *self.entrances.write() = None;
        if let Some(archiving) = &*self.archiving.lock() {
            archiving.stop();
        }
        match std::mem::replace(stage, Stage::Closed) {
            Stage::Serving(_, serving) => serving.end(),
            Stage::Standby(standby) => standby.end(),
            Stage::Closed => {}
        }
    }

    // ---- the home's silence

    /// `known`: the home that the engine follows. Until what was read of the term agrees with it,
    /// one of the two is about to learn of another.
    fn is_time_to_try(&self, partition: PartitionId, known: Option<Writer>) -> bool {
        let members = &self.home.members;
        let view = members.view();
        let term = view.term(partition);
        if term.map(|term| term.writer) != known {
            return false;
        }
        let (home, mut signs) = self.signs.lock()[partition.0 as usize];
        signs.found_home = view
            .term_read_began(partition)
            .filter(|_| term.map(|term| term.writer.node) == home);
        let is_heard_elsewhere = home.is_some_and(|home| members.is_heard_elsewhere(partition, home));
        !is_heard_elsewhere && signs.is_time_to_try(members.turn(partition, home), Instant::now())
    }

    fn is_silent(signs: &Signs) -> bool {
        signs.unreachable_since.is_some() || signs.heard.elapsed() > 2 * BEAT_EVERY
    }

    fn is_any_home_silent(&self) -> bool {
        self.signs.lock().iter().any(|(_, signs)| Shared::is_silent(signs))
    }

    /// True if this node is home of the partition, the sequencer answers it, and so does its own
    /// disk. A home without answers is silent towards the other nodes, so that one that has them
    /// takes over. So is one that does not get to serve, after a while.
    fn is_living_home(&self, partition: PartitionId) -> bool {
        let is_living = |engine: &Arc<Engine>| {
            let figures = engine.replication();
            !figures.is_cut_off && figures.stalled_millis < STALLED_MILLIS
        };
        self.foundation.partitions.engine(partition).is_home() && self.engines().all(is_living) && !self.is_stuck()
    }

    /// True if this node has long been home of the first partition and not of another one.
    fn is_stuck(&self) -> bool {
        let is_whole = self.engines().all(|engine| engine.is_home());
        let mut since = self.incomplete_since.lock();
        match is_whole || !self.foundation.engine.is_home() {
            true => *since = None,
            false => drop(since.get_or_insert_with(Instant::now)),
        }
        since.is_some_and(|since| since.elapsed().as_millis() as u64 >= STALLED_MILLIS)
    }

    /// The home of each partition that this node hears.
    fn heard_homes(&self) -> Vec<Option<u64>> {
        let signs = self.signs.lock();
        let heard = |(home, signs): &(Option<NodeId>, Signs)| home.filter(|_| !Shared::is_silent(signs));
        signs.iter().map(heard).map(|home| home.map(|home| home.0)).collect()
    }

    /// From now on the life signs are those of this home.
    fn listen_for(&self, partition: PartitionId, home: Option<NodeId>) {
        let signs = &mut self.signs.lock()[partition.0 as usize];
        if signs.0 != home {
            *signs = (home, Signs::of_new_home(Instant::now()));
        }
    }

    fn heard(&self, partition: PartitionId) {
        let (_, signs) = &mut self.signs.lock()[partition.0 as usize];
        signs.heard = Instant::now();
        signs.unreachable_since = None;
    }

    fn unreachable(&self, partition: PartitionId) {
        let (_, signs) = &mut self.signs.lock()[partition.0 as usize];
        signs.unreachable_since.get_or_insert_with(Instant::now);
    }

    // ---- other nodes

    /// This node's record about itself.
    fn own_member(&self) -> Member {
        let figures: Vec<_> = self.engines().map(|engine| engine.replication()).collect();
        let most = |lag: fn(&Replication) -> u64| figures.iter().map(lag).max().unwrap_or_default();
        let mut heard = self.heard_homes();
        let endpoints = self.foundation.sockets.addresses();
        let announcement = &self.foundation.settings.redis.announcement;
        let reached_at = |name: &str, announcement: &Announcement| {
            let bound = endpoints.get(name);
            bound.map(|bound| self.settings.reached_at(bound, announcement))
        };
        Member {
            name: self.settings.node_name.clone(),
            address: self.settings.address(),
            redis: reached_at("redis", announcement).or_else(|| reached_at("redis-tls", announcement)),
            sentinel: reached_at("sentinel", &announcement.without_port()),
            clock_us: now_us(),
            lag_records: most(|figures| figures.lag_records),
            lag_millis: most(|figures| figures.lag_millis),
            hears: heard.first().copied().flatten(),
            hears_others: heard.split_off(1),
            endpoints,
            process: self.process,
        }
    }

    fn keep_members(&self, sequencer: &mut dyn Sequencer) {
        let next = |engine: &Arc<Engine>| LogSequence(engine.replication().synced + 1);
        let needed = || self.engines().map(next).collect();
        let kept = self.home.members.keep(
            sequencer,
            || self.own_member(),
            needed,
            || self.is_any_home_silent(),
            || self.is_over(),
        );
        if let Err(taken) = kept {
            tracing::error!("{taken}: stopping");
            std::process::exit(EXIT_REMOVED);
        }
    }

    /// Speaks with other nodes until this one ends.
    fn talk(self: &Arc<Shared>, listener: std::net::TcpListener) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime.inspect_err(|error| tracing::error!(%error, "talking to other nodes")) else {
            return;
        };
        let mut over = self.over.subscribe();
        runtime.block_on(async {
            tokio::select! {
                result = self.clone().answer_nodes(listener) => if let Err(error) = result {
                    tracing::error!(%error, "listening to other nodes");
                },
                () = self.listen_for_homes() => {}
                _ = over.wait_for(|over| *over) => {}
            }
        });
    }

    async fn answer_nodes(self: Arc<Shared>, listener: std::net::TcpListener) -> std::io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let mut callers = Callers::default();
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            };
            let shared = self.clone();
            callers.hear(async move |heard| {
                if let Err(error) = shared.answer_node(socket, heard).await {
                    tracing::debug!(%error, "a node's connection ended");
                }
            });
        }
    }

    async fn answer_node(&self, socket: TcpStream, heard: Heard) -> std::io::Result<()> {
        let called = self.home.link.hear(socket).await;
        heard.note();
        let (verb, mut stream) = called?;
        let words: Vec<&str> = verb.split(' ').collect();
        match words.as_slice() {
            ["watch"] => self.beat(PartitionId(0), stream).await,
            ["watch", number] => match self.partition_of(number) {
                Some(partition) => self.beat(partition, stream).await,
                None => link::refuse(stream.as_mut(), NO_PARTITION).await,
            },
            ["forward", listener, peer] => self.take_client(listener, peer, stream).await,
            ["copy"] => copying::send(self.foundation.engine.clone(), stream).await,
            ["copy", number] => match self.partition_of(number) {
                Some(id) => copying::send(self.foundation.partitions.engine(id).clone(), stream).await,
                None => link::refuse(stream.as_mut(), NO_PARTITION).await,
            },
            ["take-over"] => {
                self.foundation.engine.take_over();
                link::accept(stream.as_mut()).await
            }
            _ => link::refuse(stream.as_mut(), "unknown verb").await,
        }
    }

    /// The partition of this number, as another node names it.
    fn partition_of(&self, number: &str) -> Option<PartitionId> {
        let partition = number.parse().ok().map(PartitionId)?;
        Some(partition).filter(|partition| self.foundation.partitions.has(*partition))
    }

    /// Lets in a client that another node passes on, if this one is home.
    async fn take_client(&self, listener: &str, peer: &str, mut stream: Box<dyn Stream>) -> std::io::Result<()> {
        let entrances = self.entrances.read().clone();
        let (Some(entrances), Ok(peer)) = (entrances, peer.parse::<SocketAddr>()) else {
            return link::refuse(stream.as_mut(), "not home").await;
        };
        let (mut own, theirs) = pair().await?;
        if !entrances.admit(listener, theirs, peer).await? {
            // A protocol may have words for that.
            let mut refusal = Vec::new();
            own.read_to_end(&mut refusal).await?;
            if refusal.is_empty() {
                return link::refuse(stream.as_mut(), "no place").await;
            }
            link::accept(stream.as_mut()).await?;
            stream.write_all(&refusal).await?;
            return stream.shutdown().await;
        }
        drop(entrances);
        link::accept(stream.as_mut()).await?;
        forward::exchange(stream, own).await
    }

    async fn listen_for_homes(self: &Arc<Shared>) {
        let mut listening = JoinSet::new();
        for (partition, _) in self.foundation.partitions.iter() {
            let shared = self.clone();
            listening.spawn(async move { shared.listen_for_home(partition).await });
        }
        while listening.join_next().await.is_some() {}
    }

    /// Hears whether the home of a partition lives, whichever node it is.
    async fn listen_for_home(&self, partition: PartitionId) {
        let verb = match partition.0 {
            0 => "watch".to_owned(),
            number => format!("watch {number}"),
        };
        let members = &self.home.members;
        loop {
            let home = members.home(partition);
            self.listen_for(partition, home);
            if self.foundation.partitions.engine(partition).is_home() {
                self.heard(partition);
                tokio::time::sleep(BEAT_EVERY).await;
                continue;
            }
            let called = match members.other_home(partition) {
                Some(member) => self.home.link.call(&member.address, &verb).await.ok(),
                None => None,
            };
            match called {
                Some(stream) => self.hear_beats(partition, home, stream).await,
                None => self.unreachable(partition),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Hears one home until its connection ends, or another is home.
    async fn hear_beats(&self, partition: PartitionId, home: Option<NodeId>, mut stream: Box<dyn Stream>) {
        self.heard(partition);
        loop {
            match tokio::time::timeout(BEAT_EVERY, stream.read_u8()).await {
                Ok(Ok(_)) => self.heard(partition),
                Ok(Err(_)) => return,
                // Silence: whether it is over is judged by the time since the last beat.
                Err(_) => {}
            }
            if self.home.members.home(partition) != home {
                return;
            }
        }
    }

    /// Says that this home of a partition lives, as long as the caller listens.
    async fn beat(&self, partition: PartitionId, mut stream: Box<dyn Stream>) -> std::io::Result<()> {
        link::accept(stream.as_mut()).await?;
        loop {
            if self.is_living_home(partition) {
                stream.write_u8(b'.').await?;
                stream.flush().await?;
            }
            // It says no more, so whatever is read is its end.
            if let Ok(end) = tokio::time::timeout(BEAT_EVERY, stream.read_u8()).await {
                return end.map(drop);
            }
        }
    }

    // ---- an operator's requests

    /// Makes the node of this name home instead of this one, without an unfinished write.
    fn make_home(&self, name: &str) -> Result<()> {
        let view = self.home.members.view();
        let successor = view.members.into_values().find(|member| member.name == name);
        let successor = successor.with_context(|| format!("no node {name} is there"))?;
        let engine = &self.foundation.engine;
        anyhow::ensure!(engine.is_home(), "this node is not home");
        anyhow::ensure!(name != self.settings.node_name, "this node is home already");
        self.engines().for_each(|engine| engine.drain());
        let handed = self.ask_to_take_over(&successor).and_then(|()| self.wait_for(name));
        if handed.is_err() {
            self.engines().for_each(|engine| engine.resume());
        }
        handed
    }

    /// Waits until the node of this name has become home in place of this one.
    fn wait_for(&self, name: &str) -> Result<()> {
        let engine = &self.foundation.engine;
        let until = Instant::now() + DRAIN_TIMEOUT;
        loop {
            match engine.role() {
                Role::Following { home: Some(home), .. } if home.node == node_id(name) => return Ok(()),
                Role::Following { home: Some(home), .. } if home.node != self.settings.node() => {
                    anyhow::bail!("another node than {name} has become home")
                }
                Role::Copying | Role::Stopped(_) => anyhow::bail!("this node is no longer home, and serves nothing"),
                _ => anyhow::ensure!(Instant::now() < until, "{name} has not taken over in time"),
            }
            // Asks for a confirmation, by which a home learns that it is none any more.
            let _ = engine.settled(Dependency::ZERO, engine.arrival(Durability::Always));
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn ask_to_take_over(&self, successor: &Member) -> Result<()> {
        let until = Instant::now() + DRAIN_TIMEOUT;
        let is_drained = |engine: &Arc<Engine>| {
            matches!(
                engine.role(),
                Role::Home {
                    condition: Condition::Drained,
                    ..
                }
            )
        };
        while !self.engines().all(is_drained) {
            anyhow::ensure!(Instant::now() < until, "not everything was confirmed in time");
            std::thread::sleep(LOOK_EVERY);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let called = runtime.block_on(self.home.link.call(&successor.address, "take-over"));
        called
            .map(drop)
            .with_context(|| format!("asking {} to take over", successor.name))
    }
}

impl Nodes for Shared {
    fn describe(&self) -> serde_json::Value {
        self.home.members.describe()
    }

    fn home_of(&self, partition: PartitionId) -> Option<String> {
        self.home.members.home_of(partition)
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
        *self.gathers_until.lock() = Some(Instant::now() + GATHERED_FOR);
    }

    fn hand_over(&self, name: &str) -> Result<()> {
        self.make_home(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut sequencer = Etcd::open(&self.settings.etcd).context("log")?;
        self.home.members.remove(&mut sequencer, name)
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
}

/// The two ends of a connection within this process. The system keeps little of it: a client that
/// takes no replies is to be felt as soon as a client of this node's own.
async fn pair() -> std::io::Result<(TcpStream, TcpStream)> {
    let socket = || -> std::io::Result<TcpSocket> {
        let socket = TcpSocket::new_v4()?;
        socket.set_send_buffer_size(PAIR_BUFFER_BYTES)?;
        socket.set_recv_buffer_size(PAIR_BUFFER_BYTES)?;
        Ok(socket)
    };
    let listening = socket()?;
    listening.bind((std::net::Ipv4Addr::LOCALHOST, 0).into())?;
    let listener = listening.listen(16)?;
    let own = socket()?.connect(listener.local_addr()?).await?;
    loop {
        // Another process may have been quicker.
        let (theirs, peer) = listener.accept().await?;
        if peer == own.local_addr()? {
            return Ok((own, theirs));
        }
    }
}

/// The pages that each node answers for itself.
fn own_page(path: &str, partitions: &Partitions, members: &Members) -> Option<(u16, &'static str, String)> {
    const TEXT: &str = "text/plain; charset=utf-8";
    match path {
        "/healthz" | "/health" => Some((200, TEXT, "ok\n".into())),
        "/healthz/home" => Some((503, TEXT, "another node is home\n".into())),
        "/readyz" => Some(match members.other_home(PartitionId(0)) {
            Some(home) => (200, TEXT, format!("ready: {} is home\n", home.name)),
            None => (503, TEXT, "no node is home\n".into()),
        }),
        "/metrics" => Some((200, "text/plain; version=0.0.4", replication_metrics(partitions))),
        _ => None,
    }
}

fn replication_metrics(partitions: &Partitions) -> String {
    let mut out = Text::default();
    replication::write(partitions, &mut out);
    out.text
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    Ok(std::thread::Builder::new().name(name.into()).spawn(work)?)
}

#[cfg(test)]
mod tests {
    use quartet_log_replicated::StopReason;

    use super::*;

    fn home(term: u64) -> Role {
        let (term, condition) = (Term(term), Condition::Sure);
        Role::Home { term, condition }
    }

    /// Layers are over all partitions, and see one term of each.
    #[test]
    fn a_node_serves_once_it_is_home_of_every_partition() {
        let following = || Role::Following {
            term: Term(4),
            home: None,
        };
        assert_eq!(
            Together::of(&[home(3), home(5)]),
            Together::Home(vec![Term(3), Term(5)])
        );
        for missing in [following(), Role::Candidate { term: Term(4) }, Role::RollingBack] {
            assert_eq!(Together::of(&[home(3), missing.clone()]), Together::Waiting);
            assert_eq!(Together::of(&[missing, home(3)]), Together::Waiting);
        }
        let stopped = Role::Stopped(StopReason::NotThisCluster);
        assert_eq!(
            Together::of(&[home(3), stopped.clone()]),
            Together::Stopped(PartitionId(1))
        );
        assert_eq!(
            Together::of(&[stopped, following(), Role::Copying]),
            Together::NeedsCopy(PartitionId(2))
        );
        assert_eq!(Together::of(&[Role::Alone]), Together::Alone);
    }
}
