//! JSON as the protocol reads it: whether a number is an integer or a double is decided by its
//! spelling.
//!
//! Follows the original where they differ from the standard (observed replies): the first of two
//! equal keys wins, text after the value is ignored, a lone surrogate becomes `?`, an integer
//! beyond 64 bits is refused. Nesting is limited before anything recurses.

use std::collections::HashSet;
use std::sync::Arc;

use crate::language::interned;

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    String(Arc<str>),
    Array(Arc<Vec<Json>>),
    /// In order of arrival; keys differ.
    Object(Arc<Vec<(Arc<str>, Json)>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonError {
    Empty,
    Invalid,
    TooDeep,
}

/// Arrays and objects within each other.
pub const NESTING_MAX: usize = 500;

pub fn parse(bytes: &[u8]) -> Result<Json, JsonError> {
    let text = std::str::from_utf8(bytes).map_err(|_| JsonError::Invalid)?;
    let mut parser = Parser { text, at: 0, depth: 0 };
    parser.skip_space();
    if parser.at == text.len() {
        return Err(JsonError::Empty);
    }
    parser.value()
}

impl Json {
    pub fn field(&self, key: &str) -> Option<&Json> {
        let Json::Object(fields) = self else { return None };
        fields.iter().find(|(name, _)| &**name == key).map(|(_, value)| value)
    }

    /// The name that error messages have for its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "Null",
            Json::Bool(_) => "Boolean",
            Json::Int(_) => "Integer",
            Json::Double(_) => "Double",
            Json::String(_) => "String",
            Json::Array(_) => "Array",
            Json::Object(_) => "Object",
        }
    }

    pub fn string(text: &str) -> Json {
        Json::String(text.into())
    }

    pub fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
        let fields = fields.into_iter().map(|(key, value)| (key.into(), value));
        Json::Object(Arc::new(fields.collect()))
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Json, JsonError> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.nested(Parser::object),
            Some(b'[') => self.nested(Parser::array),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn nested(&mut self, body: fn(&mut Self) -> Result<Json, JsonError>) -> Result<Json, JsonError> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(JsonError::TooDeep);
        }
        self.at += 1;
        let value = body(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn word(&mut self) -> Result<Json, JsonError> {
        let words = [
            ("null", Json::Null),
            ("true", Json::Bool(true)),
            ("false", Json::Bool(false)),
        ];
        let row = words
            .into_iter()
            .find(|(word, _)| self.text.as_bytes()[self.at..].starts_with(word.as_bytes()));
        let (word, value) = row.ok_or(JsonError::Invalid)?;
        self.at += word.len();
        Ok(value)
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        self.skip_space();
        if self.peek() != Some(byte) {
            return Err(JsonError::Invalid);
        }
        self.at += 1;
        Ok(())
    }

    /// Returns true if another element follows; false if the closing byte did.
    fn more(&mut self, close: u8) -> Result<bool, JsonError> {
        self.skip_space();
        match self.peek() {
            Some(b',') => self.at += 1,
            Some(byte) if byte == close => {
                self.at += 1;
                return Ok(false);
            }
            _ => return Err(JsonError::Invalid),
        }
        Ok(true)
    }

    fn closes_at_once(&mut self, close: u8) -> bool {
        self.skip_space();
        let closes = self.peek() == Some(close);
        self.at += usize::from(closes);
        closes
    }

    fn array(&mut self) -> Result<Json, JsonError> {
        let mut items = Vec::new();
        if self.closes_at_once(b']') {
            return Ok(Json::Array(items.into()));
        }
        loop {
            items.push(self.value()?);
            if !self.more(b']')? {
                return Ok(Json::Array(items.into()));
            }
        }
    }

    fn object(&mut self) -> Result<Json, JsonError> {
        let mut fields: Vec<(Arc<str>, Json)> = Vec::new();
        let mut seen = SeenKeys::default();
        if self.closes_at_once(b'}') {
            return Ok(Json::Object(fields.into()));
        }
        loop {
            self.skip_space();
            let key = self.key()?;
            self.expect(b':')?;
            let value = self.value()?;
            if seen.is_new(&key, &fields) {
                fields.push((key, value));
            }
            if !self.more(b'}')? {
                return Ok(Json::Object(fields.into()));
            }
        }
    }

    fn key(&mut self) -> Result<Arc<str>, JsonError> {
        match self.plain_string()? {
            Some(plain) => Ok(interned::name(plain)),
            None => self.string_with_escapes().map(Arc::from),
        }
    }

    fn string(&mut self) -> Result<Arc<str>, JsonError> {
        match self.plain_string()? {
            Some(plain) => Ok(plain.into()),
            None => self.string_with_escapes().map(Arc::from),
        }
    }

    /// A string without escapes, in place; `None`: a string with escapes starts here.
    fn plain_string(&mut self) -> Result<Option<&str>, JsonError> {
        if self.peek() != Some(b'"') {
            return Err(JsonError::Invalid);
        }
        self.at += 1;
        let remaining = &self.text[self.at..];
        let plain = plain_bytes(remaining.as_bytes());
        if remaining.as_bytes().get(plain) != Some(&b'"') {
            return Ok(None);
        }
        self.at += plain + 1;
        Ok(Some(&remaining[..plain]))
    }

    fn string_with_escapes(&mut self) -> Result<String, JsonError> {
        let mut out = String::new();
        loop {
            let remaining = &self.text[self.at..];
            let plain = plain_bytes(remaining.as_bytes());
            out.push_str(&remaining[..plain]);
            self.at += plain + 1;
            match remaining.as_bytes().get(plain) {
                Some(b'"') => return Ok(out),
                Some(b'\\') => self.escape(&mut out)?,
                _ => return Err(JsonError::Invalid),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), JsonError> {
        let byte = self.peek().ok_or(JsonError::Invalid)?;
        self.at += 1;
        out.push(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => self.unicode_escape()?,
            _ => return Err(JsonError::Invalid),
        });
        Ok(())
    }

    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let first = self.hexadecimal()?;
        if !(0xd800..0xdc00).contains(&first) || !self.text[self.at..].starts_with("\\u") {
            return Ok(char::from_u32(first).unwrap_or('?'));
        }
        let before = self.at;
        self.at += 2;
        let second = self.hexadecimal()?;
        if !(0xdc00..0xe000).contains(&second) {
            self.at = before;
            return Ok('?');
        }
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        Ok(char::from_u32(code).unwrap_or('?'))
    }

    fn hexadecimal(&mut self) -> Result<u32, JsonError> {
        let digits = self
            .text
            .as_bytes()
            .get(self.at..self.at + 4)
            .ok_or(JsonError::Invalid)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(JsonError::Invalid);
        }
        let code = digits.iter().fold(0, |code, &digit| {
            code * 16 + char::from(digit).to_digit(16).unwrap_or(0)
        });
        self.at += 4;
        Ok(code)
    }

    fn digits(&mut self) -> Result<usize, JsonError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(JsonError::Invalid);
        }
        Ok(self.at - start)
    }

    fn number(&mut self) -> Result<Json, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        if self.digits()? > 1 && leading_zero {
            return Err(JsonError::Invalid);
        }
        let mut is_double = false;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
            is_double = true;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
            is_double = true;
        }
        let spelling = &self.text[start..self.at];
        if is_double {
            return spelling.parse().map(Json::Double).map_err(|_| JsonError::Invalid);
        }
        spelling.parse().map(Json::Int).map_err(|_| JsonError::Invalid)
    }
}

