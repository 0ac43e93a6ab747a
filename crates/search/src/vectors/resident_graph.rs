//! A graph of vectors in memory: codes and links by *slots*, which are given in the order of ids.
//!
//! Blocks of slots are shared between an image and its copies, so a copy takes little until it
//! differs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::index::vector_kind::{Graph, VectorKind};
use crate::rows::DocumentId;
use crate::vectors::cache;
use crate::vectors::quantized::{Coded, CodedQuery};
use crate::vectors::simd::prefetch;

/// The place of a node in an image.
pub(crate) type Slot = u32;

const BLOCK_SLOTS: usize = 256;

/// Nodes with more links on the lowest level than these keep them in another place.
const LINKS_KEPT_TOGETHER: usize = 128;

/// A node may have one or two links more than it should.
const LINKS_SPARE: usize = 2;

/// The codes of a document's vectors.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub document: DocumentId,
    pub coded: Vec<Coded>,
    /// One after the other.
    pub codes: Vec<i8>,
}

impl Point {
    pub fn of(kind: &VectorKind, document: DocumentId, stored: &[u8]) -> Point {
        let (mut coded, mut codes) = (Vec::new(), Vec::new());
        for vector in stored.chunks_exact(kind.bytes()) {
            coded.push(Coded::of(kind, &kind.components(vector), &mut codes));
        }
        Point { document, coded, codes }
    }

    pub fn codes(&self) -> PointCodes<'_> {
        PointCodes {
            coded: &self.coded,
            codes: &self.codes,
        }
    }
}

/// The same codes, borrowed from the block.
#[derive(Clone, Copy)]
pub(crate) struct PointCodes<'p> {
    coded: &'p [Coded],
    codes: &'p [i8],
}

impl PointCodes<'_> {
    /// The distance of the nearest vector.
    #[inline]
    pub fn distance(self, query: &CodedQuery) -> f64 {
        match self.coded {
            [coded] => query.distance(coded, self.codes),
            _ => self
                .each()
                .map(|(coded, codes)| query.distance(coded, codes))
                .fold(f64::INFINITY, f64::min),
        }
    }

    /// The least and the greatest distance of the nearest vector.
    pub fn bounds(self, query: &CodedQuery) -> (f64, f64) {
        let bounds = self.each().map(|(coded, codes)| query.bounds(coded, codes));
        bounds.fold((f64::INFINITY, f64::INFINITY), |least, other| {
            (least.0.min(other.0), least.1.min(other.1))
        })
    }

    /// Prefetches the codes, which will be read soon.
    #[inline]
    pub fn prefetch(self) {
        prefetch(self.coded);
        prefetch(self.codes);
    }

    /// The first vector, as a query. The neighbours of a document with several vectors are those of
    /// its first.
    pub fn first(self, kind: &VectorKind) -> CodedQuery {
        let (coded, codes) = self.each().next().expect("a document in a graph has a vector");
        CodedQuery::of_code(kind, coded, codes)
    }

    fn each(&self) -> impl Iterator<Item = (&Coded, &[i8])> {
        let dimensions = self.codes.len() / self.coded.len().max(1);
        self.coded.iter().zip(self.codes.chunks_exact(dimensions.max(1)))
    }
}

/// Does not change when it is full.
#[derive(Clone, Debug, Default)]
struct Points {
    documents: Vec<DocumentId>,
    /// The ends of the slots' codes.
    ends: Vec<u32>,
    coded: Vec<Coded>,
    codes: Vec<i8>,
}

#[derive(Clone, Debug, Default)]
struct Links {
    /// The number of a node's levels; zero if it was removed.
    levels: Vec<u8>,
    /// For each node the count of links on the lowest level, and room for the most.
    lowest: Vec<u32>,
    /// Links on higher levels, and where there is no room for those on the lowest one.
    others: BTreeMap<(u8, u8), Vec<Slot>>,
}

#[derive(Clone, Debug)]
struct Block {
    points: Arc<Points>,
    links: Arc<Links>,
}

/// A graph of vectors in memory.
#[derive(Clone, Debug)]
pub struct Image {
    dimensions: usize,
    /// Numbers of a node in [`Links::lowest`].
    stride: usize,
    blocks: Vec<Block>,
    slots: usize,
    /// Nodes that were taken out.
    removed: usize,
    /// Links on higher levels, about.
    others: usize,
}

/// How a graph changes.
#[derive(Debug, Default)]
pub struct Change {
    /// They get the next slots.
    pub(crate) added: Vec<Point>,
    /// Nodes with their links on each level; none if the node is taken out.
    pub(crate) nodes: Vec<(Slot, Vec<Vec<Slot>>)>,
}

impl Image {
    pub(crate) fn new(kind: &VectorKind) -> Image {
        let links = kind.graph().map_or(0, Graph::links_made).min(LINKS_KEPT_TOGETHER / 2);
        Image {
            dimensions: kind.dimensions(),
            stride: 1 + 2 * links + LINKS_SPARE,
            blocks: Vec::new(),
            slots: 0,
            removed: 0,
            others: 0,
        }
    }

    /// Bytes that one of this many nodes takes, about.
    pub(crate) fn bytes_of(kind: &VectorKind, nodes: u64) -> usize {
        let empty = Image::new(kind);
        nodes as usize * (empty.dimensions + 4 * empty.stride + size_of::<Coded>() + 16)
    }

    /// Most of its nodes were taken out.
    pub(crate) fn is_sparse(&self) -> bool {
        self.removed > self.slots / 2
    }

