//! The graph of a set's vectors (HNSW): each node is linked to some that are near it, on a lowest
//! level that has all and on higher ones that have a quarter of the one below.
//!
//! A link leads both ways, as in Redis, so that a graph can go there and come back (DUMP, RDB). A
//! node that has all the links it may have gives up one to a node that is well linked elsewhere,
//! before it takes another. Levels come from a hash and everything else from the rows, so equal
//! commands make equal graphs.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};

use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Head;
use super::codes;
use super::filter::Filter;
use super::rows::{Id, Levels, attributes_row, links_row, read_level, read_levels, vector_row, write_levels};
use crate::{Rows, WriteRows};

/// Most levels above the lowest, as in Redis.
pub(super) const LEVELS_MAX: usize = 16;

/// Nodes, and vectors, that a walk keeps, apart from those that it changes.
const KEPT_MAX: usize = 16_384;

/// A node with its distance. Equally far ones stand in the order of ids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Near {
    pub distance: f32,
    pub id: Id,
}

impl Eq for Near {}

impl Ord for Near {
    fn cmp(&self, other: &Near) -> Ordering {
        let by_distance = self.distance.total_cmp(&other.distance);
        by_distance.then_with(|| self.id.cmp(&other.id))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Near) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The nearest nodes that were found, at most `count_max`.
pub(super) struct Nearest {
    count_max: usize,
    found: BinaryHeap<Near>,
}

impl Nearest {
    pub fn new(count_max: usize) -> Nearest {
        Nearest {
            count_max,
            found: BinaryHeap::new(),
        }
    }

    /// A node that is no nearer than this would not be kept.
    fn bound(&self) -> Option<&Near> {
        if self.found.len() < self.count_max {
            None
        } else {
            self.found.peek()
        }
    }

    pub fn has_room_for(&self, near: &Near) -> bool {
        self.bound().is_none_or(|bound| near < bound)
    }

    pub fn add(&mut self, near: Near) {
        if self.has_room_for(&near) {
            self.found.push(near);
            if self.found.len() > self.count_max {
                self.found.pop();
            }
        }
    }

    /// The nearest first.
    pub fn sorted(self) -> Vec<Near> {
        self.found.into_sorted_vec()
    }
}

/// The nodes that a search may find: all, or those whose attributes meet a condition, as far as
/// they are met while this many nodes are looked at.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'f> {
    All,
    Passing { filter: &'f Filter, looked_at_max: u64 },
}

/// The level of a new node: each level has a quarter of the nodes of the one below.
pub(super) fn level_of(id: Id, element: &[u8]) -> usize {
    let hash = xxh3_64_with_seed(element, id);
    (hash.trailing_zeros() as usize / 2).min(LEVELS_MAX)
}

/// Returns true if an element's attributes meet a condition.
pub(super) fn passes(rows: &mut dyn Rows, filter: &Filter, id: Id) -> bool {
    let mut passes = false;
    rows.show(&attributes_row(id), &mut |attributes| {
        passes = filter.passes(attributes)
    });
    passes
}

/// A walk through a graph: nodes as they are read, and as they change.
pub(super) struct Graph<'r> {
    rows: &'r mut dyn Rows,
    head: Head,
    nodes: FxHashMap<Id, Levels>,
    /// Rows of vectors, while the graph is changed.
    vectors: FxHashMap<Id, Vec<u8>>,
    keeps_vectors: bool,
    changed: BTreeSet<Id>,
}

