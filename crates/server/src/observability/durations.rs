//! How long requests take, by layer and operation and by logical database, as `/metrics` shows it.
//!
//! Redis' commands are measured by their layer, once for everything that tells of durations. Here
//! are the other layers: one or two clock readings and a few atomic additions for each of their
//! requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use quartet_layer_dynamodb::Target;
use quartet_layer_redis::Redis;
use quartet_layer_redis::observation::latency::Histogram;
use quartet_tenancy::{BriefHistogram, DURATION_BOUNDS, Database};

use crate::observability::exposition::{Buckets, Exposition, Kind};

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

/// For all layers but Redis', by operation.
pub struct OfLayers {
    dynamodb: BTreeMap<&'static str, Durations>,
    pub fauna_query: Durations,
    keyvalue: [Durations; KEYVALUE_OPERATIONS.len()],
    rest: [Durations; REST_OPERATIONS.len()],
    /// For the default database.
    default_database: BriefHistogram,
}

/// The requests of the key-value protocol that have an answer.
pub const KEYVALUE_OPERATIONS: [&str; 9] = [
    "read_version",
    "get",
    "get_key",
    "get_range",
    "commit",
    "watch",
    "estimated_bytes",
    "split_points",
    "status",
];

/// The kinds of REST requests.
pub const REST_OPERATIONS: [&str; 3] = ["command", "pipeline", "transaction"];

impl Default for OfLayers {
    fn default() -> OfLayers {
        OfLayers {
            dynamodb: Target::names().map(|name| (name, Durations::default())).collect(),
            fauna_query: Durations::default(),
            keyvalue: Default::default(),
            rest: Default::default(),
            default_database: BriefHistogram::default(),
        }
    }
}

impl OfLayers {
    pub fn dynamodb(&self, operation: &'static str) -> &Durations {
        &self.dynamodb[operation]
    }

    /// By its place among [`KEYVALUE_OPERATIONS`].
    pub fn keyvalue(&self, operation: usize) -> &Durations {
        &self.keyvalue[operation]
    }

    /// By its place among [`REST_OPERATIONS`].
    pub fn rest(&self, operation: usize) -> &Durations {
        &self.rest[operation]
    }

    /// The histogram of a database; `None` is the default one.
    pub fn of_database<'d>(&'d self, database: Option<&'d Database>) -> &'d BriefHistogram {
        database.map_or(&self.default_database, |database| &database.meter.durations)
    }
}

/// Bounds of the buckets, in microseconds. Histograms have one for each power of two; one in four
/// is shown.
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

/// The histograms of every operation that was ever asked for, of the default database's layer of
/// Redis and of all others.
pub fn write(redis: &Redis, layers: &OfLayers, out: &mut dyn Exposition) {
    let help = "How long requests took, by layer and operation, without waiting for the disk.";
    out.family(NAME, Kind::Histogram, help);
    let commands = redis.observation.statistics.commands.0.iter().enumerate();
    for (index, counter) in commands {
        let micros = counter.micros.load(Ordering::Relaxed);
        operation(("redis", redis.table.at(index).name), &counter.durations, micros, out);
    }
    let fauna = std::iter::once(("fauna", "query", &layers.fauna_query));
    let dynamodb = layers.dynamodb.iter();
    let dynamodb = dynamodb.map(|(name, durations)| ("dynamodb", *name, durations));
    let keyvalue = KEYVALUE_OPERATIONS.into_iter().zip(&layers.keyvalue);
    let keyvalue = keyvalue.map(|(name, durations)| ("keyvalue", name, durations));
    let rest = REST_OPERATIONS.into_iter().zip(&layers.rest);
    let rest = rest.map(|(name, durations)| ("rest", name, durations));
    for (layer, name, durations) in fauna.chain(dynamodb).chain(keyvalue).chain(rest) {
        let micros = durations.micros.load(Ordering::Relaxed);
        operation((layer, name), &durations.histogram, micros, out);
    }
}

