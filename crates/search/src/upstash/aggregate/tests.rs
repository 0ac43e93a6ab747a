use super::*;
use crate::index;
use crate::rows::MemoryRows;
use crate::text::analysis::Language;
use crate::upstash::{FieldType, Given, TypedField, document, parse};
use crate::vectors::fields::VectorFields;

fn schema() -> Schema {
    let field = |name: &str, kind: &str, fast: bool| TypedField {
        name: name.into(),
        kind: FieldType::of_name(kind).unwrap(),
        fast,
        from: None,
    };
    let fields = vec![
        field("price", "F64", true),
        field("tag", "KEYWORD", false),
        field("path", "FACET", false),
        field("at", "DATE", true),
        field("slow", "I64", false),
        field("text", "TEXT", false),
    ];
    Schema::new(fields, Language::English).unwrap()
}

const TAGS: [&str; 3] = ["red", "green", "blue"];

/// Nine documents: prices 0, 10, .. 80, three tags, a day each; the last has no tag.
fn rows() -> MemoryRows {
    let mut rows = MemoryRows::default();
    for number in 0..9_u32 {
        let tag = TAGS[number as usize % 3];
        let (path, date) = (
            format!("/colour/{tag}/{number}"),
            format!("2024-01-0{}T12:00:00Z", 1 + number / 3),
        );
        let document = document(&schema(), number.to_string().as_bytes(), |field| {
            match field.name.as_str() {
                "price" => vec![Given::Double(f64::from(number * 10))],
                "tag" if number < 8 => vec![Given::Text(tag)],
                "path" => vec![Given::Text(&path), Given::Text(&path)],
                "at" => vec![Given::Text(&date)],
                _ => vec![],
            }
        });
        index::put(&mut rows, &document, &VectorFields);
    }
    rows
}

fn json(figure: &Figure) -> serde_json::Value {
    match figure {
        Figure::Null => serde_json::Value::Null,
        Figure::Integer(number) => (*number).into(),
        Figure::Number(number) => (*number).into(),
        Figure::Text(text) => text.as_str().into(),
        Figure::Map(pairs) => pairs
            .iter()
            .map(|(name, figure)| (name.clone(), json(figure)))
            .collect(),
        Figure::List(list) => list.iter().map(json).collect(),
    }
}

fn check(request: &str, expected: &str) {
    let schema = schema();
    let aggregations = Aggregation::parse(&schema, request.as_bytes()).unwrap();
    let clause = parse(&schema, b"{}").unwrap();
    let figures = aggregate(&mut rows(), &schema, &clause, &aggregations, &|| false).unwrap();
    let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
    assert_eq!(json(&figures), expected, "{request}");
}

#[test]
fn figures_cover_all_values() {
    check(
        r#"{"s": {"$stats": {"field": "price"}}}"#,
        r#"{"s": {"count": 9, "min": 0.0, "max": 80.0, "sum": 360.0, "avg": 40.0}}"#,
    );
    check(
        r#"{"p": {"$percentiles": {"field": "price", "percents": [50, 95, 99]}}}"#,
        r#"{"p": {"values": {"50.0": 40.0, "95.0": 76.0, "99.0": 79.2}}}"#,
    );
    check(
        r#"{"p": {"$percentiles": {"field": "price", "percents": [50], "keyed": false}}}"#,
        r#"{"p": {"values": [{"key": 50.0, "value": 40.0}]}}"#,
    );
    check(
        r#"{"c": {"$cardinality": {"field": "tag", "missing": "none"}}, "f": {"$cardinality": {"field": "path"}}}"#,
        r#"{"c": {"value": 4}, "f": {"value": 9}}"#,
    );
    check(r#"{"c": {"$count": {"field": "tag"}}}"#, r#"{"c": {"value": 8}}"#);
}

#[test]
fn extended_figures_have_deviations() {
    let schema = schema();
    let request = br#"{"e": {"$extendedStats": {"field": "price", "sigma": 1}}}"#;
    let aggregations = Aggregation::parse(&schema, request).unwrap();
    let clause = parse(&schema, b"{}").unwrap();
    let output = json(&aggregate(&mut rows(), &schema, &clause, &aggregations, &|| false).unwrap());
    let near = |path: &str, expected: f64| {
        let figure = output.pointer(path).and_then(serde_json::Value::as_f64).unwrap();
        assert!((figure - expected).abs() < 1e-9, "{path} is {figure}");
    };
    near("/e/variance", 6000.0 / 9.0);
    near("/e/varianceSampling", 750.0);
    near("/e/stdDeviationBounds/upper", 40.0 + (6000.0_f64 / 9.0).sqrt());
    near("/e/sumOfSquares", 20_400.0);
}

#[test]
fn groups_have_counts_and_figures() {
    check(
        r#"{"t": {"$terms": {"field": "tag", "size": 2}, "$aggs": {"a": {"$max": {"field": "price"}}}}}"#,
        r#"{"t": {"buckets": [{"key": "green", "docCount": 3, "a": {"value": 70.0}},
            {"key": "red", "docCount": 3, "a": {"value": 60.0}}], "sumOtherDocCount": 2, "docCountErrorUpperBound": 0}}"#,
    );
    check(
        r#"{"t": {"$terms": {"field": "tag", "order": {"a": "asc"}, "exclude": "gr.*", "missing": "none"},
            "$aggs": {"a": {"$avg": {"field": "price"}}}}}"#,
        r#"{"t": {"buckets": [{"key": "red", "docCount": 3, "a": {"value": 30.0}},
            {"key": "blue", "docCount": 2, "a": {"value": 35.0}}, {"key": "none", "docCount": 1, "a": {"value": 80.0}}],
            "sumOtherDocCount": 0, "docCountErrorUpperBound": 0}}"#,
    );
    check(
        r#"{"r": {"$range": {"field": "price", "ranges": [{"from": 30, "to": 60, "key": "mid"}, {"to": 10}]}}}"#,
        r#"{"r": {"buckets": [{"key": "*-10", "to": 10.0, "docCount": 1},
            {"key": "10-30", "from": 10.0, "to": 30.0, "docCount": 2},
            {"key": "mid", "from": 30.0, "to": 60.0, "docCount": 3}, {"key": "60-*", "from": 60.0, "docCount": 3}]}}"#,
    );
}

