//! Making, changing and removing indexes and their other names.

use std::sync::Arc;

use quartet_layer_redis::module_api::{Context, ErrorReply, Kind, Outcome, Path, parse};
use quartet_search::error::SearchError;
use quartet_wire_resp::Arguments;

use super::lookup::{check_access, find, not_found, words, words_between};
use super::upkeep::{self, begin_filling};
use crate::errors::IntoReply;
use crate::indexes::{Definition, Index, StoredIndex, refused, temporary};
use crate::state::SearchGroups;

/// More keys than these are removed some at a time, before the command that drops their index runs.
pub const REMOVED_AT_ONCE: usize = 256;

/// Most indexes of a database.
const INDEXES_MAX: usize = 1000;

/// Longest name of an index or alias, in bytes.
const NAME_BYTES_MAX: usize = 1024;

pub fn create(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 4)?;
    make(context, arguments, words[0], &words[1..])
}

pub fn create_if_absent(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 4)?;
    let catalogue = context.groups.indexes().catalogue(context.tx);
    if catalogue.named(words[0]).is_some() {
        context.reply.ok();
        return Ok(());
    }
    make(context, arguments, words[0], &words[1..])
}

fn make(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    name: &[u8],
    request: &[&[u8]],
) -> Result<(), ErrorReply> {
    if context.client.db != 0 {
        return Err(SearchError::OtherDatabase.into_reply());
    }
    let catalogue = context.groups.indexes().catalogue(context.tx);
    if catalogue.named(name).is_some() || catalogue.is_alias(name) {
        return Err(SearchError::IndexExists.into_reply());
    }
    check_name(name)?;
    if catalogue.indexes().count() >= INDEXES_MAX {
        return Err(SearchError::Limit(format!("A database has at most {INDEXES_MAX} indexes")).into_reply());
    }
    let definition = Definition::parse(request)?;
    check_paths(name, &definition)?;
    check_access(context, arguments, &definition.prefixes, false)?;
    let index = Index::create(context.tx, name, request)?;
    context.changes().index(true);
    if definition.idle_ms.is_some() {
        temporary::write(context.tx, &index.head.number, context.now_ms);
        context.groups.indexes().uses.note(&index, context.now_ms);
    }
    if !definition.skips_initial_scan {
        begin_filling(context, &index, false);
    }
    context.reply.ok();
    Ok(())
}

/// Names and paths are of something. The fields of an index on documents are paths; those of the
/// older kind lead to nothing.
fn check_paths(name: &[u8], definition: &Definition) -> Result<(), ErrorReply> {
    for (_, field) in definition.schema.fields() {
        if field.name.is_empty() {
            return Err(refused("Field name cannot be empty"));
        }
        for (part, text) in [("name", &field.name), ("path", &field.path)] {
            if text.contains('\0') {
                return Err(refused(format!("Field {part} cannot contain null bytes")));
            }
        }
    }
    let fields = definition.schema.fields().filter(|_| definition.on == Kind::Json);
    for (_, field) in fields {
        if Path::parse(field.path.as_bytes()).is_err() {
            let name = String::from_utf8_lossy(name);
            return Err(refused(format!(
                "Invalid JSONPath '{}' in attribute '{}' in index '{name}'",
                field.path, field.name
            )));
        }
    }
    Ok(())
}

fn check_name(name: &[u8]) -> Result<(), ErrorReply> {
    match name.len() <= NAME_BYTES_MAX {
        true => Ok(()),
        false => Err(SearchError::Limit(format!("A name has at most {NAME_BYTES_MAX} bytes")).into_reply()),
    }
}

pub fn alter(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 5)?;
    add_fields(context, arguments, words[0], &words[1..])
}

pub fn alter_if_absent(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 5)?;
    let index = find(context, arguments, words[0], false)?;
    let schema = &index.definition.schema;
    if words.get(3).is_some_and(|field| schema.find(field).is_some()) {
        context.reply.ok();
        return Ok(());
    }
    add_fields(context, arguments, words[0], &words[1..])
}

