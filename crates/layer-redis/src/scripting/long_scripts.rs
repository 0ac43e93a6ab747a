//! The long-running script or transaction: its visibility to others, and its kill.
//!
//! It was started on the connection's own thread, and was rolled back and restarted on a thread
//! that may take long ([`crate::execution::long_run`]), so that other clients get replies.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use quartet_model::DatabaseId;

/// Time for which a script or a transaction may hold the thread that serves the connections.
pub const SHORT_MICROS: u64 = 25_000;
/// The long script or transaction of the partition, if one runs: all databases of the partition
/// share this, as they share the lock. Others read it without the lock.
#[derive(Default)]
pub struct LongScripts {
    running: Mutex<Option<RunningScript>>,
    busy: AtomicBool,
    kill: AtomicBool,
    wrote: AtomicBool,
    abandon: AtomicBool,
}

#[derive(Clone)]
pub struct RunningScript {
    /// Whose it is. The others know only that it keeps them waiting.
    pub database: DatabaseId,
    /// The script's digest or the function's name.
    pub name: String,
    pub is_function: bool,
    /// The command that runs it.
    pub command: Vec<Vec<u8>>,
    pub started_micros: u64,
    /// Number of libraries and functions at its start.
    pub library_counts: (u64, u64),
}

/// Why SCRIPT KILL or FUNCTION KILL did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKilled {
    NotBusy,
    HasWritten,
    /// A function cannot be ended by SCRIPT KILL, nor a script by FUNCTION KILL.
    OtherKind,
}

impl LongScripts {
    /// Returns the enclosing run, which the caller passes to [`LongScripts::end`].
    pub fn begin(&self, script: RunningScript) -> Outer {
        self.kill.store(false, Ordering::SeqCst);
        self.wrote.store(false, Ordering::SeqCst);
        Outer(self.running.lock().replace(script))
    }

    pub fn end(&self, outer: Outer) {
        *self.running.lock() = outer.0;
        self.busy.store(false, Ordering::SeqCst);
        // A kill of the script covers no more than that; and a transaction can be rolled back, even
        // after writes.
        self.kill.store(false, Ordering::SeqCst);
        self.wrote.store(false, Ordering::SeqCst);
    }

    /// Whether what has run for so long must end, and why. Called often; others learn from it that
    /// they are kept waiting.
    pub fn look(&self, micros: u64, bounds: &Bounds) -> Option<Stop> {
        if bounds.busy_micros.is_some_and(|busy_micros| micros >= busy_micros) {
            self.busy.store(true, Ordering::SeqCst);
        }
        if self.abandon.load(Ordering::SeqCst) {
            return Some(Stop::LongRunning);
        }
        if bounds.micros_max.is_some_and(|micros_max| micros >= micros_max) {
            return Some(Stop::TooLong);
        }
        self.kill.load(Ordering::SeqCst).then_some(Stop::Killed)
    }

    /// Not once it is killed: then it ends at its next look at the clock, and the others wait for
    /// that.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) && !self.kill.load(Ordering::SeqCst)
    }

    /// The script, if it is this database's.
    pub fn running(&self, database: DatabaseId) -> Option<RunningScript> {
        let running = self.running.lock();
        running.as_ref().filter(|script| script.database == database).cloned()
    }

    /// The server stops: the script ends, and all its effects are rolled back.
    pub fn abandon(&self) {
        self.abandon.store(true, Ordering::SeqCst);
    }

    /// The server stops.
    pub fn is_abandoned(&self) -> bool {
        self.abandon.load(Ordering::SeqCst)
    }

    /// The script has changed data: it can no longer be killed.
    pub fn note_write(&self) {
        self.wrote.store(true, Ordering::SeqCst);
    }

    pub fn kill(&self, database: DatabaseId, is_function: bool) -> Result<(), NotKilled> {
        let running = self.running.lock();
        let own = running
            .as_ref()
            .filter(|script| script.database == database && self.is_busy());
        let script = own.ok_or(NotKilled::NotBusy)?;
        if self.wrote.load(Ordering::SeqCst) {
            return Err(NotKilled::HasWritten);
        }
        if script.is_function != is_function {
            return Err(NotKilled::OtherKind);
        }
        self.kill.store(true, Ordering::SeqCst);
        Ok(())
    }
}

/// The outer long run when another started within it: the transaction around a script, if there is
/// one.
pub struct Outer(Option<RunningScript>);

/// Time limits of a long run.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// It counts as busy after so long; `None`: never.
    pub busy_micros: Option<u64>,
    /// It is ended after so long; `None`: never.
    pub micros_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    LongRunning,
    Killed,
    /// Its database's scripts may not take so long.
    TooLong,
    LoadTimeout,
}
