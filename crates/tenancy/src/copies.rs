//! The definition of a database as the database's own partition has it.
//!
//! ```text
//!   'C' id   in the partition that has the database, unless that is the first: the definition, as JSON
//! ```
//!
//! The catalogue decides. A change is durable there, then in the database's partition, and only
//! then is it answered. So a partition's own log determines which credentials its databases accept,
//! their quotas, and which databases have left; no request needs a second log. Before a database is
//! in another partition, the row in its previous partition marks it as absent: at no time do two
//! partitions claim it.
//!
//! Each change carries the number of its step (`pushes`). An outdated row belongs to a change
//! without an answer, or to a folder from a backup; the next start rewrites it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::{Durability, PartitionId, Role};
use quartet_model::Version;

use crate::catalogue::{Catalogue, Database, Seen};
use crate::definition::Definition;
use crate::pushes::{Push, TAKEN, take, taken};
use crate::rows::{COPY, CatalogueError, json, space};

/// Most definitions in one push, which has to fit a log record.
const DEFINITIONS_AT_ONCE: usize = 500;

impl Catalogue {
    /// Gives a partition a push.
    pub(crate) fn push(&self, partition: PartitionId, number: u64, push: &Push) -> Result<(), CatalogueError> {
        match self.seen() {
            Seen::Apart(homes) => homes.push(partition, number, &push.bytes()),
            _ => take(partition, self.partitions().engine(partition), number, push),
        }
    }

    /// Gives a partition a push that is a step of its own.
    pub(crate) fn push_step(&self, partition: PartitionId, push: &Push) -> Result<(), CatalogueError> {
        self.push(partition, self.next_number()?, push)
    }

    /// The number of a step that changes nothing in the first partition.
    pub(crate) fn next_number(&self) -> Result<u64, CatalogueError> {
        let mut number = 0;
        self.write(|tx| {
            number = tx.commit_version().0;
            tx.set(TAKEN, &number.to_be_bytes());
        })?;
        Ok(number)
    }

    /// Pushes the database's definition to its partition. If that fails, the push is pending until
    /// [`Catalogue::tell_again`].
    pub(crate) fn tell(&self, database: &Database) -> Result<(), CatalogueError> {
        let (id, partition) = (database.id.0, database.partition());
        if partition == PartitionId(0) {
            return Ok(());
        }
        let definition = database.definition();
        let result = self.push(partition, definition.revision, &Push::of(id, Some(&definition)));
        if result.is_err() {
            self.untold.lock().insert(partition);
        }
        result
    }

    /// Gives partitions the definitions that they could not be given when those were changed.
    /// Called about once a second.
    pub fn tell_again(&self) -> Result<(), CatalogueError> {
        let untold = std::mem::take(&mut *self.untold.lock());
        let mut result = Ok(());
        for partition in untold {
            if let Err(error) = self.settle_copies(partition) {
                self.untold.lock().insert(partition);
                result = Err(error);
            }
        }
        result
    }

    /// Requests a commit from a home on another node, after everything that it has acknowledged.
    /// Returns the push's number, for [`Catalogue::has_caught_up`].
    pub fn mark(&self, partition: PartitionId) -> Result<u64, CatalogueError> {
        let _changing = self.changing.lock();
        let number = self.next_number()?;
        self.push(partition, number, &Push::Fence)?;
        Ok(number)
    }

    /// Returns true once this process' replica of the partition has that commit.
    pub fn has_caught_up(&self, partition: PartitionId, number: u64) -> Result<bool, CatalogueError> {
        Ok(taken(self.partitions().engine(partition))? >= number)
    }

    /// From now on no partition takes what was pushed before.
    pub(crate) fn fence(&self) -> Result<(), CatalogueError> {
        let _changing = self.changing.lock();
        if let Seen::Together = self.seen() {
            // A folder from another time may have taken later numbers.
            for (_, engine) in self.partitions().iter().skip(1) {
                self.engine().land_above(Version(taken(engine)?))?;
            }
            if self.engine().role() == Role::Alone {
                return Ok(());
            }
        }
        let partitions = self.partitions().iter().skip(1).map(|(partition, _)| partition);
        for partition in partitions {
            self.push_step(partition, &Push::Fence)?;
        }
        Ok(())
    }

