//! EVAL, EVALSHA, SCRIPT: Lua scripts, each one transaction.
//!
//! Effects of a script's commands stay even if the script fails afterwards, as in Redis; the log
//! has their effects, never the script. Keys that were not declared are keys like any other: the
//! whole partition is locked.

mod arguments;
mod bits;
mod bridge;
pub(crate) mod budget;
mod cjson;
mod cmsgpack;
mod conversion;
pub(crate) mod functions;
mod interpreter;
pub(crate) mod libraries;
mod numbers;
mod patterns;
mod registration;
mod stack;
mod strings;
mod structs;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use quartet_engine::PartitionGuard;
use quartet_model::hexadecimal;
use quartet_wire_resp::{Arguments, Protocol};
use smallvec::SmallVec;

use self::bridge::Bridge;
use self::budget::{Limit, Steps};
use self::conversion::{AnswerWriter, Unwritten};
pub use self::interpreter::drop_interpreter;
use self::interpreter::{Chunk, Host, Interpreter, RunEnd, with_interpreter};
use super::help;
use crate::connections::clients::ClientState;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::handler::groups::Groups;
use crate::scripting::long_scripts::{NotKilled, Outer, RunningScript};
use crate::scripting::scripts::{ALLOW_OOM, COMPATIBLE, Digest, NO_WRITES, Script, parse_digest, sha1};
use crate::{command::parse, handler::monitor};

const SCRIPT_KEYS: Keys = Keys::Counted { count: 2, also: 0 };
const EVAL_FLAGS: u32 = NOSCRIPT | SKIP_MONITOR | STALE | MOVABLE_KEYS | NO_MANDATORY_KEYS;
const EVAL_RO_FLAGS: u32 = NOSCRIPT | SKIP_MONITOR | STALE | MOVABLE_KEYS | NO_MANDATORY_KEYS | READONLY;

const FAMILY: Family = Family::of(Group::Scripting)
    .since("2.6.0")
    .complexity("Depends on the script that is executed.");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("eval", -3, EVAL_FLAGS, "Runs a Lua script as one transaction.", Nests(eval)).keys(SCRIPT_KEYS),
    FAMILY.row("eval_ro", -3, EVAL_RO_FLAGS, "Runs a Lua script that only reads.", Nests(eval_ro)).keys(SCRIPT_KEYS).since("7.0.0"),
    FAMILY.row("evalsha", -3, EVAL_FLAGS, "Runs a cached Lua script, named by its SHA-1 digest.", Nests(evalsha)).keys(SCRIPT_KEYS),
    FAMILY.row("evalsha_ro", -3, EVAL_RO_FLAGS, "Runs a cached Lua script that only reads.", Nests(evalsha_ro)).keys(SCRIPT_KEYS).since("7.0.0"),
    container("script", Group::Scripting, "2.6.0", "A container for commands about cached scripts.", &[
        FAMILY.row("script|load", 3, NOSCRIPT | STALE | GROWS, "Compiles a script and keeps it for EVALSHA.", Answers(script_load)).complexity("O(N) in the length of the script"),
        FAMILY.row("script|exists", -3, NOSCRIPT, "Tells which scripts are cached.", Answers(script_exists)).complexity("O(N) in the number of digests"),
        FAMILY.row("script|flush", -2, NOSCRIPT, "Forgets all cached scripts.", Answers(script_flush)).complexity("O(N) in the number of cached scripts"),
        FAMILY.row("script|kill", 2, NOSCRIPT | ALLOW_BUSY, "Ends the script that is running, if it has not written yet.", Answers(script_kill)).complexity("O(1)"),
        FAMILY.row("script|show", 3, NOSCRIPT, "Returns the text of a cached script.", Answers(script_show)).since("8.0.0").complexity("O(1)"),
        FAMILY.row("script|debug", 3, NOSCRIPT, "Sets the debug mode of scripts: there is none to set.", Answers(script_debug)).since("3.2.0").complexity("O(1)"),
        help::help_command("script|help", Group::Scripting, "5.0.0"),
    ]),
];

fn eval(context: &mut Context<'_, '_>, arguments: Arguments<'_>, nested: Nested<'_>) -> Result<Outcome, ErrorReply> {
    run_script(context, arguments, nested, find_or_add, false)
}

fn eval_ro(context: &mut Context<'_, '_>, arguments: Arguments<'_>, nested: Nested<'_>) -> Result<Outcome, ErrorReply> {
    run_script(context, arguments, nested, find_or_add, true)
}

fn evalsha(context: &mut Context<'_, '_>, arguments: Arguments<'_>, nested: Nested<'_>) -> Result<Outcome, ErrorReply> {
    run_script(context, arguments, nested, find_cached, false)
}