impl<'r> Graph<'r> {
    pub fn new(rows: &'r mut dyn Rows, head: Head) -> Graph<'r> {
        Graph {
            rows,
            head,
            nodes: FxHashMap::default(),
            vectors: FxHashMap::default(),
            keeps_vectors: false,
            changed: BTreeSet::new(),
        }
    }

    /// One that is to be changed.
    pub fn to_change(rows: &'r mut dyn Rows, head: Head) -> Graph<'r> {
        Graph {
            keeps_vectors: true,
            ..Graph::new(rows, head)
        }
    }

    /// The rows of the nodes that have changed. None: the node is gone.
    pub fn changes(self) -> Vec<(Id, Option<Vec<u8>>)> {
        let row = |id: Id| (id, self.nodes.get(&id).map(write_levels));
        self.changed.iter().map(|id| row(*id)).collect()
    }

    /// The nodes nearest to a vector in a set that has some, the nearest first.
    pub fn nearest(&mut self, vector: &[u8], count: usize, wanted: Wanted<'_>) -> Vec<Near> {
        let entry = self.descend(vector, 0);
        self.search(vector, &[entry], 0, count, wanted)
    }

    fn near(&mut self, vector: &[u8], id: Id) -> Near {
        let (quantization, dimensions) = (self.head.quantization, self.head.dimensions);
        if let Some(kept) = self.vectors.get(&id) {
            let distance = codes::distance(quantization, dimensions, vector, kept);
            return Near { distance, id };
        }
        let (mut distance, mut kept) = (f32::INFINITY, None);
        let keeps = self.keeps_vectors;
        self.rows.show(&vector_row(id), &mut |row| {
            distance = codes::distance(quantization, dimensions, vector, row);
            kept = keeps.then(|| row.to_vec());
        });
        if let Some(kept) = kept {
            if self.vectors.len() >= KEPT_MAX {
                self.vectors.clear();
            }
            self.vectors.insert(id, kept);
        }
        Near { distance, id }
    }

    /// Takes a vector's row out of those that are kept, or reads it.
    fn vector(&mut self, id: Id) -> Vec<u8> {
        let kept = self.vectors.remove(&id);
        kept.unwrap_or_else(|| self.rows.get(&vector_row(id)).expect("a node has a vector"))
    }

    fn between(&mut self, one: Id, other: Id) -> f32 {
        let row = self.vector(one);
        let near = self.near(&row, other);
        self.vectors.insert(one, row);
        near.distance
    }

    fn levels(&mut self, id: Id) -> &mut Levels {
        if self.nodes.len() >= KEPT_MAX {
            self.nodes.retain(|id, _| self.changed.contains(id));
        }
        let rows = &mut self.rows;
        let read = || {
            let mut levels = Levels::new();
            rows.show(&links_row(id), &mut |row| levels = read_levels(row));
            levels
        };
        self.nodes.entry(id).or_insert_with(read)
    }

    fn links(&mut self, id: Id, level: usize) -> Vec<Id> {
        if self.keeps_vectors {
            return self.levels(id).get(level).cloned().unwrap_or_default();
        }
        let mut links = Vec::new();
        self.rows
            .show(&links_row(id), &mut |row| links = read_level(row, level));
        links
    }

    fn degree(&mut self, id: Id, level: usize) -> usize {
        self.levels(id).get(level).map_or(0, Vec::len)
    }

    /// The level of a node.
    pub fn level(&mut self, id: Id) -> usize {
        self.levels(id).len().saturating_sub(1)
    }

    /// The nearest node of the level above `level`, as far as steps to nearer ones lead.
    fn descend(&mut self, vector: &[u8], level: usize) -> Near {
        let entry = self.head.entry;
        let mut near = self.near(vector, entry);
        for upper in (level + 1..=self.level(entry)).rev() {
            loop {
                let others = self.links(near.id, upper);
                let best = others.into_iter().map(|id| self.near(vector, id)).min();
                match best {
                    Some(best) if best < near => near = best,
                    _ => break,
                }
            }
        }
        near
    }

    /// The nearest nodes of a level, the nearest first, found from the entries.
    fn search(&mut self, vector: &[u8], entries: &[Near], level: usize, count: usize, wanted: Wanted<'_>) -> Vec<Near> {
        let mut seen: FxHashSet<Id> = FxHashSet::default();
        let mut candidates = BinaryHeap::new();
        let mut found = Nearest::new(count);
        for entry in entries.iter().filter(|entry| seen.insert(entry.id)) {
            candidates.push(Reverse(*entry));
            if self.is_wanted(entry.id, wanted) {
                found.add(*entry);
            }
        }
        let mut looked_at = 1;
        while let Some(Reverse(nearest)) = candidates.pop() {
            let is_enough = matches!(wanted, Wanted::Passing { looked_at_max, .. } if looked_at >= looked_at_max);
            if is_enough || !found.has_room_for(&nearest) && found.bound() != Some(&nearest) {
                break;
            }
            looked_at += 1;
            for id in self.links(nearest.id, level) {
                if !seen.insert(id) {
                    continue;
                }
                let near = self.near(vector, id);
                if found.has_room_for(&near) {
                    candidates.push(Reverse(near));
                    if self.is_wanted(id, wanted) {
                        found.add(near);
                    }
                }
            }
        }
        found.sorted()
    }

    fn is_wanted(&mut self, id: Id, wanted: Wanted<'_>) -> bool {
        match wanted {
            Wanted::All => true,
            Wanted::Passing { filter, .. } => passes(self.rows, filter, id),
        }
    }

    /// Takes in a node whose vector has its row already. Returns where the graph begins.
    pub fn insert(&mut self, id: Id, level: usize, effort: usize) -> Id {
        self.nodes.insert(id, vec![Vec::new(); level + 1]);
        self.changed.insert(id);
        if self.head.entry == 0 {
            return id;
        }
        let vector = self.rows.get(&vector_row(id)).expect("a node has a vector");
        let top = self.level(self.head.entry);
        let mut entries = vec![self.descend(&vector, level)];
        for level in (0..=level.min(top)).rev() {
            entries = self.search(&vector, &entries, level, effort, Wanted::All);
            self.connect(id, &entries, level);
        }
        if level > top { id } else { self.head.entry }
    }

    fn links_max(&self, level: usize) -> usize {
        if level == 0 {
            self.head.links * 2
        } else {
            self.head.links
        }
    }

    fn link(&mut self, one: Id, other: Id, level: usize) {
        for (from, to) in [(one, other), (other, one)] {
            self.levels(from)[level].push(to);
            self.changed.insert(from);
        }
    }

    fn unlink(&mut self, one: Id, other: Id, level: usize) {
        for (from, to) in [(one, other), (other, one)] {
            self.levels(from)[level].retain(|id| *id != to);
            self.changed.insert(from);
        }
    }

    /// Links a node with candidates, the nearest first: first in different directions, then, if
    /// that leaves it with few links, with whatever is near, at the cost of others.
    fn connect(&mut self, id: Id, candidates: &[Near], level: usize) {
        let links = self.head.links;
        for (urgency, wanted) in [(0, links), (1, links / 2), (2, links / 4)] {
            for near in candidates {
                if self.degree(id, level) >= wanted {
                    break;
                }
                let own = self.links(id, level);
                if near.id == id || own.contains(&near.id) {
                    continue;
                }
                let is_hidden = urgency == 0 && own.iter().any(|other| self.between(*other, near.id) < near.distance);
                if !is_hidden && self.has_place(near, level, urgency) {
                    self.link(id, near.id, level);
                }
            }
        }
        // Nobody stays alone.
        if self.degree(id, level) == 0 {
            let others: Vec<Id> = candidates
                .iter()
                .map(|near| near.id)
                .filter(|other| *other != id)
                .collect();
            if let Some(other) = others.into_iter().min_by_key(|other| self.degree(*other, level)) {
                self.link(id, other, level);
            }
        }
    }

    /// Makes room for one more link of a node. False if it keeps those that it has.
    fn has_place(&mut self, near: &Near, level: usize, urgency: u8) -> bool {
        let max = self.links_max(level);
        let others = self.links(near.id, level);
        if others.len() < max {
            return true;
        }
        let least = self.head.links / if urgency == 0 { 2 } else { 4 };
        let mut farthest: Option<Near> = None;
        for other in others.iter().copied().filter(|other| *other != near.id) {
            if self.degree(other, level) <= least {
                continue;
            }
            let distance = self.between(near.id, other);
            let is_farther = urgency > 0 || distance > near.distance;
            let candidate = Near { distance, id: other };
            if is_farther && farthest.is_none_or(|farthest| candidate > farthest) {
                farthest = Some(candidate);
            }
        }
        match farthest {
            Some(farthest) => {
                self.unlink(near.id, farthest.id, level);
                true
            }
            None => urgency == 2 && others.len() < max + self.head.links,
        }
    }

    /// Takes a node out, and links what was linked through it. Returns where the graph begins.
    pub fn remove(&mut self, id: Id) -> Id {
        let levels = self.levels(id).clone();
        for (level, links) in levels.iter().enumerate() {
            links.iter().for_each(|other| self.unlink(id, *other, level));
        }
        let entry = match id == self.head.entry {
            true => self.next_entry(&levels, id),
            false => self.head.entry,
        };
        self.nodes.remove(&id);
        self.changed.insert(id);
        self.head.entry = entry;
        for (level, links) in levels.iter().enumerate() {
            self.mend(links, level);
        }
        // Mending reads no row of this node, as nothing leads to it.
        self.nodes.remove(&id);
        entry
    }

    /// The highest of the nodes around one that goes, those of its highest level first.
    fn next_entry(&mut self, levels: &Levels, gone: Id) -> Id {
        for links in levels.iter().rev() {
            let highest = links
                .iter()
                .copied()
                .max_by_key(|other| (self.level(*other), Reverse(*other)));
            if let Some(highest) = highest {
                return highest;
            }
        }
        // It stood alone, so others do so too: any of them.
        let mut first = 0;
        super::rows::each_vector(self.rows, &mut |id, _| {
            if id != gone && first == 0 {
                first = id;
            }
        });
        first
    }

    /// Links nodes that have lost a neighbour with each other, the nearest first, and those that
    /// have few links left with others.
    fn mend(&mut self, nodes: &[Id], level: usize) {
        let max = self.links_max(level);
        let mut pairs = Vec::new();
        for (at, one) in nodes.iter().enumerate() {
            let own = self.links(*one, level);
            for other in nodes[at + 1..].iter().filter(|other| !own.contains(other)) {
                pairs.push((self.between(*one, *other), *one, *other));
            }
        }
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
        let mut linked: FxHashSet<Id> = FxHashSet::default();
        for (_, one, other) in pairs {
            let is_free = !linked.contains(&one) && !linked.contains(&other);
            if is_free && self.degree(one, level) < max && self.degree(other, level) < max {
                self.link(one, other, level);
                linked.extend([one, other]);
            }
        }
        if self.head.entry == 0 || self.level(self.head.entry) < level {
            return;
        }
        for id in nodes {
            if !linked.contains(id) && self.degree(*id, level) <= self.head.links / 2 {
                let vector = self.vector(*id);
                let entry = self.descend(&vector, level);
                let near = self.search(&vector, &[entry], level, self.links_max(level), Wanted::All);
                self.vectors.insert(*id, vector);
                self.connect(*id, &near, level);
            }
        }
    }
}

/// Writes the nodes that have changed.
pub(super) fn write(rows: &mut dyn WriteRows, changes: Vec<(Id, Option<Vec<u8>>)>) {
    for (id, row) in changes {
        match row {
            Some(row) => rows.set(&links_row(id), &row),
            None => rows.clear(&links_row(id)),
        }
    }
}