/// The keys of an object so far: a few are compared one by one, many are hashed.
#[derive(Default)]
struct SeenKeys {
    hashed: HashSet<Arc<str>>,
}

impl SeenKeys {
    const COMPARED_MAX: usize = 16;

    fn is_new(&mut self, key: &Arc<str>, fields: &[(Arc<str>, Json)]) -> bool {
        if fields.len() < Self::COMPARED_MAX {
            return fields.iter().all(|(name, _)| name != key);
        }
        if self.hashed.is_empty() {
            self.hashed.extend(fields.iter().map(|(name, _)| name.clone()));
        }
        self.hashed.insert(key.clone())
    }
}

/// The number of bytes before the first one that a JSON string has to escape: a quote, a backslash
/// or a control character. Eight at a time: each of the three tests sets the highest bit of
/// matching bytes. A borrow may set an extra bit, but only after the first match.
fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = u64::from_ne_bytes([0x80; 8]);
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHEST;
    let first_in = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHEST;
        let special = zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\'))) | controls;
        (special != 0).then(|| special.trailing_zeros() as usize / 8)
    };
    let (words, remainder) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        if let Some(at) = first_in(word) {
            return index * 8 + at;
        }
    }
    if remainder.is_empty() {
        return bytes.len();
    }
    // The last eight bytes; the first of them are known to be plain.
    if let Some(last) = bytes.last_chunk::<8>() {
        return first_in(last).map_or(bytes.len(), |at| bytes.len() - 8 + at);
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    remainder.iter().position(is_special).unwrap_or(remainder.len())
}

