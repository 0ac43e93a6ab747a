//! A graph of near vectors as rows (HNSW): each vector is linked to some near vectors, on a lowest
//! level that has all vectors and on higher levels that each have fewer.
//!
//! ```text
//! 'h' field       first node (8 bytes), last id that was taken in (8 bytes); both zero if there is none.
//!                 Then a hash of the graph (16 bytes), which has not changed since
//! 'u' field id    a node, for each of its levels: count and ids of links, then of nodes that
//!                 link to it without a link back
//! 'y' field id    a node whose document is gone; its vector stays until the node is taken out
//! ```
//!
//! Vectors are inserted and removed later than their documents, many at a time: changes are
//! [`prepare`]d from a snapshot, and written if the graph is still the same ([`Prepared::write`]).
//! A search compares vectors that are not yet inserted one by one, and skips removed documents. The
//! graph depends only on the order of ids: a node's level is derived from a hash of its id.
//!
//! Nodes are compared by the codes of their vectors, which depend only on the vectors. They are
//! read from rows, or from the [`Image`] of the graph in memory: both give the same nodes, in the
//! same order.

mod nodes;
pub(super) mod walk;
mod working_graph;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use crate::encoding::Cursor;
use crate::error::SearchError;
use crate::index::layout::{after, field_prefix, gone_node_row, graph_row, node_row, vector_row, with_id};
use crate::index::schema::{FieldKind, Schema};
use crate::index::vector_kind::{Graph, VectorKind};
use crate::rows::{DocumentId, Rows, WriteRows, id_of};
use crate::vectors::cache::Mark;
use crate::vectors::flat::{Codes, FieldSearch};
use crate::vectors::hnsw::nodes::{FieldNodes, ImageNodes, Links, Node, RowNodes};
use crate::vectors::hnsw::working_graph::{Wanted, WorkingGraph};
use crate::vectors::quantized::CodedQuery;
use crate::vectors::resident_graph::{Change, Image, Point, Slot};

/// An image is made for each vector that waits and for up to this many nodes: taking one in reads
/// as many rows.
const NODES_OF_WAITING: u64 = 512;

/// The entry of a graph, and its contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// A node of the highest level; zero if there is no node.
    pub first: DocumentId,
    /// Vectors of documents up to this one are in the graph.
    pub reached: DocumentId,
    /// Differs from that of every other graph.
    pub mark: Mark,
}

impl Head {
    pub fn read(rows: &mut dyn Rows, field: u16) -> Head {
        let mut head = Head::default();
        rows.show(&graph_row(field), &mut |row| {
            let mut cursor = Cursor(row);
            head.first = cursor.fixed();
            head.reached = cursor.fixed();
            // An older version wrote none.
            if let Some(mark) = cursor.0.first_chunk() {
                head.mark = *mark;
            }
        });
        head
    }

    fn write(self, rows: &mut dyn WriteRows, field: u16) {
        let numbers = [self.first, self.reached].map(u64::to_be_bytes).concat();
        rows.set(&graph_row(field), &[&numbers[..], &self.mark].concat());
    }
}

/// The nodes of removed documents, ascending, at most `count_max`.
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

/// Removes the vectors of removed documents from the graphs and inserts new vectors, the oldest
/// first: at most `count_max` of both for each field. Returns true if more remain.
pub fn settle(rows: &mut dyn WriteRows, schema: &Schema, codes: Option<&Codes>, count_max: usize) -> bool {
    let mut is_more = false;
    for prepared in prepare(rows, schema, codes, count_max) {
        is_more |= prepared.count == count_max;
        prepared.write(rows, codes);
    }
    is_more
}

/// Finds the changes that [`settle`] would write, to be written later.
pub fn prepare(rows: &mut dyn Rows, schema: &Schema, codes: Option<&Codes>, count_max: usize) -> Vec<Prepared> {
    let graphs = schema
        .fields()
        .filter_map(|(field, definition)| match &definition.kind {
            FieldKind::Vector(kind) => Some((field, kind, kind.graph()?)),
            _ => None,
        });
    let prepared = graphs.filter_map(|(field, kind, graph)| prepare_field(rows, field, kind, graph, codes, count_max));
    prepared.collect()
}

