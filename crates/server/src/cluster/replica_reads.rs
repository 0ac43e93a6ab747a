//! Strict reads at a node that is not home: its clients' requests that only read are answered from
//! its own replica, and the home does nothing for them.
//!
//! ```text
//!   request --> note the arrival --> a range of the log, sent after it --> applied --> layers --> answer
//!                     |                         |                                        |
//!                     +-------- no: not a read, too late, in doubt, not served here -----+--> the home
//! ```
//!
//! The engine decides when its state has everything that the request must see
//! ([`Engine::may_read`]). The node passes each request on to the home, before anything was sent to
//! the client, that is not certainly right here: writes, wrong signatures, databases with relaxed
//! durability, and every request while the sequencer does not answer.
//!
//! The layers only read. They belong to one period of following, so they never see rows of a term
//! of this node's own. Their copy of the catalogue (credentials, databases, quotas) is dropped once
//! a row of it has changed: the record of the change is applied before a request that arrived after
//! its acknowledgement may be read.

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::{Mutex, RwLock};
use quartet_engine::{BriefWaits, Durability, Engine, FollowingPeriod, Listening, ReadArrival, Role, WatchId};
use quartet_model::LayerId;
use quartet_tenancy::{Catalogue, Counted, Database, watch_catalogue};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::members::Members;
use crate::credentials;
use crate::dynamodb::{self, DynamoDbHttp};
use crate::fauna::{self, FaunaHttp};
use crate::http::framing::{self, Framing, HeaderRoom};
use crate::http::{Answer, Credential, Dispatch, Head, HttpLayer, Written, written};
use crate::listeners;
use crate::process;
use crate::redis::modules::commands;
use crate::rest::{self, AtReplica, Rest};
use crate::serving::{Foundation, parts_over};
use crate::tenants::Tenants;

/// Time for which a request waits for the log before it is passed on. A home has three seconds more
/// to take it.
const LOG_TIMEOUT: Duration = Duration::from_millis(200);
/// After a request has waited in vain, all are passed on for this time.
const LOG_PAUSE: Duration = Duration::from_secs(1);
/// Time limit for each part of a body.
const INPUT_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a body for which room is made at once, independent of the announced length.
const PART_BYTES: usize = 8 << 10;
/// The layers with requests that may be answered here.
const LAYERS: [LayerId; 3] = [LayerId::Redis, LayerId::Fauna, LayerId::DynamoDb];
/// Repeated reading of the catalogue takes at most one part in this many of the time.
const MAKING_SHARE: u32 = 20;

/// The usage of databases at a node that is not home, by their numbers.
pub type Used = BTreeMap<u16, Counted>;

/// Answers requests of the clients of a node that is not home.
pub struct ReplicaReads {
    foundation: Weak<Foundation>,
    members: Arc<Members>,
    /// The state of this node may differ from that of most nodes.
    is_in_doubt: Box<dyn Fn() -> bool + Send + Sync>,
    layers: RwLock<Option<Arc<Layers>>>,
    /// The counts of dropped layers.
    used: Arc<Mutex<Used>>,
    making: Mutex<Making>,
    /// Wakes waiting requests: the state that they see may have changed.
    news: Arc<Notify>,
    _listening: Listening,
    /// All requests are passed on until then.
    passes_until: Mutex<Option<Instant>>,
}

/// The layers over this node's replica, with the catalogue as of one state.
struct Layers {
    period: FollowingPeriod,
    tenants: Arc<Tenants>,
    dynamodb: DynamoDbHttp,
    fauna: FaunaHttp,
    rest: Rest,
    /// The catalogue has changed since.
    is_stale: Arc<AtomicBool>,
    watches: Vec<WatchId>,
    used: Arc<Mutex<Used>>,
}

/// When layers may be made.
#[derive(Default)]
struct Making {
    not_before: Option<Instant>,
}

/// A request that this node may be able to answer.
struct Candidate {
    arrival: ReadArrival,
    protocol: Protocol,
    request_bytes: usize,
    /// Its head shows that it only reads.
    is_read: bool,
}

/// A protocol with requests that may be answered here.
#[derive(Clone, Copy)]
enum Protocol {
    Fauna,
    Rest,
    DynamoDb,
}

