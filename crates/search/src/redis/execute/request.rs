//! Requests of searches, and lists of keys.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::redis::execute::scorer::Scorer;
use crate::redis::execute::watch::Clock;
use crate::vectors::flat::Codes;

/// Most hits that a request may skip and take.
pub const HITS_MAX: usize = 1_000_000;

/// Documents that are looked up together: a batch takes little longer than a single read, and keeps
/// a disk busy.
pub(super) const DOCUMENTS_AT_ONCE: usize = 256;

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

impl Request {
    /// Returns true if the request needs only the total.
    pub(super) fn is_total_enough(&self) -> bool {
        self.count == 0 && self.keys.is_none() && self.clock.is_none()
    }

    /// Returns true if hits are ordered by score, and the request needs nothing of the other
    /// matches.
    pub(super) fn is_by_score(&self) -> bool {
        let is_sorted = self.sort_by.is_some() || self.sort_by_distance.is_some();
        self.count > 0 && self.keys.is_none() && !is_sorted && !self.with_places && !self.explains_scores
    }
}

/// Keys, one after the other: many of them take little room.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    pub(super) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// The keys in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}
