//! All metrics. One table of them; each value is read when asked for.
//!
//! Per-database series are capped; the remainder is aggregated as `(others)`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quartet_layer_redis::Redis;
use quartet_layer_redis::commands::table;
use quartet_tenancy::{DEFAULT_DATABASE, Database, Usage};

use crate::observability::durations;
use crate::observability::exposition::{Buckets, Exposition, Kind};
use crate::observability::redis_names;
use crate::observability::telemetry::spans::Spans;
use crate::process::system;
use crate::tenants::Tenants;

/// Writes all metrics. The names of the databases, and their use, are for the operator only.
pub fn write(layer: &Redis, tenants: &Tenants, is_for_operators: bool, out: &mut dyn Exposition) {
    let engine = layer.engine.statistics();
    let redis = &layer.observation.statistics;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let (user, system) = system::cpu_micros();
    let durability = layer.space.durability.name();
    let rows: [(&str, Kind, &str, f64); 38] = [
        (
            "quartet_transactions_total",
            Kind::Counter,
            "Transactions executed.",
            read(&engine.transactions),
        ),
        (
            "quartet_conflicts_total",
            Kind::Counter,
            "Optimistic transactions that met a conflict.",
            read(&engine.conflicts),
        ),
        (
            "quartet_log_epochs_total",
            Kind::Counter,
            "Epochs appended to the log.",
            read(&engine.epochs),
        ),
        (
            "quartet_log_bytes_total",
            Kind::Counter,
            "Bytes of epochs appended to the log.",
            read(&engine.epoch_bytes),
        ),
        (
            "quartet_log_syncs_total",
            Kind::Counter,
            "Syncs of the log.",
            read(&engine.syncs),
        ),
        (
            "quartet_log_bytes",
            Kind::Gauge,
            "Size of the log's files, in bytes.",
            read(&engine.log_bytes),
        ),
        (
            "quartet_log_retained_bytes",
            Kind::Gauge,
            "Size of the part that is kept for readers alone: backups and change feeds.",
            read(&engine.log_retained_bytes),
        ),
        (
            "quartet_log_readers",
            Kind::Gauge,
            "Number of readers of the log.",
            read(&engine.log_readers),
        ),
        (
            "quartet_log_readers_lost_total",
            Kind::Counter,
            "Readers that fell behind what is kept of the log, and were told so.",
            read(&engine.log_readers_lost),
        ),
        (
            "quartet_checkpoints_total",
            Kind::Counter,
            "Checkpoints written.",
            read(&engine.checkpoints),
        ),
        (
            "quartet_checkpoints_failed_total",
            Kind::Counter,
            "Checkpoints that could not be written. The log still holds what they would have held.",
            read(&engine.checkpoints_failed),
        ),
        (
            "quartet_checkpoint_failed",
            Kind::Gauge,
            "1 if the last checkpoint could not be written.",
            f64::from(u8::from(engine.checkpoint_failed.load(Ordering::Relaxed))),
        ),
        (
            "quartet_disk_full",
            Kind::Gauge,
            "1 while the disk has no room for writes that make the data larger, and they are refused.",
            f64::from(u8::from(layer.engine.is_disk_full())),
        ),
        (
            "quartet_store_bytes",
            Kind::Gauge,
            "Size of the ssd engine's files at its last flush, in bytes.",
            read(&engine.store_bytes),
        ),
        (
            "quartet_store_live_bytes",
            Kind::Gauge,
            "Size of the part that holds present data.",
            read(&engine.store_live_bytes),
        ),
        (
            "quartet_store_pinned_bytes",
            Kind::Gauge,
            "Size of the part that only open snapshots need.",
            read(&engine.store_pinned_bytes),
        ),
        (
            "quartet_store_flushed_bytes_total",
            Kind::Counter,
            "What flushes of the ssd engine, or checkpoints, have taken from the log.",
            read(&engine.store_flushed_bytes),
        ),
        (
            "quartet_store_flush_seconds_total",
            Kind::Counter,
            "How long they have taken.",
            read(&engine.store_flush_micros) / 1e6,
        ),
        (
            "quartet_store_unflushed_bytes",
            Kind::Gauge,
            "Memory that changes take which are not in the ssd engine's files yet.",
            layer.engine.unflushed_bytes() as f64,
        ),
        (
            "quartet_store_unflushed_bytes_max",
            Kind::Gauge,
            "How much they may take: with more, writers wait.",
            layer.engine.unflushed_bytes_max() as f64,
        ),
        (
            "quartet_writers_wait",
            Kind::Gauge,
            "1 while requests that would make the data larger wait for a flush.",
            f64::from(u8::from(layer.engine.is_behind())),
        ),
        (
            "quartet_removed_bytes",
            Kind::Gauge,
            "What files hold that were removed and whose room has not come back yet.",
            read(&engine.removed_bytes),
        ),
        (
            "quartet_durable_version",
            Kind::Gauge,
            "Everything up to this version is durable.",
            layer.engine.durable().0 as f64,
        ),
        (
            "quartet_commits_waiting",
            Kind::Gauge,
            "1 if something is committed and not durable yet.",
            f64::from(u8::from(commits_wait(layer))),
        ),
        (
            "quartet_redis_connections",
            Kind::Gauge,
            "Open Redis connections.",
            layer.connections.clients.count() as f64,
        ),
        (
            "quartet_redis_blocked_clients",
            Kind::Gauge,
            "Connections waiting in a blocking command.",
            layer.connections.blocking.counts().clients as f64,
        ),
        (
            "quartet_redis_connections_total",
            Kind::Counter,
            "Redis connections accepted.",
            read(&redis.connections_received),
        ),
        (
            "quartet_redis_connections_rejected_total",
            Kind::Counter,
            "Redis connections refused.",
            read(&redis.connections_rejected),
        ),
        (
            "quartet_redis_keyspace_hits_total",
            Kind::Counter,
            "Key look-ups that found the key.",
            read(&redis.keyspace_hits),
        ),
        (
            "quartet_redis_keyspace_misses_total",
            Kind::Counter,
            "Key look-ups that did not.",
            read(&redis.keyspace_misses),
        ),
        (
            "quartet_redis_expired_keys_total",
            Kind::Counter,
            "Keys removed because they expired.",
            read(&redis.expired_keys),
        ),
        (
            "quartet_redis_evicted_keys_total",
            Kind::Counter,
            "Keys removed because memory was short.",
            read(&redis.evicted_keys),
        ),
        (
            "quartet_redis_error_replies_total",
            Kind::Counter,
            "Error replies sent.",
            read(&redis.error_replies),
        ),
        (
            "quartet_memory_budget_bytes",
            Kind::Gauge,
            "Memory budget of the process, in bytes; 0 without a limit.",
            layer.engine.memory().budget().unwrap_or(0) as f64,
        ),
        (
            "quartet_memory_counted_bytes",
            Kind::Gauge,
            "Rows in memory, and bytes of peers.",
            layer.engine.memory().counted_bytes() as f64,
        ),
        (
            "process_resident_memory_bytes",
            Kind::Gauge,
            "Resident memory.",
            system::resident_bytes() as f64,
        ),
        (
            "process_cpu_user_seconds_total",
            Kind::Counter,
            "User CPU time.",
            user as f64 / 1e6,
        ),
        (
            "process_cpu_system_seconds_total",
            Kind::Counter,
            "System CPU time.",
            system as f64 / 1e6,
        ),
    ];
    for (name, kind, help, value) in rows {
        out.single(name, kind, help, value);
    }
    let help = "Durability of the logical database.";
    out.family("quartet_redis_durability", Kind::Gauge, help);
    out.value(&[("mode", durability)], 1.0);
    if let Some(spans) = &tenants.maker.spans {
        telemetry(spans, out);
    }
    commands(layer, out);
    durations::write(layer, &tenants.maker.durations, out);
    redis_names::write(layer, out);
    if is_for_operators {
        databases(layer, tenants, out);
    }
}

