//! The commands on fields and values. Replies follow the pages of the commands at
//! <https://redis.io/docs/latest/commands/>.

use quartet_engine::Row;
use quartet_wire_resp::{Arguments, Protocol};

use super::edits::{Change, Deadline, Edits};
use super::limits;
use super::value::{self, FIELD_BYTES_MAX, Field};
use super::writing::{self, Outcome};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::long_double::{self, Parsed};
use crate::keyspace::random::PickCount;
use crate::keyspace::scan::{self, Scan};
use crate::keyspace::{Entry, Kind};
use crate::{command::errors, command::parse};

pub const FIELD_TOO_LARGE: &str = "ERR field exceeds the maximum size of 65000 bytes";

pub fn hset(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let added = set_pairs(context, arguments)?;
    context.reply.integer(added as i64);
    Ok(())
}

pub fn hmset(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    set_pairs(context, arguments)?;
    context.reply.ok();
    Ok(())
}

fn set_pairs(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<u64, ErrorReply> {
    if !arguments.len().is_multiple_of(2) {
        let name = arguments[0].to_ascii_lowercase();
        let name = String::from_utf8_lossy(&name);
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let entry = context.keys().find_kind(&arguments[1], Kind::Hash)?;
    let mut edits = Edits::default();
    add_pairs(&mut edits, arguments.tail(2), Deadline::Never)?;
    Ok(apply(context, &arguments[1], entry.as_ref(), edits).added)
}

/// Collects alternating fields and values.
pub fn add_pairs<'a>(edits: &mut Edits<'a>, pairs: Arguments<'a>, deadline: Deadline) -> Result<(), ErrorReply> {
    let mut words = pairs.iter();
    while let (Some(field), Some(value)) = (words.next(), words.next()) {
        check_field(field)?;
        edits.set(field, Change::Set { value, deadline });
    }
    Ok(())
}

fn check_field(field: &[u8]) -> Result<(), ErrorReply> {
    if field.len() > FIELD_BYTES_MAX {
        return Err(FIELD_TOO_LARGE.into());
    }
    Ok(())
}

pub fn apply(context: &mut Context<'_, '_>, name: &[u8], entry: Option<&Entry>, edits: Edits<'_>) -> Outcome {
    let limits = limits(context.config());
    context.note_change(name, entry);
    writing::apply(&mut context.keys(), name, entry, edits, limits)
}

/// Removes fields. Returns how many of them were live.
pub fn remove<'f>(
    context: &mut Context<'_, '_>,
    name: &[u8],
    entry: &Entry,
    fields: impl ExactSizeIterator<Item = &'f [u8]>,
) -> u64 {
    if entry.is_large() {
        let limits = limits(context.config());
        context.note_change(name, Some(entry));
        return writing::remove_large(&mut context.keys(), name, entry, fields, &mut |_| {}, limits);
    }
    let mut edits = Edits::default();
    fields.for_each(|field| edits.set(field, Change::Remove));
    apply(context, name, Some(entry), edits).removed
}

/// Removes fields of a large hash. Returns the rows that they had, in no order, of expired fields
/// too.
pub fn remove_rows<'f>(
    context: &mut Context<'_, '_>,
    name: &[u8],
    entry: &Entry,
    fields: impl ExactSizeIterator<Item = &'f [u8]>,
) -> Vec<Row> {
    let limits = limits(context.config());
    let mut rows = Vec::new();
    context.note_change(name, Some(entry));
    writing::remove_large(
        &mut context.keys(),
        name,
        entry,
        fields,
        &mut |row| rows.push(row.clone()),
        limits,
    );
    rows
}

pub fn hsetnx(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (name, field) = (&arguments[1], &arguments[2]);
    let mut keys = context.keys();
    let entry = keys.find_kind(name, Kind::Hash)?;
    let is_there = entry
        .as_ref()
        .is_some_and(|entry| value::find(&mut keys, entry, field).is_some());
    if !is_there {
        check_field(field)?;
        set_one(context, name, entry.as_ref(), field, &arguments[3], Deadline::Never);
    }
    context.reply.integer(i64::from(!is_there));
    Ok(())
}

