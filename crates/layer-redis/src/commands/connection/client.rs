//! CLIENT: what connections there are, and what one may do to another.
//!
//! Line format and texts follow Redis 7.0.15, followed by `watch`, `lib-name` and `lib-ver` of 7.2
//! and `capa` of Valkey.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_wire_resp::Arguments;

use super::filters::Filters;
use super::tracking;
use crate::commands::help::help_command;
use crate::connections::clients::{Client, ClientState, ReplyMode};
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::handler::description::{describe, request_bytes};
use crate::{command::errors, command::parse};

pub const COMMANDS: &[Definition] = &[container(
    "client",
    Group::Connection,
    "2.4.0",
    "Holds the commands about connections.",
    SUBCOMMANDS,
)];

const ANYONE: u32 = NOSCRIPT | LOADING | STALE;
const ADMINISTRATOR: u32 = ADMIN | NOSCRIPT | LOADING | STALE;

const FAMILY: Family = Family::of(Group::Connection).since("6.0.0");

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    FAMILY.row("client|capa", -3, ANYONE, "Says what this connection's client can deal with.", Answers(capa)).since("8.0.0"),
    FAMILY.row("client|caching", 3, ANYONE, "Says whether the keys of the next command are tracked.", Answers(tracking::caching)),
    FAMILY.row("client|getredir", 2, ANYONE, "Says to which connection invalidations go.", Answers(tracking::get_redirection)),
    FAMILY.row("client|tracking", -3, ANYONE, "Turns the tracking of keys that this connection reads on or off.", Answers(tracking::tracking)),
    FAMILY.row("client|trackinginfo", 2, ANYONE, "Shows how this connection tracks.", Answers(tracking::tracking_info)).since("6.2.0"),
    FAMILY.row("client|getname", 2, ANYONE, "Returns the name of this connection.", Answers(get_name)).since("2.6.9"),
    help_command("client|help", Group::Connection, "5.0.0"),
    FAMILY.row("client|id", 2, ANYONE, "Returns the id of this connection.", Answers(id)).since("5.0.0"),
    FAMILY.row("client|info", 2, ANYONE, "Describes this connection.", Answers(info)).since("6.2.0"),
    FAMILY.row("client|kill", -3, ADMINISTRATOR, "Closes the connection at an address, or those that match all filters.", Answers(kill)).since("2.4.0"),
    FAMILY.row("client|list", -2, ADMINISTRATOR, "Describes all connections, or those of a type or with given ids.", Answers(list)).since("2.4.0"),
    FAMILY.row("client|no-evict", 3, ADMINISTRATOR, "Marks this connection as one not to be evicted.", Answers(no_evict)).since("7.0.0"),
    FAMILY.row("client|no-touch", 3, ANYONE, "Makes the commands of this connection leave access times alone.", Answers(no_touch)).since("7.2.0"),
    FAMILY.row("client|pause", -3, ADMINISTRATOR, "Holds back all commands, or those that write, for some milliseconds.", Answers(pause)).since("3.0.0"),
    FAMILY.row("client|reply", 3, ANYONE, "Turns replies on, off, or off for the next command.", Answers(reply)).since("3.2.0"),
    FAMILY.row("client|setinfo", 4, ANYONE, "Notes the name or version of the client's library.", Answers(set_info)).since("7.2.0"),
    FAMILY.row("client|setname", 3, ANYONE, "Names this connection.", Answers(set_name_command)).since("2.6.9"),
    FAMILY.row("client|unblock", -3, ADMINISTRATOR, "Ends the wait of a blocked connection.", Answers(unblock)).since("5.0.0"),
    FAMILY.row("client|unpause", 2, ADMINISTRATOR, "Ends a pause.", Answers(unpause)).since("6.2.0"),
];

fn get_name(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let details = context.client.shared.details.lock();
    match details.name.as_str() {
        "" => context.reply.null(),
        name => context.reply.bulk(name.as_bytes()),
    }
    Ok(())
}

fn set_name_command(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    set_name(context.client, &arguments[2])?;
    context.reply.ok();
    Ok(())
}

