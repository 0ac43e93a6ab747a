//! REPLICAOF: the default database's Redis keys as a copy of another server's.
//!
//! ```text
//! source --PSYNC--> thread --transactions: what was sent, and how far it is--> the layer, by a session of the thread's own
//! ```
//!
//! The position of the copy is a row among the keys and is written with them, so a server that was
//! killed continues from its last position. A first copy is incomplete until all of it has arrived,
//! and is invisible to clients: not while it arrives, not when the link breaks or the server
//! restarts, and not when REPLICAOF NO ONE ends it, which removes it.
//!
//! Nothing of an ended copy is written: the thread that ends a copy holds its gate afterwards, and
//! the copying thread checks it inside the gate.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quartet_engine::{Dependency, Durability};
use quartet_layer_redis::replication::{LinkState, Upstream};
use quartet_layer_redis::{After, Next};
use quartet_layer_redis::{Redis, Session, command::errors};
use quartet_redis_copy::connection::{Target, error_text};
use quartet_redis_copy::progress::{Keeper, Progress, Step};
use quartet_redis_copy::tls::Tls;
use quartet_redis_copy::watcher::{Rejected, Stage, Watcher};
use quartet_redis_copy::{Address, Error, follow};
use quartet_wire_resp::{Value, decode, encode_command};

use crate::connections::durability::Hold;

/// Time for which a session waits while the partition is held.
const BUSY_RETRY: Duration = Duration::from_millis(5);
/// Between two attempts at a source that takes no replicas, or that the target could not follow.
const RETRY: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);

/// The server that is copied, if any.
#[derive(Default)]
pub struct ReplicaOf {
    running: Mutex<Option<Running>>,
}

struct Running {
    stop: Arc<AtomicBool>,
    /// Held while the copy writes.
    gate: Arc<Mutex<()>>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Nothing of the copy is written from here on.
    fn end(&self) {
        self.stop.store(true, Ordering::SeqCst);
        drop(self.gate.lock());
    }
}

impl ReplicaOf {
    /// Resumes the replication that was active at the last end of the server. Must be called before
    /// any client connects.
    pub fn resume(&self, layer: &Arc<Redis>) {
        let Some(text) = layer.standing() else { return };
        let progress: Option<Progress> = serde_json::from_slice(&text).ok();
        let source = progress.as_ref().and_then(|progress| progress.source.parse().ok());
        let (Some(progress), Some(source)) = (progress, source) else {
            tracing::error!("what is written down of REPLICAOF cannot be read: nothing is copied");
            return layer.replication.hold_part(true);
        };
        layer.replication.hold_part(progress.step == Step::FirstCopy);
        become_replica(layer, &source);
        *self.running.lock() = start(layer, source);
    }

    /// Starts or ends the replication of a server. Waits for the disk, but not for another server.
    /// The error is a reply.
    pub fn change(&self, layer: &Arc<Redis>, source: Option<(String, u16)>) -> Result<(), String> {
        let mut running = self.running.lock();
        if let Some(running) = running.take() {
            running.end();
        }
        let changed = match source {
            None => become_own_master(layer),
            Some((host, port)) => {
                let source = Address {
                    host,
                    port,
                    user: None,
                    password: None,
                    tls: None,
                };
                let written = begin_at(layer, &source);
                *running = start(layer, source);
                written
            }
        };
        changed.map_err(|error| format!("ERR {error}"))
    }

    /// The server stops: waits until the copy has ended.
    pub fn stop(&self) {
        if let Some(running) = self.running.lock().take() {
            running.end();
            let _ = running.thread.join();
        }
    }
}

fn become_replica(layer: &Redis, source: &Address) {
    let upstream = Upstream::new(&source.host, source.port, layer.engine.now_micros());
    layer.replication.follow(Some(upstream));
    tell_parameter(layer, format!("{} {}", source.host, source.port));
    layer.connections.blocking.end_all_soon(errors::UNBLOCKED);
}

/// Ends clients' writes, and writes down the source. The position of an earlier source counts: this
/// one may know its stream.
fn begin_at(layer: &Arc<Redis>, source: &Address) -> Result<(), Error> {
    become_replica(layer, source);
    let progress = Progress {
        source: source.to_string(),
        step: standing(layer),
    };
    let (requests, replies) = Keeper::Replica.requests(&progress);
    Local::new(layer.clone(), Arc::default(), Arc::default()).bring(&requests, replies)
}

