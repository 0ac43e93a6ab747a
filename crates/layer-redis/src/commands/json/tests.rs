//! Replies, as the documentation of RedisJSON and the tests of its clients have them.

use crate::testing::{Fixture, show};

/// Words are split at blanks, so documents have none.
fn check(script: &str) {
    Fixture::new().connect().check(script);
}

#[test]
fn documents_are_set_and_read() {
    check(
        r#"
        JSON.SET d $ {"a":1,"b":{"c":[1,2]},"x":"y"} => OK
        TYPE d => ReJSON-RL
        OBJECT ENCODING d => raw
        JSON.GET d => {"a":1,"b":{"c":[1,2]},"x":"y"}
        JSON.GET d . => {"a":1,"b":{"c":[1,2]},"x":"y"}
        JSON.GET d $ => [{"a":1,"b":{"c":[1,2]},"x":"y"}]
        JSON.GET d .b.c => [1,2]
        JSON.GET d $.b.c $.a => {"$.b.c":[[1,2]],"$.a":[1]}
        JSON.GET d a x => {"a":1,"x":"y"}
        JSON.GET d nope => !ERR Path '$.nope' does not exist
        JSON.GET d $.nope => []
        JSON.GET none => nil
        JSON.GET d INDENT > NEWLINE | SPACE _ b => {|>"c":_[|>>1,|>>2|>]|}
        JSON.SET d $.b.n null => OK
        JSON.SET d $.no.way 1 => nil
        JSON.SET d $.a 2 NX => nil
        JSON.SET d $.q 2 XX => nil
        JSON.SET d $.a 2 XX => OK
        JSON.SET f $ {"v":[1.1,65504.5],"w":[1.1,"x"],"i":[2049]} FPHA FP16 => OK
        JSON.GET f => {"v":[1.099609375,65504.0],"w":[1.1,"x"],"i":[2048.0]}
        JSON.SET f $.v [[1.1],[-2.2]] XX FPHA bf16 => OK
        JSON.GET f $.v => [[[1.1015625],[-2.203125]]]
        JSON.SET f $.v [1.1] FPHA Fp64 NX => nil
        JSON.SET f $.v [1.1] FPHA Fp32 => OK
        JSON.GET f $.v => [[1.100000023841858]]
        JSON.SET f $.v [1,-2,0.5] FPHA FP16 => OK
        JSON.GET f $.v => [[1.0,-2.0,0.5]]
        JSON.SET f $.v [65520.5] FPHA fp16 => !ERR value out of range for FP16
        JSON.SET f $.v [1e300] FPHA bf16 => !ERR value out of range for BF16
        JSON.SET f $.v [1e300] FPHA FP64 => OK
        JSON.SET f $.v [1.1] FPHA => !ERR syntax error
        JSON.SET f $.v [1.1] FPHA FP8 => !ERR syntax error
        JSON.SET f $.v [1.1] FPHA FP32 FPHA FP32 => !ERR syntax error
        JSON.SET d $.*.q 2 => !ERR wrong static path
        JSON.SET d $.b.c[7] 2 => !ERR array index out of range
        JSON.SET e $.a 1 => !ERR new objects must be created at the root
        JSON.SET e $ {bad} => !ERR key must be a string at line 1 column 2
        JSON.MSET e $ {"a":7} d $.a 8 => OK
        JSON.MGET d e none $.a => [[8] [7] nil]
        JSON.MGET d e none a => [8 7 nil]
        SET s text => OK
        JSON.GET s => !WRONGTYPE Operation against a key holding the wrong kind of value
        JSON.SET s $ 1 => !WRONGTYPE Operation against a key holding the wrong kind of value
        JSON.MGET s $ => [nil]
        GET d => !WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn documents_are_keys_like_others() {
    check(
        r#"
        JSON.SET d $ {"a":1} => OK
        EXPIRE d 100 => 1
        JSON.SET d $ {"a":2} => OK
        TTL d => 100
        COPY d e => 1
        RENAME e f => OK
        JSON.GET f => {"a":2}
        SCAN 0 TYPE ReJSON-RL => [0 [d f]]
        JSON.DEL d => 1
        JSON.DEL d => 0
        EXISTS d => 0
        DEL f => 1
        "#,
    );
}

#[test]
fn values_are_removed_merged_and_cleared() {
    check(
        r#"
        JSON.SET d $ {"a":1,"n":{"a":2,"b":[1]},"l":[1,2]} => OK
        JSON.DEL d $..a => 2
        JSON.FORGET d l[0] => 1
        JSON.DEL d $.nope => 0
        JSON.GET d => {"n":{"b":[1]},"l":[2]}
        JSON.MERGE d $.n {"b":null,"c":3} => OK
        JSON.MERGE d $.new 8 => OK
        JSON.MERGE d $.l null => OK
        JSON.GET d => {"n":{"c":3},"l":null,"new":8}
        JSON.MERGE none $.a 1 => !ERR new objects must be created at the root
        JSON.CLEAR d $.* => 2
        JSON.CLEAR d $.* => 0
        JSON.GET d => {"n":{},"l":null,"new":0}
        JSON.CLEAR d => 1
        JSON.CLEAR none => !ERR could not perform this operation on a key that doesn't exist
        "#,
    );
}

/// A merge at a path where nothing is answered OK although nothing was written, and null as the
/// whole value removed what RFC 7396 makes null. 2.8.3 was seen to answer these.
#[test]
fn merges_answer_nil_where_nothing_is_and_keep_null() {
    let document = r#"{"a":{"x":1},"b":[{"x":2},{"y":3}],"n":1}"#;
    let mut connection = Fixture::new().connect();
    for path in ["$.zz.y", "$.n.q", "$.b.q", ".zz.y", "$.b[5].q", "$.a.x.new"] {
        for value in ["1", r#"{"k":1}"#, "null"] {
            connection.run(&["JSON.SET", "d", "$", document]);
            assert_eq!(
                show(&connection.run(&["JSON.MERGE", "d", path, value])),
                "nil",
                "{path}"
            );
            assert_eq!(show(&connection.run(&["JSON.GET", "d"])), document, "{path}");
        }
    }
    for (path, merged) in [
        ("$.n", r#"{"a":{"x":1},"b":[{"x":2},{"y":3}],"n":null}"#),
        ("$.b[0]", r#"{"a":{"x":1},"b":[null,{"y":3}],"n":1}"#),
        ("$..x", r#"{"a":{"x":null},"b":[{"x":null},{"y":3}],"n":1}"#),
        ("$", "null"),
    ] {
        connection.run(&["JSON.SET", "d", "$", document]);
        assert_eq!(show(&connection.run(&["JSON.MERGE", "d", path, "null"])), "OK");
        assert_eq!(show(&connection.run(&["JSON.GET", "d"])), merged, "{path}");
    }
}

/// Observed replies of 2.8.3.
#[test]
fn a_value_inside_of_a_cleared_one_does_not_count() {
    check(
        r#"
        JSON.SET d $ {"a":{"x":1,"y":{"z":2}},"b":[{"x":2}],"n":1,"s":"t","e":[],"z":0} => OK
        JSON.CLEAR d $..* => 3
        JSON.GET d => {"a":{},"b":[],"n":0,"s":"t","e":[],"z":0}
        JSON.CLEAR d $..* => 0
        "#,
    );
}

/// Paths of JSON.MSET mean what they do in the documents as they are before it, as 2.8.3 was seen
/// to answer.
#[test]
fn values_for_one_key_are_set_by_its_document_before() {
    check(
        r#"
        JSON.SET d $ {"n":1} => OK
        JSON.MSET d $ {"p":1} d $.p 2 => OK
        JSON.GET d => {"p":1}
        JSON.MSET d $ {"q":1} d $.p 2 => OK
        JSON.GET d => {"q":1}
        JSON.MSET d $.q 5 d $.q 6 d $.new 7 => OK
        JSON.GET d => {"q":6,"new":7}
        JSON.MSET d $.q {} d $.q.r 1 => OK
        JSON.GET d => {"q":{"r":1},"new":7}
        JSON.MSET d $.q 5 d $ [] => OK
        JSON.GET d => []
        JSON.MSET w $ {"p":1} w $.p 2 => !ERR new objects must be created at the root
        JSON.MSET w $ {} w $.a {} w $.a.b 1 => !ERR new objects must be created at the root
        EXISTS w => 0
        JSON.MSET w $ 1 w $ 2 => OK
        JSON.GET w => 2
        "#,
    );
}

#[test]
fn kinds_and_lengths_are_answered() {
    check(
        r#"
        JSON.SET d $ {"i":1,"f":1.5,"s":"abc","b":true,"z":null,"l":[1],"o":{"k":1,"s":"x"}} => OK
        JSON.TYPE d => object
        JSON.TYPE d $.* => [integer number string boolean null array object]
        JSON.TYPE d nope => nil
        JSON.TYPE none => nil
        JSON.STRLEN d s => 3
        JSON.STRLEN d $..s => [3 1]
        JSON.STRLEN d i => !ERR Path '$.i' does not exist or not a string
        JSON.STRLEN none => nil
        JSON.STRLEN none $ => !ERR could not perform this operation on a key that doesn't exist
        JSON.ARRLEN d $.* => [nil nil nil nil nil 1 nil]
        JSON.OBJLEN d => 7
        JSON.OBJLEN d nope => nil
        JSON.OBJKEYS d o => [k s]
        JSON.OBJKEYS d $.* => [nil nil nil nil nil nil [k s]]
        JSON.OBJKEYS none => nil
        JSON.RESP d o => [{ k 1 s x]
        JSON.RESP d $.l => [[[ 1]]
        JSON.RESP d b => true
        JSON.RESP d f => 1.5
        JSON.DEBUG MEMORY d $.s => [5]
        "#,
    );
}

#[test]
fn scalars_are_changed() {
    check(
        r#"
        JSON.SET d $ {"i":1,"f":1.5,"s":"abc","b":true,"n":{"i":9223372036854775807}} => OK
        JSON.NUMINCRBY d i 2 => 3
        JSON.NUMINCRBY d $..i 1 => [4,9.223372036854776e+18]
        JSON.NUMINCRBY d $.* 1 => [5,2.5,null,null,null]
        JSON.NUMMULTBY d f 2 => 5.0
        JSON.NUMINCRBY d s 2 => !ERR Path '$.s' does not exist or does not contain a number
        JSON.NUMINCRBY d f 1e999 => !ERR number out of range at line 1 column 5
        JSON.NUMMULTBY d n.i 1e300 => !ERR result is not a number
        JSON.NUMINCRBY none i 1 => !ERR could not perform this operation on a key that doesn't exist
        JSON.STRAPPEND d s "d" => 4
        JSON.STRAPPEND d $.* "e" => [nil nil 5 nil nil]
        JSON.STRAPPEND d s 1 => !WRONGTYPE wrong type of value - expected string
        JSON.TOGGLE d b => false
        JSON.TOGGLE d $.* => [nil nil nil 1 nil]
        JSON.GET d => {"i":5,"f":5.0,"s":"abcde","b":true,"n":{"i":9.223372036854776e+18}}
        "#,
    );
}

/// Over RESP3 a legacy path was answered as over RESP2. RedisJSON 2.6 answers both dialects alike
/// there: arrays of numbers, and for TYPE one array more, also for an absent key.
#[test]
fn over_resp3_both_kinds_of_path_are_answered_with_arrays() {
    let mut connection = Fixture::new().connect();
    connection.session.speak_resp3();
    connection.check(
        r#"
        JSON.SET d $ {"i":1,"f":1.5,"s":"abc","n":{"i":7}} => OK
        JSON.NUMINCRBY d .i 2 => [3]
        JSON.NUMINCRBY d $.i 2 => [5]
        JSON.NUMMULTBY d f 3 => [4.5]
        JSON.NUMINCRBY d ..i 1 => [6 8]
        JSON.NUMINCRBY d $.* 1 => [7 5.5 nil nil]
        JSON.NUMINCRBY d .s 1 => [nil]
        JSON.NUMINCRBY d .nope 1 => []
        JSON.TYPE d .i => [integer]
        JSON.TYPE d .nope => [nil]
        JSON.TYPE d $.i => [[integer]]
        JSON.TYPE none .i => [nil]
        JSON.GET d .i => 7
        "#,
    );
}

#[test]
fn arrays_are_changed() {
    check(
        r#"
        JSON.SET d $ {"l":[1,2,3],"n":{"l":["a"]},"s":"x"} => OK
        JSON.ARRAPPEND d l 4 5 => 5
        JSON.ARRAPPEND d $..l {} => [6 2]
        JSON.ARRAPPEND d s 1 => !ERR Path '$.s' does not exist or not an array
        JSON.ARRINDEX d l 3 => 2
        JSON.ARRINDEX d $..l "a" => [-1 0]
        JSON.ARRINDEX d l 3 3 => -1
        JSON.ARRINDEX d l 3 0 2 => -1
        JSON.ARRINDEX d l 3 -9 -1 => 2
        JSON.ARRINSERT d $.l 0 0 => [7]
        JSON.ARRINSERT d l -1 true => 8
        JSON.ARRINSERT d l 99 1 => !ERR index out of bounds
        JSON.GET d l => [0,1,2,3,4,5,true,{}]
        JSON.ARRPOP d l => {}
        JSON.ARRPOP d l 99 => true
        JSON.ARRPOP d l -99 => 0
        JSON.ARRPOP d $..l => [5 {}]
        JSON.ARRTRIM d l 1 2 => 2
        JSON.GET d => {"l":[2,3],"n":{"l":["a"]},"s":"x"}
        JSON.ARRTRIM d $..l 5 9 => [0 0]
        JSON.ARRPOP d l => nil
        JSON.ARRPOP d $.l => [nil]
        JSON.ARRPOP d s => !ERR Path '$.s' does not exist or not an array
        "#,
    );
}

#[test]
fn a_path_with_a_value_twice_changes_it_once() {
    check(
        r#"
        JSON.SET d $ {"a":{"a":{"a":[1,2]}}} => OK
        JSON.ARRAPPEND d $..a..a 3 => [nil 3]
        JSON.SET d $..a..a 0 => OK
        JSON.GET d => {"a":{"a":0}}
        "#,
    );
}

#[test]
fn no_command_nests_a_document_too_deeply() {
    let mut connection = Fixture::new().connect();
    let nested = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let inner = format!("${}", "[0]".repeat(99));
    let too_deep = "ERR the document nests too deeply";
    assert_eq!(
        crate::testing::show(&connection.run(&["JSON.SET", "d", "$", &nested])),
        "OK"
    );
    for words in [
        &["JSON.SET", "d", &inner, &nested][..],
        &["JSON.MERGE", "d", &inner, &nested],
        &["JSON.ARRAPPEND", "d", &inner, &nested],
    ] {
        assert_eq!(
            crate::testing::show(&connection.run(words)),
            format!("!{too_deep}"),
            "{words:?}"
        );
    }
    assert_eq!(crate::testing::show(&connection.run(&["JSON.GET", "d"])), nested);
}

/// Every eighth double was off by one unit in its last place, and drifted with each command that
/// read the document: the parser was the fast one, which rounds twice.
#[test]
fn doubles_are_what_was_set_however_often_they_are_read() {
    let mut connection = Fixture::new().connect();
    let mut run = |words: &[&str]| show(&connection.run(words));
    // Exponents near zero, so that sums are not all the larger of the two.
    let double = |bits: u64| f64::from_bits(bits & !(0x7ff << 52) | (1000 + bits % 50) << 52);
    let mut bits = 1_u64;
    for _ in 0..3_000 {
        let [set, by] = [(); 2].map(|()| {
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            double(bits ^ bits >> 29)
        });
        let (set_text, increment_text) = (format!("{set:?}"), format!("{by:?}"));
        assert_eq!(run(&["JSON.SET", "d", "$", &format!("{{\"n\":{set_text}}}")]), "OK");
        let mut check = |words: &[&str], expected: f64| {
            let read_back: f64 = run(words).parse().unwrap();
            assert_eq!(read_back.to_bits(), expected.to_bits(), "{words:?} with {set_text}");
        };
        check(&["JSON.GET", "d", ".n"], set);
        check(&["JSON.NUMINCRBY", "d", ".n", &increment_text], set + by);
        check(&["JSON.NUMINCRBY", "d", ".n", "0"], set + by);
        check(&["JSON.GET", "d", ".n"], set + by);
    }
}

/// A path with `*`, `..`, a slice or a filter read a long document whole, and noted a location for
/// each of its values, in uncounted memory: a document of 4 MB took 150 MB. All of it
/// is taken before it is made now. The whole text is written piece by piece, for any document.
#[test]
fn a_read_of_many_values_takes_memory_before_it_is_made() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check("CONFIG SET maxmemory-clients 64mb => OK");
    let mut words = vec!["JSON.ARRAPPEND", "d", "$.all"];
    words.extend(std::iter::repeat_n("1", 100_000));
    connection.check(r#"JSON.SET d $ {"all":[],"name":"x","few":[1,2,[3]],"none":[]} => OK"#);
    for _ in 0..3 {
        connection.run(&words);
    }
    connection.check("CONFIG SET maxmemory-clients 8mb => OK");
    let idle_bytes = fixture.layer.engine.memory().reserved_bytes();
    for words in [
        ["JSON.GET", "d", "$..*"].as_slice(),
        &["JSON.GET", "d", "$.all[*]"],
        &["JSON.GET", "d", "$.all[1:299999]"],
        &["JSON.GET", "d", "$.all[?(@>0)]"],
        &["JSON.GET", "d", "$.name", "$..[1]"],
        &["JSON.MGET", "d", "d", "$.all[*]"],
        &["JSON.TYPE", "d", "$..*"],
        &["JSON.STRLEN", "d", "$.*"],
        &["JSON.ARRLEN", "d", "$..all"],
        &["JSON.OBJLEN", "d", "$..x"],
        &["JSON.OBJKEYS", "d", "$..*"],
        &["JSON.RESP", "d", "$"],
        &["JSON.RESP", "d", "$.all"],
        &["JSON.ARRINDEX", "d", "$.*", "2"],
        &["JSON.DEBUG", "MEMORY", "d", "$.*"],
        &["JSON.TOGGLE", "d", "$..*"],
        &["JSON.DEL", "d", "$.all[*]"],
        &["JSON.MSET", "d", "$.new", "1", "d", "$.all[*]", "1"],
    ] {
        let reply = show(&connection.run(words));
        assert!(
            reply.starts_with("!OOM "),
            "{words:?} {}",
            &reply[..60.min(reply.len())]
        );
    }
    assert_eq!(show(&connection.run(&["JSON.GET", "d"])).len(), 600_046);
    assert_eq!(show(&connection.run(&["JSON.GET", "d", "$"])).len(), 600_048);
    connection.check(
        "
        JSON.GET d $.few[*] => [1,2,[3]]
        JSON.GET d $.few..* => [1,2,[3],3]
        JSON.ARRLEN d $.all => [300000]
        JSON.TYPE d $.name => [string]
        JSON.OBJKEYS d $ => !OOM the reply takes more memory than there is left for one
        JSON.GET d $.none => [[]]
        ",
    );
    assert_eq!(fixture.layer.engine.memory().reserved_bytes(), idle_bytes);
}

/// The text of a document in pieces is written as that of a packed one, in any layout.
#[test]
fn pieces_have_the_text_of_their_document() {
    let mut connection = Fixture::new().connect();
    let member = |number: usize| format!(r#""m{number}":{{"deep":[{number},"\u007fn{number}",null,{{}},[]]}}"#);
    let members: Vec<String> = (0..900).map(member).collect();
    let document = format!("{{{}}}", members.join(","));
    connection.run(&["JSON.SET", "d", "$", &document]);
    let read = show(&connection.run(&["JSON.GET", "d"]));
    assert_eq!(read, document.replace(r"\u007f", "\u{7f}"));
    let layout = ["INDENT", ">", "NEWLINE", "|", "SPACE", "_"];
    let mut get = |path: &[&str]| show(&connection.run(&[&["JSON.GET", "d"], &layout[..], path].concat()));
    let whole = get(&[]);
    // A selection that reads the document makes the same text of its members.
    let mut joined = String::new();
    for number in 0..900 {
        let path = format!(".m{number}");
        let value = get(&[&path]).replace('|', "|>");
        joined += &format!("{}|>\"m{number}\":_{value}", if number == 0 { "" } else { "," });
    }
    assert_eq!(whole, format!("{{{joined}|}}"));
}
