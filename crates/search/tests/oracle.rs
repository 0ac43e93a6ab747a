//! Answers of the original, recorded by `tests/redis-oracle/record.py`, beside ours: how queries
//! are read, what they find, and with which scores.
//!
//! The documents are inserted in several orders, with other documents that are changed and removed
//! in between, and the index is settled or not: neither may affect the answers. A longer recording
//! in a folder that `QUARTET_SEARCH_RECORDING` names is compared as well.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use quartet_search::error::SearchError;
use quartet_search::index;
use quartet_search::index::document::Document;
use quartet_search::index::schema::{Field, FieldKind, Schema};
use quartet_search::index::values::Json;
use quartet_search::index::vector_kind::{Component, Graph, Metric, VectorKind};
use quartet_search::redis::execute::{Request, Revision, Scorer, search};
use quartet_search::redis::query::{Expander, Parameters, parse};
use quartet_search::rows::MemoryRows;
use quartet_search::time::Time;
use quartet_search::vectors::fields::VectorFields;
use serde_json::Value;

fn recordings(name: &str) -> Vec<Value> {
    let testdata = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let other = std::env::var_os("QUARTET_SEARCH_RECORDING").map(PathBuf::from);
    let folder = other.unwrap_or(testdata);
    let text = std::fs::read_to_string(folder.join(name)).expect("the recording is there");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect()
}

fn explained_schema() -> Schema {
    let mut missing = Field::text("m", 1.0);
    missing.index_missing = true;
    let no_stem = Field::new(
        "s",
        FieldKind::Text {
            weight: 1.0,
            no_stem: true,
        },
    );
    let vector = VectorKind::new(Component::Float32, 2, Metric::L2).unwrap();
    let graph = VectorKind::new(Component::Float32, 2, Metric::Cosine).unwrap();
    let graph = graph.with_graph(Graph::default());
    let fields = vec![
        Field::text("t", 1.0),
        Field::text("b", 3.0),
        no_stem,
        missing,
        Field::tag("g"),
        Field::numeric("n"),
        Field::new("v", FieldKind::Vector(vector)),
        Field::new("h", FieldKind::Vector(graph)),
        Field::new("l", FieldKind::Geo),
    ];
    Schema::new(fields).unwrap()
}

/// Queries that are read otherwise, on purpose. Each with its reason.
const READ_OTHERWISE: &[(&str, &str)] = &[
    ("@zz:hello", "8.x refuses an unknown field"),
    ("@n:hello", "8.x refuses a field of another type"),
    ("@t:{x}", "8.x refuses a field of another type"),
    ("@t:[1 2]", "8.x refuses a field of another type"),
    ("@zz:[13 38 100 km]", "8.x refuses an unknown field"),
    ("@n:[13 38 100 km]", "8.x refuses a field of another type"),
    ("@t:[VECTOR_RANGE 4 $q]", "8.x refuses a field of another type"),
    ("--hello", "8.x takes two negations for none"),
    ("@s:running", "8.x expands no word of fields without stems"),
    ("@s|t:running", "8.x expands no word of fields without stems"),
    ("'single quoted'", "8.x has single quotes"),
    ("ÄRGER straße", "8.x knows the case of letters that are not ASCII"),
];