fn set_one(
    context: &mut Context<'_, '_>,
    name: &[u8],
    entry: Option<&Entry>,
    field: &[u8],
    value: &[u8],
    deadline: Deadline,
) {
    let mut edits = Edits::default();
    edits.set(field, Change::Set { value, deadline });
    apply(context, name, entry, edits);
}

pub fn hget(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::Hash)?;
    reply_value(context, entry.as_ref(), &arguments[2]);
    Ok(())
}

pub fn hmget(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::Hash)?;
    context.reply.array(arguments.len() - 2);
    for field in arguments.iter().skip(2) {
        reply_value(context, entry.as_ref(), field);
    }
    Ok(())
}

pub fn reply_value(context: &mut Context<'_, '_>, entry: Option<&Entry>, field: &[u8]) {
    let (mut keys, reply) = context.keys_and_reply();
    match entry.and_then(|entry| value::find(&mut keys, entry, field)) {
        Some(found) => reply.bulk(found.value()),
        None => reply.null(),
    }
}

pub fn hgetall(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::Hash)?;
    let Some(entry) = entry else {
        context.reply.map(0);
        return Ok(());
    };
    let len = value::len(&mut context.keys(), &entry);
    if context.must_end_before(len) {
        return Ok(());
    }
    let (mut keys, reply) = context.keys_and_reply();
    reply.map(len as usize);
    value::each(&mut keys, &entry, &mut |field| {
        reply.bulk(field.name);
        reply.bulk(field.value);
    });
    Ok(())
}

pub fn hkeys(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    reply_each(context, &arguments[1], |field| field.name)
}

pub fn hvals(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    reply_each(context, &arguments[1], |field| field.value)
}

fn reply_each(
    context: &mut Context<'_, '_>,
    name: &[u8],
    part: for<'f> fn(Field<'f>) -> &'f [u8],
) -> Result<(), ErrorReply> {
    let entry = context.read_kind(name, Kind::Hash)?;
    let Some(entry) = entry else {
        context.reply.array(0);
        return Ok(());
    };
    let len = value::len(&mut context.keys(), &entry);
    if context.must_end_before(len) {
        return Ok(());
    }
    let (mut keys, reply) = context.keys_and_reply();
    reply.array(len as usize);
    value::each(&mut keys, &entry, &mut |field| reply.bulk(part(field)));
    Ok(())
}

pub fn hdel(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.keys().find_kind(&arguments[1], Kind::Hash)?;
    let removed = entry.map_or(0, |entry| {
        remove(context, &arguments[1], &entry, arguments.tail(2).iter())
    });
    context.reply.integer(removed as i64);
    Ok(())
}

pub fn hexists(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::Hash)?;
    let (mut keys, reply) = context.keys_and_reply();
    let exists = entry
        .as_ref()
        .and_then(|entry| value::find(&mut keys, entry, &arguments[2]));
    reply.integer(i64::from(exists.is_some()));
    Ok(())
}

pub fn hstrlen(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::Hash)?;
    let (mut keys, reply) = context.keys_and_reply();
    let length = entry
        .as_ref()
        .and_then(|entry| value::find(&mut keys, entry, &arguments[2]));
    reply.integer(length.map_or(0, |element| element.value().len() as i64));
    Ok(())
}

pub fn hlen(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::Hash)?;
    let (mut keys, reply) = context.keys_and_reply();
    reply.integer(entry.map_or(0, |entry| value::len(&mut keys, &entry) as i64));
    Ok(())
}

pub fn hincrby(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let increment = parse::required_integer(&arguments[3])?;
    let sum = increment_field(context, arguments, &|old| {
        let old = old.map_or(Some(0), parse::integer);
        let old = old.ok_or(ErrorReply::new("ERR hash value is not an integer"))?;
        let sum = old.checked_add(increment).ok_or(ErrorReply::new(errors::OVERFLOW))?;
        Ok(sum.to_string().into_bytes())
    })?;
    let sum = parse::integer(&sum).expect("it was printed as an integer");
    context.reply.integer(sum);
    Ok(())
}

