//! The names under which redis_exporter shows a Redis, for dashboards that were made for it.
//!
//! Names and meanings: <https://github.com/oliver006/redis_exporter>, of the fields of INFO for the
//! default database.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use quartet_layer_redis::Redis;
use quartet_layer_redis::keyspace::key_counts;

use crate::observability::exposition::{Exposition, Kind, seconds};

/// Name, kind, help and value of what has no labels.
type Row = (&'static str, Kind, &'static str, f64);

pub fn write(layer: &Redis, out: &mut dyn Exposition) {
    for (name, kind, help, value) in figures(layer) {
        out.single(&format!("redis_{name}"), kind, help, value);
    }
    instance(layer, out);
    commands(layer, out);
    keys(layer, out);
}

fn figures(layer: &Redis) -> Vec<Row> {
    let statistics = &layer.observation.statistics;
    let counter = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let setting = |setting: &AtomicI64| setting.load(Ordering::Relaxed) as f64;
    let resources = (layer.process.resources)();
    let used = layer.used_bytes();
    let started_micros = layer.process.identity.started_micros;
    let uptime_micros = layer.engine.now_micros().saturating_sub(started_micros);
    let connected = layer.connections.clients.count() as f64;
    let blocked = layer.connections.blocking.counts().clients as f64;
    let per_second = statistics.rate.lock().per_second();
    let slowlog = layer.observation.slowlog.lock().entries.len() as f64;
    let peak = statistics.used_peak(used) as f64;
    let last_save = quartet_layer_redis::commands::server::persistence::last_save_seconds(layer) as f64;
    vec![
        ("up", Kind::Gauge, "The server answers.", 1.0),
        (
            "uptime_in_seconds",
            Kind::Gauge,
            "Time since the start.",
            seconds(uptime_micros).floor(),
        ),
        (
            "start_time_seconds",
            Kind::Gauge,
            "When it started.",
            seconds(started_micros),
        ),
        (
            "process_id",
            Kind::Gauge,
            "Number of the process.",
            layer.process.identity.process_id.into(),
        ),
        ("connected_clients", Kind::Gauge, "Open Redis connections.", connected),
        (
            "blocked_clients",
            Kind::Gauge,
            "Connections that wait in a command.",
            blocked,
        ),
        ("connected_slaves", Kind::Gauge, "Replicas of Redis' kind: none.", 0.0),
        (
            "cluster_enabled",
            Kind::Gauge,
            "1 if a cluster is emulated.",
            f64::from(u8::from(layer.process.identity.emulated_cluster.is_some())),
        ),
        (
            "config_maxclients",
            Kind::Gauge,
            "Most connections.",
            setting(&layer.config.maxclients),
        ),
        (
            "config_maxmemory",
            Kind::Gauge,
            "The parameter maxmemory.",
            setting(&layer.config.maxmemory),
        ),
        (
            "memory_max_bytes",
            Kind::Gauge,
            "The parameter maxmemory.",
            setting(&layer.config.maxmemory),
        ),
        ("memory_used_bytes", Kind::Gauge, "Memory in use.", used as f64),
        (
            "memory_used_rss_bytes",
            Kind::Gauge,
            "Resident memory.",
            resources.rss_bytes as f64,
        ),
        (
            "memory_used_peak_bytes",
            Kind::Gauge,
            "The most memory in use that anybody has seen.",
            peak,
        ),
        (
            "mem_fragmentation_ratio",
            Kind::Gauge,
            "Resident memory over memory in use.",
            resources.rss_bytes as f64 / used.max(1) as f64,
        ),
        (
            "cpu_sys_seconds_total",
            Kind::Counter,
            "System CPU time.",
            seconds(resources.cpu_system_micros),
        ),
        (
            "cpu_user_seconds_total",
            Kind::Counter,
            "User CPU time.",
            seconds(resources.cpu_user_micros),
        ),
        (
            "connections_received_total",
            Kind::Counter,
            "Connections accepted.",
            counter(&statistics.connections_received),
        ),
        (
            "rejected_connections_total",
            Kind::Counter,
            "Connections refused.",
            counter(&statistics.connections_rejected),
        ),
        (
            "commands_processed_total",
            Kind::Counter,
            "Commands executed.",
            statistics.commands_processed() as f64,
        ),
        (
            "instantaneous_ops_per_sec",
            Kind::Gauge,
            "Commands a second.",
            per_second[0] as f64,
        ),
        (
            "net_input_bytes_total",
            Kind::Counter,
            "Bytes read.",
            counter(&statistics.bytes_read),
        ),
        (
            "net_output_bytes_total",
            Kind::Counter,
            "Bytes written.",
            counter(&statistics.bytes_written),
        ),
        (
            "keyspace_hits_total",
            Kind::Counter,
            "Look-ups that found the key.",
            counter(&statistics.keyspace_hits),
        ),
        (
            "keyspace_misses_total",
            Kind::Counter,
            "Look-ups that did not.",
            counter(&statistics.keyspace_misses),
        ),
        (
            "expired_keys_total",
            Kind::Counter,
            "Keys that expired.",
            counter(&statistics.expired_keys),
        ),
        (
            "evicted_keys_total",
            Kind::Counter,
            "Keys removed because memory was short.",
            counter(&statistics.evicted_keys),
        ),
        ("slowlog_length", Kind::Gauge, "Entries of the slow log.", slowlog),
        (
            "rdb_last_save_timestamp_seconds",
            Kind::Gauge,
            "The newest checkpoint.",
            last_save,
        ),
        (
            "loading_dump_file",
            Kind::Gauge,
            "Recovery goes on: never while this is answered.",
            0.0,
        ),
    ]
}

