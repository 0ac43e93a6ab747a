//! The ordered map of the memory engine: a persistent B+tree of rows that knows how many rows each
//! subtree holds.
//!
//! ```text
//! inner   separators        "g"      "p"          keys below "g" are in the first child, keys from "p" in the last
//!         counts       21   |   17   |   30
//!         children     |        |        |
//! leaf              rows ...  rows ...  rows ...  every leaf is equally deep
//! ```
//!
//! Nodes are shared by reference counts. A clone of the tree is a clone of its root; a writer
//! copies the nodes it changes only while a snapshot holds them, and otherwise changes them in
//! place. With the counts, the rank of a key and the n-th row cost one descent, and an iterator is
//! two ranks: at the end of a leaf it descends again to the next rank, so it needs no stack, no
//! parent pointers and no allocation.
//!
//! Each child has a version that no row below it exceeds, so a check whether a range has a row
//! newer than a version visits no rows. A write raises the versions on its path. Removing or
//! splitting off rows lowers none, which would require visiting all remaining rows: a version above
//! all rows only costs a visit of that subtree. Restoring an older row, as a rollback does, lowers
//! it again.
//!
//! Nodes are freed when empty and merged with a neighbour when both are small; they are not kept
//! half full, because deletions are rarely the end of a key range's life and moving rows between
//! leaves costs more than it saves. A leaf that overflows at the left or right edge of the tree, or
//! of keys with a common prefix, splits there, so that ascending and descending loads leave full
//! leaves, and the rows of a leaf share a prefix. It splits after rows that arrived in their
//! order, as numbered names do; in all other places it splits in halves. So does an inner node,
//! with its children as rows.
//!
//! Invariants: keys of child `i` are between separators `i - 1` and `i`; `counts[i]` is the number
//! of rows below child `i` and is never 0; no row below a child is newer than its `newest`; an
//! inner node has at least one child; the root is a leaf if the tree is empty.

use std::ops::{self, ControlFlow, Deref, DerefMut};

use quartet_model::Version;
use triomphe::Arc;

use crate::interface::Walk;
use crate::memory::run::{Fences, Lookup, Run, common_prefix, separator};
use crate::prefetch::prefetch;
use crate::row::Row;

/// The tree of the memory engine.
///
/// A leaf of 28 rows is 504 bytes and an inner node of 30 children 1496, both just within an
/// allocator's size class. Leaves of 14 rows cost 7 bytes a row more; leaves of 62 save 3, but
/// twice as much is copied at the first write under a snapshot. `benches/tree_cost.rs` measures
/// it.
pub type Tree = CountedTree<LEAF_ROWS, INNER_CHILDREN>;

/// The rows that a range removal takes out of a [`Tree`].
pub type RemovedRows = Removed<LEAF_ROWS, INNER_CHILDREN>;

/// Most rows of a leaf of a [`Tree`].
pub const LEAF_ROWS: usize = 28;
/// Most children of an inner node of a [`Tree`].
pub const INNER_CHILDREN: usize = 30;

/// The tree by rows per leaf and children per inner node, both at least 4; tests use small ones to
/// make deep trees.
#[derive(Clone)]
pub struct CountedTree<const LEAF: usize, const INNER: usize> {
    root: Node<LEAF, INNER>,
    len: u64,
    /// No row is newer.
    newest: Version,
}

#[derive(Clone)]
enum Node<const LEAF: usize, const INNER: usize> {
    Leaf(Arc<Run<LEAF>>),
    Inner(Arc<Inner<LEAF, INNER>>),
}

/// Takes a leaf and the indexes of some of its rows; breaks to end the visit.
type VisitLeaf<'v, const LEAF: usize> = &'v mut dyn FnMut(&Run<LEAF>, ops::Range<usize>) -> ControlFlow<()>;

#[derive(Clone)]
#[repr(C)]
struct Inner<const LEAF: usize, const INNER: usize> {
    /// One fewer than there are children.
    separators: Run<INNER>,
    counts: [u64; INNER],
    children: Children<LEAF, INNER>,
}

/// Like the rows of a run they have arbitrary addresses and a count each, so all are prefetched
/// before they are copied or dropped.
struct Children<const LEAF: usize, const INNER: usize>([Option<Child<LEAF, INNER>>; INNER]);

/// A subtree as its parent holds it.
#[derive(Clone)]
struct Child<const LEAF: usize, const INNER: usize> {
    node: Node<LEAF, INNER>,
    /// No row below is newer; all may be older.
    newest: Version,
}

impl<const LEAF: usize, const INNER: usize> Children<LEAF, INNER> {
    const EMPTY: Children<LEAF, INNER> = Children([const { None }; INNER]);

    fn fetch(&self) {
        self.0.iter().flatten().for_each(|child| child.node.prefetch());
    }
}

impl<const LEAF: usize, const INNER: usize> Clone for Children<LEAF, INNER> {
    fn clone(&self) -> Self {
        self.fetch();
        Children(self.0.clone())
    }
}

impl<const LEAF: usize, const INNER: usize> Drop for Children<LEAF, INNER> {
    fn drop(&mut self) {
        self.fetch();
    }
}

impl<const LEAF: usize, const INNER: usize> Deref for Children<LEAF, INNER> {
    type Target = [Option<Child<LEAF, INNER>>; INNER];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<const LEAF: usize, const INNER: usize> DerefMut for Children<LEAF, INNER> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Prefetch distance of a visit of a leaf, in rows, which have arbitrary addresses.
const VISITED_AHEAD: usize = 4;

/// Number of descents that run side by side: about the number of lines that a processor fetches at
/// a time.
const SIDE_BY_SIDE: usize = 16;

/// The path to a row: the index of the child in each inner node, then the index of the row. Derived
/// from heads only, and valid until rows are added or removed: its user compares the row's key.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    steps: [u8; WAY_STEPS_MAX],
    /// A longer path is not stored.
    len: u8,
}

/// A tree of nodes that are a quarter full has fewer levels up to a hundred billion rows.
const WAY_STEPS_MAX: usize = 15;

impl Way {
    const START: Way = Way {
        steps: [0; WAY_STEPS_MAX],
        len: 0,
    };

    #[inline]
    fn step(&mut self, index: usize) {
        if let Some(step) = self.steps.get_mut(usize::from(self.len)) {
            *step = index as u8;
        }
        self.len = self.len.saturating_add(1);
    }

    /// The children to go to, and the row in the leaf.
    #[inline]
    fn steps(&self) -> Option<(&[u8], usize)> {
        let (row, children) = self.steps.get(..usize::from(self.len))?.split_last()?;
        Some((children, usize::from(*row)))
    }
}

/// Searches that go down the tree side by side. Each step is one thing done for all of them, so
/// that none waits for another.
struct Searches<'t, 'k, const LEAF: usize, const INNER: usize> {
    keys: &'k [&'k [u8]],
    nodes: [&'t Node<LEAF, INNER>; SIDE_BY_SIDE],
    /// Lookups in the nodes; none where there is nothing to prefetch.
    sought: [Option<Lookup>; SIDE_BY_SIDE],
    /// To the nodes.
    ways: [Way; SIDE_BY_SIDE],
}

impl<'t, 'k, const LEAF: usize, const INNER: usize> Searches<'t, 'k, LEAF, INNER> {
    /// Descends to the leaves.
    fn new(root: &'t Node<LEAF, INNER>, keys: &'k [&'k [u8]]) -> Self {
        let mut searches = Searches {
            keys,
            nodes: [root; SIDE_BY_SIDE],
            sought: [None; SIDE_BY_SIDE],
            ways: [Way::START; SIDE_BY_SIDE],
        };
        while searches.descend() {}
        searches
    }

    fn each(&self) -> impl Iterator<Item = (&'t Node<LEAF, INNER>, Option<Lookup>, &'k [u8])> {
        let searches = self.nodes.iter().zip(&self.sought);
        searches
            .zip(self.keys)
            .map(|((node, sought), key)| (*node, *sought, *key))
    }

    /// Descends to the children that contain the keys. Returns false if the nodes are leaves.
    fn descend(&mut self) -> bool {
        for ((node, sought), key) in self.nodes.iter().zip(&mut self.sought).zip(self.keys) {
            *sought = match node {
                Node::Leaf(run) => run.seek(key),
                Node::Inner(inner) => inner.separators.seek(key),
            };
        }
        let mut children = [None; SIDE_BY_SIDE];
        let searches = self.nodes.iter().zip(&self.sought).zip(&mut self.ways);
        for (place, (((node, sought), way), key)) in children.iter_mut().zip(searches.zip(self.keys)) {
            let Node::Inner(inner) = node else {
                return false;
            };
            let result = sought.map_or_else(
                || inner.separators.find(key),
                |sought| inner.separators.find_sought(sought, key),
            );
            let index = result.map_or_else(|index| index, |index| index + 1);
            way.step(index);
            let child = &inner.children[index];
            prefetch(child);
            *place = child.as_ref();
        }
        for (node, child) in self.nodes.iter_mut().zip(children.into_iter().flatten()) {
            *node = &child.node;
            child.node.prefetch();
        }
        true
    }

    /// Prefetches the rows that the leaves name for the keys.
    fn fetch_rows(&self) {
        let mut slots = [None; SIDE_BY_SIDE];
        for (place, (node, sought, _)) in slots.iter_mut().zip(self.each()) {
            if let (Node::Leaf(run), Some(sought)) = (node, sought) {
                *place = run.slot_near(sought);
                place.iter().for_each(|slot| prefetch(std::ptr::from_ref(*slot)));
            }
        }
        slots.into_iter().flatten().flatten().for_each(Row::prefetch);
    }

    /// Prefetches the rows that walks from the keys visit, as far as they are in the leaf or its
    /// neighbour.
    fn fetch_walks(&self, root: &'t Node<LEAF, INNER>, walks: &[Walk<'_>]) {
        let mut parts: [&[Option<Row>]; 2 * SIDE_BY_SIDE] = [&[]; 2 * SIDE_BY_SIDE];
        for ((((node, sought, key), way), walk), parts) in
            self.each().zip(&self.ways).zip(walks).zip(parts.chunks_exact_mut(2))
        {
            let Node::Leaf(run) = node else {
                return;
            };
            let first = sought.map_or_else(|| run.rank(key), |sought| run.index_near(sought));
            parts[0] = part(run.rows(), first, walk.rows, walk.reverse);
            let missing = walk.rows - parts[0].len();
            if missing > 0
                && let Some(Node::Leaf(beside)) = root.beside(way, walk.reverse)
            {
                // Their number is unknown until they are in the cache.
                let from = if walk.reverse { LEAF } else { 0 };
                parts[1] = part(beside.slots(), from, missing, walk.reverse);
                prefetch(Arc::as_ptr(beside));
            }
            parts.iter().for_each(|part| fetch_slots(part));
        }
        parts
            .iter()
            .for_each(|part| part.iter().flatten().for_each(Row::prefetch));
    }

