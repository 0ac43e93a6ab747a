//! A key with a readable row, as the invariants see it.

use quartet_engine::Repair;
use quartet_model::next_prefix;

use crate::keyspace::Entry;
use crate::keyspace::places::{self, KeyBytes};

/// Bytes of a large collection's id.
pub const ID_BYTES: usize = 10;
/// A tag and an id.
pub const ELEMENTS_PREFIX_BYTES: usize = 1 + ID_BYTES;

/// A key whose row can be read.
pub struct StoredKey<'r> {
    /// The row's key, relative to the layer: the tag, the database, the place.
    pub row_key: &'r [u8],
    pub entry: &'r Entry,
}

impl StoredKey<'_> {
    pub fn name(&self) -> String {
        name(self.row_key)
    }

    /// The part below the key's id, and its end.
    pub fn elements(&self) -> (Vec<u8>, Vec<u8>) {
        let prefix = [b"E".as_slice(), &self.entry.payload()[..ID_BYTES]].concat();
        let end = next_prefix(&prefix);
        (prefix, end)
    }

    /// Replaces the number at `offset` bytes after the id.
    pub fn with_number(&self, value: &[u8], offset: usize, number: u64) -> Repair {
        self.with_bytes(value, offset, &number.to_be_bytes())
    }

    pub fn with_bytes(&self, value: &[u8], offset: usize, bytes: &[u8]) -> Repair {
        let mut value = value.to_vec();
        let at = self.entry.header_bytes() + ID_BYTES + offset;
        value[at..at + bytes.len()].copy_from_slice(bytes);
        Repair::Set {
            key: self.row_key.to_vec(),
            value,
        }
    }
}

/// Database and name of the key with this row.
pub fn database_and_name(row_key: &[u8]) -> (u8, KeyBytes) {
    let database = row_key.get(1).copied().unwrap_or_default();
    (database, places::name(row_key.get(2..).unwrap_or_default()))
}

/// How a key is called in findings.
pub fn name(row_key: &[u8]) -> String {
    let (database, name) = database_and_name(row_key);
    described(database, &name)
}

pub fn described(database: u8, name: &[u8]) -> String {
    format!("key \"{}\" of database {database}", name.escape_ascii())
}
