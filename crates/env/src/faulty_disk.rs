//! A disk in memory that fails on purpose, for tests.
//!
//! Every file has two contents: what readers see, and what would survive a loss of power. A write marks the sectors it
//! touches as dirty; a sync carries the dirty sectors over. Names are kept twice in the same way.
//!
//! - `fail_write`, `fail_sync` make the n-th such call from now fail, once. A failed sync leaves its sectors visible but
//!   clean, as Linux does: a second sync would succeed without writing them, and a crash would take them back.
//! - `crash` drops what was not synced; `crash_keeping_some` keeps a random part of it, sector by sector, as a disk does
//!   that writes in whatever order it likes. A sector is never torn. Files opened before a crash answer errors after it.
//! - `flip` and `truncate` damage what is stored, beneath any sync.

use crate::disk::{Disk, File, check_name};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// What a disk writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// How a write fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// Nothing is written; EIO.
    Error,
    /// Nothing is written; ENOSPC.
    NoSpace,
    /// The first half is written; ENOSPC.
    Short,
}

/// Clones share the same disk; `fork` makes an independent copy.
#[derive(Clone, Default)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Default)]
struct State {
    files: BTreeMap<FileId, Content>,
    names: BTreeMap<String, FileId>,
    names_synced: BTreeMap<String, FileId>,
    next_file: u64,
    /// Counts crashes; a file remembers the one it was opened in.
    incarnation: u64,
    write_fault: Option<(u64, WriteFault)>,
    sync_fault: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileId(u64);

#[derive(Clone, Default)]
struct Content {
    visible: Vec<u8>,
    synced: Vec<u8>,
    /// Sectors that the next sync writes. Others may differ from `synced` too, if their sync failed.
    dirty: BTreeSet<usize>,
}

impl FaultyDisk {
    pub fn new() -> FaultyDisk {
        FaultyDisk::default()
    }

    /// An independent disk with the same content, synced and not.
    pub fn fork(&self) -> FaultyDisk {
        FaultyDisk {
            state: Arc::new(Mutex::new(self.state.lock().clone())),
        }
    }

    /// The `nth` write from now fails; 1 is the next one.
    pub fn fail_write(&self, nth: u64, fault: WriteFault) {
        self.state.lock().write_fault = Some((nth, fault));
    }

    /// The `nth` sync from now, of a file or of the directory, fails; 1 is the next one.
    pub fn fail_sync(&self, nth: u64) {
        self.state.lock().sync_fault = Some(nth);
    }

    /// True if a failure ordered with `fail_write` or `fail_sync` has not come up yet.
    pub fn fault_pending(&self) -> bool {
        let state = self.state.lock();
        state.write_fault.is_some() || state.sync_fault.is_some()
    }

    /// Loses power: everything that was not synced is gone. Ordered failures are forgotten.
    pub fn crash(&self) {
        self.state.lock().crash(&mut || false);
    }

    /// Loses power: of what was not synced, a part chosen by `seed` survives.
    pub fn crash_keeping_some(&self, seed: u64) {
        let mut random = seed;
        self.state.lock().crash(&mut || split_mix(&mut random) & 1 == 1);
    }

    /// Inverts the bits of `mask` in one stored byte. Panics if the file is shorter: a test's own mistake.
    pub fn flip(&self, name: &str, offset: u64, mask: u8) {
        let mut state = self.state.lock();
        let content = state.stored(name);
        content.visible[offset as usize] ^= mask;
        content.synced = content.visible.clone();
    }

    /// Cuts the stored file to `bytes`.
    pub fn truncate(&self, name: &str, bytes: u64) {
        let mut state = self.state.lock();
        let content = state.stored(name);
        content.visible.truncate(bytes as usize);
        content.synced = content.visible.clone();
    }

    /// What readers of `name` see. Panics if it does not exist.
    pub fn content(&self, name: &str) -> Vec<u8> {
        self.state.lock().stored(name).visible.clone()
    }
}

impl State {
    fn stored(&mut self, name: &str) -> &mut Content {
        let id = self.names[name];
        let content = self.files.get_mut(&id).expect("a named file has content");
        content.dirty.clear();
        content
    }

    fn find(&self, name: &str) -> io::Result<FileId> {
        check_name(name)?;
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no file {name}")))
    }

