//! Compares a vector with all of a field.

use std::ops::ControlFlow;

use crate::error::SearchError;
use crate::index::layout::{after, field_prefix, vector_row};
use crate::index::schema::{FieldKind, Schema};
use crate::index::vector_kind::VectorKind;
use crate::rows::{DocumentId, Rows, id_of};
use crate::vectors::hnsw::gone_nodes;
use crate::vectors::metric::QueryVector;

/// Number of vectors between two checks of the deadline.
const VECTORS_BETWEEN_CHECKS: u64 = 1024;

/// The vectors of a field that the grammar has found to be one of vectors.
pub(super) fn kind_of(schema: &Schema, field: u16) -> &VectorKind {
    match &schema.field(field).kind {
        FieldKind::Vector(kind) => kind,
        _ => unreachable!("the grammar asks for a VECTOR field"),
    }
}

/// Compares every vector of a field, in the order of ids.
pub(super) fn compare_all(
    rows: &mut dyn Rows,
    field: u16,
    vector: &QueryVector,
    is_over: &dyn Fn() -> bool,
    visit: &mut dyn FnMut(f64, DocumentId),
) -> Result<(), SearchError> {
    compare_from(rows, field, 0, vector, is_over, visit)
}

/// Compares the vectors of a field's existing documents with ids of `from` and above.
pub(super) fn compare_from(
    rows: &mut dyn Rows,
    field: u16,
    from: DocumentId,
    vector: &QueryVector,
    is_over: &dyn Fn() -> bool,
    visit: &mut dyn FnMut(f64, DocumentId),
) -> Result<(), SearchError> {
    let removed = gone_nodes(rows, field, usize::MAX);
    let (mut compared, mut took_too_long) = (0, false);
    let end = after(&field_prefix(b'v', field));
    rows.scan(&vector_row(field, from), &end, &mut |key, stored| {
        if !removed.contains(&id_of(key)) {
            visit(vector.least_distance(stored), id_of(key));
        }
        compared += 1;
        took_too_long = u64::is_multiple_of(compared, VECTORS_BETWEEN_CHECKS) && is_over();
        match took_too_long {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    if took_too_long {
        Err(SearchError::Timeout)
    } else {
        Ok(())
    }
}
