//! Disk operations that delay concurrent syncs as little as possible.
//!
//! A sync waits for all work that the system has queued before it, of any origin: for megabytes
//! that were written, and, where the file system tells the device which blocks are free, for all
//! files removed since the last sync. Removing a gigabyte at once makes a small write wait for 80
//! ms. So both are done a few megabytes at a time, with rests between while others sync.
//!
//! Removed bytes that are not freed yet are bounded: a heavy writer would otherwise fill the disk
//! with files it no longer has. Beyond the bound, and on a disk that is nearly full, freeing takes
//! precedence and there are no rests.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::disk::UNSYNCED_BYTES_MAX;

/// Bytes that are given back before a rest.
const STEP_BYTES: u64 = 4 << 20;
/// Bytes that one call truncates. A call that truncates megabytes takes a millisecond, during which
/// many kernels do not preempt it.
const CUT_BYTES: u64 = 256 << 10;
/// No more than this is removed and not given back, in bytes.
const HELD_BYTES_MAX: u64 = 256 << 20;
/// With less than this to spare, in bytes, a disk is nearly full.
const SPARE_BYTES_MIN: u64 = 1 << 30;
/// Longest rest, also for a disk that is slower.
const REST_MAX: Duration = Duration::from_millis(50);

/// Limit of unsynced bytes while no other thread syncs: a disk takes them two to three times as
/// fast as a megabyte at a time, and the next sync of another thread then waits for some ten
/// milliseconds, once.
const UNSYNCED_ALONE_BYTES_MAX: u64 = 4 << 20;

/// The syncs that must not be delayed.
#[derive(Default)]
pub struct ForegroundSyncs {
    syncs: AtomicU64,
    /// Their number when the last rest was considered.
    seen: AtomicU64,
}

impl ForegroundSyncs {
    pub fn note_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Syncs the file, and rests for as long as that took if others have synced since the last
    /// time.
    pub fn sync_beside(&self, file: &File) -> io::Result<()> {
        let began = Instant::now();
        file.sync_data()?;
        if self.have_synced() {
            thread::sleep(began.elapsed().min(REST_MAX));
        }
        Ok(())
    }

    /// The most bytes written in the background that may wait for their sync.
    pub fn unsynced_bytes_max(&self) -> u64 {
        match self.syncs.load(Ordering::Relaxed) == self.seen.load(Ordering::Relaxed) {
            true => UNSYNCED_ALONE_BYTES_MAX,
            false => UNSYNCED_BYTES_MAX,
        }
    }

    /// Returns true if there has been a sync since the last call.
    fn have_synced(&self) -> bool {
        let syncs = self.syncs.load(Ordering::Relaxed);
        self.seen.swap(syncs, Ordering::Relaxed) != syncs
    }
}

/// Sets the file's length, truncating gradually.
pub fn set_len(file: &File, bytes: u64) -> io::Result<()> {
    let mut length = file.metadata()?.len();
    while length > bytes.saturating_add(CUT_BYTES) {
        length -= CUT_BYTES;
        file.set_len(length)?;
    }
    file.set_len(bytes)
}

/// Files without a name that still take space.
#[derive(Default)]
pub struct Removed {
    files: Mutex<Waiting>,
    /// Size of all of them, in bytes.
    held_bytes: AtomicU64,
    foreground: Arc<ForegroundSyncs>,
}

#[derive(Default)]
struct Waiting {
    files: VecDeque<Held>,
    /// The file that the thread is truncating.
    current: Option<Arc<File>>,
    has_thread: bool,
}

struct Held {
    file: File,
    bytes: u64,
}

impl Removed {
    pub fn new(foreground: Arc<ForegroundSyncs>) -> Removed {
        Removed {
            foreground,
            ..Removed::default()
        }
    }

    /// Returns the removed bytes that are not given back yet.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Returns the place among those held for a file that is about to be removed. Its room was made
    /// before, so that what is held stays within the bound also while that lasts.
    pub fn make_room(self: &Arc<Removed>, file: File) -> Place {
        let bytes = taken_bytes(&file);
        let mut waiting = self.files.lock();
        let bytes_max = match spare_bytes(&file) < SPARE_BYTES_MIN {
            true => 0,
            false => HELD_BYTES_MAX.saturating_sub(bytes),
        };
        let excess = self.take_excess(&mut waiting, bytes_max);
        let current = waiting.current.clone().filter(|_| self.held_bytes() > bytes_max);
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        drop(waiting);
        // Closing them gives their room back.
        drop(excess);
        if let Some(current) = current {
            cut_whole(&current);
        }
        Place {
            held: Some(Held { file, bytes }),
            removed: self.clone(),
        }
    }

