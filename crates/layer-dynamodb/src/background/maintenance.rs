//! The service's background work: filling new indexes, deleting expired items, removing old
//! records.
//!
//! All in small transactions, so that no request waits long for the lock. The progress of filling
//! an index is a row, so it continues after a restart; writes maintain a new index from its
//! creation, and filling it twice is harmless.

use std::ops::ControlFlow;

use quartet_engine::{Admission, Transaction};
use quartet_model::KeyRange;

use crate::operations::transact::TOKEN_KEPT_MICROS;
use crate::storage::filling::Filling;
use crate::storage::found::Found;
use crate::storage::key::{self, Position};
use crate::storage::streams::{self, Author, KEPT_MICROS};
use crate::storage::table::{Index, Table};
use crate::storage::vector_index::VectorIndex;
use crate::storage::write::{expiry_of, replace};
use crate::wire::failure::Failure;
use crate::{DynamoDb, operations::backups, operations::restore, storage::history, storage::stored};

/// Items that one transaction handles.
const STEP_ITEMS: usize = 200;
/// Time limit of one kind of work before the others get their turn.
const TURN_MICROS: u64 = 20_000;
/// An expiry longer ago is taken for a mistake ("Using time to live").
const EXPIRED_SECONDS_MAX: u64 = 5 * 365 * 24 * 3600;

impl DynamoDb {
    /// Does what is due. Cheap when nothing is; to be called several times a second.
    pub fn maintain(&self) {
        while self.engine.admission() == Admission::Now && self.step(DynamoDb::fill) {}
        while self.step(DynamoDb::expire) {}
        while self.step(DynamoDb::forget_tokens) {}
        while self.step(DynamoDb::trim) {}
        while self.step(backups::expire) {}
        self.for_a_while(history::sweep);
    }

    /// Continues requested work that takes space, a little at a time. Returns true if there may be
    /// more.
    pub fn go_on(&self) -> bool {
        self.engine.admission() == Admission::Now && self.for_a_while(restore::go_on)
    }

