//! Metrics of search indexes.
//!
//! Series by index are capped; the remainder is summed up as `(others)`.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use quartet_layer_redis::Redis;

use super::databases::{OTHERS, count_within};
use super::metric::{Metric, Sources, Table, count};
use crate::observability::exposition::{Exposition, Kind};
use crate::redis::modules::search::{IndexFigures, Search};

pub const TABLE: Table = Table {
    title: "Search",
    shown: "The indexes of the default database, by family: `ft` or `search`.",
    is_shown: |_| true,
    is_by_service: false,
    metrics: &[
        Metric::gauge("quartet_search_indexes", "Indexes.", |sources| {
            sources.indexes().figures.len() as f64
        }),
        Metric::samples(
            "quartet_search_documents",
            Kind::Gauge,
            "Documents in an index.",
            |sources, out| each(sources, out, |figures| figures.documents),
        ),
        Metric::samples(
            "quartet_search_index_bytes",
            Kind::Gauge,
            "Size of the rows of an index, estimated from some if there are many.",
            |sources, out| each(sources, out, |figures| figures.stored_bytes),
        )
        .in_bytes(),
        Metric::samples(
            "quartet_search_unsettled_documents",
            Kind::Gauge,
            "Documents with words that are not in postings yet.",
            |sources, out| each(sources, out, |figures| figures.unsettled),
        ),
        Metric::samples(
            "quartet_search_keys_left",
            Kind::Gauge,
            "Keys that are still to be looked at until an index is filled, about.",
            |sources, out| each(sources, out, |figures| figures.keys_left),
        ),
        Metric::samples(
            "quartet_search_time_left_seconds",
            Kind::Gauge,
            "Time until an index is filled, about, once some of its keys were looked at.",
            time_left,
        )
        .in_seconds(),
        Metric::samples(
            "quartet_search_failures_total",
            Kind::Counter,
            "Documents that could not be indexed, by the type of the field that they failed for.",
            failures,
        ),
        Metric::gauge(
            "quartet_search_held_bytes",
            "Size of the hits, records and groups that running searches hold, about.",
            |sources| Search::of(sources.redis).search_bytes() as f64,
        )
        .in_bytes(),
        Metric::samples(
            "quartet_search_timeouts_total",
            Kind::Counter,
            "Searches that timed out, by the form of the reply.",
            |sources, out| {
                for (answer, counter) in ["error", "part"]
                    .iter()
                    .zip(Search::of(sources.redis).search_timeouts())
                {
                    out.value(&[("answer", answer)], count(counter));
                }
            },
        ),
    ],
};

/// The lines of an index.
const LINES: usize = 7;
/// About what a line takes beside the name of its index.
const LINE_BYTES: usize = 80;
/// The part of the page's room that indexes may take.
const ROOM_DIVISOR: usize = 4;

/// The figures of all indexes, and which of them have lines of their own.
pub struct Indexes {
    names: Vec<String>,
    figures: Vec<IndexFigures>,
    shown: OnceCell<usize>,
}

impl Indexes {
    pub fn read(redis: &Redis) -> Indexes {
        let figures = Search::of(redis).index_figures();
        Indexes {
            names: figures.iter().map(|figures| shown_name(&figures.name)).collect(),
            figures,
            shown: OnceCell::new(),
        }
    }

    /// The number of indexes with lines of their own, which the first metric decides for all.
    fn shown(&self, out: &dyn Exposition) -> usize {
        let room = || out.room() / ROOM_DIVISOR;
        *self
            .shown
            .get_or_init(|| count_within(&self.names, LINES * LINE_BYTES, LINES, room()))
    }
}

/// A name as text. Names that differ stay different.
fn shown_name(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(name) if !name.contains('\\') => name.to_owned(),
        _ => name.escape_ascii().to_string(),
    }
}

/// Writes a figure of each index.
fn each(sources: &Sources<'_>, out: &mut dyn Exposition, figure: fn(&IndexFigures) -> u64) {
    let indexes = sources.indexes();
    let (own, remaining) = indexes.figures.split_at(indexes.shown(out));
    for (name, figures) in indexes.names.iter().zip(own) {
        out.value(
            &[("index", name), ("commands", figures.commands)],
            figure(figures) as f64,
        );
    }
    if !remaining.is_empty() {
        let sum: u64 = remaining.iter().map(figure).sum();
        out.value(&[("index", OTHERS), ("commands", "all")], sum as f64);
    }
}

/// Writes how long filling takes yet. The others have the longest time of any.
fn time_left(sources: &Sources<'_>, out: &mut dyn Exposition) {
    let indexes = sources.indexes();
    let (own, remaining) = indexes.figures.split_at(indexes.shown(out));
    for (name, figures) in indexes.names.iter().zip(own) {
        if let Some(seconds) = figures.seconds_left {
            out.value(&[("index", name), ("commands", figures.commands)], seconds as f64);
        }
    }
    if let Some(seconds) = remaining.iter().filter_map(|figures| figures.seconds_left).max() {
        out.value(&[("index", OTHERS), ("commands", "all")], seconds as f64);
    }
}

fn failures(sources: &Sources<'_>, out: &mut dyn Exposition) {
    let indexes = sources.indexes();
    let (own, remaining) = indexes.figures.split_at(indexes.shown(out));
    for (name, figures) in indexes.names.iter().zip(own) {
        for (kind, count) in &figures.failures {
            let labels = [("index", name.as_str()), ("commands", figures.commands), ("type", kind)];
            out.value(&labels, *count as f64);
        }
    }
    let remaining_failures = || remaining.iter().flat_map(|figures| &figures.failures);
    let kinds: BTreeSet<&str> = remaining_failures().map(|(kind, _)| *kind).collect();
    for kind in kinds {
        let counts = remaining_failures()
            .filter(|(kind_of_failure, _)| *kind_of_failure == kind)
            .map(|(_, count)| count);
        let labels = [("index", OTHERS), ("commands", "all"), ("type", kind)];
        out.value(&labels, counts.sum::<u64>() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_are_shown_so() {
        let names: [&[u8]; 5] = [b"a", "\u{e9}".as_bytes(), b"\xff", b"\\xff", b"a\\"];
        let labels: BTreeSet<String> = names.iter().map(|name| shown_name(name)).collect();
        assert_eq!(labels.len(), names.len());
        assert!(labels.contains("\u{e9}"));
    }
}
