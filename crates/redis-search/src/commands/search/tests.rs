//! Compares replies with the recorded replies of the original, and indexes with the keys: after
//! every kind of change to a key, each search finds the same as a scan of all keys.

use std::collections::BTreeSet;

use quartet_wire_resp::Value;
use serde_json::Value as Json;

use crate::state::Search;
use crate::testing::{Choice, Connection, Fixture, search_fixture, show};

mod client_suites;
mod covered_names;
mod power_cuts;
mod saved;

/// Returns true if a document must be found, by the values of its fields.
type Matches<'m> = &'m dyn Fn(&dyn Fn(&str) -> Option<String>) -> bool;

fn without_code(reply: &str) -> String {
    match reply.strip_prefix("!SEARCH_").and_then(|error| error.split_once(' ')) {
        Some((_, text)) => format!("!{text}"),
        None => reply.into(),
    }
}

/// The parts of FT.INFO that are recorded.
const INFO_KEYS: &[&str] = &[
    "index_name",
    "index_options",
    "index_definition",
    "attributes",
    "num_docs",
    "hash_indexing_failures",
];

/// The value of FT.INFO without the pair added after the recorded version.
fn without_later(value: Value) -> Value {
    let is_later = |name: &Value| show(name) == "indexes_all";
    match value {
        Value::Array(mut values) => {
            if values.len() > 1 && is_later(&values[values.len() - 2]) {
                values.truncate(values.len() - 2);
            }
            Value::Array(values)
        }
        Value::Map(mut pairs) => {
            pairs.retain(|(name, _)| !is_later(name));
            Value::Map(pairs)
        }
        other => other,
    }
}

/// The totals of aggregations are left out, as in the recording.
fn normalized(command: &[&str], reply: Value) -> Value {
    let is_recorded = |name: &Value| INFO_KEYS.contains(&show(name).as_str());
    match reply {
        Value::Array(values) if command[0] == "FT.INFO" => {
            let pairs = values.chunks(2).filter(|pair| is_recorded(&pair[0]));
            Value::Array(pairs.flatten().cloned().map(without_later).collect())
        }
        Value::Map(mut pairs) if command[0] == "FT.INFO" => {
            pairs.retain(|(name, _)| is_recorded(name));
            Value::Map(
                pairs
                    .into_iter()
                    .map(|(name, value)| (name, without_later(value)))
                    .collect(),
            )
        }
        Value::Array(mut values) if command[0] == "FT.AGGREGATE" => {
            values[0] = Value::Integer(0);
            Value::Array(values)
        }
        Value::Map(mut pairs) if command[0] == "FT.AGGREGATE" => {
            pairs[1].1 = Value::Integer(0);
            Value::Map(pairs)
        }
        Value::Array(mut values) | Value::Set(mut values)
            if matches!(command[0], "FT.TAGVALS" | "FT._LIST" | "FT.DICTDUMP") =>
        {
            values.sort_by_key(show);
            Value::Array(values)
        }
        other => other,
    }
}

#[test]
fn replies_are_those_of_the_original() {
    compare(include_str!("../../../testdata/search.jsonl"));
}

#[test]
fn replies_about_text_are_those_of_the_original() {
    compare(include_str!("../../../testdata/search_text.jsonl"));
}

