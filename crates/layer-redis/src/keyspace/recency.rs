//! Approximate times or frequencies of reads of keys: OBJECT IDLETIME combines them with the time
//! of the last write, which the row has; also for OBJECT FREQ.
//!
//! A table of fixed size; a key's slot is a hash of its name. Keys that share a slot share what it
//! says, so a key may look read more recently or more often than it was, never less. Noting a read
//! is one relaxed store. Nothing is kept over a restart.
//!
//! ```text
//!   0 seconds since 2020 (31 bits)                          while the policy looks at recency
//!   1 unused (7 bits)  minutes (16 bits)  counter (8 bits)  while it looks at frequency: Redis' logarithmic counter
//! ```
//!
//! A slot of the other kind has no meaning. The counter starts at 5, grows the more rarely the
//! larger it is, and loses one for each `lfu-decay-time` minutes without a read
//! (<https://redis.io/docs/latest/develop/reference/eviction/>).

use std::sync::atomic::{AtomicU32, Ordering};

use xxhash_rust::xxh3::xxh3_64_with_seed;

pub struct Recency {
    slots: Box<[AtomicU32]>,
}

/// A power of two. All slots together take one megabyte.
const SLOTS: usize = 1 << 18;
/// Marks a slot that holds a counter.
const FREQUENCY: u32 = 1 << 31;
/// 2020-01-01.
const START_SECONDS: u64 = 1_577_836_800;
/// A new key is not the first to go.
const COUNTER_START: u8 = 5;

fn minutes(now_ms: u64) -> u16 {
    (now_ms / 60_000) as u16
}

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
        let seconds = (now_ms / 1000).saturating_sub(START_SECONDS) as u32;
        self.slot(db, name).store(seconds & !FREQUENCY, Ordering::Relaxed);
    }

    /// Records a read; `grows` makes the random decision, given the counter's distance from its
    /// start value.
    pub fn note_often(&self, db: u8, name: &[u8], now_ms: u64, decay_minutes: u64, grows: impl FnOnce(u64) -> bool) {
        let counter = self.frequency(db, name, now_ms, decay_minutes);
        let rarity = counter.saturating_sub(COUNTER_START);
        let counter = if grows(rarity.into()) {
            counter.saturating_add(1)
        } else {
            counter
        };
        self.set_frequency(db, name, now_ms, counter);
    }

    /// The key was read as often as `counter` says.
    pub fn set_frequency(&self, db: u8, name: &[u8], now_ms: u64, counter: u8) {
        let slot = FREQUENCY | u32::from(minutes(now_ms)) << 8 | u32::from(counter);
        self.slot(db, name).store(slot, Ordering::Relaxed);
    }

    /// The recent frequency of reads of the key, or of another key of its slot.
    pub fn frequency(&self, db: u8, name: &[u8], now_ms: u64, decay_minutes: u64) -> u8 {
        let slot = self.slot(db, name).load(Ordering::Relaxed);
        if slot & FREQUENCY == 0 {
            return COUNTER_START;
        }
        let idle_minutes = minutes(now_ms).wrapping_sub((slot >> 8) as u16);
        let lost = u64::from(idle_minutes).checked_div(decay_minutes).unwrap_or(0);
        (slot as u8).saturating_sub(lost.min(255) as u8)
    }

    /// The last read of the key, or of another key of its slot, in seconds since the Unix epoch.
    /// Zero: never.
    pub fn read_seconds(&self, db: u8, name: &[u8]) -> u64 {
        match self.slot(db, name).load(Ordering::Relaxed) {
            0 => 0,
            slot if slot & FREQUENCY != 0 => 0,
            seconds => START_SECONDS + u64::from(seconds),
        }
    }

    fn slot(&self, db: u8, name: &[u8]) -> &AtomicU32 {
        &self.slots[xxh3_64_with_seed(name, db.into()) as usize % SLOTS]
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    #[test]
    fn a_counter_grows_with_reads_and_falls_with_time() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        connection.check("SET a 1 => OK\nGET a => 1\nCONFIG SET maxmemory-policy allkeys-lfu lfu-log-factor 0 => OK");
        connection.check("OBJECT FREQ a => 5\nGET a => 1\nGET a => 1\nOBJECT FREQ a => 7");
        fixture.advance_ms(4 * 60_000);
        connection.check(
            "OBJECT FREQ a => 3
             OBJECT IDLETIME a => !ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.
             CONFIG SET maxmemory-policy allkeys-lru => OK
             OBJECT IDLETIME a => 240",
        );
    }

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
