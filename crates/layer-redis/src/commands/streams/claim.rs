//! Commands that take what is pending over from another consumer: XCLAIM, XAUTOCLAIM.

use std::ops::ControlFlow;

use quartet_engine::Transaction;
use quartet_wire_resp::{Arguments, Reply};

use super::groups::{Consumer, Group, Pending};
use super::id::{self, StreamId};
use super::stream::{Stream, write_entry, write_id};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::Keyspace;
use crate::keyspace::changes::What;
use crate::{command::errors, command::parse};

/// The options after the IDs of XCLAIM.
#[derive(Default)]
struct Options {
    /// The given time of the entry's delivery.
    delivered_ms: Option<i64>,
    deliveries: Option<u64>,
    force: bool,
    just_ids: bool,
    last: StreamId,
}

/// A claim in progress.
struct Claim<'a> {
    name: &'a [u8],
    stream: Stream,
    group: Group,
    consumer_name: &'a [u8],
    /// Known from the first entry on that it gets.
    consumer: Option<Consumer>,
    /// The creation of the consumer by that entry.
    told: Option<What>,
    idle_ms_min: u64,
    delivered_ms: u64,
    deliveries: Option<u64>,
    just_ids: bool,
    now_ms: u64,
    claimed: usize,
}

pub fn xclaim(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (stream, group) = super::lookup::find_stream_and_group(context, &arguments[1], &arguments[2])?;
    let idle_ms_min = idle_ms(&arguments[4], "ERR Invalid min-idle-time argument for XCLAIM")?;
    let words = arguments.tail(5);
    let ids: Vec<StreamId> = words.iter().map_while(|word| id::read(word, 0)).collect();
    let now_ms = context.now_ms;
    let options = options(words.tail(ids.len()), now_ms)?;
    let is_sane = |at_ms: &u64| *at_ms <= now_ms;
    let given_ms = options.delivered_ms.and_then(|at_ms| u64::try_from(at_ms).ok());
    let mut claim = Claim {
        name: &arguments[1],
        stream,
        group,
        consumer_name: arguments.get(3).unwrap_or_default(),
        consumer: None,
        told: None,
        idle_ms_min,
        delivered_ms: given_ms.filter(is_sane).unwrap_or(now_ms),
        deliveries: options.deliveries,
        just_ids: options.just_ids,
        now_ms,
        claimed: 0,
    };
    let (mut keys, reply) = context.keys_and_reply();
    if options.last > claim.group.last {
        claim.group.last = options.last;
        claim.group.write(keys.tx);
    }
    let mark = reply.mark();
    for id in ids {
        let pending = claim.group.pending(keys.tx, id);
        claim.take(keys.tx, reply, id, pending, options.force);
    }
    claim.finish(&mut keys, reply, mark);
    context.changed_below(&arguments[1]);
    Ok(())
}

/// A negative time is none.
fn idle_ms(word: &[u8], error: &'static str) -> Result<u64, ErrorReply> {
    let idle_ms = parse::integer(word).ok_or(error)?;
    Ok(u64::try_from(idle_ms).unwrap_or(0))
}

fn options(arguments: Arguments<'_>, now_ms: u64) -> Result<Options, ErrorReply> {
    let mut options = Options::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let has_value = words.len() > 0;
        let mut number = |error: &'static str| -> Result<i64, ErrorReply> {
            parse::integer(words.next().unwrap_or_default()).ok_or(error.into())
        };
        if parse::is(word, "force") {
            options.force = true;
        } else if parse::is(word, "justid") {
            options.just_ids = true;
        } else if has_value && parse::is(word, "idle") {
            let idle_ms = number("ERR Invalid IDLE option argument for XCLAIM")?;
            options.delivered_ms = Some((now_ms as i64).wrapping_sub(idle_ms));
        } else if has_value && parse::is(word, "time") {
            options.delivered_ms = Some(number("ERR Invalid TIME option argument for XCLAIM")?);
        } else if has_value && parse::is(word, "retrycount") {
            let deliveries = number("ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
            options.deliveries = u64::try_from(deliveries).ok();
        } else if has_value && parse::is(word, "lastid") {
            options.last = id::exact(words.next().unwrap_or_default(), 0)?;
        } else {
            let word = String::from_utf8_lossy(word);
            return Err(format!("ERR Unrecognized XCLAIM option '{word}'").into());
        }
    }
    Ok(options)
}

