//! Vector sets: the commands V*, as Redis 8 has them in its module `vectorset`.
//!
//! ```text
//! the key's payload   id (10 bytes)  head (see `quartet_search::vectors::set::Head`)
//! elements            rows of `quartet_search::vectors::set`
//! ```
//!
//! That crate has the forms of vectors, the graph and conditions; this module has arguments,
//! replies and keys. An element is found once VADD has replied, with or without CAS, and a search
//! reads the transaction's rows. In larger sets an element is linked into the graph later, by
//! `execution::linking`. Replies and errors follow Redis 8.2.3's observed ones
//! (`tests/redis-oracle`), VRANGE <https://redis.io/docs/latest/commands/vrange/>.

mod add;
mod key;
mod read;
mod similar;
mod stored;
mod vector;

#[cfg(test)]
mod tests;

pub use self::add::ELEMENT_BYTES_MAX;
pub use self::key::{Changed, graph_row, head_and_mark, note_copy, put, rows_below, rows_to_read, waiting_row};
pub use self::similar::COMPARED_WITH_LOCK;
pub use self::stored::{head, is_sound, judge, nodes_hashed, replace, takes_long, value};
pub use self::vector::{of_blob, of_words};
use quartet_layer_redis::module_api::definition::*;

use crate::groups;

const READ: u32 = READONLY;
const FAST_READ: u32 = READONLY | FAST;

const FAMILY: Family = Family::of(groups::VECTOR_SET).keys(ONE_KEY).since("8.0.0");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("vadd", -1, WRITE | DENYOOM, "Adds an element to a vector set, or changes its vector.", Answers(add::add)).complexity("O(log(N)) in the number of elements"),
    FAMILY.row("vrem", -1, WRITE, "Removes an element from a vector set.", Answers(add::remove)).complexity("O(log(N)) in the number of elements"),
    FAMILY.row("vsim", -1, READ, "Returns the elements whose vectors are nearest to a vector.", Answers(similar::similar)).complexity("O(log(N)) in the number of elements"),
    FAMILY.row("vdim", -1, FAST_READ, "Returns the number of components of the vectors of a vector set.", Answers(read::dimensions)),
    FAMILY.row("vcard", -1, FAST_READ, "Returns the number of elements of a vector set.", Answers(read::count)),
    FAMILY.row("vemb", -1, FAST_READ, "Returns the vector of an element.", Answers(read::embedding)),
    FAMILY.row("vlinks", -1, FAST_READ, "Returns the elements that an element is linked to in the graph.", Answers(read::links)),
    FAMILY.row("vinfo", -1, FAST_READ, "Describes a vector set.", Answers(read::information)),
    FAMILY.row("vsetattr", -1, WRITE | FAST | GROWS, "Gives an element attributes, or takes them away.", Answers(add::set_attributes)),
    FAMILY.row("vgetattr", -1, FAST_READ, "Returns the attributes of an element.", Answers(read::attributes)),
    FAMILY.row("vrandmember", -1, READ, "Returns elements that are picked at random.", Answers(read::random_members)).complexity("O(N) in the number of elements that are returned"),
    FAMILY.row("vismember", -1, READ, "Determines whether a vector set has an element.", Answers(read::is_member)),
    FAMILY.row("vrange", -1, READ, "Returns elements in the order of their names.", Answers(read::range)).since("8.4.0").complexity("O(log(N)+M) in the numbers of all elements and of those returned"),
];
