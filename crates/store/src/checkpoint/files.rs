//! Checkpoints as files of a directory: which is the newest, reading it, writing one beside the
//! running server.
//!
//! A checkpoint is `checkpoint-<log sequence, 20 digits>`: every row as of that epoch. It is
//! written under a temporary name, synced and renamed; only then are older files removed, so a
//! crash at any moment leaves one whole.
//!
//! Between checkpoints the temporary file is empty and has some space reserved, so that a small
//! checkpoint can be written on a full disk: the checkpoint releases the space of deleted rows.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quartet_env::{Disk, File, UNSYNCED_BYTES_MAX};
use quartet_model::LogSequence;

use crate::checkpoint::{self, CheckpointSummary};
use crate::error::StoreError;
use crate::interface::Snapshot;
use crate::open_error::OpenError;
use crate::options::StoreOptions;
use crate::position::Position;
use crate::row::Row;

const PREFIX: &str = "checkpoint-";
const TEMPORARY: &str = "checkpoint.partial";

/// The files of a store's checkpoints.
#[derive(Clone)]
pub(crate) struct CheckpointFiles {
    disk: Arc<dyn Disk>,
    reserved_bytes: u64,
    given_up: Arc<AtomicBool>,
}

/// A checkpoint that was found whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCheckpoint {
    /// Its name in the data directory.
    pub file: String,
    /// The summary, once it was read to the end.
    pub summary: CheckpointSummary,
}

/// The name of the newest checkpoint.
pub(crate) fn newest(disk: &dyn Disk) -> io::Result<Option<String>> {
    Ok(disk.list()?.into_iter().filter(|name| is_checkpoint(name)).max())
}

/// True for the name of a checkpoint.
pub(crate) fn is_checkpoint(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX);
    digits.is_some_and(|digits| digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The log sequence in a checkpoint's name.
pub(crate) fn sequence_of(name: &str) -> LogSequence {
    let digits = name.strip_prefix(PREFIX).and_then(|digits| digits.parse().ok());
    LogSequence(digits.unwrap_or_default())
}

impl CheckpointFiles {
    pub fn new(disk: Arc<dyn Disk>, options: &StoreOptions) -> CheckpointFiles {
        CheckpointFiles {
            disk,
            reserved_bytes: options.reserved_bytes,
            given_up: options.checkpoint_given_up.clone(),
        }
    }

    /// Gives the rows of the newest checkpoint to `sink`, in order; `None` if there is none.
    /// Changes nothing on the disk.
    pub fn load_newest(
        &self,
        sink: &mut dyn FnMut(Row),
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<FoundCheckpoint>, OpenError> {
        let Some(name) = newest(self.disk.as_ref())? else {
            return Ok(None);
        };
        let file = self.disk.open(&name)?;
        let mut input = io::BufReader::with_capacity(1 << 20, Reading { file, offset: 0 });
        let read = checkpoint::read(&mut input, sink, progress);
        let summary = read.map_err(|source| OpenError::Checkpoint {
            file: name.clone(),
            source,
        })?;
        Ok(Some(FoundCheckpoint { file: name, summary }))
    }

    /// Writes a checkpoint of `rows` and removes the older checkpoints. Returns its size in bytes.
    pub fn write(&self, rows: impl Snapshot, position: Position) -> Result<u64, StoreError> {
        let written = self.write_file(rows, position);
        if written.is_err() {
            // A partial file is truncated immediately.
            let _ = self.shrink_temporary();
        }
        self.tidy();
        written.map_err(|error| StoreError::io(TEMPORARY, error))
    }

    fn write_file(&self, rows: impl Snapshot, position: Position) -> io::Result<u64> {
        let file = self.empty_temporary()?;
        let mut output = io::BufWriter::with_capacity(1 << 20, Writing::new(file, &self.given_up));
        checkpoint::write(rows, position, &mut output, &mut |_| {})?;
        output.flush()?;
        let writing = output.into_inner().map_err(|error| error.into_error())?;
        // Gives back what was reserved and not needed.
        writing.file.set_len(writing.offset)?;
        writing.file.sync_data()?;
        let name = format!("{PREFIX}{:020}", position.sequence.0);
        self.disk.rename(TEMPORARY, &name)?;
        self.disk.sync_directory()?;
        for older in self
            .disk
            .list()?
            .into_iter()
            .filter(|other| other.starts_with(PREFIX) && *other < name)
        {
            self.disk.remove_gently(&older)?;
        }
        Ok(writing.offset)
    }

    /// As `tidy`, and takes away what another store has left.
    pub fn tidy_all(&self, remove_other: fn(&dyn Disk) -> io::Result<()>) {
        if let Err(error) = remove_other(self.disk.as_ref()) {
            tracing::warn!(%error, "files of another engine could not be removed");
        }
        self.tidy();
    }

    /// Removes every checkpoint and what is reserved for the next.
    pub fn remove_all(disk: &dyn Disk) -> io::Result<()> {
        remove_some(disk, |name| name == TEMPORARY || is_checkpoint(name))
    }

    /// Removes the remains of an unfinished checkpoint, and reserves room for the next one, as far
    /// as the disk has space.
    pub fn tidy(&self) {
        let reserved = self
            .empty_temporary()
            .and_then(|file| file.allocate(self.reserved_bytes));
        if let Err(error) = reserved {
            tracing::warn!(%error, "no room is reserved for the next checkpoint");
        }
    }

    /// Truncates a partial file in small steps, so that concurrent syncs are not delayed.
    fn shrink_temporary(&self) -> io::Result<()> {
        let file = self.disk.open(TEMPORARY)?;
        let mut length = file.len()?;
        while length > 0 {
            length = length.saturating_sub(SHRINK_BYTES);
            file.set_len(length)?;
            file.sync_gently()?;
        }
        Ok(())
    }

    /// Creates the file of the temporary name, empty. Room reserved for it stays reserved.
    fn empty_temporary(&self) -> io::Result<Box<dyn File>> {
        if !self.disk.exists(TEMPORARY)? {
            return self.disk.create(TEMPORARY);
        }
        let file = self.disk.open(TEMPORARY)?;
        if !file.is_empty()? {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

struct Reading {
    file: Box<dyn File>,
    offset: u64,
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.offset, buffer)?;
        // The next time is the next start.
        self.file.forget(self.offset, count as u64);
        self.offset += count as u64;
        Ok(count)
    }
}

/// Bytes that one call truncates.
const SHRINK_BYTES: u64 = 4 << 20;

struct Writing<'g> {
    file: Box<dyn File>,
    offset: u64,
    synced: u64,
    given_up: &'g AtomicBool,
}

impl Writing<'_> {
    fn new(file: Box<dyn File>, given_up: &AtomicBool) -> Writing<'_> {
        Writing {
            file,
            offset: 0,
            synced: 0,
            given_up,
        }
    }

    fn sync_if_due(&mut self) -> io::Result<()> {
        if self.given_up.load(Ordering::Relaxed) {
            return Err(io::Error::other("given up: the memory that it held was needed"));
        }
        let unsynced = self.offset - self.synced;
        if self.file.sync_if_due(unsynced)? {
            self.file.forget(self.synced, unsynced);
            self.synced = self.offset;
        }
        Ok(())
    }
}

