//! Commands on arrays.

use quartet_wire_resp::Arguments;

use super::document::Json;
use super::path::Path;
use super::{Answer, NO_DOCUMENT, answer_each, change_each, path_at, read_document};
use crate::command::error_reply::ErrorReply;
use crate::command::parse;
use crate::handler::context::Context;

const NOT_AN_ARRAY: &str = "not an array";

/// The values of the arguments from `start` on.
fn values_from(arguments: Arguments<'_>, start: usize) -> Result<Vec<Json>, ErrorReply> {
    arguments.iter().skip(start).map(Json::parse).collect()
}

fn memory_bytes(values: &[Json]) -> usize {
    values.iter().map(Json::memory_bytes).sum()
}

/// JSON.ARRAPPEND key path value [value ...]
pub fn append(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = Path::parse(&arguments[2])?;
    let values = values_from(arguments, 3)?;
    let grown_bytes = memory_bytes(&values);
    change_each(context, (&arguments[1], &path), NOT_AN_ARRAY, grown_bytes, |value| {
        let Json::Array(elements) = value else { return Ok(None) };
        elements.extend_from_slice(&values);
        Ok(Answer::of_length(elements.len()))
    })
}

/// JSON.ARRINSERT key path index value [value ...]
pub fn insert(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = Path::parse(&arguments[2])?;
    let index = parse::required_integer(&arguments[3])?;
    let values = values_from(arguments, 4)?;
    let grown_bytes = memory_bytes(&values);
    change_each(context, (&arguments[1], &path), NOT_AN_ARRAY, grown_bytes, |value| {
        let Json::Array(elements) = value else { return Ok(None) };
        let length = elements.len() as i64;
        let position = if index < 0 { index.saturating_add(length) } else { index };
        if !(0..=length).contains(&position) {
            return Err("ERR index out of bounds".into());
        }
        let position = position as usize;
        elements.splice(position..position, values.iter().cloned());
        Ok(Answer::of_length(elements.len()))
    })
}

/// JSON.ARRINDEX key path value [start [stop]]: the position of the first equal element, or -1.
/// `stop` is exclusive; 0 and positions beyond the end mean the end.
pub fn index(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = Path::parse(&arguments[2])?;
    let wanted = Json::parse(&arguments[3])?;
    let number = |position: usize| arguments.get(position).map_or(Ok(0), parse::required_integer);
    let (start, stop) = (number(4)?, number(5)?);
    let document = read_document(context, &arguments[1])?.ok_or(NO_DOCUMENT)?;
    answer_each(context, &document, &path, NOT_AN_ARRAY, |value| {
        let Json::Array(elements) = value else { return None };
        let length = elements.len();
        let stop = if stop == 0 { length } else { bound(stop, length) };
        let range = bound(start, length)..stop;
        let found = elements
            .get(range.clone())
            .and_then(|range| range.iter().position(|element| *element == wanted));
        Some(Answer::Integer(found.map_or(-1, |found| (range.start + found) as i64)))
    })
}

/// A position within `0..=length`, counted from the end if negative.
fn bound(index: i64, length: usize) -> usize {
    let index = if index < 0 {
        index.saturating_add(length as i64)
    } else {
        index
    };
    usize::try_from(index).unwrap_or(0).min(length)
}

/// JSON.ARRPOP key [path [index]]: an index outside of an array means the nearer end.
pub fn pop(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = path_at(arguments, 2)?;
    let index = arguments.get(3).map_or(Ok(-1), parse::required_integer)?;
    let mut is_empty = false;
    let popped = change_each(context, (&arguments[1], &path), NOT_AN_ARRAY, 0, |value| {
        let Json::Array(elements) = value else { return Ok(None) };
        is_empty = elements.is_empty();
        let last = elements.len().saturating_sub(1);
        let popped = (!is_empty).then(|| elements.remove(bound(index, elements.len()).min(last)));
        Ok(popped.map(|element| Answer::Text(element.text())))
    });
    // An array without elements has nothing to give, which is no error.
    if path.is_legacy && is_empty && popped.is_err() {
        context.reply.null();
        return Ok(());
    }
    popped
}

/// JSON.ARRTRIM key path start stop: both ends are kept.
pub fn trim(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = Path::parse(&arguments[2])?;
    let (start, stop) = (
        parse::required_integer(&arguments[3])?,
        parse::required_integer(&arguments[4])?,
    );
    change_each(context, (&arguments[1], &path), NOT_AN_ARRAY, 0, |value| {
        let Json::Array(elements) = value else { return Ok(None) };
        let kept = parse::index_range(start, stop, elements.len() as u64);
        elements.truncate(kept.end as usize);
        elements.drain(..(kept.start as usize).min(elements.len()));
        Ok(Answer::of_length(elements.len()))
    })
}
