//! Every kind of disagreement is planted, found and repaired; what commands write is never found.

use quartet_model::next_prefix;

use crate::testing::{Connection, Fixture, first, found, plant, show};

/// Large collections of every kind, expiring keys and fields, groups with pending entries, a
/// library.
fn start() -> (Fixture, Connection) {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    let mut run = |words: &[&str]| {
        let reply = show(&connection.run(words));
        assert!(!reply.starts_with('!'), "{words:?}: {reply}");
    };
    run(&["SET", "string", "value", "EX", "1000"]);
    run(&["HSET", "small hash", "a", "1", "b", "2"]);
    run(&["HEXPIRE", "small hash", "1000", "FIELDS", "1", "a"]);
    for number in 0..300 {
        let number = number.to_string();
        run(&["SADD", "set", &number]);
        run(&["ZADD", "sorted", &number, &number]);
        run(&["RPUSH", "list", &number]);
        run(&["HSET", "hash", &number, &number]);
        run(&["XADD", "stream", &format!("{number}-1"), "field", &number]);
    }
    run(&["HEXPIRE", "hash", "1000", "FIELDS", "2", "5", "7"]);
    run(&["XGROUP", "CREATE", "stream", "group", "0"]);
    run(&[
        "XREADGROUP",
        "GROUP",
        "group",
        "consumer",
        "COUNT",
        "5",
        "STREAMS",
        "stream",
        ">",
    ]);
    run(&[
        "FUNCTION",
        "LOAD",
        "#!lua name=library\nredis.register_function('one', function() return 1 end)",
    ]);
    run(&["JSON.SET", "json", "$", "{\"a\":[1,2]}"]);
    (fixture, connection)
}

/// The rows of a key's elements, and the key's own row.
struct Rows {
    own: Vec<u8>,
    value: Vec<u8>,
    prefix: Vec<u8>,
}

fn rows_of(fixture: &Fixture, key: &str) -> Rows {
    let own = crate::keyspace::key_row(0, key.as_bytes()).to_vec();
    let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
    let value = reader.get(&own).unwrap();
    let prefix = [b"E", &value[1..11]].concat();
    Rows { own, value, prefix }
}

/// Plants one disagreement, expects it to be found, and nothing once it is repaired.
fn check(expected: &[&str], change: impl FnOnce(&Fixture)) {
    let (fixture, _connection) = start();
    assert_eq!(found(&fixture), Vec::<String>::new());
    change(&fixture);
    assert_eq!(found(&fixture), expected);
    while let Some(repairable) = Some(fixture.findings().kept)
        .filter(|findings_kept| findings_kept.iter().any(|finding| !finding.repairs.is_empty()))
    {
        fixture.layer.engine.repair(&repairable).unwrap();
    }
    assert_eq!(found(&fixture), Vec::<String>::new());
}

#[test]
fn counts_of_collections() {
    for (key, kind) in [
        ("set", "elements"),
        ("hash", "elements"),
        ("sorted", "elements"),
        ("list", "elements"),
        ("stream", "entries"),
    ] {
        let expected = format!("key \"{key}\" of database 0 says that it has 301 {kind} and has 300");
        check(&[&expected], |fixture| {
            let Rows { own, mut value, .. } = rows_of(fixture, key);
            value[11..19].copy_from_slice(&301_u64.to_be_bytes());
            plant(fixture, |tx| drop(tx.set(&own, &value)));
        });
    }
}

#[test]
fn indexes_of_times() {
    check(
        &["key \"string\" of database 0 expires at 1700001000000, and the index of times does not know"],
        |fixture| {
            let row = first(fixture, b"T");
            plant(fixture, |tx| drop(tx.clear(&row)));
        },
    );
    check(
        &["the index of times has key \"nobody\" of database 0, which has no such time"],
        |fixture| {
            plant(fixture, |tx| drop(tx.set(b"T\0\0\0\0\0\0\0\x01\0nobody", b"")));
        },
    );
    check(
        &["key \"hash\" of database 0 has a field that expires at 1700001000000, and the index of times does not know"],
        |fixture| {
            let row = first(fixture, b"F");
            assert!(row.ends_with(b"hash"));
            plant(fixture, |tx| drop(tx.clear(&row)));
        },
    );
    check(
        &["the index of times of key \"hash\" of database 0 lacks \"5\""],
        |fixture| {
            let Rows { prefix, .. } = rows_of(fixture, "hash");
            let row = first(fixture, &[prefix.as_slice(), &[0; 8]].concat());
            plant(fixture, |tx| drop(tx.clear(&row)));
        },
    );
}

