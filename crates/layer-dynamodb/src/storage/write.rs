//! One item changes: the row, its index entries, its expiry and its stream record, in the same
//! transaction.

use std::borrow::Cow;

use quartet_engine::Row;
use quartet_engine::Transaction;

use crate::storage::capacity::{Consumed, write_units};
use crate::storage::found::Found;
use crate::storage::key::{self, ITEMS_PREFIX_BYTES, Position};
use crate::storage::streams::{self, Author, Event};
use crate::storage::table::{Index, Projection, Table};
use crate::storage::vector_index::VectorIndex;
use crate::wire::value::{Item, Value};
use crate::{storage::history, storage::stored};

/// Replaces `old` with `new` below `key`, the item's row. Returns the consumption.
pub fn replace(
    transaction: &mut Transaction<'_>,
    table: &Table,
    key: &[u8],
    old: &Found,
    new: Option<&Item>,
    author: Author,
) -> Consumed {
    let encoded = new.map(stored::encode);
    let mut consumed = Consumed::of_table(write_units(written_size(table, old, encoded.as_deref(), new)));
    history::keep(transaction, table, &key[ITEMS_PREFIX_BYTES..], old);
    match &encoded {
        Some(stored) => drop(transaction.set(key, stored)),
        None if old.row().is_some() => drop(transaction.clear(key)),
        None => return consumed,
    }
    let has_indexes = !table.indexes.is_empty() || !table.vector_indexes.is_empty();
    if !has_indexes && table.time_to_live.is_none() && table.live_stream().is_none() {
        return consumed;
    }
    // Equal items are equal bytes: members and sets are sorted, numbers in normal form.
    let old_stored = old.row().map(Row::value);
    if old_stored == encoded.as_deref() {
        return consumed;
    }
    let (before, after) = (old.item().zip(old_stored), new.zip(encoded.as_deref()));
    maintain_indexes(transaction, table, before, after, &mut consumed);
    for index in &table.vector_indexes {
        maintain_vectors(transaction, table, index, old.item(), new, &mut consumed);
    }
    maintain_expiry(transaction, table, &key[ITEMS_PREFIX_BYTES..], old.item(), new);
    record(transaction, table, old.item(), new, author);
    consumed
}

/// An item and the same as it is stored.
type Stored<'i> = (&'i Item, &'i [u8]);

fn maintain_indexes(
    transaction: &mut Transaction<'_>,
    table: &Table,
    old: Option<Stored<'_>>,
    new: Option<Stored<'_>>,
    consumed: &mut Consumed,
) {
    for index in &table.indexes {
        let (before, after) = (entry(table, index, old), entry(table, index, new));
        if before == after {
            continue;
        }
        let size = |entry: &Option<(Vec<u8>, Cow<'_, [u8]>)>| entry.as_ref().map_or(0, |(_, item)| stored::size(item));
        let moved = matches!((&before, &after), (Some((from, _)), Some((to, _))) if from != to);
        let units = match moved {
            true => write_units(size(&before)) + write_units(size(&after)),
            false => write_units(size(&before).max(size(&after))),
        };
        consumed.add(&Consumed::of_index(&index.name, index.global, units));
        if let Some((key, _)) = &before
            && (moved || after.is_none())
        {
            transaction.clear(key);
        }
        if let Some((key, item)) = &after {
            transaction.set(key, item);
        }
    }
}

/// The larger of the sizes of the old and the new item, as a write is charged.
fn written_size(table: &Table, old: &Found, encoded: Option<&[u8]>, new: Option<&Item>) -> usize {
    match table.vector_indexes.is_empty() {
        true => old.size().max(encoded.map_or(0, stored::size)),
        false => {
            let size = |item: Option<&Item>| item.map_or(0, |item| table.written_size(item));
            size(old.item()).max(size(new))
        }
    }
}

fn maintain_vectors(
    transaction: &mut Transaction<'_>,
    table: &Table,
    index: &VectorIndex,
    old: Option<&Item>,
    new: Option<&Item>,
    consumed: &mut Consumed,
) {
    let bytes = index.written_bytes(table, old, new);
    if bytes > 0 {
        let total = consumed.vectors.entry(index.name.clone()).or_default();
        *total += bytes as f64;
    }
    let entry = |item: Option<&Item>| index.entry(table, item?);
    let (before, after) = (entry(old), entry(new));
    if before == after {
        return;
    }
    let is_moved = |from: &[u8]| after.as_ref().is_none_or(|(to, _)| to != from);
    if let Some((row_key, _)) = before.filter(|(row_key, _)| is_moved(row_key)) {
        transaction.clear(&row_key);
    }
    if let Some((row_key, value)) = &after {
        transaction.set(row_key, value);
    }
}

/// The row of an index and what it holds; `None` if the item is not in it.
fn entry<'i>(table: &Table, index: &Index, item: Option<Stored<'i>>) -> Option<(Vec<u8>, Cow<'i, [u8]>)> {
    let (item, stored) = item?;
    let key = index.item_key(table, item)?;
    let content = match index.projection {
        Projection::All => Cow::Borrowed(stored),
        _ => Cow::Owned(stored::encode(&index.projected(table, item))),
    };
    Some((key, content))
}

/// The expiry of an item, in seconds since 1970; `None` if it never expires.
pub fn expiry_of(table: &Table, item: Option<&Item>) -> Option<u64> {
    match item?.get(table.time_to_live.as_ref()?)? {
        Value::N(number) => number.to_whole_seconds(),
        _ => None,
    }
}

fn maintain_expiry(
    transaction: &mut Transaction<'_>,
    table: &Table,
    place: &[u8],
    old: Option<&Item>,
    new: Option<&Item>,
) {
    let (before, after) = (expiry_of(table, old), expiry_of(table, new));
    if before == after {
        return;
    }
    if let Some(seconds) = before {
        transaction.clear(&key::expiry(seconds, table.id, place));
    }
    if let Some(seconds) = after {
        transaction.set(&key::expiry(seconds, table.id, place), table.kept_name().as_bytes());
    }
}

fn record(transaction: &mut Transaction<'_>, table: &Table, old: Option<&Item>, new: Option<&Item>, author: Author) {
    let (Some(stream), Some(some)) = (table.live_stream(), new.or(old)) else {
        return;
    };
    let mut place = Vec::new();
    key::write_partition(&[&some[&table.hash.name]], &mut place);
    let id = transaction.unique_id();
    let position = Position {
        version: transaction.commit_version().0,
        number: u32::from_be_bytes([0, id[7], id[8], id[9]]),
    };
    let row = key::record(stream.id, streams::shard_of(&place, stream.shards), position);
    let event = Event::between(table, stream.view, old, new, author);
    transaction.set(&row, &event.encode());
}
