//! Replies of the set commands, by scripts and against a simple model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use quartet_wire_resp::Value;

use super::encoding;
use crate::keyspace::Keyspace;
use crate::testing::{Connection, Fixture, show};

#[test]
fn members_are_added_and_removed() {
    Fixture::new().connect().check(
        "SADD s a b a => 2
         SADD s b c => 1
         SMEMBERS s => [a b c]
         SCARD s => 3
         SISMEMBER s a => 1
         SISMEMBER s z => 0
         SMISMEMBER s a z c => [1 0 1]
         SMISMEMBER nosuch a z => [0 0]
         SREM s a a z => 1
         SREM s b c => 2
         SREM s b => 0
         SCARD s => 0
         SMEMBERS s => []
         SISMEMBER s a => 0
         SET text 1 => OK
         SADD text a => !WRONGTYPE Operation against a key holding the wrong kind of value
         SMEMBERS text => !WRONGTYPE Operation against a key holding the wrong kind of value
         SINTER nosuch text => !WRONGTYPE Operation against a key holding the wrong kind of value
         SUNIONSTORE x text => !WRONGTYPE Operation against a key holding the wrong kind of value
         SMOVE nosuch text a => 0",
    );
}

#[test]
fn moves() {
    Fixture::new().connect().check(
        "SADD a 1 2 => 2
         SADD b 3 => 1
         SMOVE a b 1 => 1
         SMOVE a b 9 => 0
         SMOVE a a 2 => 1
         SMOVE a a 9 => 0
         SMOVE a c 2 => 1
         SCARD a => 0
         SMEMBERS c => [2]
         SMEMBERS b => [3 1]
         SET text x => OK
         SMOVE b text 1 => !WRONGTYPE Operation against a key holding the wrong kind of value",
    );
}

#[test]
fn algebra() {
    Fixture::new().connect().check(
        "SADD a 1 2 3 4 => 4
         SADD b 2 3 9 => 3
         SADD c 3 => 1
         SINTER a b => [2 3]
         SINTER a b c => [3]
         SINTER a nosuch => []
         SINTER a a => [1 2 3 4]
         SUNION b c nosuch => [2 3 9]
         SDIFF a b c => [1 4]
         SDIFF nosuch a => []
         SDIFF a a => []
         SINTERSTORE x a b => 2
         SMEMBERS x => [2 3]
         SINTERSTORE x a nosuch => 0
         SCARD x => 0
         SUNIONSTORE a a b => 5
         SDIFFSTORE a a b => 2
         SMEMBERS a => [1 4]
         SET x text => OK
         SDIFFSTORE x b c => 2
         SMEMBERS x => [2 9]
         SINTERCARD 2 b x => 2
         SINTERCARD 2 b x LIMIT 1 => 1
         SINTERCARD 2 b x LIMIT 0 => 2
         SINTERCARD 1 nosuch => 0
         SINTERCARD 0 b => !ERR numkeys should be greater than 0
         SINTERCARD x b => !ERR numkeys should be greater than 0
         SINTERCARD 9223372036854775807 b => !ERR Number of keys can't be greater than number of args
         SINTERCARD 1 b LIMIT -1 => !ERR LIMIT can't be negative
         SINTERCARD 1 b LIMIT x => !ERR LIMIT can't be negative
         SINTERCARD 1 b x => !ERR syntax error
         SINTERCARD 1 b LIMIT => !ERR syntax error",
    );
}

#[test]
fn random_members() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check(
        "SPOP s => nil
         SPOP s 3 => []
         SRANDMEMBER s => nil
         SRANDMEMBER s 3 => []
         SADD s a => 1
         SRANDMEMBER s => a
         SRANDMEMBER s 5 => [a]
         SRANDMEMBER s -3 => [a a a]
         SRANDMEMBER s 0 => []
         SRANDMEMBER s 9223372036854775807 => [a]
         SRANDMEMBER s -9223372036854775808 => !ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
         SRANDMEMBER s -9223372036854775807 => !ERR value is out of range
         SRANDMEMBER s x => !ERR value is not an integer or out of range
         SRANDMEMBER s 1 2 => !ERR syntax error
         SPOP s -1 => !ERR value is out of range, must be positive
         SPOP s x => !ERR value is out of range, must be positive
         SPOP s 1 2 => !ERR syntax error
         SPOP s 0 => []
         SPOP s => a
         SCARD s => 0",
    );
    for (size, count) in [(100, 40), (100, 100), (1000, 3), (1000, 990), (1000, 5000)] {
        fill(&mut connection, "s", size);
        let picked = set_of(&connection.run(&["SRANDMEMBER", "s", &count.to_string()]));
        assert_eq!(picked.len(), count.min(size));
        let popped = set_of(&connection.run(&["SPOP", "s", &count.to_string()]));
        let remaining = set_of(&connection.run(&["SMEMBERS", "s"]));
        assert_eq!(popped.len(), count.min(size));
        assert_eq!(popped.len() + remaining.len(), size);
        assert!(popped.is_disjoint(&remaining));
        connection.run(&["SPOP", "s", "100000"]);
    }
}

