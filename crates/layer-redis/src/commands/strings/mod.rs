//! Strings. How a value is kept: `string_value`.

mod numbers;
mod options;
mod ranges;
mod subsequence;
pub(crate) mod values;

use std::sync::atomic::Ordering;

use crate::command::errors;
use crate::config::Config;
use crate::handler::definition::*;

/// Positions of the keys of MSET: each is followed by its value.
const PAIRS: Keys = Keys::Range {
    first: 1,
    last: -1,
    step: 2,
};

/// Longest value, as in Redis.
pub const VALUE_BYTES_MAX: u64 = 512 << 20;

/// Refuses a value that would become too long.
pub fn check_length(length: u64) -> Result<(), ErrorReply> {
    if length > VALUE_BYTES_MAX {
        return Err(errors::STRING_TOO_LARGE.into());
    }
    Ok(())
}

/// Refuses a value that would grow beyond the limit of a single request argument, too.
pub fn check_growth(config: &Config, length: u64) -> Result<(), ErrorReply> {
    let configured = config.proto_max_bulk_len.load(Ordering::Relaxed) as u64;
    if length > configured {
        return Err(errors::STRING_TOO_LARGE.into());
    }
    check_length(length)
}

pub const COMMANDS: &[Definition] = &[
    command(
        "get",
        2,
        READONLY | FAST,
        ONE_KEY,
        Group::String,
        "1.0.0",
        "O(1)",
        "Returns the string value of a key.",
        values::get,
    ),
    command(
        "set",
        -3,
        WRITE | DENYOOM,
        ONE_KEY,
        Group::String,
        "1.0.0",
        "O(1)",
        "Sets the string value of a key, of whatever kind it was; conditions and an expiry are options.",
        values::set,
    ),
    command(
        "setnx",
        3,
        WRITE | DENYOOM | FAST,
        ONE_KEY,
        Group::String,
        "1.0.0",
        "O(1)",
        "Sets the string value of a key that does not exist.",
        values::setnx,
    ),
    command(
        "setex",
        4,
        WRITE | DENYOOM,
        ONE_KEY,
        Group::String,
        "2.0.0",
        "O(1)",
        "Sets the string value of a key and its expiry in seconds.",
        values::setex,
    ),
    command(
        "psetex",
        4,
        WRITE | DENYOOM,
        ONE_KEY,
        Group::String,
        "2.6.0",
        "O(1)",
        "Sets the string value of a key and its expiry in milliseconds.",
        values::psetex,
    ),
    command(
        "getset",
        3,
        WRITE | DENYOOM | FAST,
        ONE_KEY,
        Group::String,
        "1.0.0",
        "O(1)",
        "Sets the string value of a key and returns the one before.",
        values::getset,
    ),
    command(
        "getdel",
        2,
        WRITE | FAST,
        ONE_KEY,
        Group::String,
        "6.2.0",
        "O(1)",
        "Returns the string value of a key and removes the key.",
        values::getdel,
    ),
    command(
        "getex",
        -2,
        WRITE | FAST,
        ONE_KEY,
        Group::String,
        "6.2.0",
        "O(1)",
        "Returns the string value of a key and sets or removes its expiry.",
        values::getex,
    ),
    command(
        "delex",
        -2,
        WRITE | FAST,
        ONE_KEY,
        Group::String,
        "8.4.0",
        "O(1), O(N) in the length of the value if its digest is compared",
        "Removes a key if its value, or its value's digest, meets a condition.",
        values::delex,
    ),
    command(
        "delifeq",
        3,
        WRITE | FAST,
        ONE_KEY,
        Group::String,
        "9.0.0",
        "O(1)",
        "Removes a key if its value is the one given.",
        values::delifeq,
    ),
    command(
        "digest",
        2,
        READONLY | FAST,
        ONE_KEY,
        Group::String,
        "8.4.0",
        "O(N) in the length of the value",
        "Returns the XXH3 digest of a string value in hexadecimal.",
        values::digest,
    ),
    command(
        "mget",
        -2,
        READONLY | FAST,
        ALL_KEYS,
        Group::String,
        "1.0.0",
        "O(N) in the number of keys",
        "Returns the string values of several keys.",
        values::mget,
    ),
    command(
        "mset",
        -3,
        WRITE | DENYOOM,
        PAIRS,
        Group::String,
        "1.0.1",
        "O(N) in the number of keys",
        "Sets the string values of several keys.",
        values::mset,
    ),
    command(
        "msetex",
        -4,
        WRITE | DENYOOM | MOVABLE_KEYS,
        Keys::Computed(
            values::msetex_keys,
            &[Specification::new(
                "OW update",
                Begin::Index(1),
                Find::Counted { step: 2 },
            )],
        ),
        Group::String,
        "8.4.0",
        "O(N) in the number of keys",
        "Sets the string values of several keys with one expiry.",
        values::msetex,
    ),
    command(
        "msetnx",
        -3,
        WRITE | DENYOOM,
        PAIRS,
        Group::String,
        "1.0.1",
        "O(N) in the number of keys",
        "Sets the string values of several keys if none of them exists.",
        values::msetnx,
    ),
    command(
        "append",
        3,
        WRITE | DENYOOM | FAST,
        ONE_KEY,
        Group::String,
        "2.0.0",
        "O(N) in the length of what is appended",
        "Appends to the string value of a key; creates the key if it is absent.",
        ranges::append,
    ),
    command(
        "strlen",
        2,
        READONLY | FAST,
        ONE_KEY,
        Group::String,
        "2.2.0",
        "O(1)",
        "Returns the length of a string value in bytes.",
        ranges::strlen,
    ),
    command(
        "getrange",
        4,
        READONLY,
        ONE_KEY,
        Group::String,
        "2.4.0",
        "O(N) in the length of the reply",
        "Returns the bytes between two indexes of a string value.",
        ranges::getrange,
    ),
    command(
        "substr",
        4,
        READONLY,
        ONE_KEY,
        Group::String,
        "1.0.0",
        "O(N) in the length of the reply",
        "Returns the bytes between two indexes of a string value: GETRANGE's old name.",
        ranges::getrange,
    ),
    command(
        "setrange",
        4,
        WRITE | DENYOOM,
        ONE_KEY,
        Group::String,
        "2.2.0",
        "O(N) in the length of what is written",
        "Overwrites a part of a string value, which grows as needed.",
        ranges::setrange,
    ),
    command(
        "incr",
        2,
        WRITE | DENYOOM | FAST,
        ONE_KEY,
        Group::String,
        "1.0.0",
        "O(1)",
        "Adds one to the integer value of a key.",
        numbers::incr,
    ),
    command(
        "decr",
        2,
        WRITE | DENYOOM | FAST,
        ONE_KEY,
        Group::String,
        "1.0.0",
        "O(1)",
        "Takes one from the integer value of a key.",
        numbers::decr,
    ),
    command(
        "incrby",
        3,
        WRITE | DENYOOM | FAST,
        ONE_KEY,
        Group::String,
        "1.0.0",
        "O(1)",
        "Adds a number to the integer value of a key.",
        numbers::incrby,
    ),
    command(
        "decrby",
        3,
        WRITE | DENYOOM | FAST,
        ONE_KEY,
        Group::String,
        "1.0.0",
        "O(1)",
        "Takes a number from the integer value of a key.",
        numbers::decrby,
    ),
    command(
        "incrbyfloat",
        3,
        WRITE | DENYOOM | FAST,
        ONE_KEY,
        Group::String,
        "2.6.0",
        "O(1)",
        "Adds a number to the floating-point value of a key.",
        numbers::incrbyfloat,
    ),
    command(
        "lcs",
        -3,
        READONLY | KNOWS_SIZE,
        TWO_KEYS,
        Group::String,
        "7.0.0",
        "O(N*M) in the lengths of both values",
        "Finds the longest common subsequence of two string values.",
        subsequence::lcs,
    ),
];

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    #[test]
    fn values_survive_a_round_trip() {
        let fixture = Fixture::new();
        fixture.connect().check(
            "GET a => nil
             SET a 1 => OK
             GET a => 1
             MULTI => OK
             SET b 2 => QUEUED
             GET b => QUEUED
             EXEC => [OK 2]
             NOSUCH x => !ERR unknown command 'NOSUCH', with args beginning with: 'x' ",
        );
    }
}
