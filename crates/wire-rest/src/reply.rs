//! The answers to a client: RESP2 replies as JSON.
//!
//! `{"result": null | integer | string | array}` or `{"error": text}`. A byte that is not UTF-8
//! becomes U+FFFD unless the client requested Base64, which then encodes every string except the
//! status `OK`; the text of an error always stays plain. An error inside an array, which only
//! scripts make, is its text.
//!
//! JSON may be six times as long as its source. Its memory is taken before it is made, as the
//! memory of replies is; a result without memory is an error.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quartet_wire_resp::ReplyMemory;
use quartet_wire_resp::reply::grow;
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

/// The JSON that is made.
pub struct Json<'m> {
    bytes: Vec<u8>,
    encoding: Encoding,
    memory: &'m dyn ReplyMemory,
    /// There was no memory for a part of the present result.
    is_full: bool,
}

impl<'m> Json<'m> {
    /// Takes memory for the JSON from `memory`. A result without memory is the error
    /// [`OUT_OF_MEMORY`].
    pub fn new(encoding: Encoding, memory: &'m dyn ReplyMemory) -> Json<'m> {
        Json {
            bytes: Vec::new(),
            encoding,
            memory,
            is_full: false,
        }
    }

    /// Returns what was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn push(&mut self, piece: &[u8]) {
        if self.has_room(piece.len()) {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// Returns whether `more` bytes may be appended, and an error after them.
    fn has_room(&mut self, more: usize) -> bool {
        self.is_full |= !grow(&mut self.bytes, more.saturating_add(ERROR_BYTES), self.memory);
        !self.is_full
    }

    fn text(&mut self, bytes: &[u8]) {
        if self.has_room(text_bytes(bytes)) {
            write_text(bytes, &mut self.bytes);
        }
    }

    fn base64(&mut self, bytes: &[u8]) {
        let len = bytes.len().div_ceil(3) * 4;
        if self.has_room(len + 2) {
            self.bytes.push(b'"');
            let start = self.bytes.len();
            self.bytes.resize(start + len, 0);
            let written = STANDARD.encode_slice(bytes, &mut self.bytes[start..]);
            written.expect("room for four digits instead of three bytes");
            self.bytes.push(b'"');
        }
    }

    /// Replaces what was written since `start` if a part of it is missing.
    fn replace_if_full(&mut self, start: usize) -> bool {
        let was_full = std::mem::take(&mut self.is_full);
        if was_full {
            self.bytes.truncate(start);
            self.bytes.extend_from_slice(b"{\"error\":\"");
            self.bytes.extend_from_slice(OUT_OF_MEMORY.as_bytes());
            self.bytes.extend_from_slice(b"\"}");
        }
        was_full
    }
}

/// The error for a result for which there is no memory.
pub const OUT_OF_MEMORY: &str = "OOM the reply takes more memory than there is left for one";
/// Room that is always left, so that an error needs none.
const ERROR_BYTES: usize = 128;

/// Upper bound on the size of a string in JSON; close for one of many bytes.
fn text_bytes(bytes: &[u8]) -> usize {
    if bytes.len() <= 4096 {
        return 6 * bytes.len() + 2;
    }
    // A byte that is no UTF-8 becomes three, twice for a while.
    let other_bytes = if std::str::from_utf8(bytes).is_ok() { 1 } else { 6 };
    let sizes = bytes.iter().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        0x20..0x80 if other_bytes == 1 => 1,
        0x20..0x80 => 2,
        0x80.. => other_bytes,
    });
    sizes.sum::<usize>() + 2
}

/// Appends the first of `replies` as an object with a result or an error. `None` if there is no
/// whole reply: nothing is written.
pub fn write_result(replies: &[u8], out: &mut Json<'_>) -> Option<Written> {
    let start = out.bytes.len();
    let mut reader = Reader::new(replies);
    let is_error = replies.first() == Some(&b'-');
    out.push(if is_error { b"{\"error\":" } else { b"{\"result\":" });
    if write_value(&mut reader, out).is_none() {
        out.bytes.truncate(start);
        return None;
    }
    out.push(b"}");
    let was_full = out.replace_if_full(start);
    Some(Written {
        consumed: reader.consumed(),
        is_error: is_error || was_full,
    })
}

/// Appends the whole replies of `replies`, `count` at most, as an array of objects, each with a
/// result or an error. Returns their number.
pub fn write_results(replies: &[u8], count: usize, out: &mut Json<'_>) -> usize {
    let mut remaining = replies;
    let mut written_count = 0;
    out.bytes.push(b'[');
    while written_count < count {
        let start = out.bytes.len();
        if written_count > 0 {
            out.bytes.push(b',');
        }
        let Some(written) = write_result(remaining, out) else {
            out.bytes.truncate(start);
            break;
        };
        remaining = &remaining[written.consumed..];
        written_count += 1;
    }
    out.bytes.push(b']');
    written_count
}