    /// The ways to the rows that the leaves say to be at the keys; `None` where there is none, or
    /// more than one.
    fn ways(&self) -> impl Iterator<Item = Option<Way>> {
        self.each().zip(&self.ways).map(|((node, sought, key), way)| {
            let Node::Leaf(run) = node else {
                return None;
            };
            let index = sought.map_or_else(|| run.find(key).ok(), |sought| run.index_at(sought))?;
            let mut way = *way;
            way.step(index);
            Some(way)
        })
    }

    /// The rows at the keys.
    fn rows(&self) -> impl Iterator<Item = Option<&'t Row>> {
        self.each().map(|(node, sought, key)| {
            let Node::Leaf(run) = node else {
                return None;
            };
            let result = sought.map_or_else(|| run.find(key), |sought| run.find_sought(sought, key));
            result.ok().map(|index| run.row(index))
        })
    }
}

/// Returns up to `most` rows before or from an index.
fn part(rows: &[Option<Row>], from: usize, most: usize, reverse: bool) -> &[Option<Row>] {
    match reverse {
        true => &rows[from.saturating_sub(most)..from],
        false => &rows[from..rows.len().min(from.saturating_add(most))],
    }
}

/// Prefetches all lines of handles.
fn fetch_slots(slots: &[Option<Row>]) {
    slots.chunks(8).for_each(|line| prefetch(line.as_ptr()));
    slots.last().iter().for_each(|last| prefetch(std::ptr::from_ref(*last)));
}

enum Inserted<const LEAF: usize, const INNER: usize> {
    Replaced(Row),
    Added,
    /// One row was added and the node's upper part moved out, to be linked after the separator.
    Split(Row, Node<LEAF, INNER>),
}

/// The row of a range to be removed, relative to the bound from which it is searched: the first at
/// or above it, or the last below it.
#[derive(Clone, Copy)]
struct EndOfRange<'a> {
    /// The range's other bound.
    limit: &'a [u8],
    last: bool,
}

impl EndOfRange<'_> {
    fn holds(self, key: &[u8]) -> bool {
        if self.last { key >= self.limit } else { key < self.limit }
    }
}

enum EndFound {
    Removed(Row),
    /// The range is empty.
    Empty,
    /// No row of this subtree is on the searched side of the bound: the neighbour has the row.
    Beyond,
}

impl<const LEAF: usize, const INNER: usize> CountedTree<LEAF, INNER> {
    /// An empty tree.
    pub fn new() -> Self {
        CountedTree {
            root: Node::Leaf(Arc::new(Run::empty())),
            len: 0,
            newest: Version::ZERO,
        }
    }

    /// Rows in strictly ascending order of their keys; panics on any other order. O(n).
    pub fn from_sorted(rows: impl IntoIterator<Item = Row>) -> Self {
        let mut builder = TreeBuilder::new();
        rows.into_iter().for_each(|row| builder.push(row));
        builder.finish()
    }

    /// The number of rows. O(1).
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if there is no row. O(1).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The row under `key`. O(log n).
    pub fn get(&self, key: &[u8]) -> Option<&Row> {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(run) => return run.find(key).ok().map(|index| run.row(index)),
                Node::Inner(inner) => node = inner.child(inner.child_of(key)),
            }
        }
    }

    /// The rows under the keys, in their order. Several take little longer than one: see
    /// [`Searches`].
    pub fn get_each<'t>(&'t self, keys: &[&[u8]], visit: &mut dyn FnMut(Option<&'t Row>)) {
        for keys in keys.chunks(SIDE_BY_SIDE) {
            let searches = Searches::new(&self.root, keys);
            searches.fetch_rows();
            searches.rows().for_each(&mut *visit);
        }
    }

    /// Descends to the keys in parallel, so that operations on them soon afterwards rarely miss the
    /// cache. Passes the paths on in order: `None` for an absent key, or a key that heads do not
    /// distinguish from others.
    pub fn fetch(&self, keys: &[&[u8]], visit: &mut dyn FnMut(Option<Way>)) {
        for keys in keys.chunks(SIDE_BY_SIDE) {
            let searches = Searches::new(&self.root, keys);
            searches.fetch_rows();
            searches.ways().for_each(&mut *visit);
        }
    }

    /// Prefetches the rows under the keys with the first bytes of their values, for callers that
    /// read whole rows.
    pub fn fetch_rows(&self, keys: &[&[u8]]) {
        for keys in keys.chunks(SIDE_BY_SIDE) {
            let searches = Searches::new(&self.root, keys);
            searches.fetch_rows();
            searches.rows().flatten().for_each(Row::prefetch_on);
        }
    }

    /// The same for walks, and prefetches the rows that they visit.
    pub fn fetch_walks(&self, walks: &[Walk<'_>]) {
        for walks in walks.chunks(SIDE_BY_SIDE) {
            let mut keys: [&[u8]; SIDE_BY_SIDE] = [&[]; SIDE_BY_SIDE];
            keys.iter_mut().zip(walks).for_each(|(key, walk)| *key = walk.from);
            Searches::new(&self.root, &keys[..walks.len()]).fetch_walks(&self.root, walks);
        }
    }

    /// Replaces the row at the end of the path, which is returned, if it has the same key and is
    /// not newer. Returns the new row as an error otherwise. No key is looked up.
    pub fn replace(&mut self, way: &Way, row: Row) -> Result<Row, Row> {
        let version = row.version();
        let Some((children, index)) = way.steps() else {
            return Err(row);
        };
        // Raised even if the path leads to another row: see the file's header.
        self.newest = self.newest.max(version);
        let mut node = &mut self.root;
        for child in children {
            let Node::Inner(inner) = node else {
                return Err(row);
            };
            let inner = Arc::make_mut(inner);
            let Some(Some(child)) = inner.children.get_mut(usize::from(*child)) else {
                return Err(row);
            };
            child.newest = child.newest.max(version);
            node = &mut child.node;
        }
        let Node::Leaf(run) = node else {
            return Err(row);
        };
        let is_there = |old: &Option<Row>| {
            old.as_ref()
                .is_some_and(|old| old.key() == row.key() && old.version() <= version)
        };
        if !run.rows().get(index).is_some_and(is_there) {
            return Err(row);
        }
        Ok(Arc::make_mut(run).replace(index, row))
    }

    /// Replaces the row with the same key, which is returned, or adds the row.
    pub fn insert(&mut self, row: Row) -> Option<Row> {
        let version = row.version();
        self.newest = self.newest.max(version);
        match self.root.insert(row, None) {
            Inserted::Replaced(old) => {
                if old.version() > version {
                    self.newest = self.root.newest();
                }
                return Some(old);
            }
            Inserted::Added => {}
            Inserted::Split(separator, right) => self.grow(separator, right),
        }
        self.len += 1;
        None
    }

    /// Removes and returns the row under `key`. O(log n).
    pub fn remove(&mut self, key: &[u8]) -> Option<Row> {
        let removed = self.root.remove(key, Fences::OPEN)?;
        self.len -= 1;
        self.shrink();
        Some(removed)
    }

    /// Removes and returns the row with `index` rows before it. O(log n), and no key is compared.
    pub fn remove_nth(&mut self, index: u64) -> Option<Row> {
        if index >= self.len {
            return None;
        }
        let removed = self.root.remove_nth(index, Fences::OPEN);
        self.len -= 1;
        self.shrink();
        Some(removed)
    }

    /// Removes and returns the first row from `start` up to, not including, `end`, or the last. One
    /// descent.
    pub fn remove_end(&mut self, start: &[u8], end: &[u8], last: bool) -> Option<Row> {
        if start >= end {
            return None;
        }
        let (bound, limit) = if last { (end, start) } else { (start, end) };
        let target = EndOfRange { limit, last };
        let EndFound::Removed(removed) = self.root.remove_end(Some(bound), target, Fences::OPEN) else {
            return None;
        };
        self.len -= 1;
        self.shrink();
        Some(removed)
    }

    /// Removes the rows from `start`, inclusive, to `end`, exclusive. O(log n): whole subtrees move
    /// to the returned value, and dropping it pays for freeing them.
    pub fn remove_range(&mut self, start: &[u8], end: &[u8]) -> Removed<LEAF, INNER> {
        let mut removed = Removed {
            count: 0,
            parts: Vec::new(),
        };
        if start < end {
            self.root
                .remove_range(Some(start), Some(end), Fences::OPEN, &mut removed);
            self.len -= removed.count;
            self.shrink();
        }
        removed
    }

    /// The number of rows with a key below the given one. O(log n).
    pub fn rank(&self, key: &[u8]) -> u64 {
        let (mut node, mut rank) = (&self.root, 0);
        loop {
            match node {
                Node::Leaf(run) => return rank + run.rank(key) as u64,
                Node::Inner(inner) => {
                    let index = inner.child_of(key);
                    rank += inner.counts[..index].iter().sum::<u64>();
                    node = inner.child(index);
                }
            }
        }
    }

    /// The row with `index` rows before it. O(log n).
    pub fn nth(&self, index: u64) -> Option<&Row> {
        if index >= self.len {
            return None;
        }
        let (run, index) = self.root.leaf_at(index);
        Some(run.row(index))
    }

    /// The number of rows from `start` up to, not including, `end`. O(log n).
    pub fn count(&self, start: &[u8], end: &[u8]) -> u64 {
        if start >= end {
            return 0;
        }
        self.rank(end) - self.rank(start)
    }

    /// Returns true if a row from `start` up to, not including, `end` is newer than `version`.
    /// About O(log n): see the file's header.
    pub fn has_newer(&self, start: &[u8], end: &[u8], version: Version) -> bool {
        start < end && self.newest > version && self.root.has_newer(Some(start), Some(end), version)
    }

    /// Visits the rows from `start` up to, not including, `end`, in key order or backwards, until
    /// the visitor breaks. One descent to the first row; the end of the range is searched in each
    /// node on the way, not beforehand.
    pub fn visit(&self, start: &[u8], end: &[u8], reverse: bool, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) {
        if start < end {
            // The visitor decides when to stop; the caller knows that it did.
            let _ = self.root.visit(Some(start), Some(end), reverse, visit);
        }
    }

    /// Visits the last eight bytes of a range's keys as numbers, those of a leaf together: see
    /// [`crate::Read::scan_numbers`].
    pub fn visit_numbers(
        &self,
        start: &[u8],
        end: &[u8],
        key_bytes: usize,
        visit: &mut dyn FnMut(&[u64]) -> ControlFlow<()>,
    ) {
        if start >= end {
            return;
        }
        let mut numbers = [0; LEAF];
        let _ = self.root.visit_leaves(Some(start), Some(end), false, &mut |run, rows| {
            let numbers = &mut numbers[..rows.len()];
            run.read_numbers(rows, key_bytes, numbers);
            visit(numbers)
        });
    }

    /// The rows from `start` up to, not including, `end`, from either side. Two descents to create.
    pub fn range(&self, start: &[u8], end: &[u8]) -> Range<'_, LEAF, INNER> {
        if start >= end {
            return Range::new(&self.root, 0, 0);
        }
        Range::new(&self.root, self.rank(start), self.rank(end))
    }

    /// All rows in key order.
    pub fn rows(&self) -> Range<'_, LEAF, INNER> {
        Range::new(&self.root, 0, self.len)
    }

    /// All rows from `start` on in key order.
    pub fn rows_from(&self, start: &[u8]) -> Range<'_, LEAF, INNER> {
        Range::new(&self.root, self.rank(start), self.len)
    }

    /// Visits all rows in key order until the visitor breaks, and releases each node after its
    /// visit. An inner node is released once its children are known, so a concurrently written
    /// clone copies only nodes that have yet to be visited.
    pub fn drain(self, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) {
        let mut waiting = vec![self.root];
        while let Some(node) = waiting.pop() {
            match node {
                Node::Leaf(run) => {
                    let mut rows = run.rows().iter().flatten();
                    if rows.try_for_each(&mut *visit).is_break() {
                        return;
                    }
                }
                Node::Inner(inner) => {
                    let children = inner.children[..inner.len()].iter().rev().flatten();
                    waiting.extend(children.map(|child| child.node.clone()));
                }
            }
        }
    }

    /// Adds a level above a root that was split.
    fn grow(&mut self, separator: Row, right: Node<LEAF, INNER>) {
        let empty = Node::Leaf(Arc::new(Run::empty()));
        let old_root = std::mem::replace(&mut self.root, empty);
        let mut inner = Inner::with_child(Child::split_off(old_root, self.newest));
        inner.link(1, separator, Child::split_off(right, self.newest));
        inner.separators.fit(Fences::OPEN);
        self.root = Node::Inner(Arc::new(inner));
    }

    /// Removes levels that no longer divide anything.
    fn shrink(&mut self) {
        if self.len == 0 {
            self.root = Node::Leaf(Arc::new(Run::empty()));
        }
        while let Node::Inner(inner) = &self.root {
            if inner.len() > 1 {
                return;
            }
            self.root = inner.child(0).clone();
        }
    }
}

