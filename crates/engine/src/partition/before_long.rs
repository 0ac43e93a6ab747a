//! The latest committed state while a transaction holds the partition's lock for long, read by
//! others without the lock.
//!
//! Nothing of that transaction is visible before the lock is free, and nothing else commits
//! meanwhile. So until then that state is the latest, and a reader that takes it is ordered before
//! the transaction. It is withdrawn at the commit, before any client is notified of it; later
//! readers wait for the lock. The price is the transaction's: it copies each node of the tree at
//! its first change there.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use quartet_model::{DatabaseId, Version};
use quartet_store::PartitionSnapshot;

use crate::partition::state::PartitionState;

/// The state that readers take, if a holder of the lock shows it.
#[derive(Default)]
pub(crate) struct BeforeLong {
    is_shown: AtomicBool,
    shown: Mutex<Option<Shown>>,
}

/// A state, and the version of its latest commit.
pub(crate) struct Shown {
    snapshot: PartitionSnapshot,
    version: Version,
    /// Databases that have left for another partition.
    fenced: Vec<DatabaseId>,
}

impl BeforeLong {
    /// Shows the state. Called by the holder of the exclusive lock, before its transaction starts;
    /// only at a home.
    pub fn show(&self, state: &PartitionState) {
        *self.shown.lock() = Some(Shown {
            snapshot: state.snapshot(),
            version: state.last_version(),
            fenced: state.fenced.clone(),
        });
        self.is_shown.store(true, Ordering::SeqCst);
    }

    #[inline]
    pub fn is_shown(&self) -> bool {
        self.is_shown.load(Ordering::Relaxed)
    }

    /// Ends it. The caller drops the state once the lock is free, because that
    /// frees the nodes that the transaction has replaced.
    #[cold]
    pub fn withdraw(&self) -> Option<Shown> {
        self.is_shown.store(false, Ordering::SeqCst);
        self.shown.lock().take()
    }

    /// The state, for a database that is served here. `None`: the reader waits for the lock.
    pub fn copy(&self, database: DatabaseId) -> Option<(PartitionSnapshot, Version)> {
        let guard = self.shown.lock();
        let state = guard.as_ref().filter(|state| !state.fenced.contains(&database))?;
        Some((state.snapshot.clone(), state.version))
    }
}
