//! A hash as rows.
//!
//! ```text
//! small   one row            payload: (field, value)*            packed
//!                            payload: (field, value, deadline)*  packed, if FLAG_B; the deadline has eight bytes or none
//! large   the key's row      payload: id (10), number of element rows (8)
//! either  with FLAG_B, two deadlines end the payload, each (8) or all ones: the first, if a field has any, and the last, if
//!         every field has one
//!         a row an element   position, field -> 0, value  or  1, deadline (8), value
//!         a row a deadline   0 (8), deadline (8), field -> nothing
//! ```
//!
//! A hash becomes large past `PACKED_FIELDS_MAX` fields or `PACKED_BYTES_MAX` of payload and stays
//! so. A small hash is read and written in one pass over its row, and every write drops what has
//! expired. In a large one, expired fields stay in their rows until the cycle or a writer of that
//! field removes them; no reader sees them.
//!
//! Flags: `LARGE`; `FLAG_A` once Redis would have left its compact form; `FLAG_B` once a field has
//! had a deadline. All three stay set for the key's life.
//!
//! Invariants: a hash has at least one row; the count in a large hash's row equals the number of
//! its element rows; there is a deadline row for each element row with a deadline; the first
//! deadline, expired or not, is in the index of the expiry cycle. After the last deadline every
//! command treats the hash as absent.

use std::ops::ControlFlow;

use quartet_engine::Row;

use crate::keyspace::{Elements, Entry, FLAG_B, FieldDeadlines, Keyspace};
use crate::{keyspace::packed, keyspace::scan};

/// Longest field: its element's key must fit into the store.
pub const FIELD_BYTES_MAX: usize = 65_000;

/// A field as it is stored.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    /// Milliseconds since the Unix epoch.
    pub deadline_ms: Option<u64>,
}

impl Field<'_> {
    pub(super) fn is_live(&self, now_ms: u64) -> bool {
        self.deadline_ms.is_none_or(|deadline_ms| deadline_ms > now_ms)
    }
}

/// A field's value as it was found: a part of the hash's row, or a row of its own.
pub enum Found<'e> {
    Packed { value: &'e [u8], deadline_ms: Option<u64> },
    Row(Row),
}

impl Found<'_> {
    pub fn value(&self) -> &[u8] {
        match self {
            Found::Packed { value, .. } => value,
            Found::Row(row) => decode_row(row.value()).0,
        }
    }

    pub fn deadline_ms(&self) -> Option<u64> {
        match self {
            Found::Packed { deadline_ms, .. } => *deadline_ms,
            Found::Row(row) => decode_row(row.value()).1,
        }
    }
}

/// The live field `name`.
pub fn find<'e>(keys: &mut Keyspace<'_, '_>, entry: &'e Entry, name: &[u8]) -> Option<Found<'e>> {
    let now_ms = keys.now_ms;
    if entry.is_large() {
        let row = scan::get(&entry.elements(), keys.tx, name)?;
        let live = decode_row(row.value()).1.is_none_or(|deadline_ms| deadline_ms > now_ms);
        return live.then_some(Found::Row(row));
    }
    let field = packed_fields(entry)
        .find(|field| field.name == name)
        .filter(|field| field.is_live(now_ms))?;
    Some(Found::Packed {
        value: field.value,
        deadline_ms: field.deadline_ms,
    })
}

