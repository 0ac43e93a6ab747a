//! Key selectors and ranges over a few short keys, as the layer resolves them and as a sorted map
//! does. The input is keys that are there, and then questions.
#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use quartet_engine::{Durability, Engine, EngineOptions, Space};
use quartet_env::{FaultyDisk, SystemClock};
use quartet_layer_keyvalue::{Answered, KeyValue, Options, Session};
use quartet_model::{DatabaseId, LayerId};
use quartet_wire_keyvalue::{
    Commit, Mutation, MutationKind, RangeReply, RangeRequest, Reply, Request, Selector, next_frame,
};

const KEYS_MAX: u8 = 32;
const KEY_BYTES_MAX: u8 = 4;
/// Overhead of a row beside its key and value, as the original counts it.
const ROW_BYTES: usize = 24;
const KEY_OUTSIDE_LEGAL_RANGE: u16 = 2004;

static LAYER: LazyLock<Arc<KeyValue>> = LazyLock::new(|| {
    let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
    let disk = Arc::new(FaultyDisk::new());
    let engine = Engine::open(
        disk,
        Arc::new(SystemClock),
        EngineOptions::default(),
        failure,
        &mut |_| {},
    )
    .unwrap();
    let space = Space {
        database: DatabaseId(1),
        layer: LayerId::KeyValue,
        durability: Durability::None,
    };
    Arc::new(KeyValue::new(Arc::new(engine), space, Options::default(), 1))
});

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let rows: Rows = (0..input.byte() % KEYS_MAX)
        .map(|number| (input.key().to_vec(), vec![b'v'; usize::from(number % 3)]))
        .filter(|(key, _)| key.as_slice() < keys_end(true))
        .collect();
    let mut session = Session::new(LAYER.clone(), true, Arc::new(|| ()));
    session.begin_batch();
    store(&mut session, &rows);
    let body = ask(&mut session, &Request::ReadVersion).unwrap();
    let version = Reply::number(&body).unwrap();
    while !input.0.is_empty() {
        let (choice, begin, end) = (input.byte(), input.selector(), input.selector());
        let system = choice & 1 == 1;
        compare_key(&mut session, &rows, version, begin, system);
        let range = RangeRequest {
            version,
            begin,
            end,
            rows_max: u32::from(choice >> 2 & 3),
            bytes_max: u32::from(choice >> 4) * 16,
            reverse: choice & 2 == 2,
            system,
        };
        compare_range(&mut session, &rows, range);
    }
});

/// Takes the input apart; where it has ended there are zeros.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn key(&mut self) -> &'a [u8] {
        let bytes = self.byte() % (KEY_BYTES_MAX + 1);
        self.take(usize::from(bytes))
    }

    /// Mostly by a few keys; now and then by as many as there are numbers.
    fn selector(&mut self) -> Selector<'a> {
        let choice = self.byte();
        let offset = match choice & 6 {
            0 => i32::from(self.byte() as i8) << 24,
            2 => i32::MIN + i32::from(self.byte() & 1),
            4 => i32::MAX - i32::from(self.byte() & 1),
            _ => i32::from(self.byte() as i8 / 4),
        };
        Selector {
            or_equal: choice & 1 == 1,
            offset,
            key: self.key(),
        }
    }
}

fn keys_end(system: bool) -> &'static [u8] {
    if system { b"\xff\xff" } else { b"\xff" }
}

/// Only these rows are there from now on.
fn store(session: &mut Session, rows: &Rows) {
    let clear = Mutation {
        kind: MutationKind::ClearRange,
        key: b"",
        value: keys_end(true),
    };
    let sets = rows.iter().map(|(key, value)| Mutation {
        kind: MutationKind::Set,
        key,
        value,
    });
    let commit = Commit {
        system: true,
        mutations: std::iter::once(clear).chain(sets).collect(),
        ..Commit::default()
    };
    ask(session, &Request::Commit(commit)).unwrap();
}

/// The reply's body, or the number of the error.
fn ask(session: &mut Session, request: &Request<'_>) -> Result<Vec<u8>, u16> {
    let mut output = Vec::new();
    let answered = session.answer(1, request, &mut output);
    assert!(matches!(answered, Answered::Reply(_)), "nobody else holds the lock");
    let frame = next_frame(&output, output.len()).unwrap().unwrap();
    match Reply::parse(&frame).unwrap() {
        Reply::Done(body) => Ok(body.to_vec()),
        Reply::Failed { code, .. } => Err(code.0),
    }
}

/// The key that a selector names among sorted keys below `end`: counted from how many lie before
/// it.
fn resolved(rows: &Rows, selector: &Selector<'_>, end: &[u8]) -> Vec<u8> {
    let keys: Vec<&[u8]> = rows.keys().map(Vec::as_slice).filter(|key| *key < end).collect();
    let is_before = |key: &&&[u8]| **key < selector.key || selector.or_equal && **key == selector.key;
    let before = keys.iter().filter(is_before).count();
    match before as i64 - 1 + i64::from(selector.offset) {
        index if index < 0 => Vec::new(),
        index => keys.get(index as usize).copied().unwrap_or(end).to_vec(),
    }
}

fn compare_key(session: &mut Session, rows: &Rows, version: u64, selector: Selector<'_>, system: bool) {
    let request = Request::GetKey {
        version,
        selector,
        system,
    };
    let expected = match selector.key <= keys_end(system) {
        true => Ok(resolved(rows, &selector, keys_end(system))),
        false => Err(KEY_OUTSIDE_LEGAL_RANGE),
    };
    assert_eq!(ask(session, &request), expected, "{selector:?} {system}");
}

fn compare_range(session: &mut Session, rows: &Rows, range: RangeRequest<'_>) {
    let end_of_keys = keys_end(range.system);
    let read = ask(session, &Request::GetRange(range));
    if range.begin.key.max(range.end.key) > end_of_keys {
        assert_eq!(read, Err(KEY_OUTSIDE_LEGAL_RANGE));
        return;
    }
    let body = read.unwrap();
    let reply = RangeReply::parse(&body).unwrap();
    let begin = resolved(rows, &range.begin, end_of_keys);
    let end = resolved(rows, &range.end, end_of_keys);
    let mut inside: Vec<(&[u8], &[u8])> = rows
        .iter()
        .map(|(key, value)| (key.as_slice(), value.as_slice()))
        .filter(|(key, _)| begin.as_slice() <= *key && *key < end.as_slice())
        .collect();
    if range.reverse {
        inside.reverse();
    }
    let taken = taken(&inside, range.rows_max as usize, range.bytes_max as usize);
    assert_eq!(reply.more, taken.is_some(), "{range:?}");
    inside.truncate(taken.unwrap_or(inside.len()));
    assert_eq!(reply.rows().collect::<Vec<_>>(), inside, "{range:?}");
}

/// How many rows there are up to the one that reaches a limit; zero is none. `None`: no row does.
fn taken(rows: &[(&[u8], &[u8])], rows_max: usize, bytes_max: usize) -> Option<usize> {
    let mut bytes = 0;
    let reaches = |index: usize, (key, value): &(&[u8], &[u8])| {
        bytes += key.len() + value.len() + ROW_BYTES;
        index + 1 == rows_max || bytes_max > 0 && bytes >= bytes_max
    };
    let mut reaches = reaches;
    (0..rows.len())
        .find(|&index| reaches(index, &rows[index]))
        .map(|index| index + 1)
}
