//! Keys that the client computes: those under 0xff 0xff, and ranges of system keys that describe a
//! cluster of one server.
//!
//! Keys for features that one server does not have (excluded processes, maintenance, a lock) are
//! absent, as in a cluster without them. No value is invented.

use quartet_wire_keyvalue::{ErrorCode, Reply, Request};
use serde_json::{Value, json};

use crate::attempt::Attempt;
use crate::conflicts::RangeSet;
use crate::connection::code_of_read;
use crate::reading::{RangeOptions, Rows, Selector};
use crate::{Cluster, SYSTEM_KEYS_END, system_keys};

const PREFIX: &[u8] = b"\xff\xff";
const PREFIX_END: &[u8] = b"\xff\xff\xff";
const STATUS: &[u8] = b"\xff\xff/status/json";
const CLUSTER_FILE: &[u8] = b"\xff\xff/cluster_file_path";
const CONNECTION_STRING: &[u8] = b"\xff\xff/connection_string";
const TRANSACTION: &[u8] = b"\xff\xff/transaction/";
const CONFIGURATION: &[u8] = b"\xff\xff/configuration/";
const METRICS: &[u8] = b"\xff\xff/metrics/";
/// Parts of the transaction module, with keys that are boundaries of key ranges.
const CONFLICTING: &[u8] = b"\xff\xff/transaction/conflicting_keys/";
const READ_CONFLICTS: &[u8] = b"\xff\xff/transaction/read_conflict_range/";
const WRITE_CONFLICTS: &[u8] = b"\xff\xff/transaction/write_conflict_range/";
/// The map of tenants, which is empty.
const TENANTS: &[u8] = b"\xff\xff/management/tenant/map/";
const TENANTS_END: &[u8] = b"\xff\xff/management/tenant/map0";
/// The facts about the transaction that the computed keys show.
pub(crate) struct SpecialKeyInfo {
    pub conflicting: RangeSet,
    pub read_conflicts: RangeSet,
    pub write_conflicts: RangeSet,
    /// Reads may be outside of a module, and ranges span several.
    pub relaxed: bool,
}

/// A key that is computed.
pub(crate) fn is_special(key: &[u8]) -> bool {
    (PREFIX..PREFIX_END).contains(&key)
}

/// A range of computed keys and of no others.
pub(crate) fn is_special_range(begin: &[u8], end: &[u8]) -> bool {
    is_special(begin) && (PREFIX..=PREFIX_END).contains(&end)
}

/// Start and end of each module: the original's modules, so that the same reads are legal. Some are
/// empty here.
const MODULES: [(&[u8], &[u8]); 12] = [
    (STATUS, b"\xff\xff/status/json\x00"),
    (CLUSTER_FILE, b"\xff\xff/cluster_file_path\x00"),
    (CONNECTION_STRING, b"\xff\xff/connection_string\x00"),
    (TRANSACTION, b"\xff\xff/transaction0"),
    (CONFIGURATION, b"\xff\xff/configuration0"),
    (METRICS, b"\xff\xff/metrics0"),
    (b"\xff\xff/management/", b"\xff\xff/management0"),
    (b"\xff\xff/worker_interfaces/", b"\xff\xff/worker_interfaces0"),
    (b"\xff\xff/error_message", b"\xff\xff/error_message\x00"),
    (b"\xff\xff/global_config/", b"\xff\xff/global_config0"),
    (b"\xff\xff/tracing/", b"\xff\xff/tracing0"),
    (b"\xff\xff/actor_lineage/", b"\xff\xff/actor_lineage0"),
];

/// Clearing it does nothing, and is allowed to writers of computed keys: the map is empty.
pub(crate) fn is_empty_module(begin: &[u8], end: &[u8]) -> bool {
    TENANTS <= begin && end <= TENANTS_END
}

pub(crate) async fn get(attempt: &Attempt, info: &SpecialKeyInfo, key: &[u8]) -> Result<Option<Vec<u8>>, ErrorCode> {
    let Some(module) = module_of(key) else {
        return match info.relaxed {
            true => Ok(None),
            false => Err(ErrorCode::SPECIAL_KEYS_NO_MODULE),
        };
    };
    let rows = rows_of(attempt, info, module).await?;
    Ok(rows
        .into_iter()
        .find(|(row_key, _)| row_key == key)
        .map(|(_, value)| value))
}

/// Reads a range, which must be within one module unless the transaction is relaxed. Selectors are
/// keys here.
pub(crate) async fn get_range(
    attempt: &Attempt,
    info: &SpecialKeyInfo,
    begin: &Selector,
    end: &Selector,
    range: RangeOptions,
) -> Result<Rows, ErrorCode> {
    let (begin, end) = (bound(begin), bound(end));
    if begin >= end {
        return Ok(Rows::default());
    }
    let touched: Vec<usize> = (0..MODULES.len())
        .filter(|&module| MODULES[module].0 < end.as_slice() && begin.as_slice() < MODULES[module].1)
        .collect();
    let is_inside = touched.len() == 1 && {
        let (start, stop) = MODULES[touched[0]];
        start <= begin.as_slice() && end.as_slice() <= stop
    };
    if !is_inside && !info.relaxed {
        return Err(match touched.len() {
            0 => ErrorCode::SPECIAL_KEYS_NO_MODULE,
            _ => ErrorCode::SPECIAL_KEYS_CROSS_MODULE,
        });
    }
    let mut rows = Vec::new();
    for module in touched {
        rows.extend(rows_of(attempt, info, module).await?);
    }
    Ok(within(rows, &begin, &end, range))
}

