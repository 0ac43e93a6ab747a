//! Names of keys that search indexes may cover: those with one of some prefixes.
//!
//! A write of a key outside of all indexes costs only this check: one load, if no prefix starts
//! with the name's first byte. Extra names do no harm, as each index checks for itself whether it
//! covers one. A missing one would leave a document stale, so every name is covered until the
//! prefixes are known.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

#[derive(Default)]
struct Known {
    /// The definitions that have these prefixes.
    mark: Vec<u8>,
    /// In order, and none is a prefix of another.
    prefixes: Vec<Vec<u8>>,
}

pub struct CoveredNames {
    /// First bytes of names that may be covered, a bit each.
    first_bytes: [AtomicU64; 4],
    /// `None`: every name is covered.
    known: Mutex<Option<Known>>,
}

impl Default for CoveredNames {
    fn default() -> CoveredNames {
        CoveredNames {
            first_bytes: [const { AtomicU64::new(u64::MAX) }; 4],
            known: Mutex::default(),
        }
    }
}

impl CoveredNames {
    /// Covers every name from now on.
    pub fn forget(&self) {
        *self.known.lock() = None;
        self.first_bytes
            .iter()
            .for_each(|bits| bits.store(u64::MAX, Ordering::Relaxed));
    }

    /// From now on covers the names with one of `prefixes`: those of the definitions with this
    /// mark.
    pub fn know(&self, mark: &[u8], mut prefixes: Vec<Vec<u8>>) {
        prefixes.sort_unstable();
        // A prefix of another is directly before it, or before others of that kind.
        prefixes.dedup_by(|next, previous| next.starts_with(previous));
        let mut first_bytes = [0u64; 4];
        for prefix in &prefixes {
            match prefix.first() {
                Some(byte) => first_bytes[usize::from(byte / 64)] |= 1 << (byte % 64),
                None => first_bytes = [u64::MAX; 4],
            }
        }
        let mark = mark.to_vec();
        *self.known.lock() = Some(Known { mark, prefixes });
        let bits = self.first_bytes.iter().zip(first_bytes);
        bits.for_each(|(bits, new)| bits.store(new, Ordering::Relaxed));
    }

    pub fn are_of(&self, mark: &[u8]) -> bool {
        self.known.lock().as_ref().is_some_and(|names| names.mark == mark)
    }

    #[inline]
    pub fn has(&self, name: &[u8]) -> bool {
        let may_be =
            |byte: &u8| self.first_bytes[usize::from(byte / 64)].load(Ordering::Relaxed) >> (byte % 64) & 1 == 1;
        name.first().is_none_or(may_be) && self.has_by_prefix(name)
    }

    fn has_by_prefix(&self, name: &[u8]) -> bool {
        let names = self.known.lock();
        names.as_ref().is_none_or(|names| {
            // As none is a prefix of another, a prefix of the name can only be the last one that
            // does not sort after it.
            let end = names.prefixes.partition_point(|prefix| prefix.as_slice() <= name);
            end > 0 && name.starts_with(&names.prefixes[end - 1])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prefixes: &[&str], covered: &[&str], uncovered: &[&str]) {
        let names = CoveredNames::default();
        names.know(
            b"mark",
            prefixes.iter().map(|prefix| prefix.as_bytes().to_vec()).collect(),
        );
        assert!(names.are_of(b"mark") && !names.are_of(b"other"));
        for name in covered {
            assert!(names.has(name.as_bytes()), "{prefixes:?} cover {name}");
        }
        for name in uncovered {
            assert!(!names.has(name.as_bytes()), "{prefixes:?} do not cover {name}");
        }
        names.forget();
        assert!(!names.are_of(b"mark"));
        assert!(uncovered.iter().all(|name| names.has(name.as_bytes())));
    }

    #[test]
    fn names_are_covered_by_their_prefixes() {
        check(&["doc:"], &["doc:", "doc:1"], &["", "d", "doc", "dob:1", "dod:1", "e"]);
        check(
            &["ab", "abcd", "abc", "b", "ab"],
            &["ab", "abz", "abcd1", "b1"],
            &["a", "aa", "ac", "", "c"],
        );
        check(&[""], &["", "a", "\u{ff}"], &[]);
        check(&["a", ""], &["", "b"], &[]);
        check(
            &["\u{7f}", "\u{80}"],
            &["\u{7f}1", "\u{80}"],
            &["\u{7e}", "\u{81}", "\u{100}"],
        );
        check(&[], &[], &["", "a"]);
    }
}
