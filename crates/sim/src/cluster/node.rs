//! One node: its disk, its time, and the engine that runs over both at the moment.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quartet_cluster::state::NodeState;
use quartet_engine::{
    CopyError, CopySource, CopyTarget, Engine, EngineOptions, Parts, Replicated, Role, Space, StoreKind,
};
use quartet_env::{Clock, Fault, FaultyDisk, ManualClock, Next, Operation, Runtime};
use quartet_log::{FileLogOpener, FileLogOptions};
use quartet_log_replicated::{NodeId, ObjectOptions, PartitionId, Place, Writer};
use quartet_model::{LogSequence, Version};

use crate::cluster::judgement::Violation;
use crate::cluster::mistake::Mistake;
use crate::cluster::post::Post;
use crate::random::Random;
use crate::runtime::{COPY, SeededRuntime};

/// Nodes of the cluster.
pub const NODES: usize = 3;
/// The only partition.
pub const PARTITION: PartitionId = PartitionId(0);
/// Records that the sequencer may hold, in bytes.
const BUDGET_BYTES: u64 = 3 << 20;

/// The answer of a node to a request for a copy of itself.
pub type Given = Arc<Mutex<Option<Result<CopySource, CopyError>>>>;

/// The stores of a node.
#[derive(Clone, Copy)]
pub struct Stores {
    pub rows: StoreKind,
    /// How large epochs are stored as objects; `None`: they are not.
    pub objects: Option<ObjectOptions>,
}

pub struct Node {
    pub id: usize,
    incarnation: u64,
    place: Place,
    pub post: Post,
    disk: FaultyDisk,
    pub clock: Arc<ManualClock>,
    pub runtime: Arc<SeededRuntime>,
    options: EngineOptions,
    log: FileLogOptions,
    objects: Option<ObjectOptions>,
    pub engine: Option<Arc<Engine>>,
    /// Its disk is empty and shall be filled with a copy.
    pub is_empty: bool,
    /// The end of its disk's slowness; the longest time that a sync takes meanwhile.
    slow_until: Duration,
    sync_micros: Arc<AtomicU64>,
    /// The end of its suspension.
    pub asleep_until: Duration,
    pub stood_still: bool,
    /// The highest record that it has ever reported as durable.
    pub synced: LogSequence,
    /// The lowest record at which it must open.
    kept: LogSequence,
    /// The number of times that its processes have reached each state.
    pub counts: BTreeMap<&'static str, u64>,
    /// A layer's memory: what the row of a key says, by version.
    cache: BTreeMap<(Vec<u8>, Version), Vec<u8>>,
    /// A row differs from the log's, by damaged memory.
    pub is_falsified: bool,
    /// Since when it has served with another state than both others.
    pub differs_since: Option<Duration>,
    /// The rules that this process runs.
    pub rules: NodeState,
    /// The start of the simulation, for the rules.
    began: Instant,
    /// The end of its separation from the other nodes.
    pub alone_until: Duration,
    mistake: Option<Mistake>,
    has_failed: Arc<AtomicBool>,
}

