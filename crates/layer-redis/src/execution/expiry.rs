//! The expiry cycle: removes keys and hash fields whose deadline has passed.
//!
//! Readers already treat them as absent; the cycle frees their memory, a few hundred at a time so
//! that no client waits long for the lock. Its removals are logged like any other transaction, so
//! replaying needs no clock.
//!
//! A key that a reader has found to be expired is removed right after the reader's command, in a
//! transaction of its own: no reader writes, and none waits until the removal is durable.

use std::sync::atomic::Ordering;

use quartet_engine::{Dependency, PartitionGuard, Transaction};

use crate::commands;
use crate::keyspace::{Keyspace, Missing, due};
use crate::layer::Redis;

/// Keys removed under one hold of the lock.
const BATCH: usize = 200;

impl Redis {
    /// Removes the keys that the command before has found to be expired. Called with the lock held,
    /// after each command.
    #[inline]
    pub fn expire_found(&self, partition: &mut PartitionGuard<'_>) {
        if self.expiry.found.any() {
            self.expire_these(partition, &self.expiry.found.take());
        }
    }

    /// Returns true if writes are not paused, and if expiry is not the decision of another server.
    pub(crate) fn may_expire(&self, now_ms: u64) -> bool {
        !self.replication.is_replica() && self.connections.pause.holds_back(true, now_ms).is_none()
    }

    fn expire_these(&self, partition: &mut PartitionGuard<'_>, expired: &[(u8, Vec<u8>)]) {
        let now_ms = partition.now_micros() / 1000;
        if !self.may_expire(now_ms) {
            return;
        }
        let removed = partition.execute(self.space, |tx| -> Result<u64, ()> {
            let mut removed = 0;
            for (db, name) in expired {
                let mut keys = self.keyspace(tx, *db, now_ms);
                if matches!(keys.look_up(name), Err(Missing::Expired)) {
                    keys.remove(name);
                    removed += 1;
                }
            }
            self.follow_changes(tx, now_ms);
            Ok(removed)
        });
        let (removed, dependency) = removed.unwrap_or_default();
        self.observation
            .statistics
            .expired_keys
            .fetch_add(removed, Ordering::Relaxed);
        // The command that found them has reported them, but not as a removal.
        let changes = self.changes.take();
        self.gather_removed(&changes);
        self.replication.commit(dependency);
    }

    pub fn keyspace<'k, 't>(&'k self, tx: &'k mut Transaction<'t>, db: u8, now_ms: u64) -> Keyspace<'k, 't> {
        let changes = &self.changes;
        Keyspace {
            tx,
            db,
            now_ms,
            changes,
        }
    }

    /// Sends the notifications for keys that a committed transaction has removed because they had
    /// expired, or because memory was short.
    pub fn tell_removed(&self, dependency: Dependency) {
        if self.changes.are_wanted() {
            let changes = self.changes.take();
            self.notify(None, &changes);
            self.invalidate(None, &changes);
            self.outbox.commit(dependency);
            self.gather_removed(&changes);
            self.replication.commit(dependency);
        }
    }

    /// Removes what is due. Call it about ten times a second.
    pub fn expire_due(&self) {
        let now_micros = self.engine.now_micros();
        self.observation.statistics.sample_rate(now_micros);
        self.keep_replicas(now_micros);
        self.observation.statistics.used_peak(self.used_bytes());
        self.tick_modules();
        if self.connections.tracking.is_on()
            && let Ok(_home) = self.partition_in_time()
        {
            self.trim_tracking();
        }
        if !self.may_expire(now_micros / 1000) {
            return;
        }
        self.serve_due();
        if !self.expiry.is_active.load(Ordering::Relaxed) {
            return;
        }
        self.expire_in_modules();
        // While the lock is held for long nothing expires; the next cycle follows soon.
        while let Ok(mut partition) = self.partition_in_time() {
            if self.should_evict() {
                self.make_room(&mut partition);
            }
            let removed = self.expire_keys(&mut partition) + self.expire_fields(&mut partition);
            self.serve_blocked(&mut partition);
            self.send_outbox();
            if removed < BATCH {
                break;
            }
            self.engine.give_way();
        }
        let ended_micros = self.engine.now_micros();
        self.note_latency("expire-cycle", ended_micros, ended_micros.saturating_sub(now_micros));
    }

    fn expire_keys(&self, partition: &mut PartitionGuard<'_>) -> usize {
        let now_ms = partition.now_micros() / 1000;
        let removed = partition.execute(self.space, |tx| -> Result<usize, ()> {
            let due = due(tx, false, now_ms, BATCH);
            for (db, _, name) in &due {
                self.keyspace(tx, *db, now_ms).remove(name);
            }
            self.follow_changes(tx, now_ms);
            Ok(due.len())
        });
        let Ok((removed, dependency)) = removed else {
            return self.removed_nothing();
        };
        self.observation
            .statistics
            .expired_keys
            .fetch_add(removed as u64, Ordering::Relaxed);
        self.tell_removed(dependency);
        removed
    }

    /// The disk is full, and the transaction was rolled back: no client is notified.
    fn removed_nothing(&self) -> usize {
        self.changes.take();
        self.roll_modules_back();
        self.replication.discard();
        0
    }

    fn expire_fields(&self, partition: &mut PartitionGuard<'_>) -> usize {
        let now_ms = partition.now_micros() / 1000;
        let removed = partition.execute(self.space, |tx| -> Result<(usize, u64), ()> {
            let due = due(tx, true, now_ms, BATCH);
            let mut fields = 0;
            for (db, _, name) in &due {
                fields += commands::hashes::expire_fields(&mut self.keyspace(tx, *db, now_ms), name);
            }
            self.follow_changes(tx, now_ms);
            Ok((due.len(), fields))
        });
        let Ok(((hashes, fields), dependency)) = removed else {
            return self.removed_nothing();
        };
        self.observation
            .statistics
            .expired_fields
            .fetch_add(fields, Ordering::Relaxed);
        if self.changes.are_wanted() {
            let (changes, expired_fields) = self.changes.take_with_fields();
            self.notify_expired_fields(&changes);
            self.invalidate(None, &changes);
            self.outbox.commit(dependency);
            if self.replication.is_on() {
                self.gather_ended(&changes, &expired_fields);
            }
            self.replication.commit(dependency);
        }
        hashes
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    /// An expired key that a client requested used to stay in DBSIZE, and out of `expired_keys`,
    /// until the next cycle.
    #[test]
    fn a_reader_makes_an_expired_key_go() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        connection.check("PSETEX a 10 x => OK\nPSETEX b 10 x => OK\nPSETEX c 10 x => OK\nSET d 1 => OK");
        fixture.advance_ms(10);
        connection.check(
            "DBSIZE => 4
             CLIENT PAUSE 1000 WRITE => OK
             GET a => nil
             DBSIZE => 4
             CLIENT UNPAUSE => OK
             MGET a b d => [nil nil 1]
             DBSIZE => 2
             EXISTS c => 0
             DBSIZE => 1",
        );
        assert_eq!(
            fixture
                .layer
                .observation
                .statistics
                .expired_keys
                .load(super::Ordering::Relaxed),
            3
        );
    }
}
