//! Commands about the server, one topic per file. This file has those with a reply of a line or
//! two.

pub(crate) mod acl;
mod arguments;
pub(crate) mod cluster;
pub(crate) mod command_docs;
pub(crate) mod command_log;
pub(crate) mod config;
pub(crate) mod debug;
mod deprecations;
mod digest;
mod info;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod persistence;
mod replicas;
pub(crate) mod slowlog;
mod tips;

use quartet_engine::Durability;
use quartet_wire_resp::{Arguments, Reply};

use crate::commands::help::help_command;
use crate::facts::REDIS_VERSION;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::layer::MODULES;
use crate::{command::errors, command::parse};

const REPLICATION: u32 = ADMIN | NOSCRIPT | STALE | NO_ASYNC_LOADING;

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    row("info", -1, LOADING | STALE | DANGEROUS, "1.0.0", "Returns facts and counters of the server, by section.", Answers(info::info)),
    row("time", 1, LOADING | STALE | FAST, "2.6.0", "Returns the time in seconds and microseconds.", Answers(time)),
    row("role", 1, NOSCRIPT | LOADING | STALE | FAST | ADMIN_CATEGORY, "2.8.12", "Returns the part of this server in replication.", Answers(replicas::role)),
    row("replicaof", 3, REPLICATION | NO_MULTI, "5.0.0", "Makes this server a replica of another, or of none.", Decides(replicas::replica_of)),
    row("slaveof", 3, REPLICATION | NO_MULTI, "1.0.0", "Makes this server a replica of another, or of none.", Decides(replicas::replica_of)),
    row("psync", -3, ADMIN | NOSCRIPT | NO_MULTI | NO_ASYNC_LOADING, "2.8.0", "Makes the connection a replica, from a position on.", Decides(replicas::psync)),
    row("sync", 1, ADMIN | NOSCRIPT | NO_MULTI | NO_ASYNC_LOADING, "1.0.0", "Makes the connection a replica.", Decides(replicas::sync)),
    row("replconf", -1, ADMIN | NOSCRIPT | LOADING | STALE | ALLOW_BUSY, "3.0.0", "Tells what a replica can do.", Answers(replicas::replconf)),
    wait_row("wait", 3, "3.0.0", "Returns how many replicas have this connection's writes.", Decides(wait)),
    wait_row("waitaof", 4, "7.2.0", "Returns on how many disks, here and at replicas, this connection's writes are.", Answers(wait_disk)),
    row("monitor", 1, ADMIN | NOSCRIPT | LOADING | STALE, "1.0.0", "Sends every command that the server runs to this connection.", Answers(monitor)),
    row("lolwut", -1, READONLY | FAST, "5.0.0", "Names the version.", Answers(lolwut)),
    container("module", Group::Server, "4.0.0", "Holds the commands about modules.", MODULE),
];

const MODULE: &[Definition] = &[
    help_command("module|help", Group::Server, "5.0.0"),
    row(
        "module|list",
        2,
        ADMIN | NOSCRIPT,
        "4.0.0",
        "Returns the modules whose commands are here.",
        Answers(module_list),
    ),
];

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    handler: Handler,
) -> Definition {
    entry(
        name,
        arity,
        flags,
        NO_KEYS,
        Group::Server,
        since,
        "O(1)",
        summary,
        handler,
    )
}

const fn wait_row(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    handler: Handler,
) -> Definition {
    entry(
        name,
        arity,
        NOSCRIPT | CONNECTION_CATEGORY,
        NO_KEYS,
        Group::Generic,
        since,
        "O(1)",
        summary,
        handler,
    )
}

fn time(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let now_micros = context.tx.now_micros();
    context.reply.array(2);
    context.reply.bulk((now_micros / 1_000_000).to_string().as_bytes());
    context.reply.bulk((now_micros % 1_000_000).to_string().as_bytes());
    Ok(())
}

/// Everything that is committed counts, also what others have written.
fn wait(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let count = parse::required_integer(&arguments[1])?;
    check_timeout(&arguments[2])?;
    let timeout_ms = parse::required_integer(&arguments[2])? as u64;
    let replicas = replicas::replicas_at(context, context.replication().end());
    let may_wait = !context.in_exec && context.replication().is_on();
    let count = u64::try_from(count).unwrap_or(0);
    if replicas >= count || !may_wait {
        context.reply.integer(replicas as i64);
        return Ok(Outcome::Done);
    }
    Ok(Outcome::After(Deferred::AwaitReplicas { count, timeout_ms }))
}

/// Under `always` every earlier reply of this connection has waited for the disk; under the other
/// modes nothing is promised.
fn wait_disk(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let local = parse::required_integer(&arguments[1])?;
    if !(0..=1).contains(&local) {
        return Err("ERR value is out of range, value must between 0 and 1".into());
    }
    if parse::integer(&arguments[2]).is_none_or(|replicas| replicas < 0) {
        return Err(errors::OUT_OF_RANGE_POSITIVE.into());
    }
    check_timeout(&arguments[3])?;
    context.reply.array(2);
    let is_durable = context.space().durability == Durability::Always;
    context.reply.integer(is_durable.into());
    context.reply.integer(0);
    Ok(())
}

fn check_timeout(text: &[u8]) -> Result<(), ErrorReply> {
    let timeout_ms = parse::integer(text).ok_or("ERR timeout is not an integer or out of range")?;
    if timeout_ms < 0 {
        return Err(errors::TIMEOUT_NEGATIVE.into());
    }
    Ok(())
}

fn monitor(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    if context.in_exec {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    context.connections().clients.set_monitor(&context.client.shared, true);
    context.reply.ok();
    Ok(())
}

fn lolwut(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let quartet_version = &context.process().identity.quartet_version;
    let text = format!("Redis ver. {REDIS_VERSION}\nQuartet ver. {quartet_version}\n");
    context.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn module_list(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    write_modules(&mut context.reply);
    Ok(())
}

/// The modules whose commands are here, as HELLO and MODULE LIST name them.
pub fn write_modules(reply: &mut Reply<'_>) {
    reply.array(MODULES.len());
    for (name, version) in MODULES {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(name.as_bytes());
        reply.bulk(b"ver");
        reply.integer(*version);
        reply.bulk(b"path");
        reply.bulk(b"");
        reply.bulk(b"args");
        reply.array(0);
    }
}

#[cfg(test)]
mod tests;
