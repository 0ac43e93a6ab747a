//! A list as rows: what stands where, and every change of it.
//!
//! ```text
//! small: payload = the elements, packed
//! large: payload = id (10 bytes), count, first, last (8 bytes each, big-endian)
//!        element row: position, order-preserving -> the element
//! ```
//!
//! A list that outgrows [`SMALL_COUNT_MAX`] or [`SMALL_BYTES_MAX`] becomes large and stays so until it is emptied or rewritten.
//! Positions are [`STEP`] apart, so a push or a pop at either end touches one element row and the key's, and an insertion
//! takes a position half-way between two others. Only when two neighbours have no room between them, or the ends of the
//! 64-bit line are reached after some 2^43 pushes, is the whole list rewritten under a new id. Removals leave gaps; the rank
//! of an element is found by counting rows, never computed from its position.
//!
//! Invariants: a list is never empty; `count` is the number of element rows; each of their positions is in `first..=last`,
//! which are bounds and need not be taken.

use std::ops::{ControlFlow, Range};

use quartet_store::Row;
use smallvec::SmallVec;

use crate::keyspace::{Elements, Entry, Header, Keyspace, Kind, LARGE};
use crate::packed;

pub const SMALL_COUNT_MAX: usize = 128;
pub const SMALL_BYTES_MAX: usize = 2048;
const STEP: i64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Left,
    Right,
}

/// The numbers of a large list.
#[derive(Clone, Copy)]
struct Large {
    elements: Elements,
    count: u64,
    first: i64,
    last: i64,
}

type Position = [u8; 8];

fn position_key(position: i64) -> Position {
    (position as u64 ^ 1 << 63).to_be_bytes()
}

fn position_of(key: &[u8]) -> i64 {
    let bytes: Position = key.try_into().expect("a list element's key is eight bytes");
    (u64::from_be_bytes(bytes) ^ 1 << 63) as i64
}

impl Large {
    /// The numbers of `entry`, if it is large.
    fn of(entry: &Entry) -> Option<Large> {
        if !entry.is_large() {
            return None;
        }
        let number = |index: usize| {
            let bytes = &entry.large_payload()[8 * index..8 * index + 8];
            u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
        };
        Some(Large {
            elements: entry.elements(),
            count: number(0),
            first: number(1) as i64,
            last: number(2) as i64,
        })
    }

    /// Writes the key's row, or removes the list that has become empty.
    fn write(&self, keys: &mut Keyspace<'_, '_>, name: &[u8], header: Header) {
        if self.count == 0 {
            keys.remove(name);
            return;
        }
        let mut payload = [0; 34];
        payload[..10].copy_from_slice(self.elements.id());
        payload[10..18].copy_from_slice(&self.count.to_be_bytes());
        payload[18..26].copy_from_slice(&self.first.to_be_bytes());
        payload[26..].copy_from_slice(&self.last.to_be_bytes());
        keys.put(name, header.flags(LARGE), &payload);
    }

    /// The next free position beyond an end; `None` at the end of the line.
    fn beyond(&self, end: End) -> Option<i64> {
        match end {
            End::Left => self.first.checked_sub(STEP),
            End::Right => self.last.checked_add(STEP),
        }
    }

    /// Adds a row at a free position that is beyond an end or between two rows.
    fn add(&mut self, keys: &mut Keyspace<'_, '_>, position: i64, value: &[u8]) {
        self.elements.set(keys.tx, &position_key(position), value);
        self.count += 1;
        self.first = self.first.min(position);
        self.last = self.last.max(position);
    }

    /// The position of the element at `index`, which must be below `count`.
    fn position_at(&self, keys: &mut Keyspace<'_, '_>, index: u64) -> i64 {
        let row = self.elements.nth(keys.tx, &position_key(self.first), index);
        position_of(Elements::name(&row.expect("an index below the count")))
    }

    /// Visits positions and values from an end.
    fn scan(&self, keys: &mut Keyspace<'_, '_>, end: End, visit: &mut dyn FnMut(i64, &[u8]) -> ControlFlow<()>) {
        let start = position_key(self.first);
        self.elements
            .scan(keys.tx, &start, None, end == End::Right, &mut |key, value| {
                visit(position_of(key), value)
            });
    }
}

fn small(entry: &Entry) -> packed::Iter<'_> {
    packed::iter(entry.payload())
}

/// How many elements the list has.
pub fn length(entry: &Entry) -> u64 {
    Large::of(entry).map_or_else(|| small(entry).count() as u64, |large| large.count)
}

/// All elements, first to last.
pub fn elements(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    range(keys, entry, 0..length(entry), &mut |value| all.push(value.to_vec()));
    all
}

