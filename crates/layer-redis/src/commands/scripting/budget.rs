//! What a running script may use, and who may stop it; and a long transaction as well.
//!
//! A script, and the queue of a transaction, begins on the connection's own thread. If it is not done soon it is taken back and begun again on a thread that
//! may take long ([`Limit::Long`]), so that the others are answered: nobody has seen what was taken back. There it is
//! `busy` once it exceeds `busy-reply-threshold`; everybody else is told so, and SCRIPT KILL may end it until it writes.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use quartet_engine::Engine;
use quartet_model::DatabaseId;

use crate::Redis;

/// How long a script or a transaction may keep the thread that serves the connections.
pub const SHORT_MICROS: u64 = 25_000;
/// How long a library may take to register its functions.
const LOAD_MICROS: u64 = 500_000;
/// Memory that one script of the default database may take, in bytes. One script runs at a time, so it is a database's as well.
pub const SCRIPT_BYTES_MAX: usize = 256 << 20;
/// Instructions between two looks at the clock.
pub const INSTRUCTIONS_PER_LOOK: u32 = 10_000;

/// The long script or transaction of the partition, if one runs: all databases of the partition share this, as they share the lock. Others
/// look at it without the lock.
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
    /// Number of libraries and functions when it began.
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
    /// What is returned is what runs around this, and [`LongScripts::end`] wants it back.
    pub fn begin(&self, script: RunningScript) -> Outer {
        self.kill.store(false, Ordering::SeqCst);
        self.wrote.store(false, Ordering::SeqCst);
        Outer(self.running.lock().replace(script))
    }

    pub fn end(&self, outer: Outer) {
        *self.running.lock() = outer.0;
        self.busy.store(false, Ordering::SeqCst);
        // Whoever killed the script meant no more than that; and a transaction can be taken back whatever it has written.
        self.kill.store(false, Ordering::SeqCst);
        self.wrote.store(false, Ordering::SeqCst);
    }

    /// Whether what has run for so long must end, and why. Called often; others learn from it that they are kept waiting.
    pub fn look(&self, micros: u64, bounds: &Bounds) -> Option<Stop> {
        if bounds.busy_micros.is_some_and(|busy_micros| micros >= busy_micros) {
            self.busy.store(true, Ordering::SeqCst);
        }
        if self.abandon.load(Ordering::SeqCst) {
            return Some(Stop::Overrun);
        }
        if bounds.micros_max.is_some_and(|micros_max| micros >= micros_max) {
            return Some(Stop::TooLong);
        }
        self.kill.load(Ordering::SeqCst).then_some(Stop::Killed)
    }

    /// Not once it is killed: then it ends at its next look at the clock, and the others wait for that.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) && !self.kill.load(Ordering::SeqCst)
    }

    /// The script, if it is this database's.
    pub fn running(&self, database: DatabaseId) -> Option<RunningScript> {
        let running = self.running.lock();
        running.as_ref().filter(|script| script.database == database).cloned()
    }

    /// The server stops: the script ends, and all that it did is taken back.
    pub fn abandon(&self) {
        self.abandon.store(true, Ordering::SeqCst);
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

/// What ran long when something else began within it: the transaction around a script, if there is one.
pub struct Outer(Option<RunningScript>);

/// How long what runs long may take.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// It counts as busy after so long; `None`: never.
    busy_micros: Option<u64>,
    /// It is ended after so long; `None`: never.
    micros_max: Option<u64>,
}

impl Bounds {
    pub fn of(layer: &Redis) -> Bounds {
        let threshold_ms = layer.config.busy_reply_threshold.load(Ordering::Relaxed);
        Bounds {
            busy_micros: (threshold_ms > 0).then_some(threshold_ms as u64 * 1000),
            micros_max: layer.gate.as_ref().map(|gate| gate.script_micros_max()),
        }
    }
}

/// How long the present run may take.
#[derive(Clone)]
pub enum Limit {
    /// Then it is begun again as a long one.
    Short,
    /// Until it is killed, or as long as the bounds say.
    Long {
        scripts: Arc<LongScripts>,
        bounds: Bounds,
    },
    Load,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Overrun,
    Killed,
    /// Its database's scripts may not take so long.
    TooLong,
    LoadTimeout,
}

/// The present run of an interpreter, seen by the hook that counts its instructions.
#[derive(Default)]
pub struct Budget {
    run: RefCell<Option<Run>>,
    stop: Cell<Option<Stop>>,
    /// The interpreter was changed in a way that the next script would see.
    pub spoilt: Cell<bool>,
}

struct Run {
    engine: Arc<Engine>,
    limit: Limit,
    started_micros: u64,
}

impl Budget {
    pub fn begin(&self, engine: &Arc<Engine>, limit: Limit) {
        self.stop.set(None);
        *self.run.borrow_mut() = Some(Run {
            engine: engine.clone(),
            limit,
            started_micros: engine.now_micros(),
        });
    }

    /// The run is over. Why it was stopped, if it was.
    pub fn end(&self) -> Option<Stop> {
        *self.run.borrow_mut() = None;
        self.stop.take()
    }

    /// Seconds since the run began, for `os.clock`: a script may only take differences.
    pub fn seconds(&self) -> f64 {
        let micros = |run: &Run| run.engine.now_micros().saturating_sub(run.started_micros);
        self.run.borrow().as_ref().map_or(0, micros) as f64 / 1e6
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.get().is_some()
    }

    /// Looks at the clock and at who wants the script to end. False: it must end now.
    pub fn may_go_on(&self) -> bool {
        if self.is_stopped() {
            return false;
        }
        if let Some(run) = &*self.run.borrow() {
            self.stop.set(run.look());
        }
        !self.is_stopped()
    }
}

impl Run {
    fn look(&self) -> Option<Stop> {
        let micros = self.engine.now_micros().saturating_sub(self.started_micros);
        match &self.limit {
            Limit::Short => (micros >= SHORT_MICROS).then_some(Stop::Overrun),
            Limit::Load => (micros >= LOAD_MICROS).then_some(Stop::LoadTimeout),
            Limit::Long { scripts, bounds } => scripts.look(micros, bounds),
        }
    }
}
