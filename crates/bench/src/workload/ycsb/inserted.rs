//! The records that exist while workers insert more: a record may be chosen once it and all before
//! it were acknowledged.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shared by the workers of a cell. Touched by each choice with one load; locked only by inserts.
#[derive(Debug)]
pub struct Inserted {
    next: AtomicU64,
    /// All below it were acknowledged.
    present: AtomicU64,
    /// Acknowledged before one below them was.
    early: Mutex<BTreeSet<u64>>,
}

impl Inserted {
    /// `records` were loaded.
    pub fn after(records: u64) -> Inserted {
        Inserted {
            next: AtomicU64::new(records),
            present: AtomicU64::new(records),
            early: Mutex::default(),
        }
    }

    pub fn present(&self) -> u64 {
        self.present.load(Ordering::Relaxed)
    }

    /// Returns the number of the next record to insert. A record that is never acknowledged
    /// prevents later ones from being chosen.
    pub fn begin(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub fn acknowledge(&self, number: u64) {
        let mut early = self.early.lock().expect("nobody panics with it");
        early.insert(number);
        let mut present = self.present();
        while early.remove(&present) {
            present += 1;
        }
        self.present.store(present, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_present_when_all_before_it_are() {
        let inserted = Inserted::after(10);
        assert_eq!((inserted.begin(), inserted.begin(), inserted.begin()), (10, 11, 12));
        for (number, present) in [(11, 10), (12, 10), (10, 13)] {
            inserted.acknowledge(number);
            assert_eq!(inserted.present(), present);
        }
    }
}
