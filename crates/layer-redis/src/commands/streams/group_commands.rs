//! XGROUP: makes, moves and removes consumer groups and consumers.

use quartet_wire_resp::Arguments;

use super::groups::Group;
use super::id::{self, StreamId};
use super::stream::Stream;
use crate::command::error_reply::ErrorReply;
use crate::command::parse;
use crate::handler::context::Context;
use crate::keyspace::Keyspace;
use crate::keyspace::changes::What;

const NO_KEY: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the \
                      MKSTREAM option to create an empty stream automatically.";

/// The options after the ID of CREATE and SETID.
struct Options {
    make_stream: bool,
    entries_read: Option<u64>,
}

impl Options {
    /// At most as many entries as the stream has ever had, as since Redis 8.2.2.
    fn entries_read_of(&self, stream: &Stream) -> Option<u64> {
        self.entries_read.map(|read| read.min(stream.entries_added))
    }
}

fn options(arguments: Arguments<'_>, creates: bool) -> Result<Options, ErrorReply> {
    let (mut make_stream, mut entries_read) = (false, None);
    let mut words = arguments.tail(5).iter();
    while let Some(word) = words.next() {
        if creates && parse::is(word, "mkstream") {
            make_stream = true;
        } else if parse::is(word, "entriesread") && words.len() > 0 {
            entries_read = read_counter(words.next().unwrap_or_default())?;
        } else {
            return Err(super::lookup::bad_subcommand("XGROUP", &arguments[1]));
        }
    }
    Ok(Options {
        make_stream,
        entries_read,
    })
}

/// The number of entries that the group has read; -1 means unknown.
fn read_counter(word: &[u8]) -> Result<Option<u64>, ErrorReply> {
    match parse::required_integer(word)? {
        -1 => Ok(None),
        number => u64::try_from(number)
            .map(Some)
            .map_err(|_| "ERR value for ENTRIESREAD must be positive or -1".into()),
    }
}

/// `$` is the stream's last ID.
fn start(word: &[u8], stream: Option<&Stream>) -> Result<StreamId, ErrorReply> {
    match word {
        b"$" => Ok(stream.map_or(StreamId::ZERO, |stream| stream.last)),
        word => id::exact(word, 0),
    }
}

pub fn create(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (name, group_name) = (&arguments[2], &arguments[3]);
    let options = options(arguments, true)?;
    let mut keys = context.keys();
    let existing = Stream::find(&mut keys, name)?;
    if existing.is_none() && !options.make_stream {
        return Err(NO_KEY.into());
    }
    let last = start(&arguments[4], existing.as_ref())?;
    let mut stream = match existing {
        Some(stream) => stream,
        None => Stream::new(&mut keys),
    };
    if stream.group(keys.tx, group_name).is_some() {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    let entries_read = options.entries_read_of(&stream);
    stream.new_group(group_name, last, entries_read).write(keys.tx);
    stream.write(&mut keys, name);
    context.reply.ok();
    Ok(())
}

/// The stream and its group; an error if either is missing.
fn find(keys: &mut Keyspace<'_, '_>, arguments: Arguments<'_>) -> Result<(Stream, Group), ErrorReply> {
    let stream = Stream::find(keys, &arguments[2])?.ok_or(NO_KEY)?;
    let group = stream.group(keys.tx, &arguments[3]);
    let group = group.ok_or_else(|| super::lookup::no_group_of_key(&arguments[2], &arguments[3]))?;
    Ok((stream, group))
}

pub fn set_id(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let options = options(arguments, false)?;
    let mut keys = context.keys();
    let (stream, mut group) = find(&mut keys, arguments)?;
    group.last = match &arguments[4] {
        b"$" => stream.last,
        word => id::exact_or_end(word, 0)?,
    };
    group.entries_read = options.entries_read_of(&stream);
    group.write(keys.tx);
    keys.changes.note(keys.db, &arguments[2], What::GroupMoved);
    context.reply.ok();
    Ok(())
}

pub fn destroy(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mut keys = context.keys();
    let stream = Stream::find(&mut keys, &arguments[2])?.ok_or(NO_KEY)?;
    let found = stream.group(keys.tx, &arguments[3]);
    if let Some(group) = &found {
        group.remove(keys.tx);
        // Clients that wait with the group are notified of its removal.
        keys.touch(&arguments[2]);
    }
    context.reply.integer(i64::from(found.is_some()));
    Ok(())
}

pub fn create_consumer(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let now_ms = context.now_ms;
    let mut keys = context.keys();
    let (_, mut group) = find(&mut keys, arguments)?;
    let is_new = group.consumer(keys.tx, &arguments[4]).is_none();
    if is_new {
        let consumer = group.add_consumer(keys.tx, &arguments[4], now_ms);
        group.write_consumer(keys.tx, &consumer);
        keys.changes.note(keys.db, &arguments[2], What::ConsumerAdded);
    }
    context.reply.integer(i64::from(is_new));
    Ok(())
}

pub fn delete_consumer(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let groups = context.groups;
    let mut keys = context.keys();
    let (_, group) = find(&mut keys, arguments)?;
    let mut removed = 0;
    if let Some(consumer) = group.consumer(keys.tx, &arguments[4]) {
        if groups.must_end_before(group.pending_count(keys.tx, Some(consumer.number))) {
            return Ok(());
        }
        removed = group.remove_consumer(keys.tx, &consumer);
        keys.changes.note(keys.db, &arguments[2], What::ConsumerRemoved);
    }
    context.reply.integer(removed as i64);
    Ok(())
}
