//! `cargo xtask test`, and the script `test` at the root: everything that must hold, in parts.
//!
//! ```text
//! ./test                 all parts
//! ./test PART...         these parts
//! ./test --since REF     the parts that a change since REF touches
//! ./test --keep-going    all parts, or the named ones, also after a failure
//! ./test --list          the parts, the lane of each, its seconds on two cores
//! ```
//!
//! Two lanes run side by side: one computes (compilers, Rust tests, fuzzing), the other mostly
//! waits (servers, clients, kills). A lane that has run its own parts takes shared parts. After a
//! failure no further part starts. A part writes its output to `target/test/PART.log`; a
//! run of one part shows it as well. The last lines are each part's seconds, and `N passed, N
//! failed`. A run that has lasted 40 minutes repeats seeded work less often, and says so.
//!
//! `QUARTET_TEST_TARGET=redis` runs the client parts against redis-server, to test the tests;
//! `=cluster` and `=follower` against a node of a cluster that is home, or is not.
//! `QUARTET_TEST_PARTITIONS=4` gives each server four partitions.

mod fuzz;
mod needs;
mod parts;
mod run;
mod settings;
mod since;
mod suites;
mod tally;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use needs::Installer;
use parts::{Lane, PARTS, Part};
use run::Run;
pub use settings::SETTINGS;
use tally::Tally;

/// Lines of a failed part's log that the run prints.
const TAIL: usize = 200;

/// Variables that the run sets where the caller does not. Registries fail now and then; random
/// choices are the same in each run, so that only a change makes a run fail.
const VARIABLES: [(&str, &str); 9] = [
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("GOFLAGS", "-mod=readonly"),
    ("CARGO_TERM_COLOR", "never"),
    ("PROPTEST_RNG_SEED", "1"),
    ("SHUTTLE_RANDOM_SEED", "1"),
    ("CARGO_NET_RETRY", "10"),
    ("PIP_RETRIES", "10"),
    ("PIP_DEFAULT_TIMEOUT", "60"),
    ("npm_config_fetch_retries", "5"),
];

/// Ports that the servers of a lane choose from, so that two lanes never choose the same one.
const PORTS: [&str; 2] = ["20000-24999", "25000-29999"];

/// Runs the named parts; an empty list is all of them.
pub fn test(root: &Path, arguments: &[&str]) -> Result<()> {
    settings::note_start();
    let (arguments, keeps_going) = match arguments {
        ["--keep-going", names @ ..] => (names, true),
        all => (all, false),
    };
    let chosen = match arguments {
        ["--list"] => return list(),
        ["--since", reference] => since::touched(root, reference)?,
        names => by_name(names)?,
    };
    std::fs::create_dir_all(root.join("target/test"))?;
    let outcomes = Outcomes::default();
    let shows = chosen.len() == 1;
    let installer = Installer::new(root);
    let lanes = Lanes::new(&chosen, keeps_going);
    std::thread::scope(|scope| {
        for (lane, ports) in [Lane::Computes, Lane::Waits].into_iter().zip(PORTS) {
            let (lanes, outcomes, installer) = (&lanes, &outcomes, &installer);
            scope.spawn(move || {
                while let Some(part) = lanes.next(lane, outcomes) {
                    outcomes.add(part, run_part(root, part, installer, ports, shows));
                }
            });
        }
    });
    outcomes.report()
}

fn list() -> Result<()> {
    for part in &PARTS {
        println!("{:20} {:8} {:>5} s", part.name, part.lane.name(), part.seconds);
    }
    Ok(())
}

fn by_name(names: &[&str]) -> Result<Vec<&'static Part>> {
    if names.is_empty() {
        return Ok(PARTS.iter().collect());
    }
    let part = |name: &&str| PARTS.iter().find(|part| part.name == *name);
    match names.iter().find(|name| part(name).is_none()) {
        Some(name) => {
            let all: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
            bail!("no part named '{name}'; the parts are: {}", all.join(" "))
        }
        None => Ok(names.iter().filter_map(part).collect()),
    }
}

