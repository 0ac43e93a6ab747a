//! Time, background work, and randomness, as interfaces that the caller passes in.
//!
//! Work is given as steps, not as a loop: a machine runs each on a thread of its own, and a
//! simulation runs the steps of all of them on one thread, in an order that a seed decides.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The next state of work after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next step follows at once.
    Again,
    /// It follows when this has passed, or when the work is woken ([`Task::wake`]), also if that
    /// was during the step.
    Rest(Duration),
    /// There is none.
    Done,
}

/// One step of some work. It may wait for other work only through [`Runtime::pause`] and
/// [`Task::join`].
pub type Step = Box<dyn FnMut() -> Next + Send>;

/// Runs work beside the caller, and lets time pass.
pub trait Runtime: Send + Sync {
    /// Returns the time since some moment. Never goes back.
    fn now(&self) -> Duration;

    /// Lets others work for about as long.
    fn pause(&self, time: Duration);

    /// Unknown to clients.
    fn random(&self) -> u64;

    /// Lowers the priority of the calling work from now on.
    fn make_way(&self) {}

    /// Starts work in the background. Errors: the system has no thread for it.
    fn start(&self, name: &'static str, step: Step) -> io::Result<Arc<dyn Task>>;
}

/// Started work.
pub trait Task: Send + Sync {
    /// Ends its rest, or the next one if it does not rest.
    fn wake(&self);

    /// It is done, or a step has panicked.
    fn is_finished(&self) -> bool;

    /// Waits until it is finished.
    fn join(&self);
}

/// The machine's own time and threads.
#[derive(Debug)]
pub struct SystemRuntime {
    began: Instant,
}

impl Default for SystemRuntime {
    fn default() -> SystemRuntime {
        SystemRuntime { began: Instant::now() }
    }
}

impl Runtime for SystemRuntime {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Lowers the calling thread's share of a busy core to about a third of another thread's.
    fn make_way(&self) {
        // On other systems it would affect the whole process. If it is refused, the work is done
        // all the same.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::nice(5);
    }

    fn random(&self) -> u64 {
        RandomState::new().hash_one(0)
    }

    fn start(&self, name: &'static str, mut step: Step) -> io::Result<Arc<dyn Task>> {
        let work = move || {
            loop {
                match step() {
                    Next::Again => {}
                    Next::Rest(time) => std::thread::park_timeout(time),
                    Next::Done => break,
                }
            }
        };
        let handle = std::thread::Builder::new().name(name.into()).spawn(work)?;
        Ok(Arc::new(SystemTask {
            thread: handle.thread().clone(),
            handle: Mutex::new(Some(handle)),
        }))
    }
}

struct SystemTask {
    thread: Thread,
    /// `None` once `join` has been called.
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Task for SystemTask {
    fn wake(&self) {
        self.thread.unpark();
    }

    fn is_finished(&self) -> bool {
        self.handle.lock().as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn join(&self) {
        if let Some(handle) = self.handle.lock().take() {
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn work_continues_until_it_is_done() {
        let mut remaining = 3;
        let step = move || {
            remaining -= 1;
            if remaining > 0 { Next::Again } else { Next::Done }
        };
        let task = SystemRuntime::default().start("work", Box::new(step)).unwrap();
        task.join();
        assert!(task.is_finished());
    }

    #[test]
    fn a_woken_thread_rests_no_longer() {
        let (said, heard) = channel();
        let mut steps = 0;
        let step = move || {
            steps += 1;
            said.send(steps).unwrap();
            if steps < 3 { Next::Rest(LONG) } else { Next::Done }
        };
        let task = SystemRuntime::default().start("work", Box::new(step)).unwrap();
        for expected in 1..=3 {
            assert_eq!(heard.recv().unwrap(), expected);
            task.wake();
        }
        task.join();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_thread_that_makes_way_is_less_urgent() {
        let urgency = || rustix::process::nice(0).unwrap();
        let (before, runtime) = (urgency(), SystemRuntime::default());
        let (said, heard) = channel();
        let step = move || {
            SystemRuntime::default().make_way();
            said.send(urgency()).unwrap();
            Next::Done
        };
        runtime.start("work", Box::new(step)).unwrap().join();
        assert_eq!(heard.recv().unwrap(), (before + 5).min(19));
        assert_eq!(urgency(), before);
    }

    #[test]
    fn work_that_panics_is_finished() {
        let task = SystemRuntime::default()
            .start("work", Box::new(|| std::panic::resume_unwind(Box::new(()))))
            .unwrap();
        task.join();
        assert!(task.is_finished());
    }
}
