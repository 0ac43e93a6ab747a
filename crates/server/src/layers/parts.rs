//! The parts of a server that the layers of all its databases share.

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use quartet_engine::{Engine, FollowingPeriod, PartitionId, Space};
use quartet_layer_redis::access::login_guard::LoginGuard;
use quartet_model::LayerId;
use quartet_tenancy::{DEFAULT_DATABASE, Database, Partitions};
use tokio::sync::watch;

use crate::connections::stream::Stream;
use crate::connections::tls::Tls;
use crate::layers::by_type::ByType;
use crate::limits::memory::Budget;
use crate::observability::durations::OfLayers;
use crate::observability::slow_requests::{LayerOperation, SlowRequests};
use crate::observability::telemetry::spans::Spans;
use crate::process::stop_request::StopRequest;
use crate::settings::Settings;

/// The nodes of a cluster, for an operator and for clients that look for the home.
pub trait Nodes: Send + Sync {
    /// The cluster as this node sees it.
    fn describe(&self) -> serde_json::Value;

    /// The name of the node that is home of a partition, if it runs.
    fn home_of(&self, partition: PartitionId) -> Option<String>;

    /// True if the home of the first partition is another node, and its heartbeats arrive.
    fn hears_home(&self) -> bool;

    /// Where the home of a partition is, as far as this node knows. Never waits.
    fn whereabouts(&self, partition: PartitionId) -> Whereabouts;

    /// A connection to the listener of this name at the home of a partition, for the client at
    /// `peer`. A home is waited for. Errors: none took it in time, and nothing was done.
    fn call(self: Arc<Self>, partition: PartitionId, listener: &'static str, peer: SocketAddr) -> Calling;

    /// Continues a connection that the layers of this node leave, because another node becomes
    /// home.
    fn carry(self: Arc<Self>, leaving: Leaving);

    /// False while the node ends and no other is home: connections cannot continue.
    fn may_carry(&self) -> bool;

    /// Brings what the catalogue has decided to the home of a partition, again and again until it
    /// is durable there. `number` rises from one to the next. Blocks.
    fn push(&self, partition: PartitionId, number: u64, bytes: &[u8]) -> Result<(), PushError>;

    /// Makes this node, which is home of the first partition, home of all others as well.
    fn gather(&self);

    /// Makes the named node home in place of this node, without interrupting a write.
    fn hand_over(&self, name: &str) -> anyhow::Result<()>;

    /// Removes the node of this name, which does not run, for good.
    fn remove(&self, name: &str) -> anyhow::Result<()>;

    /// Makes all nodes write the newest format that each of them reads, and returns it.
    fn finish_upgrade(&self) -> anyhow::Result<u32>;

    /// Runs a task until its end or that of the node, whatever this node is home of meanwhile.
    fn outlive_terms(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Watches the address of the home for Redis clients (host:port).
    fn redis_home(&self) -> watch::Receiver<Option<String>>;

    /// The address of this node for Redis clients, if there is one.
    fn own_redis(&self) -> Option<String>;

    /// The other running nodes.
    fn others(&self) -> Vec<OtherNode>;

    /// Records of the log that this node has applied.
    fn records(&self) -> u64;

    /// The services of partitions other than the first that have their own layers here, for
    /// metrics. Each is a `metrics::Service`, a type unknown to this module.
    fn services(&self) -> Vec<Box<dyn Any + Send + Sync>>;
}

/// A connection that leaves its layers between two requests: all that was executed is answered.
pub struct Leaving {
    /// Its listener at the next home.
    pub listener: &'static str,
    /// The client.
    pub peer: SocketAddr,
    /// The other end of its socket: the client's, or a node's that passes it on.
    pub from: SocketAddr,
    /// In clear text: TLS has state that stays where it is.
    pub socket: std::net::TcpStream,
    /// The state of its session, in the words of its protocol.
    pub state: Vec<u8>,
    /// Bytes that were read and not executed.
    pub input: Vec<u8>,
    /// It has had no request, and its first one may be on its way. Only HTTP distinguishes that.
    pub is_new: bool,
}

/// The way to leave layers, for the connections of one listener.
#[derive(Clone)]
pub struct WayOut {
    pub nodes: Option<Weak<dyn Nodes>>,
    pub listener: &'static str,
}

impl WayOut {
    /// The nodes, if connections may continue at another.
    pub fn open(&self) -> Option<Arc<dyn Nodes>> {
        let nodes = self.nodes.as_ref()?.upgrade()?;
        nodes.may_carry().then_some(nodes)
    }
}

/// The place of a partition's home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    Here,
    /// At the node of this name.
    Elsewhere(String),
    Nobody,
}

/// A call that may wait for a home.
pub type Calling = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// The reason why a partition has not confirmed a decision. It may have received it all the same.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    #[error("this node does not decide any more")]
    Over,
    #[error("partition {} has no home that answers", .0.0)]
    NoHome(PartitionId),
}

