//! Replies observed of Redis 8.2.3 with RedisBloom 2.8.2, the bytes that changes log, and dumps.

use std::sync::LazyLock;

use quartet_layer_redis::commands::with;
use quartet_layer_redis::module_api::Commands;
use quartet_layer_redis::testing::recording::{Recording, dump, each_damaged, logged_bytes, restore};
use quartet_layer_redis::testing::{Fixture, show};
use quartet_wire_rdb::value::{Value as Dumped, restore as decoded};

use super::SketchModule;

/// A layer with the module over an empty engine with a stopped clock.
fn fixture() -> Fixture {
    static ALL: LazyLock<Commands> = LazyLock::new(|| with(&[&SketchModule]));
    Fixture::with(&ALL)
}

fn recording() -> Recording {
    Recording::parse(include_str!("../../testdata/sketches.jsonl"))
}

/// The original leaves its digest merged after it has read it; the figures of the nodes then
/// differ, and nothing else does.
fn is_of_nodes(words: &[&str]) -> bool {
    words[0] == "TDIGEST.INFO" && words[1] != "absent"
}

/// A fixture after the commands of the recording, and the replies that differ.
fn replayed() -> (Fixture, Vec<String>) {
    let fixture = fixture();
    let wrong = recording().replay(&fixture, |compared| {
        compared.reply.eq_ignore_ascii_case(compared.expected) || is_of_nodes(compared.words)
    });
    (fixture, wrong)
}

#[test]
fn replies_are_those_of_the_original() {
    let (fixture, wrong) = replayed();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(fixture.findings().kept.is_empty());
}

/// The dump of the original equals the dump of the same commands here, except pointers of Top-K
/// lists, and it restores to a key with the same dump.
#[test]
fn dumps_are_those_of_the_original() {
    let (fixture, _) = replayed();
    let mut connection = fixture.connect();
    for (name, theirs) in recording().dumps() {
        let ours = dump(&mut connection, name);
        if name != "k" {
            assert_eq!(decoded(&theirs), decoded(&ours), "{name}");
        }
        assert_eq!(restore(&mut connection, "copy", &theirs), "OK", "{name}");
        assert_eq!(dump(&mut connection, "copy"), ours, "{name}");
    }
}

#[test]
fn a_key_of_any_family_is_copied_renamed_and_removed() {
    let (fixture, _) = replayed();
    let mut connection = fixture.connect();
    for name in ["b", "d", "m", "k", "q"] {
        let before = dump(&mut connection, name);
        connection.run(&["COPY", name, "copy", "REPLACE"]);
        connection.run(&["EXPIRE", "copy", "100"]);
        connection.run(&["RENAME", "copy", "renamed"]);
        assert_eq!(dump(&mut connection, "renamed"), before);
        assert_eq!(show(&connection.run(&["TTL", "renamed"])), "100");
        assert_eq!(show(&connection.run(&["DEL", name, "renamed"])), "2");
    }
    connection.check("FLUSHALL => OK");
    let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
    assert_eq!((reader.count(b"K", b"L"), reader.count(b"E", b"F")), (0, 0));
}

/// A sketch of a megabyte logs what an item changes of it.
#[test]
fn a_change_is_a_small_record() {
    let fixture = fixture();
    fixture.connect().check(
        "BF.RESERVE bf 0.01 1000000 => OK
         CF.RESERVE cf 1000000 => OK
         CMS.INITBYDIM cms 200000 5 => OK
         TOPK.RESERVE topk 50 2000 7 0.925 => OK
         TDIGEST.CREATE td => OK",
    );
    let mut largest = [0; 5];
    for number in 0..400 {
        let item = format!("item-{}", number * 7919 % 1000);
        let value = (number * 104_729 % 1000).to_string();
        let requests: [&[&str]; 5] = [
            &["BF.ADD", "bf", &item],
            &["CF.ADD", "cf", &item],
            &["CMS.INCRBY", "cms", &item, "3"],
            &["TOPK.ADD", "topk", &item],
            &["TDIGEST.ADD", "td", &value],
        ];
        for (largest, request) in largest.iter_mut().zip(requests) {
            *largest = logged_bytes(&fixture, request).max(*largest);
        }
    }
    assert!(largest.iter().all(|bytes| *bytes <= 300), "{largest:?}");
    let read = [
        "BF.EXISTS bf a",
        "CF.COUNT cf a",
        "CMS.QUERY cms a",
        "TOPK.LIST topk",
        "TDIGEST.QUANTILE td 0.5",
    ];
    for request in read {
        let words: Vec<&str> = request.split(' ').collect();
        assert_eq!(logged_bytes(&fixture, &words), 0, "{request}");
    }
}

/// Sizes as large as numbers go are refused before memory is taken.
#[test]
fn sizes_without_memory_are_refused() {
    let mut connection = fixture().connect();
    connection.check(
        "BF.RESERVE x 0.01 9223372036854775807 => !ERR could not create filter
         BF.RESERVE x 0.01 1000000000000 => !ERR Insufficient memory to create filter
         BF.RESERVE x 5e-324 1 => !ERR could not create filter
         BF.INSERT x CAPACITY 1000000000000 ITEMS a => !ERR Insufficient memory to create filter
         BF.RESERVE grows 0.01 1 EXPANSION 1000000000000 => OK
         CF.RESERVE x 9223372036854775807 => !ERR Insufficient memory to create filter
         CF.INSERT x CAPACITY 1000000000000 ITEMS a => !ERR Insufficient memory to create filter
         CMS.INITBYDIM x 1000000000 1000 => !CMS: Insufficient memory to create the key
         CMS.INITBYPROB x 1e-300 1e-9 => !CMS: invalid init arguments
         CMS.INITBYPROB x 1e-9 1e-9 => !CMS: Insufficient memory to create the key
         TOPK.RESERVE x 4294967295 => !ERR Insufficient memory to create topk data structure
         TOPK.RESERVE x 5 4294967295 4294967295 0.9 => !ERR Insufficient memory to create topk data structure
         TOPK.RESERVE x 4294967296 => !TopK: invalid k
         TDIGEST.CREATE x COMPRESSION 9223372036854775807 => !ERR T-Digest: allocation failed
         TDIGEST.CREATE x COMPRESSION 100000000 => !ERR T-Digest: allocation failed
         EXISTS x => 0",
    );
}

/// Bits of a dump that were changed give a key, or an error: never a panic.
#[test]
fn damaged_dumps_are_values_or_errors() {
    let (fixture, _) = replayed();
    let mut connection = fixture.connect();
    for name in ["b", "d", "m", "k", "q"] {
        let payload = dump(&mut connection, name);
        each_damaged(&payload, 300, &mut |damaged| {
            let is_sketch = matches!(decoded(damaged), Ok(Dumped::Sketch(_)));
            if restore(&mut connection, "damaged", damaged) != "OK" || !is_sketch {
                return;
            }
            for request in [
                "BF.ADD damaged x",
                "CF.ADD damaged x",
                "CMS.INCRBY damaged x 1",
                "TOPK.ADD damaged x",
                "TDIGEST.ADD damaged 1",
                "TDIGEST.QUANTILE damaged 0.5",
                "DUMP damaged",
            ] {
                let words: Vec<&str> = request.split(' ').collect();
                connection.bytes(&words);
            }
        });
    }
}
