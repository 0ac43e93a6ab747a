//! Keys are byte strings ordered bytewise; a range includes its start and excludes its end.

/// Longest accepted key, including the prefix: 64 KiB. A longer key is the caller's error, never
/// truncated.
pub const KEY_BYTES_MAX: usize = 64 * 1024;
/// Longest accepted value: 512 MiB, Redis' own limit for a string, and a kilobyte for a layer's own
/// data.
pub const VALUE_BYTES_MAX: usize = 512 * 1024 * 1024 + 1024;

/// A half-open interval of keys. Empty when `start >= end`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRange {
    /// The first key of it.
    pub start: Vec<u8>,
    /// End of the range, exclusive.
    pub end: Vec<u8>,
}

impl KeyRange {
    /// From `start` on, and before `end`.
    pub fn new(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> KeyRange {
        KeyRange {
            start: start.into(),
            end: end.into(),
        }
    }

    /// Every key with the prefix `prefix`, which must hold a byte other than 0xff.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        KeyRange {
            start: prefix.to_vec(),
            end: next_prefix(prefix),
        }
    }

    /// The single key `key`.
    pub fn point(key: &[u8]) -> KeyRange {
        let mut end = Vec::with_capacity(key.len() + 1);
        end.extend_from_slice(key);
        end.push(0);
        KeyRange {
            start: key.to_vec(),
            end,
        }
    }

    /// Returns true if `key` is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && key < self.end.as_slice()
    }

    /// Returns true if the range has no keys.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Returns true if some key is in both ranges.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        !self.is_empty() && !other.is_empty() && self.start < other.end && other.start < self.end
    }
}

/// The first key after every key with the prefix `prefix`. Panics if `prefix` is empty or all 0xff:
/// no such key exists.
pub fn next_prefix(prefix: &[u8]) -> Vec<u8> {
    let last = prefix
        .iter()
        .rposition(|&byte| byte != 0xff)
        .expect("a prefix with a byte below 0xff");
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_prefix_drops_trailing_ff() {
        assert_eq!(next_prefix(b"a"), b"b");
        assert_eq!(next_prefix(b"a\xff\xff"), b"b");
    }

    #[test]
    fn ranges_are_half_open() {
        let range = KeyRange::new("b", "d");
        assert!(range.contains(b"b") && range.contains(b"cz") && !range.contains(b"d") && !range.contains(b"a"));
        assert!(!range.overlaps(&KeyRange::new("d", "e")));
        assert!(range.overlaps(&KeyRange::new("a", "b\0")));
        assert!(!KeyRange::new("c", "c").overlaps(&range));
        assert!(KeyRange::point(b"k").contains(b"k") && !KeyRange::point(b"k").contains(b"k\0"));
    }
}
