//! Documents of words, tags and numbers, and an engine that holds an index of them.

use std::sync::Arc;

use quartet_engine::{Durability, Engine, EngineOptions, Space, Transaction};
use quartet_env::{FaultyDisk, SystemClock};
use quartet_model::{DatabaseId, LayerId};
use quartet_search::index::schema::{Field, Schema};
use quartet_search::rows::{Rows, Visit, WriteRows};

pub const WORDS: usize = 60;
const VOCABULARY: usize = 20_000;

/// A new engine on a disk in memory.
pub fn engine() -> Engine {
    let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
    let (disk, clock) = (Arc::new(FaultyDisk::new()), Arc::new(SystemClock));
    Engine::open(disk, clock, EngineOptions::default(), failure, &mut |_| {}).expect("a new engine")
}

/// An index's rows in a transaction that holds nothing else.
pub struct TransactionRows<'t, 'h>(pub &'t mut Transaction<'h>);

impl Rows for TransactionRows<'_, '_> {
    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).map(|row| row.value().to_vec())
    }

    fn show(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
        self.0.get(key).map(|row| visit(row.value())).is_some()
    }

    fn scan(&mut self, start: &[u8], end: &[u8], visit: Visit<'_>) {
        self.0.scan(start, end, false, &mut |row| {
            visit(Transaction::layer_key(row), row.value())
        });
    }

    fn count(&mut self, start: &[u8], end: &[u8]) -> u64 {
        self.0.count(start, end)
    }
}

impl WriteRows for TransactionRows<'_, '_> {
    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.0.set(key, value);
    }

    fn patch(&mut self, key: &[u8], offset: usize, bytes: &[u8]) {
        self.0.patch_parts(&[key], offset, bytes);
    }

    fn clear(&mut self, key: &[u8]) {
        self.0.clear(key);
    }
}

/// The same words on every run.
pub struct Texts {
    random: u64,
    cumulated: Vec<f64>,
}

impl Texts {
    pub fn new() -> Texts {
        let mut sum = 0.0;
        let cumulated = (1..=VOCABULARY).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Texts {
            random: 1,
            cumulated: cumulated.collect(),
        }
    }

    fn next(&mut self) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    pub fn word(&mut self) -> String {
        let total = self.cumulated[VOCABULARY - 1];
        let at = self.next() as f64 / (1u64 << 31) as f64 * total;
        format!("word{}", self.cumulated.partition_point(|sum| *sum < at))
    }

    pub fn fields(&mut self, at: usize) -> [(&'static str, String); 5] {
        let words: Vec<_> = (0..WORDS).map(|_| self.word()).collect();
        let (tag, other) = (self.next() % 1000, self.next() % 10);
        [
            ("text", words.join(" ")),
            ("color", format!("tag{tag}")),
            ("kind", format!("kind{other}")),
            ("price", (self.next() % 100_000).to_string()),
            ("number", at.to_string()),
        ]
    }
}

pub fn schema() -> Schema {
    let [text, price, number] = [
        Field::text("text", 1.0),
        Field::numeric("price"),
        Field::numeric("number"),
    ];
    Schema::new(vec![text, Field::tag("color"), Field::tag("kind"), price, number]).expect("a schema")
}

pub fn space() -> Space {
    Space {
        database: DatabaseId(1),
        layer: LayerId::Redis,
        durability: Durability::Interval,
    }
}
