//! Streams: every change once, in order, and none after the right to see them is gone.

use std::sync::Arc;

use quartet_layer_fauna::{Request, Stream, StreamStep};
use serde_json::Value;

use crate::world::World;

fn open(world: &World, secret: &str, target: &str, fields: &str) -> Stream {
    let authorization = format!("Bearer {secret}");
    let request = Request {
        method: "POST",
        target: fields,
        headers: &[("authorization", &authorization), ("x-faunadb-api-version", "4")],
        body: target.as_bytes(),
    };
    match world.fauna.stream(request, Arc::new(|| {})) {
        Some(Ok((_, stream))) => stream,
        Some(Err(reply)) => panic!("{}", reply.body),
        None => panic!("no stream"),
    }
}

/// The kinds and actions of everything that is to be told now.
fn told(world: &World, stream: &mut Stream) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        match stream.step() {
            StreamStep::Send(event) => {
                let event: Value = serde_json::from_str(&event).unwrap();
                let action = event["event"]["action"]
                    .as_str()
                    .or(event["event"]["code"].as_str())
                    .unwrap_or("");
                told.push(format!("{} {action}", event["type"].as_str().unwrap()));
            }
            StreamStep::Wait(hold) => assert!(world.fauna.engine.wait_durable(hold)),
            StreamStep::Idle => return told,
            StreamStep::Busy => panic!("nothing keeps the partition"),
            StreamStep::End => {
                told.push("end".into());
                return told;
            }
        }
    }
}

const REF: &str = r#"{"ref":{"collection":"c"},"id":"1"}"#;

fn world() -> World {
    let world = World::new(1_700_000_000_000_000);
    world.resource("secret", r#"{"create_collection":{"object":{"name":"c"}}}"#);
    world.resource(
        "secret",
        r#"{"create_index":{"object":{"name":"by_x","source":{"collection":"c"},"terms":[{"object":{"field":["data","x"]}}]}}}"#,
    );
    world
}

fn put(world: &World, id: u64, x: u64) {
    let (target, data) = (
        format!(r#"{{"ref":{{"collection":"c"}},"id":"{id}"}}"#),
        format!(r#"{{"object":{{"data":{{"object":{{"x":{x}}}}}}}}}"#),
    );
    let query = format!(
        r#"{{"if":{{"exists":{target}}},"then":{{"update":{target},"params":{data}}},"else":{{"create":{target},"params":{data}}}}}"#
    );
    world.resource("secret", &query);
}

#[test]
fn a_document_is_followed_through_its_life() {
    let world = world();
    let mut stream = open(&world, "secret", REF, "/stream?fields=diff,prev,document,action,");
    assert_eq!(told(&world, &mut stream), ["start "]);
    put(&world, 1, 1);
    put(&world, 2, 9);
    put(&world, 1, 2);
    assert_eq!(told(&world, &mut stream), ["version create", "version update"]);
    world.resource("secret", &format!(r#"{{"delete":{REF}}}"#));
    assert_eq!(told(&world, &mut stream), ["version delete"]);
    assert!(told(&world, &mut stream).is_empty());
}

#[test]
fn sets_tell_who_comes_and_who_leaves() {
    let world = world();
    put(&world, 1, 1);
    let mut by_x = open(
        &world,
        "secret",
        r#"{"match":{"index":"by_x"},"terms":1}"#,
        "/stream?fields=action,index",
    );
    let mut all = open(&world, "secret", r#"{"documents":{"collection":"c"}}"#, "/stream");
    put(&world, 2, 1);
    put(&world, 1, 5);
    put(&world, 3, 5);
    assert_eq!(told(&world, &mut by_x), ["start ", "set add", "set remove"]);
    assert_eq!(told(&world, &mut all), ["start ", "set add", "set add"]);
}

#[test]
fn a_key_that_is_deleted_ends_its_streams() {
    let world = world();
    let key = world.resource("secret", r#"{"create_key":{"object":{"role":"server"}}}"#);
    let mut stream = open(&world, key["secret"].as_str().unwrap(), REF, "/stream");
    assert_eq!(told(&world, &mut stream), ["start "]);
    world.resource("secret", &format!(r#"{{"delete":{}}}"#, key["ref"]));
    put(&world, 1, 1);
    assert_eq!(told(&world, &mut stream), ["error permission denied", "end"]);
}
