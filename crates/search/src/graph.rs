//! A graph of near vectors as rows (HNSW): each vector is linked to some that are near it, on a
//! lowest level that has all and on higher ones that each have fewer.
//!
//! ```text
//! 'h' field       first node (8 bytes), last id that was taken in (8 bytes); both zero if there is none
//! 'u' field id    a node, for each of its levels: count and ids of links, then of nodes that
//!                 link to it without a link back
//! 'y' field id    a node whose document is gone; its vector stays until the node is taken out
//! ```
//!
//! Vectors are taken in and out later than their documents, many at a time ([`settle`]). A search
//! compares those that are not taken in yet one by one, and passes over the documents that are
//! gone. The graph depends on the order of ids alone: a node's level comes from a hash of its id.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::ControlFlow;

use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_64;

use crate::layout::{Cursor, DocumentId, after, field_prefix, gone_node_row, graph_row, id_of};
use crate::layout::{node_row, push_number, vector_row, with_id};
use crate::rows::{Rows, WriteRows};
use crate::schema::FieldKind;
use crate::vectors::{Graph, QueryVector, VectorKind};
use crate::{Schema, SearchError};

/// Most levels above the lowest.
const LEVELS_MAX: usize = 16;

/// More vectors than these are not kept while a graph is built.
const VECTORS_KEPT_MAX: usize = 16_384;

/// After how many nodes a walk asks whether it has to end.
const NODES_BETWEEN_CHECKS: usize = 64;

/// A node with its distance. Equally far ones stand in the order of ids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Near {
    pub distance: f64,
    pub id: DocumentId,
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

/// Where a graph begins, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// A node of the highest level; zero if there is no node.
    pub first: DocumentId,
    /// Vectors of documents up to this one are in the graph.
    pub reached: DocumentId,
}

impl Head {
    pub fn read(rows: &mut dyn Rows, field: u16) -> Head {
        let Some(row) = rows.get(&graph_row(field)) else {
            return Head::default();
        };
        let mut cursor = Cursor(&row);
        Head {
            first: cursor.fixed(),
            reached: cursor.fixed(),
        }
    }

    fn write(self, rows: &mut dyn WriteRows, field: u16) {
        let numbers = [self.first, self.reached];
        rows.set(&graph_row(field), &numbers.map(u64::to_be_bytes).concat());
    }
}

/// The nodes of documents that are gone, ascending, at most `count_max`.
pub(crate) fn gone_nodes(rows: &mut dyn Rows, field: u16, count_max: usize) -> BTreeSet<DocumentId> {
    ids_between(rows, &field_prefix(b'y', field), 0, count_max)
}

