//! The documents that a query matches, at the snapshot that the rows show.
//!
//! The answer depends only on the documents of the rows: not on how far they are settled, nor on
//! the order of their insertion. Hits are ordered by score (or by a value, or by distance), and
//! equal hits by key.

mod affixes;
mod comparison;
mod explanation;
mod lookup;
mod matcher;
mod nearness;
mod proximity;
mod ranking;
mod request;
mod scorer;
mod scoring;
mod spelling;
mod watch;

pub use affixes::EXPANSIONS_MAX;
pub use request::{HITS_MAX, Keys, Request};
pub use scorer::{Revision, Scorer, hamming};
pub use spelling::{Correction, Spelling, corrections};
pub use watch::Clock;

use std::collections::{BinaryHeap, HashMap};
use std::ops::ControlFlow;

use crate::error::SearchError;
use crate::hits::{Candidate, Found, Hit, Order, Step};
use crate::index::State;
use crate::index::doc_sets::DocSet;
use crate::index::document::{DocumentRow, Sortable};
use crate::index::field_norms::Lengths;
use crate::index::layout::{DOCUMENT, after, document_row, id_of_value, key_row};
use crate::index::schema::Schema;
use crate::redis::execute::lookup::Lookup;
use crate::redis::execute::matcher::Matcher;
use crate::redis::execute::ranking::{BestIds, BestScores};
use crate::redis::execute::request::DOCUMENTS_AT_ONCE;
use crate::redis::execute::scoring::{Measures, Scoring};
use crate::redis::query::Query;
use crate::rows::{DocumentId, Rows};
use crate::time::Time;
use crate::top_k::Best;

/// Number of candidates between two checks of the deadline.
const CANDIDATES_BETWEEN_CHECKS: u64 = 256;

/// The approximate number of a document row's first bytes that contain its key.
const KEY_BYTES_READ: usize = 64;

/// The number of consecutive keys that are read in the time of one lookup.
const KEYS_READ_AT_ONCE: u64 = 4;

/// Finds the matches of a query, see [`Execution::search`].
pub fn search(
    rows: &mut dyn Rows,
    schema: &Schema,
    query: &Query,
    request: &Request,
    time: Time<'_>,
) -> Result<Found, SearchError> {
    Execution {
        rows,
        schema,
        query,
        request,
        time,
    }
    .search()
}

/// A query, and the snapshot at which it is executed.
pub struct Execution<'e> {
    /// The rows of the index.
    pub rows: &'e mut dyn Rows,
    /// The schema of the index.
    pub schema: &'e Schema,
    /// The condition that documents match.
    pub query: &'e Query,
    /// The requested part of the matches.
    pub request: &'e Request,
    /// The time that there is.
    pub time: Time<'e>,
}

impl Execution<'_> {
    /// Finds the matches. A part of them has no document that does not match, so it is empty if the
    /// time ends before all conditions are known.
    pub fn search(self) -> Result<Found, SearchError> {
        let time = self.time;
        time.found(self.find())
    }

    /// The keys of all matches in the order of keys, as a search by key finds them.
    pub fn keys(self) -> Result<Keys, SearchError> {
        let time = self.time;
        time.found(self.find_keys())
    }

    fn find(self) -> Result<Found, SearchError> {
        let Execution {
            rows,
            schema,
            query,
            request,
            time,
        } = self;
        if request.offset.max(request.count) > HITS_MAX {
            return Err(SearchError::Limit(format!("LIMIT exceeds maximum of {HITS_MAX}")));
        }
        let state = State::read(rows);
        let mut lookup = Lookup::new(rows, schema, &state, request, time.question());
        lookup.read(&query.root)?;
        if request.is_total_enough()
            && query.nearest.is_none()
            && let Some(total) = lookup.total(&query.root)
        {
            return Ok(Found {
                total,
                ..Found::default()
            });
        }
        if let Some(nearest) = &query.nearest
            && let Some(walked) = lookup.walked(nearest, &query.root)?
        {
            let matcher = lookup.matcher_among(&walked.ids, &query.root)?;
            let mut search = Search::new(rows, request, time, &state);
            if let Some(answer) = search.watched_nearest(schema, nearest, matcher, Some(&walked))? {
                return Ok(answer);
            }
            lookup = Lookup::new(rows, schema, &state, request, time.question());
            lookup.read(&query.root)?;
        }
        let matcher = lookup.matcher(&query.root)?;
        let mut search = Search::new(rows, request, time, &state);
        match &query.nearest {
            None if request.by_key => search.ranked_by_key(matcher),
            None if request.is_by_score() && query.distance_names().is_empty() => search.ranked_by_score(matcher),
            None => search.ranked(matcher),
            Some(nearest) => {
                let answer = search.watched_nearest(schema, nearest, matcher, None)?;
                Ok(answer.expect("every match was looked at"))
            }
        }
    }

    fn find_keys(self) -> Result<Keys, SearchError> {
        let (rows, request, time) = (self.rows, self.request, self.time);
        let state = State::read(rows);
        let mut lookup = Lookup::new(rows, self.schema, &state, request, time.question());
        lookup.read(&self.query.root)?;
        let mut matcher = lookup.matcher(&self.query.root)?;
        let mut search = Search::new(rows, request, time, &state);
        let ids = search.ids(&mut matcher, &mut |_, _| {})?;
        let mut keys = Keys::default();
        search.in_order_of_keys(ids.as_deref(), &mut |_, key| keys.push(key))?;
        Ok(keys)
    }
}

