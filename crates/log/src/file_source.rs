//! Reading the files of a log beside its writer.
//!
//! A cursor keeps one segment open, with its position in it. Where the segment has no further
//! record although a later record is promised, the segment was cut because another was started,
//! which the directory then shows. A segment that was removed meanwhile stays readable as long as
//! it is open.

use std::io;
use std::sync::Arc;

use quartet_env::Disk;
use quartet_model::LogSequence;

use crate::reader::{Next, SegmentReader};
use crate::record::{RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, record_bytes};
use crate::segment::{segment_first, segment_name};
use crate::survey::segment_header;
use crate::{FileLogError, LogCursor, LogError, LogRecord, LogSource};

/// The log of one directory, to be read.
pub(crate) struct FileLogSource {
    pub disk: Arc<dyn Disk>,
}

struct FileLogCursor {
    disk: Arc<dyn Disk>,
    next: LogSequence,
    /// The segment that held the record before.
    place: Option<Place>,
}

/// The expected position of the next record.
struct Place {
    reader: SegmentReader,
    salt: u64,
    offset: u64,
}

/// A record, and the offset of its payload.
struct Found {
    offset: u64,
    payload_bytes: usize,
}

/// The number of repeated looks at the directory because a segment was removed between two looks.
const LOOKS_MAX: usize = 10;

impl LogSource for FileLogSource {
    fn starts(&self) -> Result<Vec<LogSequence>, LogError> {
        Ok(segment_firsts(self.disk.as_ref())?)
    }

    fn cursor(&self, from: LogSequence) -> Box<dyn LogCursor> {
        Box::new(FileLogCursor {
            disk: self.disk.clone(),
            next: from.max(LogSequence::ZERO.next()),
            place: None,
        })
    }
}

impl LogCursor for FileLogCursor {
    fn position(&self) -> LogSequence {
        self.next
    }

    fn next(&mut self, through: LogSequence) -> Result<Option<LogRecord<'_>>, LogError> {
        if self.next > through {
            return Ok(None);
        }
        let record = self.find()?;
        let sequence = self.next;
        let Some(place) = &mut self.place else {
            unreachable!("a record was found in a segment");
        };
        self.next = sequence.next();
        place.offset = record.offset + record_bytes(record.payload_bytes) as u64;
        let payload = place
            .reader
            .bytes_at(record.offset + RECORD_HEADER_BYTES as u64, record.payload_bytes)?
            .unwrap_or_default();
        Ok(Some(LogRecord { sequence, payload }))
    }
}

impl FileLogCursor {
    /// The next record, which the log is known to hold unless it was trimmed.
    fn find(&mut self) -> Result<Found, LogError> {
        if let Some(place) = &mut self.place {
            if let Ok(record) = place.epoch(self.next)? {
                return Ok(record);
            }
            // Bytes that were read from the file before may be older than the record.
            place.reader.forget()?;
            if let Ok(record) = place.epoch(self.next)? {
                return Ok(record);
            }
        }
        let mut place = self.enter()?;
        let record = place
            .epoch(self.next)?
            .map_err(|reason| place.damaged(self.next, reason));
        self.place = Some(place);
        Ok(record?)
    }

    /// Opens the segment that holds the next record, at that record.
    fn enter(&mut self) -> Result<Place, LogError> {
        self.place = None;
        for _ in 0..LOOKS_MAX {
            let firsts = segment_firsts(self.disk.as_ref())?;
            let Some(&first) = firsts.iter().rev().find(|first| **first <= self.next) else {
                let (wanted, first) = (self.next, firsts.first().copied().unwrap_or(self.next.next()));
                return Err(LogError::Trimmed { wanted, first });
            };
            match Place::at_start(self.disk.as_ref(), first) {
                Ok(mut place) => return place.advance(first, self.next).map(|()| place).map_err(LogError::from),
                Err(FileLogError::Disk { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        let (wanted, first) = (self.next, self.next.next());
        Err(LogError::Trimmed { wanted, first })
    }
}

impl Place {
    fn at_start(disk: &dyn Disk, first: LogSequence) -> Result<Place, FileLogError> {
        let mut reader = SegmentReader::open(disk, segment_name(first))?;
        let salt = segment_header(&mut reader, first)?.salt;
        let offset = SEGMENT_HEADER_BYTES as u64;
        Ok(Place { reader, salt, offset })
    }

    /// Goes over all records before `to`.
    fn advance(&mut self, first: LogSequence, to: LogSequence) -> Result<(), FileLogError> {
        let mut sequence = first;
        while sequence < to {
            let record = self.epoch(sequence)?.map_err(|reason| self.damaged(sequence, reason))?;
            self.offset = record.offset + record_bytes(record.payload_bytes) as u64;
            sequence = sequence.next();
        }
        Ok(())
    }

    /// The record at this place, if it is the epoch `sequence`; otherwise why it is not.
    fn epoch(&mut self, sequence: LogSequence) -> Result<Result<Found, &'static str>, FileLogError> {
        let offset = self.offset;
        Ok(match self.reader.epoch_at(self.salt, offset, sequence)? {
            Next::Epoch { payload, .. } => Ok(Found {
                offset,
                payload_bytes: payload.len(),
            }),
            Next::End(reason) => Err(reason),
        })
    }

    fn damaged(&self, sequence: LogSequence, reason: &'static str) -> FileLogError {
        FileLogError::Damaged {
            file: self.reader.name.clone(),
            offset: self.offset,
            sequence,
            reason,
        }
    }
}

fn segment_firsts(disk: &dyn Disk) -> Result<Vec<LogSequence>, FileLogError> {
    let names = disk.list().map_err(FileLogError::disk("list", "the log's directory"))?;
    let mut firsts: Vec<LogSequence> = names.iter().filter_map(|name| segment_first(name)).collect();
    firsts.sort_unstable();
    Ok(firsts)
}
