//! Functions over arrays, pages and sets, and over objects.
//!
//! Arrays are worked on as they are, pages by their data with the cursors kept, sets by walking them; what can stay a set does.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::is_set;
use super::numbers;
use crate::error::{Errors, Result, Within};
use crate::evaluation::{Arguments, Evaluation, wrong_type};
use crate::order;
use crate::pages::page;
use crate::sets::as_set;
use crate::value::{Fields, Set, Value};

/// The elements of an array or of a page's data.
fn elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => &items.values,
        Value::Page(page) => &page.data.values,
        _ => &[],
    }
}

/// What was made of the elements, in the kind of container they came from.
fn rebuilt(container: &Value, values: Vec<Value>) -> Value {
    match container {
        Value::Page(old) => page(old.before.clone(), old.after.clone(), values),
        _ => Value::array(values),
    }
}

pub fn map(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (closure, container) = (arguments.closure(0), arguments.value(1));
    let mut mapped = Vec::with_capacity(elements(container).len());
    for element in elements(container) {
        mapped.push(evaluation.apply(closure, element.clone()).within("map")?);
    }
    Ok(rebuilt(container, mapped))
}

pub fn foreach(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    for element in elements(arguments.value(1)) {
        evaluation
            .apply(arguments.closure(0), element.clone())
            .within("foreach")?;
    }
    Ok(arguments.value(1).clone())
}

pub fn filter(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (closure, container) = (arguments.closure(0), arguments.value(1));
    if is_set(container) {
        return Ok(Value::Set(Arc::new(Set::Filter(container.clone(), closure.clone()))));
    }
    let mut kept = Vec::new();
    for element in elements(container) {
        match evaluation.apply(closure, element.clone()).within("filter")? {
            Value::Bool(true) => kept.push(element.clone()),
            Value::Bool(false) => {}
            other => return Err(wrong_type("Boolean", &other)).within("filter"),
        }
    }
    Ok(rebuilt(container, kept))
}

