//! The key that a selector names.
//!
//! `(key, or_equal, offset)` is the last key before `key` (or at it), and then `offset` keys on. With `key\x00` in the place
//! of a `key` that may be equal, offset 1 is the first key at or after it, and 0 the last one before it. The store counts, so
//! an offset costs O(log n) however large it is.

use quartet_engine::{Reader, Transaction};
use quartet_wire_keyvalue::Selector;

/// The key, `""` if it lies before the first, `end` if it lies after the last one before `end`.
pub(crate) fn resolve(reader: &Reader, selector: &Selector<'_>, end: &[u8]) -> Vec<u8> {
    let mut base = selector.key.to_vec();
    if selector.or_equal {
        base.push(0);
    }
    // What lies at the end or beyond is out of reach, and does not count.
    if base.as_slice() > end {
        base = end.to_vec();
    }
    let offset = i64::from(selector.offset);
    let found = if offset >= 1 {
        let index = u64::try_from(offset - 1).unwrap_or_default();
        reader.nth(&base, end, index)
    } else {
        let position = reader.count(b"", &base).checked_add_signed(offset - 1);
        match position {
            // Counting wraps below zero only where there are fewer keys than the offset asks for.
            Some(index) if index < u64::MAX / 2 => reader.nth(b"", &base, index),
            _ => return Vec::new(),
        }
    };
    match found {
        Some(row) => Transaction::layer_key(&row).to_vec(),
        None => end.to_vec(),
    }
}
