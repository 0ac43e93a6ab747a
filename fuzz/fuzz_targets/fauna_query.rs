//! Any bytes as a query: JSON in reply, never a panic, never long.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use quartet_engine::{Durability, Engine, EngineOptions, Space};
use quartet_env::{FaultyDisk, SystemClock};
use quartet_layer_fauna::{Fauna, Reply, Request, RootSecret};
use quartet_model::{DatabaseId, LayerId};

static LAYER: LazyLock<Fauna> = LazyLock::new(|| {
    let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
    let disk = Arc::new(FaultyDisk::new());
    let engine = Engine::open(
        disk,
        Arc::new(SystemClock),
        EngineOptions::default(),
        failure,
        &mut |_| {},
    )
    .unwrap();
    let space = Space {
        database: DatabaseId(1),
        layer: LayerId::Fauna,
        durability: Durability::None,
    };
    let layer = Fauna::new(
        Arc::new(engine),
        space,
        RootSecret::of("secret"),
        Box::new(|bytes| bytes.fill(7)),
    )
    .unwrap();
    ask(&layer, br#"{"create_collection":{"object":{"name":"c"}}}"#);
    ask(&layer, br#"{"create_index":{"object":{"name":"i","source":{"collection":"c"},"values":[{"object":{"field":["data","x"]}}]}}}"#);
    layer
});

fn ask(layer: &Fauna, body: &[u8]) -> Reply {
    layer.answer(Request {
        method: "POST",
        target: "/",
        headers: &[("authorization", "Bearer secret"), ("x-faunadb-api-version", "4")],
        body,
    })
}

fuzz_target!(|data: &[u8]| {
    let reply = ask(&LAYER, data);
    assert!(
        reply.status < 500 && reply.body.starts_with('{'),
        "{} {}",
        reply.status,
        reply.body
    );
});
