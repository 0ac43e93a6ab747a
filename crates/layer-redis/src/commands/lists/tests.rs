//! Lists against scripts, against a model, and with several connections.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use proptest::prelude::*;
use quartet_model::Version;

use super::rows::SMALL_COUNT_MAX;
use crate::keyspace::key_row;
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

#[test]
fn insertions_at_one_place_keep_the_expiry() {
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

/// Each element used to cost three checks whether the key exists, and a copy of the whole queue for
/// two of them.
#[test]
fn handing_an_element_over_takes_four_transactions() {
    let fixture = Fixture::new();
    let mut waiting: Vec<_> = (0..3).map(|_| fixture.connect()).collect();
    for connection in &mut waiting {
        assert!(connection.bytes(&["BRPOP", "a", "0"]).is_empty());
    }
    let mut writer = fixture.connect();
    let transactions = || fixture.layer.engine.statistics().transactions();
    for connection in &mut waiting[..2] {
        let before = transactions();
        writer.check("LPUSH a x => 1");
        assert_eq!(connection.mail(), b"*2\r\n$1\r\na\r\n$1\r\nx\r\n");
        // LPUSH, the check of the key, BRPOP, and the check for the next waiter.
        assert_eq!(transactions() - before, 4);
    }
    assert!(!fixture.layer.connections.blocking.has_work());
    writer.check("EXISTS a => 0");
}

/// REPLICAOF ends all waits without the partition's lock. A thread that served a row meanwhile said
/// that nothing was left to do.
#[test]
fn waits_that_end_while_a_row_is_served_are_not_forgotten() {
    let fixture = Fixture::new();
    let (mut waiter, mut writer) = (fixture.connect(), fixture.connect());
    assert!(waiter.bytes(&["BLPOP", "a", "0"]).is_empty());
    let blocking = &fixture.layer.connections.blocking;
    blocking.end_all_soon("UNBLOCKED");
    blocking.is_done_with(b"row");
    assert!(blocking.has_work());
    assert_eq!(blocking.next_row(), None);
    assert!(blocking.has_work());
    writer.check("EXISTS a => 0");
    assert_eq!(waiter.mail(), b"-UNBLOCKED\r\n");
    assert!(!blocking.has_work());
}

#[test]
fn a_transaction_is_whole_before_a_waiter_is_served() {
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

/// The target's kind is looked at when there is something to move; then the waiter gets the error
/// and the element stays.
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

fn findings(fixture: &Fixture) -> u64 {
    fixture.findings().count
}

/// A pop and a push at a border between blocks, from either end, until nothing is left.
#[test]
fn queues_run_in_both_directions() {
    for (push, pop) in [
        ("LPUSH", "RPOP"),
        ("RPUSH", "LPOP"),
        ("LPUSH", "LPOP"),
        ("RPUSH", "RPOP"),
    ] {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        let mut model = VecDeque::new();
        for number in 0..600 {
            let value = format!("{number:04}{}", "x".repeat(number % 70));
            connection.run(&[push, "l", &value]);
            model.push_front(value);
            if number > 300 && number % 3 > 0 {
                let expected = if push[..1] == pop[..1] {
                    model.pop_front()
                } else {
                    model.pop_back()
                };
                assert_eq!(show(&connection.run(&[pop, "l"])), expected.unwrap());
            }
        }
        assert_eq!(findings(&fixture), 0);
        while let Some(expected) = if push[..1] == pop[..1] {
            model.pop_front()
        } else {
            model.pop_back()
        } {
            assert_eq!(show(&connection.run(&[pop, "l"])), expected);
        }
        connection.check("EXISTS l => 0");
        assert_eq!(findings(&fixture), 0);
    }
}

/// The reason for blocks: the number of a list's rows, and of the rows written by a push.
#[test]
fn short_elements_share_rows_and_long_elements_do_not() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    let rows = || {
        let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
        reader.count(b"E", b"F")
    };
    fill(&mut connection, "l", 6400);
    assert!((200..=300).contains(&rows()), "{}", rows());
    connection.check("DEL l => 1");
    assert_eq!(rows(), 0);
    let long = "x".repeat(1000);
    for _ in 0..20 {
        connection.run(&["RPUSH", "l", &long]);
        connection.run(&["LPUSH", "l", &long]);
    }
    assert_eq!(rows(), 40);
}

/// Each push and pop used to write, log and copy the other end, although that was unused.
#[test]
fn an_end_that_is_not_used_is_not_written() {
    for (fill, change) in [
        ("LPUSH", "RPUSH"),
        ("RPUSH", "LPUSH"),
        ("LPUSH", "RPOP"),
        ("RPUSH", "LPOP"),
    ] {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        let key_bytes = || {
            let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
            reader.get(&key_row(0, b"l")).unwrap().len()
        };
        // 28 elements of four bytes are left at the end that has been pushed to.
        (0..32 * 10 + 28).for_each(|_| drop(connection.run(&[fill, "l", "xyz"])));
        for number in 0..100 {
            let words: &[&str] = if change.ends_with("POP") {
                &[change, "l"]
            } else {
                &[change, "l", "xyz"]
            };
            connection.run(words);
            let bytes = key_bytes();
            assert!(number < 40 || bytes <= 1 + 32 + 128, "{fill}, {change}: {bytes} bytes");
        }
        assert_eq!(findings(&fixture), 0);
    }
}

/// A short queue would become one row per element if the other end were made a block each time a
/// block is absorbed.
#[test]
fn a_short_queue_stays_in_few_rows() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    fill(&mut connection, "l", 200);
    for number in 0..3000 {
        connection.run(&["LPUSH", "l", &format!("{number:03}")]);
        connection.run(&["RPOP", "l"]);
    }
    let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
    let rows = reader.count(b"E", b"F");
    assert!(rows <= 15, "{rows} rows for 200 elements");
    connection.check("LLEN l => 200");
    assert_eq!(findings(&fixture), 0);
}

