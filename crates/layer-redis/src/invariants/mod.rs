//! The invariants between the rows of a Redis database, for `quartet check`: the indexes of expiry,
//! the counts and indexes inside large collections, streams' groups, libraries' functions, indexes
//! of search.
//!
//! Rows are walked once, each looked up in its index, and each index row in its target. Memory
//! meanwhile holds the id of each large collection.

mod collections;
mod search;
mod streams;
mod vector_sets;

use std::collections::HashMap;
use std::ops::ControlFlow;

use quartet_engine::{Invariants, Repair, Transaction, Verification, decoded};
use quartet_model::{LayerId, next_prefix};
use quartet_store::Row;

use crate::commands::lists::Ends;
use crate::commands::{self, json};
use crate::keyspace::places::KeyBytes;
use crate::keyspace::{Entry, FLAG_B, FieldDeadlines, Kind, key_row};
use crate::{keyspace::packed, keyspace::places, keyspace::string_value};

/// Redis' promises.
pub struct RedisInvariants;

impl Invariants for RedisInvariants {
    fn layer(&self) -> LayerId {
        LayerId::Redis
    }

    fn judge(&self, verification: &mut Verification<'_>) {
        let owners = verify_keys(verification);
        verify_elements(verification, &owners);
        verify_deadlines(verification, b'T');
        verify_deadlines(verification, b'F');
        verify_functions(verification);
        search::verify(verification);
    }
}

/// Bytes of a large collection's id.
const ID_BYTES: usize = 10;
/// A tag and an id.
const ELEMENTS_PREFIX_BYTES: usize = 1 + ID_BYTES;

/// A key whose row can be read.
struct Found<'r> {
    /// The row's key, relative to the layer: the tag, the database, the place.
    row_key: &'r [u8],
    entry: &'r Entry,
}

impl Found<'_> {
    fn name(&self) -> String {
        name(self.row_key)
    }

    /// The part below the key's id, and its end.
    fn elements(&self) -> (Vec<u8>, Vec<u8>) {
        let prefix = [b"E".as_slice(), &self.entry.payload()[..ID_BYTES]].concat();
        let end = next_prefix(&prefix);
        (prefix, end)
    }

    /// Replaces the number at `offset` bytes after the id.
    fn with_number(&self, value: &[u8], offset: usize, number: u64) -> Repair {
        self.with_bytes(value, offset, &number.to_be_bytes())
    }

    fn with_bytes(&self, value: &[u8], offset: usize, bytes: &[u8]) -> Repair {
        let mut value = value.to_vec();
        let at = self.entry.header_bytes() + ID_BYTES + offset;
        value[at..at + bytes.len()].copy_from_slice(bytes);
        Repair::Set {
            key: self.row_key.to_vec(),
            value,
        }
    }
}

/// Database and name of the key with this row.
fn database_and_name(row_key: &[u8]) -> (u8, KeyBytes) {
    let database = row_key.get(1).copied().unwrap_or_default();
    (database, places::name(row_key.get(2..).unwrap_or_default()))
}

/// How a key is called in findings.
fn name(row_key: &[u8]) -> String {
    let (database, name) = database_and_name(row_key);
    described(database, &name)
}

fn described(database: u8, name: &[u8]) -> String {
    format!("key \"{}\" of database {database}", name.escape_ascii())
}

/// Every key's own row; answers which key each large collection belongs to.
fn verify_keys(verification: &mut Verification<'_>) -> HashMap<[u8; ID_BYTES], Vec<u8>> {
    let mut owners = HashMap::new();
    let rows = verification.rows;
    rows.scan_rows(b"K", b"L", &mut |row| {
        let row_key = Transaction::layer_key(row);
        let Some(entry) = entry(row) else {
            let what = format!("the row of {} is none that a version has written", name(row_key));
            verification.found(what, vec![Repair::Clear { key: row_key.to_vec() }]);
            return ControlFlow::Continue(());
        };
        let found = Found { row_key, entry: &entry };
        verify_deadline_rows(verification, &found);
        if entry.is_large() {
            let id = entry.payload()[..ID_BYTES].try_into().expect("ten bytes of id");
            if let Some(other) = owners.insert(id, row_key.to_vec()) {
                let what = format!("{} and {} have the same elements", name(&other), found.name());
                verification.found(what, Vec::new());
            }
            verify_collection(verification, &found, row.value());
        }
        ControlFlow::Continue(())
    });
    owners
}

