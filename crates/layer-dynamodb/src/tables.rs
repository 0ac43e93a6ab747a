//! CreateTable, DescribeTable, ListTables, DeleteTable and UpdateTable; and how tables are described.

use quartet_engine::Transaction;
use quartet_model::KeyRange;
use xxhash_rust::xxh3::xxh3_128;

use crate::attributes::{Definitions, index_from, projected_names};
use crate::catalog::{next_number, table_name};
use crate::failure::{Exception, Failure};
use crate::json::{Json, Writer, json_text};
use crate::key::{self, KeyPart};
use crate::maintenance;
use crate::settings::{check_policy, check_tags, parse_tags};
use crate::streams;
use crate::table::{Capacity, Index, StreamSettings, StreamView, Table};
use crate::{DynamoDb, Outcome, backups};

const LOCAL_INDEXES_MAX: usize = 5;
const GLOBAL_INDEXES_MAX: usize = 20;
const PROJECTED_NAMES_MAX: usize = 100;
/// Items that are measured to tell a table's size; a larger table's is their average times the count.
const ITEMS_MEASURED: usize = 1000;

/// What CreateTable asks for, checked.
pub struct Creation {
    pub table: Table,
    stream: Option<StreamView>,
}

pub fn create(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let execute = |transaction: &mut Transaction<'_>, creation: &Creation| add(layer, transaction, creation);
    layer.respond(parse_creation(layer, request), execute, |_, table| {
        created_body(layer, &table)
    })
}

/// Makes the table, unless there is one of its name.
pub fn add(layer: &DynamoDb, transaction: &mut Transaction<'_>, creation: &Creation) -> Result<Table, Failure> {
    let mut table = creation.table.clone();
    table.region = layer.own_region().map(str::to_owned);
    if layer.find_table(transaction, &table.name).is_some() {
        return Err(Failure::new(
            Exception::ResourceInUse,
            format!("Table already exists: {}", table.name),
        ));
    }
    let now = transaction.now_micros();
    table.id = next_number(transaction);
    table.created_micros = now;
    table.uuid = uuid(&transaction.unique_id());
    if let Some((_, revision)) = &mut table.resource_policy {
        *revision = now.to_string();
    }
    table.capacity.on_demand_since_micros = if table.capacity.on_demand { now } else { 0 };
    table.stream = creation.stream.map(|view| streams::start(transaction, &table, view));
    layer.store_table(transaction, &table);
    Ok(table)
}

/// A UUID of version 4, from bytes that are never given out twice.
pub fn uuid(unique: &[u8]) -> String {
    let [version, variant] = [0x4000_0000_0000_0000_0000, 0x8000_0000_0000_0000];
    let bits = xxh3_128(unique) & !(0xf << 76) & !(0x3 << 62);
    let digits = format!("{:032x}", bits | version | variant);
    [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ]
    .join("-")
}

pub fn parse_creation(layer: &DynamoDb, request: &Json<'_>) -> Result<Creation, Failure> {
    let name = request.get("TableName").and_then(Json::text).unwrap_or_default();
    let capacity = parse_capacity(request, None)?;
    let definitions = Definitions::parse(request)?;
    let (hash, range) = definitions.table_keys(request)?;
    let indexes = parse_indexes(request, &definitions, &hash, range.as_ref(), &capacity)?;
    definitions.check_all_used(&hash, range.as_ref(), &indexes)?;
    let tags = parse_tags(request.get("Tags").unwrap_or(&Json::Null));
    check_tags(&tags)?;
    let text = |name: &str| request.get(name).and_then(Json::text).map(str::to_owned);
    let policy = text("ResourcePolicy");
    policy.as_deref().map_or(Ok(()), check_policy)?;
    Ok(Creation {
        stream: parse_stream(request)?.flatten(),
        table: Table {
            id: 0,
            name: table_name(name).to_owned(),
            region: None,
            uuid: String::new(),
            created_micros: 0,
            definitions: definitions.parts,
            hash,
            range,
            last_index: indexes.len() as u16,
            indexes,
            stream: None,
            time_to_live: None,
            tags: tags.into_iter().collect(),
            deletion_protection: flag(request, "DeletionProtectionEnabled").unwrap_or(false),
            table_class: text("TableClass"),
            sse_description: parse_encryption(layer, request.get("SSESpecification")),
            warm_throughput: parse_warm_throughput(request, "table", &capacity, None)?,
            on_demand_maximum: parse_on_demand_maximum(request, &capacity)?,
            resource_policy: policy.map(|policy| (policy, String::new())),
            recovery: None,
            pinned: 0,
            restored: None,
            importing: false,
            insights: Default::default(),
            capacity,
        },
    })
}

fn flag(json: &Json<'_>, name: &str) -> Option<bool> {
    json.get(name).and_then(Json::boolean)
}

