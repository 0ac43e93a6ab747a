//! The documents that a clause matches: how many, and the best.

use crate::error::SearchError;
use crate::hits::{self, Candidate, Found, Hit};
use crate::index::State;
use crate::index::doc_sets::DocSet;
use crate::index::document::{DocumentRow, Sortable};
use crate::index::layout::{after, document_row, tag_prefix};
use crate::rows::{DocumentId, Rows};
use crate::top_k::Best;
use crate::upstash::request::Clause;
use crate::upstash::schema::Schema;
use crate::upstash::scoring::ScoreFunction;
use crate::upstash::terms::Terms;
use crate::upstash::value::Value;
use crate::upstash::walk::{Maker, Walker};

/// Number of candidates between two checks of the deadline.
const CANDIDATES_BETWEEN_CHECKS: u64 = 256;

/// The order of hits.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Order {
    /// Their scores, the highest first.
    #[default]
    Score,
    /// Their scores as values of fields change them.
    Function(ScoreFunction),
    /// The first value of a field; documents without a value sort last.
    Field {
        /// The number of the field.
        field: u16,
        /// The lowest value is first.
        ascends: bool,
    },
}

/// The requested part of the matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The number of the best that are skipped.
    pub offset: usize,
    /// The number of wanted matches.
    pub count: usize,
    /// Their order. Equal matches are in the order of their keys.
    pub order: Order,
}

/// Returns the best documents that match a clause. Where a field orders the hits, their scores are
/// its numbers. The search polls `is_over` for its deadline.
pub fn search(
    rows: &mut dyn Rows,
    schema: &Schema,
    clause: &Clause,
    page: &Page,
    is_over: &dyn Fn() -> bool,
) -> Result<Found, SearchError> {
    let mut best = Best::new(page.offset, page.count);
    let mut total = 0;
    let order = match page.order {
        Order::Field { ascends, .. } => hits::Order::Value { ascends },
        Order::Score | Order::Function(_) => hits::Order::Score,
    };
    each(rows, schema, clause, is_over, &mut |walker, document| {
        total += 1;
        let score = walker.score(&document.lengths);
        let (score, sorted_by) = match &page.order {
            Order::Score => (f64::from(score), None),
            Order::Function(function) => (function.score(score.into(), &document.values), None),
            Order::Field { field, .. } => {
                let value = document.values.iter().find(|(number, _)| number == field);
                let value = value.map(|(_, value)| value);
                let score = value.and_then(Value::number).unwrap_or(0.0);
                (score, value.map(|value| Sortable::Text(value.sorted())))
            }
        };
        let hit = Hit {
            sorted_by,
            ..Hit::new(document.id, document.key, score)
        };
        best.add(Candidate { order, hit });
        Ok(())
    })?;
    Ok(Found {
        total,
        hits: best.into_sorted().map(|candidate| candidate.hit).collect(),
        steps: None,
    })
}

/// The number of documents that match a clause. For a clause of one value the time does not depend
/// on that number.
pub fn count(rows: &mut dyn Rows, clause: &Clause, is_over: &dyn Fn() -> bool) -> Result<u64, SearchError> {
    let state = State::read(rows);
    match clause {
        Clause::All => return Ok(state.documents),
        Clause::Equal { field, value } => {
            let prefix = tag_prefix(*field, value);
            return Ok(rows.count(&prefix, &after(&prefix)));
        }
        _ => {}
    }
    let mut total = 0;
    each_id(rows, state, clause, is_over, &mut |_, _, _| {
        total += 1;
        Ok(())
    })?;
    Ok(total)
}

/// A document that matches, as its row has it.
pub struct Matched {
    pub id: DocumentId,
    pub key: Vec<u8>,
    pub lengths: Vec<(u16, u32)>,
    /// Values of fields that are no words, in the order of the document.
    pub values: Vec<(u16, Value)>,
}

type VisitMatched<'v> = &'v mut dyn FnMut(&Walker, Matched) -> Result<(), SearchError>;
type VisitId<'v> = &'v mut dyn FnMut(&mut dyn Rows, &Walker, DocumentId) -> Result<(), SearchError>;

