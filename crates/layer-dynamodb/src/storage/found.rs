//! The item that a change replaces.

use std::cell::OnceCell;

use quartet_engine::Row;
use quartet_engine::Transaction;

use crate::storage::stored;
use crate::wire::value::Item;

/// The previous item, decoded on demand.
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

    /// A copy of the item, to be changed.
    pub fn to_item(&self) -> Option<Item> {
        self.row.as_ref().map(|row| stored::decode(row.value()))
    }

    /// The previous attributes with these names, without decoding the others.
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
