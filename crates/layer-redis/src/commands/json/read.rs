//! Commands that read documents.

use std::cell::Cell;

use quartet_engine::Transaction;
use quartet_wire_resp::{Arguments, Protocol, Reply};

use super::answers::{Answer, NO_DOCUMENT, answer_each, no_path, path_at, read_document, values_read, write_answers};
use super::document::{Json, Layout, write_container, write_name};
use super::path::Path;
use super::rows::{self, Shape, Stored};
use super::text::Text;
use crate::command::error_reply::ErrorReply;
use crate::command::repetition::Repetition;
use crate::handler::context::Context;
use crate::keyspace::{Entry, Kind};
use crate::{command::errors, command::parse};

/// JSON.GET key [INDENT text] [NEWLINE text] [SPACE text] [NOESCAPE] [path ...]
pub fn get(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mut layout = Layout::default();
    let mut paths = Vec::new();
    let mut words = arguments.iter().skip(2);
    while let Some(word) = words.next() {
        let place = match word {
            word if parse::is(word, "indent") => &mut layout.indent,
            word if parse::is(word, "newline") => &mut layout.newline,
            word if parse::is(word, "space") => &mut layout.space,
            word if parse::is(word, "noescape") => continue,
            path => {
                paths.push((path, Path::parse(path)?));
                continue;
            }
        };
        *place = words.next().ok_or(errors::SYNTAX)?;
    }
    let Some(document) = read_document(context, &arguments[1])? else {
        context.reply.null();
        return Ok(());
    };
    let groups = context.groups;
    let mut text = Text::of_reply(groups);
    match paths.as_slice() {
        [] => document.write_whole(context.tx, &layout, 0, &mut text),
        [(_, path)] => write_selected(context.tx, &document, path, path.is_legacy, &layout, 0, &mut text)?,
        paths => write_object_of(context.tx, &document, paths, &layout, &mut text)?,
    }
    context.reply.bulk(text.whole().ok_or_else(|| groups.reply_is_full())?);
    Ok(())
}

/// The one value of a path of the older kind, or an array of a JSONPath's values.
fn write_selected(
    tx: &mut Transaction<'_>,
    document: &Stored<'_>,
    path: &Path,
    is_single: bool,
    layout: &Layout<'_>,
    depth: usize,
    out: &mut Text<'_>,
) -> Result<(), ErrorReply> {
    if path.is_root() {
        match is_single {
            true => document.write_whole(tx, layout, depth, out),
            false => write_container(b"[]", [()], layout, depth, out, |(), out| {
                document.write_whole(tx, layout, depth + 1, out);
            }),
        }
        return Ok(());
    }
    let matches = document.select(tx, path)?;
    let mut values = matches.values();
    if is_single {
        let value = values.next().ok_or_else(|| no_path(path))?;
        value.write_with(layout, depth, out);
    } else {
        write_container(b"[]", values, layout, depth, out, |value, out| {
            value.write_with(layout, depth + 1, out);
        });
    }
    Ok(())
}

/// An object with a member for each path. If any path is a JSONPath, each member is an array.
fn write_object_of(
    tx: &mut Transaction<'_>,
    document: &Stored<'_>,
    paths: &[(&[u8], Path)],
    layout: &Layout<'_>,
    out: &mut Text<'_>,
) -> Result<(), ErrorReply> {
    let are_single = paths.iter().all(|(_, path)| path.is_legacy);
    let mut outcome = Ok(());
    write_container(b"{}", paths, layout, 0, out, |(path_text, path), out| {
        write_name(&String::from_utf8_lossy(path_text), layout, out);
        let written = write_selected(tx, document, path, are_single, layout, 1, out);
        outcome = std::mem::replace(&mut outcome, Ok(())).and(written);
    });
    outcome
}