impl Write for Writing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(UNSYNCED_BYTES_MAX as usize)];
        self.file.write_at(self.offset, bytes)?;
        self.offset += bytes.len() as u64;
        if self.offset - self.synced >= UNSYNCED_BYTES_MAX {
            self.sync_if_due()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Removes the files of these names durably. Without one, nothing waits for the disk.
pub(crate) fn remove_some(disk: &dyn Disk, is_one: impl Fn(&str) -> bool) -> io::Result<()> {
    let mut names = disk.list()?;
    names.retain(|name| is_one(name));
    for name in &names {
        disk.remove(name)?;
    }
    match names.is_empty() {
        true => Ok(()),
        false => disk.sync_directory(),
    }
}

#[cfg(test)]
mod tests {
    use quartet_env::FaultyDisk;

    use super::*;

    /// A single sync at the end of the file made the log's next sync wait until gigabytes were
    /// written.
    #[test]
    fn little_of_a_checkpoint_ever_waits_for_the_disk() {
        let disk = FaultyDisk::new();
        let given_up = AtomicBool::new(false);
        let mut writing = Writing::new(disk.create("checkpoint").unwrap(), &given_up);
        disk.sync_directory().unwrap();
        for piece in [100, 3 << 20, 7 << 20, 1 << 20] {
            writing.write_all(&vec![1; piece]).unwrap();
        }
        let written = writing.offset;
        given_up.store(true, Ordering::Relaxed);
        assert!(
            writing.write_all(&vec![1; 5 << 20]).is_err(),
            "it ends when it is given up"
        );
        drop(writing);
        disk.crash();
        let length = disk.open("checkpoint").unwrap().len().unwrap();
        assert!(
            written - length < UNSYNCED_BYTES_MAX,
            "{length} of {written} bytes were synced"
        );
    }
}
