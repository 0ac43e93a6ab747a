//! Rows that arrive in key order, on their way into an empty store: several times faster than
//! setting each, and without a store on disk holding them in memory.

use std::cmp::Ordering;

use quartet_model::Version;

use crate::error::StoreError;
use crate::memory::MemoryBuilder;
use crate::row::Row;
use crate::ssd::SsdLoad;

/// A load started by [`PartitionStore::begin_load`](crate::PartitionStore::begin_load). Dropping it
/// discards the rows.
pub struct PartitionLoad {
    rows: Rows,
    /// Key of the last row, if there was one.
    last_key: Vec<u8>,
    is_begun: bool,
}

/// The builder of either kind of store.
pub(crate) enum Rows {
    Memory(MemoryBuilder),
    Ssd(Box<SsdLoad>),
}

impl PartitionLoad {
    pub(crate) fn new(rows: Rows) -> PartitionLoad {
        PartitionLoad {
            rows,
            last_key: Vec::new(),
            is_begun: false,
        }
    }

    pub(crate) fn into_rows(self) -> Rows {
        self.rows
    }

    /// Adds a row. Errors: the disk's; a key that is not above all before it.
    pub fn push(&mut self, key: &[u8], value: &[u8], version: Version) -> Result<(), StoreError> {
        if self.is_begun && key.cmp(&self.last_key) != Ordering::Greater {
            return Err(StoreError::damaged("what is to be loaded", 0, "rows out of order"));
        }
        self.is_begun = true;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        match &mut self.rows {
            Rows::Memory(builder) => {
                builder.push(Row::new(key, value, version));
                Ok(())
            }
            Rows::Ssd(load) => load.push(key, value, version),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quartet_env::FaultyDisk;

    use crate::{PartitionStore, Position, Read, Row, StateHasher, StoreKind, StoreOptions, state_hash};

    use super::*;

    fn empty(kind: StoreKind) -> PartitionStore {
        let options = StoreOptions {
            kind: Some(kind),
            ..StoreOptions::default()
        };
        let opened = PartitionStore::open(Arc::new(FaultyDisk::new()), &options, &mut |_| {});
        opened.unwrap().store
    }

    #[test]
    fn every_store_holds_what_was_loaded() {
        for kind in StoreKind::ALL {
            let mut store = empty(kind);
            let (mut load, mut hasher) = (store.begin_load(), StateHasher::new());
            for number in 0..1000u32 {
                let row = Row::new(&number.to_be_bytes(), b"value", Version(number.into()));
                load.push(row.key(), row.value(), row.version()).unwrap();
                hasher.push(&row);
            }
            store.end_load(load, Position::default()).unwrap();
            assert_eq!(store.len(), 1000);
            assert_eq!(state_hash(&store, None).unwrap(), hasher.finish());
        }
    }

    #[test]
    fn rows_out_of_order_are_refused() {
        for kind in StoreKind::ALL {
            let store = empty(kind);
            let mut load = store.begin_load();
            load.push(b"", b"", Version(1)).unwrap();
            load.push(b"b", b"", Version(1)).unwrap();
            for key in [&b"b"[..], b"a", b""] {
                assert!(load.push(key, b"", Version(1)).is_err(), "{key:?}");
            }
            load.push(b"ba", b"", Version(1)).unwrap();
        }
    }
}
