//! How this crate sees what is stored: ordered rows of bytes, at one snapshot.
//!
//! The rows of one index are below a prefix that the implementation adds, so keys here start with a
//! tag of `index::layout`. A transaction that reads its own writes, a reader of a frozen snapshot
//! and a map in memory can all be rows.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A document's number. Counts up from 1 within an index.
pub type DocumentId = u64;

/// The id that a key ends with.
pub(crate) fn id_of(key: &[u8]) -> DocumentId {
    let id = key.last_chunk().expect("the key ends with an id");
    u64::from_be_bytes(*id)
}

/// Takes a key and its value; breaks to end the scan.
pub type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Takes ids; breaks to end the scan.
pub type VisitIds<'v> = &'v mut dyn FnMut(&[DocumentId]) -> ControlFlow<()>;

/// Keys from `start` to before `end`.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'k> {
    /// The first key.
    pub start: &'k [u8],
    /// The key after the last.
    pub end: &'k [u8],
}

/// Returns the key of a row that has a number below its tag.
pub fn numbered(tag: u8, number: u64) -> [u8; 9] {
    let mut key = [tag; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Rows that can be read. All reads of one value see the same snapshot.
pub trait Rows {
    /// The value at `key`.
    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>>;

    /// Shows the value at `key` to `visit`, without a copy where that is possible. Returns false if
    /// there is none.
    fn show(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool;

    /// As [`Rows::show`], for the key that [`numbered`] makes.
    fn show_numbered(&mut self, tag: u8, number: u64, visit: &mut dyn FnMut(&[u8])) -> bool {
        self.show(&numbered(tag, number), visit)
    }

    /// Prefetches about `bytes` of that value, which will be read soon, if that costs little.
    fn fetch_numbered(&mut self, _tag: u8, _number: u64, _bytes: usize) {}

    /// As [`Rows::show_numbered`] for several numbers, each with its index in `numbers`: a batch
    /// takes little longer than a single read. About `bytes` of each value are read.
    fn show_each(&mut self, tag: u8, numbers: &[u64], _bytes: usize, visit: &mut dyn FnMut(usize, &[u8])) {
        for (at, number) in numbers.iter().enumerate() {
            self.show_numbered(tag, *number, &mut |value| visit(at, value));
        }
    }

    /// Visits keys and values of `start..end` in key order until `visit` breaks.
    fn scan(&mut self, start: &[u8], end: &[u8], visit: Visit<'_>);

    /// Visits the ids with which the keys of a range end, in the order of the keys and several at a
    /// time, until `visit` breaks. Every key of the range is `key_bytes` long.
    fn scan_ids(&mut self, keys: KeyRange<'_>, _key_bytes: usize, visit: VisitIds<'_>) {
        self.scan(keys.start, keys.end, &mut |key, _| visit(&[id_of(key)]));
    }

    /// The number of rows in `start..end`. Takes no longer for more rows.
    fn count(&mut self, start: &[u8], end: &[u8]) -> u64;
}

/// Rows that can be written. Reads see earlier writes.
pub trait WriteRows: Rows {
    /// Gives `key` this value.
    fn set(&mut self, key: &[u8], value: &[u8]);

    /// Writes `bytes` over the value at `key` from `offset` on, which is at most its length. Costs
    /// the log only the bytes.
    fn patch(&mut self, key: &[u8], offset: usize, bytes: &[u8]);

    /// Removes `key`.
    fn clear(&mut self, key: &[u8]);
}

/// Rows in memory, for tests, fuzzing and figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryRows(BTreeMap<Vec<u8>, Vec<u8>>);

impl MemoryRows {
    /// Returns how many rows there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Rows for MemoryRows {
    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).cloned()
    }

    fn show(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
        self.0.get(key).map(|value| visit(value)).is_some()
    }

    fn scan(&mut self, start: &[u8], end: &[u8], visit: Visit<'_>) {
        if start >= end {
            return;
        }
        for (key, value) in self.0.range(start.to_vec()..end.to_vec()) {
            if visit(key, value).is_break() {
                return;
            }
        }
    }

    fn count(&mut self, start: &[u8], end: &[u8]) -> u64 {
        match start < end {
            true => self.0.range(start.to_vec()..end.to_vec()).count() as u64,
            false => 0,
        }
    }
}

impl WriteRows for MemoryRows {
    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.0.insert(key.to_vec(), value.to_vec());
    }

    fn patch(&mut self, key: &[u8], offset: usize, bytes: &[u8]) {
        let value = self.0.entry(key.to_vec()).or_default();
        value.resize(value.len().max(offset + bytes.len()), 0);
        value[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn clear(&mut self, key: &[u8]) {
        self.0.remove(key);
    }
}
