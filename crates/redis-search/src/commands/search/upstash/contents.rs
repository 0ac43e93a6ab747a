//! The contents of keys as an index reads them and as an answer shows them.

use quartet_layer_redis::module_api::{
    Entry, Json, Keyspace, Kind, Stored, Stream, StreamId, StringValue, Workspace, hashes,
};
use quartet_search::upstash::{Given, TypedField};

use super::streams;
use crate::indexes::KeyIndex;

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
    ///
    /// The contents of a document may be only the members that the paths start with, if there are
    /// paths. A document that there is no memory for is left out: the caller's command ends then.
    pub fn find<'p>(
        keys: &mut Keyspace<'_, '_>,
        index: &KeyIndex,
        name: &[u8],
        paths: Option<impl Iterator<Item = &'p str>>,
        workspace: Workspace<'_>,
    ) -> Option<Contents> {
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
            Kind::Json => {
                let document = Stored::of(entry, workspace);
                let names = paths.map(|paths| paths.map(|path| path.split_once('.').map_or(path, |(name, _)| name)));
                Some(Contents::Document(match names {
                    Some(names) => document.members(keys.tx, names)?,
                    None => document.into_whole(keys.tx)?,
                }))
            }
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
                let values = names
                    .iter()
                    .filter_map(|name| Some((name.clone(), self.of_field(keys, name)?)));
                pairs.extend(values);
            }
            (Contents::Hash(entry), None) => hashes::each(keys, entry, &mut |field| {
                pairs.push((String::from_utf8_lossy(field.name).into_owned(), field.value.to_vec()));
            }),
            (Contents::Entry(all), Some(names)) => {
                for name in names {
                    let values = all.iter().filter(|(member, _)| member == name.as_bytes());
                    pairs.extend(values.map(|(_, value)| (name.clone(), value.clone())));
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
    let mut values = Vec::new();
    for value in selected(document, field.source()) {
        each_element(value, &mut |element| {
            values.extend(match element {
                Json::Boolean(truth) => Some(Given::Bool(*truth)),
                Json::Integer(number) => Some(Given::Integer(*number)),
                Json::Double(number) => Some(Given::Double(*number)),
                Json::Text(text) => Some(Given::Text(text)),
                Json::Null | Json::Array(_) | Json::Object(_) => None,
            });
        });
    }
    values
}

fn each_element<'d>(value: &'d Json, visit: &mut dyn FnMut(&'d Json)) {
    match value {
        Json::Array(elements) => elements.iter().for_each(|element| each_element(element, visit)),
        other => visit(other),
    }
}

/// The values at a path of members joined by dots. An array on the path means its elements.
pub fn selected<'d>(document: &'d Json, path: &str) -> Vec<&'d Json> {
    let mut values = vec![document];
    for name in path.split('.') {
        let mut next = Vec::new();
        for value in values {
            each_element(value, &mut |element| {
                if let Json::Object(members) = element {
                    let member = members.iter().find(|(key, _)| key == name);
                    next.extend(member.map(|(_, value)| value));
                }
            });
        }
        values = next;
    }
    values
}

/// Replaces the texts at a path by what `replace` gives for them.
pub fn replace_texts(document: &mut Json, path: &str, replace: &mut dyn FnMut(&str) -> Option<String>) {
    match document {
        Json::Array(elements) => elements
            .iter_mut()
            .for_each(|element| replace_texts(element, path, replace)),
        Json::Object(members) => {
            let (name, remainder) = path
                .split_once('.')
                .map_or((path, None), |(name, remainder)| (name, Some(remainder)));
            let member = members.iter_mut().find(|(key, _)| key == name);
            match (member, remainder) {
                (Some((_, value)), Some(remainder)) => replace_texts(value, remainder, replace),
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
        [single] => Some(single.text()),
        many => {
            let texts: Vec<Vec<u8>> = many.iter().map(|value| value.text()).collect();
            Some([&b"["[..], &texts.join(&b','), b"]"].concat())
        }
    }
}
