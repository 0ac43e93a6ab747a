//! A set of keys as ranges that neither overlap nor touch.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Bytes that a conflict range counts for in the reported size of a transaction, beside its keys.
pub(crate) const REPORTED_RANGE_BYTES: usize = 24;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    /// Start to end, both ends of each range.
    ranges: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl RangeSet {
    /// Adds `start..end`. Nothing happens if it is empty.
    pub fn add(&mut self, start: &[u8], end: &[u8]) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start.to_vec(), end.to_vec());
        let mut touching = Vec::new();
        for (other_start, other_end) in self
            .ranges
            .range::<[u8], _>((Bound::Unbounded, Bound::Included(&end[..])))
            .rev()
        {
            if *other_end < start {
                break;
            }
            touching.push(other_start.clone());
        }
        for other_start in touching {
            if let Some(other_end) = self.ranges.remove(&other_start) {
                start = start.min(other_start);
                end = end.max(other_end);
            }
        }
        self.ranges.insert(start, end);
    }

    pub fn add_key(&mut self, key: &[u8]) {
        self.add(key, &crate::key_after(key));
    }

    /// Takes `start..end` out.
    pub fn remove(&mut self, start: &[u8], end: &[u8]) {
        if start >= end {
            return;
        }
        let overlapping: Vec<Vec<u8>> = self
            .ranges
            .range::<[u8], _>((Bound::Unbounded, Bound::Excluded(end)))
            .rev()
            .take_while(|(_, other_end)| other_end.as_slice() > start)
            .map(|(other_start, _)| other_start.clone())
            .collect();
        for other_start in overlapping {
            let Some(other_end) = self.ranges.remove(&other_start) else {
                continue;
            };
            if end < other_end.as_slice() {
                self.ranges.insert(end.to_vec(), other_end);
            }
            if other_start.as_slice() < start {
                self.ranges.insert(other_start, start.to_vec());
            }
        }
    }

    /// The range that holds `key`.
    pub fn containing(&self, key: &[u8]) -> Option<(&[u8], &[u8])> {
        let (start, end) = self
            .ranges
            .range::<[u8], _>((Bound::Unbounded, Bound::Included(key)))
            .next_back()?;
        (key < end.as_slice()).then_some((start.as_slice(), end.as_slice()))
    }

    /// The range that contains the keys directly before `key`.
    pub fn containing_before(&self, key: &[u8]) -> Option<(&[u8], &[u8])> {
        let (start, end) = self
            .ranges
            .range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key)))
            .next_back()?;
        (key <= end.as_slice()).then_some((start.as_slice(), end.as_slice()))
    }

    pub fn overlaps(&self, start: &[u8], end: &[u8]) -> bool {
        let last = self
            .ranges
            .range::<[u8], _>((Bound::Unbounded, Bound::Excluded(end)))
            .next_back();
        start < end && last.is_some_and(|(_, other_end)| other_end.as_slice() > start)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.ranges
            .iter()
            .map(|(start, end)| (start.as_slice(), end.as_slice()))
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Keys that are noted one by one before they become ranges, which takes longer but forgets
/// repetitions.
const KEYS_APART_MAX: usize = 1024;

/// The reads of a transaction: keys one by one, as most transactions do, and ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadConflicts {
    /// Keys, each followed by a zero byte, which makes the first key after it.
    bytes: Vec<u8>,
    /// Start and end of each.
    keys: Vec<(usize, usize)>,
    ranges: RangeSet,
    /// Bytes that everything ever added counts for in the reported size of the transaction.
    reported_bytes: usize,
}

impl ReadConflicts {
    pub fn add_key(&mut self, key: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.push(0);
        self.keys.push((start, self.bytes.len()));
        self.reported_bytes += REPORTED_RANGE_BYTES + 2 * key.len() + 1;
        if self.keys.len() >= KEYS_APART_MAX {
            self.gather();
        }
    }

    pub fn add(&mut self, start: &[u8], end: &[u8]) {
        if start < end {
            self.reported_bytes += REPORTED_RANGE_BYTES + start.len() + end.len();
            self.ranges.add(start, end);
        }
    }

    /// Adds the parts of `start..end` that were read. Each counts as much as the whole, as in the
    /// original.
    pub fn add_parts(&mut self, start: &[u8], end: &[u8], parts: &[(Vec<u8>, Vec<u8>)]) {
        for (part_start, part_end) in parts {
            self.reported_bytes += REPORTED_RANGE_BYTES + start.len() + end.len();
            self.ranges.add(part_start, part_end);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }

    pub fn reported_bytes(&self) -> usize {
        self.reported_bytes
    }

    /// All of it in the order of keys, nothing twice. The same at each call, until something is
    /// added.
    pub fn ranges(&mut self) -> Vec<(&[u8], &[u8])> {
        if !self.ranges.is_empty() {
            return self.gather().iter().collect();
        }
        let bytes = &self.bytes;
        self.keys.sort_unstable_by_key(|&(start, end)| &bytes[start..end]);
        self.keys.dedup_by_key(|&mut (start, end)| &bytes[start..end]);
        let range = |&(start, end): &(usize, usize)| (&bytes[start..end - 1], &bytes[start..end]);
        self.keys.iter().map(range).collect()
    }

    /// All of it as ranges.
    pub fn gather(&mut self) -> &RangeSet {
        for (start, end) in self.keys.drain(..) {
            self.ranges.add(&self.bytes[start..end - 1], &self.bytes[start..end]);
        }
        self.bytes.clear();
        &self.ranges
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_that_were_read_come_back_sorted_and_once(
            keys in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..4), 0..40),
            ranges in proptest::collection::vec((0u8..4, 0u8..4), 0..2),
        ) {
            let (mut read, mut model) = (ReadConflicts::default(), RangeSet::default());
            for key in &keys {
                read.add_key(key);
                model.add_key(key);
            }
            for (start, end) in ranges {
                read.add(&[start], &[end]);
                model.add(&[start], &[end]);
            }
            let mut again = RangeSet::default();
            let found: Vec<_> = read.ranges().into_iter().map(|(start, end)| (start.to_vec(), end.to_vec())).collect();
            prop_assert!(found.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            found.iter().for_each(|(start, end)| again.add(start, end));
            prop_assert!(again.iter().eq(model.iter()));
            prop_assert_eq!(read.gather(), &model);
        }

        #[test]
        fn holds_what_was_added_and_not_removed(steps in proptest::collection::vec((any::<bool>(), 0u8..20, 0u8..20), 0..40)) {
            let (mut set, mut model) = (RangeSet::default(), [false; 20]);
            for (adds, start, end) in steps {
                if adds { set.add(&[start], &[end]) } else { set.remove(&[start], &[end]) }
                for key in start..end.max(start) {
                    model[usize::from(key)] = adds;
                }
            }
            for key in 0..20u8 {
                prop_assert_eq!(set.containing(&[key]).is_some(), model[usize::from(key)]);
                prop_assert_eq!(set.overlaps(&[key], &[key, 0]), model[usize::from(key)]);
            }
            let ranges: Vec<_> = set.iter().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