fn instance(layer: &Redis, out: &mut dyn Exposition) {
    let identity = &layer.process.identity;
    out.family("redis_instance_info", Kind::Gauge, "Facts about the server.");
    let labels = [
        ("redis_version", quartet_layer_redis::REDIS_VERSION),
        ("redis_mode", identity.mode()),
        ("role", "master"),
        ("os", std::env::consts::OS),
        ("maxmemory_policy", &layer.config.text_of("maxmemory-policy")),
        ("tcp_port", &identity.tcp_port.to_string()),
        ("run_id", &identity.run_id),
    ];
    out.value(&labels, 1.0);
}

fn commands(layer: &Redis, out: &mut dyn Exposition) {
    let used: Vec<(&str, u64, u64)> = layer
        .observation
        .statistics
        .commands
        .0
        .iter()
        .enumerate()
        .map(|(index, counter)| {
            let (calls, micros) = (&counter.calls, &counter.micros);
            let name = layer.table.at(index).name;
            (name, calls.load(Ordering::Relaxed), micros.load(Ordering::Relaxed))
        })
        .filter(|(_, calls, _)| *calls > 0)
        .collect();
    out.family("redis_commands_total", Kind::Counter, "Calls of each command.");
    for (name, calls, _) in &used {
        out.value(&[("cmd", name)], *calls as f64);
    }
    let name = "redis_commands_duration_seconds_total";
    out.family(name, Kind::Counter, "Time in each command.");
    for (command, _, micros) in &used {
        out.value(&[("cmd", command)], seconds(*micros));
    }
}

/// Counts the keys, if nobody keeps the partition. Done once when the server starts, so that there
/// are always some to tell of.
pub fn count_keys(layer: &Redis) -> bool {
    if layer.engine.is_busy() {
        return false;
    }
    let Ok(reader) = layer.engine.reader(layer.space) else {
        return false;
    };
    *layer.observation.key_counts.lock() = key_counts(&reader);
    true
}

/// A script may keep the partition for seconds, and this is answered on a thread that serves
/// others: then it tells what was counted last.
fn keys(layer: &Redis, out: &mut dyn Exposition) {
    let is_new = count_keys(layer);
    let counts = layer.observation.key_counts.lock().clone();
    let help = "1 if a command kept the partition, so that the counts of keys are those of the last read.";
    out.single(
        "redis_db_keys_are_late",
        Kind::Gauge,
        help,
        f64::from(u8::from(!is_new)),
    );
    out.family("redis_db_keys", Kind::Gauge, "Keys.");
    for count in &counts {
        out.value(&[("db", &format!("db{}", count.db))], count.keys as f64);
    }
    out.family("redis_db_keys_expiring", Kind::Gauge, "Keys that expire.");
    for count in &counts {
        out.value(&[("db", &format!("db{}", count.db))], count.expiring as f64);
    }
}
