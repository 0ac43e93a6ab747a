//! The cost of queries inside the layer and the engine: CPU microseconds per query, without sockets
//! and without HTTP.
//!
//! `cargo bench -p quartet-layer-fauna --bench query_cost -- [only these] [queries]`
//!
//! The queries are those of `quartet bench product`, `news`, `ycsb` and `calvin`. Time is the
//! thread's own CPU time, so that a busy machine hardly shows; the log is in memory and written by
//! another thread.

use std::hint::black_box;
use std::sync::Arc;

use quartet_engine::{Durability, Engine, EngineOptions, Space};
use quartet_env::{FaultyDisk, ManualClock};
use quartet_layer_fauna::{Fauna, Request, RootSecret};
use quartet_model::{DatabaseId, LayerId};
use rustix::time::{ClockId, clock_gettime};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const QUERIES: u64 = 20_000;

const SCHEMA: [&str; 9] = [
    r#"{"create_collection":{"object":{"name":"product"}}}"#,
    r#"{"create_collection":{"object":{"name":"news"}}}"#,
    r#"{"create_collection":{"object":{"name":"calvin"}}}"#,
    r#"{"create_index":{"object":{"name":"product_by_pid","source":{"collection":"product"},"unique":true,
        "terms":[{"object":{"field":["data","pid"]}}]}}}"#,
    r#"{"create_index":{"object":{"name":"section_by_view_count","source":{"collection":"news"},"serialized":false,
        "terms":[{"object":{"field":["data","section"]}}],
        "values":[{"object":{"field":["data","view_count"],"reverse":true}},{"object":{"field":["ref"]}}]}}}"#,
    r#"{"create_index":{"object":{"name":"by_a","source":{"collection":"calvin"},"terms":[{"object":{"field":["data","a"]}}]}}}"#,
    r#"{"create_index":{"object":{"name":"by_b","source":{"collection":"calvin"},"terms":[{"object":{"field":["data","b"]}}]}}}"#,
    r#"{"create_index":{"object":{"name":"by_c","source":{"collection":"calvin"},"terms":[{"object":{"field":["data","c"]}}]}}}"#,
    r#"{"create_index":{"object":{"name":"by_d","source":{"collection":"calvin"},"terms":[{"object":{"field":["data","d"]}}]}}}"#,
];

struct World {
    fauna: Fauna,
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
            layer: LayerId::Fauna,
            durability: Durability::Interval,
        };
        let secret = RootSecret::of("secret");
        let fauna = Fauna::new(Arc::new(engine), space, secret, Box::new(|bytes| bytes.fill(7))).unwrap();
        let world = World { fauna, clock };
        SCHEMA.iter().for_each(|query| world.ask(query));
        world
    }

    fn ask(&self, query: &str) {
        self.clock.advance(20);
        let headers = [
            ("host", "127.0.0.1:8443"),
            ("authorization", "Bearer secret"),
            ("x-faunadb-api-version", "4"),
            ("content-type", "application/json; charset=utf-8"),
            ("content-length", "100"),
        ];
        let reply = self.fauna.answer(Request {
            method: "POST",
            target: "/",
            headers: &headers,
            body: query.as_bytes(),
        });
        assert!(reply.status < 300, "{query}: {}", reply.body);
        black_box(reply);
    }

    /// CPU microseconds a query.
    fn cost(&self, queries: u64, query: impl Fn(u64) -> String) -> f64 {
        let queries: Vec<String> = (0..queries).map(query).collect();
        let before = cpu_seconds();
        queries.iter().for_each(|query| self.ask(query));
        (cpu_seconds() - before) * 1e6 / queries.len() as f64
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

fn product(pid: u64, version: u64) -> String {
    format!(
        r#"{{"object":{{"data":{{"object":{{"pid":{pid},"creation_time":1577836800000,"update_time":{},"name":"Compact Wooden Chair",
        "description":"A durable lightweight piece for everyday use with a hand-finished surface and two-year guarantee made from recycled materials.",
        "category":"Home & Kitchen","count":{},"price":{}.99,"seller":"Northern Trading","seller_id":{},"country":"Germany","city":"Hamburg"}}}}}}}}"#,
        1_600_000_000_000 + version,
        version % 10_000,
        version % 2_000,
        version % 50_000
    )
}

