//! Commands that change entries: XADD, XTRIM, XDEL, XSETID.

use std::sync::atomic::Ordering;

use quartet_wire_resp::Arguments;

use super::id::{self, NewId, StreamId};
use super::references::Policy;
use super::stream::{Keep, Stream, Trim, write_id};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::changes::What;
use crate::{command::errors, command::parse};

const NOT_ABOVE: &str = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
const EXHAUSTED: &str = "ERR The stream has exhausted the last possible ID, unable to add more items";
const ZERO_ID: &str = "ERR The ID specified in XADD must be greater than 0-0";

/// The words of XADD and XTRIM between the key and what follows them.
#[derive(Default)]
struct Options {
    keep: Option<Keep>,
    approximate: bool,
    limit: Option<u64>,
    no_stream: bool,
    policy: Option<Policy>,
    /// The number of words that were options.
    length: usize,
}

pub fn xadd(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let options = options(arguments.tail(2), true)?;
    let new_id = match arguments.get(2 + options.length) {
        Some(word) => id::new_id(word)?,
        None => return Err(wrong_number()),
    };
    let trim = options.trim(context)?;
    let words = arguments.tail(3 + options.length);
    if words.is_empty() || words.len() % 2 == 1 {
        return Err(wrong_number());
    }
    if new_id == NewId::Given(StreamId::ZERO) {
        return Err(ZERO_ID.into());
    }
    let (name, now_ms, config) = (&arguments[1], context.now_ms, context.config());
    let mut keys = context.keys();
    let mut stream = match Stream::find(&mut keys, name)? {
        Some(stream) => stream,
        None if options.no_stream => {
            context.reply.null();
            return Ok(());
        }
        None => Stream::new(&mut keys),
    };
    let id = choose_id(new_id, stream.last, now_ms)?;
    stream.append(keys.tx, config, id, words);
    let trimmed = trim.map_or(0, |trim| {
        stream.trim_by(keys.tx, &trim, options.policy.unwrap_or_default())
    });
    stream.write(&mut keys, name);
    if trimmed > 0 {
        keys.changes.note(keys.db, name, What::Trimmed);
    }
    write_id(&mut context.reply, id);
    Ok(())
}

fn wrong_number() -> ErrorReply {
    "ERR wrong number of arguments for 'xadd' command".into()
}

/// The ID of the new entry, which must be above `last`.
fn choose_id(new_id: NewId, last: StreamId, now_ms: u64) -> Result<StreamId, ErrorReply> {
    let next = last.next().ok_or(EXHAUSTED)?;
    match new_id {
        NewId::Auto => Ok(next.max(StreamId::new(now_ms, 0))),
        NewId::Millisecond(ms) if ms == last.ms() && next.ms() == ms => Ok(next),
        NewId::Millisecond(ms) if ms > last.ms() => Ok(StreamId::new(ms, 0)),
        NewId::Given(id) if id >= next => Ok(id),
        NewId::Millisecond(_) | NewId::Given(_) => Err(NOT_ABOVE.into()),
    }
}

