//! Reading what the log holds, to open it or only to check it. Nothing on disk is changed.
//!
//! A segment is started only after all earlier segments are durable, so only the newest can have an
//! unfinished tail. At its first unreadable record N, all following bytes are searched: if any
//! record has "synced through N", N was durable and is lost, and the answer is an error. Otherwise
//! N was never acknowledged, and its remains are an unfinished write. `log-reach` is the equivalent
//! for files that are missing as a whole.

use crate::reach::{self, Stated};
use crate::reader::{Next, Rest, SegmentReader};
use crate::record::{SEGMENT_HEADER_BYTES, SegmentHeader, SegmentHeaderError, record_bytes};
use crate::segment::{segment_first, segment_name};
use crate::{FileLogError, Replay, ReplayProgress};
use quartet_env::Disk;
use quartet_model::LogSequence;
use std::collections::VecDeque;

/// A segment that is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    pub first: LogSequence,
    pub bytes: u64,
}

pub(crate) struct Survey<'a> {
    pub disk: &'a dyn Disk,
    pub replay_from: LogSequence,
    pub replay: &'a mut Replay<'a>,
    pub progress: &'a mut dyn FnMut(ReplayProgress),
}

/// A log that can be opened.
pub(crate) struct Surveyed {
    /// Oldest first, without the newest.
    pub sealed: Vec<Sealed>,
    /// The number of unread ones among them: all their records are before `replay_from`.
    pub unread: usize,
    /// The newest segment, and the state of the bytes after its last epoch. `None` if no segment
    /// reaches back to `replay_from`.
    pub newest: Option<(ReadSegment, Rest)>,
    /// A segment with an unfinished creation.
    pub unfinished: Option<LogSequence>,
    /// The end of the log, as stated by the log.
    pub stated: Option<Stated>,
}

/// One segment, read to its end.
pub(crate) struct ReadSegment {
    pub reader: SegmentReader,
    pub header: SegmentHeader,
    /// After the last whole epoch.
    pub end: u64,
    /// The next sequence, and why it is not there.
    pub next: LogSequence,
    reason: &'static str,
    /// The highest sequence that the epochs read say is durable.
    synced_through: LogSequence,
    /// Up to here the file is proven durable; 0 if no epoch in it is.
    pub durable_end: u64,
    /// Sequence and end of the epochs after that.
    unproven: VecDeque<(LogSequence, u64)>,
}

/// Progress is reported about this often.
const PROGRESS_BYTES: u64 = 1024 * 1024;

/// The first record that the log's files may hold; `None` if there are none.
pub fn first_record(disk: &dyn Disk) -> Result<Option<LogSequence>, FileLogError> {
    let names = disk.list().map_err(FileLogError::disk("list", "the log's directory"))?;
    Ok(names.iter().filter_map(|name| segment_first(name)).min())
}

