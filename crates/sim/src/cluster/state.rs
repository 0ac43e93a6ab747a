//! The cluster: its nodes, the world between them, and what clients wait for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use quartet_engine::{Arrival, Dependency, FollowingPeriod, ReadArrival, StoreKind, WatchId};
use quartet_log_replicated::model::{Chaos, ModelSequencer, World};
use quartet_log_replicated::{ClusterId, ObjectOptions, PartitionId, Place};
use quartet_model::Version;

use crate::cluster::copying::{Copying, Holding};
use crate::cluster::histories::Transaction;
use crate::cluster::judgement::{Judge, Violation};
use crate::cluster::mistake::Mistake;
use crate::cluster::node::{NODES, Node, Stores};
use crate::cluster::post::Post;
use crate::random::{Random, mixed};

/// A row's version and value, if there is one.
pub type StoredRow = Option<(Version, Vec<u8>)>;

/// Rows in the memory of a node that is not home, for one period of following. They are read again
/// once one of them has changed, as the catalogue is with its credentials.
pub struct KeptRows {
    pub period: FollowingPeriod,
    pub rows: BTreeMap<Vec<u8>, StoredRow>,
    pub has_changed: Arc<AtomicBool>,
    pub watches: Vec<WatchId>,
}

pub struct Cluster {
    pub random: Random,
    pub world: Rc<RefCell<World>>,
    pub nodes: Vec<Node>,
    /// The copy that each node is filled with.
    pub copies: Vec<Option<Copying>>,
    pub holds: Vec<Holding>,
    pub judge: Judge,
    pub mistake: Option<Mistake>,
    pub now: Duration,
    pub replies: Vec<Reply>,
    /// Reads that have arrived and are not executed yet.
    pub arrived: Vec<ArrivedRead>,
    /// Reads at nodes that are not home, which wait until the node has what they must see.
    pub followed: Vec<FollowedRead>,
    /// The arrival of an earlier read at each node that was not home then, for a mistake.
    pub earlier_followed: Vec<Option<(ReadArrival, Duration)>>,
    /// The rows that the layers of a node that is not home keep in memory.
    pub kept_rows: Vec<Option<KeptRows>>,
    /// The arrival of an earlier request at each node, for a mistake.
    pub earlier: Vec<Option<(Arrival, Duration)>>,
    pub written: u64,
    /// Large epochs become objects.
    pub has_objects: bool,
    pub acknowledged_at_end: u64,
    /// Transactions with answered reads that are not committed.
    pub open: Vec<Transfer>,
    pub open_lists: Vec<OpenLists>,
    pub history: Vec<Transaction>,
    /// The last two homes, the newest first.
    pub homes: (usize, usize),
    pub hash: u64,
    pub reached: BTreeMap<&'static str, u64>,
}

