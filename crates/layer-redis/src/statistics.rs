//! Counters behind INFO, CONFIG RESETSTAT and /metrics. Relaxed atomics: each is exact, no two are read at one moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

#[derive(Default)]
pub struct Statistics {
    pub connections_received: AtomicU64,
    pub connections_rejected: AtomicU64,
    pub commands_processed: AtomicU64,
    pub keyspace_hits: AtomicU64,
    pub keyspace_misses: AtomicU64,
    pub expired_keys: AtomicU64,
    pub expired_fields: AtomicU64,
    pub bytes_read: AtomicU64,
    pub bytes_written: AtomicU64,
    pub error_replies: AtomicU64,
    /// Count of error replies by their code.
    pub errors: Mutex<BTreeMap<String, u64>>,
    /// One entry a command, at its index in the table.
    pub commands: CommandCounters,
}

/// Calls of one command.
#[derive(Default)]
pub struct CommandCounter {
    pub calls: AtomicU64,
    pub micros: AtomicU64,
    /// Refused before it ran: arity, authentication, and so on.
    pub rejected: AtomicU64,
    /// It ran and answered an error.
    pub failed: AtomicU64,
}

/// Counters in the order of the command table, subcommands included.
pub struct CommandCounters(pub Vec<CommandCounter>);

impl Default for CommandCounters {
    fn default() -> CommandCounters {
        CommandCounters(
            (0..crate::commands::table().size())
                .map(|_| CommandCounter::default())
                .collect(),
        )
    }
}

impl Statistics {
    pub fn key_read(&self, hit: bool) {
        let counter = if hit {
            &self.keyspace_hits
        } else {
            &self.keyspace_misses
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// An error reply was sent. `text` begins with its code.
    pub fn error_sent(&self, text: &[u8]) {
        self.error_replies.fetch_add(1, Ordering::Relaxed);
        let code = text.split(|&byte| byte == b' ').next().unwrap_or_default();
        let mut errors = self.errors.lock();
        let code = String::from_utf8_lossy(code).into_owned();
        if errors.len() < ERROR_CODES_MAX || errors.contains_key(&code) {
            *errors.entry(code).or_default() += 1;
        }
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        let totals = [
            &self.connections_received,
            &self.connections_rejected,
            &self.commands_processed,
            &self.keyspace_hits,
            &self.keyspace_misses,
            &self.expired_keys,
            &self.expired_fields,
            &self.bytes_read,
            &self.bytes_written,
            &self.error_replies,
        ];
        totals.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        self.errors.lock().clear();
        for counter in &self.commands.0 {
            [&counter.calls, &counter.micros, &counter.rejected, &counter.failed]
                .iter()
                .for_each(|counter| counter.store(0, Ordering::Relaxed));
        }
    }
}

/// Codes come from replies, some of which quote a peer: a bound keeps the map small.
const ERROR_CODES_MAX: usize = 128;
