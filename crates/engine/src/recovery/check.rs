//! Reading a partition's directory to see whether it is sound: all that opening does, and nothing
//! on disk changed.

use std::sync::Arc;

use quartet_env::Disk;
use quartet_log::{LogReport, ReplayProgress};
use quartet_model::Version;
use quartet_store::{DiskUse, FoundCheckpoint, PartitionStore, Read, Store, StoreOptions, state_hash};

use crate::invariants::judge;
use crate::invariants::{Findings, Invariants};
use crate::options::{OpenError, OpenProgress};
use crate::recovery::replay::Replayer;

/// Contents of a sound directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// The newest checkpoint. Older checkpoints, left by a crash, are not read.
    pub checkpoint: Option<FoundCheckpoint>,
    /// Disk use of the ssd engine's files.
    pub base: Option<DiskUse>,
    /// Contents of the log.
    pub log: LogReport,
    /// Transactions in the log after the checkpoint.
    pub transactions: u64,
    /// Version of the newest transaction.
    pub version: Version,
    /// The number of rows.
    pub rows: u64,
    /// As [`Engine::state_hash`](crate::Engine::state_hash) of the whole partition, once it is
    /// opened.
    pub state_hash: u128,
    /// Breached invariants between the rows of a layer.
    pub findings: Findings,
}

/// Verifies every checksum, the structure of every record, that versions ascend, and what the
/// layers promise about their rows. Needs as much memory as opening.
///
/// Errors: those that [`Engine::open`](crate::Engine::open) would return.
pub fn check(
    disk: Arc<dyn Disk>,
    invariants: &[Box<dyn Invariants>],
    progress: &mut dyn FnMut(OpenProgress),
) -> Result<CheckReport, OpenError> {
    let mut count_rows = |rows| progress(OpenProgress::Checkpoint { rows });
    let opened = PartitionStore::open(disk.clone(), &StoreOptions::default(), &mut count_rows)?;
    let base = opened.store.disk_use();
    opened.store.verify().map_err(quartet_store::OpenError::Store)?;
    let replay_from = opened.store.applied().sequence.next();
    let mut replayer = Replayer::new(opened.store);
    let mut log_progress = |read: ReplayProgress| progress(read.into());
    let mut replay = |_, payload: &[u8]| replayer.record(payload);
    let log = quartet_log::check(disk.as_ref(), replay_from, &mut replay, &mut log_progress);
    let log = log.map_err(|error| replayer.error(error.into()))?;
    let state_hash = state_hash(&replayer.store, None).map_err(quartet_store::OpenError::Store)?;
    let findings = judge(&|| replayer.store.snapshot(), replayer.version, invariants);
    let findings = findings.map_err(quartet_store::OpenError::Store)?;
    Ok(CheckReport {
        findings,
        checkpoint: opened.checkpoint,
        base,
        log,
        transactions: replayer.transactions,
        version: replayer.version,
        rows: replayer.store.len(),
        state_hash,
    })
}
