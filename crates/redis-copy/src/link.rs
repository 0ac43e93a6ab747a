//! A live server with this copy as its replica: the handshake, the first copy, and the following
//! stream of commands.
//!
//! ```text
//! us:     AUTH?  REPLCONF capa eof capa psync2   PSYNC id offset+1 | ? -1
//! server: +CONTINUE [id]                       commands from there
//!         +FULLRESYNC id offset                then \n while it prepares, and
//!         $LENGTH  records  |  $EOF:MARK  records  MARK      and commands from the offset
//! us:     REPLCONF ACK offset                  about once a second
//! ```
//!
//! Positions count the bytes of the stream of commands.

use std::io::Read;
use std::time::{Duration, Instant};

use quartet_wire_resp::{Value, encode_command};

use crate::address::Address;
use crate::connection::{Connection, Target, error_text};
use crate::error::{Error, Result};

const MARK_BYTES: usize = 40;
/// Interval at which the server receives our position; it drops silent replicas.
const ACKNOWLEDGE_EVERY: Duration = Duration::from_secs(1);
/// Longest time that a server may take to start its first copy.
const PREPARATION_MAX: Duration = Duration::from_secs(600);

/// A position in a server's stream of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub id: String,
    pub offset: u64,
}

/// The server's answer to the handshake.
pub enum LinkStart {
    /// The stream continues at the requested position; its id may have changed.
    GoesOn(Link),
    /// Records precede the stream.
    FirstCopy(FirstCopy),
}

/// The stream of commands.
pub struct Link {
    pub connection: Connection,
    pub id: String,
    acknowledged: Instant,
}

pub struct FirstCopy {
    connection: Connection,
    /// The start of the stream of commands, after the records.
    pub position: Position,
    /// Bytes of the records, if the server knows.
    pub bytes: Option<u64>,
    mark: Option<Vec<u8>>,
}

/// Requests a first copy, without the stream after it.
pub fn begin_records(address: &Address) -> Result<LinkStart> {
    begin_with(
        Connection::open(address)?,
        address,
        None,
        &["REPLCONF", "rdb-only", "1"],
    )
}

/// Requests everything after `position`, or a first copy. `port`: this server's own port, for a
/// replica that is a server.
pub fn begin(
    connection: Connection,
    address: &Address,
    position: Option<&Position>,
    port: Option<u16>,
) -> Result<LinkStart> {
    let port = port.map(|port| port.to_string());
    let port_words = port.as_ref().map(|port| ["REPLCONF", "listening-port", port]);
    begin_with(
        connection,
        address,
        position,
        port_words.as_ref().map_or(&[], |words| words),
    )
}

fn begin_with(
    mut connection: Connection,
    address: &Address,
    position: Option<&Position>,
    port_words: &[&str],
) -> Result<LinkStart> {
    for (words, needed) in [
        (&["REPLCONF", "capa", "eof", "capa", "psync2"][..], true),
        (port_words, false),
    ] {
        if !words.is_empty() {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let reply = connection.call(&words)?;
            // A server that does not know a word serves us without.
            if let Some(text) = error_text(&reply).filter(|_| needed) {
                return Err(Error::Source(format!("{address} takes no replicas: {text}")));
            }
        }
    }
    let (id, offset) = match position {
        Some(position) => (position.id.clone(), (position.offset + 1).to_string()),
        None => ("?".into(), "-1".into()),
    };
    let mut request = Vec::new();
    encode_command(&["PSYNC", &id, &offset], &mut request);
    connection.send(&request)?;
    answered(connection, position, address)
}

fn answered(mut connection: Connection, position: Option<&Position>, address: &Address) -> Result<LinkStart> {
    let line = String::from_utf8_lossy(&connection.line()?).into_owned();
    let words: Vec<&str> = line.split(' ').collect();
    match (words.as_slice(), position) {
        (["+CONTINUE", id @ ..], Some(position)) => {
            let id = id.first().map_or_else(|| position.id.clone(), |id| (*id).to_owned());
            Ok(LinkStart::GoesOn(Link::new(connection, id)))
        }
        (["+FULLRESYNC", id, offset], _) => {
            let offset = offset
                .parse()
                .map_err(|_| Error::Source(format!("{address} answers {line}")))?;
            let position = Position {
                id: (*id).into(),
                offset,
            };
            first_copy(connection, position, address).map(LinkStart::FirstCopy)
        }
        (["-NOMASTERLINK" | "-LOADING" | "-TRYAGAIN" | "-BUSY", ..], _) => Err(Error::Link(line)),
        _ => Err(Error::Source(format!(
            "{address} takes no replicas: {}",
            line.trim_start_matches('-')
        ))),
    }
}

