//! A new generation of the tree from the previous generation and the changes since: only nodes on
//! the path to a change are rewritten.
//!
//! Every node that a change reaches is written to another place, its parent with it, up to the
//! root; the replaced node stays in place until no snapshot reads it. Subtrees that a mask covers
//! are dropped without being read, except their inner nodes, which state the freed space.
//!
//! Leaves are filled up to a few kilobytes. An overflowing leaf is divided evenly; small neighbours
//! below one parent are joined when either was rewritten. Larger values are stored apart, so that
//! changing a neighbour does not rewrite them.
//!
//! Where much of the files' content is dead, the emptiest files are emptied: their live content is
//! rewritten as if it had changed.

use std::collections::BTreeSet;

use super::files::Files;
use super::node::{Child, Entry, Inner, Leaf, Node, Place, Value};
use super::overlay::{Mask, Overlay};
use super::root::Tree;
use super::writer::Writer;
use crate::error::StoreError;
use crate::row::Row;

/// A leaf is divided when it would be larger.
pub(super) const LEAF_BYTES: usize = 4096;
/// Neighbours that are no larger together are joined.
const JOINED_BYTES_MAX: u64 = 3072;
pub(super) const CHILDREN_MAX: usize = 128;
/// The same for inner nodes: not even with the shortest children, of 17 bytes, do they have more
/// than [`CHILDREN_MAX`] then.
const JOINED_INNER_BYTES_MAX: u64 = 2048;
/// Smallest size of a value that is stored apart, in bytes.
pub(super) const APART_FROM: usize = 2048;

/// One change of a row.
pub(super) enum Edit {
    Put(Row),
    /// Removes the row with this row's key.
    Remove(Row),
}

impl Edit {
    fn key(&self) -> &[u8] {
        match self {
            Edit::Put(row) | Edit::Remove(row) => row.key(),
        }
    }

    /// Returns the overlay's edits of the state below it, in key order.
    pub fn all_of(overlay: &Overlay) -> Vec<Edit> {
        let mut edits = Vec::new();
        let mut hidden = overlay.hidden().rows().peekable();
        for row in overlay.rows.rows() {
            while let Some(key) = hidden.next_if(|key| key.key() <= row.key()) {
                if key.key() < row.key() {
                    edits.push(Edit::Remove(key.clone()));
                }
            }
            edits.push(Edit::Put(row.clone()));
        }
        edits.extend(hidden.cloned().map(Edit::Remove));
        edits
    }
}

pub(super) struct Rebuild<'w> {
    pub writer: &'w mut Writer,
    pub files: &'w Files,
    pub masks: &'w [Mask],
    /// Files to be emptied.
    pub victims: BTreeSet<u32>,
}

/// The keys that may be below a child: `low` included, `high` excluded, `None` for no end.
#[derive(Clone, Copy)]
struct Span<'a> {
    low: &'a [u8],
    high: Option<&'a [u8]>,
}

#[derive(PartialEq, Eq)]
enum Masked {
    Not,
    Partly,
    Wholly,
}

/// The outcome of rebuilding a child: itself, or others of the same height.
enum Rebuilt {
    Same,
    Others(Vec<Child>),
}

