//! Commands as a server writes them to its replicas and to its append-only file, and their meaning
//! for the copy.
//!
//! They are the effects of clients' requests, in commit order, and depend only on the state before
//! them.

use quartet_wire_rdb::DATABASES;
use quartet_wire_resp::{Arguments, Limits, Parsed, Parser};

use crate::carrier::Carrier;
use crate::watcher::shown;

/// The role of a command in the copy.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    Nothing,
    /// The server requests our position.
    Asked,
}

pub struct Commands {
    pub db: u64,
    /// A transaction of the source is open.
    in_transaction: bool,
    /// Messages to channels are copied as well.
    brings_messages: bool,
    parser: Parser,
}

/// Words that are no effects: they keep a connection alive, or hold others together.
const IGNORED: [&str; 4] = ["ping", "exec", "multi", "replconf"];
const MESSAGES: [&str; 2] = ["publish", "spublish"];

impl Commands {
    pub fn new(db: u64) -> Commands {
        Commands {
            db,
            in_transaction: false,
            brings_messages: false,
            parser: Parser::new(),
        }
    }

    /// For servers with clients that subscribe to the source's channels.
    pub fn with_messages(self) -> Commands {
        Commands {
            brings_messages: true,
            ..self
        }
    }

    /// Returns true while a transaction of the source is incomplete: its first commands must not be
    /// sent by themselves.
    pub fn is_in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// Takes the first command of the bytes: how many it took, and what it says. `None`: more must
    /// arrive. The error is what is wrong with the bytes.
    pub fn take(&mut self, bytes: &[u8], carrier: &mut Carrier<'_>) -> Result<Option<(usize, Said)>, String> {
        if bytes.first() == Some(&b'#') {
            // A comment between commands, such as the time of the next commands.
            return Ok(bytes
                .iter()
                .position(|&byte| byte == b'\n')
                .map(|end| (end + 1, Said::Nothing)));
        }
        if bytes
            .first()
            .is_some_and(|&first| first != b'*' && first != b'\n' && first != b'\r')
        {
            return Err("something other than a command".into());
        }
        let limits = Limits {
            bulk_bytes_max: 1 << 30,
            elements_max: 1 << 30,
            ..Limits::default()
        };
        let parser = std::mem::take(&mut self.parser);
        let mut parser = parser;
        let parsed = parser.parse(bytes, &limits);
        let applied = match parsed {
            Ok(Parsed::Incomplete { .. }) => None,
            Ok(Parsed::Nothing { consumed }) => Some((consumed, Said::Nothing)),
            Ok(Parsed::Request { consumed }) => {
                let said = self.apply(parser.arguments(bytes), carrier);
                Some((consumed, said?))
            }
            Err(error) => return Err(error.to_string()),
        };
        self.parser = parser;
        Ok(applied)
    }

    fn apply(&mut self, arguments: Arguments<'_>, carrier: &mut Carrier<'_>) -> Result<Said, String> {
        let is = |word: &str| arguments[0].eq_ignore_ascii_case(word.as_bytes());
        if is("select") {
            let number = arguments.get(1).and_then(|word| std::str::from_utf8(word).ok());
            self.db = number
                .and_then(|text| text.parse().ok())
                .ok_or("SELECT without a number")?;
        } else if is("replconf") {
            let asks = arguments
                .get(1)
                .is_some_and(|word| word.eq_ignore_ascii_case(b"getack"));
            return Ok(if asks { Said::Asked } else { Said::Nothing });
        } else if is("multi") {
            self.in_transaction = true;
        } else if is("exec") {
            self.in_transaction = false;
        } else if IGNORED.iter().any(|word| is(word)) || !self.brings_messages && MESSAGES.iter().any(|word| is(word)) {
        } else if self.db >= u64::from(DATABASES) {
            let description = format!(
                "{} {}",
                arguments[0].escape_ascii(),
                shown(arguments.get(1).unwrap_or_default())
            );
            carrier.reject(self.db, description, format!("there are {DATABASES} databases"));
        } else {
            let mut words: Vec<&[u8]> = arguments.iter().collect();
            words[0] = public_name(words[0]);
            carrier.add(self.db, &words);
        }
        Ok(Said::Nothing)
    }
}

/// The name of a command that clients use: RediSearch 8 calls its own `_FT.` where it speaks to
/// replicas.
fn public_name(name: &[u8]) -> &[u8] {
    match name.get(..4) {
        Some(start) if start.eq_ignore_ascii_case(b"_FT.") => &name[1..],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::public_name;

    #[test]
    fn names_among_servers_become_those_of_clients() {
        assert_eq!(public_name(b"_FT._CREATEIFNX"), b"FT._CREATEIFNX");
        assert_eq!(public_name(b"_ft.synupdate"), b"ft.synupdate");
        for name in [&b"FT.CREATE"[..], b"SET", b"_FT", b""] {
            assert_eq!(public_name(name), name);
        }
    }
}
