//! The names under which redis_exporter shows a Redis, for dashboards that were made for it.
//!
//! Names and meanings: <https://github.com/oliver006/redis_exporter>, of the fields of INFO for the
//! default database.

use std::sync::atomic::{AtomicI64, Ordering};

use quartet_layer_redis::Redis;

use super::metric::{Metric, Sources, Table, count, flag};
use crate::observability::exposition::{Exposition, Kind, seconds};

pub const TABLE: Table = Table {
    title: "Names of redis_exporter",
    shown: "Only the default database, for dashboards that were made for redis_exporter.",
    is_shown: |_| true,
    is_by_service: false,
    metrics: &[
        Metric::gauge("redis_up", "The server answers.", |_| 1.0),
        Metric::gauge("redis_uptime_in_seconds", "Time since the start.", |sources| {
            uptime_seconds(sources.redis)
        })
        .in_seconds(),
        Metric::gauge("redis_start_time_seconds", "Time of the start.", |sources| {
            seconds(sources.redis.process.identity.started_micros)
        })
        .in_seconds(),
        Metric::gauge("redis_process_id", "Number of the process.", |sources| {
            sources.redis.process.identity.process_id.into()
        }),
        Metric::gauge("redis_connected_clients", "Open Redis connections.", |sources| {
            sources.redis.connections.clients.count() as f64
        }),
        Metric::gauge(
            "redis_blocked_clients",
            "Connections that wait in a command.",
            |sources| sources.redis.connections.blocking.counts().clients as f64,
        ),
        Metric::gauge("redis_connected_slaves", "Replicas of Redis' kind: none.", |_| 0.0),
        Metric::gauge("redis_cluster_enabled", "1 if a cluster is emulated.", |sources| {
            flag(sources.redis.process.identity.emulated_cluster.is_some())
        }),
        Metric::gauge("redis_config_maxclients", "Most connections.", |sources| {
            setting(&sources.redis.config.maxclients)
        }),
        Metric::gauge("redis_config_maxmemory", "The parameter maxmemory.", |sources| {
            setting(&sources.redis.config.maxmemory)
        }),
        Metric::gauge("redis_memory_max_bytes", "The parameter maxmemory.", |sources| {
            setting(&sources.redis.config.maxmemory)
        })
        .in_bytes(),
        Metric::gauge("redis_memory_used_bytes", "Memory in use.", |sources| {
            sources.used_bytes as f64
        })
        .in_bytes(),
        Metric::gauge("redis_memory_used_rss_bytes", "Resident memory.", |sources| {
            sources.resources.rss_bytes as f64
        })
        .in_bytes(),
        Metric::gauge(
            "redis_memory_used_peak_bytes",
            "The most memory in use at any reading.",
            |sources| sources.redis_statistics().used_peak(sources.used_bytes) as f64,
        )
        .in_bytes(),
        Metric::gauge(
            "redis_mem_fragmentation_ratio",
            "Resident memory over memory in use.",
            |sources| sources.resources.rss_bytes as f64 / sources.used_bytes.max(1) as f64,
        ),
        Metric::counter("redis_cpu_sys_seconds_total", "System CPU time.", |sources| {
            seconds(sources.resources.cpu_system_micros)
        })
        .in_seconds(),
        Metric::counter("redis_cpu_user_seconds_total", "User CPU time.", |sources| {
            seconds(sources.resources.cpu_user_micros)
        })
        .in_seconds(),
        Metric::counter("redis_connections_received_total", "Connections accepted.", |sources| {
            count(&sources.redis_statistics().connections_received)
        }),
        Metric::counter("redis_rejected_connections_total", "Connections refused.", |sources| {
            count(&sources.redis_statistics().connections_rejected)
        }),
        Metric::counter("redis_commands_processed_total", "Commands executed.", |sources| {
            sources.redis_statistics().commands_processed() as f64
        }),
        Metric::gauge("redis_instantaneous_ops_per_sec", "Commands a second.", |sources| {
            sources.redis_statistics().rate.lock().per_second()[0] as f64
        }),
        Metric::counter("redis_net_input_bytes_total", "Bytes read.", |sources| {
            count(&sources.redis_statistics().bytes_read)
        })
        .in_bytes(),
        Metric::counter("redis_net_output_bytes_total", "Bytes written.", |sources| {
            count(&sources.redis_statistics().bytes_written)
        })
        .in_bytes(),
        Metric::counter("redis_keyspace_hits_total", "Look-ups that found the key.", |sources| {
            count(&sources.redis_statistics().keyspace_hits)
        }),
        Metric::counter(
            "redis_keyspace_misses_total",
            "Look-ups that did not find the key.",
            |sources| count(&sources.redis_statistics().keyspace_misses),
        ),
        Metric::counter("redis_expired_keys_total", "Keys that expired.", |sources| {
            count(&sources.redis_statistics().expired_keys)
        }),
        Metric::counter(
            "redis_evicted_keys_total",
            "Keys removed because memory was short.",
            |sources| count(&sources.redis_statistics().evicted_keys),
        ),
        Metric::gauge("redis_slowlog_length", "Entries of the slow log.", |sources| {
            sources.redis.observation.slowlog.lock().entries.len() as f64
        }),
        Metric::gauge(
            "redis_rdb_last_save_timestamp_seconds",
            "The newest checkpoint.",
            |sources| sources.redis.last_save_seconds() as f64,
        )
        .in_seconds(),
        Metric::gauge(
            "redis_loading_dump_file",
            "Recovery is running: always 0 in a reply.",
            |_| 0.0,
        ),
        Metric::samples("redis_instance_info", Kind::Gauge, "Facts about the server.", instance),
        Metric::samples(
            "redis_commands_total",
            Kind::Counter,
            "Calls of each command.",
            |sources, out| {
                each_command(sources, |name, calls, _| out.value(&[("cmd", name)], calls as f64));
            },
        ),
        Metric::samples(
            "redis_commands_duration_seconds_total",
            Kind::Counter,
            "Time in each command.",
            |sources, out| each_command(sources, |name, _, micros| out.value(&[("cmd", name)], seconds(micros))),
        )
        .in_seconds(),
        Metric::gauge(
            "redis_db_keys_are_late",
            "1 if a command kept the partition, so that the counts of keys are those of the last read.",
            |sources| flag(!sources.keys().is_new),
        ),
        Metric::samples("redis_db_keys", Kind::Gauge, "Keys.", |sources, out| {
            for count in &sources.keys().counts {
                out.value(&[("db", &format!("db{}", count.db))], count.keys as f64);
            }
        }),
        Metric::samples(
            "redis_db_keys_expiring",
            Kind::Gauge,
            "Keys that expire.",
            |sources, out| {
                for count in &sources.keys().counts {
                    out.value(&[("db", &format!("db{}", count.db))], count.expiring as f64);
                }
            },
        ),
    ],
};

