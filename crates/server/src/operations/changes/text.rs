//! Changes as text: a line of JSON for each transaction, or an event with that line as its data.
//!
//! Bytes of clients are written as text if they are UTF-8, and else in base64 under a name that
//! ends in `_base64`. A value that is too large for a line is written as its length, under a name
//! that ends in `_bytes`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quartet_engine::{Change, Shown};
use quartet_model::Version;
use serde_json::{Value, json};

/// Longer values are written as their length.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// One change as JSON.
pub fn change(layer: &'static str, change: Change) -> String {
    let mut line = format!("{{\"layer\":\"{layer}\"");
    for (name, shown) in change.members {
        let (name, value) = member(name, shown);
        line.push_str(&format!(",{}:{value}", Value::from(name)));
    }
    line.push('}');
    line
}

fn member(name: &str, value: Shown) -> (String, Value) {
    match value {
        Shown::Word(word) => (name.to_owned(), word.into()),
        Shown::Number(number) => (name.to_owned(), number.into()),
        Shown::Bytes(bytes) if bytes.len() > VALUE_BYTES_MAX => (format!("{name}_bytes"), bytes.len().into()),
        Shown::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) => (name.to_owned(), text.into()),
            Err(error) => (format!("{name}_base64"), STANDARD.encode(error.as_bytes()).into()),
        },
        Shown::Json(text) if text.len() > VALUE_BYTES_MAX => (format!("{name}_bytes"), text.len().into()),
        Shown::Json(text) => (name.to_owned(), serde_json::from_str(&text).unwrap_or(Value::Null)),
        Shown::List(parts) => (name.to_owned(), parts.into_iter().map(element).collect()),
    }
}

/// Writes bytes where no name can say how they are encoded.
fn element(shown: Shown) -> Value {
    match member("value", shown) {
        (name, value) if name == "value" => value,
        (name, value) => json!({ name: value }),
    }
}

/// One part of a transaction's changes, as sent. Only the last part has the version from which to
/// continue.
pub fn part(version: Version, database: Option<&str>, changes: &str, is_last: bool, is_event_stream: bool) -> Vec<u8> {
    let mut line = format!("{{\"version\":{}", version.0);
    if let Some(database) = database {
        line.push_str(&format!(",\"database\":{}", Value::from(database)));
    }
    line.push_str(&format!(",\"changes\":[{changes}]"));
    if !is_last {
        line.push_str(",\"more\":true");
    }
    line.push('}');
    framed(&line, is_last.then_some(version), is_event_stream)
}

/// Returns the last event of a feed, with the reason.
pub fn end(error: &str, is_event_stream: bool) -> Vec<u8> {
    let line = json!({ "error": error }).to_string();
    framed(&line, None, is_event_stream)
}

fn framed(line: &str, id: Option<Version>, is_event_stream: bool) -> Vec<u8> {
    let id = id.map(|version| format!("id: {}\n", version.0)).unwrap_or_default();
    match is_event_stream {
        true => format!("{id}data: {line}\n\n").into_bytes(),
        false => format!("{line}\n").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_or_base64_or_a_length() {
        let text = Change::new("set", b"k")
            .with_bytes("key", b"k\n")
            .with_bytes("value", &[0xff])
            .with_bytes("large", &vec![b'x'; VALUE_BYTES_MAX + 1])
            .with(
                "list",
                Shown::List(vec![
                    Shown::Number(1),
                    Shown::Bytes(vec![0xfe]),
                    Shown::Json("{\"a\":1}".into()),
                ]),
            );
        let text: Value = serde_json::from_str(&change("redis", text)).unwrap();
        let expected = json!({
            "layer": "redis", "op": "set", "key": "k\n", "value_base64": "/w==", "large_bytes": VALUE_BYTES_MAX + 1,
            "list": [1, {"value_base64": "/g=="}, {"a": 1}],
        });
        assert_eq!(text, expected);
    }

    #[test]
    fn a_feed_can_continue_only_after_the_last_part_of_a_transaction() {
        let first = String::from_utf8(part(Version(7), Some("shop"), "1", false, true)).unwrap();
        assert_eq!(
            first,
            "data: {\"version\":7,\"database\":\"shop\",\"changes\":[1],\"more\":true}\n\n"
        );
        let last = String::from_utf8(part(Version(7), None, "2", true, true)).unwrap();
        assert_eq!(last, "id: 7\ndata: {\"version\":7,\"changes\":[2]}\n\n");
        let line = String::from_utf8(part(Version(7), None, "", true, false)).unwrap();
        assert_eq!(line, "{\"version\":7,\"changes\":[]}\n");
    }
}
