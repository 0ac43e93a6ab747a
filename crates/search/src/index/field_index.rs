//! The index of a field beside the rows of its values: codes or a graph of vectors.

use crate::index::vector_kind::VectorKind;
use crate::rows::{DocumentId, Rows, WriteRows};

/// Follows the vectors of documents as their index changes.
pub trait FieldIndex {
    /// Adds the vectors of a document to a field without a graph.
    fn added(&self, rows: &mut dyn WriteRows, field: u16, id: DocumentId, vectors: &[u8]);

    /// Removes the vectors of a document; their row still exists. Returns true if the row must
    /// stay for now.
    fn removed(&self, rows: &mut dyn WriteRows, field: u16, id: DocumentId) -> bool;

    /// Compares the rows of a field's index with its vectors. Returns the number of rows that no
    /// other check counts, or a fault as the end of a sentence.
    fn verify(
        &self,
        rows: &mut dyn Rows,
        field: u16,
        kind: &VectorKind,
        last_id: DocumentId,
    ) -> Result<u64, &'static str>;
}
