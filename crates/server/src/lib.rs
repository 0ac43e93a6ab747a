//! The process around the layers: listeners, limits, shutdown, metrics.
//!
//! One I/O thread for every two cores, each with its own single-threaded runtime. A connection
//! stays on the thread that was given it: requests are read, executed and answered there, so
//! nothing is handed between threads on the way to a reply. Only a reply that must wait for a sync
//! is woken from outside, and then once for all connections of the thread.

mod connections;
mod console;
pub mod credentials;
mod dynamodb;
mod fauna;
mod http;
mod keyvalue;
mod layers;
mod limits;
mod observability;
mod operations;
mod process;
mod redis;
mod rest;
mod settings;
mod tenants;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use quartet_engine::{Engine, EngineOptions, OpenProgress, Parts};
use quartet_env::{Disk, MemoryDisk, RealDisk, SystemClock};
use quartet_layer_redis::ClientMemory;
use quartet_layer_redis::execution::client_eviction;
use quartet_layer_redis::{Identity, Redis};
use quartet_log::{FileLogOptions, LogError};
use quartet_model::Version;
use quartet_tenancy::Catalogue;
use tokio::sync::{mpsc, watch};

pub use connections::tls::{ClientCertificates, TlsFiles};
pub use dynamodb::Verifier;
pub use http::framing;
pub use http::{Head, Header};
pub use layers::table::{invariants, layer_name};
pub use operations::restoring::{FolderRestore, restore_folder};
pub use process::stop_request::StopRequest;
pub use quartet_layer_keyvalue::Options as KeyValueLimits;
pub use quartet_layer_redis::Announcement;
pub use quartet_layer_redis::command::migration::Targets;
pub use settings::{
    AccessKeys, BackupSettings, ConfigFile, ConnectionSettings, Credentials, Data, DynamoDbSettings, FaunaSettings,
    HttpSettings, KeyValueSettings, Listen, LogSettings, MemorySettings, RedisSettings, RestTokens, SentinelSettings,
    Settings, StorageSettings, TelemetrySettings,
};

use crate::connections::accept::Listener;
use crate::connections::durability::DurableWaiters;
use crate::connections::handoff::{Arrival, Inbox, IoThread};
use crate::connections::tls::Tls;
use crate::connections::turns::ThreadTurns;
use crate::connections::waker::ThreadWaker;
use crate::credentials::NewCredentials;
use crate::layers::maker::LayerMaker;
use crate::layers::table::{self, Assembly, LAYERS, ServedLayer, listen};
use crate::limits::connection_limit::ConnectionLimit;
use crate::limits::memory::Budget;
use crate::limits::unauthenticated_input::StrangerBytes;
use crate::observability::durations::OfLayers;
use crate::observability::slow_requests::SlowRequests;
use crate::observability::telemetry::Telemetry;
use crate::observability::telemetry::spans::Spans;
use crate::process::cycles::Cycle;
use crate::redis::migration::Migrations;
use crate::redis::replica_of::ReplicaOf;
use crate::tenants::Tenants;

/// How often expired keys are removed.
const EXPIRY_CYCLE: Duration = Duration::from_millis(100);

/// How often it is looked whether connections take too much.
const CLIENT_EVICTION_CYCLE: Duration = Duration::from_millis(20);

/// How often connections are looked through for buffers that nobody uses, and databases for layers
/// that nobody uses.
const IDLE_CYCLE: Duration = Duration::from_secs(1);

/// How often the databases' counters are written down.
const USAGE_CYCLE: Duration = Duration::from_secs(5);

/// How often it is looked whether there is another certificate.
const CERTIFICATE_CYCLE: Duration = Duration::from_secs(1);

/// A running server. Dropping it without [`Server::shutdown`] leaves the log to be replayed.
pub struct Server {
    engine: Arc<Engine>,
    tenants: Arc<Tenants>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    /// Name and connection string of each listener.
    pub listeners: Vec<(&'static str, String)>,
    stop_requested: Arc<StopRequest>,
    keyvalue_address: Option<SocketAddr>,
    /// Made by this start, to be shown this once.
    pub new_credentials: NewCredentials,
    /// The default database's layer of Redis.
    redis: Option<Arc<Redis>>,
    /// The latest commit when the directory was opened.
    opened_version: Version,
    telemetry: Option<Telemetry>,
}

/// The parts of a thread that serves connections.
struct Worker {
    tenants: Arc<Tenants>,
    settings: Arc<Settings>,
    stop: watch::Receiver<bool>,
    /// The listeners, and the way to all threads, on the thread that accepts for all.
    accepts: Option<(Vec<Listener>, Vec<Inbox>)>,
    /// Wakes the connections of this thread.
    thread_waker: Arc<ThreadWaker>,
    arrivals: mpsc::UnboundedReceiver<Box<dyn Arrival>>,
}

impl Server {
    /// Opens the data directory and starts to listen.
    pub fn start(settings: Settings) -> Result<Server> {
        Server::start_with(settings, &LAYERS)
    }

