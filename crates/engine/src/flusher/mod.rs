//! Appending committed transactions to the log, and the store's flushes.
//!
//! The flusher takes the gathered epoch, appends it, makes it durable when replies wait for that,
//! and publishes the durable version; meanwhile the next epoch gathers. It also starts checkpoints
//! at an epoch's edge, trims the log up to them, and frees cleared rows. It has a thread; a thread
//! that would otherwise only wait may run its next turn instead, and saves two context switches.
//!
//! It also has the log's next segment made ahead of need, on a thread that may wait for the disk.
//!
//! A failed append or sync is never retried: acknowledgements stop, and the failure callback is
//! called once. A disk that is full although room was reserved is no failure: the epoch is kept,
//! and nothing is promised until it is in the log.

mod checkpoints;
mod control;
mod disk_room;
mod epochs;
mod flushing;
mod log_end;
mod segments;
mod service;
mod shared_log;
mod sharing;
mod space;
mod trimming;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use quartet_env::{Disk, Task};
use quartet_log::{Log, LogError};
use quartet_log_replicated::{Moment, ObjectOptions, Place, Position as LogPlace, RecordHash, Term, Writer};
use quartet_model::Version;
use quartet_store::Position;

use crate::durability::retention::{Retention, bytes_before};
use crate::flusher::checkpoints::Checkpoints;
use crate::flusher::control::{Control, OnFailure, TURN_TIMEOUT, needed_behind};
use crate::flusher::disk_room::DiskRoom;
use crate::flusher::log_end::{LogEnd, RefusedEpoch};
use crate::flusher::segments::NextSegment;
use crate::flusher::service::Service;
use crate::flusher::shared_log::Sharing;
use crate::flusher::trimming::Trimming;
use crate::flusher::worker::Worker;
use crate::options::EngineOptions;
use crate::partition::shared::Shared;
use crate::replication::chores::Chores;
use crate::replication::place::Places;
use crate::replication::replica::Replica;
use crate::replication::{MakeSequencer, Replicated, Waker};
use crate::standing::{Role, Standing};

/// Polling interval of a wait for a checkpoint.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(1);

/// A checkpoint could not be written. The log still holds everything.
#[derive(Debug, thiserror::Error)]
#[error("checkpoint failed: {0}")]
pub struct CheckpointError(String);

pub(crate) struct Flusher {
    shared: Arc<Shared>,
    control: Arc<Control>,
    worker: Arc<Mutex<Worker>>,
    /// True if only the flusher may run its turn, because it may have to wait for other nodes.
    is_shared: bool,
    /// `None` after the request to stop.
    task: Option<Arc<dyn Task>>,
}

impl Flusher {
    pub fn start(shared: Arc<Shared>, opened: Opened, options: EngineOptions, failure: OnFailure) -> Flusher {
        let Opened {
            log,
            disk,
            position: opened_at,
            checkpoint_bytes,
            shares,
        } = opened;
        let control = Arc::new(Control::default());
        let is_shared = shares.is_some();
        let (tail, needed) = (log.tail(), needed_behind(opened_at, is_shared));
        // Log that is kept for readers is in the checkpoint already.
        let log_bytes_since_checkpoint = log.bytes().saturating_sub(bytes_before(&log.parts(), needed));
        let now = shared.runtime.now();
        let store = shared.partition.look().store.kind();
        let retention = Retention::new(options.log_retention_bytes, options.log_retention, now, tail);
        let worker = Worker {
            shared: shared.clone(),
            log,
            disk,
            options,
            control: control.clone(),
            end: LogEnd::new(tail, now),
            spare: Vec::new(),
            refused: RefusedEpoch::none(now),
            next_segment: NextSegment::default(),
            disk_room: DiskRoom::new(now),
            checkpoints: Checkpoints::new(store, checkpoint_bytes, log_bytes_since_checkpoint, now),
            trimming: Trimming::new(retention, needed, now),
            sharing: shares.map(|shares| shares.begin(&shared)),
            failure: Some(failure),
        };
        let worker = Arc::new(Mutex::new(worker));
        let mut service = Service {
            shared: shared.clone(),
            worker: worker.clone(),
            control: control.clone(),
            rests: false,
            idle_turns: 0,
            is_shared,
        };
        let task = shared
            .runtime
            .start("flusher", Box::new(move || service.step()))
            .expect("a thread for the flusher");
        shared.flusher.is(task.clone());
        Flusher {
            shared,
            control,
            worker,
            is_shared,
            task: Some(task),
        }
    }

