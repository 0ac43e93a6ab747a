//! Commands at paths of documents in pieces, compared with the same commands on packed documents,
//! which are read and written whole.
//!
//! A document of 4 MB was read whole for each of its members, and a change of one logged 3.6 MB.

use std::sync::Arc;

use quartet_engine::{Durability, Engine, EngineOptions, Space, StoreKind};
use quartet_env::{FaultyDisk, ManualClock};
use quartet_model::{DatabaseId, LayerId};

use super::document::{Json, Location};
use crate::layer::{Identity, Redis};
use crate::testing::{Choice, Connection, Fixture, findings, show};

/// Bytes of the first member, which only the document in pieces has.
const PAD_BYTES: usize = 20_000;
/// A longer model would be in pieces too.
const MODEL_BYTES_MAX: usize = 15_000;

fn any_text(choice: &mut Choice) -> String {
    match choice.below(12) {
        0 => "\u{7f}n1".to_owned(),
        1 => "\u{7f}\u{7f}s1:2".to_owned(),
        2 => "\"quoted\"\n\u{1}".repeat(choice.below(20) as usize),
        3 => "x".repeat(choice.below(900) as usize),
        4 => "12:ä".to_owned(),
        _ => format!("text {}", choice.below(1000)),
    }
}

fn any_name(choice: &mut Choice) -> String {
    match choice.below(20) {
        0 => "\u{7f}o1:2:3".to_owned(),
        1 => "y".repeat(choice.below(200) as usize),
        _ => format!("m{}", choice.below(300)),
    }
}

fn any_value(choice: &mut Choice, depth: u64) -> Json {
    match choice.below(if depth == 0 { 6 } else { 10 }) {
        0 => Json::Null,
        1 => Json::Boolean(choice.below(2) == 0),
        2 => Json::Double(choice.below(1000) as f64 / 8.0),
        3 | 4 => Json::Text(any_text(choice)),
        5 => Json::Integer(choice.below(1 << 32) as i64 - 7),
        6 | 7 => {
            let many = choice.below(12);
            Json::Array((0..many).map(|_| any_value(choice, depth - 1)).collect())
        }
        _ => object(choice, 12, depth - 1),
    }
}

fn object(choice: &mut Choice, many: u64, depth: u64) -> Json {
    let mut object = Json::Object(Vec::new());
    for _ in 0..choice.below(many) {
        let name = any_name(choice);
        object.set_member(&name, any_value(choice, depth));
    }
    object
}

/// A document with an array and an object that take several levels of pieces.
fn any_document(choice: &mut Choice) -> Json {
    let records = (0..choice.below(100)).map(|number| {
        let members = [("id", number), ("sold", 0)];
        let members = members.map(|(name, value)| (name.to_owned(), Json::Integer(value as i64)));
        Json::Object(members.into())
    });
    let records = Json::Array(records.collect());
    let names = (0..choice.below(200)).map(|number| (format!("m{number}"), Json::Integer(number as i64)));
    let names = Json::Object(names.collect());
    Json::Object(vec![
        ("records".into(), records),
        ("some".into(), any_value(choice, 4)),
        ("names".into(), names),
        ("other".into(), any_value(choice, 3)),
    ])
}

fn locations(value: &Json, location: &mut Location, locations_below: &mut Vec<Location>) {
    locations_below.push(location.clone());
    for (index, child) in value.children().enumerate() {
        location.push(index);
        locations(child, location, locations_below);
        location.pop();
    }
}

/// A path of either kind, to a value below the root or to no value.
fn any_path(choice: &mut Choice, document: &Json) -> String {
    let mut all = Vec::new();
    locations(document, &mut Location::new(), &mut all);
    // Values near the root are selected as often as the many values below.
    let depth = choice.below(5) as usize;
    let location = all[choice.below(all.len() as u64) as usize].clone();
    let location = &location[..location.len().min(depth.max(1))];
    let mut path = if choice.below(3) == 0 { "" } else { "$" }.to_owned();
    let mut value = document;
    let quoted = |name: &str| format!("[\"{}\"]", name.replace('\\', "\\\\").replace('"', "\\\""));
    for &index in location {
        let child = value.children().nth(index).expect("a location that was found");
        match value {
            Json::Object(members) => path += &quoted(&members[index].0),
            Json::Array(elements) if choice.below(3) == 0 => path += &format!("[-{}]", elements.len() - index),
            _ => path += &format!("[{index}]"),
        }
        value = child;
    }
    if location.is_empty() {
        path += "[\"records\"]";
    }
    match choice.below(8) {
        0 => path += &quoted(&any_name(choice)),
        1 => path += &format!("[{}]", choice.below(9)),
        2 if choice.below(3) == 0 => path += ["[*]", "..id", "[1:3]", "[?(@.id>3)].sold"][choice.below(4) as usize],
        _ => {}
    }
    path
}

