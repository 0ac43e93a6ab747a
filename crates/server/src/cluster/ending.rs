//! The end of a cluster: this node's folder becomes a single server's, or founds the next cluster.
//! For a stopped node.
//!
//! ```text
//! DATA/left-cluster   the value of `ROOT/adopted` for a cluster that the folder's data found
//!
//! one transaction at etcd --> DATA/left-cluster --> an end in each partition's file log -->
//! DATA/cluster-id removed
//! ```
//!
//! The process may be killed at each arrow: the same command continues after it. The transaction
//! requires that this folder has every record of the cluster, so nothing acknowledged is lost.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use quartet_engine::OwnLog;
use quartet_log_etcd::Etcd;
use quartet_log_replicated::drive::{self, DriveError, ask};
use quartet_log_replicated::{
    Adopted, Answer, ClusterId, Ended, Follower, PartitionId, Place, Sequencer, StopReason, adopted,
};
use quartet_model::Version;

use super::formats;
use super::identity::{self, OpenParts, of_partition};
use super::members::{Members, now_us};
use super::object_store::EtcdWithStore;
use crate::partition_folders::partition_folders;
use crate::settings::{ClusterSettings, Settings};

const LEFT: &str = "left-cluster";

/// A cluster that has ended.
#[derive(Clone, Debug)]
pub struct EndedCluster {
    /// Its id.
    pub cluster: String,
    /// Its last record, of each partition.
    pub lasts: Vec<u64>,
}

/// Ends the cluster of this node's folder. The folder is a single server's from then on.
pub fn end(settings: &Settings, parts: &OpenParts<'_>) -> Result<EndedCluster> {
    let cluster = settings.cluster.as_ref().context("log: give etcd://HOST:PORT/ROOT")?;
    cluster.check(settings)?;
    let folder = settings.storage.data.folder().context("data: a node has a folder")?;
    let own = identity::of(folder)?;
    let own = own.with_context(|| format!("{} is of no cluster: a server can serve it", folder.display()))?;
    let etcd = Etcd::open(&cluster.etcd).context("log")?;
    let mut sequencer = EtcdWithStore::new(etcd, cluster.store.as_deref(), own, Arc::new(|| {}))?;
    go_on(&mut sequencer, cluster, folder, &partition_folders(folder)?, own, parts)
}

/// The process may be killed after any step.
fn go_on(
    sequencer: &mut dyn Sequencer,
    settings: &ClusterSettings,
    folder: &Path,
    partitions: &[PathBuf],
    own: ClusterId,
    parts: &OpenParts<'_>,
) -> Result<EndedCluster> {
    if let Some(place) = drive::cluster(sequencer, &settings.root).context("log")? {
        formats::join(sequencer, &place)?;
    }
    let logs = open_logs(&settings.root, own, partitions, parts)?;
    let ended = Ended {
        cluster: own,
        at: settings.node(),
    };
    if identity::ended(sequencer, &settings.root)? != Some(ended) {
        end_at_etcd(sequencer, settings, ended, &logs)?;
    }
    let lasts = logs.iter().map(|log| log.last_of_cluster().0).collect();
    leave(folder, own, logs)?;
    Ok(EndedCluster {
        cluster: format!("{:032x}", own.0),
        lasts,
    })
}

/// Opens the file log of each partition, with or without the cluster's end.
pub fn open_logs(root: &str, own: ClusterId, partitions: &[PathBuf], parts: &OpenParts<'_>) -> Result<Vec<OwnLog>> {
    let place = Place::new(root, own, PartitionId(0)).with_partitions(partitions.len() as u32);
    let open = |(partition, folder): (PartitionId, &PathBuf)| -> Result<OwnLog> {
        let log = OwnLog::open_to_end(parts(folder)?, None, &place.of(partition));
        log.with_context(|| format!("opening {}", folder.display()))
    };
    (0..).map(PartitionId).zip(partitions).map(open).collect()
}

