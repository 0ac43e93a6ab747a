//! The meaning of effects to users of Redis: keys put, deleted and emptied, and single elements of
//! large collections.
//!
//! A small key is sent whole each time, a long string by its new bytes. An element of a large
//! collection is stored below the collection's id; its key is known from the key's own row, seen in
//! the feed before or looked up once. A key that was removed meanwhile is not named, only its id. A
//! large list is sent in its stored form (`commands/lists/blocks.rs`): with the key the elements at
//! its ends, otherwise by blocks.

use std::collections::HashMap;
use std::ops::ControlFlow;

use quartet_engine::Row;
use quartet_engine::{Change, ChangeDecoder, Reach, Reader, Shown, Transaction, decoded};
use quartet_model::{Effect, LayerId, Version, hexadecimal};

use crate::commands::lists;
use crate::commands::sorted_sets::score_of_bytes;
use crate::keyspace::string_value::{INDEX_BYTES, start_of};
use crate::keyspace::{Entry, FLAG_B, FieldDeadlines, Kind};
use crate::module::Modules;
use crate::{keyspace::packed, keyspace::places};

const ID_BYTES: usize = 10;
/// Most large collections that are known by name; beyond it no more are learned.
const KNOWN_MAX: usize = 200_000;

type Id = [u8; ID_BYTES];

/// A large collection's key.
struct Owner {
    db: u8,
    name: Vec<u8>,
    kind: Kind,
    type_name: &'static str,
}

impl Owner {
    fn new(db: u8, name: &[u8], entry: &Entry, type_name: &'static str) -> Owner {
        Owner {
            db,
            name: name.to_vec(),
            kind: entry.kind,
            type_name,
        }
    }
}

/// Decodes keys and elements.
pub struct RedisChanges {
    modules: &'static Modules,
    owners: HashMap<Id, Owner>,
    /// The keys that there were have been looked at.
    has_looked: bool,
}

impl ChangeDecoder for RedisChanges {
    fn layer(&self) -> LayerId {
        LayerId::Redis
    }

    fn decode(&mut self, effect: Effect<'_>, reader: &mut dyn FnMut() -> Option<Reader>, changes: &mut Vec<Change>) {
        let change = match effect {
            Effect::Set {
                key: [b'K', db, place @ ..],
                value,
            } => self.key_put(*db, &places::name(place), value),
            Effect::Clear {
                key: [b'K', db, place @ ..],
            } => Some(about("delete", *db, &places::name(place))),
            Effect::ClearRange { start: [b'K', db], .. } => Some(everything().with("db", Shown::Number((*db).into()))),
            Effect::ClearRange { start: [b'K'], .. } => Some(everything()),
            Effect::Set {
                key: [b'E', suffix @ ..],
                value,
            } => match self.is_string(suffix, reader) {
                true => self.part_of_string(suffix, 0, value, reader),
                false => self.element(suffix, Some(value), reader),
            },
            Effect::Patch {
                key: [b'E', suffix @ ..],
                offset,
                bytes,
            } => self.part_of_string(suffix, offset, bytes, reader),
            Effect::Clear {
                key: [b'E', suffix @ ..],
            } => self.element(suffix, None, reader),
            Effect::ClearRange {
                start: [b'E', suffix @ ..],
                end,
            } => self.elements_cleared(suffix, end, reader),
            Effect::Set {
                key: [b'L', b'l', name @ ..],
                value,
            } => library(name, value),
            Effect::Clear {
                key: [b'L', b'l', name @ ..],
            } => Some(Change::new("delete_library", name).with_bytes("library", name)),
            _ => None,
        };
        changes.extend(change);
    }
}

/// The deletion of all keys.
fn everything() -> Change {
    Change::new("clear", b"").reaching(Reach::All)
}

fn about(operation: &'static str, db: u8, name: &[u8]) -> Change {
    Change::new(operation, name)
        .with("db", Shown::Number(db.into()))
        .with_bytes("key", name)
}

fn library(name: &[u8], value: &[u8]) -> Option<Change> {
    let code = packed::iter(value).nth(1)?;
    Some(
        Change::new("put_library", name)
            .with_bytes("library", name)
            .with_bytes("code", code),
    )
}

fn collection(id: &Id) -> Shown {
    Shown::Bytes(hexadecimal(id).into_bytes())
}

fn list(parts: impl Iterator<Item = Shown>) -> Shown {
    Shown::List(parts.collect())
}

fn bytes(part: &[u8]) -> Shown {
    Shown::Bytes(part.to_vec())
}

impl RedisChanges {
    pub fn new(modules: &'static Modules) -> RedisChanges {
        RedisChanges {
            modules,
            owners: HashMap::new(),
            has_looked: false,
        }
    }

    /// Returns true if the element is only of use to the module that wrote it.
    fn hides(&self, kind: Kind, element: &[u8]) -> bool {
        let data_type = self.modules.data_type(kind);
        data_type.is_some_and(|data_type| !data_type.is_shown(element))
    }

