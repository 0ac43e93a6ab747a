//! The documents whose vectors are nearest, of all or of those that match a condition.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::best::{Best, Rank};
use crate::coded::CodedQuery;
use crate::graph::{self, Head};
use crate::image::{Image, Slot};
use crate::layout::{DocumentId, vector_row};
use crate::query::Nearest;
use crate::search::comparison::{compare_all, compare_from, kind_of};
use crate::search::matcher::Matcher;
use crate::search::ranking::Order;
use crate::search::watch::{Clock, Step};
use crate::search::{Found, HITS_MAX, Hit, Search};
use crate::vectors::{QueryVector, VectorKind};
use crate::{Schema, SearchError};

/// A search of a graph keeps this many times the candidates that were asked for. The original finds
/// 0.95 of the ten nearest with ten candidates at best; this many find that on data without
/// clusters.
const CANDIDATES_FACTOR: usize = 4;

/// A document and how far it is. Equally far documents stand in the order of their keys.
struct Near {
    distance: f64,
    hit: Hit,
}

impl Rank for Near {
    fn rank(&self, other: &Near) -> Ordering {
        self.distance
            .total_cmp(&other.distance)
            .then_with(|| self.hit.key.cmp(&other.hit.key))
    }
}

/// How far documents are at least, whose ids ascend.
struct Bounds {
    image: Arc<Image>,
    query: CodedQuery,
    slot: Slot,
}

impl Bounds {
    /// Nothing if the image does not have the document.
    fn least(&mut self, id: DocumentId) -> Option<f64> {
        self.slot = self.image.first_from(self.slot, id);
        let is_there = (self.slot as usize) < self.image.slots() && self.image.document(self.slot) == id;
        is_there.then(|| self.image.point(self.slot).bounds(&self.query).0)
    }
}

/// Offers a document to the nearest. Makes the hit only if it is near enough.
fn offer(nearest: &mut Best<Near>, distance: f64, hit: impl FnOnce() -> Option<Hit>) {
    if nearest.worst().is_some_and(|worst| distance > worst.distance) {
        return;
    }
    if let Some(mut hit) = hit() {
        hit.distance = Some(distance);
        nearest.add(Near { distance, hit });
    }
}

