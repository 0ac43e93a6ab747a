//! Taking what was committed to the log.
//!
//! The flusher takes the epoch that has gathered, appends it, makes it durable when somebody waits for that, and publishes
//! the durable version; meanwhile the next epoch gathers. It also starts checkpoints at an epoch's edge, trims the log
//! behind them, and frees what transactions have cleared. It has a thread; somebody who has nothing to do but wait may do
//! its next turn instead, and saves two changes of thread.
//!
//! A failed append or sync is never retried: acknowledgements stop, and the failure callback is told once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use quartet_env::Disk;
use quartet_log::{Log, LogError};
use quartet_model::Version;

use quartet_store::checkpoint::Position;

use crate::epochs::Epoch;
use crate::home::HomeState;
use crate::{EngineOptions, Shared, checkpoints};

/// How long effects that nobody waits for may gather before they are written to the log.
const GATHER: Duration = Duration::from_millis(10);
/// How often effects that nobody waits for are synced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// How long a thread that would flush by itself waits for the flusher's to end its turn.
const TURN_PATIENCE: Duration = Duration::from_millis(2);
/// A larger buffer is given back after its epoch is written.
const SPARE_BYTES_MAX: usize = 16 << 20;

/// A checkpoint could not be written. The log still holds everything.
#[derive(Debug, thiserror::Error)]
#[error("checkpoint failed: {0}")]
pub struct CheckpointError(String);

/// Told of the log's failure, on the thread that met it.
pub(crate) type OnFailure = Box<dyn Fn(&LogError) + Send>;

pub(crate) struct Flusher {
    control: Arc<Control>,
    worker: Arc<Mutex<Worker>>,
    thread: Option<JoinHandle<Result<(), LogError>>>,
    parked: Thread,
}

#[derive(Default)]
struct Control {
    wake: AtomicBool,
    stop: AtomicBool,
    /// A thread that is not the flusher's has flushed.
    flushed_elsewhere: AtomicBool,
    checkpoint_wanted: AtomicBool,
    checkpoint: Mutex<CheckpointState>,
    checkpoint_changed: Condvar,
}

#[derive(Default)]
struct CheckpointState {
    started: u64,
    finished: u64,
    failure: Option<String>,
}

impl Flusher {
    pub fn start(
        shared: Arc<Shared>,
        log: Box<dyn Log>,
        disk: Arc<dyn Disk>,
        options: EngineOptions,
        failure: OnFailure,
    ) -> Flusher {
        let control = Arc::new(Control::default());
        let log_bytes_since_checkpoint = log.bytes();
        let worker = Worker {
            shared,
            log,
            disk,
            options,
            control: control.clone(),
            written: Version::ZERO,
            synced: true,
            confirmed: true,
            last_sync: Instant::now(),
            spare: Vec::new(),
            checkpoint: None,
            checkpoint_bytes: 0,
            log_bytes_since_checkpoint,
            failure: Some(failure),
        };
        let worker = Arc::new(Mutex::new(worker));
        let (its_worker, its_control) = (worker.clone(), control.clone());
        let thread = std::thread::Builder::new()
            .name("flusher".into())
            .spawn(move || serve(&its_worker, &its_control))
            .expect("a thread for the flusher");
        let parked = thread.thread().clone();
        Flusher {
            control,
            worker,
            thread: Some(thread),
            parked,
        }
    }

    pub fn wake(&self) {
        if !self.control.wake.swap(true, Ordering::SeqCst) {
            self.parked.unpark();
        }
    }

    /// Makes everything up to `version` durable on the calling thread. False if somebody else keeps the log, or it failed.
    pub fn flush_here(&self, version: Version) -> bool {
        // The flusher's thread often is at the end of a turn that found nothing.
        let Some(mut worker) = self.worker.try_lock_for(TURN_PATIENCE) else {
            return false;
        };
        self.control.flushed_elsewhere.store(true, Ordering::Relaxed);
        worker.attempt(|worker| worker.flush_up_to(version)).is_ok()
    }

    pub fn request_checkpoint(&self) {
        self.control.checkpoint_wanted.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Waits for a checkpoint that was started after this call.
    pub fn checkpoint(&self) -> Result<(), CheckpointError> {
        let mut state = self.control.checkpoint.lock();
        let goal = state.started + 1;
        drop(state);
        self.request_checkpoint();
        state = self.control.checkpoint.lock();
        while state.finished < goal {
            let timeout = self
                .control
                .checkpoint_changed
                .wait_for(&mut state, Duration::from_millis(100))
                .timed_out();
            if timeout && self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(CheckpointError("the log has failed".into()));
            }
        }
        state
            .failure
            .clone()
            .map_or(Ok(()), |reason| Err(CheckpointError(reason)))
    }