    fn key_put(&mut self, db: u8, name: &[u8], value: &[u8]) -> Option<Change> {
        let entry = decoded(|| Entry::from_row(Row::new(b"", value, Version::ZERO)))?;
        let mut change = about("put", db, name).with("type", Shown::Word(self.modules.type_name(&entry)));
        if let Some(expiry_ms) = entry.expiry_ms {
            change = change.with("expires_ms", Shown::Number(expiry_ms));
        }
        if !entry.is_large() {
            return Some(change.with("value", whole_value(&entry)));
        }
        let id: Id = entry.payload().get(..ID_BYTES)?.try_into().ok()?;
        let owner = Owner::new(db, name, &entry, self.modules.type_name(&entry));
        self.learn(id, owner);
        let count = entry
            .large_payload()
            .first_chunk()
            .map_or(0, |count| u64::from_be_bytes(*count));
        let counted = match entry.kind {
            Kind::String | Kind::Json => "length",
            _ => "count",
        };
        let change = change
            .with("collection", collection(&id))
            .with(counted, Shown::Number(count));
        if entry.kind != Kind::List {
            return Some(change);
        }
        let ends = lists::Ends::of(&entry)?;
        Some(
            change
                .with("head", list(ends.head.into_iter().map(bytes)))
                .with("tail", list(ends.tail.into_iter().map(bytes))),
        )
    }

    fn learn(&mut self, id: Id, owner: Owner) {
        if self.owners.len() < KNOWN_MAX || self.owners.contains_key(&id) {
            self.owners.insert(id, owner);
        }
    }

    /// The key that a collection belongs to, as far as that is known.
    fn owner(&mut self, id: &Id, reader: &mut dyn FnMut() -> Option<Reader>) -> Option<&Owner> {
        if !self.owners.contains_key(id) && !self.has_looked {
            self.look(&reader()?);
        }
        self.owners.get(id)
    }