/// The rows of `begin..end`, as far as the limits allow.
fn within(mut rows: Vec<(Vec<u8>, Vec<u8>)>, begin: &[u8], end: &[u8], range: RangeOptions) -> Rows {
    rows.retain(|(key, _)| begin <= key.as_slice() && key.as_slice() < end);
    rows.sort();
    if range.reverse {
        rows.reverse();
    }
    let more = range.rows_max > 0 && rows.len() > range.rows_max;
    if more {
        rows.truncate(range.rows_max);
    }
    Rows { rows, more }
}

/// The rows between two keys of the map of shards or of the configuration, if it is one of these
/// that is read.
pub(crate) fn system_range(cluster: &Cluster, begin: &Selector, end: &Selector, range: RangeOptions) -> Option<Rows> {
    let (begin, end) = (bound(begin), bound(end));
    let is_computed = begin.starts_with(system_keys::SHARDS) || begin.starts_with(system_keys::CONFIGURATION);
    let end = end.as_slice().min(SYSTEM_KEYS_END);
    is_computed.then(|| within(system_keys::rows(cluster), &begin, end, range))
}

fn bound(selector: &Selector) -> Vec<u8> {
    match selector.or_equal {
        true => crate::key_after(&selector.key),
        false => selector.key.clone(),
    }
}

fn module_of(key: &[u8]) -> Option<usize> {
    MODULES.iter().position(|(start, end)| *start <= key && key < *end)
}

async fn rows_of(
    attempt: &Attempt,
    info: &SpecialKeyInfo,
    module: usize,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, ErrorCode> {
    let cluster = &attempt.connection.cluster;
    let start = MODULES[module].0;
    let value = match start {
        STATUS => {
            let status = attempt.connection.ask(&Request::Status).await.map_err(code_of_read)?;
            located(status, cluster)
        }
        CLUSTER_FILE => {
            let path = cluster.path.as_ref().map(|path| path.display().to_string());
            path.unwrap_or_default().into_bytes()
        }
        CONNECTION_STRING => cluster.connection_string.clone().into_bytes(),
        TRANSACTION => {
            let ranges = [
                (CONFLICTING, &info.conflicting),
                (READ_CONFLICTS, &info.read_conflicts),
                (WRITE_CONFLICTS, &info.write_conflicts),
            ];
            let rows = ranges
                .into_iter()
                .flat_map(|(prefix, ranges)| boundaries(prefix, ranges));
            return Ok(rows.collect());
        }
        CONFIGURATION => return Ok(configuration(cluster)),
        METRICS => return metrics(attempt).await,
        _ => return Ok(Vec::new()),
    };
    Ok(vec![(start.to_vec(), value)])
}

/// A status with what the server does not know: where it is reached, and by which file.
fn located(status: Vec<u8>, cluster: &Cluster) -> Vec<u8> {
    let Ok(mut described) = serde_json::from_slice::<Value>(&status) else {
        return status;
    };
    let processes = described
        .pointer_mut("/cluster/processes")
        .and_then(Value::as_object_mut);
    for (_, process) in processes.into_iter().flatten() {
        process["address"] = cluster.addresses.first().cloned().into();
    }
    if let Some(described) = described.get_mut("cluster").and_then(Value::as_object_mut) {
        described.insert("connection_string".into(), cluster.connection_string.clone().into());
    }
    if let Some(client) = described.get_mut("client").and_then(Value::as_object_mut) {
        let path = cluster.path.as_ref().map(|path| path.display().to_string());
        client.insert("cluster_file".into(), json!({ "path": path, "up_to_date": true }));
    }
    described.to_string().into_bytes()
}

/// The one process, which is its own coordinator.
fn configuration(cluster: &Cluster) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = |name: String, value: &str| ([CONFIGURATION, name.as_bytes()].concat(), value.as_bytes().to_vec());
    let description = cluster.connection_string.split(':').next().unwrap_or_default();
    let mut rows = vec![
        row("coordinators/cluster_description".into(), description),
        row("coordinators/processes".into(), &cluster.addresses.join(",")),
    ];
    for address in cluster.addresses.iter().take(1) {
        rows.push(row(format!("process/class_source/{address}"), "command_line"));
        rows.push(row(format!("process/class_type/{address}"), "unset"));
    }
    rows
}

/// The size of the single shard, without any lag: acknowledged writes are stored.
async fn metrics(attempt: &Attempt) -> Result<Vec<(Vec<u8>, Vec<u8>)>, ErrorCode> {
    let request = Request::EstimatedBytes {
        begin: b"",
        end: SYSTEM_KEYS_END,
    };
    let body = attempt.connection.ask(&request).await.map_err(code_of_read)?;
    let bytes = Reply::number(&body).map_err(|_| ErrorCode::INTERNAL_ERROR)?;
    let health =
        r#"{"batch_limited":false,"worst_log_queue":0,"worst_storage_durability_lag":0,"worst_storage_queue":0}"#;
    let row = |name: &str, value: String| ([METRICS, name.as_bytes()].concat(), value.into_bytes());
    Ok(vec![
        row("data_distribution_stats/", format!(r#"{{"shard_bytes":{bytes}}}"#)),
        row("health/aggregate", health.to_owned()),
    ])
}

/// `1` at the start of a range, `0` at its end.
fn boundaries(prefix: &[u8], ranges: &RangeSet) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = |key: &[u8], value: &[u8]| ([prefix, key].concat(), value.to_vec());
    ranges
        .iter()
        .flat_map(|(start, end)| [row(start, b"1"), row(end, b"0")])
        .collect()
}