/// Removes the cluster from etcd, if these logs have all of it and no other node runs.
fn end_at_etcd(sequencer: &mut dyn Sequencer, settings: &ClusterSettings, ended: Ended, logs: &[OwnLog]) -> Result<()> {
    let root = &settings.root;
    let place = drive::cluster(sequencer, root).context("log")?;
    let place = place.filter(|place| place.cluster == ended.cluster).with_context(|| {
        format!(
            "log: etcd does not hold cluster {:032x} below {root}: if it has lost it, `quartet cluster adopt` goes on \
             from the node that has the most records",
            ended.cluster.0
        )
    })?;
    ensure!(
        place.partitions() as usize == logs.len(),
        "data: the folder has {} partitions, and the cluster {}",
        logs.len(),
        place.partitions()
    );
    refuse_running(sequencer, settings, &place)?;
    for (partition, log) in (0..).map(PartitionId).zip(logs) {
        ensure!(
            !log.has_ended(),
            "data: another cluster than etcd's has ended in this folder"
        );
        ensure_all(sequencer, &place.of(partition), log)?;
    }
    let lasts: Vec<_> = logs.iter().map(OwnLog::position).collect();
    match ask(sequencer, ended.request(&place, &lasts)).context("log: the same command may be given again")? {
        Answer::Done { .. } => Ok(()),
        Answer::Refused { values } if ended.has_won(&values) => Ok(()),
        _ => bail!("log: the cluster has gone on meanwhile: stop all nodes, and give the command again"),
    }
}

fn refuse_running(sequencer: &mut dyn Sequencer, settings: &ClusterSettings, place: &Place) -> Result<()> {
    let members = Members::new(place.clone(), settings.node(), settings.nodes);
    members.look_once(sequencer).context("log")?;
    let view = members.view();
    let other = view.members.iter().find(|(id, _)| **id != settings.node().0);
    if let Some((_, other)) = other {
        bail!(
            "{} runs: stop every other node first; one that was killed is away after ten seconds",
            other.name
        );
    }
    Ok(())
}

/// Refuses a log that lacks records which etcd has.
fn ensure_all(sequencer: &mut dyn Sequencer, place: &Place, log: &OwnLog) -> Result<()> {
    let behind = || {
        format!(
            "data: etcd has records{} after {}, the last of this folder: start this node, and stop it once it is home",
            of_partition(place.partition),
            log.position().sequence.0
        )
    };
    // An unfinished group ends with the next term.
    ensure!(log.position().sequence == log.tail(), behind());
    let mut follower = Follower::new(place.clone(), log.position());
    match drive::catch_up(&mut follower, sequencer) {
        Ok(more) => ensure!(more.is_empty() && follower.position() == log.position(), behind()),
        Err(DriveError::Stopped(StopReason::Trimmed { .. })) => bail!(behind()),
        Err(DriveError::Stopped(reason)) => bail!("log: {reason}"),
        Err(DriveError::Failed(failure)) => return Err(failure).context("log"),
    }
    Ok(())
}

/// Makes a node's folder a server's. The next cluster that its data found continues the history of
/// `own`.
pub fn leave(folder: &Path, own: ClusterId, logs: Vec<OwnLog>) -> Result<()> {
    let origin = Adopted {
        from: own,
        lasts: logs.iter().map(OwnLog::last_of_cluster).collect(),
    };
    let (path, new) = (folder.join(LEFT), folder.join("left-cluster.new"));
    let write = || {
        fs::write(&new, origin.encode())?;
        fs::File::open(&new)?.sync_all()?;
        fs::rename(&new, &path)?;
        fs::File::open(folder)?.sync_all()
    };
    write().with_context(|| format!("writing {}", path.display()))?;
    for log in logs {
        let floor = Version(now_us().max(log.version().0 + 1));
        log.end_cluster(floor)?;
    }
    identity::forget(folder)
}

