//! BatchGetItem and BatchWriteItem: many items at once, each by itself in the original; here all at
//! one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quartet_engine::Row;
use quartet_engine::Transaction;

use crate::operations::WRITE_REQUESTS;
use crate::operations::items::{Action, Write, check_item_size, write_collection_metrics};
use crate::operations::read::{Get, check_projection_allowed, parse_projected};
use crate::storage::capacity::{Consumed, Kind, Report, write_list};
use crate::storage::throughput::Use;
use crate::wire::failure::Failure;
use crate::wire::json::{Json, Writer, json_text};
use crate::wire::legacy;
use crate::wire::shape::shown_value;
use crate::wire::value::{Item, parse_item};
use crate::{DynamoDb, Outcome, storage::stored};

const KEYS_MAX: usize = 100;
const WRITES_MAX: usize = 25;
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Memory that an answer takes for each byte of its items: JSON may be six times as long, and
/// is in memory twice before it is sent.
const JSON_FACTOR: u64 = 8;

fn tables<'j, 'a>(request: &'j Json<'a>) -> impl Iterator<Item = (&'j str, &'j Json<'a>)> {
    let items = request.get("RequestItems").unwrap_or(&Json::Null);
    items.members()
}

/// The requested keys of one table.
struct TableGets {
    name: String,
    gets: Vec<Get>,
    /// The request's members for this table, without its keys, for an unprocessed part.
    keys: Vec<Item>,
}

fn parse_gets(request: &Json<'_>) -> Result<Vec<TableGets>, Failure> {
    let mut all = Vec::new();
    let mut count = 0;
    check_projections(request)?;
    for (name, json) in tables(request) {
        let elements = json.get("Keys").map_or(&[][..], Json::elements);
        count += elements.len();
        if elements.is_empty() {
            return Err(Failure::validation(format!(
                "1 validation error detected: Value at 'RequestItems.{name}.member.Keys' failed to satisfy constraint: \
                 Member must have length greater than or equal to 1"
            )));
        }
        if elements.len() > KEYS_MAX {
            return Err(Failure::validation(format!(
                "1 validation error detected: Value at 'RequestItems.{name}.member.Keys' failed to satisfy constraint: \
                 Member must have length less than or equal to {KEYS_MAX}"
            )));
        }
        check_projection_allowed(json)?;
        let projection = parse_projected(json)?;
        let consistent = json.get("ConsistentRead").and_then(Json::boolean).unwrap_or(false);
        let keys: Vec<Item> = elements.iter().map(parse_item).collect::<Result<_, _>>()?;
        refuse_repeated(&keys)?;
        let gets = keys.iter().map(|key| Get {
            table: name.to_owned(),
            key: key.clone(),
            projection: projection.clone(),
            consistent,
        });
        all.push(TableGets {
            name: name.to_owned(),
            gets: gets.collect(),
            keys,
        });
    }
    if all.is_empty() {
        return Err(Failure::validation(
            "The requestItems parameter is required for BatchGetItem",
        ));
    }
    if count > KEYS_MAX {
        return Err(Failure::validation(
            "Too many items requested for the BatchGetItem call",
        ));
    }
    Ok(all)
}

/// Refuses requests that use both styles of projections, in one table or in several.
fn check_projections(request: &Json<'_>) -> Result<(), Failure> {
    let is_used = |member: &&str| tables(request).any(|(_, json)| json.get(member).is_some());
    let used = ["AttributesToGet", "ProjectionExpression"].into_iter().filter(is_used);
    let used = Json::Object(used.map(|member| (member.into(), Json::Bool(true))).collect());
    legacy::check_not_mixed(&used, &["AttributesToGet"], &["ProjectionExpression"])
}

fn refuse_repeated(keys: &[Item]) -> Result<(), Failure> {
    let is_repeated = |(position, key): (usize, &Item)| keys[..position].contains(key);
    match keys.iter().enumerate().any(is_repeated) {
        true => Err(Failure::validation("Provided list of item keys contains duplicates")),
        false => Ok(()),
    }
}

pub fn get(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let report = Report::read(request);
    layer.respond_to_read(
        parse_gets(request),
        |transaction, all| execute_all_gets(layer, transaction, all),
        |all, rows| write_gets(request, &all, &rows, report, answer_bytes_max(layer)),
    )
}

/// Bytes of items that an answer has, one more perhaps. Keys that do not fit are unprocessed, and
/// clients request them again.
fn answer_bytes_max(layer: &DynamoDb) -> usize {
    let room_bytes = layer.engine.memory().room_for_a_request();
    ANSWER_BYTES_MAX.min((room_bytes / JSON_FACTOR) as usize)
}

