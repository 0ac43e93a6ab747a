//! MIGRATE's request: where it may go, and what is on its way.

use std::ops::Range;

use quartet_wire_resp::Arguments;

use crate::command::error_reply::ErrorReply;
use crate::command::parse;

/// The keys follow these words, each with a fixed number of arguments of its own.
pub const OPTIONS: &[(&str, usize)] = &[("copy", 0), ("replace", 0), ("auth", 1), ("auth2", 2)];
pub const OPTIONS_AT: usize = 6;

/// Positions of the user and the password.
pub fn secrets(arguments: Arguments<'_>) -> Vec<usize> {
    let mut position = OPTIONS_AT;
    let mut secrets = Vec::new();
    while let Some(word) = arguments.get(position).filter(|word| !parse::is(word, "keys")) {
        let option = OPTIONS.iter().find(|(name, _)| parse::is(word, name));
        let count = option.map_or(0, |(_, count)| *count);
        secrets.extend(position + 1..arguments.len().min(position + 1 + count));
        position += 1 + count;
    }
    secrets
}

/// The servers that keys may be sent to. A user that may run MIGRATE would otherwise make the
/// server connect anywhere in its own network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    Any,
    /// Hosts, as MIGRATE names them, and ports.
    Listed(Vec<(String, u16)>),
}

impl Targets {
    /// `command` is the caller's name in the error.
    pub fn check(&self, command: &str, host: &str, port: u16) -> Result<(), ErrorReply> {
        let is_allowed = match self {
            Targets::Any => true,
            Targets::Listed(listed) => listed
                .iter()
                .any(|(name, number)| name.eq_ignore_ascii_case(host) && *number == port),
        };
        if is_allowed {
            return Ok(());
        }
        Err(format!("ERR {command} {host}:{port} is not allowed; the server's option --migrate-targets names the targets that are").into())
    }
}

impl std::str::FromStr for Targets {
    type Err = String;

    /// `any`, or HOST:PORT with commas between.
    fn from_str(text: &str) -> Result<Targets, String> {
        if text == "any" {
            return Ok(Targets::Any);
        }
        let target = |target: &str| {
            let (host, port) = target.trim().rsplit_once(':')?;
            let host = host.trim_start_matches('[').trim_end_matches(']');
            Some((host.to_owned(), port.parse().ok()?)).filter(|(host, _)| !host.is_empty())
        };
        let targets: Option<Vec<(String, u16)>> = text.split(',').map(target).collect();
        let targets =
            targets.ok_or_else(|| format!("'{text}' is neither \"any\" nor HOST:PORT with commas between"))?;
        Ok(Targets::Listed(targets))
    }
}

/// Keys on their way.
pub struct Migration {
    pub host: String,
    pub port: u16,
    /// For connecting, for writing, and for each reply.
    pub timeout_ms: u64,
    /// All requests, concatenated: AUTH, if needed, SELECT, and a RESTORE for each key.
    pub requests: Vec<u8>,
    pub has_credentials: bool,
    pub keeps_keys: bool,
    pub db: u8,
    pub sent: Vec<Sent>,
}

/// A key as it was sent.
pub struct Sent {
    pub name: Vec<u8>,
    pub expiry_ms: Option<u64>,
    /// Its payload among the requests.
    pub payload: Range<usize>,
}

/// Why there are fewer replies than requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    Connecting,
    Writing,
    Reading,
}

impl Broken {
    pub fn text(self) -> &'static str {
        match self {
            Broken::Connecting => "IOERR error or timeout connecting to the client",
            Broken::Writing => "IOERR error or timeout writing to target instance",
            Broken::Reading => "IOERR error or timeout reading to target instance",
        }
    }
}

impl Migration {
    /// The number of replies to the requests.
    pub fn reply_count(&self) -> usize {
        self.preliminary_count() + self.sent.len()
    }

    /// AUTH and SELECT.
    pub fn preliminary_count(&self) -> usize {
        usize::from(self.has_credentials) + 1
    }
}
