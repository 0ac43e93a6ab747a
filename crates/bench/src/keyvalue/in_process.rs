//! The same transactions on an engine in this process, called by one thread: what the protocol, the
//! sockets and the client add is the difference to the other figures.
//!
//! A write transaction counts when it is on disk. Up to `--parallelism` of them may wait for that,
//! like the transactions of as many clients.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{KeyValueArguments, LOADED_AT_ONCE, Test, key, results, value};
use crate::cpu::difference;
use crate::measure::{Measured, Recall, histogram};
use crate::random::Random;
use crate::report_files::write_report;
use crate::results::{Cell, CpuUsed, TargetSummary};
use crate::{InProcess, OpenInProcess, cpu, report};

pub(super) fn run(arguments: &KeyValueArguments, open: OpenInProcess) -> anyhow::Result<()> {
    let target = TargetSummary {
        address: "in this process".to_owned(),
        version: "the engine".to_owned(),
        embedded: true,
        server_pid: Some(std::process::id()),
    };
    let mut results = results(arguments, target);
    println!("{}", report::heading(&results));
    let database = open()?;
    load(arguments, database.as_ref())?;
    for test in arguments.tests.clone() {
        for waiting_max in arguments.run.parallelism.clone() {
            let cell = run_cell(arguments, database.as_ref(), test, waiting_max)?;
            println!("{}", report::cell(&cell));
            results.cells.push(cell);
        }
    }
    match &arguments.run.report {
        Some(directory) => write_report(&results, directory),
        None => Ok(()),
    }
}

fn load(arguments: &KeyValueArguments, database: &dyn InProcess) -> anyhow::Result<()> {
    let mut random = Random::new(arguments.run.seed, &[0]);
    let (mut first, mut last_commit) = (0, 0);
    while first < arguments.keys {
        let last = arguments.keys.min(first + LOADED_AT_ONCE);
        let rows: Vec<_> = (first..last).map(|number| (key(number), value(&mut random))).collect();
        last_commit = database.write(&rows)?;
        first = last;
    }
    database.wait_durable(last_commit)
}

fn run_cell(
    arguments: &KeyValueArguments,
    database: &dyn InProcess,
    test: Test,
    waiting_max: u32,
) -> anyhow::Result<Cell> {
    let writes = test.writes_of(arguments.operations) as usize;
    let mut running = Running {
        database,
        waiting_max: waiting_max as usize,
        waiting: VecDeque::new(),
        latency: histogram(),
    };
    let mut random = Random::new(arguments.run.seed, &[1]);
    let mut keys = vec![[0; 16]; arguments.operations as usize - writes];
    let mut rows = vec![([0; 16], Vec::new()); writes];
    let used = || cpu::process_cpu(std::process::id());
    let (before, began) = (used(), Instant::now());
    let duration = Duration::from_secs(arguments.run.seconds);
    while began.elapsed() < duration {
        keys.fill_with(|| key(random.below(arguments.keys)));
        rows.fill_with(|| (key(random.below(arguments.keys)), value(&mut random)));
        running.transaction(&keys, &rows)?;
    }
    running.settle(0)?;
    let measured = Measured {
        latency: running.latency,
        elapsed: began.elapsed(),
        errors: 0,
        first_error: None,
        recall: Recall::default(),
    };
    let cpu = CpuUsed {
        server: difference(before, used()),
        client: None,
    };
    Ok(Cell::new(test.name(), waiting_max, &measured, cpu))
}

struct Running<'d> {
    database: &'d dyn InProcess,
    waiting_max: usize,
    /// Commits that are not known to be on disk, oldest first, with the start time of their
    /// transactions.
    waiting: VecDeque<(u64, Instant)>,
    latency: Histogram<u64>,
}

impl Running<'_> {
    fn transaction(&mut self, keys: &[[u8; 16]], rows: &[([u8; 16], Vec<u8>)]) -> anyhow::Result<()> {
        let began = Instant::now();
        if !keys.is_empty() {
            anyhow::ensure!(
                self.database.read(keys) == keys.len(),
                "a key that was loaded is missing"
            );
        }
        if rows.is_empty() {
            self.ended(began);
            return Ok(());
        }
        let commit = self.database.write(rows)?;
        self.waiting.push_back((commit, began));
        self.settle(self.waiting_max - 1)
    }

    /// Counts the transactions on disk, and waits until no more than a given number are not.
    fn settle(&mut self, left_max: usize) -> anyhow::Result<()> {
        while let Some(&(commit, began)) = self.waiting.front() {
            if self.waiting.len() > left_max {
                self.database.wait_durable(commit)?;
            } else if !self.database.is_durable(commit) {
                break;
            }
            self.waiting.pop_front();
            self.ended(began);
        }
        Ok(())
    }

    fn ended(&mut self, began: Instant) {
        let micros = began.elapsed().as_micros().max(1) as u64;
        self.latency.saturating_record(micros);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A commit is on disk after a wait for it or for a later commit.
    #[derive(Default)]
    struct Counting {
        commits: RefCell<u64>,
        durable: RefCell<u64>,
        waited: RefCell<Vec<u64>>,
    }

    impl InProcess for Counting {
        fn read(&self, keys: &[[u8; 16]]) -> usize {
            keys.len()
        }

        fn write(&self, _: &[([u8; 16], Vec<u8>)]) -> anyhow::Result<u64> {
            *self.commits.borrow_mut() += 1;
            Ok(*self.commits.borrow())
        }

        fn is_durable(&self, commit: u64) -> bool {
            commit <= *self.durable.borrow()
        }

        fn wait_durable(&self, commit: u64) -> anyhow::Result<()> {
            self.waited.borrow_mut().push(commit);
            *self.durable.borrow_mut() = *self.commits.borrow();
            Ok(())
        }
    }

    #[test]
    fn a_transaction_counts_when_it_is_on_disk() {
        let database = Counting::default();
        let mut running = Running {
            database: &database,
            waiting_max: 3,
            waiting: VecDeque::new(),
            latency: histogram(),
        };
        let rows = [([0; 16], Vec::new())];
        (0..2).for_each(|_| running.transaction(&[], &rows).unwrap());
        assert_eq!((running.latency.len(), running.waiting.len()), (0, 2));
        running.transaction(&[], &rows).unwrap();
        assert_eq!((running.latency.len(), running.waiting.len()), (3, 0));
        running.transaction(&[[1; 16]], &[]).unwrap();
        running.transaction(&[], &rows).unwrap();
        running.settle(0).unwrap();
        assert_eq!(running.latency.len(), 5);
        assert_eq!(*database.waited.borrow(), [1, 4]);
    }
}