/// Folds a collection. What comes of a page is a page of one.
fn fold(
    evaluation: &mut Evaluation<'_>,
    container: &Value,
    initial: Value,
    combine: &mut dyn FnMut(&mut Evaluation<'_>, Value, Value) -> Result<Value>,
) -> Result<Value> {
    let mut folded = initial;
    if let Some(set) = as_set(container) {
        evaluation.each_element(&set, &mut |evaluation, element| {
            let before = std::mem::replace(&mut folded, Value::Null);
            folded = combine(evaluation, before, element.value())?;
            Ok(ControlFlow::Continue(()))
        })?;
        return Ok(folded);
    }
    for element in elements(container) {
        folded = combine(evaluation, folded, element.clone())?;
    }
    Ok(folded)
}

fn summary(container: &Value, value: Value) -> Value {
    match container {
        Value::Page(_) => page(None, None, vec![value]),
        _ => value,
    }
}

pub fn reduce(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let closure = arguments.closure(0).clone();
    let container = arguments.value(2);
    let reduced = fold(
        evaluation,
        container,
        arguments.value(1).clone(),
        &mut |evaluation, folded, element| {
            evaluation
                .apply(&closure, Value::array(vec![folded, element]))
                .within("reduce")
        },
    )?;
    Ok(match container {
        Value::Page(old) => page(old.before.clone(), old.after.clone(), vec![reduced]),
        _ => reduced,
    })
}

pub fn count(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let container = arguments.value(0);
    let count = match is_set(container) {
        false => Value::Int(elements(container).len() as i64),
        true => fold(evaluation, container, Value::Int(0), &mut |_, count, _| {
            numbers::plus(&count, &Value::Int(1))
        })?,
    };
    Ok(summary(container, count))
}

fn number(key: &'static str, value: Value) -> Result<Value> {
    match value {
        Value::Int(_) | Value::Double(_) => Ok(value),
        other => Err(wrong_type("Number", &other)).within(key),
    }
}

pub fn sum(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let container = arguments.value(0);
    let sum = fold(evaluation, container, Value::Int(0), &mut |_, sum, element| {
        numbers::plus(&sum, &number("sum", element)?)
    })?;
    Ok(summary(container, sum))
}

pub fn mean(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let container = arguments.value(0);
    let mut count = 0u64;
    let sum = fold(evaluation, container, Value::Double(0.0), &mut |_, sum, element| {
        count += 1;
        numbers::plus(&sum, &number("mean", element)?)
    })?;
    match (sum, count) {
        (_, 0) => Err(empty(container)).within("mean"),
        (Value::Double(sum), count) => Ok(summary(container, Value::Double(sum / count as f64))),
        (other, _) => Ok(other),
    }
}

fn empty(container: &Value) -> Errors {
    Errors::argument(match is_set(container) {
        true => "Non-empty set expected.",
        false => "Non-empty array expected.",
    })
}

/// The least or the greatest element.
pub fn extreme(evaluation: &mut Evaluation<'_>, container: &Value, larger: bool, key: &'static str) -> Result<Value> {
    let mut found: Option<Value> = None;
    fold(evaluation, container, Value::Null, &mut |_, _, element| {
        found = Some(match found.take() {
            None => element,
            Some(best) => crate::pages::extreme(best, element, larger),
        });
        Ok(Value::Null)
    })?;
    let found = found.ok_or_else(|| empty(container)).within(key)?;
    Ok(summary(container, found))
}

fn quantified(
    evaluation: &mut Evaluation<'_>,
    arguments: &Arguments,
    key: &'static str,
    decisive: bool,
) -> Result<Value> {
    let container = arguments.value(0);
    let mut answer = !decisive;
    fold(evaluation, container, Value::Null, &mut |_, _, element| match element {
        Value::Bool(value) => {
            if value == decisive {
                answer = decisive;
            }
            Ok(Value::Null)
        }
        other => Err(wrong_type("Boolean", &other)).within(key),
    })?;
    Ok(summary(container, Value::Bool(answer)))
}

pub fn any(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    quantified(evaluation, arguments, "any", true)
}

pub fn all(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    quantified(evaluation, arguments, "all", false)
}

fn has_elements(evaluation: &mut Evaluation<'_>, container: &Value) -> Result<bool> {
    let Some(set) = as_set(container) else {
        return Ok(!elements(container).is_empty());
    };
    let backwards = evaluation.shape(&set)?.backwards;
    Ok(!evaluation.elements(&set, &Default::default(), backwards, 1)?.is_empty())
}

pub fn is_empty(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Bool(
        !has_elements(evaluation, arguments.value(0)).within("is_empty")?,
    ))
}

pub fn is_nonempty(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Bool(
        has_elements(evaluation, arguments.value(0)).within("is_nonempty")?,
    ))
}

pub fn take(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (container, all) = (arguments.value(1), elements(arguments.value(1)));
    let count = clamp(arguments.integer(0), all.len());
    let taken = all[..count].to_vec();
    Ok(match container {
        Value::Page(old) => {
            let after = all.get(count).map(cursor_at).or_else(|| old.after.clone());
            page(old.before.clone(), after, taken)
        }
        _ => Value::array(taken),
    })
}

pub fn drop_first(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (container, all) = (arguments.value(1), elements(arguments.value(1)));
    let count = clamp(arguments.integer(0), all.len());
    let rest = all[count..].to_vec();
    Ok(match container {
        Value::Page(old) if count > 0 => {
            let before = rest.first().map(cursor_at).or_else(|| old.after.clone());
            page(before, old.after.clone(), rest)
        }
        other => rebuilt(other, rest),
    })
}

fn clamp(count: Option<i64>, length: usize) -> usize {
    usize::try_from(count.unwrap_or(0).max(0))
        .unwrap_or(usize::MAX)
        .min(length)
}

fn cursor_at(element: &Value) -> Value {
    match element {
        Value::Array(_) | Value::Object(_) => element.clone(),
        single => Value::array(vec![single.clone()]),
    }
}

pub fn append(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::array([arguments.many(1), arguments.many(0)].concat()))
}

pub fn prepend(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::array([arguments.many(0), arguments.many(1)].concat()))
}

