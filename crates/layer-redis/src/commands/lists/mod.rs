//! Lists: the table, and what other families use.
//!
//! [`rows`] knows how a list is stored, [`blocks`] how a large one is; the commands are in
//! [`push`], [`pop`], [`read`] and [`blocking`].

mod blocking;
mod blocks;
mod pop;
mod push;
mod read;
mod rows;
#[cfg(test)]
mod tests;

use crate::command::errors;
use crate::command::parse;
use crate::handler::definition::*;
use crate::keyspace::Entry;

pub use blocks::{Ends, position_key, position_of, without_shifts};
pub use rows::{elements, length, range, store};

use rows::End;

/// The keys of BLPOP: all arguments but the last, which is the timeout.
const BEFORE_TIMEOUT: Keys = Keys::Range {
    first: 1,
    last: -2,
    step: 1,
};

const FAMILY: Family = Family::of(Group::List).keys(ONE_KEY);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("lpush", -3, WRITE | DENYOOM | FAST, "Adds elements at the head of a list, creating it if needed.", Answers(push::lpush)).complexity("O(N) in the number of elements added"),
    FAMILY.row("rpush", -3, WRITE | DENYOOM | FAST, "Adds elements at the tail of a list, creating it if needed.", Answers(push::rpush)).complexity("O(N) in the number of elements added"),
    FAMILY.row("lpushx", -3, WRITE | DENYOOM | FAST, "Adds elements at the head of a list that exists.", Answers(push::lpushx)).since("2.2.0").complexity("O(N) in the number of elements added"),
    FAMILY.row("rpushx", -3, WRITE | DENYOOM | FAST, "Adds elements at the tail of a list that exists.", Answers(push::rpushx)).since("2.2.0").complexity("O(N) in the number of elements added"),
    FAMILY.row("linsert", 5, WRITE | DENYOOM, "Inserts an element before or after another.", Answers(push::linsert)).since("2.2.0").complexity("O(N) in the number of elements before the pivot"),
    FAMILY.row("lset", 4, WRITE | DENYOOM, "Replaces the element at an index.", Answers(push::lset)).complexity("O(log N) in the length of the list"),
    FAMILY.row("lpop", -2, WRITE | FAST, "Removes and returns elements from the head of a list.", Answers(pop::lpop)).complexity("O(N) in the number of elements returned"),
    FAMILY.row("rpop", -2, WRITE | FAST, "Removes and returns elements from the tail of a list.", Answers(pop::rpop)).complexity("O(N) in the number of elements returned"),
    FAMILY.row("lrem", 4, WRITE, "Removes elements that equal a value.", Answers(pop::lrem)).complexity("O(N) in the length of the list"),
    FAMILY.row("ltrim", 4, WRITE, "Removes what lies outside a range of indexes.", Answers(pop::ltrim)).complexity("O(N) in the number of elements removed"),
    FAMILY.row("lmpop", -4, WRITE | MOVABLE_KEYS, "Pops elements from the first of several lists that exists.", Answers(pop::lmpop)).keys(Keys::Counted { count: 1, also: 0 }).since("7.0.0").complexity("O(N+M), N being the number of keys and M the number of elements returned"),
    FAMILY.row("lmove", 5, WRITE | DENYOOM, "Moves an element from an end of one list to an end of another.", Answers(pop::lmove)).keys(TWO_KEYS).since("6.2.0"),
    FAMILY.row("rpoplpush", 3, WRITE | DENYOOM, "Moves the last element of one list to the head of another.", Answers(pop::rpoplpush)).keys(TWO_KEYS).since("1.2.0"),
    FAMILY.row("llen", 2, READONLY | FAST, "Returns the length of a list.", Answers(read::llen)),
    FAMILY.row("lindex", 3, READONLY, "Returns the element at an index.", Answers(read::lindex)).complexity("O(log N) in the length of the list"),
    FAMILY.row("lrange", 4, READONLY | KNOWS_SIZE, "Returns the elements in a range of indexes.", Answers(read::lrange)).complexity("O(log N + M), M being the number of elements returned"),
    FAMILY.row("lpos", -3, READONLY, "Returns the indexes of elements that equal a value.", Answers(read::lpos)).since("6.0.6").complexity("O(N) in the number of elements compared"),
    FAMILY.row("blpop", -3, WRITE | BLOCKING, "Pops the first element of one of several lists, waiting for one.", Decides(blocking::blpop)).keys(BEFORE_TIMEOUT).since("2.0.0").complexity("O(N) in the number of keys"),
    FAMILY.row("brpop", -3, WRITE | BLOCKING, "Pops the last element of one of several lists, waiting for one.", Decides(blocking::brpop)).keys(BEFORE_TIMEOUT).since("2.0.0").complexity("O(N) in the number of keys"),
    FAMILY.row("blmove", 6, WRITE | DENYOOM | BLOCKING, "Moves an element between two lists, waiting for one.", Decides(blocking::blmove)).keys(TWO_KEYS).since("6.2.0"),
    FAMILY.row("brpoplpush", 4, WRITE | DENYOOM | BLOCKING, "Moves the last element of one list to the head of another, waiting for one.", Decides(blocking::brpoplpush)).keys(TWO_KEYS).since("2.2.0"),
    FAMILY.row("blmpop", -5, WRITE | BLOCKING | MOVABLE_KEYS, "Pops elements from the first of several lists that has some, waiting for one.", Decides(blocking::blmpop)).keys(Keys::Counted { count: 2, also: 0 }).since("7.0.0").complexity("O(N+M), N being the number of keys and M the number of elements returned"),
];

/// OBJECT ENCODING's name for a list. Redis 7.0 has one encoding for lists of every size.
pub fn encoding(_: &Entry) -> &'static str {
    "quicklist"
}

/// LEFT or RIGHT.
fn end(word: &[u8]) -> Result<End, ErrorReply> {
    if parse::is(word, "left") {
        Ok(End::Left)
    } else if parse::is(word, "right") {
        Ok(End::Right)
    } else {
        Err(errors::SYNTAX.into())
    }
}
