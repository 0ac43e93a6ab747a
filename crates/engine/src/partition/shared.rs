//! State that the engine's threads share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quartet_env::{Clock, CorrectedClock, Runtime, Task};
use quartet_model::Version;

use crate::durability::log_readers::LogReaders;
use crate::durability::memory::Memory;
use crate::durability::pressure::{Pressure, is_over};
use crate::durability::room::Room;
use crate::durability::stored::StoredBytes;
use crate::options::Durability;
use crate::partition::before_long::BeforeLong;
use crate::partition::busy::Listeners;
use crate::partition::lock::PartitionLock;
use crate::partition::state::Dependency;
use crate::partition::state::PartitionState;
use crate::partition::statistics::Statistics;
use crate::space::Space;
use crate::standing::Standing;

/// Largest buffer that is made ahead, beside its eighth.
const FULL_BUFFER_BYTES_MAX: usize = 64 << 20;

/// State that the engine's threads share.
pub(crate) struct Shared {
    pub partition: PartitionLock,
    pub before_long: BeforeLong,
    pub flusher: FlusherTask,
    pub room: Room,
    pub pressure: Pressure,
    pub clock: Arc<dyn Clock>,
    /// The same clock, where other nodes' clocks correct it.
    pub corrected: Option<Arc<CorrectedClock>>,
    pub runtime: Arc<dyn Runtime>,
    /// Everything up to this version is on disk. Never decreases; `durable <= last committed`.
    pub durable: AtomicU64,
    /// True while a thread waits for `durable` to move: the flusher then calls the listeners.
    pub waited_for: AtomicBool,
    pub listeners: Listeners,
    pub log_readers: LogReaders,
    pub statistics: Statistics,
    pub memory: Arc<Memory>,
    /// True if the running checkpoint shall end without result.
    pub checkpoint_given_up: Arc<AtomicBool>,
    /// Time of the last such request.
    pub checkpoint_given_up_micros: AtomicU64,
    /// True if every row is in memory, so that checkpoints hold memory. False with the ssd engine,
    /// whose flushes free memory.
    pub is_all_in_memory: bool,
    pub stored: StoredBytes,
    pub epoch_bytes_max: usize,
    /// `None` if the log is this node's own.
    pub standing: Option<Arc<Standing>>,
}

impl Shared {
    pub fn durable(&self) -> Version {
        Version(self.durable.load(Ordering::Acquire))
    }

    /// Publishes that everything up to `version` is durable, and notifies the waiters.
    pub fn publish_durable(&self, version: Version) {
        self.durable.fetch_max(version.0, Ordering::SeqCst);
        self.tell_waiting();
    }

    /// Calls the listeners, if any thread waits.
    pub fn tell_waiting(&self) {
        if self.waited_for.swap(false, Ordering::SeqCst) {
            self.listeners.call();
        }
    }

    /// The dependency of an answer that may depend on anything committed before.
    pub fn latest_dependency(&self, state: &PartitionState, space: Space) -> Dependency {
        match space.durability {
            Durability::Always => state.dependency_on_everything(self.durable()),
            Durability::Interval | Durability::None => Version::ZERO,
        }
    }

    /// Says what has gathered. Called with the partition's lock held.
    pub fn note_gathered(&self, state: &PartitionState) {
        let waiting = state.pending.len()
            + state
                .full_epochs
                .queue
                .iter()
                .map(|epoch| epoch.payload.len())
                .sum::<usize>();
        self.pressure.gathered(state.store.unflushed_bytes(), waiting as u64);
    }

    /// Says how large the epochs on their way to the log are, with `pending_bytes` in the epoch
    /// that gathers.
    pub fn note_epochs(&self, pending_bytes: usize) {
        let now = self.room.taken_bytes() + pending_bytes as u64;
        let before = self.pressure.epoch_bytes.swap(now, Ordering::Relaxed);
        self.memory.epochs_changed(before, now);
    }

    /// Returns a buffer for the epoch after one that was closed because it was full: as large as
    /// that, so that it does not grow and leave smaller free buffers. Pages are taken as they are
    /// written.
    pub fn buffer_for_full_epoch(&self) -> Vec<u8> {
        let bytes = self.epoch_bytes_max.min(FULL_BUFFER_BYTES_MAX);
        Vec::with_capacity(bytes + bytes / 8)
    }

    pub fn gathers_too_much(&self) -> bool {
        let pressure = &self.pressure;
        let (unflushed, waiting) = (
            pressure.unflushed_bytes(),
            pressure.waiting_bytes.load(Ordering::Relaxed) + pressure.in_flight_bytes.load(Ordering::Relaxed),
        );
        let epoch = self.epoch_bytes_max as u64;
        let waiting_max = match pressure.is_held.load(Ordering::Relaxed) {
            true => epoch / 2,
            false => epoch.saturating_mul(2),
        };
        unflushed > pressure.limit_bytes() || waiting > waiting_max || self.snapshots_hold_much(unflushed)
    }

    /// Returns true if snapshots hold many rows that are already in the files. A flush's worth of
    /// changes may gather besides them; otherwise writes would be blocked as long as an old
    /// snapshot is read.
    fn snapshots_hold_much(&self, unflushed: u64) -> bool {
        let pressure = &self.pressure;
        let is_process = self.memory.budget().is_some();
        is_process && pressure.wants_flush(unflushed) && quartet_store::all_rows_bytes() > pressure.limit_bytes()
    }

    /// Makes the next effects wake the flusher. False if some wait for it, or the lock is not free.
    pub fn wakes_flusher_at_once(&self) -> bool {
        let Some(state) = self.partition.borrow_within(Duration::ZERO) else {
            return false;
        };
        let is_empty = state.pending.is_empty() && state.full_epochs.queue.is_empty() && state.garbage.is_empty();
        // Under the lock, which every committing thread holds.
        self.flusher.is_idle.store(is_empty, Ordering::SeqCst);
        is_empty
    }

    /// Calls the listeners of waiting requests, if there is a reason to.
    pub fn let_in(&self) {
        if self.pressure.is_waited_for.load(Ordering::Relaxed) && !self.gathers_too_much() {
            is_over(&self.pressure.behind_since_micros);
            self.pressure.is_waited_for.store(false, Ordering::Relaxed);
            self.partition.announcement.call_listeners();
        }
    }
}

/// The flusher's task, for threads that have work for it.
#[derive(Default)]
pub(crate) struct FlusherTask {
    is_woken: AtomicBool,
    /// It rests until there are effects.
    is_idle: AtomicBool,
    task: OnceLock<Arc<dyn Task>>,
}

impl FlusherTask {
    /// Sets the task to be woken.
    pub fn is(&self, task: Arc<dyn Task>) {
        let _ = self.task.set(task);
    }

    pub fn wake(&self) {
        if !self.is_woken.swap(true, Ordering::SeqCst)
            && let Some(task) = self.task.get()
        {
            task.wake();
        }
    }

    pub fn is_woken(&self) -> bool {
        self.is_woken.load(Ordering::SeqCst)
    }

    /// Marks a turn's start: later work must wake the flusher again.
    pub fn begin_turn(&self) {
        self.is_idle.store(false, Ordering::SeqCst);
        self.is_woken.store(false, Ordering::SeqCst);
    }

    /// Returns true if it rests until there are effects. Call it with the partition's lock held.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }
}
