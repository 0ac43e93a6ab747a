//! The file log satisfies the contract of logs: on a real disk, on a disk in memory, and on a disk
//! that loses power.

use std::sync::Arc;

use quartet_env::{Disk, FaultyDisk, MemoryDisk, RealDisk};
use quartet_log::conformance::{self, Place};
use quartet_log::{FileLogOpener, FileLogOptions, Log, LogOpener};
use quartet_model::LogSequence;

use crate::{Records, SALT};

/// A directory on a disk that is opened anew each time.
struct Directory<D> {
    segment_bytes: u64,
    disk: D,
    open: fn(&D) -> Arc<dyn Disk>,
    crash: fn(&D, u64) -> bool,
}

impl<D> Place for Directory<D> {
    fn open(&mut self, replay_from: LogSequence) -> (Box<dyn Log>, Records) {
        let mut records = Records::new();
        let mut replay = |sequence: LogSequence, payload: &[u8]| {
            records.push((sequence.0, payload.to_vec()));
            Ok(())
        };
        let opener = Box::new(FileLogOpener {
            disk: (self.open)(&self.disk),
            options: FileLogOptions {
                segment_bytes: self.segment_bytes,
                salt: SALT,
                ..FileLogOptions::default()
            },
        });
        let log = opener.open(replay_from, &mut replay, &mut |_| {}).unwrap();
        (log, records)
    }

    fn crash(&mut self, seed: u64) -> bool {
        (self.crash)(&self.disk, seed)
    }
}

fn check<D: 'static>(seeds: u64, disk: fn() -> D, open: fn(&D) -> Arc<dyn Disk>, crash: fn(&D, u64) -> bool) {
    conformance::check(seeds, |seed| {
        Box::new(Directory {
            segment_bytes: [2048, 16 << 10, 1 << 20][seed as usize % 3],
            disk: disk(),
            open,
            crash,
        })
    });
}

#[test]
fn on_a_real_disk() {
    let open = |folder: &tempfile::TempDir| -> Arc<dyn Disk> { Arc::new(RealDisk::open(folder.path()).unwrap()) };
    check(1, || tempfile::tempdir().unwrap(), open, |_, _| false);
}

#[test]
fn on_a_disk_in_memory() {
    let disk = || Arc::new(MemoryDisk::new(1 << 30));
    check(10, disk, |disk| disk.clone(), |_, _| false);
}

#[test]
fn on_a_disk_that_loses_power() {
    let crash = |disk: &FaultyDisk, seed| {
        disk.crash_keeping_some(seed);
        true
    };
    check(20, FaultyDisk::new, |disk| Arc::new(disk.clone()), crash);
}
