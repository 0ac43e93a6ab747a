//! One engine in a world that a seed decides: its disk, its time, the order of its work, and when
//! it loses power.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quartet_engine::{Durability, Engine, EngineOptions, OpenError, Parts, Space};
use quartet_env::{Fault, FaultyDisk, ManualClock, Operation, Runtime};
use quartet_log::{FileLogOpener, FileLogOptions};
use quartet_model::{DatabaseId, LayerId, Version};

use crate::judgement::{Planted, Violation};
use crate::model::{Model, Rows};
use crate::random::{Random, mixed};
use crate::runtime::SeededRuntime;

/// The key at which each transaction leaves its commit version, in the first eight bytes.
pub const LAST: &[u8] = b"last";

/// More failures of the disk in a row than any seed orders.
const OPENINGS_MAX: u32 = 20;

pub struct World {
    pub random: Random,
    pub model: Model,
    pub space: Space,
    pub planted: Option<Planted>,
    pub runtime: Arc<SeededRuntime>,
    /// None only while it is opened.
    engine: Option<Arc<Engine>>,
    disk: FaultyDisk,
    clock: Arc<ManualClock>,
    log: FileLogOptions,
    options: EngineOptions,
    has_failed: Arc<AtomicBool>,
    /// Answers that have not been sent: each waits until this version is durable.
    unanswered: Vec<Version>,
    pub crashes: u64,
    /// Hash of everything that was observed.
    pub hash: u64,
}

