//! The process around the layers: listeners, limits, shutdown, metrics.
//!
//! One I/O thread for every two cores, each with its own single-threaded runtime. A connection
//! stays on the thread that was given it: requests are read, executed and answered there, so
//! nothing is handed between threads on the way to a reply. Only a reply that must wait for a sync
//! is woken from outside, and then once for all connections of the thread.

mod cluster;
mod connections;
mod console;
pub mod credentials;
mod dynamodb;
mod fauna;
mod http;
mod keyvalue;
mod layers;
mod limits;
mod listeners;
mod metrics;
mod observability;
mod operations;
mod partition_folders;
mod process;
mod redis;
mod rest;
mod serving;
mod settings;
mod tenants;

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use quartet_engine::{Engine, EngineOptions, Memory, OpenProgress, Parts as EngineParts, Replicated, StoreKind};
use quartet_env::{Disk, MemoryDisk, RealDisk, SystemClock};
use quartet_log::{FileLogOptions, LogError};
use quartet_model::Version;
use quartet_tenancy::Partitions;

pub use cluster::adoption::AdoptedCluster;
pub use cluster::ending::EndedCluster;
pub use cluster::protocol;
pub use connections::tls::{ClientCertificates, TlsFiles};
pub use dynamodb::Verifier;
pub use http::framing;
pub use http::{Head, Header};
pub use keyvalue::carried as carried_credential;
pub use listeners::{Endpoint, invariants, layer_name};
pub use metrics::page as metrics_page;
pub use operations::restoring::{FolderRestore, OpenTarget, read_database, restore_folder};
pub use partition_folders::{check_complete, partition_folders};
pub use process::stop_request::StopRequest;
pub use quartet_layer_keyvalue::Options as KeyValueLimits;
pub use quartet_layer_redis::command::migration::Targets;
pub use quartet_layer_redis::{Announcement, RedisVersion};
pub use quartet_log_etcd::{EtcdOptions, EtcdTls};
pub use settings::{
    AccessKeys, BackupSettings, ClusterSettings, ConfigFile, ConnectionSettings, Credentials, Data, DynamoDbSettings,
    FaunaSettings, HttpSettings, KeyValueSettings, Listen, LogSettings, MemorySettings, NewCredentials,
    NodeCertificates, RedisSettings, RestTokens, SentinelSettings, Settings, StorageSettings, TelemetrySettings,
};

use crate::cluster::node::Node;
use crate::cluster::node::joining::Joined;
use crate::cluster::standby;
use crate::connections::sockets::Sockets;
use crate::connections::tls::Tls;
use crate::limits::connection_limit::ConnectionLimit;
use crate::limits::memory::Budget;
use crate::limits::unauthenticated_input::StrangerBytes;
use crate::listeners::{LAYERS, ServedLayer};
use crate::redis::opening::check_parameter;
use crate::serving::{Foundation, Serving};

/// A running server. Dropping it without [`Server::shutdown`] leaves the log to be replayed.
pub struct Server {
    foundation: Arc<Foundation>,
    running: Running,
    /// The latest commit of each partition when the directory was opened.
    opened_versions: Vec<Version>,
}

/// The service at the sockets.
enum Running {
    Alone(Serving),
    /// One of several that share a log: home, or not.
    Node(Node),
}

impl Server {
    /// Opens the data directory and starts to listen.
    pub fn start(settings: Settings) -> Result<Server> {
        Server::start_with(settings, &LAYERS)
    }

