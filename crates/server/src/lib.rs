//! The process around the layers: listeners, limits, shutdown, metrics.
//!
//! One I/O thread for every two cores, each with its own single-threaded runtime. A connection stays on the thread that was given it:
//! requests are read, executed and answered there, so nothing is handed between threads on the way to a reply. Only a reply
//! that must wait for a sync is woken from outside, and then once for all connections of the thread.

mod bell;
mod compression;
mod connection;
mod durability;
mod dynamodb;
mod fauna;
mod http;
mod http_connection;
mod issuer_keys;
mod metrics;
mod migration;
mod neighbours;
mod resources;
mod rest;
mod settings;
mod tls;
mod users;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use quartet_engine::{Engine, EngineOptions, OpenProgress, Space};
use quartet_env::{RealDisk, SystemClock};
use quartet_layer_dynamodb::{DynamoDb, Throughput};
use quartet_layer_fauna::{Fauna, RateLimits, RootSecret};
use quartet_layer_redis::{Identity, Redis};
use quartet_log::LogError;
use quartet_model::{DatabaseId, LayerId};
use tokio::sync::{mpsc, watch};

pub use dynamodb::Verifier;
pub use http_connection::{Head, Header};
pub use settings::{Credentials, Listen, RestTokens, Settings};
pub use tls::TlsFiles;

use crate::bell::Porter;
use crate::durability::DurableWaiters;
use crate::dynamodb::DynamoDbHttp;
use crate::fauna::FaunaHttp;
use crate::http::HttpPages;
use crate::http_connection::{HttpAccepted, HttpLayer};
use crate::neighbours::Neighbours;
use crate::tls::Tls;

/// The logical database that the Redis listener opens.
const DEFAULT_DATABASE: DatabaseId = DatabaseId(1);
/// How often expired keys are removed.
const EXPIRY_CYCLE: Duration = Duration::from_millis(100);

/// How often connections are looked through for buffers that nobody uses.
const IDLE_CYCLE: Duration = Duration::from_secs(1);

/// A running server. Dropping it without [`Server::shutdown`] leaves the log to be replayed.
pub struct Server {
    engine: Arc<Engine>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    /// Name and connection string of each listener.
    pub listeners: Vec<(&'static str, String)>,
    stop_requested: Arc<StopRequest>,
}

/// Somebody asked the whole process to stop: SHUTDOWN, a signal.
#[derive(Default)]
pub struct StopRequest {
    requested: AtomicBool,
    notify: tokio::sync::Notify,
}

impl StopRequest {
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
        self.notify.notify_one();
    }

    pub async fn requested(&self) {
        while !self.requested.load(Ordering::SeqCst) {
            self.notify.notified().await;
        }
    }
}

/// What a thread that serves connections is given.
struct Worker {
    layer: Arc<Redis>,
    settings: Arc<Settings>,
    stop: watch::Receiver<bool>,
    /// The listeners, on the thread that accepts for all.
    listening: Option<Listening>,
    /// Wakes the connections of this thread.
    porter: Arc<Porter>,
    connections: mpsc::UnboundedReceiver<connection::Accepted>,
    http_connections: mpsc::UnboundedReceiver<HttpAccepted>,
}

/// The listeners whose connections the I/O threads serve, and the way to those threads.
struct Listening {
    redis: Option<TcpListener>,
    desks: Vec<connection::Desk>,
    http: Vec<(TcpListener, Arc<dyn HttpLayer>)>,
    tls: Option<Tls>,
    http_threads: Vec<mpsc::UnboundedSender<HttpAccepted>>,
}

