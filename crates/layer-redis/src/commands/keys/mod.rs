//! Keys of any kind: removing, renaming, copying, iterating, inspecting.

use std::ops::ControlFlow;

use quartet_wire_resp::Arguments;

use crate::commands::help::help_command;
use crate::commands::{hashes, lists, sets, sorted_sets, vector_sets};
use crate::facts::DATABASES;
use crate::handler::caching;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::indexes;
use crate::keyspace::scan::{self, Scan};
use crate::keyspace::{Elements, Entry, FLAG_A, Header, Keyspace, Kind, LARGE, clear_everything};
use crate::{command::errors, command::glob, command::parse};

#[cfg(test)]
mod tests;

/// Names that KEYS looks at between two looks at the time.
const KEYS_BETWEEN_CHECKS: u32 = 256;

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    command("del", -2, WRITE, ALL_KEYS, Group::Generic, "1.0.0", "O(N) in the number of keys; large collections go as one range", "Removes keys.", del),
    command("unlink", -2, WRITE | FAST, ALL_KEYS, Group::Generic, "4.0.0", "O(N) in the number of keys", "Removes keys; their memory is freed in the background.", del),
    command("exists", -2, READONLY | FAST, ALL_KEYS, Group::Generic, "1.0.0", "O(N) in the number of keys", "Counts which of the keys exist.", exists),
    command("touch", -2, READONLY | FAST, ALL_KEYS, Group::Generic, "3.2.1", "O(N) in the number of keys", "Counts which of the keys exist, which are used thereby.", touch),
    command("type", 2, READONLY | FAST, ONE_KEY, Group::Generic, "1.0.0", "O(1)", "Tells what kind of value a key holds.", kind),
    command("rename", 3, WRITE, TWO_KEYS, Group::Generic, "1.0.0", "O(1)", "Gives a key another name, replacing a key that has it.", rename),
    command("renamenx", 3, WRITE | FAST, TWO_KEYS, Group::Generic, "1.0.0", "O(1)", "Gives a key another name unless a key has it.", renamenx),
    command("copy", -3, WRITE | DENYOOM, TWO_KEYS, Group::Generic, "6.2.0", "O(N) in the size of a large collection", "Copies a key to another name or database.", copy),
    command("move", 3, WRITE | FAST, ONE_KEY, Group::Generic, "1.0.0", "O(1)", "Moves a key to another database.", move_key),
    command("keys", 2, READONLY | DANGEROUS, NO_KEYS, Group::Generic, "1.0.0", "O(N) in the number of keys", "Lists the names that match a pattern.", keys),
    command("scan", -2, READONLY, NO_KEYS, Group::Generic, "2.8.0", "O(1) for each key of the page", "Lists the names a page at a time.", scan_page),
    command("randomkey", 1, READONLY, NO_KEYS, Group::Generic, "1.0.0", "O(log N)", "Picks a name at random.", randomkey),
    command("dbsize", 1, READONLY | FAST | KEYSPACE_CATEGORY, NO_KEYS, Group::Server, "1.0.0", "O(log N)", "Counts the keys of the database.", dbsize),
    command("flushdb", -1, WRITE | DANGEROUS | KEYSPACE_CATEGORY, NO_KEYS, Group::Server, "1.0.0", "O(N) in the number of expiring keys and large collections", "Removes every key of the database.", flushdb),
    command("flushall", -1, WRITE | DANGEROUS | KEYSPACE_CATEGORY, NO_KEYS, Group::Server, "1.0.0", "O(log N)", "Removes every key of every database.", flushall),
    command("swapdb", 3, WRITE | FAST | DANGEROUS | KEYSPACE_CATEGORY, NO_KEYS, Group::Server, "4.0.0", "O(N) in the number of keys of both databases", "Exchanges two databases.", swapdb),
    container("object", Group::Generic, "2.2.3", "Looks behind a key.", &[
        command("object|encoding", 3, READONLY, SECOND_KEY, Group::Generic, "2.2.3", "O(1)", "Names the encoding that Redis would report.", object_encoding),
        command("object|freq", 3, READONLY, SECOND_KEY, Group::Generic, "4.0.0", "O(1)", "Tells how often the key was read of late, on a logarithmic scale.", object_freq),
        command("object|idletime", 3, READONLY, SECOND_KEY, Group::Generic, "2.2.3", "O(1)", "Tells how many seconds ago the key was written.", object_idletime),
        command("object|refcount", 3, READONLY, SECOND_KEY, Group::Generic, "2.2.3", "O(1)", "Answers the number of references that Redis would report.", object_refcount),
        help_command("object|help", Group::Generic, "6.2.0"),
    ]),
];

