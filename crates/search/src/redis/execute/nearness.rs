//! The documents with the nearest vectors, of all documents or of a condition's matches.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::error::SearchError;
use crate::hits::{Found, Hit, Order, Step};
use crate::index::doc_sets::DocSet;
use crate::index::layout::vector_row;
use crate::index::schema::Schema;
use crate::index::vector_kind::{Graph, VectorKind};
use crate::redis::execute::Search;
use crate::redis::execute::comparison::{compare_all, compare_from, kind_of};
use crate::redis::execute::lookup::Lookup;
use crate::redis::execute::matcher::Matcher;
use crate::redis::execute::request::HITS_MAX;
use crate::redis::execute::watch::Clock;
use crate::redis::query::{HybridPolicy, Nearest, Node, NodeKind};
use crate::rows::DocumentId;
use crate::top_k::{Best, Rank};
use crate::vectors::flat::{Candidates, FieldSearch};
use crate::vectors::hnsw::{self, Head, NearestLimits};
use crate::vectors::metric::QueryVector;
use crate::vectors::quantized::CodedQuery;
use crate::vectors::resident_graph::{Image, Slot};

/// The factor between the candidates of a graph's search and the requested candidates. The original
/// finds 0.95 of the ten nearest with ten candidates at best; this factor reaches that on data
/// without clusters.
const CANDIDATES_FACTOR: usize = 4;

/// Matches of a filter that are compared in half the time in which a graph leads to one candidate,
/// measured with 384 components: where a walk would save less than half, comparing all is exact.
const COMPARED_INSTEAD_OF_CANDIDATE: u64 = 100;

/// A document with its distance. Equally distant documents are in the order of their keys.
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

/// Bounds of how far documents are, whose ids ascend.
struct Bounds {
    image: Arc<Image>,
    query: CodedQuery,
    slot: Slot,
}

impl Bounds {
    /// The least and the greatest distance. Nothing if the image does not have the document.
    fn of(&mut self, id: DocumentId) -> Option<(f64, f64)> {
        self.slot = self.image.first_from(self.slot, id);
        let is_there = (self.slot as usize) < self.image.slots() && self.image.document(self.slot) == id;
        is_there.then(|| self.image.point(self.slot).bounds(&self.query))
    }
}

/// Offers a document to the nearest. Builds the hit only for a distance within the nearest.
fn offer(nearest: &mut Best<Near>, distance: f64, hit: impl FnOnce() -> Option<Hit>) {
    if nearest.worst().is_some_and(|worst| distance > worst.distance) {
        return;
    }
    if let Some(mut hit) = hit() {
        hit.distance = Some(distance);
        nearest.add(Near { distance, hit });
    }
}

/// The number of nodes that a search of a graph keeps.
fn candidates(nearest: &Nearest, graph: &Graph) -> usize {
    let candidates = nearest.options.candidates.unwrap_or(graph.search_candidates);
    candidates.max(nearest.count).saturating_mul(CANDIDATES_FACTOR)
}

/// The documents that are searched for a filter's matches: the nearest in a graph, and documents
/// that are not in it yet.
pub(super) struct Walked {
    /// Ascending.
    pub ids: Vec<DocumentId>,
    /// The last id in the graph; later ids are not in it.
    reached: DocumentId,
    /// If fewer of those in the graph match, others may be nearer than they are.
    matches_min: usize,
}

impl Lookup<'_> {
    /// Walks a graph regardless of the filter. Returns None if there is no graph, if the query
    /// requests a comparison of every match, if that takes little more time, or if the number of
    /// matches is unknown. Must be called after [`Lookup::read`].
    pub(super) fn walked(&mut self, nearest: &Nearest, filter: &Node) -> Result<Option<Walked>, SearchError> {
        let (field, kind) = (nearest.field, kind_of(self.schema, nearest.field));
        let Some(graph) = kind.graph() else { return Ok(None) };
        let is_exact = nearest.options.policy == Some(HybridPolicy::AdHoc) || self.request.keys.is_some();
        if is_exact || matches!(filter.kind, NodeKind::All) || nearest.count > HITS_MAX {
            return Ok(None);
        }
        let Some(matches) = self.estimate(filter).filter(|matches| *matches > 0) else {
            return Ok(None);
        };
        let candidate_count = candidates(nearest, graph);
        let count = (candidate_count as u64).saturating_mul(self.state.documents) / matches;
        let head = Head::read(self.rows, field);
        if head.first == 0 || count.saturating_mul(COMPARED_INSTEAD_OF_CANDIDATE) > matches {
            return Ok(None);
        }
        let vector = kind.query(&nearest.vector)?;
        let search = FieldSearch {
            field,
            kind,
            vector: &vector,
            codes: self.request.codes.as_deref(),
            is_over: self.is_over,
        };
        let mut ids = hnsw::nearest_ids(self.rows, &search, head, count as usize)?;
        ids.extend(hnsw::waiting_ids(self.rows, field, head));
        Ok(Some(Walked {
            ids,
            reached: head.reached,
            matches_min: candidate_count / 2,
        }))
    }
}

