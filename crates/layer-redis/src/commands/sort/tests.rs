//! SORT through a session, as scripts of commands and replies. Expected replies are those of Redis
//! 7.0.15.

use crate::testing::Fixture;

fn check(script: &str) {
    Fixture::new().connect().check(script);
}

#[test]
fn numbers_and_texts() {
    check(
        "SORT nosuch => []
         RPUSH l 2 10 1 3.5 -1 => 5
         SORT l => [-1 1 2 3.5 10]
         SORT l DESC => [10 3.5 2 1 -1]
         SORT l DESC ASC => [-1 1 2 3.5 10]
         SORT l ALPHA => [-1 1 10 2 3.5]
         SORT l alpha desc => [3.5 2 10 1 -1]
         SORT_RO l => [-1 1 2 3.5 10]
         RPUSH same 0 -0 0.0 0e5 => 4
         SORT same => [-0 0 0.0 0e5]
         SORT same DESC => [0e5 0.0 0 -0]
         RPUSH ends inf 0 -inf \"\" => 4
         SORT ends => [-inf  0 inf]
         SADD s 3 1 2 => 3
         SORT s => [1 2 3]
         ZADD z 1 3 2 1 3 2 => 3
         SORT z => [1 2 3]
         RPUSH words b a => 2
         SORT words => !ERR One or more scores can't be converted into double
         SORT words ALPHA => [a b]
         SET string 1 => OK
         SORT string => !WRONGTYPE Operation against a key holding the wrong kind of value
         HSET hash f v => 1
         SORT hash BY nosort => !WRONGTYPE Operation against a key holding the wrong kind of value",
    );
}

#[test]
fn by_another_key() {
    check(
        "RPUSH l a b c d => 4
         MSET w_a 3 w_b 1 w_d -1 => OK
         SORT l BY w_* => [d c b a]
         SORT l BY w_* DESC => [a b c d]
         SORT l BY w_* LIMIT 1 2 => [c b]
         SORT l BY w_* ALPHA => [c d b a]
         SORT l BY w_* ALPHA DESC => [a b d c]
         SORT l BY nothing_* => [a b c d]
         SORT l BY nothing_* DESC => [d c b a]
         SORT l BY nothing_* ALPHA DESC => [a b c d]
         HSET h_a w 2 => 1
         HSET h_b w 1 => 1
         SORT l BY h_*->w => [c d b a]
         SORT l BY h_* => [a b c d]
         SORT l BY w_*->w => [a b c d]
         SORT l BY h_*->nosuch DESC => [d c b a]
         SET w_c x => OK
         SORT l BY w_* => !ERR One or more scores can't be converted into double
         SORT l BY w_* STORE w_a => !ERR One or more scores can't be converted into double
         GET w_a => 3
         SORT l BY w_* ALPHA => [d b a c]
         SORT l BY w_* BY nosort => [a b c d]
         SORT l BY nosort BY w_* => [a b c d]
         RPUSH keys w_b w_a => 2
         SORT keys BY * GET * => [1 3]",
    );
}

#[test]
fn get_finds_values() {
    check(
        "RPUSH l 2 1 => 2
         MSET v_1 one x:1-> arrow fixed f => OK
         HSET h_2 f two => 1
         SORT l GET # => [1 2]
         SORT l GET v_* => [one nil]
         SORT l GET # GET v_* GET h_*->f => [1 one nil 2 nil two]
         SORT l GET fixed => [nil nil]
         SORT l GET h_* => [nil nil]
         SORT l BY nosort GET x:*-> => [nil arrow]
         SORT l GET # GET v_* STORE d => 4
         LRANGE d 0 -1 => [1 one 2 ]
         SORT l BY nosort GET # LIMIT 1 5 STORE l => 1
         LRANGE l 0 -1 => [1]",
    );
}

#[test]
fn limit() {
    check(
        "RPUSH l 3 1 2 => 3
         SORT l LIMIT 0 2 => [1 2]
         SORT l LIMIT 1 1 => [2]
         SORT l LIMIT 0 0 => []
         SORT l LIMIT 3 1 => []
         SORT l LIMIT 2 -1 => [3]
         SORT l LIMIT -10 2 => [1 2]
         SORT l LIMIT -9223372036854775808 9223372036854775807 => [1 2 3]
         SORT l LIMIT 9223372036854775807 9223372036854775807 => []
         SORT l LIMIT 2 9223372036854775807 => [3]
         SORT l LIMIT 1 -9223372036854775808 => [2 3]
         SORT_RO l BY nosort LIMIT 2 9223372036854775807 => [2]
         SORT l DESC LIMIT 0 1 => [3]
         SORT nosuch LIMIT 0 9223372036854775807 => []
         SORT l LIMIT 9223372036854775808 1 => !ERR value is not an integer or out of range
         SORT l LIMIT 0 x => !ERR value is not an integer or out of range
         SORT l LIMIT 0 1 LIMIT 1 2 => [2 3]",
    );
}