fn evalsha_ro(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    nested: Nested<'_>,
) -> Result<Outcome, ErrorReply> {
    run_script(context, arguments, nested, find_cached, true)
}

fn find_cached(groups: Groups<'_>, digest: &[u8]) -> Result<Arc<Script>, ErrorReply> {
    let script = parse_digest(digest).and_then(|digest| groups.scripting().scripts.find(&digest));
    script.ok_or(ErrorReply::new("NOSCRIPT No matching script. Please use EVAL."))
}

fn find_or_add(groups: Groups<'_>, body: &[u8]) -> Result<Arc<Script>, ErrorReply> {
    match groups.scripting().scripts.find_body(body) {
        Some(script) => Ok(script),
        None => add(groups, body, false),
    }
}

/// Compiles and keeps a script, unless it is known.
fn add(groups: Groups<'_>, body: &[u8], loaded: bool) -> Result<Arc<Script>, ErrorReply> {
    let digest = sha1(body);
    let script = match groups.scripting().scripts.find(&digest) {
        Some(script) if !loaded => return Ok(script),
        _ => Script::new(digest, body).map_err(|error| format!("ERR {error}"))?,
    };
    let version = groups.process().identity.redis_version;
    with_interpreter(version, |interpreter| interpreter.compile(&digest, script.source()))
        .map_err(|error| format!("ERR Error compiling script (new function): {}", one_line(&error)))?;
    groups
        .scripting()
        .scripts
        .add(script, loaded, Host::of(groups).bytes_max)
        .map_err(|error| format!("ERR {error}").into())
}

fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

type Words<'a> = SmallVec<[&'a [u8]; 4]>;

/// The keys and the other arguments, after the number at index 2.
fn split<'a>(arguments: Arguments<'a>, count: i64) -> Result<(Words<'a>, Words<'a>), ErrorReply> {
    if count > arguments.len() as i64 - 3 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    if count < 0 {
        return Err("ERR Number of keys can't be negative".into());
    }
    let mut words = arguments.iter().skip(3);
    let keys = words.by_ref().take(count as usize).collect();
    Ok((keys, words.collect()))
}

fn run_script(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    nested: Nested<'_>,
    find: fn(Groups<'_>, &[u8]) -> Result<Arc<Script>, ErrorReply>,
    read_only: bool,
) -> Result<Outcome, ErrorReply> {
    monitor::tell_monitors_of_script(context, arguments);
    let script = find(context.groups, &arguments[1])?;
    let count = parse::required_integer(&arguments[2])?;
    let (keys, values) = split(arguments, count)?;
    let run = Run {
        flags: script.flags,
        read_only,
        keys,
        values,
        request: arguments,
        is_function: false,
        nested,
    };
    run.check(context)?;
    run.execute(context, &Chunk::Script(&script.digest), &mut |interpreter, _| {
        interpreter
            .compile(&script.digest, script.source())
            .map_err(|error| ErrorReply::from(format!("ERR {error}")))
    })
}

/// One run of a script or a function.
pub(super) struct Run<'a> {
    flags: u32,
    /// Called by a command whose name ends in `_RO`.
    read_only: bool,
    keys: Words<'a>,
    values: Words<'a>,
    request: Arguments<'a>,
    is_function: bool,
    nested: Nested<'a>,
}

