//! TransactGetItems and TransactWriteItems: all or nothing, at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quartet_engine::Row;
use quartet_engine::Transaction;
use xxhash_rust::xxh3::xxh3_128;

use crate::operations::items::{
    Write, parse_check, parse_delete, parse_put, parse_update_item, write_collection_metrics,
};
use crate::operations::read::Get;
use crate::storage::capacity::{Consumed, Kind, Report, read_units, write_list};
use crate::storage::key;
use crate::storage::table::Table;
use crate::storage::throughput::Use;
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer, json_text};
use crate::wire::value::{Item, Value, item_size};
use crate::{DynamoDb, Outcome, storage::stored};

const TRANSACTION_BYTES_MAX: usize = 4 << 20;
/// For how long the token of a transaction is remembered.
pub const TOKEN_KEPT_MICROS: u64 = 10 * 60 * 1_000_000;

/// Why one action kept a transaction from happening; `None` if it did not.
pub type Reason = Option<Failure>;

/// The failure of a transaction, one reason for each of its actions in order.
pub fn cancelled(reasons: &[Reason]) -> Failure {
    let codes: Vec<&str> = reasons
        .iter()
        .map(|reason| reason.as_ref().map_or("None", code))
        .collect();
    let mut failure = Failure::new(
        Exception::TransactionCanceled,
        format!(
            "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
            codes.join(", ")
        ),
    );
    let mut writer = Writer::default();
    writer.open(b'[');
    for reason in reasons {
        writer.open(b'{');
        writer.member("Code", reason.as_ref().map_or("None", code));
        if let Some(reason) = reason {
            writer.member("Message", &reason.message);
            reason.write_item(&mut writer);
        }
        writer.close(b'}');
    }
    writer.close(b']');
    failure.extra = Some(("CancellationReasons", json_text(writer.text)));
    failure
}

fn code(failure: &Failure) -> &'static str {
    match failure.exception {
        Exception::ConditionalCheckFailed => "ConditionalCheckFailed",
        Exception::DuplicateItem => "DuplicateItem",
        Exception::ResourceNotFound => "ResourceNotFound",
        Exception::ProvisionedThroughputExceeded => "ProvisionedThroughputExceeded",
        Exception::Throttling => "ThrottlingError",
        _ => "ValidationError",
    }
}

fn parse_gets(request: &Json<'_>) -> Result<Vec<Get>, Failure> {
    let items = request.get("TransactItems").map_or(&[][..], Json::elements);
    items
        .iter()
        .map(|item| Get::parse(item.get("Get").unwrap_or(&Json::Null)))
        .collect()
}

pub fn get(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let report = Report::read(request);
    layer.respond_to_read(
        parse_gets(request),
        |transaction, gets| execute_gets(layer, transaction, gets),
        |gets, rows| write_gets(&gets, &rows, report),
    )
}

fn execute_gets(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    gets: &[Get],
) -> Result<Vec<Option<Row>>, Failure> {
    let tables = gets
        .iter()
        .map(|get| layer.table(transaction, &get.table))
        .collect::<Result<Vec<_>, _>>()?;
    let checked = gets
        .iter()
        .zip(&tables)
        .map(|(get, table)| table.check_key(&get.key).err());
    refuse_if_any(checked.collect())?;
    refuse_repeated(gets.iter().zip(&tables).map(|(get, table)| table.item_key(&get.key)))?;
    let mut reasons = Vec::new();
    let mut rows = Vec::new();
    for (get, table) in gets.iter().zip(&tables) {
        let row = get.execute_uncharged(layer, transaction, table);
        reasons.push(row.as_ref().err().cloned());
        rows.extend(row);
    }
    refuse_if_any(reasons)?;
    check_bytes(rows.iter().flatten().map(|row| stored::size(row.value())))?;
    for (row, table) in rows.iter().zip(&tables) {
        let consumed = || Consumed::of_table(transact_units(row.as_ref()));
        layer.charge(transaction, table, Use::Read, consumed);
    }
    Ok(rows)
}

