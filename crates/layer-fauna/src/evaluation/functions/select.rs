//! Paths into values.

use super::strings;
use crate::evaluation::{Arguments, Evaluation};
use crate::language::api_version::ApiVersion;
use crate::language::error::wrong_type;
use crate::language::error::{Code, Errors, Result, Within};
use crate::language::expression::Select;
use crate::language::value::{Fields, Native, Ref, Set, Target, Value};

/// A path is a string, an integer, or an array of them.
pub fn path(value: &Value) -> Result<Vec<Value>> {
    let is_many = value.as_items().is_some();
    let steps = value.one_or_many().iter().enumerate();
    let wrong = steps.filter(|(_, step)| !matches!(step, Value::String(_) | Value::Int(_)));
    let errors = wrong.map(|(index, step)| {
        let errors = wrong_type("String or Integer", step);
        if is_many { errors.at_index(index) } else { errors }
    });
    Errors::unless_empty(errors.flat_map(|errors| errors.0).collect())?;
    Ok(value.one_or_many().to_vec())
}

impl Evaluation<'_> {
    /// A default is for what is not found at the path; what `from` fails with passes.
    pub fn selected(&mut self, parts: &Select) -> Result<Value> {
        let steps = self.evaluate(&parts.path).within(parts.key)?;
        let from = self.evaluate(&parts.from).within("from")?;
        let all = match &parts.all {
            None => Value::Bool(parts.key != "select"),
            Some(all) => self.evaluate(all).within("all")?,
        };
        let steps = path(&steps).within(parts.key)?;
        let all = match all {
            Value::Bool(all) => all,
            other => return Err(wrong_type("Boolean", &other)).within("all"),
        };
        let early = match &parts.default {
            Some(default) if parts.is_eager => Some(self.evaluate(default).within("default")?),
            _ => None,
        };
        if all {
            return select_all(self, &from, &steps);
        }
        match (select(self, &from, &steps)?, early, &parts.default) {
            (Some(value), _, _) | (None, Some(value), _) => Ok(value),
            (None, None, Some(default)) => self.evaluate(default).within("default"),
            (None, None, None) => Err(not_found(&steps)).within("from"),
        }
    }
}

/// Returns the value at the path, if there is one. Nothing can be selected from a ref that leads
/// nowhere.
pub fn select(evaluation: &mut Evaluation<'_>, from: &Value, path: &[Value]) -> Result<Option<Value>> {
    check_defined(evaluation, from)?;
    Ok(at_path(evaluation.version, from, path))
}

fn at_path(version: ApiVersion, from: &Value, path: &[Value]) -> Option<Value> {
    let mut value = from.clone();
    for (index, step) in path.iter().enumerate() {
        value = match &value {
            Value::Set(set) if index + 1 < path.len() && is_key(step, "@set") => definition(set)?,
            _ => descend(version, &value, step)?,
        };
    }
    Some(value)
}

fn is_key(step: &Value, key: &str) -> bool {
    matches!(step, Value::String(text) if **text == *key)
}

/// Returns the definition of a set, for those kinds of which the original shows it.
fn definition(set: &Set) -> Option<Value> {
    let record = |entries: Vec<(&str, Value)>| {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value));
        Some(Value::object(entries.collect()))
    };
    match set {
        Set::Match { index, terms } => {
            let terms = terms.clone().unwrap_or_else(|| Value::array(Vec::new()));
            record(vec![("match", Value::Ref(index.clone())), ("terms", terms)])
        }
        Set::Union(parts) => record(vec![("union", Value::array(parts.clone()))]),
        Set::Intersection(parts) => record(vec![("intersection", Value::array(parts.clone()))]),
        Set::Difference(parts) => record(vec![("difference", Value::array(parts.clone()))]),
        Set::Distinct(of) => record(vec![("distinct", of.clone())]),
        Set::Join(of, with) => record(vec![("join", of.clone()), ("with", with.clone())]),
        _ => None,
    }
}