    fn start_with(mut settings: Settings, layers: &'static [ServedLayer]) -> Result<Server> {
        settings.check(listeners::listening(&settings, layers))?;
        let startup_bytes = process::system::resident_bytes();
        let budget = Budget::new(settings.memory.bytes);
        let parts = |folder: &Path| engine_parts(folder, &settings);
        let sockets = Sockets::default();
        let joined = settings
            .cluster
            .as_ref()
            .map(|cluster| Joined::new(cluster, &settings, &sockets, &parts));
        let (joined, shared) = joined.transpose()?.unzip();
        if let Some(joined) = &joined {
            settings.storage.partitions = Some(joined.partitions());
        }
        let partitions = Arc::new(open_partitions(&settings, budget, shared)?);
        let engine = partitions.first().clone();
        budget.apply(&engine);
        let limit = ConnectionLimit::of_process(settings.connections.connections_max)?;
        settings.connections.connections_max = limit.connections_max();
        let tls = Tls::absent(StrangerBytes::new(), settings.connections.tls_only);
        if joined.is_some() {
            tls.change(settings.connections.tls.clone())?;
        }
        let foundation = Arc::new(Foundation {
            partitions,
            engine,
            settings,
            parameters: Mutex::default(),
            layers,
            budget,
            startup_bytes,
            limit,
            sockets,
            tls,
            stop_requested: Arc::default(),
            nodes: OnceLock::new(),
        });
        Ok(Server {
            opened_versions: foundation
                .partitions
                .iter()
                .map(|(_, engine)| engine.snapshot().1)
                .collect(),
            running: match joined {
                None => Running::Alone(Serving::begin(&foundation)?),
                Some(joined) => Running::Node(Node::start(joined, foundation.clone())?),
            },
            foundation,
        })
    }

    /// The endpoints of all protocols.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        match &self.running {
            Running::Alone(serving) => serving.endpoints.clone(),
            Running::Node(_) => standby::endpoints(&self.foundation),
        }
    }

    /// Credentials that this start has made. A node of a cluster makes them when it becomes home.
    pub fn new_credentials(&self) -> Option<&NewCredentials> {
        match &self.running {
            Running::Alone(serving) => Some(&serving.new_credentials),
            Running::Node(_) => None,
        }
    }

    /// Calls `act` with the layers, unless another node is home.
    fn with_serving<T>(&self, act: impl FnOnce(&Serving) -> T) -> Option<T> {
        match &self.running {
            Running::Alone(serving) => Some(act(serving)),
            Running::Node(node) => node.with_serving(act),
        }
    }

    /// Reads the certificate again.
    pub fn reload_certificate(&self) {
        self.foundation.tls.reload();
    }

    /// Sets a parameter of CONFIG, with the text of the configuration file. The error has the fault
    /// of the text.
    pub fn set_parameter(&self, name: &str, value: &str) -> Result<(), String> {
        check_parameter(&self.foundation.settings, name, value)?;
        // New layers start with it, and existing layers get it.
        let parameter = (name.to_owned(), value.to_owned());
        self.foundation.parameters.lock().push(parameter);
        match &self.running {
            Running::Alone(serving) => serving.set_parameter(name, value),
            Running::Node(node) => node.set_parameter(name, value),
        }
    }

    /// Uses the certificate of these files, or keeps the old one and says why.
    pub fn change_certificate(&self, files: TlsFiles) -> Result<()> {
        self.foundation.tls.change(files.clone())?;
        self.with_serving(|serving| {
            let layer = serving.redis.as_ref().expect("there while the server runs");
            files.tell(&layer.config);
        });
        Ok(())
    }

    /// Completes when a client or a signal handler requests the server's stop.
    pub fn stop_requested(&self) -> Arc<StopRequest> {
        self.foundation.stop_requested.clone()
    }

    /// Hands over to another node of the cluster, stops listening, lets replies that are ready go
    /// out, ends a script that takes long and takes it back, flushes everything, writes a
    /// checkpoint and closes the log. Ends the process if that takes longer than `limit`;
    /// everything is durable then all the same.
    pub fn shutdown(self, limit: Duration) -> Result<()> {
        let in_time = end_after(limit, Arc::downgrade(&self.foundation.partitions))?;
        if let Running::Node(node) = &self.running {
            node.hand_over_before_the_end();
        }
        self.foundation.sockets.close();
        for (_, engine) in self.foundation.partitions.iter() {
            engine.end_waiting();
        }
        match self.running {
            Running::Alone(serving) => serving.end(),
            Running::Node(node) => node.end(),
        }
        let foundation = Arc::into_inner(self.foundation);
        let partitions = foundation.and_then(|Foundation { engine, partitions, .. }| {
            drop(engine);
            Arc::into_inner(partitions)
        });
        let engines = partitions.map(Partitions::into_engines).unwrap_or_default();
        let engines = engines
            .into_iter()
            .map(Arc::into_inner)
            .collect::<Option<Vec<Engine>>>();
        let Some(engines) = engines.filter(|engines| !engines.is_empty()) else {
            bail!("something still uses the engine")
        };
        for (engine, opened_version) in engines.into_iter().zip(self.opened_versions) {
            checkpoint_before_the_end(&engine, opened_version);
            engine.close().context("closing the log")?;
        }
        drop(in_time);
        Ok(())
    }
}