fn compare(recording: &str) {
    let wrong = [Connection::run, Connection::run_long].map(|run| differences(recording, run));
    let wrong = wrong.concat();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Commands that `run` executes with the lock held, or without it.
fn differences(recording: &str, run: fn(&mut Connection, &[&str]) -> Value) -> Vec<String> {
    let fixture = search_fixture();
    let mut resp2 = fixture.connect();
    let mut resp3 = fixture.connect();
    resp3.run(&["HELLO", "3"]);
    let mut wrong = Vec::new();
    for line in recording.lines() {
        let line: Json = serde_json::from_str(line).unwrap();
        let words: Vec<&str> = line["command"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        let text = words.join(" ");
        for (protocol, connection) in [("resp2", &mut resp2), ("resp3", &mut resp3)] {
            let Some(expected) = line[protocol].as_str() else {
                continue;
            };
            let reply = without_code(&show(&normalized(&words, run(connection, &words))));
            let expected = expected.replacen("!ERR ", "!", 1);
            let reply = reply.replacen("!ERR ", "!", 1);
            if reply != expected {
                wrong.push(format!("{protocol} {text}\n  expected {expected}\n  found    {reply}"));
            }
        }
    }
    wrong
}

const WORDS: &[&str] = &["alpha", "beta", "gamma", "delta", "running", "house"];
const TAGS: &[&str] = &["red", "blue", "green", "red,blue", "Green"];

/// A hash with a field of this length is a large one.
const LARGE_BYTES: usize = 5000;

const VECTORS: &str = "$.v AS v VECTOR HNSW 8 TYPE UINT8 DIM 2 DISTANCE_METRIC L2 M 2";

struct Judge {
    fixture: Fixture,
    connection: Connection,
    choice: Choice,
    searches: u32,
}

impl Judge {
    fn key(&mut self) -> String {
        let prefix = self.choice.of(&["d:", "d:", "d:", "e:"]);
        format!("{prefix}{}", self.choice.below(12))
    }

    fn run(&mut self, words: &[&str]) -> Value {
        self.connection.run(words)
    }

    fn hash(&mut self) -> Vec<String> {
        let text = format!("{} {}", self.choice.of(WORDS), self.choice.of(WORDS));
        let number = match self.choice.below(8) {
            0 => "none".to_owned(),
            _ => (self.choice.below(20) as i64 - 5).to_string(),
        };
        let tag = self.choice.of(TAGS).to_owned();
        let mut pairs = vec!["t".into(), text, "n".into(), number, "g".into(), tag];
        pairs.truncate(2 * (1 + self.choice.below(3) as usize));
        pairs
    }

    fn document(&mut self) -> String {
        let text = format!("{} {}", self.choice.of(WORDS), self.choice.of(WORDS));
        let numbers = ["7", "[1, 15]", "null", "\"none\"", "[4, null, 9]", "-2.5"];
        let (number, tag) = (self.choice.of(&numbers), self.choice.of(TAGS));
        let place = self
            .choice
            .of(&["", r#", "l": ["1,2", "30,40"]"#, r#", "l": "30.01,40""#]);
        // A document with this is a large one.
        let padding = match self.choice.below(6) {
            0 => format!(r#", "padding": ["{}"]"#, "x".repeat(4 * LARGE_BYTES)),
            _ => String::new(),
        };
        let vector = match self.choice.below(4) {
            0 => String::new(),
            _ => format!(r#", "v": [{}, {}]"#, self.choice.below(10), self.choice.below(10)),
        };
        format!(r#"{{"t": "{text}", "n": {number}, "g": ["{tag}", "more"]{place}{vector}{padding}}}"#)
    }

    /// Changes a document in one of several ways.
    fn change_document(&mut self, key: &str) {
        let document = self.document();
        match self.choice.below(12) {
            0..=4 => _ = self.run(&["JSON.SET", key, "$", &document]),
            5 => _ = self.run(&["JSON.NUMINCRBY", key, "$.n", "3"]),
            6 => _ = self.run(&["JSON.ARRAPPEND", key, "$.g", "\"blue\""]),
            7 => _ = self.run(&["JSON.DEL", key, "$.n"]),
            8 => _ = self.run(&["JSON.MERGE", key, "$", r#"{"t": "gamma", "n": null}"#]),
            9 => _ = self.run(&["JSON.ARRPOP", key, "$.g"]),
            10 => _ = self.run(&["JSON.MSET", key, "$", &document, "e:1", "$", "{}"]),
            _ => _ = self.run(&["JSON.CLEAR", key, "$.g"]),
        }
    }

    /// Changes keys in one of many ways.
    fn change(&mut self) {
        let (key, other) = (self.key(), self.key());
        let (key, other) = (key.as_str(), other.as_str());
        let hash = self.hash();
        let set: Vec<&str> = ["HSET", key]
            .into_iter()
            .chain(hash.iter().map(String::as_str))
            .collect();
        match self.choice.below(39) {
            0..=8 => _ = self.run(&set),
            9 => _ = self.run(&["HDEL", key, "t"]),
            10 => _ = self.run(&["HDEL", key, "n", "g", "t"]),
            11 => _ = self.run(&["HINCRBY", key, "n", "3"]),
            12 => _ = self.run(&["DEL", key]),
            13 => _ = self.run(&["UNLINK", key, other]),
            14 => _ = self.run(&["RENAME", key, other]),
            15 => _ = self.run(&["COPY", key, other, "REPLACE"]),
            16 => _ = self.run(&["SET", key, "a string"]),
            17 => _ = self.run(&["PEXPIRE", key, "50"]),
            18 => _ = self.run(&["PERSIST", key]),
            19 => _ = self.run(&["HPEXPIRE", key, "60", "FIELDS", "1", "g"]),
            20 => _ = self.run(&["HGETDEL", key, "FIELDS", "1", "n"]),
            21 => _ = self.run(&["MOVE", key, "1"]),
            22 => _ = self.run(&["SWAPDB", "0", "1"]),
            23 => self.move_by_dump(key, other),
            24 => self.in_transaction(&set, other),
            25 => {
                _ = self.run(&[
                    "EVAL",
                    "redis.call(unpack(ARGV)) return redis.call('DEL', KEYS[1])",
                    "1",
                    other,
                    "HSET",
                    key,
                    "t",
                    "alpha",
                    "n",
                    "3",
                ])
            }
            26 => _ = self.run(&["EVAL", "redis.call('HSET', KEYS[1], 'n', '4') error('over')", "1", key]),
            27 => self.fixture.advance_ms(30),
            28 => self.fixture.layer.expire_due(),
            // From then on its fields are in rows of their own.
            29 => _ = self.run(&["HSET", key, "padding", &"x".repeat(LARGE_BYTES)]),
            30 => _ = self.run(&["SORT", key, "BY", "nosort", "STORE", other]),
            // Takes vectors into the graph, and out of it.
            31 => self.fixture.finish_work(),
            _ => self.change_document(key),
        }
    }

    fn move_by_dump(&mut self, key: &str, other: &str) {
        let (mut request, mut out) = (Vec::new(), Vec::new());
        let mut dump = self.connection.bytes(&["DUMP", key]);
        if !dump.starts_with(b"$") || dump.starts_with(b"$-1") {
            return;
        }
        let start = dump.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        dump.truncate(dump.len() - 2);
        let words: [&[u8]; 5] = [b"RESTORE", other.as_bytes(), b"0", &dump[start..], b"REPLACE"];
        quartet_wire_resp::encode_command(&words, &mut request);
        self.connection.session.receive(&request, &mut out);
        assert_eq!(out, b"+OK\r\n");
    }

    /// A search inside sees what was written before it, and a refused transaction leaves nothing.
    fn in_transaction(&mut self, set: &[&str], other: &str) {
        let is_kept = self.choice.below(3) > 0;
        self.run(&["MULTI"]);
        self.run(&["DEL", other]);
        self.run(set);
        self.run(&["FT.SEARCH", "i", "*", "LIMIT", "0", "0"]);
        if is_kept {
            let Value::Array(replies) = self.run(&["EXEC"]) else {
                panic!("EXEC answers what its commands do");
            };
            let Value::Array(results) = &replies[2] else {
                let has_index = show(&self.run(&["FT._LIST"])) == "[i j]";
                return assert!(!has_index, "{}", show(&replies[2]));
            };
            let total = results[0].clone();
            assert_eq!(
                self.run(&["FT.SEARCH", "i", "*", "LIMIT", "0", "0"]),
                Value::Array(vec![total])
            );
        } else {
            self.run(&["DISCARD"]);
        }
    }

    fn fields(&mut self, key: &str) -> Option<Vec<(String, String)>> {
        if show(&self.run(&["TYPE", key])) != "hash" {
            return None;
        }
        let Value::Array(values) = self.run(&["HGETALL", key]) else {
            panic!("HGETALL answers a list");
        };
        let words: Vec<String> = values.iter().map(show).collect();
        Some(words.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
    }

    /// The keys that a look at each of them finds.
    fn expected(&mut self, matches: Matches<'_>) -> BTreeSet<String> {
        let Value::Array(keys) = self.run(&["KEYS", "d:*"]) else {
            panic!("KEYS answers a list");
        };
        let mut expected = BTreeSet::new();
        for key in keys.iter().map(show) {
            let Some(fields) = self.fields(&key) else { continue };
            let value = |name: &str| {
                fields
                    .iter()
                    .find(|(field, _)| field == name)
                    .map(|(_, value)| value.clone())
            };
            let fits = value("n").is_none_or(|number| number.parse::<f64>().is_ok());
            if fits && matches(&value) {
                expected.insert(key);
            }
        }
        expected
    }

    /// The documents that a look at each of them finds.
    fn expected_documents(&mut self, matches: &dyn Fn(&Json) -> bool) -> BTreeSet<String> {
        let Value::Array(keys) = self.run(&["KEYS", "d:*"]) else {
            panic!("KEYS answers a list");
        };
        let mut expected = BTreeSet::new();
        for key in keys.iter().map(show) {
            if show(&self.run(&["TYPE", &key])) != "ReJSON-RL" {
                continue;
            }
            let document: Json = serde_json::from_str(&show(&self.run(&["JSON.GET", &key]))).unwrap();
            if !document["n"].is_string() && matches(&document) {
                expected.insert(key);
            }
        }
        expected
    }

    fn check_documents(&mut self) {
        assert_eq!(self.found_in("j", "*"), self.expected_documents(&|_| true));
        let word = self.choice.of(WORDS);
        let has_word = |document: &Json| {
            let text = document["t"].as_str();
            text.is_some_and(|text| text.split(' ').any(|other| other == word))
        };
        let documents = self.found_in("j", &format!("@t:{word}"));
        assert_eq!(documents, self.expected_documents(&has_word), "{word}");
        let tag = self.choice.of(&["red", "blue", "more"]);
        let has_tag = |document: &Json| {
            let tags = document["g"].as_array();
            tags.is_some_and(|tags| tags.iter().any(|other| other.as_str() == Some(tag)))
        };
        let documents = self.found_in("j", &format!("@g:{{{tag}}}"));
        assert_eq!(documents, self.expected_documents(&has_tag), "{tag}");
        let is_in = |document: &Json| {
            let single = document["n"].as_f64().into_iter();
            let several = document["n"].as_array().into_iter().flatten().filter_map(Json::as_f64);
            single.chain(several).any(|number| (3.0..10.0).contains(&number))
        };
        let documents = self.found_in("j", "@n:[3 (10]");
        assert_eq!(documents, self.expected_documents(&is_in));
        let documents = self.found_in("j", "@l:[30 40 5 km]");
        assert_eq!(documents, self.expected_documents(&|document| !document["l"].is_null()));
        self.check_vectors();
    }

    /// A range is exact; the nearest of few are all of them, in any state of the graph.
    fn check_vectors(&mut self) {
        let is_near = |document: &Json| {
            let components = document["v"].as_array().map(|vector| {
                let numbers = vector.iter().filter_map(Json::as_i64);
                numbers.map(|component| (component - 5) * (component - 5)).sum::<i64>()
            });
            components.is_some_and(|distance| distance <= 9)
        };
        let answer_of = |query| {
            let words = ["FT.SEARCH", "j", query, "PARAMS", "2", "q", "\u{5}\u{5}", "NOCONTENT"];
            [&words[..], &["LIMIT", "0", "1000"]].concat()
        };
        let documents = self.found_by(&answer_of("@v:[VECTOR_RANGE 9 $q]"));
        assert_eq!(documents, self.expected_documents(&is_near));
        let documents = self.found_by(&answer_of("*=>[KNN 100 @v $q]"));
        assert_eq!(documents, self.expected_documents(&|document| document["v"].is_array()));
    }

    fn found(&mut self, query: &str) -> BTreeSet<String> {
        self.found_in("i", query)
    }

    fn found_in(&mut self, index: &str, query: &str) -> BTreeSet<String> {
        self.found_by(&["FT.SEARCH", index, query, "NOCONTENT", "LIMIT", "0", "1000"])
    }

    fn found_by(&mut self, request: &[&str]) -> BTreeSet<String> {
        self.searches += 1;
        let reply = match self.searches.is_multiple_of(2) {
            true => self.run(request),
            false => self.connection.run_long(request),
        };
        let Value::Array(values) = reply else {
            panic!("{request:?}: {}", show(&reply));
        };
        let total = show(&values[0]).parse::<usize>().unwrap();
        let keys: BTreeSet<String> = values[1..].iter().map(show).collect();
        assert_eq!((total, keys.len()), (keys.len(), values.len() - 1));
        keys
    }

    fn check(&mut self) {
        self.check_documents();
        let keys = self.found("*");
        assert_eq!(keys, self.expected(&|_| true));
        let word = self.choice.of(WORDS);
        let keys = self.found(&format!("@t:{word}"));
        let has_word = |text: String| text.split(' ').any(|other| other == word);
        assert_eq!(keys, self.expected(&|value| value("t").is_some_and(has_word)), "{word}");
        let tag = self.choice.of(&["red", "blue", "green"]);
        let keys = self.found(&format!("@g:{{{tag}}}"));
        let has_tag = |tags: String| tags.to_lowercase().split(',').any(|other| other == tag);
        assert_eq!(keys, self.expected(&|value| value("g").is_some_and(has_tag)), "{tag}");
        let low = self.choice.below(10);
        let keys = self.found(&format!("@n:[{low} (12]"));
        let is_in = |number: String| {
            number
                .parse::<f64>()
                .is_ok_and(|number| number >= low as f64 && number < 12.0)
        };
        assert_eq!(keys, self.expected(&|value| value("n").is_some_and(is_in)), "{low}");
        let keys = self.found("-@g:{red} @n:[0 inf]");
        let is_other = |value: &dyn Fn(&str) -> Option<String>| {
            let is_red = value("g").is_some_and(|tags| tags.split(',').any(|tag| tag == "red"));
            !is_red
                && value("n")
                    .and_then(|number| number.parse::<f64>().ok())
                    .is_some_and(|number| number >= 0.0)
        };
        assert_eq!(keys, self.expected(&is_other));
        let findings = self.fixture.findings();
        assert!(findings.kept.is_empty(), "{:?}", findings.kept);
    }
}

fn judge(seed: u64, changes: u32) {
    let fixture = search_fixture();
    let connection = fixture.connect();
    let choice = Choice(seed);
    let mut judge = Judge {
        fixture,
        connection,
        choice,
        searches: 0,
    };
    for _ in 0..20 {
        judge.change();
    }
    let create = "FT.CREATE i PREFIX 1 d: SCHEMA t TEXT NOSTEM n NUMERIC SORTABLE";
    judge.connection.check(&format!("{create} => OK"));
    judge.connection.check("FT.ALTER i SCHEMA ADD g TAG => OK");
    let documents = "FT.CREATE j ON JSON PREFIX 1 d: SCHEMA $.t AS t TEXT NOSTEM $.n AS n NUMERIC";
    judge.connection.check(&format!("{documents} => OK"));
    judge.connection.check(&format!(
        "FT.ALTER j SCHEMA ADD $.g[*] AS g TAG $.l AS l GEO {VECTORS} => OK"
    ));
    for step in 0..changes {
        judge.change();
        if judge.choice.below(3) == 0 {
            judge.check();
        }
        if step % 97 == 96 {
            let drops = "FT.DROPINDEX i => OK\nFT.DROPINDEX j";
            let flush = judge.choice.of(&["FLUSHALL", "FLUSHDB", drops]).to_owned();
            let documents = format!("{documents} $.g[*] AS g TAG $.l AS l GEO {VECTORS} => OK");
            judge.connection.check(&format!(
                "{flush} => OK\nFT._LIST => []\n{create} g TAG => OK\n{documents}"
            ));
        }
    }
    judge.check();
    assert!(judge.searches > changes);
}

#[test]
fn every_search_finds_what_the_keys_hold() {
    for seed in 1..=4 {
        judge(seed, 500);
    }
}

/// Requests of the differential run that were read otherwise than the original reads them.
#[test]
fn words_mean_what_they_mean_at_the_original() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        r"FT.CREATE i SCHEMA t TEXT s TAG n NUMERIC => OK
        HSET d:1 t hello s hello n 1 => 3
        FT.SEARCH i w'h*l\?o' NOCONTENT => [1 d:1]
        FT.SEARCH i @s:{w'h\*l?'} NOCONTENT => [1 d:1]
        FT.AGGREGATE i * VERBATIM LOAD 1 @n => [1 [n 1]]
        FT.AGGREGATE i * LIMIT 0 1 VERBATIM LOAD 1 @n => [1 [n 1]]
        FT.AGGREGATE i * LOAD 1 @n VERBATIM => !SEARCH_ARG_UNRECOGNIZED Unknown argument `VERBATIM` at position 4 for <main>
        FT.AGGREGATE i * GROUPBY 1 @n TIMEOUT 0 => [1 [n 1]]",
    );
    let explained = connection.run(&["FT.EXPLAIN", "i", "\"fly\"", "DIALECT", "1"]);
    assert_eq!(show(&explained), "fly\n");
}

/// A telephone number was not found in the first dialect, the original's default: the sign was part
/// of the word `+49`, which no document has. In the others the original finds nothing either.
#[test]
fn a_sign_before_a_number_is_no_part_of_a_word_in_the_first_dialect() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.run(&["FT.CREATE", "i", "SCHEMA", "t", "TEXT", "n", "NUMERIC"]);
    connection.run(&["HSET", "d:1", "t", "call +49 30 123456", "n", "49"]);
    let numbers = ["%+49%", "@n:[+48 +50]", "@n:[(+4.5 +inf]"];
    for query in ["+49 30 123456", "@t:+49", "(+49)", "+49*", "a+49"]
        .iter()
        .chain(&numbers)
    {
        let mut found = |dialect| show(&connection.run(&["FT.SEARCH", "i", query, "NOCONTENT", "DIALECT", dialect]));
        assert_eq!(found("1"), "[1 d:1]", "{query}");
        let later = if numbers.contains(query) { "[1 d:1]" } else { "[0]" };
        assert_eq!(found("2"), later, "{query}");
    }
    for (query, explained) in [
        ("+49*", "PREFIX{49*}\n"),
        ("-+49", "NOT{\n  49\n}\n"),
        ("~+4.5", "OPTIONAL{\n  4.5\n}\n"),
    ] {
        let shown = connection.run(&["FT.EXPLAIN", "i", query, "DIALECT", "1"]);
        assert_eq!(show(&shown), explained, "{query}");
    }
}

/// A path's first text is marked where it is shown as such; arrays and whole documents are not.
#[test]
fn texts_of_documents_are_marked() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i ON JSON SCHEMA $.t AS t TEXT $.u[*] AS u TEXT => OK");
    let document = r#"{"t":"hello world","u":["old hello","hello"]}"#;
    connection.run(&["JSON.SET", "d", "$", document]);
    let mut answer = |options: &str| {
        let words: Vec<&str> = "FT.SEARCH i hello HIGHLIGHT"
            .split(' ')
            .chain(options.split(' '))
            .collect();
        show(&connection.run(&words))
    };
    let marked = answer("RETURN 2 t u");
    assert!(marked.contains("<b>hello</b> world"), "{marked}");
    assert!(marked.contains("old <b>hello</b>"), "{marked}");
    for options in [
        "DIALECT 2",
        "DIALECT 4",
        "RETURN 2 t u DIALECT 3",
        "SUMMARIZE DIALECT 4",
    ] {
        let reply = answer(options);
        assert!(reply.contains("hello") && !reply.contains("<b>"), "{options}: {reply}");
    }
}

/// The values computed by an aggregation's steps count like loaded values.
#[test]
fn an_aggregation_that_would_hold_too_much_is_refused() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA n NUMERIC => OK");
    for key in 0..30 {
        connection.run(&["HSET", &format!("k{key}"), "n", "1"]);
    }
    let long = format!("upper('{}')", "a".repeat(250_000));
    let longer = format!("format('{}'{})", "%s".repeat(20), ", @x".repeat(20));
    let mut answer = |limit: &str| {
        let request = ["FT.AGGREGATE", "i", "*", "LIMIT", "0", limit, "APPLY", &long, "AS", "x"];
        let words: Vec<&str> = request.into_iter().chain(["APPLY", &longer, "AS", "y"]).collect();
        show(&connection.run(&words))
    };
    assert!(answer("3").starts_with("[3 "));
    let refused = answer("30");
    assert!(
        refused.starts_with("!SEARCH_LIMIT_OVER An aggregation's records"),
        "{refused}"
    );
    assert_eq!(Search::of(&fixture.layer).search_bytes(), 0);
}

/// More documents than wait to be settled, written, changed and removed.
#[test]
fn settling_does_not_show() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA t TEXT g TAG => OK");
    let total = |connection: &mut Connection, query: &str| {
        let Value::Array(answer) = connection.run(&["FT.SEARCH", "i", query, "LIMIT", "0", "0"]) else {
            panic!("a search was refused");
        };
        show(&answer[0])
    };
    for key in 0..700 {
        let text = format!("word{} common", key % 10);
        connection.run(&["HSET", &format!("k{key}"), "t", &text, "g", "x"]);
    }
    assert_eq!(total(&mut connection, "common"), "700");
    assert_eq!(total(&mut connection, "word3"), "70");
    (0..350).for_each(|key| _ = connection.run(&["DEL", &format!("k{key}")]));
    assert_eq!(total(&mut connection, "common"), "350");
    assert_eq!(total(&mut connection, "word3 @g:{x}"), "35");
    (350..700).for_each(|key| _ = connection.run(&["HSET", &format!("k{key}"), "t", "other"]));
    assert_eq!(total(&mut connection, "common"), "0");
    assert_eq!(total(&mut connection, "other"), "350");
}

/// An index over many keys is filled in steps; writes meanwhile are in it at once.
#[test]
fn a_large_database_is_filled_in_steps() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    for key in 0..600 {
        connection.run(&["HSET", &format!("k{key}"), "n", &key.to_string()]);
    }
    connection.check("FT.CREATE i SCHEMA n NUMERIC => OK");
    let Value::Array(info) = connection.run(&["FT.INFO", "i"]) else {
        panic!("FT.INFO answers a list");
    };
    let info: Vec<String> = info.iter().map(show).collect();
    let of = |name: &str| info[info.iter().position(|item| item == name).unwrap() + 1].as_str();
    assert_eq!((of("indexing"), of("percent_indexed"), of("num_docs")), ("1", "0", "0"));
    connection.check("HSET k0 n 1000 => 0\nHSET new n 1001 => 1\nDEL k1 => 1");
    // The connection's thread does not wait for it.
    assert!(connection.bytes(&["FT.SEARCH", "i", "*"]).is_empty());
    fixture.finish_work();
    let mut connection = fixture.connect();
    let written = ["FT.SEARCH", "i", "@n:[1000 +inf]", "SORTBY", "n", "NOCONTENT"];
    assert_eq!(show(&connection.run(&written)), "[2 k0 new]");
    connection.check("FT.SEARCH i * LIMIT 0 0 => [600]");
}

/// Requests with that option get the present content of an incomplete index, with a warning that
/// has its progress; a full index has no warning.
#[test]
fn an_index_that_is_being_filled_answers_parts_on_demand() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    for key in 0..600 {
        connection.run(&[
            "HSET",
            &format!("k{key}"),
            "n",
            &key.to_string(),
            "t",
            "hello",
            "v",
            "aa",
        ]);
    }
    connection.check(
        "FT.CREATE i SCHEMA n NUMERIC t TEXT g TAG v VECTOR FLAT 6 TYPE UINT8 DIM 2 DISTANCE_METRIC L2 => OK
         HSET new n 1001 t hello g x v aa => 4
         CONFIG SET search-partial-results yes => OK
         FT.CONFIG GET PARTIAL_RESULTS => [[PARTIAL_RESULTS yes]]
         FT.SEARCH i hello NOCONTENT => [1 new]
         FT.AGGREGATE i * LOAD 1 n => [1 [n 1001]]
         FT.TAGVALS i g => [x]",
    );
    connection.run(&["HELLO", "3"]);
    let warning = "Index contains partial data: it is being filled, 0.0% of the keys were looked at";
    let requests = [
        "FT.SEARCH i hello NOCONTENT",
        "FT.AGGREGATE i * LOAD 1 n",
        "FT.HYBRID i SEARCH hello VSIM @v $q PARAMS 2 q aa",
        "FT.PROFILE i SEARCH QUERY hello NOCONTENT",
        "FT.PROFILE i HYBRID QUERY SEARCH hello VSIM @v $q PARAMS 2 q aa",
    ];
    let warnings = |connection: &mut Connection| {
        requests.map(|request| {
            let words: Vec<&str> = request.split(' ').collect();
            show(&connection.run(&words)).matches(warning).count()
        })
    };
    // A profile repeats it.
    assert_eq!(warnings(&mut connection), [1, 1, 1, 2, 4]);
    connection.check("CONFIG SET search-partial-results no => OK");
    assert!(connection.bytes(&["FT.SEARCH", "i", "*"]).is_empty());
    let mut connection = fixture.connect();
    connection.run(&["HELLO", "3"]);
    connection.check("CONFIG SET search-partial-results yes => OK");
    fixture.finish_work();
    assert_eq!(warnings(&mut connection), [0; 5]);
}

/// Nothing is left of an index that goes before it is full, and nothing fills it.
#[test]
fn an_index_goes_while_it_is_filled() {
    for drop in ["FT.DROPINDEX i", "FT.DROPINDEX i DD", "FLUSHALL"] {
        let fixture = search_fixture();
        let mut connection = fixture.connect();
        for key in 0..600 {
            connection.run(&["HSET", &format!("k{key}"), "n", &key.to_string()]);
        }
        connection.check(&format!(
            "FT.CREATE i SCHEMA n NUMERIC => OK\nHSET k0 n 1000 => 0\n{drop} => OK\nFT._LIST => []"
        ));
        fixture.finish_work();
        let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
        assert_eq!(reader.count(b"S", b"T"), 0, "{drop}");
        let remaining = match drop {
            "FT.DROPINDEX i" => 600,
            "FLUSHALL" => 0,
            // The only one that was in it.
            _ => 599,
        };
        connection.check(&format!("DBSIZE => {remaining}"));
    }
}

/// The number of terms of the settled documents in the index `i`.
fn settled_terms(connection: &mut Connection) -> String {
    let Value::Array(info) = connection.run(&["FT.INFO", "i"]) else {
        panic!("FT.INFO answers a list");
    };
    let info: Vec<String> = info.iter().map(show).collect();
    info[info.iter().position(|name| name == "num_terms").unwrap() + 1].clone()
}

/// Documents of an index without additions for a second are settled, and found as before.
#[test]
fn a_quiet_index_is_settled() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA t TEXT => OK\nHSET a t hello => 1\nHSET b t hello => 1");
    fixture.finish_work();
    fixture.advance_ms(999);
    fixture.finish_work();
    assert_eq!(settled_terms(&mut connection), "0");
    connection.check("HSET c t hello => 1");
    fixture.finish_work();
    fixture.advance_ms(999);
    fixture.finish_work();
    assert_eq!(settled_terms(&mut connection), "0");
    fixture.advance_ms(1);
    fixture.finish_work();
    assert_eq!(settled_terms(&mut connection), "1");
    connection.check("FT.SEARCH i hello NOCONTENT => [3 a b c]");
}

#[test]
fn a_search_needs_the_right_to_all_keys_of_its_index() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "FT.CREATE i PREFIX 1 d: SCHEMA t TEXT => OK
         HSET d:1 t hello => 1
         ACL SETUSER all on nopass +@search ~d:* => OK
         ACL SETUSER more on nopass +@read %R~* => OK
         ACL SETUSER one on nopass +@search ~d:1 => OK
         ACL SETUSER other on nopass +@all ~e:* => OK
         AUTH all x => OK
         FT.SEARCH i hello NOCONTENT => [1 d:1]
         FT.CREATE j PREFIX 1 e: SCHEMA t TEXT => !NOPERM No permissions to access a key
         AUTH more x => OK
         FT.SEARCH i hello NOCONTENT => [1 d:1]
         AUTH one x => OK
         FT.SEARCH i hello NOCONTENT => !NOPERM No permissions to access a key
         FT.INFO i => !NOPERM No permissions to access a key
         AUTH other x => OK
         FT.AGGREGATE i * => !NOPERM No permissions to access a key
         FT.DROPINDEX i DD => !NOPERM No permissions to access a key",
    );
}