/// Reads BillingMode and ProvisionedThroughput; for an update, over what is in force.
fn parse_capacity(request: &Json<'_>, present: Option<&Capacity>) -> Result<Capacity, Failure> {
    let units = parse_units(request)?;
    let on_demand = match request.get("BillingMode").and_then(Json::text) {
        Some(mode) => mode == "PAY_PER_REQUEST",
        None => present.is_some_and(|capacity| capacity.on_demand),
    };
    match (on_demand, units) {
        (true, None) => Ok(Capacity {
            on_demand,
            ..Capacity::default()
        }),
        (true, Some(_)) => Err(Failure::invalid(
            "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST",
        )),
        (false, Some((read_units, write_units))) => Ok(Capacity {
            on_demand,
            read_units,
            write_units,
            ..Capacity::default()
        }),
        (false, None) => Err(Failure::invalid(
            "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED",
        )),
    }
}

fn parse_units(json: &Json<'_>) -> Result<Option<(i64, i64)>, Failure> {
    json.get("ProvisionedThroughput").map(units_of).transpose()
}

/// Read and write units of a ProvisionedThroughput.
pub fn units_of(throughput: &Json<'_>) -> Result<(i64, i64), Failure> {
    let units = |name: &str| {
        let units = throughput.get(name).and_then(Json::integer).unwrap_or_default();
        match units {
            units if units > 1_000_000_000_000 => Err(Failure::validation(format!(
                "Given value {units} for {name} is out of bounds"
            ))),
            units => Ok(units),
        }
    };
    Ok((units("ReadCapacityUnits")?, units("WriteCapacityUnits")?))
}

/// Reads OnDemandThroughput; what is not named is -1, no maximum.
fn parse_on_demand_maximum(json: &Json<'_>, capacity: &Capacity) -> Result<Option<(i64, i64)>, Failure> {
    let Some(given) = json.get("OnDemandThroughput") else {
        return Ok(None);
    };
    if !capacity.on_demand {
        return Err(Failure::invalid(
            "OnDemandThroughput can only be specified when BillingMode is PAY_PER_REQUEST",
        ));
    }
    let units = |name| given.get(name).and_then(Json::integer).unwrap_or(-1);
    Ok(Some((units("MaxReadRequestUnits"), units("MaxWriteRequestUnits"))))
}

/// What a new table or index is warm for: what is provisioned, or what any table on demand begins with.
fn initial_warmth(capacity: &Capacity) -> (i64, i64) {
    match capacity.on_demand {
        true => (12_000, 4_000),
        false => (capacity.read_units, capacity.write_units),
    }
}

/// Reads WarmThroughput of `what`, a table or an index; for an update, over what is in force. It can only grow.
fn parse_warm_throughput(
    json: &Json<'_>,
    what: &str,
    capacity: &Capacity,
    present: Option<(i64, i64)>,
) -> Result<Option<(i64, i64)>, Failure> {
    let Some(given) = json.get("WarmThroughput") else {
        return Ok(None);
    };
    let (read_min, write_min) = present.unwrap_or_else(|| initial_warmth(capacity));
    let units = |name: &str, provisioned: &str, min: i64| match given.get(name).and_then(Json::integer) {
        Some(units) if units < min => {
            let bound = match (present, capacity.on_demand) {
                (Some(_), _) => "current WarmThroughput, decreasing WarmThroughput is not supported".to_owned(),
                (None, true) => "initial throughput for OnDemand".to_owned(),
                (None, false) => format!("{provisioned} of ProvisionedThroughput"),
            };
            Err(Failure::invalid(format!(
                "Requested {name} for WarmThroughput for {what} is lower than {bound}"
            )))
        }
        units => Ok(units),
    };
    let read = units("ReadUnitsPerSecond", "ReadCapacityUnits", read_min)?;
    let write = units("WriteUnitsPerSecond", "WriteCapacityUnits", write_min)?;
    match (read, write) {
        (None, None) => Err(Failure::invalid(
            "WarmThroughput must have at least one of ReadUnitsPerSecond and WriteUnitsPerSecond",
        )),
        (read, write) => Ok(Some((read.unwrap_or(read_min), write.unwrap_or(write_min)))),
    }
}

/// `Some(None)`: switch the stream off.
fn parse_stream(request: &Json<'_>) -> Result<Option<Option<StreamView>>, Failure> {
    let Some(specification) = request.get("StreamSpecification") else {
        return Ok(None);
    };
    let view = specification.get("StreamViewType").and_then(Json::text);
    match (flag(specification, "StreamEnabled"), view) {
        (Some(true), Some(view)) => Ok(Some(StreamView::parse(view))),
        (Some(true), None) => Err(Failure::invalid(
            "StreamViewType is required when StreamEnabled is true",
        )),
        (_, Some(_)) => Err(Failure::invalid(
            "StreamViewType is not allowed when StreamEnabled is false",
        )),
        (_, None) => Ok(Some(None)),
    }
}

