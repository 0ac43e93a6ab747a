//! FUNCTION and FCALL: libraries of Lua functions that are part of the database.

use quartet_engine::PartitionGuard;
use quartet_wire_rdb::functions as payload;
use quartet_wire_resp::{Arguments, Reply};

use super::interpreter::{Chunk, Host, with_interpreter};
use super::libraries::{self, Existing, StoredFunction, StoredLibrary};
use super::registration::{BAD_NAME, is_name};
use super::{EVAL_FLAGS, EVAL_RO_FLAGS, Run, SCRIPT_KEYS, is_flush_mode, kill, split};
use crate::commands::help;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::handler::groups::Groups;
use crate::scripting::scripts::{FLAGS, sha1, words};
use crate::{command::glob, command::parse};

const FAMILY: Family = Family::of(Group::Scripting)
    .since("7.0.0")
    .complexity("O(N) in the number of functions");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("fcall", -3, EVAL_FLAGS, "Runs a function of a library as one transaction.", Nests(fcall)).keys(SCRIPT_KEYS).complexity("Depends on the function that is executed."),
    FAMILY.row("fcall_ro", -3, EVAL_RO_FLAGS, "Runs a function that only reads.", Nests(fcall_ro)).keys(SCRIPT_KEYS).complexity("Depends on the function that is executed."),
    container("function", Group::Scripting, "7.0.0", "A container for commands about libraries of functions.", &[
        FAMILY.row("function|load", -3, WRITE | DENYOOM | NOSCRIPT, "Loads a library of functions.", Answers(function_load)).complexity("O(1) beside what the library's code does"),
        FAMILY.row("function|delete", 3, WRITE | NOSCRIPT, "Removes a library and its functions.", Answers(function_delete)).complexity("O(N) in the number of its functions"),
        FAMILY.row("function|flush", -2, WRITE | NOSCRIPT, "Removes all libraries.", Answers(function_flush)),
        FAMILY.row("function|list", -2, NOSCRIPT, "Lists libraries and their functions.", Answers(function_list)),
        FAMILY.row("function|dump", 2, NOSCRIPT, "Serializes all libraries.", Answers(function_dump)),
        FAMILY.row("function|restore", -3, WRITE | DENYOOM | NOSCRIPT, "Loads the libraries of a serialized payload.", Answers(function_restore)),
        FAMILY.row("function|kill", 2, NOSCRIPT | ALLOW_BUSY, "Ends the function that is running, if it has not written yet.", Answers(function_kill)).complexity("O(1)"),
        FAMILY.row("function|stats", 2, NOSCRIPT | ALLOW_BUSY, "Tells about the running function and the number of libraries.", Answers(function_stats)).complexity("O(1)"),
        help::help_command("function|help", Group::Scripting, "7.0.0"),
    ]),
];

/// A library's first line, and its Lua code.
struct Source<'a> {
    name: String,
    lua: &'a [u8],
}

fn read_source(code: &[u8]) -> Result<Source<'_>, String> {
    if !code.starts_with(b"#!") {
        return Err("Missing library metadata".into());
    }
    let end = code.iter().position(|&byte| byte == b'\n');
    let end = end.ok_or("Invalid library metadata")?;
    let words = words(&code[..end]).ok_or("Invalid library metadata")?;
    let (engine, words) = words.split_first().ok_or("Invalid library metadata")?;
    let engine = &engine[2..];
    let mut name = None;
    for word in words {
        match word.split_once('=') {
            Some((key, value)) if key.eq_ignore_ascii_case("name") => {
                if name.replace(value).is_some() {
                    return Err("Invalid metadata value, name argument was given multiple times".into());
                }
            }
            _ => return Err(format!("Invalid metadata value given: {word}")),
        }
    }
    let name = name.ok_or("Library name was not given")?;
    if !is_name(name.as_bytes()) {
        return Err(BAD_NAME.into());
    }
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(format!("Engine '{engine}' not found"));
    }
    Ok(Source {
        name: name.to_owned(),
        lua: &code[end..],
    })
}