impl<const LEAF: usize, const INNER: usize> Default for CountedTree<LEAF, INNER> {
    fn default() -> Self {
        CountedTree::new()
    }
}

impl<const LEAF: usize, const INNER: usize> Node<LEAF, INNER> {
    /// Prefetches the line that a search visits first.
    fn prefetch(&self) {
        match self {
            Node::Leaf(run) => prefetch(Arc::as_ptr(run)),
            Node::Inner(inner) => prefetch(Arc::as_ptr(inner)),
        }
    }

    /// Prefetches the memory that a visit of all rows reads first.
    fn prefetch_to_visit(&self) {
        self.prefetch();
        if let Node::Leaf(run) = self {
            fetch_slots(run.slots());
        }
    }

    /// The neighbour of the node that the path leads to, if both have the same parent.
    fn beside(&self, way: &Way, before: bool) -> Option<&Self> {
        let (parents, index) = way.steps()?;
        let mut node = self;
        for parent in parents {
            let Node::Inner(inner) = node else {
                return None;
            };
            node = inner.child(usize::from(*parent));
        }
        let Node::Inner(inner) = node else {
            return None;
        };
        let index = if before { index.checked_sub(1)? } else { index + 1 };
        inner.children.get(index)?.as_ref().map(|child| &child.node)
    }

    /// The number of rows in this subtree.
    fn count(&self) -> u64 {
        match self {
            Node::Leaf(run) => run.len() as u64,
            Node::Inner(inner) => inner.counts[..inner.len()].iter().sum(),
        }
    }

    /// The version of the newest row in this subtree, or one above it.
    fn newest(&self) -> Version {
        let newest = match self {
            Node::Leaf(run) => run.rows().iter().flatten().map(Row::version).max(),
            Node::Inner(inner) => inner.children.iter().flatten().map(|child| child.newest).max(),
        };
        newest.unwrap_or(Version::ZERO)
    }

    /// Returns true if a row from `start` up to `end` is newer than `version`; `None` is this
    /// node's own end.
    fn has_newer(&self, start: Option<&[u8]>, end: Option<&[u8]>, version: Version) -> bool {
        #[cfg(test)]
        tests::VISITED.with(|count| count.set(count.get() + 1));
        match self {
            Node::Leaf(run) => {
                let from = start.map_or(0, |start| run.rank(start));
                let to = end.map_or(run.len(), |end| run.rank(end));
                let mut rows = run.rows()[from..to.max(from)].iter().flatten();
                rows.any(|row| row.version() > version)
            }
            Node::Inner(inner) => {
                let first = start.map_or(0, |start| inner.child_of(start));
                let last = end.map_or(inner.len() - 1, |end| inner.child_of(end));
                let mut children = inner.children[first..=last].iter().flatten().zip(first..);
                children.any(|(child, index)| {
                    let start = start.filter(|_| index == first);
                    let end = end.filter(|_| index == last);
                    child.newest > version && child.node.has_newer(start, end, version)
                })
            }
        }
    }

    /// The rows from `start` up to `end`; `None` is this node's own end.
    fn visit(
        &self,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        reverse: bool,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.visit_leaves(start, end, reverse, &mut |run, range| {
            let rows = &run.rows()[range];
            if reverse {
                return rows.iter().rev().flatten().try_for_each(&mut *visit);
            }
            let ahead = |at: usize| rows.get(at + VISITED_AHEAD).and_then(Option::as_ref);
            let mut rows = rows.iter().enumerate();
            rows.try_for_each(|(at, row)| {
                ahead(at).inspect(|row| row.prefetch());
                row.as_ref().map_or(ControlFlow::Continue(()), &mut *visit)
            })
        })
    }

    /// Visits the leaves from `start` up to `end`, each with the index range of its rows between
    /// them, which may be empty. `None` is this node's own end.
    fn visit_leaves(
        &self,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        reverse: bool,
        visit: VisitLeaf<'_, LEAF>,
    ) -> ControlFlow<()> {
        match self {
            Node::Leaf(run) => {
                let from = start.map_or(0, |start| run.rank(start));
                let to = end.map_or(run.len(), |end| run.rank(end));
                visit(run, from..to)
            }
            Node::Inner(inner) => {
                let first = start.map_or(0, |start| inner.child_of(start));
                let last = end.map_or(inner.len() - 1, |end| inner.child_of(end));
                let mut step = |index: usize| {
                    let start = start.filter(|_| index == first);
                    let end = end.filter(|_| index == last);
                    if index < last && !reverse {
                        inner.child(index + 1).prefetch_to_visit();
                    }
                    inner.child(index).visit_leaves(start, end, reverse, visit)
                };
                if reverse {
                    (first..=last).rev().try_for_each(&mut step)
                } else {
                    (first..=last).try_for_each(&mut step)
                }
            }
        }
    }

