//! Commands on numbers, strings and booleans.

use quartet_wire_resp::{Arguments, Protocol};

use super::answers::{Answer, NO_DOCUMENT, change_each, inner_first, path_at, put_document, take_values};
use super::document::Json;
use super::path::Path;
use super::rows::{self, Place};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::Kind;

/// JSON.STRAPPEND key [path] value
pub fn append(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (path, value) = match arguments.len() {
        3 => (Path::root(), &arguments[2]),
        4 => (Path::parse(&arguments[2])?, &arguments[3]),
        _ => return Err("ERR wrong number of arguments for 'json.strappend' command".into()),
    };
    let _values = take_values(context, arguments)?;
    let Json::Text(suffix) = Json::parse(value)? else {
        return Err("WRONGTYPE wrong type of value - expected string".into());
    };
    change_each(context, &arguments[1], &path, "not a string", suffix.len(), |value| {
        let Json::Text(text) = value else { return Ok(None) };
        text.push_str(&suffix);
        Ok(Answer::of_length(text.len()))
    })
}

/// JSON.TOGGLE key [path]
pub fn toggle(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.len() > 3 {
        return Err("ERR wrong number of arguments for 'json.toggle' command".into());
    }
    let path = path_at(arguments, 2)?;
    let is_legacy = path.is_legacy;
    change_each(context, &arguments[1], &path, "not a bool", 0, |value| {
        let Json::Boolean(flag) = value else { return Ok(None) };
        *flag = !*flag;
        Ok(Some(match is_legacy {
            true => Answer::Text(if *flag { b"true".to_vec() } else { b"false".to_vec() }),
            false => Answer::Integer(i64::from(*flag)),
        }))
    })
}

pub fn increment(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    calculate(context, arguments, i64::checked_add, |left, right| left + right)
}

pub fn multiply(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    calculate(context, arguments, i64::checked_mul, |left, right| left * right)
}

/// JSON.NUMPOWBY key path exponent, which RedisJSON has and does not document. Integers are raised
/// as RedisJSON 2.8 was seen to raise them: only the low 32 bits of the exponent count, without a
/// sign, and the power wraps around.
pub fn raise(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let power = |base: i64, exponent: i64| Some(base.wrapping_pow(exponent as u32));
    calculate(context, arguments, power, f64::powf)
}

/// The answer is JSON: a number, or for a JSONPath an array of numbers and nulls. Over RESP3 it is
/// an array for either kind of path, as in RedisJSON 2.6 (`json_num_op` in its `commands.rs`).
fn calculate(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    calculate_integers: fn(i64, i64) -> Option<i64>,
    calculate_doubles: fn(f64, f64) -> f64,
) -> Result<(), ErrorReply> {
    let path = Path::parse(&arguments[2])?;
    let operand = Json::parse(&arguments[3])?;
    if !matches!(operand, Json::Integer(_) | Json::Double(_)) {
        return Err("WRONGTYPE wrong type of value - expected number".into());
    }
    let name = &arguments[1];
    let entry = context.keys().find_kind(name, Kind::Json)?.ok_or(NO_DOCUMENT)?;
    if let Some(place) = Place::of(name, &entry, &path) {
        let mut results = Vec::new();
        if let Some(value) = place.scalar(context.tx) {
            let value = value.unwrap_or_default();
            let result = result_of(&value, &operand, calculate_integers, calculate_doubles)?;
            if let Some(result) = &result {
                context.note_use(name);
                place.replace(&mut context.keys(), result)?;
            }
            results.push(result.unwrap_or_default());
        }
        return write_results(context, &path, results);
    }
    let mut workspace = context.groups.workspace();
    rows::take_document(context.groups, &entry, &mut workspace)?;
    let mut document = rows::document(context.tx, &entry);
    let mut results = Vec::new();
    let locations = path.select(&document, &mut workspace)?;
    for location in inner_first(locations, &mut workspace)? {
        let value = document.at_mut(&location).expect("a location that was found");
        let result = result_of(value, &operand, calculate_integers, calculate_doubles)?;
        if let Some(result) = &result {
            *value = result.clone();
        }
        results.push(result.unwrap_or_default());
    }
    results.reverse();
    if results.iter().any(|result| *result != Json::Null) {
        put_document(context, name, Some(&entry), &document)?;
    }
    write_results(context, &path, results)
}

/// `None` if the value is no number.
fn result_of(
    value: &Json,
    operand: &Json,
    calculate_integers: fn(i64, i64) -> Option<i64>,
    calculate_doubles: fn(f64, f64) -> f64,
) -> Result<Option<Json>, ErrorReply> {
    if let (Json::Integer(left), Json::Integer(right)) = (value, operand)
        && let Some(result) = calculate_integers(*left, *right)
    {
        return Ok(Some(Json::Integer(result)));
    }
    let (Some(left), Some(right)) = (value.number(), operand.number()) else {
        return Ok(None);
    };
    let result = calculate_doubles(left, right);
    match result.is_finite() {
        true => Ok(Some(Json::Double(result))),
        false => Err("ERR result is not a number".into()),
    }
}

fn write_results(context: &mut Context<'_, '_>, path: &Path, results: Vec<Json>) -> Result<(), ErrorReply> {
    if context.reply.protocol() == Protocol::Resp2 {
        let text = match path.is_legacy {
            true => {
                let last = results.iter().rev().find(|result| **result != Json::Null);
                let missing = || format!("ERR Path '{}' does not exist or does not contain a number", path.text);
                last.ok_or_else(missing)?.text()
            }
            false => Json::Array(results).text(),
        };
        context.reply.bulk(&text);
        return Ok(());
    }
    context.reply.array(results.len());
    for result in &results {
        match result {
            Json::Integer(number) => context.reply.integer(*number),
            Json::Double(number) => context.reply.double(*number),
            _ => context.reply.null(),
        }
    }
    Ok(())
}
