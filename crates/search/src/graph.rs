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

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::hash::Hash;
use std::ops::ControlFlow;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64;

use crate::coded::CodedQuery;
use crate::codes::{Candidates, Codes};
use crate::image::{Change, Image, Point, PointCodes, Seen, Slot};
use crate::layout::{Cursor, DocumentId, after, field_prefix, gone_node_row, graph_row, id_of};
use crate::layout::{node_row, push_number, vector_row, with_id};
use crate::resident::Mark;
use crate::rows::{Rows, WriteRows};
use crate::schema::FieldKind;
use crate::vectors::{Graph, QueryVector, VectorKind};
use crate::{Schema, SearchError};

/// Most levels above the lowest.
const LEVELS_MAX: usize = 16;

/// More codes than these are not kept while a graph is built from rows.
const POINTS_KEPT_MAX: usize = 16_384;

/// Number of nodes between two checks of the deadline.
const NODES_BETWEEN_CHECKS: usize = 64;

/// Codes that are fetched ahead of their comparison.
const POINTS_FETCHED: usize = 4;

/// An image is made for each vector that waits and for up to this many nodes: taking one in reads
/// as many rows.
const NODES_OF_WAITING: u64 = 512;

/// A node with its distance. Equally distant nodes are in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Near<Id> {
    distance: f64,
    id: Id,
}

impl<Id: Ord> Eq for Near<Id> {}

impl<Id: Ord> Ord for Near<Id> {
    #[inline]
    fn cmp(&self, other: &Near<Id>) -> Ordering {
        let by_distance = self.distance.total_cmp(&other.distance);
        by_distance.then_with(|| self.id.cmp(&other.id))
    }
}

