//! Closing a source to writers, so that what it has acknowledged is all there will ever be.
//!
//! `min-replicas-to-write` is set to more replicas than there can be: from then on every write is
//! refused with NOREPLICAS, including waiting ones, so none is acknowledged that would not be
//! copied. If the source does not allow to set it, its clients are paused: their writes wait, and
//! go to the source if they are still connected when the pause ends.

use quartet_wire_resp::Value;

use crate::address::Address;
use crate::connection::{Connection, Target, error_text, text};
use crate::error::{Error, Result};
use crate::link;

const TOO_MANY: &str = "1000000";
const PAUSE_MS: &str = "3600000";

/// A source that takes no writes.
pub struct Closed {
    pub connection: Connection,
    /// The former parameters; none if its clients are paused.
    before: Vec<(&'static str, String)>,
}

pub fn close(source: &Address) -> Result<Closed> {
    let mut connection = Connection::open(source)?;
    let mut before = Vec::new();
    for (name, value) in [("min-replicas-max-lag", "10"), ("min-replicas-to-write", TOO_MANY)] {
        let old = match connection.call(&[b"CONFIG", b"GET", name.as_bytes()])? {
            Value::Array(pair) if pair.len() == 2 => text(&pair[1]),
            _ => return pause(connection, before),
        };
        let is_enough = name == "min-replicas-max-lag" && old != "0";
        if !is_enough && error_text(&set(&mut connection, name, value)?).is_some() {
            return pause(connection, before);
        }
        before.push((name, old));
    }
    Ok(Closed { connection, before })
}

fn set(connection: &mut Connection, name: &str, value: &str) -> Result<Value> {
    connection.call(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()])
}

fn pause(connection: Connection, before: Vec<(&'static str, String)>) -> Result<Closed> {
    let mut closed = Closed { connection, before };
    closed.reopen()?;
    closed.before.clear();
    match error_text(
        &closed
            .connection
            .call(&[b"CLIENT", b"PAUSE", PAUSE_MS.as_bytes(), b"WRITE"])?,
    ) {
        None => Ok(closed),
        Some(text) => Err(Error::Source(format!("it cannot be closed to writers: {text}"))),
    }
}

impl Closed {
    /// How its writers are kept out.
    pub fn how(&self) -> &'static str {
        match self.before.is_empty() {
            true => "its clients are paused for an hour",
            false => "it refuses every write",
        }
    }

    /// The end of its stream of commands, after everything that was acknowledged.
    pub fn offset(&mut self) -> Result<u64> {
        link::replication_offset(&mut self.connection)
    }

    /// Lets writers in again.
    pub fn reopen(&mut self) -> Result<()> {
        if self.before.is_empty() {
            self.connection.call(&[b"CLIENT", b"UNPAUSE"])?;
        }
        for (name, value) in self.before.clone().into_iter().rev() {
            set(&mut self.connection, name, &value)?;
        }
        Ok(())
    }
}
