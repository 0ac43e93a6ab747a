//! The invariants of search: an index has the documents that its keys are, and no others, and its
//! rows agree with each other; rows of indexes belong to one.
//!
//! An index that does not hold what it promises is emptied and filled again from its keys.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use quartet_engine::{Repair, Transaction, UniqueId, Verification, decoded};
use quartet_layer_redis::module_api::{
    Changes, Entry, Keyspace, Kind, Modules, Stream, StreamId, database_and_name, key_row, keys_range, whole_entry,
};
use quartet_model::next_prefix;
use quartet_search::index::verify::{self, Presence};
use quartet_search::vectors::fields::VectorFields;

use crate::commands::search::upkeep::{Followed, rows};
use crate::commands::search::upstash::streams;
use crate::indexes::{
    Catalogue, Indexes, KeyIndex, Progress, StoredIndex, followed_stream_key, numbered, rows_prefix_of,
};
use crate::kinds::SEARCH_INDEX;

/// Tags of rows that end with a number: how far an index is filled, the stream that it follows, its
/// failures, its last use.
const NUMBERED: &[u8] = b"beft";

const NUMBER_BYTES: usize = size_of::<UniqueId>();

pub fn verify(modules: &Modules, verification: &mut Verification<'_>) {
    verify_index_keys(modules, verification);
    if verification.rows.nth(b"S", b"T", 0).is_none() {
        return;
    }
    let mut frozen = verification.frozen();
    let mut tx = frozen.transaction();
    let Some(catalogue) = decoded(|| Catalogue::of_rows(&mut tx)) else {
        let breach = "the definition of an index is none that a version has written";
        return verification.found(breach.into(), Vec::new());
    };
    verify_mark(verification, &mut tx, &catalogue);
    for index in catalogue.indexes() {
        verify_index(modules, verification, &mut tx, index.as_ref());
    }
    for index in catalogue.key_indexes() {
        match index.is_on_stream() {
            true => verify_index_on_stream(modules, verification, &mut tx, index),
            false => verify_index(modules, verification, &mut tx, index.as_ref()),
        }
    }
    verify_owners(modules, verification, &catalogue);
    if tx.is_unreadable() {
        verification
            .rows
            .scan_rows(b"", &[u8::MAX], &mut |_| ControlFlow::Continue(()));
    }
}

/// Indexes are found only while there is the row that says which definitions they have.
fn verify_mark(verification: &mut Verification<'_>, tx: &mut Transaction<'_>, catalogue: &Catalogue) {
    let is_known = Indexes::default().catalogue(tx).is_empty() == catalogue.is_empty();
    if !is_known {
        let (key, value) = Catalogue::first_mark();
        let breach = "indexes are not found, as the row that says when they changed is missing";
        verification.found(breach.into(), vec![Repair::Set { key, value }]);
    }
}

/// Verifies an index against its keys, its keys against the index, and its rows against each other.
fn verify_index<I: Followed>(
    modules: &Modules,
    verification: &mut Verification<'_>,
    tx: &mut Transaction<'_>,
    index: &I,
) {
    let mut wrong = Vec::new();
    let rows_of_layer = verification.rows;
    let (start, end) = keys_range(0);
    rows_of_layer.scan_rows(&start, &end, &mut |row| {
        let (_, name) = database_and_name(Transaction::layer_key(row));
        if index.covers(&name)
            && let Some(entry) = whole_entry(modules, row)
            && entry.kind == index.on()
        {
            let fault = decoded(|| of_key(tx, index, &name, &entry)).unwrap_or(Some(Fault::Different));
            wrong.extend(fault.map(|fault| fault.of(&name)));
        }
        ControlFlow::Continue(())
    });
    let breaches = decoded(|| {
        let mut wrong = Vec::new();
        let mut rows = rows(tx, index);
        verify::each_key(&mut rows, &mut |name| {
            let is_its_own = index.covers(name) && kind_of(modules, verification, name) == Some(index.on());
            if !is_its_own {
                wrong.push(Fault::Foreign.of(name));
            }
        });
        wrong.extend(verify::verify(&mut rows, index.graphs(), &VectorFields).map(String::from));
        wrong
    });
    wrong.extend(breaches.unwrap_or_else(|| vec![NOT_WRITTEN.into()]));
    report(verification, index, wrong);
}

const NOT_WRITTEN: &str = "has rows that no version has written";

fn report(verification: &mut Verification<'_>, index: &impl Followed, wrong: Vec<String>) {
    for breach in wrong {
        let breach = format!("index \"{}\" {breach}", index.name().escape_ascii());
        verification.found(breach, refill(index));
    }
}

