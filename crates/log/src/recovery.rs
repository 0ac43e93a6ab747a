//! Opening: reads what the log holds and leaves a segment ready for appending.
//!
//! The remains of an unfinished record are overwritten with zeros, so that no old record can
//! reappear after a new one. Records without evidence of durability may exist only in the system's
//! cache, and a sync that failed before a restart may have left them marked as written. They are
//! written again and synced before they count.
//!
//! Invariant: after opening, every record up to the tail is durable, gap-free, and was given to
//! `replay` in order.

use crate::FileLogError;
use crate::options::FileLogOptions;
use crate::reach::Stated;
use crate::reader::{Rest, SegmentReader};
use crate::record::SegmentHeader;
use crate::reserve::{Reserve, reserve_most};
use crate::segment::{FILL_BYTES_MIN, Segment, segment_name};
use crate::survey::{ReadSegment, Sealed, Survey, Surveyed};
use quartet_env::Disk;
use quartet_model::LogSequence;

pub(crate) struct Recovered {
    /// Oldest first.
    pub sealed: Vec<Sealed>,
    pub active: Segment,
    pub tail: LogSequence,
    /// The sequence of the mark at the end of the active segment, or zero.
    pub marked: LogSequence,
    /// The end of the log before its opening, as stated by the log.
    pub stated: Option<Stated>,
}

/// Changes nothing on disk unless the whole log is sound.
pub(crate) fn recover(
    survey: Survey<'_>,
    options: &FileLogOptions,
    reserve: &Reserve,
) -> Result<Recovered, FileLogError> {
    let (disk, replay_from) = (survey.disk, survey.replay_from);
    let Surveyed {
        sealed,
        newest,
        unfinished,
        stated,
        ..
    } = survey.run()?;
    if let Some(first) = unfinished {
        remove(disk, first)?;
    }
    let Some((read, remainder)) = newest else {
        return begin(reserve, options, replay_from, stated);
    };
    let tail = LogSequence(read.next.0 - 1);
    let marked = if let Rest::Clean { marked } = remainder {
        marked
    } else {
        LogSequence::ZERO
    };
    let active = settle(disk, options, read, remainder == Rest::Remains)?;
    Ok(Recovered {
        sealed,
        active,
        tail,
        marked,
        stated,
    })
}

/// Starts a log where the checkpoint ends.
fn begin(
    reserve: &Reserve,
    options: &FileLogOptions,
    first: LogSequence,
    stated: Option<Stated>,
) -> Result<Recovered, FileLogError> {
    let header = SegmentHeader::new(first, options.salt);
    let active = reserve.begin(header, 0)?;
    let tail = LogSequence(first.0 - 1);
    Ok(Recovered {
        sealed: Vec::new(),
        active,
        tail,
        marked: tail,
        stated,
    })
}

fn remove(disk: &dyn Disk, first: LogSequence) -> Result<(), FileLogError> {
    let name = segment_name(first);
    disk.remove(&name).map_err(FileLogError::disk("remove", &name))?;
    disk.sync_directory()
        .map_err(FileLogError::disk("sync the directory of", &name))
}

/// Makes the newest segment durable up to its last record, and zeros the rest.
fn settle(
    disk: &dyn Disk,
    options: &FileLogOptions,
    read: ReadSegment,
    remains: bool,
) -> Result<Segment, FileLogError> {
    let (from, end, filled) = (read.durable_end, read.end, read.reader.length);
    let SegmentReader { file, name, .. } = read.reader;
    let segment_bytes = options.segment_bytes;
    let header = read.header;
    let capacity = reserve_most(disk, file.as_ref(), &name, segment_bytes.max(filled), filled)?;
    let mut active = Segment {
        file,
        name,
        header,
        end,
        filled,
        fill_bytes: FILL_BYTES_MIN,
        capacity,
        segment_bytes,
    };
    if remains {
        active.write_zeros(end, filled)?;
    }
    if remains || from < end {
        active.rewrite(from)?;
        active.sync()?;
        disk.sync_directory()
            .map_err(FileLogError::disk("sync the directory of", &active.name))?;
    }
    Ok(active)
}
