//! The graph of a set's vectors (HNSW): each node is linked to some near nodes, on a lowest level
//! that has all nodes and on higher levels that have a quarter of the level below.
//!
//! A link leads both ways, as in Redis, so that a graph can be transferred there and back (DUMP,
//! RDB). A node at its maximum of links drops a link to a node that has enough other links before
//! it takes another. Levels are derived from a hash and everything else from the rows, so equal
//! commands make equal graphs.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Head;
use super::codes;
use super::filter::Filter;
use super::rows::{
    Id, Levels, NODES, VECTORS, attributes_row, count_levels, count_links, links_row, read_level, read_levels,
    vector_row, write_levels,
};
use crate::{Rows, WriteRows};

/// Most levels above the lowest, as in Redis.
pub(super) const LEVELS_MAX: usize = 16;

/// Vectors that are fetched ahead of the comparison.
const FETCHED_AHEAD: usize = 2;

/// A node with its distance. Equally distant nodes are in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Near {
    pub distance: f32,
    pub id: Id,
}

impl Eq for Near {}

impl Ord for Near {
    #[inline]
    fn cmp(&self, other: &Near) -> Ordering {
        let by_distance = self.distance.total_cmp(&other.distance);
        by_distance.then_with(|| self.id.cmp(&other.id))
    }
}

impl PartialOrd for Near {
    #[inline]
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

/// The nodes that a search has seen.
#[derive(Default)]
struct Seen {
    /// A bit for each id below [`BITS_MAX`].
    bits: Vec<u64>,
    others: FxHashSet<Id>,
}

const BITS_MAX: u64 = 1 << 20;

impl Seen {
    /// Returns true if it was not among them.
    #[inline]
    fn add(&mut self, id: Id) -> bool {
        if id >= BITS_MAX {
            return self.others.insert(id);
        }
        let (at, bit) = (id as usize / 64, 1 << (id % 64));
        if at >= self.bits.len() {
            self.bits.resize((at + 1).next_power_of_two(), 0);
        }
        let is_new = self.bits[at] & bit == 0;
        self.bits[at] |= bit;
        is_new
    }
}

/// The nodes that a search may return: all, or nodes whose attributes pass a filter, among at most
/// this many examined nodes.
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

/// Returns true if an element's attributes pass a filter.
pub(super) fn passes(rows: &mut dyn Rows, filter: &Filter, id: Id) -> bool {
    let mut passes = false;
    rows.show(&attributes_row(id), &mut |attributes| {
        passes = filter.passes(attributes)
    });
    passes
}

/// A walk through a graph, and what it changes.
pub(super) struct Graph<'r> {
    rows: &'r mut dyn Rows,
    head: Head,
    /// Changed nodes; `None` after a removal.
    changed: FxHashMap<Id, Option<Levels>>,
}

