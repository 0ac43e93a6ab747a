//! Replays what the original server was observed to answer: `tests/fauna/golden.jsonl`, in order,
//! on a fresh database.
//!
//! Values that depend on the moment (times, generated ids, secrets) are matched by pairing: a
//! recorded value must correspond to the same value of ours at every occurrence. Everything else
//! must be equal, including the kind of each number. Deliberate differences are named below, each
//! with its reason.

use std::collections::HashMap;

use base64::Engine as _;
use quartet_layer_fauna::{Reply, Request};
use serde_json::Value;

use crate::world::World;

/// Cases with a different answer here, and the reason.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "auth/token_self_denied",
        "a token that no role covers may read its own document: the drivers' suites expect what the cloud did",
    ),
    (
        "http/query_timeout_1ms",
        "a count of seven documents is done within the millisecond",
    ),
];

/// Cases with another count of operations, and the reason.
const DIFFERENT_OPERATIONS: &[(&str, &str)] = &[
    (
        "setup/create_index_multi",
        "the original writes a task beside the index; an index over few documents is built at once",
    ),
    (
        "page/agg_set",
        "each element of a fold is a step, and 50 steps are one operation",
    ),
    (
        "mixed/page_small",
        "the original reads the set again for each part of a small page",
    ),
];

/// Values of the recording and what they are here.
#[derive(Default)]
struct Pairs {
    known: HashMap<String, String>,
    secrets: HashMap<String, String>,
}

impl Pairs {
    fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, secret) in &self.secrets {
            filled = filled.replace(&format!("<secret:{name}>"), secret);
        }
        if let Some(encoded) = filled.strip_prefix("Basic base64(") {
            let plain = encoded.trim_end_matches(')');
            return format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(plain));
        }
        filled
    }

    fn paired(&mut self, recorded: String, ours: String) -> Result<(), String> {
        match self.known.get(&recorded) {
            Some(previous) if *previous != ours => Err(format!("{recorded} was {previous} and is now {ours}")),
            _ => {
                self.known.insert(recorded, ours);
                Ok(())
            }
        }
    }

    fn compare(&mut self, recorded: &Value, ours: &Value) -> Result<(), String> {
        match (recorded, ours) {
            (Value::Object(recorded), Value::Object(ours)) => {
                for key in recorded.keys().chain(ours.keys()) {
                    match (key.as_str(), recorded.get(key), ours.get(key)) {
                        ("hashed_secret", Some(_), Some(_)) => {}
                        (_, Some(recorded), Some(ours)) => {
                            self.compare(recorded, ours).map_err(|why| format!("{key}: {why}"))?;
                        }
                        (_, recorded, ours) => return Err(format!("{key}: {recorded:?} against {ours:?}")),
                    }
                }
                Ok(())
            }
            (Value::Array(recorded), Value::Array(ours)) if recorded.len() == ours.len() => recorded
                .iter()
                .zip(ours)
                .try_for_each(|(recorded, ours)| self.compare(recorded, ours)),
            (Value::String(text), Value::String(ours)) if text.starts_with("<secret:") => {
                let name = text.trim_start_matches("<secret:").trim_end_matches('>');
                self.secrets.insert(name.to_owned(), ours.clone());
                Ok(())
            }
            (Value::String(recorded), Value::String(ours)) if is_volatile(recorded) => {
                self.paired(recorded.clone(), ours.clone())
            }
            (Value::Number(recorded), Value::Number(ours)) if is_time(&recorded.to_string()) => {
                self.paired(recorded.to_string(), ours.to_string())
            }
            (recorded, ours) if recorded == ours => Ok(()),
            (recorded, ours) => Err(format!("{recorded} against {ours}")),
        }
    }
}

fn is_time(digits: &str) -> bool {
    digits.len() == 16 && digits.starts_with("17952")
}

fn is_volatile(text: &str) -> bool {
    let is_id = text.len() == 18 && text.starts_with("48125");
    let is_global_id = text.starts_with("y4sh") || text.contains("/db/y4sh");
    is_id || is_global_id || text.starts_with("2026-") || text.contains(" 2026-")
}

/// Compares the operations that a query's reply reports.
fn compare_operations(line: &Value, reply: &Reply) -> Result<(), String> {
    let name = line["name"].as_str().unwrap_or_default();
    let mut different = Vec::new();
    for header in ["x-compute-ops", "x-byte-read-ops", "x-byte-write-ops"] {
        let recorded = line["response_headers"][header].as_str();
        let ours = reply.headers.iter().find(|(name, _)| *name == header);
        if let (Some(recorded), Some((_, ours))) = (recorded, ours)
            && recorded != ours
        {
            different.push(format!("{header}: {recorded} against {ours}"));
        }
    }
    let is_expected = DIFFERENT_OPERATIONS.iter().any(|(case, _)| *case == name);
    match different.is_empty() != is_expected {
        true => Ok(()),
        false => Err(format!("operations {different:?}")),
    }
}

#[test]
fn every_recorded_request_is_answered_as_it_was() {
    let world = World::new(1_795_220_341_000_000);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fauna/golden.jsonl");
    let recording = std::fs::read_to_string(path).unwrap();
    let (mut pairs, mut wrong, mut count) = (Pairs::default(), Vec::new(), 0);
    for line in recording.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| line[key].as_str().unwrap_or_default();
        let headers = line["request_headers"].as_object().unwrap().iter();
        let headers: Vec<(String, String)> = headers
            .map(|(name, value)| (name.to_lowercase(), pairs.fill(value.as_str().unwrap())))
            .collect();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let reply = world.fauna.answer(Request {
            method: text("method"),
            target: text("path"),
            headers: &headers,
            body: text("request_body").as_bytes(),
        });
        world.clock.advance(10_000);
        while world.fauna.maintain() {}
        count += 1;
        let recorded: Value = serde_json::from_str(text("response_body")).unwrap_or(Value::Null);
        let ours: Value = serde_json::from_str(&reply.body).unwrap_or(Value::Null);
        let status = line["status"].as_u64().unwrap();
        let operations = compare_operations(&line, &reply);
        let mut compared = pairs.compare(&recorded, &ours);
        if status != u64::from(reply.status) {
            compared = Err(format!("status {status} against {}", reply.status));
        }
        let expected = DIFFERENCES.iter().any(|(name, _)| *name == text("name"));
        if compared.is_ok() {
            compared = operations;
        }
        if compared.is_err() != expected {
            let why = compared.err().unwrap_or_else(|| "no longer different".into());
            wrong.push(format!(
                "{}: {why}\n  asked {}\n  was {}\n  is  {}",
                text("name"),
                text("request_body"),
                text("response_body"),
                reply.body
            ));
        }
    }
    assert_eq!(world.findings(), []);
    eprintln!("{count} compared, {} pairs", pairs.known.len());
    assert!(
        wrong.is_empty(),
        "{} of {count} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
