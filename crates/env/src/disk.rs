//! A directory and its files, with explicit durability.
//!
//! Writes are visible to readers at once, but survive a loss of power only after `sync_data` of the
//! file; and a file that was created, renamed or removed is so for good only after
//! `sync_directory`. A failed sync must not be retried: the operating system may have dropped the
//! data and report success the second time.
//!
//! A *name* is plain: not empty, without `/`, not `.` or `..`.

use rustix::io::Errno;
use std::io;

/// One directory. Object safe, so that a server and a test differ only in the implementation that
/// they pass.
pub trait Disk: Send + Sync {
    /// Creates `name` for reading and writing, or empties it if it exists.
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;
    /// Opens `name` for reading and writing. `NotFound` if it does not exist.
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;
    /// The names of all files, in ascending order, without the lock file.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Returns true if there is a file of that name.
    fn exists(&self, name: &str) -> io::Result<bool>;
    /// Moves `from` to `to` atomically, replacing an existing `to`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. `NotFound` if it does not exist.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Removes a file without readers. Its space is freed gradually, because concurrent syncs wait
    /// while the system frees much at once.
    fn remove_gently(&self, name: &str) -> io::Result<()> {
        self.remove(name)
    }
    /// Makes every earlier create, rename and remove durable.
    fn sync_directory(&self) -> io::Result<()>;
    /// Returns the bytes that files of this directory may still take together, including those of
    /// removed files.
    fn available_bytes(&self) -> io::Result<u64>;
    /// Returns the bytes of removed files whose space is not freed yet. It is freed immediately
    /// when the disk is full.
    fn removed_bytes(&self) -> u64 {
        0
    }
}

/// One open file. Offsets and lengths are in bytes.
pub trait File: Send + Sync {
    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file, 0 beyond it.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `bytes`, growing the file as needed. After an error any part of them may have
    /// been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Returns true if the length is 0.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts the file, or grows it with zeros.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Reserves room for the first `bytes` bytes without changing the length, so that writing them
    /// cannot run out of space. Does nothing on a file system that cannot reserve.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Returns the file's size on the disk: its written and its reserved bytes.
    fn allocated_bytes(&self) -> io::Result<u64>;
    /// Makes the content and the length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// The same for a file that is written in the background: the disk is left to others afterwards
    /// for as long as it took, if they use it.
    fn sync_gently(&self) -> io::Result<()> {
        self.sync_data()
    }
    /// Advises that bytes, read or synced before, will not be read soon: the system need not cache
    /// them, and can use the memory for others.
    fn forget(&self, _offset: u64, _bytes: u64) {}
    /// Advises that bytes will be read soon. The system may start to read them now; the caller does
    /// not wait.
    fn will_need(&self, _offset: u64, _bytes: u64) {}
    /// Syncs gently if `unsynced_bytes` since the last sync are enough that others would have to
    /// wait for it. Returns whether it has.
    fn sync_if_due(&self, unsynced_bytes: u64) -> io::Result<bool> {
        let is_due = unsynced_bytes >= UNSYNCED_BYTES_MAX;
        if is_due {
            self.sync_gently()?;
        }
        Ok(is_due)
    }
}

/// Limit of bytes written in the background that wait for the disk. A sync of the log queues after
/// them, so they must take a millisecond or two; one sync at the end of a file once made it wait
/// for seconds.
pub const UNSYNCED_BYTES_MAX: u64 = 1 << 20;

/// Returns true if the system was temporarily short of a resource: space, quota or file
/// descriptors.
pub fn is_shortage(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(error.kind(), StorageFull | QuotaExceeded) || matches!(code, Some(Errno::MFILE | Errno::NFILE))
}

/// Refuses a name that could leave the directory.
pub(crate) fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains('/') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not a plain file name"),
        ));
    }
    Ok(())
}
