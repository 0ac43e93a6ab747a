//! A new cluster from this node's folder, after etcd has lost the node's cluster or was restored to
//! an older state. For a stopped node.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use quartet_engine::OwnLog;
use quartet_log_etcd::Etcd;
use quartet_log_replicated::copies;
use quartet_log_replicated::drive::{self, DriveError, ask};
use quartet_log_replicated::{
    Adoption, Answer, ClusterId, Failure, Follower, PartitionId, Place, Sequencer, StopReason, Writer, cluster_of,
};
use quartet_model::{LogSequence, Version};

use super::identity::{self, OpenParts, of_partition};
use super::members::now_us;
use super::object_store::EtcdWithStore;
use super::{ending, founding};
use crate::partition_folders::partition_folders;
use crate::process::system::random;
use crate::settings::{ClusterSettings, Settings};

/// The origin of a new cluster.
#[derive(Clone, Debug)]
pub struct AdoptedCluster {
    /// The new cluster's id.
    pub cluster: String,
    /// The id of the cluster that it continues the history of.
    pub from: String,
    /// The last record of that history which is kept, of each partition.
    pub lasts: Vec<u64>,
    /// The new term.
    pub term: u64,
}

/// The number of attempts of a request without an answer.
const TRIES: u32 = 20;

/// Creates a new cluster from the data in the folder of this node, `from`. `accepts_loss`: even if
/// other nodes have more records, or etcd's log has grown without this node.
pub fn adopt(settings: &Settings, from: &str, accepts_loss: bool, parts: &OpenParts<'_>) -> Result<AdoptedCluster> {
    let cluster = settings.cluster.as_ref().context("log: give etcd://HOST:PORT/ROOT")?;
    cluster.check(settings)?;
    ensure!(
        from == cluster.node_name,
        "node-name: these are the settings of {}, not of {from}",
        cluster.node_name
    );
    let folder = settings.storage.data.folder().context("data: a node has a folder")?;
    let partitions = partition_folders(folder)?;
    let own = match (identity::of(folder)?, ending::left(folder)?) {
        (Some(own), _) => own,
        (None, Some(origin)) if partitions.len() > 1 => origin.from,
        _ => bail!("{} is of no cluster", folder.display()),
    };
    let etcd = Etcd::open(&cluster.etcd).context("log")?;
    let mut sequencer = EtcdWithStore::new(etcd, cluster.store.as_deref(), own, Arc::new(|| {}))?;
    if partitions.len() > 1 {
        let several = Several {
            settings: cluster,
            data: folder,
            partitions: &partitions,
            parts,
            accepts_loss,
        };
        return several.adopt(&mut sequencer, own);
    }
    let lost = Place::new(&cluster.root, own, PartitionId(0));
    let log = OwnLog::open(parts(folder)?, None, &lost)?;
    go_on(&mut sequencer, cluster, &lost, log, accepts_loss, |id| {
        identity::keep(folder, id)
    })
}

/// The process may be killed after any step: the next adoption continues from that state.
fn go_on(
    sequencer: &mut dyn Sequencer,
    settings: &ClusterSettings,
    lost: &Place,
    log: OwnLog,
    accepts_loss: bool,
    keep: impl FnOnce(ClusterId) -> Result<()>,
) -> Result<AdoptedCluster> {
    let case = Case {
        settings,
        lost,
        log: &log,
        accepts_loss,
    };
    case.judge_others(sequencer)?;
    let last = case.make_room(sequencer)?.unwrap_or(log.tail());
    begin(sequencer, settings, lost, last, log, keep)
}

struct Case<'c> {
    settings: &'c ClusterSettings,
    /// The cluster that the folder is of.
    lost: &'c Place,
    log: &'c OwnLog,
    accepts_loss: bool,
}

