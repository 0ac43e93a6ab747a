//! DEBUG: internals that test suites need to inspect. Refused unless `enable-debug-command` allows
//! it.
//!
//! Subcommands that crash the server, or show structures that Quartet does not have, are unknown.

use std::net::SocketAddr;

use quartet_wire_resp::Arguments;

use super::digest::{digest, digest_value};
use super::memory;
use crate::commands::{help, keys};
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::{command::errors, command::glob, command::parse};

const FAMILY: Family = Family::of(Group::Server).complexity("Depends on the subcommand.");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("debug", -2, ADMIN | NOSCRIPT | LOADING | STALE, "Serves tests of the server.", Decides(debug)),
];

/// Name, number of arguments after it (at least), summary and handler of each subcommand.
#[rustfmt::skip]
const SUBCOMMANDS: &[(&str, usize, &str, Handler)] = &[
    ("change-repl-id", 0, "Accepted: there is no replication.", Answers(accept)),
    ("dict-resizing", 1, "Accepted: there are no hash tables to resize.", Answers(accept)),
    ("digest", 0, "Returns a hash of all keys and values.", Answers(digest)),
    ("digest-value", 0, "Returns a hash of the value of each key.", Answers(digest_value)),
    ("error", 1, "Answers the error given.", Answers(error)),
    ("help", 0, "Lists the subcommands.", Answers(debug_help)),
    ("listpack", 1, "Accepted for keys that exist: there are no listpacks to show.", Answers(listpack)),
    ("loadaof", 0, "Writes a checkpoint.", Decides(checkpoint)),
    ("log", 1, "Accepted: the layer writes no log of messages.", Answers(accept)),
    ("object", 1, "Describes how the value of a key is kept.", Answers(object)),
    ("pause-cron", 1, "Accepted: there is no cron to pause.", Answers(accept)),
    ("protocol", 1, "Answers a value of the type given.", Answers(protocol)),
    ("quicklist-packed-threshold", 1, "Accepted: there are no quicklists.", Answers(accept)),
    ("reload", 0, "Writes a checkpoint.", Decides(checkpoint)),
    ("replybuffer", 2, "Accepted: reply buffers are the server's.", Answers(accept)),
    ("set-active-expire", 1, "Turns the removal of expired keys on or off.", Answers(set_active_expire)),
    ("set-disable-deny-scripts", 1, "Lets scripts call what they otherwise may not.", Answers(set_disable_deny_scripts)),
    ("set-reply-bytes-max", 1, "Limits the replies of single commands.", Answers(set_reply_bytes_max)),
    ("sleep", 1, "Keeps this connection waiting for some seconds.", Answers(sleep)),
    ("stringmatch-len", 2, "Matches a pattern against a long text.", Answers(string_match)),
];

fn debug(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    if !is_allowed(context) {
        return Err(NOT_ALLOWED.into());
    }
    let subcommand = SUBCOMMANDS.iter().find(|(name, ..)| parse::is(&arguments[1], name));
    match subcommand.filter(|(_, count, ..)| arguments.len() >= 2 + count) {
        Some((.., Answers(handler))) => handler(context, arguments).map(|()| Outcome::Done),
        Some((.., Decides(handler))) => handler(context, arguments),
        Some((.., Nests(_))) => unreachable!("no subcommand runs others"),
        None => {
            let word = String::from_utf8_lossy(&arguments[1]);
            Err(format!("ERR unknown subcommand or wrong number of arguments for '{word}'. Try DEBUG HELP.").into())
        }
    }
}

fn is_allowed(context: &Context<'_, '_>) -> bool {
    match context.config().text_of("enable-debug-command").as_str() {
        "yes" => true,
        "local" => is_local(&context.client.shared.address),
        _ => false,
    }
}

/// A client of this machine, also one that reached a listener of both families over IPv4.
fn is_local(address: &str) -> bool {
    let address: Result<SocketAddr, _> = address.parse();
    address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
}

const NOT_ALLOWED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", \
                           you can run it from a local connection, otherwise you need to set this option in the \
                           configuration file, and then restart the server.";

fn accept(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context.reply.ok();
    Ok(())
}

/// Lowers the reply limit, for tests with little memory.
fn set_reply_bytes_max(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let bytes = usize::try_from(parse::required_integer(&arguments[2])?).unwrap_or(0);
    let bytes = bytes.min(crate::facts::REPLY_BYTES_MAX);
    context.set_reply_bytes_max(bytes);
    context.reply.ok();
    Ok(())
}

fn checkpoint(_: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    Ok(Outcome::After(Deferred::Checkpoint))
}

fn error(_: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    Err(String::from_utf8_lossy(&arguments[2]).into_owned().into())
}

