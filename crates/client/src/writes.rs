//! The writes of a transaction, as its own reads must see them.
//!
//! Sets and clears decide a value; atomic operations on a key with an unknown value are kept as a
//! list until it is known. A key or value with a pending versionstamp cannot be read before the
//! commit.

use std::collections::BTreeMap;
use std::ops::Bound;

use quartet_model::AtomicOperation;
use quartet_wire_keyvalue::{Mutation, MutationKind};

use crate::conflicts::RangeSet;
use crate::key_after;

#[derive(Clone, Debug, Default)]
pub(crate) struct Writes {
    /// Keys that were written one by one; these win over `cleared`.
    keys: BTreeMap<Vec<u8>, Written>,
    cleared: RangeSet,
    /// The ranges in which the versionstamp may place a key.
    unreadable: RangeSet,
}

/// A transaction's knowledge of a key from its own writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Value(Vec<u8>),
    Cleared,
    /// The stored value, and then these.
    Operations(Vec<(AtomicOperation, Vec<u8>)>),
    /// A value that depends on the versionstamp, in its present form before the stamp is filled in,
    /// for readers that bypass the check.
    Unreadable(Vec<u8>),
}

impl Writes {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.cleared.is_empty() && self.unreadable.is_empty()
    }

    /// Shows one of the transaction's mutations. A key with a stamp is shown by
    /// `versionstamped_key`.
    pub fn apply(&mut self, mutation: &Mutation<'_>) {
        let Mutation { kind, key, value } = *mutation;
        match kind {
            MutationKind::Set => self.set(key, value),
            MutationKind::Clear => self.clear(key),
            MutationKind::ClearRange => self.clear_range(key, value),
            MutationKind::Atomic(operation) => self.atomic(operation, key, value),
            MutationKind::SetVersionstampedValue => self.versionstamped_value(key, value),
            MutationKind::SetVersionstampedKey => {}
        }
    }

    /// A value after one that depended on the versionstamp stays unreadable, though it does not
    /// depend on it itself.
    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        let written = match self.keys.get(key) {
            Some(Written::Unreadable(_)) => Written::Unreadable(value.to_vec()),
            _ => Written::Value(value.to_vec()),
        };
        self.keys.insert(key.to_vec(), written);
    }

    pub fn clear(&mut self, key: &[u8]) {
        self.keys.insert(key.to_vec(), Written::Cleared);
        self.unreadable.remove(key, &key_after(key));
    }

    pub fn clear_range(&mut self, start: &[u8], end: &[u8]) {
        if start >= end {
            return;
        }
        let bounds = (Bound::Included(start), Bound::Excluded(end));
        let inside: Vec<Vec<u8>> = self.keys.range::<[u8], _>(bounds).map(|(key, _)| key.clone()).collect();
        for key in inside {
            self.keys.remove(&key);
        }
        self.cleared.add(start, end);
        self.unreadable.remove(start, end);
    }

    pub fn atomic(&mut self, operation: AtomicOperation, key: &[u8], operand: &[u8]) {
        let before = self.keys.remove(key);
        let after = match before {
            None if self.cleared.containing(key).is_some() => resolved(operation.apply(None, operand)),
            None => Written::Operations(vec![(operation, operand.to_vec())]),
            Some(Written::Value(value)) => resolved(operation.apply(Some(&value), operand)),
            Some(Written::Cleared) => resolved(operation.apply(None, operand)),
            Some(Written::Operations(mut operations)) => {
                operations.push((operation, operand.to_vec()));
                Written::Operations(operations)
            }
            Some(unreadable @ Written::Unreadable(_)) => unreadable,
        };
        self.keys.insert(key.to_vec(), after);
    }

    /// `value` is as it was given: with room for the stamp, and its offset.
    pub fn versionstamped_value(&mut self, key: &[u8], value: &[u8]) {
        self.keys.insert(key.to_vec(), Written::Unreadable(value.to_vec()));
    }

    /// A key between these two, both included, will be set.
    pub fn versionstamped_key(&mut self, first: &[u8], last: &[u8]) {
        self.unreadable.add(first, &key_after(last));
    }

    /// Returns the known state of a key; `None`: unknown.
    pub fn of_key(&self, key: &[u8]) -> Option<&Written> {
        match self.keys.get(key) {
            None if self.cleared.containing(key).is_some() => Some(&Written::Cleared),
            written => written,
        }
    }

    /// Whether anything of `start..end` was written, cleared or is to get a stamp.
    pub fn touches(&self, start: &[u8], end: &[u8]) -> bool {
        start < end
            && (self.keys_in(start, end).next().is_some()
                || self.cleared.overlaps(start, end)
                || self.unreadable.overlaps(start, end))
    }

    pub fn is_unreadable(&self, start: &[u8], end: &[u8]) -> bool {
        self.unreadable.overlaps(start, end)
    }

    /// Keys of `start..end` that were written one by one.
    pub fn keys_in(&self, start: &[u8], end: &[u8]) -> impl DoubleEndedIterator<Item = (&Vec<u8>, &Written)> {
        let is_empty = start >= end;
        let bounds = (
            Bound::Included(start),
            Bound::Excluded(if is_empty { start } else { end }),
        );
        let bounds = if is_empty {
            (Bound::Unbounded, Bound::Excluded(&b""[..]))
        } else {
            bounds
        };
        self.keys.range::<[u8], _>(bounds)
    }

    /// The cleared range that holds `key`.
    pub fn cleared_at(&self, key: &[u8]) -> Option<(&[u8], &[u8])> {
        self.cleared.containing(key)
    }

    /// The cleared range that reaches up to `key`, or beyond.
    pub fn cleared_before(&self, key: &[u8]) -> Option<(&[u8], &[u8])> {
        self.cleared.containing_before(key)
    }

    /// The parts of `start..end` whose stored values this transaction's reads depend on: without
    /// the keys that it set or cleared. Keys with operations that need the stored value are parts
    /// of their own.
    pub fn depended_on(&self, start: &[u8], end: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut ranges = RangeSet::default();
        ranges.add(start, end);
        for (cleared_start, cleared_end) in self.cleared.iter() {
            ranges.remove(cleared_start, cleared_end);
        }
        let mut needed = Vec::new();
        for (key, written) in self.keys_in(start, end) {
            ranges.remove(key, &key_after(key));
            if written.needs_stored() && self.cleared.containing(key).is_none() {
                needed.push((key.clone(), key_after(key)));
            }
        }
        let ranges = ranges.iter().map(|(start, end)| (start.to_vec(), end.to_vec()));
        ranges.chain(needed).collect()
    }
}