    fn start_with(mut settings: Settings, layers: &[ServedLayer]) -> Result<Server> {
        settings.check(table::listening(&settings, layers))?;
        let startup_bytes = process::system::resident_bytes();
        let budget = Budget::new(settings.memory.bytes);
        let engine = Arc::new(open_engine(&settings, budget)?);
        budget.apply(&engine);
        let catalogue = Catalogue::open(engine.clone(), Box::new(process::system::fill_random));
        let new_credentials = credentials::settle(&mut settings, &catalogue)?;
        let limit = ConnectionLimit::of_process(settings.connections.connections_max)?;
        settings.connections.connections_max = limit.connections_max();
        let settings = Arc::new(settings);
        let (stop, stopped) = watch::channel(false);
        let stop_requested = Arc::new(StopRequest::default());
        let redis_listener = settings
            .redis
            .listen
            .address()
            .map(|address| listen(address, "redis"))
            .transpose()?;
        let port = redis_listener
            .as_ref()
            .map_or(Ok(0), |listener| listener.local_addr().map(|address| address.port()))?;
        let stranger_bytes = StrangerBytes::new();
        let spans = settings.telemetry.as_ref().map(|telemetry| {
            let (spans, received) = Spans::new(telemetry.sampling_ratio);
            (Arc::new(spans), received)
        });
        let maker = LayerMaker {
            engine: engine.clone(),
            settings: settings.clone(),
            stop: stop_requested.clone(),
            identity: identity(&engine, &settings, port, startup_bytes),
            budget_source: budget.source,
            long_scripts: Arc::default(),
            client_memory: Arc::new(ClientMemory::new(client_bytes_max(budget), engine.memory().clone())),
            login_guard: Arc::default(),
            migrations: Migrations::default(),
            replica_of: ReplicaOf::default(),
            purges: watch::Sender::new(()),
            tls: Tls::absent(stranger_bytes.clone()),
            durations: OfLayers::new(table::listeners(layers).filter_map(|row| row.measured.as_ref())),
            slow_requests: Arc::new(SlowRequests::new(settings.slow_requests)),
            spans: spans.as_ref().map(|(spans, _)| spans.clone()),
            dynamodb_endpoint: OnceLock::new(),
            fetch_issuer_keys: Arc::new(fauna::issuer_keys::fetch(settings.fauna.issuer_roots.as_deref())?),
        };
        let opened_version = engine.snapshot().1;
        let mut server = Server {
            engine,
            tenants: Tenants::new(catalogue, maker, layers.iter().map(|layer| layer.kind).collect()),
            stop,
            threads: Vec::new(),
            listeners: Vec::new(),
            stop_requested,
            keyvalue_address: None,
            new_credentials,
            redis: None,
            opened_version,
            telemetry: None,
        };
        let tenants = server.tenants.clone();
        let layer = Arc::new(tenants.maker.default_redis(tenants.directory())?);
        server.redis = Some(layer.clone());
        tenants.maker.replica_of.resume(&layer);
        let mut assembly = Assembly {
            tenants: &tenants,
            settings: &settings,
            limit: &limit,
            stranger_bytes: &stranger_bytes,
            stopped: &stopped,
            redis: &layer,
            redis_listener,
            listeners: Vec::new(),
            endpoints: Vec::new(),
            http_layers: Vec::new(),
            maintained: Vec::new(),
            deferred_tasks: Vec::new(),
            keyvalue: None,
            keyvalue_address: None,
        };
        if let (Some(telemetry), Some((spans, received))) = (&settings.telemetry, spans) {
            let source = (Arc::downgrade(&layer), Arc::downgrade(&tenants));
            let started_micros = tenants.maker.identity.started_micros;
            let telemetry = Telemetry::start(telemetry, spans, received, source, started_micros)?;
            server.telemetry = Some(telemetry);
        }
        for served in table::listeners(layers) {
            (served.listen)(&mut assembly)?;
        }
        let (listeners, maintained, waiting) = (assembly.listeners, assembly.maintained, assembly.deferred_tasks);
        (server.listeners, server.keyvalue_address) = (assembly.endpoints, assembly.keyvalue_address);
        server.serve(listeners, &settings, &stopped)?;
        for (name, work) in waiting {
            let stopped = stopped.clone();
            let thread = std::thread::Builder::new().name(name.into());
            server.threads.push(thread.spawn(move || work(&stopped))?);
        }
        let tls = tenants.maker.tls.clone();
        let mut cycles = cycles(layer, tenants, maintained);
        cycles.push(Cycle::new("certificate", CERTIFICATE_CYCLE, move || {
            tls.reload_if_changed()
        }));
        let measured = server.engine.clone();
        let (watched, purge) = (stopped.clone(), settings.memory.purge);
        server.spawn("memory", move || limits::memory::watch(measured, purge, watched))?;
        server.spawn("cycles", move || process::cycles::run(cycles, stopped))?;
        Ok(server)
    }