#[test]
fn a_cursor_gives_all_results_piece_by_piece() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA n NUMERIC => OK");
    (0..5).for_each(|key| _ = connection.run(&["HSET", &format!("k{key}"), "n", &key.to_string()]));
    let piece = |reply: Value| {
        let Value::Array(parts) = reply else {
            panic!("a piece and a cursor: {}", show(&reply));
        };
        let Value::Array(records) = &parts[0] else {
            panic!("a piece is a list");
        };
        let records: Vec<String> = records[1..].iter().map(show).collect();
        (records.join(" "), show(&parts[1]))
    };
    let words = [
        "FT.AGGREGATE",
        "i",
        "*",
        "LOAD",
        "1",
        "n",
        "WITHCURSOR",
        "COUNT",
        "2",
        "MAXIDLE",
        "1000",
    ];
    let (records, id) = piece(connection.run(&words));
    assert_eq!(records, "[n 0] [n 1]");
    let (records, same) = piece(connection.run(&["FT.CURSOR", "READ", "i", &id]));
    assert_eq!((records.as_str(), &same), ("[n 2] [n 3]", &id));
    let (records, end) = piece(connection.run(&["FT.CURSOR", "READ", "i", &id, "COUNT", "9"]));
    assert_eq!((records.as_str(), end.as_str()), ("[n 4]", "0"));
    let missing = "!SEARCH_CURSOR_NOT_FOUND Cursor not found";
    assert_eq!(show(&connection.run(&["FT.CURSOR", "READ", "i", &id])), missing);
    let (_, id) = piece(connection.run(&words));
    fixture.advance_ms(1001);
    assert_eq!(show(&connection.run(&["FT.CURSOR", "READ", "i", &id])), missing);
    let (_, id) = piece(connection.run(&words));
    assert_eq!(show(&connection.run(&["FT.CURSOR", "DEL", "i", &id])), "OK");
    // A later index of the same name has none of the cursors of an earlier one.
    for drop in ["FT.DROPINDEX i", "FLUSHALL"] {
        let (_, id) = piece(connection.run(&words));
        connection.check(&format!("{drop} => OK"));
        assert_eq!(show(&connection.run(&["FT.CURSOR", "READ", "i", &id])), missing);
        connection.check("FT.CREATE i SCHEMA n NUMERIC => OK");
        assert_eq!(show(&connection.run(&["FT.CURSOR", "READ", "i", &id])), missing);
    }
}

