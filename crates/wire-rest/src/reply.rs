//! The answers to a client: RESP2 replies as JSON.
//!
//! `{"result": null | integer | string | array}` or `{"error": text}`. A byte that is not UTF-8
//! becomes U+FFFD unless the client requested Base64, which then encodes every string except the
//! status `OK`; the text of an error always stays plain. An error inside an array, which only
//! scripts produce, is its text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quartet_wire_resp::value::{Item, Reader};

/// How strings in results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    #[default]
    Text,
    /// In Base64, at the client's request.
    Base64,
}

/// The written bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the replies that are done with.
    pub consumed: usize,
    /// The result is an error.
    pub is_error: bool,
}

/// Appends the first of `replies` as an object with a result or an error. `None` if there is no
/// whole reply: nothing is written.
pub fn write_result(replies: &[u8], encoding: Encoding, out: &mut Vec<u8>) -> Option<Written> {
    let start = out.len();
    let mut reader = Reader::new(replies);
    let is_error = replies.first() == Some(&b'-');
    out.extend_from_slice(if is_error { b"{\"error\":" } else { b"{\"result\":" });
    if write_value(&mut reader, encoding, out).is_none() {
        out.truncate(start);
        return None;
    }
    out.push(b'}');
    Some(Written {
        consumed: reader.consumed(),
        is_error,
    })
}

/// Appends the complete replies of `replies`, `count` at most, as an array of objects, each with a
/// result or an error. Returns their number.
pub fn write_results(replies: &[u8], count: usize, encoding: Encoding, out: &mut Vec<u8>) -> usize {
    let mut rest = replies;
    let mut written_count = 0;
    out.push(b'[');
    while written_count < count {
        let start = out.len();
        if written_count > 0 {
            out.push(b',');
        }
        let Some(written) = write_result(rest, encoding, out) else {
            out.truncate(start);
            break;
        };
        rest = &rest[written.consumed..];
        written_count += 1;
    }
    out.push(b']');
    written_count
}

/// Appends a transaction's result: the replies of its commands as an array, or the one error
/// because of which none was executed. `replies` are the replies to MULTI, the queued commands and
/// EXEC. Returns `None` if they are incomplete.
pub fn write_transaction(replies: &[u8], encoding: Encoding, out: &mut Vec<u8>) -> Option<Written> {
    let mut rest = replies;
    loop {
        let is_error = rest.first() == Some(&b'-');
        let mut reader = Reader::new(rest);
        match reader.item(0).ok()?? {
            _ if is_error => return write_result(rest, encoding, out),
            Item::Simple(_) => rest = &rest[reader.consumed()..],
            Item::Elements(_, len) => {
                let count = usize::try_from(len).ok()?;
                let written_count = write_results(&rest[reader.consumed()..], count, encoding, out);
                return (written_count == count).then_some(Written {
                    consumed: replies.len(),
                    is_error: false,
                });
            }
            _ => return None,
        }
    }
}

/// Not recursive: scripts may nest arrays deeply.
fn write_value(reader: &mut Reader<'_>, encoding: Encoding, out: &mut Vec<u8>) -> Option<()> {
    // How many elements each open array still lacks.
    let mut open: Vec<u64> = Vec::new();
    loop {
        match reader.item(0).ok()?? {
            Item::Elements(_, len) | Item::Map(len) if len > 0 => {
                out.push(b'[');
                open.push(len);
                continue;
            }
            Item::Elements(..) | Item::Map(_) => out.extend_from_slice(b"[]"),
            item => write_scalar(item, encoding, out)?,
        }
        loop {
            let Some(lacking) = open.last_mut() else {
                return Some(());
            };
            *lacking -= 1;
            if *lacking > 0 {
                out.push(b',');
                break;
            }
            out.push(b']');
            open.pop();
        }
    }
}

/// Returns `None` for items that RESP2 does not have.
fn write_scalar(item: Item<'_>, encoding: Encoding, out: &mut Vec<u8>) -> Option<()> {
    match item {
        Item::Null | Item::NullArray => out.extend_from_slice(b"null"),
        Item::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Item::Simple(b"OK") => out.extend_from_slice(b"\"OK\""),
        Item::Error(text) => write_text(text, out),
        Item::Simple(bytes) | Item::Bulk(bytes) => match encoding {
            Encoding::Text => write_text(bytes, out),
            Encoding::Base64 => write_base64(bytes, out),
        },
        _ => return None,
    }
    Some(())
}

fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]);
    written.expect("room for four digits instead of three bytes");
    out.push(b'"');
}

/// Appends `bytes` as a JSON string; what is not UTF-8 becomes U+FFFD.
pub fn write_text(bytes: &[u8], out: &mut Vec<u8>) {
    serde_json::to_writer(out, &String::from_utf8_lossy(bytes)).expect("writing to memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reply: &str, text: &str, base64: &str) {
        for (encoding, expected) in [(Encoding::Text, text), (Encoding::Base64, base64)] {
            let mut out = Vec::new();
            let written = write_result(reply.as_bytes(), encoding, &mut out).unwrap();
            assert_eq!(written.consumed, reply.len());
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn replies_become_results_or_errors() {
        check("+OK\r\n", r#"{"result":"OK"}"#, r#"{"result":"OK"}"#);
        check("+PONG\r\n", r#"{"result":"PONG"}"#, r#"{"result":"UE9ORw=="}"#);
        check("$2\r\nOK\r\n", r#"{"result":"OK"}"#, r#"{"result":"T0s="}"#);
        check("$3\r\na\"b\r\n", r#"{"result":"a\"b"}"#, r#"{"result":"YSJi"}"#);
        check("$0\r\n\r\n", r#"{"result":""}"#, r#"{"result":""}"#);
        check(":-7\r\n", r#"{"result":-7}"#, r#"{"result":-7}"#);
        check("$-1\r\n", r#"{"result":null}"#, r#"{"result":null}"#);
        check("*-1\r\n", r#"{"result":null}"#, r#"{"result":null}"#);
        check("-ERR no\r\n", r#"{"error":"ERR no"}"#, r#"{"error":"ERR no"}"#);
        check("*0\r\n", r#"{"result":[]}"#, r#"{"result":[]}"#);
        let nested = "*3\r\n*2\r\n:1\r\n*0\r\n$-1\r\n*1\r\n$1\r\na\r\n";
        check(
            nested,
            r#"{"result":[[1,[]],null,["a"]]}"#,
            r#"{"result":[[1,[]],null,["YQ=="]]}"#,
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_or_encoded() {
        let reply = b"$2\r\n\xff\xfe\r\n";
        for (encoding, expected) in [
            (Encoding::Text, "{\"result\":\"\u{fffd}\u{fffd}\"}"),
            (Encoding::Base64, r#"{"result":"//4="}"#),
        ] {
            let mut out = Vec::new();
            write_result(reply, encoding, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn arrays_may_nest_deeply() {
        let reply = "*1\r\n".repeat(100_000) + ":1\r\n";
        let mut out = Vec::new();
        write_result(reply.as_bytes(), Encoding::Text, &mut out).unwrap();
        assert_eq!(out.len(), "{\"result\":}".len() + 200_001);
    }

    #[test]
    fn several_replies_become_an_array() {
        let mut out = Vec::new();
        let replies = b"+OK\r\n-ERR no\r\n:3\r\n:4";
        assert_eq!(write_results(replies, 9, Encoding::Text, &mut out), 3);
        assert_eq!(out, br#"[{"result":"OK"},{"error":"ERR no"},{"result":3}]"#);
    }

    #[test]
    fn a_transaction_answers_for_its_commands_or_as_a_whole() {
        let check = |replies: &str, expected: &str, is_error: bool| {
            let mut out = Vec::new();
            let written = write_transaction(replies.as_bytes(), Encoding::Text, &mut out).unwrap();
            assert_eq!(
                (String::from_utf8(out).unwrap().as_str(), written.is_error),
                (expected, is_error)
            );
        };
        let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n";
        check(
            &format!("{queued}*2\r\n:1\r\n-ERR no\r\n"),
            r#"[{"result":1},{"error":"ERR no"}]"#,
            false,
        );
        check("+OK\r\n*0\r\n", "[]", false);
        let refused = "+OK\r\n+QUEUED\r\n-ERR unknown\r\n-EXECABORT\r\n";
        check(refused, r#"{"error":"ERR unknown"}"#, true);
        assert_eq!(
            write_transaction(queued.as_bytes(), Encoding::Text, &mut Vec::new()),
            None
        );
    }

    #[test]
    fn parts_of_replies_are_none() {
        for reply in ["", "+OK", "$3\r\nab", "*2\r\n:1\r\n", "x\r\n"] {
            let mut out = b"before".to_vec();
            assert_eq!(write_result(reply.as_bytes(), Encoding::Text, &mut out), None);
            assert_eq!(out, b"before");
        }
    }
}
