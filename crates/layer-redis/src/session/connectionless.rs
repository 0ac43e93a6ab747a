//! Requests without a connection of their own, such as those over REST.
//!
//! None of their state may outlive the request, and they cannot wait, so commands that set up state
//! for a connection, or wait, are refused. The list follows the table "REST - Redis API
//! Compatibility" of <https://upstash.com/docs/redis/features/restapi>; the error's first words are
//! Upstash's.

use quartet_wire_resp::{Arguments, Limits, Parsed, Parser};

use crate::command::changes_subscriptions;
use crate::command::parse;
use crate::command::table::Table;
use crate::command::{BLOCKING, Command, Group};

/// The error for a request that needs a connection. `None` also for an unknown command, whose error
/// its execution returns.
pub fn refusal(table: &Table, request: &[u8]) -> Option<String> {
    let mut parser = Parser::new();
    let Ok(Parsed::Request { .. }) = parser.parse(request, &Limits::unlimited()) else {
        return None;
    };
    let arguments = parser.arguments(request);
    let command = table.find_of(arguments).ok()?;
    needs_connection(command, arguments).then(|| {
        let name = command.name.to_uppercase().replace('|', " ");
        format!("ERR Command is not available: '{name}'. It needs a connection of its own")
    })
}

fn needs_connection(command: &Command, arguments: Arguments<'_>) -> bool {
    match command.group {
        Group::Connection => !matches!(command.name, "ping" | "echo" | "client|setinfo"),
        Group::Transactions => true,
        Group::PubSub => changes_subscriptions(command),
        Group::Stream => command.has(BLOCKING) && may_wait(command, arguments),
        // They answer at once there.
        _ if matches!(command.name, "wait" | "waitaof") => false,
        _ => {
            command.has(BLOCKING)
                || matches!(
                    command.name,
                    "monitor" | "sync" | "psync" | "replconf" | "replicaof" | "slaveof" | "migrate"
                )
        }
    }
}

/// XREAD and XREADGROUP wait with BLOCK, before the word that ends the options. A group may have
/// any name.
fn may_wait(command: &Command, arguments: Arguments<'_>) -> bool {
    let options_start = if command.name == "xreadgroup" { 4 } else { 1 };
    for word in arguments.iter().skip(options_start) {
        if parse::is(word, "streams") {
            return false;
        }
        if parse::is(word, "block") {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use quartet_wire_resp::encode_command;

    use super::*;

    fn is_refused(words: &str) -> bool {
        let words: Vec<&str> = words.split(' ').collect();
        let mut request = Vec::new();
        encode_command(&words, &mut request);
        refusal(crate::commands::table(), &request).is_some()
    }

    #[test]
    fn commands_that_wait_or_outlive_the_request_are_refused() {
        for words in [
            "BLPOP a 0",
            "BZMPOP 0 1 a MIN",
            "XREAD COUNT 1 BLOCK 0 STREAMS a 0",
            "MULTI",
            "watch a",
            "SUBSCRIBE a",
            "HELLO 3",
            "AUTH x",
            "SELECT 1",
            "CLIENT TRACKING ON",
            "MONITOR",
            "MIGRATE 127.0.0.1 6379 a 0 1000",
            "RESET",
            "QUIT",
        ] {
            assert!(is_refused(words), "{words}");
        }
        for words in [
            "GET a",
            "PING",
            "ECHO a",
            "PUBLISH a b",
            "PUBSUB CHANNELS",
            "XREAD STREAMS block 0",
            "XREADGROUP GROUP block block STREAMS a >",
            "XADD a * block 1",
            "CLIENT SETINFO LIB-NAME a",
            "NOSUCH",
            "CLIENT NOSUCH",
            "ACL LIST",
        ] {
            assert!(!is_refused(words), "{words}");
        }
    }
}
