//! Restoring: a chain, verified first, becomes a data folder.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use quartet_engine::{Restoration, StoreKind};
use quartet_env::Disk;
use quartet_model::{DatabaseId, LayerId, LogSequence, Version};
use quartet_store::{Position, Row};

use crate::archive::read_part;
use crate::frame::{Frame, Frames, Rows};
use crate::session::ALL;
use crate::{BackupError, Chain, Part, Target};

/// What is to be restored.
#[derive(Clone, Copy, Debug)]
pub struct Restore {
    /// Every transaction up to this version; `None`: all there are.
    pub at: Option<Version>,
    /// The engine that is to open the folder.
    pub engine: StoreKind,
    /// This database alone, beside what the server keeps of databases.
    pub database: Option<DatabaseId>,
}

/// What has been restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Of the newest transaction.
    pub version: Version,
    /// How many rows there are.
    pub rows: u64,
    /// The hash of all rows, as `quartet check` prints it.
    pub state_hash: u128,
}

/// Writes the state into `disk`, which is empty. The chain was verified; everything is read once more, so a target that changes meanwhile is
/// noticed.
pub fn restore(
    target: &dyn Target,
    chain: &Chain,
    disk: Arc<dyn Disk>,
    wanted: Restore,
    progress: &mut dyn FnMut(u64),
) -> Result<Restored, BackupError> {
    let failed = |error: quartet_engine::OpenError| BackupError::Restore(error.to_string());
    let database = wanted.database;
    let is_wanted = move |key: &[u8]| database.is_none_or(|database| belongs_to(key, database));
    let mut restoration = Restoration::begin(disk, wanted.engine, Box::new(is_wanted)).map_err(failed)?;
    let base = chain.base();
    let (after, through) = (Version(base.version), wanted.at.unwrap_or(ALL));
    let mut version = after;
    let mut sequence = LogSequence(base.first_sequence.saturating_sub(1));
    let mut done = 0;
    std::thread::scope(|scope| {
        let (give, parts) = sync_channel(PARTS_AHEAD);
        scope.spawn(move || {
            for part in chain.steps.iter().flat_map(|step| &step.parts) {
                let pieces = pieces_of(target, part);
                let is_last = pieces.is_err();
                // Nobody takes it if the rest is not wanted.
                if give.send((part.bytes, pieces)).is_err() || is_last {
                    break;
                }
            }
        });
        for (bytes, pieces) in parts {
            for piece in pieces? {
                match piece {
                    Piece::Rows(rows) => {
                        for row in rows {
                            restoration.row(row).map_err(failed)?;
                        }
                    }
                    Piece::Record { sequence: at, payload } => {
                        version = version.max(restoration.record(&payload, after, through).map_err(failed)?);
                        sequence = at;
                    }
                }
            }
            done += bytes;
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

/// As many parts wait, taken apart, while another is put into the store and one more is read. A part is as large as one record may be, so they are few.
const PARTS_AHEAD: usize = 1;

/// What a part holds, taken apart on another thread.
enum Piece {
    Rows(Vec<Row>),
    Record { sequence: LogSequence, payload: Vec<u8> },
}

fn pieces_of(target: &dyn Target, part: &Part) -> Result<Vec<Piece>, BackupError> {
    let bytes = read_part(target, part)?;
    let mut frames = Frames::of_part(&part.name, &bytes)?;
    let mut pieces = Vec::new();
    while let Some(frame) = frames.next()? {
        pieces.push(match frame {
            Frame::Rows(rows) => Piece::Rows(rows_of(rows)?),
            Frame::Record { sequence, payload } => Piece::Record {
                sequence,
                payload: payload.to_vec(),
            },
        });
    }
    Ok(pieces)
}

fn rows_of(mut rows: Rows<'_>) -> Result<Vec<Row>, BackupError> {
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(|reason| BackupError::Restore(reason.into()))? {
        found.push(row.row());
    }
    Ok(found)
}

/// The catalogue of databases is needed to open any.
fn belongs_to(key: &[u8], database: DatabaseId) -> bool {
    let [high, low] = database.0.to_be_bytes();
    key.starts_with(&[high, low]) || key.starts_with(&[0, 0, LayerId::System as u8])
}
