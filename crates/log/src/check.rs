//! Reading a log to see whether it is sound. Nothing on disk is changed.

use crate::reader::Rest;
use crate::segment::segment_name;
use crate::survey::{self, Survey};
use crate::{FileLogError, Replay, ReplayProgress};
use quartet_env::Disk;
use quartet_model::LogSequence;

/// Contents of a sound log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReport {
    /// Segments, and how many of them were not read because all their records are older than the
    /// checkpoint.
    pub segments: usize,
    /// The number of unread segments among them.
    pub segments_unread: usize,
    /// The first record read, and the last. `last` is before `first` if there is none.
    pub first: LogSequence,
    /// The last record read.
    pub last: LogSequence,
    /// Bytes of all records, read or not.
    pub bytes: u64,
    /// The bytes that a crash left after the last record. They were never acknowledged, and are cut
    /// when the log is opened.
    pub unfinished: Option<UnfinishedWrite>,
}

/// A record whose write was not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedWrite {
    /// The segment.
    pub file: String,
    /// Its first byte.
    pub offset: u64,
}

/// Reads the log as opening it does, and gives `replay` every record from `replay_from` on.
///
/// Errors: those of [`FileLog::open`](crate::FileLog::open).
pub fn check(
    disk: &dyn Disk,
    replay_from: LogSequence,
    replay: &mut Replay<'_>,
    progress: &mut dyn FnMut(ReplayProgress),
) -> Result<LogReport, FileLogError> {
    let replay_from = replay_from.max(LogSequence::ZERO.next());
    let surveyed = Survey {
        disk,
        replay_from,
        replay,
        progress,
    }
    .run()?;
    Ok(LogReport::of(&surveyed, replay_from))
}

impl LogReport {
    fn of(surveyed: &survey::Surveyed, replay_from: LogSequence) -> LogReport {
        let newest = surveyed.newest.as_ref();
        let sealed = &surveyed.sealed;
        let first_read = sealed.get(surveyed.unread).map(|segment| segment.first);
        let torn = newest.filter(|(_, remainder)| *remainder == Rest::Remains);
        let torn = torn.map(|(read, _)| UnfinishedWrite {
            file: read.reader.name.clone(),
            offset: read.end,
        });
        let unfinished = surveyed.unfinished.map(|first| UnfinishedWrite {
            file: segment_name(first),
            offset: 0,
        });
        LogReport {
            segments: sealed.len() + usize::from(newest.is_some()),
            segments_unread: surveyed.unread,
            first: first_read
                .or(newest.map(|(read, _)| read.header.first))
                .unwrap_or(replay_from),
            last: newest.map_or(LogSequence(replay_from.0 - 1), |(read, _)| LogSequence(read.next.0 - 1)),
            bytes: sealed.iter().map(|segment| segment.bytes).sum::<u64>()
                + newest.map_or(0, |(read, _)| read.record_bytes()),
            unfinished: unfinished.or(torn),
        }
    }
}
