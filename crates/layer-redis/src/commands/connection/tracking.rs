//! CLIENT TRACKING, CACHING, GETREDIR, TRACKINGINFO. The mechanism is in
//! [`crate::connections::tracking`].

use std::collections::BTreeSet;
use std::ops::Bound;

use quartet_wire_resp::Arguments;

use crate::command::error_reply::ErrorReply;
use crate::connections::clients::ClientState;
use crate::connections::tracking::Mode;
use crate::handler::context::Context;
use crate::handler::description::redirection;
use crate::handler::groups::Groups;
use crate::{command::errors, command::parse};

pub fn tracking(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (mut mode, mut prefixes) = parse_mode(context, arguments)?;
    match &arguments[2] {
        on if parse::is(on, "on") => {
            let old = context.client.shared.tracking.lock().clone();
            check(&mode, &prefixes, old.as_ref())?;
            // Without a prefix it applies to all keys, in addition to existing prefixes.
            if mode.broadcast && prefixes.is_empty() {
                prefixes.push(b"");
            }
            mode.prefixes = prefixes.iter().map(|prefix| prefix.to_vec()).collect();
            context.connections().tracking.enable(&context.client.shared, mode);
        }
        off if parse::is(off, "off") => context.connections().tracking.disable(&context.client.shared),
        _ => return Err(errors::SYNTAX.into()),
    }
    context.decide_on_changes();
    context.reply.ok();
    Ok(())
}

/// The mode without its prefixes, and the prefixes in the order of the request.
fn parse_mode<'a>(context: &Context<'_, '_>, arguments: Arguments<'a>) -> Result<(Mode, Vec<&'a [u8]>), ErrorReply> {
    let (mut mode, mut prefixes) = (Mode::default(), Vec::new());
    let mut options = arguments.iter().skip(3);
    while let Some(word) = options.next() {
        match word.to_ascii_lowercase().as_slice() {
            b"redirect" => {
                let id = options.next().ok_or(errors::SYNTAX)?;
                mode.redirect = redirect(context, id, mode.redirect)?;
            }
            b"prefix" => prefixes.push(options.next().ok_or(errors::SYNTAX)?),
            b"bcast" => mode.broadcast = true,
            b"optin" => mode.opt_in = true,
            b"optout" => mode.opt_out = true,
            b"noloop" => mode.no_loop = true,
            _ => return Err(errors::SYNTAX.into()),
        }
    }
    Ok((mode, prefixes))
}

fn redirect(context: &Context<'_, '_>, id: &[u8], earlier: Option<u64>) -> Result<Option<u64>, ErrorReply> {
    if earlier.is_some() {
        return Err("ERR A client can only redirect to a single other client".into());
    }
    let id = parse::required_integer(id)?;
    let target = u64::try_from(id)
        .ok()
        .filter(|id| context.connections().clients.find(*id).is_some());
    match target {
        None => Err("ERR The client ID you want redirect to does not exist".into()),
        target => Ok(target),
    }
}

