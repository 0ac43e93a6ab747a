//! A layer on a disk in memory, with a clock that only the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quartet_engine::{Durability, Engine, EngineOptions, Finding, Invariants, Space};
use quartet_env::{Disk, FaultyDisk, ManualClock};
use quartet_layer_fauna::{Fauna, FaunaInvariants, Reply, Request, RootSecret};
use quartet_model::{DatabaseId, LayerId};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub struct World {
    pub fauna: Arc<Fauna>,
    pub clock: Arc<ManualClock>,
}

impl World {
    pub fn new(now_micros: u64) -> World {
        World::with(now_micros, Durability::None)
    }

    pub fn with(now_micros: u64, durability: Durability) -> World {
        World::on(Arc::new(FaultyDisk::new()), now_micros, durability)
    }

    pub fn on(disk: Arc<dyn Disk>, now_micros: u64, durability: Durability) -> World {
        let clock = Arc::new(ManualClock::new(now_micros));
        let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
        let options = EngineOptions::default();
        let engine = Engine::open(disk, clock.clone(), options, failure, &mut |_| {}).unwrap();
        let space = Space {
            database: DatabaseId(1),
            layer: LayerId::Fauna,
            durability,
        };
        let count = AtomicU64::new(1);
        let random = move |bytes: &mut [u8]| {
            let next = Sha256::digest(count.fetch_add(1, Ordering::Relaxed).to_be_bytes());
            bytes.iter_mut().zip(next).for_each(|(byte, random)| *byte = random);
        };
        let fauna = Fauna::new(Arc::new(engine), space, RootSecret::of("secret"), Box::new(random)).unwrap();
        World {
            fauna: Arc::new(fauna),
            clock,
        }
    }

    /// Sends a query with a secret, then advances the clock by ten milliseconds.
    pub fn ask(&self, secret: &str, body: &str) -> Reply {
        let authorization = format!("Bearer {secret}");
        let reply = self.fauna.answer(Request {
            method: "POST",
            target: "/",
            headers: &[("authorization", &authorization), ("x-faunadb-api-version", "4")],
            body: body.as_bytes(),
        });
        self.clock.advance(10_000);
        while self.fauna.maintain() {}
        reply
    }

    /// Returns the invariants that the rows breach.
    pub fn findings(&self) -> Vec<Finding> {
        let invariants: Vec<Box<dyn Invariants>> = vec![Box::new(FaunaInvariants)];
        self.fauna.engine.judge(&invariants).unwrap().kept
    }

    /// The resource of a query that must succeed.
    pub fn resource(&self, secret: &str, body: &str) -> Value {
        let reply = self.ask(secret, body);
        let json: Value = serde_json::from_str(&reply.body).unwrap();
        assert!(reply.status < 300, "{body}: {json}");
        json["resource"].clone()
    }
}