/// Counts as programs do: the total is that of LIMIT's input.
#[test]
fn an_aggregation_is_counted_with_a_limit_of_nothing() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA g TAG SORTABLE => OK");
    (0..9).for_each(|key| _ = connection.run(&["HSET", &format!("k{key}"), "g", &(key % 4).to_string()]));
    connection.check("FT.AGGREGATE i * LIMIT 0 0 => [9]");
    connection.check("FT.AGGREGATE i * LIMIT 100 5 => [9]");
    connection.check("FT.AGGREGATE i * GROUPBY 1 @g LIMIT 0 0 => [4]");
    connection.check("FT.AGGREGATE i * GROUPBY 1 @g SORTBY 1 @g LIMIT 1 1 => [4 [g 1]]");
    connection.check("FT.SEARCH i * LIMIT 1000001 1 => !SEARCH_LIMIT_OVER OFFSET exceeds maximum of 1000000");
}

/// SORTBY and LIMIT are one step in any positions, until records are grouped.
#[test]
fn an_order_and_a_limit_are_one_step() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA n NUMERIC SORTABLE => OK");
    (0..9).for_each(|key| _ = connection.run(&["HSET", &format!("k{key}"), "n", &key.to_string()]));
    connection.check("FT.AGGREGATE i * LIMIT 1 2 SORTBY 2 @n DESC => [9 [n 7] [n 6]]");
    connection.check("FT.AGGREGATE i * SORTBY 2 @n DESC MAX 3 LIMIT 0 2 => [9 [n 8] [n 7]]");
    connection.check("FT.AGGREGATE i * LIMIT 1 9 SORTBY 2 @n DESC MAX 2 => [9 [n 7] [n 6]]");
    connection.check("FT.AGGREGATE i * SORTBY 1 @n LIMIT 0 1 LIMIT 1 2 => [9 [n 1] [n 2]]");
    let twice = "Multiple SORTBY steps are not allowed. Sort multiple fields in a single step";
    connection.check(&format!(
        "FT.AGGREGATE i * SORTBY 1 @n APPLY 1 AS x SORTBY 1 @x => !SEARCH_PARSE_ARGS {twice}"
    ));
    let refusal = "!SEARCH_LIMIT_OVER The `offset` of the LIMIT must be 0 when `num` is 0";
    connection.check(&format!("FT.AGGREGATE i * LIMIT 3 0 => {refusal}"));
    connection.check(&format!("FT.SEARCH i * LIMIT 3 0 => {refusal}"));
    connection.check("FT.SEARCH i * SORTBY n DESC LIMIT 0 1 NOCONTENT WITHSORTKEYS => [9 k8 #8]");
}

/// An expression takes what was loaded before it; groups and orders load what they name.
#[test]
fn expressions_take_what_was_loaded_before_them() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA n NUMERIC SORTABLE g TEXT => OK");
    connection.check("HSET k n 1 g x => 2");
    let lacks = |name: &str| format!("!SEARCH_PROP_NOT_FOUND Property `{name}` not loaded nor in pipeline");
    let check = |connection: &mut Connection, steps: &str, expected: &str| {
        connection.check(&format!("FT.AGGREGATE i * {steps} => {expected}"));
    };
    check(&mut connection, "APPLY upper(@g) AS a", &lacks("g"));
    check(&mut connection, "FILTER @g=='x'", &lacks("g"));
    check(&mut connection, "APPLY @n AS a LOAD 1 @g", "[1 [g x n 1 a 1]]");
    check(&mut connection, "APPLY upper(@g) AS a LOAD 1 @g", &lacks("g"));
    check(&mut connection, "LOAD 1 @g APPLY upper(@g) AS a", "[1 [g x a X]]");
    check(
        &mut connection,
        "LIMIT 0 1 LOAD 1 @g APPLY upper(@g) AS a",
        "[1 [g x a X]]",
    );
    check(&mut connection, "SORTBY 1 @g APPLY upper(@g) AS a", "[1 [g x a X]]");
    check(&mut connection, "GROUPBY 1 @g APPLY upper(@g) AS a", "[1 [g x a X]]");
}

#[test]
fn words_of_an_aggregation_are_refused_as_at_the_original() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA n NUMERIC SORTABLE t TEXT SORTABLE => OK");
    connection.check("HSET k n 1.5 t x => 2");
    let twice = |name: &str| format!("!SEARCH_FIELD_DUP Property `{name}` specified more than once");
    let bounds =
        |option: &str| format!("!SEARCH_PARSE_ARGS Bad arguments for {option}: Value is outside acceptable bounds");
    let load = "!SEARCH_PARSE_ARGS Bad arguments for LOAD: Expected number of fields or `*`";
    let nine = "SORTBY 9 @n @n @n @n @n @n @n @n @n";
    let many = vec!["@t"; 1 << 16].join(" ");
    for (steps, expected) in [
        ("GROUPBY 2 @n @n", twice("n")),
        ("GROUPBY 1 @n REDUCE COUNT 0 AS n", twice("n")),
        (
            "GROUPBY 1 @n REDUCE COUNT 0 REDUCE COUNT 0",
            twice("__generated_aliascount"),
        ),
        ("GROUPBY -1", bounds("GROUPBY")),
        (&format!("GROUPBY {} {many}", 1 << 16), bounds("GROUPBY")),
        ("SORTBY -1", bounds("SORTBY")),
        (nine, "!SEARCH_LIMIT_OVER Cannot sort by more than 8 fields".into()),
        ("LOAD some", load.into()),
        ("LOAD -1", load.into()),
        ("WITHSORTKEYS SORTBY 2 @n DESC", "[1 #1.5 [n 1.5]]".into()),
        ("WITHSORTKEYS SORTBY 2 @t @n", "[1 $x [t x n 1.5]]".into()),
        ("WITHSORTKEYS LOAD 1 @t", "[1 nil [t x]]".into()),
    ] {
        connection.check(&format!("FT.AGGREGATE i * {steps} => {expected}"));
    }
    connection.check("FT.SEARCH i * NOCONTENT WITHRAWIDS WITHSORTKEYS SORTBY n => [1 k 1 #1.5]");
}

