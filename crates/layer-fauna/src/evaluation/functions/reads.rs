//! Reading documents, and naming and paging sets.

use std::sync::Arc;

use super::refs::named_or_ref;
use crate::evaluation::pages::{Cursor, Request, Size, cursor_of};
use crate::evaluation::permitted::Readable;
use crate::evaluation::sets::{Element, inactive};
use crate::evaluation::{Arguments, Evaluation};
use crate::language::error::no_history;
use crate::language::error::wrong_type;
use crate::language::error::{Code, Errors, Result, Step, Within};
use crate::language::expression::Effect;
use crate::language::value::as_set;
use crate::language::value::{Native, Ref, Set, Target, Value};
use crate::storage::ranges::Range;

/// Evaluates as of an optional argument.
fn at_optional<T>(
    evaluation: &mut Evaluation<'_>,
    ts: Option<&Value>,
    body: impl FnOnce(&mut Evaluation<'_>) -> Result<T>,
) -> Result<T> {
    match ts {
        None => body(evaluation),
        Some(ts) => {
            let at = evaluation.moment(ts).within("ts")?;
            evaluation.in_past(at, body)
        }
    }
}

pub fn get(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let operand = arguments.value(0);
    at_optional(evaluation, arguments.optional(1), |evaluation| match operand {
        Value::Ref(reference) if !matches!(reference.target, Target::Native(_)) => document(evaluation, reference),
        set => {
            let first = first_element(evaluation, set).within("get")?;
            let not_found = || Errors::new(Code::InstanceNotFound, "Set not found.");
            document(evaluation, &first.ok_or_else(not_found)?)
        }
    })
}

/// The document that a ref names, if it may be read.
pub fn document(evaluation: &mut Evaluation<'_>, reference: &Ref) -> Result<Value> {
    let place = evaluation.resolve(reference).within("get")?;
    evaluation.check_retained(&place.schema, place.collection)?;
    evaluation.permit("read", reference, &[Value::Ref(reference.clone())])?;
    evaluation.document(&place).ok_or_else(|| Errors::not_found(reference))
}

/// The document of the first element of a set.
pub fn first_element(evaluation: &mut Evaluation<'_>, set: &Value) -> Result<Option<Ref>> {
    let Some(set) = as_set(set) else { return Ok(None) };
    let of = evaluation.readable(&set)?;
    if of.set.is_history() {
        let events = evaluation.events(&Value::Set(of.set.clone()))?;
        return Ok(events.first().map(|event| event.document().clone()));
    }
    Ok(first_of(evaluation, &of)?.map(|element| element.reference))
}

/// The first element of a set, whether its document may be read or not.
pub fn first_of(evaluation: &mut Evaluation<'_>, of: &Readable) -> Result<Option<Element>> {
    let backwards = evaluation.shape(&of.set)?.backwards;
    let first = evaluation.unchecked(&of.set, &Range::default(), backwards, 1)?;
    Ok(first.into_iter().next())
}

pub fn exists(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let operand = arguments.value(0);
    let answer = at_optional(evaluation, arguments.optional(1), |evaluation| match operand {
        Value::Ref(reference) if !matches!(reference.target, Target::Native(_)) => {
            let place = match evaluation.resolve(reference) {
                Ok(place) => place,
                Err(_) => return Ok(false),
            };
            evaluation.check_retained(&place.schema, place.collection)?;
            let live = evaluation.counted_document(&place, |evaluation| evaluation.live(&place));
            Ok(live.is_some() && evaluation.may_read(reference))
        }
        set => exists_in(evaluation, set),
    });
    Ok(Value::Bool(answer?))
}

/// Returns true if a set has a first element, of a document that may be read.
pub fn exists_in(evaluation: &mut Evaluation<'_>, set: &Value) -> Result<bool> {
    let first = first_element(evaluation, set).within("exists")?;
    Ok(first.is_some_and(|document| evaluation.may_read(&document)))
}

fn end(evaluation: &mut Evaluation<'_>, operand: &Value, last: bool, key: &'static str) -> Result<Value> {
    if let Value::Array(items) = operand {
        let value = if last {
            items.values.last()
        } else {
            items.values.first()
        };
        return value
            .cloned()
            .ok_or_else(|| Errors::argument("Non-empty array expected."))
            .within(key);
    }
    let Some(set) = as_set(operand) else {
        return Ok(Value::Null);
    };
    let backwards = evaluation.shape(&set).within(key)?.backwards != last;
    let of = evaluation.readable(&set).within(key)?;
    let element = match &*of.set {
        // That there is no history has the position of the form itself.
        set if set.is_history() => Ok(end_of_history(evaluation, &of, last)?),
        _ => evaluation
            .elements(&of, &Range::default(), backwards, 1)
            .map(|mut elements| elements.pop().map(|element| element.value())),
    };
    element
        .within(key)?
        .ok_or_else(|| Errors::argument("Non-empty set expected."))
        .within(key)
}

/// The oldest or the newest event that may be read.
fn end_of_history(evaluation: &mut Evaluation<'_>, of: &Readable, last: bool) -> Result<Option<Value>> {
    let mut events = evaluation.events(&Value::Set(of.set.clone()))?;
    if of.is_checked {
        events.retain(|event| evaluation.may_read(event.document()));
    }
    let event = if last { events.last() } else { events.first() };
    Ok(event.map(|event| event.value(evaluation.version)))
}

pub fn first(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    end(evaluation, arguments.value(0), false, "first")
}

pub fn last(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    end(evaluation, arguments.value(0), true, "last")
}

pub fn paginate_after(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let cursor = arguments.optional(1).cloned().map_or(Cursor::Start, Cursor::After);
    paginate(evaluation, arguments, cursor, &["after"])
}

pub fn paginate_before(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let cursor = Cursor::Before(arguments.value(1).clone());
    paginate(evaluation, arguments, cursor, &["before"])
}

pub fn paginate_cursor(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (cursor, place) = cursor_of(arguments.value(1))?;
    paginate(evaluation, arguments, cursor, place)
}

fn paginate(
    evaluation: &mut Evaluation<'_>,
    arguments: &Arguments,
    cursor: Cursor,
    cursor_place: &'static [&'static str],
) -> Result<Value> {
    let is_true = |index| matches!(arguments.optional(index), Some(Value::Bool(true)));
    let request = Request {
        cursor,
        cursor_place,
        size: Size::asked(arguments.integer(3)),
        sources: is_true(5),
    };
    let (operand, events) = (arguments.value(0), is_true(4));
    at_optional(evaluation, arguments.optional(2), |evaluation| match events {
        true => evaluation.page_of_events(operand, request),
        false => evaluation.page(operand, request),
    })
}