#[cfg(test)]
impl Server {
    fn serving(&self) -> &Serving {
        match &self.running {
            Running::Alone(serving) => serving,
            Running::Node(_) => unreachable!("no test of the crate has a cluster"),
        }
    }

    /// Drops all layers and builds them again.
    fn serve_anew(self) -> Result<Server> {
        if let Running::Alone(serving) = self.running {
            serving.end();
        }
        Ok(Server {
            running: Running::Alone(Serving::begin(&self.foundation)?),
            ..self
        })
    }
}

/// Ends the process after `limit`, when all writes are durable, unless the returned sender is
/// dropped first.
fn end_after(limit: Duration, partitions: Weak<Partitions>) -> Result<std::sync::mpsc::Sender<()>> {
    let (in_time, ended) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("stop limit".into()).spawn(move || {
        if ended.recv_timeout(limit) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            return;
        }
        if let Some(partitions) = partitions.upgrade() {
            for (_, engine) in partitions.iter() {
                let (_, _, dependency) = engine.snapshot();
                engine.wait_durable(dependency);
            }
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

/// Creates a new cluster from the folder of the node `from`. See [`cluster::adoption::adopt`].
pub fn adopt(settings: &Settings, from: &str, accepts_loss: bool) -> Result<AdoptedCluster> {
    cluster::adoption::adopt(settings, from, accepts_loss, &|folder| engine_parts(folder, settings))
}

/// Ends the cluster of this node's folder. See [`cluster::ending::end`].
pub fn end_cluster(settings: &Settings) -> Result<EndedCluster> {
    cluster::ending::end(settings, &|folder| engine_parts(folder, settings))
}

/// The parts that open a partition's folder at a node of a cluster before it serves.
fn engine_parts(folder: &Path, settings: &Settings) -> Result<EngineParts> {
    let disk = open_disk(&Data::Folder(folder.to_owned()), MEMORY_DISK_BYTES)?;
    Ok(EngineParts::with_file_log(
        disk,
        Arc::new(SystemClock),
        log_options(settings),
    ))
}

/// Returns the size of a partition's log files. Opening reads the newest file of each from its
/// start, and each reserves two: all partitions together take the time and space of a single one.
fn segment_bytes(configured: u64, partitions: u64) -> u64 {
    configured.min((configured / partitions).max(SEGMENT_BYTES_MIN))
}

/// Only the setting makes files smaller than this.
const SEGMENT_BYTES_MIN: u64 = 4 << 20;

/// Time between two reports of progress while opening.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Opens the partitions of the data folder, or the wanted number. `shared`: each partition's part
/// of a cluster's log.
fn open_partitions(settings: &Settings, budget: Budget, shared: Option<Vec<Replicated>>) -> Result<Partitions> {
    let count = settings.storage.partitions;
    let data: Vec<Data> = match &settings.storage.data {
        Data::Folder(folder) => {
            let folders = partition_folders::wanted_folders(folder, count)?;
            folders.into_iter().map(Data::Folder).collect()
        }
        Data::Memory => vec![Data::Memory; count.unwrap_or(1) as usize],
    };
    // All folders exist before the first records that there are several.
    let memory_bytes = MEMORY_DISK_BYTES / data.len() as u64;
    let disks = side_by_side(data.iter(), |data| open_disk(data, memory_bytes))?;
    if let Some(folder) = settings.storage.data.folder()
        && disks.len() == 1
    {
        partition_folders::check_complete(&*disks[0], folder)?;
    }
    // A new partition uses the same store as the existing partitions.
    let mut store = settings.storage.engine;
    for disk in &disks {
        store = store.map_or_else(|| StoreKind::of(&**disk), |store| Ok(Some(store)))?;
    }
    let opening = PartitionOpening {
        settings,
        budget,
        partitions: disks.len(),
        memory: Arc::default(),
        store,
    };
    let mut shared = shared.into_iter().flatten();
    let parts = data.iter().zip(disks).map(|(data, disk)| (data, disk, shared.next()));
    let engines = side_by_side(parts, |(data, disk, shared)| opening.open(data, disk, shared))?;
    Ok(Partitions::new(engines.into_iter().map(Arc::new).collect()))
}

/// Does something to each item on a thread of its own, some at once.
///
/// Errors: the first item's error.
fn side_by_side<T: Send, R: Send>(
    mut items: impl Iterator<Item = T>,
    act: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let (act, mut results) = (&act, Vec::new());
    loop {
        let some: Vec<T> = items.by_ref().take(AT_ONCE_MAX).collect();
        if some.is_empty() {
            return Ok(results);
        }
        let acted: Result<Vec<R>> = std::thread::scope(|scope| {
            let threads: Vec<_> = some.into_iter().map(|item| scope.spawn(move || act(item))).collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended
                .map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        });
        results.extend(acted?);
    }
}

/// Most partitions that are opened at once. An opening waits for the disk more than it computes.
const AT_ONCE_MAX: usize = 16;

/// The settings that the partitions of a process have in common when they are opened.
struct PartitionOpening<'s> {
    settings: &'s Settings,
    budget: Budget,
    partitions: usize,
    memory: Arc<Memory>,
    store: Option<StoreKind>,
}

impl PartitionOpening<'_> {
    fn open(&self, data: &Data, disk: Arc<dyn Disk>, shared: Option<Replicated>) -> Result<Engine> {
        let settings = self.settings;
        let started = std::time::Instant::now();
        let name = data
            .folder()
            .map_or_else(|| "memory".into(), |path| path.display().to_string());
        (settings.status)(&format!("opening {name}"));
        let mut progress = opening_progress(settings, started);
        let mut log = log_options(settings);
        log.is_one_of_several = self.partitions > 1;
        log.segment_bytes = segment_bytes(log.segment_bytes, self.partitions as u64);
        let options = self.options(&log);
        let parts = EngineParts::with_file_log(disk, Arc::new(SystemClock), log);
        let failed = Box::new(log_failed);
        let engine = match shared {
            None => Engine::open_with(parts, options, failed, &mut progress)?,
            Some(shared) => Engine::open_replicated(parts, options, shared, failed, &mut progress)?,
        };
        tracing::info!(milliseconds = started.elapsed().as_millis() as u64, "opened {data:?}");
        Ok(engine)
    }

    /// Each partition has an equal part of the process's budget.
    fn options(&self, log: &FileLogOptions) -> EngineOptions {
        let (settings, partitions) = (self.settings, self.partitions as u64);
        let usual = EngineOptions::default();
        let shares = self.budget.shares(settings.storage.cache_bytes);
        let mut options = EngineOptions {
            store: self.store,
            cache_bytes: shares.cache_bytes / partitions,
            unflushed_log_bytes: settings.storage.unflushed_bytes,
            unflushed_bytes_max: shares.unflushed_bytes / partitions,
            log_retention_bytes: settings.log.retention_bytes / partitions,
            log_retention: settings.log.retention,
            epoch_bytes_max: self.budget.epoch_bytes_max(usual.epoch_bytes_max, self.partitions),
            memory: self.memory.clone(),
            ..usual
        };
        if settings.storage.data == Data::Memory {
            // The log before a checkpoint is of no use, and takes memory until it is trimmed.
            options.checkpoint_log_bytes = MEMORY_LOG_BYTES;
            options.log_retention_bytes = options.log_retention_bytes.min(MEMORY_LOG_BYTES);
        }
        options.kept_bytes = options.kept_bytes.min(log.segment_bytes / 4);
        options
    }
}

/// Reports the progress of opening from time to time.
fn opening_progress(settings: &Settings, started: std::time::Instant) -> impl FnMut(OpenProgress) {
    let (mut reported, mut last_logged, status) = (started, None, settings.status);
    move |progress: OpenProgress| {
        let is_due = |last: Option<std::time::Instant>| last.is_none_or(|last| last.elapsed() >= PROGRESS_EVERY);
        if is_due(last_logged) {
            last_logged = Some(std::time::Instant::now());
            status(&match progress {
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
    }
}

/// Log and checkpoints of a server without a folder hold no more than this together. Like a full
/// disk, that refuses writes.
const MEMORY_DISK_BYTES: u64 = 4 << 30;
const MEMORY_SEGMENT_BYTES: u64 = 4 << 20;
const MEMORY_LOG_BYTES: u64 = 16 << 20;

fn log_options(settings: &Settings) -> FileLogOptions {
    let segment_bytes = match settings.storage.data {
        Data::Folder(_) => settings.log.segment_bytes,
        Data::Memory => settings.log.segment_bytes.min(MEMORY_SEGMENT_BYTES),
    };
    FileLogOptions {
        segment_bytes,
        ..FileLogOptions::default()
    }
}

/// `memory_bytes`: what a disk in memory may hold.
fn open_disk(data: &Data, memory_bytes: u64) -> Result<Arc<dyn Disk>> {
    match data {
        Data::Folder(path) => {
            let disk = RealDisk::open(path).with_context(|| format!("opening {}", path.display()))?;
            Ok(Arc::new(disk))
        }
        Data::Memory => {
            tracing::warn!("DATA ARE IN MEMORY ONLY: all data are lost when this process ends");
            Ok(Arc::new(MemoryDisk::new(memory_bytes)))
        }
    }
}

/// Ends the process because the log is no longer writable. All acknowledged writes are on disk;
/// nothing more may be acknowledged, so the process ends at once, without any answer.
fn log_failed(error: &LogError) {
    tracing::error!(%error, "the log failed: stopping; everything acknowledged before is on disk");
    std::process::exit(EXIT_LOG_FAILED);
}

/// The exit status after a failed write or sync of the log.
pub const EXIT_LOG_FAILED: i32 = 74;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_have_equal_parts_of_the_logs_room() {
        let parts = |mebibytes: u64, partitions| segment_bytes(mebibytes << 20, partitions) >> 20;
        assert_eq!(
            [parts(64, 1), parts(64, 4), parts(64, 16), parts(64, 64)],
            [64, 16, 4, 4]
        );
        assert_eq!([parts(2, 1), parts(2, 16)], [2, 2]);
    }

    #[test]
    fn many_are_acted_on_in_their_order_and_the_first_error_counts() {
        let all: Vec<usize> = (0..3 * AT_ONCE_MAX + 1).collect();
        let doubled = side_by_side(all.iter(), |number| Ok(2 * number)).unwrap();
        assert!(doubled.iter().zip(&all).all(|(doubled, number)| *doubled == 2 * number));
        let failed = side_by_side(all.iter(), |number| match number {
            3 | 5 => bail!("{number}"),
            _ => Ok(()),
        });
        assert_eq!(failed.unwrap_err().to_string(), "3");
    }
}
