//! One set of permissions: commands, keys, channels. One selector must allow the whole request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quartet_wire_resp::Arguments;

use super::Denial;
use super::rules::SYNTAX;
use crate::command::changes_subscriptions;
use crate::command::glob;
use crate::command::key_flags::{Access, access};
use crate::command::table::Table;
use crate::command::{Command, NO_AUTH, PUBSUB};
use crate::listed::Listed;

/// Two selectors are equal if they allow the same, independent of the rules that were given.
#[derive(Clone, Debug)]
pub struct Selector {
    /// The table of the indexes in use.
    pub table: &'static Table,
    /// One bit a command, at its index in the table.
    commands: Vec<u64>,
    /// By a command's index: the first arguments with which it is allowed, in lower case.
    first_arguments: BTreeMap<usize, BTreeSet<Vec<u8>>>,
    /// The rules that led there, without their signs, the first of them `@all`; and whether each
    /// allows.
    command_rules: Listed<Arc<str>, bool>,
    /// Every key, for reading and writing.
    all_keys: bool,
    /// Patterns of keys, with what each allows.
    keys: Listed<Arc<[u8]>, Access>,
    all_channels: bool,
    channels: Listed<Arc<[u8]>>,
}

/// The rule that gives a pattern of keys. `~*` would be every key, and no further pattern may
/// follow it.
fn key_rule(pattern: &[u8], access: Access) -> Vec<u8> {
    if access == Access::BOTH && pattern == b"*" {
        return b"%RW~*".to_vec();
    }
    [access.prefix().as_bytes(), pattern].concat()
}

/// Memory for an entry of a list beside its text, about.
const ENTRY_BYTES: usize = 64;
const UNKNOWN: &str = "Unknown command or category name in ACL";
const FIRST_ARGUMENT_OF_SUBCOMMAND: &str = "Allowing first-arg of a subcommand is not supported";
const BEHIND_ALL_KEYS: &str = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                               effect. Try 'resetkeys' to start with an empty list of patterns";
const BEHIND_ALL_CHANNELS: &str = "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not \
                                   have any effect. Try 'resetchannels' to start with an empty list of channels";

impl PartialEq for Selector {
    fn eq(&self, other: &Selector) -> bool {
        self.allowed() == other.allowed()
    }
}

impl Eq for Selector {}

impl Selector {
    /// Memory for the selector, about.
    pub fn bytes(&self) -> usize {
        let keys = self.keys.iter().map(|(pattern, _)| ENTRY_BYTES + pattern.len());
        let channels = self.channels.iter().map(|(pattern, ())| ENTRY_BYTES + pattern.len());
        let rules = self.command_rules.iter().map(|(rule, _)| ENTRY_BYTES + rule.len());
        let words = self.first_arguments.values().flatten().map(|word| 64 + word.len());
        let lists = keys.sum::<usize>() + channels.sum::<usize>() + rules.sum::<usize>() + words.sum::<usize>();
        size_of::<Selector>() + 8 * self.commands.len() + lists
    }

    /// Allows nothing, or only channels.
    pub fn new(table: &'static Table, all_channels: bool) -> Selector {
        let mut selector = Selector {
            table,
            commands: vec![0; table.size().div_ceil(64)],
            first_arguments: BTreeMap::new(),
            command_rules: Listed::default(),
            all_keys: false,
            keys: Listed::default(),
            all_channels,
            channels: Listed::default(),
        };
        selector.set_all_commands(false);
        selector
    }

    pub fn of_everything(table: &'static Table) -> Selector {
        let mut selector = Selector::new(table, true);
        selector.all_keys = true;
        selector.set_all_commands(true);
        selector
    }

    pub fn is_of_everything(&self) -> bool {
        self.all_keys && self.all_channels && self.allows_by_rules_all()
    }

    /// `+@all` is the only rule about commands.
    fn allows_by_rules_all(&self) -> bool {
        self.command_rules.len() == 1 && self.command_rules.iter().all(|(_, allows)| *allows)
    }

    fn allowed(&self) -> impl PartialEq {
        let commands = (&self.commands, &self.first_arguments);
        (commands, self.all_keys, &self.keys, self.all_channels, &self.channels)
    }

    pub fn check(&self, command: &'static Command, arguments: Arguments<'_>) -> Result<(), Denial> {
        if !self.allows_command(command, arguments) {
            return Err(Denial::Command);
        }
        self.check_keys(command, arguments)?;
        self.check_channels(command, arguments)
    }

    fn allows_command(&self, command: &'static Command, arguments: Arguments<'_>) -> bool {
        let index = self.table.index(command);
        let allows_first = |first: &[u8]| {
            let listed = self.first_arguments.get(&index);
            listed.is_some_and(|listed| listed.iter().any(|other| other.eq_ignore_ascii_case(first)))
        };
        command.has(NO_AUTH) || self.has(index) || arguments.get(1).is_some_and(allows_first)
    }

    /// Returns true if the command is allowed with any arguments.
    pub fn has_command(&self, command: &'static Command) -> bool {
        self.has(self.table.index(command))
    }

