//! Taking what was committed to the log.
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

mod shared_log;
mod sharing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quartet_env::{Disk, Next, Task};
use quartet_log::{Log, LogError};
use quartet_log_replicated::{Moment, ObjectOptions, Place, Position as LogPlace, RecordHash, Term, Writer};
use quartet_model::{LogSequence, Payload, Version};

use quartet_store::{
    Flush, Flushed, PartitionFlush, PartitionFlushed, PartitionStore, Position, Store, StoreError, StoreKind,
    StoreOptions,
};

use crate::durability::backlog::Backlog;
use crate::durability::epochs::Epoch;
use crate::durability::job::Job;
use crate::durability::retention::{Retention, bytes_before};
use crate::flusher::shared_log::Sharing;
use crate::partition::raw::Guard;
use crate::partition::shared::Shared;
use crate::partition::state::PartitionState;
use crate::recovery::replay::Replayer;
use crate::replication::chores::Chores;
use crate::replication::place::Places;
use crate::replication::replica::Replica;
use crate::replication::{MakeSequencer, Replicated, Waker};
use crate::standing::{Role, Standing};
use crate::{EngineOptions, OpenError};

/// Time for which effects without waiting replies may gather before they are written to the log.
const GATHER: Duration = Duration::from_millis(10);
/// The flusher's rest after this number of turns without work. The first effects end the rest.
const IDLE_REST: Duration = Duration::from_secs(1);
const IDLE_TURNS: u32 = 100;
/// Interval at which effects without waiting replies are synced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which a stopping server checks whether its last commits are confirmed.
const STOP_LOOK: Duration = Duration::from_millis(1);
/// Time for which the flusher's thread waits for the lock before it checks for unsynced records.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);
/// Time for which a thread that flushes itself waits for the end of the flusher's turn, and then
/// for the lock.
const TURN_TIMEOUT: Duration = Duration::from_millis(2);
/// Delay before an epoch without room is retried: it doubles each time.
const KEPT_RETRY_MIN: Duration = Duration::from_millis(5);
const KEPT_RETRY_MAX: Duration = Duration::from_millis(500);
/// Interval at which room for the next segment is sought while there is none.
const PREPARE_RETRY: Duration = Duration::from_secs(1);
/// Minimum delay before the next automatic checkpoint after a failed one or one forced by a full
/// disk.
const CHECKPOINT_RETRY: Duration = Duration::from_secs(30);
/// Polling interval of a wait for a checkpoint.
const CHECKPOINT_LOOK: Duration = Duration::from_millis(1);
/// Upper bound on the time between two flushes of a store on disk, however little has changed: a
/// flush gives back the space of deleted rows, and the next start reads little of the log.
const FLUSH_INTERVAL: Duration = Duration::from_secs(60);
/// Upper bound on the log during a flush, as a multiple of `flush_log_bytes`; above half of it
/// writers are slowed down.
const UNFLUSHED_MAX: u64 = 4;
/// Interval of checks of the log that is kept for readers.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of checks of the disk's free space.
const DISK_LOOK: Duration = Duration::from_millis(100);
/// Below this free space the log takes only as much per second as makes the space last for some
/// time, but never less than this many bytes a second, and it never stops for longer than this.
const NEARLY_FULL_BYTES: u64 = 512 << 20;
const DISK_LASTS_SECONDS: u64 = 10;
const NEARLY_FULL_RATE_MIN: u64 = 1 << 20;
const NEARLY_FULL_PAUSE_MAX: Duration = Duration::from_millis(400);
/// A larger buffer is given back after its epoch is written.
const SPARE_BYTES_MAX: usize = 16 << 20;

/// A checkpoint could not be written. The log still holds everything.
#[derive(Debug, thiserror::Error)]
#[error("checkpoint failed: {0}")]
pub struct CheckpointError(String);

/// Called with the log's failure, on the thread that detected it.
pub(crate) type OnFailure = Box<dyn Fn(&LogError) + Send>;

