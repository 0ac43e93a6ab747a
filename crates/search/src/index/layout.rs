//! Keys of an index's rows.
//!
//! ```text
//! 'm'                        the index: ids given out, ids settled, documents, tokens of all documents, numbers
//!                            of terms given out (varints)
//! 'k' key                    the id of the document with this key, a varint
//! 'd' id                     a document: see `document`
//! 'f' field                  how many tokens a field that counts its own has in all documents
//! 'x' id                     a document that is gone while its postings are still there
//! 'g' field value id         a TAG value of a document; no value
//! 'n' field number id        a number of a document; no value
//! 'l' field cell id          a place of a document, as its cell of the grid; no value
//! 'o' field id               the shape of a document: see `shapes`
//! 'i' field id               the document lacks the field (INDEXMISSING); no value
//! 'v' field id               the vectors of a document, one after the other
//! 'b' field block            what a block of ids has of vectors without a graph: see `vectors::flat`
//! 'h' field                  a graph of vectors: see `vectors::hnsw`
//! 'u' field id               a vector's node in the graph
//! 'y' field id               a node whose document is gone; no value
//! 'e' block                  how long the settled documents of a block of ids are: see `field_norms`
//! 'q' field                  how many documents have several numbers in the field (8 bytes)
//! 't' block                  terms of a block of numbers: see `term_dictionary`
//! 'w' term                   a term of the settled documents: its newest postings, and how many have it
//! 'p' term id                older postings of the term, up to this id: see `postings`
//! ```
//!
//! Ids count up and are never reused: a changed document gets a new id. Fields are two bytes, ids
//! eight, both big-endian. Values and terms precede other parts of a key, so they are escaped: `00`
//! is `00 ff`, and `00 00` ends them. A value or term that is longer than [`TERM_BYTES_MAX`] is
//! cut, and a hash of the whole is appended.

use xxhash_rust::xxh3::xxh3_128;

use crate::encoding::{Cursor, push_number};
use crate::rows::{DocumentId, id_of};
use crate::text::geo::Cell;

/// Longest part of a term or TAG value in a key, in bytes.
pub const TERM_BYTES_MAX: usize = 4096;

pub const INDEX: &[u8] = b"m";

/// Length of the key of a number in a field: most keys of a field are no longer.
const FIELD_KEY_BYTES: usize = 19;

pub fn key_row(key: &[u8]) -> Vec<u8> {
    [b"k", key].concat()
}

/// The value of the row of a key.
pub fn id_value(id: DocumentId) -> Vec<u8> {
    let mut value = Vec::with_capacity(size_of::<DocumentId>());
    push_number(&mut value, id.into());
    value
}

/// The id in a value of [`id_value`].
#[inline]
pub fn id_of_value(value: &[u8]) -> DocumentId {
    Cursor(value).number() as DocumentId
}

/// The tag of documents' rows.
pub const DOCUMENT: u8 = b'd';

pub fn document_row(id: DocumentId) -> Vec<u8> {
    tagged(DOCUMENT, id)
}

pub fn removed_row(id: DocumentId) -> Vec<u8> {
    tagged(b'x', id)
}

/// The range of the rows of removed documents whose postings remain.
pub fn removed_rows() -> (Vec<u8>, Vec<u8>) {
    (b"x".to_vec(), b"y".to_vec())
}

pub fn tag_row(field: u16, value: &[u8], id: DocumentId) -> Vec<u8> {
    with_id(tag_prefix(field, value), id)
}

/// The prefix of all rows of one value.
pub fn tag_prefix(field: u16, value: &[u8]) -> Vec<u8> {
    let mut key = field_prefix(b'g', field);
    push_escaped(&mut key, &bounded(value));
    key.extend([0, 0]);
    key
}

/// The prefix of a field's rows for the values with `prefix`.
pub fn tags_from(field: u16, prefix: &[u8]) -> Vec<u8> {
    let mut key = field_prefix(b'g', field);
    push_escaped(&mut key, prefix);
    key
}

pub fn number_row(field: u16, number: f64, id: DocumentId) -> Vec<u8> {
    with_id(number_prefix(field, number), id)
}

/// The prefix of the rows of one number. Sorts as numbers do.
pub fn number_prefix(field: u16, number: f64) -> Vec<u8> {
    let mut key = field_prefix(b'n', field);
    let bits = (number + 0.0).to_bits();
    let sorted = if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits };
    key.extend(sorted.to_be_bytes());
    key
}

pub fn place_row(field: u16, cell: Cell, id: DocumentId) -> Vec<u8> {
    with_id(place_prefix(field, cell), id)
}

/// The prefix of the rows of one cell. Sorts as cells do.
pub fn place_prefix(field: u16, cell: Cell) -> Vec<u8> {
    with_id(field_prefix(b'l', field), cell.0)
}

/// The cell of a row of [`place_row`].
pub fn cell_of(key: &[u8]) -> Cell {
    Cell(id_of(&key[..key.len() - 8]))
}

pub fn shape_row(field: u16, id: DocumentId) -> Vec<u8> {
    with_id(field_prefix(b'o', field), id)
}

