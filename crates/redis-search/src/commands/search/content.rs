//! The documents of searches and aggregations: an index in the state of the transaction, without
//! expired keys and fields, and the values of the matching keys.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use quartet_layer_redis::module_api::{Context, ErrorReply, Outcome, each_due};
use quartet_search::error::SearchError;
use quartet_search::hits::{Found, Hit};
use quartet_search::redis::aggregate::Value;
use quartet_search::redis::execute::{Execution, Keys, Request};
use quartet_search::redis::query::Query;
use quartet_search::time::{Parts, Time};

use super::contents::Contents;
use super::plan::QueryStage;
use super::upkeep::{self, Followed};
use crate::errors::IntoReply;
use crate::indexes::query_memory::Held;
use crate::indexes::{Index, Overlay, StoredIndex, TransactionRows};
use crate::state::SearchGroups;

/// Expired keys that are examined between two checks of a search's deadline.
const KEYS_BETWEEN_CHECKS: u32 = 64;

/// Hits whose contents are read between two looks at the time.
const HITS_BETWEEN_CHECKS: usize = 32;

/// See [`wait_for`]. Nothing as well if the answer may be a part, see [`filling_warning`].
pub fn wait(context: &mut Context<'_, '_>, index: &Index) -> Result<Option<Outcome>, ErrorReply> {
    match answers_what_is_indexed(context) {
        true => Ok(None),
        false => wait_for(context, index, |text| SearchError::Filling(text).into_reply()),
    }
}

/// The warning of an answer from an index that is being filled; its first words are those of the
/// original's warning of an index that could not be.
pub fn filling_warning(context: &mut Context<'_, '_>, index: &Index) -> Option<String> {
    if !answers_what_is_indexed(context) {
        return None;
    }
    let percent = 100.0 * index.progress(context.tx)?.share();
    Some(format!(
        "Index contains partial data: it is being filled, {percent:.1}% of the keys were looked at"
    ))
}

fn answers_what_is_indexed(context: &Context<'_, '_>) -> bool {
    let setting = &context.config().search_partial_results;
    setting.load(Ordering::Relaxed) != 0
}

/// The warning of an answer that is partial because of its deadline.
pub const TIME_WAS_OVER: &str = "Timeout limit was reached";

/// The warnings of an answer.
pub fn warnings<'w>(filling: Option<&'w str>, parts: &Parts<'_>) -> Vec<&'w str> {
    let over = parts.was_over().then_some(TIME_WAS_OVER);
    filling.into_iter().chain(over).collect()
}

/// Returns None for a full index. Otherwise the request must be repeated where it may wait, or,
/// after such a wait, gets an error with this code and the progress of the index.
pub fn wait_for(
    context: &mut Context<'_, '_>,
    index: &impl StoredIndex,
    refused: fn(String) -> ErrorReply,
) -> Result<Option<Outcome>, ErrorReply> {
    let Some(progress) = index.progress(context.tx) else {
        return Ok(None);
    };
    if !context.client.may_take_long {
        return Ok(Some(Outcome::RunLong));
    }
    let percent = 100.0 * progress.share();
    let name = String::from_utf8_lossy(index.name());
    let text = format!("Index {name} is being filled: {percent:.1}% of the keys were looked at");
    Err(refused(text))
}

