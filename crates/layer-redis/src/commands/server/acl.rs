//! ACL: users and their rules, and the log of refusals. The meaning of rules is defined in
//! [`crate::access::acl`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_model::hexadecimal;
use quartet_wire_resp::Arguments;

use super::unstored_users;
use crate::access::acl::rules::{Rules, UNMATCHED};
use crate::access::acl::selector::Selector;
use crate::access::acl::token::token;
use crate::access::acl::{DEFAULT_USER, User, log, parse_file};
use crate::command::parse;
use crate::command::table::Table;
use crate::commands::connection::client::kill_one;
use crate::commands::help::help_command;
use crate::config::Config;
use crate::connections::channels::Scope;
use crate::connections::clients::Client;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::handler::groups::Groups;
use crate::layer::Redis;

pub const COMMANDS: &[Definition] = &[container(
    "acl",
    Group::Server,
    "6.0.0",
    "Holds the commands about users.",
    SUBCOMMANDS,
)];

const ANYONE: u32 = NOSCRIPT | LOADING | STALE;
const ADMINISTRATOR: u32 = ADMIN | NOSCRIPT | LOADING | STALE;

const FAMILY: Family = Family::of(Group::Server)
    .since("6.0.0")
    .complexity("O(N) in the number of commands");

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    FAMILY.row("acl|cat", -2, ANYONE, "Lists the categories, or the commands of one.", Answers(cat)),
    FAMILY.row("acl|deluser", -3, ADMINISTRATOR, "Removes users and closes their connections.", Answers(delete_users)),
    FAMILY.row("acl|dryrun", -4, ADMINISTRATOR, "Says whether a user may run a command.", Answers(dry_run)).since("7.0.0"),
    FAMILY.row("acl|genpass", -2, ANYONE, "Makes a password that nobody can guess.", Answers(generate_password)),
    FAMILY.row("acl|gentoken", -3, ANYONE, "Makes a token that may be a user's password.", Answers(generate_token)),
    FAMILY.row("acl|getuser", 3, ADMINISTRATOR, "Describes a user.", Answers(get_user)),
    help_command("acl|help", Group::Server, "6.0.0"),
    FAMILY.row("acl|list", 2, ADMINISTRATOR, "Lists the users with their rules.", Answers(list)),
    FAMILY.row("acl|load", 2, ADMINISTRATOR, "Replaces all users by those of the file.", Decides(load)),
    FAMILY.row("acl|log", -2, ADMINISTRATOR, "Lists what was refused, or empties the list.", Answers(show_log)),
    FAMILY.row("acl|resttoken", 4, ANYONE, "Returns the token with which a user may come in over REST.", Answers(rest_token)),
    FAMILY.row("acl|save", 2, ADMINISTRATOR, "Writes all users to the file.", Decides(save)),
    FAMILY.row("acl|setuser", -3, ADMINISTRATOR | GROWS, "Makes a user, or changes the rules of one.", Answers(set_user)),
    FAMILY.row("acl|users", 2, ADMINISTRATOR, "Lists the users.", Answers(users)),
    FAMILY.row("acl|whoami", 2, ANYONE, "Names this connection's user.", Answers(who_am_i)),
];

fn cat(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let names: Vec<&str> = match arguments.get(2) {
        Some(_) if arguments.len() > 3 => return Err(wrong_number(&String::from_utf8_lossy(&arguments[1]))),
        None => context.table().categories().to_vec(),
        Some(name) => commands_of(context.table(), name)?,
    };
    context.reply.array(names.len());
    names.iter().for_each(|name| context.reply.bulk(name.as_bytes()));
    Ok(())
}

fn commands_of(table: &Table, category: &[u8]) -> Result<Vec<&'static str>, ErrorReply> {
    let name = String::from_utf8_lossy(category).to_ascii_lowercase();
    if !table.categories().contains(&name.as_str()) {
        return Err(format!("ERR Unknown category '{}'", String::from_utf8_lossy(category)).into());
    }
    let members = table
        .all()
        .filter(|command| command.categories().contains(&name.as_str()));
    Ok(members.map(|command| command.name).collect())
}

