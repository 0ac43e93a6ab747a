//! Casts between types, and tests of types.

use std::collections::HashMap;
use std::sync::Arc;

use super::numerals;
use super::times;
use crate::evaluation::{Arguments, CONTAINER_BYTES, Evaluation};
use crate::language::api_version::ApiVersion;
use crate::language::error::wrong_type;
use crate::language::error::{Errors, Result, Within};
use crate::language::number::java_double;
use crate::language::render::hyphenated;
use crate::language::signature::is_set as stands_for_set;
use crate::language::value::{Document, Fields, Native, Target, Value};

fn cannot(value: &Value, to: &str) -> Errors {
    Errors::argument(format!("Cannot cast {} to {to}.", value.type_name()))
}

/// The text that a scalar is cast to.
pub fn text_of(value: &Value) -> Option<Arc<str>> {
    Some(match value {
        Value::String(text) => text.clone(),
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string().into(),
        Value::Int(integer) => integer.to_string().into(),
        Value::Double(double) => java_double(*double).into(),
        Value::Time(time) => time.to_string().into(),
        Value::Date(date) => date.to_string().into(),
        Value::Uuid(uuid) => hyphenated(uuid).into(),
        _ => return None,
    })
}

pub fn to_string(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let value = arguments.value(0);
    text_of(value).map(Value::String).ok_or_else(|| cannot(value, "String"))
}

pub fn to_number(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let value = arguments.value(0);
    number_of(value).ok_or_else(|| cannot(value, "Number"))
}

fn number_of(value: &Value) -> Option<Value> {
    match value {
        Value::Int(_) | Value::Double(_) => Some(value.clone()),
        Value::String(text) => numerals::read(text),
        _ => None,
    }
}

pub fn to_integer(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let value = arguments.value(0);
    match number_of(value) {
        Some(Value::Double(double)) => Ok(Value::Int(double as i64)),
        Some(integer) => Ok(integer),
        None => Err(cannot(value, "Integer")).within("to_integer"),
    }
}

pub fn to_double(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let value = arguments.value(0);
    match number_of(value) {
        Some(Value::Int(integer)) => Ok(Value::Double(integer as f64)),
        Some(double) => Ok(double),
        None => Err(cannot(value, "Double")).within("to_double"),
    }
}

pub fn to_time(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let value = arguments.value(0);
    times::cast_to_time(evaluation, value).unwrap_or_else(|| Err(cannot(value, "Time")))
}

pub fn to_date(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let value = arguments.value(0);
    times::cast_to_date(value).unwrap_or_else(|| Err(cannot(value, "Date")))
}

/// Makes an object of pairs: a repeated key replaces the value it had.
pub fn to_object(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    match arguments.value(0) {
        object @ Value::Object(_) => Ok(object.clone()),
        Value::Document(document) if evaluation.version == ApiVersion::V2_0 => Ok(with_class(document)),
        Value::Document(document) => Ok(document.as_object()),
        Value::Array(pairs) => object_of(&pairs.values).within("to_object"),
        other => Err(cannot(other, "Object")).within("to_object"),
    }
}

/// The oldest version has the collection of a document beside its ref.
fn with_class(document: &Document) -> Value {
    let object = document.as_object();
    let mut entries = object
        .as_object()
        .map_or_else(Vec::new, |fields| fields.entries.clone());
    let class = document.reference.collection().map(Value::Ref);
    entries.splice(1..1, class.map(|class| ("class".into(), class)));
    Value::object(entries)
}

fn object_of(pairs: &[Value]) -> Result<Value> {
    let mut errors = Vec::new();
    let mut entries: Vec<(Arc<str>, Value)> = Vec::new();
    let mut places: HashMap<Arc<str>, usize> = HashMap::new();
    for (index, pair) in pairs.iter().enumerate() {
        let Some([Value::String(key), value]) = pair.as_items() else {
            let wrong = wrong_type("Field/Value", pair).at_index(index);
            errors.extend(wrong.0);
            continue;
        };
        match places.get(key) {
            Some(&place) => entries[place].1 = value.clone(),
            None => {
                places.insert(key.clone(), entries.len());
                entries.push((key.clone(), value.clone()));
            }
        }
    }
    Errors::unless_empty(errors)?;
    Ok(Value::object(entries))
}

/// The fields of an object or a document.
pub fn fields_of(value: &Value) -> Option<Arc<Fields>> {
    match value {
        Value::Object(fields) => Some(fields.clone()),
        Value::Document(document) => document.as_object().as_object().cloned(),
        _ => None,
    }
}

pub fn to_array(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let value = arguments.value(0);
    if let Value::Array(_) = value {
        return Ok(value.clone());
    }
    let Some(fields) = fields_of(value) else {
        return Err(cannot(value, "Array")).within("to_array");
    };
    evaluation.make(fields.entries.len() * (CONTAINER_BYTES + 2 * std::mem::size_of::<Value>()))?;
    let pairs = fields
        .entries
        .iter()
        .map(|(key, value)| Value::array(vec![Value::String(key.clone()), value.clone()]));
    Ok(Value::array(pairs.collect()))
}

macro_rules! tests_of_types {
    ($($name:ident: $pattern:pat),* $(,)?) => {
        $(pub fn $name(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
            Ok(Value::Bool(matches!(arguments.value(0), $pattern)))
        })*
    };
}

tests_of_types! {
    is_number: Value::Int(_) | Value::Double(_),
    is_double: Value::Double(_),
    is_integer: Value::Int(_),
    is_boolean: Value::Bool(_),
    is_null: Value::Null,
    is_bytes: Value::Bytes(_),
    is_timestamp: Value::Time(_) | Value::TransactionTime,
    is_date: Value::Date(_),
    is_uuid: Value::Uuid(_),
    is_string: Value::String(_),
    is_array: Value::Array(_),
    is_object: Value::Object(_) | Value::Document(_) | Value::Page(_),
    is_ref: Value::Ref(_),
    is_lambda: Value::Query(_),
}

pub fn is_set(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Bool(stands_for_set(arguments.value(0))))
}

/// A document, or a ref to something that can be one.
pub fn is_doc(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let is_doc = match arguments.value(0) {
        Value::Document(_) => true,
        Value::Ref(reference) => matches!(reference.target, Target::Native(_)) || evaluation.resolve(reference).is_ok(),
        _ => false,
    };
    Ok(Value::Bool(is_doc))
}

/// A ref to something of that kind, or its document.
fn is_kind(arguments: &Arguments, native: Native) -> Result<Value> {
    let reference = match arguments.value(0) {
        Value::Ref(reference) => Some(reference),
        Value::Document(document) => Some(&document.reference),
        _ => None,
    };
    let is_kind = match reference.map(|reference| &reference.target) {
        // Built-in collections are collections.
        Some(Target::Native(_)) => native == Native::Collections,
        Some(Target::Named(kind, _) | Target::Numbered(kind, _)) => *kind == native,
        _ => false,
    };
    Ok(Value::Bool(is_kind))
}

macro_rules! tests_of_kinds {
    ($($name:ident: $native:ident),* $(,)?) => {
        $(pub fn $name(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
            is_kind(arguments, Native::$native)
        })*
    };
}

tests_of_kinds! {
    is_collection: Collections,
    is_database: Databases,
    is_index: Indexes,
    is_function: Functions,
    is_key: Keys,
    is_token: Tokens,
    is_credentials: Credentials,
    is_role: Roles,
}
