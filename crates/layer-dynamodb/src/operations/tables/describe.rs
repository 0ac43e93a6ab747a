//! DescribeTable, and how tables and their indexes are described in other answers.

use quartet_engine::Transaction;
use quartet_model::KeyRange;

use super::parameters::{NO_MAXIMUM, initial_warmth};
use super::vector_indexes::describe_vector_indexes;
use crate::storage::attributes::{write_key_schema, write_projection};
use crate::storage::key;
use crate::storage::table::{Capacity, Index, Table};
use crate::storage::vector_index::VectorIndex;
use crate::wire::json::{Json, Writer, write_seconds};
use crate::{DynamoDb, Outcome};

/// Number of items that are measured for a table's size; a larger table's size is their average
/// times the count.
const ITEMS_MEASURED: usize = 1000;

/// The sizes of a table, or of an index.
#[derive(Default)]
pub struct Sizes {
    /// Count and bytes, the table first and then its indexes in order.
    parts: Vec<(u64, u64)>,
    /// The same of its vector indexes in order.
    vector_parts: Vec<(u64, u64)>,
}

/// The number of a table's items, and their approximate bytes.
pub fn measure_items(transaction: &mut Transaction<'_>, table: &Table) -> (u64, u64) {
    measure(transaction, &KeyRange::prefix(&key::items(table.id, 0)))
}

impl Sizes {
    pub fn measure(transaction: &mut Transaction<'_>, table: &Table) -> Sizes {
        let ids = std::iter::once(0).chain(table.indexes.iter().map(|index| index.id));
        let parts = ids.map(|id| measure(transaction, &KeyRange::prefix(&key::items(table.id, id))));
        let parts = parts.collect();
        let vectors = table.vector_indexes.iter();
        let vector_parts = vectors.map(|index| {
            let range = KeyRange::prefix(&key::items(table.id, index.id));
            measure_rows(transaction, &range, |row| row.len())
        });
        let vector_parts = vector_parts.collect();
        Sizes { parts, vector_parts }
    }

    pub fn vector_part(&self, position: usize) -> (u64, u64) {
        self.vector_parts.get(position).copied().unwrap_or_default()
    }

    fn part(&self, position: usize) -> (u64, u64) {
        self.parts.get(position).copied().unwrap_or_default()
    }
}

fn measure(transaction: &mut Transaction<'_>, range: &KeyRange) -> (u64, u64) {
    measure_rows(transaction, range, crate::storage::stored::size)
}

fn measure_rows(transaction: &mut Transaction<'_>, range: &KeyRange, size: fn(&[u8]) -> usize) -> (u64, u64) {
    let count = transaction.count(&range.start, &range.end);
    let (mut measured, mut bytes) = (0, 0);
    transaction.scan(&range.start, &range.end, false, &mut |row| {
        measured += 1;
        bytes += size(row.value()) as u64;
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
    layer.respond_to_read(
        Ok(()),
        |transaction, ()| {
            let table = layer.described_table(transaction, name)?;
            let sizes = Sizes::measure(transaction, &table);
            Ok((table, sizes))
        },
        |(), (table, sizes)| {
            let is_filling = table.indexes.iter().any(|index| index.filling)
                || table.vector_indexes.iter().any(|index| index.filling);
            let status = match is_filling {
                _ if table.is_coming() => "CREATING",
                true => "UPDATING",
                false => "ACTIVE",
            };
            let state = Shown {
                sizes,
                ..Shown::new(status)
            };
            Writer::object(|writer| {
                writer.nested("Table", |writer| describe_table(layer, &table, &state, writer));
            })
        },
    )
}

/// The state of a table in its description.
pub struct Shown {
    pub status: &'static str,
    pub sizes: Sizes,
    /// Indexes that the request deletes: the table has them no longer, and its description still
    /// does.
    pub deleted: Vec<Index>,
    pub deleted_vectors: Vec<VectorIndex>,
    /// The request changes what the table or one of its indexes is warm for.
    pub warms: bool,
}

impl Shown {
    pub fn new(status: &'static str) -> Shown {
        Shown {
            status,
            sizes: Sizes::default(),
            deleted: Vec::new(),
            deleted_vectors: Vec::new(),
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

    /// The status of WarmThroughput, if that is shown. A table in creation or deletion shows only a
    /// requested one.
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
pub fn describe_table(layer: &DynamoDb, table: &Table, state: &Shown, writer: &mut Writer) {
    let status = state.status;
    let (count, bytes) = state.sizes.part(0);
    writer.member("TableName", &table.name);
    writer.member("TableStatus", status);
    // A table in deletion is described without its definition.
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
        let indexes = table.indexes.iter().chain(&state.deleted).enumerate();
        let indexes: Vec<(usize, &Index)> = indexes.filter(|(_, index)| index.global == global).collect();
        if !indexes.is_empty() && status != "DELETING" {
            writer.list(member, indexes, |writer, (position, index)| {
                let (count, bytes) = state.sizes.part(position + 1);
                describe_index(layer, table, index, state, count, bytes, writer);
            });
        }
    }
    if status != "DELETING" {
        describe_vector_indexes(layer, table, state, writer);
    }
    describe_stream(layer, table, writer);
    describe_restore(table, writer);
    if let Some(description) = &table.sse_description {
        writer.name("SSEDescription").raw(description);
    }
    if let Some(class) = &table.table_class {
        writer.nested("TableClassSummary", |writer| writer.member("TableClass", class));
    }
    writer.name("DeletionProtectionEnabled").raw(table.deletion_protection);
    write_on_demand_maximum(writer, table.on_demand_maximum);
    write_warmth(writer, state, table.warm_throughput, &table.capacity);
}

/// Writes the stream's specification, if it is enabled, and the names of the latest stream.
fn describe_stream(layer: &DynamoDb, table: &Table, writer: &mut Writer) {
    let Some(stream) = &table.stream else { return };
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

/// Writes the backup or table that the table was restored from.
fn describe_restore(table: &Table, writer: &mut Writer) {
    let Some(restored) = &table.restored else { return };
    writer.nested("RestoreSummary", |writer| {
        if let Some(backup) = &restored.backup_arn {
            writer.member("SourceBackupArn", backup);
        }
        writer.member("SourceTableArn", &restored.table_arn);
        write_seconds(writer, "RestoreDateTime", restored.micros);
        writer.name("RestoreInProgress").raw(restored.in_progress);
    });
}

pub fn write_on_demand_maximum(writer: &mut Writer, on_demand: Option<(i64, i64)>) {
    let Some((read, write)) = on_demand else { return };
    writer.nested("OnDemandThroughput", |writer| {
        for (name, units) in [("MaxReadRequestUnits", read), ("MaxWriteRequestUnits", write)] {
            if units != NO_MAXIMUM {
                writer.name(name).raw(units);
            }
        }
    });
}

fn write_warmth(writer: &mut Writer, state: &Shown, asked_for: Option<(i64, i64)>, capacity: &Capacity) {
    let Some(status) = state.warm_status(asked_for.is_some()) else {
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
    state: &Shown,
    count: u64,
    bytes: u64,
    writer: &mut Writer,
) {
    writer.open(b'{');
    write_index(writer, index);
    if index.global {
        writer.member("IndexStatus", state.index_status(index));
        if index.filling {
            writer.name("Backfilling").raw(true);
        }
        write_throughput(writer, &index.capacity);
        write_on_demand_maximum(writer, index.on_demand_maximum);
        write_warmth(writer, state, index.warm_throughput, &index.capacity);
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
    write_projection(writer, &index.projection);
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
