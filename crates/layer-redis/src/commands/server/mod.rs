//! Commands about the server, one topic per file. This file has those with a reply of a line or
//! two.

pub(crate) mod acl;
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
pub(crate) mod replicas;
pub(crate) mod slowlog;
mod tips;
pub(crate) mod unstored_users;

use quartet_engine::Durability;
use quartet_wire_resp::{Arguments, Reply};

use crate::command_set::Commands;
use crate::commands::help::help_command;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::{command::errors, command::parse};

const REPLICATION: u32 = ADMIN | NOSCRIPT | STALE | NO_ASYNC_LOADING;

const FAMILY: Family = Family::of(Group::Server);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("info", -1, LOADING | STALE | DANGEROUS, "Returns facts and counters of the server, by section.", Answers(info::info)),
    FAMILY.row("time", 1, LOADING | STALE | FAST, "Returns the time in seconds and microseconds.", Answers(time)).since("2.6.0"),
    FAMILY.row("role", 1, NOSCRIPT | LOADING | STALE | FAST | ADMIN_CATEGORY, "Returns the part of this server in replication.", Answers(replicas::role)).since("2.8.12"),
    FAMILY.row("replicaof", 3, REPLICATION | NO_MULTI, "Makes this server a replica of another, or of none.", Decides(replicas::replica_of)).since("5.0.0"),
    FAMILY.row("slaveof", 3, REPLICATION | NO_MULTI, "Makes this server a replica of another, or of none.", Decides(replicas::replica_of)),
    FAMILY.row("failover", -1, ADMIN | NOSCRIPT | STALE, "Refused: REPLICAOF promotes a replica.", Answers(replicas::failover)).since("6.2.0"),
    FAMILY.row("psync", -3, ADMIN | NOSCRIPT | NO_MULTI | NO_ASYNC_LOADING, "Makes the connection a replica, from a position on.", Decides(replicas::psync)).since("2.8.0"),
    FAMILY.row("sync", 1, ADMIN | NOSCRIPT | NO_MULTI | NO_ASYNC_LOADING, "Makes the connection a replica.", Decides(replicas::sync)),
    FAMILY.row("replconf", -1, ADMIN | NOSCRIPT | LOADING | STALE | ALLOW_BUSY, "Tells what a replica can do.", Answers(replicas::replconf)).since("3.0.0"),
    FAMILY.row("wait", 3, BLOCKING | CONNECTION_CATEGORY, "Returns how many replicas have this connection's writes.", Decides(wait)).group(Group::Generic).since("3.0.0"),
    FAMILY.row("waitaof", 4, BLOCKING | CONNECTION_CATEGORY, "Returns on how many disks, here and at replicas, this connection's writes are.", Decides(wait_disk)).group(Group::Generic).since("7.2.0"),
    FAMILY.row("monitor", 1, ADMIN | NOSCRIPT | LOADING | STALE, "Sends every command that the server runs to this connection.", Answers(monitor)),
    FAMILY.row("lolwut", -1, READONLY | FAST, "Names the version.", Answers(lolwut)).since("5.0.0"),
    container("module", Group::Server, "4.0.0", "Holds the commands about modules.", MODULE),
];

#[rustfmt::skip]
const MODULE: &[Definition] = &[
    help_command("module|help", Group::Server, "5.0.0"),
    FAMILY.row("module|list", 2, ADMIN | NOSCRIPT, "Returns the modules whose commands are here.", Answers(module_list)).since("4.0.0"),
];

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
    let replicas = context.groups.replicas_at(context.replication().end(), false);
    let may_wait = !context.in_exec && context.replication().is_on();
    let count = u64::try_from(count).unwrap_or(0);
    if replicas >= count || !may_wait {
        context.reply.integer(replicas as i64);
        return Ok(Outcome::Done);
    }
    Ok(Outcome::After(Deferred::AwaitReplicas(ReplicaWait {
        count,
        timeout_ms,
        disks: None,
    })))
}

/// Under `always` every earlier reply of this connection has waited for the disk.
fn wait_disk(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let local = parse::required_integer(&arguments[1])?;
    if !(0..=1).contains(&local) {
        return Err("ERR value is out of range, value must between 0 and 1".into());
    }
    let count = parse::integer(&arguments[2]).and_then(|count| u64::try_from(count).ok());
    let count = count.ok_or(errors::OUT_OF_RANGE_POSITIVE)?;
    check_timeout(&arguments[3])?;
    let timeout_ms = parse::required_integer(&arguments[3])? as u64;
    let is_durable = context.space().durability == Durability::Always;
    let replicas = context.groups.replicas_at(context.replication().end(), true);
    let is_reached = replicas >= count && (is_durable || local == 0);
    if is_reached || context.in_exec {
        context.reply.array(2);
        context.reply.integer(is_durable.into());
        context.reply.integer(replicas as i64);
        return Ok(Outcome::Done);
    }
    Ok(Outcome::After(Deferred::AwaitReplicas(ReplicaWait {
        count,
        timeout_ms,
        disks: Some(Disks { with_own: local == 1 }),
    })))
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
    let identity = &context.process().identity;
    let (redis, quartet) = (identity.redis_version.text(), &identity.quartet_version);
    let text = format!("Redis ver. {redis}\nQuartet ver. {quartet}\n");
    context.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn module_list(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    write_modules(context.commands(), &mut context.reply);
    Ok(())
}

/// The modules of the table's commands, as HELLO and MODULE LIST name them.
pub fn write_modules(commands: &Commands, reply: &mut Reply<'_>) {
    reply.array(commands.module_names().count());
    for (name, version) in commands.module_names() {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(name.as_bytes());
        reply.bulk(b"ver");
        reply.integer(version);
        reply.bulk(b"path");
        reply.bulk(b"");
        reply.bulk(b"args");
        reply.array(0);
    }
}

#[cfg(test)]
mod tests;
