//! The tree on disk, as one flush has left it: reading it.

use std::ops::Range;
use std::sync::Arc;

use quartet_model::Version;
use smallvec::SmallVec;

use super::files::{Files, Pin, damaged};
use super::heads::partition;
use super::node::{Child, Entry, Inner, Leaf, Node, Place, Value};
use super::node_cache::{OpenTree, Step};
use crate::error::StoreError;
use crate::row::Row;

/// Number of keys that are looked up together.
const SIDE_BY_SIDE: usize = 16;

/// Number of leaves requested from the disk together: enough to keep it busy while the first are
/// processed.
const REQUESTED_AT_ONCE: usize = 256;

/// One of each key.
type SideBySide<T> = SmallVec<[T; SIDE_BY_SIDE]>;

/// A leaf, and which of its rows may be that under the key it was looked for with.
type Lookup = (Arc<Node>, Range<usize>);

/// One generation of the tree. Cloning it is cheap and keeps its files.
#[derive(Clone)]
pub(super) struct Base {
    pub tree: Option<Arc<OpenTree>>,
    pub files: Arc<Files>,
    pub pin: Arc<Pin>,
}

/// The number of rows below a key, and their size in memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Rank {
    pub rows: u64,
    pub row_bytes: u64,
}

impl Base {
    pub fn rows(&self) -> u64 {
        self.tree.as_ref().map_or(0, |open| open.tree.root.rows)
    }

    /// The leaf that the path of `child_of` leads to; `None` without a tree.
    fn leaf(&self, mut child_of: impl FnMut(&Inner) -> usize) -> Result<Option<Arc<Node>>, StoreError> {
        let Some(open) = &self.tree else { return Ok(None) };
        let step = open.step(&mut child_of);
        self.leaf_behind(&step, child_of).map(Some)
    }

