//! Commands that read from several streams, and wait for entries: XREAD, XREADGROUP.
//!
//! XREAD returns the entries after the last ID that its client has seen. XREADGROUP returns, for
//! `>`, undelivered entries of its group, which are pending for the consumer from then on; for any
//! other ID, entries already pending for the consumer.
//!
//! A waiting command is executed again for the one stream that changed. `$` and `+` mean the end at
//! the arrival of the command, so they are replaced by IDs before it waits. A client that waits
//! with a group gets an error when its stream or group is removed, or when the key gets another
//! kind, as since Redis 7.2: the errors are those of a new command. With CLAIM the command is also
//! executed again at the time when the longest pending entry becomes claimable.

use std::cell::Cell;
use std::ops::ControlFlow;

use quartet_wire_resp::{Arguments, Protocol, encode_command};

use super::groups::{Consumer, Group, Pending};
use super::id::{self, ALL_IDS, StreamId};
use super::range::{read, write_range};
use super::stream::{Stream, write_entry, write_entry_delivered, write_id};
use crate::command::error_reply::ErrorReply;
use crate::connections::blocking::{Block, EmptyReply};
use crate::handler::context::Context;
use crate::handler::outcome::Outcome;
use crate::{command::errors, command::parse};

const UNBALANCED: &str = "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.";
const NEEDS_GROUP: &str =
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.";
const GROUP_OPTION: &str = "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.";
const NOACK_OPTION: &str = "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.";

/// A command's arguments, read as far as that needs no key.
struct Request<'a> {
    /// Group and consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    /// `None`: all.
    count: Option<u64>,
    /// `None`: do not wait. `Some(None)`: indefinitely.
    wait: Option<Option<u64>>,
    no_ack: bool,
    /// CLAIM: entries that have been pending for at least this long are first.
    claim_idle_ms_min: Option<u64>,
    /// The time at which the first entry becomes claimable that was not so when it was examined.
    claimable_ms: Cell<Option<u64>>,
    names: Vec<&'a [u8]>,
    ids: Vec<&'a [u8]>,
}

/// The position from which a stream is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// Behind this ID.
    Behind(StreamId),
    /// Entries that the group was not given yet.
    New,
}

/// Positions of the keys of XREAD and XREADGROUP.
pub fn key_positions(arguments: Arguments<'_>) -> Vec<usize> {
    let mut position = 1;
    while let Some(word) = arguments.get(position) {
        position += match word {
            word if parse::is(word, "streams") => break,
            word if parse::is(word, "noack") => 1,
            word if parse::is(word, "block") || parse::is(word, "count") || parse::is(word, "claim") => 2,
            word if parse::is(word, "group") => 3,
            _ => return Vec::new(),
        };
    }
    let following = arguments.len().saturating_sub(position + 1);
    if following % 2 == 1 {
        return Vec::new();
    }
    (position + 1..position + 1 + following / 2).collect()
}

pub fn xread(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let request = Request::parse(arguments, false, context)?;
    answer(context, arguments, &request)
}

pub fn xreadgroup(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let request = Request::parse(arguments, true, context)?;
    if request.group.is_none() {
        return Err("ERR Missing GROUP option for XREADGROUP".into());
    }
    answer(context, arguments, &request)
}