/// Units of reading an item as a part of a transaction.
fn transact_units(row: Option<&Row>) -> f64 {
    2.0 * read_units(row.map_or(0, |row| stored::size(row.value())), true)
}

pub fn refuse_if_any(reasons: Vec<Reason>) -> Result<(), Failure> {
    if reasons.iter().any(Option::is_some) {
        Err(cancelled(&reasons))
    } else {
        Ok(())
    }
}

/// Charges for the writes of a transaction, also if a condition failed. A throttled one costs
/// nothing: if it did, one that needs two tables would empty the first while it waits for the
/// second, and the other way round, indefinitely.
pub fn charge_unless_throttled(
    layer: &DynamoDb,
    transaction: &Transaction<'_>,
    reasons: &[Reason],
    executed: Vec<(Arc<Table>, Consumed)>,
) {
    if reasons.iter().flatten().any(Failure::is_throttling) {
        return;
    }
    for (table, consumed) in executed {
        layer.charge(transaction, &table, Use::Write, || consumed);
    }
}

pub fn refuse_repeated(keys: impl Iterator<Item = Vec<u8>>) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for key in keys {
        if !seen.insert(key) {
            return Err(Failure::validation(
                "Transaction request cannot include multiple operations on one item",
            ));
        }
    }
    Ok(())
}

fn write_gets(gets: &[Get], rows: &[Option<Row>], report: Report) -> Vec<u8> {
    let mut consumed: BTreeMap<String, Consumed> = BTreeMap::new();
    for (get, row) in gets.iter().zip(rows) {
        consumed.entry(get.table.clone()).or_default().table += transact_units(row.as_ref());
    }
    Writer::object(|writer| {
        writer.list("Responses", gets.iter().zip(rows), |writer, (get, row)| {
            writer.open(b'{');
            // An item of which a projection finds nothing is left out, unlike in the other reads.
            if let Some(row) = row.as_ref().filter(|row| get.shows_anything(row)) {
                get.write(row, &mut writer.name("Item").text);
            }
            writer.close(b'}');
        });
        write_list(writer, &consumed, report, Kind::Read);
    })
}

/// A transaction of writes, checked as far as it can be without the state.
pub struct Writes {
    pub writes: Vec<Write>,
    /// The client's token, and a hash of the request.
    pub token: Option<(String, u128)>,
}

fn parse_writes(layer: &DynamoDb, request: &Json<'_>) -> Result<Writes, Failure> {
    let items = request.get("TransactItems").map_or(&[][..], Json::elements);
    let writes = items.iter().map(parse_one).collect::<Result<Vec<_>, _>>()?;
    let token = request.get("ClientRequestToken").and_then(Json::text);
    check_bytes(writes.iter().map(|write| item_size(write.action.key())))?;
    Ok(Writes {
        writes,
        token: token.map(|token| (layer.token_of(token), fingerprint(request))),
    })
}

impl DynamoDb {
    /// A client's name for a transaction, which has no meaning in another region. No region's name
    /// has a zero byte.
    pub fn token_of(&self, token: &str) -> String {
        match self.own_region() {
            None => token.to_owned(),
            Some(region) => format!("{region}\0{token}"),
        }
    }
}

/// Refuses a transaction whose items are too large together.
pub fn check_bytes(sizes: impl Iterator<Item = usize>) -> Result<(), Failure> {
    match sizes.sum::<usize>() > TRANSACTION_BYTES_MAX {
        true => Err(Failure::validation(
            "Member must have a total size of less than or equal to 4 MB: size cannot exceed 4 MB",
        )),
        false => Ok(()),
    }
}

/// Equal for equal requests.
pub fn fingerprint(request: &Json<'_>) -> u128 {
    let mut text = Vec::new();
    for name in ["TransactItems", "TransactStatements"] {
        if let Some(items) = request.get(name) {
            write_canonical(items, &mut text);
        }
    }
    xxh3_128(&text)
}

