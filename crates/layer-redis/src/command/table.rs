//! Finding a command by its name, and by the number under which it is counted.

use quartet_wire_resp::Arguments;
use rustc_hash::FxHashMap;

use crate::command::error_reply::ErrorReply;
use crate::command::{CATEGORIES, Command};

/// Longest name of a command or subcommand; a longer word is neither.
const NAME_BYTES_MAX: usize = 32;

/// All commands and subcommands: findable by name, numbered for counters.
pub struct Table {
    /// Full name (`get`, `config|get`) to the index in `all`.
    by_name: FxHashMap<&'static [u8], usize>,
    /// The index in `all` by address: a faster look-up than by name for commands from this table.
    by_address: FxHashMap<usize, usize>,
    all: Vec<&'static Command>,
    categories: Vec<&'static str>,
}

fn address(command: &'static Command) -> usize {
    std::ptr::from_ref(command).addr()
}

impl std::fmt::Debug for Table {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Table of {}", self.all.len())
    }
}

impl Table {
    /// Each container is directly followed by its subcommands. Panics if a name is repeated.
    pub fn new(all: Vec<&'static Command>) -> Table {
        let names: FxHashMap<_, _> = all
            .iter()
            .enumerate()
            .map(|(index, command)| (command.name.as_bytes(), index))
            .collect();
        assert_eq!(names.len(), all.len(), "a command stands in the table twice");
        let numbered = all.iter().enumerate();
        let addresses = numbered.map(|(index, command)| (address(command), index)).collect();
        let mut categories = CATEGORIES.to_vec();
        for category in all.iter().filter_map(|command| command.group.category()) {
            if !categories.contains(&category) {
                categories.push(category);
            }
        }
        Table {
            by_name: names,
            by_address: addresses,
            all,
            categories,
        }
    }

    /// All ACL categories: [`CATEGORIES`], then those that only modules have.
    pub fn categories(&self) -> &[&'static str] {
        &self.categories
    }

    /// Number of commands, subcommands included.
    pub fn size(&self) -> usize {
        self.all.len()
    }

    /// The commands, without the subcommands, in the table's order.
    pub fn commands(&self) -> impl Iterator<Item = &'static Command> {
        self.all.iter().copied().filter(|command| !command.name.contains('|'))
    }

    /// Commands and subcommands, in the order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = &'static Command> {
        self.all.iter().copied()
    }

    pub fn at(&self, index: usize) -> &'static Command {
        self.all[index]
    }

    /// The command's number, below [`Table::size`].
    pub fn index(&self, command: &'static Command) -> usize {
        let index_of_command = self.by_address.get(&address(command)).copied();
        index_of_command.unwrap_or_else(|| self.by_name[command.name.as_bytes()])
    }

    /// Looks a full name up, letters in any case: `GET`, `config|get`.
    pub fn find(&self, name: &[u8]) -> Option<&'static Command> {
        let mut lower = [0; 2 * NAME_BYTES_MAX];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.by_name.get(&*lower).map(|&index| self.all[index])
    }

    /// The subcommands of a container; of any other command none.
    pub fn subcommands(&self, command: &'static Command) -> &[&'static Command] {
        let first = self.index(command) + 1;
        &self.all[first..first + command.subcommand_count]
    }

    /// The same for a client whose latest command has this number: in a pipeline it is mostly the
    /// same again, and its name need not be looked for.
    #[inline]
    pub fn find_of_after(&self, latest: usize, arguments: Arguments<'_>) -> Result<&'static Command, ErrorReply> {
        let name = &arguments[0];
        match self.all.get(latest) {
            Some(command)
                if command.subcommand_count == 0
                    && name.eq_ignore_ascii_case(command.name.as_bytes())
                    && !name.contains(&b'|') =>
            {
                Ok(command)
            }
            _ => self.find_of(arguments),
        }
    }

    /// The command, or the subcommand, that a request names.
    pub fn find_of(&self, arguments: Arguments<'_>) -> Result<&'static Command, ErrorReply> {
        let name = &arguments[0];
        let Some(command) = self.find(name).filter(|_| !name.contains(&b'|')) else {
            return Err(unknown(arguments));
        };
        if command.subcommand_count == 0 {
            return Ok(command);
        }
        let Some(word) = arguments.get(1) else {
            if command.accepts(1) {
                return Ok(command);
            }
            return Err(format!("ERR wrong number of arguments for '{}' command", command.name).into());
        };
        let full_name = [command.name.as_bytes(), b"|", word].concat();
        self.find(&full_name).ok_or_else(|| {
            let word = printable(word, 128);
            format!(
                "ERR unknown subcommand '{word}'. Try {} HELP.",
                command.name.to_uppercase()
            )
            .into()
        })
    }
}

fn unknown(arguments: Arguments<'_>) -> ErrorReply {
    let mut text = String::new();
    for argument in arguments.iter().skip(1) {
        if text.len() >= 128 {
            break;
        }
        text += &format!("'{}' ", printable(argument, 128 - text.len()));
    }
    format!(
        "ERR unknown command '{}', with args beginning with: {text}",
        printable(&arguments[0], 128)
    )
    .into()
}

fn printable(bytes: &[u8], length_max: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(length_max)]).into_owned()
}