fn run_part(root: &Path, part: &'static Part, installer: &Installer, ports: &str, shows: bool) -> Outcome {
    println!("== {}", part.name);
    let start = Instant::now();
    let mut run = match Run::new(root, part.name, shows) {
        Ok(run) => run,
        Err(error) => return Outcome::failed(start, &error),
    };
    run.set("PYTHONPATH", root.join("tests").display());
    run.set("QUARTET_TEST_PORTS", ports);
    for (name, value) in VARIABLES {
        if std::env::var_os(name).is_none() {
            run.set(name, value);
        }
    }
    let result = part
        .needs
        .iter()
        .try_for_each(|need| installer.provide(need, &mut run))
        .and_then(|()| (part.run)(&mut run));
    let mut tally = run.tally;
    if let Err(error) = &result {
        tally.failed = tally.failed.max(1);
        if !shows {
            print_tail(&run.log_path());
        }
        println!("{}: {error:#}", part.name);
    }
    let seconds = start.elapsed();
    println!("== {}: {tally} ({} s)", part.name, seconds.as_secs());
    Outcome { tally, seconds }
}

fn print_tail(log: &Path) {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    println!("{}", lines[lines.len().saturating_sub(TAIL)..].join("\n"));
}

/// The parts that have not started, by lane.
struct Lanes {
    keeps_going: bool,
    waiting: Mutex<VecDeque<&'static Part>>,
}

impl Lanes {
    fn new(chosen: &[&'static Part], keeps_going: bool) -> Lanes {
        Lanes {
            keeps_going,
            waiting: Mutex::new(chosen.iter().copied().collect()),
        }
    }

    /// Removes and returns the lane's next part, or the next shared part. `None` after a failure,
    /// unless the run keeps going.
    fn next(&self, lane: Lane, outcomes: &Outcomes) -> Option<&'static Part> {
        if !self.keeps_going && outcomes.has_failure() {
            return None;
        }
        let mut waiting = self.waiting.lock().expect("no lane panics");
        let position = |lane: Lane| waiting.iter().position(|part| part.lane == lane);
        let index = position(lane).or_else(|| position(Lane::Either))?;
        waiting.remove(index)
    }
}

struct Outcome {
    tally: Tally,
    seconds: Duration,
}

impl Outcome {
    fn failed(start: Instant, error: &anyhow::Error) -> Outcome {
        println!("{error:#}");
        Outcome {
            tally: Tally { passed: 0, failed: 1 },
            seconds: start.elapsed(),
        }
    }
}

#[derive(Default)]
struct Outcomes {
    ended: Mutex<Vec<(&'static Part, Outcome)>>,
}

impl Outcomes {
    fn add(&self, part: &'static Part, outcome: Outcome) {
        self.ended.lock().expect("no lane panics").push((part, outcome));
    }

    fn has_failure(&self) -> bool {
        let ended = self.ended.lock().expect("no lane panics");
        ended.iter().any(|(_, outcome)| outcome.tally.failed > 0)
    }

    /// Prints each part's seconds and the sum of all counts, and fails if anything has failed.
    fn report(self) -> Result<()> {
        let ended = self.ended.into_inner().expect("no lane panics");
        let mut total = Tally::default();
        println!("seconds of each part:");
        for (part, outcome) in &ended {
            println!("{:>6} {}", outcome.seconds.as_secs(), part.name);
            total.add(outcome.tally);
        }
        let failed: Vec<&str> = ended
            .iter()
            .filter(|(_, outcome)| outcome.tally.failed > 0)
            .map(|(part, _)| part.name)
            .collect();
        if !failed.is_empty() {
            println!("== failed: {}", failed.join(" "));
        }
        println!("{total}");
        match failed.is_empty() {
            true => Ok(()),
            false => std::process::exit(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(lanes: &Lanes, lane: Lane) -> Vec<&'static str> {
        let outcomes = Outcomes::default();
        std::iter::from_fn(|| lanes.next(lane, &outcomes))
            .map(|part| part.name)
            .collect()
    }

    #[test]
    fn a_lane_prefers_its_own_parts_to_shared_parts() {
        let lanes = Lanes::new(&by_name(&["node", "crash", "unit", "lint"]).unwrap(), false);
        assert_eq!(names(&lanes, Lane::Computes), ["unit", "lint", "node"]);
        assert_eq!(names(&lanes, Lane::Waits), ["crash"]);
    }

    #[test]
    fn no_part_starts_after_a_failure() {
        let lanes = Lanes::new(&by_name(&["unit", "lint"]).unwrap(), false);
        let outcomes = Outcomes::default();
        let unit = lanes.next(Lane::Computes, &outcomes).unwrap();
        outcomes.add(unit, Outcome::failed(Instant::now(), &anyhow::anyhow!("a test failed")));
        assert!(lanes.next(Lane::Computes, &outcomes).is_none());
    }

    #[test]
    fn an_unknown_part_is_refused_and_the_error_lists_the_parts() {
        let error = by_name(&["unit", "unti"]).err().unwrap().to_string();
        assert!(error.contains("'unti'") && error.contains(" unit "), "{error}");
    }
}
