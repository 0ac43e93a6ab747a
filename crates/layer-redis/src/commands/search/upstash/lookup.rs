//! Which index a request names, whether its user may, and its rows.

use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_search::SearchError;

use super::upkeep;
use crate::commands::search::arguments::Common;
use crate::commands::search::content::share;
use crate::commands::search::lookup::check_access;
use crate::handler::context::Context;
use crate::handler::definition::{ErrorReply, Outcome};
use crate::indexes::{KeyIndex, Overlay, TransactionRows};
use crate::keyspace::{Kind, each_due};

/// Keys whose time is over that are looked at between two looks at the time of a search.
const KEYS_BETWEEN_CHECKS: u32 = 64;

/// The index of this name or alias, if there is one and the user may do to its keys what `writes`
/// says.
pub fn find(context: &mut Context<'_, '_>, name: &[u8], writes: bool) -> Result<Option<Arc<KeyIndex>>, ErrorReply> {
    if context.client.db != 0 {
        return Err("ERR Search indexes are those of database 0".into());
    }
    let catalogue = context.groups.indexes().catalogue(context.tx);
    let name = catalogue.key_index_name(name);
    let Some(entry) = context.keys_of(0).find_kind(name, Kind::SearchIndex)? else {
        return Ok(None);
    };
    let index = catalogue
        .key_index(name)
        .filter(|index| index.number == entry.payload());
    if let Some(index) = index {
        check_access(context, &index.definition.prefixes, writes)?;
    }
    Ok(index.cloned())
}

/// Nothing if the index is full. Otherwise the request is to be made again where it may wait, or
/// was already and learns how far the index is.
pub fn wait(context: &mut Context<'_, '_>, index: &KeyIndex) -> Result<Option<Outcome>, ErrorReply> {
    let Some(progress) = index.progress(context.tx) else {
        return Ok(None);
    };
    if !context.client.may_take_long {
        return Ok(Some(Outcome::RunLong));
    }
    let percent = 100.0 * share(progress.cursor);
    let name = String::from_utf8_lossy(&index.name);
    Err(format!("ERR Index {name} is being filled: {percent:.1}% of the keys were looked at").into())
}

/// Says whether a search has to end. Its time begins here.
pub fn clock<'c>(context: &Context<'c, '_>) -> impl Fn() -> bool + use<'c> {
    Common::new(context).clock(context)
}

/// The index as the transaction sees it, without keys and fields whose time is over although nobody
/// has removed them yet.
pub fn rows<'r, 't>(
    context: &'r mut Context<'_, 't>,
    index: &KeyIndex,
    is_over: &dyn Fn() -> bool,
) -> Result<Overlay<TransactionRows<'r, 't>>, ErrorReply> {
    let now_ms = context.expires_up_to_ms();
    let (mut over, mut looked_at, mut was_over) = (Vec::new(), 0_u32, false);
    for of_fields in [false, true] {
        each_due(context.tx, of_fields, now_ms, &mut |db, _, name| {
            if db == 0 && index.covers(name) {
                over.push(name.to_vec());
            }
            looked_at += 1;
            was_over |= looked_at.is_multiple_of(KEYS_BETWEEN_CHECKS) && is_over();
            match was_over {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
    }
    if was_over {
        return Err(failed(SearchError::Timeout));
    }
    let mut documents = Vec::new();
    let mut keys = context.keys_of(0);
    for name in over {
        documents.push((upkeep::document(&mut keys, index, &name), name));
        if is_over() {
            return Err(failed(SearchError::Timeout));
        }
    }
    let mut rows = Overlay::new(TransactionRows {
        tx: context.tx,
        prefix: index.rows_prefix(),
    });
    for (document, name) in documents {
        upkeep::apply(&mut rows, &name, document);
    }
    Ok(rows)
}

/// A search that ended too early, without a code as Upstash's errors have none.
pub fn failed(error: SearchError) -> ErrorReply {
    match error {
        SearchError::Timeout => "ERR The search took too long".into(),
        SearchError::Limit(reason) => format!("ERR {reason}").into(),
        other => other.text().into(),
    }
}
