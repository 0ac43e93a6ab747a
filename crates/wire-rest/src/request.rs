//! A client's request: one command in the path or the body, or several in the body.
//!
//! Arguments may be written as strings, numbers, booleans or null. All but strings are taken as
//! they are written: `1.50` stays `1.50`, `null` is the word `null`, an object or array inside a
//! command is its JSON text.
//!
//! Half of a surrogate pair, which JavaScript and Python write as an escape for a string that was
//! cut inside an emoji, has no UTF-8: it becomes U+FFFD, as in Upstash, whose server reads JSON
//! like Go.

use quartet_wire_resp::{Protocol, Reply, encode_command};
use serde_json::value::RawValue;

/// Whole requests in RESP, concatenated.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Commands {
    bytes: Vec<u8>,
    /// The ends of the requests.
    ends: Vec<usize>,
    is_transaction: bool,
}

/// The request cannot be read. The text is the error for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The body of a command.
    #[error("ERR failed to parse command: a JSON array with the command's name and arguments is expected")]
    Command,
    /// The body of several commands.
    #[error("ERR failed to parse the request: a JSON array of commands, each an array itself, is expected")]
    Commands,
    /// A command without a name.
    #[error("ERR empty command")]
    Empty,
    /// The path.
    #[error("ERR failed to parse the path: malformed percent-encoding")]
    Path,
}

impl Commands {
    /// The number of requests.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The memory that the requests take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// There is no request.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The command at `index`, as RESP.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        (index < self.len()).then(|| self.range(index, index + 1))
    }

    /// The commands of `start..end`, concatenated.
    pub fn range(&self, start: usize, end: usize) -> &[u8] {
        let end_of = |count: usize| count.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.bytes[end_of(start)..end_of(end)]
    }

    /// The number of commands from `start` on in the first `bytes` bytes.
    pub fn count_in(&self, start: usize, bytes: usize) -> usize {
        let before = start.checked_sub(1).map_or(0, |last| self.ends[last]);
        self.ends[start..].partition_point(|end| *end <= before + bytes)
    }

    /// The first command is MULTI and the last EXEC, and the client wrote neither.
    pub fn is_transaction(&self) -> bool {
        self.is_transaction
    }

    /// The same commands between MULTI and EXEC.
    pub fn into_transaction(self) -> Commands {
        let mut whole = Commands {
            is_transaction: true,
            ..Commands::default()
        };
        encode_command(&["MULTI"], &mut whole.bytes);
        whole.ends.push(whole.bytes.len());
        let shift = whole.bytes.len();
        whole.bytes.extend_from_slice(&self.bytes);
        whole.ends.extend(self.ends.iter().map(|end| end + shift));
        encode_command(&["EXEC"], &mut whole.bytes);
        whole.ends.push(whole.bytes.len());
        whole
    }

    /// The command of a request with a path: its segments are the command's words, the body is one
    /// more, and so are the names and values of the query, except `_token`. Without a path the body
    /// is the command.
    pub fn of_path(path: &str, query: Option<&str>, body: &[u8]) -> Result<Commands, Malformed> {
        let path = path.strip_prefix('/').unwrap_or(path);
        if path.is_empty() {
            return Commands::of_body(body);
        }
        let mut words = Vec::new();
        for segment in path.split('/') {
            words.push(decoded(segment, false)?);
        }
        if !body.is_empty() {
            words.push(body.to_vec());
        }
        for (name, value) in pairs(query.unwrap_or_default()).filter(|(name, _)| *name != TOKEN) {
            words.push(decoded(name, true)?);
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                words.push(decoded(value, true)?);
            }
        }
        if words[0].is_empty() {
            return Err(Malformed::Empty);
        }
        let mut commands = Commands::default();
        encode_command(&words, &mut commands.bytes);
        commands.ends.push(commands.bytes.len());
        Ok(commands)
    }

    /// The single command of a body.
    fn of_body(body: &[u8]) -> Result<Commands, Malformed> {
        let words: Vec<&RawValue> = serde_json::from_slice(body).map_err(|_| Malformed::Command)?;
        let mut commands = Commands::default();
        commands.push(&words, Malformed::Command)?;
        Ok(commands)
    }

    fn push(&mut self, words: &[&RawValue], malformed: Malformed) -> Result<(), Malformed> {
        if words.is_empty() {
            return Err(Malformed::Empty);
        }
        let mut request = Reply::new(&mut self.bytes, Protocol::Resp2);
        request.array(words.len());
        for word in words {
            match plain(word.get()) {
                Some(text) => request.bulk(text.as_bytes()),
                None => {
                    let text = unescaped(word.get()).ok_or(malformed)?;
                    request.bulk(text.as_bytes());
                }
            }
        }
        self.ends.push(self.bytes.len());
        Ok(())
    }
}

