//! Data of earlier versions is read by this one as what it means.
//!
//! Entries of indexes were in rows of other kinds and in another order, and none were there for
//! built-in collections. A layer that finds indexes without the row that says how entries are
//! written computes them anew before it answers.

use std::sync::Arc;

use quartet_engine::Transaction;
use quartet_layer_fauna::{Fauna, RootSecret};
use quartet_model::next_prefix;

use crate::world::World;

/// Rows of the root database of a kind.
fn rows(kind: u8) -> Vec<u8> {
    [&[1][..], &[0; 8], &[kind]].concat()
}

/// Makes the rows what an earlier version left: entries of other kinds, which say nothing of use
/// now, and no mark.
fn make_former(world: &World) {
    let former = |transaction: &mut Transaction<'_>| -> Result<(), std::convert::Infallible> {
        for kind in [b'E', b'L'] {
            transaction.clear_range(&rows(kind), &next_prefix(&rows(kind)));
        }
        transaction.clear(&[0, b'F']);
        for kind in [b'I', b'J'] {
            transaction.set(&[&rows(kind)[..], b"former"].concat(), b"former");
        }
        Ok(())
    };
    world
        .fauna
        .engine
        .partition()
        .execute(world.fauna.space, former)
        .unwrap();
}

fn opened_again(world: &World) -> World {
    let (engine, space) = (world.fauna.engine.clone(), world.fauna.space);
    let fauna = Fauna::new(engine, space, RootSecret::of("secret"), Box::new(|bytes| bytes.fill(9))).unwrap();
    World {
        fauna: Arc::new(fauna),
        clock: world.clock.clone(),
    }
}

fn has_rows(world: &World, kind: u8) -> bool {
    let reader = world.fauna.engine.reader(world.fauna.space).unwrap();
    let mut found = false;
    reader.scan(&rows(kind), &next_prefix(&rows(kind)), false, &mut |_, _| {
        found = true;
        std::ops::ControlFlow::Break(())
    });
    found
}

#[test]
fn indexes_of_an_earlier_version_are_computed_anew() {
    let world = World::new(1_700_000_000_000_000);
    for query in [
        r#"{"create_collection":{"object":{"name":"a"}}}"#,
        r#"{"create_index":{"object":{"name":"by_v","source":{"collection":"a"},"terms":[{"object":{"field":["data","t"]}}],"values":[{"object":{"field":["data","v"],"reverse":true}},{"object":{"field":["ref"]}}]}}}"#,
        r#"{"create_index":{"object":{"name":"keys","source":{"keys":null},"values":[{"object":{"field":["role"]}}]}}}"#,
        r#"{"create_key":{"object":{"role":"client"}}}"#,
        r#"{"foreach":{"lambda":"n","expr":{"create":{"ref":{"collection":"a"},"id":{"to_string":{"var":"n"}}},"params":{"object":{"data":{"object":{"t":1,"v":{"modulo":[{"var":"n"},7]}}}}}}},"collection":[1,2,3,4,5,6,7,8,9,10,11,12]}"#,
        r#"{"update":{"ref":{"collection":"a"},"id":"3"},"params":{"object":{"data":{"object":{"v":"new"}}}}}"#,
        r#"{"update":{"ref":{"collection":"a"},"id":"4"},"params":{"object":{"data":{"object":{"t":1.0}}}}}"#,
        r#"{"update":{"ref":{"collection":"a"},"id":"6"},"params":{"object":{"ttl":{"time":"2023-11-14T22:20:00Z"}}}}"#,
        r#"{"delete":{"ref":{"collection":"a"},"id":"5"}}"#,
    ] {
        let reply = world.ask("secret", query);
        assert!(reply.status < 300, "{query}: {}", reply.body);
    }
    let questions = [
        r#"{"paginate":{"match":{"index":"by_v"},"terms":1}}"#,
        r#"{"paginate":{"match":{"index":"by_v"},"terms":1.0}}"#,
        r#"{"paginate":{"match":{"index":"keys"}}}"#,
        r#"{"paginate":{"match":{"index":"by_v"},"terms":1},"ts":1700000000045000}"#,
        r#"{"paginate":{"match":{"index":"by_v"},"terms":1},"events":true}"#,
    ];
    let answers = |world: &World| questions.map(|question| world.ask("secret", question).body);
    let before = answers(&world);
    assert!(before[0].contains("new") && before[2].contains("client"), "{before:?}");

    make_former(&world);
    assert_ne!(answers(&world), before);
    let world = opened_again(&world);
    assert_eq!(answers(&world), before);
    assert!(!has_rows(&world, b'I') && !has_rows(&world, b'J') && has_rows(&world, b'E'));

    // The entries of a document that ends, end with it.
    world.clock.advance(600_000_000);
    let world = opened_again(&world);
    assert_eq!(
        world.resource("secret", r#"{"count":{"match":{"index":"by_v"},"terms":1}}"#),
        9
    );
}
