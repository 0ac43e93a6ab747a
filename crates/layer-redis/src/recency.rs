//! When keys were last read, roughly: what OBJECT IDLETIME tells besides the time of the last write, which the row knows.
//!
//! A table of fixed size, a second in each slot; a key's slot is a hash of its name. Keys that share a slot share its time, so
//! a key may look read more recently than it was, never less. Noting a read is one relaxed store. Nothing is kept over a
//! restart.

use std::sync::atomic::{AtomicU32, Ordering};

use xxhash_rust::xxh3::xxh3_64_with_seed;

pub struct Recency {
    /// Seconds since the Unix epoch.
    slots: Box<[AtomicU32]>,
}

/// A power of two. All slots together take one megabyte.
const SLOTS: usize = 1 << 18;

impl Default for Recency {
    fn default() -> Recency {
        Recency {
            slots: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl Recency {
    /// The key was read.
    pub fn note(&self, db: u8, name: &[u8], now_ms: u64) {
        self.slot(db, name).store((now_ms / 1000) as u32, Ordering::Relaxed);
    }

    /// When the key, or another one of its slot, was last read, in seconds since the Unix epoch. Zero: never.
    pub fn read_seconds(&self, db: u8, name: &[u8]) -> u64 {
        self.slot(db, name).load(Ordering::Relaxed).into()
    }

    fn slot(&self, db: u8, name: &[u8]) -> &AtomicU32 {
        &self.slots[xxh3_64_with_seed(name, db.into()) as usize % SLOTS]
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    /// OBJECT IDLETIME used to know of writes only.
    #[test]
    fn reads_end_idleness() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        connection.check("SET a 1 => OK\nRPUSH l 1 => 1");
        fixture.advance_ms(5000);
        connection.check(
            "TTL a => -1
             TYPE a => string
             EXISTS a => 1
             OBJECT IDLETIME a => 5
             CLIENT NO-TOUCH on => OK
             GET a => 1
             OBJECT IDLETIME a => 5
             TOUCH a nosuch => 1
             OBJECT IDLETIME a => 0
             OBJECT IDLETIME l => 5
             CLIENT NO-TOUCH off => OK
             LLEN l => 1
             OBJECT IDLETIME l => 0",
        );
    }
}
