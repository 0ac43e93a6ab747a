//! A copy of a node: the rows at one record, then the records of the file log after it.
//!
//! ```text
//! copy      QCPY | format 1 u32 | sequence u64 | place (`place`) | version u64     the state's record
//!           pieces
//! piece     1 | key bytes u32 | value bytes u32 | version u64 | key | value        a row, in key order
//!           2 | sequence u64 | payload bytes u32 | payload with its place          a record, in order
//!           3 | rows u64                                                           the end
//! ```
//!
//! The bytes are opaque to their carrier and stay in order. Meanwhile the source holds a snapshot
//! and its file log. The target cannot be opened until it is finished; then its file log has one
//! record, which gives its position in the shared log.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quartet_log_replicated::Position as Place;
use quartet_model::{LogSequence, Version, format};
use quartet_store::{PartitionSnapshot, Position, Read, StoreKind};

use crate::engine::Engine;
use crate::log_reader::LogReader;
use crate::parts::Parts;
use crate::recovery::restore::Restoration;
use crate::replication::place::{Kind, NONE_BEFORE, Placed};

const MAGIC: &[u8; 4] = b"QCPY";
/// Bytes that are gathered before they are given.
const CHUNK_BYTES: usize = 256 << 10;
/// Most bytes that are given at a time: a longer row or record is cut.
const GIVEN_BYTES_MAX: usize = 1 << 20;
/// Interval and maximum time of polling for a requested snapshot.
const LOOK: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(10);
const ROW: u8 = 1;
const RECORD: u8 = 2;
const END: u8 = 3;

/// The reason why a copy failed. Start again from an empty directory.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source has nothing that is confirmed, or is no node of a replicated log, or is
    /// uncertain.
    #[error("this node has no confirmed state to copy at present")]
    NoState,
    /// The source's own files do not give what they should, or its log was trimmed meanwhile.
    #[error("the source cannot be read: {0}")]
    Source(String),
    /// The bytes are no copy.
    #[error("these bytes are no copy of a node, or parts of it are missing")]
    Malformed,
    /// The target's disk.
    #[error("the copy cannot be written: {0}")]
    Target(String),
}

/// A copy being given.
pub struct CopySource {
    snapshot: Option<PartitionSnapshot>,
    /// The last row of the previous chunk.
    last_key: Option<Vec<u8>>,
    rows: u64,
    reader: LogReader,
    chunk: Vec<u8>,
    /// Bytes of the chunk that are given.
    given: usize,
    is_over: bool,
}

impl Engine {
    /// Starts a copy of all confirmed state. Waits until the epoch in flight is confirmed.
    pub fn copy_source(&self) -> Result<CopySource, CopyError> {
        let shared = self.shared();
        let standing = shared.standing.as_ref().ok_or(CopyError::NoState)?;
        let until = shared.runtime.now() + PATIENCE;
        standing.wishes.copy.store(true, Ordering::SeqCst);
        shared.flusher.wake();
        let copied = loop {
            if let Some(copied) = standing.copied.lock().take() {
                break copied;
            }
            if shared.runtime.now() >= until {
                return Err(CopyError::NoState);
            }
            shared.runtime.pause(LOOK);
        };
        if copied.place.sequence == LogSequence::ZERO {
            return Err(CopyError::NoState);
        }
        let reader = self.read_log(copied.place.sequence.next());
        let mut chunk = [
            &MAGIC[..],
            &format::written().to_le_bytes(),
            &copied.place.sequence.0.to_le_bytes(),
        ]
        .concat();
        chunk.extend_from_slice(&whole(copied.place).encode());
        chunk.extend_from_slice(&copied.version.0.to_le_bytes());
        Ok(CopySource {
            snapshot: Some(copied.snapshot),
            last_key: None,
            rows: 0,
            reader: reader.map_err(|error| CopyError::Source(error.to_string()))?,
            chunk,
            given: 0,
            is_over: false,
        })
    }
}

impl CopySource {
    /// Returns the next bytes, at most 1 MiB; `None` at the end. Reads from the disk.
    #[expect(clippy::should_implement_trait, reason = "it answers with errors of its own")]
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, CopyError> {
        if self.given < self.chunk.len() {
            let end = self.chunk.len().min(self.given + GIVEN_BYTES_MAX);
            let piece = self.chunk[self.given..end].to_vec();
            self.given = end;
            return Ok(Some(piece));
        }
        (self.given, self.chunk) = (0, Vec::new());
        while self.chunk.is_empty() && !self.is_over {
            self.gather()?;
        }
        match self.chunk.len() {
            0 => Ok(None),
            1..=GIVEN_BYTES_MAX => Ok(Some(std::mem::take(&mut self.chunk))),
            _ => self.next(),
        }
    }