/// Visits every matching document, with the walker at that document.
pub fn each(
    rows: &mut dyn Rows,
    schema: &Schema,
    clause: &Clause,
    is_over: &dyn Fn() -> bool,
    visit: VisitMatched<'_>,
) -> Result<(), SearchError> {
    let state = State::read(rows);
    each_id(rows, state, clause, is_over, &mut |rows, walker, id| {
        let mut matched = None;
        let is_there = rows.show(&document_row(id), &mut |row| matched = Some(read(schema, id, row)));
        assert!(is_there, "a posting leads to its document");
        visit(walker, matched.expect("the row was shown"))
    })
}

fn read(schema: &Schema, id: DocumentId, row: &[u8]) -> Matched {
    let mut document = DocumentRow::read(row);
    let key = document.key.to_vec();
    let (mut lengths, mut values) = (Vec::new(), Vec::new());
    document.field_lengths(|field, length| lengths.push((field, length)));
    document.values(|field, sorted| {
        let kind = schema.field(field).kind;
        values.push((field, Value::of_sorted(kind, sorted)));
    });
    Matched {
        id,
        key,
        lengths,
        values,
    }
}

fn each_id(
    rows: &mut dyn Rows,
    state: State,
    clause: &Clause,
    is_over: &dyn Fn() -> bool,
    visit: VisitId<'_>,
) -> Result<(), SearchError> {
    let terms = Terms::read(rows, &state, clause);
    let mut maker = Maker {
        rows,
        terms,
        state,
        is_over,
    };
    let mut walker = maker.walker(clause)?;
    let rows = maker.rows;
    let (mut from, mut seen) = (1, 0_u64);
    while let Some(id) = walker.seek(rows, from) {
        from = id + 1;
        seen += 1;
        if seen.is_multiple_of(CANDIDATES_BETWEEN_CHECKS) && is_over() {
            return Err(SearchError::Timeout);
        }
        visit(rows, &walker, id)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index;
    use crate::rows::MemoryRows;
    use crate::text::analysis::Language;
    use crate::upstash::{FieldType, Given, TypedField, document, parse};
    use crate::vectors::fields::VectorFields;

    fn schema() -> Schema {
        let field = |name: &str, kind: &str| TypedField {
            name: name.into(),
            kind: FieldType::of_name(kind).unwrap(),
            fast: true,
            from: None,
        };
        let fields = vec![
            field("name", "TEXT"),
            field("price", "F64"),
            field("tag", "KEYWORD"),
            field("path", "FACET"),
        ];
        Schema::new(fields, Language::English).unwrap()
    }

    fn filled(documents: &[(&str, &str, f64, &str)]) -> MemoryRows {
        let mut rows = MemoryRows::default();
        for (key, name, price, tag) in documents {
            let path = format!("/all/{tag}");
            let document = document(&schema(), key.as_bytes(), |field| match field.name.as_str() {
                "name" => vec![Given::Text(name)],
                "price" => vec![Given::Double(*price)],
                "tag" => vec![Given::Text(tag)],
                _ => vec![Given::Text(&path)],
            });
            index::put(&mut rows, &document, &VectorFields);
        }
        rows
    }

    const SHOP: &[(&str, &str, f64, &str)] = &[
        ("a", "Gaming Laptop", 1299.5, "computer"),
        ("b", "Wireless Mouse", 29.0, "computer"),
        ("c", "Laptop Stand for a gaming laptop", 49.0, "desk"),
        ("d", "Headphones", 99.0, "audio"),
    ];

    fn keys(rows: &mut MemoryRows, filter: &str, order: Order) -> Vec<String> {
        let clause = parse(&schema(), filter.as_bytes()).unwrap();
        let page = Page {
            offset: 0,
            count: 10,
            order,
        };
        let answer = search(rows, &schema(), &clause, &page, &|| false).unwrap();
        assert_eq!(answer.total, answer.hits.len() as u64);
        assert_eq!(count(rows, &clause, &|| false).unwrap(), answer.total);
        let keys = answer.hits.into_iter().map(|hit| String::from_utf8(hit.key).unwrap());
        keys.collect()
    }

    fn check(filter: &str, expected: &[&str]) {
        let mut rows = filled(SHOP);
        let mut found_keys = keys(&mut rows, filter, Order::Score);
        found_keys.sort();
        assert_eq!(found_keys, expected, "{filter}");
        while index::settle(&mut rows, 2) {}
        let mut settled = keys(&mut rows, filter, Order::Score);
        settled.sort();
        assert_eq!(settled, expected, "{filter}");
    }

    #[test]
    fn filters_find_what_they_say() {
        check("{}", &["a", "b", "c", "d"]);
        check(r#"{"name": {"$eq": "laptops"}}"#, &["a", "c"]);
        check(r#"{"name": {"$eq": "gaming laptop"}}"#, &["a", "c"]);
        check(r#"{"name": {"$phrase": {"value": "laptop for", "slop": 1}}}"#, &["c"]);
        check(
            r#"{"name": {"$phrase": {"value": "wireless mo", "prefix": true}}}"#,
            &["b"],
        );
        check(r#"{"name": {"$fuzzy": "laptopp"}}"#, &["a", "c"]);
        check(r#"{"name": {"$regex": "Head.*"}}"#, &["d"]);
        check(r#"{"name": "mousse"}"#, &["b"]);
        check(r#"{"price": {"$gte": 49, "$lt": 1000}}"#, &["c", "d"]);
        check(r#"{"tag": {"$in": ["audio", "desk"]}}"#, &["c", "d"]);
        check(r#"{"tag": {"$gt": "audio"}}"#, &["a", "b", "c"]);
        check(r#"{"path": "/all"}"#, &["a", "b", "c", "d"]);
        check(r#"{"path": {"$eq": "/all/audio"}}"#, &["d"]);
        check(
            r#"{"$must": {"name": "laptop"}, "$mustNot": {"price": {"$gt": 100}}}"#,
            &["c"],
        );
        check(r#"{"$mustNot": {"price": {"$gt": 100}}}"#, &[]);
        check(r#"{"$should": [{"name": "mouse"}, {"price": 99}]}"#, &["b", "d"]);
        check(
            r#"{"$or": [{"name": "mouse"}, {"tag": "audio"}], "price": {"$lt": 50}}"#,
            &["b"],
        );
    }

    #[test]
    fn values_and_boosts_order_hits() {
        let mut rows = filled(SHOP);
        let by = |ascends| Order::Field { field: 1, ascends };
        assert_eq!(keys(&mut rows, "{}", by(true)), ["b", "c", "d", "a"]);
        assert_eq!(keys(&mut rows, "{}", by(false)), ["a", "d", "c", "b"]);
        let boosted = r#"{"$must": {"price": {"$gt": 0}}, "$should": {"name": "mouse", "$boost": 5.0}}"#;
        assert_eq!(keys(&mut rows, boosted, Order::Score)[0], "b");
        let demoted = r#"{"$must": {"price": {"$gt": 0}}, "$should": {"tag": "audio", "$boost": -5.0}}"#;
        assert_eq!(keys(&mut rows, demoted, Order::Score)[3], "d");
    }

    #[test]
    fn documents_that_go_or_change_are_as_if_they_had_never_been() {
        let mut rows = filled(SHOP);
        while index::settle(&mut rows, 2) {}
        assert!(index::remove(&mut rows, b"a", &VectorFields));
        let remaining = filled(&SHOP[1..]);
        let filter = r#"{"name": {"$eq": "laptop"}}"#;
        let clause = parse(&schema(), filter.as_bytes()).unwrap();
        let page = Page {
            offset: 0,
            count: 10,
            order: Order::Score,
        };
        let answer_of = |mut rows: MemoryRows| {
            let answer = search(&mut rows, &schema(), &clause, &page, &|| false).unwrap();
            let hits = answer.hits.into_iter().map(|hit| (hit.key, hit.score));
            (answer.total, hits.collect::<Vec<_>>())
        };
        assert_eq!(answer_of(rows.clone()), answer_of(remaining));
        while index::settle(&mut rows, 2) {}
        for key in [b"b", b"c", b"d"] {
            assert!(index::remove(&mut rows, key, &VectorFields));
        }
        while index::settle(&mut rows, 2) {}
        assert_eq!(rows.len(), 1);
    }
}