impl Run<'_> {
    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The refusals of a script that declares flags, before it starts (`scriptPrepareForRun`).
    fn check(&self, context: &Context<'_, '_>) -> Result<(), ErrorReply> {
        if self.has(COMPATIBLE) {
            return Ok(());
        }
        if !self.has(NO_WRITES) {
            if self.read_only {
                return Err("ERR Can not execute a script with write flag using *_ro command.".into());
            }
            if context.lacks_replicas() {
                return Err("NOREPLICAS Not enough good replicas to write.".into());
            }
        }
        if !self.has(ALLOW_OOM | NO_WRITES) && context.is_out_of_memory() {
            return Err(
                "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'".into(),
            );
        }
        Ok(())
    }

    /// Runs `chunk`, which `prepare` makes known to the interpreter, and writes its answer.
    fn execute(
        &self,
        context: &mut Context<'_, '_>,
        chunk: &Chunk<'_>,
        prepare: &mut dyn FnMut(&mut Interpreter, &Host<'_>) -> Result<(), ErrorReply>,
    ) -> Result<Outcome, ErrorReply> {
        let groups = context.groups;
        let host = Host::of(groups);
        let version = groups.process().identity.redis_version;
        with_interpreter(version, |interpreter| {
            prepare(interpreter, &host)?;
            let (limit, outer) = self.limit(context, chunk);
            let mut bridge = self.bridge(context, interpreter);
            let end = interpreter.run(chunk, &host, limit, &mut bridge);
            let protocol = bridge.client.protocol;
            let slept_micros = bridge.client.sleep_micros;
            let (plain, buffers) = (bridge.answer, bridge.buffers);
            if let (RunEnd::Plain, Some(plain)) = (&end, plain) {
                plain.write(&buffers, &mut context.reply);
            }
            interpreter.buffers = buffers.kept();
            context.client.sleep_micros += slept_micros;
            let answered = self.answer(context, interpreter, end, protocol, host.bytes_max);
            interpreter.budget.end();
            if let Some(outer) = outer {
                groups.scripting().long_scripts.end(outer);
            }
            answered
        })
    }

    /// Time limit of the script, and, if it is long, the previous long run around it.
    fn limit(&self, context: &mut Context<'_, '_>, chunk: &Chunk<'_>) -> (Limit, Option<Outer>) {
        let groups = context.groups;
        if !context.client.may_take_long {
            return (Limit::Short, None);
        }
        let scripts = groups.scripting().long_scripts.clone();
        let outer = scripts.begin(RunningScript {
            database: groups.space().database,
            name: chunk.name(),
            is_function: self.is_function,
            command: self.request.iter().map(<[u8]>::to_vec).collect(),
            started_micros: groups.engine().now_micros(),
            library_counts: libraries::count(context.tx),
        });
        let limit = Limit::Long {
            scripts,
            bounds: groups.long_bounds(),
        };
        (limit, Some(outer))
    }

    fn bridge<'a, 't>(&'a self, context: &'a mut Context<'_, 't>, interpreter: &mut Interpreter) -> Bridge<'a, 't, 'a> {
        let mut client = ClientState::new(context.client.shared.clone(), true, context.client.user.clone());
        client.db = context.client.db;
        client.caching = context.client.caching;
        client.is_script = true;
        client.is_upstream = context.client.is_upstream;
        let declares = !self.has(COMPATIBLE);
        Bridge {
            read_only: self.read_only || declares && self.has(NO_WRITES),
            out_of_memory: !(declares && self.has(ALLOW_OOM)) && context.is_out_of_memory(),
            long: context
                .client
                .may_take_long
                .then(|| context.scripting().long_scripts.clone()),
            groups: context.groups,
            client,
            now_ms: context.now_ms,
            has_written: false,
            nested: self.nested,
            keys: &self.keys,
            values: &self.values,
            answer: None,
            lua: interpreter.lua.clone(),
            bytes_max: interpreter.bytes_max.clone(),
            budget: interpreter.budget.clone(),
            buffers: std::mem::take(&mut interpreter.buffers),
            tx: context.tx,
        }
    }

    fn answer(
        &self,
        context: &mut Context<'_, '_>,
        interpreter: &Interpreter,
        end: RunEnd,
        script_protocol: Protocol,
        bytes_max: usize,
    ) -> Result<Outcome, ErrorReply> {
        let value = match end {
            RunEnd::Plain => return Ok(Outcome::Done),
            RunEnd::Answer(value) => value,
            other => return without_answer(other, context.in_exec),
        };
        if let mlua::Value::Table(table) = &value
            && let Ok(mlua::Value::String(text)) = table.raw_get(&interpreter.fields.err)
        {
            let counted = table.raw_get(&interpreter.fields.ignore_error_stats_update);
            let is_counted = matches!(counted, Ok(mlua::Value::Boolean(true)));
            return Err(kept(one_line(&text.to_string_lossy()), is_counted));
        }
        let mark = context.reply.mark();
        let mut writer = AnswerWriter {
            fields: &interpreter.fields,
            script_protocol,
            end: mark.saturating_add(bytes_max),
            values_left: budget::values_max(&interpreter.lua),
            reply: &mut context.reply,
            steps: Steps::of(&interpreter.budget),
            errors: Vec::new(),
        };
        let unwritten = match writer.value(&value, 0) {
            Ok(()) => {
                for error in writer.errors {
                    context.observation().statistics.error_sent(&error);
                }
                return Ok(Outcome::Done);
            }
            Err(unwritten) => unwritten,
        };
        context.reply.take_back(mark);
        match unwritten {
            Unwritten::TooDeep => Err(taken_back(TOO_DEEP, context.in_exec)),
            Unwritten::TooLarge => Err(taken_back(context.groups.reply_is_full(), context.in_exec)),
            Unwritten::Stopped => {
                let stop = interpreter.budget.stopped().expect("a run that was stopped");
                without_answer(RunEnd::of_stop(stop, ""), context.in_exec)
            }
            Unwritten::Failed(error) => Err(kept(format!("ERR {}", one_line(&error.to_string())), false)),
        }
    }
}

