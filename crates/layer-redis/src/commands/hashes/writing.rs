//! Writing a hash: changes are applied to its one row, or to the rows of a large one, and what has
//! expired goes.
//!
//! The rows are drawn in [`super::value`].

use crate::keyspace::{Elements, Entry, FLAG_A, FLAG_B, FieldDeadlines, Header, Keyspace, Kind, LARGE};
use crate::{keyspace::packed, keyspace::scan};
use quartet_engine::Row;
use smallvec::SmallVec;
use std::ops::ControlFlow;

use super::edits::{Change, Deadline, Edit, Edits};
use super::value::{deadline_key, deadlines_of_rows, decode_row, fields, packed_fields, row_count};

/// Expired fields of a large hash that the cycle removes at a time.
const EXPIRED_AT_A_TIME: usize = 10_000;
const PACKED_FIELDS_MAX: u64 = 128;
const PACKED_BYTES_MAX: usize = 4096;

/// The limits of Redis's compact form: from the configuration.
#[derive(Clone, Copy)]
pub struct Limits {
    pub entries_max: u64,
    pub value_bytes_max: usize,
}

/// The outcome of the edits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub added: u64,
    pub removed: u64,
    /// The hash has no live field left: the key was removed.
    pub is_gone: bool,
}

/// Applies the edits to the hash `name`, which was found as `entry`, and writes it back, or removes
/// it with its last field.
pub fn apply(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    entry: Option<&Entry>,
    mut edits: Edits<'_>,
    limits: Limits,
) -> Outcome {
    let mut flags = entry.map_or(0, |entry| entry.flags);
    if edits.sets_deadline() {
        flags |= FLAG_B;
    }
    if edits.has_longer_than(limits.value_bytes_max) {
        flags |= FLAG_A;
    }
    match entry {
        Some(entry) if entry.is_large() => {
            let key = LargeKey {
                header: Header::of(entry).flags(flags),
                ..LargeKey::of(name, entry)
            };
            apply_large(keys, &key, &edits, limits)
        }
        _ => apply_packed(keys, name, entry, flags, &mut edits, limits),
    }
}

/// A rewritten small hash.
struct Repacked {
    payload: Vec<u8>,
    has_deadlines: bool,
    count: u64,
    deadlines: FieldDeadlines,
}

impl Repacked {
    fn push(&mut self, name: &[u8], value: &[u8], deadline_ms: Option<u64>) {
        packed::push(&mut self.payload, name);
        packed::push(&mut self.payload, value);
        if self.has_deadlines {
            let bytes = deadline_ms.map(u64::to_be_bytes);
            packed::push(&mut self.payload, bytes.as_ref().map_or(&[], |bytes| &bytes[..]));
            let FieldDeadlines { first_ms, last_ms } = self.deadlines;
            let do_all_expire = self.count == 0 || last_ms.is_some();
            self.deadlines = FieldDeadlines {
                first_ms: first_ms.into_iter().chain(deadline_ms).min(),
                last_ms: deadline_ms
                    .filter(|_| do_all_expire)
                    .max(last_ms.filter(|_| deadline_ms.is_some())),
            };
        }
        self.count += 1;
    }
}