    /// Gathers about 256 KiB, or one row or record that is longer.
    fn gather(&mut self) -> Result<(), CopyError> {
        if let Some(snapshot) = self.snapshot.take() {
            let is_done = self.rows_of(&snapshot)?;
            self.snapshot = (!is_done).then_some(snapshot);
        } else if self.records()? {
            self.chunk.push(END);
            self.chunk.extend_from_slice(&self.rows.to_le_bytes());
            self.is_over = true;
        }
        Ok(())
    }

    /// Returns true once all rows were returned.
    fn rows_of(&mut self, snapshot: &PartitionSnapshot) -> Result<bool, CopyError> {
        let start = self.last_key.take().map(|key| [&key[..], b"\0"].concat());
        let (chunk, rows, last_key) = (&mut self.chunk, &mut self.rows, &mut self.last_key);
        let walked = snapshot.walk(start.as_deref().unwrap_or_default(), &mut |row| {
            chunk.push(ROW);
            chunk.extend_from_slice(&(row.key().len() as u32).to_le_bytes());
            chunk.extend_from_slice(&(row.value().len() as u32).to_le_bytes());
            chunk.extend_from_slice(&row.version().0.to_le_bytes());
            chunk.extend_from_slice(row.key());
            chunk.extend_from_slice(row.value());
            *rows += 1;
            if chunk.len() < CHUNK_BYTES {
                return ControlFlow::Continue(());
            }
            *last_key = Some(row.key().to_vec());
            ControlFlow::Break(())
        });
        walked.map_err(|error| CopyError::Source(error.to_string()))?;
        Ok(self.last_key.is_none())
    }

    /// Returns true once all present records were returned.
    fn records(&mut self) -> Result<bool, CopyError> {
        while self.chunk.len() < CHUNK_BYTES {
            let record = self.reader.next();
            let record = record.map_err(|error| CopyError::Source(error.to_string()))?;
            let Some(record) = record else {
                return Ok(true);
            };
            self.chunk.push(RECORD);
            self.chunk.extend_from_slice(&record.sequence.0.to_le_bytes());
            self.chunk
                .extend_from_slice(&(record.payload.len() as u32).to_le_bytes());
            self.chunk.extend_from_slice(record.payload);
        }
        Ok(false)
    }
}

/// A directory that is being filled with a copy.
pub struct CopyTarget {
    parts: Parts,
    restoration: Restoration,
    /// Bytes that do not make a whole piece yet.
    pending: Vec<u8>,
    /// Length in bytes that the first piece of `pending` announces.
    announced: usize,
    /// The last whole record.
    place: Option<Place>,
    version: Version,
    rows: u64,
    is_whole: bool,
}

impl CopyTarget {
    /// Starts in an empty directory, where `parts` opens the file log.
    pub fn begin(parts: Parts, kind: StoreKind) -> Result<CopyTarget, CopyError> {
        let restoration = Restoration::begin(parts.disk.clone(), kind, Box::new(|_| true));
        Ok(CopyTarget {
            restoration: restoration.map_err(|error| CopyError::Target(error.to_string()))?,
            parts,
            pending: Vec::new(),
            announced: 0,
            place: None,
            version: Version::ZERO,
            rows: 0,
            is_whole: false,
        })
    }