fn verify_collection(verification: &mut Verification<'_>, found: &Found<'_>, value: &[u8]) {
    match found.entry.kind {
        Kind::Set => collections::verify_set(verification, found, value),
        Kind::Hash => collections::verify_hash(verification, found, value),
        Kind::SortedSet => collections::verify_sorted_set(verification, found, value),
        Kind::List => collections::verify_blocks(verification, found, value),
        Kind::Stream => streams::judge(verification, found, value),
        Kind::String => collections::verify_chunks(verification, found, value),
        Kind::Json => collections::verify_document(verification, found),
        Kind::VectorSet | Kind::VectorIndex => vector_sets::verify(verification, found),
        Kind::Suggestions => collections::verify_suggestions(verification, found, value),
        // It has no elements.
        Kind::SearchIndex => {}
    }
}

/// A key's row, if it is one that a version has written.
fn entry(row: &Row) -> Option<Entry> {
    let entry = decoded(|| Entry::from_row(row.clone()))?;
    let payload = entry.payload();
    let is_whole = match (entry.kind, entry.is_large()) {
        (Kind::String, true) => string_value::chunked_length(entry.large_payload()).is_some(),
        (Kind::Json, true) => json::large_text_bytes(entry.large_payload()).is_some(),
        (Kind::List, true) => payload.len() > ID_BYTES && Ends::of(&entry).is_some(),
        (Kind::Hash, true) => payload.len() == ID_BYTES + 8 + field_deadlines_bytes(&entry),
        (Kind::Suggestions, false) => false,
        (Kind::SearchIndex, is_large) => !is_large && payload.len() == ID_BYTES,
        (Kind::Set | Kind::SortedSet | Kind::Suggestions, true) => payload.len() == ID_BYTES + 8,
        (Kind::VectorSet | Kind::VectorIndex, is_large) => {
            let head = commands::vector_sets::head(&entry).filter(|_| is_large);
            head.is_some_and(|head| head.quantization.is_plain() == (entry.kind == Kind::VectorIndex))
        }
        (Kind::Stream, is_large) => is_large && decoded(|| streams::of_entry(&entry)).is_some(),
        (Kind::String, false) => true,
        (Kind::Json, false) => serde_json::from_slice::<serde::de::IgnoredAny>(payload).is_ok(),
        (Kind::List | Kind::Set, false) => !payload.is_empty() && packed::is_whole(payload),
        (Kind::Hash, false) => packed_hash_is_whole(&entry),
        (Kind::SortedSet, false) => packed_pairs_are_whole(payload),
    };
    is_whole.then_some(entry)
}

/// The length of the deadlines at the end of the hash's payload, in bytes.
fn field_deadlines_bytes(entry: &Entry) -> usize {
    let has_deadlines = entry.flags & FLAG_B != 0;
    if has_deadlines { FieldDeadlines::BYTES } else { 0 }
}

fn packed_hash_is_whole(entry: &Entry) -> bool {
    let payload = entry.payload();
    let tail_bytes = field_deadlines_bytes(entry);
    let fields = payload.len().checked_sub(tail_bytes).map(|length| &payload[..length]);
    let parts = if tail_bytes > 0 { 3 } else { 2 };
    fields.is_some_and(|fields| packed::is_whole(fields) && packed::count(fields).is_multiple_of(parts))
}

fn packed_pairs_are_whole(payload: &[u8]) -> bool {
    let is_score = |(index, part): (usize, &[u8])| index % 2 == 0 || part.len() == 8;
    packed::is_whole(payload)
        && packed::count(payload).is_multiple_of(2)
        && packed::iter(payload).enumerate().all(is_score)
}

