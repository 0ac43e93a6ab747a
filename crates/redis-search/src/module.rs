//! The module: its commands, its data types, and the layer's calls.

use std::any::Any;
use std::time::Duration;

use quartet_engine::{Transaction, Verification};
use quartet_layer_redis::module_api::{
    Command, DataType, Definition, Events, Module, Modules, Redis, TransactionEnds, Unindexed, User,
};
use quartet_wire_rdb::file::Writer;
use quartet_wire_resp::Arguments;

use crate::commands::search::administration::dropped_with_keys;
use crate::commands::search::{dictionaries, saved, upstash};
use crate::commands::{search, vector_indexes, vector_sets};
use crate::data_types;
use crate::indexes::{self, Catalogue, Cursors, Indexes};
use crate::invariants;
use crate::state::{Search, SearchState};

/// The module: the row of a server's list of modules.
pub struct SearchModule;

impl Module for SearchModule {
    fn names(&self) -> &'static [(&'static str, i64)] {
        &[("search", 20_810), ("vectorset", 1)]
    }

    fn commands(&self) -> &'static [&'static [Definition]] {
        &[
            search::COMMANDS,
            upstash::COMMANDS,
            vector_indexes::COMMANDS,
            vector_sets::COMMANDS,
        ]
    }

    fn arguments(&self) -> &'static str {
        include_str!("arguments.txt")
    }

    fn events(&self) -> &'static [(&'static [&'static str], Events)] {
        &[
            // A vector set has no other events, as at the original.
            (
                &[
                    "ft.sugadd",
                    "vadd",
                    "vrem",
                    "vsetattr",
                    "vector.create",
                    "vector.add",
                    "vector.del",
                ],
                Events::Created,
            ),
            (
                &[
                    "ft.dropindex",
                    "ft._dropindexifx",
                    "ft.drop",
                    "ft._dropifx",
                    "ft.del",
                    "vector.drop",
                ],
                Events::Removed,
            ),
            (&["ft.add", "ft.safeadd"], Events::OfHash("hset")),
        ]
    }

    fn sent_as_they_came(&self) -> &'static [&'static str] {
        &[
            "vadd",
            "vrem",
            "vsetattr",
            "vector.create",
            "vector.add",
            "vector.del",
            "vector.drop",
            "ft.sugadd",
            "ft.sugdel",
        ]
    }

    /// Definitions, which are no keys.
    fn always_sent(&self) -> &'static [&'static str] {
        &[
            "ft.create",
            "ft._createifnx",
            "ft.alter",
            "ft._alterifnx",
            "ft.aliasadd",
            "ft._aliasaddifnx",
            "ft.aliasupdate",
            "ft.aliasdel",
            "ft._aliasdelifx",
            "ft.synupdate",
            "ft.dictadd",
            "ft.dictdel",
            "search.create",
            "search.reindex",
            "search.drop",
            "search.aliasadd",
            "search.aliasdel",
        ]
    }

    fn data_types(&self) -> &'static [&'static dyn DataType] {
        data_types::ALL
    }

    fn open(&self, ends: TransactionEnds) -> Box<dyn Any + Send + Sync> {
        Box::new(SearchState {
            indexes: Indexes::new(ends),
            cursors: Cursors::default(),
        })
    }

    fn keys_changed(
        &self,
        layer: &Redis,
        tx: &mut Transaction<'_>,
        changed: &Unindexed,
        now_ms: u64,
    ) -> Result<(), &'static str> {
        Search::of(layer).follow(tx, changed, now_ms)
    }

    fn committed(&self, layer: &Redis) {
        Search::of(layer).indexes.commit();
    }

    fn rolled_back(&self, layer: &Redis) {
        Search::of(layer).indexes.discard();
    }

    fn tick(&self, layer: &Redis) {
        let search = Search::of(layer);
        search.fill_indexes();
        search.indexes.resident_sets.count(layer.engine.memory());
    }

    fn expire(&self, layer: &Redis) {
        Search::of(layer).drop_idle_indexes();
    }

    fn work(&self, layer: &Redis) -> Option<Duration> {
        Search::of(layer).link_vectors()
    }

    fn before_long_run(&self, layer: &Redis, user: &User, command: &'static Command, arguments: Arguments<'_>) {
        let search = Search::of(layer);
        search.await_filled_indexes();
        // FT.DROPINDEX DD finds few keys left when it runs.
        if let Some(index) = dropped_with_keys(arguments) {
            search.remove_keys_of_index(&index, user, command, arguments);
        }
    }

    fn clear(&self, tx: &mut Transaction<'_>) {
        indexes::clear(tx);
    }

    fn save_before_keys(&self, tx: &mut Transaction<'_>, writer: &mut Writer, out: &mut Vec<u8>) {
        let indexes = saved::indexes(tx);
        if !indexes.is_empty() {
            writer.search_indexes(&indexes, out);
        }
    }

    fn save_after_keys(&self, tx: &mut Transaction<'_>, writer: &mut Writer, out: &mut Vec<u8>) {
        let aliases = aliases(&Catalogue::of_rows(tx));
        if !aliases.is_empty() {
            writer.search_aliases(&aliases, out);
        }
        let dictionaries = dictionaries::all(tx);
        if !dictionaries.is_empty() {
            writer.dictionaries(&dictionaries, out);
        }
    }

    fn verify(&self, modules: &Modules, verification: &mut Verification<'_>) {
        invariants::search::verify(modules, verification);
    }
}

/// Pairs of an alias and the name of an index that is a key.
fn aliases(catalogue: &Catalogue) -> Vec<[Vec<u8>; 2]> {
    let pairs = catalogue.key_aliases().iter();
    pairs.map(|(alias, index)| [alias.clone(), index.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use quartet_layer_redis::module_api::WRITE;

    use crate::testing::commands;

    #[test]
    fn every_name_in_the_lists_is_a_command() {
        let table = &commands().table;
        for module in commands().modules.all() {
            let event_names = module.events().iter().flat_map(|(names, _)| names.iter());
            let sent = module.sent_as_they_came().iter().chain(module.always_sent());
            for name in event_names.chain(sent) {
                let command = table.find(name.as_bytes());
                assert!(command.is_some_and(|command| command.has(WRITE)), "{name}");
            }
            for line in module.arguments().lines() {
                let (name, _) = line.split_once(' ').unwrap();
                assert!(table.find(name.as_bytes()).is_some(), "{name}");
            }
        }
    }

    /// A module's command checks the number of its arguments itself unless COMMAND INFO shows it.
    #[test]
    fn every_command_with_a_number_of_arguments_describes_them() {
        for command in commands().table.all().filter(|command| command.arity.abs() > 1) {
            let words = 1 + command.name.matches('|').count() as i32;
            let takes_any = command.subcommand_count == 0 && command.arity.abs() > words;
            assert!(
                !takes_any || !commands().arguments_of(command).is_empty(),
                "{}",
                command.name
            );
        }
    }
}