const TOO_LONG: &str = "ERR max script duration exceeded: the script was ended";
const TOO_DEEP: &str = "ERR reached lua stack limit";

/// The outcome of a run that ended without an answer.
fn without_answer(end: RunEnd, in_exec: bool) -> Result<Outcome, ErrorReply> {
    match end {
        RunEnd::Plain | RunEnd::Answer(_) => unreachable!("a run with an answer"),
        RunEnd::LongRunning => Ok(Outcome::RunLong),
        RunEnd::TooLong => Err(taken_back(TOO_LONG, in_exec)),
        RunEnd::Failed { text, counted } => Err(kept(text, counted)),
    }
}

/// An error of the script itself: what it did before stays.
fn kept(text: String, is_counted: bool) -> ErrorReply {
    ErrorReply {
        is_counted,
        ..ErrorReply::from(text).keeping_effects()
    }
}

/// An error that nothing of the script outlives. In a transaction what came before it cannot be
/// taken back, so there what the script did stays as well.
fn taken_back(error: impl Into<ErrorReply>, in_exec: bool) -> ErrorReply {
    ErrorReply {
        keeps_effects: in_exec,
        ..error.into()
    }
}

fn script_load(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let script = add(context.groups, &arguments[2], true)?;
    context.reply.bulk(hexadecimal(&script.digest).as_bytes());
    Ok(())
}

fn script_exists(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    context.reply.array(arguments.len() - 2);
    for digest in arguments.iter().skip(2) {
        let exists = find_cached(context.groups, digest).is_ok();
        context.reply.integer(i64::from(exists));
    }
    Ok(())
}

/// Valkey's own, since its version 8.
fn script_show(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let script = find_cached(context.groups, &arguments[2])?;
    context.reply.bulk(&script.body);
    Ok(())
}

fn script_flush(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if !is_flush_mode(arguments) {
        return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into());
    }
    context.scripting().scripts.flush();
    // Each thread's interpreter has compiled them.
    (context.process().purge)();
    context.reply.ok();
    Ok(())
}

/// Returns true for no mode or a known one; how memory is freed makes no difference here.
fn is_flush_mode(arguments: Arguments<'_>) -> bool {
    let mode = arguments.get(2);
    let is_known = mode.is_none_or(|mode| mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async"));
    is_known && arguments.len() <= 3
}

fn script_kill(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    kill(context.groups, false)?;
    context.reply.ok();
    Ok(())
}

/// Ends the long script, if that may be. Needs no lock: the script holds it.
pub fn kill(groups: Groups<'_>, is_function: bool) -> Result<(), ErrorReply> {
    groups.scripting().long_scripts.kill(groups.space().database, is_function).map_err(|why| match why {
        NotKilled::NotBusy => "NOTBUSY No scripts in execution right now.".into(),
        NotKilled::HasWritten => "UNKILLABLE Sorry the script already executed write commands against the dataset. \
             You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
            .into(),
        NotKilled::OtherKind => busy(groups).into(),
    })
}

/// The error for all other requests while a script runs for too long.
pub fn busy(groups: Groups<'_>) -> &'static str {
    let running = groups.scripting().long_scripts.running(groups.space().database);
    if running.is_some_and(|script| script.is_function) {
        "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
    } else {
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
    }
}

/// There is no debugger; clients that switch it off get OK.
fn script_debug(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mode = &arguments[2];
    if mode.eq_ignore_ascii_case(b"no") {
        context.reply.ok();
        return Ok(());
    }
    if mode.eq_ignore_ascii_case(b"yes") || mode.eq_ignore_ascii_case(b"sync") {
        return Err("ERR the script debugger is not supported".into());
    }
    Err("ERR Use SCRIPT DEBUG YES/SYNC/NO".into())
}

/// Returns whether a command that runs a script may write, according to its flags.
pub fn declares_no_writes(
    groups: Groups<'_>,
    partition: Option<&mut PartitionGuard<'_>>,
    command: &Command,
    arguments: Arguments<'_>,
) -> bool {
    let flags = match command.name {
        "eval" => match groups.scripting().scripts.find_body(&arguments[1]) {
            Some(script) => Some(script.flags),
            None => Script::new(Digest::default(), &arguments[1])
                .ok()
                .map(|script| script.flags),
        },
        "evalsha" => find_cached(groups, &arguments[1]).ok().map(|script| script.flags),
        "fcall" => partition.and_then(|partition| functions::flags_of(groups, partition, &arguments[1])),
        _ => None,
    };
    flags.is_some_and(|flags| flags & COMPATIBLE == 0 && flags & NO_WRITES != 0)
}