fn ids_between(rows: &mut dyn Rows, prefix: &[u8], from: DocumentId, count_max: usize) -> BTreeSet<DocumentId> {
    let mut ids = BTreeSet::new();
    if count_max == 0 {
        return ids;
    }
    let start = with_id(prefix.to_vec(), from);
    rows.scan(&start, &after(prefix), &mut |key, _| {
        ids.insert(id_of(key));
        match ids.len() < count_max {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    ids
}

/// Notes that a vector's document goes. Returns true if the vector stays for now, as a graph has
/// it.
pub(crate) fn leave(rows: &mut dyn WriteRows, field: u16, id: DocumentId) -> bool {
    let is_in_graph = id <= Head::read(rows, field).reached;
    if is_in_graph {
        rows.set(&gone_node_row(field, id), b"");
    }
    is_in_graph
}

/// Takes the vectors of documents that are gone out of the graphs, and others in, the oldest
/// first: at most `count_max` of both for each field. Returns true if there is more to do.
pub fn settle(rows: &mut dyn WriteRows, schema: &Schema, count_max: usize) -> bool {
    let mut is_more = false;
    for (field, of_schema) in schema.fields() {
        if let FieldKind::Vector(kind) = &of_schema.kind
            && let Some(graph) = kind.graph()
        {
            is_more |= settle_field(rows, field, (kind, graph), count_max);
        }
    }
    is_more
}

/// How many vectors wait to be taken into the graphs or out of them. A search compares each of the
/// former.
pub fn waiting(rows: &mut dyn Rows, schema: &Schema) -> u64 {
    let mut waiting = 0;
    for (field, of_schema) in schema.fields() {
        if matches!(&of_schema.kind, FieldKind::Vector(kind) if kind.graph().is_some()) {
            let (vectors, gone) = (field_prefix(b'v', field), field_prefix(b'y', field));
            let next = vector_row(field, Head::read(rows, field).reached + 1);
            waiting += rows.count(&next, &after(&vectors)) + rows.count(&gone, &after(&gone));
        }
    }
    waiting
}

fn settle_field(rows: &mut dyn WriteRows, field: u16, (kind, graph): (&VectorKind, &Graph), count_max: usize) -> bool {
    let head = Head::read(rows, field);
    let removed = gone_nodes(rows, field, count_max);
    let added = ids_between(
        rows,
        &field_prefix(b'v', field),
        head.reached + 1,
        count_max - removed.len(),
    );
    if removed.is_empty() && added.is_empty() {
        return false;
    }
    let mut walk = Walk::to_change(rows, field, kind);
    let mut first = head.first;
    for id in &removed {
        first = walk.take_out(*id, first);
    }
    for id in &added {
        first = walk.take_in(*id, first, graph);
    }
    let changed = std::mem::take(&mut walk.changed);
    let nodes = std::mem::take(&mut walk.nodes);
    for id in changed {
        match nodes.get(&id) {
            Some(node) => rows.set(&node_row(field, id), &node.to_row()),
            None => rows.clear(&node_row(field, id)),
        }
    }
    for id in &removed {
        rows.clear(&gone_node_row(field, *id));
        rows.clear(&vector_row(field, *id));
    }
    let reached = added.last().copied().unwrap_or(head.reached);
    Head { first, reached }.write(rows, field);
    removed.len() + added.len() == count_max
}

/// Whether every vector up to the last that was taken in has its node, and links lead to nodes that
/// know of them. Holds the links of all nodes meanwhile.
pub(crate) fn is_sound(rows: &mut dyn Rows, field: u16, last_id: DocumentId) -> bool {
    let head = Head::read(rows, field);
    let mut nodes = FxHashMap::default();
    let prefix = field_prefix(b'u', field);
    rows.scan(&prefix, &after(&prefix), &mut |key, row| {
        nodes.insert(id_of(key), Node::read(row));
        ControlFlow::Continue(())
    });
    let all = |rows: &mut dyn Rows, tag| ids_between(rows, &field_prefix(tag, field), 0, usize::MAX);
    let mut vectors = all(rows, b'v');
    vectors.retain(|id| *id <= head.reached);
    let gone = all(rows, b'y');
    let top = nodes.values().map(|node| node.0.len()).max().unwrap_or_default();
    let begins = match nodes.get(&head.first) {
        None => head.first == 0 && nodes.is_empty(),
        Some(first) => first.0.len() == top,
    };
    begins
        && head.reached <= last_id
        && vectors.len() == nodes.len()
        && vectors.iter().all(|id| nodes.contains_key(id))
        && gone.iter().all(|id| nodes.contains_key(id))
        && nodes.iter().all(|(id, node)| has_sound_links(&nodes, *id, node))
}

fn has_sound_links(nodes: &FxHashMap<DocumentId, Node>, id: DocumentId, node: &Node) -> bool {
    let is_sound = |(level, links): (usize, &Links)| {
        let of = |other: &DocumentId| nodes.get(other).and_then(|node| node.0.get(level));
        let is_known = |other: &Links| other.to.contains(&id) || other.from.contains(&id);
        links.to.iter().all(|other| of(other).is_some_and(is_known))
            && links
                .from
                .iter()
                .all(|other| of(other).is_some_and(|other| other.to.contains(&id)))
    };
    !node.0.is_empty() && node.0.iter().enumerate().all(is_sound)
}

/// The links of a node on one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Links {
    /// To which nodes.
    to: Vec<DocumentId>,
    /// From which nodes to which there is none.
    from: Vec<DocumentId>,
}

/// A vector's links, the lowest level first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node(Vec<Links>);

impl Node {
    fn level(&self) -> usize {
        self.0.len() - 1
    }

    fn to_row(&self) -> Vec<u8> {
        let mut row = Vec::new();
        for links in &self.0 {
            for ids in [&links.to, &links.from] {
                push_number(&mut row, ids.len() as u128);
                ids.iter().for_each(|id| push_number(&mut row, (*id).into()));
            }
        }
        row
    }

    /// Adds the links to others that a row has on one level.
    fn read_links(row: &[u8], level: usize, links: &mut Vec<DocumentId>) {
        let mut cursor = Cursor(row);
        // Links to others and from others stand in turn.
        for _ in 0..2 * level {
            (0..cursor.number()).for_each(|_| _ = cursor.number());
        }
        links.extend((0..cursor.number()).map(|_| cursor.number() as DocumentId));
    }

    fn read(row: &[u8]) -> Node {
        let mut cursor = Cursor(row);
        let mut levels = Vec::new();
        while !cursor.is_at_end() {
            let mut ids = || (0..cursor.number()).map(|_| cursor.number() as DocumentId).collect();
            levels.push(Links { to: ids(), from: ids() });
        }
        Node(levels)
    }
}

/// The level of a node: each level has a share of `1 / links` of the one below.
fn level_of(id: DocumentId, links: usize) -> usize {
    let hash = xxh3_64(&id.to_be_bytes()) >> 11;
    let share = (hash as f64 + 1.0) / (1u64 << 53) as f64;
    let level = -share.ln() / (links.max(2) as f64).ln();
    (level as usize).min(LEVELS_MAX)
}

/// Nodes and vectors of a graph as they are read, and as they change while it is built.
pub(crate) struct Walk<'w> {
    rows: &'w mut dyn Rows,
    field: u16,
    kind: &'w VectorKind,
    nodes: FxHashMap<DocumentId, Node>,
    vectors: FxHashMap<DocumentId, Vec<u8>>,
    /// Nodes and vectors are kept: a search looks at each once, a change often.
    keeps: bool,
    changed: BTreeSet<DocumentId>,
    /// The key of a vector or of a node.
    vector_key: Vec<u8>,
    node_key: Vec<u8>,
}

impl<'w> Walk<'w> {
    pub fn new(rows: &'w mut dyn Rows, field: u16, kind: &'w VectorKind) -> Walk<'w> {
        Walk {
            rows,
            field,
            kind,
            nodes: FxHashMap::default(),
            vectors: FxHashMap::default(),
            keeps: false,
            changed: BTreeSet::new(),
            vector_key: vector_row(field, 0),
            node_key: node_row(field, 0),
        }
    }

    /// One that changes the graph.
    fn to_change(rows: &'w mut dyn Rows, field: u16, kind: &'w VectorKind) -> Walk<'w> {
        Walk {
            keeps: true,
            ..Walk::new(rows, field, kind)
        }
    }

    /// The nodes nearest to a vector, the nearest first: the best `count` of those that pass,
    /// among which the graph leads.
    pub fn nearest(
        &mut self,
        vector: &QueryVector,
        first: DocumentId,
        count: usize,
        passes: &dyn Fn(DocumentId) -> bool,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Vec<Near>, SearchError> {
        let near = self.descend(vector, first, 0);
        let mut search = LevelSearch::new(0, count, passes);
        search.run(self, vector, &[near], is_over)
    }

    /// The node of the level above `level` that is nearest, found from the first one.
    fn descend(&mut self, vector: &QueryVector, first: DocumentId, level: usize) -> Near {
        let mut near = self.near(vector, first);
        for upper in (level + 1..=self.node(first).level()).rev() {
            loop {
                let mut links = Vec::new();
                self.add_links(near.id, upper, &mut links);
                let others = links.into_iter().map(|id| self.near(vector, id));
                match others.min() {
                    Some(other) if other < near => near = other,
                    _ => break,
                }
            }
        }
        near
    }

    fn near(&mut self, vector: &QueryVector, id: DocumentId) -> Near {
        if self.keeps {
            let distance = vector.least_distance(self.vector(id));
            return Near { distance, id };
        }
        let mut distance = f64::INFINITY;
        set_id(&mut self.vector_key, id);
        let is_there = self.rows.show(&self.vector_key, &mut |stored| {
            distance = vector.least_distance(stored);
        });
        assert!(is_there, "a node has a vector");
        Near { distance, id }
    }

    /// Adds the nodes to which a node has a link.
    fn add_links(&mut self, id: DocumentId, level: usize, links: &mut Vec<DocumentId>) {
        if self.keeps {
            return links.extend(&self.node(id).0[level].to);
        }
        set_id(&mut self.node_key, id);
        let is_there = self
            .rows
            .show(&self.node_key, &mut |row| Node::read_links(row, level, links));
        assert!(is_there, "a link leads to a node");
    }

    fn vector(&mut self, id: DocumentId) -> &[u8] {
        if self.vectors.len() >= VECTORS_KEPT_MAX {
            self.vectors.clear();
        }
        let (rows, field) = (&mut self.rows, self.field);
        let read = || rows.get(&vector_row(field, id)).expect("a node has a vector");
        self.vectors.entry(id).or_insert_with(read)
    }

    /// A document's first vector, to be compared with others. Those with several are near to what
    /// is near to the first.
    fn compared(&mut self, id: DocumentId) -> QueryVector {
        let kind = self.kind;
        let stored = self.vector(id);
        kind.compared(&stored[..kind.bytes()])
    }

    fn node(&mut self, id: DocumentId) -> &mut Node {
        let (rows, field) = (&mut self.rows, self.field);
        let read = || Node::read(&rows.get(&node_row(field, id)).expect("a link leads to a node"));
        self.nodes.entry(id).or_insert_with(read)
    }

    fn changed_links(&mut self, id: DocumentId, level: usize) -> &mut Links {
        self.changed.insert(id);
        &mut self.node(id).0[level]
    }

    fn link(&mut self, from: DocumentId, to: DocumentId, level: usize) {
        let links = self.changed_links(from, level);
        if links.to.contains(&to) {
            return;
        }
        links.to.push(to);
        let is_mutual = links.from.contains(&to);
        links.from.retain(|id| *id != to);
        if !is_mutual {
            self.changed_links(to, level).from.push(from);
        }
    }

    fn unlink(&mut self, from: DocumentId, to: DocumentId, level: usize) {
        self.changed_links(from, level).to.retain(|id| *id != to);
        let back = self.changed_links(to, level);
        let is_mutual = back.to.contains(&from);
        back.from.retain(|id| *id != from);
        if is_mutual {
            self.changed_links(from, level).from.push(to);
        }
    }

    /// Takes a vector into the graph. Returns the first node.
    fn take_in(&mut self, id: DocumentId, first: DocumentId, graph: &Graph) -> DocumentId {
        let level = level_of(id, graph.links);
        let node = Node(vec![Links::default(); level + 1]);
        self.nodes.insert(id, node);
        self.changed.insert(id);
        if first == 0 {
            return id;
        }
        let vector = self.compared(id);
        let top = self.node(first).level();
        let mut entries = vec![self.descend(&vector, first, level)];
        for level in (0..=level.min(top)).rev() {
            let mut search = LevelSearch::new(level, graph.build_candidates.max(graph.links), &|_| true);
            let found = search.run(self, &vector, &entries, &|| false);
            entries = found.expect("building does not end early");
            let near: Vec<Near> = entries.iter().copied().filter(|near| near.id != id).collect();
            for neighbour in self.chosen(&near, graph.links) {
                self.link(id, neighbour, level);
                self.link(neighbour, id, level);
                self.bound(neighbour, level, links_max(graph.links, level));
            }
        }
        if level > top { id } else { first }
    }

    /// Those of the candidates, in the order of their distance, that are nearer to the vector than
    /// to any that was chosen: so links lead into different directions.
    fn chosen(&mut self, candidates: &[Near], count: usize) -> Vec<DocumentId> {
        let mut chosen: Vec<(DocumentId, QueryVector)> = Vec::new();
        let mut passed_over = Vec::new();
        for near in candidates {
            if chosen.len() >= count {
                break;
            }
            let stored = self.vector(near.id);
            let is_hidden = chosen
                .iter()
                .any(|(_, other)| other.least_distance(stored) < near.distance);
            match is_hidden {
                true => passed_over.push(near.id),
                false => chosen.push((near.id, self.compared(near.id))),
            }
        }
        let mut ids: Vec<_> = chosen.into_iter().map(|(id, _)| id).collect();
        let missing = count.saturating_sub(ids.len()).min(passed_over.len());
        ids.extend(&passed_over[..missing]);
        ids
    }

    /// Removes links of a node that has too many.
    fn bound(&mut self, id: DocumentId, level: usize, count: usize) {
        let links = self.node(id).0[level].to.clone();
        if links.len() <= count {
            return;
        }
        let vector = self.compared(id);
        let mut near: Vec<_> = links.iter().map(|other| self.near(&vector, *other)).collect();
        near.sort();
        let kept: FxHashSet<_> = self.chosen(&near, count).into_iter().collect();
        for other in links.into_iter().filter(|other| !kept.contains(other)) {
            self.unlink(id, other, level);
        }
    }

    /// Takes a node out of the graph, and links what was linked through it. Returns the first node.
    fn take_out(&mut self, id: DocumentId, first: DocumentId) -> DocumentId {
        let levels = self.node(id).0.clone();
        let mut next_first = None;
        for (level, links) in levels.iter().enumerate().rev() {
            let around: Vec<_> = links.to.iter().chain(&links.from).copied().collect();
            next_first = next_first.or(around.first().copied());
            let sources = around.iter().copied().filter(|other| self.has_link(*other, id, level));
            let sources: Vec<_> = sources.collect();
            for source in sources {
                self.unlink(source, id, level);
                self.replace(source, &around, level);
            }
            for target in &links.to {
                self.unlink(id, *target, level);
            }
            for target in &links.to {
                self.keep_reachable(*target, level);
            }
        }
        self.nodes.remove(&id);
        self.vectors.remove(&id);
        self.changed.insert(id);
        if first == id { next_first.unwrap_or(0) } else { first }
    }

    fn has_link(&mut self, from: DocumentId, to: DocumentId, level: usize) -> bool {
        self.node(from).0[level].to.contains(&to)
    }

    /// Gives a node a link instead of one it lost: to the nearest of some that no link of it hides.
    fn replace(&mut self, id: DocumentId, around: &[DocumentId], level: usize) {
        let links = self.node(id).0[level].to.clone();
        let vector = self.compared(id);
        let others = around.iter().filter(|other| **other != id && !links.contains(other));
        let mut near: Vec<_> = others.map(|other| self.near(&vector, *other)).collect();
        near.sort();
        let of_links: Vec<_> = links.iter().map(|link| self.compared(*link)).collect();
        let visible = near.iter().find(|near| {
            let stored = self.vector(near.id);
            !of_links.iter().any(|link| link.least_distance(stored) < near.distance)
        });
        if let Some(other) = visible.or(near.first()) {
            self.link(id, other.id, level);
        }
    }

    /// Links a node that nothing leads to from the nearest of its own links.
    fn keep_reachable(&mut self, id: DocumentId, level: usize) {
        let links = self.node(id).0[level].clone();
        let is_reachable = !links.from.is_empty() || links.to.iter().any(|other| self.has_link(*other, id, level));
        if is_reachable {
            return;
        }
        let vector = self.compared(id);
        let near = links.to.iter().map(|other| self.near(&vector, *other)).min();
        if let Some(near) = near {
            self.link(near.id, id, level);
        }
    }
}

