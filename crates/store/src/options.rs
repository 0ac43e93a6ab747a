//! The options a store is opened with.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Which store a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// Every row is in memory; the disk holds checkpoints and the log.
    Memory,
    /// Rows are in a tree of files; memory holds a cache, and what has changed since the last
    /// flush.
    Ssd,
}

impl StoreKind {
    /// Every kind there is.
    pub const ALL: [StoreKind; 2] = [StoreKind::Memory, StoreKind::Ssd];

    /// The name in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            StoreKind::Memory => "memory",
            StoreKind::Ssd => "ssd",
        }
    }

    /// The kind of that name, in lower case and nothing around it.
    pub fn parse(name: &str) -> Option<StoreKind> {
        StoreKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The kind of store; `None` means the kind that the directory holds, or the memory store if it
    /// is empty.
    pub kind: Option<StoreKind>,
    /// Bytes of disk reads that are cached in memory.
    pub cache_bytes: u64,
    /// Bytes to keep reserved on the disk, so that a small checkpoint can be written when it is
    /// full.
    pub reserved_bytes: u64,
    /// Setting it while a checkpoint is written ends that without result, soon. The store on disk
    /// ignores it: its flush is what frees memory.
    pub checkpoint_given_up: Arc<AtomicBool>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            kind: None,
            cache_bytes: 256 << 20,
            reserved_bytes: 0,
            checkpoint_given_up: Arc::default(),
        }
    }
}