/// JSON.MGET key [key ...] path: null for what is no document, or has no such path.
pub fn mget(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let last = arguments.len() - 1;
    let path = Path::parse(&arguments[last])?;
    let mut repetition = Repetition::default();
    context.reply.array(last - 1);
    for name in arguments.iter().take(last).skip(1) {
        let entry = context.read(name).filter(|entry| entry.kind == Kind::Json);
        repetition.add(name, entry.as_ref().map_or(0, rows::text_bytes))?;
        match entry {
            Some(entry) => write_text_of(context, entry, &path)?,
            None => context.reply.null(),
        }
    }
    Ok(())
}

fn write_text_of(context: &mut Context<'_, '_>, entry: Entry, path: &Path) -> Result<(), ErrorReply> {
    let groups = context.groups;
    let document = Stored::of(entry, groups.workspace());
    let mut text = Text::of_reply(groups);
    let layout = Layout::default();
    let written = write_selected(context.tx, &document, path, path.is_legacy, &layout, 0, &mut text);
    match written {
        Ok(()) => context.reply.bulk(text.whole().ok_or_else(|| groups.reply_is_full())?),
        Err(error) if *error.text == *errors::REPLY_OUT_OF_MEMORY => return Err(error),
        Err(_) => context.reply.null(),
    }
    Ok(())
}

pub fn kind(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = path_at(arguments, 2)?;
    let document = read_document(context, &arguments[1])?;
    // RESP3 adds an array around the reply, in every case, as RedisJSON 2.6 does.
    if context.reply.protocol() == Protocol::Resp3 {
        context.reply.array(1);
    }
    let Some(document) = document else {
        context.reply.null();
        return Ok(());
    };
    let shapes = document.shapes(context.tx, &path)?;
    match (path.is_legacy, shapes.first()) {
        (true, Some(shape)) => context.reply.bulk(shape.kind().as_bytes()),
        (true, None) => context.reply.null(),
        (false, _) => {
            context.reply.array(shapes.len());
            shapes
                .iter()
                .for_each(|shape| context.reply.bulk(shape.kind().as_bytes()));
        }
    }
    Ok(())
}

/// Replies the length of each value at the path. For an absent key and a legacy path the reply is
/// null.
fn length(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    expected: &str,
    length: fn(Shape) -> Option<usize>,
) -> Result<(), ErrorReply> {
    let path = path_at(arguments, 2)?;
    match read_document(context, &arguments[1])? {
        Some(document) => {
            let shapes = document.shapes(context.tx, &path)?.into_iter();
            let shapes = shapes.take(values_read(&path));
            let answers: Vec<_> = shapes.map(|shape| length(shape).and_then(Answer::of_length)).collect();
            write_answers(context, &path, expected, &answers)
        }
        None if path.is_legacy => {
            context.reply.null();
            Ok(())
        }
        None => Err(NO_DOCUMENT.into()),
    }
}

pub fn string_length(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    length(context, arguments, "not a string", |shape| match shape {
        Shape::Text(length) => Some(length),
        _ => None,
    })
}

pub fn array_length(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    length(context, arguments, "not an array", |shape| match shape {
        Shape::Array(length) => Some(length),
        _ => None,
    })
}

/// As the others; but an object that is not there has no length, and is no error.
pub fn object_length(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if means_nothing(context, arguments)? {
        context.reply.null();
        return Ok(());
    }
    length(context, arguments, "not an object", |shape| match shape {
        Shape::Object(length) => Some(length),
        _ => None,
    })
}

