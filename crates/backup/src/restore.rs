//! Restoring: a chain, verified first, becomes a data folder.

use std::sync::Arc;

use quartet_engine::{Restoration, StoreKind};
use quartet_env::Disk;
use quartet_model::{DatabaseId, LayerId, LogSequence, Version};
use quartet_store::Position;

use crate::archive::read_ahead;
use crate::frame::{Frame, Frames};
use crate::session::ALL;
use crate::{BackupError, Chain, Target};

/// The request for a restore.
#[derive(Clone, Copy, Debug)]
pub struct Restore {
    /// Every transaction up to this version; `None`: all there are.
    pub at: Option<Version>,
    /// The engine for the restored folder.
    pub engine: StoreKind,
    /// Restores only this database, and the server's rows about databases.
    pub database: Option<DatabaseId>,
}

/// The result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Version of the newest transaction.
    pub version: Version,
    /// The number of rows.
    pub rows: u64,
    /// The hash of all rows, as `quartet check` prints it.
    pub state_hash: u128,
}

/// Writes the state into `disk`, which is empty. The chain was verified; everything is read once
/// more, so a target that changes meanwhile is noticed.
pub fn restore(
    target: &dyn Target,
    chain: &Chain,
    disk: Arc<dyn Disk>,
    options: Restore,
    progress: &mut dyn FnMut(u64),
) -> Result<Restored, BackupError> {
    let failed = |error: quartet_engine::OpenError| BackupError::Restore(error.to_string());
    let database = options.database;
    let is_wanted = move |key: &[u8]| database.is_none_or(|database| belongs_to(key, database));
    let mut restoration = Restoration::begin(disk, options.engine, Box::new(is_wanted)).map_err(failed)?;
    let base = chain.base();
    let (after, through) = (Version(base.version), options.at.unwrap_or(ALL));
    let mut version = after;
    let mut sequence = LogSequence(base.first_sequence.saturating_sub(1));
    let mut done = 0;
    std::thread::scope(|scope| {
        for (part, bytes) in read_ahead(scope, target, &chain.steps) {
            let bytes = bytes?;
            let mut frames = Frames::of_part(&part.name, &bytes)?;
            while let Some(frame) = frames.next()? {
                match frame {
                    Frame::Rows(mut rows) => {
                        while let Some(row) = rows.next().map_err(|reason| BackupError::Restore(reason.into()))? {
                            restoration.row(row.key, row.value, row.version).map_err(failed)?;
                        }
                    }
                    Frame::Record { sequence: at, payload } => {
                        version = version.max(restoration.record(payload, after, through).map_err(failed)?);
                        sequence = at;
                    }
                }
            }
            done += part.bytes;
            progress(done);
        }
        Ok::<(), BackupError>(())
    })?;
    let (rows, state_hash) = restoration.finish(Position { sequence, version }).map_err(failed)?;
    Ok(Restored {
        version,
        rows,
        state_hash,
    })
}

/// The catalogue of databases is needed to open any.
fn belongs_to(key: &[u8], database: DatabaseId) -> bool {
    let [high, low] = database.0.to_be_bytes();
    key.starts_with(&[high, low]) || key.starts_with(&[0, 0, LayerId::System as u8])
}
