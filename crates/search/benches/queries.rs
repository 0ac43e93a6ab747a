//! Measures what searches cost inside, without sockets and replies:
//!
//!     cargo bench -p quartet-search --bench queries -- [documents] [part of a name]
//!
//! Documents of 60 Zipf words out of 20,000, two TAG values and two numbers go into an engine on a
//! disk in memory, ten in a transaction, with words settled 256 at a time, as the layer does. One
//! line for each kind of query: microseconds of the processor that a search takes, the least of
//! several rounds over twenty queries; and how many documents match on average.

mod documents;

use documents::{Texts, TransactionRows, engine, schema, space};
use quartet_engine::Engine;
use quartet_search::index;
use quartet_search::index::document::Document;
use quartet_search::index::schema::{Field, Schema};
use quartet_search::redis::execute::{Request, search};
use quartet_search::redis::query::{Expander, Parameters, Query, parse};
use quartet_search::time::Time;
use quartet_search::vectors::fields::VectorFields;

const ROUNDS: usize = 30;
const QUERIES: usize = 20;
const IN_A_TRANSACTION: usize = 10;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let documents = words
        .next()
        .map_or(20_000, |count| count.parse().expect("a number of documents"));
    let filter = words.next().unwrap_or_default();
    let (engine, schema) = (engine(), schema());
    let began = cpu_seconds();
    fill(&engine, &schema, documents);
    let micros = (cpu_seconds() - began) * 1e6 / documents as f64;
    println!("{documents} documents, {micros:.1} us each");
    for (name, count, query) in kinds() {
        if name.contains(&filter) {
            measure(&engine, &schema, (name, count), query);
        }
    }
}

fn fill(engine: &Engine, schema: &Schema, documents: usize) {
    let mut texts = Texts::new();
    for first in (0..documents).step_by(IN_A_TRANSACTION) {
        let done = engine.partition().execute(space(), |tx| -> Result<(), ()> {
            for at in first..documents.min(first + IN_A_TRANSACTION) {
                let (key, fields) = (format!("document:{at:07}"), texts.fields(at));
                let value = |field: &Field| {
                    let text_of_field = fields.iter().find(|(name, _)| *name == field.path);
                    text_of_field.map(|(_, value)| value.clone().into())
                };
                let document = Document::new(schema, key.as_bytes(), value).expect("the values fit");
                let mut rows = TransactionRows(tx);
                index::put(&mut rows, &document, &VectorFields);
                if index::State::read(&mut rows).unsettled() >= index::UNSETTLED_MAX {
                    index::settle(&mut rows, 4 * index::UNSETTLED_MAX as usize);
                }
            }
            Ok(())
        });
        done.expect("a write");
    }
}

/// Names, the number of requested hits, and the queries by their numbers.
type Kind = (&'static str, usize, fn(usize) -> String);

fn kinds() -> Vec<Kind> {
    vec![
        ("tag", 10, |at| format!("@color:{{tag{}}}", at * 37)),
        ("number", 10, |at| {
            format!("@price:[{} {}]", at * 4000, at * 4000 + 5000)
        }),
        ("tag and number", 10, |at| {
            format!("@kind:{{kind{}}} @price:[{} {}]", at % 10, at * 4000, at * 4000 + 5000)
        }),
        ("one word", 10, |at| format!("word{}", 20 + at * 97)),
        ("two words", 10, |at| {
            format!("word{} word{}", 20 + at * 97, 30 + at * 43)
        }),
        ("phrase", 10, |at| format!("\"word{} word{}\"", at, at + 1)),
        ("prefix", 10, |at| format!("word{}*", 100 + at * 7)),
        ("fuzzy word", 10, |at| format!("%word{}%", 1000 + at * 97)),
        ("total of a range", 0, |at| {
            format!("@price:[{} {}]", at * 2000, at * 2000 + 50_000)
        }),
        ("all", 10, |_| "*".into()),
    ]
}

fn measure(engine: &Engine, schema: &Schema, (name, count): (&str, usize), query: fn(usize) -> String) {
    let query = |at| parse(schema, query(at).as_bytes(), &Parameters::new(), Expander::All).expect("a query");
    let queries: Vec<Query> = (0..QUERIES).map(query).collect();
    let request = Request {
        count,
        ..Request::default()
    };
    let mut frozen = engine.partition().freeze(space());
    let (mut least, mut total) = (f64::INFINITY, 0);
    for _ in 0..ROUNDS {
        let began = cpu_seconds();
        total = 0;
        for query in &queries {
            let mut transaction = frozen.transaction();
            let rows = &mut TransactionRows(&mut transaction);
            let answer = search(rows, schema, query, &request, Time::until(&|| false)).expect("an answer");
            total += answer.total;
        }
        least = least.min(cpu_seconds() - began);
    }
    let (micros, matches) = (least * 1e6 / QUERIES as f64, total as f64 / QUERIES as f64);
    println!("{name:18} {micros:9.1} us, {matches:8.1} match");
}

/// Time that this thread has had a processor, as Linux shows it.
fn cpu_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux shows it");
    let nanoseconds = statistics.split_whitespace().next().expect("a number comes first");
    nanoseconds.parse::<f64>().expect("a number") / 1e9
}
