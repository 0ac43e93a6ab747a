//! The disk's space: what the log needs ahead, and what is given back.

use std::sync::atomic::Ordering;

use quartet_log::LogError;
use quartet_store::{Position, StoreKind};

use super::control::{TURN_TIMEOUT, needed_behind};
use super::worker::Worker;
use crate::durability::deletions::deletion_bytes;
use crate::durability::job::Job;
use crate::durability::retention::bytes_before;

impl Worker {
    /// Slows down writes on a disk that is nearly full while a checkpoint or a flush runs, or
    /// removed files still hold space: so that space is freed in time.
    pub(super) fn spare_the_disk(&mut self, bytes: u64) {
        let now = self.now();
        self.leave_free_for_deletions();
        let comes_back = self.checkpoints.running.is_some() || self.disk.removed_bytes() > 0;
        self.disk_room.appended(bytes, comes_back, now);
    }

    /// Keeps the space for deletions from being used up by other writes of the memory engine. A
    /// checkpoint being written frees its own space, or the log's.
    fn leave_free_for_deletions(&mut self) {
        let now = self.now();
        let available_bytes = self.disk_room.measure(self.disk.as_ref(), now);
        if self.checkpoints.store != StoreKind::Memory || self.checkpoints.running.is_some() {
            return;
        }
        let stored_bytes = self.shared.stored.total();
        let left_bytes = self.shared.room.left_bytes(available_bytes);
        let needed_bytes = match left_bytes < stored_bytes {
            true => self.needed_by_deletions(stored_bytes),
            false => Some(0),
        };
        if let Some(needed_bytes) = needed_bytes {
            self.shared.room.leave_free_for_deletions(left_bytes, needed_bytes);
        }
    }

    /// Estimates the bytes that deleting all rows may write, at most `stored_bytes`. `None` while
    /// the lock is held.
    fn needed_by_deletions(&mut self, stored_bytes: u64) -> Option<u64> {
        if let Some(estimate) = self.disk_room.deletions_of(stored_bytes) {
            return Some(estimate);
        }
        let partition = self.shared.partition.borrow_within(TURN_TIMEOUT)?;
        let estimate = deletion_bytes(&partition.store, stored_bytes).ok()?;
        drop(partition);
        self.disk_room.estimated(stored_bytes, estimate);
        Some(estimate)
    }

    pub(super) fn tell_if_full(&mut self) {
        self.leave_free_for_deletions();
        let room = &self.shared.room;
        let is_full = room.leaves_free() || room.is_short() && self.next_segment.has_failed();
        if is_full && !self.disk_room.is_full {
            tracing::error!(
                "the disk is full: reads and deletions go on, other writes are refused until there is room"
            );
        }
        if !is_full && self.disk_room.is_full {
            tracing::info!("the disk has room again: writes go on");
            // Never while a checkpoint is being written: its file would be emptied.
            if self.checkpoints.running.is_none() {
                self.shared.partition.borrow().store.tidy();
            }
        }
        self.disk_room.is_full = is_full;
        self.disk_room.was_full |= is_full;
    }

    /// Returns the disk's free bytes that readers may use, or none if other parts lack room.
    pub(super) fn available_for_readers(&self) -> u64 {
        let available_bytes = self.disk.available_bytes().unwrap_or(0);
        let checkpoint_failed = self.shared.statistics.checkpoint_failed.load(Ordering::Relaxed);
        let checkpoint_needs_it = checkpoint_failed && self.shared.stored.total() > available_bytes;
        match self.next_segment.has_failed() || self.shared.room.has_failed() || checkpoint_needs_it {
            true => 0,
            false => available_bytes,
        }
    }

    pub(super) fn finish_segment(&mut self) -> Result<(), LogError> {
        let now = self.now();
        if self.next_segment.is_finished() {
            self.disk_room.changed();
        }
        self.next_segment.finish(now)
    }

    /// Creates the next segment while the current segment is written.
    pub(super) fn prepare_segment(&mut self) {
        let now = self.now();
        if self.shared.room.is_prepared() || !self.next_segment.may_start(now) {
            return;
        }
        let reserve = self.shared.room.reserve();
        let job = Job::start(self.shared.runtime.as_ref(), "next-segment", move || reserve.prepare());
        self.next_segment.started(job.ok(), now);
    }

    /// Trims the log after the store has reached the position.
    pub(super) fn trim(&mut self, position: Position) -> Result<(), LogError> {
        self.trimming.needed = needed_behind(position, self.sharing.is_some());
        self.trim_log()
    }

    /// Trims the log after readers have advanced, or retained records have aged.
    pub(super) fn trim_if_due(&mut self) -> Result<(), LogError> {
        let now = self.now();
        self.trimming.retention.note(now, self.end.tail.next());
        match self.trimming.is_due(now) {
            true => self.trim_log(),
            false => Ok(()),
        }
    }

    fn trim_log(&mut self) -> Result<(), LogError> {
        let now = self.now();
        self.trimming.last = now;
        let readers = &self.shared.log_readers;
        let available_bytes = self.available_for_readers();
        let parts = self.log.parts();
        let oldest = readers.held();
        let floor = self
            .trimming
            .retention
            .floor(now, self.trimming.needed, oldest, &parts, available_bytes);
        if floor > self.trimming.below {
            let lost = readers.give_up_below(floor);
            self.shared
                .statistics
                .log_readers_lost
                .fetch_add(lost, Ordering::Relaxed);
            match self.log.trim_below(floor) {
                Ok(()) => self.trimming.below = floor,
                Err(LogError::NoRoom { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let retained = bytes_before(&self.log.parts(), self.trimming.needed);
        let statistics = &self.shared.statistics;
        statistics.log_readers.store(readers.count() as u64, Ordering::Relaxed);
        statistics.log_retained_bytes.store(retained, Ordering::Relaxed);
        statistics.log_bytes.store(self.log.bytes(), Ordering::Relaxed);
        statistics
            .removed_bytes
            .store(self.disk.removed_bytes(), Ordering::Relaxed);
        Ok(())
    }
}
