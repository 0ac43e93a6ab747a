//! Search: the commands FT.*, over `quartet_search` and [`crate::indexes`].
//!
//! Requests, replies and texts of errors follow
//! <https://redis.io/docs/latest/commands/?group=search> and what search 2.10 was seen to answer;
//! `docs/search.md` says what is served.

pub(crate) mod administration;
mod aggregate;
mod arguments;
mod content;
mod contents;
pub mod dictionaries;
mod hybrid;
mod info;
mod lookup;
mod profile;
mod query;
pub mod saved;
mod settings;
mod spelling;
pub(crate) mod suggestions;
mod summaries;
mod synonyms;
pub(crate) mod upkeep;
pub(crate) mod upstash;

#[cfg(test)]
mod tests;

use crate::handler::definition::*;

const READ: u32 = READONLY;
const CHANGE: u32 = WRITE | DENYOOM;

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    row("ft.create", CHANGE, "1.0.0", "Makes an index over keys that begin with prefixes.", Answers(administration::create)),
    row("ft._createifnx", CHANGE, "2.0.0", "Makes an index unless there is one of this name.", Answers(administration::create_if_absent)),
    row("ft.alter", CHANGE, "1.0.0", "Adds fields to an index.", Answers(administration::alter)),
    row("ft._alterifnx", CHANGE, "2.0.0", "Adds fields to an index unless it has them.", Answers(administration::alter_if_absent)),
    row("ft.dropindex", WRITE | DANGEROUS, "2.0.0", "Removes an index, and its keys if asked to.", Decides(administration::drop_index)),
    row("ft._dropindexifx", WRITE | DANGEROUS, "2.0.0", "Removes an index if there is one.", Decides(administration::drop_if_present)),
    row("ft.aliasadd", WRITE, "1.0.0", "Gives an index another name.", Answers(administration::alias_add)),
    row("ft._aliasaddifnx", WRITE, "2.0.0", "Gives an index another name unless that is in use.", Answers(administration::alias_add_if_absent)),
    row("ft.aliasupdate", WRITE, "1.0.0", "Gives an index another name, taking it from the one that had it.", Answers(administration::alias_update)),
    row("ft.aliasdel", WRITE, "1.0.0", "Removes an index's other name.", Answers(administration::alias_delete)),
    row("ft._aliasdelifx", WRITE, "2.0.0", "Removes an index's other name if there is one.", Answers(administration::alias_delete_if_present)),
    row("ft.aliaslist", READ, "8.10.0", "Returns an index's other names.", Answers(administration::alias_list)),
    row("ft._list", READ, "2.0.0", "Returns the names of all indexes.", Answers(administration::list)),
    row("ft.info", READ, "1.0.0", "Returns what an index is and how full.", Answers(info::info)),
    row("ft.search", READ, "1.0.0", "Returns the keys that a query matches, the best first.", Decides(query::search)),
    row("ft.aggregate", READ, "1.1.0", "Groups, computes and sorts what a query matches.", Decides(aggregate::aggregate)),
    row("ft.cursor", READ, "1.1.0", "Reads on in a result, or gives it up.", Answers(aggregate::cursor)),
    row("ft.explain", READ, "1.0.0", "Returns how a query is read.", Answers(query::explain)),
    row("ft.explaincli", READ, "1.0.0", "Returns how a query is read, line by line.", Answers(query::explain_lines)),
    row("ft.tagvals", READ | DANGEROUS, "1.0.0", "Returns the values of a TAG field.", Decides(query::tag_values)),
    row("ft.hybrid", READ, "8.4.0", "Combines a search for words and one for vectors.", Decides(hybrid::hybrid)),
    row("ft.profile", READ, "2.2.0", "Runs a search or an aggregation and tells what took how long.", Decides(profile::profile)),
    row("ft.spellcheck", READ, "1.4.0", "Proposes terms for a query's words that no document has.", Decides(spelling::spell_check)),
    row("ft.dictadd", CHANGE, "1.4.0", "Adds words to a dictionary.", Answers(dictionaries::add)),
    row("ft.dictdel", WRITE, "1.4.0", "Removes words of a dictionary.", Answers(dictionaries::remove)),
    row("ft.dictdump", READ, "1.4.0", "Returns the words of a dictionary.", Answers(dictionaries::dump)),
    row("ft.synupdate", CHANGE, "1.2.0", "Adds words to a group of synonyms.", Answers(synonyms::update)),
    row("ft.syndump", READ, "1.2.0", "Returns the words with synonyms and their groups.", Answers(synonyms::dump)),
    row_of_key("ft.sugadd", CHANGE, "Adds a text to those that are suggested.", Answers(suggestions::add)),
    row_of_key("ft.sugget", READ, "Returns the suggestions that begin with a text, the best first.", Answers(suggestions::get)),
    row_of_key("ft.sugdel", WRITE, "Removes a text of those that are suggested.", Answers(suggestions::remove)),
    row_of_key("ft.suglen", READ, "Returns how many texts are suggested.", Answers(suggestions::length)),
    row("ft.config", READ | ADMIN_CATEGORY, "1.0.0", "Returns or changes settings of search.", Answers(settings::config)),
];

/// As at the original, each checks the number of its arguments itself.
const fn row(
    name: &'static str,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    handler: Handler,
) -> Definition {
    let complexity = "O(N) in the number of documents that are looked at";
    entry(
        name,
        -1,
        flags,
        NO_KEYS,
        Group::Search,
        since,
        complexity,
        summary,
        handler,
    )
}

const fn row_of_key(name: &'static str, flags: u32, summary: &'static str, handler: Handler) -> Definition {
    let complexity = "O(N) in the number of suggestions that begin with the text";
    entry(
        name,
        -1,
        flags,
        ONE_KEY,
        Group::Search,
        "1.0.0",
        complexity,
        summary,
        handler,
    )
}