/// The blocks of all lists, with the versions that wrote them.
fn blocks(fixture: &Fixture) -> Vec<(Version, Vec<u8>)> {
    let mut blocks = Vec::new();
    let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
    reader.scan_rows(b"E", b"F", &mut |row| {
        blocks.push((row.version(), row.value().to_vec()));
        ControlFlow::Continue(())
    });
    blocks
}

/// The number of blocks that a command writes.
fn written(fixture: &Fixture, connection: &mut Connection, words: &[&str]) -> usize {
    let before = blocks(fixture);
    connection.run(words);
    blocks(fixture).iter().filter(|block| !before.contains(block)).count()
}

/// The blocks after or before it moved up to the nearer end.
#[test]
fn changes_in_the_middle_leave_other_blocks_where_they_are() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    fill(&mut connection, "l", 3000);
    let long = "x".repeat(100);
    for change in [
        &["LREM", "l", "1", "1000"][..],
        &["LINSERT", "l", "AFTER", "2000", "y"],
        &["LSET", "l", "1500", &long],
        &["LREM", "l", "1", &long],
        &["LINSERT", "l", "BEFORE", "1500", &long],
    ] {
        let written = written(&fixture, &mut connection, change);
        assert!(written <= 4, "{change:?} writes {written}");
        assert_eq!(findings(&fixture), 0);
    }
    connection.check("LLEN l => 3000");
}

/// Also if many are inserted between two adjacent elements, and there is no room for their blocks.
#[test]
fn insertions_at_one_place_seldom_move_others() {
    for place in ["2000", "4000", "6000"] {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        fill(&mut connection, "l", 8_000);
        let mut moved = 0;
        for number in 0..500 {
            let value = format!("{number}{}", "x".repeat(if number % 3 == 0 { 60 } else { 1 }));
            let written = written(&fixture, &mut connection, &["LINSERT", "l", "AFTER", place, &value]);
            moved += usize::from(written > 256 + 4);
        }
        assert!(moved <= 2, "{moved} of 500 insertions moved others");
        assert_eq!(findings(&fixture), 0);
        connection.check("LLEN l => 8500");
    }
}

