//! JSON documents: the commands JSON.*, as RedisJSON 2 has them.
//!
//! A short document is a key's payload as its shortest text; a long one is stored in pieces
//! (`rows`). A change of a number, or of another scalar, at a path to a single value reads and
//! writes only the pieces on the path. Every other command reads the whole document and, if it
//! changed something, writes the whole of it, so its cost is the document's size. Replies and
//! errors follow <https://redis.io/docs/latest/commands/json.set/> and the related pages, and the
//! expectations of the tests of redis-py and of `@upstash/redis`.
//!
//! A path of the older kind means one value, and its answer is that value's; a JSONPath means many,
//! and its answer is an array with null for those of a wrong kind.

mod arrays;
mod document;
mod path;
mod read;
mod rows;
mod scalars;
mod text;
mod write;

#[cfg(test)]
mod tests;

use quartet_wire_resp::{Arguments, Reply};
use rustc_hash::FxHashSet;

pub use self::document::Json;
use self::document::Location;
pub use self::path::Path;
use self::rows::Place;
pub use self::rows::{document, judge as verify_pieces, large_text_bytes, put, text, text_bytes};
use crate::commands::help::help_command;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::keyspace::{Entry, Header, Kind};

const READ: u32 = READONLY;
const CHANGE: u32 = WRITE | DENYOOM;
/// All arguments but the last.
const KEYS_AND_PATH: Keys = Keys::Range {
    first: 1,
    last: -2,
    step: 1,
};
/// Each key is followed by a path and a value.
const TRIPLES: Keys = Keys::Range {
    first: 1,
    last: -1,
    step: 3,
};
const SECOND_KEY: Keys = Keys::Range {
    first: 2,
    last: 2,
    step: 1,
};

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    row("json.set", -4, CHANGE, ONE_KEY, "Sets the values at a path, or makes a document.", write::set),
    row("json.get", -2, READ, ONE_KEY, "Returns the values at paths as JSON.", read::get),
    row("json.mget", -3, READ, KEYS_AND_PATH, "Returns the values at a path of several documents.", read::mget),
    row("json.mset", -4, CHANGE, TRIPLES, "Sets values at paths of several documents, all or none.", write::mset),
    row("json.merge", 4, CHANGE, ONE_KEY, "Merges a value into those at a path.", write::merge),
    row("json.del", -2, WRITE, ONE_KEY, "Removes the values at a path.", write::del),
    row("json.forget", -2, WRITE, ONE_KEY, "Removes the values at a path.", write::del),
    row("json.clear", -2, WRITE, ONE_KEY, "Empties containers and sets numbers to zero.", write::clear),
    row("json.type", -2, READ, ONE_KEY, "Names the kinds of the values at a path.", read::kind),
    row("json.resp", -2, READ, ONE_KEY, "Returns the values at a path as replies instead of text.", read::resp),
    row("json.objkeys", -2, READ, ONE_KEY, "Returns the names of objects' members.", read::object_keys),
    row("json.objlen", -2, READ, ONE_KEY, "Counts the members of objects.", read::object_length),
    row("json.strlen", -2, READ, ONE_KEY, "Returns the lengths of strings in bytes.", read::string_length),
    row("json.arrlen", -2, READ, ONE_KEY, "Counts the elements of arrays.", read::array_length),
    row("json.strappend", -3, CHANGE, ONE_KEY, "Appends to strings.", scalars::append),
    row("json.toggle", -2, CHANGE, ONE_KEY, "Turns booleans round.", scalars::toggle),
    row("json.numincrby", 4, CHANGE, ONE_KEY, "Adds to numbers.", scalars::increment),
    row("json.nummultby", 4, CHANGE, ONE_KEY, "Multiplies numbers.", scalars::multiply),
    row("json.arrappend", -4, CHANGE, ONE_KEY, "Appends elements to arrays.", arrays::append),
    row("json.arrinsert", -5, CHANGE, ONE_KEY, "Inserts elements into arrays.", arrays::insert),
    row("json.arrindex", -4, READ, ONE_KEY, "Finds a value in arrays.", arrays::index),
    row("json.arrpop", -2, WRITE, ONE_KEY, "Removes and returns elements of arrays.", arrays::pop),
    row("json.arrtrim", 5, WRITE, ONE_KEY, "Keeps a range of arrays' elements.", arrays::trim),
    container("json.debug", Group::Json, "1.0.0", "Holds commands for those who look after documents.", SUBCOMMANDS),
];

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    help_command("json.debug|help", Group::Json, "1.0.0"),
    row("json.debug|memory", -3, READ, SECOND_KEY, "Returns the bytes that the values at a path take.", read::memory),
];

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    keys: Keys,
    summary: &'static str,
    handler: Answering,
) -> Definition {
    let complexity = "O(N) in the size of the document";
    command(
        name,
        arity,
        flags,
        keys,
        Group::Json,
        "1.0.0",
        complexity,
        summary,
        handler,
    )
}