fn add_fields(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    name: &[u8],
    request: &[&[u8]],
) -> Result<(), ErrorReply> {
    let index = find(context, arguments, name, false)?;
    let mut definition = index.definition.clone();
    definition.alter(request)?;
    check_paths(&index.head.name, &definition)?;
    let altered = index.altered(context.tx, request)?;
    if !request[0].eq_ignore_ascii_case(b"SKIPINITIALSCAN") {
        begin_filling(context, &altered, true);
    }
    context.reply.ok();
    Ok(())
}

pub fn drop_index(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let words = words_between(arguments, 1, 2)?;
    remove(context, arguments, &words)
}

/// FT.DROP index [KEEPDOCS], of search 1: the keys go too. Any other word counts for nothing, as at
/// the original.
pub fn drop_with_keys(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let words = words_between(arguments, 1, 2)?;
    let keeps_keys = words.get(1).is_some_and(|word| parse::is(word, "KEEPDOCS"));
    remove_index(context, arguments, words[0], !keeps_keys)
}

pub fn drop_with_keys_if_present(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
) -> Result<Outcome, ErrorReply> {
    let words = words_between(arguments, 1, 2)?;
    match is_absent(context, words[0]) {
        true => Ok(Outcome::Done),
        false => drop_with_keys(context, arguments),
    }
}

/// The index that a request drops with its keys.
pub fn dropped_with_keys(arguments: Arguments<'_>) -> Option<Vec<u8>> {
    let is = |at: usize, word: &str| arguments.get(at).is_some_and(|argument| parse::is(argument, word));
    let drops = match arguments.len() {
        2 => is(0, "FT.DROP") || is(0, "FT._DROPIFX"),
        3 if is(0, "FT.DROP") || is(0, "FT._DROPIFX") => !is(2, "KEEPDOCS"),
        3 => (is(0, "FT.DROPINDEX") || is(0, "FT._DROPINDEXIFX")) && is(2, "DD"),
        _ => false,
    };
    drops.then(|| arguments[1].to_vec())
}

/// Answers OK if there is no index of this name.
fn is_absent(context: &mut Context<'_, '_>, name: &[u8]) -> bool {
    let catalogue = context.groups.indexes().catalogue(context.tx);
    let is_absent = catalogue.find(name).is_none();
    if is_absent {
        context.reply.ok();
    }
    is_absent
}

pub fn drop_if_present(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let words = words_between(arguments, 1, 2)?;
    match is_absent(context, words[0]) {
        true => Ok(Outcome::Done),
        false => remove(context, arguments, &words),
    }
}

fn remove(context: &mut Context<'_, '_>, arguments: Arguments<'_>, words: &[&[u8]]) -> Result<Outcome, ErrorReply> {
    let with_documents = match words.get(1) {
        None => false,
        Some(word) if word.eq_ignore_ascii_case(b"DD") => true,
        // The original's message to its replicas, which receive the keys one by one.
        Some(word) if word.eq_ignore_ascii_case(b"_FORCEKEEPDOCS") => false,
        Some(word) => {
            let word = String::from_utf8_lossy(word);
            return Err(SearchError::Unrecognized(format!("Unknown argument `{word}`")).into_reply());
        }
    };
    remove_index(context, arguments, words[0], with_documents)
}

fn remove_index(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    name: &[u8],
    with_documents: bool,
) -> Result<Outcome, ErrorReply> {
    let index = find(context, arguments, name, with_documents)?;
    if with_documents {
        let names = upkeep::keys_of(context.tx, &index, usize::MAX);
        if names.len() > REMOVED_AT_ONCE && !context.client.may_take_long {
            return Ok(Outcome::RunLong);
        }
        for name in names {
            context.keys_of(0).remove(&name);
        }
    }
    let catalogue = context.groups.indexes().catalogue(context.tx);
    index.clear(context.tx, &catalogue);
    context.cursors().forget(&index.head.number);
    if context.replication().is_on() {
        // A replica that has not the index gets the keys one by one.
        let words = [b"FT._DROPINDEXIFX".as_slice(), name];
        context.replication().gather(context.client.db, &words);
    }
    context.reply.ok();
    Ok(Outcome::Done)
}

