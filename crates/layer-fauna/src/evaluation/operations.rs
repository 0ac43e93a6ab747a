//! The read and write operations of a query, as the original counts them.
//!
//! A read operation is 4 KiB of a document or a set, at least one even where nothing exists. The
//! original keeps a set without terms in eight parts, and each costs at least one. A second read in
//! a query, a read of what the query has written, and a write's read of its own document are free.
//!
//! A write operation is a KiB of a document with the entries that it adds to indexes and removes
//! from them. Rows of the original are longer: `DOCUMENT_BYTES_MORE` and `ENTRY_BYTES_MORE` are the
//! difference, from the bytes of the recorded replies (`tests/fauna/golden.jsonl`).

use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

use rustc_hash::FxHashMap;

use crate::language::value::Native;
use crate::storage::documents::Place;

const READ_BYTES: u64 = 4096;
const WRITE_BYTES: u64 = 1024;
/// Number of documents and sets that a query remembers; reads of others cost each time.
const REMEMBERED_MAX: usize = 4096;
/// The parts of a set without terms.
pub const PARTS_WITHOUT_TERMS: u64 = 8;
/// The bytes of a version in the original beyond those of its row here.
pub const DOCUMENT_BYTES_MORE: u64 = 280;
/// The bytes of an entry that is added or removed in the original beyond those of its row here.
pub const ENTRY_BYTES_MORE: u64 = 80;

/// A document or a set, by a hash: two with the same hash cost as one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Counted(u64);

impl Counted {
    pub fn of(parts: impl Hash) -> Counted {
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        Counted(hasher.finish())
    }

    pub fn document(place: &Place) -> Counted {
        Counted::of((place.database().0, place.collection, place.id))
    }
}

/// The bytes that a query has read and written of each document and set.
#[derive(Default)]
pub struct Operations {
    read: FxHashMap<Counted, u64>,
    written: FxHashMap<Counted, u64>,
}

impl Operations {
    /// Adds `bytes` that were read of a document, or of a set with `parts` parts, and returns the
    /// number of operations.
    pub fn read(&mut self, of: Counted, parts: u64, bytes: u64) -> u64 {
        let operations = |bytes: u64| parts - 1 + bytes.div_ceil(READ_BYTES).max(1);
        if self.written.contains_key(&of) {
            return 0;
        }
        let is_full = self.read.len() >= REMEMBERED_MAX;
        match self.read.entry(of) {
            Entry::Occupied(mut read) => {
                let before = *read.get();
                *read.get_mut() = before + bytes;
                operations(before + bytes) - operations(before)
            }
            Entry::Vacant(_) if is_full => operations(bytes),
            Entry::Vacant(read) => {
                read.insert(bytes);
                operations(bytes)
            }
        }
    }

    /// Adds `bytes` of a document's next version with its entries, and returns the number of
    /// operations. A later version in the same transaction replaces it.
    pub fn written(&mut self, of: Counted, bytes: u64) -> u64 {
        let is_full = self.written.len() >= REMEMBERED_MAX;
        let before = match self.written.entry(of) {
            Entry::Occupied(mut written) => {
                let before = *written.get();
                *written.get_mut() = before.max(bytes);
                before
            }
            Entry::Vacant(_) if is_full => 0,
            Entry::Vacant(written) => {
                written.insert(bytes);
                0
            }
        };
        before.max(bytes).div_ceil(WRITE_BYTES) - before.div_ceil(WRITE_BYTES)
    }
}

/// The parts of the set of all documents of a collection. The databases are two sets.
pub fn parts_of_documents(collection: u64) -> u64 {
    match collection == Native::Databases as u64 {
        true => 2 * PARTS_WITHOUT_TERMS,
        false => PARTS_WITHOUT_TERMS,
    }
}