#[test]
fn native_order() {
    check(
        "RPUSH l 5 3 4 1 2 => 5
         SORT l BY nosort => [5 3 4 1 2]
         SORT l BY nosort DESC => [2 1 4 3 5]
         SORT l BY nosort DESC LIMIT 1 2 => [1 4]
         SORT l BY # ALPHA => [5 3 4 1 2]
         SORT l BY nosort LIMIT 0 3 STORE d => 3
         LRANGE d 0 -1 => [5 3 4]
         ZADD z 1 a 5 b 2 c 10 d 3 e => 5
         SORT z BY nosort => [a c e b d]
         SORT z BY nosort ASC LIMIT 0 2 => [a c]
         SORT z BY nosort DESC => [d b e c a]
         SORT z BY nosort DESC LIMIT 0 2 => [d b]
         SORT z BY nosort LIMIT 5 10 => []
         SORT z BY nosort LIMIT -10 100 => [a c e b d]
         SORT z BY nosort DESC STORE d => 5
         LRANGE d 0 -1 => [d b e c a]
         SADD s b aa c a => 4
         SORT s BY nosort STORE d => 4
         LRANGE d 0 -1 => [a aa b c]
         SORT s BY nosort DESC LIMIT 0 2 STORE d => 2
         LRANGE d 0 -1 => [c b]",
    );
}

#[test]
fn store_replaces_and_removes() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check(
        "RPUSH l 2 1 => 2
         SET d old PX 1000 => OK
         SORT l STORE other STORE d => 2
         LRANGE other 0 -1 => []",
    );
    fixture.advance_ms(2000);
    connection.check(
        "LRANGE d 0 -1 => [1 2]
         SORT l LIMIT 5 5 STORE d => 0
         GET d => nil
         SET d old => OK
         SORT nosuch STORE d => 0
         GET d => nil
         SORT l STORE l => 2
         LRANGE l 0 -1 => [1 2]
         SORT l GET nosuch STORE l => 2
         LRANGE l 0 -1 => [ ]",
    );
}

#[test]
fn malformed_requests() {
    check(
        "SORT => !ERR wrong number of arguments for 'sort' command
         SORT l BY => !ERR syntax error
         SORT l GET => !ERR syntax error
         SORT l LIMIT 1 => !ERR syntax error
         SORT l LIMIT x => !ERR syntax error
         SORT l STORE => !ERR syntax error
         SORT l UP => !ERR syntax error
         SET string 1 => OK
         SORT string UP => !ERR syntax error
         SORT_RO l STORE d => !ERR syntax error",
    );
}

#[test]
fn keys_of_a_request() {
    check(
        "COMMAND GETKEYS sort abc store def => [abc def]
         COMMAND GETKEYS sort abc => [abc]
         COMMAND GETKEYS sort abc store => [abc]
         COMMAND GETKEYS sort abc store invalid store stillbad store def => [abc def]
         COMMAND GETKEYS sort abc by store get store store x limit 1 store => [abc x]
         COMMAND GETKEYSANDFLAGS sort abc store def => [[abc [RO access]] [def [OW update]]]
         COMMAND GETKEYS sort_ro abc store def => [abc]",
    );
}

#[test]
fn acl_categories_are_those_of_the_sorted_type() {
    let categories = |name: &str| {
        let mut categories = crate::commands::table().find(name.as_bytes()).unwrap().categories();
        categories.sort_unstable();
        categories.join(" ")
    };
    assert_eq!(categories("sort"), "dangerous list set slow sortedset write");
    assert_eq!(categories("sort_ro"), "dangerous list read set slow sortedset");
}

/// A long element makes a name, and a pattern names a field, that no key and no hash can have.
#[test]
fn names_too_long_are_absent() {
    let mut connection = Fixture::new().connect();
    let long = "x".repeat(70_000);
    let field = format!("h_*->{long}");
    assert_eq!(
        connection.run(&["RPUSH", "l", &long]),
        quartet_wire_resp::Value::Integer(1)
    );
    connection
        .check("SORT l ALPHA GET w_* => [nil]\nSORT l BY w_* GET h_*->f => [nil]\nRPUSH m a => 1\nHSET h_a f v => 1");
    let reply = connection.run(&["SORT", "m", "BY", "nosort", "GET", &field]);
    assert_eq!(crate::testing::show(&reply), "[nil]");
}

/// Without an order only the wanted elements are read, from either end, in either form.
#[test]
fn without_an_order_limits_read_what_they_leave() {
    for count in [10_u32, 500] {
        let mut connection = Fixture::new().connect();
        for number in 0..count {
            let (member, score) = (format!("m{number:03}"), number.to_string());
            connection.run(&["RPUSH", "l", &member]);
            connection.run(&["ZADD", "z", &score, &member]);
            connection.run(&["SADD", "s", &member]);
        }
        let last = |from: u32| format!("m{:03}", count - from);
        for key in ["l", "z"] {
            connection.check(&format!(
                "SORT {key} BY nosort LIMIT 2 3 => [m002 m003 m004]
                 SORT {key} BY nosort LIMIT 0 0 => []
                 SORT {key} BY nosort DESC LIMIT 1 2 => [{} {}]
                 SORT {key} BY nosort LIMIT {} 9 GET # => [{} {}]
                 SORT {key} BY nosort DESC LIMIT 0 2 STORE d => 2
                 LRANGE d 0 -1 => [{} {}]
                 SORT {key} BY nosort LIMIT 1000 5 => []",
                last(2),
                last(3),
                count - 2,
                last(2),
                last(1),
                last(1),
                last(2),
            ));
        }
        let mut all = Vec::new();
        for from in (0..count).step_by(7) {
            let from = from.to_string();
            let part = connection.run(&["SORT", "s", "BY", "nosort", "LIMIT", &from, "7"]);
            let quartet_wire_resp::Value::Array(part) = part else {
                panic!("{part:?}")
            };
            all.extend(part.iter().map(crate::testing::show));
        }
        all.sort();
        assert_eq!(
            all,
            (0..count).map(|number| format!("m{number:03}")).collect::<Vec<_>>()
        );
    }
}
