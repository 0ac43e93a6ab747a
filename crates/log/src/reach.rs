//! The statement of how far the log has reached, in a small file next to the segments.
//!
//! A segment cannot testify to its own absence: without the newest file, or cut at the end of a
//! record, the remaining files look like a log that ended earlier. `log-reach` names the newest
//! segment and a sequence that was durable when it was written, so that opening can verify that
//! they exist.
//!
//! ```text
//! slot   magic 8 | format version u32 | checksum u32 | generation u64 | newest segment u64 | durable u64        40 bytes
//!        version 1: the folder has all of the data; 2: it has one of several partitions
//! file   slot at 0 | slot at 4096
//! ```
//!
//! All numbers are little endian. A statement is written to the slot that the previous statement
//! did not use, so a torn write leaves the older one, which is still true. It is written in place:
//! that works on a full disk too, and needs no new directory entry.
//!
//! Invariant: a statement is never ahead of the segments. It is written only after the stated
//! records are durable, so it may itself be lost, or be old, but is never wrong.

use crate::FileLogError;
use quartet_env::{Disk, File};
use quartet_model::LogSequence;

/// The sequence that is known to have been durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The first sequence of the newest segment with a durable header and name.
    pub newest: LogSequence,
    /// Every record up to here is durable.
    pub durable: LogSequence,
}

/// The reach that a directory states of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stated {
    pub reach: Reach,
    generation: u64,
    /// The folder has one of several partitions: a program without support for partitions must not
    /// open it.
    pub is_one_of_several: bool,
}

pub(crate) struct ReachFile {
    file: Box<dyn File>,
    stated: Stated,
}

pub(crate) const REACH_NAME: &str = "log-reach";
/// Until its first statement is durable.
const TEMPORARY: &str = "log-reach.partial";
const MAGIC: &[u8; 8] = b"QRTREACH";
/// The versions of a folder that has all of the data, and of one of several partitions.
const WHOLE: u32 = 1;
const ONE_OF_SEVERAL: u32 = 2;
const STATEMENT_BYTES: usize = 40;
/// Offsets of the slots, in different sectors even on a disk with sectors of 4 KiB.
const SLOT_OFFSETS: [u64; 2] = [0, 4096];

/// The newest statement. `None` if there is none: the log is new.
///
/// Errors: `ReachUnreadable` if the file has other content, `Format`, `Disk`.
pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Stated>, FileLogError> {
    if !disk
        .exists(REACH_NAME)
        .map_err(FileLogError::disk("look for", REACH_NAME))?
    {
        return Ok(None);
    }
    let file = disk.open(REACH_NAME).map_err(FileLogError::disk("open", REACH_NAME))?;
    let mut newest: Option<Stated> = None;
    for offset in SLOT_OFFSETS {
        let mut bytes = [0; STATEMENT_BYTES];
        file.read_at(offset, &mut bytes)
            .map_err(FileLogError::disk("read", REACH_NAME))?;
        let stated = Stated::decode(&bytes)?;
        newest = newest.into_iter().chain(stated).max_by_key(|stated| stated.generation);
    }
    newest.map(Some).ok_or(FileLogError::ReachUnreadable)
}

/// Returns true if the folder says that it has one of several partitions.
pub fn is_one_of_several(disk: &dyn Disk) -> Result<bool, FileLogError> {
    Ok(read(disk)?.is_some_and(|stated| stated.is_one_of_several))
}

impl ReachFile {
    /// Continues from `stated`, or creates the file with `reach` as its first statement. For a
    /// folder that is one of several, this is stated durably when this returns, and permanently.
    pub fn open(
        disk: &dyn Disk,
        stated: Option<Stated>,
        reach: Reach,
        is_one_of_several: bool,
    ) -> Result<ReachFile, FileLogError> {
        let Some(stated) = stated else {
            return ReachFile::create(disk, reach, is_one_of_several);
        };
        let file = disk.open(REACH_NAME).map_err(FileLogError::disk("open", REACH_NAME))?;
        let mut opened = ReachFile { file, stated };
        if is_one_of_several && !stated.is_one_of_several {
            opened.stated.is_one_of_several = true;
            opened.write_next(stated.reach)?;
            opened.sync()?;
        }
        Ok(opened)
    }

    fn create(disk: &dyn Disk, reach: Reach, is_one_of_several: bool) -> Result<ReachFile, FileLogError> {
        let file = disk
            .create(TEMPORARY)
            .map_err(FileLogError::no_room("create", TEMPORARY))?;
        let stated = Stated {
            reach,
            generation: 0,
            is_one_of_several,
        };
        let created = ReachFile { file, stated };
        for offset in SLOT_OFFSETS {
            created.write(offset, stated)?;
        }
        created.sync()?;
        disk.rename(TEMPORARY, REACH_NAME)
            .map_err(FileLogError::no_room("rename", TEMPORARY))?;
        disk.sync_directory()
            .map_err(FileLogError::disk("sync the directory of", REACH_NAME))?;
        Ok(created)
    }

    /// Writes down `reach` unless that is what was written last. It outlives the process, but a
    /// loss of power only after `sync`.
    pub fn state(&mut self, reach: Reach) -> Result<(), FileLogError> {
        match reach == self.stated.reach {
            true => Ok(()),
            false => self.write_next(reach),
        }
    }