/// The commands of the body of a pipeline or a transaction, in their order. There may be none.
pub fn commands_of_body(body: &[u8]) -> Result<Commands, Malformed> {
    let rows: Vec<Vec<&RawValue>> = serde_json::from_slice(body).map_err(|_| Malformed::Commands)?;
    let mut commands = Commands::default();
    for words in &rows {
        commands.push(words, Malformed::Commands)?;
    }
    Ok(commands)
}

/// The query parameter that replaces the header with the token.
const TOKEN: &str = "_token";

/// The token in the query, if there is one.
pub fn token_of_query(query: Option<&str>) -> Option<String> {
    let (_, value) = pairs(query?).find(|(name, _)| *name == TOKEN)?;
    String::from_utf8(decoded(value?, true).ok()?).ok()
}

/// The first value of this name in the query, decoded; `None` if there is none.
pub fn query_value(query: Option<&str>, name: &str) -> Result<Option<Vec<u8>>, Malformed> {
    let pair = query.and_then(|query| pairs(query).find(|(key, _)| *key == name));
    pair.map(|(_, value)| decoded(value.unwrap_or_default(), true))
        .transpose()
}

/// Names of a query with their values, both still encoded.
fn pairs(query: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts.map(|part| match part.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (part, None),
    })
}

/// Percent-decodes a segment of a path, or a part of a query. Only in a query does `+` mean a
/// blank.
pub fn decoded(text: &str, is_query: bool) -> Result<Vec<u8>, Malformed> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut remaining = text.bytes();
    while let Some(byte) = remaining.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| (byte? as char).to_digit(16);
                let (high, low) = (digit(remaining.next()), digit(remaining.next()));
                let (Some(high), Some(low)) = (high, low) else {
                    return Err(Malformed::Path);
                };
                (high * 16 + low) as u8
            }
            b'+' if is_query => b' ',
            _ => byte,
        });
    }
    Ok(bytes)
}

/// The value of a JSON item, if it can be seen without rewriting it: a string without escapes, or
/// no string.
fn plain(json: &str) -> Option<&str> {
    match json.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(inner) => (!inner.contains('\\')).then_some(inner),
        None => Some(json),
    }
}

/// Returns the value of a JSON string with escapes; `None` if it is none.
fn unescaped(json: &str) -> Option<String> {
    let text = serde_json::from_str(json);
    text.or_else(|_| serde_json::from_str(&without_half_pairs(json))).ok()
}

/// Replaces the escapes of half a surrogate pair in a JSON string by escapes of U+FFFD.
fn without_half_pairs(json: &str) -> String {
    let (mut mended, mut remaining) = (String::with_capacity(json.len()), json);
    while let Some(start) = remaining.find('\\') {
        let (before, escape) = remaining.split_at(start);
        mended.push_str(before);
        let (is_half, length) = match (surrogate(escape), escape.get(6..).and_then(surrogate)) {
            (Some(Half::High), Some(Half::Low)) => (false, 12),
            (Some(_), _) => (true, 6),
            // The escaped character may be any, a second backslash included.
            (None, _) => (false, 1 + escape[1..].chars().next().map_or(0, char::len_utf8)),
        };
        mended.push_str(if is_half { "\\ufffd" } else { &escape[..length] });
        remaining = &escape[length..];
    }
    mended + remaining
}

enum Half {
    High,
    Low,
}