impl Server {
    /// Opens the data directory and starts to listen.
    pub fn start(settings: Settings) -> Result<Server> {
        settings.check()?;
        let startup_bytes = resources::resident_bytes();
        let settings = Arc::new(settings);
        let engine = Arc::new(open_engine(&settings)?);
        let (stop, stopped) = watch::channel(false);
        let stop_requested = Arc::new(StopRequest::default());
        let mut server = Server {
            engine,
            stop,
            threads: Vec::new(),
            listeners: Vec::new(),
            stop_requested,
        };

        let redis_listener = settings
            .redis
            .address()
            .map(|address| listen(address, "redis"))
            .transpose()?;
        let port = redis_listener
            .as_ref()
            .map_or(Ok(0), |listener| listener.local_addr().map(|address| address.port()))?;
        let layer = Arc::new(server.redis_layer(&settings, port, startup_bytes)?);
        if let Some(listener) = &redis_listener {
            server
                .listeners
                .push(("redis", settings.connection_string("redis", listener.local_addr()?)));
        }
        let mut http: Vec<(TcpListener, Arc<dyn HttpLayer>)> = Vec::new();
        if let Some(address) = settings.dynamodb.address() {
            let listener = listen(address, "dynamodb")?;
            let address = listener.local_addr()?;
            server
                .listeners
                .push(("dynamodb", format!("{}://{address}", settings.http_scheme())));
            let layer = Arc::new(server.dynamodb_layer(&settings, address));
            http.push((listener, layer));
        }
        if let Some(address) = settings.fauna.address() {
            let listener = listen(address, "fauna")?;
            server.listeners.push((
                "fauna",
                format!("{}://{}", settings.http_scheme(), listener.local_addr()?),
            ));
            let layer = Arc::new(FaunaHttp::new(server.fauna_layer(&settings)?));
            http.push((listener, layer));
        }
        if let Some(address) = settings.http.address() {
            let listener = listen(address, "http")?;
            let url = format!("http://{}", listener.local_addr()?);
            server.listeners.push(("rest", settings.rest_variables(&url)));
            server.listeners.push(("http", url));
            let pages = HttpPages::new(layer.clone(), settings.rest_tokens.clone(), stopped.clone());
            http.push((listener, Arc::new(pages)));
        }
        let http_layers = http.iter().map(|(_, layer)| layer.clone()).collect();
        server.serve(redis_listener, http, layer.clone(), &settings, &stopped)?;
        server.spawn("cycles", move || run_cycles(layer, http_layers, stopped))?;
        Ok(server)
    }

    fn redis_layer(&self, settings: &Settings, tcp_port: u16, startup_bytes: u64) -> Result<Redis> {
        let space = Space {
            database: DEFAULT_DATABASE,
            layer: LayerId::Redis,
            durability: settings.durability,
        };
        let identity = Identity {
            quartet_version: env!("CARGO_PKG_VERSION").into(),
            run_id: resources::random_hexadecimal(40),
            process_id: std::process::id(),
            tcp_port,
            started_micros: self.engine.now_micros(),
            startup_bytes,
            executable: resources::executable(),
            config_file: settings.config_file.clone().unwrap_or_default(),
        };
        let stop = self.stop_requested.clone();
        let mut layer = Redis::new(self.engine.clone(), space, identity, Box::new(move || stop.request()));
        layer.resources = Box::new(resources::used);
        layer.secret_digits = Some(Box::new(resources::random_hexadecimal));
        layer.log = Arc::new(log_of_scripts);
        settings.tell(&layer.config);
        let file = users::UsersInDirectory::new(&settings.data);
        layer.config.start_with("aclfile", file.path().display().to_string());
        let has_users = file.path().exists();
        layer.user_file = Some(Box::new(file));
        if has_users && let Err(error) = layer.load_users() {
            bail!("the file of users: {error}");
        }
        if let Credentials::Key { sha256 } = settings.credentials {
            layer.users.require_password(Some(sha256));
        }
        Ok(layer)
    }

    fn dynamodb_layer(&self, settings: &Settings, address: SocketAddr) -> DynamoDbHttp {
        let space = Space {
            database: DEFAULT_DATABASE,
            layer: LayerId::DynamoDb,
            durability: settings.durability,
        };
        let mut layer = DynamoDb::new(self.engine.clone(), space);
        layer.endpoint = address.to_string();
        if settings.dynamodb_throttling {
            layer.throughput = Throughput::limited();
        }
        DynamoDbHttp::new(layer, &settings.access_keys)
    }