/// The ended cluster that the folder of a server was a node's folder of.
pub fn left(folder: &Path) -> Result<Option<Adopted>> {
    let path = folder.join(LEFT);
    match fs::read(&path) {
        Ok(bytes) => {
            let origin = adopted(&bytes).with_context(|| format!("{} cannot be read", path.display()))?;
            Ok(Some(origin))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Removes the name of that cluster, once the next one exists.
pub fn forget_left(folder: &Path) -> Result<()> {
    match fs::remove_file(folder.join(LEFT)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).with_context(|| format!("removing {LEFT}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use quartet_engine::{Durability, Engine, EngineOptions, Space, StoreKind};
    use quartet_env::{Fault, Operation};
    use quartet_model::{DatabaseId, LayerId};

    use super::*;
    use crate::cluster::founding::tests::{Outside, ROWS, parts_on};
    use crate::cluster::killed::UntilKilled;

    /// A cluster with the rows of a server.
    fn cluster() -> Outside {
        let mut outside = Outside::new();
        outside.found(usize::MAX, usize::MAX).0.unwrap().unwrap();
        outside
    }

    /// One run of the command. Returns how many requests it has sent.
    fn ends(outside: &mut Outside, executes: usize, answers: usize) -> (Result<EndedCluster>, usize) {
        let mut sequencer = UntilKilled::new(&mut outside.etcd, executes, answers);
        let Some(own) = identity::of(outside.folder.path()).unwrap() else {
            return (Err(anyhow::anyhow!("of no cluster")), 0);
        };
        let folder = outside.folder.path().to_owned();
        let parts = |_: &Path| Ok(parts_on(&outside.disk));
        let settings = ClusterSettings::for_test("a");
        let partitions = [folder.clone()];
        let ended = go_on(&mut sequencer, &settings, &folder, &partitions, own, &parts);
        (ended, sequencer.sent())
    }

    /// The command is given again; the folder is a server's with all rows, and founds the next
    /// cluster.
    fn goes_on(mut outside: Outside, case: &str) {
        outside.crash();
        let lost = identity::of(outside.folder.path()).unwrap();
        if lost.is_some() {
            let (ended, _) = ends(&mut outside, usize::MAX, usize::MAX);
            let ended = ended.unwrap_or_else(|error| panic!("{case}: {error:#}"));
            assert_eq!(ended.lasts, [u64::from(ROWS) + 1], "{case}");
        }
        outside.crash();
        assert_eq!(outside.get(b"/test/meta".to_vec()), None, "{case}");
        let options = EngineOptions {
            store: Some(StoreKind::Memory),
            ..EngineOptions::default()
        };
        let opened = Engine::open_with(parts_on(&outside.disk), options, Box::new(|_| {}), &mut |_| {});
        let engine = opened.unwrap_or_else(|error| panic!("{case}: {error:#}"));
        let space = Space {
            database: DatabaseId(1),
            layer: LayerId::KeyValue,
            durability: Durability::Always,
        };
        for row in 0..ROWS {
            let read = engine
                .partition()
                .execute(space, |tx| Ok::<_, std::convert::Infallible>(tx.get(&[row]).is_some()));
            assert!(read.unwrap().0, "{case}: row {row}");
        }
        engine.close().unwrap();
        let founded = outside.found(usize::MAX, usize::MAX).0;
        founded.unwrap_or_else(|error| panic!("{case}: {error:#}")).expect(case);
        let origin = outside.get(b"/test/adopted".to_vec()).and_then(|value| adopted(&value));
        let lasts = origin.unwrap_or_else(|| panic!("{case}: no origin")).lasts;
        assert_eq!(lasts[0].0, u64::from(ROWS) + 1, "{case}");
        assert!(left(outside.folder.path()).unwrap().is_none(), "{case}");
    }

    #[test]
    fn an_end_that_is_killed_at_any_step_is_given_again() {
        let mut whole = cluster();
        let (ended, requests) = ends(&mut whole, usize::MAX, usize::MAX);
        ended.unwrap();
        goes_on(whole, "not killed");
        for answered in 0..requests {
            for executed in [answered, answered + 1] {
                let mut outside = cluster();
                assert!(ends(&mut outside, executed, answered).0.is_err());
                goes_on(outside, &format!("{executed} executed, {answered} answered"));
            }
        }
        for operation in [Operation::Write, Operation::Sync] {
            for nth in 1.. {
                let mut outside = cluster();
                outside.disk.fail(operation, nth, Fault::Error);
                let (ended, _) = ends(&mut outside, usize::MAX, usize::MAX);
                if outside.disk.fault_pending() {
                    break;
                }
                if ended.is_err() {
                    goes_on(outside, &format!("{operation:?} {nth}"));
                }
            }
        }
    }

    /// A follower has a record of another home only after it has read it.
    #[test]
    fn a_folder_that_lacks_records_ends_nothing() {
        let mut outside = cluster();
        let own = identity::of(outside.folder.path()).unwrap().unwrap();
        let place = Place::new("/test", own, PartitionId(0));
        let before = outside.disk.fork();
        let me = quartet_log_replicated::Writer {
            node: quartet_log_replicated::NodeId(9),
            incarnation: 1,
        };
        // Another node takes over.
        let log = OwnLog::open(parts_on(&outside.disk), None, &place).unwrap();
        let mut follower = Follower::new(place, log.position());
        let mut sequencer = UntilKilled::new(&mut outside.etcd, usize::MAX, usize::MAX);
        let floor = || Version(u64::MAX / 2);
        drive::take_over(me, &mut follower, &mut sequencer, 3, &mut |_| {}, &floor).unwrap();
        outside.disk = before;
        let refused = ends(&mut outside, usize::MAX, usize::MAX).0.unwrap_err().to_string();
        assert!(
            refused.contains("start this node, and stop it once it is home"),
            "{refused}"
        );
        assert!(outside.get(b"/test/meta".to_vec()).is_some());
    }
}
