//! Work that is repeated on one thread: expiry, cleanup, writing of counters.
//!
//! A cycle that panics is logged and runs again a second later. Its work was a transaction, which
//! the panic has rolled back; so the next turn finds a sound state. The other cycles continue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Pause of a cycle after a panic.
const AFTER_A_PANIC: Duration = Duration::from_secs(1);

/// By this part of its pause a cycle runs earlier if the thread is awake: one that serves several
/// wakes once for all of them.
const EARLIER: u32 = 5;

pub struct Cycle {
    name: &'static str,
    every: Duration,
    /// Returns after which pause there is more to do, if that is sooner.
    turn: Box<dyn FnMut() -> Option<Duration> + Send>,
    due: Option<Instant>,
}

impl Cycle {
    pub fn new(name: &'static str, every: Duration, mut turn: impl FnMut() + Send + 'static) -> Cycle {
        Cycle::with_rest(name, every, move || {
            turn();
            None
        })
    }

    /// A cycle that may leave a part of its work, and returns the pause before the rest.
    pub fn with_rest(
        name: &'static str,
        every: Duration,
        turn: impl FnMut() -> Option<Duration> + Send + 'static,
    ) -> Cycle {
        Cycle {
            name,
            every,
            turn: Box::new(turn),
            due: None,
        }
    }

    /// It has to run, or would have to before long.
    fn is_due(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| due <= now + self.every / EARLIER)
    }

    fn run(&mut self) {
        let pause = match catch_unwind(AssertUnwindSafe(&mut self.turn)) {
            Ok(pause) => pause.unwrap_or(self.every),
            Err(_) => {
                tracing::error!(cycle = self.name, "a cycle panicked: it is run again in a second");
                AFTER_A_PANIC
            }
        };
        self.due = Some(Instant::now() + pause);
    }
}

/// Runs each cycle when it is due, the first time at once. A cycle that finds the partition busy
/// leaves its work to its next turn.
pub async fn run(mut cycles: Vec<Cycle>, mut stop: watch::Receiver<bool>) {
    quartet_engine::serve_on_this_thread();
    while !*stop.borrow() {
        let Some(next) = cycles.iter().min_by_key(|cycle| cycle.due) else {
            return;
        };
        if let Some(due) = next.due.filter(|due| *due > Instant::now()) {
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                _ = stop.changed() => continue,
            }
        }
        let now = Instant::now();
        let due = cycles.iter_mut().filter(|cycle| cycle.is_due(now));
        due.for_each(Cycle::run);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A panic ended the thread of the cycles unnoticed: keys no longer expired, databases were no
    /// longer cleaned up.
    #[test]
    fn a_cycle_that_panics_is_run_again_and_the_others_continue() {
        let (sender, heard) = mpsc::channel();
        let (stop, stopped) = watch::channel(false);
        let other = sender.clone();
        let mut turns = 0;
        let cycles = vec![
            Cycle::new("panics once", Duration::from_millis(1), move || {
                turns += 1;
                assert!(turns != 1, "a bug");
                sender.send("again").unwrap();
            }),
            Cycle::new("other", Duration::from_millis(1), move || {
                let _ = other.send("other");
            }),
        ];
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.unwrap().block_on(run(cycles, stopped));
        });
        let mut missing = vec!["other", "again"];
        while !missing.is_empty() {
            let turn = heard.recv().unwrap();
            missing.retain(|name| *name != turn);
        }
        stop.send_replace(true);
        thread.join().unwrap();
    }
}