    fn crash(&mut self, survives: &mut dyn FnMut() -> bool) {
        let mut names = BTreeMap::new();
        for name in self
            .names
            .keys()
            .chain(self.names_synced.keys())
            .collect::<BTreeSet<_>>()
        {
            let (visible, synced) = (self.names.get(name), self.names_synced.get(name));
            let chosen = if visible == synced || !survives() {
                synced
            } else {
                visible
            };
            chosen.map(|&id| names.insert(name.clone(), id));
        }
        self.files.retain(|id, _| names.values().any(|named| named == id));
        self.files.values_mut().for_each(|content| content.crash(survives));
        self.names_synced = names.clone();
        self.names = names;
        self.incarnation += 1;
        self.write_fault = None;
        self.sync_fault = None;
    }

    /// The fault due for this write, if any; counts it.
    fn next_write_fault(&mut self) -> Option<WriteFault> {
        let (left, fault) = self.write_fault?;
        self.write_fault = (left > 1).then_some((left - 1, fault));
        (left == 1).then_some(fault)
    }

    fn next_sync_fails(&mut self) -> bool {
        let Some(left) = self.sync_fault else { return false };
        self.sync_fault = (left > 1).then_some(left - 1);
        left == 1
    }
}

impl Content {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.visible.len() < end {
            self.set_len(end);
        }
        self.visible[offset..end].copy_from_slice(bytes);
        self.mark(offset, end);
    }

    fn set_len(&mut self, bytes: usize) {
        let (low, high) = (bytes.min(self.visible.len()), bytes.max(self.visible.len()));
        self.visible.resize(bytes, 0);
        self.mark(low, high);
    }

    fn mark(&mut self, start: usize, end: usize) {
        if start < end {
            self.dirty.extend(start / SECTOR_BYTES..=(end - 1) / SECTOR_BYTES);
        }
    }

    fn sync(&mut self) {
        self.synced.resize(self.visible.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            self.carry_over(sector);
        }
    }

    fn carry_over(&mut self, sector: usize) {
        let start = sector * SECTOR_BYTES;
        let end = (start + SECTOR_BYTES).min(self.visible.len());
        if start < end {
            self.synced.resize(self.synced.len().max(end), 0);
            self.synced[start..end].copy_from_slice(&self.visible[start..end]);
        }
    }

    fn crash(&mut self, survives: &mut dyn FnMut() -> bool) {
        let length_changed = self.visible.len() != self.synced.len();
        let length = if length_changed && survives() {
            self.visible.len()
        } else {
            self.synced.len()
        };
        for sector in std::mem::take(&mut self.dirty) {
            if survives() {
                self.carry_over(sector);
            }
        }
        self.synced.resize(length, 0);
        self.visible = self.synced.clone();
    }
}

impl Disk for FaultyDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        check_name(name)?;
        let mut state = self.state.lock();
        let id = match state.names.get(name) {
            Some(&id) => id,
            None => {
                state.next_file += 1;
                let id = FileId(state.next_file);
                state.names.insert(name.to_owned(), id);
                id
            }
        };
        state.files.entry(id).or_default().set_len(0);
        Ok(self.handle(id, state.incarnation))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let state = self.state.lock();
        Ok(self.handle(state.find(name)?, state.incarnation))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state.lock().names.keys().cloned().collect())
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        check_name(name)?;
        Ok(self.state.lock().names.contains_key(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let mut state = self.state.lock();
        let id = state.find(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), id);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.find(name)?;
        state.names.remove(name);
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.next_sync_fails() {
            return Err(input_output_error());
        }
        state.names_synced = state.names.clone();
        Ok(())
    }
}

impl FaultyDisk {
    fn handle(&self, id: FileId, incarnation: u64) -> Box<dyn File> {
        Box::new(FaultyFile {
            state: self.state.clone(),
            id,
            incarnation,
        })
    }
}

struct FaultyFile {
    state: Arc<Mutex<State>>,
    id: FileId,
    incarnation: u64,
}

impl FaultyFile {
    fn with<T>(&self, act: impl FnOnce(&mut State, FileId) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state.lock();
        if state.incarnation != self.incarnation {
            return Err(input_output_error());
        }
        act(&mut state, self.id)
    }

    fn with_content<T>(&self, act: impl FnOnce(&mut Content) -> T) -> io::Result<T> {
        self.with(|state, id| Ok(act(state.files.entry(id).or_default())))
    }
}

