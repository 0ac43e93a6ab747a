//! JSON documents: the commands JSON.*, as RedisJSON 2 has them.
//!
//! A short document is a key's payload as its shortest text; a long one is stored in pieces
//! (`rows`, `pieces`). A command with a path to a single value reads and writes only the pieces on
//! that path. With any other path, a read starts at the value that the path's first steps lead to,
//! and a change reads and writes the whole document. Replies and errors follow
//! <https://redis.io/docs/latest/commands/json.set/> and the related pages, and the expectations of
//! the tests of redis-py and of `@upstash/redis`.
//!
//! A path of the older kind means one value, and its answer is that value's; a JSONPath means many,
//! and its answer is an array with null for those of a wrong kind.

mod answers;
mod arrays;
mod document;
mod judging;
mod path;
mod pieces;
mod read;
mod rows;
mod scalars;
mod text;
mod write;

#[cfg(test)]
mod by_path;
#[cfg(test)]
mod tests;

pub use self::document::Json;
pub use self::judging::{Pieced, judge as verify_pieces};
pub use self::path::Path;
pub use self::rows::{Head, Matches, Stored, put, text, text_bytes};
use crate::commands::help::help_command;
use crate::handler::definition::*;

const READ: u32 = READONLY;
const CHANGE: u32 = WRITE | DENYOOM;
/// All arguments but the last.
const KEYS_AND_PATH: Keys = Keys::Range {
    first: 1,
    last: -2,
    step: 1,
};
/// Each key is followed by a path and a value.
const TRIPLES: Keys = Keys::Range {
    first: 1,
    last: -1,
    step: 3,
};
const SECOND_KEY: Keys = Keys::Range {
    first: 2,
    last: 2,
    step: 1,
};

const FAMILY: Family = Family::of(Group::Json)
    .keys(ONE_KEY)
    .complexity("O(N) in the size of the document");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("json.set", -4, CHANGE, "Sets the values at a path, or makes a document.", Answers(write::set)),
    FAMILY.row("json.get", -2, READ, "Returns the values at paths as JSON.", Answers(read::get)),
    FAMILY.row("json.mget", -3, READ, "Returns the values at a path of several documents.", Answers(read::mget)).keys(KEYS_AND_PATH),
    FAMILY.row("json.mset", -4, CHANGE, "Sets values at paths of several documents, all or none.", Answers(write::mset)).keys(TRIPLES),
    FAMILY.row("json.merge", 4, CHANGE, "Merges a value into those at a path.", Answers(write::merge)),
    FAMILY.row("json.del", -2, WRITE, "Removes the values at a path.", Answers(write::del)),
    FAMILY.row("json.forget", -2, WRITE, "Removes the values at a path.", Answers(write::del)),
    FAMILY.row("json.clear", -2, WRITE, "Empties containers and sets numbers to zero.", Answers(write::clear)),
    FAMILY.row("json.type", -2, READ, "Names the kinds of the values at a path.", Answers(read::kind)),
    FAMILY.row("json.resp", -2, READ, "Returns the values at a path as replies instead of text.", Answers(read::resp)),
    FAMILY.row("json.objkeys", -2, READ, "Returns the names of objects' members.", Answers(read::object_keys)),
    FAMILY.row("json.objlen", -2, READ, "Counts the members of objects.", Answers(read::object_length)),
    FAMILY.row("json.strlen", -2, READ, "Returns the lengths of strings in bytes.", Answers(read::string_length)),
    FAMILY.row("json.arrlen", -2, READ, "Counts the elements of arrays.", Answers(read::array_length)),
    FAMILY.row("json.strappend", -3, CHANGE, "Appends to strings.", Answers(scalars::append)),
    FAMILY.row("json.toggle", -2, CHANGE, "Turns booleans round.", Answers(scalars::toggle)),
    FAMILY.row("json.numincrby", 4, CHANGE, "Adds to numbers.", Answers(scalars::increment)),
    FAMILY.row("json.nummultby", 4, CHANGE, "Multiplies numbers.", Answers(scalars::multiply)),
    FAMILY.row("json.numpowby", 4, CHANGE, "Raises numbers to a power.", Answers(scalars::raise)),
    FAMILY.row("json.arrappend", -4, CHANGE, "Appends elements to arrays.", Answers(arrays::append)),
    FAMILY.row("json.arrinsert", -5, CHANGE, "Inserts elements into arrays.", Answers(arrays::insert)),
    FAMILY.row("json.arrindex", -4, READ, "Finds a value in arrays.", Answers(arrays::index)),
    FAMILY.row("json.arrpop", -2, WRITE, "Removes and returns elements of arrays.", Answers(arrays::pop)),
    FAMILY.row("json.arrtrim", 5, WRITE, "Keeps a range of arrays' elements.", Answers(arrays::trim)),
    container("json.debug", Group::Json, "1.0.0", "Holds commands for those who look after documents.", SUBCOMMANDS),
];

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    help_command("json.debug|help", Group::Json, "1.0.0"),
    FAMILY.row("json.debug|memory", -3, READ, "Returns the bytes that the values at a path take.", Answers(read::memory)).keys(SECOND_KEY),
];
