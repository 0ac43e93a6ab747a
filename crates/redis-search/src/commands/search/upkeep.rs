//! An index follows its keys: each key that changed is looked at again, as it is then.

use std::sync::Arc;

use quartet_engine::Transaction;
use quartet_layer_redis::module_api::{Context, Entry, Keyspace, Kind, Matches, Stored, Workspace, hashes, text_bytes};
use quartet_search::error::IndexingFailure;
use quartet_search::index;
use quartet_search::index::State;
use quartet_search::index::document::Document;
use quartet_search::index::schema::{FieldKind, Schema};
use quartet_search::redis::aggregate::{Record, Value};
use quartet_search::rows::WriteRows;
use quartet_search::text::analysis::Language;
use quartet_search::vectors::fields::VectorFields;
use quartet_search::vectors::flat::Codes;
use quartet_search::vectors::hnsw;
use quartet_search::vectors::hnsw::Prepared;

use super::contents::{Contents, indexed, indexed_bytes, selected};
use crate::indexes::{Catalogue, Failures, Index, Indexes, Progress, StoredIndex, TransactionRows};

/// Most bytes of a key's indexed values. A key with more is written and not found.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// Most documents that one transaction settles.
const SETTLED_MAX: usize = 4 * index::UNSETTLED_MAX as usize;

/// More vectors than these are not left out of their graph: each search compares them all. Beyond,
/// a write takes some in itself.
const UNLINKED_MAX: u64 = 8192;

/// The number of vectors linked by such a write.
const LINKED_BY_WRITE: usize = 4;

/// Vectors that are taken into graphs in one transaction, at most, and about how many bytes of
/// them: it holds the lock while it writes their nodes.
const LINKED_MAX: usize = 8;
const LINKED_BYTES: usize = 64 << 10;

/// Keys that are looked at by the command that makes an index. Larger databases are filled in the
/// background.
pub const FILLED_AT_ONCE: u64 = 256;

/// Why a key in reach of an index is not in it.
pub struct Failure {
    field: Option<u16>,
    reason: String,
}

/// An index that follows its keys.
pub trait Followed: StoredIndex {
    /// The key as the index has it. Nothing if there is none, or it is none of the index's.
    fn document(&self, keys: &mut Keyspace<'_, '_>, name: &[u8]) -> Result<Option<Document>, Failure>;

    /// Its fields, if some of them may have graphs of vectors.
    fn graphs(&self) -> Option<&Schema> {
        None
    }

    /// Returns true if keys without later writes may be missing, as they were not scanned.
    fn skips_keys(&self) -> bool;

    /// Returns true if documents without later writes may have the form of an older definition.
    fn keeps_older(&self) -> bool {
        false
    }
}

impl Followed for Index {
    fn document(&self, keys: &mut Keyspace<'_, '_>, name: &[u8]) -> Result<Option<Document>, Failure> {
        document(keys, self, name)
    }

    fn graphs(&self) -> Option<&Schema> {
        Some(&self.definition.schema)
    }

    fn skips_keys(&self) -> bool {
        self.definition.skips_initial_scan
    }

    /// There is no record whether synonyms were added without a scan.
    fn keeps_older(&self) -> bool {
        self.definition.keeps_older || !self.definition.schema.synonyms.is_empty()
    }
}

impl From<IndexingFailure> for Failure {
    fn from(failure: IndexingFailure) -> Failure {
        Failure {
            field: Some(failure.field),
            reason: failure.reason,
        }
    }
}

/// Most bytes of one key that one write may have all indexes together take in: about a second's
/// work with the lock held. A document's text is read once for each index, which counts as this
/// part of it.
const WRITTEN_BYTES_MAX: usize = 4 << 20;
const READ_PART: u64 = 16;

/// How much of each key of a command the indexes have taken in.
pub struct Work<'n> {
    names: &'n [Vec<u8>],
    /// For each name: indexes, and bytes of all of them.
    taken: Vec<(usize, usize)>,
}

