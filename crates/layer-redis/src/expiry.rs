//! The expiry cycle: removes keys and hash fields whose deadline has passed.
//!
//! Readers already treat them as absent; the cycle gives their memory back, a few hundred at a time so that nobody waits
//! long for the lock. What it removes is logged like any other transaction, so replaying needs no clock.

use std::sync::atomic::Ordering;

use quartet_engine::Home;

use crate::Redis;
use crate::commands;
use crate::keyspace::{Keyspace, due};

/// Keys removed under one hold of the lock.
const BATCH: usize = 200;

impl Redis {
    /// Removes what is due. Call it about ten times a second.
    pub fn expire_due(&self) {
        let now_micros = self.engine.now_micros();
        self.statistics.sample_rate(now_micros);
        let is_paused = self.pause.holds_back(true, now_micros / 1000).is_some();
        if is_paused || !self.active_expiry.load(Ordering::Relaxed) {
            return;
        }
        loop {
            let mut home = self.engine.home();
            let removed = self.expire_keys(&mut home) + self.expire_fields(&mut home);
            self.blocking.serve(&mut home, self);
            if removed < BATCH {
                return;
            }
        }
    }

    fn expire_keys(&self, home: &mut Home<'_>) -> usize {
        let now_ms = home.now_micros() / 1000;
        let removed = home.execute(self.space, |tx| -> Result<usize, ()> {
            let due = due(tx, false, now_ms, BATCH);
            for (db, _, name) in &due {
                Keyspace { tx, db: *db, now_ms }.remove(name);
            }
            Ok(due.len())
        });
        let removed = removed.map_or(0, |(removed, _)| removed);
        self.statistics
            .expired_keys
            .fetch_add(removed as u64, Ordering::Relaxed);
        removed
    }

    fn expire_fields(&self, home: &mut Home<'_>) -> usize {
        let now_ms = home.now_micros() / 1000;
        let removed = home.execute(self.space, |tx| -> Result<(usize, u64), ()> {
            let due = due(tx, true, now_ms, BATCH);
            let mut fields = 0;
            for (db, _, name) in &due {
                fields += commands::hashes::expire_fields(&mut Keyspace { tx, db: *db, now_ms }, name);
            }
            Ok((due.len(), fields))
        });
        let (hashes, fields) = removed.map_or((0, 0), |(removed, _)| removed);
        self.statistics.expired_fields.fetch_add(fields, Ordering::Relaxed);
        hashes
    }
}
