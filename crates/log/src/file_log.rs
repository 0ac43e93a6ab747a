//! The log as files of one directory.
//!
//! An append is one write, or a few if its payload has pieces of a megabyte or more; a sync is one
//! fdatasync of the newest segment; older segments are durable as a whole because a segment is
//! synced before the next is started. The next segment's file is created ahead of need (`reserve`).
//!
//! A separate file states how far the log reaches, so that a missing segment is detected (`reach`):
//! durably when a segment is started, when the log is trimmed and when it is closed; at intervals
//! in between, without a sync.
//!
//! Invariants: `marked <= durable <= tail`; a call that failed is never retried, and no other write
//! follows it.

use crate::file_source::FileLogSource;
use crate::options::FileLogOptions;
use crate::reach::{Reach, ReachFile};
use crate::record::{
    RECORD_HEADER_BYTES, RecordHeader, RecordKind, SegmentHeader, payload_checksum, record_bytes as framed_bytes,
};
use crate::recovery::{Recovered, recover};
use crate::reserve::Reserve;
use crate::segment::{Segment, segment_name};
use crate::survey::{Sealed, Survey};
use crate::{FileLogError, Log, LogError, LogOpener, LogPart, LogRoom, LogSource, Replay, ReplayProgress};
use quartet_env::Disk;
use quartet_model::{LogSequence, format};
use std::sync::Arc;

/// The log of one directory.
pub struct FileLog {
    disk: Arc<dyn Disk>,
    options: FileLogOptions,
    reserve: Arc<Reserve>,
    /// Oldest first.
    sealed: Vec<Sealed>,
    active: Segment,
    tail: LogSequence,
    durable: LogSequence,
    /// The highest `synced_through` that the newest segment says.
    marked: LogSequence,
    /// None as long as there was no room for it.
    reach: Option<ReachFile>,
    /// Since the reach was stated.
    syncs: u32,
    failed: bool,
    /// The buffer that builds a record; kept for its capacity.
    record: Vec<u8>,
}

/// Largest number of syncs without a statement of the reach: a write into the system's cache, which
/// is much less than a sync.
const SYNCS_UNSTATED_MAX: u32 = 16;
/// A larger record's buffer is given back after it is written.
const RECORD_CAPACITY_MAX: usize = 4 * 1024 * 1024;
/// Smallest size of a payload's piece that is written without being copied, in bytes.
const PIECE_BYTES_APART: usize = 1024 * 1024;