fn who_am_i(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context.reply.bulk(&context.client.user.name);
    Ok(())
}

fn users(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let users = context.access().users.list();
    context.reply.array(users.len());
    users.iter().for_each(|user| context.reply.bulk(&user.name));
    Ok(())
}

fn list(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let users = context.access().users.list();
    context.reply.array(users.len());
    users
        .iter()
        .for_each(|user| context.reply.bulk(&user.rules().line(&user.name)));
    Ok(())
}

fn get_user(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let Some(user) = context.access().users.find(&arguments[2]) else {
        context.reply.null();
        return Ok(());
    };
    let rules = user.rules();
    let reply = &mut context.reply;
    reply.map(6);
    reply.bulk(b"flags");
    let flags = rules.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(rules.passwords.len());
    let hashes = rules.passwords.names().map(|hash| hexadecimal(hash));
    hashes.for_each(|hash| reply.bulk(hash.as_bytes()));
    describe(context, &rules.selectors[0]);
    context.reply.bulk(b"selectors");
    context.reply.array(rules.selectors.len() - 1);
    for selector in &rules.selectors[1..] {
        context.reply.map(3);
        describe(context, selector);
    }
    Ok(())
}

fn describe(context: &mut Context<'_, '_>, selector: &Selector) {
    let reply = &mut context.reply;
    reply.bulk(b"commands");
    reply.bulk(selector.command_text().as_bytes());
    reply.bulk(b"keys");
    reply.bulk(&selector.key_text());
    reply.bulk(b"channels");
    reply.bulk(&selector.channel_text());
}

fn set_user(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[2];
    if name.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) {
        return Err("ERR Usernames can't contain spaces or null characters".into());
    }
    let all_channels = are_channels_free(context.config());
    let existing = context.access().users.find(name);
    let old = existing.as_ref().map_or_else(
        || Arc::new(Rules::new(context.table(), all_channels)),
        |user| user.rules(),
    );
    let modifiers: Vec<&[u8]> = arguments.iter().skip(3).collect();
    let rules = old
        .changed(&modifiers, all_channels)
        .map_err(|(modifier, reason)| match reason {
            UNMATCHED => format!("ERR Unmatched parenthesis in acl selector starting at '{modifier}'."),
            reason => format!("ERR Error in ACL SETUSER modifier '{modifier}': {reason}"),
        })?;
    if let Some(user) = &existing {
        kill_listeners(context, user, &rules);
    }
    unstored_users::note_change(context);
    context.access().users.set(name, rules);
    context.reply.ok();
    Ok(())
}

/// New users may use every channel.
fn are_channels_free(config: &Config) -> bool {
    config.acl_pubsub_allchannels.load(Ordering::Relaxed) != 0
}

fn connections_of(groups: Groups<'_>, user: &Arc<User>) -> Vec<Arc<Client>> {
    let mut clients = groups.connections().clients.list();
    clients.retain(|client| Arc::ptr_eq(&client.user(&groups.access().users), user));
    clients
}

/// Closes the user's connections that listen to something which the new rules do not allow.
fn kill_listeners(context: &mut Context<'_, '_>, user: &Arc<User>, rules: &Rules) {
    for client in connections_of(context.groups, user) {
        let listens_to = context.connections().channels.subscriptions_of(client.id);
        let is_allowed = |(scope, name): &(Scope, Vec<u8>)| {
            let mut selectors = rules.selectors.iter();
            selectors.any(|selector| selector.allows_channel(name, *scope == Scope::Pattern))
        };
        if !listens_to.iter().all(is_allowed) {
            kill_one(context, &client);
        }
    }
}

