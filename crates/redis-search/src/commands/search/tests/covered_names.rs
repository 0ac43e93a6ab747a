//! Writes outside of all indexes are not noted; the next write takes every new or rolled-back
//! definition into account.

use quartet_layer_redis::module_api::What;

use crate::state::Search;
use crate::testing::{Connection, Fixture, search_fixture, show};

/// Returns true if a write of this key would be noted for indexes.
fn is_noted(fixture: &Fixture, name: &str) -> bool {
    fixture.layer.changes.take_unindexed();
    fixture.layer.changes.note(0, name.as_bytes(), What::Written);
    let is_noted = fixture.layer.changes.has_unindexed();
    fixture.layer.changes.take_unindexed();
    is_noted
}

/// A fixture with an index over `a:`, in which other names are not noted.
fn beside_another() -> (Fixture, Connection) {
    let fixture = search_fixture();
    let mut connection = fixture.connect();
    // The first write reads the definitions. Once it is committed, the next one trusts them.
    connection.check(
        "FT.CREATE other PREFIX 1 a: SCHEMA t TAG => OK
        HSET a:1 t x => 1
        DEL a:1 => 1
        HSET a:1 t x => 1",
    );
    assert!(is_noted(&fixture, "a:2") && !is_noted(&fixture, "b:1") && !is_noted(&fixture, ""));
    (fixture, connection)
}

const CREATE: &str = "FT.CREATE new PREFIX 1 b: SCHEMA t TAG";

/// After these requests, `new` finds `b:1` and `b:2`, of which the second is written now.
fn check(requests: &[&str]) {
    let (fixture, mut connection) = beside_another();
    for request in requests {
        let words: Vec<&str> = request.split_whitespace().collect();
        let reply = show(&connection.run(&words));
        assert!(!reply.contains('!'), "{request}: {reply}");
    }
    connection.check(
        "HSET b:2 t x => 1
        FT.SEARCH new @t:{x} NOCONTENT SORTBY t => [2 b:1 b:2]
        DEL a:1 => 1
        HSET a:1 t x => 1",
    );
    assert!(is_noted(&fixture, "a:2") && is_noted(&fixture, "b:3") && !is_noted(&fixture, "c:1"));
}

#[test]
fn a_new_definition_is_known_to_the_next_write() {
    check(&[CREATE, "HSET b:1 t x"]);
    check(&["HSET b:1 t x", CREATE]);
    check(&["MULTI", CREATE, "HSET b:1 t x", "EXEC"]);
    check(&["MULTI", "HSET b:1 t x", CREATE, "HSET a:2 t x", "EXEC", "DEL a:2"]);
    // Another index is created and dropped before, in one transaction and in several.
    check(&[CREATE, "FT.DROPINDEX new", "HSET b:1 t x", "HSET a:3 t x", CREATE]);
    check(&["MULTI", CREATE, "FT.DROPINDEX new", CREATE, "EXEC", "HSET b:1 t x"]);
    // The key is moved from another place.
    check(&[CREATE, "HSET c:1 t x", "RENAME c:1 b:1"]);
    check(&[CREATE, "HSET c:1 t x", "COPY c:1 b:1"]);
    check(&[CREATE, "SELECT 3", "HSET b:1 t x", "MOVE b:1 0", "SELECT 0"]);
}

#[test]
fn a_script_s_definition_is_known_to_its_next_write() {
    let (_fixture, mut connection) = beside_another();
    let script = "redis.call('HSET', 'b:1', 't', 'x') \
                  redis.call('FT.CREATE', 'new', 'PREFIX', '1', 'b:', 'SCHEMA', 't', 'TAG') \
                  redis.call('HSET', 'b:2', 't', 'x') \
                  redis.call('HSET', 'a:2', 't', 'x') \
                  redis.call('HSET', 'b:3', 't', 'x') \
                  return redis.call('FT.SEARCH', 'new', '@t:{x}', 'LIMIT', '0', '0')";
    assert_eq!(show(&connection.run(&["EVAL", script, "0"])), "[3]");
    connection.check(
        "HSET b:4 t x => 1
        FT.SEARCH new @t:{x} LIMIT 0 0 => [4]",
    );
}

#[test]
fn definitions_removed_with_all_keys_can_be_made_again() {
    for flush in ["FLUSHALL", "FLUSHDB"] {
        let (_fixture, mut connection) = beside_another();
        connection.run(&[flush]);
        // Nothing is noted while there is no index.
        connection.run(&["HSET", "b:1", "t", "x"]);
        connection.run(&CREATE.split_whitespace().collect::<Vec<_>>());
        connection.check(
            "HSET b:2 t x => 1
            FT.SEARCH new @t:{x} LIMIT 0 0 => [2]",
        );
    }
}

/// A rolled-back transaction may have dropped an index: other writes have been noted meanwhile, or
/// not.
#[test]
fn a_drop_that_is_rolled_back_keeps_the_index() {
    let (fixture, mut connection) = beside_another();
    connection.check(
        "FT.CREATE new PREFIX 1 b: SCHEMA t TAG => OK
        HSET b:1 t x => 1",
    );
    let layer = &fixture.layer;
    let mut partition = layer.engine.partition();
    let now_ms = partition.now_micros() / 1000;
    let taken_back = partition.execute(layer.space, |tx| -> Result<(), ()> {
        let catalogue = Search::of(layer).indexes.catalogue(tx);
        catalogue.named(b"new").unwrap().clear(tx, &catalogue);
        layer.keyspace(tx, 0, now_ms).remove(b"a:1");
        layer.follow_changes(tx, now_ms);
        assert!(Search::of(layer).indexes.catalogue(tx).named(b"new").is_none());
        Err(())
    });
    assert!(taken_back.is_err());
    layer.changes.take();
    layer.roll_modules_back();
    drop(partition);
    assert!(is_noted(&fixture, "b:2") && is_noted(&fixture, "c:1"));
    connection.check(
        "HSET b:2 t x => 1
        FT.SEARCH new @t:{x} LIMIT 0 0 => [2]
        FT.SEARCH other @t:{x} LIMIT 0 0 => [1]
        HSET b:3 t x => 1",
    );
    assert!(!is_noted(&fixture, "c:1"));
}

/// An index that is a key itself goes with it, though no index covers its name.
#[test]
fn the_names_of_indexes_that_are_keys_are_noted() {
    let (fixture, mut connection) = beside_another();
    connection.check(
        "SEARCH.CREATE items ON STRING PREFIX 1 s: SCHEMA v TEXT => 1
        SET s:1 word => OK
        HSET a:2 t x => 1",
    );
    assert!(is_noted(&fixture, "items") && is_noted(&fixture, "s:2") && !is_noted(&fixture, "c:1"));
    connection.check(
        "DEL items => 1
        SEARCH.LISTINDEXES => []
        HSET a:3 t x => 1
        HSET a:4 t x => 1",
    );
    assert!(!is_noted(&fixture, "items") && !is_noted(&fixture, "s:2"));
}
