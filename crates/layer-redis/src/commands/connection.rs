//! Commands about the connection itself.

use quartet_wire_resp::Arguments;

use crate::command::*;
use crate::context::Context;

pub const COMMANDS: &[Command] = &[command(
    "ping",
    -1,
    FAST | LOADING | STALE,
    NO_KEYS,
    Group::Connection,
    "1.0.0",
    "O(1)",
    "Answers PONG, or its argument.",
    ping,
)];

fn ping(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), Failure> {
    match arguments.get(1) {
        Some(_) if arguments.len() > 2 => return Err("ERR wrong number of arguments for 'ping' command".into()),
        Some(text) => context.reply.bulk(text),
        None => context.reply.simple("PONG"),
    }
    Ok(())
}
