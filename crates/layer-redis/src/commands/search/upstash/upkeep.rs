//! An index that is a key follows its keys: each that changed is looked at again, as it is then.

use quartet_engine::Transaction;
use quartet_search::filter::{self, Given};
use quartet_search::{Document, WriteRows, index};

use super::contents::{Contents, given};
use crate::indexes::{Catalogue, KeyIndex, Progress, TransactionRows};
use crate::keyspace::{Keyspace, Kind};

/// Most bytes of a key's indexed values. A key with more is written and not found.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// How many documents are settled in one transaction at most.
const SETTLED_MAX: usize = 4 * index::UNSETTLED_MAX as usize;

/// Brings every index that covers these keys of database 0 up to date. An index whose own key is
/// gone, or is another, goes.
pub fn follow(keys: &mut Keyspace<'_, '_>, catalogue: &Catalogue, names: &[Vec<u8>]) {
    for index in catalogue.key_indexes() {
        if names.contains(&index.name) && !is_there(keys, index) {
            index.clear(keys.tx);
            continue;
        }
        let mut is_changed = false;
        for name in names.iter().filter(|name| index.covers(name)) {
            update(keys, index, name);
            is_changed = true;
        }
        if is_changed {
            settle(keys.tx, index);
        }
    }
}

fn is_there(keys: &mut Keyspace<'_, '_>, index: &KeyIndex) -> bool {
    let entry = keys.find_dead_or_alive(&index.name);
    entry.is_some_and(|entry| entry.kind == Kind::SearchIndex && entry.payload() == index.number)
}

fn rows<'r, 't>(tx: &'r mut Transaction<'t>, index: &KeyIndex) -> TransactionRows<'r, 't> {
    TransactionRows {
        tx,
        prefix: index.rows_prefix(),
    }
}

/// The key is in the index afterwards as it is, or not at all.
fn update(keys: &mut Keyspace<'_, '_>, index: &KeyIndex, name: &[u8]) {
    let document = document(keys, index, name);
    apply(&mut rows(keys.tx, index), name, document);
}

pub fn apply(rows: &mut dyn WriteRows, name: &[u8], document: Option<Document>) {
    match document {
        Some(document) => _ = index::put(rows, &document),
        None => _ = index::remove(rows, name),
    }
}

fn settle(tx: &mut Transaction<'_>, index: &KeyIndex) {
    let mut rows = rows(tx, index);
    if index::waiting(&mut rows) >= index::UNSETTLED_MAX {
        index::settle(&mut rows, SETTLED_MAX);
    }
}

/// The key as the index has it. Nothing if there is none, or it is none of the index's.
pub fn document(keys: &mut Keyspace<'_, '_>, index: &KeyIndex, name: &[u8]) -> Option<Document> {
    let schema = &index.definition.schema;
    match Contents::find(keys, index, name)? {
        Contents::Document(document) => {
            let values: Vec<Vec<Given<'_>>> = schema.fields().map(|(_, field)| given(&document, field)).collect();
            let bytes = values.iter().flatten().map(|value| match value {
                Given::Text(text) => text.len(),
                _ => size_of::<f64>(),
            });
            if bytes.sum::<usize>() > DOCUMENT_BYTES_MAX {
                return None;
            }
            let mut values = values.into_iter();
            Some(filter::document(schema, name, |_| values.next().unwrap_or_default()))
        }
        contents @ Contents::Hash(_) => {
            let texts = schema.fields().map(|(_, field)| {
                let value = contents.of_field(keys, field.source())?;
                String::from_utf8(value).ok()
            });
            let texts: Vec<Option<String>> = texts.collect();
            if texts.iter().flatten().map(String::len).sum::<usize>() > DOCUMENT_BYTES_MAX {
                return None;
            }
            let mut texts = texts.iter();
            Some(filter::document(schema, name, |_| {
                let text = texts.next().and_then(Option::as_deref);
                text.map(Given::Raw).into_iter().collect()
            }))
        }
    }
}

/// Looks at about `count` more keys. Returns true if the index is filled.
pub fn fill(keys: &mut Keyspace<'_, '_>, index: &KeyIndex, progress: Progress, count: u64) -> bool {
    let mut names = Vec::new();
    let next = keys.scan_page(progress.cursor, count, &mut |name, entry| {
        if entry.kind == index.definition.on && index.covers(name) {
            names.push(name.to_vec());
        }
    });
    for name in names {
        update(keys, index, &name);
    }
    settle(keys.tx, index);
    let progress = (next != 0).then_some(Progress {
        cursor: next,
        ..progress
    });
    index.set_progress(keys.tx, progress);
    progress.is_none()
}