/// A function's argument that is no text, in the original's words.
#[test]
fn functions_refuse_arguments_of_a_wrong_type() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA n NUMERIC => OK");
    connection.check("HSET k n 1 => 1");
    let wrong = |at: usize, function: &str| {
        format!(
            "!SEARCH_EXPR Invalid type (1) for argument {at} in function '{function}'. \
             VALIDATE_ARG__STRING(v, 0) was false."
        )
    };
    for (expression, expected) in [
        ("format(5)", wrong(0, "format")),
        ("split(1)", wrong(0, "split")),
        ("split(\"a\",1)", wrong(1, "split")),
        ("startswith(1,\"a\")", wrong(0, "startswith")),
        ("contains(\"a\",1)", wrong(1, "contains")),
        ("strlen(1)", wrong(0, "strlen")),
        ("parsetime(11,22)", wrong(0, "parsetime")),
        ("parsetime(\"11\",22)", wrong(1, "parsetime")),
        (
            "substr(5,0,1)",
            "!SEARCH_EXPR Invalid type for substr. Expected string".into(),
        ),
        (
            "substr(matched_terms(),0,1)",
            "!SEARCH_EXPR Invalid type for substr. Expected string".into(),
        ),
        ("upper(1)", "[1 [a nil]]".into()),
        ("format(\"%s\",5)", "[1 [a 5]]".into()),
    ] {
        connection.check(&format!("FT.AGGREGATE i * APPLY {expression} AS a => {expected}"));
    }
}

/// Each piece of a cursor has the total of all.
#[test]
fn a_piece_of_a_cursor_has_the_total() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA n NUMERIC SORTABLE => OK");
    (0..5).for_each(|key| _ = connection.run(&["HSET", &format!("k{key}"), "n", &key.to_string()]));
    let words: Vec<&str> = "FT.AGGREGATE i * WITHCOUNT SORTBY 1 @n WITHCURSOR COUNT 2"
        .split(' ')
        .collect();
    let Value::Array(parts) = connection.run(&words) else {
        panic!("a piece and a cursor are two");
    };
    assert_eq!(show(&parts[0]), "[5 [n 0] [n 1]]");
    let id = show(&parts[1]);
    connection.check(&format!("FT.CURSOR READ i {id} => [[5 [n 2] [n 3]] {id}]"));
    connection.check(&format!("FT.CURSOR READ i {id} => [[5 [n 4]] 0]"));
}

/// The order of values is undefined if a path has several.
#[test]
fn words_of_several_values_have_no_order() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i ON JSON SCHEMA $.a AS a TEXT $.b[*] AS b TEXT => OK");
    connection.check("FT.CREATE h SCHEMA a TEXT b TEXT => OK");
    let refused = "!SEARCH_ORDER_OPTION_BAD slop/inorder are not supported for field with undefined ordering `b`";
    for (query, expected) in [
        ("@b:(p q)=>{$slop:2}", refused),
        ("@b:(p q)=>{$inorder:false}", refused),
        ("@a|b:(p q)=>{$inorder:true}", refused),
        ("(p q)=>{$slop:2}", refused),
        ("@b:\"p q\"=>{$inorder:true}", refused),
        ("@b:(p q)=>{$slop:-1}", "[0]"),
        ("@b:\"p q\"", "[0]"),
        ("@b:(p)=>{$slop:2}", "[0]"),
        ("@a:(p q)=>{$slop:2}", "[0]"),
    ] {
        let run = |connection: &mut Connection, index: &str, options: &[&str]| {
            show(&connection.run(&[&["FT.SEARCH", index, query][..], options].concat()))
        };
        assert_eq!(run(&mut connection, "i", &[]), expected, "{query}");
        assert_eq!(run(&mut connection, "h", &[]), "[0]", "{query}");
    }
    connection.check("FT.SEARCH i p|q SLOP 2 => [0]");
    for (query, option, expected) in [
        ("@b:(p q)", "INORDER", refused),
        ("@a:(p q)", "INORDER", "[0]"),
        ("@b:p", "INORDER", "[0]"),
    ] {
        assert_eq!(
            show(&connection.run(&["FT.SEARCH", "i", query, option])),
            expected,
            "{query}"
        );
    }
}

/// From dialect 3 on by the first value of an array, before by the array as text.
#[test]
fn an_array_without_an_order_is_sorted_by_its_first_value() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i ON JSON SCHEMA $.n AS n NUMERIC $.t AS t TEXT => OK");
    for (key, document) in [
        ("a", r#"{"n":[196,2],"t":["b","a"]}"#),
        ("b", r#"{"n":[21,300],"t":["B"]}"#),
        ("c", r#"{"n":[],"t":"ab"}"#),
    ] {
        connection.run(&["JSON.SET", key, "$", document]);
    }
    let search = "FT.SEARCH i * NOCONTENT WITHSORTKEYS SORTBY";
    connection.check(&format!("{search} n DIALECT 3 => [3 b #21 a #196 c nil]"));
    connection.check(&format!("{search} t DIALECT 3 => [3 b $B c $ab a $b]"));
    connection.check(&format!(
        "{search} t DIALECT 2 => [3 b $[\"B\"] a $[\"b\",\"a\"] c $ab]"
    ));
}

/// Without fields a word is looked for in all of them.
#[test]
fn nofields_forgets_which_field_has_a_word() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i NOFIELDS SCHEMA a TEXT b TEXT => OK");
    connection.check("HSET k a hello => 1");
    connection.check("FT.SEARCH i @b:hello NOCONTENT => [1 k]");
    connection.check("FT.SEARCH i hello INFIELDS 1 b NOCONTENT => [1 k]");
    connection.check("FT.SEARCH i @b:hello INFIELDS 1 a NOCONTENT => [1 k]");
    connection.check("FT.SEARCH i hello INFIELDS 1 none NOCONTENT => [0]");
    connection.check("FT.SEARCH i @a:other NOCONTENT => [0]");
}

#[test]
fn an_index_says_how_it_was_used() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA n NUMERIC t TAG => OK");
    let mut figure = |request: &str, name: &str| {
        connection.run(&request.split(' ').collect::<Vec<_>>());
        let Value::Array(pairs) = connection.run(&["FT.INFO", "i"]) else {
            panic!("FT.INFO is a list");
        };
        let at = pairs
            .iter()
            .position(|part| show(part) == name)
            .expect("FT.INFO has the name");
        show(&pairs[at + 1])
    };
    assert_eq!(figure("FT.SEARCH i *", "number_of_uses"), "1");
    assert_eq!(figure("FT.AGGREGATE i * DIALECT 3", "number_of_uses"), "2");
    assert_eq!(figure("FT.INFO i", "number_of_admin_ops"), "4");
    let dialects = "[dialect_1 0 dialect_2 1 dialect_3 1 dialect_4 0]";
    assert_eq!(figure("FT.SEARCH i @zz:[1", "dialect_stats"), dialects);
    assert_eq!(figure("PING", "num_records"), "0");
    assert_eq!(figure("PING", "records_per_doc_avg"), "nan");
    assert_eq!(figure("HSET k n 1 t a,b", "num_records"), "3");
    assert_eq!(figure("PING", "records_per_doc_avg"), "3");
}

#[test]
fn a_group_collects_its_records() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA g TAG n NUMERIC => OK");
    (0..4).for_each(|key| _ = connection.run(&["HSET", &format!("k{key}"), "g", "x", "n", &(key % 3).to_string()]));
    let collect = "FT.AGGREGATE i * GROUPBY 1 @g REDUCE COLLECT";
    connection.check(&format!(
        "{collect} 7 FIELDS 1 @n SORTBY 2 @n DESC AS c => [1 [g x c [[n 2] [n 1] [n 0] [n 0]]]]"
    ));
    connection.check(&format!(
        "{collect} 4 FIELDS 1 @n DISTINCT AS c => [1 [g x c [[n 0] [n 1] [n 2]]]]"
    ));
    connection.check(&format!(
        "{collect} 3 FIELDS 1 n AS c => !SEARCH_PARSE_ARGS Missing prefix: name requires '@' prefix (n)"
    ));
}

/// A word and a vector find some of the same documents; documents found by both are first.
#[test]
fn a_hybrid_search_combines_ranks() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA t TEXT v VECTOR FLAT 6 TYPE INT8 DIM 1 DISTANCE_METRIC L2 => OK");
    for (key, text, vector) in [("k1", "shoes", "a"), ("k2", "shoes", "d"), ("k3", "hats", "b")] {
        connection.run(&["HSET", key, "t", text, "v", vector]);
    }
    let mut answer = |request: &str| {
        let words: Vec<&str> = request.split(' ').collect();
        match connection.run(&words) {
            Value::Array(parts) => parts.iter().map(show).collect::<Vec<_>>(),
            other => vec![show(&other)],
        }
    };
    let search = "FT.HYBRID i SEARCH shoes VSIM @v $q";
    let reply = answer(&format!("{search} KNN 2 K 2 PARAMS 2 q a"));
    let ranked = "[[__key k1 __score 0.0327868852459] [__key k2 __score 0.0161290322581] \
                  [__key k3 __score 0.0161290322581]]";
    assert_eq!((reply[1].as_str(), reply[3].as_str()), ("3", ranked));
    let reply = answer(&format!(
        "{search} RANGE 2 RADIUS 1 COMBINE LINEAR 6 ALPHA 0 BETA 1 YIELD_SCORE_AS s PARAMS 2 q a"
    ));
    assert_eq!(reply[3], "[[__key k1 s 1] [__key k3 s 0.5] [__key k2 s 0]]");
    let reply = answer(&format!(
        "{search} LOAD 1 @t GROUPBY 1 @t REDUCE COUNT 0 AS n PARAMS 2 q a"
    ));
    assert_eq!(reply[3], "[[t hats n 1] [t shoes n 2]]");
    let reply = answer(&format!("{search} WITHCURSOR COUNT 1 PARAMS 2 q a"));
    assert_eq!(
        (reply[0].as_str(), reply[2].as_str(), reply.len()),
        ("SEARCH", "VSIM", 6)
    );
    let piece = answer(&format!("FT.CURSOR READ i {}", reply[3]));
    assert!(piece[0].contains("__key k1"), "{piece:?}");
    assert_eq!(piece[1], reply[3]);
    assert_eq!(
        answer("FT.HYBRID i SEARCH shoes VSIM @v $q KNN 2 X 2 PARAMS 2 q a"),
        ["!SEARCH_ARG_UNRECOGNIZED Unknown argument `X` in KNN"]
    );
    let reply = answer("FT.HYBRID i 2 SEARCH shoes VSIM @v $q FILTER @__key==\"k2\" PARAMS 2 q a");
    assert_eq!(reply[0], "!SEARCH_SYNTAX Unknown field at offset 0 near __key");
    let reply = answer("FT.HYBRID i 2 SEARCH shoes VSIM @v $q COMBINE RRF 0 FILTER @__key==\"k2\" PARAMS 2 q a");
    assert_eq!((reply[1].as_str(), reply[3].matches("__key").count()), ("1", 1));
    let filtered = answer(
        "FT.HYBRID i 2 SEARCH shoes YIELD_SCORE_AS w VSIM @v $q FILTER @t:hats FILTER case(exists(@w),0,1) \
         PARAMS 2 q a",
    );
    assert_eq!(
        (filtered[1].as_str(), filtered[3].contains("__key k3")),
        ("1", true),
        "{filtered:?}"
    );
    let lists =
        answer("FT.HYBRID i SEARCH hats VSIM @v $q FILTER @t:hats GROUPBY 0 REDUCE TOLIST 1 @__key AS k PARAMS 2 q a");
    assert_eq!(lists[3], "[[k [k3]]]");
    let refused = answer("FT.HYBRID i 3 SEARCH shoes VSIM @v $q PARAMS 2 q a");
    assert_eq!(
        refused,
        ["!SEARCH_PARSE_ARGS FT.HYBRID currently supports only two subqueries"]
    );
    for request in [
        "SEARCH shoes DIALECT 2 VSIM @v $q PARAMS 2 q a",
        "SEARCH shoes VSIM @v $q DIALECT 2 PARAMS 2 q a",
        "SEARCH shoes VSIM @v $q PARAMS 2 q a DIALECT 2",
    ] {
        let refused = answer(&format!("FT.HYBRID i {request}"));
        assert!(
            refused[0].contains("DIALECT is not supported in FT.HYBRID"),
            "{refused:?}"
        );
    }
}

