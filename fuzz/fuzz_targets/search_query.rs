//! Any bytes as a query: a tree that can be shown and answered, or an error, never a panic. What is
//! found does not depend on how far the index is settled.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use quartet_search::index;
use quartet_search::index::document::Document;
use quartet_search::index::schema::{Field, FieldKind, Schema};
use quartet_search::index::vector_kind::{Component, Metric, VectorKind};
use quartet_search::redis::execute::{Request, search};
use quartet_search::redis::query::{Expander, Parameters, parse, parse_first};
use quartet_search::rows::MemoryRows;
use quartet_search::time::Time;
use quartet_search::vectors::fields::VectorFields;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let mut missing = Field::tag("m");
    missing.index_missing = true;
    let vector = VectorKind::new(Component::Float32, 1, Metric::L2).unwrap();
    let fields = vec![
        Field::text("t", 1.0),
        Field::text("b", 2.0),
        Field::tag("g"),
        Field::numeric("n"),
        missing,
        Field::new("v", FieldKind::Vector(vector)),
        Field::new("l", FieldKind::Geo),
    ];
    Schema::new(fields).unwrap()
});

/// The same documents, not settled and settled.
static ROWS: LazyLock<[MemoryRows; 2]> = LazyLock::new(|| {
    let mut rows = MemoryRows::default();
    for (at, text) in ["hello world", "running in the world", "", "foo bar foo"]
        .iter()
        .enumerate()
    {
        let document = Document::new(&SCHEMA, at.to_string().as_bytes(), |field| match field.path.as_str() {
            "n" => Some(at.to_string().into()),
            "l" => Some(format!("{at},{at}").into()),
            "v" => Some((at as f32).to_le_bytes().into()),
            "m" => None,
            _ => Some(text.as_bytes().to_vec()),
        });
        index::put(&mut rows, &document.unwrap(), &VectorFields);
    }
    let unsettled = rows.clone();
    index::settle(&mut rows, 100);
    [unsettled, rows]
});

fuzz_target!(|data: &[u8]| {
    let parameters: Parameters = [("v".to_owned(), vec![0; 4]), ("n".to_owned(), b"1".to_vec())].into();
    // The first byte says which dialect.
    let read = match data.strip_prefix(b"1") {
        Some(text) => parse_first(&SCHEMA, text, &parameters, Expander::All),
        None => parse(&SCHEMA, data, &parameters, Expander::All),
    };
    let Ok(query) = read else {
        return;
    };
    query.explain(&SCHEMA);
    let found = ROWS.clone().map(|mut rows| {
        let found = search(&mut rows, &SCHEMA, &query, &Request::default(), Time::until(&|| false));
        found.map(|found| {
            (
                found.total,
                found
                    .hits
                    .into_iter()
                    .map(|hit| (hit.key, hit.score.to_bits()))
                    .collect::<Vec<_>>(),
            )
        })
    });
    assert_eq!(found[0], found[1]);
});
