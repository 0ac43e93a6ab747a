//! The contract of a store, as one check that any engine's tests can call.
//!
//! Random but seeded steps are applied to the store and to a standard sorted map side by side;
//! every answer and, at intervals, the whole content, the snapshots taken on the way and the
//! undoing of range clears are compared.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use quartet_model::{LogSequence, Version};

use crate::interface::{Cleared, Flush, Read, Store};
use crate::position::Position;
use crate::row::Row;

type Model = BTreeMap<Vec<u8>, Row>;

/// Panics, naming the seed, if a store made by `make` behaves unlike a sorted map.
pub fn check<S: Store>(make: impl Fn() -> S) {
    for seed in 1..=SEEDS {
        Check {
            store: make(),
            model: Model::new(),
            snapshots: Vec::new(),
            flush: None,
            random: seed,
            seed,
        }
        .run();
    }
}

/// Prefixes that a number follows in every key.
const NUMBERED: [&[u8]; 2] = [b"n", b"o, a long beginning shared by many numbers "];

const SEEDS: u64 = 20;
const STEPS: u64 = 1_500;

struct Check<S: Store> {
    store: S,
    model: Model,
    snapshots: Vec<(S::Snapshot, Model)>,
    /// A flush that was started and has not run, and its future position.
    flush: Option<(S::Flush, Position)>,
    random: u64,
    seed: u64,
}

impl<S: Store> Check<S> {
    fn run(mut self) {
        for version in 1..=STEPS {
            match self.below(100) {
                0..55 => self.set(version),
                55..70 => self.clear(),
                70..75 => self.clear_end(),
                75..80 => self.clear_nth(),
                80..83 => self.clear_range(),
                83..86 => self.clear_range_and_undo(version),
                86..88 => self.snapshots.push((self.store.snapshot(), self.model.clone())),
                88 => self.flush(version),
                _ => self.read(),
            }
        }
        compare_all(&self.store, &self.model, self.seed);
        for (snapshot, model) in &self.snapshots {
            compare_all(snapshot, model, self.seed);
        }
    }

    /// Starts a flush; a flush that was started is run or abandoned.
    fn flush(&mut self, version: u64) {
        let Some((flush, position)) = self.flush.take() else {
            let position = Position {
                version: Version(version),
                sequence: LogSequence(version),
            };
            self.flush = Some((self.store.begin_flush(), position));
            return;
        };
        let before = self.store.applied();
        let runs = self.below(3) > 0;
        let flushed = runs.then(|| flush.run(position).expect("a flush"));
        drop(self.store.end_flush(flushed));
        let expected = if runs { position } else { before };
        assert_eq!(self.store.applied(), expected, "seed {}", self.seed);
        compare_all(&self.store, &self.model, self.seed);
    }

    fn set(&mut self, version: u64) {
        let row = self.row(version);
        let old = self.model.insert(row.key().to_vec(), row.clone());
        assert_eq!(self.store.set(row).expect("a write"), old, "seed {}", self.seed);
    }

    fn clear(&mut self) {
        let key = self.key();
        let cleared = self.store.clear(&key).expect("a write");
        assert_eq!(cleared, self.model.remove(&key), "seed {}", self.seed);
    }

    fn clear_end(&mut self) {
        let (start, end, last) = (self.key(), self.key(), self.below(2) == 1);
        let inside = in_range(&self.model, &start, &end);
        let expected = if last { inside.last() } else { inside.first() };
        let cleared = self.store.clear_end(&start, &end, last).expect("a write");
        assert_eq!(cleared.as_ref(), expected, "seed {}", self.seed);
        if let Some(cleared) = cleared {
            self.model.remove(cleared.key());
        }
    }

    fn clear_nth(&mut self) {
        let (start, end, index) = (self.key(), self.key(), self.below(20));
        let expected = in_range(&self.model, &start, &end).get(index as usize).cloned();
        let cleared = self.store.clear_nth(&start, &end, index).expect("a write");
        assert_eq!(cleared, expected, "seed {}", self.seed);
        if let Some(cleared) = cleared {
            self.model.remove(cleared.key());
        }
    }

    fn clear_range(&mut self) {
        let (start, end) = (self.key(), self.key());
        let cleared = self.store.clear_range(&start, &end).expect("a write");
        let expected = in_range(&self.model, &start, &end);
        self.model.retain(|key, _| !(start <= *key && *key < end));
        assert_eq!(cleared.count(), expected.len() as u64, "seed {}", self.seed);
        assert_eq!(cleared.row_bytes(), row_bytes(&expected), "seed {}", self.seed);
    }

    /// As a transaction rolled back: what was written after the range clear is undone before it.
    fn clear_range_and_undo(&mut self, version: u64) {
        let (start, end, row) = (self.key(), self.key(), self.row(version));
        let key = row.key().to_vec();
        let cleared = self.store.clear_range(&start, &end).expect("a write");
        let undone = match self.store.set(row).expect("a write") {
            Some(old) => self.store.set(old),
            None => self.store.clear(&key),
        };
        undone.expect("undoing a write");
        self.store.restore(&cleared);
        compare_all(&self.store, &self.model, self.seed);
    }

