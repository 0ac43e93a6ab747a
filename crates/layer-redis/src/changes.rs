//! What the command that runs has done to keys, in order: what keyspace notifications and client-side caching are told from.
//!
//! [`Keyspace`](crate::keyspace::Keyspace) notes every change; handlers need not know. While nobody wants to hear of changes,
//! noting one is one load.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The key was absent before.
    Created,
    Written,
    Removed,
    /// Removed, or found to be dead, because its time was over.
    Expired,
    /// Removed because memory is short.
    Evicted,
    /// A reader looked for it in vain.
    Missed,
    /// A group of the stream goes on elsewhere. To those who watch or cache the key it is what it was; so with the next two, while
    /// the last one comes with a change of its own.
    GroupMoved,
    ConsumerAdded,
    ConsumerRemoved,
    /// Entries went because one was added.
    Trimmed,
}

impl What {
    /// Whoever has read the key would read something else now.
    pub fn changes_key(self) -> bool {
        matches!(
            self,
            What::Created | What::Written | What::Removed | What::Expired | What::Evicted
        )
    }
}

#[derive(Clone, Debug)]
pub struct Change {
    pub db: u8,
    pub name: Vec<u8>,
    pub what: What,
}

#[derive(Default)]
pub struct Changes {
    wanted: AtomicBool,
    noted: Mutex<Vec<Change>>,
}

impl Changes {
    /// Somebody wants to hear of changes from now on, or nobody.
    pub fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    #[inline]
    pub fn are_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn note(&self, db: u8, name: &[u8], what: What) {
        if self.are_wanted() {
            let name = name.to_vec();
            self.noted.lock().push(Change { db, name, what });
        }
    }

    /// The changes since the last call.
    pub fn take(&self) -> Vec<Change> {
        std::mem::take(&mut *self.noted.lock())
    }
}
