//! A log's behaviour when nothing goes wrong, and its refusals.

use super::{append, open, open_from, records, segments};
use quartet_env::{Disk, FaultyDisk, RealDisk};
use quartet_log::{FileLog, FileLogError, FileLogOptions, Log, LogError, ReplayProgress};
use quartet_model::LogSequence;
use std::sync::Arc;

#[test]
fn appended_records_are_replayed() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 1 << 20).unwrap().log;
    assert_eq!(log.tail(), LogSequence(0));
    append(&mut log, 50, 300);
    assert_eq!(log.sync().unwrap(), LogSequence(50));
    append(&mut log, 1, 300);
    drop(log);
    let mut opened = open(&disk, 1 << 20).unwrap();
    assert_eq!(opened.records, records(51, 300));
    append(&mut opened.log, 1, 300);
    assert_eq!(open_from(&disk, 1 << 20, 20).unwrap().records, records(52, 300)[19..]);
}

#[test]
fn a_real_directory_keeps_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for round in 0..3 {
        let disk = Arc::new(RealDisk::open(directory.path()).unwrap());
        let mut replayed = 0;
        let mut replay = |_, payload: &[u8]| {
            assert_eq!(payload, b"payload");
            replayed += 1;
            Ok(())
        };
        let options = FileLogOptions {
            segment_bytes: 4096,
            ..FileLogOptions::default()
        };
        let mut log = FileLog::open(disk, options, LogSequence(1), &mut replay, &mut |_| {}).unwrap();
        assert_eq!((replayed, log.tail().0), (seen, round * 100));
        for _ in 0..100 {
            log.append(log.tail(), &[b"payload"]).unwrap();
        }
        log.sync().unwrap();
        log.mark_durable().unwrap();
        seen += 100;
    }
}

#[test]
fn an_append_past_the_tail_is_refused() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 1 << 20).unwrap().log;
    append(&mut log, 2, 10);
    for expected in [0, 1, 3] {
        let error = log.append(LogSequence(expected), &[b"late"]).unwrap_err();
        assert!(
            matches!(
                error,
                LogError::TailMoved {
                    tail: LogSequence(2),
                    ..
                }
            ),
            "{error}"
        );
    }
    append(&mut log, 1, 10);
    assert_eq!(open(&disk, 1 << 20).unwrap().records, records(3, 10));
}

#[test]
fn segments_roll_and_are_trimmed() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 2048).unwrap().log;
    append(&mut log, 100, 200);
    assert!(segments(&disk).len() > 4);
    let (bytes, files) = (log.bytes(), segments(&disk));
    log.trim_below(LogSequence(60)).unwrap();
    assert!(log.bytes() < bytes && segments(&disk).len() < files.len());
    assert!(files.ends_with(&segments(&disk)), "the oldest go first");
    let opened = open_from(&disk, 2048, 60).unwrap();
    assert_eq!(opened.records, records(100, 200)[59..]);
    assert_eq!(opened.log.bytes(), log.bytes());
    log.trim_below(LogSequence(101)).unwrap();
    assert_eq!(segments(&disk).len(), 1, "the newest segment stays");
    assert_eq!(open_from(&disk, 2048, 101).unwrap().log.tail(), LogSequence(100));
}

#[test]
fn a_record_larger_than_a_segment_gets_its_own() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 1024).unwrap().log;
    for bytes in [10, 5000, 10, 300_000, 0] {
        log.append(log.tail(), &[&vec![7; bytes]]).unwrap();
    }
    assert_eq!(segments(&disk).len(), 5);
    let lengths: Vec<_> = open(&disk, 1024)
        .unwrap()
        .records
        .iter()
        .map(|(_, payload)| payload.len())
        .collect();
    assert_eq!(lengths, [10, 5000, 10, 300_000, 0]);
}

#[test]
fn a_log_starts_at_the_end_of_the_checkpoint() {
    let disk = FaultyDisk::new();
    let mut log = open_from(&disk, 4096, 501).unwrap().log;
    assert_eq!(log.tail(), LogSequence(500));
    append(&mut log, 1, 10);
    assert_eq!(segments(&disk), ["log-00000000000000000501"]);
    assert_eq!(open_from(&disk, 4096, 501).unwrap().records.len(), 1);
}

#[test]
fn missing_files_are_a_gap() {
    let disk = FaultyDisk::new();
    append(&mut open(&disk, 2048).unwrap().log, 100, 200);
    let files = segments(&disk);
    for missing in [0, 2] {
        let disk = disk.fork();
        disk.remove(&files[missing]).unwrap();
        let error = open(&disk, 2048).err().unwrap();
        assert!(matches!(error, FileLogError::Gap { .. }), "{error}");
    }
    let error = open_from(&disk, 2048, 102).err().unwrap();
    assert!(
        matches!(
            error,
            FileLogError::Gap {
                needed: LogSequence(102),
                found: LogSequence(101),
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn confirming_again_writes_nothing() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 4096).unwrap().log;
    append(&mut log, 3, 100);
    log.sync().unwrap();
    log.mark_durable().unwrap();
    disk.fail(quartet_env::Operation::Write, 1, quartet_env::Fault::Error);
    log.mark_durable().unwrap();
    log.sync().unwrap();
    assert!(disk.fault_pending());
}

#[test]
fn progress_reaches_the_total() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 1 << 20).unwrap().log;
    for _ in 0..40 {
        log.append(log.tail(), &[&[3; 100_000]]).unwrap();
    }
    let mut seen: Vec<ReplayProgress> = Vec::new();
    let options = FileLogOptions::default();
    let disk = Arc::new(disk);
    FileLog::open(disk, options, LogSequence(1), &mut |_, _| Ok(()), &mut |progress| {
        seen.push(progress)
    })
    .unwrap();
    assert!(
        seen.is_sorted_by_key(|progress| progress.bytes_read) && seen.len() >= 3,
        "{seen:?}"
    );
    assert!(
        seen.last()
            .is_some_and(|last| last.bytes_read == last.bytes_total && last.bytes_total > 4_000_000)
    );
}

#[test]
fn an_error_of_replay_ends_the_opening() {
    let disk = FaultyDisk::new();
    append(&mut open(&disk, 4096).unwrap().log, 3, 100);
    let mut replay = |_, _: &[u8]| Err("malformed".into());
    let opened = FileLog::open(
        Arc::new(disk),
        FileLogOptions::default(),
        LogSequence(2),
        &mut replay,
        &mut |_| {},
    );
    assert!(matches!(
        opened.err(),
        Some(FileLogError::Replay {
            sequence: LogSequence(2),
            ..
        })
    ));
}

/// Large pieces are written without being copied; the record is the same.
#[test]
fn a_record_is_its_pieces_in_order_however_large() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 1 << 20).unwrap().log;
    let large = [vec![1; 1 << 20], vec![2; (1 << 20) + 3]];
    let records: [&[&[u8]]; 4] = [
        &[b"small", &large[0], b"between", &large[1]],
        &[&large[0], &large[1], b"", b"last"],
        &[b"only ", b"small"],
        &[],
    ];
    for pieces in records {
        log.append(log.tail(), pieces).unwrap();
    }
    drop(log);
    let recovered = open(&disk, 1 << 20).unwrap().records;
    let payloads = recovered.into_iter().map(|(_, payload)| payload);
    assert!(payloads.eq(records.map(|pieces| pieces.concat())));
}