/// Parses options up to the first other word: XADD's ID. XTRIM has only options.
fn options(words: Arguments<'_>, adds: bool) -> Result<Options, ErrorReply> {
    let mut options = Options::default();
    while let Some(word) = words.get(options.length) {
        let value = words.tail(options.length + 1);
        let has_value = !value.is_empty();
        let limits_length = parse::is(word, "maxlen");
        if has_value && (limits_length || parse::is(word, "minid")) {
            options.length += 1 + options.read_keep(limits_length, value)?;
        } else if has_value && parse::is(word, "limit") {
            let limit = parse::required_integer(&value[0])?;
            options.limit = Some(u64::try_from(limit).map_err(|_| "ERR The LIMIT argument must be >= 0.")?);
            options.length += 2;
        } else if let Some(policy) = Policy::of(word).filter(|_| options.policy.is_none()) {
            options.policy = Some(policy);
            options.length += 1;
        } else if adds && parse::is(word, "nomkstream") {
            options.no_stream = true;
            options.length += 1;
        } else if adds {
            break;
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    Ok(options)
}

impl Options {
    /// `[=|~] threshold`. Returns how many words that was.
    fn read_keep(&mut self, limits_length: bool, words: Arguments<'_>) -> Result<usize, ErrorReply> {
        if self.keep.is_some() {
            return Err("ERR syntax error, MAXLEN and MINID options at the same time are not compatible".into());
        }
        let has_sign = words.len() >= 2 && matches!(&words[0], b"~" | b"=");
        self.approximate = has_sign && &words[0] == b"~";
        let threshold = &words[usize::from(has_sign)];
        self.keep = Some(if limits_length {
            let length = parse::required_integer(threshold)?;
            Keep::Length(u64::try_from(length).map_err(|_| "ERR The MAXLEN argument must be >= 0.")?)
        } else {
            Keep::From(id::exact(threshold, 0)?)
        });
        Ok(1 + usize::from(has_sign))
    }

    /// Approximate trimming removes a hundred nodes at most unless LIMIT says more.
    fn trim(&self, context: &Context<'_, '_>) -> Result<Option<Trim>, ErrorReply> {
        let Some(keep) = self.keep else {
            if self.limit.is_some_and(|limit| limit > 0) {
                return Err("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy".into());
            }
            return Ok(None);
        };
        if self.limit.is_some() && !self.approximate {
            return Err("ERR syntax error, LIMIT cannot be used without the special ~ option".into());
        }
        let node_entries = context.config().stream_node_max_entries.load(Ordering::Relaxed);
        let usual = match node_entries.saturating_mul(100) {
            0 => 10_000,
            entries => entries.clamp(1, 1_000_000) as u64,
        };
        let limit = self.limit.unwrap_or(usual);
        Ok(Some(Trim {
            keep,
            approximate: self.approximate,
            limit: Some(limit).filter(|&limit| limit > 0),
        }))
    }
}

pub fn xtrim(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let options = options(arguments.tail(2), false)?;
    let trim = options.trim(context)?;
    let trim = trim.ok_or("ERR syntax error, XTRIM must be called with a trimming strategy")?;
    let mut keys = context.keys();
    let mut removed = 0;
    if let Some(mut stream) = Stream::find(&mut keys, &arguments[1])? {
        removed = stream.trim_by(keys.tx, &trim, options.policy.unwrap_or_default());
        if removed > 0 {
            stream.write(&mut keys, &arguments[1]);
        }
    }
    context.reply.integer(removed as i64);
    Ok(())
}

pub fn xdel(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mut keys = context.keys();
    let mut removed = 0;
    if let Some(mut stream) = Stream::find(&mut keys, &arguments[1])? {
        for id in super::id::all(arguments.tail(2))? {
            removed += i64::from(stream.delete(keys.tx, id));
        }
        if removed > 0 {
            stream.write(&mut keys, &arguments[1]);
        }
    }
    context.reply.integer(removed);
    Ok(())
}

pub fn xsetid(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let last = id::exact(&arguments[2], 0)?;
    let (added, max_deleted) = setid_options(arguments.tail(3), last)?;
    let mut keys = context.keys();
    let mut stream = Stream::find(&mut keys, &arguments[1])?.ok_or(errors::NO_SUCH_KEY)?;
    if stream.latest(keys.tx).is_some_and(|latest| last < latest) {
        return Err("ERR The ID specified in XSETID is smaller than the target stream top item".into());
    }
    if stream.length > 0 && added.is_some_and(|added| added < stream.length) {
        return Err("ERR The entries_added specified in XSETID is smaller than the target stream length".into());
    }
    stream.last = last;
    stream.entries_added = added.unwrap_or(stream.entries_added);
    if max_deleted != StreamId::ZERO {
        stream.max_deleted = max_deleted;
    }
    stream.write(&mut keys, &arguments[1]);
    context.reply.ok();
    Ok(())
}

fn setid_options(arguments: Arguments<'_>, last: StreamId) -> Result<(Option<u64>, StreamId), ErrorReply> {
    let (mut added, mut max_deleted) = (None, StreamId::ZERO);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or(errors::SYNTAX)?;
        if parse::is(word, "entriesadded") {
            let entries = parse::required_integer(value)?;
            added = Some(u64::try_from(entries).map_err(|_| "ERR entries_added must be positive")?);
        } else if parse::is(word, "maxdeletedid") {
            max_deleted = id::exact(value, 0)?;
            if last < max_deleted {
                return Err("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id".into());
            }
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    Ok((added, max_deleted))
}