/// How the sending of telemetry does.
fn telemetry(spans: &Spans, out: &mut dyn Exposition) {
    let rows: [(&str, &str, &AtomicU64); 3] = [
        (
            "quartet_otlp_spans_sent_total",
            "Spans that the collector has taken.",
            &spans.sent,
        ),
        (
            "quartet_otlp_spans_dropped_total",
            "Spans for which there was no room, or that the collector did not take.",
            &spans.dropped,
        ),
        (
            "quartet_otlp_failures_total",
            "Requests to the collector that failed.",
            &spans.failures,
        ),
    ];
    for (name, help, counter) in rows {
        out.single(name, Kind::Counter, help, counter.load(Ordering::Relaxed) as f64);
    }
}

/// Returns false while a script keeps the partition: nothing else commits then, and a thread that
/// serves connections must not wait for it without a bound, as it may be the one that is to receive
/// SCRIPT KILL.
fn commits_wait(layer: &Redis) -> bool {
    let is_newer = |reader: quartet_engine::Reader| reader.version > layer.engine.durable();
    !layer.engine.is_busy() && layer.engine.reader(layer.space).is_ok_and(is_newer)
}

/// Name, kind, help, and the figure.
type Metric = (&'static str, Kind, &'static str, fn(&Figures) -> f64);

