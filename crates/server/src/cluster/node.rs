//! A node of a cluster: it follows the home, or is it; it answers other nodes; and it tries to take
//! over when the home is silent.
//!
//! Each partition has a log, a term and a home of its own. The home of the first partition has the
//! sockets' clients: a node that is not passes them on to it.
//!
//! | a node is home of       | it serves                                                         |
//! |-------------------------|-------------------------------------------------------------------|
//! | all partitions          | all databases, by layers over all of them                         |
//! | the first, not all      | the catalogue and the first's databases; clients of any other     |
//! |                         | database are passed on to the home of its partition, this node too|
//! | another, not all        | that partition's databases, each partition by layers of its own,  |
//! |                         | to clients that are passed on                                     |
//!
//! ```text
//!   control    one thread: makes layers when this node becomes home, drops them when it is deposed,
//!              and decides when to try
//!   members    one thread: keeps this node's key in the sequencer, reads the others'
//!   talk       one thread: listens to other nodes, listens for the homes, passes clients on
//!   balance    one thread, of several partitions: spreads the homes over the nodes
//! ```
//!
//! Layers are built after this node has become home and are all dropped before it may try again: so
//! no layer ever sees two terms, or a version that was reused with other content.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use parking_lot::{Mutex, RwLock};
use quartet_engine::{
    Arrival, Condition, Dependency, Durability, Engine, Parts, Replicated, Replication, Role, Settled, StoreKind,
};
use quartet_layer_redis::{Announcement, Redis};
use quartet_log_etcd::{Etcd, EtcdOptions, OpenError, Waker};
use quartet_log_replicated::{
    ClusterId, Failure, Hold, NodeId, ObjectOptions, PartitionId, Place, Sequencer, Term, Writer,
};
use quartet_model::LogSequence;
use quartet_tenancy::Catalogue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::archive::Archiving;
use super::balance;
use super::copying::{self, KeptHold};
use super::forward::{HomeCaller, PATIENCE};
use super::founding;
use super::identity;
use super::link::{self, Callers, Heard, Link};
use super::members::{Member, Members, now_us};
use super::object_store::{self, EtcdWithStore};
use super::silence::Signs;
use super::standby::Standby;
use super::waiting::Waiting;
use crate::connections::sockets::Sockets;
use crate::connections::stream::{Stream, exchange};
use crate::http::Head;
use crate::layers::parts::{Calling, Nodes, OtherNode, PushError, Whereabouts};
use crate::metrics::{self, Service};
use crate::observability::exposition::Text;
use crate::operations::admin::shows_root_key;
use crate::partition_folders;
use crate::process::system::fill_random;
use crate::serving::{Entrances, Foundation, Serving};
use crate::settings::{ClusterSettings, Settings, node_id};
use crate::tenants::Tenants;

/// Interval of a living node's heartbeats to each listener.
const BEAT_EVERY: Duration = Duration::from_millis(200);
/// Interval of checks for a silent home.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The exit status that requests a restart, to copy the home.
const EXIT_NEEDS_COPY: i32 = 75;
/// The exit status of a node that an operator has removed, or whose name another process has.
const EXIT_REMOVED: i32 = 78;
/// A home whose log's thread has waited for its disk for as long serves nobody. Writing down the
/// longest transaction takes seconds as well.
const STALLED_MILLIS: u64 = 10_000;
/// A home whose disk has been full for as long gives itself up to a node that has room.
const FULL_FOR: Duration = Duration::from_secs(1);
/// A node that is to be home has to have read etcd within this time. It does so each second.
const READ_WITHIN: Duration = Duration::from_millis(2_500);
/// How long a hand-over may take until everything is confirmed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
const NO_PARTITION: &str = "no such partition";
const NOT_HOME: &str = "not home";
/// Most bytes of a push.
const PUSH_BYTES_MAX: u64 = 1 << 20;
/// Time for which a push is repeated.
const PUSH_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time during which the homes remain at one node after a request to gather them.
const GATHERED_FOR: Duration = Duration::from_secs(20);
/// Time for which the homes must be unchanged before one is moved.
const REST: Duration = Duration::from_secs(10);
/// The home of the first partition forwards clients to the other homes. It deposes another home
/// after this much silence, even if other nodes hear it.
const CUT_OFF_AFTER: Duration = Duration::from_secs(5);
/// Bytes that the system keeps each way of a connection within this process.
const PAIR_BUFFER_BYTES: u32 = 128 << 10;

/// The service at the sockets now.
enum Stage {
    /// The first partitions, one for each term: all, or one. Layers see no other term.
    Serving(Vec<Term>, Serving),
    Standby(Standby),
    /// Nothing: the node has stopped, or is between two of these.
    Closed,
}

/// The way in to what a home serves.
#[derive(Clone)]
struct Way {
    entrances: Arc<Entrances>,
    tenants: Arc<Tenants>,
    redis: Option<Arc<Redis>>,
}

