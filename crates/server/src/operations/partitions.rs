//! The partitions of this server, for an operator.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use quartet_engine::{Engine, PartitionId, Role};
use quartet_tenancy::{DEFAULT_DATABASE, DEFAULT_NAME};
use serde_json::{Value, json};

use crate::tenants::Tenants;

/// Size, load, queue and databases of each, as JSON.
pub fn describe(tenants: &Tenants) -> Value {
    let partitions = tenants.parts.partitions.iter();
    let all: Vec<Value> = partitions
        .map(|(id, engine)| describe_one(tenants, id, engine))
        .collect();
    json!({ "partitions": all, "moves": tenants.describe_moves() })
}

/// The names of the databases that are whole in a partition.
pub fn databases_in(tenants: &Tenants, id: PartitionId) -> Vec<(String, u16)> {
    let databases = tenants.catalogue.list();
    let databases = databases
        .iter()
        .filter(|database| database.partition() == id && !database.is_closed());
    let databases = databases.map(|database| (database.definition().name.clone(), database.id.0));
    let default = (id == PartitionId(0)).then(|| (DEFAULT_NAME.to_owned(), DEFAULT_DATABASE.0));
    default.into_iter().chain(databases).collect()
}

/// Totals count from the start of the process.
fn describe_one(tenants: &Tenants, id: PartitionId, engine: &Engine) -> Value {
    let statistics = engine.statistics();
    let total = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let databases = databases_in(tenants, id);
    let is_alone = engine.role() == Role::Alone;
    let term = (!is_alone).then(|| engine.replication().term);
    let nodes = tenants.parts.nodes.as_ref().and_then(Weak::upgrade);
    json!({
        "home": nodes.and_then(|nodes| nodes.home_of(id)),
        "term": term,
        "partition": id.0,
        "databases": databases.into_iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "stored_bytes": engine.live_bytes(),
        "log_bytes": total(&statistics.log_bytes),
        "durable_version": engine.durable().0,
        "transactions": statistics.transactions(),
        "log_epochs": total(&statistics.epochs),
        "log_epoch_bytes": total(&statistics.epoch_bytes),
        "log_syncs": total(&statistics.syncs),
        "unflushed_bytes": engine.unflushed_bytes(),
        "is_busy": engine.is_busy(),
        "writers_wait": engine.is_behind(),
        "is_disk_full": engine.is_disk_full(),
    })
}