/// Parses the words after the two searches, and orders the loaded fields, as 8.x does.
#[test]
fn a_hybrid_search_reads_and_shows_as_8_x_does() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA t TEXT g TAG v VECTOR FLAT 6 TYPE INT8 DIM 1 DISTANCE_METRIC L2 => OK");
    for (key, text, vector) in [("k1", "shoes", "a"), ("k2", "shoes", "d"), ("k3", "hats", "b")] {
        connection.run(&["HSET", key, "t", text, "g", "x", "v", vector]);
    }
    connection.check("CONFIG SET search-default-dialect 1 => OK");
    let mut answer = |behind: &str| {
        let request = format!("FT.HYBRID i SEARCH @t:($w) VSIM @v $q {behind} PARAMS 4 q a w shoes");
        match connection.run(&request.split_whitespace().collect::<Vec<_>>()) {
            Value::Array(parts) => show(&parts[3]),
            other => show(&other),
        }
    };
    let marked = "!SEARCH_PARSE_ARGS Missing prefix: name requires '@' prefix, JSON path require '$' prefix, got:";
    for (behind, expected) in [
        ("LOAD 1 t", format!("{marked} t in LOAD")),
        ("SORTBY 2 t DESC", format!("{marked} t in SORTBY")),
        ("GROUPBY 1 @t REDUCE SUM 1 t AS s", format!("{marked} t in SUM")),
        (
            "COMBINE",
            "!SEARCH_PARSE_ARGS COMBINE: Invalid value for argument".into(),
        ),
        (
            "COMBINE LINEAR 2 ALPHA 1",
            "!SEARCH_SYNTAX Missing value for BETA".into(),
        ),
        (
            "COMBINE LINEAR 4 WINDOW 5 BETA 1",
            "!SEARCH_SYNTAX Missing value for ALPHA".into(),
        ),
        (
            "COMBINE RRF 0 YIELD_SCORE_AS a YIELD_SCORE_AS b",
            "!SEARCH_PARSE_ARGS YIELD_SCORE_AS: Unknown argument".into(),
        ),
        (
            "COMBINE RRF 2 YIELD_SCORE_AS a YIELD_SCORE_AS b",
            "!SEARCH_PARSE_ARGS YIELD_SCORE_AS specified more than once".into(),
        ),
        (
            "FILTER 3 @g:{x} POLICY FAST",
            "!SEARCH_PARSE_ARGS POLICY: Invalid value for argument".into(),
        ),
        (
            "FILTER 5 @g:{x} POLICY adhoc BATCH_SIZE 9",
            "!SEARCH_ADHOC_BATCH_SIZE_IRRELEVANT 'batch size' is irrelevant for the selected policy \
             (Error parsing vector similarity parameters)"
                .into(),
        ),
        (
            "RANGE 2 RADIUS 9 FILTER 3 @g:{x} POLICY ADHOC",
            "!SEARCH_HYBRID_ATTR_NON_HYBRID hybrid query attributes were sent for a non-hybrid query \
             (Error parsing vector similarity parameters)"
                .into(),
        ),
        (
            "FILTER 99 @g:{x}",
            "!SEARCH_SYNTAX Not enough arguments in FILTER, specified 99 but provided only 7".into(),
        ),
        (
            "FILTER @t:hats=>{$weight:2}",
            "!SEARCH_WEIGHT_NOT_ALLOWED Weight attributes are not allowed in FT.HYBRID VSIM FILTER".into(),
        ),
        (
            "FILTER 3 @g:{x} POLICY BATCHES TIMEOUT 9000 COMBINE RRF 2 WINDOW 1 LOAD 2 @g @__key",
            "[[g x __key k1]]".into(),
        ),
        (
            "YIELD_SCORE_AS near LOAD 3 @g @__score @__key LIMIT 0 1",
            "[[g x __score 0.0327868852459 __key k1 near 1]]".into(),
        ),
        ("LOAD 3 @__score AS s LIMIT 0 1", "[[]]".into()),
        (
            "LOAD 1 @__key APPLY matched_terms() AS m SORTBY 1 @__key",
            "[[__key k1 m [shoes +shoe]] [__key k2 m [shoes +shoe]] [__key k3 m nil]]".into(),
        ),
    ] {
        assert_eq!(answer(behind), expected, "{behind}");
    }
}

/// A key passes by its name, and a comparison with a field that it does not have is false.
#[test]
fn an_index_s_filter_sees_the_key_and_takes_absent_fields_as_false() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    let mut create = |name: &str, filter: &str| {
        let request = [
            "FT.CREATE",
            name,
            "NOSCOREIDX",
            "FILTER",
            filter,
            "SCHEMA",
            "a",
            "NUMERIC",
            "b",
            "NUMERIC",
        ];
        assert_eq!(show(&connection.run(&request)), "OK");
    };
    create("named", "startswith(@__key, \"thing:\")");
    create("either", "@a==0 || @b==0");
    create("both", "(@a==0 && @b==0) || (@b==0 && @b<1)");
    connection.check("HSET thing:1 a 1 => 1");
    connection.check("HSET other:1 b 0 => 1");
    connection.check("FT.SEARCH named * NOCONTENT => [1 thing:1]");
    connection.check("FT.SEARCH either * NOCONTENT => [1 other:1]");
    connection.check("FT.SEARCH both * NOCONTENT => [1 other:1]");
    connection.check("HSET thing:1 a 0 => 0");
    connection.check("FT.SEARCH either * SORTBY a WITHCOUNT NOCONTENT => [2 thing:1 other:1]");
    connection.check("FT.AGGREGATE both * WITHCOUNT LIMIT 0 0 => [1]");
}

#[test]
fn names_are_checked() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i INDEXALL ENABLE SCHEMA t TEXT => OK");
    connection.check("FT.CREATE j SCHEMA t TEXT => OK");
    let empty = "!SEARCH_PARSE_ARGS Field name cannot be empty";
    assert_eq!(show(&connection.run(&["FT.CREATE", "x", "SCHEMA", "", "TAG"])), empty);
    assert_eq!(
        show(&connection.run(&["FT.ALTER", "i", "SCHEMA", "ADD", "a", "AS", "", "TAG"])),
        empty
    );
    let refused = show(&connection.run(&["FT.CREATE", "x", "SCHEMA", "a\0", "AS", "a", "TAG"]));
    assert_eq!(refused, "!SEARCH_PARSE_ARGS Field path cannot contain null bytes");
    connection.check("FT.ALIASADD a i => OK");
    connection.check("FT.ALIASADD b i => OK");
    connection.check("FT.ALIASLIST i => [a b]");
    connection.check("FT.ALIASLIST j => []");
    connection.check("FT.ALIASLIST a => !SEARCH_INDEX_NOT_FOUND Index not found: a");
    connection.check("FT.ALIASADD a j => !SEARCH_INDEX_EXISTS Alias already exists");
    connection.check("FT.ALIASADD j i => !SEARCH_ALIAS_CONFLICT Alias conflicts with an existing index name");
    connection.check("FT.ALIASLIST i j => !ERR wrong number of arguments for 'FT.ALIASLIST' command");
    connection.check("FT.DROPINDEX i DD 1 => !ERR wrong number of arguments for 'FT.DROPINDEX' command");
    connection.check("FT.DROPINDEX i X => !SEARCH_ARG_UNRECOGNIZED Unknown argument `X`");
}

/// Empty text is searched only where it is indexed; with only stop words, nearness remains
/// unfiltered.
#[test]
fn empty_text_and_stop_words_are_not_looked_for() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    let vector = "v VECTOR FLAT 6 TYPE INT8 DIM 1 DISTANCE_METRIC L2";
    connection.check(&format!(
        "FT.CREATE i SCHEMA t TEXT e TEXT INDEXEMPTY g TAG {vector} => OK"
    ));
    connection.run(&["HSET", "k", "t", "word", "e", "", "v", "a"]);
    let refused = "!SEARCH_SYNTAX Use `INDEXEMPTY` in field creation in order to index and query for empty strings";
    for (query, expected) in [
        ("@t:''", refused),
        ("@g:{''}", refused),
        ("@e:''", "[1 k]"),
        ("''", "[1 k]"),
    ] {
        assert_eq!(
            show(&connection.run(&["FT.SEARCH", "i", query, "NOCONTENT"])),
            expected,
            "{query}"
        );
    }
    let nearest = [
        "FT.SEARCH",
        "i",
        "@t:the=>[KNN 1 @v $q]",
        "PARAMS",
        "2",
        "q",
        "b",
        "NOCONTENT",
    ];
    assert_eq!(show(&connection.run(&nearest)), "[1 k]");
}