    /// Starts the I/O threads, the first of which accepts for all.
    fn serve(
        &mut self,
        listeners: Vec<Listener>,
        settings: &Arc<Settings>,
        stopped: &watch::Receiver<bool>,
    ) -> Result<()> {
        let (mut inboxes, mut arrivals) = (Vec::new(), Vec::new());
        for _ in 0..settings.connections.io_threads() {
            let (sender, receiver) = mpsc::unbounded_channel();
            let thread_waker = Arc::<ThreadWaker>::default();
            arrivals.push((receiver, thread_waker.clone()));
            inboxes.push(Inbox {
                arrivals: sender,
                thread_waker,
            });
        }
        let mut accepts = Some((listeners, inboxes));
        for (index, (arrivals, thread_waker)) in arrivals.into_iter().enumerate() {
            let worker = Worker {
                tenants: self.tenants.clone(),
                settings: settings.clone(),
                stop: stopped.clone(),
                accepts: accepts.take(),
                thread_waker,
                arrivals,
            };
            self.spawn(&format!("io-{index}"), || worker.run())?;
        }
        Ok(())
    }

    /// Runs a future to its end on a thread of its own. It is made there, so it need not be able to
    /// move.
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

    /// Reads the certificate again.
    pub fn reload_certificate(&self) {
        self.tenants.maker.tls.reload();
    }

    /// Gives a parameter of CONFIG another value, as it stands in the configuration file. The error
    /// says what is wrong with it.
    pub fn set_parameter(&self, name: &str, value: &str) -> Result<(), String> {
        let layer = self.redis.as_ref().expect("there while the server runs");
        layer.config.start_with_file(name, value)?;
        layer.decide_on_changes();
        Ok(())
    }

    /// Uses the certificate of these files, or keeps the old one and says why.
    pub fn change_certificate(&self, files: TlsFiles) -> Result<()> {
        let layer = self.redis.as_ref().expect("there while the server runs");
        self.tenants.maker.tls.change(files.clone())?;
        files.tell(&layer.config);
        Ok(())
    }

    /// Where the key-value protocol is spoken.
    pub fn keyvalue_address(&self) -> Option<SocketAddr> {
        self.keyvalue_address
    }

    /// Completes when a client or a signal handler asks the server to stop.
    pub fn stop_requested(&self) -> Arc<StopRequest> {
        self.stop_requested.clone()
    }

    /// Stops listening, lets replies that are ready go out, ends a script that takes long and takes
    /// it back, flushes everything, writes a checkpoint and closes the log. Ends the process if
    /// that takes longer than `limit`; everything is durable then all the same.
    pub fn shutdown(self, limit: Duration) -> Result<()> {
        let in_time = end_after(limit, Arc::downgrade(&self.engine))?;
        self.stop.send_replace(true);
        self.engine.end_waiting();
        self.tenants.maker.replica_of.stop();
        self.tenants.maker.long_scripts.abandon();
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a serving thread panicked");
            }
        }
        if let Some(telemetry) = self.telemetry {
            telemetry.stop();
        }
        self.tenants.close();
        drop((self.tenants, self.redis));
        let Some(engine) = Arc::into_inner(self.engine) else {
            bail!("something still uses the engine")
        };
        checkpoint_before_the_end(&engine, self.opened_version);
        engine.close().context("closing the log")?;
        drop(in_time);
        Ok(())
    }
}

