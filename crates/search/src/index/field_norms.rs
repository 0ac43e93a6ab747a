//! The lengths of settled documents, side by side: scores need no more of a document than that.
//!
//! ```text
//! 'e' block      BLOCK_IDS lengths at most, by id: four bytes each, little-endian, one more than it is.
//!                0: no settled document. LOOK: the document's row has to be looked at
//! ```
//!
//! A document that has a weight of its own is one to look at, so that every other has weight one.

use std::ops::ControlFlow;

use crate::index::document::DocumentRow;
use crate::index::layout::lengths_row;
use crate::rows::{DocumentId, Rows, WriteRows, id_of};

/// Ids of one row.
const BLOCK_IDS: u64 = 1024;

const LENGTH_BYTES: usize = 4;

const LOOK: u32 = u32::MAX;

/// Returns the entry of a settled document.
pub(crate) fn entry_of(document: &DocumentRow<'_>) -> u32 {
    match document.score == 1.0 && document.length < LOOK - 1 {
        true => document.length + 1,
        false => LOOK,
    }
}

/// Writes entries in ascending order of ids; zeros for removed documents.
pub(crate) fn write(rows: &mut dyn WriteRows, entries: &[(DocumentId, u32)]) {
    for block in entries.chunk_by(|(a, _), (b, _)| a / BLOCK_IDS == b / BLOCK_IDS) {
        let (first, last) = (block[0].0, block[block.len() - 1].0);
        let key = lengths_row(first / BLOCK_IDS);
        let mut row = rows.get(&key).unwrap_or_default();
        let start = place(first).min(row.len());
        let end = place(last) + LENGTH_BYTES;
        row.resize(row.len().max(end), 0);
        for (id, entry) in block {
            row[place(*id)..][..LENGTH_BYTES].copy_from_slice(&entry.to_le_bytes());
        }
        match row.iter().all(|byte| *byte == 0) {
            true => rows.clear(&key),
            false => rows.patch(&key, start, &row[start..end]),
        }
    }
}

/// Visits the entries of all settled documents.
pub(crate) fn each(rows: &mut dyn Rows, visit: &mut dyn FnMut(DocumentId, u32)) {
    rows.scan(b"e", b"f", &mut |key, row| {
        let first = id_of(key) * BLOCK_IDS;
        for (id, entry) in (first..).zip(row.chunks_exact(LENGTH_BYTES)) {
            match u32::from_le_bytes(entry.try_into().expect("four bytes")) {
                0 => {}
                entry => visit(id, entry),
            }
        }
        ControlFlow::Continue(())
    });
}

fn place(id: DocumentId) -> usize {
    (id % BLOCK_IDS) as usize * LENGTH_BYTES
}

/// Reads lengths of documents, mostly in ascending order of ids.
#[derive(Default)]
pub(crate) struct Lengths {
    block: Option<u64>,
    /// The block's row, kept from the second document on: many blocks are read for one document
    /// only.
    row: Vec<u8>,
}

impl Lengths {
    /// The length of a document of weight one; None if only its own row has the length.
    pub fn of(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<u32> {
        let (block, mut entry) = (id / BLOCK_IDS, None);
        if self.block == Some(block) {
            if self.row.is_empty() {
                self.row = rows.get(&lengths_row(block)).unwrap_or_default();
            }
            entry = entry_at(&self.row, id);
        } else {
            self.block = Some(block);
            self.row.clear();
            rows.show(&lengths_row(block), &mut |row| entry = entry_at(row, id));
        }
        entry.filter(|entry| ![0, LOOK].contains(entry)).map(|entry| entry - 1)
    }
}

fn entry_at(row: &[u8], id: DocumentId) -> Option<u32> {
    let entry = row.get(place(id)..)?.first_chunk()?;
    Some(u32::from_le_bytes(*entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::MemoryRows;

    #[test]
    fn lengths_are_read_until_their_documents_are_deleted() {
        let mut rows = MemoryRows::default();
        write(&mut rows, &[(3, 1), (1023, LOOK), (1024, 8), (4000, 61)]);
        write(&mut rows, &[(1025, 9)]);
        let lengths = |rows: &mut MemoryRows| {
            let mut lengths = Lengths::default();
            [3, 4, 1023, 1024, 1025, 3999, 4000, 4001].map(|id| lengths.of(rows, id))
        };
        let expected = [Some(0), None, None, Some(7), Some(8), None, Some(60), None];
        assert_eq!(lengths(&mut rows), expected);
        write(&mut rows, &[(3, 0), (1024, 0), (4000, 0)]);
        assert_eq!(lengths(&mut rows).iter().flatten().count(), 1);
        write(&mut rows, &[(1023, 0), (1025, 0)]);
        assert!(rows.is_empty());
    }
}