    fn fauna_layer(&self, settings: &Settings) -> Result<Fauna> {
        let space = Space {
            database: DEFAULT_DATABASE,
            layer: LayerId::Fauna,
            durability: settings.durability,
        };
        let root = match settings.credentials {
            Credentials::Key { sha256 } => RootSecret { sha256 },
            Credentials::None => RootSecret::of(fauna::DEVELOPMENT_SECRET),
        };
        let mut layer = Fauna::new(self.engine.clone(), space, root, Box::new(resources::fill_random));
        layer.key_sets.fetch = Some(issuer_keys::fetch(settings.fauna_issuer_roots.as_deref())?);
        layer.rate_limits = RateLimits::new(settings.fauna_rate_limits);
        Ok(layer)
    }

    /// Starts the I/O threads, the first of which accepts for all.
    fn serve(
        &mut self,
        redis: Option<TcpListener>,
        http: Vec<(TcpListener, Arc<dyn HttpLayer>)>,
        layer: Arc<Redis>,
        settings: &Arc<Settings>,
        stopped: &watch::Receiver<bool>,
    ) -> Result<()> {
        let (mut desks, mut receivers) = (Vec::new(), Vec::new());
        let (mut http_threads, mut http_receivers) = (Vec::new(), Vec::new());
        for _ in 0..settings.io_threads() {
            let (connections, receiver) = mpsc::unbounded_channel();
            let porter = Arc::<Porter>::default();
            receivers.push((receiver, porter.clone()));
            desks.push(connection::Desk { connections, porter });
            let (sender, receiver) = mpsc::unbounded_channel();
            http_threads.push(sender);
            http_receivers.push(receiver);
        }
        let mut listening = Some(Listening {
            redis,
            desks,
            http,
            tls: settings.tls.as_ref().map(Tls::load).transpose()?,
            http_threads,
        });
        let receivers = receivers.into_iter().zip(http_receivers);
        for (index, ((connections, porter), http_connections)) in receivers.enumerate() {
            let worker = Worker {
                layer: layer.clone(),
                settings: settings.clone(),
                stop: stopped.clone(),
                listening: listening.take(),
                porter,
                connections,
                http_connections,
            };
            self.spawn(&format!("io-{index}"), || worker.run())?;
        }
        Ok(())
    }

    /// Runs a future to its end on a thread of its own. It is made there, so it need not be able to move.
    fn spawn<F: Future<Output = ()>>(&mut self, name: &str, make: impl FnOnce() -> F + Send + 'static) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_stack_size(STACK_BYTES)
            .build()?;
        let thread = std::thread::Builder::new()
            .name(name.into())
            .stack_size(STACK_BYTES)
            .spawn(move || runtime.block_on(make()))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Completes when a client or a signal handler asks the server to stop.
    pub fn stop_requested(&self) -> Arc<StopRequest> {
        self.stop_requested.clone()
    }

    /// Stops listening, lets replies that are ready go out, flushes everything and closes the log.
    pub fn shutdown(self) -> Result<()> {
        self.stop.send_replace(true);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a serving thread panicked");
            }
        }
        let Some(engine) = Arc::into_inner(self.engine) else {
            bail!("something still uses the engine")
        };
        engine.close().context("closing the log")
    }
}

impl Worker {
    async fn run(mut self) {
        let neighbours = Neighbours::default();
        let waiters = DurableWaiters::start(self.layer.engine.clone(), neighbours.clone());
        let porter = self.porter.clone();
        let porter = tokio::task::spawn(async move { porter.serve().await });
        let mut tasks = tokio::task::JoinSet::new();
        if let Some(listening) = self.listening.take() {
            self.listen(listening, &mut tasks);
        }
        loop {
            tokio::select! {
                Some(accepted) = self.connections.recv() => {
                    let (layer, settings) = (self.layer.clone(), self.settings.clone());
                    let serving = connection::serve(accepted, layer, settings, waiters.clone(), self.stop.clone());
                    tasks.spawn(neighbours.with(serving));
                }
                Some(accepted) = self.http_connections.recv() => {
                    tasks.spawn(neighbours.with(http_connection::serve(accepted, waiters.clone(), self.stop.clone())));
                }
                Some(_) = tasks.join_next() => {}
                // Nobody accepts any more, and everybody who was accepted is gone.
                else => break,
            }
        }
        porter.abort();
        waiters.stop();
    }

