//! A hash as rows.
//!
//! ```text
//! small   one row            payload: (field, value)*            packed
//!                            payload: (field, value, deadline)*  packed, if FLAG_B; the deadline has eight bytes or none
//! large   the key's row      payload: id (10), number of element rows (8)
//! either  with FLAG_B, the first deadline (8) ends the payload: NO_DEADLINE if no field has one
//!         a row an element   position, field -> 0, value  or  1, deadline (8), value
//!         a row a deadline   0 (8), deadline (8), field -> nothing
//! ```
//!
//! A hash becomes large past `PACKED_FIELDS_MAX` fields or `PACKED_BYTES_MAX` of payload and stays so. A small hash is read
//! and written in one pass over its row, and every write drops what has expired. In a large one, expired fields stay in their
//! rows until the cycle or a writer of that field removes them; no reader sees them.
//!
//! Flags: `LARGE`; `FLAG_A` once Redis would have left its compact form; `FLAG_B` once a field has had a deadline. All three
//! stay set for the key's life.
//!
//! Invariants: a hash has at least one row; the number in a large hash's row is that of its element rows; the deadline rows
//! are those of the element rows with a deadline; the first deadline, expired or not, stands in the index of the expiry cycle.

use std::collections::HashMap;
use std::ops::ControlFlow;

use quartet_store::Row;
use smallvec::SmallVec;

use crate::keyspace::{Elements, Entry, FLAG_A, FLAG_B, Header, Keyspace, Kind, LARGE, NO_DEADLINE};
use crate::{packed, scan};

const PACKED_FIELDS_MAX: u64 = 128;
const PACKED_BYTES_MAX: usize = 4096;
/// Longest field: its element's key must fit into the store.
pub const FIELD_BYTES_MAX: usize = 65_000;
/// Expired fields of a large hash that the cycle removes at a time.
const EXPIRED_AT_A_TIME: usize = 10_000;

/// A field as it is stored.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    /// Milliseconds since the Unix epoch.
    pub deadline_ms: Option<u64>,
}

impl Field<'_> {
    fn is_live(&self, now_ms: u64) -> bool {
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
        let row = entry.elements().get(keys.tx, &scan::element_key(name))?;
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

/// Visits the live fields at `indexes`, each below [`len`], in the order of the rows. Repeated indexes are visited again.
pub fn at(keys: &mut Keyspace<'_, '_>, entry: &Entry, indexes: &[u64], visit: &mut dyn FnMut(Field<'_>)) {
    if entry.is_large() && expired_count(keys, entry) == 0 {
        for &index in indexes {
            let row = entry.elements().nth(keys.tx, &scan::FIRST, index);
            let row = row.expect("an index below the number of rows");
            visit(row_field(Elements::name(&row), row.value()));
        }
        return;
    }
    // Expired rows stand between the live ones only until the next cycle, so walking all of them is rare.
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

/// Number of element rows of a large hash: its live fields and the expired ones that are not removed yet.
fn row_count(entry: &Entry) -> u64 {
    u64::from_be_bytes(entry.large_payload()[..8].try_into().expect("eight bytes of count"))
}

fn first_deadline_row(keys: &mut Keyspace<'_, '_>, elements: &Elements) -> Option<u64> {
    let row = elements.nth(keys.tx, &[], 0)?;
    deadline_of(Elements::name(&row))
}

fn expired_count(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> u64 {
    if entry.flags & FLAG_B == 0 {
        return 0;
    }
    let end = deadline_key(keys.now_ms.saturating_add(1), b"");
    entry.elements().count(keys.tx, &[], Some(&end))
}

/// What becomes of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    Set {
        value: &'a [u8],
        deadline: Deadline,
    },
    /// Nothing happens to a field that is absent.
    Expire(Deadline),
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    Keep,
    Never,
    At(u64),
}

impl Deadline {
    fn after(self, old: Option<u64>) -> Option<u64> {
        match self {
            Deadline::Keep => old,
            Deadline::Never => None,
            Deadline::At(deadline_ms) => Some(deadline_ms),
        }
    }
}

struct Edit<'a> {
    name: &'a [u8],
    change: Change<'a>,
    is_done: bool,
}

/// Changes to different fields of one hash, applied together. A later change of a field replaces an earlier one.
#[derive(Default)]
pub struct Edits<'a> {
    list: SmallVec<[Edit<'a>; 16]>,
    /// Parallel to `list`: equal fields have equal tags, so most comparisons end at one word.
    tags: SmallVec<[u64; 16]>,
    /// Positions in `list`, once there are too many for a search.
    index: HashMap<&'a [u8], usize>,
}

/// From so many edits on they are found by hash.
const SEARCHED_MAX: usize = 64;

impl<'a> Edits<'a> {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn set(&mut self, name: &'a [u8], change: Change<'a>) {
        if let Some(position) = self.position(name) {
            self.list[position].change = change;
            return;
        }
        if self.list.len() == SEARCHED_MAX {
            let known = self.list.iter().enumerate();
            self.index = known.map(|(position, edit)| (edit.name, position)).collect();
        }
        if self.list.len() >= SEARCHED_MAX {
            self.index.insert(name, self.list.len());
        }
        self.tags.push(tag(name));
        self.list.push(Edit {
            name,
            change,
            is_done: false,
        });
    }

    pub fn change(&self, name: &[u8]) -> Option<Change<'a>> {
        self.position(name).map(|position| self.list[position].change)
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        if self.list.len() > SEARCHED_MAX {
            return self.index.get(name).copied();
        }
        let wanted = tag(name);
        let mut tags = self.tags.iter().enumerate();
        tags.find(|&(position, &tag)| tag == wanted && self.list[position].name == name)
            .map(|(position, _)| position)
    }

    fn sets_deadline(&self) -> bool {
        self.list.iter().any(|edit| match edit.change {
            Change::Set { deadline, .. } | Change::Expire(deadline) => matches!(deadline, Deadline::At(_)),
            Change::Remove => false,
        })
    }

    /// Some field or value is longer than Redis' compact form takes.
    fn has_longer_than(&self, bytes_max: usize) -> bool {
        self.list.iter().any(|edit| match edit.change {
            Change::Set { value, .. } => edit.name.len().max(value.len()) > bytes_max,
            _ => false,
        })
    }
}