/// Refuses options that exclude each other, or the current ones, in the order and with the texts of
/// Redis 7 (`clientCommand` in its `networking.c`).
fn check(mode: &Mode, prefixes: &[&[u8]], old: Option<&Mode>) -> Result<(), ErrorReply> {
    if !mode.broadcast && !prefixes.is_empty() {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    if old.is_some_and(|old| old.broadcast != mode.broadcast) {
        return Err(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, \
                    and then re-enabling it with a different mode."
                .into(),
        );
    }
    if mode.broadcast && (mode.opt_in || mode.opt_out) {
        return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
    }
    if mode.opt_in && mode.opt_out {
        return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
    }
    let turns = |old: &Mode| mode.opt_in && old.opt_out || mode.opt_out && old.opt_in;
    if old.is_some_and(turns) {
        return Err(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, \
                    and then re-enabling it with a different mode."
                .into(),
        );
    }
    if mode.broadcast {
        check_prefixes(prefixes, old)?;
    }
    Ok(())
}

/// No prefix of a connection may begin another one of it, or be the same: a change would be sent
/// twice.
fn check_prefixes(prefixes: &[&[u8]], old: Option<&Mode>) -> Result<(), ErrorReply> {
    let show = |prefix: &[u8]| String::from_utf8_lossy(prefix).into_owned();
    let overlaps = |first: &[u8], other: &[u8]| first.starts_with(other) || other.starts_with(first);
    let overlapping = overlapping(prefixes);
    for (index, prefix) in prefixes.iter().enumerate() {
        let old_overlap = old.and_then(|old| first_overlap(&old.prefixes, prefix));
        let clash = match old_overlap {
            Some(other) => Some((other, "an existing prefix")),
            None if overlapping.contains(prefix) => {
                let mut later = prefixes[index + 1..].iter();
                let other = later.find(|other| overlaps(other, prefix));
                other.map(|other| (*other, "another provided prefix"))
            }
            None => None,
        };
        if let Some((other, origin)) = clash {
            return Err(format!(
                "ERR Prefix '{}' overlaps with {origin} '{}'. Prefixes for a single client must not overlap.",
                show(prefix),
                show(other)
            )
            .into());
        }
    }
    Ok(())
}

/// Those of the prefixes that begin another one, begin with it, or are the same: in byte order what
/// begins with a prefix stands right behind it.
fn overlapping<'a>(prefixes: &[&'a [u8]]) -> BTreeSet<&'a [u8]> {
    let mut sorted = prefixes.to_vec();
    sorted.sort_unstable();
    let mut overlapping = BTreeSet::new();
    let mut shortest: Option<&[u8]> = None;
    for prefix in sorted {
        match shortest {
            Some(start) if prefix.starts_with(start) => overlapping.extend([start, prefix]),
            _ => shortest = Some(prefix),
        }
    }
    overlapping
}

/// The first of the prefixes, none of which begins another, that begins this one or begins with it.
fn first_overlap<'p>(prefixes: &'p BTreeSet<Vec<u8>>, prefix: &[u8]) -> Option<&'p [u8]> {
    let mut before = prefixes.range::<[u8], _>((Bound::Unbounded, Bound::Included(prefix)));
    let from = prefixes.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
    let shorter = before.next_back().filter(|other| prefix.starts_with(other));
    let longer = from.take(1).find(|other| other.starts_with(prefix));
    shorter.or(longer).map(Vec::as_slice)
}

pub fn caching(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mode = context.client.shared.tracking.lock().clone();
    let Some(mode) = mode else {
        return Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled".into());
    };
    context.client.caching = match &arguments[2] {
        word if parse::is(word, "yes") && mode.opt_in => Some(true),
        word if parse::is(word, "yes") => {
            return Err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.".into());
        }
        word if parse::is(word, "no") && mode.opt_out => Some(false),
        word if parse::is(word, "no") => {
            return Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.".into());
        }
        _ => return Err(errors::SYNTAX.into()),
    };
    context.reply.ok();
    Ok(())
}

/// The target of a connection's invalidations: an id, 0 for itself, -1 for none.
pub fn get_redirection(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context.reply.integer(redirection(&context.client.shared));
    Ok(())
}

pub fn tracking_info(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let mode = context.client.shared.tracking.lock().clone();
    let flags = flags(context.client, mode.as_ref());
    let redirect = redirection(&context.client.shared);
    let reply = &mut context.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    let prefixes = mode.map(|mode| mode.prefixes).unwrap_or_default();
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}

fn flags(client: &ClientState, mode: Option<&Mode>) -> Vec<&'static str> {
    let Some(mode) = mode else {
        return vec!["off"];
    };
    let target_is_gone = mode.is_redirect_broken;
    let mode_flags = [
        (true, "on"),
        (mode.broadcast, "bcast"),
        (mode.opt_in, "optin"),
        (mode.opt_in && client.caching == Some(true), "caching-yes"),
        (mode.opt_out, "optout"),
        (mode.opt_out && client.caching == Some(false), "caching-no"),
        (mode.no_loop, "noloop"),
        (target_is_gone, "broken_redirect"),
    ];
    mode_flags
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, flag)| flag)
        .collect()
}

/// Turns tracking off: RESET.
pub fn forget(groups: Groups<'_>, client: &mut ClientState) {
    groups.connections().tracking.disable(&client.shared);
    groups.decide_on_changes();
    client.caching = None;
}
