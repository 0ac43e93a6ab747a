//! Keys of a Redis database as rows of the ordered store.
//!
//! ```text
//! 'K' db place                    the key: header, payload; place stands for the name, see `places`
//! 'E' id element                  an element of a large collection; id is given once and never again
//! 'T' deadline db name            the key expires at the deadline; no value
//! 'F' deadline db name            the hash's first expiring field does so at the deadline; no value
//! 'M' ...                         keys of modules by their marks: see `marks`
//! 'L' ...                         libraries of functions: see `commands::scripting::libraries`
//! 'S' ...                         search indexes: see `indexes`
//! 'V' id                          elements of a vector set wait to be linked: see `indexes`
//! 'R'                             the source of a replica: see `commands::server::replicas`
//! 'U'                             users differ from their row: see `commands::server::unstored_users`
//!
//! header:  kind and flags (1 byte), expiry in ms since the Unix epoch (8 bytes, if HAS_EXPIRY)
//! payload: the family's own bytes; a large collection's begins with its id (10 bytes),
//!          that of a hash with FLAG_B ends with the deadline of its first expiring field (8 bytes, big-endian)
//! ```
//!
//! A name whose expiry has passed is absent for every reader; the expiry cycle or the next writer
//! removes its rows. Invariants: a key with an expiry has exactly one 'T' row, and a hash with
//! FLAG_B exactly one 'F' row, written in the same transaction as the key and only by this file, so
//! code that moves, copies or replaces a key need not know of them; elements under an id exist only
//! while a key with that id exists.

pub(crate) mod changes;
pub(crate) mod covered_names;
pub(crate) mod event_classes;
pub(crate) mod eviction_policy;
pub(crate) mod fixed;
pub(crate) mod found_expired;
pub(crate) mod late_part;
pub(crate) mod long_double;
pub mod marks;
pub mod packed;
pub(crate) mod places;
pub(crate) mod random;
pub(crate) mod recency;
pub(crate) mod scan;
pub mod stored_key;
pub(crate) mod string_value;

use std::ops::ControlFlow;

use quartet_engine::Row;
use quartet_engine::{Reader, Transaction, UniqueId, Visit};
pub use quartet_wire_rdb::NAME_BYTES_MAX;
use quartet_wire_resp::Arguments;
use smallvec::SmallVec;

use crate::command::Command;
use crate::command::error_reply::ErrorReply;
use crate::command::errors;
use crate::facts::DATABASES;
use crate::keyspace::changes::{Changes, Kinds, What};
use crate::keyspace::places::joined;

pub use crate::keyspace::places::{KeyBytes, key_row};

/// The contents of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    String,
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
    Json,
    /// The [`DataType`](crate::module::DataType) of a module with this number, 7 or more.
    Module(u8),
}

impl Kind {
    /// The word that TYPE answers. A module's keys have theirs from
    /// [`Modules::type_name`](crate::module::Modules::type_name).
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
            Kind::Json => "ReJSON-RL",
            Kind::Module(_) => "module",
        }
    }

    /// The number in a key's header.
    pub fn number(self) -> u8 {
        match self {
            Kind::String => 0,
            Kind::List => 1,
            Kind::Set => 2,
            Kind::SortedSet => 3,
            Kind::Hash => 4,
            Kind::Stream => 5,
            Kind::Json => 6,
            Kind::Module(number) => number,
        }
    }

    fn from_header(header: u8) -> Kind {
        match header & KIND_MASK {
            0 => Kind::String,
            1 => Kind::List,
            2 => Kind::Set,
            3 => Kind::SortedSet,
            4 => Kind::Hash,
            5 => Kind::Stream,
            6 => Kind::Json,
            other => Kind::Module(other),
        }
    }
}

/// The bits of a kind's number in a key's header.
const KIND_MASK: u8 = 0x0f;
const HAS_EXPIRY: u8 = 0x10;
/// The elements are rows of their own.
pub const LARGE: u8 = 0x20;
/// The family's own flags.
pub const FLAG_A: u8 = 0x40;
pub const FLAG_B: u8 = 0x80;
const FLAGS: u8 = LARGE | FLAG_A | FLAG_B;

/// Returns true if a key exceeds the length limit. Called only for requests longer than that.
pub fn has_long_key(command: &Command, arguments: Arguments<'_>) -> bool {
    let mut positions = command.keys.positions(arguments).into_iter();
    positions.any(|position| arguments[position].len() > NAME_BYTES_MAX)
}

/// A key as it was found. Holds its row, so it stays readable while the key changes.
#[derive(Clone)]
pub struct Entry {
    row: Row,
    pub kind: Kind,
    /// `LARGE`, `FLAG_A`, `FLAG_B`.
    pub flags: u8,
    pub expiry_ms: Option<u64>,
    payload_start: u8,
}

impl Entry {
    /// Reads a row. Panics if no version has written it.
    pub fn from_row(row: Row) -> Entry {
        let (header, payload) = Header::read(row.value());
        Entry {
            kind: header.kind,
            flags: header.flags,
            expiry_ms: header.expiry_ms,
            payload_start: (row.value().len() - payload.len()) as u8,
            row,
        }
    }