/// Longest statement of a connection about itself, in bytes. Redis has no limit; the log of slow
/// commands and each line of CLIENT LIST repeat the name.
const DETAIL_BYTES_MAX: usize = 1024;

/// Names the connection, for CLIENT SETNAME and HELLO.
pub fn set_name(client: &mut ClientState, name: &[u8]) -> Result<(), ErrorReply> {
    let name = printable(name).ok_or("ERR Client names cannot contain spaces, newlines or special characters.")?;
    if name.len() > DETAIL_BYTES_MAX {
        return Err(format!("ERR Client names cannot have more than {DETAIL_BYTES_MAX} bytes.").into());
    }
    client.shared.details.lock().name = name;
    Ok(())
}

/// Text without blanks and control characters; other text would break the lines of CLIENT LIST.
fn printable(text: &[u8]) -> Option<String> {
    let is_printable = text.iter().all(|byte| (b'!'..=b'~').contains(byte));
    is_printable.then(|| String::from_utf8_lossy(text).into_owned())
}

fn set_info(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let option = String::from_utf8_lossy(&arguments[2]).into_owned();
    let value = printable(&arguments[3]);
    if arguments[3].len() > DETAIL_BYTES_MAX {
        return Err(format!("ERR {option} cannot have more than {DETAIL_BYTES_MAX} bytes.").into());
    }
    let value = || value.ok_or_else(|| format!("ERR {option} cannot contain spaces, newlines or special characters."));
    let mut details = context.client.shared.details.lock();
    match option.to_ascii_lowercase().as_str() {
        "lib-name" => details.library_name = value()?,
        "lib-ver" => details.library_version = value()?,
        _ => return Err(format!("ERR Unrecognized option '{option}'").into()),
    }
    context.reply.ok();
    Ok(())
}

fn id(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context.reply.integer(context.client.shared.id as i64);
    Ok(())
}

fn info(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let line = describe(
        context.groups,
        context.client.shared.id,
        &context.client.shared,
        request_bytes(arguments),
    );
    context.reply.verbatim(b"txt", line.as_bytes());
    Ok(())
}

fn list(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let is_by_id = arguments.len() > 3 && parse::is(&arguments[2], "id");
    let clients = match is_by_id
        .then(|| with_ids(context, arguments.tail(3)))
        .transpose()?
        .flatten()
    {
        Some(clients) => clients,
        None => {
            let filters = Filters::parse(context, arguments.tail(2), false)?;
            let mut clients = context.connections().clients.list();
            clients.retain(|client| filters.match_client(context, client));
            clients
        }
    };
    let (mut lines, bytes_max) = (String::new(), context.reply_bytes_max());
    let own_request_bytes = request_bytes(arguments);
    for client in &clients {
        lines += &describe(context.groups, context.client.shared.id, client, own_request_bytes);
        if lines.len() > bytes_max {
            return Err(errors::REPLY_TOO_LARGE.into());
        }
    }
    context.reply.verbatim(b"txt", lines.as_bytes());
    Ok(())
}

/// The connections of these ids in their order, each as often as it is named. `None` if other
/// filters follow.
fn with_ids(context: &Context<'_, '_>, ids: Arguments<'_>) -> Result<Option<Vec<Arc<Client>>>, ErrorReply> {
    let mut clients = Vec::new();
    for (position, id) in ids.iter().enumerate() {
        match parse::integer(id) {
            // No client has an id that is not positive.
            Some(id) => clients.extend(
                u64::try_from(id)
                    .ok()
                    .and_then(|id| context.connections().clients.find(id)),
            ),
            None if position > 0 => return Ok(None),
            None => return Err("ERR Invalid client ID".into()),
        }
    }
    Ok(Some(clients))
}

/// CLIENT CAPA capability [capability ...]: unknown capabilities are ignored, as in Valkey.
fn capa(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.iter().skip(2).any(|word| parse::is(word, "redirect")) {
        context.client.shared.details.lock().can_redirect = true;
    }
    context.reply.ok();
    Ok(())
}

