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
mod documents;
mod hybrid;
mod info;
mod lookup;
mod plan;
mod profile;
mod query;
mod reports;
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

use quartet_layer_redis::module_api::definition::*;

use crate::groups;

const READ: u32 = READONLY;
const CHANGE: u32 = WRITE | DENYOOM;

/// As at the original, each command checks the number of its arguments itself.
const FAMILY: Family = Family::of(groups::SEARCH).complexity("O(N) in the number of documents that are looked at");

/// The key after the index's name.
const DOCUMENT: Keys = Keys::Range {
    first: 2,
    last: 2,
    step: 1,
};
const DOCUMENTS: Keys = Keys::Range {
    first: 2,
    last: -1,
    step: 1,
};

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("ft.create", -1, CHANGE, "Makes an index over keys that begin with prefixes.", Answers(administration::create)),
    FAMILY.row("ft._createifnx", -1, CHANGE, "Makes an index unless there is one of this name.", Answers(administration::create_if_absent)).since("2.0.0"),
    FAMILY.row("ft.alter", -1, CHANGE, "Adds fields to an index.", Answers(administration::alter)),
    FAMILY.row("ft._alterifnx", -1, CHANGE, "Adds fields to an index unless it has them.", Answers(administration::alter_if_absent)).since("2.0.0"),
    FAMILY.row("ft.dropindex", -1, WRITE | DANGEROUS, "Removes an index, and its keys if asked to.", Decides(administration::drop_index)).since("2.0.0"),
    FAMILY.row("ft._dropindexifx", -1, WRITE | DANGEROUS, "Removes an index if there is one.", Decides(administration::drop_if_present)).since("2.0.0"),
    FAMILY.row("ft.drop", -1, WRITE | DANGEROUS, "Removes an index with its keys, or without them if asked to.", Decides(administration::drop_with_keys)),
    FAMILY.row("ft._dropifx", -1, WRITE | DANGEROUS, "Removes an index with its keys if there is one.", Decides(administration::drop_with_keys_if_present)).since("2.0.0"),
    FAMILY.row("ft.aliasadd", -1, WRITE | GROWS, "Gives an index another name.", Answers(administration::alias_add)),
    FAMILY.row("ft._aliasaddifnx", -1, WRITE | GROWS, "Gives an index another name unless that is in use.", Answers(administration::alias_add_if_absent)).since("2.0.0"),
    FAMILY.row("ft.aliasupdate", -1, WRITE | GROWS, "Gives an index another name, taking it from the one that had it.", Answers(administration::alias_update)),
    FAMILY.row("ft.aliasdel", -1, WRITE, "Removes an index's other name.", Answers(administration::alias_delete)),
    FAMILY.row("ft._aliasdelifx", -1, WRITE, "Removes an index's other name if there is one.", Answers(administration::alias_delete_if_present)).since("2.0.0"),
    FAMILY.row("ft.aliaslist", -1, READ, "Returns an index's other names.", Answers(administration::alias_list)).since("8.10.0"),
    FAMILY.row("ft._list", -1, READ, "Returns the names of all indexes.", Answers(administration::list)).since("2.0.0"),
    FAMILY.row("ft.info", -1, READ, "Returns what an index is and how full.", Answers(info::info)),
    FAMILY.row("ft.search", -1, READ, "Returns the keys that a query matches, the best first.", Decides(query::search)),
    FAMILY.row("ft.aggregate", -1, READ, "Groups, computes and sorts what a query matches.", Decides(aggregate::aggregate)).since("1.1.0"),
    FAMILY.row("ft.cursor", -1, READ, "Reads on in a result, or gives it up.", Answers(aggregate::cursor)).since("1.1.0"),
    FAMILY.row("ft.explain", -1, READ, "Returns how a query is read.", Answers(query::explain)),
    FAMILY.row("ft.explaincli", -1, READ, "Returns how a query is read, line by line.", Answers(query::explain_lines)),
    FAMILY.row("ft.tagvals", -1, READ | DANGEROUS | FOR_READERS, "Returns the values of a TAG field.", Decides(query::tag_values)),
    FAMILY.row("ft.hybrid", -1, READ, "Combines a search for words and one for vectors.", Decides(hybrid::hybrid)).since("8.4.0"),
    FAMILY.row("ft.profile", -1, READ, "Runs a search or an aggregation and tells what took how long.", Decides(profile::profile)).since("2.2.0"),
    FAMILY.row("ft.spellcheck", -1, READ, "Proposes terms for a query's words that no document has.", Decides(spelling::spell_check)).since("1.4.0"),
    FAMILY.row("ft.dictadd", -1, CHANGE, "Adds words to a dictionary.", Answers(dictionaries::add)).since("1.4.0"),
    FAMILY.row("ft.dictdel", -1, WRITE, "Removes words of a dictionary.", Answers(dictionaries::remove)).since("1.4.0"),
    FAMILY.row("ft.dictdump", -1, READ, "Returns the words of a dictionary.", Answers(dictionaries::dump)).since("1.4.0"),
    FAMILY.row("ft.synupdate", -1, CHANGE, "Adds words to a group of synonyms.", Answers(synonyms::update)).since("1.2.0"),
    FAMILY.row("ft.synadd", -1, WRITE, "Refused: FT.SYNUPDATE adds synonyms.", Answers(synonyms::add)).since("1.2.0"),
    FAMILY.row("ft.syndump", -1, READ, "Returns the words with synonyms and their groups.", Answers(synonyms::dump)).since("1.2.0"),
    FAMILY.row("ft.sugadd", -1, CHANGE, "Adds a text to those that are suggested.", Answers(suggestions::add)).keys(ONE_KEY).complexity("O(N) in the number of suggestions that begin with the text"),
    FAMILY.row("ft.sugget", -1, READ, "Returns the suggestions that begin with a text, the best first.", Answers(suggestions::get)).keys(ONE_KEY).complexity("O(N) in the number of suggestions that begin with the text"),
    FAMILY.row("ft.sugdel", -1, WRITE, "Removes a text of those that are suggested.", Answers(suggestions::remove)).keys(ONE_KEY).complexity("O(N) in the number of suggestions that begin with the text"),
    FAMILY.row("ft.suglen", -1, READ, "Returns how many texts are suggested.", Answers(suggestions::length)).keys(ONE_KEY).complexity("O(N) in the number of suggestions that begin with the text"),
    FAMILY.row("ft.add", -1, CHANGE, "Writes a hash for an index.", Answers(documents::add)).keys(DOCUMENT),
    FAMILY.row("ft.safeadd", -1, CHANGE, "Writes a hash for an index.", Answers(documents::add)).keys(DOCUMENT),
    FAMILY.row("ft.del", -1, WRITE, "Removes a key that an index has.", Answers(documents::delete)).keys(DOCUMENT),
    FAMILY.row("ft.get", -1, READ, "Returns the hash of a key in an index.", Decides(documents::get)).keys(DOCUMENT),
    FAMILY.row("ft.mget", -1, READ, "Returns the hashes of keys in an index.", Decides(documents::get_several)).keys(DOCUMENTS),
    FAMILY.row("ft.config", -1, READ | ADMIN_CATEGORY, "Returns or changes settings of search.", Answers(settings::config)),
];