impl World {
    pub fn begin(seed: u64, planted: Option<Planted>) -> Result<World, Violation> {
        let mut random = Random::new(seed);
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000 + random.below(1 << 40)));
        let segment_bytes = random.pick(&[4 << 10, 32 << 10, 256 << 10]);
        let disk = FaultyDisk::new();
        if planted == Some(Planted::LyingDisk) {
            disk.lie_about_syncs();
        }
        let mut world = World {
            model: Model::default(),
            space: Space {
                database: DatabaseId(1),
                layer: LayerId::KeyValue,
                durability: match planted {
                    Some(Planted::EarlyAnswers) => Durability::Interval,
                    _ => Durability::Always,
                },
            },
            planted,
            runtime: SeededRuntime::new(random.next(), clock.clone()),
            engine: None,
            disk,
            clock,
            log: FileLogOptions {
                segment_bytes,
                salt: random.next(),
                ..FileLogOptions::default()
            },
            options: EngineOptions {
                kept_bytes: segment_bytes / 4,
                checkpoint_log_bytes: random.pick(&[8 << 10, 64 << 10, 1 << 20]),
                ..EngineOptions::default()
            },
            has_failed: Arc::default(),
            unanswered: Vec::new(),
            crashes: 0,
            hash: seed,
            random,
        };
        world.open()?;
        Ok(world)
    }

    pub fn engine(&self) -> Arc<Engine> {
        self.engine.clone().expect("the engine is open")
    }

    /// Returns true if the engine has given up its log: nothing more becomes durable.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }

    pub fn observe(&mut self, value: u64) {
        self.hash = mixed(self.hash ^ value);
    }

    /// An answer rests on everything up to `dependency`.
    pub fn answer_once_durable(&mut self, dependency: Version) {
        self.unanswered.push(dependency);
    }

    /// Gives the answers that may be given.
    pub fn give_answers(&mut self) {
        let engine = self.engine();
        let (due, waiting) = self
            .unanswered
            .drain(..)
            .partition(|&dependency| engine.is_durable(dependency));
        self.unanswered = waiting;
        let due: Vec<Version> = due;
        for dependency in due {
            self.model.acknowledge(dependency);
            self.observe(dependency.0);
        }
    }

    pub fn wait(&mut self, time: Duration) {
        self.runtime.clone().pause(time);
        self.give_answers();
    }

    /// The disk's faults in this life.
    pub fn order_fault(&mut self) {
        let operation = self.random.pick(&[
            Operation::Write,
            Operation::Write,
            Operation::Sync,
            Operation::Create,
            Operation::Rename,
            Operation::Remove,
            Operation::Allocate,
        ]);
        let nth = 1 + self.random.below(80);
        let fault = self
            .random
            .pick(&[Fault::Error, Fault::Error, Fault::NoSpace, Fault::Short]);
        self.disk.fail(operation, nth, fault);
    }

    /// Stops the engine as an operator does. All its commits, answered or not, are present
    /// afterwards.
    pub fn restart(&mut self) -> Result<(), Violation> {
        self.give_answers();
        let engine = self
            .engine
            .take()
            .and_then(Arc::into_inner)
            .expect("nobody else holds the engine");
        match engine.close() {
            Ok(()) => self.model.acknowledge(self.model.last_version()),
            // The disk failed on the way.
            Err(_) => self.lose_power(),
        }
        self.unanswered.clear();
        self.open()
    }

    pub fn crash(&mut self) -> Result<(), Violation> {
        self.give_answers();
        self.lose_power();
        self.engine = None;
        self.unanswered.clear();
        self.open()
    }

    fn lose_power(&mut self) {
        self.crashes += 1;
        self.runtime.kill();
        match self.random.below(3) {
            0 => self.disk.crash(),
            _ => self.disk.crash_keeping_some(self.random.next()),
        }
    }

    /// Opens the content of the disk, and checks it.
    fn open(&mut self) -> Result<(), Violation> {
        for _ in 0..OPENINGS_MAX {
            if self.random.one_in(4) {
                self.order_fault();
            }
            match self.try_open() {
                Ok(engine) => {
                    self.engine = Some(Arc::new(engine));
                    return self.judge_recovery();
                }
                Err(error) if error.is_damage() => return Err(Violation::Damage(error.to_string())),
                Err(_) => self.lose_power(),
            }
        }
        Err(Violation::Damage("the disk never let it open".into()))
    }

    fn try_open(&mut self) -> Result<Engine, OpenError> {
        self.has_failed = Arc::default();
        let has_failed = self.has_failed.clone();
        let disk = Arc::new(self.disk.clone());
        let parts = Parts {
            log: Box::new(FileLogOpener {
                disk: disk.clone(),
                options: self.log.clone(),
            }),
            disk,
            clock: self.clock.clone(),
            runtime: self.runtime.clone(),
        };
        let failure = Box::new(move |_: &_| has_failed.store(true, Ordering::SeqCst));
        Engine::open_with(parts, self.options.clone(), failure, &mut |_| {})
    }

    fn judge_recovery(&mut self) -> Result<(), Violation> {
        let rows = self.rows();
        let last = rows.get(LAST).and_then(|value| value.first_chunk());
        let recovered = last.map_or(Version::ZERO, |bytes| Version(u64::from_be_bytes(*bytes)));
        self.model.recovered(recovered)?;
        self.observe(recovered.0);
        self.judge_rows(&rows)
    }

    /// Checks that the contents equal the model's.
    pub fn judge_rows(&mut self, rows: &Rows) -> Result<(), Violation> {
        let row_count = |rows: &Rows| rows.iter().filter(|(key, _)| *key != LAST).count();
        let differs = |(key, value): &(&Vec<u8>, &Vec<u8>)| *key != LAST && rows.get(*key) != Some(*value);
        let expected = self.model.rows();
        if let Some((key, _)) = expected.iter().find(differs) {
            return Err(Violation::State { key: key.clone() });
        }
        if row_count(rows) != row_count(expected) {
            let key = rows.keys().find(|key| !expected.contains_key(*key)).cloned();
            return Err(Violation::State {
                key: key.unwrap_or_default(),
            });
        }
        let state = self
            .engine()
            .state_hash(None)
            .map_err(|error| Violation::Refused(error.to_string()))?;
        self.observe(state as u64);
        Ok(())
    }

    /// Every row at the latest commit.
    pub fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        let reader = self.engine().reader(self.space).expect("nobody else holds the lock");
        reader.scan(b"", b"\xff", false, &mut |key, value| {
            rows.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        });
        rows
    }
}
