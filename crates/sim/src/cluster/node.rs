//! One node: its disk, its time, and the engine that runs over both at the moment.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quartet_engine::{Engine, EngineOptions, Parts, Replicated, Role, Space};
use quartet_env::{FaultyDisk, ManualClock, Runtime};
use quartet_log::{FileLogOpener, FileLogOptions};
use quartet_log_replicated::{NodeId, Place, Writer};
use quartet_model::{LogSequence, Version};

use crate::cluster::judgement::{Mistake, Violation};
use crate::cluster::post::Post;
use crate::model::Rows;
use crate::random::Random;
use crate::runtime::SeededRuntime;

/// Nodes of the cluster.
pub const NODES: usize = 3;
/// Records that the sequencer may hold, in bytes.
const BUDGET_BYTES: u64 = 1 << 20;

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
    pub engine: Option<Engine>,
    /// It stands still until then.
    pub asleep_until: Duration,
    pub slept_since: Option<Duration>,
    /// The highest record that it has ever reported as durable.
    pub synced: LogSequence,
    /// A layer's memory: what the row of a key says, by version.
    cache: BTreeMap<(Vec<u8>, Version), Vec<u8>>,
    /// The cache is to be dropped.
    was_deposed: Arc<AtomicBool>,
    mistake: Option<Mistake>,
    has_failed: Arc<AtomicBool>,
}

impl Node {
    pub fn new(id: usize, place: &Place, post: Post, random: &mut Random, mistake: Option<Mistake>) -> Node {
        // One node's clock is an hour ahead: behind its terms, versions go on one by one.
        let ahead = if id == 0 { 3_600_000_000 } else { 0 };
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000 + ahead));
        let segment_bytes = random.pick(&[16 << 10, 64 << 10]);
        Node {
            id,
            incarnation: 0,
            place: place.clone(),
            post,
            disk: FaultyDisk::new(),
            runtime: SeededRuntime::new(random.next(), clock.clone()),
            clock,
            options: EngineOptions {
                kept_bytes: segment_bytes / 4,
                checkpoint_log_bytes: random.pick(&[16 << 10, 256 << 10]),
                log_retention_bytes: 1 << 20,
                ..EngineOptions::default()
            },
            log: FileLogOptions {
                segment_bytes,
                salt: random.next(),
            },
            engine: None,
            asleep_until: Duration::ZERO,
            slept_since: None,
            synced: LogSequence::ZERO,
            cache: BTreeMap::new(),
            was_deposed: Arc::default(),
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

    /// A new process over the same disk.
    pub fn start(&mut self) -> Result<(), Violation> {
        self.incarnation += 1;
        self.cache.clear();
        self.was_deposed = Arc::default();
        self.has_failed = Arc::default();
        let (deposed, failed) = (self.was_deposed.clone(), self.has_failed.clone());
        let replicated = Replicated {
            place: self.place.clone(),
            me: Writer {
                node: NodeId(self.id as u64),
                incarnation: self.incarnation,
            },
            nodes: NODES,
            sequencer: Box::new(self.post.handle()),
            on_role: Box::new(move |role| {
                if !matches!(role, Role::Home { .. } | Role::Candidate { .. }) {
                    deposed.store(true, Ordering::SeqCst);
                }
            }),
            budget_bytes: BUDGET_BYTES,
        };
        let failure = Box::new(move |_: &_| failed.store(true, Ordering::SeqCst));
        let opened = Engine::open_replicated(self.parts(), self.options.clone(), replicated, failure, &mut |_| {});
        let node = self.id;
        let engine = opened.map_err(|error| Violation::NotOpened {
            node,
            why: error.to_string(),
        })?;
        self.engine = Some(engine);
        Ok(())
    }

    /// The process ends, and with it what the disk has not synced.
    pub fn crash(&mut self, random: &mut Random) {
        self.runtime.kill();
        let disk = self.disk.fork();
        match random.below(3) {
            0 => disk.crash(),
            _ => disk.crash_keeping_some(random.next()),
        }
        self.engine = None;
        self.disk = disk;
        self.slept_since = None;
        self.asleep_until = Duration::ZERO;
    }

    /// Nothing more fits on its disk.
    pub fn fill_disk(&self) {
        self.disk.set_capacity(Some(self.disk.taken_bytes()));
    }

    pub fn empty_disk(&self) {
        self.disk.set_capacity(None);
    }

    /// Everything it had is gone; a copy comes in its place.
    pub fn empty(&mut self) {
        self.engine = None;
        self.disk = FaultyDisk::new();
    }

    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub fn is_down(&self) -> bool {
        self.engine.is_none()
    }

    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }

    pub fn role(&self) -> Option<Role> {
        self.engine.as_ref().map(Engine::role)
    }

    pub fn is_home(&self) -> bool {
        self.engine.as_ref().is_some_and(Engine::is_home)
    }

    /// Lets `time` pass for it.
    pub fn live(&mut self, time: Duration) {
        self.post.carry();
        self.runtime.pause(time);
        self.post.carry();
        if let Some(engine) = &self.engine {
            self.synced = self.synced.max(LogSequence(engine.replication().synced));
        }
    }

    /// Returns a layer's answer for a row: out of its memory, where it knows the row's version.
    pub fn through_cache(&mut self, key: &[u8], version: Version, value: Vec<u8>) -> Vec<u8> {
        let is_over = self.was_deposed.swap(false, Ordering::SeqCst);
        if is_over && self.mistake != Some(Mistake::KeptCaches) {
            self.cache.clear();
        }
        self.cache.entry((key.to_vec(), version)).or_insert(value).clone()
    }

    /// All rows, by full key, and the version that they are at.
    pub fn rows(&self, space: Space) -> Option<(Version, Rows)> {
        let reader = self.engine.as_ref()?.reader(space).ok()?;
        let mut rows = Rows::new();
        reader.scan(b"", b"\xff", false, &mut |key, value| {
            rows.insert([&space.prefix()[..], key].concat(), value.to_vec());
            ControlFlow::Continue(())
        });
        Some((reader.version, rows))
    }
}
