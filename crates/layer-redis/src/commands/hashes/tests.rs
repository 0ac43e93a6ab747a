//! Replies of the hash commands, by scripts and against a simple model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use quartet_wire_resp::Value;

use super::encoding;
use crate::keyspace::Keyspace;
use crate::testing::{Connection, Fixture, show};

#[test]
fn fields_and_values() {
    Fixture::new().connect().check(
        "HSET h a 1 b 2 a 3 => 2
         HGET h a => 3
         HSET h c x a 1 => 1
         HMSET h d 4 => OK
         HGETALL h => [a 1 b 2 c x d 4]
         HKEYS h => [a b c d]
         HVALS h => [1 2 x 4]
         HMGET h a nosuch d => [1 nil 4]
         HMGET nosuch a b => [nil nil]
         HEXISTS h a => 1
         HEXISTS h z => 0
         HSTRLEN h a => 1
         HSTRLEN nosuch a => 0
         HSETNX h a 9 => 0
         HSETNX h e 9 => 1
         HLEN h => 5
         HDEL h a a z => 1
         HDEL h b c d e => 4
         HEXISTS h a => 0
         HLEN h => 0
         HDEL h a => 0
         HGETALL h => []
         HKEYS h => []
         HGET h a => nil
         HSET h a => !ERR wrong number of arguments for 'hset' command
         HMSET h a 1 b => !ERR wrong number of arguments for 'hmset' command
         SET s 1 => OK
         HGET s a => !WRONGTYPE Operation against a key holding the wrong kind of value
         HSET s a 1 => !WRONGTYPE Operation against a key holding the wrong kind of value
         HGETALL s => !WRONGTYPE Operation against a key holding the wrong kind of value
         HEXPIRE s 1 FIELDS 1 a => !WRONGTYPE Operation against a key holding the wrong kind of value",
    );
}

#[test]
fn increments() {
    Fixture::new().connect().check(
        "HINCRBY h n 5 => 5
         HINCRBY h n -7 => -2
         HSET h n 9223372036854775807 => 0
         HINCRBY h n 1 => !ERR increment or decrement would overflow
         HINCRBY h n -9223372036854775808 => -1
         HINCRBY h n -9223372036854775808 => !ERR increment or decrement would overflow
         HINCRBY h n 1.5 => !ERR value is not an integer or out of range
         HSET h t text => 1
         HINCRBY h t 1 => !ERR hash value is not an integer
         HINCRBYFLOAT h t 1 => !ERR hash value is not a float
         HINCRBYFLOAT h f 0.1 => 0.1
         HINCRBYFLOAT h f 0.2 => 0.3
         HINCRBYFLOAT h f 5e3 => 5000.29999999999999982
         HINCRBYFLOAT h f x => !ERR value is not a valid float
         HINCRBYFLOAT h f +inf => !ERR value is NaN or Infinity
         HINCRBYFLOAT h f nan => !ERR value is not a valid float
         HSET h g 1e4932 i inf w 17179869184 => 3
         HINCRBYFLOAT h g 1e4932 => !ERR increment would produce NaN or Infinity
         HINCRBYFLOAT h i 1 => !ERR increment would produce NaN or Infinity
         HINCRBYFLOAT h w 1.5 => 17179869185.5
         HINCRBYFLOAT h w -1e-17 => 17179869185.5

         HSET h g 1e20 => 0
         HINCRBYFLOAT h g 1e20 => 200000000000000000000
         SET s x => OK
         HINCRBYFLOAT s g 1e400 => !WRONGTYPE Operation against a key holding the wrong kind of value
         HINCRBYFLOAT s g 1e5000 => !ERR value is not a valid float",
    );
}

