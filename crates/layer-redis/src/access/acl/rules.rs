//! The rules of one user: authentication, and selectors. One selector is enough to allow a request.

use quartet_model::hexadecimal;
use quartet_wire_resp::Arguments;

use super::selector::Selector;
use super::{Denial, password_hash};
use crate::command::table::Table;
use crate::command::{Command, FOR_READERS};
use crate::listed::Listed;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub is_on: bool,
    /// `nopass`.
    pub any_password: bool,
    /// SHA-256 of each.
    pub passwords: Listed<[u8; 32]>,
    /// `sanitize-payload` or `skip-sanitize-payload`, if either was said. Shown, but payloads are
    /// always checked.
    pub sanitizes_payload: Option<bool>,
    /// The first is the user's own, the others are in parentheses.
    pub selectors: Vec<Selector>,
}

/// A modifier that is wrong, and why.
pub type Wrong = (String, &'static str);

pub const SYNTAX: &str = "Syntax error";
const NOT_A_HASH: &str =
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters";
const NO_SUCH_PASSWORD: &str = "The password you are trying to remove from the user does not exist";
/// The reason of an opening parenthesis without its end. Its text is its own.
pub const UNMATCHED: &str = "Unmatched parenthesis";

impl Rules {
    /// Memory for the rules, about.
    pub fn bytes(&self) -> u64 {
        let selectors: usize = self.selectors.iter().map(Selector::bytes).sum();
        (size_of::<Rules>() + 32 * self.passwords.len() + selectors) as u64
    }

    /// A new user: off, without a password, without permissions.
    pub fn new(table: &'static Table, all_channels: bool) -> Rules {
        Rules {
            is_on: false,
            any_password: false,
            passwords: Listed::default(),
            sanitizes_payload: None,
            selectors: vec![Selector::new(table, all_channels)],
        }
    }

    /// The user of every connection while nothing else was said.
    pub fn of_default_user(table: &'static Table) -> Rules {
        Rules {
            is_on: true,
            any_password: true,
            selectors: vec![Selector::of_everything(table)],
            ..Rules::new(table, true)
        }
    }

    /// A read-only user without commands that affect others or walk through all keys, except those
    /// that their rows of the table grant.
    pub fn of_reader(table: &'static Table) -> Rules {
        let granted = table.all().filter(|command| command.has(FOR_READERS));
        let granted: Vec<String> = granted.map(|command| format!("+{}", command.name)).collect();
        let mut words: Vec<&[u8]> = vec![
            b"on",
            b"~*",
            b"+@read",
            b"+@connection",
            b"-@dangerous",
            b"-@admin",
            b"-scan",
        ];
        words.extend(granted.iter().map(String::as_bytes));
        Rules::new(table, false)
            .changed(&words, false)
            .expect("rules that exist")
    }

    fn table(&self) -> &'static Table {
        self.selectors[0].table
    }

    pub fn is_unrestricted(&self) -> bool {
        self.selectors.iter().any(Selector::is_of_everything)
    }

    /// Compares every password, so that the time does not reveal a nearly right password.
    pub fn has_password(&self, hash: &[u8; 32]) -> bool {
        let mut matches = false;
        for password in self.passwords.names() {
            matches |= are_equal(password, hash);
        }
        matches
    }

    /// Returns `Ok` if one selector allows it, and the denial of the selector that got furthest if
    /// none does.
    pub fn check(&self, command: &'static Command, arguments: Arguments<'_>) -> Result<(), Denial> {
        let mut furthest = Denial::Command;
        for selector in &self.selectors {
            match selector.check(command, arguments) {
                Ok(()) => return Ok(()),
                Err(denial) if distance(&denial) > distance(&furthest) => furthest = denial,
                Err(_) => {}
            }
        }
        Err(furthest)
    }

    /// See [`super::User::allows_with`].
    pub fn allow_with(
        &self,
        command: &'static Command,
        arguments: Arguments<'_>,
        also: &dyn Fn(&Selector) -> bool,
    ) -> bool {
        let mut selectors = self.selectors.iter();
        selectors.any(|selector| also(selector) && selector.check(command, arguments).is_ok())
    }

    /// See [`super::User::may_read`].
    pub fn may_read(&self, name: &[u8]) -> bool {
        self.selectors.iter().any(|selector| selector.has_key(name, false))
    }

    /// The rules after these modifiers, all or none.
    pub fn changed(&self, modifiers: &[&[u8]], all_channels: bool) -> Result<Rules, Wrong> {
        let mut rules = self.clone();
        for modifier in joined(modifiers)? {
            let applied = rules.apply(&modifier, all_channels);
            applied.map_err(|reason| (String::from_utf8_lossy(&modifier).into_owned(), reason))?;
        }
        Ok(rules)
    }

    fn apply(&mut self, modifier: &[u8], all_channels: bool) -> Result<(), &'static str> {
        match modifier.to_ascii_lowercase().as_slice() {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"sanitize-payload" => self.sanitizes_payload = Some(true),
            b"skip-sanitize-payload" => self.sanitizes_payload = Some(false),
            b"nopass" => {
                self.any_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.any_password = false;
                self.passwords.clear();
            }
            b"clearselectors" => self.selectors.truncate(1),
            b"reset" => {
                *self = Rules::new(self.table(), all_channels);
                self.sanitizes_payload = Some(true);
            }
            _ => return self.apply_secret(modifier),
        }
        Ok(())
    }

    fn apply_secret(&mut self, modifier: &[u8]) -> Result<(), &'static str> {
        match modifier {
            [b'>', password @ ..] => self.add_password(password_hash(password)),
            [b'#', digits @ ..] => self.add_password(parse_hash(digits).ok_or(NOT_A_HASH)?),
            [b'<', password @ ..] => self.remove_password(&password_hash(password))?,
            [b'!', digits @ ..] => self.remove_password(&parse_hash(digits).ok_or(NOT_A_HASH)?)?,
            [b'(', inner @ .., b')'] => {
                let mut selector = Selector::new(self.table(), false);
                for word in inner.split(|byte| *byte == b' ').filter(|word| !word.is_empty()) {
                    // In a line it would end the selector.
                    if word.ends_with(b")") {
                        return Err(SYNTAX);
                    }
                    selector.apply(word)?;
                }
                self.selectors.push(selector);
            }
            _ => self.selectors[0].apply(modifier)?,
        }
        Ok(())
    }

    fn add_password(&mut self, hash: [u8; 32]) {
        self.any_password = false;
        self.passwords.add(hash, ());
    }

    fn remove_password(&mut self, hash: &[u8; 32]) -> Result<(), &'static str> {
        match self.passwords.remove(hash) {
            true => Ok(()),
            false => Err(NO_SUCH_PASSWORD),
        }
    }

    /// The words of ACL GETUSER.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.any_password {
            flags.push("nopass");
        }
        match self.sanitizes_payload {
            Some(true) => flags.push("sanitize-payload"),
            Some(false) => flags.push("skip-sanitize-payload"),
            None => {}
        }
        flags
    }

    /// The line of ACL LIST and of the file, which gives the same rules when it is read.
    pub fn line(&self, name: &[u8]) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = vec![b"user".to_vec(), name.to_vec()];
        words.extend(self.flags().iter().map(|flag| flag.as_bytes().to_vec()));
        words.extend(
            self.passwords
                .names()
                .map(|hash| format!("#{}", hexadecimal(hash)).into_bytes()),
        );
        words.push(self.selectors[0].line());
        let further = self.selectors[1..].iter();
        words.extend(further.map(|selector| [b"(", selector.line().as_slice(), b")"].concat()));
        words.join(&b' ')
    }
}