#[test]
fn sets_in_resp3() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.session.speak_resp3();
    connection.run(&["SADD", "s", "a"]);
    for (command, expected) in [
        (vec!["SMEMBERS", "s"], "~1\r\n$1\r\na\r\n"),
        (vec!["SINTER", "s", "s"], "~1\r\n$1\r\na\r\n"),
        (vec!["SRANDMEMBER", "s", "1"], "*1\r\n$1\r\na\r\n"),
        (vec!["SPOP", "s", "1"], "~1\r\n$1\r\na\r\n"),
        (vec!["SPOP", "s", "1"], "~0\r\n"),
        (vec!["SPOP", "s"], "_\r\n"),
    ] {
        assert_eq!(connection.bytes(&command), expected.as_bytes(), "{command:?}");
    }
}

#[test]
fn scanning() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check(
        "SADD s a b => 2
         SSCAN s 0 => [0 [a b]]
         SSCAN s 0 MATCH b* => [0 [b]]
         SSCAN s 0 NOVALUES => !ERR NOVALUES option can only be used in HSCAN
         SSCAN nosuch 0 => [0 []]
         SSCAN s -1 => !ERR invalid cursor",
    );
    fill(&mut connection, "s", 1000);
    let (mut seen, mut cursor) = (BTreeSet::new(), "0".to_owned());
    loop {
        let Value::Array(page) = connection.run(&["SSCAN", "s", &cursor, "COUNT", "17"]) else {
            panic!("not a page");
        };
        seen.extend(set_of(&page[1]));
        cursor = show(&page[0]);
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 1002);
}

#[test]
fn the_encoding_is_that_of_redis() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check("SADD s 1 -2 9223372036854775807 => 3");
    assert_eq!(encoding_of(&fixture, "s"), "intset");
    connection.check("SADD s 01 => 1\nSREM s 01 => 1");
    assert_eq!(encoding_of(&fixture, "s"), "hashtable");
    for number in 0..512 {
        connection.run(&["SADD", "n", &number.to_string()]);
    }
    assert_eq!(encoding_of(&fixture, "n"), "intset");
    connection.check("SADD n 512 => 1\nSREM n 512 => 1");
    assert_eq!(encoding_of(&fixture, "n"), "hashtable");
    connection.check("SADD m 5 6 => 2\nSADD t a 5 => 2\nSINTERSTORE x m t => 1");
    assert_eq!(encoding_of(&fixture, "x"), "intset");
}

#[test]
fn a_watch_notices_and_nothing_is_written_for_nothing() {
    let fixture = Fixture::new();
    let (mut a, mut b) = (fixture.connect(), fixture.connect());
    fill(&mut a, "s", 300);
    for (command, expected) in [
        (vec!["SADD", "s", "member1"], "[300]"),
        (vec!["SREM", "s", "nosuch"], "[300]"),
        (vec!["SREM", "s", "member1"], "nil"),
        (vec!["SADD", "s", "member1"], "nil"),
    ] {
        a.check("WATCH s => OK");
        b.run(&command);
        a.check("MULTI => OK\nSCARD s => QUEUED");
        assert_eq!(show(&a.run(&["EXEC"])), expected, "{command:?}");
    }
}

#[test]
fn a_member_too_long_for_a_row_is_refused() {
    let long = "x".repeat(65_001);
    let reply = Fixture::new().connect().run(&["SADD", "s", &long]);
    assert_eq!(show(&reply), "!ERR member exceeds the maximum size of 65000 bytes");
}

fn fill(connection: &mut Connection, name: &str, count: usize) {
    for index in 0..count {
        connection.run(&["SADD", name, &format!("member{index}")]);
    }
}

fn set_of(reply: &Value) -> BTreeSet<String> {
    match reply {
        Value::Array(members) | Value::Set(members) => members.iter().map(show).collect(),
        other => panic!("not a set: {other:?}"),
    }
}