#[test]
fn random_fields() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check(
        "HRANDFIELD h => nil
         HRANDFIELD h 5 => []
         HSET h a 1 => 1
         HRANDFIELD h => a
         HRANDFIELD h 5 => [a]
         HRANDFIELD h 0 => []
         HRANDFIELD h -3 => [a a a]
         HRANDFIELD h -2 WITHVALUES => [a 1 a 1]
         HRANDFIELD h 9223372036854775807 => [a]
         HRANDFIELD h 1 NOVALUES => !ERR syntax error
         HRANDFIELD h 1 WITHVALUES x => !ERR syntax error
         HRANDFIELD h x => !ERR value is not an integer or out of range
         HRANDFIELD h -9223372036854775808 => !ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
         HRANDFIELD h -9223372036854775807 WITHVALUES => !ERR value is out of range
         HRANDFIELD h 9223372036854775807 WITHVALUES => !ERR value is out of range
         HRANDFIELD h -9223372036854775807 => !ERR value is out of range",
    );
    fill(&mut connection, "big", 300);
    let Value::Array(picked) = connection.run(&["HRANDFIELD", "big", "250"]) else {
        panic!("not an array");
    };
    assert_eq!(picked.iter().map(show).collect::<BTreeSet<_>>().len(), 250);
}

#[test]
fn maps_and_pairs_in_resp3() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.run(&["HSET", "h", "a", "1"]);
    connection.session.speak_resp3();
    assert_eq!(connection.bytes(&["HGETALL", "h"]), b"%1\r\n$1\r\na\r\n$1\r\n1\r\n");
    let pairs = connection.bytes(&["HRANDFIELD", "h", "1", "WITHVALUES"]);
    assert_eq!(pairs, b"*1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    assert_eq!(connection.bytes(&["HGETALL", "none"]), b"%0\r\n");
    assert_eq!(connection.bytes(&["HGET", "none", "a"]), b"_\r\n");
}

#[test]
fn scanning() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check(
        "HSET h a 1 b 2 => 2
         HSCAN h 0 => [0 [a 1 b 2]]
         HSCAN h 0 NOVALUES => [0 [a b]]
         HSCAN h 0 MATCH b* COUNT 1 => [0 [b 2]]
         HSCAN nosuch 0 => [0 []]
         HSCAN h x => !ERR invalid cursor
         HSCAN h 18446744073709551615 => [0 [a 1 b 2]]
         HSCAN h 0 COUNT 0 => !ERR syntax error
         HSCAN h 0 TYPE hash => !ERR syntax error",
    );
    fill(&mut connection, "big", 500);
    connection.check("HSCAN big 18446744073709551615 => [0 []]");
    let mut seen = BTreeSet::new();
    let mut cursor = "0".to_owned();
    let mut round = 0;
    loop {
        let Value::Array(page) = connection.run(&["HSCAN", "big", &cursor, "NOVALUES", "COUNT", "7"]) else {
            panic!("not a page");
        };
        let Value::Array(fields) = &page[1] else {
            panic!("no fields")
        };
        assert!(
            fields.iter().all(|field| seen.insert(show(field))),
            "a field came twice"
        );
        cursor = show(&page[0]);
        assert!(cursor.parse::<u64>().unwrap() < 1 << 53, "a 64-bit float holds it");
        // Concurrent writes: new fields are added, and only those are deleted.
        connection.run(&["HSET", "big", &format!("new{round}"), "x"]);
        connection.run(&["HDEL", "big", &format!("new{}", round - 3)]);
        round += 1;
        if cursor == "0" {
            break;
        }
    }
    assert!((0..500).all(|index| seen.contains(&format!("field{index}"))));
}

