//! Indexes that are keys: requests and replies, and what they find after every way in which a key
//! changes.

use crate::testing::{Connection, Fixture, search_fixture, show};

fn run(connection: &mut Connection, words: &[&str]) -> String {
    show(&connection.run(words))
}

fn shop() -> (Fixture, Connection) {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "
        HSET p:1 name Laptop price 1299.5 tag computer seen 2024-01-02T00:00:00Z => 4
        SEARCH.CREATE shop ON HASH PREFIX 1 p: SCHEMA name TEXT price F64 FAST tag KEYWORD seen DATE FAST => 1
        HSET p:2 name Mouse price 29 tag computer => 3
        HSET p:3 name Stand price 49 tag desk => 3
        HSET q:1 name Laptop => 1
        ",
    );
    (fixture, connection)
}

#[test]
fn an_index_is_a_key_and_finds_documents() {
    let (_fixture, mut connection) = shop();
    connection.check(
        r#"
        TYPE shop => search
        OBJECT ENCODING shop => raw
        SCAN 0 TYPE search => [0 [shop]]
        SEARCH.LISTINDEXES MATCH s* => [[name shop type HASH]]
        SEARCH.LISTINDEXES OFFSET 1 => []
        SEARCH.WAITINDEXING shop => 1
        SEARCH.WAITINDEXING nope => 0
        SEARCH.COUNT shop {"name":{"$eq":"laptop"}} => 1
        SEARCH.COUNT shop {} => 3
        SEARCH.COUNT nope {} => -1
        SEARCH.QUERY nope {} => nil
        SEARCH.AGGREGATE nope {} {} => nil
        SEARCH.DESCRIBE nope => nil
        SEARCH.QUERY shop {"price":{"$lt":100}} => [[p:2 1 [[name Mouse] [price 29] [tag computer]]] [p:3 1 [[name Stand] [price 49] [tag desk]]]]
        SEARCH.QUERY shop {"price":{"$lt":100}} ORDERBY price DESC NOCONTENT LIMIT 1 => [[p:3 49]]
        SEARCH.QUERY shop {"price":{"$lt":100}} ORDERBY price ASC NOCONTENT OFFSET 1 => [[p:3 49]]
        SEARCH.QUERY shop {"tag":"desk"} SELECT 2 price none SCOREFUNC SCOREMODE REPLACE FIELDVALUE price FACTOR 2 => [[p:3 98 [[price 49]]]]
        SEARCH.QUERY shop {"name":{"$eq":"mouse"},"$boost":0} SELECT 1 name HIGHLIGHT FIELDS 1 name TAGS [ ] => [[p:2 0 [[name [Mouse]]]]]
        SEARCH.AGGREGATE shop {} {"a":{"$stats":{"field":"price"}}} => [a [count 3 min 29 max 1299.5 sum 1377.5 avg 459.1666666666667]]
        SEARCH.AGGREGATE shop {} {"t":{"$terms":{"field":"tag"}}} => [t [buckets [[key computer docCount 2] [key desk docCount 1]] sumOtherDocCount 0 docCountErrorUpperBound 0]]
        SEARCH.DROP shop => 1
        SEARCH.DROP shop => 0
        EXISTS shop p:1 => 1
        SEARCH.QUERY shop {} => nil
        "#,
    );
}

