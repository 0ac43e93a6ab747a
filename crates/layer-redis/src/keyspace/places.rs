//! The place of a key among the keys of its database, and a cursor of SCAN.
//!
//! ```text
//! name    stem | tail, its last three bytes; of a shorter name the tail is all
//! place   hash of the stem, 29 bits in 4 bytes, big-endian | tail | stem
//! cursor  hash * 2^24 + tail, missing bytes as zeros; 0 is the start and the end
//! ```
//!
//! Keys are ordered by their places, not by their names: a name does not fit into the number that
//! clients keep as a cursor, and no shorter value that preserves the order of names can distinguish
//! neighbours with a long common prefix. A key's place never changes and a cursor is computed only
//! from it. So it is valid on every node and after a restart, no state is kept for it, and a key
//! that exists during a whole iteration is returned, once, despite other changes. Keys with equal
//! cursors are returned together, because a cursor cannot point between them.
//!
//! Names that differ only in their last three bytes, such as numbered ones, are neighbours: keys
//! that are written in their order are stored together. A cursor has 53 bits because clients, of
//! JavaScript in particular, keep it in a float. `docs/decisions/26-scan-cursors.md` has the
//! rejected alternatives.

use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

pub type KeyBytes = SmallVec<[u8; KEY_BYTES_INLINE]>;

/// Longer keys of rows are built in memory of their own.
const KEY_BYTES_INLINE: usize = 64;
const TAIL_BYTES: usize = 3;
const TAIL_BITS: u32 = 8 * TAIL_BYTES as u32;
const HASH_BITS: u32 = 53 - TAIL_BITS;
const HASH_BYTES: usize = 4;

/// The row of the key `name`; also what the engine's watches of that key are registered under.
#[inline]
pub fn key_row(db: u8, name: &[u8]) -> KeyBytes {
    let (stem, tail) = name.split_at(name.len().saturating_sub(TAIL_BYTES));
    let [a, b, c, d] = ((xxh3_64(stem) >> (64 - HASH_BITS)) as u32).to_be_bytes();
    joined([b'K', db, a, b, c, d], [tail, stem])
}

/// Returns the name of the key at a place. For bytes that are no place, the bytes after the first
/// four.
pub fn name(place: &[u8]) -> KeyBytes {
    let rest = place.get(HASH_BYTES..).unwrap_or_default();
    let (tail, stem) = rest.split_at(rest.len().min(TAIL_BYTES));
    joined([], [stem, tail])
}

/// The cursor that points to a place, below 2^53.
pub fn cursor(place: &[u8]) -> u64 {
    let mut code = [0; 8];
    let known = place.len().min(HASH_BYTES + TAIL_BYTES);
    code[1..=known].copy_from_slice(&place[..known]);
    u64::from_be_bytes(code)
}

/// The start of the page of `cursor`: at or before every key with this cursor, after all with a
/// smaller one. `None` if no place has such a cursor or a greater one.
pub fn start_of_page(db: u8, cursor: u64) -> Option<KeyBytes> {
    if cursor >> (HASH_BITS + TAIL_BITS) != 0 {
        return None;
    }
    let [_, place @ ..] = cursor.to_be_bytes();
    // A shorter tail has zeros for its missing bytes, and sorts before tails that have them.
    let zeros = place[HASH_BYTES..].iter().rev().take_while(|byte| **byte == 0).count();
    Some(joined([b'K', db], [&place[..place.len() - zeros], b""]))
}

/// Joins the parts. Parts that fit are copied without checking the room for each.
#[inline]
pub fn joined<const HEAD: usize>(head: [u8; HEAD], rest: [&[u8]; 2]) -> KeyBytes {
    let mut key = [0; KEY_BYTES_INLINE];
    let [first, second] = rest;
    let length = HEAD + first.len() + second.len();
    if length <= KEY_BYTES_INLINE
        && let Some((start, behind)) = key.split_first_chunk_mut()
    {
        *start = head;
        behind[..first.len()].copy_from_slice(first);
        behind[first.len()..][..second.len()].copy_from_slice(second);
        return KeyBytes::from_buf_and_len(key, length);
    }
    let mut key = KeyBytes::with_capacity(length);
    key.extend_from_slice(&head);
    key.extend_from_slice(first);
    key.extend_from_slice(second);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_give_their_names_back_at_any_length() {
        for length in [0, 1, 2, 3, 4, 5, 57, 58, 59, 60, 61, 62, 63, 64, 65, 300, 65_000] {
            let given: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let row = key_row(3, &given);
            assert_eq!(row.len(), 2 + HASH_BYTES + length);
            assert_eq!(&row[..2], b"K\x03");
            assert_eq!(name(&row[2..]).as_slice(), given);
        }
    }

    /// All names of up to four bytes of a few, in the order of their rows: cursors never decrease,
    /// and the page of each starts at the first of its keys.
    #[test]
    fn pages_start_at_the_first_key_of_their_cursor() {
        let bytes = [0, 1, b'a', 0xff];
        let mut names: Vec<Vec<u8>> = vec![Vec::new()];
        for length in 1..=4 {
            let shorter: Vec<Vec<u8>> = names.iter().filter(|name| name.len() == length - 1).cloned().collect();
            names.extend(
                shorter
                    .iter()
                    .flat_map(|name| bytes.map(|byte| [name.as_slice(), &[byte]].concat())),
            );
        }
        let mut rows: Vec<KeyBytes> = names.iter().map(|name| key_row(0, name)).collect();
        rows.sort();
        let cursors: Vec<u64> = rows.iter().map(|row| cursor(&row[2..])).collect();
        assert!(cursors.is_sorted() && cursors.iter().all(|cursor| *cursor < 1 << 53));
        for (index, cursor) in cursors.iter().enumerate() {
            let start = start_of_page(0, *cursor).unwrap();
            let first = cursors.partition_point(|other| other < cursor);
            assert!(first <= index && start <= rows[first], "{:?}", rows[index]);
            assert!(first == 0 || rows[first - 1] < start, "{:?}", rows[index]);
        }
    }

    #[test]
    fn cursors_of_no_place_are_after_all_keys() {
        assert_eq!(start_of_page(0, 1 << 53), None);
        assert_eq!(start_of_page(0, u64::MAX), None);
        let last = start_of_page(0, (1 << 53) - 1).unwrap();
        assert_eq!(last.as_slice(), b"K\0\x1f\xff\xff\xff\xff\xff\xff");
    }
}
