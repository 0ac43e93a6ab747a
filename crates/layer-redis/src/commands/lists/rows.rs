//! A list as rows, and every change of it.
//!
//! ```text
//! small: payload = the elements, packed
//! large: in blocks, see `blocks.rs`
//! ```
//!
//! A list that outgrows [`SMALL_COUNT_MAX`] or [`SMALL_BYTES_MAX`] becomes large and stays so until
//! it is emptied or rewritten. No list is empty.

use std::ops::{ControlFlow, Range};

use smallvec::SmallVec;

use super::blocks::Blocks;
pub use super::blocks::{End, Popped};
use crate::keyspace::packed;
use crate::keyspace::{Entry, Header, Keyspace, Kind};

pub const SMALL_COUNT_MAX: usize = 128;
pub const SMALL_BYTES_MAX: usize = 2048;

fn small(entry: &Entry) -> packed::Iter<'_> {
    packed::iter(entry.payload())
}

/// A large list, to be changed. `None` if it is small.
fn large(entry: &Entry) -> Option<Blocks<'_>> {
    entry.is_large().then(|| Blocks::of(entry))
}

/// Writes a large list, whose elements are pushed at one end.
fn in_blocks<E: AsRef<[u8]>>(keys: &mut Keyspace<'_, '_>, name: &[u8], header: Header, end: End, elements: &[E]) {
    let mut list = Blocks::new(keys.new_elements());
    match end {
        End::Left => elements
            .iter()
            .rev()
            .for_each(|element| list.push(end, element.as_ref())),
        End::Right => elements.iter().for_each(|element| list.push(end, element.as_ref())),
    }
    list.write(keys, name, header);
}

/// The number of the list's elements.
pub fn length(entry: &Entry) -> u64 {
    match entry.is_large() {
        true => entry
            .large_payload()
            .first_chunk()
            .copied()
            .map_or(0, u64::from_be_bytes),
        false => small(entry).count() as u64,
    }
}

/// All elements, first to last.
pub fn elements(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    range(keys, entry, 0..length(entry), &mut |value| all.push(value.to_vec()));
    all
}

/// Replaces the value of `name`, including its expiry, by a list of `elements`; removes the key if
/// there are no elements.
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
        in_blocks(keys, name, header, End::Right, elements);
        return;
    }
    let mut payload = Vec::with_capacity(bytes + elements.len());
    for element in elements {
        packed::push(&mut payload, element.as_ref());
    }
    keys.put(name, header.flags(0), &payload);
}

/// Adds `values` one after another at an end. `entry` is the list that `name` holds. Returns the
/// new length.
pub fn push<'v>(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    entry: Option<&Entry>,
    end: End,
    values: impl ExactSizeIterator<Item = &'v [u8]> + DoubleEndedIterator + Clone,
) -> u64 {
    let header = entry.map_or(Header::new(Kind::List), Header::of);
    if let Some(mut list) = entry.and_then(large) {
        values.for_each(|value| list.push(end, value));
        list.write(keys, name, header);
        return list.count;
    }
    let old = entry.map_or(b"".as_slice(), Entry::payload);
    push_small(keys, name, header, old, end, values)
}

fn push_small<'v>(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    header: Header,
    old: &[u8],
    end: End,
    values: impl ExactSizeIterator<Item = &'v [u8]> + DoubleEndedIterator + Clone,
) -> u64 {
    let length = packed::count(old) + values.len();
    let added_bytes: usize = values.clone().map(|value| value.len() + 1).sum();
    if length > SMALL_COUNT_MAX || old.len() + added_bytes > SMALL_BYTES_MAX {
        let old = packed::iter(old);
        let values = values.map(|value| -> &[u8] { value });
        let all: Vec<&[u8]> = match end {
            End::Left => values.rev().chain(old).collect(),
            End::Right => old.chain(values).collect(),
        };
        in_blocks(keys, name, header, end, &all);
        return length as u64;
    }
    let mut added = Vec::with_capacity(added_bytes + values.len());
    match end {
        End::Left => values.rev().for_each(|value| packed::push(&mut added, value)),
        End::Right => values.for_each(|value| packed::push(&mut added, value)),
    }
    match end {
        End::Left => keys.put_parts(name, header, &[&added, old]),
        End::Right => keys.put_parts(name, header, &[old, &added]),
    }
    length as u64
}

/// Removes up to `count` elements from an end and returns them in the order of their removal.
pub fn pop(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, end: End, count: u64) -> Vec<Vec<u8>> {
    let Some(mut list) = large(entry) else {
        return pop_small(keys, name, entry, end, count);
    };
    let count = count.min(list.count);
    let popped = list.outermost(keys, end, count);
    list.cut(keys, end, count);
    list.write(keys, name, Header::of(entry));
    popped
}

/// Removes one element from an end and returns it. No list is empty, so there is one.
pub fn pop_one(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, end: End) -> Popped {
    let Some(mut list) = large(entry) else {
        return pop_one_small(keys, name, entry, end);
    };
    let popped = list.pop(keys, end);
    list.write(keys, name, Header::of(entry));
    popped.unwrap_or_default()
}