fn apply_packed(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    entry: Option<&Entry>,
    flags: u8,
    edits: &mut Edits<'_>,
    limits: Limits,
) -> Outcome {
    let mut outcome = Outcome::default();
    let edit_bytes: usize = edits.list.iter().map(edit_bytes).sum();
    let mut new = Repacked {
        payload: Vec::with_capacity(entry.map_or(0, |entry| entry.payload().len()) + edit_bytes),
        has_deadlines: flags & FLAG_B != 0,
        count: 0,
        deadlines: FieldDeadlines::default(),
    };
    let mut has_changed = false;
    for field in entry.into_iter().flat_map(packed_fields) {
        if !field.is_live(keys.now_ms) {
            keys.note_expired_field(name, field.name);
            has_changed = true;
            continue;
        }
        let Some(position) = edits.position(field.name) else {
            new.push(field.name, field.value, field.deadline_ms);
            continue;
        };
        let edit = &mut edits.list[position];
        edit.is_done = true;
        has_changed = true;
        match edit.change {
            Change::Set { value, deadline } => new.push(field.name, value, deadline.after(field.deadline_ms)),
            Change::Expire(deadline) => new.push(field.name, field.value, deadline.after(field.deadline_ms)),
            Change::Remove => outcome.removed += 1,
        }
    }
    for edit in edits.list.iter().filter(|edit| !edit.is_done) {
        if let Change::Set { value, deadline } = edit.change {
            new.push(edit.name, value, deadline.after(None));
            outcome.added += 1;
        }
    }
    if !has_changed && outcome.added == 0 {
        return outcome;
    }
    put_packed(keys, name, entry, flags, &new, limits);
    outcome.is_gone = new.count == 0;
    outcome
}

/// Bytes that an edit may add to the payload, rounded up.
fn edit_bytes(edit: &Edit<'_>) -> usize {
    match edit.change {
        Change::Set { value, .. } => edit.name.len() + value.len() + 20,
        Change::Expire(_) => 8,
        Change::Remove => 0,
    }
}

fn put_packed(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    entry: Option<&Entry>,
    mut flags: u8,
    new: &Repacked,
    limits: Limits,
) {
    if new.count == 0 {
        keys.remove(name);
        return;
    }
    if new.count > limits.entries_max {
        flags |= FLAG_A;
    }
    let header = entry.map_or(Header::new(Kind::Hash), Header::of).flags(flags);
    if new.count <= PACKED_FIELDS_MAX && new.payload.len() <= PACKED_BYTES_MAX {
        let tail = deadline_tail(flags, new.deadlines);
        keys.put_parts(name, header, &[&new.payload, tail.as_slice()]);
    } else {
        unpack(keys, name, header, new);
    }
}

/// Moves each field of a payload that is too large to a row of its own.
fn unpack(keys: &mut Keyspace<'_, '_>, name: &[u8], header: Header, new: &Repacked) {
    let elements = keys.new_elements();
    let mut scratch = Vec::new();
    for field in fields(&new.payload, new.has_deadlines) {
        set_row(
            keys,
            &elements,
            field.name,
            field.value,
            field.deadline_ms,
            &mut scratch,
        );
    }
    let header = header.flags(header.flags | LARGE);
    put_large(keys, name, header, &elements, new.count, new.deadlines);
}

fn put_large(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    header: Header,
    elements: &Elements,
    count: u64,
    deadlines: FieldDeadlines,
) {
    let tail = deadline_tail(header.flags, deadlines);
    keys.put_parts(name, header, &[elements.id(), &count.to_be_bytes(), &tail]);
}

/// The end of the payload: nothing without FLAG_B.
fn deadline_tail(flags: u8, deadlines: FieldDeadlines) -> SmallVec<[u8; FieldDeadlines::BYTES]> {
    if flags & FLAG_B == 0 {
        return SmallVec::new();
    }
    SmallVec::from_buf(deadlines.to_bytes())
}

/// A large hash that is being written.
struct LargeKey<'a> {
    name: &'a [u8],
    header: Header,
    old_flags: u8,
    /// The number of element rows.
    old_count: u64,
    old_deadlines: FieldDeadlines,
    elements: Elements,
}