/// The field's length and its first and last bytes in one word.
fn tag(name: &[u8]) -> u64 {
    let length = name.len() as u64;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (Some(first), Some(last)) => word(first) ^ word(last).rotate_left(23) ^ length.rotate_right(8),
        _ => name.iter().fold(length, |tag, &byte| tag << 8 | u64::from(byte)),
    }
}

/// When Redis would leave its compact form: from the configuration.
#[derive(Clone, Copy)]
pub struct Limits {
    pub entries_max: u64,
    pub value_bytes_max: usize,
}

/// What the edits did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub added: u64,
    pub removed: u64,
    /// The hash has no live field any more: the key is gone.
    pub is_gone: bool,
}

/// Applies the edits to the hash `name`, which was found as `entry`, and writes it back, or removes it with its last field.
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
            let header = Header::of(entry).flags(flags);
            let before = (row_count(entry), entry.field_deadline_ms());
            let key = LargeKey {
                name,
                header,
                old_flags: entry.flags,
                elements: entry.elements(),
            };
            apply_large(keys, &key, before, &edits, limits)
        }
        _ => apply_packed(keys, name, entry, flags, &mut edits, limits),
    }
}

/// A small hash being written anew.
struct Repacked {
    payload: Vec<u8>,
    has_deadlines: bool,
    count: u64,
    first_deadline_ms: Option<u64>,
}

impl Repacked {
    fn push(&mut self, name: &[u8], value: &[u8], deadline_ms: Option<u64>) {
        packed::push(&mut self.payload, name);
        packed::push(&mut self.payload, value);
        if self.has_deadlines {
            let bytes = deadline_ms.map(u64::to_be_bytes);
            packed::push(&mut self.payload, bytes.as_ref().map_or(&[], |bytes| &bytes[..]));
            self.first_deadline_ms = earlier(self.first_deadline_ms, deadline_ms);
        }
        self.count += 1;
    }
}

fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
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
        first_deadline_ms: None,
    };
    let mut has_changed = false;
    for field in entry.into_iter().flat_map(packed_fields) {
        if !field.is_live(keys.now_ms) {
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
        let tail = deadline_tail(flags, new.first_deadline_ms);
        keys.put_parts(name, header, &[&new.payload, tail.as_slice()]);
    } else {
        unpack(keys, name, header, new);
    }
}

/// Gives each field of what was to be a packed payload a row of its own.
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
    put_large(keys, name, header, &elements, new.count, new.first_deadline_ms);
}

fn put_large(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    header: Header,
    elements: &Elements,
    count: u64,
    first_deadline_ms: Option<u64>,
) {
    let tail = deadline_tail(header.flags, first_deadline_ms);
    keys.put_parts(name, header, &[elements.id(), &count.to_be_bytes(), &tail]);
}

/// What ends the payload: nothing without FLAG_B.
fn deadline_tail(flags: u8, first_deadline_ms: Option<u64>) -> SmallVec<[u8; 8]> {
    if flags & FLAG_B == 0 {
        return SmallVec::new();
    }
    SmallVec::from_buf(first_deadline_ms.unwrap_or(NO_DEADLINE).to_be_bytes())
}

/// A large hash that is being written.
struct LargeKey<'a> {
    name: &'a [u8],
    header: Header,
    old_flags: u8,
    elements: Elements,
}

/// `before`: the number of element rows, and the first deadline.
fn apply_large(
    keys: &mut Keyspace<'_, '_>,
    key: &LargeKey<'_>,
    before: (u64, Option<u64>),
    edits: &Edits<'_>,
    limits: Limits,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut count = before.0;
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
                let old = clear_row(keys, &key.elements, edit.name);
                count -= u64::from(old.is_some());
                outcome.removed += u64::from(old.is_some_and(|was_live| was_live));
            }
        }
    }
    let has_changed = outcome != Outcome::default() || edits.list.iter().any(|edit| edit.change != Change::Remove);
    outcome.is_gone = finish_large(keys, key, before, count, has_changed, limits);
    outcome
}

/// Writes the key's row if it differs, tells those who watch if it does not, and re-indexes the first deadline.
/// True if nothing live is left: then the key is removed.
fn finish_large(
    keys: &mut Keyspace<'_, '_>,
    key: &LargeKey<'_>,
    before: (u64, Option<u64>),
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
    let first_ms = if has_deadlines {
        first_deadline_row(keys, &key.elements)
    } else {
        None
    };
    if (count, first_ms) != before || header.flags != key.old_flags {
        put_large(keys, key.name, header, &key.elements, count, first_ms);
    } else if has_changed {
        keys.touch(key.name);
    }
    false
}

/// What stood in a large hash where a field was written.
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
    let old = has_deadlines
        .then(|| key.elements.get(keys.tx, &scan::element_key(name)))
        .flatten();
    let old_deadline = old.as_ref().and_then(|row| decode_row(row.value()).1);
    let was_live = old_deadline.is_none_or(|deadline_ms| deadline_ms > keys.now_ms);
    let new_deadline = deadline.after(old_deadline.filter(|_| was_live));
    if let Some(old_deadline) = old_deadline.filter(|_| old_deadline != new_deadline) {
        key.elements.clear(keys.tx, &deadline_key(old_deadline, name));
    }
    match set_row(keys, &key.elements, name, value, new_deadline, scratch) {
        None => Overwritten::Nothing,
        Some(_) if was_live => Overwritten::Live,
        Some(_) => Overwritten::Expired,
    }
}

fn expire_row(keys: &mut Keyspace<'_, '_>, key: &LargeKey<'_>, name: &[u8], deadline: Deadline, scratch: &mut Vec<u8>) {
    if let Some(row) = key.elements.get(keys.tx, &scan::element_key(name)) {
        let value = decode_row(row.value()).0;
        overwrite(keys, key, name, value, deadline, scratch);
    }
}

/// Removes a field's rows. Whether it was live, if it was there.
fn clear_row(keys: &mut Keyspace<'_, '_>, elements: &Elements, name: &[u8]) -> Option<bool> {
    let old = elements.clear(keys.tx, &scan::element_key(name))?;
    let Some(deadline_ms) = decode_row(old.value()).1 else {
        return Some(true);
    };
    elements.clear(keys.tx, &deadline_key(deadline_ms, name));
    Some(deadline_ms > keys.now_ms)
}

