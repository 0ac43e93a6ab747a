//! RestoreTableFromBackup and RestoreTableToPointInTime: a new table from the state of another at
//! one version.
//!
//! The request creates the table, empty and CREATING, and pins the state. The items are copied a
//! page at a time, each in a transaction with its index entries and with the progress, so it
//! continues after a restart; no request reads or changes the table before.

use std::ops::ControlFlow;

use quartet_engine::Transaction;
use quartet_model::Version;
use serde::{Deserialize, Serialize};

use crate::operations::backups::{self, micros_of};
use crate::operations::settings::backed_up_table;
use crate::operations::tables::{
    NO_MAXIMUM, check_vector_billing, created_body, parse_encryption, units_of, uuid, vector_index_from,
};
use crate::storage::attributes::{Definitions, index_from};
use crate::storage::catalog::{check_is_there, next_number};
use crate::storage::key::ITEMS_PREFIX_BYTES;
use crate::storage::table::{Capacity, Index, Restored, Table};
use crate::storage::vector_index::VectorIndex;
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::Json;
use crate::{DynamoDb, Outcome, storage::history, storage::key, storage::stored};

/// Most restores of one database in progress.
const AT_ONCE: u64 = 50;
const SECOND_MICROS: u64 = 1_000_000;

/// The state of a restored table.
#[derive(Serialize, Deserialize)]
struct Restoring {
    /// Name and number of the new table.
    target: String,
    target_id: u32,
    /// The source of its items.
    source: Table,
    version: u64,
    /// Place of the last item looked at; empty before the first.
    after: Vec<u8>,
}

/// Which state is restored.
struct Source {
    /// The settings of the new table.
    settings: Table,
    version: Version,
    backup_arn: Option<String>,
    micros: u64,
}

pub fn from_backup(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let arn = request.get("BackupArn").and_then(Json::text).unwrap_or_default();
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        let backup = backups::named(layer, transaction, arn)?;
        let source = Source {
            version: Version(backup.version),
            backup_arn: Some(arn.to_owned()),
            micros: backup.created_micros,
            settings: backup.table,
        };
        begin(layer, transaction, request, source)
    };
    layer.respond(Ok(()), execute, |(), table| created_body(layer, &table))
}

pub fn to_point_in_time(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let text = |member| request.get(member).and_then(Json::text);
    let source = text("SourceTableName").or(text("SourceTableArn"));
    let parsed = source.ok_or_else(|| {
        Failure::validation("One of SourceTableName and SourceTableArn must be specified in the request")
    });
    let execute = |transaction: &mut Transaction<'_>, source: &&str| {
        let settings = Table::clone(&*backed_up_table(layer, transaction, source)?);
        check_is_there(&settings, Exception::TableInUse)?;
        let version = asked_version(transaction, &settings, request)?;
        let source = Source {
            settings,
            version,
            backup_arn: None,
            micros: version.0,
        };
        begin(layer, transaction, request, source)
    };
    layer.respond(parsed, execute, |_, table| created_body(layer, &table))
}

/// The version requested by a restore to a point in time.
fn asked_version(transaction: &mut Transaction<'_>, table: &Table, request: &Json<'_>) -> Result<Version, Failure> {
    let latest = request.get("UseLatestRestorableTime").and_then(Json::boolean) == Some(true);
    let micros = micros_of(request, "RestoreDateTime");
    if latest == micros.is_some() {
        return Err(Failure::validation(
            "Exactly one of RestoreDateTime and UseLatestRestorableTime must be specified in the request",
        ));
    }
    recoverable_version(transaction, table, micros)?.ok_or_else(|| {
        let text = "An invalid restore time was specified. RestoreDateTime must be between \
                    EarliestRestorableDateTime and LatestRestorableDateTime.";
        Failure::new(Exception::InvalidRestoreTime, text)
    })
}

/// The version at a time, or now; `None` if recovery does not cover it. SDKs truncate times to
/// seconds: the second in which recovery starts means its start.
pub fn recoverable_version(
    transaction: &mut Transaction<'_>,
    table: &Table,
    micros: Option<u64>,
) -> Result<Option<Version>, Failure> {
    let Some(recovery) = &table.recovery else {
        let text = format!("Point in time recovery is not enabled for table '{}'", table.name);
        return Err(Failure::new(Exception::PointInTimeRecoveryUnavailable, text));
    };
    let now = transaction.now_micros();
    let earliest = recovery.earliest_micros(now);
    let is_covered = |micros: u64| micros / SECOND_MICROS >= earliest / SECOND_MICROS && micros <= now;
    Ok(match micros {
        None => Some(transaction.commit_version()),
        Some(micros) => is_covered(micros).then_some(Version(micros.max(earliest))),
    })
}

