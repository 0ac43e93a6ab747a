//! Metrics of the engine: transactions, the log, the store.

use std::sync::atomic::Ordering;

use quartet_layer_redis::Redis;
use quartet_model::LayerId;

use super::metric::{Metric, Sources, Table, count, flag};
use crate::observability::exposition::{Buckets, Exposition, Kind};

pub const TABLE: Table = Table {
    title: "Engine",
    shown: "All databases together.",
    is_shown: |_| true,
    metrics: &[
        Metric::counter("quartet_transactions_total", "Transactions executed.", |sources| {
            sources.engine_statistics().transactions() as f64
        }),
        Metric::counter(
            "quartet_conflicts_total",
            "Optimistic transactions that met a conflict.",
            |sources| count(&sources.engine_statistics().conflicts),
        ),
        Metric::samples(
            "quartet_lock_seconds",
            Kind::Histogram,
            "How long the partition's lock is held, by the layer whose transactions it is held for (`kind`), and \
             alone or beside others who read (`mode`). One hold in 31 is measured.",
            holds,
        )
        .in_seconds(),
        Metric::counter("quartet_log_epochs_total", "Epochs appended to the log.", |sources| {
            count(&sources.engine_statistics().epochs)
        }),
        Metric::counter(
            "quartet_log_bytes_total",
            "Bytes of epochs appended to the log.",
            |sources| count(&sources.engine_statistics().epoch_bytes),
        )
        .in_bytes(),
        Metric::counter("quartet_log_syncs_total", "Syncs of the log.", |sources| {
            count(&sources.engine_statistics().syncs)
        }),
        Metric::gauge("quartet_log_bytes", "Size of the log's files, in bytes.", |sources| {
            count(&sources.engine_statistics().log_bytes)
        })
        .in_bytes(),
        Metric::gauge(
            "quartet_log_retained_bytes",
            "Size of the part of the log that is kept for readers alone: backups and change feeds.",
            |sources| count(&sources.engine_statistics().log_retained_bytes),
        )
        .in_bytes(),
        Metric::gauge("quartet_log_readers", "Number of readers of the log.", |sources| {
            count(&sources.engine_statistics().log_readers)
        }),
        Metric::counter(
            "quartet_log_readers_lost_total",
            "Readers of the log that were ended because they fell behind what is kept of it.",
            |sources| count(&sources.engine_statistics().log_readers_lost),
        ),
        Metric::counter("quartet_checkpoints_total", "Checkpoints written.", |sources| {
            count(&sources.engine_statistics().checkpoints)
        }),
        Metric::counter(
            "quartet_checkpoints_failed_total",
            "Checkpoints that could not be written. The log still holds what they would have held.",
            |sources| count(&sources.engine_statistics().checkpoints_failed),
        ),
        Metric::gauge(
            "quartet_checkpoint_failed",
            "1 if the last checkpoint could not be written.",
            |sources| flag(sources.engine_statistics().checkpoint_failed.load(Ordering::Relaxed)),
        ),
        Metric::gauge(
            "quartet_disk_full",
            "1 while the disk has no room for writes that make the data larger, and they are refused.",
            |sources| flag(sources.redis.engine.is_disk_full()),
        ),
        Metric::gauge(
            "quartet_store_bytes",
            "Size of the ssd engine's files at its last flush, in bytes.",
            |sources| count(&sources.engine_statistics().store_bytes),
        )
        .in_bytes(),
        Metric::gauge(
            "quartet_store_live_bytes",
            "Size of the part of those files that holds present data.",
            |sources| count(&sources.engine_statistics().store_live_bytes),
        )
        .in_bytes(),
        Metric::gauge(
            "quartet_store_pinned_bytes",
            "Size of the part of those files that only open snapshots need.",
            |sources| count(&sources.engine_statistics().store_pinned_bytes),
        )
        .in_bytes(),
        Metric::counter(
            "quartet_store_flushed_bytes_total",
            "Bytes of the log that flushes of the ssd engine, or checkpoints, have taken over.",
            |sources| count(&sources.engine_statistics().store_flushed_bytes),
        )
        .in_bytes(),
        Metric::counter(
            "quartet_store_flush_seconds_total",
            "Time that those flushes, or checkpoints, have taken.",
            |sources| count(&sources.engine_statistics().store_flush_micros) / 1e6,
        )
        .in_seconds(),
        Metric::gauge(
            "quartet_store_unflushed_bytes",
            "Memory of changes that are not in the ssd engine's files yet.",
            |sources| sources.redis.engine.unflushed_bytes() as f64,
        )
        .in_bytes(),
        Metric::gauge(
            "quartet_store_unflushed_bytes_max",
            "Most memory that those changes may take: with more, writers wait.",
            |sources| sources.redis.engine.unflushed_bytes_max() as f64,
        )
        .in_bytes(),
        Metric::gauge(
            "quartet_writers_wait",
            "1 while requests that would make the data larger wait for a flush.",
            |sources| flag(sources.redis.engine.is_behind()),
        ),
        Metric::gauge(
            "quartet_removed_bytes",
            "Size of removed files whose room has not come back yet.",
            |sources| count(&sources.engine_statistics().removed_bytes),
        )
        .in_bytes(),
        Metric::gauge(
            "quartet_durable_version",
            "Everything up to this version is durable.",
            |sources| sources.redis.engine.durable().0 as f64,
        ),
        Metric::gauge(
            "quartet_commits_waiting",
            "1 if something is committed and not durable yet.",
            |sources| flag(commits_wait(sources.redis)),
        ),
    ],
};

fn holds(sources: &Sources<'_>, out: &mut dyn Exposition) {
    for holds in sources.engine_statistics().holds() {
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
        out.histogram(&[("kind", kind), ("mode", mode)], &buckets);
    }
}

/// Returns false while a script keeps the partition: nothing else commits then, and a thread that
/// serves connections must not wait for it without a bound, as it may be the one that is to receive
/// SCRIPT KILL.
fn commits_wait(layer: &Redis) -> bool {
    let is_newer = |reader: quartet_engine::Reader| reader.version > layer.engine.durable();
    !layer.engine.is_busy() && layer.engine.reader(layer.space).is_ok_and(is_newer)
}
