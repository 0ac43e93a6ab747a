//! The parts around queries: methods, ways of sending a secret, versions of the API.

use base64::Engine as _;
use quartet_layer_fauna::{Reply, Request};

use crate::world::World;

fn sent(world: &World, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    world.fauna.answer(Request {
        method,
        target,
        headers,
        body: body.as_bytes(),
    })
}

fn basic(secret: &str) -> String {
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(secret))
}

#[test]
fn a_get_request_may_say_what_it_may_not_do() {
    let world = World::new(1_700_000_000_000_000);
    let authorization = basic("secret");
    let headers = [("authorization", &*authorization), ("x-faunadb-api-version", "4")];
    let unsaid = r#"/?q={"if":true,"then":1,"else":{"create_collection":{"object":{"name":"c"}}}}"#;
    assert_eq!(sent(&world, "GET", unsaid, &headers, "").body, r#"{"resource":1}"#);
    let said = r#"/?q={"do":[{"create_collection":{"object":{"name":"c"}}}]}"#;
    assert_eq!(
        sent(&world, "GET", said, &headers, "").body,
        r#"{"errors":[{"position":["do",0],"code":"invalid expression","description":"Call performs a write, which is not allowed in get requests."}]}"#
    );
}

/// Like the whole request, with any body.
#[test]
fn an_unauthenticated_peer_is_refused_by_the_head() {
    let world = World::new(1_700_000_000_000_000);
    let refused = |target: &str, authorization: &str, version: &str| {
        world.fauna.refuse_stranger(Request {
            method: "POST",
            target,
            headers: &[("authorization", authorization), ("x-faunadb-api-version", version)],
            body: b"",
        })
    };
    let (right, wrong) = (basic("secret"), basic("wrong"));
    let headers = [("authorization", &*wrong), ("x-faunadb-api-version", "4")];
    for target in ["/", "/linearized?x=1"] {
        let reply = refused(target, &wrong, "4").unwrap();
        let whole = sent(&world, "POST", target, &headers, "{\"add\":[");
        assert_eq!((reply.status, reply.body), (401, whole.body));
    }
    assert!(refused("/", &right, "4").is_none());
    assert!(
        refused("/nowhere", &wrong, "4").is_none(),
        "nobody has to be known there"
    );
    assert!(refused("/", &wrong, "x").is_none(), "the headers are looked at first");
}

#[test]
fn options_are_for_pages_of_other_sites() {
    let world = World::new(1_700_000_000_000_000);
    assert_eq!(sent(&world, "OPTIONS", "/", &[], "").status, 405);
    let origin = [("origin", "http://x.test")];
    assert_eq!(sent(&world, "OPTIONS", "/", &origin, "").status, 200);
}

/// Drivers of FQL v10 read `error.code` and `error.message`; to a body without them they say that
/// the response has an unknown format.
#[test]
fn clients_of_the_later_language_are_refused_in_their_own_form() {
    let world = World::new(1_700_000_000_000_000);
    for path in ["/query/1", "/stream/1", "/feed/1", "/schema/1/files", "//query/1"] {
        let refused = sent(&world, "POST", path, &[], r#"{"query":{"fql":["1 + 1"]}}"#);
        let body: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
        assert_eq!(
            (refused.status, &body["error"]["code"]),
            (400, &"invalid_request".into())
        );
        assert!(body["error"]["message"].as_str().unwrap().contains("FQL v10"));
        assert!(body["summary"].is_string());
    }
}

#[test]
fn secrets_are_followed_by_documents_in_three_ways() {
    let world = World::new(1_700_000_000_000_000);
    world.resource("secret", r#"{"create_collection":{"object":{"name":"c"}}}"#);
    world.resource("secret", r#"{"create":{"ref":{"collection":"c"},"id":"1"}}"#);
    for way in ["@doc/c/1", "collections/c/1", "classes/c/1"] {
        let identity = world.resource(
            &format!("secret:{way}"),
            r#"{"select":"id","from":{"current_identity":null}}"#,
        );
        assert_eq!(identity, "1");
    }
    let token = world.resource(
        "secret",
        r#"{"create":{"tokens":null},"params":{"object":{"instance":{"ref":{"collection":"c"},"id":"1"}}}}"#,
    );
    let secret = token["secret"].as_str().unwrap();
    let identity = world.resource(
        &format!("{secret}:admin"),
        r#"{"select":"id","from":{"current_identity":null}}"#,
    );
    assert_eq!(identity, "1", "what follows a token's secret is passed over");
}

#[test]
fn a_colon_may_follow_the_base64() {
    let world = World::new(1_700_000_000_000_000);
    let authorization = basic("secret") + ":";
    assert_eq!(
        sent(&world, "POST", "/", &[("authorization", &authorization)], "1").body,
        r#"{"resource":1}"#
    );
}

#[test]
fn before_version_three_everything_is_evaluated() {
    let world = World::new(1_700_000_000_000_000);
    let authorization = basic("secret");
    let status = |version: &str, body: &str| {
        let headers = [("authorization", &*authorization), ("x-faunadb-api-version", version)];
        sent(&world, "POST", "/", &headers, body).status
    };
    for body in [
        r#"{"and":[false,{"abort":"x"}]}"#,
        r#"{"or":[true,{"abort":"x"}]}"#,
        r#"{"select":0,"from":[1],"default":{"abort":"x"}}"#,
    ] {
        assert_eq!((status("2.12", body), status("3", body)), (400, 200), "{body}");
    }
}
