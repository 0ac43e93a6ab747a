//! JSON as requests carry it: a tree that borrows its strings from the body; and writing JSON.
//!
//! Objects keep their members in order; of two with the same name the last one counts, as in
//! DynamoDB: the parser drops the others. Content deeper than any request that can be served
//! becomes an empty object, so that a tree can be walked by recursion; its readers refuse it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    pub fn parse(body: &'a [u8]) -> Result<Json<'a>, serde_json::Error> {
        match std::str::from_utf8(body) {
            // Looking at the whole once is cheaper than at each string.
            Ok(text) => serde_json::from_str(text),
            Err(_) => serde_json::from_slice(body),
        }
    }

    /// True for one JSON document. Nothing is kept of it.
    pub fn is_well_formed(body: &[u8]) -> bool {
        serde_json::from_slice::<IgnoredAny>(body).is_ok()
    }

    /// The member of an object; `None` also for null, which counts as absent everywhere.
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        let Json::Object(members) = self else { return None };
        let (_, value) = members.iter().rev().find(|(member, _)| member == name)?;
        (!matches!(value, Json::Null)).then_some(value)
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn integer(&self) -> Option<i64> {
        match self {
            Json::Integer(value) => Some(*value),
            Json::Float(value) => Some(*value as i64),
            _ => None,
        }
    }

    /// A boolean, or one of the words that the service takes for one.
    pub fn boolean(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            Json::Text(word) => match word.to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" => Some(true),
                "false" | "no" | "0" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// Appends it as a document.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut separator = None;
        let mut separate = |out: &mut Vec<u8>| out.extend(separator.replace(b','));
        match self {
            Json::Null => out.extend_from_slice(b"null"),
            Json::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Json::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Json::Float(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Json::Text(text) => write_string(out, text),
            Json::List(elements) => {
                out.push(b'[');
                for element in elements {
                    separate(out);
                    element.write(out);
                }
                out.push(b']');
            }
            Json::Object(members) => {
                out.push(b'{');
                for (name, value) in members {
                    separate(out);
                    write_string(out, name);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }

    /// The elements; none of anything but a list.
    pub fn elements(&self) -> &[Json<'a>] {
        match self {
            Json::List(elements) => elements,
            _ => &[],
        }
    }

    /// The members that count, in order; none of anything but an object.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Json<'a>)> {
        let members = match self {
            Json::Object(members) => members.as_slice(),
            _ => &[],
        };
        let present = members.iter().filter(|(_, value)| !matches!(value, Json::Null));
        present.map(|(name, value)| (name.as_ref(), value))
    }
}

/// Larger objects are collected into maps by their readers, where the last one wins by itself.
const DUPLICATES_SEARCHED: usize = 32;

/// Drops the members that do not count.
fn drop_repeated(members: &mut Vec<(Cow<'_, str>, Json<'_>)>) {
    let counts = |index: usize| !members[index + 1..].iter().any(|later| later.0 == members[index].0);
    if members.len() > DUPLICATES_SEARCHED || (0..members.len()).all(counts) {
        return;
    }
    let counting: Vec<bool> = (0..members.len()).map(counts).collect();
    let mut counting = counting.into_iter();
    members.retain(|_| counting.next().unwrap_or(true));
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json<'de>, D::Error> {
        TreeVisitor { depth: 0 }.deserialize(deserializer)
    }
}

/// Maximum nesting of lists and objects: three times the nesting of an item, and below the parser's
/// own limit.
const DEPTH_MAX: u8 = 100;

#[derive(Clone, Copy)]
struct TreeVisitor {
    depth: u8,
}

impl<'de> DeserializeSeed<'de> for TreeVisitor {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        if self.depth < DEPTH_MAX {
            return deserializer.deserialize_any(TreeVisitor { depth: self.depth + 1 });
        }
        IgnoredAny::deserialize(deserializer).map(|_| Json::Object(Vec::new()))
    }
}

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(i64::try_from(value).map_or(Json::Float(value as f64), Json::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {
        Ok(Json::Float(value))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json<'de>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = access.next_element_seed(self)? {
            elements.push(element);
        }
        Ok(Json::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json<'de>, A::Error> {
        let Some(Name(name)) = access.next_key()? else {
            return Ok(Json::Object(Vec::new()));
        };
        // Most objects are attribute values: they have one member, and no room for others.
        let mut members = Vec::with_capacity(1);
        members.push((name, access.next_value_seed(self)?));
        while let Some(Name(name)) = access.next_key()? {
            members.push((name, access.next_value_seed(self)?));
        }
        drop_repeated(&mut members);
        Ok(Json::Object(members))
    }
}

/// A member's name. `Cow` by itself would always copy.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name<'de>, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

/// Initial capacity of a document: enough for most without items.
const OBJECT_BYTES: usize = 256;

/// Writes one JSON document. Commas are its business; the caller opens and closes.
#[derive(Default)]
pub struct Writer {
    pub text: Vec<u8>,
}

impl Writer {
    pub fn object(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer {
            text: Vec::with_capacity(OBJECT_BYTES),
        };
        writer.open(b'{');
        write(&mut writer);
        writer.close(b'}');
        writer.text
    }

    pub fn open(&mut self, bracket: u8) {
        self.comma();
        self.text.push(bracket);
    }

    pub fn close(&mut self, bracket: u8) {
        self.text.push(bracket);
    }

    /// Starts a member; its value follows.
    pub fn name(&mut self, name: &str) -> &mut Writer {
        self.string(name);
        self.text.push(b':');
        self
    }

    pub fn string(&mut self, text: &str) {
        self.comma();
        write_string(&mut self.text, text);
    }

    /// A number, a boolean, or JSON that is ready.
    pub fn raw(&mut self, value: impl fmt::Display) {
        use std::io::Write;
        self.comma();
        let _ = write!(self.text, "{value}");
    }

    pub fn nested(&mut self, name: &str, write: impl FnOnce(&mut Writer)) {
        self.name(name).open(b'{');
        write(self);
        self.close(b'}');
    }

    pub fn list<T>(
        &mut self,
        name: &str,
        elements: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Writer, T),
    ) {
        self.name(name).open(b'[');
        for element in elements {
            write(self, element);
        }
        self.close(b']');
    }

    pub fn member(&mut self, name: &str, text: &str) {
        self.name(name).string(text);
    }

    /// Writes a separator, unless an opening or a name precedes.
    pub fn comma(&mut self) {
        if !matches!(self.text.last(), None | Some(b'{' | b'[' | b':')) {
            self.text.push(b',');
        }
    }
}

