//! The hash that two replicas, or a checkpoint and its source, compare to verify that they hold
//! the same rows.
//!
//! XXH3-128 over every row in key order, each as key length u32, value length u32, version u64 (all
//! little-endian), key, value. Lengths precede the bytes, so no two different sequences of rows
//! give the same bytes. It guards against accidents, not against an adversary. The value is stored
//! in checkpoints: changing it needs a new format version there.

use std::ops::ControlFlow;

use quartet_model::{KeyRange, Version};
use xxhash_rust::xxh3::Xxh3;

use crate::error::StoreError;
use crate::interface::Read;
use crate::row::Row;

/// Hashes rows one by one.
#[derive(Default)]
pub struct StateHasher {
    hasher: Xxh3,
}

impl StateHasher {
    /// The hash of no rows.
    pub fn new() -> StateHasher {
        StateHasher::default()
    }

    /// Adds the next row. The order counts: hashes are comparable only if rows are pushed in key
    /// order.
    pub fn push(&mut self, row: &Row) {
        self.push_parts(row.key(), row.value(), row.version());
    }

    /// The same with the parts of a row.
    pub fn push_parts(&mut self, key: &[u8], value: &[u8], version: Version) {
        let mut header = [0; 16];
        header[..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&(value.len() as u32).to_le_bytes());
        header[8..].copy_from_slice(&version.0.to_le_bytes());
        self.hasher.update(&header);
        self.hasher.update(key);
        self.hasher.update(value);
    }

    /// The hash of the rows pushed. More rows may follow.
    pub fn finish(&self) -> u128 {
        self.hasher.digest128()
    }
}

/// The hash of the rows in `range`, or of all rows. Reads each of those rows.
pub fn state_hash(rows: &impl Read, range: Option<&KeyRange>) -> Result<u128, StoreError> {
    let mut hasher = StateHasher::new();
    let mut visit = |row: &Row| {
        hasher.push(row);
        ControlFlow::Continue(())
    };
    match range {
        Some(range) => rows.scan(&range.start, &range.end, false, &mut visit)?,
        None => rows.walk(b"", &mut visit)?,
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryStore, Store};

    fn hash(rows: &[(&[u8], &[u8], u64)]) -> u128 {
        let mut store = MemoryStore::new();
        for (key, value, version) in rows {
            store.set(Row::new(key, value, Version(*version))).unwrap();
        }
        state_hash(&store, None).unwrap()
    }

    #[test]
    fn every_part_of_a_row_counts() {
        let base = hash(&[(b"ab", b"cd", 1), (b"b", b"", 2)]);
        assert_eq!(
            base,
            hash(&[(b"b", b"", 2), (b"ab", b"cd", 1)]),
            "the order of writing does not count"
        );
        for other in [
            hash(&[(b"a", b"bcd", 1), (b"b", b"", 2)]),
            hash(&[(b"ab", b"ce", 1), (b"b", b"", 2)]),
            hash(&[(b"ab", b"cd", 2), (b"b", b"", 2)]),
            hash(&[(b"ab", b"cd", 1)]),
            hash(&[]),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn a_range_hashes_as_a_store_with_only_its_rows() {
        let mut store = MemoryStore::new();
        for key in [b"a", b"b", b"c"] {
            store.set(Row::new(key, b"v", Version(1))).unwrap();
        }
        let range = KeyRange::new("b", "c");
        assert_eq!(state_hash(&store, Some(&range)).unwrap(), hash(&[(b"b", b"v", 1)]));
    }

    #[test]
    fn the_stored_value_does_not_change() {
        let bytes = b"\x03\0\0\0\x05\0\0\0\x07\0\0\0\0\0\0\0keyvalue";
        assert_eq!(hash(&[(b"key", b"value", 7)]), xxhash_rust::xxh3::xxh3_128(bytes));
        assert_eq!(hash(&[(b"key", b"value", 7)]), 322921536005482229235958580679764871174);
    }
}
