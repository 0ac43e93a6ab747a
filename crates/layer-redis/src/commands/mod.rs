//! The table of commands, a family a file, and finding a command in it.

pub mod bits;
pub mod connection;
pub mod expiry;
pub mod geo;
pub mod hashes;
pub mod help;
pub mod hyperloglog;
pub mod json;
pub mod keys;
pub mod lists;
pub mod migration;
pub mod pubsub;
pub mod scripting;
pub mod serialization;
pub mod server;
pub mod sets;
pub mod sort;
pub mod sorted_sets;
pub mod streams;
pub mod strings;
pub mod transactions;

use std::sync::LazyLock;

use quartet_wire_resp::Arguments;
use rustc_hash::FxHashMap;

use crate::command::{Command, Failure};

/// Every family's part of the table.
static FAMILIES: &[&[Command]] = &[
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

/// Longest name of a command or subcommand; a longer word is neither.
const NAME_BYTES_MAX: usize = 32;

/// All commands and subcommands: findable by name, numbered for counters.
pub struct Table {
    /// Full name (`get`, `config|get`) to the index in `all`.
    by_name: FxHashMap<&'static [u8], usize>,
    all: Vec<&'static Command>,
}

/// A command that was found, with its number.
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let top = FAMILIES.iter().flat_map(|family| family.iter());
    let all: Vec<&'static Command> = top
        .flat_map(|command| std::iter::once(command).chain(command.subcommands))
        .collect();
    let by_name: FxHashMap<_, _> = all
        .iter()
        .enumerate()
        .map(|(index, command)| (command.name.as_bytes(), index))
        .collect();
    assert_eq!(by_name.len(), all.len(), "a command stands in the table twice");
    Table { by_name, all }
});

/// The table of all commands.
pub fn table() -> &'static Table {
    &TABLE
}

impl Table {
    /// Number of commands, subcommands included.
    pub fn size(&self) -> usize {
        self.all.len()
    }

    /// The commands, without the subcommands, in the table's order.
    pub fn commands(&self) -> impl Iterator<Item = &'static Command> {
        self.all.iter().copied().filter(|command| !command.name.contains('|'))
    }

    pub fn at(&self, index: usize) -> &'static Command {
        self.all[index]
    }

    /// The command's number, below [`Table::size`].
    pub fn index(&self, command: &'static Command) -> usize {
        self.by_name[command.name.as_bytes()]
    }

    /// Looks a full name up, letters in any case: `GET`, `config|get`.
    pub fn find(&self, name: &[u8]) -> Option<&'static Command> {
        let mut lower = [0; 2 * NAME_BYTES_MAX];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.by_name.get(&*lower).map(|&index| self.all[index])
    }
}

/// The command, or the subcommand, that a request names.
pub fn find(arguments: Arguments<'_>) -> Result<&'static Command, Failure> {
    let name = &arguments[0];
    let Some(command) = table().find(name).filter(|_| !name.contains(&b'|')) else {
        return Err(unknown(arguments));
    };
    if command.subcommands.is_empty() {
        return Ok(command);
    }
    let Some(word) = arguments.get(1) else {
        if command.accepts(1) {
            return Ok(command);
        }
        return Err(format!("ERR wrong number of arguments for '{}' command", command.name).into());
    };
    let full_name = [command.name.as_bytes(), b"|", word].concat();
    table().find(&full_name).ok_or_else(|| {
        let word = printable(word, 128);
        format!(
            "ERR unknown subcommand '{word}'. Try {} HELP.",
            command.name.to_uppercase()
        )
        .into()
    })
}

fn unknown(arguments: Arguments<'_>) -> Failure {
    let mut shown = String::new();
    for argument in arguments.iter().skip(1) {
        if shown.len() >= 128 {
            break;
        }
        shown += &format!("'{}' ", printable(argument, 128 - shown.len()));
    }
    format!(
        "ERR unknown command '{}', with args beginning with: {shown}",
        printable(&arguments[0], 128)
    )
    .into()
}

fn printable(bytes: &[u8], length_max: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(length_max)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{READONLY, WRITE};

    #[test]
    fn every_row_is_whole() {
        for command in &table().all {
            assert!(
                !command.summary.is_empty() && command.summary.ends_with('.'),
                "{}",
                command.name
            );
            assert!(!(command.has(READONLY) && command.has(WRITE)), "{}", command.name);
            assert_eq!(command.name, command.name.to_lowercase());
            for subcommand in command.subcommands {
                assert!(
                    subcommand.name.starts_with(&format!("{}|", command.name)),
                    "{}",
                    subcommand.name
                );
            }
        }
    }
}
