//! A disk in memory that fails on purpose, for tests.
//!
//! Every file has two contents: what readers see, and what would survive a loss of power. A write
//! marks the sectors it touches as dirty; a sync carries the dirty sectors over. Names are kept
//! twice in the same way.
//!
//! - `fail` makes the n-th operation of a kind from now fail, once. A failed sync leaves its
//!   sectors visible but clean, as Linux does: a second sync would succeed without writing them,
//!   and a crash would take them back.
//! - `before_syncs` is called before each sync of a file, and may let time pass: a slow disk.
//! - `lie_about_syncs` makes syncs of files do nothing and answer that they did.
//! - `set_capacity` bounds the size of all files: each counts its reserved size, or its length, in
//!   whole blocks. The space of a removed file is freed when the directory has been synced.
//! - `crash` drops everything that was not synced; `crash_keeping_some` keeps a random part of it,
//!   sector by sector, like a disk that writes in arbitrary order. A sector is never torn. Files
//!   opened before a crash answer errors after it, and so does the disk of a program that ran then
//!   (`for_one_run`).
//! - `flip` and `truncate` damage what is stored, beneath any sync.

use crate::disk::{Disk, File, check_name};
use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// The unit that a disk writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// Space is given out in units of this.
pub const BLOCK_BYTES: u64 = 4096;

/// The operations that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Making or emptying a file.
    Create,
    /// Opening an existing file.
    Open,
    /// Listing the directory.
    List,
    /// Moving a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Reading from a file.
    Read,
    /// Writing to a file.
    Write,
    /// Cutting or growing a file.
    Resize,
    /// Reserving room for a file.
    Allocate,
    /// A sync of a file or of the directory.
    Sync,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 10] = [
        Operation::Create,
        Operation::Open,
        Operation::List,
        Operation::Rename,
        Operation::Remove,
        Operation::Read,
        Operation::Write,
        Operation::Resize,
        Operation::Allocate,
        Operation::Sync,
    ];
}

/// How an operation fails. Nothing is done, if not said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO.
    Error,
    /// ENOSPC.
    NoSpace,
    /// ENOSPC; a write has written its first half.
    Short,
    /// EMFILE.
    NoDescriptor,
}

impl Fault {
    fn error(self) -> io::Error {
        let code = match self {
            Fault::Error => Errno::IO,
            Fault::NoSpace | Fault::Short => Errno::NOSPC,
            Fault::NoDescriptor => Errno::MFILE,
        };
        io::Error::from_raw_os_error(code.raw_os_error())
    }
}

/// Clones share the same disk; `fork` makes an independent copy.
#[derive(Clone, Default)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
    /// The number of crashes at which it ends; `None` if it outlives them.
    run: Option<u64>,
}

#[derive(Clone, Default)]
struct State {
    files: BTreeMap<FileId, Content>,
    names: BTreeMap<String, FileId>,
    names_synced: BTreeMap<String, FileId>,
    /// The changes of names since they were synced, in order.
    naming: Vec<Naming>,
    next_file: u64,
    /// Counts crashes; a file remembers the number at which it was opened.
    incarnation: u64,
    /// Operation, its index from now, kind of fault.
    faults: Vec<(Operation, u64, Fault)>,
    /// Syncs of files answer, and carry nothing over.
    lies: bool,
    before_syncs: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Limit of the size of all files, in bytes; `None` means the machine's memory.
    capacity: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileId(u64);

/// A change of the directory. Each survives a loss of power or does not, independently; a renaming
/// is never half done.
#[derive(Clone, Debug)]
enum Naming {
    Create(String, FileId),
    Rename(String, String),
    Remove(String),
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<String, FileId>) {
        match self {
            Naming::Create(name, id) => drop(names.insert(name.clone(), *id)),
            Naming::Rename(from, to) => drop(names.remove(from).map(|id| names.insert(to.clone(), id))),
            Naming::Remove(name) => drop(names.remove(name)),
        }
    }
}

#[derive(Clone, Default)]
struct Content {
    visible: Vec<u8>,
    synced: Vec<u8>,
    /// Sectors that the next sync writes. Others may differ from `synced` too, if their sync
    /// failed.
    dirty: BTreeSet<usize>,
    /// Reserved on the disk, and what of that survives a loss of power.
    allocated: u64,
    allocated_synced: u64,
}

impl FaultyDisk {
    /// An empty disk that does not fail yet.
    pub fn new() -> FaultyDisk {
        FaultyDisk::default()
    }

    /// An independent disk with the same content, synced and not.
    pub fn fork(&self) -> FaultyDisk {
        FaultyDisk {
            state: Arc::new(Mutex::new(self.state.lock().clone())),
            run: None,
        }
    }

