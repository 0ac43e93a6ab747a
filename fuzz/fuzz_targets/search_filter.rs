//! Any bytes as a filter of SEARCH.QUERY, and the rest as aggregations, over a few documents: an
//! answer or an error, never a panic, and the same answer however far words are settled.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_search::index;
use quartet_search::rows::MemoryRows;
use quartet_search::text::analysis::Language;
use quartet_search::upstash::{
    Aggregation, FieldType, Given, Order, Page, Schema, TypedField, aggregate, document, parse, search,
};
use quartet_search::vectors::fields::VectorFields;

const KINDS: [&str; 8] = ["TEXT", "U64", "I64", "F64", "BOOL", "DATE", "KEYWORD", "FACET"];

fn schema() -> Schema {
    let fields = KINDS.map(|kind| TypedField {
        name: kind.to_ascii_lowercase(),
        kind: FieldType::of_name(kind).expect("a type"),
        fast: true,
        from: None,
    });
    Schema::new(fields.into(), Language::English).expect("a schema")
}

fn rows(schema: &Schema) -> MemoryRows {
    let mut rows = MemoryRows::default();
    for (number, text) in ["red fox", "a red apple", "running foxes"].iter().enumerate() {
        let raw = number.to_string();
        let document = document(schema, raw.as_bytes(), |field| match field.kind {
            FieldType::Text { .. } | FieldType::Keyword => vec![Given::Raw(text)],
            FieldType::Date => vec![Given::Raw("2024-01-01")],
            FieldType::Facet => vec![Given::Raw("/a/b")],
            _ => vec![Given::Raw(&raw)],
        });
        index::put(&mut rows, &document, &VectorFields);
    }
    rows
}

fuzz_target!(|data: &[u8]| {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (filter, aggregations) = data.split_at(at);
    let schema = schema();
    let Ok(clause) = parse(&schema, filter) else {
        return;
    };
    let mut fresh = rows(&schema);
    let mut settled = fresh.clone();
    while index::settle(&mut settled, 2) {}
    let page = Page {
        offset: 0,
        count: 10,
        order: Order::Score,
    };
    let found = search(&mut fresh, &schema, &clause, &page, &|| false);
    assert_eq!(found, search(&mut settled, &schema, &clause, &page, &|| false));
    if let Ok(aggregations) = Aggregation::parse(&schema, aggregations.get(1..).unwrap_or_default()) {
        _ = aggregate(&mut settled, &schema, &clause, &aggregations, &|| false);
    }
});
