//! A finished benchmark as data: what the text, the page and the comparison are made from, and the
//! JSON itself.

use crate::measure::Measured;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The percentiles of the published tables.
pub const PERCENTILES: [f64; 7] = [0.5, 0.75, 0.875, 0.9375, 0.9921875, 0.99902344, 1.0];

/// Bars of the histogram for each doubling of the latency.
const BUCKETS_PER_DOUBLING: f64 = 4.0;

/// One benchmark against one target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// "product", "news", "ycsb", "calvin", "search", "vectors" or "keyvalue".
    pub benchmark: String,
    /// CPU of the load generator.
    pub quartet_version: String,
    /// UTC, such as "2025-03-31T09:05:00Z".
    pub started_at: String,
    pub machine: Machine,
    pub target: TargetSummary,
    pub settings: Settings,
    /// The meaning of a request and of its figures.
    pub request: String,
    pub cells: Vec<Cell>,
}

/// The machine that generated the load; the server may be on another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub processors: usize,
    pub processor_model: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TargetSummary {
    pub address: String,
    pub version: String,
    /// Started by the benchmark for itself.
    pub embedded: bool,
    /// The process with the measured CPU time.
    pub server_pid: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    pub seed: u64,
    /// Figures of each cell.
    pub seconds: f64,
    pub parallelism: Vec<u32>,
    pub tests: Vec<String>,
}

/// One test at one parallelism.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    pub test: String,
    pub parallelism: u32,
    pub elapsed_seconds: f64,
    /// Number of successful requests.
    pub requests: u64,
    pub requests_per_second: f64,
    pub requests_per_minute: f64,
    pub errors: u64,
    pub first_error: Option<String>,
    pub latency_us: Latency,
    /// `None` if the server's process was not visible.
    pub server_cpu_us_per_request: Option<f64>,
    pub client_cpu_us_per_request: Option<f64>,
    /// The part of the nearest that was found, from 0 to 1, where requests look for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall: Option<f64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency {
    pub min: u64,
    pub mean: f64,
    pub standard_deviation: f64,
    pub max: u64,
    /// Not among the published percentiles of product, but the only one of news.
    pub p99: u64,
    /// At `PERCENTILES`.
    pub percentiles: Vec<Percentile>,
    /// Finer, ascending, ending at 1.0: for curves.
    pub curve: Vec<Percentile>,
    /// Ascending; without empty buckets.
    pub buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// 0.0 to 1.0.
    pub percentile: f64,
    pub latency_us: u64,
    /// Requests that took no longer than `latency_us`.
    pub count: u64,
}

/// Latencies from `from_us` inclusive to `to_us` exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    pub from_us: u64,
    pub to_us: u64,
    pub count: u64,
}

/// CPU time used while a cell ran, where it could be seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuUsed {
    pub server: Option<Duration>,
    pub client: Option<Duration>,
}

impl Cell {
    pub fn new(test: &str, parallelism: u32, measured: &Measured, cpu: CpuUsed) -> Cell {
        let requests = measured.latency.len();
        let elapsed_seconds = measured.elapsed.as_secs_f64();
        let requests_per_second = requests as f64 / elapsed_seconds;
        let us_per_request = |used: Duration| used.as_secs_f64() * 1e6 / requests as f64;
        Cell {
            test: test.to_owned(),
            parallelism,
            elapsed_seconds,
            requests,
            requests_per_second,
            requests_per_minute: requests_per_second * 60.0,
            errors: measured.errors,
            first_error: measured.first_error.clone(),
            latency_us: Latency::of(&measured.latency),
            server_cpu_us_per_request: cpu.server.map(us_per_request),
            client_cpu_us_per_request: cpu.client.map(us_per_request),
            recall: measured.recall.share(),
        }
    }
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Latency {
        let curve = histogram
            .iter_quantiles(2)
            .map(|step| at(histogram, step.quantile_iterated_to()));
        Latency {
            min: histogram.min(),
            mean: histogram.mean(),
            standard_deviation: histogram.stdev(),
            max: histogram.max(),
            p99: histogram.value_at_quantile(0.99),
            percentiles: PERCENTILES
                .iter()
                .map(|&percentile| at(histogram, percentile))
                .collect(),
            curve: curve.collect(),
            buckets: buckets(histogram),
        }
    }