fn operation((layer, operation): (&str, &str), histogram: &Histogram, micros: u64, out: &mut dyn Exposition) {
    let buckets = buckets(histogram, &BOUNDS, micros);
    if buckets.count > 0 {
        out.histogram(&[("layer", layer), ("operation", operation)], &buckets);
    }
}

fn buckets(histogram: &Histogram, bounds: &[u64], micros: u64) -> Buckets {
    let steps = histogram.cumulative();
    let within = bounds.iter().map(|bound| {
        let last = steps.iter().rev().find(|(upper, _)| upper <= bound);
        (*bound, last.map_or(0, |(_, calls)| *calls))
    });
    Buckets {
        within: within.collect(),
        count: steps.last().map_or(0, |(_, count)| *count),
        micros,
    }
}

/// For one database's requests, of all layers. Those over REST count by their commands.
pub fn of_database(histogram: &BriefHistogram) -> Buckets {
    let (counts, micros) = histogram.figures();
    let mut total = 0;
    let mut within = Vec::with_capacity(counts.len());
    for (bound, count) in DURATION_BOUNDS.into_iter().zip(counts) {
        total += count;
        within.push((bound, total));
    }
    let beyond = counts[DURATION_BOUNDS.len()];
    Buckets {
        within,
        count: total + beyond,
        micros,
    }
}

/// The default database's: what its layer of Redis has measured by command, and the other layers.
pub fn of_default_database(redis: &Redis, layers: &OfLayers) -> Buckets {
    let mut sum = of_database(&layers.default_database);
    for counter in &redis.observation.statistics.commands.0 {
        if counter.calls.load(Ordering::Relaxed) > 0 {
            let micros = counter.micros.load(Ordering::Relaxed);
            sum.add(&buckets(&counter.durations, &DURATION_BOUNDS, micros));
        }
    }
    sum
}

impl Buckets {
    /// With those of another, which has the same bounds.
    pub fn add(&mut self, other: &Buckets) {
        for ((_, within), (_, more)) in self.within.iter_mut().zip(&other.within) {
            *within += more;
        }
        self.count += other.count;
        self.micros += other.micros;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observability::exposition::Text;

    #[test]
    fn buckets_hold_what_took_no_longer() {
        let durations = Durations::default();
        [1, 16, 17, 1000, 5_000_000]
            .iter()
            .for_each(|micros| durations.add(*micros));
        let shown = buckets(&durations.histogram, &BOUNDS, 5_001_034);
        let within = |bound: u64| shown.within.iter().find(|(upper, _)| *upper == bound).unwrap().1;
        assert_eq!([16, 64, 1 << 10, 1 << 22, 1 << 24].map(within), [2, 3, 4, 4, 5]);
        assert_eq!((shown.count, shown.micros), (5, 5_001_034));
    }

    #[test]
    fn what_was_never_asked_for_is_left_out() {
        let mut text = Text::default();
        operation(("fauna", "query"), &Histogram::default(), 0, &mut text);
        assert_eq!(text.text, "");
        assert!(OfLayers::default().dynamodb.contains_key("PutItem"));
    }

    #[test]
    fn a_database_has_few_buckets_that_add_up() {
        let histogram = BriefHistogram::default();
        [1, 1024, 1025, 300_000]
            .iter()
            .for_each(|micros| histogram.add(*micros));
        let mut shown = of_database(&histogram);
        assert_eq!(shown.within, [(1 << 10, 2), (1 << 14, 3), (1 << 18, 3)]);
        assert_eq!((shown.count, shown.micros), (4, 302_050));
        shown.add(&of_database(&histogram));
        assert_eq!(shown.within, [(1 << 10, 4), (1 << 14, 6), (1 << 18, 6)]);
        assert_eq!((shown.count, shown.micros), (8, 604_100));
    }
}
