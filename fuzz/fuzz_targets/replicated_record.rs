//! Any bytes are answered as a record of the replicated log, as the value of `term` and of `meta`,
//! and as a node's report; and what is a record has the same content when it is written again. The
//! bytes are tried as they are, and behind a record's first bytes and before a checksum that fits,
//! which a random input would hardly hit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_log_replicated::copies::{holds, reports};
use quartet_log_replicated::{Answer, ClusterId, NodeId, PartitionId, Place, Record, TermValue, cluster_of};

fn read(bytes: &[u8]) {
    if let Ok(record) = Record::decode(bytes) {
        assert_eq!(Record::decode(&record.encode()), Ok(record));
    }
    let _ = TermValue::decode(bytes);
    let _ = cluster_of(bytes);
    let place = Place::new("/x", ClusterId(1), PartitionId(0));
    let entries = vec![(place.node_key(NodeId(1)), bytes.to_vec())];
    let answer = Answer::Entries { entries, more: false };
    let _ = (holds(&answer), reports(&place, &answer));
}

fuzz_target!(|data: &[u8]| {
    read(data);
    for front in [&b"QREC\x01"[..], b"QTRM\x01\0\0\0", b"QMET\x01\0\0\0", b"QNOD\x01\0\0\0"] {
        let mut sealed = [front, data].concat();
        let checksum = crc32fast::hash(&sealed);
        sealed.extend_from_slice(&checksum.to_le_bytes());
        read(&sealed);
    }
});