impl FileLog {
    /// Opens the log, or starts one at `replay_from` if there is none, and passes `replay` every
    /// record from `replay_from` on, in order and without gaps. Afterwards all of them are durable.
    ///
    /// `replay_from` is the sequence after the checkpoint's; the first ever is 1. An unfinished
    /// tail is cut.
    ///
    /// Errors: `Damaged` and `Gap` if durable records cannot be read: nothing on disk was changed,
    /// an operator must decide. `Format`, `Disk`, and any error of `replay`. Records may have been
    /// replayed before the error.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: FileLogOptions,
        replay_from: LogSequence,
        replay: &mut Replay<'_>,
        progress: &mut dyn FnMut(ReplayProgress),
    ) -> Result<FileLog, FileLogError> {
        let replay_from = replay_from.max(LogSequence::ZERO.next());
        let survey = Survey {
            disk: disk.as_ref(),
            replay_from,
            replay,
            progress,
        };
        let reserve = Arc::new(Reserve::new(disk.clone(), options.segment_bytes));
        let Recovered {
            sealed,
            active,
            tail,
            marked,
            stated,
        } = recover(survey, &options, &reserve)?;
        let newest = active.header.first;
        let reach = Reach { newest, durable: tail };
        let reach = ReachFile::open(disk.as_ref(), stated, reach, options.is_one_of_several);
        let reach = if_there_is_room(reach)?;
        reserve.set_active_room(active.room());
        if_there_is_room(reserve.prepare())?;
        let (syncs, failed, record) = (0, false, Vec::new());
        let mut log = FileLog {
            disk,
            options,
            reserve,
            sealed,
            active,
            tail,
            durable: tail,
            marked,
            reach,
            syncs,
            failed,
            record,
        };
        log.mark()?;
        Ok(log)
    }

    fn check_usable(&self) -> Result<(), LogError> {
        if self.failed { Err(LogError::Failed) } else { Ok(()) }
    }

    fn or_fail<T>(&mut self, result: Result<T, FileLogError>) -> Result<T, LogError> {
        self.failed |= matches!(&result, Err(error) if !matches!(error, FileLogError::NoRoom { .. }));
        result.map_err(LogError::from)
    }

    /// Returns the room that the log is sure to have.
    pub fn reserve(&self) -> Arc<Reserve> {
        self.reserve.clone()
    }

    fn append_record(&mut self, header: RecordHeader, payload: &[&[u8]]) -> Result<(), FileLogError> {
        let bytes = record_bytes(header.payload_bytes as usize);
        let mut header = header;
        let is_of_another_format = self.active.header.format != format::written();
        if is_of_another_format || !self.active.takes(bytes, self.reserve.next_room()) {
            self.roll(bytes)?;
            header.synced_through = self.durable;
        }
        self.record.clear();
        self.record
            .extend_from_slice(&header.encode(self.active.header.salt, self.active.end));
        let mut apart = Vec::new();
        for piece in payload {
            if piece.len() >= PIECE_BYTES_APART {
                apart.push((self.record.len(), *piece));
            } else {
                self.record.extend_from_slice(piece);
            }
        }
        let padding = bytes as usize - RECORD_HEADER_BYTES - header.payload_bytes as usize;
        self.record.resize(self.record.len() + padding, 0);
        self.active.write_record(&pieces(&self.record, &apart))?;
        self.reserve.set_active_room(self.active.room());
        self.record.shrink_to(RECORD_CAPACITY_MAX);
        self.tail = header.sequence;
        self.marked = header.synced_through;
        Ok(())
    }

    /// Makes the active segment durable and starts the next, with room for a record of `bytes`. An
    /// empty segment is replaced.
    fn roll(&mut self, bytes: u64) -> Result<(), FileLogError> {
        if self.durable < self.tail {
            self.sync_active()?;
        }
        let header = SegmentHeader::new(self.tail.next(), self.options.salt);
        let next = self.reserve.begin(header, bytes)?;
        let mut full = std::mem::replace(&mut self.active, next);
        self.reserve.set_active_room(self.active.room());
        if full.record_bytes() > 0 {
            full.cut()?;
            self.sealed.push(Sealed {
                first: full.header.first,
                bytes: full.record_bytes(),
            });
        }
        self.state_reach_durably()
    }

    /// Writes down how far the log is durable. Without room for it, what was written before stays
    /// true.
    fn state_reach(&mut self) -> Result<(), FileLogError> {
        self.syncs = 0;
        let reach = Reach {
            newest: self.active.header.first,
            durable: self.durable,
        };
        let stated = match &mut self.reach {
            Some(file) => file.state(reach),
            none => {
                let opened = ReachFile::open(self.disk.as_ref(), None, reach, self.options.is_one_of_several);
                opened.map(|file| *none = Some(file))
            }
        };
        if_there_is_room(stated).map(drop)
    }

    fn state_reach_durably(&mut self) -> Result<(), FileLogError> {
        self.state_reach()?;
        self.reach.as_ref().map_or(Ok(()), ReachFile::sync)
    }

    fn sync_active(&mut self) -> Result<(), FileLogError> {
        self.active.sync()?;
        self.durable = self.tail;
        self.syncs += 1;
        if self.syncs >= SYNCS_UNSTATED_MAX {
            self.state_reach()?;
        }
        Ok(())
    }

    /// Writes down how far the log is durable, unless the newest record or mark says it.
    fn mark(&mut self) -> Result<(), FileLogError> {
        if self.marked == self.durable {
            return Ok(());
        }
        self.write_mark()
    }

    fn write_mark(&mut self) -> Result<(), FileLogError> {
        let header = RecordHeader {
            kind: RecordKind::Mark,
            payload_checksum: payload_checksum(&[]),
            payload_bytes: 0,
            sequence: self.tail,
            synced_through: self.durable,
        };
        let mark = header.encode(self.active.header.salt, self.active.end);
        if if_there_is_room(self.active.write_beyond_end(&mark))?.is_some() {
            self.marked = self.durable;
        }
        self.state_reach()
    }

    /// Returns how many of the oldest segments have no record from `sequence` on: their successor
    /// starts at or before it.
    fn droppable_below(&self, sequence: LogSequence) -> usize {
        let following = self.sealed.iter().skip(1).map(|segment| segment.first);
        let following = following.chain([self.active.header.first]);
        let droppable = self.sealed.iter().zip(following);
        droppable.take_while(|&(_, first)| first <= sequence).count()
    }

    fn remove_oldest(&mut self, count: usize) -> Result<(), FileLogError> {
        for Sealed { first, .. } in self.sealed.drain(..count) {
            let name = segment_name(first);
            self.disk
                .remove_gently(&name)
                .map_err(FileLogError::disk("remove", &name))?;
        }
        self.disk
            .sync_directory()
            .map_err(FileLogError::disk("sync", "the log's directory"))
    }
}