/// The use and the limits of a database beside the default one.
struct Figures {
    usage: Usage,
    stored_bytes: u64,
    connections: usize,
}

const OF_A_DATABASE: [Metric; 9] = [
    (
        "quartet_database_commands_total",
        Kind::Counter,
        "Commands that a database executed.",
        |figures| figures.usage.commands as f64,
    ),
    (
        "quartet_database_commands_today",
        Kind::Gauge,
        "Commands of the present day, UTC.",
        |figures| figures.usage.commands_of_day as f64,
    ),
    (
        "quartet_database_refused_total",
        Kind::Counter,
        "Requests that a quota of the database refused.",
        |figures| figures.usage.refused as f64,
    ),
    (
        "quartet_database_read_units_total",
        Kind::Counter,
        "Units read.",
        |figures| figures.usage.read_units,
    ),
    (
        "quartet_database_write_units_total",
        Kind::Counter,
        "Units written.",
        |figures| figures.usage.write_units,
    ),
    (
        "quartet_database_received_bytes_total",
        Kind::Counter,
        "Bytes of requests.",
        |figures| figures.usage.bytes_in as f64,
    ),
    (
        "quartet_database_sent_bytes_total",
        Kind::Counter,
        "Bytes of replies.",
        |figures| figures.usage.bytes_out as f64,
    ),
    (
        "quartet_database_connections",
        Kind::Gauge,
        "Open Redis connections.",
        |figures| figures.connections as f64,
    ),
    (STORED_BYTES, Kind::Gauge, "Bytes of keys and values.", |figures| {
        figures.stored_bytes as f64
    }),
];
const STORED_BYTES: &str = "quartet_database_stored_bytes";

/// Stands for the databases that are not shown each. It cannot be the name of one.
const OTHERS: &str = "(others)";
/// About what a line takes beside the name of its database.
const LINE_BYTES: usize = 56;
const HISTOGRAM_BYTES: usize = 6 * 80;

