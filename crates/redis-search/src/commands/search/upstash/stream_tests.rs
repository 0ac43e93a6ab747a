//! Indexes on a stream: what they find after every way in which a stream changes.

use crate::testing::{Connection, Fixture, search_fixture, show};

/// The faults in the rows.
fn found(fixture: &Fixture) -> Vec<String> {
    fixture
        .findings()
        .kept
        .into_iter()
        .map(|finding| finding.what)
        .collect()
}

fn run(connection: &mut Connection, words: &[&str]) -> String {
    show(&connection.run(words))
}

fn events() -> (Fixture, Connection) {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "
        XADD events 1-0 message opened service door severity 1 => 1-0
        SEARCH.CREATE log ON STREAM events SCHEMA message TEXT service KEYWORD severity U64 FAST => 1
        XADD events 2-0 message closed service door severity 2 => 2-0
        XADD events 10-0 message opened service gate severity 3 => 10-0
        XADD other 1-0 message opened => 1-0
        ",
    );
    (fixture, connection)
}

#[test]
fn entries_are_documents() {
    let (fixture, mut connection) = events();
    connection.check(
        r#"
        TYPE log => search
        SEARCH.LISTINDEXES => [[name log type STREAM]]
        SEARCH.WAITINDEXING log => 1
        SEARCH.COUNT log {} => 3
        SEARCH.COUNT log {"message":{"$eq":"open"}} => 2
        SEARCH.QUERY log {"service":"door","$boost":0} => [[1-0 0 [[message opened] [service door] [severity 1]]] [2-0 0 [[message closed] [service door] [severity 2]]]]
        SEARCH.QUERY log {} NOCONTENT => [[1-0 1] [2-0 1] [10-0 1]]
        SEARCH.QUERY log {} ORDERBY severity DESC NOCONTENT LIMIT 1 => [[10-0 3]]
        SEARCH.QUERY log {"severity":{"$gt":2},"$boost":0} SELECT 2 severity none => [[10-0 0 [[severity 3]]]]
        SEARCH.QUERY log {"message":{"$eq":"close"},"$boost":0} SELECT 1 message HIGHLIGHT FIELDS 1 message => [[2-0 0 [[message <em>closed</em>]]]]
        SEARCH.AGGREGATE log {} {"s":{"$sum":{"field":"severity"}}} => [s [value 6]]
        SEARCH.DROP log => 1
        XLEN events => 3
        "#,
    );
    assert_eq!(found(&fixture), Vec::<String>::new());
    let described = "SEARCH.CREATE log ON STREAM events SCHEMA message TEXT FROM text => 1";
    connection.check(described);
    let described = run(&mut connection, &["SEARCH.DESCRIBE", "log"]);
    let start = "[name log type STREAM prefixes [events] language english documents 3 ";
    let end = " schema [[message TEXT FROM text]]]";
    assert!(described.starts_with(start) && described.ends_with(end), "{described}");
}

/// A name that occurs several times in an entry has all these values.
#[test]
fn fields_may_occur_several_times() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        r#"
        SEARCH.CREATE i ON STREAM s SCHEMA tag KEYWORD text TEXT => 1
        XADD s 1-0 tag a tag b text one text two => 1-0
        SEARCH.COUNT i {"tag":"a"} => 1
        SEARCH.COUNT i {"tag":"b"} => 1
        SEARCH.COUNT i {"text":{"$eq":"one"}} => 1
        SEARCH.COUNT i {"text":{"$eq":"two"}} => 1
        SEARCH.QUERY i {"tag":"b","$boost":0} SELECT 1 tag => [[1-0 0 [[tag a] [tag b]]]]
        "#,
    );
}

#[test]
fn an_index_follows_its_stream() {
    let (fixture, mut connection) = events();
    let steps = r#"
        XDEL events 2-0 => 1
        SEARCH.QUERY log {} NOCONTENT => [[1-0 1] [10-0 1]]
        XADD events MAXLEN 2 11-0 message new => 11-0
        SEARCH.QUERY log {} NOCONTENT => [[10-0 1] [11-0 1]]
        XTRIM events MINID 11 => 1
        SEARCH.QUERY log {} NOCONTENT => [[11-0 1]]
        XADD events MAXLEN 0 12-0 message gone => 12-0
        SEARCH.COUNT log {} => 0
        XADD events 13-0 message last => 13-0
        XDEL events 13-0 => 1
        XSETID events 12-0 => OK
        XADD events 12-5 message lower => 12-5
        SEARCH.QUERY log {} NOCONTENT => [[12-5 1]]
        XGROUP CREATE events g 0 => OK
        XREADGROUP GROUP g c STREAMS events > => [[events [[12-5 [message lower]]]]]
        XACKDEL events g IDS 1 12-5 => [1]
        SEARCH.COUNT log {} => 0
        XADD events 14-0 message x => 14-0
        XDELEX events IDS 1 14-0 => [1]
        SEARCH.COUNT log {} => 0
        XADD events 15-0 message x => 15-0
        RENAME events moved => OK
        SEARCH.COUNT log {} => 0
        XADD moved 16-0 message y => 16-0
        RENAME moved events => OK
        SEARCH.QUERY log {} NOCONTENT => [[15-0 1] [16-0 1]]
        COPY other events REPLACE => 1
        SEARCH.QUERY log {} NOCONTENT => [[1-0 1]]
        SET events text => OK
        SEARCH.COUNT log {} => 0
        DEL events => 1
        XADD events 1-0 message again => 1-0
        SEARCH.COUNT log {"message":{"$eq":"again"}} => 1
        "#;
    for step in steps.trim().lines() {
        connection.check(step);
        assert_eq!(found(&fixture), Vec::<String>::new(), "{step}");
    }
}