const SECOND_KEY: Keys = Keys::Range {
    first: 2,
    last: 2,
    step: 1,
};

fn del(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mut keys = context.keys();
    let removed = arguments.iter().skip(1).filter(|name| keys.remove(name)).count();
    context.reply.integer(removed as i64);
    Ok(())
}

fn exists(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let found = arguments
        .iter()
        .skip(1)
        .filter(|name| context.look_at(name).is_some())
        .count();
    context.reply.integer(found as i64);
    Ok(())
}

/// TOUCH updates the recency even for a connection with CLIENT NO-TOUCH.
fn touch(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mut found = 0;
    for name in arguments.iter().skip(1) {
        if context.look_at(name).is_some() {
            context.eviction().recency.note(context.client.db, name, context.now_ms);
            found += 1;
        }
    }
    context.reply.integer(found);
    Ok(())
}

fn kind(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = context.look_at(&arguments[1]).map_or("none", |entry| entry.kind.name());
    context.reply.simple(name);
    Ok(())
}

fn rename(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (from, to) = (&arguments[1], &arguments[2]);
    let found = context.keys().find(from).ok_or(errors::NO_SUCH_KEY)?;
    check_may_move(&found)?;
    if from != to {
        rename_found(&mut context.keys(), from, to);
    }
    context.reply.ok();
    Ok(())
}

fn renamenx(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (from, to) = (&arguments[1], &arguments[2]);
    let mut keys = context.keys();
    let found = keys.find(from).ok_or(errors::NO_SUCH_KEY)?;
    check_may_move(&found)?;
    let is_free = keys.find(to).is_none();
    if is_free {
        rename_found(&mut keys, from, to);
    }
    context.reply.integer(i64::from(is_free));
    Ok(())
}

/// A search index is found by its name, and is of one database.
fn check_may_move(entry: &Entry) -> Result<(), ErrorReply> {
    match entry.kind {
        Kind::SearchIndex => Err("ERR Search indexes cannot be renamed, moved or copied".into()),
        _ => Ok(()),
    }
}

/// The elements of a large collection stay where they are: its id goes along.
fn rename_found(keys: &mut Keyspace<'_, '_>, from: &[u8], to: &[u8]) {
    let entry = keys.take(from).expect("the key that was just found");
    keys.put(to, Header::of(&entry), entry.payload());
}