pub fn hincrbyfloat(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let increment = long_double::parse(&arguments[3]).ok_or(errors::NOT_FLOAT)?;
    if increment == Parsed::Infinite {
        return Err("ERR value is NaN or Infinity".into());
    }
    let sum = increment_field(context, arguments, &|old| {
        let old = old.map_or(Some(Parsed::ZERO), long_double::parse);
        let old = old.ok_or(ErrorReply::new("ERR hash value is not a float"))?;
        Ok(old.plus(increment).ok_or(errors::NOT_FINITE)?.to_string().into_bytes())
    })?;
    context.reply.bulk(&sum);
    Ok(())
}

/// A field's new value, given its old one.
type Sum<'s> = &'s dyn Fn(Option<&[u8]>) -> Result<Vec<u8>, ErrorReply>;

/// Replaces the value of the field `arguments[2]`, which keeps its deadline. Returns the new value.
fn increment_field(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    sum: Sum<'_>,
) -> Result<Vec<u8>, ErrorReply> {
    let (name, field) = (&arguments[1], &arguments[2]);
    let mut keys = context.keys();
    let entry = keys.find_kind(name, Kind::Hash)?;
    let old_field = entry.as_ref().and_then(|entry| value::find(&mut keys, entry, field));
    let new = sum(old_field.as_ref().map(|element| element.value()))?;
    check_field(field)?;
    set_one(context, name, entry.as_ref(), field, &new, Deadline::Keep);
    Ok(new)
}

pub fn hrandfield(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let Some(count) = arguments.get(2) else {
        return random_field(context, &arguments[1]);
    };
    let count = PickCount::parse(count)?;
    let with_values = match arguments.get(3) {
        None => false,
        Some(word) if arguments.len() == 4 && parse::is(word, "withvalues") => true,
        Some(_) => return Err(errors::SYNTAX.into()),
    };
    let count = if with_values { count.of_pairs()? } else { count };
    random_fields(context, &arguments[1], count, with_values)
}

fn random_field(context: &mut Context<'_, '_>, name: &[u8]) -> Result<(), ErrorReply> {
    let entry = context.read_kind(name, Kind::Hash)?;
    let random = context.random();
    let (mut keys, reply) = context.keys_and_reply();
    let size = entry.as_ref().map_or(0, |entry| value::len(&mut keys, entry));
    match entry {
        Some(entry) if size > 0 => {
            let index = random.below(size);
            value::at(&mut keys, &entry, &[index], &mut |field| reply.bulk(field.name));
        }
        _ => reply.null(),
    }
    Ok(())
}

fn random_fields(
    context: &mut Context<'_, '_>,
    name: &[u8],
    count: PickCount,
    with_values: bool,
) -> Result<(), ErrorReply> {
    let entry = context.read_kind(name, Kind::Hash)?;
    let (random, mut workspace) = (context.random(), context.workspace());
    let (mut keys, reply) = context.keys_and_reply();
    let size = entry.as_ref().map_or(0, |entry| value::len(&mut keys, entry));
    workspace.take(count.bytes(size))?;
    let indexes = count.positions(random, size)?;
    let Some(entry) = entry else {
        reply.array(0);
        return Ok(());
    };
    let is_flat = reply.protocol() == Protocol::Resp2;
    reply.array(if with_values && is_flat {
        2 * indexes.len()
    } else {
        indexes.len()
    });
    value::at(&mut keys, &entry, &indexes, &mut |field| {
        if with_values && !is_flat {
            reply.array(2);
        }
        reply.bulk(field.name);
        if with_values {
            reply.bulk(field.value);
        }
    });
    Ok(())
}

pub fn hscan(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let cursor = scan::cursor(&arguments[2])?;
    let Some(entry) = context.read_kind(&arguments[1], Kind::Hash)? else {
        scan::write_page(&mut context.reply, 0, &[]);
        return Ok(());
    };
    let options = scan::options(arguments.tail(3), Scan::Hash)?;
    let mut fields = context.gathered_list();
    let next = value::page(&mut context.keys(), &entry, cursor, options.count, &mut |field| {
        if options.matches(field.name) {
            fields.push(field.name);
            if !options.no_values {
                fields.push(field.value);
            }
        }
    });
    scan::write_page(&mut context.reply, next, fields.all()?);
    Ok(())
}
