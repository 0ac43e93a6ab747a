use std::cell::Cell;

use proptest::prelude::*;

use super::*;

fn written(protocol: Protocol, write: impl Fn(&mut Reply)) -> String {
    let mut out = Vec::new();
    write(&mut Reply::new(&mut out, protocol));
    out.escape_ascii().to_string()
}

fn check(write: impl Fn(&mut Reply), resp2: &str, resp3: &str) {
    assert_eq!(written(Protocol::Resp2, &write), resp2);
    assert_eq!(written(Protocol::Resp3, &write), resp3);
}

fn check_same(write: impl Fn(&mut Reply), text: &str) {
    check(&write, text, text);
}

#[test]
fn scalars() {
    check_same(|reply| reply.ok(), r"+OK\r\n");
    check_same(|reply| reply.simple("PONG"), r"+PONG\r\n");
    check_same(|reply| reply.error("ERR a\r\nb"), r"-ERR a  b\r\n");
    check_same(|reply| reply.error(b"ERR \xff"), r"-ERR \xff\r\n");
    check(|reply| reply.null(), r"$-1\r\n", r"_\r\n");
    check(|reply| reply.null_array(), r"*-1\r\n", r"_\r\n");
    check(|reply| reply.boolean(true), r":1\r\n", r"#t\r\n");
    check(|reply| reply.boolean(false), r":0\r\n", r"#f\r\n");
    check(|reply| reply.big_number("-12"), r"$3\r\n-12\r\n", r"(-12\r\n");
    check(
        |reply| reply.verbatim(b"txt", b"a\r\n"),
        r"$3\r\na\r\n\r\n",
        r"=7\r\ntxt:a\r\n\r\n",
    );
    check(|reply| reply.double(3.5), r"$3\r\n3.5\r\n", r",3.5\r\n");
    check(|reply| reply.double(-f64::INFINITY), r"$4\r\n-inf\r\n", r",-inf\r\n");
    check(
        |reply| reply.double(0.1 + 0.2),
        r"$19\r\n0.30000000000000004\r\n",
        r",0.30000000000000004\r\n",
    );
}

#[test]
fn integers_and_bulks_of_every_width() {
    for value in [0, 7, 9, 10, 42, 99, 100, 101, 12345, i64::MAX, -1, -10, -100, i64::MIN] {
        check_same(|reply| reply.integer(value), &format!(r":{value}\r\n"));
    }
    for length in [0, 1, 9, 10, 99, 100, 1000] {
        let text = "x".repeat(length);
        check_same(
            |reply| reply.bulk(text.as_bytes()),
            &format!(r"${length}\r\n{text}\r\n"),
        );
    }
}

#[test]
fn heads_that_are_last() {
    let since = |reply: &mut Reply<'_>| {
        reply.integer(1);
        let mark = reply.mark();
        reply.integer(2);
        reply.integer(3);
        mark
    };
    check_same(
        |reply| {
            let mark = since(reply);
            reply.array_since(mark, 2);
        },
        r":1\r\n*2\r\n:2\r\n:3\r\n",
    );
    check(
        |reply| {
            let mark = since(reply);
            reply.map_since(mark, 1);
        },
        r":1\r\n*2\r\n:2\r\n:3\r\n",
        r":1\r\n%1\r\n:2\r\n:3\r\n",
    );
    check_same(
        |reply| {
            let mark = since(reply);
            let end = reply.mark();
            reply.bulk(b"x");
            reply.move_before(mark, end);
        },
        r":1\r\n$1\r\nx\r\n:2\r\n:3\r\n",
    );
    check_same(
        |reply| {
            let mark = since(reply);
            reply.take_back(mark);
        },
        r":1\r\n",
    );
    check(|reply| reply.decimal("-1.50"), r"$5\r\n-1.50\r\n", r",-1.50\r\n");
}

#[test]
fn collections() {
    check_same(|reply| reply.array(0), r"*0\r\n");
    check_same(|reply| reply.array(123), r"*123\r\n");
    check(|reply| reply.map(5), r"*10\r\n", r"%5\r\n");
    check(|reply| reply.set(3), r"*3\r\n", r"~3\r\n");
    check(|reply| reply.push(3), r"*3\r\n", r">3\r\n");
    check(
        |reply| assert_eq!(reply.attribute(1), reply.protocol() == Protocol::Resp3),
        "",
        r"|1\r\n",
    );
}

