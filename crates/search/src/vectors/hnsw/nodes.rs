//! The nodes of a field's graph, as rows or as their image in memory.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::encoding::{Cursor, push_number};
use crate::index::layout::{node_row, vector_row};
use crate::index::vector_kind::VectorKind;
use crate::rows::{DocumentId, Rows};
use crate::vectors::hnsw::walk::Nodes;
use crate::vectors::quantized::CodedQuery;
use crate::vectors::resident_graph::{Image, Point, PointCodes, Seen, Slot};

/// More codes than these are not kept while a graph is built from rows.
const POINTS_KEPT_MAX: usize = 16_384;

/// The links of a node on one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Links<Id> {
    /// To which nodes.
    pub to: Vec<Id>,
    /// Nodes that link here and that this node does not link back to.
    pub from: Vec<DocumentId>,
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
pub(super) struct Node<Id>(pub Vec<Links<Id>>);

impl<Id: Copy> Node<Id> {
    pub fn to_row(&self, document: impl Fn(Id) -> DocumentId) -> Vec<u8> {
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

    pub fn read(row: &[u8]) -> Node<DocumentId> {
        let mut cursor = Cursor(row);
        let mut levels = Vec::new();
        while !cursor.is_at_end() {
            let mut ids = || (0..cursor.number()).map(|_| cursor.number() as DocumentId).collect();
            levels.push(Links { to: ids(), from: ids() });
        }
        Node(levels)
    }
}

/// The nodes of a field's graph before its change, and new nodes.
pub(super) trait FieldNodes: Nodes<Query = CodedQuery> {
    fn of_document(&mut self, document: DocumentId) -> Self::Id;
    fn document(&self, id: Self::Id) -> DocumentId;
    fn node(&mut self, id: Self::Id) -> Node<Self::Id>;
    fn bounds(&mut self, query: &CodedQuery, id: Self::Id) -> (f64, f64);
    /// The node's vector, to be compared with others.
    fn compared(&mut self, id: Self::Id) -> CodedQuery;
}

/// Nodes as rows have them.
pub(super) struct RowNodes<'w> {
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
    pub fn new(rows: &'w mut dyn Rows, field: u16, kind: &'w VectorKind, added: Vec<Point>) -> RowNodes<'w> {
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
    type Query = CodedQuery;

    fn levels(&mut self, id: DocumentId) -> usize {
        self.node(id).0.len()
    }

    fn add_links(&mut self, id: DocumentId, level: usize, links: &mut Vec<DocumentId>) {
        self.show_node(id, &mut |row| Node::read_links(row, level, links));
    }

    fn distance(&mut self, query: &CodedQuery, id: DocumentId) -> f64 {
        self.with_point(id, |point| point.codes().distance(query))
    }

    fn see(&mut self, id: DocumentId) -> bool {
        self.seen.insert(id)
    }

    fn forget_seen(&mut self) {
        self.seen.clear();
    }
}

impl FieldNodes for RowNodes<'_> {
    fn of_document(&mut self, document: DocumentId) -> DocumentId {
        document
    }

    fn document(&self, id: DocumentId) -> DocumentId {
        id
    }

    fn node(&mut self, id: DocumentId) -> Node<DocumentId> {
        let mut node = Node(Vec::new());
        self.show_node(id, &mut |row| node = Node::read(row));
        node
    }

    fn bounds(&mut self, query: &CodedQuery, id: DocumentId) -> (f64, f64) {
        self.with_point(id, |point| point.codes().bounds(query))
    }

    fn compared(&mut self, id: DocumentId) -> CodedQuery {
        let kind = self.kind;
        self.with_point(id, |point| point.codes().first(kind))
    }
}

/// Nodes from an image. The row of a changed node also has the nodes that link to it.
pub(super) struct ImageNodes<'w> {
    rows: &'w mut dyn Rows,
    field: u16,
    kind: &'w VectorKind,
    image: Arc<Image>,
    /// Their slots follow those of the image.
    pub added: Vec<Point>,
    seen: Seen,
}

impl<'w> ImageNodes<'w> {
    pub fn new(
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
    type Query = CodedQuery;

    fn levels(&mut self, slot: Slot) -> usize {
        self.image.levels(slot)
    }

    #[inline]
    fn add_links(&mut self, slot: Slot, level: usize, links: &mut Vec<Slot>) {
        links.extend_from_slice(self.image.links(slot, level));
    }

    #[inline]
    fn distance(&mut self, query: &CodedQuery, slot: Slot) -> f64 {
        self.point(slot).distance(query)
    }

    #[inline]
    fn fetch_point(&mut self, slot: Slot) {
        self.point(slot).prefetch();
    }

    #[inline]
    fn fetch_links(&mut self, slot: Slot) {
        if (slot as usize) < self.image.slots() {
            self.image.fetch_links(slot);
        }
    }

    #[inline]
    fn see(&mut self, slot: Slot) -> bool {
        self.seen.insert(slot)
    }

    fn forget_seen(&mut self) {
        self.seen.clear();
    }
}

impl FieldNodes for ImageNodes<'_> {
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

    fn node(&mut self, slot: Slot) -> Node<Slot> {
        let (document, image) = (self.image.document(slot), &self.image);
        let mut levels = Vec::new();
        let is_there = self.rows.show(&node_row(self.field, document), &mut |row| {
            let row_links = Node::read(row).0.into_iter().enumerate();
            levels = row_links
                .map(|(level, links)| Links {
                    to: image.links(slot, level).to_vec(),
                    from: links.from,
                })
                .collect();
        });
        assert!(is_there, "a link leads to a node");
        Node(levels)
    }

    fn bounds(&mut self, query: &CodedQuery, slot: Slot) -> (f64, f64) {
        self.point(slot).bounds(query)
    }

    fn compared(&mut self, slot: Slot) -> CodedQuery {
        self.point(slot).first(self.kind)
    }
}

/// Gives a key another id at its end.
fn set_id(key: &mut [u8], id: DocumentId) {
    *key.last_chunk_mut().expect("the key ends with an id") = id.to_be_bytes();
}