/// Returns true for a legacy path without a match in an existing document.
fn means_nothing(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<bool, ErrorReply> {
    let path = path_at(arguments, 2)?;
    let entry = context.keys().find_kind(&arguments[1], Kind::Json)?;
    match entry.filter(|_| path.is_legacy) {
        Some(entry) => {
            let document = Stored::of(entry, context.groups.workspace());
            Ok(document.shapes(context.tx, &path)?.is_empty())
        }
        None => Ok(false),
    }
}

pub fn object_keys(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = path_at(arguments, 2)?;
    let Some(document) = read_document(context, &arguments[1])? else {
        if !path.is_legacy {
            return Err(NO_DOCUMENT.into());
        }
        context.reply.null_array();
        return Ok(());
    };
    let matches = document.select(context.tx, &path)?;
    if !path.is_legacy {
        context.reply.array(matches.len());
        let reply = &mut context.reply;
        write_until_full(reply, matches.values(), write_names);
        return Ok(());
    }
    match matches.values().next() {
        None => context.reply.null_array(),
        Some(value @ Json::Object(_)) => write_names(value, &mut context.reply),
        Some(value) => {
            let kind = value.kind();
            return Err(format!("WRONGTYPE wrong type of path value - expected object but found {kind}").into());
        }
    }
    Ok(())
}

fn write_names(value: &Json, reply: &mut Reply<'_>) {
    match value {
        Json::Object(members) => {
            reply.array(members.len());
            members.iter().for_each(|(name, _)| reply.bulk(name.as_bytes()));
        }
        _ => reply.null_array(),
    }
}

pub fn resp(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = path_at(arguments, 2)?;
    let Some(document) = read_document(context, &arguments[1])? else {
        context.reply.null();
        return Ok(());
    };
    let matches = document.select(context.tx, &path)?;
    if path.is_legacy {
        let value = matches.values().next().ok_or_else(|| no_path(&path))?;
        write_as_reply(value, &mut context.reply);
        return Ok(());
    }
    context.reply.array(matches.len());
    write_until_full(&mut context.reply, matches.values(), write_as_reply);
    Ok(())
}

/// Values that contain each other are written again and again: no more than the reply has room for.
fn write_until_full<'j>(
    reply: &mut Reply<'_>,
    values: impl Iterator<Item = &'j Json>,
    write: fn(&Json, &mut Reply<'_>),
) {
    for value in values {
        if reply.is_full() {
            return;
        }
        write(value, reply);
    }
}

/// Containers are arrays with their bracket as first element.
fn write_as_reply(value: &Json, reply: &mut Reply<'_>) {
    match value {
        Json::Null => reply.null(),
        Json::Boolean(true) => reply.simple("true"),
        Json::Boolean(false) => reply.simple("false"),
        Json::Integer(number) => reply.integer(*number),
        Json::Double(number) if reply.protocol() == Protocol::Resp3 => reply.double(*number),
        Json::Double(_) => reply.bulk(&value.text()),
        Json::Text(text) => reply.bulk(text.as_bytes()),
        Json::Array(elements) => {
            reply.array(elements.len() + 1);
            reply.simple("[");
            elements.iter().for_each(|element| write_as_reply(element, reply));
        }
        Json::Object(members) => {
            reply.array(members.len() * 2 + 1);
            reply.simple("{");
            for (name, value) in members {
                reply.bulk(name.as_bytes());
                write_as_reply(value, reply);
            }
        }
    }
}

/// JSON.DEBUG MEMORY key [path]: the bytes of the values' texts, which is what they take.
pub fn memory(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = path_at(arguments, 3)?;
    match read_document(context, &arguments[2])? {
        Some(document) => {
            // Values may contain each other, and each is written to be measured.
            let groups = context.groups;
            let remaining = Cell::new(context.reply_bytes_max());
            answer_each(context, &document, &path, "is empty", |value| {
                let mut text = Text::of_reply(groups);
                value.write_with(&Layout::default(), 0, &mut text);
                let length = text.whole().map_or(usize::MAX, <[u8]>::len);
                remaining.set(remaining.get().saturating_sub(length));
                Answer::of_length(length)
            })?;
            match remaining.get() {
                0 => Err(groups.reply_is_full()),
                _ => Ok(()),
            }
        }
        None if path.is_legacy => {
            context.reply.integer(0);
            Ok(())
        }
        None => {
            context.reply.array(0);
            Ok(())
        }
    }
}
