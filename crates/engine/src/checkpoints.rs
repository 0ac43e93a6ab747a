//! Checkpoints on disk: which file is the newest, writing one beside the running server, and opening from one.
//!
//! A checkpoint is `checkpoint-<log sequence, 20 digits>`: every row as of that epoch. It is written under a temporary name,
//! synced, renamed, and only then older ones and the log below it are removed, so a crash at any moment leaves one whole.
//!
//! Between checkpoints the file of the temporary name is empty and has some space reserved, so that a small checkpoint can be
//! written on a full disk: it is what gives back the space of what was deleted.

use std::io::{self, Read, Write};
use std::sync::Arc;

use quartet_env::{Disk, File};
use quartet_log::Cause;
use quartet_model::{Effect, EffectsError, EffectsReader, LogSequence, Version};
use quartet_store::checkpoint::{self, CheckpointSummary, Position};
use quartet_store::{MemoryBuilder, MemoryStore, Row, Snapshot, Store};

use crate::{OpenError, OpenProgress};

const PREFIX: &str = "checkpoint-";
/// The position of a partition that has no checkpoint.
const BEFORE_THE_FIRST: Position = Position {
    version: Version::ZERO,
    sequence: LogSequence::ZERO,
};
const TEMPORARY: &str = "checkpoint.partial";

pub(crate) struct Written {
    pub position: Position,
    pub bytes: u64,
}

/// A checkpoint that was found whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCheckpoint {
    pub file: String,
    pub summary: CheckpointSummary,
}

/// What the newest checkpoint holds. Without one, an empty state and the position before the first epoch.
pub(crate) struct Loaded {
    pub store: MemoryStore,
    pub position: Position,
    pub found: Option<FoundCheckpoint>,
}

pub(crate) fn load_newest(disk: &dyn Disk, progress: &mut dyn FnMut(OpenProgress)) -> Result<Loaded, OpenError> {
    let Some(name) = newest(disk)? else {
        return Ok(Loaded {
            store: MemoryStore::new(),
            position: BEFORE_THE_FIRST,
            found: None,
        });
    };
    let file = disk.open(&name)?;
    let mut input = io::BufReader::with_capacity(1 << 20, Reading { file, offset: 0 });
    let mut builder = MemoryBuilder::new();
    let mut count_rows = |rows| progress(OpenProgress::Checkpoint { rows });
    let read = checkpoint::read(&mut input, &mut |row| builder.push(row), &mut count_rows);
    let summary = read.map_err(|source| OpenError::Checkpoint {
        file: name.clone(),
        source,
    })?;
    Ok(Loaded {
        store: builder.finish(),
        position: summary.position,
        found: Some(FoundCheckpoint { file: name, summary }),
    })
}

/// Writes a checkpoint of `snapshot` and removes the older ones.
pub(crate) fn write(disk: &dyn Disk, snapshot: Arc<dyn Snapshot>, position: Position) -> io::Result<Written> {
    let file = empty_temporary(disk)?;
    let mut output = io::BufWriter::with_capacity(1 << 20, Writing::new(file));
    checkpoint::write(snapshot, position, &mut output, &mut |_| {})?;
    output.flush()?;
    let writing = output.into_inner().map_err(|error| error.into_error())?;
    // Gives back what was reserved and not needed.
    writing.file.set_len(writing.offset)?;
    writing.file.sync_data()?;
    let name = format!("{PREFIX}{:020}", position.sequence.0);
    disk.rename(TEMPORARY, &name)?;
    disk.sync_directory()?;
    for older in disk
        .list()?
        .into_iter()
        .filter(|other| other.starts_with(PREFIX) && *other < name)
    {
        disk.remove(&older)?;
    }
    Ok(Written {
        position,
        bytes: writing.offset,
    })
}

/// Takes away what an unfinished checkpoint has left, and reserves `bytes` for the next one, as far as there is room.
pub(crate) fn reserve(disk: &dyn Disk, bytes: u64) {
    let reserved = empty_temporary(disk).and_then(|file| file.allocate(bytes));
    if let Err(error) = reserved {
        tracing::warn!(%error, "no room is reserved for the next checkpoint");
    }
}

