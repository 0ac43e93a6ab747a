//! Paths into values.

use super::strings;
use crate::error::{Code, Errors, Result, Within};
use crate::evaluation::{Arguments, Evaluation, wrong_type};
use crate::value::{Ref, Target, Value};

/// A path is a string, an integer, or an array of them.
pub fn path(value: &Value) -> Result<Vec<Value>> {
    for step in value.one_or_many() {
        if !matches!(step, Value::String(_) | Value::Int(_)) {
            return Err(wrong_type("String or Integer", step));
        }
    }
    Ok(value.one_or_many().to_vec())
}

pub fn select(from: &Value, path: &[Value]) -> Result<Value> {
    let mut value = from.clone();
    for step in path {
        value = descend(&value, step).ok_or_else(|| not_found(path))?;
    }
    Ok(value)
}

/// Follows every element of the arrays on the way, and flattens.
pub fn select_all(evaluation: &mut Evaluation<'_>, from: &Value, path: &[Value]) -> Result<Value> {
    let mut found = Vec::new();
    walk(evaluation, from, path, &mut found)?;
    match found.is_empty() {
        true => Err(not_found(path)),
        false => Ok(Value::array(found)),
    }
}

fn walk(evaluation: &mut Evaluation<'_>, value: &Value, path: &[Value], found: &mut Vec<Value>) -> Result<()> {
    evaluation.step(1)?;
    let Some((step, rest)) = path.split_first() else {
        found.extend_from_slice(value.one_or_many());
        return Ok(());
    };
    if let (Some(items), Value::String(_)) = (elements(value), step) {
        for item in items {
            walk(evaluation, item, path, found)?;
        }
        return Ok(());
    }
    match descend(value, step) {
        Some(inner) => walk(evaluation, &inner, rest, found),
        None => Ok(()),
    }
}

fn elements(value: &Value) -> Option<&[Value]> {
    value.as_items()
}

fn not_found(path: &[Value]) -> Errors {
    let steps: Vec<String> = path.iter().map(strings::shown).collect();
    Errors::new(
        Code::ValueNotFound,
        format!("Value not found at path [{}].", steps.join(",")),
    )
}

/// One step into a value.
pub fn descend(value: &Value, step: &Value) -> Option<Value> {
    match (value, step) {
        (Value::Object(fields), Value::String(key)) => fields.get(key).cloned(),
        (Value::Document(document), Value::String(key)) => match &**key {
            "ref" => Some(Value::Ref(document.reference.clone())),
            "ts" => Some(document.ts.value()),
            key => document.contents.fields().get(key).cloned(),
        },
        (Value::Page(page), Value::String(key)) => match &**key {
            "data" => Some(Value::Array(page.data.clone())),
            "before" => page.before.clone(),
            "after" => page.after.clone(),
            _ => None,
        },
        (Value::Array(items), Value::Int(index)) => items.values.get(usize::try_from(*index).ok()?).cloned(),
        (Value::Page(page), Value::Int(index)) => page.data.values.get(usize::try_from(*index).ok()?).cloned(),
        (Value::Ref(reference), Value::String(key)) => of_ref(reference, key),
        _ => None,
    }
}

fn of_ref(reference: &Ref, key: &str) -> Option<Value> {
    match key {
        "id" => Some(Value::String(reference.id())),
        "collection" | "class" => match reference.target {
            Target::Native(_) => None,
            _ => reference.collection().map(Value::Ref),
        },
        "database" => reference.database().map(Value::Ref),
        _ => None,
    }
}

pub fn contains_path(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let key = "contains_path";
    let path = path(arguments.value(0)).within(key)?;
    Ok(Value::Bool(select(arguments.value(1), &path).is_ok()))
}

pub fn contains_field(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let container = arguments.value(1);
    if matches!(container, Value::Array(_) | Value::Set(_)) {
        return Err(wrong_type("Object", container)).within("in");
    }
    Ok(Value::Bool(descend(container, arguments.value(0)).is_some()))
}
