//! Lists against scripts, against a model, and with several connections.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::rows::SMALL_COUNT_MAX;
use crate::testing::{Connection, Fixture, show};

#[test]
fn scripts() {
    let fixture = Fixture::new();
    fixture.connect().check(include_str!("testdata/lists.txt"));
}

/// A list of the numbers below `count`.
fn fill(connection: &mut Connection, name: &str, count: usize) {
    for number in 0..count {
        connection.run(&["RPUSH", name, &number.to_string()]);
    }
}

#[test]
fn a_list_that_outgrows_one_row_stays_the_same() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    fill(&mut connection, "l", 1000);
    connection.check(
        "LLEN l => 1000
         LINDEX l 500 => 500
         LRANGE l 998 2000 => [998 999]
         LPOS l 999 => 999
         LREM l 0 500 => 1
         LINDEX l 500 => 501
         LINDEX l -1 => 999
         LTRIM l 100 -101 => OK
         LRANGE l 0 2 => [100 101 102]
         LRANGE l -2 -1 => [898 899]
         LLEN l => 799
         LPOP l 2 => [100 101]
         RPOP l 2 => [899 898]
         LSET l 0 first => OK
         LINSERT l BEFORE first zero => 796
         LRANGE l 0 2 => [zero first 103]
         LTRIM l 9 3 => OK
         EXISTS l => 0",
    );
}

/// Twenty insertions at one place use up a gap of 2^20; the next one numbers the list anew.
#[test]
fn a_gap_can_be_exhausted() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    fill(&mut connection, "l", 200);
    connection.run(&["PEXPIREAT", "l", "1800000000000"]);
    for number in 0..100 {
        connection.run(&["LINSERT", "l", "AFTER", "100", &format!("x{number}")]);
    }
    connection.check(
        "LLEN l => 300
         LRANGE l 99 103 => [99 100 x99 x98 x97]
         LRANGE l 199 202 => [x1 x0 101 102]
         PEXPIRETIME l => 1800000000000",
    );
}

#[test]
fn waiting_clients_are_served_in_order() {
    let fixture = Fixture::new();
    let (mut first, mut second, mut writer) = (fixture.connect(), fixture.connect(), fixture.connect());
    assert!(first.bytes(&["BLPOP", "a", "b", "0"]).is_empty());
    assert!(second.bytes(&["BRPOP", "a", "0"]).is_empty());
    writer.check("RPUSH a 1 2 3 => 3");
    assert_eq!(first.mail(), b"*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    assert_eq!(second.mail(), b"*2\r\n$1\r\na\r\n$1\r\n3\r\n");
    writer.check("LRANGE a 0 -1 => [2]");
}

#[test]
fn a_transaction_is_whole_before_anybody_is_served() {
    let fixture = Fixture::new();
    let (mut waiter, mut writer) = (fixture.connect(), fixture.connect());
    assert!(waiter.bytes(&["BLPOP", "a", "0"]).is_empty());
    writer.check(
        "MULTI => OK
         LPUSH a x => QUEUED
         DEL a => QUEUED
         EXEC => [1 1]",
    );
    assert!(waiter.mail().is_empty());
    writer.check("SET a text => OK");
    assert!(waiter.mail().is_empty());
    writer.check(
        "DEL a => 1
         MULTI => OK
         LPUSH a x => QUEUED
         LPUSH a y z => QUEUED
         EXEC => [1 3]",
    );
    assert_eq!(waiter.mail(), b"*2\r\n$1\r\na\r\n$1\r\nz\r\n");
}

#[test]
fn waits_end_at_their_deadline() {
    let fixture = Fixture::new();
    for (command, expected) in [
        (&["BLPOP", "a", "1"][..], "*-1\r\n"),
        (&["BLMPOP", "1", "1", "a", "LEFT"], "*-1\r\n"),
        (&["BLMOVE", "a", "b", "LEFT", "LEFT", "1"], "*-1\r\n"),
        (&["BRPOPLPUSH", "a", "b", "1"], "*-1\r\n"),
    ] {
        let mut waiter = fixture.connect();
        assert!(waiter.bytes(command).is_empty());
        assert_eq!(waiter.session.deadline_ms(), Some(1_700_000_001_000));
        waiter.session.time_out();
        assert_eq!(String::from_utf8(waiter.mail()).unwrap(), expected, "{command:?}");
        assert!(!waiter.session.is_blocked());
    }
}

#[test]
fn nothing_is_given_to_a_closed_connection() {
    let fixture = Fixture::new();
    let (mut waiter, mut writer) = (fixture.connect(), fixture.connect());
    assert!(waiter.bytes(&["BLPOP", "a", "0"]).is_empty());
    drop(waiter);
    writer.check(
        "RPUSH a 1 => 1
         LRANGE a 0 -1 => [1]",
    );
    assert_eq!(fixture.layer.connections.blocking.counts().clients, 0);
}

#[test]
fn moves_wait_and_wake_each_other() {
    let fixture = Fixture::new();
    let (mut first, mut second, mut writer) = (fixture.connect(), fixture.connect(), fixture.connect());
    assert!(first.bytes(&["BLMOVE", "a", "b", "LEFT", "RIGHT", "0"]).is_empty());
    assert!(
        second
            .bytes(&["BLMPOP", "0", "2", "z", "b", "LEFT", "COUNT", "9"])
            .is_empty()
    );
    writer.check("RPUSH a x => 1");
    assert_eq!(first.mail(), b"$1\r\nx\r\n");
    assert_eq!(second.mail(), b"*2\r\n$1\r\nb\r\n*1\r\n$1\r\nx\r\n");
    writer.check("EXISTS a b => 0");
}

/// The target's kind is looked at when there is something to move; then the waiter gets the error and the element stays.
#[test]
fn a_move_onto_another_kind_ends_the_wait() {
    let fixture = Fixture::new();
    let (mut waiter, mut writer) = (fixture.connect(), fixture.connect());
    writer.check("SET b text => OK");
    assert!(waiter.bytes(&["BRPOPLPUSH", "a", "b", "0"]).is_empty());
    writer.check("RPUSH a x => 1");
    assert!(waiter.mail().starts_with(b"-WRONGTYPE"));
    writer.check("LRANGE a 0 -1 => [x]");
}

#[derive(Clone, Debug)]
enum Step {
    Push(bool, Vec<u8>),
    Pop(bool, usize),
    Set(i64, u8),
    Insert(bool, u8, u8),
    Remove(i64, u8),
    Trim(i64, i64),
    Rotate(bool, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let value = 0..20u8;
    prop_oneof![
        4 => (any::<bool>(), prop::collection::vec(value.clone(), 1..60)).prop_map(|(left, values)| Step::Push(left, values)),
        2 => (any::<bool>(), 0..30usize).prop_map(|(left, count)| Step::Pop(left, count)),
        1 => (-200..200i64, value.clone()).prop_map(|(index, value)| Step::Set(index, value)),
        3 => (any::<bool>(), value.clone(), value.clone()).prop_map(|(left, pivot, value)| Step::Insert(left, pivot, value)),
        2 => (-3..3i64, value).prop_map(|(count, value)| Step::Remove(count, value)),
        1 => (-300..30i64, -30..300i64).prop_map(|(start, stop)| Step::Trim(start, stop)),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(from, to)| Step::Rotate(from, to)),
    ]
}

fn side(left: bool) -> &'static str {
    if left { "LEFT" } else { "RIGHT" }
}

