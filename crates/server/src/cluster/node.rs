//! A node of a cluster: it follows the home, or is it; it answers other nodes; and it tries to take
//! over when the home is silent.
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
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::{Mutex, RwLock};
use quartet_engine::{Condition, Dependency, Durability, Engine, Parts, Replicated, Role, StoreKind};
use quartet_layer_redis::Announcement;
use quartet_log_etcd::{Etcd, EtcdOptions, OpenError, Waker};
use quartet_log_replicated::{
    ClusterId, Failure, Hold, NodeId, ObjectOptions, PartitionId, Place, Sequencer, Term, Writer,
};
use quartet_model::LogSequence;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use super::archive::Archiving;
use super::copying::{self, KeptHold};
use super::forward::{self, HomeCaller};
use super::identity;
use super::link::{self, Callers, Heard, Link, Stream};
use super::members::{Member, Members, now_us};
use super::object_store::{self, EtcdWithStore};
use super::silence::Signs;
use super::standby::Standby;
use super::waiting::Waiting;
use crate::connections::sockets::Sockets;
use crate::layers::parts::{Nodes, OtherNode};
use crate::metrics::replication;
use crate::observability::exposition::Text;
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
/// Bytes that the system keeps each way of a connection within this process.
const PAIR_BUFFER_BYTES: u32 = 128 << 10;

/// The service at the sockets now.
enum Stage {
    /// In this term: layers of one see no other.
    Serving(Term, Serving),
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
    /// The backup of this home, or of the last term in which it was one.
    archiving: Mutex<Option<Archiving>>,
    /// This process has added to the archive.
    has_archived: Arc<AtomicBool>,
    /// The life signs of the home that is known, `None` for the home that there is not.
    signs: Mutex<(Option<NodeId>, Signs)>,
    /// Another number for each process.
    process: u64,
    is_over: AtomicBool,
    over: watch::Sender<bool>,
}

/// A cluster that was joined, and what a node over its log is made of.
pub struct Joined {
    place: Place,
    /// Roles of the engine, as it reports them.
    roles: Receiver<Role>,
    /// For the members' thread.
    sequencer: Etcd,
    /// Keeps the records behind a copy that was just made.
    hold: Option<KeptHold>,
    /// That copy has replaced a state that was another than the home's.
    has_differed: bool,
}

impl Joined {
    /// Joins the cluster, or founds it: asks its etcd, which is judged first, and is waited for
    /// while it does not answer. A folder that has nothing to go on from gets a copy of the home.
    /// `parts` open the folder. Health is answered at the sockets meanwhile.
    pub fn new(
        cluster: &ClusterSettings,
        settings: &Settings,
        sockets: &Sockets,
        parts: &dyn Fn() -> Result<Parts>,
    ) -> Result<(Joined, Replicated)> {
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
        parts: &dyn Fn() -> Result<Parts>,
    ) -> Result<(Joined, Replicated)> {
        let folder = settings.storage.data.folder();
        let folder = folder.context("a node keeps its log in a folder")?;
        let mut sequencer = Etcd::open(&cluster.etcd).context("log")?;
        let id = identity::join(&mut sequencer, cluster, folder, ClusterId(random()), parts)?;
        let place = Place::new(&cluster.root, id, PartitionId(0));
        let members = Members::new(place.clone(), cluster.node(), cluster.nodes);
        members.refuse_second(&mut sequencer, &cluster.address())?;
        identity::configure(&mut sequencer, &place, cluster)?;
        object_store::agree(&mut sequencer, &place, cluster)?;
        let mut joined = Joined::of(place, sequencer, cluster);
        joined.0.copy_if_needed(cluster, settings, waiting, folder, parts)?;
        identity::keep(folder, id)?;
        Ok(joined)
    }