impl Claim<'_> {
    /// Claims one entry if it may, and writes it. Returns false for an entry that was deleted from
    /// the stream, which is then no longer pending.
    fn take(
        &mut self,
        tx: &mut Transaction<'_>,
        reply: &mut Reply<'_>,
        id: StreamId,
        pending: Option<Pending>,
        force: bool,
    ) -> bool {
        let Some(fields) = self.stream.fields(tx, id) else {
            if pending.is_some() {
                self.group.settle(tx, id);
            }
            return false;
        };
        let may_take = match pending {
            Some(pending) => pending.idle_ms(self.now_ms) >= self.idle_ms_min,
            None => force,
        };
        if !may_take {
            return true;
        }
        // An entry that was not pending has been delivered once by being claimed.
        let before = pending.map_or(1, |pending| pending.deliveries);
        let again = before.wrapping_add(u64::from(!self.just_ids));
        let owner = self.consumer(tx).number;
        let taken = Pending {
            owner,
            delivered_ms: self.delivered_ms,
            deliveries: self.deliveries.unwrap_or(again),
        };
        self.group.assign(tx, id, taken);
        match self.just_ids {
            true => write_id(reply, id),
            false => write_entry(reply, id, &fields),
        }
        self.claimed += 1;
        true
    }

    fn consumer(&mut self, tx: &mut Transaction<'_>) -> &Consumer {
        let (group, name, now_ms) = (&mut self.group, self.consumer_name, self.now_ms);
        self.consumer.get_or_insert_with(|| {
            let (consumer, notice) = group.consumer_seen(tx, name, now_ms);
            self.told = notice;
            Consumer {
                active_ms: now_ms,
                ..consumer
            }
        })
    }

    fn finish(&self, keys: &mut Keyspace<'_, '_>, reply: &mut Reply<'_>, mark: usize) {
        if let Some(consumer) = &self.consumer {
            self.group.write_consumer(keys.tx, consumer);
        }
        if let Some(notice) = self.told {
            keys.changes.note(keys.db, self.name, notice);
        }
        reply.array_since(mark, self.claimed);
    }
}

/// Pending entries that XAUTOCLAIM looks at for each that it may take.
const LOOKS_PER_ENTRY: u64 = 10;
const COUNT_MAX: i64 = i64::MAX / 16;

pub fn xautoclaim(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let idle_ms_min = idle_ms(&arguments[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM")?;
    let start = id::range_start(&arguments[5])?;
    let (count, just_ids) = autoclaim_options(arguments.tail(6))?;
    let (stream, group) = super::lookup::find_stream_and_group(context, &arguments[1], &arguments[2])?;
    let now_ms = context.now_ms;
    let claim = Claim {
        name: &arguments[1],
        stream,
        group,
        consumer_name: arguments.get(3).unwrap_or_default(),
        consumer: None,
        told: None,
        idle_ms_min,
        delivered_ms: now_ms,
        deliveries: None,
        just_ids,
        now_ms,
        claimed: 0,
    };
    autoclaim(context, claim, start, count);
    Ok(())
}

fn autoclaim_options(arguments: Arguments<'_>) -> Result<(u64, bool), ErrorReply> {
    let (mut count, mut just_ids) = (100, false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if parse::is(word, "count") && words.len() > 0 {
            let given = parse::integer(words.next().unwrap_or_default());
            count = given
                .filter(|count| (1..=COUNT_MAX).contains(count))
                .ok_or("ERR COUNT must be > 0")? as u64;
        } else if parse::is(word, "justid") {
            just_ids = true;
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    Ok((count, just_ids))
}

/// Replies the next cursor, the claimed entries, and the pending entries that were deleted from the
/// stream.
fn autoclaim(context: &mut Context<'_, '_>, mut claim: Claim<'_>, start: StreamId, count: u64) {
    let (mut keys, reply) = context.keys_and_reply();
    let (mut looks_left, mut count_left) = (count * LOOKS_PER_ENTRY, count);
    let (mut next, mut deleted) = (StreamId::ZERO, Vec::new());
    let mark = reply.mark();
    let group = claim.group.clone();
    group.each_pending(keys.tx, None, start..=StreamId::MAX, &mut |tx, id, pending| {
        if looks_left == 0 || count_left == 0 {
            next = id;
            return ControlFlow::Break(());
        }
        looks_left -= 1;
        let before = claim.claimed;
        if !claim.take(tx, reply, id, Some(pending), false) {
            deleted.push(id);
        }
        count_left -= u64::from(claim.claimed > before) + u64::from(deleted.last() == Some(&id));
        ControlFlow::Continue(())
    });
    claim.finish(&mut keys, reply, mark);
    let end = reply.mark();
    write_id(reply, next);
    reply.move_before(mark, end);
    reply.array(deleted.len());
    deleted.iter().for_each(|id| write_id(reply, *id));
    reply.array_since(mark, 3);
}
