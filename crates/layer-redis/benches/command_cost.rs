//! The cost of a command without sockets: processor time from the bytes of a request to those of
//! its reply.
//!
//! `cargo bench -p quartet-layer-redis --bench command_cost -- [commands each [rounds [name
//! of one]]]`
//!
//! The commands are those of `redis-benchmark`, XADD, the two of the news benchmark, small changes
//! of long strings and a rate limiter as a script, one at a time and sixteen in a pipeline, on an
//! engine whose disk is memory; `hand_off` is an LPUSH that serves one of fifty clients waiting in
//! BRPOP, and that client's next BRPOP. A figure is the time that this thread ran, so neighbours
//! disturb it little; the least of the rounds is printed. Under `valgrind --tool=callgrind` with
//! one round and one command it counts instructions instead.

use std::sync::Arc;

use quartet_engine::{Durability, Engine, EngineOptions, Space};
use quartet_env::{MemoryDisk, SystemClock};
use quartet_layer_redis::commands;
use quartet_layer_redis::{Identity, Redis, Session};
use quartet_model::{DatabaseId, LayerId};
use quartet_wire_resp::encode_command;

const DISK_BYTES: u64 = 1 << 30;

const COMMANDS: &[(&str, &str)] = &[
    ("set", "SET key:__rand_int__ xxx"),
    ("get", "GET key:__rand_int__"),
    ("incr", "INCR counter:__rand_int__"),
    ("lpush", "LPUSH mylist xxx"),
    ("rpush", "RPUSH mylist xxx"),
    ("lpop", "LPOP mylist"),
    ("rpop", "RPOP mylist"),
    ("sadd", "SADD myset element:__rand_int__"),
    ("hset", "HSET myhash element:__rand_int__ xxx"),
    ("spop", "SPOP myset"),
    ("zadd", "ZADD myzset __rand_int__ element:__rand_int__"),
    ("rescore", "ZADD news __rand_int__ __article__"),
    ("top_ten", "ZREVRANGE news 0 9"),
    ("zpopmin", "ZPOPMIN myzset"),
    ("lrange_100", "LRANGE mylist 0 99"),
    ("lrange_300", "LRANGE mylist 0 299"),
    (
        "mset",
        "MSET key:__rand_int__ xxx key:__rand_int__ xxx key:__rand_int__ xxx key:__rand_int__ xxx key:__rand_int__ xxx",
    ),
    ("xadd", "XADD stream MAXLEN ~ 100000 * name sensor-17 value 21.5"),
    ("set_16", "SET key:__rand_int__ sixteen-new-ones"),
    ("setbit_12m", "SETBIT large:12582912 __large_bit__ 1"),
    ("setbit_128m", "SETBIT large:134217728 __large_bit__ 1"),
    ("append_12m", "APPEND large:12582912 sixteen-new-ones"),
    ("append_128m", "APPEND large:134217728 sixteen-new-ones"),
    ("bitfield_12m", "BITFIELD large:12582912 INCRBY u8 #__large_byte__ 1"),
    (
        "setrange_12m",
        "SETRANGE large:12582912 __large_byte__ sixteen-new-ones",
    ),
    ("getbit_12m", "GETBIT large:12582912 __large_bit__"),
    ("script", "EVALSHA digest 1 user:__few_int__ 100 60000"),
];
const HAND_OFF: &str = "hand_off";
/// Number of waiting connections.
const WAITING: usize = 50;
/// Keys and elements that there are.
const RANGE: u64 = 100_000;
/// Members of a section of the news benchmark.
const ARTICLES: u64 = 1500;
/// Keys of the rate limiter.
const FEW: u64 = 1000;

const RATE_LIMITER: &str = "local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if count > tonumber(ARGV[1]) then return {0, redis.call('PTTL', KEYS[1])} end
return {1, tonumber(ARGV[1]) - count}";

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let number = |index: usize, usual: u64| names.get(index).map_or(usual, |text| text.parse().expect("a number"));
    let (count, rounds) = (number(0, 100_000), number(1, 5));
    for (name, template) in COMMANDS {
        if names.get(2).is_some_and(|only| only != name) {
            continue;
        }
        let figures = [1, 16].map(|pipeline| {
            let measured = (0..rounds).map(|_| nanoseconds_each(template, pipeline, count));
            measured.min().unwrap_or_default()
        });
        println!("{name:12} {:6} ns alone {:6} ns of sixteen", figures[0], figures[1]);
    }
    if names.get(2).is_none_or(|only| only == HAND_OFF) {
        let measured = (0..rounds).map(|_| nanoseconds_each_hand_off(count));
        println!("{HAND_OFF:12} {:6} ns", measured.min().unwrap_or_default());
    }
}

/// Over a fresh engine, which holds what the command expects.
fn nanoseconds_each(template: &str, pipeline: u64, count: u64) -> u64 {
    let (mut session, mut random) = (connect_to(&layer()), Random(1));
    set_large(&mut session, template);
    let template = &template.replace("digest", &load(&mut session, RATE_LIMITER));
    let before = match template.split(' ').next().expect("a word") {
        "LPOP" | "RPOP" | "LRANGE" => "LPUSH mylist xxx",
        "SPOP" => "SADD myset element:__rand_int__",
        "ZREVRANGE" => "ZADD news __rand_int__ __article__",
        "ZPOPMIN" => "ZADD myzset __rand_int__ element:__rand_int__",
        _ => template,
    };
    let before = if template.starts_with("GET") {
        COMMANDS[0].1
    } else {
        before
    };
    run(
        &mut session,
        &requests(before, 16, RANGE.min(2 * count) / 16, &mut random),
    );
    let requests = requests(template, pipeline, count / pipeline, &mut random);
    let started = ran_nanoseconds();
    run(&mut session, &requests);
    (ran_nanoseconds() - started) / (count / pipeline * pipeline)
}

