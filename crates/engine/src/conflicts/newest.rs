//! An ordered map from keys to versions that knows the newest version of any interval of keys.
//!
//! A treap: a search tree by key and a heap by random priority, so its depth is logarithmic for any
//! order of insertion. Each node keeps the newest version of its subtree, so an interval is
//! answered from O(log n) nodes rather than from all nodes in it. [`NewestOfRanges`] does the same
//! for versions that cover ranges.
//!
//! Versions are inserted in commit order: each is at least as new as those already in the map.

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};

use quartet_model::{KeyRange, Version};

/// The newest version of single keys.
#[derive(Default)]
pub(crate) struct NewestOfKeys {
    root: Link,
    count: usize,
    /// Size of the nodes, their keys included.
    bytes: usize,
    /// The state of the generator of priorities; zero before the first. Each map has its own seed,
    /// so that clients cannot choose keys that make the tree deep.
    random: u64,
}

type Link = Option<Box<Node>>;

struct Node {
    key: Box<[u8]>,
    version: Version,
    /// The newest version in this node and everything below it.
    newest: Version,
    /// Not below that of any child.
    priority: u64,
    left: Link,
    right: Link,
}

impl NewestOfKeys {
    pub fn count(&self) -> usize {
        self.count
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn get(&self, key: &[u8]) -> Option<Version> {
        let mut link = &self.root;
        while let Some(node) = link {
            link = match compare(key, &node.key) {
                Ordering::Less => &node.left,
                Ordering::Equal => return Some(node.version),
                Ordering::Greater => &node.right,
            };
        }
        None
    }

    /// The newest version in `start..end`; zero if none.
    pub fn newest_in(&self, start: &[u8], end: &[u8]) -> Version {
        newest_between(&self.root, Some(start), Some(end))
    }

    /// Replaces the key's older version with `version`, or adds it.
    pub fn insert(&mut self, key: &[u8], version: Version) {
        if raise(&mut self.root, key, version) {
            return;
        }
        let node = Box::new(Node {
            key: key.into(),
            version,
            newest: version,
            priority: self.next_priority(),
            left: None,
            right: None,
        });
        self.count += 1;
        self.bytes += node.bytes();
        let (below, above) = split(self.root.take(), key);
        self.root = merge(merge(below, Some(node)), above);
    }

    /// The version at the last key that is not above `key`.
    fn at_or_before(&self, key: &[u8]) -> Option<Version> {
        let (mut link, mut newest) = (&self.root, None);
        while let Some(node) = link {
            if compare(&node.key, key).is_gt() {
                link = &node.left;
            } else {
                newest = Some(node.version);
                link = &node.right;
            }
        }
        newest
    }

    /// Removes the keys of `start..end`.
    fn remove_between(&mut self, start: &[u8], end: &[u8]) {
        let (below, tail) = split(self.root.take(), start);
        let (removed, above) = split(tail, end);
        self.root = merge(below, above);
        let (count, bytes) = size(&removed);
        self.count -= count;
        self.bytes -= bytes;
    }

    /// SplitMix64.
    fn next_priority(&mut self) -> u64 {
        if self.random == 0 {
            self.random = RandomState::new().hash_one(0u64);
        }
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Node {
    fn update(&mut self) {
        self.newest = self.version.max(newest(&self.left)).max(newest(&self.right));
    }

    fn bytes(&self) -> usize {
        size_of::<Node>() + self.key.len()
    }
}

fn newest(link: &Link) -> Version {
    link.as_ref().map_or(Version::ZERO, |node| node.newest)
}

fn size(link: &Link) -> (usize, usize) {
    link.as_ref().map_or((0, 0), |node| {
        let ((left_count, left_bytes), (right_count, right_bytes)) = (size(&node.left), size(&node.right));
        (left_count + right_count + 1, left_bytes + right_bytes + node.bytes())
    })
}

/// The newest version in the interval; `None` is the subtree's own end.
fn newest_between(link: &Link, start: Option<&[u8]>, end: Option<&[u8]>) -> Version {
    let Some(node) = link else {
        return Version::ZERO;
    };
    if start.is_none() && end.is_none() {
        return node.newest;
    }
    if start.is_some_and(|start| compare(&node.key, start).is_lt()) {
        return newest_between(&node.right, start, end);
    }
    if end.is_some_and(|end| compare(&node.key, end).is_ge()) {
        return newest_between(&node.left, start, end);
    }
    let newest_left = newest_between(&node.left, start, None);
    let newest_right = newest_between(&node.right, None, end);
    node.version.max(newest_left).max(newest_right)
}

/// Raises the version of an existing key. Returns false, and changes nothing, if the key is absent.
fn raise(link: &mut Link, key: &[u8], version: Version) -> bool {
    let Some(node) = link else {
        return false;
    };
    let raised = match compare(key, &node.key) {
        Ordering::Less => raise(&mut node.left, key, version),
        Ordering::Greater => raise(&mut node.right, key, version),
        Ordering::Equal => {
            node.version = version;
            true
        }
    };
    if raised {
        node.newest = node.newest.max(version);
    }
    raised
}

/// The keys below `key`, and the others.
fn split(link: Link, key: &[u8]) -> (Link, Link) {
    let Some(mut node) = link else {
        return (None, None);
    };
    if compare(&node.key, key).is_lt() {
        let (below, above) = split(node.right.take(), key);
        node.right = below;
        node.update();
        (Some(node), above)
    } else {
        let (below, above) = split(node.left.take(), key);
        node.left = above;
        node.update();
        (below, Some(node))
    }
}

/// Joins two trees; every key of `left` is below every key of `right`.
fn merge(left: Link, right: Link) -> Link {
    match (left, right) {
        (Some(mut left), Some(right)) if left.priority >= right.priority => {
            left.right = merge(left.right.take(), Some(right));
            left.update();
            Some(left)
        }
        (left @ Some(_), Some(mut right)) => {
            right.left = merge(left, right.left.take());
            right.update();
            Some(right)
        }
        (left, None) => left,
        (None, right) => right,
    }
}

fn compare(key: &[u8], other: &[u8]) -> Ordering {
    #[cfg(test)]
    tests::COMPARISONS.with(|count| count.set(count.get() + 1));
    key.cmp(other)
}

/// The newest version of ranges that may overlap: a line of bounds, each with the newest version
/// from there to the next.
#[derive(Default)]
pub(crate) struct NewestOfRanges {
    bounds: NewestOfKeys,
}

impl NewestOfRanges {
    pub fn count(&self) -> usize {
        self.bounds.count()
    }

    pub fn bytes(&self) -> usize {
        self.bounds.bytes()
    }

    /// Covers `range` with `version`. Adds at most two bounds and takes out those within.
    pub fn cover(&mut self, range: &KeyRange, version: Version) {
        if range.is_empty() {
            return;
        }
        let behind = self.newest_at(&range.end);
        self.bounds.remove_between(&range.start, &range.end);
        if self.bounds.get(&range.end).is_none() {
            self.bounds.insert(&range.end, behind);
        }
        self.bounds.insert(&range.start, version);
    }

    /// The newest version of a range with `key` in it; zero if none.
    pub fn newest_at(&self, key: &[u8]) -> Version {
        self.bounds.at_or_before(key).unwrap_or_default()
    }

    /// The newest version of a range that overlaps `start..end`; zero if none.
    pub fn newest_in(&self, start: &[u8], end: &[u8]) -> Version {
        if start >= end {
            return Version::ZERO;
        }
        self.newest_at(start).max(self.bounds.newest_in(start, end))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    thread_local! {
        /// Keys compared on this thread: the work of a look-up.
        pub static COMPARISONS: Cell<u64> = const { Cell::new(0) };
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0, 1, b'a', 0xff]), 0..4)
    }

    fn naive_newest(model: &BTreeMap<Vec<u8>, Version>, start: &[u8], end: &[u8]) -> Version {
        let inside = model
            .iter()
            .filter(|(key, _)| start <= key.as_slice() && key.as_slice() < end);
        inside.map(|(_, version)| *version).max().unwrap_or_default()
    }

    fn check(map: &NewestOfKeys, model: &BTreeMap<Vec<u8>, Version>) {
        assert_eq!(map.count(), model.len());
        assert_eq!((map.count(), map.bytes()), size(&map.root));
        assert_eq!(
            map.newest_in(b"", &[0xff; 5]),
            model.values().max().copied().unwrap_or_default()
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn keys_agree_with_a_sorted_map(
            steps in prop::collection::vec((key(), key(), prop::bool::weighted(0.1)), 0..200),
            probes in prop::collection::vec((key(), key()), 10),
        ) {
            let (mut map, mut model) = (NewestOfKeys::default(), BTreeMap::new());
            for ((start, end, removes), version) in steps.into_iter().zip(1..) {
                if removes && start < end {
                    map.remove_between(&start, &end);
                    model.retain(|key, _| !(start <= *key && *key < end));
                } else {
                    map.insert(&start, Version(version));
                    model.insert(start, Version(version));
                }
                check(&map, &model);
            }
            for (start, end) in &probes {
                prop_assert_eq!(map.get(start), model.get(start).copied());
                prop_assert_eq!(map.newest_in(start, end), naive_newest(&model, start, end));
                let before = model.range(..=start.clone()).next_back().map(|(_, version)| *version);
                prop_assert_eq!(map.at_or_before(start), before);
            }
        }

        #[test]
        fn ranges_agree_with_a_list(
            ranges in prop::collection::vec((key(), key()), 0..100),
            probes in prop::collection::vec((key(), key()), 10),
        ) {
            let mut map = NewestOfRanges::default();
            let ranges: Vec<KeyRange> = ranges.into_iter().map(|(start, end)| KeyRange::new(start, end)).collect();
            for (range, version) in ranges.iter().zip(1..) {
                map.cover(range, Version(version));
            }
            let newest = |hits: &dyn Fn(&KeyRange) -> bool| {
                let last = ranges.iter().rposition(hits);
                Version(last.map_or(0, |index| index as u64 + 1))
            };
            prop_assert!(map.count() <= 2 * ranges.len());
            for (start, end) in probes {
                let probe = KeyRange::new(start.clone(), end);
                prop_assert_eq!(map.newest_at(&start), newest(&|range| range.contains(&start)));
                prop_assert_eq!(map.newest_in(&start, &probe.end), newest(&|range| range.overlaps(&probe)));
            }
        }
    }
}