pub fn alias_add(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words_between(arguments, 2, 2)?;
    add_alias(context, arguments, words[0], words[1])
}

pub fn alias_add_if_absent(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words_between(arguments, 2, 2)?;
    let catalogue = context.groups.indexes().catalogue(context.tx);
    if catalogue.is_alias(words[0]) {
        context.reply.ok();
        return Ok(());
    }
    add_alias(context, arguments, words[0], words[1])
}

fn add_alias(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    alias: &[u8],
    index: &[u8],
) -> Result<(), ErrorReply> {
    let catalogue = context.groups.indexes().catalogue(context.tx);
    if catalogue.named(alias).is_some() {
        return Err(SearchError::AliasIsIndex.into_reply());
    }
    if catalogue.is_alias(alias) {
        return Err(SearchError::AliasExists.into_reply());
    }
    set_alias(context, arguments, alias, index)
}

fn set_alias(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    alias: &[u8],
    name: &[u8],
) -> Result<(), ErrorReply> {
    check_name(alias)?;
    let catalogue = context.groups.indexes().catalogue(context.tx);
    // An alias has no alias.
    let index = catalogue.named(name).ok_or_else(|| not_found(name))?;
    check_access(context, arguments, &index.definition.prefixes, false)?;
    Index::put_alias(context.tx, alias, name);
    context.reply.ok();
    Ok(())
}

pub fn alias_update(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words_between(arguments, 2, 2)?;
    let catalogue = context.groups.indexes().catalogue(context.tx);
    if catalogue.named(words[0]).is_some() {
        return Err(SearchError::AliasIsIndex.into_reply());
    }
    if catalogue.is_alias(words[0]) {
        find(context, arguments, words[0], false)?;
    }
    set_alias(context, arguments, words[0], words[1])
}

pub fn alias_delete(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words_between(arguments, 1, 1)?;
    remove_alias(context, arguments, words[0])
}

pub fn alias_delete_if_present(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words_between(arguments, 1, 1)?;
    let catalogue = context.groups.indexes().catalogue(context.tx);
    if !catalogue.is_alias(words[0]) {
        context.reply.ok();
        return Ok(());
    }
    remove_alias(context, arguments, words[0])
}

fn remove_alias(context: &mut Context<'_, '_>, arguments: Arguments<'_>, alias: &[u8]) -> Result<(), ErrorReply> {
    let catalogue = context.groups.indexes().catalogue(context.tx);
    if !catalogue.is_alias(alias) {
        return Err(SearchError::NoAlias.into_reply());
    }
    find(context, arguments, alias, false)?;
    Index::clear_alias(context.tx, alias);
    context.reply.ok();
    Ok(())
}

/// An index's other names. Takes the index's own name only.
pub fn alias_list(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words_between(arguments, 1, 1)?;
    let catalogue = context.groups.indexes().catalogue(context.tx);
    let index = catalogue.named(words[0]).ok_or_else(|| not_found(words[0]))?;
    check_access(context, arguments, &index.definition.prefixes, false)?;
    let aliases: Vec<_> = catalogue.aliases_of(&index.head.name).collect();
    context.reply.set(aliases.len());
    aliases.iter().for_each(|alias| context.reply.bulk(alias));
    Ok(())
}

/// The names of the indexes that the user may search.
pub fn list(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let catalogue = context.groups.indexes().catalogue(context.tx);
    let may_read = |index: &&Arc<Index>| check_access(context, arguments, &index.definition.prefixes, false).is_ok();
    let readable: Vec<_> = catalogue.indexes().filter(may_read).collect();
    context.reply.set(readable.len());
    readable.iter().for_each(|index| context.reply.bulk(&index.head.name));
    Ok(())
}