#[test]
fn an_index_follows_its_keys_in_their_transactions() {
    let (fixture, mut connection) = shop();
    connection.check(
        r#"
        RENAME p:2 q:2 => OK
        SEARCH.COUNT shop {} => 2
        COPY q:2 p:4 => 1
        SEARCH.COUNT shop {"name":{"$eq":"mouse"}} => 1
        HDEL p:4 name => 1
        SEARCH.COUNT shop {"name":{"$eq":"mouse"}} => 0
        SEARCH.COUNT shop {"price":29} => 1
        PEXPIRE p:4 1000 => 1
        "#,
    );
    fixture.advance_ms(1001);
    connection.check(r#"SEARCH.COUNT shop {"price":29} => 0"#);
    connection.check(
        r#"
        MULTI => OK
        HSET p:5 name Laptop => QUEUED
        SEARCH.COUNT shop {"name":{"$eq":"laptop"}} => QUEUED
        DEL p:5 => QUEUED
        SEARCH.COUNT shop {"name":{"$eq":"laptop"}} => QUEUED
        EXEC => [1 2 1 1]
        SET p:3 text => OK
        SEARCH.COUNT shop {} => 1
        FLUSHDB => OK
        SEARCH.QUERY shop {} => nil
        SEARCH.LISTINDEXES => []
        "#,
    );
    let script = "redis.call('HSET', 'p:1', 'name', 'x') return redis.call('SEARCH.COUNT', 's', '{\"name\":\"x\"}')";
    connection.check("SEARCH.CREATE s ON HASH PREFIX 1 p: SCHEMA name TEXT => 1");
    assert_eq!(run(&mut connection, &["EVAL", script, "0"]), "1");
}

#[test]
fn an_index_goes_as_keys_do() {
    for command in ["DEL shop", "UNLINK shop", "SET shop text", "FLUSHALL", "PEXPIRE shop 1"] {
        let (fixture, mut connection) = shop();
        run(&mut connection, &command.split(' ').collect::<Vec<_>>());
        fixture.advance_ms(2);
        let is_text = command.starts_with("SET");
        let count = run(&mut connection, &["SEARCH.COUNT", "shop", "{}"]);
        match is_text {
            true => assert!(count.starts_with("!WRONGTYPE"), "{count}"),
            false => assert_eq!(count, "-1", "{command}"),
        }
        connection.check("SEARCH.LISTINDEXES => []");
        if !is_text {
            connection.check("SEARCH.CREATE shop ON STRING PREFIX 1 p: SCHEMA name TEXT => 1");
        }
    }
    let (_fixture, mut connection) = shop();
    for command in ["RENAME shop other", "COPY shop other", "MOVE shop 1"] {
        let refused = run(&mut connection, &command.split(' ').collect::<Vec<_>>());
        assert_eq!(refused, "!ERR Search indexes cannot be renamed, moved or copied");
    }
    assert_eq!(
        run(&mut connection, &["DUMP", "shop"]),
        "!ERR Search indexes cannot be serialized"
    );
}

/// An index whose key expires before it is full is removed like others, and a later index of its
/// name starts empty.
#[test]
fn an_index_expires_while_it_is_filled() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    for key in 0..600 {
        run(&mut connection, &["HSET", &format!("k{key}"), "n", &key.to_string()]);
    }
    let create = "SEARCH.CREATE shop ON HASH PREFIX 1 k SCHEMA n U64 FAST => 1";
    connection.check(&format!("{create}\nPEXPIRE shop 1 => 1\nHSET k0 n 5 => 0"));
    fixture.advance_ms(2);
    fixture.finish_work();
    connection.check("SEARCH.COUNT shop {} => -1\nSEARCH.LISTINDEXES => []");
    connection.check(create);
    fixture.finish_work();
    connection.check("SEARCH.COUNT shop {} => 600");
    let findings = fixture.findings();
    assert!(findings.kept.is_empty(), "{:?}", findings.kept);
}

#[test]
fn documents_have_paths_and_arrays() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        r#"
        SEARCH.CREATE j ON JSON PREFIX 1 j: SCHEMA author.name TEXT tags KEYWORD views U64 FAST exact TEXT NOSTEM FROM author.name => 1
        SEARCH.CREATE s ON STRING PREFIX 1 s: LANGUAGE german SCHEMA author.name TEXT active BOOL FAST => 1
        JSON.SET j:1 $ {"author":{"name":"Running"},"tags":["a","b"],"views":18446744073709551615} => OK
        JSON.SET j:2 $ {"author":[{"name":"Run"},{"name":5}],"tags":"a","views":"many"} => OK
        SET s:1 {"author":{"name":"Häuser"},"active":true} => OK
        SET s:2 text => OK
        SEARCH.COUNT j {"author.name":{"$eq":"runs"}} => 2
        SEARCH.COUNT j {"exact":{"$eq":"running"}} => 1
        SEARCH.COUNT j {"tags":"a"} => 2
        SEARCH.COUNT j {"views":{"$gt":0}} => 0
        SEARCH.QUERY j {"tags":"b","$boost":0} HIGHLIGHT FIELDS 1 exact => [[j:1 0 [[$ {"author":{"name":"Running"},"tags":["a","b"],"views":1.8446744073709552e+19}]]]]
        SEARCH.QUERY j {"exact":{"$eq":"run"},"$boost":0} SELECT 2 author.name tags => [[j:2 0 [[author.name ["Run",5]] [tags a]]]]
        SEARCH.QUERY j {"exact":{"$eq":"run"},"$boost":0} HIGHLIGHT FIELDS 1 exact => [[j:2 0 [[$ {"author":[{"name":"<em>Run</em>"},{"name":5}],"tags":"a","views":"many"}]]]]
        SEARCH.COUNT s {"author.name":{"$eq":"haus"},"active":true} => 1
        JSON.NUMINCRBY j:2 $.author[1].name 1 => [6]
        JSON.SET j:2 $.tags ["c"] => OK
        SEARCH.COUNT j {"tags":"a"} => 1
        "#,
    );
}

