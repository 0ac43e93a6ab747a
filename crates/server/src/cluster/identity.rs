//! Which cluster a data folder is of, and whether the one at the sequencer is it.
//!
//! ```text
//! DATA/cluster-id   32 hexadecimal digits | newline
//! ```
//!
//! | folder    | sequencer               |                                                        |
//! |-----------|-------------------------|--------------------------------------------------------|
//! | empty     | has none                | founds one                                             |
//! | empty     | has one                 | joins it                                               |
//! | of none   | has none                | founds one with its data (`founding`)                  |
//! | of none   | has one                 | refused: it would be another history                   |
//! | of it     | has it                  | goes on                                                |
//! | of one    | has none                | refused: the sequencer is lost, or is another          |
//! | of one    | has another             | refused                                                |
//! | of one    | has one that adopted it | copies, unless the folder has more than was adopted,   |
//! |           |                         | or the adoption was this node's and was interrupted    |
//! | of one    | has ended it            | refused: its data are in another node's folder         |

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use quartet_engine::{OwnLog, Parts};
use quartet_log_replicated::copies::{self, NodeReport};
use quartet_log_replicated::drive::{self, ask};
use quartet_log_replicated::{
    Adopted, Adoption, Answer, ClusterId, Configured, Ended, NodeId, PartitionId, Place, Position, Request, Sequencer,
    TermValue, adopted, configured, configured_request, join_request,
};
use quartet_model::LogSequence;

use super::copying::{self, CLUSTER_ID};
use super::members::now_us;
use crate::partition_folders::partition_folders;
use crate::settings::ClusterSettings;

/// Gives the parts that open a partition's folder.
pub type OpenParts<'p> = dyn Fn(&Path) -> Result<Parts> + 'p;

/// Time for which an adopting node sees a refused node.
const SEEN_SECONDS: u32 = 600;

/// The cluster that a folder is of; `None` if it is of none yet.
pub fn of(folder: &Path) -> Result<Option<ClusterId>> {
    let path = folder.join(CLUSTER_ID);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    let id = u128::from_str_radix(text.trim(), 16);
    Ok(Some(ClusterId(
        id.with_context(|| format!("reading {}", path.display()))?,
    )))
}

/// Makes the folder one of this cluster.
pub fn keep(folder: &Path, cluster: ClusterId) -> Result<()> {
    if of(folder)? == Some(cluster) {
        return Ok(());
    }
    let (path, new) = (folder.join(CLUSTER_ID), folder.join("cluster-id.new"));
    let write = || {
        fs::create_dir_all(folder)?;
        fs::write(&new, format!("{:032x}\n", cluster.0))?;
        fs::File::open(&new)?.sync_all()?;
        fs::rename(&new, &path)?;
        fs::File::open(folder)?.sync_all()
    };
    write().with_context(|| format!("writing {}", path.display()))
}

/// Ends the folder's membership of a cluster.
pub fn forget(folder: &Path) -> Result<()> {
    let path = folder.join(CLUSTER_ID);
    let remove = || match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => fs::File::open(folder)?.sync_all(),
    };
    remove().with_context(|| format!("removing {}", path.display()))
}

/// The position in the log of the cluster `own` that each partition below a node's folder has. A
/// partition that has nothing yet is before the first record.
fn positions(folder: &Path, root: &str, own: ClusterId, parts: &OpenParts<'_>) -> Result<Vec<Position>> {
    let folders = partition_folders(folder)?;
    let place = Place::new(root, own, PartitionId(0)).with_partitions(folders.len() as u32);
    let position = |(partition, folder): (PartitionId, &PathBuf)| -> Result<Position> {
        let place = place.of(partition);
        // A copy that was killed has left a part of another history.
        if copying::is_marked(folder) || partition != PartitionId(0) && copying::is_needed(folder)? {
            return Ok(place.beginning());
        }
        Ok(OwnLog::open(parts(folder)?, None, &place)?.position())
    };
    (0..).map(PartitionId).zip(&folders).map(position).collect()
}

