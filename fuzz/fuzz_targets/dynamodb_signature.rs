//! Any request whatever before the verifier of signatures: no panic, and nothing is accepted that was not signed.
//!
//! The input is a request as text: method and URI, headers, an empty line, the body. The seeds hold two that are signed with
//! the verifier's secret; what is made from them and accepted may differ only in what no signature covers.
//!   cargo +nightly fuzz run dynamodb_signature fuzz/corpus/dynamodb_signature fuzz/seeds/dynamodb_signature
#![no_main]

use std::sync::LazyLock;

use hyper::Request;
use hyper::http::request::Parts;
use libfuzzer_sys::fuzz_target;
use quartet_server::Verifier;

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
        verifier.check(&parse(head).unwrap(), body.as_bytes(), NOW_SECONDS).expect("a seed is signed");
    }
    verifier
});

fn parse(head: &str) -> Option<Parts> {
    let mut lines = head.split('\n');
    let (method, uri) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(uri);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        request = request.header(name, value.trim());
    }
    Some(request.body(()).ok()?.into_parts().0)
}

fuzz_target!(|data: &[u8]| {
    let Some(end) = data.windows(2).position(|pair| pair == b"\n\n") else { return };
    let (head, body) = (&data[..end], &data[end + 2..]);
    let Some(head) = std::str::from_utf8(head).ok().and_then(parse) else { return };
    if VERIFIER.check(&head, body, NOW_SECONDS).is_ok() {
        let targets: Vec<_> = head.headers.get_all("x-amz-target").iter().collect();
        assert_eq!((body, head.method.as_str(), head.uri.path()), (BODY, "POST", "/"));
        assert_eq!(targets, [TARGET], "one operation is signed");
    }
});
