//! A disk in memory that does not fail, for a server with data that need not outlive it.
//!
//! A file consists of pieces of one size, which are allocated when they are written, so that a
//! growing log is never copied. All files together hold at most `bytes_max`, counted in whole
//! pieces, including reserved pieces; a write beyond it answers ENOSPC, as a full disk does, and
//! has written nothing. The space of a removed file is freed once it is closed everywhere.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::disk::{Disk, File, check_name};

const PIECE_BYTES: usize = 64 << 10;

/// One directory in memory.
pub struct MemoryDisk {
    files: Mutex<BTreeMap<String, Arc<MemoryFile>>>,
    room: Arc<Room>,
}

/// The limit and the use of all files of a disk together.
struct Room {
    bytes_max: u64,
    bytes: AtomicU64,
}

struct MemoryFile {
    content: Mutex<Content>,
    room: Arc<Room>,
}

#[derive(Default)]
struct Content {
    length: u64,
    /// By number; a missing piece is all zeros.
    pieces: HashMap<u64, Box<[u8]>>,
    /// Bytes from the start that have space reserved, written or not.
    reserved: u64,
}

impl Content {
    /// The number of pieces that take room.
    fn counted(&self) -> usize {
        let beyond = self.pieces.keys().filter(|number| **number >= self.reserved);
        self.reserved as usize + beyond.count()
    }
}

impl MemoryDisk {
    /// An empty disk with a total of `bytes_max` for its files.
    pub fn new(bytes_max: u64) -> MemoryDisk {
        MemoryDisk {
            files: Mutex::default(),
            room: Arc::new(Room {
                bytes_max,
                bytes: AtomicU64::new(0),
            }),
        }
    }

    fn find(&self, name: &str) -> io::Result<Arc<MemoryFile>> {
        check_name(name)?;
        let file = self.files.lock().get(name).cloned();
        file.ok_or_else(|| no_file(name))
    }
}

fn no_file(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file {name}"))
}

impl Disk for MemoryDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        check_name(name)?;
        let mut files = self.files.lock();
        let file = files.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(MemoryFile {
                content: Mutex::default(),
                room: self.room.clone(),
            })
        });
        file.cut(0);
        Ok(Box::new(file.clone()))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(self.find(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.lock().keys().cloned().collect())
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        check_name(name)?;
        Ok(self.files.lock().contains_key(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or_else(|| no_file(from))?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.files.lock().remove(name);
        removed.map(drop).ok_or_else(|| no_file(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn available_bytes(&self) -> io::Result<u64> {
        Ok(self.room.bytes_max - self.room.bytes.load(Ordering::Relaxed))
    }
}

impl Room {
    /// Takes room for new pieces, or nothing.
    fn take(&self, pieces: usize) -> io::Result<()> {
        let bytes = (pieces * PIECE_BYTES) as u64;
        let result = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            Some(used + bytes).filter(|used| *used <= self.bytes_max)
        });
        result.map(drop).map_err(|_| Errno::NOSPC.into())
    }

    fn give_back(&self, pieces: usize) {
        self.bytes.fetch_sub((pieces * PIECE_BYTES) as u64, Ordering::Relaxed);
    }
}

impl MemoryFile {
    /// Makes the file `bytes` long at most, and what is cut off zeros.
    fn cut(&self, bytes: u64) {
        let mut content = self.content.lock();
        let before = content.counted();
        let piece_count = bytes.div_ceil(PIECE_BYTES as u64);
        content.pieces.retain(|number, _| *number < piece_count);
        content.reserved = content.reserved.min(piece_count);
        let within = (bytes % PIECE_BYTES as u64) as usize;
        if within > 0
            && let Some(last) = content.pieces.get_mut(&(piece_count - 1))
        {
            last[within..].fill(0);
        }
        content.length = content.length.min(bytes);
        self.room.give_back(before - content.counted());
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.room.give_back(self.content.get_mut().counted());
    }
}

/// The parts of pieces covered by `length` bytes from `offset` on: the piece's number and the range
/// within it.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let end = offset + length as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        let (number, start) = (at / PIECE_BYTES as u64, (at % PIECE_BYTES as u64) as usize);
        let bytes = (end - at).min((PIECE_BYTES - start) as u64);
        at += bytes;
        (bytes > 0).then(|| (number, start..start + bytes as usize))
    })
}