#[test]
fn the_order_of_sorted_sets() {
    check(&["the order of key \"sorted\" of database 0 lacks \"0\""], |fixture| {
        let Rows { prefix, .. } = rows_of(fixture, "sorted");
        let row = first(fixture, &[prefix.as_slice(), &[0; 8]].concat());
        plant(fixture, |tx| drop(tx.clear(&row)));
    });
    check(
        &["the order of key \"sorted\" of database 0 has a row that no element supports"],
        |fixture| {
            let Rows { prefix, .. } = rows_of(fixture, "sorted");
            let row = [prefix.as_slice(), &[0; 16], b"nobody"].concat();
            plant(fixture, |tx| drop(tx.set(&row, b"")));
        },
    );
}

#[test]
fn elements_without_a_key_and_keys_without_elements() {
    check(&["1 elements belong to no key"], |fixture| {
        plant(fixture, |tx| drop(tx.set(b"E0123456789element", b"")));
    });
    check(
        &["key \"set\" of database 0 says that it has 300 elements and has 0"],
        |fixture| {
            let Rows { prefix, .. } = rows_of(fixture, "set");
            plant(fixture, |tx| {
                assert_eq!(tx.clear_range(&prefix, &next_prefix(&prefix)), 300);
            });
        },
    );
    check(
        &["the row of key \"broken\" of database 0 is none that a version has written"],
        |fixture| {
            plant(fixture, |tx| {
                drop(tx.set(&crate::keyspace::key_row(0, b"broken"), &[0x0f, 1, 2]))
            });
        },
    );
}

#[test]
fn blocks_of_lists() {
    let expected = "the blocks of key \"list\" of database 0 do not follow each other";
    check(&[expected], |fixture| {
        let Rows { prefix, .. } = rows_of(fixture, "list");
        let row = first(fixture, &prefix);
        plant(fixture, |tx| drop(tx.clear(&row)));
    });
    check(&[expected], |fixture| {
        let Rows { prefix, .. } = rows_of(fixture, "list");
        let row = [prefix.as_slice(), b"none"].concat();
        plant(fixture, |tx| drop(tx.set(&row, b"\x01x")));
    });
    check(&[expected], |fixture| {
        let Rows { prefix, .. } = rows_of(fixture, "list");
        let row = first(fixture, &prefix);
        plant(fixture, |tx| drop(tx.set(&row, b"\x05cut")));
    });
    // Blocks after a removal are moved together, and so need no shift.
    check(&[expected], |fixture| {
        fixture.connect().check("LREM list 1 150 => 1");
        let Rows { prefix, .. } = rows_of(fixture, "list");
        let row = first(fixture, &prefix);
        plant(fixture, |tx| drop(tx.clear(&row)));
    });
    check(
        &["key \"list\" of database 0 says that it has 301 elements and has 299"],
        |fixture| {
            fixture.connect().check("LREM list 1 150 => 1");
            let Rows { own, mut value, .. } = rows_of(fixture, "list");
            value[11..19].copy_from_slice(&301_u64.to_be_bytes());
            plant(fixture, |tx| drop(tx.set(&own, &value)));
        },
    );
    check(
        &[
            "the row of key \"list\" of database 0 is none that a version has written",
            "8 elements belong to no key",
        ],
        |fixture| {
            let Rows { own, value, .. } = rows_of(fixture, "list");
            plant(fixture, |tx| drop(tx.set(&own, &value[..value.len() - 1])));
        },
    );
}

#[test]
fn groups_of_streams() {
    check(
        &["a pending entry of key \"stream\" of database 0 is not among its consumer's"],
        |fixture| {
            let Rows { prefix, .. } = rows_of(fixture, "stream");
            let row = first(fixture, &[prefix.as_slice(), b"o"].concat());
            plant(fixture, |tx| drop(tx.clear(&row)));
        },
    );
    check(
        &["a consumer of key \"stream\" of database 0 has an entry that is not pending"],
        |fixture| {
            let Rows { prefix, .. } = rows_of(fixture, "stream");
            let row = first(fixture, &[prefix.as_slice(), b"p"].concat());
            plant(fixture, |tx| drop(tx.clear(&row)));
        },
    );
    check(
        &["the number of consumer \"consumer\" of key \"stream\" of database 0 leads to another"],
        |fixture| {
            let Rows { prefix, .. } = rows_of(fixture, "stream");
            let row = first(fixture, &[prefix.as_slice(), b"d"].concat());
            plant(fixture, |tx| drop(tx.clear(&row)));
        },
    );
}

#[test]
fn functions_and_libraries() {
    check(&["function \"one\" of a library cannot be found"], |fixture| {
        plant(fixture, |tx| drop(tx.clear(b"Lfone")));
    });
    check(&["function \"two\" is in no library"], |fixture| {
        plant(fixture, |tx| drop(tx.set(b"Lftwo", b"")));
    });
}
