//! Streams: every change once, in order, and none after the right to see them was revoked.

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
        Some(Ok((reply, stream))) => {
            let id = reply.headers.iter().find(|(name, _)| *name == "x-fauna-stream-id");
            assert!(id.is_some_and(|(_, id)| id.parse::<u64>().is_ok()));
            stream
        }
        Some(Err(reply)) => panic!("{}", reply.body),
        None => panic!("no stream"),
    }
}

/// The reply to a stream that may not be.
fn refused(target: &str, body: &str) -> (u16, String) {
    let world = world();
    let request = Request {
        method: "POST",
        target,
        headers: &[("authorization", "Bearer secret"), ("x-faunadb-api-version", "4")],
        body: body.as_bytes(),
    };
    match world.fauna.stream(request, Arc::new(|| {})) {
        Some(Err(reply)) => (reply.status, reply.body.to_string()),
        _ => panic!("not refused"),
    }
}

/// The suites of the drivers for Go and Python compare these words.
#[test]
fn a_stream_that_would_write_is_refused_in_the_words_of_the_drivers() {
    let body = r#"{"errors":[{"position":[],"code":"invalid expression","description":"Write effect in read-only query expression."}]}"#;
    let create = r#"{"create_collection":{"object":{"name":"d"}}}"#;
    assert_eq!(refused("/stream", create), (400, body.to_owned()));
}

