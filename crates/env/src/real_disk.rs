//! A directory of the operating system.
//!
//! Holds a lock on the file `LOCK` inside it for as long as it lives, so that two servers never
//! write to the same directory, and no reader opens a directory that a server writes to. The kernel
//! drops the lock when the process ends, however it ends.

use crate::disk::{Disk, File, check_name};
use crate::gentle;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK_NAME: &str = "LOCK";
/// Largest read or write in one system call. A kernel that does not interrupt itself copies
/// megabytes in one go, and other threads wait for the processor.
const COPIED_AT_ONCE_BYTES_MAX: usize = 128 << 10;
/// Files are accessible only to their owner: they hold all databases' data.
const OWNER_ONLY_FILE: u32 = 0o600;
const OWNER_ONLY_DIRECTORY: u32 = 0o700;

/// A directory of the machine, locked for this process.
pub struct RealDisk {
    path: PathBuf,
    directory: fs::File,
    is_writable: bool,
    foreground: Arc<gentle::ForegroundSyncs>,
    removed: Arc<gentle::Removed>,
    /// Held, never read: closing it gives the directory free. Nothing to hold in a copy that no
    /// server has opened.
    _lock: Option<fs::File>,
}

impl RealDisk {
    /// Opens `path`, creating the directory if it does not exist.
    ///
    /// Errors: `ResourceBusy` if another process (or this process) has it open already; the
    /// system's errors otherwise.
    pub fn open(path: impl AsRef<Path>) -> io::Result<RealDisk> {
        let path = path.as_ref().to_path_buf();
        create_directory_durably(&path)?;
        let file = fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(OWNER_ONLY_FILE)
            .open(path.join(LOCK_NAME))?;
        lock(&path, &file, FlockOperation::NonBlockingLockExclusive)?;
        let directory = fs::File::open(&path)?;
        let foreground = Arc::<gentle::ForegroundSyncs>::default();
        Ok(RealDisk {
            path,
            directory,
            is_writable: true,
            removed: Arc::new(gentle::Removed::new(foreground.clone())),
            foreground,
            _lock: Some(file),
        })
    }

    /// Opens `path` read-only; operations that would change it answer `ReadOnlyFilesystem`. Needs
    /// no permission to write.
    ///
    /// Errors: `ResourceBusy` if a server has it open; `NotFound` if there is no such directory.
    pub fn open_to_read(path: impl AsRef<Path>) -> io::Result<RealDisk> {
        let path = path.as_ref().to_path_buf();
        let directory = fs::File::open(&path)?;
        let file = match fs::File::open(path.join(LOCK_NAME)) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(file) = &file {
            lock(&path, file, FlockOperation::NonBlockingLockShared)?;
        }
        let foreground = Arc::<gentle::ForegroundSyncs>::default();
        Ok(RealDisk {
            path,
            directory,
            is_writable: false,
            removed: Arc::new(gentle::Removed::new(foreground.clone())),
            foreground,
            _lock: file,
        })
    }

    fn resolve_to_write(&self, name: &str) -> io::Result<PathBuf> {
        if self.is_writable {
            self.resolve(name)
        } else {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        }
    }

    fn file(&self, file: fs::File) -> RealFile {
        RealFile {
            file,
            foreground: self.foreground.clone(),
            removed: self.removed.clone(),
        }
    }

    fn resolve(&self, name: &str) -> io::Result<PathBuf> {
        check_name(name)?;
        if name == LOCK_NAME {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "LOCK is the directory's own file",
            ));
        }
        Ok(self.path.join(name))
    }
}