impl Case<'_> {
    /// Refuses if a node is seen that has more.
    fn judge_others(&self, sequencer: &mut dyn Sequencer) -> Result<()> {
        let reports = ask(sequencer, copies::reports_request(self.lost)).context("log")?;
        let has = self.log.position().sequence;
        let me = self.settings.node();
        let partition = self.lost.partition;
        for (node, report) in copies::reports(self.lost, &reports) {
            let mut reached = report.partitions.iter();
            let reached = reached.find(|reached| reached.partition == partition);
            let reached = reached.map_or(LogSequence::ZERO, |reached| reached.applied);
            let instead = match partition.0 {
                0 => String::new(),
                number => format!(", replace the folder partitions/{number} by that node's"),
            };
            ensure!(
                self.accepts_loss || node == me || reached <= has,
                "node {:016x} has records{} up to {}, this one up to {}: adopt from that one{instead}, or say \
                 --accept-loss",
                node.0,
                of_partition(partition),
                reached.0,
                has.0
            );
        }
        Ok(())
    }

    /// Removes a cluster at the root if its state is older than this node's, or its adoption is
    /// incomplete. Returns the end of the old history according to that adoption, or to this node.
    fn make_room(&self, sequencer: &mut dyn Sequencer) -> Result<Option<LogSequence>> {
        let root = &self.settings.root;
        let Some(place) = drive::cluster(sequencer, root).context("log")? else {
            return Ok(None);
        };
        let mut ended = None;
        if place.cluster == self.lost.cluster {
            self.has_gone_back(sequencer)?;
        } else {
            let origin = identity::origin(sequencer, root)?;
            let is_own = origin.as_ref().is_some_and(|origin| origin.from == self.lost.cluster);
            ensure!(
                is_own && identity::is_unused(sequencer, &place)?,
                "log: etcd holds cluster {:032x} below {root}: begin the new one below another root",
                place.cluster.0
            );
            if let Some(origin) = origin {
                let has = self.log.tail();
                // It may belong to another node, which was not started afterwards.
                ensure!(
                    self.accepts_loss || origin.last(PartitionId(0)) <= has,
                    "log: a node that has records up to {} was adopted and not started, this one has them up to {}: \
                     start that one, or say --accept-loss",
                    origin.last(PartitionId(0)).0,
                    has.0
                );
                ended = Some(origin.last(PartitionId(0)).min(has));
            }
        }
        match ask(sequencer, Adoption::clear(&place)).context("log")? {
            Answer::Done { .. } => Ok(ended),
            _ => bail!("log: the cluster below {root} has changed meanwhile"),
        }
    }

    /// Refuses unless etcd's log is older than this node's history.
    fn has_gone_back(&self, sequencer: &mut dyn Sequencer) -> Result<()> {
        ensure!(self.is_older(sequencer)?, NOTHING_TO_ADOPT);
        Ok(())
    }

    /// Returns true if etcd's log is older than this node's history; false if it has all of it.
    fn is_older(&self, sequencer: &mut dyn Sequencer) -> Result<bool> {
        let mut follower = Follower::new(self.lost.clone(), self.log.position());
        match drive::catch_up(&mut follower, sequencer) {
            Err(DriveError::Stopped(StopReason::EndsBefore { .. })) => Ok(true),
            Err(DriveError::Stopped(reason)) => {
                ensure!(
                    self.accepts_loss,
                    "log: etcd's log has gone on without this node ({reason}): what it has would be lost; \
                     --accept-loss says so"
                );
                Ok(true)
            }
            Err(DriveError::Failed(failure)) => Err(failure).context("log"),
            Ok(_) => Ok(false),
        }
    }
}

const NOTHING_TO_ADOPT: &str = "log: etcd has all records of this node: there is nothing to adopt, start the nodes";

/// A cluster of several partitions. The lost cluster ends in this folder, and the folder's data
/// found the next, as any folder's do.
struct Several<'s> {
    settings: &'s ClusterSettings,
    data: &'s Path,
    partitions: &'s [PathBuf],
    parts: &'s OpenParts<'s>,
    accepts_loss: bool,
}

