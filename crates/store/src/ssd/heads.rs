//! Searches the keys of a node without accessing each key's bytes.
//!
//! Each key has a *head* here: the four bytes after the prefix that all keys share, as a big-endian
//! number. Heads order as keys do, except that different keys may have equal heads; only such keys
//! are looked at.
//!
//! ```text
//! keys    user:1047  user:1051  user:1998      shared = "user:1"
//! heads     047·       051·       998·
//! ```

use std::ops::Range;

use crate::prefetch::prefetch;

pub(super) struct Heads {
    shared: Box<[u8]>,
    heads: Box<[u32]>,
}

impl Heads {
    /// Builds the heads of `keys`, which must ascend; otherwise lookups are unspecified.
    pub fn of<'k>(keys: impl DoubleEndedIterator<Item = &'k [u8]> + Clone) -> Heads {
        let mut ends = keys.clone();
        let first = ends.next().unwrap_or_default();
        let last = ends.next_back().unwrap_or(first);
        let alike = first.iter().zip(last).take_while(|(first, last)| first == last).count();
        let heads = keys.map(|key| head(key.get(alike..).unwrap_or_default()));
        Heads {
            shared: first[..alike].into(),
            heads: heads.collect(),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.shared.len() + self.heads.len() * size_of::<u32>()
    }

    /// The number of keys before a position that is directly before `key` or directly after it.
    /// `is_before` decides it for a key by its index; it is called for few.
    pub fn partition(&self, key: &[u8], is_before: impl Fn(usize) -> bool) -> usize {
        let Range { start, end } = self.like(key);
        start + partition(end - start, |index| is_before(start + index))
    }

    /// Prefetches the heads.
    pub fn prefetch(&self) {
        prefetch(self.shared.as_ptr());
        self.heads.chunks(16).for_each(|line| prefetch(line.as_ptr()));
    }

    /// The keys with the head of `key`: all earlier keys are below it, and all later keys above.
    pub fn like(&self, key: &[u8]) -> Range<usize> {
        let Some(own) = key.strip_prefix(&*self.shared) else {
            let end = if *key < *self.shared { 0 } else { self.heads.len() };
            return end..end;
        };
        let head = head(own);
        let start = self.heads.partition_point(|other| *other < head);
        let count = self.heads[start..].iter().take_while(|other| **other == head).count();
        start..start + count
    }
}

fn head(key: &[u8]) -> u32 {
    let mut head = [0; 4];
    let length = key.len().min(head.len());
    head[..length].copy_from_slice(&key[..length]);
    u32::from_be_bytes(head)
}

/// The number of indexes below `count` for which `holds` is true; it is true up to some index, and
/// false from there on.
pub(super) fn partition(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    /// Many share a prefix, some are prefixes of others, and zeros are where a shorter key has
    /// ended.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0), Just(b'a'), Just(b'b'), Just(255)];
        (any::<bool>(), vec(byte, 0..9)).prop_map(|(is_long, key)| match is_long {
            true => [b"user:1", &*key].concat(),
            false => key,
        })
    }

    fn assert_found(keys: &BTreeSet<Vec<u8>>, sought: &[u8]) {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let heads = Heads::of(keys.iter().copied());
        let below = heads.partition(sought, |index| keys[index] < sought);
        assert_eq!(below, keys.partition_point(|key| *key < sought));
        let up_to = heads.partition(sought, |index| keys[index] <= sought);
        assert_eq!(up_to, keys.partition_point(|key| *key <= sought));
    }

    proptest! {
        #[test]
        fn each_key_is_found_where_it_is(keys in btree_set(key(), 0..60), others in vec(key(), 0..20)) {
            for sought in keys.iter().chain(&others) {
                assert_found(&keys, sought);
            }
        }
    }

    /// A search among 128 keys that differ after their shared prefix accesses only the searched
    /// key.
    #[test]
    fn few_keys_are_looked_at() {
        let keys: Vec<String> = (0..128).map(|number| format!("product:{number:08}")).collect();
        let heads = Heads::of(keys.iter().map(String::as_bytes));
        let looked_at = std::cell::RefCell::new(Vec::new());
        let rank = heads.partition(keys[77].as_bytes(), |index| {
            looked_at.borrow_mut().push(index);
            keys[index] < keys[77]
        });
        assert_eq!((rank, looked_at.into_inner()), (77, vec![77]));
    }
}
