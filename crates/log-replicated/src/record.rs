//! The bytes of a record. Pure.
//!
//! All numbers are little endian.
//!
//! ```text
//! 0       4        5      6        7   8            24          28            32         40     48     56            64
//! | QREC  | format | kind | packed | 0 | cluster id | partition | body length | sequence | term | node | incarnation |
//!
//! 64                       80
//! | hash of the one before | body, packed or not | checksum u32 |
//! ```
//!
//! `format` is the program's (`quartet_model::format`). `kind` is 1 epoch, 2 chunk, 3 term, 4 mark,
//! 5 hash, 6 object, 7 founding; `packed` is 1 if the body is an LZ4 block, else 0; only bodies
//! above [`PACKED_FROM_BYTES`] are packed, and only if that makes them smaller. `body length`
//! counts the unpacked body. The checksum is the CRC-32 of all bytes before it.
//!
//! ```text
//! epoch   any bytes
//! chunk   index u32, from 0 | count u32 | any bytes
//! term    version floor u64; the term and its writer are the header's
//! mark    nothing
//! hash    sequence of the mark u64 | state hash u128
//! object  length u64 | bytes of a piece u32 | hash of the epoch u128
//! founding  version floor u64 | last record u64 | version u64 | state hash u128 of the folder
//! ```
//!
//! Decoding takes bytes from a peer: it returns an error and never panics. Memory is bounded by the
//! maximum expansion of an LZ4 block of the given length, and by [`BODY_BYTES_MAX`], regardless of
//! the header.

use quartet_model::{LogSequence, Version, format};
use xxhash_rust::xxh3::xxh3_128;

use crate::pointer::Pointer;
use crate::words::{ClusterId, FoundedState, NodeId, PartitionId, RecordHash, Term, Writer};

/// Longest record, in bytes as stored. Members of etcd keep about 5,000 of them in memory.
pub const RECORD_BYTES_MAX: usize = 512 * 1024;
/// Longest body, in bytes before packing. A body of this length that cannot be packed still makes a
/// record that fits.
pub const BODY_BYTES_MAX: usize = RECORD_BYTES_MAX - OVERHEAD_BYTES;
/// Bodies of more bytes than this are packed.
pub const PACKED_FROM_BYTES: usize = 4096;

const MAGIC: &[u8; 4] = b"QREC";
const HEADER_BYTES: usize = 80;
const CHECKSUM_BYTES: usize = 4;
const OVERHEAD_BYTES: usize = HEADER_BYTES + CHECKSUM_BYTES;
/// Length of the header in a chunk's body.
pub(crate) const CHUNK_HEADER_BYTES: usize = 8;
/// No LZ4 block grows by more than this factor.
const LZ4_GROWTH_MAX: usize = 255;

/// One record of a partition's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The cluster that the log belongs to.
    pub cluster: ClusterId,
    /// The partition.
    pub partition: PartitionId,
    /// The record's sequence, from 1 on.
    pub sequence: LogSequence,
    /// The term it was written in; a Term record starts it.
    pub term: Term,
    /// The home of that term.
    pub writer: Writer,
    /// The hash of record `sequence - 1`, or [`origin`] for record 1.
    pub before: RecordHash,
    /// The content.
    pub body: Body,
}

/// The content of a record, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// One group commit.
    Epoch(Vec<u8>),
    /// A piece of a group commit that is too long for one record: the pieces of `count` consecutive
    /// records, joined.
    Chunk {
        /// From 0 on; less than `count`.
        index: u32,
        /// At least 2.
        count: u32,
        /// The piece.
        bytes: Vec<u8>,
    },
    /// A term starts. Commit versions in it are above `floor`.
    Term {
        /// The version that the new home's versions start from.
        floor: Version,
    },
    /// The first term of a cluster that starts with a folder's data. Its record follows immediately
    /// after the folder's last record.
    Founding {
        /// As that of a term.
        floor: Version,
        /// The folder's state.
        founded: FoundedState,
    },
    /// Every node takes its state hash here.
    Mark,
    /// The home's state hash at a mark.
    Hash {
        /// The mark.
        at: LogSequence,
        /// The hash of the state with everything up to the mark applied.
        state: u128,
    },
    /// One group commit, stored as an object.
    Object(Pointer),
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Fewer bytes than a header, or more than a record may have.
    #[error("{0} bytes are no record's length")]
    Length(usize),
    /// The record does not start with its magic bytes.
    #[error("these bytes are no record")]
    Magic,
    /// A later version of this program has written it.
    #[error("format {0} is not known")]
    Format(u8),
    /// The bytes have changed since they were written.
    #[error("the checksum does not fit")]
    Checksum,
    /// A field has a value that no writer gives it.
    #[error("{0} is out of range")]
    Field(&'static str),
}

