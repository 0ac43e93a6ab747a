//! The changes of keys by the command that runs, in order: the source of keyspace notifications and
//! client-side caching, and of the keys that search indexes have to look at again.
//!
//! [`Keyspace`](crate::keyspace::Keyspace) records every change; handlers need not know. Without
//! consumers and without an index, recording one is one load.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use parking_lot::Mutex;
use quartet_engine::UniqueId;
use quartet_wire_rdb::stream_id::StreamId;

use crate::keyspace::Kind;
use crate::keyspace::covered_names::CoveredNames;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The key was absent before.
    Created,
    Written,
    Removed,
    /// Removed, or found to be expired.
    Expired,
    /// The same, because its last field had expired.
    FieldsExpired,
    /// Removed because memory is short.
    Evicted,
    /// A reader looked for it in vain.
    Missed,
    /// A group of the stream has moved to another position. For watching or caching clients the key
    /// is unchanged; likewise for the next two, while the last one is accompanied by a change of
    /// its own.
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

    /// The key was removed by expiry or eviction, before or without a command's work.
    pub fn is_end(self) -> bool {
        matches!(self, What::Expired | What::FieldsExpired | What::Evicted)
    }
}

/// A field of a hash that was removed because it had expired, while the hash stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredField {
    pub db: u8,
    pub name: Vec<u8>,
    pub field: Vec<u8>,
}

/// An entry of a stream that was added or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TouchedEntry {
    /// The id of the stream's rows.
    pub elements: UniqueId,
    pub id: StreamId,
}

/// Keys and entries that indexes have to look at again.
#[derive(Debug, Default)]
pub struct Unindexed {
    /// Names of keys, each once.
    pub names: Vec<Vec<u8>>,
    /// Entries of streams among these.
    pub entries: Vec<TouchedEntry>,
}

#[derive(Clone, Debug)]
pub struct Change {
    pub db: u8,
    pub name: Vec<u8>,
    pub what: What,
    /// Known where the key's own row was written or removed.
    pub kinds: Kinds,
}

/// The kind of a key that existed before a change, and of one that exists after it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kinds {
    pub before: Option<Kind>,
    pub after: Option<Kind>,
}

/// Changes have consumers: listeners, replicas or caching clients.
const WANTED: u8 = 1;
/// There may be a search index. Set from the start: who looks for one and finds none says so.
const INDEXED: u8 = 2;

pub struct Changes {
    /// `WANTED` and `INDEXED`.
    purposes: AtomicU8,
    noted: Mutex<Vec<Change>>,
    expired_fields: Mutex<Vec<ExpiredField>>,
    /// Names of keys of database 0 that are something else than when indexes last looked. A name
    /// too many does no harm.
    unindexed: Mutex<Vec<Vec<u8>>>,
    /// The same for entries of streams.
    unindexed_entries: Mutex<Vec<TouchedEntry>>,
    /// One of these two lists may have something.
    has_unindexed: AtomicBool,
    /// Other names are not noted for indexes.
    covered: CoveredNames,
    /// The home decides deadlines up to this time, in milliseconds since the Unix epoch; 0: this
    /// node is home.
    home_decides_until_ms: AtomicU64,
    /// The command has read such a deadline.
    is_for_home: AtomicBool,
}

impl Default for Changes {
    fn default() -> Changes {
        Changes {
            purposes: INDEXED.into(),
            noted: Mutex::default(),
            expired_fields: Mutex::default(),
            unindexed: Mutex::default(),
            unindexed_entries: Mutex::default(),
            has_unindexed: AtomicBool::new(false),
            covered: CoveredNames::default(),
            home_decides_until_ms: AtomicU64::new(0),
            is_for_home: AtomicBool::new(false),
        }
    }
}

impl Changes {
    /// At a node that is not home: the home executes commands that read a deadline up to
    /// `until_ms`.
    pub fn leave_to_home(&self, until_ms: u64) {
        self.home_decides_until_ms.store(until_ms, Ordering::Relaxed);
    }

