//! Clients that wait for streams, the entries that trimming with `~` leaves, IDs from the
//! transaction's time, and random commands against a model. Replies of every command are in the
//! golden scripts of `tests/redis/testdata`.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use quartet_wire_resp::Value;

use crate::testing::{Connection, Fixture, show};

fn show_bytes(bytes: &[u8]) -> String {
    show(&quartet_wire_resp::decode(bytes).unwrap().unwrap().0)
}

#[test]
fn ids_are_of_the_time_of_the_transaction() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check(
        "XADD s * a 1 => 1700000000000-0
         XADD s * a 1 => 1700000000000-1
         XADD s 1700000000005-7 a 1 => 1700000000005-7
         XADD s * a 1 => 1700000000005-8
         XADD s 1700000000005-18446744073709551615 a 1 => 1700000000005-18446744073709551615
         XADD s * a 1 => 1700000000006-0",
    );
    fixture.advance_ms(100);
    connection.check("XADD s * a 1 => 1700000000100-0");
}

#[test]
fn whole_nodes_are_trimmed() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.run(&["CONFIG", "SET", "stream-node-max-entries", "10"]);
    for index in 1..=35 {
        connection.run(&["XADD", "s", &index.to_string(), "a", "1"]);
    }
    connection.check(
        "XTRIM s MAXLEN ~ 26 => 0
         XTRIM s MAXLEN ~ 25 => 10
         XTRIM s MAXLEN ~ 0 LIMIT 9 => 0
         XTRIM s MINID ~ 20 => 0
         XDEL s 11 12 13 14 15 16 17 18 19 => 9
         XTRIM s MINID ~ 20 => 0
         XTRIM s MINID ~ 21 => 1
         XLEN s => 15
         XDEL s 31 32 33 34 35 => 5
         XADD s 36 a 1 => 36-0
         XTRIM s MAXLEN ~ 1 => 10
         XTRIM s MAXLEN ~ 0 => 1
         XLEN s => 0
         XADD s 37 a 1 => 37-0
         XRANGE s - + => [[37-0 [a 1]]]",
    );
}

/// Checks that a waiting reader gets `expected` after another connection has run `commands`.
fn check_wait(before: &str, wait: &str, commands: &str, expected: &str) {
    let fixture = Fixture::new();
    let (mut waiter, mut writer) = (fixture.connect(), fixture.connect());
    writer.check(before);
    let words: Vec<&str> = wait.split(' ').collect();
    assert_eq!(waiter.bytes(&words), b"", "{wait}");
    writer.check(commands);
    let mail = waiter.mail();
    let mail_text = if mail.is_empty() {
        "nothing".into()
    } else {
        show_bytes(&mail)
    };
    assert_eq!(mail_text, expected, "{wait}, then {commands}");
}

const GROUP: &str = "XGROUP CREATE s g $ MKSTREAM => OK";
const READ_GROUP: &str = "XREADGROUP GROUP g c BLOCK 0 STREAMS s >";

#[test]
fn readers_are_served() {
    check_wait(
        "",
        "XREAD BLOCK 0 STREAMS s $",
        "XADD s 1 a 1 => 1-0",
        "[[s [[1-0 [a 1]]]]]",
    );
    check_wait(
        "XADD s 1 a 1 => 1-0",
        "XREAD BLOCK 0 STREAMS t s $ $",
        "XADD s 2 a 2 => 2-0",
        "[[s [[2-0 [a 2]]]]]",
    );
    check_wait(
        "XADD s 5 a 1 => 5-0",
        "XREAD BLOCK 0 STREAMS s 7",
        "XADD s 6 a 2 => 6-0",
        "nothing",
    );
    check_wait(
        "",
        "XREAD BLOCK 0 STREAMS s +",
        "XADD s 1 a 1 => 1-0",
        "[[s [[1-0 [a 1]]]]]",
    );
    check_wait(
        GROUP,
        READ_GROUP,
        "XADD s 1 a 1 => 1-0\nXPENDING s g => [1 1-0 1-0 [[c 1]]]",
        "[[s [[1-0 [a 1]]]]]",
    );
    check_wait(
        GROUP,
        READ_GROUP,
        "XACK s g 1-1 => 0\nXGROUP CREATE s h 0 => OK",
        "nothing",
    );
    check_wait(
        "XADD s 1 a 1 => 1-0",
        "XREAD BLOCK 0 STREAMS s $",
        "DEL s => 1\nSET s x => OK\nDEL s => 1\nXADD s 2 a 2 => 2-0",
        "[[s [[2-0 [a 2]]]]]",
    );
}

