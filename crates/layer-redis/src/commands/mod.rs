//! The table of commands, a family a file, and finding a command in it.

pub(crate) mod bits;
pub(crate) mod connection;
pub(crate) mod expiry;
pub(crate) mod geo;
pub(crate) mod hashes;
pub(crate) mod help;
pub(crate) mod hyperloglog;
pub(crate) mod json;
pub(crate) mod keys;
pub(crate) mod lists;
pub(crate) mod migration;
pub(crate) mod pubsub;
pub(crate) mod scripting;
pub(crate) mod serialization;
pub(crate) mod server;
pub(crate) mod sets;
pub(crate) mod sort;
pub(crate) mod sorted_sets;
pub(crate) mod streams;
pub(crate) mod strings;
pub(crate) mod transactions;

use std::sync::LazyLock;

#[cfg(test)]
use crate::command::table::Table;
use crate::command_set::Commands;
use crate::handler::definition::Definition;
use crate::module::Module;

/// The layer's own families that precede the commands of modules in the table.
static FAMILIES: &[&[Definition]] = &[
    strings::COMMANDS,
    bits::COMMANDS,
    hashes::COMMANDS,
    lists::COMMANDS,
    sets::COMMANDS,
    sorted_sets::COMMANDS,
    hyperloglog::COMMANDS,
    streams::COMMANDS,
    geo::COMMANDS,
    json::COMMANDS,
];

/// The layer's own families that follow them.
static GENERAL_FAMILIES: &[&[Definition]] = &[
    keys::COMMANDS,
    expiry::COMMANDS,
    serialization::COMMANDS,
    migration::COMMANDS,
    sort::COMMANDS,
    transactions::COMMANDS,
    scripting::COMMANDS,
    scripting::functions::COMMANDS,
    connection::COMMANDS,
    connection::client::COMMANDS,
    pubsub::COMMANDS,
    server::COMMANDS,
    server::acl::COMMANDS,
    server::cluster::COMMANDS,
    server::command_docs::COMMANDS,
    server::command_log::COMMANDS,
    server::config::COMMANDS,
    server::debug::COMMANDS,
    server::latency::COMMANDS,
    server::memory::COMMANDS,
    server::persistence::COMMANDS,
    server::slowlog::COMMANDS,
];

/// The layer's own commands and those of modules. Panics if a name is repeated.
pub fn with(modules: &'static [&'static dyn Module]) -> Commands {
    Commands::gather(FAMILIES, modules, GENERAL_FAMILIES)
}

/// The commands without those of modules.
pub fn own() -> &'static Commands {
    static OWN: LazyLock<Commands> = LazyLock::new(|| with(&[]));
    &OWN
}

/// The table of the layer's own commands.
#[cfg(test)]
pub fn table() -> &'static Table {
    &own().table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{READONLY, WRITE};

    #[test]
    fn every_row_is_whole() {
        let table = &own().table;
        for index in 0..table.size() {
            let command = table.at(index);
            assert!(
                !command.summary.is_empty() && command.summary.ends_with('.'),
                "{}",
                command.name
            );
            assert!(!(command.has(READONLY) && command.has(WRITE)), "{}", command.name);
            assert_eq!(command.name, command.name.to_lowercase());
            for subcommand in table.subcommands(command) {
                assert!(
                    subcommand.name.starts_with(&format!("{}|", command.name)),
                    "{}",
                    subcommand.name
                );
            }
        }
    }
}