impl Node {
    pub fn new(
        id: usize,
        place: &Place,
        post: Post,
        stores: Stores,
        random: &mut Random,
        mistake: Option<Mistake>,
        began: Instant,
    ) -> Node {
        // One node's clock is an hour ahead: after its terms, versions increase by one.
        let ahead = if id == 0 { 3_600_000_000 } else { 0 };
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000 + ahead));
        let segment_bytes = random.pick(&[16 << 10, 64 << 10]);
        let runtime = SeededRuntime::new(random.next(), clock.clone());
        let (disk, sync_micros) = (FaultyDisk::new(), Arc::new(AtomicU64::new(0)));
        slow_syncs(&disk, &sync_micros, &runtime);
        Node {
            id,
            incarnation: 0,
            place: place.clone(),
            post,
            disk,
            runtime,
            clock,
            options: EngineOptions {
                store: Some(stores.rows),
                kept_bytes: segment_bytes / 4,
                checkpoint_log_bytes: random.pick(&[16 << 10, 256 << 10]),
                unflushed_log_bytes: random.pick(&[16 << 10, 256 << 10]),
                cache_bytes: 256 << 10,
                log_retention_bytes: 1 << 20,
                ..EngineOptions::default()
            },
            log: FileLogOptions {
                segment_bytes,
                salt: random.next(),
                ..FileLogOptions::default()
            },
            objects: stores.objects,
            engine: None,
            is_empty: false,
            slow_until: Duration::ZERO,
            sync_micros,
            asleep_until: Duration::ZERO,
            stood_still: false,
            synced: LogSequence::ZERO,
            kept: LogSequence::ZERO,
            counts: BTreeMap::new(),
            cache: BTreeMap::new(),
            rules: NodeState::new(NodeId(id as u64), 1, began),
            began,
            is_falsified: false,
            differs_since: None,
            alone_until: Duration::ZERO,
            mistake,
            has_failed: Arc::default(),
        }
    }

    pub fn parts(&self) -> Parts {
        let disk = Arc::new(self.disk.clone());
        Parts {
            log: Box::new(FileLogOpener {
                disk: disk.clone(),
                options: self.log.clone(),
            }),
            disk,
            clock: self.clock.clone(),
            runtime: self.runtime.clone(),
        }
    }

    pub fn store(&self) -> StoreKind {
        self.options.store.expect("a node's store is chosen")
    }

    /// A new process over the same disk. If the disk fails meanwhile, the node stays down.
    pub fn start(&mut self) -> Result<(), Violation> {
        self.incarnation += 1;
        self.cache.clear();
        self.rules = NodeState::new(NodeId(self.id as u64), 1, self.instant(self.runtime.now()));
        self.has_failed = Arc::default();
        let failed = self.has_failed.clone();
        let replicated = Replicated {
            place: self.place.clone(),
            me: Writer {
                node: NodeId(self.id as u64),
                incarnation: self.incarnation,
            },
            nodes: NODES,
            sequencer: Box::new(self.post.handle()),
            on_role: Box::new(|_| {}),
            budget_bytes: BUDGET_BYTES,
            objects: self.objects,
        };
        let failure = Box::new(move |_: &_| failed.store(true, Ordering::SeqCst));
        let opened = Engine::open_replicated(self.parts(), self.options.clone(), replicated, failure, &mut |_| {});
        match opened {
            Ok(engine) => self.engine = Some(Arc::new(engine)),
            Err(error) if error.is_damage() => {
                let (node, why) = (self.id, error.to_string());
                return Err(Violation::NotOpened { node, why });
            }
            Err(_) => {
                self.count("opening failed");
                self.runtime.kill();
                self.disk.crash();
            }
        }
        Ok(())
    }

    fn count(&mut self, state: &'static str) {
        *self.counts.entry(state).or_default() += 1;
    }

    /// The process ends, and with it what the disk has not synced.
    pub fn crash(&mut self, random: &mut Random) {
        // The disk as it is now: the process changes nothing at its end.
        let disk = self.disk.fork();
        if self.runtime.waits_within("checkpoint") {
            self.count("crash within a checkpoint");
        }
        match random.below(3) {
            0 => disk.crash(),
            _ => disk.crash_keeping_some(random.next()),
        }
        self.end_process();
        self.disk = disk;
    }

    /// Drops the disk's unsynced writes, while no process runs.
    pub fn lose_unsynced(&mut self, random: &mut Random) {
        self.disk = self.disk.fork();
        self.disk.crash_keeping_some(random.next());
        slow_syncs(&self.disk, &self.sync_micros, &self.runtime);
    }

    /// The process ends in order, with its file log closed.
    pub fn stop(&mut self) {
        self.sum_up();
        if let Some(engine) = self.engine.take().and_then(Arc::into_inner)
            && engine.close().is_err()
        {
            self.count("closing failed");
        }
        self.post.close();
        self.runtime.kill();
        self.disk.crash();
        self.asleep_until = Duration::ZERO;
    }

    /// Loses all its data.
    pub fn empty(&mut self) {
        self.end_process();
        self.disk = FaultyDisk::new();
        slow_syncs(&self.disk, &self.sync_micros, &self.runtime);
        self.is_empty = true;
        self.is_falsified = false;
        self.kept = LogSequence::ZERO;
    }

    fn end_process(&mut self) {
        self.sum_up();
        self.runtime.kill();
        self.engine = None;
        self.asleep_until = Duration::ZERO;
    }

    /// Adds what the process has counted, which ends with it.
    pub fn sum_up(&mut self) {
        let Some(engine) = &self.engine else { return };
        let (figures, statistics) = (engine.replication(), engine.statistics());
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (written, failed) = match self.store() {
            StoreKind::Memory => ("checkpoint written", "checkpoint failed"),
            StoreKind::Ssd => ("ssd store flushed", "flush of the ssd store failed"),
        };
        for (state, count) in [
            ("take-over", figures.take_overs),
            ("deposed", figures.depositions),
            ("rolled back", figures.roll_backs),
            ("state hash taken", figures.marks),
            ("piece of an object kept", figures.object_pieces),
            ("piece of an object removed", figures.objects_removed),
            ("gave up: the object store was away", figures.given_up),
            (written, read(&statistics.checkpoints)),
            (failed, read(&statistics.checkpoints_failed)),
        ] {
            *self.counts.entry(state).or_default() += count;
        }
    }

    /// An operation of its disk fails, soon.
    pub fn order_fault(&self, random: &mut Random) {
        let operation = random.pick(&[
            Operation::Write,
            Operation::Write,
            Operation::Sync,
            Operation::Create,
            Operation::Rename,
            Operation::Remove,
            Operation::Allocate,
        ]);
        let fault = random.pick(&[Fault::Error, Fault::Error, Fault::NoSpace, Fault::Short]);
        self.disk.fail(operation, 1 + random.below(80), fault);
    }

    /// Makes its disk slow for a while: what waits for it waits for up to `sync_takes` each time.
    pub fn slow_disk(&mut self, until: Duration, sync_takes: Duration) {
        self.slow_until = until;
        self.sync_micros.store(sync_takes.as_micros() as u64, Ordering::SeqCst);
    }

    /// Makes its disk fast again; only waits that have started continue.
    pub fn end_slowness(&mut self) {
        self.slow_until = Duration::ZERO;
        self.sync_micros.store(0, Ordering::SeqCst);
        self.runtime.stall(Duration::ZERO);
    }

    pub fn is_disk_slow(&self, now: Duration) -> bool {
        self.slow_until > now
    }

    /// Returns true while the flusher waits for a slow disk.
    pub fn is_stalled(&self) -> bool {
        self.runtime.is_stalled()
    }

    /// Makes the flusher wait for the slow disk, occasionally.
    pub fn drag(&mut self, now: Duration, random: &mut Random) {
        let micros = self.sync_micros.load(Ordering::SeqCst);
        if micros == 0 {
            return;
        }
        if !self.is_disk_slow(now) {
            self.sync_micros.store(0, Ordering::SeqCst);
        } else if random.one_in(40) && !self.runtime.is_stalled() {
            self.runtime.stall(Duration::from_micros(random.below(micros)));
            self.count("waited for a slow disk");
        }
    }

    pub fn is_disk_full(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.is_disk_full())
    }

    /// Nothing more fits on its disk.
    pub fn fill_disk(&self) {
        self.disk.set_capacity(Some(self.disk.taken_bytes()));
    }

    pub fn empty_disk(&self) {
        self.disk.set_capacity(None);
    }

    pub fn set_clock_back(&self, micros: u64) {
        self.clock.set(self.clock.now_micros().saturating_sub(micros));
    }

    /// Starts to fill its empty directory.
    pub fn begin_target(&self) -> Result<CopyTarget, CopyError> {
        CopyTarget::begin(self.parts(), self.store())
    }

    pub fn clear_faults(&self) {
        self.disk.clear_faults();
    }

    /// Requests a copy of this node, which its process returns in its own time.
    pub fn begin_copy(&self) -> Option<Given> {
        let (engine, shared) = (self.engine.clone()?, Given::default());
        let slot = shared.clone();
        let mut engine = Some(engine);
        let step = move || {
            if let Some(engine) = engine.take() {
                let source = engine.copy_source();
                *slot.lock() = Some(source);
            }
            Next::Done
        };
        self.runtime.start(COPY, Box::new(step)).expect("simulated work");
        Some(shared)
    }

    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }

    pub fn role(&self) -> Option<Role> {
        self.engine.as_ref().map(|engine| engine.role())
    }

    pub fn is_home(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.is_home())
    }

    /// Returns true if its time is ahead of the world's, as after waiting for its own work: its
    /// next actions are in the world's future.
    pub fn is_ahead(&self, now: Duration) -> bool {
        self.runtime.now() > now
    }

    /// Skips the time of its suspension.
    pub fn wake(&self, now: Duration) {
        self.runtime.skip(now.saturating_sub(self.runtime.now()));
    }

    /// Lets time pass for it up to `now`.
    pub fn live(&mut self, now: Duration) -> Result<(), Violation> {
        self.post.carry();
        let behind = now.saturating_sub(self.runtime.now());
        self.runtime.pause(behind);
        self.post.carry();
        let Some(engine) = &self.engine else { return Ok(()) };
        let figures = engine.replication();
        let (synced, applied) = (LogSequence(figures.synced), LogSequence(figures.applied));
        if applied < self.kept && applied > LogSequence::ZERO {
            let (node, synced, found) = (self.id, self.kept.0, applied.0);
            return Err(Violation::LostSynced { node, synced, found });
        }
        self.kept = self.kept.max(synced);
        self.synced = self.synced.max(synced);
        Ok(())
    }

    /// Returns a layer's answer for a row: out of its memory, where it knows the row's version.
    pub fn through_cache(&mut self, key: &[u8], version: Version, value: Vec<u8>) -> Vec<u8> {
        self.cache.entry((key.to_vec(), version)).or_insert(value).clone()
    }

    /// The layers end with their term, and a layer's memory with them.
    pub fn drop_layers(&mut self) {
        if self.mistake != Some(Mistake::KeptCaches) {
            self.cache.clear();
        }
    }

    /// The home that this node follows, which may be itself.
    pub fn followed(&self) -> Option<NodeId> {
        match self.role()? {
            Role::Following { home, .. } => home.map(|home| home.node),
            Role::Home { .. } => Some(NodeId(self.id as u64)),
            _ => None,
        }
    }

    /// Returns true if clients are served here.
    pub fn serves(&self) -> bool {
        self.engine.is_some() && self.rules.serves(PARTITION)
    }

    /// Returns true for a home that the sequencer leaves without answers: its layers refuse.
    pub fn is_suspended(&self) -> bool {
        !self.is_home() && matches!(self.role(), Some(Role::Home { .. }))
    }

    /// A simulated time, for the rules.
    pub fn instant(&self, at: Duration) -> Instant {
        self.began + at
    }

    /// Visits all rows, by full key, and returns the version that they are at.
    pub fn rows(&self, space: Space, visit: &mut dyn FnMut(&[u8], &[u8])) -> Option<Version> {
        let reader = self.engine.as_ref()?.reader(space).ok()?;
        reader.scan_rows(b"", b"\xff", &mut |row| {
            visit(row.key(), row.value());
            ControlFlow::Continue(())
        });
        Some(reader.version)
    }

    /// The version of its rows.
    pub fn version(&self, space: Space) -> Option<Version> {
        Some(self.engine.as_ref()?.reader(space).ok()?.version)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.runtime.kill();
    }
}

/// Work on a thread of its own waits before each sync, while the disk is slow.
fn slow_syncs(disk: &FaultyDisk, sync_micros: &Arc<AtomicU64>, runtime: &Arc<SeededRuntime>) {
    let (sync_micros, runtime) = (sync_micros.clone(), Arc::downgrade(runtime));
    disk.before_syncs(Arc::new(move || {
        let micros = sync_micros.load(Ordering::SeqCst);
        if let Some(runtime) = runtime.upgrade().filter(|_| micros > 0) {
            runtime.wait_within(Duration::from_micros(micros));
        }
    }));
}