impl File for FaultyFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.with_content(|content| {
            let rest = content.visible.get(offset as usize..).unwrap_or_default();
            let bytes = rest.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&rest[..bytes]);
            bytes
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.with(|state, id| {
            let fault = state.next_write_fault();
            let content = state.files.entry(id).or_default();
            match fault {
                None => content.write(offset as usize, bytes),
                Some(WriteFault::Error) => return Err(input_output_error()),
                Some(WriteFault::NoSpace) => return Err(no_space_error()),
                Some(WriteFault::Short) => {
                    content.write(offset as usize, &bytes[..bytes.len() / 2]);
                    return Err(no_space_error());
                }
            }
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.with_content(|content| content.visible.len() as u64)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.with_content(|content| content.set_len(bytes as usize))
    }

    /// Memory is always reserved; only a write is made to run out of space.
    fn allocate(&self, _bytes: u64) -> io::Result<()> {
        self.with_content(|_| ())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|state, id| {
            let fails = state.next_sync_fails();
            let content = state.files.entry(id).or_default();
            if fails {
                content.dirty.clear();
                return Err(input_output_error());
            }
            content.sync();
            Ok(())
        })
    }
}

fn input_output_error() -> io::Error {
    io::Error::from_raw_os_error(Errno::IO.raw_os_error())
}

fn no_space_error() -> io::Error {
    io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error())
}

/// SplitMix64 (Steele, Lea, Flood 2014): enough to choose sectors, and the same on every machine.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk_with(bytes: &[u8]) -> (FaultyDisk, Box<dyn File>) {
        let disk = FaultyDisk::new();
        let file = disk.create("f").unwrap();
        file.write_at(0, bytes).unwrap();
        file.sync_data().unwrap();
        disk.sync_directory().unwrap();
        (disk, file)
    }

    #[test]
    fn a_crash_takes_back_what_was_not_synced() {
        let (disk, file) = disk_with(b"synced");
        file.write_at(0, b"UNSYNCED").unwrap();
        disk.create("g").unwrap();
        disk.crash();
        assert_eq!(disk.content("f"), b"synced");
        assert_eq!(disk.list().unwrap(), ["f"]);
        assert!(file.len().is_err(), "a file opened before the crash is gone");
    }

    #[test]
    fn a_crash_may_keep_some_sectors() {
        let (disk, file) = disk_with(&[0; 64 * SECTOR_BYTES]);
        file.write_at(0, &[1; 64 * SECTOR_BYTES]).unwrap();
        disk.crash_keeping_some(7);
        let content = disk.content("f");
        let kept = content.chunks(SECTOR_BYTES).filter(|sector| sector[0] == 1).count();
        assert!((10..54).contains(&kept), "{kept} of 64");
        assert!(
            content
                .chunks(SECTOR_BYTES)
                .all(|sector| sector.iter().all(|&byte| byte == sector[0]))
        );
    }

    #[test]
    fn a_failed_sync_is_not_mended_by_another() {
        let (disk, file) = disk_with(b"old");
        file.write_at(0, b"new").unwrap();
        disk.fail_sync(1);
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        assert_eq!(disk.content("f"), b"new");
        disk.crash();
        assert_eq!(disk.content("f"), b"old");
    }

    #[test]
    fn the_nth_write_fails_once() {
        let (disk, file) = disk_with(b"....");
        disk.fail_write(2, WriteFault::Short);
        file.write_at(0, b"a").unwrap();
        let error = file.write_at(0, b"bbbb").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.content("f"), b"bb..");
        assert!(!disk.fault_pending());
        file.write_at(0, b"c").unwrap();
    }

    #[test]
    fn a_fork_is_independent() {
        let (disk, _file) = disk_with(b"abc");
        let fork = disk.fork();
        fork.flip("f", 1, 0xff);
        fork.truncate("f", 2);
        assert_eq!(disk.content("f"), b"abc");
        assert_eq!(fork.content("f"), [b'a', b'b' ^ 0xff]);
    }

    #[test]
    fn a_cut_that_was_not_synced_may_come_back() {
        let (disk, file) = disk_with(b"abcdef");
        file.set_len(2).unwrap();
        disk.crash();
        assert_eq!(disk.content("f"), b"abcdef");
    }
}
