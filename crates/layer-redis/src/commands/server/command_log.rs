//! COMMANDLOG, as in Valkey: slow commands, which are also SLOWLOG's, and commands with a large
//! request or reply.

use parking_lot::Mutex;
use quartet_wire_resp::Arguments;

use super::slowlog::write_entries;
use crate::command::parse;
use crate::commands::help::help_command;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::layer::Observation;
use crate::observation::slowlog::Slowlog;

pub const COMMANDS: &[Definition] = &[container(
    "commandlog",
    Group::Server,
    "8.1.0",
    "Holds the commands about the logs of slow and large commands.",
    SUBCOMMANDS,
)];

const FAMILY: Family = Family::of(Group::Server)
    .since("8.1.0")
    .complexity("O(N) in the number of entries");

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    FAMILY.row("commandlog|get", 4, ADMIN | LOADING | STALE, "Returns the latest entries of a log.", Answers(get)),
    help_command("commandlog|help", Group::Server, "8.1.0"),
    FAMILY.row("commandlog|len", 3, ADMIN | LOADING | STALE, "Returns how many entries a log has.", Answers(len)).complexity("O(1)"),
    FAMILY.row("commandlog|reset", 3, ADMIN | LOADING | STALE, "Forgets the entries of a log.", Answers(reset)),
];

fn log_of<'l>(observation: &'l Observation, kind: &[u8]) -> Result<&'l Mutex<Slowlog>, ErrorReply> {
    match kind {
        kind if parse::is(kind, "slow") => Ok(&observation.slowlog),
        kind if parse::is(kind, "large-request") => Ok(&observation.large_requests),
        kind if parse::is(kind, "large-reply") => Ok(&observation.large_replies),
        _ => Err("ERR type should be one of the following: slow, large-request, large-reply".into()),
    }
}

fn get(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    const RANGE: &str = "ERR count should be greater than or equal to -1";
    let count = parse::integer(&arguments[2])
        .filter(|count| *count >= -1)
        .ok_or(RANGE)?;
    let log = log_of(context.observation(), &arguments[3])?;
    write_entries(&mut context.reply, &log.lock(), count);
    Ok(())
}

fn len(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let log = log_of(context.observation(), &arguments[2])?;
    context.reply.integer(log.lock().entries.len() as i64);
    Ok(())
}

fn reset(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    log_of(context.observation(), &arguments[2])?.lock().entries.clear();
    context.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    #[test]
    fn large_requests_and_replies_are_logged() {
        let mut connection = Fixture::new().connect();
        connection.check(
            "CONFIG SET commandlog-request-larger-than 200 commandlog-reply-larger-than 100 => OK
             CONFIG SET commandlog-large-reply-max-len 2 commandlog-execution-slower-than -1 => OK
             CONFIG GET slowlog-log-slower-than => [slowlog-log-slower-than -1]",
        );
        let value = "x".repeat(300);
        connection.run(&["SET", "k", &value]);
        for _ in 0..3 {
            connection.run(&["GET", "k"]);
        }
        connection.check(
            "COMMANDLOG LEN slow => 0
             COMMANDLOG LEN large-request => 1
             COMMANDLOG LEN large-reply => 2
             COMMANDLOG GET 1 large-reply => [[2 1700000000 308 [GET k] 127.0.0.1:1 ]]
             COMMANDLOG RESET large-reply => OK
             COMMANDLOG LEN large-reply => 0
             COMMANDLOG GET -2 slow => !ERR count should be greater than or equal to -1
             COMMANDLOG LEN fast => !ERR type should be one of the following: slow, large-request, large-reply",
        );
    }
}