/// Creates the directory and its ancestors, accessible only to their owner, and makes their entries
/// durable. An existing directory keeps its permissions and is made durable too, if its parent is
/// readable: its creator may not have done so.
pub fn create_directory_durably(path: &Path) -> io::Result<()> {
    let missing = path
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.is_dir());
    let created = missing.count();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(OWNER_ONLY_DIRECTORY)
        .create(path)?;
    for directory in path.canonicalize()?.ancestors().skip(1).take(created.max(1)) {
        match fs::File::open(directory) {
            Ok(directory) => directory.sync_all()?,
            Err(error) if created == 0 && error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Advises the system about the use of a file's bytes; errors are ignored, because the content is
/// the same either way.
#[cfg(target_os = "linux")]
fn advise(file: &fs::File, offset: u64, bytes: u64, advice: rustix::fs::Advice) {
    if let Some(bytes) = std::num::NonZeroU64::new(bytes) {
        let _ = rustix::fs::fadvise(file, offset, Some(bytes), advice);
    }
}

fn lock(path: &Path, file: &fs::File, operation: FlockOperation) -> io::Result<()> {
    match flock(file, operation) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!(
                "directory {} is in use by another process: its LOCK file is held",
                path.display()
            ),
        )),
        Err(error) => Err(error.into()),
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(OWNER_ONLY_FILE)
            .open(self.resolve_to_write(name)?)?;
        Ok(Box::new(self.file(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = fs::File::options()
            .read(true)
            .write(self.is_writable)
            .open(self.resolve(name)?)?;
        Ok(Box::new(self.file(file)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            if let Some(name) = name.to_str()
                && name != LOCK_NAME
                && entry.file_type()?.is_file()
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.resolve(name)?.try_exists()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.resolve_to_write(from)?, self.resolve_to_write(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.resolve_to_write(name)?)
    }

    fn remove_gently(&self, name: &str) -> io::Result<()> {
        let path = self.resolve_to_write(name)?;
        // Without a descriptor to spare it is removed all the same, and gives back all at once.
        let file = fs::File::options().write(true).open(&path);
        let place = file.ok().map(|file| self.removed.make_room(file));
        fs::remove_file(path)?;
        if let Some(place) = place {
            place.fill();
        }
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn available_bytes(&self) -> io::Result<u64> {
        let system = rustix::fs::fstatvfs(&self.directory)?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        Ok(free.saturating_add(self.removed.held_bytes()))
    }

    fn removed_bytes(&self) -> u64 {
        self.removed.held_bytes()
    }
}

struct RealFile {
    file: fs::File,
    foreground: Arc<gentle::ForegroundSyncs>,
    removed: Arc<gentle::Removed>,
}

impl RealFile {
    /// Does what may find the disk full; once more if room could be given back.
    fn with_room(&self, work: impl Fn() -> io::Result<()>) -> io::Result<()> {
        match work() {
            Err(error) if crate::is_shortage(&error) && self.removed.give_back_now() => work(),
            done => done,
        }
    }
}

impl File for RealFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            let end = buffer.len().min(read + COPIED_AT_ONCE_BYTES_MAX);
            match self.file.read_at(&mut buffer[read..end], offset + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        for (index, piece) in bytes.chunks(COPIED_AT_ONCE_BYTES_MAX).enumerate() {
            let before = index * COPIED_AT_ONCE_BYTES_MAX;
            self.with_room(|| self.file.write_all_at(piece, offset + before as u64))?;
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        gentle::set_len(&self.file, bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.with_room(|| allocate(&self.file, bytes))
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        // The unit is the system's for this figure, independent of the file system's block size.
        Ok(self.file.metadata()?.blocks() * 512)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.foreground.note_sync();
        self.file.sync_data()
    }

    fn sync_gently(&self) -> io::Result<()> {
        self.foreground.sync_beside(&self.file)
    }

    /// Fresh memory for a gigabyte of a file costs the system more than the disk takes for it.
    #[cfg(target_os = "linux")]
    fn forget(&self, offset: u64, bytes: u64) {
        advise(&self.file, offset, bytes, rustix::fs::Advice::DontNeed);
    }

    #[cfg(target_os = "linux")]
    fn will_need(&self, offset: u64, bytes: u64) {
        advise(&self.file, offset, bytes, rustix::fs::Advice::WillNeed);
    }

    fn sync_if_due(&self, unsynced_bytes: u64) -> io::Result<bool> {
        let is_due = unsynced_bytes >= self.foreground.unsynced_bytes_max();
        if is_due {
            self.sync_gently()?;
        }
        Ok(is_due)
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn allocate(file: &fs::File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    // The system refuses to reserve nothing.
    if bytes == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Other systems are treated as file systems that cannot reserve: a write there may find the disk
/// full.
#[cfg(not(target_os = "linux"))]
pub(crate) fn allocate(_: &fs::File, _: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_opened_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        let first = RealDisk::open(&path).unwrap();
        let error = RealDisk::open(&path).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(error.to_string().contains("in use by another process"), "{error}");
        assert_eq!(
            RealDisk::open_to_read(&path).err().unwrap().kind(),
            io::ErrorKind::ResourceBusy
        );
        drop(first);
        let reader = RealDisk::open_to_read(&path).unwrap();
        RealDisk::open_to_read(&path).expect("readers are many");
        assert_eq!(RealDisk::open(&path).err().unwrap().kind(), io::ErrorKind::ResourceBusy);
        drop(reader);
        RealDisk::open(&path).unwrap();
    }

    /// A checkpoint of an empty database needs no room.
    #[test]
    fn nothing_is_reserved_without_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        let file = disk.create("a").unwrap();
        file.allocate(0).unwrap();
        file.allocate(1).unwrap();
    }

    #[test]
    fn much_is_copied_in_pieces_that_join() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        let file = disk.create("a").unwrap();
        let content: Vec<u8> = (0..2 * COPIED_AT_ONCE_BYTES_MAX + 5).map(|at| (at / 7) as u8).collect();
        file.write_at(3, &content).unwrap();
        let mut read = vec![0; content.len() + 10];
        assert_eq!(file.read_at(3, &mut read).unwrap(), content.len());
        assert!(read[..content.len()] == content);
    }

    #[test]
    fn a_directory_opened_to_read_is_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a"), "content").unwrap();
        let disk = RealDisk::open_to_read(directory.path()).unwrap();
        let refused = [
            disk.create("b").err(),
            disk.rename("a", "b").err(),
            disk.remove("a").err(),
        ];
        for error in refused {
            assert_eq!(error.unwrap().kind(), io::ErrorKind::ReadOnlyFilesystem);
        }
        assert_eq!(disk.list().unwrap(), ["a"]);
        let file = disk.open("a").unwrap();
        assert_eq!(file.len().unwrap(), 7);
        assert!(file.write_at(0, b"x").is_err());
        let nowhere = RealDisk::open_to_read(directory.path().join("nowhere"));
        assert_eq!(nowhere.err().unwrap().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn directories_are_created_down_to_the_last() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/c");
        create_directory_durably(&path).unwrap();
        create_directory_durably(&path).unwrap();
        assert!(path.is_dir());
    }

    #[test]
    fn files_are_written_listed_renamed_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        let file = disk.create("b").unwrap();
        file.allocate(1 << 16).unwrap();
        assert!(file.is_empty().unwrap());
        file.write_at(3, b"abc").unwrap();
        file.sync_data().unwrap();
        let mut buffer = [9; 8];
        assert_eq!(file.read_at(1, &mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"\0\0abc");
        disk.create("a").unwrap();
        assert_eq!(disk.list().unwrap(), ["a", "b"]);
        disk.rename("b", "c").unwrap();
        disk.remove("a").unwrap();
        disk.sync_directory().unwrap();
        assert!(disk.exists("c").unwrap() && !disk.exists("b").unwrap());
        assert_eq!(disk.open("b").err().unwrap().kind(), io::ErrorKind::NotFound);
    }

    /// As without a descriptor to spare: trimming the log would otherwise end the server.
    #[test]
    fn a_file_that_cannot_be_opened_is_removed_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        std::os::unix::fs::symlink("nowhere", directory.path().join("a")).unwrap();
        assert!(disk.open("a").is_err());
        disk.remove_gently("a").unwrap();
        assert!(directory.path().join("a").symlink_metadata().is_err());
        assert_eq!(disk.remove_gently("a").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_created_file_is_only_for_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        let disk = RealDisk::open(&path).unwrap();
        disk.create("a").unwrap();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let modes = [path.clone(), path.join("a"), path.join(LOCK_NAME)].map(mode);
        assert_eq!(modes, [0o700, 0o600, 0o600]);
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        for name in ["", ".", "..", "a/b", "/etc/x", "LOCK"] {
            assert_eq!(
                disk.create(name).err().unwrap().kind(),
                io::ErrorKind::InvalidInput,
                "{name:?}"
            );
        }
    }
}
