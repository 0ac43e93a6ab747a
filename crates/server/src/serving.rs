//! Layers over an engine, and the services over them: from the construction of the first layer to
//! the drop of the last. The engine and the sockets remain, and the next service may use them.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use quartet_engine::{Engine, PartitionId};
use quartet_layer_redis::Redis;
use quartet_tenancy::{Catalogue, CatalogueError, Homes, Partitions};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use crate::connections::accept::{Entrance, Listener};
use crate::connections::durability::ThreadWaiters;
use crate::connections::handoff::{Arrival, Inbox, IoThread};
use crate::connections::sockets::Sockets;
use crate::connections::tls::Tls;
use crate::connections::turns::ThreadTurns;
use crate::connections::waker::ThreadWaker;
use crate::credentials;
use crate::layers::by_type::ByType;
use crate::layers::parts::{Nodes, Parts, PushError};
use crate::limits::connection_limit::ConnectionLimit;
use crate::limits::memory::Budget;
use crate::listeners::{self, Added, Assembly, Endpoint, MAINTENANCE_CYCLE, ServedLayer, Waiting};
use crate::observability::durations::OfLayers;
use crate::observability::slow_requests::SlowRequests;
use crate::observability::telemetry::spans::Spans;
use crate::observability::telemetry::{Telemetry, WriteMetrics};
use crate::process::cycles::Cycle;
use crate::process::stop_request::StopRequest;
use crate::settings::{NewCredentials, Settings};
use crate::tenants::Tenants;
use crate::{limits, metrics, process};

/// Interval of the search for databases with idle layers.
const IDLE_CYCLE: Duration = Duration::from_secs(1);

/// Interval at which the databases' counters are written.
const USAGE_CYCLE: Duration = Duration::from_secs(5);

/// Interval at which the nodes of a cluster compare their states: each walks all of its rows for
/// that.
const STATE_HASH_CYCLE: Duration = Duration::from_secs(30);
/// The time between two comparisons is at least this many times that of one: they take at most a
/// twentieth of a core.
const STATE_HASH_SHARE: u32 = 20;

/// Interval at which homes of other partitions get pending changes.
const TELL_CYCLE: Duration = Duration::from_millis(200);

/// Interval at which connections that must end are woken.
const WAKE_CYCLE: Duration = Duration::from_millis(5);

/// Interval of checks for another certificate.
const CERTIFICATE_CYCLE: Duration = Duration::from_secs(1);

/// Everything that remains when layers are dropped and built again.
pub struct Foundation {
    pub partitions: Arc<Partitions>,
    /// The engine of the first partition.
    pub engine: Arc<Engine>,
    /// The original settings: credentials in the data are read when layers are built.
    pub settings: Settings,
    /// Parameters of the configuration file that were reloaded since, oldest first.
    pub parameters: Mutex<Vec<(String, String)>>,
    pub layers: &'static [ServedLayer],
    pub budget: Budget,
    /// Resident bytes when the process started.
    pub startup_bytes: u64,
    pub limit: Arc<ConnectionLimit>,
    pub sockets: Sockets,
    /// That of clients, in every role of the node.
    pub tls: Arc<Tls>,
    pub stop_requested: Arc<StopRequest>,
    /// The node of a cluster that this is, if it is one.
    pub nodes: OnceLock<Weak<dyn Nodes>>,
}

impl Foundation {
    /// The settings for new layers.
    pub fn settings_now(&self) -> Settings {
        let mut settings = self.settings.clone();
        if let Some(file) = &mut settings.redis.config_file {
            // The later one of two values holds.
            file.parameters.extend(self.parameters.lock().iter().cloned());
        }
        settings
    }
}

/// Layers, their listeners and their threads.
pub struct Serving {
    pub tenants: Arc<Tenants>,
    /// The default database's layer of Redis.
    pub redis: Option<Arc<Redis>>,
    /// The endpoints of all protocols.
    pub endpoints: Vec<Endpoint>,
    /// Made just now, to be shown this once.
    pub new_credentials: NewCredentials,
    /// The way in for clients that another node passes on.
    pub entrances: Arc<Entrances>,
    /// Called before the threads are waited for.
    at_stop: Vec<Box<dyn FnOnce() + Send>>,
    threads: Threads,
    telemetry: Option<Telemetry>,
}

