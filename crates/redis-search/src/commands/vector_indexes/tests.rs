//! Replies and errors, indexes that are created and removed in every possible way, and each metric
//! compared with an exhaustive search.

use quartet_wire_resp::Value;

use crate::testing::{Connection, dumped, restore, search_fixture, show};

fn check(script: &str) {
    search_fixture().connect().check(script);
}

#[test]
fn vectors_are_added_found_and_removed() {
    check(
        "VECTOR.CREATE v DIM 3 METRIC COSINE => 1
         VECTOR.INFO v => [dimension 3 metric COSINE]
         VECTOR.COUNT v => 0
         VECTOR.QUERY v TOPK 5 VALUES 3 1 0 0 => []
         VECTOR.ADD v a VALUES 3 1 0 0 => 1
         VECTOR.ADD v b VALUES 3 0 2 0 => 1
         VECTOR.ADD v c VALUES 3 -0.5 0 0 => 1
         VECTOR.ADD v c VALUES 3 -3 0 0 => 0
         VECTOR.COUNT v => 3
         VECTOR.GET v c => [-3 0 0]
         VECTOR.GET v none => nil
         VECTOR.QUERY v TOPK 5 VALUES 3 2 0 0 => [[a 1] [b 0.5] [c 0]]
         VECTOR.QUERY v TOPK 1 PROFILE FAST VALUES 3 2 0 0 => [[a 1]]
         VECTOR.QUERY v TOPK 1 VALUES 3 2 0 0 PROFILE precise => [[a 1]]
         VECTOR.QUERY v VALUES 3 2 0 0 TOPK 2 => [[a 1] [b 0.5]]
         VECTOR.QUERY v TOPK 1 BASE64-FP32 AACAPwAAAAAAAAAA => [[a 1]]
         VECTOR.ADD v d BASE64-FP32 AACAPwAAAAAAAIA/ => 1
         VECTOR.GET v d => [1 0 1]
         VECTOR.DEL v b => 1
         VECTOR.DEL v b => 0
         VECTOR.QUERY v TOPK 2 VALUES 3 1 0 0 => [[a 1] [d 0.8535534]]
         VECTOR.DROP v => 1
         VECTOR.DROP v => 0
         EXISTS v => 0",
    );
}

/// Floats are returned as they were stored, and RESP3 has maps and doubles.
#[test]
fn both_protocols_say_the_same() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "VECTOR.CREATE v DIM 2 METRIC EUCLIDEAN => 1
         VECTOR.ADD v a VALUES 2 0.1 -7 => 1
         VECTOR.GET v a => [0.10000000149011612 -7]
         VECTOR.QUERY v TOPK 1 VALUES 2 0.1 -8 => [[a 0.5]]",
    );
    connection.run(&["HELLO", "3"]);
    assert_eq!(
        connection.run(&["VECTOR.GET", "v", "a"]),
        Value::Array(vec![Value::Double(0.100_000_001_490_116_12), Value::Double(-7.0)])
    );
    assert_eq!(
        connection.run(&["VECTOR.QUERY", "v", "TOPK", "1", "VALUES", "2", "0.1", "-8"]),
        Value::Array(vec![Value::Array(vec![Value::Bulk(b"a".to_vec()), Value::Double(0.5)])])
    );
    assert!(matches!(connection.run(&["VECTOR.INFO", "v"]), Value::Map(_)));
}

#[test]
fn scores_of_each_metric_grow_with_nearness() {
    check(
        "VECTOR.CREATE e DIM 2 METRIC EUCLIDEAN => 1
         VECTOR.ADD e near VALUES 2 3 4 => 1
         VECTOR.ADD e far VALUES 2 6 8 => 1
         VECTOR.QUERY e TOPK 2 VALUES 2 3 5 => [[near 0.5] [far 0.05263158]]
         VECTOR.CREATE d DIM 2 METRIC dot => 1
         VECTOR.ADD d less VALUES 2 0.25 0 => 1
         VECTOR.ADD d more VALUES 2 0.5 0 => 1
         VECTOR.ADD d much VALUES 2 9 0 => 1
         VECTOR.ADD d against VALUES 2 -9 0 => 1
         VECTOR.QUERY d TOPK 4 VALUES 2 1 0 => [[much 1] [more 0.75] [less 0.625] [against 0]]
         VECTOR.CREATE c DIM 2 METRIC COSINE => 1
         VECTOR.ADD c none VALUES 2 0 0 => 1
         VECTOR.QUERY c TOPK 1 VALUES 2 1 0 => [[none 0.5]]",
    );
}

