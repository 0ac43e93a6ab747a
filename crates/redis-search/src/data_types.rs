//! The module's kinds of keys: vector sets, suggestions, and Upstash's two indexes that are keys.

use std::ops::ControlFlow;

use quartet_engine::{Repair, UniqueId, Verification};
use quartet_layer_redis::module_api::{
    BAD_FORMAT, Context, DataType, Entry, ErrorReply, Keyspace, Kind, LONG_MEMBER, MEMBER_BYTES_MAX, StoredKey,
    verify_count,
};
use quartet_wire_rdb::file::{SearchKey, Writer};
use quartet_wire_rdb::value::Value;
use quartet_wire_rdb::vector_set::VectorSet;

use crate::commands::search::suggestions;
use crate::commands::vector_sets;
use crate::indexes::KeyIndex;
use crate::invariants::vector_sets::verify as verify_vectors;
use crate::kinds::{SEARCH_INDEX, SUGGESTIONS, VECTOR_INDEX, VECTOR_SET};

pub const ALL: &[&dyn DataType] = &[
    &Vectors { is_index: false },
    &Suggestions,
    &SearchIndex,
    &Vectors { is_index: true },
];

/// A vector set, or a vector index, which has the same rows.
struct Vectors {
    is_index: bool,
}

impl Vectors {
    fn kind(&self) -> Kind {
        match self.is_index {
            true => VECTOR_INDEX,
            false => VECTOR_SET,
        }
    }

    /// The set of a value of this type.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v VectorSet> {
        match value {
            Value::VectorSet(set) if !self.is_index => Some(set),
            Value::VectorIndex(set) if self.is_index => Some(set),
            _ => None,
        }
    }
}

impl DataType for Vectors {
    fn number(&self) -> u8 {
        self.kind().number()
    }

    fn name(&self, _: &Entry) -> &'static str {
        match self.is_index {
            true => "vector",
            false => "vectorset",
        }
    }

    fn value(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry) -> Result<Value, ErrorReply> {
        let set = vector_sets::value(keys, entry);
        Ok(match self.is_index {
            true => Value::VectorIndex(set),
            false => Value::VectorSet(set),
        })
    }

    fn takes_long(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry) -> bool {
        vector_sets::takes_long(keys, entry)
    }

    fn check(&self, value: &Value) -> Option<Result<(), ErrorReply>> {
        let set = self.of(value)?;
        let mut lengths = set.elements.iter().map(|element| element.name.len());
        Some(match lengths.any(|length| length > MEMBER_BYTES_MAX) {
            true => Err(LONG_MEMBER.into()),
            false if vector_sets::is_sound(set, self.kind()) => Ok(()),
            false => Err(BAD_FORMAT.into()),
        })
    }

    fn store(&self, keys: &mut Keyspace<'_, '_>, name: &[u8], value: &Value) -> Result<(), ErrorReply> {
        let set = self.of(value).ok_or(BAD_FORMAT)?;
        vector_sets::replace(keys, name, set, self.kind());
        Ok(())
    }

    fn save(&self, keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, writer: &mut Writer, out: &mut Vec<u8>) {
        let set = vector_sets::value(keys, entry);
        match self.is_index {
            // No Redis reads it.
            true => writer.own_key(name, entry.expiry_ms, &Value::VectorIndex(set), out),
            false => writer.key(name, entry.expiry_ms, &Value::VectorSet(set), out),
        }
    }

    /// The graph is none of the set's contents.
    fn digest(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry, add: &mut dyn FnMut(&[&[u8]])) {
        vector_sets::nodes_hashed(keys, entry, add);
    }

    fn is_whole(&self, entry: &Entry) -> bool {
        let head = vector_sets::head(entry).filter(|_| entry.is_large());
        head.is_some_and(|head| head.quantization.is_plain() == self.is_index)
    }

    fn verify(&self, verification: &mut Verification<'_>, key: &StoredKey<'_>, _: &[u8]) {
        verify_vectors(verification, key);
    }

    fn copied(&self, context: &mut Context<'_, '_>, copy: &Entry) {
        vector_sets::note_copy(context, copy);
    }

    fn has_mixed_rows(&self) -> bool {
        true
    }

    /// The graph is none of the set's contents.
    fn is_shown(&self, element: &[u8]) -> bool {
        !matches!(element.first(), Some(b'g' | b'l' | b'w'))
    }
}

