//! Definitions in an image of the database, and keys of the modules as DUMP gives them.

use quartet_wire_rdb::file::{Found, Record, Scanner};
use quartet_wire_rdb::value::{Value, dump, restore};
use quartet_wire_resp::Value as Reply;

use super::INFO_KEYS;
use crate::testing::{Connection, Fixture, search_fixture, show};

fn records(fixture: &Fixture) -> Vec<Record> {
    let mut image = fixture.layer.image(&mut fixture.layer.engine.partition());
    let mut bytes = Vec::new();
    let mut take = |part: &[u8]| {
        bytes.extend_from_slice(part);
        Ok::<(), ()>(())
    };
    image.write(None, &mut take).expect("nobody refuses a part");
    let (mut scanner, mut records, mut start) = (Scanner::new(), Vec::new(), 0);
    while start < bytes.len() {
        let Ok(Found::Bytes { consumed, record }) = scanner.read(&bytes[start..]) else {
            panic!("an image that does not read");
        };
        start += consumed;
        records.extend(record);
    }
    records
}

/// The parts of FT.INFO that an index is defined by.
fn told(connection: &mut Connection, index: &str) -> Vec<String> {
    let Reply::Array(words) = connection.run(&["FT.INFO", index]) else {
        panic!("no index {index}");
    };
    let pairs = words
        .chunks(2)
        .filter(|pair| INFO_KEYS.contains(&show(&pair[0]).as_str()));
    pairs
        .map(|pair| pair.iter().map(show).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn an_image_has_the_requests_that_make_its_indexes() {
    let created = [
        "FT.CREATE words PREFIX 2 a: b: FILTER @number>3 LANGUAGE french SCORE 0.5 SCORE_FIELD score LANGUAGE_FIELD l \
         PAYLOAD_FIELD p NOFREQS NOFIELDS NOOFFSETS MAXTEXTFIELDS TEMPORARY 300 STOPWORDS 2 la le SCHEMA \
         t TEXT WEIGHT 2.5 NOSTEM SORTABLE u TEXT PHONETIC dm:en WITHSUFFIXTRIE INDEXEMPTY SORTABLE UNF \
         c AS tag TAG SEPARATOR | CASESENSITIVE WITHSUFFIXTRIE INDEXMISSING n AS number NUMERIC SORTABLE NOINDEX \
         place GEO flat GEOSHAPE FLAT round GEOSHAPE SPHERICAL",
        "FT.CREATE documents ON JSON NOHL STOPWORDS 0 SCHEMA $.a[*] AS a TAG $.b AS b TAG SEPARATOR , SORTABLE",
        "FT.CREATE vectors SCHEMA f VECTOR FLAT 6 TYPE BFLOAT16 DIM 2 DISTANCE_METRIC IP \
         h VECTOR HNSW 14 TYPE FLOAT64 DIM 3 DISTANCE_METRIC L2 M 20 EF_CONSTRUCTION 100 EF_RUNTIME 30 EPSILON 0.01",
        "FT.CREATE newer SCHEMA s VECTOR SVS-VAMANA 12 TYPE FLOAT16 DIM 8 DISTANCE_METRIC COSINE \
         COMPRESSION LeanVec4x8 REDUCE 4 GRAPH_MAX_DEGREE 40",
    ];
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    let run = |connection: &mut Connection, request: &str| {
        let reply = connection.run(&request.split_whitespace().collect::<Vec<_>>());
        assert!(!matches!(reply, Reply::Error(_)), "{request}: {}", show(&reply));
    };
    created.iter().for_each(|request| run(&mut connection, request));
    for request in [
        "FT.ALTER documents SCHEMA ADD $.c AS c NUMERIC",
        "FT.ALIASADD other words",
        "FT.SYNUPDATE words g1 boy child",
        "FT.SYNUPDATE words g2 child",
        "FT.DICTADD d one two",
        "FT.DICTADD e three",
    ] {
        run(&mut connection, request);
    }
    let records = records(&fixture);
    let other = search_fixture();
    let mut copy = other.connect();
    let mut dictionaries = Vec::new();
    for record in records {
        match record {
            Record::SearchIndexes(indexes) => {
                let requests = indexes.iter().flat_map(|index| index.requests());
                for request in requests {
                    let words: Vec<String> = request
                        .into_iter()
                        .map(|word| String::from_utf8(word).unwrap())
                        .collect();
                    let reply = copy.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
                    assert_eq!(show(&reply), "OK", "{words:?}");
                }
            }
            Record::Dictionaries(saved) => dictionaries.extend(saved),
            Record::About { .. } | Record::End => {}
            other => panic!("{other:?}"),
        }
    }
    for index in ["words", "documents", "vectors", "newer", "other"] {
        assert_eq!(told(&mut copy, index), told(&mut connection, index));
    }
    // In the original's order: NOHL, implied by NOOFFSETS, precedes MAXTEXTFIELDS.
    let options = "index_options [NOFREQS NOFIELDS NOOFFSETS NOHL MAXTEXTFIELDS]";
    assert!(told(&mut copy, "words").contains(&options.to_owned()));
    for script in ["FT.SYNDUMP words", "FT._LIST"] {
        let words: Vec<&str> = script.split(' ').collect();
        assert_eq!(copy.run(&words), connection.run(&words), "{script}");
    }
    let names: Vec<_> = dictionaries
        .iter()
        .map(|dictionary| (&dictionary.name[..], dictionary.words.len()))
        .collect();
    assert_eq!(names, [(&b"d"[..], 2), (b"e", 1)]);
}

fn dumped(connection: &mut Connection, name: &str) -> Vec<u8> {
    match connection.run(&["DUMP", name]) {
        Reply::Bulk(payload) => payload,
        other => panic!("{}", show(&other)),
    }
}

fn restored(connection: &mut Connection, name: &str, payload: &[u8]) -> String {
    let request = [b"RESTORE".as_slice(), name.as_bytes(), b"0", payload];
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    quartet_wire_resp::encode_command(&request, &mut bytes);
    connection.session.receive(&bytes, &mut out);
    show(&quartet_wire_resp::decode(&out).unwrap().unwrap().0)
}

#[test]
fn documents_and_suggestions_are_dumped_and_restored() {
    let mut connection = search_fixture().connect();
    let large = format!(r#"{{"rows":[{}0]}}"#, r#"{"text":"a row"},"#.repeat(3000));
    connection.run(&["JSON.SET", "large", "$", &large]);
    connection.check(
        r#"
        JSON.SET small $ {"a":[1,2.5,null,"é"]} => OK
        FT.SUGADD s hello 1.5 => 1
        FT.SUGADD s Help 0.5 PAYLOAD more => 2
        "#,
    );
    for name in ["small", "large", "s"] {
        let payload = dumped(&mut connection, name);
        let copy = format!("{name}:copy");
        assert_eq!(restored(&mut connection, &copy, &payload), "OK");
        assert_eq!(dumped(&mut connection, &copy), payload);
        assert_eq!(connection.run(&["TYPE", &copy]), connection.run(&["TYPE", name]));
    }
    assert_eq!(show(&connection.run(&["JSON.GET", "large:copy"])), large);
    connection.check(
        r#"
        JSON.GET small:copy $.a[3] => ["é"]
        FT.SUGGET s:copy he WITHSCORES WITHPAYLOADS => [hello 0.75 nil Help 0.28867512941360474 more]
        FT.SUGLEN s:copy => 2
        COPY s:copy again => 1
        FT.SUGDEL again hello => 1
        FT.SUGLEN s:copy => 2
        "#,
    );
    connection.check(
        r#"
        FT.SUGADD s Help 1 INCR => 2
        FT.SUGADD s hello 2 => 2
        FT.SUGGET s he WITHPAYLOADS => [hello nil Help more]
        "#,
    );
    let bad = "!ERR Bad data format";
    for text in ["", "{", "[1,]", &"[".repeat(200)] {
        let payload = dump(&Value::Json(text.into()));
        assert_eq!(restored(&mut connection, "none", &payload), bad, "{text}");
    }
    let Ok(Value::Suggestions(mut suggestions)) = restore(&dumped(&mut connection, "s")) else {
        panic!("no suggestions");
    };
    suggestions[0].text = vec![b'x'; 5000];
    let reply = restored(&mut connection, "none", &dump(&Value::Suggestions(suggestions)));
    assert!(reply.contains("too long"), "{reply}");
    connection.check("EXISTS none => 0");
}

/// The original sends this to its replicas instead of DD: they get the keys' removal by itself.
#[test]
fn an_index_is_dropped_as_the_original_says_it_to_replicas() {
    search_fixture().connect().check(
        r#"
        FT.CREATE i SCHEMA t TEXT => OK
        HSET k t word => 1
        FT._DROPINDEXIFX i _FORCEKEEPDOCS => OK
        EXISTS k => 1
        FT._LIST => []
        "#,
    );
}
