//! Whole files that are written or read once, past the system's cache.
//!
//! A backup's bytes would evict pages that others read again and again, and finding memory for a
//! gigabyte of them costs the system more than the disk takes. So they pass between the disk and a
//! few megabytes of memory, where the file system allows that; where it does not, as any other
//! file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Alignment of memory, of offsets and of lengths: no disk requires a coarser one.
const ALIGNMENT: usize = 4096;
/// Bytes per read or write.
const BUFFER_BYTES: usize = 4 << 20;

/// Writes the file from scratch, and makes its content durable.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match write_past_cache(path, bytes) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => write_through_cache(path, bytes),
        written => written,
    }
}

/// The content of a file of `bytes_max` bytes at most; `InvalidData` if it is longer.
pub(crate) fn read_at_most(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    match std::fs::metadata(path)?.len() > bytes_max as u64 {
        true => Err(too_long()),
        false => read(path),
    }
}

/// A file or an object has more bytes than it may.
pub(crate) fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is longer than it may be")
}

/// The file's content.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    match read_past_cache(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => std::fs::read(path),
        read => read,
    }
}

fn write_past_cache(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = past_cache(OpenOptions::new().write(true).create(true).truncate(true)).open(path)?;
    let mut memory = Memory::new(bytes.len());
    let buffer = memory.aligned();
    for (index, piece) in bytes.chunks(buffer.len()).enumerate() {
        buffer[..piece.len()].copy_from_slice(piece);
        let aligned = piece.len().next_multiple_of(ALIGNMENT);
        buffer[piece.len()..aligned].fill(0);
        file.write_all_at(&buffer[..aligned], (index * buffer.len()) as u64)?;
    }
    file.set_len(bytes.len() as u64)?;
    file.sync_all()
}

fn write_through_cache(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn read_past_cache(path: &Path) -> io::Result<Vec<u8>> {
    let file = past_cache(OpenOptions::new().read(true)).open(path)?;
    let bytes_expected = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut memory = Memory::new(bytes_expected);
    let buffer = memory.aligned();
    let mut bytes = Vec::with_capacity(bytes_expected);
    loop {
        let read = read_at(&file, buffer, bytes.len() as u64)?;
        bytes.extend_from_slice(&buffer[..read]);
        // Only at the end is it less, and from there on no offset is a whole number of blocks.
        if read < buffer.len() {
            return Ok(bytes);
        }
    }
}

fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Opens a file past the system's cache. On a file system without support, opening, reading or
/// writing returns an error.
fn past_cache(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
    }
    options
}

struct Memory(Vec<u8>);

impl Memory {
    /// Returns memory for a file of `bytes`.
    fn new(bytes: usize) -> Memory {
        let buffer = bytes.next_multiple_of(ALIGNMENT).clamp(ALIGNMENT, BUFFER_BYTES);
        Memory(vec![0; buffer + ALIGNMENT])
    }

    fn aligned(&mut self) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(ALIGNMENT);
        let bytes = self.0.len() - ALIGNMENT;
        &mut self.0[start..start + bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths around the size of a block and of the buffer.
    #[test]
    fn a_written_value_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for around in [0, 1, ALIGNMENT, 3 * ALIGNMENT, BUFFER_BYTES, 2 * BUFFER_BYTES] {
            for bytes in around.saturating_sub(1)..=around + 1 {
                let content: Vec<u8> = (0..bytes).map(|index| (index / 3) as u8).collect();
                for write in [write, write_through_cache] {
                    write(&path, &content).unwrap();
                    assert!(std::fs::read(&path).unwrap() == content, "{bytes} bytes written");
                    assert!(read(&path).unwrap() == content, "{bytes} bytes read");
                }
            }
        }
    }

    #[test]
    fn a_missing_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(&folder.path().join("none")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(write(&folder.path().join("none/file"), b"").is_err());
    }
}