/// The file of the temporary name, empty. What is reserved for it stays reserved.
fn empty_temporary(disk: &dyn Disk) -> io::Result<Box<dyn File>> {
    if !disk.exists(TEMPORARY)? {
        return disk.create(TEMPORARY);
    }
    let file = disk.open(TEMPORARY)?;
    if !file.is_empty()? {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Applies the log's records, in order, to the state of the checkpoint before them.
pub(crate) struct Replayer {
    pub store: MemoryStore,
    /// Of the newest transaction applied.
    pub version: Version,
    pub transactions: u64,
}

impl Replayer {
    pub fn after(loaded: Loaded) -> Replayer {
        Replayer {
            store: loaded.store,
            version: loaded.position.version,
            transactions: 0,
        }
    }

    pub fn record(&mut self, payload: &[u8]) -> Result<(), Cause> {
        Ok(self.apply_epoch(payload)?)
    }

    fn apply_epoch(&mut self, payload: &[u8]) -> Result<(), EpochError> {
        let mut reader = EffectsReader::new(payload);
        while let Some((version, effects)) = reader.next_transaction()? {
            if version <= self.version {
                return Err(EpochError::VersionsOutOfOrder);
            }
            for effect in effects {
                apply(&mut self.store, version, effect?);
            }
            self.version = version;
            self.transactions += 1;
        }
        Ok(())
    }
}

/// A record that was written whole but cannot be what an engine wrote.
#[derive(Debug, thiserror::Error)]
enum EpochError {
    #[error(transparent)]
    Effects(#[from] EffectsError),
    #[error("a transaction is not newer than the one before it")]
    VersionsOutOfOrder,
}

fn apply(store: &mut dyn Store, version: Version, effect: Effect<'_>) {
    match effect {
        Effect::Set { key, value } => drop(store.set(Row::new(key, value, version))),
        Effect::Clear { key } => drop(store.clear(key)),
        Effect::ClearRange { start, end } => drop(store.clear_range(start, end)),
    }
}

fn newest(disk: &dyn Disk) -> io::Result<Option<String>> {
    let digits = |name: &String| {
        name.strip_prefix(PREFIX)
            .is_some_and(|rest| rest.len() == 20 && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    Ok(disk.list()?.into_iter().filter(digits).max())
}

struct Reading {
    file: Box<dyn File>,
    offset: u64,
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// As many bytes may wait for the disk. A sync of the log waits behind them, so they must take a few milliseconds only; one sync
/// at the end of the file once made it wait for seconds.
const UNSYNCED_BYTES_MAX: u64 = 4 << 20;

struct Writing {
    file: Box<dyn File>,
    offset: u64,
    synced: u64,
}

impl Writing {
    fn new(file: Box<dyn File>) -> Writing {
        Writing {
            file,
            offset: 0,
            synced: 0,
        }
    }
}

impl Write for Writing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(UNSYNCED_BYTES_MAX as usize)];
        self.file.write_at(self.offset, bytes)?;
        self.offset += bytes.len() as u64;
        if self.offset - self.synced >= UNSYNCED_BYTES_MAX {
            self.file.sync_data()?;
            self.synced = self.offset;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use quartet_env::FaultyDisk;

    use super::*;

    /// One sync at the end of the file made the log's next one wait until gigabytes were written.
    #[test]
    fn little_of_a_checkpoint_ever_waits_for_the_disk() {
        let disk = FaultyDisk::new();
        let mut writing = Writing::new(disk.create("checkpoint").unwrap());
        disk.sync_directory().unwrap();
        for piece in [100, 3 << 20, 7 << 20, 1 << 20] {
            writing.write_all(&vec![1; piece]).unwrap();
        }
        let written = writing.offset;
        drop(writing);
        disk.crash();
        let kept = disk.open("checkpoint").unwrap().len().unwrap();
        assert!(
            written - kept < UNSYNCED_BYTES_MAX,
            "{kept} of {written} bytes were synced"
        );
    }
}
