//! Keys of any kind: removing, renaming, copying, iterating, inspecting.

use std::ops::ControlFlow;

use quartet_wire_resp::Arguments;

use crate::commands::help::help_command;
use crate::commands::{hashes, lists, sets, sorted_sets};
use crate::facts::DATABASES;
use crate::handler::caching;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::keyspace::scan::{self, Scan};
use crate::keyspace::{Elements, Entry, FLAG_A, Header, Keyspace, Kind, LARGE, clear_everything};
use crate::module::Modules;
use crate::{command::errors, command::glob, command::parse};

#[cfg(test)]
mod tests;

/// Names that KEYS looks at between two looks at the time.
const KEYS_BETWEEN_CHECKS: u32 = 256;

const FAMILY: Family = Family::of(Group::Generic);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("del", -2, WRITE, "Removes keys.", Answers(del)).keys(ALL_KEYS).complexity("O(N) in the number of keys; large collections go as one range"),
    FAMILY.row("unlink", -2, WRITE | FAST, "Removes keys; their memory is freed in the background.", Answers(del)).keys(ALL_KEYS).since("4.0.0").complexity("O(N) in the number of keys"),
    FAMILY.row("exists", -2, READONLY | FAST, "Counts which of the keys exist.", Answers(exists)).keys(ALL_KEYS).complexity("O(N) in the number of keys"),
    FAMILY.row("touch", -2, READONLY | FAST, "Counts which of the keys exist, which are used thereby.", Answers(touch)).keys(ALL_KEYS).since("3.2.1").complexity("O(N) in the number of keys"),
    FAMILY.row("type", 2, READONLY | FAST, "Tells what kind of value a key holds.", Answers(kind)).keys(ONE_KEY),
    FAMILY.row("rename", 3, WRITE | GROWS_A_LITTLE, "Gives a key another name, replacing a key that has it.", Answers(rename)).keys(TWO_KEYS),
    FAMILY.row("renamenx", 3, WRITE | FAST | GROWS_A_LITTLE, "Gives a key another name unless a key has it.", Answers(renamenx)).keys(TWO_KEYS),
    FAMILY.row("copy", -3, WRITE | DENYOOM, "Copies a key to another name or database.", Answers(copy)).keys(TWO_KEYS).since("6.2.0").complexity("O(N) in the size of a large collection"),
    FAMILY.row("move", 3, WRITE | FAST, "Moves a key to another database.", Answers(move_key)).keys(ONE_KEY),
    FAMILY.row("keys", 2, READONLY | DANGEROUS, "Lists the names that match a pattern.", Answers(keys)).complexity("O(N) in the number of keys"),
    FAMILY.row("scan", -2, READONLY, "Lists the names a page at a time.", Answers(scan_page)).since("2.8.0").complexity("O(1) for each key of the page"),
    FAMILY.row("randomkey", 1, READONLY, "Picks a name at random.", Answers(randomkey)).complexity("O(log N)"),
    FAMILY.row("dbsize", 1, READONLY | FAST | KEYSPACE_CATEGORY, "Counts the keys of the database.", Answers(dbsize)).group(Group::Server).complexity("O(log N)"),
    FAMILY.row("flushdb", -1, WRITE | DANGEROUS | KEYSPACE_CATEGORY, "Removes every key of the database.", Answers(flushdb)).group(Group::Server).complexity("O(N) in the number of expiring keys and large collections"),
    FAMILY.row("flushall", -1, WRITE | DANGEROUS | KEYSPACE_CATEGORY, "Removes every key of every database.", Answers(flushall)).group(Group::Server).complexity("O(log N)"),
    FAMILY.row("swapdb", 3, WRITE | FAST | DANGEROUS | KEYSPACE_CATEGORY, "Exchanges two databases.", Answers(swapdb)).group(Group::Server).since("4.0.0").complexity("O(N) in the number of keys of both databases"),
    container("object", Group::Generic, "2.2.3", "Looks behind a key.", &[
        FAMILY.row("object|encoding", 3, READONLY, "Names the encoding that Redis would report.", Answers(object_encoding)).keys(SECOND_KEY).since("2.2.3"),
        FAMILY.row("object|freq", 3, READONLY, "Tells how often the key was read of late, on a logarithmic scale.", Answers(object_freq)).keys(SECOND_KEY).since("4.0.0"),
        FAMILY.row("object|idletime", 3, READONLY, "Tells how many seconds ago the key was written.", Answers(object_idletime)).keys(SECOND_KEY).since("2.2.3"),
        FAMILY.row("object|refcount", 3, READONLY, "Answers the number of references that Redis would report.", Answers(object_refcount)).keys(SECOND_KEY).since("2.2.3"),
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
    let existing = arguments
        .iter()
        .skip(1)
        .filter(|name| context.look_at(name).is_some())
        .count();
    context.reply.integer(existing as i64);
    Ok(())
}

/// TOUCH updates the recency even for a connection with CLIENT NO-TOUCH.
fn touch(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mut existing = 0;
    for name in arguments.iter().skip(1) {
        if context.look_at(name).is_some() {
            context.eviction().recency.note(context.client.db, name, context.now_ms);
            existing += 1;
        }
    }
    context.reply.integer(existing);
    Ok(())
}

fn kind(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let modules = context.modules();
    let name = context
        .look_at(&arguments[1])
        .map_or("none", |entry| modules.type_name(&entry));
    context.reply.simple(name);
    Ok(())
}

fn rename(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (from, to) = (&arguments[1], &arguments[2]);
    let entry = context.keys().find(from).ok_or(errors::NO_SUCH_KEY)?;
    check_may_move(context.modules(), &entry)?;
    if from != to {
        rename_found(&mut context.keys(), from, to);
    }
    context.reply.ok();
    Ok(())
}

fn renamenx(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (from, to, modules) = (&arguments[1], &arguments[2], context.modules());
    let mut keys = context.keys();
    let entry = keys.find(from).ok_or(errors::NO_SUCH_KEY)?;
    check_may_move(modules, &entry)?;
    let is_free = keys.find(to).is_none();
    if is_free {
        rename_found(&mut keys, from, to);
    }
    context.reply.integer(i64::from(is_free));
    Ok(())
}

/// Keys of some modules stay under their names.
fn check_may_move(modules: &Modules, entry: &Entry) -> Result<(), ErrorReply> {
    modules.stays(entry.kind).map_or(Ok(()), |error| Err(error.into()))
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
    found
        .as_ref()
        .map_or(Ok(()), |entry| check_may_move(context.modules(), entry))?;
    let mut target = context.keys_of(to_db);
    let may_write = replace || target.find(to).is_none();
    let Some(entry) = found.filter(|_| may_write) else {
        context.reply.integer(0);
        return Ok(());
    };
    let elements = match entry.is_large() {
        true => entry.elements().count(context.tx, &[], None),
        false => 0,
    };
    if context.must_end_before(elements) {
        return Ok(());
    }
    write_copy(&mut context.keys_of(to_db), to, &entry);
    if let Some(copy) = context.keys_of(to_db).find(to).filter(Entry::is_large) {
        let data_type = context.modules().data_type(copy.kind);
        data_type.iter().for_each(|data_type| data_type.copied(context, &copy));
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
    found
        .as_ref()
        .map_or(Ok(()), |entry| check_may_move(context.modules(), entry))?;
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
    let mut names = context.gathered_list();
    if glob::literal_prefix(pattern) == pattern {
        if context.keys().find(pattern).is_some() {
            names.push(pattern);
        }
    } else {
        let (groups, mut looked_at) = (context.groups, 0);
        context.keys().scan_keys(&mut |name, _| {
            if glob::matches(pattern, name) {
                names.push(name);
            }
            looked_at += 1;
            let is_over = names.is_refused();
            match is_over
                || u32::is_multiple_of(looked_at, KEYS_BETWEEN_CHECKS) && groups.must_end(groups.engine().now_micros())
            {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        names.all()?.sort_unstable();
    }
    let names = names.all()?;
    context.reply.array(names.len());
    names.iter().for_each(|name| context.reply.bulk(name));
    Ok(())
}

fn scan_page(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let cursor = scan::cursor(&arguments[1])?;
    let options = scan::options(arguments.tail(2), Scan::Keys)?;
    let (mut names, modules) = (context.gathered_list(), context.modules());
    let mut visit = |name: &[u8], entry: Entry| {
        let has_kind = options.kind.is_none_or(|kind| {
            parse::is(kind, modules.type_name(&entry)) || parse::is(kind, upstash_name(modules, &entry))
        });
        if has_kind && options.matches(name) {
            names.push(name);
            if options.with_type {
                names.push(upstash_name(modules, &entry).as_bytes());
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
    scan::write_page(&mut context.reply, next, names.all()?);
    Ok(())
}

/// As SCAN with WITHTYPE names a type: JSON is no module's there.
fn upstash_name(modules: &Modules, entry: &Entry) -> &'static str {
    match entry.kind {
        Kind::Json => "json",
        _ => modules.type_name(entry),
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
        let key = keys.key_at(random.below(count));
        picked = key.filter(|(_, entry)| !keys.has_expired(entry)).map(|(name, _)| name);
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
            context
                .modules()
                .all()
                .iter()
                .for_each(|module| module.clear(context.tx));
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
        let keys = [first, second].map(|db| context.keys_of(db).key_count());
        if context.must_end_before(keys.iter().sum()) {
            return Ok(());
        }
        let (first_entries, second_entries) = (take_all(context, first), take_all(context, second));
        put_all(context, second, first_entries);
        put_all(context, first, second_entries);
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
    let entries = names
        .into_iter()
        .filter_map(|name| keys.take(&name).map(|entry| (name, entry)))
        .collect();
    // The rest has expired.
    keys.clear();
    entries
}

fn put_all(context: &mut Context<'_, '_>, db: u8, entries: Vec<(Vec<u8>, Entry)>) {
    let mut keys = context.keys_of(db);
    for (name, entry) in entries {
        keys.put(&name, Header::of(&entry), entry.payload());
    }
}

/// The key of an OBJECT subcommand; replies null if it is absent. Not counted as a read.
fn object(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Option<Entry> {
    let entry = context.keys().find(&arguments[2]);
    if entry.is_none() {
        context.reply.null();
    }
    entry
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
        Kind::Json | Kind::Module(_) => "raw",
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
