//! The documents whose vectors are nearest, of all or of those that match a condition.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use crate::layout::{DocumentId, after, field_prefix, id_of, vector_row};
use crate::query::Nearest;
use crate::rows::Rows;
use crate::schema::FieldKind;
use crate::search::matcher::Matcher;
use crate::search::{Found, HITS_MAX, Hit, Search};
use crate::vectors::{QueryVector, VectorKind};
use crate::{Schema, SearchError};

/// After how many vectors a comparison asks whether it has to end.
const VECTORS_BETWEEN_CHECKS: u64 = 1024;

/// Greater is farther. Equally far documents stand in the order of their keys.
struct Near {
    distance: f64,
    hit: Hit,
}

impl Ord for Near {
    fn cmp(&self, other: &Near) -> Ordering {
        self.distance
            .total_cmp(&other.distance)
            .then_with(|| self.hit.key.cmp(&other.hit.key))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Near) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Near {
    fn eq(&self, other: &Near) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Near {}

/// The nearest of those that were offered.
struct NearestHits {
    count: usize,
    best: BinaryHeap<Near>,
}

impl NearestHits {
    /// Makes the hit only if it is near enough.
    fn offer(&mut self, distance: f64, hit: impl FnOnce() -> Option<Hit>) {
        let is_near = self.best.len() < self.count || self.best.peek().is_some_and(|worst| distance <= worst.distance);
        if self.count == 0 || !is_near {
            return;
        }
        let Some(mut hit) = hit() else {
            return;
        };
        hit.distance = Some(distance);
        self.best.push(Near { distance, hit });
        if self.best.len() > self.count {
            self.best.pop();
        }
    }
}

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
    let prefix = field_prefix(b'v', field);
    let (mut compared, mut took_too_long) = (0, false);
    rows.scan(&prefix, &after(&prefix), &mut |key, stored| {
        visit(vector.least_distance(stored), id_of(key));
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

impl Search<'_> {
    pub(super) fn nearest(
        &mut self,
        schema: &Schema,
        nearest: &Nearest,
        mut matcher: Matcher,
    ) -> Result<Found, SearchError> {
        if nearest.count > HITS_MAX {
            return Err(SearchError::Limit(format!(
                "KNN K parameter is too large, the maximum is {HITS_MAX}"
            )));
        }
        let vector = kind_of(schema, nearest.field).query(&nearest.vector)?;
        let mut hits = NearestHits {
            count: nearest.count,
            best: BinaryHeap::new(),
        };
        match matcher {
            Matcher::All(..) => {
                for (distance, id) in self.all_vectors(nearest.field, &vector)? {
                    hits.offer(distance, || self.hit(&Matcher::Empty, id));
                }
            }
            _ => {
                let mut from = 1;
                while let Some(id) = matcher.seek(self.rows, from) {
                    from = id + 1;
                    self.check()?;
                    if let Some(stored) = self.rows.get(&vector_row(nearest.field, id)) {
                        hits.offer(vector.least_distance(&stored), || self.hit(&matcher, id));
                    }
                }
            }
        }
        Ok(self.ordered(hits.best.into_sorted_vec()))
    }

    /// The nearest first, unless another order was asked for.
    fn ordered(&self, near: Vec<Near>) -> Found {
        let total = near.len() as u64;
        let hits = near.into_iter().map(|near| near.hit);
        if !self.is_sorted() {
            let hits = hits.skip(self.request.offset).take(self.request.count).collect();
            return Found { total, hits };
        }
        let mut ranking = self.ranking();
        hits.for_each(|hit| ranking.add(self.candidate(hit)));
        let hits = ranking.into_hits();
        Found { total, hits }
    }

    fn all_vectors(&mut self, field: u16, vector: &QueryVector) -> Result<Vec<(f64, DocumentId)>, SearchError> {
        let mut found = Vec::new();
        compare_all(self.rows, field, vector, self.is_over, &mut |distance, id| {
            found.push((distance, id));
        })?;
        Ok(found)
    }
}
