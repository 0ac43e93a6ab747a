//! The progress of a copy, as the target stores it: the string at the key [`KEY`] of database 0.
//!
//! It is written by the transactions that carry the data and removed at the end of the copy; while
//! it exists, the copy is incomplete. It is never ahead of the arrived data. For keys it may lag
//! slightly, since sending a key again changes nothing; for commands it is exact.

use quartet_wire_resp::{Value, encode_command};
use serde::{Deserialize, Serialize};

use crate::connection::Target;
use crate::error::{Error, Result};

pub const KEY: &[u8] = b"quartet:import";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The copied source. Another source's progress is no progress.
    pub source: String,
    pub step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// None of the source's data has arrived; existing data is the target's own.
    Nothing,
    /// Records of a file, or of a file of several.
    File { name: String, offset: u64, db: u64 },
    /// Records of a live server's first copy, which restarts if it breaks.
    FirstCopy,
    /// Keys of an Upstash database, as far as this cursor.
    Scan { cursor: String },
    /// Commands of a live server.
    Following { id: String, offset: u64, db: u64 },
}

/// The target of the progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// At [`KEY`], as any server lets us.
    Key,
    /// Beside the keys, by the session of a replica's own.
    Replica,
}

impl Keeper {
    /// The concatenated requests that write it, and their number of replies.
    pub fn requests(self, progress: &Progress) -> (Vec<u8>, usize) {
        let (mut requests, text) = (Vec::new(), progress.text());
        match self {
            Keeper::Key => {
                encode_command(&["SELECT", "0"], &mut requests);
                encode_command(&[b"SET".as_slice(), KEY, text.as_bytes()], &mut requests);
                (requests, 2)
            }
            Keeper::Replica => {
                encode_command(&["REPLCONF", progress.step.standing(), &text], &mut requests);
                (requests, 1)
            }
        }
    }
}

impl Step {
    /// Whether what the target holds is a whole, as a replica's session says it.
    fn standing(&self) -> &'static str {
        match self {
            Step::Nothing | Step::Following { .. } => "quartet-whole",
            Step::File { .. } | Step::FirstCopy | Step::Scan { .. } => "quartet-part",
        }
    }
}

impl Progress {
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("plain fields")
    }

    /// The target's progress, if it has any.
    pub fn read(target: &mut dyn Target) -> Result<Option<Progress>> {
        select(target, 0)?;
        match target.call(&[b"GET", KEY])? {
            Value::Bulk(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|_| Error::Target("the key quartet:import holds something else".into())),
            Value::Null => Ok(None),
            other => Err(refused(&other)),
        }
    }
}

pub fn select(target: &mut dyn Target, db: u64) -> Result<()> {
    match target.call(&[b"SELECT", db.to_string().as_bytes()])? {
        Value::Simple(_) => Ok(()),
        other => Err(refused(&other)),
    }
}

pub fn refused(value: &Value) -> Error {
    Error::Target(crate::connection::error_text(value).unwrap_or_else(|| format!("it answered {value:?}")))
}

/// Keys of all databases; the key of the progress does not count.
pub fn key_count(target: &mut dyn Target, databases: u64) -> Result<u64> {
    let mut count = 0;
    for db in 0..databases {
        select(target, db)?;
        match target.call(&[b"DBSIZE"])? {
            Value::Integer(keys) => count += keys as u64,
            other => return Err(refused(&other)),
        }
    }
    select(target, 0)?;
    match target.call(&[b"EXISTS", KEY])? {
        Value::Integer(own) => Ok(count - own as u64),
        other => Err(refused(&other)),
    }
}

/// Prepares the target for a copy of `source`: it must be empty, or hold an earlier run of this
/// copy. Returns the progress of that run.
pub fn prepare(target: &mut dyn Target, source: &str, databases: u64, merges: bool) -> Result<Option<Progress>> {
    match Progress::read(target)? {
        Some(progress) if progress.source == source => return Ok(Some(progress)),
        Some(progress) => {
            return Err(Error::NotEmpty(format!(
                "the target holds part of {}: continue that import, or empty the target with FLUSHALL",
                progress.source
            )));
        }
        None => {}
    }
    match key_count(target, databases)? {
        0 => Ok(None),
        _ if merges => Ok(None),
        keys => Err(Error::NotEmpty(format!(
            "the target holds {keys} keys; --merge copies beside them, and over those of the same name"
        ))),
    }
}

/// The copy is whole.
pub fn finish(target: &mut dyn Target) -> Result<()> {
    select(target, 0)?;
    match target.call(&[b"DEL", KEY])? {
        Value::Integer(_) => Ok(()),
        other => Err(refused(&other)),
    }
}