    fn check_keys(&self, command: &'static Command, arguments: Arguments<'_>) -> Result<(), Denial> {
        if self.all_keys {
            return Ok(());
        }
        for (index, position) in command.keys.positions(arguments).into_iter().enumerate() {
            if !self.allows_key(access(command, arguments, index), &arguments[position]) {
                return Err(Denial::Key(position));
            }
        }
        Ok(())
    }

    /// A key that is neither read nor written but looked at needs any pattern that matches.
    fn allows_key(&self, wanted: Access, name: &[u8]) -> bool {
        let mut patterns = self.keys.iter();
        patterns.any(|(pattern, access)| access.includes(wanted) && glob::matches(pattern, name))
    }

    /// Every key with one of these prefixes may be read, and written if `writes`.
    pub fn has_prefixes(&self, prefixes: &[Vec<u8>], writes: bool) -> bool {
        prefixes.iter().all(|prefix| self.has_prefix(prefix, writes))
    }

    /// Returns true if every key with the prefix may be read, and with `writes` also written. A
    /// pattern grants this only if it is a prefix of `prefix`, followed by a star.
    fn has_prefix(&self, prefix: &[u8], writes: bool) -> bool {
        let wanted = Access { reads: true, writes };
        let covers = |pattern: &[u8]| {
            let start = pattern.strip_suffix(b"*");
            start.is_some_and(|start| !start.iter().any(|byte| b"*?[\\".contains(byte)) && prefix.starts_with(start))
        };
        let mut patterns = self.keys.iter();
        self.all_keys || patterns.any(|(pattern, access)| access.includes(wanted) && covers(pattern))
    }

    /// This key may be read, and written if `writes`.
    pub fn has_key(&self, name: &[u8], writes: bool) -> bool {
        self.all_keys || self.allows_key(Access { reads: true, writes }, name)
    }

    pub fn may_read_all_keys(&self) -> bool {
        let mut patterns = self.keys.iter();
        self.all_keys || patterns.any(|(pattern, access)| access.reads && **pattern == *b"*")
    }

    /// A pattern to listen to must be one of the selector's, letter by letter.
    fn check_channels(&self, command: &'static Command, arguments: Arguments<'_>) -> Result<(), Denial> {
        if self.all_channels || !command.has(PUBSUB) {
            return Ok(());
        }
        let (last, is_pattern) = match command.name {
            "publish" | "spublish" => (1, false),
            "subscribe" | "ssubscribe" => (arguments.len() - 1, false),
            "psubscribe" => (arguments.len() - 1, true),
            _ => (0, false),
        };
        debug_assert!(last > 0 || !changes_subscriptions(command) || command.name.contains("unsub"));
        match (1..=last).find(|position| !self.allows_channel(&arguments[*position], is_pattern)) {
            Some(position) => Err(Denial::Channel(position)),
            None => Ok(()),
        }
    }

