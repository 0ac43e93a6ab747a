//! Loss of power, failing writes and failing syncs: what was synced is back, and a failed log stays
//! failed.

use super::{open, payload, records};
use quartet_env::{Fault, FaultyDisk, Operation};
use quartet_log::{FileLog, Log, LogError};
use quartet_model::LogSequence;

const SEGMENT_BYTES: u64 = 4096;
const PAYLOAD_BYTES_MAX: u64 = 900;

/// Appends up to `count` records, syncing after every third and confirming after every fifth, until
/// the disk fails. Answers how many were acknowledged, and how many were appended or tried.
fn write_until_failure(disk: &FaultyDisk, count: u64) -> (u64, u64) {
    let Ok(mut opened) = open(disk, SEGMENT_BYTES) else {
        return (0, 0);
    };
    let log = &mut opened.log;
    let (mut acknowledged, mut tried) = (log.tail().0, log.tail().0);
    let failed = (0..count).any(|_| {
        tried += 1;
        let appended = append_with_patience(log, &payload(tried, PAYLOAD_BYTES_MAX));
        let synced = appended.and_then(|tail| {
            if tail.0 % 3 == 0 {
                log.sync().map(Some)
            } else {
                Ok(None)
            }
        });
        match synced {
            Ok(Some(durable)) => acknowledged = durable.0,
            Ok(None) => {}
            Err(_) => return true,
        }
        tried % 5 == 0 && log.mark_durable().is_err()
    });
    if failed {
        let tail = log.tail();
        assert!(matches!(log.append(tail, &[b"after"]), Err(LogError::Failed)));
        assert!(matches!(log.sync(), Err(LogError::Failed)));
        assert!(matches!(log.mark_durable(), Err(LogError::Failed)));
        assert!(matches!(log.trim_below(tail), Err(LogError::Failed)));
    }
    (acknowledged, tried)
}

/// A full disk leaves the log as it was, so what did not fit is appended again.
fn append_with_patience(log: &mut FileLog, payload: &[u8]) -> Result<LogSequence, LogError> {
    let tail = log.tail();
    match log.append(tail, &[payload]) {
        Err(LogError::NoRoom { .. }) => log.append(tail, &[payload]),
        appended => appended,
    }
}

/// Opens the log and checks that it holds all of `acknowledged` and nothing that was not tried.
fn check_recovered(disk: &FaultyDisk, acknowledged: u64, tried: u64, story: &str) -> u64 {
    let recovered = open(disk, SEGMENT_BYTES)
        .unwrap_or_else(|error| panic!("{story}: {error}"))
        .records;
    let through = recovered.len() as u64;
    assert!(
        (acknowledged..=tried).contains(&through),
        "{story}: {through} of {acknowledged}..={tried}"
    );
    assert_eq!(recovered, records(through, PAYLOAD_BYTES_MAX), "{story}");
    through
}

#[test]
fn synced_records_survive_any_loss_of_power() {
    for seed in 0..600 {
        let disk = FaultyDisk::new();
        let (acknowledged, tried) = write_until_failure(&disk, 1 + seed % 47);
        disk.crash_keeping_some(seed);
        let recovered = check_recovered(&disk, acknowledged, tried, &format!("seed {seed}"));
        disk.crash_keeping_some(seed + 1);
        let still = check_recovered(
            &disk,
            recovered,
            recovered,
            &format!("seed {seed}, opened and lost power again"),
        );
        let (acknowledged, tried) = write_until_failure(&disk, 10);
        assert!(tried == still + 10);
        disk.crash();
        check_recovered(&disk, acknowledged, tried, &format!("seed {seed}, after writing on"));
    }
}

/// Lets the n-th operation fail for every n until none is left to fail.
fn fail_everywhere(arm: &dyn Fn(&FaultyDisk, u64)) {
    for nth in 1.. {
        let disk = FaultyDisk::new();
        arm(&disk, nth);
        let (acknowledged, tried) = write_until_failure(&disk, 40);
        if disk.fault_pending() {
            assert!(nth > 3, "the failures were never reached");
            return;
        }
        for seed in 0..4 {
            let disk = disk.fork();
            disk.crash_keeping_some(seed);
            check_recovered(&disk, acknowledged, tried, &format!("failure {nth}, seed {seed}"));
        }
        let recovered = check_recovered(&disk, acknowledged, tried, &format!("failure {nth}, restarted"));
        disk.crash();
        check_recovered(
            &disk,
            recovered,
            recovered,
            &format!("failure {nth}, restarted and lost power"),
        );
    }
}

#[test]
fn a_failing_sync_loses_nothing_acknowledged() {
    fail_everywhere(&|disk, nth| disk.fail(Operation::Sync, nth, Fault::Error));
}

#[test]
fn a_failing_write_loses_nothing_acknowledged() {
    for fault in [Fault::Error, Fault::NoSpace, Fault::Short] {
        fail_everywhere(&|disk, nth| disk.fail(Operation::Write, nth, fault));
    }
}

#[test]
fn starting_a_segment_may_fail_at_any_step() {
    for operation in [
        Operation::Create,
        Operation::Allocate,
        Operation::Rename,
        Operation::Resize,
    ] {
        for fault in [Fault::Error, Fault::NoSpace, Fault::NoDescriptor] {
            fail_everywhere(&|disk, nth| disk.fail(operation, nth, fault));
        }
    }
}

/// A failure of any operation while a log is opened loses nothing, and the log opens afterwards.
#[test]
fn opening_may_fail_anywhere() {
    let written = FaultyDisk::new();
    let (_, tried) = write_until_failure(&written, 40);
    for operation in Operation::ALL {
        for nth in 1.. {
            let disk = written.fork();
            disk.fail(operation, nth, Fault::Error);
            let opened = open(&disk, SEGMENT_BYTES).is_ok();
            if disk.fault_pending() {
                assert!(opened, "{operation:?} {nth}");
                break;
            }
            check_recovered(&disk, tried, tried, &format!("{operation:?} {nth}, opened {opened}"));
        }
    }
}