    fn read(&mut self) {
        let (start, end) = (self.key(), self.key());
        let index = self.below(20);
        let (store, seed) = (&self.store, self.seed);
        let expected = in_range(&self.model, &start, &end);
        let (row, count) = (store.get(&start).expect("a read"), store.count(&start, &end));
        assert_eq!(row, self.model.get(&start).cloned(), "seed {seed}");
        let several = store.get_each(&[&end, &start, &end]).expect("a read");
        let at_end = self.model.get(&end).cloned();
        assert_eq!(several, [at_end.clone(), row, at_end], "seed {seed}");
        assert_eq!(count.expect("a read"), expected.len() as u64, "seed {seed}");
        let bytes = store.row_bytes(&start, &end).expect("a read");
        assert_eq!(bytes, row_bytes(&expected), "seed {seed}");
        let nth = |index| store.nth(&start, &end, index).expect("a read");
        assert_eq!(nth(index), expected.get(index as usize).cloned(), "seed {seed}");
        assert_eq!(nth(u64::MAX), None, "seed {seed}");
        let newest = expected.iter().map(Row::version).max().unwrap_or_default();
        let has_newer = |version| store.has_newer(&start, &end, version).expect("a read");
        if newest > Version::ZERO {
            assert!(has_newer(Version(newest.0 - 1)), "seed {seed}");
        }
        assert!(!has_newer(Version(STEPS)), "seed {seed}");
        let limit = 1 + index as usize;
        let forwards: Vec<Row> = expected.iter().take(limit).cloned().collect();
        let backwards: Vec<Row> = expected.iter().rev().take(limit).cloned().collect();
        assert_eq!(scan(store, &start, &end, false, limit), forwards, "seed {seed}");
        assert_eq!(scan(store, &start, &end, true, limit), backwards, "seed {seed}");
        let first = self.number();
        compare_numbers(&self.store, &self.model, first, limit, seed);
    }

    fn row(&mut self, version: u64) -> Row {
        let key = self.key();
        let value = vec![b'v'; self.below(100) as usize];
        Row::new(&key, &value, Version(version))
    }

    /// Keys that collide often, extend one another, share long prefixes, and hold the extreme
    /// bytes; and keys of numbers, most of them consecutive.
    fn key(&mut self) -> Vec<u8> {
        if self.below(3) == 0 {
            let prefix = NUMBERED[self.below(2) as usize];
            return [prefix, &self.number().to_be_bytes()].concat();
        }
        let mut key = [&b""[..], b"\0\0", b"a long beginning shared by many "][self.below(3) as usize].to_vec();
        for _ in 0..self.below(5) {
            key.push([0, b'a', b'b', 0xff][self.below(4) as usize]);
        }
        key
    }

    fn number(&mut self) -> u64 {
        let start = [0, 230, 65_500, u64::MAX - 39][self.below(4) as usize];
        start + self.below(40)
    }

    /// A number below `limit`, from a xorshift generator.
    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % limit
    }
}

fn row_bytes(rows: &[Row]) -> u64 {
    rows.iter().map(Row::stored_bytes).sum()
}

fn in_range(model: &Model, start: &[u8], end: &[u8]) -> Vec<Row> {
    let rows = model
        .iter()
        .filter(|(key, _)| start <= key.as_slice() && key.as_slice() < end);
    rows.map(|(_, row)| row.clone()).collect()
}

/// At most `limit` rows, not 0, in the order of the visit.
fn scan(rows: &impl Read, start: &[u8], end: &[u8], reverse: bool, limit: usize) -> Vec<Row> {
    let mut visited = Vec::new();
    rows.scan(start, end, reverse, &mut |row| {
        visited.push(row.clone());
        if visited.len() == limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .expect("a read");
    visited
}

/// Compares the numbers after each prefix from the first on; visits at least `limit` of them.
fn compare_numbers(rows: &impl Read, model: &Model, first: u64, limit: usize, seed: u64) {
    for prefix in NUMBERED {
        let mut visited = Vec::new();
        let start = [prefix, &first.to_be_bytes()].concat();
        let end = [prefix, &u64::MAX.to_be_bytes(), &[0]].concat();
        rows.scan_numbers(&start..&end, start.len(), &mut |numbers| {
            visited.extend_from_slice(numbers);
            match visited.len() < limit {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })
        .expect("a read");
        let keys = model.keys().filter_map(|key| key.strip_prefix(prefix));
        let numbers = keys.map(|key| u64::from_be_bytes(key.try_into().expect("eight bytes")));
        let expected: Vec<u64> = numbers.filter(|number| *number >= first).collect();
        assert!(visited.len() >= limit.min(expected.len()), "seed {seed}");
        assert_eq!(visited, expected[..visited.len()], "seed {seed}");
    }
}

fn compare_all(rows: &impl Read, model: &Model, seed: u64) {
    let mut visited = Vec::new();
    rows.walk(b"", &mut |row| {
        visited.push(row.clone());
        ControlFlow::Continue(())
    })
    .expect("a read");
    assert!(
        visited.iter().eq(model.values()),
        "seed {seed}: {visited:?} is not {model:?}"
    );
    if let Some(from) = model.keys().nth(model.len() / 2) {
        let mut first = None;
        rows.walk(from, &mut |row| {
            first = Some(row.key().to_vec());
            ControlFlow::Break(())
        })
        .expect("a read");
        assert_eq!(first.as_ref(), Some(from), "seed {seed}");
    }
    compare_numbers(rows, model, 0, usize::MAX, seed);
    assert_eq!(rows.len(), model.len() as u64, "seed {seed}");
    assert_eq!(rows.is_empty(), model.is_empty(), "seed {seed}");
}
