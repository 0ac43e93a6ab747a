//! Commands that look at entries: XLEN, XRANGE, XREVRANGE.

use std::ops::{ControlFlow, RangeInclusive};

use quartet_engine::Transaction;
use quartet_wire_resp::{Arguments, Reply};

use super::id::{self, StreamId};
use super::stream::{Stream, write_entry};
use crate::command::error_reply::ErrorReply;
use crate::handler::allowance::WITH_LOCK_ELEMENTS;
use crate::handler::context::Context;
use crate::keyspace::Kind;
use crate::{command::errors, command::parse};

/// The stream that a reader finds; an error if the key holds something else.
pub fn read(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Option<Stream>, ErrorReply> {
    let entry = context.read_kind(name, Kind::Stream)?;
    Ok(entry.as_ref().map(Stream::of))
}

pub fn xlen(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let length = read(context, &arguments[1])?.map_or(0, |stream| stream.length);
    context.reply.integer(length as i64);
    Ok(())
}

pub fn xrange(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, false)
}

pub fn xrevrange(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, true)
}

fn answer(context: &mut Context<'_, '_>, arguments: Arguments<'_>, reverse: bool) -> Result<(), ErrorReply> {
    let (start, end) = if reverse { (3, 2) } else { (2, 3) };
    let start = id::range_start(&arguments[start])?;
    let end = id::range_end(&arguments[end])?;
    let count_max = count(arguments.tail(4))?;
    let Some(stream) = read(context, &arguments[1])? else {
        context.reply.array(0);
        return Ok(());
    };
    if count_max == Some(0) {
        context.reply.null_array();
        return Ok(());
    }
    let size = match stream.length.min(count_max.unwrap_or(u64::MAX)) {
        size if size <= WITH_LOCK_ELEMENTS => size,
        size => stream.count(context.tx, start..=end).min(size),
    };
    if context.must_end_before(size) {
        return Ok(());
    }
    let (keys, reply) = context.keys_and_reply();
    write_range(keys.tx, reply, &stream, start..=end, count_max, reverse);
    Ok(())
}

/// COUNT, any number of times. `None`: all.
fn count(arguments: Arguments<'_>) -> Result<Option<u64>, ErrorReply> {
    let mut count = None;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words
            .next()
            .filter(|_| parse::is(word, "count"))
            .ok_or(errors::SYNTAX)?;
        count = Some(u64::try_from(parse::required_integer(value)?).unwrap_or(0));
    }
    Ok(count)
}

/// Answers an array of the entries of a range, at most `count_max` of them. Returns how many there
/// were.
pub fn write_range(
    tx: &mut Transaction<'_>,
    reply: &mut Reply<'_>,
    stream: &Stream,
    range: RangeInclusive<StreamId>,
    count_max: Option<u64>,
    reverse: bool,
) -> usize {
    let (mark, mut count) = (reply.mark(), 0);
    stream.scan(tx, range, reverse, &mut |id, fields| {
        write_entry(reply, id, fields);
        count += 1;
        if Some(count as u64) == count_max {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    reply.array_since(mark, count);
    count
}