/// What an SSESpecification asks for, as it is described.
pub fn parse_encryption(layer: &DynamoDb, given: Option<&Json<'_>>) -> Option<String> {
    let given = given?;
    flag(given, "Enabled").filter(|enabled| *enabled)?;
    let text = |name| given.get(name).and_then(Json::text);
    Some(json_text(Writer::object(|writer| {
        writer.member("Status", "ENABLED");
        writer.member("SSEType", text("SSEType").unwrap_or("KMS"));
        let key = "key/00000000-0000-0000-0000-000000000000";
        let default = format!("arn:aws:kms:{}:{}:{key}", layer.region, layer.account);
        writer.member("KMSMasterKeyArn", text("KMSMasterKeyId").unwrap_or(&default));
    })))
}

fn parse_indexes(
    request: &Json<'_>,
    definitions: &Definitions,
    hash: &KeyPart,
    range: Option<&KeyPart>,
    table_capacity: &Capacity,
) -> Result<Vec<Index>, Failure> {
    let mut indexes = Vec::new();
    for (member, global) in [("LocalSecondaryIndexes", false), ("GlobalSecondaryIndexes", true)] {
        let Some(list) = request.get(member) else { continue };
        if list.elements().is_empty() {
            return Err(Failure::invalid(format!("List of {member} is empty")));
        }
        if !global && range.is_none() {
            return Err(Failure::invalid(
                "Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex",
            ));
        }
        for json in list.elements() {
            let mut index = index_from(json, definitions, (!global).then_some(hash))?;
            index.id = indexes.len() as u16 + 1;
            if global {
                set_index_capacity(&mut index, json, table_capacity)?;
            }
            indexes.push(index);
        }
    }
    check_indexes(&indexes)?;
    Ok(indexes)
}

fn set_index_capacity(index: &mut Index, json: &Json<'_>, table: &Capacity) -> Result<(), Failure> {
    let units = parse_units(json)?;
    if table.on_demand && units.is_some() {
        return Err(Failure::invalid(format!(
            "ProvisionedThroughput should not be specified for index: {} when BillingMode is PAY_PER_REQUEST",
            index.name
        )));
    }
    if !table.on_demand && units.is_none() {
        return Err(Failure::invalid(format!(
            "ProvisionedThroughput must be specified for index: {}",
            index.name
        )));
    }
    let (read_units, write_units) = units.unwrap_or_default();
    index.capacity = Capacity {
        on_demand: table.on_demand,
        read_units,
        write_units,
        ..Capacity::default()
    };
    index.on_demand_maximum = parse_on_demand_maximum(json, table)?;
    let what = format!("index {}", index.name);
    index.warm_throughput = parse_warm_throughput(json, &what, &index.capacity, None)?;
    Ok(())
}

fn check_indexes(indexes: &[Index]) -> Result<(), Failure> {
    let global = indexes.iter().filter(|index| index.global).count();
    if indexes.len() - global > LOCAL_INDEXES_MAX {
        return Err(Failure::invalid(format!(
            "Number of LocalSecondaryIndexes exceeds per-table limit of {LOCAL_INDEXES_MAX}"
        )));
    }
    if global > GLOBAL_INDEXES_MAX {
        return Err(Failure::invalid(format!(
            "GlobalSecondaryIndex count exceeds the per-table limit of {GLOBAL_INDEXES_MAX}"
        )));
    }
    for (position, index) in indexes.iter().enumerate() {
        if indexes[..position].iter().any(|other| other.name == index.name) {
            return Err(Failure::invalid(format!("Duplicate index name: {}", index.name)));
        }
    }
    let names: usize = indexes.iter().map(|index| projected_names(index).len()).sum();
    if names > PROJECTED_NAMES_MAX {
        return Err(Failure::invalid(format!(
            "The number of projected attributes in all indexes exceeds the limit of {PROJECTED_NAMES_MAX}"
        )));
    }
    Ok(())
}

/// What is measured of a table, or of an index.
#[derive(Default)]
struct Sizes {
    /// Count and bytes, the table first and then its indexes in order.
    parts: Vec<(u64, u64)>,
}

/// How many items a table has, and about how many bytes.
pub fn measure_items(transaction: &mut Transaction<'_>, table: &Table) -> (u64, u64) {
    measure(transaction, &KeyRange::prefix(&key::items(table.id, 0)))
}

impl Sizes {
    fn measure(transaction: &mut Transaction<'_>, table: &Table) -> Sizes {
        let ids = std::iter::once(0).chain(table.indexes.iter().map(|index| index.id));
        let parts = ids.map(|id| measure(transaction, &KeyRange::prefix(&key::items(table.id, id))));
        Sizes { parts: parts.collect() }
    }

    fn part(&self, position: usize) -> (u64, u64) {
        self.parts.get(position).copied().unwrap_or_default()
    }
}

