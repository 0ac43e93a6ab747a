//! Strings: the key's payload is the value itself.

use quartet_wire_resp::Arguments;

use crate::command::*;
use crate::context::Context;
use crate::keyspace::{Header, Kind};

pub const COMMANDS: &[Command] = &[
    command("get", 2, READONLY | FAST, ONE_KEY, Group::String, "1.0.0", "O(1)", "Returns the string value of a key.", get),
    command("set", -3, WRITE | DENYOOM, ONE_KEY, Group::String, "1.0.0", "O(1)", "Sets the string value of a key.", set),
];

fn get(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), Failure> {
    match context.read_kind(&arguments[1], Kind::String)? {
        Some(entry) => context.reply.bulk(entry.payload()),
        None => context.reply.null(),
    }
    Ok(())
}

fn set(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), Failure> {
    context.keys().put(&arguments[1], Header::new(Kind::String), &arguments[2]);
    context.reply.ok();
    Ok(())
}
