//! How long requests take, by layer and operation and by logical database, as `/metrics` shows it.
//!
//! The layer of Redis measures its commands, once for all reports of durations. This module has the
//! other layers: one or two clock readings and a few atomic additions for each of their requests.

use std::sync::atomic::{AtomicU64, Ordering};

use quartet_layer_redis::Histogram;
use quartet_layer_redis::Redis;
use quartet_tenancy::{BriefHistogram, DURATION_BOUNDS, Database};

use crate::observability::exposition::Buckets;

/// Durations of one operation.
#[derive(Default)]
pub struct Durations {
    pub histogram: Histogram,
    micros: AtomicU64,
}

impl Durations {
    pub fn add(&self, micros: u64) {
        self.histogram.add(micros);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The sum of all durations, in microseconds.
    pub fn micros(&self) -> u64 {
        self.micros.load(Ordering::Relaxed)
    }
}

/// The operations that a listener measures: the label of its layer, and their names.
pub struct Measured {
    pub layer: &'static str,
    pub operations: fn() -> Vec<&'static str>,
}

/// Durations of one layer, by operation.
pub struct Operations {
    pub layer: &'static str,
    names: Vec<&'static str>,
    durations: Vec<Durations>,
    /// The names in their order, each with its place.
    sorted: Vec<(&'static str, usize)>,
}

impl Operations {
    fn new(measured: &Measured) -> Operations {
        let names = (measured.operations)();
        let mut sorted: Vec<_> = names.iter().enumerate().map(|(place, name)| (*name, place)).collect();
        sorted.sort();
        Operations {
            layer: measured.layer,
            durations: names.iter().map(|_| Durations::default()).collect(),
            names,
            sorted,
        }
    }

    /// By its place among the names.
    pub fn at(&self, place: usize) -> &Durations {
        &self.durations[place]
    }

    pub fn name(&self, place: usize) -> &'static str {
        self.names[place]
    }

    /// The place of an operation, which must be one of the names.
    pub fn place(&self, name: &str) -> usize {
        let position = self.sorted.binary_search_by_key(&name, |(existing, _)| existing);
        self.sorted[position.expect("an operation that is measured")].1
    }

    pub fn each(&self) -> impl Iterator<Item = (&'static str, &Durations)> {
        self.names.iter().copied().zip(&self.durations)
    }
}

/// For all layers but Redis', by operation.
pub struct OfLayers {
    layers: Vec<Operations>,
    /// For the default database.
    default_database: BriefHistogram,
}

impl OfLayers {
    pub fn new<'m>(measured: impl Iterator<Item = &'m Measured>) -> OfLayers {
        OfLayers {
            layers: measured.map(Operations::new).collect(),
            default_database: BriefHistogram::default(),
        }
    }

    /// The operations of a layer that measures some.
    #[inline]
    pub fn of(&self, layer: &str) -> &Operations {
        let durations = self.layers.iter().find(|durations| durations.layer == layer);
        durations.expect("its row names what it measures")
    }

    pub fn layers(&self) -> &[Operations] {
        &self.layers
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

/// The buckets of one operation, as metrics show them.
pub fn buckets_of_operation(histogram: &Histogram, micros: u64) -> Buckets {
    buckets(histogram, &BOUNDS, micros)
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

    #[test]
    fn buckets_hold_what_took_no_longer() {
        let durations = Durations::default();
        [1, 16, 17, 1000, 5_000_000]
            .iter()
            .for_each(|micros| durations.add(*micros));
        let counts = buckets(&durations.histogram, &BOUNDS, 5_001_034);
        let within = |bound: u64| counts.within.iter().find(|(upper, _)| *upper == bound).unwrap().1;
        assert_eq!([16, 64, 1 << 10, 1 << 22, 1 << 24].map(within), [2, 3, 4, 4, 5]);
        assert_eq!((counts.count, counts.micros), (5, 5_001_034));
    }

    #[test]
    fn an_operation_is_found_by_its_name() {
        let measured = Measured {
            layer: "echo",
            operations: || vec!["shout", "echo"],
        };
        let all = OfLayers::new([&measured].into_iter());
        let echo = all.of("echo");
        assert_eq!([echo.place("echo"), echo.place("shout")], [1, 0]);
        echo.at(1).add(5);
        let micros: Vec<_> = echo
            .each()
            .map(|(name, durations)| (name, durations.micros()))
            .collect();
        assert_eq!(micros, [("shout", 0), ("echo", 5)]);
    }

    #[test]
    fn a_database_has_few_buckets_that_add_up() {
        let histogram = BriefHistogram::default();
        [1, 1024, 1025, 300_000]
            .iter()
            .for_each(|micros| histogram.add(*micros));
        let mut counts = of_database(&histogram);
        assert_eq!(counts.within, [(1 << 10, 2), (1 << 14, 3), (1 << 18, 3)]);
        assert_eq!((counts.count, counts.micros), (4, 302_050));
        counts.add(&of_database(&histogram));
        assert_eq!(counts.within, [(1 << 10, 4), (1 << 14, 6), (1 << 18, 6)]);
        assert_eq!((counts.count, counts.micros), (8, 604_100));
    }
}
