//! A JSON document: read, changed, written.
//!
//! Members of an object keep the order in which they came; of equal names the last value counts, in the first one's place. A whole
//! number within 64 bits with a sign is an integer, every other number a double. A document nests at most [`DEPTH_MAX`] deep, so
//! that nothing here recurses deeper, whoever sends it and however it was put together.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::command::Failure;

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Json {
    #[default]
    Null,
    Boolean(bool),
    Integer(i64),
    /// Finite.
    Double(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Deepest nesting of arrays and objects.
pub const DEPTH_MAX: usize = 120;

/// Where a value stands: the position among the children of each container, from the root on. The root's is empty.
pub type Location = Vec<usize>;

/// How JSON.GET wants its text. All empty: as short as it can be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout<'a> {
    pub indent: &'a [u8],
    pub newline: &'a [u8],
    pub space: &'a [u8],
}

impl Json {
    /// Reads what a client sent.
    pub fn parse(text: &[u8]) -> Result<Json, Failure> {
        let value: Json = serde_json::from_slice(text).map_err(|error| format!("ERR {error}"))?;
        match value.is_deeper_than(DEPTH_MAX) {
            true => Err(TOO_DEEP.into()),
            false => Ok(value),
        }
    }

    /// Reads what this layer wrote.
    pub fn stored(text: &[u8]) -> Json {
        serde_json::from_slice(text).expect("a document that was written as JSON")
    }

    /// The bytes to be stored, unless changes have nested the document too deeply.
    pub fn to_stored(&self) -> Result<Vec<u8>, Failure> {
        if self.is_deeper_than(DEPTH_MAX) {
            return Err(TOO_DEEP.into());
        }
        let mut text = Vec::new();
        self.write(&mut text);
        Ok(text)
    }

    fn is_deeper_than(&self, depth_max: usize) -> bool {
        let is_container = matches!(self, Json::Array(_) | Json::Object(_));
        is_container && (depth_max == 0 || self.children().any(|child| child.is_deeper_than(depth_max - 1)))
    }

    /// The word of JSON.TYPE.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Boolean(_) => "boolean",
            Json::Integer(_) => "integer",
            Json::Double(_) => "number",
            Json::Text(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    pub fn children(&self) -> impl Iterator<Item = &Json> {
        let (elements, members): (&[Json], &[(String, Json)]) = match self {
            Json::Array(elements) => (elements, &[]),
            Json::Object(members) => (&[], members),
            _ => (&[], &[]),
        };
        elements.iter().chain(members.iter().map(|(_, value)| value))
    }

    pub fn member(&self, name: &str) -> Option<usize> {
        match self {
            Json::Object(members) => members.iter().position(|(known, _)| known == name),
            _ => None,
        }
    }

    pub fn at(&self, location: &[usize]) -> Option<&Json> {
        location.iter().try_fold(self, |value, &index| match value {
            Json::Array(elements) => elements.get(index),
            Json::Object(members) => members.get(index).map(|(_, value)| value),
            _ => None,
        })
    }

    pub fn at_mut(&mut self, location: &[usize]) -> Option<&mut Json> {
        location.iter().try_fold(self, |value, &index| match value {
            Json::Array(elements) => elements.get_mut(index),
            Json::Object(members) => members.get_mut(index).map(|(_, value)| value),
            _ => None,
        })
    }

    /// Sets a member of an object. False if this is none.
    pub fn set_member(&mut self, name: &str, value: Json) -> bool {
        let position = self.member(name);
        let Json::Object(members) = self else { return false };
        match position {
            Some(index) => members[index].1 = value,
            None => members.push((name.to_owned(), value)),
        }
        true
    }

    /// Removes the values at these places, none of which is the root. Those inside of others go with them. Returns how many
    /// were removed by themselves.
    pub fn remove(&mut self, mut locations: Vec<Location>) -> usize {
        locations.sort();
        locations.dedup_by(|later, earlier| later.starts_with(earlier));
        for location in locations.iter().rev() {
            let Some((&index, parent)) = location.split_last() else {
                continue;
            };
            match self.at_mut(parent) {
                Some(Json::Array(elements)) => drop(elements.remove(index)),
                Some(Json::Object(members)) => drop(members.remove(index)),
                _ => {}
            }
        }
        locations.len()
    }

    /// Applies a merge patch (RFC 7396): members that are null go, objects are merged, everything else is replaced.
    pub fn merge(&mut self, patch: &Json) {
        let Json::Object(changes) = patch else {
            *self = patch.clone();
            return;
        };
        if !matches!(self, Json::Object(_)) {
            *self = Json::Object(Vec::new());
        }
        let Json::Object(members) = self else { return };
        for (name, change) in changes {
            let position = members.iter().position(|(known, _)| known == name);
            match (position, change) {
                (Some(index), Json::Null) => drop(members.remove(index)),
                (None, Json::Null) => {}
                (Some(index), _) => members[index].1.merge(change),
                (None, _) => {
                    let mut value = Json::Null;
                    value.merge(change);
                    members.push((name.clone(), value));
                }
            }
        }
    }

    /// Appends the shortest text.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_with(&Layout::default(), 0, out);
    }

    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.write(&mut text);
        text
    }

    /// Appends the text, laid out as wished, of a value that stands `depth` levels deep.
    pub fn write_with(&self, layout: &Layout<'_>, depth: usize, out: &mut Vec<u8>) {
        match self {
            Json::Null => out.extend_from_slice(b"null"),
            Json::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Json::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Json::Double(number) => serde_json::to_writer(out, number).expect("writing to memory"),
            Json::Text(text) => write_text(text, out),
            Json::Array(elements) => {
                let elements = elements.iter().map(|element| (None, element));
                write_container(b"[]", elements, layout, depth, out);
            }
            Json::Object(members) => {
                let members = members.iter().map(|(name, value)| (Some(name.as_str()), value));
                write_container(b"{}", members, layout, depth, out);
            }
        }
    }
}