/// Compiles a library and has it register its functions. The error is the reply's text without its
/// code.
fn compile(groups: Groups<'_>, code: &[u8]) -> Result<StoredLibrary, String> {
    let source = read_source(code)?;
    let digest = sha1(code);
    let marked = groups.scripting().library_mark.on(&digest);
    let version = groups.process().identity.redis_version;
    let loaded = with_interpreter(version, |interpreter| {
        interpreter.load_library(&marked, source.lua, &Host::of(groups))
    })?;
    let functions = loaded.functions.iter().map(|function| StoredFunction {
        name: function.name.clone(),
        description: function.description.clone(),
        flags: function.flags,
    });
    let functions: Vec<_> = functions.collect();
    if functions.is_empty() {
        return Err("No functions registered".into());
    }
    Ok(StoredLibrary {
        name: source.name,
        digest,
        code: code.to_vec(),
        functions,
    })
}

fn error(text: String) -> ErrorReply {
    ErrorReply::from(format!("ERR {}", text.replace(['\r', '\n'], " ")))
}

fn function_load(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let code_at = arguments.len() - 1;
    let mut existing = Existing::Kept;
    for option in arguments.iter().take(code_at).skip(2) {
        if !parse::is(option, "replace") {
            let option = String::from_utf8_lossy(option);
            return Err(format!("ERR Unknown option given: {option}").into());
        }
        existing = Existing::Replaced;
    }
    let code = &arguments[code_at];
    let name = read_source(code).map_err(error)?.name;
    if existing == Existing::Kept && libraries::find(context.tx, name.as_bytes()).is_some() {
        return Err(format!("ERR Library '{name}' already exists").into());
    }
    let library = compile(context.groups, code).map_err(error)?;
    libraries::join(context.tx, &[library], existing).map_err(error)?;
    context.reply.bulk(name.as_bytes());
    Ok(())
}

fn function_delete(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let library = libraries::find(context.tx, &arguments[2]).ok_or("ERR Library not found")?;
    library.remove(context.tx);
    context.reply.ok();
    Ok(())
}

fn function_flush(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.len() > 3 {
        return Err("ERR unknown subcommand or wrong number of arguments for 'flush'. Try FUNCTION HELP.".into());
    }
    if !is_flush_mode(arguments) {
        return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into());
    }
    libraries::clear(context.tx);
    context.reply.ok();
    Ok(())
}

fn function_list(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (mut with_code, mut pattern) = (false, None);
    let mut words = arguments.iter().skip(2);
    while let Some(word) = words.next() {
        if !with_code && parse::is(word, "withcode") {
            with_code = true;
        } else if pattern.is_none() && parse::is(word, "libraryname") {
            pattern = Some(words.next().ok_or("ERR library name argument was not given")?);
        } else {
            let word = String::from_utf8_lossy(word);
            return Err(format!("ERR Unknown argument {word}").into());
        }
    }
    let mut libraries = libraries::all(context.tx);
    if let Some(pattern) = pattern {
        libraries.retain(|library| glob::matches_case(pattern, library.name.as_bytes(), true));
    }
    context.reply.array(libraries.len());
    for library in libraries {
        write_library(&mut context.reply, &library, with_code);
    }
    Ok(())
}

fn write_library(reply: &mut Reply<'_>, library: &StoredLibrary, with_code: bool) {
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(library.name.as_bytes());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(function.name.as_bytes());
        reply.bulk(b"description");
        match &function.description {
            Some(description) => reply.bulk(description.as_bytes()),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        let flags: Vec<&str> = FLAGS
            .iter()
            .filter(|(flag, _)| function.flags & flag != 0)
            .map(|(_, name)| *name)
            .collect();
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code);
    }
}

fn function_kill(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    kill(context.groups, true)?;
    context.reply.ok();
    Ok(())
}

fn function_stats(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let (library_count, function_count) = libraries::count(context.tx);
    write_stats(context.groups, library_count, function_count, &mut context.reply)
}

/// FUNCTION STATS while a long script holds the lock.
pub fn write_stats_of_running(groups: Groups<'_>, reply: &mut Reply<'_>) -> Result<(), ErrorReply> {
    let running = groups.scripting().long_scripts.running(groups.space().database);
    let (library_count, function_count) = running.map_or((0, 0), |script| script.library_counts);
    write_stats(groups, library_count, function_count, reply)
}