    /// The key's row.
    pub fn row(&self) -> &Row {
        &self.row
    }

    /// The header of the key's row, before the payload.
    pub fn header_bytes(&self) -> usize {
        self.payload_start.into()
    }

    /// The family's bytes. For a large collection they start with its id.
    pub fn payload(&self) -> &[u8] {
        &self.row.value()[usize::from(self.payload_start)..]
    }

    pub fn is_large(&self) -> bool {
        self.flags & LARGE != 0
    }

    /// The elements of a large collection.
    pub fn elements(&self) -> Elements {
        Elements::of_payload(self.payload())
    }

    /// The payload of a large collection after its id.
    pub fn large_payload(&self) -> &[u8] {
        &self.payload()[10..]
    }

    /// The time of the key's last write, in microseconds since the Unix epoch.
    pub fn written_micros(&self) -> u64 {
        self.row.version().0
    }

    /// Bytes of the key's own row.
    pub fn row_bytes(&self) -> usize {
        self.row.key().len() + self.row.value().len()
    }

    /// The deadlines of a hash's fields.
    pub fn field_deadlines(&self) -> FieldDeadlines {
        field_deadlines(self.kind, self.flags, &[self.payload()])
    }

    fn deadlines(&self) -> Deadlines {
        Header::of(self).deadlines(&[self.payload()])
    }

    /// Returns true if the key has expired. Notes its deadlines, so every reader calls it.
    #[inline]
    fn is_expired(&self, now_ms: u64, changes: &Changes) -> bool {
        let deadlines = self.deadlines();
        if let Some(first_ms) = deadlines.first_ms() {
            changes.met_deadline(first_ms);
        }
        deadlines.ended(now_ms).is_some()
    }
}

/// Why a reader finds no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Absent,
    /// Its rows are still there.
    Expired,
}

/// The new state of a key.
#[derive(Clone, Copy)]
pub struct Header {
    pub kind: Kind,
    pub flags: u8,
    pub expiry_ms: Option<u64>,
}

impl Header {
    pub fn new(kind: Kind) -> Header {
        Header {
            kind,
            flags: 0,
            expiry_ms: None,
        }
    }

    /// The header of an existing key, to be written back with a new payload.
    pub fn of(entry: &Entry) -> Header {
        Header {
            kind: entry.kind,
            flags: entry.flags,
            expiry_ms: entry.expiry_ms,
        }
    }

    /// The header of a string whose bytes were changed, not set: it keeps its expiry, and Redis
    /// calls it raw from then on.
    pub fn patched(old: Option<&Entry>) -> Header {
        Header {
            kind: Kind::String,
            flags: FLAG_A,
            expiry_ms: old.and_then(|entry| entry.expiry_ms),
        }
    }

    pub fn flags(self, flags: u8) -> Header {
        Header { flags, ..self }
    }

    pub fn expiry(self, expiry_ms: Option<u64>) -> Header {
        Header { expiry_ms, ..self }
    }

    /// The header of a row's value, and the payload after it.
    #[inline]
    fn read(value: &[u8]) -> (Header, &[u8]) {
        let first = value[0];
        let expiry_ms = (first & HAS_EXPIRY != 0)
            .then(|| u64::from_be_bytes(value[1..9].try_into().expect("eight bytes of expiry")));
        let header = Header {
            kind: Kind::from_header(first),
            flags: first & FLAGS,
            expiry_ms,
        };
        (header, &value[if expiry_ms.is_some() { 9 } else { 1 }..])
    }

    /// Returns the size of a key with this header and payload.
    #[inline]
    fn deadlines(&self, payload: &[&[u8]]) -> Deadlines {
        Deadlines {
            key_ms: self.expiry_ms,
            fields: field_deadlines(self.kind, self.flags, payload),
        }
    }
}

/// The former row of a key that has been written.
struct Overwritten {
    kind: Kind,
    deadlines: Deadlines,
    /// For a large collection.
    elements: Option<Elements>,
    /// The payload of a key with rows in `marks`, and its flags.
    marked: Option<(u8, Vec<u8>)>,
}

impl Overwritten {
    #[inline]
    fn of(row: &Row) -> Overwritten {
        let (header, payload) = Header::read(row.value());
        Overwritten {
            kind: header.kind,
            deadlines: header.deadlines(&[payload]),
            elements: (header.flags & LARGE != 0).then(|| Elements::of_payload(payload)),
            marked: marks::are_of(header.kind, header.flags).then(|| (header.flags, payload.to_vec())),
        }
    }
}

/// The deadlines of a key. Its own deadline and its first field's are in the two indexes that the
/// expiry cycle walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Deadlines {
    key_ms: Option<u64>,
    fields: FieldDeadlines,
}

impl Deadlines {
    /// The first of them.
    #[inline]
    fn first_ms(&self) -> Option<u64> {
        [self.key_ms, self.fields.first_ms].into_iter().flatten().min()
    }