pub fn reverse(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let container = arguments.value(0);
    if is_set(container) {
        return Ok(Value::Set(Arc::new(Set::Reverse(container.clone()))));
    }
    Ok(rebuilt(container, elements(container).iter().rev().cloned().collect()))
}

/// Values told apart by their text: equal numbers of either kind are one.
fn identity(value: &Value) -> String {
    match value {
        Value::Double(double) if double.fract() == 0.0 && double.abs() < 9e15 => (*double as i64).to_string(),
        other => crate::render::compact(other),
    }
}

pub fn distinct(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let container = arguments.value(0);
    if is_set(container) {
        return Ok(Value::Set(Arc::new(Set::Distinct(container.clone()))));
    }
    let mut seen = std::collections::HashSet::new();
    let kept = elements(container).iter().filter(|value| seen.insert(identity(value)));
    Ok(rebuilt(container, kept.cloned().collect()))
}

/// Sets, or arrays, but not both.
fn all_sets(arguments: &Arguments, key: &'static str) -> Result<bool> {
    let operands = arguments.many(0);
    let (Some(first), many) = (operands.first(), arguments.value(0).as_items().is_some()) else {
        return Err(Errors::argument("Non-empty array expected.")).within(key);
    };
    let sets = is_set(first);
    for (index, operand) in operands.iter().enumerate() {
        let fits = if sets {
            is_set(operand)
        } else {
            matches!(operand, Value::Array(_))
        };
        if !fits {
            let expected = match (sets, index) {
                (true, _) => "Set",
                (false, 0) => "Array or Set",
                (false, _) => "Array",
            };
            let errors = wrong_type(expected, operand);
            let errors = if many {
                Err(errors).within_index(index)
            } else {
                Err(errors)
            };
            return errors.within(key);
        }
    }
    Ok(sets)
}

pub fn union(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    combine(evaluation, arguments, "union", Set::Union, |counts, more| {
        more.into_iter().for_each(|(key, count)| {
            let known = counts.entry(key).or_default();
            *known = count.max(*known);
        });
    })
}

pub fn intersection(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    combine(
        evaluation,
        arguments,
        "intersection",
        Set::Intersection,
        |counts, more| {
            counts
                .iter_mut()
                .for_each(|(key, count)| *count = (*count).min(more.get(key).copied().unwrap_or(0)));
        },
    )
}

pub fn difference(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    combine(evaluation, arguments, "difference", Set::Difference, |counts, more| {
        counts
            .iter_mut()
            .for_each(|(key, count)| *count = count.saturating_sub(more.get(key).copied().unwrap_or(0)));
    })
}

/// Arrays are multisets: `join` says how the counts of two of them combine. Elements keep the order of their first coming.
fn combine(
    evaluation: &mut Evaluation<'_>,
    arguments: &Arguments,
    key: &'static str,
    as_set: fn(Vec<Value>) -> Set,
    join: fn(&mut HashMap<String, usize>, HashMap<String, usize>),
) -> Result<Value> {
    let is_single_array = arguments
        .many(0)
        .first()
        .is_some_and(|first| !is_set(first) && !matches!(first, Value::Array(_)));
    if is_single_array
        && arguments.value(0).as_items().is_some_and(|items| {
            items
                .iter()
                .all(|item| !is_set(item) && !matches!(item, Value::Array(_) | Value::Page(_)))
        })
    {
        return Ok(arguments.value(0).clone());
    }
    if all_sets(arguments, key)? {
        let set = as_set(arguments.many(0).to_vec());
        evaluation.shape(&set).within(key)?;
        return Ok(Value::Set(Arc::new(set)));
    }
    let mut counts: Option<HashMap<String, usize>> = None;
    for operand in arguments.many(0) {
        let mut more: HashMap<String, usize> = HashMap::new();
        elements(operand)
            .iter()
            .for_each(|element| *more.entry(identity(element)).or_default() += 1);
        match &mut counts {
            None => counts = Some(more),
            Some(counts) => join(counts, more),
        }
    }
    let mut counts = counts.unwrap_or_default();
    let all = arguments.many(0).iter().flat_map(elements);
    let kept = all.filter(|element| match counts.get_mut(&identity(element)) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    });
    Ok(Value::array(kept.cloned().collect()))
}