fn measure(transaction: &mut Transaction<'_>, range: &KeyRange) -> (u64, u64) {
    let count = transaction.count(&range.start, &range.end);
    let (mut measured, mut bytes) = (0, 0);
    transaction.scan(&range.start, &range.end, false, &mut |row| {
        measured += 1;
        bytes += crate::stored::size(row.value()) as u64;
        if measured < ITEMS_MEASURED {
            std::ops::ControlFlow::Continue(())
        } else {
            std::ops::ControlFlow::Break(())
        }
    });
    let total = u128::from(bytes) * u128::from(count) / (measured.max(1) as u128);
    (count, total as u64)
}

pub fn describe(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let name = request.get("TableName").and_then(Json::text).unwrap_or_default();
    layer.respond(
        Ok(()),
        |transaction, ()| {
            let table = layer.described_table(transaction, name)?;
            let sizes = Sizes::measure(transaction, &table);
            Ok((table, sizes))
        },
        |(), (table, sizes)| {
            let status = match table.indexes.iter().any(|index| index.filling) {
                _ if table.is_coming() => "CREATING",
                true => "UPDATING",
                false => "ACTIVE",
            };
            let shown = Shown {
                sizes,
                ..Shown::new(status)
            };
            Writer::object(|writer| {
                writer.nested("Table", |writer| describe_table(layer, &table, &shown, writer));
            })
        },
    )
}

/// How a table stands when it is described.
struct Shown {
    status: &'static str,
    sizes: Sizes,
    /// Indexes that the request deletes: the table has them no longer, and its description still does.
    deleted: Vec<Index>,
    /// The request changes what the table or one of its indexes is warm for.
    warms: bool,
}

impl Shown {
    fn new(status: &'static str) -> Shown {
        Shown {
            status,
            sizes: Sizes::default(),
            deleted: Vec::new(),
            warms: false,
        }
    }

    fn index_status(&self, index: &Index) -> &'static str {
        match () {
            () if self.deleted.iter().any(|deleted| deleted.id == index.id) => "DELETING",
            () if index.filling || self.status == "CREATING" => "CREATING",
            () => "ACTIVE",
        }
    }

    /// The status of WarmThroughput, if that is shown. A table that comes or goes shows only what was asked for.
    fn warm_status(&self, asked_for: bool) -> Option<&'static str> {
        match self.status {
            "CREATING" | "DELETING" => asked_for.then_some("UPDATING"),
            "UPDATING" if self.warms => Some("UPDATING"),
            _ => Some("ACTIVE"),
        }
    }
}

/// The body that answers the making of a table.
pub fn created_body(layer: &DynamoDb, table: &Table) -> Vec<u8> {
    Writer::object(|writer| {
        writer.nested("TableDescription", |writer| {
            describe_table(layer, table, &Shown::new("CREATING"), writer);
        });
    })
}

/// Writes the members of a TableDescription.
fn describe_table(layer: &DynamoDb, table: &Table, shown: &Shown, writer: &mut Writer) {
    let status = shown.status;
    let (count, bytes) = shown.sizes.part(0);
    writer.member("TableName", &table.name);
    writer.member("TableStatus", status);
    // A table that goes away is described without what it was made of.
    if status != "DELETING" {
        write_seconds(writer, "CreationDateTime", table.created_micros);
        writer.list("AttributeDefinitions", &table.definitions, |writer, part| {
            writer.open(b'{');
            writer.member("AttributeName", &part.name);
            writer.member("AttributeType", part.kind.name());
            writer.close(b'}');
        });
        write_key_schema(writer, std::slice::from_ref(&table.hash), table.range.as_slice());
    }
    writer.name("ItemCount").raw(count);
    writer.name("TableSizeBytes").raw(bytes);
    writer.member("TableArn", &layer.table_arn(&table.name));
    writer.member("TableId", &table.uuid);
    write_throughput(writer, &table.capacity);
    if table.capacity.on_demand_since_micros > 0 {
        writer.nested("BillingModeSummary", |writer| {
            let mode = if table.capacity.on_demand {
                "PAY_PER_REQUEST"
            } else {
                "PROVISIONED"
            };
            writer.member("BillingMode", mode);
            write_seconds(
                writer,
                "LastUpdateToPayPerRequestDateTime",
                table.capacity.on_demand_since_micros,
            );
        });
    }
    for (member, global) in [("GlobalSecondaryIndexes", true), ("LocalSecondaryIndexes", false)] {
        let indexes = table.indexes.iter().chain(&shown.deleted).enumerate();
        let indexes: Vec<(usize, &Index)> = indexes.filter(|(_, index)| index.global == global).collect();
        if !indexes.is_empty() && status != "DELETING" {
            writer.list(member, indexes, |writer, (position, index)| {
                describe_index(layer, table, index, shown, shown.sizes.part(position + 1), writer);
            });
        }
    }
    if let Some(stream) = &table.stream {
        if stream.enabled {
            writer.nested("StreamSpecification", |writer| {
                writer.name("StreamEnabled").raw(true);
                writer.member("StreamViewType", stream.view.name());
            });
        }
        writer.member("LatestStreamLabel", &stream.label);
        let arn = format!("{}/stream/{}", layer.table_arn(&table.name), stream.label);
        writer.member("LatestStreamArn", &arn);
    }
    if let Some(restored) = &table.restored {
        writer.nested("RestoreSummary", |writer| {
            if let Some(backup) = &restored.backup_arn {
                writer.member("SourceBackupArn", backup);
            }
            writer.member("SourceTableArn", &restored.table_arn);
            write_seconds(writer, "RestoreDateTime", restored.micros);
            writer.name("RestoreInProgress").raw(restored.in_progress);
        });
    }
    if let Some(description) = &table.sse_description {
        writer.name("SSEDescription").raw(description);
    }
    if let Some(class) = &table.table_class {
        writer.nested("TableClassSummary", |writer| writer.member("TableClass", class));
    }
    writer.name("DeletionProtectionEnabled").raw(table.deletion_protection);
    write_on_demand_maximum(writer, table.on_demand_maximum);
    write_warmth(writer, shown, table.warm_throughput, &table.capacity);
}

