//! All work on one thread, in an order that a seed decides, and a time that passes only while
//! somebody waits.
//!
//! A step runs to its end before another begins; whoever pauses lets others take steps meanwhile.
//! So what may happen between two steps is decided by chance, and what happens inside one is not.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use quartet_env::{ManualClock, Next, Runtime, Step, Task};

use crate::random::Random;

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
}

struct Work {
    id: u64,
    /// Gone while a step runs.
    step: Option<Step>,
    due: Duration,
    is_woken: bool,
}

impl SeededRuntime {
    pub fn new(seed: u64, clock: Arc<ManualClock>) -> Arc<SeededRuntime> {
        Arc::new_cyclic(|itself| SeededRuntime {
            state: Mutex::new(State {
                now: Duration::ZERO,
                random: Random::new(seed),
                works: Vec::new(),
                next_id: 0,
            }),
            clock,
            itself: itself.clone(),
        })
    }

    /// Lets time pass in which no work is done, as while the process stands still.
    pub fn skip(&self, time: Duration) {
        self.state.lock().now += time;
        self.clock.advance(time.as_micros() as u64);
    }

    /// Ends all work where it is, as a loss of power does.
    pub fn kill(&self) {
        let works = std::mem::take(&mut self.state.lock().works);
        drop(works);
    }

    /// Takes one step of some work that is due by `until`, after letting the time pass that it
    /// waits for. False if there is none.
    fn step(&self, until: Duration) -> bool {
        let Some((id, mut step)) = self.begin_step(until) else {
            return false;
        };
        let next = step();
        self.end_step(id, step, next);
        true
    }

    fn begin_step(&self, until: Duration) -> Option<(u64, Step)> {
        let mut state = self.state.lock();
        let State { now, random, works, .. } = &mut *state;
        let waiting = works.iter().filter(|work| work.step.is_some());
        let earliest = waiting.map(|work| if work.is_woken { *now } else { work.due }).min()?;
        if earliest > until {
            return None;
        }
        let before = *now;
        *now = earliest.max(*now);
        self.clock.advance((*now - before).as_micros() as u64);
        let due: Vec<usize> = (0..works.len())
            .filter(|&at| works[at].step.is_some() && (works[at].is_woken || works[at].due <= *now))
            .collect();
        let work = &mut works[random.pick(&due)];
        work.is_woken = false;
        work.step.take().map(|step| (work.id, step))
    }

    fn end_step(&self, id: u64, step: Step, next: Next) {
        let mut state = self.state.lock();
        let now = state.now;
        // It may have been killed meanwhile.
        let Some(at) = state.works.iter().position(|work| work.id == id) else {
            return;
        };
        let rest = match next {
            Next::Done => return drop(state.works.remove(at)),
            Next::Again => Duration::ZERO,
            Next::Rest(time) => time,
        };
        let work = &mut state.works[at];
        work.step = Some(step);
        work.due = now + rest;
    }
}

impl Runtime for SeededRuntime {
    fn now(&self) -> Duration {
        self.state.lock().now
    }

    fn pause(&self, time: Duration) {
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

    fn start(&self, _: &'static str, step: Step) -> io::Result<Arc<dyn Task>> {
        let mut state = self.state.lock();
        state.next_id += 1;
        let (id, due) = (state.next_id, state.now);
        state.works.push(Work {
            id,
            step: Some(step),
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

    #[test]
    fn time_passes_only_while_somebody_waits() {
        let clock = Arc::new(ManualClock::new(0));
        let runtime = SeededRuntime::new(1, clock.clone());
        runtime.pause(Duration::from_millis(5));
        assert_eq!(runtime.now(), Duration::from_millis(5));
        assert_eq!(quartet_env::Clock::now_micros(&*clock), 5000);
    }
}
