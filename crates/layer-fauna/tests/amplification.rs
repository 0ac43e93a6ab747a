//! The cost of small requests: a table of requests, the bytes that arrive, and the memory and time
//! that they may take.
//!
//! A request of a hundred bytes could grow to gigabytes: sizes were checked after the copying. Each
//! of these gets its answer or the protocol's own refusal. It is a program of its own, since it
//! measures the memory of its process.

#[path = "fauna/world.rs"]
#[allow(dead_code)]
mod world;

use std::time::{Duration, Instant};

use world::World;

/// Sizes of bodies are small against these.
const BODY_BYTES_MAX: usize = 2_000;
/// In addition to the process' memory before: a result may take 64 MiB, a transaction as much,
/// intermediate values 256 MiB.
const MEMORY_BYTES_MAX: u64 = 700 << 20;
/// Without optimization, on a machine that has other things to do.
const TIME_MAX: Duration = Duration::from_secs(60);

/// A text of 16 MiB under `t`, for what follows in `in`.
const TEXT: &str =
    r#"{"t":{"repeat":{"repeat":{"repeat":"0123456789abcdef","number":1024},"number":1024},"number":1}}"#;

const TABLE: [(&str, &str, &str); 16] = [
    (
        "large texts in an array",
        "[TEXT,N]",
        r#"{"map":{"lambda":"i","expr":{"concat":[{"var":"t"},""]}},"collection":{"var":"n"}}"#,
    ),
    (
        "large texts thrown away",
        "[TEXT,N]",
        r#"{"foreach":{"lambda":"i","expr":{"lowercase":{"var":"t"}}},"collection":{"var":"n"}}"#,
    ),
    (
        "repeated",
        "[TEXT,N]",
        r#"{"map":{"lambda":"i","expr":{"repeat":{"var":"t"},"number":1}},"collection":{"var":"n"}}"#,
    ),
    (
        "one argument formatted often",
        "[TEXT,F]",
        r#"{"format":{"var":"f"},"values":{"var":"t"}}"#,
    ),
    (
        "wide columns",
        "[W]",
        r#"{"format":{"repeat":{"var":"w"},"number":1024},"values":"x"}"#,
    ),
    (
        "groups of a regular expression",
        "[M,G]",
        r#"{"replacestrregex":{"var":"m"},"pattern":"(.*)","replace":{"var":"g"}}"#,
    ),
    (
        "a text replaced by longer ones",
        "[TEXT]",
        r#"{"replacestr":{"var":"t"},"find":"0","replace":{"var":"t"}}"#,
    ),
    (
        "long n-grams",
        "[M]",
        r#"{"ngram":{"var":"m"},"min":50000,"max":50001}"#,
    ),
    (
        "arrays that grow by copying",
        "[N]",
        r#"{"reduce":{"lambda":["a","i"],"expr":{"append":{"var":"n"},"collection":{"var":"a"}}},"initial":[],"collection":{"var":"n"}}"#,
    ),
    (
        "one value in many documents",
        "[TEXT,N]",
        r#"{"foreach":{"lambda":"i","expr":{"create":{"collection":"plain"},"params":{"object":{"data":{"object":{"t":{"var":"t"}}}}}}},"collection":{"var":"n"}}"#,
    ),
    (
        "many entries of one document",
        "[K,N]",
        r#"{"create":{"collection":"indexed"},"params":{"object":{"data":{"object":{"t":{"map":{"lambda":"i","expr":{"concat":[{"to_string":{"var":"i"}},{"var":"k"}]}},"collection":{"var":"n"}},"v":{"map":{"lambda":"i","expr":{"concat":[{"to_string":{"var":"i"}},{"var":"k"}]}},"collection":{"var":"n"}}}}}}}"#,
    ),
    (
        "nested lets",
        "[]",
        r#"{"let":[{"a":["xxxxxxxxxxxxxxxx"]},{"b":[{"var":"a"},{"var":"a"},{"var":"a"},{"var":"a"},{"var":"a"},{"var":"a"},{"var":"a"},{"var":"a"}]},{"c":[{"var":"b"},{"var":"b"},{"var":"b"},{"var":"b"},{"var":"b"},{"var":"b"},{"var":"b"},{"var":"b"}]},{"d":[{"var":"c"},{"var":"c"},{"var":"c"},{"var":"c"},{"var":"c"},{"var":"c"},{"var":"c"},{"var":"c"}]},{"e":[{"var":"d"},{"var":"d"},{"var":"d"},{"var":"d"},{"var":"d"},{"var":"d"},{"var":"d"},{"var":"d"}]},{"f":[{"var":"e"},{"var":"e"},{"var":"e"},{"var":"e"},{"var":"e"},{"var":"e"},{"var":"e"},{"var":"e"}]},{"g":[{"var":"f"},{"var":"f"},{"var":"f"},{"var":"f"},{"var":"f"},{"var":"f"},{"var":"f"},{"var":"f"}]},{"h":[{"var":"g"},{"var":"g"},{"var":"g"},{"var":"g"},{"var":"g"},{"var":"g"},{"var":"g"},{"var":"g"}]},{"i":[{"var":"h"},{"var":"h"},{"var":"h"},{"var":"h"},{"var":"h"},{"var":"h"},{"var":"h"},{"var":"h"}]}],"in":{"var":"i"}}"#,
    ),
    (
        "the union of large texts",
        "[TEXT,N]",
        r#"{"map":{"lambda":"i","expr":{"count":{"union":[[{"var":"t"}],[{"var":"t"}]]}}},"collection":{"var":"n"}}"#,
    ),
    (
        "a page of a hundred thousand",
        "[]",
        r#"{"paginate":{"documents":{"collection":"plain"}},"size":100000}"#,
    ),
    (
        "pages of pages",
        "[N]",
        r#"{"map":{"lambda":"i","expr":{"paginate":{"documents":{"collection":"many"}},"size":100000}},"collection":{"var":"n"}}"#,
    ),
    (
        "a union of itself",
        "[]",
        r#"{"count":{"union":[{"union":[{"documents":{"collection":"many"}},{"documents":{"collection":"many"}}]},{"union":[{"documents":{"collection":"many"}},{"documents":{"collection":"many"}}]}]}}"#,
    ),
];