fn any_command(choice: &mut Choice, document: &Json) -> Vec<String> {
    let path = any_path(choice, document);
    let value = any_value(choice, 3);
    let text = |value: &Json| String::from_utf8(value.text()).unwrap();
    let index = format!("{}", choice.below(40) as i64 - 20);
    let (name, arguments): (&str, Vec<String>) = match choice.below(30) {
        0..3 => ("JSON.SET", vec![path, text(&value)]),
        3 => ("JSON.SET", vec![path, text(&value), "NX".into()]),
        4 => ("JSON.SET", vec![path, text(&value), "XX".into()]),
        5 => ("JSON.GET", vec![path]),
        6 => (
            "JSON.GET",
            vec![path, any_path(choice, document), any_path(choice, document)],
        ),
        7 => ("JSON.TYPE", vec![path]),
        8 => ("JSON.STRLEN", vec![path]),
        9 => ("JSON.ARRLEN", vec![path]),
        10 => ("JSON.OBJLEN", vec![path]),
        11 => ("JSON.OBJKEYS", vec![path]),
        12 => ("JSON.RESP", vec![path]),
        13 => ("JSON.NUMINCRBY", vec![path, "1.5".into()]),
        14 => ("JSON.NUMMULTBY", vec![path, "3".into()]),
        15 => ("JSON.STRAPPEND", vec![path, text(&Json::Text(any_text(choice)))]),
        16 => ("JSON.TOGGLE", vec![path]),
        17 | 18 => {
            let values = (0..=choice.below(40)).map(|_| text(&any_value(choice, 1)));
            ("JSON.ARRAPPEND", [path].into_iter().chain(values).collect())
        }
        19 | 20 => {
            let values = (0..=choice.below(3)).map(|_| text(&any_value(choice, 2)));
            ("JSON.ARRINSERT", [path, index].into_iter().chain(values).collect())
        }
        21 => ("JSON.ARRPOP", vec![path, index]),
        22 => (
            "JSON.ARRTRIM",
            vec![path, index, format!("{}", choice.below(60) as i64 - 10)],
        ),
        23 => ("JSON.ARRINDEX", vec![path, text(&value), index]),
        24 => ("JSON.DEL", vec![path]),
        25 => ("JSON.CLEAR", vec![path]),
        26 => ("JSON.MERGE", vec![path, text(&value)]),
        27 => ("JSON.MERGE", vec!["$".into(), text(&object(choice, 9, 2))]),
        28 => ("JSON.DEBUG", vec![path]),
        _ => (
            "JSON.MSET",
            vec![
                path,
                text(&value),
                any_path(choice, document),
                text(&any_value(choice, 1)),
            ],
        ),
    };
    [name.to_owned()].into_iter().chain(arguments).collect()
}

/// The command for a key.
fn words<'c>(command: &'c [String], key: &'c str) -> Vec<&'c str> {
    let [name, path, arguments @ ..] = command else {
        unreachable!()
    };
    let mut words = match name.as_str() {
        "JSON.DEBUG" => vec![name, "MEMORY", key, path],
        _ => vec![name.as_str(), key, path],
    };
    match (name.as_str(), arguments) {
        ("JSON.MSET", [value, second, other]) => words.extend([value, key, second, other.as_str()]),
        _ => words.extend(arguments.iter().map(String::as_str)),
    }
    words
}

struct World {
    store: StoreKind,
    disk: FaultyDisk,
    clock: Arc<ManualClock>,
}

impl World {
    fn open(&self) -> Arc<Redis> {
        let options = EngineOptions {
            store: Some(self.store),
            checkpoint_log_bytes: 256 << 10,
            unflushed_log_bytes: 64 << 10,
            cache_bytes: 64 << 10,
            ..EngineOptions::default()
        };
        let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
        let disk = Arc::new(self.disk.clone());
        let engine = Engine::open(disk, self.clock.clone(), options, failure, &mut |_| {}).unwrap();
        let space = Space {
            database: DatabaseId(1),
            layer: LayerId::Redis,
            durability: Durability::Always,
        };
        Arc::new(Redis::new(
            Arc::new(engine),
            space,
            crate::commands::own(),
            Identity::default(),
            Box::new(|| {}),
        ))
    }
}

