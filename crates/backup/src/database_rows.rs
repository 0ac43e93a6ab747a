//! The rows of a single logical database, from a folder that was restored with no other database,
//! as frames for a server that writes them.

use std::ops::ControlFlow;

use quartet_engine::Engine;
use quartet_model::LayerId;
use quartet_store::{PartitionSnapshot, Read, Row};

use crate::BackupError;
use crate::frame::{Frame, Frames, put_row, put_rows};

/// About how many bytes of rows a piece has. A longer row is a piece of its own.
const PIECE_BYTES: usize = 1 << 20;

/// The rows of every database in an engine, in order, without the server's own rows.
pub struct DatabaseRows {
    snapshot: PartitionSnapshot,
    /// The last key of the previous piece.
    after: Vec<u8>,
}

/// Some rows.
pub struct PieceOfRows {
    /// They are read by [`read_rows`].
    pub frames: Vec<u8>,
    /// Their number.
    pub rows: u64,
}

impl DatabaseRows {
    /// Reads an engine as it is now.
    pub fn of(engine: &Engine) -> DatabaseRows {
        let (snapshot, ..) = engine.snapshot();
        DatabaseRows {
            snapshot,
            after: Vec::new(),
        }
    }

    /// The next rows; `None` at the end.
    pub fn next_piece(&mut self) -> Result<Option<PieceOfRows>, BackupError> {
        let start = [&self.after[..], &[0]].concat();
        let (mut payload, mut rows) = (Vec::new(), 0);
        let read = self.snapshot.walk(&start, &mut |row| {
            if row.key().get(2) == Some(&(LayerId::System as u8)) {
                return ControlFlow::Continue(());
            }
            let bytes = payload.len() + row.key().len() + row.value().len();
            if rows > 0 && bytes > PIECE_BYTES {
                return ControlFlow::Break(());
            }
            put_row(&mut payload, row);
            rows += 1;
            self.after = row.key().to_vec();
            ControlFlow::Continue(())
        });
        read.map_err(|error| BackupError::Source(error.to_string()))?;
        let mut frames = Vec::with_capacity(payload.len() + 16);
        put_rows(&mut frames, &payload);
        Ok((rows > 0).then_some(PieceOfRows { frames, rows }))
    }
}

/// The rows of a piece that a peer sent.
pub fn read_rows(frames: &[u8]) -> Result<Vec<Row>, BackupError> {
    let mut all_rows = Vec::new();
    let mut frames = Frames {
        file: "the rows",
        offset: 0,
        unread: frames,
    };
    let damaged = |reason| BackupError::Damaged {
        file: "the rows".into(),
        offset: 0,
        reason,
    };
    while let Some(frame) = frames.next()? {
        let Frame::Rows(mut rows) = frame else {
            return Err(damaged("a record of a log instead of rows"));
        };
        while let Some(row) = rows.next().map_err(damaged)? {
            all_rows.push(Row::new(row.key, row.value, row.version));
        }
    }
    Ok(all_rows)
}
