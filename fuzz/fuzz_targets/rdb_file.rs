//! Any bytes after the header of an RDB file are records or an error, the same however they are
//! cut; a record is returned whole, and a key's payload is one that RESTORE can judge. Search
//! indexes that were read are written and read alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_wire_rdb::file::{Found, Record, Scanner, Writer};
use quartet_wire_rdb::search_index::SearchIndex;
use quartet_wire_rdb::value;

fn scan(bytes: &[u8], piece: usize) -> (Vec<Record>, bool) {
    let (mut scanner, mut records) = (Scanner::new(), Vec::new());
    let (mut start, mut end) = (0, 0);
    loop {
        match scanner.read(&bytes[start..end]) {
            Ok(Found::Bytes { consumed, record }) => {
                start += consumed;
                let is_over = record == Some(Record::End);
                records.extend(record);
                if is_over {
                    return (records, true);
                }
            }
            Ok(Found::Nothing { .. }) if end == bytes.len() => return (records, true),
            Ok(Found::Nothing { .. }) => end = bytes.len().min(end + piece),
            Err(_) => return (records, false),
        }
    }
}

fn written(indexes: &[SearchIndex]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::begin(false, &mut out);
    writer.search_indexes(indexes, &mut out);
    writer.end(&mut out);
    out
}

fn check_indexes(indexes: &[SearchIndex]) {
    indexes.iter().for_each(|index| drop(index.requests()));
    let file = written(indexes);
    match &scan(&file, file.len()).0[..] {
        [Record::SearchIndexes(again), Record::End] => assert_eq!(written(again), file),
        other => panic!("{other:?}"),
    }
}

fuzz_target!(|data: &[u8]| {
    let header: &[u8] = if data.first().is_some_and(|first| first & 1 == 1) { b"VALKEY080" } else { b"REDIS0012" };
    let bytes = [header, data.get(1..).unwrap_or_default()].concat();
    let (records, is_sound) = scan(&bytes, bytes.len());
    let again = scan(&bytes, 7);
    // The original takes a NaN as a score or weight, and a NaN differs from itself.
    if again != (records.clone(), is_sound) {
        assert_eq!(format!("{again:?}"), format!("{:?}", (&records, is_sound)));
    }
    for record in records {
        match record {
            Record::Key(key) => drop(value::restore(&key.payload)),
            Record::SearchIndexes(indexes) => check_indexes(&indexes),
            _ => {}
        }
    }
});