    /// The leaf that holds the row with `rank` rows of this subtree before it, and the row's index
    /// there.
    fn leaf_at(&self, mut rank: u64) -> (&Run<LEAF>, usize) {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(run) => return (run, rank as usize),
                Node::Inner(inner) => {
                    let (index, child_rank) = inner.child_at(rank);
                    rank = child_rank;
                    node = inner.child(index);
                }
            }
        }
    }

    fn insert(&mut self, row: Row, place: Option<&Place<'_, INNER>>) -> Inserted<LEAF, INNER> {
        match self {
            Node::Leaf(run) => insert_into_leaf(Arc::make_mut(run), row, place),
            Node::Inner(inner) => Arc::make_mut(inner).insert(row, place),
        }
    }

    fn remove(&mut self, key: &[u8], fences: Fences<'_>) -> Option<Row> {
        match self {
            Node::Leaf(run) => {
                let index = run.find(key).ok()?;
                Some(Arc::make_mut(run).remove(index))
            }
            Node::Inner(inner) => Arc::make_mut(inner).remove(key, fences),
        }
    }

    fn remove_nth(&mut self, rank: u64, fences: Fences<'_>) -> Row {
        match self {
            Node::Leaf(run) => Arc::make_mut(run).remove(rank as usize),
            Node::Inner(inner) => Arc::make_mut(inner).remove_nth(rank, fences),
        }
    }

    /// `None` as the bound is this node's own end.
    fn remove_end(&mut self, bound: Option<&[u8]>, target: EndOfRange<'_>, fences: Fences<'_>) -> EndFound {
        let run = match self {
            Node::Leaf(run) => run,
            Node::Inner(inner) => return Arc::make_mut(inner).remove_end(bound, target, fences),
        };
        let index = match target.last {
            true => bound.map_or(run.len(), |end| run.rank(end)).checked_sub(1),
            false => Some(bound.map_or(0, |start| run.rank(start))).filter(|&index| index < run.len()),
        };
        match index {
            None => EndFound::Beyond,
            Some(index) if !target.holds(run.row(index).key()) => EndFound::Empty,
            Some(index) => EndFound::Removed(Arc::make_mut(run).remove(index)),
        }
    }

    /// Moves the rows from `start` up to `end` to `removed`; `None` is this node's own end. Never
    /// called for all of it.
    fn remove_range(
        &mut self,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        fences: Fences<'_>,
        removed: &mut Removed<LEAF, INNER>,
    ) {
        match self {
            Node::Leaf(run) => {
                let from = start.map_or(0, |start| run.rank(start));
                let to = end.map_or(run.len(), |end| run.rank(end));
                if from < to {
                    let cut = Arc::make_mut(run).take(from, to);
                    removed.push(Node::Leaf(Arc::new(cut)), (to - from) as u64);
                }
            }
            Node::Inner(inner) => Arc::make_mut(inner).remove_range(start, end, fences, removed),
        }
    }

    /// Adapts to fences that moved away because a neighbour was removed: this node and those along
    /// its two edges.
    fn fit(&mut self, fences: Fences<'_>) {
        match self {
            Node::Leaf(run) => Arc::make_mut(run).fit(fences),
            Node::Inner(inner) => {
                let inner = Arc::make_mut(inner);
                inner.separators.fit(fences);
                inner.fit_child(0, fences);
                inner.fit_child(inner.len() - 1, fences);
            }
        }
    }

    /// Rows or children held against how many there is room for.
    fn occupancy(&self) -> (usize, usize) {
        match self {
            Node::Leaf(run) => (run.len(), LEAF),
            Node::Inner(inner) => (inner.len(), INNER),
        }
    }

    fn is_small(&self) -> bool {
        let (used, room) = self.occupancy();
        used <= room / 4
    }

    /// Returns true if one node could hold both and still take a good many more before it splits
    /// again.
    fn merges_with(&self, other: &Self) -> bool {
        let ((used, room), (more, _)) = (self.occupancy(), other.occupancy());
        used + more <= room * 3 / 4
    }

    /// Takes over the rows or children of the right neighbour; `fences` are those around both.
    fn absorb(&mut self, separator: Row, right: Self, fences: Fences<'_>) {
        match (self, right) {
            (Node::Leaf(left), Node::Leaf(right)) => {
                Arc::make_mut(left).append(Arc::unwrap_or_clone(right), fences);
            }
            (Node::Inner(left), Node::Inner(right)) => {
                Arc::make_mut(left).absorb(separator, Arc::unwrap_or_clone(right), fences);
            }
            _ => unreachable!("neighbours are equally deep"),
        }
    }
}

impl<const LEAF: usize, const INNER: usize> Child<LEAF, INNER> {
    /// A whole subtree.
    fn new(node: Node<LEAF, INNER>) -> Self {
        let newest = node.newest();
        Child { node, newest }
    }

    /// A part of a subtree that had no newer row. Visiting the rows of a leaf would cost more than
    /// it saves.
    fn split_off(node: Node<LEAF, INNER>, newest: Version) -> Self {
        match node {
            Node::Leaf(_) => Child { node, newest },
            Node::Inner(_) => Child::new(node),
        }
    }
}

impl<const LEAF: usize, const INNER: usize> Inner<LEAF, INNER> {
    fn with_child(child: Child<LEAF, INNER>) -> Self {
        let mut inner = Inner {
            separators: Run::empty(),
            counts: [0; INNER],
            children: Children::EMPTY,
        };
        inner.counts[0] = child.node.count();
        inner.children[0] = Some(child);
        inner
    }

    /// The number of children.
    fn len(&self) -> usize {
        self.separators.len() + 1
    }

    fn child(&self, index: usize) -> &Node<LEAF, INNER> {
        let child = self.children[index].as_ref();
        &child.expect("a child below the length is present").node
    }

    fn held_child(&mut self, index: usize) -> &mut Child<LEAF, INNER> {
        let child = self.children[index].as_mut();
        child.expect("a child below the length is present")
    }

    /// The index of the child that contains `key`.
    fn child_of(&self, key: &[u8]) -> usize {
        self.separators.find(key).map_or_else(|index| index, |index| index + 1)
    }

    /// The child with the row that has `rank` rows of this node before it, and how many of them are
    /// the child's.
    fn child_at(&self, mut rank: u64) -> (usize, u64) {
        let mut index = 0;
        while rank >= self.counts[index] {
            rank -= self.counts[index];
            index += 1;
        }
        (index, rank)
    }