/// Returns the size of a record with a payload of `payload_bytes` in the log.
pub fn record_bytes(payload_bytes: usize) -> u64 {
    framed_bytes(payload_bytes) as u64
}

/// For operations that are optional, and are retried later.
fn if_there_is_room<T>(done: Result<T, FileLogError>) -> Result<Option<T>, FileLogError> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(FileLogError::NoRoom { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Log for FileLog {
    fn tail(&self) -> LogSequence {
        self.tail
    }

    fn append(&mut self, expected_tail: LogSequence, payload: &[&[u8]]) -> Result<LogSequence, LogError> {
        self.check_usable()?;
        if expected_tail != self.tail {
            return Err(LogError::TailMoved {
                expected: expected_tail,
                tail: self.tail,
            });
        }
        let bytes = payload.iter().map(|piece| piece.len()).sum();
        let Ok(payload_bytes) = u32::try_from(bytes) else {
            return Err(LogError::TooLarge { bytes });
        };
        let header = RecordHeader {
            kind: RecordKind::Epoch,
            payload_checksum: payload_checksum(payload),
            payload_bytes,
            sequence: self.tail.next(),
            synced_through: self.durable,
        };
        let written = self.append_record(header, payload);
        self.or_fail(written)?;
        Ok(self.tail)
    }

    fn sync(&mut self) -> Result<LogSequence, LogError> {
        self.check_usable()?;
        if self.durable < self.tail {
            let synced = self.sync_active();
            self.or_fail(synced)?;
        }
        Ok(self.durable)
    }

    fn mark_durable(&mut self) -> Result<(), LogError> {
        self.check_usable()?;
        let marked = self.mark();
        self.or_fail(marked)
    }

    fn close(&mut self) -> Result<(), LogError> {
        self.sync()?;
        self.mark_durable()?;
        let stated = self.state_reach_durably();
        self.or_fail(stated)
    }

    fn trim_below(&mut self, sequence: LogSequence) -> Result<(), LogError> {
        self.check_usable()?;
        let count = self.droppable_below(sequence);
        if count == 0 {
            return Ok(());
        }
        let stated = self.state_reach_durably();
        let removed = stated.and_then(|()| self.remove_oldest(count));
        self.or_fail(removed)
    }

    fn parts(&self) -> Vec<LogPart> {
        let sealed = self
            .sealed
            .iter()
            .map(|&Sealed { first, bytes }| LogPart { first, bytes });
        let active = LogPart {
            first: self.active.header.first,
            bytes: self.active.record_bytes(),
        };
        sealed.chain([active]).collect()
    }

    fn source(&self) -> Arc<dyn LogSource> {
        let disk = self.disk.clone();
        Arc::new(FileLogSource { disk })
    }

    fn room(&self) -> Arc<dyn LogRoom> {
        self.reserve.clone()
    }

    fn bytes(&self) -> u64 {
        self.sealed.iter().map(|segment| segment.bytes).sum::<u64>() + self.active.record_bytes()
    }
}

/// Inserts the separate pieces into `gathered`, each at its offset there, without copying.
fn pieces<'a>(gathered: &'a [u8], apart: &[(usize, &'a [u8])]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::with_capacity(2 * apart.len() + 1);
    let mut from = 0;
    for &(to, piece) in apart {
        pieces.extend([&gathered[from..to], piece]);
        from = to;
    }
    pieces.push(&gathered[from..]);
    pieces
}

/// Opens the file log of one directory.
pub struct FileLogOpener {
    /// The directory.
    pub disk: Arc<dyn Disk>,
    /// How it is written.
    pub options: FileLogOptions,
}

impl LogOpener for FileLogOpener {
    fn open(
        self: Box<Self>,
        replay_from: LogSequence,
        replay: &mut Replay<'_>,
        progress: &mut dyn FnMut(ReplayProgress),
    ) -> Result<Box<dyn Log>, LogError> {
        let log = FileLog::open(self.disk, self.options, replay_from, replay, progress)?;
        Ok(Box::new(log))
    }
}
