//! The contents of keys as indexing, searches and aggregations read them.
//!
//! A hash has one value a field. In a document a path has no value, one value or several; paths of
//! the older kind, without `$`, have none, as in the original. In dialect 2 a path means the first
//! of its values, from dialect 3 on an array of all.

use quartet_layer_redis::module_api::{Entry, Json, Keyspace, Kind, Matches, Path, Stored, Workspace, hashes};
use quartet_search::index::schema::{Field, FieldKind};
use quartet_search::redis::aggregate::{PathValues, Value};
use quartet_search::text::analysis::folded;

use crate::indexes::Index;

/// The name of a whole document.
pub const DOCUMENT: &str = "$";

/// The first dialect where a path means all of its values.
const DIALECT_OF_ALL: u8 = 3;

pub enum Contents<'m> {
    Hash(Entry),
    Json(Stored<'m>),
}

impl<'m> Contents<'m> {
    /// The contents of the key of this name, if it is of the index's kind.
    pub fn find(
        keys: &mut Keyspace<'_, '_>,
        index: &Index,
        name: &[u8],
        workspace: Workspace<'m>,
    ) -> Option<Contents<'m>> {
        let entry = keys.find(name)?;
        Contents::of_entry(index, entry, 0, workspace)
    }

    /// The contents of a key that was found, if it is of the index's kind, for reading about this
    /// many values of it. A value that there is no memory for is left out: the caller's command
    /// ends then.
    pub fn of_entry(index: &Index, entry: Entry, values: usize, workspace: Workspace<'m>) -> Option<Contents<'m>> {
        if entry.kind != index.definition.on {
            return None;
        }
        Some(match entry.kind {
            Kind::Json => Contents::Json(Stored::of_many(entry, values, workspace)),
            _ => Contents::Hash(entry),
        })
    }

    /// The value at a field or path as text; of a document, if it is a string or number.
    pub fn text(&self, keys: &mut Keyspace<'_, '_>, path: &str) -> Option<Vec<u8>> {
        match self {
            Contents::Hash(entry) => of_field(keys, entry, path),
            Contents::Json(document) => match selected(keys, document, path).values().next()? {
                Json::Text(text) => Some(text.clone().into_bytes()),
                number @ (Json::Integer(_) | Json::Double(_)) => Some(number.text()),
                _ => None,
            },
        }
    }

    /// The texts at a field or path that a TEXT field has: several if a path leads to them.
    pub fn indexed_texts(&self, keys: &mut Keyspace<'_, '_>, path: &str) -> Vec<Vec<u8>> {
        match self {
            Contents::Hash(entry) => of_field(keys, entry, path).into_iter().collect(),
            Contents::Json(document) => {
                let matches = selected(keys, document, path);
                let values: Vec<&Json> = matches.values().collect();
                let values = match values.as_slice() {
                    [Json::Array(elements)] => elements.iter().collect(),
                    _ => values,
                };
                let texts = values.into_iter().filter_map(|value| match value {
                    Json::Text(text) => Some(text.clone().into_bytes()),
                    _ => None,
                });
                texts.collect()
            }
        }
    }

    /// The value at a field or path as an answer shows it; null for a `null`.
    pub fn shown(&self, keys: &mut Keyspace<'_, '_>, path: &str, dialect: u8) -> Option<Value> {
        match self {
            Contents::Hash(entry) => of_field(keys, entry, path).map(Value::Text),
            Contents::Json(document) => {
                let matches = selected(keys, document, path);
                let values: Vec<&Json> = matches.values().collect();
                let first = *values.first()?;
                Some(match dialect < DIALECT_OF_ALL {
                    true => plain(first),
                    false => Value::Text(array_of(&values)),
                })
            }
        }
    }

    /// The same of an index's field. A SORTABLE one with one value is shown without an array.
    pub fn shown_field(&self, keys: &mut Keyspace<'_, '_>, field: &Field, dialect: u8) -> Option<Value> {
        match self {
            Contents::Json(document) if field.sortable && dialect >= DIALECT_OF_ALL => {
                match is_one(keys, document, &field.path) {
                    true => self.sortable(keys, &field.path),
                    false => self.shown(keys, &field.path, dialect),
                }
            }
            _ => self.shown(keys, &field.path, dialect),
        }
    }

    /// The value of an index's field as steps of an aggregation take it: a number of a NUMERIC
    /// field, and of others what is kept for sorting if they are SORTABLE and were not loaded.
    pub fn property(&self, keys: &mut Keyspace<'_, '_>, field: &Field, dialect: u8, is_loaded: bool) -> Option<Value> {
        let value = match self {
            Contents::Json(document)
                if field.sortable
                    && !is_loaded
                    && (dialect < DIALECT_OF_ALL || is_one(keys, document, &field.path)) =>
            {
                self.sortable(keys, &field.path)?
            }
            Contents::Json(document) if field.sortable && is_one(keys, document, &field.path) => {
                self.shown_field(keys, field, dialect)?
            }
            _ => self.at_path(keys, &field.path, dialect)?,
        };
        Some(property(field, value, is_loaded))
    }

    /// The value at a field or path as steps of an aggregation take it.
    pub fn at_path(&self, keys: &mut Keyspace<'_, '_>, path: &str, dialect: u8) -> Option<Value> {
        let value = self.shown(keys, path, dialect)?;
        let (Contents::Json(document), Value::Text(text)) = (self, &value) else {
            return Some(value);
        };
        if dialect < DIALECT_OF_ALL {
            return Some(value);
        }
        let first = self
            .sortable(keys, path)
            .or_else(|| selected(keys, document, path).values().next().map(plain));
        Some(Value::Path(Box::new(PathValues {
            first: first.unwrap_or(Value::Null),
            shown: text.clone(),
        })))
    }

    pub fn is_hash(&self) -> bool {
        matches!(self, Contents::Hash(_))
    }

    /// The value of a document by which it was sorted, as an answer shows it.
    pub fn sorted_by(&self, keys: &mut Keyspace<'_, '_>, field: &Field, dialect: u8) -> Option<Value> {
        match field.sortable && dialect < DIALECT_OF_ALL {
            true => self.sortable(keys, &field.path),
            false => self.shown_field(keys, field, dialect),
        }
    }

    /// The value of a field without an order of its own by which a search sorts: from dialect 3 on
    /// the first of an array.
    pub fn sorting(&self, keys: &mut Keyspace<'_, '_>, field: &Field, dialect: u8) -> Option<Value> {
        match self {
            Contents::Json(_) if dialect >= DIALECT_OF_ALL => self.sortable(keys, &field.path),
            _ => self.property(keys, field, dialect, false),
        }
    }

    /// The value that a document is sorted by: the first, if it is a string, a number or a truth.
    fn sortable(&self, keys: &mut Keyspace<'_, '_>, path: &str) -> Option<Value> {
        let Contents::Json(document) = self else {
            return None;
        };
        let matches = selected(keys, document, path);
        let first = match matches.values().next()? {
            Json::Array(elements) => elements.iter().find(|element| **element != Json::Null)?,
            other => other,
        };
        match first {
            Json::Text(text) => Some(Value::text(text.as_str())),
            Json::Boolean(truth) => Some(Value::text(truth.to_string())),
            Json::Integer(number) => Some(Value::Number(*number as f64)),
            Json::Double(number) => Some(Value::Number(*number)),
            _ => None,
        }
    }

    /// All fields with their values; of a document the whole.
    pub fn all(&self, keys: &mut Keyspace<'_, '_>, dialect: u8) -> Vec<(Vec<u8>, Value)> {
        match self {
            Contents::Hash(entry) => {
                let mut fields = Vec::new();
                hashes::each(keys, entry, &mut |field| {
                    fields.push((field.name.to_vec(), Value::text(field.value)));
                });
                fields
            }
            Contents::Json(document) => {
                let mut whole = document.text(keys.tx);
                if dialect >= DIALECT_OF_ALL {
                    whole = [b"[", &whole[..], b"]"].concat();
                }
                vec![(DOCUMENT.into(), Value::Text(whole))]
            }
        }
    }
}