/// Clients may write. A part of a first copy is no database, so nothing is left of it.
fn become_own_master(layer: &Arc<Redis>) -> Result<(), Error> {
    if layer.standing().is_some() {
        let mut requests = Vec::new();
        encode_command(&["MULTI"], &mut requests);
        let is_partial = layer.replication.is_partial();
        if is_partial {
            encode_command(&["FLUSHALL"], &mut requests);
            encode_command(&["FUNCTION", "FLUSH"], &mut requests);
        }
        encode_command(&["REPLCONF", "quartet-none", ""], &mut requests);
        encode_command(&["EXEC"], &mut requests);
        let replies = if is_partial { 5 } else { 3 };
        Local::new(layer.clone(), Arc::default(), Arc::default()).bring(&requests, replies)?;
    }
    layer.replication.hold_part(false);
    layer.replication.follow(None);
    tell_parameter(layer, String::new());
    Ok(())
}

/// Makes CONFIG GET say so.
fn tell_parameter(layer: &Redis, text: String) {
    layer.config.start_with("replicaof", text);
}

/// The recorded progress of the copy.
fn standing(layer: &Redis) -> Step {
    let text = layer.standing();
    let progress: Option<Progress> = text.and_then(|text| serde_json::from_slice(&text).ok());
    progress.map_or(Step::Nothing, |progress| progress.step)
}

fn start(layer: &Arc<Redis>, source: Address) -> Option<Running> {
    let (stop, gate) = (Arc::<AtomicBool>::default(), Arc::<Mutex<()>>::default());
    let copying = Copying {
        layer: layer.clone(),
        source,
        stop: stop.clone(),
        gate: gate.clone(),
    };
    let started = std::thread::Builder::new()
        .name("replica of".into())
        .spawn(move || copying.run());
    started
        .inspect_err(|error| tracing::error!(%error, "starting the thread of REPLICAOF"))
        .ok()
        .map(|thread| Running { stop, gate, thread })
}

/// The thread.
struct Copying {
    layer: Arc<Redis>,
    source: Address,
    stop: Arc<AtomicBool>,
    gate: Arc<Mutex<()>>,
}