/// The key's row, which each push writes, has a bounded number of shifts; what is between two moves
/// when there are more.
#[test]
fn removals_all_over_a_list_move_little() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    fill(&mut connection, "l", 20_000);
    let mut remaining: Vec<usize> = (0..20_000).collect();
    let (mut all, mut seed) = (0, 7usize);
    for _ in 0..200 {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let value = remaining.remove((seed >> 33) % remaining.len());
        all += written(&fixture, &mut connection, &["LREM", "l", "1", &value.to_string()]);
        let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
        assert!(reader.get(&key_row(0, b"l")).unwrap().len() <= 1 + 32 + 1 + 8 * 16 + 2 * 128);
    }
    assert!(all / 200 < blocks(&fixture).len() / 20, "{all} blocks written");
    assert_eq!(findings(&fixture), 0);
    let expected: Vec<String> = remaining.iter().map(usize::to_string).collect();
    assert_eq!(
        show(&connection.run(&["LRANGE", "l", "0", "-1"])),
        format!("[{}]", expected.join(" "))
    );
    for index in (0..remaining.len()).step_by(97) {
        assert_eq!(
            show(&connection.run(&["LINDEX", "l", &index.to_string()])),
            expected[index]
        );
    }
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
        3 => (any::<bool>(), prop_oneof![0..3usize, 0..90usize]).prop_map(|(left, count)| Step::Pop(left, count)),
        3 => (-200..200i64, value.clone()).prop_map(|(index, value)| Step::Set(index, value)),
        3 => (any::<bool>(), value.clone(), value.clone()).prop_map(|(left, pivot, value)| Step::Insert(left, pivot, value)),
        2 => (-3..3i64, value).prop_map(|(count, value)| Step::Remove(count, value)),
        1 => (-300..60i64, -60..300i64).prop_map(|(start, stop)| Step::Trim(start, stop)),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(from, to)| Step::Rotate(from, to)),
    ]
}

/// Most are short, some at the borders between short and long, some long.
fn text(value: &u8) -> String {
    let lengths = [0, 1, 2, 3, 39, 40, 41, 127, 128, 400];
    let letter = char::from(b'a' + value);
    let length = lengths[usize::from(*value).saturating_sub(10)];
    letter.to_string().repeat(length.max(usize::from(*value < 10)))
}

fn side(is_left: bool) -> &'static str {
    if is_left { "LEFT" } else { "RIGHT" }
}

impl Step {
    fn words(&self) -> Vec<String> {
        let texts = |texts: &[&dyn ToString]| texts.iter().map(|text| text.to_string()).collect();
        match self {
            Step::Push(is_left, values) => {
                let mut words: Vec<String> = texts(&[if *is_left { &"LPUSH" } else { &"RPUSH" }, &"l"]);
                words.extend(values.iter().map(text));
                words
            }
            Step::Pop(is_left, 1) => texts(&[if *is_left { &"LPOP" } else { &"RPOP" }, &"l"]),
            Step::Pop(is_left, count) => texts(&[if *is_left { &"LPOP" } else { &"RPOP" }, &"l", count]),
            Step::Set(index, value) => texts(&[&"LSET", &"l", index, &text(value)]),
            Step::Insert(is_left, pivot, value) => {
                let side = if *is_left { &"BEFORE" } else { &"AFTER" };
                texts(&[&"LINSERT", &"l", side, &text(pivot), &text(value)])
            }
            Step::Remove(count, value) => texts(&[&"LREM", &"l", count, &text(value)]),
            Step::Trim(start, stop) => texts(&[&"LTRIM", &"l", start, stop]),
            Step::Rotate(from, to) => texts(&[&"LMOVE", &"l", &"l", &side(*from), &side(*to)]),
        }
    }

