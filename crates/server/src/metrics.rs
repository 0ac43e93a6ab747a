//! `/metrics` in the Prometheus text format. One table of metrics; each value is read when asked for.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use quartet_layer_redis::Redis;
use quartet_layer_redis::commands::table;

use crate::resources;

/// All metrics as text.
pub fn render(layer: &Redis) -> String {
    let mut text = String::new();
    let engine = layer.engine.statistics();
    let redis = &layer.statistics;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let (user, system) = resources::cpu_micros();
    let durability = layer.space.durability.name();
    let rows: [(&str, &str, &str, f64); 18] = [
        (
            "quartet_transactions_total",
            "counter",
            "Transactions executed.",
            read(&engine.transactions),
        ),
        (
            "quartet_conflicts_total",
            "counter",
            "Optimistic transactions that met a conflict.",
            read(&engine.conflicts),
        ),
        (
            "quartet_log_epochs_total",
            "counter",
            "Epochs appended to the log.",
            read(&engine.epochs),
        ),
        (
            "quartet_log_bytes_total",
            "counter",
            "Bytes of epochs appended to the log.",
            read(&engine.epoch_bytes),
        ),
        (
            "quartet_log_syncs_total",
            "counter",
            "Syncs of the log.",
            read(&engine.syncs),
        ),
        (
            "quartet_checkpoints_total",
            "counter",
            "Checkpoints written.",
            read(&engine.checkpoints),
        ),
        (
            "quartet_durable_version",
            "gauge",
            "Everything up to this version is durable.",
            layer.engine.durable().0 as f64,
        ),
        (
            "quartet_redis_connections",
            "gauge",
            "Open Redis connections.",
            layer.clients.count() as f64,
        ),
        (
            "quartet_redis_blocked_clients",
            "gauge",
            "Connections waiting in a blocking command.",
            layer.blocking.count() as f64,
        ),
        (
            "quartet_redis_connections_total",
            "counter",
            "Redis connections accepted.",
            read(&redis.connections_received),
        ),
        (
            "quartet_redis_connections_rejected_total",
            "counter",
            "Redis connections refused.",
            read(&redis.connections_rejected),
        ),
        (
            "quartet_redis_keyspace_hits_total",
            "counter",
            "Key look-ups that found the key.",
            read(&redis.keyspace_hits),
        ),
        (
            "quartet_redis_keyspace_misses_total",
            "counter",
            "Key look-ups that did not.",
            read(&redis.keyspace_misses),
        ),
        (
            "quartet_redis_expired_keys_total",
            "counter",
            "Keys removed because they expired.",
            read(&redis.expired_keys),
        ),
        (
            "quartet_redis_error_replies_total",
            "counter",
            "Error replies sent.",
            read(&redis.error_replies),
        ),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory.",
            resources::resident_bytes() as f64,
        ),
        (
            "process_cpu_user_seconds_total",
            "counter",
            "User CPU time.",
            user as f64 / 1e6,
        ),
        (
            "process_cpu_system_seconds_total",
            "counter",
            "System CPU time.",
            system as f64 / 1e6,
        ),
    ];
    for (name, kind, help, value) in rows {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    let _ = writeln!(
        text,
        "# HELP quartet_redis_durability Durability of the logical database.\n# TYPE quartet_redis_durability gauge\n\
         quartet_redis_durability{{mode=\"{durability}\"}} 1"
    );
    commands(layer, &mut text);
    text
}

fn commands(layer: &Redis, text: &mut String) {
    let _ = writeln!(
        text,
        "# HELP quartet_redis_commands_total Calls of each command.\n# TYPE quartet_redis_commands_total counter"
    );
    for (index, counter) in layer.statistics.commands.0.iter().enumerate() {
        let calls = counter.calls.load(Ordering::Relaxed);
        if calls > 0 {
            let _ = writeln!(
                text,
                "quartet_redis_commands_total{{command=\"{}\"}} {calls}",
                table().at(index).name
            );
        }
    }
}