#[test]
fn aliases_resolve_to_indexes() {
    let (_fixture, mut connection) = shop();
    connection.check(
        "
        SEARCH.ALIASADD now shop => 1
        SEARCH.ALIASADD now shop => 2
        SEARCH.ALIASADD later nothing => 1
        SEARCH.LISTALIASES => [[later nothing] [now shop]]
        SEARCH.COUNT now {} => 3
        SEARCH.WAITINDEXING now => 1
        SEARCH.REINDEX now => 1
        SEARCH.REINDEX later => 0
        SEARCH.COUNT now {} => 3
        SEARCH.DROP now => 0
        SEARCH.DROP shop => 1
        SEARCH.COUNT now {} => -1
        SEARCH.ALIASDEL now => 1
        SEARCH.ALIASDEL now => 0
        ",
    );
}

#[test]
fn definitions_are_described_and_compared() {
    let (_fixture, mut connection) = shop();
    let described = run(&mut connection, &["SEARCH.DESCRIBE", "shop"]);
    let start = "[name shop type HASH prefixes [p:] language english documents 3 indexSize ";
    let end = " pendingUpdates 0 schema [[name TEXT] [price F64 FAST] [tag KEYWORD] [seen DATE FAST]]]";
    assert!(described.starts_with(start) && described.ends_with(end), "{described}");
    connection.check(
        "
        SEARCH.CREATE shop ON HASH PREFIX 1 p: SCHEMA name TEXT => !ERR Index shop already exists
        SEARCH.CREATE shop EXISTSOK ON HASH PREFIX 1 p: SCHEMA name TEXT => !ERR Index shop already exists with another definition
        SEARCH.CREATE shop EXISTSOK ON HASH PREFIX 1 p: SCHEMA name TEXT price F64 FAST tag KEYWORD seen DATE FAST => 0
        SEARCH.CREATE p:1 ON HASH PREFIX 1 p: SCHEMA name TEXT => !WRONGTYPE Operation against a key holding the wrong kind of value
        SEARCH.CREATE x ON HASH PREFIX 2 p: p:q SCHEMA name TEXT => !ERR Prefix 'p:' covers another
        SEARCH.CREATE x ON HASH PREFIX 1 p: SCHEMA name NOPE => !ERR Unknown type of field 'name': NOPE
        SEARCH.CREATE x ON HASH PREFIX 1 p: SCHEMA name HYBRID => !ERR Field 'name' is HYBRID, and this server has no embedding model
        SEARCH.CREATE x ON HASH PREFIX 1 p: SCHEMA a TEXT a TEXT => !ERR Duplicate field: a
        SEARCH.CREATE x ON HASH PREFIX 1 p: LANGUAGE klingon SCHEMA a TEXT => !ERR Unknown language: klingon
        SEARCH.CREATE x SKIPINITIALSCAN ON HASH PREFIX 1 p: SCHEMA name TEXT => 1
        SEARCH.COUNT x {} => 0
        SEARCH.REINDEX x => 1
        SEARCH.COUNT x {} => 3
        ",
    );
}

fn number_behind(text: &str, name: &str) -> f64 {
    let behind = text.split_once(name).unwrap().1.trim_start();
    behind.split(' ').next().unwrap().parse().unwrap()
}