impl<'a> LargeKey<'a> {
    /// The key as it was found.
    fn of(name: &'a [u8], entry: &Entry) -> LargeKey<'a> {
        LargeKey {
            name,
            header: Header::of(entry),
            old_flags: entry.flags,
            old_count: row_count(entry),
            old_deadlines: entry.field_deadlines(),
            elements: entry.elements(),
        }
    }
}

fn apply_large(keys: &mut Keyspace<'_, '_>, key: &LargeKey<'_>, edits: &Edits<'_>, limits: Limits) -> Outcome {
    let mut outcome = Outcome::default();
    let mut count = key.old_count;
    let mut scratch = Vec::new();
    for edit in &edits.list {
        match edit.change {
            Change::Set { value, deadline } => {
                let old = overwrite(keys, key, edit.name, value, deadline, &mut scratch);
                count += u64::from(old == Overwritten::Nothing);
                outcome.added += u64::from(old != Overwritten::Live);
            }
            Change::Expire(deadline) => expire_row(keys, key, edit.name, deadline, &mut scratch),
            Change::Remove => {
                let (removed_count, live) =
                    clear_rows(keys, key.name, &key.elements, std::iter::once(edit.name), &mut |_| {});
                count -= removed_count;
                outcome.removed += live;
            }
        }
    }
    let has_changed = outcome != Outcome::default() || edits.list.iter().any(|edit| edit.change != Change::Remove);
    outcome.is_gone = finish_large(keys, key, count, has_changed, limits);
    outcome
}

/// Removes fields of a large hash, and shows the rows that they had. Returns how many of them were
/// live.
pub fn remove_large<'f>(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    entry: &Entry,
    fields: impl ExactSizeIterator<Item = &'f [u8]>,
    visit: &mut dyn FnMut(&Row),
    limits: Limits,
) -> u64 {
    let key = LargeKey::of(name, entry);
    let (removed_count, live) = clear_rows(keys, name, &key.elements, fields, visit);
    finish_large(keys, &key, key.old_count - removed_count, live > 0, limits);
    live
}

/// Writes the key's row if it differs, notifies its watches if it does not, and re-indexes its
/// deadlines. Returns true if no live field is left: then the key is removed.
fn finish_large(
    keys: &mut Keyspace<'_, '_>,
    key: &LargeKey<'_>,
    count: u64,
    has_changed: bool,
    limits: Limits,
) -> bool {
    let mut header = key.header;
    if count > limits.entries_max {
        header.flags |= FLAG_A;
    }
    let has_deadlines = header.flags & FLAG_B != 0;
    let expired = if has_deadlines && count > 0 {
        let end = deadline_key(keys.now_ms.saturating_add(1), b"");
        key.elements.count(keys.tx, &[], Some(&end))
    } else {
        0
    };
    if count == expired {
        keys.remove(key.name);
        return true;
    }
    let deadlines = if has_deadlines {
        deadlines_of_rows(keys, &key.elements, count)
    } else {
        FieldDeadlines::default()
    };
    if (count, deadlines) != (key.old_count, key.old_deadlines) || header.flags != key.old_flags {
        put_large(keys, key.name, header, &key.elements, count, deadlines);
    } else if has_changed {
        keys.touch(key.name);
    }
    false
}

/// The former value of a written field of a large hash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overwritten {
    Nothing,
    Expired,
    Live,
}

fn overwrite(
    keys: &mut Keyspace<'_, '_>,
    key: &LargeKey<'_>,
    name: &[u8],
    value: &[u8],
    deadline: Deadline,
    scratch: &mut Vec<u8>,
) -> Overwritten {
    let has_deadlines = key.header.flags & FLAG_B != 0;
    let old = has_deadlines.then(|| scan::get(&key.elements, keys.tx, name)).flatten();
    let old_deadline = old.as_ref().and_then(|row| decode_row(row.value()).1);
    let was_live = old_deadline.is_none_or(|deadline_ms| deadline_ms > keys.now_ms);
    let new_deadline = deadline.after(old_deadline.filter(|_| was_live));
    if let Some(old_deadline) = old_deadline.filter(|_| old_deadline != new_deadline) {
        key.elements.clear(keys.tx, &deadline_key(old_deadline, name));
    }
    match set_row(keys, &key.elements, name, value, new_deadline, scratch) {
        false => Overwritten::Nothing,
        true if was_live => Overwritten::Live,
        true => {
            keys.note_expired_field(key.name, name);
            Overwritten::Expired
        }
    }
}

