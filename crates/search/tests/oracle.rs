//! Answers of the original, recorded by `tests/redis-oracle/record.py`, beside ours: how queries
//! are read, what they find, and with which scores.
//!
//! The documents come in several orders, with others that change and go between them, and the index
//! is settled or not: neither may show. A longer recording in a folder that
//! `QUARTET_SEARCH_RECORDING` names is compared as well.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use quartet_search::query::{Parameters, parse};
use quartet_search::search::{Request, Revision, Scorer, search};
use quartet_search::vectors::{Component, Metric, VectorKind};
use quartet_search::{Document, Field, FieldKind, MemoryRows, Schema, SearchError, index};
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
    let fields = vec![
        Field::text("t", 1.0),
        Field::text("b", 3.0),
        no_stem,
        missing,
        Field::tag("g"),
        Field::numeric("n"),
        Field::new("v", FieldKind::Vector(vector)),
    ];
    Schema::new(fields).unwrap()
}

/// Queries that are read otherwise, on purpose. Each with its reason.
const READ_OTHERWISE: &[(&str, &str)] = &[
    ("@zz:hello", "8.x refuses an unknown field"),
    ("@n:hello", "8.x refuses a field of another type"),
    ("@t:{x}", "8.x refuses a field of another type"),
    ("@t:[1 2]", "8.x refuses a field of another type"),
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
        if READ_OTHERWISE.iter().any(|(known, _)| *known == query) {
            continue;
        }
        let parsed = parse(&schema, query.as_bytes(), &parameters, false);
        let found = match &parsed {
            Ok(query) => query.explain(&schema),
            Err(error) => format!("ERR {error}"),
        };
        let expected = match line["error"].as_str() {
            Some(error) => format!("ERR {error}"),
            None => line["explained"].as_str().unwrap().to_owned(),
        };
        if found != expected {
            wrong.push(format!("{query}\n-- expected\n{expected}\n-- found\n{found}"));
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
    index::put(rows, &document);
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
    let query = parse(schema, query.as_bytes(), &Parameters::new(), false)?;
    let request = Request {
        count: 1000,
        scorer,
        ..Request::default()
    };
    let found = search(rows, schema, &query, &request, &|| false)?;
    assert_eq!(found.total as usize, found.hits.len());
    let ordered = found
        .hits
        .windows(2)
        .all(|pair| pair[0].score > pair[1].score || pair[0].score == pair[1].score && pair[0].key < pair[1].key);
    assert!(ordered, "by score, and by key");
    let by_key = found
        .hits
        .into_iter()
        .map(|hit| (String::from_utf8(hit.key).unwrap(), hit.score));
    Ok(by_key.collect())
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
        let found = match found(rows, schema, query, scorer(name)) {
            Ok(found) => found,
            Err(error) => {
                differences.push(format!("{query}: refused: {error}"));
                continue;
            }
        };
        let keys = |hits: &BTreeMap<String, f64>| hits.keys().cloned().collect::<BTreeSet<_>>();
        let (ours, theirs) = (keys(&found), keys(&expected));
        if ours != theirs {
            let more: Vec<_> = ours.difference(&theirs).collect();
            let less: Vec<_> = theirs.difference(&ours).collect();
            differences.push(format!("{query}: too many {more:?}, too few {less:?}"));
        } else if !has_pattern(query) {
            let other = found.iter().find(|(key, score)| (*score - expected[*key]).abs() > 1e-6);
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
fn neither_settling_nor_what_was_there_before_shows() {
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
            assert!(index::remove(&mut rows, format!("gone{at}").as_bytes()));
        }
        check(&mut rows, &schema, &recording.searches);
        while index::settle(&mut rows, settled_at_a_time) {}
        check(&mut rows, &schema, &recording.searches);
    }
}