/// Appends what a transaction answers: the replies of its commands as an array, or the one error
/// for which none was executed. `replies` are those of MULTI, the queued commands and EXEC. `None`
/// if they are not whole.
pub fn write_transaction(replies: &[u8], out: &mut Json<'_>) -> Option<Written> {
    let mut remaining = replies;
    loop {
        let is_error = remaining.first() == Some(&b'-');
        let mut reader = Reader::new(remaining);
        match reader.item(0).ok()?? {
            _ if is_error => return write_result(remaining, out),
            Item::Simple(_) => remaining = &remaining[reader.consumed()..],
            Item::Elements(_, len) => {
                let count = usize::try_from(len).ok()?;
                let written_count = write_results(&remaining[reader.consumed()..], count, out);
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
fn write_value(reader: &mut Reader<'_>, out: &mut Json<'_>) -> Option<()> {
    // How many elements each open array still lacks.
    let mut open: Vec<u64> = Vec::new();
    loop {
        match reader.item(0).ok()?? {
            Item::Elements(_, len) | Item::Map(len) if len > 0 => {
                out.push(b"[");
                open.push(len);
                continue;
            }
            Item::Elements(..) | Item::Map(_) => out.push(b"[]"),
            item => write_scalar(item, out)?,
        }
        loop {
            let Some(lacking) = open.last_mut() else {
                return Some(());
            };
            *lacking -= 1;
            if *lacking > 0 {
                out.push(b",");
                break;
            }
            out.push(b"]");
            open.pop();
        }
    }
}

/// `None` for what RESP2 does not have.
fn write_scalar(item: Item<'_>, out: &mut Json<'_>) -> Option<()> {
    match item {
        Item::Null | Item::NullArray => out.push(b"null"),
        Item::Integer(number) => out.push(number.to_string().as_bytes()),
        Item::Simple(b"OK") => out.push(b"\"OK\""),
        Item::Error(text) => out.text(text),
        Item::Simple(bytes) | Item::Bulk(bytes) => match out.encoding {
            Encoding::Text => out.text(bytes),
            Encoding::Base64 => out.base64(bytes),
        },
        _ => return None,
    }
    Some(())
}

/// Appends `bytes` as a JSON string; what is not UTF-8 becomes U+FFFD.
pub fn write_text(bytes: &[u8], out: &mut Vec<u8>) {
    serde_json::to_writer(out, &String::from_utf8_lossy(bytes)).expect("writing to memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is always memory.
    struct Plenty;

    impl ReplyMemory for Plenty {
        fn take(&self, _: usize, _: usize) -> bool {
            true
        }

        fn give_back(&self, _: usize) {}
    }

    /// There is none beyond what needs none.
    struct Nothing;

    impl ReplyMemory for Nothing {
        fn take(&self, _: usize, _: usize) -> bool {
            false
        }

        fn give_back(&self, _: usize) {}
    }

    fn json(encoding: Encoding) -> Json<'static> {
        Json::new(encoding, &Plenty)
    }

    #[test]
    fn a_result_without_memory_is_an_error_and_the_others_are_kept() {
        let long = "x".repeat(100_000);
        let replies = format!("$1\r\na\r\n${}\r\n{long}\r\n$1\r\nb\r\n", long.len());
        let mut out = Json::new(Encoding::Text, &Nothing);
        assert_eq!(write_results(replies.as_bytes(), usize::MAX, &mut out), 3);
        let expected = format!("[{{\"result\":\"a\"}},{{\"error\":\"{OUT_OF_MEMORY}\"}},{{\"result\":\"b\"}}]");
        assert_eq!(String::from_utf8(out.into_bytes()).unwrap(), expected);
        let mut out = Json::new(Encoding::Base64, &Nothing);
        let single = format!("${}\r\n{long}\r\n", long.len());
        assert!(write_result(single.as_bytes(), &mut out).unwrap().is_error);
    }

    #[test]
    fn the_bound_on_a_string_holds() {
        for text in [
            &b"plain"[..],
            b"\"\\\n\x01",
            "\u{e9}\u{20ac}".as_bytes(),
            b"\xff\xfe\x80a\"",
        ] {
            for times in [1, 5000] {
                let text = text.repeat(times);
                let mut out = Vec::new();
                write_text(&text, &mut out);
                assert!(out.len() <= text_bytes(&text), "{}", out.len());
            }
        }
    }

    fn check(reply: &str, text: &str, base64: &str) {
        for (encoding, expected) in [(Encoding::Text, text), (Encoding::Base64, base64)] {
            let mut out = json(encoding);
            let written = write_result(reply.as_bytes(), &mut out).unwrap();
            assert_eq!(written.consumed, reply.len());
            assert_eq!(String::from_utf8(out.into_bytes()).unwrap(), expected);
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
            let mut out = json(encoding);
            write_result(reply, &mut out).unwrap();
            assert_eq!(String::from_utf8(out.into_bytes()).unwrap(), expected);
        }
    }

    #[test]
    fn arrays_may_nest_deeply() {
        let reply = "*1\r\n".repeat(100_000) + ":1\r\n";
        let mut out = json(Encoding::Text);
        write_result(reply.as_bytes(), &mut out).unwrap();
        assert_eq!(out.into_bytes().len(), "{\"result\":}".len() + 200_001);
    }

    #[test]
    fn several_replies_become_an_array() {
        let mut out = json(Encoding::Text);
        let replies = b"+OK\r\n-ERR no\r\n:3\r\n:4";
        assert_eq!(write_results(replies, 9, &mut out), 3);
        assert_eq!(
            out.into_bytes(),
            br#"[{"result":"OK"},{"error":"ERR no"},{"result":3}]"#
        );
    }

    #[test]
    fn a_transaction_answers_for_its_commands_or_as_a_whole() {
        let check = |replies: &str, expected: &str, is_error: bool| {
            let mut out = json(Encoding::Text);
            let written = write_transaction(replies.as_bytes(), &mut out).unwrap();
            assert_eq!(
                (String::from_utf8(out.into_bytes()).unwrap().as_str(), written.is_error),
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
        assert_eq!(write_transaction(queued.as_bytes(), &mut json(Encoding::Text)), None);
    }

    #[test]
    fn parts_of_replies_are_none() {
        for reply in ["", "+OK", "$3\r\nab", "*2\r\n:1\r\n", "x\r\n"] {
            let mut out = json(Encoding::Text);
            assert_eq!(write_result(reply.as_bytes(), &mut out), None);
            assert!(out.into_bytes().is_empty());
        }
    }
}
