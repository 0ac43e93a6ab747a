//! The invariants of `quartet check`: each disagreement between rows is planted, found and
//! repaired.

use quartet_engine::Transaction;
use quartet_model::next_prefix;

use crate::world::World;

/// Rows of the root database of a kind.
fn rows(kind: u8) -> Vec<u8> {
    [&[1][..], &[0; 8], &[kind]].concat()
}

fn start() -> World {
    let world = World::new(1_700_000_000_000_000);
    for query in [
        r#"{"create_collection":{"object":{"name":"a","history_days":30}}}"#,
        r#"{"create_index":{"object":{"name":"by_v","source":{"collection":"a"},"terms":[{"object":{"field":["data","t"]}}],"values":[{"object":{"field":["data","v"],"reverse":true}},{"object":{"field":["ts"]}}]}}}"#,
        r#"{"create_index":{"object":{"name":"one","source":{"collection":"a"},"terms":[{"object":{"field":["data","v"]}}],"unique":true}}}"#,
        r#"{"create_key":{"object":{"role":"client"}}}"#,
    ] {
        world.resource("secret", query);
    }
    for number in 1..=9 {
        let made = format!(
            r#"{{"create":{{"ref":{{"collection":"a"}},"id":"{number}"}},"params":{{"object":{{"credentials":{{"object":{{"password":"x"}}}},"data":{{"object":{{"t":["x","y"],"v":{number}}}}}}}}}}}"#
        );
        world.resource("secret", &made);
    }
    world.resource(
        "secret",
        r#"{"update":{"ref":{"collection":"a"},"id":"3"},"params":{"object":{"data":{"object":{"v":33}}}}}"#,
    );
    world.resource("secret", r#"{"delete":{"ref":{"collection":"a"},"id":"4"}}"#);
    world
}

fn found(world: &World) -> Vec<String> {
    world.findings().into_iter().map(|finding| finding.what).collect()
}

fn first(world: &World, prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let reader = world.fauna.engine.reader(world.fauna.space).unwrap();
    let row = reader.nth(prefix, &next_prefix(prefix), 0).unwrap();
    (Transaction::layer_key(&row).to_vec(), row.value().to_vec())
}

fn plant(world: &World, change: impl Fn(&mut Transaction<'_>)) {
    let change = |transaction: &mut Transaction<'_>| -> Result<(), std::convert::Infallible> {
        change(transaction);
        Ok(())
    };
    world
        .fauna
        .engine
        .partition()
        .execute(world.fauna.space, change)
        .unwrap();
}

/// Expects what was planted to be found, and nothing once it is repaired, unless a person has to
/// decide.
fn check(expected: &str, is_repaired: bool, change: impl FnOnce(&World)) {
    let world = start();
    assert_eq!(found(&world), Vec::<String>::new());
    change(&world);
    let findings = world.findings();
    assert!(
        findings.iter().any(|finding| finding.what.contains(expected)),
        "{findings:?}"
    );
    world.fauna.engine.repair(&findings).unwrap();
    assert_eq!(found(&world).is_empty(), is_repaired, "{expected}: {:?}", found(&world));
}

#[test]
fn entries_and_documents_agree() {
    check("lacks document 3 of collection", true, |world| {
        let (entry, _) = first(world, &rows(b'E'));
        plant(world, |tx| drop(tx.clear(&entry)));
    });
    check("does not support", true, |world| {
        let (mut entry, value) = first(world, &rows(b'E'));
        let place = entry.len() - 9;
        entry[place] = 77;
        plant(world, |tx| drop(tx.set(&entry, &value)));
    });
    check("belong to no index", true, |world| {
        let stray = [rows(b'E'), 99_u64.to_be_bytes().to_vec(), b"entry".to_vec()].concat();
        plant(world, |tx| drop(tx.set(&stray, b"")));
    });
    // The entry of a document that does not exist is removed as well, so two living ones need a
    // document of their own.
    check("is unique, and document", true, |world| {
        let index_id = first(world, &[rows(b'N'), vec![2], b"one".to_vec()].concat()).1;
        let prefix = [rows(b'E'), index_id].concat();
        let (entry, value) = first(world, &prefix);
        let mut twin = entry.clone();
        let id = twin.len() - 9;
        twin[id] = if twin[id] == 8 { 7 } else { 8 };
        plant(world, |tx| drop(tx.set(&twin, &value)));
    });
}

#[test]
fn names_credentials_and_keys_lead_somewhere() {
    check("the name \"nobody\"", true, |world| {
        let name = [rows(b'N'), vec![1], b"nobody".to_vec()].concat();
        plant(world, |tx| drop(tx.set(&name, &[9; 8])));
    });
    check("has credentials that are not there", true, |world| {
        let (credentials, _) = first(world, &rows(b'C'));
        plant(world, |tx| drop(tx.set(&credentials, &[9; 8])));
    });
    check("key 651", true, |world| {
        let key = [&[0, b'K'][..], &651_u64.to_be_bytes()].concat();
        plant(world, |tx| drop(tx.set(&key, &[0; 48])));
    });
}

#[test]
fn histories_are_older_and_readable() {
    let history_prefix = |world: &World| {
        let collection = first(world, &[rows(b'N'), vec![1], b"a".to_vec()].concat()).1;
        [rows(b'H'), collection].concat()
    };
    check("is not older than the current one", false, |world| {
        let (mut version, value) = first(world, &history_prefix(world));
        let ts = version.len() - 8;
        version[ts] = 0x7f;
        plant(world, |tx| drop(tx.set(&version, &value)));
    });
    check("cannot be read", false, |world| {
        let (version, _) = first(world, &history_prefix(world));
        plant(world, |tx| drop(tx.set(&version, &[1, 0xff])));
    });
}