    fn look(&mut self, reader: &Reader) {
        self.has_looked = true;
        reader.scan_rows(b"K", b"L", &mut |row| {
            let key = Transaction::layer_key(row);
            let entry = decoded(|| Entry::from_row(row.clone())).filter(Entry::is_large);
            let id = entry
                .as_ref()
                .and_then(|entry| entry.payload().get(..ID_BYTES)?.try_into().ok());
            if let (Some(entry), Some(id), [_, db, place @ ..]) = (&entry, id, key)
                && !self.owners.contains_key(&id)
            {
                self.learn(
                    id,
                    Owner::new(*db, &places::name(place), entry, self.modules.type_name(entry)),
                );
            }
            match self.owners.len() < KNOWN_MAX {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
    }

    fn of_collection(
        &mut self,
        operation: &'static str,
        id: &Id,
        reader: &mut dyn FnMut() -> Option<Reader>,
    ) -> (Change, Option<Kind>) {
        match self.owner(id, reader) {
            Some(owner) => {
                let change = about(operation, owner.db, &owner.name).with("type", Shown::Word(owner.type_name));
                (change.with("collection", collection(id)), Some(owner.kind))
            }
            None => (Change::new(operation, b"").with("collection", collection(id)), None),
        }
    }

    fn element(
        &mut self,
        suffix: &[u8],
        value: Option<&[u8]>,
        reader: &mut dyn FnMut() -> Option<Reader>,
    ) -> Option<Change> {
        let (id, element) = suffix.split_first_chunk::<ID_BYTES>()?;
        let is_list = self.owner(id, reader).is_some_and(|owner| owner.kind == Kind::List);
        let operation = match (value, is_list) {
            (Some(_), false) => "put_element",
            (None, false) => "delete_element",
            (Some(_), true) => "put_elements",
            (None, true) => "delete_elements",
        };
        let (change, kind) = self.of_collection(operation, id, reader);
        let with_element = |change: Change, element: &[u8]| change.with_bytes("element", element);
        match kind {
            Some(Kind::Set | Kind::SortedSet | Kind::Hash) if element.starts_with(&[0; 8]) => None,
            Some(Kind::Set) => Some(with_element(change, element.get(8..)?)),
            Some(Kind::SortedSet) => {
                let change = with_element(change, element.get(8..)?);
                let score = value.and_then(score_of_bytes);
                Some(match score {
                    Some(score) => change.with("score", Shown::Bytes(score.to_string().into_bytes())),
                    None => change,
                })
            }
            Some(Kind::Hash) => field(with_element(change, element.get(8..)?), value),
            Some(Kind::Stream) => entry_of_stream(change, element, value),
            Some(kind) if self.hides(kind, element) => None,
            Some(Kind::List) => {
                let change = change.with_bytes("position", element);
                Some(match value {
                    Some(block) => change.with("elements", list(packed::iter(block).map(bytes))),
                    None => change,
                })
            }
            // A collection without a known key is shown in its stored form.
            _ => {
                let change = change.with_bytes("position", element);
                Some(match value {
                    Some(value) => change.with_bytes("value", value),
                    None => change,
                })
            }
        }
    }

    /// An element is a chunk of a long string that is known by name.
    fn is_string(&mut self, suffix: &[u8], reader: &mut dyn FnMut() -> Option<Reader>) -> bool {
        let id = suffix.first_chunk::<ID_BYTES>();
        let owner = id.and_then(|id| self.owner(id, reader));
        owner.is_some_and(|owner| owner.kind == Kind::String)
    }

    /// Bytes in a chunk of a long string, or in an element of a module's key.
    fn part_of_string(
        &mut self,
        suffix: &[u8],
        offset: usize,
        bytes: &[u8],
        reader: &mut dyn FnMut() -> Option<Reader>,
    ) -> Option<Change> {
        let (id, element) = suffix.split_first_chunk::<ID_BYTES>()?;
        let (change, kind) = self.of_collection("patch", id, reader);
        if matches!(kind, Some(Kind::Module(_))) {
            let change = change.with_bytes("position", element);
            return Some(
                change
                    .with("offset", Shown::Number(offset as u64))
                    .with_bytes("value", bytes),
            );
        }
        let index = element.first_chunk::<INDEX_BYTES>()?;
        let offset = start_of(index) + offset as u64;
        Some(change.with("offset", Shown::Number(offset)).with_bytes("value", bytes))
    }

    fn elements_cleared(
        &mut self,
        suffix: &[u8],
        end: &[u8],
        reader: &mut dyn FnMut() -> Option<Reader>,
    ) -> Option<Change> {
        let (id, from) = suffix.split_first_chunk::<ID_BYTES>()?;
        let (change, _) = self.of_collection("clear_elements", id, reader);
        if from.is_empty() {
            self.owners.remove(id);
            return Some(change);
        }
        let end = end.get(1 + ID_BYTES..).unwrap_or_default();
        Some(change.with_bytes("start", from).with_bytes("end", end))
    }
}

fn field(change: Change, value: Option<&[u8]>) -> Option<Change> {
    let Some((kind, stored)) = value.and_then(<[u8]>::split_first) else {
        return Some(change);
    };
    match (kind, stored.split_first_chunk::<8>()) {
        (1, Some((deadline, value))) => Some(
            change
                .with_bytes("value", value)
                .with("expires_ms", Shown::Number(u64::from_be_bytes(*deadline))),
        ),
        _ => Some(change.with_bytes("value", stored)),
    }
}

/// Entries are sent with their fields; groups and pending entries as they are kept.
fn entry_of_stream(change: Change, element: &[u8], value: Option<&[u8]>) -> Option<Change> {
    let (kind, suffix) = element.split_first()?;
    let number = |at: usize| {
        suffix
            .get(at..at + 8)
            .and_then(|part| Some(u64::from_be_bytes(part.try_into().ok()?)))
    };
    match kind {
        b'e' => {
            let change = change.with(
                "id",
                Shown::Bytes(format!("{}-{}", number(0)?, number(8)?).into_bytes()),
            );
            Some(match value {
                Some(value) => change.with("fields", list(packed::iter(value).map(bytes))),
                None => change,
            })
        }
        b'g' | b'c' | b'p' => {
            let change = change.with_bytes("position", element);
            Some(match value {
                Some(value) => change.with_bytes("value", value),
                None => change,
            })
        }
        _ => None,
    }
}

fn whole_value(entry: &Entry) -> Shown {
    let payload = entry.payload();
    match entry.kind {
        Kind::Json => Shown::Json(String::from_utf8_lossy(payload).into_owned()),
        Kind::List | Kind::Set => list(packed::iter(payload).map(bytes)),
        Kind::SortedSet => {
            let parts: Vec<&[u8]> = packed::iter(payload).collect();
            let pairs = parts.chunks_exact(2).map(|pair| {
                let score = score_of_bytes(pair[1]).unwrap_or_default().to_string();
                Shown::List(vec![bytes(pair[0]), Shown::Bytes(score.into_bytes())])
            });
            list(pairs)
        }
        Kind::Hash => whole_hash(entry),
        Kind::String | Kind::Stream | Kind::Module(_) => bytes(payload),
    }
}

fn whole_hash(entry: &Entry) -> Shown {
    let has_deadlines = entry.flags & FLAG_B != 0;
    let fields = match has_deadlines {
        true => entry
            .payload()
            .split_last_chunk::<{ FieldDeadlines::BYTES }>()
            .map_or(&[][..], |(fields, _)| fields),
        false => entry.payload(),
    };
    let parts: Vec<&[u8]> = packed::iter(fields).collect();
    list(parts.chunks_exact(if has_deadlines { 3 } else { 2 }).map(|field| {
        let mut members = vec![bytes(field[0]), bytes(field[1])];
        let deadline = field
            .get(2)
            .and_then(|deadline| Some(u64::from_be_bytes((*deadline).try_into().ok()?)));
        members.extend(deadline.map(Shown::Number));
        Shown::List(members)
    }))
}
