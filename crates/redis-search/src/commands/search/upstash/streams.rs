//! An index on a stream: each entry is a document, whose key is the entry's ID in sixteen bytes.
//!
//! The index follows the one key in its definition. Added and deleted entries are noted by their
//! IDs; trimmed entries are the documents before the stream's first entry. If the key has another
//! stream than before, or none, the index starts again.

use std::ops::ControlFlow;

use quartet_layer_redis::module_api::{Entry, Keyspace, Kind, Stream, StreamId, TouchedEntry, packed};
use quartet_search::index::document::Document;
use quartet_search::index::{self, State};
use quartet_search::upstash::{self, Given};
use quartet_search::vectors::fields::VectorFields;

use crate::commands::search::upkeep::{DOCUMENT_BYTES_MAX, FILLED_AT_ONCE, apply, rows, settle};
use crate::indexes::{FollowedStream, KeyIndex, Progress, StoredIndex};

/// More documents than these are not removed one by one if fewer remain: the index is rebuilt.
const TRIMMED_AT_ONCE: u64 = 1024;

/// Keys of documents that are read at once.
const KEYS_AT_ONCE: usize = 64;

/// The stream of the index, if it exists.
pub fn stream_of(keys: &mut Keyspace<'_, '_>, index: &KeyIndex) -> Option<Entry> {
    keys.find(index.stream()).filter(|entry| entry.kind == Kind::Stream)
}

/// Brings the index up to date with its stream, of which these entries were added or deleted.
pub fn follow(keys: &mut Keyspace<'_, '_>, index: &KeyIndex, touched: &[TouchedEntry]) {
    let Some(stream) = stream_of(keys, index).as_ref().map(Stream::of) else {
        index.clear_rows(keys.tx);
        index.set_progress(keys.tx, None);
        return FollowedStream::clear(keys.tx, &index.head.number);
    };
    let elements = *stream.elements.id();
    let followed = FollowedStream::read(keys.tx, &index.head.number);
    if followed.is_none_or(|followed| followed.elements != elements) {
        return begin(keys, index);
    }
    for entry in touched.iter().filter(|entry| entry.elements == elements) {
        update(keys, index, &stream, entry.id);
    }
    forget_trimmed(keys, index, &stream);
}

/// Fills the index with what the stream has, or leaves it to the background if that is much.
pub fn begin(keys: &mut Keyspace<'_, '_>, index: &KeyIndex) {
    index.clear_rows(keys.tx);
    index.set_progress(keys.tx, None);
    let Some(stream) = stream_of(keys, index).as_ref().map(Stream::of) else {
        return FollowedStream::clear(keys.tx, &index.head.number);
    };
    set_looked_at(keys, index, &stream, StreamId::ZERO);
    match stream.length <= FILLED_AT_ONCE {
        true => _ = fill(keys, index, u64::MAX),
        false => index.set_progress(keys.tx, Some(Progress::FIRST)),
    }
}

/// Follows the stream from here on; what it has is left out.
pub fn skip(keys: &mut Keyspace<'_, '_>, index: &KeyIndex) {
    if let Some(stream) = stream_of(keys, index).as_ref().map(Stream::of) {
        set_looked_at(keys, index, &stream, stream.last);
    }
}

