//! One item changes: the row, its index entries, its expiry and its stream record, in the same transaction.

use std::cell::OnceCell;

use quartet_engine::Transaction;
use quartet_store::Row;

use crate::capacity::{Consumed, write_units};
use crate::key::{self, ITEMS_PREFIX_BYTES, Position};
use crate::stored;
use crate::streams::{self, Event};
use crate::table::Table;
use crate::value::{Item, Value, item_size};

/// The item that was there, decoded when somebody looks.
pub struct Found {
    row: Option<Row>,
    item: OnceCell<Item>,
}

impl Found {
    pub fn read(transaction: &mut Transaction<'_>, key: &[u8]) -> Found {
        Found {
            row: transaction.get(key),
            item: OnceCell::new(),
        }
    }

    pub fn item(&self) -> Option<&Item> {
        let row = self.row.as_ref()?;
        Some(self.item.get_or_init(|| stored::decode(row.value())))
    }

    pub fn row(&self) -> Option<&Row> {
        self.row.as_ref()
    }

    /// What the service counts for it; zero if there was none.
    pub fn size(&self) -> usize {
        self.row.as_ref().map_or(0, |row| stored::size(row.value()))
    }
}

/// Who changes an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    Client,
    /// The service itself, because the item expired.
    Expiry,
}

/// Puts `new` in the place of `old` below `key`, the item's row. Returns what that consumed.
pub fn replace(
    transaction: &mut Transaction<'_>,
    table: &Table,
    key: &[u8],
    old: &Found,
    new: Option<&Item>,
    author: Author,
) -> Consumed {
    let mut consumed = Consumed::of_table(write_units(old.size().max(new.map_or(0, item_size))));
    match new {
        Some(item) => drop(transaction.set(key, &stored::encode(item))),
        None if old.row().is_some() => drop(transaction.clear(key)),
        None => return consumed,
    }
    if table.indexes.is_empty() && table.time_to_live.is_none() && table.live_stream().is_none() {
        return consumed;
    }
    let old = old.item();
    if old == new {
        return consumed;
    }
    maintain_indexes(transaction, table, old, new, &mut consumed);
    maintain_expiry(transaction, table, &key[ITEMS_PREFIX_BYTES..], old, new);
    record(transaction, table, old, new, author);
    consumed
}

fn maintain_indexes(
    transaction: &mut Transaction<'_>,
    table: &Table,
    old: Option<&Item>,
    new: Option<&Item>,
    consumed: &mut Consumed,
) {
    for index in &table.indexes {
        let entry = |item: Option<&Item>| index.entry(table, item?);
        let (before, after) = (entry(old), entry(new));
        if before == after {
            continue;
        }
        let size = |entry: &Option<(Vec<u8>, Item)>| entry.as_ref().map_or(0, |(_, item)| item_size(item));
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
            transaction.set(key, &stored::encode(item));
        }
    }
}

/// When an item expires, in seconds since 1970; `None` if never.
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
        transaction.set(&key::expiry(seconds, table.id, place), table.name.as_bytes());
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
    let row = key::record(stream.id, streams::shard_of(&place), position);
    let event = Event::between(table, stream.view, old, new, author);
    transaction.set(&row, &event.encode());
}