#[test]
fn intervals_without_documents_are_shown_unless_excluded() {
    check(
        r#"{"h": {"$histogram": {"field": "price", "interval": 40, "offset": 5, "extendedBounds": {"min": -50, "max": 0}}}}"#,
        r#"{"h": {"buckets": [{"key": -75.0, "docCount": 0}, {"key": -35.0, "docCount": 1}, {"key": 5.0, "docCount": 4},
            {"key": 45.0, "docCount": 4}]}}"#,
    );
    check(
        r#"{"h": {"$histogram": {"field": "price", "interval": 25, "hardBounds": {"min": 50, "max": 70}, "keyed": true}}}"#,
        r#"{"h": {"buckets": {"50": {"key": 50.0, "docCount": 3}}}}"#,
    );
    check(
        r#"{"d": {"$dateHistogram": {"field": "at", "fixedInterval": "1d", "minDocCount": 1}}}"#,
        r#"{"d": {"buckets": [{"key": 1704067200000.0, "keyAsString": "2024-01-01T00:00:00Z", "docCount": 3},
            {"key": 1704153600000.0, "keyAsString": "2024-01-02T00:00:00Z", "docCount": 3},
            {"key": 1704240000000.0, "keyAsString": "2024-01-03T00:00:00Z", "docCount": 3}]}}"#,
    );
}

#[test]
fn facets_are_trees() {
    check(
        r#"{"f": {"$facet": {"field": "path", "path": "/colour"}}}"#,
        r#"{"f": {"path": "/colour", "sumOtherDocCount": 0, "children": [
            {"path": "/colour/blue", "docCount": 3, "sumOtherDocCount": 0},
            {"path": "/colour/green", "docCount": 3, "sumOtherDocCount": 0},
            {"path": "/colour/red", "docCount": 3, "sumOtherDocCount": 0}]}}"#,
    );
    check(
        r#"{"f": {"$facet": {"field": "path", "path": "/colour/", "depth": 2, "size": 1, "order": {"path": "desc"}}}}"#,
        r#"{"f": {"path": "/colour", "sumOtherDocCount": 6, "children": [{"path": "/colour/red", "docCount": 3,
            "sumOtherDocCount": 2, "children": [{"path": "/colour/red/6", "docCount": 1, "sumOtherDocCount": 0}]}]}}"#,
    );
}

#[test]
fn wrong_requests_say_why() {
    for (request, expected) in [
        (r#"{"a": "$avg"}"#, "Aggregation 'a' must be a JSON object"),
        (
            r#"{"a": {"$avg": "price"}}"#,
            "Aggregation 'a' is missing required 'field' property",
        ),
        (
            r#"{"a": {"$avg": {"field": "slow"}}}"#,
            "Aggregation 'a' operator '$avg' requires field 'slow' to be FAST",
        ),
        (
            r#"{"a": {"$avg": {"field": "tag"}}}"#,
            "Aggregation 'a' operator '$avg' does not support field 'tag' of type KEYWORD",
        ),
        (
            r#"{"a": {"$nope": {"field": "tag"}}}"#,
            "Aggregation 'a' has an unknown operator '$nope'",
        ),
        (
            r#"{"a": {"$histogram": {"field": "price", "interval": 0}}}"#,
            "Aggregation 'a' operator '$histogram' takes an interval above 0",
        ),
        (
            r#"{"a": {"$range": {"field": "price", "ranges": [{"to": 5}, {"from": 4}]}}}"#,
            "Aggregation 'a' operator '$range' takes 'ranges' that do not overlap",
        ),
        (
            r#"{"a": {"$facet": {"field": "path", "path": "/"}, "$aggs": {}}}"#,
            "Aggregation 'a' operator '$facet' does not support $aggs",
        ),
    ] {
        assert_eq!(
            Aggregation::parse(&schema(), request.as_bytes()).unwrap_err(),
            expected,
            "{request}"
        );
    }
}

#[test]
fn groups_and_values_are_bounded() {
    let schema = schema();
    let request = br#"{"h": {"$histogram": {"field": "price", "interval": 0.0001}}}"#;
    let aggregations = Aggregation::parse(&schema, request).unwrap();
    let clause = parse(&schema, b"{}").unwrap();
    let refused = aggregate(&mut rows(), &schema, &clause, &aggregations, &|| false).unwrap_err();
    assert_eq!(
        refused,
        SearchError::Limit("an aggregation has at most 65000 buckets".into())
    );
}
