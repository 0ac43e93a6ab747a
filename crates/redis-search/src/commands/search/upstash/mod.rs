//! Upstash's `redis.search`: the commands SEARCH.*, over `quartet_search::upstash` and
//! [`crate::indexes::KeyIndex`].
//!
//! An index is a key of type `search` in database 0, and follows its keys in their transactions as
//! any other index does. Requests and replies follow
//! <https://upstash.com/docs/redis/commands/search/overview>, and what `@upstash/redis` sends and
//! reads; `docs/search-upstash.md` says what is served.

mod administration;
mod contents;
mod lookup;
mod query;
mod reply;
pub(crate) mod streams;
pub(crate) mod upkeep;

#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;

use quartet_layer_redis::module_api::definition::*;

use crate::groups;

const READ: u32 = READONLY;
const CHANGE: u32 = WRITE | DENYOOM;

const FAMILY: Family = Family::of(groups::UPSTASH_SEARCH)
    .keys(ONE_KEY)
    .since("8.2.0")
    .complexity("O(N) in the number of documents that are looked at");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("search.create", -8, CHANGE, "Makes an index that is a key, over keys that begin with prefixes or the entries of a stream.", Answers(administration::create)),
    FAMILY.row("search.reindex", 2, CHANGE, "Fills an index anew.", Answers(administration::reindex)),
    FAMILY.row("search.drop", 2, WRITE, "Removes an index, not its keys.", Answers(administration::drop_index)),
    FAMILY.row("search.describe", 2, READ, "Returns what an index is.", Answers(administration::describe)),
    FAMILY.row("search.listindexes", -1, READ, "Returns the names of indexes with the kinds of their keys.", Answers(administration::list_indexes)).keys(NO_KEYS),
    FAMILY.row("search.waitindexing", 2, READ, "Returns when an index is full.", Decides(administration::wait_indexing)),
    FAMILY.row("search.query", -3, READ, "Returns the documents that a filter matches, the best first.", Decides(query::query)),
    FAMILY.row("search.count", 3, READ, "Returns how many documents a filter matches.", Decides(query::count)),
    FAMILY.row("search.aggregate", 4, READ, "Groups and computes what a filter matches.", Decides(query::aggregate)),
    FAMILY.row("search.aliasadd", 3, CHANGE, "Gives an index another name, taking it from the one that had it.", Answers(administration::alias_add)).keys(NO_KEYS),
    FAMILY.row("search.aliasdel", 2, WRITE, "Removes an index's other name.", Answers(administration::alias_delete)).keys(NO_KEYS),
    FAMILY.row("search.listaliases", 1, READ, "Returns other names with those of their indexes.", Answers(administration::list_aliases)).keys(NO_KEYS),
];