impl Several<'_> {
    /// The process may be killed after any step: the same command continues.
    fn adopt(&self, sequencer: &mut dyn Sequencer, own: ClusterId) -> Result<AdoptedCluster> {
        if identity::of(self.data)?.is_some() {
            let logs = ending::open_logs(&self.settings.root, own, self.partitions, self.parts)?;
            if !logs.iter().any(OwnLog::has_ended) {
                self.judge(sequencer, own, &logs)?;
            }
            ending::leave(self.data, own, logs)?;
        }
        let origin = ending::left(self.data)?;
        let lasts = origin.map_or_else(Vec::new, |origin| origin.lasts.iter().map(|last| last.0).collect());
        let folder = founding::Folder {
            data: self.data,
            partitions: self.partitions,
            parts: self.parts,
            kind: None,
        };
        let founded = folder.found(sequencer, self.settings)?;
        let founded = founded.context("data: the folder holds nothing")?;
        Ok(AdoptedCluster {
            cluster: format!("{:032x}", founded.cluster.0),
            from: format!("{:032x}", own.0),
            lasts,
            term: 1,
        })
    }

    /// Refuses if another node has more, or etcd has all of it. Removes a cluster that is older
    /// than the folder.
    fn judge(&self, sequencer: &mut dyn Sequencer, own: ClusterId, logs: &[OwnLog]) -> Result<()> {
        let root = &self.settings.root;
        let lost = Place::new(root, own, PartitionId(0)).with_partitions(logs.len() as u32);
        let places: Vec<Place> = (0..lost.partitions())
            .map(|number| lost.of(PartitionId(number)))
            .collect();
        let cases = || {
            places.iter().zip(logs).map(|(lost, log)| Case {
                settings: self.settings,
                lost,
                log,
                accepts_loss: self.accepts_loss,
            })
        };
        cases().try_for_each(|case| case.judge_others(sequencer))?;
        let Some(place) = drive::cluster(sequencer, root).context("log")? else {
            return Ok(());
        };
        ensure!(
            place.cluster == own,
            "log: etcd holds cluster {:032x} below {root}: begin the new one below another root",
            place.cluster.0
        );
        let mut is_older = false;
        for case in cases() {
            is_older |= case.is_older(sequencer)?;
        }
        ensure!(is_older, NOTHING_TO_ADOPT);
        match ask(sequencer, Adoption::clear(&place)).context("log")? {
            Answer::Done { .. } => Ok(()),
            _ => bail!("log: the cluster below {root} has changed meanwhile"),
        }
    }
}

/// `kept`: the last record of the lost cluster that is kept.
fn begin(
    sequencer: &mut dyn Sequencer,
    settings: &ClusterSettings,
    lost: &Place,
    kept: LogSequence,
    log: OwnLog,
    keep: impl FnOnce(ClusterId) -> Result<()>,
) -> Result<AdoptedCluster> {
    let cluster = ClusterId(random());
    let me = Writer {
        node: settings.node(),
        incarnation: random() as u64,
    };
    let floor = Version(now_us().max(log.version().0 + 1));
    let place = Place::new(&settings.root, cluster, PartitionId(0));
    let (last, tail) = (log.position(), log.tail());
    let adoption = Adoption::new(place, lost.cluster, &last, tail, me, floor).of_records_up_to(kept);
    let mut answer = Err(Failure::Unknown("not asked".to_owned()));
    for _ in 0..TRIES {
        answer = ask(sequencer, adoption.request());
        if answer.is_ok() {
            break;
        }
    }
    let is_begun = match answer.context("log: the same command may be given again")? {
        Answer::Done { .. } => true,
        Answer::Refused { values } => values.iter().flatten().any(|meta| cluster_of(meta) == Some(cluster)),
        _ => false,
    };
    ensure!(
        is_begun,
        "log: another cluster was begun below {} meanwhile",
        settings.root
    );
    let position = adoption.position();
    log.begin_term(&position, floor)?;
    keep(cluster)?;
    Ok(AdoptedCluster {
        cluster: format!("{:032x}", cluster.0),
        from: format!("{:032x}", lost.cluster.0),
        lasts: vec![kept.0],
        term: position.term.0,
    })
}

#[cfg(test)]
mod tests {
    use quartet_engine::{Parts, StoreKind};
    use quartet_env::{Fault, FaultyDisk, ManualClock, Operation};
    use quartet_log_replicated::model::Store;
    use quartet_log_replicated::{Position, RecordHash, Request, Term, TermValue};
    use tempfile::TempDir;

    use super::*;
    use crate::cluster::killed::UntilKilled;

    const LOST: ClusterId = ClusterId(7);