/// A running node.
pub struct Node {
    shared: Arc<Shared>,
    control: Option<JoinHandle<()>>,
    members: Option<JoinHandle<()>>,
    talk: Option<JoinHandle<()>>,
    balance: Option<JoinHandle<()>>,
}

/// The state that the threads of a node share.
pub struct Shared {
    foundation: Arc<Foundation>,
    settings: ClusterSettings,
    home: Arc<HomeCaller>,
    stage: Mutex<Stage>,
    /// Listeners of this node before it became home, until the last answer has been given.
    leaving: Mutex<Vec<Standby>>,
    /// The layers of each partition except the first, while this node is home of some partitions,
    /// but not of all.
    own: Mutex<BTreeMap<PartitionId, (Term, Serving)>>,
    /// The way in for clients that other nodes pass on, to each partition that this node serves. To
    /// all, if it serves all, by that to the first.
    ways: RwLock<Vec<Option<Way>>>,
    serves_all: AtomicBool,
    /// Since when this node has been home of a partition without serving it.
    unserved_since: Mutex<Vec<Option<Instant>>>,
    /// Since when its disk has no room.
    full_since: Mutex<Option<Instant>>,
    /// Until then this node takes all homes to itself, if it is home of the first partition.
    gathers_until: Mutex<Option<Instant>>,
    /// A hand-over is under way.
    handing: Mutex<()>,
    /// The backup of this home, or of the last term in which it was one.
    archiving: Mutex<Option<Archiving>>,
    /// This process has added to the archive.
    has_archived: Arc<AtomicBool>,
    /// The life signs of each partition's home that is known; `None` for a home that there is not.
    signs: Mutex<Vec<(Option<NodeId>, Signs)>>,
    /// Another number for each process.
    process: u64,
    is_over: AtomicBool,
    over: watch::Sender<bool>,
}

/// A cluster that was joined, and what a node over its logs is made of.
pub struct Joined {
    /// The place of the first partition.
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
    /// Keeps the records after the copy.
    hold: KeptHold,
    /// The copy has replaced a state that differed from the home's.
    has_differed: bool,
}

/// The state of the cluster's partitions at this node.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    /// No log is shared.
    Alone,
    /// It is home of each, in these terms.
    All(Vec<Term>),
    /// It is home of the first, in this term, and not of each.
    First(Term),
    /// It is not home of the first.
    NotFirst,
    /// Nothing of this partition can be continued.
    NeedsCopy(PartitionId),
    /// An operator has to decide.
    Stopped(PartitionId),
}

impl Standing {
    fn of(roles: &[Role]) -> Standing {
        let find = |is_it: fn(&Role) -> bool| (0..).map(PartitionId).zip(roles).find(|(_, role)| is_it(role));
        if let Some((id, _)) = find(|role| matches!(role, Role::Copying)) {
            return Standing::NeedsCopy(id);
        }
        if let Some((id, _)) = find(|role| matches!(role, Role::Stopped(_))) {
            return Standing::Stopped(id);
        }
        if find(|role| *role == Role::Alone).is_some() {
            return Standing::Alone;
        }
        let terms: Option<Vec<Term>> = roles.iter().map(home_term).collect();
        match (terms, home_term(&roles[0])) {
            (Some(terms), _) => Standing::All(terms),
            (None, Some(term)) => Standing::First(term),
            (None, None) => Standing::NotFirst,
        }
    }
}

/// The term in which the node is home.
fn home_term(role: &Role) -> Option<Term> {
    match role {
        Role::Home { term, .. } => Some(*term),
        _ => None,
    }
}

/// Returns true if the partition has a home, alive or not.
fn has_home(role: &Role) -> bool {
    matches!(role, Role::Home { .. } | Role::Following { home: Some(_), .. })
}

/// Returns true if the node is home of the first partitions in these terms still.
fn is_in(terms: &[Term], roles: &[Role]) -> bool {
    terms
        .iter()
        .zip(roles)
        .all(|(term, role)| home_term(role) == Some(*term))
}

/// A pending check that an engine's node is still home.
#[derive(Default)]
struct Question(Option<Arrival>);

