//! Upstash's `redis.search`: the commands SEARCH.*, over `quartet_search::filter` and
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

use crate::handler::definition::*;

const READ: u32 = READONLY;
const CHANGE: u32 = WRITE | DENYOOM;

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    row("search.create", -8, CHANGE, ONE_KEY, "Makes an index that is a key, over keys that begin with prefixes or the entries of a stream.", Answers(administration::create)),
    row("search.reindex", 2, CHANGE, ONE_KEY, "Fills an index anew.", Answers(administration::reindex)),
    row("search.drop", 2, WRITE, ONE_KEY, "Removes an index, not its keys.", Answers(administration::drop_index)),
    row("search.describe", 2, READ, ONE_KEY, "Returns what an index is.", Answers(administration::describe)),
    row("search.listindexes", -1, READ, NO_KEYS, "Returns the names of indexes with the kinds of their keys.", Answers(administration::list_indexes)),
    row("search.waitindexing", 2, READ, ONE_KEY, "Returns when an index is full.", Decides(administration::wait_indexing)),
    row("search.query", -3, READ, ONE_KEY, "Returns the documents that a filter matches, the best first.", Decides(query::query)),
    row("search.count", 3, READ, ONE_KEY, "Returns how many documents a filter matches.", Decides(query::count)),
    row("search.aggregate", 4, READ, ONE_KEY, "Groups and computes what a filter matches.", Decides(query::aggregate)),
    row("search.aliasadd", 3, CHANGE, NO_KEYS, "Gives an index another name, taking it from the one that had it.", Answers(administration::alias_add)),
    row("search.aliasdel", 2, WRITE, NO_KEYS, "Removes an index's other name.", Answers(administration::alias_delete)),
    row("search.listaliases", 1, READ, NO_KEYS, "Returns other names with those of their indexes.", Answers(administration::list_aliases)),
];

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    keys: Keys,
    summary: &'static str,
    handler: Handler,
) -> Definition {
    let complexity = "O(N) in the number of documents that are looked at";
    entry(
        name,
        arity,
        flags,
        keys,
        Group::Search,
        "8.2.0",
        complexity,
        summary,
        handler,
    )
}
