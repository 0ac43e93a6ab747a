//! The engine's side of a backup: it returns rows of one snapshot, and records of the log, a few
//! megabytes at a time.
//!
//! The same request returns the same answer, so a lost answer is requested again.

use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::{Dependency, Engine, LogReadError, LogReader};
use quartet_model::{LogSequence, Version};
use quartet_store::{PartitionSnapshot, Read};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::frame::{put_record, put_row, put_rows};
use crate::manifest::hex;
use crate::{Anchor, BackupError, DatabaseName};

/// Size at which a frame of rows is closed.
const FRAME_BYTES: usize = 64 << 10;

/// One backup's place in an engine. As long as it lives, what it has still to give is kept.
pub struct Session {
    engine: Arc<Engine>,
    snapshot: Option<PartitionSnapshot>,
    /// Reads the log after the anchor, up to the snapshot.
    before_snapshot: Option<LogReader>,
    /// Reads the log after the snapshot, or after the anchor if there is no snapshot.
    reader: LogReader,
}

/// The answer to the start of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupStart {
    /// The version of the snapshot, if it is requested, or is needed because the log does not reach
    /// back to the anchor.
    pub snapshot: Option<u64>,
    /// The records after the anchor up to this one hold everything that the snapshot contains and
    /// the anchor's chain lacks. They are returned first. `None`: the log does not reach back to
    /// the anchor, or there is no snapshot.
    pub last_before_snapshot: Option<u64>,
    /// About how many bytes its rows take.
    pub snapshot_bytes: u64,
    /// The first record of the log to be requested after the snapshot, or after the anchor.
    pub next_sequence: u64,
    /// The record before it, if the log still has it.
    pub anchor: Option<Anchor>,
    /// The databases that there are.
    pub databases: Vec<DatabaseName>,
}

impl Session {
    /// Continues after `anchor`, if the engine's log has that record; otherwise, and if `is_full`,
    /// with a snapshot. Waits until everything committed before is durable, so that it is included.
    pub fn begin(
        engine: Arc<Engine>,
        anchor: Option<Anchor>,
        is_full: bool,
    ) -> Result<(Session, BackupStart), BackupError> {
        // From here on, no record after the anchor is trimmed.
        let continued = anchor.as_ref().and_then(|anchor| continued(&engine, anchor));
        match continued {
            Some(reader) if !is_full => {
                let (_, _, dependency) = engine.snapshot();
                wait_durable(&engine, dependency)?;
                Ok(Session::go_on(engine, reader, anchor))
            }
            continued => Session::with_snapshot(engine, continued),
        }
    }

    fn go_on(engine: Arc<Engine>, reader: LogReader, anchor: Option<Anchor>) -> (Session, BackupStart) {
        let start = BackupStart {
            snapshot: None,
            last_before_snapshot: None,
            snapshot_bytes: 0,
            next_sequence: reader.position().0,
            anchor,
            databases: Vec::new(),
        };
        let session = Session {
            engine,
            snapshot: None,
            before_snapshot: None,
            reader,
        };
        (session, start)
    }

    fn with_snapshot(
        engine: Arc<Engine>,
        before_snapshot: Option<LogReader>,
    ) -> Result<(Session, BackupStart), BackupError> {
        // Commits that are not in the snapshot are after this position, or have one of its
        // versions.
        let next = engine.durable_sequence().next();
        let reader = engine.read_log(next).map_err(unreadable)?;
        let (snapshot, version, dependency) = engine.snapshot();
        wait_durable(&engine, dependency)?;
        let last_before_snapshot = before_snapshot.as_ref().map(|_| engine.durable_sequence().0);
        let start = BackupStart {
            snapshot: Some(version.0),
            last_before_snapshot,
            snapshot_bytes: engine.live_bytes(),
            next_sequence: next.0,
            anchor: anchor_at(&engine, LogSequence(next.0 - 1)),
            databases: Vec::new(),
        };
        let session = Session {
            engine,
            snapshot: Some(snapshot),
            before_snapshot,
            reader,
        };
        Ok((session, start))
    }

    /// Returns frames with the rows after the key `after`, or from the first row on: about
    /// `bytes_max` bytes, or a single larger row. Empty if there are none left. The log before the
    /// snapshot is no longer available afterwards.
    pub fn rows(&mut self, after: Option<&[u8]>, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        self.before_snapshot = None;
        let snapshot = self.snapshot.as_ref();
        let snapshot = snapshot.ok_or_else(|| BackupError::Source("this backup has no snapshot".into()))?;
        let start = after.map_or_else(Vec::new, |after| [after, &[0]].concat());
        let mut frames = Vec::with_capacity(bytes_max + 2 * FRAME_BYTES);
        let mut payload = Vec::with_capacity(2 * FRAME_BYTES);
        let read = snapshot.walk(&start, &mut |row| {
            put_row(&mut payload, row);
            if payload.len() >= FRAME_BYTES {
                put_rows(&mut frames, &payload);
                payload.clear();
            }
            match frames.len() + payload.len() < bytes_max {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        read.map_err(|error| BackupError::Source(error.to_string()))?;
        if !payload.is_empty() {
            put_rows(&mut frames, &payload);
        }
        Ok(frames)
    }

    /// Returns frames with the durable records from `from` on: about `bytes_max` bytes, or a single
    /// larger record. Empty if there are none for now. After the first request of rows, this is the
    /// log after the snapshot, and the snapshot is dropped.
    pub fn log(&mut self, from: LogSequence, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        if self.before_snapshot.is_none() {
            self.snapshot = None;
        }
        let reader = self.before_snapshot.as_mut().unwrap_or(&mut self.reader);
        if reader.position() != from {
            *reader = self.engine.read_log(from).map_err(unreadable)?;
        }
        let mut frames = Vec::new();
        while frames.len() < bytes_max
            && let Some(record) = reader.next().map_err(unreadable)?
        {
            put_record(&mut frames, record.sequence, record.payload);
        }
        Ok(frames)
    }
}

fn wait_durable(engine: &Engine, dependency: Dependency) -> Result<(), BackupError> {
    match engine.wait_durable(dependency) {
        true => Ok(()),
        false => Err(BackupError::Source("the log has failed".into())),
    }
}

/// Returns a reader of the record after `anchor` and later ones, if the log has the anchor.
fn continued(engine: &Engine, anchor: &Anchor) -> Option<LogReader> {
    let mut reader = engine.read_log(LogSequence(anchor.sequence)).ok()?;
    let record = reader.next().ok()??;
    let is_same = record.sequence.0 == anchor.sequence && hex(xxh3_128(record.payload)) == anchor.digest;
    is_same.then_some(reader)
}

fn anchor_at(engine: &Engine, sequence: LogSequence) -> Option<Anchor> {
    if sequence == LogSequence::ZERO {
        return None;
    }
    let mut reader = engine.read_log(sequence).ok()?;
    let record = reader.next().ok()??;
    Some(Anchor {
        sequence: record.sequence.0,
        digest: hex(xxh3_128(record.payload)),
    })
}

fn unreadable(error: LogReadError) -> BackupError {
    BackupError::Source(error.to_string())
}

/// The version for which nothing is skipped.
pub(crate) const ALL: Version = Version(u64::MAX);
