//! Metrics of the default database's layer of Redis.

use std::sync::atomic::Ordering;

use super::metric::{Metric, Sources, Table, count};
use crate::observability::exposition::{Exposition, Kind};

pub const TABLE: Table = Table {
    title: "Redis",
    shown: "Only the default database.",
    is_shown: |_| true,
    is_by_service: false,
    metrics: &[
        Metric::gauge("quartet_redis_connections", "Open Redis connections.", |sources| {
            sources.redis.connections.clients.count() as f64
        }),
        Metric::gauge(
            "quartet_redis_blocked_clients",
            "Connections waiting in a blocking command.",
            |sources| sources.redis.connections.blocking.counts().clients as f64,
        ),
        Metric::counter(
            "quartet_redis_connections_total",
            "Redis connections accepted.",
            |sources| count(&sources.redis_statistics().connections_received),
        ),
        Metric::counter(
            "quartet_redis_connections_rejected_total",
            "Redis connections refused.",
            |sources| count(&sources.redis_statistics().connections_rejected),
        ),
        Metric::counter(
            "quartet_redis_keyspace_hits_total",
            "Key look-ups that found the key.",
            |sources| count(&sources.redis_statistics().keyspace_hits),
        ),
        Metric::counter(
            "quartet_redis_keyspace_misses_total",
            "Key look-ups that did not find the key.",
            |sources| count(&sources.redis_statistics().keyspace_misses),
        ),
        Metric::counter(
            "quartet_redis_expired_keys_total",
            "Keys removed because they expired.",
            |sources| count(&sources.redis_statistics().expired_keys),
        ),
        Metric::counter(
            "quartet_redis_evicted_keys_total",
            "Keys removed because memory was short.",
            |sources| count(&sources.redis_statistics().evicted_keys),
        ),
        Metric::counter("quartet_redis_error_replies_total", "Error replies sent.", |sources| {
            count(&sources.redis_statistics().error_replies)
        }),
        Metric::samples(
            "quartet_redis_durability",
            Kind::Gauge,
            "Durability of the logical database.",
            |sources, out| out.value(&[("mode", sources.redis.space.durability.name())], 1.0),
        ),
        Metric::samples(
            "quartet_redis_commands_total",
            Kind::Counter,
            "Calls of each command.",
            commands,
        ),
    ],
};

fn commands(sources: &Sources<'_>, out: &mut dyn Exposition) {
    for (index, counter) in sources.redis_statistics().commands.0.iter().enumerate() {
        let calls = counter.calls.load(Ordering::Relaxed);
        if calls > 0 {
            out.value(&[("command", sources.redis.table.at(index).name)], calls as f64);
        }
    }
}