/// Returns true if a path has at most one value in any document.
pub fn is_of_one_value(path: &str) -> bool {
    Path::parse(path.as_bytes()).is_ok_and(|path| path.static_steps().is_some())
}

/// Returns true if a path leads to one value that is no array and no object.
fn is_one(keys: &mut Keyspace<'_, '_>, document: &Stored<'_>, path: &str) -> bool {
    let matches = selected(keys, document, path);
    let mut values = matches.values();
    match (values.next(), values.next()) {
        (Some(value), None) => !matches!(value, Json::Array(_) | Json::Object(_)),
        _ => false,
    }
}

/// A field's value as steps of an aggregation take it.
pub fn property(field: &Field, value: Value, is_loaded: bool) -> Value {
    match (&field.kind, value) {
        (FieldKind::Numeric, Value::Text(text)) => {
            let number = std::str::from_utf8(&text).ok();
            let number = number.and_then(|number| number.trim().parse().ok());
            number.map_or(Value::Text(text), Value::Number)
        }
        (_, Value::Text(text)) if field.sortable && !field.keeps_case && !is_loaded => Value::Text(folded(&text)),
        (_, value) => value,
    }
}

fn of_field(keys: &mut Keyspace<'_, '_>, entry: &Entry, name: &str) -> Option<Vec<u8>> {
    hashes::find(keys, entry, name.as_bytes()).map(|element| element.value().to_vec())
}

/// The values at a path. None if the path is wrong, or means more than a path may.
pub fn selected<'d>(keys: &mut Keyspace<'_, '_>, document: &'d Stored<'_>, path: &str) -> Matches<'d> {
    let path = Path::parse(path.as_bytes()).ok().filter(|path| !path.is_legacy);
    let matches = path.and_then(|path| document.select(keys.tx, &path).ok());
    matches.unwrap_or_else(Matches::none)
}

fn plain(value: &Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Text(text) => Value::text(text.as_str()),
        Json::Boolean(truth) => Value::text(u8::from(*truth).to_string()),
        other => Value::Text(other.text()),
    }
}

fn array_of(values: &[&Json]) -> Vec<u8> {
    let texts: Vec<_> = values.iter().map(|value| value.text()).collect();
    [&b"["[..], &texts.join(&b','), b"]"].concat()
}

/// A value as the library takes it.
pub fn indexed(value: &Json) -> quartet_search::index::values::Json {
    use quartet_search::index::values::Json as Indexed;
    match value {
        Json::Null => Indexed::Null,
        Json::Boolean(truth) => Indexed::Bool(*truth),
        Json::Integer(number) => Indexed::Number(*number as f64),
        Json::Double(number) => Indexed::Number(*number),
        Json::Text(text) => Indexed::Text(text.clone().into_bytes()),
        Json::Array(elements) => Indexed::List(elements.iter().map(indexed).collect()),
        Json::Object(_) => Indexed::Object,
    }
}

/// Bytes of the strings and numbers in a value.
pub fn indexed_bytes(value: &Json) -> usize {
    match value {
        Json::Text(text) => text.len(),
        Json::Array(elements) => elements.iter().map(indexed_bytes).sum(),
        Json::Object(_) => 0,
        _ => size_of::<f64>(),
    }
}