/// Gives a key another id at its end.
fn set_id(key: &mut [u8], id: DocumentId) {
    *key.last_chunk_mut().expect("the key ends with an id") = id.to_be_bytes();
}

fn links_max(links: usize, level: usize) -> usize {
    if level == 0 { 2 * links } else { links }
}

/// A search on one level, from some nodes on to what is nearer.
struct LevelSearch<'s> {
    level: usize,
    count: usize,
    passes: &'s dyn Fn(DocumentId) -> bool,
    /// The farthest on top.
    best: BinaryHeap<Near>,
}

impl<'s> LevelSearch<'s> {
    fn new(level: usize, count: usize, passes: &'s dyn Fn(DocumentId) -> bool) -> LevelSearch<'s> {
        LevelSearch {
            level,
            count,
            passes,
            best: BinaryHeap::new(),
        }
    }

    fn is_near(&self, near: Near) -> bool {
        self.best.len() < self.count || self.best.peek().is_some_and(|farthest| near < *farthest)
    }

    fn add(&mut self, near: Near) {
        if (self.passes)(near.id) {
            self.best.push(near);
            if self.best.len() > self.count {
                self.best.pop();
            }
        }
    }

    fn run(
        &mut self,
        walk: &mut Walk<'_>,
        vector: &QueryVector,
        entries: &[Near],
        is_over: &dyn Fn() -> bool,
    ) -> Result<Vec<Near>, SearchError> {
        let mut links = Vec::new();
        let mut seen: FxHashSet<DocumentId> = entries.iter().map(|near| near.id).collect();
        let mut candidates: BinaryHeap<Reverse<Near>> = entries.iter().copied().map(Reverse).collect();
        entries.iter().for_each(|near| self.add(*near));
        let mut visited: usize = 0;
        while let Some(Reverse(candidate)) = candidates.pop() {
            if !self.is_near(candidate) && !self.best.iter().any(|near| near.id == candidate.id) {
                break;
            }
            visited += 1;
            if visited.is_multiple_of(NODES_BETWEEN_CHECKS) && is_over() {
                return Err(SearchError::Timeout);
            }
            links.clear();
            walk.add_links(candidate.id, self.level, &mut links);
            for id in links.iter().filter(|id| seen.insert(**id)) {
                let near = walk.near(vector, *id);
                if self.is_near(near) {
                    candidates.push(Reverse(near));
                    self.add(near);
                }
            }
        }
        Ok(std::mem::take(&mut self.best).into_sorted_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::query::{Expander, Parameters, parse};
    use crate::search::{Request, search};
    use crate::vectors::{Component, Metric};
    use crate::{Document, Field, MemoryRows, Time, index};

    const DIMENSIONS: usize = 16;
    const COUNT: u64 = 250;

    fn kind(with_graph: bool) -> VectorKind {
        let kind = VectorKind::new(Component::Float32, DIMENSIONS, Metric::L2).unwrap();
        match with_graph {
            true => kind.with_graph(Graph::default()),
            false => kind,
        }
    }

    fn schema(with_graph: bool) -> Schema {
        Schema::new(vec![Field::new("v", FieldKind::Vector(kind(with_graph)))]).unwrap()
    }

    /// Components from -1 to 1, around one of eight places if there are clusters.
    fn vector(seed: u64, is_clustered: bool) -> Vec<u8> {
        let number = |seed: u64, at: usize| {
            let hash = xxh3_64(&[seed.to_be_bytes(), at.to_be_bytes()].concat());
            (hash >> 40) as f32 / (1u32 << 23) as f32 - 1.0
        };
        let component = |at| match is_clustered {
            true => number(seed % 8, at) + 0.2 * number(seed + 100, at),
            false => number(seed, at),
        };
        (0..DIMENSIONS).flat_map(|at| component(at).to_le_bytes()).collect()
    }

    fn put(rows: &mut MemoryRows, key: u64, vector: &[u8]) {
        let document = Document::new(&schema(true), &key.to_be_bytes(), |_| Some(vector.to_vec()));
        index::put(rows, &document.unwrap());
    }

    fn nearest(rows: &mut MemoryRows, schema: &Schema, vector: &[u8]) -> Vec<Vec<u8>> {
        let parameters: Parameters = [("q".to_owned(), vector.to_vec())].into();
        let query = parse(schema, b"*=>[KNN 10 @v $q]", &parameters, Expander::All).unwrap();
        let found = search(rows, schema, &query, &Request::default(), Time::until(&|| false)).unwrap();
        found.hits.into_iter().map(|hit| hit.key).collect()
    }

    /// The share of the ten nearest that a search of the graph finds.
    fn recall(rows: &mut MemoryRows, is_clustered: bool) -> f64 {
        let mut found = 0;
        for query in 0..50 {
            let vector = vector(1_000_000 + query, is_clustered);
            let exact = nearest(rows, &schema(false), &vector);
            assert_eq!(exact.len(), 10);
            let near = nearest(rows, &schema(true), &vector);
            found += near.iter().filter(|key| exact.contains(key)).count();
        }
        found as f64 / 500.0
    }

    /// Each link is known at its other end, and leads to a vector.
    fn check_links(rows: &mut MemoryRows) {
        let ids = ids_between(rows, &field_prefix(b'u', 0), 0, usize::MAX);
        let mut nodes = HashMap::new();
        for id in ids {
            nodes.insert(id, Node::read(&rows.get(&node_row(0, id)).unwrap()));
            assert!(rows.get(&vector_row(0, id)).is_some());
        }
        for (id, node) in &nodes {
            for (level, links) in node.0.iter().enumerate() {
                for to in &links.to {
                    let back = &nodes[to].0[level];
                    assert_ne!(to, id);
                    assert!(back.to.contains(id) != back.from.contains(id), "{id} to {to}");
                }
                for from in &links.from {
                    assert!(nodes[from].0[level].to.contains(id) && !links.to.contains(from));
                }
            }
        }
    }

    #[test]
    fn the_nearest_are_found_after_everything_was_replaced_ten_times() {
        for is_clustered in [false, true] {
            let mut rows = MemoryRows::default();
            for round in 0..=10 {
                for key in 0..COUNT {
                    put(&mut rows, key, &vector(round * COUNT + key, is_clustered));
                }
                while settle(&mut rows, &schema(true), 100) {}
            }
            check_links(&mut rows);
            let recall = recall(&mut rows, is_clustered);
            assert!(recall >= 0.95, "{recall}");
        }
    }

    #[test]
    fn vectors_that_are_not_taken_in_or_are_gone_do_not_show() {
        let mut rows = MemoryRows::default();
        for key in 0..COUNT {
            put(&mut rows, key, &vector(key, false));
            if key % 50 == 30 {
                settle(&mut rows, &schema(true), 20);
            }
        }
        for key in (0..COUNT).step_by(3) {
            assert!(index::remove(&mut rows, &key.to_be_bytes()));
        }
        assert!(recall(&mut rows, false) >= 0.95);
        assert!(waiting(&mut rows, &schema(true)) > COUNT / 3);
        while settle(&mut rows, &schema(true), 7) {}
        assert_eq!(waiting(&mut rows, &schema(true)), 0);
        check_links(&mut rows);
        assert!(recall(&mut rows, false) >= 0.95);
    }

    #[test]
    fn a_graph_of_no_vectors_is_one_row() {
        let mut rows = MemoryRows::default();
        (0..COUNT).for_each(|key| put(&mut rows, key, &vector(key, true)));
        while settle(&mut rows, &schema(true), 100) {}
        (0..COUNT).for_each(|key| assert!(index::remove(&mut rows, &key.to_be_bytes())));
        while settle(&mut rows, &schema(true), 100) {}
        while index::settle(&mut rows, 100) {}
        assert_eq!(rows.len(), 2, "the counts of the index and the head of the graph");
        assert_eq!(Head::read(&mut rows, 0).first, 0);
        put(&mut rows, 1, &vector(1, true));
        assert!(!settle(&mut rows, &schema(true), 100));
        assert_eq!(
            nearest(&mut rows, &schema(true), &vector(2, true)),
            [1u64.to_be_bytes()]
        );
    }
}
