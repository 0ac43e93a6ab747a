//! XINFO: what a stream, its groups and their consumers are.

use std::ops::ControlFlow;

use quartet_engine::Transaction;
use quartet_wire_resp::{Arguments, Reply};

use super::groups::{Consumer, Group};
use super::id::{ALL_IDS, StreamId};
use super::range::{read, write_range};
use super::stream::{Stream, write_entry, write_id};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::{command::errors, command::parse};

pub fn stream(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let stream = read(context, &arguments[2])?.ok_or(errors::NO_SUCH_KEY)?;
    // How much of each list is shown; none without FULL.
    let full = match (arguments.len(), arguments.get(3), arguments.get(4)) {
        (3, ..) => None,
        (4, Some(word), _) if parse::is(word, "full") => Some(10),
        (6, Some(word), Some(count)) if parse::is(word, "full") && parse::is(count, "count") => {
            Some(u64::try_from(parse::required_integer(&arguments[5])?).unwrap_or(10))
        }
        _ => return Err(super::lookup::bad_subcommand("XINFO", &arguments[1])),
    };
    let (keys, reply) = context.keys_and_reply();
    reply.map(if full.is_some() { 9 } else { 10 });
    write_head(keys.tx, reply, &stream);
    match full {
        None => write_summary(keys.tx, reply, &stream),
        // Zero shows all.
        Some(count) => write_full(keys.tx, reply, &stream, Some(count).filter(|&count| count > 0)),
    }
    Ok(())
}

fn write_head(tx: &mut Transaction<'_>, reply: &mut Reply<'_>, stream: &Stream) {
    let nodes = stream.node_count(tx);
    write_number(reply, "length", stream.length);
    write_number(reply, "radix-tree-keys", nodes);
    // The root; the nodes in between depend on digits that IDs share.
    write_number(reply, "radix-tree-nodes", nodes + 1);
    write_named_id(reply, "last-generated-id", stream.last);
    write_named_id(reply, "max-deleted-entry-id", stream.max_deleted);
    write_number(reply, "entries-added", stream.entries_added);
    write_named_id(reply, "recorded-first-entry-id", stream.first);
}

fn write_number(reply: &mut Reply<'_>, name: &str, value: u64) {
    reply.bulk(name.as_bytes());
    reply.integer(value as i64);
}

fn write_named_id(reply: &mut Reply<'_>, name: &str, id: StreamId) {
    reply.bulk(name.as_bytes());
    write_id(reply, id);
}

fn write_number_or_null(reply: &mut Reply<'_>, name: &str, value: Option<i64>) {
    reply.bulk(name.as_bytes());
    match value {
        Some(value) => reply.integer(value),
        None => reply.null(),
    }
}

fn write_summary(tx: &mut Transaction<'_>, reply: &mut Reply<'_>, stream: &Stream) {
    write_number(reply, "groups", stream.group_count(tx));
    for (name, reverse) in [("first-entry", false), ("last-entry", true)] {
        reply.bulk(name.as_bytes());
        let mark = reply.mark();
        stream.scan(tx, ALL_IDS, reverse, &mut |id, fields| {
            write_entry(reply, id, fields);
            ControlFlow::Break(())
        });
        if reply.mark() == mark {
            reply.null();
        }
    }
}

fn write_full(tx: &mut Transaction<'_>, reply: &mut Reply<'_>, stream: &Stream, count_max: Option<u64>) {
    reply.bulk(b"entries");
    write_range(tx, reply, stream, ALL_IDS, count_max, false);
    reply.bulk(b"groups");
    let groups = stream.groups(tx);
    reply.array(groups.len());
    for group in &groups {
        write_full_group(tx, reply, stream, group, count_max);
    }
}

fn write_full_group(
    tx: &mut Transaction<'_>,
    reply: &mut Reply<'_>,
    stream: &Stream,
    group: &Group,
    count_max: Option<u64>,
) {
    reply.map(7);
    reply.bulk(b"name");
    reply.bulk(&group.name);
    write_progress(reply, stream, group);
    write_number(reply, "pel-count", group.pending_count(tx, None));
    reply.bulk(b"pending");
    write_pending(tx, reply, group, None, count_max);
    reply.bulk(b"consumers");
    let consumers = group.consumers(tx);
    reply.array(consumers.len());
    for consumer in &consumers {
        reply.map(5);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        write_number(reply, "seen-time", consumer.seen_ms);
        reply.bulk(b"active-time");
        reply.integer(if consumer.active_ms == 0 {
            -1
        } else {
            consumer.active_ms as i64
        });
        write_number(reply, "pel-count", group.pending_count(tx, Some(consumer.number)));
        reply.bulk(b"pending");
        write_pending(tx, reply, group, Some(consumer), count_max);
    }
}

/// The progress of a group.
fn write_progress(reply: &mut Reply<'_>, stream: &Stream, group: &Group) {
    write_named_id(reply, "last-delivered-id", group.last);
    write_number_or_null(reply, "entries-read", group.entries_read.map(|read| read as i64));
    write_number_or_null(reply, "lag", stream.lag(group));
}

/// Writes the entries pending for all, with the consumers' names, or for one, without.
fn write_pending(
    tx: &mut Transaction<'_>,
    reply: &mut Reply<'_>,
    group: &Group,
    consumer: Option<&Consumer>,
    count_max: Option<u64>,
) {
    let (mark, mut count) = (reply.mark(), 0);
    let owner = consumer.map(|consumer| consumer.number);
    group.each_pending(tx, owner, ALL_IDS, &mut |tx, id, pending| {
        reply.array(if owner.is_some() { 3 } else { 4 });
        write_id(reply, id);
        if owner.is_none() {
            reply.bulk(&group.owner_name(tx, pending.owner));
        }
        reply.integer(pending.delivered_ms as i64);
        reply.integer(pending.deliveries as i64);
        count += 1;
        if Some(count as u64) == count_max {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    reply.array_since(mark, count);
}

pub fn groups(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let stream = read(context, &arguments[2])?.ok_or(errors::NO_SUCH_KEY)?;
    let (keys, reply) = context.keys_and_reply();
    let groups = stream.groups(keys.tx);
    reply.array(groups.len());
    for group in &groups {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(&group.name);
        write_number(reply, "consumers", group.consumer_count(keys.tx));
        write_number(reply, "pending", group.pending_count(keys.tx, None));
        write_progress(reply, &stream, group);
    }
    Ok(())
}

pub fn consumers(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let stream = read(context, &arguments[2])?.ok_or(errors::NO_SUCH_KEY)?;
    let group = stream.group(context.tx, &arguments[3]);
    let group = group.ok_or_else(|| super::lookup::no_group_of_key(&arguments[2], &arguments[3]))?;
    let now_ms = context.now_ms;
    let (keys, reply) = context.keys_and_reply();
    let consumers = group.consumers(keys.tx);
    reply.array(consumers.len());
    for consumer in &consumers {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        write_number(reply, "pending", group.pending_count(keys.tx, Some(consumer.number)));
        write_number(reply, "idle", now_ms.saturating_sub(consumer.seen_ms));
        reply.bulk(b"inactive");
        reply.integer(match consumer.active_ms {
            0 => -1,
            active_ms => now_ms.saturating_sub(active_ms) as i64,
        });
    }
    Ok(())
}
