//! Outdated rows are cleared in time, and none that can still be read.

use std::ops::ControlFlow;

use crate::world::World;

const MINUTE: u64 = 60_000_000;

fn sweep(world: &World) {
    // Every kind of row of every database, and the rests between.
    for _ in 0..20 {
        world.clock.advance(2 * MINUTE);
        for _ in 0..20 {
            world.fauna.sweep();
        }
    }
}

fn rows(world: &World) -> usize {
    let mut count = 0;
    world
        .fauna
        .engine
        .reader(world.fauna.space)
        .unwrap()
        .scan(&[0], &[0xff], false, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        });
    count
}

#[test]
fn old_versions_go_and_the_last_stays() {
    let world = World::new(1_700_000_000_000_000);
    world.resource("secret", r#"{"create_collection":{"object":{"name":"c"}}}"#);
    let index = r#"{"create_index":{"object":{"name":"i","source":{"collection":"c"},"terms":[{"object":{"field":["data","x"]}}],"values":[{"object":{"field":["data","x"]}}]}}}"#;
    world.resource("secret", index);
    let write = |how: &str, n: usize| {
        let query = format!(
            r#"{{"{how}":{{"ref":{{"collection":"c"}},"id":"1"}},"params":{{"object":{{"data":{{"object":{{"x":{n}}}}}}}}}}}"#
        );
        world.resource("secret", &query);
    };
    write("create", 0);
    let before = rows(&world);
    (1..30).for_each(|n| write("update", n));
    let history = r#"{"count":{"select":"data","from":{"paginate":{"events":{"ref":{"collection":"c"},"id":"1"}}}}}"#;
    assert_eq!(world.resource("secret", history), 30);
    world.fauna.sweep();
    assert_eq!(world.resource("secret", history), 30);
    sweep(&world);
    assert_eq!(world.resource("secret", history), 1);
    assert_eq!(rows(&world), before);
    let get = r#"{"select":["data","x"],"from":{"get":{"match":{"index":"i"},"terms":29}}}"#;
    assert_eq!(world.resource("secret", get), 29);
    world.resource("secret", r#"{"delete":{"ref":{"collection":"c"},"id":"1"}}"#);
    sweep(&world);
    assert_eq!(rows(&world), before - 2);
}

#[test]
fn expired_documents_go_with_their_entries() {
    let world = World::new(1_700_000_000_000_000);
    world.resource("secret", r#"{"create_collection":{"object":{"name":"c"}}}"#);
    let index = r#"{"create_index":{"object":{"name":"i","source":{"collection":"c"},"values":[{"object":{"field":["data","x"]}}]}}}"#;
    world.resource("secret", index);
    let before = rows(&world);
    let create = r#"{"create":{"collection":"c"},"params":{"object":{"data":{"object":{"x":1}},"ttl":{"time_add":{"now":null},"offset":1,"unit":"minute"}}}}"#;
    world.resource("secret", create);
    world.fauna.sweep();
    assert_eq!(rows(&world), before + 2);
    sweep(&world);
    assert_eq!(rows(&world), before);
}

const TOKEN: &str = r#"{"create":{"tokens":null},"params":{"object":{"instance":{"ref":{"collection":"c"},"id":"1"},"ttl":{"time_add":{"now":null},"offset":1,"unit":"minute"}}}}"#;

/// A world in which a document logs in.
fn with_somebody() -> World {
    let world = World::new(1_700_000_000_000_000);
    world.resource("secret", r#"{"create_collection":{"object":{"name":"c"}}}"#);
    let create = r#"{"create":{"ref":{"collection":"c"},"id":"1"},"params":{"object":{"credentials":{"object":{"password":"p"}}}}}"#;
    world.resource("secret", create);
    world
}

#[test]
fn expired_tokens_go_with_their_secrets() {
    let world = with_somebody();
    let before = rows(&world);
    let token = world.resource("secret", TOKEN)["secret"].as_str().unwrap().to_owned();
    assert_eq!(world.resource(&token, "1"), 1);
    assert!(rows(&world) > before);
    world.clock.advance(2 * MINUTE);
    assert_eq!(world.ask(&token, "1").status, 401);
    sweep(&world);
    assert_eq!(rows(&world), before);
}

const KEY: &str =
    r#"{"create_key":{"object":{"role":"server","ttl":{"time_add":{"now":null},"offset":1,"unit":"minute"}}}}"#;

#[test]
fn expired_keys_go_with_their_secrets() {
    let world = World::new(1_700_000_000_000_000);
    let before = rows(&world);
    let key = world.resource("secret", KEY)["secret"].as_str().unwrap().to_owned();
    assert_eq!(world.resource(&key, "1"), 1);
    assert!(rows(&world) > before);
    world.clock.advance(2 * MINUTE);
    assert_eq!(world.ask(&key, "1").status, 401);
    sweep(&world);
    assert_eq!(rows(&world), before);
}

#[test]
fn a_logged_out_session_has_no_identity() {
    let login = r#"{"login":{"ref":{"collection":"c"},"id":"1"},"params":{"object":{"password":"p"}}}"#;
    let world = with_somebody();
    let log_in = || world.resource("secret", login)["secret"].as_str().unwrap().to_owned();
    let (first, other, third) = (log_in(), log_in(), log_in());
    assert_eq!(world.resource(&first, r#"{"logout":false}"#), true);
    assert_eq!(world.ask(&first, r#"{"logout":false}"#).status, 401);
    assert_eq!(world.resource(&other, r#"{"do":[{"logout":true},1]}"#), 1);
    assert_eq!(world.ask(&other, r#"{"logout":true}"#).status, 401);
    assert_eq!(world.ask(&third, r#"{"logout":true}"#).status, 401);
}