    /// The child and the fences around it, given those around this node.
    fn fenced_child<'a>(&'a mut self, index: usize, fences: Fences<'a>) -> (&'a mut Node<LEAF, INNER>, Fences<'a>) {
        let fences = fences_of_child(&self.separators, index, fences);
        let child = self.children[index].as_mut();
        (&mut child.expect("a child below the length is present").node, fences)
    }

    fn fit_child(&mut self, index: usize, fences: Fences<'_>) {
        let (child, fences) = self.fenced_child(index, fences);
        child.fit(fences);
    }

    fn insert(&mut self, row: Row, place: Option<&Place<'_, INNER>>) -> Inserted<LEAF, INNER> {
        let (index, version) = (self.child_of(row.key()), row.version());
        let below = Place {
            separators: &self.separators,
            index,
            parent: place,
        };
        let child = self.children[index].as_mut();
        let child = child.expect("a child below the length is present");
        let inserted = child.node.insert(row, Some(&below));
        child.newest = child.newest.max(version);
        match inserted {
            Inserted::Replaced(old) => {
                if old.version() > version {
                    child.newest = child.node.newest();
                }
                Inserted::Replaced(old)
            }
            Inserted::Added => {
                self.counts[index] += 1;
                Inserted::Added
            }
            Inserted::Split(separator, right) => {
                let right = Child::split_off(right, child.newest);
                self.counts[index] = self.counts[index] + 1 - right.node.count();
                self.insert_child(index + 1, separator, right, fences_at(place))
            }
        }
    }

    /// Adds a child as number `index`, which is not 0, splitting this node if it is full.
    fn insert_child(
        &mut self,
        index: usize,
        separator: Row,
        child: Child<LEAF, INNER>,
        fences: Fences<'_>,
    ) -> Inserted<LEAF, INNER> {
        if self.len() < INNER {
            self.link(index, separator, child);
            return Inserted::Added;
        }
        let is_next = self.is_next(index);
        let (middle, mut right) = if index == INNER && (is_next || fences.high.is_none()) {
            (separator, Inner::with_child(child))
        } else {
            let at = match is_next {
                true => index,
                false if index == 1 && fences.low.is_none() => 1,
                false => INNER / 2,
            };
            let (middle, mut right) = self.split(at);
            if index <= at {
                self.link(index, separator, child);
            } else {
                right.link(index - at, separator, child);
            }
            (middle, right)
        };
        self.separators.fit(Fences {
            high: Some(&middle),
            ..fences
        });
        right.separators.fit(Fences {
            low: Some(&middle),
            ..fences
        });
        Inserted::Split(middle, Node::Inner(Arc::new(right)))
    }

    /// Whether the children before `index` were split off one after the other by rows that arrived
    /// in their order, and after all rows of the next child, so that more will follow them.
    fn is_next(&self, index: usize) -> bool {
        let Some(first) = index.checked_sub(RUN_ROWS) else {
            return false;
        };
        let run = self.children[first..index].iter().flatten().map(|child| child.newest);
        let above = self.children.get(index).and_then(Option::as_ref);
        run.clone().is_sorted() && above.is_none_or(|above| run.min() > Some(above.newest))
    }

    /// Inserts a child at `index` after its separator, into a node that is not full.
    fn link(&mut self, index: usize, separator: Row, child: Child<LEAF, INNER>) {
        let len = self.len();
        self.separators.insert(index - 1, separator);
        self.counts.copy_within(index..len, index + 1);
        self.counts[index] = child.node.count();
        self.children[index..=len].rotate_right(1);
        self.children[index] = Some(child);
    }

    /// Moves the children from `at` on into a node of their own; returns the separator between the
    /// two.
    fn split(&mut self, at: usize) -> (Row, Self) {
        let len = self.len();
        let separators = self.separators.take(at, len - 1);
        let middle = self.separators.remove(at - 1);
        let mut right = Inner {
            separators,
            counts: [0; INNER],
            children: Children::EMPTY,
        };
        right.counts[..len - at].copy_from_slice(&self.counts[at..len]);
        right.children[..len - at].swap_with_slice(&mut self.children[at..len]);
        (middle, right)
    }

    fn absorb(&mut self, separator: Row, mut right: Self, fences: Fences<'_>) {
        let (len, more) = (self.len(), right.len());
        self.counts[len..len + more].copy_from_slice(&right.counts[..more]);
        self.children[len..len + more].swap_with_slice(&mut right.children[..more]);
        // Linked first, so that the separators are in order when they are given heads for the wider
        // fences.
        let between = Run::new(std::iter::once(separator), Fences::OPEN);
        self.separators.append(between, fences);
        self.separators.append(right.separators, fences);
    }

    fn remove(&mut self, key: &[u8], fences: Fences<'_>) -> Option<Row> {
        let index = self.child_of(key);
        let (child, child_fences) = self.fenced_child(index, fences);
        let removed = child.remove(key, child_fences)?;
        self.counts[index] -= 1;
        self.tidy(index, index + 1, fences);
        Some(removed)
    }

    fn remove_end(&mut self, bound: Option<&[u8]>, target: EndOfRange<'_>, fences: Fences<'_>) -> EndFound {
        let own_end = if target.last { self.len() - 1 } else { 0 };
        let index = bound.map_or(own_end, |bound| self.child_of(bound));
        let outcome = self.remove_end_of_child(index, bound, target, fences);
        if !matches!(outcome, EndFound::Beyond) {
            return outcome;
        }
        let neighbour = match target.last {
            true => index.checked_sub(1),
            false => Some(index + 1).filter(|&index| index < self.len()),
        };
        match neighbour {
            Some(index) => self.remove_end_of_child(index, None, target, fences),
            None => EndFound::Beyond,
        }
    }

    fn remove_end_of_child(
        &mut self,
        index: usize,
        bound: Option<&[u8]>,
        target: EndOfRange<'_>,
        fences: Fences<'_>,
    ) -> EndFound {
        let (child, child_fences) = self.fenced_child(index, fences);
        let outcome = child.remove_end(bound, target, child_fences);
        if let EndFound::Removed(_) = outcome {
            self.counts[index] -= 1;
            self.tidy(index, index + 1, fences);
        }
        outcome
    }

    fn remove_nth(&mut self, rank: u64, fences: Fences<'_>) -> Row {
        let (index, rank) = self.child_at(rank);
        let (child, child_fences) = self.fenced_child(index, fences);
        let removed = child.remove_nth(rank, child_fences);
        self.counts[index] -= 1;
        self.tidy(index, index + 1, fences);
        removed
    }

    fn remove_range(
        &mut self,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        fences: Fences<'_>,
        removed: &mut Removed<LEAF, INNER>,
    ) {
        let first = start.map_or(0, |start| self.child_of(start));
        let last = end.map_or(self.len() - 1, |end| self.child_of(end));
        for index in first..=last {
            let start = start.filter(|_| index == first);
            let end = end.filter(|_| index == last);
            self.remove_range_of_child(index, start, end, fences, removed);
        }
        self.tidy(first, last + 1, fences);
    }

    fn remove_range_of_child(
        &mut self,
        index: usize,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        fences: Fences<'_>,
        removed: &mut Removed<LEAF, INNER>,
    ) {
        if start.is_none() && end.is_none() {
            let child = self.children[index]
                .take()
                .expect("a child below the length is present");
            removed.push(child.node, std::mem::take(&mut self.counts[index]));
            return;
        }
        let before = removed.count;
        let (child, child_fences) = self.fenced_child(index, fences);
        child.remove_range(start, end, child_fences, removed);
        self.counts[index] -= removed.count - before;
    }

    /// Frees the children among `from..to` that became empty, which are neighbours, and merges
    /// small neighbours around them. A node left without rows remains: its parent frees it whole.
    fn tidy(&mut self, from: usize, to: usize, fences: Fences<'_>) {
        let is_empty = |index: &usize| self.counts[*index] == 0;
        let first = (from..to).find(is_empty).unwrap_or(to);
        let empty = (from..to).filter(is_empty).count();
        if empty == self.len() {
            return;
        }
        if empty > 0 {
            self.unlink(first, first + empty, fences);
        }
        for index in [(to - empty).saturating_sub(1), from] {
            self.merge_if_small(index.min(self.len() - 1), fences);
        }
    }

    /// Drops the children `from..to`, not all there are. Their keys fall to the left neighbour, or
    /// to the right one if there is no left.
    fn unlink(&mut self, from: usize, to: usize, fences: Fences<'_>) {
        let len = self.len();
        let first_separator = from.saturating_sub(1);
        drop(self.separators.take(first_separator, first_separator + to - from));
        self.children[from..to].fill(None);
        self.children[from..len].rotate_left(to - from);
        self.counts.copy_within(to..len, from);
        self.fit_child(first_separator, fences);
    }

    fn merge_if_small(&mut self, index: usize, fences: Fences<'_>) {
        if !self.child(index).is_small() {
            return;
        }
        if index + 1 < self.len() && self.child(index).merges_with(self.child(index + 1)) {
            self.merge(index, fences);
        } else if index > 0 && self.child(index - 1).merges_with(self.child(index)) {
            self.merge(index - 1, fences);
        }
    }

    /// Merges the child at `index` with its right neighbour.
    fn merge(&mut self, index: usize, fences: Fences<'_>) {
        let len = self.len();
        let separator = self.separators.remove(index);
        let right = self.children[index + 1]
            .take()
            .expect("a child below the length is present");
        self.children[index + 1..len].rotate_left(1);
        self.counts[index] += self.counts[index + 1];
        self.counts.copy_within(index + 2..len, index + 1);
        let left = self.held_child(index);
        left.newest = left.newest.max(right.newest);
        let (child, child_fences) = self.fenced_child(index, fences);
        child.absorb(separator, right.node, child_fences);
    }
}

fn fences_of_child<'a, const N: usize>(separators: &'a Run<N>, index: usize, fences: Fences<'a>) -> Fences<'a> {
    let low = if index == 0 {
        fences.low
    } else {
        Some(separators.row(index - 1))
    };
    let high = if index == separators.len() {
        fences.high
    } else {
        Some(separators.row(index))
    };
    Fences { low, high }
}

/// The position of a node. Its fences are looked up only if it splits: they are in cache lines of
/// its parents that the descent does not visit.
struct Place<'a, const INNER: usize> {
    separators: &'a Run<INNER>,
    /// The node's index among the children of the node with the separators.
    index: usize,
    parent: Option<&'a Place<'a, INNER>>,
}

/// `None` is the root's place.
fn fences_at<'a, const INNER: usize>(place: Option<&'a Place<'a, INNER>>) -> Fences<'a> {
    match place {
        None => Fences::OPEN,
        Some(place) => fences_of_child(place.separators, place.index, fences_at(place.parent)),
    }
}

fn insert_into_leaf<const LEAF: usize, const INNER: usize>(
    run: &mut Run<LEAF>,
    row: Row,
    place: Option<&Place<'_, INNER>>,
) -> Inserted<LEAF, INNER> {
    match run.find(row.key()) {
        Ok(index) => Inserted::Replaced(run.replace(index, row)),
        Err(index) if run.len() < LEAF => {
            run.insert(index, row);
            Inserted::Added
        }
        Err(index) => split_leaf(run, index, row, fences_at(place)),
    }
}

fn split_leaf<const LEAF: usize, const INNER: usize>(
    left: &mut Run<LEAF>,
    index: usize,
    row: Row,
    fences: Fences<'_>,
) -> Inserted<LEAF, INNER> {
    let below = index.checked_sub(1).map(|below| left.row(below)).or(fences.low);
    let above = left.rows().get(index).and_then(Option::as_ref).or(fences.high);
    let is_next = || follows(left, index, &row, above);
    let (at, goes_left) = match edge(row.key(), below, above).or_else(|| is_next().then_some(Edge::High)) {
        Some(Edge::Low) => (index, index == 0),
        Some(Edge::High) => (index, index < LEAF),
        None => (LEAF / 2, index <= LEAF / 2),
    };
    let mut right = left.take(at, LEAF);
    if goes_left {
        left.insert(index, row);
    } else {
        right.insert(index - at, row);
    }
    let middle = separator(left.last(), right.row(0));
    left.fit(Fences {
        high: Some(&middle),
        ..fences
    });
    right.fit(Fences {
        low: Some(&middle),
        ..fences
    });
    Inserted::Split(middle, Node::Leaf(Arc::new(right)))
}

/// The end of a group of keys at which a key is.
#[derive(Clone, Copy)]
enum Edge {
    Low,
    High,
}

/// Rows that a key has followed, one after the other, if it is the next of them; likewise the
/// children of an inner node that one has followed.
const RUN_ROWS: usize = 4;

/// Whether the rows below a key arrived in their order and after the row above it, so that more
/// will follow it, and it starts as the last of them does.
fn follows<const LEAF: usize>(left: &Run<LEAF>, index: usize, row: &Row, above: Option<&Row>) -> bool {
    let Some(first) = index.checked_sub(RUN_ROWS) else {
        return false;
    };
    let run = left.rows()[first..index].iter().flatten().map(Row::version);
    let came_in_order = run.clone().chain([row.version()]).is_sorted();
    let last = left.row(index - 1);
    let is_newest = above.is_none_or(|above| {
        let shares_more = common_prefix(row.key(), last.key()) > common_prefix(row.key(), above.key());
        shares_more && run.min() > Some(above.version())
    });
    came_in_order && is_newest
}

