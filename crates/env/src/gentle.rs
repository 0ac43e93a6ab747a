//! Work on a disk beside those who wait for its syncs.
//!
//! A sync waits for what the system has to do before it, whoever asked for that: for megabytes that were written, and, where
//! the file system tells the device what is free, for all that was removed since the last one. A gigabyte that is removed at
//! once makes a small write wait for 80 ms. So both are done a few megabytes at a time, with rests between while others sync.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::disk::UNSYNCED_BYTES_MAX;

/// So much is given back before a rest.
const STEP_BYTES: u64 = 4 << 20;
/// So much is cut off a file by one call. A call that cuts off megabytes takes a millisecond, in which many kernels let nobody else
/// have the processor.
const CUT_BYTES: u64 = 256 << 10;
/// A disk that needs longer is not left alone for longer.
const REST_MAX: Duration = Duration::from_millis(50);

/// As many bytes may wait for the disk while nobody else syncs: a disk takes them two to three times as fast as a megabyte at a time, and whoever
/// comes then waits for some ten milliseconds, once.
const UNSYNCED_ALONE_BYTES_MAX: u64 = 4 << 20;

/// The syncs of those who are not to wait.
#[derive(Default)]
pub struct Others {
    syncs: AtomicU64,
    /// How many those were when the last rest was considered.
    seen: AtomicU64,
}

impl Others {
    pub fn note_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Syncs the file, and rests for as long as that took if others have synced since the last time.
    pub fn sync_beside(&self, file: &File) -> io::Result<()> {
        let began = Instant::now();
        file.sync_data()?;
        if self.have_synced() {
            thread::sleep(began.elapsed().min(REST_MAX));
        }
        Ok(())
    }

    /// How many bytes that were written in the background may wait for their sync.
    pub fn unsynced_bytes_max(&self) -> u64 {
        match self.syncs.load(Ordering::Relaxed) == self.seen.load(Ordering::Relaxed) {
            true => UNSYNCED_ALONE_BYTES_MAX,
            false => UNSYNCED_BYTES_MAX,
        }
    }

    /// True if somebody has since the last time it was asked.
    fn have_synced(&self) -> bool {
        let syncs = self.syncs.load(Ordering::Relaxed);
        self.seen.swap(syncs, Ordering::Relaxed) != syncs
    }
}

/// Gives the file this length: a shorter one little by little.
pub fn set_len(file: &File, bytes: u64) -> io::Result<()> {
    let mut left = file.metadata()?.len();
    while left > bytes.saturating_add(CUT_BYTES) {
        left -= CUT_BYTES;
        file.set_len(left)?;
    }
    file.set_len(bytes)
}

/// Files that have no name any more and still take room.
#[derive(Default)]
pub struct Removed {
    files: Mutex<VecDeque<File>>,
    others: Arc<Others>,
}

impl Removed {
    pub fn new(others: Arc<Others>) -> Removed {
        Removed {
            files: Mutex::default(),
            others,
        }
    }

    /// Cuts the file to nothing in the background, after those that wait. A process that ends before gives all back at once.
    pub fn give_back(self: &Arc<Removed>, file: File) {
        let mut files = self.files.lock();
        files.push_back(file);
        if files.len() > 1 {
            return;
        }
        let removed = self.clone();
        let work = move || while removed.give_back_next() {};
        if thread::Builder::new().name("removed files".into()).spawn(work).is_err() {
            files.clear();
        }
    }

    /// False if nothing waits. The file stays in its place until it is empty, so that nobody begins a second thread.
    fn give_back_next(&self) -> bool {
        let Some(Ok(file)) = self.files.lock().front().map(File::try_clone) else {
            // Without a descriptor to spare, closing them is what gives room.
            self.files.lock().clear();
            return false;
        };
        // Whatever fails here, closing the file gives back the rest.
        let _ = self.shrink(&file);
        let mut files = self.files.lock();
        files.pop_front();
        !files.is_empty()
    }

    fn shrink(&self, file: &File) -> io::Result<()> {
        let mut left = file.metadata()?.len();
        while left > STEP_BYTES {
            left -= STEP_BYTES;
            set_len(file, left)?;
            self.others.sync_beside(file)?;
        }
        set_len(file, 0)
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.files.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_rest_after_each_time_that_others_have_synced() {
        let others = Others::default();
        assert!(!others.have_synced());
        others.note_sync();
        others.note_sync();
        assert!(others.have_synced());
        assert!(!others.have_synced());
    }

    #[test]
    fn more_waits_for_the_disk_while_nobody_else_syncs() {
        let others = Others::default();
        assert_eq!(others.unsynced_bytes_max(), UNSYNCED_ALONE_BYTES_MAX);
        others.note_sync();
        assert_eq!(others.unsynced_bytes_max(), UNSYNCED_BYTES_MAX);
        assert!(others.have_synced());
        assert_eq!(others.unsynced_bytes_max(), UNSYNCED_ALONE_BYTES_MAX);
    }

    #[test]
    fn files_get_the_length_that_is_asked_for() {
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
            removed.give_back(file.try_clone().unwrap());
            file
        });
        while !removed.is_empty() {
            thread::yield_now();
        }
        for file in files {
            assert_eq!(file.metadata().unwrap().len(), 0);
        }
    }
}