#[test]
fn built_in_collections_and_unknown_fields_are_refused() {
    let body = r#"{"errors":[{"position":[],"code":"invalid argument","description":"Expected a Document Ref or Version, or a Set Ref, got Collection Ref."}]}"#;
    assert_eq!(refused("/stream", r#"{"keys":null}"#), (400, body.to_owned()));
    let body = r#"{"errors":[{"position":[],"code":"invalid url parameter","description":"Invalid url parameter fields. Invalid field name 'x'."}]}"#;
    assert_eq!(refused("/stream?fields=x", REF), (400, body.to_owned()));
}

/// Returns the kinds and actions of all events that are due now.
fn told(world: &World, stream: &mut Stream) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        match stream.step() {
            StreamStep::Send(event) => {
                let event: Value = serde_json::from_str(&event).unwrap();
                let action = event["event"]["action"]
                    .as_str()
                    .or(event["event"]["code"].as_str())
                    .unwrap_or("");
                lines.push(format!("{} {action}", event["type"].as_str().unwrap()));
            }
            StreamStep::Wait(dependency) => assert!(world.fauna.engine.wait_durable(dependency)),
            StreamStep::Idle => return lines,
            StreamStep::Busy => panic!("nothing keeps the partition"),
            StreamStep::End => {
                lines.push("end".into());
                return lines;
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
fn sets_report_added_and_removed_members() {
    let world = world();
    put(&world, 1, 1);
    let mut x_stream = open(
        &world,
        "secret",
        r#"{"match":{"index":"by_x"},"terms":1}"#,
        "/stream?fields=action,index",
    );
    let mut all = open(&world, "secret", r#"{"documents":{"collection":"c"}}"#, "/stream");
    put(&world, 2, 1);
    put(&world, 1, 5);
    put(&world, 3, 5);
    assert_eq!(told(&world, &mut x_stream), ["start ", "set add", "set remove"]);
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

/// Returns the events that are due now, whole.
fn events(stream: &mut Stream) -> Vec<Value> {
    let mut events = Vec::new();
    while let StreamStep::Send(event) = stream.step() {
        events.push(serde_json::from_str(&event).unwrap());
    }
    events
}

/// `prev` held only the changes; it is the whole document as it was before.
#[test]
fn prev_is_the_whole_document_before() {
    let world = world();
    let data = r#"{"object":{"data":{"object":{"x":1,"kept":2}}}}"#;
    world.resource("secret", &format!(r#"{{"create":{REF},"params":{data}}}"#));
    let mut stream = open(&world, "secret", REF, "/stream?fields=prev,diff");
    events(&mut stream);
    put(&world, 1, 5);
    let reported = events(&mut stream);
    let event = &reported[0]["event"];
    assert_eq!(event["prev"]["data"], serde_json::json!({"x": 1, "kept": 2}));
    assert_eq!(event["diff"]["data"], serde_json::json!({"x": 5}));
    assert!(event["prev"]["ts"].as_u64() < event["diff"]["ts"].as_u64());
}

/// A rewritten history is sent once it is rewritten: the inserted or removed version, and the
/// version with a new predecessor.
#[test]
fn rewritten_history_is_reported() {
    let world = world();
    put(&world, 1, 1);
    let mut stream = open(&world, "secret", REF, "/stream");
    events(&mut stream);
    let ts = 1_700_000_000_000_000u64;
    let insert = format!(
        r#"{{"insert":{REF},"ts":{ts},"action":"create","params":{{"object":{{"data":{{"object":{{"x":0}}}}}}}}}}"#
    );
    world.resource("secret", &insert);
    let summaries = |events: Vec<Value>| -> Vec<(String, String, Value, bool)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let event_parts = |event: Value| {
            let document = &event["event"]["document"];
            let is_rewritten = document["ts"].as_u64() == Some(ts);
            (
                text(&event["type"]),
                text(&event["event"]["action"]),
                document["data"]["x"].clone(),
                is_rewritten,
            )
        };
        events.into_iter().map(event_parts).collect()
    };
    let rewrite =
        |action: &str, x: Value, is_rewritten| ("history_rewrite".to_owned(), action.to_owned(), x, is_rewritten);
    assert_eq!(
        summaries(events(&mut stream)),
        [rewrite("update", 1.into(), false), rewrite("create", 0.into(), true)]
    );
    world.resource("secret", &format!(r#"{{"remove":{REF},"ts":{ts},"action":"create"}}"#));
    assert_eq!(
        summaries(events(&mut stream)),
        [rewrite("create", Value::Null, true), rewrite("create", 1.into(), false)]
    );
    // An event that did not happen is not sent, and later events are sent as ever.
    world.resource("secret", &format!(r#"{{"remove":{REF},"ts":{ts},"action":"create"}}"#));
    put(&world, 1, 2);
    assert_eq!(told(&world, &mut stream), ["version update"]);
}

/// Visibility is checked event by event, by the document as of the event.
#[test]
fn events_are_filtered_by_what_may_be_read() {
    let world = world();
    let key = |privileges: &str, name: &str| {
        world.resource(
            "secret",
            &format!(r#"{{"create_role":{{"object":{{"name":"{name}","privileges":[{privileges}]}}}}}}"#),
        );
        let key = world.resource(
            "secret",
            &format!(r#"{{"create_key":{{"object":{{"role":{{"role":"{name}"}}}}}}}}"#),
        );
        key["secret"].as_str().unwrap().to_owned()
    };
    let even = r#"{"object":{"resource":{"collection":"c"},"actions":{"object":{"read":{"query":{"lambda":"r","expr":{"equals":[0,{"modulo":[{"select":["data","x"],"from":{"get":{"var":"r"}}},2]}]}}}}}}}"#;
    let readers = key(even, "readers");
    let listers = key(
        r#"{"object":{"resource":{"collection":"c"},"actions":{"object":{"unrestricted_read":true}}}}"#,
        "listers",
    );
    let nobody = key("", "nobody");
    let set = r#"{"documents":{"collection":"c"}}"#;
    let mut document_stream = open(&world, &readers, REF, "/stream");
    let mut set_stream = open(&world, &readers, set, "/stream");
    let mut all_stream = open(&world, &listers, set, "/stream");
    let mut empty_stream = open(&world, &nobody, set, "/stream");
    for (id, x) in [(1, 1), (1, 2), (1, 3), (2, 4), (3, 5)] {
        put(&world, id, x);
    }
    assert_eq!(told(&world, &mut document_stream), ["start ", "version update"]);
    assert_eq!(told(&world, &mut set_stream), ["start ", "set add"]);
    assert_eq!(
        told(&world, &mut all_stream),
        ["start ", "set add", "set add", "set add"]
    );
    assert_eq!(told(&world, &mut empty_stream), ["start "]);
}
