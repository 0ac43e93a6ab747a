//! A stream with one of its groups, and the errors of commands that look for them.

use super::groups::Group;
use super::range;
use super::stream::Stream;
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;

/// A stream and one of its groups, for commands that need both.
pub fn find_stream_and_group(
    context: &mut Context<'_, '_>,
    name: &[u8],
    group: &[u8],
) -> Result<(Stream, Group), ErrorReply> {
    let stream = range::read(context, name)?;
    let stream_and_group = stream.and_then(|stream| {
        let group = stream.group(context.tx, group)?;
        Some((stream, group))
    });
    stream_and_group.ok_or_else(|| {
        let (name, group) = (String::from_utf8_lossy(name), String::from_utf8_lossy(group));
        format!("NOGROUP No such key '{name}' or consumer group '{group}'").into()
    })
}

pub fn no_group_of_key(name: &[u8], group: &[u8]) -> ErrorReply {
    let (name, group) = (String::from_utf8_lossy(name), String::from_utf8_lossy(group));
    format!("NOGROUP No such consumer group '{group}' for key name '{name}'").into()
}

pub fn bad_subcommand(container: &str, word: &[u8]) -> ErrorReply {
    let word = String::from_utf8_lossy(&word[..word.len().min(128)]);
    format!("ERR unknown subcommand or wrong number of arguments for '{word}'. Try {container} HELP.").into()
}
