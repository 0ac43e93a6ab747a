//! The closed loop: each worker has one request in flight, and starts the next when it is answered.
//!
//! ```text
//! worker:  connect, wait for all | prepare [operate] settle | prepare [operate] settle | ... until the time is over
//!                                          ^ timed ^
//! ```
//!
//! One warm connection per worker, one histogram per thread, merged at the end: the threads share
//! nothing while the clock runs. The workers are distributed over a few threads, each of which is
//! an event loop, as load generators for many connections are built: with a thread per worker the
//! machine would be busy changing threads, and the server's CPU would be spent on waking them. A
//! reply that waits for its thread counts as not yet received. A closed loop hides queueing that an
//! open loop would show (coordinated omission); it matches the published benchmarks. Throughput is
//! completed requests over the time from the first start to the last finish.

use crate::targets::OperationError;
use anyhow::{Context, bail};
use async_trait::async_trait;
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

/// Longest recorded latency, two minutes. Latencies have three significant digits; shorter ones
/// than a microsecond count as one, longer ones as the longest.
const LATENCY_US_MAX: u64 = 120_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// The repeated work.
#[async_trait(?Send)]
pub trait Worker {
    /// Chooses and makes the data of the next request. Not timed.
    fn prepare(&mut self) {}

    /// The request, until its reply is complete and understood. Timed.
    async fn operate(&mut self) -> Result<(), OperationError>;

    /// Work that has to follow a request that succeeded. Not timed.
    async fn settle(&mut self) -> Result<(), OperationError> {
        Ok(())
    }

    /// The recall of its requests, called when all are done.
    fn recall(&self) -> Recall {
        Recall::default()
    }
}

/// Number of returned results, and of results in exact answers; zero for requests without a recall.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recall {
    pub found: u64,
    pub wanted: u64,
}

impl Recall {
    fn add(&mut self, other: Recall) {
        self.found += other.found;
        self.wanted += other.wanted;
    }

    /// From 0 to 1.
    pub fn share(self) -> Option<f64> {
        (self.wanted > 0).then(|| self.found as f64 / self.wanted as f64)
    }
}

/// The outcome of one run of the closed loop.
#[derive(Debug)]
pub struct Measured {
    /// Microseconds from send to reply of the requests that succeeded.
    pub latency: Histogram<u64>,
    /// From the first start to the last finish.
    pub elapsed: Duration,
    pub errors: u64,
    pub first_error: Option<String>,
    pub recall: Recall,
}

/// Creates `parallelism` workers, on the threads they will run on, and runs them for `duration`.
/// `at_start` is called when all of them are ready, just before they start.
///
/// # Errors
///
/// A worker could not be made, or not one request succeeded.
pub fn closed_loop(
    workers: u64,
    make: &(impl AsyncFn(u64) -> anyhow::Result<Box<dyn Worker>> + Sync),
    duration: Duration,
    progress: &ProgressBar,
    at_start: impl FnOnce(),
) -> anyhow::Result<Measured> {
    // A server on this machine needs the other half: a thread too many would take its turns.
    let threads = available_parallelism().map_or(1, |cores| (cores.get() as u64 / 2).max(1));
    let threads = threads.min(workers);
    let (ready, reports) = mpsc::channel();
    let parts = std::thread::scope(|scope| {
        let crews = (0..threads).map(|first| {
            let (go, gone) = mpsc::channel();
            let crew = Workers {
                ready: ready.clone(),
                gone,
                duration,
            };
            let indices = (first..workers).step_by(threads as usize);
            (go, scope.spawn(move || crew.run(indices, make)))
        });
        let crews: Vec<_> = crews.collect();
        // Without a word to go the other crews end, too.
        reports.iter().take(crews.len()).collect::<anyhow::Result<()>>()?;
        at_start();
        for (go, _) in &crews {
            go.send(()).context("a thread ended before the start")?;
        }
        let is_over = || crews.iter().all(|(_, crew)| crew.is_finished());
        show(progress, duration, is_over);
        let parts = crews
            .into_iter()
            .flat_map(|(_, crew)| crew.join().expect("a worker does not panic"));
        anyhow::Ok(parts.collect::<Vec<_>>())
    })?;
    merge(parts)
}

/// The workers of one thread.
struct Workers {
    /// Sent once when they are ready, or why not.
    ready: mpsc::Sender<anyhow::Result<()>>,
    gone: mpsc::Receiver<()>,
    duration: Duration,
}

impl Workers {
    fn run(
        self,
        indices: impl Iterator<Item = u64>,
        make: &impl AsyncFn(u64) -> anyhow::Result<Box<dyn Worker>>,
    ) -> Option<Part> {
        let runtime = match event_loop() {
            Ok(runtime) => runtime,
            Err(error) => return self.report(Err(error)),
        };
        LocalSet::new().block_on(&runtime, async {
            let mut workers = Vec::new();
            for index in indices {
                match make(index).await {
                    Ok(worker) => workers.push(worker),
                    Err(error) => return self.report(Err(error)),
                }
            }
            self.report(Ok(()));
            if self.gone.recv().is_err() {
                return None;
            }
            let part = Rc::new(RefCell::new(Part::new()));
            let tasks = workers
                .into_iter()
                .map(|worker| work(worker, self.duration, part.clone()));
            let tasks: Vec<_> = tasks.map(tokio::task::spawn_local).collect();
            for task in tasks {
                task.await.expect("a worker does not panic");
            }
            Rc::into_inner(part).map(RefCell::into_inner)
        })
    }