    /// Gives each partition the definitions of its databases.
    pub(crate) fn settle_all_copies(&self) -> Result<(), CatalogueError> {
        let mut behind_first = self.partitions().iter().skip(1);
        behind_first.try_for_each(|(partition, _)| self.settle_copies(partition))
    }

    /// Gives a partition exactly the definitions of its databases.
    pub(crate) fn settle_copies(&self, partition: PartitionId) -> Result<(), CatalogueError> {
        if partition == PartitionId(0) {
            return Ok(());
        }
        let _changing = self.changing.lock();
        let databases = self.list().into_iter();
        let databases: Vec<_> = databases.filter(|database| database.partition() == partition).collect();
        if let Seen::Together = self.seen()
            && self.is_told(partition, &databases)?
        {
            return Ok(());
        }
        let mut first = 0;
        let mut chunks = databases.chunks(DEFINITIONS_AT_ONCE).peekable();
        loop {
            let chunk = chunks.next().unwrap_or_default();
            let last = match (chunk.last(), chunks.peek()) {
                (Some(last), Some(_)) => last.id.0,
                _ => u16::MAX,
            };
            let definitions = chunk
                .iter()
                .map(|database| (database.id.0, Definition::clone(&database.definition())));
            let definitions = definitions.collect();
            self.push_step(
                partition,
                &Push::Exactly {
                    first,
                    last,
                    definitions,
                },
            )?;
            if last == u16::MAX {
                break;
            }
            first = last + 1;
        }
        if self.is_elsewhere(partition) {
            self.index_anew(&databases);
        }
        Ok(())
    }

    /// Returns true if a partition here has these definitions and no others.
    fn is_told(&self, partition: PartitionId, databases: &[Arc<Database>]) -> Result<bool, CatalogueError> {
        let copies = self.copies(partition)?;
        let is_kept = |database: &Arc<Database>| {
            let definition = json(&*database.definition());
            copies.get(&database.id.0) == Some(&definition)
        };
        Ok(copies.len() == databases.len() && databases.iter().all(is_kept))
    }

