//! Measures what a document costs by how its words become postings. The figures of
//! docs/decisions/28-search-postings.md:
//!
//!     cargo bench -p quartet-search --bench posting_layouts -- [documents]
//!
//! Documents of 60 Zipf words out of 20,000, two TAG values and two numbers go into an engine on a
//! disk in memory, a transaction each. A layout is either a row for every posting, or postings that
//! are settled a number of documents at a time. One line each: bytes in the log and CPU time of
//! the process a document, rows and their bytes at the end, and the CPU time of a search for a rare
//! word while nearly as many documents wait to be settled.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_engine::{Durability, Engine, EngineOptions, Space, Transaction};
use quartet_env::{FaultyDisk, SystemClock};
use quartet_model::{DatabaseId, LayerId};
use quartet_search::query::{Expander, Parameters, parse};
use quartet_search::rows::Visit;
use quartet_search::search::{Request, search};
use quartet_search::{Document, Field, Rows, Schema, WriteRows, analysis, index};

const WORDS: usize = 60;
const VOCABULARY: usize = 20_000;
const SEARCHES: u32 = 200;

/// An index's rows in a transaction that holds nothing else.
struct TransactionRows<'t, 'h>(&'t mut Transaction<'h>);

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
struct Texts {
    random: u64,
    cumulated: Vec<f64>,
}

impl Texts {
    fn new() -> Texts {
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

    fn word(&mut self) -> String {
        let total = self.cumulated[VOCABULARY - 1];
        let at = self.next() as f64 / (1u64 << 31) as f64 * total;
        format!("word{}", self.cumulated.partition_point(|sum| *sum < at))
    }

    fn fields(&mut self, at: usize) -> [(&'static str, String); 5] {
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

#[derive(Clone, Copy)]
enum Layout {
    /// No index.
    Hash,
    /// A row for each posting.
    Rows,
    /// Postings settled this many documents at a time.
    Settled(u64),
}

fn main() {
    let documents = std::env::args()
        .skip(1)
        .find(|word| word != "--bench")
        .map_or(20_000, |count| count.parse().expect("a number of documents"));
    println!("{documents} documents of {WORDS} words");
    for (name, layout) in [
        ("the hash alone", Layout::Hash),
        ("a row a posting", Layout::Rows),
        ("settled 1 at a time", Layout::Settled(1)),
        ("settled 64 at a time", Layout::Settled(64)),
        ("settled 256 at a time", Layout::Settled(256)),
        ("settled 1024 at a time", Layout::Settled(1024)),
    ] {
        measure(name, layout, documents);
    }
}

fn measure(name: &str, layout: Layout, documents: usize) {
    let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
    let (disk, clock) = (Arc::new(FaultyDisk::new()), Arc::new(SystemClock));
    let engine = Engine::open(disk, clock, EngineOptions::default(), failure, &mut |_| {}).expect("a new engine");
    let schema = schema();
    let mut texts = Texts::new();
    let cpu = cpu_seconds();
    for at in 0..documents {
        write(&engine, &schema, layout, at, &texts.fields(at));
    }
    let cpu = (cpu_seconds() - cpu) / documents as f64 * 1e6;
    let statistics = engine.statistics();
    let log_bytes = statistics.epoch_bytes.load(Ordering::Relaxed) / documents as u64;
    let (rows, bytes) = stored(&engine, documents);
    print!("{name:24} {log_bytes:6} B in the log, {cpu:6.1} us, {rows:5.1} rows of {bytes:6} B a document");
    if let Layout::Settled(at_a_time) = layout {
        let waiting = at_a_time as usize - 1;
        (0..waiting).for_each(|at| {
            write(
                &engine,
                &schema,
                Layout::Settled(u64::MAX),
                documents + at,
                &texts.fields(at),
            )
        });
        print!(", search {:6.1} us", search_micros(&engine, &schema));
    }
    println!();
}

fn schema() -> Schema {
    let [text, price, number] = [
        Field::text("text", 1.0),
        Field::numeric("price"),
        Field::numeric("number"),
    ];
    Schema::new(vec![text, Field::tag("color"), Field::tag("kind"), price, number]).expect("a schema")
}

fn space() -> Space {
    Space {
        database: DatabaseId(1),
        layer: LayerId::Redis,
        durability: Durability::Interval,
    }
}

fn write(engine: &Engine, schema: &Schema, layout: Layout, at: usize, fields: &[(&str, String)]) {
    let key = format!("document:{at}");
    let hash: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let value = |field: &Field| {
        fields
            .iter()
            .find(|(name, _)| *name == field.path)
            .map(|(_, value)| value.clone().into())
    };
    let done = engine.partition().execute(space(), |tx| -> Result<(), ()> {
        tx.set(format!("K{key}").as_bytes(), hash.join("\0").as_bytes());
        let mut rows = TransactionRows(tx);
        if matches!(layout, Layout::Hash) {
            return Ok(());
        }
        let document = Document::new(schema, key.as_bytes(), value).expect("the values fit");
        match layout {
            Layout::Settled(at_a_time) => {
                index::put(&mut rows, &document);
                if index::State::read(&mut rows).unsettled() >= at_a_time {
                    index::settle(&mut rows, at_a_time as usize);
                }
            }
            _ => {
                index::put(&mut rows, &document);
                rows_of_postings(&mut rows, at, &fields[0].1);
            }
        }
        Ok(())
    });
    done.expect("a write");
}

/// Writes a row for each posting: the term, the document, how often and where.
fn rows_of_postings(rows: &mut TransactionRows<'_, '_>, at: usize, text: &str) {
    let mut words: Vec<_> = analysis::tokens(text.as_bytes()).zip(0u8..).collect();
    words.sort();
    for group in words.chunk_by(|a, b| a.0 == b.0) {
        let positions: Vec<u8> = group.iter().map(|(_, position)| *position).collect();
        let key = [b"P", &group[0].0[..], &[0], &(at as u64).to_be_bytes()].concat();
        rows.set(&key, &[&[group.len() as u8, 1], &positions[..]].concat());
    }
}

/// Rows beside the hash's own, and their bytes.
fn stored(engine: &Engine, documents: usize) -> (f64, usize) {
    let (mut rows, mut bytes) = (0, 0);
    engine
        .partition()
        .reader(space())
        .scan(&[0], &[0xff], false, &mut |key, value| {
            if key[0] != b'K' {
                rows += 1;
                bytes += key.len() + value.len();
            }
            ControlFlow::Continue(())
        });
    (f64::from(rows) / documents as f64, bytes / documents)
}

fn search_micros(engine: &Engine, schema: &Schema) -> f64 {
    let query = parse(schema, b"word19999", &Parameters::new(), Expander::All).expect("a query");
    let mut frozen = engine.partition().freeze(space());
    let cpu = cpu_seconds();
    for _ in 0..SEARCHES {
        let mut transaction = frozen.transaction();
        search(
            &mut TransactionRows(&mut transaction),
            schema,
            &query,
            &Request::default(),
            &|| false,
        )
        .expect("an answer");
    }
    (cpu_seconds() - cpu) / f64::from(SEARCHES) * 1e6
}

/// CPU time of this process so far, by the system's count in hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("the system shows it");
    let behind_name = stat.rsplit(')').next().expect("a name in parentheses");
    let ticks = behind_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<f64>().expect("a number"));
    ticks.sum::<f64>() / 100.0
}