    /// Why the key is no more at this time, if it is not.
    #[inline]
    fn ended(&self, now_ms: u64) -> Option<What> {
        let is_over = |deadline_ms: Option<u64>| deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms);
        match () {
            () if is_over(self.key_ms) => Some(What::Expired),
            () if is_over(self.fields.last_ms) => Some(What::FieldsExpired),
            () => None,
        }
    }
}

/// The deadlines of a hash's fields, in milliseconds since the Unix epoch. A hash is removed with
/// its last field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldDeadlines {
    /// `None`: no field has a deadline.
    pub first_ms: Option<u64>,
    /// `None`: a field stays.
    pub last_ms: Option<u64>,
}

impl FieldDeadlines {
    /// Length at the end of the payload of a hash with FLAG_B.
    pub const BYTES: usize = 16;
    /// Represents a missing deadline.
    const NONE: u64 = u64::MAX;

    pub fn to_bytes(self) -> [u8; FieldDeadlines::BYTES] {
        let mut bytes = [0; FieldDeadlines::BYTES];
        bytes[..8].copy_from_slice(&self.first_ms.unwrap_or(FieldDeadlines::NONE).to_be_bytes());
        bytes[8..].copy_from_slice(&self.last_ms.unwrap_or(FieldDeadlines::NONE).to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; FieldDeadlines::BYTES]) -> FieldDeadlines {
        let part = |at: usize| {
            let deadline_ms = u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
            (deadline_ms != FieldDeadlines::NONE).then_some(deadline_ms)
        };
        FieldDeadlines {
            first_ms: part(0),
            last_ms: part(8),
        }
    }
}

/// The last bytes of the payload of a hash with FLAG_B. Panics if there are fewer.
#[inline]
fn field_deadlines(kind: Kind, flags: u8, payload: &[&[u8]]) -> FieldDeadlines {
    if kind != Kind::Hash || flags & FLAG_B == 0 {
        return FieldDeadlines::default();
    }
    let mut deadlines = [0; FieldDeadlines::BYTES];
    let mut backwards = payload.iter().rev().flat_map(|part| part.iter().rev());
    for byte in deadlines.iter_mut().rev() {
        *byte = *backwards.next().expect("a hash with FLAG_B ends with deadlines");
    }
    FieldDeadlines::from_bytes(deadlines)
}

/// One Redis database inside a transaction.
pub struct Keyspace<'k, 't> {
    pub tx: &'k mut Transaction<'t>,
    pub db: u8,
    pub now_ms: u64,
    /// The record of all changes to keys.
    pub changes: &'k Changes,
}

impl Keyspace<'_, '_> {
    /// The key's row, unless it is absent or has expired.
    pub fn find(&mut self, name: &[u8]) -> Option<Entry> {
        self.look_up(name).ok()
    }

