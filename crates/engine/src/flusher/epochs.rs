//! Appending epochs to the log, and making them durable.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quartet_log::LogError;
use quartet_store::{Position, Store};

use super::control::{GATHER, SYNC_INTERVAL};
use super::log_end::reusable;
use super::worker::Worker;
use crate::durability::epochs::Epoch;
use crate::partition::raw::Guard;
use crate::partition::state::PartitionState;

impl Worker {
    /// Takes one epoch to the log, if any waits. False if there is nothing more to do, or if the
    /// lock was not free within `timeout`; with `None` the server stops, and it is waited for.
    pub(super) fn flush_epoch(&mut self, timeout: Option<Duration>) -> Result<bool, LogError> {
        if !self.write_refused()? {
            return Ok(false);
        }
        let is_ending = timeout.is_none() || self.shared.pressure.is_ending();
        let is_held = !is_ending && (self.store_is_behind() || self.disk_room.holds_writes(self.now()));
        self.shared.pressure.hold(is_held);
        if is_held {
            self.sync_if_wanted(true)?;
            return Ok(false);
        }
        let shared = self.shared.clone();
        let locked = match timeout {
            Some(timeout) => shared.partition.borrow_within(timeout),
            None => Some(shared.partition.borrow()),
        };
        let Some(mut partition) = locked else {
            self.sync_if_wanted(false)?;
            return Ok(false);
        };
        // A writer that holds the lock refills the queue as fast as it is emptied, so a due flush
        // takes all of it: if it waited until no epoch is left, it would never start.
        if self.checkpoint_is_wanted(&partition.store) {
            let full = shared.partition.pop_all(&mut partition);
            return self.flush_gathered(full, partition, timeout.is_none());
        }
        let Some(epoch) = shared.partition.pop(&mut partition) else {
            return self.flush_gathered(VecDeque::new(), partition, timeout.is_none());
        };
        shared.note_gathered(&partition);
        drop(partition);
        let needs_sync = epoch.needs_sync;
        if self.write(epoch)? {
            self.sync_if_wanted(needs_sync)?;
        }
        Ok(self.refused.epoch.is_none())
    }

    /// Takes the given full epochs and what has gathered since the last of them to the log. True if
    /// there was something.
    fn flush_gathered(
        &mut self,
        mut epochs: VecDeque<Epoch>,
        mut partition: Guard<'_, PartitionState>,
        stopping: bool,
    ) -> Result<bool, LogError> {
        let last = partition.close_epoch(std::mem::take(&mut self.spare), &self.shared.room);
        let garbage = std::mem::take(&mut partition.garbage);
        let being_freed = partition.being_freed.clone();
        being_freed.store(garbage.len(), Ordering::Relaxed);
        self.shared.partition.tidy(&mut partition);
        let forgotten = partition.forget_changes(self.shared.durable(), self.shared.clock.now_micros());
        let flush = self
            .checkpoint_wanted(&partition.store)
            .then(|| partition.store.begin_flush());
        if flush.is_some() {
            let count = &self.shared.statistics.transactions_since_checkpoint;
            count.store(0, Ordering::Relaxed);
            self.checkpoints.flush_begins(partition.store.unflushed_bytes());
        }
        self.shared.note_gathered(&partition);
        drop(partition);
        drop(forgotten);
        for (database, cleared) in garbage {
            self.shared.stored.freed(database, &cleared);
        }
        being_freed.store(0, Ordering::Relaxed);

        let version = last.version;
        epochs.push_back(last);
        let needs_sync = epochs.iter().any(|epoch| epoch.needs_sync);
        let wrote = self.write_all(epochs)?;
        if self.refused.epoch.is_some() {
            if flush.is_some() {
                self.give_up_checkpoint("the disk is full".into());
            }
            return Ok(false);
        }
        self.sync_if_wanted(needs_sync || stopping || flush.is_some())?;
        if let Some(flush) = flush {
            let sequence = self.end.tail;
            self.start_checkpoint(flush, Position { sequence, version });
        }
        Ok(wrote)
    }

