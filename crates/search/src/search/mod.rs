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
mod scoring;
mod spelling;
mod watch;

pub use crate::reasons::Explanation;
pub use affixes::EXPANSIONS_MAX;
pub use matcher::Place;
pub use scoring::{Revision, Scorer, hamming};
pub use spelling::{Correction, Spelling, corrections};
pub use watch::{Clock, Step};

use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::best::Best;
use crate::codes::Codes;
use crate::document::{DocumentRow, Sortable};
use crate::index::State;
use crate::layout::{DOCUMENT, DocumentId, after, document_row, id_of_value, key_row};
use crate::lengths::Lengths;
use crate::query::Query;
use crate::rows::Rows;
use crate::search::lookup::Lookup;
use crate::search::matcher::Matcher;
use crate::search::ranking::{BestIds, BestScores, Candidate, Order};
use crate::search::scoring::{Measures, Scoring};
use crate::{Schema, SearchError, Time};

/// Most hits that a request may skip and take.
pub const HITS_MAX: usize = 1_000_000;

/// Number of candidates between two checks of the deadline.
const CANDIDATES_BETWEEN_CHECKS: u64 = 256;

/// Documents that are looked up together: a batch takes little longer than a single read, and keeps
/// a disk busy.
const DOCUMENTS_AT_ONCE: usize = 256;

/// The approximate number of a document row's first bytes that contain its key.
const KEY_BYTES_READ: usize = 64;

/// The number of consecutive keys that are read in the time of one lookup.
const KEYS_READ_AT_ONCE: u64 = 4;

/// The part of a query's matches to return, and its order.
#[derive(Clone, Debug)]
pub struct Request {
    /// The number of the best that are skipped.
    pub offset: usize,
    /// The number of wanted hits. If it is zero, only the total is computed.
    pub count: usize,
    /// How scores are computed.
    pub scorer: Scorer,
    /// The SORTABLE field whose values order the hits instead of scores, and whether they ascend.
    pub sort_by: Option<(u16, bool)>,
    /// The name of the distance that orders the hits, and whether it ascends.
    pub sort_by_distance: Option<(String, bool)>,
    /// The most other words between the words of an intersection without a slop of its own.
    pub slop: Option<u32>,
    /// Words of every intersection must be in order.
    pub in_order: bool,
    /// Hits are in the order of their keys, without scores.
    pub by_key: bool,
    /// Only these keys are looked at.
    pub keys: Option<BTreeSet<Vec<u8>>>,
    /// Hits report the places of the query's words in them.
    pub with_places: bool,
    /// Hits report how their scores were computed.
    pub explains_scores: bool,
    /// Steps are counted, and timed by this clock.
    pub clock: Option<Clock>,
    /// Codes of the index's vectors that are in memory.
    pub codes: Option<Arc<Codes>>,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            offset: 0,
            count: 10,
            scorer: Scorer::default(),
            sort_by: None,
            sort_by_distance: None,
            slop: None,
            in_order: false,
            by_key: false,
            keys: None,
            with_places: false,
            explains_scores: false,
            clock: None,
            codes: None,
        }
    }
}

/// A document that matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hit {
    /// Its id in the index.
    pub id: DocumentId,
    /// Its key.
    pub key: Vec<u8>,
    /// How well it matches.
    pub score: f64,
    /// The distance of its vector, for a query by nearness.
    pub distance: Option<f64>,
    /// The distances of its vectors for ranges, by the names that the query gives them.
    pub range_distances: Vec<(String, f64)>,
    /// The value that it was sorted by.
    pub sorted_by: Option<Sortable>,
    /// The places of the query's words, on request.
    pub places: Vec<Place>,
    /// The explanation of the score, on request.
    pub explanation: Option<Explanation>,
}

impl Hit {
    fn new(id: DocumentId, key: Vec<u8>, score: f64) -> Hit {
        Hit {
            id,
            key,
            score,
            distance: None,
            range_distances: Vec::new(),
            sorted_by: None,
            places: Vec::new(),
            explanation: None,
        }
    }
}

/// The answer to a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The number of matching documents. Exact.
    pub total: u64,
    /// The requested hits, the best first.
    pub hits: Vec<Hit>,
    /// The steps that found them, if a clock was given.
    pub steps: Option<Step>,
}

/// Finds the matches of a query. A part of them has no document that does not match, so it is empty
/// if the time ends before all conditions are known.
pub fn search(
    rows: &mut dyn Rows,
    schema: &Schema,
    query: &Query,
    request: &Request,
    time: Time<'_>,
) -> Result<Found, SearchError> {
    time.found(found(rows, schema, query, request, time))
}

