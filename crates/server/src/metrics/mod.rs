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
pub mod replication;
mod requests;
mod search;
mod telemetry;

use quartet_engine::Engine;
use quartet_layer_redis::Redis;
use quartet_tenancy::Partitions;

pub use self::keys::count_keys;
use self::metric::{Read, Sources, Table};
use crate::observability::exposition::{Exposition, Family};
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

/// Writes all metrics. The names of the databases, and their use, are for the operator only.
pub fn write(redis: &Redis, tenants: &Tenants, is_for_operators: bool, out: &mut dyn Exposition) {
    let sources = Sources::new(redis, tenants, is_for_operators);
    for table in METRICS.iter().filter(|table| (table.is_shown)(&sources)) {
        for metric in table.metrics {
            out.family(&metric.family);
            match metric.read {
                Read::Value(read) => out.value(&[], read(&sources)),
                Read::Partition(read) => write_partitions(&tenants.parts.partitions, read, out),
                Read::Replication(read) => {
                    write_partitions(&tenants.parts.partitions, |engine| read(&engine.replication()), out);
                }
                Read::Samples(read) => read(&sources, out),
            }
        }
    }
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
    fn a_name_stands_once_and_says_kind_and_unit() {
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

    fn files_below(path: &Path, found: &mut Vec<PathBuf>) {
        if path.is_file() {
            return found.push(path.to_owned());
        }
        for entry in std::fs::read_dir(path).unwrap() {
            files_below(&entry.unwrap().path(), found);
        }
    }

    /// The console, the dashboard, the alerts and the documents name metrics by their names alone:
    /// a metric that was renamed left an empty chart behind.
    #[test]
    fn a_name_of_a_metric_names_one_that_exists() {
        let known: BTreeSet<&str> = families().map(|family| family.name).collect();
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
                    .any(|suffix| word.strip_suffix(suffix).is_some_and(|name| known.contains(name)));
                if known.contains(word) || is_of_a_histogram {
                    named += 1;
                } else if is_like_a_metric(word) {
                    unknown.push(format!("{}: {word}", file.display()));
                }
            }
        }
        assert!(named > 100, "{named}");
        assert_eq!(unknown, Vec::<String>::new());
    }

    /// Other names begin with `quartet_` too: fields of INFO, and crates.
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
        let first = word.strip_prefix("quartet_").and_then(|rest| rest.split('_').next());
        first.is_some_and(|first| FIRST_WORDS.contains(&first)) && word.split('_').count() > 2 && !word.ends_with('_')
    }
}
