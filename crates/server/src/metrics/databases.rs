//! Metrics by logical database.
//!
//! Series by database are capped; the remainder is aggregated as `(others)`.

use std::sync::atomic::{AtomicU64, Ordering};

use super::metric::{Databases, Figures, Metric, Sources, Table};
use crate::observability::durations;
use crate::observability::exposition::{Buckets, Exposition, Kind};

pub const TABLE: Table = Table {
    title: "Databases",
    shown: "For operators.",
    is_shown: |sources| sources.is_for_operators,
    is_by_service: true,
    metrics: &[
        Metric::samples(
            "quartet_layers_open",
            Kind::Gauge,
            "Logical databases, except the default, with a layer in memory, by layer.",
            |sources, out| {
                for (layer, databases) in sources.tenants.layers_open() {
                    out.value(&[("layer", layer)], databases as f64);
                }
            },
        ),
        Metric::samples(
            "quartet_database_stored_bytes",
            Kind::Gauge,
            "Bytes of keys and values.",
            |sources, out| {
                if sources.has_default() {
                    out.value(&[("database", "default")], sources.default_stored_bytes() as f64);
                }
                each(sources, out, |figures| figures.stored_bytes as f64);
            },
        )
        .in_bytes(),
        Metric::samples(
            "quartet_moves_under_way",
            Kind::Gauge,
            "Databases that are being moved to another partition.",
            |sources, out| out.value(&[], sources.tenants.moves_under_way() as f64),
        ),
        Metric::samples(
            "quartet_moves_total",
            Kind::Counter,
            "Moves of databases to another partition that have ended, by outcome.",
            |sources, out| {
                let figures = &sources.tenants.moves.figures;
                out.value(&[("outcome", "moved")], count(&figures.moved));
                out.value(&[("outcome", "failed")], count(&figures.failed));
            },
        ),
        Metric::samples(
            "quartet_move_copied_bytes",
            Kind::Gauge,
            "Size of the rows that the last move of each database has copied.",
            |sources, out| out.value(&[], sources.tenants.bytes_copied_by_moves() as f64),
        )
        .in_bytes(),
        Metric::samples(
            "quartet_move_held_seconds_total",
            Kind::Counter,
            "Time for which databases that were moved held their clients' requests.",
            |sources, out| out.value(&[], count(&sources.tenants.moves.figures.held_micros) / 1e6),
        )
        .in_seconds(),
        Metric::samples(
            "quartet_move_held_longest_seconds",
            Kind::Gauge,
            "The longest such time since the server started.",
            |sources, out| out.value(&[], count(&sources.tenants.moves.figures.longest_micros) / 1e6),
        )
        .in_seconds(),
    ],
};

