//! The progress of a copy: a file next to the copying command, removed at the end of the copy.
//!
//! While it exists, the copy is incomplete. It is replaced atomically, synced, after the recorded
//! data has arrived.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};

pub struct Journal {
    path: PathBuf,
    state: State,
    was_there: bool,
}

#[derive(Serialize, Deserialize)]
struct State {
    from: String,
    to: String,
    /// The position at which each part of the source continues.
    parts: BTreeMap<String, Value>,
}

impl Journal {
    /// The journal of this copy, which another copy's is not.
    pub fn open(path: &Path, from: &str, to: &str) -> Result<Journal> {
        let mut journal = Journal {
            path: path.to_owned(),
            state: State {
                from: from.into(),
                to: to.into(),
                parts: BTreeMap::new(),
            },
            was_there: path.exists(),
        };
        if !journal.was_there {
            journal.write()?;
            return Ok(journal);
        }
        let text = std::fs::read(path).map_err(|error| journal.failed(error))?;
        let state: State = serde_json::from_slice(&text).map_err(|error| journal.failed(error))?;
        if (state.from.as_str(), state.to.as_str()) != (from, to) {
            let other = format!("it is of a copy from {} to {}", state.from, state.to);
            return Err(journal.failed(other));
        }
        journal.state = state;
        Ok(journal)
    }

    /// Returns true if an earlier run has started this copy: the target may hold a part of it.
    pub fn goes_on(&self) -> bool {
        self.was_there
    }

    /// The position at which a part continues.
    pub fn position(&self, part: &str) -> Option<&Value> {
        self.state.parts.get(part)
    }

    /// Records the position of a part: everything before it has arrived.
    pub fn note(&mut self, part: &str, position: Value) -> Result<()> {
        self.state.parts.insert(part.into(), position);
        self.write()
    }

    /// The copy is whole.
    pub fn finish(self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(|error| self.failed(error))
    }

    fn write(&self) -> Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let written = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).and_then(|mut file| {
            file.write_all(&serde_json::to_vec(&self.state)?)?;
            file.as_file().sync_all()?;
            file.persist(&self.path)?;
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        });
        written.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: impl std::fmt::Display) -> Error {
        Error::Journal {
            path: self.path.display().to_string(),
            what: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_continues_in_its_own_journal_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal = Journal::open(&path, "a", "b").unwrap();
        assert!(!journal.goes_on());
        journal.note("part", 7.into()).unwrap();
        drop(journal);
        let journal = Journal::open(&path, "a", "b").unwrap();
        assert_eq!((journal.goes_on(), journal.position("part")), (true, Some(&7.into())));
        assert!(Journal::open(&path, "a", "c").is_err());
        journal.finish().unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "{").unwrap();
        assert!(Journal::open(&path, "a", "b").is_err());
    }
}
