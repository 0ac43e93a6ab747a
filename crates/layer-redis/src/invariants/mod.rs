//! The invariants between the rows of a Redis database, for `quartet check`: the indexes of expiry,
//! the counts and indexes inside large collections, streams' groups, libraries' functions, and the
//! rows of modules.
//!
//! Rows are walked once, each looked up in its index, and each index row in its target. Memory
//! meanwhile holds the id of each large collection.

pub mod collections;
mod streams;

use std::collections::HashMap;
use std::ops::ControlFlow;

use quartet_engine::Row;
use quartet_engine::{Invariants, Repair, Transaction, Verification, decoded};
use quartet_model::{LayerId, next_prefix};

use crate::commands::json;
use crate::commands::lists::Ends;
use crate::keyspace::stored_key::{ELEMENTS_PREFIX_BYTES, ID_BYTES, StoredKey, database_and_name, described, name};
use crate::keyspace::{Entry, FLAG_B, FieldDeadlines, Kind, key_row, marks};
use crate::module::Modules;
use crate::{keyspace::packed, keyspace::string_value};

/// Redis' promises.
pub struct RedisInvariants {
    modules: &'static Modules,
}

impl RedisInvariants {
    pub fn new(modules: &'static Modules) -> RedisInvariants {
        RedisInvariants { modules }
    }
}

impl Invariants for RedisInvariants {
    fn layer(&self) -> LayerId {
        LayerId::Redis
    }

    fn judge(&self, verification: &mut Verification<'_>) {
        let owners = verify_keys(self.modules, verification);
        verify_elements(verification, &owners);
        verify_deadlines(self.modules, verification, b'T');
        verify_deadlines(self.modules, verification, b'F');
        verify_marks(self.modules, verification);
        verify_functions(verification);
        for module in self.modules.all() {
            module.verify(self.modules, verification);
        }
    }
}

/// Every key's own row; answers which key each large collection belongs to.
fn verify_keys(modules: &Modules, verification: &mut Verification<'_>) -> HashMap<[u8; ID_BYTES], Vec<u8>> {
    let mut owners = HashMap::new();
    let rows = verification.rows;
    rows.scan_rows(b"K", b"L", &mut |row| {
        let row_key = Transaction::layer_key(row);
        let Some(entry) = whole_entry(modules, row) else {
            let message = format!("the row of {} is none that a version has written", name(row_key));
            verification.found(message, vec![Repair::Clear { key: row_key.to_vec() }]);
            return ControlFlow::Continue(());
        };
        let stored = StoredKey { row_key, entry: &entry };
        verify_deadline_rows(verification, &stored);
        verify_mark_rows(verification, &stored);
        if entry.is_large() {
            let id = entry.payload()[..ID_BYTES].try_into().expect("ten bytes of id");
            if let Some(other) = owners.insert(id, row_key.to_vec()) {
                let message = format!("{} and {} have the same elements", name(&other), stored.name());
                verification.found(message, Vec::new());
            }
            verify_collection(modules, verification, &stored, row.value());
        }
        ControlFlow::Continue(())
    });
    owners
}

fn verify_collection(modules: &Modules, verification: &mut Verification<'_>, stored: &StoredKey<'_>, value: &[u8]) {
    match stored.entry.kind {
        Kind::Set => collections::verify_set(verification, stored, value),
        Kind::Hash => collections::verify_hash(verification, stored, value),
        Kind::SortedSet => collections::verify_sorted_set(verification, stored, value),
        Kind::List => collections::verify_blocks(verification, stored, value),
        Kind::Stream => streams::judge(verification, stored, value),
        Kind::String => collections::verify_chunks(verification, stored, value),
        Kind::Json => collections::verify_document(verification, stored, value),
        Kind::Module(_) => {
            let data_type = modules.data_type(stored.entry.kind);
            data_type
                .iter()
                .for_each(|data_type| data_type.verify(verification, stored, value));
        }
    }
}