fn count(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

/// The use of the databases beside the default one.
pub const USE: Table = Table {
    title: "Use by database",
    shown: "For operators, of the databases beside the default one.",
    is_shown: |sources| sources.is_for_operators && !sources.databases().names.is_empty(),
    is_by_service: true,
    metrics: &[
        Metric::samples(
            "quartet_database_commands_total",
            Kind::Counter,
            "Commands that a database executed.",
            |sources, out| {
                each(sources, out, |figures| figures.usage.commands as f64);
            },
        ),
        Metric::samples(
            "quartet_database_commands_today",
            Kind::Gauge,
            "Commands of the present day, UTC.",
            |sources, out| {
                each(sources, out, |figures| figures.usage.commands_of_day as f64);
            },
        ),
        Metric::samples(
            "quartet_database_refused_total",
            Kind::Counter,
            "Requests that a quota of the database refused.",
            |sources, out| {
                each(sources, out, |figures| figures.usage.refused as f64);
            },
        ),
        Metric::samples(
            "quartet_database_read_units_total",
            Kind::Counter,
            "Units read.",
            |sources, out| {
                each(sources, out, |figures| figures.usage.read_units);
            },
        ),
        Metric::samples(
            "quartet_database_write_units_total",
            Kind::Counter,
            "Units written.",
            |sources, out| {
                each(sources, out, |figures| figures.usage.write_units);
            },
        ),
        Metric::samples(
            "quartet_database_received_bytes_total",
            Kind::Counter,
            "Bytes of requests.",
            |sources, out| {
                each(sources, out, |figures| figures.usage.bytes_in as f64);
            },
        )
        .in_bytes(),
        Metric::samples(
            "quartet_database_sent_bytes_total",
            Kind::Counter,
            "Bytes of replies.",
            |sources, out| {
                each(sources, out, |figures| figures.usage.bytes_out as f64);
            },
        )
        .in_bytes(),
        Metric::samples(
            "quartet_database_connections",
            Kind::Gauge,
            "Open Redis connections.",
            |sources, out| {
                each(sources, out, |figures| figures.connections as f64);
            },
        ),
    ],
};

/// The durations of each database's requests.
pub const REQUESTS: Table = Table {
    title: "Requests by database",
    shown: "For operators, of the databases with requests since the start.",
    is_shown: |sources| sources.is_for_operators,
    is_by_service: true,
    metrics: &[Metric::samples(
        "quartet_database_request_seconds",
        Kind::Histogram,
        "How long requests of a database took, of all layers, without waiting for the disk.",
        request_durations,
    )
    .in_seconds()],
};

/// Represents the databases that have no samples of their own. It cannot be the name of a database.
pub(super) const OTHERS: &str = "(others)";
/// The approximate length of a line without the name of its database.
const LINE_BYTES: usize = 56;
/// The lines of a database that are no histogram.
const LINES: usize = USE.metrics.len() + 1;
const HISTOGRAM_BYTES: usize = 6 * 80;

/// Writes a figure of each database.
fn each(sources: &Sources<'_>, out: &mut dyn Exposition, figure: fn(&Figures) -> f64) {
    let Databases { names, figures, .. } = sources.databases();
    let count = sources.databases().shown(out);
    for (database, figures) in names.iter().zip(figures).take(count) {
        out.value(&[("database", database)], figure(figures));
    }
    if count < names.len() {
        out.value(&[("database", OTHERS)], figures[count..].iter().map(figure).sum());
    }
}

impl Databases {
    /// The number of databases with rows of their own, which the first of the metrics decides for
    /// all.
    fn shown(&self, out: &dyn Exposition) -> usize {
        // A fifth is left for how long requests took.
        *self
            .shown
            .get_or_init(|| count_within(&self.names, LINES * LINE_BYTES, LINES, out.room() / 5 * 4))
    }
}

/// Writes durations of all databases with requests since the start.
fn request_durations(sources: &Sources<'_>, out: &mut dyn Exposition) {
    let (redis, tenants) = (sources.redis, sources.tenants);
    if sources.has_default() {
        let default = durations::of_default_database(redis, &tenants.parts.durations);
        out.histogram(&[("database", "default")], &default);
    }
    let all = tenants.catalogue.list();
    let (names, used): (Vec<String>, Vec<Buckets>) = all
        .iter()
        .map(|database| (database, durations::of_database(&database.meter.durations)))
        .filter(|(_, buckets)| buckets.count > 0)
        .map(|(database, buckets)| (database.definition().name.clone(), buckets))
        .unzip();
    let count = count_within(
        &names,
        HISTOGRAM_BYTES,
        6,
        out.room().saturating_sub(2 * HISTOGRAM_BYTES),
    );
    for (name, buckets) in names.iter().zip(&used).take(count) {
        out.histogram(&[("database", name)], buckets);
    }
    let remaining = used.into_iter().skip(count).reduce(|mut sum, buckets| {
        sum.add(&buckets);
        sum
    });
    if let Some(remaining) = remaining {
        out.histogram(&[("database", OTHERS)], &remaining);
    }
}

/// Returns how many of the databases of these names fit in `room_bytes`, if each takes `bytes` and
/// its name `repeated` times.
pub(super) fn count_within(names: &[String], bytes: usize, repeated: usize, room_bytes: usize) -> usize {
    let mut series = 0;
    let fits = |name: &&String| {
        series += bytes + repeated * name.len();
        series <= room_bytes
    };
    names.iter().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_databases_are_shown_as_have_room() {
        let names: Vec<String> = (0..10).map(|number| format!("tenant-{number}")).collect();
        assert_eq!(count_within(&names, 100, 2, 10 * 116), 10);
        assert_eq!(count_within(&names, 100, 2, 10 * 116 - 1), 9);
        assert_eq!(count_within(&names, 100, 2, 0), 0);
        assert!(!quartet_tenancy::is_name(OTHERS));
    }
}
