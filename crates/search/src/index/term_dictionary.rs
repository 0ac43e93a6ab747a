//! Numbers of terms: settled documents name by them which terms they have.
//!
//! ```text
//! 't' block    BLOCK_TERMS entries at most, by number: a byte, one more than the length of the term, and the term;
//!              0: no term has the number (any more)
//! ```
//!
//! Numbers count up from 1 within an index and are never given again. The row of a term has its
//! number; a term that no document has loses both.

use std::ops::ControlFlow;

use crate::index::layout::terms_row;
use crate::rows::{Rows, WriteRows};

/// Counts up from 1 within an index; 0 is none.
pub(crate) type TermNumber = u64;

/// Longer terms have no number.
pub(crate) const TERM_BYTES_MAX: usize = u8::MAX as usize - 1;

/// Numbers of one row.
const BLOCK_TERMS: u64 = 64;

/// Reads the entries of a row, `None` where no term has the number.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        let (length, remainder) = self.0.split_first()?;
        let Some(length) = usize::from(*length).checked_sub(1) else {
            self.0 = remainder;
            return Some(None);
        };
        let (term, remainder) = remainder.split_at(length);
        self.0 = remainder;
        Some(Some(term))
    }
}

fn push(row: &mut Vec<u8>, term: Option<&[u8]>) {
    row.push(term.map_or(0, |term| term.len() as u8 + 1));
    row.extend(term.unwrap_or_default());
}

/// Assigns the numbers after `last` to these terms, each at most [`TERM_BYTES_MAX`] long.
pub(crate) fn add(rows: &mut dyn WriteRows, last: TermNumber, terms: &[&[u8]]) {
    let (mut number, mut remaining) = (last + 1, terms);
    while !remaining.is_empty() {
        let before = number % BLOCK_TERMS;
        let (block, remainder) = remaining.split_at(remaining.len().min((BLOCK_TERMS - before) as usize));
        let key = terms_row(number / BLOCK_TERMS);
        let (mut stored, mut entries) = (0, Vec::new());
        if !rows.show(&key, &mut |row| stored = row.len()) {
            entries.resize(before as usize, 0);
        }
        block.iter().for_each(|term| push(&mut entries, Some(term)));
        rows.patch(&key, stored, &entries);
        number += block.len() as TermNumber;
        remaining = remainder;
    }
}

/// Takes the number from its term.
pub(crate) fn remove(rows: &mut dyn WriteRows, number: TermNumber) {
    let key = terms_row(number / BLOCK_TERMS);
    let row = rows.get(&key).expect("the number is a term's");
    let (mut remaining, mut is_empty) = (Vec::with_capacity(row.len()), true);
    for (at, term) in (0..).zip(Entries(&row)) {
        let term = term.filter(|_| at != number % BLOCK_TERMS);
        is_empty &= term.is_none();
        push(&mut remaining, term);
    }
    match is_empty {
        true => rows.clear(&key),
        false => rows.set(&key, &remaining),
    }
}

/// The terms with these numbers, which ascend. None if a number has no term.
pub(crate) fn terms(rows: &mut dyn Rows, numbers: &[TermNumber]) -> Option<Vec<Vec<u8>>> {
    let mut terms = Vec::with_capacity(numbers.len());
    for block in numbers.chunk_by(|a, b| a / BLOCK_TERMS == b / BLOCK_TERMS) {
        rows.show(&terms_row(block[0] / BLOCK_TERMS), &mut |row| {
            let (mut entries, mut next) = (Entries(row), 0);
            for number in block {
                let at = number % BLOCK_TERMS;
                let term = entries.nth((at - next) as usize).flatten();
                terms.extend(term.map(<[u8]>::to_vec));
                next = at + 1;
            }
        });
    }
    (terms.len() == numbers.len()).then_some(terms)
}

/// The number of terms with a number.
pub(crate) fn count(rows: &mut dyn Rows) -> u64 {
    let mut count = 0;
    rows.scan(b"t", b"u", &mut |_, row| {
        count += Entries(row).flatten().count() as u64;
        ControlFlow::Continue(())
    });
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::MemoryRows;

    #[test]
    fn terms_are_found_by_their_numbers_until_removed() {
        let mut rows = MemoryRows::default();
        let all: Vec<Vec<u8>> = (0..200).map(|at: u8| vec![b'x'; at.into()]).collect();
        let terms: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        add(&mut rows, 0, &terms[..70]);
        add(&mut rows, 70, &terms[70..]);
        assert_eq!(count(&mut rows), 200);
        let read = super::terms(&mut rows, &[1, 2, 63, 64, 70, 71, 200]).unwrap();
        let lengths: Vec<usize> = read.iter().map(Vec::len).collect();
        assert_eq!(lengths, [0, 1, 62, 63, 69, 70, 199]);
        assert_eq!(super::terms(&mut rows, &[200, 201]), None);
        (1..=199).for_each(|number| remove(&mut rows, number));
        assert_eq!((rows.len(), count(&mut rows)), (1, 1));
        assert_eq!(super::terms(&mut rows, &[199]), None);
        remove(&mut rows, 200);
        assert!(rows.is_empty());
        add(&mut rows, 200, &[b"again"]);
        assert_eq!(super::terms(&mut rows, &[201]).unwrap(), [b"again"]);
    }
}
