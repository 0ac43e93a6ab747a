//! A database goes from one partition to another, and a crash at any step leaves it in one.
//!
//! ```text
//!   step                          durable in           a start behind it
//!   begin    'H': it is not here  the target           finds nothing to do
//!            'M'                  the first            clears the target, forgets the move
//!   (copy)   rows                 the target                 "
//!   leave    'C': not here        the source                 "
//!   arrive   'H', 'C': it is here the target                 "
//!   decide   'D': the partition   the first            clears the source, forgets the move
//!   end      rows, 'H': not here, the source                 "
//!            no 'C'
//!            no 'M'               the first            finds nothing to do
//! ```
//!
//! Each step is durable before the next starts. Only the definition decides: until it names the
//! target, the rows there belong to no database, and `quartet check` skips them. The places, 'H',
//! reveal folders from different times: a backup of one partition from before a move, next to a
//! catalogue from after it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::{Durability, Engine, PartitionId};
use quartet_model::{DatabaseId, Version};
use serde::de::DeserializeOwned;

use crate::catalogue::{Catalogue, Database};
use crate::definition::{DEFAULT_NAME, Definition, Move, Moved, Place};
use crate::pushes::{Push, TAKEN, last_taken, take};
use crate::rows::{COPY, CatalogueError, PLACE, json, row, space, write};

pub(crate) const MOVE: u8 = b'M';

impl Catalogue {
    /// Starts to move a database; `None` if it is in that partition.
    pub fn begin_move(&self, name: &str, to: PartitionId) -> Result<Option<(Arc<Database>, Move)>, CatalogueError> {
        let _changing = self.changing.lock();
        if name == DEFAULT_NAME {
            return Err(CatalogueError::Default);
        }
        let database = self.present(name)?;
        if !self.partitions().has(to) {
            return Err(CatalogueError::UnknownPartition(to.0));
        }
        if self.is_moving(database.id) {
            return Err(CatalogueError::Moving);
        }
        if self.is_apart() {
            return Err(CatalogueError::Apart);
        }
        let from = database.partition();
        if from == to {
            return Ok(None);
        }
        let moving = Move { from: from.0, to: to.0 };
        let place = Place {
            times: database.moves(),
            is_here: false,
        };
        write(self.partitions().engine(to), |tx| {
            drop(tx.set(&row(PLACE, database.id.0), &json(&place)));
        })?;
        self.write(|tx| drop(tx.set(&row(MOVE, database.id.0), &json(&moving))))?;
        self.moving.lock().insert(database.id.0, moving);
        Ok(Some((database, moving)))
    }

    pub fn is_moving(&self, database: DatabaseId) -> bool {
        self.moving.lock().contains_key(&database.0)
    }

    /// Makes the target the database's partition. All of its rows have been written there, and
    /// become durable with this; nothing of it commits in the source any longer, where its last
    /// commit is before `fence`.
    ///
    /// Errors: it is in the source, and continues there; unless the log has failed, which ends the
    /// process.
    pub fn arrive(&self, database: &Database, moving: Move, fence: Version) -> Result<(), CatalogueError> {
        let _changing = self.changing.lock();
        if database.is_closed() {
            return Err(CatalogueError::Unknown);
        }
        let id = database.id.0;
        let mut definition = Definition::clone(&database.definition());
        let before = definition.moved;
        let times = database.moves() + 1;
        let partition = |number| self.partitions().engine(PartitionId(number));
        let (source, target) = (partition(moving.from), partition(moving.to));
        // A step for the source and for the target, each of which receives its part.
        let number = self.next_number()?;
        definition.revision = number;
        definition.partition = moving.to;
        if moving.from != 0 {
            take(
                PartitionId(moving.from),
                source,
                number,
                &Push::of(id, Some(&definition)),
            )?;
        }
        target.land_above(fence)?;
        let place = Place { times, is_here: true };
        let usage = json(&database.meter.usage(target.now_micros()));
        write(target, |tx| {
            if moving.to != 0 && last_taken(tx) >= number {
                return Err(CatalogueError::Stale);
            }
            tx.set(&row(PLACE, id), &json(&place));
            definition.moved = Some(Moved {
                times,
                from: moving.from,
                since: before.map_or(0, |before| before.arrived),
                left: fence.0,
                arrived: tx.commit_version().0,
            });
            if moving.to != 0 {
                tx.set(&row(COPY, id), &json(&definition));
                tx.set(TAKEN, &number.to_be_bytes());
            }
            tx.set(&row(b'U', id), &usage);
            Ok(())
        })??;
        self.write(|tx| drop(tx.set(&row(b'D', database.id.0), &json(&definition))))?;
        database.define(definition);
        Ok(())
    }

