//! A layer over a fresh engine in memory, and the golden scripts that run against it.
//!
//! A script in `testdata/` is requests (`> Operation {json}`) each followed by the reply; `+
//! SECONDS` lets time pass and does what the service does by itself; `! throttled` makes tables
//! live from their units. `QUARTET_REWRITE=1` writes the observed replies into the scripts: review
//! the diff.

mod malformed;

use std::path::Path;
use std::sync::Arc;

use quartet_engine::{Durability, Engine, EngineOptions, Invariants, Space};
use quartet_env::{FaultyDisk, ManualClock};
use quartet_model::{DatabaseId, LayerId};

use crate::wire::json::Json;
use crate::{DynamoDb, DynamoDbInvariants, Reply, Target, Throughput};

pub struct Fixture {
    pub layer: DynamoDb,
    pub clock: Arc<ManualClock>,
}

impl Fixture {
    pub fn start() -> Fixture {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
        let disk = Arc::new(FaultyDisk::new());
        let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
        let engine = Engine::open(disk, clock.clone(), EngineOptions::default(), failure, &mut |_| {}).unwrap();
        let space = Space {
            database: DatabaseId(1),
            layer: LayerId::DynamoDb,
            durability: Durability::None,
        };
        Fixture {
            layer: DynamoDb::new(Arc::new(engine), space),
            clock,
        }
    }

    /// Answers an operation of either service.
    pub fn ask(&self, operation: &str, body: &str) -> Reply {
        let target = Target::parse(&format!("DynamoDB_20120810.{operation}"))
            .or_else(|_| Target::parse(&format!("DynamoDBStreams_20120810.{operation}")))
            .unwrap_or_else(|_| panic!("no operation {operation}"));
        let request = Json::parse(body.as_bytes()).unwrap();
        self.layer.answer(&target, &request)
    }
}

/// Runs a script and compares, or rewrites it. The requests of one script are derived.
fn run_script(path: &Path) {
    let script = std::fs::read_to_string(path).unwrap();
    let derived = path.ends_with("malformed.txt").then(malformed::script);
    let requests = derived.as_deref().unwrap_or(&script);
    let mut fixture = Fixture::start();
    let mut observed = String::new();
    for line in requests.lines() {
        if let Some(request) = line.strip_prefix("> ") {
            let (operation, body) = request.split_once(' ').unwrap_or((request, "{}"));
            let reply = fixture.ask(operation, body);
            let body = String::from_utf8(reply.body).unwrap();
            observed.push_str(&format!("{line}\n{} {body}\n", reply.status));
        } else if let Some(seconds) = line.strip_prefix("+ ") {
            fixture.clock.advance(seconds.parse::<u64>().unwrap() * 1_000_000);
            fixture.layer.maintain();
            fixture.layer.go_on();
            observed.push_str(&format!("{line}\n"));
        } else if line == "! throttled" {
            fixture.layer.throughput = Arc::new(Throughput::limited());
            observed.push_str(&format!("{line}\n"));
        } else if line.is_empty() || line.starts_with('#') {
            observed.push_str(&format!("{line}\n"));
        }
    }
    let invariants: Vec<Box<dyn Invariants>> = vec![Box::new(DynamoDbInvariants)];
    let findings = fixture.layer.engine.judge(&invariants).unwrap();
    assert_eq!(findings.kept, [], "after {}", path.display());
    if std::env::var_os("QUARTET_REWRITE").is_some() {
        std::fs::write(path, observed).unwrap();
    } else {
        assert_eq!(observed, script, "{}", path.display());
    }
}

#[test]
fn golden_scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        run_script(&path);
    }
}
