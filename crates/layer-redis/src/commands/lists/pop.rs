//! Commands that take elements out of a list: LPOP, RPOP, LMPOP, LREM, LTRIM, and LMOVE, which puts
//! them into another.

use quartet_wire_resp::Arguments;

use super::end;
use super::rows::{self, End, Popped};
use crate::command::error_reply::ErrorReply;
use crate::handler::command_memory::{ELEMENT_BYTES, Workspace};
use crate::handler::context::Context;
use crate::keyspace::{Entry, Keyspace, Kind};
use crate::{command::errors, command::parse};

pub fn lpop(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    pop(context, arguments, "lpop", End::Left)
}

pub fn rpop(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    pop(context, arguments, "rpop", End::Right)
}

fn pop(context: &mut Context<'_, '_>, arguments: Arguments<'_>, command: &str, end: End) -> Result<(), ErrorReply> {
    if arguments.len() > 3 {
        return Err(format!("ERR wrong number of arguments for '{command}' command").into());
    }
    let count = arguments.get(2).map(pop_count).transpose()?;
    let mut keys = context.keys();
    let Some(entry) = keys.find_kind(&arguments[1], Kind::List)? else {
        match count {
            Some(_) => context.reply.null_array(),
            None => context.reply.null(),
        }
        return Ok(());
    };
    if count == Some(0) {
        context.reply.array(0);
        return Ok(());
    }
    let Some(count) = count else {
        let popped = rows::pop_one(&mut keys, &arguments[1], &entry, end);
        context.reply.bulk(&popped);
        return Ok(());
    };
    if context.must_end_before(count.min(rows::length(&entry))) {
        return Ok(());
    }
    let _workspace = workspace_of_pop(context, &entry, end, count)?;
    let popped = rows::pop(&mut context.keys(), &arguments[1], &entry, end, count);
    bulks(context, &popped);
    Ok(())
}

/// Memory for what is popped: it is gathered before it is answered.
fn workspace_of_pop<'c>(
    context: &mut Context<'c, '_>,
    entry: &Entry,
    end: End,
    count: u64,
) -> Result<Workspace<'c>, ErrorReply> {
    let (mut workspace, length) = (context.workspace(), rows::length(entry));
    let count = count.min(length);
    let popped = match end {
        End::Left => 0..count,
        End::Right => length - count..length,
    };
    let mut outcome = Ok(());
    rows::range(&mut context.keys(), entry, popped, &mut |value| {
        if outcome.is_ok() {
            outcome = workspace.take(value.len() + ELEMENT_BYTES);
        }
    });
    outcome.map(|()| workspace)
}

fn pop_count(text: &[u8]) -> Result<u64, ErrorReply> {
    let count = parse::integer(text).and_then(|count| u64::try_from(count).ok());
    count.ok_or(ErrorReply::new(errors::OUT_OF_RANGE_POSITIVE))
}

fn bulks(context: &mut Context<'_, '_>, values: &[Vec<u8>]) {
    context.reply.array(values.len());
    values.iter().for_each(|value| context.reply.bulk(value));
}

/// The arguments of LMPOP from the number of keys on.
pub struct MultiPop<'a> {
    pub names: Vec<&'a [u8]>,
    pub end: End,
    pub count: u64,
}

