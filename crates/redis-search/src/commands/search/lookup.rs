//! Which index a request names, and whether its user may.

use std::sync::Arc;

use quartet_layer_redis::module_api::Context;
use quartet_layer_redis::module_api::definition::*;
use quartet_search::error::SearchError;
use quartet_wire_resp::Arguments;

use crate::errors::IntoReply;
use crate::indexes::Index;
use crate::state::SearchGroups;

pub(super) const NO_PERMISSION: &str = "NOPERM No permissions to access a key";

/// The words after the command's name; refused if there are fewer than `count_min`.
pub(super) fn words<'a>(arguments: Arguments<'a>, count_min: usize) -> Result<Vec<&'a [u8]>, ErrorReply> {
    match arguments.len() <= count_min {
        true => Err(wrong_number(arguments)),
        false => Ok(arguments.iter().skip(1).collect()),
    }
}

/// The same; refused as well if there are more than `count_max`.
pub(super) fn words_between<'a>(
    arguments: Arguments<'a>,
    count_min: usize,
    count_max: usize,
) -> Result<Vec<&'a [u8]>, ErrorReply> {
    match arguments.len() > count_max + 1 {
        true => Err(wrong_number(arguments)),
        false => words(arguments, count_min),
    }
}

fn wrong_number(arguments: Arguments<'_>) -> ErrorReply {
    let name = String::from_utf8_lossy(&arguments[0]).to_ascii_uppercase();
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// Counts a search with a partial answer, due to its deadline.
pub(super) fn count_part(context: &Context<'_, '_>) {
    if !context.groups.has_used_up_allowance() {
        context.groups.indexes().note_timeout(true);
    }
}

/// Counts a search that ended with an error, if the error is a timeout.
pub(super) fn counted(context: &Context<'_, '_>, outcome: Result<Outcome, ErrorReply>) -> Result<Outcome, ErrorReply> {
    let is_timeout = |error: &ErrorReply| error.text == SearchError::Timeout.text();
    if outcome.as_ref().is_err_and(is_timeout) && !context.groups.has_used_up_allowance() {
        context.groups.indexes().note_timeout(false);
    }
    outcome
}

pub(super) fn not_found(name: &[u8]) -> ErrorReply {
    SearchError::NoIndex(String::from_utf8_lossy(name).into_owned()).into_reply()
}

/// The index of this name or alias, if the user has the rights to its keys that the request and
/// `writes` require.
pub(super) fn find(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    name: &[u8],
    writes: bool,
) -> Result<Arc<Index>, ErrorReply> {
    let catalogue = context.groups.indexes().catalogue(context.tx);
    let index = catalogue.find(name).ok_or_else(|| not_found(name))?;
    check_access(context, arguments, &index.definition.prefixes, writes)?;
    context.groups.indexes().uses.note(index, context.now_ms);
    Ok(index.clone())
}

/// A search shows every key of its index, so it needs the right to read all that it covers, by the
/// selector that allows the request.
pub(super) fn check_access(
    context: &Context<'_, '_>,
    arguments: Arguments<'_>,
    prefixes: &[Vec<u8>],
    writes: bool,
) -> Result<(), ErrorReply> {
    match context.user_may(arguments, |selector| selector.has_prefixes(prefixes, writes)) {
        true => Ok(()),
        false => Err(NO_PERMISSION.into()),
    }
}