    pub fn stop(&mut self) -> Result<(), LogError> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        self.control.stop.store(true, Ordering::SeqCst);
        self.control.wake.store(true, Ordering::SeqCst);
        self.parked.unpark();
        thread.join().unwrap_or(Err(LogError::Failed))
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // A caller that cares about the outcome has called `stop` itself.
        let _ = self.stop();
    }
}

struct Worker {
    shared: Arc<Shared>,
    log: Box<dyn Log>,
    disk: Arc<dyn Disk>,
    options: EngineOptions,
    control: Arc<Control>,
    /// The newest version handed to the log; `synced` tells whether it is durable.
    written: Version,
    synced: bool,
    /// The log carries a confirm record for its tail.
    confirmed: bool,
    last_sync: Instant,
    spare: Vec<u8>,
    checkpoint: Option<JoinHandle<Result<checkpoints::Written, String>>>,
    checkpoint_bytes: u64,
    /// Not what the log holds: its newest segment is never trimmed, and a large one would ask for checkpoints for ever.
    log_bytes_since_checkpoint: u64,
    /// Told once that the log has failed; gone afterwards.
    failure: Option<OnFailure>,
}

impl Control {
    /// Nothing to write: sleeps until woken, or until gathered effects are due, which they are not as long as others flush.
    fn rest(&self) {
        while !self.wake.load(Ordering::SeqCst) {
            std::thread::park_timeout(GATHER);
            if !self.flushed_elsewhere.swap(false, Ordering::Relaxed) {
                break;
            }
        }
    }
}

/// The flusher's thread.
fn serve(worker: &Mutex<Worker>, control: &Control) -> Result<(), LogError> {
    let outcome = turn_until_stopped(worker, control);
    let checkpoint = worker.lock().checkpoint.take();
    if let Some(thread) = checkpoint {
        let _ = thread.join();
    }
    outcome
}

fn turn_until_stopped(worker: &Mutex<Worker>, control: &Control) -> Result<(), LogError> {
    loop {
        let stopping = control.stop.load(Ordering::SeqCst);
        control.wake.store(false, Ordering::SeqCst);
        let more = worker.lock().attempt(|worker| worker.turn(stopping))?;
        if stopping && !more {
            return worker.lock().attempt(Worker::finish);
        }
        if !more {
            control.rest();
            worker.lock().attempt(Worker::confirm_if_idle)?;
        }
    }
}

