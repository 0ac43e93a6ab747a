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

mod documents;

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use documents::{Texts, TransactionRows, WORDS, engine, schema, space};
use quartet_engine::Engine;
use quartet_search::index;
use quartet_search::index::document::Document;
use quartet_search::index::schema::{Field, Schema};
use quartet_search::redis::execute::{Request, search};
use quartet_search::redis::query::{Expander, Parameters, parse};
use quartet_search::rows::WriteRows;
use quartet_search::text::analysis;
use quartet_search::time::Time;
use quartet_search::vectors::fields::VectorFields;

const SEARCHES: u32 = 200;

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
    let engine = engine();
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
                index::put(&mut rows, &document, &VectorFields);
                if index::State::read(&mut rows).unsettled() >= at_a_time {
                    index::settle(&mut rows, at_a_time as usize);
                }
            }
            _ => {
                index::put(&mut rows, &document, &VectorFields);
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
            Time::until(&|| false),
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