/// Replaces whatever `name` holds, its expiry included, by a list of `elements`; by nothing if there are none.
pub fn store<E: AsRef<[u8]>>(keys: &mut Keyspace<'_, '_>, name: &[u8], elements: &[E]) {
    write_all(keys, name, Header::new(Kind::List), elements);
}

fn write_all<E: AsRef<[u8]>>(keys: &mut Keyspace<'_, '_>, name: &[u8], header: Header, elements: &[E]) {
    if elements.is_empty() {
        keys.remove(name);
        return;
    }
    let bytes: usize = elements.iter().map(|element| element.as_ref().len() + 1).sum();
    if elements.len() > SMALL_COUNT_MAX || bytes > SMALL_BYTES_MAX {
        return write_large(keys, name, header, elements);
    }
    let mut payload = Vec::with_capacity(bytes + elements.len());
    for element in elements {
        packed::push(&mut payload, element.as_ref());
    }
    keys.put(name, header.flags(0), &payload);
}

fn write_large<E: AsRef<[u8]>>(keys: &mut Keyspace<'_, '_>, name: &[u8], header: Header, elements: &[E]) {
    let mut large = Large {
        elements: keys.new_elements(),
        count: 0,
        first: 0,
        last: 0,
    };
    for (index, element) in elements.iter().enumerate() {
        large.add(keys, index as i64 * STEP, element.as_ref());
    }
    large.write(keys, name, header);
}

/// Adds `values` one after another at an end. `entry` is the list that `name` holds. Returns the new length.
pub fn push(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: Option<&Entry>, end: End, values: &[&[u8]]) -> u64 {
    let header = entry.map_or(Header::new(Kind::List), Header::of);
    match entry.and_then(Large::of) {
        Some(large) => push_large(keys, name, header, large, end, values),
        None => push_small(
            keys,
            name,
            header,
            entry.map_or(b"".as_slice(), Entry::payload),
            end,
            values,
        ),
    }
}

fn push_small(keys: &mut Keyspace<'_, '_>, name: &[u8], header: Header, old: &[u8], end: End, values: &[&[u8]]) -> u64 {
    let length = packed::count(old) + values.len();
    let added_bytes: usize = values.iter().map(|value| value.len() + 1).sum();
    if length > SMALL_COUNT_MAX || old.len() + added_bytes > SMALL_BYTES_MAX {
        let old = packed::iter(old);
        let all: Vec<&[u8]> = match end {
            End::Left => values.iter().rev().copied().chain(old).collect(),
            End::Right => old.chain(values.iter().copied()).collect(),
        };
        write_large(keys, name, header, &all);
        return length as u64;
    }
    let mut added = Vec::with_capacity(added_bytes + values.len());
    match end {
        End::Left => values.iter().rev().for_each(|value| packed::push(&mut added, value)),
        End::Right => values.iter().for_each(|value| packed::push(&mut added, value)),
    }
    match end {
        End::Left => keys.put_parts(name, header, &[&added, old]),
        End::Right => keys.put_parts(name, header, &[old, &added]),
    }
    length as u64
}

fn push_large(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    header: Header,
    mut large: Large,
    end: End,
    values: &[&[u8]],
) -> u64 {
    for (done, value) in values.iter().enumerate() {
        let Some(position) = large.beyond(end) else {
            large.write(keys, name, header);
            return push_renumbered(keys, name, end, &values[done..]);
        };
        large.add(keys, position, value);
    }
    large.write(keys, name, header);
    large.count
}

/// The positions have reached the end of the line: numbers the list anew and goes on.
fn push_renumbered(keys: &mut Keyspace<'_, '_>, name: &[u8], end: End, values: &[&[u8]]) -> u64 {
    let entry = keys.find(name).expect("the list that was just written");
    let all = elements(keys, &entry);
    write_large(keys, name, Header::of(&entry), &all);
    let entry = keys.find(name);
    push(keys, name, entry.as_ref(), end, values)
}

/// Removes up to `count` elements from an end and returns them in the order of their removal.
pub fn pop(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, end: End, count: u64) -> Vec<Vec<u8>> {
    match Large::of(entry) {
        Some(large) => pop_large(keys, name, entry, large, end, count),
        None => pop_small(keys, name, entry, end, count),
    }
}

/// The bytes of one element that was removed.
pub type Popped = SmallVec<[u8; 64]>;

/// Removes one element from an end and returns it. No list is empty, so there is one.
pub fn pop_one(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, end: End) -> Popped {
    let Some(mut large) = Large::of(entry) else {
        return pop_small(keys, name, entry, end, 1).remove(0).into();
    };
    let start = position_key(large.first);
    let row = large.elements.clear_end(keys.tx, &start, None, end == End::Right);
    if let Some(row) = &row {
        large.move_bound(end, position_of(Elements::name(row)));
    }
    large.count -= 1;
    large.write(keys, name, Header::of(entry));
    Popped::from_slice(row.as_ref().map(Row::value).unwrap_or_default())
}