/// The nearest of those matches of a filter that were looked at.
struct Compared<'c> {
    field: u16,
    kind: &'c VectorKind,
    vector: QueryVector,
    hits: Best<Near>,
    /// None before their first use.
    bounds: Option<Option<Bounds>>,
}

impl<'c> Compared<'c> {
    fn new(schema: &'c Schema, nearest: &Nearest) -> Result<Compared<'c>, SearchError> {
        let kind = kind_of(schema, nearest.field);
        Ok(Compared {
            field: nearest.field,
            kind,
            vector: kind.query(&nearest.vector)?,
            hits: Best::new(0, nearest.count),
            bounds: None,
        })
    }
}

impl Search<'_> {
    /// The nearest to a vector that match, with the steps if they are watched. If the documents
    /// were `walked`, it looks for no others, and returns nothing if too few of them match.
    pub(super) fn watched_nearest(
        &mut self,
        schema: &Schema,
        nearest: &Nearest,
        mut matcher: Matcher,
        walked: Option<&Walked>,
    ) -> Result<Option<Found>, SearchError> {
        let clock = self.request.clock.clone();
        let started_micros = clock.as_ref().map(Clock::micros);
        let answer = match walked {
            Some(walked) => self.nearest_of_walked(schema, nearest, &mut matcher, walked)?,
            None => Some(self.nearest(schema, nearest, &mut matcher)?),
        };
        let Some(mut answer) = answer else { return Ok(None) };
        let is_filtered = !matches!(matcher.seen_through(), Matcher::All(..));
        answer.steps = clock.zip(started_micros).map(|(clock, started_micros)| Step {
            kind: "VECTOR",
            mode: Some(match (walked, is_filtered) {
                (Some(_), _) => "HYBRID_BATCHES",
                (None, true) => "HYBRID_ADHOC_BF",
                (None, false) => "STANDARD_KNN",
            }),
            micros: clock.micros().saturating_sub(started_micros),
            reads: answer.total,
            children: is_filtered.then(|| Step::of(&matcher)).flatten().into_iter().collect(),
            has_one_child: true,
            ..Step::default()
        });
        Ok(Some(answer))
    }

    fn nearest_of_walked(
        &mut self,
        schema: &Schema,
        nearest: &Nearest,
        matcher: &mut Matcher,
        walked: &Walked,
    ) -> Result<Option<Found>, SearchError> {
        let mut compared = Compared::new(schema, nearest)?;
        let mut matches = 0;
        for id in &walked.ids {
            if self.is_over()? {
                break;
            }
            if matcher.seek(self.rows, *id) == Some(*id) {
                matches += usize::from(*id <= walked.reached);
                self.compare(&mut compared, matcher, *id);
            }
        }
        let is_enough = matches >= walked.matches_min;
        Ok(is_enough.then(|| self.ordered(compared.hits.into_sorted().collect())))
    }

    fn nearest(&mut self, schema: &Schema, nearest: &Nearest, matcher: &mut Matcher) -> Result<Found, SearchError> {
        if nearest.count > HITS_MAX {
            return Err(SearchError::Limit(format!(
                "KNN K parameter is too large, the maximum is {HITS_MAX}"
            )));
        }
        let mut compared = Compared::new(schema, nearest)?;
        let kind = compared.kind;
        match (matcher.seen_through(), kind.graph()) {
            (Matcher::All(..), Some(graph)) if self.request.keys.is_none() => {
                let candidates = candidates(nearest, graph);
                for (distance, id) in self.by_graph(nearest, kind, candidates, &compared.vector)? {
                    offer(&mut compared.hits, distance, || self.hit(&Matcher::Empty, id));
                }
            }
            (Matcher::All(..), _) => {
                for (distance, id) in self.all_vectors(nearest, kind, &compared.vector)? {
                    offer(&mut compared.hits, distance, || self.hit(&Matcher::Empty, id));
                }
            }
            _ => {
                self.leave_out_far(&mut compared, matcher, nearest.count)?;
                let mut from = 1;
                while let Some(id) = matcher.seek(self.rows, from) {
                    from = id + 1;
                    if self.is_over()? {
                        break;
                    }
                    self.compare(&mut compared, matcher, id);
                }
            }
        }
        Ok(self.ordered(compared.hits.into_sorted().collect()))
    }

