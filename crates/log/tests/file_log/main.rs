//! The file log on a disk that fails on purpose.

mod behaviour;
mod conformance;
mod crash;
mod damage;
mod format;
mod model;
mod reserve;

use quartet_env::{Disk, FaultyDisk};
use quartet_log::{FileLog, FileLogError, FileLogOptions, Log};
use quartet_model::LogSequence;
use std::sync::Arc;

const SALT: u64 = 42;

/// Sequence and payload, in order.
type Records = Vec<(u64, Vec<u8>)>;

/// The contents of a log when it was opened.
struct Opened {
    log: FileLog,
    records: Records,
}

fn open_from(disk: &FaultyDisk, segment_bytes: u64, replay_from: u64) -> Result<Opened, FileLogError> {
    let mut records = Vec::new();
    let mut replay = |sequence: LogSequence, payload: &[u8]| {
        records.push((sequence.0, payload.to_vec()));
        Ok(())
    };
    let options = FileLogOptions {
        segment_bytes,
        salt: SALT,
        ..FileLogOptions::default()
    };
    let disk = Arc::new(disk.clone());
    let log = FileLog::open(disk, options, LogSequence(replay_from), &mut replay, &mut |_| {})?;
    Ok(Opened { log, records })
}

fn open(disk: &FaultyDisk, segment_bytes: u64) -> Result<Opened, FileLogError> {
    open_from(disk, segment_bytes, 1)
}

/// A payload that says which record it belongs to, of a length that varies with it.
fn payload(sequence: u64, bytes_max: u64) -> Vec<u8> {
    let bytes = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (0..bytes % (bytes_max + 1))
        .map(|at| (sequence * 31 + at * 7 + 1) as u8)
        .collect()
}

fn records(through: u64, bytes_max: u64) -> Records {
    (1..=through)
        .map(|sequence| (sequence, payload(sequence, bytes_max)))
        .collect()
}

/// Appends the next `count` records, not synced.
fn append(log: &mut FileLog, count: u64, bytes_max: u64) {
    for _ in 0..count {
        let tail = log.tail();
        log.append(tail, &[&payload(tail.0 + 1, bytes_max)]).unwrap();
    }
}

/// The segments, oldest first.
fn segments(disk: &FaultyDisk) -> Vec<String> {
    let is_segment = |name: &String| name.bytes().skip(4).all(|byte| byte.is_ascii_digit());
    disk.list().unwrap().into_iter().filter(is_segment).collect()
}