    /// Takes the next bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), CopyError> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() < self.announced {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        let mut remaining = &pending[..];
        while let Some(behind) = self.piece(remaining)? {
            remaining = behind;
        }
        self.announced = announced(remaining);
        self.pending = remaining.to_vec();
        Ok(())
    }

    /// Reads one piece, and returns the remaining bytes; `None` if the piece is incomplete.
    fn piece<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<&'b [u8]>, CopyError> {
        if self.is_whole && !bytes.is_empty() {
            return Err(CopyError::Malformed);
        }
        let mut fields = Fields(bytes);
        let result = match self.place {
            None => self.head(&mut fields),
            Some(_) => match fields.take(1) {
                Some([ROW]) => self.row(&mut fields),
                Some([RECORD]) => self.record(&mut fields),
                Some([END]) => self.end(&mut fields),
                Some(_) => return Err(CopyError::Malformed),
                None => return Ok(None),
            },
        };
        result.map(|outcome| outcome.map(|()| fields.0)).transpose()
    }

    fn head(&mut self, fields: &mut Fields<'_>) -> Option<Result<(), CopyError>> {
        let is_copy = fields.take(4)? == MAGIC && format::is_read(fields.u32()?);
        let sequence = LogSequence(fields.u64()?);
        let place = fields.take(placed_bytes())?;
        self.version = Version(fields.u64()?);
        match Placed::of(sequence, place).filter(|_| is_copy) {
            Some(placed) if placed.kind == Kind::Whole => self.place = Some(placed.position),
            _ => return Some(Err(CopyError::Malformed)),
        }
        Some(Ok(()))
    }

    fn row(&mut self, fields: &mut Fields<'_>) -> Option<Result<(), CopyError>> {
        let (key_bytes, value_bytes) = (fields.u32()? as usize, fields.u32()? as usize);
        let version = Version(fields.u64()?);
        let (key, value) = (fields.take(key_bytes)?, fields.take(value_bytes)?);
        self.rows += 1;
        let result = self.restoration.row(key, value, version);
        Some(result.map_err(|error| CopyError::Target(error.to_string())))
    }

    fn record(&mut self, fields: &mut Fields<'_>) -> Option<Result<(), CopyError>> {
        let (sequence, bytes) = (LogSequence(fields.u64()?), fields.u32()? as usize);
        let payload = fields.take(bytes)?;
        let follows = self.place.is_some_and(|place| place.sequence < sequence);
        let Some(placed) = Placed::of(sequence, payload).filter(|_| follows) else {
            return Some(Err(CopyError::Malformed));
        };
        if placed.kind == Kind::Part {
            return Some(Ok(()));
        }
        self.place = Some(placed.position);
        let applied = self.restoration.record(payload, self.version, Version::MAX);
        let applied = applied.map(|newest| self.version = self.version.max(newest));
        Some(applied.map_err(|error| CopyError::Target(error.to_string())))
    }

    fn end(&mut self, fields: &mut Fields<'_>) -> Option<Result<(), CopyError>> {
        let is_all = fields.u64()? == self.rows;
        self.is_whole = is_all;
        Some(is_all.then_some(()).ok_or(CopyError::Malformed))
    }

    /// Finishes the directory, so that [`Engine::open_replicated`] can open it.
    pub fn finish(self) -> Result<(), CopyError> {
        let place = self.place.filter(|_| self.is_whole).ok_or(CopyError::Malformed)?;
        let failed = |error: &dyn std::fmt::Display| CopyError::Target(error.to_string());
        let position = Position {
            sequence: place.sequence,
            version: self.version,
        };
        self.restoration.finish(position).map_err(|error| failed(&error))?;
        let log = self.parts.log.open(place.sequence, &mut |_, _| Ok(()), &mut |_| {});
        let mut log = log.map_err(|error| failed(&error))?;
        let tail = log.tail();
        log.append(tail, &[&whole(place).encode()])
            .map_err(|error| failed(&error))?;
        log.close().map_err(|error| failed(&error))
    }
}

/// The place of a record that a copy starts with: nothing is before it in the file log.
fn whole(position: Place) -> Placed {
    Placed {
        position,
        kind: Kind::Whole,
        before: NONE_BEFORE,
    }
}

/// The length of the row or record at the start of `bytes`, as it says; zero if it does not
/// yet. Only saves looking at it before it is whole.
fn announced(bytes: &[u8]) -> usize {
    let mut fields = Fields(bytes);
    let length = |fields: &mut Fields<'_>| match fields.take(1)? {
        [ROW] => Some((fields.u32()? as usize).saturating_add(fields.u32()? as usize)),
        [RECORD] => {
            fields.u64()?;
            Some(fields.u32()? as usize)
        }
        _ => None,
    };
    length(&mut fields).unwrap_or_default()
}

fn placed_bytes() -> usize {
    const HEADER_BYTES: usize = 12;
    HEADER_BYTES + crate::replication::place::PLACE_BYTES
}

/// Takes fields from the front of bytes; `None` where they end too early.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (bytes, remaining) = self.0.split_at_checked(count)?;
        self.0 = remaining;
        Some(bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}
