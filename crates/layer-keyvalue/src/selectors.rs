//! The key that a selector names.
//!
//! `(key, or_equal, offset)` is the last key before `key` (or at it), and then `offset` keys
//! further. With `key\x00` instead of a `key` that may be equal, offset 1 is the first key at or
//! after it, and 0 the last key before it. The store counts, so any offset costs O(log n).

use std::borrow::Cow;

use quartet_engine::{Reader, Transaction};
use quartet_wire_keyvalue::Selector;

/// A bound of a range: the selected key, or an equivalent bound without a key in between. So the
/// first key at or after another needs no look-up.
pub(crate) fn bound<'a>(reader: &Reader, selector: &Selector<'a>, end: &'a [u8]) -> Cow<'a, [u8]> {
    match selector.offset {
        1 => base(selector, end),
        _ => resolve(reader, selector, end).into(),
    }
}

/// The key that the offset counts from. Keys at the end or beyond are out of reach, and do not
/// count.
fn base<'a>(selector: &Selector<'a>, end: &'a [u8]) -> Cow<'a, [u8]> {
    if selector.key >= end {
        end.into()
    } else if selector.or_equal {
        [selector.key, b"\0"].concat().into()
    } else {
        selector.key.into()
    }
}

/// The selected key; `""` if it is before the first, `end` if it is after the last key before
/// `end`.
pub(crate) fn resolve(reader: &Reader, selector: &Selector<'_>, end: &[u8]) -> Vec<u8> {
    let base = base(selector, end);
    let offset = i64::from(selector.offset);
    let entry = if offset >= 1 {
        let index = u64::try_from(offset - 1).unwrap_or_default();
        reader.nth(&base, end, index)
    } else {
        let position = reader.count(b"", &base).checked_add_signed(offset - 1);
        match position {
            // The index wraps below zero only if there are fewer keys than the offset requires.
            Some(index) if index < u64::MAX / 2 => reader.nth(b"", &base, index),
            _ => return Vec::new(),
        }
    };
    match entry {
        Some(row) => Transaction::layer_key(&row).to_vec(),
        None => end.to_vec(),
    }
}
