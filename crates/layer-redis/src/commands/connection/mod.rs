//! Commands about the connection itself: greeting, authentication, the selected database.
//!
//! Texts and order of checks follow the replies of Redis 7.0.15.

pub(crate) mod client;
mod filters;
pub(crate) mod tracking;

use std::sync::atomic::Ordering;

use quartet_wire_resp::{Arguments, Protocol, Reply};

use crate::access::acl::DEFAULT_USER;
use crate::access::database_login::DatabaseLogin;
use crate::access::login_guard::peer_of;
use crate::commands::server::write_modules;
use crate::commands::transactions;
use crate::connections::clients::{ClientState, ReplyMode};
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::handler::groups::Groups;
use crate::handler::subscriptions::leave_all;
use crate::{command::errors, command::parse};

const GREETING: u32 = NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY;

const FAMILY: Family = Family::of(Group::Connection);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("ping", -1, FAST, "Answers PONG, or its argument.", Answers(ping)),
    FAMILY.row("echo", 2, LOADING | STALE | FAST, "Answers its argument.", Answers(echo)),
    FAMILY.row("quit", -1, GREETING, "Closes the connection.", Answers(quit)),
    FAMILY.row("select", 2, LOADING | STALE | FAST, "Selects a database of this connection.", Answers(select)),
    FAMILY.row("auth", -2, GREETING, "Authenticates the connection.", Decides(auth)),
    FAMILY.row("hello", -1, GREETING, "Chooses the protocol, and authenticates and names the connection.", Decides(hello)).since("6.0.0"),
    FAMILY.row("reset", 1, GREETING, "Makes the connection as it was when it began.", Answers(reset)).since("6.2.0"),
];

fn ping(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let is_listening = context.reply.protocol() == Protocol::Resp2 && !context.client.subscriptions.is_empty();
    match arguments.get(1) {
        Some(_) if arguments.len() > 2 => return Err("ERR wrong number of arguments for 'ping' command".into()),
        text if is_listening => {
            context.reply.array(2);
            context.reply.bulk(b"pong");
            context.reply.bulk(text.unwrap_or_default());
        }
        Some(text) => context.reply.bulk(text),
        None => context.reply.simple("PONG"),
    }
    Ok(())
}

fn echo(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    context.reply.bulk(&arguments[1]);
    Ok(())
}

fn quit(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context.client.close_after_reply = true;
    context.reply.ok();
    Ok(())
}

fn select(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    context.client.select(parse::database(&arguments[1])?);
    context.reply.ok();
    Ok(())
}

fn auth(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    log_in(context.groups, context.client, &mut context.reply, arguments)
}

/// AUTH. Needs no lock.
pub fn log_in(
    groups: Groups<'_>,
    client: &mut ClientState,
    reply: &mut Reply<'_>,
    arguments: Arguments<'_>,
) -> Result<Outcome, ErrorReply> {
    let (user, password) = match arguments.len() {
        2 if is_no_password_needed(groups, &arguments[1]) => return Err(NO_PASSWORD.into()),
        2 => (DEFAULT_USER, &arguments[1]),
        3 => (&arguments[1], &arguments[2]),
        _ => return Err(errors::SYNTAX.into()),
    };
    let outcome = authenticate(groups, client, user, password, arguments)?;
    if let Outcome::Done = outcome {
        reply.ok();
    }
    Ok(outcome)
}

fn is_no_password_needed(groups: Groups<'_>, password: &[u8]) -> bool {
    let elsewhere = groups.access().directory.as_ref();
    groups.access().users.default_user().rules().any_password
        && elsewhere.is_none_or(|directory| directory.find(DEFAULT_USER, password).is_none())
}

/// The user's name in this logical database; or the route to the database that the password opens.
fn user_here(groups: Groups<'_>, name: &[u8], password: &[u8]) -> Result<Vec<u8>, DatabaseLogin> {
    match groups
        .access()
        .directory
        .as_ref()
        .and_then(|directory| directory.find(name, password))
    {
        Some(database_login) if database_login.database == groups.space().database => Ok(database_login.user),
        Some(database_login) => Err(database_login),
        None => Ok(name.to_vec()),
    }
}

/// Authenticates the connection, unless it must wait or continue in another database.
fn authenticate(
    groups: Groups<'_>,
    client: &mut ClientState,
    name: &[u8],
    password: &[u8],
    arguments: Arguments<'_>,
) -> Result<Outcome, ErrorReply> {
    let peer = peer_of(&client.shared.address);
    let now_micros = groups.engine().now_micros();
    if let Some(micros) = groups
        .access()
        .login_guard
        .wait_micros(peer, name, password, now_micros)
    {
        return Ok(Outcome::Retry { after_micros: micros });
    }
    let name_here = match user_here(groups, name, password) {
        Ok(name) => name,
        Err(elsewhere) => return Ok(Outcome::SwitchDatabase(Box::new(elsewhere))),
    };
    let Some(user) = groups.access().users.authenticate(&name_here, password) else {
        groups.access().login_guard.failed(peer, name, now_micros);
        groups.log_failed_authentication(client, &name_here, arguments);
        return Err(errors::WRONG_PASSWORD.into());
    };
    groups.access().login_guard.succeeded(peer, name, password);
    client.become_user(user);
    client.authenticated = true;
    Ok(Outcome::Done)
}

