//! The bytes of the log's files. Pure: no I/O.
//!
//! All numbers are little endian.
//!
//! ```text
//! segment header   magic 8 | format version u32 | checksum u32 | first sequence u64 | salt u64        32 bytes
//! record header    magic 4 | header checksum u32 | payload checksum u32 | payload length u32
//!                  | sequence u64 | synced through u64                                                32 bytes
//! record           record header | payload | zeros up to a multiple of 8
//! ```
//!
//! There are two kinds of record, distinguished by the magic. An *epoch* carries a payload under
//! its own sequence. A *mark* has no payload and no sequence of its own (it repeats the last
//! epoch's); its position is that of the next epoch, which overwrites it.
//!
//! `synced through` is the highest sequence known to be durable when the record was written. It
//! distinguishes damage from an unfinished write: an unreadable record N was durable if any other
//! record has "synced through N" or more.
//!
//! Checksums are CRC-32. The header's covers the payload's, so a header is evidence by itself even
//! if its payload is lost; and it covers the segment's salt and the record's offset, so that
//! neither a misplaced record nor the image of a log that a client stored as a value is ever taken
//! for a record.

use quartet_model::{LogSequence, format};

pub(crate) const SEGMENT_HEADER_BYTES: usize = 32;
pub(crate) const RECORD_HEADER_BYTES: usize = 32;
/// Records start at multiples of this.
pub(crate) const RECORD_ALIGNMENT: usize = 8;

const SEGMENT_MAGIC: &[u8; 8] = b"QRTETLOG";
const EPOCH_MAGIC: &[u8; 4] = b"QEPO";
const CONFIRMATION_MAGIC: &[u8; 4] = b"QCNF";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub first: LogSequence,
    pub salt: u64,
    /// Covers the payloads of records too, and what layers put into rows.
    pub format: u32,
}

/// Why a segment header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentHeaderError {
    Malformed,
    UnknownFormat(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Epoch,
    Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub kind: RecordKind,
    pub payload_checksum: u32,
    pub payload_bytes: u32,
    pub sequence: LogSequence,
    /// `synced_through < sequence` for an epoch, `<=` for a mark.
    pub synced_through: LogSequence,
}

impl SegmentHeader {
    pub fn new(first: LogSequence, salt: u64) -> SegmentHeader {
        let format = format::written();
        SegmentHeader { first, salt, format }
    }

    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&self.format.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[24..].copy_from_slice(&self.salt.to_le_bytes());
        let checksum = segment_checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<SegmentHeader, SegmentHeaderError> {
        if &bytes[..8] != SEGMENT_MAGIC || u32_at(bytes, 12) != segment_checksum(bytes) {
            return Err(SegmentHeaderError::Malformed);
        }
        match u32_at(bytes, 8) {
            format if format::is_read(format) => Ok(SegmentHeader {
                first: LogSequence(u64_at(bytes, 16)),
                salt: u64_at(bytes, 24),
                format,
            }),
            other => Err(SegmentHeaderError::UnknownFormat(other)),
        }
    }
}

impl RecordHeader {
    pub fn encode(&self, salt: u64, offset: u64) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[..4].copy_from_slice(match self.kind {
            RecordKind::Epoch => EPOCH_MAGIC,
            RecordKind::Mark => CONFIRMATION_MAGIC,
        });
        bytes[8..12].copy_from_slice(&self.payload_checksum.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.0.to_le_bytes());
        bytes[24..].copy_from_slice(&self.synced_through.0.to_le_bytes());
        let checksum = header_checksum(&bytes, salt, offset);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header at `offset` of a segment with `salt`, or `None` if these bytes are not one.
    pub fn decode(bytes: &[u8; RECORD_HEADER_BYTES], salt: u64, offset: u64) -> Option<RecordHeader> {
        let magic: &[u8; 4] = bytes.first_chunk()?;
        let kind = match magic {
            EPOCH_MAGIC => RecordKind::Epoch,
            CONFIRMATION_MAGIC => RecordKind::Mark,
            _ => return None,
        };
        let whole = u32_at(bytes, 4) == header_checksum(bytes, salt, offset);
        whole.then(|| RecordHeader {
            kind,
            payload_checksum: u32_at(bytes, 8),
            payload_bytes: u32_at(bytes, 12),
            sequence: LogSequence(u64_at(bytes, 16)),
            synced_through: LogSequence(u64_at(bytes, 24)),
        })
    }
}

/// Returns the size of a record with this payload in the file, padding included.
pub(crate) fn record_bytes(payload_bytes: usize) -> usize {
    (RECORD_HEADER_BYTES + payload_bytes).next_multiple_of(RECORD_ALIGNMENT)
}

pub(crate) fn payload_checksum(pieces: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    hasher.finalize()
}

fn header_checksum(bytes: &[u8; RECORD_HEADER_BYTES], salt: u64, offset: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(&offset.to_le_bytes());
    hasher.update(&bytes[..4]);
    hasher.update(&bytes[8..]);
    hasher.finalize()
}

fn segment_checksum(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..]);
    hasher.finalize()
}

/// The four bytes at `at`, which must be inside `bytes`.
fn u32_at(bytes: &[u8; 32], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8; 32], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written_and_only_whole() {
        let header = RecordHeader {
            kind: RecordKind::Epoch,
            payload_checksum: 7,
            payload_bytes: 5,
            sequence: LogSequence(3),
            synced_through: LogSequence(2),
        };
        let bytes = header.encode(11, 64);
        assert_eq!(RecordHeader::decode(&bytes, 11, 64), Some(header));
        assert_eq!(RecordHeader::decode(&bytes, 12, 64), None, "another log's record");
        assert_eq!(RecordHeader::decode(&bytes, 11, 72), None, "a record in another place");
        for bit in 0..RECORD_HEADER_BYTES * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RecordHeader::decode(&bytes, 11, 64), None, "bit {bit}");
        }
    }

    #[test]
    fn segment_headers_are_read_as_written_and_only_whole() {
        let header = SegmentHeader::new(LogSequence(9), 4);
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        for bit in 0..SEGMENT_HEADER_BYTES * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                SegmentHeader::decode(&bytes),
                Err(SegmentHeaderError::Malformed),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn every_other_format_is_named() {
        for unknown in [0, 2, 5] {
            let mut bytes = SegmentHeader::new(LogSequence(9), 4).encode();
            bytes[8] = unknown;
            let checksum = segment_checksum(&bytes);
            bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
            let decoded = SegmentHeader::decode(&bytes);
            assert_eq!(decoded, Err(SegmentHeaderError::UnknownFormat(unknown.into())));
        }
    }
}
