//! Damaged files: what was durable is never silently lost, what was not is silently cut.

use super::{Records, append, open, open_from, records, segments};
use quartet_env::{Disk, FaultyDisk};
use quartet_log::{FileLogError, Log};

const SEGMENT_BYTES: u64 = 8 * 1024;
const PAYLOAD_BYTES_MAX: u64 = 600;

/// About 64 KiB in nine segments; all but `unsynced` records at the end are synced.
fn long_log(unsynced: u64) -> (FaultyDisk, u64) {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, SEGMENT_BYTES).unwrap().log;
    while log.bytes() < 64 * 1024 {
        append(&mut log, 1, PAYLOAD_BYTES_MAX);
    }
    log.sync().unwrap();
    append(&mut log, unsynced, PAYLOAD_BYTES_MAX);
    (disk, log.tail().0)
}

fn first_of(name: &str) -> u64 {
    name.strip_prefix("log-").unwrap().parse().unwrap()
}

/// Loses a folder's statement of the log's reach.
fn forget_the_reach(disk: &FaultyDisk) {
    disk.remove("log-reach").unwrap();
}

#[test]
fn a_tail_cut_anywhere_opens_with_what_is_left_if_nothing_says_how_far_the_log_reached() {
    let (disk, tail) = long_log(20);
    forget_the_reach(&disk);
    let newest = segments(&disk).pop().unwrap();
    let first = first_of(&newest);
    let expected = records(tail, PAYLOAD_BYTES_MAX);
    let mut lost = 0;
    for bytes in (0..disk.content(&newest).len() as u64).rev() {
        let disk = disk.fork();
        disk.truncate(&newest, bytes);
        if bytes < 32 {
            let opened = open_from(&disk, SEGMENT_BYTES, first - 1).unwrap();
            assert_eq!(opened.log.tail().0, first - 1, "cut at {bytes}");
            continue;
        }
        let opened = open_from(&disk, SEGMENT_BYTES, first).unwrap();
        let now_lost = tail - opened.log.tail().0;
        assert!(now_lost == lost || now_lost == lost + 1, "cut at {bytes}");
        assert_eq!(
            opened.records,
            expected[first as usize - 1..(tail - now_lost) as usize],
            "cut at {bytes}"
        );
        lost = now_lost;
    }
    assert_eq!(lost, tail + 1 - first);
}

/// The newest segment, cut at a record's end, opened as a log that had ended there.
#[test]
fn the_newest_segment_cut_before_a_confirmed_record_is_refused() {
    let (disk, tail) = long_log(0);
    let mut log = open(&disk, SEGMENT_BYTES).unwrap().log;
    log.mark_durable().unwrap();
    append(&mut log, 3, PAYLOAD_BYTES_MAX);
    let newest = segments(&disk).pop().unwrap();
    let first = first_of(&newest);
    let expected = &records(tail + 3, PAYLOAD_BYTES_MAX)[first as usize - 1..];
    let mut last = tail + 3;
    for bytes in (0..disk.content(&newest).len() as u64).rev() {
        let disk = disk.fork();
        disk.truncate(&newest, bytes);
        match open_from(&disk, SEGMENT_BYTES, first) {
            Ok(opened) => {
                last = opened.log.tail().0;
                assert_eq!(
                    opened.records,
                    expected[..(last + 1 - first) as usize],
                    "cut at {bytes}"
                );
            }
            Err(FileLogError::Damaged { file, sequence, .. }) => {
                assert!(last == tail && file == newest, "cut at {bytes}");
                assert!(sequence.0 <= tail, "cut at {bytes}");
            }
            Err(other) => panic!("cut at {bytes}: {other}"),
        }
        assert!(last >= tail, "cut at {bytes}");
    }
}

/// With the newest segments gone, or all of them beside a checkpoint, the log looked as if it had
/// ended earlier.
#[test]
fn missing_files_at_the_end_are_missed() {
    let (disk, _) = long_log(0);
    let files = segments(&disk);
    for count in 0..files.len() {
        let disk = disk.fork();
        files[count..].iter().for_each(|name| disk.remove(name).unwrap());
        let next = first_of(&files[count]);
        // A checkpoint's content does not change it.
        for replay_from in [1, next.saturating_sub(1).max(1), next] {
            let error = open_from(&disk, SEGMENT_BYTES, replay_from).err();
            let Some(FileLogError::EndMissing { tail, file, .. }) = &error else {
                panic!("{count} files, from {replay_from}: {error:?}");
            };
            assert_eq!(file, files.last().unwrap());
            assert_eq!(tail.0, if count == 0 { replay_from - 1 } else { next - 1 });
        }
        let listed = disk.list().unwrap();
        forget_the_reach(&disk);
        let tail = open_from(&disk, SEGMENT_BYTES, next).unwrap().log.tail();
        assert_eq!(tail.0, next - 1, "with the statement given up, {listed:?} open");
    }
}