/// A time as the service writes it: seconds with a fraction of three digits.
pub fn write_seconds(writer: &mut Writer, name: &str, micros: u64) {
    let (seconds, milliseconds) = (micros / 1_000_000, micros / 1000 % 1000);
    writer.name(name).raw(format_args!("{seconds}.{milliseconds:03}"));
}

/// Returns the text that a [`Writer`] has written.
pub fn json_text(written: Vec<u8>) -> String {
    String::from_utf8(written).expect("JSON is UTF-8")
}

/// Appends `text` in quotes.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    write_text(out, text.as_bytes());
}

/// The same for a text that is known to be UTF-8.
///
/// Eight bytes at a time are copied whole, and the surplus is removed: most words hold no bytes to
/// escape, and copying a constant length costs one instruction.
pub fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut remaining = text;
    while let Some((word, tail)) = remaining.split_first_chunk::<8>() {
        out.extend_from_slice(word);
        remaining = tail;
        let marks = must_escape(u64::from_le_bytes(*word));
        if marks != 0 {
            let plain = marks.trailing_zeros() as usize / 8;
            out.truncate(out.len() - (8 - plain));
            write_escaped(out, word[plain]);
            remaining = &text[text.len() - tail.len() - (7 - plain)..];
        }
    }
    for &byte in remaining {
        match byte {
            b'"' | b'\\' | 0..0x20 => write_escaped(out, byte),
            plain => out.push(plain),
        }
    }
    out.push(b'"');
}

fn write_escaped(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
    }
}

/// The high bit of each byte that must be escaped; the lowest one is right, those above it may be
/// wrong.
fn must_escape(word: u64) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The high bit of each byte that is below `limit`, if `limit` is at most 0x80; of those above
    // 0x7f it is cleared.
    let below = |word: u64, limit: u64| word.wrapping_sub(LOW * limit) & !word & HIGH;
    let quote = below(word ^ (LOW * u64::from(b'"')), 1);
    let backslash = below(word ^ (LOW * u64::from(b'\\')), 1);
    quote | backslash | below(word, 0x20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_equal_names_counts() {
        let json = Json::parse(br#"{"a":1,"b":null,"a":"x\n"}"#).unwrap();
        assert_eq!(json.get("a").unwrap().text(), Some("x\n"));
        assert_eq!(json.get("b"), None);
        assert_eq!(json.members().count(), 1);
    }

    #[test]
    fn bad_json_is_an_error() {
        for bad in ["", "{", "{\"a\":}", "nonsense", "{}{}", r#""\ud800""#, "{1:2}"] {
            assert!(Json::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(Json::parse("[".repeat(200_000).as_bytes()).is_err());
        assert!(Json::parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn special_bytes_are_escaped_at_every_position() {
        for byte in 0..=0x7f_u8 {
            for before in 0..20 {
                let text =
                    "é".repeat(before / 2) + &"x".repeat(before) + &char::from(byte).to_string() + "\u{80}tail \"";
                let mut written = Vec::new();
                write_string(&mut written, &text);
                assert_eq!(Json::parse(&written).unwrap().text(), Some(text.as_str()));
                assert_eq!(
                    json_text(written),
                    serde_json::to_string(&text)
                        .unwrap()
                        .replace("\\b", "\\u0008")
                        .replace("\\f", "\\u000c")
                );
            }
        }
    }

    #[test]
    fn a_written_value_is_read_back() {
        let text = "quote \" backslash \\ newline \n bell \u{7} snowman ☃";
        let written = Writer::object(|writer| {
            writer.member("text", text);
            writer.list("list", [1, 2], |writer, element| writer.raw(element));
            writer.nested("empty", |_| {});
        });
        let json = Json::parse(&written).unwrap();
        assert_eq!(json.get("text").unwrap().text(), Some(text));
        assert_eq!(json.get("list").unwrap().elements().len(), 2);
    }
}
