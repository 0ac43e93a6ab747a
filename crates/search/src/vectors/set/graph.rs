//! The graph of a set's vectors (HNSW): each node is linked to some near nodes, on a lowest level
//! that has all nodes and on higher levels that have a quarter of the level below.
//!
//! A link leads both ways, as in Redis, so that a graph can be transferred there and back (DUMP,
//! RDB). A node at its maximum of links drops a link to a node that has enough other links before
//! it takes another. Levels are derived from a hash and everything else from the rows, so equal
//! commands make equal graphs.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::filter::Filter;
use super::rows::{
    Id, Levels, NODES, VECTORS, attributes_row, count_levels, count_links, links_row, read_level, read_levels,
    vector_row, write_levels,
};
use super::{Head, codec};
use crate::error::SearchError;
use crate::rows::{Rows, WriteRows};
use crate::vectors::hnsw::walk::{self, LevelSearch, Limits, Nodes};

/// A node with its distance.
pub(super) type Near = walk::Near<Id>;

/// Most levels above the lowest, as in Redis.
pub(super) const LEVELS_MAX: usize = 16;

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

    fn clear(&mut self) {
        self.bits.clear();
        self.others.clear();
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
    seen: Seen,
}

impl<'r> Graph<'r> {
    pub fn new(rows: &'r mut dyn Rows, head: Head) -> Graph<'r> {
        Graph {
            rows,
            head,
            changed: FxHashMap::default(),
            seen: Seen::default(),
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
        self.changed_levels(id).clone()
    }

    /// The entry of the graph.
    pub fn entry(&self) -> Id {
        self.head.entry
    }

    /// The nodes nearest to a vector in a set that has some, the nearest first.
    pub fn nearest(&mut self, vector: &[u8], count: usize, wanted: Wanted<'_>) -> Vec<Near> {
        let entry = self.descend(vector, 0);
        self.search(vector, &[entry], &LevelSearch { level: 0, count }, wanted)
    }

    fn between(&self, first: &[u8], other: &[u8]) -> f64 {
        codec::distance(self.head.quantization, self.head.dimensions, first, other).into()
    }

    fn vector(&mut self, id: Id) -> Vec<u8> {
        self.rows.get(&vector_row(id)).expect("a node has a vector")
    }

    /// The levels of a node, to be changed.
    fn changed_levels(&mut self, id: Id) -> &mut Levels {
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
        self.add_links(id, level, &mut links);
        links
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
        self.levels(id).saturating_sub(1)
    }

    /// The nearest node of the level above `level`, as far as steps to nearer nodes lead.
    fn descend(&mut self, vector: &[u8], level: usize) -> Near {
        walk::descend(self, vector, self.head.entry, level)
    }

    /// The nearest nodes of a level, the nearest first, found from the entries.
    fn search(&mut self, vector: &[u8], entries: &[Near], search: &LevelSearch, mut wanted: Wanted<'_>) -> Vec<Near> {
        let nearest = search.run(self, vector, entries, &mut wanted);
        nearest.expect("a search of a set has no deadline")
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
            let search = LevelSearch { level, count: effort };
            entries = self.search(&vector, &entries, &search, Wanted::All);
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

    fn link(&mut self, node: Id, other: Id, level: usize) {
        for (from, to) in [(node, other), (other, node)] {
            self.changed_levels(from)[level].push(to);
        }
    }

    fn unlink(&mut self, node: Id, other: Id, level: usize) {
        for (from, to) in [(node, other), (other, node)] {
            self.changed_levels(from)[level].retain(|id| *id != to);
        }
    }

    /// Links a node with candidates, the nearest first: first in different directions, then, if it
    /// still has few links, with any near nodes, at the cost of other links.
    fn connect(&mut self, id: Id, candidates: &[Near], level: usize) {
        let links = self.head.links;
        let mut own = self.links(id, level);
        let mut own_vectors: Vec<Vec<u8>> = own.iter().map(|other| self.vector(*other)).collect();
        let mut vector = Vec::new();
        for (urgency, link_count) in [(0, links), (1, links / 2), (2, links / 4)] {
            for near in candidates {
                if own.len() >= link_count {
                    break;
                }
                if near.id == id || own.contains(&near.id) {
                    continue;
                }
                vector.clear();
                self.rows
                    .show_numbered(VECTORS, near.id, &mut |row| vector.extend_from_slice(row));
                let is_nearer = |other: &Vec<u8>| self.between(other, &vector) < near.distance;
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
            let linked: Vec<Id> = candidates
                .iter()
                .map(|near| near.id)
                .filter(|other| *other != id)
                .collect();
            if let Some(other) = linked.into_iter().min_by_key(|other| self.degree(*other, level)) {
                self.link(id, other, level);
            }
        }
    }

    /// Makes room for one more link of a node, whose vector is given. Returns false if the node
    /// keeps its links.
    fn has_place(&mut self, near: &Near, vector: &[u8], level: usize, urgency: u8) -> bool {
        let max = self.links_max(level);
        let linked = self.links(near.id, level);
        if linked.len() < max {
            return true;
        }
        let least = self.head.links / if urgency == 0 { 2 } else { 4 };
        let mut farthest: Option<Near> = None;
        for other in linked.iter().copied().filter(|other| *other != near.id) {
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
            None => urgency == 2 && linked.len() < max + self.head.links,
        }
    }

    /// Removes a node and links its neighbours. Returns the entry of the graph.
    pub fn remove(&mut self, id: Id) -> Id {
        let levels = self.changed_levels(id).clone();
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
    fn next_entry(&mut self, levels: &Levels, removed: Id) -> Id {
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
            if id != removed && first == 0 && !head.waits(id) {
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
        for (at, node) in nodes.iter().enumerate() {
            let (own, vector) = (self.links(*node, level), self.vector(*node));
            for other in nodes[at + 1..].iter().filter(|other| !own.contains(other)) {
                pairs.push((self.near(&vector, *other).distance, *node, *other));
            }
        }
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
        let mut linked: FxHashSet<Id> = FxHashSet::default();
        for (_, node, other) in pairs {
            let is_free = !linked.contains(&node) && !linked.contains(&other);
            if is_free && self.degree(node, level) < max && self.degree(other, level) < max {
                self.link(node, other, level);
                linked.extend([node, other]);
            }
        }
        if self.head.entry == 0 || self.level(self.head.entry) < level {
            return;
        }
        for id in nodes {
            if !linked.contains(id) && self.degree(*id, level) <= self.head.links / 2 {
                let vector = self.vector(*id);
                let entry = self.descend(&vector, level);
                let search = LevelSearch {
                    level,
                    count: self.links_max(level),
                };
                let near = self.search(&vector, &[entry], &search, Wanted::All);
                self.connect(*id, &near, level);
            }
        }
    }
}

impl Nodes for Graph<'_> {
    type Id = Id;
    type Query = [u8];

    fn levels(&mut self, id: Id) -> usize {
        if let Some(levels) = self.changed.get(&id) {
            return levels.as_ref().map_or(0, Vec::len);
        }
        let mut levels = 0;
        self.rows
            .show_numbered(NODES, id, &mut |row| levels = count_levels(row));
        levels
    }

    fn add_links(&mut self, id: Id, level: usize, links: &mut Vec<Id>) {
        match self.changed.get(&id) {
            Some(levels) => links.extend(levels.iter().filter_map(|levels| levels.get(level)).flatten()),
            None => {
                _ = self
                    .rows
                    .show_numbered(NODES, id, &mut |row| read_level(row, level, links))
            }
        }
    }

    #[inline]
    fn distance(&mut self, vector: &[u8], id: Id) -> f64 {
        let (quantization, dimensions) = (self.head.quantization, self.head.dimensions);
        let mut distance = f32::INFINITY;
        self.rows.show_numbered(VECTORS, id, &mut |row| {
            distance = codec::distance(quantization, dimensions, vector, row);
        });
        distance.into()
    }

    #[inline]
    fn fetch_point(&mut self, id: Id) {
        self.rows.fetch_numbered(VECTORS, id, self.head.code_bytes());
    }

    #[inline]
    fn see(&mut self, id: Id) -> bool {
        self.seen.add(id)
    }

    fn forget_seen(&mut self) {
        self.seen.clear();
    }
}

impl Limits<Graph<'_>> for Wanted<'_> {
    #[inline]
    fn accepts(&mut self, graph: &mut Graph<'_>, id: Id) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Passing { filter, .. } => passes(graph.rows, filter, id),
        }
    }

    fn is_over(&mut self, visited: usize) -> Result<bool, SearchError> {
        Ok(match self {
            Wanted::All => false,
            Wanted::Passing { looked_at_max, .. } => visited as u64 >= *looked_at_max,
        })
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