impl Worker {
    async fn run(mut self) {
        quartet_engine::serve_on_this_thread();
        let turns = ThreadTurns::default();
        let thread = IoThread {
            waiters: DurableWaiters::start(self.tenants.maker.engine.clone(), turns.clone()),
            turns,
            stop: self.stop.clone(),
        };
        let thread_waker = self.thread_waker.clone();
        let thread_waker = tokio::task::spawn(async move { thread_waker.serve().await });
        let purges = self.tenants.maker.purges.subscribe();
        let purging = tokio::task::spawn(limits::memory::purge_when_asked(self.settings.memory.purge, purges));
        let mut tasks = tokio::task::JoinSet::new();
        if let Some((listeners, inboxes)) = self.accepts.take() {
            for listener in listeners {
                tasks.spawn(listener.accept(inboxes.clone(), self.stop.clone()));
            }
        }
        loop {
            tokio::select! {
                Some(arrival) = self.arrivals.recv() => arrival.start(&thread, &mut tasks),
                Some(_) = tasks.join_next() => {}
                // Nobody accepts any more, and everybody who was accepted is gone.
                else => break,
            }
        }
        thread_waker.abort();
        purging.abort();
        thread.waiters.stop();
    }
}

/// The periodic tasks, whichever layer they belong to.
fn cycles(layer: Arc<Redis>, tenants: Arc<Tenants>, maintained: Vec<Box<dyn Fn() + Send>>) -> Vec<Cycle> {
    let (idle, used) = ((layer, tenants.clone()), tenants.clone());
    let evicting = idle.clone();
    vec![
        Cycle::new("expiry", EXPIRY_CYCLE, move || {
            maintained.iter().for_each(|maintain| maintain());
            tenants.maintain();
        }),
        Cycle::new("client eviction", CLIENT_EVICTION_CYCLE, move || {
            evict_clients(&evicting.0, &evicting.1);
        }),
        Cycle::new("idle", IDLE_CYCLE, move || {
            redis::tidy(&idle.0);
            idle.1.tidy();
        }),
        Cycle::new("usage", USAGE_CYCLE, move || used.keep_usage(false)),
    ]
}

/// Closes connections if all of them together take too much.
fn evict_clients(layer: &Arc<Redis>, tenants: &Tenants) {
    let mut layers = vec![layer.clone()];
    layers.extend(tenants.redis_layers());
    client_eviction::evict(layer, &layers);
}

/// Upper bound on the buffers of all connections if `maxmemory-clients` is 0: a quarter of the
/// process' budget, and never so little that a few honest clients with large requests would be
/// closed.
fn client_bytes_max(budget: Budget) -> usize {
    const LEAST_BYTES: usize = 64 << 20;
    let quarter = budget.bytes.map_or(usize::MAX, |bytes| (bytes / 4) as usize);
    quarter.max(LEAST_BYTES)
}

fn identity(engine: &Engine, settings: &Settings, tcp_port: u16, startup_bytes: u64) -> Identity {
    Identity {
        quartet_version: env!("CARGO_PKG_VERSION").into(),
        run_id: process::system::random_hexadecimal(40),
        process_id: std::process::id(),
        tcp_port,
        started_micros: engine.now_micros(),
        startup_bytes,
        executable: process::system::executable(),
        config_file: settings
            .redis
            .config_file
            .as_ref()
            .map(|file| file.path.display().to_string())
            .unwrap_or_default(),
        keeps_data: settings.storage.data != Data::Memory,
        emulated_cluster: settings
            .redis
            .emulates_cluster
            .then(|| settings.redis.announcement.clone()),
    }
}

/// Ends the process once `limit` is over, after everything has become durable, unless what it
/// answers is dropped before.
fn end_after(limit: Duration, engine: Weak<Engine>) -> Result<std::sync::mpsc::Sender<()>> {
    let (in_time, ended) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("stop limit".into()).spawn(move || {
        if ended.recv_timeout(limit) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            return;
        }
        if let Some(engine) = engine.upgrade() {
            let (_, _, dependency) = engine.snapshot();
            engine.wait_durable(dependency);
        }
        tracing::warn!(
            "stopping took longer than {} seconds: ending now, everything is durable",
            limit.as_secs()
        );
        std::process::exit(0);
    })?;
    Ok(in_time)
}

/// Makes the next start quick. A checkpoint that cannot be written is no loss: the log holds
/// everything.
fn checkpoint_before_the_end(engine: &Engine, opened_version: Version) {
    let written = engine
        .statistics()
        .checkpoint_last_version
        .load(std::sync::atomic::Ordering::Relaxed);
    if engine.snapshot().1 <= opened_version.max(Version(written)) {
        return;
    }
    match engine.checkpoint() {
        Ok(()) => tracing::info!("wrote a checkpoint"),
        Err(error) => tracing::warn!(%error, "no checkpoint: the next start reads the log"),
    }
}

