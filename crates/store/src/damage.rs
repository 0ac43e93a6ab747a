//! Reports of damage, and the repair of a single bit.

use xxhash_rust::xxh3::xxh3_64;

use crate::options::StoreKind;
use crate::position::Position;

/// Something that was found damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Rows that cannot be read.
    Lost(Lost),
    /// A piece that is whole again: what was wrong is known. The text says where and what.
    Mended(String),
}

/// Rows that cannot be read, somewhere in an interval of keys; what was read of the interval beside
/// them is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// No row below this key is concerned.
    pub from: Vec<u8>,
    /// Nor is one at or above this; `None` if there is no such bound.
    pub before: Option<Vec<u8>>,
    /// The number of rows, if a sound part states it.
    pub rows: Option<u64>,
    /// Keys that the damaged bytes name: likely to be among them, and nothing more. At most a few
    /// thousand.
    pub likely: Vec<Vec<u8>>,
    /// The file, the part of it, and the kind of damage.
    pub what: String,
}

/// The rows that were saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The kind of store that wrote the rows.
    pub kind: StoreKind,
    /// The position at which they were written. If the store no longer states it, an earlier
    /// position from which the log can be applied.
    pub position: Position,
    /// The number of read rows.
    pub rows: u64,
    /// The total number of missing rows, if a sound part states it.
    pub missing: Option<u64>,
}

/// Upper bound on the keys reported for a damaged piece.
const LIKELY_MAX: usize = 4096;
/// In longer pieces no turned bit is looked for: that takes time with the square of the length.
const MENDED_BYTES_MAX: usize = 16 << 10;

/// Flips the one bit that makes the bytes match the checksum. Returns the index of its byte.
pub(crate) fn mend_bit(bytes: &mut [u8], checksum: u64) -> Option<usize> {
    if bytes.len() > MENDED_BYTES_MAX {
        return None;
    }
    for bit in 0..bytes.len() * 8 {
        let mask = 1 << (bit % 8);
        bytes[bit / 8] ^= mask;
        if xxh3_64(bytes) == checksum {
            return Some(bit / 8);
        }
        bytes[bit / 8] ^= mask;
    }
    None
}

/// Keeps the keys that may be reported: not all of a damaged piece.
pub(crate) fn note_likely(likely: &mut Vec<Vec<u8>>, key: &[u8]) {
    if likely.len() < LIKELY_MAX {
        likely.push(key.to_vec());
    }
}
