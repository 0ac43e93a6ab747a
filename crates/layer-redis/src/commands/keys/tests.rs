//! Keys against scripts, SCAN's promise against concurrent writers, and databases that change
//! places.

use std::collections::BTreeSet;

use proptest::prelude::*;
use quartet_wire_resp::Value;

use crate::testing::{Connection, Fixture, show};

const NOW_MS: u64 = 1_700_000_000_000;

#[test]
fn names_are_given_and_taken() {
    Fixture::new().connect().check(include_str!("testdata/names.txt"));
}

/// A collection of each kind, too large for one row.
fn fill(connection: &mut Connection) {
    for number in 0..300 {
        let number = number.to_string();
        connection.run(&["RPUSH", "list", &number]);
        connection.run(&["SADD", "set", &format!("m{number}")]);
        connection.run(&["ZADD", "zset", &number, &format!("m{number}")]);
        connection.run(&["HSET", "hash", &format!("f{number}"), &number]);
    }
    connection.run(&["HPEXPIREAT", "hash", "1700000005000", "FIELDS", "1", "f7"]);
}

#[test]
fn large_collections_are_renamed_copied_and_moved_whole() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    fill(&mut connection);
    for name in ["list", "set", "zset", "hash"] {
        connection.check(&format!(
            "COPY {name} {name}2 => 1
             RENAME {name} {name}3 => OK
             EXISTS {name} => 0
             COPY {name}3 {name} DB 1 => 1
             MOVE {name}2 2 => 1
             DEL {name}3 => 1",
        ));
    }
    connection.check("DBSIZE => 0");
    for (db, suffix) in [("1", ""), ("2", "2")] {
        connection.check(&format!(
            "SWAPDB 0 {db} => OK
             LRANGE list{suffix} 298 -1 => [298 299]
             SCARD set{suffix} => 300
             ZRANGE zset{suffix} -1 -1 => [m299]
             HLEN hash{suffix} => 300
             HGET hash{suffix} f9 => 9
             SWAPDB 0 {db} => OK",
        ));
    }
    // The copies' fields expire like the original's.
    fixture.advance_ms(6000);
    fixture.layer.expire_due();
    for (db, suffix) in [("1", ""), ("2", "2")] {
        connection.check(&format!(
            "SWAPDB 0 {db} => OK
             HEXISTS hash{suffix} f7 => 0
             HLEN hash{suffix} => 299
             SWAPDB 0 {db} => OK",
        ));
    }
}

#[test]
fn copies_are_independent() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    fill(&mut connection);
    connection.check(
        "COPY list other => 1
         LPOP list => 0
         LINDEX other 0 => 0
         DEL list => 1
         LLEN other => 300",
    );
}

#[test]
fn databases_change_places() {
    let fixture = Fixture::new();
    let (mut connection, mut waiter) = (fixture.connect(), fixture.connect());
    connection.check(
        "RPUSH awaited x => 1
         SET a other => OK
         SWAPDB 1 0 => OK
         DBSIZE => 0",
    );
    fill(&mut connection);
    connection.check(
        "SET a 1 => OK
         PEXPIRE a 1000 => 1
         WATCH a => OK",
    );
    assert!(waiter.bytes(&["BLPOP", "awaited", "0"]).is_empty());
    connection.check(
        "SWAPDB 0 1 => OK
         MULTI => OK
         PING => QUEUED
         EXEC => nil
         GET a => other
         PTTL a => -1",
    );
    assert_eq!(waiter.mail(), b"*2\r\n$7\r\nawaited\r\n$1\r\nx\r\n");
    connection.check(
        "SWAPDB 0 1 => OK
         PTTL a => 1000
         LLEN list => 300
         HLEN hash => 300
         SWAPDB 0 1 => OK
         DBSIZE => 1",
    );
    fixture.advance_ms(6000);
    fixture.layer.expire_due();
    connection.check(
        "SWAPDB 1 0 => OK
         EXISTS a => 0
         HEXISTS hash f7 => 0
         DBSIZE => 4
         FLUSHALL => OK
         DBSIZE => 0
         SWAPDB 1 0 => OK
         DBSIZE => 0",
    );
}

/// A key that is in neither database has not changed.
#[test]
fn a_swap_keeps_watches_of_absent_keys() {
    let fixture = Fixture::new();
    fixture.connect().check(
        "SET b 1 => OK
         WATCH a => OK
         SWAPDB 0 1 => OK
         MULTI => OK
         PING => QUEUED
         EXEC => [PONG]",
    );
}

