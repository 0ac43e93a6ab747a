//! What one run of a script may use: time, which others may end ([`crate::long_scripts`]), and memory.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use quartet_engine::Engine;

use crate::long_scripts::{Bounds, LongScripts, SHORT_MICROS, Stop};

/// How long a library may take to register its functions.
const LOAD_MICROS: u64 = 500_000;
/// Memory that one script of the default database may take, in bytes. One script runs at a time, so it is a database's as well.
pub const SCRIPT_BYTES_MAX: usize = 256 << 20;
/// Instructions between two looks at the clock.
pub const INSTRUCTIONS_PER_LOOK: u32 = 10_000;

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
