//! The size of an entry in the node that Redis would put it in, to the byte: so that trimming with
//! `~` leaves the same entries here as there. Queues rely on that; BullMQ's own tests do.
//!
//! Redis' node is a listpack: two counters, the names of the fields of its first entry, then the
//! entries. An entry with the same field names has only its values. IDs are differences from the
//! first. Sizes follow <https://github.com/antirez/listpack/blob/master/listpack.md>; the test
//! compares with the entries that Redis 7.0.15 was observed to keep.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use super::id::StreamId;
use crate::command::parse;

/// The header of a listpack and its end.
const EMPTY_BYTES: usize = 7;

/// How full the last node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// All that were ever added.
    pub entries: u32,
    pub bytes: u32,
    /// The ID of the first.
    pub first: StreamId,
    /// A hash of its fields' names. Two that are taken for equal cost only a node that is a little
    /// too large.
    pub names: u64,
}

impl Node {
    /// Takes no more entries.
    pub const FULL: Node = Node {
        entries: u32::MAX,
        bytes: u32::MAX,
        first: StreamId::ZERO,
        names: 0,
    };

    pub fn is_full_for(&self, words_bytes: usize, entries_max: u64, bytes_max: u64) -> bool {
        let is_full = u64::from(self.entries) >= entries_max.min(u64::from(Node::FULL.entries))
            || u64::from(self.bytes) + words_bytes as u64 >= bytes_max;
        is_full && self.entries > 0
    }

    /// `words` are fields and values by turns.
    pub fn add<'a>(&mut self, id: StreamId, words: impl Iterator<Item = &'a [u8]> + Clone) {
        let (mut hasher, mut count, mut values_bytes) = (FxHasher::default(), 0, 0);
        let mut fields = words.clone();
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            hasher.write_usize(name.len());
            hasher.write(name);
            count += 1;
            values_bytes += word_bytes(value);
        }
        let hash = hasher.finish();
        let names_bytes = || words.clone().step_by(2).map(word_bytes).sum::<usize>();
        if self.entries == 0 {
            let head = EMPTY_BYTES + integer_bytes(1) + 2 * integer_bytes(0) + integer_bytes(count) + names_bytes();
            *self = Node {
                entries: 0,
                bytes: u32::try_from(head).unwrap_or(u32::MAX),
                first: id,
                names: hash,
            };
        }
        let flags = integer_bytes(0);
        let ms = id.ms().wrapping_sub(self.first.ms()) as i64;
        let seq = id.seq().wrapping_sub(self.first.seq()) as i64;
        let mut bytes = flags + integer_bytes(ms) + integer_bytes(seq) + values_bytes;
        bytes += if hash == self.names {
            integer_bytes(3 + count)
        } else {
            integer_bytes(count) + names_bytes() + integer_bytes(4 + 2 * count)
        };
        self.entries = self.entries.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}

fn word_bytes(word: &[u8]) -> usize {
    if let Some(number) = parse::integer(word) {
        return integer_bytes(number);
    }
    let head = match word.len() {
        0..64 => 1,
        64..4096 => 2,
        _ => 5,
    };
    with_length_behind(head + word.len())
}

/// The size of an integer with its trailing length of one byte.
fn integer_bytes(number: i64) -> usize {
    match number {
        0..=0x7f => 2,
        -0x1000..=0xfff => 3,
        -0x8000..=0x7fff => 4,
        -0x80_0000..=0x7f_ffff => 5,
        -0x8000_0000..=0x7fff_ffff => 6,
        _ => 10,
    }
}

fn with_length_behind(bytes: usize) -> usize {
    let length = match bytes {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    bytes + length
}
