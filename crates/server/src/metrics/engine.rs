//! Metrics of the engine: transactions, the log, the store.

use std::sync::atomic::Ordering;

use quartet_engine::{Durability, Engine, Space};
use quartet_model::LayerId;
use quartet_tenancy::DEFAULT_DATABASE;

use super::metric::{Metric, Sources, Table, count, flag};
use crate::observability::exposition::{Buckets, Exposition, Kind};

pub const TABLE: Table = Table {
    title: "Engine",
    shown: "All databases together. Where there are several partitions, of each, by the label `partition`.",
    is_shown: |_| true,
    is_by_service: false,
    metrics: &[
        Metric::partition_counter("quartet_transactions_total", "Transactions executed.", |engine| {
            engine.statistics().transactions() as f64
        }),
        Metric::partition_counter(
            "quartet_conflicts_total",
            "Optimistic transactions that failed with a conflict.",
            |engine| count(&engine.statistics().conflicts),
        ),
        Metric::samples(
            "quartet_lock_seconds",
            Kind::Histogram,
            "Duration of holds of the partition's lock, by layer (`kind`) and mode (`mode`: exclusive is `alone`, else \
             `shared`). One hold in 31 is measured.",
            holds,
        )
        .in_seconds(),
        Metric::partition_counter("quartet_log_epochs_total", "Epochs appended to the log.", |engine| {
            count(&engine.statistics().epochs)
        }),
        Metric::partition_counter(
            "quartet_log_bytes_total",
            "Bytes of epochs appended to the log.",
            |engine| count(&engine.statistics().epoch_bytes),
        )
        .in_bytes(),
        Metric::partition_counter("quartet_log_syncs_total", "Syncs of the log.", |engine| {
            count(&engine.statistics().syncs)
        }),
        Metric::partition_gauge("quartet_log_bytes", "Size of the log's files, in bytes.", |engine| {
            count(&engine.statistics().log_bytes)
        })
        .in_bytes(),
        Metric::partition_gauge(
            "quartet_log_retained_bytes",
            "Size of the part of the log that is kept only for readers: backups and change feeds.",
            |engine| count(&engine.statistics().log_retained_bytes),
        )
        .in_bytes(),
        Metric::partition_gauge("quartet_log_readers", "Number of readers of the log.", |engine| {
            count(&engine.statistics().log_readers)
        }),
        Metric::partition_counter(
            "quartet_log_readers_lost_total",
            "Readers of the log that were ended because they lagged beyond its retention.",
            |engine| count(&engine.statistics().log_readers_lost),
        ),
        Metric::partition_counter("quartet_checkpoints_total", "Checkpoints written.", |engine| {
            count(&engine.statistics().checkpoints)
        }),
        Metric::partition_counter(
            "quartet_checkpoints_failed_total",
            "Checkpoints that could not be written. The log still holds what they would have held.",
            |engine| count(&engine.statistics().checkpoints_failed),
        ),
        Metric::partition_gauge(
            "quartet_checkpoint_failed",
            "1 if the last checkpoint could not be written.",
            |engine| flag(engine.statistics().checkpoint_failed.load(Ordering::Relaxed)),
        ),
        Metric::partition_gauge(
            "quartet_disk_full",
            "1 while the disk has no room for writes that make the data larger, and they are refused.",
            |engine| flag(engine.is_disk_full()),
        ),
        Metric::partition_gauge(
            "quartet_store_bytes",
            "Size of the ssd engine's files at its last flush, in bytes.",
            |engine| count(&engine.statistics().store_bytes),
        )
        .in_bytes(),
        Metric::partition_gauge(
            "quartet_store_live_bytes",
            "Size of the part of those files that holds present data.",
            |engine| count(&engine.statistics().store_live_bytes),
        )
        .in_bytes(),
        Metric::partition_gauge(
            "quartet_store_pinned_bytes",
            "Size of the part of those files that only open snapshots need.",
            |engine| count(&engine.statistics().store_pinned_bytes),
        )
        .in_bytes(),
        Metric::partition_counter(
            "quartet_store_flushed_bytes_total",
            "Bytes of the log that flushes of the ssd engine, or checkpoints, have taken over.",
            |engine| count(&engine.statistics().store_flushed_bytes),
        )
        .in_bytes(),
        Metric::partition_counter(
            "quartet_store_flush_seconds_total",
            "Time that those flushes, or checkpoints, have taken.",
            |engine| count(&engine.statistics().store_flush_micros) / 1e6,
        )
        .in_seconds(),
        Metric::partition_gauge(
            "quartet_store_unflushed_bytes",
            "Memory of changes that are not in the ssd engine's files yet.",
            |engine| engine.unflushed_bytes() as f64,
        )
        .in_bytes(),
        Metric::partition_gauge(
            "quartet_store_unflushed_bytes_max",
            "Most memory that those changes may take: with more, writers wait.",
            |engine| engine.unflushed_bytes_max() as f64,
        )
        .in_bytes(),
        Metric::partition_gauge(
            "quartet_writers_wait",
            "1 while requests that would make the data larger wait for a flush.",
            |engine| flag(engine.is_behind()),
        ),
        Metric::partition_gauge(
            "quartet_removed_bytes",
            "Size of removed files with room that is not free yet.",
            |engine| count(&engine.statistics().removed_bytes),
        )
        .in_bytes(),
        Metric::partition_gauge(
            "quartet_durable_version",
            "Everything up to this version is durable.",
            |engine| engine.durable().0 as f64,
        ),
        Metric::partition_gauge(
            "quartet_commits_waiting",
            "1 if something is committed and not durable yet.",
            |engine| flag(commits_wait(engine)),
        ),
    ],
};

fn holds(sources: &Sources<'_>, out: &mut dyn Exposition) {
    let partitions = &sources.tenants.parts.partitions;
    for (id, engine) in partitions.iter() {
        let id = id.0.to_string();
        for holds in engine.statistics().holds() {
            let kind = match holds.layer {
                LayerId::System => "system",
                LayerId::Redis => "redis",
                LayerId::Fauna => "fauna",
                LayerId::DynamoDb => "dynamodb",
                LayerId::KeyValue => "keyvalue",
            };
            let mode = if holds.is_alone { "alone" } else { "shared" };
            let buckets = Buckets {
                within: holds.within_micros,
                count: holds.count,
                micros: holds.micros,
            };
            let labels = [("kind", kind), ("mode", mode), ("partition", &id)];
            let count = if partitions.count() > 1 { 3 } else { 2 };
            out.histogram(&labels[..count], &buckets);
        }
    }
}

/// Returns false while a script holds the partition: nothing else commits then, and a thread that
/// serves connections must not wait for it without a bound, as the same thread may have to receive
/// SCRIPT KILL.
fn commits_wait(engine: &Engine) -> bool {
    let space = Space {
        database: DEFAULT_DATABASE,
        layer: LayerId::System,
        durability: Durability::Always,
    };
    let is_newer = |reader: quartet_engine::Reader| reader.version > engine.durable();
    !engine.is_busy() && engine.reader(space).is_ok_and(is_newer)
}
