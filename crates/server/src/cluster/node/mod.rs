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
//!   accounts   one thread: reports the usage that this node counts to the home
//!   talk       one thread: listens to other nodes, listens for the homes, passes clients on
//!   balance    one thread, of several partitions: spreads the homes over the nodes
//! ```
//!
//! Layers are built after this node has become home and are all dropped before it may try again: so
//! no layer ever sees two terms, or a version that was reused with other content.
//!
//! `quartet_cluster` has the rules as a state machine; the threads here carry its actions out.
//!
//! | file          | content                                                                    |
//! |---------------|----------------------------------------------------------------------------|
//! | `joining`     | the start of a node, before its data are opened                            |
//! | `serving`     | the services in each role, by the thread `control`                         |
//! | `hearing`     | the heartbeats of homes                                                    |
//! | `callers`     | the requests of other nodes, and the clients that they pass on             |
//! | `pushes`      | decisions of the first partition's home, for the other homes               |
//! | `hand_over`   | the hand-over of a home to another node                                    |
//! | `accounts`    | usage that this node counts while another is home                          |
//! | `balance`     | the choice of the next home to move, and the thread `balance`              |
//! | `clock`       | the correction of this node's times                                        |
//! | `description` | the node's entry at the sequencer, and the pages of a node that is not home|
//! | `nodes`       | the interface for layers and operators                                     |

mod accounts;
mod balance;
mod callers;
mod clock;
mod description;
mod hand_over;
mod hearing;
pub mod joining;
mod nodes;
mod pushes;
mod serving;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::{Mutex, MutexGuard, RwLock};
use quartet_cluster::state::NodeState;
use quartet_engine::Engine;
use tokio::sync::watch;

use self::joining::{CopiedPartition, Joined};
use self::serving::{Services, Stage, Way};
use crate::cluster::carrying::{self, Carried, Carriers, HomeCaller};
use crate::cluster::copying;
use crate::cluster::forward::Pages;
use crate::cluster::link::Link;
use crate::cluster::members::Members;
use crate::cluster::replica_reads::ReplicaReads;
use crate::layers::parts::Nodes;
use crate::serving::{Foundation, Serving};
use crate::settings::ClusterSettings;

/// Interval of checks for a silent home.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The exit status of a node that an operator has removed, or with a name that another process has.
const EXIT_REMOVED: i32 = 78;
/// How long a hand-over may take until everything is confirmed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
const NOT_HOME: &str = "not home";

/// A running node.
pub struct Node {
    shared: Arc<Shared>,
    control: Option<JoinHandle<()>>,
    members: Option<JoinHandle<()>>,
    talk: Option<JoinHandle<()>>,
    balance: Option<JoinHandle<()>>,
    etcd: Option<JoinHandle<()>>,
    accounts: Option<JoinHandle<()>>,
}

/// The state that the threads of a node share. A thread that needs two of the three locks takes
/// them in the order of `services`, `ways`, `state`.
pub struct Shared {
    foundation: Arc<Foundation>,
    settings: ClusterSettings,
    home: Arc<HomeCaller>,
    /// The rules: what is due by roles, signs of life and time.
    state: Mutex<NodeState>,
    services: Mutex<Services>,
    /// The way in for clients that other nodes pass on, to each partition that this node serves. To
    /// all, if it serves all, by that to the first.
    ways: RwLock<Vec<Option<Way>>>,
    /// The connections that pass through this node to its own layers.
    carried: Arc<Carried>,
    /// Serve the forwarded connections, with any node as home.
    carriers: Arc<Carriers>,
    /// The pages that this node answers while it is not home.
    pages: OnceLock<Arc<Pages>>,
    /// This process has added to the archive of each partition.
    has_archived: Vec<Arc<AtomicBool>>,
    /// Another number for each process: the number of its terms' writer.
    process: u64,
    /// The reports of other nodes' usage that this home has added.
    reported: Mutex<accounts::Reported>,
    is_over: AtomicBool,
    over: watch::Sender<bool>,
}

