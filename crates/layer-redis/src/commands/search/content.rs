//! The documents of searches and aggregations: an index at the state of the transaction, without
//! what is over, and the values of the keys that were found.

use quartet_search::aggregate::Value;
use quartet_search::analysis::folded;
use quartet_search::query::Query;
use quartet_search::schema::{Field, FieldKind};
use quartet_search::search::{self, Found, Request};

use super::arguments::Common;
use super::upkeep;
use crate::commands::hashes;
use crate::handler::context::Context;
use crate::handler::definition::{ErrorReply, Outcome};
use crate::indexes::{Index, Overlay, TransactionRows};
use crate::keyspace::{Entry, Kind, due};

/// Nothing if the index is full. Otherwise the request is to be made again where it may wait, or
/// was already and learns how far the index is.
pub fn wait(context: &mut Context<'_, '_>, index: &Index) -> Result<Option<Outcome>, ErrorReply> {
    let Some(progress) = index.progress(context.tx) else {
        return Ok(None);
    };
    if !context.client.may_take_long {
        return Ok(Some(Outcome::RunLong));
    }
    let percent = 100.0 * share(progress.cursor);
    let name = String::from_utf8_lossy(&index.name);
    Err(format!("SEARCH_INDEX_FILLING Index {name} is being filled: {percent:.1}% of the keys were looked at").into())
}

/// The part of all keys that lies before a cursor of SCAN.
pub fn share(cursor: u64) -> f64 {
    cursor as f64 / (1u64 << 53) as f64
}

/// The index as the transaction sees it. Keys and fields whose time is over are not in it although
/// nobody has removed them yet.
pub fn rows<'r, 't>(context: &'r mut Context<'_, 't>, index: &Index) -> Overlay<TransactionRows<'r, 't>> {
    let now_ms = context.expires_up_to_ms();
    let mut over = Vec::new();
    for of_fields in [false, true] {
        let due = due(context.tx, of_fields, now_ms, usize::MAX);
        over.extend(due.into_iter().filter(|(db, _, name)| *db == 0 && index.covers(name)));
    }
    let mut keys = context.keys_of(0);
    let over: Vec<_> = over
        .into_iter()
        .map(|(_, _, name)| (upkeep::overlaid(&mut keys, index, &name), name))
        .collect();
    let mut rows = Overlay::new(TransactionRows {
        tx: context.tx,
        prefix: index.rows_prefix(),
    });
    for (document, name) in over {
        upkeep::overlay(&mut rows, &name, document);
    }
    rows
}

/// Runs a query over the index, see [`rows`].
pub fn run(
    context: &mut Context<'_, '_>,
    index: &Index,
    query: &Query,
    (common, request): (&Common, &Request),
) -> Result<Found, ErrorReply> {
    let engine = context.engine().clone();
    let ends_micros = common.ends_micros(engine.now_micros());
    let is_over = || engine.now_micros() > ends_micros;
    let schema = &index.definition.schema;
    Ok(search::search(
        &mut rows(context, index),
        schema,
        query,
        request,
        &is_over,
    )?)
}

/// A key that was found, ready to be read.
pub fn entry(context: &mut Context<'_, '_>, name: &[u8]) -> Option<Entry> {
    context.keys_of(0).find(name).filter(|entry| entry.kind == Kind::Hash)
}

pub fn field(context: &mut Context<'_, '_>, entry: &Entry, name: &str) -> Option<Vec<u8>> {
    let found = hashes::find(&mut context.keys_of(0), entry, name.as_bytes());
    found.map(|found| found.value().to_vec())
}

/// All fields with their values.
pub fn fields(context: &mut Context<'_, '_>, entry: &Entry) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut fields = Vec::new();
    hashes::each(&mut context.keys_of(0), entry, &mut |field| {
        fields.push((field.name.to_vec(), field.value.to_vec()));
    });
    fields
}

/// The value of an index's field as steps of an aggregation take it: a number of a NUMERIC field,
/// and of others what is kept for sorting if they are SORTABLE and were not loaded.
pub fn property(field: &Field, value: Vec<u8>, is_loaded: bool) -> Value {
    match field.kind {
        FieldKind::Numeric => {
            let number = std::str::from_utf8(&value)
                .ok()
                .and_then(|number| number.trim().parse().ok());
            number.map_or(Value::Text(value), Value::Number)
        }
        _ if field.sortable && !field.keeps_case && !is_loaded => Value::Text(folded(&value)),
        _ => Value::Text(value),
    }
}