const TOO_DEEP: &str = "ERR the document nests too deeply";

fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing to memory");
}

/// Appends children between the two brackets, each on a line of its own if there is a newline.
pub fn write_container<'j>(
    brackets: &[u8; 2],
    children: impl Iterator<Item = (Option<&'j str>, &'j Json)>,
    layout: &Layout<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) {
    let new_line = |depth: usize, out: &mut Vec<u8>| {
        out.extend_from_slice(layout.newline);
        (0..depth).for_each(|_| out.extend_from_slice(layout.indent));
    };
    out.push(brackets[0]);
    let mut is_empty = true;
    for (name, value) in children {
        if !is_empty {
            out.push(b',');
        }
        is_empty = false;
        new_line(depth + 1, out);
        if let Some(name) = name {
            write_text(name, out);
            out.push(b':');
            out.extend_from_slice(layout.space);
        }
        value.write_with(layout, depth + 1, out);
    }
    if !is_empty {
        new_line(depth, out);
    }
    out.push(brackets[1]);
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Double(value as f64), Json::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Double(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = elements.next_element()? {
            all.push(element);
        }
        Ok(Json::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut all: Vec<(String, Json)> = Vec::new();
        let mut positions: rustc_hash::FxHashMap<String, usize> = rustc_hash::FxHashMap::default();
        while let Some((name, value)) = members.next_entry::<String, Json>()? {
            match positions.get(&name) {
                Some(&index) => all[index].1 = value,
                None => {
                    positions.insert(name.clone(), all.len());
                    all.push((name, value));
                }
            }
        }
        Ok(Json::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let value = Json::parse(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(value.text()).unwrap(), expected);
        assert_eq!(Json::stored(&value.to_stored().unwrap()), value);
    }

    #[test]
    fn what_is_read_is_written() {
        check(
            r#" { "b" : [1, 2.50, -0.0, 1e3], "a" : null, "b" : true } "#,
            r#"{"b":true,"a":null}"#,
        );
        check(
            "[1, 2.50, 1e3, 9223372036854775808]",
            "[1,2.5,1000.0,9.223372036854776e+18]",
        );
        check(r#""a\u00e4\n\"""#, r#""aä\n\"""#);
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Json::parse(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert!(Json::parse(nested(DEPTH_MAX + 1).as_bytes()).is_err());
        assert!(Json::parse(nested(100_000).as_bytes()).is_err());
    }

    #[test]
    fn patches_are_merged() {
        let mut value = Json::parse(br#"{"a":{"b":1,"c":2},"d":[1]}"#).unwrap();
        value.merge(&Json::parse(br#"{"a":{"b":null,"e":{"f":null}},"d":{"g":1}}"#).unwrap());
        assert_eq!(value.text(), br#"{"a":{"c":2,"e":{}},"d":{"g":1}}"#);
    }

    #[test]
    fn what_stands_inside_of_what_is_removed_goes_with_it() {
        let mut value = Json::parse(b"[[1,2],[3,[4]],5]").unwrap();
        assert_eq!(value.remove(vec![vec![1], vec![1, 1], vec![0, 0], vec![1, 0]]), 2);
        assert_eq!(value.text(), b"[[2],5]");
    }
}
