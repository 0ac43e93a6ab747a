//! Sets: the table of their commands.
//!
//! [`value`] is a set as rows, [`one_set`] the commands on one set, [`algebra`] those on several.

mod algebra;
mod one_set;
#[cfg(test)]
mod tests;
mod value;

use std::sync::atomic::Ordering;

use crate::config::Config;
use crate::handler::definition::*;

pub use value::{contains, encoding, len, members, run, store};

/// Most members of a set of integers in Redis' compact form: the argument of [`store`].
pub fn integers_max(config: &Config) -> u64 {
    config.set_max_intset_entries.load(Ordering::Relaxed).max(0) as u64
}

#[allow(clippy::too_many_arguments, reason = "one row of a table")]
const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    keys: Keys,
    since: &'static str,
    complexity: &'static str,
    summary: &'static str,
    handler: Answering,
) -> Definition {
    command(
        name,
        arity,
        flags,
        keys,
        Group::Set,
        since,
        complexity,
        summary,
        handler,
    )
}

const READ: u32 = READONLY | FAST;
const COUNTED: Keys = Keys::Counted { count: 1, also: 0 };
const EACH: &str = "O(N) in the number of members given";
const WHOLE: &str = "O(N) in the size of the set";
const PICKED: &str = "O(1), with a count O(N) in the number of members returned";
const COMMON: &str = "O(N*M) in the size of the smallest set and the number of sets";
const ALL: &str = "O(N) in the size of all sets together";
const SCANNED: &str = "O(1) for each call, O(N) for a whole iteration";

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    row("sadd", -3, WRITE | DENYOOM | FAST, ONE_KEY, "1.0.0", EACH, "Adds members to a set, and says how many are new.", one_set::sadd),
    row("srem", -3, WRITE | FAST, ONE_KEY, "1.0.0", EACH, "Removes members, and the set with its last member.", one_set::srem),
    row("smembers", 2, READONLY | KNOWS_SIZE, ONE_KEY, "1.0.0", WHOLE, "Returns all members.", one_set::smembers),
    row("sismember", 3, READ, ONE_KEY, "1.0.0", "O(1)", "Says whether a member is there.", one_set::sismember),
    row("smismember", -3, READ, ONE_KEY, "6.2.0", EACH, "Says of several members whether they are there.", one_set::smismember),
    row("scard", 2, READ, ONE_KEY, "1.0.0", "O(1)", "Returns the number of members.", one_set::scard),
    row("smove", 4, WRITE | FAST, TWO_KEYS, "1.0.0", "O(1)", "Moves a member from one set to another.", one_set::smove),
    row("spop", -2, WRITE | FAST, ONE_KEY, "1.0.0", PICKED, "Removes random members and returns them.", one_set::spop),
    row("srandmember", -2, READONLY, ONE_KEY, "1.0.0", PICKED, "Returns random members.", one_set::srandmember),
    row("sscan", -3, READONLY, ONE_KEY, "2.8.0", SCANNED, "Iterates over the members.", one_set::sscan),
    row("sinter", -2, READONLY | KNOWS_SIZE, ALL_KEYS, "1.0.0", COMMON, "Returns the members that all sets have.", algebra::sinter),
    row("sinterstore", -3, WRITE | DENYOOM, ALL_KEYS, "1.0.0", COMMON, "Stores the members that all sets have.", algebra::sinterstore),
    row("sintercard", -3, READONLY | MOVABLE_KEYS | KNOWS_SIZE, COUNTED, "7.0.0", COMMON, "Counts the members that all sets have, up to a limit.", algebra::sintercard),
    row("sunion", -2, READONLY | KNOWS_SIZE, ALL_KEYS, "1.0.0", ALL, "Returns the members that any of the sets has.", algebra::sunion),
    row("sunionstore", -3, WRITE | DENYOOM, ALL_KEYS, "1.0.0", ALL, "Stores the members that any of the sets has.", algebra::sunionstore),
    row("sdiff", -2, READONLY | KNOWS_SIZE, ALL_KEYS, "1.0.0", ALL, "Returns the members that only the first set has.", algebra::sdiff),
    row("sdiffstore", -3, WRITE | DENYOOM, ALL_KEYS, "1.0.0", ALL, "Stores the members that only the first set has.", algebra::sdiffstore),
];