/// A key that shares at least this many more bytes with one neighbour than with the other belongs
/// only with the former.
const EDGE_BYTES: usize = 8;

/// Returns the edge that the key is at: of the tree, or of keys with a common prefix, such as one
/// collection's. `below` and `above` are its neighbours, or the fences.
fn edge(key: &[u8], below: Option<&Row>, above: Option<&Row>) -> Option<Edge> {
    let (Some(below), Some(above)) = (below, above) else {
        return Some(if below.is_none() { Edge::Low } else { Edge::High });
    };
    let (with_below, with_above) = (common_prefix(key, below.key()), common_prefix(key, above.key()));
    if with_below + EDGE_BYTES <= with_above {
        Some(Edge::Low)
    } else if with_above + EDGE_BYTES <= with_below {
        Some(Edge::High)
    } else {
        None
    }
}

/// The rows a range removal took out of the tree, whole subtrees where possible. Dropping it is
/// what frees them.
#[derive(Default)]
pub struct Removed<const LEAF: usize, const INNER: usize> {
    count: u64,
    /// In key order.
    parts: Vec<Node<LEAF, INNER>>,
}

impl<const LEAF: usize, const INNER: usize> Removed<LEAF, INNER> {
    /// The number of rows. O(1).
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The removed rows in key order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.parts.iter().flat_map(|part| Range::new(part, 0, part.count()))
    }

    fn push(&mut self, part: Node<LEAF, INNER>, count: u64) {
        self.count += count;
        self.parts.push(part);
    }
}

/// Rows in key order, from either side.
pub struct Range<'a, const LEAF: usize, const INNER: usize> {
    root: &'a Node<LEAF, INNER>,
    /// Ranks still to be visited: `front <= back`.
    front: u64,
    back: u64,
    /// The rest of the leaf at each side. Rows beyond the other side's rank are never reached.
    front_rows: &'a [Option<Row>],
    back_rows: &'a [Option<Row>],
}

impl<'a, const LEAF: usize, const INNER: usize> Range<'a, LEAF, INNER> {
    fn new(root: &'a Node<LEAF, INNER>, front: u64, back: u64) -> Self {
        Range {
            root,
            front,
            back,
            front_rows: &[],
            back_rows: &[],
        }
    }
}

impl<'a, const LEAF: usize, const INNER: usize> Iterator for Range<'a, LEAF, INNER> {
    type Item = &'a Row;

    fn next(&mut self) -> Option<&'a Row> {
        if self.front == self.back {
            return None;
        }
        if self.front_rows.is_empty() {
            let (run, index) = self.root.leaf_at(self.front);
            self.front_rows = &run.rows()[index..];
        }
        let (first, remaining) = self.front_rows.split_first()?;
        self.front_rows = remaining;
        self.front += 1;
        first.as_ref()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let remaining = (self.back - self.front) as usize;
        (remaining, Some(remaining))
    }
}

impl<'a, const LEAF: usize, const INNER: usize> DoubleEndedIterator for Range<'a, LEAF, INNER> {
    fn next_back(&mut self) -> Option<&'a Row> {
        if self.front == self.back {
            return None;
        }
        if self.back_rows.is_empty() {
            let (run, index) = self.root.leaf_at(self.back - 1);
            self.back_rows = &run.rows()[..=index];
        }
        let (last, remaining) = self.back_rows.split_last()?;
        self.back_rows = remaining;
        self.back -= 1;
        last.as_ref()
    }
}

impl<const LEAF: usize, const INNER: usize> ExactSizeIterator for Range<'_, LEAF, INNER> {}

/// Builds a tree from rows that arrive in order, without searching.
///
/// Nodes are filled to nine tenths, so that the first inserts after a load do not split every leaf.
pub struct TreeBuilder<const LEAF: usize, const INNER: usize> {
    /// Finished leaves with the separator before each; the first has none.
    leaves: Level<LEAF, INNER>,
    filling: Vec<Row>,
    /// The separator before the leaf being filled.
    low: Option<Row>,
    len: u64,
}

impl<const LEAF: usize, const INNER: usize> TreeBuilder<LEAF, INNER> {
    /// Starts without rows.
    pub fn new() -> Self {
        TreeBuilder {
            leaves: Vec::new(),
            filling: Vec::with_capacity(LEAF),
            low: None,
            len: 0,
        }
    }

    /// Panics unless the key is above all before it.
    pub fn push(&mut self, row: Row) {
        if let Some(last) = self.filling.last() {
            assert!(last.key() < row.key(), "rows in strictly ascending order");
            if self.filling.len() == LEAF - LEAF / 10 {
                let high = separator(last, &row);
                self.finish_leaf(Some(high));
            }
        }
        self.filling.push(row);
        self.len += 1;
    }

    /// The tree of the rows pushed.
    pub fn finish(mut self) -> CountedTree<LEAF, INNER> {
        self.finish_leaf(None);
        let mut level = self.leaves;
        while level.len() > 1 {
            level = level_above(level);
        }
        let (_, Child { node: root, newest }) = level.pop().expect("at least one leaf");
        let len = self.len;
        CountedTree { root, len, newest }
    }

    fn finish_leaf(&mut self, high: Option<Row>) {
        let low = std::mem::replace(&mut self.low, high);
        let fences = Fences {
            low: low.as_ref(),
            high: self.low.as_ref(),
        };
        let run = Run::new(self.filling.drain(..), fences);
        self.leaves.push((low, Child::new(Node::Leaf(Arc::new(run)))));
    }
}

impl<const LEAF: usize, const INNER: usize> Default for TreeBuilder<LEAF, INNER> {
    fn default() -> Self {
        TreeBuilder::new()
    }
}

/// Nodes of one height, with the separator before each.
type Level<const LEAF: usize, const INNER: usize> = Vec<(Option<Row>, Child<LEAF, INNER>)>;