/// A pattern is compared with every term, and a long pattern was parsed again for each.
#[test]
fn a_pattern_that_is_longer_than_every_term_is_found_in_none() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA t TEXT => OK");
    connection.check("HSET k t hello => 1");
    let query = format!("%{}%", "a".repeat(100_000));
    assert_eq!(show(&connection.run(&["FT.SEARCH", "i", &query])), "[0]");
    connection.check("FT.SEARCH i %helo% NOCONTENT => [1 k]");
}

/// Bytes of a vector that are text.
fn vector(choice: &mut Choice) -> String {
    (0..8).map(|_| choice.below(128) as u8 as char).collect()
}

/// The ten nearest by the graph, beside a look at all, before and after everything has changed.
#[test]
fn a_graph_finds_the_nearest() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    let mut choice = Choice(3);
    let nearest = |connection: &mut Connection, index: &str, vector: &str| {
        let query = "*=>[KNN 10 @v $q]";
        let reply = connection.run(&["FT.SEARCH", index, query, "PARAMS", "2", "q", vector, "NOCONTENT"]);
        let Value::Array(results) = reply else {
            panic!("{}", show(&reply));
        };
        results[1..].iter().map(show).collect::<Vec<_>>()
    };
    for (index, kind, component) in [
        ("graph", "HNSW", "INT8 DIM 8"),
        ("all", "FLAT", "INT8 DIM 8"),
        ("vamana", "SVS-VAMANA", "FLOAT16 DIM 4"),
    ] {
        connection.check(&format!(
            "FT.CREATE {index} SCHEMA v VECTOR {kind} 6 TYPE {component} DISTANCE_METRIC L2 => OK"
        ));
    }
    for round in 0..2 {
        for key in 0..120 {
            connection.run(&["HSET", &format!("k{key}"), "v", &vector(&mut choice)]);
        }
        (0..15).for_each(|key| _ = connection.run(&["DEL", &format!("k{}", key * 7 + round)]));
        for has_graph in [false, true] {
            if has_graph {
                fixture.finish_work();
            }
            let mut hits = 0;
            for _ in 0..10 {
                let query = vector(&mut choice);
                let exact = nearest(&mut connection, "all", &query);
                let near = nearest(&mut connection, "graph", &query);
                assert_eq!((exact.len(), near.len()), (10, 10));
                hits += near.iter().filter(|key| exact.contains(key)).count();
                assert_eq!(nearest(&mut connection, "vamana", &query).len(), 10);
            }
            assert!(hits >= 95, "{hits} of 100 in round {round}");
        }
    }
}

#[test]
fn an_index_reports_the_requested_vectors() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    let refused = "!SEARCH_PARSE_ARGS";
    let vamana = "FT.CREATE i SCHEMA v VECTOR SVS-VAMANA";
    let leanvec = "COMPRESSION leanvec8X8 GRAPH_MAX_DEGREE 40 CONSTRUCTION_WINDOW_SIZE 250";
    let type_error = "Not supported data type is given. Expected: FLOAT16, FLOAT32";
    let reduction_error = "REDUCE is irrelevant when compression is not of type LeanVec";
    connection.check(&format!(
        "{vamana} 6 TYPE INT8 DIM 2 DISTANCE_METRIC L2 => {refused} {type_error}
         {vamana} 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 REDUCE 1 => {refused} {reduction_error}
         {vamana} 12 TYPE FLOAT32 DIM 8 DISTANCE_METRIC L2 {leanvec} => OK
         FT.CREATE j SCHEMA v VECTOR SVS-VAMANA 6 TYPE FLOAT16 DIM 8 DISTANCE_METRIC IP => OK"
    ));
    let attributes = |connection: &mut Connection, index: &str| {
        let Value::Array(info) = connection.run(&["FT.INFO", index]) else {
            panic!("FT.INFO answers a list");
        };
        show(&info[info.iter().position(|name| show(name) == "attributes").unwrap() + 1])
    };
    let head = "[[identifier v attribute v type VECTOR algorithm SVS-VAMANA data_type";
    let settings_of_i =
        "graph_max_degree 40 construction_window_size 250 compression LeanVec8x8 training_threshold 10240";
    let settings_of_j = "graph_max_degree 32 construction_window_size 200 compression NO_COMPRESSION";
    assert_eq!(
        attributes(&mut connection, "i"),
        format!("{head} FLOAT32 dim 8 distance_metric L2 {settings_of_i} reduced_dim 4]]")
    );
    assert_eq!(
        attributes(&mut connection, "j"),
        format!("{head} FLOAT16 dim 8 distance_metric IP {settings_of_j}]]")
    );
}

/// The form of 8.x: one shard, whose conditions and stages have the original's names.
#[test]
fn a_profile_has_the_form_of_8() {
    let fixture = search_fixture();
    let (mut resp2, mut resp3) = (fixture.connect(), fixture.connect());
    resp3.run(&["HELLO", "3"]);
    resp2.check(
        "FT.CREATE i SCHEMA t TEXT n NUMERIC SORTABLE v VECTOR FLAT 6 TYPE UINT8 DIM 2 DISTANCE_METRIC L2 => OK
         HSET 1 t hello n 1 v aa => 3
         HSET 2 t world n 2 v bb => 3",
    );
    // The clock is paused.
    let head = "Total profile time 0 Parsing time 0 Workers queue time 0 Pipeline creation time 0 Warning [None]";
    // `~` is a blank within a word.
    let mut check = |request: &str, results: &str, conditions: &str, stages: &[(&str, u64)]| {
        let words: Vec<String> = request.split(' ').map(|word| word.replace('~', " ")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let stage = |(name, count): &(&str, u64)| format!("[Type {name} Time 0 Results processed {count}]");
        let stages: Vec<_> = stages.iter().map(stage).collect();
        let shard = format!(
            "[{head} Iterators profile {conditions} Result processors profile [{}]]",
            stages.join(" ")
        );
        let expected = format!("[{results} [Shards [{shard}] Coordinator []]]");
        assert_eq!(show(&resp2.run(&words)), expected, "{request}");
        let Value::Map(parts) = resp3.run(&words) else {
            panic!("{request}");
        };
        let [(results, _), (profile, Value::Map(parts_of_profile))] = &parts[..] else {
            panic!("{parts:?}");
        };
        assert_eq!([show(results), show(profile)], ["Results", "Profile"]);
        let [(_, Value::Array(shards)), (_, Value::Map(coordinator))] = &parts_of_profile[..] else {
            panic!("{parts_of_profile:?}");
        };
        assert!(matches!(&shards[..], [Value::Map(_)]) && coordinator.is_empty());
    };
    let term = |word: &str, reads: u64| {
        format!("[Type TEXT Term {word} Time 0 Number of reading operations {reads} Estimated number of matches 1]")
    };
    check(
        "FT.PROFILE i SEARCH QUERY hello NOCONTENT",
        "[1 1]",
        &term("hello", 1),
        &[("Index", 1), ("Scorer", 1), ("Sorter", 1)],
    );
    let union = format!(
        "[Type UNION Query type UNION Time 0 Number of reading operations 2 Child iterators [{} {}]]",
        term("hello", 1),
        term("world", 1)
    );
    check(
        "FT.PROFILE i SEARCH QUERY hello|world LIMIT 0 0",
        "[2]",
        &union,
        &[("Index", 2), ("Counter", 1)],
    );
    let negated = format!(
        "[Type NOT Time 0 Number of reading operations 1 Child iterator {}]",
        term("hello", 1)
    );
    check(
        "FT.PROFILE i SEARCH QUERY -hello RETURN 1 n SORTBY n",
        "[1 2 [n 2]]",
        &negated,
        &[("Index", 1), ("Sorter", 1), ("Loader", 1)],
    );
    check(
        "FT.PROFILE i SEARCH QUERY nothing",
        "[0]",
        "[Type EMPTY Time 0 Number of reading operations 0]",
        &[("Index", 0), ("Scorer", 0), ("Sorter", 0), ("Loader", 0)],
    );
    let vector = "[Type VECTOR Time 0 Number of reading operations 1 Vector search mode STANDARD_KNN]";
    check(
        "FT.PROFILE i SEARCH QUERY *=>[KNN~1~@v~$q] PARAMS 2 q aa NOCONTENT SORTBY __v_score",
        "[1 1]",
        vector,
        &[("Index", 1), ("Metrics Applier", 1), ("Sorter", 1)],
    );
    check(
        "FT.PROFILE i AGGREGATE QUERY * LOAD 1 t APPLY startswith(@t,'hel') AS p SORTBY 1 @p LIMIT 0 1",
        "[2 [t world p 0]]",
        "[Type WILDCARD Time 0 Number of reading operations 2]",
        &[
            ("Index", 2),
            ("Loader", 2),
            ("Projector - Function startswith", 2),
            ("Sorter", 1),
        ],
    );
    resp2.check(
        "FT.PROFILE i FOO QUERY hello => !SEARCH_PARSE_ARGS No `SEARCH`, `AGGREGATE`, or `HYBRID` provided
         FT.PROFILE i HYBRID QUERY hello => !SEARCH_PARSE_ARGS SEARCH argument is required
         FT.PROFILE i HYBRID SEARCH hello => !SEARCH_PARSE_ARGS The QUERY keyword is expected",
    );
}

/// As in 8.x: a profile for each of the searches, and a profile of the later stages.
#[test]
fn a_hybrid_search_has_a_profile_of_each_part() {
    let fixture = search_fixture();
    let (mut resp2, mut resp3) = (fixture.connect(), fixture.connect());
    resp3.run(&["HELLO", "3"]);
    resp2.check(
        "FT.CREATE i SCHEMA t TEXT v VECTOR FLAT 6 TYPE UINT8 DIM 2 DISTANCE_METRIC L2 => OK
         HSET 1 t hello v ba => 2
         HSET 2 t help v bb => 2
         HSET 3 t world v aa => 2",
    );
    // The clock is paused.
    let head = "Total profile time 0 Parsing time 0 Workers queue time 0 Pipeline creation time 0 Warning [None]";
    let stages = |stages: &[(&str, u64)]| {
        let stage = |(name, count): &(&str, u64)| format!("[Type {name} Time 0 Results processed {count}]");
        let stages: Vec<_> = stages.iter().map(stage).collect();
        format!("Result processors profile [{}]", stages.join(" "))
    };
    let word_profile = format!(
        "[{head} Iterators profile [Type TEXT Term hello Time 0 Number of reading operations 1 \
         Estimated number of matches 1] {}]",
        stages(&[("Index", 1), ("Scorer", 1), ("Sorter", 1)])
    );
    let vector_profile = format!(
        "[{head} Iterators profile [Type VECTOR Time 0 Number of reading operations 3 Vector search mode \
         STANDARD_KNN] {}]",
        stages(&[("Index", 3), ("Metrics Applier", 3)])
    );
    let request = "FT.PROFILE i HYBRID QUERY SEARCH hello VSIM @v $q";
    for (steps, behind) in [
        (
            "LIMIT 0 2",
            &[("Hybrid Merger", 3), ("Sorter", 3), ("Loader", 3), ("Pager/Limiter", 2)][..],
        ),
        (
            "GROUPBY 1 @t REDUCE COUNT 0 AS c",
            &[("Hybrid Merger", 3), ("Sorter", 3), ("Loader", 3), ("Grouper", 3)],
        ),
    ] {
        let request = format!("{request} {steps} PARAMS 2 q aa");
        let words: Vec<&str> = request.split(' ').collect();
        let Value::Array(parts) = resp2.run(&words) else {
            panic!("{request}");
        };
        let expected = format!(
            "[Shards [[SEARCH {word_profile} VSIM {vector_profile}]] Coordinator [{head} {}]]",
            stages(behind)
        );
        assert_eq!((parts.len(), show(&parts[8])), (9, expected), "{request}");
        let Value::Map(pairs) = resp3.run(&words) else {
            panic!("{request}");
        };
        let names: Vec<_> = pairs.iter().map(|(name, _)| show(name)).collect();
        assert_eq!(
            names,
            ["total_results", "results", "warnings", "execution_time", "Profile"]
        );
    }
    resp2.check(
        "FT.PROFILE i HYBRID QUERY SEARCH hello VSIM @v $q WITHCURSOR PARAMS 2 q aa => !SEARCH_PARSE_ARGS FT.PROFILE does not support cursor",
    );
}

#[test]
fn a_filter_has_its_infinities_on_their_sides() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "FT.CREATE i SCHEMA n NUMERIC => OK
         HSET 1 n 1 => 1
         FT.SEARCH i * NOCONTENT FILTER n -inf +inf => [1 1]
         FT.SEARCH i * NOCONTENT FILTER n 3 -inf => !SEARCH_PARSE_ARGS Bad upper range: -inf
         FT.SEARCH i * NOCONTENT FILTER n +inf 3 => !SEARCH_PARSE_ARGS Bad lower range: +inf",
    );
}