fn kill(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.len() == 3 {
        return kill_address(context, &arguments[2]);
    }
    let filters = Filters::parse(context, arguments.tail(2), true)?;
    let mut killed = 0;
    for client in context.connections().clients.list() {
        if filters.match_client(context, &client) {
            kill_one(context, &client);
            killed += 1;
        }
    }
    context.reply.integer(killed);
    Ok(())
}

/// The form of old clients: one address, their own included.
fn kill_address(context: &mut Context<'_, '_>, address: &[u8]) -> Result<(), ErrorReply> {
    let mut clients = context.connections().clients.list().into_iter();
    let client = clients.find(|client| client.address.as_bytes() == address);
    kill_one(context, &client.ok_or("ERR No such client")?);
    context.reply.ok();
    Ok(())
}

/// The caller's own connection closes after the reply.
pub fn kill_one(context: &mut Context<'_, '_>, client: &Arc<Client>) {
    if client.id == context.client.shared.id {
        context.client.close_after_reply = true;
        context.connections().clients.disconnect(client);
    } else {
        context.connections().clients.kill(client);
    }
}

/// A subcommand with too many words.
fn not_so(arguments: Arguments<'_>) -> ErrorReply {
    let word = String::from_utf8_lossy(&arguments[1]);
    format!("ERR unknown subcommand or wrong number of arguments for '{word}'. Try CLIENT HELP.").into()
}

fn unblock(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let error = match arguments.get(3) {
        Some(_) if arguments.len() > 4 => return Err(not_so(arguments)),
        None => None,
        Some(reason) if parse::is(reason, "timeout") => None,
        Some(reason) if parse::is(reason, "error") => Some("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        Some(_) => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
    };
    let id = parse::required_integer(&arguments[2])?;
    let waits = u64::try_from(id).is_ok_and(|id| context.connections().blocking.end_soon(id, error));
    context.reply.integer(waits.into());
    Ok(())
}

fn pause(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let pauses_reads = match arguments.get(3) {
        Some(_) if arguments.len() > 4 => return Err(not_so(arguments)),
        None => true,
        Some(mode) if parse::is(mode, "all") => true,
        Some(mode) if parse::is(mode, "write") => false,
        Some(_) => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
    };
    let timeout_ms = parse::integer(&arguments[2]).ok_or("ERR timeout is not an integer or out of range")?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| errors::TIMEOUT_NEGATIVE)?;
    let until_ms = context
        .now_ms
        .checked_add(timeout_ms)
        .filter(|until_ms| *until_ms <= i64::MAX as u64);
    let until_ms = until_ms.ok_or(errors::TIMEOUT_OUT_OF_RANGE)?;
    context
        .connections()
        .pause
        .start(until_ms, pauses_reads, context.now_ms);
    context.reply.ok();
    Ok(())
}

fn unpause(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context.connections().pause.end();
    context.connections().clients.wake_all();
    context.reply.ok();
    Ok(())
}

/// OFF and SKIP answer nothing themselves: the session drops what is written from here on.
fn reply(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    context.client.reply_mode = match String::from_utf8_lossy(&arguments[2]).to_ascii_lowercase().as_str() {
        "on" => ReplyMode::On,
        "off" => ReplyMode::Off,
        "skip" if context.client.reply_mode == ReplyMode::Off => ReplyMode::Off,
        "skip" => ReplyMode::SkipNext,
        _ => return Err(errors::SYNTAX.into()),
    };
    context.reply.ok();
    Ok(())
}

fn no_evict(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let on = is_on(&arguments[2])?;
    context.client.shared.no_evict.store(on, Ordering::Relaxed);
    context.reply.ok();
    Ok(())
}

fn no_touch(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let on = is_on(&arguments[2])?;
    context.client.shared.no_touch.store(on, Ordering::Relaxed);
    context.reply.ok();
    Ok(())
}

fn is_on(word: &[u8]) -> Result<bool, ErrorReply> {
    match String::from_utf8_lossy(word).to_ascii_lowercase().as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(errors::SYNTAX.into()),
    }
}
