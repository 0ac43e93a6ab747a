//! A walk through a graph of near vectors (HNSW): down its levels to a near node, and on one level
//! from near nodes to nearer ones.
//!
//! Malkov and Yashunin, <https://arxiv.org/abs/1603.09320>. A walk knows neither rows nor the form
//! of vectors: a graph is [`Nodes`].

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::hash::Hash;

use crate::error::SearchError;

/// Nodes that are fetched ahead of their comparison.
const FETCHED_AHEAD: usize = 4;

/// The nodes of a graph.
pub(crate) trait Nodes {
    /// Identifies a node. Equally distant nodes are in this order.
    type Id: Copy + Ord + Hash;
    /// A vector to compare nodes with.
    type Query: ?Sized;

    /// The number of a node's levels.
    fn levels(&mut self, id: Self::Id) -> usize;
    /// Adds the nodes to which a node has a link.
    fn add_links(&mut self, id: Self::Id, level: usize, links: &mut Vec<Self::Id>);
    fn distance(&mut self, query: &Self::Query, id: Self::Id) -> f64;
    /// A hint that the node's distance will soon be needed.
    fn fetch_point(&mut self, _id: Self::Id) {}
    /// A hint that the node's links on the lowest level will soon be needed.
    fn fetch_links(&mut self, _id: Self::Id) {}
    /// Returns true if the node was not seen since all were forgotten.
    fn see(&mut self, id: Self::Id) -> bool;
    fn forget_seen(&mut self);

    #[inline]
    fn near(&mut self, query: &Self::Query, id: Self::Id) -> Near<Self::Id> {
        let distance = self.distance(query, id);
        Near { distance, id }
    }
}

/// The nodes that a search returns, and its end.
pub(crate) trait Limits<N: Nodes> {
    /// Returns true if a node may be returned. Every node leads on.
    fn accepts(&mut self, nodes: &mut N, id: N::Id) -> bool;

    /// Called with the number of visited nodes. Returns true if the search must return the nodes
    /// so far.
    fn is_over(&mut self, visited: usize) -> Result<bool, SearchError>;
}

/// A node with its distance. Equally distant nodes are in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Near<Id> {
    pub distance: f64,
    pub id: Id,
}

impl<Id: Ord> Eq for Near<Id> {}

impl<Id: Ord> Ord for Near<Id> {
    #[inline]
    fn cmp(&self, other: &Near<Id>) -> Ordering {
        let order = self.distance.total_cmp(&other.distance);
        order.then_with(|| self.id.cmp(&other.id))
    }
}

impl<Id: Ord> PartialOrd for Near<Id> {
    #[inline]
    fn partial_cmp(&self, other: &Near<Id>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The nearest nodes of a search, at most `count_max`.
pub(crate) struct Nearest<Id> {
    count_max: usize,
    /// The farthest on top.
    kept: BinaryHeap<Near<Id>>,
}

impl<Id: Copy + Ord> Nearest<Id> {
    pub fn new(count_max: usize) -> Nearest<Id> {
        let heap = BinaryHeap::new();
        Nearest { count_max, kept: heap }
    }

    /// Returns true if a node is nearer than the farthest, or fewer than `count_max` are kept.
    #[inline]
    pub fn has_room_for(&self, near: &Near<Id>) -> bool {
        self.kept.len() < self.count_max || self.kept.peek().is_some_and(|farthest| near < farthest)
    }

    pub fn add(&mut self, near: Near<Id>) {
        if self.has_room_for(&near) {
            self.kept.push(near);
            if self.kept.len() > self.count_max {
                self.kept.pop();
            }
        }
    }

    fn is_farthest(&self, near: &Near<Id>) -> bool {
        self.kept.peek() == Some(near)
    }

    /// The nearest first.
    pub fn into_sorted(self) -> Vec<Near<Id>> {
        self.kept.into_sorted_vec()
    }
}

/// The node of the level above `level` that is nearest, as far as steps to nearer nodes lead from
/// `first`.
pub(crate) fn descend<N: Nodes>(nodes: &mut N, query: &N::Query, first: N::Id, level: usize) -> Near<N::Id> {
    let mut near = nodes.near(query, first);
    let mut links = Vec::new();
    for upper in (level + 1..nodes.levels(first)).rev() {
        loop {
            links.clear();
            nodes.add_links(near.id, upper, &mut links);
            match links.iter().map(|id| nodes.near(query, *id)).min() {
                Some(other) if other < near => near = other,
                _ => break,
            }
        }
    }
    near
}

/// A search on one level.
pub(crate) struct LevelSearch {
    /// Zero is the lowest.
    pub level: usize,
    /// The number of nodes that the search keeps, and returns.
    pub count: usize,
}

impl LevelSearch {
    /// The nearest nodes as far as links lead from the entries, the nearest first.
    pub fn run<N: Nodes>(
        &self,
        nodes: &mut N,
        query: &N::Query,
        entries: &[Near<N::Id>],
        limits: &mut impl Limits<N>,
    ) -> Result<Vec<Near<N::Id>>, SearchError> {
        let (mut nearest, mut links) = (Nearest::new(self.count), Vec::new());
        let mut candidates = BinaryHeap::new();
        nodes.forget_seen();
        for near in entries {
            nodes.see(near.id);
            candidates.push(Reverse(*near));
            if limits.accepts(nodes, near.id) {
                nearest.add(*near);
            }
        }
        let mut visited = 0;
        while let Some(Reverse(candidate)) = candidates.pop() {
            visited += 1;
            let is_far = !nearest.has_room_for(&candidate) && !nearest.is_farthest(&candidate);
            if is_far || limits.is_over(visited)? {
                break;
            }
            links.clear();
            nodes.add_links(candidate.id, self.level, &mut links);
            links.retain(|id| nodes.see(*id));
            links.iter().take(FETCHED_AHEAD).for_each(|id| nodes.fetch_point(*id));
            for (at, id) in links.iter().enumerate() {
                if let Some(later) = links.get(at + FETCHED_AHEAD) {
                    nodes.fetch_point(*later);
                }
                let near = nodes.near(query, *id);
                if nearest.has_room_for(&near) {
                    candidates.push(Reverse(near));
                    if limits.accepts(nodes, *id) {
                        nearest.add(near);
                    }
                }
            }
            if let Some(Reverse(next)) = candidates.peek() {
                nodes.fetch_links(next.id);
            }
        }
        Ok(nearest.into_sorted())
    }
}
