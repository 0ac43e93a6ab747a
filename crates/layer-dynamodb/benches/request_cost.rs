//! The cost of requests inside the layer and the engine: CPU microseconds per request, from the
//! body's bytes to the reply's, without sockets, HTTP and signatures.
//!
//! `cargo bench -p quartet-layer-dynamodb --bench request_cost -- [only these] [requests]`
//!
//! The requests are those of `quartet bench product` and `news`. Time is the thread's own CPU time,
//! so that a busy machine hardly shows; the log is in memory and written by another thread.

use std::hint::black_box;
use std::sync::Arc;

use quartet_engine::{Durability, Engine, EngineOptions, Space};
use quartet_env::{FaultyDisk, ManualClock};
use quartet_layer_dynamodb::wire::json::Json;
use quartet_layer_dynamodb::{DynamoDb, Target};
use quartet_model::{DatabaseId, LayerId};
use rustix::time::{ClockId, clock_gettime};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const REQUESTS: u64 = 50_000;

const TABLES: [&str; 2] = [
    r#"{"TableName":"product","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"pid","KeyType":"HASH"}],
        "AttributeDefinitions":[{"AttributeName":"pid","AttributeType":"N"}]}"#,
    r#"{"TableName":"news","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],
        "AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"},{"AttributeName":"section","AttributeType":"S"},
        {"AttributeName":"view_count","AttributeType":"N"}],"GlobalSecondaryIndexes":[{"IndexName":"section-view_count-index",
        "KeySchema":[{"AttributeName":"section","KeyType":"HASH"},{"AttributeName":"view_count","KeyType":"RANGE"}],
        "Projection":{"ProjectionType":"ALL"}}]}"#,
];

struct World {
    layer: DynamoDb,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> World {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
        let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
        let (disk, options) = (Arc::new(FaultyDisk::new()), EngineOptions::default());
        let engine = Engine::open(disk, clock.clone(), options, failure, &mut |_| {}).expect("an empty disk opens");
        let space = Space {
            database: DatabaseId(1),
            layer: LayerId::DynamoDb,
            durability: Durability::Interval,
        };
        let world = World {
            layer: DynamoDb::new(Arc::new(engine), space),
            clock,
        };
        TABLES.iter().for_each(|table| world.ask("CreateTable", table));
        world
    }

    fn ask(&self, operation: &str, body: &str) {
        self.clock.advance(20);
        let target = Target::parse(&format!("DynamoDB_20120810.{operation}")).expect("an operation");
        let request = Json::parse(body.as_bytes()).expect("JSON");
        let reply = self.layer.answer(&target, &request);
        assert_eq!(reply.status, 200, "{body}");
        black_box(reply);
    }

    /// CPU microseconds a request.
    fn cost(&self, operation: &str, requests: u64, request: impl Fn(u64) -> String) -> f64 {
        let bodies: Vec<String> = (0..requests).map(request).collect();
        let before = cpu_seconds();
        bodies.iter().for_each(|body| self.ask(operation, body));
        (cpu_seconds() - before) * 1e6 / bodies.len() as f64
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Spread over all numbers, the same on every run.
fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 8
}

fn put_product(pid: u64, version: u64, condition: &str) -> String {
    format!(
        r#"{{"TableName":"product","Item":{{"pid":{{"N":"{pid}"}},"creation_time":{{"N":"1577836800000"}},"update_time":{{"N":"{}"}},
        "name":{{"S":"Compact Wooden Chair"}},"description":{{"S":"A durable lightweight piece for everyday use with a hand-finished surface and two-year guarantee made from recycled materials."}},
        "category":{{"S":"Home & Kitchen"}},"count":{{"N":"{}"}},"price":{{"N":"{}.99"}},"seller":{{"S":"Northern Trading"}},
        "seller_id":{{"N":"{}"}},"country":{{"S":"Germany"}},"city":{{"S":"Hamburg"}}}},"ConditionExpression":"{condition}"}}"#,
        1_600_000_000_000 + version,
        version % 10_000,
        version % 2_000,
        version % 50_000
    )
}

fn put_article(number: u64) -> String {
    let text = "After months of talks behind closed doors, the proposal returned to the floor on Tuesday, and officials now say that \
        the hardest decisions are still ahead.";
    format!(
        r#"{{"TableName":"news","Item":{{"id":{{"S":"article/{number}"}},"section":{{"S":"World"}},"view_count":{{"N":"{}"}},
        "article":{{"S":"{{\"id\":\"article/{number}\",\"section\":\"World\",\"headline\":\"Parliament Weighs the Budget\",\"abstract\":\"{text}\"}}"}}}}}}"#,
        scattered(number) % 1_000
    )
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let only = arguments.next().unwrap_or_default();
    let requests = arguments
        .next()
        .map_or(REQUESTS, |count| count.parse().expect("a number of requests"));
    let world = World::new();
    world.cost("PutItem", 1_000, |pid| {
        put_product(pid, pid, "attribute_not_exists(pid)")
    });
    world.cost("PutItem", 7_000, put_article);
    let show = |name: &str, operation: &str, request: &dyn Fn(u64) -> String| {
        if name.contains(&only) {
            println!("{name:<18} {:>7.2} us", world.cost(operation, requests, request));
        }
    };
    show("product read", "GetItem", &|n| {
        let pid = scattered(n) % 1_000;
        format!(r#"{{"TableName":"product","ConsistentRead":true,"Key":{{"pid":{{"N":"{pid}"}}}}}}"#)
    });
    show("product insert", "PutItem", &|n| {
        put_product(1_000 + n, n, "attribute_not_exists(pid)")
    });
    show("product overwrite", "PutItem", &|n| {
        put_product(scattered(n) % 1_000, n, "attribute_exists(pid)")
    });
    show("product update", "UpdateItem", &|n| {
        let pid = scattered(n) % 1_000;
        format!(
            r##"{{"TableName":"product","Key":{{"pid":{{"N":"{pid}"}}}},"UpdateExpression":"SET update_time = :0, #c = :1, price = :2",
            "ConditionExpression":"attribute_exists(pid)","ExpressionAttributeNames":{{"#c":"count"}},
            "ExpressionAttributeValues":{{":0":{{"N":"{n}"}},":1":{{"N":"{n}"}},":2":{{"N":"{n}.5"}}}}}}"##
        )
    });
    show("news top ten", "Query", &|_| {
        r##"{"TableName":"news","IndexName":"section-view_count-index","Limit":10,"ScanIndexForward":false,
        "KeyConditionExpression":"#s = :s","ExpressionAttributeNames":{"#s":"section"},"ExpressionAttributeValues":{":s":{"S":"World"}}}"##
            .into()
    });
    show("news rescore", "UpdateItem", &|n| {
        let (number, score) = (scattered(n) % 7_000, scattered(n * 3) % 1_000);
        format!(
            r#"{{"TableName":"news","Key":{{"id":{{"S":"article/{number}"}}}},"UpdateExpression":"SET view_count = :r",
            "ExpressionAttributeValues":{{":r":{{"N":"{score}"}}}}}}"#
        )
    });
}