/// Most places of words that the hits of a search have together.
const PLACES_MAX: usize = 1 << 20;

/// A document's key, by which it is ordered, and its id.
type Keyed = (Vec<u8>, DocumentId);

struct Search<'s> {
    rows: &'s mut dyn Rows,
    request: &'s Request,
    time: Time<'s>,
    scoring: Scoring,
    /// The number of documents.
    documents: u64,
    checked: u64,
}

impl<'s> Search<'s> {
    fn new(rows: &'s mut dyn Rows, request: &'s Request, time: Time<'s>, state: &State) -> Search<'s> {
        Search {
            rows,
            request,
            time,
            scoring: Scoring::new(request.scorer, state),
            documents: state.documents,
            checked: 0,
        }
    }

    fn ranked(&mut self, mut matcher: Matcher) -> Result<Found, SearchError> {
        let mut ranking = self.best();
        let is_total_enough = self.request.count == 0 && self.request.keys.is_none();
        let (mut total, mut best, mut from, mut places) = (0, 0.0_f64, 1, 0);
        while let Some(id) = matcher.seek(self.rows, from) {
            from = id + 1;
            if self.is_over()? {
                break;
            }
            if is_total_enough {
                total += 1;
                continue;
            }
            if let Some(hit) = self.hit(&matcher, id) {
                total += 1;
                best = best.max(hit.score);
                places += hit.places.len();
                ranking.add(self.candidate(hit));
                if places > PLACES_MAX {
                    places = ranking.kept().map(|candidate| candidate.hit.places.len()).sum();
                }
                if places > PLACES_MAX {
                    return Err(SearchError::Memory);
                }
            }
        }
        if matcher.is_too_large() {
            return Err(SearchError::Memory);
        }
        let mut answer = Found {
            total,
            hits: ranking.into_sorted().map(|candidate| candidate.hit).collect(),
            steps: Step::of(&matcher),
        };
        self.scoring.finish(&mut answer.hits, best);
        Ok(answer)
    }

    /// As [`Search::ranked`] where only scores count: keys are read only of the best.
    fn ranked_by_score(&mut self, mut matcher: Matcher) -> Result<Found, SearchError> {
        let mut lengths = Lengths::default();
        let mut scores = BestScores::new(self.request.offset + self.request.count);
        let is_constant = self.scoring.is_constant(&matcher);
        let (mut total, mut best, mut constant, mut from) = (0, 0.0_f64, None, 1);
        while let Some(id) = matcher.seek(self.rows, from) {
            from = id + 1;
            if self.is_over()? {
                break;
            }
            total += 1;
            let score = match constant {
                Some(constant) => constant,
                None => self.score(&matcher, id, &mut lengths),
            };
            if is_constant {
                constant = Some(score);
            }
            best = best.max(score);
            scores.add(score, id);
        }
        if matcher.is_too_large() {
            return Err(SearchError::Memory);
        }
        let mut hits = self.hits(scores.finish())?;
        self.scoring.finish(&mut hits, best);
        let steps = Step::of(&matcher);
        Ok(Found { total, hits, steps })
    }

    /// All matches in the order of their keys.
    fn ranked_by_key(&mut self, mut matcher: Matcher) -> Result<Found, SearchError> {
        let (mut places, with_places) = (HashMap::new(), self.request.with_places);
        let mut count = 0;
        let ids = self.ids(&mut matcher, &mut |matcher, id| {
            if with_places && count <= PLACES_MAX {
                let mut hit_places = Vec::new();
                matcher.add_places(id, &mut hit_places);
                count += hit_places.len();
                places.insert(id, hit_places);
            }
        })?;
        if count > PLACES_MAX {
            return Err(SearchError::Memory);
        }
        let mut hits = Vec::new();
        self.in_order_of_keys(ids.as_deref(), &mut |id, key| {
            hits.push(Hit::new(id, key.to_vec(), 0.0))
        })?;
        let total = hits.len() as u64;
        let (offset, count) = (self.request.offset, self.request.count);
        hits = hits.into_iter().skip(offset).take(count).collect();
        for hit in &mut hits {
            hit.places = places.remove(&hit.id).unwrap_or_default();
        }
        let steps = Step::of(&matcher);
        Ok(Found { total, hits, steps })
    }

    /// The ids of all matches, ascending, each of which is visited; nothing if every document
    /// matches.
    fn ids(
        &mut self,
        matcher: &mut Matcher,
        visit: &mut dyn FnMut(&Matcher, DocumentId),
    ) -> Result<Option<Vec<DocumentId>>, SearchError> {
        if matches!(matcher, Matcher::All(..)) {
            return Ok(None);
        }
        let (mut ids, mut from) = (Vec::new(), 1);
        while let Some(id) = matcher.seek(self.rows, from) {
            from = id + 1;
            if self.is_over()? {
                break;
            }
            ids.push(id);
            visit(matcher, id);
        }
        Ok(Some(ids))
    }

    /// Visits documents in the order of their keys: those of `ids`, which ascend, or all.
    fn in_order_of_keys(
        &mut self,
        ids: Option<&[DocumentId]>,
        visit: &mut dyn FnMut(DocumentId, &[u8]),
    ) -> Result<(), SearchError> {
        if let Some(ids) = ids
            && (ids.len() as u64) < self.documents / KEYS_READ_AT_ONCE
        {
            let mut keyed: Vec<Keyed> = Vec::with_capacity(ids.len());
            self.each_key(ids, &mut |id, key| keyed.push((key.to_vec(), id)))?;
            keyed.sort_unstable();
            keyed.iter().for_each(|(key, id)| visit(*id, key));
            return Ok(());
        }
        let (start, time) = (key_row(b""), self.time);
        let (mut read, mut ends) = (0, Ok(false));
        self.rows.scan(&start, &after(&start), &mut |key, row| {
            let id = id_of_value(row);
            if ids.is_none_or(|ids| ids.binary_search(&id).is_ok()) {
                visit(id, &key[1..]);
            }
            read += 1;
            if u64::is_multiple_of(read, CANDIDATES_BETWEEN_CHECKS) {
                ends = time.is_over();
            }
            match ends {
                Ok(false) => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        });
        ends.map(|_| ())
    }

    fn score(&mut self, matcher: &Matcher, id: DocumentId, lengths: &mut Lengths) -> f64 {
        if self.scoring.needs_lengths_only()
            && let Some(length) = lengths.of(self.rows, id)
        {
            return self.scoring.score(matcher, Measures::of_length(length));
        }
        let (scoring, mut score) = (&self.scoring, 0.0);
        self.rows.show(&document_row(id), &mut |row| {
            score = scoring.score(matcher, Measures::from(&DocumentRow::read(row)));
        });
        score
    }

    /// The hits in their order, after the skipped hits.
    fn hits(&mut self, best: BestIds) -> Result<Vec<Hit>, SearchError> {
        let (last, ids) = best.last;
        let mut ranked: Vec<(f64, Vec<u8>, DocumentId)> = Vec::new();
        for (score, id) in best.better {
            if self.is_over()? {
                break;
            }
            ranked.push((score, self.key(id), id));
        }
        let first = self.first_by_key(&ids, best.wanted)?;
        ranked.extend(first.into_iter().map(|(key, id)| (last, key, id)));
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let hits = ranked.into_iter().skip(self.request.offset);
        Ok(hits.map(|(score, key, id)| Hit::new(id, key, score)).collect())
    }

    fn key(&mut self, id: DocumentId) -> Vec<u8> {
        let mut key = Vec::new();
        let is_there = self
            .rows
            .show(&document_row(id), &mut |row| key.extend(DocumentRow::read(row).key));
        assert!(is_there, "a posting leads to its document");
        key
    }

    /// The `count` documents of `ids`, which ascend, whose keys are the first. Where that is
    /// cheaper, keys are read in their order until enough of them are among the ids.
    fn first_by_key(&mut self, ids: &[DocumentId], count: usize) -> Result<Vec<Keyed>, SearchError> {
        if count > 0 && count < ids.len() {
            let expected = count as u64 * self.documents / ids.len() as u64;
            if expected / KEYS_READ_AT_ONCE < ids.len() as u64
                && let Some(in_order) = self.first_in_order(ids, count)?
            {
                return Ok(in_order);
            }
        }
        let mut first: BinaryHeap<Keyed> = BinaryHeap::new();
        self.each_key(ids, &mut |id, key| {
            let is_full = first.len() == count;
            if is_full && first.peek().is_none_or(|(last, _)| key >= last.as_slice()) {
                return;
            }
            if is_full {
                first.pop();
            }
            first.push((key.to_vec(), id));
        })?;
        Ok(first.into_vec())
    }

    /// Visits the keys of these documents in their order, until the deadline of the search.
    fn each_key(&mut self, ids: &[DocumentId], visit: &mut dyn FnMut(DocumentId, &[u8])) -> Result<(), SearchError> {
        for (before, together) in ids.chunks(DOCUMENTS_AT_ONCE).enumerate() {
            if before > 0 && self.time.is_over()? {
                break;
            }
            self.rows.show_each(DOCUMENT, together, KEY_BYTES_READ, &mut |at, row| {
                visit(together[at], DocumentRow::read(row).key);
            });
        }
        Ok(())
    }

    /// Returns None if too many other keys precede them.
    fn first_in_order(&mut self, ids: &[DocumentId], count: usize) -> Result<Option<Vec<Keyed>>, SearchError> {
        let (mut keyed, mut remaining) = (Vec::new(), ids.len() as u64 * KEYS_READ_AT_ONCE);
        let start = key_row(b"");
        self.rows.scan(&start, &after(&start), &mut |key, row| {
            let id = id_of_value(row);
            if ids.binary_search(&id).is_ok() {
                keyed.push((key[1..].to_vec(), id));
            }
            remaining -= 1;
            match remaining > 0 && keyed.len() < count {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        self.is_over()?;
        Ok((keyed.len() == count).then_some(keyed))
    }

    fn best(&self) -> Best<Candidate> {
        Best::new(self.request.offset, self.request.count)
    }

    fn order(&self) -> Order {
        let distance_ascends = self.request.sort_by_distance.as_ref().map(|(_, ascends)| *ascends);
        match self.request.sort_by.map(|(_, ascends)| ascends).or(distance_ascends) {
            Some(ascends) => Order::Value { ascends },
            None => Order::Score,
        }
    }

    fn candidate(&self, mut hit: Hit) -> Candidate {
        if let Some((name, _)) = &self.request.sort_by_distance {
            let range = hit.range_distances.iter().find(|(range_name, _)| range_name == name);
            let distance = range.map(|(_, distance)| *distance).or(hit.distance);
            hit.sorted_by = distance.map(Sortable::Number);
        }
        let order = self.order();
        Candidate { order, hit }
    }

    /// The hit at `id`; None if the request is limited to other keys.
    fn hit(&mut self, matcher: &Matcher, id: DocumentId) -> Option<Hit> {
        let (request, scoring, mut parts) = (self.request, &self.scoring, None);
        let is_there = self.rows.show(&document_row(id), &mut |row| {
            let mut document = DocumentRow::read(row);
            let keys = request.keys.as_ref();
            if keys.is_some_and(|keys| !keys.contains(document.key)) {
                return;
            }
            let score = scoring.score(matcher, Measures::from(&document));
            let explanation = request.explains_scores.then(|| scoring.explain(matcher, &document));
            let key = document.key.to_vec();
            let sorted_by = request.sort_by.and_then(|(field, _)| document.sortable(field));
            parts = Some((key, score, explanation, sorted_by));
        });
        assert!(is_there, "a posting leads to its document");
        let (key, score, explanation, sorted_by) = parts?;
        let mut places = Vec::new();
        if self.request.with_places {
            matcher.add_places(id, &mut places);
        }
        let mut range_distances = Vec::new();
        matcher.add_distances(id, &mut range_distances);
        Some(Hit {
            range_distances,
            sorted_by,
            places,
            explanation,
            ..Hit::new(id, key, score)
        })
    }

    /// Called for each candidate. Returns true if the search must be content with the candidates so
    /// far.
    fn is_over(&mut self) -> Result<bool, SearchError> {
        self.checked += 1;
        match self.checked.is_multiple_of(CANDIDATES_BETWEEN_CHECKS) {
            true => self.time.is_over(),
            false => Ok(false),
        }
    }
}