/// The rows of each table. Those of a table that was throttled end early; if there are none at all,
/// the batch is throttled.
fn execute_all_gets(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    all: &[TableGets],
) -> Result<Vec<Vec<Option<Row>>>, Failure> {
    let mut all_rows = Vec::new();
    let mut throttled = None;
    for table in all {
        let (rows, failure) = execute_gets(layer, transaction, table)?;
        all_rows.push(rows);
        throttled = throttled.or(failure);
    }
    match throttled {
        Some(failure) if all_rows.iter().all(Vec::is_empty) => Err(failure),
        _ => Ok(all_rows),
    }
}

fn execute_gets(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    gets: &TableGets,
) -> Result<(Vec<Option<Row>>, Option<Failure>), Failure> {
    let table = layer.table(transaction, &gets.name)?;
    gets.gets.iter().try_for_each(|get| table.check_key(&get.key))?;
    let mut rows = Vec::new();
    for get in &gets.gets {
        match get.execute_uncharged(layer, transaction, &table) {
            Ok(row) => {
                layer.charge(transaction, &table, Use::Read, || get.consumed(row.as_ref()));
                rows.push(row);
            }
            Err(throttled) if throttled.is_throttling() => return Ok((rows, Some(throttled))),
            Err(failure) => return Err(failure),
        }
    }
    Ok((rows, None))
}

fn write_gets(
    request: &Json<'_>,
    all: &[TableGets],
    rows: &[Vec<Option<Row>>],
    report: Report,
    bytes_max: usize,
) -> Vec<u8> {
    let mut bytes = 0;
    let mut consumed: BTreeMap<String, Consumed> = BTreeMap::new();
    // For each table, how many keys fit into the answer.
    let mut answered = Vec::new();
    for (table, rows) in all.iter().zip(rows) {
        let total = consumed.entry(table.name.clone()).or_default();
        let fit = table.gets.iter().zip(rows).take_while(|(get, row)| {
            let size = row.as_ref().map_or(0, |row| stored::size(row.value()));
            let fits = bytes == 0 || bytes + size <= bytes_max;
            if fits {
                bytes += size;
                total.table += get.units(row.as_ref());
            }
            fits
        });
        answered.push(fit.count());
    }
    Writer::object(|writer| {
        writer.nested("Responses", |writer| {
            for ((table, rows), answered) in all.iter().zip(rows).zip(&answered) {
                let items = table.gets.iter().zip(rows).take(*answered);
                let items = items.filter_map(|(get, row)| Some((get, row.as_ref()?)));
                writer.list(&table.name, items, |writer, (get, row)| {
                    writer.comma();
                    get.write(row, &mut writer.text);
                });
            }
        });
        writer.nested("UnprocessedKeys", |writer| {
            for (table, answered) in all
                .iter()
                .zip(&answered)
                .filter(|(table, answered)| **answered < table.gets.len())
            {
                let again = tables(request).find(|(name, _)| *name == table.name);
                write_again(writer, table, *answered, again.map_or(&Json::Null, |(_, json)| json));
            }
        });
        write_list(writer, &consumed, report, Kind::Plain);
    })
}

/// Writes the keys from `answered` on, with the request's other members.
fn write_again(writer: &mut Writer, table: &TableGets, answered: usize, requests: &Json<'_>) {
    writer.nested(&table.name, |writer| {
        writer.list("Keys", &table.keys[answered..], |writer, key| {
            writer.comma();
            crate::wire::value::write_item(key, &mut writer.text);
        });
        for (name, json) in requests.members() {
            match json {
                Json::Text(text) => writer.member(name, text),
                Json::Bool(value) => writer.name(name).raw(value),
                Json::Object(_) => writer.nested(name, |writer| {
                    for (placeholder, stands_for) in json.members() {
                        writer.member(placeholder, stands_for.text().unwrap_or_default());
                    }
                }),
                Json::List(elements) if name != "Keys" => {
                    let names = elements.iter().filter_map(Json::text);
                    writer.list(name, names, |writer, name| writer.string(name));
                }
                _ => {}
            }
        }
    });
}