impl Record {
    /// Returns the record's bytes: at most `RECORD_BYTES_MAX`. The body must not be longer than
    /// `BODY_BYTES_MAX`.
    pub fn encode(&self) -> Vec<u8> {
        let body = self.body.encode();
        assert!(body.len() <= BODY_BYTES_MAX, "the writer splits longer bodies");
        let packed = pack(&body);
        let stored = packed.as_deref().unwrap_or(&body);
        let mut bytes = Vec::with_capacity(OVERHEAD_BYTES + stored.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[written_format(), self.body.kind(), u8::from(packed.is_some()), 0]);
        bytes.extend_from_slice(&self.cluster.0.to_le_bytes());
        bytes.extend_from_slice(&self.partition.0.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.sequence.0.to_le_bytes());
        bytes.extend_from_slice(&self.term.0.to_le_bytes());
        bytes.extend_from_slice(&self.writer.node.0.to_le_bytes());
        bytes.extend_from_slice(&self.writer.incarnation.to_le_bytes());
        bytes.extend_from_slice(&self.before.0.to_le_bytes());
        bytes.extend_from_slice(stored);
        seal(&mut bytes);
        bytes
    }

    /// Reads what `encode` wrote.
    pub fn decode(bytes: &[u8]) -> Result<Record, RecordError> {
        if bytes.len() < OVERHEAD_BYTES || bytes.len() > RECORD_BYTES_MAX {
            return Err(RecordError::Length(bytes.len()));
        }
        let mut fields = Fields(bytes);
        if fields.take(4) != Some(MAGIC) {
            return Err(RecordError::Magic);
        }
        let format = fields.u8().unwrap_or_default();
        if !format::is_read(format.into()) {
            return Err(RecordError::Format(format));
        }
        fields.0 = unsealed(fields.0, bytes).ok_or(RecordError::Checksum)?;
        fields.record().ok_or(RecordError::Field("the header"))?
    }
}

fn written_format() -> u8 {
    u8::try_from(format::written()).expect("a format below 256")
}

/// The hash of a record's bytes as stored.
pub fn hash(record: &[u8]) -> RecordHash {
    RecordHash(xxh3_128(record))
}

/// Returns the hash that record 1 of a partition has as its predecessor's: computed from the
/// cluster id and the partition.
pub fn origin(cluster: ClusterId, partition: PartitionId) -> RecordHash {
    let mut bytes = [0; 20];
    bytes[..16].copy_from_slice(&cluster.0.to_le_bytes());
    bytes[16..].copy_from_slice(&partition.0.to_le_bytes());
    hash(&bytes)
}

impl Body {
    fn kind(&self) -> u8 {
        match self {
            Body::Epoch(_) => 1,
            Body::Chunk { .. } => 2,
            Body::Term { .. } => 3,
            Body::Mark => 4,
            Body::Hash { .. } => 5,
            Body::Object(_) => 6,
            Body::Founding { .. } => 7,
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Body::Epoch(bytes) => bytes.clone(),
            Body::Chunk { index, count, bytes } => [&index.to_le_bytes()[..], &count.to_le_bytes(), bytes].concat(),
            Body::Term { floor } => floor.0.to_le_bytes().to_vec(),
            Body::Mark => Vec::new(),
            Body::Hash { at, state } => [&at.0.to_le_bytes()[..], &state.to_le_bytes()].concat(),
            Body::Object(pointer) => pointer.encode(),
            Body::Founding { floor, founded } => [
                &floor.0.to_le_bytes()[..],
                &founded.last.0.to_le_bytes(),
                &founded.version.0.to_le_bytes(),
                &founded.state.to_le_bytes(),
            ]
            .concat(),
        }
    }

