//! `/metrics` in the Prometheus text format. One table of metrics; each value is read when asked for.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use quartet_layer_redis::Redis;
use quartet_layer_redis::commands::table;
use quartet_tenancy::{Database, Usage};

use crate::durations;
use crate::layers::DEFAULT_DATABASE;
use crate::redis_metrics;
use crate::resources;
use crate::tenants::Tenants;

/// All metrics as text. Who the databases' owners are, and what they use, is the operator's to know.
pub fn render(layer: &Redis, tenants: &Tenants, is_for_operators: bool) -> String {
    let mut text = String::new();
    let engine = layer.engine.statistics();
    let redis = &layer.observation.statistics;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let (user, system) = resources::cpu_micros();
    let durability = layer.space.durability.name();
    let rows: [(&str, &str, &str, f64); 32] = [
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
            "quartet_log_bytes",
            "gauge",
            "What the log's files hold.",
            read(&engine.log_bytes),
        ),
        (
            "quartet_log_retained_bytes",
            "gauge",
            "What of that is kept for readers alone: backups and change feeds.",
            read(&engine.log_retained_bytes),
        ),
        (
            "quartet_log_readers",
            "gauge",
            "Who reads the log now.",
            read(&engine.log_readers),
        ),
        (
            "quartet_log_readers_lost_total",
            "counter",
            "Readers that fell behind what is kept of the log, and were told so.",
            read(&engine.log_readers_lost),
        ),
        (
            "quartet_checkpoints_total",
            "counter",
            "Checkpoints written.",
            read(&engine.checkpoints),
        ),
        (
            "quartet_checkpoints_failed_total",
            "counter",
            "Checkpoints that could not be written. The log still holds what they would have held.",
            read(&engine.checkpoints_failed),
        ),
        (
            "quartet_checkpoint_failed",
            "gauge",
            "1 if the last checkpoint could not be written.",
            f64::from(u8::from(engine.checkpoint_failed.load(Ordering::Relaxed))),
        ),
        (
            "quartet_disk_full",
            "gauge",
            "1 while the disk has no room for writes that make the data larger, and they are refused.",
            f64::from(u8::from(layer.engine.is_disk_full())),
        ),
        (
            "quartet_store_bytes",
            "gauge",
            "What the ssd engine's files took at its last flush.",
            read(&engine.store_bytes),
        ),
        (
            "quartet_store_live_bytes",
            "gauge",
            "What of that holds present data.",
            read(&engine.store_live_bytes),
        ),
        (
            "quartet_store_pinned_bytes",
            "gauge",
            "What its files took beside that for open snapshots alone.",
            read(&engine.store_pinned_bytes),
        ),
        (
            "quartet_durable_version",
            "gauge",
            "Everything up to this version is durable.",
            layer.engine.durable().0 as f64,
        ),
        (
            "quartet_commits_waiting",
            "gauge",
            "1 if something is committed and not durable yet.",
            f64::from(u8::from(commits_wait(layer))),
        ),
        (
            "quartet_redis_connections",
            "gauge",
            "Open Redis connections.",
            layer.connections.clients.count() as f64,
        ),
        (
            "quartet_redis_blocked_clients",
            "gauge",
            "Connections waiting in a blocking command.",
            layer.connections.blocking.counts().clients as f64,
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
            "quartet_redis_evicted_keys_total",
            "counter",
            "Keys removed because memory was short.",
            read(&redis.evicted_keys),
        ),
        (
            "quartet_redis_error_replies_total",
            "counter",
            "Error replies sent.",
            read(&redis.error_replies),
        ),
        (
            "quartet_memory_budget_bytes",
            "gauge",
            "What the process may take in memory; 0 without a limit.",
            layer.engine.memory().budget().unwrap_or(0) as f64,
        ),
        (
            "quartet_memory_counted_bytes",
            "gauge",
            "Rows in memory, and bytes of peers.",
            layer.engine.memory().counted_bytes() as f64,
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
    durations::render(layer, &tenants.maker.durations, &mut text);
    redis_metrics::render(layer, &mut text);
    if is_for_operators {
        databases(tenants, &mut text);
    }
    text
}

/// While a script keeps the partition nothing else commits, and this is no place to wait for it.
fn commits_wait(layer: &Redis) -> bool {
    !layer.engine.is_busy() && layer.engine.snapshot().1 > layer.engine.durable()
}

/// Name, kind, help, and the figure.
type Metric = (&'static str, &'static str, &'static str, fn(&Usage) -> f64);

/// What is shown of each database beside the default one.
const OF_A_DATABASE: [Metric; 7] = [
    (
        "commands_total",
        "counter",
        "Commands that a database executed.",
        |usage| usage.commands as f64,
    ),
    (
        "commands_today",
        "gauge",
        "Commands of the present day, UTC.",
        |usage| usage.commands_of_day as f64,
    ),
    (
        "refused_total",
        "counter",
        "Requests that a quota of the database refused.",
        |usage| usage.refused as f64,
    ),
    ("read_units_total", "counter", "Units read.", |usage| usage.read_units),
    ("write_units_total", "counter", "Units written.", |usage| {
        usage.write_units
    }),
    ("received_bytes_total", "counter", "Bytes of requests.", |usage| {
        usage.bytes_in as f64
    }),
    ("sent_bytes_total", "counter", "Bytes of replies.", |usage| {
        usage.bytes_out as f64
    }),
];

fn databases(tenants: &Tenants, text: &mut String) {
    let engine = &tenants.maker.engine;
    let now_micros = engine.now_micros();
    let all = tenants.catalogue.list();
    let usages: Vec<(String, Usage)> = all
        .iter()
        .map(|database| (database.definition().name.clone(), database.meter.usage(now_micros)))
        .collect();
    for (name, kind, help, figure) in OF_A_DATABASE {
        let rows = usages
            .iter()
            .map(|(database, usage)| (database.as_str(), figure(usage)));
        family(text, name, kind, help, rows);
    }
    let stored = |database: &Database| engine.stored_bytes(database.id) as f64;
    let rows = all
        .iter()
        .zip(&usages)
        .map(|(database, (name, _))| (name.as_str(), stored(database)));
    let default = ("default", engine.stored_bytes(DEFAULT_DATABASE) as f64);
    let help = "Bytes of keys and values.";
    family(
        text,
        "stored_bytes",
        "gauge",
        help,
        std::iter::once(default).chain(rows),
    );
    let connections = |database: &Database| tenants.connections_of(database.id) as f64;
    let rows = all
        .iter()
        .zip(&usages)
        .map(|(database, (name, _))| (name.as_str(), connections(database)));
    family(text, "connections", "gauge", "Open Redis connections.", rows);
}

/// One metric of all databases; nothing if there is none.
fn family<'r>(text: &mut String, name: &str, kind: &str, help: &str, rows: impl Iterator<Item = (&'r str, f64)>) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = writeln!(
        text,
        "# HELP quartet_database_{name} {help}\n# TYPE quartet_database_{name} {kind}"
    );
    for (database, value) in rows {
        let _ = writeln!(text, "quartet_database_{name}{{database=\"{database}\"}} {value}");
    }
}

fn commands(layer: &Redis, text: &mut String) {
    let _ = writeln!(
        text,
        "# HELP quartet_redis_commands_total Calls of each command.\n# TYPE quartet_redis_commands_total counter"
    );
    for (index, counter) in layer.observation.statistics.commands.0.iter().enumerate() {
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