/// Looks at `count` more entries. Returns true if the index is filled.
pub fn fill(keys: &mut Keyspace<'_, '_>, index: &KeyIndex, count: u64) -> bool {
    let Some(stream) = stream_of(keys, index).as_ref().map(Stream::of) else {
        index.set_progress(keys.tx, None);
        return true;
    };
    let followed = FollowedStream::read(keys.tx, &index.head.number);
    let followed = followed.filter(|followed| followed.elements == *stream.elements.id());
    let looked_at = followed.map_or(StreamId::ZERO, |followed| followed.looked_at);
    let mut entries: Vec<(StreamId, Vec<u8>)> = Vec::new();
    let mut has_more = false;
    let start = looked_at.next().unwrap_or(StreamId::MAX);
    stream.scan(keys.tx, start..=StreamId::MAX, false, &mut |id, fields| {
        has_more = entries.len() as u64 == count;
        if has_more {
            return ControlFlow::Break(());
        }
        entries.push((id, fields.to_vec()));
        ControlFlow::Continue(())
    });
    for (id, fields) in &entries {
        let document = document(index, *id, fields);
        apply(&mut rows(keys.tx, index), &id.to_bytes(), document);
    }
    settle(keys.tx, index);
    let looked_at = entries.last().map_or(looked_at, |(id, _)| *id);
    set_looked_at(keys, index, &stream, looked_at);
    let progress = has_more.then(|| progress_at(keys, &stream, looked_at));
    index.set_progress(keys.tx, progress);
    progress.is_none()
}

fn progress_at(keys: &mut Keyspace<'_, '_>, stream: &Stream, looked_at: StreamId) -> Progress {
    let share = stream.count_to(keys.tx, looked_at) as f64 / stream.length.max(1) as f64;
    Progress::of_share(share)
}

fn set_looked_at(keys: &mut Keyspace<'_, '_>, index: &KeyIndex, stream: &Stream, looked_at: StreamId) {
    let elements = *stream.elements.id();
    FollowedStream { elements, looked_at }.write(keys.tx, &index.head.number);
}

/// The entry is in the index afterwards as it is, or not at all.
fn update(keys: &mut Keyspace<'_, '_>, index: &KeyIndex, stream: &Stream, id: StreamId) {
    let fields = stream.fields(keys.tx, id);
    let document = fields.and_then(|fields| document(index, id, &fields));
    apply(&mut rows(keys.tx, index), &id.to_bytes(), document);
    settle(keys.tx, index);
}

/// Takes out the documents before the stream's first entry.
fn forget_trimmed(keys: &mut Keyspace<'_, '_>, index: &KeyIndex, stream: &Stream) {
    let documents = State::read(&mut rows(keys.tx, index)).documents;
    let trimmed = documents.saturating_sub(stream.length);
    if trimmed > TRIMMED_AT_ONCE && trimmed > stream.length {
        return begin(keys, index);
    }
    let is_trimmed = |key: &Vec<u8>| stream.length == 0 || StreamId::from_bytes(key) < stream.first;
    loop {
        let mut index_rows = rows(keys.tx, index);
        let first = index::keys(&mut index_rows, KEYS_AT_ONCE);
        let trimmed: Vec<&Vec<u8>> = first.iter().take_while(|key| is_trimmed(key)).collect();
        trimmed
            .iter()
            .for_each(|key| _ = index::remove(&mut index_rows, key, &VectorFields));
        if trimmed.len() < KEYS_AT_ONCE {
            break;
        }
    }
    settle(keys.tx, index);
}

/// An entry as a document; None if it is too long. A field that occurs several times has all these
/// values.
pub fn document(index: &KeyIndex, id: StreamId, fields: &[u8]) -> Option<Document> {
    let schema = &index.definition.schema;
    let pairs = pairs(fields);
    let values_of = |source: &str| {
        let own = pairs.iter().filter(move |(name, _)| *name == source.as_bytes());
        own.filter_map(|(_, value)| std::str::from_utf8(value).ok().map(Given::Raw))
            .collect::<Vec<Given<'_>>>()
    };
    let bytes = schema.fields().flat_map(|(_, field)| values_of(field.source()));
    let bytes: usize = bytes
        .map(|value| if let Given::Raw(text) = value { text.len() } else { 0 })
        .sum();
    (bytes <= DOCUMENT_BYTES_MAX).then(|| upstash::document(schema, &id.to_bytes(), |field| values_of(field.source())))
}

/// The names and values of an entry's fields.
pub fn pairs(fields: &[u8]) -> Vec<(&[u8], &[u8])> {
    let words: Vec<&[u8]> = packed::iter(fields).collect();
    words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}
