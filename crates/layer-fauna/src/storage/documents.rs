//! Documents as chains of versions: the current version, its end, and the links between versions.
//!
//! The current version is stored separately, so that reading it is one look-up. When it is replaced
//! it is moved to the history, where a mark represents each deletion. Versions that no read may
//! request are dropped by the next write of the document.

use std::collections::HashMap;
use std::sync::Arc;

use crate::language::codec;
use crate::language::value::{Contents, Document, Fields, Native, Ref, Target, Timestamp, Value, native_of};
use crate::storage::rows::{self, DatabaseNumber, Key};
use crate::storage::schema::Schema;

/// Every collection keeps this much history, so that what just happened can be read and rewritten.
pub const HISTORY_MICROS_MIN: u64 = 15 * 60 * 1_000_000;
pub const DAY_MICROS: u64 = 86_400_000_000;
/// A generated id is a time in microseconds and, in its last bits, a count.
pub const ID_COUNT_BITS: u32 = 8;

/// The place of a document: its database's schema, its collection and its id.
#[derive(Clone, Debug)]
pub struct Place {
    pub schema: Arc<Schema>,
    pub collection: u64,
    pub id: u64,
    pub reference: Ref,
}

/// A version of a document.
#[derive(Clone, Debug)]
pub struct Version {
    pub ts: Timestamp,
    /// `None`: deleted.
    pub contents: Option<Contents>,
}

impl Version {
    /// `None`: deleted.
    pub fn fields(&self) -> Option<&Arc<Fields>> {
        self.contents.as_ref().map(Contents::fields)
    }
}

impl Place {
    pub fn database(&self) -> DatabaseNumber {
        self.schema.database()
    }

    pub fn native(&self) -> Option<Native> {
        native_of(self.collection)
    }

    /// The key of the row that leads from a document to its credentials.
    pub fn credentials_key(&self) -> Key {
        Key::of(self.database(), b'C').number(self.collection).number(self.id)
    }

    /// As it ends the keys of entries.
    pub fn in_entries(&self) -> [u8; rows::DOCUMENT_BYTES] {
        rows::entry_document(self.collection, self.id)
    }
}

pub fn former_version(prefix: &Key, key: &[u8], row: &[u8], schema: &Schema) -> Version {
    let fields = match row.split_first() {
        Some((1, fields)) => codec::Decoder::new(fields, schema).fields(),
        _ => None,
    };
    Version {
        ts: Timestamp(rows::number_at(key, prefix.0.len())),
        contents: fields.map(|fields| Arc::new(fields).into()),
    }
}

/// The expiry of a version, in microseconds; 0: never.
pub fn expiry_micros(place: &Place, ts: Timestamp, ttl: Option<&Value>, now_micros: u64) -> u64 {
    if let Some(Value::Time(time)) = ttl {
        return time.micros().max(1) as u64;
    }
    let days = place
        .schema
        .collection_of(place.collection)
        .and_then(|collection| collection.ttl_days);
    let written = if ts == Timestamp::PENDING { now_micros } else { ts.0 };
    days.map_or(0, |days| {
        written.saturating_add((days.max(0) as u64).saturating_mul(DAY_MICROS))
    })
}

/// Deep merge: objects are merged, null removes, everything else replaces.
pub fn merge(old: &Fields, change: &Fields) -> Fields {
    let mut entries = old.entries.clone();
    let mut places = Places::of(&entries, change.entries.len());
    for (key, value) in &change.entries {
        let at = places.find(&entries, key);
        let merged = match (at.map(|at| &entries[at].1), value) {
            (Some(Value::Object(old)), Value::Object(change)) => Value::Object(Arc::new(merge(old, change))),
            (None, Value::Object(change)) => Value::Object(Arc::new(merge(&Fields::default(), change))),
            _ => value.clone(),
        };
        match at {
            Some(at) => entries[at].1 = merged,
            None => {
                places.added(key, entries.len());
                entries.push((key.clone(), merged));
            }
        }
    }
    entries.retain(|(_, value)| !value.is_null());
    Fields::new(entries)
}

/// The positions of an object's keys: a few are searched one by one.
struct Places(Option<HashMap<Arc<str>, usize>>);

impl Places {
    const COMPARED_MAX: usize = 16;

    /// Returns places for an object that will be looked up `times` times.
    fn of(entries: &[(Arc<str>, Value)], times: usize) -> Places {
        let places = entries.iter().enumerate().map(|(index, (key, _))| (key.clone(), index));
        Places((entries.len() + times > Self::COMPARED_MAX).then(|| places.collect()))
    }

    fn find(&self, entries: &[(Arc<str>, Value)], key: &Arc<str>) -> Option<usize> {
        match &self.0 {
            Some(places) => places.get(key).copied(),
            None => entries.iter().position(|(name, _)| name == key),
        }
    }

    fn added(&mut self, key: &Arc<str>, index: usize) {
        if let Some(places) = &mut self.0 {
            places.insert(key.clone(), index);
        }
    }
}

/// Returns the argument with which `merge` turns the old version into the new one: changed fields,
/// and null for removed fields.
pub fn difference(old: &Fields, new: &Fields) -> Fields {
    let mut entries = Vec::new();
    for (key, value) in &new.entries {
        match (old.get(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let inner = difference(old, new);
                if !inner.entries.is_empty() {
                    entries.push((key.clone(), Value::Object(Arc::new(inner))));
                }
            }
            (Some(old), new) if crate::storage::order::same(old, new) => {}
            _ => entries.push((key.clone(), value.clone())),
        }
    }
    let removed = old.entries.iter().filter(|(key, _)| new.get(key).is_none());
    entries.extend(removed.map(|(key, _)| (key.clone(), Value::Null)));
    Fields::new(entries)
}

/// A document as the reply to a write shows it.
pub fn shown(reference: &Ref, ts: Timestamp, fields: Arc<Fields>) -> Value {
    Value::Document(Arc::new(Document {
        reference: reference.clone(),
        ts,
        contents: fields.into(),
        is_new: false,
    }))
}

/// A document as the reply to its creation shows it.
pub fn shown_new(reference: &Ref, fields: Arc<Fields>) -> Value {
    Value::Document(Arc::new(Document {
        reference: reference.clone(),
        ts: Timestamp::PENDING,
        contents: fields.into(),
        is_new: true,
    }))
}

/// The ref of a document by numbers; `None` if its collection was deleted.
pub fn reference(schema: &Arc<Schema>, collection: u64, id: u64) -> Option<Ref> {
    use crate::language::value::Names;
    let target = match native_of(collection) {
        Some(native) if native.has_names() => Target::Named(native, schema.name(native, id)?),
        Some(native) => Target::Numbered(native, id as i64),
        None => Target::Document(schema.collection_of(collection)?.name.clone(), id as i64),
    };
    Some(Ref::new(target))
}
