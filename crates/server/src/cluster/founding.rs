//! A new cluster from the data of a folder: a server's own data, a restored backup, or converted
//! data.
//!
//! ```text
//! DATA/founding     what is to be founded (`quartet_log_replicated::Founding`), until it is done
//!
//! states of all partitions --> DATA/founding --> one transaction at etcd --> founding records in
//! the file logs --> DATA/cluster-id --> DATA/founding removed
//! ```
//!
//! The process may be killed at each arrow: the next start continues after it. A folder with data
//! is refused if there is a cluster already, because its history would be a different one.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use quartet_engine::{Founder, StoreKind};
use quartet_log_replicated::drive::{self, ask};
use quartet_log_replicated::{ClusterId, FOUNDED_PARTITIONS_MAX, Founding, PartitionId, Place, Sequencer, Writer};

use super::identity::OpenParts;
use super::members::now_us;
use super::{copying, ending, identity};
use crate::process::system::random;
use crate::settings::ClusterSettings;

const FOUNDING: &str = "founding";

/// A folder that may hold data of no cluster.
pub struct Folder<'f> {
    /// The data folder.
    pub data: &'f Path,
    /// Those of its partitions.
    pub partitions: &'f [PathBuf],
    /// Opens one of them.
    pub parts: &'f OpenParts<'f>,
    /// The engine of a partition that has no files.
    pub kind: Option<StoreKind>,
}

