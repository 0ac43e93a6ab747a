//! Replies observed of Redis 8.2.3 with RedisTimeSeries 1.12.2, dumps, and the bytes that changes
//! log.

use std::sync::LazyLock;

use quartet_layer_redis::commands::with;
use quartet_layer_redis::module_api::Commands;
use quartet_layer_redis::testing::recording::{Recording, dump, each_damaged, logged_bytes, restore};
use quartet_layer_redis::testing::{Connection, Fixture, found, show};
use quartet_wire_rdb::value::{Value as Dumped, restore as decoded};

use super::SeriesModule;

/// A layer with the module over an empty engine with a stopped clock.
fn fixture() -> Fixture {
    static ALL: LazyLock<Commands> = LazyLock::new(|| with(&[&SeriesModule]));
    Fixture::with(&ALL)
}

fn recording() -> Recording {
    Recording::parse(include_str!("../../testdata/series.jsonl"))
}

/// A reply without the estimate of memory; in RESP3 with the numbers of doubles, not their texts.
fn masked(words: &[&str], is_resp3: bool, reply: &str) -> String {
    if is_resp3 {
        let number = |part: &str| {
            part.parse::<f64>()
                .map_or(part.to_owned(), |number| format!("{number:e}"))
        };
        let parts: Vec<String> = reply
            .split_inclusive([' ', '[', ']', '}'])
            .map(|part| {
                let letters = part.trim_end_matches([' ', '[', ']', '}']);
                format!("{}{}", number(letters), &part[letters.len()..])
            })
            .collect();
        return masked(words, false, &parts.concat());
    }
    let Some((before, behind)) = reply.split_once("memoryUsage").filter(|_| words[0] == "TS.INFO") else {
        return reply.to_owned();
    };
    let behind = behind.trim_start_matches(|letter: char| !letter.is_alphabetic());
    format!("{before}{behind}")
}

/// A fixture after the commands of the recording, and the replies that differ.
fn replayed() -> (Fixture, Vec<String>) {
    let fixture = fixture();
    let wrong = recording().replay(&fixture, |compared| {
        let masked = |reply| masked(compared.words, compared.is_resp3, reply);
        masked(compared.reply) == masked(compared.expected)
    });
    (fixture, wrong)
}

#[test]
fn replies_are_those_of_the_original() {
    let (fixture, wrong) = replayed();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(found(&fixture), [""; 0]);
}

/// Samples of a series as its dump has them.
fn shown(connection: &mut Connection, name: &str) -> String {
    show(&connection.run(&["TS.RANGE", name, "-", "+"]))
}

#[test]
fn dumps_travel_both_ways() {
    let (fixture, _) = replayed();
    let mut connection = fixture.connect();
    for (name, theirs) in recording().dumps() {
        assert_eq!(restore(&mut connection, "copy", &theirs), "OK", "{name}");
        assert_eq!(shown(&mut connection, "copy"), shown(&mut connection, name), "{name}");
        let ours = dump(&mut connection, name);
        let (Ok(Dumped::Series(theirs)), Ok(Dumped::Series(ours))) = (decoded(&theirs), decoded(&ours)) else {
            panic!("{name} is a series");
        };
        assert_eq!(theirs.parts.len(), ours.parts.len(), "{name}");
    }
}