    /// Takes matches out of a list that are surely farther than `count` others, so that these are
    /// not even read.
    fn leave_out_far(
        &mut self,
        compared: &mut Compared<'_>,
        matcher: &mut Matcher,
        count: usize,
    ) -> Result<(), SearchError> {
        if !matcher.lists_ids() || self.request.keys.is_some() {
            return Ok(());
        }
        let Some(mut bounds) = self.graph_bounds(compared.field, compared.kind, &compared.vector) else {
            return Ok(());
        };
        let (mut candidates, mut from) = (Candidates::new(count), 1);
        while let Some(id) = matcher.seek(self.rows, from) {
            from = id + 1;
            if self.is_over()? {
                break;
            }
            let (least, greatest) = bounds.of(id).unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
            candidates.add(least, greatest, id);
        }
        matcher.restrict(&candidates.ids());
        Ok(())
    }

    /// Compares a document's vector, unless it is known to be farther than the nearest so far. The
    /// matcher is at the document; ids ascend.
    fn compare(&mut self, compared: &mut Compared<'_>, matcher: &Matcher, id: DocumentId) {
        let Compared {
            field, kind, vector, ..
        } = compared;
        if let Some(worst) = compared.hits.worst().map(|worst| worst.distance) {
            let bounds = compared
                .bounds
                .get_or_insert_with(|| self.graph_bounds(*field, kind, vector));
            let distance_bounds = bounds.as_mut().and_then(|bounds| bounds.of(id));
            if distance_bounds.is_some_and(|(least, _)| least > worst) {
                return;
            }
        }
        let mut distance = None;
        self.rows.show(&vector_row(*field, id), &mut |stored| {
            distance = Some(vector.least_distance(stored));
        });
        if let Some(distance) = distance {
            offer(&mut compared.hits, distance, || self.hit(matcher, id));
        }
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
        kind: &VectorKind,
        candidates: usize,
        vector: &QueryVector,
    ) -> Result<Vec<(f64, DocumentId)>, SearchError> {
        let field = nearest.field;
        let head = Head::read(self.rows, field);
        let mut bounded = Vec::new();
        if head.first > 0 {
            let search = FieldSearch {
                field,
                kind,
                vector,
                codes: self.request.codes.as_deref(),
                is_over: self.time.question(),
            };
            let count = nearest.count;
            bounded = hnsw::nearest(self.rows, &search, head, NearestLimits { count, candidates })?;
        }
        compare_from(
            self.rows,
            field,
            head.reached + 1,
            vector,
            self.time.question(),
            &mut |distance, id| {
                bounded.push((distance, id));
            },
        )?;
        // After this only keys of the nearest are read.
        bounded.sort_unstable_by(|first, other| first.0.total_cmp(&other.0));
        Ok(bounded)
    }

    /// The nearest first, unless the request has another order.
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

    /// Every vector that may be within the distance.
    fn all_vectors(
        &mut self,
        nearest: &Nearest,
        kind: &VectorKind,
        vector: &QueryVector,
    ) -> Result<Vec<(f64, DocumentId)>, SearchError> {
        let field = nearest.field;
        let codes = self.request.codes.as_deref();
        let search = FieldSearch {
            field,
            kind,
            vector,
            codes,
            is_over: self.time.question(),
        };
        if let Some(codes) = codes.filter(|_| self.request.keys.is_none())
            && let Some(compared) = codes.nearest(self.rows, &search, nearest.count)?
        {
            return Ok(compared);
        }
        let mut compared = Vec::new();
        compare_all(self.rows, field, vector, self.time.question(), &mut |distance, id| {
            compared.push((distance, id));
        })?;
        Ok(compared)
    }
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;
    use crate::index;
    use crate::index::document::Document;
    use crate::index::schema::{Field, FieldKind};
    use crate::index::vector_kind::{Component, Metric};
    use crate::redis::execute::{Request, search};
    use crate::redis::query::{Expander, Parameters, parse};
    use crate::rows::MemoryRows;
    use crate::time::Time;
    use crate::vectors::fields::VectorFields;
    use crate::vectors::flat::Codes;

    const DIMENSIONS: usize = 8;
    const COUNT: u64 = 4000;
    /// Each lets half of the documents pass, so that a walk for two of the nearest takes less than
    /// comparing them.
    const FILTERS: &[&str] = &["@n:[0 0]", "@t:{even}", "even", "-@n:[1 1]"];