impl Protocol {
    fn of_listener(listener: &str) -> Option<Protocol> {
        match listener {
            "fauna" => Some(Protocol::Fauna),
            "http" => Some(Protocol::Rest),
            "dynamodb" => Some(Protocol::DynamoDb),
            _ => None,
        }
    }

    /// A longer body is passed on as it arrives. The credential is checked after the body, and no
    /// budget counts the body before. Most requests that only read are shorter. Bodies of FaunaDB
    /// and REST that write are read here too: the heads do not differ.
    fn body_bytes_max(self) -> u64 {
        match self {
            Protocol::Fauna | Protocol::Rest => 16 << 10,
            Protocol::DynamoDb => 64 << 10,
        }
    }

    /// Whether a request with this head only reads. `None`: its body says that.
    fn reads(self, head: &Head<'_>) -> Option<bool> {
        match self {
            Protocol::Fauna => None,
            Protocol::Rest => rest::reads_by_head(&commands().table, head),
            Protocol::DynamoDb => dynamodb::reads_by_head(head),
        }
    }

    /// The same for a whole request, of a head that does not say it.
    fn body_only_reads(self, request: &[u8]) -> bool {
        let mut room = [const { std::mem::MaybeUninit::uninit() }; framing::HEADERS_MAX];
        let room: &mut HeaderRoom<'_> = &mut room;
        let Ok(Some(parsed)) = framing::parse(request, room) else {
            return false;
        };
        let body = &request[parsed.head_bytes..];
        match self {
            Protocol::Fauna => fauna::is_read_at_replicas(&parsed.head, body),
            Protocol::Rest => rest::body_only_reads(&commands().table, &parsed.head, body),
            Protocol::DynamoDb => dynamodb::body_only_reads(&parsed.head, body),
        }
    }
}

/// The client's connection after an answer.
pub enum Connection {
    Kept,
    Closed,
}

impl Drop for Layers {
    fn drop(&mut self) {
        self.give_used();
        self.tenants.parts.engine.unwatch(std::mem::take(&mut self.watches));
    }
}