    /// Makes everything up to `version` durable on the calling thread. Returns false if the log is
    /// in use, or has failed.
    pub fn flush_here(&self, version: Version) -> bool {
        if self.is_shared {
            return false;
        }
        // The flusher's thread often is at the end of a turn that found nothing.
        let Some(mut worker) = self.worker.try_lock_for(TURN_TIMEOUT) else {
            return false;
        };
        self.control.flushed_elsewhere.store(true, Ordering::Relaxed);
        let flushed = worker.attempt(|worker| worker.flush_up_to(version));
        flushed.is_ok_and(|()| worker.shared.durable() >= version)
    }

    pub fn request_checkpoint(&self) {
        self.control.checkpoint_wanted.store(true, Ordering::SeqCst);
        self.shared.flusher.wake();
    }

    /// Waits for a checkpoint that was started after this call.
    pub fn checkpoint(&self) -> Result<(), CheckpointError> {
        // A checkpoint that starts in between would satisfy this wait, and leave the request to
        // start another.
        let goal = {
            let state = self.control.checkpoint.lock();
            self.control.checkpoint_wanted.store(true, Ordering::SeqCst);
            state.started + 1
        };
        self.shared.flusher.wake();
        loop {
            let state = self.control.checkpoint.lock();
            if state.finished >= goal {
                let failure = state.failure.clone();
                return failure.map_or(Ok(()), |reason| Err(CheckpointError(reason)));
            }
            drop(state);
            if self.task.as_ref().is_none_or(|task| task.is_finished()) {
                return Err(CheckpointError("the log has failed".into()));
            }
            self.shared.runtime.pause(CHECKPOINT_INTERVAL);
        }
    }

    pub fn stop(&mut self) -> Result<(), LogError> {
        let Some(task) = self.task.take() else {
            return Ok(());
        };
        self.control.stop.store(true, Ordering::SeqCst);
        self.shared.flusher.wake();
        task.join();
        self.control.outcome.lock().take().unwrap_or(Err(LogError::Failed))
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // A caller that cares about the outcome has called `stop` itself.
        let _ = self.stop();
    }
}

/// A partition's files, opened.
pub(crate) struct Opened {
    pub log: Box<dyn Log>,
    pub disk: Arc<dyn Disk>,
    /// The end of the store's files.
    pub position: Position,
    pub checkpoint_bytes: u64,
    /// `None` if the log is this node's own.
    pub shares: Option<Shares>,
}

/// The needs of a node that shares its log.
pub(crate) struct Shares {
    pub place: Place,
    pub me: Writer,
    pub nodes: usize,
    pub budget_bytes: u64,
    pub objects: Option<ObjectOptions>,
    pub sequencer: MakeSequencer,
    pub standing: Arc<Standing>,
    /// The end of its own file log.
    pub written: LogPlace,
    /// The hash of the last record there.
    pub chained: RecordHash,
}

impl Shares {
    pub fn of(replicated: Replicated, places: &Places) -> Shares {
        let written = places.position(&replicated.place);
        let has_home = written.term != Term::ZERO;
        let role = Role::Following {
            term: written.term,
            home: has_home.then_some(written.writer),
        };
        Shares {
            place: replicated.place,
            me: replicated.me,
            nodes: replicated.nodes,
            budget_bytes: replicated.budget_bytes,
            objects: replicated.objects,
            sequencer: replicated.sequencer,
            standing: Arc::new(Standing::new(role, replicated.on_role)),
            written,
            chained: places.last,
        }
    }

    fn begin(self, shared: &Arc<Shared>) -> Sharing {
        let woken = shared.clone();
        let waker: Waker = Arc::new(move || woken.flusher.wake());
        let sequencer = (self.sequencer)(waker);
        let chores = Chores::new(self.me.node, self.nodes, self.budget_bytes, self.objects);
        let now = Moment(shared.runtime.now());
        let standing = self.standing.clone();
        let replica = Replica::new(self.place, self.me, chores, sequencer, standing, self.written, now);
        Sharing::new(replica, self.standing, self.written, self.chained)
    }
}