    /// Clears the remains in the partition that does not have the database, and forgets the move.
    /// The rows there must not be in use.
    pub fn end_move(&self, database: &Database, moving: Move) -> Result<(), CatalogueError> {
        let id = database.id.0;
        let has_arrived = database.partition() == PartitionId(moving.to);
        let left_over = PartitionId(if has_arrived { moving.from } else { moving.to });
        self.clear_in(left_over, id, database.moves())?;
        if !has_arrived {
            // The source may have said that it had left.
            self.settle_copies(PartitionId(moving.from))?;
        }
        self.write(|tx| drop(tx.clear(&row(MOVE, id))))?;
        self.moving.lock().remove(&id);
        Ok(())
    }

    /// Verifies that moved databases are where the catalogue has them.
    pub(crate) fn verify_places(&self) -> Result<(), CatalogueError> {
        for (id, engine) in self.partitions().iter() {
            let places: Option<BTreeMap<u16, Place>> = rows(engine, PLACE)?;
            let places = places.ok_or(CatalogueError::Damaged("a database's place"))?;
            for database in self.list().iter().filter(|database| database.partition() == id) {
                let agree = match places.get(&database.id.0) {
                    None => database.moves() == 0,
                    Some(place) => place.is_here && place.times >= database.moves(),
                };
                if !agree {
                    return Err(CatalogueError::NotThere {
                        name: database.definition().name.clone(),
                        partition: id.0,
                    });
                }
            }
        }
        Ok(())
    }

    /// Completes the moves that the server's end interrupted. No client is served yet.
    pub(crate) fn end_moves(&self) -> Result<(), CatalogueError> {
        for (id, moving) in moves(self.partitions().first())? {
            let place = |partition| self.partitions().has(PartitionId(partition));
            match self.numbered(DatabaseId(id)) {
                Some(database) if place(moving.from) && place(moving.to) => self.end_move(&database, moving)?,
                _ => self.write(|tx| drop(tx.clear(&row(MOVE, id))))?,
            }
        }
        Ok(())
    }

    /// Clears a deleted database in all its present and former partitions after the first, with
    /// their rows about it. The caller clears the first partition.
    pub(crate) fn clear_everywhere(&self, database: &Database) -> Result<(), CatalogueError> {
        for (partition, _) in self.partitions().iter().skip(1) {
            if partition == database.partition() || database.moves() > 0 {
                self.clear_in(partition, database.id.0, 0)?;
            }
        }
        Ok(())
    }

    /// Clears a database durably in a partition that does not have it, with the partition's rows
    /// about it. `times`: the number of its moves; zero if it is deleted.
    fn clear_in(&self, partition: PartitionId, id: u16, times: u64) -> Result<(), CatalogueError> {
        let _changing = self.changing.lock();
        if partition != PartitionId(0) {
            return self.push_step(partition, &Push::Clear { id, times });
        }
        self.engine().clear_database(DatabaseId(id))?;
        // After the rows in the same log: once this is durable, so is their removal.
        let place = Place { times, is_here: false };
        self.write(|tx| match place.times {
            0 => drop(tx.clear(&row(PLACE, id))),
            _ => {
                tx.set(&row(PLACE, id), &json(&place));
                tx.clear(&row(b'U', id));
            }
        })
    }
}

/// Returns true if a row of the log records that a database has arrived in its partition, or has
/// left it.
pub fn is_place(full_key: &[u8]) -> bool {
    let prefix = space(Durability::Always).prefix();
    full_key
        .strip_prefix(&prefix)
        .is_some_and(|key| key.first() == Some(&PLACE))
}

/// The moves in progress, by database.
fn moves(first: &Engine) -> Result<BTreeMap<u16, Move>, CatalogueError> {
    rows(first, MOVE)?.ok_or(CatalogueError::Damaged("a move"))
}

