//! Replies compared with those of Redis 8.2.3, sets that are created and removed in every possible
//! way, and the graph compared with an exhaustive search.

use quartet_layer_redis::module_api::Groups;
use quartet_wire_resp::Value;
use serde_json::Value as Json;

use super::key::rows_of;
use super::{Changed, waiting_row};
use crate::kinds::VECTOR_SET;
use crate::state::Search;
use crate::testing::{Choice, Connection, Fixture, dumped, found, plant, restore, search_fixture, show};

fn check(script: &str) {
    search_fixture().connect().check(script);
}

fn words<'w>(line: &'w Json, name: &str) -> Vec<&'w str> {
    let words = line[name].as_array().unwrap().iter();
    words.map(|word| word.as_str().unwrap()).collect()
}

/// Numbers may differ in their last digits.
fn are_alike(first: &str, other: &str) -> bool {
    let parts = |text: &str| {
        let is_mark = |letter: char| " []{},:".contains(letter);
        text.split(is_mark).map(str::to_owned).collect::<Vec<_>>()
    };
    let (first, other) = (parts(first), parts(other));
    let is_same = |(first, other): (&String, &String)| {
        let numbers = first.parse::<f64>().ok().zip(other.parse::<f64>().ok());
        first == other || numbers.is_some_and(|(a, b)| (a - b).abs() <= 1e-6 * a.abs().max(1.0))
    };
    first.len() == other.len() && first.iter().zip(&other).all(is_same)
}

