//! Noting commands that take long, or are large: SLOWLOG and COMMANDLOG.

use crate::command::{Command, SKIP_SLOWLOG};
use crate::connections::clients::ClientState;
use crate::layer::Redis;
use crate::observation::slowlog::{SlowCommand, Slowlog};
use quartet_wire_resp::Arguments;
use std::sync::atomic::Ordering;

/// The command as a log keeps it.
pub fn slow_command(
    layer: &Redis,
    client: &ClientState,
    command: &Command,
    arguments: Arguments<'_>,
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
        let Ok(command) = self.table.find_of(arguments) else {
            return;
        };
        if command.has(SKIP_SLOWLOG) {
            return;
        }
        let entry = |bytes: usize| slow_command(self, client, command, arguments, bytes as u64);
        if is_large_request {
            let length_max = config.commandlog_large_request_max_len.load(Ordering::Relaxed);
            self.observation
                .large_requests
                .lock()
                .add(entry(request_bytes), length_max.max(0) as usize);
        }
        if is_large_reply {
            let length_max = config.commandlog_large_reply_max_len.load(Ordering::Relaxed);
            self.observation
                .large_replies
                .lock()
                .add(entry(reply_bytes), length_max.max(0) as usize);
        }
    }
}
