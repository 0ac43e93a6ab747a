//! The start of a node: it joins or founds the cluster in etcd, and copies the home into a folder
//! that has no usable data, before any data are opened.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context, Result, ensure};
use quartet_cluster::silence::BEAT_EVERY;
use quartet_engine::{Replicated, Role, StoreKind};
use quartet_log_etcd::{Etcd, EtcdOptions, OpenError, Waker};
use quartet_log_replicated::{ClusterId, Failure, Hold, ObjectOptions, PartitionId, Place, Writer};

use crate::cluster::copying::{self, KeptHold};
use crate::cluster::formats;
use crate::cluster::founding;
use crate::cluster::identity::{self, OpenParts};
use crate::cluster::link::Link;
use crate::cluster::members::Members;
use crate::cluster::object_store::{self, EtcdWithStore};
use crate::cluster::waiting::Waiting;
use crate::connections::sockets::Sockets;
use crate::partition_folders;
use crate::process::system::random;
use crate::settings::{ClusterSettings, Settings};

/// A cluster that was joined, and what a node over its logs is made of.
pub struct Joined {
    /// The place of the first partition.
    pub(super) place: Place,
    /// Roles of the engines, as they report them.
    pub(super) roles: Receiver<(PartitionId, Role)>,
    /// For the members' thread.
    pub(super) sequencer: Etcd,
    pub(super) copied: Vec<CopiedPartition>,
    /// The number of the process. The log names it by the same number.
    pub(super) process: u64,
}

/// A partition that was copied just now.
pub(super) struct CopiedPartition {
    pub(super) id: PartitionId,
    /// Keeps the records after the copy.
    pub(super) hold: KeptHold,
    /// The copy has replaced a state that differed from the home's.
    pub(super) has_differed: bool,
}

impl Joined {
    /// Joins or founds the cluster in its etcd, which is checked first, and waits while etcd is
    /// unreachable. A folder without usable data gets a copy of the home. `parts` open a
    /// partition's folder. The sockets answer health checks meanwhile.
    pub fn new(
        cluster: &ClusterSettings,
        settings: &Settings,
        sockets: &Sockets,
        parts: &OpenParts<'_>,
    ) -> Result<(Joined, Vec<Replicated>)> {
        cluster.check(settings)?;
        let waiting = Waiting::begin(settings, sockets)?;
        loop {
            match Joined::try_new(cluster, settings, &waiting, parts) {
                Err(error) if is_silence(&error) => {
                    tracing::debug!("etcd does not answer: {error:#}");
                    waiting.say(&format!(
                        "waiting for etcd at {}, which does not answer",
                        cluster.etcd.endpoints.join(", ")
                    ));
                }
                joined => return joined,
            }
            std::thread::sleep(BEAT_EVERY);
        }
    }