fn databases(layer: &Redis, tenants: &Tenants, out: &mut dyn Exposition) {
    let engine = &tenants.maker.engine;
    let now_micros = engine.now_micros();
    // In the order in which they were made, so that it is always the same ones that are shown.
    let all = tenants.catalogue.list();
    let names: Vec<String> = all.iter().map(|database| database.definition().name.clone()).collect();
    let figures: Vec<Figures> = all
        .iter()
        .map(|database| Figures {
            usage: database.meter.usage(now_micros),
            stored_bytes: engine.stored_bytes(database.id),
            connections: tenants.connections_of(database.id),
        })
        .collect();
    // A fifth is left for how long requests took.
    let shown = count_within(
        &names,
        OF_A_DATABASE.len() * LINE_BYTES,
        OF_A_DATABASE.len(),
        out.room() / 5 * 4,
    );
    for (name, kind, help, figure) in OF_A_DATABASE {
        let is_of_all = name == STORED_BYTES;
        if all.is_empty() && !is_of_all {
            continue;
        }
        out.family(name, kind, help);
        if is_of_all {
            let bytes = engine.stored_bytes(DEFAULT_DATABASE);
            out.value(&[("database", "default")], bytes as f64);
        }
        for (database, figures) in names.iter().zip(&figures).take(shown) {
            out.value(&[("database", database)], figure(figures));
        }
        if shown < all.len() {
            out.value(&[("database", OTHERS)], figures[shown..].iter().map(figure).sum());
        }
    }
    out.family(
        "quartet_layers_open",
        Kind::Gauge,
        "Logical databases beside the default one of which a layer is in memory, by layer.",
    );
    for (layer, databases) in tenants.layers_open() {
        out.value(&[("layer", layer)], databases as f64);
    }
    database_durations(layer, tenants, &all, out);
}

/// Writes durations of the databases that were asked for something since the start.
fn database_durations(layer: &Redis, tenants: &Tenants, all: &[Arc<Database>], out: &mut dyn Exposition) {
    let name = "quartet_database_request_seconds";
    let help = "How long requests of a database took, of all layers, without waiting for the disk.";
    out.family(name, Kind::Histogram, help);
    let default = durations::of_default_database(layer, &tenants.maker.durations);
    out.histogram(&[("database", "default")], &default);
    let (names, used): (Vec<String>, Vec<Buckets>) = all
        .iter()
        .map(|database| (database, durations::of_database(&database.meter.durations)))
        .filter(|(_, buckets)| buckets.count > 0)
        .map(|(database, buckets)| (database.definition().name.clone(), buckets))
        .unzip();
    let shown = count_within(
        &names,
        HISTOGRAM_BYTES,
        6,
        out.room().saturating_sub(2 * HISTOGRAM_BYTES),
    );
    for (name, buckets) in names.iter().zip(&used).take(shown) {
        out.histogram(&[("database", name)], buckets);
    }
    let others = used.into_iter().skip(shown).reduce(|mut sum, buckets| {
        sum.add(&buckets);
        sum
    });
    if let Some(others) = others {
        out.histogram(&[("database", OTHERS)], &others);
    }
}

/// Returns how many of the databases of these names fit in `room_bytes`, if each takes `bytes` and
/// its name `repeated` times.
fn count_within(names: &[String], bytes: usize, repeated: usize, room_bytes: usize) -> usize {
    let mut taken = 0;
    let fits = |name: &&String| {
        taken += bytes + repeated * name.len();
        taken <= room_bytes
    };
    names.iter().take_while(fits).count()
}

fn commands(layer: &Redis, out: &mut dyn Exposition) {
    out.family("quartet_redis_commands_total", Kind::Counter, "Calls of each command.");
    for (index, counter) in layer.observation.statistics.commands.0.iter().enumerate() {
        let calls = counter.calls.load(Ordering::Relaxed);
        if calls > 0 {
            out.value(&[("command", table().at(index).name)], calls as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_databases_are_shown_as_have_room() {
        let names: Vec<String> = (0..10).map(|number| format!("tenant-{number}")).collect();
        assert_eq!(count_within(&names, 100, 2, 10 * 116), 10);
        assert_eq!(count_within(&names, 100, 2, 10 * 116 - 1), 9);
        assert_eq!(count_within(&names, 100, 2, 0), 0);
        assert!(!quartet_tenancy::is_name(OTHERS));
    }
}