/// Another node of the cluster, as it says of itself.
#[derive(Clone, Debug)]
pub struct OtherNode {
    /// The address for clients of Redis and of its sentinels (host:port), if there is one.
    pub redis: Option<String>,
    pub sentinel: Option<String>,
    pub lag_records: u64,
    pub lag_millis: u64,
}

pub struct Parts {
    pub partitions: Arc<Partitions>,
    /// The engine of the first partition, which has the catalogue and the default database.
    pub engine: Arc<Engine>,
    /// Another node is home: the layers read this node's replica, in this period.
    pub replica: Option<FollowingPeriod>,
    pub settings: Arc<Settings>,
    pub stop: Arc<StopRequest>,
    /// The node of a cluster that this is, if it is one.
    pub nodes: Option<Weak<dyn Nodes>>,
    /// The process' memory budget.
    pub budget: Budget,
    /// Resident memory before the data was opened.
    pub startup_bytes: u64,
    /// The start time of the server, in microseconds since 1970.
    pub started_micros: u64,
    /// A single guard for all listeners, so that clients get no more attempts by changing the
    /// listener.
    pub login_guard: Arc<LoginGuard>,
    /// Requests each thread to purge its allocator's caches.
    pub purges: watch::Sender<()>,
    /// Logs requests that take long.
    pub slow_requests: Arc<SlowRequests>,
    /// Those of some requests, if a collector gets any.
    pub spans: Option<Arc<Spans>>,
    /// The durations of requests.
    pub durations: OfLayers,
    /// One for all listeners.
    pub tls: Arc<Tls>,
    /// Values shared by the layers of one kind, added when the kind starts to listen. No value may
    /// hold the server's databases, which hold it.
    pub of_kinds: ByType,
}

impl Parts {
    /// Notes the duration of a request: by operation, by database, and in the log if it was slow.
    /// `place` is the index of the operation in the layer's list; `None` is the default database.
    #[inline]
    pub fn note_request(
        &self,
        layer: &str,
        place: usize,
        database: Option<&Database>,
        micros: u64,
        shape: impl FnOnce() -> String,
    ) {
        let operations = self.durations.of(layer);
        operations.at(place).add(micros);
        self.durations.of_database(database).add(micros);
        let operation = LayerOperation {
            layer,
            name: operations.name(place),
        };
        self.note_slow(micros, operation, database, shape);
    }

    /// Logs a slow request. `None` is the default database.
    #[inline]
    pub fn note_slow(
        &self,
        micros: u64,
        operation: LayerOperation<'_>,
        database: Option<&Database>,
        shape: impl FnOnce() -> String,
    ) {
        let name = || database.map_or_else(|| "default".into(), |database| database.definition().name.clone());
        self.slow_requests.note(micros, operation, name, shape);
    }

    /// The engine that has a database's rows.
    #[inline]
    pub fn engine_of(&self, database: &Database) -> &Arc<Engine> {
        self.partitions.engine(database.partition())
    }

    pub fn default_space(&self, layer: LayerId) -> Space {
        Space {
            database: DEFAULT_DATABASE,
            layer,
            durability: self.settings.storage.durability,
        }
    }
}