/// Creates a string with the length in its name; the first bit of each of its bytes is clear.
fn set_large(session: &mut Session, template: &str) {
    let Some(bytes) = large_bytes(template) else { return };
    let value = "x".repeat(bytes as usize);
    let mut request = Vec::new();
    encode_command(&["SET", &format!("large:{bytes}"), &value], &mut request);
    run(session, &[request]);
}

fn large_bytes(template: &str) -> Option<u64> {
    let (_, length) = template.split_once("large:")?;
    length.split(' ').next()?.parse().ok()
}

/// A script's digest, by which it is called from now on.
fn load(session: &mut Session, script: &str) -> String {
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    encode_command(&["SCRIPT", "LOAD", script], &mut request);
    session.receive(&request, &mut reply);
    let reply = String::from_utf8(reply).expect("digits");
    reply.lines().nth(1).expect("a digest").into()
}

/// Waiting connections are served in their order.
fn nanoseconds_each_hand_off(count: u64) -> u64 {
    let layer = layer();
    let mut waiting: Vec<Session> = (0..WAITING).map(|_| connect_to(&layer)).collect();
    let mut pusher = connect_to(&layer);
    let (mut push, mut pop) = (Vec::new(), Vec::new());
    encode_command(&["LPUSH", "queue", "job"], &mut push);
    encode_command(&["BRPOP", "queue", "0"], &mut pop);
    let (mut pushed, mut popped) = (Vec::new(), Vec::new());
    for session in &mut waiting {
        session.receive(&pop, &mut popped);
    }
    let started = ran_nanoseconds();
    for number in 0..count as usize {
        hand_over(
            &mut pusher,
            &mut waiting[number % WAITING],
            (&push, &mut pushed),
            (&pop, &mut popped),
        );
    }
    (ran_nanoseconds() - started) / count
}

#[inline(never)]
fn hand_over(
    pusher: &mut Session,
    waiting: &mut Session,
    (push, pushed): (&[u8], &mut Vec<u8>),
    (pop, popped): (&[u8], &mut Vec<u8>),
) {
    pushed.clear();
    popped.clear();
    pusher.receive(push, pushed);
    waiting.drain_mailbox(popped);
    assert!(pushed == b":1\r\n" && popped.ends_with(b"$3\r\njob\r\n") && !waiting.is_blocked());
    waiting.receive(pop, popped);
}

fn layer() -> Arc<Redis> {
    let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
    let disk = Arc::new(MemoryDisk::new(DISK_BYTES));
    let engine = Engine::open(
        disk,
        Arc::new(SystemClock),
        EngineOptions::default(),
        failure,
        &mut |_| {},
    );
    let space = Space {
        database: DatabaseId(1),
        layer: LayerId::Redis,
        durability: Durability::Interval,
    };
    let engine = Arc::new(engine.expect("an empty disk opens"));
    Arc::new(Redis::new(
        engine,
        space,
        commands::own(),
        Identity::default(),
        Box::new(|| {}),
    ))
}

fn connect_to(layer: &Arc<Redis>) -> Session {
    let clients = &layer.connections.clients;
    let client = clients.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), 0, Arc::new(|| {}));
    Session::new(layer.clone(), client)
}

/// A member as the news benchmark has them, of 400 bytes.
fn article(number: u64) -> String {
    format!("{number:08x}-{}", "article ".repeat(49).trim_end().replace(" ", "-"))
}

fn requests(template: &str, pipeline: u64, batches: u64, random: &mut Random) -> Vec<Vec<u8>> {
    let large_bytes = large_bytes(template).unwrap_or(1);
    let batch = |_| {
        let mut bytes = Vec::new();
        for _ in 0..pipeline {
            let mut words = Vec::new();
            for word in template.split(' ') {
                let word = word.replace("__rand_int__", &format!("{:012}", random.below(RANGE)));
                let byte = random.below(large_bytes);
                let word = word.replace("__large_bit__", &(8 * byte).to_string());
                let word = word.replace("__large_byte__", &byte.min(large_bytes.saturating_sub(16)).to_string());
                let word = word.replace("__article__", &article(random.below(ARTICLES)));
                words.push(word.replace("__few_int__", &format!("{:012}", random.below(FEW))));
            }
            encode_command(&words, &mut bytes);
        }
        bytes
    };
    (0..batches).map(batch).collect()
}

/// Runs requests; a pipeline that exceeds a hold of the lock is continued, as the owner of a socket
/// would do.
#[inline(never)]
fn run(session: &mut Session, requests: &[Vec<u8>]) {
    let mut replies = Vec::new();
    for request in requests {
        let mut input = request.as_slice();
        while !input.is_empty() {
            input = &input[session.receive(input, &mut replies).consumed..];
        }
        assert_ne!(replies[0], b'-', "{}", String::from_utf8_lossy(&replies));
        replies.clear();
    }
}

/// The running time of this thread: the first number of the scheduler's statistics.
fn ran_nanoseconds() -> u64 {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with statistics of its scheduler");
    let first = text.split(' ').next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

/// A linear congruence: the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