/// Returns the first partition of the cluster that a node with this folder joins, or founds as
/// `new`. `parts` open the folder of a partition, which is empty or a node's.
pub fn join(
    sequencer: &mut dyn Sequencer,
    settings: &ClusterSettings,
    folder: &Path,
    new: &Place,
    parts: &OpenParts<'_>,
) -> Result<Place> {
    let root = &settings.root;
    let own = of(folder)?;
    let existing = drive::cluster(sequencer, root).context("log")?;
    match (own, existing) {
        (None, _) => drive::join(sequencer, new).context("log"),
        (Some(own), Some(existing)) if own == existing.cluster => Ok(existing),
        (Some(own), Some(existing)) => {
            check_origin(sequencer, settings, folder, own, &existing, parts)?;
            // The others are copied by themselves, and the first as the last: it marks all.
            for folder in partition_folders(folder)?.iter().rev() {
                copying::mark(folder, false)?;
            }
            Ok(existing)
        }
        (Some(own), None) => Err(lost(sequencer, settings, folder, own, parts)?),
    }
}

/// Checks that the existing cluster continues the history of the folder's cluster, and has all
/// records of the folder.
fn check_origin(
    sequencer: &mut dyn Sequencer,
    settings: &ClusterSettings,
    folder: &Path,
    own: ClusterId,
    existing: &Place,
    parts: &OpenParts<'_>,
) -> Result<()> {
    let root = &settings.root;
    let origin = origin(sequencer, root)?.filter(|origin| origin.from == own);
    let Some(origin) = origin else {
        bail!(
            "log: {} is of cluster {:032x}, and etcd holds cluster {:032x} below {root}",
            folder.display(),
            own.0,
            existing.cluster.0
        );
    };
    ensure!(
        !is_begun_by(sequencer, existing, settings.node())?,
        "log: {} has begun a new cluster and did not come to its end: give `quartet cluster adopt` again",
        settings.node_name
    );
    for (partition, has) in (0..).map(PartitionId).zip(positions(folder, root, own, parts)?) {
        let last = origin.last(partition);
        ensure!(
            has.sequence <= last,
            "log: the cluster was adopted with its records up to {}, and {} has records up to {}{}: what this \
             node alone has is not part of the cluster; empty the folder to copy the home",
            last.0,
            folder.display(),
            has.sequence.0,
            of_partition(partition)
        );
    }
    Ok(())
}

/// Says that etcd has no cluster for a folder that is of one.
fn lost(
    sequencer: &mut dyn Sequencer,
    settings: &ClusterSettings,
    folder: &Path,
    own: ClusterId,
    parts: &OpenParts<'_>,
) -> Result<anyhow::Error> {
    let root = &settings.root;
    if let Some(ended) = ended(sequencer, root)?.filter(|ended| ended.cluster == own) {
        bail!(
            "log: {} is of cluster {:032x}, which was ended at node {:016x}: its data go on in that node's \
             folder; empty this one to join another cluster",
            folder.display(),
            own.0,
            ended.at.0
        );
    }
    let positions = positions(folder, root, own, parts)?;
    let place = Place::new(root, own, PartitionId(0)).with_partitions(positions.len() as u32);
    let mut has = String::new();
    for (partition, position) in (0..).map(PartitionId).zip(&positions) {
        show(sequencer, &place.of(partition), settings.node(), position)?;
        let Position { sequence, term, .. } = position;
        let separator = if partition.0 == 0 { "" } else { ", " };
        has += &format!(
            "{separator}{} of term {}{}",
            sequence.0,
            term.0,
            of_partition(partition)
        );
    }
    Ok(anyhow!(
        "log: {} is of cluster {:032x} and has its records up to {has}, and etcd holds no cluster below {root}: \
         if it is the right etcd and has lost its data, `quartet cluster adopt` goes on from the node that has \
         the most records",
        folder.display(),
        own.0,
    ))
}