    fn decode(kind: u8, body: Vec<u8>) -> Result<Body, RecordError> {
        let mut fields = Fields(&body);
        let decoded = match kind {
            1 => return Ok(Body::Epoch(body)),
            2 => fields.chunk(),
            3 => fields.u64().map(|floor| Body::Term { floor: Version(floor) }),
            4 => Some(Body::Mark),
            5 => fields.hash(),
            6 => {
                return Pointer::decode(&body)
                    .map(Body::Object)
                    .ok_or(RecordError::Field("the body"));
            }
            7 => fields.founding(),
            _ => return Err(RecordError::Field("the kind")),
        };
        match decoded {
            Some(decoded) if fields.0.is_empty() => Ok(decoded),
            _ => Err(RecordError::Field("the body")),
        }
    }
}

/// An LZ4 block of `body`, if that is worth it.
fn pack(body: &[u8]) -> Option<Vec<u8>> {
    if body.len() <= PACKED_FROM_BYTES {
        return None;
    }
    let packed = lz4_flex::block::compress(body);
    (packed.len() < body.len()).then_some(packed)
}

fn unpack(stored: &[u8], announced: usize) -> Option<Vec<u8>> {
    let possible = stored.len().saturating_mul(LZ4_GROWTH_MAX).min(BODY_BYTES_MAX);
    if announced > possible {
        return None;
    }
    let mut body = vec![0; announced];
    let written = lz4_flex::block::decompress_into(stored, &mut body).ok()?;
    (written == announced).then_some(body)
}

/// Appends the checksum of `bytes` to them.
pub(crate) fn seal(bytes: &mut Vec<u8>) {
    let checksum = crc32fast::hash(bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

/// `bytes`, the end of `sealed`, without the checksum; `None` if that does not fit.
pub(crate) fn unsealed<'a>(bytes: &'a [u8], sealed: &[u8]) -> Option<&'a [u8]> {
    let (content, checksum) = sealed.split_last_chunk::<CHECKSUM_BYTES>()?;
    let fits = crc32fast::hash(content).to_le_bytes() == *checksum;
    fits.then(|| bytes.get(..bytes.len().checked_sub(CHECKSUM_BYTES)?))
        .flatten()
}