pub fn contains_value(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (wanted, container) = (arguments.value(0), arguments.value(1));
    let found = match container {
        Value::Array(_) | Value::Page(_) => elements(container).iter().any(|value| order::equal(value, wanted)),
        Value::Object(fields) => fields.entries.iter().any(|(_, value)| order::equal(value, wanted)),
        Value::Document(document) => {
            let object = document.as_object();
            object
                .as_object()
                .is_some_and(|fields| fields.entries.iter().any(|(_, value)| order::equal(value, wanted)))
        }
        container if is_set(container) => set_contains(evaluation, container, wanted).within("in")?,
        Value::Ref(reference) => [
            Some(Value::String(reference.id())),
            reference.collection().map(Value::Ref),
        ]
        .into_iter()
        .flatten()
        .any(|part| order::equal(&part, wanted)),
        other => return Err(wrong_type("Array, Page, Object, or Set", other)).within("in"),
    };
    Ok(Value::Bool(found))
}

fn set_contains(evaluation: &mut Evaluation<'_>, container: &Value, wanted: &Value) -> Result<bool> {
    let Some(set) = as_set(container) else { return Ok(false) };
    let mut found = false;
    evaluation.each_element(&set, &mut |_, element| {
        found = order::equal(&element.value(), wanted);
        Ok(if found {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    Ok(found)
}

fn fields_of(value: &Value) -> Arc<Fields> {
    let object = match value {
        Value::Document(document) => document.as_object(),
        other => other.clone(),
    };
    object.as_object().cloned().unwrap_or_default()
}

pub fn merge(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let mut entries = fields_of(arguments.value(0)).entries.clone();
    for with in arguments.many(1) {
        let with = fields_of(with);
        merge_one(evaluation, &mut entries, &with, arguments)?;
    }
    Ok(Value::object(entries))
}

fn merge_one(
    evaluation: &mut Evaluation<'_>,
    entries: &mut Vec<(Arc<str>, Value)>,
    with: &Fields,
    arguments: &Arguments,
) -> Result<()> {
    let mut right: HashMap<Arc<str>, Value> = with.entries.iter().cloned().collect();
    let mut merged = Vec::with_capacity(entries.len() + right.len());
    let pairs = entries.drain(..).map(|(key, left)| {
        let right = right.remove(&key);
        (key, left, right)
    });
    let mut pairs: Vec<(Arc<str>, Value, Option<Value>)> = pairs.collect();
    let added = with
        .entries
        .iter()
        .filter_map(|(key, _)| Some((key.clone(), Value::Null, Some(right.remove(key)?))));
    pairs.extend(added);
    for (key, left, right) in pairs {
        let value = match arguments.optional(2) {
            Some(Value::Query(closure)) => {
                let argument = vec![Value::String(key.clone()), left, right.unwrap_or(Value::Null)];
                evaluation.apply(closure, Value::array(argument)).within("lambda")?
            }
            _ => right.unwrap_or(left),
        };
        if !value.is_null() {
            merged.push((key, value));
        }
    }
    *entries = merged;
    Ok(())
}

pub fn to_object(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let mut entries: Vec<(Arc<str>, Value)> = Vec::new();
    let mut places: HashMap<Arc<str>, usize> = HashMap::new();
    for (index, pair) in elements(arguments.value(0)).iter().enumerate() {
        let Some([Value::String(key), value]) = pair.as_items() else {
            let errors = Errors::argument("Array of [key, value] pairs expected.");
            return Err(errors).within_index(index).within("to_object");
        };
        match places.get(key) {
            Some(&place) => entries[place].1 = value.clone(),
            None => {
                places.insert(key.clone(), entries.len());
                entries.push((key.clone(), value.clone()));
            }
        }
    }
    Ok(Value::object(entries))
}

pub fn to_array(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let fields = fields_of(arguments.value(0));
    let pairs = fields
        .entries
        .iter()
        .map(|(key, value)| Value::array(vec![Value::String(key.clone()), value.clone()]));
    Ok(Value::array(pairs.collect()))
}
