//! An index that is a key follows its keys: each that changed is looked at again, as it is then.

use quartet_layer_redis::module_api::{Context, Keyspace, Unindexed, Workspace};
use quartet_search::index::document::Document;
use quartet_search::upstash::{self, Given};

use super::contents::{Contents, given};
use super::streams;
use crate::commands::search::upkeep::{self, DOCUMENT_BYTES_MAX, Failure, Followed, Work, follow_one};
use crate::indexes::{Catalogue, KeyIndex, Progress, StoredIndex};
use crate::kinds::SEARCH_INDEX;

/// Brings every index that covers these keys of database 0 up to date. An index whose own key is
/// gone, or is another, goes.
pub fn follow(keys: &mut Keyspace<'_, '_>, catalogue: &Catalogue, changed: &Unindexed, work: &mut Work<'_>) {
    let has = |name: &[u8]| {
        changed
            .names
            .binary_search_by(|changed_name| changed_name.as_slice().cmp(name))
            .is_ok()
    };
    for index in catalogue.key_indexes() {
        if has(&index.head.name) && !is_there(keys, index) {
            index.clear_all(keys.tx);
        } else if !index.is_on_stream() {
            follow_one(keys, index.as_ref(), work);
        } else if has(index.stream()) {
            streams::follow(keys, index, &changed.entries);
        }
        if work.is_too_much() {
            return;
        }
    }
}

/// Looks at about `count` more keys or entries. Returns true if the index is filled.
pub fn fill(keys: &mut Keyspace<'_, '_>, index: &KeyIndex, progress: Progress, count: u64) -> bool {
    match index.is_on_stream() {
        true => streams::fill(keys, index, count),
        false => upkeep::fill(keys, index, progress, count),
    }
}

/// Fills the index, or leaves it to the background if there is much.
pub fn begin_filling(context: &mut Context<'_, '_>, index: &KeyIndex) {
    match index.is_on_stream() {
        true => streams::begin(&mut context.keys_of(0), index),
        false => upkeep::begin_filling(context, index, false),
    }
}

fn is_there(keys: &mut Keyspace<'_, '_>, index: &KeyIndex) -> bool {
    let entry = keys.find_dead_or_alive(&index.head.name);
    entry.is_some_and(|entry| entry.kind == SEARCH_INDEX && entry.payload() == index.head.number)
}

/// A key that is too long is not found, and counted nowhere.
impl Followed for KeyIndex {
    fn skips_keys(&self) -> bool {
        self.skips_initial_scan
    }

    fn document(&self, keys: &mut Keyspace<'_, '_>, name: &[u8]) -> Result<Option<Document>, Failure> {
        let schema = &self.definition.schema;
        let paths = schema.fields().map(|(_, field)| field.source());
        let Some(contents) = Contents::find(keys, self, name, Some(paths), Workspace::new(None)) else {
            return Ok(None);
        };
        let bytes: usize;
        let mut document = match &contents {
            Contents::Document(document) => {
                let values: Vec<Vec<Given<'_>>> = schema.fields().map(|(_, field)| given(document, field)).collect();
                let each = values.iter().flatten().map(|value| match value {
                    Given::Text(text) => text.len(),
                    _ => size_of::<f64>(),
                });
                bytes = each.sum();
                if bytes > DOCUMENT_BYTES_MAX {
                    return Ok(None);
                }
                let mut values = values.into_iter();
                upstash::document(schema, name, |_| values.next().unwrap_or_default())
            }
            Contents::Hash(_) => {
                let texts = schema.fields().map(|(_, field)| {
                    let value = contents.of_field(keys, field.source())?;
                    String::from_utf8(value).ok()
                });
                let texts: Vec<Option<String>> = texts.collect();
                bytes = texts.iter().flatten().map(String::len).sum();
                if bytes > DOCUMENT_BYTES_MAX {
                    return Ok(None);
                }
                let mut texts = texts.iter();
                upstash::document(schema, name, |_| {
                    let text = texts.next().and_then(Option::as_deref);
                    text.map(Given::Raw).into_iter().collect()
                })
            }
            // The documents of a stream are its entries, not the key.
            Contents::Entry(_) => return Ok(None),
        };
        document.bytes = bytes;
        Ok(Some(document))
    }
}
