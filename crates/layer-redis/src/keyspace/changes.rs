//! The changes of keys by the command that runs, in order: the source of keyspace notifications and
//! client-side caching.
//!
//! [`Keyspace`](crate::keyspace::Keyspace) notes every change; handlers need not know. While nobody
//! wants to hear of changes, noting one is one load.

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
    /// The same, because its last field's time was over.
    FieldsExpired,
    /// Removed because memory is short.
    Evicted,
    /// A reader looked for it in vain.
    Missed,
    /// A group of the stream goes on elsewhere. To those who watch or cache the key it is what it
    /// was; so with the next two, while the last one comes with a change of its own.
    GroupMoved,
    ConsumerAdded,
    ConsumerRemoved,
    /// Entries went because one was added.
    Trimmed,
}

impl What {
    /// A reader of the key would read something else now.
    pub fn changes_key(self) -> bool {
        matches!(
            self,
            What::Created | What::Written | What::Removed | What::Expired | What::FieldsExpired | What::Evicted
        )
    }

    /// The key went by itself, before or without a command's work.
    pub fn is_end(self) -> bool {
        matches!(self, What::Expired | What::FieldsExpired | What::Evicted)
    }
}

/// A field of a hash that was removed because its time was over, while the hash stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredField {
    pub db: u8,
    pub name: Vec<u8>,
    pub field: Vec<u8>,
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
    expired_fields: Mutex<Vec<ExpiredField>>,
}

impl Changes {
    /// Sets whether anybody wants to hear of changes from now on.
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

    pub fn note_expired_field(&self, db: u8, name: &[u8], field: &[u8]) {
        if self.are_wanted() {
            let (name, field) = (name.to_vec(), field.to_vec());
            self.expired_fields.lock().push(ExpiredField { db, name, field });
        }
    }

    /// The changes since the last call. Fields that have expired are not asked for later.
    pub fn take(&self) -> Vec<Change> {
        self.take_with_fields().0
    }

    /// The changes since the last call, and the fields that have expired.
    pub fn take_with_fields(&self) -> (Vec<Change>, Vec<ExpiredField>) {
        let expired_fields = std::mem::take(&mut *self.expired_fields.lock());
        (std::mem::take(&mut *self.noted.lock()), expired_fields)
    }
}