    fn listen(&self, listening: Listening, tasks: &mut tokio::task::JoinSet<()>) {
        if let Some(listener) = listening.redis {
            let (layer, stop) = (self.layer.clone(), self.stop.clone());
            tasks.spawn(connection::accept(listener, layer, listening.desks, stop));
        }
        for (listener, layer) in listening.http {
            let (threads, stop) = (listening.http_threads.clone(), self.stop.clone());
            let connections_max = self.settings.connections_max;
            let tls = listening.tls.clone();
            tasks.spawn(http_connection::accept(
                listener,
                layer,
                tls,
                connections_max,
                threads,
                stop,
            ));
        }
    }
}

async fn run_cycles(layer: Arc<Redis>, http_layers: Vec<Arc<dyn HttpLayer>>, mut stop: watch::Receiver<bool>) {
    let mut cycle = tokio::time::interval(EXPIRY_CYCLE);
    let mut idle_cycle = tokio::time::interval(IDLE_CYCLE);
    while !*stop.borrow() {
        tokio::select! {
            _ = cycle.tick() => {
                layer.expire_due();
                http_layers.iter().for_each(|layer| layer.maintain());
            }
            _ = idle_cycle.tick() => connection::wake_idle(&layer),
            _ = stop.changed() => {}
        }
    }
}

/// What `redis.log` writes, at the levels of Redis: debug, verbose, notice, warning.
fn log_of_scripts(level: u8, line: &str) {
    match level {
        0 => tracing::trace!("script: {line}"),
        1 => tracing::debug!("script: {line}"),
        2 => tracing::info!("script: {line}"),
        _ => tracing::warn!("script: {line}"),
    }
}

fn listen(address: SocketAddr, name: &str) -> Result<TcpListener> {
    let socket = if address.is_ipv6() {
        tokio::net::TcpSocket::new_v6()
    } else {
        tokio::net::TcpSocket::new_v4()
    }?;
    socket.set_reuseaddr(true)?;
    socket
        .bind(address)
        .with_context(|| format!("listening for {name} on {address}"))?;
    // A runtime is needed to register the socket; the listener is handed on without one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    Ok(socket.listen(LISTEN_BACKLOG)?.into_std()?)
}

const LISTEN_BACKLOG: u32 = 1024;
/// Threads beside each I/O thread for what takes long: few, because most of it is work for a core.
const BLOCKING_THREADS: usize = 4;
/// Parsers recurse as deep as requests nest, which each protocol bounds; an unoptimised build needs this much for it. Only
/// what is used is ever resident.
const STACK_BYTES: usize = 16 << 20;

fn open_engine(settings: &Settings) -> Result<Engine> {
    let disk = RealDisk::open(&settings.data).with_context(|| format!("opening {}", settings.data.display()))?;
    let started = std::time::Instant::now();
    let mut reported = started;
    let mut progress = |progress: OpenProgress| {
        if reported.elapsed() >= Duration::from_secs(1) {
            reported = std::time::Instant::now();
            match progress {
                OpenProgress::Checkpoint { rows } => tracing::info!(rows, "loading the checkpoint"),
                OpenProgress::Log { bytes, bytes_total } => {
                    tracing::info!(bytes, bytes_total, "replaying the log")
                }
            }
        }
    };
    let options = EngineOptions {
        segment_bytes: settings.log_segment_bytes,
        ..EngineOptions::default()
    };
    let engine = Engine::open(
        Arc::new(disk),
        Arc::new(SystemClock),
        options,
        Box::new(log_failed),
        &mut progress,
    )?;
    tracing::info!(
        milliseconds = started.elapsed().as_millis() as u64,
        "opened {}",
        settings.data.display()
    );
    Ok(engine)
}

/// The log can no longer be written. What was acknowledged is on disk; nothing more may be acknowledged, so the process
/// ends at once, without answering anybody.
fn log_failed(error: &LogError) {
    tracing::error!(%error, "the log failed: stopping; everything acknowledged before is on disk");
    std::process::exit(EXIT_LOG_FAILED);
}

/// The exit status after a failed write or sync of the log.
pub const EXIT_LOG_FAILED: i32 = 74;