#[test]
fn impossible_requests_are_refused() {
    check(
        "SET s 1 => OK
         VECTOR.CREATE v DIM 2 METRIC COSINE => 1
         VECTOR.CREATE v DIM 2 METRIC COSINE => !ERR Index v already exists
         VECTOR.CREATE v DIM 2 METRIC COSINE EXISTSOK => 0
         VECTOR.CREATE v DIM 3 METRIC COSINE EXISTSOK => !ERR Index v already exists with another dimension or metric
         VECTOR.CREATE v DIM 2 METRIC DOT EXISTSOK => !ERR Index v already exists with another dimension or metric
         VECTOR.CREATE s DIM 2 METRIC DOT => !WRONGTYPE Operation against a key holding the wrong kind of value
         VECTOR.CREATE w DIM 0 METRIC DOT => !ERR DIM takes a number from 1 to 32768
         VECTOR.CREATE w DIM 32769 METRIC DOT => !ERR DIM takes a number from 1 to 32768
         VECTOR.CREATE w DIM 2 METRIC MANHATTAN => !ERR METRIC takes COSINE, EUCLIDEAN or DOT
         VECTOR.CREATE w DIM 2 EXISTSOK DIM 2 => !ERR syntax error
         VECTOR.CREATE w DIM 2 METRIC DOT MODEL => !ERR syntax error
         VECTOR.ADD v a VALUES 3 1 2 3 => !ERR The vector has 3 elements, and those of the index have 2
         VECTOR.ADD v a VALUES 2 1 nan => !ERR A vector is given as VALUES with a count and as many numbers, as FP32 with a blob, or as BASE64-FP32
         VECTOR.ADD v a VALUES 2 1 => !ERR A vector is given as VALUES with a count and as many numbers, as FP32 with a blob, or as BASE64-FP32
         VECTOR.ADD v a VALUES 2 1e30 1 => !ERR A vector is given as VALUES with a count and as many numbers, as FP32 with a blob, or as BASE64-FP32
         VECTOR.ADD v a BASE64-FP32 AAC => !ERR A vector is given as VALUES with a count and as many numbers, as FP32 with a blob, or as BASE64-FP32
         VECTOR.ADD v a FP32 abcde => !ERR A vector is given as VALUES with a count and as many numbers, as FP32 with a blob, or as BASE64-FP32
         VECTOR.ADD v a VALUES 2 1 2 3 => !ERR syntax error
         VECTOR.ADD v a TEXT words => !ERR This server has no embedding model: give the vector as VALUES, FP32 or BASE64-FP32
         VECTOR.ADD w a VALUES 2 1 2 => !ERR Index w is not found
         VECTOR.ADD s a VALUES 2 1 2 => !WRONGTYPE Operation against a key holding the wrong kind of value
         VECTOR.GET w a => !ERR Index w is not found
         VECTOR.DEL w a => !ERR Index w is not found
         VECTOR.COUNT w => 0
         VECTOR.COUNT s => !WRONGTYPE Operation against a key holding the wrong kind of value
         VECTOR.INFO w => nil
         VECTOR.DROP s => !WRONGTYPE Operation against a key holding the wrong kind of value
         VECTOR.QUERY w TOPK 1 VALUES 2 1 2 => !ERR Index w is not found
         VECTOR.QUERY v TOPK 0 VALUES 2 1 2 => !ERR TOPK takes a number from 1 to 1000
         VECTOR.QUERY v TOPK 1001 VALUES 2 1 2 => !ERR TOPK takes a number from 1 to 1000
         VECTOR.QUERY v TOPK 1 PROFILE SLOW VALUES 2 1 2 => !ERR PROFILE takes FAST, BALANCED or PRECISE
         VECTOR.QUERY v PROFILE FAST VALUES 2 1 2 => !ERR TOPK is missing
         VECTOR.QUERY v TOPK 1 TEXT words => !ERR This server has no embedding model: give the vector as VALUES, FP32 or BASE64-FP32
         VCARD v => !WRONGTYPE Operation against a key holding the wrong kind of value
         VADD v VALUES 2 1 2 a => !WRONGTYPE Operation against a key holding the wrong kind of value",
    );
    let mut connection = search_fixture().connect();
    connection.check("VECTOR.CREATE v DIM 1 METRIC DOT => 1");
    let empty = connection.run(&["VECTOR.ADD", "v", "", "VALUES", "1", "1"]);
    assert_eq!(show(&empty), "!ERR An ID cannot be empty");
    let long = "x".repeat(65_001);
    let long = connection.run(&["VECTOR.ADD", "v", &long, "VALUES", "1", "1"]);
    assert_eq!(show(&long), "!ERR An ID has at most 65000 bytes");
}