fn check_double(value: f64, expected: &str) {
    let mut out = Vec::new();
    format_double(value, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

/// The right-hand sides are what Redis' own `d2string` answers.
#[test]
fn doubles_as_redis_prints_them() {
    check_double(0.0, "0");
    check_double(-0.0, "-0");
    check_double(1.0, "1");
    check_double(-1.0, "-1");
    check_double(3.1, "3.1");
    check_double(3.5, "3.5");
    check_double(0.1, "0.1");
    check_double(-0.1, "-0.1");
    check_double(0.1 + 0.2, "0.30000000000000004");
    check_double(100.0, "100");
    check_double(1e15, "1000000000000000");
    check_double(1e18, "1000000000000000000");
    check_double(4611686018427387904.0, "4611686018427387904");
    check_double(4611686018427388928.0, "4611686018427389000");
    check_double(1e19, "1e+19");
    check_double(1e20, "1e+20");
    check_double(-1e21, "-1e+21");
    check_double(1e22, "1e+22");
    check_double(1.5e19, "1.5e+19");
    check_double(1.2345678901234567e22, "12345678901234568000000");
    check_double(1.2345678901234567e23, "123456789012345670000000");
    check_double(1.2345678901234567e24, "1.2345678901234568e+24");
    check_double(1e100, "1e+100");
    check_double(1.7976931348623157e308, "1.7976931348623157e+308");
    check_double(5e-324, "5e-324");
    check_double(2.2250738585072014e-308, "2.2250738585072014e-308");
    check_double(0.001, "0.001");
    check_double(0.0001, "0.0001");
    check_double(0.00001, "0.00001");
    check_double(0.000001, "0.000001");
    check_double(1e-7, "1e-7");
    check_double(1.5e-7, "1.5e-7");
    check_double(1.2345e-3, "0.0012345");
    check_double(0.00123456789012, "0.00123456789012");
    check_double(0.000123456789012, "1.23456789012e-4");
    check_double(12345.5, "12345.5");
    check_double(12345.678, "12345.678");
    check_double(12345.6789012, "1.23456789012e+4");
    check_double(1234.56789012, "1234.56789012");
    check_double(-12345.6789012, "-1.23456789012e+4");
    check_double(1234567.1, "1234567.1");
    check_double(123456.7890123, "1.234567890123e+5");
    check_double(1.7e-10, "1.7e-10");
    check_double(-1.7e-100, "-1.7e-100");
    check_double(std::f64::consts::PI, "3.141592653589793");
    check_double(std::f64::consts::E, "2.718281828459045");
    check_double(1.0 / 3.0, "0.3333333333333333");
    check_double(-2.0 / 3.0, "-0.6666666666666666");
    check_double(f64::INFINITY, "inf");
    check_double(f64::NEG_INFINITY, "-inf");
    check_double(f64::NAN, "nan");
}

#[test]
fn a_limited_reply_leaves_out_what_does_not_fit() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let mut out = b"before".to_vec();
        let mut reply = Reply::new(&mut out, protocol).limited(100);
        reply.array(2);
        reply.bulk(b"0123456789");
        assert!(!reply.is_full());
        reply.bulk(&[b'x'; 1000]);
        assert!(reply.is_full());
        let written = reply.mark();
        for _ in 0..1000 {
            reply.bulk(b"");
            reply.integer(-1);
            reply.double(1.5);
            reply.null();
            reply.map(3);
            reply.simple("text");
            reply.verbatim(b"txt", b"text");
        }
        assert_eq!(reply.mark(), written);
        assert!(written <= b"before".len() + 100);
    }
}

/// Numbers and heads were not counted: only a string could end at the limit.
#[test]
fn every_kind_of_element_counts_against_the_limit() {
    let elements: [fn(&mut Reply<'_>); 7] = [
        |reply| reply.bulk(b""),
        |reply| reply.integer(7),
        |reply| reply.double(1.5),
        |reply| reply.null(),
        |reply| reply.array(0),
        |reply| reply.boolean(true),
        |reply| reply.simple(""),
    ];
    for element in elements {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, Protocol::Resp3).limited(10_000);
        (0..10_000).for_each(|_| element(&mut reply));
        assert!(reply.is_full());
        assert!(out.len() <= 10_000 && out.len() > 9_900, "{}", out.len());
    }
}

/// Gives what it has.
struct Purse {
    left: Cell<usize>,
    taken_max: Cell<usize>,
    taken: Cell<usize>,
}