fn setting(setting: &AtomicI64) -> f64 {
    setting.load(Ordering::Relaxed) as f64
}

fn uptime_seconds(layer: &Redis) -> f64 {
    let started_micros = layer.process.identity.started_micros;
    seconds(layer.engine.now_micros().saturating_sub(started_micros)).floor()
}

fn instance(sources: &Sources<'_>, out: &mut dyn Exposition) {
    let layer = sources.redis;
    let identity = &layer.process.identity;
    let labels = [
        ("redis_version", identity.redis_version.text()),
        ("redis_mode", identity.mode()),
        ("role", "master"),
        ("os", std::env::consts::OS),
        ("maxmemory_policy", &layer.config.text_of("maxmemory-policy")),
        ("tcp_port", &identity.tcp_port.to_string()),
        ("run_id", &identity.run_id),
    ];
    out.value(&labels, 1.0);
}

/// Calls `write` with the name of each command that was called, its calls and its microseconds.
fn each_command(sources: &Sources<'_>, mut write: impl FnMut(&str, u64, u64)) {
    for (index, counter) in sources.redis_statistics().commands.0.iter().enumerate() {
        let calls = counter.calls.load(Ordering::Relaxed);
        if calls > 0 {
            let micros = counter.micros.load(Ordering::Relaxed);
            write(sources.redis.table.at(index).name, calls, micros);
        }
    }
}
