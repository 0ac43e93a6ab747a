//! Counters and times: statistics, the slow log, latency.

pub(crate) mod counting;
pub mod latency;
pub mod slowlog;
pub mod statistics;
