//! Commands on arrays.

use quartet_wire_resp::Arguments;

use super::answers::{
    Answer, NO_DOCUMENT, change_each_in_whole, path_at, read_document, take_values, values_read, write_answers,
};
use super::document::Json;
use super::path::Path;
use super::rows::{Place, Shape, Splice};
use crate::command::error_reply::ErrorReply;
use crate::command::parse;
use crate::handler::context::Context;
use crate::keyspace::Kind;

const NOT_AN_ARRAY: &str = "not an array";

/// The values of the arguments from `start` on.
fn values_from(arguments: Arguments<'_>, start: usize) -> Result<Vec<Json>, ErrorReply> {
    arguments.iter().skip(start).map(Json::parse).collect()
}

fn memory_bytes(values: &[Json]) -> usize {
    values.iter().map(Json::memory_bytes).sum()
}

/// Changes each array at the path by the splices that `plan` makes for its length, and answers what
/// `answer` makes of the elements removed and the array's new length. Each array grows by
/// `grown_bytes` at most. An array without splices is not changed.
fn splice_each<'v>(
    context: &mut Context<'_, '_>,
    name: &[u8],
    path: &Path,
    grown_bytes: usize,
    mut plan: impl FnMut(usize) -> Result<Vec<Splice<'v>>, ErrorReply>,
    answer: impl Fn(&[Json], usize) -> Option<Answer>,
) -> Result<(), ErrorReply> {
    let entry = context.keys().find_kind(name, Kind::Json)?.ok_or(NO_DOCUMENT)?;
    let Some(place) = Place::of(name, &entry, path) else {
        return change_each_in_whole(context, name, path, &entry, NOT_AN_ARRAY, grown_bytes, |value| {
            let Json::Array(elements) = value else { return Ok(None) };
            let mut removed = Vec::new();
            for splice in plan(elements.len())? {
                let inserted = splice.inserted.iter().cloned();
                removed.extend(elements.splice(splice.removed, inserted));
            }
            Ok(answer(&removed, elements.len()))
        });
    };
    let shape = place.shape(context.tx);
    let mut answers: Vec<Option<Answer>> = shape.map(|_| None).into_iter().collect();
    if let Some(Shape::Array(length)) = shape {
        let splices = plan(length)?;
        let length = splices.iter().fold(length, |length, splice| {
            length - splice.removed.len() + splice.inserted.len()
        });
        let mut removed = Vec::new();
        if !splices.is_empty() {
            context.note_use(name);
            removed = place.splice(&mut context.keys(), &splices)?;
        }
        answers = vec![answer(&removed, length)];
    }
    write_answers(context, path, NOT_AN_ARRAY, &answers)
}

fn length_after(_: &[Json], length: usize) -> Option<Answer> {
    Answer::of_length(length)
}

/// JSON.ARRAPPEND key path value [value ...]
pub fn append(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = Path::parse(&arguments[2])?;
    let _values = take_values(context, arguments)?;
    let values = values_from(arguments, 3)?;
    let append = |length| Ok(vec![Splice::of(length..length, &values)]);
    splice_each(
        context,
        &arguments[1],
        &path,
        memory_bytes(&values),
        append,
        length_after,
    )
}

/// JSON.ARRINSERT key path index value [value ...]
pub fn insert(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = Path::parse(&arguments[2])?;
    let index = parse::required_integer(&arguments[3])?;
    let _values = take_values(context, arguments)?;
    let values = values_from(arguments, 4)?;
    let insert = |length: usize| {
        let position = if index < 0 {
            index.saturating_add(length as i64)
        } else {
            index
        };
        if !(0..=length as i64).contains(&position) {
            return Err("ERR index out of bounds".into());
        }
        let position = position as usize;
        Ok(vec![Splice::of(position..position, &values)])
    };
    splice_each(
        context,
        &arguments[1],
        &path,
        memory_bytes(&values),
        insert,
        length_after,
    )
}

/// JSON.ARRINDEX key path value [start [stop]]: the position of the first equal element, or -1.
/// `stop` is exclusive; 0 and positions beyond the end mean the end.
pub fn index(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = Path::parse(&arguments[2])?;
    let _values = take_values(context, arguments)?;
    let expected = Json::parse(&arguments[3])?;
    let number = |position: usize| arguments.get(position).map_or(Ok(0), parse::required_integer);
    let (start, stop) = (number(4)?, number(5)?);
    let document = read_document(context, &arguments[1])?.ok_or(NO_DOCUMENT)?;
    let positions = document.positions(context.tx, &path, &expected, |length| {
        let stop = if stop == 0 { length } else { bound(stop, length) };
        bound(start, length)..stop
    })?;
    let answer = |index_in_array: Option<usize>| Answer::Integer(index_in_array.map_or(-1, |position| position as i64));
    let answers: Vec<_> = positions
        .into_iter()
        .take(values_read(&path))
        .map(|index_in_array| index_in_array.map(answer))
        .collect();
    write_answers(context, &path, NOT_AN_ARRAY, &answers)
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
    let pop = |length: usize| {
        is_empty = length == 0;
        let position = bound(index, length).min(length.saturating_sub(1));
        let removed = (!is_empty).then(|| Splice::of(position..position + 1, &[]));
        Ok(removed.into_iter().collect())
    };
    let popped = splice_each(context, &arguments[1], &path, 0, pop, |removed, _| {
        removed.first().map(|element| Answer::Text(element.text()))
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
    let trim = |length: usize| {
        let range = parse::index_range(start, stop, length as u64);
        let end = (range.end as usize).min(length);
        let start = (range.start as usize).min(end);
        Ok(vec![Splice::of(end..length, &[]), Splice::of(0..start, &[])])
    };
    splice_each(context, &arguments[1], &path, 0, trim, length_after)
}
