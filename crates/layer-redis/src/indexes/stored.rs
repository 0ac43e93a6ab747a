//! An index as its row names it: what both grammars share of it.

use std::ops::ControlFlow;

use quartet_engine::{Transaction, UniqueId};

use crate::indexes::followed_stream::FollowedStream;
use crate::indexes::marks::{Progress, changed, numbered, progress_of, set_progress_of};
use crate::keyspace::{Kind, packed};

/// An index with a name, a number that its rows stand below, and keys that it covers.
pub trait StoredIndex {
    /// The tags of its row and of its aliases.
    const TAG: u8;
    const ALIAS_TAG: u8;

    fn name(&self) -> &[u8];
    fn number(&self) -> &UniqueId;

    /// The kind of keys that are looked at.
    fn on(&self) -> Kind;

    /// A key that begins with one of these is in the index.
    fn prefixes(&self) -> &[Vec<u8>];

    fn rows_prefix(&self) -> Vec<u8> {
        numbered(b'd', self.number())
    }

    /// The key of the row of an index with this name.
    fn row_key(name: &[u8]) -> Vec<u8> {
        named(Self::TAG, name)
    }

    /// How far the index is filled; nothing once it is.
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

    /// Writes its row: the number, then the parts of the definition.
    fn write_row(&self, tx: &mut Transaction<'_>, parts: &[&[u8]]) {
        let mut row = self.number().to_vec();
        parts.iter().for_each(|part| packed::push(&mut row, part));
        tx.set(&Self::row_key(self.name()), &row);
        changed(tx);
    }

    /// Removes its row, the rows below its number, and how far it is filled.
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
        tx.clear_range(&prefix, &quartet_model::next_prefix(&prefix));
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

/// The number and the parts of a definition of a row of [`StoredIndex::write_row`]. Panics if no
/// version has written it.
pub fn row_parts(row: &[u8]) -> (UniqueId, impl Iterator<Item = &[u8]>) {
    let (number, rest) = row.split_first_chunk().expect("an index begins with its number");
    (*number, packed::iter(rest))
}