#[test]
fn readers_with_a_group_learn_of_its_removal() {
    let error = "!NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option";
    let another_kind = "!WRONGTYPE Operation against a key holding the wrong kind of value";
    for (commands, expected) in [
        ("DEL s => 1", error),
        ("SET s x => OK", another_kind),
        ("FLUSHALL => OK", error),
        (
            "MULTI => OK\nDEL s => QUEUED\nSADD s x => QUEUED\nEXEC => [1 1]",
            another_kind,
        ),
        ("SELECT 4 => OK\nLPUSH s x => 1\nSWAPDB 0 4 => OK", another_kind),
        ("SWAPDB 0 4 => OK", error),
        ("XGROUP DESTROY s g => 1", error),
        ("XADD t 1 a 1 => 1-0\nRENAME t s => OK", error),
    ] {
        check_wait(GROUP, READ_GROUP, commands, expected);
    }
}

/// Since Redis 7.2. Before, and here until INFO said 7.4, a consumer was listed from its first
/// entry on.
#[test]
fn a_read_makes_the_consumer() {
    let fixture = Fixture::new();
    let (mut waiter, mut other) = (fixture.connect(), fixture.connect());
    other.check(
        "XGROUP CREATE s g $ MKSTREAM => OK
         XREADGROUP GROUP g asked STREAMS s > => nil
         MULTI => OK
         XREADGROUP GROUP g queued BLOCK 0 STREAMS s > => QUEUED
         EXEC => [nil]",
    );
    fixture.advance_ms(5);
    assert_eq!(
        waiter.bytes(&["XREADGROUP", "GROUP", "g", "waits", "BLOCK", "0", "STREAMS", "s", ">"]),
        b""
    );
    other.check(
        "XINFO CONSUMERS s g => [[name asked pending 0 idle 5 inactive -1] [name queued pending 0 idle 5 inactive -1] [name waits pending 0 idle 0 inactive -1]]
         XREADGROUP GROUP g asked STREAMS s > => nil
         XGROUP DELCONSUMER s g asked => 0",
    );
    assert!(waiter.mail().is_empty());
}

/// Redis 8.4: entries that were pending for long enough with other consumers are returned first,
/// with their idle time and number of deliveries.
#[test]
fn reading_claims_what_is_idle() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check(
        "XADD s 1 a 1 => 1-0
         XADD s 2 a 2 => 2-0
         XGROUP CREATE s g 0 => OK
         XREADGROUP GROUP g old CLAIM 50 STREAMS s > => [[s [[1-0 [a 1] 0 0] [2-0 [a 2] 0 0]]]]
         XADD s 3 a 3 => 3-0",
    );
    fixture.advance_ms(49);
    connection.check("XREADGROUP GROUP g new COUNT 1 CLAIM 50 STREAMS s > => [[s [[3-0 [a 3] 0 0]]]]");
    fixture.advance_ms(1);
    connection.check(
        "XADD s 4 a 4 => 4-0
         XDEL s 2 => 1
         XREADGROUP GROUP g new COUNT 2 CLAIM 50 STREAMS s > => [[s [[1-0 [a 1] 50 1] [4-0 [a 4] 0 0]]]]
         XPENDING s g - + 9 new => [[1-0 new 0 2] [3-0 new 1 1] [4-0 new 0 1]]
         XREADGROUP GROUP g new CLAIM 50 STREAMS s > => nil
         XREADGROUP GROUP g new CLAIM x STREAMS s > => !ERR min-idle-time is not an integer or out of range
         XREADGROUP GROUP g new CLAIM -1 STREAMS s > => !ERR min-idle-time must be a positive integer
         XREAD CLAIM 1 STREAMS s 0 => !ERR syntax error
         COMMAND GETKEYS XREADGROUP GROUP g c CLAIM 5 STREAMS a b > > => [a b]",
    );
}

/// A consumer that waited with CLAIM was woken only by new entries: the entries of a dead consumer
/// stayed pending before that, with BLOCK 0 indefinitely.
#[test]
fn a_reader_waiting_with_claim_gets_claimable_entries() {
    let wait = |block: &str| format!("XREADGROUP GROUP g alive BLOCK {block} CLAIM 400 STREAMS s >");
    let die = "MULTI => OK
               XADD s 5-1 a b => QUEUED
               XREADGROUP GROUP g dead STREAMS s > => QUEUED
               EXEC => [5-1 [[s [[5-1 [a b]]]]]]";
    let redeliver = "XGROUP SETID s g 0 => OK
                     XREADGROUP GROUP g dead STREAMS s > => [[s [[5-1 [a b]]]]]";
    let age = "XCLAIM s g other 0 5-1 IDLE 400 JUSTID => [5-1]";
    for (before, during, takes_ms) in [
        (die, "PING => PONG", 400),
        ("PING => PONG", die, 400),
        ("XADD s 5-1 a b => 5-1\nXGROUP SETID s g $ => OK", redeliver, 400),
        (die, age, 0),
    ] {
        for block in ["0", "900"] {
            let fixture = Fixture::new();
            let (mut waiter, mut other) = (fixture.connect(), fixture.connect());
            other.check("XGROUP CREATE s g $ MKSTREAM => OK");
            other.check(before);
            assert_eq!(waiter.bytes(&wait(block).split(' ').collect::<Vec<_>>()), b"");
            other.check(during);
            if takes_ms > 0 {
                fixture.advance_ms(takes_ms - 1);
                fixture.layer.expire_due();
                assert!(waiter.mail().is_empty(), "{during}");
                fixture.advance_ms(1);
                fixture.layer.expire_due();
            }
            assert_eq!(show_bytes(&waiter.mail()), "[[s [[5-1 [a b] 400 1]]]]", "{during}");
            other.check("XPENDING s g - + 5 alive => [[5-1 alive 0 2]]");
        }
    }
}