/// Takes fields from the front of bytes; `None` where they end too early.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (field, remaining) = self.0.split_at_checked(count)?;
        self.0 = remaining;
        Some(field)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    pub fn writer(&mut self) -> Option<Writer> {
        let (node, incarnation) = (NodeId(self.u64()?), self.u64()?);
        Some(Writer { node, incarnation })
    }

    /// The header from `kind` on, and the body.
    fn record(&mut self) -> Option<Result<Record, RecordError>> {
        let (kind, packed, zero) = (self.u8()?, self.u8()?, self.u8()?);
        let (cluster, partition) = (ClusterId(self.u128()?), PartitionId(self.u32()?));
        let announced = self.u32()? as usize;
        let (sequence, term) = (LogSequence(self.u64()?), Term(self.u64()?));
        let (writer, before) = (self.writer()?, RecordHash(self.u128()?));
        if zero != 0 || packed > 1 || sequence == LogSequence::ZERO || term == Term::ZERO {
            return None;
        }
        let body = match packed {
            1 => unpack(self.0, announced),
            _ => (self.0.len() == announced).then(|| self.0.to_vec()),
        };
        let Some(body) = body else {
            return Some(Err(RecordError::Field("the length of the body")));
        };
        Some(Body::decode(kind, body).map(|body| Record {
            cluster,
            partition,
            sequence,
            term,
            writer,
            before,
            body,
        }))
    }

    fn chunk(&mut self) -> Option<Body> {
        let (index, count) = (self.u32()?, self.u32()?);
        let bytes = std::mem::take(&mut self.0).to_vec();
        (count >= 2 && index < count).then_some(Body::Chunk { index, count, bytes })
    }

    fn founding(&mut self) -> Option<Body> {
        let floor = Version(self.u64()?);
        let founded = FoundedState {
            last: LogSequence(self.u64()?),
            version: Version(self.u64()?),
            state: self.u128()?,
        };
        Some(Body::Founding { floor, founded })
    }

    fn hash(&mut self) -> Option<Body> {
        let (at, state) = (LogSequence(self.u64()?), self.u128()?);
        Some(Body::Hash { at, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(body: Body) -> Record {
        Record {
            cluster: ClusterId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
            partition: PartitionId(3),
            sequence: LogSequence(41),
            term: Term(7),
            writer: Writer {
                node: NodeId(2),
                incarnation: 99,
            },
            before: RecordHash(5),
            body,
        }
    }

    fn each_kind() -> Vec<Record> {
        let chunk = Body::Chunk {
            index: 1,
            count: 2,
            bytes: b"piece".to_vec(),
        };
        let hash = Body::Hash {
            at: LogSequence(40),
            state: 12,
        };
        let floor = Version(77);
        let object = Body::Object(Pointer {
            length: 9_000_000,
            piece_bytes: 8 << 20,
            hash: 13,
        });
        let founding = Body::Founding {
            floor,
            founded: FoundedState {
                last: LogSequence(98),
                version: Version(76),
                state: 14,
            },
        };
        [
            Body::Epoch(b"effects".to_vec()),
            Body::Epoch(Vec::new()),
            chunk,
            Body::Term { floor },
            Body::Mark,
            hash,
            object,
            founding,
        ]
        .map(record)
        .to_vec()
    }

    #[test]
    fn every_kind_is_read_as_written() {
        for record in each_kind() {
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn a_changed_bit_or_a_missing_end_is_noticed() {
        for record in each_kind() {
            let bytes = record.encode();
            for bit in 0..bytes.len() * 8 {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(Record::decode(&bytes).is_err(), "bit {bit}");
            }
            for length in 0..bytes.len() {
                assert!(Record::decode(&bytes[..length]).is_err(), "{length} bytes");
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_page() {
        let bytes = record(Body::Mark).encode();
        let expected = "5152454301040000efcdab8967452301efcdab89674523010300000000000000\
                        290000000000000007000000000000000200000000000000630000000000000\
                        005000000000000000000000000000000";
        assert_eq!(quartet_model::hexadecimal(&bytes[..80]), expected);
        assert_eq!(bytes[80..], crc32fast::hash(&bytes[..80]).to_le_bytes());
    }

    #[test]
    fn long_bodies_are_packed_where_that_helps() {
        let plain = record(Body::Epoch(vec![7; PACKED_FROM_BYTES]));
        assert!(plain.encode().len() > PACKED_FROM_BYTES);
        let packed = record(Body::Epoch(vec![7; BODY_BYTES_MAX]));
        assert!(packed.encode().len() < BODY_BYTES_MAX / 100);
        assert_eq!(Record::decode(&packed.encode()), Ok(packed));
        let mut random = 1_u64;
        let noise = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        });
        let noise = record(Body::Epoch(noise.take(BODY_BYTES_MAX).collect()));
        assert_eq!(noise.encode().len(), RECORD_BYTES_MAX);
        assert_eq!(Record::decode(&noise.encode()), Ok(noise));
    }

    /// A block that announces more than it holds, or than any record may hold, is refused before
    /// memory is taken for it.
    #[test]
    fn an_announced_length_is_not_believed() {
        for announced in [u32::MAX, BODY_BYTES_MAX as u32 + 1, 8_000] {
            let mut bytes = record(Body::Epoch(vec![7; 8_192])).encode();
            bytes.truncate(bytes.len() - CHECKSUM_BYTES);
            bytes[28..32].copy_from_slice(&announced.to_le_bytes());
            seal(&mut bytes);
            let refused = Err(RecordError::Field("the length of the body"));
            assert_eq!(Record::decode(&bytes), refused, "{announced}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Record::decode(&bytes);
            if bytes.len() > 8 {
                bytes[..5].copy_from_slice(b"QREC\x01");
                seal(&mut bytes);
                let _ = Record::decode(&bytes);
            }
        }
    }
}
