//! A task that runs once, in parallel with its owner, and returns a result.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use quartet_env::{Next, Runtime, Task};

pub(crate) struct Job<T> {
    task: Arc<dyn Task>,
    answer: Arc<Mutex<Option<T>>>,
}

impl<T: Send + 'static> Job<T> {
    pub fn start(
        runtime: &dyn Runtime,
        name: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Job<T>> {
        let answer = Arc::new(Mutex::new(None));
        let (slot, mut work) = (answer.clone(), Some(work));
        let step = move || {
            if let Some(work) = work.take() {
                let done = work();
                *slot.lock() = Some(done);
            }
            Next::Done
        };
        let task = runtime.start(name, Box::new(step))?;
        Ok(Job { task, answer })
    }

    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits for the result. Returns `None` if the task has panicked.
    pub fn join(self) -> Option<T> {
        self.task.join();
        self.answer.lock().take()
    }
}
