//! The closed loop: each worker has one request under way, and starts the next when it is answered.
//!
//! ```text
//! worker:  barrier | prepare [operate] settle | prepare [operate] settle | ... until the time is over
//!                            ^ timed ^
//! ```
//!
//! One thread and one warm connection a worker, one histogram a worker, merged at the end: nothing is shared while the
//! clock runs. A closed loop hides queueing that an open one would show (coordinated omission); it is what the
//! published benchmarks did. Throughput is completed requests over the time from the first start to the last finish.

use crate::target::OperationError;
use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Latencies from one microsecond to two minutes, to three significant digits. A shorter one counts as one, a longer
/// one as the longest.
const LATENCY_US_MAX: u64 = 120_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

const STACK_BYTES: usize = 256 * 1024;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// What one thread repeats.
pub trait Worker: Send {
    /// Chooses and makes the data of the next request. Not timed.
    fn prepare(&mut self) {}

    /// The request, until its reply is complete and understood. Timed.
    fn operate(&mut self) -> Result<(), OperationError>;

    /// What has to follow a request that succeeded. Not timed.
    fn settle(&mut self) -> Result<(), OperationError> {
        Ok(())
    }
}

/// What came of one run of the closed loop.
#[derive(Debug)]
pub struct Measured {
    /// Microseconds from send to reply of the requests that succeeded.
    pub latency: Histogram<u64>,
    /// From the first start to the last finish.
    pub elapsed: Duration,
    pub errors: u64,
    pub first_error: Option<String>,
}

/// Runs all workers for `duration`. `at_start` is called when all of them are ready, just before they are let go.
///
/// # Errors
///
/// Threads could not be started, or not one request succeeded.
pub fn closed_loop(
    workers: Vec<Box<dyn Worker>>,
    duration: Duration,
    progress: &ProgressBar,
    at_start: impl FnOnce(),
) -> anyhow::Result<Measured> {
    let barrier = Barrier::new(workers.len() + 1);
    let parts = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(workers.len());
        for worker in workers {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            // Threads already waiting at the barrier would wait for ever, so this cannot be reported and survived.
            threads.push(
                thread
                    .spawn_scoped(scope, || work(worker, duration, &barrier))
                    .expect("a thread a worker"),
            );
        }
        at_start();
        barrier.wait();
        show(progress, duration);
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a worker does not panic"))
            .collect::<Vec<_>>()
    });
    merge(parts)
}

/// One worker's share of the result.
struct Part {
    latency: Histogram<u64>,
    started: Instant,
    finished: Instant,
    errors: u64,
    first_error: Option<String>,
}

impl Part {
    /// Whether the worker can go on.
    fn note(&mut self, error: &OperationError) -> bool {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| error.to_string());
        matches!(error, OperationError::Refused(_))
    }
}

fn work(mut worker: Box<dyn Worker>, duration: Duration, barrier: &Barrier) -> Part {
    let now = Instant::now();
    let mut part = Part {
        latency: histogram(),
        started: now,
        finished: now,
        errors: 0,
        first_error: None,
    };
    barrier.wait();
    part.started = Instant::now();
    part.finished = part.started;
    while part.finished - part.started < duration {
        worker.prepare();
        let sent = Instant::now();
        let outcome = worker.operate();
        part.finished = Instant::now();
        let outcome = outcome.and_then(|()| {
            part.latency
                .saturating_record((part.finished - sent).as_micros().max(1) as u64);
            worker.settle()
        });
        if let Err(error) = outcome
            && !part.note(&error)
        {
            break;
        }
    }
    part
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, SIGNIFICANT_DIGITS).expect("the bounds are in order")
}

fn show(progress: &ProgressBar, duration: Duration) {
    let start = Instant::now();
    progress.set_length(duration.as_millis() as u64);
    while let Some(left) = duration.checked_sub(start.elapsed()) {
        progress.set_position(start.elapsed().as_millis() as u64);
        std::thread::sleep(left.min(PROGRESS_INTERVAL));
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
    };
    for part in parts {
        measured
            .latency
            .add(&part.latency)
            .context("histograms of equal bounds")?;
        measured.errors += part.errors;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Succeeds, except that every `refused_every`-th request is refused and request number `lost_at` breaks it.
    struct Scripted {
        number: u64,
        refused_every: u64,
        lost_at: u64,
    }

    impl Worker for Scripted {
        fn prepare(&mut self) {
            self.number += 1;
        }

        fn operate(&mut self) -> Result<(), OperationError> {
            match self.number {
                number if number == self.lost_at => Err(OperationError::Lost("gone".to_owned())),
                number if number.is_multiple_of(self.refused_every) => Err(OperationError::Refused("no".to_owned())),
                _ => Ok(()),
            }
        }
    }

    fn check(workers: u64, refused_every: u64, lost_at: u64) -> anyhow::Result<Measured> {
        let worker = || {
            Box::new(Scripted {
                number: 0,
                refused_every,
                lost_at,
            }) as Box<dyn Worker>
        };
        let duration = Duration::from_millis(20);
        closed_loop(
            (0..workers).map(|_| worker()).collect(),
            duration,
            &ProgressBar::hidden(),
            || (),
        )
    }

    #[test]
    fn refusals_are_counted_and_a_lost_connection_ends_its_worker() {
        let measured = check(3, 10, 25).unwrap();
        assert_eq!((measured.latency.len(), measured.errors), (3 * 22, 3 * 3));
        assert_eq!(measured.first_error.unwrap(), "the server refused: no");
    }

    #[test]
    fn the_loop_ends_when_the_time_is_over() {
        let measured = check(2, u64::MAX, u64::MAX).unwrap();
        assert!(measured.elapsed >= Duration::from_millis(20) && measured.errors == 0);
    }

    #[test]
    fn a_run_without_success_is_an_error() {
        assert!(check(1, 1, 5).unwrap_err().to_string().contains("refused: no"));
    }
}
