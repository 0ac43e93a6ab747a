//! A full disk: the log has the room that it promised, and resumes when the disk has room again.

use proptest::prelude::*;
use quartet_env::{BLOCK_BYTES, Disk, Fault, FaultyDisk, Operation};
use quartet_log::{FileLog, FileLogError, Log, LogError, record_bytes};

use super::{append, open, records, segments};

const SEGMENT_BYTES: u64 = 64 * 1024;

/// Prevents all files from growing.
fn fill(disk: &FaultyDisk) {
    disk.set_capacity(Some(disk.taken_bytes()));
}

fn append_bytes(log: &mut FileLog, payload_bytes: usize) -> Result<(), LogError> {
    let tail = log.tail();
    log.append(tail, &[&vec![7; payload_bytes]]).map(drop)
}

#[derive(Clone, Debug)]
enum Step {
    /// Appends records that take this many thousandths of the promised room, each this large.
    Spend(u64, usize),
    Extend(u64),
    Prepare,
    Sync,
    Grow(u64),
    Trim,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..=1000u64, 0..50_000usize).prop_map(|(part, bytes)| Step::Spend(part, bytes)),
        2 => (0..200_000u64).prop_map(Step::Extend),
        2 => Just(Step::Prepare),
        1 => Just(Step::Sync),
        1 => (1..100u64).prop_map(|blocks| Step::Grow(blocks * BLOCK_BYTES)),
        1 => Just(Step::Trim),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn promised_room_suffices(steps in prop::collection::vec(step(), 1..60)) {
        let disk = FaultyDisk::new();
        disk.set_capacity(Some(3 * SEGMENT_BYTES));
        let mut log = open(&disk, SEGMENT_BYTES).unwrap().log;
        let mut capacity = 3 * SEGMENT_BYTES;
        for step in steps {
            match step {
                Step::Spend(part, bytes) => {
                    let mut promised = log.reserve().room() * part / 1000;
                    while promised >= record_bytes(bytes) {
                        promised -= record_bytes(bytes);
                        append_bytes(&mut log, bytes).unwrap();
                    }
                }
                Step::Extend(bytes) => {
                    let reserve = log.reserve();
                    let before = reserve.room();
                    match reserve.extend(bytes) {
                        Ok(()) => prop_assert!(reserve.room() >= bytes.max(before)),
                        Err(FileLogError::NoRoom { .. }) => prop_assert!(reserve.room() >= before),
                        Err(other) => panic!("{other}"),
                    }
                }
                Step::Prepare => drop(log.reserve().prepare()),
                Step::Sync => drop(log.sync().unwrap()),
                Step::Grow(bytes) => {
                    capacity += bytes;
                    disk.set_capacity(Some(capacity));
                }
                Step::Trim => log.trim_below(log.tail()).unwrap(),
                Step::Restart => {
                    let (tail, room) = (log.tail(), log.reserve().room());
                    let mut opened = super::open_from(&disk, SEGMENT_BYTES, tail.0 + 1).unwrap();
                    prop_assert_eq!(opened.log.tail(), tail);
                    // Room beyond the usual size of a segment is reserved anew as it is needed.
                    prop_assert!(opened.log.reserve().room() + BLOCK_BYTES >= room.min(SEGMENT_BYTES));
                    opened.log.sync().unwrap();
                    log = opened.log;
                }
            }
        }
    }
}

#[test]
fn a_full_disk_refuses_and_resumes_when_there_is_room() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, SEGMENT_BYTES).unwrap().log;
    fill(&disk);
    let mut count = 0;
    let refused = loop {
        match append_bytes(&mut log, 1000) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, LogError::NoRoom { .. }), "{refused}");
    assert!(count * 1032 > SEGMENT_BYTES, "the next segment was reserved: {count}");
    assert_eq!(log.sync().unwrap().0, count);
    log.mark_durable().unwrap();
    let mut reopened = open(&disk, SEGMENT_BYTES).unwrap();
    assert_eq!(reopened.records.len() as u64, count, "a full disk opens");
    assert!(append_bytes(&mut reopened.log, 1000).is_err());
    disk.set_capacity(None);
    append_bytes(&mut reopened.log, 1000).unwrap();
    reopened.log.sync().unwrap();
    disk.crash();
    assert_eq!(open(&disk, SEGMENT_BYTES).unwrap().records.len() as u64, count + 1);
}

/// Starting a segment created a file: without a descriptor for it the log failed, and the server
/// stopped.
#[test]
fn the_next_segment_exists_before_it_is_needed() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 4096).unwrap().log;
    disk.fail(Operation::Create, 1, Fault::NoDescriptor);
    disk.fail(Operation::Open, 1, Fault::NoDescriptor);
    while segments(&disk).len() < 2 {
        append(&mut log, 1, 600);
    }
    assert!(disk.fault_pending() && !log.reserve().is_prepared());
    assert!(matches!(log.reserve().prepare(), Err(FileLogError::NoRoom { .. })));
    log.reserve().prepare().unwrap();
    append(&mut log, 20, 600);
    log.sync().unwrap();
    disk.crash();
    assert_eq!(open(&disk, 4096).unwrap().records, records(log.tail().0, 600));
}

/// A small disk: not even the first segment fits as it should be.
#[test]
fn a_small_disk_takes_small_segments() {
    let disk = FaultyDisk::new();
    disk.set_capacity(Some(40 * 1024));
    let mut log = open(&disk, SEGMENT_BYTES).unwrap().log;
    let room = log.reserve().room();
    assert!(room > 8 * 1024, "{room}");
    while append_bytes(&mut log, 500).is_ok() {}
    log.sync().unwrap();
    log.trim_below(log.tail()).unwrap();
    disk.sync_directory().unwrap();
    log.reserve().prepare().unwrap_err();
    append_bytes(&mut log, 500).unwrap();
}

/// Each opening wrote the zeros of the next segment anew, and waited for them.
#[test]
fn a_log_that_was_closed_is_opened_without_a_write() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, SEGMENT_BYTES).unwrap().log;
    append_bytes(&mut log, 1000).unwrap();
    log.close().unwrap();
    drop(log);
    disk.fail(Operation::Write, 1, Fault::Error);
    assert_eq!(open(&disk, SEGMENT_BYTES).unwrap().log.tail().0, 1);
    assert!(disk.fault_pending());
    disk.clear_faults();
    // A byte that is no zero is overwritten.
    disk.flip("log-next", 5000, 1);
    assert_eq!(open(&disk, SEGMENT_BYTES).unwrap().log.tail().0, 1);
    assert!(disk.content("log-next").iter().all(|byte| *byte == 0));
}