impl Folder<'_> {
    /// Founds a cluster with the folder's data, or continues an unfinished founding. Returns its
    /// first partition; `None` if the folder has no data, or belongs to a node. Every step is
    /// idempotent.
    ///
    /// Errors: there is a cluster already.
    pub fn found(&self, sequencer: &mut dyn Sequencer, settings: &ClusterSettings) -> Result<Option<Place>> {
        if let Some(founding) = self.begun()? {
            return self.go_on(sequencer, settings, &founding).map(Some);
        }
        if identity::of(self.data)?.is_some() || self.is_empty()? {
            return Ok(None);
        }
        let founders = self.founders()?;
        if !founders.iter().any(Founder::has_data) {
            return Ok(None);
        }
        if let Some(there) = drive::cluster(sequencer, &settings.root).context("log")? {
            bail!(self.refusal(&settings.root, there.cluster));
        }
        ensure!(
            founders.len() <= FOUNDED_PARTITIONS_MAX as usize,
            "partitions: a folder that holds data founds a cluster of at most {FOUNDED_PARTITIONS_MAX}"
        );
        let states = founders.iter().map(Founder::state).collect::<Result<Vec<_>, _>>()?;
        let founder = Writer {
            node: settings.node(),
            incarnation: random() as u64,
        };
        let founding = Founding::new(ClusterId(random()), founder, &states, now_us());
        let founding = founding.after(ending::left(self.data)?);
        self.begin(&founding)?;
        self.end(sequencer, settings, &founding, founders).map(Some)
    }

    fn is_empty(&self) -> Result<bool> {
        for folder in self.partitions {
            if !copying::is_needed(folder)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn founders(&self) -> Result<Vec<Founder>> {
        let mut founders: Vec<Founder> = Vec::new();
        for folder in self.partitions {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            // A partition that is made now has the engine of the others.
            let kind = self.kind.or(founders.first().map(Founder::kind));
            let founder = Founder::open((self.parts)(folder)?, kind);
            founders.push(founder.with_context(|| format!("opening {}", folder.display()))?);
        }
        Ok(founders)
    }

    fn refusal(&self, root: &str, there: ClusterId) -> String {
        format!(
            "data: {} holds data that is of no cluster, and etcd holds cluster {:032x} below {root}: a folder with data \
             founds a cluster where none is (give --log another root), and an empty one joins",
            self.data.display(),
            there.0
        )
    }

    /// Continues the founding of a killed process. The folder must be unchanged.
    fn go_on(&self, sequencer: &mut dyn Sequencer, settings: &ClusterSettings, founding: &Founding) -> Result<Place> {
        let founders = self.founders()?;
        let partitions = founding.place(&settings.root).partitions();
        ensure!(
            founders.len() == partitions as usize,
            "partitions: {} began to found a cluster of {partitions}: start with --partitions {partitions} or without it",
            self.data.display()
        );
        for ((partition, founder), state) in (0..).map(PartitionId).zip(&founders).zip(founding.states()) {
            let (position, _) = founding.position(partition);
            ensure!(
                founder.has_founded(&position) || founder.state()? == state,
                "data: {} began to found a cluster and has changed since: remove the file `{FOUNDING}` in it, and give \
                 --log another root",
                self.data.display()
            );
        }
        self.end(sequencer, settings, founding, founders)
    }

    fn end(
        &self,
        sequencer: &mut dyn Sequencer,
        settings: &ClusterSettings,
        founding: &Founding,
        founders: Vec<Founder>,
    ) -> Result<Place> {
        let place = founding.place(&settings.root);
        let answer = ask(sequencer, founding.request(&settings.root)).context("log")?;
        if !founding.is_founded(&answer) {
            let mut positions = (0..).map(|partition| founding.position(PartitionId(partition)).0);
            let is_begun = founders
                .iter()
                .any(|founder| positions.next().is_some_and(|position| founder.has_founded(&position)));
            // Nothing of it is anywhere else.
            if !is_begun {
                self.forget()?;
            }
            let there = drive::cluster(sequencer, &settings.root).context("log")?;
            bail!(self.refusal(&settings.root, there.map_or(ClusterId(0), |there| there.cluster)));
        }
        for (partition, founder) in (0..).map(PartitionId).zip(founders) {
            let (position, floor) = founding.position(partition);
            founder.found(&position, floor)?;
        }
        identity::keep(self.data, place.cluster)?;
        self.forget()?;
        ending::forget_left(self.data)?;
        tracing::info!(
            cluster = format!("{:032x}", place.cluster.0),
            "founded a cluster with the data of this folder"
        );
        Ok(place)
    }

    // ---- the file

    fn begun(&self) -> Result<Option<Founding>> {
        let path = self.data.join(FOUNDING);
        match fs::read(&path) {
            Ok(bytes) => {
                let founding = Founding::decode(&bytes);
                let founding = founding.with_context(|| format!("{} cannot be read", path.display()))?;
                Ok(Some(founding))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    fn begin(&self, founding: &Founding) -> Result<()> {
        let (path, new) = (self.data.join(FOUNDING), self.data.join("founding.new"));
        let write = || {
            fs::write(&new, founding.encode())?;
            fs::File::open(&new)?.sync_all()?;
            fs::rename(&new, &path)?;
            fs::File::open(self.data)?.sync_all()
        };
        write().with_context(|| format!("writing {}", path.display()))
    }

    fn forget(&self) -> Result<()> {
        let path = self.data.join(FOUNDING);
        let remove = || {
            fs::remove_file(&path)?;
            fs::File::open(self.data)?.sync_all()
        };
        remove().with_context(|| format!("removing {}", path.display()))
    }
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;

    use quartet_engine::{Durability, Engine, EngineOptions, OwnLog, Parts, Space};
    use quartet_env::{Fault, FaultyDisk, ManualClock, Operation};
    use quartet_log_replicated::model::Store;
    use quartet_log_replicated::{Answer, Request, TermValue};
    use quartet_model::{DatabaseId, LayerId};
    use tempfile::TempDir;

    use super::*;
    use crate::cluster::killed::UntilKilled;

    pub const ROWS: u8 = 20;

    /// All that outlives a process: etcd, and the node's folder and disk.
    pub struct Outside {
        pub etcd: Store,
        pub folder: TempDir,
        pub disk: FaultyDisk,
    }

    pub fn parts_on(disk: &FaultyDisk) -> Parts {
        Parts::on_one_machine(Arc::new(disk.clone()), Arc::new(ManualClock::new(1)))
    }

    impl Outside {
        /// A server's data, each row a record, and an etcd with nothing.
        pub fn new() -> Outside {
            let (folder, disk) = (tempfile::tempdir().unwrap(), FaultyDisk::new());
            fs::write(folder.path().join("data"), "").unwrap();
            let options = EngineOptions {
                store: Some(StoreKind::Memory),
                ..EngineOptions::default()
            };
            let engine = Engine::open_with(parts_on(&disk), options, Box::new(|_| {}), &mut |_| {}).unwrap();
            let space = Space {
                database: DatabaseId(1),
                layer: LayerId::KeyValue,
                durability: Durability::Always,
            };
            for row in 0..ROWS {
                let set = engine
                    .partition()
                    .execute(space, |tx| Ok::<_, std::convert::Infallible>(tx.set(&[row], b"value")));
                assert!(engine.wait_durable(set.unwrap().1));
            }
            engine.close().unwrap();
            Outside {
                etcd: Store::default(),
                folder,
                disk,
            }
        }

        /// One start. Returns how many requests it has sent.
        pub fn found(&mut self, executes: usize, answers: usize) -> (Result<Option<Place>>, usize) {
            let mut sequencer = UntilKilled::new(&mut self.etcd, executes, answers);
            let partitions = [self.folder.path().to_owned()];
            let folder = Folder {
                data: self.folder.path(),
                partitions: &partitions,
                parts: &|_| Ok(parts_on(&self.disk)),
                kind: Some(StoreKind::Memory),
            };
            let found = folder.found(&mut sequencer, &ClusterSettings::for_test("a"));
            (found, sequencer.sent())
        }

        pub fn crash(&mut self) {
            self.disk.clear_faults();
            self.disk = self.disk.fork();
            self.disk.crash();
        }

        pub fn get(&mut self, key: Vec<u8>) -> Option<Vec<u8>> {
            let mut sequencer = UntilKilled::new(&mut self.etcd, usize::MAX, usize::MAX);
            match ask(&mut sequencer, Request::Get { key }).unwrap() {
                Answer::Value(value) => value,
                _ => None,
            }
        }

        /// The next start founds the cluster, and the folder is a node's that ends with its record.
        fn goes_on(mut self, case: &str) {
            self.crash();
            let (found, _) = self.found(usize::MAX, usize::MAX);
            let place = found.unwrap_or_else(|error| panic!("{case}: {error:#}"));
            let kept = identity::of(self.folder.path()).unwrap();
            let place = place.unwrap_or_else(|| Place::new("/test", kept.expect(case), PartitionId(0)));
            assert_eq!(kept, Some(place.cluster), "{case}");
            assert!(!self.folder.path().join(FOUNDING).exists(), "{case}");
            self.crash();
            let log = OwnLog::open(parts_on(&self.disk), Some(StoreKind::Memory), &place).unwrap();
            let term = self.get(place.term_key()).unwrap_or_else(|| panic!("{case}: no term"));
            let term = TermValue::decode(&term).unwrap();
            assert_eq!(
                (log.position().sequence, log.position().hash),
                (term.sequence, term.hash),
                "{case}"
            );
            assert_eq!(log.tail().0, u64::from(ROWS) + 1, "{case}");
        }
    }

    #[test]
    fn a_founding_that_is_killed_at_any_step_continues() {
        let (founded, requests) = Outside::new().found(usize::MAX, usize::MAX);
        assert!(founded.unwrap().is_some());
        assert_eq!(requests, 2, "what there is, and the cluster");
        for answered in 0..requests {
            for executed in [answered, answered + 1] {
                let mut outside = Outside::new();
                assert!(outside.found(executed, answered).0.is_err());
                outside.goes_on(&format!("{executed} executed, {answered} answered"));
            }
        }
        for operation in [Operation::Write, Operation::Sync] {
            for nth in 1.. {
                let mut outside = Outside::new();
                outside.disk.fail(operation, nth, Fault::Error);
                let (founded, _) = outside.found(usize::MAX, usize::MAX);
                if outside.disk.fault_pending() {
                    break;
                }
                if founded.is_err() {
                    outside.goes_on(&format!("{operation:?} {nth}"));
                }
            }
        }
    }

    #[test]
    fn data_is_refused_where_another_cluster_is() {
        let (mut first, mut second) = (Outside::new(), Outside::new());
        let founded = first.found(usize::MAX, usize::MAX).0.unwrap();
        assert!(founded.is_some());
        // The other node starts to found, and its request is too late.
        assert!(second.found(1, 1).0.is_err());
        assert!(second.folder.path().join(FOUNDING).exists());
        second.etcd = first.etcd;
        for _ in 0..2 {
            let refused = second.found(usize::MAX, usize::MAX).0.unwrap_err().to_string();
            assert!(refused.contains("holds data that is of no cluster"), "{refused}");
            assert!(!second.folder.path().join(FOUNDING).exists());
        }
    }

    #[test]
    fn a_changed_folder_does_not_complete_its_founding() {
        let mut outside = Outside::new();
        assert!(outside.found(1, 1).0.is_err());
        let other = Outside::new();
        fs::copy(outside.folder.path().join(FOUNDING), other.folder.path().join(FOUNDING)).unwrap();
        let engine = Engine::open_with(
            parts_on(&other.disk),
            EngineOptions::default(),
            Box::new(|_| {}),
            &mut |_| {},
        );
        let engine = engine.unwrap();
        let space = Space {
            database: DatabaseId(1),
            layer: LayerId::KeyValue,
            durability: Durability::Always,
        };
        let set = engine
            .partition()
            .execute(space, |tx| Ok::<_, std::convert::Infallible>(tx.set(b"more", b"value")));
        assert!(engine.wait_durable(set.unwrap().1));
        engine.close().unwrap();
        outside.disk = other.disk;
        let refused = outside.found(usize::MAX, usize::MAX).0.unwrap_err().to_string();
        assert!(refused.contains("has changed since"), "{refused}");
    }
}
