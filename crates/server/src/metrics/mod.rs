//! All metrics: static tables of rows, each with a name, a kind, a unit, its help, and how it is
//! read.
//!
//! `/metrics`, the messages to a collector and `docs/metrics.md` are made from the tables; nothing
//! is written beside them.
//!
//! | file        | what it is                                                   |
//! |-------------|--------------------------------------------------------------|
//! | `metric`    | a row, and what rows are read from                           |
//! | `keys`      | the numbers of keys, which several rows read                 |
//! | the others  | a table each                                                 |

mod databases;
mod engine;
mod exporter;
mod keys;
mod metric;
mod process;
mod redis;
mod replication;
mod requests;
mod search;
mod telemetry;

use std::sync::{Arc, Weak};

use quartet_engine::{Engine, PartitionId};
use quartet_layer_redis::Redis;
use quartet_tenancy::Partitions;

pub use self::keys::count_keys;
use self::metric::{Metric, Read, Sources, Table};
use crate::layers::parts::Nodes;
use crate::observability::exposition::{Buckets, Exposition, Family, Labels};
use crate::tenants::Tenants;

/// In the order in which they are written: databases have the room that the others leave.
pub static METRICS: [Table; 11] = [
    engine::TABLE,
    replication::TABLE,
    process::TABLE,
    redis::TABLE,
    search::TABLE,
    requests::TABLE,
    telemetry::TABLE,
    exporter::TABLE,
    databases::TABLE,
    databases::USE,
    databases::REQUESTS,
];

/// The layers that serve only one partition, other than the first.
pub struct Service {
    pub partition: PartitionId,
    pub redis: Arc<Redis>,
    pub tenants: Arc<Tenants>,
}

/// The services of a node beside that of its sockets.
pub fn services_of(nodes: &dyn Nodes) -> Vec<Service> {
    let services = nodes.services().into_iter();
    services
        .filter_map(|service| service.downcast().ok().map(|service| *service))
        .collect()
}

/// Writes all metrics. The names of the databases, and their use, are for the operator only.
pub fn write(redis: &Redis, tenants: &Tenants, is_for_operators: bool, out: &mut dyn Exposition) {
    let nodes = tenants.parts.nodes.as_ref().and_then(Weak::upgrade);
    let services = nodes.map(|nodes| services_of(&*nodes)).unwrap_or_default();
    let services = sources_of(&services, is_for_operators);
    let sources = Sources::new(redis, tenants, is_for_operators);
    for table in METRICS.iter().filter(|table| (table.is_shown)(&sources)) {
        for metric in table.metrics {
            write_engines(metric, &tenants.parts.partitions, out);
            match metric.read {
                Read::Value(read) => {
                    out.family(&metric.family);
                    out.value(&[], read(&sources));
                }
                Read::Samples(read) => {
                    out.family(&metric.family);
                    read(&sources, out);
                }
                Read::Partition(_) | Read::Replication(_) => {}
            }
            write_services(table, metric, &services, out);
        }
    }
}

/// Writes the metrics of a node that is not home of the first partition.
pub fn write_without_first(
    partitions: &Partitions,
    services: &[Service],
    is_for_operators: bool,
    out: &mut dyn Exposition,
) {
    for metric in engine::TABLE.metrics.iter().chain(replication::TABLE.metrics) {
        write_engines(metric, partitions, out);
    }
    let services = sources_of(services, is_for_operators);
    for table in METRICS.iter().filter(|table| table.is_by_service) {
        if services.iter().any(|(_, sources)| (table.is_shown)(sources)) {
            for metric in table.metrics {
                out.family(&metric.family);
                write_services(table, metric, &services, out);
            }
        }
    }
}

/// Writes a metric that needs only the engines.
fn write_engines(metric: &Metric, partitions: &Partitions, out: &mut dyn Exposition) {
    match metric.read {
        Read::Partition(read) => {
            out.family(&metric.family);
            write_partitions(partitions, read, out);
        }
        Read::Replication(read) => {
            out.family(&metric.family);
            write_partitions(partitions, |engine| read(&engine.replication()), out);
        }
        Read::Value(_) | Read::Samples(_) => {}
    }
}

/// Each with the number of its partition.
fn sources_of(services: &[Service], is_for_operators: bool) -> Vec<(String, Sources<'_>)> {
    let sources = services.iter().map(|service| {
        let Service {
            partition,
            redis,
            tenants,
        } = service;
        (partition.0.to_string(), Sources::new(redis, tenants, is_for_operators))
    });
    sources.collect()
}

/// Writes the samples of each service, if it has some of its own.
fn write_services(table: &Table, metric: &Metric, services: &[(String, Sources<'_>)], out: &mut dyn Exposition) {
    if !table.is_by_service {
        return;
    }
    for (partition, sources) in services.iter().filter(|(_, sources)| (table.is_shown)(sources)) {
        let mut out = OfPartition { partition, out };
        match metric.read {
            Read::Value(read) => out.value(&[], read(sources)),
            Read::Samples(read) => read(sources, &mut out),
            Read::Partition(_) | Read::Replication(_) => {}
        }
    }
}

/// Adds the label of a partition to all samples.
struct OfPartition<'o> {
    partition: &'o str,
    out: &'o mut dyn Exposition,
}

impl Exposition for OfPartition<'_> {
    fn family(&mut self, family: &Family) {
        self.out.family(family);
    }

    fn value(&mut self, labels: Labels<'_>, value: f64) {
        self.out.value(&with_partition(self.partition, labels), value);
    }

    fn histogram(&mut self, labels: Labels<'_>, buckets: &Buckets) {
        self.out.histogram(&with_partition(self.partition, labels), buckets);
    }

    fn room(&self) -> usize {
        self.out.room()
    }
}