    fn write_next(&mut self, reach: Reach) -> Result<(), FileLogError> {
        let generation = self.stated.generation + 1;
        let stated = Stated {
            reach,
            generation,
            ..self.stated
        };
        self.write(SLOT_OFFSETS[generation as usize % SLOT_OFFSETS.len()], stated)?;
        self.stated = stated;
        Ok(())
    }

    pub fn sync(&self) -> Result<(), FileLogError> {
        self.file.sync_data().map_err(FileLogError::disk("sync", REACH_NAME))
    }

    fn write(&self, offset: u64, stated: Stated) -> Result<(), FileLogError> {
        self.file
            .write_at(offset, &stated.encode())
            .map_err(FileLogError::no_room("write", REACH_NAME))
    }
}

impl Stated {
    fn encode(self) -> [u8; STATEMENT_BYTES] {
        let mut bytes = [0; STATEMENT_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        let version = if self.is_one_of_several { ONE_OF_SEVERAL } else { WHOLE };
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.reach.newest.0.to_le_bytes());
        bytes[32..].copy_from_slice(&self.reach.durable.0.to_le_bytes());
        let checksum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None` if these bytes are not a statement.
    fn decode(bytes: &[u8; STATEMENT_BYTES]) -> Result<Option<Stated>, FileLogError> {
        if &bytes[..8] != MAGIC || u32_at(bytes, 12) != checksum(bytes) {
            return Ok(None);
        }
        let version = u32_at(bytes, 8);
        if ![WHOLE, ONE_OF_SEVERAL].contains(&version) {
            let file = REACH_NAME.to_owned();
            return Err(FileLogError::Format { file, version });
        }
        let reach = Reach {
            newest: LogSequence(u64_at(bytes, 24)),
            durable: LogSequence(u64_at(bytes, 32)),
        };
        let generation = u64_at(bytes, 16);
        Ok(Some(Stated {
            reach,
            generation,
            is_one_of_several: version == ONE_OF_SEVERAL,
        }))
    }
}

fn checksum(bytes: &[u8; STATEMENT_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..]);
    hasher.finalize()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use quartet_env::FaultyDisk;

    use super::*;

    fn reach(newest: u64, durable: u64) -> Reach {
        Reach {
            newest: LogSequence(newest),
            durable: LogSequence(durable),
        }
    }

    fn found(disk: &FaultyDisk) -> Option<Reach> {
        read(disk).unwrap().map(|stated| stated.reach)
    }

    #[test]
    fn the_newest_statement_counts_and_the_previous_is_its_fallback() {
        let disk = FaultyDisk::new();
        assert_eq!(found(&disk), None);
        let mut file = ReachFile::open(&disk, None, reach(1, 0), false).unwrap();
        for durable in 1..=5 {
            file.state(reach(1, durable)).unwrap();
            assert_eq!(found(&disk), Some(reach(1, durable)));
        }
        let reopened = ReachFile::open(&disk, read(&disk).unwrap(), reach(1, 0), false);
        reopened.unwrap().state(reach(6, 5)).unwrap();
        assert_eq!(found(&disk), Some(reach(6, 5)));
        for offset in (0..40).chain(4096..4136) {
            let disk = disk.fork();
            disk.flip(REACH_NAME, offset, 1);
            let stated = found(&disk);
            assert!(stated == Some(reach(6, 5)) || stated == Some(reach(1, 5)), "{offset}");
        }
    }

    #[test]
    fn other_bytes_and_later_formats_are_refused() {
        let disk = FaultyDisk::new();
        let file = disk.create(REACH_NAME).unwrap();
        assert!(matches!(read(&disk), Err(FileLogError::ReachUnreadable)));
        let mut later = Stated {
            reach: reach(1, 1),
            generation: 1,
            is_one_of_several: false,
        }
        .encode();
        later[8] = 3;
        let checksum = checksum(&later);
        later[12..16].copy_from_slice(&checksum.to_le_bytes());
        file.write_at(0, &later).unwrap();
        assert!(matches!(read(&disk), Err(FileLogError::Format { version: 3, .. })));
    }

    /// A program that only supports version 1 reads the version at bytes 8 to 11, under the
    /// checksum of that version.
    #[test]
    fn a_folder_that_is_one_of_several_stays_one_and_has_a_version_of_its_own() {
        let disk = FaultyDisk::new();
        let is_one = || read(&disk).unwrap().unwrap().is_one_of_several;
        ReachFile::open(&disk, None, reach(1, 0), false).unwrap();
        assert!(!is_one());
        let stated = || read(&disk).unwrap();
        ReachFile::open(&disk, stated(), reach(1, 0), true).unwrap();
        assert!(is_one());
        let power_cut = disk.fork();
        power_cut.crash();
        assert!(read(&power_cut).unwrap().unwrap().is_one_of_several, "it is durable");
        let mut file = ReachFile::open(&disk, stated(), reach(1, 0), false).unwrap();
        file.state(reach(3, 2)).unwrap();
        assert!(is_one() && found(&disk) == Some(reach(3, 2)));
        let mut bytes = [0; STATEMENT_BYTES];
        disk.open(REACH_NAME)
            .unwrap()
            .read_at(SLOT_OFFSETS[0], &mut bytes)
            .unwrap();
        assert_eq!((u32_at(&bytes, 8), u32_at(&bytes, 12)), (2, checksum(&bytes)));
    }
}
