//! Two runs of the same benchmark, cell by cell, as ratios of the second to the first.

use crate::arguments::CompareArguments;
use crate::results::{Cell, Latency, Results};
use anyhow::{Context, bail};
use std::fmt::Write;
use std::path::Path;

pub fn compare(arguments: &CompareArguments) -> anyhow::Result<()> {
    print!("{}", table(&read(&arguments.before)?, &read(&arguments.after)?)?);
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Results> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a benchmark's results", path.display()))
}

/// # Errors
///
/// The two are of different benchmarks, or have no cell in common.
fn table(before: &Results, after: &Results) -> anyhow::Result<String> {
    if before.benchmark != after.benchmark {
        bail!(
            "one is of the {} benchmark, the other of {}",
            before.benchmark,
            after.benchmark
        );
    }
    let pairs: Vec<(&Cell, &Cell)> = after
        .cells
        .iter()
        .filter_map(|cell| {
            let same = |other: &&Cell| other.test == cell.test && other.parallelism == cell.parallelism;
            Some((before.cells.iter().find(same)?, cell))
        })
        .collect();
    if pairs.is_empty() {
        bail!("the two have no test at the same parallelism");
    }
    let mut text = String::new();
    for (letter, results) in [("A", before), ("B", after)] {
        let target = &results.target;
        let _ = writeln!(
            text,
            "{letter}: {} at {}, {}",
            target.version, target.address, results.started_at
        );
    }
    let _ = writeln!(text, "B / A, above 1 is more\n");
    let _ = writeln!(
        text,
        "{:<12} {:>11} {:>10} {:>6} {:>6} {:>6}",
        "test", "parallelism", "requests/s", "p50", "p99", "CPU"
    );
    for (before, after) in pairs {
        let latency = |us: fn(&Latency) -> u64| us(&after.latency_us) as f64 / us(&before.latency_us) as f64;
        let cpu = after.server_cpu_us_per_request.zip(before.server_cpu_us_per_request);
        let cpu = cpu.map_or_else(|| "-".to_owned(), |(after, before)| format!("{:.2}", after / before));
        let _ = writeln!(
            text,
            "{:<12} {:>11} {:>10.2} {:>6.2} {:>6.2} {cpu:>6}",
            after.test,
            after.parallelism,
            after.requests_per_second / before.requests_per_second,
            latency(|latency| latency.at(0.5)),
            latency(|latency| latency.p99),
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::samples;

    #[test]
    fn equal_runs_have_ratios_of_one() {
        let results = samples::results("product", "read");
        let text = table(&results, &results).unwrap();
        assert!(
            text.ends_with("read                  10       1.00   1.00   1.00   1.00\n"),
            "{text}"
        );
    }

    #[test]
    fn runs_without_a_common_cell_are_refused() {
        let results = samples::results("product", "read");
        assert!(table(&results, &samples::results("product", "insert")).is_err());
        assert!(table(&results, &samples::results("news", "read")).is_err());
    }
}