impl Step {
    fn words(&self) -> Vec<String> {
        let texts = |texts: &[&dyn ToString]| texts.iter().map(|text| text.to_string()).collect();
        match self {
            Step::Push(left, values) => {
                let mut words: Vec<String> = texts(&[if *left { &"LPUSH" } else { &"RPUSH" }, &"l"]);
                words.extend(values.iter().map(u8::to_string));
                words
            }
            Step::Pop(left, count) => texts(&[if *left { &"LPOP" } else { &"RPOP" }, &"l", count]),
            Step::Set(index, value) => texts(&[&"LSET", &"l", index, value]),
            Step::Insert(left, pivot, value) => {
                texts(&[&"LINSERT", &"l", if *left { &"BEFORE" } else { &"AFTER" }, pivot, value])
            }
            Step::Remove(count, value) => texts(&[&"LREM", &"l", count, value]),
            Step::Trim(start, stop) => texts(&[&"LTRIM", &"l", start, stop]),
            Step::Rotate(from, to) => texts(&[&"LMOVE", &"l", &"l", &side(*from), &side(*to)]),
        }
    }

    fn apply(&self, model: &mut VecDeque<u8>) {
        match self {
            Step::Push(true, values) => values.iter().for_each(|value| model.push_front(*value)),
            Step::Push(false, values) => model.extend(values),
            Step::Pop(left, count) => {
                for _ in 0..*count {
                    if *left {
                        model.pop_front()
                    } else {
                        model.pop_back()
                    };
                }
            }
            Step::Set(index, value) => {
                let index = if *index < 0 { index + model.len() as i64 } else { *index };
                if let Some(found) = usize::try_from(index).ok().and_then(|index| model.get_mut(index)) {
                    *found = *value;
                }
            }
            Step::Insert(left, pivot, value) => {
                if let Some(index) = model.iter().position(|found| found == pivot) {
                    model.insert(index + usize::from(!left), *value);
                }
            }
            Step::Remove(count, value) => remove(model, *count, *value),
            Step::Trim(start, stop) => {
                let kept = crate::parse::index_range(*start, *stop, model.len() as u64);
                model.truncate(kept.end as usize);
                model.drain(..kept.start as usize);
            }
            Step::Rotate(from, to) => {
                if let Some(value) = if *from { model.pop_front() } else { model.pop_back() } {
                    if *to {
                        model.push_front(value)
                    } else {
                        model.push_back(value)
                    }
                }
            }
        }
    }
}

fn remove(model: &mut VecDeque<u8>, count: i64, value: u8) {
    let mut left = if count == 0 {
        usize::MAX
    } else {
        count.unsigned_abs() as usize
    };
    let mut kept = VecDeque::new();
    let all: Vec<u8> = if count < 0 {
        model.iter().rev().copied().collect()
    } else {
        model.iter().copied().collect()
    };
    for found in all {
        if found == value && left > 0 {
            left -= 1;
        } else if count < 0 {
            kept.push_front(found);
        } else {
            kept.push_back(found);
        }
    }
    *model = kept;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn lists_are_sequences(start in prop_oneof![Just(0), Just(SMALL_COUNT_MAX * 2)], steps in prop::collection::vec(step(), 1..40)) {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        let mut model: VecDeque<u8> = (0..start).map(|number| (number % 20) as u8).collect();
        for value in &model {
            connection.run(&["RPUSH", "l", &value.to_string()]);
        }
        for step in steps {
            let words = step.words();
            connection.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            step.apply(&mut model);
            let expected: Vec<String> = model.iter().map(u8::to_string).collect();
            prop_assert_eq!(show(&connection.run(&["LRANGE", "l", "0", "-1"])), format!("[{}]", expected.join(" ")));
            prop_assert_eq!(show(&connection.run(&["LLEN", "l"])), expected.len().to_string());
            let last = connection.run(&["LINDEX", "l", "-1"]);
            prop_assert_eq!(show(&last), expected.last().cloned().unwrap_or("nil".into()));
        }
    }
}
