//! A tree of rows that arrive in key order, written as they arrive.
//!
//! Memory holds the leaf that is being filled and, of each height, the nodes that have no parent
//! yet: a few hundred at most, for any number of rows. The tree takes effect only once the root is
//! written, and an abandoned load is removed.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use quartet_model::Version;

use super::files::Files;
use super::node::{Child, Entry, Leaf, Value};
use super::rebuild::{APART_FROM, CHILDREN_MAX, LEAF_BYTES, Rebuild, separator};
use super::root::Tree;
use super::writer::Writer;
use crate::error::StoreError;

/// Rows on their way into an empty store.
pub struct SsdLoad {
    files: Arc<Files>,
    writer: Writer,
    leaf: Filling,
    /// By height: finished nodes without a parent.
    levels: Vec<Vec<Child>>,
    is_finished: bool,
}

/// The leaf that is being filled.
struct Filling {
    content: Vec<u8>,
    /// Key of its last row, in the content.
    last_key: Range<usize>,
    low: Box<[u8]>,
    rows: u32,
    row_bytes: u64,
    newest: Version,
    has_values_apart: bool,
}

impl SsdLoad {
    pub(super) fn new(files: Arc<Files>) -> SsdLoad {
        let mut writer = Writer::new(files.clone(), Default::default());
        writer.is_forgotten = true;
        SsdLoad {
            writer,
            files,
            leaf: Filling::from(b""),
            levels: vec![Vec::new()],
            is_finished: false,
        }
    }

    /// Adds a row with a key above all previous keys.
    pub fn push(&mut self, key: &[u8], value: &[u8], version: Version) -> Result<(), StoreError> {
        let value = match value.len() >= APART_FROM {
            true => Value::Apart(self.writer.put(value)?),
            false => Value::Inline(value),
        };
        let entry = Entry { key, version, value };
        if self.leaf.rows > 0 && self.leaf.content.len() + entry.bytes() > LEAF_BYTES {
            let low = separator(&self.leaf.content[self.leaf.last_key.clone()], key);
            let full = std::mem::replace(&mut self.leaf, Filling::from(low));
            self.add_leaf(full)?;
        }
        self.leaf.push(entry);
        Ok(())
    }

    /// Makes everything durable that the tree needs; it is in force once a root leads to it.
    pub(super) fn finish(&mut self) -> Result<Option<Tree>, StoreError> {
        let last = std::mem::replace(&mut self.leaf, Filling::from(b""));
        if last.rows > 0 {
            self.add_leaf(last)?;
        }
        let tree = self.join_levels()?;
        self.writer.finish()?;
        Ok(tree)
    }

    pub(super) fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Keeps the written files: they may be needed from now on.
    pub(super) fn keep(&mut self) {
        self.is_finished = true;
    }

    #[cfg(test)]
    pub(super) fn held_nodes(&self) -> usize {
        self.levels.iter().map(Vec::len).sum()
    }

    fn add_leaf(&mut self, mut leaf: Filling) -> Result<(), StoreError> {
        Leaf::set_len(&mut leaf.content, leaf.rows);
        let child = Child {
            place: self.writer.put(&leaf.content)?,
            low: leaf.low,
            rows: leaf.rows.into(),
            row_bytes: leaf.row_bytes,
            newest: leaf.newest,
            has_values_apart: leaf.has_values_apart,
        };
        self.add(0, child)
    }

    /// Keeps as many nodes without a parent as fill one node, so that the last parent is at least
    /// half full.
    fn add(&mut self, height: usize, child: Child) -> Result<(), StoreError> {
        if self.levels.len() == height {
            self.levels.push(Vec::new());
        }
        self.levels[height].push(child);
        if self.levels[height].len() < 2 * CHILDREN_MAX {
            return Ok(());
        }
        let full = self.levels[height].drain(..CHILDREN_MAX).collect();
        for parent in self.parents(height, full)? {
            self.add(height + 1, parent)?;
        }
        Ok(())
    }

    fn join_levels(&mut self) -> Result<Option<Tree>, StoreError> {
        let mut height = 0;
        loop {
            let nodes = std::mem::take(&mut self.levels[height]);
            let is_top = self.levels.len() == height + 1;
            if is_top && nodes.len() <= 1 {
                let height = height as u8;
                return Ok(nodes.into_iter().next().map(|root| Tree { height, root }));
            }
            for parent in self.parents(height, nodes)? {
                self.add(height + 1, parent)?;
            }
            height += 1;
        }
    }

    fn parents(&mut self, height: usize, children: Vec<Child>) -> Result<Vec<Child>, StoreError> {
        let low = children.first().map(|first| first.low.clone()).unwrap_or_default();
        let mut rebuild = Rebuild {
            writer: &mut self.writer,
            files: &self.files,
            masks: &[],
            victims: BTreeSet::new(),
        };
        rebuild.inner_nodes(height as u8 + 1, &low, children)
    }
}

impl Drop for SsdLoad {
    fn drop(&mut self) {
        if !self.is_finished {
            self.writer.abandon();
        }
    }
}

impl Filling {
    fn from(low: &[u8]) -> Filling {
        let mut content = Vec::with_capacity(LEAF_BYTES + LEAF_BYTES / 4);
        Leaf::put(std::iter::empty(), &mut content);
        Filling {
            content,
            last_key: 0..0,
            low: low.into(),
            rows: 0,
            row_bytes: 0,
            newest: Version::ZERO,
            has_values_apart: false,
        }
    }

    fn push(&mut self, entry: Entry<'_>) {
        let start = entry.put(&mut self.content);
        self.last_key = start..start + entry.key.len();
        self.rows += 1;
        self.row_bytes += entry.row_bytes();
        self.newest = self.newest.max(entry.version);
        self.has_values_apart |= matches!(entry.value, Value::Apart(_));
    }
}
