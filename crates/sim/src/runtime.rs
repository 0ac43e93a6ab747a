//! All work on one thread, in an order determined by a seed; time advances only while a step waits.
//!
//! A step runs to its end before another starts; a step that pauses lets others run meanwhile. So
//! the interleaving between steps is random, and the inside of a step is not.
//!
//! Work that waits within a step while clients continue has a thread of its own; one such thread
//! runs at a time, and a pause returns the turn until its time has passed (`own_thread`).

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use quartet_env::{ManualClock, Next, Runtime, Step, Task};

use crate::own_thread::{self, Said, Thread};
use crate::random::Random;

/// Work that has a thread of its own. It holds no lock that others take while it waits.
const OWN_THREADS: [&str; 2] = ["checkpoint", COPY];
/// Work that starts a copy and waits for the flusher.
pub const COPY: &str = "copy";

pub struct SeededRuntime {
    state: Mutex<State>,
    /// Moves with the time that passes.
    clock: Arc<ManualClock>,
    itself: Weak<SeededRuntime>,
}

struct State {
    now: Duration,
    random: Random,
    works: Vec<Work>,
    next_id: u64,
    /// No step starts before.
    stalled_until: Duration,
}

struct Work {
    id: u64,
    name: &'static str,
    /// Taken out while a step runs.
    doing: Option<Doing>,
    due: Duration,
    is_woken: bool,
}

enum Doing {
    /// Between two steps.
    Rests(Step),
    /// Within a step, on its own thread.
    Waits(Thread),
}

impl Work {
    fn due(&self, now: Duration, stalled_until: Duration) -> Option<Duration> {
        match self.doing.as_ref()? {
            Doing::Waits(_) => Some(self.due),
            Doing::Rests(_) if self.is_woken => Some(now.max(stalled_until)),
            Doing::Rests(_) => Some(self.due.max(stalled_until)),
        }
    }
}

impl SeededRuntime {
    pub fn new(seed: u64, clock: Arc<ManualClock>) -> Arc<SeededRuntime> {
        Arc::new_cyclic(|itself| SeededRuntime {
            state: Mutex::new(State {
                now: Duration::ZERO,
                random: Random::new(seed),
                works: Vec::new(),
                next_id: 0,
                stalled_until: Duration::ZERO,
            }),
            clock,
            itself: itself.clone(),
        })
    }

    /// Advances time without running any work, as while the process is suspended.
    pub fn skip(&self, time: Duration) {
        self.state.lock().now += time;
        self.clock.advance(time.as_micros() as u64);
    }

    /// Waits within a step that has a thread of its own; in other steps it does nothing.
    pub fn wait_within(&self, time: Duration) {
        own_thread::wait(time);
    }

    /// Prevents steps from starting for a while, as when the disk is slow.
    pub fn stall(&self, lasts: Duration) {
        let mut state = self.state.lock();
        state.stalled_until = state.now + lasts;
    }

    /// Returns true while no step may start.
    pub fn is_stalled(&self) -> bool {
        let state = self.state.lock();
        state.stalled_until > state.now
    }

    /// Returns true while work of this name is within a step and waits.
    pub fn waits_within(&self, name: &str) -> bool {
        let state = self.state.lock();
        let is_it = |work: &Work| work.name == name && matches!(work.doing, Some(Doing::Waits(_)));
        state.works.iter().any(is_it)
    }

    /// Ends all work where it is, as a loss of power does.
    pub fn kill(&self) {
        let works = std::mem::take(&mut self.state.lock().works);
        for work in works {
            if let Some(Doing::Waits(thread)) = work.doing {
                thread.kill();
            }
        }
        self.state.lock().stalled_until = Duration::ZERO;
    }

    /// Takes one step of some work that is due by `until`, after letting the time pass that it
    /// waits for. False if there is none.
    fn step(&self, until: Duration) -> bool {
        let Some((id, name, doing)) = self.begin_step(until) else {
            return false;
        };
        let said = match doing {
            Doing::Waits(thread) => thread.go_on(),
            Doing::Rests(step) if OWN_THREADS.contains(&name) => own_thread::begin(step),
            Doing::Rests(mut step) => {
                let next = step();
                Said::Ended(step, next)
            }
        };
        self.end_step(id, said);
        true
    }

    fn begin_step(&self, until: Duration) -> Option<(u64, &'static str, Doing)> {
        let mut state = self.state.lock();
        let State {
            now,
            random,
            works,
            stalled_until,
            ..
        } = &mut *state;
        let due = |work: &Work, now| work.due(now, *stalled_until);
        let earliest = works.iter().filter_map(|work| due(work, *now)).min()?;
        if earliest > until {
            return None;
        }
        let before = *now;
        *now = earliest.max(*now);
        self.clock.advance((*now - before).as_micros() as u64);
        let is_due = |work: &Work| due(work, *now).is_some_and(|due| due <= *now);
        let all_due: Vec<usize> = (0..works.len()).filter(|&at| is_due(&works[at])).collect();
        let work = &mut works[random.pick(&all_due)];
        if let Some(Doing::Rests(_)) = work.doing {
            work.is_woken = false;
        }
        work.doing.take().map(|doing| (work.id, work.name, doing))
    }

