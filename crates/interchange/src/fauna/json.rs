//! JSON whose objects keep the order of their fields and whose numbers keep their spelling: both
//! are part of a document.

use std::fmt::{self, Display, Formatter};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Arrays and objects within each other. FaunaDB takes no more.
const NESTING_MAX: usize = 500;

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// A number, `true`, `false` or `null`, as it is spelled.
    Plain(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub const NULL: Json = Json::Plain(String::new());

    /// `None`: the text is no JSON, or too deep.
    pub fn parse(text: &[u8]) -> Option<Json> {
        parsed(serde_json::from_slice(text).ok()?, NESTING_MAX)
    }

    pub fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    pub fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
        Json::Object(fields.map(|(name, value)| (name.to_owned(), value)).into())
    }

    pub fn field(&self, name: &str) -> Option<&Json> {
        let Json::Object(fields) = self else { return None };
        fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Returns the value that a path of names leads to.
    pub fn at(&self, path: &[&str]) -> Option<&Json> {
        path.iter().try_fold(self, |value, name| value.field(name))
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn items(&self) -> &[Json] {
        match self {
            Json::Array(items) => items,
            _ => &[],
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Json::Plain(word) if word.is_empty() || word == "null")
    }

    /// The only field of an object that has one.
    pub fn only_field(&self) -> Option<(&str, &Json)> {
        match self {
            Json::Object(fields) => match fields.as_slice() {
                [(name, value)] => Some((name, value)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Json {
        Json::Plain(number.to_string())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Plain(value.to_string())
    }
}

fn parsed(raw: &RawValue, depth: usize) -> Option<Json> {
    let text = raw.get();
    Some(match text.as_bytes().first()? {
        b'{' => {
            let depth = depth.checked_sub(1)?;
            let Fields(fields) = serde_json::from_str(text).ok()?;
            let fields = fields
                .into_iter()
                .map(|(name, value)| Some((name, parsed(value, depth)?)));
            Json::Object(fields.collect::<Option<_>>()?)
        }
        b'[' => {
            let depth = depth.checked_sub(1)?;
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            let items = items.into_iter().map(|item| parsed(item, depth));
            Json::Array(items.collect::<Option<_>>()?)
        }
        b'"' => Json::Text(serde_json::from_str(text).ok()?),
        _ => Json::Plain(text.to_owned()),
    })
}

/// The fields of one object, in order; their values not read yet.
struct Fields<'de>(Vec<(String, &'de RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields<'de>;

            fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl Display for Json {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match self {
            Json::Plain(word) if word.is_empty() => formatter.write_str("null"),
            Json::Plain(word) => formatter.write_str(word),
            Json::Text(text) => formatter.write_str(&quoted(text)),
            Json::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    write!(formatter, "{}{item}", if index == 0 { "[" } else { "," })?;
                }
                formatter.write_str(if items.is_empty() { "[]" } else { "]" })
            }
            Json::Object(fields) => {
                for (index, (name, value)) in fields.iter().enumerate() {
                    let before = if index == 0 { "{" } else { "," };
                    write!(formatter, "{before}{}:{value}", quoted(name))?;
                }
                formatter.write_str(if fields.is_empty() { "{}" } else { "}" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_spelling_stay() {
        for text in [
            r#"{"zebra":1.0,"apple":[1e5,{"b":"\"é\\","a":null}],"n":9007199254740993,"":{},"e":[]}"#,
            "12345678901234567890123",
            "true",
        ] {
            assert_eq!(Json::parse(text.as_bytes()).unwrap().to_string(), text);
        }
        assert_eq!(Json::parse(b" { \"a\" : [ 1 ] } ").unwrap().to_string(), r#"{"a":[1]}"#);
        let deep = format!("{}1{}", "[".repeat(501), "]".repeat(501));
        for text in ["{", "[1,]", "", "{\"a\":1} x", &deep, &"[".repeat(200_000)] {
            assert_eq!(Json::parse(text.as_bytes()), None);
        }
    }
}