fn begin(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    request: &Json<'_>,
    source: Source,
) -> Result<Table, Failure> {
    let name = request.get("TargetTableName").and_then(Json::text).unwrap_or_default();
    if let Some(present) = layer.find_table(transaction, name) {
        check_is_there(&present, Exception::TableInUse)?;
        let text = format!("Table already exists: {name}");
        return Err(Failure::new(Exception::TableAlreadyExists, text));
    }
    if transaction.count(b"Y", b"Z") >= AT_ONCE {
        let text = format!("Subscriber limit exceeded: Only {AT_ONCE} tables can be restored simultaneously");
        return Err(Failure::new(Exception::LimitExceeded, text));
    }
    let mut target = overridden(layer, request, &source.settings)?;
    let now = transaction.now_micros();
    target.name = name.to_owned();
    target.region = layer.own_region().map(str::to_owned);
    target.id = next_number(transaction);
    target.uuid = uuid(&transaction.unique_id());
    target.created_micros = now;
    target.restored = Some(Restored {
        backup_arn: source.backup_arn,
        table_arn: layer.table_arn(&source.settings.name),
        micros: source.micros,
        in_progress: true,
    });
    layer.store_table(transaction, &target);
    let number = next_number(transaction);
    pin_source(layer, transaction, &source.settings, source.version, number);
    let restoring = Restoring {
        target: target.kept_name().into_owned(),
        target_id: target.id,
        source: source.settings,
        version: source.version.0,
        after: Vec::new(),
    };
    store(transaction, &key::restoring(number), &restoring);
    Ok(target)
}

fn pin_source(layer: &DynamoDb, transaction: &mut Transaction<'_>, source: &Table, version: Version, number: u32) {
    let live = layer.find_kept_table(transaction, &source.kept_name());
    let live = live.filter(|live| live.id == source.id);
    let mut table = live.as_deref().unwrap_or(source).clone();
    history::pin(transaction, &mut table, version, number);
    if live.is_some() {
        layer.store_table(transaction, &table);
    }
}

fn store(transaction: &mut Transaction<'_>, row_key: &[u8], restoring: &Restoring) {
    transaction.set(row_key, &serde_json::to_vec(restoring).expect("JSON"));
}

// ---- what the new table is made of

/// The table as restored: without the settings that the service does not restore, and with the
/// request's overrides.
fn overridden(layer: &DynamoDb, request: &Json<'_>, source: &Table) -> Result<Table, Failure> {
    let mut table = Table {
        stream: None,
        time_to_live: None,
        tags: Default::default(),
        deletion_protection: false,
        resource_policy: None,
        warm_throughput: None,
        recovery: None,
        pinned: 0,
        importing: false,
        insights: Default::default(),
        ..source.clone()
    };
    table.capacity = capacity(request, &source.capacity)?;
    let on_demand = table.capacity.on_demand;
    for index in &mut table.indexes {
        index.filling = false;
        index.warm_throughput = None;
        if index.global && index.capacity.on_demand != on_demand {
            index.capacity = table.capacity.clone();
        }
    }
    for (member, global) in [
        ("GlobalSecondaryIndexOverride", true),
        ("LocalSecondaryIndexOverride", false),
    ] {
        if let Some(choice) = request.get(member) {
            choose_indexes(&mut table, choice, global)?;
        }
    }
    table.vector_indexes.iter_mut().for_each(|index| index.filling = false);
    if let Some(choice) = request.get("VectorIndexOverride") {
        choose_vector_indexes(&mut table, choice)?;
    }
    check_vector_billing(&table.capacity, &table.vector_indexes)?;
    if let Some(maximum) = request.get("OnDemandThroughputOverride") {
        let units = |name| maximum.get(name).and_then(Json::integer).unwrap_or(NO_MAXIMUM);
        table.on_demand_maximum = Some((units("MaxReadRequestUnits"), units("MaxWriteRequestUnits")));
    }
    if !on_demand {
        table.on_demand_maximum = None;
        table
            .indexes
            .iter_mut()
            .for_each(|index| index.on_demand_maximum = None);
    }
    if let Some(encryption) = request.get("SSESpecificationOverride") {
        table.sse_description = parse_encryption(layer, Some(encryption));
    }
    let definitions = Definitions {
        parts: table.definitions.clone(),
    };
    table.definitions = definitions.only_used(&table);
    Ok(table)
}

fn capacity(request: &Json<'_>, source: &Capacity) -> Result<Capacity, Failure> {
    let units = request.get("ProvisionedThroughputOverride").map(units_of).transpose()?;
    let on_demand = match request.get("BillingModeOverride").and_then(Json::text) {
        None => source.on_demand,
        Some(mode) => mode == "PAY_PER_REQUEST",
    };
    let present = (!source.on_demand).then_some((source.read_units, source.write_units));
    let (read_units, write_units) = match (on_demand, units.or(present.filter(|_| !on_demand))) {
        (true, Some(_)) => {
            return Err(Failure::invalid(
                "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST",
            ));
        }
        (false, None) => {
            return Err(Failure::invalid(
                "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED",
            ));
        }
        (_, units) => units.unwrap_or_default(),
    };
    Ok(Capacity {
        on_demand,
        read_units,
        write_units,
        on_demand_since_micros: source.on_demand_since_micros,
        ..Capacity::default()
    })
}