fn with_partition<'l>(partition: &'l str, labels: Labels<'l>) -> Vec<(&'l str, &'l str)> {
    let mut all = vec![("partition", partition)];
    all.extend_from_slice(labels);
    all
}

fn write_partitions(partitions: &Partitions, read: impl Fn(&Engine) -> f64, out: &mut dyn Exposition) {
    if partitions.count() == 1 {
        return out.value(&[], read(partitions.first()));
    }
    for (id, engine) in partitions.iter() {
        out.value(&[("partition", &id.0.to_string())], read(engine));
    }
}

/// The tables as a page of Markdown: `docs/metrics.md`.
pub fn page() -> String {
    let mut page = PAGE_HEAD.to_owned();
    for table in &METRICS {
        page += &format!("\n## {}\n\n{}\n\n", table.title, table.shown);
        page += "| metric | kind | unit | what it is |\n| --- | --- | --- | --- |\n";
        for metric in table.metrics {
            let Family { name, kind, unit, help } = &metric.family;
            page += &format!("| `{name}` | {} | {} | {help} |\n", kind.name(), unit.word());
        }
    }
    page
}

const PAGE_HEAD: &str = "\
# Metrics

`/metrics` on `--listen-http`, in the text format of Prometheus, and a collector that
`--otlp-endpoint` names have these. `quartet config metrics` prints this page.
";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::observability::exposition::{Kind, Unit};

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

    fn families() -> impl Iterator<Item = &'static Family> {
        let metrics = METRICS.iter().flat_map(|table| table.metrics);
        metrics.map(|metric| &metric.family)
    }

    #[test]
    fn a_name_is_unique_and_says_kind_and_unit() {
        let mut names = BTreeSet::new();
        for Family { name, kind, unit, help } in families() {
            assert!(names.insert(*name), "{name} stands twice");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            let words: Vec<&str> = name.split('_').collect();
            assert_eq!(words.contains(&"bytes"), *unit == Unit::Bytes, "{name}");
            assert_eq!(words.contains(&"seconds"), *unit == Unit::Seconds, "{name}");
            assert!(help.ends_with('.') && !help.contains('|'), "{name}");
        }
    }

    #[test]
    fn the_page_of_metrics_is_made_from_the_tables() {
        let path = format!("{ROOT}/docs/metrics.md");
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(path, page()).unwrap();
        } else {
            let written = std::fs::read_to_string(path).unwrap_or_default();
            assert_eq!(written, page(), "run this test with REWRITE=1");
        }
    }

    fn files_below(path: &Path, files: &mut Vec<PathBuf>) {
        if path.is_file() {
            return files.push(path.to_owned());
        }
        for entry in std::fs::read_dir(path).unwrap() {
            files_below(&entry.unwrap().path(), files);
        }
    }

    /// The console, the dashboard, the alerts and the documents refer to metrics only by their
    /// names: a metric that was renamed left an empty chart.
    #[test]
    fn a_name_of_a_metric_names_one_that_exists() {
        let names: BTreeSet<&str> = families().map(|family| family.name).collect();
        let mut files = Vec::new();
        for place in ["console", "docs", "packaging/grafana", "README.md"] {
            files_below(&Path::new(ROOT).join(place), &mut files);
        }
        let (mut named, mut unknown) = (0, Vec::new());
        for file in files {
            let Ok(text) = std::fs::read_to_string(&file) else {
                continue;
            };
            for word in text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
                let is_of_a_histogram = ["_bucket", "_count", "_sum"]
                    .iter()
                    .any(|suffix| word.strip_suffix(suffix).is_some_and(|name| names.contains(name)));
                if names.contains(word) || is_of_a_histogram {
                    named += 1;
                } else if is_like_a_metric(word) {
                    unknown.push(format!("{}: {word}", file.display()));
                }
            }
        }
        assert!(named > 100, "{named}");
        assert_eq!(unknown, Vec::<String>::new());
    }

    /// Other names also start with `quartet_`: fields of INFO, and crates.
    fn is_like_a_metric(word: &str) -> bool {
        const FIRST_WORDS: [&str; 12] = [
            "transactions",
            "conflicts",
            "log",
            "checkpoint",
            "checkpoints",
            "store",
            "disk",
            "memory",
            "request",
            "database",
            "otlp",
            "redis",
        ];
        let first = word
            .strip_prefix("quartet_")
            .and_then(|suffix| suffix.split('_').next());
        first.is_some_and(|first| FIRST_WORDS.contains(&first)) && word.split('_').count() > 2 && !word.ends_with('_')
    }
}