/// Names a partition after the first in a message.
pub fn of_partition(partition: PartitionId) -> String {
    match partition.0 {
        0 => String::new(),
        number => format!(" of partition {number}"),
    }
}

/// The cluster that has ended below `root` most recently.
pub fn ended(sequencer: &mut dyn Sequencer, root: &str) -> Result<Option<Ended>> {
    match ask(sequencer, Ended::read_request(root)).context("log")? {
        Answer::Value(Some(value)) => Ok(Some(
            Ended::decode(&value).context("log: the key `ended` cannot be read")?,
        )),
        _ => Ok(None),
    }
}

/// The origin of the cluster below `root`, if it was adopted.
pub fn origin(sequencer: &mut dyn Sequencer, root: &str) -> Result<Option<Adopted>> {
    match ask(sequencer, Adoption::origin_request(root)).context("log")? {
        Answer::Value(Some(value)) => Ok(Some(adopted(&value).context("log: the key `adopted` cannot be read")?)),
        _ => Ok(None),
    }
}

/// Returns true if no record follows the first Term record of an adoption.
pub fn is_unused(sequencer: &mut dyn Sequencer, place: &Place) -> Result<bool> {
    let (from, until, limit) = (place.record_key(LogSequence::ZERO), place.records_end(), 2);
    let answer = ask(sequencer, Request::Range { from, until, limit }).context("log")?;
    Ok(matches!(answer, Answer::Entries { entries, .. } if entries.len() == 1))
}

/// Returns true if the cluster of `place` is an adoption by `node`, and no node is part of it yet.
fn is_begun_by(sequencer: &mut dyn Sequencer, place: &Place, node: NodeId) -> Result<bool> {
    let key = place.term_key();
    let Answer::Value(Some(term)) = ask(sequencer, Request::Get { key }).context("log")? else {
        return Ok(false);
    };
    let is_its = TermValue::decode(&term).is_some_and(|term| term.writer.node == node);
    Ok(is_its && is_unused(sequencer, place)?)
}

/// Reports this node's log position to the adopting node.
fn show(sequencer: &mut dyn Sequencer, place: &Place, node: NodeId, position: &Position) -> Result<()> {
    let report = NodeReport {
        cluster: place.cluster,
        clock_us: now_us(),
        partitions: vec![copies::Reached {
            partition: place.partition,
            applied: position.sequence,
            synced: position.sequence,
        }],
    };
    let seconds = SEEN_SECONDS;
    if let Answer::Lease(lease) = ask(sequencer, Request::Grant { seconds }).context("log")? {
        ask(sequencer, report.request(place, node, lease)).context("log")?;
    }
    Ok(())
}

/// Adds this node to the configured nodes, unless it was removed.
pub fn configure(sequencer: &mut dyn Sequencer, place: &Place, settings: &ClusterSettings) -> Result<()> {
    let node = settings.node();
    ask(sequencer, join_request(place, node, &settings.node_name)).context("log")?;
    let answer = ask(sequencer, configured_request(place)).context("log")?;
    let rows = configured(place, &answer).context("log: the configured nodes cannot be read")?;
    let own = rows.into_iter().find(|(id, _)| *id == node);
    let (_, Configured { is_removed, .. }) = own.context("log: this node could not be added to the cluster")?;
    ensure!(
        !is_removed,
        "node-name: {} was removed from the cluster: give the node another name",
        settings.node_name
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("data");
        assert_eq!(of(&folder).unwrap(), None);
        keep(&folder, ClusterId(7)).unwrap();
        assert_eq!(of(&folder).unwrap(), Some(ClusterId(7)));
        keep(&folder, ClusterId(8)).unwrap();
        assert_eq!(of(&folder).unwrap(), Some(ClusterId(8)));
        fs::write(folder.join(CLUSTER_ID), "garbage").unwrap();
        assert!(of(&folder).is_err());
    }
}