fn parse_writes(request: &Json<'_>) -> Result<Vec<Write>, Failure> {
    let mut writes = Vec::new();
    let mut tables_count = 0;
    for (table, list) in tables(request) {
        tables_count += 1;
        let elements = list.elements();
        if elements.is_empty() || elements.len() > WRITES_MAX {
            let requests = request.get("RequestItems").unwrap_or(&Json::Null);
            return Err(Failure::validation(format!(
                "1 validation error detected: {} at 'requestItems' failed to satisfy constraint: Map value must satisfy \
                 constraint: [Member must have length less than or equal to 25, Member must have length greater than or \
                 equal to 1]",
                shown_value(&WRITE_REQUESTS, requests)
            )));
        }
        for json in elements {
            let action = match (json.get("PutRequest"), json.get("DeleteRequest")) {
                (Some(put), None) => {
                    let item = parse_item(put.get("Item").unwrap_or(&Json::Null))?;
                    check_item_size(&item)?;
                    Action::Put(Arc::new(item))
                }
                (None, Some(delete)) => Action::Delete(parse_item(delete.get("Key").unwrap_or(&Json::Null))?),
                _ => {
                    return Err(Failure::validation(
                        "Supplied AttributeValue has more than one datatypes set, \
                         must contain exactly one of the supported datatypes",
                    ));
                }
            };
            writes.push(Write {
                table: table.to_owned(),
                action,
                condition: None,
                show_failed: false,
            });
        }
    }
    if tables_count == 0 {
        return Err(Failure::validation(
            "The requestItems parameter is required for BatchWriteItem",
        ));
    }
    if writes.len() > WRITES_MAX {
        return Err(Failure::validation(
            "Too many items requested for the BatchWriteItem call",
        ));
    }
    Ok(writes)
}

/// The writes of a batch: consumption, and for each table the item collections that it touched.
#[derive(Default)]
struct BatchWritten {
    /// Positions of the writes that were throttled, in order.
    unprocessed: Vec<usize>,
    consumed: BTreeMap<String, Consumed>,
    collections: BTreeMap<String, Vec<String>>,
}

/// Returns true if the request puts an item: unless it has only deletes.
pub fn puts(request: &Json<'_>) -> bool {
    let only_deletes = request.get("RequestItems").is_some_and(|tables| {
        let mut writes = tables.members().flat_map(|(_, writes)| writes.elements());
        writes.all(|write| write.get("DeleteRequest").is_some())
    });
    !only_deletes
}

pub fn write(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let report = Report::read(request);
    let metrics = request.get("ReturnItemCollectionMetrics").and_then(Json::text) == Some("SIZE");
    layer.respond(
        parse_writes(request),
        |transaction, writes| execute_writes(layer, transaction, writes),
        |writes, written| {
            Writer::object(|writer| {
                write_unprocessed(writer, &writes, &written.unprocessed);
                if metrics {
                    writer.nested("ItemCollectionMetrics", |writer| {
                        for (table, collections) in &written.collections {
                            writer.list(table, collections, |writer, collection| writer.raw(collection));
                        }
                    });
                }
                write_list(writer, &written.consumed, report, Kind::Plain);
            })
        },
    )
}

fn execute_writes(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    writes: &[Write],
) -> Result<BatchWritten, Failure> {
    if writes.iter().all(Write::deletes) {
        transaction.deletes();
    }
    let mut tables = Vec::new();
    let mut seen = BTreeSet::new();
    for write in writes {
        let table = layer.table(transaction, &write.table)?;
        if !table.holds_keys(write.action.key()) {
            return Err(Failure::validation(
                "The provided key element does not match the schema",
            ));
        }
        let table = write.check(layer, transaction)?;
        if !seen.insert(table.item_key(write.action.key())) {
            return Err(Failure::validation("Provided list of item keys contains duplicates"));
        }
        tables.push(table);
    }
    let mut written = BatchWritten::default();
    for (position, (write, table)) in writes.iter().zip(tables).enumerate() {
        let outcome = match write.execute(layer, transaction, table) {
            Err(throttled) if throttled.is_throttling() && written.unprocessed.len() + 1 < writes.len() => {
                written.unprocessed.push(position);
                continue;
            }
            result => result?,
        };
        written
            .consumed
            .entry(write.table.clone())
            .or_default()
            .add(&outcome.consumed);
        if outcome.table.has_local_indexes() {
            let mut writer = Writer::default();
            write_collection_metrics(&mut writer, &outcome.table, write.action.key());
            let collections = written.collections.entry(write.table.clone()).or_default();
            let metrics = json_text(writer.text);
            if !collections.contains(&metrics) {
                collections.push(metrics);
            }
        }
    }
    Ok(written)
}

/// The writes at `positions` in the request's form, grouped by table.
fn write_unprocessed(writer: &mut Writer, writes: &[Write], positions: &[usize]) {
    let again: Vec<&Write> = positions.iter().map(|position| &writes[*position]).collect();
    writer.nested("UnprocessedItems", |writer| {
        for table_writes in again.chunk_by(|write, other| write.table == other.table) {
            writer.list(&table_writes[0].table, table_writes, |writer, write| {
                let (request, member) = match write.action {
                    Action::Put(_) => ("PutRequest", "Item"),
                    _ => ("DeleteRequest", "Key"),
                };
                writer.open(b'{');
                writer.nested(request, |writer| {
                    crate::wire::value::write_item(write.action.key(), &mut writer.name(member).text);
                });
                writer.close(b'}');
            });
        }
    });
}