fn first_copy(mut connection: Connection, position: Position, address: &Address) -> Result<FirstCopy> {
    let started = Instant::now();
    // The server sends empty lines while it prepares.
    let line = loop {
        match connection.line() {
            Err(Error::Link(text)) if text == "no answer" && started.elapsed() < PREPARATION_MAX => {}
            line => break line?,
        }
    };
    let unknown = || Error::Source(format!("{address} starts its copy with {}", line.escape_ascii()));
    let (bytes, mark) = match line.strip_prefix(b"$EOF:") {
        Some(mark) if mark.len() == MARK_BYTES => (None, Some(mark.to_vec())),
        Some(_) => return Err(unknown()),
        None => {
            let digits = line
                .strip_prefix(b"$")
                .and_then(|digits| std::str::from_utf8(digits).ok());
            (
                Some(digits.and_then(|digits| digits.parse().ok()).ok_or_else(unknown)?),
                None,
            )
        }
    };
    Ok(FirstCopy {
        connection,
        position,
        bytes,
        mark,
    })
}

/// The records.
impl Read for FirstCopy {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.connection.read(buffer)
    }
}

impl FirstCopy {
    /// Continues after the records: `unread` was read beyond them.
    pub fn into_link(mut self, mut unread: Vec<u8>, records_bytes: u64) -> Result<Link> {
        if self.bytes.is_some_and(|bytes| bytes != records_bytes) {
            return Err(Error::Link("the copy ended before its announced length".into()));
        }
        if let Some(mark) = &self.mark {
            while unread.len() < mark.len() {
                let mut more = [0; MARK_BYTES];
                let count = self
                    .connection
                    .read(&mut more)
                    .map_err(|error| Error::Link(error.to_string()))?;
                if count == 0 {
                    return Err(Error::Link("the copy ended without its mark".into()));
                }
                unread.extend_from_slice(&more[..count]);
            }
            if !unread.starts_with(mark) {
                return Err(Error::Link("the copy ended with another mark".into()));
            }
            unread.drain(..mark.len());
        }
        self.connection.give_back(unread);
        Ok(Link::new(self.connection, self.position.id))
    }
}

impl Link {
    fn new(connection: Connection, id: String) -> Link {
        Link {
            connection,
            id,
            acknowledged: Instant::now(),
        }
    }

    /// Sends our position to the server, if it has not received it for a while, or `now`.
    pub fn acknowledge(&mut self, offset: u64, now: bool) -> Result<()> {
        if now || self.acknowledged.elapsed() >= ACKNOWLEDGE_EVERY {
            let mut request = Vec::new();
            encode_command(&["REPLCONF", "ACK", &offset.to_string()], &mut request);
            self.connection.send(&request)?;
            self.acknowledged = Instant::now();
        }
        Ok(())
    }
}

/// The fields of INFO's section.
pub fn info(connection: &mut Connection, section: &str) -> Result<Vec<(String, String)>> {
    match connection.call(&[b"INFO", section.as_bytes()])? {
        Value::Error(text) => Err(Error::Source(String::from_utf8_lossy(&text).into_owned())),
        reply => {
            let text = crate::connection::text(&reply);
            let fields = text.lines().filter_map(|line| line.split_once(':'));
            Ok(fields.map(|(name, value)| (name.into(), value.trim().into())).collect())
        }
    }
}

/// The present length of the stream of commands.
pub fn replication_offset(connection: &mut Connection) -> Result<u64> {
    let fields = info(connection, "replication")?;
    let offset = fields.iter().find(|(name, _)| name == "master_repl_offset");
    let offset = offset.and_then(|(_, value)| value.parse().ok());
    offset.ok_or_else(|| Error::Source("INFO does not report the length of its stream of commands".into()))
}