    /// The rows of a partition here, by database.
    fn copies(&self, partition: PartitionId) -> Result<BTreeMap<u16, Vec<u8>>, CatalogueError> {
        let reader = self.partitions().engine(partition).reader(space(Durability::Always))?;
        let mut copies = BTreeMap::new();
        reader.scan(&[COPY], &[COPY + 1], false, &mut |key, value| {
            if let Some(id) = key[1..].try_into().ok().map(u16::from_be_bytes) {
                copies.insert(id, value.to_vec());
            }
            ControlFlow::Continue(())
        });
        match reader.is_unreadable() {
            true => Err(CatalogueError::Unreadable),
            false => Ok(copies),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use parking_lot::Mutex;
    use quartet_engine::{BriefWaits, Engine, EngineOptions, Parts};
    use quartet_env::{FaultyDisk, ManualClock};
    use quartet_log::FileLogOptions;

    use super::*;
    use crate::Partitions;
    use crate::rows::{row, write};

    type Disks = [Arc<FaultyDisk>; 2];

    fn engines(disks: &Disks) -> Arc<Partitions> {
        let engine = |disk: &Arc<FaultyDisk>| {
            let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
            let clock = Arc::new(ManualClock::new(1_753_000_000_000_000));
            let parts = Parts::with_file_log(disk.clone(), clock, FileLogOptions::default());
            Arc::new(Engine::open_with(parts, EngineOptions::default(), failure, &mut |_| {}).unwrap())
        };
        Arc::new(Partitions::new(disks.iter().map(engine).collect()))
    }

    fn open(partitions: Arc<Partitions>) -> Catalogue {
        let random = AtomicU8::new(1);
        let random = move |bytes: &mut [u8]| bytes.fill(random.fetch_add(1, Ordering::Relaxed));
        Catalogue::open(partitions, Box::new(random)).unwrap()
    }

    fn close(catalogue: Catalogue) {
        for engine in Arc::into_inner(catalogue.into_partitions()).unwrap().into_engines() {
            Arc::into_inner(engine).unwrap().close().unwrap();
        }
    }

    fn definition(name: &str) -> Definition {
        Definition::new(name, Durability::Always)
    }

    /// The definition as the second partition has it.
    fn kept(partitions: &Partitions) -> Option<Definition> {
        let reader = partitions
            .engine(PartitionId(1))
            .reader(space(Durability::Always))
            .unwrap();
        let mut definitions = Vec::new();
        reader.scan(&[COPY], &[COPY + 1], false, &mut |_, value| {
            definitions.push(serde_json::from_slice(value).unwrap());
            ControlFlow::Continue(())
        });
        assert!(definitions.len() <= 1);
        definitions.pop()
    }

    fn found(catalogue: &Catalogue) -> Vec<String> {
        let invariants: Vec<Box<dyn quartet_engine::Invariants>> = vec![Box::<crate::CatalogueInvariants>::default()];
        let engines = catalogue.partitions().iter();
        let findings = engines.flat_map(|(_, engine)| engine.judge(&invariants).unwrap().kept);
        findings.map(|finding| finding.what).collect()
    }

    /// Power fails at any sync of either disk, and each keeps a random part of its unsynced data.
    #[test]
    fn a_partition_has_each_answered_change_and_loses_none_in_a_power_cut() {
        let disks: Disks = [(); 2].map(|()| Arc::new(FaultyDisk::new()));
        let (cuts, answered) = (
            Arc::<Mutex<Vec<_>>>::default(),
            Arc::<Mutex<Option<Definition>>>::default(),
        );
        let catalogue = open(engines(&disks));
        for disk in &disks {
            let (disks, cuts, answered) = (disks.clone(), cuts.clone(), answered.clone());
            disk.before_syncs(Arc::new(move || {
                let cut = disks.each_ref().map(|disk| disk.fork());
                cuts.lock().push((cut, answered.lock().clone()));
            }));
        }
        let note = |catalogue: &Catalogue| {
            let decided = Definition::clone(&catalogue.named("shop").unwrap().definition());
            assert_eq!(
                (decided.partition, kept(catalogue.partitions())),
                (1, Some(decided.clone()))
            );
            assert_eq!(found(catalogue), Vec::<String>::new());
            *answered.lock() = Some(decided);
        };
        catalogue.create(definition("shop")).unwrap();
        note(&catalogue);
        catalogue.renew_credentials("shop").unwrap();
        note(&catalogue);
        let change = |definition: &mut Definition| definition.quotas.request_bytes = Some(10);
        catalogue.change("shop", change).unwrap();
        note(&catalogue);
        let closed = catalogue.close("shop").unwrap();
        note(&catalogue);
        // It may go from now on.
        *answered.lock() = None;
        catalogue.forget(&closed).unwrap();
        assert_eq!(kept(catalogue.partitions()), None);
        disks.iter().for_each(|disk| disk.before_syncs(Arc::new(|| ())));
        close(catalogue);
        let cuts = std::mem::take(&mut *cuts.lock());
        let mut behind = 0;
        for (number, (cut, answered)) in cuts.iter().enumerate() {
            for seed in 0..4 {
                let disks = cut.each_ref().map(|disk| {
                    let disk = disk.fork();
                    disk.before_syncs(Arc::new(|| ()));
                    disk.crash_keeping_some(seed);
                    Arc::new(disk)
                });
                let partitions = engines(&disks);
                let before = kept(&partitions);
                if let Some(answered) = answered {
                    let definition = before.as_ref().expect("it was answered");
                    assert!(definition.revision >= answered.revision, "cut {number}, seed {seed}");
                }
                let catalogue = open(partitions);
                let decided = catalogue
                    .list()
                    .first()
                    .map(|database| Definition::clone(&database.definition()));
                behind += usize::from(before != decided);
                assert_eq!(kept(catalogue.partitions()), decided, "cut {number}, seed {seed}");
                close(catalogue);
            }
        }
        assert!(behind > 0, "power went between the two logs");
    }

    /// Something keeps the partition while its databases change.
    #[test]
    fn a_failed_push_to_a_partition_is_retried() {
        let catalogue = open(engines(&[(); 2].map(|()| Arc::new(FaultyDisk::new()))));
        catalogue.create(definition("shop")).unwrap();
        catalogue.create(definition("news")).unwrap();
        let change = |definition: &mut Definition| definition.quotas.request_bytes = Some(10);
        let decided = || Definition::clone(&catalogue.named("shop").unwrap().definition());
        let kept_by = catalogue.partitions().engine(PartitionId(1)).partition();
        let brief = BriefWaits::begin();
        // On a busy machine the flusher of the first may keep that for a moment too: then nothing
        // is decided yet.
        let before = decided().revision;
        while decided().revision == before {
            assert!(matches!(catalogue.change("shop", change), Err(CatalogueError::Busy(_))));
        }
        while catalogue.unfinished().is_empty() {
            assert!(matches!(
                catalogue.create(definition("mail")),
                Err(CatalogueError::Busy(_))
            ));
        }
        catalogue.tell_again().unwrap_err();
        drop((brief, kept_by));
        assert!(kept(catalogue.partitions()).unwrap().revision < decided().revision);
        catalogue.tell_again().unwrap();
        // The database that could not be created is being deleted, and its name is free then.
        let unfinished = catalogue.unfinished();
        assert_eq!(unfinished.len(), 1);
        catalogue.forget(&unfinished[0]).unwrap();
        assert_eq!(kept(catalogue.partitions()), Some(decided()));
        assert_eq!(
            catalogue.create(definition("mail")).unwrap().0.partition(),
            PartitionId(1)
        );
        close(catalogue);
    }

    /// One of the folders is from a backup, or from before partitions knew of their databases.
    #[test]
    fn folders_of_different_times_agree_after_the_next_start() {
        let disks: Disks = [(); 2].map(|()| Arc::new(FaultyDisk::new()));
        let catalogue = open(engines(&disks));
        let (database, _) = catalogue.create(definition("shop")).unwrap();
        close(catalogue);
        let old = disks.each_ref().map(|disk| Arc::new(disk.fork()));
        let catalogue = open(engines(&disks));
        catalogue.renew_credentials("shop").unwrap();
        close(catalogue);
        let mixed = [[&old[0], &disks[1]], [&disks[0], &old[1]]];
        for disks in mixed {
            let disks = disks.map(|disk| Arc::new(disk.fork()));
            for _ in 0..2 {
                let catalogue = open(engines(&disks));
                let decided = catalogue.named("shop").unwrap().definition();
                assert_eq!(kept(catalogue.partitions()).as_ref(), Some(&*decided));
                close(catalogue);
            }
        }
        let catalogue = open(engines(&disks));
        let second = catalogue.partitions().engine(PartitionId(1));
        write(second, |tx| drop(tx.clear(&row(COPY, database.id.0)))).unwrap();
        close(catalogue);
        let catalogue = open(engines(&disks));
        assert!(kept(catalogue.partitions()).is_some());
        let second = catalogue.partitions().engine(PartitionId(1));
        write(second, |tx| drop(tx.set(&row(COPY, 99), b"of no database"))).unwrap();
        assert_eq!(found(&catalogue).len(), 1);
        close(catalogue);
        let catalogue = open(engines(&disks));
        assert_eq!(found(&catalogue), Vec::<String>::new());
        close(catalogue);
    }
}