impl<'n> Work<'n> {
    pub fn of(names: &'n [Vec<u8>]) -> Work<'n> {
        Work {
            names,
            taken: vec![(0, 0); names.len()],
        }
    }

    /// Some key is more than a write may have taken in. [`DOCUMENT_BYTES_MAX`] bounds a single
    /// index.
    pub fn is_too_much(&self) -> bool {
        let is_too_much = |(indexes, bytes): &(usize, usize)| *indexes > 1 && *bytes > WRITTEN_BYTES_MAX;
        self.taken.iter().any(is_too_much)
    }
}

/// Brings every index that covers these keys of database 0 up to date, unless that is too much.
pub fn follow(keys: &mut Keyspace<'_, '_>, catalogue: &Catalogue, work: &mut Work<'_>, codes: &CodesOf<'_>) {
    for index in catalogue.indexes() {
        if follow_one(keys, index.as_ref(), work) {
            link_beyond(keys.tx, index, codes);
        }
        if work.is_too_much() {
            return;
        }
    }
}

/// Brings one index up to date with these keys, as far as it covers them. Returns true if it covers
/// some.
pub fn follow_one(keys: &mut Keyspace<'_, '_>, index: &impl Followed, work: &mut Work<'_>) -> bool {
    let mut is_changed = false;
    for (name, (indexes, bytes)) in work.names.iter().zip(&mut work.taken) {
        if index.covers(name) {
            *indexes += 1;
            *bytes += update(keys, index, name);
            is_changed = true;
        }
    }
    if is_changed {
        settle(keys.tx, index);
    }
    is_changed
}

pub fn rows<'r, 't>(tx: &'r mut Transaction<'t>, index: &impl StoredIndex) -> TransactionRows<'r, 't> {
    TransactionRows {
        tx,
        prefix: index.rows_prefix(),
    }
}

/// The key is in the index afterwards as it is, or not at all. Returns the bytes that were taken
/// in.
fn update(keys: &mut Keyspace<'_, '_>, index: &impl Followed, name: &[u8]) -> usize {
    let entry = keys.find(name).filter(|entry| entry.kind == Kind::Json);
    let read = entry.map_or(0, |entry| (text_bytes(&entry) / READ_PART) as usize);
    let document = index.document(keys, name);
    let documents_taken = document
        .as_ref()
        .ok()
        .and_then(Option::as_ref)
        .map_or(0, |document| document.bytes);
    if let Err(failure) = &document {
        Failures::note(keys.tx, index.number(), failure.field, &failure.reason, name);
    }
    apply(&mut rows(keys.tx, index), name, document.ok().flatten());
    read + documents_taken
}

/// The key is in these rows afterwards as this document, or not at all.
pub fn apply(rows: &mut dyn WriteRows, name: &[u8], document: Option<Document>) {
    match document {
        Some(document) => _ = index::put(rows, &document, &VectorFields),
        None => _ = index::remove(rows, name, &VectorFields),
    }
}

/// Settles the waiting documents of an index, if they are too many. On a full disk they keep
/// waiting: rewritten postings would take the room of the deletions that empty it.
pub fn settle(tx: &mut Transaction<'_>, index: &impl Followed) {
    if index::waiting(&mut rows(tx, index)) >= index::UNSETTLED_MAX {
        tx.optionally(|tx| _ = index::settle(&mut rows(tx, index), SETTLED_MAX));
    }
}

/// Settles the waiting documents after a while without additions, so that searches need not read
/// them.
pub fn settle_quiet(tx: &mut Transaction<'_>, index: &Index, indexes: &Indexes, now_ms: u64) {
    let state = State::read(&mut rows(tx, index));
    if state.unsettled() > 0 && indexes.is_quiet(index, state.last_id, now_ms) {
        tx.optionally(|tx| _ = index::settle(&mut rows(tx, index), state.unsettled() as usize));
    }
}

/// Finds what an index keeps in memory of its vectors.
pub type CodesOf<'c> = dyn Fn(&Index) -> Option<Arc<Codes>> + 'c;

/// Takes some vectors into their graphs if too many wait.
fn link_beyond(tx: &mut Transaction<'_>, index: &Index, codes: &CodesOf<'_>) {
    let schema = &index.definition.schema;
    let last_id = State::read(&mut rows(tx, index)).last_id;
    let is_looked_at = last_id.is_multiple_of(LINKED_BY_WRITE as u64 / 2);
    if is_looked_at && hnsw::waiting(&mut rows(tx, index), schema) > UNLINKED_MAX {
        let codes = codes(index);
        tx.optionally(|tx| _ = hnsw::settle(&mut rows(tx, index), schema, codes.as_deref(), LINKED_BY_WRITE));
    }
}

/// Returns true if too many vectors wait for their links.
pub fn are_too_many_unlinked(tx: &mut Transaction<'_>, index: &Index) -> bool {
    hnsw::waiting(&mut rows(tx, index), &index.definition.schema) > UNLINKED_MAX
}

/// Returns true if vectors of an index wait to be taken into graphs or out of them, or an image of
/// these is missed.
pub fn has_links_to_make(tx: &mut Transaction<'_>, index: &Index, codes: &CodesOf<'_>) -> bool {
    let (mut rows, schema) = (rows(tx, index), &index.definition.schema);
    hnsw::waiting(&mut rows, schema) > 0
        || hnsw::has_graph(schema) && codes(index).is_some_and(|codes| codes.are_images_wanted())
}

/// Computes the changes of an index's graphs that insert or remove some of the waiting vectors, at
/// a snapshot. Builds images that searches have missed.
pub fn prepare_links(tx: &mut Transaction<'_>, index: &Index, codes: Option<&Codes>) -> Vec<Prepared> {
    let (mut rows, schema) = (rows(tx, index), &index.definition.schema);
    let lengths = schema.fields().map(|(_, field)| match &field.kind {
        FieldKind::Vector(kind) if kind.graph().is_some() => kind.bytes(),
        _ => 0,
    });
    let longest = lengths.max().unwrap_or_default();
    if longest == 0 {
        return Vec::new();
    }
    if let Some(codes) = codes {
        hnsw::make_images(&mut rows, schema, codes);
    }
    let count = (LINKED_BYTES / longest).clamp(1, LINKED_MAX);
    hnsw::prepare(&mut rows, schema, codes, count)
}

fn document(keys: &mut Keyspace<'_, '_>, index: &Index, name: &[u8]) -> Result<Option<Document>, Failure> {
    let definition = &index.definition;
    let entry = keys.find(name);
    let values = definition.schema.fields().count();
    let Some(contents) = entry.and_then(|entry| Contents::of_entry(index, entry, values, Workspace::new(None))) else {
        return Ok(None);
    };
    if !passes(keys, index, name, &contents) {
        return Ok(None);
    }
    let other;
    let schema = match language(keys, index, &contents)? {
        None => &definition.schema,
        Some(language) => {
            let mut schema: Schema = definition.schema.clone();
            schema.language = language;
            other = schema;
            &other
        }
    };
    let mut document = match &contents {
        Contents::Hash(entry) => of_hash(keys, schema, name, entry)?,
        Contents::Json(document) => of_json(keys, schema, name, document)?,
    };
    document.score = definition.score;
    if let Some(field) = &definition.score_field
        && let Some(score) = contents.text(keys, field)
    {
        let score = std::str::from_utf8(&score).ok().and_then(|score| score.parse().ok());
        document.score = score.filter(|score: &f64| (0.0..=1.0).contains(score)).unwrap_or(1.0);
    }
    Ok(Some(document))
}

fn of_hash(keys: &mut Keyspace<'_, '_>, schema: &Schema, name: &[u8], entry: &Entry) -> Result<Document, Failure> {
    let mut bytes = 0;
    let mut values: Vec<Option<Vec<u8>>> = Vec::new();
    for (_, field) in schema.fields() {
        let value = hashes::find(keys, entry, field.path.as_bytes()).map(|element| element.value().to_vec());
        bytes += value.as_ref().map_or(0, Vec::len);
        values.push(value);
    }
    check_bytes(bytes)?;
    let mut values = values.into_iter();
    let mut document = Document::new(schema, name, |_| values.next().flatten())?;
    document.bytes = bytes;
    Ok(document)
}

fn of_json(
    keys: &mut Keyspace<'_, '_>,
    schema: &Schema,
    name: &[u8],
    document: &Stored<'_>,
) -> Result<Document, Failure> {
    let (mut bytes, mut values) = (0, Vec::new());
    for (_, field) in schema.fields() {
        let matches = selected(keys, document, &field.path);
        bytes += matches.values().map(indexed_bytes).sum::<usize>();
        values.push(matches);
    }
    check_bytes(bytes)?;
    let mut values = values.iter();
    let mut document = Document::of_json(schema, name, |_| {
        let field_values = values.next().into_iter().flat_map(Matches::values);
        field_values.map(indexed).collect()
    })?;
    document.bytes = bytes;
    Ok(document)
}

fn check_bytes(bytes: usize) -> Result<(), Failure> {
    if bytes <= DOCUMENT_BYTES_MAX {
        return Ok(());
    }
    let reason = format!("Indexed values have {bytes} bytes together, at most {DOCUMENT_BYTES_MAX} are indexed");
    Err(Failure { field: None, reason })
}

/// The language that the key names. A document that names one which is not known is indexed in the
/// index's, a hash is not indexed.
fn language(keys: &mut Keyspace<'_, '_>, index: &Index, contents: &Contents<'_>) -> Result<Option<Language>, Failure> {
    let field = index.definition.language_field.as_ref();
    let Some(named) = field.and_then(|field| contents.text(keys, field)) else {
        return Ok(None);
    };
    let number = std::str::from_utf8(&named)
        .ok()
        .and_then(|name| Language::of_name(name).ok());
    if number.is_some() || matches!(contents, Contents::Json(_)) {
        return Ok(number);
    }
    Err(Failure {
        field: None,
        reason: format!("Invalid language: '{}'", String::from_utf8_lossy(&named)),
    })
}

/// The index's FILTER is true for the key, or there is none. An error is not true. A property is a
/// field of the index, or one of the key, or `__key`.
fn passes(keys: &mut Keyspace<'_, '_>, index: &Index, key: &[u8], contents: &Contents<'_>) -> bool {
    let Some((_, filter)) = &index.definition.filter else {
        return true;
    };
    let mut record = Record::of_filter();
    for name in filter.properties() {
        if name == "__key" {
            record.set(name, Value::text(key));
            continue;
        }
        let field = index.definition.schema.find(name.as_bytes());
        let text = field.and_then(|(_, field)| contents.text(keys, &field.path));
        if let Some(text) = text.or_else(|| contents.text(keys, name)) {
            record.set(name, Value::Text(text));
        }
    }
    filter.value(&record).is_ok_and(|value| value.is_true())
}

/// Fills the index, or leaves it to the background if there are many keys.
pub fn begin_filling(context: &mut Context<'_, '_>, index: &impl Followed, anew: bool) {
    let mut keys = context.keys_of(0);
    let progress = Progress { cursor: 0, anew };
    match keys.key_count() <= FILLED_AT_ONCE {
        true => _ = fill(&mut keys, index, progress, u64::MAX),
        false => index.set_progress(keys.tx, Some(progress)),
    }
}

/// Looks at about `count` more keys. Returns true if the index is filled.
pub fn fill(keys: &mut Keyspace<'_, '_>, index: &impl Followed, progress: Progress, count: u64) -> bool {
    let mut names = Vec::new();
    let next = keys.scan_page(progress.cursor, count, &mut |name, entry| {
        if entry.kind == index.on() && index.covers(name) {
            names.push(name.to_vec());
        }
    });
    for name in names {
        let is_known = index::id_of_key(&mut rows(keys.tx, index), &name).is_some();
        if progress.anew || !is_known {
            update(keys, index, &name);
        }
    }
    settle(keys.tx, index);
    let progress = (next != 0).then_some(Progress {
        cursor: next,
        ..progress
    });
    index.set_progress(keys.tx, progress);
    progress.is_none()
}

/// The number of keys in the index.
pub fn document_count(tx: &mut Transaction<'_>, index: &Index) -> usize {
    State::read(&mut rows(tx, index)).documents as usize
}

/// Names of the keys that are in the index, the first in byte order, at most `count_max`.
pub fn keys_of(tx: &mut Transaction<'_>, index: &Index, count_max: usize) -> Vec<Vec<u8>> {
    index::keys(&mut rows(tx, index), count_max)
}