#[test]
fn queries_are_read_as_the_original_reads_them() {
    let schema = explained_schema();
    let parameters: Parameters = [("q", vec![0; 8]), ("n", b"3".to_vec()), ("w", b"hello".to_vec())]
        .map(|(name, value)| (name.into(), value))
        .into();
    let mut wrong = Vec::new();
    let lines = recordings("explain.jsonl");
    for line in &lines {
        let query = line["query"].as_str().unwrap();
        if READ_OTHERWISE.iter().any(|(query_text, _)| *query_text == query) {
            continue;
        }
        let parsed = parse(&schema, query.as_bytes(), &parameters, Expander::All);
        let outcome = match &parsed {
            Ok(query) => query.explain(&schema),
            Err(error) => format!("ERR {error}"),
        };
        let expected = match line["error"].as_str() {
            Some(error) => format!("ERR {error}"),
            None => line["explained"].as_str().unwrap().to_owned(),
        };
        if outcome != expected {
            wrong.push(format!("{query}\n-- expected\n{expected}\n-- found\n{outcome}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} are wrong:\n{}",
        wrong.len(),
        lines.len(),
        wrong.join("\n\n")
    );
}

struct Recording {
    documents: Vec<(String, BTreeMap<String, String>)>,
    searches: Vec<Value>,
}

impl Recording {
    fn read() -> Recording {
        let (documents, searches): (Vec<_>, Vec<_>) = recordings("search.jsonl")
            .into_iter()
            .partition(|line| line.get("key").is_some());
        let document = |line: Value| {
            let fields = line["fields"].as_object().unwrap().iter();
            let fields = fields.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
            (line["key"].as_str().unwrap().to_owned(), fields.collect())
        };
        Recording {
            documents: documents.into_iter().map(document).collect(),
            searches,
        }
    }
}

fn schema() -> Schema {
    let mut number = Field::numeric("n");
    number.sortable = true;
    Schema::new(vec![
        Field::text("t", 1.0),
        Field::text("b", 3.0),
        Field::tag("g"),
        number,
    ])
    .unwrap()
}

fn put(rows: &mut MemoryRows, schema: &Schema, key: &str, fields: &BTreeMap<String, String>) {
    let value = |field: &Field| fields.get(&field.path).map(|value| value.as_bytes().to_vec());
    let document = Document::new(schema, key.as_bytes(), value).unwrap();
    index::put(rows, &document, &VectorFields);
}

fn scorer(name: &str) -> Scorer {
    match Scorer::of_name(name).unwrap() {
        Scorer::Bm25Std(_) => Scorer::Bm25Std(Revision::Search2_10),
        other => other,
    }
}

/// Score by key, of all matches.
fn found(
    rows: &mut MemoryRows,
    schema: &Schema,
    query: &str,
    scorer: Scorer,
) -> Result<BTreeMap<String, f64>, SearchError> {
    let query = parse(schema, query.as_bytes(), &Parameters::new(), Expander::All)?;
    let request = Request {
        count: 1000,
        scorer,
        ..Request::default()
    };
    let answer = search(rows, schema, &query, &request, Time::until(&|| false))?;
    assert_eq!(answer.total as usize, answer.hits.len());
    let ordered = answer
        .hits
        .windows(2)
        .all(|pair| pair[0].score > pair[1].score || pair[0].score == pair[1].score && pair[0].key < pair[1].key);
    assert!(ordered, "by score, and by key");
    let keyed = answer
        .hits
        .into_iter()
        .map(|hit| (String::from_utf8(hit.key).unwrap(), hit.score));
    Ok(keyed.collect())
}

/// A pattern's words all count here; the original counts the first that its tree has.
fn has_pattern(query: &str) -> bool {
    query.contains('*') || query.contains('%')
}

fn differences(rows: &mut MemoryRows, schema: &Schema, searches: &[Value]) -> Vec<String> {
    let mut differences = Vec::new();
    for line in searches {
        let (query, name) = (line["query"].as_str().unwrap(), line["scorer"].as_str().unwrap());
        let expected: BTreeMap<String, f64> = match line["hits"].as_array() {
            Some(hits) => hits
                .iter()
                .map(|hit| (hit[0].as_str().unwrap().to_owned(), hit[1].as_f64().unwrap()))
                .collect(),
            None => {
                let error = found(rows, schema, query, scorer(name)).unwrap_err();
                assert_eq!(error.to_string(), line["error"].as_str().unwrap());
                continue;
            }
        };
        let answer = match found(rows, schema, query, scorer(name)) {
            Ok(answer) => answer,
            Err(error) => {
                differences.push(format!("{query}: refused: {error}"));
                continue;
            }
        };
        let keys = |hits: &BTreeMap<String, f64>| hits.keys().cloned().collect::<BTreeSet<_>>();
        let (ours, theirs) = (keys(&answer), keys(&expected));
        if ours != theirs {
            let more: Vec<_> = ours.difference(&theirs).collect();
            let less: Vec<_> = theirs.difference(&ours).collect();
            differences.push(format!("{query}: too many {more:?}, too few {less:?}"));
        } else if !has_pattern(query) {
            let other = answer
                .iter()
                .find(|(key, score)| (*score - expected[*key]).abs() > 1e-6);
            differences
                .extend(other.map(|(key, score)| format!("{query} {name} {key}: {score}, not {}", expected[key])));
        }
    }
    differences
}

fn check(rows: &mut MemoryRows, schema: &Schema, searches: &[Value]) {
    let differences = differences(rows, schema, searches);
    assert!(
        differences.is_empty(),
        "{} of {}:\n{}",
        differences.len(),
        searches.len(),
        differences.join("\n")
    );
}

#[test]
fn searches_find_what_the_original_finds() {
    let (recording, schema) = (Recording::read(), schema());
    let mut rows = MemoryRows::default();
    for (key, fields) in &recording.documents {
        put(&mut rows, &schema, key, fields);
    }
    check(&mut rows, &schema, &recording.searches);
}

#[test]
fn neither_settling_nor_earlier_documents_show() {
    let (recording, schema) = (Recording::read(), schema());
    let other = recording.documents[0].1.clone();
    for settled_at_a_time in [1, 7, 1000] {
        let mut rows = MemoryRows::default();
        for (at, (key, fields)) in recording.documents.iter().rev().enumerate() {
            put(&mut rows, &schema, key, &other);
            put(&mut rows, &schema, &format!("gone{at}"), &other);
            if at.is_multiple_of(5) {
                index::settle(&mut rows, settled_at_a_time);
            }
            put(&mut rows, &schema, key, fields);
            if at.is_multiple_of(3) {
                index::settle(&mut rows, settled_at_a_time);
            }
            assert!(index::remove(&mut rows, format!("gone{at}").as_bytes(), &VectorFields));
        }
        check(&mut rows, &schema, &recording.searches);
        while index::settle(&mut rows, settled_at_a_time) {}
        check(&mut rows, &schema, &recording.searches);
    }
}

fn json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Number(number) => Json::Number(number.as_f64().unwrap()),
        Value::String(text) => Json::Text(text.as_bytes().to_vec()),
        Value::Array(values) => Json::List(values.iter().map(json).collect()),
        Value::Object(_) => Json::Object,
    }
}

fn declared(declaration: &str) -> Field {
    let mut words = declaration.split(' ');
    let mut field = match words.next().unwrap() {
        "TEXT" => Field::text("f", 1.0),
        "NUMERIC" => Field::numeric("f"),
        "GEO" => Field::new("f", FieldKind::Geo),
        "VECTOR" => {
            let kind = VectorKind::new(Component::Float32, 2, Metric::L2).unwrap();
            Field::new("f", FieldKind::Vector(kind))
        }
        _ => {
            let (separator, case_sensitive) = (declaration.contains("SEPARATOR").then_some(b','), false);
            let kind = FieldKind::Tag {
                separator,
                case_sensitive,
            };
            Field::new("f", kind)
        }
    };
    field.index_missing = declaration.contains("INDEXMISSING");
    field.index_empty = declaration.contains("INDEXEMPTY");
    field
}

#[test]
fn json_values_are_indexed_as_the_original_indexes_them() {
    let blob: Vec<u8> = [1f32, 2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let parameters: Parameters = [("b".to_owned(), blob)].into();
    for line in recordings("values.jsonl") {
        let schema = Schema::new(vec![declared(line["field"].as_str().unwrap())]).unwrap();
        let values: Vec<Json> = line["found"].as_array().unwrap().iter().map(json).collect();
        let document = match Document::of_json(&schema, b"k", |_| values.clone()) {
            Ok(document) => document,
            Err(failure) => {
                assert_eq!(Some(failure.reason.as_str()), line["error"].as_str(), "{line}");
                continue;
            }
        };
        assert!(line["error"].is_null(), "{line}");
        let mut rows = MemoryRows::default();
        index::put(&mut rows, &document, &VectorFields);
        for query in line["asked"].as_array().unwrap() {
            let matches = line["matches"].as_array().unwrap().contains(query);
            let query = parse(&schema, query.as_str().unwrap().as_bytes(), &parameters, Expander::All).unwrap();
            let answer = search(&mut rows, &schema, &query, &Request::default(), Time::until(&|| false)).unwrap();
            assert_eq!(answer.total, u64::from(matches), "{line}: {query:?}");
        }
        assert!(index::remove(&mut rows, b"k", &VectorFields));
        assert_eq!(rows.len(), 1, "only the counts are left: {line}");
    }
}

const DIMENSIONS: usize = 19;

/// Name, component and metric of each VECTOR field of the recording.
fn vector_fields() -> Vec<(String, VectorKind)> {
    let mut fields = Vec::new();
    for component in ["FLOAT32", "FLOAT64", "FLOAT16", "BFLOAT16"] {
        for metric in ["L2", "IP", "COSINE"] {
            let (named_component, named_metric) = (Component::of_name(component), Metric::of_name(metric));
            let kind = VectorKind::new(named_component.unwrap(), DIMENSIONS, named_metric.unwrap()).unwrap();
            fields.push((format!("{component}_{metric}"), kind));
        }
    }
    fields
}

fn numbers(value: &Value) -> Vec<f64> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|number| number.as_f64().unwrap()).collect()
}