impl<'a> MultiPop<'a> {
    /// `start` is the position of the number of keys.
    pub fn parse(arguments: Arguments<'a>, start: usize) -> Result<MultiPop<'a>, ErrorReply> {
        let words: Vec<&'a [u8]> = arguments.iter().skip(start).collect();
        let announced = parse::integer(words[0]).filter(|announced| *announced > 0);
        let announced = announced.ok_or("ERR numkeys should be greater than 0")?;
        let rest = &words[1..];
        let Some((names, [side, options @ ..])) = usize::try_from(announced)
            .ok()
            .and_then(|announced| rest.split_at_checked(announced))
        else {
            return Err(errors::SYNTAX.into());
        };
        let end = end(side)?;
        let count = match options {
            [] => 1,
            [word, number, more @ ..] if parse::is(word, "count") => {
                let count = parse::integer(number).filter(|count| *count > 0);
                let count = count.ok_or("ERR count should be greater than 0")?;
                // A wrong count in front of it is found first.
                more.is_empty().then_some(count).ok_or(errors::SYNTAX)?
            }
            _ => return Err(errors::SYNTAX.into()),
        };
        Ok(MultiPop {
            names: names.to_vec(),
            end,
            count: count as u64,
        })
    }
}

/// The first of the lists that exists. A key of another kind before it is an error, or passed over
/// by a command that has waited: then it has become so in the meantime.
pub fn first_list<'a>(
    context: &mut Context<'_, '_>,
    names: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Option<(&'a [u8], Entry)>, ErrorReply> {
    for name in names {
        if !context.may_be_served_by(name) {
            continue;
        }
        match context.keys().find_kind(name, Kind::List) {
            Ok(Some(entry)) => return Ok(Some((name, entry))),
            Ok(None) => {}
            Err(_) if context.is_retry() => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(None)
}

/// Answers a name and what was popped. False, and no answer, if none of the lists exists.
pub fn multi_pop(context: &mut Context<'_, '_>, request: &MultiPop<'_>) -> Result<bool, ErrorReply> {
    let Some((name, entry)) = first_list(context, request.names.iter().copied())? else {
        return Ok(false);
    };
    let _workspace = workspace_of_pop(context, &entry, request.end, request.count)?;
    let popped = rows::pop(&mut context.keys(), name, &entry, request.end, request.count);
    context.reply.array(2);
    context.reply.bulk(name);
    bulks(context, &popped);
    Ok(true)
}

pub fn lmpop(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let request = MultiPop::parse(arguments, 1)?;
    if !multi_pop(context, &request)? {
        context.reply.null_array();
    }
    Ok(())
}

/// A move of one element.
pub struct Move<'a> {
    pub source: &'a [u8],
    pub target: &'a [u8],
    pub from: End,
    pub to: End,
}

pub fn lmove(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let request = Move {
        source: &arguments[1],
        target: &arguments[2],
        from: end(&arguments[3])?,
        to: end(&arguments[4])?,
    };
    move_or_null(context, &request)
}

pub fn rpoplpush(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let request = Move {
        source: &arguments[1],
        target: &arguments[2],
        from: End::Right,
        to: End::Left,
    };
    move_or_null(context, &request)
}

fn move_or_null(context: &mut Context<'_, '_>, request: &Move<'_>) -> Result<(), ErrorReply> {
    if !move_one(context, request)? {
        context.reply.null();
    }
    Ok(())
}

/// Answers the element that was moved. False, and no answer, if the source does not exist.
pub fn move_one(context: &mut Context<'_, '_>, request: &Move<'_>) -> Result<bool, ErrorReply> {
    let mut keys = context.keys();
    let Some(source) = keys.find_kind(request.source, Kind::List)? else {
        return Ok(false);
    };
    keys.find_kind(request.target, Kind::List)
        .map_err(ErrorReply::ending_wait)?;
    let value = transfer(&mut keys, request, &source);
    context.reply.bulk(&value);
    Ok(true)
}

fn transfer(keys: &mut Keyspace<'_, '_>, request: &Move<'_>, source: &Entry) -> Popped {
    if request.source == request.target && rows::length(source) == 1 {
        // Popping would remove the key, and its expiry with it.
        keys.touch(request.source);
        return rows::elements(keys, source).remove(0).into();
    }
    let value = rows::pop_one(keys, request.source, source, request.from);
    let target = keys.find(request.target);
    rows::push(keys, request.target, target.as_ref(), request.to, [&*value].into_iter());
    value
}

pub fn lrem(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let count = parse::required_integer(&arguments[2])?;
    let from = if count < 0 { End::Right } else { End::Left };
    let count_max = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let mut keys = context.keys();
    let removed = match keys.find_kind(&arguments[1], Kind::List)? {
        Some(entry) => rows::remove(&mut keys, &arguments[1], &entry, from, &arguments[3], count_max),
        None => 0,
    };
    context.reply.integer(removed as i64);
    Ok(())
}

pub fn ltrim(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let start = parse::required_integer(&arguments[2])?;
    let stop = parse::required_integer(&arguments[3])?;
    let mut keys = context.keys();
    if let Some(entry) = keys.find_kind(&arguments[1], Kind::List)? {
        let range = parse::index_range(start, stop, rows::length(&entry));
        rows::trim(&mut keys, &arguments[1], &entry, range);
    }
    context.reply.ok();
    Ok(())
}