/// Writes an element row and its deadline row. Returns the element row that was there.
fn set_row(
    keys: &mut Keyspace<'_, '_>,
    elements: &Elements,
    name: &[u8],
    value: &[u8],
    deadline_ms: Option<u64>,
    scratch: &mut Vec<u8>,
) -> Option<Row> {
    scratch.clear();
    scratch.push(u8::from(deadline_ms.is_some()));
    if let Some(deadline_ms) = deadline_ms {
        scratch.extend_from_slice(&deadline_ms.to_be_bytes());
        elements.set(keys.tx, &deadline_key(deadline_ms, name), b"");
    }
    scratch.extend_from_slice(value);
    elements.set(keys.tx, &scan::element_key(name), scratch)
}

/// Removes the expired fields, and the key with its last one. Returns how many fields were removed: none if the key itself
/// has expired, for then the cycle removes it whole.
pub fn expire_fields(keys: &mut Keyspace<'_, '_>, name: &[u8]) -> u64 {
    let Some(entry) = keys.find(name).filter(|entry| entry.kind == Kind::Hash) else {
        return 0;
    };
    if entry.is_large() {
        return expire_large(keys, name, &entry);
    }
    let now_ms = keys.now_ms;
    let expired = packed_fields(&entry).filter(|field| !field.is_live(now_ms)).count();
    apply(keys, name, Some(&entry), Edits::default(), Limits::NONE);
    expired as u64
}

impl Limits {
    /// For writes that only remove.
    const NONE: Limits = Limits {
        entries_max: u64::MAX,
        value_bytes_max: usize::MAX,
    };
}

fn expire_large(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry) -> u64 {
    let elements = entry.elements();
    let end = deadline_key(keys.now_ms.saturating_add(1), b"");
    let mut due: Vec<Vec<u8>> = Vec::new();
    elements.scan(keys.tx, &[], Some(&end), false, &mut |key, _| {
        due.push(key[16..].to_vec());
        if due.len() < EXPIRED_AT_A_TIME {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    for field in &due {
        clear_row(keys, &elements, field);
    }
    let key = LargeKey {
        name,
        header: Header::of(entry),
        old_flags: entry.flags,
        elements,
    };
    let rows = row_count(entry);
    let before = (rows, entry.field_deadline_ms());
    finish_large(keys, &key, before, rows - due.len() as u64, true, Limits::NONE);
    due.len() as u64
}

fn packed_fields(entry: &Entry) -> impl Iterator<Item = Field<'_>> {
    let has_deadlines = entry.flags & FLAG_B != 0;
    let payload = entry.payload();
    let tail_bytes = if has_deadlines { size_of::<u64>() } else { 0 };
    fields(&payload[..payload.len() - tail_bytes], has_deadlines)
}

fn fields(payload: &[u8], has_deadlines: bool) -> impl Iterator<Item = Field<'_>> {
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
fn decode_row(row: &[u8]) -> (&[u8], Option<u64>) {
    match row.split_first() {
        Some((1, rest)) => {
            let (deadline, value) = rest.split_at(8);
            let deadline_ms = u64::from_be_bytes(deadline.try_into().expect("eight bytes of deadline"));
            (value, Some(deadline_ms))
        }
        Some((_, value)) => (value, None),
        None => panic!("an element row of a hash without its first byte"),
    }
}

fn row_field<'a>(key: &'a [u8], row: &'a [u8]) -> Field<'a> {
    let (value, deadline_ms) = decode_row(row);
    Field {
        name: scan::element_of(key),
        value,
        deadline_ms,
    }
}

fn deadline_key(deadline_ms: u64, name: &[u8]) -> Vec<u8> {
    [&[0; 8], &deadline_ms.to_be_bytes(), name].concat()
}

/// The deadline that a deadline row's key begins with; `None` for the key of an element.
fn deadline_of(key: &[u8]) -> Option<u64> {
    let deadline = key.strip_prefix(&[0; 8])?.first_chunk()?;
    Some(u64::from_be_bytes(*deadline))
}
