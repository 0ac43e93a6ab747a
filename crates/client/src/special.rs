//! Keys that are computed here: those that begin with 0xff 0xff, and the map of shards, of which there is one.

use quartet_wire_keyvalue::{ErrorCode, Request};

use crate::attempt::Attempt;
use crate::conflicts::RangeSet;
use crate::reading::{RangeOptions, Rows, Selector, code_of};

const PREFIX: &[u8] = b"\xff\xff";
const STATUS: &[u8] = b"\xff\xff/status/json";
const CLUSTER_FILE: &[u8] = b"\xff\xff/cluster_file_path";
const CONNECTION_STRING: &[u8] = b"\xff\xff/connection_string";
/// Modules whose keys are boundaries of key ranges.
const CONFLICTING: &[u8] = b"\xff\xff/transaction/conflicting_keys/";
const READ_CONFLICTS: &[u8] = b"\xff\xff/transaction/read_conflict_range/";
const WRITE_CONFLICTS: &[u8] = b"\xff\xff/transaction/write_conflict_range/";
/// The map of tenants, of which there are none.
const TENANTS: &[u8] = b"\xff\xff/management/tenant/map/";
const TENANTS_END: &[u8] = b"\xff\xff/management/tenant/map0";
/// Where the one shard begins.
const SHARDS: &[u8] = b"\xff/keyServers/";

/// What the computed keys tell of the transaction.
pub(crate) struct Told {
    pub conflicting: RangeSet,
    pub read_conflicts: RangeSet,
    pub write_conflicts: RangeSet,
    /// Ranges may lie outside of a module, or reach over several.
    pub relaxed: bool,
}

/// A key that is computed. The prefix alone is the end of all others.
pub(crate) fn is_special(key: &[u8]) -> bool {
    key.starts_with(PREFIX) && key.len() > PREFIX.len()
}

/// Where a module's keys begin and end.
const MODULES: [(&[u8], &[u8]); 7] = [
    (TENANTS, TENANTS_END),
    (STATUS, b"\xff\xff/status/json\x00"),
    (CLUSTER_FILE, b"\xff\xff/cluster_file_path\x00"),
    (CONNECTION_STRING, b"\xff\xff/connection_string\x00"),
    (CONFLICTING, b"\xff\xff/transaction/conflicting_keys/\xff\xff"),
    (READ_CONFLICTS, b"\xff\xff/transaction/read_conflict_range/\xff\xff"),
    (WRITE_CONFLICTS, b"\xff\xff/transaction/write_conflict_range/\xff\xff"),
];

/// Clearing it does nothing, and is allowed to those who may write computed keys: nothing is there.
pub(crate) fn is_empty_module(begin: &[u8], end: &[u8]) -> bool {
    TENANTS <= begin && end <= TENANTS_END
}

/// A range that reaches into the computed keys and into no others.
pub(crate) fn is_special_range(begin: &Selector, end: &Selector) -> bool {
    begin.key.starts_with(PREFIX) && is_special(&end.key)
}

pub(crate) async fn get(attempt: &Attempt, told: &Told, key: &[u8]) -> Result<Option<Vec<u8>>, ErrorCode> {
    let Some(module) = module_of(key) else {
        return Err(ErrorCode::SPECIAL_KEYS_NO_MODULE);
    };
    let rows = rows_of(attempt, told, module).await?;
    Ok(rows
        .into_iter()
        .find(|(row_key, _)| row_key == key)
        .map(|(_, value)| value))
}

/// A range, which must lie in one module unless the transaction said otherwise. Selectors are keys here.
pub(crate) async fn get_range(
    attempt: &Attempt,
    told: &Told,
    (begin, end): (&Selector, &Selector),
    range: RangeOptions,
) -> Result<Rows, ErrorCode> {
    let (begin, end) = (bound(begin), bound(end));
    let touched: Vec<usize> = (0..MODULES.len())
        .filter(|&module| MODULES[module].0 < end.as_slice() && begin.as_slice() < MODULES[module].1)
        .collect();
    let is_inside = touched.len() == 1 && {
        let (start, stop) = MODULES[touched[0]];
        start <= begin.as_slice() && end.as_slice() <= stop
    };
    if !is_inside && !told.relaxed {
        return Err(match touched.len() {
            0 => ErrorCode::SPECIAL_KEYS_NO_MODULE,
            _ => ErrorCode::SPECIAL_KEYS_CROSS_MODULE,
        });
    }
    let mut rows = Vec::new();
    for module in touched {
        rows.extend(rows_of(attempt, told, module).await?);
    }
    rows.retain(|(key, _)| begin <= *key && *key < end);
    rows.sort();
    if range.reverse {
        rows.reverse();
    }
    let more = range.rows_max > 0 && rows.len() > range.rows_max;
    if more {
        rows.truncate(range.rows_max);
    }
    Ok(Rows { rows, more })
}

/// The rows of the map of shards between two keys, if that is what is read.
pub(crate) fn shards(begin: &Selector, end: &Selector) -> Option<Rows> {
    let (begin, end) = (bound(begin), bound(end));
    if !begin.starts_with(SHARDS) {
        return None;
    }
    let has_first = begin.as_slice() <= SHARDS && SHARDS < end.as_slice();
    let rows = has_first.then(|| (SHARDS.to_vec(), b"quartet".to_vec()));
    Some(Rows {
        rows: rows.into_iter().collect(),
        more: false,
    })
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

async fn rows_of(attempt: &Attempt, told: &Told, module: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, ErrorCode> {
    let cluster = &attempt.connection.cluster;
    let start = MODULES[module].0;
    let value = match start {
        STATUS => attempt.connection.ask(&Request::Status).await.map_err(code_of)?,
        CLUSTER_FILE => {
            let path = cluster.path.as_ref().map(|path| path.display().to_string());
            path.unwrap_or_default().into_bytes()
        }
        CONNECTION_STRING => cluster.connection_string.clone().into_bytes(),
        TENANTS => return Ok(Vec::new()),
        CONFLICTING => return Ok(boundaries(start, &told.conflicting)),
        READ_CONFLICTS => return Ok(boundaries(start, &told.read_conflicts)),
        _ => return Ok(boundaries(start, &told.write_conflicts)),
    };
    Ok(vec![(start.to_vec(), value)])
}

/// `1` where a range begins, `0` where one ends.
fn boundaries(prefix: &[u8], ranges: &RangeSet) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = |key: &[u8], value: &[u8]| ([prefix, key].concat(), value.to_vec());
    ranges
        .iter()
        .flat_map(|(start, end)| [row(start, b"1"), row(end, b"0")])
        .collect()
}