fn pop_small(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, end: End, count: u64) -> Vec<Vec<u8>> {
    let all: SmallVec<[&[u8]; SMALL_COUNT_MAX]> = small(entry).collect();
    let count = count.min(all.len() as u64) as usize;
    let (kept, popped) = match end {
        End::Left => (&all[count..], &all[..count]),
        End::Right => (&all[..all.len() - count], &all[all.len() - count..]),
    };
    let mut popped: Vec<Vec<u8>> = popped.iter().map(|value| value.to_vec()).collect();
    if end == End::Right {
        popped.reverse();
    }
    write_all(keys, name, Header::of(entry), kept);
    popped
}

fn pop_large(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    entry: &Entry,
    mut large: Large,
    end: End,
    count: u64,
) -> Vec<Vec<u8>> {
    let count = count.min(large.count);
    let mut popped = Vec::with_capacity(count as usize);
    let mut furthest = 0;
    if count == 0 {
        return popped;
    }
    large.scan(keys, end, &mut |position, value| {
        popped.push(value.to_vec());
        furthest = position;
        more_if((popped.len() as u64) < count)
    });
    large.count -= count;
    if large.count > 0 {
        large.cut(keys, end, furthest, count);
    }
    large.write(keys, name, Header::of(entry));
    popped
}

impl Large {
    /// Removes the rows from an end up to and including `furthest`, `rows` of them, and moves the bound.
    fn cut(&mut self, keys: &mut Keyspace<'_, '_>, end: End, furthest: i64, rows: u64) {
        let key = position_key(furthest);
        self.move_bound(end, furthest);
        if rows == 1 {
            self.elements.clear(keys.tx, &key);
        } else if end == End::Left {
            self.elements
                .clear_range(keys.tx, &[], Some(&position_key(furthest + 1)));
        } else {
            self.elements.clear_range(keys.tx, &key, None);
        }
    }
}

impl Large {
    /// What stood at an end, up to and including `furthest`, is gone.
    fn move_bound(&mut self, end: End, furthest: i64) {
        match end {
            End::Left => self.first = furthest + 1,
            End::Right => self.last = furthest - 1,
        }
    }
}

