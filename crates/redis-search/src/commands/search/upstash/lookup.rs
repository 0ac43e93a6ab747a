//! Which index a request names, whether its user may, and its rows.

use std::sync::Arc;

use quartet_layer_redis::module_api::{Context, ErrorReply, Kind, Outcome, Selector};
use quartet_search::error::SearchError;
use quartet_wire_resp::Arguments;

use super::streams;
use crate::commands::search::arguments::default_clock;
use crate::commands::search::{content, lookup, upkeep};
use crate::indexes::{KeyDefinition, KeyIndex, NO_PLACE, Overlay, TransactionRows, rows_at};
use crate::kinds::SEARCH_INDEX;
use crate::state::SearchGroups;

/// Returns the index of this name or alias, if it exists and the user may read its keys, or write
/// them if `writes`.
pub fn find(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    name: &[u8],
    writes: bool,
) -> Result<Option<Arc<KeyIndex>>, ErrorReply> {
    if context.client.db != 0 {
        return Err("ERR Search indexes are those of database 0".into());
    }
    let catalogue = context.groups.indexes().catalogue(context.tx);
    let name = catalogue.key_index_name(name);
    let Some(entry) = context.keys_of(0).find_kind(name, SEARCH_INDEX)? else {
        return Ok(None);
    };
    let index = catalogue
        .key_index(name)
        .filter(|index| index.head.number == entry.payload());
    if let Some(index) = index {
        check_access(context, arguments, &index.definition, writes)?;
    }
    Ok(index.cloned())
}

/// See [`lookup::check_access`]. An index on a stream requires only the right to that key.
pub fn check_access(
    context: &Context<'_, '_>,
    arguments: Arguments<'_>,
    definition: &KeyDefinition,
    writes: bool,
) -> Result<(), ErrorReply> {
    let may = context.user_may(arguments, |selector| allows_index(selector, definition, writes));
    may.then_some(()).ok_or(lookup::NO_PERMISSION.into())
}

/// The selector allows the keys that the index covers.
pub fn allows_index(selector: &Selector, definition: &KeyDefinition, writes: bool) -> bool {
    match definition.on {
        Kind::Stream => selector.has_key(&definition.prefixes[0], writes),
        _ => selector.has_prefixes(&definition.prefixes, writes),
    }
}

/// See [`content::wait_for`].
pub fn wait(context: &mut Context<'_, '_>, index: &KeyIndex) -> Result<Option<Outcome>, ErrorReply> {
    content::wait_for(context, index, |text| format!("ERR {text}").into())
}

/// Returns true if a search must end. Its time starts here.
pub fn clock<'c>(context: &Context<'c, '_>) -> impl Fn() -> bool + use<'c> {
    default_clock(context)
}

/// The index as the transaction sees it, without expired keys and fields that are not removed yet.
pub fn rows<'r, 't>(
    context: &'r mut Context<'_, 't>,
    index: &KeyIndex,
    is_over: &dyn Fn() -> bool,
) -> Result<Overlay<TransactionRows<'r, 't>>, ErrorReply> {
    if index.is_on_stream() {
        return Ok(rows_of_stream(context, index));
    }
    content::rows(context, index, is_over).map_err(failed)
}

/// All rows belong to entries of one key. If that key has expired but was not removed yet, these
/// are the rows of no index.
fn rows_of_stream<'r, 't>(context: &'r mut Context<'_, 't>, index: &KeyIndex) -> Overlay<TransactionRows<'r, 't>> {
    let is_there = streams::stream_of(&mut context.keys_of(0), index).is_some();
    let mut index_rows = upkeep::rows(context.tx, index);
    if !is_there {
        index_rows.prefix = rows_at(NO_PLACE);
    }
    Overlay::new(index_rows)
}

/// A search that ended too early, without a code as Upstash's errors have none.
pub fn failed(error: SearchError) -> ErrorReply {
    match error {
        SearchError::Timeout => "ERR The search took too long".into(),
        SearchError::Limit(reason) => format!("ERR {reason}").into(),
        other => other.text().into(),
    }
}
