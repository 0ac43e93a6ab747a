//! Commands about what is pending: XACK, XPENDING.

use std::ops::{ControlFlow, RangeInclusive};

use quartet_wire_resp::Arguments;

use super::groups::Group;
use super::id::{self, StreamId};
use super::range::read;
use super::stream::write_id;
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::{command::errors, command::parse};

pub fn xack(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let stream = read(context, &arguments[1])?;
    let group = stream.and_then(|stream| stream.group(context.tx, &arguments[2]));
    let mut settled = 0;
    if let Some(group) = group {
        for id in super::id::all(arguments.tail(3))? {
            settled += i64::from(group.settle(context.tx, id));
        }
    }
    context.reply.integer(settled);
    Ok(())
}

/// The entries that XPENDING lists.
struct Listing<'a> {
    idle_ms_min: u64,
    range: RangeInclusive<StreamId>,
    count: u64,
    consumer: Option<&'a [u8]>,
}

pub fn xpending(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let listing = listing(arguments)?;
    let (_, group) = super::lookup::find_stream_and_group(context, &arguments[1], &arguments[2])?;
    match listing {
        None => summarize(context, &group),
        Some(listing) => list(context, &group, &listing),
    }
    Ok(())
}

/// `[IDLE milliseconds] start end count [consumer]`, or nothing.
fn listing(arguments: Arguments<'_>) -> Result<Option<Listing<'_>>, ErrorReply> {
    let mut words = arguments.tail(3);
    if words.is_empty() {
        return Ok(None);
    }
    if !(3..=6).contains(&words.len()) {
        return Err(errors::SYNTAX.into());
    }
    let mut idle_ms_min = 0;
    if parse::is(&words[0], "idle") {
        idle_ms_min = parse::required_integer(&words[1])?;
        words = words.tail(2);
        if words.len() < 3 {
            return Err(errors::SYNTAX.into());
        }
    }
    let count = parse::required_integer(&words[2])?;
    Ok(Some(Listing {
        idle_ms_min: u64::try_from(idle_ms_min).unwrap_or(0),
        range: id::range_start(&words[0])?..=id::range_end(&words[1])?,
        count: u64::try_from(count).unwrap_or(0),
        consumer: words.get(3),
    }))
}

/// The number of pending entries, their first and last, and the number of each consumer.
fn summarize(context: &mut Context<'_, '_>, group: &Group) {
    let (keys, reply) = context.keys_and_reply();
    reply.array(4);
    reply.integer(group.pending_count(keys.tx, None) as i64);
    let first = group.pending_edge(keys.tx, false);
    let last = group.pending_edge(keys.tx, true);
    let Some((first, last)) = first.zip(last) else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    write_id(reply, first);
    write_id(reply, last);
    let (mark, mut count) = (reply.mark(), 0);
    for consumer in group.consumers(keys.tx) {
        let owned = group.pending_count(keys.tx, Some(consumer.number));
        if owned > 0 {
            reply.array(2);
            reply.bulk(&consumer.name);
            reply.bulk(owned.to_string().as_bytes());
            count += 1;
        }
    }
    reply.array_since(mark, count);
}

fn list(context: &mut Context<'_, '_>, group: &Group, listing: &Listing<'_>) {
    let now_ms = context.now_ms;
    let (keys, reply) = context.keys_and_reply();
    let owner = listing.consumer.map(|name| group.consumer(keys.tx, name));
    if listing.count == 0 || matches!(owner, Some(None)) {
        return reply.array(0);
    }
    let owner = owner.flatten().map(|consumer| consumer.number);
    let (mark, mut count) = (reply.mark(), 0);
    group.each_pending(keys.tx, owner, listing.range.clone(), &mut |tx, id, pending| {
        if pending.idle_ms(now_ms) < listing.idle_ms_min {
            return ControlFlow::Continue(());
        }
        reply.array(4);
        write_id(reply, id);
        reply.bulk(&group.owner_name(tx, pending.owner));
        reply.integer(pending.idle_ms(now_ms) as i64);
        reply.integer(pending.deliveries as i64);
        count += 1;
        if count as u64 == listing.count {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    reply.array_since(mark, count);
}