/// Writes an integer in decimal.
pub fn write_integer(integer: i64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(integer));
}

/// Writes a string with the escapes that JSON requires.
pub fn write_string(text: &str, out: &mut String) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut remaining = text;
    loop {
        let at = plain_bytes(remaining.as_bytes());
        if at == remaining.len() {
            break;
        }
        out.push_str(&remaining[..at]);
        match remaining.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            8 => out.push_str("\\b"),
            12 => out.push_str("\\f"),
            byte => out.push_str(&format!("\\u{byte:04x}")),
        }
        remaining = &remaining[at + 1..];
    }
    out.push_str(remaining);
    out.push('"');
}

/// Writes the value without spaces.
pub fn write(json: &Json, out: &mut String) {
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Int(value) => write_integer(*value, out),
        Json::Double(value) => crate::language::number::write_double(*value, out),
        Json::String(text) => write_string(text, out),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Json::Object(fields) => {
            out.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

/// The same JSON text, indented by two spaces as the original does on request.
pub fn indented(text: &str) -> String {
    let (mut out, mut depth, mut in_string, mut escaped) =
        (String::with_capacity(text.len() * 2), 0usize, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    let mut previous = ' ';
    for c in text.chars() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            previous = c;
            continue;
        }
        match c {
            '{' | '[' => {
                out.push(c);
                depth += 1;
                line(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if matches!(previous, '{' | '[') {
                    out.truncate(out.trim_end().len());
                } else {
                    line(&mut out, depth);
                }
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_string = c == '"';
                out.push(c);
            }
        }
        previous = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let answer = match parse(text.as_bytes()) {
            Ok(json) => {
                let mut out = String::new();
                write(&json, &mut out);
                out
            }
            Err(error) => format!("{error:?}"),
        };
        assert_eq!(answer, expected, "{text}");
    }

    #[test]
    fn numbers_keep_their_kind() {
        check(" [1, 1.0, -0, -0.0, 1e20, 1.0e-7]", "[1,1.0,0,-0.0,1.0E20,1.0E-7]");
        check("9223372036854775808", "Invalid");
        check("01", "Invalid");
        check("NaN", "Invalid");
    }

    #[test]
    fn strings_objects_and_junk() {
        check(r#""\ud83d\ude00\ud800x\u00e9\n""#, "\"😀?xé\\n\"");
        check(r#"{"a":1,"a":2} tail"#, r#"{"a":1}"#);
        check(r#"{"a":"#, "Invalid");
        check("", "Empty");
        check(r#"{"a":1,"b":{"a":2},"b":3,"":4}"#, r#"{"a":1,"b":{"a":2},"":4}"#);
        check("\"a\nb\"", "Invalid");
        check("\"no end", "Invalid");
        check(&"[".repeat(1_000_000), "TooDeep");
        check(&"{\"a\":".repeat(1_000_000), "TooDeep");
    }

    #[test]
    fn special_bytes_are_found_at_every_position() {
        for special in (0..=255_u8).filter(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
            for at in 0..20 {
                let mut bytes = [0xc3; 20];
                bytes[at] = special;
                assert_eq!(plain_bytes(&bytes), at);
                let short = &bytes[..at + 1];
                assert_eq!(plain_bytes(short), at);
                assert_eq!(plain_bytes(&short[..at]), at);
            }
        }
        for plain in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
            assert_eq!(plain_bytes(&[plain; 19]), 19);
        }
    }

    #[test]
    fn many_keys_are_kept_apart_too() {
        let fields: Vec<String> = (0..50).map(|key| format!("\"k{}\":{key}", key % 40)).collect();
        let Ok(Json::Object(fields)) = parse(format!("{{{}}}", fields.join(",")).as_bytes()) else {
            panic!("an object")
        };
        assert_eq!((fields.len(), &fields[39].1), (40, &Json::Int(39)));
    }

    #[test]
    fn integers_are_decimal() {
        for integer in [0, 7, -7, 1_234_567_890, i64::MAX, i64::MIN] {
            let mut out = String::new();
            write_integer(integer, &mut out);
            assert_eq!(out, integer.to_string());
        }
    }

    #[test]
    fn indented_text_is_the_same_json() {
        let text = r#"{"a":[],"b":[1,{"c":"x,{}\""}]}"#;
        let spread = indented(text);
        assert_eq!(spread.lines().count(), 9);
        assert_eq!(parse(spread.as_bytes()), parse(text.as_bytes()));
    }
}
