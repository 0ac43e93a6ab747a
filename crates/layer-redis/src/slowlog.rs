//! SLOWLOG and COMMANDLOG: the latest commands that took longer than `slowlog-log-slower-than` microseconds, and those whose request or
//! reply is larger than `commandlog-request-larger-than` and `commandlog-reply-larger-than` bytes.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use quartet_wire_resp::Arguments;

use crate::Redis;
use crate::clients::ClientState;
use crate::command::{Command, SKIP_SLOWLOG};
use crate::{commands, redaction};

#[derive(Default)]
pub struct Slowlog {
    pub entries: VecDeque<SlowCommand>,
    next_id: u64,
}

#[derive(Clone, Debug)]
pub struct SlowCommand {
    pub id: u64,
    pub at_seconds: u64,
    /// What made it remarkable: microseconds, or bytes.
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

    /// The arguments as the log keeps them: the long ones cut, the many counted, the secret ones hidden.
    pub fn trimmed(command: &Command, arguments: Arguments<'_>) -> Vec<Vec<u8>> {
        let kept = if arguments.len() > ARGUMENTS_MAX {
            ARGUMENTS_MAX - 1
        } else {
            arguments.len()
        };
        let mut trimmed: Vec<Vec<u8>> = arguments.iter().take(kept).map(trim).collect();
        for position in redaction::secrets(command, arguments) {
            if position < kept {
                trimmed[position] = redaction::REDACTED.to_vec();
            }
        }
        if kept < arguments.len() {
            trimmed.push(format!("... ({} more arguments)", arguments.len() - kept).into_bytes());
        }
        trimmed
    }
}

impl SlowCommand {
    pub fn of(
        layer: &Redis,
        client: &ClientState,
        (command, arguments): (&Command, Arguments<'_>),
        measure: u64,
    ) -> SlowCommand {
        SlowCommand {
            id: 0,
            at_seconds: layer.engine.now_micros() / 1_000_000,
            measure,
            arguments: Slowlog::trimmed(command, arguments),
            client_address: client.shared.address.clone(),
            client_name: client.shared.details.lock().name.clone(),
        }
    }
}

impl Redis {
    /// Notes a command whose request or reply is large.
    #[inline]
    pub fn note_size(&self, client: &ClientState, arguments: Arguments<'_>, request_bytes: usize, reply_bytes: usize) {
        let is_over = |bytes: usize, threshold: i64| threshold >= 0 && bytes as u64 > threshold as u64;
        let config = &self.config;
        let is_large_request = is_over(
            request_bytes,
            config.commandlog_request_larger_than.load(Ordering::Relaxed),
        );
        let is_large_reply = is_over(reply_bytes, config.commandlog_reply_larger_than.load(Ordering::Relaxed));
        if !is_large_request && !is_large_reply {
            return;
        }
        let Ok(command) = commands::find(arguments) else { return };
        if command.has(SKIP_SLOWLOG) {
            return;
        }
        let entry = |bytes: usize| SlowCommand::of(self, client, (command, arguments), bytes as u64);
        if is_large_request {
            let length_max = config.commandlog_large_request_max_len.load(Ordering::Relaxed);
            self.large_requests
                .lock()
                .add(entry(request_bytes), length_max.max(0) as usize);
        }
        if is_large_reply {
            let length_max = config.commandlog_large_reply_max_len.load(Ordering::Relaxed);
            self.large_replies
                .lock()
                .add(entry(reply_bytes), length_max.max(0) as usize);
        }
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
