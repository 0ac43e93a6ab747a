//! CreateBackup, DescribeBackup, ListBackups and DeleteBackup; and the backup that the service
//! takes of a table with point-in-time recovery when it is deleted.
//!
//! A backup is a row that says what the table was made of, and a pin on its state (`history`):
//! taking one copies nothing.

use std::ops::ControlFlow;

use quartet_engine::Transaction;
use quartet_model::{KeyRange, Version};
use xxhash_rust::xxh3::xxh3_64;

use crate::operations::settings::backed_up_table;
use crate::operations::tables::{measure_items, write_index, write_on_demand_maximum, write_vector_index};
use crate::storage::attributes::write_key_schema;
use crate::storage::backup::{Backup, Kind};
use crate::storage::catalog::{check_is_there, next_number, table_name};
use crate::storage::key::kept_name;
use crate::storage::table::{Capacity, Table};
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer, write_seconds};
use crate::{DynamoDb, Outcome, storage::history, storage::key};

/// For how long the service keeps what it backed up by itself.
const SYSTEM_BACKUP_MICROS: u64 = 35 * 24 * 3600 * 1_000_000;
const PAGE_MAX: i64 = 100;
/// Backups that one ListBackups visits; the list continues with the next one.
const LOOKED_AT_MAX: usize = 1000;

/// Makes a backup of a table as it is; the caller stores the table or drops it.
fn take(transaction: &mut Transaction<'_>, table: &mut Table, name: String, kind: Kind) -> Backup {
    let now = transaction.now_micros();
    let version = transaction.commit_version();
    let number = next_number(transaction);
    let digits = xxh3_64(&transaction.unique_id()) as u32;
    let (items, bytes) = measure_items(transaction, table);
    history::pin(transaction, table, version, number);
    let backup = Backup {
        id: format!("{:014}-{digits:08x}", now / 1000),
        name,
        kind,
        table: table.clone(),
        version: version.0,
        number,
        created_micros: now,
        expires_micros: (kind == Kind::System).then_some(now + SYSTEM_BACKUP_MICROS),
        items,
        bytes,
    };
    let json = serde_json::to_vec(&backup).expect("a backup is JSON");
    transaction.set(&key::backup(&backup.kept_name()), &json);
    if let Some(micros) = backup.expires_micros {
        transaction.set(&key::backup_expiry(micros, &backup.kept_name()), &[]);
    }
    backup
}

/// Clears a table that is deleted, or keeps what its backups need. One with point-in-time recovery
/// leaves a backup.
pub fn keep_or_clear(transaction: &mut Transaction<'_>, table: &Table) {
    let mut table = table.clone();
    if table.recovery.is_some() {
        let name = format!("{}$DeletedTableBackup", table.name);
        take(transaction, &mut table, name, Kind::System);
    }
    history::clear_or_keep(transaction, &table);
}

pub fn create(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let text = |member| request.get(member).and_then(Json::text).unwrap_or_default();
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        let mut table = Table::clone(&*backed_up_table(layer, transaction, text("TableName"))?);
        check_is_there(&table, Exception::TableInUse)?;
        let backup = take(transaction, &mut table, text("BackupName").to_owned(), Kind::User);
        layer.store_table(transaction, &table);
        Ok(backup)
    };
    layer.respond(Ok(()), execute, |(), backup| {
        Writer::object(|writer| {
            writer.nested("BackupDetails", |writer| {
                write_details(layer, &backup, "CREATING", writer);
            });
        })
    })
}

fn not_found(arn: &str) -> Failure {
    Failure::new(Exception::BackupNotFound, format!("Backup not found: {arn}"))
}

/// The name under which the backup of an ARN would be kept.
fn kept_name_of(layer: &DynamoDb, arn: &str) -> Option<String> {
    let (_, id) = arn.split_once("/backup/")?;
    let is_here = layer.is_of_this_region(arn) && !id.contains('/');
    is_here.then(|| kept_name(layer.own_region(), id).into_owned())
}

/// The backup that a request names.
pub fn named(layer: &DynamoDb, transaction: &mut Transaction<'_>, arn: &str) -> Result<Backup, Failure> {
    let kept_name = kept_name_of(layer, arn).ok_or_else(|| not_found(arn))?;
    let backup = load(transaction, &kept_name).filter(|backup| backup.table.name == table_name(arn));
    backup.ok_or_else(|| not_found(arn))
}

