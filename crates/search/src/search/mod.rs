//! The documents that a query matches, at the snapshot that the rows show.
//!
//! The answer depends on the rows' documents alone: not on how far they are settled, nor on the
//! order in which they came. Hits are ordered by score (or by a value, or by distance), and those
//! that are equal by key.

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

pub use affixes::EXPANSIONS_MAX;
pub(crate) use matcher::IdRows;
pub use matcher::Place;
pub use scoring::{Revision, Scorer, hamming};
pub use spelling::{Correction, Spelling, corrections};
pub use watch::{Clock, Step};

use crate::document::{DocumentRow, Sortable};
use crate::index::State;
use crate::layout::{DocumentId, document_row};
use crate::query::Query;
use crate::rows::Rows;
use crate::search::lookup::Lookup;
use crate::search::matcher::Matcher;
use crate::search::ranking::{Candidate, Ranking};
use crate::search::scoring::Scoring;
use crate::{Schema, SearchError};

/// Most hits that a request may skip and take.
pub const HITS_MAX: usize = 1_000_000;

/// After how many candidates a search asks whether it has to end.
const CANDIDATES_BETWEEN_CHECKS: u64 = 256;

/// The part of a query's matches to return, and its order.
#[derive(Clone, Debug)]
pub struct Request {
    /// How many of the best are skipped.
    pub offset: usize,
    /// How many are wanted. None may be: then only the total is found.
    pub count: usize,
    /// How scores are computed.
    pub scorer: Scorer,
    /// The SORTABLE field whose values order the hits instead of scores, and whether they ascend.
    pub sort_by: Option<(u16, bool)>,
    /// The name of the distance that orders the hits, and whether it ascends.
    pub sort_by_distance: Option<(String, bool)>,
    /// How many other words may stand between those of an intersection that says nothing itself.
    pub slop: Option<u32>,
    /// Words of every intersection stand in their order.
    pub in_order: bool,
    /// Only these keys are looked at.
    pub keys: Option<Vec<Vec<u8>>>,
    /// Hits tell where the query's words stand in them.
    pub with_places: bool,
    /// Hits tell how their scores came about.
    pub explains_scores: bool,
    /// Steps are counted, and timed by this clock.
    pub clock: Option<Clock>,
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
            keys: None,
            with_places: false,
            explains_scores: false,
            clock: None,
        }
    }
}

/// A document that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Its id in the index.
    pub id: DocumentId,
    /// Its key.
    pub key: Vec<u8>,
    /// How well it matches.
    pub score: f64,
    /// How far its vector is, if nearness was asked for.
    pub distance: Option<f64>,
    /// How far its vectors are for ranges, by the names that the query gives them.
    pub range_distances: Vec<(String, f64)>,
    /// The value that it was sorted by.
    pub sorted_by: Option<Sortable>,
    /// Where the query's words stand, if that was asked for.
    pub places: Vec<Place>,
    /// How the score came about, if that was asked for.
    pub explanation: Option<Explanation>,
}

/// A part of a score, and the parts that it is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// The worth of the part, and why.
    pub text: String,
    /// Its parts.
    pub parts: Vec<Explanation>,
}

/// The answer to a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// How many documents match. Exact.
    pub total: u64,
    /// Those that were asked for, the best first.
    pub hits: Vec<Hit>,
    /// The steps that found them, if a clock was given.
    pub steps: Option<Step>,
}

/// Finds the matches of a query. `is_over` is asked from time to time whether the search has taken
/// too long.
pub fn search(
    rows: &mut dyn Rows,
    schema: &Schema,
    query: &Query,
    request: &Request,
    is_over: &dyn Fn() -> bool,
) -> Result<Found, SearchError> {
    if request.offset.max(request.count) > HITS_MAX {
        return Err(SearchError::Limit(format!("LIMIT exceeds maximum of {HITS_MAX}")));
    }
    let state = State::read(rows);
    let mut lookup = Lookup::new(rows, schema, &state, request, is_over);
    lookup.read(&query.root)?;
    let matcher = lookup.matcher(&query.root)?;
    let mut search = Search {
        rows,
        request,
        is_over,
        scoring: Scoring::new(request.scorer, &state),
        checked: 0,
    };
    match &query.nearest {
        None => search.ranked(matcher),
        Some(nearest) => search.watched_nearest(schema, nearest, matcher),
    }
}

struct Search<'s> {
    rows: &'s mut dyn Rows,
    request: &'s Request,
    is_over: &'s dyn Fn() -> bool,
    scoring: Scoring,
    checked: u64,
}

impl Search<'_> {
    fn ranked(&mut self, mut matcher: Matcher) -> Result<Found, SearchError> {
        let mut ranking = self.ranking();
        let is_total_enough = self.request.count == 0 && self.request.keys.is_none();
        let (mut total, mut best, mut from) = (0, 0.0_f64, 1);
        while let Some(id) = matcher.seek(self.rows, from) {
            from = id + 1;
            self.check()?;
            if is_total_enough {
                total += 1;
                continue;
            }
            if let Some(hit) = self.hit(&matcher, id) {
                total += 1;
                best = best.max(hit.score);
                ranking.add(self.candidate(hit));
            }
        }
        let mut found = Found {
            total,
            hits: ranking.into_hits(),
            steps: Step::of(&matcher),
        };
        self.scoring.finish(&mut found.hits, best);
        Ok(found)
    }

    fn ranking(&self) -> Ranking {
        let request = self.request;
        let by_distance = request.sort_by_distance.as_ref().map(|(_, ascends)| *ascends);
        let ascends = request.sort_by.map(|(_, ascends)| ascends).or(by_distance);
        Ranking::new(request.offset, request.count, ascends.unwrap_or(false))
    }

    fn is_sorted(&self) -> bool {
        self.request.sort_by.is_some() || self.request.sort_by_distance.is_some()
    }

    fn candidate(&self, mut hit: Hit) -> Candidate {
        if let Some((name, _)) = &self.request.sort_by_distance {
            let of_range = hit.range_distances.iter().find(|(known, _)| known == name);
            let distance = of_range.map(|(_, distance)| *distance).or(hit.distance);
            hit.sorted_by = distance.map(Sortable::Number);
        }
        let is_sorted = self.is_sorted();
        Candidate { is_sorted, hit }
    }

    /// The hit at `id`; nothing if only other keys are asked for.
    fn hit(&mut self, matcher: &Matcher, id: DocumentId) -> Option<Hit> {
        let (request, scoring, mut found) = (self.request, &self.scoring, None);
        let is_there = self.rows.show(&document_row(id), &mut |row| {
            let mut document = DocumentRow::read(row);
            let keys = request.keys.as_ref();
            if keys.is_some_and(|keys| !keys.iter().any(|key| key == document.key)) {
                return;
            }
            let score = scoring.score(matcher, &document);
            let explanation = request.explains_scores.then(|| scoring.explain(matcher, &document));
            let key = document.key.to_vec();
            let sorted_by = request.sort_by.and_then(|(field, _)| {
                document.terms(|_, _| {});
                document.sortable(field)
            });
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
            id,
            key,
            score,
            distance: None,
            range_distances,
            sorted_by,
            places,
            explanation,
        })
    }

    fn check(&mut self) -> Result<(), SearchError> {
        self.checked += 1;
        match self.checked.is_multiple_of(CANDIDATES_BETWEEN_CHECKS) && (self.is_over)() {
            true => Err(SearchError::Timeout),
            false => Ok(()),
        }
    }
}