impl<'a> Request<'a> {
    fn parse(arguments: Arguments<'a>, with_group: bool, context: &Context<'_, '_>) -> Result<Request<'a>, ErrorReply> {
        let mut request = Request {
            group: None,
            count: None,
            wait: None,
            no_ack: false,
            claim_idle_ms_min: None,
            claimable_ms: Cell::new(None),
            names: Vec::new(),
            ids: Vec::new(),
        };
        let mut words = arguments.iter().skip(1);
        while let Some(word) = words.next() {
            let remaining = words.len();
            if parse::is(word, "streams") && remaining > 0 {
                return request.read_streams(words.collect());
            } else if parse::is(word, "block") && remaining > 0 {
                request.wait = Some(deadline(words.next().unwrap_or_default(), context.now_ms)?);
            } else if parse::is(word, "count") && remaining > 0 {
                let count = parse::required_integer(words.next().unwrap_or_default())?;
                request.count = u64::try_from(count).ok().filter(|&count| count > 0);
            } else if parse::is(word, "group") && remaining > 1 {
                let consumer = words.next().zip(words.next());
                request.group = Some(consumer.filter(|_| with_group).ok_or(GROUP_OPTION)?);
            } else if parse::is(word, "claim") && remaining > 0 && with_group {
                let idle_ms = parse::integer(words.next().unwrap_or_default());
                let idle_ms = idle_ms.ok_or("ERR min-idle-time is not an integer or out of range")?;
                let idle_ms = u64::try_from(idle_ms).map_err(|_| "ERR min-idle-time must be a positive integer")?;
                request.claim_idle_ms_min = Some(idle_ms);
            } else if parse::is(word, "noack") {
                request.no_ack = Some(true).filter(|_| with_group).ok_or(NOACK_OPTION)?;
            } else {
                break;
            }
        }
        Err(errors::SYNTAX.into())
    }

    fn read_streams(mut self, mut words: Vec<&'a [u8]>) -> Result<Request<'a>, ErrorReply> {
        if words.len() % 2 == 1 {
            return Err(UNBALANCED.into());
        }
        self.ids = words.split_off(words.len() / 2);
        self.names = words;
        Ok(self)
    }
}

/// BLOCK's milliseconds, as a deadline. `None`: wait indefinitely.
fn deadline(text: &[u8], now_ms: u64) -> Result<Option<u64>, ErrorReply> {
    let timeout = parse::integer(text).ok_or("ERR timeout is not an integer or out of range")?;
    let timeout = u64::try_from(timeout).map_err(|_| errors::TIMEOUT_NEGATIVE)?;
    if timeout == 0 {
        return Ok(None);
    }
    let deadline = now_ms
        .checked_add(timeout)
        .filter(|&deadline| i64::try_from(deadline).is_ok());
    deadline.map(Some).ok_or(errors::TIMEOUT_OUT_OF_RANGE.into())
}

fn answer(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    request: &Request<'_>,
) -> Result<Outcome, ErrorReply> {
    if let Some(changed) = context.retry_for {
        return answer_again(context, arguments, request, changed);
    }
    let mut starts = Vec::with_capacity(request.names.len());
    for (name, word) in request.names.iter().zip(&request.ids) {
        let stream = read(context, name)?;
        starts.push(start(context, request, name, stream.as_ref(), word)?);
    }
    let (mark, mut served) = (context.reply.mark(), 0);
    for (name, from) in request.names.iter().zip(&starts) {
        if context.reply.is_full() {
            break;
        }
        served += usize::from(serve(context, request, name, *from, request.count)?);
    }
    if served > 0 {
        close(context, mark, served);
        return Ok(Outcome::Done);
    }
    match request.wait {
        Some(deadline_ms) => Ok(wait(arguments, request, &starts, deadline_ms)),
        None => {
            context.reply.null_array();
            Ok(Outcome::Done)
        }
    }
}

/// Checks a stream's ID and determines the position to read from. `stream` is `None` if the key is
/// absent.
fn start(
    context: &mut Context<'_, '_>,
    request: &Request<'_>,
    name: &[u8],
    stream: Option<&Stream>,
    word: &[u8],
) -> Result<From, ErrorReply> {
    if let Some((group, _)) = request.group {
        let group_row = stream.and_then(|stream| stream.group(context.tx, group));
        group_row.ok_or_else(|| no_group(name, group))?;
        return start_of_group(word);
    }
    match word {
        b"$" => Ok(From::Behind(stream.map_or(StreamId::ZERO, |stream| stream.last))),
        b"+" => Ok(From::Behind(stream.map_or(StreamId::ZERO, |stream| {
            let latest = stream.latest(context.tx);
            latest.and_then(StreamId::previous).unwrap_or(stream.last)
        }))),
        b">" => Err(NEEDS_GROUP.into()),
        word => id::exact(word, 0).map(From::Behind),
    }
}

fn start_of_group(word: &[u8]) -> Result<From, ErrorReply> {
    match word {
        b"$" | b"+" => Err(format!(
            "ERR The {0} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer \
             by specifying a proper ID, or use the > ID to get new messages. The {0} ID would just return an empty \
             result set.",
            char::from(word[0])
        )
        .into()),
        b">" => Ok(From::New),
        word => match id::exact(word, 0)? {
            StreamId::MAX => Ok(From::New),
            id => Ok(From::Behind(id)),
        },
    }
}

fn no_group(name: &[u8], group: &[u8]) -> ErrorReply {
    format!(
        "NOGROUP No such key '{}' or consumer group '{}' in XREADGROUP with GROUP option",
        String::from_utf8_lossy(name),
        String::from_utf8_lossy(group)
    )
    .into()
}

/// Registers to be called again when one of the streams changes.
fn wait(arguments: Arguments<'_>, request: &Request<'_>, starts: &[From], deadline_ms: Option<u64>) -> Outcome {
    let is_end = |word: &&[u8]| matches!(*word, b"$" | b"+");
    let mut words: Vec<Vec<u8>> = Vec::new();
    if request.ids.iter().any(is_end) {
        words = arguments.iter().map(<[u8]>::to_vec).collect();
        let first = words.len() - starts.len();
        for (word, from) in words[first..].iter_mut().zip(starts) {
            if let From::Behind(id) = from {
                *word = id.text().as_bytes().to_vec();
            }
        }
    }
    let as_request = |words: Vec<Vec<u8>>| {
        let mut bytes = Vec::new();
        encode_command(&words, &mut bytes);
        bytes
    };
    Outcome::Wait(Box::new(Block {
        keys: request.names.iter().map(|name| name.to_vec()).collect(),
        deadline_ms,
        in_exec: EmptyReply::NullArray,
        ask_again: Some(words).filter(|words| !words.is_empty()).map(as_request),
        even_if_gone: request.group.is_some(),
        even_below: request.claim_idle_ms_min.is_some(),
        again_at_ms: request.claimable_ms.get(),
    }))
}

/// Serves a waiting command from the changed stream, or reports the end of its wait.
fn answer_again(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    request: &Request<'_>,
    changed: &[u8],
) -> Result<Outcome, ErrorReply> {
    let place = request.names.iter().position(|name| *name == changed);
    let place = place.expect("a command waits for its own keys");
    let from = match (request.group, read(context, changed)) {
        (None, stream_and_group) => {
            stream_and_group?;
            From::Behind(id::exact(request.ids[place], 0)?)
        }
        (Some((group, _)), Ok(Some(stream))) => {
            stream
                .group(context.tx, group)
                .ok_or_else(|| no_group(changed, group))?;
            From::New
        }
        (Some((group, _)), stream_and_group) => {
            stream_and_group?;
            return Err(no_group(changed, group));
        }
    };
    let mark = context.reply.mark();
    if serve(context, request, changed, from, request.count)? {
        close(context, mark, 1);
        return Ok(Outcome::Done);
    }
    Ok(wait(arguments, request, &[], None))
}

/// Streams by name: an array of pairs, in RESP3 a map.
fn close(context: &mut Context<'_, '_>, mark: usize, served: usize) {
    match context.reply.protocol() {
        Protocol::Resp2 => context.reply.array_since(mark, served),
        Protocol::Resp3 => context.reply.map_since(mark, served),
    }
}

/// Writes a stream's name and entries; nothing, and returns false, if there are none. Entries that
/// a consumer was given before are written even if there are none.
fn serve(
    context: &mut Context<'_, '_>,
    request: &Request<'_>,
    name: &[u8],
    from: From,
    count: Option<u64>,
) -> Result<bool, ErrorReply> {
    let Some(stream) = Stream::find(&mut context.keys(), name)? else {
        return Ok(false);
    };
    let mark = context.reply.mark();
    if context.reply.protocol() == Protocol::Resp2 {
        context.reply.array(2);
    }
    context.reply.bulk(name);
    let is_served = match (request.group, from) {
        (None, From::New) => unreachable!("only a group has new entries"),
        (None, From::Behind(id)) => write_behind(context, &stream, id, count) > 0,
        (Some((group, consumer)), From::New) => {
            let group = stream.group(context.tx, group).ok_or_else(|| no_group(name, group))?;
            deliver(context, name, &stream, group, consumer, count, request) > 0
        }
        (Some((group, consumer)), From::Behind(id)) => {
            let group = stream.group(context.tx, group).ok_or_else(|| no_group(name, group))?;
            write_history(context, name, &stream, group, consumer, id, count);
            true
        }
    };
    if !is_served {
        context.reply.take_back(mark);
    }
    Ok(is_served)
}

fn write_behind(context: &mut Context<'_, '_>, stream: &Stream, id: StreamId, count: Option<u64>) -> usize {
    let Some(start) = id.next().filter(|start| *start <= stream.last) else {
        return 0;
    };
    let (keys, reply) = context.keys_and_reply();
    write_range(keys.tx, reply, stream, start..=StreamId::MAX, count, false)
}

/// Delivers the group's next entries to a consumer, which the request creates, even if there are
/// none.
fn deliver(
    context: &mut Context<'_, '_>,
    name: &[u8],
    stream: &Stream,
    mut group: Group,
    consumer: &[u8],
    count: Option<u64>,
    request: &Request<'_>,
) -> usize {
    let now_ms = context.now_ms;
    let mut consumer = consumer_seen(context, name, &mut group, consumer);
    let mark = context.reply.mark();
    let claimed = match request.claim_idle_ms_min {
        Some(idle_ms_min) => claim(
            context,
            stream,
            &group,
            &consumer,
            idle_ms_min,
            count,
            &request.claimable_ms,
        ),
        None => 0,
    };
    let remaining = count.map(|count| count.saturating_sub(claimed as u64));
    let start = group
        .last
        .next()
        .filter(|start| *start <= stream.last && remaining != Some(0));
    let ids = match start {
        Some(start) => write_new(context, stream, start, remaining, request.claim_idle_ms_min.is_some()),
        None => Vec::new(),
    };
    let delivered = claimed + ids.len();
    if delivered == 0 {
        group.write_consumer(context.tx, &consumer);
        return 0;
    }
    context.reply.array_since(mark, delivered);
    consumer.active_ms = now_ms;
    let pending = Pending {
        owner: consumer.number,
        delivered_ms: now_ms,
        deliveries: 1,
    };
    for &id in &ids {
        stream.deliver(&mut group, id);
        if !request.no_ack {
            group.assign(context.tx, id, pending);
        }
    }
    group.write(context.tx);
    group.write_consumer(context.tx, &consumer);
    context.changed_below(name);
    delivered
}

/// Writes up to `count` entries that have been pending for long enough, of any consumer, and
/// assigns them to this consumer; `claimable_ms` is the time when the first of the others can be
/// claimed. Each entry has its pending time and its count of deliveries. Entries deleted from the
/// stream are skipped.
fn claim(
    context: &mut Context<'_, '_>,
    stream: &Stream,
    group: &Group,
    consumer: &Consumer,
    idle_ms_min: u64,
    count: Option<u64>,
    claimable_ms: &Cell<Option<u64>>,
) -> usize {
    let now_ms = context.now_ms;
    let (keys, reply) = context.keys_and_reply();
    let mut idle: Vec<(StreamId, Pending)> = Vec::new();
    group.each_pending(keys.tx, None, ALL_IDS, &mut |tx, id, pending| {
        let at_ms = pending.delivered_ms.saturating_add(idle_ms_min);
        let is_idle = pending.idle_ms(now_ms) >= idle_ms_min;
        let is_next = || claimable_ms.get().is_none_or(|known_ms| at_ms < known_ms);
        if !(is_idle || is_next()) || stream.fields(tx, id).is_none() {
            return ControlFlow::Continue(());
        }
        if !is_idle {
            claimable_ms.set(Some(at_ms));
            return ControlFlow::Continue(());
        }
        idle.push((id, pending));
        match Some(idle.len() as u64) == count {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    for (id, pending) in &idle {
        let fields = stream.fields(keys.tx, *id).expect("an entry that was just there");
        write_entry_delivered(reply, *id, &fields, pending.idle_ms(now_ms), pending.deliveries);
        let again = Pending {
            owner: consumer.number,
            delivered_ms: now_ms,
            deliveries: pending.deliveries.wrapping_add(1),
        };
        group.assign(keys.tx, *id, again);
    }
    idle.len()
}

fn consumer_seen(context: &mut Context<'_, '_>, stream_name: &[u8], group: &mut Group, name: &[u8]) -> Consumer {
    let (consumer, notice) = group.consumer_seen(context.tx, name, context.now_ms);
    if let Some(notice) = notice {
        context.changes().note(context.client.db, stream_name, notice);
    }
    consumer
}

/// Writes the entries from `start` on, and returns their IDs.
fn write_new(
    context: &mut Context<'_, '_>,
    stream: &Stream,
    start: StreamId,
    count: Option<u64>,
    tells_delivery: bool,
) -> Vec<StreamId> {
    let (keys, reply) = context.keys_and_reply();
    let mut ids = Vec::new();
    stream.scan(keys.tx, start..=StreamId::MAX, false, &mut |id, fields| {
        if tells_delivery {
            write_entry_delivered(reply, id, fields, 0, 0);
        } else {
            write_entry(reply, id, fields);
        }
        ids.push(id);
        if Some(ids.len() as u64) == count {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    ids
}

/// Replies the entries pending for the consumer after an ID, which counts as one more delivery. A
/// deleted entry shows only its ID.
fn write_history(
    context: &mut Context<'_, '_>,
    name: &[u8],
    stream: &Stream,
    mut group: Group,
    consumer: &[u8],
    id: StreamId,
    count: Option<u64>,
) {
    let now_ms = context.now_ms;
    let consumer = consumer_seen(context, name, &mut group, consumer);
    group.write_consumer(context.tx, &consumer);
    let (keys, reply) = context.keys_and_reply();
    let (mark, mut written) = (reply.mark(), 0);
    let range = id.next().unwrap_or(StreamId::MAX)..=StreamId::MAX;
    group.each_pending(keys.tx, Some(consumer.number), range, &mut |tx, id, pending| {
        match stream.fields(tx, id) {
            Some(fields) => {
                write_entry(reply, id, &fields);
                let again = Pending {
                    delivered_ms: now_ms,
                    deliveries: pending.deliveries.wrapping_add(1),
                    ..pending
                };
                group.assign(tx, id, again);
            }
            None => {
                reply.array(2);
                write_id(reply, id);
                reply.null_array();
            }
        }
        written += 1;
        if Some(written as u64) == count {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    reply.array_since(mark, written);
}