/// One page: the next cursor and the names.
fn page(connection: &mut Connection, cursor: &str, more: &[&str]) -> (String, Vec<String>) {
    let words = [&["SCAN", cursor], more].concat();
    let Value::Array(parts) = connection.run(&words) else {
        panic!("SCAN answers an array");
    };
    let Value::Array(names) = &parts[1] else {
        panic!("SCAN answers names");
    };
    (show(&parts[0]), names.iter().map(show).collect())
}

#[test]
fn pages_are_small_and_end() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    for number in 0..95 {
        connection.run(&["SET", &format!("key:{number:012}"), "x"]);
    }
    connection.run(&["RPUSH", "list", "x"]);
    let (mut cursor, mut sizes) = ("0".to_string(), Vec::new());
    loop {
        let (next, names) = page(&mut connection, &cursor, &["COUNT", "20"]);
        sizes.push(names.len());
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(sizes, [20, 20, 20, 20, 16]);
    assert_eq!(
        page(&mut connection, "0", &["MATCH", "l*", "COUNT", "1000"]),
        ("0".into(), vec!["list".into()])
    );
    assert_eq!(
        page(&mut connection, "0", &["TYPE", "LIST", "COUNT", "1000"]).1,
        ["list"]
    );
    assert_eq!(
        page(&mut connection, "0", &["MATCH", "list", "WITHTYPE"]).1,
        ["list", "list"]
    );
    connection.run(&["JSON.SET", "object", "$", "{}"]);
    for options in [
        ["MATCH", "o*", "WITHTYPE", "COUNT", "1000"].as_slice(),
        &["TYPE", "json", "WITHTYPE", "COUNT", "1000"],
    ] {
        assert_eq!(page(&mut connection, "0", options).1, ["object", "json"]);
    }
    assert_eq!(
        page(&mut connection, "0", &["TYPE", "ReJSON-RL", "COUNT", "1000"]).1,
        ["object"]
    );
    connection.run(&["DEL", "object"]);
    let huge = i64::MAX.to_string();
    assert_eq!(page(&mut connection, "0", &["COUNT", &huge]).1.len(), 96);
}

/// A cursor says itself where it points: to a server that has never given it, and in a database
/// whose keys have all been replaced meanwhile.
#[test]
fn a_cursor_means_the_same_to_another_server() {
    let (first, second) = (Fixture::new(), Fixture::new());
    let (mut first, mut second) = (first.connect(), second.connect());
    first.check("MSET a 1 b 2 c 3 => OK");
    let (cursor, names) = page(&mut first, "0", &["COUNT", "1"]);
    assert_eq!(names, ["a"]);
    assert!(cursor.parse::<u64>().unwrap() < 1 << 53);
    second.check("MSET a 1 b 2 bb 3 c 4 => OK");
    assert_eq!(
        page(&mut second, &cursor, &[]),
        ("0".into(), vec!["b".into(), "bb".into(), "c".into()])
    );
    for _ in 0..2 {
        assert_eq!(page(&mut first, &cursor, &[]).1, ["b", "c"]);
    }
    first.check("DEL b => 1");
    assert_eq!(page(&mut first, &cursor, &[]).1, ["c"]);
    first.check("SCAN 18446744073709551615 => [0 []]");
}

/// A page of keys that have expired, but still have rows, ends after the usual count: no caller
/// waits for a whole database of them.
#[test]
fn keys_that_have_expired_count_for_a_page() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    for number in 0..100 {
        connection.run(&["SET", &format!("key:{number:04}"), "x", "PX", "5"]);
    }
    fixture.advance_ms(10);
    let (cursor, names) = page(&mut connection, "0", &["COUNT", "10"]);
    assert!(names.is_empty() && cursor != "0", "{cursor} {names:?}");
}