    pub fn allows_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        let matches = |pattern: &Arc<[u8]>| match is_pattern {
            true => **pattern == *name,
            false => glob::matches(pattern, name),
        };
        self.all_channels || self.channels.names().any(matches)
    }

    pub fn apply(&mut self, modifier: &[u8]) -> Result<(), &'static str> {
        match modifier.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => {
                self.all_keys = true;
                self.keys.clear();
            }
            b"resetkeys" => {
                self.all_keys = false;
                self.keys.clear();
            }
            b"allchannels" | b"&*" => {
                self.all_channels = true;
                self.channels.clear();
            }
            b"resetchannels" => {
                self.all_channels = false;
                self.channels.clear();
            }
            b"allcommands" | b"+@all" => self.set_all_commands(true),
            b"nocommands" | b"-@all" => self.set_all_commands(false),
            _ => return self.apply_one(modifier),
        }
        Ok(())
    }

    fn apply_one(&mut self, modifier: &[u8]) -> Result<(), &'static str> {
        match modifier {
            [b'~', pattern @ ..] => self.add_key_pattern(Access::BOTH, pattern),
            [b'%', flags @ ..] => {
                let tilde = flags.iter().position(|byte| *byte == b'~').ok_or(SYNTAX)?;
                let access = Access::parse(&flags[..tilde]).ok_or(SYNTAX)?;
                self.add_key_pattern(access, &flags[tilde + 1..])
            }
            [b'&', pattern @ ..] => self.add_channel(pattern),
            [sign @ (b'+' | b'-'), b'@', category @ ..] => self.set_category(*sign == b'+', category),
            [b'+', name @ ..] => self.allow(name),
            [b'-', name @ ..] => {
                let index = self.find(name).ok_or(UNKNOWN)?;
                self.set_command(index, false);
                Ok(())
            }
            _ => Err(SYNTAX),
        }
    }

    fn add_key_pattern(&mut self, access: Access, pattern: &[u8]) -> Result<(), &'static str> {
        if self.all_keys {
            return Err(BEHIND_ALL_KEYS);
        }
        if !is_word(pattern) {
            return Err(SYNTAX);
        }
        let pattern: Arc<[u8]> = pattern.into();
        match self.keys.get_mut(&pattern) {
            Some(existing) => *existing = existing.with(access),
            None => self.keys.add(pattern, access),
        }
        Ok(())
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), &'static str> {
        if self.all_channels {
            return Err(BEHIND_ALL_CHANNELS);
        }
        if !is_word(pattern) {
            return Err(SYNTAX);
        }
        self.channels.add(pattern.into(), ());
        Ok(())
    }

    fn set_category(&mut self, allows: bool, category: &[u8]) -> Result<(), &'static str> {
        let name = String::from_utf8_lossy(category).to_ascii_lowercase();
        if !self.table.categories().contains(&name.as_str()) {
            return Err(UNKNOWN);
        }
        for index in 0..self.table.size() {
            if self.table.at(index).categories().contains(&name.as_str()) {
                self.set(index, allows);
                self.first_arguments.remove(&index);
            }
        }
        self.note_rule(allows, &format!("@{name}"));
        Ok(())
    }

    /// `+name`, `+container|subcommand` or, for a command without subcommands,
    /// `+name|first-argument`.
    fn allow(&mut self, name: &[u8]) -> Result<(), &'static str> {
        if let Some(index) = self.find(name) {
            self.set_command(index, true);
            return Ok(());
        }
        let bar = name.iter().rposition(|byte| *byte == b'|').ok_or(UNKNOWN)?;
        let (index, first) = (self.find(&name[..bar]).ok_or(UNKNOWN)?, &name[bar + 1..]);
        let command = self.table.at(index);
        if command.name.contains('|') {
            return Err(FIRST_ARGUMENT_OF_SUBCOMMAND);
        }
        let first = std::str::from_utf8(first).map_err(|_| SYNTAX)?.to_ascii_lowercase();
        if first.is_empty() || !is_word(first.as_bytes()) {
            return Err(SYNTAX);
        }
        if command.subcommand_count > 0 {
            return Err(UNKNOWN);
        }
        self.note_rule(true, &format!("{}|{first}", command.name));
        self.allow_first_argument(index, first.into_bytes());
        Ok(())
    }

    /// A command that is allowed with any arguments needs no list of them.
    fn allow_first_argument(&mut self, index: usize, first: Vec<u8>) {
        if !self.has(index) {
            self.first_arguments.entry(index).or_default().insert(first);
        }
    }

    /// A container includes all its subcommands.
    fn set_command(&mut self, index: usize, allows: bool) {
        let command = self.table.at(index);
        self.set(index, allows);
        for subcommand in self.table.subcommands(command) {
            self.set(self.table.index(subcommand), allows);
        }
        self.first_arguments.remove(&index);
        self.command_rules.remove_prefixed(&format!("{}|", command.name));
        self.note_rule(allows, command.name);
    }

    fn set_all_commands(&mut self, allows: bool) {
        self.commands.fill(if allows { u64::MAX } else { 0 });
        self.first_arguments.clear();
        self.command_rules = Listed::default();
        self.command_rules.add("@all".into(), allows);
    }

    /// Appends the rule to the others, in place of a rule about the same.
    fn note_rule(&mut self, allows: bool, name: &str) {
        let name: Arc<str> = name.into();
        self.command_rules.remove(&name);
        let changes_nothing =
            self.command_rules.len() == 1 && self.command_rules.iter().all(|(_, allows_all)| *allows_all == allows);
        if !changes_nothing {
            self.command_rules.add(name, allows);
        }
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        self.table.find(name).map(|command| self.table.index(command))
    }

    fn has(&self, index: usize) -> bool {
        self.commands[index / 64] & 1 << (index % 64) != 0
    }

    fn set(&mut self, index: usize, allows: bool) {
        match allows {
            true => self.commands[index / 64] |= 1 << (index % 64),
            false => self.commands[index / 64] &= !(1 << (index % 64)),
        }
    }

    /// As ACL GETUSER shows it.
    pub fn command_text(&self) -> String {
        let sign = |allows: bool| if allows { '+' } else { '-' };
        let rules = self.command_rules.iter();
        rules
            .map(|(name, allows)| format!("{}{name}", sign(*allows)))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// As ACL GETUSER shows it.
    pub fn key_text(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rules = self.keys.iter().map(|(pattern, access)| key_rule(pattern, *access));
        rules.collect::<Vec<_>>().join(&b' ')
    }

    /// As ACL GETUSER shows it.
    pub fn channel_text(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let show = |channel: &Arc<[u8]>| [b"&", &**channel].concat();
        self.channels.names().map(show).collect::<Vec<_>>().join(&b' ')
    }

    /// The words of ACL LIST.
    pub fn line(&self) -> Vec<u8> {
        let mut channels = self.channel_text();
        if !self.all_channels {
            let list = std::mem::take(&mut channels);
            channels = b"resetchannels".to_vec();
            if !list.is_empty() {
                channels.push(b' ');
                channels.extend(list);
            }
        }
        let parts = [self.key_text(), channels, self.command_text().into_bytes()];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(&b' ')
    }
}

/// Could be written into a line and read again.
fn is_word(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0)
}