    /// All that outlives a process: etcd, and the node's folder and disk.
    struct Outside {
        etcd: Store,
        folder: TempDir,
        disk: FaultyDisk,
        accepts_loss: bool,
    }

    fn lost() -> Place {
        Place::new("/test", LOST, PartitionId(0))
    }

    /// A node of the lost cluster that has one record of it.
    fn node_with_one_record() -> (TempDir, FaultyDisk) {
        let (folder, disk) = (tempfile::tempdir().unwrap(), FaultyDisk::new());
        let position = Position {
            sequence: LogSequence(1),
            hash: RecordHash(99),
            term: Term(1),
            writer: Writer::default(),
        };
        let log = OwnLog::open(parts_on(&disk), Some(StoreKind::Memory), &lost()).unwrap();
        log.begin_term(&position, Version(5)).unwrap();
        identity::keep(folder.path(), LOST).unwrap();
        (folder, disk)
    }

    fn parts_on(disk: &FaultyDisk) -> Parts {
        Parts::on_one_machine(Arc::new(disk.clone()), Arc::new(ManualClock::new(1)))
    }

    impl Outside {
        /// `has_gone_back`: etcd has the cluster without the node's record; else it has nothing.
        fn new(has_gone_back: bool) -> Outside {
            let (folder, disk) = node_with_one_record();
            let mut etcd = Store::default();
            if has_gone_back {
                etcd.execute(0, std::time::Duration::ZERO, &lost().found());
            }
            Outside {
                etcd,
                folder,
                disk,
                accepts_loss: false,
            }
        }

        /// One run of the command. Returns how many requests it has sent.
        fn adopt(&mut self, executes: usize, answers: usize, keeps: bool) -> (Result<AdoptedCluster>, usize) {
            let mut sequencer = UntilKilled::new(&mut self.etcd, executes, answers);
            let own = identity::of(self.folder.path()).unwrap().unwrap();
            let place = Place::new("/test", own, PartitionId(0));
            let log = match OwnLog::open(parts_on(&self.disk), Some(StoreKind::Memory), &place) {
                Ok(log) => log,
                Err(error) => return (Err(error.into()), 0),
            };
            let keep = |id| match keeps {
                true => identity::keep(self.folder.path(), id),
                false => bail!("killed"),
            };
            let settings = ClusterSettings::for_test("a");
            let adopted = go_on(&mut sequencer, &settings, &place, log, self.accepts_loss, keep);
            (adopted, sequencer.sent())
        }

        /// The power fails.
        fn crash(&mut self) {
            self.disk.clear_faults();
            self.disk = self.disk.fork();
            self.disk.crash();
        }

        fn join(&mut self, name: &str, folder: &Path, disk: &FaultyDisk) -> Result<ClusterId> {
            let mut sequencer = self.all_of_it();
            let settings = ClusterSettings::for_test(name);
            let new = Place::new("/test", ClusterId(1), PartitionId(0));
            let joined = identity::join(&mut sequencer, &settings, folder, &new, &|_| Ok(parts_on(disk)));
            joined.map(|place| place.cluster)
        }

        fn all_of_it(&mut self) -> UntilKilled<'_> {
            UntilKilled::new(&mut self.etcd, usize::MAX, usize::MAX)
        }

        /// Returns true if etcd has a cluster that was adopted.
        fn is_adopted(&mut self) -> bool {
            identity::origin(&mut self.all_of_it(), "/test").unwrap().is_some()
        }

