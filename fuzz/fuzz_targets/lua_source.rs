//! Any text is a script that answers, fails or takes too long; and the next script finds everything as it was.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use quartet_engine::{Durability, Engine, EngineOptions, Space};
use quartet_env::{FaultyDisk, SystemClock};
use quartet_layer_redis::{Identity, Redis, Session};
use quartet_model::{DatabaseId, LayerId};
use quartet_wire_resp::encode_command;

static LAYER: LazyLock<Arc<Redis>> = LazyLock::new(|| {
    let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
    let disk = Arc::new(FaultyDisk::new());
    let options = EngineOptions::default();
    let engine = Engine::open(disk, Arc::new(SystemClock), options, failure, &mut |_| {}).expect("an empty disk");
    let space = Space {
        database: DatabaseId(1),
        layer: LayerId::Redis,
        durability: Durability::None,
    };
    Arc::new(Redis::new(Arc::new(engine), space, Identity::default(), Box::new(|| {})))
});

fuzz_target!(|source: &[u8]| {
    let client = LAYER.clients.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), 0, std::sync::Arc::new(|| {}));
    let mut session = Session::new(LAYER.clone(), client);
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    encode_command(&[b"EVAL", source, b"0"], &mut request);
    session.receive(&request, &mut reply);

    let client = LAYER.clients.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), 0, std::sync::Arc::new(|| {}));
    let mut session = Session::new(LAYER.clone(), client);
    let check = "local n = 0 for _ in pairs(_G) do n = n + 1 end return {n, type(redis.call), cjson.encode({{}}), ('x'):rep(2)}";
    let mut answer = Vec::new();
    request.clear();
    encode_command(&["EVAL", check, "0"], &mut request);
    session.receive(&request, &mut answer);
    // The names that there are, KEYS and ARGV among them.
    assert!(answer.ends_with(b"$8\r\nfunction\r\n$4\r\n[{}]\r\n$2\r\nxx\r\n"), "{source:?}");
});
