//! The room that the log is sure to have on disk.
//!
//! ```text
//!   segment being written                     next segment, `log-next`
//!   | records | ... room ... |                | header | zeros | ... room ... |
//! ```
//!
//! Two files have space reserved: the segment being written, and the next one, which is created
//! ahead of need, so that starting a segment neither waits for the disk to find space nor needs a
//! file descriptor. Records that are still in memory are guaranteed to fit as long as they take no
//! more than the larger of both rooms: they go into the first while they fit, and all others into
//! the second. To promise more, extend the second first.
//!
//! A file system that cannot reserve accepts everything here; there an append may still find the
//! disk full (`NoRoom`).
//!
//! Any thread may prepare or extend. Invariant: appending a record of N bytes lowers `room` by at
//! most N.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use quartet_env::{Disk, File};

use crate::record::{RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::segment::{FILL_BYTES_MIN, Segment, segment_name, write_zeros};
use crate::{FileLogError, LogError, LogRoom};

/// The room that a file log is sure to have.
pub struct Reserve {
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    /// Room for records after the last record of the active segment.
    active_room: AtomicU64,
    /// For records of the next segment; 0 if there is none.
    next_room: AtomicU64,
    next: Mutex<Option<Prepared>>,
}

/// A file that will be a segment.
struct Prepared {
    file: Box<dyn File>,
    /// Zeros up to here are durable.
    filled: u64,
    capacity: u64,
}

/// The next segment, until its first record is known.
pub(crate) const NEXT_NAME: &str = "log-next";
/// Bytes of a segment besides its epochs: its header, and a mark after the last epoch.
const FRAME_BYTES: u64 = (SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES) as u64;

impl Reserve {
    pub(crate) fn new(disk: Arc<dyn Disk>, segment_bytes: u64) -> Reserve {
        Reserve {
            disk,
            segment_bytes,
            active_room: AtomicU64::new(0),
            next_room: AtomicU64::new(0),
            next: Mutex::new(None),
        }
    }

    /// See [`LogRoom::room`].
    #[inline]
    pub fn room(&self) -> u64 {
        let active = self.active_room.load(Ordering::Relaxed);
        active.max(self.next_room.load(Ordering::Relaxed))
    }

    /// Returns true if the next segment exists, with the usual size.
    #[inline]
    pub fn is_prepared(&self) -> bool {
        self.next_room.load(Ordering::Relaxed) + FRAME_BYTES >= self.segment_bytes
    }

    /// Creates the next segment, unless it exists. On a disk that is nearly full it reserves half
    /// of the free space.
    ///
    /// Errors: `NoRoom` if there is no space or no file descriptor: try again later.
    pub fn prepare(&self) -> Result<(), FileLogError> {
        let mut next = self.next.lock();
        self.provide(&mut next, self.segment_bytes, 0)?;
        if self.is_prepared() {
            return Ok(());
        }
        let source = std::io::ErrorKind::StorageFull.into();
        Err(FileLogError::no_room("reserve all of", NEXT_NAME)(source))
    }

    /// Makes `room` for records, in the next segment. Nothing is lost by trying.
    pub fn extend(&self, room: u64) -> Result<(), FileLogError> {
        let mut next = self.next.lock();
        let capacity = room + FRAME_BYTES;
        // More than requested, so that a gradually growing promise rarely extends.
        let preferred = capacity.max(self.segment_bytes) + capacity / 2;
        self.provide(&mut next, preferred, capacity)
    }

    pub(crate) fn set_active_room(&self, bytes: u64) {
        self.active_room.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn next_room(&self) -> u64 {
        self.next_room.load(Ordering::Relaxed)
    }

    /// Starts the next segment durably, with room for `record_bytes`. After an error there is no
    /// new segment.
    pub(crate) fn begin(&self, header: SegmentHeader, record_bytes: u64) -> Result<Segment, FileLogError> {
        let mut next = self.next.lock();
        let needed = record_bytes + FRAME_BYTES;
        self.provide(&mut next, needed.max(self.segment_bytes), needed)?;
        let name = segment_name(header.first);
        if let Some(prepared) = next.as_ref() {
            prepared.become_segment(self.disk.as_ref(), header, &name)?;
        }
        let Prepared { file, filled, capacity } = next.take().expect("a segment was provided");
        self.next_room.store(0, Ordering::Relaxed);
        Ok(Segment::begun(file, name, header, filled, capacity, self.segment_bytes))
    }

    /// Makes the next segment `preferred` bytes large, or as large as it can be, but not smaller
    /// than `needed`.
    fn provide(&self, next: &mut Option<Prepared>, preferred: u64, needed: u64) -> Result<(), FileLogError> {
        if next.is_none() {
            *next = Some(Prepared::open(self.disk.as_ref())?);
        }
        let Some(prepared) = next.as_mut().filter(|prepared| prepared.capacity < preferred) else {
            return Ok(());
        };
        let needed = needed.max(FRAME_BYTES);
        prepared.capacity = reserve_most(self.disk.as_ref(), prepared.file.as_ref(), NEXT_NAME, preferred, needed)?;
        prepared.fill()?;
        let room = prepared.capacity - FRAME_BYTES;
        self.next_room.store(room, Ordering::Relaxed);
        Ok(())
    }
}

impl LogRoom for Reserve {
    fn room(&self) -> u64 {
        Reserve::room(self)
    }

    fn is_prepared(&self) -> bool {
        Reserve::is_prepared(self)
    }

    fn prepare(&self) -> Result<(), LogError> {
        Ok(Reserve::prepare(self)?)
    }

    fn extend(&self, room: u64) -> Result<(), LogError> {
        Ok(Reserve::extend(self, room)?)
    }
}

impl Prepared {
    /// Adopts the file that an earlier run prepared, so that its space stays reserved, or creates
    /// it.
    fn open(disk: &dyn Disk) -> Result<Prepared, FileLogError> {
        let exists = disk
            .exists(NEXT_NAME)
            .map_err(FileLogError::disk("look for", NEXT_NAME))?;
        let opened = if exists {
            disk.open(NEXT_NAME)
        } else {
            disk.create(NEXT_NAME)
        };
        let mut file = opened.map_err(FileLogError::no_room("create", NEXT_NAME))?;
        let length = file.len().map_err(FileLogError::disk("measure", NEXT_NAME))?;
        if length > SEGMENT_HEADER_BYTES as u64 + FILL_BYTES_MIN {
            file = disk
                .create(NEXT_NAME)
                .map_err(FileLogError::no_room("create", NEXT_NAME))?;
        }
        Ok(Prepared {
            file,
            filled: 0,
            capacity: 0,
        })
    }

    /// Writes the first zeros, once: those of an earlier run remain valid.
    fn fill(&mut self) -> Result<(), FileLogError> {
        if self.filled == 0 {
            let to = (SEGMENT_HEADER_BYTES as u64 + FILL_BYTES_MIN).min(self.capacity);
            let is_filled = are_zeros(self.file.as_ref(), to).map_err(FileLogError::disk("read", NEXT_NAME))?;
            if !is_filled {
                write_zeros(self.file.as_ref(), NEXT_NAME, 0, to)?;
            }
            self.file.sync_data().map_err(FileLogError::disk("sync", NEXT_NAME))?;
            self.filled = to;
        }
        Ok(())
    }

    /// Gets its header and its name; both are durable afterwards.
    fn become_segment(&self, disk: &dyn Disk, header: SegmentHeader, name: &str) -> Result<(), FileLogError> {
        self.file
            .write_at(0, &header.encode())
            .map_err(FileLogError::no_room("write", NEXT_NAME))?;
        self.file.sync_data().map_err(FileLogError::disk("sync", NEXT_NAME))?;
        disk.rename(NEXT_NAME, name)
            .map_err(FileLogError::no_room("rename", NEXT_NAME))?;
        disk.sync_directory()
            .map_err(FileLogError::disk("sync the directory of", name))
    }
}

/// True if the file has zeros up to `end`.
fn are_zeros(file: &dyn File, end: u64) -> std::io::Result<bool> {
    let mut bytes = vec![1; end as usize];
    let read = file.read_at(0, &mut bytes)?;
    Ok(read == bytes.len() && bytes.iter().all(|byte| *byte == 0))
}

/// Reserves `preferred` bytes for the file, or its present size plus half of the disk's free space:
/// a checkpoint may need the other half. Returns the number of reserved bytes, at least `needed`.
pub(crate) fn reserve_most(
    disk: &dyn Disk,
    file: &dyn File,
    name: &str,
    preferred: u64,
    needed: u64,
) -> Result<u64, FileLogError> {
    let has = file.allocated_bytes().map_err(FileLogError::disk("measure", name))?;
    let free = disk
        .available_bytes()
        .map_err(FileLogError::disk("measure the room for", name))?;
    let most = if preferred <= has.saturating_add(free) {
        preferred.max(has)
    } else {
        has + free / 2
    };
    for bytes in [most.max(needed), has.max(needed)] {
        match file
            .allocate(bytes)
            .map_err(FileLogError::no_room("reserve room for", name))
        {
            Ok(()) => return Ok(bytes),
            Err(FileLogError::NoRoom { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let source = std::io::ErrorKind::StorageFull.into();
    Err(FileLogError::no_room("reserve room for", name)(source))
}
