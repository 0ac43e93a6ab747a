//! Large lists as versions before the blocks have written them: a row for each element. They are
//! read as they are. The first change of such a list puts it into blocks; that is one transaction,
//! so one that may take more than [`CONVERTED_BYTES_MAX`] stays as it is, and is changed so, until
//! it is smaller.
//!
//! ```text
//! payload: id (10 bytes), count, first, last (8 bytes each, big-endian)
//! element row: position, order-preserving -> the element
//! ```
//!
//! Positions ascend with gaps between them; `first` and `last` bound them and need not be taken.

use std::ops::{ControlFlow, Range};

use super::blocks::{End, Popped, position_key, position_of};
use crate::keyspace::{Elements, Entry, FLAG_A, Header, Keyspace, LARGE};

/// A sixteenth of what a transaction may write: elements that were not looked at may be longer than
/// the others.
const CONVERTED_BYTES_MAX: u64 = if cfg!(test) { 48 << 10 } else { 64 << 20 };
/// Overhead of an element beside its own bytes.
const ELEMENT_BYTES: u64 = 40;
/// Elements that are looked at to know how long they are.
const SAMPLES: u64 = 16;
/// Distance between new positions and those at an end, so that insertions find one.
const STEP: i64 = 1 << 20;

/// Visits the elements from an end, but for the first `skip`, until `visit` breaks.
pub fn scan(
    keys: &mut Keyspace<'_, '_>,
    entry: &Entry,
    backwards: bool,
    mut skip: u64,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) {
    let elements = entry.elements();
    let mut start = Vec::new();
    if !backwards && skip > 0 {
        let Some(row) = elements.nth(keys.tx, b"", std::mem::take(&mut skip)) else {
            return;
        };
        start = Elements::name(&row).to_vec();
    }
    elements.scan(keys.tx, &start, None, backwards, &mut |_, value| {
        if skip > 0 {
            skip -= 1;
            return ControlFlow::Continue(());
        }
        visit(value)
    });
}

/// A list that stays as it is.
pub struct SingleRows {
    elements: Elements,
    pub count: u64,
    first: i64,
    last: i64,
}

impl SingleRows {
    /// `None` if the list is small, in blocks, or to be put into blocks.
    pub fn of(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> Option<SingleRows> {
        if !entry.is_large() || entry.flags & FLAG_A != 0 {
            return None;
        }
        let (numbers, _) = entry.large_payload().as_chunks::<8>();
        let &[count, first, last] = numbers else { return None };
        let list = SingleRows {
            elements: entry.elements(),
            count: u64::from_be_bytes(count),
            first: i64::from_be_bytes(first),
            last: i64::from_be_bytes(last),
        };
        (list.estimated_bytes(keys) > CONVERTED_BYTES_MAX).then_some(list)
    }

    fn estimated_bytes(&self, keys: &mut Keyspace<'_, '_>) -> u64 {
        let samples = (0..SAMPLES).filter_map(|sample| {
            let index = u128::from(self.count) * u128::from(sample) / u128::from(SAMPLES);
            self.elements.nth(keys.tx, b"", index as u64)
        });
        let bytes: u64 = samples.map(|row| row.value().len() as u64).sum();
        self.count.saturating_mul(ELEMENT_BYTES + bytes / SAMPLES)
    }

    /// Writes the key's row, or removes the list that has become empty.
    pub fn write(&self, keys: &mut Keyspace<'_, '_>, name: &[u8], header: Header) {
        if self.count == 0 {
            keys.remove(name);
            return;
        }
        let numbers = [self.count, self.first as u64, self.last as u64].map(u64::to_be_bytes);
        keys.put_parts(name, header.flags(LARGE), &[self.elements.id(), numbers.as_flattened()]);
    }

    fn add(&mut self, keys: &mut Keyspace<'_, '_>, position: i64, value: &[u8]) {
        self.elements.set(keys.tx, &position_key(position), value);
        self.count += 1;
        self.first = self.first.min(position);
        self.last = self.last.max(position);
    }

    /// Adds an element at an end. The positions reach beyond any number of pushes that somebody
    /// lives to see.
    pub fn push(&mut self, keys: &mut Keyspace<'_, '_>, end: End, value: &[u8]) {
        let position = match end {
            End::Left => self.first - STEP,
            End::Right => self.last + STEP,
        };
        self.add(keys, position, value);
    }

    /// Removes the element at an end. `None` if it could not be read.
    pub fn pop(&mut self, keys: &mut Keyspace<'_, '_>, end: End) -> Option<Popped> {
        let row = self.elements.clear_end(keys.tx, b"", None, end == End::Right)?;
        self.count -= 1;
        Some(Popped::from_slice(row.value()))
    }

    /// Keeps only the elements whose index is in `kept`, which is not empty.
    pub fn keep(&mut self, keys: &mut Keyspace<'_, '_>, kept: Range<u64>) {
        if let Some(behind) = self.key_at(keys, kept.end) {
            self.elements.clear_range(keys.tx, &behind, None);
        }
        if let Some(start) = self.key_at(keys, kept.start) {
            self.elements.clear_range(keys.tx, b"", Some(&start));
        }
        self.count = kept.end - kept.start;
    }

    /// Replaces the element at `index`. The key's row stays as it is.
    pub fn set(&self, keys: &mut Keyspace<'_, '_>, index: u64, value: &[u8]) {
        if let Some(key) = self.key_at(keys, index) {
            self.elements.set(keys.tx, &key, value);
        }
    }

    /// Inserts an element so that `index` is its own. False if no position is free there.
    pub fn insert(&mut self, keys: &mut Keyspace<'_, '_>, index: u64, value: &[u8]) -> bool {
        let mut position_at = |index| position_of(&self.key_at(keys, index)?);
        let before = index.checked_sub(1).and_then(&mut position_at);
        let position = match (before, position_at(index)) {
            (Some(before), Some(behind)) => before + (behind - before) / 2,
            (None, _) => self.first - STEP,
            (_, None) => self.last + STEP,
        };
        if before == Some(position) {
            return false;
        }
        self.add(keys, position, value);
        true
    }

    /// Removes the elements at `indexes`, which ascend.
    pub fn remove(&mut self, keys: &mut Keyspace<'_, '_>, indexes: &[u64]) {
        for index in indexes.iter().rev() {
            if let Some(key) = self.key_at(keys, *index) {
                self.elements.clear(keys.tx, &key);
            }
        }
        self.count -= indexes.len() as u64;
    }

    fn key_at(&self, keys: &mut Keyspace<'_, '_>, index: u64) -> Option<Vec<u8>> {
        let row = self.elements.nth(keys.tx, b"", index)?;
        Some(Elements::name(&row).to_vec())
    }
}