/// Leaves only the indexes that the request lists, which are among those of the source.
fn choose_indexes(table: &mut Table, choice: &Json<'_>, global: bool) -> Result<(), Failure> {
    let definitions = Definitions {
        parts: table.definitions.clone(),
    };
    let mut chosen = Vec::new();
    for json in choice.elements() {
        let requested = index_from(json, &definitions, (!global).then_some(&table.hash))?;
        let index = table.indexes.iter().find(|index| is_same(index, &requested));
        let mut index = index.cloned().ok_or_else(|| {
            Failure::invalid(format!(
                "Index {} does not match an index of the source table",
                requested.name
            ))
        })?;
        if let Some(units) = json.get("ProvisionedThroughput").filter(|_| !table.capacity.on_demand) {
            (index.capacity.read_units, index.capacity.write_units) = units_of(units)?;
        }
        if chosen.iter().any(|other: &Index| other.id == index.id) {
            return Err(Failure::invalid(format!("Duplicate index name: {}", index.name)));
        }
        chosen.push(index);
    }
    table.indexes.retain(|index| index.global != global);
    table.indexes.extend(chosen);
    table.indexes.sort_by_key(|index| index.id);
    Ok(())
}

/// The same for vector indexes.
fn choose_vector_indexes(table: &mut Table, choice: &Json<'_>) -> Result<(), Failure> {
    let definitions = Definitions {
        parts: table.definitions.clone(),
    };
    let mut chosen: Vec<VectorIndex> = Vec::new();
    for json in choice.elements() {
        let requested = vector_index_from(json, &definitions)?;
        let is_same = |index: &&VectorIndex| {
            **index
                == VectorIndex {
                    id: index.id,
                    ..requested.clone()
                }
        };
        let index = table.vector_indexes.iter().find(is_same);
        let index = index.cloned().ok_or_else(|| {
            Failure::invalid(format!(
                "Index {} does not match an index of the source table",
                requested.name
            ))
        })?;
        if chosen.iter().any(|other| other.id == index.id) {
            return Err(Failure::invalid(format!("Duplicate index name: {}", index.name)));
        }
        chosen.push(index);
    }
    table.vector_indexes = chosen;
    table.vector_indexes.sort_by_key(|index| index.id);
    Ok(())
}

fn is_same(index: &Index, requested: &Index) -> bool {
    (index.global, &index.name, &index.hash, &index.range, &index.projection)
        == (
            requested.global,
            &requested.name,
            &requested.hash,
            &requested.range,
            &requested.projection,
        )
}

// ---- filling it

/// A step of the first restore. False if there is none.
pub fn go_on(layer: &DynamoDb, transaction: &mut Transaction<'_>) -> bool {
    let mut first = None;
    transaction.scan(b"Y", b"Z", false, &mut |row| {
        let restoring: Restoring = serde_json::from_slice(row.value()).expect("a stored restore");
        first = Some((Transaction::layer_key(row).to_vec(), restoring));
        ControlFlow::Break(())
    });
    let Some((row_key, mut restoring)) = first else {
        return false;
    };
    let target = layer.find_kept_table(transaction, &restoring.target);
    let target = target.filter(|table| table.id == restoring.target_id);
    let page = history::page(
        transaction,
        restoring.source.id,
        Version(restoring.version),
        &restoring.after,
    );
    if let Some(target) = &target {
        for (place, item) in &page.items {
            put(transaction, target, place, item);
        }
    }
    match (page.last, target) {
        (Some(last), Some(_)) => {
            restoring.after = last;
            store(transaction, &row_key, &restoring);
        }
        (_, target) => {
            if let Some(target) = target {
                finish(layer, transaction, Table::clone(&target));
            }
            let number = u32::from_be_bytes(row_key[1..].try_into().expect("a restore's key"));
            transaction.clear(&row_key);
            history::unpin(
                layer,
                transaction,
                &restoring.source,
                Version(restoring.version),
                number,
            );
        }
    }
    true
}

fn put(transaction: &mut Transaction<'_>, table: &Table, place: &[u8], item: &[u8]) {
    let mut item_key = key::items(table.id, 0);
    debug_assert_eq!(item_key.len(), ITEMS_PREFIX_BYTES);
    item_key.extend_from_slice(place);
    transaction.set(&item_key, item);
    if table.indexes.is_empty() && table.vector_indexes.is_empty() {
        return;
    }
    let item = stored::decode(item);
    for index in &table.vector_indexes {
        if let Some((entry_key, entry)) = index.entry(table, &item) {
            transaction.set(&entry_key, &entry);
        }
    }
    for index in &table.indexes {
        if let Some((entry_key, entry)) = index.entry(table, &item) {
            transaction.set(&entry_key, &stored::encode(&entry));
        }
    }
}

fn finish(layer: &DynamoDb, transaction: &mut Transaction<'_>, mut target: Table) {
    if let Some(restored) = &mut target.restored {
        restored.in_progress = false;
    }
    layer.store_table(transaction, &target);
}
