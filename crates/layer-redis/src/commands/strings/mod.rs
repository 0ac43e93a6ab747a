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

const FAMILY: Family = Family::of(Group::String).keys(ONE_KEY);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("get", 2, READONLY | FAST, "Returns the string value of a key.", Answers(values::get)),
    FAMILY.row("set", -3, WRITE | DENYOOM, "Sets the string value of a key, of whatever kind it was; conditions and an expiry are options.", Answers(values::set)),
    FAMILY.row("setnx", 3, WRITE | DENYOOM | FAST, "Sets the string value of a key that does not exist.", Answers(values::setnx)),
    FAMILY.row("setex", 4, WRITE | DENYOOM, "Sets the string value of a key and its expiry in seconds.", Answers(values::setex)).since("2.0.0"),
    FAMILY.row("psetex", 4, WRITE | DENYOOM, "Sets the string value of a key and its expiry in milliseconds.", Answers(values::psetex)).since("2.6.0"),
    FAMILY.row("getset", 3, WRITE | DENYOOM | FAST, "Sets the string value of a key and returns the one before.", Answers(values::getset)),
    FAMILY.row("getdel", 2, WRITE | FAST, "Returns the string value of a key and removes the key.", Answers(values::getdel)).since("6.2.0"),
    FAMILY.row("getex", -2, WRITE | FAST, "Returns the string value of a key and sets or removes its expiry.", Answers(values::getex)).since("6.2.0"),
    FAMILY.row("delex", -2, WRITE | FAST, "Removes a key if its value, or its value's digest, meets a condition.", Answers(values::delex)).since("8.4.0").complexity("O(1), O(N) in the length of the value if its digest is compared"),
    FAMILY.row("delifeq", 3, WRITE | FAST, "Removes a key if its value is the one given.", Answers(values::delifeq)).since("9.0.0"),
    FAMILY.row("digest", 2, READONLY | FAST, "Returns the XXH3 digest of a string value in hexadecimal.", Answers(values::digest)).since("8.4.0").complexity("O(N) in the length of the value"),
    FAMILY.row("mget", -2, READONLY | FAST, "Returns the string values of several keys.", Answers(values::mget)).keys(ALL_KEYS).complexity("O(N) in the number of keys"),
    FAMILY.row("mset", -3, WRITE | DENYOOM, "Sets the string values of several keys.", Answers(values::mset)).keys(PAIRS).since("1.0.1").complexity("O(N) in the number of keys"),
    FAMILY.row("msetex", -4, WRITE | DENYOOM | MOVABLE_KEYS, "Sets the string values of several keys with one expiry.", Answers(values::msetex)).keys(Keys::Computed(values::msetex_keys, &[Specification::new("OW update", Begin::Index(1), Find::Counted { step: 2 },)],)).since("8.4.0").complexity("O(N) in the number of keys"),
    FAMILY.row("msetnx", -3, WRITE | DENYOOM, "Sets the string values of several keys if none of them exists.", Answers(values::msetnx)).keys(PAIRS).since("1.0.1").complexity("O(N) in the number of keys"),
    FAMILY.row("append", 3, WRITE | DENYOOM | FAST, "Appends to the string value of a key; creates the key if it is absent.", Answers(ranges::append)).since("2.0.0").complexity("O(N) in the length of what is appended"),
    FAMILY.row("strlen", 2, READONLY | FAST, "Returns the length of a string value in bytes.", Answers(ranges::strlen)).since("2.2.0"),
    FAMILY.row("getrange", 4, READONLY, "Returns the bytes between two indexes of a string value.", Answers(ranges::getrange)).since("2.4.0").complexity("O(N) in the length of the reply"),
    FAMILY.row("substr", 4, READONLY, "Returns the bytes between two indexes of a string value: GETRANGE's old name.", Answers(ranges::getrange)).complexity("O(N) in the length of the reply"),
    FAMILY.row("setrange", 4, WRITE | DENYOOM, "Overwrites a part of a string value, which grows as needed.", Answers(ranges::setrange)).since("2.2.0").complexity("O(N) in the length of what is written"),
    FAMILY.row("incr", 2, WRITE | DENYOOM | FAST, "Adds one to the integer value of a key.", Answers(numbers::incr)),
    FAMILY.row("decr", 2, WRITE | DENYOOM | FAST, "Takes one from the integer value of a key.", Answers(numbers::decr)),
    FAMILY.row("incrby", 3, WRITE | DENYOOM | FAST, "Adds a number to the integer value of a key.", Answers(numbers::incrby)),
    FAMILY.row("decrby", 3, WRITE | DENYOOM | FAST, "Takes a number from the integer value of a key.", Answers(numbers::decrby)),
    FAMILY.row("incrbyfloat", 3, WRITE | DENYOOM | FAST, "Adds a number to the floating-point value of a key.", Answers(numbers::incrbyfloat)).since("2.6.0"),
    FAMILY.row("lcs", -3, READONLY | KNOWS_SIZE, "Finds the longest common subsequence of two string values.", Answers(subsequence::lcs)).keys(TWO_KEYS).since("7.0.0").complexity("O(N*M) in the lengths of both values"),
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
