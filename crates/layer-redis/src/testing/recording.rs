//! Replies and dumps recorded of an original module, and their comparison with ours.
//!
//! A recording has a JSON object a line: a `command` with its replies `resp2` and `resp3` in the
//! form of [`show`], or the name of a key, `dump`, with the hexadecimal `payload` that DUMP
//! returned.

use quartet_wire_resp::{Value, decode, encode_command};
use serde_json::Value as Json;

use super::{Connection, Fixture, show};

/// A recorded file.
pub struct Recording {
    lines: Vec<Json>,
}

/// A recorded reply, and the reply of this server to the same command.
pub struct Compared<'r> {
    pub words: &'r [&'r str],
    pub is_resp3: bool,
    pub expected: &'r str,
    pub reply: &'r str,
}

impl Recording {
    pub fn parse(text: &str) -> Recording {
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        Recording { lines: lines.collect() }
    }

    /// Runs all commands. Returns a description of each reply that is not alike.
    pub fn replay(&self, fixture: &Fixture, is_alike: impl Fn(&Compared<'_>) -> bool) -> Vec<String> {
        let mut connections = [("resp2", fixture.connect()), ("resp3", fixture.connect())];
        connections[1].1.run(&["HELLO", "3"]);
        let mut wrong = Vec::new();
        for line in self.lines.iter().filter(|line| line["command"].is_array()) {
            let words = words(line);
            for (protocol, connection) in &mut connections {
                let Some(expected) = line[*protocol].as_str() else {
                    continue;
                };
                let reply = show(&connection.run(&words));
                let compared = Compared {
                    words: &words,
                    is_resp3: *protocol == "resp3",
                    expected,
                    reply: &reply,
                };
                if !is_alike(&compared) {
                    let request = words.join(" ");
                    wrong.push(format!(
                        "{protocol} {request}\n  expected {expected}\n  reply    {reply}"
                    ));
                }
            }
        }
        wrong
    }

    /// The names of dumped keys with their payloads.
    pub fn dumps(&self) -> impl Iterator<Item = (&str, Vec<u8>)> {
        let dumps = self
            .lines
            .iter()
            .filter_map(|line| Some((line["dump"].as_str()?, line)));
        dumps.map(|(name, line)| (name, bytes_of_hexadecimal(line["payload"].as_str().unwrap())))
    }
}

fn words(line: &Json) -> Vec<&str> {
    let words = line["command"].as_array().unwrap();
    words.iter().map(|word| word.as_str().unwrap()).collect()
}

fn bytes_of_hexadecimal(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

/// DUMP of a key.
pub fn dump(connection: &mut Connection, name: &str) -> Vec<u8> {
    match connection.run(&["DUMP", name]) {
        Value::Bulk(payload) => payload,
        other => panic!("{other:?}"),
    }
}

/// Replaces a key by a payload. Returns the reply.
pub fn restore(connection: &mut Connection, name: &str, payload: &[u8]) -> String {
    let words: [&[u8]; 5] = [b"RESTORE", name.as_bytes(), b"0", payload, b"REPLACE"];
    let (mut request, mut out) = (Vec::new(), Vec::new());
    encode_command(&words, &mut request);
    connection.session.receive(&request, &mut out);
    show(&decode(&out).unwrap().unwrap().0)
}

/// Passes on a payload with one bit changed, under a valid checksum: the bits of about `places`
/// bytes in turn.
pub fn each_damaged(payload: &[u8], places: usize, check: &mut dyn FnMut(&[u8])) {
    // Without the version and the checksum.
    let body = &payload[..payload.len() - 10];
    for at in (0..body.len()).step_by(1 + body.len() / places) {
        for bit in 0..8 {
            let mut damaged = body.to_vec();
            damaged[at] ^= 1 << bit;
            check(&quartet_wire_rdb::seal(damaged));
        }
    }
}

/// Runs a command. Returns the bytes of its record in the log, 0 if it has none.
pub fn logged_bytes(fixture: &Fixture, words: &[&str]) -> usize {
    let engine = &fixture.layer.engine;
    let wait = || {
        let last = engine.partition().last_version();
        assert!(engine.wait_durable(last));
    };
    wait();
    let mut reader = engine.read_log(engine.durable_sequence().next()).unwrap();
    let reply = show(&fixture.connect().run(words));
    assert!(!reply.starts_with('!'), "{reply}");
    wait();
    reader.next().unwrap().map_or(0, |record| record.payload.len())
}