impl Question {
    /// Returns true after a confirmation that the node was home since the first call. The next call
    /// starts a new check.
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
    /// Joins or founds the cluster in its etcd, which is checked first, and waits while etcd is
    /// unreachable. A folder without usable data gets a copy of the home. `parts` open a
    /// partition's folder. The sockets answer health checks meanwhile.
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
        let own = partition_folders::wanted_folders(folder, wanted)?;
        let with_data = founding::Folder {
            data: folder,
            partitions: &own,
            parts,
            kind: settings.storage.engine,
        };
        let place = match with_data.found(&mut sequencer, cluster)? {
            Some(place) => place,
            None => {
                let new = Place::new(&cluster.root, ClusterId(random()), PartitionId(0));
                let new = new.with_partitions(own.len() as u32);
                identity::join(&mut sequencer, cluster, folder, &new, || parts(folder))?
            }
        };
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
            // A partition without records needs its folder too, next to copied partitions.
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        identity::keep(folder, joined.0.place.cluster)?;
        Ok(joined)
    }

    /// The number of the cluster's partitions.
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

    /// Copies the home into a partition's folder that has no usable data. Before the first term
    /// there is nothing to copy; without a home this waits.
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
            // The receiver is dropped when the node ends.
            let _ = reports.send((partition, role.clone()));
        }),
        budget_bytes: cluster.etcd.budget_bytes / partitions,
        objects: cluster.store.is_some().then(ObjectOptions::default),
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

/// Gives the parts that open a partition's folder.
pub type OpenParts<'p> = dyn Fn(&Path) -> Result<Parts> + 'p;

/// Returns true if etcd has not answered: a node that starts waits for it.
fn is_silence(error: &anyhow::Error) -> bool {
    let is_silence = |cause: &(dyn std::error::Error + 'static)| {
        let is_unreachable = matches!(cause.downcast_ref(), Some(OpenError::Unreachable(_)));
        is_unreachable || matches!(cause.downcast_ref(), Some(Failure::Unknown(_)))
    };
    error.chain().any(is_silence)
}

