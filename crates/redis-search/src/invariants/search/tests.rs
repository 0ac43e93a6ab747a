//! A fault in every kind of row of an index is detected, and repaired once the index is filled
//! again.

use quartet_layer_redis::module_api::key_row;

use crate::indexes::{row_parts, rows_at};
use crate::testing::Fixture;
use crate::testing::{first, found, plant, search_fixture};

/// Indexes of all types of fields, settled and not, with removed documents and a graph.
fn start() -> Fixture {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "FT.CREATE i PREFIX 1 d: SCHEMA t TEXT PHONETIC dm:en SORTABLE g TAG INDEXMISSING n NUMERIC l GEO \
         v VECTOR HNSW 6 TYPE FLOAT32 DIM 1 DISTANCE_METRIC L2 \
         f VECTOR FLAT 6 TYPE FLOAT32 DIM 1 DISTANCE_METRIC L2 => OK\n\
         FT.CREATE j ON JSON PREFIX 1 j: SCHEMA $.t AS t TEXT $.n[*] AS n NUMERIC $.s AS s GEOSHAPE FLAT => OK\n\
         SEARCH.CREATE u ON HASH PREFIX 1 d: SCHEMA t TEXT n U64 FAST => 1",
    );
    for number in 0..40 {
        let (key, number) = (format!("d:{number}"), number.to_string());
        let (text, vector) = (format!("word w{number} with plain letters"), format!("{number:0>4}"));
        connection.run(&[
            "HSET", &key, "t", &text, "n", &number, "l", "1,2", "v", &vector, "f", &vector,
        ]);
    }
    connection.check("DEL d:7 => 1\nHSET d:8 g a,b,a => 1");
    // A second later what was written is settled, and later changes are not.
    for _ in 0..3 {
        fixture.advance_ms(1100);
        fixture.finish_work();
    }
    connection.check("DEL d:9 => 1\nHSET d:10 t other => 0\nHSET d:99 t last => 1");
    connection.run(&["JSON.SET", "j:1", "$", r#"{"t":"one","n":[1,2],"s":"POINT (1 2)"}"#]);
    assert_eq!(found(&fixture), Vec::<String>::new());
    fixture
}

/// The rows of an index with this name.
fn rows_of(fixture: &Fixture, definition: &[u8]) -> Vec<u8> {
    let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
    let row = reader.get(definition).unwrap();
    let (_, place, _) = row_parts(&row);
    rows_at(place)
}

/// Plants a fault, expects these findings, and none once they are repaired and the indexes filled.
/// `words` documents have the word that most have.
fn check(expected: &[&str], words: usize, change: impl FnOnce(&Fixture, &[u8])) {
    let fixture = start();
    let rows = rows_of(&fixture, b"Sii");
    change(&fixture, &rows);
    assert_eq!(found(&fixture), expected);
    loop {
        let repairable = fixture.findings().kept;
        if repairable.is_empty() {
            break;
        }
        assert!(repairable.iter().all(|finding| !finding.repairs.is_empty()));
        fixture.layer.engine.repair(&repairable).unwrap();
    }
    fixture.finish_work();
    assert_eq!(found(&fixture), Vec::<String>::new());
    fixture.connect().check(&format!(
        "FT.SEARCH i word NOCONTENT LIMIT 0 0 => [{words}]\n\
         FT.SEARCH i last NOCONTENT => [1 d:99]\n\
         FT.SEARCH j @t:one NOCONTENT => [1 j:1]",
    ));
}

/// The number of documents that have it if no key is lost.
const WORDS: usize = 37;

fn clear_first(fixture: &Fixture, rows: &[u8], tag: u8) {
    let row = first(fixture, &[rows, &[tag]].concat());
    plant(fixture, |tx| drop(tx.clear(&row)));
}

#[test]
fn a_key_that_is_not_in_its_index() {
    check(
        &["index \"i\" lacks key \"d:98\"", "index \"u\" lacks key \"d:98\""],
        WORDS,
        |fixture, _| {
            plant(fixture, |tx| {
                let row = tx.get(&key_row(0, b"d:10")).unwrap();
                tx.set(&key_row(0, b"d:98"), row.value());
            });
        },
    );
    check(
        &[
            "index \"i\" lacks key \"d:0\"",
            "index \"i\" has a document to which no key leads",
        ],
        WORDS,
        |fixture, rows| clear_first(fixture, rows, b'k'),
    );
    check(
        &[
            "index \"i\" has key \"d:8\" otherwise than it is",
            "index \"i\" lacks a value of a document",
        ],
        WORDS,
        |fixture, rows| clear_first(fixture, rows, b'g'),
    );
}

#[test]
fn a_key_that_is_only_in_its_index() {
    check(
        &[
            "index \"i\" has key \"d:0\" otherwise than it is",
            "index \"i\" has a document to which no key leads",
        ],
        WORDS,
        |fixture, rows| {
            let row = [rows, b"kd:0"].concat();
            plant(fixture, |tx| drop(tx.set(&row, &[0x80, 2])));
        },
    );
    check(
        &[
            "index \"i\" has key \"d:5\", which is none of its keys",
            "index \"u\" has key \"d:5\", which is none of its keys",
        ],
        WORDS - 1,
        |fixture, _| plant(fixture, |tx| drop(tx.clear(&key_row(0, b"d:5")))),
    );
}

/// Every kind of row that follows from documents.
#[test]
fn rows_of_an_index_that_contradict_each_other() {
    for (tag, breach) in [
        (b'm', "has a document with an id that was not given out"),
        (b'n', "lacks a value of a document"),
        (b'l', "lacks a value of a document"),
        (b'v', "lacks a value of a document"),
        (b'e', "has lengths that are not those of its documents"),
        (b'w', "has postings that are not those of its documents"),
        (b't', "has a document with the number of no term"),
        (b'x', "has postings that are not those of its documents"),
        (b'h', "has a graph that is none"),
        (b'u', "has a graph that is none"),
        (b'b', "has marks that are not those of its vectors"),
    ] {
        let fixture = start();
        clear_first(&fixture, &rows_of(&fixture, b"Sii"), tag);
        let findings = found(&fixture);
        let expected = format!("index \"i\" {breach}");
        assert_eq!(findings.last(), Some(&expected), "{}: {findings:?}", char::from(tag));
    }
    let planted: [(&[u8], &[u8], &str); 4] = [
        (b"n\0\x02whatever12345678", b"", "has values that no document has"),
        (b"z", b"", "has rows of no kind"),
        (b"b\0\x0412345678", b"", "has rows of no kind"),
        (b"f\0\x01", b"12345678", "says that a field has another number of words"),
    ];
    for (key, value, breach) in planted {
        let fixture = start();
        let row = [&rows_of(&fixture, b"Sii")[..], key].concat();
        plant(&fixture, |tx| drop(tx.set(&row, value)));
        assert_eq!(found(&fixture), [format!("index \"i\" {breach}")]);
    }
}

#[test]
fn rows_without_an_index_and_indexes_without_a_key() {
    check(&["1 rows belong to no index"], WORDS, |fixture, _| {
        plant(fixture, |tx| drop(tx.set(b"Sd0m", b"")));
    });
    check(
        &["indexes are not found, as the row that says when they changed is missing"],
        WORDS,
        |fixture, _| plant(fixture, |tx| drop(tx.clear(b"Sc"))),
    );
    let fixture = start();
    plant(&fixture, |tx| drop(tx.clear(&key_row(0, b"u"))));
    assert_eq!(found(&fixture), ["index \"u\" is no key"]);
    fixture.layer.engine.repair(&fixture.findings().kept).unwrap();
    fixture.layer.engine.repair(&fixture.findings().kept).unwrap();
    assert_eq!(found(&fixture), Vec::<String>::new());
    let fixture = start();
    plant(&fixture, |tx| drop(tx.clear(b"Sju")));
    assert!(found(&fixture).contains(&"key \"u\" is an index that there is not".to_owned()));
}

/// Expired keys, and keys that were deliberately not indexed, may differ.
#[test]
fn expired_or_unread_rows_are_no_fault() {
    let fixture = start();
    let mut connection = fixture.connect();
    connection.check(
        "EXPIRE d:1 1 => 1\nHEXPIRE d:2 1 FIELDS 1 t => [1]\n\
         FT.CREATE late SKIPINITIALSCAN PREFIX 1 d: SCHEMA t TEXT => OK\n\
         FT.ALTER i SKIPINITIALSCAN SCHEMA ADD more TAG INDEXMISSING => OK",
    );
    fixture.advance_ms(5000);
    connection.check("SET other value => OK");
    assert_eq!(found(&fixture), Vec::<String>::new());
}

/// An entry that the index lacks, one that it should not have, and an index that follows a stream
/// that there is not.
#[test]
fn an_index_on_a_stream_that_disagrees_with_it() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "SEARCH.CREATE log ON STREAM s SCHEMA n U64 FAST => 1\n\
         XADD s 1-0 n 1 => 1-0\n\
         XADD s 2-0 n 2 => 2-0",
    );
    assert_eq!(found(&fixture), Vec::<String>::new());
    let rows = rows_of(&fixture, b"Sjlog");
    let key_of = first(&fixture, &[rows.as_slice(), b"k"].concat());
    plant(&fixture, |tx| {
        let row = tx.get(&key_of).unwrap();
        let id = row.value().to_vec();
        tx.clear(&key_of);
        tx.set(&[rows.as_slice(), b"k", &[9; 16]].concat(), &id);
    });
    let first_finding = found(&fixture).remove(0);
    assert_eq!(first_finding, "index \"log\" does not have entry 1-0 as it is");
    let foreign = "index \"log\" has entry 651061555542690057-651061555542690057, which the stream does not have";
    assert!(found(&fixture).contains(&foreign.to_owned()), "{:?}", found(&fixture));
    fixture.layer.engine.repair(&fixture.findings().kept).unwrap();
    fixture.finish_work();
    assert_eq!(found(&fixture), Vec::<String>::new());
    connection.check("SEARCH.QUERY log {} NOCONTENT => [[1-0 1] [2-0 1]]");
}
