//! How long requests take, by layer and operation, as `/metrics` shows it.
//!
//! Redis' commands are measured by their layer, once for everything that tells of durations. Here are the layers behind HTTP: two
//! clock readings and two atomic additions for each of their requests, which take a thousand times as long.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use quartet_layer_dynamodb::Target;
use quartet_layer_redis::Redis;
use quartet_layer_redis::latency::Histogram;

/// Durations of one operation.
#[derive(Default)]
pub struct Durations {
    histogram: Histogram,
    micros: AtomicU64,
}

impl Durations {
    pub fn add(&self, micros: u64) {
        self.histogram.add(micros);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

/// Of all layers behind HTTP, by operation.
pub struct OfLayers {
    dynamodb: BTreeMap<&'static str, Durations>,
    pub fauna_query: Durations,
}

impl Default for OfLayers {
    fn default() -> OfLayers {
        OfLayers {
            dynamodb: Target::names().map(|name| (name, Durations::default())).collect(),
            fauna_query: Durations::default(),
        }
    }
}

impl OfLayers {
    pub fn dynamodb(&self, operation: &'static str) -> &Durations {
        &self.dynamodb[operation]
    }
}

/// Bounds of the buckets, in microseconds. Histograms have one for each power of two; one in four is shown.
const BOUNDS: [u64; 11] = [
    16,
    64,
    256,
    1 << 10,
    1 << 12,
    1 << 14,
    1 << 16,
    1 << 18,
    1 << 20,
    1 << 22,
    1 << 24,
];
const NAME: &str = "quartet_request_duration_seconds";

/// The histograms of every operation that was ever asked for, of the default database's layer of Redis and of all others.
pub fn render(redis: &Redis, layers: &OfLayers, text: &mut String) {
    let _ = writeln!(
        text,
        "# HELP {NAME} How long requests took, by layer and operation, without waiting for the disk.\n# TYPE {NAME} histogram"
    );
    let commands = redis.observation.statistics.commands.0.iter().enumerate();
    for (index, counter) in commands {
        let name = redis.table.at(index).name;
        let micros = counter.micros.load(Ordering::Relaxed);
        histogram(text, ("redis", name), &counter.durations, micros);
    }
    let fauna = std::iter::once(("fauna", "query", &layers.fauna_query));
    let dynamodb = layers
        .dynamodb
        .iter()
        .map(|(name, durations)| ("dynamodb", *name, durations));
    for (layer, operation, durations) in fauna.chain(dynamodb) {
        let micros = durations.micros.load(Ordering::Relaxed);
        histogram(text, (layer, operation), &durations.histogram, micros);
    }
}

fn histogram(text: &mut String, (layer, operation): (&str, &str), histogram: &Histogram, micros: u64) {
    let steps = histogram.cumulative();
    let Some((_, count)) = steps.last() else {
        return;
    };
    let labels = format!("layer=\"{layer}\",operation=\"{operation}\"");
    for bound in BOUNDS {
        let within = steps.iter().rev().find(|(upper, _)| *upper <= bound);
        let within = within.map_or(0, |(_, calls)| *calls);
        let _ = writeln!(text, "{NAME}_bucket{{{labels},le=\"{}\"}} {within}", seconds(bound));
    }
    let _ = writeln!(text, "{NAME}_bucket{{{labels},le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "{NAME}_sum{{{labels}}} {}", seconds(micros));
    let _ = writeln!(text, "{NAME}_count{{{labels}}} {count}");
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_took_no_longer() {
        let durations = Durations::default();
        [1, 16, 17, 1000, 5_000_000]
            .iter()
            .for_each(|micros| durations.add(*micros));
        let mut text = String::new();
        histogram(&mut text, ("fauna", "query"), &durations.histogram, 5_001_034);
        let line = |bound: &str, count: u64| {
            let line = format!("{NAME}_bucket{{layer=\"fauna\",operation=\"query\",le=\"{bound}\"}} {count}\n");
            assert!(text.contains(&line), "{line} in {text}");
        };
        line("0.000016", 2);
        line("0.000064", 3);
        line("0.001024", 4);
        line("4.194304", 4);
        line("16.777216", 5);
        line("+Inf", 5);
        assert!(text.ends_with(&format!("{NAME}_count{{layer=\"fauna\",operation=\"query\"}} 5\n")));
        assert!(text.contains("_sum{layer=\"fauna\",operation=\"query\"} 5.001034\n"));
    }

    #[test]
    fn what_was_never_asked_for_is_left_out() {
        let mut text = String::new();
        histogram(&mut text, ("fauna", "query"), &Histogram::default(), 0);
        assert_eq!(text, "");
        assert!(OfLayers::default().dynamodb.contains_key("PutItem"));
    }
}