impl Survey<'_> {
    pub fn run(mut self) -> Result<Surveyed, FileLogError> {
        let stated = reach::read(self.disk)?;
        let mut sealed = self.segments()?;
        let unfinished = self.take_unfinished(&mut sealed, stated)?;
        let oldest = sealed.first().map(|segment| segment.first);
        let mut surveyed = match sealed.iter().rposition(|segment| segment.first <= self.replay_from) {
            Some(start) => self.read_from(sealed, start, unfinished, stated)?,
            None => self.nothing_to_read(oldest, unfinished)?,
        };
        surveyed.stated = stated;
        surveyed.must_reach(self.replay_from)?;
        Ok(surveyed)
    }

    /// There is no log yet, unless a segment `oldest` or `unfinished` exists and its predecessors
    /// are missing.
    fn nothing_to_read(
        &self,
        oldest: Option<LogSequence>,
        unfinished: Option<LogSequence>,
    ) -> Result<Surveyed, FileLogError> {
        if let Some(found) = oldest.or(unfinished).filter(|&oldest| oldest > self.replay_from) {
            let reason = "the log begins after the checkpoint";
            return Err(FileLogError::Gap {
                needed: self.replay_from,
                found,
                reason,
            });
        }
        Ok(Surveyed {
            sealed: Vec::new(),
            unread: 0,
            newest: None,
            unfinished,
            stated: None,
        })
    }

    fn read_from(
        &mut self,
        mut sealed: Vec<Sealed>,
        start: usize,
        unfinished: Option<LogSequence>,
        stated: Option<Stated>,
    ) -> Result<Surveyed, FileLogError> {
        let bytes_total = sealed[start..].iter().map(|segment| segment.bytes).sum();
        let mut progress = ReplayProgress {
            bytes_read: 0,
            bytes_total,
        };
        for pair in sealed[start..].windows(2) {
            let read = self.read_segment(pair[0].first, Some(pair[1].first), &mut progress)?;
            read.must_reach(pair[1].first)?;
        }
        let newest = sealed.pop().map_or(self.replay_from, |segment| segment.first);
        let mut read = self.read_segment(newest, None, &mut progress)?;
        let remainder = read.judge_rest(unfinished, stated)?;
        if read.next < self.replay_from {
            let reason = "the log ends before the checkpoint";
            return Err(FileLogError::Gap {
                needed: self.replay_from,
                found: read.next,
                reason,
            });
        }
        (self.progress)(ReplayProgress {
            bytes_read: bytes_total,
            bytes_total,
        });
        Ok(Surveyed {
            sealed,
            unread: start,
            newest: Some((read, remainder)),
            unfinished,
            stated: None,
        })
    }

    fn segments(&self) -> Result<Vec<Sealed>, FileLogError> {
        let names = self
            .disk
            .list()
            .map_err(FileLogError::disk("list", "the log's directory"))?;
        let mut segments = Vec::new();
        for first in names.iter().filter_map(|name| segment_first(name)) {
            let reader = SegmentReader::open(self.disk, segment_name(first))?;
            segments.push(Sealed {
                first,
                bytes: reader.length.saturating_sub(SEGMENT_HEADER_BYTES as u64),
            });
        }
        segments.sort_unstable_by_key(|segment| segment.first);
        Ok(segments)
    }

    /// Takes off the newest segment if its creation was never finished: then no record was ever
    /// written to it.
    fn take_unfinished(
        &self,
        segments: &mut Vec<Sealed>,
        stated: Option<Stated>,
    ) -> Result<Option<LogSequence>, FileLogError> {
        let Some(&Sealed { first, .. }) = segments.last() else {
            return Ok(None);
        };
        if stated.is_some_and(|stated| stated.reach.newest >= first) {
            return Ok(None);
        }
        let mut reader = SegmentReader::open(self.disk, segment_name(first))?;
        let malformed = reader.header()? == Err(SegmentHeaderError::Malformed);
        if !malformed || !reader.is_zero_from(SEGMENT_HEADER_BYTES as u64)? {
            return Ok(None);
        }
        segments.pop();
        Ok(Some(first))
    }

    /// Reads up to the first epoch that is not there, or up to `until`, and replays what is wanted.
    fn read_segment(
        &mut self,
        first: LogSequence,
        until: Option<LogSequence>,
        progress: &mut ReplayProgress,
    ) -> Result<ReadSegment, FileLogError> {
        let mut reader = SegmentReader::open(self.disk, segment_name(first))?;
        let header = segment_header(&mut reader, first)?;
        let mut read = ReadSegment::new(reader, header);
        let mut reported = read.end;
        while Some(read.next) != until && self.read_epoch(&mut read)? {
            if read.end - reported >= PROGRESS_BYTES {
                progress.bytes_read += read.end - reported;
                reported = read.end;
                (self.progress)(*progress);
            }
        }
        progress.bytes_read += read.end - reported;
        (self.progress)(*progress);
        Ok(read)
    }

    /// Reads one epoch; false if there is none.
    fn read_epoch(&mut self, read: &mut ReadSegment) -> Result<bool, FileLogError> {
        match read.reader.epoch_at(read.header.salt, read.end, read.next)? {
            Next::End(reason) => {
                read.reason = reason;
                Ok(false)
            }
            Next::Epoch { header, payload } => {
                if read.next >= self.replay_from {
                    let sequence = read.next;
                    (self.replay)(sequence, payload).map_err(|source| FileLogError::Replay { sequence, source })?;
                }
                let bytes = record_bytes(payload.len()) as u64;
                read.end += bytes;
                read.unproven.push_back((read.next, read.end));
                read.next = read.next.next();
                read.prove(header.synced_through);
                Ok(true)
            }
        }
    }
}