/// The entrances of all listeners by name, and the I/O threads.
pub struct Entrances {
    by_name: HashMap<&'static str, Arc<dyn Entrance>>,
    threads: Vec<Inbox>,
}

impl Entrances {
    /// Admits the client at `peer` at the named listener. False: there is no such listener, or no
    /// free place.
    pub async fn admit(&self, listener: &str, socket: TcpStream, peer: SocketAddr) -> io::Result<bool> {
        self.admit_carried(listener, socket, peer, Vec::new()).await
    }

    /// The same for a client that has left another home, with the state of its session.
    pub async fn admit_carried(
        &self,
        listener: &str,
        socket: TcpStream,
        peer: SocketAddr,
        state: Vec<u8>,
    ) -> io::Result<bool> {
        let thread = &self.threads[usize::from(peer.port()) % self.threads.len()];
        let Some(entrance) = self.by_name.get(listener) else {
            return Ok(false);
        };
        let admitting = entrance.admit_carried(socket, peer, &thread.thread_waker, state);
        let admitted = admitting.await?;
        let is_admitted = admitted.is_some();
        // The thread of a closed channel was stopped.
        let _ = admitted.map(|arrival| thread.arrivals.send(arrival));
        Ok(is_admitted)
    }
}

/// Threads that serve, and the word that ends them.
pub struct Threads {
    stop: watch::Sender<bool>,
    running: Vec<JoinHandle<()>>,
}

/// The parts of a thread that serves connections.
struct Worker {
    partitions: Arc<Partitions>,
    purge: fn(),
    purges: watch::Receiver<()>,
    stop: watch::Receiver<bool>,
    /// The listeners, and the way to all threads, on the thread that accepts for all.
    accepts: Option<(Vec<Listener>, Vec<Inbox>)>,
    /// Wakes the connections of this thread.
    thread_waker: Arc<ThreadWaker>,
    arrivals: mpsc::UnboundedReceiver<Box<dyn Arrival>>,
}

/// The way to the homes of partitions by the nodes of a cluster.
struct HomesOfNodes(Weak<dyn Nodes>);

impl Homes for HomesOfNodes {
    fn push(&self, partition: PartitionId, number: u64, push: &[u8]) -> Result<(), CatalogueError> {
        let nodes = self.0.upgrade().ok_or(CatalogueError::LogFailed)?;
        nodes.push(partition, number, push).map_err(|error| match error {
            PushError::Over => CatalogueError::LogFailed,
            PushError::NoHome(id) => CatalogueError::NoHome(id.0),
        })
    }
}

/// The part of its process' data that a service sees.
struct Scope {
    partitions: Arc<Partitions>,
    catalogue: Catalogue,
    settings: Settings,
    new_credentials: NewCredentials,
    /// Set if clients connect at the sockets. Otherwise other nodes forward them.
    accepts: bool,
}

impl Serving {
    /// Makes the layers of the default database and serves them, over all partitions.
    pub fn begin(foundation: &Foundation) -> Result<Serving> {
        let catalogue = Catalogue::open(foundation.partitions.clone(), Box::new(process::system::fill_random))?;
        Serving::begin_apart(foundation, catalogue)
    }

    /// Reads the catalogue at the home of the first partition, and sends its content to the homes
    /// of all others. Blocks until they have received it.
    pub fn prepare_apart(foundation: &Foundation) -> Result<Catalogue> {
        let nodes = foundation.nodes.get().cloned().context("only a node of a cluster")?;
        let homes = Box::new(HomesOfNodes(nodes));
        let partitions = foundation.partitions.clone();
        Ok(Catalogue::open_apart(
            partitions,
            homes,
            Box::new(process::system::fill_random),
        )?)
    }

