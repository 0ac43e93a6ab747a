//! The fuzz targets: built with coverage, two run at a time, each for a bounded number of inputs.
//!
//! The targets need no nightly compiler: the stable one takes the flags of `cargo fuzz` too, except
//! the address sanitizer, which finds little in safe Rust. A run starts with the stored inputs,
//! and `FUZZ_SEED` decides how they are mutated; earlier runs have no influence. The number of
//! inputs is bounded, so that quick and slow machines run the same inputs. `target/fuzz/corpus`
//! holds the inputs that reached new code until the next run, `target/fuzz/artifacts` the inputs
//! that failed.

use std::fs::File;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use super::run::{Run, command};
use super::settings::setting;
use super::tally::{Tally, number_after};

/// The target that panics on purpose: fuzzers that find nothing must have been able to.
const PLANTED: &str = "planted_panic";

/// Time limit for finding the planted panic, in seconds.
const PLANTED_SECONDS: &str = "300";

/// Targets that run at the same time.
const WORKERS: usize = 2;

pub fn fuzz(run: &mut Run) -> Result<()> {
    let version = run.must(run.command(&["rustc", "-vV"]))?;
    let platform = version.lines().find_map(|line| line.strip_prefix("host: "));
    let platform = platform.context("rustc names no host")?.to_owned();
    build(run, &platform)?;
    let seed = setting("FUZZ_SEED");
    run.say(&format!(
        "seed {seed}; FUZZ_SEED={seed} ./test fuzz runs the same inputs again"
    ))?;
    let fuzzer = Fuzzer {
        root: &run.root,
        platform: &platform,
        seed: &seed,
    };
    let planted = fuzzer.run(PLANTED, PLANTED_SECONDS, "-1")?;
    if planted.succeeded || !planted.output.contains("the planted panic") {
        bail!("the planted panic was not found");
    }
    let targets = Mutex::new(targets(&run.root)?);
    let ended = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let next = || targets.lock().expect("no worker panics").pop();
                while let Some(target) = next() {
                    let outcome = fuzzer.run(&target, &setting("FUZZ_SECONDS"), &inputs(&target).to_string());
                    ended.lock().expect("no worker panics").push((target, outcome));
                }
            });
        }
    });
    let mut failed = Vec::new();
    for (target, outcome) in ended.into_inner().expect("no worker panics") {
        let outcome = outcome?;
        run.tally.add(Tally {
            passed: usize::from(outcome.succeeded),
            failed: usize::from(!outcome.succeeded),
        });
        run.say(&format!("{target}: {} inputs", outcome.inputs()))?;
        if !outcome.succeeded {
            run.say(&outcome.output)?;
            failed.push(target);
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("failed: {}", failed.join(" ")),
    }
}

/// Naming the platform keeps the flags from build scripts.
fn build(run: &mut Run, platform: &str) -> Result<()> {
    let coverage = "-Cllvm-args=-sanitizer-coverage";
    let mut command = run.command(&["cargo", "build", "--locked", "--quiet", "--bins"]);
    command.args([
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--target-dir",
        "target/fuzz",
        "--target",
        platform,
    ]);
    command.env(
        "RUSTFLAGS",
        format!(
            "--cfg fuzzing -Cpasses=sancov-module {coverage}-level=4 {coverage}-inline-8bit-counters \
             {coverage}-pc-table {coverage}-trace-compares"
        ),
    );
    run.must(command).map(drop)
}

/// The names in `fuzz/Cargo.toml`.
fn targets(root: &Path) -> Result<Vec<String>> {
    let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml"))?;
    let programs = manifest.split("[[bin]]").skip(1);
    let names = programs.filter_map(|program| program.split("name = \"").nth(1)?.split('"').next());
    Ok(names.filter(|name| *name != PLANTED).map(str::to_owned).collect())
}

/// How many inputs a target gets: fewer where each takes long.
fn inputs(target: &str) -> i64 {
    let divisor = match target {
        "checkpoint_file" | "dynamodb_expression" | "fauna_query" | "log_record" => 3,
        "keyvalue_selector" | "lua_source" | "search_filter" => 10,
        _ => 1,
    };
    match setting("FUZZ_RUNS").parse::<i64>() {
        Ok(runs) if runs > 0 => runs / divisor,
        _ => -1,
    }
}

struct Fuzzer<'a> {
    root: &'a Path,
    platform: &'a str,
    seed: &'a str,
}

struct Outcome {
    output: String,
    succeeded: bool,
}

impl Outcome {
    fn inputs(&self) -> usize {
        let count = |line| number_after(line, "stat::number_of_executed_units: ");
        self.output.lines().find_map(count).unwrap_or(0)
    }
}

impl Fuzzer<'_> {
    fn run(&self, target: &str, seconds: &str, inputs: &str) -> Result<Outcome> {
        let corpus = format!("target/fuzz/corpus/{target}");
        let _ = std::fs::remove_dir_all(self.root.join(&corpus));
        std::fs::create_dir_all(self.root.join(&corpus))?;
        std::fs::create_dir_all(self.root.join("target/fuzz/artifacts"))?;
        let path = self.root.join(format!("target/test/fuzz-{target}.log"));
        let log = File::create(&path)?;
        let program = self.root.join(format!("target/fuzz/{}/debug/{target}", self.platform));
        let mut command = command(self.root, program);
        command.arg(corpus);
        let stored = format!("fuzz/seeds/{target}");
        if self.root.join(&stored).is_dir() {
            command.arg(stored);
        }
        command.arg(format!("-seed={}", self.seed));
        command.arg(format!("-max_total_time={seconds}"));
        command.arg(format!("-runs={inputs}"));
        command.arg(format!("-artifact_prefix=target/fuzz/artifacts/{target}-"));
        command.args(["-rss_limit_mb=2048", "-timeout=30", "-print_final_stats=1"]);
        let status = command.stdout(log.try_clone()?).stderr(log).status()?;
        Ok(Outcome {
            output: String::from_utf8_lossy(&std::fs::read(path)?).into_owned(),
            succeeded: status.success(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    #[test]
    fn the_planted_panic_is_not_among_the_targets() {
        let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"one\"\n[[bin]]\nname = \"planted_panic\"\n";
        let folder = tree(&[("fuzz/Cargo.toml", manifest)]);
        assert_eq!(targets(folder.path()).unwrap(), ["one"]);
    }
}