pub fn write_on_demand_maximum(writer: &mut Writer, on_demand: Option<(i64, i64)>) {
    if let Some((read, write)) = on_demand {
        writer.nested("OnDemandThroughput", |writer| {
            writer.name("MaxReadRequestUnits").raw(read);
            writer.name("MaxWriteRequestUnits").raw(write);
        });
    }
}

fn write_warmth(writer: &mut Writer, shown: &Shown, asked_for: Option<(i64, i64)>, capacity: &Capacity) {
    let Some(status) = shown.warm_status(asked_for.is_some()) else {
        return;
    };
    let (read, write) = asked_for.unwrap_or_else(|| initial_warmth(capacity));
    writer.nested("WarmThroughput", |writer| {
        writer.name("ReadUnitsPerSecond").raw(read);
        writer.name("WriteUnitsPerSecond").raw(write);
        writer.member("Status", status);
    });
}

fn describe_index(
    layer: &DynamoDb,
    table: &Table,
    index: &Index,
    shown: &Shown,
    (count, bytes): (u64, u64),
    writer: &mut Writer,
) {
    writer.open(b'{');
    write_index(writer, index);
    if index.global {
        writer.member("IndexStatus", shown.index_status(index));
        if index.filling {
            writer.name("Backfilling").raw(true);
        }
        write_throughput(writer, &index.capacity);
        write_on_demand_maximum(writer, index.on_demand_maximum);
        write_warmth(writer, shown, index.warm_throughput, &index.capacity);
    }
    writer.name("IndexSizeBytes").raw(bytes);
    writer.name("ItemCount").raw(count);
    writer.member(
        "IndexArn",
        &format!("{}/index/{}", layer.table_arn(&table.name), index.name),
    );
    writer.close(b'}');
}

/// Writes name, keys and projection of an index.
pub fn write_index(writer: &mut Writer, index: &Index) {
    writer.member("IndexName", &index.name);
    write_key_schema(writer, &index.hash, &index.range);
    writer.nested("Projection", |writer| {
        writer.member("ProjectionType", index.projection.name());
        let names = projected_names(index);
        if !names.is_empty() {
            writer.list("NonKeyAttributes", names, |writer, name| writer.string(name));
        }
    });
}

fn write_throughput(writer: &mut Writer, capacity: &Capacity) {
    writer.nested("ProvisionedThroughput", |writer| {
        for (name, micros) in [
            ("LastIncreaseDateTime", capacity.increased_micros),
            ("LastDecreaseDateTime", capacity.decreased_micros),
        ] {
            if micros > 0 {
                write_seconds(writer, name, micros);
            }
        }
        writer.name("NumberOfDecreasesToday").raw(0);
        writer.name("ReadCapacityUnits").raw(capacity.read_units);
        writer.name("WriteCapacityUnits").raw(capacity.write_units);
    });
}

pub fn write_key_schema(writer: &mut Writer, hash: &[KeyPart], range: &[KeyPart]) {
    let hash = hash.iter().map(|part| (part, "HASH"));
    let parts = hash.chain(range.iter().map(|part| (part, "RANGE")));
    writer.list("KeySchema", parts, |writer, (part, kind)| {
        writer.open(b'{');
        writer.member("AttributeName", &part.name);
        writer.member("KeyType", kind);
        writer.close(b'}');
    });
}

/// A time as the service writes it: seconds with a fraction of three digits.
pub fn write_seconds(writer: &mut Writer, name: &str, micros: u64) {
    let (seconds, milliseconds) = (micros / 1_000_000, micros / 1000 % 1000);
    writer.name(name).raw(format_args!("{seconds}.{milliseconds:03}"));
}

