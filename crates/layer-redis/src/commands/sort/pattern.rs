//! Patterns of BY and GET: which other key, or field of a hash, belongs to an element.
//!
//! The first `*` is replaced by the element. A later `->` is followed by the name of a field. A
//! pattern is parsed up to its first NUL byte, as in Redis' search for these signs; the bytes from
//! there on still belong to the name.

use crate::commands::hashes;
use crate::handler::context::Context;
use crate::keyspace::string_value::StringValue;
use crate::keyspace::{Kind, NAME_BYTES_MAX};

#[derive(Debug, PartialEq, Eq)]
pub enum Pattern<'a> {
    /// `#`: the element itself.
    Element,
    /// No star: finds nothing.
    Constant,
    Key {
        before: &'a [u8],
        after: &'a [u8],
        /// Never empty.
        field: Option<&'a [u8]>,
    },
}

impl<'a> Pattern<'a> {
    pub fn of(text: &'a [u8]) -> Pattern<'a> {
        let signs = text.split(|&byte| byte == 0).next().unwrap_or_default();
        if signs == b"#" {
            return Pattern::Element;
        }
        let Some(star) = signs.iter().position(|&byte| byte == b'*') else {
            return Pattern::Constant;
        };
        let (before, after) = (&text[..star], &text[star + 1..]);
        let arrow = signs[star + 1..].windows(2).position(|pair| pair == b"->");
        // An arrow at the end is a part of the key's name.
        match arrow.filter(|arrow| star + 1 + arrow + 2 < signs.len()) {
            None => Pattern::Key {
                before,
                after,
                field: None,
            },
            Some(arrow) => Pattern::Key {
                before,
                after: &after[..arrow],
                field: Some(&after[arrow + 2..]),
            },
        }
    }

    /// Given to BY, leaves the elements as they are.
    pub fn is_constant(&self) -> bool {
        !matches!(self, Pattern::Key { .. })
    }

    /// Returns the value that the pattern finds for the element; `None` if the key or field is
    /// absent or the key of another kind.
    pub fn value(&self, context: &mut Context<'_, '_>, element: &[u8]) -> Option<Vec<u8>> {
        let (before, after, field) = match self {
            Pattern::Element => return Some(element.to_vec()),
            Pattern::Constant => return None,
            Pattern::Key { before, after, field } => (before, after, field),
        };
        // No key has a longer name, so the look-up is skipped.
        if before.len() + element.len() + after.len() > NAME_BYTES_MAX {
            return None;
        }
        let entry = context.read(&[before, element, after].concat())?;
        match (field, entry.kind) {
            (None, Kind::String) => Some(StringValue::of(&entry).whole(context.tx).into_owned()),
            (Some(field), Kind::Hash) if field.len() <= hashes::FIELD_BYTES_MAX => {
                hashes::find(&mut context.keys(), &entry, field).map(|element| element.value().to_vec())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key<'a>(before: &'a str, after: &'a str, field: Option<&'a str>) -> Pattern<'a> {
        Pattern::Key {
            before: before.as_bytes(),
            after: after.as_bytes(),
            field: field.map(str::as_bytes),
        }
    }

    #[test]
    fn patterns_are_taken_apart() {
        for (text, expected) in [
            ("#", Pattern::Element),
            ("#\0x", Pattern::Element),
            ("##", Pattern::Constant),
            ("", Pattern::Constant),
            ("nosort", Pattern::Constant),
            ("h->f", Pattern::Constant),
            ("a\0*", Pattern::Constant),
            ("*", key("", "", None)),
            ("w_*", key("w_", "", None)),
            ("a*b*c", key("a", "b*c", None)),
            ("h_*->f", key("h_", "", Some("f"))),
            ("h_*_x->f->g", key("h_", "_x", Some("f->g"))),
            ("*->", key("", "->", None)),
            ("*->\0f", key("", "->\0f", None)),
            ("*->f\0g", key("", "", Some("f\0g"))),
            ("*\0->f", key("", "\0->f", None)),
            ("a->b*", key("a->b", "", None)),
            ("*->*", key("", "", Some("*"))),
        ] {
            assert_eq!(Pattern::of(text.as_bytes()), expected, "{text:?}");
        }
    }
}