    /// Serves the first partition, and leads clients of databases in others to their homes.
    pub fn begin_apart(foundation: &Foundation, catalogue: Catalogue) -> Result<Serving> {
        let mut settings = foundation.settings_now();
        let new_credentials = credentials::settle(&mut settings, &catalogue)?;
        (settings.show)(&new_credentials);
        let scope = Scope {
            partitions: foundation.partitions.clone(),
            catalogue,
            settings,
            new_credentials,
            accepts: true,
        };
        Serving::over(foundation, scope)
    }

    /// Serves the databases of one partition other than the first, to forwarded clients.
    pub fn of_partition(foundation: &Foundation, id: PartitionId) -> Result<Serving> {
        let engine = foundation.partitions.engine(id).clone();
        let partitions = Arc::new(Partitions::of_one(id, engine));
        let scope = Scope {
            catalogue: Catalogue::open_one(partitions.clone(), Box::new(process::system::fill_random))?,
            partitions,
            settings: credentials::without_default(&foundation.settings_now()),
            new_credentials: NewCredentials::default(),
            accepts: false,
        };
        Serving::over(foundation, scope)
    }

    fn over(foundation: &Foundation, scope: Scope) -> Result<Serving> {
        let Scope {
            partitions,
            catalogue,
            settings,
            new_credentials,
            accepts,
        } = scope;
        let settings = Arc::new(settings);
        let stranger_bytes = foundation.tls.stranger_bytes().clone();
        let spans = settings.telemetry.as_ref().map(|telemetry| {
            let (spans, received) = Spans::new(telemetry.sampling_ratio);
            (Arc::new(spans), received)
        });
        let parts = parts_over(
            foundation,
            partitions,
            &settings,
            spans.as_ref().map(|(spans, _)| spans.clone()),
        );
        let kinds = foundation.layers.iter().map(|layer| layer.kind).collect();
        let tenants = Tenants::new(catalogue, parts, kinds);
        let mut threads = Threads::new();
        let stopped = threads.stopped();
        let mut assembly = Assembly {
            tenants: &tenants,
            settings: &settings,
            limit: &foundation.limit,
            stranger_bytes: &stranger_bytes,
            sockets: &foundation.sockets,
            stopped: &stopped,
            added: Added::default(),
        };
        for served in listeners::all(foundation.layers) {
            (served.listen)(&mut assembly)?;
        }
        let added = assembly.added;
        let redis = added.lent.get();
        let telemetry = match (&settings.telemetry, spans) {
            (Some(telemetry), Some((spans, received))) => {
                let metrics = write_metrics(redis.as_ref(), &tenants);
                let started_micros = tenants.parts.started_micros;
                Some(Telemetry::start(telemetry, spans, received, metrics, started_micros)?)
            }
            _ => None,
        };
        let entrances = added
            .listeners
            .iter()
            .map(|listener| (listener.name, listener.entrance.clone()));
        let entrances = added.entrances.into_iter().chain(entrances).collect();
        let listeners = if accepts { added.listeners } else { Vec::new() };
        let inboxes = threads.serve(listeners, foundation, &tenants.parts.partitions, &tenants.parts.purges)?;
        threads.work(&tenants, added.deferred_tasks, added.cycles)?;
        Ok(Serving {
            tenants,
            redis,
            endpoints: added.endpoints,
            new_credentials,
            entrances: Arc::new(Entrances {
                by_name: entrances,
                threads: inboxes,
            }),
            at_stop: added.at_stop,
            threads,
            telemetry,
        })
    }

    /// Sets a parameter of CONFIG, with the text of the configuration file.
    pub fn set_parameter(&self, name: &str, value: &str) -> Result<(), String> {
        let layer = self.redis.as_ref().expect("there while the server runs");
        layer.config.start_with_file(name, value)?;
        layer.decide_on_changes();
        Ok(())
    }