/// HELLO's parsed arguments, before any of them takes effect.
#[derive(Default)]
struct Greeting<'a> {
    protocol: Option<Protocol>,
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

fn hello(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    greet(context.groups, context.client, &mut context.reply, arguments)
}

/// HELLO. Needs no lock.
pub fn greet(
    groups: Groups<'_>,
    client: &mut ClientState,
    reply: &mut Reply<'_>,
    arguments: Arguments<'_>,
) -> Result<Outcome, ErrorReply> {
    let greeting = parse_greeting(arguments)?;
    if let Some((name, password)) = greeting.credentials {
        let outcome = authenticate(groups, client, name, password, arguments)?;
        if !matches!(outcome, Outcome::Done) {
            return Ok(outcome);
        }
    }
    if !client.authenticated && !groups.access().users.are_all_welcome() {
        return Err(HELLO_UNAUTHENTICATED.into());
    }
    if let Some(name) = greeting.name {
        client::set_name(client, name)?;
    }
    if let Some(protocol) = greeting.protocol {
        set_protocol(client, reply, protocol);
    }
    write_greeting(groups, client, reply);
    Ok(Outcome::Done)
}

fn parse_greeting(arguments: Arguments<'_>) -> Result<Greeting<'_>, ErrorReply> {
    let mut greeting = Greeting::default();
    let Some(version) = arguments.get(1) else {
        return Ok(greeting);
    };
    greeting.protocol = match parse::integer(version) {
        Some(2) => Some(Protocol::Resp2),
        Some(3) => Some(Protocol::Resp3),
        Some(_) => return Err("NOPROTO unsupported protocol version".into()),
        None => return Err("ERR Protocol version is not an integer or out of range".into()),
    };
    let mut position = 2;
    while let Some(option) = arguments.get(position) {
        let following = (arguments.get(position + 1), arguments.get(position + 2));
        position += match following {
            (Some(user), Some(password)) if parse::is(option, "auth") => {
                greeting.credentials = Some((user, password));
                3
            }
            (Some(name), _) if parse::is(option, "setname") => {
                greeting.name = Some(name);
                2
            }
            _ => {
                let option = String::from_utf8_lossy(option);
                return Err(format!("ERR Syntax error in HELLO option '{option}'").into());
            }
        };
    }
    Ok(greeting)
}

fn set_protocol(client: &mut ClientState, reply: &mut Reply<'_>, protocol: Protocol) {
    client.speak(protocol);
    reply.set_protocol(protocol);
}

fn write_greeting(groups: Groups<'_>, client: &ClientState, reply: &mut Reply<'_>) {
    let protocol = client.shared.resp.load(Ordering::Relaxed);
    let id = client.shared.id;
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(groups.process().identity.redis_version.text().as_bytes());
    reply.bulk(b"proto");
    reply.integer(protocol.into());
    reply.bulk(b"id");
    reply.integer(id as i64);
    reply.bulk(b"mode");
    reply.bulk(groups.process().identity.mode().as_bytes());
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    write_modules(groups.commands(), reply);
}

fn reset(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    transactions::abandon(context);
    let shared = context.client.shared.clone();
    leave_all(context.groups, &mut context.client.subscriptions, &shared);
    begin_anew(context.groups, context.client, &mut context.reply);
    Ok(())
}

/// RESET of a connection that watches nothing and listens to nothing. Needs no lock.
pub fn begin_anew(groups: Groups<'_>, client: &mut ClientState, reply: &mut Reply<'_>) {
    client.select(0);
    set_protocol(client, reply, Protocol::Resp2);
    let shared = client.shared.clone();
    groups.connections().clients.set_monitor(&shared, false);
    tracking::forget(groups, client);
    shared.no_evict.store(false, Ordering::Relaxed);
    shared.no_touch.store(false, Ordering::Relaxed);
    shared.details.lock().name.clear();
    client.reply_mode = ReplyMode::On;
    client.authenticated = groups.access().users.are_all_welcome();
    client.become_user(groups.access().users.default_user().clone());
    reply.simple("RESET");
}

const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. \
                           Are you sure your configuration is correct?";
const HELLO_UNAUTHENTICATED: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> \
     <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";

#[cfg(test)]
mod tests;
