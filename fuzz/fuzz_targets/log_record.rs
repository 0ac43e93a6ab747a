//! Opening a log whose only segment is any bytes answers, and never panics; so does reading any
//! bytes as effects. The bytes are tried as they are, and behind the header of a real segment,
//! which a random input would hardly hit; and as the statement of how far the log reached.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use quartet_env::{Disk, FaultyDisk};
use quartet_log::{FileLog, FileLogError, FileLogOptions};
use quartet_model::{EffectsReader, LogSequence};

const SEGMENT: &str = "log-00000000000000000001";
const SEGMENT_HEADER_BYTES: u64 = 32;

fn open(disk: &FaultyDisk) -> Result<FileLog, FileLogError> {
    let options = FileLogOptions {
        segment_bytes: 4096,
        salt: 1,
        ..FileLogOptions::default()
    };
    FileLog::open(
        Arc::new(disk.clone()),
        options,
        LogSequence(1),
        &mut |_, _| Ok(()),
        &mut |_| {},
    )
}

fn read_effects(data: &[u8]) {
    let mut reader = EffectsReader::new(data);
    while let Ok(Some((_, mut effects))) = reader.next_transaction() {
        while effects.next().is_some() {}
    }
}

fuzz_target!(|data: &[u8]| {
    read_effects(data);
    let raw = FaultyDisk::new();
    let file = raw.create(SEGMENT).unwrap();
    file.write_at(0, data).unwrap();
    drop(open(&raw));
    let headed = FaultyDisk::new();
    drop(open(&headed).unwrap());
    let file = headed.open(SEGMENT).unwrap();
    file.set_len(SEGMENT_HEADER_BYTES).unwrap();
    file.write_at(SEGMENT_HEADER_BYTES, data).unwrap();
    drop(open(&headed));
    headed.create("log-reach").unwrap().write_at(0, data).unwrap();
    drop(open(&headed));
});
