//! The graph of a field during a search, and during the insertion and removal of vectors.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::SearchError;
use crate::index::vector_kind::Graph;
use crate::rows::DocumentId;
use crate::vectors::flat::Candidates;
use crate::vectors::hnsw::nodes::{FieldNodes, ImageNodes, Links, Node};
use crate::vectors::hnsw::walk::{self, LevelSearch, Limits, Near, Nodes};
use crate::vectors::quantized::CodedQuery;
use crate::vectors::resident_graph::{Change, Slot};

/// Most levels above the lowest.
const LEVELS_MAX: usize = 16;

/// Number of nodes between two checks of the deadline.
const NODES_BETWEEN_CHECKS: usize = 64;

/// The aim of a walk.
pub(super) struct Wanted<'s> {
    pub query: &'s CodedQuery,
    pub first: DocumentId,
    /// The number of nodes.
    pub count: usize,
    /// Leads on, and is not looked for.
    pub gone: &'s BTreeSet<DocumentId>,
}

/// A graph during reads, and during the insertion and removal of vectors.
pub(super) struct WorkingGraph<N: FieldNodes> {
    pub nodes: N,
    /// Nodes that are there otherwise, or may soon be.
    pub changed: FxHashMap<N::Id, Node<N::Id>>,
    /// The nodes with changed rows, and the removed nodes.
    pub written: BTreeSet<N::Id>,
}

impl WorkingGraph<ImageNodes<'_>> {
    /// How the image changes.
    pub fn change(&mut self) -> Change {
        let links_of = |node: &Node<Slot>| node.0.iter().map(|links| links.to.clone()).collect();
        let nodes = self.written.iter();
        let nodes = nodes.map(|slot| (*slot, self.changed.get(slot).map(links_of).unwrap_or_default()));
        Change {
            nodes: nodes.collect(),
            added: std::mem::take(&mut self.nodes.added),
        }
    }
}

impl<N: FieldNodes> WorkingGraph<N> {
    pub fn new(nodes: N) -> WorkingGraph<N> {
        WorkingGraph {
            nodes,
            changed: FxHashMap::default(),
            written: BTreeSet::new(),
        }
    }