const NO_DOCUMENT: &str = "ERR could not perform this operation on a key that doesn't exist";
const NOT_AT_ROOT: &str = "ERR new objects must be created at the root";

/// The answer for one value. `None` instead of it: the value is of a wrong kind.
enum Answer {
    Integer(i64),
    Text(Vec<u8>),
}

impl Answer {
    fn write(&self, reply: &mut Reply<'_>) {
        match self {
            Answer::Integer(number) => reply.integer(*number),
            Answer::Text(text) => reply.bulk(text),
        }
    }

    fn of_length(length: usize) -> Option<Answer> {
        Some(Answer::Integer(length as i64))
    }
}

fn read_document(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Option<Json>, ErrorReply> {
    let entry = context.read_kind(name, Kind::Json)?;
    Ok(entry.map(|entry| rows::document(context.tx, &entry)))
}

fn find_document(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Option<(Entry, Json)>, ErrorReply> {
    let entry = context.keys().find_kind(name, Kind::Json)?;
    Ok(entry.map(|entry| {
        let document = rows::document(context.tx, &entry);
        (entry, document)
    }))
}

/// A document that was there keeps its expiry.
fn put_document(
    context: &mut Context<'_, '_>,
    name: &[u8],
    old: Option<&Entry>,
    document: &Json,
) -> Result<(), ErrorReply> {
    let header = old.map_or(Header::new(Kind::Json), Header::of);
    rows::put(&mut context.keys(), name, header, document)
}

/// Puts another value at a place of a document. False, and nothing is done, if the document must be
/// written whole.
fn put_at(context: &mut Context<'_, '_>, name: &[u8], entry: &Entry, place: Place, value: &Json) -> bool {
    let is_put = place.put(&mut context.keys(), name, entry, value);
    if is_put {
        context.note_use(name);
    }
    is_put
}

/// The path at `position` of the arguments; the root if there is none.
fn path_at(arguments: Arguments<'_>, position: usize) -> Result<Path, ErrorReply> {
    arguments.get(position).map_or_else(|| Ok(Path::root()), Path::parse)
}

fn no_path(path: &Path) -> ErrorReply {
    format!("ERR Path '{}' does not exist", path.text).into()
}

/// Calls a function for each value at the path; `wanted` names the expected type in an error.
fn answer_each(
    context: &mut Context<'_, '_>,
    document: &Json,
    path: &Path,
    wanted: &str,
    ask: impl Fn(&Json) -> Option<Answer>,
) -> Result<(), ErrorReply> {
    let locations = path.select(document)?;
    let values = locations.iter().filter_map(|location| document.at(location));
    let answers: Vec<_> = values.map(ask).collect();
    write_answers(context, path, wanted, &answers)
}

/// Changes each value at the path, by which each grows by `grown_bytes` at most, and answers as
/// [`answer_each`] does. Nothing is written if nothing was changed.
fn change_each(
    context: &mut Context<'_, '_>,
    (name, path): (&[u8], &Path),
    wanted: &str,
    grown_bytes: usize,
    mut change: impl FnMut(&mut Json) -> Result<Option<Answer>, ErrorReply>,
) -> Result<(), ErrorReply> {
    let entry = context.keys().find_kind(name, Kind::Json)?.ok_or(NO_DOCUMENT)?;
    if let Some(place) = Place::find(context.tx, &entry, path) {
        let mut value = place.value();
        let answer = change(&mut value)?;
        if answer.is_none() || put_at(context, name, &entry, place, &value) {
            return write_answers(context, path, wanted, &[answer]);
        }
    }
    let mut document = rows::document(context.tx, &entry);
    let locations = path.select(&document)?;
    document.check_additions(locations.len(), grown_bytes)?;
    let mut answers = Vec::new();
    // Values above another may move it, and are changed after it.
    for location in inner_first(locations) {
        let value = document.at_mut(&location).expect("a location that was found");
        answers.push(change(value)?);
    }
    answers.reverse();
    if answers.iter().any(Option::is_some) {
        put_document(context, name, Some(&entry), &document)?;
    }
    write_answers(context, path, wanted, &answers)
}

/// Each location once, those inside of others in front of them. A selection has them the other way
/// round.
fn inner_first(mut locations: Vec<Location>) -> impl Iterator<Item = Location> {
    let mut met: FxHashSet<Location> = FxHashSet::default();
    locations.retain(|location| met.insert(location.clone()));
    locations.into_iter().rev()
}

fn write_answers(
    context: &mut Context<'_, '_>,
    path: &Path,
    wanted: &str,
    answers: &[Option<Answer>],
) -> Result<(), ErrorReply> {
    if path.is_legacy {
        let answer = answers.iter().rev().flatten().next();
        let missing = || format!("ERR Path '{}' does not exist or {wanted}", path.text);
        answer.ok_or_else(missing)?.write(&mut context.reply);
        return Ok(());
    }
    context.reply.array(answers.len());
    for answer in answers {
        match answer {
            Some(answer) => answer.write(&mut context.reply),
            None => context.reply.null(),
        }
    }
    Ok(())
}
