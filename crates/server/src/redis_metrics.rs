//! The names under which redis_exporter shows a Redis, for dashboards that were made for it.
//!
//! Names and meanings: <https://github.com/oliver006/redis_exporter>, of the fields of INFO for the default database.

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use quartet_layer_redis::Redis;
use quartet_layer_redis::keyspace::key_counts;

/// Name, kind, help and value of what has no labels.
type Row = (&'static str, &'static str, &'static str, f64);

pub fn render(layer: &Redis, text: &mut String) {
    for (name, kind, help, value) in figures(layer) {
        let _ = writeln!(
            text,
            "# HELP redis_{name} {help}\n# TYPE redis_{name} {kind}\nredis_{name} {value}"
        );
    }
    instance(layer, text);
    commands(layer, text);
    // A script may keep the partition for seconds, and this is answered on a thread that serves others.
    if !layer.engine.is_busy() {
        keys(layer, text);
    }
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
    let seconds = |micros: u64| micros as f64 / 1e6;
    vec![
        ("up", "gauge", "The server answers.", 1.0),
        (
            "uptime_in_seconds",
            "gauge",
            "Time since the start.",
            seconds(uptime_micros).floor(),
        ),
        (
            "start_time_seconds",
            "gauge",
            "When it started.",
            seconds(started_micros),
        ),
        (
            "process_id",
            "gauge",
            "Number of the process.",
            layer.process.identity.process_id.into(),
        ),
        ("connected_clients", "gauge", "Open Redis connections.", connected),
        (
            "blocked_clients",
            "gauge",
            "Connections that wait in a command.",
            blocked,
        ),
        ("connected_slaves", "gauge", "Replicas of Redis' kind: none.", 0.0),
        (
            "cluster_enabled",
            "gauge",
            "1 if a cluster is emulated.",
            f64::from(u8::from(layer.process.identity.emulated_cluster.is_some())),
        ),
        (
            "config_maxclients",
            "gauge",
            "Most connections.",
            setting(&layer.config.maxclients),
        ),
        (
            "config_maxmemory",
            "gauge",
            "The parameter maxmemory.",
            setting(&layer.config.maxmemory),
        ),
        (
            "memory_max_bytes",
            "gauge",
            "The parameter maxmemory.",
            setting(&layer.config.maxmemory),
        ),
        ("memory_used_bytes", "gauge", "Memory in use.", used as f64),
        (
            "memory_used_rss_bytes",
            "gauge",
            "Resident memory.",
            resources.rss_bytes as f64,
        ),
        (
            "memory_used_peak_bytes",
            "gauge",
            "The most memory in use that anybody has seen.",
            peak,
        ),
        (
            "mem_fragmentation_ratio",
            "gauge",
            "Resident memory over memory in use.",
            resources.rss_bytes as f64 / used.max(1) as f64,
        ),
        (
            "cpu_sys_seconds_total",
            "counter",
            "System CPU time.",
            seconds(resources.cpu_system_micros),
        ),
        (
            "cpu_user_seconds_total",
            "counter",
            "User CPU time.",
            seconds(resources.cpu_user_micros),
        ),
        (
            "connections_received_total",
            "counter",
            "Connections accepted.",
            counter(&statistics.connections_received),
        ),
        (
            "rejected_connections_total",
            "counter",
            "Connections refused.",
            counter(&statistics.connections_rejected),
        ),
        (
            "commands_processed_total",
            "counter",
            "Commands executed.",
            counter(&statistics.commands_processed),
        ),
        (
            "instantaneous_ops_per_sec",
            "gauge",
            "Commands a second.",
            per_second[0] as f64,
        ),
        (
            "net_input_bytes_total",
            "counter",
            "Bytes read.",
            counter(&statistics.bytes_read),
        ),
        (
            "net_output_bytes_total",
            "counter",
            "Bytes written.",
            counter(&statistics.bytes_written),
        ),
        (
            "keyspace_hits_total",
            "counter",
            "Look-ups that found the key.",
            counter(&statistics.keyspace_hits),
        ),
        (
            "keyspace_misses_total",
            "counter",
            "Look-ups that did not.",
            counter(&statistics.keyspace_misses),
        ),
        (
            "expired_keys_total",
            "counter",
            "Keys that expired.",
            counter(&statistics.expired_keys),
        ),
        (
            "evicted_keys_total",
            "counter",
            "Keys removed because memory was short.",
            counter(&statistics.evicted_keys),
        ),
        ("slowlog_length", "gauge", "Entries of the slow log.", slowlog),
        (
            "rdb_last_save_timestamp_seconds",
            "gauge",
            "The newest checkpoint.",
            last_save,
        ),
        (
            "loading_dump_file",
            "gauge",
            "Recovery goes on: never while this is answered.",
            0.0,
        ),
    ]
}

fn instance(layer: &Redis, text: &mut String) {
    let identity = &layer.process.identity;
    let _ = writeln!(
        text,
        "# HELP redis_instance_info Facts about the server.\n# TYPE redis_instance_info gauge\n\
         redis_instance_info{{redis_version=\"{}\",redis_mode=\"{}\",role=\"master\",os=\"{}\",maxmemory_policy=\"{}\",\
         tcp_port=\"{}\",run_id=\"{}\"}} 1",
        quartet_layer_redis::REDIS_VERSION,
        identity.mode(),
        std::env::consts::OS,
        layer.config.text_of("maxmemory-policy"),
        identity.tcp_port,
        identity.run_id,
    );
}

fn commands(layer: &Redis, text: &mut String) {
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
    let _ = writeln!(
        text,
        "# HELP redis_commands_total Calls of each command.\n# TYPE redis_commands_total counter"
    );
    for (name, calls, _) in &used {
        let _ = writeln!(text, "redis_commands_total{{cmd=\"{name}\"}} {calls}");
    }
    let name = "redis_commands_duration_seconds_total";
    let _ = writeln!(text, "# HELP {name} Time in each command.\n# TYPE {name} counter");
    for (command, _, micros) in &used {
        let _ = writeln!(text, "{name}{{cmd=\"{command}\"}} {}", *micros as f64 / 1e6);
    }
}

fn keys(layer: &Redis, text: &mut String) {
    let Ok(reader) = layer.engine.reader(layer.space) else {
        return;
    };
    let counts = key_counts(&reader);
    let _ = writeln!(text, "# HELP redis_db_keys Keys.\n# TYPE redis_db_keys gauge");
    for count in &counts {
        let _ = writeln!(text, "redis_db_keys{{db=\"db{}\"}} {}", count.db, count.keys);
    }
    let _ = writeln!(
        text,
        "# HELP redis_db_keys_expiring Keys that expire.\n# TYPE redis_db_keys_expiring gauge"
    );
    for count in &counts {
        let _ = writeln!(
            text,
            "redis_db_keys_expiring{{db=\"db{}\"}} {}",
            count.db, count.expiring
        );
    }
}
