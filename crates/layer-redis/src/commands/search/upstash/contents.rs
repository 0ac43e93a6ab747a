//! The contents of keys as an index reads them and as an answer shows them.

use quartet_search::filter::{Given, TypedField};

use super::streams;
use crate::commands::hashes;
use crate::commands::json::{self, Json};
use crate::commands::streams::StreamId;
use crate::commands::streams::stream::Stream;
use crate::indexes::KeyIndex;
use crate::keyspace::string_value::StringValue;
use crate::keyspace::{Entry, Keyspace, Kind};

/// Longest string that is read as a document, in bytes. A longer one is not found.
const STRING_BYTES_MAX: u64 = 1 << 20;

pub enum Contents {
    Hash(Entry),
    /// A document, or a string that is one.
    Document(Json),
    /// The names and values of a stream's entry.
    Entry(Vec<(Vec<u8>, Vec<u8>)>),
}

impl Contents {
    /// The contents of the key of this name, if it is of the index's kind; of an index on a stream,
    /// those of the entry with this ID.
    pub fn find(keys: &mut Keyspace<'_, '_>, index: &KeyIndex, name: &[u8]) -> Option<Contents> {
        if index.is_on_stream() {
            let stream = Stream::of(&streams::stream_of(keys, index)?);
            let fields = stream.fields(keys.tx, StreamId::from_bytes(name))?;
            let pairs = streams::pairs(&fields).into_iter();
            return Some(Contents::Entry(
                pairs.map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
            ));
        }
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
        hashes::find(keys, entry, name.as_bytes()).map(|element| element.value().to_vec())
    }

    /// The names and values of a hash or an entry, all or those of these names.
    pub fn pairs(&self, keys: &mut Keyspace<'_, '_>, names: Option<&[String]>) -> Vec<(String, Vec<u8>)> {
        let mut pairs = Vec::new();
        match (self, names) {
            (Contents::Document(_), _) => {}
            (Contents::Hash(_), Some(names)) => {
                let found = names
                    .iter()
                    .filter_map(|name| Some((name.clone(), self.of_field(keys, name)?)));
                pairs.extend(found);
            }
            (Contents::Hash(entry), None) => hashes::each(keys, entry, &mut |field| {
                pairs.push((String::from_utf8_lossy(field.name).into_owned(), field.value.to_vec()));
            }),
            (Contents::Entry(all), Some(names)) => {
                for name in names {
                    let found = all.iter().filter(|(known, _)| known == name.as_bytes());
                    pairs.extend(found.map(|(_, value)| (name.clone(), value.clone())));
                }
            }
            (Contents::Entry(all), None) => pairs.extend(
                all.iter()
                    .map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.clone())),
            ),
        }
        pairs
    }
}

/// The values of a document for a field. An array means its elements.
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

/// The values at a path of members joined by dots. An array on the path means its elements.
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
