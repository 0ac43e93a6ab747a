//! Functions over arrays, pages and sets, and over objects.
//!
//! Arrays are worked on as they are, pages by their data with the cursors kept, sets by walking
//! them; what can stay a set does.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::casts::fields_of;
use super::numbers;
use super::reads::exists_in;
use crate::evaluation::{Arguments, Evaluation, collect};
use crate::language::error::wrong_type;
use crate::language::error::{Errors, Result, Step, Within};
use crate::language::expression::Effect;
use crate::language::signature::{Kind, is_set};
use crate::language::value::as_set;
use crate::language::value::{Fields, Items, Origin, Page, Set, Value};
use crate::storage::order;

/// The elements of an array or of a page's data.
fn elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => &items.values,
        Value::Page(page) => &page.data.values,
        _ => &[],
    }
}

/// Returns the new values in the kind of container of the elements. A page keeps its origin.
fn rebuilt(container: &Value, values: Vec<Value>) -> Value {
    match container {
        Value::Page(old) => page(old.before.clone(), old.after.clone(), values, old.origin.clone()),
        _ => Value::array(values),
    }
}

fn page(before: Option<Value>, after: Option<Value>, values: Vec<Value>, origin: Arc<Origin>) -> Value {
    Value::Page(Arc::new(Page {
        before,
        after,
        data: Arc::new(Items::new(values)),
        origin,
    }))
}

/// Sets are not walked by these.
fn check_array_or_page(container: &Value) -> Result<()> {
    match container {
        Value::Array(_) | Value::Page(_) => Ok(()),
        other => Err(wrong_type("Array or Page", other)).within("collection"),
    }
}

pub fn map(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (closure, container) = (arguments.closure(0), arguments.value(1));
    check_array_or_page(container)?;
    let mut mapped = Vec::with_capacity(elements(container).len());
    for element in elements(container) {
        let value = evaluation.apply(closure, element.clone()).within("map")?;
        evaluation.keep(&value)?;
        mapped.push(value);
    }
    Ok(rebuilt(container, mapped))
}

pub fn foreach(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    check_array_or_page(arguments.value(1))?;
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
        if closure.lambda.effect == Effect::Write {
            let message = "Invalid lambda. Lambda in this context may not write or call a user function.";
            return Err(Errors::argument(message)).within("filter");
        }
        return Ok(Value::Set(Arc::new(Set::Filter(container.clone(), closure.clone()))));
    }
    let (mut verdicts, mut errors) = (Vec::new(), Vec::new());
    for element in elements(container) {
        collect(
            evaluation.apply(closure, element.clone()).within("filter"),
            &mut verdicts,
            &mut errors,
        )?;
    }
    Errors::unless_empty(errors)?;
    let (mut indexes, mut errors) = (Vec::new(), Vec::new());
    for (index, verdict) in verdicts.iter().enumerate() {
        match verdict {
            Value::Bool(true) => indexes.push(index),
            Value::Bool(false) => {}
            other => errors.extend(wrong_type("Boolean", other).at_index(index).0),
        }
    }
    Errors::unless_empty(errors)?;
    let select =
        |values: &[Value]| -> Vec<Value> { indexes.iter().filter_map(|&at| values.get(at).cloned()).collect() };
    let values = select(elements(container));
    Ok(match container {
        Value::Page(old) => {
            let origin = Origin::Cursors(select(&old.origin.cursors()));
            page(old.before.clone(), old.after.clone(), values, Arc::new(origin))
        }
        _ => Value::array(values),
    })
}

