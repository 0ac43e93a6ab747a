//! Reading any bytes as a checkpoint answers, and never panics; what is read is the same when it is
//! written and read again. The bytes are tried as they are, and with every checksum put right,
//! which a random input would hardly hit.
#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use quartet_store::checkpoint::{self, CheckpointError, CheckpointSummary};
use quartet_store::{MemoryBuilder, MemoryStore, Store};

const HEADER_BYTES: usize = 32;
/// Tag and length stand before the checksum of a block or footer.
const CHECKSUM_AT: usize = 5;
const PART_HEADER_BYTES: usize = 9;

fn read(data: &[u8]) -> Result<(MemoryStore, CheckpointSummary), CheckpointError> {
    let mut builder = MemoryBuilder::new();
    let mut input = data;
    let summary = checkpoint::read(&mut input, &mut |row| builder.push(row), &mut |_| {})?;
    Ok((builder.finish(), summary))
}

fn check(data: &[u8]) {
    let Ok((store, summary)) = read(data) else { return };
    let mut written = Vec::new();
    let position = summary.position;
    checkpoint::write(store.snapshot(), position, &mut written, &mut |_| {}).unwrap();
    let (_, again) = read(&written).unwrap();
    assert_eq!(
        (again.position, again.rows, again.state_hash),
        (position, summary.rows, summary.state_hash)
    );
}

fn with_checksums(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    if let Some(header) = bytes.get_mut(..HEADER_BYTES) {
        let checksum = crc32fast::hash(&header[..28]);
        header[28..].copy_from_slice(&checksum.to_le_bytes());
    }
    let mut parts = bytes.get_mut(HEADER_BYTES..).unwrap_or_default();
    while let ControlFlow::Continue(rest) = put_right(parts) {
        parts = rest;
    }
    bytes
}

/// Puts the checksum of the first part right; breaks if there is none.
fn put_right(parts: &mut [u8]) -> ControlFlow<(), &mut [u8]> {
    let length = parts.get(1..CHECKSUM_AT).and_then(|length| length.try_into().ok());
    let Some(length) = length.map(u32::from_le_bytes) else {
        return ControlFlow::Break(());
    };
    let Some((part, rest)) = parts.split_at_mut_checked(PART_HEADER_BYTES.saturating_add(length as usize)) else {
        return ControlFlow::Break(());
    };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&part[..CHECKSUM_AT]);
    hasher.update(&part[PART_HEADER_BYTES..]);
    part[CHECKSUM_AT..PART_HEADER_BYTES].copy_from_slice(&hasher.finalize().to_le_bytes());
    ControlFlow::Continue(rest)
}

fuzz_target!(|data: &[u8]| {
    let _ = checkpoint::read_position(&mut &data[..]);
    check(data);
    check(&with_checksums(data));
});