        /// Repeats the command, which succeeds, and checks that all nodes join the same cluster
        /// afterwards.
        fn goes_on(mut self, case: &str) {
            self.crash();
            if self.is_adopted() && identity::of(self.folder.path()).unwrap() == Some(LOST) {
                let (folder, disk) = (self.folder.path().to_owned(), self.disk.clone());
                let refused = self.join("a", &folder, &disk).unwrap_err().to_string();
                assert!(
                    refused.contains("give `quartet cluster adopt` again"),
                    "{case}: {refused}"
                );
            }
            let (adopted, _) = self.adopt(usize::MAX, usize::MAX, true);
            let adopted = adopted.unwrap_or_else(|error| panic!("{case}: {error:#}"));
            assert_eq!(
                (adopted.lasts, adopted.from),
                (vec![1], format!("{:032x}", LOST.0)),
                "{case}"
            );
            self.crash();
            let (folder, disk) = (self.folder.path().to_owned(), self.disk.clone());
            let cluster = self.join("a", &folder, &disk).unwrap();
            assert_eq!(format!("{:032x}", cluster.0), adopted.cluster, "{case}");
            assert!(
                !folder.join("needs-copy").exists(),
                "{case}: it goes on from what it has"
            );
            // Its log ends with the first Term record of etcd's log.
            let place = Place::new("/test", cluster, PartitionId(0));
            let log = OwnLog::open(parts_on(&disk), Some(StoreKind::Memory), &place).unwrap();
            let key = place.term_key();
            let Answer::Value(Some(term)) = ask(&mut self.all_of_it(), Request::Get { key }).unwrap() else {
                panic!("{case}: no term");
            };
            let term = TermValue::decode(&term).unwrap();
            assert_eq!(
                (log.position().sequence, log.position().hash),
                (term.sequence, term.hash),
                "{case}"
            );
            // Any other node of the lost cluster copies.
            let (folder, disk) = node_with_one_record();
            assert_eq!(self.join("b", folder.path(), &disk).unwrap(), cluster, "{case}");
            assert!(folder.path().join("needs-copy").exists(), "{case}");
        }
    }

    /// It replaced what the other node had kept, and said that it had those records.
    #[test]
    fn an_unused_adoption_by_a_node_that_has_more_is_not_replaced() {
        let other = Place::new("/test", ClusterId(8), PartitionId(0));
        let last = Position {
            sequence: LogSequence(5),
            hash: RecordHash(98),
            term: Term(2),
            writer: Writer::default(),
        };
        let adoption = Adoption::new(other, LOST, &last, LogSequence(5), Writer::default(), Version(9));
        let mut outside = Outside::new(false);
        outside.etcd.execute(0, std::time::Duration::ZERO, &adoption.request());
        let refused = outside.adopt(usize::MAX, usize::MAX, true).0.unwrap_err().to_string();
        assert!(
            refused.contains("has records up to 5 was adopted and not started"),
            "{refused}"
        );
        let (folder, disk) = node_with_one_record();
        assert_eq!(outside.join("c", folder.path(), &disk).unwrap(), ClusterId(8));

        outside.accepts_loss = true;
        let adopted = outside.adopt(usize::MAX, usize::MAX, true).0.unwrap();
        assert_eq!(adopted.lasts, [1]);
    }

    #[test]
    fn an_adoption_that_is_killed_at_any_step_is_given_again() {
        for has_gone_back in [false, true] {
            let (adopted, requests) = Outside::new(has_gone_back).adopt(usize::MAX, usize::MAX, true);
            adopted.unwrap();
            assert!(requests >= 3, "reports, the cluster, and the new one's beginning");
            for answered in 0..requests {
                for executed in [answered, answered + 1] {
                    let mut outside = Outside::new(has_gone_back);
                    let (adopted, _) = outside.adopt(executed, answered, true);
                    assert!(adopted.is_err());
                    outside.goes_on(&format!(
                        "gone back {has_gone_back}, {executed} executed, {answered} answered"
                    ));
                }
            }
            // Each write and each sync of the node's disk, until there is none more.
            for operation in [Operation::Write, Operation::Sync] {
                let mut adopted_before = 0;
                for nth in 1.. {
                    let mut outside = Outside::new(has_gone_back);
                    outside.disk.fail(operation, nth, Fault::Error);
                    let (adopted, _) = outside.adopt(usize::MAX, usize::MAX, true);
                    if outside.disk.fault_pending() {
                        break;
                    }
                    if adopted.is_err() {
                        adopted_before += usize::from(outside.is_adopted());
                        outside.goes_on(&format!(
                            "gone back {has_gone_back}, {operation:?} {nth} of the own log"
                        ));
                    }
                }
                assert!(adopted_before > 0, "one of them stands behind the transaction");
            }
            let mut outside = Outside::new(has_gone_back);
            assert!(outside.adopt(usize::MAX, usize::MAX, false).0.is_err());
            outside.goes_on(&format!("gone back {has_gone_back}, the folder's cluster"));
        }
    }
}
