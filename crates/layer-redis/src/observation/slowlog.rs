//! SLOWLOG and COMMANDLOG: the latest commands that took longer than `slowlog-log-slower-than`
//! microseconds, or had a request or reply larger than `commandlog-request-larger-than` and
//! `commandlog-reply-larger-than` bytes.

use std::collections::VecDeque;

use quartet_wire_resp::Arguments;

use crate::command::Command;
use crate::observation::redaction;

#[derive(Default)]
pub struct Slowlog {
    pub entries: VecDeque<SlowCommand>,
    next_id: u64,
}

#[derive(Clone, Debug)]
pub struct SlowCommand {
    pub id: u64,
    pub at_seconds: u64,
    /// Its measure: microseconds, or bytes.
    pub measure: u64,
    pub arguments: Vec<Vec<u8>>,
    pub client_address: String,
    pub client_name: String,
}

/// Arguments kept of one command, and bytes kept of one argument: Redis' figures.
const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_BYTES_MAX: usize = 128;

impl Slowlog {
    pub fn add(&mut self, command: SlowCommand, length_max: usize) {
        self.entries.push_front(SlowCommand {
            id: self.next_id,
            ..command
        });
        self.next_id += 1;
        self.entries.truncate(length_max);
    }

    /// The arguments in the log's form: long arguments cut, many counted, secrets hidden.
    pub fn trimmed(command: &Command, arguments: Arguments<'_>) -> Vec<Vec<u8>> {
        let retained = if arguments.len() > ARGUMENTS_MAX {
            ARGUMENTS_MAX - 1
        } else {
            arguments.len()
        };
        let mut trimmed: Vec<Vec<u8>> = arguments.iter().take(retained).map(trim).collect();
        for position in redaction::secrets(command, arguments) {
            if position < retained {
                trimmed[position] = redaction::REDACTED.to_vec();
            }
        }
        if retained < arguments.len() {
            trimmed.push(format!("... ({} more arguments)", arguments.len() - retained).into_bytes());
        }
        trimmed
    }
}

fn trim(argument: &[u8]) -> Vec<u8> {
    if argument.len() <= ARGUMENT_BYTES_MAX {
        return argument.to_vec();
    }
    let mut trimmed = argument[..ARGUMENT_BYTES_MAX].to_vec();
    trimmed.extend_from_slice(format!("... ({} more bytes)", argument.len() - ARGUMENT_BYTES_MAX).as_bytes());
    trimmed
}
