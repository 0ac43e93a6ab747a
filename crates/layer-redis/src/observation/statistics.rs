//! Counters for INFO, CONFIG RESETSTAT and /metrics. Relaxed atomics: each is exact, but no two are
//! read at the same moment.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::command::table::Table;
use crate::observation::counting::{Held, add, add_under_lock};
use crate::observation::latency::Histogram;

#[derive(Default)]
pub struct Statistics {
    pub connections_received: AtomicU64,
    pub connections_rejected: AtomicU64,
    pub keyspace_hits: AtomicU64,
    pub keyspace_misses: AtomicU64,
    pub expired_keys: AtomicU64,
    pub expired_fields: AtomicU64,
    pub evicted_keys: AtomicU64,
    /// Connections that were closed because all of them took too much memory.
    pub evicted_clients: AtomicU64,
    pub bytes_read: AtomicU64,
    pub bytes_written: AtomicU64,
    /// Reads from and writes to sockets.
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    pub error_replies: AtomicU64,
    /// Refusals by users' rules and wrong passwords, in the order of [`DENIAL_REASONS`].
    pub denials: [AtomicU64; 4],
    /// Count of error replies by their code.
    pub errors: Mutex<BTreeMap<String, u64>>,
    /// One entry a command, at its index in the table.
    pub commands: CommandCounters,
    /// The largest number of used bytes that INFO has seen.
    pub used_bytes_peak: AtomicU64,
    pub rate: Mutex<Rate>,
}

/// Calls of one command. All but `rejected` is counted under the partition's lock.
#[derive(Default)]
pub struct CommandCounter {
    pub calls: AtomicU64,
    pub micros: AtomicU64,
    /// Refused before it ran: arity, authentication, and so on.
    pub rejected: AtomicU64,
    /// It ran and answered an error.
    pub failed: AtomicU64,
    /// Durations, while `latency-tracking` is on.
    pub durations: Histogram,
}

/// Counters in the order of the command table, subcommands included.
#[derive(Default)]
pub struct CommandCounters(pub Vec<CommandCounter>);

impl Statistics {
    /// The command at `index` of the table was refused before it ran.
    pub fn count_rejected(&self, index: usize) {
        self.commands.0[index].rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub fn new(table: &Table) -> Statistics {
        let counters = (0..table.size()).map(|_| CommandCounter::default());
        Statistics {
            commands: CommandCounters(counters.collect()),
            ..Statistics::default()
        }
    }

    /// Calls of all commands together: summed on request, so that a call is counted once.
    pub fn commands_processed(&self) -> u64 {
        let calls = self
            .commands
            .0
            .iter()
            .map(|counter| counter.calls.load(Ordering::Relaxed));
        calls.sum()
    }

    /// Keys were found, and looked for in vain, beside others who read.
    pub fn keys_read_beside(&self, hits: u64, misses: u64) {
        for (counter, count) in [(&self.keyspace_hits, hits), (&self.keyspace_misses, misses)] {
            if count > 0 {
                add(counter, count, Held::Beside);
            }
        }
    }

    /// Called with the exclusive partition lock held.
    pub fn key_read(&self, hit: bool) {
        let counter = if hit {
            &self.keyspace_hits
        } else {
            &self.keyspace_misses
        };
        add_under_lock(counter, 1);
    }

    /// The highest memory use at any query, including `used_bytes`.
    pub fn used_peak(&self, used_bytes: u64) -> u64 {
        self.used_bytes_peak
            .fetch_max(used_bytes, Ordering::Relaxed)
            .max(used_bytes)
    }

    /// Counts an error reply. `text` starts with its code.
    pub fn error_sent(&self, text: &[u8]) {
        self.error_replies.fetch_add(1, Ordering::Relaxed);
        let code = text.split(|&byte| byte == b' ').next().unwrap_or_default();
        let mut errors = self.errors.lock();
        let code = String::from_utf8_lossy(code).into_owned();
        if errors.len() < ERROR_CODES_MAX || errors.contains_key(&code) {
            *errors.entry(code).or_default() += 1;
        }
    }

    /// A request was refused; `reason` is ACL LOG's word.
    pub fn denied(&self, reason: &str) {
        let index = match reason {
            "auth" => 0,
            "command" => 1,
            "key" => 2,
            _ => 3,
        };
        self.denials[index].fetch_add(1, Ordering::Relaxed);
    }

    /// A blocked command got its empty answer, or an error: counted now, as one that took no time.
    /// `index` is its number in the table. Called under the partition's lock.
    pub fn wait_ended(&self, index: usize, error: Option<&str>) {
        let counter = &self.commands.0[index];
        add_under_lock(&counter.calls, 1);
        if let Some(error) = error {
            add_under_lock(&counter.failed, 1);
            self.error_sent(error.as_bytes());
        }
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        let totals = [
            &self.connections_received,
            &self.connections_rejected,
            &self.keyspace_hits,
            &self.keyspace_misses,
            &self.expired_keys,
            &self.expired_fields,
            &self.evicted_keys,
            &self.evicted_clients,
            &self.bytes_read,
            &self.bytes_written,
            &self.reads,
            &self.writes,
            &self.error_replies,
        ];
        let totals = totals.into_iter().chain(&self.denials);
        totals.for_each(|counter| counter.store(0, Ordering::Relaxed));
        self.errors.lock().clear();
        for counter in &self.commands.0 {
            [&counter.calls, &counter.micros, &counter.rejected, &counter.failed]
                .iter()
                .for_each(|counter| counter.store(0, Ordering::Relaxed));
            counter.durations.reset();
        }
        *self.rate.lock() = Rate::default();
    }

    /// Samples the totals of the figures that INFO shows per second. The expiry cycle calls it,
    /// about ten times a second.
    pub fn sample_rate(&self, now_micros: u64) {
        let [read, written] = [&self.bytes_read, &self.bytes_written].map(|total| total.load(Ordering::Relaxed));
        let totals = [self.commands_processed(), read, written];
        self.rate.lock().sample(now_micros, totals);
    }
}

/// Commands, bytes read and bytes written a second, over the latest samples.
#[derive(Default)]
pub struct Rate {
    /// Time in microseconds and the totals at that time, oldest first.
    samples: VecDeque<(u64, [u64; 3])>,
}

impl Rate {
    fn sample(&mut self, now_micros: u64, totals: [u64; 3]) {
        self.samples.push_back((now_micros, totals));
        if self.samples.len() > RATE_SAMPLES {
            self.samples.pop_front();
        }
    }

    pub fn per_second(&self) -> [u64; 3] {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return [0; 3];
        };
        let micros = last.0.saturating_sub(first.0).max(1);
        std::array::from_fn(|index| last.1[index].saturating_sub(first.1[index]).saturating_mul(1_000_000) / micros)
    }
}

/// INFO's names for the reasons of [`Statistics::denials`].
pub const DENIAL_REASONS: [&str; 4] = ["auth", "cmd", "key", "channel"];

const RATE_SAMPLES: usize = 17;

/// Codes are from replies, some of which quote a peer: a bound keeps the map small.
const ERROR_CODES_MAX: usize = 128;