impl File for Arc<MemoryFile> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let content = self.content.lock();
        let available = content.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let mut remaining = &mut buffer[..available];
        for (number, range) in parts(offset, available) {
            let (part, tail) = remaining.split_at_mut(range.len());
            match content.pieces.get(&number) {
                Some(piece) => part.copy_from_slice(&piece[range]),
                None => part.fill(0),
            }
            remaining = tail;
        }
        Ok(available)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut content = self.content.lock();
        let is_new =
            |(number, _): &(u64, Range<usize>)| *number >= content.reserved && !content.pieces.contains_key(number);
        self.room.take(parts(offset, bytes.len()).filter(is_new).count())?;
        let mut remaining = bytes;
        for (number, range) in parts(offset, bytes.len()) {
            let (part, tail) = remaining.split_at(range.len());
            let piece = content.pieces.entry(number);
            piece.or_insert_with(|| vec![0; PIECE_BYTES].into())[range].copy_from_slice(part);
            remaining = tail;
        }
        content.length = content.length.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().length)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.cut(bytes);
        self.content.lock().length = bytes;
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut content = self.content.lock();
        let (before, reserved_before) = (content.counted(), content.reserved);
        content.reserved = reserved_before.max(bytes.div_ceil(PIECE_BYTES as u64));
        let result = self.room.take(content.counted() - before);
        if result.is_err() {
            content.reserved = reserved_before;
        }
        result
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        Ok((self.content.lock().counted() * PIECE_BYTES) as u64)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = PIECE_BYTES as u64;

    fn read(file: &dyn File, offset: u64, length: usize) -> Vec<u8> {
        let mut buffer = vec![0xee; length];
        let count = file.read_at(offset, &mut buffer).unwrap();
        buffer.truncate(count);
        buffer
    }

    #[test]
    fn written_bytes_are_read_across_pieces_and_holes_are_zeros() {
        let disk = MemoryDisk::new(8 * PIECE);
        let file = disk.create("file").unwrap();
        file.write_at(3 * PIECE - 2, b"abcd").unwrap();
        assert_eq!(file.len().unwrap(), 3 * PIECE + 2);
        assert_eq!(read(file.as_ref(), 3 * PIECE - 3, 100), b"\0abcd");
        assert_eq!(read(disk.open("file").unwrap().as_ref(), 10, 3), b"\0\0\0");
        file.set_len(3 * PIECE - 1).unwrap();
        file.set_len(3 * PIECE + 1).unwrap();
        assert_eq!(read(file.as_ref(), 3 * PIECE - 3, 100), b"\0a\0\0");
        assert_eq!(read(file.as_ref(), 4 * PIECE, 1), b"");
    }

    #[test]
    fn a_full_disk_refuses_and_removals_make_room() {
        let disk = MemoryDisk::new(2 * PIECE);
        let (first, second) = (disk.create("first").unwrap(), disk.create("second").unwrap());
        first.write_at(0, &[1; PIECE_BYTES + 1]).unwrap();
        let full = second.write_at(0, b"x").unwrap_err();
        assert_eq!(Errno::from_io_error(&full), Some(Errno::NOSPC));
        assert_eq!(second.len().unwrap(), 0);
        disk.remove("first").unwrap();
        assert!(second.write_at(0, b"x").is_err(), "an open file keeps its room");
        drop(first);
        second.write_at(0, b"x").unwrap();
        second.set_len(0).unwrap();
        disk.create("third")
            .unwrap()
            .write_at(0, &[1; 2 * PIECE_BYTES])
            .unwrap();
    }

    #[test]
    fn reserved_room_can_be_written_when_nothing_else_can() {
        let disk = MemoryDisk::new(3 * PIECE);
        let (first, second) = (disk.create("first").unwrap(), disk.create("second").unwrap());
        first.allocate(2 * PIECE).unwrap();
        assert!(first.is_empty().unwrap() && first.allocate(4 * PIECE).is_err());
        assert_eq!(disk.available_bytes().unwrap(), PIECE);
        second.write_at(0, b"x").unwrap();
        assert!(second.write_at(PIECE, b"x").is_err());
        first.write_at(0, &[1; 2 * PIECE_BYTES]).unwrap();
        assert_eq!(first.allocated_bytes().unwrap(), 2 * PIECE);
        first.set_len(1).unwrap();
        assert_eq!(disk.available_bytes().unwrap(), PIECE);
        drop(first);
        disk.remove("first").unwrap();
        assert_eq!(disk.available_bytes().unwrap(), 2 * PIECE);
    }

    #[test]
    fn names_are_kept_as_a_directory_keeps_them() {
        let disk = MemoryDisk::new(PIECE);
        disk.create("b").unwrap().write_at(0, b"b").unwrap();
        disk.create("a").unwrap();
        disk.rename("b", "a").unwrap();
        assert_eq!(disk.list().unwrap(), ["a"]);
        assert_eq!(read(disk.open("a").unwrap().as_ref(), 0, 9), b"b");
        for absent in [
            disk.open("b").err(),
            disk.remove("b").err(),
            disk.rename("b", "c").err(),
        ] {
            assert_eq!(absent.unwrap().kind(), io::ErrorKind::NotFound);
        }
        assert!(disk.create("a/b").is_err() && disk.exists("..").is_err());
        assert_eq!(disk.create("a").unwrap().len().unwrap(), 0);
    }
}
