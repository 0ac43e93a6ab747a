//! `quartet-sim --seeds 1000` runs seeds 0 to 999, `--first 1000` the next thousand; `--seed 7`
//! runs one of them again and shows its hash. `--cluster`: three engines that share a log instead
//! of one. `--partitions`: three partitions of one process, between which databases move.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use quartet_sim::cluster::{Mistake, first_finding};

/// Runs the engine in seeded worlds and checks its guarantees.
#[derive(Parser)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Run only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Three engines over a replicated log.
    #[arg(long)]
    cluster: bool,
    /// Three partitions of one process, between which databases move.
    #[arg(long, conflicts_with = "cluster")]
    partitions: bool,
    /// Plants each mistake in turn, and looks for the first seed that shows it.
    #[arg(long, requires = "cluster")]
    mistakes: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seeds = match arguments.seed {
        Some(seed) => seed..seed + 1,
        None => arguments.first..arguments.first + arguments.seeds,
    };
    if arguments.mistakes {
        return find_mistakes(seeds);
    }
    if arguments.cluster {
        return run_cluster(seeds);
    }
    if arguments.partitions {
        return run_partitions(seeds);
    }
    let started = Instant::now();
    let (mut ran, mut failed, mut crashes, mut hash) = (0u64, 0u64, 0, 0u64);
    for seed in seeds {
        ran += 1;
        match quartet_sim::run(seed, None) {
            Ok(report) => {
                crashes += report.crashes;
                hash = hash.rotate_left(1) ^ report.hash;
            }
            Err(violation) => {
                failed += 1;
                println!("seed {seed}: {violation}");
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{ran} seeds, {crashes} crashes, {failed} failed, hash {hash:016x}, {seconds:.1} s");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_cluster(seeds: std::ops::Range<u64>) -> ExitCode {
    let (mut ran, mut failed, mut hash, mut simulated) = (0_u64, 0_u64, 0_u64, 0.0);
    let mut reached = std::collections::BTreeMap::new();
    for seed in seeds {
        ran += 1;
        match quartet_sim::cluster::run(seed, None) {
            Ok(report) => {
                hash = hash.rotate_left(1) ^ report.hash;
                simulated += report.simulated.as_secs_f64();
                for (state, count) in report.reached {
                    *reached.entry(state).or_insert(0_u64) += count;
                }
            }
            Err(violation) => {
                failed += 1;
                println!("seed {seed}: {violation}");
            }
        }
    }
    for (state, count) in &reached {
        println!("{count:>10} {state}");
    }
    let each = cpu_seconds() / ran.max(1) as f64;
    println!(
        "{ran} seeds of three nodes, {failed} failed, hash {hash:016x}, {:.2} simulated hours, {each:.2} s of processor time a seed",
        simulated / 3600.0
    );
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn run_partitions(seeds: std::ops::Range<u64>) -> ExitCode {
    let (mut ran, mut failed, mut crashes, mut hash) = (0_u64, 0_u64, 0, 0_u64);
    let mut reached = std::collections::BTreeMap::new();
    for seed in seeds {
        ran += 1;
        match quartet_sim::partitions::run(seed, None) {
            Ok(report) => {
                hash = hash.rotate_left(1) ^ report.hash;
                crashes += report.crashes;
                for (event, times) in report.reached {
                    *reached.entry(event).or_insert(0_u64) += times;
                }
            }
            Err(finding) => {
                failed += 1;
                println!("seed {seed}: {finding}");
            }
        }
    }
    for (event, times) in &reached {
        println!("{times:>10} {event}");
    }
    println!(
        "{ran} seeds of three partitions, {crashes} crashes, {failed} failed, hash {hash:016x}, {:.1} s of processor time",
        cpu_seconds()
    );
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Processor time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Fails unless each mistake is found, and as what it is.
fn find_mistakes(seeds: std::ops::Range<u64>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for mistake in Mistake::ALL {
        let Some((seed, violation)) = first_finding(mistake, seeds.clone()) else {
            println!("{mistake:?} is not found");
            code = ExitCode::FAILURE;
            continue;
        };
        println!("{mistake:?}: seed {seed}: {violation}");
        if !mistake.explains(&violation) {
            println!("this is not what it leads to");
            code = ExitCode::FAILURE;
        }
    }
    code
}