pub fn list(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let limit = request.get("Limit").and_then(Json::integer).unwrap_or(100) as usize;
    let start = request.get("ExclusiveStartTableName").and_then(Json::text);
    layer.respond(
        Ok(()),
        |transaction, ()| Ok(layer.table_names(transaction, start, limit + 1)),
        |(), mut names| {
            let more = names.len() > limit;
            names.truncate(limit);
            Writer::object(|writer| {
                writer.list("TableNames", &names, |writer, name| writer.string(name));
                if let (Some(last), true) = (names.last(), more) {
                    writer.member("LastEvaluatedTableName", last);
                }
            })
        },
    )
}

pub fn delete(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let name = request.get("TableName").and_then(Json::text).unwrap_or_default();
    layer.respond(
        Ok(()),
        |transaction, ()| {
            let table = layer.changeable_table(transaction, name)?;
            if table.deletion_protection {
                return Err(Failure::validation(
                    "Resource cannot be deleted as it is currently protected against deletion. \
                     Disable deletion protection first.",
                ));
            }
            transaction.deletes();
            backups::keep_or_clear(transaction, &table);
            if let Some(stream) = table.live_stream() {
                streams::end(transaction, stream.id);
            }
            layer.forget_table(transaction, &table);
            Ok(table)
        },
        |(), table| {
            Writer::object(|writer| {
                writer.nested("TableDescription", |writer| {
                    describe_table(layer, &table, &Shown::new("DELETING"), writer);
                });
            })
        },
    )
}

/// What UpdateTable asks for, checked as far as it can be without the table.
struct Change<'r, 'j> {
    request: &'r Json<'j>,
    stream: Option<Option<StreamView>>,
    definitions: Option<Definitions>,
}

/// Replicas are in other regions, of which there are none; a table's own region is none of its replicas.
fn refuse_replicas(layer: &DynamoDb, request: &Json<'_>) -> Result<(), Failure> {
    let Some(updates) = request.get("ReplicaUpdates") else {
        return Ok(());
    };
    let is_of_own_region = |update: &Json<'_>| {
        let kinds = ["Create", "Update", "Delete"].iter();
        let mut regions = kinds.filter_map(|kind| update.get(kind)?.get("RegionName")?.text());
        regions.any(|region| region == layer.region)
    };
    Err(Failure::validation(
        match updates.elements().iter().any(is_of_own_region) {
            true => {
                "Cannot add, delete, or update the local region through ReplicaUpdates. \
             Use CreateTable, DeleteTable, or UpdateTable as required."
            }
            false => "Another region cannot be reached from this endpoint",
        },
    ))
}

fn nothing_to_change() -> Failure {
    Failure::validation(
        "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates, \
         SSESpecification, ReplicaUpdates, MultiAccountReplicaReady, ReplicaTransitRoleArn, MultiRegionConsistency, \
         DeletionProtectionEnabled, OnDemandThroughput, WarmThroughput or TableClass is required",
    )
}

/// Members of an UpdateTable that change something by being there.
const CHANGES: [&str; 8] = [
    "BillingMode",
    "ProvisionedThroughput",
    "StreamSpecification",
    "SSESpecification",
    "TableClass",
    "DeletionProtectionEnabled",
    "OnDemandThroughput",
    "WarmThroughput",
];

/// What can be said of an UpdateTable before its table is looked for.
fn check_change(layer: &DynamoDb, request: &Json<'_>) -> Result<(), Failure> {
    refuse_replicas(layer, request)?;
    if index_updates(request).is_empty() && CHANGES.iter().all(|name| request.get(name).is_none()) {
        return Err(nothing_to_change());
    }
    let provisioned = request.get("BillingMode").and_then(Json::text) == Some("PROVISIONED");
    if parse_units(request)?.is_none() && provisioned {
        return Err(Failure::invalid(
            "ProvisionedThroughput must be specified when BillingMode is PROVISIONED",
        ));
    }
    let mut names = Vec::new();
    for update in index_updates(request) {
        let kinds = ["Update", "Create", "Delete"];
        let Some(json) = kinds.iter().find_map(|kind| update.get(kind)) else {
            return Err(Failure::invalid(
                "One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, \
                 GlobalSecondaryIndexUpdate.Delete must not be null",
            ));
        };
        // The units of an index that must be there are judged once it is found.
        if update.get("Update").is_none() {
            parse_units(json)?;
        }
        let name = json.get("IndexName").and_then(Json::text).unwrap_or_default();
        if names.contains(&name) {
            return Err(Failure::invalid(format!(
                "Only one global secondary index update per index is allowed simultaneously. Index: {name}"
            )));
        }
        names.push(name);
    }
    Ok(())
}

fn index_updates<'r, 'j>(request: &'r Json<'j>) -> &'r [Json<'j>] {
    request.get("GlobalSecondaryIndexUpdates").map_or(&[], Json::elements)
}

