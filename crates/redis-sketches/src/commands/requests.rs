//! Rows of the table, checks of arguments and replies that the families share.

use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{Context, parse};
use quartet_wire_resp::Arguments;

use crate::TooLarge;

/// The destination and the counted sources. The original names only the destination.
pub const MERGED_KEYS: Keys = Keys::Counted { count: 2, also: 1 };

pub fn wrong_arity(arguments: Arguments<'_>) -> ErrorReply {
    let name = String::from_utf8_lossy(&arguments[0]).to_ascii_lowercase();
    format!("ERR wrong number of arguments for '{name}' command").into()
}

pub fn check_arity(arguments: Arguments<'_>, accepts: bool) -> Result<(), ErrorReply> {
    match accepts {
        true => Ok(()),
        false => Err(wrong_arity(arguments)),
    }
}

/// The position of a word, looked for in the whole request as the original does: a key of that name
/// counts.
pub fn position(arguments: Arguments<'_>, word: &str) -> Option<usize> {
    (0..arguments.len()).find(|index| parse::is(&arguments[*index], word))
}

/// Checks that the request's budget has `bytes` bytes for a sketch. An empty sketch takes no
/// memory, but it may fill up, and its dump takes all of them.
pub fn check_budget(context: &Context<'_, '_>, bytes: u64) -> Result<(), TooLarge> {
    let fits = usize::try_from(bytes).is_ok_and(|bytes| context.workspace().take(bytes).is_ok());
    match fits {
        true => Ok(()),
        false => Err(TooLarge),
    }
}

/// Writes pairs of names and numbers as INFO commands answer them.
pub fn reply_figures(context: &mut Context<'_, '_>, figures: &[(&str, i64)]) {
    context.reply.map(figures.len());
    for (name, figure) in figures {
        context.reply.simple(name);
        context.reply.integer(*figure);
    }
}