impl<Id: Ord> PartialOrd for Near<Id> {
    #[inline]
    fn partial_cmp(&self, other: &Near<Id>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

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
    let graphs = schema.fields().filter_map(|(field, of_schema)| match &of_schema.kind {
        FieldKind::Vector(kind) => Some((field, kind, kind.graph()?)),
        _ => None,
    });
    let prepared =
        graphs.filter_map(|(field, kind, graph)| prepare_field(rows, field, (kind, graph), codes, count_max));
    prepared.collect()
}

/// Makes the images that searches have looked for in vain. Takes as long as reading all vectors of
/// their fields.
pub fn make_images(rows: &mut dyn Rows, schema: &Schema, codes: &Codes) {
    for (field, of_schema) in schema.fields() {
        if let FieldKind::Vector(kind) = &of_schema.kind
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
    for (field, of_schema) in schema.fields() {
        if matches!(&of_schema.kind, FieldKind::Vector(kind) if kind.graph().is_some()) {
            let (vectors, gone) = (field_prefix(b'v', field), field_prefix(b'y', field));
            let next = vector_row(field, Head::read(rows, field).reached + 1);
            waiting += rows.count(&next, &after(&vectors)) + rows.count(&gone, &after(&gone));
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
    (kind, graph): (&VectorKind, &Graph),
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
    let image = codes.and_then(|codes| image_to_change(rows, field, kind, (before, codes)));
    Some(match image {
        Some(image) => {
            let nodes = ImageNodes::new(rows, field, kind, image, points);
            let (mut prepared, mut walk) = prepared.filled(nodes, graph);
            prepared.change = Some(walk.change());
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
    (head, codes): (Head, &Codes),
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
    fn filled<N: Nodes>(mut self, nodes: N, graph: &Graph) -> (Prepared, Walk<N>) {
        let mut walk = Walk::new(nodes);
        let mut first = (self.before.first > 0).then(|| walk.nodes.of_document(self.before.first));
        for id in &self.removed {
            let node = walk.nodes.of_document(*id);
            first = walk.take_out(node, first);
        }
        for (id, _) in &self.added {
            let node = walk.nodes.of_document(*id);
            first = Some(walk.take_in(node, first, graph));
        }
        self.after.first = first.map_or(0, |first| walk.nodes.document(first));
        self.after.reached = self.added.last().map_or(self.before.reached, |(id, _)| *id);
        for id in &walk.written {
            let document = walk.nodes.document(*id);
            let row = walk
                .changed
                .get(id)
                .map(|node| node.to_row(|to| walk.nodes.document(to)));
            self.nodes.insert(document, row);
        }
        self.after.mark = self.mark();
        (self, walk)
    }
}

/// The documents that may be among the `count` nearest to a vector, as far as the graph leads to
/// them, each with its distance: they contain the nearest of `candidates`. Skips removed documents.
pub(crate) fn nearest(
    rows: &mut dyn Rows,
    field: u16,
    (kind, vector): (&VectorKind, &QueryVector),
    (head, codes): (Head, Option<&Codes>),
    (count, candidates): (usize, usize),
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<(f64, DocumentId)>, SearchError> {
    let image = codes.and_then(|codes| codes.images.of_field(field).get(head.mark));
    let gone = gone_nodes(rows, field, usize::MAX);
    let query = CodedQuery::new(kind, &vector.all_components());
    let wanted = Wanted {
        query: &query,
        first: head.first,
        count: candidates,
        gone: &gone,
    };
    if let Some(image) = image {
        let nodes = ImageNodes::new(rows, field, kind, image, Vec::new());
        let found = Walk::new(nodes).nearest(&wanted, count, is_over)?;
        if let Some(compared) = found.compared(rows, field, vector, is_over)? {
            return Ok(compared);
        }
    }
    let nodes = RowNodes::new(rows, field, kind, Vec::new());
    let found = Walk::new(nodes).nearest(&wanted, count, is_over)?;
    let compared = found.compared(rows, field, vector, is_over)?;
    Ok(compared.expect("a node has a vector"))
}

/// The documents of the `count` nodes nearest to a vector, as far as the graph leads to them,
/// ascending. Skips removed documents.
pub(crate) fn nearest_ids(
    rows: &mut dyn Rows,
    field: u16,
    (kind, vector): (&VectorKind, &QueryVector),
    (head, codes): (Head, Option<&Codes>),
    count: usize,
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<DocumentId>, SearchError> {
    let image = codes.and_then(|codes| codes.images.of_field(field).get(head.mark));
    let gone = gone_nodes(rows, field, usize::MAX);
    let query = CodedQuery::new(kind, &vector.all_components());
    let wanted = Wanted {
        query: &query,
        first: head.first,
        count,
        gone: &gone,
    };
    match image {
        Some(image) => Walk::new(ImageNodes::new(rows, field, kind, image, Vec::new())).ids(&wanted, is_over),
        None => Walk::new(RowNodes::new(rows, field, kind, Vec::new())).ids(&wanted, is_over),
    }
}

/// The vectors that are not in the graph yet, ascending.
pub(crate) fn waiting_ids(rows: &mut dyn Rows, field: u16, head: Head) -> BTreeSet<DocumentId> {
    ids_between(rows, &field_prefix(b'v', field), head.reached + 1, usize::MAX)
}

/// The aim of a walk.
struct Wanted<'s> {
    query: &'s CodedQuery,
    first: DocumentId,
    /// The number of nodes.
    count: usize,
    /// Leads on, and is not looked for.
    gone: &'s BTreeSet<DocumentId>,
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

/// The links of a node on one level.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Links<Id> {
    /// To which nodes.
    to: Vec<Id>,
    /// Nodes that link here and that this node does not link back to.
    from: Vec<DocumentId>,
}

impl<Id> Default for Links<Id> {
    fn default() -> Links<Id> {
        Links {
            to: Vec::new(),
            from: Vec::new(),
        }
    }
}

/// A vector's links, the lowest level first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node<Id>(Vec<Links<Id>>);

impl<Id: Copy> Node<Id> {
    fn to_row(&self, document: impl Fn(Id) -> DocumentId) -> Vec<u8> {
        let mut row = Vec::new();
        for links in &self.0 {
            push_number(&mut row, links.to.len() as u128);
            links
                .to
                .iter()
                .for_each(|to| push_number(&mut row, document(*to).into()));
            push_number(&mut row, links.from.len() as u128);
            links.from.iter().for_each(|id| push_number(&mut row, (*id).into()));
        }
        row
    }
}

impl Node<DocumentId> {
    /// Adds the links to others that a row has on one level.
    fn read_links(row: &[u8], level: usize, links: &mut Vec<DocumentId>) {
        let mut cursor = Cursor(row);
        // Outgoing and incoming links alternate.
        for _ in 0..2 * level {
            (0..cursor.number()).for_each(|_| _ = cursor.number());
        }
        links.extend((0..cursor.number()).map(|_| cursor.number() as DocumentId));
    }

    fn read(row: &[u8]) -> Node<DocumentId> {
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

/// The nodes of a graph before its change, and new nodes.
trait Nodes {
    /// Identifies a node, in the order of documents.
    type Id: Copy + Ord + Hash;

    fn of_document(&mut self, document: DocumentId) -> Self::Id;
    fn document(&self, id: Self::Id) -> DocumentId;
    /// The number of a node's levels.
    fn levels(&mut self, id: Self::Id) -> usize;
    /// Adds the nodes to which a node has a link.
    fn add_links(&mut self, id: Self::Id, level: usize, links: &mut Vec<Self::Id>);
    fn node(&mut self, id: Self::Id) -> Node<Self::Id>;
    fn distance(&mut self, query: &CodedQuery, id: Self::Id) -> f64;
    /// A hint that the node's distance will soon be needed.
    fn fetch_point(&self, _id: Self::Id) {}
    /// A hint that the node's links on the lowest level will soon be needed.
    fn fetch_links(&self, _id: Self::Id) {}
    fn bounds(&mut self, query: &CodedQuery, id: Self::Id) -> (f64, f64);
    /// The node's vector, to be compared with others.
    fn compared(&mut self, id: Self::Id) -> CodedQuery;
    /// Returns true if the node was not seen since all were forgotten.
    fn see(&mut self, id: Self::Id) -> bool;
    fn forget_seen(&mut self);
}

/// Nodes as rows have them.
struct RowNodes<'w> {
    rows: &'w mut dyn Rows,
    kind: &'w VectorKind,
    points: FxHashMap<DocumentId, Point>,
    /// Codes are kept: a search looks at each once, a change often.
    keeps: bool,
    seen: FxHashSet<DocumentId>,
    /// The key of a vector or of a node.
    vector_key: Vec<u8>,
    node_key: Vec<u8>,
}

impl<'w> RowNodes<'w> {
    fn new(rows: &'w mut dyn Rows, field: u16, kind: &'w VectorKind, added: Vec<Point>) -> RowNodes<'w> {
        RowNodes {
            rows,
            kind,
            keeps: !added.is_empty(),
            points: added.into_iter().map(|point| (point.document, point)).collect(),
            seen: FxHashSet::default(),
            vector_key: vector_row(field, 0),
            node_key: node_row(field, 0),
        }
    }

    fn with_point<T>(&mut self, id: DocumentId, look: impl FnOnce(&Point) -> T) -> T {
        if let Some(point) = self.points.get(&id) {
            return look(point);
        }
        set_id(&mut self.vector_key, id);
        let (mut point, kind) = (None, self.kind);
        self.rows.show(&self.vector_key, &mut |stored| {
            point = Some(Point::of(kind, id, stored));
        });
        let point = point.expect("a node has a vector");
        let looked = look(&point);
        if self.keeps {
            if self.points.len() >= POINTS_KEPT_MAX {
                self.points.clear();
            }
            self.points.insert(id, point);
        }
        looked
    }

    fn show_node(&mut self, id: DocumentId, visit: &mut dyn FnMut(&[u8])) {
        set_id(&mut self.node_key, id);
        assert!(self.rows.show(&self.node_key, visit), "a link leads to a node");
    }
}

impl Nodes for RowNodes<'_> {
    type Id = DocumentId;

    fn of_document(&mut self, document: DocumentId) -> DocumentId {
        document
    }

    fn document(&self, id: DocumentId) -> DocumentId {
        id
    }

    fn levels(&mut self, id: DocumentId) -> usize {
        self.node(id).0.len()
    }

    fn add_links(&mut self, id: DocumentId, level: usize, links: &mut Vec<DocumentId>) {
        self.show_node(id, &mut |row| Node::read_links(row, level, links));
    }

    fn node(&mut self, id: DocumentId) -> Node<DocumentId> {
        let mut node = Node(Vec::new());
        self.show_node(id, &mut |row| node = Node::read(row));
        node
    }

    fn distance(&mut self, query: &CodedQuery, id: DocumentId) -> f64 {
        self.with_point(id, |point| point.codes().distance(query))
    }

    fn bounds(&mut self, query: &CodedQuery, id: DocumentId) -> (f64, f64) {
        self.with_point(id, |point| point.codes().bounds(query))
    }

    fn compared(&mut self, id: DocumentId) -> CodedQuery {
        let kind = self.kind;
        self.with_point(id, |point| point.codes().first(kind))
    }

    fn see(&mut self, id: DocumentId) -> bool {
        self.seen.insert(id)
    }

    fn forget_seen(&mut self) {
        self.seen.clear();
    }
}

/// Nodes from an image. The row of a changed node also has the nodes that link to it.
struct ImageNodes<'w> {
    rows: &'w mut dyn Rows,
    field: u16,
    kind: &'w VectorKind,
    image: Arc<Image>,
    /// Their slots follow those of the image.
    added: Vec<Point>,
    seen: Seen,
}

impl<'w> ImageNodes<'w> {
    fn new(
        rows: &'w mut dyn Rows,
        field: u16,
        kind: &'w VectorKind,
        image: Arc<Image>,
        added: Vec<Point>,
    ) -> ImageNodes<'w> {
        ImageNodes {
            rows,
            field,
            kind,
            image,
            added,
            seen: Seen::default(),
        }
    }

    #[inline]
    fn point(&self, slot: Slot) -> PointCodes<'_> {
        match (slot as usize).checked_sub(self.image.slots()) {
            None => self.image.point(slot),
            Some(at) => self.added[at].codes(),
        }
    }
}

impl Nodes for ImageNodes<'_> {
    type Id = Slot;

    fn of_document(&mut self, document: DocumentId) -> Slot {
        let at = self.added.binary_search_by_key(&document, |point| point.document);
        match at {
            Ok(at) => (self.image.slots() + at) as Slot,
            Err(_) => self.image.slot_of(document).expect("an image has every node"),
        }
    }

    #[inline]
    fn document(&self, slot: Slot) -> DocumentId {
        match (slot as usize).checked_sub(self.image.slots()) {
            None => self.image.document(slot),
            Some(at) => self.added[at].document,
        }
    }

    fn levels(&mut self, slot: Slot) -> usize {
        self.image.levels(slot)
    }

    #[inline]
    fn add_links(&mut self, slot: Slot, level: usize, links: &mut Vec<Slot>) {
        links.extend_from_slice(self.image.links(slot, level));
    }

    fn node(&mut self, slot: Slot) -> Node<Slot> {
        let (document, image) = (self.image.document(slot), &self.image);
        let mut levels = Vec::new();
        let is_there = self.rows.show(&node_row(self.field, document), &mut |row| {
            let of_row = Node::read(row).0.into_iter().enumerate();
            levels = of_row
                .map(|(level, links)| Links {
                    to: image.links(slot, level).to_vec(),
                    from: links.from,
                })
                .collect();
        });
        assert!(is_there, "a link leads to a node");
        Node(levels)
    }

    #[inline]
    fn distance(&mut self, query: &CodedQuery, slot: Slot) -> f64 {
        self.point(slot).distance(query)
    }

    #[inline]
    fn fetch_point(&self, slot: Slot) {
        self.point(slot).prefetch();
    }

    #[inline]
    fn fetch_links(&self, slot: Slot) {
        if (slot as usize) < self.image.slots() {
            self.image.fetch_links(slot);
        }
    }

    fn bounds(&mut self, query: &CodedQuery, slot: Slot) -> (f64, f64) {
        self.point(slot).bounds(query)
    }

    fn compared(&mut self, slot: Slot) -> CodedQuery {
        self.point(slot).first(self.kind)
    }

    #[inline]
    fn see(&mut self, slot: Slot) -> bool {
        self.seen.insert(slot)
    }

    fn forget_seen(&mut self) {
        self.seen.clear();
    }
}

/// A graph during reads, and during the insertion and removal of vectors.
struct Walk<N: Nodes> {
    nodes: N,
    /// Nodes that are there otherwise, or may soon be.
    changed: FxHashMap<N::Id, Node<N::Id>>,
    /// The nodes with changed rows, and the removed nodes.
    written: BTreeSet<N::Id>,
}

impl Walk<ImageNodes<'_>> {
    /// How the image changes.
    fn change(&mut self) -> Change {
        let of_node = |node: &Node<Slot>| node.0.iter().map(|links| links.to.clone()).collect();
        let nodes = self.written.iter();
        let nodes = nodes.map(|slot| (*slot, self.changed.get(slot).map(of_node).unwrap_or_default()));
        Change {
            nodes: nodes.collect(),
            added: std::mem::take(&mut self.nodes.added),
        }
    }
}

impl<N: Nodes> Walk<N> {
    fn new(nodes: N) -> Walk<N> {
        Walk {
            nodes,
            changed: FxHashMap::default(),
            written: BTreeSet::new(),
        }
    }

    /// The nodes nearest to a vector, with bounds of how far they are.
    fn nearest(
        &mut self,
        wanted: &Wanted<'_>,
        count: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Candidates, SearchError> {
        let mut candidates = Candidates::new(count);
        for near in self.nearest_nodes(wanted, is_over)? {
            let (least, greatest) = self.nodes.bounds(wanted.query, near.id);
            candidates.add(least, greatest, self.nodes.document(near.id));
        }
        Ok(candidates)
    }

    /// The documents of the nodes nearest to a vector, ascending.
    fn ids(&mut self, wanted: &Wanted<'_>, is_over: &dyn Fn() -> bool) -> Result<Vec<DocumentId>, SearchError> {
        let near = self.nearest_nodes(wanted, is_over)?;
        let mut ids: Vec<_> = near.iter().map(|near| self.nodes.document(near.id)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// The nodes nearest to a vector, the nearest first.
    fn nearest_nodes(
        &mut self,
        wanted: &Wanted<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Vec<Near<N::Id>>, SearchError> {
        let first = self.nodes.of_document(wanted.first);
        let near = self.descend(wanted.query, first, 0);
        let mut search = LevelSearch::new(0, wanted.count, wanted.gone);
        search.run(self, wanted.query, &[near], is_over)
    }

    /// The node of the level above `level` that is nearest, found from the first one.
    fn descend(&mut self, query: &CodedQuery, first: N::Id, level: usize) -> Near<N::Id> {
        let mut near = self.near(query, first);
        let mut links = Vec::new();
        for upper in (level + 1..self.levels(first)).rev() {
            loop {
                links.clear();
                self.add_links(near.id, upper, &mut links);
                let others = links.iter().map(|id| self.near(query, *id));
                match others.min() {
                    Some(other) if other < near => near = other,
                    _ => break,
                }
            }
        }
        near
    }

    #[inline]
    fn near(&mut self, query: &CodedQuery, id: N::Id) -> Near<N::Id> {
        let distance = self.nodes.distance(query, id);
        Near { distance, id }
    }

    fn levels(&mut self, id: N::Id) -> usize {
        match self.changed.get(&id) {
            Some(node) => node.0.len(),
            None => self.nodes.levels(id),
        }
    }

    /// Adds the nodes to which a node has a link.
    #[inline]
    fn add_links(&mut self, id: N::Id, level: usize, links: &mut Vec<N::Id>) {
        match self.changed.get(&id) {
            Some(node) => links.extend(&node.0[level].to),
            None => self.nodes.add_links(id, level, links),
        }
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
        let (of_from, of_to) = (self.nodes.document(from), self.nodes.document(to));
        self.changed_links(from, level).to.retain(|id| *id != to);
        let back = self.changed_links(to, level);
        let is_mutual = back.to.contains(&from);
        back.from.retain(|id| *id != of_from);
        if is_mutual {
            self.changed_links(from, level).from.push(of_to);
        }
    }

    /// Takes a vector into the graph. Returns the first node.
    fn take_in(&mut self, id: N::Id, first: Option<N::Id>, graph: &Graph) -> N::Id {
        let count = graph.links_made();
        let level = level_of(self.nodes.document(id), count);
        self.changed.insert(id, Node(vec![Links::default(); level + 1]));
        self.written.insert(id);
        let Some(first) = first else { return id };
        let query = self.nodes.compared(id);
        let top = self.levels(first) - 1;
        let mut entries = vec![self.descend(&query, first, level)];
        for level in (0..=level.min(top)).rev() {
            let mut search = LevelSearch::new(level, graph.build_candidates.max(count), &NONE_GONE);
            let found = search.run(self, &query, &entries, &|| false);
            entries = found.expect("building does not end early");
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
        let kept = self.chosen(&near, count - count / 4);
        for other in links.into_iter().filter(|other| !kept.contains(other)) {
            self.unlink(id, other, level);
        }
    }

    /// Others in the order of their distance from a node.
    fn by_distance(&mut self, id: N::Id, others: &[N::Id]) -> Vec<Near<N::Id>> {
        let query = self.nodes.compared(id);
        let mut near: Vec<_> = others.iter().map(|other| self.near(&query, *other)).collect();
        near.sort_unstable();
        near
    }

    /// Takes a node out of the graph, and links what was linked through it. Returns the first node.
    fn take_out(&mut self, id: N::Id, first: Option<N::Id>) -> Option<N::Id> {
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
        let others = around.iter().copied();
        let others: Vec<_> = others.filter(|other| *other != id && !links.contains(other)).collect();
        let near = self.by_distance(id, &others);
        let of_links: Vec<_> = links.iter().map(|link| self.nodes.compared(*link)).collect();
        let mut is_visible = |near: &&Near<N::Id>| {
            let mut of_links = of_links.iter();
            !of_links.any(|link| self.nodes.distance(link, near.id) < near.distance)
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

static NONE_GONE: BTreeSet<DocumentId> = BTreeSet::new();

/// Gives a key another id at its end.
fn set_id(key: &mut [u8], id: DocumentId) {
    *key.last_chunk_mut().expect("the key ends with an id") = id.to_be_bytes();
}

fn links_max(links: usize, level: usize) -> usize {
    if level == 0 { 2 * links } else { links }
}

/// A search on one level, from some nodes on to what is nearer.
struct LevelSearch<'s, Id> {
    level: usize,
    count: usize,
    gone: &'s BTreeSet<DocumentId>,
    /// The farthest on top.
    best: BinaryHeap<Near<Id>>,
}

impl<'s, Id: Copy + Ord + Hash> LevelSearch<'s, Id> {
    fn new(level: usize, count: usize, gone: &'s BTreeSet<DocumentId>) -> LevelSearch<'s, Id> {
        LevelSearch {
            level,
            count,
            gone,
            best: BinaryHeap::new(),
        }
    }

    #[inline]
    fn is_near(&self, near: Near<Id>) -> bool {
        self.best.len() < self.count || self.best.peek().is_some_and(|farthest| near < *farthest)
    }

    fn add(&mut self, near: Near<Id>, nodes: &impl Nodes<Id = Id>) {
        if self.gone.is_empty() || !self.gone.contains(&nodes.document(near.id)) {
            self.best.push(near);
            if self.best.len() > self.count {
                self.best.pop();
            }
        }
    }

    fn run<N: Nodes<Id = Id>>(
        &mut self,
        walk: &mut Walk<N>,
        query: &CodedQuery,
        entries: &[Near<Id>],
        is_over: &dyn Fn() -> bool,
    ) -> Result<Vec<Near<Id>>, SearchError> {
        let mut links = Vec::new();
        walk.nodes.forget_seen();
        let mut candidates: BinaryHeap<Reverse<Near<Id>>> = entries.iter().copied().map(Reverse).collect();
        for near in entries {
            walk.nodes.see(near.id);
            self.add(*near, &walk.nodes);
        }
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
            links.retain(|id| walk.nodes.see(*id));
            links
                .iter()
                .take(POINTS_FETCHED)
                .for_each(|id| walk.nodes.fetch_point(*id));
            for (at, id) in links.iter().enumerate() {
                if let Some(later) = links.get(at + POINTS_FETCHED) {
                    walk.nodes.fetch_point(*later);
                }
                let near = walk.near(query, *id);
                if self.is_near(near) {
                    candidates.push(Reverse(near));
                    self.add(near, &walk.nodes);
                }
            }
            if let Some(Reverse(next)) = candidates.peek() {
                walk.nodes.fetch_links(next.id);
            }
        }
        Ok(std::mem::take(&mut self.best).into_sorted_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::query::{Expander, Parameters, parse};
    use crate::search::{Hit, Request, search};
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
            assert!(index::remove(&mut rows, &key.to_be_bytes()));
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
        (0..COUNT).for_each(|key| assert!(index::remove(&mut rows, &key.to_be_bytes())));
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
                index::put(rows, &document.unwrap());
            };
            for (key, seed) in filled {
                put(&mut rows, key, seed);
            }
            let mut before = rows.clone();
            for event in events {
                match event {
                    Event::Put(key, seed) => put(&mut rows, key, seed),
                    Event::Remove(key) => _ = index::remove(&mut rows, &[key]),
                    Event::Settle(count) => {
                        let mut without = rows.clone();
                        settle(&mut without, &schema, None, count);
                        settle(&mut rows, &schema, Some(&codes), count);
                        prop_assert!(rows == without);
                    }
                    Event::SettleInVain(count) => _ = settle(&mut rows.clone(), &schema, Some(&codes), count),
                    Event::SettleLate(count, keys) => {
                        let prepared = prepare(&mut rows, &schema, Some(&codes), count);
                        keys.iter().for_each(|key| _ = index::remove(&mut rows, &[*key]));
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
