//! Metrics of the process: memory and CPU time.

use super::metric::{Metric, Table};
use crate::observability::exposition::seconds;

pub const TABLE: Table = Table {
    title: "Process",
    shown: "Metrics with the prefix `process_` have the names of Prometheus' own clients.",
    is_shown: |_| true,
    is_by_service: false,
    metrics: &[
        Metric::gauge(
            "quartet_memory_budget_bytes",
            "Memory budget of the process, in bytes; 0 without a limit.",
            |sources| sources.redis.engine.memory().budget().unwrap_or(0) as f64,
        )
        .in_bytes(),
        Metric::gauge(
            "quartet_memory_counted_bytes",
            "Rows in memory, and bytes of peers.",
            |sources| sources.redis.engine.memory().counted_bytes() as f64,
        )
        .in_bytes(),
        Metric::gauge("process_resident_memory_bytes", "Resident memory.", |sources| {
            sources.resources.rss_bytes as f64
        })
        .in_bytes(),
        Metric::counter("process_cpu_user_seconds_total", "User CPU time.", |sources| {
            seconds(sources.resources.cpu_user_micros)
        })
        .in_seconds(),
        Metric::counter("process_cpu_system_seconds_total", "System CPU time.", |sources| {
            seconds(sources.resources.cpu_system_micros)
        })
        .in_seconds(),
    ],
};