impl Written {
    /// The value, given what is stored.
    pub fn value(&self, stored: Option<&[u8]>) -> Option<Vec<u8>> {
        match self {
            Written::Value(value) | Written::Unreadable(value) => Some(value.clone()),
            Written::Cleared => None,
            Written::Operations(operations) => {
                let start = stored.map(<[u8]>::to_vec);
                operations.iter().fold(start, |value, (operation, operand)| {
                    operation.apply(value.as_deref(), operand)
                })
            }
        }
    }

    /// Returns true if reading it depends on the stored value.
    pub fn needs_stored(&self) -> bool {
        matches!(self, Written::Operations(_))
    }
}

fn resolved(value: Option<Vec<u8>>) -> Written {
    value.map_or(Written::Cleared, Written::Value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_writes_decide() {
        let mut writes = Writes::default();
        writes.atomic(AtomicOperation::Add, b"k", &[1]);
        writes.atomic(AtomicOperation::Add, b"k", &[2]);
        assert_eq!(writes.of_key(b"k").unwrap().value(Some(&[4])), Some(vec![7]));
        writes.clear_range(b"a", b"z");
        assert_eq!(writes.of_key(b"k"), Some(&Written::Cleared));
        writes.atomic(AtomicOperation::Add, b"k", &[2]);
        assert_eq!(writes.of_key(b"k"), Some(&Written::Value(vec![2])));
        writes.set(b"k", b"v");
        writes.atomic(AtomicOperation::CompareAndClear, b"k", b"v");
        assert_eq!(writes.of_key(b"k"), Some(&Written::Cleared));
        assert_eq!(writes.of_key(b"zz"), None);
    }

    #[test]
    fn own_writes_are_not_depended_on() {
        let mut writes = Writes::default();
        writes.set(b"c", b"v");
        writes.clear_range(b"f", b"h");
        writes.atomic(AtomicOperation::Add, b"d", &[1]);
        let parts = writes.depended_on(b"a", b"i");
        let parts: Vec<(&[u8], &[u8])> = parts.iter().map(|(start, end)| (&start[..], &end[..])).collect();
        let apart = [
            (&b"a"[..], &b"c"[..]),
            (b"c\0", b"d"),
            (b"d\0", b"f"),
            (b"h", b"i"),
            (b"d", b"d\0"),
        ];
        assert_eq!(parts, apart);
    }

    #[test]
    fn a_key_with_a_stamp_hides_its_range_until_it_is_written_over() {
        let mut writes = Writes::default();
        writes.versionstamped_key(b"k\x00", b"k\xff");
        assert!(writes.is_unreadable(b"k\x05", b"k\x06") && !writes.is_unreadable(b"l", b"m"));
        writes.clear_range(b"k", b"l");
        assert!(!writes.is_unreadable(b"k", b"l"));
    }
}
