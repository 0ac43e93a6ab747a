//! ACL, read only: there is one user, `default`, who may do everything. Rules and further users come in a later release, so
//! nothing here changes anything.

use std::fmt::Write;

use quartet_wire_resp::Arguments;

use crate::command::*;
use crate::commands::connection::DEFAULT_USER;
use crate::commands::help::help_command;
use crate::commands::table;
use crate::context::Context;

pub const COMMANDS: &[Command] = &[container(
    "acl",
    Group::Server,
    "6.0.0",
    "Holds the commands about users.",
    SUBCOMMANDS,
)];

const ANYONE: u32 = NOSCRIPT | LOADING | STALE;
const ADMINISTRATOR: u32 = ADMIN | NOSCRIPT | LOADING | STALE;

#[rustfmt::skip]
const SUBCOMMANDS: &[Command] = &[
    row("acl|cat", -2, ANYONE, "Lists the categories, or the commands of one.", cat),
    row("acl|getuser", 3, ADMINISTRATOR, "Describes a user.", get_user),
    help_command("acl|help", Group::Server, "6.0.0"),
    row("acl|list", 2, ADMINISTRATOR, "Lists the users with their rules.", list),
    row("acl|users", 2, ADMINISTRATOR, "Lists the users.", users),
    row("acl|whoami", 2, ANYONE, "Names this connection's user.", who_am_i),
];

const fn row(name: &'static str, arity: i32, flags: u32, summary: &'static str, handler: Handler) -> Command {
    command(
        name,
        arity,
        flags,
        NO_KEYS,
        Group::Server,
        "6.0.0",
        "O(N) in the number of commands",
        summary,
        handler,
    )
}

/// Every category of Redis 7.0, those without a command here included.
pub const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

fn cat(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), Failure> {
    let names: Vec<&str> = match arguments.get(2) {
        Some(_) if arguments.len() > 3 => return Err("ERR wrong number of arguments for 'acl|cat' command".into()),
        None => CATEGORIES.to_vec(),
        Some(name) => commands_of(name)?,
    };
    context.reply.array(names.len());
    names.iter().for_each(|name| context.reply.bulk(name.as_bytes()));
    Ok(())
}

fn commands_of(category: &[u8]) -> Result<Vec<&'static str>, Failure> {
    let name = String::from_utf8_lossy(category).to_ascii_lowercase();
    if !CATEGORIES.contains(&name.as_str()) {
        return Err(format!("ERR Unknown category '{}'", String::from_utf8_lossy(category)).into());
    }
    let all = (0..table().size()).map(|index| table().at(index));
    let members = all.filter(|command| command.categories().contains(&name.as_str()));
    Ok(members.map(|command| command.name).collect())
}

fn who_am_i(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), Failure> {
    context.reply.bulk(DEFAULT_USER.as_bytes());
    Ok(())
}

fn users(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), Failure> {
    context.reply.array(1);
    context.reply.bulk(DEFAULT_USER.as_bytes());
    Ok(())
}

fn list(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), Failure> {
    let password = password(context).map_or("nopass".into(), |hash| format!("#{hash}"));
    context.reply.array(1);
    context
        .reply
        .bulk(format!("user {DEFAULT_USER} on {password} ~* &* +@all").as_bytes());
    Ok(())
}

/// The password's SHA-256 in hexadecimal digits.
fn password(context: &Context<'_, '_>) -> Option<String> {
    let hash = (*context.layer.password.read())?;
    let mut digits = String::new();
    for byte in hash {
        write!(digits, "{byte:02x}").expect("a string takes any text");
    }
    Some(digits)
}

fn get_user(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), Failure> {
    if &arguments[2] != DEFAULT_USER.as_bytes() {
        context.reply.null();
        return Ok(());
    }
    let password = password(context);
    let flags: &[&str] = if password.is_some() { &["on"] } else { &["on", "nopass"] };
    let reply = &mut context.reply;
    reply.map(6);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(password.iter().len());
    password.iter().for_each(|hash| reply.bulk(hash.as_bytes()));
    for (name, rules) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        reply.bulk(name.as_bytes());
        reply.bulk(rules.as_bytes());
    }
    reply.bulk(b"selectors");
    reply.array(0);
    Ok(())
}