    /// The command looks at a key or a hash with this deadline.
    #[inline]
    pub fn met_deadline(&self, deadline_ms: u64) {
        if deadline_ms <= self.home_decides_until_ms.load(Ordering::Relaxed) {
            self.is_for_home.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if the command has read a deadline that the home decides.
    pub fn is_for_home(&self) -> bool {
        self.is_for_home.load(Ordering::Relaxed)
    }

    fn set(&self, purpose: u8, is_set: bool) {
        match is_set {
            true => self.purposes.fetch_or(purpose, Ordering::Relaxed),
            false => self.purposes.fetch_and(!purpose, Ordering::Relaxed),
        };
    }

    fn has(&self, purposes: u8) -> bool {
        self.purposes.load(Ordering::Relaxed) & purposes != 0
    }

    /// Sets whether changes have consumers from now on.
    pub fn want(&self, is_wanted: bool) {
        self.set(WANTED, is_wanted);
    }

    /// Sets whether keys that change are noted for indexes: all of them, until
    /// [`Changes::index_covered`] says which.
    pub fn index(&self, indexed: bool) {
        self.set(INDEXED, indexed);
        self.covered.forget();
    }

    /// From now on records for indexes only names with one of `prefixes`. Call [`Changes::index`]
    /// when an index is created, or a transaction that may have dropped one is rolled back. `mark`
    /// identifies the definitions with these prefixes.
    pub fn index_covered(&self, mark: &[u8], prefixes: Vec<Vec<u8>>) {
        self.covered.know(mark, prefixes);
    }

    /// Returns true if the names that are noted are those of the definitions with this mark.
    pub fn indexes_covered_by(&self, mark: &[u8]) -> bool {
        self.covered.are_of(mark)
    }

    #[inline]
    pub fn are_wanted(&self) -> bool {
        self.has(WANTED)
    }

    #[inline]
    pub fn are_indexed(&self) -> bool {
        self.has(INDEXED)
    }

    #[inline]
    pub fn are_noted(&self) -> bool {
        self.has(WANTED | INDEXED)
    }

    #[inline]
    pub fn note(&self, db: u8, name: &[u8], change: What) {
        self.note_kinds(db, name, change, Kinds::default());
    }

    /// The same of a key of a known kind, see [`Change::kinds`].
    #[inline]
    pub fn note_kinds(&self, db: u8, name: &[u8], change: What, kinds: Kinds) {
        if self.are_noted() {
            self.note_for(db, name, change, kinds);
        }
    }

    fn note_for(&self, db: u8, name: &[u8], change: What, kinds: Kinds) {
        if db == 0 && self.are_indexed() && change.changes_key() {
            self.note_unindexed(name);
        }
        if self.are_wanted() {
            let name = name.to_vec();
            let what = change;
            self.noted.lock().push(Change { db, name, what, kinds });
        }
    }

    /// Records a key of database 0 only for indexes.
    pub fn note_unindexed(&self, name: &[u8]) {
        if self.covered.has(name) {
            self.unindexed.lock().push(name.to_vec());
            self.has_unindexed.store(true, Ordering::Relaxed);
        }
    }

    /// Notes entries of a stream of a database for indexes.
    pub fn note_entries(&self, db: u8, elements: &UniqueId, ids: &[StreamId]) {
        if db == 0 && self.are_indexed() {
            let elements = *elements;
            let entries = ids.iter().map(|id| TouchedEntry { elements, id: *id });
            self.unindexed_entries.lock().extend(entries);
            self.has_unindexed.store(true, Ordering::Relaxed);
        }
    }

    /// There may be keys or entries that are noted for indexes.
    #[inline]
    pub fn has_unindexed(&self) -> bool {
        self.has_unindexed.load(Ordering::Relaxed)
    }

    /// Keys and entries noted for indexes since the last call.
    pub fn take_unindexed(&self) -> Unindexed {
        self.has_unindexed.store(false, Ordering::Relaxed);
        let mut names = std::mem::take(&mut *self.unindexed.lock());
        names.sort_unstable();
        names.dedup();
        let entries = std::mem::take(&mut *self.unindexed_entries.lock());
        Unindexed { names, entries }
    }

    pub fn note_expired_field(&self, db: u8, name: &[u8], field: &[u8]) {
        if self.are_wanted() {
            let (name, field) = (name.to_vec(), field.to_vec());
            self.expired_fields.lock().push(ExpiredField { db, name, field });
        }
    }

    /// The changes since the last call. Expired fields are dropped.
    pub fn take(&self) -> Vec<Change> {
        self.take_with_fields().0
    }

    /// The changes since the last call, and the fields that have expired.
    pub fn take_with_fields(&self) -> (Vec<Change>, Vec<ExpiredField>) {
        let expired_fields = std::mem::take(&mut *self.expired_fields.lock());
        (std::mem::take(&mut *self.noted.lock()), expired_fields)
    }
}
