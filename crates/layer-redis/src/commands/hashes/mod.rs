//! Hashes: the table of their commands.
//!
//! [`value`] is a hash as rows, [`edits`] are changes to it, [`writing`] applies them; [`fields`]
//! has the commands on fields and values, [`fields_expiry`] those on fields' deadlines.

mod edits;
mod fields;
mod fields_expiry;
#[cfg(test)]
mod tests;
mod value;
mod writing;

use std::sync::atomic::Ordering;

use crate::config::Config;
use crate::handler::definition::*;
use crate::keyspace::{Entry, FLAG_A, FLAG_B};

pub use edits::{Change, Deadline, Edits};
pub use fields::apply;
pub use value::{FIELD_BYTES_MAX, each, find};
pub use writing::expire_fields;

/// Returns the answer of OBJECT ENCODING.
pub fn encoding(entry: &Entry) -> &'static str {
    if entry.flags & FLAG_A != 0 {
        "hashtable"
    } else if entry.flags & FLAG_B != 0 {
        "listpackex"
    } else {
        "listpack"
    }
}

fn limits(config: &Config) -> writing::Limits {
    writing::Limits {
        entries_max: config.hash_max_listpack_entries.load(Ordering::Relaxed).max(0) as u64,
        value_bytes_max: config.hash_max_listpack_value.load(Ordering::Relaxed).max(0) as usize,
    }
}

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    complexity: &'static str,
    summary: &'static str,
    handler: Answering,
) -> Definition {
    command(
        name,
        arity,
        flags,
        ONE_KEY,
        Group::Hash,
        since,
        complexity,
        summary,
        handler,
    )
}

const READ: u32 = READONLY | FAST;
const ADD: u32 = WRITE | DENYOOM | FAST;
const REMOVE: u32 = WRITE | FAST;
const EACH: &str = "O(N) in the number of fields given";
const WHOLE: &str = "O(N) in the size of the hash";

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    row("hset", -4, ADD, "2.0.0", EACH, "Sets fields of a hash, and says how many are new.", fields::hset),
    row("hmset", -4, ADD, "2.0.0", EACH, "Sets fields of a hash.", fields::hmset),
    row("hsetnx", 4, ADD, "2.0.0", "O(1)", "Sets a field of a hash if it is absent.", fields::hsetnx),
    row("hget", 3, READ, "2.0.0", "O(1)", "Returns the value of a field.", fields::hget),
    row("hmget", -3, READ, "2.0.0", EACH, "Returns the values of several fields.", fields::hmget),
    row("hgetall", 2, READONLY | KNOWS_SIZE, "2.0.0", WHOLE, "Returns all fields with their values.", fields::hgetall),
    row("hdel", -3, REMOVE, "2.0.0", EACH, "Removes fields, and the hash with its last field.", fields::hdel),
    row("hexists", 3, READ, "2.0.0", "O(1)", "Says whether a field is there.", fields::hexists),
    row("hlen", 2, READ, "2.0.0", "O(1)", "Returns the number of fields.", fields::hlen),
    row("hstrlen", 3, READ, "3.2.0", "O(1)", "Returns the length of a field's value.", fields::hstrlen),
    row("hkeys", 2, READONLY | KNOWS_SIZE, "2.0.0", WHOLE, "Returns all fields.", fields::hkeys),
    row("hvals", 2, READONLY | KNOWS_SIZE, "2.0.0", WHOLE, "Returns the values of all fields.", fields::hvals),
    row("hincrby", 4, ADD, "2.0.0", "O(1)", "Adds an integer to a field's value, 0 if absent.", fields::hincrby),
    row("hincrbyfloat", 4, ADD, "2.6.0", "O(1)", "Adds a number to a field's value, 0 if absent.", fields::hincrbyfloat),
    row("hrandfield", -2, READONLY, "6.2.0", "O(N) in the number of fields returned", "Returns random fields.", fields::hrandfield),
    row("hscan", -3, READONLY, "2.8.0", "O(1) for each call, O(N) for a whole iteration", "Iterates over fields and values.", fields::hscan),
    row("hexpire", -6, ADD, "7.4.0", EACH, "Lets fields expire after a number of seconds.", fields_expiry::hexpire),
    row("hpexpire", -6, ADD, "7.4.0", EACH, "Lets fields expire after a number of milliseconds.", fields_expiry::hpexpire),
    row("hexpireat", -6, ADD, "7.4.0", EACH, "Lets fields expire at a Unix time in seconds.", fields_expiry::hexpireat),
    row("hpexpireat", -6, ADD, "7.4.0", EACH, "Lets fields expire at a Unix time in milliseconds.", fields_expiry::hpexpireat),
    row("httl", -5, READ, "7.4.0", EACH, "Returns the seconds that fields have left.", fields_expiry::httl),
    row("hpttl", -5, READ, "7.4.0", EACH, "Returns the milliseconds that fields have left.", fields_expiry::hpttl),
    row("hexpiretime", -5, READ, "7.4.0", EACH, "Returns the Unix times in seconds at which fields expire.", fields_expiry::hexpiretime),
    row("hpexpiretime", -5, READ, "7.4.0", EACH, "Returns the Unix times in milliseconds at which fields expire.", fields_expiry::hpexpiretime),
    row("hpersist", -5, REMOVE, "7.4.0", EACH, "Lets fields stay for good.", fields_expiry::hpersist),
    row("hgetdel", -5, REMOVE, "8.0.0", EACH, "Returns the values of fields and removes them.", fields_expiry::hgetdel),
    row("hgetex", -5, REMOVE, "8.0.0", EACH, "Returns the values of fields and sets or removes their deadlines.", fields_expiry::hgetex),
    row("hsetex", -6, ADD, "8.0.0", EACH, "Sets fields together with their deadline.", fields_expiry::hsetex),
];