fn encoding_of(fixture: &Fixture, name: &str) -> &'static str {
    let mut partition = fixture.layer.engine.partition();
    let now_ms = partition.now_micros() / 1000;
    let outcome = partition.execute(fixture.layer.space, |tx| -> Result<_, ()> {
        let mut keys = Keyspace {
            tx,
            db: 0,
            now_ms,
            changes: &fixture.layer.changes,
        };
        Ok(encoding(&keys.find(name.as_bytes()).unwrap()))
    });
    outcome.unwrap_or_else(|_| panic!("the transaction failed")).0
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, Vec<u16>),
    Remove(u8, Vec<u16>),
    Move(u8, u8, u16),
    Pop(u8, u16),
    Operate(usize, u8, u8, u8),
}

const OPERATIONS: [&str; 3] = ["SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"];

fn step(member_count: u16) -> impl Strategy<Value = Step> {
    let name = 0..3_u8;
    let members = prop::collection::vec(0..member_count, 1..60);
    prop_oneof![
        5 => (name.clone(), members.clone()).prop_map(|(name, members)| Step::Add(name, members)),
        2 => (name.clone(), members).prop_map(|(name, members)| Step::Remove(name, members)),
        1 => (name.clone(), name.clone(), 0..member_count).prop_map(|(from, to, member)| Step::Move(from, to, member)),
        1 => (name.clone(), 0..50_u16).prop_map(|(name, count)| Step::Pop(name, count)),
        2 => (0..3_usize, name.clone(), name.clone(), name)
            .prop_map(|(operation, to, a, b)| Step::Operate(operation, to, a, b)),
    ]
}

type Model = BTreeMap<u8, BTreeSet<String>>;

/// Members of some length, so that sets grow past what a row takes both by their number and by
/// their bytes.
fn member(number: u16) -> String {
    format!("{number}{}", "x".repeat(usize::from(number % 60)))
}

fn run_step(connection: &mut Connection, model: &mut Model, step: &Step) {
    let set = |model: &Model, name: u8| model.get(&name).cloned().unwrap_or_default();
    let mut command: Vec<String> = Vec::new();
    let expected = match step {
        Step::Add(name, members) => {
            command.extend(["SADD".into(), name.to_string()]);
            command.extend(members.iter().map(|&number| member(number)));
            let set = model.entry(*name).or_default();
            members.iter().filter(|&&number| set.insert(member(number))).count()
        }
        Step::Remove(name, members) => {
            command.extend(["SREM".into(), name.to_string()]);
            command.extend(members.iter().map(|&number| member(number)));
            let set = model.entry(*name).or_default();
            members.iter().filter(|&&number| set.remove(&member(number))).count()
        }
        Step::Move(from, to, number) => {
            let member = member(*number);
            command.extend(["SMOVE".into(), from.to_string(), to.to_string(), member.clone()]);
            let moved = model.entry(*from).or_default().remove(&member);
            if moved {
                model.entry(*to).or_default().insert(member);
            }
            usize::from(moved)
        }
        Step::Pop(name, count) => {
            let popped = set_of(&connection.run(&["SPOP", &name.to_string(), &count.to_string()]));
            let set = model.entry(*name).or_default();
            assert_eq!(popped.len(), set.len().min(usize::from(*count)));
            assert!(popped.iter().all(|member| set.remove(member)));
            return;
        }
        Step::Operate(operation, to, a, b) => {
            command.extend([
                OPERATIONS[*operation].into(),
                to.to_string(),
                a.to_string(),
                b.to_string(),
            ]);
            let (a, b) = (set(model, *a), set(model, *b));
            let result: BTreeSet<String> = match operation {
                0 => a.intersection(&b).cloned().collect(),
                1 => a.union(&b).cloned().collect(),
                _ => a.difference(&b).cloned().collect(),
            };
            let count = result.len();
            model.insert(*to, result);
            count
        }
    };
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    assert_eq!(show(&connection.run(&words)), expected.to_string(), "{command:?}");
}

fn run_against_model(steps: &[Step]) {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    let mut model = Model::new();
    for step in steps {
        run_step(&mut connection, &mut model, step);
        for name in 0..3 {
            let expected = model.get(&name).cloned().unwrap_or_default();
            let stored = connection.run(&["SMEMBERS", &name.to_string()]);
            assert_eq!(set_of(&stored), expected, "after {step:?}");
            let count = connection.run(&["SCARD", &name.to_string()]);
            assert_eq!(show(&count), expected.len().to_string(), "after {step:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn small_sets_are_sets(steps in prop::collection::vec(step(20), 1..60)) {
        run_against_model(&steps);
    }

    #[test]
    fn growing_sets_are_sets(steps in prop::collection::vec(step(400), 1..60)) {
        run_against_model(&steps);
    }
}
