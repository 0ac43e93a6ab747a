//! Three partitions of one process in one world: their folders are on one machine, which loses
//! power and room as a whole, and databases move between them while they are written to.
//!
//! Each database is a list that grows by one row at a time, under a counter. So the present rows
//! show whether any is missing or duplicated, and their versions whether one order holds over all
//! moves. A move advances by one step in a turn; power fails between any two steps, and a failing
//! disk ends the process within one.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use quartet_engine::{
    DatabaseCopy, DatabaseCopyError, Dependency, Durability, Engine, EngineOptions, ExecuteError, OpenError,
    PartitionId, Parts, StoreKind,
};
use quartet_env::{Fault, FaultyDisk, ManualClock, Operation, Runtime};
use quartet_log::{FileLogOpener, FileLogOptions};
use quartet_model::{LayerId, Version};
use quartet_tenancy::{Catalogue, CatalogueError, Database, Definition, Move, Partitions};

use crate::random::{Random, mixed};
use crate::runtime::SeededRuntime;

const PARTITIONS: usize = 3;
const NAMES: [&str; 2] = ["first", "second"];
const COUNT: &[u8] = b"count";
const ROWS: &[u8] = b"row/";
const VALUE_BYTES_MAX: u64 = 600;

const LIVES: u64 = 6;
const TURNS_MAX: u64 = 200;
/// More failures of the disks in a row than any seed orders.
const OPENINGS_MAX: u32 = 20;
const HOUR_MICROS: u64 = 3_600_000_000;
/// Time limit of one step of a move, as a number of checks, and their interval.
const LOOKS_MAX: u32 = 10_000;
const LOOK: Duration = Duration::from_millis(1);

/// A violation of the partitions' guarantees.
#[derive(Debug, thiserror::Error)]
pub enum Finding {
    #[error("{name} had {acknowledged} rows that were acknowledged, and has {found}")]
    Lost {
        name: &'static str,
        acknowledged: u64,
        found: u64,
    },
    #[error("the rows of {name} are not one list: {what}")]
    Torn { name: &'static str, what: String },
    #[error("{name} is in partition {there}, and partition {also} has rows of it")]
    InTwoPlaces { name: &'static str, there: u32, also: u32 },
    #[error("what was durable cannot be read back: {0}")]
    Damage(String),
    #[error("{0}")]
    Refused(String),
}

/// A deliberate mistake that the checker must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The disks say that they have synced, and have not.
    LyingDisks,
    /// A database continues at the target without the writes that were made while it was copied.
    NothingFollowed,
    /// A writer that was admitted before a move writes to the source after the move.
    LateWriter,
}

/// How one seed ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Hash of everything that was observed on the way: the same each time the seed is run.
    pub hash: u64,
    pub crashes: u64,
    /// Number of occurrences of the tested situations.
    pub reached: BTreeMap<&'static str, u64>,
}

struct World {
    random: Random,
    runtime: Arc<SeededRuntime>,
    clock: Arc<ManualClock>,
    disks: [FaultyDisk; PARTITIONS],
    log: FileLogOptions,
    options: EngineOptions,
    mistake: Option<Mistake>,
    /// None only while it is opened.
    catalogue: Option<Catalogue>,
    partitions: Option<Arc<Partitions>>,
    has_failed: Arc<AtomicBool>,
    lists: [List; NAMES.len()],
    moving: Option<Moving>,
    crashes: u64,
    reached: BTreeMap<&'static str, u64>,
    hash: u64,
}

/// The checker's model of a database.
#[derive(Default)]
struct List {
    /// The next row: all before it exist.
    next: u64,
    /// Rows below are acknowledged.
    acknowledged: u64,
    /// Unacknowledged rows, with the dependency that each waits for, and its partition.
    unanswered: Vec<(u64, PartitionId, Dependency)>,
}

struct Moving {
    database: Arc<Database>,
    moving: Move,
    step: Step,
}