fn recording() -> Vec<Json> {
    let recording = include_str!("../../../testdata/vector_sets.jsonl");
    recording
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn replies_are_those_of_the_original() {
    let fixture = search_fixture();
    let mut connections = [("resp2", fixture.connect()), ("resp3", fixture.connect())];
    connections[1].1.run(&["HELLO", "3"]);
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in recording().iter().filter(|line| line["command"].is_array()) {
        let words = words(line, "command");
        for (protocol, connection) in &mut connections {
            let Some(expected) = line[*protocol].as_str() else {
                continue;
            };
            let reply = show(&connection.run(&words));
            if words[0] == "VSIM" {
                assert_eq!(show(&connection.run_long(&words)), reply, "{words:?}");
            }
            if !are_alike(&reply, expected) {
                wrong.push(format!(
                    "{protocol} {}\n  expected {expected}\n  found    {reply}",
                    words.join(" ")
                ));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 200);
}

/// The original's dumps are read, and written alike except the version of RDB, its checksum and the
/// compression of strings.
#[test]
fn dumps_of_the_original_are_read_and_written() {
    let mut connection = search_fixture().connect();
    let mut count = 0;
    for line in recording().iter().filter(|line| line["dump"].is_string()) {
        let digits = line["payload"].as_str().unwrap();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let payload: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        let name = line["dump"].as_str().unwrap();
        assert_eq!(restore(&mut connection, name, &payload), "OK");
        let again = dumped(&mut connection, name);
        assert_eq!(restore(&mut connection, "again", &again), "OK");
        assert_eq!(dumped(&mut connection, "again"), again);
        connection.check("DEL again => 1");
        // The matrix of this dump is compressed, which two programs do differently.
        assert!(name == "r" || again.len() == payload.len(), "{name}");
        count += 1;
    }
    assert_eq!(count, 5);
    connection.check(
        "VEMB v a RAW => [int8 *U\u{7f} 3.7416574954986572 0.8017836809158325]
         VGETATTR v b => {\"y\":1}
         VSIM v ELE a => [a b]
         VADD v VALUES 3 1 1 1 new => 1
         VSIM r VALUES 3 1 1 1 COUNT 1 => [a]
         VCARD bin => 2",
    );
}

#[test]
fn a_damaged_set_is_refused() {
    let mut connection = search_fixture().connect();
    connection.check("VADD v VALUES 2 1 2 a => 1\nVADD v VALUES 2 2 1 b => 1\nVADD v VALUES 2 2 2 c => 1");
    let payload = dumped(&mut connection, "v");
    let body = &payload[..payload.len() - 10];
    for at in 0..body.len() {
        for bit in [1, 8, 0x40] {
            let mut damaged = body.to_vec();
            damaged[at] ^= bit;
            let reply = restore(&mut connection, "w", &quartet_wire_rdb::seal(damaged));
            if reply == "OK" {
                connection.run(&["VSIM", "w", "VALUES", "2", "1", "1"]);
                connection.run(&["VADD", "w", "VALUES", "2", "1", "1", "x"]);
                connection.run(&["DEL", "w"]);
            }
        }
    }
}

/// Memory is not taken by the numbers that a set says its elements have, and numbers do not run
/// out.
#[test]
fn a_restored_set_may_have_great_numbers() {
    let mut connection = search_fixture().connect();
    connection.check("VADD v VALUES 2 1 2 a => 1");
    let Ok(quartet_wire_rdb::value::Value::VectorSet(mut set)) =
        quartet_wire_rdb::value::restore(&dumped(&mut connection, "v"))
    else {
        panic!("no vector set");
    };
    for (id, is_taken) in [(1 << 56, true), ((1 << 56) + 1, false), (u64::MAX - 1, false)] {
        set.elements[0].id = id;
        let payload = quartet_wire_rdb::value::dump(&quartet_wire_rdb::value::Value::VectorSet(set.clone()));
        assert_eq!(
            restore(&mut connection, &format!("w{id}"), &payload) == "OK",
            is_taken,
            "{id}"
        );
    }
    connection.check(
        "VSIM w72057594037927936 VALUES 2 1 2 => [a]
         VADD w72057594037927936 VALUES 2 2 1 b => 1
         VREM w72057594037927936 a => 1
         VSIM w72057594037927936 VALUES 2 1 2 => [b]",
    );
}

#[test]
fn sets_are_keys_like_others() {
    check(
        "VADD v VALUES 2 1 0 a SETATTR {\"n\":1} => 1
         VADD v VALUES 2 0 1 b => 1
         TYPE v => vectorset
         SCAN 0 TYPE vectorset => [0 [v]]
         SCAN 0 TYPE hash => [0 []]
         OBJECT ENCODING v => raw
         COPY v w => 1
         VREM v a => 1
         VCARD v => 1
         VSIM w ELE b WITHATTRIBS => [b nil a {\"n\":1}]
         RENAME w x => OK
         VADD x VALUES 2 1 1 c => 1
         VCARD x => 3
         EXPIRE x 100 => 1
         VADD x VALUES 2 1 2 d => 1
         TTL x => 100
         SORT x => !WRONGTYPE Operation against a key holding the wrong kind of value
         LPUSH x 1 => !WRONGTYPE Operation against a key holding the wrong kind of value
         SET x 1 => OK
         VCARD x => !WRONGTYPE Operation against a key holding the wrong kind of value
         VREM v b => 1
         EXISTS v => 0
         MEMORY USAGE v => nil",
    );
    let mut connection = search_fixture().connect();
    for at in 0..100 {
        let (x, y) = (at.to_string(), (100 - at).to_string());
        connection.run(&["VADD", "v", "VALUES", "2", &x, &y, &format!("element:{at}")]);
    }
    let Value::Integer(bytes) = connection.run(&["MEMORY", "USAGE", "v"]) else {
        panic!("no number");
    };
    assert!((10_000..100_000).contains(&bytes), "{bytes}");
}

#[test]
fn ranges_are_in_the_order_of_names() {
    check(
        "VADD v VALUES 1 1 b => 1
         VADD v VALUES 1 1 a => 1
         VADD v VALUES 1 1 ab => 1
         VADD v VALUES 1 1 c => 1
         VRANGE v - + => [a ab b c]
         VRANGE v - + 2 => [a ab]
         VRANGE v - + 0 => []
         VRANGE v - + -1 => [a ab b c]
         VRANGE v [a (b => [a ab]
         VRANGE v (a [b => [ab b]
         VRANGE v [c [a => []
         VRANGE v [b [b 10 => [b]
         VRANGE nokey - + => []
         VRANGE v + - => !ERR '-' can only be used as first argument, '+' only as second
         VRANGE v a b => !ERR invalid range: use - and +, or names behind [ or (
         VRANGE v - + x => !ERR value is not an integer or out of range
         VRANGE v - => !ERR wrong number of arguments for 'VRANGE' command",
    );
}

#[test]
fn numbers_without_bounds_are_refused_or_harmless() {
    let mut connection = search_fixture().connect();
    connection.check(
        "VADD v VALUES 2 1 2 a SETATTR {\"n\":1} => 1
         VADD v VALUES 2 1 inf b => !ERR invalid vector specification
         VADD v VALUES 2 1e30 1e30 b => !ERR invalid vector specification
         VADD v VALUES 9223372036854775807 1 b => !ERR invalid vector specification
         VADD v VALUES -1 1 b => !ERR invalid vector specification
         VADD v VALUES 65537 1 b => !ERR invalid vector specification
         VADD w REDUCE 9223372036854775807 VALUES 1 1 b => !ERR invalid vector specification
         VADD w REDUCE 65537 VALUES 1 1 b => !ERR invalid vector specification
         VSIM v VALUES 2 inf 1 => !ERR invalid vector specification
         VSIM v ELE a COUNT 9223372036854775807 => [a]
         VSIM v ELE a EF 9223372036854775807 => [a]
         VSIM v ELE a FILTER .n==1 COUNT 9223372036854775807 FILTER-EF 9223372036854775807 => [a]
         VRANDMEMBER v -9223372036854775808 => !ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
         VRANDMEMBER v 9223372036854775807 => [a]
         VCARD v => 1
         EXISTS w => 0",
    );
    let long = "x".repeat(65_001);
    let reply = connection.run(&["VADD", "v", "VALUES", "2", "1", "1", &long]);
    assert_eq!(show(&reply), "!ERR element exceeds the maximum size of 65000 bytes");
    let mut filtered = |filter: &str| show(&connection.run(&["VSIM", "v", "ELE", "a", "FILTER", filter]));
    assert!(filtered(&"(".repeat(10_000)).starts_with("!ERR syntax error in FILTER expression near: "));
    assert_eq!(
        filtered(&"(".repeat(200_000)),
        "!ERR FILTER expression is longer than 65536 bytes"
    );
}

#[test]
fn transactions_and_scripts_see_their_own_writes() {
    check(
        "MULTI => OK
         VADD v VALUES 2 1 0 a CAS => QUEUED
         VADD v VALUES 2 0 1 b => QUEUED
         VSIM v VALUES 2 1 0 COUNT 1 => QUEUED
         EXEC => [1 1 [a]]
         WATCH v => OK
         VSETATTR v a {} => 1
         MULTI => OK
         VREM v a => QUEUED
         EXEC => nil
         VCARD v => 2",
    );
    let mut connection = search_fixture().connect();
    let script = "redis.call('VADD', KEYS[1], 'VALUES', 2, 1, 0, 'a') return redis.call('VSIM', KEYS[1], 'ELE', 'a')";
    assert_eq!(show(&connection.run(&["EVAL", script, "1", "v"])), "[a]");
}

/// Only that a key is new is announced, as at the original.
#[test]
fn no_events_but_new_keys() {
    let fixture = search_fixture();
    let mut listener = fixture.connect();
    listener.run(&["PSUBSCRIBE", "__keyevent*"]);
    let mut connection = fixture.connect();
    connection.check(
        "CONFIG SET notify-keyspace-events KEAn => OK
         VADD v VALUES 1 1 a => 1
         VADD v VALUES 1 2 a => 0
         VSETATTR v a {} => 1
         VREM v a => 1
         SET s 1 => OK",
    );
    let mail = String::from_utf8(listener.mail()).unwrap();
    assert_eq!(mail.matches("__keyevent@0__:").count(), 3, "{mail}");
    assert!(mail.contains(":new") && mail.contains(":set"));
}

#[test]
fn the_graph_is_compared_with_all_vectors() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    let component = |at: usize, axis: usize| ((at * 37 + axis * 101 + at * axis * 13) % 97) as f32 - 48.0;
    for at in 0..300 {
        let mut words: Vec<String> = ["VADD", "v", "VALUES", "8"].map(Into::into).into();
        words.extend((0..8).map(|axis| component(at, axis).to_string()));
        words.push(format!("e{at}"));
        connection.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let mut right = 0;
    for at in 0..50 {
        let name = format!("e{}", at * 6);
        let mut elements = |words: &[&str]| match connection.run(&[&["VSIM", "v", "ELE", &name], words].concat()) {
            Value::Array(names) => names.iter().map(show).collect::<std::collections::BTreeSet<_>>(),
            other => panic!("{other:?}"),
        };
        right += elements(&[]).intersection(&elements(&["TRUTH"])).count();
    }
    assert!(right >= 475, "{right} of 500");
}

/// Chooses vectors and commands.
trait VectorChoices {
    fn numbers(&mut self) -> String;
    fn command(&mut self) -> String;
}

impl VectorChoices for Choice {
    fn numbers(&mut self) -> String {
        let numbers: Vec<String> = (0..4).map(|_| (self.below(2001) as f32 - 1000.0).to_string()).collect();
        format!("VALUES 4 {}", numbers.join(" "))
    }

    /// A command on one of a few sets.
    fn command(&mut self) -> String {
        let (name, element) = (format!("s{}", self.below(3)), format!("e{}", self.below(400)));
        let numbers = self.numbers();
        match self.below(40) {
            0..20 => format!("VADD {name} {numbers} {element} NOQUANT EF 40"),
            20..24 => format!("VREM {name} {element}"),
            24..26 => format!("VSETATTR {name} {element} {{}}"),
            26 => format!("RENAME {name} s{}", self.below(3)),
            27 => format!("COPY {name} s{} REPLACE", self.below(3)),
            28 => format!("PEXPIRE {name} {}", 1 + self.below(400)),
            29 if self.below(10) == 0 => format!("DEL {name}"),
            30..32 => format!("VLINKS {name} {element} WITHSCORES"),
            32..34 => format!("VSIM {name} ELE {element} WITHSCORES TRUTH"),
            34 => format!("VSIM {name} {numbers} WITHSCORES EF 5000"),
            _ => format!("VSIM {name} {numbers} WITHSCORES"),
        }
    }
}

fn run(connection: &mut Connection, command: &str, is_long: bool) -> String {
    let words: Vec<&str> = command.split(' ').collect();
    show(&match is_long {
        true => connection.run_long(&words),
        false => connection.run(&words),
    })
}

/// Makes a set in which elements wait.
fn fill(connection: &mut Connection, name: &str) {
    let mut choice = Choice(99);
    for at in 0..300 {
        let numbers = choice.numbers();
        run(connection, &format!("VADD {name} {numbers} e{at} NOQUANT EF 40"), false);
    }
}

/// Every command handles elements that are not linked yet, and elements that are linked later.
#[test]
fn waiting_elements_are_visible() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    fill(&mut connection, "v");
    let wait = |fixture: &Fixture, name: &str| {
        let mut partition = fixture.layer.partition_in_time().unwrap();
        let (waits, _) = partition
            .execute(fixture.layer.space, |tx| -> Result<bool, ()> {
                let entry = fixture.layer.keyspace(tx, 0, 0).find(name.as_bytes()).unwrap();
                let rows = &mut rows_of(&entry.elements(), tx);
                Ok(quartet_search::vectors::set::linking::has_waiting(rows))
            })
            .unwrap();
        waits
    };
    connection.check(
        "VCARD v => 300
         VISMEMBER v e299 => 1
         VSETATTR v e299 {\"n\":1} => 1
         VGETATTR v e299 => {\"n\":1}
         VSIM v ELE e299 COUNT 1 => [e299]
         VSIM v ELE e299 COUNT 1 TRUTH => [e299]
         VSIM v ELE e299 COUNT 2 EPSILON 0.00001 => [e299]
         VSIM v ELE e0 FILTER .n==1 => [e299]
         VSIM v ELE e299 COUNT 1 WITHATTRIBS => [e299 {\"n\":1}]
         VADD v VALUES 4 1 1 1 1 e298 NOQUANT EF 40 => 0
         VSIM v VALUES 4 1 1 1 1 COUNT 1 => [e298]
         VREM v e297 => 1
         VREM v e297 => 0
         VSIM v ELE e297 => !ERR element not found in set
         VRANGE v [e299 + => [e299 e3 e30 e31 e32 e33 e34 e35 e36 e37 e38 e39 e4 e40 e41 e42 e43 e44 e45 e46 e47 e48 e49 e5 e50 e51 e52 e53 e54 e55 e56 e57 e58 e59 e6 e60 e61 e62 e63 e64 e65 e66 e67 e68 e69 e7 e70 e71 e72 e73 e74 e75 e76 e77 e78 e79 e8 e80 e81 e82 e83 e84 e85 e86 e87 e88 e89 e9 e90 e91 e92 e93 e94 e95 e96 e97 e98 e99]
         COPY v w => 1
         RENAME w x => OK
         MOVE x 3 => 1
         SELECT 3 => OK
         VCARD x => 299
         MOVE x 0 => 1
         SELECT 0 => OK
         COPY v gone => 1
         DEL gone => 1
         PEXPIRE v 100000 => 1
         WATCH v => OK",
    );
    let replies = |connection: &mut Connection, name: &str| {
        let run = |connection: &mut Connection, words: &str| run(connection, words, true);
        let numbers = "VALUES 4 1 2 3 4";
        [
            run(connection, &format!("VINFO {name}")).replace(char::is_numeric, ""),
            run(connection, &format!("VRANGE {name} - +")),
            run(
                connection,
                &format!("VSIM {name} {numbers} WITHSCORES WITHATTRIBS TRUTH"),
            ),
            run(connection, &format!("VEMB {name} e299")),
        ]
    };
    let before = replies(&mut connection, "v");
    assert_eq!(replies(&mut connection, "x"), before);
    let links = show(&connection.run(&["VLINKS", "v", "e299"]));
    assert!(links.matches('e').count() >= 4, "{links}");
    let payload = dumped(&mut connection, "v");
    assert!(wait(&fixture, "v") && wait(&fixture, "x"));
    assert_eq!(found(&fixture), Vec::<String>::new());
    fixture.finish_work();
    assert!(!wait(&fixture, "v") && !wait(&fixture, "x"));
    assert_eq!(found(&fixture), Vec::<String>::new());
    assert_eq!(replies(&mut connection, "v"), before);
    assert_eq!(replies(&mut connection, "x"), before);
    assert_eq!(dumped(&mut connection, "v"), payload);
    assert_eq!(restore(&mut connection, "y", &payload), "OK");
    assert_eq!(replies(&mut connection, "y"), before);
    // Linking is no change of the key.
    connection.check(
        "MULTI => OK
         VCARD v => QUEUED
         EXEC => [299]
         FLUSHALL => OK
         EXISTS v => 0",
    );
    fixture.finish_work();
    assert_eq!(found(&fixture), Vec::<String>::new());
}

/// A small set links its elements before VADD answers, also once it has become small.
#[test]
fn a_small_set_links_at_once() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    fill(&mut connection, "v");
    for at in 0..200 {
        run(&mut connection, &format!("VREM v e{at}"), false);
    }
    fixture.finish_work();
    connection.check("VADD v VALUES 4 1 1 1 1 new NOQUANT => 1\nVCARD v => 101");
    let links = show(&connection.run(&["VLINKS", "v", "new"]));
    let other = links
        .replace(['[', ']'], "")
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();
    let back = show(&connection.run(&["VLINKS", "v", &other]));
    assert!(back.contains("new"), "{links} {back}");
}

/// Adds an element in a transaction that is rolled back, with searches in it.
fn add_in_vain(fixture: &Fixture, name: &str, element: &str) {
    let layer = &fixture.layer;
    let mut partition = layer.partition_in_time().unwrap();
    let now_ms = partition.now_micros() / 1000;
    let taken_back = partition.execute(layer.space, |tx| -> Result<(), ()> {
        let keys = &mut layer.keyspace(tx, 0, now_ms);
        if let Some(entry) = keys.find(name.as_bytes()).filter(|entry| entry.kind == VECTOR_SET) {
            let vector = [1.0, 2.0, 3.0, 4.0];
            Changed::of(name.as_bytes(), entry, keys.tx).change(Groups::of(layer), keys, |rows, head| {
                quartet_search::vectors::set::add(rows, head, element.as_bytes(), &vector, None, 100)
            });
        }
        Err(())
    });
    assert!(taken_back.is_err());
    layer.changes.take();
    layer.roll_modules_back();
}

/// The same commands with cached rows and without: in transactions and scripts, some of them rolled
/// back, with deadlines that pass, on other threads, and at states that no client sees again.
#[test]
fn cached_rows_change_no_answer() {
    for seed in 0..6 {
        let fixtures = [search_fixture(), search_fixture()];
        let mut connections = fixtures.each_ref().map(Fixture::connect);
        let mut choice = Choice(seed);
        if seed % 2 == 1 {
            connections.iter_mut().for_each(|connection| fill(connection, "s0"));
        }
        for _ in 0..600 {
            let (kind, is_long) = (choice.below(20), choice.below(4) == 0);
            let commands: Vec<String> = (0..1 + choice.below(4)).map(|_| choice.command()).collect();
            let script = commands.join(" ");
            let replies = [0, 1].map(|side| {
                let (fixture, connection) = (&fixtures[side], &mut connections[side]);
                let mut answer = |command: &str| {
                    let reply = run(connection, command, is_long);
                    if side == 1 {
                        Search::of(&fixture.layer).indexes.resident_sets.forget();
                    }
                    reply
                };
                match kind {
                    0..3 => {
                        answer("MULTI");
                        commands.iter().for_each(|command| _ = answer(command));
                        answer(if kind == 0 { "DISCARD" } else { "EXEC" })
                    }
                    3..6 => {
                        let words = commands[0].replace(' ', "','");
                        answer(&format!(
                            "EVAL return{{redis.pcall('{words}'),redis.pcall('{words}')}} 0"
                        ))
                    }
                    6..8 => {
                        add_in_vain(fixture, "s0", "in-vain");
                        answer(&commands[0])
                    }
                    8 => {
                        fixture.advance_ms(50);
                        fixture.layer.expire_due();
                        String::new()
                    }
                    9 => {
                        while fixture.layer.work_of_modules().is_some() {}
                        String::new()
                    }
                    _ => commands.iter().map(|command| answer(command)).collect(),
                }
            });
            assert_eq!(replies[0], replies[1], "seed {seed}: {script}");
        }
        let mut sums = connections.map(|mut connection| show(&connection.run(&["DEBUG", "DIGEST"])));
        sums.sort();
        assert_eq!(sums[0], sums[1], "seed {seed}");
        for fixture in fixtures {
            assert_eq!(found(&fixture), Vec::<String>::new(), "seed {seed}");
        }
    }
}

/// A transaction that is too large keeps its key's row and some of its elements'. Nothing of it
/// stays, though the version of its rows is given again.
#[test]
fn rows_of_a_transaction_in_vain_are_not_kept() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    for at in 0..50 {
        run(&mut connection, &format!("VADD v VALUES 2 1 {at} e{at}"), false);
    }
    let before = run(&mut connection, "VSIM v VALUES 2 1 7 WITHSCORES", false);
    let layer = &fixture.layer;
    let mut partition = layer.partition_in_time().unwrap();
    let taken_back = partition.execute(layer.space, |tx| -> Result<(), ()> {
        let now_ms = tx.now_micros() / 1000;
        let keys = &mut layer.keyspace(tx, 0, now_ms);
        let entry = keys.find(b"v").unwrap();
        let head = super::head(&entry).unwrap();
        let rows = &mut rows_of(&entry.elements(), keys.tx);
        quartet_search::vectors::set::add(rows, &mut head.clone(), b"e7", &[-1.0, 0.0], None, 100);
        let resident = Search::of(layer)
            .indexes
            .resident_sets
            .of_state(entry.elements().id(), entry.row(), &head);
        let rows = &mut crate::indexes::SetRows::new(rows_of(&entry.elements(), keys.tx), resident);
        (0..60).for_each(|id| _ = quartet_search::rows::Rows::get(rows, &quartet_search::rows::numbered(b'l', id)));
        Err(())
    });
    assert!(taken_back.is_err());
    drop(partition);
    assert_eq!(run(&mut connection, "VSIM v VALUES 2 1 7 WITHSCORES", false), before);
    connection.check("VREM v e7 => 1\nVCARD v => 49");
}

/// In a cluster another node may have been home, and have let elements wait.
#[test]
fn sets_that_another_home_let_wait_are_looked_at() {
    let fixture = search_fixture();
    fixture.connect().check("VADD s VALUES 2 1 0 a => 1");
    let id = [7; 10];
    while fixture.layer.work_of_modules().is_some() {}
    plant(&fixture, |tx| drop(tx.set(&waiting_row(&id), b"")));
    while fixture.layer.work_of_modules().is_some() {}
    let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
    assert_eq!(reader.get(&waiting_row(&id)), None);
}
