//! An index as its row names it: what both grammars share of it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use quartet_engine::{Transaction, UniqueId};
use quartet_layer_redis::module_api::{Kind, packed};
use quartet_model::next_prefix;

use crate::indexes::followed_stream::FollowedStream;
use crate::indexes::marks::{Progress, changed, progress_of, set_progress_of};

/// The place of an index's rows, below 2^31. Unlike a number, a place may be reused, so it is
/// short: it is a part of the key of each row.
pub type Place = u32;

/// The tags of the rows of indexes, by the grammar that defines them.
pub const INDEX_TAG: u8 = b'i';
pub const KEY_INDEX_TAG: u8 = b'j';

/// No index is here.
pub const NO_PLACE: Place = 0;

/// Places below are a byte in keys, the others four.
const SHORT_PLACES: Place = 0x80;

/// Set in the first byte of a place that has four.
const LONG_PLACE: Place = 1 << 31;

/// The prefix of the rows of the index at this place; none is a prefix of another.
pub fn rows_at(place: Place) -> Vec<u8> {
    let mut prefix = b"Sd".to_vec();
    match place < SHORT_PLACES {
        true => prefix.push(place as u8),
        false => prefix.extend((place | LONG_PLACE).to_be_bytes()),
    }
    prefix
}

/// The prefix by [`rows_at`] in the key of an index's row; the whole of a shorter key.
pub fn rows_prefix_of(key: &[u8]) -> &[u8] {
    let is_long = key.get(2).is_some_and(|first| u32::from(*first) >= SHORT_PLACES);
    &key[..key.len().min(if is_long { 6 } else { 3 })]
}

/// The first place at which there is no index and no row.
fn free_place(tx: &mut Transaction<'_>) -> Place {
    let mut places = BTreeSet::new();
    for tag in [INDEX_TAG, KEY_INDEX_TAG] {
        each_named(tx, tag, &mut |_, row| {
            places.insert(row_parts(row).1);
        });
    }
    let mut is_free = |place: &Place| {
        let prefix = rows_at(*place);
        !places.contains(place) && tx.count(&prefix, &next_prefix(&prefix)) == 0
    };
    (NO_PLACE + 1..LONG_PLACE)
        .find(&mut is_free)
        .expect("fewer than 2^31 indexes")
}

/// The name and the number of an index, and the place of its rows.
#[derive(Clone, Debug)]
pub struct IndexHead {
    pub name: Vec<u8>,
    pub number: UniqueId,
    pub place: Place,
}

impl IndexHead {
    /// A new number, and the first free place.
    pub fn create(tx: &mut Transaction<'_>, name: &[u8]) -> IndexHead {
        IndexHead {
            name: name.to_vec(),
            number: tx.unique_id(),
            place: free_place(tx),
        }
    }
}

/// An index with a head, and keys that it covers.
pub trait StoredIndex {
    /// The tags of its row and of its aliases.
    const TAG: u8;
    const ALIAS_TAG: u8;

    fn head(&self) -> &IndexHead;

    /// The kind of keys that are looked at.
    fn on(&self) -> Kind;

    /// The index contains the keys with one of these prefixes.
    fn prefixes(&self) -> &[Vec<u8>];

    fn name(&self) -> &[u8] {
        &self.head().name
    }

    fn number(&self) -> &UniqueId {
        &self.head().number
    }

    fn rows_prefix(&self) -> Vec<u8> {
        rows_at(self.head().place)
    }

    /// The key of the row of an index with this name.
    fn row_key(name: &[u8]) -> Vec<u8> {
        named(Self::TAG, name)
    }

    /// The progress of the index's filling; None for a full index.
    fn progress(&self, tx: &mut Transaction<'_>) -> Option<Progress> {
        progress_of(tx, self.number())
    }

    fn set_progress(&self, tx: &mut Transaction<'_>, progress: Option<Progress>) {
        set_progress_of(tx, self.number(), progress);
    }

    /// A key of this name is looked at.
    fn covers(&self, name: &[u8]) -> bool {
        self.prefixes().iter().any(|prefix| name.starts_with(prefix))
    }

    /// Writes its row: number and place, then the parts of the definition.
    fn write_row(&self, tx: &mut Transaction<'_>, parts: &[&[u8]]) {
        let mut row = [&self.number()[..], &self.head().place.to_be_bytes()].concat();
        parts.iter().for_each(|part| packed::push(&mut row, part));
        tx.set(&Self::row_key(self.name()), &row);
        changed(tx);
    }

    /// Removes its row, the rows at its place, and how far it is filled.
    fn clear_all(&self, tx: &mut Transaction<'_>) {
        tx.clear(&Self::row_key(self.name()));
        self.set_progress(tx, None);
        FollowedStream::clear(tx, self.number());
        self.clear_rows(tx);
        changed(tx);
    }

    /// Empties the index.
    fn clear_rows(&self, tx: &mut Transaction<'_>) {
        let prefix = self.rows_prefix();
        tx.clear_range(&prefix, &next_prefix(&prefix));
    }

    fn put_alias(tx: &mut Transaction<'_>, alias: &[u8], index: &[u8]) {
        tx.set(&named(Self::ALIAS_TAG, alias), index);
        changed(tx);
    }

    fn clear_alias(tx: &mut Transaction<'_>, alias: &[u8]) {
        tx.clear(&named(Self::ALIAS_TAG, alias));
        changed(tx);
    }
}

fn named(tag: u8, name: &[u8]) -> Vec<u8> {
    [&[b'S', tag], name].concat()
}

/// Visits the names and values of all rows with this tag.
pub fn each_named(tx: &mut Transaction<'_>, tag: u8, visit: &mut dyn FnMut(&[u8], &[u8])) {
    tx.scan(&[b'S', tag], &[b'S', tag + 1], false, &mut |row| {
        visit(&Transaction::layer_key(row)[2..], row.value());
        ControlFlow::Continue(())
    });
}

/// Returns the head and the parts of the definition of a row of [`StoredIndex::write_row`]. Panics
/// if no version has written it.
pub fn read_row<'r>(name: &[u8], row: &'r [u8]) -> (IndexHead, impl Iterator<Item = &'r [u8]> + use<'r>) {
    let (number, place, parts) = row_parts(row);
    let name = name.to_vec();
    (IndexHead { name, number, place }, parts)
}

/// Returns number, place and the parts of the definition of a row.
pub fn row_parts(row: &[u8]) -> (UniqueId, Place, impl Iterator<Item = &[u8]>) {
    let (number, remainder) = row.split_first_chunk().expect("an index begins with its number");
    let (place, remainder) = remainder.split_first_chunk().expect("its place follows");
    (*number, Place::from_be_bytes(*place), packed::iter(remainder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_place_are_never_among_those_of_another() {
        let places = [0, 1, 0x7f, 0x80, 0x100, 0x8000, LONG_PLACE - 1];
        let prefixes = places.map(rows_at);
        assert!(prefixes.is_sorted());
        for (at, prefix) in prefixes.iter().enumerate() {
            let mut following = prefixes[at + 1..].iter();
            assert!(following.all(|other| !other.starts_with(prefix)));
            assert_eq!(rows_prefix_of(&[prefix, b"w".as_slice()].concat()), prefix);
        }
    }
}