    fn apply(&self, model: &mut VecDeque<u8>) {
        match self {
            Step::Push(true, values) => values.iter().for_each(|value| model.push_front(*value)),
            Step::Push(false, values) => model.extend(values),
            Step::Pop(is_left, count) => {
                for _ in 0..*count {
                    if *is_left {
                        model.pop_front()
                    } else {
                        model.pop_back()
                    };
                }
            }
            Step::Set(index, value) => {
                let index = if *index < 0 { index + model.len() as i64 } else { *index };
                if let Some(element) = usize::try_from(index).ok().and_then(|index| model.get_mut(index)) {
                    *element = *value;
                }
            }
            Step::Insert(is_left, pivot, value) => {
                if let Some(index) = model.iter().position(|element| element == pivot) {
                    model.insert(index + usize::from(!is_left), *value);
                }
            }
            Step::Remove(count, value) => remove(model, *count, *value),
            Step::Trim(start, stop) => {
                let range = crate::command::parse::index_range(*start, *stop, model.len() as u64);
                model.truncate(range.end as usize);
                model.drain(..range.start as usize);
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
    let mut remaining = if count == 0 {
        usize::MAX
    } else {
        count.unsigned_abs() as usize
    };
    let mut retained = VecDeque::new();
    let all: Vec<u8> = if count < 0 {
        model.iter().rev().copied().collect()
    } else {
        model.iter().copied().collect()
    };
    for element in all {
        if element == value && remaining > 0 {
            remaining -= 1;
        } else if count < 0 {
            retained.push_front(element);
        } else {
            retained.push_back(element);
        }
    }
    *model = retained;
}

/// A change in the middle of a list: the element at a fraction of its length is removed, replaced
/// or next to the new one.
#[derive(Clone, Copy, Debug)]
enum Amidst {
    Insert {
        left: bool,
        long: bool,
    },
    Remove,
    /// The element, and another at this distance after it.
    RemoveAll(usize),
    Set {
        long: bool,
    },
    Push {
        left: bool,
    },
    Pop {
        left: bool,
        count: usize,
    },
}

fn amidst() -> impl Strategy<Value = Amidst> {
    let (is_left, long) = (any::<bool>(), any::<bool>());
    prop_oneof![
        6 => (is_left, long).prop_map(|(is_left, long)| Amidst::Insert { left: is_left, long }),
        4 => Just(Amidst::Remove),
        1 => (0..90usize).prop_map(Amidst::RemoveAll),
        1 => long.prop_map(|long| Amidst::Set { long }),
        1 => is_left.prop_map(|is_left| Amidst::Push { left: is_left }),
        1 => (is_left, prop_oneof![1..3usize, 1..120usize]).prop_map(|(is_left, count)| Amidst::Pop { left: is_left, count }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Some of 800 blocks move when there is no room for others. All elements differ, except those
    /// removed together.
    #[test]
    fn changes_all_over_a_list(
        is_long in any::<bool>(),
        steps in prop::collection::vec((amidst(), 0..1000usize, 0..4usize), 1..60),
    ) {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        let value = |number: usize, long: bool| format!("{number:05}{}", if long { "x".repeat(60) } else { String::new() });
        let mut model: VecDeque<String> = (0..if is_long { 800 } else { 4000 }).map(|number| value(number, is_long)).collect();
        model.iter().for_each(|value| drop(connection.run(&["RPUSH", "l", value])));
        let mut place = 500;
        for (number, (step, part, stays)) in (10_000..).zip(steps) {
            // Most changes are close to the previous one.
            if stays == 0 {
                place = part;
            }
            let at = place * model.len() / 1000;
            let Some(there) = model.get(at).cloned() else { break };
            let words: Vec<String> = match step {
                Amidst::Insert { left, long } => {
                    let new = value(number, long);
                    model.insert(at + usize::from(!left), new.clone());
                    vec!["LINSERT".into(), "l".into(), if left { "BEFORE" } else { "AFTER" }.into(), there, new]
                }
                Amidst::Remove => {
                    model.remove(at);
                    vec!["LREM".into(), "l".into(), "-1".into(), there]
                }
                Amidst::RemoveAll(further) => {
                    let other = (at + further).min(model.len() - 1);
                    connection.run(&["LSET", "l", &other.to_string(), &there]);
                    model[other] = there.clone();
                    model.retain(|element| *element != there);
                    vec!["LREM".into(), "l".into(), "0".into(), there]
                }
                Amidst::Set { long } => {
                    model[at] = value(number, long);
                    vec!["LSET".into(), "l".into(), at.to_string(), model[at].clone()]
                }
                Amidst::Push { left } => {
                    let new = value(number, number % 2 == 0);
                    if left { model.push_front(new.clone()) } else { model.push_back(new.clone()) }
                    vec![if left { "LPUSH" } else { "RPUSH" }.into(), "l".into(), new]
                }
                Amidst::Pop { left, count } => {
                    let count = count.min(model.len());
                    if left { drop(model.drain(..count)) } else { model.truncate(model.len() - count) }
                    vec![if left { "LPOP" } else { "RPOP" }.into(), "l".into(), count.to_string()]
                }
            };
            connection.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert_eq!(findings(&fixture), 0, "{:?}", words);
            let expected: Vec<&str> = model.iter().map(String::as_str).collect();
            prop_assert_eq!(show(&connection.run(&["LRANGE", "l", "0", "-1"])), format!("[{}]", expected.join(" ")));
            let from = at.saturating_sub(20);
            let near = expected.get(from..(at + 20).min(expected.len())).unwrap_or_default();
            let shown = show(&connection.run(&["LRANGE", "l", &from.to_string(), &(at + 19).to_string()]));
            prop_assert_eq!(shown, format!("[{}]", near.join(" ")));
            if let Some(last) = expected.last() {
                let found = connection.run(&["LPOS", "l", last, "RANK", "-1"]);
                prop_assert_eq!(show(&found), (expected.len() - 1).to_string());
            }
        }
        while let Some(first) = model.pop_front() {
            prop_assert_eq!(show(&connection.run(&["LPOP", "l"])), first);
            if let Some(last) = model.pop_back() {
                prop_assert_eq!(show(&connection.run(&["RPOP", "l"])), last);
            }
        }
        prop_assert_eq!(findings(&fixture), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn lists_are_sequences(
        count in prop_oneof![Just(0), Just(SMALL_COUNT_MAX * 2)],
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        let mut model: VecDeque<u8> = (0..count).map(|number| (number % 20) as u8).collect();
        model.iter().for_each(|value| drop(connection.run(&["RPUSH", "l", &text(value)])));
        for step in steps {
            let words = step.words();
            connection.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            step.apply(&mut model);
            let expected: Vec<String> = model.iter().map(text).collect();
            prop_assert_eq!(show(&connection.run(&["LRANGE", "l", "0", "-1"])), format!("[{}]", expected.join(" ")));
            prop_assert_eq!(show(&connection.run(&["LLEN", "l"])), expected.len().to_string());
            let last = connection.run(&["LINDEX", "l", "-1"]);
            prop_assert_eq!(show(&last), expected.last().cloned().unwrap_or("nil".into()));
            let middle = connection.run(&["LRANGE", "l", &(expected.len() / 3).to_string(), &(expected.len() / 2).to_string()]);
            let wanted = expected.get(expected.len() / 3..(expected.len() / 2 + 1).min(expected.len())).unwrap_or_default();
            prop_assert_eq!(show(&middle), format!("[{}]", wanted.join(" ")));
            let found = expected.iter().rposition(|element| *element == text(&3)).map_or("nil".into(), |index| index.to_string());
            prop_assert_eq!(show(&connection.run(&["LPOS", "l", &text(&3), "RANK", "-1"])), found);
        }
        prop_assert_eq!(findings(&fixture), 0);
    }
}