    /// Lets replies that are ready go out, closes all connections, ends a script that takes long
    /// and takes it back, and drops every layer.
    pub fn end(self) {
        self.threads.stop.send_replace(true);
        for end in self.at_stop {
            end();
        }
        let entrances: Vec<_> = self.entrances.by_name.values().cloned().collect();
        drop(self.entrances);
        // A service without listeners has no other wakeup for its clients, and some may arrive
        // last.
        while !self.threads.have_ended() {
            entrances.iter().for_each(|entrance| entrance.closed());
            std::thread::sleep(WAKE_CYCLE);
        }
        drop(entrances);
        self.threads.end();
        if let Some(telemetry) = self.telemetry {
            telemetry.stop();
        }
        self.tenants.close();
    }
}

/// Writes all metrics, as long as the layers exist.
fn write_metrics(redis: Option<&Arc<Redis>>, tenants: &Arc<Tenants>) -> WriteMetrics {
    let redis = redis.map(Arc::downgrade).unwrap_or_default();
    let tenants = Arc::downgrade(tenants);
    Box::new(move |out| {
        if let (Some(redis), Some(tenants)) = (redis.upgrade(), tenants.upgrade()) {
            metrics::write(&redis, &tenants, true, out);
        }
    })
}

impl Threads {
    pub fn new() -> Threads {
        Threads {
            stop: watch::Sender::new(false),
            running: Vec::new(),
        }
    }

    /// Becomes true when the threads must end.
    pub fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Requests their end, after the output of all ready replies.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub fn have_ended(&self) -> bool {
        self.running.iter().all(JoinHandle::is_finished)
    }

    /// Ends them, after the output of all ready replies.
    pub fn end(self) {
        self.stop();
        for thread in self.running {
            if thread.join().is_err() {
                tracing::error!("a serving thread panicked");
            }
        }
    }

    /// Starts the I/O threads, the first of which accepts for all. Each purges its memory when
    /// `purges` changes. Returns the entrances to all of them.
    pub fn serve(
        &mut self,
        listeners: Vec<Listener>,
        foundation: &Foundation,
        partitions: &Arc<Partitions>,
        purges: &watch::Sender<()>,
    ) -> Result<Vec<Inbox>> {
        let settings = &foundation.settings;
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
        let mut accepts = Some((listeners, inboxes.clone()));
        for (index, (arrivals, thread_waker)) in arrivals.into_iter().enumerate() {
            let worker = Worker {
                partitions: partitions.clone(),
                purge: settings.memory.purge,
                purges: purges.subscribe(),
                stop: self.stopped(),
                accepts: accepts.take(),
                thread_waker,
                arrivals,
            };
            self.spawn(&format!("io-{index}"), || worker.run())?;
        }
        Ok(inboxes)
    }

    /// Starts the work of the layers and of the process beside the connections.
    fn work(
        &mut self,
        tenants: &Arc<Tenants>,
        deferred_tasks: Vec<(&'static str, Waiting)>,
        mut cycles: Vec<Cycle>,
    ) -> Result<()> {
        for (name, work) in deferred_tasks {
            let stopped = self.stopped();
            let thread = std::thread::Builder::new().name(name.into());
            self.running.push(thread.spawn(move || work(&stopped))?);
        }
        if tenants.catalogue.is_apart() {
            let (telling, stopped) = (tenants.clone(), self.stopped());
            let telling = move || {
                while !*stopped.borrow() {
                    telling.tell_homes();
                    std::thread::sleep(TELL_CYCLE);
                }
            };
            let thread = std::thread::Builder::new().name("telling homes".into());
            self.running.push(thread.spawn(telling)?);
        }
        cycles.extend(own_cycles(tenants));
        let (engine, stopped) = (tenants.parts.engine.clone(), self.stopped());
        let (purge, purges) = (tenants.parts.settings.memory.purge, tenants.parts.purges.clone());
        self.spawn("memory", move || limits::memory::watch(engine, purge, purges, stopped))?;
        let stopped = self.stopped();
        self.spawn("cycles", move || process::cycles::run(cycles, stopped))
    }

    /// Runs a future to its end on a thread of its own. It is made there, so it need not be able to
    /// move.
    pub fn spawn<F: Future<Output = ()>>(
        &mut self,
        name: &str,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_stack_size(STACK_BYTES)
            .build()?;
        let thread = std::thread::Builder::new()
            .name(name.into())
            .stack_size(STACK_BYTES)
            .spawn(move || runtime.block_on(make()))?;
        self.running.push(thread);
        Ok(())
    }
}

impl Worker {
    async fn run(mut self) {
        quartet_engine::serve_on_this_thread();
        let turns = ThreadTurns::default();
        let thread = IoThread {
            waiters: ThreadWaiters::start(&self.partitions, &turns),
            turns,
            stop: self.stop.clone(),
        };
        let thread_waker = self.thread_waker.clone();
        let thread_waker = tokio::task::spawn(async move { thread_waker.serve().await });
        let purging = tokio::task::spawn(limits::memory::purge_when_asked(self.purge, self.purges.clone()));
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
                // The listeners are closed, and all accepted connections have ended.
                else => break,
            }
        }
        thread_waker.abort();
        purging.abort();
        thread.waiters.stop();
    }
}