/// Writes JSON so that neither the order of members and of sets matters, nor how a number is
/// spelled.
fn write_canonical(json: &Json<'_>, text: &mut Vec<u8>) {
    match json {
        Json::Object(_) if is_unordered(json) => match Value::parse(json) {
            Ok(value) => value.write(text),
            Err(_) => text.push(b'?'),
        },
        Json::Object(_) => {
            let members: BTreeMap<&str, &Json<'_>> = json.members().collect();
            text.push(b'{');
            for (name, value) in members {
                crate::wire::json::write_string(text, name);
                write_canonical(value, text);
            }
            text.push(b'}');
        }
        Json::List(elements) => {
            text.push(b'[');
            elements.iter().for_each(|element| write_canonical(element, text));
            text.push(b']');
        }
        Json::Text(scalar) => crate::wire::json::write_string(text, scalar),
        scalar => text.extend_from_slice(format!("{scalar:?}").as_bytes()),
    }
}

/// True for an attribute value that has several spellings.
fn is_unordered(json: &Json<'_>) -> bool {
    let mut members = json.members();
    matches!(
        (members.next(), members.next()),
        (Some(("N", Json::Text(_)) | ("SS" | "NS" | "BS", Json::List(_))), None)
    )
}

/// Reads the members of one action.
type ParseWrite = fn(&Json<'_>) -> Result<Write, Failure>;

fn parse_one(item: &Json<'_>) -> Result<Write, Failure> {
    let kinds: [(&str, ParseWrite); 4] = [
        ("ConditionCheck", parse_check),
        ("Put", parse_put),
        ("Delete", parse_delete),
        ("Update", parse_update_item),
    ];
    let mut present = kinds
        .into_iter()
        .filter_map(|(name, parse)| Some((item.get(name)?, parse)));
    match (present.next(), present.next()) {
        (Some((json, parse)), None) => parse(json),
        _ => Err(Failure::validation(
            "TransactItems can only contain one of Check, Put, Update or Delete",
        )),
    }
}

/// The outcome of a transaction.
pub struct AllWritten {
    pub consumed: BTreeMap<String, Consumed>,
    collections: BTreeMap<String, Vec<String>>,
    kind: Kind,
}

/// Returns true if the request puts, updates or checks an item: unless it has only deletes.
pub fn puts(request: &Json<'_>) -> bool {
    let only_deletes = request.get("TransactItems").is_some_and(|items| {
        let mut items = items.elements().iter();
        items.all(|item| item.get("Delete").is_some())
    });
    !only_deletes
}

pub fn write(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let report = Report::read(request);
    let metrics = request.get("ReturnItemCollectionMetrics").and_then(Json::text) == Some("SIZE");
    layer.respond(
        parse_writes(layer, request),
        |transaction, writes| writes.execute(layer, transaction),
        |_, written| {
            Writer::object(|writer| {
                written.write_consumed(writer, report);
                if metrics && !written.collections.is_empty() {
                    writer.nested("ItemCollectionMetrics", |writer| {
                        for (table, collections) in &written.collections {
                            writer.list(table, collections, |writer, collection| writer.raw(collection));
                        }
                    });
                }
            })
        },
    )
}

impl AllWritten {
    pub fn write_consumed(&self, writer: &mut Writer, report: Report) {
        write_list(writer, &self.consumed, report, self.kind);
    }
}

impl Writes {
    pub fn execute(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) -> Result<AllWritten, Failure> {
        if let Some(replayed) = self.replay(transaction)? {
            return Ok(replayed);
        }
        let tables = self.check(layer, transaction)?;
        let mut reasons = Vec::new();
        let mut written = AllWritten {
            consumed: BTreeMap::new(),
            collections: BTreeMap::new(),
            kind: Kind::Write,
        };
        let mut executed = Vec::new();
        let mut replay_units = Vec::new();
        let mut written_bytes = 0;
        for (write, table) in self.writes.iter().zip(tables) {
            // After a failure the others are still checked, as no two of them concern one item.
            match write.execute_uncharged(layer, transaction, table) {
                Ok(outcome) => {
                    written_bytes += outcome.new.as_deref().map_or(0, item_size);
                    check_bytes(std::iter::once(written_bytes))?;
                    let consumed = outcome.consumed.clone().in_transaction();
                    replay_units.push(outcome.replay_units());
                    written.consumed.entry(write.table.clone()).or_default().add(&consumed);
                    written.note_collection(&write.table, &outcome.table, write.action.key());
                    executed.push((outcome.table, consumed));
                    reasons.push(None);
                }
                Err(failure) => reasons.push(Some(failure)),
            }
        }
        charge_unless_throttled(layer, transaction, &reasons, executed);
        refuse_if_any(reasons)?;
        self.remember(transaction, &replay_units);
        Ok(written)
    }

    fn check(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) -> Result<Vec<Arc<Table>>, Failure> {
        let mut tables = Vec::new();
        let mut reasons = Vec::new();
        for write in &self.writes {
            let table = layer.table(transaction, &write.table)?;
            match write.check(layer, transaction) {
                Err(failure) if write.is_plainly_wrong(&table) => return Err(failure),
                // The first fault ends the check; the actions after it have none.
                Err(failure) => {
                    reasons.push(Some(failure));
                    reasons.resize(self.writes.len(), None);
                    return Err(cancelled(&reasons));
                }
                Ok(_) => reasons.push(None),
            }
            tables.push(table);
        }
        let keys = self
            .writes
            .iter()
            .zip(&tables)
            .map(|(write, table)| table.item_key(write.action.key()));
        refuse_repeated(keys)?;
        Ok(tables)
    }

    /// The answer if this very transaction was done before.
    pub fn replay(&self, transaction: &mut Transaction<'_>) -> Result<Option<AllWritten>, Failure> {
        let Some((token, fingerprint)) = &self.token else {
            return Ok(None);
        };
        let Some(row) = transaction.get(&key::token(token)) else {
            return Ok(None);
        };
        let (made, tail) = row.value().split_first_chunk().expect("a stored token");
        let (stored_fingerprint, units) = tail.split_first_chunk().expect("a stored token");
        let too_old = transaction.now_micros() > u64::from_be_bytes(*made) + TOKEN_KEPT_MICROS;
        if too_old {
            return Ok(None);
        }
        if *stored_fingerprint != fingerprint.to_be_bytes() {
            return Err(Failure::new(
                Exception::IdempotentParameterMismatch,
                "The request uses the same client token as a previous, but non-identical request. \
                 Do not reuse a client token with different requests, unless the requests are identical",
            ));
        }
        let mut consumed: BTreeMap<String, Consumed> = BTreeMap::new();
        for (write, units) in self.writes.iter().zip(units.as_chunks().0) {
            consumed.entry(write.table.clone()).or_default().table += f64::from(u32::from_be_bytes(*units));
        }
        Ok(Some(AllWritten {
            consumed,
            collections: BTreeMap::new(),
            kind: Kind::Read,
        }))
    }

    /// Keeps the token, if there is one: when it was used, what for, and the read units that each
    /// write costs when it is repeated, as u32 in big-endian order.
    pub fn remember(&self, transaction: &mut Transaction<'_>, replay_units: &[u32]) {
        let Some((token, fingerprint)) = &self.token else {
            return;
        };
        let now = transaction.now_micros();
        let units: Vec<u8> = replay_units.iter().flat_map(|units| units.to_be_bytes()).collect();
        let parts: [&[u8]; 3] = [&now.to_be_bytes(), &fingerprint.to_be_bytes(), &units];
        transaction.set_parts(&[&key::token(token)], &parts);
        transaction.set(&key::token_expiry(now, token), b"");
    }
}

impl AllWritten {
    fn note_collection(&mut self, name: &str, table: &Table, key: &Item) {
        if !table.has_local_indexes() {
            return;
        }
        let mut writer = Writer::default();
        write_collection_metrics(&mut writer, table, key);
        let collections = self.collections.entry(name.to_owned()).or_default();
        let metrics = json_text(writer.text);
        if !collections.contains(&metrics) {
            collections.push(metrics);
        }
    }
}