impl Copying {
    fn run(self) {
        while !self.is_stopped() {
            let source = source_now(&self.layer, &self.source);
            let mut target = Local::new(self.layer.clone(), self.stop.clone(), self.gate.clone());
            let mut watch = Watch {
                layer: self.layer.clone(),
                stop: self.stop.clone(),
                source: source.clone(),
                is_outdated: false,
            };
            let port = Some(self.layer.process.identity.tcp_port).filter(|&port| port != 0);
            let ended = follow::replicate(&source, &mut target, &mut watch, standing(&self.layer), port);
            if self.is_stopped() {
                return;
            }
            if watch.is_outdated {
                continue;
            }
            tracing::warn!(source = %source, error = %ended, "the copy of REPLICAOF has ended; it is begun again");
            let now_micros = self.layer.engine.now_micros();
            self.layer.replication.note_link(LinkState::Down, now_micros);
            let until = Instant::now() + RETRY;
            while Instant::now() < until && !self.is_stopped() {
                std::thread::sleep(LOOK);
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// With the credential, and over TLS, as the parameters have it by now.
fn source_now(layer: &Redis, source: &Address) -> Address {
    let text = |name: &str| Some(layer.config.text_of(name)).filter(|text| !text.is_empty());
    Address {
        user: text("masteruser"),
        password: text("masterauth"),
        tls: (text("tls-replication").as_deref() == Some("yes")).then(|| tls_now(layer)),
        ..source.clone()
    }
}

/// As in Redis: the roots of `tls-ca-cert-file`, and the certificate for outgoing connections, or
/// else the certificate for incoming connections.
fn tls_now(layer: &Redis) -> Tls {
    let path = |name: &str| Some(PathBuf::from(layer.config.text_of(name))).filter(|path| !path.as_os_str().is_empty());
    let outgoing = path("tls-client-cert-file").zip(path("tls-client-key-file"));
    Tls {
        roots: path("tls-ca-cert-file"),
        own: outgoing.or_else(|| path("tls-cert-file").zip(path("tls-key-file"))),
    }
}

/// A session of the layer's own, as a target.
struct Local {
    layer: Arc<Redis>,
    session: Session,
    stop: Arc<AtomicBool>,
    gate: Arc<Mutex<()>>,
    replies: Vec<u8>,
    /// Replies that were taken.
    start: usize,
    /// The ends of each sending's replies, and what they wait for.
    sent: VecDeque<(usize, Hold)>,
}

impl Local {
    fn new(layer: Arc<Redis>, stop: Arc<AtomicBool>, gate: Arc<Mutex<()>>) -> Local {
        let now_micros = layer.engine.now_micros();
        let name = || "replication".to_owned();
        let clients = &layer.connections.clients;
        let client = clients.connect(name(), name(), now_micros, Arc::new(|| {}));
        let mut session = Session::new(layer.clone(), client);
        session.act_for_upstream();
        Local {
            layer,
            session,
            stop,
            gate,
            replies: Vec::new(),
            start: 0,
            sent: VecDeque::new(),
        }
    }

    /// Sends requests that must succeed, with `replies` replies.
    fn bring(&mut self, requests: &[u8], replies: usize) -> Result<(), Error> {
        self.send(requests)?;
        for _ in 0..replies {
            if let Some(text) = error_text(&self.receive()?) {
                return Err(Error::Target(text));
            }
        }
        Ok(())
    }

    fn perform(&mut self, after: After) -> Dependency {
        match after {
            After::LongRun(mut run) => {
                run.run();
                self.session.take_back(*run, &mut self.replies)
            }
            // Nothing of the kind is an effect; what is written already is the reply.
            After::Deferred(_) | After::Sleep { .. } => Dependency::ZERO,
        }
    }
}

impl Target for Local {
    fn send(&mut self, requests: &[u8]) -> Result<(), Error> {
        let gate = self.gate.clone();
        let _open = gate.lock();
        let arrival = self.layer.engine.arrival(Durability::Always);
        let (mut consumed, mut dependency) = (0, Dependency::ZERO);
        while consumed < requests.len() {
            // A started transaction is not executed before its last request.
            if self.stop.load(Ordering::SeqCst) {
                return Err(Error::Stopped);
            }
            let received = self.session.receive(&requests[consumed..], &mut self.replies);
            consumed += received.consumed;
            dependency = dependency.max(received.dependency);
            let is_closed = matches!(received.next, Next::Close);
            if let Next::After(after) = received.next {
                dependency = dependency.max(self.perform(after));
            }
            let is_killed = self.session.client().killed.load(Ordering::SeqCst);
            if is_closed || is_killed || self.session.is_ending() {
                return Err(Error::Target("the session was closed".into()));
            }
            if received.consumed == 0 {
                // Something keeps the partition.
                self.session.time_out();
                std::thread::sleep(BUSY_RETRY);
            }
        }
        self.sent.push_back((self.replies.len(), Hold { dependency, arrival }));
        Ok(())
    }

    /// Receives only replies of durable commits.
    fn receive(&mut self) -> Result<Value, Error> {
        if let Some((_, Hold { dependency, arrival })) = self.sent.front()
            && !self.layer.engine.wait_settled(*dependency, *arrival)
        {
            return Err(Error::Target("the log failed".into()));
        }
        let Ok(Some((value, consumed))) = decode(&self.replies[self.start..]) else {
            return Err(Error::Target("no answer".into()));
        };
        self.start += consumed;
        while self.sent.front().is_some_and(|(end, _)| *end <= self.start) {
            self.sent.pop_front();
        }
        if self.start == self.replies.len() {
            (self.start, _) = (0, self.replies.clear());
        }
        Ok(value)
    }
}

struct Watch {
    layer: Arc<Redis>,
    stop: Arc<AtomicBool>,
    /// The source, and how it is spoken to.
    source: Address,
    /// The parameters have changed: a retry with the old parameters is of no use.
    is_outdated: bool,
}

impl Watcher for Watch {
    fn stage(&mut self, stage: Stage) {
        let (replication, now_micros) = (&self.layer.replication, self.layer.engine.now_micros());
        match stage {
            Stage::Apart => {
                replication.note_link(LinkState::Down, now_micros);
                self.is_outdated |= source_now(&self.layer, &self.source) != self.source;
            }
            Stage::FirstCopy => replication.note_link(LinkState::Copying, now_micros),
            Stage::Following(offset) => {
                replication.note_link(LinkState::Up, now_micros);
                replication.note_offset(offset, now_micros);
            }
        }
    }

    fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        Some(self.stop.clone())
    }

    fn phase(&mut self, text: &str, _: Option<u64>) {
        tracing::info!(phase = text, "replication");
    }

    fn progress(&mut self, _: u64, _: u64) {}

    fn rejected(&mut self, rejected: Rejected) {
        tracing::warn!(%rejected, "something of the source's is not taken");
    }

    fn note(&mut self, text: &str) {
        tracing::info!("{text}");
    }

    fn is_stopped(&self) -> bool {
        self.is_outdated || self.stop.load(Ordering::SeqCst)
    }

    fn wants_cut_over(&mut self) -> bool {
        false
    }
}
