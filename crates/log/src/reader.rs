//! Reads one segment from its start, a window at a time, and classifies the bytes after its last
//! whole record.
//!
//! Memory is bounded by the file's own length: a length that a record announces is compared with it
//! first.

use crate::FileLogError;
use crate::record::{
    RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RecordHeader, RecordKind, SEGMENT_HEADER_BYTES, SegmentHeader,
    SegmentHeaderError, payload_checksum, record_bytes,
};
use quartet_env::{Disk, File};
use quartet_model::LogSequence;

pub(crate) struct SegmentReader {
    pub file: Box<dyn File>,
    pub name: String,
    pub length: u64,
    window: Vec<u8>,
    window_start: u64,
    /// The size of the next read: twice as much each time.
    window_bytes: usize,
}

/// The bytes at the place of the next epoch.
pub(crate) enum Next<'a> {
    Epoch {
        header: RecordHeader,
        payload: &'a [u8],
    },
    /// No readable epoch of that sequence; why.
    End(&'static str),
}

/// The bytes beyond the last whole epoch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Only zeros and possibly a mark, which records how far the log was durable.
    Clean { marked: LogSequence },
    /// Unfinished writes, or the remains of something older.
    Remains,
    /// Evidence that the expected epoch, or a later one, was durable.
    ProofOfLoss,
}

const WINDOW_BYTES: usize = 1024 * 1024;
/// Smallest read of a reader that follows a log, which reads little at once.
const WINDOW_BYTES_MIN: usize = 16 * 1024;

impl SegmentReader {
    pub fn open(disk: &dyn Disk, name: String) -> Result<SegmentReader, FileLogError> {
        let file = disk.open(&name).map_err(FileLogError::disk("open", &name))?;
        let length = file.len().map_err(FileLogError::disk("measure", &name))?;
        Ok(SegmentReader {
            file,
            name,
            length,
            window: Vec::new(),
            window_start: 0,
            window_bytes: WINDOW_BYTES_MIN,
        })
    }

    /// Re-reads the file: it has grown, or bytes that were read have been written since.
    pub fn forget(&mut self) -> Result<(), FileLogError> {
        self.length = self.file.len().map_err(FileLogError::disk("measure", &self.name))?;
        self.window.clear();
        self.window_bytes = WINDOW_BYTES_MIN;
        Ok(())
    }

    pub fn header(&mut self) -> Result<Result<SegmentHeader, SegmentHeaderError>, FileLogError> {
        let header = self.array_at::<SEGMENT_HEADER_BYTES>(0)?;
        Ok(header
            .ok_or(SegmentHeaderError::Malformed)
            .and_then(|bytes| SegmentHeader::decode(&bytes)))
    }

    /// The epoch `sequence` at `offset`, if it is present and whole.
    pub fn epoch_at(&mut self, salt: u64, offset: u64, sequence: LogSequence) -> Result<Next<'_>, FileLogError> {
        let Some(bytes) = self.array_at(offset)? else {
            return Ok(Next::End("the file ends"));
        };
        let Some(header) = RecordHeader::decode(&bytes, salt, offset) else {
            return Ok(Next::End("there is no readable record header"));
        };
        if header.kind != RecordKind::Epoch || header.sequence != sequence {
            return Ok(Next::End("another record stands in its place"));
        }
        let payload_bytes = header.payload_bytes as usize;
        let Some(record) = self.bytes_at(offset, record_bytes(payload_bytes))? else {
            return Ok(Next::End("the file ends inside the record"));
        };
        let payload = &record[RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + payload_bytes];
        match payload_checksum(&[payload]) == header.payload_checksum {
            true => Ok(Next::Epoch { header, payload }),
            false => Ok(Next::End("the payload does not match its checksum")),
        }
    }

    /// Classifies all bytes from `offset` on, where `expected` should be but is not.
    pub fn rest(&mut self, salt: u64, offset: u64, expected: LogSequence) -> Result<Rest, FileLogError> {
        if self.proves_durable(salt, offset, expected)? {
            return Ok(Rest::ProofOfLoss);
        }
        let marked = self.mark_at(salt, offset, expected)?;
        let zeros_from = offset + marked.map_or(0, |_| record_bytes(0) as u64);
        match self.is_zero_from(zeros_from)? {
            true => Ok(Rest::Clean {
                marked: marked.unwrap_or_default(),
            }),
            false => Ok(Rest::Remains),
        }
    }

    pub fn is_zero_from(&mut self, mut offset: u64) -> Result<bool, FileLogError> {
        while offset < self.length {
            let bytes = (self.length - offset).min(WINDOW_BYTES as u64);
            let window = self.bytes_at(offset, bytes as usize)?.unwrap_or_default();
            if window.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            offset += bytes;
        }
        Ok(true)
    }

    /// Returns true if any record header from `offset` on says that `sequence` was durable.
    fn proves_durable(&mut self, salt: u64, mut offset: u64, sequence: LogSequence) -> Result<bool, FileLogError> {
        while let Some(bytes) = self.array_at(offset)? {
            let header = RecordHeader::decode(&bytes, salt, offset);
            if header.is_some_and(|header| header.synced_through >= sequence) {
                return Ok(true);
            }
            offset += RECORD_ALIGNMENT as u64;
        }
        Ok(false)
    }

    fn mark_at(&mut self, salt: u64, offset: u64, expected: LogSequence) -> Result<Option<LogSequence>, FileLogError> {
        let header = self
            .array_at(offset)?
            .and_then(|bytes| RecordHeader::decode(&bytes, salt, offset));
        Ok(header.and_then(|header| {
            let ours = header.kind == RecordKind::Mark && header.sequence.next() == expected;
            ours.then_some(header.synced_through)
        }))
    }

    fn array_at<const BYTES: usize>(&mut self, offset: u64) -> Result<Option<[u8; BYTES]>, FileLogError> {
        Ok(self
            .bytes_at(offset, BYTES)?
            .and_then(|bytes| bytes.first_chunk().copied()))
    }

    /// Exactly `bytes` bytes at `offset`; `None` if the file is shorter.
    pub fn bytes_at(&mut self, offset: u64, bytes: usize) -> Result<Option<&[u8]>, FileLogError> {
        if offset.checked_add(bytes as u64).is_none_or(|end| end > self.length) {
            return Ok(None);
        }
        let window_end = self.window_start + self.window.len() as u64;
        if offset < self.window_start || offset + bytes as u64 > window_end {
            self.load(offset, bytes)?;
        }
        let start = (offset - self.window_start) as usize;
        Ok(self.window.get(start..start + bytes))
    }

    fn load(&mut self, offset: u64, bytes: usize) -> Result<(), FileLogError> {
        let count = (self.length - offset).min(self.window_bytes.max(bytes) as u64);
        self.window_bytes = (self.window_bytes * 2).min(WINDOW_BYTES);
        self.window.resize(count as usize, 0);
        let read = self
            .file
            .read_at(offset, &mut self.window)
            .map_err(FileLogError::disk("read", &self.name))?;
        self.window.truncate(read);
        self.window_start = offset;
        Ok(())
    }
}
