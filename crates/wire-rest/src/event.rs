//! The events of a listener: RESP2 messages as lines of an event stream (`text/event-stream`, the
//! WHATWG HTML standard's 9.2).
//!
//! A message of publish and subscribe is `data: message,channel,payload`; a line of MONITOR is
//! `data: ` and the line, and what confirms MONITOR is `data: "OK"`. A payload that has lines of
//! its own takes a `data: ` for each.

use quartet_wire_resp::value::{Item, Reader};

/// Appends the complete messages of `messages`, an event each. Returns the number of processed
/// bytes.
pub fn write_events(messages: &[u8], out: &mut Vec<u8>) -> usize {
    let mut consumed = 0;
    let mut text = Vec::new();
    while let Some(bytes) = write_message(&messages[consumed..], &mut text) {
        consumed += bytes;
        for line in text.split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(String::from_utf8_lossy(line).as_bytes());
            out.push(b'\n');
        }
        out.push(b'\n');
        text.clear();
    }
    consumed
}

/// The elements of the message with commas between them, or the line that it is.
fn write_message(messages: &[u8], text: &mut Vec<u8>) -> Option<usize> {
    let mut reader = Reader::new(messages);
    match reader.item(0).ok()?? {
        Item::Elements(_, len) => {
            for index in 0..len {
                if index > 0 {
                    text.push(b',');
                }
                match reader.item(0).ok()?? {
                    Item::Bulk(bytes) | Item::Simple(bytes) => text.extend_from_slice(bytes),
                    Item::Integer(number) => text.extend_from_slice(number.to_string().as_bytes()),
                    Item::Null => {}
                    _ => return None,
                }
            }
        }
        Item::Simple(b"OK") => text.extend_from_slice(b"\"OK\""),
        Item::Simple(line) => text.extend_from_slice(line),
        _ => return None,
    }
    Some(reader.consumed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(messages: &str, expected: &str, unconsumed: usize) {
        let mut out = Vec::new();
        assert_eq!(write_events(messages.as_bytes(), &mut out), messages.len() - unconsumed);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn messages_are_events() {
        let subscribed = "*3\r\n$9\r\nsubscribe\r\n$4\r\nchat\r\n:1\r\n";
        let message = "*3\r\n$7\r\nmessage\r\n$4\r\nchat\r\n$5\r\na\nb,c\r\n";
        check(subscribed, "data: subscribe,chat,1\n\n", 0);
        check(
            &format!("{subscribed}{message}*3\r\n$7"),
            "data: subscribe,chat,1\n\ndata: message,chat,a\ndata: b,c\n\n",
            6,
        );
        check(
            "+OK\r\n+1.5 [0 a] \"GET\"\r\n",
            "data: \"OK\"\n\ndata: 1.5 [0 a] \"GET\"\n\n",
            0,
        );
    }
}
