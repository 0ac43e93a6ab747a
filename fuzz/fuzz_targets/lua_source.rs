//! Any text is a script that answers, fails or takes too long; and the next script finds everything
//! as it was.
#![no_main]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use quartet_engine::{Durability, Engine, EngineOptions, Space};
use quartet_env::{Clock, FaultyDisk};
use quartet_layer_redis::commands;
use quartet_layer_redis::{Identity, Redis, Session};
use quartet_model::{DatabaseId, LayerId};
use quartet_wire_resp::encode_command;

/// A millisecond passes whenever somebody looks: a script that takes long is one that runs long,
/// however busy the machine.
#[derive(Default)]
struct Looks(AtomicU64);

impl Clock for Looks {
    fn now_micros(&self) -> u64 {
        self.0.fetch_add(1000, Ordering::Relaxed)
    }
}

/// Number of scripts that share a layer. Their writes stay in the log, which is in memory, so now
/// and then it is a new one.
static LAYER: Mutex<Option<(u32, Arc<Redis>)>> = Mutex::new(None);
const SCRIPTS_PER_LAYER: u32 = 50_000;

fn layer() -> Arc<Redis> {
    let mut current = LAYER.lock().unwrap();
    let (left, layer) = match current.take() {
        Some((left, layer)) if left > 0 => (left, layer),
        _ => (SCRIPTS_PER_LAYER, new_layer()),
    };
    *current = Some((left - 1, layer.clone()));
    layer
}

fn new_layer() -> Arc<Redis> {
    let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
    let disk = Arc::new(FaultyDisk::new());
    let options = EngineOptions::default();
    let engine = Engine::open(disk, Arc::new(Looks::default()), options, failure, &mut |_| {}).expect("an empty disk");
    let space = Space {
        database: DatabaseId(1),
        layer: LayerId::Redis,
        durability: Durability::None,
    };
    Arc::new(Redis::new(
        Arc::new(engine),
        space,
        commands::own(),
        Identity::default(),
        Box::new(|| {}),
    ))
}

/// The answers to a new connection.
fn evaluate(layer: &Arc<Redis>, source: &[u8]) -> Vec<u8> {
    let client = layer
        .connections
        .clients
        .connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), 0, Arc::new(|| {}));
    let mut session = Session::new(layer.clone(), client);
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    encode_command(&[b"EVAL", source, b"0"], &mut request);
    session.receive(&request, &mut reply);
    reply
}

const CHECK: &[u8] =
    b"local n = 0 for _ in pairs(_G) do n = n + 1 end return {n, type(redis.call), cjson.encode({{}}), ('x'):rep(2)}";

fuzz_target!(|source: &[u8]| {
    let layer = layer();
    evaluate(&layer, source);
    let answer = evaluate(&layer, CHECK);
    // The names that there are, KEYS and ARGV among them.
    assert!(
        answer.ends_with(b"$8\r\nfunction\r\n$4\r\n[{}]\r\n$2\r\nxx\r\n"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
});