impl Shared {
    /// Makes the node known to its layers, and to callers of a home that is this node.
    fn introduce(self: &Arc<Self>) {
        let nodes: Arc<dyn Nodes> = self.clone();
        self.foundation.nodes.get_or_init(|| Arc::downgrade(&nodes));
        let entered = Arc::downgrade(self);
        let enter = move |listener, peer, state: Vec<u8>| {
            let shared = entered.upgrade();
            let entering = async move {
                match shared {
                    Some(shared) => shared.enter_carried(listener, peer, &state).await,
                    None => Ok(None),
                }
            };
            Box::pin(entering) as carrying::Entering
        };
        self.home.enter.get_or_init(|| Box::new(enter));
        let doubting = Arc::downgrade(self);
        let is_in_doubt = Box::new(move || doubting.upgrade().is_none_or(|shared| shared.is_in_doubt()));
        let members = self.home.members.clone();
        self.home
            .reads
            .get_or_init(|| ReplicaReads::new(&self.foundation, members, is_in_doubt));
    }
}

impl Node {
    pub fn start(joined: Joined, foundation: Arc<Foundation>) -> Result<Node> {
        let Joined {
            place,
            roles,
            mut sequencer,
            copied,
            process,
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
        let over = watch::Sender::new(false);
        let home = Arc::new(HomeCaller {
            link,
            members,
            enter: OnceLock::new(),
            reads: OnceLock::new(),
            over: over.subscribe(),
        });
        let carriers = Carriers::begin(foundation.settings.connections.io_threads())?;
        let shared = Arc::new(Shared {
            foundation,
            settings,
            home,
            state: Mutex::new(NodeState::new(me, partitions, Instant::now())),
            services: Mutex::default(),
            ways: RwLock::new(vec![None; partitions]),
            carried: Arc::default(),
            carriers,
            pages: OnceLock::new(),
            has_archived: (0..partitions).map(|_| Arc::default()).collect(),
            process,
            reported: Mutex::default(),
            is_over: AtomicBool::new(false),
            over,
        });
        shared.introduce();
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
        let (watching, counting) = (shared.clone(), shared.clone());
        let balancing = (partitions > 1).then(|| shared.clone());
        let balancing = balancing.map(|shared| spawn("balance", move || shared.balance()));
        Ok(Node {
            shared,
            balance: balancing.transpose()?,
            control: Some(spawn("control", move || control.control(&roles))?),
            members: Some(spawn("members", move || keeping.keep_members(&mut sequencer))?),
            talk: Some(spawn("talk", move || talking.talk(listener))?),
            etcd: Some(spawn("etcd-status", move || watching.watch_etcd())?),
            accounts: Some(spawn("accounts", move || counting.keep_accounts())?),
        })
    }

    /// Calls `act` with the layers, unless another node is home.
    pub fn with_serving<T>(&self, act: impl FnOnce(&Serving) -> T) -> Option<T> {
        match &self.shared.services.lock().stage {
            Stage::Layers(serving) => Some(act(serving)),
            Stage::Standby(_) | Stage::Closed => None,
        }
    }

    /// Sets a parameter of CONFIG in all existing layers.
    pub fn set_parameter(&self, name: &str, value: &str) -> Result<(), String> {
        let services = self.shared.services.lock();
        let mut all = services.layers();
        all.try_for_each(|serving| serving.set_parameter(name, value))
    }

    /// Makes another node home of this node's partitions, if any node is fit: no node has to detect
    /// the end of this node, and nothing is left unfinished.
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
                    shared.wait_until_left();
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
        let threads = [
            &mut self.control,
            &mut self.members,
            &mut self.talk,
            &mut self.balance,
            &mut self.etcd,
            &mut self.accounts,
        ];
        for thread in threads.map(Option::take) {
            if thread.is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("a thread of the cluster panicked");
            }
        }
        self.shared.close_all();
        self.shared.carriers.end();
        self.shared.forget_replica_layers();
        let archiving = self.shared.services.lock().archiving.take();
        if let Some(archiving) = archiving {
            archiving.end();
        }
    }
}

impl Shared {
    /// The machine, for one event or question.
    fn state(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock()
    }

    /// Nothing is read here any more, or as of another term.
    fn forget_replica_layers(&self) {
        if let Some(reads) = self.home.reads.get() {
            reads.forget();
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// In the order of the partitions.
    fn engines(&self) -> impl Iterator<Item = &Arc<Engine>> {
        self.foundation.partitions.iter().map(|(_, engine)| engine)
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    Ok(std::thread::Builder::new().name(name.into()).spawn(work)?)
}
