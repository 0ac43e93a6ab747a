//! Behaviour of the original that suites of clients and frameworks found, and recordings lack.

use super::*;

/// A client requested the piece after the last record, and its cursor was unknown: it had been
/// closed with the last full piece. The original closes it with a short piece.
#[test]
fn a_cursor_ends_with_a_piece_that_is_short() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA n NUMERIC => OK");
    (0..4).for_each(|key| _ = connection.run(&["HSET", &format!("k{key}"), "n", &key.to_string()]));
    let id_of = |reply: Value| match reply {
        Value::Array(parts) => show(&parts[1]),
        other => panic!("a piece and a cursor: {}", show(&other)),
    };
    let options = [
        ("2", "VERBATIM"),
        ("4", "VERBATIM"),
        ("4", "WITHCOUNT"),
        ("5", "VERBATIM"),
    ];
    let [halves, whole, counted, short] = options.map(|(count, option)| {
        let words = [
            "FT.AGGREGATE",
            "i",
            "*",
            option,
            "LOAD",
            "1",
            "n",
            "WITHCURSOR",
            "COUNT",
            count,
        ];
        id_of(connection.run(&words))
    });
    assert_eq!(short, "0");
    for (id, pieces, total) in [(whole, "", 0), (counted, "", 4), (halves, "[4 [n 2] [n 3]]", 0)] {
        assert_ne!(id, "0");
        if !pieces.is_empty() {
            connection.check(&format!("FT.CURSOR READ i {id} => [{pieces} {id}]"));
        }
        connection.check(&format!(
            "FT.CURSOR READ i {id} => [[{total}] 0]
             FT.CURSOR READ i {id} => !SEARCH_CURSOR_NOT_FOUND Cursor not found"
        ));
    }
}

/// Jedis writes INDEXMISSING and INDEXEMPTY in front of the options of TEXT and TAG.
#[test]
fn options_of_absent_values_precede_or_follow_options_of_the_type() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "FT.CREATE i SCHEMA t TEXT INDEXMISSING INDEXEMPTY WEIGHT 2.5 NOSTEM WITHSUFFIXTRIE SORTABLE \
         c TAG INDEXEMPTY INDEXMISSING SEPARATOR ; CASESENSITIVE SORTABLE UNF u TEXT NOSTEM INDEXMISSING => OK
         HSET k:1 t \"\" c A;b => 2
         FT.SEARCH i @t:'' NOCONTENT => [1 k:1]
         FT.SEARCH i ismissing(@u) NOCONTENT => [1 k:1]
         FT.SEARCH i @c:{A} NOCONTENT => [1 k:1]
         FT.SEARCH i @c:{a} NOCONTENT => [0]
         FT.CREATE j SCHEMA n NUMERIC INDEXEMPTY => !SEARCH_PARSE_ARGS Field `INDEXEMPTY` does not have a type",
    );
}

#[test]
fn a_dialect_is_checked_in_every_position() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    let wrong = "!SEARCH_PARSE_ARGS DIALECT requires a non negative integer >=1 and <= 4";
    connection.check("FT.CREATE i SCHEMA t TEXT => OK");
    for command in [
        "FT.SPELLCHECK",
        "FT.SEARCH",
        "FT.AGGREGATE",
        "FT.EXPLAIN",
        "FT.EXPLAINCLI",
    ] {
        for dialect in ["0", "5", "x"] {
            connection.check(&format!("{command} i tooni DIALECT {dialect} => {wrong}"));
        }
        connection.check(&format!(
            "{command} i tooni DIALECT => !SEARCH_PARSE_ARGS Need an argument for DIALECT"
        ));
    }
    connection.check("FT.SPELLCHECK i tooni DIALECT 2 => [[TERM tooni []]]");
}

/// A query's words are in lower case, those of a dictionary as they were added.
#[test]
fn a_dictionary_s_words_count_in_any_case() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "FT.CREATE i SCHEMA t TEXT => OK
         FT.DICTADD d JavaScript Python => 2
         FT.SPELLCHECK i JavaScrit TERMS INCLUDE d => [[TERM javascrit [[0 JavaScript]]]]
         FT.SPELLCHECK i pyhton TERMS INCLUDE d => [[TERM pyhton []]]
         FT.SPELLCHECK i pyhton TERMS INCLUDE d DISTANCE 2 => [[TERM pyhton [[0 Python]]]]
         FT.SPELLCHECK i Python TERMS EXCLUDE d => []",
    );
}

/// As 8.x does; 2.10 answers nothing.
#[test]
fn there_are_no_suggestions_of_no_key() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "FT.SUGGET s h => []
         FT.SUGGET s h FUZZY WITHSCORES WITHPAYLOADS => []",
    );
    connection.run(&["HELLO", "3"]);
    connection.check("FT.SUGGET s h => []");
}

#[test]
fn a_condition_of_text_names_no_other_field() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    let syntax = |at: u32, near: &str| format!("!SEARCH_SYNTAX Syntax error at offset {at} near {near}");
    connection.check("FT.CREATE i SCHEMA c TAG t TEXT u TEXT n NUMERIC m TEXT INDEXMISSING => OK");
    for (query, error) in [
        ("@c:(@n:[0 10])", syntax(4, "n")),
        ("@t:@u:@nope:x", syntax(3, "u")),
        ("@t:(x|(y @nope:x))", syntax(9, "nope")),
        ("@t:(x", syntax(4, "x")),
        ("@c:x", "!SEARCH_SYNTAX Expected a TEXT field at offset 0 near c".into()),
        ("@nope:(x)", "!SEARCH_SYNTAX Unknown field at offset 0 near nope".into()),
    ] {
        let reply = connection.run(&["FT.EXPLAIN", "i", query, "DIALECT", "2"]);
        assert_eq!(show(&reply), error, "{query}");
    }
}

/// NOSORT leaves the order of the keys, of which LIMIT takes a part.
#[test]
fn a_hybrid_search_without_an_order_is_in_order_of_keys() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("FT.CREATE i SCHEMA t TEXT v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 => OK");
    for (key, text) in [("a", "x filler filler filler"), ("b", "x x"), ("c", "x")] {
        connection.run(&["HSET", key, "t", text, "v", "aaaaaaaa"]);
    }
    let mut keys = |order: &str| {
        let words =
            format!("FT.HYBRID i SEARCH x VSIM @v $q COMBINE LINEAR 4 ALPHA 1 BETA 0 LOAD 1 @__key {order} PARAMS 2 q");
        let mut words: Vec<&str> = words.split_whitespace().collect();
        words.push("aaaaaaaa");
        let Value::Array(parts) = connection.run(&words) else {
            panic!("a hybrid answer");
        };
        show(&parts[3])
    };
    assert_ne!(keys(""), keys("NOSORT"));
    assert_eq!(keys("NOSORT"), "[[__key a] [__key b] [__key c]]");
    assert_eq!(keys("NOSORT LIMIT 0 1"), "[[__key a]]");
}

#[test]
fn an_option_of_disks_is_refused_by_its_name() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "FT.CREATE i SCHEMA v VECTOR HNSW 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 RERANK TRUE => \
         !SEARCH_PARSE_ARGS Bad arguments for vector similarity HNSW index rerank: Only disk-based vector indexes take it",
    );
}