fn expire_row(keys: &mut Keyspace<'_, '_>, key: &LargeKey<'_>, name: &[u8], deadline: Deadline, scratch: &mut Vec<u8>) {
    if let Some(row) = scan::get(&key.elements, keys.tx, name) {
        let value = decode_row(row.value()).0;
        overwrite(keys, key, name, value, deadline, scratch);
    }
}

/// Removes the rows of fields, and shows them. Returns the number of removed rows, and of live
/// fields among them.
fn clear_rows<'f>(
    keys: &mut Keyspace<'_, '_>,
    key: &[u8],
    elements: &Elements,
    names: impl ExactSizeIterator<Item = &'f [u8]>,
    visit: &mut dyn FnMut(&Row),
) -> (u64, u64) {
    let (mut removed_count, mut timed) = (0, Vec::new());
    scan::clear_many(elements, keys.tx, names, &mut |row| {
        removed_count += 1;
        visit(row);
        if decode_row(row.value()).1.is_some() {
            timed.push(row.clone());
        }
    });
    let mut live = removed_count;
    for row in timed {
        let name = scan::element_of(Elements::name(&row));
        let deadline_ms = decode_row(row.value()).1.expect("a field with a deadline");
        elements.clear(keys.tx, &deadline_key(deadline_ms, name));
        if deadline_ms <= keys.now_ms {
            keys.note_expired_field(key, name);
            live -= 1;
        }
    }
    (removed_count, live)
}

/// Writes an element row and its deadline row. True if there was an element row.
fn set_row(
    keys: &mut Keyspace<'_, '_>,
    elements: &Elements,
    name: &[u8],
    value: &[u8],
    deadline_ms: Option<u64>,
    scratch: &mut Vec<u8>,
) -> bool {
    scratch.clear();
    scratch.push(u8::from(deadline_ms.is_some()));
    if let Some(deadline_ms) = deadline_ms {
        scratch.extend_from_slice(&deadline_ms.to_be_bytes());
        elements.set(keys.tx, &deadline_key(deadline_ms, name), b"");
    }
    scratch.extend_from_slice(value);
    scan::set(elements, keys.tx, name, scratch).is_some()
}

/// Removes the expired fields, and the key with its last field. Returns the number of removed
/// fields: zero if the key itself has expired, because then the cycle removes it whole.
pub fn expire_fields(keys: &mut Keyspace<'_, '_>, name: &[u8]) -> u64 {
    let Some(entry) = keys.find_dead_or_alive(name).filter(|entry| entry.kind == Kind::Hash) else {
        return 0;
    };
    let now_ms = keys.now_ms;
    let expired = match entry.is_large() {
        _ if entry.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms) => return 0,
        true if !keys.has_expired(&entry) => return expire_large(keys, name, &entry),
        true => row_count(&entry),
        false => packed_fields(&entry).filter(|field| !field.is_live(now_ms)).count() as u64,
    };
    if keys.has_expired(&entry) {
        keys.remove(name);
    } else {
        apply(keys, name, Some(&entry), Edits::default(), Limits::NONE);
    }
    expired
}

impl Limits {
    /// For writes that only remove.
    const NONE: Limits = Limits {
        entries_max: u64::MAX,
        value_bytes_max: usize::MAX,
    };
}

fn expire_large(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry) -> u64 {
    let key = LargeKey::of(name, entry);
    let end = deadline_key(keys.now_ms.saturating_add(1), b"");
    let mut due: Vec<Vec<u8>> = Vec::new();
    key.elements.scan(keys.tx, &[], Some(&end), false, &mut |key, _| {
        due.push(key[16..].to_vec());
        if due.len() < EXPIRED_AT_A_TIME {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    clear_rows(keys, name, &key.elements, due.iter().map(Vec::as_slice), &mut |_| {});
    let count = key.old_count - due.len() as u64;
    finish_large(keys, &key, count, true, Limits::NONE);
    due.len() as u64
}