fn load(transaction: &mut Transaction<'_>, kept_name: &str) -> Option<Backup> {
    let row = transaction.get(&key::backup(kept_name))?;
    Some(serde_json::from_slice(row.value()).expect("a stored backup"))
}

pub fn describe(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let arn = request.get("BackupArn").and_then(Json::text).unwrap_or_default();
    layer.respond_to_read(
        Ok(()),
        |transaction, ()| named(layer, transaction, arn),
        |(), backup| description(layer, &backup, "AVAILABLE"),
    )
}

pub fn delete(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let arn = request.get("BackupArn").and_then(Json::text).unwrap_or_default();
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        transaction.deletes();
        let backup = named(layer, transaction, arn)?;
        remove(layer, transaction, &backup);
        Ok(backup)
    };
    layer.respond(Ok(()), execute, |(), backup| description(layer, &backup, "DELETED"))
}

fn remove(layer: &DynamoDb, transaction: &mut Transaction<'_>, backup: &Backup) {
    transaction.clear(&key::backup(&backup.kept_name()));
    if let Some(micros) = backup.expires_micros {
        transaction.clear(&key::backup_expiry(micros, &backup.kept_name()));
    }
    history::unpin(
        layer,
        transaction,
        &backup.table,
        Version(backup.version),
        backup.number,
    );
}

/// Removes an expired backup. Returns false if there is none.
pub fn expire(layer: &DynamoDb, transaction: &mut Transaction<'_>) -> bool {
    let end = key::backup_expiry(transaction.now_micros(), "");
    let mut due = None;
    transaction.scan(b"E", &end, false, &mut |row| {
        due = Some(Transaction::layer_key(row).to_vec());
        ControlFlow::Break(())
    });
    let Some(due) = due else { return false };
    transaction.clear(&due);
    let name = String::from_utf8_lossy(&due[key::backup_expiry(0, "").len()..]);
    if let Some(backup) = load(transaction, &name) {
        remove(layer, transaction, &backup);
    }
    true
}

// ---- lists

/// Which backups are listed.
struct Wanted<'r> {
    table: Option<&'r str>,
    from_micros: u64,
    to_micros: u64,
    kind: Option<&'r str>,
}

impl Wanted<'_> {
    fn holds(&self, backup: &Backup) -> bool {
        self.table.is_none_or(|table| backup.table.name == table)
            && (self.from_micros..self.to_micros).contains(&backup.created_micros)
            && self.kind.is_none_or(|kind| kind == "ALL" || kind == backup.kind.name())
    }
}

pub fn list(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let text = |member| request.get(member).and_then(Json::text);
    let filter = Wanted {
        table: text("TableName").map(table_name),
        from_micros: micros_of(request, "TimeRangeLowerBound").unwrap_or(0),
        to_micros: micros_of(request, "TimeRangeUpperBound").unwrap_or(u64::MAX),
        kind: text("BackupType"),
    };
    let limit = request.get("Limit").and_then(Json::integer).unwrap_or(PAGE_MAX) as usize;
    let after = text("ExclusiveStartBackupArn");
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        let prefix = key::backup(&kept_name(layer.own_region(), ""));
        let all = KeyRange::prefix(&prefix);
        let start = match after {
            None => all.start,
            Some(arn) => {
                let name = kept_name_of(layer, arn).ok_or_else(|| not_found(arn))?;
                KeyRange::point(&key::backup(&name)).end
            }
        };
        let (mut listed, mut last, mut looked_at) = (Vec::new(), None, 0);
        transaction.scan(&start, &all.end, false, &mut |row| {
            if listed.len() == limit || looked_at == LOOKED_AT_MAX {
                last = last
                    .take()
                    .or_else(|| listed.last().map(|backup: &Backup| backup.arn(layer)));
                return ControlFlow::Break(());
            }
            // Names that start with digits are followed by other regions', below the regions'
            // names.
            if Transaction::layer_key(row)[prefix.len()..].contains(&b'/') {
                return ControlFlow::Break(());
            }
            looked_at += 1;
            let backup: Backup = serde_json::from_slice(row.value()).expect("a stored backup");
            if looked_at == LOOKED_AT_MAX {
                last = Some(backup.arn(layer));
            }
            if filter.holds(&backup) {
                listed.push(backup);
            }
            ControlFlow::Continue(())
        });
        Ok((listed, last))
    };
    layer.respond_to_read(Ok(()), execute, |(), (listed, last)| {
        Writer::object(|writer| {
            writer.list("BackupSummaries", &listed, |writer, backup| {
                writer.open(b'{');
                writer.member("TableName", &backup.table.name);
                writer.member("TableId", &backup.table.uuid);
                writer.member("TableArn", &layer.table_arn(&backup.table.name));
                write_details(layer, backup, "AVAILABLE", writer);
                writer.close(b'}');
            });
            if let Some(last) = &last {
                writer.member("LastEvaluatedBackupArn", last);
            }
        })
    })
}