    fn of(place: Place, sequencer: Etcd, cluster: &ClusterSettings) -> (Joined, Replicated) {
        let (reports, roles) = channel();
        let (etcd, store, id) = (cluster.etcd.clone(), cluster.store.clone(), place.cluster);
        let shared = Replicated {
            place: place.clone(),
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
                let _ = reports.send(role.clone());
            }),
            budget_bytes: cluster.etcd.budget_bytes,
            objects: cluster.store.is_some().then(ObjectOptions::default),
        };
        let joined = Joined {
            place,
            roles,
            sequencer,
            hold: None,
            has_differed: false,
        };
        (joined, shared)
    }

    /// Copies the home into a folder that has nothing to go on from. Before the first term there is
    /// nothing to copy; without a home it is waited for.
    fn copy_if_needed(
        &mut self,
        cluster: &ClusterSettings,
        settings: &Settings,
        waiting: &Waiting,
        folder: &Path,
        parts: &dyn Fn() -> Result<Parts>,
    ) -> Result<()> {
        if !copying::is_needed(folder)? {
            return Ok(());
        }
        let members = Members::new(self.place.clone(), cluster.node(), cluster.nodes);
        let home = loop {
            members.look_once(&mut self.sequencer).context("log")?;
            match (members.home(), members.other_home()) {
                (None, _) => return Ok(()),
                (_, Some(home)) => break home,
                _ => waiting.say("waiting for a home to copy from"),
            }
            std::thread::sleep(BEAT_EVERY);
        };
        waiting.say(&format!("copying {}", home.name));
        self.has_differed = copying::has_differed(folder);
        copying::begin(folder, self.has_differed)?;
        let hold = Hold::begin(Box::new(Etcd::open(&cluster.etcd)?), &self.place, cluster.node())?;
        let hold = KeptHold::new(hold).context("keeping a hold")?;
        let link = Link::new(self.place.cluster, cluster.certificates.as_ref())?;
        let kind = settings.storage.engine.unwrap_or(StoreKind::Memory);
        copying::fetch(&link, &home.address, parts()?, kind).with_context(|| format!("copying {}", home.name))?;
        copying::finish(folder)?;
        self.hold = Some(hold);
        Ok(())
    }
}

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
            hold,
            has_differed,
        } = joined;
        if has_differed {
            foundation.engine.count_hash_mismatch();
        }
        let settings = foundation.settings.cluster.clone().expect("a cluster was joined");
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
            archiving: Mutex::default(),
            has_archived: Arc::default(),
            signs: Mutex::new((None, Signs::of_new_home(Instant::now()))),
            process: random() as u64,
            is_over: AtomicBool::new(false),
            over: watch::Sender::new(false),
        });
        let nodes: Arc<dyn Nodes> = shared.clone();
        shared.foundation.nodes.get_or_init(|| Arc::downgrade(&nodes));
        shared.stand_by()?;
        if let Some(hold) = hold {
            let shared = shared.clone();
            let keep = move || copying::keep_until_caught_up(hold, &shared.foundation.engine, || shared.is_over());
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

    /// Follows the engine's role until the node ends.
    fn control(&self, roles: &Receiver<Role>) {
        let mut tried = None;
        while !self.is_over() {
            if self.home.members.is_removed() {
                tracing::error!("this node was removed from the cluster: stopping");
                std::process::exit(EXIT_REMOVED);
            }
            match roles.recv_timeout(LOOK_EVERY) {
                Ok(role) => tracing::info!(?role, "this node's part in the cluster"),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let role = self.foundation.engine.role();
            if let Err(error) = self.serve_as(&role) {
                tracing::error!("serving failed, and is tried again: {error:#}");
                std::thread::sleep(BEAT_EVERY);
            }
            if let Role::Following { term, home } = role
                && tried != Some(term)
                && self.is_time_to_try(home)
            {
                tracing::info!(?term, "the home is silent: trying to take over");
                tried = Some(term);
                self.foundation.engine.take_over();
            } else if !matches!(role, Role::Following { .. } | Role::Candidate { .. }) {
                tried = None;
            }
        }
    }

    fn serve_as(&self, role: &Role) -> Result<()> {
        let mut stage = self.stage.lock();
        match (role, &*stage) {
            (Role::Home { term, .. }, Stage::Serving(of, _)) if term == of => Ok(()),
            (Role::Alone, _) => Ok(()),
            (Role::Home { term, .. }, _) => {
                self.leave_stage(&mut stage);
                let serving = Serving::begin(&self.foundation)?;
                *self.entrances.write() = Some(serving.entrances.clone());
                self.begin_archive(&serving);
                *stage = Stage::Serving(*term, serving);
                Ok(())
            }
            (Role::Following { .. } | Role::Candidate { .. } | Role::RollingBack, Stage::Standby(_)) => Ok(()),
            (Role::Following { .. } | Role::Candidate { .. } | Role::RollingBack, _) => {
                self.close_stage(&mut stage);
                // A hand-over is over.
                self.foundation.engine.resume();
                drop(stage);
                self.stand_by()
            }
            (Role::Copying, _) => self.end_for_a_copy(),
            (Role::Stopped(_), Stage::Closed) => Ok(()),
            (Role::Stopped(_), _) => {
                tracing::error!(
                    ?role,
                    "this node serves nothing any more: an operator must decide; if etcd was lost or has gone back in \
                     time, `quartet cluster adopt` begins a new log"
                );
                self.close_stage(&mut stage);
                Ok(())
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

    /// Nothing of what this node has can be continued: the next start copies the home.
    fn end_for_a_copy(&self) -> ! {
        let has_differed = self.foundation.engine.replication().hash_mismatches > 0;
        if let Some(folder) = self.foundation.settings.storage.data.folder()
            && let Err(error) = copying::mark(folder, has_differed)
        {
            tracing::error!("marking the folder: {error:#}");
        }
        tracing::error!(
            "this node is too far behind, or its state differs from the home's: the next start copies the home"
        );
        std::process::exit(EXIT_NEEDS_COPY);
    }

    fn stand_by(&self) -> Result<()> {
        let (engine, members) = (self.foundation.engine.clone(), self.home.members.clone());
        let pages = Arc::new(move |path: &str| own_page(path, &engine, &members));
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
    fn is_time_to_try(&self, known: Option<Writer>) -> bool {
        let view = self.home.members.view();
        if view.term.map(|term| term.writer) != known {
            return false;
        }
        let (home, mut signs) = *self.signs.lock();
        signs.found_home = view
            .term_read_began
            .filter(|_| view.term.map(|term| term.writer.node) == home);
        let is_heard_elsewhere = home.is_some_and(|home| self.home.members.is_heard_elsewhere(home));
        !is_heard_elsewhere && signs.is_time_to_try(self.home.members.turn(home), Instant::now())
    }

    fn is_home_silent(&self) -> bool {
        let (_, signs) = *self.signs.lock();
        signs.unreachable_since.is_some() || signs.heard.elapsed() > 2 * BEAT_EVERY
    }

    /// True if this node is home, the sequencer answers it, and so does its own disk. A home
    /// without answers is silent towards the other nodes, so that one that has them takes over.
    fn is_living_home(&self) -> bool {
        let figures = self.foundation.engine.replication();
        self.foundation.engine.is_home() && !figures.is_cut_off && figures.stalled_millis < STALLED_MILLIS
    }

    /// The home that this node hears.
    fn heard_home(&self) -> Option<u64> {
        let (home, _) = *self.signs.lock();
        home.filter(|_| !self.is_home_silent()).map(|home| home.0)
    }

    /// From now on the life signs are those of this home.
    fn listen_for(&self, home: Option<NodeId>) {
        let mut signs = self.signs.lock();
        if signs.0 != home {
            *signs = (home, Signs::of_new_home(Instant::now()));
        }
    }

    fn heard(&self) {
        let mut signs = self.signs.lock();
        signs.1.heard = Instant::now();
        signs.1.unreachable_since = None;
    }

    fn unreachable(&self) {
        let mut signs = self.signs.lock();
        signs.1.unreachable_since.get_or_insert_with(Instant::now);
    }

    // ---- other nodes

    /// This node's record about itself.
    fn own_member(&self) -> Member {
        let figures = self.foundation.engine.replication();
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
            lag_records: figures.lag_records,
            lag_millis: figures.lag_millis,
            hears: self.heard_home(),
            endpoints,
            process: self.process,
        }
    }

    fn keep_members(&self, sequencer: &mut dyn Sequencer) {
        let needed = || LogSequence(self.foundation.engine.replication().synced + 1);
        let kept = self.home.members.keep(
            sequencer,
            || self.own_member(),
            needed,
            || self.is_home_silent(),
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
                () = self.listen_for_home() => {}
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
            ["watch"] => {
                link::accept(stream.as_mut()).await?;
                loop {
                    if self.is_living_home() {
                        stream.write_u8(b'.').await?;
                        stream.flush().await?;
                    }
                    // It says no more, so whatever is read is its end.
                    if let Ok(end) = tokio::time::timeout(BEAT_EVERY, stream.read_u8()).await {
                        return end.map(drop);
                    }
                }
            }
            ["forward", listener, peer] => self.take_client(listener, peer, stream).await,
            ["copy"] => copying::send(self.foundation.engine.clone(), stream).await,
            ["take-over"] => {
                self.foundation.engine.take_over();
                link::accept(stream.as_mut()).await
            }
            _ => link::refuse(stream.as_mut(), "unknown verb").await,
        }
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

    /// Hears whether the home lives, whichever node it is.
    async fn listen_for_home(&self) {
        loop {
            let home = self.home.members.home();
            self.listen_for(home);
            if self.foundation.engine.is_home() {
                self.heard();
                tokio::time::sleep(BEAT_EVERY).await;
                continue;
            }
            let called = match self.home.members.other_home() {
                Some(member) => self.home.link.call(&member.address, "watch").await.ok(),
                None => None,
            };
            match called {
                Some(stream) => self.hear_beats(home, stream).await,
                None => self.unreachable(),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Hears one home until its connection ends, or another is home.
    async fn hear_beats(&self, home: Option<NodeId>, mut stream: Box<dyn Stream>) {
        self.heard();
        loop {
            match tokio::time::timeout(BEAT_EVERY, stream.read_u8()).await {
                Ok(Ok(_)) => self.heard(),
                Ok(Err(_)) => return,
                // Silence: whether it is over is judged by the time since the last beat.
                Err(_) => {}
            }
            if self.home.members.home() != home {
                return;
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
        engine.drain();
        let handed = self.ask_to_take_over(&successor).and_then(|()| self.wait_for(name));
        if handed.is_err() {
            engine.resume();
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
        let is_drained = || {
            let role = self.foundation.engine.role();
            matches!(
                role,
                Role::Home {
                    condition: Condition::Drained,
                    ..
                }
            )
        };
        while !is_drained() {
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
fn own_page(path: &str, engine: &Engine, members: &Members) -> Option<(u16, &'static str, String)> {
    const TEXT: &str = "text/plain; charset=utf-8";
    match path {
        "/healthz" | "/health" => Some((200, TEXT, "ok\n".into())),
        "/healthz/home" => Some((503, TEXT, "another node is home\n".into())),
        "/readyz" => Some(match members.other_home() {
            Some(home) => (200, TEXT, format!("ready: {} is home\n", home.name)),
            None => (503, TEXT, "no node is home\n".into()),
        }),
        "/metrics" => Some((200, "text/plain; version=0.0.4", replication_metrics(engine))),
        _ => None,
    }
}

fn replication_metrics(engine: &Engine) -> String {
    let mut out = Text::default();
    replication::write(engine, &mut out);
    out.text
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    Ok(std::thread::Builder::new().name(name.into()).spawn(work)?)
}
