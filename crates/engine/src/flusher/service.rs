//! The flusher's thread: when a turn runs, and how long it rests after one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use quartet_env::Next;
use quartet_log::LogError;

use super::control::{Control, GATHER};
use super::worker::Worker;
use crate::durability::job::Job;
use crate::partition::shared::Shared;

/// The flusher's rest after this number of turns without work. The first effects end the rest.
const IDLE_REST: Duration = Duration::from_secs(1);
const IDLE_TURNS: u32 = 100;
/// Interval at which a stopping server checks whether its last commits are confirmed.
const STOP_INTERVAL: Duration = Duration::from_millis(1);

/// The flusher's work, step by step.
pub(super) struct Service {
    pub shared: Arc<Shared>,
    pub worker: Arc<Mutex<Worker>>,
    pub control: Arc<Control>,
    /// The step before found nothing to do.
    pub rests: bool,
    /// Consecutive turns without work.
    pub idle_turns: u32,
    pub is_shared: bool,
}

impl Service {
    pub fn step(&mut self) -> Next {
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
            (true, true) => Ok(Some(Next::Rest(STOP_INTERVAL))),
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
            (worker.checkpoints.running.take(), worker.next_segment.job.take())
        };
        let _ = checkpoint.map(|running| running.job.join());
        let _ = preparing.map(Job::join);
        *self.control.outcome.lock() = Some(outcome);
        Next::Done
    }
}