fn delete_users(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.iter().skip(2).any(|name| name == DEFAULT_USER) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    unstored_users::note_change(context);
    let mut count = 0;
    for name in arguments.iter().skip(2) {
        if let Some(user) = context.access().users.remove(name) {
            kill_connections(context, &user);
            count += 1;
        }
    }
    context.reply.integer(count);
    Ok(())
}

fn kill_connections(context: &mut Context<'_, '_>, user: &Arc<User>) {
    for client in connections_of(context.groups, user) {
        kill_one(context, &client);
    }
}

fn dry_run(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let show = |position: usize| String::from_utf8_lossy(&arguments[position]).into_owned();
    let user = context.access().users.find(&arguments[2]);
    let user = user.ok_or_else(|| format!("ERR User '{}' not found", show(2)))?;
    let request = arguments.tail(3);
    let command = match context.table().find_of(request) {
        Ok(command) => command,
        // A container without its subcommand.
        Err(incomplete) if context.table().find(&request[0]).is_some() && request.len() == 1 => {
            return Err(incomplete);
        }
        Err(_) => return Err(format!("ERR Command '{}' not found", show(3)).into()),
    };
    if !command.accepts(request.len()) {
        return Err(format!("ERR wrong number of arguments for '{}' command", command.name).into());
    }
    match user.rules().check(command, request) {
        Ok(()) => context.reply.ok(),
        Err(denial) => context.reply.bulk(denial.dry_run_text(command, request).as_bytes()),
    }
    Ok(())
}

const PASSWORD_BITS: &str =
    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096";

fn generate_password(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let bits = match arguments.get(2) {
        Some(_) if arguments.len() > 3 => return Err(wrong_number(&String::from_utf8_lossy(&arguments[1]))),
        None => 256,
        Some(bits) => parse::required_integer(bits)?,
    };
    if !(1..=4096).contains(&bits) {
        return Err(PASSWORD_BITS.into());
    }
    let source = context.process().secret_digits.as_ref();
    let digits = source.ok_or(NO_RANDOMNESS)?;
    context.reply.bulk(digits((bits as usize).div_ceil(4)).as_bytes());
    Ok(())
}

/// ACL GENTOKEN name [password]: the user need not be there yet.
fn generate_token(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let password = match arguments.get(3) {
        Some(_) if arguments.len() > 4 => return Err(wrong_number(&String::from_utf8_lossy(&arguments[1]))),
        Some(password) => password.to_vec(),
        None => {
            let source = context.process().secret_digits.as_ref();
            source.ok_or(NO_RANDOMNESS)?(64).into_bytes()
        }
    };
    let name = [&context.access().realm, &arguments[2]].concat();
    context.reply.bulk(token(&name, &password).as_bytes());
    Ok(())
}

fn rest_token(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (name, password) = (&arguments[2], &arguments[3]);
    let groups = context.groups;
    let token = groups
        .access()
        .users
        .token_of(&groups.access().realm, name, password)
        .ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            format!("ERR Wrong password or user \"{name}\" does not exist")
        })?;
    context.reply.bulk(token.as_bytes());
    Ok(())
}

const NO_RANDOMNESS: &str = "ERR This server has no source of randomness";

fn wrong_number(word: &str) -> ErrorReply {
    format!("ERR unknown subcommand or wrong number of arguments for '{word}'. Try ACL HELP.").into()
}

fn show_log(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let count = match arguments.get(2) {
        Some(_) if arguments.len() > 3 => return Err(wrong_number(&String::from_utf8_lossy(&arguments[1]))),
        None => 10,
        Some(word) if parse::is(word, "reset") => {
            context.access().users.log.lock().entries.clear();
            context.reply.ok();
            return Ok(());
        }
        Some(count) => parse::required_integer(count)?.max(0),
    };
    let entries: Vec<log::Entry> = {
        let log = context.access().users.log.lock();
        log.entries.iter().take(count as usize).cloned().collect()
    };
    context.reply.array(entries.len());
    entries.iter().for_each(|entry| show_entry(context, entry));
    Ok(())
}