fn write_stats(
    groups: Groups<'_>,
    library_count: u64,
    function_count: u64,
    reply: &mut Reply<'_>,
) -> Result<(), ErrorReply> {
    let running = groups.scripting().long_scripts.running(groups.space().database);
    if running.as_ref().is_some_and(|script| !script.is_function) {
        return Err(super::busy(groups).into());
    }
    reply.map(2);
    reply.bulk(b"running_script");
    match running {
        None => reply.null(),
        Some(script) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(script.name.as_bytes());
            reply.bulk(b"command");
            reply.array(script.command.len());
            script.command.iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"duration_ms");
            let micros = groups.engine().now_micros().saturating_sub(script.started_micros);
            reply.integer((micros / 1000) as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(library_count as i64);
    reply.bulk(b"functions_count");
    reply.integer(function_count as i64);
    Ok(())
}

fn fcall(context: &mut Context<'_, '_>, arguments: Arguments<'_>, nested: Nested<'_>) -> Result<Outcome, ErrorReply> {
    call(context, arguments, nested, false)
}

fn fcall_ro(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    nested: Nested<'_>,
) -> Result<Outcome, ErrorReply> {
    call(context, arguments, nested, true)
}

/// The flags that a function declares, read before its command starts.
pub fn flags_of(groups: Groups<'_>, partition: &mut PartitionGuard<'_>, name: &[u8]) -> Option<u32> {
    let function = partition.execute(groups.space(), |tx| Ok::<_, ()>(libraries::find_function(tx, name)));
    let (entry, _) = function.ok()?;
    entry.map(|entry| entry.flags)
}

fn call(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    nested: Nested<'_>,
    read_only: bool,
) -> Result<Outcome, ErrorReply> {
    crate::handler::monitor::tell_monitors_of_script(context, arguments);
    let entry = libraries::find_function(context.tx, &arguments[1]).ok_or("ERR Function not found")?;
    let count = parse::integer(&arguments[2]).ok_or("ERR Bad number of keys provided")?;
    let (keys, values) = split(arguments, count)?;
    let run = Run {
        flags: entry.flags,
        read_only,
        keys,
        values,
        request: arguments,
        is_function: true,
        nested,
    };
    run.check(context)?;
    let name = String::from_utf8_lossy(&arguments[1]);
    let marked = context.scripting().library_mark.on(&entry.digest);
    let chunk = Chunk::Function {
        library: &marked,
        name: &name,
    };
    // This thread's interpreter may not have seen the library yet.
    let version = context.process().identity.redis_version;
    let library = if with_interpreter(version, |interpreter| interpreter.knows_library(&marked)) {
        None
    } else {
        libraries::find(context.tx, entry.library.as_bytes())
    };
    run.execute(context, &chunk, &mut |interpreter, host| {
        if let Some(library) = &library {
            let source = read_source(&library.code).map_err(error)?;
            interpreter.load_library(&marked, source.lua, host).map_err(error)?;
        }
        Ok(())
    })
}

fn function_dump(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let libraries = libraries::all(context.tx);
    let codes = libraries.iter().map(|library| library.code.as_slice());
    context.reply.bulk(&payload::dump(codes));
    Ok(())
}

fn function_restore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.len() > 4 {
        return Err("ERR unknown subcommand or wrong number of arguments for 'restore'. Try FUNCTION HELP.".into());
    }
    let existing = match arguments.get(3) {
        None => Existing::Kept,
        Some(word) if parse::is(word, "append") => Existing::Kept,
        Some(word) if parse::is(word, "replace") => Existing::Replaced,
        Some(word) if parse::is(word, "flush") => Existing::Flushed,
        Some(_) => {
            return Err("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.".into());
        }
    };
    let codes = payload::restore(&arguments[2])?;
    let mut added: Vec<StoredLibrary> = Vec::new();
    for code in codes {
        let library = compile(context.groups, &code).map_err(error)?;
        let exists = added.iter().any(|other| other.name == library.name);
        if exists {
            return Err(format!("ERR Library '{}' already exists", library.name).into());
        }
        added.push(library);
    }
    libraries::join(context.tx, &added, existing).map_err(error)?;
    context.reply.ok();
    Ok(())
}
