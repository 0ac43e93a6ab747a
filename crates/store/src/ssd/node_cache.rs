//! One generation of the tree, with its nodes that are reached without a look-up in the cache.
//!
//! ```text
//! root ─┬─ inner node ─┬─ leaf      inner nodes that were read are kept, up to a number of bytes;
//!       │              └─ leaf      of those below them it is remembered where the cache has them
//!       └─ inner node ─ …
//! ```
//!
//! A node that the cache has evicted is looked up there from then on: so the cache sees which nodes
//! are used.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::files::Files;
use super::node::{Inner, Node, Place};
use super::root::Tree;
use crate::error::StoreError;
use crate::prefetch::prefetch;

pub(super) struct OpenTree {
    pub tree: Tree,
    root: Slot,
    /// Bytes of nodes that may still be kept.
    bytes_left: AtomicU64,
}

/// Facts about a node, once it was looked at.
type Slot = OnceLock<Known>;

enum Known {
    CachedNode(CachedNode),
    Cached(Weak<Node>),
}

struct CachedNode {
    node: Arc<Node>,
    /// As the node has them.
    children: Box<[Slot]>,
}

/// The end of a path's part through kept nodes.
pub(super) struct Step<'t> {
    open: &'t OpenTree,
    slot: &'t Slot,
    place: &'t Place,
    /// Levels below the node: zero if it is a leaf.
    height: u8,
}

impl OpenTree {
    pub fn new(tree: Tree, files: &Files) -> Arc<OpenTree> {
        Arc::new(OpenTree {
            tree,
            root: Slot::new(),
            bytes_left: AtomicU64::new(files.kept_bytes),
        })
    }

    /// Follows the children that `child_of` chooses to the first node that is not kept, or is a
    /// leaf.
    pub fn step(&self, mut child_of: impl FnMut(&Inner) -> usize) -> Step<'_> {
        let (mut slot, mut place, mut height) = (&self.root, &self.tree.root.place, self.tree.height);
        while let Some(Known::CachedNode(cached)) = slot.get()
            && let Node::Inner(inner) = &*cached.node
        {
            let index = child_of(inner);
            (slot, place) = (&cached.children[index], &inner.children[index].place);
            height = height.saturating_sub(1);
        }
        Step {
            open: self,
            slot,
            place,
            height,
        }
    }

    fn know(&self, node: &Arc<Node>) -> Known {
        let reserve = |inner: &Inner| {
            let bytes = node.memory_bytes() + (inner.children.len() * size_of::<Slot>()) as u64;
            let reduced = |budget: u64| budget.checked_sub(bytes);
            self.bytes_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, reduced)
                .is_ok()
        };
        match &**node {
            Node::Inner(inner) if reserve(inner) => Known::CachedNode(CachedNode {
                node: node.clone(),
                children: inner.children.iter().map(|_| Slot::new()).collect(),
            }),
            _ => Known::Cached(Arc::downgrade(node)),
        }
    }
}

impl Step<'_> {
    pub fn node(&self, files: &Files) -> Result<Arc<Node>, StoreError> {
        if let Some(Known::Cached(node)) = self.slot.get()
            && let Some(node) = node.upgrade()
        {
            files.count_node();
            return Ok(node);
        }
        let node = files.node(self.place)?;
        self.slot.get_or_init(|| self.open.know(&node));
        Ok(node)
    }

    /// Returns the place of the leaf at the end of the way, unless that is known to be cached.
    pub fn leaf_to_read(&self, files: &Files, child_of: impl Fn(&Inner) -> usize) -> Result<Option<Place>, StoreError> {
        if self.height == 0 {
            let is_known = matches!(self.slot.get(), Some(Known::Cached(node)) if node.strong_count() > 0);
            return Ok((!is_known).then_some(*self.place));
        }
        let (mut node, mut height) = (self.node(files)?, self.height);
        loop {
            let Node::Inner(inner) = &*node else { return Ok(None) };
            let place = inner.children[child_of(inner)].place;
            height -= 1;
            if height == 0 {
                return Ok(Some(place));
            }
            node = files.node(&place)?;
        }
    }

    /// Prefetches the node, if its place in the cache is known.
    pub fn prefetch(&self) {
        if let Some(Known::Cached(node)) = self.slot.get() {
            // The reference counts are directly before it.
            let node = node.as_ptr();
            prefetch(node.cast::<u64>().wrapping_sub(1));
            prefetch(node.wrapping_add(1).cast::<u8>().wrapping_sub(1));
        }
    }
}