    fn schema() -> Schema {
        let graph = Graph {
            links: 8,
            build_candidates: 40,
            search_candidates: 2,
            ..Graph::default()
        };
        let kind = VectorKind::new(Component::Float32, DIMENSIONS, Metric::L2).unwrap();
        let fields = vec![
            Field::new("v", FieldKind::Vector(kind.with_graph(graph))),
            Field::numeric("n"),
            Field::tag("t"),
            Field::text("w", 1.0),
        ];
        Schema::new(fields).unwrap()
    }

    /// Components from -1 to 1; the first is greater by a distance.
    fn vector(seed: u64, away: f32) -> Vec<u8> {
        let component = |at: usize| {
            let hash = xxh3_64(&[seed.to_be_bytes(), at.to_be_bytes()].concat());
            let number = (hash >> 40) as f32 / (1u32 << 23) as f32 - 1.0;
            if at == 0 { number + away } else { number }
        };
        (0..DIMENSIONS).flat_map(|at| component(at).to_le_bytes()).collect()
    }

    /// Even numbers match the filters; odd numbers are at a distance from them.
    fn rows(away: f32) -> MemoryRows {
        let (mut rows, schema, codes) = (MemoryRows::default(), schema(), Codes::default());
        codes.set_bytes_max(1 << 24);
        for number in 0..COUNT {
            let parity = if number % 2 == 0 { "even" } else { "odd" };
            let away = if number % 2 == 0 { 0.0 } else { away };
            let document = Document::new(&schema, &number.to_be_bytes(), |field| {
                Some(match field.name.as_str() {
                    "v" => vector(number, away),
                    "n" => (number % 2).to_string().into_bytes(),
                    _ => parity.into(),
                })
            });
            index::put(&mut rows, &document.unwrap(), &VectorFields);
            if number == COUNT - 100 {
                while hnsw::settle(&mut rows, &schema, Some(&codes), 256) {}
            }
        }
        (0..COUNT).step_by(50).for_each(|number| {
            assert!(index::remove(&mut rows, &number.to_be_bytes(), &VectorFields));
        });
        rows
    }

    fn found(rows: &mut MemoryRows, text: &str, vector: &[u8], codes: Option<Arc<Codes>>) -> Found {
        let schema = schema();
        let parameters: Parameters = [("q".to_owned(), vector.to_vec())].into();
        let query = parse(&schema, text.as_bytes(), &parameters, Expander::All).unwrap();
        let request = Request {
            codes,
            clock: Some(Clock::new(|| 0)),
            ..Request::default()
        };
        search(rows, &schema, &query, &request, Time::until(&|| false)).unwrap()
    }

    fn mode(answer: &Found) -> &'static str {
        answer.steps.as_ref().and_then(|step| step.mode).unwrap()
    }

    #[test]
    fn a_walk_for_a_filter_finds_nearly_all_with_an_image_and_without() {
        let mut rows = rows(0.0);
        let codes = Arc::new(Codes::default());
        codes.set_bytes_max(1 << 24);
        for filter in FILTERS {
            let (mut right, mut walks) = (0, 0);
            for seed in 0..60 {
                let vector = vector(1_000_000 + seed, 0.0);
                let text = format!("{filter}=>[KNN 2 @v $q HYBRID_POLICY ADHOC_BF]");
                let exact = found(&mut rows, &text, &vector, None);
                assert_eq!(mode(&exact), "HYBRID_ADHOC_BF", "{filter}");
                let text = format!("{filter}=>[KNN 2 @v $q]");
                let near = found(&mut rows, &text, &vector, None);
                walks += usize::from(mode(&near) == "HYBRID_BATCHES");
                right += near.hits.iter().filter(|hit| exact.hits.contains(hit)).count();
                hnsw::make_images(&mut rows, &schema(), &codes);
                let with_image = found(&mut rows, &text, &vector, Some(codes.clone()));
                assert_eq!(with_image.hits, near.hits, "{filter}");
            }
            assert!(walks >= 50, "{filter}: {walks} of 60");
            assert!(right >= 110, "{filter}: {right} of 120");
        }
    }

    #[test]
    fn where_a_walk_finds_too_few_all_that_match_are_compared() {
        let mut rows = rows(20.0);
        for seed in 0..5 {
            let vector = vector(1_000_000 + seed, 20.0);
            let walk = found(&mut rows, "@n:[0 0]=>[KNN 2 @v $q]", &vector, None);
            let exact = found(
                &mut rows,
                "@n:[0 0]=>[KNN 2 @v $q HYBRID_POLICY ADHOC_BF]",
                &vector,
                None,
            );
            assert_eq!(walk.steps.as_ref().unwrap().mode, Some("HYBRID_ADHOC_BF"));
            assert_eq!(walk.hits, exact.hits);
        }
    }
}