#[test]
fn indexes_are_keys_like_others() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "VECTOR.CREATE v DIM 2 METRIC EUCLIDEAN => 1
         VECTOR.ADD v a VALUES 2 1 0 => 1
         VECTOR.ADD v b VALUES 2 0 1 => 1
         TYPE v => vector
         SCAN 0 TYPE vector => [0 [v]]
         SCAN 0 TYPE vectorset => [0 []]
         OBJECT ENCODING v => raw
         COPY v w => 1
         VECTOR.DEL v a => 1
         VECTOR.COUNT v => 1
         VECTOR.QUERY w TOPK 1 VALUES 2 1 0 => [[a 1]]
         RENAME w x => OK
         VECTOR.ADD x c VALUES 2 1 1 => 1
         EXPIRE x 100 => 1
         VECTOR.ADD x d VALUES 2 2 2 => 1
         TTL x => 100
         SORT x => !WRONGTYPE Operation against a key holding the wrong kind of value
         VECTOR.DEL v b => 1
         EXISTS v => 1
         VECTOR.QUERY v TOPK 1 VALUES 2 1 0 => []
         VECTOR.ADD v again VALUES 2 5 5 => 1
         VECTOR.QUERY v TOPK 1 VALUES 2 1 0 => [[again 0.023809524]]
         SET v 1 => OK
         VECTOR.COUNT v => !WRONGTYPE Operation against a key holding the wrong kind of value
         UNLINK x => 1
         MULTI => OK
         VECTOR.CREATE m DIM 1 METRIC DOT => QUEUED
         VECTOR.ADD m a VALUES 1 1 => QUEUED
         VECTOR.QUERY m TOPK 1 VALUES 1 1 => QUEUED
         EXEC => [1 1 [[a 1]]]
         WATCH m => OK
         VECTOR.ADD m b VALUES 1 2 => 1
         MULTI => OK
         VECTOR.COUNT m => QUEUED
         EXEC => nil
         PEXPIRE m 50 => 1",
    );
    fixture.advance_ms(51);
    connection.check(
        "VECTOR.COUNT m => 0
         VECTOR.ADD m b VALUES 1 2 => !ERR Index m is not found",
    );
    let script = "redis.call('VECTOR.CREATE', KEYS[1], 'DIM', 1, 'METRIC', 'DOT') \
                  redis.call('VECTOR.ADD', KEYS[1], 'a', 'VALUES', 1, 1) \
                  return redis.call('VECTOR.QUERY', KEYS[1], 'TOPK', 1, 'VALUES', 1, 1)";
    assert_eq!(show(&connection.run(&["EVAL", script, "1", "s"])), "[[a 1]]");
    for at in 0..100 {
        let (id, x) = (format!("id:{at}"), at.to_string());
        connection.run(&["VECTOR.ADD", "s", &id, "VALUES", "1", &x]);
    }
    let Value::Integer(bytes) = connection.run(&["MEMORY", "USAGE", "s"]) else {
        panic!("no number");
    };
    assert!((10_000..100_000).contains(&bytes), "{bytes}");
}