    fn leaf_behind(&self, step: &Step<'_>, mut child_of: impl FnMut(&Inner) -> usize) -> Result<Arc<Node>, StoreError> {
        let mut node = step.node(&self.files)?;
        while let Node::Inner(inner) = &*node {
            node = self.files.node(&inner.children[child_of(inner)].place)?;
        }
        Ok(node)
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Row>, StoreError> {
        let Some(leaf) = self.leaf(|inner| inner.child_of(key))? else {
            return Ok(None);
        };
        leaf_of(&leaf).find(key).map(|entry| self.row(entry)).transpose()
    }

    /// The rows under the keys, in their order: several take little longer than one row.
    pub fn get_each(&self, keys: &[&[u8]]) -> Result<Vec<Option<Row>>, StoreError> {
        let Some(open) = &self.tree else {
            return Ok(vec![None; keys.len()]);
        };
        let mut rows = Vec::with_capacity(keys.len());
        for keys in keys.chunks(REQUESTED_AT_ONCE) {
            let steps = steps(open, keys);
            self.request_leaves(&steps, keys)?;
            for (steps, keys) in steps.chunks(SIDE_BY_SIDE).zip(keys.chunks(SIDE_BY_SIDE)) {
                for ((leaf, sought), key) in self.seek_behind(steps, keys)?.into_iter().zip(keys) {
                    let entry = leaf_of(&leaf).find_sought(sought, key);
                    rows.push(entry.map(|entry| self.row(entry)).transpose()?);
                }
            }
        }
        Ok(rows)
    }

    /// Prefetches the rows under the keys, as far as they can be read. The disk receives the
    /// requests for many leaves at once, and leaves that have arrived are processed while it reads
    /// the others.
    pub fn fetch(&self, keys: &[&[u8]]) {
        let Some(open) = &self.tree else { return };
        for keys in keys.chunks(REQUESTED_AT_ONCE) {
            let steps = steps(open, keys);
            if self.request_leaves(&steps, keys).is_err() {
                return;
            }
            let groups = steps.chunks(SIDE_BY_SIDE).zip(keys.chunks(SIDE_BY_SIDE));
            groups.for_each(|(steps, keys)| drop(self.seek_behind(steps, keys)));
        }
    }

    /// The leaves that contain the keys, reached from the first steps of their paths, and the
    /// candidate rows in each leaf. Each further step is done for all keys, so that their cache
    /// misses overlap.
    fn seek_behind(&self, steps: &[Step<'_>], keys: &[&[u8]]) -> Result<SideBySide<Lookup>, StoreError> {
        steps.iter().for_each(Step::prefetch);
        let mut leaves = SideBySide::new();
        for (step, key) in steps.iter().zip(keys) {
            leaves.push(self.leaf_behind(step, |inner| inner.child_of(key))?);
        }
        leaves.iter().for_each(|leaf| leaf_of(leaf).prefetch());
        let sought = |(leaf, key): (Arc<Node>, &&[u8])| {
            let sought = leaf_of(&leaf).seek(key);
            (leaf, sought)
        };
        Ok(leaves.into_iter().zip(keys).map(sought).collect())
    }

    /// Reads the leaves at the end of several ways.
    fn request_leaves(&self, steps: &[Step<'_>], keys: &[&[u8]]) -> Result<(), StoreError> {
        let mut places: SideBySide<Place> = SideBySide::new();
        for (step, key) in steps.iter().zip(keys) {
            places.extend(step.leaf_to_read(&self.files, |inner| inner.child_of(key))?);
        }
        if places.len() > 1 {
            self.files.will_need(&places);
        }
        Ok(())
    }

    /// The rows below `key`.
    pub fn rank(&self, key: &[u8]) -> Result<Rank, StoreError> {
        let mut rank = Rank::default();
        let leaf = self.leaf(|inner| {
            let index = inner.child_of(key);
            for child in &inner.children[..index] {
                rank.rows += child.rows;
                rank.row_bytes += child.row_bytes;
            }
            index
        })?;
        if let Some(leaf) = leaf {
            let leaf = leaf_of(&leaf);
            let index = leaf.rank(key);
            rank.rows += index as u64;
            rank.row_bytes += leaf.entries().take(index).map(|entry| entry.row_bytes()).sum::<u64>();
        }
        Ok(rank)
    }

    /// Returns true if a row of the range is newer than `version`. Passes over whole subtrees that
    /// hold none.
    pub fn has_newer(&self, start: &[u8], end: &[u8], version: Version) -> Result<bool, StoreError> {
        match &self.tree {
            Some(open) if start < end => self.child_has_newer(&open.tree.root, start, end, version),
            _ => Ok(false),
        }
    }

    fn child_has_newer(&self, child: &Child, start: &[u8], end: &[u8], version: Version) -> Result<bool, StoreError> {
        if child.newest <= version {
            return Ok(false);
        }
        match &*self.files.node(&child.place)? {
            Node::Leaf(leaf) => {
                let mut entries = (leaf.rank(start)..leaf.rank(end)).map(|index| leaf.entry(index));
                Ok(entries.any(|entry| entry.version > version))
            }
            Node::Inner(inner) => {
                for below in &inner.children[inner.child_of(start)..=inner.child_of(end)] {
                    if self.child_has_newer(below, start, end, version)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Finds the last row that `is_before` holds for, with the key and the number of rows before
    /// it; it holds for all rows up to some, and for none after. The answer: the row's leaf, its
    /// index there and the rows before it; index `None` if it holds for no row, and then the leaf
    /// is the first.
    pub fn last_before(&self, is_before: impl Fn(&[u8], u64) -> bool) -> Result<Option<Found>, StoreError> {
        let mut before = 0;
        let leaf = self.leaf(|inner| {
            let starts = starts(inner, before);
            let count = partition(starts.len(), |index| {
                is_before(&inner.children[index].low, starts[index])
            });
            let index = count.saturating_sub(1);
            before = starts[index];
            index
        })?;
        Ok(leaf.map(|node| {
            let leaf = leaf_of(&node);
            let count = partition(leaf.len(), |index| is_before(leaf.key(index), before + index as u64));
            let index = count.checked_sub(1);
            Found { node, index, before }
        }))
    }

    pub fn row(&self, entry: Entry<'_>) -> Result<Row, StoreError> {
        match entry.value {
            Value::Inline(value) => Ok(Row::new(entry.key, value, entry.version)),
            Value::Apart(place) => Ok(Row::new(entry.key, &self.files.read(&place)?, entry.version)),
        }
    }

    /// A cursor at the first row at or above `key`.
    pub fn cursor_at(&self, key: &[u8], keeps: CacheMode) -> Result<Cursor<'_>, StoreError> {
        let mut cursor = Cursor {
            base: self,
            keeps,
            path: Vec::new(),
            leaf: None,
            index: 0,
        };
        cursor.seek(key)?;
        Ok(cursor)
    }

    /// Reads the whole tree and verifies what it says of itself. Calls `visit` for each place that
    /// it needs.
    pub fn verify(&self, visit: &mut dyn FnMut(&Place)) -> Result<(), StoreError> {
        let Some(open) = &self.tree else { return Ok(()) };
        self.verify_child(&open.tree.root, open.tree.height, None, visit)
    }

    fn verify_child(
        &self,
        child: &Child,
        height: u8,
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&Place),
    ) -> Result<(), StoreError> {
        visit(&child.place);
        let wrong = |reason| Err(damaged(&child.place, reason));
        let (mut rows, mut row_bytes, mut newest) = (0, 0, Version::ZERO);
        match self.files.read_node(&child.place)? {
            Node::Leaf(leaf) if height == 0 => {
                for (index, entry) in leaf.entries().enumerate() {
                    if *entry.key < *child.low || high.is_some_and(|high| entry.key >= high) {
                        return wrong("a row outside its node");
                    }
                    if index > 0 && leaf.key(index - 1) >= entry.key {
                        return wrong("rows out of order");
                    }
                    if let Value::Apart(place) = entry.value {
                        visit(&place);
                        self.files.read(&place)?;
                    }
                    rows += 1;
                    row_bytes += entry.row_bytes();
                    newest = newest.max(entry.version);
                }
            }
            Node::Inner(inner) if inner.height == height => {
                for (index, below) in inner.children.iter().enumerate() {
                    let next = inner.children.get(index + 1).map(|next| &*next.low).or(high);
                    if below.low < child.low || next.is_some_and(|next| &*below.low >= next) {
                        return wrong("children out of order");
                    }
                    self.verify_child(below, height - 1, next, visit)?;
                    rows += below.rows;
                    row_bytes += below.row_bytes;
                    newest = newest.max(below.newest);
                }
            }
            _ => return wrong("a node of another height"),
        }
        if (rows, row_bytes) != (child.rows, child.row_bytes) {
            return wrong("counts unlike the rows");
        }
        if newest > child.newest {
            return wrong("a row newer than said");
        }
        Ok(())
    }
}

/// A row that was looked for.
pub(super) struct Found {
    node: Arc<Node>,
    pub index: Option<usize>,
    /// Rows before the leaf.
    before: u64,
}

impl Found {
    pub fn leaf(&self) -> &Leaf {
        leaf_of(&self.node)
    }

    pub fn with_index(self) -> Option<(Found, usize)> {
        let index = self.index?;
        Some((self, index))
    }

    /// Rows before the row found, or before the leaf.
    pub fn before(&self) -> u64 {
        self.before + self.index.unwrap_or(0) as u64
    }
}

/// The number of rows before each child.
fn starts(inner: &Inner, before: u64) -> Vec<u64> {
    let rows = inner.children.iter().map(|child| child.rows);
    rows.scan(before, |next, rows| {
        let start = *next;
        *next += rows;
        Some(start)
    })
    .collect()
}

/// The first step of each key's way.
fn steps<'t>(open: &'t OpenTree, keys: &[&[u8]]) -> SideBySide<Step<'t>> {
    keys.iter().map(|key| open.step(|inner| inner.child_of(key))).collect()
}

fn leaf_of(node: &Node) -> &Leaf {
    match node {
        Node::Leaf(leaf) => leaf,
        Node::Inner(_) => unreachable!("a way down ends at a leaf"),
    }
}

/// Which nodes that a cursor reads stay cached for others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheMode {
    Leaves,
    /// Inner nodes are cached all the same: they are few, and the cursor itself returns to them.
    Nothing,
}

/// A position between rows, which reads rows in either direction.
pub(super) struct Cursor<'b> {
    base: &'b Base,
    keeps: CacheMode,
    /// The inner nodes above the leaf, and which child was taken.
    path: Vec<(Arc<Node>, usize)>,
    leaf: Option<Arc<Node>>,
    /// Index of the row after the cursor: up to the leaf's length.
    index: usize,
}

impl Cursor<'_> {
    /// Goes before the first row at or above `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.path.clear();
        self.leaf = None;
        let Some(open) = &self.base.tree else { return Ok(()) };
        self.go_down(&open.tree.root.place, |inner| inner.child_of(key))?;
        self.index = self.leaf.as_ref().map_or(0, |leaf| leaf_of(leaf).rank(key));
        Ok(())
    }

    /// The row after the cursor.
    pub fn after(&mut self) -> Result<Option<Entry<'_>>, StoreError> {
        while let Some(leaf) = &self.leaf {
            if self.index < leaf_of(leaf).len() {
                break;
            }
            if !self.next_leaf()? {
                return Ok(None);
            }
        }
        Ok(self.leaf.as_ref().map(|leaf| leaf_of(leaf).entry(self.index)))
    }

    /// The row before the cursor.
    pub fn before(&mut self) -> Result<Option<Entry<'_>>, StoreError> {
        while self.leaf.is_some() && self.index == 0 {
            if !self.previous_leaf()? {
                return Ok(None);
            }
        }
        Ok(self.leaf.as_ref().map(|leaf| leaf_of(leaf).entry(self.index - 1)))
    }

    /// Advances past the row that `after` has returned.
    pub fn step(&mut self) {
        self.index += 1;
    }

    /// Goes before the row that `before` has answered.
    pub fn step_back(&mut self) {
        self.index -= 1;
    }

    fn next_leaf(&mut self) -> Result<bool, StoreError> {
        while let Some((node, index)) = self.path.pop() {
            let Node::Inner(inner) = &*node else { continue };
            if let Some(child) = inner.children.get(index + 1) {
                self.path.push((node.clone(), index + 1));
                self.go_down(&child.place, |_| 0)?;
                self.index = 0;
                return Ok(true);
            }
        }
        self.leaf = None;
        Ok(false)
    }

    fn previous_leaf(&mut self) -> Result<bool, StoreError> {
        while let Some((node, index)) = self.path.pop() {
            let Node::Inner(inner) = &*node else { continue };
            if let Some(before) = index.checked_sub(1) {
                self.path.push((node.clone(), before));
                self.go_down(&inner.children[before].place, |inner| inner.children.len() - 1)?;
                self.index = self.leaf.as_ref().map_or(0, |leaf| leaf_of(leaf).len());
                return Ok(true);
            }
        }
        self.leaf = None;
        Ok(false)
    }

    fn go_down(&mut self, place: &Place, child_of: impl Fn(&Inner) -> usize) -> Result<(), StoreError> {
        let mut node = self.node(place)?;
        loop {
            let next = match &*node {
                Node::Leaf(_) => break,
                Node::Inner(inner) => {
                    let index = child_of(inner);
                    let place = inner.children[index].place;
                    self.path.push((node.clone(), index));
                    self.node(&place)?
                }
            };
            node = next;
        }
        self.leaf = Some(node);
        Ok(())
    }

    /// The node at a place below the end of the path.
    fn node(&self, place: &Place) -> Result<Arc<Node>, StoreError> {
        let parent = self.path.last().map(|(parent, _)| &**parent);
        let is_leaf = matches!(parent, Some(Node::Inner(inner)) if inner.height == 1);
        match is_leaf && self.keeps == CacheMode::Nothing {
            true => self.base.files.node_once(place),
            false => self.base.files.node(place),
        }
    }
}