    /// Microseconds at one of `PERCENTILES`; at any other the longest latency, which is never a
    /// good figure.
    pub fn at(&self, percentile: f64) -> u64 {
        let point = self.percentiles.iter().find(|point| point.percentile == percentile);
        point.map_or(self.max, |point| point.latency_us)
    }
}

fn at(histogram: &Histogram<u64>, percentile: f64) -> Percentile {
    let latency_us = histogram.value_at_quantile(percentile);
    Percentile {
        percentile,
        latency_us,
        count: histogram.count_between(0, latency_us),
    }
}

fn buckets(histogram: &Histogram<u64>) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    for step in histogram.iter_recorded() {
        let number = ((step.value_iterated_to() as f64).log2() * BUCKETS_PER_DOUBLING).floor();
        let bound = |number: f64| (number / BUCKETS_PER_DOUBLING).exp2().ceil() as u64;
        match buckets.last_mut().filter(|last| last.from_us == bound(number)) {
            Some(last) => last.count += step.count_at_value(),
            None => buckets.push(Bucket {
                from_us: bound(number),
                to_us: bound(number + 1.0),
                count: step.count_at_value(),
            }),
        }
    }
    buckets
}

#[cfg(test)]
pub mod samples {
    //! Results without a server, as input of tests.

    use super::*;
    use crate::measure::Recall;

    /// One cell with latencies of 1 to 1,000 microseconds, once each, in two seconds.
    pub fn results(benchmark: &str, test: &str) -> Results {
        let mut latency = Histogram::new_with_bounds(1, 60_000_000, 3).unwrap();
        (1..=1000).for_each(|latency_us| latency.record(latency_us).unwrap());
        let measured = Measured {
            latency,
            elapsed: Duration::from_secs(2),
            errors: 0,
            first_error: None,
            recall: Recall::default(),
        };
        let cpu = CpuUsed {
            server: Some(Duration::from_millis(20)),
            client: None,
        };
        Results {
            benchmark: benchmark.to_owned(),
            quartet_version: "0.1.0".to_owned(),
            started_at: "2025-03-31T09:05:00Z".to_owned(),
            machine: Machine {
                processors: 2,
                processor_model: Some("A <fast> one".to_owned()),
            },
            target: TargetSummary {
                address: "redis://127.0.0.1:6379/0".to_owned(),
                version: "Redis 7.0.15".to_owned(),
                embedded: false,
                server_pid: Some(42),
            },
            settings: Settings {
                seed: 1,
                seconds: 2.0,
                parallelism: vec![10],
                tests: vec![test.to_owned()],
            },
            request: "One command.".to_owned(),
            cells: vec![Cell::new(test, 10, &measured, cpu)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_adds_up() {
        let cell = &samples::results("product", "read").cells[0];
        assert_eq!(
            (cell.requests, cell.requests_per_second, cell.requests_per_minute),
            (1000, 500.0, 30_000.0)
        );
        assert_eq!(cell.server_cpu_us_per_request, Some(20.0));
        assert_eq!(
            cell.latency_us.buckets.iter().map(|bucket| bucket.count).sum::<u64>(),
            1000
        );
        let first = Percentile {
            percentile: 0.5,
            latency_us: 500,
            count: 500,
        };
        let last = Percentile {
            percentile: 1.0,
            latency_us: 1000,
            count: 1000,
        };
        assert_eq!(cell.latency_us.percentiles.first(), Some(&first));
        assert_eq!(cell.latency_us.percentiles.last(), Some(&last));
        assert_eq!(cell.latency_us.curve.last(), Some(&last));
        assert!(
            cell.latency_us
                .curve
                .is_sorted_by(|a, b| a.percentile <= b.percentile && a.count <= b.count)
        );
        assert_eq!((cell.latency_us.at(0.5), cell.latency_us.p99), (500, 990));
    }

    #[test]
    fn json_keeps_everything() {
        let json = serde_json::to_string(&samples::results("product", "read")).unwrap();
        let read: Results = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
    }
}