#[test]
fn deadlines_of_fields() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check(
        "HSET h a 1 b 2 c 3 => 3
         HEXPIRE h 10 FIELDS 3 a b nosuch => [1 1 -2]
         HEXPIRE nosuch 10 FIELDS 2 a b => [-2 -2]
         HTTL h FIELDS 3 a c nosuch => [10 -1 -2]
         HPTTL h FIELDS 1 a => [10000]
         HEXPIRETIME h FIELDS 1 a => [1700000010]
         HPEXPIRETIME h FIELDS 1 a => [1700000010000]
         HEXPIRE h 20 NX FIELDS 2 a c => [0 1]
         HEXPIRE h 5 GT FIELDS 1 a => [0]
         HEXPIRE h 15 GT FIELDS 1 a => [1]
         HEXPIRE h 30 LT FIELDS 1 a => [0]
         HPERSIST h FIELDS 3 c c x => [1 -1 -2]
         HEXPIRE h 30 GT FIELDS 1 c => [0]
         HEXPIRE h 30 XX FIELDS 1 c => [0]
         HEXPIRE h 30 LT FIELDS 1 c => [1]
         HSET h c 4 => 0
         HTTL h FIELDS 1 c => [-1]
         HPEXPIRE h 1500 FIELDS 1 c => [1]
         HTTL h FIELDS 1 c => [2]
         HINCRBY h c 1 => 5
         HPTTL h FIELDS 1 c => [1500]
         HEXPIREAT h 1 FIELDS 1 c => [2]
         HPEXPIREAT h 1700000000500 FIELDS 2 b b => [1 1]
         HLEN h => 2",
    );
    fixture.advance_ms(500);
    connection.check(
        "HGET h b => nil
         HGETALL h => [a 1]
         HEXISTS h b => 0
         HLEN h => 1
         HSETNX h b new => 1
         HTTL h FIELDS 1 b => [-1]
         HDEL h a b => 2
         HLEN h => 0",
    );
    connection.check(
        "HEXPIRE h -1 FIELDS 1 a => !ERR invalid expire time, must be >= 0
         HEXPIRE h 9223372036854775807 FIELDS 1 a => !ERR invalid expire time in 'hexpire' command
         HPEXPIRE h 9223372036854775807 FIELDS 1 a => !ERR invalid expire time in 'hpexpire' command
         HEXPIRE h x FIELDS 1 a => !ERR value is not an integer or out of range
         HEXPIRE h 1 FIELDS 0 a => !ERR Parameter `numFields` should be greater than 0
         HEXPIRE h 1 FIELDS 2 a => !ERR The `numfields` parameter must match the number of arguments
         HEXPIRE h 1 NX XX 1 a => !ERR Mandatory argument FIELDS is missing or not at the right position
         HTTL h FIELDS 0 a => !ERR Number of fields must be a positive integer
         HPERSIST h FIELDS 2 a => !ERR The `numfields` parameter must match the number of arguments",
    );
}

#[test]
fn reading_and_changing_deadlines() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check(
        "HSETEX h EX 10 FIELDS 2 a 1 b 2 => 1
         HTTL h FIELDS 2 a b => [10 10]
         HSETEX h FNX FIELDS 2 c 1 a 2 => 0
         HSETEX h FXX KEEPTTL FIELDS 1 a 3 => 1
         HTTL h FIELDS 1 a => [10]
         HSETEX h FXX FIELDS 1 a 4 => 1
         HTTL h FIELDS 1 a => [-1]
         HGETEX h PX 500 FIELDS 2 a nosuch => [4 nil]
         HPTTL h FIELDS 1 a => [500]
         HGETEX h PERSIST FIELDS 1 a => [4]
         HTTL h FIELDS 1 a => [-1]
         HGETEX h FIELDS 1 b => [2]
         HGETDEL h FIELDS 3 b b x => [2 nil nil]
         HGETEX h EXAT 1 FIELDS 1 a => [4]
         HLEN h => 0
         HSETEX h PXAT 1 FIELDS 1 a 1 => 1
         HLEN h => 0
         HGETDEL h FIELDS 1 a => [nil]
         HGETEX h EX 1 PX 1 FIELDS 1 a => !ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified
         HSETEX h FNX FXX FIELDS 1 a 1 => !ERR Only one of FXX or FNX arguments can be specified
         HSETEX h FIELDS 2 a 1 => !ERR The `numfields` parameter must match the number of arguments
         HSETEX h FIELDS 2 a 1 b => !ERR The `numfields` parameter must match the number of arguments
         HSETEX h PERSIST FIELDS 1 a 1 => !ERR unknown argument: PERSIST
         HGETEX h EX 1 x y => !ERR unknown argument: x",
    );
    fixture.advance_ms(1);
}

#[test]
fn the_encoding_is_that_of_redis() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.run(&["HSET", "h", "a", &"x".repeat(64)]);
    assert_eq!(encoding_of(&fixture, "h"), "listpack");
    connection.run(&["HEXPIRE", "h", "9", "FIELDS", "1", "a"]);
    assert_eq!(encoding_of(&fixture, "h"), "listpackex");
    connection.run(&["HSET", "h", "a", &"x".repeat(65)]);
    connection.run(&["HSET", "h", "a", "short"]);
    assert_eq!(encoding_of(&fixture, "h"), "hashtable");
    fill(&mut connection, "big", 512);
    assert_eq!(encoding_of(&fixture, "big"), "listpack");
    connection.run(&["HSET", "big", "one more", "x"]);
    connection.run(&["HDEL", "big", "one more"]);
    assert_eq!(encoding_of(&fixture, "big"), "hashtable");
}