    /// Prefetches keys that will be looked up soon: several take little longer than a single key.
    pub fn fetch<'k>(&mut self, names: impl Iterator<Item = &'k [u8]>) {
        let rows: Vec<_> = names.map(|name| key_row(self.db, name)).collect();
        if rows.len() > 1 {
            self.tx.fetch_rows(&rows);
        }
    }

    /// The keys' rows, each as [`Keyspace::find`] finds it, in their order: several take little
    /// longer than a single row.
    pub fn find_each<'n>(&mut self, names: impl Iterator<Item = &'n [u8]>) -> Vec<Option<Entry>> {
        let (db, now_ms, changes) = (self.db, self.now_ms, self.changes);
        let rows = self.tx.get_each(&[], names.map(|name| key_row(db, name)));
        rows.iter().flatten().for_each(Row::prefetch_on);
        let entries = rows.into_iter().map(|row| row.map(Entry::from_row));
        entries
            .map(|entry| entry.filter(|entry| !entry.is_expired(now_ms, changes)))
            .collect()
    }

    /// The key, or why there is none.
    pub fn look_up(&mut self, name: &[u8]) -> Result<Entry, Missing> {
        let row = self.tx.get(&key_row(self.db, name)).ok_or(Missing::Absent)?;
        let entry = Entry::from_row(row);
        if entry.is_expired(self.now_ms, self.changes) {
            return Err(Missing::Expired);
        }
        Ok(entry)
    }

    /// The key's row, even if it has expired and was not removed yet: for administrative reads.
    pub fn find_dead_or_alive(&mut self, name: &[u8]) -> Option<Entry> {
        self.tx.get(&key_row(self.db, name)).map(Entry::from_row)
    }

    /// The key, if it holds `kind`; an error if it holds another.
    pub fn find_kind(&mut self, name: &[u8], kind: Kind) -> Result<Option<Entry>, ErrorReply> {
        match self.find(name) {
            Some(entry) if entry.kind != kind => Err(errors::WRONG_TYPE.into()),
            found => Ok(found),
        }
    }

    /// Writes the key. An existing key is replaced: its old expiry and, unless the id stays the
    /// same, its elements are removed.
    pub fn put(&mut self, name: &[u8], header: Header, payload: &[u8]) {
        self.put_parts(name, header, &[payload]);
    }

    /// The same with the payload in parts. The first part holds the whole id of a large collection.
    pub fn put_parts(&mut self, name: &[u8], header: Header, payload: &[&[u8]]) {
        let mut head = [0; 9];
        head[0] = header.kind.number() | header.flags & FLAGS;
        let mut head_bytes = 1;
        if let Some(expiry_ms) = header.expiry_ms {
            head[0] |= HAS_EXPIRY;
            head[1..].copy_from_slice(&expiry_ms.to_be_bytes());
            head_bytes = 9;
        }
        let mut parts: SmallVec<[&[u8]; 8]> = SmallVec::new();
        parts.push(&head[..head_bytes]);
        parts.extend_from_slice(payload);
        let key = key_row(self.db, name);
        let old = self.tx.set_parts(&[&key], &parts).map(Overwritten::of);
        let old_deadlines = old.as_ref().map(|old| old.deadlines);
        self.move_deadlines(name, old_deadlines.unwrap_or_default(), header.deadlines(payload));
        self.note_put(name, old.as_ref(), header.kind);
        let old_marked = old.as_ref().and_then(|old| old.marked.as_ref());
        if old_marked.is_some() || marks::are_of(header.kind, header.flags) {
            let old_rows = old_marked.map(|(flags, payload)| marks::rows(self.db, name, *flags, payload));
            let is_marked = marks::are_of(header.kind, header.flags);
            let new_rows = is_marked.then(|| marks::rows(self.db, name, header.flags, &payload.concat()));
            marks::replace(self.tx, &old_rows.unwrap_or_default(), &new_rows.unwrap_or_default());
        }
        if let Some(elements) = old.and_then(|old| old.elements) {
            let keeps_id = header.flags & LARGE != 0 && payload[0].starts_with(elements.id());
            if !keeps_id {
                elements.clear_all(self.tx);
            }
        }
    }

    /// Removes the key and all that belongs to it. False if it was absent (or had expired: its rows
    /// go all the same).
    pub fn remove(&mut self, name: &[u8]) -> bool {
        self.remove_because(name, What::Removed)
    }

    /// The same; `change` is the event for listeners, unless the key had expired.
    pub fn remove_because(&mut self, name: &[u8], change: What) -> bool {
        let Some(old) = self.tx.clear(&key_row(self.db, name)).map(Entry::from_row) else {
            return false;
        };
        self.move_deadlines(name, old.deadlines(), Deadlines::default());
        self.clear_marks(name, &old);
        if old.is_large() {
            old.elements().clear_all(self.tx);
        }
        let ended = old.deadlines().ended(self.now_ms);
        let kinds = Kinds {
            before: Some(old.kind),
            after: None,
        };
        self.changes.note_kinds(self.db, name, ended.unwrap_or(change), kinds);
        ended.is_none()
    }

    /// Removes the key's row but leaves the elements, for a collection that continues under another
    /// name.
    pub fn take(&mut self, name: &[u8]) -> Option<Entry> {
        let old = self.tx.clear(&key_row(self.db, name)).map(Entry::from_row)?;
        self.move_deadlines(name, old.deadlines(), Deadlines::default());
        self.clear_marks(name, &old);
        self.changes.note(self.db, name, What::Removed);
        Some(old)
    }

    #[inline]
    fn clear_marks(&mut self, name: &[u8], old: &Entry) {
        if marks::are_of(old.kind, old.flags) {
            let rows = marks::rows(self.db, name, old.flags, old.payload());
            marks::replace(self.tx, &rows, &[]);
        }
    }

    /// Writes the key back with another expiry.
    pub fn set_expiry(&mut self, name: &[u8], entry: &Entry, expiry_ms: Option<u64>) {
        self.put(name, Header::of(entry).expiry(expiry_ms), entry.payload());
    }

    /// Notifies the clients that watch or wait for `name` that an element changed although the
    /// key's own row did not.
    pub fn touch(&mut self, name: &[u8]) {
        self.tx.touch(&key_row(self.db, name));
        self.changes.note(self.db, name, What::Written);
    }

    #[inline]
    fn note_put(&self, name: &[u8], old: Option<&Overwritten>, kind: Kind) {
        if !self.changes.are_noted() {
            return;
        }
        let created = Kinds {
            before: None,
            after: Some(kind),
        };
        let Some(old) = old else {
            return self.changes.note_kinds(self.db, name, What::Created, created);
        };
        match old.deadlines.ended(self.now_ms) {
            Some(ended) => {
                self.changes.note(self.db, name, ended);
                self.changes.note_kinds(self.db, name, What::Created, created);
            }
            None => {
                let kinds = Kinds {
                    before: Some(old.kind),
                    after: Some(kind),
                };
                self.changes.note_kinds(self.db, name, What::Written, kinds);
            }
        }
    }

    /// A fresh large collection's elements.
    pub fn new_elements(&mut self) -> Elements {
        Elements::of(self.tx.unique_id())
    }

    /// The number of the database's keys, including keys that have expired but are not removed yet.
    pub fn key_count(&mut self) -> u64 {
        let (start, end) = keys_range(self.db);
        self.tx.count(&start, &end)
    }

    /// The key at `index` in the order of places; used to pick one at random.
    pub fn key_at(&mut self, index: u64) -> Option<(Vec<u8>, Entry)> {
        let (start, end) = keys_range(self.db);
        let row = self.tx.nth(&start, &end, index)?;
        Some((name_of(&row).to_vec(), Entry::from_row(row)))
    }

    /// Returns true if the key has expired by this transaction's time.
    pub fn has_expired(&self, entry: &Entry) -> bool {
        entry.is_expired(self.now_ms, self.changes)
    }

    /// Why the key that `look_up` has found expired is no more.
    pub fn end_of(&mut self, name: &[u8]) -> Option<What> {
        self.find_dead_or_alive(name)?.deadlines().ended(self.now_ms)
    }

    /// The command has found an expired field, and removes it.
    pub fn note_expired_field(&self, name: &[u8], field: &[u8]) {
        self.changes.note_expired_field(self.db, name, field);
    }

    /// Visits live keys in the order of their places.
    pub fn scan_keys(&mut self, visit: &mut dyn FnMut(&[u8], Entry) -> ControlFlow<()>) {
        let start = keys_range(self.db).0;
        self.scan_keys_from(&start, visit);
    }

    /// The same, from the place after that of `name`.
    pub fn scan_keys_after(&mut self, name: &[u8], visit: &mut dyn FnMut(&[u8], Entry) -> ControlFlow<()>) {
        let mut start = key_row(self.db, name);
        start.push(0);
        self.scan_keys_from(&start, visit);
    }

    fn scan_keys_from(&mut self, start: &[u8], visit: &mut dyn FnMut(&[u8], Entry) -> ControlFlow<()>) {
        let (now_ms, changes) = (self.now_ms, self.changes);
        let (_, end) = keys_range(self.db);
        self.tx.scan(start, &end, false, &mut |row| {
            let entry = Entry::from_row(row.clone());
            if entry.is_expired(now_ms, changes) {
                ControlFlow::Continue(())
            } else {
                visit(&name_of(row), entry)
            }
        });
    }

    /// Visits the live keys among about `count` keys from the position of `cursor` on. Returns the
    /// cursor of the next page, 0 after the last key. Keys with equal cursors are visited together.
    pub fn scan_page(&mut self, cursor: u64, count: u64, visit: &mut dyn FnMut(&[u8], Entry)) -> u64 {
        let (now_ms, changes) = (self.now_ms, self.changes);
        let Some(start) = places::start_of_page(self.db, cursor) else {
            return 0;
        };
        let (_, end) = keys_range(self.db);
        let (mut visited, mut last, mut next) = (0, 0, 0);
        self.tx.scan(&start, &end, false, &mut |row| {
            let place = &Transaction::layer_key(row)[KEYS_PREFIX_BYTES..];
            let cursor = places::cursor(place);
            if visited >= count && cursor != last {
                next = cursor;
                return ControlFlow::Break(());
            }
            let entry = Entry::from_row(row.clone());
            if !entry.is_expired(now_ms, changes) {
                visit(&places::name(place), entry);
            }
            visited += 1;
            last = cursor;
            ControlFlow::Continue(())
        });
        next
    }

    /// Removes every key of the database. Returns how many there were.
    pub fn clear(&mut self) -> u64 {
        let mut owned: Vec<(Vec<u8>, Deadlines, Option<Elements>)> = Vec::new();
        let mut cleared: Vec<Vec<u8>> = Vec::new();
        let (start, end) = keys_range(self.db);
        self.tx.scan(&start, &end, false, &mut |row| {
            let entry = Entry::from_row(row.clone());
            let elements = entry.is_large().then(|| entry.elements());
            let deadlines = entry.deadlines();
            if self.changes.are_indexed() && self.db == 0 {
                cleared.push(name_of(row).to_vec());
            }
            if elements.is_some() || deadlines != Deadlines::default() {
                owned.push((name_of(row).to_vec(), deadlines, elements));
            }
            ControlFlow::Continue(())
        });
        for (name, deadlines, elements) in owned {
            self.move_deadlines(&name, deadlines, Deadlines::default());
            if let Some(elements) = elements {
                elements.clear_all(self.tx);
            }
        }
        cleared.iter().for_each(|name| self.changes.note_unindexed(name));
        self.tx.clear_range(&[b'M', self.db], &[b'M', self.db + 1]);
        self.tx.clear_range(&start, &end)
    }

    fn move_deadlines(&mut self, name: &[u8], old: Deadlines, new: Deadlines) {
        self.move_deadline(b'T', name, old.key_ms, new.key_ms);
        self.move_deadline(b'F', name, old.fields.first_ms, new.fields.first_ms);
    }

    #[inline]
    fn move_deadline(&mut self, tag: u8, name: &[u8], old: Option<u64>, new: Option<u64>) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.tx.clear(&expiry_row(tag, old, self.db, name));
        }
        if let Some(new) = new {
            self.tx.set(&expiry_row(tag, new, self.db, name), b"");
        }
    }
}