/// Two consumers of one group wait; each entry is delivered to one of them, the first to wait.
#[test]
fn an_entry_goes_to_one_waiting_consumer() {
    let fixture = Fixture::new();
    let (mut first, mut second, mut writer) = (fixture.connect(), fixture.connect(), fixture.connect());
    writer.check(GROUP);
    first.bytes(&READ_GROUP.split(' ').collect::<Vec<_>>());
    second.bytes(&READ_GROUP.split(' ').collect::<Vec<_>>());
    writer.check("XADD s 1 a 1 => 1-0");
    assert!(!first.mail().is_empty() && second.mail().is_empty());
    writer.check("XADD s 2 a 2 => 2-0");
    assert!(!second.mail().is_empty());
}

#[test]
fn the_last_entry_can_be_requested() {
    Fixture::new().connect().check(
        "XADD s 1 a 1 => 1-0
         XADD s 2 a 2 => 2-0
         XREAD STREAMS s + => [[s [[2-0 [a 2]]]]]
         XDEL s 2 => 1
         XREAD STREAMS s + => [[s [[1-0 [a 1]]]]]
         XDEL s 1 => 1
         XREAD STREAMS s + => nil",
    );
}

#[test]
fn keys_follow_the_word_streams() {
    Fixture::new().connect().check(
        "COMMAND GETKEYS XREAD COUNT 1 BLOCK 1 STREAMS a b 0 0 => [a b]
         COMMAND GETKEYS XREADGROUP COUNT 1 GROUP streams c NOACK STREAMS a > => [a]
         COMMAND GETKEYS XGROUP CREATE k g 0 => [k]",
    );
}

/// No state of a removed group or consumer may reappear with a new one of its name.
#[test]
fn a_reused_name_is_empty() {
    Fixture::new().connect().check(
        "XADD s 1 a 1 => 1-0
         XGROUP CREATE s g 0 => OK
         XREADGROUP GROUP g c STREAMS s > => [[s [[1-0 [a 1]]]]]
         XGROUP DELCONSUMER s g c => 1
         XREADGROUP GROUP g c STREAMS s 0 => [[s []]]
         XGROUP DESTROY s g => 1
         XGROUP CREATE s g $ => OK
         XPENDING s g => [0 nil nil nil]
         XINFO CONSUMERS s g => []",
    );
}

/// A stream with one group as the plainest structures say it.
#[derive(Default)]
struct Model {
    entries: BTreeSet<u64>,
    last: u64,
    delivered: u64,
    /// Entry to consumer.
    pending: BTreeMap<u64, u8>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Add,
    Delete(u64),
    TrimLength(u64),
    TrimFrom(u64),
    Read(u8, u64),
    Acknowledge(u64),
    Claim(u8, u64),
    Forget(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Add),
        1 => (1..60_u64).prop_map(Step::Delete),
        1 => (0..20_u64).prop_map(Step::TrimLength),
        1 => (1..60_u64).prop_map(Step::TrimFrom),
        3 => (0..3_u8, 1..5_u64).prop_map(|(consumer, count)| Step::Read(consumer, count)),
        2 => (1..60_u64).prop_map(Step::Acknowledge),
        2 => (0..3_u8, 1..60_u64).prop_map(|(consumer, id)| Step::Claim(consumer, id)),
        1 => (0..3_u8).prop_map(Step::Forget),
    ]
}

fn id(number: u64) -> String {
    format!("{number}-0")
}