    /// Truncates the file in the background, after the waiting files; a file larger than the bound
    /// immediately. If the process ends before, the system frees the rest at once.
    fn give_back(self: &Arc<Removed>, entry: Held) {
        if entry.bytes > HELD_BYTES_MAX || spare_bytes(&entry.file) < SPARE_BYTES_MIN {
            drop(entry.file);
            self.held_bytes.fetch_sub(entry.bytes, Ordering::Relaxed);
            return;
        }
        let mut waiting = self.files.lock();
        waiting.files.push_back(entry);
        if !waiting.has_thread {
            let removed = self.clone();
            let work = move || while removed.give_back_next() {};
            waiting.has_thread = thread::Builder::new().name("removed files".into()).spawn(work).is_ok();
        }
    }

    /// Gives back everything at once, because the disk is full. True if there was something.
    pub fn give_back_now(&self) -> bool {
        let mut waiting = self.files.lock();
        let files = self.take_excess(&mut waiting, 0);
        let current = waiting.current.clone();
        drop(waiting);
        let was_held = !files.is_empty() || current.is_some();
        drop(files);
        if let Some(current) = current {
            cut_whole(&current);
        }
        was_held
    }

    /// Takes the oldest waiting files, so that at most `bytes_max` remain held.
    fn take_excess(&self, waiting: &mut Waiting, bytes_max: u64) -> Vec<Held> {
        let mut excess = Vec::new();
        while self.held_bytes() > bytes_max
            && let Some(entry) = waiting.files.pop_front()
        {
            self.held_bytes.fetch_sub(entry.bytes, Ordering::Relaxed);
            excess.push(entry);
        }
        excess
    }

    /// False if nothing waits.
    fn give_back_next(&self) -> bool {
        let mut waiting = self.files.lock();
        let Some(Held { file, bytes }) = waiting.files.pop_front() else {
            waiting.has_thread = false;
            return false;
        };
        let file = Arc::new(file);
        waiting.current = Some(file.clone());
        drop(waiting);
        // If an operation fails here, closing the file frees the rest.
        let remaining = self.shrink(&file, bytes).unwrap_or_else(|(_, remaining)| remaining);
        // Under one lock, so that a file that is seen neither waiting nor being cut is not counted.
        let mut waiting = self.files.lock();
        waiting.current = None;
        drop(file);
        self.held_bytes.fetch_sub(remaining, Ordering::Relaxed);
        true
    }

    /// Cuts the file to nothing, and counts what it gives back of `bytes`. Returns what is still
    /// counted, also beside an error.
    fn shrink(&self, file: &File, bytes: u64) -> Result<u64, (io::Error, u64)> {
        let mut counted = bytes;
        let mut length = file.metadata().map_err(|error| (error, counted))?.len();
        while length > STEP_BYTES {
            length -= STEP_BYTES;
            let cut = set_len(file, length).and_then(|()| match self.must_hurry(file) {
                true => Ok(()),
                false => self.foreground.sync_beside(file),
            });
            cut.map_err(|error| (error, counted))?;
            let cut_bytes = STEP_BYTES.min(counted);
            self.held_bytes.fetch_sub(cut_bytes, Ordering::Relaxed);
            counted -= cut_bytes;
        }
        set_len(file, 0).map_err(|error| (error, counted))?;
        Ok(counted)
    }

    fn must_hurry(&self, file: &File) -> bool {
        self.held_bytes() > HELD_BYTES_MAX || spare_bytes(file) < SPARE_BYTES_MIN
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        let waiting = self.files.lock();
        waiting.files.is_empty() && waiting.current.is_none()
    }
}

/// The room that is held for a file until it is removed.
pub struct Place {
    removed: Arc<Removed>,
    held: Option<Held>,
}

impl Place {
    /// Gives the file's room back, now that it has no name.
    pub fn fill(mut self) {
        if let Some(entry) = self.held.take() {
            self.removed.give_back(entry);
        }
    }
}

impl Drop for Place {
    /// The file was not removed.
    fn drop(&mut self) {
        if let Some(entry) = &self.held {
            self.removed.held_bytes.fetch_sub(entry.bytes, Ordering::Relaxed);
        }
    }
}

/// Cuts the file that a thread is cutting. That may make it longer again, which takes no room.
fn cut_whole(file: &File) {
    // An error leaves the room to the thread, which closes the file.
    let _ = file.set_len(0);
}

