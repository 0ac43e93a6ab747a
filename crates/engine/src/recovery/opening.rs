//! The content of a partition's files: the store's, and the log after it.

use std::sync::Arc;

use quartet_env::Disk;
use quartet_log::{Log, LogOpener, ReplayProgress, first_record};
use quartet_model::Version;
use quartet_store::{PartitionStore, Position, Store, StoreOptions};

use crate::options::{OpenError, OpenProgress};
use crate::recovery::replay::Replayer;
use crate::replication::place::{Folder, Places};

/// A partition as its files have it.
pub(crate) struct Recovered {
    pub store: PartitionStore,
    /// The end of the store's files.
    pub position: Position,
    pub checkpoint_bytes: u64,
    pub log: Box<dyn Log>,
    /// The version of the newest transaction.
    pub last: Version,
    /// The position in a shared log at which the node's own log ends.
    pub places: Places,
}

/// Opens the store and the log, and applies the log's records after the store's files.
///
/// Errors: the folder is another's than `folder` says, or its files are of different histories.
pub(crate) fn recover(
    disk: Arc<dyn Disk>,
    log: Box<dyn LogOpener>,
    store_options: &StoreOptions,
    folder: Folder,
    progress: &mut dyn FnMut(OpenProgress),
) -> Result<Recovered, OpenError> {
    let oldest = match folder {
        Folder::Server => None,
        Folder::Node | Folder::Either | Folder::Ending => {
            first_record(disk.as_ref()).map_err(|error| OpenError::Log(error.into()))?
        }
    };
    let mut count_rows = |rows| progress(OpenProgress::Checkpoint { rows });
    let opened = PartitionStore::open(disk, store_options, &mut count_rows)?;
    let position = opened.store.applied();
    let checkpoint_bytes = opened.checkpoint.map_or(0, |found| found.summary.bytes);
    let mut replayer = Replayer::new(opened.store);
    let mut log_progress = |read: ReplayProgress| progress(read.into());
    // The record at the store's position says where in a shared log that is.
    let is_held = oldest.is_some_and(|oldest| oldest <= position.sequence);
    let mut places = Places::new(folder, position, is_held);
    let from = match is_held {
        true => position.sequence,
        false => position.sequence.next(),
    };
    let mut replay = |sequence, payload: &[u8]| {
        places.note(sequence, payload)?;
        match sequence > position.sequence {
            true => replayer.record(payload),
            false => Ok(()),
        }
    };
    let log = log
        .open(from, &mut replay, &mut log_progress)
        .map_err(|error| replayer.error(error))?;
    places.note_last(log.as_ref()).map_err(OpenError::Log)?;
    places.end().map_err(OpenError::Log)?;
    Ok(Recovered {
        last: replayer.version,
        store: replayer.store,
        position,
        checkpoint_bytes,
        log,
        places,
    })
}
