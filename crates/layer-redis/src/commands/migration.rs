//! MIGRATE: copies keys to another server, and then removes them here.
//!
//! Two transactions with an exchange between them, which holds no lock. The first reads the values
//! and builds the requests; the owner of the connection sends them, once the read state is durable,
//! and returns the replies; the second (`execution/migration.rs`) removes the keys that the other
//! server has accepted, in one step. A key that was changed meanwhile stays: the copy differs from
//! it. Redis blocks during the exchange, so there no key can change.

use quartet_wire_resp::{Arguments, encode_command};

use super::serialization::payload;
use crate::command::migration::{Migration, OPTIONS, OPTIONS_AT, Sent};
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::{command::errors, command::parse};

const KEY_AT: usize = 3;
/// Default time limit of each step.
const TIMEOUT_MS: u64 = 1000;
/// A longer one is taken for this.
const TIMEOUT_MS_MAX: u64 = 60_000;

const THE_KEY: Specification = Specification::new("RW access delete", Begin::Index(KEY_AT as i32), Find::ONE);
/// A password may be `KEYS` too: looked for from the end on, it is not always found.
const BEHIND_KEYS: Specification =
    Specification::new("RW access delete incomplete", Begin::Keyword("KEYS", -2), Find::REST);

const FAMILY: Family = Family::of(Group::Generic)
    .keys(Keys::Computed(key_positions, &[THE_KEY, BEHIND_KEYS]))
    .since("2.6.0")
    .complexity("O(N) in the size of the values, twice here and once there");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("migrate", -6, WRITE | MOVABLE_KEYS | DANGEROUS, "Moves keys to another server.", Decides(migrate)),
];

/// The position of KEYS.
fn keys_word(arguments: Arguments<'_>) -> Option<usize> {
    let mut position = OPTIONS_AT;
    while let Some(word) = arguments.get(position) {
        if parse::is(word, "keys") {
            return Some(position);
        }
        let option = OPTIONS.iter().find(|(name, _)| parse::is(word, name));
        position += 1 + option.map_or(0, |(_, count)| *count);
    }
    None
}

fn key_positions(arguments: Arguments<'_>) -> Vec<usize> {
    match keys_word(arguments) {
        Some(position) if arguments[KEY_AT].is_empty() => (position + 1..arguments.len()).collect(),
        // A key beside KEYS is an error, which the command itself will say.
        Some(_) => Vec::new(),
        None if arguments.len() > KEY_AT => vec![KEY_AT],
        None => Vec::new(),
    }
}

struct Options<'a> {
    keeps_keys: bool,
    replaces: bool,
    credentials: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn read(arguments: Arguments<'a>) -> Result<Options<'a>, ErrorReply> {
        let mut options = Options {
            keeps_keys: false,
            replaces: false,
            credentials: Vec::new(),
        };
        let mut words = arguments.iter().skip(OPTIONS_AT);
        while let Some(word) = words.next() {
            if parse::is(word, "copy") {
                options.keeps_keys = true;
            } else if parse::is(word, "replace") {
                options.replaces = true;
            } else if parse::is(word, "auth") && words.len() > 0 {
                options.credentials = words.by_ref().take(1).collect();
            } else if parse::is(word, "auth2") && words.len() > 1 {
                options.credentials = words.by_ref().take(2).collect();
            } else if parse::is(word, "keys") {
                if !arguments[KEY_AT].is_empty() {
                    return Err(
                        "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string".into(),
                    );
                }
                break;
            } else {
                return Err(errors::SYNTAX.into());
            }
        }
        Ok(options)
    }
}

fn migrate(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let options = Options::read(arguments)?;
    let timeout_ms = parse::required_integer(&arguments[5])?;
    let target_db = parse::required_integer(&arguments[4])?;
    let mut migration = Migration {
        host: String::from_utf8_lossy(&arguments[1]).into_owned(),
        port: port(&arguments[2]),
        timeout_ms: u64::try_from(timeout_ms)
            .ok()
            .filter(|&ms| ms > 0)
            .unwrap_or(TIMEOUT_MS)
            .min(TIMEOUT_MS_MAX),
        requests: Vec::new(),
        has_credentials: !options.credentials.is_empty(),
        keeps_keys: options.keeps_keys,
        db: context.client.db,
        sent: Vec::new(),
    };
    context
        .process()
        .migration_targets
        .check("MIGRATE to", &migration.host, migration.port)?;
    if migration.has_credentials {
        let words: Vec<&[u8]> = [b"AUTH".as_slice()].into_iter().chain(options.credentials).collect();
        encode_command(&words, &mut migration.requests);
    }
    encode_command(&["SELECT", &target_db.to_string()], &mut migration.requests);
    for position in key_positions(arguments) {
        migration.add(context, &arguments[position], options.replaces)?;
    }
    if migration.sent.is_empty() {
        context.reply.simple("NOKEY");
        return Ok(Outcome::Done);
    }
    Ok(Outcome::After(Deferred::Migrate(Box::new(migration))))
}

/// A malformed port is port 0, which refuses every connection.
fn port(word: &[u8]) -> u16 {
    parse::unsigned(word)
        .and_then(|port| u16::try_from(port).ok())
        .unwrap_or(0)
}

impl Migration {
    /// Adds the RESTORE of a key, if it exists.
    fn add(&mut self, context: &mut Context<'_, '_>, name: &[u8], replaces: bool) -> Result<(), ErrorReply> {
        let Some(entry) = context.read(name) else {
            return Ok(());
        };
        let value = payload(context, &entry)?;
        let left_ms = entry
            .expiry_ms
            .map_or(0, |expiry_ms| (expiry_ms - context.now_ms).max(1));
        let left_ms = left_ms.to_string();
        let mut words: Vec<&[u8]> = vec![b"RESTORE", name, left_ms.as_bytes(), &value];
        if replaces {
            words.push(b"REPLACE");
        }
        encode_command(&words, &mut self.requests);
        // The payload is an argument of its own: it ends before its line end and, perhaps, before
        // the last word.
        let behind = if replaces {
            b"\r\n$7\r\nREPLACE\r\n".len()
        } else {
            b"\r\n".len()
        };
        let end = self.requests.len() - behind;
        self.sent.push(Sent {
            name: name.to_vec(),
            expiry_ms: entry.expiry_ms,
            payload: end - value.len()..end,
        });
        Ok(())
    }
}
