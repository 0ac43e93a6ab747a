//! How many bytes the rows of each logical database count for.
//!
//! Counted where transactions commit and where cleared ranges are freed, so a query costs one load
//! and needs no lock. The rows of a cleared range count until the flusher has freed them: walking
//! the range under the lock would make others wait.
//!
//! Invariant: once nothing is left to be freed, each figure is the sum over the rows of that
//! database.

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use quartet_model::DatabaseId;
use quartet_store::{Cleared, Read, Row, StoreError};

/// Databases counted side by side; a shelf without any takes no memory.
const SHELF: usize = 256;

pub(crate) struct StoredBytes {
    shelves: [OnceLock<Box<[AtomicI64; SHELF]>>; SHELF],
    /// Bytes of all databases.
    total: AtomicI64,
}

impl Default for StoredBytes {
    fn default() -> StoredBytes {
        StoredBytes {
            shelves: array::from_fn(|_| OnceLock::new()),
            total: AtomicI64::new(0),
        }
    }
}

impl StoredBytes {
    /// Counts the existing rows once, before any are changed.
    pub fn of(rows: &impl Read) -> Result<StoredBytes, StoreError> {
        let stored = StoredBytes::default();
        let mut next = Some(DatabaseId(0));
        while let Some(from) = next {
            let Some(row) = rows.nth(&from.0.to_be_bytes(), &KEYS_END, 0)? else {
                break;
            };
            let database = database_of(row.key());
            next = database.0.checked_add(1).map(DatabaseId);
            let end = next.map_or(KEYS_END.to_vec(), |next| next.0.to_be_bytes().to_vec());
            let bytes = rows.row_bytes(&database.0.to_be_bytes(), &end)?;
            stored.add(database, bytes as i64);
        }
        Ok(stored)
    }

    /// Counts the existing rows again, while no row is changed.
    pub fn recount(&self, rows: &impl Read) -> Result<(), StoreError> {
        let counted = StoredBytes::of(rows)?;
        for database in 0..=u16::MAX {
            let shelf = usize::from(database) / SHELF;
            if self.shelves[shelf].get().is_some() || counted.shelves[shelf].get().is_some() {
                let database = DatabaseId(database);
                let difference = counted.read(database) as i64 - self.read(database) as i64;
                self.add(database, difference);
            }
        }
        Ok(())
    }

    #[inline]
    pub fn add(&self, database: DatabaseId, bytes: i64) {
        if bytes != 0 {
            self.counter(database).fetch_add(bytes, Ordering::Relaxed);
            self.total.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Subtracts the rows of a cleared range after their memory was freed.
    pub fn freed(&self, database: DatabaseId, cleared: &impl Cleared) {
        self.add(database, -(cleared.row_bytes() as i64));
    }

    pub fn read(&self, database: DatabaseId) -> u64 {
        let bytes = self.counter(database).load(Ordering::Relaxed);
        bytes.max(0) as u64
    }

    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed).max(0) as u64
    }

    fn counter(&self, database: DatabaseId) -> &AtomicI64 {
        let number = usize::from(database.0);
        let shelf = self.shelves[number / SHELF].get_or_init(|| Box::new(array::from_fn(|_| AtomicI64::new(0))));
        &shelf[number % SHELF]
    }
}

/// Returns the bytes that a row counts for.
pub(crate) fn row_bytes(row: &Row) -> i64 {
    row.stored_bytes() as i64
}

/// Above every key: no database has the highest number twice.
pub(crate) const KEYS_END: [u8; 3] = [0xff; 3];

/// The logical database that a full key belongs to.
pub(crate) fn database_of(key: &[u8]) -> DatabaseId {
    let number = key.get(..2).and_then(|bytes| bytes.try_into().ok());
    DatabaseId(u16::from_be_bytes(number.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quartet_env::{FaultyDisk, ManualClock};
    use quartet_model::{DatabaseId, LayerId};

    use crate::engine::Engine;
    use crate::options::{Durability, EngineOptions};
    use crate::partition::transaction::Transaction;
    use crate::space::Space;

    fn open(disk: Arc<FaultyDisk>) -> Engine {
        let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
        let clock = Arc::new(ManualClock::new(1_000_000));
        Engine::open(disk, clock, EngineOptions::default(), failure, &mut |_| {}).unwrap()
    }

    fn write(engine: &Engine, database: u16, body: impl Fn(&mut Transaction<'_>)) {
        let space = Space {
            database: DatabaseId(database),
            layer: LayerId::Redis,
            durability: Durability::None,
        };
        let body = |tx: &mut Transaction<'_>| -> Result<(), ()> {
            body(tx);
            Ok(())
        };
        engine.partition().execute(space, body).unwrap();
    }

    #[test]
    fn each_database_is_counted_by_itself_and_again_after_a_restart() {
        let disk = Arc::new(FaultyDisk::new());
        let engine = open(disk.clone());
        write(&engine, 1, |tx| drop(tx.set(b"a", b"12345")));
        write(&engine, 700, |tx| drop(tx.set(b"a", b"1234567")));
        write(&engine, 700, |tx| drop(tx.set(b"b", b"1")));
        write(&engine, 700, |tx| drop(tx.set(b"b", b"123")));
        let stored = |engine: &Engine, database| engine.stored_bytes(DatabaseId(database));
        // A row counts 36 bytes beside its key and value, and a key three beside the layer's part.
        assert_eq!((stored(&engine, 1), stored(&engine, 700)), (36 + 9, 36 + 11 + 36 + 7));
        assert_eq!(engine.live_bytes(), stored(&engine, 1) + stored(&engine, 700));
        let refused = engine.partition().execute(
            Space {
                database: DatabaseId(1),
                layer: LayerId::Redis,
                durability: Durability::None,
            },
            |tx| -> Result<(), ()> {
                tx.set(b"c", b"never");
                Err(())
            },
        );
        assert!(refused.is_err());
        assert_eq!(stored(&engine, 1), 36 + 9);
        write(&engine, 700, |tx| drop(tx.clear(b"b")));
        assert_eq!(stored(&engine, 700), 36 + 11);
        engine.close().unwrap();
        let engine = open(disk);
        assert_eq!((stored(&engine, 1), stored(&engine, 700)), (36 + 9, 36 + 11));
        write(&engine, 700, |tx| tx.clear_all());
        engine.partition().free_cleared();
        assert_eq!((stored(&engine, 1), stored(&engine, 700)), (36 + 9, 0));
        engine.close().unwrap();
    }
}
