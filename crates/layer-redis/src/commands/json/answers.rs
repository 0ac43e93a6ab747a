//! The values at a path, their changes and the replies for them, for all commands of JSON
//! documents.

use quartet_wire_resp::{Arguments, Reply};
use rustc_hash::FxHashSet;

use super::document::{Json, Location};
use super::path::Path;
use super::rows::{self, Place, Stored};
use crate::handler::command_memory::{ELEMENT_BYTES, Workspace};
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::keyspace::{Entry, Header, Kind};

pub(super) const NO_DOCUMENT: &str = "ERR could not perform this operation on a key that doesn't exist";
pub(super) const NOT_AT_ROOT: &str = "ERR new objects must be created at the root";

/// The answer for one value. `None` instead of it: the value is of a wrong kind.
pub(super) enum Answer {
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

    pub(super) fn of_length(length: usize) -> Option<Answer> {
        Some(Answer::Integer(length as i64))
    }
}

/// Takes memory for the values among the arguments, before they are read.
pub(super) fn take_values<'c>(
    context: &Context<'c, '_>,
    arguments: Arguments<'_>,
) -> Result<Workspace<'c>, ErrorReply> {
    let mut workspace = context.groups.workspace();
    workspace.take(Json::most_memory_of(arguments.iter().skip(2)))?;
    Ok(workspace)
}

pub(super) fn read_document<'c>(context: &mut Context<'c, '_>, name: &[u8]) -> Result<Option<Stored<'c>>, ErrorReply> {
    let entry = context.read_kind(name, Kind::Json)?;
    Ok(entry.map(|entry| Stored::of(entry, context.groups.workspace())))
}

/// A document that was there keeps its expiry.
pub(super) fn put_document(
    context: &mut Context<'_, '_>,
    name: &[u8],
    old: Option<&Entry>,
    document: &Json,
) -> Result<(), ErrorReply> {
    let header = old.map_or(Header::new(Kind::Json), Header::of);
    rows::put(&mut context.keys(), name, header, document)
}

/// The path at `position` of the arguments; the root if there is none.
pub(super) fn path_at(arguments: Arguments<'_>, position: usize) -> Result<Path, ErrorReply> {
    arguments.get(position).map_or_else(|| Ok(Path::root()), Path::parse)
}

pub(super) fn no_path(path: &Path) -> ErrorReply {
    format!("ERR Path '{}' does not exist", path.text).into()
}

/// Calls a function for each value at the path; `expected` names the expected type in an error.
pub(super) fn answer_each(
    context: &mut Context<'_, '_>,
    document: &Stored<'_>,
    path: &Path,
    expected: &str,
    ask: impl Fn(&Json) -> Option<Answer>,
) -> Result<(), ErrorReply> {
    let answers: Vec<_> = document.select(context.tx, path)?.values().map(ask).collect();
    write_answers(context, path, expected, &answers)
}

/// Changes each scalar at the path, and answers as [`answer_each`] does. Each value grows by
/// `grown_bytes` at most. Nothing is written if nothing was changed.
pub(super) fn change_each(
    context: &mut Context<'_, '_>,
    name: &[u8],
    path: &Path,
    expected: &str,
    grown_bytes: usize,
    mut change: impl FnMut(&mut Json) -> Result<Option<Answer>, ErrorReply>,
) -> Result<(), ErrorReply> {
    let entry = context.keys().find_kind(name, Kind::Json)?.ok_or(NO_DOCUMENT)?;
    let Some(place) = Place::of(name, &entry, path) else {
        return change_each_in_whole(context, name, path, &entry, expected, grown_bytes, change);
    };
    let mut answers = Vec::new();
    if let Some(value) = place.scalar(context.tx) {
        answers.push(match value {
            Some(mut value) => {
                let answer = change(&mut value)?;
                if answer.is_some() {
                    context.note_use(name);
                    place.replace(&mut context.keys(), &value)?;
                }
                answer
            }
            None => None,
        });
    }
    write_answers(context, path, expected, &answers)
}

/// The same of any values, in the whole document.
pub(super) fn change_each_in_whole(
    context: &mut Context<'_, '_>,
    name: &[u8],
    path: &Path,
    entry: &Entry,
    expected: &str,
    grown_bytes: usize,
    mut change: impl FnMut(&mut Json) -> Result<Option<Answer>, ErrorReply>,
) -> Result<(), ErrorReply> {
    let mut workspace = context.groups.workspace();
    rows::take_document(context.groups, entry, &mut workspace)?;
    let mut document = rows::document(context.tx, entry);
    let locations = path.select(&document, &mut workspace)?;
    document.take_additions(locations.len(), grown_bytes, &mut workspace)?;
    let mut answers = Vec::new();
    // Values above another may move it, and are changed after it.
    for location in inner_first(locations, &mut workspace)? {
        let value = document.at_mut(&location).expect("a location that was found");
        answers.push(change(value)?);
    }
    answers.reverse();
    if answers.iter().any(Option::is_some) {
        put_document(context, name, Some(entry), &document)?;
    }
    write_answers(context, path, expected, &answers)
}

/// Each location once, those inside of others in front of them. A selection has them the other way
/// round.
pub(super) fn inner_first(
    mut locations: Vec<Location>,
    workspace: &mut Workspace<'_>,
) -> Result<impl Iterator<Item = Location> + use<>, ErrorReply> {
    let levels: usize = locations.iter().map(Vec::len).sum();
    workspace.take(locations.len() * ELEMENT_BYTES + levels * size_of::<usize>())?;
    let mut met: FxHashSet<Location> = FxHashSet::default();
    locations.retain(|location| met.insert(location.clone()));
    Ok(locations.into_iter().rev())
}

/// The number of matches whose values a command reads: a legacy path means its first match. (A
/// change is made at each, and the answer is the last one's.)
pub(super) fn values_read(path: &Path) -> usize {
    if path.is_legacy { 1 } else { usize::MAX }
}

pub(super) fn write_answers(
    context: &mut Context<'_, '_>,
    path: &Path,
    expected: &str,
    answers: &[Option<Answer>],
) -> Result<(), ErrorReply> {
    if path.is_legacy {
        let answer = answers.iter().rev().flatten().next();
        let missing = || format!("ERR Path '{}' does not exist or {expected}", path.text);
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