impl Rebuild<'_> {
    /// The tree with the edits, which are in key order.
    pub fn tree(&mut self, tree: Option<&Tree>, edits: &[Edit]) -> Result<Option<Tree>, StoreError> {
        let span = Span { low: b"", high: None };
        let (mut height, mut roots) = match tree {
            None => (0, self.new_subtree(0, span, edits)?),
            Some(tree) => match self.child(&tree.root, tree.height, span, edits)? {
                Rebuilt::Same => return Ok(Some(tree.clone())),
                Rebuilt::Others(roots) => (tree.height, roots),
            },
        };
        while roots.len() > 1 {
            height += 1;
            roots = self.inner_nodes(height, b"", roots)?;
        }
        let Some(mut root) = roots.pop() else {
            return Ok(None);
        };
        // Levels that no longer divide anything go.
        while height > 0 {
            let node = self.writer.node(&root.place)?;
            let Node::Inner(inner) = &*node else { break };
            let [only] = &*inner.children else { break };
            self.writer.free(&root.place);
            root = only.clone();
            height -= 1;
        }
        Ok(Some(Tree { height, root }))
    }

    fn child(&mut self, child: &Child, height: u8, span: Span<'_>, edits: &[Edit]) -> Result<Rebuilt, StoreError> {
        let masked = self.masked(span);
        if masked == Masked::Wholly {
            self.free_subtree(child, height)?;
            return self.new_subtree(height, span, edits).map(Rebuilt::Others);
        }
        let is_touched = !edits.is_empty() || masked == Masked::Partly;
        if height == 0 {
            let moves = self.victims.contains(&child.place.file);
            let may_move = !self.victims.is_empty() && child.has_values_apart;
            return match is_touched || moves || may_move {
                true => self.leaf(child, span, edits, moves),
                false => Ok(Rebuilt::Same),
            };
        }
        match is_touched || !self.victims.is_empty() {
            true => self.inner(child, height, span, edits),
            false => Ok(Rebuilt::Same),
        }
    }

    fn masked(&self, span: Span<'_>) -> Masked {
        let first = self.masks.partition_point(|mask| &*mask.end <= span.low);
        match self.masks.get(first) {
            Some(mask) if span.high.is_some_and(|high| high <= &*mask.start) => Masked::Not,
            Some(mask) if &*mask.start <= span.low && span.high.is_some_and(|high| high <= &*mask.end) => {
                Masked::Wholly
            }
            Some(_) => Masked::Partly,
            None => Masked::Not,
        }
    }

    fn is_masked(&self, key: &[u8]) -> bool {
        let first = self.masks.partition_point(|mask| &*mask.end <= key);
        self.masks.get(first).is_some_and(|mask| &*mask.start <= key)
    }

    fn inner(&mut self, child: &Child, height: u8, span: Span<'_>, edits: &[Edit]) -> Result<Rebuilt, StoreError> {
        let node = self.writer.node(&child.place)?;
        let Node::Inner(inner) = &*node else {
            return Err(unexpected(child));
        };
        if height == 1 {
            self.request_leaves(inner, edits);
        }
        let mut rebuilt: Vec<(usize, Vec<Child>)> = Vec::new();
        let (mut low, mut edits) = (span.low, edits);
        for (index, below) in inner.children.iter().enumerate() {
            let high = inner.children.get(index + 1).map(|next| &*next.low);
            let split = match high {
                Some(high) => edits.partition_point(|edit| edit.key() < high),
                None => edits.len(),
            };
            let (edits_below, later) = edits.split_at(split);
            let span_below = Span {
                low,
                high: high.or(span.high),
            };
            if let Rebuilt::Others(children) = self.child(below, height - 1, span_below, edits_below)? {
                rebuilt.push((index, children));
            }
            edits = later;
            low = high.unwrap_or(low);
        }
        if rebuilt.is_empty() && !self.victims.contains(&child.place.file) {
            return Ok(Rebuilt::Same);
        }
        self.writer.free(&child.place);
        let children = self.joined(pieces(inner, rebuilt), height - 1)?;
        self.inner_nodes(height, span.low, children).map(Rebuilt::Others)
    }

    /// Reads ahead the leaves below a node that the edits reach, or that must be moved.
    fn request_leaves(&self, inner: &Inner, mut edits: &[Edit]) {
        let behind = inner.children.iter().skip(1).map(|next| Some(&*next.low)).chain([None]);
        let touched = inner.children.iter().zip(behind).filter_map(|(child, high)| {
            let count = high.map_or(edits.len(), |high| edits.partition_point(|edit| edit.key() < high));
            edits = &edits[count..];
            (count > 0 || self.victims.contains(&child.place.file)).then_some(&child.place)
        });
        self.files.will_need(touched);
    }

    /// Joins small neighbours if either is new, as many together as fit.
    fn joined(&mut self, pieces: Vec<(Child, bool)>, height: u8) -> Result<Vec<Child>, StoreError> {
        let mut joined = Vec::with_capacity(pieces.len());
        let mut remaining = &pieces[..];
        while !remaining.is_empty() {
            let mut bytes = 0;
            let bytes_max = if height == 0 {
                JOINED_BYTES_MAX
            } else {
                JOINED_INNER_BYTES_MAX
            };
            let fits = |piece: &&(Child, bool)| {
                bytes += u64::from(piece.0.place.bytes);
                bytes <= bytes_max
            };
            let count = remaining.iter().take_while(fits).count().max(1);
            let (together, later) = remaining.split_at(count);
            match together {
                [(alone, _)] => joined.push(alone.clone()),
                _ if together.iter().any(|(_, is_new)| *is_new) => joined.push(self.join(together, height)?),
                _ => joined.extend(together.iter().map(|(child, _)| child.clone())),
            }
            remaining = later;
        }
        Ok(joined)
    }

    fn join(&mut self, together: &[(Child, bool)], height: u8) -> Result<Child, StoreError> {
        let mut nodes = Vec::with_capacity(together.len());
        for (child, _) in together {
            nodes.push(self.writer.node(&child.place)?);
            self.writer.free(&child.place);
        }
        let (mut entries, mut children) = (Vec::new(), Vec::new());
        for node in &nodes {
            match &**node {
                Node::Leaf(leaf) => entries.extend(leaf.entries()),
                Node::Inner(inner) => children.extend_from_slice(&inner.children),
            }
        }
        let low = &together[0].0.low;
        match height {
            0 => self.put_leaf(low, &entries, false),
            _ => self.put_inner(height, low, &children),
        }
    }

    fn leaf(&mut self, child: &Child, span: Span<'_>, edits: &[Edit], moves: bool) -> Result<Rebuilt, StoreError> {
        let is_cached = self.files.peek(&child.place).is_some();
        let node = self.writer.node(&child.place)?;
        let Node::Leaf(leaf) = &*node else {
            return Err(unexpected(child));
        };
        let (entries, changed) = self.merge(leaf, edits)?;
        if !changed && !moves {
            return Ok(Rebuilt::Same);
        }
        self.writer.free(&child.place);
        self.leaves(span.low, &entries, is_cached).map(Rebuilt::Others)
    }

    /// The leaf's entries after the edits, and whether they are others than before.
    fn merge<'e>(&mut self, leaf: &'e Leaf, edits: &'e [Edit]) -> Result<(Vec<Entry<'e>>, bool), StoreError> {
        let mut entries = Vec::with_capacity(leaf.len());
        let (mut edits, mut changed) = (edits.iter().peekable(), false);
        for entry in leaf.entries() {
            while let Some(edit) = edits.next_if(|edit| edit.key() < entry.key) {
                changed |= self.add(edit, &mut entries)?;
            }
            let edit = edits.next_if(|edit| edit.key() == entry.key);
            if edit.is_some() || self.is_masked(entry.key) {
                changed = true;
                self.free_value(&entry);
                if let Some(edit) = edit {
                    self.add(edit, &mut entries)?;
                }
                continue;
            }
            let moved = self.moved(entry)?;
            changed |= moved.is_some();
            entries.push(moved.unwrap_or(entry));
        }
        for edit in edits {
            changed |= self.add(edit, &mut entries)?;
        }
        Ok((entries, changed))
    }

    /// Adds what the edit puts. True if it puts something.
    fn add<'e>(&mut self, edit: &'e Edit, entries: &mut Vec<Entry<'e>>) -> Result<bool, StoreError> {
        let Edit::Put(row) = edit else { return Ok(false) };
        let mut entry = Entry::inline(row);
        if row.value().len() >= APART_FROM {
            entry.value = Value::Apart(self.writer.put(row.value())?);
        }
        entries.push(entry);
        Ok(true)
    }

    /// The entry with its value moved to another file, if the value's file must be emptied.
    fn moved<'e>(&mut self, entry: Entry<'e>) -> Result<Option<Entry<'e>>, StoreError> {
        let Value::Apart(place) = entry.value else {
            return Ok(None);
        };
        if !self.victims.contains(&place.file) {
            return Ok(None);
        }
        let value = self.writer.value(&place)?;
        self.writer.free(&place);
        let place = self.writer.put(&value)?;
        Ok(Some(Entry {
            value: Value::Apart(place),
            ..entry
        }))
    }

    fn free_value(&mut self, entry: &Entry<'_>) {
        if let Value::Apart(place) = &entry.value {
            self.writer.free(place);
        }
    }

    /// Frees the unneeded nodes below a child, including itself.
    fn free_subtree(&mut self, child: &Child, height: u8) -> Result<(), StoreError> {
        self.writer.free(&child.place);
        if height == 0 && !child.has_values_apart {
            return Ok(());
        }
        match &*self.writer.node(&child.place)? {
            Node::Leaf(leaf) => leaf.entries().for_each(|entry| self.free_value(&entry)),
            Node::Inner(inner) => {
                for below in &inner.children {
                    self.free_subtree(below, height.saturating_sub(1))?;
                }
            }
        }
        Ok(())
    }

    /// Nodes of that height that hold what the edits put, and nothing else.
    fn new_subtree(&mut self, height: u8, span: Span<'_>, edits: &[Edit]) -> Result<Vec<Child>, StoreError> {
        let mut entries = Vec::new();
        for edit in edits {
            self.add(edit, &mut entries)?;
        }
        let mut nodes = self.leaves(span.low, &entries, false)?;
        for height in 1..=height {
            nodes = self.inner_nodes(height, span.low, nodes)?;
        }
        Ok(nodes)
    }

    /// Leaves of the entries, about equally large; none without entries.
    fn leaves(&mut self, low: &[u8], entries: &[Entry<'_>], keep_at_hand: bool) -> Result<Vec<Child>, StoreError> {
        let bytes: usize = entries.iter().map(Entry::bytes).sum();
        let share = bytes.div_ceil(bytes.div_ceil(LEAF_BYTES).max(1));
        let (mut leaves, mut first, mut filled): (Vec<Child>, usize, usize) = (Vec::new(), 0, 0);
        for (index, entry) in entries.iter().enumerate() {
            filled += entry.bytes();
            if filled >= share || index + 1 == entries.len() {
                let low = match leaves.is_empty() {
                    true => low,
                    false => separator(entries[first - 1].key, entries[first].key),
                };
                let leaf = self.put_leaf(low, &entries[first..=index], keep_at_hand)?;
                leaves.push(leaf);
                (first, filled) = (index + 1, 0);
            }
        }
        Ok(leaves)
    }

    fn put_leaf(&mut self, low: &[u8], entries: &[Entry<'_>], keep_at_hand: bool) -> Result<Child, StoreError> {
        let mut content = Vec::with_capacity(LEAF_BYTES + LEAF_BYTES / 4);
        Leaf::put(entries.iter().copied(), &mut content);
        let place = self.writer.put(&content)?;
        if keep_at_hand && let Some(node) = Node::parse(content) {
            self.files.cache(&place, node.into());
        }
        Ok(Child {
            low: low.into(),
            place,
            rows: entries.len() as u64,
            row_bytes: entries.iter().map(Entry::row_bytes).sum(),
            newest: entries.iter().map(|entry| entry.version).max().unwrap_or_default(),
            has_values_apart: entries.iter().any(|entry| matches!(entry.value, Value::Apart(_))),
        })
    }

    /// Inner nodes of the children, about equally large; none without children.
    pub fn inner_nodes(&mut self, height: u8, low: &[u8], children: Vec<Child>) -> Result<Vec<Child>, StoreError> {
        let share = children
            .len()
            .div_ceil(children.len().div_ceil(CHILDREN_MAX).max(1))
            .max(1);
        let mut nodes = Vec::new();
        for some in children.chunks(share) {
            let low = if nodes.is_empty() { low } else { &some[0].low };
            nodes.push(self.put_inner(height, low, some)?);
        }
        Ok(nodes)
    }

    fn put_inner(&mut self, height: u8, low: &[u8], children: &[Child]) -> Result<Child, StoreError> {
        let mut content = Vec::new();
        Inner::put(height, children, &mut content);
        let place: Place = self.writer.put(&content)?;
        if let Some(node) = Node::parse(content) {
            self.files.cache(&place, node.into());
        }
        Ok(Child {
            low: low.into(),
            place,
            rows: children.iter().map(|child| child.rows).sum(),
            row_bytes: children.iter().map(|child| child.row_bytes).sum(),
            newest: children.iter().map(|child| child.newest).max().unwrap_or_default(),
            has_values_apart: children.iter().any(|child| child.has_values_apart),
        })
    }
}

/// The children of a node after replacing the rebuilt children, each with whether it is new.
fn pieces(inner: &Inner, rebuilt: Vec<(usize, Vec<Child>)>) -> Vec<(Child, bool)> {
    let mut rebuilt = rebuilt.into_iter().peekable();
    let mut pieces = Vec::with_capacity(inner.children.len());
    for (index, child) in inner.children.iter().enumerate() {
        match rebuilt.next_if(|(at, _)| *at == index) {
            Some((_, children)) => pieces.extend(children.into_iter().map(|other| (other, true))),
            None => pieces.push((child.clone(), false)),
        }
    }
    pieces
}

/// A key above `left`, at most `right`, and no longer than needed.
pub(super) fn separator<'k>(left: &[u8], right: &'k [u8]) -> &'k [u8] {
    let shared = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    &right[..=shared]
}

fn unexpected(child: &Child) -> StoreError {
    super::files::damaged(&child.place, "a node of another height")
}
