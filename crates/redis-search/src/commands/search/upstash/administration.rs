//! Making, describing and removing indexes that are keys, and their other names.

use std::sync::Arc;

use quartet_layer_redis::module_api::{Context, ErrorReply, Header, Kind, Outcome, glob};
use quartet_search::index;
use quartet_search::upstash::FieldType;
use quartet_wire_resp::Arguments;

use super::lookup::{allows_index, check_access, find, wait};
use super::streams;
use super::upkeep::begin_filling;
use crate::commands::search::lookup;
use crate::indexes::{KeyDefinition, KeyIndex, StoredIndex, TransactionRows, Words};
use crate::kinds::SEARCH_INDEX;
use crate::state::SearchGroups;

/// Most indexes of a database that are keys, and most aliases.
const INDEXES_MAX: usize = 1000;

/// Longest name of an alias, in bytes.
const NAME_BYTES_MAX: usize = 1024;

pub fn create(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if context.client.db != 0 {
        return Err("ERR Search indexes are those of database 0".into());
    }
    let name = &arguments[1];
    let request: Vec<&[u8]> = arguments.iter().skip(2).collect();
    let (definition, options) = KeyDefinition::parse(&request)?;
    check_access(context, arguments, &definition, false)?;
    if let Some(existing) = find(context, arguments, name, false)?.filter(|index| index.head.name == name) {
        let name = String::from_utf8_lossy(name);
        return match (options.exists_ok, existing.definition == definition) {
            (true, true) => {
                context.reply.integer(0);
                Ok(())
            }
            (true, false) => Err(format!("ERR Index {name} already exists with another definition").into()),
            (false, _) => Err(format!("ERR Index {name} already exists").into()),
        };
    }
    // The alias of another index may be the name of a key, or not.
    context.keys_of(0).find_kind(name, SEARCH_INDEX)?;
    let catalogue = context.groups.indexes().catalogue(context.tx);
    if catalogue.key_indexes().count() >= INDEXES_MAX {
        return Err(format!("ERR A database has at most {INDEXES_MAX} search indexes").into());
    }
    if definition.on == Kind::Stream {
        let stream = &definition.prefixes[0];
        let is_taken = |index: &&Arc<KeyIndex>| index.is_on_stream() && index.stream() == stream;
        let followers: Vec<Arc<KeyIndex>> = catalogue.key_indexes().filter(is_taken).cloned().collect();
        let mut keys = context.keys_of(0);
        if let Some(index) = followers.iter().find(|index| keys.find(&index.head.name).is_some()) {
            let (stream, name) = (
                String::from_utf8_lossy(stream),
                String::from_utf8_lossy(&index.head.name),
            );
            return Err(format!("ERR Stream {stream} has an index already: {name}").into());
        }
    }
    // An index whose key has expired and was not removed yet.
    if let Some(dead) = catalogue.key_index(name) {
        dead.clear_all(context.tx);
    }
    let index = KeyIndex::create(context.tx, name, &request)?;
    context.changes().index(true);
    let header = Header::new(SEARCH_INDEX);
    context.keys_of(0).put(name, header, &index.head.number);
    match options.skips_initial_scan {
        false => begin_filling(context, &index),
        true if index.is_on_stream() => streams::skip(&mut context.keys_of(0), &index),
        true => {}
    }
    context.reply.integer(1);
    Ok(())
}

pub fn reindex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let Some(index) = find(context, arguments, &arguments[1], false)? else {
        context.reply.integer(0);
        return Ok(());
    };
    index.clear_rows(context.tx);
    begin_filling(context, &index);
    context.reply.integer(1);
    Ok(())
}

/// Does not look at aliases, as at Upstash.
pub fn drop_index(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let index = find(context, arguments, name, false)?.filter(|index| index.head.name == name);
    if let Some(index) = &index {
        index.clear_all(context.tx);
        context.keys_of(0).remove(name);
    }
    context.reply.integer(index.is_some().into());
    Ok(())
}

pub fn describe(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let Some(index) = find(context, arguments, &arguments[1], false)? else {
        context.reply.null();
        return Ok(());
    };
    let mut rows = TransactionRows {
        tx: context.tx,
        prefix: index.rows_prefix(),
    };
    let documents = index::State::read(&mut rows).documents;
    let bytes = context.groups.indexes().sizes.of(context.tx, index.as_ref());
    let is_filling = index.progress(context.tx).is_some();
    let definition = &index.definition;
    let reply = &mut context.reply;
    reply.map(8);
    reply.bulk(b"name");
    reply.bulk(&index.head.name);
    reply.bulk(b"type");
    reply.bulk(definition.kind_name().as_bytes());
    reply.bulk(b"prefixes");
    reply.array(definition.prefixes.len());
    definition.prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    reply.bulk(b"language");
    reply.bulk(definition.schema.language.name().as_bytes());
    reply.bulk(b"documents");
    reply.integer(documents as i64);
    reply.bulk(b"indexSize");
    reply.integer(bytes as i64);
    reply.bulk(b"pendingUpdates");
    reply.integer(is_filling.into());
    reply.bulk(b"schema");
    reply.array(definition.schema.fields().count());
    for (_, field) in definition.schema.fields() {
        let mut words = vec![field.name.as_str(), field.kind.name()];
        if let FieldType::Text { no_tokenize, no_stem } = field.kind {
            words.extend(no_stem.then_some("NOSTEM"));
            words.extend(no_tokenize.then_some("NOTOKENIZE"));
        }
        words.extend(field.fast.then_some("FAST"));
        words.extend(field.from.iter().flat_map(|from| ["FROM", from]));
        reply.array(words.len());
        words.iter().for_each(|word| reply.bulk(word.as_bytes()));
    }
    Ok(())
}