/// Takes the database, the deadline and the name of a key; breaks to end the scan.
pub type VisitDue<'v> = &'v mut dyn FnMut(u8, u64, &[u8]) -> ControlFlow<()>;

/// Visits keys whose deadline (of the key, or of some field) is at or before `now_ms`, until
/// `visit` breaks: database, deadline, name.
pub fn each_due(tx: &mut Transaction<'_>, is_of_fields: bool, now_ms: u64, visit: VisitDue<'_>) {
    let tag = if is_of_fields { b'F' } else { b'T' };
    let start = expiry_row(tag, 0, 0, b"");
    let end = expiry_row(tag, now_ms.saturating_add(1), 0, b"");
    tx.scan(&start, &end, false, &mut |row| {
        let key = Transaction::layer_key(row);
        let deadline_ms = u64::from_be_bytes(key[1..9].try_into().expect("eight bytes of deadline"));
        visit(key[9], deadline_ms, &key[10..])
    });
}

/// The first of them.
pub fn due(tx: &mut Transaction<'_>, is_of_fields: bool, now_ms: u64, count_max: usize) -> Vec<(u8, u64, Vec<u8>)> {
    let mut due = Vec::new();
    each_due(tx, is_of_fields, now_ms, &mut |db, deadline_ms, name| {
        due.push((db, deadline_ms, name.to_vec()));
        if due.len() < count_max {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    due
}

/// The number of keys with a deadline.
pub fn keys_with_deadlines(tx: &mut Transaction<'_>) -> u64 {
    tx.count(b"T", b"U")
}

/// Database and name of the key with the deadline at `index`, the soonest first.
pub fn key_with_deadline(tx: &mut Transaction<'_>, index: u64) -> Option<(u8, Vec<u8>)> {
    let row = tx.nth(b"T", b"U", index)?;
    let key = Transaction::layer_key(&row);
    Some((key[9], key[10..].to_vec()))
}

/// The tag and the database, in front of a place.
const KEYS_PREFIX_BYTES: usize = 2;

pub fn keys_range(db: u8) -> ([u8; 2], [u8; 2]) {
    ([b'K', db], [b'K', db + 1])
}

fn name_of(row: &Row) -> KeyBytes {
    name_of_row(Transaction::layer_key(row))
}

/// The name of the key with this row, as [`key_row`] has made it.
pub fn name_of_row(row: &[u8]) -> KeyBytes {
    places::name(&row[KEYS_PREFIX_BYTES..])
}

fn expiry_row(tag: u8, deadline_ms: u64, db: u8, name: &[u8]) -> KeyBytes {
    let mut key = KeyBytes::new();
    key.push(tag);
    key.extend_from_slice(&deadline_ms.to_be_bytes());
    key.push(db);
    key.extend_from_slice(name);
    key
}

/// The rows of one large collection. The family decides what an element's key and value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    prefix: [u8; 11],
}

impl Elements {
    fn of(id: UniqueId) -> Elements {
        let mut prefix = [b'E'; 11];
        prefix[1..].copy_from_slice(&id);
        Elements { prefix }
    }

    /// Those of a large collection with this payload.
    #[inline]
    fn of_payload(payload: &[u8]) -> Elements {
        let id = payload.first_chunk().expect("a large collection begins with its id");
        Elements::of(*id)
    }

    /// The id at the start of the key's payload.
    pub fn id(&self) -> &UniqueId {
        let [_, id @ ..] = &self.prefix;
        id
    }

    pub fn get(&self, tx: &mut Transaction<'_>, element: &[u8]) -> Option<Row> {
        tx.get_parts(&[&self.prefix, element])
    }

    /// The rows of several elements, in their order: several take little longer than a single row.
    pub fn get_each(
        &self,
        tx: &mut Transaction<'_>,
        elements: impl Iterator<Item = impl AsRef<[u8]>>,
    ) -> Vec<Option<Row>> {
        tx.get_each(&self.prefix, elements)
    }

    /// Returns the row that was replaced.
    pub fn set<'t>(&self, tx: &'t mut Transaction<'_>, element: &[u8], value: &[u8]) -> Option<&'t Row> {
        tx.set_parts(&[&self.prefix, element], &[value])
    }

    /// See [`Transaction::patch_parts`].
    pub fn patch(&self, tx: &mut Transaction<'_>, element: &[u8], offset: usize, bytes: &[u8]) {
        tx.patch_parts(&[&self.prefix, element], offset, bytes);
    }

    pub fn clear(&self, tx: &mut Transaction<'_>, element: &[u8]) -> Option<Row> {
        tx.clear_parts(&[&self.prefix, element])
    }

    /// Removes many elements, whose keys come in parts and best in their order. Shows the rows that
    /// were there.
    pub fn clear_many<'k>(
        &'k self,
        tx: &mut Transaction<'_>,
        keys: impl Iterator<Item = [&'k [u8]; 4]>,
        visit: &mut dyn FnMut(&Row),
    ) {
        tx.clear_many(&self.prefix..&self.end(), keys, visit);
    }

    pub fn clear_all(&self, tx: &mut Transaction<'_>) {
        tx.clear_range(&self.prefix, &self.end());
    }

    /// Removes the elements of `start..end`. `None` as the end: to the collection's last.
    pub fn clear_range(&self, tx: &mut Transaction<'_>, start: &[u8], end: Option<&[u8]>) -> u64 {
        let end = self.bound(end);
        tx.clear_range(&self.key(start), &end)
    }

    /// The number of elements in `start..end`.
    pub fn count(&self, tx: &mut Transaction<'_>, start: &[u8], end: Option<&[u8]>) -> u64 {
        let end = self.bound(end);
        tx.count(&self.key(start), &end)
    }

    /// The element at `index` among the elements from `start` on.
    pub fn nth(&self, tx: &mut Transaction<'_>, start: &[u8], index: u64) -> Option<Row> {
        tx.nth(&self.key(start), &self.end(), index)
    }

    /// Removes the first element of `start..end`, or the last, and returns it. `None` as the end:
    /// to the collection's last.
    pub fn clear_end(&self, tx: &mut Transaction<'_>, start: &[u8], end: Option<&[u8]>, last: bool) -> Option<Row> {
        tx.clear_end(&self.key(start), &self.bound(end), last)
    }

    /// Removes the element at `index` among the elements from `start` on, and returns it.
    pub fn clear_nth(&self, tx: &mut Transaction<'_>, start: &[u8], index: u64) -> Option<Row> {
        tx.clear_nth(&self.key(start), &self.end(), index)
    }

    /// The last element of `start..end`. `None` as the end: of the collection.
    pub fn last(&self, tx: &mut Transaction<'_>, start: &[u8], end: Option<&[u8]>) -> Option<Row> {
        let mut last = None;
        tx.scan(&self.key(start), &self.bound(end), true, &mut |row| {
            last = Some(row.clone());
            ControlFlow::Break(())
        });
        last
    }

    /// Visits the elements of `start..end`, or backwards, until `visit` breaks.
    pub fn scan(&self, tx: &mut Transaction<'_>, start: &[u8], end: Option<&[u8]>, reverse: bool, visit: Visit<'_>) {
        let end = self.bound(end);
        tx.scan(&self.key(start), &end, reverse, &mut |row| {
            visit(Elements::name(row), row.value())
        });
    }

    /// Visits the elements of `start..end` of an immutable state.
    pub fn scan_of(&self, state: &Reader, start: &[u8], end: &[u8], visit: Visit<'_>) {
        state.scan_rows(&self.key(start), &self.key(end), &mut |row| {
            visit(Elements::name(row), row.value())
        });
    }

    /// An element's key, without the collection's prefix.
    pub fn name(row: &Row) -> &[u8] {
        &Transaction::layer_key(row)[11..]
    }

    fn key(&self, element: &[u8]) -> KeyBytes {
        joined(self.prefix, [element, b""])
    }

    /// The key of the row of the element with this name at `position`, in parts.
    pub fn row_key<'a>(&'a self, position: &'a [u8; 8], name: [&'a [u8]; 2]) -> [&'a [u8]; 4] {
        [&self.prefix, position, name[0], name[1]]
    }

    fn bound(&self, end: Option<&[u8]>) -> KeyBytes {
        end.map_or_else(|| self.end(), |end| self.key(end))
    }

    /// The start of the next prefix's rows, built without an allocation: every scan needs it.
    fn end(&self) -> KeyBytes {
        let kept = self.prefix.iter().rposition(|&byte| byte != 0xff);
        let last = kept.expect("the first byte is a letter");
        let mut end = KeyBytes::from_slice(&self.prefix[..=last]);
        end[last] += 1;
        end
    }
}

