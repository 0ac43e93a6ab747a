//! Environment variables that lengthen a run or change its seeds, with their defaults.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Names and defaults; documents quote the defaults.
pub const SETTINGS: [(&str, &str); 15] = [
    ("SIMULATION_SEEDS", "1000"),
    ("PARTITION_SEEDS", "500"),
    ("CLUSTER_SEEDS", "200"),
    ("MISTAKE_SEEDS", "1000"),
    ("PARTIQL_SEED", "1"),
    ("PARTIQL_COUNT", "500"),
    ("CONSISTENCY_SECONDS", "20"),
    ("CRASH_CYCLES", "200"),
    ("FAULT_SEED", "1"),
    ("FAULT_OPERATIONS", "60000"),
    ("FAULT_SECONDS", "0"),
    ("INVARIANT_SECONDS", "30"),
    ("FUZZ_SEED", "20261125"),
    ("FUZZ_SECONDS", "7"),
    ("FUZZ_RUNS", "300000"),
];

/// Counts of seeds, kills and operations: a late run takes a quarter of each.
const REPEATED: [&str; 6] = [
    "SIMULATION_SEEDS",
    "PARTITION_SEEDS",
    "CLUSTER_SEEDS",
    "PARTIQL_COUNT",
    "CRASH_CYCLES",
    "FAULT_OPERATIONS",
];

/// A run that lasts longer is late: the machine is slow, or shared.
const LATE_AFTER: Duration = Duration::from_secs(40 * 60);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Notes the start of the run.
pub fn note_start() {
    LazyLock::force(&START);
}

/// A setting from the environment, or its default; in a late run the short form of a count.
pub fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default(name, START.elapsed()))
}

fn default(name: &str, elapsed: Duration) -> String {
    let default = SETTINGS.iter().find(|(key, _)| *key == name);
    let (_, default) = default.expect("the table has each setting that a part reads");
    match default.parse::<u64>() {
        Ok(count) if REPEATED.contains(&name) && elapsed > LATE_AFTER => {
            let short = count / 4;
            println!("{name}={short}: the run is late; {name}={count} runs all");
            short.to_string()
        }
        _ => (*default).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_run_repeats_less_and_changes_no_seed() {
        let late = LATE_AFTER + Duration::from_secs(1);
        assert_eq!(default("CRASH_CYCLES", LATE_AFTER), "200");
        assert_eq!(default("CRASH_CYCLES", late), "50");
        for name in ["MISTAKE_SEEDS", "FAULT_SEED", "PARTIQL_SEED", "FUZZ_RUNS"] {
            assert_eq!(default(name, late), default(name, Duration::ZERO), "{name}");
        }
    }
}