impl Search<'_> {
    /// As [`Search::nearest`], with its steps if they are watched.
    pub(super) fn watched_nearest(
        &mut self,
        schema: &Schema,
        nearest: &Nearest,
        mut matcher: Matcher,
    ) -> Result<Found, SearchError> {
        let clock = self.request.clock.clone();
        let started_micros = clock.as_ref().map(Clock::micros);
        let mut found = self.nearest(schema, nearest, &mut matcher)?;
        let is_filtered = !matches!(matcher.seen_through(), Matcher::All(..));
        found.steps = clock.zip(started_micros).map(|(clock, started_micros)| Step {
            kind: "VECTOR",
            mode: Some(if is_filtered { "HYBRID_ADHOC_BF" } else { "STANDARD_KNN" }),
            micros: clock.micros().saturating_sub(started_micros),
            reads: found.total,
            children: is_filtered.then(|| Step::of(&matcher)).flatten().into_iter().collect(),
            has_one_child: true,
            ..Step::default()
        });
        Ok(found)
    }

    fn nearest(&mut self, schema: &Schema, nearest: &Nearest, matcher: &mut Matcher) -> Result<Found, SearchError> {
        if nearest.count > HITS_MAX {
            return Err(SearchError::Limit(format!(
                "KNN K parameter is too large, the maximum is {HITS_MAX}"
            )));
        }
        let kind = kind_of(schema, nearest.field);
        let vector = kind.query(&nearest.vector)?;
        let mut hits = Best::new(0, nearest.count);
        match (matcher.seen_through(), kind.graph()) {
            (Matcher::All(..), Some(graph)) if self.request.keys.is_none() => {
                let candidates = nearest.options.candidates.unwrap_or(graph.search_candidates);
                for (distance, id) in self.by_graph(nearest, (kind, candidates), &vector)? {
                    offer(&mut hits, distance, || self.hit(&Matcher::Empty, id));
                }
            }
            (Matcher::All(..), _) => {
                for (distance, id) in self.all_vectors(nearest, (kind, &vector))? {
                    offer(&mut hits, distance, || self.hit(&Matcher::Empty, id));
                }
            }
            _ => {
                let (mut bounds, mut from) = (None, 1);
                while let Some(id) = matcher.seek(self.rows, from) {
                    from = id + 1;
                    if self.is_over()? {
                        break;
                    }
                    if let Some(worst) = hits.worst().map(|worst| worst.distance) {
                        let bounds = bounds.get_or_insert_with(|| self.graph_bounds(nearest.field, kind, &vector));
                        let least = bounds.as_mut().and_then(|bounds| bounds.least(id));
                        if least.is_some_and(|least| least > worst) {
                            continue;
                        }
                    }
                    let mut distance = None;
                    self.rows.show(&vector_row(nearest.field, id), &mut |stored| {
                        distance = Some(vector.least_distance(stored));
                    });
                    if let Some(distance) = distance {
                        offer(&mut hits, distance, || self.hit(matcher, id));
                    }
                }
            }
        }
        Ok(self.ordered(hits.into_sorted().collect()))
    }

    /// Bounds of how far the nodes of a graph are, if it is in memory.
    fn graph_bounds(&mut self, field: u16, kind: &VectorKind, vector: &QueryVector) -> Option<Bounds> {
        kind.graph()?;
        let head = Head::read(self.rows, field);
        let codes = self.request.codes.as_ref()?;
        let query = CodedQuery::new(kind, &vector.all_components());
        let image = codes.images.of_field(field).get(head.mark)?;
        let is_bounded = query.is_bounded();
        is_bounded.then_some(Bounds { image, query, slot: 0 })
    }

    /// The nearest that the graph leads to, and all vectors that it does not have yet.
    fn by_graph(
        &mut self,
        nearest: &Nearest,
        (kind, candidates): (&VectorKind, usize),
        vector: &QueryVector,
    ) -> Result<Vec<(f64, DocumentId)>, SearchError> {
        let field = nearest.field;
        let head = Head::read(self.rows, field);
        let mut found = Vec::new();
        if head.first > 0 {
            let candidates = candidates.max(nearest.count).saturating_mul(CANDIDATES_FACTOR);
            found = graph::nearest(
                self.rows,
                field,
                (kind, vector),
                (head, self.request.codes.as_deref()),
                (nearest.count, candidates),
                self.time.question(),
            )?;
        }
        compare_from(
            self.rows,
            field,
            head.reached + 1,
            vector,
            self.time.question(),
            &mut |distance, id| {
                found.push((distance, id));
            },
        )?;
        Ok(found)
    }

    /// The nearest first, unless another order was asked for.
    fn ordered(&self, near: Vec<Near>) -> Found {
        let total = near.len() as u64;
        let hits = near.into_iter().map(|near| near.hit);
        if matches!(self.order(), Order::Score) {
            let hits = hits.skip(self.request.offset).take(self.request.count).collect();
            let steps = None;
            return Found { total, hits, steps };
        }
        let mut ranking = self.best();
        hits.for_each(|hit| ranking.add(self.candidate(hit)));
        let (hits, steps) = (ranking.into_sorted().map(|candidate| candidate.hit).collect(), None);
        Found { total, hits, steps }
    }

    /// Every vector that may be near enough.
    fn all_vectors(
        &mut self,
        nearest: &Nearest,
        (kind, vector): (&VectorKind, &QueryVector),
    ) -> Result<Vec<(f64, DocumentId)>, SearchError> {
        let field = nearest.field;
        if let Some(codes) = self.request.codes.as_ref().filter(|_| self.request.keys.is_none())
            && let Some(found) = codes.nearest(self.rows, field, (kind, vector), nearest.count, self.time.question())?
        {
            return Ok(found);
        }
        let mut found = Vec::new();
        compare_all(self.rows, field, vector, self.time.question(), &mut |distance, id| {
            found.push((distance, id));
        })?;
        Ok(found)
    }
}
