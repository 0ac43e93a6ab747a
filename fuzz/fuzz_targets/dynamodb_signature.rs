//! Any request whatever before the verifier of signatures: no panic, and nothing is accepted that
//! was not signed.
//!
//! The input is a request as text: method and URI, headers, an empty line, the body. The seeds hold
//! two that are signed with the verifier's secret; what is made from them and accepted may differ
//! only in what no signature covers.
//!   cargo +nightly fuzz run dynamodb_signature fuzz/corpus/dynamodb_signature fuzz/seeds/dynamodb_signature
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use quartet_server::{Head, Header, Verifier};

/// The time at which the seeds were signed.
const NOW_SECONDS: i64 = 1_700_000_000;
const BODY: &[u8] = b"{}";
const TARGET: &str = "DynamoDB_20120810.ListTables";

const SEEDS: [&str; 2] = [
    include_str!("../seeds/dynamodb_signature/header"),
    include_str!("../seeds/dynamodb_signature/presigned"),
];

static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| {
    let verifier = Verifier::new(&[("key".into(), "fuzz-secret".into())]);
    for seed in SEEDS {
        let (head, body) = seed.split_once("\n\n").unwrap();
        let accepted = with_head(head, |head| verifier.check(head, body.as_bytes(), NOW_SECONDS).is_ok());
        assert_eq!(accepted, Some(true), "a seed is signed");
    }
    verifier
});

fn with_head<T>(text: &str, look: impl FnOnce(&Head<'_>) -> T) -> Option<T> {
    let mut lines = text.split('\n');
    let (method, target) = lines.next()?.split_once(' ')?;
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(':')?;
        let value = value.trim().as_bytes();
        Some(Header { name, value })
    });
    let headers = headers.collect::<Option<Vec<_>>>()?;
    let headers = &headers;
    Some(look(&Head {
        method,
        target,
        headers,
    }))
}

fuzz_target!(|data: &[u8]| {
    let Some(end) = data.windows(2).position(|pair| pair == b"\n\n") else {
        return;
    };
    let (head, body) = (&data[..end], &data[end + 2..]);
    let Ok(head) = std::str::from_utf8(head) else { return };
    with_head(head, |head| {
        if VERIFIER.check(head, body, NOW_SECONDS).is_ok() {
            assert_eq!((body, head.method, head.path()), (BODY, "POST", "/"));
            let targets: Vec<_> = head.values("x-amz-target").collect();
            assert_eq!(targets, [TARGET.as_bytes()], "one operation is signed");
        }
    });
});