    /// Writes the epochs to the log, oldest first. Returns true if there were any; once one is
    /// refused, the others wait in the queue.
    fn write_all(&mut self, mut epochs: VecDeque<Epoch>) -> Result<bool, LogError> {
        let mut wrote = false;
        while self.refused.epoch.is_none()
            && let Some(epoch) = epochs.pop_front()
        {
            wrote |= self.write(epoch)?;
        }
        epochs.retain(|epoch| !epoch.payload.is_empty());
        if !epochs.is_empty() {
            let mut partition = self.shared.partition.borrow();
            let queue = &mut partition.full_epochs.queue;
            epochs.into_iter().rev().for_each(|epoch| queue.push_front(epoch));
        }
        Ok(wrote)
    }

    /// Writes `epoch` to the log unless it is empty. Returns true if it did; an epoch without room
    /// is put off.
    fn write(&mut self, epoch: Epoch) -> Result<bool, LogError> {
        if epoch.payload.is_empty() {
            self.spare = epoch.payload.into_buffer();
            return Ok(false);
        }
        match self.append(&epoch) {
            Ok(()) => {
                self.spare = reusable(epoch.payload);
                Ok(true)
            }
            Err(error @ LogError::NoRoom { .. }) => {
                self.put_off(epoch, &error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn put_off(&mut self, epoch: Epoch, error: &LogError) {
        if !self.shared.room.is_stuck() {
            tracing::error!(%error, "the disk took less than it had reserved: writes wait until there is room");
            self.refused.retry_soon();
        }
        self.shared.room.set_stuck();
        self.shared.partition.release();
        let now = self.now();
        self.refused.put(epoch, now);
    }

    /// Writes the refused epoch, if its retry is due. Returns true if no epoch is left.
    fn write_refused(&mut self) -> Result<bool, LogError> {
        if self.refused.epoch.is_none() {
            return Ok(true);
        }
        let now = self.now();
        let Some(epoch) = self.refused.take_due(now) else {
            return Ok(false);
        };
        let wrote = self.write(epoch)?;
        if wrote {
            self.sync()?;
        }
        Ok(wrote)
    }

    pub(super) fn append(&mut self, epoch: &Epoch) -> Result<(), LogError> {
        let bytes = epoch.payload.len();
        let shared = self.shared.clone();
        let appending = shared.room.appending();
        self.end.tail = self.log.append(self.end.tail, &epoch.payload.parts())?;
        shared.room.appended(bytes);
        drop(appending);
        let statistics = &shared.statistics;
        statistics.epochs.fetch_add(1, Ordering::Relaxed);
        statistics.epoch_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.end.unsynced.push_back((self.end.tail, epoch.version));
        self.end.is_marked = false;
        shared.note_epochs(0);
        self.spare_the_disk(bytes as u64);
        self.grow_log(bytes as u64);
        Ok(())
    }

    fn sync_if_wanted(&mut self, is_requested: bool) -> Result<(), LogError> {
        let waited_for = self.shared.waited_for.load(Ordering::SeqCst);
        if is_requested || waited_for || self.now() - self.end.last_sync >= SYNC_INTERVAL {
            self.sync()?;
        }
        Ok(())
    }

    /// Publishes as durable exactly the records that the log reports as durable.
    pub(super) fn sync(&mut self) -> Result<(), LogError> {
        if !self.end.unsynced.is_empty() {
            let began = self.now();
            let durable = self.log.sync()?;
            let took = self.now() - began;
            self.end.durable = durable;
            self.shared.log_readers.publish_durable(durable);
            let statistics = &self.shared.statistics;
            statistics.syncs.fetch_add(1, Ordering::Relaxed);
            statistics.sync_micros.store(took.as_micros() as u64, Ordering::Relaxed);
            let mut version = None;
            while let Some(record) = self.end.unsynced.pop_front_if(|(sequence, _)| *sequence <= durable) {
                version = Some(record.1);
            }
            if let Some(version) = version {
                self.shared.publish_durable(version);
            }
        }
        self.end.last_sync = self.now();
        Ok(())
    }

    /// Makes an idle log record how far it is durable; after each sync would be too often, since
    /// the next epoch records it for the previous one as well.
    pub(super) fn mark_if_idle(&mut self) -> Result<(), LogError> {
        let is_idle = !self.shared.flusher.is_woken() && self.now() - self.end.last_sync >= GATHER;
        if is_idle && self.end.unsynced.is_empty() && !self.end.is_marked {
            self.log.mark_durable()?;
            self.end.is_marked = true;
        }
        Ok(())
    }
}