/// The request with what it names bound by `let`.
fn request(bound: &str, body: &str) -> String {
    let numbers: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let mut bindings = Vec::new();
    for name in bound
        .trim_matches(['[', ']'])
        .split(',')
        .filter(|name| !name.is_empty())
    {
        bindings.push(match name {
            "TEXT" => TEXT.to_owned(),
            "N" => format!(r#"{{"n":[{}]}}"#, numbers.join(",")),
            "F" => r#"{"f":{"repeat":"%1$s","number":1024}}"#.to_owned(),
            "G" => r#"{"g":{"repeat":"$1","number":1024}}"#.to_owned(),
            "W" => r#"{"w":{"repeat":"%1$1024s","number":1024}}"#.to_owned(),
            "M" => r#"{"m":{"repeat":{"repeat":"x","number":1024},"number":100}}"#.to_owned(),
            "K" => r#"{"k":{"repeat":"k","number":1024}}"#.to_owned(),
            _ => unreachable!(),
        });
    }
    match bindings.is_empty() {
        true => body.to_owned(),
        false => format!(r#"{{"let":[{}],"in":{body}}}"#, bindings.join(",")),
    }
}

fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes << 10
}

#[test]
fn small_requests_sum_to_little() {
    let world = World::new(1_700_000_000_000_000);
    for query in [
        r#"{"create_collection":{"object":{"name":"plain"}}}"#,
        r#"{"create_collection":{"object":{"name":"indexed"}}}"#,
        r#"{"create_collection":{"object":{"name":"many"}}}"#,
        r#"{"create_index":{"object":{"name":"by_t","source":{"collection":"indexed"},"terms":[{"object":{"field":["data","t"]}}],"values":[{"object":{"field":["data","v"]}}]}}}"#,
    ] {
        world.resource("secret", query);
    }
    let numbers: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    let create = r#"{"create":{"collection":"many"}}"#;
    world.resource(
        "secret",
        &format!(
            r#"{{"foreach":{{"lambda":"i","expr":{create}}},"collection":[{}]}}"#,
            numbers.join(",")
        ),
    );
    for (name, bound, body) in TABLE {
        let query = request(bound, body);
        assert!(query.len() <= BODY_BYTES_MAX, "{name}: {} bytes", query.len());
        // Read first: what is given back between the two is no growth.
        let before = memory("VmRSS");
        // The most that the process has had is forgotten.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let began = Instant::now();
        let reply = world.ask("secret", &query);
        let (most, took) = (memory("VmHWM").saturating_sub(before), began.elapsed());
        println!(
            "{name}: {} bytes in, {} MiB, {took:?}, {} {:.80}",
            query.len(),
            most >> 20,
            reply.status,
            reply.body
        );
        assert!(matches!(reply.status, 200 | 400), "{name}: {}", reply.body);
        assert!(most <= MEMORY_BYTES_MAX, "{name}: {} MiB", most >> 20);
        assert!(took <= TIME_MAX, "{name}: {took:?}");
    }
}