/// The rows of a kind by database; `None` if any is unreadable.
fn rows<T: DeserializeOwned>(engine: &Engine, tag: u8) -> Result<Option<BTreeMap<u16, T>>, CatalogueError> {
    let reader = engine.reader(space(Durability::Always))?;
    let (mut values, mut is_whole) = (BTreeMap::new(), true);
    reader.scan(&[tag], &[tag + 1], false, &mut |key, value| {
        let id = key[1..].try_into().ok().map(u16::from_be_bytes);
        match (id, serde_json::from_slice(value)) {
            (Some(id), Ok(value)) => drop(values.insert(id, value)),
            _ => is_whole = false,
        }
        ControlFlow::Continue(())
    });
    match reader.is_unreadable() {
        true => Err(CatalogueError::Unreadable),
        false => Ok(is_whole.then_some(values)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::time::{Duration, Instant};

    use parking_lot::Mutex;
    use quartet_engine::{
        CopyFigures, DatabaseCopy, DatabaseCopyError, EngineOptions, Invariants, LogReadError, Parts, Space,
        Verification,
    };
    use quartet_env::{FaultyDisk, ManualClock};
    use quartet_log::FileLogOptions;
    use quartet_model::LayerId;

    use super::*;
    use crate::{CatalogueInvariants, Partitions};

    type Disks = [Arc<FaultyDisk>; 3];

    const SEGMENT_BYTES: u64 = 64 << 10;

    /// The start time of a test, in microseconds since the Unix epoch.
    const NOW: u64 = 1_753_000_000_000_000;
    const HOUR: u64 = 3_600_000_000;

    fn open(disks: &Disks) -> Result<Catalogue, CatalogueError> {
        open_at(disks, Arc::new(ManualClock::new(NOW)))
    }

    fn open_at(disks: &Disks, clock: Arc<ManualClock>) -> Result<Catalogue, CatalogueError> {
        let partitions = partitions(disks, clock);
        let opened = open_over(&partitions);
        if opened.is_err() {
            end(Arc::into_inner(partitions).unwrap());
        }
        opened
    }

    fn partitions(disks: &Disks, clock: Arc<ManualClock>) -> Arc<Partitions> {
        let engines = disks.iter().map(|disk| {
            let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
            // Small, so that a disk is soon full and the log soon trimmed.
            let log = FileLogOptions {
                segment_bytes: SEGMENT_BYTES,
                ..FileLogOptions::default()
            };
            let options = EngineOptions {
                kept_bytes: SEGMENT_BYTES / 4,
                log_retention_bytes: 0,
                ..EngineOptions::default()
            };
            let parts = Parts::with_file_log(disk.clone(), clock.clone(), log);
            Arc::new(Engine::open_with(parts, options, failure, &mut |_| {}).unwrap())
        });
        Arc::new(Partitions::new(engines.collect()))
    }

    fn open_over(partitions: &Arc<Partitions>) -> Result<Catalogue, CatalogueError> {
        let random = AtomicU8::new(1);
        let random = move |bytes: &mut [u8]| bytes.fill(random.fetch_add(1, Ordering::Relaxed));
        Catalogue::open(partitions.clone(), Box::new(random))
    }

    /// The partitions after the first whose own log claims the database.
    fn having(partitions: &Partitions, id: DatabaseId) -> Vec<PartitionId> {
        let has = |&(partition, engine): &(PartitionId, &Arc<Engine>)| {
            let definitions = rows::<Definition>(engine, COPY).unwrap().unwrap();
            definitions
                .get(&id.0)
                .is_some_and(|definition| definition.partition == partition.0)
        };
        partitions.iter().filter(has).map(|(partition, _)| partition).collect()
    }

    fn end(partitions: Partitions) {
        for engine in partitions.into_engines() {
            Arc::into_inner(engine)
                .expect("nobody else has an engine")
                .close()
                .unwrap();
        }
    }

    fn close(catalogue: Catalogue) {
        let partitions = catalogue.into_partitions();
        end(Arc::into_inner(partitions).expect("nobody else has the partitions"));
    }

    fn shop(catalogue: &Catalogue) -> Arc<Database> {
        let definition = Definition::new("shop", Durability::Always);
        catalogue.create(definition).unwrap().0
    }

    /// Numbers that are appended to a list, one after the other.
    #[derive(Default)]
    struct Appends {
        /// The next number: all before it are acknowledged.
        next: AtomicU8,
        versions: Mutex<Vec<Version>>,
    }

    /// Appends a number, durably where the catalogue has the database.
    fn append(catalogue: &Catalogue, database: &Database, appends: &Appends) {
        let number = appends.next.load(Ordering::SeqCst);
        let engine = catalogue.partitions().engine(database.partition());
        let written = engine.partition().execute(database.space(LayerId::Redis), |tx| {
            let old = tx.get(b"list").map(|row| row.value().to_vec()).unwrap_or_default();
            tx.set(b"list", &[&old[..], &[number]].concat());
            tx.set(&[b'k', number], b"a row");
            Ok::<_, std::convert::Infallible>(tx.commit_version())
        });
        let (version, dependency) = written.unwrap_or_else(|_| panic!("{number} is appended"));
        assert!(engine.wait_durable(dependency));
        appends.versions.lock().push(version);
        appends.next.store(number + 1, Ordering::SeqCst);
    }

    /// Waits until a partition measures its disk again, which was full.
    fn until_there_is_room(catalogue: &Catalogue, partition: PartitionId) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while catalogue.partitions().engine(partition).is_disk_full() {
            assert!(Instant::now() < deadline, "the disk has room");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The list as a partition has it. One without it has no row of the database either.
    fn list(catalogue: &Catalogue, partition: u32, id: DatabaseId) -> Vec<u8> {
        let engine = catalogue.partitions().engine(PartitionId(partition));
        if engine.rows_of(id).unwrap().iter().sum::<u64>() == 0 {
            return Vec::new();
        }
        let space = Space {
            database: id,
            layer: LayerId::Redis,
            durability: Durability::Always,
        };
        engine
            .reader(space)
            .unwrap()
            .get(b"list")
            .expect("a list beside the rows")
    }

    /// Finds each database that it is given.
    struct Everything;

    impl Invariants for Everything {
        fn layer(&self) -> LayerId {
            LayerId::Redis
        }

        fn judge(&self, verification: &mut Verification<'_>) {
            verification.found("it has rows".into(), Vec::new());
        }
    }

    /// The number of verifications of the database's rows in this partition.
    fn judged(engine: &Engine, id: DatabaseId) -> usize {
        let invariants: Vec<Box<dyn Invariants>> = vec![Box::new(Everything), Box::<CatalogueInvariants>::default()];
        let findings = engine.judge(&invariants).unwrap().kept;
        findings.iter().filter(|finding| finding.database == id).count()
    }

    fn write_rows(catalogue: &Catalogue, database: &Database, first: u32, count: u32) -> Result<(), ()> {
        let engine = catalogue.partitions().engine(database.partition());
        for number in first..first + count {
            let written = engine.partition().execute(database.space(LayerId::Redis), |tx| {
                tx.set(&[&b"row"[..], &number.to_be_bytes()].concat(), &[7; 1000]);
                Ok::<_, std::convert::Infallible>(())
            });
            let (_, dependency) = written.map_err(|_| ())?;
            assert!(engine.wait_durable(dependency));
        }
        Ok(())
    }

    fn rows_written(catalogue: &Catalogue, database: &Database) -> usize {
        let engine = catalogue.partitions().engine(database.partition());
        let (reader, mut count) = (engine.reader(database.space(LayerId::Redis)).unwrap(), 0);
        reader.scan(b"row", b"rox", false, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        });
        count
    }

    /// Takes what is left of a partition's disk, and the room that its log has reserved.
    fn fill(catalogue: &Catalogue, disks: &Disks, partition: u32) {
        let disk = &disks[partition as usize];
        disk.set_capacity(Some(disk.taken_bytes()));
        let engine = catalogue.partitions().engine(PartitionId(partition));
        let space = Space {
            database: DatabaseId(0),
            layer: LayerId::Redis,
            durability: Durability::Always,
        };
        for number in 0_u32.. {
            let written = engine.partition().execute(space, |tx| {
                tx.set(&number.to_be_bytes(), &[0; 500]);
                Ok::<_, std::convert::Infallible>(())
            });
            let Ok((_, dependency)) = written else { return };
            assert!(engine.wait_durable(dependency));
        }
    }

    /// The way of the server up to where the catalogue decides. `between` is called before rows are
    /// copied (0), before changes are followed (1), and when the source is fenced (2).
    fn try_to_go(
        catalogue: &Catalogue,
        database: &Database,
        moving: Move,
        between: &mut dyn FnMut(usize),
    ) -> Result<(), DatabaseCopyError> {
        let engine = |number| catalogue.partitions().engine(PartitionId(number)).clone();
        let (source, target) = (engine(moving.from), engine(moving.to));
        target.clear_database(database.id)?;
        let mut copy = DatabaseCopy::begin(&source, target.clone(), database.id, Arc::default())?;
        between(0);
        while copy.copy_some()? {}
        between(1);
        while copy.follow_some()? {}
        copy.settle()?;
        let fence = source.fence(database.id)?;
        between(2);
        assert!(source.wait_settled(fence, copy.arrival()));
        let followed = loop {
            match copy.seen() < fence {
                true => drop(copy.follow_some()?),
                false => break copy.settle(),
            }
        };
        followed?;
        assert_eq!(source.rows_of(database.id)?, target.rows_of(database.id)?);
        catalogue.arrive(database, moving, fence).expect("it arrives");
        target.unfence(database.id);
        Ok(())
    }

    /// Checks that the database has all acknowledged rows, continues, and has no rows in the other
    /// partitions, at present and after a restart.
    fn is_whole(catalogue: Catalogue, disks: &Disks, place: u32, appends: &Appends, rows: usize) -> Catalogue {
        let check = |catalogue: &Catalogue| {
            let database = catalogue.named("shop").unwrap();
            assert_eq!(database.partition(), PartitionId(place));
            assert!(!catalogue.is_moving(database.id));
            append(catalogue, &database, appends);
            let expected: Vec<u8> = (0..appends.next.load(Ordering::SeqCst)).collect();
            for partition in 0..3 {
                let expected = if partition == place {
                    expected.clone()
                } else {
                    Vec::new()
                };
                assert_eq!(list(catalogue, partition, database.id), expected, "in {partition}");
            }
            assert_eq!(rows_written(catalogue, &database), rows);
            let having = having(catalogue.partitions(), database.id);
            let expected: Vec<PartitionId> = (1..3)
                .filter(|partition| *partition == place)
                .map(PartitionId)
                .collect();
            assert_eq!(having, expected);
            assert!(appends.versions.lock().is_sorted_by(|before, after| before < after));
        };
        check(&catalogue);
        close(catalogue);
        let catalogue = open(disks).unwrap();
        check(&catalogue);
        catalogue
    }

    /// Moves the database while it is written to: six times.
    fn go(catalogue: &Catalogue, to: u32, appends: &Appends) {
        let (database, moving) = catalogue.begin_move("shop", PartitionId(to)).unwrap().unwrap();
        let engine = |number| catalogue.partitions().engine(PartitionId(number)).clone();
        let (source, target) = (engine(moving.from), engine(moving.to));
        append(catalogue, &database, appends);
        let figures = Arc::<CopyFigures>::default();
        let mut copy = DatabaseCopy::begin(&source, target.clone(), database.id, figures).unwrap();
        append(catalogue, &database, appends);
        while copy.copy_some().unwrap() {}
        assert_eq!((judged(&source, database.id), judged(&target, database.id)), (1, 0));
        append(catalogue, &database, appends);
        while copy.follow_some().unwrap() {}
        append(catalogue, &database, appends);
        let fence = source.fence(database.id).unwrap();
        assert!(source.wait_settled(fence, copy.arrival()));
        while copy.seen() < fence {
            copy.follow_some().unwrap();
        }
        copy.settle().unwrap();
        assert_eq!(
            source.rows_of(database.id).unwrap(),
            target.rows_of(database.id).unwrap()
        );
        catalogue.arrive(&database, moving, fence).unwrap();
        target.unfence(database.id);
        append(catalogue, &database, appends);
        assert_eq!(judged(&target, database.id), 1);
        catalogue.end_move(&database, moving).unwrap();
        append(catalogue, &database, appends);
    }

    fn disks() -> Disks {
        [(); 3].map(|()| Arc::new(FaultyDisk::new()))
    }

    /// A home that was deposed while it moved a database left it closed. The same process, home
    /// again, refused everything of it.
    #[test]
    fn a_term_starts_with_every_database_in_its_catalogued_partition() {
        let disks = disks();
        let catalogue = open(&disks).unwrap();
        let (database, appends) = (shop(&catalogue), Appends::default());
        append(&catalogue, &database, &appends);
        let engine = catalogue.partitions().engine(database.partition()).clone();
        engine.fence(database.id).unwrap();
        let refused = engine
            .partition()
            .execute(database.space(LayerId::Redis), |_| Ok::<(), ()>(()));
        assert_eq!(refused.map(drop), Err(quartet_engine::ExecuteError::NotHome));
        drop((engine, database));

        let partitions = catalogue.into_partitions();
        let catalogue = open_over(&partitions).unwrap();
        let database = catalogue.named("shop").unwrap();
        append(&catalogue, &database, &appends);
        drop((database, partitions));
        close(catalogue);
    }

    #[test]
    fn rows_keep_their_versions_and_later_versions_are_above() {
        let disks = disks();
        let catalogue = open(&disks).unwrap();
        let (database, appends) = (shop(&catalogue), Appends::default());
        assert_eq!(database.partition(), PartitionId(1));
        database.meter.command(&database.limits, NOW).unwrap();
        // The clock is stopped: versions of the source run ahead of the target's.
        for _ in 0..20 {
            append(&catalogue, &database, &appends);
        }
        for to in [2, 1, 0] {
            go(&catalogue, to, &appends);
        }
        let versions = appends.versions.lock().clone();
        assert!(versions.is_sorted_by(|before, after| before < after));
        let expected: Vec<u8> = (0..versions.len() as u8).collect();
        let check = |catalogue: &Catalogue| {
            let database = catalogue.named("shop").unwrap();
            assert_eq!((database.moves(), database.partition()), (3, PartitionId(0)));
            assert_eq!(database.meter.usage(NOW).commands_of_day, 1);
            let lists = [0, 1, 2].map(|partition| list(catalogue, partition, database.id));
            assert_eq!(lists, [expected.clone(), Vec::new(), Vec::new()]);
            let reader = catalogue
                .partitions()
                .first()
                .reader(database.space(LayerId::Redis))
                .unwrap();
            let mut read_versions = Vec::new();
            reader.scan_rows(b"k", b"l", &mut |row| {
                read_versions.push(row.version());
                ControlFlow::Continue(())
            });
            assert_eq!(read_versions, versions);
        };
        check(&catalogue);
        close(catalogue);
        let catalogue = open(&disks).unwrap();
        check(&catalogue);
        catalogue.forget(&catalogue.close("shop").unwrap()).unwrap();
        for (_, engine) in catalogue.partitions().iter() {
            assert!(rows::<Place>(engine, PLACE).unwrap().unwrap().is_empty());
            assert!(rows::<Definition>(engine, COPY).unwrap().unwrap().is_empty());
        }
        close(catalogue);
    }

    #[test]
    fn what_cannot_be_moved_is_refused_by_name() {
        let catalogue = open(&disks()).unwrap();
        let database = shop(&catalogue);
        let refused = |name, to| catalogue.begin_move(name, PartitionId(to)).err().unwrap();
        assert!(matches!(refused("default", 1), CatalogueError::Default));
        assert!(matches!(refused("news", 1), CatalogueError::Unknown));
        assert!(matches!(refused("shop", 3), CatalogueError::UnknownPartition(3)));
        assert!(catalogue.begin_move("shop", database.partition()).unwrap().is_none());
        let (_, moving) = catalogue.begin_move("shop", PartitionId(2)).unwrap().unwrap();
        assert!(matches!(refused("shop", 0), CatalogueError::Moving));
        catalogue.end_move(&database, moving).unwrap();
        assert!(catalogue.begin_move("shop", PartitionId(0)).unwrap().is_some());
        close(catalogue);
    }

    /// Folders from different times are refused: one of the partitions is from a backup.
    #[test]
    fn a_partition_from_before_or_after_a_move_is_refused() {
        let disks = disks();
        let catalogue = open(&disks).unwrap();
        let (database, appends) = (shop(&catalogue), Appends::default());
        append(&catalogue, &database, &appends);
        close(catalogue);
        let before = disks.each_ref().map(|disk| Arc::new(disk.fork()));
        let catalogue = open(&disks).unwrap();
        go(&catalogue, 2, &appends);
        close(catalogue);
        for (old, partition) in [(0, 1), (2, 2)] {
            let mut mixed = disks.each_ref().map(|disk| Arc::new(disk.fork()));
            mixed[old] = Arc::new(before[old].fork());
            let refused = open(&mixed).err().unwrap();
            assert!(
                matches!(refused, CatalogueError::NotThere { partition: refused_partition, .. } if refused_partition == partition)
            );
        }
        close(open(&disks).unwrap());
    }

    /// The target's disk is full while rows are copied, while changes are followed, and for the
    /// last of them: the database stays where it was, no rows of it remain at the target, and once
    /// there is room it is moved.
    #[test]
    fn a_full_disk_of_the_target_leaves_the_database_at_the_source() {
        for full_at in 0..3 {
            let disks = disks();
            let catalogue = open(&disks).unwrap();
            let (database, appends) = (shop(&catalogue), Appends::default());
            append(&catalogue, &database, &appends);
            write_rows(&catalogue, &database, 0, 100).unwrap();
            let started_move = catalogue.begin_move("shop", PartitionId(2)).unwrap().unwrap();
            let mut rows = 100;
            let tried = try_to_go(&catalogue, &started_move.0, started_move.1, &mut |step| {
                if step < 2 {
                    append(&catalogue, &database, &appends);
                    write_rows(&catalogue, &database, rows, 100).unwrap();
                    rows += 100;
                }
                if step == full_at {
                    fill(&catalogue, &disks, 2);
                }
            });
            match full_at {
                // Nothing is followed then but the mark of the fence.
                2 => tried.unwrap(),
                _ => {
                    assert!(
                        matches!(tried, Err(DatabaseCopyError::DiskFull)),
                        "at {full_at}: {tried:?}"
                    );
                    catalogue.partitions().engine(PartitionId(1)).unfence(database.id);
                }
            }
            catalogue.end_move(&database, started_move.1).unwrap();
            let place = if full_at == 2 { 2 } else { 1 };
            disks[2].set_capacity(None);
            until_there_is_room(&catalogue, PartitionId(2));
            let catalogue = is_whole(catalogue, &disks, place, &appends, rows as usize);
            let database = catalogue.named("shop").unwrap();
            let (_, moving) = catalogue.begin_move("shop", PartitionId(3 - place)).unwrap().unwrap();
            try_to_go(&catalogue, &database, moving, &mut |_| ()).unwrap();
            catalogue.end_move(&database, moving).unwrap();
            close(is_whole(catalogue, &disks, 3 - place, &appends, rows as usize));
        }
    }

    /// A full disk is a reason to move a database away from it.
    #[test]
    fn a_full_disk_of_the_source_or_the_catalogue_does_not_keep_a_database() {
        for full in [0, 1] {
            let disks = disks();
            let catalogue = open(&disks).unwrap();
            let (database, appends) = (shop(&catalogue), Appends::default());
            append(&catalogue, &database, &appends);
            write_rows(&catalogue, &database, 0, 100).unwrap();
            fill(&catalogue, &disks, full);
            if full == 1 {
                write_rows(&catalogue, &database, 0, 100).unwrap_err();
            }
            let (_, moving) = catalogue.begin_move("shop", PartitionId(2)).unwrap().unwrap();
            try_to_go(&catalogue, &database, moving, &mut |_| ()).unwrap();
            catalogue.end_move(&database, moving).unwrap();
            close(is_whole(catalogue, &disks, 2, &appends, 100));
        }
    }

    /// The source writes more than the retention for readers of its log.
    #[test]
    fn a_log_that_is_trimmed_while_it_is_followed_leaves_the_database_at_the_source() {
        let disks = disks();
        let catalogue = open(&disks).unwrap();
        let (database, appends) = (shop(&catalogue), Appends::default());
        append(&catalogue, &database, &appends);
        let started_move = catalogue.begin_move("shop", PartitionId(2)).unwrap().unwrap();
        let source = catalogue.partitions().engine(PartitionId(1)).clone();
        let tried = try_to_go(&catalogue, &started_move.0, started_move.1, &mut |step| {
            if step == 1 {
                write_rows(&catalogue, &database, 0, 300).unwrap();
                source.checkpoint().unwrap();
                // The flusher trims up to the checkpoint, and counts the reader as lost.
                while source.statistics().log_readers_lost.load(Ordering::SeqCst) == 0 {
                    write_rows(&catalogue, &database, 0, 1).unwrap();
                }
            }
        });
        let is_too_old = matches!(tried, Err(DatabaseCopyError::Log(LogReadError::TooOld { .. })));
        assert!(is_too_old, "{tried:?}");
        drop(source);
        catalogue.end_move(&database, started_move.1).unwrap();
        let catalogue = is_whole(catalogue, &disks, 1, &appends, 300);
        let database = catalogue.named("shop").unwrap();
        let (_, moving) = catalogue.begin_move("shop", PartitionId(2)).unwrap().unwrap();
        try_to_go(&catalogue, &database, moving, &mut |_| ()).unwrap();
        catalogue.end_move(&database, moving).unwrap();
        close(is_whole(catalogue, &disks, 2, &appends, 300));
    }

    /// The clock is set back before each step of a move, and over the restart after it.
    #[test]
    fn versions_ascend_when_the_clock_is_set_back_during_a_move() {
        let disks = disks();
        let clock = Arc::new(ManualClock::new(NOW));
        let catalogue = open_at(&disks, clock.clone()).unwrap();
        let (database, appends) = (shop(&catalogue), Appends::default());
        append(&catalogue, &database, &appends);
        for (round, to) in [2, 0, 1].into_iter().enumerate() {
            let (_, moving) = catalogue.begin_move("shop", PartitionId(to)).unwrap().unwrap();
            try_to_go(&catalogue, &database, moving, &mut |step| {
                clock.set(NOW - HOUR * (3 * round + step + 1) as u64);
                if step < 2 {
                    append(&catalogue, &database, &appends);
                }
            })
            .unwrap();
            append(&catalogue, &database, &appends);
            catalogue.end_move(&database, moving).unwrap();
            append(&catalogue, &database, &appends);
        }
        // Opened at the start time, and then a day before.
        let catalogue = is_whole(catalogue, &disks, 1, &appends, 0);
        close(catalogue);
        let catalogue = open_at(&disks, Arc::new(ManualClock::new(NOW - 24 * HOUR))).unwrap();
        close(is_whole(catalogue, &disks, 1, &appends, 0));
    }

    /// Power fails again at a sync of the start after a power cut.
    fn cut_while_opening(disks: &Disks) {
        let cuts = Arc::<Mutex<Vec<[FaultyDisk; 3]>>>::default();
        let opened = disks.each_ref().map(|disk| Arc::new(disk.fork()));
        for disk in &opened {
            let (opened, cuts) = (opened.clone(), cuts.clone());
            disk.before_syncs(Arc::new(move || {
                cuts.lock().push(opened.each_ref().map(|disk| disk.fork()));
            }));
        }
        let find = |catalogue: Catalogue| {
            let database = catalogue.named("shop").unwrap();
            let lists = [0, 1, 2].map(|partition| list(&catalogue, partition, database.id));
            let state = (database.partition(), database.moves(), lists);
            assert!(!catalogue.is_moving(database.id));
            close(catalogue);
            state
        };
        let expected = find(open(&opened).unwrap());
        opened.iter().for_each(|disk| disk.before_syncs(Arc::new(|| ())));
        for (number, cut) in std::mem::take(&mut *cuts.lock()).iter().enumerate() {
            let forks = cut.each_ref().map(|disk| {
                disk.before_syncs(Arc::new(|| ()));
                disk.crash_keeping_some(number as u64);
                Arc::new(disk.clone())
            });
            assert_eq!(find(open(&forks).unwrap()), expected, "at sync {number} of the start");
        }
    }

    /// Power fails at any sync of any disk during a move and a move back, and each disk keeps a
    /// random part of its unsynced data.
    #[test]
    fn after_a_power_cut_a_database_is_in_one_place_with_all_that_was_acknowledged() {
        type Cut = ([FaultyDisk; 3], u8);
        let (disks, cuts) = (disks(), Arc::<Mutex<Vec<Cut>>>::default());
        let catalogue = open(&disks).unwrap();
        let (database, appends) = (shop(&catalogue), Arc::<Appends>::default());
        for disk in &disks {
            let (disks, cuts, appends) = (disks.clone(), cuts.clone(), appends.clone());
            disk.before_syncs(Arc::new(move || {
                let acknowledged = appends.next.load(Ordering::SeqCst);
                cuts.lock()
                    .push((disks.each_ref().map(|disk| disk.fork()), acknowledged));
            }));
        }
        go(&catalogue, 2, &appends);
        go(&catalogue, 1, &appends);
        disks.iter().for_each(|disk| disk.before_syncs(Arc::new(|| ())));
        close(catalogue);
        let cuts = std::mem::take(&mut *cuts.lock());
        let mut places = std::collections::BTreeSet::new();
        for (number, (cut, acknowledged)) in cuts.iter().enumerate() {
            for seed in 0..3 {
                let forks = cut.each_ref().map(|disk| {
                    let disk = disk.fork();
                    disk.before_syncs(Arc::new(|| ()));
                    disk.crash_keeping_some(seed);
                    Arc::new(disk)
                });
                if seed == 0 {
                    cut_while_opening(&forks);
                }
                let partitions = partitions(&forks, Arc::new(ManualClock::new(NOW)));
                assert!(having(&partitions, database.id).len() <= 1, "cut {number}, seed {seed}");
                let catalogue = open_over(&partitions).unwrap();
                drop(partitions);
                let reopened = catalogue.numbered(database.id).unwrap();
                assert_eq!(having(catalogue.partitions(), database.id), [reopened.partition()]);
                let lists = [0, 1, 2].map(|partition| list(&catalogue, partition, database.id));
                let context = format!("cut {number}, seed {seed}: {lists:?} in {:?}", reopened.partition());
                for (partition, list) in lists.iter().enumerate() {
                    let expected: Vec<u8> = (0..list.len() as u8).collect();
                    assert_eq!(*list, expected, "{context}");
                    match reopened.partition() == PartitionId(partition as u32) {
                        true => assert!(
                            list.len() >= usize::from(*acknowledged),
                            "{context}, {acknowledged} were"
                        ),
                        false => assert!(list.is_empty(), "{context}"),
                    }
                }
                assert!(!catalogue.is_moving(database.id), "{context}");
                places.insert((reopened.partition(), reopened.moves()));
                close(catalogue);
            }
        }
        let expected = [(PartitionId(1), 0), (PartitionId(1), 2), (PartitionId(2), 1)];
        assert_eq!(places.into_iter().collect::<Vec<_>>(), expected);
    }
}