impl Surveyed {
    /// The newest segment must be the one in the log's statement of its reach, or a later one.
    fn must_reach(&self, replay_from: LogSequence) -> Result<(), FileLogError> {
        let Some(Stated { reach, .. }) = self.stated else {
            return Ok(());
        };
        let newest = self.newest.as_ref().map(|(read, _)| read);
        if newest.is_some_and(|read| read.header.first >= reach.newest) {
            return Ok(());
        }
        let next = newest.map_or(replay_from, |read| read.next);
        Err(FileLogError::EndMissing {
            tail: LogSequence(next.0 - 1),
            durable: reach.durable,
            file: segment_name(reach.newest),
        })
    }
}

impl ReadSegment {
    fn new(reader: SegmentReader, header: SegmentHeader) -> ReadSegment {
        ReadSegment {
            reader,
            header,
            end: SEGMENT_HEADER_BYTES as u64,
            next: header.first,
            reason: "",
            synced_through: LogSequence::ZERO,
            durable_end: 0,
            unproven: VecDeque::new(),
        }
    }

    pub fn record_bytes(&self) -> u64 {
        self.end - SEGMENT_HEADER_BYTES as u64
    }

    fn prove(&mut self, synced_through: LogSequence) {
        self.synced_through = self.synced_through.max(synced_through);
        while let Some(&(sequence, end)) = self.unproven.front()
            && sequence <= self.synced_through
        {
            self.durable_end = end;
            self.unproven.pop_front();
        }
    }

    /// For a segment with a successor: it must hold everything up to that.
    fn must_reach(&self, following: LogSequence) -> Result<(), FileLogError> {
        if self.next == following {
            return Ok(());
        }
        if self.end == self.reader.length {
            let reason = "a log file, or the end of one, is missing";
            return Err(FileLogError::Gap {
                needed: self.next,
                found: following,
                reason,
            });
        }
        Err(self.damaged())
    }

    /// For the newest segment: classifies the bytes after its last epoch.
    fn judge_rest(&mut self, unfinished: Option<LogSequence>, stated: Option<Stated>) -> Result<Rest, FileLogError> {
        let remainder = self.reader.rest(self.header.salt, self.end, self.next)?;
        if let Some(Stated { reach, .. }) = stated.filter(|stated| stated.reach.newest <= self.header.first) {
            self.prove(reach.durable);
        }
        if let Some(sequence) = unfinished {
            self.prove(LogSequence(sequence.0.saturating_sub(1)));
        }
        if remainder == Rest::ProofOfLoss || self.synced_through >= self.next {
            return Err(self.damaged());
        }
        if let Rest::Clean { marked } = remainder {
            self.prove(marked);
        }
        Ok(remainder)
    }

    fn damaged(&self) -> FileLogError {
        FileLogError::Damaged {
            file: self.reader.name.clone(),
            offset: self.end,
            sequence: self.next,
            reason: self.reason,
        }
    }
}

pub(crate) fn segment_header(reader: &mut SegmentReader, first: LogSequence) -> Result<SegmentHeader, FileLogError> {
    let reason = match reader.header()? {
        Ok(header) if header.first == first => return Ok(header),
        Ok(_) => "the segment header names another sequence than the file's name",
        Err(SegmentHeaderError::UnknownFormat(version)) => {
            return Err(FileLogError::Format {
                file: reader.name.clone(),
                version,
            });
        }
        Err(SegmentHeaderError::Malformed) => "the segment header is unreadable",
    };
    Err(FileLogError::Damaged {
        file: reader.name.clone(),
        offset: 0,
        sequence: first,
        reason,
    })
}