/// The remaining elements are contiguous in the payload.
fn pop_one_small(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, end: End) -> Popped {
    let (all, mut walk) = (entry.payload(), small(entry));
    let mut popped = walk.next().unwrap_or_default();
    let mut remaining = walk.as_bytes();
    if end == End::Right {
        let mut last_start = 0;
        let mut rest_bytes = remaining.len();
        while let Some(element) = walk.next() {
            popped = element;
            last_start = all.len() - rest_bytes;
            rest_bytes = walk.as_bytes().len();
        }
        remaining = &all[..last_start];
    }
    match remaining.is_empty() {
        true => drop(keys.remove(name)),
        false => keys.put(name, Header::of(entry).flags(0), remaining),
    }
    Popped::from_slice(popped)
}

fn pop_small(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, end: End, count: u64) -> Vec<Vec<u8>> {
    let all: SmallVec<[&[u8]; SMALL_COUNT_MAX]> = small(entry).collect();
    let count = count.min(all.len() as u64) as usize;
    let (remaining, popped) = match end {
        End::Left => (&all[count..], &all[..count]),
        End::Right => (&all[..all.len() - count], &all[all.len() - count..]),
    };
    let mut popped: Vec<Vec<u8>> = popped.iter().map(|value| value.to_vec()).collect();
    if end == End::Right {
        popped.reverse();
    }
    write_all(keys, name, Header::of(entry), remaining);
    popped
}

fn more_if(more: bool) -> ControlFlow<()> {
    if more {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

/// Visits the elements with an index in `ranks`, first to last. `ranks` must not reach beyond
/// the list.
pub fn range(keys: &mut Keyspace<'_, '_>, entry: &Entry, ranks: Range<u64>, visit: &mut dyn FnMut(&[u8])) {
    if ranks.is_empty() {
        return;
    }
    let mut remaining = ranks.end - ranks.start;
    scan(keys, entry, End::Left, ranks.start, &mut |value| {
        visit(value);
        remaining -= 1;
        more_if(remaining > 0)
    });
}

/// Visits the elements from an end, skipping the first `skip`, until `visit` breaks.
fn scan(
    keys: &mut Keyspace<'_, '_>,
    entry: &Entry,
    from: End,
    skip: u64,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) {
    if entry.is_large() {
        let _ = Blocks::of(entry).scan(keys, from, skip, visit);
    } else if from == End::Left {
        let _ = small(entry).skip(skip as usize).try_for_each(visit);
    } else {
        let all: SmallVec<[&[u8]; SMALL_COUNT_MAX]> = small(entry).collect();
        let _ = all.into_iter().rev().skip(skip as usize).try_for_each(visit);
    }
}

/// Replaces the element at `index`, which must be below the length.
pub fn set(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, index: u64, value: &[u8]) {
    if let Some(mut list) = large(entry) {
        match list.set(keys, index, value) {
            true => keys.touch(name),
            false => list.write(keys, name, Header::of(entry)),
        }
        return;
    }
    let mut all: Vec<&[u8]> = small(entry).collect();
    all[index as usize] = value;
    write_all(keys, name, Header::of(entry), &all);
}

/// Inserts `value` at the left or right of the first element that equals `pivot`. The new length;
/// `None` without a pivot.
pub fn insert(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    entry: &Entry,
    side: End,
    pivot: &[u8],
    value: &[u8],
) -> Option<u64> {
    let index = matches(keys, entry, End::Left, pivot, 1).pop()? + u64::from(side == End::Right);
    if let Some(mut list) = large(entry) {
        list.insert(keys, index, value);
        list.write(keys, name, Header::of(entry));
        return Some(list.count);
    }
    let mut all: Vec<&[u8]> = small(entry).collect();
    all.insert(index as usize, value);
    write_all(keys, name, Header::of(entry), &all);
    Some(all.len() as u64)
}

/// Removes up to `count_max` elements that equal `value`, searching from an end. Returns how many.
pub fn remove(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, from: End, value: &[u8], count_max: u64) -> u64 {
    let mut indexes = matches(keys, entry, from, value, count_max);
    if indexes.is_empty() {
        return 0;
    }
    indexes.sort_unstable();
    if let Some(mut list) = large(entry) {
        list.remove(keys, &indexes);
        list.write(keys, name, Header::of(entry));
    } else {
        let retained = (0..)
            .zip(small(entry))
            .filter(|(index, _)| indexes.binary_search(index).is_err());
        let retained: Vec<&[u8]> = retained.map(|(_, element)| element).collect();
        write_all(keys, name, Header::of(entry), &retained);
    }
    indexes.len() as u64
}

/// The indexes of up to `count_max` elements that equal `value`, in the order in which they are
/// found.
fn matches(keys: &mut Keyspace<'_, '_>, entry: &Entry, from: End, value: &[u8], count_max: u64) -> Vec<u64> {
    let mut indexes = Vec::new();
    search(keys, entry, from, &mut |index, element| {
        if element == value {
            indexes.push(index);
        }
        more_if((indexes.len() as u64) < count_max)
    });
    indexes
}

/// Keeps only the elements with an index in `retained`, which must not reach beyond the list.
pub fn trim(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, retained: Range<u64>) {
    if retained.is_empty() {
        keys.remove(name);
        return;
    }
    let Some(mut list) = large(entry) else {
        let all: Vec<&[u8]> = small(entry).collect();
        return write_all(
            keys,
            name,
            Header::of(entry),
            &all[retained.start as usize..retained.end as usize],
        );
    };
    list.cut(keys, End::Right, list.count - retained.end);
    list.cut(keys, End::Left, retained.start);
    list.write(keys, name, Header::of(entry));
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
    scan(keys, entry, from, 0, &mut |value| {
        let index = if from == End::Left { seen } else { count - 1 - seen };
        seen += 1;
        visit(index, value)
    });
}