    /// The same disk for a program with threads that may still run at a crash: from then on all
    /// its operations fail, and change nothing that the next program finds.
    pub fn for_one_run(&self) -> FaultyDisk {
        FaultyDisk {
            state: self.state.clone(),
            run: Some(self.state.lock().incarnation),
        }
    }

    /// The state; an error after the crash that ended the run.
    fn running(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        match self.run.is_none_or(|run| run == state.incarnation) {
            true => Ok(state),
            false => Err(Fault::Error.error()),
        }
    }

    /// Makes the `nth` operation of this kind from now fail; 1 is the next operation.
    pub fn fail(&self, operation: Operation, nth: u64, fault: Fault) {
        self.state.lock().faults.push((operation, nth, fault));
    }

    /// Removes the scheduled faults that have not occurred.
    pub fn clear_faults(&self) {
        self.state.lock().faults.clear();
    }

    /// Returns true if a fault scheduled with `fail` has not occurred yet.
    pub fn fault_pending(&self) -> bool {
        !self.state.lock().faults.is_empty()
    }

    /// Calls `wait` before each sync of a file. Forks keep it.
    pub fn before_syncs(&self, wait: Arc<dyn Fn() + Send + Sync>) {
        self.state.lock().before_syncs = Some(wait);
    }

    /// From now on a sync of a file answers that it is done, and does nothing.
    pub fn lie_about_syncs(&self) {
        self.state.lock().lies = true;
    }

    /// Limits the size of all files together. Space that they take already stays.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity = bytes;
    }

    /// Returns the size of all files.
    pub fn taken_bytes(&self) -> u64 {
        self.state.lock().taken_bytes()
    }

    /// Loses power: everything unsynced is lost. Scheduled faults are removed.
    pub fn crash(&self) {
        self.state.lock().crash(&mut || false);
    }

    /// Loses power: a part of the unsynced data, chosen by `seed`, survives.
    pub fn crash_keeping_some(&self, seed: u64) {
        let mut random = seed;
        self.state.lock().crash(&mut || split_mix(&mut random) & 1 == 1);
    }

    /// Inverts the bits of `mask` in one stored byte. Panics if the file is shorter: a test's own
    /// mistake.
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

    /// Returns the bytes that readers of `name` see. Panics if it does not exist.
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

    fn change_names(&mut self, change: Naming) {
        change.apply(&mut self.names);
        self.naming.push(change);
    }

    fn crash(&mut self, survives: &mut dyn FnMut() -> bool) {
        let mut names = std::mem::take(&mut self.names_synced);
        for change in std::mem::take(&mut self.naming) {
            if survives() {
                change.apply(&mut names);
            }
        }
        self.files.retain(|id, _| names.values().any(|named| named == id));
        self.files.values_mut().for_each(|content| content.crash(survives));
        self.names_synced = names.clone();
        self.names = names;
        self.incarnation += 1;
        self.faults.clear();
    }

    /// The fault due for this operation, if any; counts it.
    fn next_fault(&mut self, operation: Operation) -> Option<Fault> {
        for (_, remaining, _) in self.faults.iter_mut().filter(|(kind, ..)| *kind == operation) {
            *remaining -= 1;
        }
        let due = self.faults.iter().position(|&(_, remaining, _)| remaining == 0)?;
        Some(self.faults.remove(due).2)
    }

    fn check(&mut self, operation: Operation) -> io::Result<()> {
        self.next_fault(operation).map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn taken_bytes(&self) -> u64 {
        let named: BTreeSet<_> = self.names.values().chain(self.names_synced.values()).collect();
        named
            .into_iter()
            .filter_map(|id| self.files.get(id))
            .map(Content::taken_bytes)
            .sum()
    }

    /// Returns true if file `id` may grow to `bytes`.
    fn has_room(&self, id: FileId, bytes: u64) -> bool {
        let Some(capacity) = self.capacity else { return true };
        let allocated = self.files.get(&id).map_or(0, Content::taken_bytes);
        let more = in_blocks(bytes).saturating_sub(allocated);
        more == 0 || self.taken_bytes() + more <= capacity
    }
}

fn in_blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES)
}

impl Content {
    fn taken_bytes(&self) -> u64 {
        in_blocks(self.allocated.max(self.visible.len() as u64))
    }

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

    /// Gives back the space reserved beyond the new end.
    fn resize(&mut self, bytes: usize) {
        self.set_len(bytes);
        self.allocated = self.allocated.min(bytes as u64);
    }

    fn mark(&mut self, start: usize, end: usize) {
        if start < end {
            self.dirty.extend(start / SECTOR_BYTES..=(end - 1) / SECTOR_BYTES);
        }
    }

    fn sync(&mut self) {
        self.allocated_synced = self.allocated;
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
        self.allocated = self.allocated_synced;
    }
}

