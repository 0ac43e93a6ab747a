//! A home's continuous backup. Its records are durable beside the nodes, so etcd may drop them.
//!
//! It is an ordinary backup: every new home continues the existing chain, and starts with all rows
//! if the chain does not lead to its own log. If old versions must be removed, the archive restarts
//! once a day: `take` then finds expired versions, and decides if all rows are due.
//!
//! The home of the first partition archives all partitions from its own replicas, in the layout of
//! any backup of several. Each is archived by a thread of its own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quartet_backup::{
    BackupError, BackupOptions, Manifest, open_shared, open_target, partition_address, state_partitions, take,
};
use quartet_engine::{Engine, PartitionId};
use quartet_env::{Runtime, SystemRuntime};
use quartet_model::LogSequence;

use crate::operations::local_backup::{LocalSource, Watched};
use crate::tenants::Tenants;

/// Interval of additions, and of attempts after a failure.
const STEP_EVERY: Duration = Duration::from_secs(2);
/// Interval of the search for expired versions.
const ANEW_EVERY: Duration = Duration::from_hours(24);
/// Interval of checks for its end.
const LOOK: Duration = Duration::from_millis(100);
/// Time limit of a request to an object store.
const PATIENCE: Duration = Duration::from_secs(30);

/// The backup that a home keeps. It ends with its term.
pub struct Archiving {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Archiving {
    /// Starts or continues the backup at `address`. `has_begun`: this process has added to it
    /// before, so it must exist; one for each partition.
    pub fn begin(
        address: &str,
        keep: Option<Duration>,
        has_begun: &[Arc<AtomicBool>],
        tenants: &Arc<Tenants>,
    ) -> std::io::Result<Archiving> {
        let mut archiving = Archiving {
            is_over: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        let partitions = &tenants.parts.partitions;
        for ((partition, engine), has_begun) in partitions.iter().zip(has_begun) {
            let archive = Archive {
                address: partition_address(address, partition.0),
                partitions: partitions.count() as u32,
                partition,
                keep,
                has_begun: has_begun.clone(),
                engine: engine.clone(),
            };
            // The layers go with the term, however long the place takes to answer.
            let (tenants, over) = (Arc::downgrade(tenants), archiving.is_over.clone());
            let thread = std::thread::Builder::new()
                .name("archive".into())
                .spawn(move || archive.keep_on(&tenants, &over));
            match thread {
                Ok(thread) => archiving.threads.push(thread),
                Err(error) => {
                    archiving.end();
                    return Err(error);
                }
            }
        }
        Ok(archiving)
    }

    /// Requests its end.
    pub fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits until it has.
    pub fn end(self) {
        self.stop();
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the archive panicked");
            }
        }
    }
}

/// The archive of one partition.
struct Archive {
    address: String,
    /// The number of the cluster's partitions.
    partitions: u32,
    partition: PartitionId,
    keep: Option<Duration>,
    has_begun: Arc<AtomicBool>,
    engine: Arc<Engine>,
}

impl Archive {
    /// Adds to the archive until the term has ended.
    fn keep_on(&self, tenants: &Weak<Tenants>, over: &AtomicBool) {
        SystemRuntime::default().make_way();
        let is_over = || over.load(Ordering::Relaxed);
        while !is_over() {
            let mut source = LocalSource::new(tenants.clone(), self.partition, &is_over);
            if let Err(error) = self.keep_once(&mut source, &is_over)
                && !is_over()
            {
                tracing::warn!(%error, address = self.address, "the archive is not kept at present");
            }
            let mut pause = STEP_EVERY;
            while !is_over() && !pause.is_zero() {
                std::thread::sleep(LOOK);
                pause = pause.saturating_sub(LOOK);
            }
        }
    }

    /// Adds to the archive until it must end or restart, or an error occurs.
    fn keep_once(&self, source: &mut LocalSource<'_>, is_over: &(dyn Fn() -> bool + Sync)) -> Result<(), BackupError> {
        let Archive {
            address,
            keep,
            has_begun,
            engine,
            ..
        } = self;
        let keep = *keep;
        let has_begun_here = has_begun.load(Ordering::Relaxed);
        let lost = || BackupError::Address(format!("what was at {address} is gone"));
        let target = match address.contains("://") {
            true => open_shared(address, PATIENCE)?,
            // A folder that is not mounted any more: files written there would be on this node's
            // own disk.
            false if has_begun_here && !Path::new(address).is_dir() => return Err(lost()),
            false => open_target(address, true)?,
        };
        let is_manifest = |name: &String| Manifest::number_in(name).is_some();
        if has_begun_here && !target.list().is_ok_and(|names| names.iter().any(is_manifest)) {
            return Err(lost());
        }
        if self.partition == PartitionId(0) && self.partitions > 1 {
            state_partitions(&*target, self.partitions)?;
        }
        let target = Watched::new(target, is_over);
        let options = BackupOptions {
            follow: Some(STEP_EVERY),
            keep,
            ..BackupOptions::default()
        };
        let start = Instant::now();
        take(&target, source, &options, &mut |_| {}, &mut |progress| {
            has_begun.store(true, Ordering::Relaxed);
            engine.archived(LogSequence(progress.next_sequence.0.saturating_sub(1)));
            !is_over() && (keep.is_none() || start.elapsed() < ANEW_EVERY)
        })?;
        Ok(())
    }
}