fn show_entry(context: &mut Context<'_, '_>, entry: &log::Entry) {
    let age_seconds = context.now_ms.saturating_sub(entry.created_ms) as f64 / 1000.0;
    let reply = &mut context.reply;
    reply.map(10);
    reply.bulk(b"count");
    reply.integer(entry.count as i64);
    for (name, text) in [
        ("reason", entry.reason.as_bytes()),
        ("context", entry.context.as_bytes()),
        ("object", &entry.object),
        ("username", &entry.user),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(text);
    }
    reply.bulk(b"age-seconds");
    reply.double(age_seconds);
    reply.bulk(b"client-info");
    reply.bulk(entry.client.trim_end().as_bytes());
    for (name, number) in [
        ("entry-id", entry.id),
        ("timestamp-created", entry.created_ms),
        ("timestamp-last-updated", entry.updated_ms),
    ] {
        reply.bulk(name.as_bytes());
        reply.integer(number as i64);
    }
}

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL \
                       SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in \
                       order to store users in the Redis configuration.";

/// Writing users down waits for the disk, so it is done once the lock is free.
fn save(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    match context.access().user_file {
        None => Err(NO_FILE.into()),
        Some(_) => Ok(Outcome::After(Deferred::SaveUsers)),
    }
}

/// Users may be kept as rows, and reading those takes the lock that a command holds.
fn load(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    match context.access().user_file {
        None => Err(NO_FILE.into()),
        Some(_) => Ok(Outcome::After(Deferred::LoadUsers)),
    }
}

impl Redis {
    /// Writes all users to the file, as they are now. Not to be called with the partition's lock
    /// held. The error is a reply.
    pub fn save_users(&self) -> Result<(), String> {
        let file = self.access.user_file.as_ref().ok_or(NO_FILE)?;
        let _one_at_a_time = self.access.users.saving.lock();
        self.access.users.is_changed.store(false, Ordering::SeqCst);
        let mut text = Vec::new();
        for user in self.access.users.list() {
            text.extend_from_slice(&user.rules().line(&user.name));
            text.push(b'\n');
        }
        let text = String::from_utf8(text).map_err(|_| "ERR A user or pattern that is not UTF-8 cannot be saved")?;
        file.write(&text)
            .map_err(|error| format!("ERR There was an error trying to save the ACLs: {error}"))
    }

    /// Loads all users, or changes nothing, and closes the connections of users that were removed
    /// or changed. Returns true if `own`, which closes after its replies, is one of them. Must not
    /// be called with the partition's lock held. The error is a reply.
    pub fn reload_users(&self, own: u64) -> Result<bool, String> {
        // With other passwords of `default` than a layer that is opened gives it.
        self.note_change_of_users()?;
        let mut is_own_gone = false;
        for client in self
            .load_users()?
            .iter()
            .flat_map(|user| connections_of(Groups::of(self), user))
        {
            if client.id == own {
                is_own_gone = true;
                self.connections.clients.disconnect(&client);
            } else {
                self.connections.clients.kill(&client);
            }
        }
        Ok(is_own_gone)
    }

    /// Replaces the users by the stored users. Returns users that were removed or changed.
    pub fn load_users(&self) -> Result<Vec<Arc<User>>, String> {
        let file = self.access.user_file.as_ref().ok_or(NO_FILE)?;
        let text = file
            .read()
            .map_err(|error| format!("ERR The ACL file cannot be read: {error}"))?;
        let text = text.ok_or("ERR There is no ACL file yet: ACL SAVE writes one")?;
        let mut users = parse_file(self.table, &text, are_channels_free(&self.config)).map_err(|errors| {
            format!(
                "ERR {errors}. WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
            )
        })?;
        let default_rules = users
            .remove(DEFAULT_USER)
            .unwrap_or_else(|| Rules::of_default_user(self.table));
        Ok(self.access.users.replace(users, default_rules))
    }
}
