//! Nanoseconds to parse one small request that is complete in the buffer.
//!
//! `cargo bench -p quartet-wire-resp --bench parse_cost`
//!
//! Each figure is the best of several rounds: noise of the machine only ever adds.

use std::hint::black_box;
use std::time::{Duration, Instant};

use quartet_wire_resp::{Args, Limits, Parsed, Parser, Protocol, Reply, encode_command, parse, skip};

const REQUESTS: usize = 1000;
const ROUNDS: usize = 2000;

fn main() {
    let (limits, mut args, mut parser) = (Limits::default(), Args::new(), Parser::new());
    for (name, command) in [
        ("*2 GET key", &["GET", "key"][..]),
        ("*3 SET key value", &["SET", "key", "value"]),
    ] {
        let mut stream = Vec::new();
        (0..REQUESTS).for_each(|_| encode_command(command, &mut stream));
        report(&format!("parse, {name}"), || {
            walk(&stream, |input| match parse(black_box(input), &limits, &mut args) {
                Ok(Parsed::Request { consumed }) => {
                    black_box(args.of(input).get(1));
                    consumed
                }
                other => panic!("{other:?}"),
            })
        });
        report(&format!("Parser::parse, {name}"), || {
            walk(&stream, |input| match parser.parse(black_box(input), &limits) {
                Ok(Parsed::Request { consumed }) => {
                    black_box(parser.arguments(input).get(1));
                    consumed
                }
                other => panic!("{other:?}"),
            })
        });
    }
    let mut out = Vec::new();
    report("Reply::bulk, 5 bytes", || {
        out.clear();
        (0..REQUESTS).for_each(|_| Reply::new(black_box(&mut out), Protocol::Resp2).bulk(black_box(b"value")));
    });
    let bulks = b"$5\r\nvalue\r\n".repeat(REQUESTS);
    report("skip, $5", || {
        walk(&bulks, |input| skip(black_box(input)).unwrap().unwrap())
    });
    report("Reply::double, 3.25", || {
        out.clear();
        (0..REQUESTS).for_each(|_| Reply::new(black_box(&mut out), Protocol::Resp2).double(black_box(3.25)));
    });
}

fn walk(stream: &[u8], mut consume: impl FnMut(&[u8]) -> usize) {
    let mut remaining = stream;
    while !remaining.is_empty() {
        remaining = &remaining[consume(remaining)..];
    }
}

fn report(name: &str, mut round: impl FnMut()) {
    let timed = |round: &mut dyn FnMut()| {
        let start = Instant::now();
        round();
        start.elapsed()
    };
    let best: Duration = (0..ROUNDS).map(|_| timed(&mut round)).min().unwrap_or_default();
    println!("{name}: {:.1} ns", best.as_nanos() as f64 / REQUESTS as f64);
}