fn found(
    rows: &mut dyn Rows,
    schema: &Schema,
    query: &Query,
    request: &Request,
    time: Time<'_>,
) -> Result<Found, SearchError> {
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
        if let Some(found) = search.watched_nearest(schema, nearest, matcher, Some(&walked))? {
            return Ok(found);
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
            let found = search.watched_nearest(schema, nearest, matcher, None)?;
            Ok(found.expect("every match was looked at"))
        }
    }
}

/// Keys, one after the other: many of them take little room.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// The keys in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// The keys of all matches of a query in the order of keys, as a [`search`] by key finds them.
pub fn keys(
    rows: &mut dyn Rows,
    schema: &Schema,
    query: &Query,
    request: &Request,
    time: Time<'_>,
) -> Result<Keys, SearchError> {
    time.found(keys_found(rows, schema, query, request, time))
}

fn keys_found(
    rows: &mut dyn Rows,
    schema: &Schema,
    query: &Query,
    request: &Request,
    time: Time<'_>,
) -> Result<Keys, SearchError> {
    let state = State::read(rows);
    let mut lookup = Lookup::new(rows, schema, &state, request, time.question());
    lookup.read(&query.root)?;
    let mut matcher = lookup.matcher(&query.root)?;
    let mut search = Search::new(rows, request, time, &state);
    let ids = search.ids(&mut matcher, &mut |_, _| {})?;
    let mut keys = Keys::default();
    search.in_order_of_keys(ids.as_deref(), &mut |_, key| keys.push(key))?;
    Ok(keys)
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

impl Request {
    /// Returns true if the request needs only the total.
    fn is_total_enough(&self) -> bool {
        self.count == 0 && self.keys.is_none() && self.clock.is_none()
    }

    /// Returns true if hits are ordered by score, and the request needs nothing of the other
    /// matches.
    fn is_by_score(&self) -> bool {
        let is_sorted = self.sort_by.is_some() || self.sort_by_distance.is_some();
        self.count > 0 && self.keys.is_none() && !is_sorted && !self.with_places && !self.explains_scores
    }
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
        let mut found = Found {
            total,
            hits: ranking.into_sorted().map(|candidate| candidate.hit).collect(),
            steps: Step::of(&matcher),
        };
        self.scoring.finish(&mut found.hits, best);
        Ok(found)
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
                let mut of_hit = Vec::new();
                matcher.add_places(id, &mut of_hit);
                count += of_hit.len();
                places.insert(id, of_hit);
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
        let mut found: Vec<(f64, Vec<u8>, DocumentId)> = Vec::new();
        for (score, id) in best.better {
            if self.is_over()? {
                break;
            }
            found.push((score, self.key(id), id));
        }
        let first = self.first_by_key(&ids, best.wanted)?;
        found.extend(first.into_iter().map(|(key, id)| (last, key, id)));
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let hits = found.into_iter().skip(self.request.offset);
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
                && let Some(found) = self.first_in_order(ids, count)?
            {
                return Ok(found);
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
        let (mut found, mut left) = (Vec::new(), ids.len() as u64 * KEYS_READ_AT_ONCE);
        let start = key_row(b"");
        self.rows.scan(&start, &after(&start), &mut |key, row| {
            let id = id_of_value(row);
            if ids.binary_search(&id).is_ok() {
                found.push((key[1..].to_vec(), id));
            }
            left -= 1;
            match left > 0 && found.len() < count {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        self.is_over()?;
        Ok((found.len() == count).then_some(found))
    }

    fn best(&self) -> Best<Candidate> {
        Best::new(self.request.offset, self.request.count)
    }

    fn order(&self) -> Order {
        let by_distance = self.request.sort_by_distance.as_ref().map(|(_, ascends)| *ascends);
        match self.request.sort_by.map(|(_, ascends)| ascends).or(by_distance) {
            Some(ascends) => Order::Value { ascends },
            None => Order::Score,
        }
    }

    fn candidate(&self, mut hit: Hit) -> Candidate {
        if let Some((name, _)) = &self.request.sort_by_distance {
            let of_range = hit.range_distances.iter().find(|(known, _)| known == name);
            let distance = of_range.map(|(_, distance)| *distance).or(hit.distance);
            hit.sorted_by = distance.map(Sortable::Number);
        }
        let order = self.order();
        Candidate { order, hit }
    }

    /// The hit at `id`; None if the request is limited to other keys.
    fn hit(&mut self, matcher: &Matcher, id: DocumentId) -> Option<Hit> {
        let (request, scoring, mut found) = (self.request, &self.scoring, None);
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
            found = Some((key, score, explanation, sorted_by));
        });
        assert!(is_there, "a posting leads to its document");
        let (key, score, explanation, sorted_by) = found?;
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