/// A size is kept while the index is as it was, and no longer.
#[test]
fn sizes_follow_the_index() {
    let (_fixture, mut connection) = shop();
    connection.check("FT.CREATE ft PREFIX 1 p: SCHEMA name TEXT => OK");
    let sizes = |connection: &mut Connection| {
        let described = run(connection, &["SEARCH.DESCRIBE", "shop"]);
        let info = run(connection, &["FT.INFO", "ft"]);
        let megabytes = number_behind(&info, "total_index_memory_sz_mb");
        [number_behind(&described, "indexSize"), megabytes]
    };
    let first = sizes(&mut connection);
    assert_eq!(sizes(&mut connection), first);
    connection.check("HSET p:9 name another price 5 => 2");
    let second = sizes(&mut connection);
    assert!(second[0] > first[0] && second[1] > first[1], "{first:?} {second:?}");
    connection.check("DEL p:9 p:1 => 2");
    let third = sizes(&mut connection);
    assert!(third[0] < second[0] && third[1] < second[1], "{second:?} {third:?}");
}

#[test]
fn wrong_requests_say_why() {
    let (_fixture, mut connection) = shop();
    connection.check(
        r#"
        SEARCH.QUERY shop {} LIMIT 0 => !ERR limit should be a positive number less than 1000
        SEARCH.QUERY shop {} LIMIT 1001 => !ERR limit should be a positive number less than 1000
        SEARCH.QUERY shop {} OFFSET 10001 => !ERR offset should be a number up to 10000
        SEARCH.QUERY shop {"name":{"$not":1}} => !ERR Unknown field operator: $not
        SEARCH.QUERY shop {"$ann":{"field":"name","query":"x"}} => !ERR $ann needs an embedding model, which this server does not have
        SEARCH.QUERY shop {} NOCONTENT SELECT 1 name => !ERR NOCONTENT cannot be combined with SELECT or HIGHLIGHT
        SEARCH.QUERY shop {} ORDERBY tag => !ERR ORDERBY requires field 'tag' to be FAST
        SEARCH.QUERY shop {} ORDERBY price SCOREFUNC FIELDVALUE price => !ERR SCOREFUNC cannot be combined with ORDERBY or another SCOREFUNC
        SEARCH.QUERY shop {} SCOREFUNC FIELDVALUE seen => !ERR SCOREFUNC requires field 'seen' to be FAST and a number
        SEARCH.AGGREGATE shop {} {"a":{"$avg":{"field":"tag"}}} => !ERR Aggregation 'a' operator '$avg' does not support field 'tag' of type KEYWORD
        SELECT 1 => OK
        SEARCH.COUNT shop {} => !ERR Search indexes are those of database 0
        "#,
    );
}

#[test]
fn a_user_searches_what_it_may_read() {
    let (fixture, mut connection) = shop();
    connection.check(
        "
        ACL SETUSER reader on nopass ~shop ~p:* +@read => OK
        ACL SETUSER other on nopass ~shop ~q:* +@all => OK
        ",
    );
    let mut reader = fixture.connect();
    run(&mut reader, &["AUTH", "reader", "any"]);
    reader.check("SEARCH.COUNT shop {} => 3");
    assert!(run(&mut reader, &["SEARCH.DROP", "shop"]).starts_with("!NOPERM"));
    let mut other = fixture.connect();
    run(&mut other, &["AUTH", "other", "any"]);
    other.check(
        "
        SEARCH.COUNT shop {} => !NOPERM No permissions to access a key
        SEARCH.DROP shop => !NOPERM No permissions to access a key
        ",
    );
}

#[test]
fn large_databases_are_filled_in_the_background() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    for number in 0..400 {
        run(&mut connection, &["HSET", &format!("p:{number}"), "name", "word"]);
    }
    connection.check("SEARCH.CREATE i ON HASH PREFIX 1 p: SCHEMA name TEXT => 1");
    fixture.finish_work();
    connection.check(
        r#"
        SEARCH.WAITINDEXING i => 1
        SEARCH.COUNT i {"name":{"$eq":"words"}} => 400
        SEARCH.QUERY i {} LIMIT 2 NOCONTENT => [[p:0 1] [p:1 1]]
        "#,
    );
}
