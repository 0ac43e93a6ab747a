//! The limits of one run of a script: time, which others may end
//! ([`crate::scripting::long_scripts`]), and memory.
//!
//! A run lasts until its answer is written. A table may hold itself, or the same table twice at
//! each of its levels, so a walk over what a script made may branch without an end: each such walk
//! takes [`Steps`] of the run.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use mlua::Lua;
use quartet_engine::Engine;

use crate::handler::allowance;
use crate::scripting::long_scripts::{Bounds, LongScripts, SHORT_MICROS, Stop};

/// How long a library may take to register its functions.
const LOAD_MICROS: u64 = 500_000;
/// Memory that one script of the default database may take, in bytes. One script runs at a time, so
/// it is a database's as well.
pub const SCRIPT_BYTES_MAX: usize = 256 << 20;
/// Instructions between two looks at the clock.
pub const INSTRUCTIONS_PER_LOOK: u32 = 10_000;

/// Time limit of the present run.
#[derive(Clone)]
pub enum Limit {
    /// A short run, which is restarted as a long one when its time has passed.
    Short,
    /// Until it is killed, or as long as the bounds say.
    Long {
        scripts: Arc<LongScripts>,
        bounds: Bounds,
    },
    Load,
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

    /// Ends the run.
    pub fn end(&self) {
        *self.run.borrow_mut() = None;
        self.stop.set(None);
    }

    /// Seconds since the run began, for `os.clock`: a script may only take differences.
    pub fn seconds(&self) -> f64 {
        let micros = |run: &Run| run.engine.now_micros().saturating_sub(run.started_micros);
        self.run.borrow().as_ref().map_or(0, micros) as f64 / 1e6
    }

    /// Why the run must end, if it must.
    pub fn stopped(&self) -> Option<Stop> {
        self.stop.get()
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.get().is_some()
    }

    /// Looks at the clock and at who wants the script to end. False: it must end now.
    pub fn may_go_on(&self) -> bool {
        let now_micros = self.run.borrow().as_ref().map(|run| run.engine.now_micros());
        now_micros.is_none_or(|now_micros| self.may_go_on_at(now_micros))
    }

    /// The same at a time that is known.
    pub fn may_go_on_at(&self, now_micros: u64) -> bool {
        if self.is_stopped() {
            return false;
        }
        if let Some(run) = &*self.run.borrow() {
            self.stop.set(run.look(now_micros));
        }
        !self.is_stopped()
    }
}

impl allowance::Run for Budget {
    fn must_end(&self, now_micros: u64) -> bool {
        !self.may_go_on_at(now_micros)
    }

    /// A script has done more than its next command, so it continues.
    fn must_end_before_long(&self) -> bool {
        false
    }

    fn stopped(&self) -> Option<Stop> {
        self.stop.get()
    }
}

/// Memory that a value takes where a table holds it, in bytes.
const VALUE_BYTES: usize = 16;
/// Values that a walk may meet beyond those that the interpreter's memory can hold.
const REPEATED_MAX: usize = 1_000_000;

/// Most values of a walk over a script's data. A longer walk must visit values repeatedly.
pub fn values_max(lua: &Lua) -> usize {
    lua.used_memory() / VALUE_BYTES + REPEATED_MAX
}

/// Steps between two looks at the clock.
const STEPS_PER_LOOK: u32 = 4096;

/// Steps of a walk over values of the present run.
pub struct Steps<'a> {
    budget: &'a Budget,
    left: u32,
}

impl<'a> Steps<'a> {
    pub fn of(budget: &'a Budget) -> Steps<'a> {
        Steps {
            budget,
            left: STEPS_PER_LOOK,
        }
    }

    /// Takes one step. False: the run must end now.
    #[inline]
    pub fn take(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return true;
        }
        self.left = STEPS_PER_LOOK;
        self.budget.may_go_on()
    }

    /// Takes one step inside a function that the script has called. The error ends the run: no
    /// script catches it.
    #[inline]
    pub fn take_in_call(&mut self) -> Result<(), String> {
        self.take().then_some(()).ok_or_else(|| "stopped".to_owned())
    }
}

impl Run {
    fn look(&self, now_micros: u64) -> Option<Stop> {
        let micros = now_micros.saturating_sub(self.started_micros);
        match &self.limit {
            Limit::Short => (micros >= SHORT_MICROS).then_some(Stop::LongRunning),
            Limit::Load => (micros >= LOAD_MICROS).then_some(Stop::LoadTimeout),
            Limit::Long { scripts, bounds } => scripts.look(micros, bounds),
        }
    }
}
