//! Which index a request names, whether its user may, and its rows.

use std::sync::Arc;

use quartet_search::SearchError;

use crate::commands::search::arguments::Common;
use crate::commands::search::content;
use crate::commands::search::lookup::check_access;
use crate::handler::context::Context;
use crate::handler::definition::{ErrorReply, Outcome};
use crate::indexes::{KeyIndex, Overlay, TransactionRows};
use crate::keyspace::Kind;

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

/// See [`content::wait_for`].
pub fn wait(context: &mut Context<'_, '_>, index: &KeyIndex) -> Result<Option<Outcome>, ErrorReply> {
    content::wait_for(context, index, "ERR")
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
    content::rows(context, index, is_over).map_err(failed)
}

/// A search that ended too early, without a code as Upstash's errors have none.
pub fn failed(error: SearchError) -> ErrorReply {
    match error {
        SearchError::Timeout => "ERR The search took too long".into(),
        SearchError::Limit(reason) => format!("ERR {reason}").into(),
        other => other.text().into(),
    }
}
