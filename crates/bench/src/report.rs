//! Results as text, in the shape the published results were printed in, so that the two can be laid
//! side by side.

use crate::results::{Cell, Results};
use std::fmt::Write;

/// The lines above the cells: what ran, where, against what.
pub fn heading(results: &Results) -> String {
    let mut text = String::new();
    let target = &results.target;
    let _ = writeln!(
        text,
        "{} benchmark: {} at {}",
        results.benchmark, target.version, target.address
    );
    let _ = writeln!(text, "{}", results.request);
    let machine = &results.machine;
    let model = machine.processor_model.as_deref().unwrap_or("unknown");
    let settings = &results.settings;
    let _ = writeln!(
        text,
        "{}, seed {}, {} s a test, load from {} processors ({model})",
        results.started_at, settings.seed, settings.seconds, machine.processors
    );
    text
}

/// One test at one parallelism.
pub fn cell(cell: &Cell) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}, parallelism {}", cell.test, cell.parallelism);
    let _ = writeln!(text, "Latency(us)  Percentile  Count");
    for point in &cell.latency_us.percentiles {
        let _ = writeln!(
            text,
            "{:>11}  {:<10}  {}",
            point.latency_us, point.percentile, point.count
        );
    }
    let _ = writeln!(text, "Requests completed per minute: {:.0}", cell.requests_per_minute);
    let _ = writeln!(text, "Requests completed per second: {:.1}", cell.requests_per_second);
    let _ = match &cell.first_error {
        Some(first) => writeln!(text, "Errors: {} (the first: {first})", cell.errors),
        None => writeln!(text, "Errors: {}", cell.errors),
    };
    if let Some(recall) = cell.recall {
        let _ = writeln!(text, "Recall: {recall:.4}");
    }
    let _ = writeln!(text, "Server CPU: {}", cpu(cell.server_cpu_us_per_request));
    let _ = writeln!(text, "Client CPU: {}", cpu(cell.client_cpu_us_per_request));
    text
}

fn cpu(us_per_request: Option<f64>) -> String {
    us_per_request.map_or_else(
        || "not visible from here".to_owned(),
        |us| format!("{us:.2} us per request"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::samples;

    #[test]
    fn a_cell_has_the_published_shape() {
        let expected = "\
read, parallelism 10
Latency(us)  Percentile  Count
        500  0.5         500
        750  0.75        750
        875  0.875       875
        938  0.9375      938
        993  0.9921875   993
       1000  0.99902344  1000
       1000  1           1000
Requests completed per minute: 30000
Requests completed per second: 500.0
Errors: 0
Server CPU: 20.00 us per request
Client CPU: not visible from here
";
        let mut results = samples::results("product", "read");
        assert_eq!(cell(&results.cells[0]), expected);
        results.cells[0].recall = Some(0.9876);
        assert!(cell(&results.cells[0]).contains("Errors: 0\nRecall: 0.9876\n"));
    }

    #[test]
    fn the_heading_names_target_seed_and_machine() {
        let text = heading(&samples::results("product", "read"));
        assert!(text.starts_with("product benchmark: Redis 7.0.15 at redis://127.0.0.1:6379/0\n"));
        assert!(text.contains("seed 1, 2 s a test, load from 2 processors (A <fast> one)"));
    }
}