#[test]
fn keys_are_copied_renamed_and_removed_with_their_labels() {
    let fixture = fixture();
    let mut connection = fixture.connect();
    connection.check(
        "TS.CREATE a LABELS room kitchen room bath => OK
         TS.ADD a 5 1 => 5
         COPY a b => 1
         RENAME a c => OK
         TS.QUERYINDEX room=kitchen => [b c]
         TS.QUERYLABELS LABELS => [room]
         TS.QUERYLABELS VALUES room => [bath kitchen]
         TS.QUERYLABELS VALUES room FILTER room=bath => [bath kitchen]
         MOVE b 1 => 1
         TS.QUERYINDEX room=bath => [c]
         SELECT 1 => OK
         TS.QUERYINDEX room=bath => [b]
         SWAPDB 0 1 => OK
         TS.QUERYINDEX room=bath => [c]
         EXPIRE c 100 => 1
         TS.QUERYINDEX room=bath => [c]",
    );
    assert_eq!(found(&fixture), [""; 0]);
    fixture.advance_ms(100_000);
    connection.check(
        "TS.QUERYINDEX room=bath => []
         TS.QUERYLABELS LABELS => []
         TS.CREATE d LABELS a 1 => OK
         FLUSHALL => OK",
    );
    let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
    assert_eq!(
        (
            reader.count(b"K", b"L"),
            reader.count(b"E", b"F"),
            reader.count(b"M", b"N")
        ),
        (0, 0, 0)
    );
}

/// A copy of a source has no rules, and its samples do not reach the destination.
#[test]
fn rules_follow_renamed_keys_and_not_copies() {
    let fixture = fixture();
    let mut connection = fixture.connect();
    connection.check(
        "TS.CREATE a => OK
         TS.CREATE sum => OK
         TS.CREATERULE a sum AGGREGATION sum 10 => OK
         COPY a b => 1
         TS.MADD b 1 5 b 15 5 => [1 15]
         TS.RANGE sum - + => []
         RENAME sum total => OK
         RENAME a source => OK
         TS.MADD source 1 5 source 15 6 => [1 15]
         TS.RANGE total - + => [[0 5]]
         DEL total => 1
         TS.ADD source 25 1 => 25
         TS.CREATE total => OK
         TS.ADD source 35 1 => 35
         TS.RANGE total - + => []
         TS.CREATERULE source total AGGREGATION sum 10 => OK",
    );
    assert_eq!(found(&fixture), [""; 0]);
}

#[test]
fn commands_of_redis_8_10_are_served() {
    let fixture = fixture();
    let mut connection = fixture.connect();
    connection.check(
        "TS.CREATE a LABELS l 1 => OK
         TS.CREATE b LABELS l 1 => OK
         TS.MADD a 1 1 a 2 2 a 12 7 b 2 5 b 30 6 => [1 2 12 2 30]
         TS.RANGE a - + AGGREGATION min,max,count 10 => [[0 1 2 2] [10 7 7 1]]
         TS.RANGE a - + AGGREGATION min,,max 10 => !ERR TSDB: Empty aggregation type in list
         TS.NRANGE 2 a b - + => [[1 [1 NaN]] [2 [2 5]] [12 [7 NaN]] [30 [NaN 6]]]
         TS.NREVRANGE 2 a b - + COUNT 2 => [[30 [NaN 6]] [12 [7 NaN]]]
         TS.NRANGE 2 a b - + AGGREGATION min,max sum 10 => [[0 [1 2 5]] [10 [7 7 NaN]] [30 [NaN NaN 6]]]
         TS.NRANGE 2 a b - + AGGREGATION min 10 => !ERR TSDB: the number of AGGREGATION arguments must be equal to numkeys
         TS.NRANGE 0 a - + => !ERR TSDB: numkeys must be a positive integer
         TS.NRANGE 9 a b - + => !ERR wrong number of arguments for 'ts.nrange' command
         TS.READ a - => [[1 1] [2 2] [12 7]]
         TS.READ a + => [[12 7]]
         TS.READ a $ => []
         TS.READ a 2 MAX_COUNT 1 => [[2 2]]
         TS.READ a - BLOCK 0 2 MAX_COUNT 1 => !TSDB: BLOCK min_count must be <= MAX_COUNT
         TS.READ a - BLOCK 1000 3 => [[1 1] [2 2] [12 7]]
         TS.MRANGE - + EXCLUDEEMPTY FILTER l=1 => [[a [] [[1 1] [2 2] [12 7]]] [b [] [[2 5] [30 6]]]]
         TS.MRANGE 20 + EXCLUDEEMPTY FILTER l=1 => [[b [] [[30 6]]]]
         TS.ADD a 20 nan => 20
         TS.RANGE a 20 + => [[20 NaN]]
         TS.RANGE a - + AGGREGATION countnan,countall,sum 100 => [[0 1 4 10]]
         TS.INCRBY a 1 TIMESTAMP 21 => !ERR TSDB: cannot increment/decrement NaN value",
    );
}

