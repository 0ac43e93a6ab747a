//! The item that a change replaces.

use std::cell::OnceCell;

use quartet_engine::Transaction;
use quartet_store::Row;

use crate::storage::stored;
use crate::wire::value::Item;

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

    /// The item, made anew, to be changed.
    pub fn to_item(&self) -> Option<Item> {
        self.row.as_ref().map(|row| stored::decode(row.value()))
    }

    /// The attributes of these names that were there, whatever else was.
    pub fn attributes(&self, is_wanted: impl Fn(&str) -> bool) -> Item {
        let row = self.row.as_ref();
        row.map_or_else(Item::new, |row| stored::decode_some(row.value(), is_wanted))
    }

    pub fn row(&self) -> Option<&Row> {
        self.row.as_ref()
    }

    /// Returns its size as the service counts it; zero if there was none.
    pub fn size(&self) -> usize {
        self.row.as_ref().map_or(0, |row| stored::size(row.value()))
    }
}
