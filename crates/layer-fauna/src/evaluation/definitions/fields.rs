//! Gathers the fields of a definition, and what is wrong with them.

use std::sync::Arc;

use crate::language::codec::storable;
use crate::language::error::{Failure, Step};
use crate::language::value::{Fields, Native, Value};

pub fn invalid_type(field: &[&'static str], value: &Value, expected: &str) -> Failure {
    let description = format!("Invalid type {}, expected type {expected}.", stored_type(value));
    Failure::new(field, "invalid type", description)
}

/// Returns the name of a value's type in failures.
fn stored_type(value: &Value) -> &'static str {
    match value {
        Value::Int(_) => "Long",
        Value::Object(_) | Value::Document(_) => "Map",
        Value::Ref(_) => "Ref",
        Value::Query(_) => "Query",
        other => other.type_name(),
    }
}

/// Gathers the fields of a definition and what is wrong with them.
pub(super) struct Definition<'p> {
    pub(super) params: &'p Fields,
    pub(super) entries: Vec<(Arc<str>, Value)>,
    pub(super) failures: Vec<Failure>,
}

impl Definition<'_> {
    pub(super) fn given(&self, key: &str) -> Option<&Value> {
        self.params.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn put(&mut self, key: &str, value: Value) {
        self.entries.push((key.into(), value));
    }

    pub(super) fn refuse(&mut self, field: &'static str, code: &'static str, description: &str) {
        self.failures.push(Failure::new(&[field], code, description));
    }

    pub(super) fn take(&mut self, key: &'static str, expected: &str, fits: impl FnOnce(&Value) -> bool) -> bool {
        match self.given(key).cloned() {
            None => false,
            Some(value) if fits(&value) => {
                self.put(key, value);
                true
            }
            Some(value) => {
                self.failures.push(invalid_type(&[key], &value, expected));
                true
            }
        }
    }

    pub(super) fn need(&mut self, key: &'static str, expected: &str, fits: impl FnOnce(&Value) -> bool) {
        if !self.take(key, expected, fits) {
            self.refuse(key, "value required", "Required value not found.");
        }
    }

    pub(super) fn name(&mut self) {
        self.need("name", "Name", |value| matches!(value, Value::String(_)));
        let Some(name) = self.params.string("name").cloned() else {
            return;
        };
        let legal = |c: char| c.is_alphanumeric() || ";@+$-_.!~%".contains(c);
        if name.is_empty() || !name.chars().all(legal) {
            let description =
                format!("The name {name} uses invalid characters. Valid characters must match: [;@+$\\-_.!~%\\w]+");
            self.refuse("name", "invalid characters", &description);
        } else if &*name == "_" {
            self.refuse("name", "reserved name", "Invalid name _. Reserved names: _.");
        }
    }

    pub(super) fn data(&mut self) {
        self.take("data", "Map", |value| matches!(value, Value::Object(_)));
    }

    /// Schema objects with names do not end: a `ttl` is passed over.
    pub(super) fn data_and_ttl(&mut self) {
        self.data();
        self.take("ttl", "Timestamp", |value| matches!(value, Value::Time(_)));
    }
}

/// The position of a failure among those of a definition, in the original's order.
pub(super) fn rank(native: Native, failure: &Failure) -> usize {
    let order: &[&str] = match native {
        Native::Indexes => return rank_of_index(failure),
        Native::Functions => &["data", "name", "role", "body"],
        Native::Keys => &["data", "role", "database", "priority", "ttl"],
        _ => &["data", "name"],
    };
    let place = order.iter().position(|key| is_of(failure, key));
    place.unwrap_or(order.len())
}

/// Faults in the number of partitions and in the sources are reported before everything else.
fn rank_of_index(failure: &Failure) -> usize {
    let order = ["data", "name", "", "active", "partitions", "unique", "serialized"];
    match failure.code {
        "bounds error" => 0,
        _ if failure.field.len() > 1 => 4 + order.len(),
        _ if is_of(failure, "source") || is_of(failure, "class") => 1,
        "value required" if is_of(failure, "active") => 2,
        _ => 3 + order.iter().position(|key| is_of(failure, key)).unwrap_or(2),
    }
}

fn is_of(failure: &Failure, key: &str) -> bool {
    failure.field.first().is_some_and(|step| match step {
        Step::Key(name) => *name == key,
        Step::Name(name) => &**name == key,
        Step::Index(_) => false,
    })
}

/// The order of the tasks of databases and keys.
pub(super) fn is_priority(value: &Value) -> bool {
    matches!(value, Value::Int(1..=500))
}

pub(super) fn is_text(value: &Value) -> bool {
    matches!(value, Value::String(_))
}

pub(super) fn is_bool(value: &Value) -> bool {
    matches!(value, Value::Bool(_))
}

pub(super) fn is_integer(value: &Value) -> bool {
    matches!(value, Value::Int(_))
}

pub(super) fn is_query(value: &Value) -> bool {
    matches!(value, Value::Query(_))
}

/// Like documents, without nulls.
pub(super) fn storable_definition(entries: Vec<(Arc<str>, Value)>) -> Fields {
    let stored = storable(&Value::object(entries));
    stored
        .as_object()
        .map_or_else(Fields::default, |fields| Fields::new(fields.entries.clone()))
}
