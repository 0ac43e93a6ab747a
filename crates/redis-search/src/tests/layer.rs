//! The module's commands beside the layer's own: the lists that name them, the lock, memory, and
//! replicas.

use crate::testing::{answer_beside, beside_a_reader, found, search_fixture, show};

#[test]
fn lists_name_the_modules_and_their_commands() {
    let mut connection = search_fixture().connect();
    connection.check(
        "COMMAND LIST FILTERBY MODULE vectorset => [vadd vrem vsim vdim vcard vemb vlinks vinfo vsetattr vgetattr vrandmember vismember vrange]
         MODULE LIST => [[name ReJSON ver 20800 path  args []] [name search ver 20810 path  args []] [name vectorset ver 1 path  args []]]",
    );
    let hello = show(&connection.run(&["HELLO", "3"]));
    let modules = "modules: [{name: ReJSON, ver: 20800, path: , args: []} {name: search, ver: 20810, path: , args: []} {name: vectorset, ver: 1, path: , args: []}]";
    assert!(hello.contains(modules), "{hello}");
    let categories = show(&connection.run(&["ACL", "CAT"]));
    assert!(categories.ends_with(" scripting json search]"), "{categories}");
}

#[test]
fn one_of_several_databases_sets_what_concerns_itself() {
    let fixture = search_fixture().as_one_of_several();
    fixture.connect().check(
        "FT.CONFIG SET TIMEOUT 0 => !SEARCH_PARSE_ARGS Not modifiable at runtime
         FT.CONFIG SET DEFAULT_DIALECT 3 => OK",
    );
}

const WRITES: &str = "
    FT.CREATE i PREFIX 1 doc SCHEMA n NUMERIC SORTABLE g TAG t TEXT
    HSET doc1 n 1 g red t hello
    HSET doc2 n 2 g blue t hello
    FT.DICTADD d word
    FT.SUGADD suggestions hello 1
    VADD vectors VALUES 2 1 1 one
    VADD vectors VALUES 2 1 2 two";

const READS: &str = "
    FT._LIST\nFT.SEARCH i hello SORTBY n\nFT.AGGREGATE i * GROUPBY 1 @g\nFT.EXPLAIN i hello
    FT.EXPLAINCLI i hello\nFT.TAGVALS i g\nFT.SPELLCHECK i hallo\nFT.DICTDUMP d\nFT.SYNDUMP i
    FT.SUGGET suggestions he\nFT.SUGLEN suggestions
    VSIM vectors ELE one\nVCARD vectors\nVDIM vectors\nVEMB vectors one\nVLINKS vectors one\nVINFO vectors
    VISMEMBER vectors one\nVRANGE vectors - +\nVGETATTR vectors one";

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

#[test]
fn commands_that_read_run_beside_readers_and_no_others_do() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    for line in lines(WRITES) {
        assert_eq!(beside_a_reader(&fixture, &mut connection, line), None, "{line}");
        let reply = connection.bytes(&line.split_whitespace().collect::<Vec<_>>());
        assert_ne!(reply[0], b'-', "{line}");
    }
    for line in lines(READS) {
        let expected = connection.bytes(&line.split_whitespace().collect::<Vec<_>>());
        assert_ne!(expected[0], b'-', "{line}");
        assert_eq!(answer_beside(&fixture, &mut connection, line), expected, "{line}");
    }
    // FT.INFO counts itself.
    let [first, second] = [1, 2].map(|count| format!("number_of_admin_ops\r\n:{count}\r\n"));
    let info = String::from_utf8(connection.bytes(&["FT.INFO", "i"])).unwrap();
    assert!(info.contains(&first), "{info}");
    let expected = info.replace(&first, &second).into_bytes();
    assert_eq!(answer_beside(&fixture, &mut connection, "FT.INFO i"), expected);
    for line in ["FT.CONFIG GET TIMEOUT", "FT.CREATE j SCHEMA n NUMERIC"] {
        assert_eq!(beside_a_reader(&fixture, &mut connection, line), None, "{line}");
    }
}

/// Tags around every word of a long text were made before they were counted.
#[test]
fn what_does_not_fit_is_refused() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("CONFIG SET maxmemory-clients 4mb => OK\nFT.CREATE i PREFIX 1 d: SCHEMA t TEXT => OK");
    connection.run(&["HSET", "d:1", "t", &"abc ".repeat(10_000)]);
    let tags = "<".repeat(1000);
    let reply = connection.bytes(&["FT.SEARCH", "i", "abc", "HIGHLIGHT", "TAGS", &tags, &tags]);
    assert!(
        reply.starts_with(b"-OOM "),
        "{}",
        reply[..60.min(reply.len())].escape_ascii()
    );
    // A text is refused before it is read.
    for words in [
        ["FT.SEARCH", "i", &"(".repeat(300_000)].as_slice(),
        &["FT.EXPLAIN", "i", &"a|".repeat(200_000)],
        &["FT.AGGREGATE", "i", "*", "APPLY", &"1+".repeat(200_000), "AS", "x"],
    ] {
        assert!(connection.bytes(words).starts_with(b"-SEARCH_LIMIT"), "{}", words[0]);
    }
}

/// A search that showed one member read the document, and so did the upkeep of an index by each
/// change of another member.
#[test]
fn indexes_and_searches_read_documents_by_path() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    let pad = "x".repeat(20_000);
    let items: Vec<String> = (0..2000).map(|number| format!("{{\"a\":{number}}}")).collect();
    let document = format!(
        r#"{{"pad":"{pad}","name":"hello","n":1,"tags":["a","b"],"items":[{}]}}"#,
        items.join(",")
    );
    connection.check(
        "FT.CREATE i ON JSON PREFIX 1 d: SCHEMA $.name AS name TEXT $.n AS n NUMERIC SORTABLE $.tags[*] AS tags TAG $.items[1999].a AS last NUMERIC => OK",
    );
    connection.run(&["JSON.SET", "d:1", "$", &document]);
    connection.check(
        "FT.SEARCH i hello RETURN 2 name n => [1 d:1 [name hello n 1]]
         FT.SEARCH i @last:[1999,1999] NOCONTENT => [1 d:1]
         JSON.NUMINCRBY d:1 $.n 6 => [7]
         FT.SEARCH i @n:[7,7] RETURN 1 $.items[3] => [1 d:1 [$.items[3] {\"a\":3}]]
         FT.SEARCH i @tags:{b} RETURN 1 $.tags DIALECT 3 => [1 d:1 [$.tags [[\"a\",\"b\"]]]]
         JSON.ARRPOP d:1 $.items 0 => [{\"a\":0}]
         FT.SEARCH i @last:[1999,1999] NOCONTENT => [0]
         JSON.ARRAPPEND d:1 $.items {\"a\":5} => [2000]
         FT.SEARCH i @last:[5,5] SORTBY n RETURN 1 last => [1 d:1 [last 5]]
         JSON.SET d:1 $.name \"bye\" => OK
         FT.SEARCH i hello NOCONTENT => [0]
         FT.SEARCH i bye NOCONTENT => [1 d:1]",
    );
    assert_eq!(found(&fixture), Vec::<String>::new());
}
