//! Counters and times: statistics, the slow log, latency.

pub(crate) mod counting;
pub(crate) mod latency;
pub(crate) mod redaction;
pub(crate) mod slowlog;
pub(crate) mod statistics;
