//! SLOWLOG: the latest commands that took long.

use quartet_wire_resp::{Arguments, Reply};

use crate::command::parse;
use crate::commands::help::help_command;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::observation::slowlog::Slowlog;

pub const COMMANDS: &[Definition] = &[container(
    "slowlog",
    Group::Server,
    "2.2.12",
    "Holds the commands about the log of slow commands.",
    SUBCOMMANDS,
)];

const FAMILY: Family = Family::of(Group::Server)
    .since("2.2.12")
    .complexity("O(N) in the number of entries");

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    FAMILY.row("slowlog|get", -2, ADMIN | LOADING | STALE, "Returns the latest slow commands: ten, or as many as asked for.", Answers(get)),
    help_command("slowlog|help", Group::Server, "6.2.0"),
    FAMILY.row("slowlog|len", 2, ADMIN | LOADING | STALE, "Returns how many slow commands are kept.", Answers(len)),
    FAMILY.row("slowlog|reset", 2, ADMIN | LOADING | STALE, "Forgets the slow commands.", Answers(reset)),
];

fn get(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    const RANGE: &str = "ERR count should be greater than or equal to -1";
    let count = match arguments.get(2) {
        _ if arguments.len() > 3 => return Err("ERR wrong number of arguments for 'slowlog|get' command".into()),
        None => 10,
        Some(count) => parse::integer(count).filter(|count| *count >= -1).ok_or(RANGE)?,
    };
    let slowlog = context.observation().slowlog.lock();
    write_entries(&mut context.reply, &slowlog, count);
    Ok(())
}

/// The latest `count` entries of a log; below zero: all.
pub fn write_entries(reply: &mut Reply<'_>, log: &Slowlog, count: i64) {
    let entry_count = usize::try_from(count).unwrap_or(usize::MAX).min(log.entries.len());
    reply.array(entry_count);
    for entry in log.entries.iter().take(entry_count) {
        reply.array(6);
        reply.integer(entry.id as i64);
        reply.integer(entry.at_seconds as i64);
        reply.integer(entry.measure as i64);
        reply.array(entry.arguments.len());
        entry.arguments.iter().for_each(|argument| reply.bulk(argument));
        reply.bulk(entry.client_address.as_bytes());
        reply.bulk(entry.client_name.as_bytes());
    }
}

fn len(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context
        .reply
        .integer(context.observation().slowlog.lock().entries.len() as i64);
    Ok(())
}

fn reset(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context.observation().slowlog.lock().entries.clear();
    context.reply.ok();
    Ok(())
}
