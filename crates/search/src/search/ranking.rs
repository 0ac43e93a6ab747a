//! The best of many candidates, without keeping the others.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::document::Sortable;
use crate::search::Hit;

/// A match to be ranked.
pub(super) struct Candidate {
    /// By its value rather than its score.
    pub is_sorted: bool,
    pub hit: Hit,
}

/// Keeps the best `offset + count` candidates.
pub(super) struct Ranking {
    offset: usize,
    kept_max: usize,
    ascends: bool,
    /// The worst on top.
    kept: BinaryHeap<Ranked>,
}

impl Ranking {
    pub fn new(offset: usize, count: usize, ascends: bool) -> Ranking {
        let kept_max = if count == 0 { 0 } else { offset + count };
        Ranking {
            offset,
            kept_max,
            ascends,
            kept: BinaryHeap::new(),
        }
    }

    pub fn add(&mut self, candidate: Candidate) {
        let ranked = Ranked {
            ascends: self.ascends,
            candidate,
        };
        if self.kept.len() < self.kept_max {
            self.kept.push(ranked);
        } else if let Some(mut worst) = self.kept.peek_mut()
            && ranked < *worst
        {
            *worst = ranked;
        }
    }

    /// The best first.
    pub fn into_hits(self) -> Vec<Hit> {
        let kept = self.kept.into_sorted_vec().into_iter();
        kept.skip(self.offset).map(|ranked| ranked.candidate.hit).collect()
    }
}

/// Smaller is better.
struct Ranked {
    ascends: bool,
    candidate: Candidate,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> Ordering {
        let (a, b) = (&self.candidate.hit, &other.candidate.hit);
        let by_value = match self.candidate.is_sorted {
            true => by_value(a.sorted_by.as_ref(), b.sorted_by.as_ref(), self.ascends),
            false => b.score.total_cmp(&a.score),
        };
        by_value.then_with(|| a.key.cmp(&b.key))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// Documents without a value come last in both directions.
fn by_value(a: Option<&Sortable>, b: Option<&Sortable>, ascends: bool) -> Ordering {
    let (Some(a), Some(b)) = (a, b) else {
        return b.is_some().cmp(&a.is_some());
    };
    let order = match (a, b) {
        (Sortable::Number(a), Sortable::Number(b)) => a.total_cmp(b),
        (Sortable::Text(a), Sortable::Text(b)) => a.cmp(b),
        (Sortable::Number(_), Sortable::Text(_)) => Ordering::Less,
        (Sortable::Text(_), Sortable::Number(_)) => Ordering::Greater,
    };
    if ascends { order } else { order.reverse() }
}