pub(crate) struct Flusher {
    shared: Arc<Shared>,
    control: Arc<Control>,
    worker: Arc<Mutex<Worker>>,
    /// True if only the flusher may run its turn, because it may have to wait for other nodes.
    is_shared: bool,
    /// `None` after the request to stop.
    task: Option<Arc<dyn Task>>,
}

#[derive(Default)]
struct Control {
    stop: AtomicBool,
    /// A thread that is not the flusher's has flushed.
    flushed_elsewhere: AtomicBool,
    checkpoint_wanted: AtomicBool,
    checkpoint: Mutex<CheckpointState>,
    /// How the flusher's work ended.
    outcome: Mutex<Option<Result<(), LogError>>>,
}

#[derive(Default)]
struct CheckpointState {
    started: u64,
    finished: u64,
    failure: Option<String>,
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
        let (retention_bytes, retention_time) = (options.log_retention_bytes, options.log_retention);
        let worker = Worker {
            shared: shared.clone(),
            log,
            disk,
            options,
            control: control.clone(),
            tail,
            durable: tail,
            unsynced: VecDeque::new(),
            marked: true,
            last_sync: now,
            spare: Vec::new(),
            kept: None,
            kept_not_before: now,
            kept_pause: KEPT_RETRY_MIN,
            preparing: None,
            preparing_failed: None,
            was_full: false,
            store,
            checkpoint: None,
            last_flush: now,
            checkpoint_bytes,
            log_bytes_in_checkpoint: 0,
            checkpoint_not_before: now,
            log_bytes_since_checkpoint,
            backlog: Backlog::default(),
            unflushed_at_flush: 0,
            disk_available: u64::MAX,
            disk_looked: now,
            disk_not_before: now,
            retention: Retention::new(retention_bytes, retention_time, now, tail),
            needed,
            trimmed_below: LogSequence::ZERO,
            last_trim: now,
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
            self.shared.runtime.pause(CHECKPOINT_LOOK);
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

/// The first record that a store at `position` needs. A node that shares its log keeps the record
/// at that position, which has its position in the shared log.
fn needed_behind(position: Position, is_shared: bool) -> LogSequence {
    if is_shared {
        return position.sequence;
    }
    position.sequence.next()
}

struct Worker {
    shared: Arc<Shared>,
    log: Box<dyn Log>,
    disk: Arc<dyn Disk>,
    options: EngineOptions,
    control: Arc<Control>,
    /// The log's end as far as this home knows. An append names it; if the log ends at another
    /// record, another node is home.
    tail: LogSequence,
    /// The sequence up to which the log has reported records as durable.
    durable: LogSequence,
    /// Records that may not be durable yet, oldest first, each with the newest version in it and
    /// before it.
    unsynced: VecDeque<(LogSequence, Version)>,
    /// The log says how far it is durable.
    marked: bool,
    last_sync: Duration,
    spare: Vec<u8>,
    /// An epoch that the full disk did not take: before any other, and before anything is promised.
    kept: Option<Epoch>,
    kept_not_before: Duration,
    kept_pause: Duration,
    preparing: Option<Job<Result<(), LogError>>>,
    /// The time at which there was no room for the next segment.
    preparing_failed: Option<Duration>,
    /// The state that was last reported to the operator.
    was_full: bool,
    store: StoreKind,
    checkpoint: Option<RunningCheckpoint>,
    /// Start of the last flush.
    last_flush: Duration,
    checkpoint_bytes: u64,
    /// Bytes of the log that the running checkpoint covers, should it fail.
    log_bytes_in_checkpoint: u64,
    checkpoint_not_before: Duration,
    /// Bytes appended since the last checkpoint, not the log's size: its newest segment is never
    /// trimmed, and a large segment would trigger checkpoints indefinitely.
    log_bytes_since_checkpoint: u64,
    backlog: Backlog,
    /// Bytes in memory that were not in the store's files at the start of the running flush.
    unflushed_at_flush: u64,
    /// The disk's free bytes when they were last looked at.
    disk_available: u64,
    disk_looked: Duration,
    /// The disk is nearly full: time before which the next epoch is not taken.
    disk_not_before: Duration,
    retention: Retention,
    /// The first log record that the store needs.
    needed: LogSequence,
    trimmed_below: LogSequence,
    last_trim: Duration,
    /// `None` if the log is this node's own.
    sharing: Option<Sharing>,
    /// Called once after the log has failed; `None` afterwards.
    failure: Option<OnFailure>,
}

/// A flush of the store that runs on a thread of its own.
struct RunningCheckpoint {
    position: Position,
    job: Job<Result<PartitionFlushed, StoreError>>,
}

/// The flusher's work, step by step.
struct Service {
    shared: Arc<Shared>,
    worker: Arc<Mutex<Worker>>,
    control: Arc<Control>,
    /// The step before found nothing to do.
    rests: bool,
    /// Consecutive turns without work.
    idle_turns: u32,
    is_shared: bool,
}

impl Service {
    fn step(&mut self) -> Next {
        match self.turn() {
            Ok(Some(next)) => next,
            Ok(None) => self.end(Ok(())),
            Err(error) => self.end(Err(error)),
        }
    }

    /// None when it has stopped.
    fn turn(&mut self) -> Result<Option<Next>, LogError> {
        if self.is_shared {
            return self.turn_sharing();
        }
        if std::mem::take(&mut self.rests) {
            // The gathered epoch is due, but not while others flush.
            let others_flush = self.control.flushed_elsewhere.swap(false, Ordering::Relaxed);
            if others_flush && !self.shared.flusher.is_woken() {
                self.idle_turns = 0;
                return Ok(Some(self.rest()));
            }
            self.worker.lock().attempt(Worker::mark_if_idle)?;
        }
        self.shared.flusher.begin_turn();
        let stopping = self.control.stop.load(Ordering::SeqCst);
        let more = self.worker.lock().attempt(|worker| worker.turn(stopping))?;
        match (more, stopping) {
            (true, _) => Ok(Some(Next::Again)),
            (false, false) => Ok(Some(self.rest_or_idle())),
            (false, true) => self.worker.lock().attempt(Worker::finish).map(|()| None),
        }
    }

    /// The same for a node that shares its log: events wake it.
    fn turn_sharing(&mut self) -> Result<Option<Next>, LogError> {
        self.shared.flusher.begin_turn();
        let stopping = self.control.stop.load(Ordering::SeqCst);
        let mut worker = self.worker.lock();
        let waits = worker.attempt(|worker| worker.sharing_turn(stopping))?;
        match (stopping, waits) {
            (true, false) => worker.attempt(Worker::finish).map(|()| None),
            (true, true) => Ok(Some(Next::Rest(STOP_LOOK))),
            (false, _) => Ok(Some(Next::Rest(GATHER))),
        }
    }

    fn rest(&mut self) -> Next {
        self.rests = true;
        Next::Rest(GATHER)
    }

    /// An unused partition causes no hundred wake-ups a second.
    fn rest_or_idle(&mut self) -> Next {
        self.idle_turns = match self.worker.lock().is_idle() {
            true => self.idle_turns.saturating_add(1),
            false => 0,
        };
        if self.idle_turns < IDLE_TURNS || !self.shared.wakes_flusher_at_once() {
            return self.rest();
        }
        self.rests = true;
        Next::Rest(IDLE_REST)
    }

    fn end(&mut self, outcome: Result<(), LogError>) -> Next {
        let (checkpoint, preparing) = {
            let mut worker = self.worker.lock();
            (worker.checkpoint.take(), worker.preparing.take())
        };
        let _ = checkpoint.map(|running| running.job.join());
        let _ = preparing.map(Job::join);
        *self.control.outcome.lock() = Some(outcome);
        Next::Done
    }
}

impl Worker {
    /// Does a step, unless the log has failed before. A panic, of a listener for example, stops
    /// acknowledgements like a failed disk.
    fn attempt<T>(&mut self, step: impl FnOnce(&mut Worker) -> Result<T, LogError>) -> Result<T, LogError> {
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
        let _ = self.checkpoint.take().map(|running| running.job.join());
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
    fn confirmed_state(&self) -> Result<Replayer, OpenError> {
        let store_options = StoreOptions {
            kind: Some(self.store),
            cache_bytes: self.options.cache_bytes,
            reserved_bytes: self.options.kept_bytes,
            checkpoint_given_up: self.shared.checkpoint_given_up.clone(),
        };
        let opened = PartitionStore::open(self.disk.clone(), &store_options, &mut |_| {})?;
        let mut replayer = Replayer::new(opened.store);
        let from = replayer.store.applied().sequence.next();
        let mut cursor = self.log.source().cursor(from);
        while let Some(record) = cursor.next(self.durable).map_err(OpenError::Log)? {
            let applied = replayer.record(record.payload);
            applied.map_err(|cause| replayer.error(LogError::Damaged(cause)))?;
        }
        Ok(replayer)
    }

    /// Returns true if there may be more to do.
    fn turn(&mut self, stopping: bool) -> Result<bool, LogError> {
        let timeout = (!stopping).then_some(LOCK_TIMEOUT);
        let more = self.flush_epoch(timeout)?;
        self.tend()?;
        Ok(more)
    }

    fn flush_up_to(&mut self, version: Version) -> Result<(), LogError> {
        while self.shared.durable() < version && self.flush_epoch(Some(TURN_TIMEOUT))? {}
        if self.shared.durable() < version {
            self.sync()?;
        }
        // The flusher's thread rests as long as other threads flush, so nothing else would notice
        // that a checkpoint is done.
        self.tend()
    }

    /// Does the maintenance besides appending.
    fn tend(&mut self) -> Result<(), LogError> {
        self.finish_checkpoint()?;
        self.finish_preparing()?;
        self.trim_if_due()?;
        self.prepare_if_needed();
        self.tell_if_full();
        self.shared.let_in();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), LogError> {
        if let Some(epoch) = self.kept.take() {
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
        if self.store != StoreKind::Ssd || !self.is_at_its_log() {
            return Ok(());
        }
        if let Some(running) = self.checkpoint.take() {
            let shared = self.shared.clone();
            self.end_checkpoint(running, shared.partition.borrow())?;
        }
        if self.log_bytes_since_checkpoint == 0 {
            return Ok(());
        }
        let mut partition = self.shared.partition.borrow();
        let (flush, version) = (partition.store.begin_flush(), partition.last_version());
        drop(partition);
        let position = Position {
            sequence: self.tail,
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

    /// Takes one epoch to the log, if any waits. False if there is nothing more to do, or if the
    /// lock was not free within `timeout`; with `None` the server stops, and it is waited for.
    fn flush_epoch(&mut self, timeout: Option<Duration>) -> Result<bool, LogError> {
        if !self.write_kept()? {
            return Ok(false);
        }
        let is_ending = timeout.is_none() || self.shared.pressure.is_ending();
        let is_held = !is_ending && (self.store_is_behind() || self.now() < self.disk_not_before);
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
        Ok(self.kept.is_none())
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
            self.unflushed_at_flush = partition.store.unflushed_bytes();
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
        if self.kept.is_some() {
            if flush.is_some() {
                self.give_up_checkpoint("the disk is full".into());
            }
            return Ok(false);
        }
        self.sync_if_wanted(needs_sync || stopping || flush.is_some())?;
        if let Some(flush) = flush {
            let sequence = self.tail;
            self.start_checkpoint(flush, Position { sequence, version });
        }
        Ok(wrote)
    }

    /// Writes the epochs to the log, oldest first. Returns true if there were any; once one is
    /// kept, the others wait in the queue.
    fn write_all(&mut self, mut epochs: VecDeque<Epoch>) -> Result<bool, LogError> {
        let mut wrote = false;
        while self.kept.is_none()
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
    /// is kept.
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
                self.keep(epoch, &error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn keep(&mut self, epoch: Epoch, error: &LogError) {
        if !self.shared.room.is_stuck() {
            tracing::error!(%error, "the disk took less than it had reserved: writes wait until there is room");
            self.kept_pause = KEPT_RETRY_MIN;
        }
        self.shared.room.set_stuck();
        self.shared.partition.release();
        self.kept_not_before = self.now() + self.kept_pause;
        self.kept_pause = (self.kept_pause * 2).min(KEPT_RETRY_MAX);
        self.kept = Some(epoch);
    }

    /// Writes the kept epoch. Returns true if no epoch is left.
    fn write_kept(&mut self) -> Result<bool, LogError> {
        if self.kept.is_none() {
            return Ok(true);
        }
        if self.now() < self.kept_not_before {
            return Ok(false);
        }
        let Some(epoch) = self.kept.take() else { return Ok(true) };
        let wrote = self.write(epoch)?;
        if wrote {
            self.sync()?;
        }
        Ok(wrote)
    }

    fn append(&mut self, epoch: &Epoch) -> Result<(), LogError> {
        let bytes = epoch.payload.len();
        let shared = self.shared.clone();
        let appending = shared.room.appending();
        self.tail = self.log.append(self.tail, &epoch.payload.parts())?;
        shared.room.appended(bytes);
        drop(appending);
        let statistics = &shared.statistics;
        statistics.epochs.fetch_add(1, Ordering::Relaxed);
        statistics.epoch_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.unsynced.push_back((self.tail, epoch.version));
        self.marked = false;
        self.log_bytes_since_checkpoint += bytes as u64;
        self.spare_the_disk(bytes as u64);
        if self.is_flushing_rows() {
            self.backlog.appended(self.now(), self.gathered_share());
        }
        Ok(())
    }

    fn sync_if_wanted(&mut self, wanted: bool) -> Result<(), LogError> {
        let waited_for = self.shared.waited_for.load(Ordering::SeqCst);
        if wanted || waited_for || self.now() - self.last_sync >= SYNC_INTERVAL {
            self.sync()?;
        }
        Ok(())
    }

    /// Publishes as durable exactly the records that the log reports as durable.
    fn sync(&mut self) -> Result<(), LogError> {
        if !self.unsynced.is_empty() {
            let began = self.now();
            let durable = self.log.sync()?;
            let took = self.now() - began;
            self.durable = durable;
            self.shared.log_readers.publish_durable(durable);
            let statistics = &self.shared.statistics;
            statistics.syncs.fetch_add(1, Ordering::Relaxed);
            statistics.sync_micros.store(took.as_micros() as u64, Ordering::Relaxed);
            let mut version = None;
            while let Some(record) = self.unsynced.pop_front_if(|(sequence, _)| *sequence <= durable) {
                version = Some(record.1);
            }
            if let Some(version) = version {
                self.shared.publish_durable(version);
            }
        }
        self.last_sync = self.now();
        Ok(())
    }

    /// Makes an idle log record how far it is durable; after each sync would be too often, since
    /// the next epoch records it for the previous one as well.
    fn mark_if_idle(&mut self) -> Result<(), LogError> {
        let is_idle = !self.shared.flusher.is_woken() && self.now() - self.last_sync >= GATHER;
        if is_idle && self.unsynced.is_empty() && !self.marked {
            self.log.mark_durable()?;
            self.marked = true;
        }
        Ok(())
    }

    /// Returns true if no work in progress needs attention soon.
    fn is_idle(&self) -> bool {
        self.unsynced.is_empty()
            && self.marked
            && self.kept.is_none()
            && self.checkpoint.is_none()
            && self.preparing.is_none()
            && self.preparing_failed.is_none()
            && !self.was_full
            && !self.shared.room.is_short()
            && !self.shared.pressure.is_waited_for.load(Ordering::Relaxed)
    }

    fn now(&self) -> Duration {
        self.shared.runtime.now()
    }

    /// Slows down writes on a disk that is nearly full while a checkpoint or a flush runs, or
    /// removed files still hold space: so that space is freed in time.
    fn spare_the_disk(&mut self, bytes: u64) {
        let now = self.now();
        if now - self.disk_looked >= DISK_LOOK {
            self.disk_looked = now;
            self.disk_available = self.disk.available_bytes().unwrap_or(u64::MAX);
        }
        let comes_back = self.checkpoint.is_some() || self.disk.removed_bytes() > 0;
        if self.disk_available < NEARLY_FULL_BYTES && comes_back {
            let per_second = (self.disk_available / DISK_LASTS_SECONDS).max(NEARLY_FULL_RATE_MIN);
            let pause = Duration::from_secs_f64(bytes as f64 / per_second as f64);
            self.disk_not_before = now + pause.min(NEARLY_FULL_PAUSE_MAX);
        }
    }

    /// Returns true if enough has changed during a flush of the store that writes have to wait a
    /// little, or until it has ended.
    fn store_is_behind(&self) -> bool {
        self.is_flushing_rows() && self.backlog.holds(self.now(), self.gathered_share())
    }

    /// The share of the limit that has gathered since the start of the flush: the larger of the
    /// log's share and memory's.
    fn gathered_share(&self) -> f64 {
        let pressure = &self.shared.pressure;
        let log_bytes_max = self.options.unflushed_log_bytes.saturating_mul(UNFLUSHED_MAX).max(1);
        let of_log = self.log_bytes_since_checkpoint as f64 / log_bytes_max as f64;
        let limit = pressure.limit_bytes();
        let more = pressure.unflushed_bytes().saturating_sub(self.unflushed_at_flush);
        // Above three sevenths the next flush would start so large that little could gather besides
        // it.
        let room = limit
            .saturating_sub(self.unflushed_at_flush)
            .clamp(limit / 8, limit / 7 * 3)
            .max(1);
        of_log.max(more as f64 / room as f64)
    }

    /// Returns true while a flush runs and new writes gather in memory.
    fn is_flushing_rows(&self) -> bool {
        self.store == StoreKind::Ssd && self.checkpoint.is_some()
    }

    fn checkpoint_due(&self, store: &PartitionStore) -> bool {
        let log_bytes = self.log_bytes_since_checkpoint;
        match self.store {
            StoreKind::Memory => {
                let is_large = log_bytes > self.options.checkpoint_log_bytes.max(self.checkpoint_bytes);
                is_large || self.full_disk_wants_checkpoint()
            }
            StoreKind::Ssd => {
                let is_large = log_bytes > self.options.unflushed_log_bytes.min(self.options.checkpoint_log_bytes)
                    || self.shared.pressure.wants_flush(store.unflushed_bytes());
                let is_old = self.now() - self.last_flush >= FLUSH_INTERVAL;
                let changed = log_bytes > 0;
                // On a full disk it frees the space of deleted rows.
                is_large || self.was_full && changed || is_old && (changed || store.is_loose())
            }
        }
    }

    fn checkpoint_is_wanted(&self, store: &PartitionStore) -> bool {
        let due = || self.now() >= self.checkpoint_not_before && self.checkpoint_due(store);
        self.checkpoint.is_none() && (self.control.checkpoint_wanted.load(Ordering::SeqCst) || due())
    }

    fn checkpoint_wanted(&mut self, store: &PartitionStore) -> bool {
        let wanted = self.checkpoint_is_wanted(store);
        if wanted {
            let mut state = self.control.checkpoint.lock();
            self.control.checkpoint_wanted.store(false, Ordering::SeqCst);
            state.started += 1;
            drop(state);
            self.last_flush = self.now();
            self.log_bytes_in_checkpoint = std::mem::take(&mut self.log_bytes_since_checkpoint);
            if self.was_full {
                self.checkpoint_not_before = self.now() + CHECKPOINT_RETRY;
            }
            self.shared.checkpoint_given_up.store(false, Ordering::Relaxed);
            self.shared.statistics.checkpoint_running.store(true, Ordering::Relaxed);
        }
        wanted
    }

    fn start_checkpoint(&mut self, flush: PartitionFlush, position: Position) {
        let runtime = self.shared.runtime.clone();
        let write = move || {
            runtime.make_way();
            flush.run(position)
        };
        let started = Job::start(self.shared.runtime.as_ref(), "checkpoint", write);
        match started {
            Ok(job) => {
                self.backlog.flush_began(self.now());
                self.checkpoint = Some(RunningCheckpoint { position, job });
            }
            Err(error) => self.give_up_checkpoint(format!("no thread for a checkpoint: {error}")),
        }
    }

    /// Abandons a flush of the store that was started and will not run.
    fn give_up_checkpoint(&mut self, reason: String) {
        drop(self.shared.partition.borrow().store.end_flush(None));
        self.checkpoint_ended(Some(reason));
    }

    /// Adopts a checkpoint that is on disk, or retries later if the lock is held.
    fn finish_checkpoint(&mut self) -> Result<(), LogError> {
        if !self
            .checkpoint
            .as_ref()
            .is_some_and(|running| running.job.is_finished())
        {
            return Ok(());
        }
        let shared = self.shared.clone();
        let Some(partition) = shared.partition.borrow_within(TURN_TIMEOUT) else {
            return Ok(());
        };
        match self.checkpoint.take() {
            Some(running) => self.end_checkpoint(running, partition),
            None => Ok(()),
        }
    }

    fn end_checkpoint(
        &mut self,
        RunningCheckpoint { position, job }: RunningCheckpoint,
        mut partition: Guard<'_, PartitionState>,
    ) -> Result<(), LogError> {
        let took = self.backlog.flush_ended(self.now());
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
            let (bytes, micros) = (self.log_bytes_in_checkpoint, took.as_micros() as u64);
            statistics.store_flushed_bytes.fetch_add(bytes, Ordering::Relaxed);
            statistics.store_flush_micros.fetch_add(micros, Ordering::Relaxed);
            self.trim(position)?;
        }
        self.checkpoint_ended(failure);
        Ok(())
    }

    /// Trims the log after the store has reached the position.
    fn trim(&mut self, position: Position) -> Result<(), LogError> {
        self.needed = needed_behind(position, self.sharing.is_some());
        self.trim_log()
    }

    /// Trims the log after readers have advanced, or retained records have aged.
    fn trim_if_due(&mut self) -> Result<(), LogError> {
        let now = self.now();
        self.retention.note(now, self.tail.next());
        match now - self.last_trim < TRIM_INTERVAL {
            true => Ok(()),
            false => self.trim_log(),
        }
    }

    fn trim_log(&mut self) -> Result<(), LogError> {
        let now = self.now();
        self.last_trim = now;
        let readers = &self.shared.log_readers;
        let available_bytes = self.available_for_readers();
        let parts = self.log.parts();
        let held = readers.held();
        let floor = self.retention.floor(now, self.needed, held, &parts, available_bytes);
        if floor > self.trimmed_below {
            let lost = readers.give_up_below(floor);
            self.shared
                .statistics
                .log_readers_lost
                .fetch_add(lost, Ordering::Relaxed);
            match self.log.trim_below(floor) {
                Ok(()) => self.trimmed_below = floor,
                Err(LogError::NoRoom { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let retained = bytes_before(&self.log.parts(), self.needed);
        let statistics = &self.shared.statistics;
        statistics.log_readers.store(readers.count() as u64, Ordering::Relaxed);
        statistics.log_retained_bytes.store(retained, Ordering::Relaxed);
        statistics.log_bytes.store(self.log.bytes(), Ordering::Relaxed);
        statistics
            .removed_bytes
            .store(self.disk.removed_bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the disk's free bytes that readers may use, or none if other parts lack room.
    fn available_for_readers(&self) -> u64 {
        let available_bytes = self.disk.available_bytes().unwrap_or(0);
        let checkpoint_failed = self.shared.statistics.checkpoint_failed.load(Ordering::Relaxed);
        let checkpoint_needs_it = checkpoint_failed && self.shared.stored.total() > available_bytes;
        match self.preparing_failed.is_some() || self.shared.room.has_failed() || checkpoint_needs_it {
            true => 0,
            false => available_bytes,
        }
    }

    fn checkpoint_written(&mut self, position: Position, bytes: u64) {
        self.checkpoint_bytes = bytes;
        let statistics = &self.shared.statistics;
        statistics.checkpoints.fetch_add(1, Ordering::Relaxed);
        let last = &statistics.checkpoint_last_version;
        last.store(position.version.0, Ordering::Relaxed);
        // Not the version: it says when the last write was, and may be ahead of a clock that was
        // set back.
        let time = &statistics.checkpoint_last_micros;
        time.store(self.shared.clock.now_micros(), Ordering::Relaxed);
    }

    fn finish_preparing(&mut self) -> Result<(), LogError> {
        let Some(job) = self.preparing.take_if(|job| job.is_finished()) else {
            return Ok(());
        };
        match job.join().unwrap_or(Err(LogError::Failed)) {
            Ok(()) => self.preparing_failed = None,
            Err(error @ LogError::NoRoom { .. }) => {
                if self.preparing_failed.is_none() {
                    tracing::warn!(%error, "there is no room for the log's next segment");
                }
                self.preparing_failed = Some(self.now());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Creates the next segment ahead of need, while the current segment is written.
    fn prepare_if_needed(&mut self) {
        let now = self.now();
        let is_early = |failed: Duration| now - failed < PREPARE_RETRY;
        if self.shared.room.is_prepared() || self.preparing.is_some() || self.preparing_failed.is_some_and(is_early) {
            return;
        }
        let reserve = self.shared.room.reserve();
        let started = Job::start(self.shared.runtime.as_ref(), "next-segment", move || reserve.prepare());
        if started.is_err() {
            self.preparing_failed = Some(self.now());
        }
        self.preparing = started.ok();
    }

    fn tell_if_full(&mut self) {
        let is_full = self.shared.room.is_short() && self.preparing_failed.is_some();
        if is_full && !self.was_full {
            tracing::error!(
                "the disk is full: reads and deletions go on, other writes are refused until there is room"
            );
        }
        if !is_full && self.was_full {
            tracing::info!("the disk has room again: writes go on");
            // Never while a checkpoint is being written: its file would be emptied.
            if self.checkpoint.is_none() {
                self.shared.partition.borrow().store.tidy();
            }
        }
        self.was_full = is_full;
    }

    /// Returns true if a checkpoint should give back what has been deleted, because the disk is
    /// full, and may fit.
    fn full_disk_wants_checkpoint(&self) -> bool {
        if !self.was_full || self.log_bytes_since_checkpoint == 0 {
            return false;
        }
        let available = self.disk.available_bytes().unwrap_or(0) + self.shared.room.kept_bytes();
        self.shared.stored.total() < available
    }

    fn checkpoint_ended(&mut self, failure: Option<String>) {
        let statistics = &self.shared.statistics;
        if let Some(reason) = &failure {
            tracing::error!(reason, "checkpoint failed");
            self.log_bytes_since_checkpoint += self.log_bytes_in_checkpoint;
            self.checkpoint_not_before = self.now() + CHECKPOINT_RETRY;
            statistics.checkpoints_failed.fetch_add(1, Ordering::Relaxed);
        }
        statistics.checkpoint_failed.store(failure.is_some(), Ordering::Relaxed);
        if failure.is_none() {
            self.shared.memory.leave_room_for_checkpoint(false);
        }
        self.shared
            .statistics
            .checkpoint_running
            .store(false, Ordering::Relaxed);
        let mut state = self.control.checkpoint.lock();
        state.finished = state.started;
        state.failure = failure;
    }
}

fn reusable(payload: Payload) -> Vec<u8> {
    let buffer = payload.into_buffer();
    if buffer.capacity() > SPARE_BYTES_MAX {
        Vec::new()
    } else {
        buffer
    }
}
