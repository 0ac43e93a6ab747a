//! The vectors of an index's fields: each field has either a graph or the marks of its blocks.

use crate::index::field_index::FieldIndex;
use crate::index::layout::{after, field_prefix};
use crate::index::vector_kind::VectorKind;
use crate::rows::{DocumentId, Rows, WriteRows};
use crate::vectors::{flat, hnsw};

/// The field indexes of vectors.
#[derive(Clone, Copy, Debug)]
pub struct VectorFields;

impl FieldIndex for VectorFields {
    fn added(&self, rows: &mut dyn WriteRows, field: u16, id: DocumentId, vectors: &[u8]) {
        flat::added(rows, field, id, vectors);
    }

    fn removed(&self, rows: &mut dyn WriteRows, field: u16, id: DocumentId) -> bool {
        let is_in_graph = hnsw::leave(rows, field, id);
        if !is_in_graph {
            flat::removed(rows, field, id);
        }
        is_in_graph
    }

    fn verify(
        &self,
        rows: &mut dyn Rows,
        field: u16,
        kind: &VectorKind,
        last_id: DocumentId,
    ) -> Result<u64, &'static str> {
        if kind.graph().is_some() {
            let is_sound = hnsw::is_sound(rows, field, last_id);
            return is_sound.then_some(0).ok_or("has a graph that is none");
        }
        if !flat::are_marked(rows, field) {
            return Err("has marks that are not those of its vectors");
        }
        let prefix = field_prefix(b'b', field);
        Ok(rows.count(&prefix, &after(&prefix)))
    }
}
