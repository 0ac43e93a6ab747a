//! Converts a directory that no server uses from one store to the other.

use std::sync::Arc;

use quartet_env::{Clock, Disk};
use quartet_log::ReplayProgress;
use quartet_store::{PartitionStore, Position, Store, StoreKind, StoreOptions};

use crate::options::{OpenError, OpenProgress};
use crate::parts::Parts;
use crate::recovery::replay::Replayer;

/// Converts the directory unless it is of that kind already; true if it was not. A crash leaves it
/// of one kind or the other, with everything that was acknowledged.
pub fn convert(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    to: StoreKind,
    progress: &mut dyn FnMut(OpenProgress),
) -> Result<bool, OpenError> {
    let failed = |source| OpenError::Store(quartet_store::OpenError::Io(source));
    if StoreKind::of(disk.as_ref())
        .map_err(failed)?
        .unwrap_or(StoreKind::Memory)
        == to
    {
        return Ok(false);
    }
    let mut count_rows = |rows| progress(OpenProgress::Checkpoint { rows });
    let opened = PartitionStore::open(disk.clone(), &StoreOptions::default(), &mut count_rows)?;
    let first = opened.store.applied().sequence.next();
    let mut replayer = Replayer::new(opened.store);
    let mut log_progress = |read: ReplayProgress| progress(read.into());
    let mut replay = |_, payload: &[u8]| replayer.record(payload);
    let opener = Parts::on_one_machine(disk.clone(), clock).log;
    let log = opener.open(first, &mut replay, &mut log_progress);
    let mut log = log.map_err(|error| replayer.error(error))?;
    let position = Position {
        sequence: log.tail(),
        version: replayer.version,
    };
    log.close().map_err(OpenError::Log)?;
    let converted = replayer.store.convert(disk, position);
    converted.map_err(|error| OpenError::Store(error.into()))?;
    Ok(true)
}
