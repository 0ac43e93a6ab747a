//! Where the parts of a set stand among its rows.
//!
//! ```text
//! 'a' id        attributes of an element, if it has any
//! 'l' id        a node: for each of its levels, the lowest first, the count and the ids of its links
//! 'm' element   the id of an element
//! 'p'           the matrix of a projection that is not Redis' own
//! 'v' id        a vector: length and range (a float each), components, name of the element
//! ```

use std::ops::ControlFlow;

use crate::Rows;
use crate::layout::{Cursor, push_number};

/// An element's number. It is given once and grows, and there is no zero.
pub type Id = u64;

/// The links of a node, the lowest level first.
pub(super) type Levels = Vec<Vec<Id>>;

const VECTORS: u8 = b'v';
const MEMBERS: u8 = b'm';

/// The keys between which the elements stand, in the order of their names.
pub const MEMBERS_RANGE: [&[u8]; 2] = [b"m", b"n"];

pub(super) const MATRIX: &[u8] = b"p";

fn of_id(tag: u8, id: Id) -> [u8; 9] {
    let mut key = [tag; 9];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

pub(super) fn attributes_row(id: Id) -> [u8; 9] {
    of_id(b'a', id)
}

pub(super) fn links_row(id: Id) -> [u8; 9] {
    of_id(b'l', id)
}

pub(super) fn vector_row(id: Id) -> [u8; 9] {
    of_id(VECTORS, id)
}

/// Returns the key at which an element's id stands.
pub fn member_row(element: &[u8]) -> Vec<u8> {
    [&[MEMBERS], element].concat()
}

/// The id of an element.
pub fn find(rows: &mut dyn Rows, element: &[u8]) -> Option<Id> {
    let row = rows.get(&member_row(element))?;
    Some(Id::from_be_bytes(row.try_into().expect("eight bytes of an id")))
}

/// Visits each vector's row, by id.
pub(super) fn each_vector(rows: &mut dyn Rows, visit: &mut dyn FnMut(Id, &[u8])) {
    rows.scan(&[VECTORS], &[VECTORS + 1], &mut |key, row| {
        visit(id_of(key), row);
        ControlFlow::Continue(())
    });
}

fn id_of(key: &[u8]) -> Id {
    Id::from_be_bytes(key[1..].try_into().expect("eight bytes of an id"))
}

pub(super) fn read_levels(row: &[u8]) -> Levels {
    let mut cursor = Cursor(row);
    let mut levels = Levels::new();
    while !cursor.is_at_end() {
        levels.push((0..cursor.number()).map(|_| cursor.number() as Id).collect());
    }
    levels
}

/// The links of one level; none if the node is not on it.
pub(super) fn read_level(row: &[u8], level: usize) -> Vec<Id> {
    let mut cursor = Cursor(row);
    for _ in 0..level {
        if cursor.is_at_end() {
            return Vec::new();
        }
        (0..cursor.number()).for_each(|_| _ = cursor.number());
    }
    match cursor.is_at_end() {
        true => Vec::new(),
        false => (0..cursor.number()).map(|_| cursor.number() as Id).collect(),
    }
}

pub(super) fn write_levels(levels: &Levels) -> Vec<u8> {
    let mut row = Vec::new();
    for links in levels {
        push_number(&mut row, links.len() as u128);
        links.iter().for_each(|id| push_number(&mut row, u128::from(*id)));
    }
    row
}