enum Step {
    Copying(Box<DatabaseCopy>),
    Following(Box<DatabaseCopy>),
    /// It is where the catalogue has it; the remains in the other partition must be removed.
    Ending,
}

/// Runs one seed.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Result<Report, Finding> {
    let mut world = World::begin(seed, mistake)?;
    for _ in 0..LIVES {
        world.live()?;
        match world.random.one_in(4) && !world.has_failed() {
            true => world.restart()?,
            false => world.crash()?,
        }
    }
    Ok(Report {
        hash: world.hash,
        crashes: world.crashes,
        reached: world.reached,
    })
}

impl World {
    fn begin(seed: u64, mistake: Option<Mistake>) -> Result<World, Finding> {
        let mut random = Random::new(seed);
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000 + random.below(1 << 40)));
        let segment_bytes = random.pick(&[8 << 10, 32 << 10, 256 << 10]);
        let disks = [(); PARTITIONS].map(|()| FaultyDisk::new());
        if mistake == Some(Mistake::LyingDisks) {
            disks.iter().for_each(FaultyDisk::lie_about_syncs);
        }
        let mut world = World {
            runtime: SeededRuntime::new(random.next(), clock.clone()),
            clock,
            disks,
            log: FileLogOptions {
                segment_bytes,
                salt: random.next(),
                is_one_of_several: true,
            },
            options: EngineOptions {
                store: Some(random.pick(&[StoreKind::Memory, StoreKind::Ssd])),
                kept_bytes: segment_bytes / 4,
                checkpoint_log_bytes: random.pick(&[8 << 10, 64 << 10, 1 << 20]),
                log_retention_bytes: random.pick(&[0, 32 << 10, 1 << 20]),
                ..EngineOptions::default()
            },
            mistake,
            catalogue: None,
            partitions: None,
            has_failed: Arc::default(),
            lists: Default::default(),
            moving: None,
            crashes: 0,
            reached: BTreeMap::new(),
            hash: seed,
            random,
        };
        world.open()?;
        for name in NAMES {
            world.create(name)?;
        }
        Ok(world)
    }

    fn create(&mut self, name: &'static str) -> Result<(), Finding> {
        for _ in 0..OPENINGS_MAX {
            if self.catalogue().named(name).is_some() {
                return Ok(());
            }
            let definition = Definition::new(name, Durability::Always);
            // A disk fault that was scheduled for the opening may occur here.
            if self.catalogue().create(definition).is_err() {
                self.crash()?;
            }
        }
        Err(Finding::Refused("a database cannot be made".into()))
    }

    fn catalogue(&self) -> &Catalogue {
        self.catalogue.as_ref().expect("it is open")
    }

    fn engine(&self, partition: PartitionId) -> Arc<Engine> {
        let partitions = self.partitions.as_ref().expect("they are open");
        partitions.engine(partition).clone()
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }

    fn reach(&mut self, event: &'static str) {
        *self.reached.entry(event).or_insert(0) += 1;
    }

    fn observe(&mut self, value: u64) {
        self.hash = mixed(self.hash ^ value);
    }

    /// One life of the process, up to its end.
    fn live(&mut self) -> Result<(), Finding> {
        if self.random.one_in(2) {
            self.order_fault();
        }
        for _ in 0..self.random.below(TURNS_MAX) {
            if self.has_failed() {
                break;
            }
            self.turn()?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<(), Finding> {
        match self.random.below(100) {
            0..45 => {
                let list = self.random.below(NAMES.len() as u64) as usize;
                self.append(list)
            }
            45..80 => self.go_on_with_a_move(),
            80..84 => {
                let partition = PartitionId(self.random.below(PARTITIONS as u64) as u32);
                self.engine(partition).checkpoint_in_background();
                Ok(())
            }
            84..86 => {
                let now = self.clock_micros();
                self.clock.set(now - self.random.below(HOUR_MICROS));
                Ok(())
            }
            86..88 => {
                // All folders are on one disk.
                let is_full = self.random.one_in(2);
                for disk in &self.disks {
                    disk.set_capacity(is_full.then(|| disk.taken_bytes()));
                }
                Ok(())
            }
            88..90 => {
                for list in 0..NAMES.len() {
                    self.judge(list)?;
                }
                Ok(())
            }
            _ => {
                let time = Duration::from_micros(self.random.below(30_000));
                self.runtime.clone().pause(time);
                self.give_answers();
                Ok(())
            }
        }
    }

    fn clock_micros(&self) -> u64 {
        quartet_env::Clock::now_micros(&*self.clock)
    }

    fn order_fault(&mut self) {
        let operations = [
            Operation::Write,
            Operation::Sync,
            Operation::Sync,
            Operation::Create,
            Operation::Rename,
            Operation::Remove,
            Operation::Allocate,
        ];
        let (operation, nth) = (self.random.pick(&operations), 1 + self.random.below(60));
        let fault = self.random.pick(&[Fault::Error, Fault::NoSpace, Fault::Short]);
        let disk = self.random.below(PARTITIONS as u64) as usize;
        self.disks[disk].fail(operation, nth, fault);
    }

    fn database(&self, list: usize) -> Arc<Database> {
        let named = self.catalogue().named(NAMES[list]);
        named.expect("it was made, durably")
    }

    fn append(&mut self, list: usize) -> Result<(), Finding> {
        let database = self.database(list);
        let (partition, number) = (database.partition(), self.lists[list].next);
        let value = vec![number as u8; self.random.below(VALUE_BYTES_MAX) as usize];
        let engine = self.engine(partition);
        let executed = engine.partition().execute(database.space(LayerId::KeyValue), |tx| {
            tx.set(&row(number), &value);
            tx.set(COUNT, &(number + 1).to_be_bytes());
            Ok::<_, ()>(tx.commit_version())
        });
        match executed {
            Ok((version, dependency)) => {
                self.observe(version.0);
                let list = &mut self.lists[list];
                list.next = number + 1;
                list.unanswered.push((number, partition, dependency));
                Ok(())
            }
            // The disk is full; it has changed nothing.
            Err(ExecuteError::DiskFull(_)) => Ok(()),
            Err(error) => Err(Finding::Refused(format!("an append: {error:?}"))),
        }
    }

    fn give_answers(&mut self) {
        let partitions = self.partitions.as_ref().expect("they are open");
        for list in &mut self.lists {
            let is_durable = |partition, dependency| partitions.engine(partition).is_durable(dependency);
            let acknowledged = &mut list.acknowledged;
            list.unanswered.retain(
                |&(number, partition, dependency)| match is_durable(partition, dependency) {
                    true => {
                        *acknowledged = (*acknowledged).max(number + 1);
                        false
                    }
                    false => true,
                },
            );
        }
    }

    /// One step of the current move, or the first step of another.
    fn go_on_with_a_move(&mut self) -> Result<(), Finding> {
        let Some(mut moving) = self.moving.take() else {
            return self.begin_move();
        };
        match self.take_step(&mut moving) {
            Ok(true) => self.moving = Some(moving),
            Ok(false) => {}
            Err(error) => {
                self.observe(error.len() as u64);
                if self.has_failed() {
                    return Ok(());
                }
                self.reach("a move given up");
                // It stays where it is.
                self.engine(PartitionId(moving.moving.from)).unfence(moving.database.id);
                moving.step = Step::Ending;
                self.moving = Some(moving);
            }
        }
        Ok(())
    }

    fn begin_move(&mut self) -> Result<(), Finding> {
        let list = self.random.below(NAMES.len() as u64) as usize;
        let to = PartitionId(self.random.below(PARTITIONS as u64) as u32);
        let (database, moving) = match self.catalogue().begin_move(NAMES[list], to) {
            Ok(Some(started)) => started,
            // It is in that partition already, or the disk fails or is full.
            Ok(None) | Err(CatalogueError::LogFailed | CatalogueError::DiskFull) => return Ok(()),
            Err(error) => return Err(Finding::Refused(format!("a move: {error}"))),
        };
        let (source, target) = (self.engine(PartitionId(moving.from)), self.engine(to));
        let cleared = target.clear_database(database.id);
        let copy = cleared.and_then(|_| DatabaseCopy::begin(&source, target, database.id, Arc::default()));
        self.moving = Some(Moving {
            database,
            moving,
            step: copy.map_or(Step::Ending, |copy| Step::Copying(Box::new(copy))),
        });
        Ok(())
    }

    /// False: the move has ended.
    ///
    /// Errors: the database stays where it is, unless the log has failed.
    fn take_step(&mut self, moving: &mut Moving) -> Result<bool, String> {
        let step = std::mem::replace(&mut moving.step, Step::Ending);
        let copying = |error: DatabaseCopyError| error.to_string();
        match step {
            Step::Copying(mut copy) => {
                moving.step = match copy.copy_some().map_err(copying)? {
                    true => Step::Copying(copy),
                    false => Step::Following(copy),
                };
                Ok(true)
            }
            Step::Following(mut copy) => {
                let is_followed =
                    self.mistake == Some(Mistake::NothingFollowed) || !copy.follow_some().map_err(copying)?;
                if is_followed && self.random.one_in(2) {
                    self.arrive(moving, &mut copy)?;
                } else {
                    moving.step = Step::Following(copy);
                }
                Ok(true)
            }
            Step::Ending => match self.catalogue().end_move(&moving.database, moving.moving) {
                Ok(()) => {
                    if self.mistake == Some(Mistake::LateWriter) {
                        self.write_behind(moving);
                    }
                    Ok(false)
                }
                Err(CatalogueError::DiskFull | CatalogueError::Busy(_)) => Ok(true),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// The database has no writer meanwhile.
    fn arrive(&mut self, moving: &Moving, copy: &mut DatabaseCopy) -> Result<(), String> {
        let Moving { database, moving, .. } = moving;
        let (source, target) = (
            self.engine(PartitionId(moving.from)),
            self.engine(PartitionId(moving.to)),
        );
        let failed = |error: DatabaseCopyError| error.to_string();
        copy.settle().map_err(failed)?;
        let fence: Version = source.fence(database.id).map_err(failed)?;
        if !source.wait_durable(fence) {
            return Err("the log has failed".into());
        }
        if self.mistake != Some(Mistake::NothingFollowed) {
            let mut looks = 0;
            while copy.seen() < fence {
                if !copy.follow_some().map_err(failed)? {
                    looks += 1;
                    if looks > LOOKS_MAX || self.has_failed() {
                        return Err("the log is not followed".into());
                    }
                    self.runtime.clone().pause(LOOK);
                }
            }
            copy.settle().map_err(failed)?;
            if source.rows_of(database.id).map_err(failed)? != target.rows_of(database.id).map_err(failed)? {
                return Err("source and target differ".into());
            }
        }
        self.catalogue()
            .arrive(database, *moving, fence)
            .map_err(|error| error.to_string())?;
        target.unfence(database.id);
        self.reach("an arrival");
        self.observe(fence.0);
        Ok(())
    }

    /// Writes into the partition that does not have the database.
    fn write_behind(&self, moving: &Moving) {
        let Move { from, to } = moving.moving;
        let has_arrived = moving.database.partition() == PartitionId(to);
        let source = self.engine(PartitionId(if has_arrived { from } else { to }));
        source.unfence(moving.database.id);
        let space = moving.database.space(LayerId::KeyValue);
        // It may find the disk full: then the mistake is not made this time.
        let _ = source.partition().execute(space, |tx| {
            tx.set(&row(0), b"late");
            Ok::<_, ()>(())
        });
    }

    /// Stops the process as an operator does: a move in progress is abandoned.
    fn restart(&mut self) -> Result<(), Finding> {
        self.give_answers();
        if self.moving.take().is_some() {
            self.reach("a restart within a move");
        }
        self.catalogue = None;
        let partitions = self.partitions.take().and_then(Arc::into_inner);
        let partitions = partitions.expect("nobody else has them");
        let mut has_failed = false;
        for engine in partitions.into_engines() {
            let engine = Arc::into_inner(engine).expect("nobody else has an engine");
            has_failed |= engine.close().is_err();
        }
        match has_failed {
            true => self.lose_power(),
            // All rows are present afterwards.
            false => self.lists.iter_mut().for_each(|list| list.acknowledged = list.next),
        }
        self.open()
    }

    fn crash(&mut self) -> Result<(), Finding> {
        self.give_answers();
        self.lose_power();
        self.open()
    }

    fn lose_power(&mut self) {
        self.crashes += 1;
        self.runtime.kill();
        let keeps_some = !self.random.one_in(3);
        for disk in &self.disks {
            match keeps_some {
                true => disk.crash_keeping_some(self.random.next()),
                false => disk.crash(),
            }
        }
        match self.moving.take().map(|moving| moving.step) {
            Some(Step::Copying(_)) => self.reach("a crash while rows are copied"),
            Some(Step::Following(_)) => self.reach("a crash while changes are followed"),
            Some(Step::Ending) => self.reach("a crash before the end of a move"),
            None => {}
        }
        self.catalogue = None;
        self.partitions = None;
    }

    /// Opens the content of the disks, and checks it.
    fn open(&mut self) -> Result<(), Finding> {
        self.lists.iter_mut().for_each(|list| list.unanswered.clear());
        for attempt in 0..OPENINGS_MAX {
            if attempt > 0 {
                self.disks.iter().for_each(|disk| disk.set_capacity(None));
            }
            if self.random.one_in(4) {
                self.order_fault();
            }
            if self.random.one_in(4) {
                let now = self.clock_micros();
                self.clock.set(now - self.random.below(HOUR_MICROS));
            }
            match self.try_open() {
                Ok(catalogue) => {
                    self.catalogue = Some(catalogue);
                    for list in 0..NAMES.len() {
                        self.judge(list)?;
                    }
                    return Ok(());
                }
                Err(Unopened::Damage(reason)) => return Err(Finding::Damage(reason)),
                Err(Unopened::Again) => self.lose_power(),
            }
        }
        Err(Finding::Damage("the disks never let it open".into()))
    }

    fn try_open(&mut self) -> Result<Catalogue, Unopened> {
        self.has_failed = Arc::default();
        let mut engines = Vec::new();
        for disk in &self.disks {
            let (disk, has_failed) = (Arc::new(disk.clone()), self.has_failed.clone());
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
            engines.push(Arc::new(Engine::open_with(
                parts,
                self.options.clone(),
                failure,
                &mut |_| {},
            )?));
        }
        let random = AtomicU8::new(1);
        let random = move |bytes: &mut [u8]| bytes.fill(random.fetch_add(1, Ordering::Relaxed));
        let partitions = Arc::new(Partitions::new(engines));
        self.partitions = Some(partitions.clone());
        let opened = Catalogue::open(partitions, Box::new(random));
        opened.map_err(|error| match error {
            CatalogueError::LogFailed
            | CatalogueError::DiskFull
            | CatalogueError::Unreadable
            | CatalogueError::Busy(_) => Unopened::Again,
            error => Unopened::Damage(error.to_string()),
        })
    }

    /// A database has all that was acknowledged, once, in one order, and in one partition.
    fn judge(&mut self, list: usize) -> Result<(), Finding> {
        let name = NAMES[list];
        let Some(database) = self.catalogue().named(name) else {
            return match self.lists[list].next {
                0 => Ok(()),
                acknowledged => Err(Finding::Lost {
                    name,
                    acknowledged,
                    found: 0,
                }),
            };
        };
        let partition = database.partition();
        let is_moving = self.catalogue().is_moving(database.id);
        for also in (0..PARTITIONS as u32).filter(|&also| PartitionId(also) != partition && !is_moving) {
            let rows = self.engine(PartitionId(also)).rows_of(database.id);
            let rows = rows.map_err(|error| Finding::Refused(error.to_string()))?;
            if rows.iter().sum::<u64>() > 0 {
                let there = partition.0;
                return Err(Finding::InTwoPlaces { name, there, also });
            }
        }
        let torn = |what: String| Finding::Torn { name, what };
        let engine = self.engine(partition);
        let reader = engine
            .reader(database.space(LayerId::KeyValue))
            .map_err(|error| Finding::Refused(error.to_string()))?;
        let count = reader.get(COUNT).and_then(|value| value.first_chunk().copied());
        let count = count.map_or(0, u64::from_be_bytes);
        let (mut expected, mut before, mut differs) = (0, Version::ZERO, None);
        reader.scan_rows(ROWS, b"row0", &mut |entry| {
            if !entry.key().ends_with(&row(expected)) || entry.version() <= before {
                differs = Some(expected);
                return ControlFlow::Break(());
            }
            (expected, before) = (expected + 1, entry.version());
            ControlFlow::Continue(())
        });
        if let Some(number) = differs {
            return Err(torn(format!(
                "row {number} is missing, or its version is not above the last"
            )));
        }
        if expected != count {
            return Err(torn(format!("it has {expected} rows and counts {count}")));
        }
        let list = &mut self.lists[list];
        if count < list.acknowledged {
            return Err(Finding::Lost {
                name,
                acknowledged: list.acknowledged,
                found: count,
            });
        }
        if count > list.next {
            return Err(torn(format!("{} rows were written, and there are {count}", list.next)));
        }
        list.next = count;
        self.observe(count ^ before.0 ^ u64::from(partition.0));
        Ok(())
    }
}

enum Unopened {
    /// The disk failed on the way, or has no room.
    Again,
    Damage(String),
}

impl From<OpenError> for Unopened {
    fn from(error: OpenError) -> Unopened {
        match error.is_damage() {
            true => Unopened::Damage(error.to_string()),
            false => Unopened::Again,
        }
    }
}

fn row(number: u64) -> Vec<u8> {
    [ROWS, &number.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_finds_nothing_and_moves_end_in_every_way() {
        let mut reached = BTreeMap::new();
        for seed in 0..100 {
            let report = run(seed, None).unwrap_or_else(|finding| panic!("seed {seed}: {finding}"));
            for (event, times) in report.reached {
                *reached.entry(event).or_insert(0) += times;
            }
        }
        let expected = [
            "a crash before the end of a move",
            "a crash while changes are followed",
            "a crash while rows are copied",
            "a move given up",
            "a restart within a move",
            "an arrival",
        ];
        assert!(reached.keys().eq(&expected), "{reached:?}");
    }

    #[test]
    fn a_seed_run_again_gives_the_same_hash() {
        let mut hashes = std::collections::BTreeSet::new();
        for seed in 0..10 {
            let first = run(seed, None).unwrap();
            assert_eq!(run(seed, None).unwrap(), first, "seed {seed}");
            hashes.insert(first.hash);
        }
        assert_eq!(hashes.len(), 10);
    }

    #[test]
    fn the_checker_finds_each_mistake() {
        let findings = |mistake, is_it: fn(&Finding) -> bool| {
            let mut outcomes = (0..30).map(|seed| run(seed, Some(mistake)));
            outcomes.any(|outcome| outcome.as_ref().is_err_and(is_it))
        };
        assert!(findings(Mistake::LyingDisks, |finding| matches!(
            finding,
            Finding::Lost { .. } | Finding::Damage(_)
        )));
        assert!(findings(Mistake::NothingFollowed, |finding| matches!(
            finding,
            Finding::Lost { .. }
        )));
        assert!(findings(Mistake::LateWriter, |finding| matches!(
            finding,
            Finding::InTwoPlaces { .. }
        )));
    }
}
