//! How long requests take, by layer and operation.

use std::sync::atomic::Ordering;

use super::metric::{Metric, Sources, Table};
use crate::observability::durations::buckets_of_operation;
use crate::observability::exposition::{Exposition, Kind};

pub const TABLE: Table = Table {
    title: "Requests",
    shown: "All layers, for each operation since its first request. A node of a cluster that is home of some\n\
            partitions shows this, and the tables of databases, for each by the label `partition`.",
    is_shown: |_| true,
    is_by_service: true,
    metrics: &[Metric::samples(
        "quartet_request_duration_seconds",
        Kind::Histogram,
        "How long requests took, by layer and operation, without waiting for the disk.",
        durations,
    )
    .in_seconds()],
};

/// Those of the default database's layer of Redis, and of all others.
fn durations(sources: &Sources<'_>, out: &mut dyn Exposition) {
    let mut operation = |layer, operation, histogram, micros| {
        let buckets = buckets_of_operation(histogram, micros);
        if buckets.count > 0 {
            out.histogram(&[("layer", layer), ("operation", operation)], &buckets);
        }
    };
    for (index, counter) in sources.redis_statistics().commands.0.iter().enumerate() {
        let micros = counter.micros.load(Ordering::Relaxed);
        let name = sources.redis.table.at(index).name;
        operation("redis", name, &counter.durations, micros);
    }
    for layer in sources.tenants.parts.durations.layers() {
        for (name, durations) in layer.each() {
            operation(layer.layer, name, &durations.histogram, durations.micros());
        }
    }
}
