//! The bytes of a segment, put together by hand as `docs/log.md` describes them: a later version
//! must read this.

use super::{SALT, open};
use quartet_env::FaultyDisk;
use quartet_log::Log;

fn checksum(parts: &[&[u8]]) -> [u8; 4] {
    crc32fast::hash(&parts.concat()).to_le_bytes()
}

fn segment_header() -> Vec<u8> {
    let (start, end) = (
        [&b"QRTETLOG"[..], &[1, 0, 0, 0]].concat(),
        [1u64.to_le_bytes(), SALT.to_le_bytes()].concat(),
    );
    [&start[..], &checksum(&[&start, &end]), &end].concat()
}

fn record(magic: &[u8; 4], offset: u64, payload: &[u8], sequence: u64, synced_through: u64) -> Vec<u8> {
    let fields = [
        &checksum(&[payload])[..],
        &(payload.len() as u32).to_le_bytes(),
        &sequence.to_le_bytes(),
        &synced_through.to_le_bytes(),
    ]
    .concat();
    let place = [SALT.to_le_bytes(), offset.to_le_bytes()].concat();
    let mut record = [&magic[..], &checksum(&[&place, magic, &fields]), &fields, payload].concat();
    record.resize(record.len().next_multiple_of(8), 0);
    record
}

#[test]
fn a_segment_is_what_the_document_says() {
    let disk = FaultyDisk::new();
    let mut log = open(&disk, 1 << 20).unwrap().log;
    log.append(log.tail(), &[b"first"]).unwrap();
    log.sync().unwrap();
    log.append(log.tail(), &[b"the second"]).unwrap();
    log.sync().unwrap();
    log.mark_durable().unwrap();
    let expected = [
        segment_header(),
        record(b"QEPO", 32, b"first", 1, 0),
        record(b"QEPO", 72, b"the second", 2, 1),
        record(b"QCNF", 120, b"", 2, 2),
    ]
    .concat();
    let content = disk.content("log-00000000000000000001");
    assert_eq!(content.len(), 32 + 256 * 1024, "zeros are written ahead");
    assert_eq!(content[..expected.len()], expected);
    assert!(content[expected.len()..].iter().all(|&byte| byte == 0));
}