pub fn missing_row(field: u16, id: DocumentId) -> Vec<u8> {
    with_id(field_prefix(b'i', field), id)
}

pub fn vector_row(field: u16, id: DocumentId) -> Vec<u8> {
    with_id(field_prefix(b'v', field), id)
}

pub fn block_row(field: u16, block: u64) -> Vec<u8> {
    with_id(field_prefix(b'b', field), block)
}

/// Counts the documents that have several numbers in a field.
pub fn several_row(field: u16) -> Vec<u8> {
    field_prefix(b'q', field)
}

pub fn lengths_row(block: u64) -> Vec<u8> {
    tagged(b'e', block)
}

pub fn terms_row(block: u64) -> Vec<u8> {
    tagged(b't', block)
}

pub fn tokens_row(field: u16) -> Vec<u8> {
    field_prefix(b'f', field)
}

pub fn graph_row(field: u16) -> Vec<u8> {
    field_prefix(b'h', field)
}

pub fn node_row(field: u16, id: DocumentId) -> Vec<u8> {
    with_id(field_prefix(b'u', field), id)
}

pub fn gone_node_row(field: u16, id: DocumentId) -> Vec<u8> {
    with_id(field_prefix(b'y', field), id)
}

/// The field of a row of numbers; nothing if the row is another.
pub fn field_of_number(key: &[u8]) -> Option<u16> {
    match key {
        [b'n', high, low, ..] => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    }
}

/// The field of a row of vectors; nothing if the row is another.
pub fn field_of_vector(key: &[u8]) -> Option<u16> {
    match key {
        [b'v', high, low, ..] => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    }
}

pub fn term_row(term: &[u8]) -> Vec<u8> {
    [b"w", &bounded(term)[..]].concat()
}

pub fn postings_prefix(term: &[u8]) -> Vec<u8> {
    bounded_postings_prefix(&bounded(term))
}

/// The same prefix for a term in its form for keys.
pub fn bounded_postings_prefix(bounded: &[u8]) -> Vec<u8> {
    let mut key = vec![b'p'];
    push_escaped(&mut key, bounded);
    key.extend([0, 0]);
    key
}

pub fn postings_row(term: &[u8], last: DocumentId) -> Vec<u8> {
    with_id(postings_prefix(term), last)
}

/// The prefix of a field's rows.
pub fn field_prefix(tag: u8, field: u16) -> Vec<u8> {
    let mut key = Vec::with_capacity(FIELD_KEY_BYTES);
    key.push(tag);
    key.extend(field.to_be_bytes());
    key
}

pub fn with_id(mut prefix: Vec<u8>, id: DocumentId) -> Vec<u8> {
    prefix.extend(id.to_be_bytes());
    prefix
}

fn tagged(tag: u8, id: DocumentId) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + size_of::<DocumentId>());
    key.push(tag);
    with_id(key, id)
}

/// The value of a TAG row.
pub fn tag_of(key: &[u8]) -> Vec<u8> {
    unescaped(&key[3..key.len() - 10])
}

/// The first key after all keys with `prefix`.
pub fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    unreachable!("every prefix begins with a letter")
}

/// The form of a term in a key. Two long terms differ in their hashes.
pub fn bounded(term: &[u8]) -> Vec<u8> {
    if term.len() <= TERM_BYTES_MAX {
        return term.to_vec();
    }
    let hash = xxh3_128(term).to_be_bytes();
    [&term[..TERM_BYTES_MAX], &hash[..]].concat()
}

fn push_escaped(key: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        key.push(byte);
        if byte == 0 {
            key.push(0xff);
        }
    }
}

fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut following = bytes.iter();
    while let Some(&byte) = following.next() {
        plain.push(byte);
        if byte == 0 {
            following.next();
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_in_keys_as_they_do() {
        let numbers = [f64::NEG_INFINITY, -1e9, -1.5, -0.0, 1e-300, 2.0, 1e300, f64::INFINITY];
        let keys: Vec<_> = numbers.iter().map(|&number| number_prefix(1, number)).collect();
        assert!(keys.is_sorted());
        assert_eq!(number_prefix(1, -0.0), number_prefix(1, 0.0));
    }

    #[test]
    fn values_of_tags_decode_and_are_prefix_free() {
        for value in [&b""[..], b"a", b"a\0", b"\0\0", b"a\0b", &[0xff; 3]] {
            let row = tag_row(7, value, 9);
            assert_eq!(tag_of(&row), value);
            assert_eq!(id_of(&row), 9);
        }
        assert!(!tag_row(7, b"a\0b", 1).starts_with(&tag_prefix(7, b"a")));
    }

    #[test]
    fn long_terms_with_a_common_prefix_differ() {
        let long = vec![b'x'; TERM_BYTES_MAX + 1];
        let longer = vec![b'x'; TERM_BYTES_MAX + 2];
        assert_ne!(term_row(&long), term_row(&longer));
        assert_eq!(bounded(&long).len(), TERM_BYTES_MAX + 16);
    }
}