/// A key's row, if it is one that a version has written.
pub fn whole_entry(modules: &Modules, row: &Row) -> Option<Entry> {
    let entry = decoded(|| Entry::from_row(row.clone()))?;
    let payload = entry.payload();
    let is_whole = match (entry.kind, entry.is_large()) {
        (Kind::String, true) => string_value::chunked_length(entry.large_payload()).is_some(),
        (Kind::Json, true) => json::Head::read(entry.large_payload()).is_some(),
        (Kind::List, true) => payload.len() > ID_BYTES && Ends::of(&entry).is_some(),
        (Kind::Hash, true) => payload.len() == ID_BYTES + 8 + field_deadlines_bytes(&entry),
        (Kind::Set | Kind::SortedSet, true) => payload.len() == ID_BYTES + 8,
        (Kind::Module(_), _) => decoded(|| {
            modules
                .data_type(entry.kind)
                .is_some_and(|module_kind| module_kind.is_whole(&entry))
        })
        .unwrap_or(false),
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
fn verify_deadline_rows(verification: &mut Verification<'_>, stored: &StoredKey<'_>) {
    let deadlines = [
        (b'T', stored.entry.expiry_ms, "expires"),
        (
            b'F',
            stored.entry.field_deadlines().first_ms,
            "has a field that expires",
        ),
    ];
    for (tag, deadline_ms, does) in deadlines {
        let Some(deadline_ms) = deadline_ms else { continue };
        let (database, name) = database_and_name(stored.row_key);
        let key = [&[tag], deadline_ms.to_be_bytes().as_slice(), &[database], &name].concat();
        if verification.rows.get_row(&key).is_none() {
            let message = format!(
                "{} {does} at {deadline_ms}, and the index of times does not know",
                stored.name()
            );
            let value = Vec::new();
            verification.found(message, vec![Repair::Set { key, value }]);
        }
    }
}

/// A row in an index of times has its key, with that time.
fn verify_deadlines(modules: &Modules, verification: &mut Verification<'_>, tag: u8) {
    let rows = verification.rows;
    rows.scan_rows(&[tag], &[tag + 1], &mut |row| {
        let key = Transaction::layer_key(row);
        let expected = key[1..].split_first_chunk::<8>();
        let deadline_key =
            expected.and_then(|(deadline, suffix)| suffix.split_first().map(|(db, name)| (deadline, *db, name)));
        let is_supported = deadline_key.is_some_and(|(deadline, database, name)| {
            let mut own = None;
            let row_key = key_row(database, name);
            let after = [row_key.as_slice(), &[0]].concat();
            rows.scan_rows(&row_key, &after, &mut |row| {
                own = whole_entry(modules, row);
                ControlFlow::Break(())
            });
            let deadline_ms = own.and_then(|entry| match tag {
                b'T' => entry.expiry_ms,
                _ => entry.field_deadlines().first_ms,
            });
            deadline_ms == Some(u64::from_be_bytes(*deadline))
        });
        if !is_supported {
            let (_, database, name) = deadline_key.unwrap_or((&[0; 8], 0, b""));
            let message = format!(
                "the index of times has {}, which has no such time",
                described(database, name)
            );
            verification.found(message, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
}

/// A key with marks has a row for each.
fn verify_mark_rows(verification: &mut Verification<'_>, stored: &StoredKey<'_>) {
    for key in rows_of_marks(stored.row_key, stored.entry) {
        if verification.rows.get_row(&key).is_none() {
            let message = format!("{} is not found by one of its marks", stored.name());
            let value = Vec::new();
            verification.found(message, vec![Repair::Set { key, value }]);
        }
    }
}

fn rows_of_marks(row_key: &[u8], entry: &Entry) -> Vec<Vec<u8>> {
    if !marks::are_of(entry.kind, entry.flags) {
        return Vec::new();
    }
    let (database, name) = database_and_name(row_key);
    marks::rows(database, &name, entry.flags, entry.payload())
}

/// A row of a mark has its key, with that mark.
fn verify_marks(modules: &Modules, verification: &mut Verification<'_>) {
    let rows = verification.rows;
    rows.scan_rows(b"M", b"N", &mut |row| {
        let key = Transaction::layer_key(row);
        let of_key = marks::key_of(key);
        let is_supported = of_key.as_ref().is_some_and(|(database, name)| {
            let row_key = key_row(*database, name);
            let after = [row_key.as_slice(), &[0]].concat();
            let mut own = None;
            rows.scan_rows(&row_key, &after, &mut |row| {
                own = whole_entry(modules, row);
                ControlFlow::Break(())
            });
            own.is_some_and(|entry| rows_of_marks(&row_key, &entry).iter().any(|row| row == key))
        });
        if !is_supported {
            let (database, name) = of_key.unwrap_or_default();
            let message = format!("a mark has {}, which has no such mark", described(database, &name));
            verification.found(message, vec![Repair::Clear { key: key.to_vec() }]);
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
            let message = format!("{count} elements belong to no key");
            let repair = Repair::ClearRange {
                start: prefix.to_vec(),
                end: end.clone(),
            };
            verification.found(message, vec![repair]);
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
            let message = format!("function \"{}\" is in no library", key[2..].escape_ascii());
            verification.found(message, vec![Repair::Clear { key: key.to_vec() }]);
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
            let message = format!(
                "function \"{}\" of a library cannot be found",
                function[0].escape_ascii()
            );
            let mut value = Vec::new();
            for part in [digest, function[2], library] {
                packed::push(&mut value, part);
            }
            verification.found(message, vec![Repair::Set { key, value }]);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