fn by_pid(pid: u64) -> String {
    format!(r#"{{"get":{{"match":{{"index":"product_by_pid"}},"terms":{pid}}}}}"#)
}

fn write(function: &str, pid: u64, params: &str) -> String {
    let source = by_pid(pid);
    format!(r#"{{"{function}":{{"select":"ref","from":{source}}},"params":{params}}}"#)
}

fn article(number: u64, score: u64) -> String {
    let text = "After months of talks behind closed doors, the proposal returned to the floor on Tuesday, and officials now say that \
        the hardest decisions are still ahead.";
    format!(
        r#"{{"create":{{"ref":{{"collection":"news"}},"id":"{number}"}},"params":{{"object":{{"data":{{"object":{{"section":"World","view_count":{score},
        "article":"{{\"id\":\"article/{number}\",\"section\":\"World\",\"headline\":\"Parliament Weighs the Budget\",\"abstract\":\"{text}\"}}"}}}}}}}}}}"#
    )
}

fn calvin(number: u64) -> String {
    let instance = |part: u64| {
        let text = |field: u64| format!("{:014x}", scattered(number * 16 + part * 4 + field));
        let [a, b, c, d] = [0, 1, 2, 3].map(text);
        format!(
            r#"{{"create":{{"collection":"calvin"}},"params":{{"object":{{"data":{{"object":{{"a":"{a}","b":"{b}","c":"{c}","d":"{d}"}}}}}}}}}}"#
        )
    };
    let instances: Vec<String> = (0..4).map(instance).collect();
    format!(r#"{{"do":[{}]}}"#, instances.join(","))
}

fn record(number: u64) -> String {
    let field = |field: u64| {
        let text: String = (0..7)
            .map(|part| format!("{:014x}", scattered(number * 100 + field * 7 + part)))
            .collect();
        format!(r#""field{field}":"{text}xx""#)
    };
    let fields: Vec<String> = (0..10).map(field).collect();
    format!(
        r#"{{"create":{{"ref":{{"collection":"calvin"}},"id":"{}"}},"params":{{"object":{{"data":{{"object":{{{}}}}}}}}}}}"#,
        scattered(number) >> 1,
        fields.join(",")
    )
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let only = arguments.next().unwrap_or_default();
    let queries = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(QUERIES);
    let world = World::new();
    world.cost(1_000, |pid| {
        format!(
            r#"{{"create":{{"collection":"product"}},"params":{}}}"#,
            product(pid, pid)
        )
    });
    world.cost(7_000, |number| article(number, scattered(number) % 1_000));
    world.cost(10_000, record);
    let show = |name: &str, query: &dyn Fn(u64) -> String| {
        if name.contains(&only) {
            println!("{name:<34} {:>8.2} us", world.cost(queries, query));
        }
    };
    show("product read", &|n| by_pid(scattered(n) % 1_000));
    show("product insert", &|n| {
        format!(
            r#"{{"create":{{"collection":"product"}},"params":{}}}"#,
            product(1_000 + n, n)
        )
    });
    show("product overwrite", &|n| {
        let pid = scattered(n) % 1_000;
        write("replace", pid, &product(pid, n))
    });
    show("product update", &|n| {
        let params = format!(r#"{{"object":{{"data":{{"object":{{"update_time":{n},"count":{n},"price":{n}.5}}}}}}}}"#);
        write("update", scattered(n) % 1_000, &params)
    });
    show("news top ten", &|_| {
        r#"{"map":{"lambda":["view_count","X"],"expr":{"get":{"var":"X"}}},"collection":{"paginate":
            {"match":{"index":"section_by_view_count"},"terms":"World"},"size":10}}"#
            .into()
    });
    show("news rescore", &|n| {
        let (number, score) = (scattered(n) % 7_000, scattered(n * 3) % 1_000);
        format!(
            r#"{{"update":{{"ref":{{"collection":"news"}},"id":"{number}"}},"params":{{"object":{{"data":{{"object":{{"view_count":{score}}}}}}}}}}}"#
        )
    });
    let reference_of = |n: u64| {
        let id = scattered(scattered(n) % 10_000) >> 1;
        format!(r#"{{"ref":{{"collection":"calvin"}},"id":"{id}"}}"#)
    };
    show("ycsb read", &|n| format!(r#"{{"get":{}}}"#, reference_of(n)));
    show("ycsb update", &|n| {
        let (reference, text) = (reference_of(n), "y".repeat(100));
        format!(
            r#"{{"update":{reference},"params":{{"object":{{"data":{{"object":{{"field{}":"{text}"}}}}}}}}}}"#,
            n % 10
        )
    });
    show("calvin", &calvin);
}