/// Names of every kind: with one long prefix, with one suffix, and short names.
fn name_of(key: u16) -> String {
    match key % 3 {
        0 => format!("shared:{key}"),
        1 => format!("{}{key}:name", "a-long-beginning/".repeat(6)),
        _ => format!("{key:x}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Despite insertions and removals between the pages, a key that stays is returned exactly
    /// once.
    #[test]
    fn scan_never_misses_a_key_that_stays(
        stay in prop::collection::btree_set(0..300u16, 0..80),
        changes in prop::collection::vec((0..300u16, any::<bool>()), 0..200),
        count in 1..20u8,
    ) {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        for key in &stay {
            connection.run(&["SET", &name_of(*key), "x"]);
        }
        let (mut changes, mut cursor, mut seen) = (changes.chunks(7), "0".to_string(), Vec::new());
        loop {
            let (next, names) = page(&mut connection, &cursor, &["COUNT", &count.to_string()]);
            prop_assert!(names.len() <= usize::from(count));
            seen.extend(names);
            cursor = next;
            if cursor == "0" {
                break;
            }
            for (key, is_there) in changes.next().unwrap_or_default().iter().filter(|(key, _)| !stay.contains(key)) {
                let name = name_of(*key);
                connection.run(&if *is_there { vec!["SET", &name, "x"] } else { vec!["DEL", &name] });
            }
        }
        for key in &stay {
            let name = name_of(*key);
            let times = seen.iter().filter(|seen| **seen == name).count();
            prop_assert_eq!(times, 1, "{}", name);
        }
    }
}

#[test]
fn random_keys_are_alive() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check("RANDOMKEY => nil");
    for name in ["a", "b"] {
        connection.run(&["SET", name, "x"]);
    }
    connection.check(&format!("PEXPIREAT a {} => 1", NOW_MS + 10));
    let seen: BTreeSet<String> = (0..100).map(|_| show(&connection.run(&["RANDOMKEY"]))).collect();
    assert_eq!(seen, BTreeSet::from(["a".to_string(), "b".to_string()]));
    fixture.advance_ms(20);
    for _ in 0..20 {
        connection.check("RANDOMKEY => b");
    }
}

#[test]
fn encodings_by_value() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.run(&["SET", "long", &"x".repeat(45)]);
    connection.run(&["SET", "short", &"x".repeat(44)]);
    connection.check(
        "SET number 12 => OK
         RPUSH list a => 1
         OBJECT ENCODING long => raw
         OBJECT ENCODING short => embstr
         OBJECT ENCODING number => int
         SET shared 9999 => OK
         OBJECT REFCOUNT shared => 2147483647
         SET shared 10000 => OK
         OBJECT REFCOUNT shared => 1
         OBJECT ENCODING list => quicklist
         OBJECT ENCODING none => nil
         OBJECT REFCOUNT list => 1
         OBJECT IDLETIME list => 0
         OBJECT FREQ none => nil
         OBJECT NOSUCH list => !ERR unknown subcommand 'NOSUCH'. Try OBJECT HELP.",
    );
    assert!(show(&connection.run(&["OBJECT", "FREQ", "list"])).starts_with(
        "!ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
         between policies at runtime"
    ));
    assert!(show(&connection.run(&["OBJECT", "HELP"])).starts_with("[OBJECT <subcommand>"));
    fixture.advance_ms(3000);
    connection.check("OBJECT IDLETIME list => 3");
}

/// HSET of a field of a large hash left the key's row unchanged, and the hash looked idle: it was
/// evicted before hashes with an older last use.
#[test]
fn a_changed_element_of_a_large_key_is_a_use_of_it() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    let many: Vec<String> = (0..2_000).map(|number| number.to_string()).collect();
    for (command, name, is_pairs) in [("HSET", "h", true), ("ZADD", "z", true), ("RPUSH", "l", false)] {
        for number in &many {
            let words = [command, name, number, "1"];
            connection.run(&words[..if is_pairs { 4 } else { 3 }]);
        }
    }
    for (change, name) in [
        ("HSET h 7 2 => 0", "h"),
        ("HINCRBY h 7 1 => 3", "h"),
        ("ZADD z 5 1 => 0", "z"),
        ("LSET l 7 x => OK", "l"),
    ] {
        fixture.advance_ms(60_000);
        connection.run(&["OBJECT", "IDLETIME", name]);
        connection.check(change);
        connection.check(&format!("OBJECT IDLETIME {name} => 0"));
    }
}

#[test]
fn patterns_match_only_at_valid_starts() {
    let mut connection = Fixture::new().connect();
    connection.run(&["MSET", "user:1", "a", "user:2", "b", "use", "c", "zebra", "d"]);
    assert_eq!(show(&connection.run(&["KEYS", "user:*"])), "[user:1 user:2]");
    assert_eq!(show(&connection.run(&["KEYS", "*e"])), "[use]");
    assert_eq!(show(&connection.run(&["KEYS", "us\\e"])), "[use]");
    assert_eq!(
        show(&connection.run(&["SCAN", "0", "MATCH", "user:*", "COUNT", "100"])),
        "[0 [user:1 user:2]]"
    );
}
