//! The waits of a connection: for a key, for the end of CLIENT PAUSE, or after wrong passwords.

use std::sync::atomic::Ordering;

use super::{Session, Waiting};

/// Delay of a deadline while a script blocks all clients.
const BUSY_RETRY_MS: u64 = 100;

impl Session {
    /// The current command waits for a key, or the next one for the end of a pause or of a delay of
    /// passwords: receive nothing until [`Session::drain_mailbox`], called at the deadline or when
    /// the client is woken, has made this false.
    pub fn is_blocked(&self) -> bool {
        !matches!(self.waiting, Waiting::None)
    }

    /// The time at which to call [`Session::time_out`], in milliseconds since the Unix epoch.
    pub fn deadline_ms(&self) -> Option<u64> {
        match self.waiting {
            Waiting::None => None,
            Waiting::ForKey { deadline_ms } => deadline_ms,
            Waiting::Paused { until_ms } | Waiting::HeldBack { until_ms } => Some(until_ms),
        }
    }

    /// The deadline has passed: the blocked command gets its empty answer, by mail, unless it was
    /// served just now.
    pub fn time_out(&mut self) {
        match self.waiting {
            Waiting::None => {}
            Waiting::Paused { .. } => self.resume_if_over(),
            Waiting::HeldBack { .. } => self.waiting = Waiting::None,
            Waiting::ForKey { .. } => {
                let deadline_ms = self.end_wait();
                self.waiting = Waiting::ForKey { deadline_ms };
            }
        }
    }

    /// Ends the wait for a key. Returns when to try again if a script keeps the lock.
    fn end_wait(&self) -> Option<u64> {
        let Ok(mut partition) = self.layer.partition_in_time() else {
            return Some(self.layer.engine.now_micros() / 1000 + BUSY_RETRY_MS);
        };
        self.layer.end_wait(&mut partition, self.client.shared.id, None);
        None
    }

    /// The next request waits for the end of CLIENT PAUSE.
    pub(super) fn wait_for_pause(&mut self, until_ms: u64) {
        self.waiting = Waiting::Paused { until_ms };
        self.layer.connections.pause.waiting.fetch_add(1, Ordering::Relaxed);
        self.client.shared.blocked.store(true, Ordering::SeqCst);
    }

    /// Receives the request again after this time.
    pub(super) fn hold_back(&mut self, micros: u64) {
        let until_ms = (self.layer.engine.now_micros() + micros).div_ceil(1000);
        self.waiting = Waiting::HeldBack { until_ms };
    }

    /// Resumes if the pause has ended. A pause that was extended meanwhile moves the deadline.
    #[inline]
    pub(super) fn resume_if_over(&mut self) {
        if !matches!(self.waiting, Waiting::Paused { .. }) {
            return;
        }
        let now_ms = self.layer.engine.now_micros() / 1000;
        match self.layer.connections.pause.holds_back(true, now_ms) {
            Some(until_ms) => self.waiting = Waiting::Paused { until_ms },
            None => self.resume(),
        }
    }

    /// Ends the wait for the end of a pause, if there is one.
    pub(super) fn resume(&mut self) {
        if let Waiting::Paused { .. } = self.waiting {
            self.waiting = Waiting::None;
            self.layer.connections.pause.waiting.fetch_sub(1, Ordering::Relaxed);
            self.client.shared.blocked.store(false, Ordering::SeqCst);
        }
    }
}