/// Without idle time, no idle confirmation: the reach is still stated every few syncs, and durably
/// with each segment.
#[test]
fn a_busy_log_says_how_far_it_reaches() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 1 << 20).unwrap().log;
    for _ in 0..100 {
        append(&mut log, 1, 100);
        log.sync().unwrap();
    }
    disk.truncate("log-00000000000000000001", 32 + 64);
    assert!(matches!(open(&disk, 1 << 20).err(), Some(FileLogError::Damaged { .. })));
    let disk = FaultyDisk::new();
    append(&mut open(&disk, 1024).unwrap().log, 20, 300);
    disk.crash();
    disk.remove(&segments(&disk).pop().unwrap()).unwrap();
    assert!(matches!(open(&disk, 1024).err(), Some(FileLogError::EndMissing { .. })));
}

#[test]
fn an_older_segment_cut_anywhere_is_refused() {
    let (disk, _) = long_log(0);
    let name = &segments(&disk)[1];
    for bytes in 0..disk.content(name).len() as u64 {
        let disk = disk.fork();
        disk.truncate(name, bytes);
        let error = open_from(&disk, SEGMENT_BYTES, first_of(name)).err();
        assert!(
            matches!(error, Some(FileLogError::Damaged { .. } | FileLogError::Gap { .. })),
            "cut at {bytes}: {error:?}"
        );
    }
}

/// Flips every byte of every file, three ways, and passes what opening gave to `judge`.
fn flip_everywhere(disk: &FaultyDisk, judge: &dyn Fn(Result<Records, FileLogError>, &str)) {
    for name in disk.list().unwrap() {
        let content = disk.content(&name);
        // The bytes between the two statements of the reach mean nothing.
        let gap = if name == "log-reach" { 64..4096 } else { 0..0 };
        for offset in (0..content.len()).filter(|at| !gap.contains(at)).map(|at| at as u64) {
            for mask in [0x01, 0x80, 0xff] {
                let disk = disk.fork();
                disk.flip(&name, offset, mask);
                let opened = open(&disk, 1024).map(|opened| opened.records);
                judge(opened, &format!("{name} byte {offset} mask {mask:#x}"));
            }
        }
    }
}

#[test]
fn any_flipped_byte_of_a_confirmed_log_is_harmless_or_refused() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 1024).unwrap().log;
    append(&mut log, 14, 200);
    log.sync().unwrap();
    log.mark_durable().unwrap();
    assert!(segments(&disk).len() > 1);
    flip_everywhere(&disk, &|opened, place| match opened {
        Ok(recovered) => assert_eq!(recovered, records(14, 200), "{place}"),
        Err(FileLogError::Damaged { .. }) => {}
        Err(other) => panic!("{place}: {other}"),
    });
}

#[test]
fn any_flipped_byte_costs_at_most_what_nothing_proves_durable() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 1024).unwrap().log;
    append(&mut log, 9, 200);
    log.sync().unwrap();
    append(&mut log, 4, 200);
    flip_everywhere(&disk, &|opened, place| match opened {
        Ok(recovered) => assert!(
            recovered.len() >= 9 && records(13, 200).starts_with(&recovered),
            "{place}"
        ),
        Err(FileLogError::Damaged { .. }) => {}
        Err(other) => panic!("{place}: {other}"),
    });
}

#[test]
fn a_flip_in_the_last_confirmed_record_is_refused_by_name() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 4096).unwrap().log;
    append(&mut log, 2, 100);
    log.append(log.tail(), &[b"the last acknowledged record"]).unwrap();
    log.sync().unwrap();
    let last = 32 + log.bytes() - 64;
    log.mark_durable().unwrap();
    disk.flip("log-00000000000000000001", last + 40, 1);
    let before = disk.content("log-00000000000000000001");
    let message = open(&disk, 4096).err().unwrap().to_string();
    for part in [
        "log-00000000000000000001",
        "byte ",
        "record 3",
        "durable",
        "quartet check",
    ] {
        assert!(message.contains(part), "{part} in: {message}");
    }
    assert_eq!(
        disk.content("log-00000000000000000001"),
        before,
        "a refusal changes nothing"
    );
}

#[test]
fn an_unknown_format_is_named() {
    for unknown in [0, 2, 5] {
        let disk = FaultyDisk::new();
        let mut header = [0; 32];
        header[..8].copy_from_slice(b"QRTETLOG");
        header[8] = unknown;
        let checksum = crc32fast::hash(&[&header[..12], &header[16..]].concat());
        header[12..16].copy_from_slice(&checksum.to_le_bytes());
        disk.create("log-00000000000000000001")
            .unwrap()
            .write_at(0, &header)
            .unwrap();
        let error = open(&disk, 4096).err().unwrap();
        let FileLogError::Format { version, .. } = error else {
            panic!("{unknown}: {error}");
        };
        assert_eq!(version, u32::from(unknown));
    }
}

/// A client stores the image of a log as a value, and the write of that value is torn. Nothing in
/// it may pass for a record: neither as proof that something durable was lost, nor as a record to
/// replay.
#[test]
fn the_image_of_a_log_in_a_payload_is_no_evidence() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, SEGMENT_BYTES).unwrap().log;
    append(&mut log, 20, 100);
    log.sync().unwrap();
    log.mark_durable().unwrap();
    let image = disk.content("log-00000000000000000001")[..4000].to_vec();
    let at = 32 + log.bytes();
    log.append(log.tail(), &[&image]).unwrap();
    disk.flip("log-00000000000000000001", at, 0xff);
    assert_eq!(open(&disk, SEGMENT_BYTES).unwrap().records, records(20, 100));
}