/// Verifies an index against the entries of its stream, these against the index, and its rows
/// against each other.
fn verify_index_on_stream(
    modules: &Modules,
    verification: &mut Verification<'_>,
    tx: &mut Transaction<'_>,
    index: &KeyIndex,
) {
    let wrong = decoded(|| {
        let row = tx.get(&key_row(0, index.stream()));
        let entry = row
            .as_ref()
            .and_then(|row| whole_entry(modules, row))
            .filter(|entry| entry.kind == Kind::Stream);
        let stream = entry.as_ref().map(Stream::of);
        let mut wrong = Vec::new();
        if let Some(stream) = &stream {
            wrong.extend(wrong_entries(tx, index, stream));
        }
        let mut keys = Vec::new();
        verify::each_key(&mut rows(tx, index), &mut |key| keys.push(StreamId::from_bytes(key)));
        for id in keys {
            let is_there = stream.as_ref().is_some_and(|stream| stream.fields(tx, id).is_some());
            if !is_there {
                let id = shown(id);
                wrong.push(format!("has entry {id}, which the stream does not have"));
            }
        }
        wrong.extend(verify::verify(&mut rows(tx, index), None, &VectorFields).map(String::from));
        wrong
    });
    report(verification, index, wrong.unwrap_or_else(|| vec![NOT_WRITTEN.into()]));
}

/// Entries that are compared at once.
const ENTRIES_AT_ONCE: usize = 256;