#[test]
fn a_watched_large_hash_notices_its_fields() {
    let fixture = Fixture::new();
    let (mut a, mut b) = (fixture.connect(), fixture.connect());
    fill(&mut a, "h", 300);
    for (command, expected) in [
        (vec!["HSET", "h", "field1", "changed"], "nil"),
        (vec!["HEXPIRE", "h", "100", "FIELDS", "1", "field1"], "nil"),
        (vec!["HPERSIST", "h", "FIELDS", "1", "field1"], "nil"),
        (vec!["HDEL", "h", "nosuch"], "[300]"),
        (vec!["HDEL", "h", "field1"], "nil"),
        (vec!["HGETDEL", "h", "FIELDS", "1", "field1"], "[299]"),
        (vec!["HGETDEL", "h", "FIELDS", "1", "field2"], "nil"),
    ] {
        a.check("WATCH h => OK");
        b.run(&command);
        a.check("MULTI => OK\nHLEN h => QUEUED");
        assert_eq!(show(&a.run(&["EXEC"])), expected, "{command:?}");
    }
}

/// HGETDEL looked each field up by itself and then removed all in the order of their rows: half of
/// 400,000 took four times the original's time. Now the removal finds the values.
#[test]
fn fields_of_a_large_hash_are_read_as_they_are_removed() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    let pairs: Vec<String> = (0..300)
        .flat_map(|number| [format!("f{number}"), format!("v{number}")])
        .collect();
    let words: Vec<&str> = ["HSET", "h"]
        .into_iter()
        .chain(pairs.iter().map(String::as_str))
        .collect();
    connection.run(&words);
    connection.check(
        "HGETDEL h FIELDS 6 f7 nosuch f200 f7 f0 f299 => [v7 nil v200 nil v0 v299]
         HLEN h => 296
         HPEXPIRE h 50 FIELDS 2 f1 f2 => [1 1]
         HGETDEL h FIELDS 1 f2 => [v2]",
    );
    fixture.advance_ms(50);
    connection.check(
        "HGETDEL h FIELDS 3 f1 f2 f3 => [nil nil v3]
         HLEN h => 293",
    );
    let fields: Vec<String> = (0..300).rev().map(|number| format!("f{number}")).collect();
    let words = ["HGETDEL", "h", "FIELDS", "300"].into_iter();
    let words: Vec<&str> = words.chain(fields.iter().map(String::as_str)).collect();
    let reply = show(&connection.run(&words));
    assert!(
        reply.starts_with("[nil v298 v297 ") && reply.ends_with(" v4 nil nil nil nil]"),
        "{reply}"
    );
    connection.check("EXISTS h => 0");
}

/// A deleted key left the index row of the expiry cycle: it must not affect the new key.
#[test]
fn a_stale_deadline_does_no_harm() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check(
        "HSETEX h PX 100 FIELDS 1 a 1 => 1
         SET h 1 => OK
         HSET h2 a 1 => 1
         HPEXPIRE h2 50 FIELDS 1 a => [1]",
    );
    fixture.advance_ms(200);
    fixture.layer.expire_due();
    connection.check("GET h => 1\nHLEN h2 => 0");
}

#[test]
fn a_field_too_long_for_a_row_is_refused() {
    let fixture = Fixture::new();
    let long = "x".repeat(65_001);
    let reply = fixture.connect().run(&["HSET", "h", &long, "1"]);
    assert_eq!(show(&reply), "!ERR field exceeds the maximum size of 65000 bytes");
}

fn fill(connection: &mut Connection, name: &str, count: usize) {
    for index in 0..count {
        connection.run(&["HSET", name, &format!("field{index}"), "x"]);
    }
}

fn encoding_of(fixture: &Fixture, name: &str) -> &'static str {
    in_keyspace(fixture, |keys| encoding(&keys.find(name.as_bytes()).unwrap()))
}

fn in_keyspace<R>(fixture: &Fixture, body: impl FnOnce(&mut Keyspace<'_, '_>) -> R) -> R {
    let mut partition = fixture.layer.engine.partition();
    let now_ms = partition.now_micros() / 1000;
    let outcome = partition.execute(fixture.layer.space, |tx| -> Result<R, ()> {
        Ok(body(&mut Keyspace {
            tx,
            db: 0,
            now_ms,
            changes: &fixture.layer.changes,
        }))
    });
    outcome.unwrap_or_else(|_| panic!("the transaction failed")).0
}