/// Follows every element of the arrays on the way, and flattens.
pub fn select_all(evaluation: &mut Evaluation<'_>, from: &Value, path: &[Value]) -> Result<Value> {
    check_defined(evaluation, from)?;
    let mut values = Vec::new();
    walk(evaluation, from, path, &mut values)?;
    Ok(Value::array(values))
}

fn check_defined(evaluation: &mut Evaluation<'_>, from: &Value) -> Result<()> {
    match from {
        Value::Ref(reference) => evaluation.check_defined(reference).within("from"),
        _ => Ok(()),
    }
}

fn walk(evaluation: &mut Evaluation<'_>, value: &Value, path: &[Value], values: &mut Vec<Value>) -> Result<()> {
    evaluation.step(1)?;
    match (value, path.split_first()) {
        (Value::Array(items), None | Some((Value::String(_), _))) => items
            .values
            .iter()
            .try_for_each(|item| walk(evaluation, item, path, values)),
        (value, None) => {
            values.push(value.clone());
            Ok(())
        }
        (value, Some((step, remaining))) => match descend(evaluation.version, value, step) {
            Some(inner) => walk(evaluation, &inner, remaining, values),
            None => Ok(()),
        },
    }
}

pub fn not_found(path: &[Value]) -> Errors {
    let steps: Vec<String> = path.iter().map(strings::shown).collect();
    Errors::new(
        Code::ValueNotFound,
        format!("Value not found at path [{}].", steps.join(",")),
    )
}

/// One step into a value.
pub fn descend(version: ApiVersion, value: &Value, step: &Value) -> Option<Value> {
    match (value, step) {
        (Value::Object(fields), Value::String(key)) => of_event(fields, key).or_else(|| fields.get(key)).cloned(),
        (Value::Document(document), Value::String(key)) => match &**key {
            "ref" => Some(Value::Ref(document.reference.clone())),
            "class" => document.reference.collection().map(Value::Ref),
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
        (Value::Ref(reference), Value::String(key)) => of_ref(version, reference, key),
        (Value::Set(_), Value::String(key)) if &**key == "@set" => Some(value.clone()),
        _ => None,
    }
}

/// An event is of a document under the names that it has had.
fn of_event<'f>(fields: &'f Fields, key: &str) -> Option<&'f Value> {
    let names = ["document", "instance", "resource"];
    if fields.entries.len() > 4 || !(names.contains(&key) || key == "data") {
        return None;
    }
    let (_, action) = fields.get("ts").zip(fields.string("action"))?;
    let document = names.iter().find_map(|name| fields.get(name))?;
    match key {
        // A single value of a set's event is used without its array.
        "data" if matches!(&**action, "add" | "remove") => match fields.get("data")?.as_items() {
            Some([single]) => Some(single),
            _ => None,
        },
        "data" => None,
        _ => Some(document),
    }
}

fn of_ref(version: ApiVersion, reference: &Ref, key: &str) -> Option<Value> {
    match key {
        "id" if version < ApiVersion::V2_7 && reference.target == Target::Native(Native::Collections) => {
            Some(Value::string("classes"))
        }
        "id" => Some(Value::String(reference.id())),
        "collection" | "class" => match reference.target {
            Target::Native(_) => {
                let collections = Ref::native(Native::Collections);
                Some(Value::Ref(collections.with_scope(reference.scope.clone())))
            }
            _ => reference.collection().map(Value::Ref),
        },
        "database" => reference.database().map(Value::Ref),
        _ => None,
    }
}

fn contains_at(evaluation: &Evaluation<'_>, arguments: &Arguments, key: &'static str) -> Result<Value> {
    let path = path(arguments.value(0)).within(key)?;
    Ok(Value::Bool(
        at_path(evaluation.version, arguments.value(1), &path).is_some(),
    ))
}

pub fn contains_path(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    contains_at(evaluation, arguments, "contains_path")
}

pub fn contains(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    contains_at(evaluation, arguments, "contains")
}

pub fn contains_field(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let container = arguments.value(1);
    if matches!(container, Value::Array(_)) {
        return Err(wrong_type("Object", container)).within("in");
    }
    Ok(Value::Bool(
        descend(evaluation.version, container, arguments.value(0)).is_some(),
    ))
}