impl Model {
    /// Does the step, and says which command does it and what that answers.
    fn step(&mut self, step: Step) -> (String, String) {
        match step {
            Step::Add => {
                self.last += 1;
                self.entries.insert(self.last);
                (format!("XADD s {} f v", self.last), id(self.last))
            }
            Step::Delete(number) => {
                let is_known = self.entries.remove(&number);
                (format!("XDEL s {number}"), u8::from(is_known).to_string())
            }
            Step::TrimLength(length) => {
                let count = self.entries.len().saturating_sub(length as usize);
                self.entries = self.entries.iter().skip(count).copied().collect();
                (format!("XTRIM s MAXLEN {length}"), count.to_string())
            }
            Step::TrimFrom(number) => {
                let retained = self.entries.split_off(&number);
                let count = std::mem::replace(&mut self.entries, retained).len();
                (format!("XTRIM s MINID {number}"), count.to_string())
            }
            Step::Read(consumer, count) => {
                let new: Vec<u64> = self
                    .entries
                    .range(self.delivered + 1..)
                    .copied()
                    .take(count as usize)
                    .collect();
                self.pending.extend(new.iter().map(|number| (*number, consumer)));
                self.delivered = new.last().copied().unwrap_or(self.delivered);
                let entries: Vec<String> = new.iter().map(|number| format!("[{} [f v]]", id(*number))).collect();
                let reply = if new.is_empty() {
                    "nil".into()
                } else {
                    format!("[[s [{}]]]", entries.join(" "))
                };
                (
                    format!("XREADGROUP GROUP g c{consumer} COUNT {count} STREAMS s >"),
                    reply,
                )
            }
            Step::Acknowledge(number) => {
                let is_known = self.pending.remove(&number).is_some();
                (format!("XACK s g {number}"), u8::from(is_known).to_string())
            }
            Step::Claim(consumer, number) => {
                let reply = if !self.pending.contains_key(&number) {
                    "[]".into()
                } else if self.entries.contains(&number) {
                    self.pending.insert(number, consumer);
                    format!("[{}]", id(number))
                } else {
                    self.pending.remove(&number);
                    "[]".into()
                };
                (format!("XCLAIM s g c{consumer} 0 {number} JUSTID"), reply)
            }
            Step::Forget(consumer) => {
                let before = self.pending.len();
                self.pending.retain(|_, owner| *owner != consumer);
                let count = before - self.pending.len();
                (format!("XGROUP DELCONSUMER s g c{consumer}"), count.to_string())
            }
        }
    }

    fn pending_of(&self, consumer: u8) -> Vec<u64> {
        let owned = self.pending.iter().filter(|(_, owner)| **owner == consumer);
        owned.map(|(number, _)| *number).collect()
    }
}

fn ids_of(reply: &Value) -> Vec<String> {
    let Value::Array(items) = reply else {
        panic!("{reply:?}")
    };
    let first = |item: &Value| match item {
        Value::Array(parts) => show(&parts[0]),
        other => panic!("{other:?}"),
    };
    items.iter().map(first).collect()
}

fn compare(connection: &mut Connection, model: &Model) {
    let numbers = |ids: Vec<u64>| ids.into_iter().map(id).collect::<Vec<_>>();
    let entries = connection.run(&["XRANGE", "s", "-", "+"]);
    assert_eq!(ids_of(&entries), numbers(model.entries.iter().copied().collect()));
    assert_eq!(show(&connection.run(&["XLEN", "s"])), model.entries.len().to_string());
    let pending = connection.run(&["XPENDING", "s", "g", "-", "+", "1000"]);
    assert_eq!(ids_of(&pending), numbers(model.pending.keys().copied().collect()));
    for consumer in 0..3 {
        let name = format!("c{consumer}");
        let pending = connection.run(&["XPENDING", "s", "g", "-", "+", "1000", &name]);
        assert_eq!(ids_of(&pending), numbers(model.pending_of(consumer)));
    }
    // A copy is the same for every history.
    connection.run(&["COPY", "s", "copy", "REPLACE"]);
    let digests = show(&connection.run(&["DEBUG", "DIGEST-VALUE", "s", "copy"]));
    let (first, other) = digests[1..digests.len() - 1].split_once(' ').unwrap();
    assert_eq!(first, other);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn streams_are_what_the_model_says(node_entries in 1..12_u8, steps in prop::collection::vec(step(), 1..150)) {
        let mut connection = Fixture::new().connect();
        let mut model = Model::default();
        connection.run(&["CONFIG", "SET", "stream-node-max-entries", &node_entries.to_string()]);
        connection.check(GROUP);
        for step in steps {
            let (command, expected) = model.step(step);
            let words: Vec<&str> = command.split(' ').collect();
            prop_assert_eq!(show(&connection.run(&words)), expected, "{}", command);
        }
        compare(&mut connection, &model);
        // The marks of the nodes go with the entries.
        connection.check("XTRIM s MAXLEN 0 => ".replace(" => ", &format!(" => {}", model.entries.len())).as_str());
        let info = show(&connection.run(&["XINFO", "STREAM", "s"]));
        prop_assert!(info.contains("radix-tree-keys 0"), "{}", info);
    }
}