fn level_above<const LEAF: usize, const INNER: usize>(level: Level<LEAF, INNER>) -> Level<LEAF, INNER> {
    let mut above = Vec::new();
    let mut nodes = level.into_iter().peekable();
    while let Some((low, first)) = nodes.next() {
        let mut inner = Inner::with_child(first);
        for (separator, child) in nodes.by_ref().take(INNER - INNER / 10 - 1) {
            inner.link(inner.len(), separator.expect("only the first has none"), child);
        }
        let high = nodes.peek().and_then(|(high, _)| high.as_ref());
        inner.separators.fit(Fences {
            low: low.as_ref(),
            high,
        });
        above.push((low, Child::new(Node::Inner(Arc::new(inner)))));
    }
    above
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    thread_local! {
        /// Nodes that this thread has searched for newer rows.
        pub static VISITED: Cell<u64> = const { Cell::new(0) };
    }

    type Tiny = CountedTree<4, 4>;
    type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

    impl<const LEAF: usize, const INNER: usize> CountedTree<LEAF, INNER> {
        fn check(&self) {
            let mut depths = Vec::new();
            self.root.check(Fences::OPEN, 0, &mut depths);
            assert!(
                depths.windows(2).all(|pair| pair[0] == pair[1]),
                "every leaf is equally deep"
            );
            assert_eq!(self.root.count(), self.len);
            assert!(self.newest >= self.root.newest());
            assert!(self.len > 0 || matches!(self.root, Node::Leaf(_)));
        }
    }

    impl<const LEAF: usize, const INNER: usize> Node<LEAF, INNER> {
        fn check(&self, fences: Fences<'_>, depth: usize, depths: &mut Vec<usize>) {
            match self {
                Node::Leaf(run) => {
                    run.check(fences);
                    depths.push(depth);
                }
                Node::Inner(inner) => inner.check(fences, depth, depths),
            }
        }
    }

    impl<const LEAF: usize, const INNER: usize> Inner<LEAF, INNER> {
        fn check(&self, fences: Fences<'_>, depth: usize, depths: &mut Vec<usize>) {
            self.separators.check(fences);
            assert!(self.children[self.len()..].iter().all(Option::is_none));
            for index in 0..self.len() {
                assert_ne!(self.counts[index], 0);
                assert_eq!(self.counts[index], self.child(index).count());
                let newest = self.children[index].as_ref().map(|child| child.newest);
                assert!(newest >= Some(self.child(index).newest()));
                self.child(index)
                    .check(fences_of_child(&self.separators, index, fences), depth + 1, depths);
            }
        }
    }

    fn row(key: &[u8], version: u64) -> Row {
        Row::new(key, &version.to_le_bytes(), Version(version))
    }

    fn numbered(number: u64) -> Vec<u8> {
        format!("table:{number:08}").into_bytes()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Vec<u8>),
        Remove(Vec<u8>),
        RemoveNth(u64),
        RemoveEnd(Vec<u8>, Vec<u8>, bool),
        RemoveRange(Vec<u8>, Vec<u8>),
        Snapshot,
    }

    /// Few letters and a few long prefixes: many equal keys, prefixes of others, equal heads and
    /// long shared parts.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let beginning = prop::sample::select(vec!["", "a", "shared beginning ", "shared beginning, longer "]);
        let end = prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', b'b', 0xff]), 0..5);
        (beginning, end).prop_map(|(beginning, end)| [beginning.as_bytes(), &end].concat())
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            12 => key().prop_map(Step::Insert),
            3 => key().prop_map(Step::Remove),
            1 => (key(), key(), prop::bool::ANY).prop_map(|(start, end, last)| Step::RemoveEnd(start, end, last)),
            1 => (0..40u64).prop_map(Step::RemoveNth),
            1 => (key(), key()).prop_map(|(start, end)| Step::RemoveRange(start, end)),
            1 => Just(Step::Snapshot),
        ]
    }

    fn pairs<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<(Vec<u8>, u64)> {
        rows.map(|row| (row.key().to_vec(), row.version().0)).collect()
    }

    fn model_pairs(model: &Model) -> Vec<(Vec<u8>, u64)> {
        model
            .iter()
            .map(|(key, (_, version))| (key.clone(), *version))
            .collect()
    }

    fn apply<const L: usize, const I: usize>(
        tree: &mut CountedTree<L, I>,
        model: &mut Model,
        ways: &BTreeMap<Vec<u8>, Way>,
        step: &Step,
        version: u64,
    ) {
        match step {
            Step::Insert(key) => {
                let row = row(key, version);
                let replaced = match ways.get(key) {
                    Some(way) => tree.replace(way, row),
                    None => Err(row),
                };
                let old = replaced.map_or_else(|row| tree.insert(row), Some);
                let old = old.map(|old| old.version().0);
                let value = (version.to_le_bytes().to_vec(), version);
                assert_eq!(old, model.insert(key.clone(), value).map(|(_, version)| version));
            }
            Step::Remove(key) => {
                let old = tree.remove(key).map(|old| old.version().0);
                assert_eq!(old, model.remove(key).map(|(_, version)| version));
            }
            Step::RemoveNth(index) => {
                let key = model.keys().nth(*index as usize).cloned();
                let old = tree.remove_nth(*index).map(|old| old.key().to_vec());
                assert_eq!(old, key);
                key.and_then(|key| model.remove(&key));
            }
            Step::RemoveEnd(start, end, last) => {
                let mut inside = model.keys().filter(|key| start <= *key && *key < end);
                let key = if *last { inside.next_back() } else { inside.next() }.cloned();
                let old = tree.remove_end(start, end, *last).map(|old| old.key().to_vec());
                assert_eq!(old, key);
                key.and_then(|key| model.remove(&key));
            }
            Step::RemoveRange(start, end) => {
                let removed = tree.remove_range(start, end);
                let mut expected = model.clone();
                expected.retain(|key, _| start <= key && key < end);
                model.retain(|key, _| !(start <= key && key < end));
                assert_eq!(pairs(removed.rows()), model_pairs(&expected));
                assert_eq!(removed.count(), expected.len() as u64);
            }
            Step::Snapshot => {}
        }
    }

    fn compare_reads<const L: usize, const I: usize>(tree: &CountedTree<L, I>, model: &Model, a: &[u8], b: &[u8]) {
        let lookups = [a, b, b"", a].repeat(5);
        let walks = lookups.iter().zip(0..).map(|(from, rows)| Walk {
            from,
            reverse: rows % 2 == 0,
            rows,
        });
        tree.fetch_walks(&walks.collect::<Vec<_>>());
        let mut actual = Vec::new();
        tree.get_each(&lookups, &mut |row| {
            actual.push(row.map(|row| (row.key().to_vec(), row.version().0)))
        });
        let expected = lookups
            .iter()
            .map(|key| model.get(*key).map(|(_, version)| (key.to_vec(), *version)));
        assert_eq!(actual, expected.collect::<Vec<_>>());
        assert_eq!(
            tree.get(a).map(|row| row.version().0),
            model.get(a).map(|(_, version)| *version)
        );
        assert_eq!(
            tree.rank(a),
            model.keys().filter(|key| key.as_slice() < a).count() as u64
        );
        let expected: Vec<_> = model_pairs(model)
            .into_iter()
            .filter(|(key, _)| a <= key && key.as_slice() < b)
            .collect();
        assert_eq!(tree.count(a, b), expected.len() as u64);
        let newest = expected.iter().map(|(_, version)| *version).max().unwrap_or_default();
        for version in [0, newest.saturating_sub(1), newest, newest + 1] {
            assert_eq!(tree.has_newer(a, b, Version(version)), newest > version);
        }
        assert_eq!(pairs(tree.range(a, b)), expected);
        let mut backwards = pairs(tree.range(a, b).rev());
        backwards.reverse();
        assert_eq!(backwards, expected);
        compare_visits(tree, a, b, &expected);
        compare_both_ends(tree.range(a, b), expected);
    }

    /// Visits from either side return the same rows, and none after the visitor has stopped.
    fn compare_visits<const L: usize, const I: usize>(
        tree: &CountedTree<L, I>,
        a: &[u8],
        b: &[u8],
        expected: &[(Vec<u8>, u64)],
    ) {
        for reverse in [false, true] {
            for most in [1, 3, usize::MAX] {
                let mut visited = Vec::new();
                tree.visit(a, b, reverse, &mut |row| {
                    visited.push((row.key().to_vec(), row.version().0));
                    match visited.len() < most {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                });
                let mut all = expected.to_vec();
                if reverse {
                    all.reverse();
                }
                all.truncate(most);
                assert_eq!(visited, all);
            }
        }
    }

    fn compare_both_ends<const L: usize, const I: usize>(mut range: Range<'_, L, I>, expected: Vec<(Vec<u8>, u64)>) {
        let mut expected = expected.into_iter();
        for turn in 0.. {
            let (actual, expected) = if turn % 3 == 0 {
                (range.next_back(), expected.next_back())
            } else {
                (range.next(), expected.next())
            };
            assert_eq!(actual.map(|row| (row.key().to_vec(), row.version().0)), expected);
            if actual.is_none() {
                return;
            }
        }
    }

    fn ways_to_all<const L: usize, const I: usize>(tree: &CountedTree<L, I>, model: &Model) -> BTreeMap<Vec<u8>, Way> {
        let keys: Vec<&[u8]> = model.keys().map(Vec::as_slice).collect();
        let mut visited = Vec::new();
        tree.fetch(&keys, &mut |way| visited.push(way));
        assert_eq!(visited.len(), keys.len());
        let ways = keys.iter().zip(visited);
        ways.filter_map(|(key, way)| Some((key.to_vec(), way?))).collect()
    }

    fn compare<const L: usize, const I: usize>(steps: &[Step], probes: &[Vec<u8>]) {
        let (mut tree, mut model) = (CountedTree::<L, I>::new(), Model::new());
        let (mut snapshots, mut ways) = (Vec::new(), BTreeMap::new());
        for (version, step) in steps.iter().enumerate() {
            apply(&mut tree, &mut model, &ways, step, version as u64);
            tree.check();
            if matches!(step, Step::Snapshot) {
                // They outlast many a change.
                ways = ways_to_all(&tree, &model);
                snapshots.push((tree.clone(), model.clone()));
            }
        }
        snapshots.push((tree, model));
        for (tree, model) in &snapshots {
            tree.check();
            assert_eq!(pairs(tree.rows()), model_pairs(model));
            probes
                .windows(2)
                .for_each(|pair| compare_reads(tree, model, &pair[0], &pair[1]));
            for (index, (key, _)) in model.iter().enumerate() {
                assert_eq!(tree.nth(index as u64).expect("a row of that rank").key(), key);
            }
            assert!(tree.nth(tree.len()).is_none());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn deep_trees_agree_with_a_sorted_map(
            steps in prop::collection::vec(step(), 0..300),
            probes in prop::collection::vec(key(), 12),
        ) {
            compare::<4, 4>(&steps, &probes);
        }

        #[test]
        fn real_trees_agree_with_a_sorted_map(
            steps in prop::collection::vec(step(), 0..600),
            probes in prop::collection::vec(key(), 12),
        ) {
            compare::<LEAF_ROWS, INNER_CHILDREN>(&steps, &probes);
        }

        #[test]
        fn bulk_loads_agree_with_inserts(keys in prop::collection::btree_set(key(), 0..300)) {
            let tree = Tiny::from_sorted(keys.iter().map(|key| row(key, 1)));
            tree.check();
            prop_assert_eq!(tree.len(), keys.len() as u64);
            prop_assert!(tree.rows().map(Row::key).eq(keys.iter().map(Vec::as_slice)));
        }
    }

    /// Nodes that are visited to learn whether a row between the two is newer.
    fn visited(tree: &Tree, start: u64, end: u64, version: u64, answer: bool) -> u64 {
        VISITED.set(0);
        let (start, end) = (numbered(start), numbered(end));
        assert_eq!(tree.has_newer(&start, &end, Version(version)), answer);
        VISITED.get()
    }

    /// Certifying a conflict range visited all its rows under the partition's lock: one small
    /// request held it for seconds.
    #[test]
    fn newer_rows_are_found_without_visiting_the_others() {
        let mut tree = Tree::from_sorted((0..100_000).map(|number| row(&numbered(number), 1)));
        // New rows fall between the old rows and split their leaves; others replace them.
        for number in (0..100_000).step_by(1_000) {
            tree.insert(row(&numbered(number), 2 + number));
            (0..40).for_each(|end| drop(tree.insert(row(&[numbered(number), vec![end]].concat(), 2 + number))));
        }
        assert!(visited(&tree, 0, 100_000, 200_000, false) == 0);
        assert!(visited(&tree, 0, 100_000, 50_000, true) <= 20);
        assert!(visited(&tree, 0, 49_000, 50_000, false) <= 4);
        assert!(visited(&tree, 49_001, 49_999, 49_001, false) <= 10);
    }

    #[test]
    fn a_restored_row_leaves_no_trace_of_the_newer_row() {
        let mut tree = Tree::from_sorted((0..100_000).map(|number| row(&numbered(number), 1)));
        for number in 0..50_000 {
            let old = tree.insert(row(&numbered(number), 7)).expect("a row that was loaded");
            tree.insert(old);
        }
        for number in 100_000..150_000 {
            tree.insert(row(&numbered(number), 7));
            tree.insert(row(&numbered(number), 0));
            tree.remove(&numbered(number)).expect("a row that was added");
        }
        tree.check();
        assert!(visited(&tree, 0, 200_000, 1, false) <= 1);
    }

    #[test]
    fn rows_that_were_fetched_are_replaced_without_looking_for_them() {
        let mut tree = Tree::from_sorted((0..100_000).map(|number| row(&numbered(2 * number), 1)));
        let keys: Vec<Vec<u8>> = (0..40).map(|number| numbered(4_444 * number)).collect();
        let lookups: Vec<&[u8]> = keys.iter().map(Vec::as_slice).chain([&b"none"[..]]).collect();
        let mut ways = Vec::new();
        tree.fetch(&lookups, &mut |way| ways.push(way));
        assert!(ways.pop().unwrap().is_none());
        for (key, way) in keys.iter().zip(&ways) {
            let replaced = tree.replace(&way.unwrap(), row(key, 3));
            assert_eq!(replaced.map(|old| old.version().0), Ok(1));
            let older = tree.replace(&way.unwrap(), row(key, 2));
            assert_eq!(older.map_err(|row| row.version().0), Err(2));
        }
        // After an added and a removed row, these positions hold other rows.
        tree.remove(&numbered(0)).unwrap();
        tree.insert(row(&numbered(4_443), 3));
        tree.check();
        for (key, way) in keys.iter().zip(&ways).take(2) {
            assert!(tree.replace(&way.unwrap(), row(key, 4)).is_err());
        }
        tree.check();
    }

    /// Returns true if a writer would copy nothing on the way to the row of this rank.
    fn is_held_alone(tree: &Tree, mut rank: u64) -> bool {
        let mut node = &tree.root;
        loop {
            match node {
                Node::Leaf(run) => return Arc::is_unique(run),
                Node::Inner(inner) if !Arc::is_unique(inner) => return false,
                Node::Inner(inner) => {
                    let (index, child_rank) = inner.child_at(rank);
                    rank = child_rank;
                    node = inner.child(index);
                }
            }
        }
    }

    /// A checkpoint held the whole tree until its end: overwriting everything meanwhile took twice
    /// the memory.
    #[test]
    fn draining_releases_visited_rows() {
        let tree = Tree::from_sorted((0..10_000).map(|number| row(&numbered(number), 1)));
        let snapshot = tree.clone();
        let (mut visited, mut let_go) = (0, 0);
        snapshot.drain(&mut |row| {
            assert_eq!(row.key(), numbered(visited));
            visited += 1;
            if visited == 5_000 {
                let_go = (0..10_000).filter(|&rank| is_held_alone(&tree, rank)).count();
            }
            ControlFlow::Continue(())
        });
        assert_eq!(visited, 10_000);
        assert!(
            (4_900..5_000).contains(&let_go),
            "{let_go} rows are in leaves of their own"
        );
        tree.clone().drain(&mut |row| match row.key() == numbered(7) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        tree.check();
    }

    /// Rows per leaf on average.
    fn rows_per_leaf(tree: &Tree) -> u64 {
        let mut depths = Vec::new();
        tree.root.check(Fences::OPEN, 0, &mut depths);
        tree.len() / depths.len() as u64
    }

    #[test]
    fn ascending_and_descending_loads_leave_full_leaves() {
        let (mut up, mut down) = (Tree::new(), Tree::new());
        for number in 0..10_000 {
            up.insert(row(&numbered(number), 1));
            down.insert(row(&numbered(10_000 - number), 1));
        }
        assert_eq!(
            (rows_per_leaf(&up), rows_per_leaf(&down)),
            (LEAF_ROWS as u64 - 1, LEAF_ROWS as u64 - 1)
        );
    }

    /// A list grows at its ends between the rows of others: its leaves were left half full, and
    /// next to a row of another kind a leaf could not distinguish its rows without following them.
    #[test]
    fn keys_with_a_common_prefix_leave_full_leaves_in_any_range() {
        let neighbours = [b"a key of its own".to_vec(), b"z".to_vec()];
        let mut tree = Tree::from_sorted(neighbours.iter().map(|key| row(key, 1)));
        let element = |number: u64| [b"elements of a list ".as_slice(), &numbered(number)].concat();
        for number in 0..5_000 {
            tree.insert(row(&element(10_000 + number), 1));
            tree.insert(row(&element(9_999 - number), 1));
        }
        tree.check();
        assert!(
            rows_per_leaf(&tree) >= LEAF_ROWS as u64 - 2,
            "{} rows a leaf",
            rows_per_leaf(&tree)
        );
        for number in [5_000, 5_001, 9_999, 10_000, 14_998, 14_999] {
            let mut node = &tree.root;
            while let Node::Inner(inner) = node {
                node = inner.child(inner.child_of(&element(number)));
            }
            let Node::Leaf(run) = node else {
                unreachable!("a leaf is below the inner nodes")
            };
            assert!(run.heads_differ(), "the leaf of {number}");
        }
    }

    /// Keys of Redis are in the order of a hash except for their last bytes, so names that are
    /// numbered arrive a thousand at a time somewhere between others. Each of their leaves was left
    /// half full, which made a small key a sixth larger.
    #[test]
    fn rows_in_ascending_order_leave_full_leaves_between_other_rows() {
        let mut tree = Tree::new();
        let mut version = 0;
        for block in 0..200_u64 {
            let start = (block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
            for end in 0..1000_u32 {
                let key = [&start.to_be_bytes()[..], format!("{end:03}").as_bytes()].concat();
                version += 1;
                tree.insert(row(&key, version));
            }
        }
        tree.check();
        assert!(
            rows_per_leaf(&tree) >= LEAF_ROWS as u64 - 3,
            "{} rows a leaf",
            rows_per_leaf(&tree)
        );
    }

    /// Leaves that arrived in order left the nodes above them half empty, as leaves in any order
    /// do: that was three bytes of each small key.
    #[test]
    fn rows_in_ascending_order_leave_full_nodes_between_other_rows() {
        let numbers = (0..10_000_u64).flat_map(|number| [b'a', b'z'].map(|letter| (letter, number)));
        let mut around: Vec<Vec<u8>> = numbers
            .map(|(letter, number)| [&[letter][..], &numbered(number)].concat())
            .collect();
        around.sort();
        let mut tree = Tree::from_sorted(around.iter().map(|key| row(key, 1)));
        let before = nodes_above_leaves(&tree.root);
        for number in 0..100_000 {
            tree.insert(row(&numbered(number), 2 + number));
        }
        tree.check();
        let nodes = nodes_above_leaves(&tree.root) - before;
        let fewest = 100_000 / (LEAF_ROWS * INNER_CHILDREN);
        assert!(nodes < fewest * 9 / 8, "{nodes} nodes instead of {fewest}");
    }

    fn nodes_above_leaves<const LEAF: usize, const INNER: usize>(node: &Node<LEAF, INNER>) -> usize {
        let Node::Inner(inner) = node else {
            return 0;
        };
        let below: usize = (0..inner.len())
            .map(|index| nodes_above_leaves(inner.child(index)))
            .sum();
        below.max(1)
    }

    /// Keys `user:N` at the border of two tables had equal heads in a node that assures nothing,
    /// and whole keys were compared. The next eight bytes are compared first: they order as keys
    /// do, also where keys end within them.
    #[test]
    fn rows_with_equal_heads_differ_in_later_bytes() {
        let mut keys: Vec<Vec<u8>> = vec![b"a".to_vec(), b"z".to_vec()];
        for length in 0..20 {
            for (byte, last) in [(0, 0), (0, 7), (1, 0), (1, 1), (0xff, 7)] {
                let mut key = b"alike: :".to_vec();
                key.extend(std::iter::repeat_n(byte, length));
                keys.push(key.clone());
                key.push(last);
                keys.push(key);
            }
        }
        keys.sort();
        keys.dedup();
        // In another order than theirs: 61 and their number have no common divisor.
        let count = keys.len();
        assert!(!count.is_multiple_of(61));
        let mut tree = CountedTree::<8, 4>::new();
        (0..count).for_each(|index| _ = tree.insert(row(&keys[index * 61 % count], 1)));
        tree.check();
        assert_eq!(tree.len(), count as u64);
        for (rank, key) in keys.iter().enumerate() {
            assert_eq!(tree.rank(key), rank as u64, "{key:?}");
            assert_eq!(tree.get(key).map(Row::key), Some(&key[..]));
            let absent = [key, &b"\x03"[..]].concat();
            assert_eq!(tree.get(&absent).is_some(), keys.contains(&absent));
        }
        for key in &keys {
            assert!(tree.remove(key).is_some(), "{key:?}");
            tree.check();
        }
        assert!(tree.is_empty());
    }

    #[test]
    fn leaves_are_merged_after_many_deletions() {
        let mut tree = Tree::from_sorted((0..10_000).map(|number| row(&numbered(number), 1)));
        for number in (0..10_000).filter(|number| number % 20 != 0) {
            tree.remove(&numbered(number)).expect("a row that was loaded");
            if number % 97 == 0 {
                tree.check();
            }
        }
        assert_eq!(tree.len(), 500);
        assert!(rows_per_leaf(&tree) >= 10, "{} rows a leaf", rows_per_leaf(&tree));
    }

    #[test]
    fn removing_most_of_a_range_leaves_a_sound_tree() {
        for (start, end) in [(0, 9_999), (1, 10_000), (4_321, 4_400), (17, 9_000), (0, 20_000)] {
            let mut tree = Tree::from_sorted((0..10_000).map(|number| row(&numbered(number), 1)));
            let snapshot = tree.clone();
            let removed = tree.remove_range(&numbered(start), &numbered(end));
            tree.check();
            snapshot.check();
            assert_eq!(removed.count() + tree.len(), snapshot.len());
            assert_eq!(removed.count(), end.min(10_000) - start);
        }
    }
}
