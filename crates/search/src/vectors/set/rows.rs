//! The keys of a set's rows.
//!
//! ```text
//! 'a' id        attributes of an element, if it has any
//! 'g'           the graph, while elements wait to be linked or have waited: see `linking`
//! 'l' id        a node: for each of its levels, the lowest first, the count and the ids of its links
//! 'm' element   the id of an element
//! 'p'           the matrix of a projection that is not Redis' own
//! 'v' id        a vector: length and range (a float each), components, name of the element
//! 'w' id        candidates for the neighbours of an element that waits, if it asks for another number
//! ```

use std::ops::ControlFlow;

use crate::encoding::push_number;
use crate::rows::{Rows, numbered};

/// An element's number. It is given once and grows, and there is no zero.
pub type Id = u64;

/// The links of a node, the lowest level first.
pub(super) type Levels = Vec<Vec<Id>>;

/// The tag of vectors' rows; a number follows.
pub const VECTORS: u8 = b'v';
/// The tag of nodes' rows; a number follows.
pub const NODES: u8 = b'l';
const MEMBERS: u8 = b'm';

/// The bounds of the elements' keys, in the order of their names.
pub const MEMBERS_RANGE: [&[u8]; 2] = [b"m", b"n"];

/// The key of the row that says how far elements are linked.
pub const GRAPH: &[u8] = b"g";

pub(super) const MATRIX: &[u8] = b"p";

pub(super) fn attributes_row(id: Id) -> [u8; 9] {
    numbered(b'a', id)
}

pub(super) fn effort_row(id: Id) -> [u8; 9] {
    numbered(b'w', id)
}

pub(super) fn links_row(id: Id) -> [u8; 9] {
    numbered(NODES, id)
}

pub(super) fn vector_row(id: Id) -> [u8; 9] {
    numbered(VECTORS, id)
}

/// Returns the key of an element's id.
pub fn member_row(element: &[u8]) -> Vec<u8> {
    [&[MEMBERS], element].concat()
}

/// The id of an element.
pub fn find(rows: &mut dyn Rows, element: &[u8]) -> Option<Id> {
    let row = rows.get(&member_row(element))?;
    Some(Id::from_be_bytes(row.try_into().expect("eight bytes of an id")))
}

/// Visits each vector's row from an id on, in their order.
pub(super) fn each_vector(rows: &mut dyn Rows, first: Id, visit: &mut dyn FnMut(Id, &[u8])) {
    rows.scan(&vector_row(first), &[VECTORS + 1], &mut |key, row| {
        visit(id_of(key), row);
        ControlFlow::Continue(())
    });
}

pub(super) fn id_of(key: &[u8]) -> Id {
    Id::from_be_bytes(key[1..].try_into().expect("eight bytes of an id"))
}

pub(super) fn read_levels(row: &[u8]) -> Levels {
    let mut numbers = Numbers(row);
    let mut levels = Levels::new();
    while !numbers.is_at_end() {
        levels.push((0..numbers.next()).map(|_| numbers.next()).collect());
    }
    levels
}

/// The number of a node's levels.
pub(super) fn count_levels(row: &[u8]) -> usize {
    let mut numbers = Numbers(row);
    let mut levels = 0;
    while !numbers.is_at_end() {
        numbers.skip_level();
        levels += 1;
    }
    levels
}

/// The number of a node's links on a level; none if it is not on it.
pub(super) fn count_links(row: &[u8], level: usize) -> usize {
    Numbers::of_level(row, level).map_or(0, |mut numbers| numbers.next() as usize)
}

/// Adds the links of one level to a list; none if the node is not on it.
pub(super) fn read_level(row: &[u8], level: usize, links: &mut Vec<Id>) {
    if let Some(mut numbers) = Numbers::of_level(row, level) {
        let count = numbers.next();
        links.extend((0..count).map(|_| numbers.next()));
    }
}

/// The numbers of a node's row. A byte holds seven bits of a number, the lowest first; the eighth
/// is set if more follow.
struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    /// From the count of a level on; none if the node is not on it.
    fn of_level(row: &'a [u8], level: usize) -> Option<Numbers<'a>> {
        let mut numbers = Numbers(row);
        for _ in 0..level {
            if numbers.is_at_end() {
                return None;
            }
            numbers.skip_level();
        }
        (!numbers.is_at_end()).then_some(numbers)
    }

    fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    fn skip_level(&mut self) {
        for _ in 0..self.next() {
            self.next();
        }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let [byte, remainder @ ..] = self.0 else {
                panic!("a node's row ends within a number");
            };
            self.0 = remainder;
            number |= u64::from(byte & 0x7f).unbounded_shl(shift);
            if byte & 0x80 == 0 {
                return number;
            }
            shift += 7;
        }
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