/// A key with a time has its row in the index of times.
fn verify_deadline_rows(verification: &mut Verification<'_>, found: &Found<'_>) {
    let deadlines = [
        (b'T', found.entry.expiry_ms, "expires"),
        (b'F', found.entry.field_deadlines().first_ms, "has a field that expires"),
    ];
    for (tag, deadline_ms, does) in deadlines {
        let Some(deadline_ms) = deadline_ms else { continue };
        let (database, name) = database_and_name(found.row_key);
        let key = [&[tag], deadline_ms.to_be_bytes().as_slice(), &[database], &name].concat();
        if verification.rows.get_row(&key).is_none() {
            let what = format!(
                "{} {does} at {deadline_ms}, and the index of times does not know",
                found.name()
            );
            let value = Vec::new();
            verification.found(what, vec![Repair::Set { key, value }]);
        }
    }
}

/// A row in an index of times has its key, with that time.
fn verify_deadlines(verification: &mut Verification<'_>, tag: u8) {
    let rows = verification.rows;
    rows.scan_rows(&[tag], &[tag + 1], &mut |row| {
        let key = Transaction::layer_key(row);
        let expected = key[1..].split_first_chunk::<8>();
        let of_key = expected.and_then(|(deadline, rest)| rest.split_first().map(|(db, name)| (deadline, *db, name)));
        let is_supported = of_key.is_some_and(|(deadline, database, name)| {
            let mut own = None;
            let row_key = key_row(database, name);
            let after = [row_key.as_slice(), &[0]].concat();
            rows.scan_rows(&row_key, &after, &mut |row| {
                own = entry(row);
                ControlFlow::Break(())
            });
            let deadline_ms = own.and_then(|entry| match tag {
                b'T' => entry.expiry_ms,
                _ => entry.field_deadlines().first_ms,
            });
            deadline_ms == Some(u64::from_be_bytes(*deadline))
        });
        if !is_supported {
            let (_, database, name) = of_key.unwrap_or((&[0; 8], 0, b""));
            let what = format!(
                "the index of times has {}, which has no such time",
                described(database, name)
            );
            verification.found(what, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
}

/// Elements belong to a key. Looks at one row of each collection.
fn verify_elements(verification: &mut Verification<'_>, owners: &HashMap<[u8; ID_BYTES], Vec<u8>>) {
    let mut start = b"E".to_vec();
    while let Some(row) = verification.rows.nth(&start, b"F", 0) {
        let key = Transaction::layer_key(&row);
        let prefix = &key[..key.len().min(ELEMENTS_PREFIX_BYTES)];
        let end = next_prefix(prefix);
        let id: Option<[u8; ID_BYTES]> = prefix[1..].try_into().ok();
        if !id.is_some_and(|id| owners.contains_key(&id)) {
            let count = verification.rows.count(prefix, &end);
            let what = format!("{count} elements belong to no key");
            let repair = Repair::ClearRange {
                start: prefix.to_vec(),
                end: end.clone(),
            };
            verification.found(what, vec![repair]);
        }
        start = end;
    }
}

/// A function's row and its library name each other.
fn verify_functions(verification: &mut Verification<'_>) {
    let rows = verification.rows;
    rows.scan(b"Lf", b"Lg", false, &mut |key, value| {
        let library = packed::iter(value).nth(2).unwrap_or_default();
        let owner = rows.get(&[b"Ll", library].concat());
        let functions = owner.iter().flat_map(|owner| packed::iter(owner).skip(2).step_by(3));
        let mut names = functions.map(<[u8]>::to_ascii_lowercase);
        if !names.any(|name| name == key[2..]) {
            let what = format!("function \"{}\" is in no library", key[2..].escape_ascii());
            verification.found(what, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
    rows.scan(b"Ll", b"Lm", false, &mut |key, value| {
        verify_library(verification, &key[2..], value);
        ControlFlow::Continue(())
    });
}

fn verify_library(verification: &mut Verification<'_>, library: &[u8], value: &[u8]) {
    let parts: Vec<&[u8]> = packed::iter(value).collect();
    let digest = parts.first().copied().unwrap_or_default();
    for function in parts.get(2..).unwrap_or_default().chunks_exact(3) {
        let key = [b"Lf".as_slice(), &function[0].to_ascii_lowercase()].concat();
        if verification.rows.get_row(&key).is_none() {
            let what = format!(
                "function \"{}\" of a library cannot be found",
                function[0].escape_ascii()
            );
            let mut value = Vec::new();
            for part in [digest, function[2], library] {
                packed::push(&mut value, part);
            }
            verification.found(what, vec![Repair::Set { key, value }]);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
