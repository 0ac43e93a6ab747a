//! The store that keeps every row in memory: the counted tree behind the traits of this crate.
//!
//! A snapshot is a clone of the tree, that is, of its root.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::row::Row;
use crate::tree::{INNER_CHILDREN, LEAF_ROWS, RemovedRows, Tree, TreeBuilder};
use crate::{Read, Snapshot, Store};

/// The latest state in memory. A new one is empty; a filled one comes from a [`MemoryBuilder`].
#[derive(Default)]
pub struct MemoryStore {
    tree: Tree,
}

impl MemoryStore {
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }
}

/// A moment of a [`MemoryStore`].
pub struct MemorySnapshot {
    tree: Tree,
}

/// Fills a store with rows that arrive in key order, as a checkpoint's do; several times faster than setting each.
#[derive(Default)]
pub struct MemoryBuilder {
    tree: TreeBuilder<LEAF_ROWS, INNER_CHILDREN>,
}

impl MemoryBuilder {
    pub fn new() -> MemoryBuilder {
        MemoryBuilder::default()
    }

    /// Panics unless the key is above all before it.
    pub fn push(&mut self, row: Row) {
        self.tree.push(row);
    }

    pub fn finish(self) -> MemoryStore {
        MemoryStore {
            tree: self.tree.finish(),
        }
    }
}

/// The rows that a range clear took out of a store. Dropping it frees them, on whatever thread that is.
pub struct Cleared {
    rows: RemovedRows,
}

impl Cleared {
    pub fn count(&self) -> u64 {
        self.rows.count()
    }

    /// The cleared rows in key order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.rows()
    }
}

impl Store for MemoryStore {
    fn set(&mut self, row: Row) -> Option<Row> {
        self.tree.insert(row)
    }

    fn clear(&mut self, key: &[u8]) -> Option<Row> {
        self.tree.remove(key)
    }

    fn clear_range(&mut self, start: &[u8], end: &[u8]) -> Cleared {
        Cleared {
            rows: self.tree.remove_range(start, end),
        }
    }

    fn restore(&mut self, cleared: &Cleared) {
        for row in cleared.rows() {
            self.tree.insert(row.clone());
        }
    }

    fn snapshot(&self) -> Arc<dyn Snapshot> {
        Arc::new(MemorySnapshot {
            tree: self.tree.clone(),
        })
    }
}

impl Snapshot for MemorySnapshot {
    fn drain(self: Arc<Self>, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) {
        match Arc::try_unwrap(self) {
            Ok(alone) => alone.tree.drain(visit),
            Err(shared) => shared.walk(visit),
        }
    }
}

/// What is read alike, a store or a moment of it.
trait Rows {
    fn tree(&self) -> &Tree;
}

impl Rows for MemoryStore {
    fn tree(&self) -> &Tree {
        &self.tree
    }
}

impl Rows for MemorySnapshot {
    fn tree(&self) -> &Tree {
        &self.tree
    }
}

impl<T: Rows> Read for T {
    fn get(&self, key: &[u8]) -> Option<Row> {
        self.tree().get(key).cloned()
    }

    fn scan(&self, start: &[u8], end: &[u8], reverse: bool, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) {
        scan(self.tree(), start, end, reverse, visit);
    }

    fn walk(&self, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) {
        visit_all(self.tree().rows(), visit);
    }

    fn count(&self, start: &[u8], end: &[u8]) -> u64 {
        self.tree().count(start, end)
    }

    fn nth(&self, start: &[u8], end: &[u8], index: u64) -> Option<Row> {
        nth(self.tree(), start, end, index)
    }

    fn len(&self) -> u64 {
        self.tree().len()
    }
}

fn scan(tree: &Tree, start: &[u8], end: &[u8], reverse: bool, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) {
    let range = tree.range(start, end);
    if reverse {
        visit_all(range.rev(), visit)
    } else {
        visit_all(range, visit)
    }
}

fn visit_all<'a>(mut rows: impl Iterator<Item = &'a Row>, visit: &mut dyn FnMut(&Row) -> ControlFlow<()>) {
    // The visitor decides how far; that it stopped is no news to the caller.
    let _ = rows.try_for_each(visit);
}

fn nth(tree: &Tree, start: &[u8], end: &[u8], index: u64) -> Option<Row> {
    if start >= end {
        return None;
    }
    let rank = tree.rank(start).checked_add(index)?;
    tree.nth(rank).filter(|row| row.key() < end).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conforms() {
        crate::conformance::check(|| Box::new(MemoryStore::new()));
    }

    #[test]
    fn a_built_store_holds_what_was_pushed() {
        let mut builder = MemoryBuilder::new();
        let rows: Vec<Row> = (0..100u8)
            .map(|byte| Row::new(&[byte], b"v", quartet_model::Version(1)))
            .collect();
        rows.iter().for_each(|row| builder.push(row.clone()));
        let store = builder.finish();
        assert_eq!(store.len(), 100);
        assert_eq!(store.nth(&[10], &[200], 5), Some(rows[15].clone()));
    }
}