/// Folds a collection. `key` is the function's, which may not be allowed to read the set.
fn fold(
    evaluation: &mut Evaluation<'_>,
    container: &Value,
    key: &'static str,
    initial: Value,
    combine: &mut dyn FnMut(&mut Evaluation<'_>, Value, Value) -> Result<Value>,
) -> Result<Value> {
    let mut folded = initial;
    if let Some(set) = as_set(container) {
        if set.is_history() {
            for event in evaluation.readable_events(container, key)? {
                folded = combine(evaluation, folded, event.value(evaluation.version))?;
            }
            return Ok(folded);
        }
        let of = evaluation.readable(&set).within(key)?;
        evaluation.each_element(&of, &mut |evaluation, element| {
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

/// Returns the result for a container; for a page it is a page of one, with its cursors.
fn summary(container: &Value, value: Value) -> Value {
    match container {
        Value::Page(_) => rebuilt(container, vec![value]),
        _ => value,
    }
}

pub fn reduce(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let closure = arguments.closure(0).clone();
    let container = arguments.value(2);
    let reduced = fold(
        evaluation,
        container,
        "reduce",
        arguments.value(1).clone(),
        &mut |evaluation, folded, element| {
            evaluation
                .apply(&closure, Value::array(vec![folded, element]))
                .within("reduce")
        },
    )?;
    Ok(summary(container, reduced))
}

pub fn count(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let container = arguments.value(0);
    let count = match is_set(container) {
        false => Value::Int(elements(container).len() as i64),
        true => fold(evaluation, container, "count", Value::Int(0), &mut |_, count, _| {
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
    let sum = fold(evaluation, container, "sum", Value::Int(0), &mut |_, sum, element| {
        numbers::plus(&sum, &number("sum", element)?)
    })?;
    Ok(summary(container, sum))
}

pub fn mean(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let container = arguments.value(0);
    let mut count = 0u64;
    let sum = fold(evaluation, container, "mean", Value::Int(0), &mut |_, sum, element| {
        count += 1;
        numbers::plus(&sum, &number("mean", element)?)
    })?;
    match count {
        0 => Err(empty()).within("mean"),
        _ => {
            let mean = numbers::as_double(&sum) / count as f64;
            Ok(summary(container, Value::Double(mean)))
        }
    }
}

fn empty() -> Errors {
    Errors::argument("Non-empty array expected.")
}

/// The least or the greatest element; of a single array in an array, its own.
pub fn extreme(evaluation: &mut Evaluation<'_>, container: &Value, larger: bool, key: &'static str) -> Result<Value> {
    if let Some([single]) = container.as_items()
        && Kind::Iterable.takes(single)
        && !matches!(single, Value::Ref(_))
    {
        return extreme(evaluation, single, larger, key);
    }
    evaluation.check_all_defined(elements(container)).within(key)?;
    let mut best: Option<Value> = None;
    fold(evaluation, container, key, Value::Null, &mut |_, _, element| {
        best = Some(match best.take() {
            None => element,
            Some(best) => crate::evaluation::pages::extreme(best, element, larger),
        });
        Ok(Value::Null)
    })?;
    let best = best.ok_or_else(empty).within(key)?;
    Ok(summary(container, best))
}

fn quantified(
    evaluation: &mut Evaluation<'_>,
    arguments: &Arguments,
    key: &'static str,
    decisive: bool,
) -> Result<Value> {
    let container = arguments.value(0);
    let mut answer = !decisive;
    fold(
        evaluation,
        container,
        key,
        Value::Null,
        &mut |_, _, element| match element {
            Value::Bool(value) => {
                if value == decisive {
                    answer = decisive;
                }
                Ok(Value::Null)
            }
            other => Err(wrong_type("Boolean", &other)).within(key),
        },
    )?;
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
    exists_in(evaluation, &Value::Set(set))
}

pub fn is_empty(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Bool(!has_elements(evaluation, arguments.value(0))?))
}

pub fn is_nonempty(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Bool(has_elements(evaluation, arguments.value(0))?))
}

/// A count as the original's: the lower 32 bits of the argument.
fn count_of(arguments: &Arguments) -> i32 {
    arguments.integer(0).unwrap_or(0) as i32
}

/// A page that ends earlier continues at the first omitted element.
pub fn take(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let container = arguments.value(1);
    check_array_or_page(container)?;
    let count = count_of(arguments);
    let length = usize::try_from(count).unwrap_or(0).min(elements(container).len());
    let values = elements(container)[..length].to_vec();
    Ok(match container {
        Value::Page(old) => {
            let mut cursors = old.origin.cursors();
            let after = match usize::try_from(count) {
                Err(_) => old.before.clone(),
                Ok(count) => cursors.get(count).cloned().or_else(|| old.after.clone()),
            };
            cursors.truncate(length);
            page(old.before.clone(), after, values, Arc::new(Origin::Cursors(cursors)))
        }
        _ => Value::array(values),
    })
}

/// A page that starts later starts at the first remaining element.
pub fn drop_first(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let container = arguments.value(1);
    check_array_or_page(container)?;
    let count = count_of(arguments);
    let dropped = usize::try_from(count).unwrap_or(0).min(elements(container).len());
    let values = elements(container)[dropped..].to_vec();
    Ok(match container {
        Value::Page(old) => {
            let cursors: Vec<Value> = old.origin.cursors().into_iter().skip(dropped).collect();
            let before = match count < 0 {
                true => old.before.clone(),
                false => cursors.first().cloned().or_else(|| old.after.clone()),
            };
            page(before, old.after.clone(), values, Arc::new(Origin::Cursors(cursors)))
        }
        _ => Value::array(values),
    })
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

/// Returns a text that identifies a value: 1 and 1.0 differ, the order of an object's keys does not
/// matter.
fn identity(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.values.iter().map(identity).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            let entries = fields.entries.iter();
            let mut entries: Vec<String> = entries
                .map(|(key, value)| format!("{key:?}:{}", identity(value)))
                .collect();
            entries.sort_unstable();
            format!("{{{}}}", entries.join(","))
        }
        Value::Double(double) if *double == 0.0 => "0.0".to_owned(),
        other => crate::language::render::compact(other),
    }
}

pub fn distinct(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    evaluation.make(arguments.value(0).size().bytes as usize)?;
    let container = arguments.value(0);
    if is_set(container) {
        return Ok(Value::Set(Arc::new(Set::Distinct(container.clone()))));
    }
    let mut seen = std::collections::HashSet::new();
    let unique = elements(container).iter().filter(|value| seen.insert(identity(value)));
    Ok(rebuilt(container, unique.cloned().collect()))
}

/// Sets make a set, arrays an array; they do not mix.
fn combine(
    evaluation: &mut Evaluation<'_>,
    arguments: &Arguments,
    key: &'static str,
    as_set: fn(Vec<Value>) -> Set,
    join: fn(Vec<Value>, &[Value]) -> Vec<Value>,
) -> Result<Value> {
    evaluation.make(arguments.value(0).size().bytes as usize)?;
    let (first, following) = arguments.one_or_more(0);
    if arguments.many(0).iter().all(is_set) {
        let set = as_set(arguments.many(0).to_vec());
        evaluation.shape(&set).within(key)?;
        return Ok(Value::Set(Arc::new(set)));
    }
    if arguments.many(0).iter().any(is_set) {
        let message = "Arguments cannot be of different types, expected Set or Array.";
        return Err(Errors::argument(message)).within(key);
    }
    let mut joined = elements(first).to_vec();
    for more in following {
        evaluation.work(joined.len() + elements(more).len())?;
        joined = join(joined, elements(more));
    }
    Ok(Value::array(joined))
}

fn counts(values: &[Value]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    values
        .iter()
        .for_each(|value| *counts.entry(identity(value)).or_default() += 1);
    counts
}

/// Takes one of the values that are left, if there is one.
fn took_one(remaining: &mut HashMap<String, usize>, value: &Value) -> bool {
    match remaining.get_mut(&identity(value)) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}

/// Each value as often as in the array with most of it, all at its first position.
pub fn union(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    combine(evaluation, arguments, "union", Set::Union, |first, other| {
        let mut most = counts(&first);
        for (key, count) in counts(other) {
            let maximum = most.entry(key).or_default();
            *maximum = count.max(*maximum);
        }
        let all = first.iter().chain(other);
        all.flat_map(|value| {
            let count = most.insert(identity(value), 0).unwrap_or(0);
            std::iter::repeat_n(value.clone(), count)
        })
        .collect()
    })
}

pub fn intersection(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    combine(
        evaluation,
        arguments,
        "intersection",
        Set::Intersection,
        |first, other| {
            let mut remaining = counts(other);
            first
                .into_iter()
                .filter(|value| took_one(&mut remaining, value))
                .collect()
        },
    )
}

pub fn difference(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    combine(evaluation, arguments, "difference", Set::Difference, |first, other| {
        let mut remaining = counts(other);
        first
            .into_iter()
            .filter(|value| !took_one(&mut remaining, value))
            .collect()
    })
}

/// A page's values are its cursors and its data as a whole.
pub fn contains_value(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (target, container) = (arguments.value(0), arguments.value(1));
    let is_wanted = |value: &Value| order::same(value, target);
    let contains = match container {
        Value::Ref(reference) => [
            Some(Value::String(reference.id())),
            reference.collection().map(Value::Ref),
            reference.database().map(Value::Ref),
        ]
        .iter()
        .flatten()
        .any(is_wanted),
        Value::Set(_) => set_contains(evaluation, container, target)?,
        Value::Array(items) => items.values.iter().any(is_wanted),
        Value::Page(page) => {
            let cursors = [&page.before, &page.after].into_iter().flatten();
            cursors.chain([&Value::Array(page.data.clone())]).any(is_wanted)
        }
        Value::Document(document) => {
            let collection = document.reference.collection().map(Value::Ref);
            let fields = fields_of(container).unwrap_or_default();
            collection.iter().any(is_wanted) || fields.entries.iter().any(|(_, value)| is_wanted(value))
        }
        Value::Object(fields) => fields.entries.iter().any(|(_, value)| is_wanted(value)),
        Value::Query(_) => false,
        _ => {
            let message = "Object, Array, Page, Set, or Ref expected, Scalar provided.";
            return Err(Errors::argument(message)).within("in");
        }
    };
    Ok(Value::Bool(contains))
}

fn set_contains(evaluation: &mut Evaluation<'_>, container: &Value, target: &Value) -> Result<bool> {
    let Some(set) = as_set(container) else { return Ok(false) };
    let mut contains = false;
    let of = evaluation.readable(&set)?;
    evaluation.each_element(&of, &mut |_, element| {
        contains = order::same(&element.value(), target);
        Ok(if contains {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    Ok(contains)
}

/// Objects into one: a lambda may say what becomes of each key on the right; nulls go.
pub fn merge(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let mut errors = Vec::new();
    let mut fields_at = |value: &Value, place: &dyn Fn(Errors) -> Errors| {
        let fields = fields_of(value);
        if fields.is_none() {
            errors.extend(place(wrong_type("Object", value)).0);
        }
        fields.unwrap_or_default()
    };
    let left = fields_at(arguments.value(0), &|errors| errors.within(Step::Key("merge")));
    let with = arguments.value(1);
    let rights: Vec<Arc<Fields>> = match with.as_items() {
        None => vec![fields_at(with, &|errors| errors.within(Step::Key("with")))],
        Some(items) => {
            let items = items.iter().enumerate();
            items
                .map(|(index, item)| fields_at(item, &|errors| errors.at_index(index).within(Step::Key("with"))))
                .collect()
        }
    };
    Errors::unless_empty(errors)?;
    let mut merged: Vec<(Arc<str>, Option<Value>)> = Vec::new();
    let mut places: HashMap<Arc<str>, usize> = HashMap::new();
    for (key, value) in &left.entries {
        places.insert(key.clone(), merged.len());
        merged.push((key.clone(), Some(value.clone())));
    }
    for (key, right) in rights.iter().flat_map(|right| &right.entries) {
        let place = *places.entry(key.clone()).or_insert_with(|| {
            merged.push((key.clone(), None));
            merged.len() - 1
        });
        let value = match arguments.optional(2) {
            Some(Value::Query(closure)) => {
                let left = merged[place].1.clone().unwrap_or(Value::Null);
                let argument = Value::array(vec![Value::String(key.clone()), left, right.clone()]);
                evaluation.apply(closure, argument).within("lambda")?
            }
            _ => right.clone(),
        };
        merged[place].1 = (!value.is_null()).then_some(value);
    }
    let present = merged.into_iter().filter_map(|(key, value)| Some((key, value?)));
    Ok(Value::object(present.collect()))
}