/// The index as the transaction sees it, without expired keys and fields that are not removed yet;
/// if that takes too long, the search times out too.
pub fn rows<'r, 't>(
    context: &'r mut Context<'_, 't>,
    index: &impl Followed,
    is_over: &dyn Fn() -> bool,
) -> Result<Overlay<TransactionRows<'r, 't>>, SearchError> {
    let now_ms = context.expires_up_to_ms();
    let (mut over, mut looked_at) = (Vec::new(), 0);
    let mut has_time = || {
        looked_at += 1;
        match u32::is_multiple_of(looked_at, KEYS_BETWEEN_CHECKS) && is_over() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let mut ends = ControlFlow::Continue(());
    for of_fields in [false, true] {
        if ends.is_break() {
            break;
        }
        each_due(context.tx, of_fields, now_ms, &mut |db, _, name| {
            if db == 0 && index.covers(name) {
                over.push(name.to_vec());
            }
            ends = has_time();
            ends
        });
    }
    let mut documents = Vec::new();
    let mut keys = context.keys_of(0);
    for name in over {
        if ends.is_break() {
            break;
        }
        documents.push((index.document(&mut keys, &name).ok().flatten(), name));
        ends = has_time();
    }
    let mut rows = Overlay::new(upkeep::rows(context.tx, index));
    for (document, name) in documents {
        if ends.is_break() {
            break;
        }
        upkeep::apply(&mut rows, &name, document);
        ends = has_time();
    }
    match ends.is_break() {
        true => Err(SearchError::Timeout),
        false => Ok(rows),
    }
}

/// Runs a search of the index, see [`rows`].
pub fn run(
    context: &mut Context<'_, '_>,
    stage: &QueryStage,
    request: &Request,
    time: Time<'_>,
) -> Result<Found, ErrorReply> {
    let groups = context.groups;
    let codes = || {
        groups
            .indexes()
            .codes
            .of(&stage.index.head.number, groups.engine().memory())
    };
    let codes = stage.query.nearest.as_ref().and_then(|_| codes());
    let request = &Request {
        codes,
        ..request.clone()
    };
    executed(context, stage, request, time, |execution| execution.search())
}

/// The keys of all matches in their order, see [`rows`].
pub fn keys(
    context: &mut Context<'_, '_>,
    stage: &QueryStage,
    request: &Request,
    time: Time<'_>,
) -> Result<Keys, ErrorReply> {
    executed(context, stage, request, time, |execution| execution.keys())
}

/// Executes a search of the index, see [`rows`]: for its hits or for its keys.
fn executed<T: Default>(
    context: &mut Context<'_, '_>,
    stage: &QueryStage,
    request: &Request,
    time: Time<'_>,
    execute: impl FnOnce(Execution<'_>) -> Result<T, SearchError>,
) -> Result<T, ErrorReply> {
    let QueryStage { index, query } = stage;
    let schema = &index.definition.schema;
    let answer = rows(context, index.as_ref(), time.question()).and_then(|mut rows| {
        execute(Execution {
            rows: &mut rows,
            schema,
            query,
            request,
            time,
        })
    });
    time.found(answer).into_reply()
}

/// Called before the contents of each hit are read; `count` hits precede it. Returns true if these
/// are the answer, because of the search's deadline.
pub fn is_over(count: usize, time: Time<'_>) -> Result<bool, SearchError> {
    match count % HITS_BETWEEN_CHECKS == HITS_BETWEEN_CHECKS - 1 {
        true => time.is_over(),
        false => Ok(false),
    }
}

/// Hits whose contents are read together: a batch takes little longer than a single read.
pub const CONTENTS_AT_ONCE: usize = 64;

/// Called before the contents of each hit are read, with the number of hits before it: prefetches
/// the next hits periodically.
pub fn fetch_next(context: &mut Context<'_, '_>, hits: &[Hit], count: usize) {
    if count.is_multiple_of(CONTENTS_AT_ONCE) {
        let next = hits[count..].iter().take(CONTENTS_AT_ONCE);
        context.keys_of(0).fetch(next.map(|hit| hit.key.as_slice()));
    }
}

/// The memory of a new search.
pub fn memory<'c>(context: &Context<'c, '_>) -> Held<'c> {
    let groups = context.groups;
    groups.indexes().query_memory.begin(groups.engine().memory())
}

/// Bytes that hits take, about.
pub fn bytes_of_hits(hits: &[Hit]) -> usize {
    hits.iter().map(|hit| size_of::<Hit>() + hit.key.len()).sum()
}

/// The contents of a key that was found.
pub fn contents<'c>(context: &mut Context<'c, '_>, index: &Index, name: &[u8]) -> Option<Contents<'c>> {
    let workspace = context.groups.workspace();
    Contents::find(&mut context.keys_of(0), index, name, workspace)
}

/// Refuses a command that was refused memory for the contents of a key: values are missing.
pub fn check_memory(context: &Context<'_, '_>) -> Result<(), ErrorReply> {
    match context.groups.is_refused_memory() {
        true => Err(context.groups.reply_is_full()),
        false => Ok(()),
    }
}

/// The distance of a hit, by the name that the query gives it.
pub fn distance(query: &Query, hit: &Hit, name: &str) -> Option<f64> {
    let range = hit.range_distances.iter().find(|(range_name, _)| range_name == name);
    let is_nearest = query
        .nearest
        .as_ref()
        .is_some_and(|nearest| nearest.distance_name == name);
    range
        .map(|(_, distance)| *distance)
        .or(hit.distance.filter(|_| is_nearest))
}

/// All distances of a hit, by their names.
pub fn distances(query: &Query, hit: &Hit) -> Vec<(Vec<u8>, Value)> {
    let mut names = query.distance_names();
    // Nearness follows the ranges in the query, but is first in an answer.
    if query.nearest.is_some() {
        names.rotate_right(1);
    }
    let names = names.into_iter();
    let pairs = names.filter_map(|name| Some((name, distance(query, hit, name)?)));
    pairs
        .map(|(name, distance)| (name.as_bytes().to_vec(), Value::Number(distance)))
        .collect()
}