/// The recording's numbers have few digits, so those of sixteen bits are exact.
fn blob(component: Component, numbers: &[f64]) -> Vec<u8> {
    let half = |number: f64| match number == 0.0 {
        true => 0,
        false => {
            let bits = (number as f32).to_bits();
            ((bits >> 31) << 15 | ((bits >> 23 & 0xff) - 112) << 10 | bits >> 13 & 0x3ff) as u16
        }
    };
    let bytes = |number: &f64| match component {
        Component::Float32 => (*number as f32).to_le_bytes().to_vec(),
        Component::Float64 => number.to_le_bytes().to_vec(),
        Component::Float16 => half(*number).to_le_bytes().to_vec(),
        _ => (*number as f32).to_le_bytes()[2..].to_vec(),
    };
    numbers.iter().flat_map(bytes).collect()
}

fn fields_schema() -> Schema {
    let mut fields = vec![
        Field::text("t", 1.0),
        Field::tag("g"),
        Field::numeric("n"),
        Field::new("l", FieldKind::Geo),
    ];
    let vectors = vector_fields().into_iter();
    fields.extend(vectors.map(|(name, kind)| Field::new(&name, FieldKind::Vector(kind))));
    Schema::new(fields).unwrap()
}

fn near(actual: f64, expected: f64) -> bool {
    (actual - expected).abs() <= 1e-6 * expected.abs().max(1.0)
}