#[test]
fn an_index_is_dumped_and_restored() {
    let mut connection = search_fixture().connect();
    connection.check(
        "VECTOR.CREATE empty DIM 7 METRIC DOT => 1
         VECTOR.CREATE v DIM 2 METRIC COSINE => 1
         VECTOR.ADD v a VALUES 2 1 0 => 1
         VECTOR.ADD v b VALUES 2 0 3 => 1
         VADD set VALUES 2 1 2 a NOQUANT => 1",
    );
    for name in ["empty", "v"] {
        let payload = dumped(&mut connection, name);
        assert_eq!(restore(&mut connection, &format!("{name}:2"), &payload), "OK");
        assert_eq!(dumped(&mut connection, &format!("{name}:2")), payload);
    }
    connection.check(
        "VECTOR.INFO empty:2 => [dimension 7 metric DOT]
         VECTOR.QUERY v:2 TOPK 2 VALUES 2 0 1 => [[b 1] [a 0.5]]
         VECTOR.GET v:2 b => [0 3]
         VECTOR.ADD v:2 c VALUES 2 1 1 => 1
         TYPE v:2 => vector
         DEL v:2 => 1",
    );
    let payload = dumped(&mut connection, "v");
    let body = &payload[..payload.len() - 10];
    for at in 0..body.len() {
        for bit in [1, 8, 0x40] {
            let mut damaged = body.to_vec();
            damaged[at] ^= bit;
            if restore(&mut connection, "w", &quartet_wire_rdb::seal(damaged)) == "OK" {
                connection.run(&["VECTOR.QUERY", "w", "TOPK", "9", "VALUES", "2", "1", "1"]);
                connection.run(&["VECTOR.ADD", "w", "x", "VALUES", "2", "1", "1"]);
                connection.run(&["DEL", "w"]);
            }
        }
    }
    // The rows of one kind are never taken for the other's.
    let set = dumped(&mut connection, "set");
    let module_bytes = 2..10;
    let mut as_index = set[..set.len() - 10].to_vec();
    as_index[module_bytes.clone()].copy_from_slice(&payload[module_bytes]);
    let reply = restore(&mut connection, "w", &quartet_wire_rdb::seal(as_index));
    assert_eq!(reply, "!ERR Bad data format");
}

#[test]
fn each_metric_finds_what_a_look_at_all_finds() {
    const DIMENSIONS: usize = 12;
    let mut state = 5_u64;
    let mut component = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut vector = || (0..DIMENSIONS).map(|_| component()).collect::<Vec<f32>>();
    let vectors: Vec<Vec<f32>> = (0..400).map(|_| vector()).collect();
    let queries: Vec<Vec<f32>> = (0..20).map(|_| vector()).collect();
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let nearness = |metric: &str, a: &[f32], b: &[f32]| match metric {
        "COSINE" => product(a, b) / (product(a, a) * product(b, b)).sqrt(),
        "EUCLIDEAN" => -a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>(),
        _ => product(a, b),
    };
    for metric in ["COSINE", "EUCLIDEAN", "DOT"] {
        let mut connection = search_fixture().connect();
        connection.run(&["VECTOR.CREATE", "v", "DIM", "12", "METRIC", metric]);
        let run = |connection: &mut Connection, words: &[&str], vector: &[f32]| {
            let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
            let numbers = numbers.iter().map(String::as_str);
            let words: Vec<&str> = words.iter().copied().chain(["VALUES", "12"]).chain(numbers).collect();
            connection.run(&words)
        };
        for (at, vector) in vectors.iter().enumerate() {
            run(&mut connection, &["VECTOR.ADD", "v", &at.to_string()], vector);
        }
        let mut right = 0;
        for query in &queries {
            let mut order: Vec<usize> = (0..vectors.len()).collect();
            order.sort_by(|a, b| {
                let of = |at: &usize| nearness(metric, &vectors[*at], query);
                of(b).total_cmp(&of(a))
            });
            let Value::Array(hits) = run(&mut connection, &["VECTOR.QUERY", "v", "TOPK", "10"], query) else {
                panic!("no array");
            };
            let shown_hits: Vec<String> = hits.iter().map(show).collect();
            let is_found = |at: &&usize| shown_hits.iter().any(|hit| hit.starts_with(&format!("[{at} ")));
            right += order[..10].iter().filter(is_found).count();
        }
        assert!(right >= 190, "{metric}: {right} of 200");
    }
}

#[test]
fn rights_are_those_of_a_key() {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    connection.check(
        "VECTOR.CREATE v DIM 1 METRIC DOT => 1
         ACL SETUSER reader on >r ~v +@read => OK
         AUTH reader r => OK
         VECTOR.QUERY v TOPK 1 VALUES 1 1 => []
         VECTOR.INFO v => [dimension 1 metric DOT]
         VECTOR.COUNT w => !NOPERM this user has no permissions to access one of the keys used as arguments
         VECTOR.ADD v a VALUES 1 1 => !NOPERM this user has no permissions to run the 'vector.add' command",
    );
}
