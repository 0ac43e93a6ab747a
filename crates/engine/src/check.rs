//! Reading a partition's directory to see whether it is sound: all that opening does, and nothing on disk changed.

use quartet_env::Disk;
use quartet_log::{LogReport, ReplayProgress};
use quartet_model::Version;
use quartet_store::{Read, state_hash};

use crate::checkpoints::{self, FoundCheckpoint, Replayer};
use crate::{OpenError, OpenProgress};

/// What a sound directory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// The newest checkpoint. Older ones, left over by a crash, are not read.
    pub checkpoint: Option<FoundCheckpoint>,
    pub log: LogReport,
    /// Transactions in the log after the checkpoint.
    pub transactions: u64,
    /// Of the newest transaction.
    pub version: Version,
    pub rows: u64,
    /// As [`Engine::state_hash`](crate::Engine::state_hash) of the whole partition, once it is opened.
    pub state_hash: u128,
}

/// Verifies every checksum, the structure of every record, and that versions ascend. Needs as much memory as opening.
///
/// Errors: those with which [`Engine::open`](crate::Engine::open) would refuse.
pub fn check(disk: &dyn Disk, progress: &mut dyn FnMut(OpenProgress)) -> Result<CheckReport, OpenError> {
    let loaded = checkpoints::load_newest(disk, progress)?;
    let checkpoint = loaded.found.clone();
    let replay_from = loaded.position.sequence.next();
    let mut replayer = Replayer::after(loaded);
    let mut log_progress = |read: ReplayProgress| progress(read.into());
    let mut replay = |_, payload: &[u8]| replayer.record(payload);
    let log = quartet_log::check(disk, replay_from, &mut replay, &mut log_progress)
        .map_err(|error| OpenError::Log(error.into()))?;
    Ok(CheckReport {
        checkpoint,
        log,
        transactions: replayer.transactions,
        version: replayer.version,
        rows: replayer.store.len(),
        state_hash: state_hash(&replayer.store, None),
    })
}