/// The half of a surrogate pair that `text` starts with as an escape.
fn surrogate(text: &str) -> Option<Half> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..0xdc00 => Some(Half::High),
        0xdc00..0xe000 => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of each command, blanks between them.
    fn shown(commands: Result<Commands, Malformed>) -> Vec<String> {
        let commands = commands.unwrap();
        let all = (0..commands.len()).map(|index| commands.get(index).unwrap());
        all.map(|request| {
            let mut parser = quartet_wire_resp::Parser::new();
            let parsed = parser.parse(request, &quartet_wire_resp::Limits::unlimited());
            let quartet_wire_resp::Parsed::Request { consumed } = parsed.unwrap() else {
                panic!("no whole request")
            };
            assert_eq!(consumed, request.len());
            let words = parser.arguments(request);
            let words: Vec<_> = words.iter().map(String::from_utf8_lossy).collect();
            words.join(" ")
        })
        .collect()
    }

    fn check(path: &str, query: Option<&str>, body: &str, expected: &str) {
        assert_eq!(shown(Commands::of_path(path, query, body.as_bytes())), [expected]);
    }

    #[test]
    fn a_path_a_body_and_a_query_make_one_command() {
        check("/set/foo/bar/EX/100", None, "", "set foo bar EX 100");
        check("/set/a%2Fb/%c3%a4+", None, "", "set a/b ä+");
        check(
            "/set/foo",
            Some("EX=100&_token=x&NX"),
            "a value",
            "set foo a value EX 100 NX",
        );
        check("/echo/", None, "", "echo ");
        check("/get/a", Some("x=a+b&empty="), "", "get a x a b empty");
    }

    #[test]
    fn a_body_without_a_path_is_a_command() {
        check(
            "/",
            None,
            r#" ["SET", "k", 1.50, true, null, -7] "#,
            "SET k 1.50 true null -7",
        );
        check(
            "/",
            None,
            r#"["SET","a\n\u00e4\ud83d\ude00","{\"x\":1}"]"#,
            "SET a\nä😀 {\"x\":1}",
        );
        check(
            "",
            None,
            r#"["JSON.SET","k","$",{"a": [1]}]"#,
            r#"JSON.SET k $ {"a": [1]}"#,
        );
    }

    /// `"😀".slice(0, 1)` of JavaScript arrived as `\ud83d`, and the whole request was refused.
    #[test]
    fn half_a_surrogate_pair_is_read_as_a_replacement_character() {
        for (json, text) in [
            (r"\ud83d", "\u{fffd}"),
            (r"\uDE00", "\u{fffd}"),
            (r"a\ud83d\ud83d\ude00b", "a\u{fffd}😀b"),
            (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
            (r"\\ud83d\ud83d\n", "\\ud83d\u{fffd}\n"),
            (r"\ud83dé\u00e9", "\u{fffd}éé"),
        ] {
            check("/", None, &format!(r#"["SET","k","{json}"]"#), &format!("SET k {text}"));
            let pipeline = format!(r#"[["ECHO","{json}"]]"#);
            assert_eq!(shown(commands_of_body(pipeline.as_bytes())), [format!("ECHO {text}")]);
        }
    }

    #[test]
    fn bodies_of_pipelines_are_arrays_of_commands() {
        let body = br#"[["SET","a",1],["GET","a"]]"#;
        assert_eq!(shown(commands_of_body(body)), ["SET a 1", "GET a"]);
        assert!(commands_of_body(b"[]").unwrap().is_empty());
        let commands = commands_of_body(body).unwrap();
        assert_eq!(commands.range(1, 2), commands.get(1).unwrap());
        let first_bytes = commands.get(0).unwrap().len();
        assert_eq!(
            (commands.count_in(0, first_bytes), commands.count_in(0, first_bytes - 1)),
            (1, 0)
        );
        assert_eq!(commands.count_in(1, commands.get(1).unwrap().len()), 1);
        assert_eq!(
            shown(Ok(commands.into_transaction())),
            ["MULTI", "SET a 1", "GET a", "EXEC"]
        );
    }

    #[test]
    fn an_unreadable_request_is_refused() {
        let refusal = |body: &str| Commands::of_path("/", None, body.as_bytes()).unwrap_err();
        for body in [
            "",
            "{}",
            "\"GET\"",
            "[\"GET\"",
            "[\"GET\"] x",
            "[\"\\x\"]",
            "[\"\\ud80\"]",
            "[\"\\ud800\\x\"]",
        ] {
            assert_eq!(refusal(body), Malformed::Command, "{body}");
        }
        assert_eq!(refusal("[]"), Malformed::Empty);
        assert_eq!(commands_of_body(b"[[]]"), Err(Malformed::Empty));
        for body in ["", "[\"GET\"]", "[[\"GET\"], 1]", "{}"] {
            assert_eq!(commands_of_body(body.as_bytes()), Err(Malformed::Commands), "{body}");
        }
        for path in ["/get/%", "/get/%4", "/get/%zz"] {
            assert_eq!(Commands::of_path(path, None, b""), Err(Malformed::Path), "{path}");
        }
        assert_eq!(Commands::of_path("//a", None, b""), Err(Malformed::Empty));
    }

    #[test]
    fn the_token_may_be_in_the_query() {
        assert_eq!(token_of_query(Some("EX=1&_token=a%3Db")).as_deref(), Some("a=b"));
        assert_eq!(token_of_query(Some("token=a")), None);
        assert_eq!(token_of_query(None), None);
    }
}