/// Field to value and deadline.
type Fields = BTreeMap<String, (String, Option<u64>)>;

/// A hash as a map.
#[derive(Default)]
struct Model {
    fields: Fields,
    now_ms: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Set(Vec<(u16, u8)>),
    Delete(Vec<u16>),
    Add(u16, i8),
    Expire(Vec<u16>, u16),
    Persist(u16),
    SetKeeping(u16, u8),
    Advance(u16),
    Cycle,
}

fn step(field_count: u16) -> impl Strategy<Value = Step> {
    let field = 0..field_count;
    let fields = prop::collection::vec(field.clone(), 1..20);
    let pairs = prop::collection::vec((field.clone(), 0..120_u8), 1..40);
    prop_oneof![
        6 => pairs.prop_map(Step::Set),
        2 => fields.clone().prop_map(Step::Delete),
        1 => (field.clone(), any::<i8>()).prop_map(|(field, by)| Step::Add(field, by)),
        2 => (fields, 0..400_u16).prop_map(|(fields, after_ms)| Step::Expire(fields, after_ms)),
        1 => field.clone().prop_map(Step::Persist),
        1 => (field, 0..120_u8).prop_map(|(field, length)| Step::SetKeeping(field, length)),
        2 => (0..200_u16).prop_map(Step::Advance),
        1 => Just(Step::Cycle),
    ]
}

impl Model {
    fn live(&mut self) -> &mut Fields {
        let now_ms = self.now_ms;
        self.fields
            .retain(|_, (_, deadline_ms)| deadline_ms.is_none_or(|at_ms| at_ms > now_ms));
        &mut self.fields
    }

    /// The command of a step, and the reply it must have.
    fn apply(&mut self, step: &Step) -> (Vec<String>, String) {
        let now_ms = self.now_ms;
        let live = self.live();
        let name = |field: &u16| format!("f{field}");
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
        match step {
            Step::Set(pairs) => {
                let before = live.len();
                let mut command = words(&["HSET", "h"]);
                for (field, length) in pairs {
                    let value = "v".repeat(usize::from(*length));
                    command.extend([name(field), value.clone()]);
                    live.insert(name(field), (value, None));
                }
                (command, (live.len() - before).to_string())
            }
            Step::Delete(fields) => {
                let mut command = words(&["HDEL", "h"]);
                command.extend(fields.iter().map(name));
                let removed = fields.iter().filter(|field| live.remove(&name(field)).is_some());
                (command, removed.count().to_string())
            }
            Step::Add(field, by) => {
                let command = vec!["HINCRBY".into(), "h".into(), name(field), by.to_string()];
                let old = live.get(&name(field)).cloned().unwrap_or(("0".into(), None));
                let Ok(number) = old.0.parse::<i64>() else {
                    return (command, "!ERR hash value is not an integer".into());
                };
                let sum = (number + i64::from(*by)).to_string();
                live.insert(name(field), (sum.clone(), old.1));
                (command, sum)
            }
            Step::Expire(fields, after_ms) => {
                let count = fields.len().to_string();
                let mut command = words(&["HPEXPIRE", "h", &after_ms.to_string(), "FIELDS", &count]);
                command.extend(fields.iter().map(name));
                let mut answers = Vec::new();
                for field in fields {
                    let Some((_, deadline_ms)) = live.get_mut(&name(field)) else {
                        answers.push("-2");
                        continue;
                    };
                    *deadline_ms = Some(now_ms + u64::from(*after_ms));
                    answers.push(if *after_ms == 0 { "2" } else { "1" });
                    if *after_ms == 0 {
                        live.remove(&name(field));
                    }
                }
                (command, format!("[{}]", answers.join(" ")))
            }
            Step::Persist(field) => {
                let command = ["HPERSIST", "h", "FIELDS", "1", &name(field)].map(String::from);
                let deadline_ms = live.get_mut(&name(field)).map(|field| field.1.take());
                let answer = match deadline_ms {
                    None => "[-2]",
                    Some(None) => "[-1]",
                    Some(Some(_)) => "[1]",
                };
                (command.to_vec(), answer.into())
            }
            Step::SetKeeping(field, length) => {
                let value = "k".repeat(usize::from(*length));
                let command = ["HSETEX", "h", "KEEPTTL", "FIELDS", "1", &name(field), &value].map(String::from);
                live.entry(name(field)).or_default().0 = value;
                (command.to_vec(), "1".into())
            }
            Step::Advance(_) | Step::Cycle => unreachable!("no command"),
        }
    }
}