/// Number of live fields.
pub fn len(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> u64 {
    if entry.is_large() {
        return row_count(entry) - expired_count(keys, entry);
    }
    if entry.flags & FLAG_B == 0 {
        return packed::count(entry.payload()) as u64 / 2;
    }
    let now_ms = keys.now_ms;
    packed_fields(entry).filter(|field| field.is_live(now_ms)).count() as u64
}

/// Visits every live field, in the order of the rows.
pub fn each(keys: &mut Keyspace<'_, '_>, entry: &Entry, visit: &mut dyn FnMut(Field<'_>)) {
    let now_ms = keys.now_ms;
    if !entry.is_large() {
        packed_fields(entry)
            .filter(|field| field.is_live(now_ms))
            .for_each(visit);
        return;
    }
    entry
        .elements()
        .scan(keys.tx, &scan::FIRST, None, false, &mut |key, value| {
            let field = row_field(key, value);
            if field.is_live(now_ms) {
                visit(field);
            }
            ControlFlow::Continue(())
        });
}

/// Visits the live fields of one page of HSCAN. Returns the next cursor.
pub fn page(
    keys: &mut Keyspace<'_, '_>,
    entry: &Entry,
    cursor: u64,
    count: u64,
    visit: &mut dyn FnMut(Field<'_>),
) -> u64 {
    if !entry.is_large() {
        each(keys, entry, visit);
        return 0;
    }
    let now_ms = keys.now_ms;
    scan::page(&entry.elements(), keys.tx, cursor, count, &mut |name, row| {
        let (value, deadline_ms) = decode_row(row);
        let field = Field {
            name,
            value,
            deadline_ms,
        };
        if field.is_live(now_ms) {
            visit(field);
        }
    })
}

/// Visits the live fields at `indexes`, each below [`len`], in the order of the rows. Repeated
/// indexes are visited again.
pub fn at(keys: &mut Keyspace<'_, '_>, entry: &Entry, indexes: &[u64], visit: &mut dyn FnMut(Field<'_>)) {
    if entry.is_large() && expired_count(keys, entry) == 0 {
        for &index in indexes {
            let row = entry.elements().nth(keys.tx, &scan::FIRST, index);
            let row = row.expect("an index below the number of rows");
            visit(row_field(Elements::name(&row), row.value()));
        }
        return;
    }
    // Expired rows are between the live ones only until the next cycle, so walking all of them is
    // rare.
    let mut live: Vec<(Vec<u8>, Vec<u8>, Option<u64>)> = Vec::new();
    each(keys, entry, &mut |field| {
        live.push((field.name.to_vec(), field.value.to_vec(), field.deadline_ms));
    });
    for &index in indexes {
        let (name, value, deadline_ms) = &live[index as usize];
        visit(Field {
            name,
            value,
            deadline_ms: *deadline_ms,
        });
    }
}

/// Number of element rows of a large hash: its live fields, and expired fields that are not removed
/// yet.
pub(super) fn row_count(entry: &Entry) -> u64 {
    u64::from_be_bytes(entry.large_payload()[..8].try_into().expect("eight bytes of count"))
}

/// The deadlines of a large hash that has `rows` element rows.
pub(super) fn deadlines_of_rows(keys: &mut Keyspace<'_, '_>, elements: &Elements, rows: u64) -> FieldDeadlines {
    let end = Some(scan::FIRST.as_slice());
    let deadline = |row: Row| deadline_of(Elements::name(&row));
    let first_ms = elements.nth(keys.tx, &[], 0).and_then(deadline);
    let do_all_expire = first_ms.is_some() && elements.count(keys.tx, &[], end) == rows;
    let last = do_all_expire.then(|| elements.last(keys.tx, &[], end)).flatten();
    FieldDeadlines {
        first_ms,
        last_ms: last.and_then(deadline),
    }
}

pub(super) fn expired_count(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> u64 {
    if entry.flags & FLAG_B == 0 {
        return 0;
    }
    let end = deadline_key(keys.now_ms.saturating_add(1), b"");
    entry.elements().count(keys.tx, &[], Some(&end))
}

pub(super) fn packed_fields(entry: &Entry) -> impl Iterator<Item = Field<'_>> {
    let has_deadlines = entry.flags & FLAG_B != 0;
    let payload = entry.payload();
    let tail_bytes = if has_deadlines { FieldDeadlines::BYTES } else { 0 };
    fields(&payload[..payload.len() - tail_bytes], has_deadlines)
}

pub(super) fn fields(payload: &[u8], has_deadlines: bool) -> impl Iterator<Item = Field<'_>> {
    let mut parts = packed::iter(payload);
    std::iter::from_fn(move || {
        let (name, value) = (parts.next()?, parts.next()?);
        let deadline = if has_deadlines { parts.next()? } else { &[] };
        let deadline_ms = deadline.try_into().ok().map(u64::from_be_bytes);
        Some(Field {
            name,
            value,
            deadline_ms,
        })
    })
}

/// An element row's value: the field's value and its deadline.
pub(super) fn decode_row(row: &[u8]) -> (&[u8], Option<u64>) {
    match row.split_first() {
        Some((1, after_flag)) => {
            let (deadline, value) = after_flag.split_at(8);
            let deadline_ms = u64::from_be_bytes(deadline.try_into().expect("eight bytes of deadline"));
            (value, Some(deadline_ms))
        }
        Some((_, value)) => (value, None),
        None => panic!("an element row of a hash without its first byte"),
    }
}

pub(super) fn row_field<'a>(key: &'a [u8], row: &'a [u8]) -> Field<'a> {
    let (value, deadline_ms) = decode_row(row);
    Field {
        name: scan::element_of(key),
        value,
        deadline_ms,
    }
}

pub(super) fn deadline_key(deadline_ms: u64, name: &[u8]) -> Vec<u8> {
    [&[0; 8], &deadline_ms.to_be_bytes(), name].concat()
}

/// The deadline at the start of a deadline row's key; `None` for the key of an element.
pub(super) fn deadline_of(key: &[u8]) -> Option<u64> {
    let deadline = key.strip_prefix(&[0; 8])?.first_chunk()?;
    Some(u64::from_be_bytes(*deadline))
}