#[test]
fn transactions_and_scripts_find_their_own_entries() {
    let (fixture, mut connection) = events();
    connection.check(
        r#"
        MULTI => OK
        XADD events 20-0 message within => QUEUED
        SEARCH.COUNT log {"message":{"$eq":"within"}} => QUEUED
        XDEL events 20-0 => QUEUED
        SEARCH.COUNT log {"message":{"$eq":"within"}} => QUEUED
        RENAME events other => QUEUED
        XADD other 30-0 message away => QUEUED
        RENAME other events => QUEUED
        SEARCH.COUNT log {"message":{"$eq":"away"}} => QUEUED
        EXEC => [20-0 1 1 0 OK 30-0 OK 1]
        "#,
    );
    let script = "redis.call('XADD', 'events', '40-0', 'message', 'scripted')
        return redis.call('SEARCH.COUNT', 'log', '{\"message\":{\"$eq\":\"scripted\"}}')";
    assert_eq!(run(&mut connection, &["EVAL", script, "0"]), "1");
    assert_eq!(found(&fixture), Vec::<String>::new());
}

/// An expired stream is not found, even before its removal.
#[test]
fn a_stream_that_expires_is_not_found() {
    let (fixture, mut connection) = events();
    connection.check("PEXPIRE events 50 => 1\nSEARCH.COUNT log {} => 3");
    fixture.advance_ms(51);
    connection.check(
        "
        SEARCH.COUNT log {} => 0
        SEARCH.QUERY log {} => []
        XADD events 1-0 message again => 1-0
        SEARCH.COUNT log {} => 1
        ",
    );
    assert_eq!(found(&fixture), Vec::<String>::new());
}

#[test]
fn definitions_of_streams_are_checked() {
    let (_fixture, mut connection) = events();
    connection.check(
        "
        SEARCH.CREATE two ON STREAM events SCHEMA message TEXT => !ERR Stream events has an index already: log
        SEARCH.CREATE log EXISTSOK ON STREAM events SCHEMA message TEXT service KEYWORD severity U64 FAST => 0
        SEARCH.CREATE log EXISTSOK ON STREAM other SCHEMA message TEXT => !ERR Index log already exists with another definition
        SEARCH.CREATE two ON STREAM other PREFIX 1 o SCHEMA message TEXT => !ERR PREFIX is not supported for indexes on a stream
        SEARCH.CREATE two PREFIX 1 o ON STREAM other SCHEMA message TEXT => !ERR PREFIX is not supported for indexes on a stream
        SEARCH.CREATE two ON HASH SCHEMA message TEXT x TEXT => !ERR PREFIX is missing
        SEARCH.CREATE two SKIPINITIALSCAN ON STREAM other SCHEMA message TEXT => 1
        SEARCH.COUNT two {} => 0
        XADD other 2-0 message later => 2-0
        SEARCH.COUNT two {} => 1
        SEARCH.REINDEX two => 1
        SEARCH.COUNT two {} => 2
        SEARCH.DROP log => 1
        SEARCH.CREATE two2 ON STREAM events SCHEMA message TEXT => 1
        SEARCH.CREATE none ON STREAM nothing SCHEMA message TEXT => 1
        SEARCH.COUNT none {} => 0
        ",
    );
}

#[test]
fn a_user_searches_a_stream_that_it_may_read() {
    let (fixture, mut connection) = events();
    connection.check(
        "
        ACL SETUSER reader on nopass ~log ~events +@read => OK
        ACL SETUSER other on nopass ~log ~eventsX +@read => OK
        ",
    );
    let mut reader = fixture.connect();
    run(&mut reader, &["AUTH", "reader", "any"]);
    reader.check("SEARCH.COUNT log {} => 3");
    let mut other = fixture.connect();
    run(&mut other, &["AUTH", "other", "any"]);
    other.check("SEARCH.COUNT log {} => !NOPERM No permissions to access a key");
}

/// A long stream is filled some entries at a time; what is added and deleted meanwhile counts.
#[test]
fn long_streams_are_filled_in_the_background() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    for number in 1..=400 {
        run(&mut connection, &["XADD", "s", &format!("{number}-0"), "n", "word"]);
    }
    connection.check(
        "
        SEARCH.CREATE i ON STREAM s SCHEMA n TEXT => 1
        XADD s 401-0 n word => 401-0
        XDEL s 300-0 => 1
        ",
    );
    assert_eq!(found(&fixture), Vec::<String>::new());
    fixture.finish_work();
    connection.check(
        r#"
        SEARCH.WAITINDEXING i => 1
        SEARCH.COUNT i {"n":{"$eq":"words"}} => 400
        XTRIM s MAXLEN 300 => 100
        SEARCH.COUNT i {} => 300
        XTRIM s MAXLEN 1 => 299
        SEARCH.QUERY i {} NOCONTENT => [[401-0 1]]
        "#,
    );
    assert_eq!(found(&fixture), Vec::<String>::new());
}

/// Entries that go in great number while few stay are not taken out one by one.
#[test]
fn an_index_is_rebuilt_when_most_of_a_stream_is_trimmed() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check("SEARCH.CREATE i ON STREAM s SCHEMA n U64 FAST => 1");
    for number in 1..=1400 {
        let text = number.to_string();
        run(&mut connection, &["XADD", "s", &format!("{number}-0"), "n", &text]);
    }
    connection.check(
        r#"
        XTRIM s MAXLEN 100 => 1300
        SEARCH.COUNT i {} => 100
        SEARCH.COUNT i {"n":{"$gt":1390}} => 10
        "#,
    );
    assert_eq!(found(&fixture), Vec::<String>::new());
}