/// Removes every key of every database, and the search indexes: the rows of all kinds, without
/// looking at them.
pub fn clear_everything(tx: &mut Transaction<'_>) {
    for tag in [b'K', b'E', b'T', b'F', b'S', b'V', b'M'] {
        tx.clear_range(&[tag], &[tag + 1]);
    }
}

/// The number of keys with an expiry (of the key, or of some field), with the database and deadline
/// of at most `count_max` of them: all, or an even sample.
pub fn expiry_sample(tx: &mut Transaction<'_>, is_of_fields: bool, count_max: u64) -> (u64, Vec<(u8, u64)>) {
    let (start, end) = if is_of_fields { (b"F", b"G") } else { (b"T", b"U") };
    let total = tx.count(start, end);
    (total, sampled(total, count_max, |index| tx.nth(start, end, index)))
}

/// Database and deadline of at most `count_max` of the `total` rows of `nth`: all, or an even
/// sample.
fn sampled(total: u64, count_max: u64, mut nth: impl FnMut(u64) -> Option<Row>) -> Vec<(u8, u64)> {
    let step = total.div_ceil(count_max).max(1);
    let mut sample = Vec::new();
    let mut index = 0;
    while let Some(row) = (index < total).then(|| nth(index)).flatten() {
        let key = Transaction::layer_key(&row);
        let deadline_ms = u64::from_be_bytes(key[1..9].try_into().expect("eight bytes of deadline"));
        sample.push((key[9], deadline_ms));
        index += step;
    }
    sample
}