fn copy(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (from, to) = (&arguments[1], &arguments[2]);
    let (mut to_db, mut replace) = (context.client.db, false);
    let mut words = arguments.tail(3).iter();
    while let Some(word) = words.next() {
        if parse::is(word, "replace") {
            replace = true;
        } else if parse::is(word, "db") {
            to_db = parse::database(words.next().ok_or(errors::SYNTAX)?)?;
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    if to_db == context.client.db && from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let found = context.keys().find(from);
    found.as_ref().map_or(Ok(()), check_may_move)?;
    let mut target = context.keys_of(to_db);
    let may_write = replace || target.find(to).is_none();
    let Some(entry) = found.filter(|_| may_write) else {
        context.reply.integer(0);
        return Ok(());
    };
    write_copy(&mut target, to, &entry);
    if let Some(copy) = context.keys_of(to_db).find(to).filter(Entry::is_large) {
        vector_sets::note_copy(context, &copy);
    }
    context.reply.integer(1);
    Ok(())
}

/// Copies a key. A large collection's elements are copied byte for byte under an id of their own.
fn write_copy(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry) {
    if !entry.is_large() {
        return keys.put(name, Header::of(entry), entry.payload());
    }
    let mut rows = Vec::new();
    entry.elements().scan(keys.tx, &[], None, false, &mut |element, value| {
        rows.push((element.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    let elements: Elements = keys.new_elements();
    for (element, value) in rows {
        elements.set(keys.tx, &element, &value);
    }
    keys.put_parts(name, Header::of(entry), &[elements.id(), entry.large_payload()]);
}

fn move_key(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let to_db = parse::database(&arguments[2])?;
    if to_db == context.client.db {
        return Err("ERR source and destination objects are the same".into());
    }
    let found = context.keys().find(name);
    found.as_ref().map_or(Ok(()), check_may_move)?;
    let may_move = found.is_some() && context.keys_of(to_db).find(name).is_none();
    if may_move {
        let entry = context.keys().take(name).expect("the key that was just found");
        context.keys_of(to_db).put(name, Header::of(&entry), entry.payload());
    }
    context.reply.integer(i64::from(may_move));
    Ok(())
}

fn keys(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let pattern = &arguments[1];
    let mut names = Vec::new();
    if glob::literal_prefix(pattern) == pattern {
        names.extend(context.keys().find(pattern).map(|_| pattern.to_vec()));
    } else {
        let (groups, mut looked_at) = (context.groups, 0);
        context.keys().scan_keys(&mut |name, _| {
            if glob::matches(pattern, name) {
                names.push(name.to_vec());
            }
            looked_at += 1;
            match u32::is_multiple_of(looked_at, KEYS_BETWEEN_CHECKS) && groups.must_end(groups.engine().now_micros()) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        names.sort_unstable();
    }
    context.reply.array(names.len());
    names.iter().for_each(|name| context.reply.bulk(name));
    Ok(())
}

fn scan_page(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let cursor = scan::cursor(&arguments[1])?;
    let options = scan::options(arguments.tail(2), Scan::Keys)?;
    let mut names = Vec::new();
    let mut visit = |name: &[u8], entry: Entry| {
        let has_kind = options
            .kind
            .is_none_or(|kind| parse::is(kind, entry.kind.name()) || parse::is(kind, upstash_name(entry.kind)));
        if has_kind && options.matches(name) {
            names.push(name.to_vec());
            if options.with_type {
                names.push(upstash_name(entry.kind).into());
            }
        }
    };
    let mut keys = context.keys();
    // A pattern that only one name matches is one look-up.
    let next = match options
        .pattern
        .filter(|pattern| glob::literal_prefix(pattern) == *pattern)
    {
        Some(name) => {
            if let Some(entry) = keys.find(name) {
                visit(name, entry);
            }
            0
        }
        None => keys.scan_page(cursor, options.count, &mut visit),
    };
    scan::write_page(&mut context.reply, next, &names);
    Ok(())
}

/// As SCAN with WITHTYPE names a type: JSON is no module's there.
fn upstash_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Json => "json",
        kind => kind.name(),
    }
}

/// Tries at a random position before the first live key is taken instead: most keys may have
/// expired.
const RANDOM_TRIES: usize = 100;

fn randomkey(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let count = context.keys().key_count();
    let random = context.random();
    let mut picked = None;
    for _ in 0..RANDOM_TRIES.min(count as usize) {
        let mut keys = context.keys();
        let found = keys.key_at(random.below(count));
        picked = found
            .filter(|(_, entry)| !keys.has_expired(entry))
            .map(|(name, _)| name);
        if picked.is_some() {
            break;
        }
    }
    if picked.is_none() {
        context.keys().scan_keys(&mut |name, _| {
            picked = Some(name.to_vec());
            ControlFlow::Break(())
        });
    }
    match picked {
        Some(name) => context.reply.bulk(&name),
        None => context.reply.null(),
    }
    Ok(())
}

fn dbsize(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let count = context.keys().key_count();
    context.reply.integer(count as i64);
    Ok(())
}

fn flushdb(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_flush_options(arguments)?;
    let db = context.client.db;
    let others_are_empty = (0..DATABASES).all(|other| other == db || context.keys_of(other).key_count() == 0);
    if others_are_empty {
        clear_everything(context.tx);
    } else {
        context.keys().clear();
        if db == 0 {
            indexes::clear(context.tx);
        }
    }
    caching::flushed(context.groups);
    context.reply.ok();
    Ok(())
}

fn flushall(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_flush_options(arguments)?;
    clear_everything(context.tx);
    caching::flushed(context.groups);
    context.reply.ok();
    Ok(())
}

/// SYNC and ASYNC are the same here: ranges go at once and are freed in the background.
fn check_flush_options(arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    match (arguments.len(), arguments.get(1)) {
        (1, _) => Ok(()),
        (2, Some(word)) if parse::is(word, "sync") || parse::is(word, "async") => Ok(()),
        _ => Err(errors::SYNTAX.into()),
    }
}

/// Moves the keys' own rows from each database to the other; elements stay where they are.
fn swapdb(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let index = |position: usize, text: &'static str| parse::integer(&arguments[position]).ok_or(ErrorReply::new(text));
    let (first, second) = (
        index(1, "ERR invalid first DB index")?,
        index(2, "ERR invalid second DB index")?,
    );
    let in_range = |index: i64| u8::try_from(index).ok().filter(|&index| index < DATABASES);
    let (Some(first), Some(second)) = (in_range(first), in_range(second)) else {
        return Err(errors::DB_OUT_OF_RANGE.into());
    };
    if first != second {
        let (of_first, of_second) = (take_all(context, first), take_all(context, second));
        put_all(context, second, of_first);
        put_all(context, first, of_second);
    }
    context.reply.ok();
    Ok(())
}

fn take_all(context: &mut Context<'_, '_>, db: u8) -> Vec<(Vec<u8>, Entry)> {
    let mut names = Vec::new();
    let mut keys = context.keys_of(db);
    keys.scan_keys(&mut |name, _| {
        names.push(name.to_vec());
        ControlFlow::Continue(())
    });
    let taken = names
        .into_iter()
        .filter_map(|name| keys.take(&name).map(|entry| (name, entry)))
        .collect();
    // The rest has expired.
    keys.clear();
    taken
}

fn put_all(context: &mut Context<'_, '_>, db: u8, entries: Vec<(Vec<u8>, Entry)>) {
    let mut keys = context.keys_of(db);
    for (name, entry) in entries {
        keys.put(&name, Header::of(&entry), entry.payload());
    }
}

/// The key of an OBJECT subcommand; replies null if it is absent. Not counted as a read.
fn object(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Option<Entry> {
    let found = context.keys().find(&arguments[2]);
    if found.is_none() {
        context.reply.null();
    }
    found
}

fn object_encoding(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if let Some(entry) = object(context, arguments) {
        context.reply.bulk(encoding(&entry).as_bytes());
    }
    Ok(())
}

/// The encoding that Redis would report for the value.
pub fn encoding(entry: &Entry) -> &'static str {
    match entry.kind {
        Kind::String => string_encoding(entry),
        Kind::List => lists::encoding(entry),
        Kind::Set => sets::encoding(entry),
        Kind::SortedSet => sorted_sets::encoding(entry),
        Kind::Hash => hashes::encoding(entry),
        Kind::Stream => "stream",
        Kind::Json | Kind::VectorSet | Kind::Suggestions | Kind::SearchIndex | Kind::VectorIndex => "raw",
    }
}

/// Longest string that Redis keeps in one allocation with its header.
const EMBEDDED_BYTES_MAX: usize = 44;

fn string_encoding(entry: &Entry) -> &'static str {
    let value = entry.payload();
    if entry.flags & (FLAG_A | LARGE) != 0 {
        "raw"
    } else if parse::integer(value).is_some() {
        "int"
    } else if value.len() <= EMBEDDED_BYTES_MAX {
        "embstr"
    } else {
        "raw"
    }
}

fn object_freq(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    match object(context, arguments) {
        Some(_) if context.eviction_policy().counts_frequency() => {
            let frequency = context.frequency(context.client.db, &arguments[2], context.now_ms);
            context.reply.integer(frequency.into());
            Ok(())
        }
        Some(_) => Err(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                        switching between policies at runtime LRU and LFU data will take some time to adjust."
                .into(),
        ),
        None => Ok(()),
    }
}

fn object_idletime(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if let Some(entry) = object(context, arguments) {
        if context.eviction_policy().counts_frequency() {
            return Err(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
                 policies at runtime LRU and LFU data will take some time to adjust."
                    .into(),
            );
        }
        let idle_seconds = idle_seconds(context, &arguments[2], &entry);
        context.reply.integer(idle_seconds as i64);
    }
    Ok(())
}

/// The time since the key was last written or read.
pub fn idle_seconds(context: &Context<'_, '_>, name: &[u8], entry: &Entry) -> u64 {
    let read_seconds = context.eviction().recency.read_seconds(context.client.db, name);
    let used_seconds = read_seconds.max(entry.written_micros() / 1_000_000);
    (context.now_ms / 1000).saturating_sub(used_seconds)
}

fn object_refcount(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if let Some(entry) = object(context, arguments) {
        context.reply.integer(reference_count(&entry));
    }
    Ok(())
}

/// The count that Redis would report: it keeps the small integers once for all keys, and calls that
/// 2^31 - 1 references.
pub fn reference_count(entry: &Entry) -> i64 {
    let is_integer = entry.kind == Kind::String && string_encoding(entry) == "int";
    let is_shared = is_integer && parse::integer(entry.payload()).is_some_and(|value| SHARED_INTEGERS.contains(&value));
    if is_shared { i64::from(i32::MAX) } else { 1 }
}

const SHARED_INTEGERS: std::ops::Range<i64> = 0..10_000;
