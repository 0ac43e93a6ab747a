//! The documents whose vectors are nearest, of all or of those that match a condition. Each vector
//! is compared, so the answer is exact.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use crate::document::DocumentRow;
use crate::layout::{DocumentId, after, document_row, field_prefix, id_of, vector_row};
use crate::query::Nearest;
use crate::schema::FieldKind;
use crate::search::matcher::Matcher;
use crate::search::{Found, HITS_MAX, Hit, Search};
use crate::vectors::QueryVector;
use crate::{Schema, SearchError};

/// Greater is farther. Equally far documents stand in the order of their keys.
struct Near {
    distance: f64,
    key: Vec<u8>,
    id: DocumentId,
}

impl Ord for Near {
    fn cmp(&self, other: &Near) -> Ordering {
        self.distance
            .total_cmp(&other.distance)
            .then_with(|| self.key.cmp(&other.key))
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

impl Search<'_> {
    pub(super) fn nearest(
        &mut self,
        schema: &Schema,
        nearest: &Nearest,
        mut matcher: Matcher,
    ) -> Result<Found, SearchError> {
        let FieldKind::Vector(kind) = &schema.field(nearest.field).kind else {
            unreachable!("the grammar asks for a VECTOR field");
        };
        if nearest.count > HITS_MAX {
            return Err(SearchError::Limit(format!(
                "KNN K parameter is too large, the maximum is {HITS_MAX}"
            )));
        }
        let vector = kind.query(&nearest.vector)?;
        let candidates = match matcher {
            Matcher::All(..) => self.all_vectors(nearest.field, &vector)?,
            _ => self.vectors_of(&mut matcher, nearest.field, &vector)?,
        };
        let mut best: BinaryHeap<Near> = BinaryHeap::new();
        for (distance, id) in candidates {
            let is_near = best.len() < nearest.count || best.peek().is_some_and(|worst| distance <= worst.distance);
            if !is_near || nearest.count == 0 {
                continue;
            }
            let Some(key) = self.key_of(id) else {
                continue;
            };
            best.push(Near { distance, key, id });
            if best.len() > nearest.count {
                best.pop();
            }
        }
        Ok(self.found(best.into_sorted_vec()))
    }

    fn found(&self, near: Vec<Near>) -> Found {
        let total = near.len() as u64;
        let wanted = near.into_iter().skip(self.request.offset).take(self.request.count);
        let hits = wanted.map(|Near { distance, key, id }| Hit {
            id,
            key,
            score: 0.0,
            distance: Some(distance),
            sorted_by: None,
        });
        Found {
            total,
            hits: hits.collect(),
        }
    }

    fn key_of(&mut self, id: DocumentId) -> Option<Vec<u8>> {
        let row = self
            .rows
            .get(&document_row(id))
            .expect("a vector leads to its document");
        let key = DocumentRow::read(&row).key.to_vec();
        let keys = self.request.keys.as_ref();
        keys.is_none_or(|keys| keys.contains(&key)).then_some(key)
    }

    fn all_vectors(&mut self, field: u16, vector: &QueryVector) -> Result<Vec<(f64, DocumentId)>, SearchError> {
        let prefix = field_prefix(b'v', field);
        let (mut found, mut is_over) = (Vec::new(), false);
        let asked = self.is_over;
        self.rows.scan(&prefix, &after(&prefix), &mut |key, stored| {
            found.push((vector.distance(stored), id_of(key)));
            is_over = found.len().is_multiple_of(1024) && asked();
            match is_over {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        if is_over { Err(SearchError::Timeout) } else { Ok(found) }
    }

    fn vectors_of(
        &mut self,
        matcher: &mut Matcher,
        field: u16,
        vector: &QueryVector,
    ) -> Result<Vec<(f64, DocumentId)>, SearchError> {
        let (mut found, mut from) = (Vec::new(), 1);
        while let Some(id) = matcher.seek(self.rows, from) {
            from = id + 1;
            self.check()?;
            if let Some(stored) = self.rows.get(&vector_row(field, id)) {
                found.push((vector.distance(&stored), id));
            }
        }
        Ok(found)
    }
}