/// A time of a request, in microseconds since 1970; what is before that is 0.
pub fn micros_of(request: &Json<'_>, member: &str) -> Option<u64> {
    match request.get(member)? {
        Json::Integer(seconds) => Some((*seconds).max(0) as u64).map(|seconds| seconds.saturating_mul(1_000_000)),
        Json::Float(seconds) => Some((seconds * 1_000_000.0).round() as u64),
        _ => None,
    }
}

// ---- descriptions

fn description(layer: &DynamoDb, backup: &Backup, status: &str) -> Vec<u8> {
    Writer::object(|writer| {
        writer.nested("BackupDescription", |writer| {
            writer.nested("BackupDetails", |writer| write_details(layer, backup, status, writer));
            writer.nested("SourceTableDetails", |writer| write_source(layer, backup, writer));
            writer.nested("SourceTableFeatureDetails", |writer| {
                write_features(&backup.table, writer);
            });
        });
    })
}

fn write_details(layer: &DynamoDb, backup: &Backup, status: &str, writer: &mut Writer) {
    writer.member("BackupArn", &backup.arn(layer));
    writer.member("BackupName", &backup.name);
    writer.name("BackupSizeBytes").raw(backup.bytes);
    writer.member("BackupStatus", status);
    writer.member("BackupType", backup.kind.name());
    write_seconds(writer, "BackupCreationDateTime", backup.created_micros);
    if let Some(micros) = backup.expires_micros {
        write_seconds(writer, "BackupExpiryDateTime", micros);
    }
}

fn write_source(layer: &DynamoDb, backup: &Backup, writer: &mut Writer) {
    let table = &backup.table;
    writer.member("TableName", &table.name);
    writer.member("TableId", &table.uuid);
    writer.member("TableArn", &layer.table_arn(&table.name));
    writer.name("TableSizeBytes").raw(backup.bytes);
    write_key_schema(writer, std::slice::from_ref(&table.hash), table.range.as_slice());
    write_seconds(writer, "TableCreationDateTime", table.created_micros);
    write_units(writer, &table.capacity);
    write_on_demand_maximum(writer, table.on_demand_maximum);
    writer.name("ItemCount").raw(backup.items);
    let mode = match table.capacity.on_demand {
        true => "PAY_PER_REQUEST",
        false => "PROVISIONED",
    };
    writer.member("BillingMode", mode);
}

fn write_units(writer: &mut Writer, capacity: &Capacity) {
    writer.nested("ProvisionedThroughput", |writer| {
        writer.name("ReadCapacityUnits").raw(capacity.read_units);
        writer.name("WriteCapacityUnits").raw(capacity.write_units);
    });
}

fn write_features(table: &Table, writer: &mut Writer) {
    for (member, global) in [("LocalSecondaryIndexes", false), ("GlobalSecondaryIndexes", true)] {
        let indexes: Vec<_> = table.indexes.iter().filter(|index| index.global == global).collect();
        if indexes.is_empty() {
            continue;
        }
        writer.list(member, indexes, |writer, index| {
            writer.open(b'{');
            write_index(writer, index);
            if index.global {
                write_units(writer, &index.capacity);
                write_on_demand_maximum(writer, index.on_demand_maximum);
            }
            writer.close(b'}');
        });
    }
    if !table.vector_indexes.is_empty() {
        writer.list("VectorIndexes", &table.vector_indexes, |writer, index| {
            writer.open(b'{');
            write_vector_index(writer, index);
            writer.close(b'}');
        });
    }
    if let Some(stream) = table.live_stream() {
        writer.nested("StreamDescription", |writer| {
            writer.name("StreamEnabled").raw(true);
            writer.member("StreamViewType", stream.view.name());
        });
    }
    writer.nested("TimeToLiveDescription", |writer| match &table.time_to_live {
        None => writer.member("TimeToLiveStatus", "DISABLED"),
        Some(attribute) => {
            writer.member("TimeToLiveStatus", "ENABLED");
            writer.member("AttributeName", attribute);
        }
    });
    if let Some(description) = &table.sse_description {
        writer.name("SSEDescription").raw(description);
    }
}
