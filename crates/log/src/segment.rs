//! The segment that is being written.
//!
//! ```text
//! | header | records ... | mark | zeros already written ... | reserved, beyond the file's length |
//! 0        32            end                                        filled                     segment size
//! ```
//!
//! A sync of freshly grown or never written blocks makes the file system commit its journal too. So
//! zeros are written ahead of the records, more at a time as the segment proves busy, and most
//! syncs find blocks that exist. Large records are spared this: they would only be written twice,
//! and their own bytes outweigh the journal's.
//!
//! Invariants: `end <= filled`, both but `filled` a multiple of 8; the header and the file's name
//! are durable before the first record is written; all segments except the newest are durable as a
//! whole and never written again.

use crate::FileLogError;
use crate::record::{RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader};
use quartet_env::File;
use quartet_model::LogSequence;

pub(crate) struct Segment {
    pub file: Box<dyn File>,
    pub name: String,
    pub header: SegmentHeader,
    /// The position of the next record.
    pub end: u64,
    /// Length of the file: up to here its blocks have been written once.
    pub filled: u64,
    /// The number of zeros in the next fill. Doubles up to `FILL_BYTES_MAX`.
    pub fill_bytes: u64,
    /// Up to here room is reserved.
    pub capacity: u64,
    /// Size beyond which no zeros are written ahead, and no second record is added without need.
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
    /// A segment with only its header and zeros up to `filled`.
    pub fn begun(
        file: Box<dyn File>,
        name: String,
        header: SegmentHeader,
        filled: u64,
        capacity: u64,
        segment_bytes: u64,
    ) -> Segment {
        Segment {
            file,
            name,
            header,
            end: SEGMENT_HEADER_BYTES as u64,
            filled,
            fill_bytes: FILL_BYTES_MIN,
            capacity,
            segment_bytes,
        }
    }

    pub fn record_bytes(&self) -> u64 {
        self.end - SEGMENT_HEADER_BYTES as u64
    }

    /// Returns the number of bytes available to further epochs, with room left for a mark.
    pub fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.end + RECORD_HEADER_BYTES as u64)
    }

    /// Returns true if a record of `bytes` should be written to this segment. An empty segment
    /// takes a record of any size that fits; so does a full one as long as the next has less room,
    /// because that room may have been promised.
    pub fn takes(&self, bytes: u64, next_room: u64) -> bool {
        let is_wanted = self.record_bytes() == 0 || self.end + bytes <= self.segment_bytes || next_room < self.room();
        is_wanted && bytes <= self.room()
    }

    /// Appends a record, given in pieces.
    pub fn write_record(&mut self, record: &[&[u8]]) -> Result<(), FileLogError> {
        let bytes = record.iter().map(|piece| piece.len() as u64).sum::<u64>();
        let end = self.end + bytes;
        if end > self.filled && bytes < LARGE_RECORD_BYTES {
            self.fill_ahead(end)?;
        }
        let mut offset = self.end;
        for piece in record {
            self.write(offset, piece)?;
            offset += piece.len() as u64;
        }
        self.end = end;
        Ok(())
    }

    /// Writes after the last record what the next record will overwrite.
    pub fn write_beyond_end(&mut self, mark: &[u8]) -> Result<(), FileLogError> {
        self.write(self.end, mark)
    }

    /// Overwrites `[from, to)` with zeros.
    pub fn write_zeros(&mut self, from: u64, to: u64) -> Result<(), FileLogError> {
        write_zeros(self.file.as_ref(), &self.name, from, to)?;
        self.filled = self.filled.max(to);
        Ok(())
    }

    /// Writes the bytes from `from` to the last record's end once more, so that the next sync
    /// covers them.
    pub fn rewrite(&mut self, mut from: u64) -> Result<(), FileLogError> {
        let mut buffer = vec![0; ZEROS.len().min((self.end - from) as usize)];
        while from < self.end {
            let bytes = buffer.len().min((self.end - from) as usize);
            let read = self
                .file
                .read_at(from, &mut buffer[..bytes])
                .map_err(FileLogError::disk("read", &self.name))?;
            if read < bytes {
                return Err(FileLogError::disk("read", &self.name)(
                    std::io::ErrorKind::UnexpectedEof.into(),
                ));
            }
            self.write(from, &buffer[..bytes])?;
            from += bytes as u64;
        }
        Ok(())
    }

    pub fn sync(&self) -> Result<(), FileLogError> {
        self.file.sync_data().map_err(FileLogError::disk("sync", &self.name))
    }

    /// Truncates the file after its last record, which frees the reserved room. The segment is not
    /// written afterwards.
    pub fn cut(&mut self) -> Result<(), FileLogError> {
        self.file
            .set_len(self.end)
            .map_err(FileLogError::disk("cut", &self.name))
    }

    fn fill_ahead(&mut self, from: u64) -> Result<(), FileLogError> {
        let to = (from + self.fill_bytes).min(self.segment_bytes).min(self.capacity);
        self.fill_bytes = (self.fill_bytes * 2).min(FILL_BYTES_MAX);
        if from < to { self.write_zeros(from, to) } else { Ok(()) }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), FileLogError> {
        self.file
            .write_at(offset, bytes)
            .map_err(FileLogError::no_room("write", &self.name))?;
        self.filled = self.filled.max(offset + bytes.len() as u64);
        Ok(())
    }
}

/// Overwrites `[from, to)` of a file with zeros.
pub(crate) fn write_zeros(file: &dyn File, name: &str, mut from: u64, to: u64) -> Result<(), FileLogError> {
    while from < to {
        let bytes = (to - from).min(ZEROS.len() as u64);
        file.write_at(from, &ZEROS[..bytes as usize])
            .map_err(FileLogError::no_room("write", name))?;
        from += bytes;
    }
    Ok(())
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
