//! Flushing the store to its files: when, and what follows.

use std::sync::atomic::Ordering;

use quartet_log::LogError;
use quartet_store::{Flush, Flushed, PartitionFlush, PartitionFlushed, PartitionStore, Position, Store, StoreKind};

use super::checkpoints::RunningCheckpoint;
use super::control::TURN_TIMEOUT;
use super::worker::Worker;
use crate::durability::job::Job;
use crate::partition::raw::Guard;
use crate::partition::state::PartitionState;

impl Worker {
    /// Records an epoch of `bytes` that the log has taken.
    pub(super) fn grow_log(&mut self, bytes: u64) {
        self.checkpoints.log_bytes += bytes;
        if self.checkpoints.is_flushing_rows() {
            let (now, gathered) = (self.now(), self.gathered_share());
            self.checkpoints.backlog.appended(now, gathered);
        }
    }

    fn gathered_share(&self) -> f64 {
        let limit = self.options.unflushed_log_bytes;
        self.checkpoints.gathered_share(limit, &self.shared.pressure)
    }

    /// Returns true if enough has changed during a flush of the store that writes have to wait a
    /// little, or until it has ended.
    pub(super) fn store_is_behind(&self) -> bool {
        self.checkpoints.is_flushing_rows() && self.checkpoints.backlog.holds(self.now(), self.gathered_share())
    }

    fn checkpoint_due(&self, store: &PartitionStore) -> bool {
        let log_bytes = self.checkpoints.log_bytes;
        match self.checkpoints.store {
            StoreKind::Memory => {
                let is_large = log_bytes > self.options.checkpoint_log_bytes.max(self.checkpoints.bytes);
                is_large || self.full_disk_wants_checkpoint()
            }
            StoreKind::Ssd => {
                let is_large = log_bytes > self.options.unflushed_log_bytes.min(self.options.checkpoint_log_bytes)
                    || self.shared.pressure.wants_flush(store.unflushed_bytes());
                let is_old = self.checkpoints.is_old(self.now());
                let changed = log_bytes > 0;
                // On a full disk it frees the space of deleted rows.
                is_large || self.disk_room.is_full && changed || is_old && (changed || store.is_loose())
            }
        }
    }

    pub(super) fn checkpoint_is_wanted(&self, store: &PartitionStore) -> bool {
        let due = || self.now() >= self.checkpoints.not_before && self.checkpoint_due(store);
        self.checkpoints.running.is_none() && (self.control.checkpoint_wanted.load(Ordering::SeqCst) || due())
    }

    pub(super) fn checkpoint_wanted(&mut self, store: &PartitionStore) -> bool {
        let is_wanted = self.checkpoint_is_wanted(store);
        if is_wanted {
            let mut state = self.control.checkpoint.lock();
            self.control.checkpoint_wanted.store(false, Ordering::SeqCst);
            state.started += 1;
            drop(state);
            let now = self.now();
            self.checkpoints.begin(now, self.disk_room.is_full);
            self.shared.checkpoint_given_up.store(false, Ordering::Relaxed);
            self.shared.statistics.checkpoint_running.store(true, Ordering::Relaxed);
        }
        is_wanted
    }

    pub(super) fn start_checkpoint(&mut self, flush: PartitionFlush, position: Position) {
        let runtime = self.shared.runtime.clone();
        let write = move || {
            runtime.make_way();
            flush.run(position)
        };
        let started = Job::start(self.shared.runtime.as_ref(), "checkpoint", write);
        match started {
            Ok(job) => {
                let now = self.now();
                self.checkpoints.backlog.flush_began(now);
                self.checkpoints.running = Some(RunningCheckpoint { position, job });
            }
            Err(error) => self.give_up_checkpoint(format!("no thread for a checkpoint: {error}")),
        }
    }

    /// Abandons a flush of the store that was started and will not run.
    pub(super) fn give_up_checkpoint(&mut self, reason: String) {
        drop(self.shared.partition.borrow().store.end_flush(None));
        self.checkpoint_ended(Some(reason));
    }