fn wait_durable(layer: &Redis) {
    let last = layer.engine.partition().last_version();
    assert!(layer.engine.wait_durable(last));
}

fn check_invariants(layer: &Redis) {
    let findings = findings(layer).kept;
    let messages: Vec<_> = findings.iter().map(|finding| &finding.what).collect();
    assert!(messages.is_empty(), "{messages:?}");
}

fn get(connection: &mut Connection, key: &str) -> String {
    show(&connection.run(&["JSON.GET", key]))
}

/// The document without its first member.
fn without_pad(text: &str) -> String {
    let suffix = &text[r#"{"pad":"""#.len() + PAD_BYTES..];
    format!("{{{}", suffix.strip_prefix(',').unwrap_or(suffix))
}

fn judge(store: StoreKind, seeds: std::ops::Range<u64>) {
    let world = World {
        store,
        disk: FaultyDisk::new(),
        clock: Arc::new(ManualClock::new(1_700_000_000_000_000)),
    };
    for seed in seeds {
        let choice = &mut Choice(seed);
        let layer = world.open();
        let mut connection = Connection::to(&layer);
        let mut model = any_document(choice);
        let text = String::from_utf8(model.text()).unwrap();
        let padded = format!("{{\"pad\":\"{}\",{}", "p".repeat(PAD_BYTES), &text[1..]);
        connection.run(&["JSON.SET", "whole", "$", &text]);
        connection.run(&["JSON.SET", "pieces", "$", &padded]);
        for _ in 0..120 {
            let command = any_command(choice, &model);
            let [whole, pieces] = ["whole", "pieces"].map(|key| show(&connection.run(&words(&command, key))));
            assert_eq!(whole, pieces, "{command:?} with seed {seed}");
            let text = get(&mut connection, "whole");
            assert_eq!(
                text,
                without_pad(&get(&mut connection, "pieces")),
                "{command:?} with seed {seed}"
            );
            if text.len() > MODEL_BYTES_MAX {
                break;
            }
            model = Json::parse(text.as_bytes()).unwrap();
        }
        check_invariants(&layer);
        let before = ["whole", "pieces"].map(|key| get(&mut connection, key));
        wait_durable(&layer);
        drop((connection, layer));
        let layer = world.open();
        let mut connection = Connection::to(&layer);
        assert_eq!(before, ["whole", "pieces"].map(|key| get(&mut connection, key)));
        check_invariants(&layer);
        connection.run(&["COPY", "pieces", "copy"]);
        assert_eq!(get(&mut connection, "copy"), before[1]);
        let dump = connection.run(&["DEL", "whole", "pieces", "copy"]);
        assert_eq!(show(&dump), "3");
        check_invariants(&layer);
        wait_durable(&layer);
    }
}

#[test]
fn a_command_at_a_path_is_as_in_the_whole_document() {
    judge(StoreKind::Memory, 0..24);
}

#[test]
fn a_command_at_a_path_on_ssd_is_as_in_the_whole_document() {
    judge(StoreKind::Ssd, 1000..1012);
}

/// Each command logs what it changes: at most 1 kB, in a document of 4 MB.
#[test]
fn a_change_of_a_member_logs_no_more_than_the_member() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    let records: Vec<String> = (0..70_000)
        .map(|number| format!("{{\"id\":{number},\"sold\":0,\"tags\":[\"a\",\"b\"]}}"))
        .collect();
    let members: Vec<String> = (0..70_000)
        .map(|number| format!("\"member {number}\":{{\"n\":{number}}}"))
        .collect();
    let text = format!(
        "{{\"records\":[{}],\"count\":1,\"deep\":{{\"er\":{{\"n\":1.5}}}},\"wide\":{{{}}}}}",
        records.join(","),
        members.join(",")
    );
    assert!(text.len() > 4 << 20, "{}", text.len());
    connection.run(&["JSON.SET", "j", "$", &text]);
    let engine = &fixture.layer.engine;
    wait_durable(&fixture.layer);
    let mut reader = engine.read_log(engine.durable_sequence().next()).unwrap();
    for (command, expected) in [
        ("JSON.NUMINCRBY j $.count 9", "[10]"),
        ("JSON.NUMINCRBY j $.records[31234].sold 5", "[5]"),
        ("JSON.NUMINCRBY j .records[-1].sold 5", "5"),
        ("JSON.NUMMULTBY j $.deep.er.n 2", "[3.0]"),
        ("JSON.SET j $.records[7].id \"seven\"", "OK"),
        ("JSON.STRAPPEND j $.records[7].id \"th\"", "[7]"),
        ("JSON.SET j $.records[8] {\"a\":[1,2,3]}", "OK"),
        ("JSON.SET j $.records[9].new true", "OK"),
        ("JSON.TOGGLE j $.records[9].new", "[0]"),
        ("JSON.SET j $.new {\"a\":1}", "OK"),
        ("JSON.SET j $.wide.new 1", "OK"),
        ("JSON.SET j $.wide[\"member\"] 1", "OK"),
        ("JSON.ARRAPPEND j $.records {\"a\":1} {\"b\":2}", "[70002]"),
        ("JSON.ARRINSERT j $.records 0 {\"a\":1}", "[70003]"),
        ("JSON.ARRINSERT j $.records 30000 {\"a\":1}", "[70004]"),
        ("JSON.ARRPOP j $.records", "[{\"b\":2}]"),
        ("JSON.ARRPOP j $.records 30000", "[{\"a\":1}]"),
        ("JSON.ARRPOP j .records 0", "{\"a\":1}"),
        ("JSON.ARRTRIM j $.records 1 -1", "[70000]"),
        ("JSON.ARRTRIM j .records 0 -2", "69999"),
        ("JSON.MERGE j $ {\"q\":1,\"new\":null}", "OK"),
        ("JSON.MERGE j $.wide {\"new\":{\"x\":1}}", "OK"),
        ("JSON.CLEAR j $.wide.new", "1"),
        ("JSON.DEL j $.wide.new", "1"),
        ("JSON.DEL j $.records[500]", "1"),
        ("JSON.DEL j $.q", "1"),
        ("JSON.MSET j $.m1 1 j $.m2 2", "OK"),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(show(&connection.run(&words)), expected, "{command}");
        wait_durable(&fixture.layer);
        let record = reader.next().unwrap().expect("a record");
        assert!(
            record.payload.len() <= 1000,
            "{command}: {} bytes",
            record.payload.len()
        );
    }
    // Containers that grow at one place, too: there, pieces are divided.
    let (mut most, mut all) = (0, 0);
    for number in 0..150 {
        let number = number.to_string();
        let (name, member) = (format!("$.wide.n{number}"), format!("$.k{number}"));
        for words in [
            &["JSON.ARRINSERT", "j", "$.records", "777", &number][..],
            &["JSON.ARRAPPEND", "j", "$.records", "{\"some\":\"thing\"}"],
            &["JSON.SET", "j", &name, &number],
            &["JSON.SET", "j", &member, &number],
        ] {
            connection.run(words);
            wait_durable(&fixture.layer);
            let bytes = reader.next().unwrap().expect("a record").payload.len();
            (most, all) = (bytes.max(most), all + bytes);
        }
    }
    assert!(
        most <= 3000 && all / 600 <= 700,
        "at most {most}, on average {}",
        all / 600
    );
    connection.check(
        "JSON.GET j $.count => [10]
         JSON.GET j $.records[30] => [{\"id\":31,\"sold\":0,\"tags\":[\"a\",\"b\"]}]
         JSON.GET j $.records[6].id => [\"seventh\"]
         JSON.NUMINCRBY j $.records[6].id 1 => [null]
         JSON.NUMINCRBY j .nothing 1 => !ERR Path '$.nothing' does not exist or does not contain a number
         JSON.ARRLEN j $.records => [70298]
         JSON.OBJLEN j $.wide => [70151]
         JSON.ARRINDEX j $.records {\"some\":\"thing\"} 50000 => [70148]
         JSON.GET j $.deep => [{\"er\":{\"n\":3.0}}]",
    );
    check_invariants(&fixture.layer);
    assert_eq!(show(&connection.run(&["JSON.DEL", "j", "$.records"])), "1");
    assert_eq!(show(&connection.run(&["JSON.DEL", "j", "$.wide"])), "1");
    check_invariants(&fixture.layer);
}