/// A transfer that has read and not committed.
pub struct Transfer {
    pub version: Version,
    pub writes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A transaction over lists that has read and not committed.
pub struct OpenLists {
    pub version: Version,
    pub transaction: Transaction,
}

/// A read that waits to be executed.
pub struct ArrivedRead {
    pub node: usize,
    pub incarnation: u64,
    pub arrival: Arrival,
    pub key: Vec<u8>,
    /// It must see this version.
    pub required: Version,
    pub due: Duration,
}

/// A read at a node that is not home.
pub struct FollowedRead {
    pub node: usize,
    pub incarnation: u64,
    pub arrival: ReadArrival,
    /// Ranges of the log that the node had sent, for a mistake.
    pub ranges: u64,
    pub asked: Asked,
    pub began: Duration,
}

/// The object of a read at a node that is not home.
pub enum Asked {
    /// A register, which must be as of this version at least.
    Register {
        key: Vec<u8>,
        required: Version,
        /// It is read as layers read credentials: from rows in memory.
        is_kept: bool,
    },
    Lists(Vec<Vec<u8>>),
}

/// A reply of a running process: replies of an ended process are dropped.
pub struct Reply {
    pub node: usize,
    pub arrival: Arrival,
    pub dependency: Dependency,
    pub answer: Answered,
}

pub enum Answered {
    Wrote(Version, Vec<(Vec<u8>, Vec<u8>)>),
    Relaxed(u64),
    Began(Transfer),
    BeganLists(OpenLists),
    /// The transaction of the history.
    Lists(usize),
    Read {
        key: Vec<u8>,
        found: Version,
        value: Option<Vec<u8>>,
        required: Version,
    },
}

/// One large value takes an object of several pieces.
const OBJECTS: ObjectOptions = ObjectOptions {
    beyond_bytes: 200_000,
    piece_bytes: 96 << 10,
    patience: Duration::from_secs(2),
};

pub fn wild() -> Chaos {
    Chaos {
        lost_requests: 100,
        lost_answers: 100,
        duplicates: 50,
        late_requests: 50,
        late_answers: 50,
        lost_hints: 20,
        late: Duration::from_secs(3),
    }
}

impl Cluster {
    /// Even seeds have all rows in memory, odd seeds in the ssd store.
    pub fn begin(seed: u64, mistake: Option<Mistake>) -> Result<Cluster, Violation> {
        let mut random = Random::new(seed);
        let store = match seed % 2 {
            0 => StoreKind::Memory,
            _ => StoreKind::Ssd,
        };
        // Every other pair of seeds has a store of objects.
        let objects = (seed % 4 >= 2).then_some(OBJECTS);
        let stores = Stores { rows: store, objects };
        let place = Place::new("/sim", ClusterId(u128::from(seed) + 1), PartitionId(0));
        let world = World::new(random.next(), wild());
        let (mut nodes, began) = (Vec::new(), Instant::now());
        for id in 0..NODES {
            let post = Post::new(place.clone(), ModelSequencer::new(&world), mistake);
            nodes.push(Node::new(id, &place, post, stores, &mut random, mistake, began));
        }
        let holds = (0..NODES).map(|id| Holding::new(ModelSequencer::new(&world), &place, id));
        let mut cluster = Cluster {
            random,
            holds: holds.collect(),
            world,
            nodes,
            copies: (0..NODES).map(|_| None).collect(),
            judge: Judge::new(place.clone()),
            mistake,
            now: Duration::ZERO,
            replies: Vec::new(),
            arrived: Vec::new(),
            followed: Vec::new(),
            earlier_followed: vec![None; NODES],
            kept_rows: (0..NODES).map(|_| None).collect(),
            earlier: vec![None; NODES],
            written: 0,
            has_objects: objects.is_some(),
            acknowledged_at_end: 0,
            open: Vec::new(),
            open_lists: Vec::new(),
            history: Vec::new(),
            homes: (0, 1),
            hash: seed,
            reached: BTreeMap::new(),
        };
        // Every third seed starts with data.
        match seed % 3 {
            0 => cluster.found_with_data(&place)?,
            _ => cluster.found(&place),
        }
        for node in &mut cluster.nodes {
            node.runtime.skip(cluster.now);
            if !node.is_empty {
                node.start()?;
            }
        }
        Ok(cluster)
    }

    fn found(&mut self, place: &Place) {
        let mut founder = ModelSequencer::new(&self.world);
        self.world.borrow_mut().behave(Chaos::default());
        quartet_log_replicated::drive::ask(&mut founder, place.found()).expect("a calm network");
        self.world.borrow_mut().behave(wild());
        self.now = self.world.borrow().now();
    }

    pub fn reach(&mut self, state: &'static str) {
        *self.reached.entry(state).or_default() += 1;
        self.observe(self.now.as_micros() as u64);
    }

    pub fn observe(&mut self, value: u64) {
        self.hash = mixed(self.hash ^ value);
    }

    /// Returns true if the node is running and not suspended.
    pub fn is_awake(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        node.engine.is_some() && node.asleep_until <= self.now && !node.is_ahead(self.now)
    }

    /// Removes a node's ended process: its messages and replies are dropped.
    pub fn forget(&mut self, at: usize) {
        self.world.borrow_mut().forget(self.nodes[at].post.client());
        self.replies.retain(|reply| reply.node != at);
        self.arrived.retain(|read| read.node != at);
        self.followed.retain(|read| read.node != at);
        (self.earlier[at], self.earlier_followed[at]) = (None, None);
        self.kept_rows[at] = None;
    }
}