/// Keys of one of the numbered databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCount {
    pub db: u8,
    pub keys: u64,
    /// Exact while the layer has few keys that expire, or one numbered database; otherwise
    /// estimated.
    pub expiring: u64,
}

/// The keys of every numbered database that holds some, without the partition's lock.
pub fn key_counts(reader: &Reader) -> Vec<KeyCount> {
    const SAMPLE: u64 = 1000;
    let key_counts = (0..DATABASES).filter_map(|db| {
        let (start, end) = keys_range(db);
        let keys = reader.count(&start, &end);
        (keys > 0).then_some((db, keys))
    });
    let key_counts: Vec<(u8, u64)> = key_counts.collect();
    let total = reader.count(b"T", b"U");
    let sample = match key_counts.len() {
        0 | 1 => Vec::new(),
        _ => sampled(total, SAMPLE, |index| reader.nth(b"T", b"U", index)),
    };
    let counts = key_counts.iter().map(|(db, keys)| {
        let seen = sample.iter().filter(|(of, _)| of == db).count() as u64;
        let expiring = match sample.len() as u64 {
            0 => total,
            size => (u128::from(seen) * u128::from(total) / u128::from(size)) as u64,
        };
        KeyCount {
            db: *db,
            keys: *keys,
            expiring,
        }
    });
    counts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    const NOW_MS: u64 = 1_700_000_000_000;

    /// Returns the entries of the two indexes, as `T` or `F`, deadline and name.
    fn index(fixture: &Fixture) -> Vec<(char, u64, String)> {
        let mut partition = fixture.layer.engine.partition();
        let listed = partition.execute(fixture.layer.space, |tx| -> Result<_, ()> {
            let mut all = Vec::new();
            for (tag, is_of_fields) in [('T', false), ('F', true)] {
                for (_, deadline, name) in due(tx, is_of_fields, u64::MAX - 1, 100) {
                    all.push((tag, deadline, String::from_utf8(name).unwrap()));
                }
            }
            Ok(all)
        });
        listed.unwrap().0
    }

    fn change(fixture: &Fixture, change: impl FnOnce(&mut Keyspace<'_, '_>)) {
        let mut partition = fixture.layer.engine.partition();
        let done = partition.execute(fixture.layer.space, |tx| -> Result<(), ()> {
            change(&mut Keyspace {
                tx,
                db: 0,
                now_ms: NOW_MS,
                changes: &fixture.layer.changes,
            });
            Ok(())
        });
        done.unwrap();
    }

    fn all_at(deadline_ms: u64) -> FieldDeadlines {
        FieldDeadlines {
            first_ms: Some(deadline_ms),
            last_ms: Some(deadline_ms),
        }
    }

    fn expiring_hash() -> Header {
        Header::new(Kind::Hash).flags(FLAG_B)
    }

    #[test]
    fn index_rows_follow_their_key() {
        let fixture = Fixture::new();
        let later = NOW_MS + 1000;
        let hash = expiring_hash().expiry(Some(later + 1));
        change(&fixture, |keys| {
            // The deadlines may be split over more than one part.
            let deadlines = all_at(later).to_bytes();
            keys.put_parts(b"a", hash, &[b"fields", &deadlines[..3], &deadlines[3..]]);
        });
        let both_rows = |name: &str| vec![('T', later + 1, name.to_string()), ('F', later, name.to_string())];
        assert_eq!(index(&fixture), both_rows("a"));
        change(&fixture, |keys| {
            let taken = keys.take(b"a").unwrap();
            keys.put(b"b", Header::of(&taken), taken.payload());
        });
        assert_eq!(index(&fixture), both_rows("b"));
        change(&fixture, |keys| {
            let entry = keys.find(b"b").unwrap();
            assert_eq!(entry.field_deadlines(), all_at(later));
            keys.set_expiry(b"b", &entry, None);
        });
        assert_eq!(index(&fixture), both_rows("b")[1..]);
        change(&fixture, |keys| keys.put(b"b", Header::new(Kind::String), b"plain"));
        assert_eq!(index(&fixture), vec![]);
    }

    #[test]
    fn keys_of_rows_are_their_parts_at_any_length() {
        for length in [0, 1, 60, 61, 62, 63, 64, 65, 300] {
            let name = vec![b'n'; length];
            let elements = Elements::of([7; 10]);
            assert_eq!(
                elements.key(&name).as_slice(),
                [b"E".as_slice(), &[7; 10], &name].concat()
            );
        }
    }

    #[test]
    fn elements_end_at_the_next_prefix() {
        for id in [[7; 10], [0xff; 10], [1, 2, 3, 4, 5, 6, 7, 0xff, 0xff, 0xff]] {
            let elements = Elements::of(id);
            assert_eq!(elements.end().as_slice(), quartet_model::next_prefix(&elements.prefix));
        }
    }

    #[test]
    fn removed_hashes_leave_no_index_row() {
        let fixture = Fixture::new();
        let put = |name: &'static [u8]| {
            change(&fixture, |keys| {
                keys.put(name, expiring_hash(), &all_at(NOW_MS + 5).to_bytes());
            });
        };
        put(b"a");
        change(&fixture, |keys| assert!(keys.remove(b"a")));
        assert_eq!(index(&fixture), vec![]);
        put(b"a");
        put(b"b");
        change(&fixture, |keys| assert_eq!(keys.clear(), 2));
        assert_eq!(index(&fixture), vec![]);
    }
}
