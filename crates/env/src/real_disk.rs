//! A directory of the operating system.
//!
//! Holds an exclusive lock on the file `LOCK` inside it for as long as it lives, so that two servers never write to the
//! same directory. The kernel drops the lock when the process ends, however it ends.

use crate::disk::{Disk, File, check_name};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const LOCK_NAME: &str = "LOCK";

pub struct RealDisk {
    path: PathBuf,
    directory: fs::File,
    /// Held, never read: closing it gives the directory free.
    _lock: fs::File,
}

impl RealDisk {
    /// Opens `path`, creating the directory if it does not exist.
    ///
    /// Errors: `ResourceBusy` if another process (or this one) has it open already; whatever the system says otherwise.
    pub fn open(path: impl AsRef<Path>) -> io::Result<RealDisk> {
        let path = path.as_ref().to_path_buf();
        create_durably(&path)?;
        let lock = lock(&path)?;
        let directory = fs::File::open(&path)?;
        Ok(RealDisk {
            path,
            directory,
            _lock: lock,
        })
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

/// Creates the directory and makes its entry in its parent durable.
fn create_durably(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    match path.canonicalize()?.parent() {
        Some(parent) => fs::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

fn lock(path: &Path) -> io::Result<fs::File> {
    let file = fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join(LOCK_NAME))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!(
                "directory {} is in use by another server: its LOCK file is held",
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
            .open(self.resolve(name)?)?;
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = fs::File::options().read(true).write(true).open(self.resolve(name)?)?;
        Ok(Box::new(RealFile(file)))
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
        fs::rename(self.resolve(from)?, self.resolve(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.resolve(name)?)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.directory.sync_all()
    }
}

struct RealFile(fs::File);

impl File for RealFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.0.read_at(&mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
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
        assert!(error.to_string().contains("in use by another server"), "{error}");
        drop(first);
        RealDisk::open(&path).unwrap();
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