impl Disk for FaultyDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        check_name(name)?;
        let mut state = self.running()?;
        state.check(Operation::Create)?;
        let id = match state.names.get(name) {
            Some(&id) => id,
            None => {
                state.next_file += 1;
                let id = FileId(state.next_file);
                state.change_names(Naming::Create(name.to_owned(), id));
                id
            }
        };
        state.files.entry(id).or_default().resize(0);
        Ok(self.handle(id, state.incarnation))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.running()?;
        state.check(Operation::Open)?;
        Ok(self.handle(state.find(name)?, state.incarnation))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.running()?;
        state.check(Operation::List)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        check_name(name)?;
        Ok(self.running()?.names.contains_key(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let mut state = self.running()?;
        state.check(Operation::Rename)?;
        state.find(from)?;
        state.change_names(Naming::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.running()?;
        state.check(Operation::Remove)?;
        state.find(name)?;
        state.change_names(Naming::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.running()?;
        state.check(Operation::Sync)?;
        state.names_synced = state.names.clone();
        state.naming.clear();
        Ok(())
    }

    fn available_bytes(&self) -> io::Result<u64> {
        let state = self.running()?;
        let capacity = state.capacity.unwrap_or(u64::MAX);
        Ok(capacity.saturating_sub(state.taken_bytes()))
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
            return Err(Fault::Error.error());
        }
        act(&mut state, self.id)
    }

    fn with_content<T>(&self, act: impl FnOnce(&mut Content) -> T) -> io::Result<T> {
        self.with(|state, id| Ok(act(state.files.entry(id).or_default())))
    }
}

impl File for FaultyFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.with(|state, id| {
            state.check(Operation::Read)?;
            let content = state.files.entry(id).or_default();
            let tail = content.visible.get(offset as usize..).unwrap_or_default();
            let bytes = tail.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&tail[..bytes]);
            Ok(bytes)
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.with(|state, id| {
            let fault = state.next_fault(Operation::Write);
            let is_full = !state.has_room(id, offset + bytes.len() as u64);
            let content = state.files.entry(id).or_default();
            match fault.or(is_full.then_some(Fault::Short)) {
                None => content.write(offset as usize, bytes),
                Some(Fault::Short) if !is_full => {
                    content.write(offset as usize, &bytes[..bytes.len() / 2]);
                    return Err(Fault::Short.error());
                }
                Some(Fault::Short) => {
                    // The part that is still within the blocks that the file has.
                    let room = content.taken_bytes().saturating_sub(offset).min(bytes.len() as u64);
                    content.write(offset as usize, &bytes[..room as usize]);
                    return Err(Fault::NoSpace.error());
                }
                Some(fault) => return Err(fault.error()),
            }
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.with_content(|content| content.visible.len() as u64)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.with(|state, id| {
            state.check(Operation::Resize)?;
            if !state.has_room(id, bytes) {
                return Err(Fault::NoSpace.error());
            }
            state.files.entry(id).or_default().resize(bytes as usize);
            Ok(())
        })
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.with(|state, id| {
            state.check(Operation::Allocate)?;
            if !state.has_room(id, bytes) {
                return Err(Fault::NoSpace.error());
            }
            let content = state.files.entry(id).or_default();
            content.allocated = content.allocated.max(bytes);
            Ok(())
        })
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.with_content(|content| content.taken_bytes())
    }

    fn sync_data(&self) -> io::Result<()> {
        let wait = self.state.lock().before_syncs.clone();
        if let Some(wait) = wait {
            wait();
        }
        self.with(|state, id| {
            let fault = state.next_fault(Operation::Sync);
            let lies = state.lies;
            let content = state.files.entry(id).or_default();
            if let Some(fault) = fault {
                content.dirty.clear();
                return Err(fault.error());
            }
            if !lies {
                content.sync();
            }
            Ok(())
        })
    }
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
    fn a_crash_undoes_unsynced_writes() {
        let (disk, file) = disk_with(b"synced");
        file.write_at(0, b"UNSYNCED").unwrap();
        disk.create("g").unwrap();
        disk.crash();
        assert_eq!(disk.content("f"), b"synced");
        assert_eq!(disk.list().unwrap(), ["f"]);
        assert!(file.len().is_err(), "a file opened before the crash is gone");
    }

    /// A flush of the ssd engine continued after the power cut of a test, with the names of the
    /// disk that the next engine opened. It renamed a root, and a file of that root was lost.
    /// The threads of a program cannot change the disk after the crash that ended it.
    #[test]
    fn a_program_that_a_crash_ended_changes_nothing() {
        let (disk, _file) = disk_with(b"synced");
        let run = disk.for_one_run();
        run.create("g").unwrap();
        disk.crash();
        assert!(run.create("g").is_err() && run.open("f").is_err() && run.list().is_err());
        assert!(run.rename("f", "g").is_err() && run.remove("f").is_err() && run.sync_directory().is_err());
        assert_eq!(disk.list().unwrap(), ["f"]);
        assert!(disk.for_one_run().open("f").is_ok());
    }

    #[test]
    fn a_crash_may_keep_some_sectors() {
        let (disk, file) = disk_with(&[0; 64 * SECTOR_BYTES]);
        file.write_at(0, &[1; 64 * SECTOR_BYTES]).unwrap();
        disk.crash_keeping_some(7);
        let content = disk.content("f");
        let surviving = content.chunks(SECTOR_BYTES).filter(|sector| sector[0] == 1).count();
        assert!((10..54).contains(&surviving), "{surviving} of 64");
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
        disk.fail(Operation::Sync, 1, Fault::Error);
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        assert_eq!(disk.content("f"), b"new");
        disk.crash();
        assert_eq!(disk.content("f"), b"old");
    }

    #[test]
    fn the_nth_write_fails_once() {
        let (disk, file) = disk_with(b"....");
        disk.fail(Operation::Write, 2, Fault::Short);
        file.write_at(0, b"a").unwrap();
        let error = file.write_at(0, b"bbbb").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.content("f"), b"bb..");
        assert!(!disk.fault_pending());
        file.write_at(0, b"c").unwrap();
    }

    #[test]
    fn each_operation_fails_on_request_and_does_nothing() {
        for operation in Operation::ALL {
            let (disk, file) = disk_with(b"abc");
            disk.fail(operation, 1, Fault::Error);
            let outcome = match operation {
                Operation::Create => disk.create("g").err(),
                Operation::Open => disk.open("f").err(),
                Operation::List => disk.list().err(),
                Operation::Rename => disk.rename("f", "g").err(),
                Operation::Remove => disk.remove("f").err(),
                Operation::Read => file.read_at(0, &mut [0]).err(),
                Operation::Write => file.write_at(0, b"x").err(),
                Operation::Resize => file.set_len(1).err(),
                Operation::Allocate => file.allocate(100).err(),
                Operation::Sync => file.sync_data().err(),
            };
            assert_eq!(
                outcome.unwrap().raw_os_error(),
                Some(Errno::IO.raw_os_error()),
                "{operation:?}"
            );
            assert!(!disk.fault_pending(), "{operation:?}");
            assert_eq!(disk.list().unwrap(), ["f"], "{operation:?}");
            assert_eq!(disk.content("f"), b"abc", "{operation:?}");
        }
    }

    #[test]
    fn a_full_disk_takes_what_was_reserved_and_no_more() {
        let (disk, file) = disk_with(b"abc");
        file.allocate(3 * BLOCK_BYTES).unwrap();
        disk.set_capacity(Some(4 * BLOCK_BYTES));
        let other = disk.create("g").unwrap();
        let error = other.write_at(0, &[1; 5000]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        other.write_at(0, &[1; 4096]).unwrap();
        assert_eq!(
            (disk.taken_bytes(), disk.available_bytes().unwrap()),
            (4 * BLOCK_BYTES, 0)
        );
        file.write_at(0, &[2; 3 * BLOCK_BYTES as usize]).unwrap();
        assert!(file.write_at(3 * BLOCK_BYTES - 1, &[3; 2]).is_err());
        assert!(file.set_len(3 * BLOCK_BYTES + 1).is_err() && file.allocate(4 * BLOCK_BYTES).is_err());
        file.set_len(10).unwrap();
        assert_eq!(disk.available_bytes().unwrap(), 2 * BLOCK_BYTES);
        disk.sync_directory().unwrap();
        disk.remove("g").unwrap();
        assert_eq!(disk.available_bytes().unwrap(), 2 * BLOCK_BYTES);
        disk.sync_directory().unwrap();
        assert_eq!(disk.available_bytes().unwrap(), 3 * BLOCK_BYTES);
    }

    /// A name that was given, taken or changed since the directory was synced is as it was then.
    #[test]
    fn a_crash_undoes_unsynced_names() {
        let (disk, _file) = disk_with(b"abc");
        disk.create("removed").unwrap();
        disk.sync_directory().unwrap();
        disk.rename("f", "g").unwrap();
        disk.remove("removed").unwrap();
        disk.create("created").unwrap().sync_data().unwrap();
        disk.crash();
        assert_eq!(disk.list().unwrap(), ["f", "removed"]);
        assert_eq!(disk.content("f"), b"abc");
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
    fn an_unsynced_truncation_may_be_undone() {
        let (disk, file) = disk_with(b"abcdef");
        file.set_len(2).unwrap();
        disk.crash();
        assert_eq!(disk.content("f"), b"abcdef");
    }
}