/// Opens another handle of an etcd that was checked before.
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
            own: Mutex::default(),
            ways: RwLock::new(vec![None; partitions]),
            serves_all: AtomicBool::new(false),
            unserved_since: Mutex::new(vec![None; partitions]),
            full_since: Mutex::default(),
            gathers_until: Mutex::default(),
            handing: Mutex::default(),
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
        let balancing = (partitions > 1).then(|| shared.clone());
        let balancing = balancing.map(|shared| spawn("balance", move || shared.balance()));
        Ok(Node {
            shared,
            balance: balancing.transpose()?,
            control: Some(spawn("control", move || control.control(&roles))?),
            members: Some(spawn("members", move || keeping.keep_members(&mut sequencer))?),
            talk: Some(spawn("talk", move || talking.talk(listener))?),
        })
    }

    /// Calls `act` with the layers, unless another node is home.
    pub fn with_serving<T>(&self, act: impl FnOnce(&Serving) -> T) -> Option<T> {
        match &*self.shared.stage.lock() {
            Stage::Serving(_, serving) => Some(act(serving)),
            Stage::Standby(_) | Stage::Closed => None,
        }
    }

    /// Sets a parameter of CONFIG in all existing layers.
    pub fn set_parameter(&self, name: &str, value: &str) -> Result<(), String> {
        self.with_serving(|serving| serving.set_parameter(name, value))
            .unwrap_or(Ok(()))?;
        let own = self.shared.own.lock();
        own.values()
            .try_for_each(|(_, serving)| serving.set_parameter(name, value))
    }

    /// Makes another node home of what this one is home of, if one is fit: nobody has to find out
    /// that this one is gone, and nothing is left unfinished.
    pub fn hand_over_before_the_end(&self) {
        let shared = &self.shared;
        let partitions = shared.foundation.partitions.iter();
        let own = partitions.filter(|(_, engine)| engine.is_home());
        let own: Vec<_> = own.map(|(partition, _)| partition).collect();
        if own.is_empty() {
            return;
        }
        let me = shared.settings.node();
        let others = shared.home.members.fit().into_iter().filter(|node| *node != me);
        for successor in others.filter_map(|node| shared.home.members.member(node)) {
            match shared.hand_over_to(&own, &successor) {
                Ok(()) => {
                    tracing::info!(to = successor.name, "handed over before the end");
                    return;
                }
                Err(error) => tracing::warn!("{} did not become home: {error:#}", successor.name),
            }
        }
    }

    /// Ends all threads and everything that is served.
    pub fn end(mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.shared.over.send_replace(true);
        let threads = [&mut self.control, &mut self.members, &mut self.talk, &mut self.balance];
        for thread in threads.map(Option::take) {
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

impl Way {
    fn to(serving: &Serving) -> Way {
        Way {
            entrances: serving.entrances.clone(),
            tenants: serving.tenants.clone(),
            redis: serving.redis.clone(),
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
        let mut becoming = Becoming::default();
        self.follow_roles(reports, &mut becoming);
        if let Some((_, preparing)) = becoming.preparing
            && preparing.join().is_err()
        {
            tracing::error!("preparing the catalogue panicked");
        }
    }

    fn follow_roles(&self, reports: &Receiver<(PartitionId, Role)>, becoming: &mut Becoming) {
        let mut tried = vec![None; self.foundation.partitions.count()];
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
            if let Err(error) = self.serve_as(&roles, becoming) {
                tracing::error!("serving failed, and is tried again: {error:#}");
                std::thread::sleep(BEAT_EVERY);
            }
            let is_stopped = matches!(Standing::of(&roles), Standing::Stopped(_));
            for (((partition, engine), role), tried) in self.foundation.partitions.iter().zip(&roles).zip(&mut tried) {
                match *role {
                    Role::Following { term, home }
                        if *tried != Some(term) && !is_stopped && self.is_time_to_try(partition, home) =>
                    {
                        tracing::info!(
                            partition = partition.0,
                            ?term,
                            "the home is silent: trying to take over"
                        );
                        *tried = Some(term);
                        engine.take_over();
                    }
                    Role::Following { .. } | Role::Candidate { .. } => {}
                    _ => *tried = None,
                }
            }
        }
    }

    fn serve_as(&self, roles: &[Role], becoming: &mut Becoming) -> Result<()> {
        match Standing::of(roles) {
            Standing::Alone => Ok(()),
            Standing::NeedsCopy(id) => self.end_for_a_copy(id),
            Standing::Stopped(id) => {
                if self.close_all() {
                    tracing::error!(
                        partition = id.0,
                        role = ?roles[id.0 as usize],
                        "this node serves nothing any more: an operator must decide; if etcd was lost or has gone back \
                         in time, `quartet cluster adopt` begins a new log"
                    );
                }
                Ok(())
            }
            Standing::All(terms) => {
                self.end_lost(roles);
                self.serve_all(terms, becoming)
            }
            Standing::First(term) => {
                self.end_lost(roles);
                self.stand_by_if_closed()?;
                // This node may still become home of all partitions.
                if !roles.iter().all(has_home) {
                    return Ok(());
                }
                self.serve_own(roles)?;
                self.serve_first(term, becoming)
            }
            Standing::NotFirst => {
                self.end_lost(roles);
                self.stand_by_if_closed()?;
                self.serve_own(roles)
            }
        }
    }

    /// Drops the layers of ended terms.
    fn end_lost(&self, roles: &[Role]) {
        let mut stage = self.stage.lock();
        if let Stage::Serving(terms, _) = &*stage
            && !is_in(terms, roles)
        {
            self.close_stage(&mut stage);
            // The hand-over has ended.
            self.engines().for_each(|engine| engine.resume());
        }
        drop(stage);
        self.end_own(|partition, term| home_term(&roles[partition.0 as usize]) == Some(term));
    }

    /// Drops the layers of partitions other than the first, except those to keep.
    fn end_own(&self, is_kept: impl Fn(PartitionId, Term) -> bool) {
        let lost: Vec<_> = self
            .own
            .lock()
            .extract_if(.., |partition, (term, _)| !is_kept(*partition, *term))
            .collect();
        for (partition, (_, serving)) in lost {
            self.ways.write()[partition.0 as usize] = None;
            serving.end();
            self.foundation.partitions.engine(partition).resume();
        }
    }

    /// Serves all databases by layers over all partitions.
    fn serve_all(&self, terms: Vec<Term>, becoming: &mut Becoming) -> Result<()> {
        let is_serving = |stage: &Stage| matches!(stage, Stage::Serving(of, _) if of.len() == terms.len());
        if is_serving(&self.stage.lock()) {
            return Ok(());
        }
        // It may have lost the first partition while it took over the others.
        if terms.len() > 1 && !becoming.is_shown(&terms, &self.foundation.engine) {
            return Ok(());
        }
        // Any push that they accepted from a home of the first partition is older than this term.
        self.end_own(|_, _| false);
        let mut stage = self.stage.lock();
        self.leave_stage(&mut stage);
        let serving = Serving::begin(&self.foundation)?;
        self.ways.write()[0] = Some(Way::to(&serving));
        self.serves_all.store(true, Ordering::SeqCst);
        self.begin_archive(&serving);
        *stage = Stage::Serving(terms, serving);
        Ok(())
    }

    /// Serves the first partition's databases, and forwards clients of other databases.
    fn serve_first(&self, term: Term, becoming: &mut Becoming) -> Result<()> {
        if matches!(*self.stage.lock(), Stage::Serving(..)) {
            return Ok(());
        }
        let Some(catalogue) = becoming.prepared(term, &self.foundation)? else {
            return Ok(());
        };
        let mut stage = self.stage.lock();
        self.leave_stage(&mut stage);
        let serving = Serving::begin_apart(&self.foundation, catalogue)?;
        self.ways.write()[0] = Some(Way::to(&serving));
        *stage = Stage::Serving(vec![term], serving);
        Ok(())
    }

    /// Serves the databases of each partition except the first of which this node is home, each
    /// with its own layers.
    fn serve_own(&self, roles: &[Role]) -> Result<()> {
        for (partition, role) in (0..).map(PartitionId).zip(roles).skip(1) {
            let is_served = self.own.lock().contains_key(&partition);
            if let Some(term) = home_term(role).filter(|_| !is_served) {
                let serving = Serving::of_partition(&self.foundation, partition)?;
                self.ways.write()[partition.0 as usize] = Some(Way::to(&serving));
                self.own.lock().insert(partition, (term, serving));
            }
        }
        Ok(())
    }

    fn stand_by_if_closed(&self) -> Result<()> {
        let is_closed = matches!(*self.stage.lock(), Stage::Closed);
        if is_closed { self.stand_by() } else { Ok(()) }
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

    /// This node's data of a partition are unusable: the next start copies it.
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
        let foundation = self.foundation.clone();
        let members = self.home.members.clone();
        let pages = Arc::new(move |head: &Head<'_>| own_page(head, &foundation, &members));
        let standby = Standby::begin(&self.foundation, &self.home, pages)?;
        *self.stage.lock() = Stage::Standby(standby);
        Ok(())
    }

    fn close(&self) {
        self.close_all();
        self.leaving.lock().drain(..).for_each(Standby::end);
    }

    /// False if nothing was served.
    fn close_all(&self) -> bool {
        let mut stage = self.stage.lock();
        let is_closed = matches!(*stage, Stage::Closed) && self.own.lock().is_empty();
        self.close_stage(&mut stage);
        drop(stage);
        self.end_own(|_, _| false);
        !is_closed
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
        self.serves_all.store(false, Ordering::SeqCst);
        self.ways.write()[0] = None;
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
        // Clients reach it only through this node.
        let is_needed_here = partition != PartitionId(0) && self.foundation.engine.is_home();
        let is_cut_off = is_needed_here && signs.heard.elapsed() >= CUT_OFF_AFTER;
        (!is_heard_elsewhere || is_cut_off) && signs.is_time_to_try(members.turn(partition, home), Instant::now())
    }

    fn is_silent(signs: &Signs) -> bool {
        signs.unreachable_since.is_some() || signs.heard.elapsed() > 2 * BEAT_EVERY
    }

    fn is_any_home_silent(&self) -> bool {
        self.signs.lock().iter().any(|(_, signs)| Shared::is_silent(signs))
    }

    /// Returns true if this node is home of the partition, and both the sequencer and its own disk
    /// respond. A home without responses stops its heartbeats, so that a healthy node takes over.
    /// After a while the same applies to a home that does not start to serve.
    fn is_living_home(&self, partition: PartitionId) -> bool {
        let is_living = |engine: &Arc<Engine>| {
            let figures = engine.replication();
            !figures.is_cut_off && figures.stalled_millis < STALLED_MILLIS
        };
        let engine = self.foundation.partitions.engine(partition);
        let is_served = engine.is_home() && self.engines().all(is_living) && !self.is_stuck(partition);
        is_served && !self.is_out_of_room()
    }

    /// True if this node's disk has been full for a while and another node's is not: that one is to
    /// be home. Among nodes that all lack room the home stays where it is.
    fn is_out_of_room(&self) -> bool {
        let mut since = self.full_since.lock();
        if !self.is_disk_full() {
            *since = None;
            return false;
        }
        let since = since.get_or_insert_with(Instant::now);
        since.elapsed() >= FULL_FOR && self.home.members.has_fit_other()
    }

    fn is_disk_full(&self) -> bool {
        self.engines().any(|engine| engine.is_disk_full())
    }

    /// True if this node has long been home of the partition without serving it.
    fn is_stuck(&self, partition: PartitionId) -> bool {
        let index = partition.0 as usize;
        let mut since = self.unserved_since.lock();
        let is_served = self.serves_all.load(Ordering::SeqCst) || self.ways.read()[index].is_some();
        // One partition's home has nothing to wait for.
        if is_served || since.len() == 1 || !self.foundation.partitions.engine(partition).is_home() {
            since[index] = None;
            return false;
        }
        // The first waits for the others.
        let limit = if index == 0 { 3 * STALLED_MILLIS } else { STALLED_MILLIS };
        since[index].get_or_insert_with(Instant::now).elapsed().as_millis() as u64 >= limit
    }

    /// The known homes, by partition.
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
            has_room: !self.is_disk_full(),
            state_mismatches: figures.iter().map(|figures| figures.hash_mismatches).sum(),
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

    async fn answer_node(self: Arc<Shared>, socket: TcpStream, heard: Heard) -> std::io::Result<()> {
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
            ["forward", listener, peer] => self.take_client(PartitionId(0), listener, peer, stream).await,
            ["forward", listener, peer, number] => match self.partition_of(number) {
                Some(partition) => self.take_client(partition, listener, peer, stream).await,
                None => link::refuse(stream.as_mut(), NO_PARTITION).await,
            },
            ["push", partition, number, bytes] => {
                let number = number.parse().ok();
                let bytes = bytes.parse().ok().filter(|bytes| *bytes <= PUSH_BYTES_MAX);
                match (self.partition_of(partition), number, bytes) {
                    (Some(partition), Some(number), Some(bytes)) => {
                        self.hear_push(partition, number, bytes, stream).await
                    }
                    _ => link::refuse(stream.as_mut(), "no push").await,
                }
            }
            ["hand-over", partition, node] => {
                let node = u64::from_str_radix(node, 16).ok().map(NodeId);
                match self.partition_of(partition).zip(node) {
                    Some((partition, node)) => self.hear_hand_over(partition, node, stream).await,
                    None => link::refuse(stream.as_mut(), NO_PARTITION).await,
                }
            }
            ["copy"] => copying::send(self.foundation.engine.clone(), stream).await,
            ["copy", number] => match self.partition_of(number) {
                Some(id) => copying::send(self.foundation.partitions.engine(id).clone(), stream).await,
                None => link::refuse(stream.as_mut(), NO_PARTITION).await,
            },
            ["may-take-over"] => self.hear_may_take_over(stream).await,
            ["take-over"] => {
                self.foundation.engine.take_over();
                link::accept(stream.as_mut()).await
            }
            ["take-over", number] => match self.partition_of(number) {
                Some(partition) => {
                    self.foundation.partitions.engine(partition).take_over();
                    link::accept(stream.as_mut()).await
                }
                None => link::refuse(stream.as_mut(), NO_PARTITION).await,
            },
            _ => link::refuse(stream.as_mut(), "unknown verb").await,
        }
    }

    /// Says whether this node could take over: etcd answers a read that is begun now.
    async fn hear_may_take_over(&self, mut stream: Box<dyn Stream>) -> std::io::Result<()> {
        link::accept(stream.as_mut()).await?;
        let asked = Instant::now();
        let is_answered = || {
            let began = self.home.members.view().term_read_began(PartitionId(0));
            began.is_some_and(|began| began >= asked)
        };
        while asked.elapsed() < READ_WITHIN {
            if is_answered() {
                return link::say(stream.as_mut(), Ok(())).await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let refusal = "etcd does not answer this node".to_owned();
        link::say(stream.as_mut(), Err(refusal)).await
    }

    /// The partition of this number, as another node names it.
    fn partition_of(&self, number: &str) -> Option<PartitionId> {
        let partition = number.parse().ok().map(PartitionId)?;
        Some(partition).filter(|partition| self.foundation.partitions.has(*partition))
    }

    /// Admits a client forwarded by another node, if this node is home of the partition.
    async fn take_client(
        &self,
        partition: PartitionId,
        listener: &str,
        peer: &str,
        mut stream: Box<dyn Stream>,
    ) -> std::io::Result<()> {
        let way = self.way(partition);
        let (Some(way), Ok(peer)) = (way, peer.parse::<SocketAddr>()) else {
            return link::refuse(stream.as_mut(), "not home").await;
        };
        let (mut own, theirs) = pair().await?;
        if !way.entrances.admit(listener, theirs, peer).await? {
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
        drop(way);
        link::accept(stream.as_mut()).await?;
        exchange(stream, own).await
    }

    /// Admits a client of this node whose database is in a partition with layers of its own.
    async fn enter(
        &self,
        partition: PartitionId,
        listener: &str,
        peer: SocketAddr,
    ) -> std::io::Result<Option<Box<dyn Stream>>> {
        let Some(way) = self.way(partition) else {
            return Ok(None);
        };
        let (own, theirs) = pair().await?;
        // One without a place reads what its protocol says to that.
        way.entrances.admit(listener, theirs, peer).await?;
        Ok(Some(Box::new(own)))
    }

    fn way(&self, partition: PartitionId) -> Option<Way> {
        self.ways.read()[partition.0 as usize].clone()
    }

    // ---- messages from a home of the first partition to the other homes

    /// Takes what the home of the first partition has decided, durably.
    fn take_push(&self, partition: PartitionId, number: u64, bytes: &[u8]) -> Result<(), String> {
        let Some(way) = self.way(partition).filter(|_| partition != PartitionId(0)) else {
            // Another node may be home of the first partition: a home detects that by a check.
            let first = &self.foundation.engine;
            let _ = first.settled(Dependency::ZERO, first.arrival(Durability::Always));
            return Err(NOT_HOME.to_owned());
        };
        way.tenants.take_push(number, bytes).map_err(|error| error.to_string())
    }

    async fn hear_push(
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

    fn push_to_other(&self, partition: PartitionId, number: u64, bytes: &[u8]) -> Result<(), String> {
        let home = self.home.members.other_home(partition).ok_or(NOT_HOME)?;
        let verb = format!("push {} {number} {}", partition.0, bytes.len());
        self.ask(&home, &verb, bytes, ANSWER_TIMEOUT)
            .map_err(|error| error.to_string())
    }

    /// Sends a request to another node and waits for its answer.
    fn ask(&self, node: &Member, verb: &str, bytes: &[u8], limit: Duration) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let asked = async {
            let mut stream = self.home.link.call(&node.address, verb).await?;
            stream.write_all(bytes).await?;
            stream.flush().await?;
            link::hear_said(stream.as_mut()).await
        };
        let timed = async { tokio::time::timeout(limit, asked).await };
        runtime.block_on(timed)?
    }

    async fn listen_for_homes(self: &Arc<Shared>) {
        let mut listening = JoinSet::new();
        for (partition, _) in self.foundation.partitions.iter() {
            let shared = self.clone();
            listening.spawn(async move { shared.listen_for_home(partition).await });
        }
        while listening.join_next().await.is_some() {}
    }

    /// Receives the heartbeats of a partition's home, on any node.
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

    /// Receives the heartbeats of one home until its connection ends, or another node is home.
    async fn hear_beats(&self, partition: PartitionId, home: Option<NodeId>, mut stream: Box<dyn Stream>) {
        self.heard(partition);
        loop {
            match tokio::time::timeout(BEAT_EVERY, stream.read_u8()).await {
                Ok(Ok(_)) => self.heard(partition),
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
    async fn beat(&self, partition: PartitionId, mut stream: Box<dyn Stream>) -> std::io::Result<()> {
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

    // ---- an operator's requests

    /// Makes the named node home of all partitions of this node, without interrupting a write.
    fn make_home(&self, name: &str) -> Result<()> {
        let view = self.home.members.view();
        let successor = view.members.into_values().find(|member| member.name == name);
        let successor = successor.with_context(|| format!("no node {name} is there"))?;
        ensure!(self.foundation.engine.is_home(), "this node is not home");
        ensure!(name != self.settings.node_name, "this node is home already");
        let partitions = self.foundation.partitions.iter();
        let own = partitions.filter(|(_, engine)| engine.is_home());
        self.hand_over_to(&own.map(|(partition, _)| partition).collect::<Vec<_>>(), &successor)
    }

    /// Makes another node home of partitions that this one is home of.
    fn hand_over_to(&self, partitions: &[PartitionId], successor: &Member) -> Result<()> {
        let _handing = self.handing.try_lock().context("another hand-over is under way")?;
        // Nothing is held up for a node that is not reached, or that could not take over.
        let asked = self.ask(successor, "may-take-over", &[], 2 * READ_WITHIN);
        asked.with_context(|| format!("{} could not take over", successor.name))?;
        let engines = || partitions.iter().map(|id| self.foundation.partitions.engine(*id));
        engines().for_each(|engine| engine.drain());
        let handed = self
            .ask_to_take_over(partitions, successor)
            .and_then(|()| engines().try_for_each(|engine| self.wait_for(engine, &successor.name)));
        if handed.is_err() {
            engines().for_each(|engine| engine.resume());
        }
        handed
    }

    /// Waits until the named node has become home in place of this node.
    fn wait_for(&self, engine: &Engine, name: &str) -> Result<()> {
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
            let verb = match partition.0 {
                0 => "take-over".to_owned(),
                number => format!("take-over {number}"),
            };
            self.call_once(successor, &verb)?;
        }
        Ok(())
    }

    /// Calls another node, which must accept the verb.
    fn call_once(&self, node: &Member, verb: &str) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let called = runtime.block_on(self.home.link.call(&node.address, verb));
        called
            .map(drop)
            .with_context(|| format!("asking {}: {verb}", node.name))
    }

    // ---- homes at several nodes

    /// Spreads the homes over the nodes while this node is home of the first partition, or gathers
    /// them here, until the node ends.
    fn balance(&self) {
        let (mut homes, mut changed) = (Vec::new(), Instant::now());
        while !self.is_over() {
            std::thread::sleep(BEAT_EVERY);
            let known = self.home.members.all_homes();
            if homes != known {
                (homes, changed) = (known, Instant::now());
            }
            if !self.foundation.engine.is_home() {
                changed = Instant::now();
                continue;
            }
            let me = self.settings.node();
            let next = match self.is_gathering() {
                true => {
                    let others = (0..).map(PartitionId).zip(&homes).skip(1);
                    let other = others.filter(|(_, home)| home.is_some_and(|home| home != me));
                    other.map(|(partition, _)| (partition, me)).next()
                }
                false if changed.elapsed() < REST => None,
                false => balance::next(&homes, &self.home.members.fit()),
            };
            let Some((partition, node)) = next else {
                continue;
            };
            if let Err(error) = self.give(partition, node) {
                tracing::info!(partition = partition.0, "no other node became home: {error:#}");
                changed = Instant::now();
            }
        }
    }

    /// Returns true while this node should have all homes.
    fn is_gathering(&self) -> bool {
        let mut until = self.gathers_until.lock();
        let way = self.way(PartitionId(0));
        let is_moving = way.is_some_and(|way| way.tenants.is_any_moving());
        if until.is_some() && is_moving {
            *until = Some(Instant::now() + GATHERED_FOR);
        }
        if until.is_some_and(|until| until < Instant::now()) {
            *until = None;
        }
        until.is_some() || is_moving
    }

    /// Makes a node home of a partition that has another home.
    fn give(&self, partition: PartitionId, node: NodeId) -> Result<()> {
        let members = &self.home.members;
        if self.foundation.partitions.engine(partition).is_home() {
            return self.hand_over_own(partition, node);
        }
        // Clients would reach it through this node.
        if node != self.settings.node() {
            let successor = members.member(node).context("the node is not there")?;
            self.call_once(&successor, "watch")?;
        }
        let home = members.other_home(partition).context("no node is home")?;
        let verb = format!("hand-over {} {:016x}", partition.0, node.0);
        Ok(self.ask(&home, &verb, &[], 3 * DRAIN_TIMEOUT)?)
    }

    fn hand_over_own(&self, partition: PartitionId, node: NodeId) -> Result<()> {
        let successor = self.home.members.member(node).context("the node is not there")?;
        ensure!(node != self.settings.node(), "this node is home already");
        ensure!(
            self.foundation.partitions.engine(partition).is_home(),
            "this node is not home"
        );
        self.hand_over_to(&[partition], &successor)
    }

    async fn hear_hand_over(
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
}

impl Nodes for Shared {
    fn describe(&self) -> serde_json::Value {
        self.home.members.describe()
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

/// The two ends of a connection within this process. The system buffers little of it: a client that
/// reads no replies must be noticed as soon as a direct client of this node.
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
fn own_page(head: &Head<'_>, foundation: &Foundation, members: &Members) -> Option<(u16, &'static str, String)> {
    const TEXT: &str = "text/plain; charset=utf-8";
    match head.path() {
        "/healthz" | "/health" => Some((200, TEXT, "ok\n".into())),
        "/healthz/home" => Some((503, TEXT, "another node is home\n".into())),
        "/readyz" => Some(
            match members.other_home(PartitionId(0)).filter(|_| hears_home(foundation)) {
                Some(home) => (200, TEXT, format!("ready: {} is home\n", home.name)),
                None => (503, TEXT, "no node is home, or this one does not hear it\n".into()),
            },
        ),
        "/metrics" => Some((200, "text/plain; version=0.0.4", own_metrics(head, foundation))),
        _ => None,
    }
}

fn hears_home(foundation: &Foundation) -> bool {
    let nodes = foundation.nodes.get().and_then(Weak::upgrade);
    nodes.is_some_and(|nodes| nodes.hears_home())
}

fn own_metrics(head: &Head<'_>, foundation: &Foundation) -> String {
    let nodes = foundation.nodes.get().and_then(Weak::upgrade);
    let services = nodes.map(|nodes| metrics::services_of(&*nodes)).unwrap_or_default();
    let is_for_operators = shows_root_key(head, &foundation.settings, &foundation.engine);
    let mut out = Text::default();
    metrics::write_without_first(&foundation.partitions, &services, is_for_operators, &mut out);
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

    /// Layers over all partitions are there while the node is home of all, and see one term of
    /// each.
    #[test]
    fn a_node_is_classified_by_its_roles() {
        let following = || Role::Following {
            term: Term(4),
            home: None,
        };
        let both = [home(3), home(5)];
        assert_eq!(Standing::of(&both), Standing::All(vec![Term(3), Term(5)]));
        for missing in [following(), Role::Candidate { term: Term(4) }, Role::RollingBack] {
            assert_eq!(Standing::of(&[home(3), missing.clone()]), Standing::First(Term(3)));
            assert_eq!(Standing::of(&[missing, home(3)]), Standing::NotFirst);
        }
        let stopped = Role::Stopped(StopReason::NotThisCluster);
        assert_eq!(
            Standing::of(&[home(3), stopped.clone()]),
            Standing::Stopped(PartitionId(1))
        );
        assert_eq!(
            Standing::of(&[stopped, following(), Role::Copying]),
            Standing::NeedsCopy(PartitionId(2))
        );
        assert_eq!(Standing::of(&[Role::Alone]), Standing::Alone);
    }

    /// A node that serves only partition 0 keeps serving while other partitions are gained or lost.
    #[test]
    fn layers_end_with_any_of_their_terms() {
        let one = [home(3), home(5)];
        assert!(is_in(&[Term(3), Term(5)], &one) && is_in(&[Term(3)], &one));
        assert!(!is_in(&[Term(3), Term(4)], &one) && !is_in(&[Term(2)], &one));
        let other = [home(3), Role::RollingBack];
        assert!(is_in(&[Term(3)], &other) && !is_in(&[Term(3), Term(5)], &other));
    }
}