impl Worker {
    /// Does a step, unless the log has failed before. A panic, of a listener for example, stops acknowledgements like a
    /// failed disk.
    fn attempt<T>(&mut self, step: impl FnOnce(&mut Worker) -> Result<T, LogError>) -> Result<T, LogError> {
        if self.failure.is_none() {
            return Err(LogError::Failed);
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step(self)));
        let outcome = done.unwrap_or(Err(LogError::Failed));
        if let Err(error) = &outcome
            && let Some(failure) = self.failure.take()
        {
            self.shared.home.fail();
            failure(error);
        }
        outcome
    }

    /// True if there may be more to do.
    fn turn(&mut self, stopping: bool) -> Result<bool, LogError> {
        let more = self.flush_epoch(stopping)?;
        self.finish_checkpoint()?;
        Ok(more)
    }

    fn flush_up_to(&mut self, version: Version) -> Result<(), LogError> {
        while self.shared.durable() < version && self.flush_epoch(false)? {}
        if self.shared.durable() < version {
            self.sync()?;
        }
        // The flusher's thread rests as long as others flush, so nobody else would see that a checkpoint is done.
        self.finish_checkpoint()
    }

    fn finish(&mut self) -> Result<(), LogError> {
        self.sync()?;
        self.log.close()
    }

    /// Takes one epoch to the log, if any waits. False if there is nothing more to do.
    fn flush_epoch(&mut self, stopping: bool) -> Result<bool, LogError> {
        let shared = self.shared.clone();
        let mut home = shared.home.borrow();
        if let Some(epoch) = shared.home.pop(&mut home) {
            drop(home);
            self.write(&epoch)?;
            self.sync_if_wanted(epoch.needs_sync)?;
            return Ok(true);
        }
        self.flush_gathered(home, stopping)
    }

    /// Takes what has gathered since the last full epoch to the log. True if there was something.
    fn flush_gathered(&mut self, mut home: MutexGuard<'_, HomeState>, stopping: bool) -> Result<bool, LogError> {
        let epoch = home.close_epoch(std::mem::take(&mut self.spare));
        let garbage = std::mem::take(&mut home.garbage);
        let being_freed = home.being_freed.clone();
        being_freed.store(garbage.len(), Ordering::Relaxed);
        let forgotten = home.forget_changes(self.shared.durable(), self.shared.clock.now_micros());
        let snapshot = self.checkpoint_wanted().then(|| home.snapshot());
        if snapshot.is_some() {
            let count = &self.shared.statistics.transactions_since_checkpoint;
            count.store(0, Ordering::Relaxed);
        }
        drop(home);
        drop(forgotten);
        for cleared in garbage {
            self.shared.stored.freed(cleared.rows());
        }
        being_freed.store(0, Ordering::Relaxed);

        let version = epoch.version;
        let wrote = self.write(&epoch)?;
        self.spare = reusable(epoch.payload);
        self.sync_if_wanted(epoch.needs_sync || stopping || snapshot.is_some())?;
        if let Some(snapshot) = snapshot {
            self.start_checkpoint(snapshot, version);
        }
        Ok(wrote)
    }

    /// Appends `epoch` to the log unless it is empty. True if it was not.
    fn write(&mut self, epoch: &Epoch) -> Result<bool, LogError> {
        let bytes = epoch.payload.len() as u64;
        if bytes > 0 {
            self.log.append(self.log.tail(), &epoch.payload)?;
            let statistics = &self.shared.statistics;
            statistics.epochs.fetch_add(1, Ordering::Relaxed);
            statistics.epoch_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.synced = false;
            self.confirmed = false;
            self.log_bytes_since_checkpoint += bytes;
        }
        self.written = epoch.version;
        Ok(bytes > 0)
    }

    fn sync_if_wanted(&mut self, wanted: bool) -> Result<(), LogError> {
        let waited_for = self.shared.waited_for.load(Ordering::SeqCst);
        if wanted || waited_for || self.last_sync.elapsed() >= SYNC_INTERVAL {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LogError> {
        if !self.synced {
            self.log.sync()?;
            self.shared.statistics.syncs.fetch_add(1, Ordering::Relaxed);
            self.synced = true;
            self.shared.publish_durable(self.written);
        }
        self.last_sync = Instant::now();
        Ok(())
    }

    /// A log that stays idle gets a confirm record; after each sync would be too often, since the next epoch confirms the one
    /// before it as well.
    fn confirm_if_idle(&mut self) -> Result<(), LogError> {
        let is_idle = !self.control.wake.load(Ordering::SeqCst) && self.last_sync.elapsed() >= GATHER;
        if is_idle && self.synced && !self.confirmed {
            self.log.confirm()?;
            self.confirmed = true;
        }
        Ok(())
    }

    fn checkpoint_wanted(&mut self) -> bool {
        if self.checkpoint.is_some() {
            return false;
        }
        let due = self.log_bytes_since_checkpoint > self.options.checkpoint_log_bytes.max(self.checkpoint_bytes);
        let wanted = self.control.checkpoint_wanted.swap(false, Ordering::SeqCst) || due;
        if wanted {
            self.log_bytes_since_checkpoint = 0;
            self.control.checkpoint.lock().started += 1;
            self.shared.statistics.checkpoint_running.store(true, Ordering::Relaxed);
        }
        wanted
    }

    fn start_checkpoint(&mut self, snapshot: Arc<dyn quartet_store::Snapshot>, version: Version) {
        let position = Position {
            sequence: self.log.tail(),
            version,
        };
        let disk = self.disk.clone();
        self.checkpoint = std::thread::Builder::new()
            .name("checkpoint".into())
            .spawn(move || checkpoints::write(disk.as_ref(), snapshot, position).map_err(|error| error.to_string()))
            .map_err(|error| self.checkpoint_ended(Some(format!("no thread for a checkpoint: {error}"))))
            .ok();
    }

    fn finish_checkpoint(&mut self) -> Result<(), LogError> {
        let Some(thread) = self.checkpoint.take_if(|thread| thread.is_finished()) else {
            return Ok(());
        };
        let written = thread
            .join()
            .unwrap_or_else(|_| Err("the checkpoint thread panicked".into()));
        let failure = match written {
            Ok(written) => {
                self.checkpoint_bytes = written.bytes;
                self.shared.statistics.checkpoints.fetch_add(1, Ordering::Relaxed);
                self.shared
                    .statistics
                    .checkpoint_last_version
                    .store(written.position.version.0, Ordering::Relaxed);
                self.log.trim_below(written.position.sequence.next())?;
                None
            }
            // The log still holds everything: a failed checkpoint costs space, not data. It is tried again when due.
            Err(reason) => Some(reason),
        };
        self.checkpoint_ended(failure);
        Ok(())
    }

    fn checkpoint_ended(&self, failure: Option<String>) {
        if let Some(reason) = &failure {
            tracing::error!(reason, "checkpoint failed");
        }
        self.shared
            .statistics
            .checkpoint_running
            .store(false, Ordering::Relaxed);
        let mut state = self.control.checkpoint.lock();
        state.finished = state.started;
        state.failure = failure;
        self.control.checkpoint_changed.notify_all();
    }
}

fn reusable(buffer: Vec<u8>) -> Vec<u8> {
    if buffer.capacity() > SPARE_BYTES_MAX {
        Vec::new()
    } else {
        buffer
    }
}