pub fn update(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let parse = || {
        check_change(layer, request)?;
        Ok(Change {
            request,
            stream: parse_stream(request)?,
            definitions: request
                .get("AttributeDefinitions")
                .map(|_| Definitions::parse(request))
                .transpose()?,
        })
    };
    let execute = |transaction: &mut Transaction<'_>, change: &Change<'_, '_>| {
        let name = request.get("TableName").and_then(Json::text).unwrap_or_default();
        let mut table = Table::clone(&*layer.changeable_table(transaction, name)?);
        let mut changed = change.settings(layer, &mut table)?;
        changed |= change.capacity(transaction, &mut table)?;
        changed |= change.stream(transaction, &mut table)?;
        let deleted = change.indexes(transaction, &mut table)?;
        if !changed && index_updates(request).is_empty() {
            return Err(nothing_to_change());
        }
        layer.store_table(transaction, &table);
        let shown = Shown {
            sizes: Sizes::measure(transaction, &table),
            deleted,
            warms: change.warms(),
            ..Shown::new("UPDATING")
        };
        Ok((table, shown))
    };
    layer.respond(parse(), execute, |_, (table, shown)| {
        Writer::object(|writer| {
            writer.nested("TableDescription", |writer| {
                describe_table(layer, &table, &shown, writer);
            });
        })
    })
}

impl Change<'_, '_> {
    /// True if it changes what the table or an index is warm for.
    fn warms(&self) -> bool {
        let of_index = |update: &Json<'_>| {
            update
                .get("Update")
                .is_some_and(|json| json.get("WarmThroughput").is_some())
        };
        self.request.get("WarmThroughput").is_some() || index_updates(self.request).iter().any(of_index)
    }

    fn settings(&self, layer: &DynamoDb, table: &mut Table) -> Result<bool, Failure> {
        let request = self.request;
        let mut changed = false;
        if let Some(protected) = flag(request, "DeletionProtectionEnabled") {
            table.deletion_protection = protected;
            changed = true;
        }
        if let Some(class) = request.get("TableClass").and_then(Json::text) {
            table.table_class = Some(class.to_owned());
            changed = true;
        }
        if request.get("SSESpecification").is_some() {
            table.sse_description = parse_encryption(layer, request.get("SSESpecification"));
            changed = true;
        }
        let present = table.warm_throughput.unwrap_or_else(|| initial_warmth(&table.capacity));
        if let Some(warm) = parse_warm_throughput(request, "table", &table.capacity, Some(present))? {
            table.warm_throughput = Some(warm);
            changed = true;
        }
        Ok(changed)
    }

    fn capacity(&self, transaction: &mut Transaction<'_>, table: &mut Table) -> Result<bool, Failure> {
        let request = self.request;
        let now = transaction.now_micros();
        let asked = request.get("BillingMode").is_some() || request.get("ProvisionedThroughput").is_some();
        if asked {
            let before = table.capacity.clone();
            let mut after = parse_capacity(request, Some(&before))?;
            let same = (after.on_demand, after.read_units, after.write_units)
                == (before.on_demand, before.read_units, before.write_units);
            if same && !after.on_demand {
                return Err(Failure::validation(format!(
                    "The provisioned throughput for the table will not change. The requested value equals the current value. \
                     Current ReadCapacityUnits provisioned for the table: {}. Requested ReadCapacityUnits: {}. \
                     Current WriteCapacityUnits provisioned for the table: {}. Requested WriteCapacityUnits: {}. \
                     Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits.",
                    before.read_units, after.read_units, before.write_units, after.write_units
                )));
            }
            after.on_demand_since_micros = match after.on_demand && !before.on_demand {
                true => now,
                false => before.on_demand_since_micros,
            };
            let grows = after.read_units > before.read_units || after.write_units > before.write_units;
            let shrinks = after.read_units < before.read_units || after.write_units < before.write_units;
            after.increased_micros = if grows { now } else { before.increased_micros };
            after.decreased_micros = if shrinks { now } else { before.decreased_micros };
            for index in table.indexes.iter_mut().filter(|index| index.global) {
                index.capacity.on_demand = after.on_demand;
                if after.on_demand {
                    (index.capacity.read_units, index.capacity.write_units) = (0, 0);
                }
            }
            table.capacity = after;
        }
        let maximum = parse_on_demand_maximum(request, &table.capacity)?;
        if let Some((read, write)) = maximum {
            let given = request.get("OnDemandThroughput").unwrap_or(&Json::Null);
            let (old_read, old_write) = table.on_demand_maximum.unwrap_or((-1, -1));
            let read = if given.get("MaxReadRequestUnits").is_some() {
                read
            } else {
                old_read
            };
            let write = if given.get("MaxWriteRequestUnits").is_some() {
                write
            } else {
                old_write
            };
            table.on_demand_maximum = Some((read, write)).filter(|maximum| *maximum != (-1, -1));
        }
        Ok(asked || maximum.is_some())
    }

    fn stream(&self, transaction: &mut Transaction<'_>, table: &mut Table) -> Result<bool, Failure> {
        let Some(wanted) = self.stream else { return Ok(false) };
        match (wanted, table.live_stream().map(|stream| stream.id)) {
            (Some(_), Some(_)) => {
                return Err(Failure::validation(format!(
                    "Table already has an enabled stream: TableName: {}",
                    table.name
                )));
            }
            (None, None) => {
                return Err(Failure::validation(format!(
                    "Table has no stream to disable: TableName: {}",
                    table.name
                )));
            }
            (Some(view), None) => table.stream = Some(streams::start(transaction, table, view)),
            (None, Some(id)) => {
                streams::end(transaction, id);
                table.stream = table.stream.take().map(|stream| StreamSettings {
                    enabled: false,
                    ..stream
                });
            }
        }
        Ok(true)
    }

    /// Answers the indexes that it deletes.
    fn indexes(&self, transaction: &mut Transaction<'_>, table: &mut Table) -> Result<Vec<Index>, Failure> {
        let updates = index_updates(self.request);
        for update in updates {
            let kinds = ["Update", "Create", "Delete"]
                .iter()
                .filter(|kind| update.get(kind).is_some());
            if kinds.count() != 1 {
                return Err(Failure::invalid(
                    "Exactly one of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, \
                     GlobalSecondaryIndexUpdate.Delete must be given",
                ));
            }
        }
        let online = updates.iter().filter(|update| update.get("Update").is_none()).count();
        if online > 1 {
            return Err(Failure::new(
                Exception::LimitExceeded,
                "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table",
            ));
        }
        let mut deleted = Vec::new();
        for update in updates {
            if let Some(json) = update.get("Create") {
                self.create_index(transaction, table, json)?;
            } else if let Some(json) = update.get("Delete") {
                deleted.push(delete_index(transaction, table, json)?);
            } else if let Some(json) = update.get("Update") {
                update_index(table, json)?;
            }
        }
        Ok(deleted)
    }

    fn create_index(
        &self,
        transaction: &mut Transaction<'_>,
        table: &mut Table,
        json: &Json<'_>,
    ) -> Result<(), Failure> {
        let name = json.get("IndexName").and_then(Json::text).unwrap_or_default();
        if table.index(name).is_some() {
            return Err(Failure::validation(
                "Attempting to create an index which already exists",
            ));
        }
        let mut definitions = Definitions {
            parts: table.definitions.clone(),
        };
        if let Some(given) = &self.definitions {
            definitions.extend(given)?;
        }
        // What a table knows already must be said again.
        let given = self.definitions.as_ref().map_or(&[][..], |given| &given.parts);
        let mut index = index_from(json, &Definitions { parts: given.to_vec() }, None)?;
        set_index_capacity(&mut index, json, &table.capacity)?;
        table.last_index += 1;
        index.id = table.last_index;
        index.filling = true;
        let mut indexes = table.indexes.clone();
        indexes.push(index);
        check_indexes(&indexes)?;
        if let Some(given) = &self.definitions {
            given.check_all_used(&table.hash, table.range.as_ref(), &indexes)?;
        }
        table.indexes = indexes;
        table.definitions = definitions.only_used(table);
        maintenance::start_filling(transaction, table, table.last_index);
        Ok(())
    }
}