/// A command that may not run at all is furthest from being allowed; among keys, the later the
/// nearer.
fn distance(denial: &Denial) -> (u8, usize) {
    match denial {
        Denial::Command => (0, 0),
        Denial::Key(position) => (1, *position),
        Denial::Channel(position) => (2, *position),
    }
}

/// The modifiers with those of a selector, from its opening to its closing parenthesis, made one.
fn joined(modifiers: &[&[u8]]) -> Result<Vec<Vec<u8>>, Wrong> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (index, modifier) in modifiers.iter().enumerate() {
        match &mut open {
            Some((_, text)) => {
                text.push(b' ');
                text.extend_from_slice(modifier);
            }
            None if modifier.starts_with(b"(") => open = Some((index, modifier.to_vec())),
            None => all.push(modifier.to_vec()),
        }
        if modifier.ends_with(b")") {
            all.extend(open.take().map(|(_, text)| text));
        }
    }
    match open {
        Some((index, _)) => Err((String::from_utf8_lossy(modifiers[index]).into_owned(), UNMATCHED)),
        None => Ok(all),
    }
}

fn parse_hash(digits: &[u8]) -> Option<[u8; 32]> {
    let is_hash = digits.len() == 64 && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let mut hash = [0; 32];
    let text = std::str::from_utf8(digits).ok().filter(|_| is_hash)?;
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(hash)
}

/// Compares two hashes in constant time.
fn are_equal(first: &[u8; 32], other: &[u8; 32]) -> bool {
    let differences = first.iter().zip(other).fold(0, |bits, (a, b)| bits | (a ^ b));
    std::hint::black_box(differences) == 0
}