fn set(set: Set) -> Result<Value> {
    Ok(Value::Set(Arc::new(set)))
}

pub fn matching(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    matched(evaluation, arguments.value(0), arguments.optional(1), "match")
}

/// The old form: the terms first, the index named beside them.
pub fn matching_legacy(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    matched(evaluation, arguments.value(1), Some(arguments.value(0)), "index")
}

fn matched(evaluation: &mut Evaluation<'_>, index: &Value, terms: Option<&Value>, key: &'static str) -> Result<Value> {
    let key = if matches!(index, Value::String(_)) {
        "index"
    } else {
        key
    };
    let reference = named_or_ref(evaluation, index, Native::Indexes, "Index Ref").within(key)?;
    let (_, index) = evaluation.index(&reference).within(key)?;
    if !index.active {
        return Err(inactive(&index)).within("index");
    }
    set(Set::Match {
        index: reference,
        terms: terms.and_then(normal_terms),
    })
}

/// An empty array means no terms, a single term may be given without an array; an array as a term
/// needs its own around it.
fn normal_terms(terms: &Value) -> Option<Value> {
    match terms.as_items() {
        Some([]) => None,
        Some([single]) if single.as_items().is_none() => Some(single.clone()),
        _ => Some(terms.clone()),
    }
}

fn reference(arguments: &Arguments, index: usize) -> Ref {
    match arguments.value(index) {
        Value::Ref(reference) => reference.clone(),
        _ => unreachable!("the declaration asks for a ref"),
    }
}

pub fn documents(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let collection = reference(arguments, 0);
    evaluation.check_defined(&collection).within("documents")?;
    set(Set::Documents(collection))
}

pub fn singleton(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    set(Set::Singleton(reference(arguments, 0)))
}

pub fn events(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    if let Value::Set(of) = arguments.value(0)
        && of.is_history()
    {
        return Err(no_history());
    }
    set(Set::Events(arguments.value(0).clone()))
}

pub fn join(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    match arguments.value(1) {
        Value::Query(closure) if closure.lambda.effect > Effect::Pure => {
            let message = "Invalid lambda. Lambda in this context may not read, write, or call a user function.";
            return Err(Errors::argument(message)).within("with");
        }
        Value::Query(_) => {}
        Value::Ref(index) => {
            evaluation.check_defined(index).within("with")?;
            if !index.names(Native::Indexes) {
                return Err(wrong_type("Lambda or Index Ref", arguments.value(1))).within("with");
            }
        }
        other => return Err(wrong_type("Lambda or Index Ref", other)).within("with"),
    }
    set(Set::Join(arguments.value(0).clone(), arguments.value(1).clone()))
}

pub fn range(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let mut errors = Vec::new();
    for (index, key) in [(1, "from"), (2, "to")] {
        if let Err(undefined) = evaluation.check_all_defined(std::slice::from_ref(arguments.value(index))) {
            errors.extend(undefined.within(Step::Key(key)).0);
        } else if let Value::Set(of) = arguments.value(0)
            && of.is_history()
            && let Err(wrong) = evaluation.event_cursor(arguments.value(index)).within(key)
        {
            errors.extend(wrong.0);
        }
    }
    Errors::unless_empty(errors)?;
    set(Set::Range {
        of: arguments.value(0).clone(),
        from: arguments.value(1).clone(),
        to: arguments.value(2).clone(),
    })
}