fn delete_index(transaction: &mut Transaction<'_>, table: &mut Table, json: &Json<'_>) -> Result<Index, Failure> {
    let name = json.get("IndexName").and_then(Json::text).unwrap_or_default();
    let Some(position) = table
        .indexes
        .iter()
        .position(|index| index.global && index.name == name)
    else {
        return Err(Failure::new(
            Exception::ResourceNotFound,
            format!("Requested resource not found: Index: {name} not found"),
        ));
    };
    let index = table.indexes.remove(position);
    table.insights.remove(name);
    let entries = KeyRange::prefix(&key::items(table.id, index.id));
    transaction.clear_range(&entries.start, &entries.end);
    transaction.clear(&key::filling(table.id, index.id));
    let definitions = Definitions {
        parts: table.definitions.clone(),
    };
    table.definitions = definitions.only_used(table);
    Ok(index)
}

fn update_index(table: &mut Table, json: &Json<'_>) -> Result<(), Failure> {
    let name = json.get("IndexName").and_then(Json::text).unwrap_or_default();
    let capacity = table.capacity.clone();
    let Some(index) = table
        .indexes
        .iter_mut()
        .find(|index| index.global && index.name == name)
    else {
        return Err(Failure::new(
            Exception::ResourceNotFound,
            format!("Requested resource not found: Index: {name} not found"),
        ));
    };
    if let Some((read_units, write_units)) = parse_units(json)? {
        (index.capacity.read_units, index.capacity.write_units) = (read_units, write_units);
    }
    if let Some(maximum) = parse_on_demand_maximum(json, &capacity)? {
        index.on_demand_maximum = Some(maximum);
    }
    let present = index.warm_throughput.unwrap_or_else(|| initial_warmth(&index.capacity));
    let what = format!("index {name}");
    if let Some(warm) = parse_warm_throughput(json, &what, &index.capacity, Some(present))? {
        index.warm_throughput = Some(warm);
    }
    Ok(())
}
