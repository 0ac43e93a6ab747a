//! Admission around the layer of a logical database that is one of several: quotas, metering, and
//! the way in.
//!
//! The layer asks a [`AdmissionControl`] before each command and tells it what went through; it
//! does not know what is counted, nor against which limit. The default database has no admission
//! control: its commands pay one test for that. A [`Directory`] knows which password opens which
//! database; a connection that shows one goes on in that database's layer.

use std::sync::{Arc, OnceLock};

use quartet_engine::Busy;
use quartet_model::DatabaseId;

use crate::command::error_reply::ErrorReply;
use crate::command::outcome::DatabaseLogin;
use crate::command::table::Table;
use crate::command::{Command, DENYOOM, Group, WRITE};
use crate::layer::Redis;

/// Judges and counts the commands of one logical database.
pub trait AdmissionControl: Send + Sync {
    /// Counts a command, or refuses it with an error reply.
    fn admit(&self, admission: &Admission) -> Result<(), String>;

    /// A command that was executed took so long.
    fn took(&self, micros: u64);

    /// Counts bytes taken from and given to a client.
    fn transferred(&self, bytes_in: usize, bytes_out: usize);

    /// Refuses one connection more than `open`, with an error reply.
    fn check_connections(&self, open: usize) -> Result<(), String>;

    /// How long one script may run.
    fn script_micros_max(&self) -> u64;

    /// How much memory one script may take.
    fn script_bytes_max(&self) -> usize;
}

/// A command that wants to be executed.
pub struct Admission {
    pub cost: Cost,
    pub request_bytes: usize,
    /// It may make the database larger.
    pub grows: bool,
    pub now_micros: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// About the connection itself.
    Free,
    Read,
    Write,
}

/// Knows the logical databases.
pub trait Directory: Send + Sync {
    /// The database, and the user of it, that these may open. Quick, and takes no lock of the
    /// engine's.
    fn find(&self, name: &[u8], password: &[u8]) -> Option<DatabaseLogin>;

    /// The layer of a database; `None` if it is gone. Not to be called with the partition's lock
    /// held.
    fn open(&self, database: DatabaseId) -> Result<Option<Arc<Redis>>, Busy>;
}

/// Requests that concern the whole server are its operator's, who comes in through the default
/// database.
const OPERATORS: &[&str] = &[
    "shutdown",
    "debug",
    "save",
    "bgsave",
    "bgrewriteaof",
    "config|rewrite",
    "config|resetstat",
    "replicaof",
    "slaveof",
    "psync",
    "sync",
    "replconf",
    "failover",
    "module",
    "acl|load",
    "migrate",
];

/// Parameters that CONFIG SET changes where there is admission control: those that concern one
/// database and can cost nobody else.
pub const PARAMETERS_OF_TENANTS: &[&str] = &[
    "notify-keyspace-events",
    "maxmemory-policy",
    "maxmemory-samples",
    "lfu-log-factor",
    "lfu-decay-time",
    "hash-max-listpack-entries",
    "hash-max-listpack-value",
    "set-max-intset-entries",
    "zset-max-listpack-entries",
    "zset-max-listpack-value",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "latency-monitor-threshold",
    "latency-tracking",
    "timeout",
];

impl Redis {
    /// Asks admission control, if there is any, whether a command may run.
    #[inline]
    pub fn pass_gate(
        &self,
        command: &'static Command,
        request_bytes: usize,
        now_micros: u64,
    ) -> Result<(), ErrorReply> {
        match &self.access.admission_control {
            None => Ok(()),
            Some(admission_control) => judge(
                admission_control.as_ref(),
                self.table,
                command,
                request_bytes,
                now_micros,
            ),
        }
    }
}

fn judge(
    admission_control: &dyn AdmissionControl,
    table: &Table,
    command: &'static Command,
    request_bytes: usize,
    now_micros: u64,
) -> Result<(), ErrorReply> {
    if is_operators(table, command) {
        return Err(format!("ERR Command is not available: '{}'", command.name.to_ascii_uppercase()).into());
    }
    let cost = match command {
        command if command.group == Group::Connection => Cost::Free,
        command if command.has(WRITE) => Cost::Write,
        _ => Cost::Read,
    };
    let admission = Admission {
        cost,
        request_bytes,
        grows: command.has(DENYOOM),
        now_micros,
    };
    admission_control.admit(&admission).map_err(ErrorReply::from)
}

fn is_operators(table: &Table, command: &'static Command) -> bool {
    static BY_INDEX: OnceLock<Vec<bool>> = OnceLock::new();
    let by_index = BY_INDEX.get_or_init(|| {
        let is_named = |name: &str| {
            let mut containers = name.split('|');
            OPERATORS.contains(&name) || containers.next().is_some_and(|first| OPERATORS.contains(&first))
        };
        table.all().map(|command| is_named(command.name)).collect()
    });
    by_index[table.index(command)]
}
