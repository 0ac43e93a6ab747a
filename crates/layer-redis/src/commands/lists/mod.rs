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

pub const COMMANDS: &[Definition] = &[
    command(
        "lpush",
        -3,
        WRITE | DENYOOM | FAST,
        ONE_KEY,
        Group::List,
        "1.0.0",
        "O(N) in the number of elements added",
        "Adds elements at the head of a list, creating it if needed.",
        push::lpush,
    ),
    command(
        "rpush",
        -3,
        WRITE | DENYOOM | FAST,
        ONE_KEY,
        Group::List,
        "1.0.0",
        "O(N) in the number of elements added",
        "Adds elements at the tail of a list, creating it if needed.",
        push::rpush,
    ),
    command(
        "lpushx",
        -3,
        WRITE | DENYOOM | FAST,
        ONE_KEY,
        Group::List,
        "2.2.0",
        "O(N) in the number of elements added",
        "Adds elements at the head of a list that exists.",
        push::lpushx,
    ),
    command(
        "rpushx",
        -3,
        WRITE | DENYOOM | FAST,
        ONE_KEY,
        Group::List,
        "2.2.0",
        "O(N) in the number of elements added",
        "Adds elements at the tail of a list that exists.",
        push::rpushx,
    ),
    command(
        "linsert",
        5,
        WRITE | DENYOOM,
        ONE_KEY,
        Group::List,
        "2.2.0",
        "O(N) in the number of elements before the pivot",
        "Inserts an element before or after another.",
        push::linsert,
    ),
    command(
        "lset",
        4,
        WRITE | DENYOOM,
        ONE_KEY,
        Group::List,
        "1.0.0",
        "O(log N) in the length of the list",
        "Replaces the element at an index.",
        push::lset,
    ),
    command(
        "lpop",
        -2,
        WRITE | FAST,
        ONE_KEY,
        Group::List,
        "1.0.0",
        "O(N) in the number of elements returned",
        "Removes and returns elements from the head of a list.",
        pop::lpop,
    ),
    command(
        "rpop",
        -2,
        WRITE | FAST,
        ONE_KEY,
        Group::List,
        "1.0.0",
        "O(N) in the number of elements returned",
        "Removes and returns elements from the tail of a list.",
        pop::rpop,
    ),
    command(
        "lrem",
        4,
        WRITE,
        ONE_KEY,
        Group::List,
        "1.0.0",
        "O(N) in the length of the list",
        "Removes elements that equal a value.",
        pop::lrem,
    ),
    command(
        "ltrim",
        4,
        WRITE,
        ONE_KEY,
        Group::List,
        "1.0.0",
        "O(N) in the number of elements removed",
        "Removes what lies outside a range of indexes.",
        pop::ltrim,
    ),
    command(
        "lmpop",
        -4,
        WRITE | MOVABLE_KEYS,
        Keys::Counted { count: 1, also: 0 },
        Group::List,
        "7.0.0",
        "O(N+M), N being the number of keys and M the number of elements returned",
        "Pops elements from the first of several lists that exists.",
        pop::lmpop,
    ),
    command(
        "lmove",
        5,
        WRITE | DENYOOM,
        TWO_KEYS,
        Group::List,
        "6.2.0",
        "O(1)",
        "Moves an element from an end of one list to an end of another.",
        pop::lmove,
    ),
    command(
        "rpoplpush",
        3,
        WRITE | DENYOOM,
        TWO_KEYS,
        Group::List,
        "1.2.0",
        "O(1)",
        "Moves the last element of one list to the head of another.",
        pop::rpoplpush,
    ),
    command(
        "llen",
        2,
        READONLY | FAST,
        ONE_KEY,
        Group::List,
        "1.0.0",
        "O(1)",
        "Returns the length of a list.",
        read::llen,
    ),
    command(
        "lindex",
        3,
        READONLY,
        ONE_KEY,
        Group::List,
        "1.0.0",
        "O(log N) in the length of the list",
        "Returns the element at an index.",
        read::lindex,
    ),
    command(
        "lrange",
        4,
        READONLY | KNOWS_SIZE,
        ONE_KEY,
        Group::List,
        "1.0.0",
        "O(log N + M), M being the number of elements returned",
        "Returns the elements in a range of indexes.",
        read::lrange,
    ),
    command(
        "lpos",
        -3,
        READONLY,
        ONE_KEY,
        Group::List,
        "6.0.6",
        "O(N) in the number of elements compared",
        "Returns the indexes of elements that equal a value.",
        read::lpos,
    ),
    entry(
        "blpop",
        -3,
        WRITE | BLOCKING,
        BEFORE_TIMEOUT,
        Group::List,
        "2.0.0",
        "O(N) in the number of keys",
        "Pops the first element of one of several lists, waiting for one.",
        Decides(blocking::blpop),
    ),
    entry(
        "brpop",
        -3,
        WRITE | BLOCKING,
        BEFORE_TIMEOUT,
        Group::List,
        "2.0.0",
        "O(N) in the number of keys",
        "Pops the last element of one of several lists, waiting for one.",
        Decides(blocking::brpop),
    ),
    entry(
        "blmove",
        6,
        WRITE | DENYOOM | BLOCKING,
        TWO_KEYS,
        Group::List,
        "6.2.0",
        "O(1)",
        "Moves an element between two lists, waiting for one.",
        Decides(blocking::blmove),
    ),
    entry(
        "brpoplpush",
        4,
        WRITE | DENYOOM | BLOCKING,
        TWO_KEYS,
        Group::List,
        "2.2.0",
        "O(1)",
        "Moves the last element of one list to the head of another, waiting for one.",
        Decides(blocking::brpoplpush),
    ),
    entry(
        "blmpop",
        -5,
        WRITE | BLOCKING | MOVABLE_KEYS,
        Keys::Counted { count: 2, also: 0 },
        Group::List,
        "7.0.0",
        "O(N+M), N being the number of keys and M the number of elements returned",
        "Pops elements from the first of several lists that has some, waiting for one.",
        Decides(blocking::blmpop),
    ),
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
