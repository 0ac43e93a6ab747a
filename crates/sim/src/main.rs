//! `quartet-sim --seeds 1000` runs seeds 0 to 999; `quartet-sim --seed 7` runs one of them again
//! and shows its hash.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

/// Runs the engine in seeded worlds and judges what it did.
#[derive(Parser)]
struct Arguments {
    /// How many seeds to run, from 0 on.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// Only this one.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seeds = match arguments.seed {
        Some(seed) => seed..seed + 1,
        None => 0..arguments.seeds,
    };
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
