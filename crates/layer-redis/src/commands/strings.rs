//! Strings: the key's payload is the value itself.

use quartet_wire_resp::Arguments;

use crate::command::*;
use crate::context::Context;
use crate::keyspace::{Header, Kind};

pub const COMMANDS: &[Command] = &[
    command(
        "get",
        2,
        READONLY | FAST,
        ONE_KEY,
        Group::String,
        "1.0.0",
        "O(1)",
        "Returns the string value of a key.",
        get,
    ),
    command(
        "set",
        -3,
        WRITE | DENYOOM,
        ONE_KEY,
        Group::String,
        "1.0.0",
        "O(1)",
        "Sets the string value of a key.",
        set,
    ),
];

fn get(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), Failure> {
    match context.read_kind(&arguments[1], Kind::String)? {
        Some(entry) => context.reply.bulk(entry.payload()),
        None => context.reply.null(),
    }
    Ok(())
}

fn set(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), Failure> {
    context
        .keys()
        .put(&arguments[1], Header::new(Kind::String), &arguments[2]);
    context.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    #[test]
    fn values_come_back() {
        let fixture = Fixture::new();
        fixture.connect().check(
            "GET a => nil
             SET a 1 => OK
             GET a => 1
             MULTI => OK
             SET b 2 => QUEUED
             GET b => QUEUED
             EXEC => [OK 2]
             NOSUCH x => !ERR unknown command 'NOSUCH', with args beginning with: 'x' ",
        );
    }
}
