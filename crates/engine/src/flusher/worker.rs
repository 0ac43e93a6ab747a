//! The flusher's work of one partition, and its steps.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quartet_env::Disk;
use quartet_log::{Log, LogError};
use quartet_model::Version;
use quartet_store::{Flush, PartitionStore, Position, Store, StoreKind, StoreOptions};

use super::checkpoints::Checkpoints;
use super::control::{Control, LOCK_TIMEOUT, OnFailure, TURN_TIMEOUT};
use super::disk_room::DiskRoom;
use super::log_end::{LogEnd, RefusedEpoch};
use super::segments::NextSegment;
use super::shared_log::Sharing;
use super::trimming::Trimming;
use crate::options::{EngineOptions, OpenError};
use crate::partition::shared::Shared;
use crate::recovery::replay::Replayer;

/// The flusher's work of one partition.
pub(super) struct Worker {
    pub shared: Arc<Shared>,
    pub log: Box<dyn Log>,
    pub disk: Arc<dyn Disk>,
    pub options: EngineOptions,
    pub control: Arc<Control>,
    pub end: LogEnd,
    /// The buffer of the last written epoch, for the next one.
    pub spare: Vec<u8>,
    pub refused: RefusedEpoch,
    pub next_segment: NextSegment,
    pub disk_room: DiskRoom,
    pub checkpoints: Checkpoints,
    pub trimming: Trimming,
    /// `None` if the log is this node's own.
    pub sharing: Option<Sharing>,
    /// Called once after the log has failed; `None` afterwards.
    pub failure: Option<OnFailure>,
}

impl Worker {
    /// Does a step, unless the log has failed before. A panic, of a listener for example, stops
    /// acknowledgements like a failed disk.
    pub(super) fn attempt<T>(&mut self, step: impl FnOnce(&mut Worker) -> Result<T, LogError>) -> Result<T, LogError> {
        if self.failure.is_none() {
            return Err(LogError::Failed);
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step(self)));
        let outcome = done.unwrap_or(Err(LogError::Failed));
        if let Err(error) = &outcome
            && let Some(failure) = self.failure.take()
        {
            self.shared.partition.fail();
            if matches!(error, LogError::TailMoved { .. }) {
                self.step_down();
            }
            failure(error);
        }
        outcome
    }

    /// Steps down because another writer has appended to this node's own log. Only the last
    /// confirmed record may still be shown.
    fn step_down(&mut self) {
        self.shared.partition.borrow().is_home = false;
        // The checkpoint's result in the store's files is what is opened next.
        let _ = self.checkpoints.running.take().map(|running| running.job.join());
        match self.confirmed_state() {
            Ok(Replayer { store, version, .. }) => {
                self.shared.partition.borrow().roll_back_to(store, version);
                tracing::warn!(
                    version = version.0,
                    "another is home: this one is back at what the log has confirmed"
                );
            }
            Err(error) => tracing::error!(%error, "another is home, and what the log has confirmed cannot be read"),
        }
    }

    /// The state at the newest record that is known to be durable: from the store's files and the
    /// log, as when opening, because a root kept for each epoch would make every write copy its way
    /// through the tree.
    pub(super) fn confirmed_state(&self) -> Result<Replayer, OpenError> {
        let store_options = StoreOptions {
            kind: Some(self.checkpoints.store),
            cache_bytes: self.options.cache_bytes,
            reserved_bytes: self.options.kept_bytes,
            checkpoint_given_up: self.shared.checkpoint_given_up.clone(),
        };
        let opened = PartitionStore::open(self.disk.clone(), &store_options, &mut |_| {})?;
        let mut replayer = Replayer::new(opened.store);
        let from = replayer.store.applied().sequence.next();
        let mut cursor = self.log.source().cursor(from);
        while let Some(record) = cursor.next(self.end.durable).map_err(OpenError::Log)? {
            let applied = replayer.record(record.payload);
            applied.map_err(|cause| replayer.error(LogError::Damaged(cause)))?;
        }
        Ok(replayer)
    }

    /// Returns true if there may be more to do.
    pub(super) fn turn(&mut self, stopping: bool) -> Result<bool, LogError> {
        let timeout = (!stopping).then_some(LOCK_TIMEOUT);
        let more = self.flush_epoch(timeout)?;
        self.tend()?;
        Ok(more)
    }

    pub(super) fn flush_up_to(&mut self, version: Version) -> Result<(), LogError> {
        while self.shared.durable() < version && self.flush_epoch(Some(TURN_TIMEOUT))? {}
        if self.shared.durable() < version {
            self.sync()?;
        }
        // The flusher's thread rests as long as other threads flush, so nothing else would notice
        // that a checkpoint is done.
        self.tend()
    }

    /// Does the maintenance besides appending.
    pub(super) fn tend(&mut self) -> Result<(), LogError> {
        self.finish_checkpoint()?;
        self.finish_segment()?;
        self.trim_if_due()?;
        self.prepare_segment();
        self.tell_if_full();
        self.shared.let_in();
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), LogError> {
        if let Some(epoch) = self.refused.epoch.take() {
            self.append(&epoch)?;
        }
        self.sync()?;
        if self.sharing.is_some() {
            // `sync` does not know its records, and the store's files must not be ahead of them.
            self.log.sync()?;
        }
        self.flush_store_at_end()?;
        self.log.close()
    }

    /// A store that opens without reading its rows would have to read the log's instead.
    fn flush_store_at_end(&mut self) -> Result<(), LogError> {
        if self.checkpoints.store != StoreKind::Ssd || !self.is_at_its_log() {
            return Ok(());
        }
        if let Some(running) = self.checkpoints.running.take() {
            let shared = self.shared.clone();
            self.end_checkpoint(running, shared.partition.borrow())?;
        }
        if self.checkpoints.log_bytes == 0 {
            return Ok(());
        }
        let mut partition = self.shared.partition.borrow();
        let (flush, version) = (partition.store.begin_flush(), partition.last_version());
        drop(partition);
        let position = Position {
            sequence: self.end.tail,
            version,
        };
        match flush.run(position) {
            Ok(flushed) => {
                drop(self.shared.partition.borrow().store.end_flush(Some(flushed)));
                self.trim(position)
            }
            Err(error) => {
                tracing::warn!(%error, "the store could not be flushed: the next start reads more of the log");
                Ok(())
            }
        }
    }

    /// Returns true if no work in progress needs attention soon.
    pub(super) fn is_idle(&self) -> bool {
        self.end.is_settled()
            && self.refused.epoch.is_none()
            && self.checkpoints.running.is_none()
            && self.next_segment.job.is_none()
            && !self.next_segment.has_failed()
            && !self.disk_room.is_full
            && !self.shared.room.is_short()
            && !self.shared.pressure.is_waited_for.load(Ordering::Relaxed)
    }

    pub(super) fn now(&self) -> Duration {
        self.shared.runtime.now()
    }
}