impl<'r> Graph<'r> {
    pub fn new(rows: &'r mut dyn Rows, head: Head) -> Graph<'r> {
        Graph {
            rows,
            head,
            changed: FxHashMap::default(),
        }
    }

    /// The rows of the changed nodes, by id. None: the node was removed.
    pub fn changes(self) -> Vec<(Id, Option<Vec<u8>>)> {
        let row = |(id, levels): (Id, Option<Levels>)| (id, levels.as_ref().map(write_levels));
        let mut changes: Vec<_> = self.changed.into_iter().map(row).collect();
        changes.sort_unstable_by_key(|(id, _)| *id);
        changes
    }

    /// The links of one node, the lowest level first.
    pub fn into_levels(mut self, id: Id) -> Levels {
        self.levels(id).clone()
    }

    /// The entry of the graph.
    pub fn entry(&self) -> Id {
        self.head.entry
    }

    /// The nodes nearest to a vector in a set that has some, the nearest first.
    pub fn nearest(&mut self, vector: &[u8], count: usize, wanted: Wanted<'_>) -> Vec<Near> {
        let entry = self.descend(vector, 0);
        self.search(vector, &[entry], 0, count, wanted)
    }

    fn distance(&self, one: &[u8], other: &[u8]) -> f32 {
        codes::distance(self.head.quantization, self.head.dimensions, one, other)
    }

    fn near(&mut self, vector: &[u8], id: Id) -> Near {
        let (quantization, dimensions) = (self.head.quantization, self.head.dimensions);
        let mut distance = f32::INFINITY;
        self.rows.show_numbered(VECTORS, id, &mut |row| {
            distance = codes::distance(quantization, dimensions, vector, row);
        });
        Near { distance, id }
    }

    fn vector(&mut self, id: Id) -> Vec<u8> {
        self.rows.get(&vector_row(id)).expect("a node has a vector")
    }

    /// The levels of a node, to be changed.
    fn levels(&mut self, id: Id) -> &mut Levels {
        let rows = &mut self.rows;
        let read = || {
            let mut levels = Levels::new();
            rows.show_numbered(NODES, id, &mut |row| levels = read_levels(row));
            Some(levels)
        };
        let levels = self.changed.entry(id).or_insert_with(read);
        levels.as_mut().expect("no link leads to a node that is gone")
    }

    fn links(&mut self, id: Id, level: usize) -> Vec<Id> {
        let mut links = Vec::new();
        self.read_links(id, level, &mut links);
        links
    }

    /// Adds the links of a node on a level to a list.
    fn read_links(&mut self, id: Id, level: usize, links: &mut Vec<Id>) {
        match self.changed.get(&id) {
            Some(levels) => links.extend(levels.iter().filter_map(|levels| levels.get(level)).flatten()),
            None => {
                _ = self
                    .rows
                    .show_numbered(NODES, id, &mut |row| read_level(row, level, links))
            }
        }
    }

    fn degree(&mut self, id: Id, level: usize) -> usize {
        if let Some(levels) = self.changed.get(&id) {
            let links = levels.as_ref().and_then(|levels| levels.get(level));
            return links.map_or(0, Vec::len);
        }
        let mut degree = 0;
        self.rows
            .show_numbered(NODES, id, &mut |row| degree = count_links(row, level));
        degree
    }

    /// The level of a node.
    pub fn level(&mut self, id: Id) -> usize {
        let mut levels = 0;
        match self.changed.get(&id) {
            Some(changed) => levels = changed.as_ref().map_or(0, Vec::len),
            None => {
                _ = self
                    .rows
                    .show_numbered(NODES, id, &mut |row| levels = count_levels(row))
            }
        }
        levels.saturating_sub(1)
    }

    /// The nearest node of the level above `level`, as far as steps to nearer nodes lead.
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
        let mut seen = Seen::default();
        let mut unseen = Vec::new();
        let mut candidates = BinaryHeap::new();
        let mut found = Nearest::new(count);
        for entry in entries.iter().filter(|entry| seen.add(entry.id)) {
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
            unseen.clear();
            self.read_links(nearest.id, level, &mut unseen);
            unseen.retain(|id| seen.add(*id));
            for (at, &id) in unseen.iter().enumerate() {
                if let Some(ahead) = unseen.get(at + FETCHED_AHEAD) {
                    self.rows.fetch_numbered(VECTORS, *ahead, vector.len());
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

    /// Inserts a node whose vector already has its row. Returns the entry of the graph.
    pub fn insert(&mut self, id: Id, level: usize, effort: usize) -> Id {
        self.changed.insert(id, Some(vec![Vec::new(); level + 1]));
        if self.head.entry == 0 {
            self.head.entry = id;
            return id;
        }
        let vector = self.vector(id);
        let top = self.level(self.head.entry);
        let mut entries = vec![self.descend(&vector, level)];
        for level in (0..=level.min(top)).rev() {
            entries = self.search(&vector, &entries, level, effort, Wanted::All);
            self.connect(id, &entries, level);
        }
        if level > top {
            self.head.entry = id;
        }
        self.head.entry
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
        }
    }

    fn unlink(&mut self, one: Id, other: Id, level: usize) {
        for (from, to) in [(one, other), (other, one)] {
            self.levels(from)[level].retain(|id| *id != to);
        }
    }

    /// Links a node with candidates, the nearest first: first in different directions, then, if it
    /// still has few links, with any near nodes, at the cost of other links.
    fn connect(&mut self, id: Id, candidates: &[Near], level: usize) {
        let links = self.head.links;
        let mut own = self.links(id, level);
        let mut own_vectors: Vec<Vec<u8>> = own.iter().map(|other| self.vector(*other)).collect();
        let mut vector = Vec::new();
        for (urgency, wanted) in [(0, links), (1, links / 2), (2, links / 4)] {
            for near in candidates {
                if own.len() >= wanted {
                    break;
                }
                if near.id == id || own.contains(&near.id) {
                    continue;
                }
                vector.clear();
                self.rows
                    .show_numbered(VECTORS, near.id, &mut |row| vector.extend_from_slice(row));
                let is_nearer = |other: &Vec<u8>| self.distance(other, &vector) < near.distance;
                let is_hidden = urgency == 0 && own_vectors.iter().any(is_nearer);
                if !is_hidden && self.has_place(near, &vector, level, urgency) {
                    self.link(id, near.id, level);
                    own.push(near.id);
                    own_vectors.push(vector.clone());
                }
            }
        }
        // No node remains without a link.
        if own.is_empty() {
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

    /// Makes room for one more link of a node, whose vector is given. Returns false if the node
    /// keeps its links.
    fn has_place(&mut self, near: &Near, vector: &[u8], level: usize, urgency: u8) -> bool {
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
            let candidate = self.near(vector, other);
            let is_farther = urgency > 0 || candidate.distance > near.distance;
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

    /// Removes a node and links its neighbours. Returns the entry of the graph.
    pub fn remove(&mut self, id: Id) -> Id {
        let levels = self.levels(id).clone();
        for (level, links) in levels.iter().enumerate() {
            links.iter().for_each(|other| self.unlink(id, *other, level));
        }
        let entry = match id == self.head.entry {
            true => self.next_entry(&levels, id),
            false => self.head.entry,
        };
        self.changed.insert(id, None);
        self.head.entry = entry;
        for (level, links) in levels.iter().enumerate() {
            self.mend(links, level);
        }
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
        // It had no links, so the others have none either: any of them will do.
        let mut first = 0;
        let head = self.head;
        super::rows::each_vector(self.rows, 0, &mut |id, _| {
            if id != gone && first == 0 && !head.waits(id) {
                first = id;
            }
        });
        first
    }

    /// Links nodes that have lost a neighbour with each other, the nearest first, and nodes with
    /// few remaining links with others.
    fn mend(&mut self, nodes: &[Id], level: usize) {
        let max = self.links_max(level);
        let mut pairs = Vec::new();
        for (at, one) in nodes.iter().enumerate() {
            let (own, vector) = (self.links(*one, level), self.vector(*one));
            for other in nodes[at + 1..].iter().filter(|other| !own.contains(other)) {
                pairs.push((self.near(&vector, *other).distance, *one, *other));
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