/// A series logs a sample, not a chunk, with a rule too.
#[test]
fn an_appended_sample_is_a_small_record() {
    let fixture = fixture();
    fixture.connect().check(
        "TS.CREATE a LABELS room kitchen => OK
         TS.CREATE b => OK
         TS.CREATE c ENCODING UNCOMPRESSED => OK
         TS.CREATERULE a b AGGREGATION twa 1000 => OK",
    );
    let mut largest = [0; 2];
    for number in 1..1500u64 {
        let time = (number * 10 + number * number % 7).to_string();
        let value = ((number * 104_729 % 1000) as f64 * 0.37).to_string();
        for (largest, key) in largest.iter_mut().zip(["a", "c"]) {
            *largest = logged_bytes(&fixture, &["TS.ADD", key, &time, &value]).max(*largest);
        }
    }
    assert!(largest[1] <= 300 && largest[0] <= 600, "{largest:?}");
    for request in [
        "TS.GET a",
        "TS.RANGE a - +",
        "TS.MRANGE - + FILTER room=kitchen",
        "TS.INFO a",
    ] {
        let words: Vec<&str> = request.split(' ').collect();
        assert_eq!(logged_bytes(&fixture, &words), 0, "{request}");
    }
    assert_eq!(found(&fixture), [""; 0]);
}

/// Bits of a dump that were changed give a key, or an error: never a panic.
#[test]
fn damaged_dumps_are_values_or_errors() {
    let (fixture, _) = replayed();
    let mut connection = fixture.connect();
    for name in ["k", "u"] {
        let payload = dump(&mut connection, name);
        each_damaged(&payload, 200, &mut |damaged| {
            if restore(&mut connection, "damaged", damaged) != "OK" {
                return;
            }
            for request in [
                "TS.ADD damaged 5 1 ON_DUPLICATE LAST",
                "TS.ADD damaged 1000000 1",
                "TS.RANGE damaged - +",
                "TS.REVRANGE damaged - + AGGREGATION twa 10",
                "TS.INFO damaged DEBUG",
                "TS.DEL damaged 3 9",
                "DUMP damaged",
            ] {
                let words: Vec<&str> = request.split(' ').collect();
                connection.bytes(&words);
            }
        });
    }
    assert_eq!(found(&fixture), [""; 0]);
}

#[test]
fn a_user_reads_the_series_that_it_may_read() {
    let fixture = fixture();
    let mut connection = fixture.connect();
    connection.check(
        "TS.CREATE own:1 LABELS l 1 a 1 => OK
         TS.CREATE other LABELS l 1 b 1 => OK
         ACL SETUSER reader on nopass +@all ~own:* => OK
         AUTH reader x => OK
         TS.MGET FILTER a=1 => [[own:1 [] []]]
         TS.QUERYLABELS LABELS => [a l]
         TS.GET other => !NOPERM this user has no permissions to access one of the keys used as arguments",
    );
    let refused = "NOPERM TSDB: the current user doesn't have the read permission to one or more keys that match the \
                   specified filter";
    for request in ["TS.QUERYINDEX l=1", "TS.MGET FILTER l=1", "TS.MRANGE - + FILTER l=1"] {
        let words: Vec<&str> = request.split(' ').collect();
        assert_eq!(show(&connection.run(&words)), format!("!{refused}"), "{request}");
    }
}