    /// Adopts a checkpoint that is on disk, or retries later if the lock is held.
    pub(super) fn finish_checkpoint(&mut self) -> Result<(), LogError> {
        if !self.checkpoints.is_finished() {
            return Ok(());
        }
        let shared = self.shared.clone();
        let Some(partition) = shared.partition.borrow_within(TURN_TIMEOUT) else {
            return Ok(());
        };
        match self.checkpoints.running.take() {
            Some(running) => self.end_checkpoint(running, partition),
            None => Ok(()),
        }
    }

    pub(super) fn end_checkpoint(
        &mut self,
        RunningCheckpoint { position, job }: RunningCheckpoint,
        mut partition: Guard<'_, PartitionState>,
    ) -> Result<(), LogError> {
        let now = self.now();
        let took = self.checkpoints.backlog.flush_ended(now);
        let flushed = match job.join() {
            Some(flushed) => flushed.map_err(|error| error.to_string()),
            None => Err("the checkpoint thread panicked".into()),
        };
        let written = flushed.as_ref().map(PartitionFlushed::bytes).map_err(String::clone);
        let outdated = partition.store.end_flush(flushed.ok());
        let used = partition.store.disk_use();
        self.shared.note_gathered(&partition);
        drop(partition);
        self.shared.statistics.store_takes(used.unwrap_or_default());
        drop(outdated);
        // The log still holds everything: a failed checkpoint costs space, not data. It is tried
        // again when due.
        let failure = written.map(|bytes| self.checkpoint_written(position, bytes)).err();
        if failure.is_none() {
            let statistics = &self.shared.statistics;
            let (bytes, micros) = (self.checkpoints.covered_log_bytes, took.as_micros() as u64);
            statistics.store_flushed_bytes.fetch_add(bytes, Ordering::Relaxed);
            statistics.store_flush_micros.fetch_add(micros, Ordering::Relaxed);
            self.trim(position)?;
        }
        self.checkpoint_ended(failure);
        Ok(())
    }

    fn checkpoint_written(&mut self, position: Position, bytes: u64) {
        self.checkpoints.bytes = bytes;
        let statistics = &self.shared.statistics;
        statistics.checkpoints.fetch_add(1, Ordering::Relaxed);
        let last = &statistics.checkpoint_last_version;
        last.store(position.version.0, Ordering::Relaxed);
        // Not the version: it says when the last write was, and may be ahead of a clock that was
        // set back.
        let time = &statistics.checkpoint_last_micros;
        time.store(self.shared.clock.now_micros(), Ordering::Relaxed);
    }

    /// Returns true if a checkpoint should free the space of deleted rows, because the disk has
    /// been full since the last checkpoint, and may fit.
    fn full_disk_wants_checkpoint(&self) -> bool {
        if !self.disk_room.was_full || self.checkpoints.log_bytes == 0 {
            return false;
        }
        let available = self.disk.available_bytes().unwrap_or(0) + self.shared.room.kept_bytes();
        self.shared.stored.total() < available
    }

    fn checkpoint_ended(&mut self, failure: Option<String>) {
        let statistics = &self.shared.statistics;
        if let Some(reason) = &failure {
            tracing::error!(reason, "checkpoint failed");
            let now = self.shared.runtime.now();
            self.checkpoints.failed(now);
            statistics.checkpoints_failed.fetch_add(1, Ordering::Relaxed);
        }
        statistics.checkpoint_failed.store(failure.is_some(), Ordering::Relaxed);
        if failure.is_none() {
            self.shared.memory.leave_room_for_checkpoint(false);
            // It may have used the room reserved for it while the disk had no more.
            if std::mem::take(&mut self.disk_room.was_full) {
                self.shared.partition.borrow().store.tidy();
            }
        }
        self.disk_room.changed();
        self.shared
            .statistics
            .checkpoint_running
            .store(false, Ordering::Relaxed);
        let mut state = self.control.checkpoint.lock();
        state.finished = state.started;
        state.failure = failure;
    }
}