pub fn list_indexes(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let request: Vec<&[u8]> = arguments.iter().skip(1).collect();
    let mut words = Words::new(&request);
    let (mut pattern, mut limit, mut offset) = (None, 0, 0);
    while words.left() > 0 {
        if words.take("MATCH") {
            pattern = Some(words.next().ok_or("ERR MATCH has no argument")?);
        } else if words.take("LIMIT") {
            limit = number(&mut words, "LIMIT")?;
        } else if words.take("OFFSET") {
            offset = number(&mut words, "OFFSET")?;
        } else {
            return Err("ERR syntax error".into());
        }
    }
    let catalogue = context.groups.indexes().catalogue(context.tx);
    let mut listed = Vec::new();
    for index in catalogue.key_indexes() {
        let is_asked = pattern.is_none_or(|pattern| glob::matches(pattern, &index.head.name));
        let entry = context.keys_of(0).find(&index.head.name);
        let is_there = entry.is_some_and(|entry| entry.kind == SEARCH_INDEX);
        if is_asked && is_there && may_see(context, arguments, &index.head.name, Some(index)) {
            listed.push(index);
        }
    }
    let limit = if limit == 0 { usize::MAX } else { limit };
    let listed: Vec<_> = listed.into_iter().skip(offset).take(limit).collect();
    context.reply.array(listed.len());
    for index in listed {
        context.reply.map(2);
        context.reply.bulk(b"name");
        context.reply.bulk(&index.head.name);
        context.reply.bulk(b"type");
        context.reply.bulk(index.definition.kind_name().as_bytes());
    }
    Ok(())
}

fn number(words: &mut Words<'_>, option: &str) -> Result<usize, ErrorReply> {
    let word = words.next().and_then(|word| std::str::from_utf8(word).ok());
    let number = word.and_then(|word| word.parse().ok());
    number.ok_or_else(|| format!("ERR {option} takes a number").into())
}

pub fn wait_indexing(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let index = find(context, arguments, &arguments[1], false)?;
    if let Some(index) = &index
        && let Some(outcome) = wait(context, index)?
    {
        return Ok(outcome);
    }
    context.reply.integer(index.is_some().into());
    Ok(Outcome::Done)
}

/// The index may be absent.
pub fn alias_add(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (alias, name) = (&arguments[1], &arguments[2]);
    find(context, arguments, name, false)?;
    check_name(context, arguments, name)?;
    if alias.len() > NAME_BYTES_MAX {
        return Err(format!("ERR An alias has at most {NAME_BYTES_MAX} bytes").into());
    }
    let catalogue = context.groups.indexes().catalogue(context.tx);
    let is_known = catalogue.key_aliases().contains_key(alias);
    if !is_known && catalogue.key_aliases().len() >= INDEXES_MAX {
        return Err(format!("ERR A database has at most {INDEXES_MAX} aliases of search indexes").into());
    }
    KeyIndex::put_alias(context.tx, alias, name);
    context.reply.integer(if is_known { 2 } else { 1 });
    Ok(())
}

pub fn alias_delete(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let alias = &arguments[1];
    let catalogue = context.groups.indexes().catalogue(context.tx);
    let index = catalogue.key_aliases().get(alias);
    if let Some(index) = index {
        find(context, arguments, alias, false)?;
        check_name(context, arguments, index)?;
        KeyIndex::clear_alias(context.tx, alias);
    }
    context.reply.integer(index.is_some().into());
    Ok(())
}

/// An alias is no key, so access is checked by its index.
fn check_name(context: &Context<'_, '_>, arguments: Arguments<'_>, index: &[u8]) -> Result<(), ErrorReply> {
    let may = context.user_may(arguments, |selector| selector.has_key(index, false));
    may.then_some(()).ok_or(lookup::NO_PERMISSION.into())
}

/// Returns true if the user may read the index of this name, and, if it exists, the keys that it
/// covers.
fn may_see(context: &Context<'_, '_>, arguments: Arguments<'_>, name: &[u8], index: Option<&Arc<KeyIndex>>) -> bool {
    context.user_may(arguments, |selector| {
        let covers = |index: &Arc<KeyIndex>| allows_index(selector, &index.definition, false);
        selector.has_key(name, false) && index.is_none_or(covers)
    })
}

/// The other names of the indexes that the user may read.
pub fn list_aliases(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let catalogue = context.groups.indexes().catalogue(context.tx);
    let all = catalogue.key_aliases().iter();
    let visible = all.filter(|(_, name)| may_see(context, arguments, name, catalogue.key_index(name)));
    let aliases: Vec<_> = visible.collect();
    context.reply.array(aliases.len());
    for (alias, index) in aliases {
        context.reply.array(2);
        context.reply.bulk(alias);
        context.reply.bulk(index);
    }
    Ok(())
}