    fn end_step(&self, id: u64, said: Said) {
        let mut state = self.state.lock();
        let now = state.now;
        // It may have been killed meanwhile.
        let Some(at) = state.works.iter().position(|work| work.id == id) else {
            return;
        };
        let (doing, pause) = match said {
            Said::Waits(thread, time) => (Doing::Waits(thread), time),
            Said::Ended(_, Next::Done) => return drop(state.works.remove(at)),
            Said::Ended(step, Next::Again) => (Doing::Rests(step), Duration::ZERO),
            Said::Ended(step, Next::Rest(time)) => (Doing::Rests(step), time),
        };
        let work = &mut state.works[at];
        work.doing = Some(doing);
        work.due = now + pause;
    }
}

impl Runtime for SeededRuntime {
    fn now(&self) -> Duration {
        self.state.lock().now
    }

    fn pause(&self, time: Duration) {
        if own_thread::wait(time) {
            return;
        }
        let until = self.now() + time;
        while self.step(until) {}
        let mut state = self.state.lock();
        if state.now < until {
            self.clock.advance((until - state.now).as_micros() as u64);
            state.now = until;
        }
    }

    fn random(&self) -> u64 {
        self.state.lock().random.next()
    }

    fn start(&self, name: &'static str, step: Step) -> io::Result<Arc<dyn Task>> {
        let mut state = self.state.lock();
        state.next_id += 1;
        let (id, due) = (state.next_id, state.now);
        state.works.push(Work {
            id,
            name,
            doing: Some(Doing::Rests(step)),
            due,
            is_woken: false,
        });
        let runtime = self.itself.clone();
        Ok(Arc::new(SeededTask { id, runtime }))
    }
}

struct SeededTask {
    id: u64,
    runtime: Weak<SeededRuntime>,
}

impl Task for SeededTask {
    fn wake(&self) {
        if let Some(runtime) = self.runtime.upgrade() {
            let mut state = runtime.state.lock();
            let work = state.works.iter_mut().find(|work| work.id == self.id);
            work.into_iter().for_each(|work| work.is_woken = true);
        }
    }

    fn is_finished(&self) -> bool {
        let is_there = |runtime: Arc<SeededRuntime>| {
            let state = runtime.state.lock();
            state.works.iter().any(|work| work.id == self.id)
        };
        !self.runtime.upgrade().is_some_and(is_there)
    }

    fn join(&self) {
        while !self.is_finished() {
            let stepped = self
                .runtime
                .upgrade()
                .is_some_and(|runtime| runtime.step(Duration::MAX));
            assert!(stepped, "work waits for itself");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of three works that count to four, each with its own rests.
    fn order(seed: u64) -> Vec<u64> {
        let runtime = SeededRuntime::new(seed, Arc::default());
        let said = Arc::new(Mutex::new(Vec::new()));
        let tasks = [0, 10, 20].map(|from| {
            let (said, mut count) = (said.clone(), 0);
            let step = move || {
                said.lock().push(from + count);
                count += 1;
                match count {
                    4 => Next::Done,
                    _ => Next::Rest(Duration::from_millis(count % 2)),
                }
            };
            runtime.start("count", Box::new(step)).unwrap()
        });
        tasks.iter().for_each(|task| task.join());
        said.lock().clone()
    }

    #[test]
    fn a_seed_gives_one_order_and_seeds_differ() {
        assert_eq!(order(1), order(1));
        assert!((2..20).any(|seed| order(seed) != order(1)));
    }

    /// Work that waits within a step lets others run, and may be ended there.
    #[test]
    fn work_with_a_thread_of_its_own_waits_within_a_step() {
        let runtime = SeededRuntime::new(1, Arc::default());
        let said = Arc::new(Mutex::new(Vec::new()));
        let start = |rests: u64| {
            let (said, within) = (said.clone(), runtime.clone());
            let step = move || {
                said.lock().push("begun");
                within.pause(Duration::from_millis(rests));
                said.lock().push("done");
                Next::Done
            };
            runtime.start("checkpoint", Box::new(step)).unwrap()
        };
        let task = start(5);
        runtime.pause(Duration::from_millis(3));
        assert!(runtime.waits_within("checkpoint") && !task.is_finished());
        runtime.pause(Duration::from_millis(3));
        assert_eq!((said.lock().clone(), task.is_finished()), (vec!["begun", "done"], true));
        start(5);
        runtime.pause(Duration::from_millis(3));
        runtime.kill();
        runtime.pause(Duration::from_millis(9));
        assert_eq!(said.lock().clone(), ["begun", "done", "begun"]);
    }

    #[test]
    fn a_stall_starts_no_step() {
        let runtime = SeededRuntime::new(1, Arc::default());
        let task = runtime.start("work", Box::new(|| Next::Done)).unwrap();
        runtime.stall(Duration::from_millis(5));
        task.wake();
        runtime.pause(Duration::from_millis(4));
        assert!(runtime.is_stalled() && !task.is_finished());
        runtime.pause(Duration::from_millis(2));
        assert!(task.is_finished());
    }

    #[test]
    fn time_passes_only_during_a_wait() {
        let clock = Arc::new(ManualClock::new(0));
        let runtime = SeededRuntime::new(1, clock.clone());
        runtime.pause(Duration::from_millis(5));
        assert_eq!(runtime.now(), Duration::from_millis(5));
        assert_eq!(quartet_env::Clock::now_micros(&*clock), 5000);
    }
}
