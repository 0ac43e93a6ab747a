//! The writes of a transaction in the order of the calls, as they will be sent.
//!
//! All keys and values are in one buffer: a transaction that only writes allocates for a write no
//! more than its bytes.

use quartet_wire_keyvalue::{Mutation, MutationKind};

/// Room for the first writes.
const BYTES_BEFORE: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Mutations {
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

/// The ends of a key and a value. They start where the previous part ends.
#[derive(Clone, Copy, Debug)]
struct Part {
    kind: MutationKind,
    key_end: usize,
    value_end: usize,
}

impl Mutations {
    pub fn push(&mut self, kind: MutationKind, key: &[u8], value: &[u8]) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(BYTES_BEFORE.max(key.len() + value.len()));
        }
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.parts.push(Part {
            kind,
            key_end,
            value_end: self.bytes.len(),
        });
    }

    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// All from position `first` on.
    pub fn since(&self, first: usize) -> impl Iterator<Item = Mutation<'_>> {
        let mut start = match first {
            0 => 0,
            _ => self.parts[first - 1].value_end,
        };
        self.parts[first..].iter().map(move |part| {
            let mutation = Mutation {
                kind: part.kind,
                key: &self.bytes[start..part.key_end],
                value: &self.bytes[part.key_end..part.value_end],
            };
            start = part.value_end;
            mutation
        })
    }
}

/// A mutation writes `key`, as far as that is known before the commit.
pub(crate) fn is_written(mutation: &Mutation<'_>, key: &[u8]) -> bool {
    match mutation.kind {
        MutationKind::ClearRange => mutation.key <= key && key < mutation.value,
        MutationKind::SetVersionstampedKey => false,
        _ => mutation.key == key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_survive_a_round_trip() {
        let mut mutations = Mutations::default();
        let expected: [(MutationKind, &[u8], &[u8]); 4] = [
            (MutationKind::Set, b"k", b"value"),
            (MutationKind::Clear, b"", b""),
            (MutationKind::ClearRange, b"a", b"b"),
            (MutationKind::Set, b"kk", b""),
        ];
        for (kind, key, value) in expected {
            mutations.push(kind, key, value);
        }
        for first in 0..=expected.len() {
            let decoded: Vec<_> = mutations
                .since(first)
                .map(|mutation| (mutation.kind, mutation.key, mutation.value))
                .collect();
            assert_eq!(decoded, expected[first..]);
        }
    }
}