#[test]
fn places_and_vectors_are_found_as_the_original_finds_them() {
    let schema = fields_schema();
    let (documents, searches): (Vec<_>, Vec<_>) = recordings("fields.jsonl")
        .into_iter()
        .partition(|line| line.get("key").is_some());
    let mut rows = MemoryRows::default();
    for line in &documents {
        let vector = numbers(&line["vector"]);
        let value = |field: &Field| match &field.kind {
            FieldKind::Vector(kind) => Some(blob(kind.component(), &vector)),
            _ => Some(line["fields"][&field.path].as_str().unwrap().as_bytes().to_vec()),
        };
        let document = Document::new(&schema, line["key"].as_str().unwrap().as_bytes(), value).unwrap();
        index::put(&mut rows, &document, &VectorFields);
    }
    for _ in 0..2 {
        let differences: Vec<_> = searches
            .iter()
            .filter_map(|line| difference(&mut rows, &schema, line))
            .collect();
        let (wrong, all) = (differences.len(), searches.len());
        assert!(differences.is_empty(), "{wrong} of {all}:\n{}", differences.join("\n"));
        while index::settle(&mut rows, 100) {}
    }
}

fn difference(rows: &mut MemoryRows, schema: &Schema, line: &Value) -> Option<String> {
    let text = line["query"].as_str().unwrap();
    let vector = line.get("vector").map(numbers);
    let parameters: Parameters = vector_fields()
        .into_iter()
        .filter_map(|(name, kind)| Some((name, blob(kind.component(), vector.as_ref()?))))
        .collect();
    let query = parse(schema, text.as_bytes(), &parameters, Expander::All).unwrap();
    let request = Request {
        count: 1000,
        scorer: Scorer::Bm25Std(Revision::Search2_10),
        ..Request::default()
    };
    let answer = search(rows, schema, &query, &request, Time::until(&|| false)).unwrap();
    let expected = line["hits"].as_array().unwrap();
    let mut ours: Vec<_> = answer
        .hits
        .iter()
        .map(|hit| String::from_utf8_lossy(&hit.key))
        .collect();
    let mut theirs: Vec<_> = expected.iter().map(|hit| hit[0].as_str().unwrap()).collect();
    ours.sort();
    theirs.sort();
    if ours != theirs {
        return Some(format!("{text}: {ours:?}, not {theirs:?}"));
    }
    for hit in &answer.hits {
        let has_key = |other: &&Value| other[0].as_str().unwrap().as_bytes() == hit.key;
        let expected = expected.iter().find(has_key).unwrap();
        if !near(hit.score, expected[1].as_f64().unwrap()) {
            return Some(format!("{text}: score {} of {expected}", hit.score));
        }
        let mut distances: BTreeMap<_, _> = hit.range_distances.iter().cloned().collect();
        let nearest = query.nearest.as_ref().zip(hit.distance);
        distances.extend(nearest.map(|(nearest, distance)| (nearest.distance_name.clone(), distance)));
        let theirs = expected[2].as_object().unwrap();
        let same = theirs.iter().all(|(name, distance)| {
            distances
                .get(name)
                .is_some_and(|own| near(*own, distance.as_f64().unwrap()))
        });
        if !same || theirs.len() != distances.len() {
            return Some(format!("{text}: {distances:?} of {expected}"));
        }
    }
    None
}
