//! The place of a key among the keys of its database, and a cursor of SCAN.
//!
//! ```text
//! name    stem | head, 4 bytes | tail, 3 bytes
//! place   head + hash of the stem, 32 bits | tail, 3 x 7 lower bits | tail, 3 x top bit | stem
//! cursor  the place's first 53 bits, missing bytes as zeros; 0 is the start and the end
//! ```
//!
//! Keys are ordered by their places, not by their names: a name does not fit into the number that
//! clients keep as a cursor, and no shorter value that preserves the order of names can distinguish
//! neighbours with a long common prefix. A key's place never changes and a cursor is computed only
//! from it. So it is valid on every node and after a restart, no state is kept for it, and a key
//! that exists during a whole iteration is returned, once, despite other changes. Keys with equal
//! cursors are returned together, because a cursor cannot point between them.
//!
//! A place is as long as its name, since the stem that remains in it takes the hash away again. A
//! name shorter than head and tail is its own place: all of it is in the cursor.
//!
//! Names that differ only in their last seven bytes, such as numbered names, are neighbours in
//! their own order: keys that are written in it are stored together. The top bits of the tail are
//! the last of a code because they are 0 in text, so that the cursors of such names differ. A
//! cursor has 53 bits because clients, of JavaScript in particular, keep it in a float.
//! `docs/decisions/26-scan-cursors.md` has the rejected alternatives.

use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

pub type KeyBytes = SmallVec<[u8; KEY_BYTES_INLINE]>;

/// Longer keys of rows are built in memory of their own.
const KEY_BYTES_INLINE: usize = 64;
const HEAD_BYTES: usize = 4;
const TAIL_BYTES: usize = 3;
/// The bytes of a name that its cursor is computed from, beside the hash of the others.
const CODE_BYTES: usize = HEAD_BYTES + TAIL_BYTES;
const CURSOR_BITS: u32 = 53;
/// The bits of a code that are not in the cursor.
const TOP_BITS: u32 = 8 * CODE_BYTES as u32 - CURSOR_BITS;

/// The row of the key `name`; also what the engine's watches of that key are registered under.
#[inline]
pub fn key_row(db: u8, name: &[u8]) -> KeyBytes {
    let Some((stem, end)) = name.split_last_chunk::<CODE_BYTES>() else {
        return joined([b'K', db], [name, b""]);
    };
    let [a, b, c, d, e, f, g] = placed(*end, hash(stem));
    joined([b'K', db, a, b, c, d, e, f, g], [stem, b""])
}

/// Returns the name of the key at a place.
pub fn name(place: &[u8]) -> KeyBytes {
    let Some((code, stem)) = place.split_first_chunk::<CODE_BYTES>() else {
        return KeyBytes::from_slice(place);
    };
    joined([], [stem, &named(*code, hash(stem))])
}

#[inline]
fn hash(stem: &[u8]) -> u32 {
    xxh3_64(stem) as u32
}

/// The start of a place: one for each end of a name with this hash of its stem.
#[inline]
fn placed([a, b, c, d, e, f, g]: [u8; CODE_BYTES], hash: u32) -> [u8; CODE_BYTES] {
    let head = u32::from_be_bytes([a, b, c, d]).wrapping_add(hash);
    let tail = u32::from_be_bytes([0, e, f, g]);
    let lower = tail & 0x7f | tail >> 1 & 0x7f << 7 | tail >> 2 & 0x7f << 14;
    let top = tail >> 7 & 1 | tail >> 14 & 2 | tail >> 21 & 4;
    let [a, b, c, d] = head.to_be_bytes();
    let [_, e, f, g] = (lower << TOP_BITS | top).to_be_bytes();
    [a, b, c, d, e, f, g]
}

/// Reverses [`placed`].
fn named([a, b, c, d, e, f, g]: [u8; CODE_BYTES], hash: u32) -> [u8; CODE_BYTES] {
    let head = u32::from_be_bytes([a, b, c, d]).wrapping_sub(hash);
    let tail = u32::from_be_bytes([0, e, f, g]);
    let byte = |index: u32| (tail >> (TOP_BITS + 7 * index) & 0x7f | (tail >> index & 1) << 7) as u8;
    let [a, b, c, d] = head.to_be_bytes();
    [a, b, c, d, byte(2), byte(1), byte(0)]
}

/// The cursor that points to a place, below 2^53.
pub fn cursor(place: &[u8]) -> u64 {
    let mut code = [0; 8];
    let length = place.len().min(CODE_BYTES);
    code[1..=length].copy_from_slice(&place[..length]);
    u64::from_be_bytes(code) >> TOP_BITS
}

/// The start of the page of `cursor`: at or before every key with this cursor, after all with a
/// smaller one. `None` if no place has such a cursor or a greater one.
pub fn start_of_page(db: u8, cursor: u64) -> Option<KeyBytes> {
    if cursor >> CURSOR_BITS != 0 {
        return None;
    }
    let [_, place @ ..] = (cursor << TOP_BITS).to_be_bytes();
    // A shorter place has zeros for its missing bytes, and sorts before places that have them.
    let zeros = place.iter().rev().take_while(|byte| **byte == 0).count();
    Some(joined([b'K', db], [&place[..place.len() - zeros], b""]))
}

/// Joins the parts. Parts that fit are copied without checking the room for each.
#[inline]
pub fn joined<const HEAD: usize>(head: [u8; HEAD], parts: [&[u8]; 2]) -> KeyBytes {
    let mut key = [0; KEY_BYTES_INLINE];
    let [first, second] = parts;
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
        for length in [
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 57, 58, 59, 60, 61, 62, 63, 64, 65, 300, 65_000,
        ] {
            for factor in [1, 37, 255] {
                let text: Vec<u8> = (0..length).map(|index| (index * factor) as u8).collect();
                let row = key_row(3, &text);
                assert_eq!(row.len(), 2 + length);
                assert_eq!(&row[..2], b"K\x03");
                assert_eq!(name(&row[2..]).as_slice(), text);
            }
        }
    }

    /// Numbered names were spread over the tree in groups of a thousand, and each group left two
    /// leaves and a node half empty. A place was four bytes longer than its name, so the rows of
    /// small keys took the allocator's next class. Now names of seven digits are neighbours in
    /// their order.
    #[test]
    fn numbered_names_are_neighbours_in_their_order() {
        let rows: Vec<KeyBytes> = (0..10_000_000)
            .step_by(997)
            .map(|number| key_row(0, format!("key:{number:012}").as_bytes()))
            .collect();
        let descents = rows.windows(2).filter(|pair| pair[0] >= pair[1]).count();
        assert!(descents <= 1, "only the hash's greatest number may be among them");
        let cursors: std::collections::HashSet<u64> = rows.iter().map(|row| cursor(&row[2..])).collect();
        assert_eq!(cursors.len(), rows.len());
    }

    /// All names of up to eight bytes of a few, in the order of their rows: cursors never decrease,
    /// and the page of each starts at the first of its keys.
    #[test]
    fn pages_start_at_the_first_key_of_their_cursor() {
        let bytes = [0, b'a', 0xff];
        let mut names: Vec<Vec<u8>> = vec![Vec::new()];
        for length in 1..=8 {
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
        assert_eq!(last.as_slice(), b"K\0\xff\xff\xff\xff\xff\xff\xf8");
    }
}