fn debug_help(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let rows = SUBCOMMANDS
        .iter()
        .map(|(name, _, summary, _)| (name.to_uppercase(), *summary));
    help::write(context, "DEBUG", &rows.collect::<Vec<_>>());
    Ok(())
}

fn listpack(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    context.keys().find(&arguments[2]).ok_or(errors::NO_SUCH_KEY)?;
    context.reply.ok();
    Ok(())
}

/// The line of Redis 7.0. There is no address to show, and the length is that of the key's rows.
fn object(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context
        .keys()
        .find_dead_or_alive(&arguments[2])
        .ok_or(errors::NO_SUCH_KEY)?;
    let bytes = memory::key_bytes(context, &entry, 0);
    let idle_seconds = keys::idle_seconds(context, &arguments[2], &entry);
    context.reply.simple(&format!(
        "Value at:0x0 refcount:{} encoding:{} serializedlength:{bytes} lru:{} lru_seconds_idle:{idle_seconds}",
        keys::reference_count(&entry),
        keys::encoding(&entry),
        (context.now_ms / 1000).saturating_sub(idle_seconds) % LRU_CLOCK_SECONDS,
    ));
    Ok(())
}

/// Redis' clock of last accesses has 24 bits.
const LRU_CLOCK_SECONDS: u64 = 1 << 24;

fn set_disable_deny_scripts(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let on = parse::required_integer(&arguments[2])? != 0;
    let scripts_call_all = &context.scripting().scripts_call_all;
    scripts_call_all.store(on, std::sync::atomic::Ordering::Relaxed);
    context.reply.ok();
    Ok(())
}

fn set_active_expire(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let on = parse::required_integer(&arguments[2])? != 0;
    context
        .expiry()
        .is_active
        .store(on, std::sync::atomic::Ordering::Relaxed);
    context.reply.ok();
    Ok(())
}

/// The sleep itself happens after the lock is released; its duration counts as the command's all
/// the same.
fn sleep(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let seconds = parse::required_float(&arguments[2])?;
    let micros = (seconds.clamp(0.0, SLEEP_SECONDS_MAX) * 1e6) as u64;
    context.client.sleep_micros += micros;
    context.reply.ok();
    Ok(())
}

const SLEEP_SECONDS_MAX: f64 = 3600.0;

fn string_match(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (Some(length), Some(pattern)) = (parse::integer(&arguments[2]), arguments.get(3)) else {
        return Err(errors::NOT_INTEGER.into());
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= 64 << 20);
    let text = vec![b'a'; length.ok_or(errors::NOT_INTEGER)?];
    context.reply.integer(glob::matches(pattern, &text).into());
    Ok(())
}

fn protocol(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let reply = &mut context.reply;
    match String::from_utf8_lossy(&arguments[2]).to_ascii_lowercase().as_str() {
        "string" => reply.bulk(b"Hello World"),
        "integer" => reply.integer(12345),
        "double" => reply.double(PROTOCOL_DOUBLE),
        "bignum" => reply.big_number("1234567999999999999999999999999999999"),
        "null" => reply.null(),
        "array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        "set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        "map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        "attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        "push" if reply.protocol() == quartet_wire_resp::Protocol::Resp2 => {
            return Err("ERR RESP2 is not supported by this command".into());
        }
        "push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        "verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        "true" => reply.boolean(true),
        "false" => reply.boolean(false),
        _ => return Err(WRONG_TYPE_NAME.into()),
    }
    Ok(())
}

#[allow(clippy::approx_constant, reason = "the value that suites compare")]
const PROTOCOL_DOUBLE: f64 = 3.141;

const WRONG_TYPE_NAME: &str = "ERR Wrong protocol type name. Please use one of the following: \
                               string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false";

#[cfg(test)]
mod tests {
    use super::is_local;
    use crate::testing::Fixture;

    #[test]
    fn local_is_this_machine() {
        for address in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(is_local(address), "{address}");
        }
        for address in ["10.0.0.1:1", "[::ffff:10.0.0.1]:1", "[fe80::1]:1", ""] {
            assert!(!is_local(address), "{address}");
        }
    }

    #[test]
    fn debug_is_refused_from_remote_peers() {
        let fixture = Fixture::new();
        fixture.layer.config.start_with("enable-debug-command", "local".into());
        let elsewhere = fixture.layer.connections.clients.connect(
            "10.0.0.1:1".into(),
            String::new(),
            0,
            std::sync::Arc::new(|| {}),
        );
        let mut connection = fixture.connect();
        connection.check("DEBUG CHANGE-REPL-ID => OK");
        connection.session = crate::Session::new(fixture.layer.clone(), elsewhere);
        connection.check(&format!("DEBUG CHANGE-REPL-ID => !{}", super::NOT_ALLOWED));
    }
}
