//! Queries and expressions put together from pieces of both grammars: an answer or an error, never
//! a panic, and the same answer whether documents are settled or not. The fuzz targets
//! `search_query` and `search_expression` go further.

use proptest::prelude::*;
use quartet_search::index;
use quartet_search::index::document::Document;
use quartet_search::index::schema::{Field, FieldKind, Schema};
use quartet_search::index::vector_kind::{Component, Metric, VectorKind};
use quartet_search::redis::aggregate::{Expression, Record, Value};
use quartet_search::redis::execute::{Request, search};
use quartet_search::redis::query::{Expander, Parameters, parse, parse_first};
use quartet_search::rows::MemoryRows;
use quartet_search::time::Time;
use quartet_search::vectors::fields::VectorFields;

const OF_QUERIES: &[&str] = &[
    "hello",
    "world",
    "the",
    "foo",
    "2",
    "-1.5",
    "inf",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "|",
    "-",
    "~",
    "*",
    "%",
    ":",
    ";",
    "=>",
    "$w",
    "$v",
    "$weight",
    "$slop",
    "\"",
    "'",
    "\\",
    "w'h?l*'",
    "@t",
    "@g",
    "@n",
    "@v",
    "@l",
    "@l:[1 1 200 km]",
    "@v:[VECTOR_RANGE 1 $v]",
    "VECTOR_RANGE",
    "$yield_distance_as",
    "HYBRID_POLICY",
    "km",
    "@m",
    "@none",
    "ismissing",
    "KNN",
    "AS",
    " ",
    "he*",
    "*lo",
    "*el*",
    "%helo%",
    "<",
    ">=",
    "!=",
    "==",
    "é",
    "\"hello world\"",
    "\u{0}",
];

const OF_EXPRESSIONS: &[&str] = &[
    "@n",
    "@t",
    "@none",
    "1",
    "-2.5",
    "\"a\"",
    "'b",
    "+",
    " - ",
    "*",
    "/",
    "%",
    "^",
    "==",
    "<",
    "&&",
    "||",
    "!",
    "(",
    ")",
    ",",
    "lower(",
    "substr(",
    "geodistance(",
    "format(",
    "\"%s\"",
    "split(",
    "case(",
    "exists(",
    "year(",
    "log(",
    "é",
    "\\",
    " ",
];

fn pieces(of: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(of), 0..14).prop_map(|pieces| pieces.concat())
}

fn schema() -> Schema {
    let mut missing = Field::tag("m");
    missing.index_missing = true;
    let vector = VectorKind::new(Component::Float32, 1, Metric::L2).unwrap();
    let vector = Field::new("v", FieldKind::Vector(vector));
    Schema::new(vec![
        Field::text("t", 1.0),
        Field::tag("g"),
        Field::numeric("n"),
        missing,
        vector,
        Field::new("l", FieldKind::Geo),
    ])
    .unwrap()
}

/// The same documents, not settled and settled.
fn rows(schema: &Schema) -> [MemoryRows; 2] {
    let mut rows = MemoryRows::default();
    for (at, text) in ["hello world", "hello hello foo", "", "help the world"]
        .iter()
        .enumerate()
    {
        let document = Document::new(schema, at.to_string().as_bytes(), |field| match field.name.as_str() {
            "n" => Some(at.to_string().into()),
            "l" => Some(format!("{at},{at}").into()),
            "v" => Some((at as f32).to_le_bytes().into()),
            "m" => None,
            _ => Some(text.as_bytes().to_vec()),
        });
        index::put(&mut rows, &document.unwrap(), &VectorFields);
    }
    let mut settled = rows.clone();
    index::settle(&mut settled, 100);
    assert_ne!(rows, settled);
    [rows, settled]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_query_has_one_answer(text in pieces(OF_QUERIES)) {
        let schema = schema();
        let parameters: Parameters = [("v".to_owned(), vec![0; 4]), ("w".to_owned(), b"hello".to_vec())].into();
        for read in [parse, parse_first] {
            let Ok(query) = read(&schema, text.as_bytes(), &parameters, Expander::All) else {
                continue;
            };
            query.explain(&schema);
            let [unsettled, settled] = rows(&schema).map(|mut rows| {
                search(&mut rows, &schema, &query, &Request::default(), Time::until(&|| false))
            });
            prop_assert_eq!(unsettled, settled);
        }
    }

    #[test]
    fn any_expression_has_a_value_or_an_error(text in pieces(OF_EXPRESSIONS)) {
        if let Ok(expression) = Expression::parse(text.as_bytes()) {
            let mut record = Record::default();
            record.set("n", Value::Number(7.5));
            record.set("t", Value::text("Hello World"));
            if let Ok(value) = expression.value(&record) {
                value.bytes();
            }
        }
    }
}
