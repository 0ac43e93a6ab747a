//! Memory that running searches hold: hits, records and groups.
//!
//! It is counted to the database and to the process' one budget. A search that would hold more than
//! there is room for ends with an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quartet_engine::{Memory, Reserved};
use quartet_search::error::SearchError;

/// The part of the budget that the searches of one database may hold together, and bytes where
/// there is no budget.
const SHARE: u64 = 4;
const BYTES_MAX: u64 = 1 << 30;

/// Memory of all running searches of a database.
#[derive(Default)]
pub struct QueryMemory(AtomicU64);

impl QueryMemory {
    /// Bytes that they hold, about.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The memory of a search that holds nothing yet.
    pub fn begin<'m>(&'m self, memory: &'m Arc<Memory>) -> Held<'m> {
        Held {
            of_database: self,
            bytes_max: memory.budget().map_or(BYTES_MAX, |budget| budget / SHARE),
            reserved: Reserved::new(memory.clone()),
        }
    }
}

/// Memory of one search. It is given back when this is dropped.
pub struct Held<'m> {
    of_database: &'m QueryMemory,
    bytes_max: u64,
    reserved: Reserved,
}

impl Held<'_> {
    /// Counts `bytes` as what the search holds from here on, about.
    pub fn set(&mut self, bytes: usize) -> Result<(), SearchError> {
        let (bytes, before) = (bytes as u64, self.reserved.bytes());
        let more = bytes.saturating_sub(before);
        let total = self.of_database.0.fetch_add(more, Ordering::Relaxed) + more;
        if more > 0 && (total > self.bytes_max || !self.reserved.try_set(bytes)) {
            self.of_database.0.fetch_sub(more, Ordering::Relaxed);
            return Err(SearchError::Memory);
        }
        self.reserved.set(bytes);
        self.of_database
            .0
            .fetch_sub(before.saturating_sub(bytes), Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.of_database.0.fetch_sub(self.reserved.bytes(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    /// The budget far exceeds the bytes that other tests of this process count.
    #[test]
    fn searches_of_a_database_hold_a_part_of_the_budget_together() {
        let memory = Arc::new(Memory::default());
        memory.set_budget(Some(1 << 40));
        let (database, other) = (QueryMemory::default(), QueryMemory::default());
        let part = (1 << 40) / SHARE as usize;
        let (mut first, mut second, mut third) =
            (database.begin(&memory), database.begin(&memory), other.begin(&memory));
        assert_eq!(first.set(part - MB), Ok(()));
        assert_eq!(second.set(2 * MB), Err(SearchError::Memory));
        assert_eq!(second.set(MB), Ok(()));
        assert_eq!(third.set(2 * MB), Ok(()));
        assert_eq!(first.set(MB), Ok(()));
        assert_eq!(second.set(2 * MB), Ok(()));
        assert_eq!(database.bytes(), 3 * MB as u64);
        drop(first);
        drop(second);
        assert_eq!(database.bytes(), 0);
    }
}
