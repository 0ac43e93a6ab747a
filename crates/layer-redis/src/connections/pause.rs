//! CLIENT PAUSE: for a while no command, or no write command, is started.
//!
//! A session with a paused command leaves it in the input, counts as blocked, and is woken at the
//! end of the pause. No key expires while writes are paused.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

#[derive(Default)]
pub struct Pause {
    /// Milliseconds since the Unix epoch; 0: no pause.
    until_ms: AtomicU64,
    /// Reads are held back too.
    of_all: AtomicBool,
    /// Sessions that are held back now.
    pub waiting: AtomicUsize,
}

impl Pause {
    /// Starts or extends a pause: the later end and the wider effect win while one is running.
    pub fn start(&self, until_ms: u64, pauses_reads: bool, now_ms: u64) {
        if self.until_ms.load(Ordering::SeqCst) > now_ms {
            self.of_all.fetch_or(pauses_reads, Ordering::SeqCst);
            self.until_ms.fetch_max(until_ms, Ordering::SeqCst);
        } else {
            self.of_all.store(pauses_reads, Ordering::SeqCst);
            self.until_ms.store(until_ms, Ordering::SeqCst);
        }
    }

    pub fn end(&self) {
        self.until_ms.store(0, Ordering::SeqCst);
    }

    /// Returns true if a client has requested a pause that may not have ended. One load, for the
    /// path of every command.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.until_ms.load(Ordering::Relaxed) != 0
    }

    /// The end of the pause that holds the command back. `None`: it may run.
    pub fn holds_back(&self, writes: bool, now_ms: u64) -> Option<u64> {
        let until_ms = self.until_ms.load(Ordering::SeqCst);
        let holds_back = until_ms > now_ms && (writes || self.of_all.load(Ordering::SeqCst));
        holds_back.then_some(until_ms)
    }
}
