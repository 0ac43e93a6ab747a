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

const READ: u32 = READONLY | FAST;
const ADD: u32 = WRITE | DENYOOM | FAST;
const REMOVE: u32 = WRITE | FAST;
const EACH: &str = "O(N) in the number of fields given";
const WHOLE: &str = "O(N) in the size of the hash";

const FAMILY: Family = Family::of(Group::Hash).keys(ONE_KEY).since("2.0.0").complexity(EACH);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("hset", -4, ADD, "Sets fields of a hash, and says how many are new.", Answers(fields::hset)),
    FAMILY.row("hmset", -4, ADD, "Sets fields of a hash.", Answers(fields::hmset)),
    FAMILY.row("hsetnx", 4, ADD, "Sets a field of a hash if it is absent.", Answers(fields::hsetnx)).complexity("O(1)"),
    FAMILY.row("hget", 3, READ, "Returns the value of a field.", Answers(fields::hget)).complexity("O(1)"),
    FAMILY.row("hmget", -3, READ, "Returns the values of several fields.", Answers(fields::hmget)),
    FAMILY.row("hgetall", 2, READONLY | KNOWS_SIZE, "Returns all fields with their values.", Answers(fields::hgetall)).complexity(WHOLE),
    FAMILY.row("hdel", -3, REMOVE, "Removes fields, and the hash with its last field.", Answers(fields::hdel)),
    FAMILY.row("hexists", 3, READ, "Says whether a field is there.", Answers(fields::hexists)).complexity("O(1)"),
    FAMILY.row("hlen", 2, READ, "Returns the number of fields.", Answers(fields::hlen)).complexity("O(1)"),
    FAMILY.row("hstrlen", 3, READ, "Returns the length of a field's value.", Answers(fields::hstrlen)).since("3.2.0").complexity("O(1)"),
    FAMILY.row("hkeys", 2, READONLY | KNOWS_SIZE, "Returns all fields.", Answers(fields::hkeys)).complexity(WHOLE),
    FAMILY.row("hvals", 2, READONLY | KNOWS_SIZE, "Returns the values of all fields.", Answers(fields::hvals)).complexity(WHOLE),
    FAMILY.row("hincrby", 4, ADD, "Adds an integer to a field's value, 0 if absent.", Answers(fields::hincrby)).complexity("O(1)"),
    FAMILY.row("hincrbyfloat", 4, ADD, "Adds a number to a field's value, 0 if absent.", Answers(fields::hincrbyfloat)).since("2.6.0").complexity("O(1)"),
    FAMILY.row("hrandfield", -2, READONLY, "Returns random fields.", Answers(fields::hrandfield)).since("6.2.0").complexity("O(N) in the number of fields returned"),
    FAMILY.row("hscan", -3, READONLY, "Iterates over fields and values.", Answers(fields::hscan)).since("2.8.0").complexity("O(1) for each call, O(N) for a whole iteration"),
    FAMILY.row("hexpire", -6, ADD, "Lets fields expire after a number of seconds.", Answers(fields_expiry::hexpire)).since("7.4.0"),
    FAMILY.row("hpexpire", -6, ADD, "Lets fields expire after a number of milliseconds.", Answers(fields_expiry::hpexpire)).since("7.4.0"),
    FAMILY.row("hexpireat", -6, ADD, "Lets fields expire at a Unix time in seconds.", Answers(fields_expiry::hexpireat)).since("7.4.0"),
    FAMILY.row("hpexpireat", -6, ADD, "Lets fields expire at a Unix time in milliseconds.", Answers(fields_expiry::hpexpireat)).since("7.4.0"),
    FAMILY.row("httl", -5, READ, "Returns the seconds that fields have left.", Answers(fields_expiry::httl)).since("7.4.0"),
    FAMILY.row("hpttl", -5, READ, "Returns the milliseconds that fields have left.", Answers(fields_expiry::hpttl)).since("7.4.0"),
    FAMILY.row("hexpiretime", -5, READ, "Returns the Unix times in seconds at which fields expire.", Answers(fields_expiry::hexpiretime)).since("7.4.0"),
    FAMILY.row("hpexpiretime", -5, READ, "Returns the Unix times in milliseconds at which fields expire.", Answers(fields_expiry::hpexpiretime)).since("7.4.0"),
    FAMILY.row("hpersist", -5, REMOVE, "Lets fields stay for good.", Answers(fields_expiry::hpersist)).since("7.4.0"),
    FAMILY.row("hgetdel", -5, REMOVE, "Returns the values of fields and removes them.", Answers(fields_expiry::hgetdel)).since("8.0.0"),
    FAMILY.row("hgetex", -5, REMOVE, "Returns the values of fields and sets or removes their deadlines.", Answers(fields_expiry::hgetex)).since("8.0.0"),
    FAMILY.row("hsetex", -6, ADD, "Sets fields together with their deadline.", Answers(fields_expiry::hsetex)).since("8.0.0"),
];