/// Returns the file's size on the disk, in bytes. The unit is the system's, independent of the file
/// system's block size.
fn taken_bytes(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.blocks() * 512)
}

/// Returns the free bytes on the file's disk.
fn spare_bytes(file: &File) -> u64 {
    let system = rustix::fs::fstatvfs(file);
    system.map_or(u64::MAX, |system| system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn there_is_a_rest_after_each_time_that_others_have_synced() {
        let foreground = ForegroundSyncs::default();
        assert!(!foreground.have_synced());
        foreground.note_sync();
        foreground.note_sync();
        assert!(foreground.have_synced());
        assert!(!foreground.have_synced());
    }

    #[test]
    fn a_write_waits_for_the_disk_without_another_sync() {
        let foreground = ForegroundSyncs::default();
        assert_eq!(foreground.unsynced_bytes_max(), UNSYNCED_ALONE_BYTES_MAX);
        foreground.note_sync();
        assert_eq!(foreground.unsynced_bytes_max(), UNSYNCED_BYTES_MAX);
        assert!(foreground.have_synced());
        assert_eq!(foreground.unsynced_bytes_max(), UNSYNCED_ALONE_BYTES_MAX);
    }

    #[test]
    fn files_get_the_requested_length() {
        let file = tempfile::tempfile().unwrap();
        for bytes in [
            0,
            1,
            CUT_BYTES,
            3 * CUT_BYTES + 7,
            3 * CUT_BYTES + 7,
            2 * CUT_BYTES + 6,
            CUT_BYTES,
            10,
            5 * CUT_BYTES,
            0,
        ] {
            set_len(&file, bytes).unwrap();
            assert_eq!(file.metadata().unwrap().len(), bytes);
        }
    }

    #[test]
    fn removed_files_end_empty_and_closed() {
        let directory = tempfile::tempdir().unwrap();
        let removed = Arc::new(Removed::default());
        let sizes = [0, 1, STEP_BYTES, 3 * STEP_BYTES + 5];
        let files = sizes.map(|bytes| {
            let file = tempfile::tempfile_in(directory.path()).unwrap();
            file.set_len(bytes).unwrap();
            removed.make_room(file.try_clone().unwrap()).fill();
            file
        });
        while !removed.is_empty() {
            thread::yield_now();
        }
        for file in files {
            assert_eq!(file.metadata().unwrap().len(), 0);
        }
        assert_eq!(removed.held_bytes(), 0);
    }

    /// The count is used once no file is left: it decides whether the next file has room.
    #[test]
    fn a_removed_file_is_not_counted() {
        let removed = Arc::new(Removed::default());
        for _ in 0..200 {
            let file = tempfile::tempfile().unwrap();
            crate::real_disk::allocate(&file, CUT_BYTES).unwrap();
            removed.make_room(file).fill();
            while !removed.is_empty() {
                thread::yield_now();
            }
            assert_eq!(removed.held_bytes(), 0);
        }
    }

    /// Returns what the files of the directory take that are open here.
    fn open_bytes(directory: &std::path::Path) -> u64 {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let open = open.filter_map(|descriptor| Some(descriptor.ok()?.path()));
        let is_inside =
            |descriptor: &PathBuf| std::fs::read_link(descriptor).is_ok_and(|target| target.starts_with(directory));
        let bytes = |descriptor: PathBuf| Some(std::fs::metadata(descriptor).ok()?.blocks() * 512);
        open.filter(is_inside).filter_map(bytes).sum()
    }

    /// Under a load that removed more than the thread gave back, what was held grew for as long as
    /// the load lasted: 5.7 GB after 26 seconds.
    #[test]
    fn held_bytes_are_bounded() {
        const BYTES: u64 = 32 << 20;
        let directory = tempfile::tempdir().unwrap();
        let foreground = Arc::new(ForegroundSyncs::default());
        let removed = Arc::new(Removed::new(foreground.clone()));
        for _ in 0..4 * HELD_BYTES_MAX / BYTES {
            // Another file always syncs, so the thread rests after each step.
            foreground.note_sync();
            let file = tempfile::tempfile_in(directory.path()).unwrap();
            crate::real_disk::allocate(&file, BYTES).unwrap();
            file.set_len(BYTES).unwrap();
            let place = removed.make_room(file);
            // The file of the place is open too.
            let bytes = open_bytes(directory.path());
            assert!(bytes <= HELD_BYTES_MAX, "{bytes}");
            place.fill();
        }
        removed.give_back_now();
        while !removed.is_empty() {
            thread::yield_now();
        }
        assert_eq!(removed.held_bytes(), 0);
    }
}
