//! A step on a thread of its own, so that it can wait in its middle. The thread and its caller run
//! one at a time: each waits for the other.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use quartet_env::{Next, Step};

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// The thread's own end.
struct Here {
    says: Sender<FromThread>,
    goes_on: Receiver<()>,
}

enum FromThread {
    Waits(Duration),
    Ended(Step, Next),
}

/// The outcome of a step, or of a part of it.
pub enum Said {
    /// It waits for this time, and must be resumed then.
    Waits(Thread, Duration),
    Ended(Step, Next),
}

/// A step that waits.
pub struct Thread {
    go: Sender<()>,
    said: Receiver<FromThread>,
    handle: JoinHandle<()>,
}

/// Unwinds a thread that is killed.
struct Killed;

/// Runs a step up to its end, or its first wait.
pub fn begin(mut step: Step) -> Said {
    let (go, goes_on) = channel();
    let (says, said) = channel();
    let run = move || {
        let ended = says.clone();
        HERE.set(Some(Here { says, goes_on }));
        let next = catch_unwind(AssertUnwindSafe(&mut step));
        HERE.set(None);
        match next {
            Ok(next) => _ = ended.send(FromThread::Ended(step, next)),
            Err(cause) if cause.is::<Killed>() => {}
            Err(cause) => resume_unwind(cause),
        }
    };
    let handle = std::thread::spawn(run);
    Thread { go, said, handle }.listen()
}

/// Waits, if the calling thread belongs to a step; false if not. Does not return where the step is
/// killed.
pub fn wait(time: Duration) -> bool {
    let waited = HERE.with_borrow(|thread| {
        let thread = thread.as_ref()?;
        Some(thread.says.send(FromThread::Waits(time)).is_ok() && thread.goes_on.recv().is_ok())
    });
    if waited == Some(false) {
        HERE.set(None);
        resume_unwind(Box::new(Killed));
    }
    waited.is_some()
}

impl Thread {
    pub fn go_on(self) -> Said {
        self.go.send(()).expect("the thread waits");
        self.listen()
    }

    fn listen(self) -> Said {
        match self.said.recv().expect("a step has panicked") {
            FromThread::Waits(time) => Said::Waits(self, time),
            FromThread::Ended(step, next) => {
                self.handle.join().expect("the step has ended");
                Said::Ended(step, next)
            }
        }
    }

    /// Ends the step where it is.
    pub fn kill(self) {
        let Thread { go, said, handle } = self;
        drop((go, said));
        handle.join().expect("it unwinds");
    }
}
