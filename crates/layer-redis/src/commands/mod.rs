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
pub(crate) mod search;
pub(crate) mod serialization;
pub(crate) mod server;
pub(crate) mod sets;
pub(crate) mod sort;
pub(crate) mod sorted_sets;
pub(crate) mod streams;
pub(crate) mod strings;
pub(crate) mod transactions;
pub(crate) mod vector_indexes;
pub(crate) mod vector_sets;

use std::sync::LazyLock;

use crate::command::table::Table;
use crate::handler::definition::{Definition, Handler};

/// Every family's part of the table.
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
    search::COMMANDS,
    search::upstash::COMMANDS,
    vector_indexes::COMMANDS,
    vector_sets::COMMANDS,
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

/// Every command, followed by its subcommands if it is a container.
fn definitions() -> impl Iterator<Item = &'static Definition> {
    let top = FAMILIES.iter().flat_map(|family| family.iter());
    top.flat_map(|definition| std::iter::once(definition).chain(definition.subcommands))
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::new(definitions().map(|definition| &definition.command).collect()));

static HANDLERS: LazyLock<Vec<Handler>> =
    LazyLock::new(|| definitions().map(|definition| definition.handler).collect());

/// The table of all commands.
pub fn table() -> &'static Table {
    &TABLE
}

/// The handler of each command, by its number in the table.
pub fn handlers() -> &'static [Handler] {
    &HANDLERS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{READONLY, WRITE};

    #[test]
    fn every_row_is_whole() {
        for index in 0..table().size() {
            let command = table().at(index);
            assert!(
                !command.summary.is_empty() && command.summary.ends_with('.'),
                "{}",
                command.name
            );
            assert!(!(command.has(READONLY) && command.has(WRITE)), "{}", command.name);
            assert_eq!(command.name, command.name.to_lowercase());
            for subcommand in table().subcommands(command) {
                assert!(
                    subcommand.name.starts_with(&format!("{}|", command.name)),
                    "{}",
                    subcommand.name
                );
            }
        }
    }
}
