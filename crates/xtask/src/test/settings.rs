//! Environment variables that lengthen a run or change its seeds, with their defaults.

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

/// A setting from the environment, or its default.
pub fn setting(name: &str) -> String {
    let default = SETTINGS.iter().find(|(known, _)| *known == name);
    let (_, default) = default.expect("the table has each setting that a part reads");
    std::env::var(name).unwrap_or_else(|_| (*default).to_owned())
}