impl Purse {
    fn of(bytes: usize) -> Purse {
        Purse {
            left: Cell::new(bytes),
            taken_max: Cell::new(0),
            taken: Cell::new(0),
        }
    }
}

impl ReplyMemory for Purse {
    fn take(&self, bytes: usize, _: usize) -> bool {
        let remaining = self.left.get().checked_sub(bytes);
        if let Some(remaining) = remaining {
            self.left.set(remaining);
            self.taken.set(self.taken.get() + bytes);
            self.taken_max.set(self.taken_max.get().max(self.taken.get()));
        }
        remaining.is_some()
    }

    fn give_back(&self, old_bytes: usize) {
        self.left.set(self.left.get() + old_bytes);
        self.taken.set(self.taken.get() - old_bytes);
    }
}

#[test]
fn memory_is_taken_before_the_bytes_are_made() {
    let purse = Purse::of(1 << 20);
    let mut out = Vec::new();
    let mut reply = Reply::new(&mut out, Protocol::Resp2).with_memory(&purse);
    let mut written = 0;
    while !reply.is_full() {
        written = reply.mark();
        reply.bulk(&[b'x'; 100]);
    }
    assert_eq!(reply.mark(), written);
    assert_eq!(purse.taken.get(), out.capacity());
    assert!(purse.taken_max.get() <= 1 << 20 && written > 300_000, "{written}");
    // Existing capacity is not taken again, and small replies need no memory.
    let purse = Purse::of(0);
    out.clear();
    let mut reply = Reply::new(&mut out, Protocol::Resp2).with_memory(&purse);
    reply.bulk(&[b'x'; 300_000]);
    assert!(!reply.is_full());
    let mut out = Vec::new();
    let mut reply = Reply::new(&mut out, Protocol::Resp2).with_memory(&purse);
    reply.bulk(&[b'x'; 60_000]);
    assert!(!reply.is_full());
    reply.bulk(&[b'x'; 60_000]);
    assert!(reply.is_full());
    reply.replace_by_error("OOM");
    assert_eq!(out, b"-OOM\r\n");
}

/// A long part that is written later takes no memory, but counts against the limit.
#[test]
fn bytes_announced_for_later_take_no_memory() {
    let (purse, mut out) = (Purse::of(0), Vec::new());
    let mut reply = Reply::new(&mut out, Protocol::Resp2)
        .limited(2 << 20)
        .with_memory(&purse);
    assert_eq!(reply.bulk_to_come(1 << 20), Some(10));
    assert_eq!(reply.bulk_to_come(1 << 20), None);
    assert!(reply.is_full());
    let (purse, mut out) = (Purse::of(4 << 20), Vec::new());
    let reply = Reply::new(&mut out, Protocol::Resp2).with_memory(&purse);
    let mut reply = reply.kept_whole(true);
    let places = [1 << 20, 1 << 20].map(|bytes| reply.bulk_to_come(bytes));
    assert_eq!((places, reply.bulk_to_come(1 << 20)), ([Some(10), Some(22)], None));
    assert!(reply.is_full());
}

const LONGEST_DOUBLE: usize = DOUBLE_BYTES_MAX;

#[test]
fn the_longest_double() {
    let mut out = Vec::new();
    format_double(-1.2345678901234567e23, &mut out);
    assert_eq!(out, b"-123456789012345670000000");
    assert_eq!(out.len(), LONGEST_DOUBLE);
}

proptest! {
    #[test]
    fn doubles_read_back(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        let mut out = Vec::new();
        format_double(value, &mut out);
        prop_assert!(out.len() <= LONGEST_DOUBLE);
        let back: f64 = std::str::from_utf8(&out).unwrap().parse().unwrap();
        prop_assert!(back == value || (back.is_nan() && value.is_nan()));
    }
}

#[test]
fn an_error_that_repeats_megabytes_is_cut_between_characters() {
    for (text, expected) in [
        ("é".repeat(1 << 20), "é".repeat(2048) + "..."),
        (
            "x".to_owned() + &"é".repeat(1 << 20),
            "x".to_owned() + &"é".repeat(2047) + "...",
        ),
        ("x".repeat(4097), "x".repeat(4096) + "..."),
        ("x".repeat(4096), "x".repeat(4096)),
    ] {
        let mut out = Vec::new();
        Reply::new(&mut out, Protocol::Resp2).error(text);
        assert_eq!(std::str::from_utf8(&out).unwrap(), format!("-{expected}\r\n"));
    }
}
