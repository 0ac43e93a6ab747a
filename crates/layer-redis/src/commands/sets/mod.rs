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

pub use algebra::PAGE;
pub use value::{contains, each, encoding, len, members, page, store};

/// Most members of a set of integers in Redis' compact form: the argument of [`store`].
pub fn integers_max(config: &Config) -> u64 {
    config.set_max_intset_entries.load(Ordering::Relaxed).max(0) as u64
}

const READ: u32 = READONLY | FAST;
const COUNTED: Keys = Keys::Counted { count: 1, also: 0 };
const EACH: &str = "O(N) in the number of members given";
const WHOLE: &str = "O(N) in the size of the set";
const PICKED: &str = "O(1), with a count O(N) in the number of members returned";
const COMMON: &str = "O(N*M) in the size of the smallest set and the number of sets";
const ALL: &str = "O(N) in the size of all sets together";
const SCANNED: &str = "O(1) for each call, O(N) for a whole iteration";

const FAMILY: Family = Family::of(Group::Set).keys(ONE_KEY).complexity(ALL);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("sadd", -3, WRITE | DENYOOM | FAST, "Adds members to a set, and says how many are new.", Answers(one_set::sadd)).complexity(EACH),
    FAMILY.row("srem", -3, WRITE | FAST, "Removes members, and the set with its last member.", Answers(one_set::srem)).complexity(EACH),
    FAMILY.row("smembers", 2, READONLY | KNOWS_SIZE, "Returns all members.", Answers(one_set::smembers)).complexity(WHOLE),
    FAMILY.row("sismember", 3, READ, "Says whether a member is there.", Answers(one_set::sismember)).complexity("O(1)"),
    FAMILY.row("smismember", -3, READ, "Says of several members whether they are there.", Answers(one_set::smismember)).since("6.2.0").complexity(EACH),
    FAMILY.row("scard", 2, READ, "Returns the number of members.", Answers(one_set::scard)).complexity("O(1)"),
    FAMILY.row("smove", 4, WRITE | FAST | GROWS_A_LITTLE, "Moves a member from one set to another.", Answers(one_set::smove)).keys(TWO_KEYS).complexity("O(1)"),
    FAMILY.row("spop", -2, WRITE | FAST, "Removes random members and returns them.", Answers(one_set::spop)).complexity(PICKED),
    FAMILY.row("srandmember", -2, READONLY, "Returns random members.", Answers(one_set::srandmember)).complexity(PICKED),
    FAMILY.row("sscan", -3, READONLY, "Iterates over the members.", Answers(one_set::sscan)).since("2.8.0").complexity(SCANNED),
    FAMILY.row("sinter", -2, READONLY | KNOWS_SIZE, "Returns the members that all sets have.", Answers(algebra::sinter)).keys(ALL_KEYS).complexity(COMMON),
    FAMILY.row("sinterstore", -3, WRITE | DENYOOM, "Stores the members that all sets have.", Answers(algebra::sinterstore)).keys(ALL_KEYS).complexity(COMMON),
    FAMILY.row("sintercard", -3, READONLY | MOVABLE_KEYS | KNOWS_SIZE, "Counts the members that all sets have, up to a limit.", Answers(algebra::sintercard)).keys(COUNTED).since("7.0.0").complexity(COMMON),
    FAMILY.row("sunion", -2, READONLY | KNOWS_SIZE, "Returns the members that any of the sets has.", Answers(algebra::sunion)).keys(ALL_KEYS),
    FAMILY.row("sunionstore", -3, WRITE | DENYOOM, "Stores the members that any of the sets has.", Answers(algebra::sunionstore)).keys(ALL_KEYS),
    FAMILY.row("sdiff", -2, READONLY | KNOWS_SIZE, "Returns the members that only the first set has.", Answers(algebra::sdiff)).keys(ALL_KEYS),
    FAMILY.row("sdiffstore", -3, WRITE | DENYOOM, "Stores the members that only the first set has.", Answers(algebra::sdiffstore)).keys(ALL_KEYS),
];