    /// The nodes nearest to a vector, with bounds of how far they are.
    pub fn nearest(
        &mut self,
        target: &Wanted<'_>,
        count: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Candidates, SearchError> {
        let mut candidates = Candidates::new(count);
        for near in self.nearest_nodes(target, is_over)? {
            let (least, greatest) = self.nodes.bounds(target.query, near.id);
            candidates.add(least, greatest, self.nodes.document(near.id));
        }
        Ok(candidates)
    }

    /// The documents of the nodes nearest to a vector, ascending.
    pub fn ids(&mut self, target: &Wanted<'_>, is_over: &dyn Fn() -> bool) -> Result<Vec<DocumentId>, SearchError> {
        let near = self.nearest_nodes(target, is_over)?;
        let mut ids: Vec<_> = near.iter().map(|near| self.nodes.document(near.id)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// The nodes nearest to a vector, the nearest first.
    fn nearest_nodes(
        &mut self,
        target: &Wanted<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Vec<Near<N::Id>>, SearchError> {
        let first = self.nodes.of_document(target.first);
        let entry = walk::descend(self, target.query, first, 0);
        let search = LevelSearch {
            level: 0,
            count: target.count,
        };
        let removed = target.gone;
        search.run(self, target.query, &[entry], &mut Present { gone: removed, is_over })
    }

    fn node(&mut self, id: N::Id) -> &mut Node<N::Id> {
        let nodes = &mut self.nodes;
        self.changed.entry(id).or_insert_with(|| nodes.node(id))
    }

    fn changed_links(&mut self, id: N::Id, level: usize) -> &mut Links<N::Id> {
        self.written.insert(id);
        &mut self.node(id).0[level]
    }

    fn link(&mut self, from: N::Id, to: N::Id, level: usize) {
        let document = self.nodes.document(to);
        let links = self.changed_links(from, level);
        if links.to.contains(&to) {
            return;
        }
        links.to.push(to);
        let is_mutual = links.from.contains(&document);
        links.from.retain(|id| *id != document);
        if !is_mutual {
            let document = self.nodes.document(from);
            self.changed_links(to, level).from.push(document);
        }
    }

    fn unlink(&mut self, from: N::Id, to: N::Id, level: usize) {
        let (document_from, document_to) = (self.nodes.document(from), self.nodes.document(to));
        self.changed_links(from, level).to.retain(|id| *id != to);
        let back = self.changed_links(to, level);
        let is_mutual = back.to.contains(&from);
        back.from.retain(|id| *id != document_from);
        if is_mutual {
            self.changed_links(from, level).from.push(document_to);
        }
    }

    /// Takes a vector into the graph. Returns the first node.
    pub fn take_in(&mut self, id: N::Id, first: Option<N::Id>, graph: &Graph) -> N::Id {
        let count = graph.links_made();
        let level = level_of(self.nodes.document(id), count);
        self.changed.insert(id, Node(vec![Links::default(); level + 1]));
        self.written.insert(id);
        let Some(first) = first else { return id };
        let query = self.nodes.compared(id);
        let top = self.levels(first) - 1;
        let mut entries = vec![walk::descend(self, &query, first, level)];
        for level in (0..=level.min(top)).rev() {
            let count = graph.build_candidates.max(count);
            let nearest = LevelSearch { level, count }.run(self, &query, &entries, &mut Present::all());
            entries = nearest.expect("building does not end early");
            let near: Vec<_> = entries.iter().copied().filter(|near| near.id != id).collect();
            for neighbour in self.chosen(&near, count) {
                self.link(id, neighbour, level);
                self.link(neighbour, id, level);
                self.bound(neighbour, level, links_max(count, level));
            }
        }
        if level > top { id } else { first }
    }

    /// Those of the candidates, in the order of their distance, that are nearer to the vector than
    /// to any that was chosen: so links lead into different directions.
    fn chosen(&mut self, candidates: &[Near<N::Id>], count: usize) -> Vec<N::Id> {
        let mut chosen: Vec<(N::Id, CodedQuery)> = Vec::new();
        let mut passed_over = Vec::new();
        for near in candidates {
            if chosen.len() >= count {
                break;
            }
            let is_hidden = chosen
                .iter()
                .any(|(_, other)| self.nodes.distance(other, near.id) < near.distance);
            match is_hidden {
                true => passed_over.push(near.id),
                false => chosen.push((near.id, self.nodes.compared(near.id))),
            }
        }
        let mut ids: Vec<_> = chosen.into_iter().map(|(id, _)| id).collect();
        let missing = count.saturating_sub(ids.len()).min(passed_over.len());
        ids.extend(&passed_over[..missing]);
        ids
    }

    /// Removes links of a node that has too many, and a quarter more: choosing them costs as much
    /// for one as for several.
    fn bound(&mut self, id: N::Id, level: usize, count: usize) {
        if self.node(id).0[level].to.len() <= count {
            return;
        }
        let links = self.node(id).0[level].to.clone();
        let near = self.by_distance(id, &links);
        let chosen = self.chosen(&near, count - count / 4);
        for other in links.into_iter().filter(|other| !chosen.contains(other)) {
            self.unlink(id, other, level);
        }
    }

    /// Others in the order of their distance from a node.
    fn by_distance(&mut self, id: N::Id, ids: &[N::Id]) -> Vec<Near<N::Id>> {
        let query = self.nodes.compared(id);
        let mut near: Vec<_> = ids.iter().map(|other| self.near(&query, *other)).collect();
        near.sort_unstable();
        near
    }

    /// Takes a node out of the graph, and links what was linked through it. Returns the first node.
    pub fn take_out(&mut self, id: N::Id, first: Option<N::Id>) -> Option<N::Id> {
        let levels = self.node(id).0.clone();
        let mut next_first = None;
        for (level, links) in levels.iter().enumerate().rev() {
            let from = links.from.iter().map(|document| self.nodes.of_document(*document));
            let around: Vec<_> = links.to.iter().copied().chain(from).collect();
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
        self.changed.remove(&id);
        self.written.insert(id);
        if first == Some(id) { next_first } else { first }
    }

    fn has_link(&mut self, from: N::Id, to: N::Id, level: usize) -> bool {
        self.node(from).0[level].to.contains(&to)
    }

    /// Gives a node a link instead of one it lost: to the nearest of some that no link of it hides.
    fn replace(&mut self, id: N::Id, around: &[N::Id], level: usize) {
        let links = self.node(id).0[level].to.clone();
        let candidates = around.iter().copied();
        let candidates: Vec<_> = candidates
            .filter(|other| *other != id && !links.contains(other))
            .collect();
        let near = self.by_distance(id, &candidates);
        let linked: Vec<_> = links.iter().map(|link| self.nodes.compared(*link)).collect();
        let mut is_visible = |near: &&Near<N::Id>| {
            let mut linked = linked.iter();
            !linked.any(|link| self.nodes.distance(link, near.id) < near.distance)
        };
        let visible = near.iter().find(|near| is_visible(near));
        if let Some(other) = visible.or(near.first()) {
            self.link(id, other.id, level);
        }
    }

    /// Links a node that nothing leads to from the nearest of its own links.
    fn keep_reachable(&mut self, id: N::Id, level: usize) {
        let links = self.node(id).0[level].clone();
        let is_reachable = !links.from.is_empty() || links.to.iter().any(|other| self.has_link(*other, id, level));
        if is_reachable {
            return;
        }
        if let Some(near) = self.by_distance(id, &links.to).first() {
            self.link(near.id, id, level);
        }
    }
}

impl<N: FieldNodes> Nodes for WorkingGraph<N> {
    type Id = N::Id;
    type Query = CodedQuery;

    fn levels(&mut self, id: N::Id) -> usize {
        match self.changed.get(&id) {
            Some(node) => node.0.len(),
            None => self.nodes.levels(id),
        }
    }

    #[inline]
    fn add_links(&mut self, id: N::Id, level: usize, links: &mut Vec<N::Id>) {
        match self.changed.get(&id) {
            Some(node) => links.extend(&node.0[level].to),
            None => self.nodes.add_links(id, level, links),
        }
    }

    #[inline]
    fn distance(&mut self, query: &CodedQuery, id: N::Id) -> f64 {
        self.nodes.distance(query, id)
    }

    #[inline]
    fn fetch_point(&mut self, id: N::Id) {
        self.nodes.fetch_point(id);
    }

    #[inline]
    fn fetch_links(&mut self, id: N::Id) {
        self.nodes.fetch_links(id);
    }

    #[inline]
    fn see(&mut self, id: N::Id) -> bool {
        self.nodes.see(id)
    }

    fn forget_seen(&mut self) {
        self.nodes.forget_seen();
    }
}

/// The nodes of documents that are present.
struct Present<'s> {
    /// Nodes that lead on and are not returned.
    gone: &'s BTreeSet<DocumentId>,
    is_over: &'s dyn Fn() -> bool,
}

static NONE_GONE: BTreeSet<DocumentId> = BTreeSet::new();

impl Present<'static> {
    fn all() -> Present<'static> {
        Present {
            gone: &NONE_GONE,
            is_over: &|| false,
        }
    }
}

impl<N: FieldNodes> Limits<WorkingGraph<N>> for Present<'_> {
    #[inline]
    fn accepts(&mut self, graph: &mut WorkingGraph<N>, id: N::Id) -> bool {
        self.gone.is_empty() || !self.gone.contains(&graph.nodes.document(id))
    }

    fn is_over(&mut self, visited: usize) -> Result<bool, SearchError> {
        match visited.is_multiple_of(NODES_BETWEEN_CHECKS) && (self.is_over)() {
            true => Err(SearchError::Timeout),
            false => Ok(false),
        }
    }
}

/// The level of a node: each level has a share of `1 / links` of the one below.
fn level_of(id: DocumentId, links: usize) -> usize {
    let hash = xxh3_64(&id.to_be_bytes()) >> 11;
    let share = (hash as f64 + 1.0) / (1u64 << 53) as f64;
    let level = -share.ln() / (links.max(2) as f64).ln();
    (level as usize).min(LEVELS_MAX)
}

fn links_max(links: usize, level: usize) -> usize {
    if level == 0 { 2 * links } else { links }
}