/// Makes the images that searches have looked for in vain. Takes as long as reading all vectors of
/// their fields.
pub fn make_images(rows: &mut dyn Rows, schema: &Schema, codes: &Codes) {
    for (field, definition) in schema.fields() {
        if let FieldKind::Vector(kind) = &definition.kind
            && kind.graph().is_some()
            && codes.images.of_field(field).is_wanted()
        {
            make_image(rows, field, kind, codes);
        }
    }
}

fn make_image(rows: &mut dyn Rows, field: u16, kind: &VectorKind, codes: &Codes) -> Option<Arc<Image>> {
    let head = Head::read(rows, field);
    let nodes = field_prefix(b'u', field);
    let count = rows.count(&nodes, &after(&nodes));
    let images = &codes.images;
    if head.first == 0 || head.mark == Mark::default() || !codes.has_room(Image::bytes_of(kind, count)) {
        return None;
    }
    images
        .of_field(field)
        .put(head.mark, read_image(rows, field, kind, head)?);
    images.of_field(field).get(head.mark)
}

/// Reads a graph. Nothing if nodes and vectors are not those of each other.
fn read_image(rows: &mut dyn Rows, field: u16, kind: &VectorKind, head: Head) -> Option<Image> {
    let mut image = Image::new(kind);
    rows.scan(
        &vector_row(field, 0),
        &vector_row(field, head.reached + 1),
        &mut |key, stored| {
            image.push(&Point::of(kind, id_of(key), stored));
            ControlFlow::Continue(())
        },
    );
    let prefix = field_prefix(b'u', field);
    let (mut is_sound, mut next) = (true, 0);
    rows.scan(&prefix, &after(&prefix), &mut |key, row| {
        let levels = Node::<DocumentId>::read(row).0.into_iter();
        let links = levels.map(|links| links.to.into_iter().map(|id| image.slot_of(id)).collect());
        let links: Option<Vec<Vec<Slot>>> = links.collect();
        is_sound = image.slot_of(id_of(key)) == Some(next);
        match links.filter(|_| is_sound) {
            Some(links) => image.set_links(next, &links),
            None => is_sound = false,
        }
        next += 1;
        match is_sound {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    let is_whole = is_sound && next as usize == image.slots() && image.slot_of(head.first).is_some();
    is_whole.then_some(image)
}

/// Returns true if a field has a graph.
pub fn has_graph(schema: &Schema) -> bool {
    let mut fields = schema.fields();
    fields.any(|(_, field)| matches!(&field.kind, FieldKind::Vector(kind) if kind.graph().is_some()))
}

/// The number of vectors that wait to be inserted into the graphs or removed from them. A search
/// compares each of the former.
pub fn waiting(rows: &mut dyn Rows, schema: &Schema) -> u64 {
    let mut waiting = 0;
    for (field, definition) in schema.fields() {
        if matches!(&definition.kind, FieldKind::Vector(kind) if kind.graph().is_some()) {
            let (vectors, removed) = (field_prefix(b'v', field), field_prefix(b'y', field));
            let next = vector_row(field, Head::read(rows, field).reached + 1);
            waiting += rows.count(&next, &after(&vectors)) + rows.count(&removed, &after(&removed));
        }
    }
    waiting
}

/// The changes of a graph by inserted and removed vectors.
pub struct Prepared {
    field: u16,
    before: Head,
    after: Head,
    /// The number of inserted and removed vectors.
    count: usize,
    /// The rows of nodes that change or go.
    nodes: BTreeMap<DocumentId, Option<Vec<u8>>>,
    removed: BTreeSet<DocumentId>,
    added: Vec<(DocumentId, Vec<u8>)>,
    /// How its image changes.
    change: Option<Change>,
}

impl Prepared {
    /// Writes it, if the graph is still the one from which it was prepared; otherwise it returns
    /// false. The index has to be the same.
    pub fn write(self, rows: &mut dyn WriteRows, codes: Option<&Codes>) -> bool {
        if Head::read(rows, self.field) != self.before {
            return false;
        }
        for (id, node) in &self.nodes {
            match node {
                Some(row) => rows.set(&node_row(self.field, *id), row),
                None => rows.clear(&node_row(self.field, *id)),
            }
        }
        for id in &self.removed {
            rows.clear(&gone_node_row(self.field, *id));
            rows.clear(&vector_row(self.field, *id));
        }
        for (id, vectors) in &self.added {
            // A document that was removed meanwhile waits for its removal from the graph.
            if !rows.show(&vector_row(self.field, *id), &mut |_| {}) {
                rows.set(&vector_row(self.field, *id), vectors);
                rows.set(&gone_node_row(self.field, *id), b"");
            }
        }
        self.after.write(rows, self.field);
        if let Some((change, codes)) = self.change.zip(codes) {
            let image = codes.images.of_field(self.field);
            image.expect(self.before.mark, self.after.mark, change);
        }
        true
    }

    /// The mark after these changes.
    fn mark(&self) -> Mark {
        let mut hash = Sha256::new_with_prefix(self.before.mark);
        for (id, node) in &self.nodes {
            let row = node.as_deref().unwrap_or_default();
            hash.update(id.to_be_bytes());
            hash.update((row.len() as u64).to_be_bytes());
            hash.update(row);
        }
        for (id, vectors) in &self.added {
            hash.update(id.to_be_bytes());
            hash.update(vectors);
        }
        *hash.finalize().first_chunk().expect("a hash has 32 bytes")
    }
}

fn prepare_field(
    rows: &mut dyn Rows,
    field: u16,
    kind: &VectorKind,
    graph: &Graph,
    codes: Option<&Codes>,
    count_max: usize,
) -> Option<Prepared> {
    let before = Head::read(rows, field);
    let removed = gone_nodes(rows, field, count_max);
    let vectors = field_prefix(b'v', field);
    let ids = ids_between(rows, &vectors, before.reached + 1, count_max - removed.len());
    if removed.is_empty() && ids.is_empty() {
        return None;
    }
    let vector = |id| (id, rows.get(&vector_row(field, id)).expect("it was there"));
    let added: Vec<_> = ids.into_iter().map(vector).collect();
    let points = added.iter().map(|(id, stored)| Point::of(kind, *id, stored)).collect();
    let prepared = Prepared {
        field,
        before,
        after: before,
        count: removed.len() + added.len(),
        nodes: BTreeMap::new(),
        removed,
        added,
        change: None,
    };
    let image = codes.and_then(|codes| image_to_change(rows, field, kind, before, codes));
    Some(match image {
        Some(image) => {
            let nodes = ImageNodes::new(rows, field, kind, image, points);
            let (mut prepared, mut graph) = prepared.filled(nodes, graph);
            prepared.change = Some(graph.change());
            prepared
        }
        None => prepared.filled(RowNodes::new(rows, field, kind, points), graph).0,
    })
}

/// The image of a graph that is about to change; made if that takes less time than it saves.
fn image_to_change(
    rows: &mut dyn Rows,
    field: u16,
    kind: &VectorKind,
    head: Head,
    codes: &Codes,
) -> Option<Arc<Image>> {
    if head.first == 0 {
        return (head == Head::default() && codes.has_room(Image::bytes_of(kind, 1))).then(|| {
            codes.images.of_field(field).put(head.mark, Image::new(kind));
            Arc::new(Image::new(kind))
        });
    }
    let image = codes.images.of_field(field).get(head.mark);
    let is_worth_it = |rows: &mut dyn Rows| {
        let (vectors, nodes) = (field_prefix(b'v', field), field_prefix(b'u', field));
        let waiting = rows.count(&vector_row(field, head.reached + 1), &after(&vectors));
        rows.count(&nodes, &after(&nodes)) <= waiting * NODES_OF_WAITING
    };
    let has_room = |image: &Arc<Image>| codes.has_room(0) && !image.is_sparse();
    match image.filter(has_room) {
        Some(image) => Some(image),
        None => is_worth_it(rows)
            .then(|| make_image(rows, field, kind, codes))
            .flatten(),
    }
}

impl Prepared {
    fn filled<N: FieldNodes>(mut self, nodes: N, graph: &Graph) -> (Prepared, WorkingGraph<N>) {
        let mut working = WorkingGraph::new(nodes);
        let mut first = (self.before.first > 0).then(|| working.nodes.of_document(self.before.first));
        for id in &self.removed {
            let node = working.nodes.of_document(*id);
            first = working.take_out(node, first);
        }
        for (id, _) in &self.added {
            let node = working.nodes.of_document(*id);
            first = Some(working.take_in(node, first, graph));
        }
        self.after.first = first.map_or(0, |first| working.nodes.document(first));
        self.after.reached = self.added.last().map_or(self.before.reached, |(id, _)| *id);
        for id in &working.written {
            let document = working.nodes.document(*id);
            let row = working
                .changed
                .get(id)
                .map(|node| node.to_row(|to| working.nodes.document(to)));
            self.nodes.insert(document, row);
        }
        self.after.mark = self.mark();
        (self, working)
    }
}

/// The numbers of vectors that a search of a graph returns and keeps.
#[derive(Clone, Copy)]
pub(crate) struct NearestLimits {
    pub count: usize,
    pub candidates: usize,
}

impl FieldSearch<'_> {
    /// The image of the graph in this state, if it is in memory.
    fn image(&self, head: Head) -> Option<Arc<Image>> {
        self.codes?.images.of_field(self.field).get(head.mark)
    }
}

/// The documents that may be among the `count` nearest to a vector, as far as the graph leads to
/// them, each with its distance: they contain the nearest of `candidates`. Skips removed documents.
pub(crate) fn nearest(
    rows: &mut dyn Rows,
    search: &FieldSearch<'_>,
    head: Head,
    limits: NearestLimits,
) -> Result<Vec<(f64, DocumentId)>, SearchError> {
    let FieldSearch {
        field, kind, vector, ..
    } = *search;
    let removed = gone_nodes(rows, field, usize::MAX);
    let query = CodedQuery::new(kind, &vector.all_components());
    let target = Wanted {
        query: &query,
        first: head.first,
        count: limits.candidates,
        gone: &removed,
    };
    if let Some(image) = search.image(head) {
        let nodes = ImageNodes::new(rows, field, kind, image, Vec::new());
        let ids = WorkingGraph::new(nodes).nearest(&target, limits.count, search.is_over)?;
        if let Some(compared) = ids.compared(rows, field, vector, search.is_over)? {
            return Ok(compared);
        }
    }
    let nodes = RowNodes::new(rows, field, kind, Vec::new());
    let ids = WorkingGraph::new(nodes).nearest(&target, limits.count, search.is_over)?;
    let compared = ids.compared(rows, field, vector, search.is_over)?;
    Ok(compared.expect("a node has a vector"))
}

/// The documents of the `count` nodes nearest to a vector, as far as the graph leads to them,
/// ascending. Skips removed documents.
pub(crate) fn nearest_ids(
    rows: &mut dyn Rows,
    search: &FieldSearch<'_>,
    head: Head,
    count: usize,
) -> Result<Vec<DocumentId>, SearchError> {
    let FieldSearch { field, kind, .. } = *search;
    let removed = gone_nodes(rows, field, usize::MAX);
    let query = CodedQuery::new(kind, &search.vector.all_components());
    let target = Wanted {
        query: &query,
        first: head.first,
        count,
        gone: &removed,
    };
    match search.image(head) {
        Some(image) => {
            let nodes = ImageNodes::new(rows, field, kind, image, Vec::new());
            WorkingGraph::new(nodes).ids(&target, search.is_over)
        }
        None => WorkingGraph::new(RowNodes::new(rows, field, kind, Vec::new())).ids(&target, search.is_over),
    }
}

/// The vectors that are not in the graph yet, ascending.
pub(crate) fn waiting_ids(rows: &mut dyn Rows, field: u16, head: Head) -> BTreeSet<DocumentId> {
    ids_between(rows, &field_prefix(b'v', field), head.reached + 1, usize::MAX)
}

/// Returns true if every vector up to the last inserted id has its node, and every link leads to a
/// node that has the link back. Holds the links of all nodes in memory.
pub(crate) fn is_sound(rows: &mut dyn Rows, field: u16, last_id: DocumentId) -> bool {
    let head = Head::read(rows, field);
    let mut nodes = FxHashMap::default();
    let prefix = field_prefix(b'u', field);
    rows.scan(&prefix, &after(&prefix), &mut |key, row| {
        nodes.insert(id_of(key), Node::<DocumentId>::read(row));
        ControlFlow::Continue(())
    });
    let all = |rows: &mut dyn Rows, tag| ids_between(rows, &field_prefix(tag, field), 0, usize::MAX);
    let mut vectors = all(rows, b'v');
    vectors.retain(|id| *id <= head.reached);
    let removed = all(rows, b'y');
    let top = nodes.values().map(|node| node.0.len()).max().unwrap_or_default();
    let begins = match nodes.get(&head.first) {
        None => head.first == 0 && nodes.is_empty(),
        Some(first) => first.0.len() == top,
    };
    begins
        && head.reached <= last_id
        && vectors.len() == nodes.len()
        && vectors.iter().all(|id| nodes.contains_key(id))
        && removed.iter().all(|id| nodes.contains_key(id))
        && nodes.iter().all(|(id, node)| has_sound_links(&nodes, *id, node))
}

fn has_sound_links(nodes: &FxHashMap<DocumentId, Node<DocumentId>>, id: DocumentId, node: &Node<DocumentId>) -> bool {
    let is_sound = |(level, links): (usize, &Links<DocumentId>)| {
        let of = |other: &DocumentId| nodes.get(other).and_then(|node| node.0.get(level));
        let is_known = |other: &Links<DocumentId>| other.to.contains(&id) || other.from.contains(&id);
        links.to.iter().all(|other| of(other).is_some_and(is_known))
            && links
                .from
                .iter()
                .all(|other| of(other).is_some_and(|other| other.to.contains(&id)))
    };
    !node.0.is_empty() && node.0.iter().enumerate().all(is_sound)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;
    use crate::hits::Hit;
    use crate::index;
    use crate::index::document::Document;
    use crate::index::schema::Field;
    use crate::index::vector_kind::{Component, Metric};
    use crate::redis::execute::{Request, search};
    use crate::redis::query::{Expander, Parameters, parse};
    use crate::rows::MemoryRows;
    use crate::time::Time;
    use crate::vectors::fields::VectorFields;

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
        index::put(rows, &document.unwrap(), &VectorFields);
    }

    fn nearest(rows: &mut MemoryRows, schema: &Schema, vector: &[u8]) -> Vec<Vec<u8>> {
        let parameters: Parameters = [("q".to_owned(), vector.to_vec())].into();
        let query = parse(schema, b"*=>[KNN 10 @v $q]", &parameters, Expander::All).unwrap();
        let answer = search(rows, schema, &query, &Request::default(), Time::until(&|| false)).unwrap();
        answer.hits.into_iter().map(|hit| hit.key).collect()
    }

    /// The share of the ten nearest that a search of the graph finds.
    fn recall(rows: &mut MemoryRows, is_clustered: bool) -> f64 {
        let mut matches = 0;
        for query in 0..50 {
            let vector = vector(1_000_000 + query, is_clustered);
            let exact = nearest(rows, &schema(false), &vector);
            assert_eq!(exact.len(), 10);
            let near = nearest(rows, &schema(true), &vector);
            matches += near.iter().filter(|key| exact.contains(key)).count();
        }
        matches as f64 / 500.0
    }

    /// Each link is known at its other end, and leads to a vector.
    fn check_links(rows: &mut MemoryRows) {
        let ids = ids_between(rows, &field_prefix(b'u', 0), 0, usize::MAX);
        let mut nodes = HashMap::new();
        for id in ids {
            nodes.insert(id, Node::<DocumentId>::read(&rows.get(&node_row(0, id)).unwrap()));
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
                while settle(&mut rows, &schema(true), None, 100) {}
            }
            check_links(&mut rows);
            let recall = recall(&mut rows, is_clustered);
            assert!(recall >= 0.95, "{recall}");
        }
    }

    #[test]
    fn unlinked_or_deleted_vectors_do_not_show() {
        let mut rows = MemoryRows::default();
        for key in 0..COUNT {
            put(&mut rows, key, &vector(key, false));
            if key % 50 == 30 {
                settle(&mut rows, &schema(true), None, 20);
            }
        }
        for key in (0..COUNT).step_by(3) {
            assert!(index::remove(&mut rows, &key.to_be_bytes(), &VectorFields));
        }
        assert!(recall(&mut rows, false) >= 0.95);
        assert!(waiting(&mut rows, &schema(true)) > COUNT / 3);
        while settle(&mut rows, &schema(true), None, 7) {}
        assert_eq!(waiting(&mut rows, &schema(true)), 0);
        check_links(&mut rows);
        assert!(recall(&mut rows, false) >= 0.95);
    }

    #[test]
    fn a_graph_of_no_vectors_is_one_row() {
        let mut rows = MemoryRows::default();
        (0..COUNT).for_each(|key| put(&mut rows, key, &vector(key, true)));
        while settle(&mut rows, &schema(true), None, 100) {}
        (0..COUNT).for_each(|key| assert!(index::remove(&mut rows, &key.to_be_bytes(), &VectorFields)));
        while settle(&mut rows, &schema(true), None, 100) {}
        while index::settle(&mut rows, 100) {}
        assert_eq!(rows.len(), 2, "the counts of the index and the head of the graph");
        assert_eq!(Head::read(&mut rows, 0).first, 0);
        put(&mut rows, 1, &vector(1, true));
        assert!(!settle(&mut rows, &schema(true), None, 100));
        assert_eq!(
            nearest(&mut rows, &schema(true), &vector(2, true)),
            [1u64.to_be_bytes()]
        );
    }

    /// The nearest to a vector, of all and of those with an even number in the field `n`.
    fn answers(rows: &mut MemoryRows, schema: &Schema, vector: &[u8], codes: Option<&Arc<Codes>>) -> Vec<Vec<Hit>> {
        let parameters: Parameters = [("q".to_owned(), vector.to_vec())].into();
        let queries = [&b"*=>[KNN 5 @v $q]"[..], b"@n:[0 0]=>[KNN 5 @v $q]"];
        let answer = |text| {
            let query = parse(schema, text, &parameters, Expander::All).unwrap();
            let request = Request {
                codes: codes.cloned(),
                ..Request::default()
            };
            search(rows, schema, &query, &request, Time::until(&|| false))
                .unwrap()
                .hits
        };
        queries.map(answer).into()
    }

    #[derive(Clone, Debug)]
    enum Event {
        Put(u8, u64),
        Remove(u8),
        Settle(usize),
        /// The settling transaction is rolled back.
        SettleInVain(usize),
        /// Keys are removed between preparing and writing.
        SettleLate(usize, Vec<u8>),
        /// Another was faster.
        SettleTwice(usize),
        MakeImages,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            8 => (any::<u8>(), any::<u64>()).prop_map(|(key, seed)| Event::Put(key, seed)),
            3 => any::<u8>().prop_map(Event::Remove),
            3 => (1..40usize).prop_map(Event::Settle),
            1 => (1..40usize).prop_map(Event::SettleInVain),
            2 => (1..40usize, proptest::collection::vec(any::<u8>(), 0..9)).prop_map(|(n, keys)| Event::SettleLate(n, keys)),
            1 => (1..40usize).prop_map(Event::SettleTwice),
            1 => Just(Event::MakeImages),
        ]
    }

    fn kinds() -> impl Strategy<Value = VectorKind> {
        let components = [
            Component::Float32,
            Component::Float64,
            Component::BFloat16,
            Component::Int8,
        ];
        let metrics = [Metric::L2, Metric::InnerProduct, Metric::Cosine];
        let kind = (
            proptest::sample::select(components.to_vec()),
            proptest::sample::select(metrics.to_vec()),
        );
        kind.prop_map(|(component, metric)| {
            let graph = Graph {
                links: 4,
                build_candidates: 20,
                ..Graph::default()
            };
            VectorKind::new(component, 6, metric).unwrap().with_graph(graph)
        })
    }

    fn blob(kind: &VectorKind, seed: u64) -> Vec<u8> {
        let mut blob = Vec::new();
        for at in 0..kind.dimensions() {
            let hash = xxh3_64(&[seed.to_be_bytes(), (at as u64).to_be_bytes()].concat());
            let number = match hash % 61 {
                0 if kind.component() != Component::Int8 => f64::NAN,
                1 if kind.component() != Component::Int8 => 1e20,
                _ => (hash % 9) as f64 - 4.0,
            };
            kind.push(number, &mut blob).unwrap();
        }
        blob
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// An image has no visible effect: neither on answers, at this state and at older states,
        /// nor on the rows of the graph.
        #[test]
        fn answers_and_graphs_are_the_same_with_an_image(
            kind in kinds(),
            filled in proptest::collection::vec((any::<u8>(), any::<u64>()), 0..300),
            events in proptest::collection::vec(event(), 1..40),
            queries in proptest::collection::vec(any::<u64>(), 1..4),
        ) {
            let schema = Schema::new(vec![
                Field::new("v", FieldKind::Vector(kind)),
                Field::new("n", FieldKind::Numeric),
            ]).unwrap();
            let (mut rows, codes) = (MemoryRows::default(), Arc::new(Codes::default()));
            codes.set_bytes_max(1 << 24);
            let put = |rows: &mut MemoryRows, key: u8, seed: u64| {
                let document = Document::new(&schema, &[key], |field| Some(match field.path.as_str() {
                    "v" => blob(&kind, seed),
                    _ => (seed % 2).to_string().into_bytes(),
                }));
                index::put(rows, &document.unwrap(), &VectorFields);
            };
            for (key, seed) in filled {
                put(&mut rows, key, seed);
            }
            let mut before = rows.clone();
            for event in events {
                match event {
                    Event::Put(key, seed) => put(&mut rows, key, seed),
                    Event::Remove(key) => _ = index::remove(&mut rows, &[key], &VectorFields),
                    Event::Settle(count) => {
                        let mut without = rows.clone();
                        settle(&mut without, &schema, None, count);
                        settle(&mut rows, &schema, Some(&codes), count);
                        prop_assert!(rows == without);
                    }
                    Event::SettleInVain(count) => _ = settle(&mut rows.clone(), &schema, Some(&codes), count),
                    Event::SettleLate(count, keys) => {
                        let prepared = prepare(&mut rows, &schema, Some(&codes), count);
                        keys.iter().for_each(|key| _ = index::remove(&mut rows, &[*key], &VectorFields));
                        for one in prepared {
                            prop_assert!(one.write(&mut rows, Some(&codes)));
                        }
                    }
                    Event::SettleTwice(count) => {
                        let late = prepare(&mut rows, &schema, Some(&codes), count);
                        settle(&mut rows, &schema, Some(&codes), count);
                        for one in late {
                            prop_assert!(!one.write(&mut rows, Some(&codes)));
                        }
                    }
                    Event::MakeImages => make_images(&mut rows, &schema, &codes),
                }
                let seed = queries[0];
                for rows in [&mut rows, &mut before] {
                    let query = blob(&kind, seed);
                    let expected = answers(rows, &schema, &query, None);
                    prop_assert_eq!(answers(rows, &schema, &query, Some(&codes)), expected);
                }
            }
            while settle(&mut rows, &schema, Some(&codes), 16) {}
            check_links(&mut rows);
            let last = index::State::read(&mut rows).last_id;
            prop_assert!(is_sound(&mut rows, 0, last));
            before = rows.clone();
            make_images(&mut rows, &schema, &codes);
            for seed in queries {
                let query = blob(&kind, seed);
                let expected = answers(&mut before, &schema, &query, None);
                prop_assert_eq!(answers(&mut rows, &schema, &query, Some(&codes)), expected);
            }
        }
    }
}
