//! Entries of indexes: computed from documents, written in the same transaction, kept with their
//! history.
//!
//! A document's entries are the product of the values of its terms and its values: a path through
//! arrays maps over them, and an array at its end is replaced by its elements. An entry with only
//! null terms is left out, as is an entry with only null values. A unique index allows one document
//! for each combination of terms and values.

use quartet_engine::Stamp;
use sha2::{Digest, Sha256};

use crate::language::codec;
use crate::language::value::Value;
use crate::storage::documents::Place;
use crate::storage::order::{self, KeyWriter};
use crate::storage::rows::{self, DatabaseNumber, Key};
use crate::storage::schema::{Index, Schema};

/// Terms longer than this are hashed in keys.
const TERMS_BYTES_PLAIN: usize = 120;

/// One entry of a document in an index.
#[derive(Clone, Debug)]
pub struct Entry {
    pub terms: Vec<Value>,
    pub values: Vec<Value>,
    /// The terms as encoded in keys.
    pub terms_key: Vec<u8>,
    /// The values as encoded in keys, and the offsets of the commit version in them.
    pub values_key: Vec<u8>,
    pub stamps: Vec<Stamp>,
}

impl Entry {
    /// The key of the entry of a version with a known time.
    pub fn key(&self, index: &Index, place: &Place) -> Vec<u8> {
        let prefix = entries_prefix(place.database(), index, &self.terms_key);
        prefix.bytes(&self.values_key).bytes(&place.in_entries()).0
    }

    /// Returns whether the other may replace it: keys do not distinguish 1 from 1.0.
    pub fn is(&self, other: &Entry) -> bool {
        self.terms_key == other.terms_key
            && self.values_key == other.values_key
            && same_all(&self.values, &other.values)
    }
}

pub fn same_all(first: &[Value], other: &[Value]) -> bool {
    first.len() == other.len() && first.iter().zip(other).all(|(a, b)| order::same(a, b))
}

/// Terms as encoded in keys: equal terms, equal bytes.
pub fn terms_key(terms: &[Value], schema: &Schema) -> Vec<u8> {
    let mut writer = KeyWriter::identity(schema);
    writer.bytes.push(0);
    terms.iter().for_each(|term| writer.value(term, false));
    let length = writer.bytes.len() - 1;
    if length <= TERMS_BYTES_PLAIN {
        writer.bytes[0] = length as u8;
        return writer.bytes;
    }
    [&[0xff], Sha256::digest(&writer.bytes[1..]).as_slice()].concat()
}

/// All entries of an index under these terms.
pub fn entries_prefix(database: DatabaseNumber, index: &Index, terms_key: &[u8]) -> Key {
    Key::of(database, b'E').number(index.number).bytes(terms_key)
}

/// The entries that have left, under these terms, by the time at which they left.
pub fn former_prefix(database: DatabaseNumber, index: &Index, terms_key: &[u8]) -> Key {
    Key::of(database, b'L').number(index.number).bytes(terms_key)
}

/// The end of a row's entity, in microseconds since the Unix epoch; 0: never.
pub fn expiry_of(row: &[u8]) -> u64 {
    rows::number_at(row, 8)
}

pub fn is_expired(row: &[u8], now_micros: u64) -> bool {
    let expiry = expiry_of(row);
    expiry != 0 && expiry <= now_micros
}

/// The values of an entry's row, `offset` bytes into it.
pub fn entry_values(row: &[u8], offset: usize, schema: &Schema) -> Vec<Value> {
    let decoded = row
        .get(offset..)
        .and_then(|bytes| codec::Decoder::new(bytes, schema).value());
    match decoded {
        Some(Value::Array(items)) => items.values.clone(),
        _ => Vec::new(),
    }
}

pub fn entry(index: &Index, schema: &Schema, terms: Vec<Value>, values: Vec<Value>) -> Entry {
    let mut writer = KeyWriter::ordered(schema);
    for (component, value) in index.values.iter().zip(&values) {
        writer.value(value, component.reverse);
    }
    Entry {
        terms_key: terms_key(&terms, schema),
        values_key: writer.bytes,
        stamps: writer.stamps,
        terms,
        values,
    }
}

/// Follows a path into a value; arrays on the way and at the end are replaced by their elements,
/// objects at the end by null.
pub fn extract(value: &Value, path: &[Value], values: &mut Vec<Value>) {
    let Some((step, remaining)) = path.split_first() else {
        return flatten(value, values);
    };
    match (value, step) {
        (Value::Document(document), Value::String(key)) => match &**key {
            "ref" => extract(&Value::Ref(document.reference.clone()), remaining, values),
            "ts" => extract(&document.ts.value(), remaining, values),
            _ => {
                if let Some(inner) = document.contents.fields().get(key) {
                    extract(inner, remaining, values);
                }
            }
        },
        (Value::Object(fields), Value::String(key)) => {
            if let Some(inner) = fields.get(key) {
                extract(inner, remaining, values);
            }
        }
        (Value::Array(items), Value::Int(index)) => {
            if let Some(inner) = usize::try_from(*index).ok().and_then(|index| items.values.get(index)) {
                extract(inner, remaining, values);
            }
        }
        (Value::Array(items), Value::String(_)) => items.values.iter().for_each(|item| extract(item, path, values)),
        (Value::Ref(reference), Value::String(key)) if &**key == "id" => values.push(Value::String(reference.id())),
        (Value::Ref(reference), Value::String(key)) if matches!(&**key, "collection" | "class") => {
            values.extend(reference.collection().map(Value::Ref));
        }
        _ => {}
    }
}

pub fn flatten(value: &Value, values: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.values.iter().for_each(|item| flatten(item, values)),
        Value::Object(_) | Value::Document(_) | Value::Page(_) | Value::Set(_) | Value::Query(_) => {
            values.push(Value::Null);
        }
        other => values.push(other.clone()),
    }
}
