//! Casts between types, and tests of types.

use super::is_set as stands_for_set;
use super::strings::shown;
use super::times;
use crate::error::{Errors, Result, Within};
use crate::evaluation::{Arguments, Evaluation};
use crate::number::java_double;
use crate::value::{Native, Target, Value};

fn cannot(value: &Value, to: &str) -> Errors {
    Errors::argument(format!("Cannot cast {} to {to}.", value.type_name()))
}

pub fn to_string(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let text = match arguments.value(0) {
        Value::Double(double) => java_double(*double),
        Value::Time(time) => time.to_string(),
        Value::Date(date) => date.to_string(),
        value @ (Value::String(_) | Value::Int(_) | Value::Bool(_) | Value::Null) => shown(value),
        other => return Err(cannot(other, "String")).within("to_string"),
    };
    Ok(Value::string(text))
}

/// A number as Java reads it; integers where there is no point and no exponent.
fn parse_number(text: &str) -> Option<Value> {
    if let Ok(integer) = text.parse() {
        return Some(Value::Int(integer));
    }
    let looks_like_one = text
        .bytes()
        .next_back()
        .is_some_and(|last| last.is_ascii_digit() || last == b'.');
    looks_like_one.then(|| text.parse().ok().map(Value::Double)).flatten()
}

fn invalid(what: &str, text: &str) -> Errors {
    Errors::argument(format!("Invalid {what} '{text}'."))
}

pub fn to_number(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    match arguments.value(0) {
        number @ (Value::Int(_) | Value::Double(_)) => Ok(number.clone()),
        Value::String(text) => parse_number(text)
            .ok_or_else(|| invalid("number", text))
            .within("to_number"),
        other => Err(cannot(other, "Number")).within("to_number"),
    }
}

pub fn to_integer(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    match arguments.value(0) {
        Value::Int(integer) => Ok(Value::Int(*integer)),
        Value::Double(double) => Ok(Value::Int(*double as i64)),
        Value::String(text) => match parse_number(text) {
            Some(Value::Int(integer)) => Ok(Value::Int(integer)),
            _ => Err(invalid("integer", text)).within("to_integer"),
        },
        other => Err(cannot(other, "Integer")).within("to_integer"),
    }
}

pub fn to_double(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    match arguments.value(0) {
        Value::Int(integer) => Ok(Value::Double(*integer as f64)),
        Value::Double(double) => Ok(Value::Double(*double)),
        Value::String(text) => match parse_number(text) {
            Some(Value::Int(integer)) => Ok(Value::Double(integer as f64)),
            Some(double) => Ok(double),
            None => Err(invalid("double", text)).within("to_double"),
        },
        other => Err(cannot(other, "Double")).within("to_double"),
    }
}

pub fn to_time(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let value = arguments.value(0);
    times::cast_to_time(value)
        .unwrap_or_else(|| Err(cannot(value, "Time")))
        .within("to_time")
}

pub fn to_date(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let value = arguments.value(0);
    times::cast_to_date(value)
        .unwrap_or_else(|| Err(cannot(value, "Date")))
        .within("to_date")
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
    is_timestamp: Value::Time(_),
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
