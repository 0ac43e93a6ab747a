//! Admission around the layer of a logical database that is one of several: quotas and
//! metering.
//!
//! The layer calls an [`AdmissionControl`] before each command and reports the executed commands;
//! it does not know the counted figures or the limits. The default database has no admission
//! control: its commands pay one test for that.

/// Admits and counts the commands of one logical database.
pub trait AdmissionControl: Send + Sync {
    /// Counts a command, or refuses it with an error reply.
    fn admit(&self, admission: &Admission) -> Result<(), String>;

    /// A command that was executed took so long.
    fn took(&self, micros: u64);

    /// Counts bytes taken from and given to a client.
    fn transferred(&self, bytes_in: usize, bytes_out: usize);

    /// Refuses one connection more than `open`, with an error reply.
    fn check_connections(&self, open: usize) -> Result<(), String>;

    /// Time limit of one script.
    fn script_micros_max(&self) -> u64;

    /// Memory limit of one script.
    fn script_bytes_max(&self) -> usize;
}

/// A command that wants to be executed.
pub struct Admission {
    pub cost: Cost,
    pub request_bytes: usize,
    pub growth: Growth,
    pub now_micros: u64,
}

/// Whether a command may make the database larger. `beside_rows_bytes` is the database's memory
/// beside its rows: its users and loaded scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    None,
    /// It works data off, or moves it, and leaves a little more: it may use the database's reserve.
    Little {
        beside_rows_bytes: u64,
    },
    Full {
        beside_rows_bytes: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// About the connection itself.
    Free,
    Read,
    Write,
}

/// Largest `slowlog-max-len` where there is admission control: an entry takes up to 5 kB of memory
/// that no quota counts.
pub const SLOWLOG_LENGTH_OF_TENANTS: u64 = 1000;

/// Parameters that CONFIG SET changes under admission control: they concern only one database and
/// have no cost for others.
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
    "search-default-dialect",
    "search-on-timeout",
    "search-partial-results",
    "timeout",
];