    /// The number of assigned slots.
    #[inline]
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Gives the next slot to a point, which has to have the highest id so far.
    pub(crate) fn push(&mut self, point: &Point) {
        if self.slots.is_multiple_of(BLOCK_SLOTS) {
            self.blocks.push(Block {
                points: Arc::new(Points {
                    codes: Vec::with_capacity(BLOCK_SLOTS * self.dimensions),
                    ..Points::default()
                }),
                links: Arc::default(),
            });
        }
        let block = self.blocks.last_mut().expect("there is one");
        let points = Arc::make_mut(&mut block.points);
        points.documents.push(point.document);
        points.coded.extend(&point.coded);
        points.codes.extend(&point.codes);
        points.ends.push(points.coded.len() as u32);
        let links = Arc::make_mut(&mut block.links);
        links.levels.push(0);
        links.lowest.resize(links.lowest.len() + self.stride, 0);
        self.slots += 1;
    }

    /// Gives a node its links on each level.
    pub(crate) fn set_links(&mut self, slot: Slot, levels: &[Vec<Slot>]) {
        let (block, at) = place(slot);
        let links = Arc::make_mut(&mut self.blocks[block].links);
        for level in 0..links.levels[at] {
            self.others -= links
                .others
                .remove(&(at as u8, level))
                .map_or(0, |links| links.len() + 16);
        }
        self.removed += usize::from(levels.is_empty());
        links.levels[at] = levels.len() as u8;
        links.lowest[at * self.stride] = 0;
        for (level, level_links) in levels.iter().enumerate() {
            if level == 0 && level_links.len() < self.stride {
                let lowest = &mut links.lowest[at * self.stride..];
                lowest[0] = level_links.len() as u32;
                lowest[1..=level_links.len()].copy_from_slice(level_links);
                continue;
            }
            self.others += level_links.len() + 16;
            links.others.insert((at as u8, level as u8), level_links.clone());
        }
    }

    /// The number of a node's levels.
    pub(crate) fn levels(&self, slot: Slot) -> usize {
        let (block, at) = place(slot);
        self.blocks[block].links.levels[at].into()
    }

    /// To which nodes one has links.
    #[inline]
    pub(crate) fn links(&self, slot: Slot, level: usize) -> &[Slot] {
        let (block, at) = place(slot);
        let links = &self.blocks[block].links;
        let lowest = &links.lowest[at * self.stride..];
        match (level, lowest[0] as usize) {
            (0, count) if count > 0 => &lowest[1..=count],
            _ => links.others.get(&(at as u8, level as u8)).map_or(&[], Vec::as_slice),
        }
    }

    /// Prefetches a node's links on the lowest level, which will be read soon.
    #[inline]
    pub(crate) fn fetch_links(&self, slot: Slot) {
        let (block, at) = place(slot);
        prefetch(&self.blocks[block].links.lowest[at * self.stride..][..self.stride]);
    }

    /// The document of a slot.
    #[inline]
    pub(crate) fn document(&self, slot: Slot) -> DocumentId {
        let (block, at) = place(slot);
        self.blocks[block].points.documents[at]
    }

    /// Whether a document has a slot, and which.
    pub(crate) fn slot_of(&self, document: DocumentId) -> Option<Slot> {
        let block = self
            .blocks
            .partition_point(|block| block.points.documents[0] <= document);
        let block = block.checked_sub(1)?;
        let at = self.blocks[block].points.documents.binary_search(&document).ok()?;
        Some((block * BLOCK_SLOTS + at) as Slot)
    }

    /// The first slot from one on whose document is not before another. It is mostly near.
    pub(crate) fn first_from(&self, slot: Slot, document: DocumentId) -> Slot {
        let slots = self.slots as Slot;
        let (mut start, mut step) = (slot, 1);
        while start + step <= slots && self.document(start + step - 1) < document {
            start += step;
            step *= 2;
        }
        let mut end = slots.min(start + step - 1);
        while start < end {
            let middle = start + (end - start) / 2;
            match self.document(middle) < document {
                true => start = middle + 1,
                false => end = middle,
            }
        }
        start
    }

    /// The codes of a slot.
    #[inline]
    pub(crate) fn point(&self, slot: Slot) -> PointCodes<'_> {
        let (block, at) = place(slot);
        let points = &*self.blocks[block].points;
        let (start, end) = match points.coded.len() == points.documents.len() {
            // Each has one.
            true => (at, at + 1),
            false => (
                at.checked_sub(1).map_or(0, |before| points.ends[before] as usize),
                points.ends[at] as usize,
            ),
        };
        PointCodes {
            coded: &points.coded[start..end],
            codes: &points.codes[start * self.dimensions..end * self.dimensions],
        }
    }
}

impl cache::Image for Image {
    type Change = Change;

    fn apply(&mut self, change: Change) {
        change.added.iter().for_each(|point| self.push(point));
        for (slot, levels) in &change.nodes {
            self.set_links(*slot, levels);
        }
    }

    fn bytes(&self) -> usize {
        let slot_bytes = self.dimensions + 4 * self.stride + size_of::<Coded>() + 16;
        self.slots.next_multiple_of(BLOCK_SLOTS) * slot_bytes + 4 * self.others
    }
}

#[inline]
fn place(slot: Slot) -> (usize, usize) {
    (slot as usize / BLOCK_SLOTS, slot as usize % BLOCK_SLOTS)
}

/// Slots that were seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    words: Vec<u64>,
    touched: Vec<Slot>,
}

impl Seen {
    /// Returns true if the slot was not seen before.
    #[inline]
    pub fn insert(&mut self, slot: Slot) -> bool {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        if word >= self.words.len() {
            self.words.resize((word + 1).next_power_of_two(), 0);
        }
        let is_new = self.words[word] & bit == 0;
        if is_new {
            self.words[word] |= bit;
            self.touched.push(slot);
        }
        is_new
    }

    pub fn clear(&mut self) {
        for slot in self.touched.drain(..) {
            self.words[slot as usize / 64] = 0;
        }
    }
}