    /// Every step may be repeated.
    fn try_new(
        cluster: &ClusterSettings,
        settings: &Settings,
        waiting: &Waiting,
        parts: &OpenParts<'_>,
    ) -> Result<(Joined, Vec<Replicated>)> {
        let folder = settings.storage.data.folder();
        let folder = folder.context("a node keeps its log in a folder")?;
        let mut sequencer = Etcd::open(&cluster.etcd).context("log")?;
        let wanted = settings.storage.partitions;
        let own = partition_folders::wanted_folders(folder, wanted)?;
        let with_data = founding::Folder {
            data: folder,
            partitions: &own,
            parts,
            kind: settings.storage.engine,
        };
        let place = match with_data.found(&mut sequencer, cluster)? {
            Some(place) => place,
            None => {
                let new = Place::new(&cluster.root, ClusterId(random()), PartitionId(0));
                let new = new.with_partitions(own.len() as u32);
                identity::join(&mut sequencer, cluster, folder, &new, parts)?
            }
        };
        formats::join(&mut sequencer, &place)?;
        let partitions = place.partitions();
        ensure!(
            wanted.is_none_or(|wanted| wanted == partitions),
            "partitions: the cluster has {partitions}, and keeps that number: start with --partitions {partitions} or \
             without it"
        );
        let folders = partition_folders::wanted_folders(folder, Some(partitions))?;
        let members = Members::new(place.clone(), cluster.node(), cluster.nodes);
        members.refuse_second(&mut sequencer, &cluster.address())?;
        identity::configure(&mut sequencer, &place, cluster)?;
        object_store::agree(&mut sequencer, &place, cluster)?;
        let mut joined = Joined::of(place, sequencer, cluster);
        for (id, folder) in (0..).map(PartitionId).zip(&folders) {
            joined.0.copy_if_needed(id, cluster, settings, waiting, folder, parts)?;
            // A partition without records needs its folder too, next to copied partitions.
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        identity::keep(folder, joined.0.place.cluster)?;
        Ok(joined)
    }

    /// The number of the cluster's partitions.
    pub fn partitions(&self) -> u32 {
        self.place.partitions()
    }

    pub(super) fn of(place: Place, sequencer: Etcd, cluster: &ClusterSettings) -> (Joined, Vec<Replicated>) {
        let ((reports, roles), process) = (channel(), random() as u64);
        let ids = (0..place.partitions()).map(PartitionId);
        let shared = ids.map(|id| replicated(place.of(id), cluster, process, reports.clone()));
        let shared = shared.collect();
        let joined = Joined {
            place,
            roles,
            sequencer,
            copied: Vec::new(),
            process,
        };
        (joined, shared)
    }

    /// Copies the home into a partition's folder that has no usable data. Before the first term
    /// there is nothing to copy; without a home this waits.
    fn copy_if_needed(
        &mut self,
        id: PartitionId,
        cluster: &ClusterSettings,
        settings: &Settings,
        waiting: &Waiting,
        folder: &Path,
        parts: &OpenParts<'_>,
    ) -> Result<()> {
        if !copying::is_needed(folder)? {
            return Ok(());
        }
        let members = Members::new(self.place.clone(), cluster.node(), cluster.nodes);
        let home = loop {
            members.look_once(&mut self.sequencer).context("log")?;
            match (members.home(id), members.other_home(id)) {
                (None, _) => return Ok(()),
                (_, Some(home)) => break home,
                _ => waiting.say("waiting for a home to copy from"),
            }
            std::thread::sleep(BEAT_EVERY);
        };
        let place = self.place.of(id);
        waiting.say(&format!("copying {}", home.name));
        let has_differed = copying::has_differed(folder);
        copying::begin(folder, has_differed)?;
        let hold = Hold::begin(Box::new(Etcd::open(&cluster.etcd)?), &place, cluster.node())?;
        let hold = KeptHold::new(hold).context("keeping a hold")?;
        let link = Link::new(self.place.cluster, cluster.certificates.as_ref())?;
        let kind = settings.storage.engine.unwrap_or(StoreKind::Memory);
        let fetched = copying::fetch(&link, &home.address, id, parts(folder)?, kind);
        fetched.with_context(|| format!("copying {}", home.name))?;
        copying::finish(folder)?;
        self.copied.push(CopiedPartition { id, hold, has_differed });
        Ok(())
    }
}

/// A node's part in the log of one partition. Each takes an equal part of the budget in etcd.
fn replicated(
    place: Place,
    cluster: &ClusterSettings,
    process: u64,
    reports: Sender<(PartitionId, Role)>,
) -> Replicated {
    let (etcd, store, id) = (cluster.etcd.clone(), cluster.store.clone(), place.cluster);
    let (partition, partitions) = (place.partition, u64::from(place.partitions()));
    Replicated {
        place,
        me: Writer {
            node: cluster.node(),
            incarnation: process,
        },
        nodes: cluster.nodes,
        sequencer: Box::new(move |waker| {
            let opened = open_again(&etcd, waker.clone());
            let both = EtcdWithStore::new(opened, store.as_deref(), id, waker);
            Box::new(both.expect("a thread for the object store"))
        }),
        on_role: Box::new(move |role| {
            // The receiver is dropped when the node ends.
            let _ = reports.send((partition, role.clone()));
        }),
        budget_bytes: cluster.etcd.budget_bytes / partitions,
        objects: cluster.store.is_some().then(ObjectOptions::default),
    }
}

/// Returns true if etcd has not answered: a node that starts waits for it.
fn is_silence(error: &anyhow::Error) -> bool {
    let is_silence = |cause: &(dyn std::error::Error + 'static)| {
        let is_unreachable = matches!(cause.downcast_ref(), Some(OpenError::Unreachable(_)));
        is_unreachable || matches!(cause.downcast_ref(), Some(Failure::Unknown(_)))
    };
    error.chain().any(is_silence)
}

/// Opens another handle of an etcd that was checked before.
fn open_again(options: &EtcdOptions, waker: Waker) -> Etcd {
    loop {
        match Etcd::open_waking(options, waker.clone()) {
            Ok(etcd) => return etcd,
            Err(error) => tracing::warn!(%error, "etcd is asked again"),
        }
        std::thread::sleep(BEAT_EVERY);
    }
}
