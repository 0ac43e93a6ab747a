//! The best of many candidates, without keeping the others.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that is better or worse than others.
pub trait Rank {
    /// Less if `self` is the better of the two.
    fn rank(&self, other: &Self) -> Ordering;
}

/// Compares by values; candidates without a value are last in both directions.
pub(crate) fn by_value<V>(
    a: Option<&V>,
    b: Option<&V>,
    ascends: bool,
    compare: impl FnOnce(&V, &V) -> Ordering,
) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if ascends => compare(a, b),
        (Some(a), Some(b)) => compare(b, a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

/// Keeps the best `offset + count` candidates.
pub struct Best<T> {
    offset: usize,
    kept_max: usize,
    /// The worst on top.
    kept: BinaryHeap<Ranked<T>>,
}

impl<T: Rank> Best<T> {
    /// Keeps none if `count` is zero.
    pub fn new(offset: usize, count: usize) -> Best<T> {
        Best {
            offset,
            kept_max: if count == 0 { 0 } else { offset + count },
            kept: BinaryHeap::new(),
        }
    }

    /// Adds a candidate, unless enough better candidates are kept.
    pub fn add(&mut self, candidate: T) {
        let ranked = Ranked(candidate);
        if self.kept.len() < self.kept_max {
            self.kept.push(ranked);
        } else if let Some(mut worst) = self.kept.peek_mut()
            && ranked < *worst
        {
            *worst = ranked;
        }
    }

    /// The kept items, in any order.
    pub fn kept(&self) -> impl Iterator<Item = &T> {
        self.kept.iter().map(|ranked| &ranked.0)
    }

    /// The worst kept item, once the wanted number is kept.
    pub fn worst(&self) -> Option<&T> {
        let is_full = self.kept.len() >= self.kept_max;
        self.kept.peek().filter(|_| is_full).map(|ranked| &ranked.0)
    }

    /// The best first, without the first `offset`.
    pub fn into_sorted(self) -> impl Iterator<Item = T> {
        let sorted = self.kept.into_sorted_vec().into_iter();
        sorted.skip(self.offset).map(|ranked| ranked.0)
    }
}

/// Smaller is better.
struct Ranked<T>(T);

impl<T: Rank> Ord for Ranked<T> {
    fn cmp(&self, other: &Ranked<T>) -> Ordering {
        self.0.rank(&other.0)
    }
}

impl<T: Rank> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Ranked<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Rank> PartialEq for Ranked<T> {
    fn eq(&self, other: &Ranked<T>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T: Rank> Eq for Ranked<T> {}