/// Threads beside each I/O thread for what takes long: few, because most of it is work for a core.
const BLOCKING_THREADS: usize = 4;
/// Parsers recurse as deep as requests nest, which each protocol bounds; an unoptimised build needs
/// this much for it. Only what is used is ever resident.
const STACK_BYTES: usize = 16 << 20;

/// Time between two reports of progress while opening.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

fn open_engine(settings: &Settings, budget: Budget) -> Result<Engine> {
    let disk = open_disk(&settings.storage.data)?;
    let started = std::time::Instant::now();
    let name = settings
        .storage
        .data
        .folder()
        .map_or_else(|| "memory".into(), |path| path.display().to_string());
    (settings.status)(&format!("opening {name}"));
    let (mut reported, mut told) = (started, None);
    let mut progress = |progress: OpenProgress| {
        let is_due = |last: Option<std::time::Instant>| last.is_none_or(|last| last.elapsed() >= PROGRESS_EVERY);
        if is_due(told) {
            told = Some(std::time::Instant::now());
            (settings.status)(&match progress {
                OpenProgress::Checkpoint { rows } => format!("loading the checkpoint: {rows} rows"),
                OpenProgress::Log { bytes, bytes_total } => {
                    format!("replaying the log: {bytes} of {bytes_total} bytes")
                }
            });
        }
        if is_due(Some(reported)) {
            reported = std::time::Instant::now();
            match progress {
                OpenProgress::Checkpoint { rows } => tracing::info!(rows, "loading the checkpoint"),
                OpenProgress::Log { bytes, bytes_total } => {
                    tracing::info!(bytes, bytes_total, "replaying the log")
                }
            }
        }
    };
    let mut log = FileLogOptions {
        segment_bytes: settings.log.segment_bytes,
        ..FileLogOptions::default()
    };
    let usual = EngineOptions::default();
    let shares = budget.shares(settings.storage.cache_bytes);
    let mut options = EngineOptions {
        store: settings.storage.engine,
        cache_bytes: shares.cache_bytes,
        unflushed_log_bytes: settings.storage.unflushed_bytes,
        unflushed_bytes_max: shares.unflushed_bytes,
        log_retention_bytes: settings.log.retention_bytes,
        log_retention: settings.log.retention,
        epoch_bytes_max: budget.epoch_bytes_max(usual.epoch_bytes_max),
        ..usual
    };
    if settings.storage.data == Data::Memory {
        // The log before a checkpoint is of no use to anybody, and takes memory until it is
        // trimmed.
        log.segment_bytes = log.segment_bytes.min(MEMORY_SEGMENT_BYTES);
        options.checkpoint_log_bytes = MEMORY_LOG_BYTES;
        options.log_retention_bytes = options.log_retention_bytes.min(MEMORY_LOG_BYTES);
    }
    options.kept_bytes = options.kept_bytes.min(log.segment_bytes / 4);
    let parts = Parts::with_file_log(disk, Arc::new(SystemClock), log);
    let engine = Engine::open_with(parts, options, Box::new(log_failed), &mut progress)?;
    tracing::info!(
        milliseconds = started.elapsed().as_millis() as u64,
        "opened {:?}",
        settings.storage.data
    );
    Ok(engine)
}

/// Log and checkpoints of a server without a folder hold no more than this together. Like a full
/// disk, that refuses writes.
const MEMORY_DISK_BYTES: u64 = 4 << 30;
const MEMORY_SEGMENT_BYTES: u64 = 4 << 20;
const MEMORY_LOG_BYTES: u64 = 16 << 20;

fn open_disk(data: &Data) -> Result<Arc<dyn Disk>> {
    match data {
        Data::Folder(path) => {
            let disk = RealDisk::open(path).with_context(|| format!("opening {}", path.display()))?;
            Ok(Arc::new(disk))
        }
        Data::Memory => {
            tracing::warn!("DATA ARE IN MEMORY ONLY: everything is gone when this process ends");
            Ok(Arc::new(MemoryDisk::new(MEMORY_DISK_BYTES)))
        }
    }
}

/// The log can no longer be written. All acknowledged writes are on disk; nothing more may be
/// acknowledged, so the process ends at once, without answering anybody.
fn log_failed(error: &LogError) {
    tracing::error!(%error, "the log failed: stopping; everything acknowledged before is on disk");
    std::process::exit(EXIT_LOG_FAILED);
}

/// The exit status after a failed write or sync of the log.
pub const EXIT_LOG_FAILED: i32 = 74;
