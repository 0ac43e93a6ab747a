//! The contents of keys as an index reads them and as an answer shows them.

use quartet_search::filter::{Given, TypedField};

use crate::commands::hashes;
use crate::commands::json::{self, Json};
use crate::indexes::KeyIndex;
use crate::keyspace::string_value::StringValue;
use crate::keyspace::{Entry, Keyspace, Kind};

/// Longest string that is read as a document, in bytes. A longer one is not found.
const STRING_BYTES_MAX: u64 = 1 << 20;

pub enum Contents {
    Hash(Entry),
    /// A document, or a string that is one.
    Document(Json),
}

impl Contents {
    /// The contents of the key of this name, if it is of the index's kind.
    pub fn find(keys: &mut Keyspace<'_, '_>, index: &KeyIndex, name: &[u8]) -> Option<Contents> {
        let entry = keys.find(name).filter(|entry| entry.kind == index.definition.on)?;
        match entry.kind {
            Kind::Hash => Some(Contents::Hash(entry)),
            Kind::Json => Some(Contents::Document(json::document(keys.tx, &entry))),
            Kind::String => {
                let value = StringValue::of(&entry);
                if value.length() > STRING_BYTES_MAX {
                    return None;
                }
                let text = value.whole(keys.tx);
                let document = Json::parse(&text).ok()?;
                matches!(document, Json::Object(_)).then_some(Contents::Document(document))
            }
            _ => None,
        }
    }

    /// The bytes of a hash's field.
    pub fn of_field(&self, keys: &mut Keyspace<'_, '_>, name: &str) -> Option<Vec<u8>> {
        let Contents::Hash(entry) = self else {
            return None;
        };
        hashes::find(keys, entry, name.as_bytes()).map(|found| found.value().to_vec())
    }
}

/// The values of a document that a field takes. An array stands for its elements.
pub fn given<'d>(document: &'d Json, field: &TypedField) -> Vec<Given<'d>> {
    let mut given = Vec::new();
    for value in selected(document, field.source()) {
        each_element(value, &mut |element| {
            given.extend(match element {
                Json::Boolean(truth) => Some(Given::Bool(*truth)),
                Json::Integer(number) => Some(Given::Integer(*number)),
                Json::Double(number) => Some(Given::Double(*number)),
                Json::Text(text) => Some(Given::Text(text)),
                Json::Null | Json::Array(_) | Json::Object(_) => None,
            });
        });
    }
    given
}

fn each_element<'d>(value: &'d Json, visit: &mut dyn FnMut(&'d Json)) {
    match value {
        Json::Array(elements) => elements.iter().for_each(|element| each_element(element, visit)),
        other => visit(other),
    }
}

/// The values at a path of members with dots between them. An array on the way stands for its
/// elements.
pub fn selected<'d>(document: &'d Json, path: &str) -> Vec<&'d Json> {
    let mut found = vec![document];
    for name in path.split('.') {
        let mut next = Vec::new();
        for value in found {
            each_element(value, &mut |element| {
                if let Json::Object(members) = element {
                    let member = members.iter().find(|(known, _)| known == name);
                    next.extend(member.map(|(_, value)| value));
                }
            });
        }
        found = next;
    }
    found
}

/// Replaces the texts at a path by what `replace` gives for them.
pub fn replace_texts(document: &mut Json, path: &str, replace: &mut dyn FnMut(&str) -> Option<String>) {
    match document {
        Json::Array(elements) => elements
            .iter_mut()
            .for_each(|element| replace_texts(element, path, replace)),
        Json::Object(members) => {
            let (name, rest) = path
                .split_once('.')
                .map_or((path, None), |(name, rest)| (name, Some(rest)));
            let member = members.iter_mut().find(|(known, _)| known == name);
            match (member, rest) {
                (Some((_, value)), Some(rest)) => replace_texts(value, rest, replace),
                (Some((_, value)), None) => replace_elements(value, replace),
                (None, _) => {}
            }
        }
        _ => {}
    }
}

fn replace_elements(value: &mut Json, replace: &mut dyn FnMut(&str) -> Option<String>) {
    match value {
        Json::Array(elements) => elements
            .iter_mut()
            .for_each(|element| replace_elements(element, replace)),
        Json::Text(text) => {
            if let Some(replaced) = replace(text) {
                *text = replaced;
            }
        }
        _ => {}
    }
}

/// A value of a document as an answer shows it: a string as it is, all else as JSON.
pub fn shown(values: &[&Json]) -> Option<Vec<u8>> {
    match values {
        [] => None,
        [Json::Text(text)] => Some(text.clone().into_bytes()),
        [one] => Some(one.text()),
        many => {
            let texts: Vec<Vec<u8>> = many.iter().map(|value| value.text()).collect();
            Some([&b"["[..], &texts.join(&b','), b"]"].concat())
        }
    }
}
