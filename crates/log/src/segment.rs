//! The segment that is being written.
//!
//! ```text
//! | header | records ... | confirmation | zeros already written ... | reserved, beyond the file's length |
//! 0        32            end                                        filled                     segment size
//! ```
//!
//! A sync of freshly grown or never written blocks makes the file system commit its journal too. So zeros are written
//! ahead of the records, more at a time as the segment proves busy, and most syncs find blocks that exist. Large
//! records are spared this: they would only be written twice, and their own bytes outweigh the journal's.
//!
//! Invariants: `end <= filled`, both but `filled` a multiple of 8; the header and the file's name are durable before the
//! first record is written; all but the newest segment are durable as a whole, end at their last record, and never change.

use crate::LogError;
use crate::record::{SEGMENT_HEADER_BYTES, SegmentHeader};
use quartet_env::{Disk, File};
use quartet_model::LogSequence;

pub(crate) struct Segment {
    pub file: Box<dyn File>,
    pub name: String,
    pub header: SegmentHeader,
    /// Where the next record goes.
    pub end: u64,
    /// Length of the file: up to here its blocks have been written once.
    pub filled: u64,
    /// How many zeros are written next time. Doubles up to `FILL_BYTES_MAX`.
    pub fill_bytes: u64,
    /// Beyond this no zeros are written ahead, and no second record is begun.
    pub segment_bytes: u64,
}

/// Small, so that an empty log opens in a few milliseconds.
pub(crate) const FILL_BYTES_MIN: u64 = 256 * 1024;
const FILL_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// A record of this size or more has no zeros written ahead of it.
const LARGE_RECORD_BYTES: u64 = FILL_BYTES_MIN;
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// The file that holds the records from `first` on.
pub(crate) fn segment_name(first: LogSequence) -> String {
    format!("log-{:020}", first.0)
}

/// The inverse of `segment_name`; `None` for files that are not the log's.
pub(crate) fn segment_first(name: &str) -> Option<LogSequence> {
    let digits = name.strip_prefix("log-")?;
    let first = LogSequence(digits.parse().ok()?);
    (segment_name(first) == name).then_some(first)
}

impl Segment {
    /// Creates the segment durably, with room for `reserve_bytes` or the usual size, whichever is more.
    pub fn create(
        disk: &dyn Disk,
        header: SegmentHeader,
        segment_bytes: u64,
        reserve_bytes: u64,
    ) -> Result<Segment, LogError> {
        let name = segment_name(header.first);
        let file = disk.create(&name).map_err(LogError::disk("create", &name))?;
        file.allocate(segment_bytes.max(reserve_bytes))
            .map_err(LogError::disk("reserve room for", &name))?;
        let end = SEGMENT_HEADER_BYTES as u64;
        let mut segment = Segment {
            file,
            name,
            header,
            end,
            filled: end,
            fill_bytes: FILL_BYTES_MIN,
            segment_bytes,
        };
        segment.write_header()?;
        segment.fill_ahead(end)?;
        segment.sync()?;
        disk.sync_directory()
            .map_err(LogError::disk("sync the directory of", &segment.name))?;
        Ok(segment)
    }

    pub fn record_bytes(&self) -> u64 {
        self.end - SEGMENT_HEADER_BYTES as u64
    }

    /// True if a record of `bytes` should go here. An empty segment takes a record of any size.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.record_bytes() == 0 || self.end + bytes <= self.segment_bytes
    }

    pub fn write_record(&mut self, record: &[u8]) -> Result<(), LogError> {
        let bytes = record.len() as u64;
        let end = self.end + bytes;
        if end > self.filled && bytes < LARGE_RECORD_BYTES {
            self.fill_ahead(end)?;
        }
        self.write(self.end, record)?;
        self.end = end;
        Ok(())
    }

    /// Writes after the last record what the next record will overwrite.
    pub fn write_beyond_end(&mut self, confirmation: &[u8]) -> Result<(), LogError> {
        self.write(self.end, confirmation)
    }

    pub fn write_header(&mut self) -> Result<(), LogError> {
        self.write(0, &self.header.encode())
    }

    /// Overwrites `[from, to)` with zeros.
    pub fn write_zeros(&mut self, mut from: u64, to: u64) -> Result<(), LogError> {
        while from < to {
            let bytes = (to - from).min(ZEROS.len() as u64);
            self.write(from, &ZEROS[..bytes as usize])?;
            from += bytes;
        }
        Ok(())
    }

    /// Writes the bytes from `from` to the last record's end once more, so that the next sync covers them.
    pub fn rewrite(&mut self, mut from: u64) -> Result<(), LogError> {
        let mut buffer = vec![0; ZEROS.len().min((self.end - from) as usize)];
        while from < self.end {
            let bytes = buffer.len().min((self.end - from) as usize);
            let read = self
                .file
                .read_at(from, &mut buffer[..bytes])
                .map_err(LogError::disk("read", &self.name))?;
            if read < bytes {
                return Err(LogError::disk("read", &self.name)(
                    std::io::ErrorKind::UnexpectedEof.into(),
                ));
            }
            self.write(from, &buffer[..bytes])?;
            from += bytes as u64;
        }
        Ok(())
    }

    pub fn sync(&self) -> Result<(), LogError> {
        self.file.sync_data().map_err(LogError::disk("sync", &self.name))
    }

    /// Ends the file at its last record and makes it durable as a whole. Nothing is written to it afterwards.
    pub fn seal(&mut self) -> Result<(), LogError> {
        self.file.set_len(self.end).map_err(LogError::disk("cut", &self.name))?;
        self.filled = self.end;
        self.sync()
    }

    fn fill_ahead(&mut self, from: u64) -> Result<(), LogError> {
        let to = (from + self.fill_bytes).min(self.segment_bytes);
        self.fill_bytes = (self.fill_bytes * 2).min(FILL_BYTES_MAX);
        self.write_zeros(from, to)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), LogError> {
        self.file
            .write_at(offset, bytes)
            .map_err(LogError::disk("write", &self.name))?;
        self.filled = self.filled.max(offset + bytes.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_sequences_and_others_are_not_ours() {
        assert_eq!(segment_name(LogSequence(12)), "log-00000000000000000012");
        assert_eq!(segment_first("log-00000000000000000012"), Some(LogSequence(12)));
        for other in [
            "log-12",
            "log-+0000000000000000012",
            "checkpoint-1",
            "log-0000000000000000001x",
        ] {
            assert_eq!(segment_first(other), None, "{other}");
        }
    }
}
