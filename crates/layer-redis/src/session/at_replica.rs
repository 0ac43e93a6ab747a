//! The commands that a node that is not home answers from its replica.
//!
//! Their replies follow only from rows. The home answers all others: commands that write or may
//! wait, and commands whose replies show its memory, such as the use of keys, its parameters,
//! scripts, and search indexes with their images beside the rows.

use std::time::Duration;

use quartet_engine::Busy;
use quartet_wire_resp::{Arguments, Limits, Parsed, Parser};

use super::beside::is_read_of_streams;
use crate::command::table::Table;
use crate::command::{Command, Group};
use crate::commands::server::replicas::STANDING_ROW;
use crate::commands::server::unstored_users::UNSTORED_USERS_ROW;
use crate::layer::Redis;

/// Deadlines that the node's clock reaches within this time are the home's to decide: a clock of a
/// cluster differs from the median by less than half of it.
const CLOCKS_DIFFER: Duration = Duration::from_secs(2);

/// Families with replies from the home's memory.
const OF_MEMORY: [&str; 4] = ["object", "memory", "touch", "lolwut"];

/// Returns true if the request of one command is answered from rows.
pub fn is_read_at_replicas(table: &Table, request: &[u8]) -> bool {
    let mut parser = Parser::new();
    let Ok(Parsed::Request { consumed }) = parser.parse(request, &Limits::unlimited()) else {
        return false;
    };
    let arguments = parser.arguments(request);
    let finds = table.find_of(arguments);
    consumed == request.len() && finds.is_ok_and(|command| is_all_in_rows(command, arguments))
}

fn is_all_in_rows(command: &Command, arguments: Arguments<'_>) -> bool {
    let family = command.name.split('|').next().unwrap_or_default();
    let is_of_rows = match command.group {
        Group::Module(group) => group.is_all_in_rows,
        _ => !OF_MEMORY.contains(&family),
    };
    is_of_rows && (command.reads_keys() || is_read_of_streams(command, arguments))
}

impl Redis {
    /// Deadlines up to this time, in milliseconds since the Unix epoch, are the home's to decide.
    /// `None`: this node is home.
    pub(crate) fn home_decides_until_ms(&self, now_ms: u64) -> Option<u64> {
        let differ_ms = CLOCKS_DIFFER.as_millis() as u64;
        self.replica.map(|_| now_ms + differ_ms)
    }

    /// Returns true if the home has this database's users as their row says, and copies nothing
    /// from another server. Not to be called with the partition's lock held.
    pub fn is_as_stored(&self) -> Result<bool, Busy> {
        let reader = self.engine.reader(self.space)?;
        let is_absent = |row: &&[u8]| reader.get(row).is_none();
        Ok([STANDING_ROW, UNSTORED_USERS_ROW].iter().all(is_absent) && !reader.is_unreadable())
    }
}

#[cfg(test)]
mod tests {
    use quartet_wire_resp::encode_command;

    use super::*;

    #[test]
    fn what_follows_from_rows_is_answered_at_replicas() {
        let is_read = |line: &str| {
            let mut request = Vec::new();
            encode_command(&line.split(' ').collect::<Vec<_>>(), &mut request);
            is_read_at_replicas(crate::commands::table(), &request)
        };
        for line in [
            "GET a",
            "mget a b",
            "HGETALL h",
            "ZRANGE z 0 -1",
            "SCAN 0",
            "TTL a",
            "DBSIZE",
            "JSON.GET j",
            "XREAD STREAMS x 0",
        ] {
            assert!(is_read(line), "{line}");
        }
        for line in [
            "SET a 1",
            "GETEX a",
            "GETDEL a",
            "NOSUCH",
            "XREAD BLOCK 1 STREAMS x 0",
            "BLPOP a 0",
            "EVAL_RO x 0",
            "FCALL_RO f 0",
            "OBJECT FREQ a",
            "MEMORY USAGE a",
            "TOUCH a",
            "INFO",
            "CONFIG GET a",
            "ACL WHOAMI",
            "PING",
            "PUBSUB CHANNELS",
            "MULTI",
        ] {
            assert!(!is_read(line), "{line}");
        }
    }
}