impl ReplicaReads {
    pub fn new(
        foundation: &Arc<Foundation>,
        members: Arc<Members>,
        is_in_doubt: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> ReplicaReads {
        let news = Arc::<Notify>::default();
        let told = news.clone();
        ReplicaReads {
            members,
            is_in_doubt,
            layers: RwLock::default(),
            used: Arc::default(),
            making: Mutex::default(),
            _listening: foundation.engine.on_durable(Arc::new(move || told.notify_waiters())),
            news,
            passes_until: Mutex::default(),
            foundation: Arc::downgrade(foundation),
        }
    }

    /// Drops the layers.
    pub fn forget(&self) {
        *self.layers.write() = None;
    }

    /// Takes what the databases have used at this node since the last call.
    pub fn take_used(&self) -> Used {
        if let Some(layers) = &*self.layers.read() {
            layers.give_used();
        }
        std::mem::take(&mut self.used.lock())
    }

    /// Answers the request at the start of `input`, which it takes out. `None`: the request is for
    /// the home; more of it may be in `input`.
    pub async fn answer(
        &self,
        listener: &str,
        socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
        input: &mut Vec<u8>,
    ) -> io::Result<Option<Connection>> {
        let Some(foundation) = self.foundation.upgrade() else {
            return Ok(None);
        };
        let Some(candidate) = self.look_at(listener, &foundation, input) else {
            return Ok(None);
        };
        let Candidate {
            arrival, request_bytes, ..
        } = candidate;
        if candidate.is_read {
            // The sequencer answers the range of the log while the body arrives.
            foundation.engine.may_read(arrival);
        }
        while input.len() < request_bytes {
            input.reserve(PART_BYTES.min(request_bytes - input.len()));
            let read = tokio::time::timeout(INPUT_TIMEOUT, socket.read_buf(input)).await;
            if !matches!(read, Ok(Ok(1..))) {
                return Ok(Some(Connection::Closed));
            }
        }
        let only_reads = candidate.is_read || candidate.protocol.body_only_reads(&input[..request_bytes]);
        if !only_reads || !self.may_read(&foundation.engine, arrival).await {
            return Ok(None);
        }
        let Some((answer, keeps_alive)) = self.read(&foundation, &candidate, &input[..request_bytes]) else {
            return Ok(None);
        };
        foundation.engine.count_replica_read();
        drop(foundation);
        input.drain(..request_bytes);
        socket.write_all(&answer.bytes).await?;
        socket.flush().await?;
        if keeps_alive {
            return Ok(Some(Connection::Kept));
        }
        socket.shutdown().await?;
        Ok(Some(Connection::Closed))
    }

    /// Notes the arrival of a request that only reads.
    fn look_at(&self, listener: &str, foundation: &Foundation, input: &[u8]) -> Option<Candidate> {
        let protocol = Protocol::of_listener(listener)?;
        let mut room = [const { std::mem::MaybeUninit::uninit() }; framing::HEADERS_MAX];
        let room: &mut HeaderRoom<'_> = &mut room;
        let request = framing::parse(input, room).ok()??;
        let Framing::Length(body_bytes) = request.framing else {
            return None;
        };
        if body_bytes > protocol.body_bytes_max() || request.is_old || request.expects_continue {
            return None;
        }
        let reads = protocol.reads(&request.head);
        if reads == Some(false) {
            return None;
        }
        let passes = self.passes_until.lock().is_some_and(|until| Instant::now() < until);
        if passes || (self.is_in_doubt)() {
            return None;
        }
        Some(Candidate {
            arrival: foundation.engine.read_arrival()?,
            protocol,
            is_read: reads.is_some(),
            request_bytes: request.head_bytes + body_bytes as usize,
        })
    }

    /// Waits until this node has everything that the request must see. False: not in time.
    async fn may_read(&self, engine: &Engine, arrival: ReadArrival) -> bool {
        let until = tokio::time::Instant::now() + LOG_TIMEOUT;
        loop {
            let mut news = pin!(self.news.notified());
            news.as_mut().enable();
            if engine.may_read(arrival) {
                return true;
            }
            if tokio::time::timeout_at(until, news).await.is_err() {
                *self.passes_until.lock() = Some(Instant::now() + LOG_PAUSE);
                return false;
            }
        }
    }

    /// Answers a whole request, if the layers do; and whether its connection stays open.
    fn read(&self, foundation: &Foundation, candidate: &Candidate, request: &[u8]) -> Option<(Written, bool)> {
        // As a thread that serves connections.
        let _brief = BriefWaits::begin();
        let layers = self.layers(foundation, candidate.arrival.period())?;
        let mut room = [const { std::mem::MaybeUninit::uninit() }; framing::HEADERS_MAX];
        let room: &mut HeaderRoom<'_> = &mut room;
        let parsed = framing::parse(request, room).ok()??;
        let body = &request[parsed.head_bytes..];
        let serves = |layer: LayerId| move |database: Option<&Database>| self.serves(foundation, layer, database);
        let answer = match candidate.protocol {
            Protocol::DynamoDb => {
                let database = layers.dynamodb.database_of(&parsed.head);
                let is_here = serves(LayerId::DynamoDb)(database.as_deref());
                is_here.then(|| answered_here(&layers.dynamodb, &parsed.head, body))??
            }
            Protocol::Fauna => {
                let database = layers.fauna.database_of(&parsed.head);
                let is_here = serves(LayerId::Fauna)(database.as_deref());
                is_here.then(|| answered_here(&layers.fauna, &parsed.head, body))??
            }
            Protocol::Rest => match layers
                .rest
                .answer_at_replica(&parsed.head, body, serves(LayerId::Redis))
            {
                AtReplica::Answered(answer) => *answer,
                AtReplica::NotHere => return None,
                AtReplica::Outdated => {
                    layers.is_stale.store(true, Ordering::SeqCst);
                    return None;
                }
            },
        };
        Some((written(answer, !parsed.keeps_alive), parsed.keeps_alive))
    }

    /// Returns true if everything that was acknowledged of the database is in the log. `None` is
    /// the default database.
    fn serves(&self, foundation: &Foundation, layer: LayerId, database: Option<&Database>) -> bool {
        match database {
            Some(database) => database.is_read_at_replicas(layer, foundation.partitions.count() == 1),
            None => {
                let home = match foundation.engine.role() {
                    Role::Following { home, .. } => home,
                    _ => None,
                };
                foundation.settings.storage.durability == Durability::Always
                    && home.is_some_and(|home| self.members.is_strict(home))
            }
        }
    }

    /// The layers of this period, with the catalogue as it is now. `None` if there are none at the
    /// moment.
    fn layers(&self, foundation: &Foundation, period: FollowingPeriod) -> Option<Arc<Layers>> {
        let is_current = |layers: &&Arc<Layers>| layers.period == period && !layers.is_stale.load(Ordering::SeqCst);
        let current = || self.layers.read().as_ref().filter(is_current).cloned();
        if let Some(layers) = current() {
            return Some(layers);
        }
        let mut making = self.making.lock();
        if let Some(layers) = current() {
            return Some(layers);
        }
        let begun = Instant::now();
        if making.not_before.is_some_and(|not_before| begun < not_before) {
            return None;
        }
        let made = Layers::over(foundation, period, &self.used);
        making.not_before = Some(Instant::now() + begun.elapsed() * MAKING_SHARE);
        match made {
            Ok(made) => {
                let made = made.map(Arc::new);
                self.layers.write().clone_from(&made);
                made
            }
            Err(error) => {
                tracing::warn!("the catalogue cannot be read at this node, which passes requests on: {error:#}");
                None
            }
        }
    }
}

/// The answer to a request with a right credential. `None`: it is for the home, which also refuses
/// and counts what is wrong.
fn answered_here(layer: &impl HttpLayer, head: &Head<'_>, body: &[u8]) -> Option<Answer> {
    match layer.dispatch(head, Some(body)) {
        Dispatch::Answered(answer) => (answer.credential == Credential::Right && !answer.is_busy).then_some(answer),
        _ => None,
    }
}

impl Layers {
    /// `None` if the data have no credentials yet.
    fn over(foundation: &Foundation, period: FollowingPeriod, used: &Arc<Mutex<Used>>) -> Result<Option<Layers>> {
        let is_stale = Arc::<AtomicBool>::default();
        let marks = is_stale.clone();
        let engine = &foundation.engine;
        // From before it is read, so that no change is missed.
        let changed = Arc::new(move || marks.store(true, Ordering::SeqCst));
        let watches = watch_catalogue(engine, changed)?.to_vec();
        let made = Layers::tenants(foundation, period);
        let Ok(Some(tenants)) = made else {
            engine.unwatch(watches);
            return made.map(|_| None);
        };
        let (redis, fauna) = match (
            listeners::redis::at_replica(&tenants),
            listeners::fauna::at_replica(&tenants),
        ) {
            (Ok(redis), Ok(fauna)) => (redis, fauna),
            (redis, fauna) => {
                engine.unwatch(watches);
                redis?;
                fauna?;
                return Ok(None);
            }
        };
        Ok(Some(Layers {
            period,
            dynamodb: listeners::dynamodb::at_replica(&tenants),
            fauna,
            rest: redis,
            tenants,
            is_stale,
            watches,
            used: used.clone(),
        }))
    }

    /// The databases as of now. `None` if the data have no credentials yet.
    fn tenants(foundation: &Foundation, period: FollowingPeriod) -> Result<Option<Arc<Tenants>>> {
        let partitions = foundation.partitions.clone();
        let catalogue = Catalogue::open_replica(partitions.clone(), Box::new(process::system::fill_random))?;
        let mut settings = foundation.settings_now();
        if !credentials::settle_replica(&mut settings, &catalogue)? {
            return Ok(None);
        }
        let mut parts = parts_over(foundation, partitions, &Arc::new(settings), None);
        parts.replica = Some(period);
        let kinds = foundation.layers.iter().map(|layer| layer.kind);
        let kinds = kinds.filter(|kind| LAYERS.contains(&kind.id)).collect();
        Ok(Some(Tenants::new(catalogue, parts, kinds)))
    }

    /// Moves what was counted to the reports.
    fn give_used(&self) {
        let mut used = self.used.lock();
        for database in self.tenants.catalogue.list() {
            if let Some(counted) = database.meter.take_counted() {
                used.entry(database.id.0).or_default().add(&counted);
            }
        }
    }
}