/// Returns the parts that the layers of all databases share.
pub fn parts_over(
    foundation: &Foundation,
    partitions: Arc<Partitions>,
    settings: &Arc<Settings>,
    spans: Option<Arc<Spans>>,
) -> Parts {
    let engine = partitions.first().clone();
    let measured = listeners::all(foundation.layers).filter_map(|row| row.measured.as_ref());
    Parts {
        started_micros: engine.now_micros(),
        partitions,
        engine,
        replica: None,
        settings: settings.clone(),
        stop: foundation.stop_requested.clone(),
        nodes: foundation.nodes.get().cloned(),
        budget: foundation.budget,
        startup_bytes: foundation.startup_bytes,
        login_guard: Arc::default(),
        purges: watch::Sender::new(()),
        tls: foundation.tls.clone(),
        durations: OfLayers::new(measured),
        slow_requests: Arc::new(SlowRequests::new(settings.slow_requests)),
        spans,
        of_kinds: ByType::default(),
    }
}

/// The periodic tasks that belong to no listener.
fn own_cycles(tenants: &Arc<Tenants>) -> [Cycle; 5] {
    let [maintained, idle, used] = [(); 3].map(|()| tenants.clone());
    let partitions = tenants.parts.partitions.clone();
    // A new home has other work.
    let mut marked = Vec::new();
    let mark = move || {
        let homes = partitions.iter().filter(|(_, engine)| engine.is_home());
        for (partition, engine) in homes {
            // A node serves any of the partitions, whose numbers are not 0 to n.
            let index = partition.0 as usize;
            if marked.len() <= index {
                marked.resize(index + 1, Instant::now());
            }
            let last = &mut marked[index];
            let took = Duration::from_micros(engine.replication().hash_micros);
            if last.elapsed() >= took * STATE_HASH_SHARE {
                *last = Instant::now();
                engine.mark();
            }
        }
    };
    [
        Cycle::new("state hash", STATE_HASH_CYCLE, mark),
        Cycle::new("maintenance of databases", MAINTENANCE_CYCLE, move || {
            maintained.maintain()
        }),
        Cycle::new("idle databases", IDLE_CYCLE, move || idle.tidy()),
        Cycle::new("usage", USAGE_CYCLE, move || used.keep_usage(false)),
        certificate_cycle(&tenants.parts.tls),
    ]
}

/// Reads the certificate again when a file has changed.
pub fn certificate_cycle(tls: &Arc<Tls>) -> Cycle {
    let tls = tls.clone();
    Cycle::new("certificate", CERTIFICATE_CYCLE, move || tls.reload_if_changed())
}

/// Threads beside each I/O thread for what takes long: few, because most of it is work for a core.
const BLOCKING_THREADS: usize = 4;
/// Parsers recurse as deep as requests nest, which each protocol bounds; an unoptimised build needs
/// this much for it. Only what is used is ever resident.
const STACK_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests;
