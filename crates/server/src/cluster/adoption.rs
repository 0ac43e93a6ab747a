//! A new cluster out of this node's folder, when etcd has lost the node's one or has gone back in
//! time. For a node that does not run.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use quartet_engine::{OwnLog, Parts};
use quartet_log_etcd::Etcd;
use quartet_log_replicated::copies;
use quartet_log_replicated::drive::{self, DriveError, ask};
use quartet_log_replicated::{
    Adoption, Answer, ClusterId, Failure, Follower, PartitionId, Place, Request, Sequencer, StopReason, Writer,
    cluster_of,
};
use quartet_model::{LogSequence, Version};

use super::identity;
use super::members::now_us;
use super::node::random;
use super::object_store::EtcdWithStore;
use crate::settings::{ClusterSettings, Settings};

/// The beginning of a new cluster.
#[derive(Clone, Debug)]
pub struct AdoptedCluster {
    /// The new cluster's id.
    pub cluster: String,
    /// That of the cluster whose history it goes on with.
    pub from: String,
    /// The last record of that history which is kept.
    pub last: u64,
    /// The new term.
    pub term: u64,
}

/// How often a request without an answer is sent again.
const TRIES: u32 = 20;

/// Begins a new cluster with what the folder of this node, `from`, has. `accepts_loss`: although
/// other nodes have more, or etcd's log has gone on without this node.
pub fn adopt(
    settings: &Settings,
    from: &str,
    accepts_loss: bool,
    parts: impl FnOnce() -> Result<Parts>,
) -> Result<AdoptedCluster> {
    let cluster = settings.cluster.as_ref().context("log: give etcd://HOST:PORT/ROOT")?;
    cluster.check(settings)?;
    ensure!(
        from == cluster.node_name,
        "node-name: these are the settings of {}, not of {from}",
        cluster.node_name
    );
    let folder = settings.storage.data.folder().context("data: a node has a folder")?;
    let own = identity::of(folder)?.with_context(|| format!("{} is of no cluster", folder.display()))?;
    let etcd = Etcd::open(&cluster.etcd).context("log")?;
    let mut sequencer = EtcdWithStore::new(etcd, cluster.store.as_deref(), own, Arc::new(|| {}))?;
    let lost = Place::new(&cluster.root, own, PartitionId(0));
    let log = OwnLog::open(parts()?, None, &lost)?;
    let case = Case {
        settings: cluster,
        lost: &lost,
        log: &log,
        accepts_loss,
    };
    case.judge_others(&mut sequencer)?;
    case.make_room(&mut sequencer)?;
    begin(&mut sequencer, cluster, &lost, log, |id| identity::keep(folder, id))
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
        for (node, report) in copies::reports(self.lost, &reports) {
            let reached = report
                .partitions
                .first()
                .map_or(LogSequence::ZERO, |reached| reached.applied);
            ensure!(
                self.accepts_loss || node == me || reached <= has,
                "node {:016x} has records up to {}, this one up to {}: adopt from that one, or say --accept-loss",
                node.0,
                reached.0,
                has.0
            );
        }
        Ok(())
    }

    /// Removes a cluster at the root that has gone back in time, or whose adoption did not end.
    fn make_room(&self, sequencer: &mut dyn Sequencer) -> Result<()> {
        let root = &self.settings.root;
        let Some(there) = drive::cluster(sequencer, root).context("log")? else {
            return Ok(());
        };
        let place = Place::new(root, there, PartitionId(0));
        if there == self.lost.cluster {
            self.has_gone_back(sequencer)?;
        } else {
            let origin = identity::origin(sequencer, root)?;
            let is_own = origin.is_some_and(|origin| origin.from == self.lost.cluster);
            ensure!(
                is_own && is_unused(sequencer, &place)?,
                "log: etcd holds cluster {:032x} below {root}: begin the new one below another root",
                there.0
            );
        }
        match ask(sequencer, Adoption::clear(&place)).context("log")? {
            Answer::Done { .. } => Ok(()),
            _ => bail!("log: the cluster below {root} has changed meanwhile"),
        }
    }

    /// Refuses unless etcd's log is one that this node's history has left behind.
    fn has_gone_back(&self, sequencer: &mut dyn Sequencer) -> Result<()> {
        let mut follower = Follower::new(self.lost.clone(), self.log.position());
        match drive::catch_up(&mut follower, sequencer) {
            Err(DriveError::Stopped(StopReason::EndsBefore { .. })) => Ok(()),
            Err(DriveError::Stopped(reason)) => {
                ensure!(
                    self.accepts_loss,
                    "log: etcd's log has gone on without this node ({reason}): what it has would be lost; \
                     --accept-loss says so"
                );
                Ok(())
            }
            Err(DriveError::Failed(failure)) => Err(failure).context("log"),
            Ok(_) => bail!("log: etcd has all records of this node: there is nothing to adopt, start the nodes"),
        }
    }
}

/// True if nothing stands behind the Term record that an adoption began with.
fn is_unused(sequencer: &mut dyn Sequencer, place: &Place) -> Result<bool> {
    let (from, until, limit) = (place.record_key(LogSequence::ZERO), place.records_end(), 2);
    let answer = ask(sequencer, Request::Range { from, until, limit }).context("log")?;
    Ok(matches!(answer, Answer::Entries { entries, .. } if entries.len() == 1))
}

fn begin(
    sequencer: &mut dyn Sequencer,
    settings: &ClusterSettings,
    lost: &Place,
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
    let adoption = Adoption::new(place, lost.cluster, &last, tail, me, floor);
    let mut answer = Err(Failure::Unknown("not asked".to_owned()));
    for _ in 0..TRIES {
        answer = ask(sequencer, adoption.request());
        if answer.is_ok() {
            break;
        }
    }
    let is_begun = match answer.context("log: the same command may be given again")? {
        Answer::Done { .. } => true,
        Answer::Refused { found } => found.iter().flatten().any(|meta| cluster_of(meta) == Some(cluster)),
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
        last: tail.0,
        term: position.term.0,
    })
}