/// As options of the query they precede the steps; a group has no score.
#[test]
fn aggregations_show_scores_and_leave_contents_out() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "FT.CREATE i SCHEMA t TEXT n NUMERIC => OK
         HSET 1 t hello n 1 => 2
         HSET 2 t hello n 2 => 2
         FT.AGGREGATE i hello NOCONTENT LOAD 1 @n => [2]
         FT.AGGREGATE i hello WITHSCORES SCORER DOCSCORE LOAD 1 @n SORTBY 1 @n => [2 1 [n 1] 1 [n 2]]
         FT.AGGREGATE i hello NOCONTENT WITHSCORES SCORER DOCSCORE => [2 1 1]
         FT.AGGREGATE i hello WITHSCORES GROUPBY 1 @t REDUCE COUNT 0 AS c => [1 0 [t hello c 2]]
         FT.AGGREGATE i hello NOCONTENT WITHCURSOR => [[2] 0]
         FT.AGGREGATE i hello LOAD 1 @n NOCONTENT => !SEARCH_ARG_UNRECOGNIZED Unknown argument `NOCONTENT` at position 4 for <main>",
    );
}

/// As search 2.10 was seen to answer.
#[test]
fn a_suggestion_keeps_its_payload_until_it_is_replaced() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "FT.SUGADD s hello 1 PAYLOAD p => 1
         FT.SUGADD s hello 5 => 1
         FT.SUGGET s h WITHPAYLOADS => [hello p]
         FT.SUGADD s hello 5 PAYLOAD q INCR => 1
         FT.SUGGET s h WITHPAYLOADS => [hello q]
         FT.SUGADD s hello 5 INCR => 1
         FT.SUGGET s h WITHPAYLOADS => [hello q]",
    );
}

/// As at the original, whose commands of modules announce nothing else.
#[test]
fn a_key_of_suggestions_is_announced_when_it_is_new() {
    let fixture = search_fixture();
    let (mut listener, mut connection) = (fixture.connect(), fixture.connect());
    listener.run(&["PSUBSCRIBE", "__keyevent*"]);
    connection.check(
        "CONFIG SET notify-keyspace-events KEAn => OK
         FT.SUGADD s hello 1 => 1
         FT.SUGADD s help 1 => 2
         FT.SUGDEL s help => 1
         SET k 1 => OK",
    );
    let mail = String::from_utf8(listener.mail()).unwrap();
    assert_eq!(
        (mail.matches("__keyevent@0__:").count(), mail.matches(":new").count()),
        (3, 2),
        "{mail}"
    );
}

/// As 8.x does, and 2.10 does not.
#[test]
fn an_index_reports_whether_it_indexes_all() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "FT.CREATE i INDEXALL ENABLE SCHEMA t TEXT => OK
         FT.CREATE j SCHEMA t TEXT => OK",
    );
    for (name, expected) in [("i", "indexes_all true]"), ("j", "indexes_all false]")] {
        assert!(show(&connection.run(&["FT.INFO", name])).contains(expected), "{name}");
    }
}

/// As search 2.10 was seen to answer.
#[test]
fn aggregations_show_payloads_and_the_reasons_of_scores() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "FT.CREATE i PAYLOAD_FIELD p SCHEMA t TEXT n NUMERIC => OK
         HSET 1 t hello n 1 p pay => 3
         HSET 2 t hello n 2 => 2
         FT.AGGREGATE i hello WITHPAYLOADS LOAD 1 @n SORTBY 1 @n => [2 pay [n 1] nil [n 2]]
         FT.AGGREGATE i hello EXPLAINSCORE => !SEARCH_PARSE_ARGS EXPLAINSCORE must be accompanied with WITHSCORES
         FT.AGGREGATE i hello WITHPAYLOADS WITHSORTKEYS LOAD 1 @n SORTBY 1 @n => [2 pay #1 [n 1] nil #2 [n 2]]
         FT.AGGREGATE i hello WITHSCORES EXPLAINSCORE WITHPAYLOADS GROUPBY 1 @t => [1 [0] nil [t hello]]",
    );
    let explained = "FT.AGGREGATE i hello WITHSCORES EXPLAINSCORE SCORER DOCSCORE LOAD 1 @n";
    let words: Vec<&str> = explained.split(' ').collect();
    let reason = "[1 Document's score is 1.00]";
    let expected = format!("[1 {reason} [n 1] {reason} [n 2]]");
    assert_eq!(show(&connection.run(&words))[2..], expected[2..]);
}

/// A thousand indexes over one prefix took in 29 KB each while the partition stood still for seven
/// seconds. The bytes of one key that all of them take in are bounded; beyond it the write is
/// refused, alone, in a transaction or in a script, and leaves nothing.
#[test]
fn a_write_stored_by_many_indexes_is_bounded() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    for number in 0..10 {
        let name = format!("i{number}");
        connection.run(&["FT.CREATE", &name, "PREFIX", "1", "e:", "SCHEMA", "t", "TEXT"]);
    }
    let text = "word ".repeat(100_000);
    let error =
        "!SEARCH_LIMIT_OVER The key has more bytes for all its indexes together than one write may have them take in";
    assert_eq!(show(&connection.run(&["HSET", "e:1", "t", &text])), error);
    connection.check("MULTI => OK\nSET other 1 => QUEUED");
    connection.run(&["HSET", "e:1", "t", &text]);
    assert_eq!(show(&connection.run(&["EXEC"])), error);
    let script = "redis.call('SET', 'other', 1) return redis.call('HSET', 'e:1', 't', ARGV[1])";
    assert_eq!(show(&connection.run(&["EVAL", script, "0", &text])), error);
    connection.check("EXISTS e:1 other => 0\nFT.SEARCH i9 word NOCONTENT => [0]");
    assert_eq!(show(&connection.run(&["HSET", "e:1", "t", &text[..400_000]])), "1");
    assert_eq!(show(&connection.run(&["HSET", "other", "t", &text])), "1");
    connection.check("FT.SEARCH i9 word NOCONTENT => [1 e:1]\nDEL e:1 => 1\nFT.SEARCH i9 word NOCONTENT => [0]");
}

/// `@s:{say "hello"}` was a syntax error: words in quotes stood alone or not at all. The original
/// (8.2.3) takes them between other words; FT.EXPLAIN shows several words of one value in lower
/// case.
#[test]
fn words_of_a_tag_may_be_in_quotes() {
    let mut connection = search_fixture().connect();
    connection.check("FT.CREATE i SCHEMA s TAG c TAG CASESENSITIVE => OK\nHSET d:2 s no => 1");
    let mut run = |words: &[&str]| show(&connection.run(words));
    assert_eq!(run(&["HSET", "d:1", "s", "Say Hello"]), "1");
    for query in [
        r#"@s:{say "hello"}"#,
        r#"@s:{"say" hello}"#,
        r#"@s:{"say hello"}"#,
        r#"@s:{x | say "hello"}"#,
    ] {
        assert_eq!(
            run(&["FT.SEARCH", "i", query, "NOCONTENT", "DIALECT", "2"]),
            "[1 d:1]",
            "{query}"
        );
    }
    for (query, expected) in [
        (
            r#"@s:{Say "Hello" | O'Neil}"#,
            "TAG:@s {\n  INTERSECT {\n    say\n    hello\n  }\n  INTERSECT {\n    o\n    neil\n  }\n}\n",
        ),
        (
            "@c:{Say Hello}",
            "TAG:@c {\n  INTERSECT {\n    say\n    hello\n  }\n}\n",
        ),
        ("@s:{Re*}", "TAG:@s {\n  PREFIX{Re*}\n}\n"),
        ("@s:{Hello}", "TAG:@s {\n  Hello\n}\n"),
        ("@c:{Re*|A}", "TAG:@c {\n  PREFIX{Re*}\n  A\n}\n"),
    ] {
        assert_eq!(run(&["FT.EXPLAIN", "i", query, "DIALECT", "2"]), expected, "{query}");
    }
    let refused = run(&["FT.SEARCH", "i", r#"@s:{say "hello"}"#, "DIALECT", "1"]);
    assert!(refused.starts_with("!SEARCH_SYNTAX"), "{refused}");
}