/// Entries that the index lacks or has otherwise.
fn wrong_entries(tx: &mut Transaction<'_>, index: &KeyIndex, stream: &Stream) -> Vec<String> {
    let may_lack = index.progress(tx).is_some() || index.skips_initial_scan;
    let (mut wrong, mut next) = (Vec::new(), Some(StreamId::ZERO));
    while let Some(start) = next {
        let mut page = Vec::new();
        stream.scan(tx, start..=StreamId::MAX, false, &mut |id, fields| {
            page.push((id, fields.to_vec()));
            match page.len() < ENTRIES_AT_ONCE {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        let is_last = page.len() < ENTRIES_AT_ONCE;
        next = page.last().filter(|_| !is_last).and_then(|(id, _)| id.next());
        let mut rows = rows(tx, index);
        for (id, fields) in page {
            let is_wrong = match streams::document(index, id, &fields) {
                None => quartet_search::index::id_of_key(&mut rows, &id.to_bytes()).is_some(),
                Some(document) => match verify::presence(&mut rows, &document) {
                    Presence::Absent => !may_lack,
                    Presence::Different => true,
                    Presence::Same => false,
                },
            };
            if is_wrong {
                wrong.push(format!("does not have entry {} as it is", shown(id)));
            }
        }
    }
    wrong
}

fn shown(id: StreamId) -> String {
    String::from_utf8_lossy(id.text().as_bytes()).into_owned()
}

/// How an index and a key disagree.
enum Fault {
    Absent,
    Different,
    /// The index has it and should not.
    Foreign,
}

impl Fault {
    fn of(&self, name: &[u8]) -> String {
        let key = format!("key \"{}\"", name.escape_ascii());
        match self {
            Fault::Absent => format!("lacks {key}"),
            Fault::Different => format!("has {key} otherwise than it is"),
            Fault::Foreign => format!("has {key}, which is none of its keys"),
        }
    }
}

/// Compares a key with an index that covers it. An expired key or field may be in the index until
/// it is removed.
fn of_key<I: Followed>(tx: &mut Transaction<'_>, index: &I, name: &[u8], entry: &Entry) -> Option<Fault> {
    let changes = Changes::default();
    let now_ms = tx.now_micros() / 1000;
    let progress = index.progress(tx);
    let mut keys = Keyspace {
        tx,
        db: 0,
        now_ms,
        changes: &changes,
    };
    let document = index.document(&mut keys, name).ok().flatten();
    let deadlines = [entry.expiry_ms, entry.field_deadlines().first_ms];
    let is_over = deadlines.iter().flatten().any(|deadline_ms| *deadline_ms <= now_ms);
    let mut rows = rows(tx, index);
    let Some(document) = document else {
        let is_in = quartet_search::index::id_of_key(&mut rows, name).is_some();
        return (is_in && !is_over).then_some(Fault::Foreign);
    };
    let is_filled_anew = progress.is_some_and(|progress| progress.anew);
    match verify::presence(&mut rows, &document) {
        Presence::Absent if progress.is_none() && !index.skips_keys() && !is_over => Some(Fault::Absent),
        Presence::Different if !is_filled_anew && !index.keeps_older() && !is_over => Some(Fault::Different),
        _ => None,
    }
}

fn kind_of(modules: &Modules, verification: &Verification<'_>, name: &[u8]) -> Option<Kind> {
    let (mut kind, row_key) = (None, key_row(0, name));
    let after = [row_key.as_slice(), &[0]].concat();
    verification.rows.scan_rows(&row_key, &after, &mut |row| {
        kind = whole_entry(modules, row).map(|entry| entry.kind);
        ControlFlow::Break(())
    });
    kind
}

/// Empties an index; it is filled from its keys when the server runs.
fn refill(index: &impl Followed) -> Vec<Repair> {
    let start = index.rows_prefix();
    let end = next_prefix(&start);
    vec![
        Repair::ClearRange { start, end },
        Repair::Clear {
            key: numbered(b'f', index.number()),
        },
        Repair::Clear {
            key: followed_stream_key(index.number()),
        },
        Repair::Set {
            key: numbered(b'b', index.number()),
            value: Progress::FIRST.to_row(),
        },
    ]
}

/// Rows of an index have one, and an index that is a key has that key.
fn verify_owners(modules: &Modules, verification: &mut Verification<'_>, catalogue: &Catalogue) {
    let numbers_of_redis = catalogue.indexes().map(|index| index.head.number);
    let numbers: Vec<UniqueId> = numbers_of_redis
        .chain(catalogue.key_indexes().map(|index| index.head.number))
        .collect();
    for tag in NUMBERED {
        let prefixes_known = numbers.iter().map(|number| numbered(*tag, number)).collect();
        verify_prefixes(verification, *tag, &prefixes_known, |key| {
            &key[..key.len().min(2 + NUMBER_BYTES)]
        });
    }
    let row_prefixes = catalogue.indexes().map(|index| index.rows_prefix());
    let all_prefixes = row_prefixes.chain(catalogue.key_indexes().map(|index| index.rows_prefix()));
    verify_prefixes(verification, b'd', &all_prefixes.collect(), rows_prefix_of);
    for index in catalogue.key_indexes() {
        if has_key(modules, verification, index) {
            continue;
        }
        let breach = format!("index \"{}\" is no key", index.head.name.escape_ascii());
        verification.found(
            breach,
            vec![Repair::Clear {
                key: KeyIndex::row_key(&index.head.name),
            }],
        );
    }
}

/// Verifies that rows with this tag have a known prefix. `prefix_of` extracts it from a key.
fn verify_prefixes(
    verification: &mut Verification<'_>,
    tag: u8,
    expected: &BTreeSet<Vec<u8>>,
    prefix_of: impl Fn(&[u8]) -> &[u8],
) {
    let mut start = vec![b'S', tag];
    let end = [b'S', tag + 1];
    while let Some(row) = verification.rows.nth(&start, &end, 0) {
        let prefix = prefix_of(Transaction::layer_key(&row));
        let next = next_prefix(prefix);
        if !expected.contains(prefix) {
            let count = verification.rows.count(prefix, &next);
            let repair = Repair::ClearRange {
                start: prefix.to_vec(),
                end: next.clone(),
            };
            verification.found(format!("{count} rows belong to no index"), vec![repair]);
        }
        start = next;
    }
}

fn has_key(modules: &Modules, verification: &Verification<'_>, index: &KeyIndex) -> bool {
    let (mut has, row_key) = (false, key_row(0, &index.head.name));
    let after = [row_key.as_slice(), &[0]].concat();
    verification.rows.scan_rows(&row_key, &after, &mut |row| {
        let entry = whole_entry(modules, row);
        has = entry.is_some_and(|entry| entry.kind == SEARCH_INDEX && entry.payload() == index.head.number);
        ControlFlow::Break(())
    });
    has
}

/// A key of type `search` has its index.
fn verify_index_keys(modules: &Modules, verification: &mut Verification<'_>) {
    let rows = verification.rows;
    rows.scan_rows(b"K", b"L", &mut |row| {
        let row_key = Transaction::layer_key(row);
        let Some(entry) = whole_entry(modules, row).filter(|entry| entry.kind == SEARCH_INDEX) else {
            return ControlFlow::Continue(());
        };
        let (_, name) = database_and_name(row_key);
        let definition = rows.get_row(&KeyIndex::row_key(&name));
        let has_index = definition.is_some_and(|row| row.starts_with(entry.payload()));
        if !has_index {
            let breach = format!("key \"{}\" is an index that there is not", name.escape_ascii());
            verification.found(breach, vec![Repair::Clear { key: row_key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
}

#[cfg(test)]
mod tests;