/// The texts of FT.SUGADD, with their scores.
struct Suggestions;

impl DataType for Suggestions {
    fn number(&self) -> u8 {
        SUGGESTIONS.number()
    }

    fn name(&self, _: &Entry) -> &'static str {
        "trietype0"
    }

    fn value(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry) -> Result<Value, ErrorReply> {
        Ok(Value::Suggestions(suggestions::value(keys, entry)))
    }

    fn check(&self, value: &Value) -> Option<Result<(), ErrorReply>> {
        matches!(value, Value::Suggestions(_)).then_some(Ok(()))
    }

    fn store(&self, keys: &mut Keyspace<'_, '_>, name: &[u8], value: &Value) -> Result<(), ErrorReply> {
        match value {
            Value::Suggestions(texts) => suggestions::store(keys, name, texts),
            _ => Err(BAD_FORMAT.into()),
        }
    }

    fn digest(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry, add: &mut dyn FnMut(&[&[u8]])) {
        suggestions::each(keys, entry, &mut |text, score, payload| {
            add(&[text, &score.to_be_bytes(), payload]);
        });
    }

    fn is_whole(&self, entry: &Entry) -> bool {
        entry.is_large() && entry.payload().len() == size_of::<UniqueId>() + size_of::<u64>()
    }

    /// Verifies that each text has a score, and that their number matches the key's.
    fn verify(&self, verification: &mut Verification<'_>, key: &StoredKey<'_>, value: &[u8]) {
        let (start, end) = key.elements();
        let rows = verification.rows;
        let mut counted = 0;
        rows.scan(&start, &end, false, &mut |row_key, value| {
            match value.len() >= size_of::<f64>() {
                true => counted += 1,
                false => {
                    let breach = format!("a suggestion of {} has no score", key.name());
                    verification.found(breach, vec![Repair::Clear { key: row_key.to_vec() }]);
                }
            }
            ControlFlow::Continue(())
        });
        verify_count(verification, key, value, counted);
    }
}

/// An index of Upstash's search. Only its own commands create and remove it.
struct SearchIndex;

impl DataType for SearchIndex {
    fn number(&self) -> u8 {
        SEARCH_INDEX.number()
    }

    fn name(&self, _: &Entry) -> &'static str {
        "search"
    }

    fn value(&self, _: &mut Keyspace<'_, '_>, _: &Entry) -> Result<Value, ErrorReply> {
        Err("ERR Search indexes cannot be serialized".into())
    }

    fn check(&self, _: &Value) -> Option<Result<(), ErrorReply>> {
        None
    }

    fn store(&self, _: &mut Keyspace<'_, '_>, _: &[u8], _: &Value) -> Result<(), ErrorReply> {
        Err(BAD_FORMAT.into())
    }

    /// Redis skips it, and an import into Quartet reads it.
    fn save(&self, keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, writer: &mut Writer, out: &mut Vec<u8>) {
        let key = SearchKey {
            words: KeyIndex::request(keys.tx, name),
            deadline_ms: entry.expiry_ms,
            name: name.to_vec(),
        };
        writer.search_key(&key, out);
    }

    /// Its number differs between servers.
    fn digest(&self, _: &mut Keyspace<'_, '_>, _: &Entry, _: &mut dyn FnMut(&[&[u8]])) {}

    fn is_whole(&self, entry: &Entry) -> bool {
        !entry.is_large() && entry.payload().len() == size_of::<UniqueId>()
    }

    /// It has no elements.
    fn verify(&self, _: &mut Verification<'_>, _: &StoredKey<'_>, _: &[u8]) {}

    fn stays(&self) -> Option<&'static str> {
        Some("ERR Search indexes cannot be renamed, moved or copied")
    }
}
