//! The types of objects: requests to their store, and a record's pointer to an object.

use xxhash_rust::xxh3::xxh3_128;

/// Longest epoch in an object, in bytes: one transaction of 1 GiB, including the row that exceeded
/// the limit.
pub const OBJECT_BYTES_MAX: u64 = 2 << 30;
/// Longest piece of an object, in bytes.
pub const PIECE_BYTES_MAX: usize = 8 << 20;
/// Most pieces of an object.
const PIECES_MAX: u64 = 256;

/// A request of the store of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectRequest {
    /// Keeps bytes under a name. They are durable before the answer. Answer: `Done`.
    Put {
        /// The name.
        name: String,
        /// The bytes; the same for each request with this name.
        bytes: Vec<u8>,
    },
    /// Reads an object. Answer: `Bytes`, or `Missing`.
    Get {
        /// The name.
        name: String,
        /// The expected length of a complete object; a longer object is not read.
        length: usize,
    },
    /// Lists names. Answer: `Names`.
    List {
        /// Their prefix.
        prefix: String,
    },
    /// Removes an object. Answer: `Done`, also if there is none.
    Remove {
        /// The name.
        name: String,
    },
}

/// The store's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectAnswer {
    /// It is done.
    Done,
    /// The object's bytes.
    Bytes(Vec<u8>),
    /// The store is the cluster's and has no such object.
    Missing,
    /// Names, in any order.
    Names(Vec<String>),
}

/// The content of a record that points to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The epoch's length in bytes: from 1 to `OBJECT_BYTES_MAX`.
    pub length: u64,
    /// The length of each piece but the last, in bytes: from 1 to `PIECE_BYTES_MAX`.
    pub piece_bytes: u32,
    /// XXH3-128 of the epoch.
    pub hash: u128,
}

impl Pointer {
    /// The pointer to an epoch; `None` if it is too long for an object of such pieces.
    pub(crate) fn to(epoch: &[u8], piece_bytes: usize) -> Option<Pointer> {
        let pointer = Pointer {
            length: epoch.len() as u64,
            piece_bytes: u32::try_from(piece_bytes).ok()?,
            hash: xxh3_128(epoch),
        };
        pointer.is_in_range().then_some(pointer)
    }

    fn is_in_range(&self) -> bool {
        let piece_bytes = u64::from(self.piece_bytes);
        (1..=OBJECT_BYTES_MAX).contains(&self.length)
            && (1..=PIECE_BYTES_MAX as u64).contains(&piece_bytes)
            && self.length.div_ceil(piece_bytes) <= PIECES_MAX
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.length.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.piece_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.hash.to_le_bytes());
        bytes
    }

    /// Reads what `encode` wrote; `None` if a field has a value that no writer gives it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Pointer> {
        let (length, fields) = bytes.split_first_chunk()?;
        let (piece_bytes, hash) = fields.split_first_chunk()?;
        let pointer = Pointer {
            length: u64::from_le_bytes(*length),
            piece_bytes: u32::from_le_bytes(*piece_bytes),
            hash: u128::from_le_bytes(hash.try_into().ok()?),
        };
        pointer.is_in_range().then_some(pointer)
    }

    /// The number of the object's pieces.
    pub fn pieces(&self) -> u32 {
        self.length.div_ceil(u64::from(self.piece_bytes)) as u32
    }

    /// The range of a piece in the epoch.
    pub fn piece(&self, piece: u32) -> std::ops::Range<usize> {
        let start = u64::from(piece) * u64::from(self.piece_bytes);
        let end = (start + u64::from(self.piece_bytes)).min(self.length);
        start as usize..end as usize
    }

    /// Returns true if these bytes are the epoch.
    pub fn fits(&self, epoch: &[u8]) -> bool {
        epoch.len() as u64 == self.length && xxh3_128(epoch) == self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_beyond_any_bound_is_refused() {
        let decode = |pointer: Pointer| Pointer::decode(&pointer.encode());
        let good = Pointer {
            length: OBJECT_BYTES_MAX,
            piece_bytes: PIECE_BYTES_MAX as u32,
            hash: 5,
        };
        assert_eq!(decode(good), Some(good));
        for (length, piece_bytes) in [
            (0, 1),
            (OBJECT_BYTES_MAX + 1, PIECE_BYTES_MAX as u32),
            (1, 0),
            (1, PIECE_BYTES_MAX as u32 + 1),
            (PIECES_MAX + 1, 1),
        ] {
            let bad = Pointer {
                length,
                piece_bytes,
                hash: 5,
            };
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }
}