    /// Other users of the thread wait this long at most. Returns true if there may be more to do.
    fn for_a_while(&self, work: fn(&DynamoDb, &mut Transaction<'_>) -> bool) -> bool {
        let until_micros = self.engine.now_micros() + TURN_MICROS;
        while self.step(work) {
            if self.engine.now_micros() > until_micros {
                return true;
            }
        }
        false
    }

    /// Returns true if there may be more to do.
    fn step(&self, work: fn(&DynamoDb, &mut Transaction<'_>) -> bool) -> bool {
        let (more, _) = self.execute(|transaction| Ok::<bool, Failure>(work(self, transaction)));
        more.unwrap_or(false)
    }

    fn fill(&self, transaction: &mut Transaction<'_>) -> bool {
        let Some((row_key, mut filling)) = first_filling(transaction) else {
            return false;
        };
        let (id, index_id) = (u32_at(&row_key, 1), u16::from_be_bytes([row_key[5], row_key[6]]));
        let table = self
            .find_kept_table(transaction, &filling.table)
            .filter(|table| table.id == id);
        let Some(table) = table else {
            transaction.clear(&row_key);
            return true;
        };
        let all = KeyRange::prefix(&key::items(id, 0));
        let start = if filling.after.is_empty() {
            all.start
        } else {
            KeyRange::point(&filling.after).end
        };
        let rows = first_rows(transaction, &KeyRange::new(start, all.end));
        let filled = Filled::of(&table, index_id);
        for (item_key, value) in &rows {
            fill_one(transaction, &table, &filled, item_key, value);
        }
        match rows.last() {
            Some((last, _)) if rows.len() == STEP_ITEMS => {
                filling.after = last.clone();
                transaction.set(&row_key, &serde_json::to_vec(&filling).expect("JSON"));
            }
            _ => {
                transaction.clear(&row_key);
                self.finish_filling(transaction, &table, index_id);
            }
        }
        true
    }

    fn finish_filling(&self, transaction: &mut Transaction<'_>, table: &Table, index: u16) {
        let mut table = table.clone();
        if let Some(index) = table.indexes.iter_mut().find(|filled| filled.id == index) {
            index.filling = false;
            self.store_table(transaction, &table);
        }
        if let Some(index) = table.vector_indexes.iter_mut().find(|filled| filled.id == index) {
            index.filling = false;
            self.store_table(transaction, &table);
        }
    }

    fn expire(&self, transaction: &mut Transaction<'_>) -> bool {
        let now = transaction.now_micros() / 1_000_000;
        let due = first_rows(transaction, &key::expiries_before(now + 1));
        for (row_key, table_name) in &due {
            let (seconds, table_id, place) = key::expiry_parts(row_key);
            transaction.clear(row_key);
            if seconds + EXPIRED_SECONDS_MAX < now {
                continue;
            }
            let table = self.find_kept_table(transaction, &String::from_utf8_lossy(table_name));
            let Some(table) = table.filter(|table| table.id == table_id) else {
                continue;
            };
            let item_key = [key::items(table_id, 0).as_slice(), place].concat();
            let present = Found::read(transaction, &item_key);
            if expiry_of(&table, present.item()) == Some(seconds) {
                replace(transaction, &table, &item_key, &present, None, Author::Expiry);
            }
        }
        due.len() == STEP_ITEMS
    }

    fn forget_tokens(&self, transaction: &mut Transaction<'_>) -> bool {
        let before = transaction.now_micros().saturating_sub(TOKEN_KEPT_MICROS);
        let due = first_rows(transaction, &KeyRange::new(b"L", key::token_expiry(before, "")));
        for (row_key, _) in &due {
            transaction.clear(row_key);
            transaction.clear(&[b"K", &row_key[9..]].concat());
        }
        due.len() == STEP_ITEMS
    }

    fn trim(&self, transaction: &mut Transaction<'_>) -> bool {
        let horizon = transaction.now_micros().saturating_sub(KEPT_MICROS);
        let position = Position {
            version: horizon,
            number: 0,
        };
        for stream in streams::all(transaction) {
            for shard in 0..stream.shards {
                let start = key::shard(stream.id, shard);
                if is_due(transaction, &start, &key::record(stream.id, shard, position)) {
                    transaction.clear_range(&start, &key::record(stream.id, shard, position));
                }
            }
            if stream.ended_micros > 0 && stream.ended_micros < horizon {
                transaction.clear(&key::stream(stream.id));
            }
        }
        false
    }
}

/// Looking is cheaper than clearing nothing.
fn is_due(transaction: &mut Transaction<'_>, start: &[u8], end: &[u8]) -> bool {
    let mut due = false;
    transaction.scan(start, end, false, &mut |_| {
        due = true;
        ControlFlow::Break(())
    });
    due
}

fn first_filling(transaction: &mut Transaction<'_>) -> Option<(Vec<u8>, Filling)> {
    let range = key::fillings();
    let mut first = None;
    transaction.scan(&range.start, &range.end, false, &mut |row| {
        let filling = serde_json::from_slice(row.value()).expect("a stored filling");
        first = Some((Transaction::layer_key(row).to_vec(), filling));
        ControlFlow::Break(())
    });
    first
}

fn first_rows(transaction: &mut Transaction<'_>, range: &KeyRange) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    transaction.scan(&range.start, &range.end, false, &mut |row| {
        rows.push((Transaction::layer_key(row).to_vec(), row.value().to_vec()));
        if rows.len() < STEP_ITEMS {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    rows
}

/// The rows that a filling makes from the items of a table.
enum Filled<'t> {
    Index(&'t Index),
    Vectors(&'t VectorIndex),
    Expiries,
    /// The index was deleted.
    Nothing,
}

impl Filled<'_> {
    fn of(table: &Table, id: u16) -> Filled<'_> {
        let index = table.indexes.iter().find(|index| index.id == id);
        let vectors = table.vector_indexes.iter().find(|index| index.id == id);
        match (index, vectors) {
            (Some(index), _) => Filled::Index(index),
            (_, Some(index)) => Filled::Vectors(index),
            _ if id == 0 => Filled::Expiries,
            _ => Filled::Nothing,
        }
    }
}

fn fill_one(transaction: &mut Transaction<'_>, table: &Table, filled: &Filled<'_>, item_key: &[u8], value: &[u8]) {
    let item = stored::decode(value);
    match filled {
        Filled::Index(index) => {
            if let Some((entry_key, entry)) = index.entry(table, &item) {
                transaction.set(&entry_key, &stored::encode(&entry));
            }
        }
        Filled::Vectors(index) => {
            if let Some((entry_key, entry)) = index.entry(table, &item) {
                transaction.set(&entry_key, &entry);
            }
        }
        Filled::Expiries => {
            if let Some(seconds) = expiry_of(table, Some(&item)) {
                let place = &item_key[key::ITEMS_PREFIX_BYTES..];
                transaction.set(&key::expiry(seconds, table.id, place), table.kept_name().as_bytes());
            }
        }
        Filled::Nothing => {}
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
