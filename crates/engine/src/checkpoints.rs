//! Checkpoints on disk: which file is the newest, writing one beside the running server, and opening from one.
//!
//! A checkpoint is `checkpoint-<log sequence, 20 digits>`: every row as of that epoch. It is written under a temporary name,
//! synced, renamed, and only then older ones and the log below it are removed, so a crash at any moment leaves one whole.

use std::io::{self, Read, Write};
use std::sync::Arc;

use quartet_env::{Disk, File};
use quartet_model::{Effect, EffectsError, EffectsReader, LogSequence, Version};
use quartet_store::checkpoint::{self, Position};
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

/// The newest checkpoint's state and position. Without one, an empty state and the position before the first epoch.
pub(crate) fn load_newest(
    disk: &dyn Disk,
    progress: &mut dyn FnMut(OpenProgress),
) -> Result<(MemoryStore, Position), OpenError> {
    let Some(name) = newest(disk)? else {
        return Ok((MemoryStore::new(), BEFORE_THE_FIRST));
    };
    let file = disk.open(&name)?;
    let mut input = io::BufReader::with_capacity(1 << 20, Reading { file, offset: 0 });
    let mut builder = MemoryBuilder::new();
    let mut count_rows = |rows| progress(OpenProgress::Checkpoint { rows });
    let summary = checkpoint::read(&mut input, &mut |row| builder.push(row), &mut count_rows).map_err(|error| {
        OpenError::Checkpoint {
            file: name,
            reason: error.to_string(),
        }
    })?;
    Ok((builder.finish(), summary.position))
}

/// Writes a checkpoint of `snapshot` and removes the older ones.
pub(crate) fn write(disk: &dyn Disk, snapshot: Arc<dyn Snapshot>, position: Position) -> io::Result<Written> {
    let file = disk.create(TEMPORARY)?;
    let mut output = io::BufWriter::with_capacity(1 << 20, Writing { file, offset: 0 });
    checkpoint::write(snapshot.as_ref(), position, &mut output, &mut |_| {})?;
    output.flush()?;
    let writing = output.into_inner().map_err(|error| error.into_error())?;
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

/// Applies an epoch's effects. Returns the newest version in it.
pub(crate) fn replay(store: &mut dyn Store, payload: &[u8]) -> Result<Version, EffectsError> {
    let mut reader = EffectsReader::new(payload);
    let mut newest = Version::ZERO;
    while let Some((version, effects)) = reader.next_transaction()? {
        for effect in effects {
            apply(store, version, effect?);
        }
        newest = newest.max(version);
    }
    Ok(newest)
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

struct Writing {
    file: Box<dyn File>,
    offset: u64,
}

impl Write for Writing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(self.offset, bytes)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