/// Until the next expiry cycle, such a hash existed for EXISTS, TYPE and SCAN, was of another kind
/// for RPUSH, and kept its deadline.
#[test]
fn a_hash_is_removed_with_its_last_field() {
    let commands = [
        "EXISTS h => 0",
        "TYPE h => none",
        "KEYS * => []",
        "RANDOMKEY => nil",
        "SETNX h 1 => 1",
        "RPUSH h x => 1",
        "COPY h other => 0",
        "RENAME h other => !ERR no such key",
        "EXPIRE h 10 => 0",
        "HSET h new 1 => 1\nTTL h => -1",
    ];
    let large: Vec<String> = (0..300).map(|number| format!("f{number}")).collect();
    for fields in [vec!["f".to_owned()], large] {
        for command in commands {
            let fixture = Fixture::new();
            let mut connection = fixture.connect();
            let pairs = fields.join(" v ");
            connection.check(&format!(
                "HSET h {pairs} v => {count}
                 PEXPIRE h 1000 => 1",
                count = fields.len()
            ));
            for field in &fields {
                connection.check(&format!("HPEXPIRE h 5 FIELDS 1 {field} => [1]"));
            }
            fixture.advance_ms(5);
            connection.check(command);
        }
    }
}

/// Returns the stored hash, in the form of the model.
fn stored(fixture: &Fixture) -> (Fields, u64, Option<u64>) {
    in_keyspace(fixture, |keys| {
        let mut fields = BTreeMap::new();
        // The index knows the hash until the cycle has removed it, although no command finds it any
        // more.
        let Some(entry) = keys.find_dead_or_alive(b"h") else {
            return (fields, 0, None);
        };
        super::value::each(keys, &entry, &mut |field| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            fields.insert(text(field.name), (text(field.value), field.deadline_ms));
        });
        assert_eq!(keys.find(b"h").is_some(), !fields.is_empty());
        let first = entry.field_deadlines().first_ms;
        (fields, super::value::len(keys, &entry), first)
    })
}

/// Deadlines that the index of the expiry cycle holds.
fn indexed(fixture: &Fixture) -> Vec<u64> {
    in_keyspace(fixture, |keys| {
        let due = crate::keyspace::due(keys.tx, true, u64::MAX - 1, 10);
        due.into_iter().map(|(_, deadline_ms, _)| deadline_ms).collect()
    })
}

fn run_against_model(steps: &[Step]) {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    let mut model = Model {
        now_ms: 1_700_000_000_000,
        ..Model::default()
    };
    for step in steps {
        match step {
            Step::Advance(milliseconds) => {
                fixture.advance_ms(u64::from(*milliseconds));
                model.now_ms += u64::from(*milliseconds);
            }
            Step::Cycle => {
                fixture.layer.expire_due();
                let first = model.live().values().filter_map(|field| field.1).min();
                assert_eq!(indexed(&fixture), first.into_iter().collect::<Vec<_>>());
            }
            step => {
                let (command, expected) = model.apply(step);
                let words: Vec<&str> = command.iter().map(String::as_str).collect();
                assert_eq!(show(&connection.run(&words)), expected, "{command:?}");
            }
        }
        let (fields, count, first) = stored(&fixture);
        assert_eq!(&fields, model.live(), "after {step:?}");
        assert_eq!(count, model.live().len() as u64, "after {step:?}");
        assert_eq!(
            indexed(&fixture),
            first.into_iter().collect::<Vec<_>>(),
            "after {step:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_small_hash_is_a_map(steps in prop::collection::vec(step(12), 1..60)) {
        run_against_model(&steps);
    }

    #[test]
    fn a_growing_hash_is_a_map(steps in prop::collection::vec(step(300), 1..60)) {
        run_against_model(&steps);
    }
}