fn more_if(more: bool) -> ControlFlow<()> {
    if more {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

/// Visits the elements whose index is in `wanted`, first to last. `wanted` must not reach beyond the list.
pub fn range(keys: &mut Keyspace<'_, '_>, entry: &Entry, wanted: Range<u64>, visit: &mut dyn FnMut(&[u8])) {
    if wanted.is_empty() {
        return;
    }
    let mut left = wanted.end - wanted.start;
    let Some(large) = Large::of(entry) else {
        small(entry)
            .skip(wanted.start as usize)
            .take(left as usize)
            .for_each(visit);
        return;
    };
    let start = match wanted.start {
        0 => large.first,
        index => large.position_at(keys, index),
    };
    large
        .elements
        .scan(keys.tx, &position_key(start), None, false, &mut |_, value| {
            visit(value);
            left -= 1;
            more_if(left > 0)
        });
}

/// Replaces the element at `index`, which must be below the length.
pub fn set(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, index: u64, value: &[u8]) {
    if let Some(large) = Large::of(entry) {
        let position = large.position_at(keys, index);
        large.elements.set(keys.tx, &position_key(position), value);
        keys.touch(name);
        return;
    }
    let mut all: Vec<&[u8]> = small(entry).collect();
    all[index as usize] = value;
    write_all(keys, name, Header::of(entry), &all);
}

/// Inserts `value` at the left or right of the first element that equals `pivot`. The new length; `None` without a pivot.
pub fn insert(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    entry: &Entry,
    side: End,
    pivot: &[u8],
    value: &[u8],
) -> Option<u64> {
    if let Some(large) = Large::of(entry) {
        return insert_large(keys, name, entry, large, side, pivot, value);
    }
    let mut all: Vec<&[u8]> = small(entry).collect();
    let index = all.iter().position(|element| *element == pivot)?;
    all.insert(index + usize::from(side == End::Right), value);
    write_all(keys, name, Header::of(entry), &all);
    Some(all.len() as u64)
}

fn insert_large(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    entry: &Entry,
    mut large: Large,
    side: End,
    pivot: &[u8],
    value: &[u8],
) -> Option<u64> {
    let (index, before, after) = gap_beside(keys, &large, side, pivot)?;
    match free_position(&large, before, after) {
        Some(position) => {
            large.add(keys, position, value);
            large.write(keys, name, Header::of(entry));
        }
        None => {
            let mut all = elements(keys, entry);
            all.insert(index as usize, value.to_vec());
            write_large(keys, name, Header::of(entry), &all);
        }
    }
    Some(length(entry) + 1)
}

/// The index that a value beside the pivot will have, and the positions of its neighbours.
fn gap_beside(
    keys: &mut Keyspace<'_, '_>,
    large: &Large,
    side: End,
    pivot: &[u8],
) -> Option<(u64, Option<i64>, Option<i64>)> {
    let (mut index, mut previous, mut found) = (0, None, None);
    large.scan(keys, End::Left, &mut |position, value| {
        if let Some(gap) = &mut found {
            let (_, _, after) = gap;
            *after = Some(position);
            return ControlFlow::Break(());
        }
        let is_pivot = value == pivot;
        if is_pivot && side == End::Left {
            found = Some((index, previous, Some(position)));
            return ControlFlow::Break(());
        }
        if is_pivot {
            found = Some((index + 1, Some(position), None));
        }
        previous = Some(position);
        index += 1;
        ControlFlow::Continue(())
    });
    found
}

/// A position strictly between two neighbours, or beyond an end; `None` if there is no room.
fn free_position(large: &Large, before: Option<i64>, after: Option<i64>) -> Option<i64> {
    match (before, after) {
        (Some(before), Some(after)) => {
            let middle = before.midpoint(after);
            (before < middle && middle < after).then_some(middle)
        }
        (None, _) => large.beyond(End::Left),
        (_, None) => large.beyond(End::Right),
    }
}

/// Removes up to `count_max` elements that equal `value`, searching from an end. Returns how many.
pub fn remove(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, from: End, value: &[u8], count_max: u64) -> u64 {
    match Large::of(entry) {
        Some(large) => remove_large(keys, name, entry, large, from, value, count_max),
        None => remove_small(keys, name, entry, from, value, count_max),
    }
}

fn remove_small(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    entry: &Entry,
    from: End,
    value: &[u8],
    count_max: u64,
) -> u64 {
    let mut all: Vec<&[u8]> = small(entry).collect();
    if from == End::Right {
        all.reverse();
    }
    let mut removed = 0;
    all.retain(|element| {
        let goes = *element == value && removed < count_max;
        removed += u64::from(goes);
        !goes
    });
    if from == End::Right {
        all.reverse();
    }
    if removed > 0 {
        write_all(keys, name, Header::of(entry), &all);
    }
    removed
}

fn remove_large(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    entry: &Entry,
    mut large: Large,
    from: End,
    value: &[u8],
    count_max: u64,
) -> u64 {
    let mut positions = Vec::new();
    large.scan(keys, from, &mut |position, element| {
        if element == value {
            positions.push(position);
        }
        more_if((positions.len() as u64) < count_max)
    });
    for position in &positions {
        large.elements.clear(keys.tx, &position_key(*position));
    }
    let removed = positions.len() as u64;
    large.count -= removed;
    if removed > 0 {
        large.write(keys, name, Header::of(entry));
    }
    removed
}

/// Keeps only the elements whose index is in `kept`, which must not reach beyond the list.
pub fn trim(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, kept: Range<u64>) {
    if kept.is_empty() {
        keys.remove(name);
        return;
    }
    let Some(mut large) = Large::of(entry) else {
        let all: Vec<&[u8]> = small(entry).collect();
        return write_all(
            keys,
            name,
            Header::of(entry),
            &all[kept.start as usize..kept.end as usize],
        );
    };
    let (from_left, from_right) = (kept.start, large.count - kept.end);
    // The right end first: it leaves the indexes of the left one as they are.
    if from_right > 0 {
        let position = large.position_at(keys, kept.end);
        large.cut(keys, End::Right, position, from_right);
    }
    if from_left > 0 {
        let position = large.position_at(keys, from_left - 1);
        large.cut(keys, End::Left, position, from_left);
    }
    large.count = kept.end - kept.start;
    large.write(keys, name, Header::of(entry));
}

/// Visits indexes and elements from an end until `visit` breaks.
pub fn search(
    keys: &mut Keyspace<'_, '_>,
    entry: &Entry,
    from: End,
    visit: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
) {
    let count = length(entry);
    let mut seen = 0;
    let mut step = |value: &[u8]| {
        let index = if from == End::Left { seen } else { count - 1 - seen };
        seen += 1;
        visit(index, value)
    };
    if let Some(large) = Large::of(entry) {
        large.scan(keys, from, &mut |_, value| step(value));
        return;
    }
    let mut all: Vec<&[u8]> = small(entry).collect();
    if from == End::Right {
        all.reverse();
    }
    let _ = all.into_iter().try_for_each(step);
}