    /// The receiver may have given up.
    fn report(&self, result: anyhow::Result<()>) -> Option<Part> {
        let _ = self.ready.send(result);
        None
    }
}

/// Drives the sockets of one thread.
pub fn event_loop() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("cannot start an event loop")
}

/// One thread's share of the result.
struct Part {
    latency: Histogram<u64>,
    started: Instant,
    finished: Instant,
    errors: u64,
    first_error: Option<String>,
    recall: Recall,
}

impl Part {
    fn new() -> Part {
        let now = Instant::now();
        Part {
            latency: histogram(),
            started: now,
            finished: now,
            errors: 0,
            first_error: None,
            recall: Recall::default(),
        }
    }

    /// Notes a request that succeeded.
    fn record(&mut self, latency: Duration) {
        self.latency.saturating_record(latency.as_micros().max(1) as u64);
    }

    /// Returns whether the worker can continue.
    fn note(&mut self, error: &OperationError) -> bool {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| error.to_string());
        matches!(error, OperationError::Refused(_))
    }
}

/// The workers of a thread share one part: thousands of histograms would dominate the generator's
/// memory traffic.
async fn work(mut worker: Box<dyn Worker>, duration: Duration, part: Rc<RefCell<Part>>) {
    let started = part.borrow().started;
    let mut finished = started;
    while finished - started < duration {
        worker.prepare();
        let sent = Instant::now();
        let mut outcome = worker.operate().await;
        finished = Instant::now();
        part.borrow_mut().finished = finished;
        if outcome.is_ok() {
            part.borrow_mut().record(finished - sent);
            outcome = worker.settle().await;
        }
        if let Err(error) = outcome
            && !part.borrow_mut().note(&error)
        {
            break;
        }
    }
    part.borrow_mut().recall.add(worker.recall());
}

pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, SIGNIFICANT_DIGITS).expect("the bounds are in order")
}

/// Runs until the time has passed, or all workers have ended before.
fn show(progress: &ProgressBar, duration: Duration, is_over: impl Fn() -> bool) {
    let start = Instant::now();
    progress.set_length(duration.as_millis() as u64);
    while let Some(remaining) = duration.checked_sub(start.elapsed())
        && !is_over()
    {
        progress.set_position(start.elapsed().as_millis() as u64);
        std::thread::sleep(remaining.min(PROGRESS_INTERVAL));
    }
}

fn merge(parts: Vec<Part>) -> anyhow::Result<Measured> {
    let started = parts
        .iter()
        .map(|part| part.started)
        .min()
        .context("a run has at least one worker")?;
    let finished = parts
        .iter()
        .map(|part| part.finished)
        .max()
        .context("a run has at least one worker")?;
    let mut measured = Measured {
        latency: histogram(),
        elapsed: finished - started,
        errors: 0,
        first_error: None,
        recall: Recall::default(),
    };
    for part in parts {
        measured
            .latency
            .add(&part.latency)
            .context("histograms of equal bounds")?;
        measured.errors += part.errors;
        measured.recall.add(part.recall);
        measured.first_error = measured.first_error.or(part.first_error);
    }
    if measured.latency.is_empty() {
        bail!(
            "no request succeeded: {}",
            measured.first_error.as_deref().unwrap_or("none was made in time")
        );
    }
    Ok(measured)
}

/// A bar for one cell, drawn on stderr, and not at all if that is no terminal.
pub fn progress(test: &str, parallelism: u32) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:24} {bar:40} {elapsed_precise}, {eta} left");
    ProgressBar::new(0)
        .with_style(style.expect("the template is well-formed"))
        .with_message(format!("{test}, parallelism {parallelism}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Succeeds, except that every `refused_every`-th request is refused and request number
    /// `lost_at` breaks it.
    struct Scripted {
        number: u64,
        refused_every: u64,
        lost_at: u64,
    }

    #[async_trait(?Send)]
    impl Worker for Scripted {
        fn prepare(&mut self) {
            self.number += 1;
        }

        async fn operate(&mut self) -> Result<(), OperationError> {
            match self.number {
                number if number == self.lost_at => Err(OperationError::Lost("gone".to_owned())),
                number if number.is_multiple_of(self.refused_every) => Err(OperationError::Refused("no".to_owned())),
                _ => Ok(()),
            }
        }
    }

    const SHORT: Duration = Duration::from_millis(20);
    /// Longer than any worker that ends by itself takes.
    const LONG: Duration = Duration::from_secs(600);

    fn check(duration: Duration, workers: u64, refused_every: u64, lost_at: u64) -> anyhow::Result<Measured> {
        let make = async |_| {
            let worker = Scripted {
                number: 0,
                refused_every,
                lost_at,
            };
            Ok(Box::new(worker) as Box<dyn Worker>)
        };
        closed_loop(workers, &make, duration, &ProgressBar::hidden(), || ())
    }

    #[test]
    fn refusals_are_counted_and_a_lost_connection_ends_its_worker() {
        let measured = check(LONG, 3, 10, 25).unwrap();
        assert_eq!((measured.latency.len(), measured.errors), (3 * 22, 3 * 3));
        assert_eq!(measured.first_error.unwrap(), "the server refused: no");
    }

    #[test]
    fn the_loop_ends_when_its_time_has_passed() {
        let measured = check(SHORT, 2, u64::MAX, u64::MAX).unwrap();
        assert!(measured.elapsed >= SHORT && measured.errors == 0);
    }

    #[test]
    fn a_run_without_success_is_an_error() {
        assert!(check(LONG, 1, 1, 5).unwrap_err().to_string().contains("refused: no"));
    }
}
