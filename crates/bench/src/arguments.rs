//! The command line of `quartet bench`.

use crate::embedded::Protocol;
use crate::workload::product::Test;
use crate::workload::search;
use crate::workload::vectors;
use crate::workload::ycsb::{Distribution, Workload};
use clap::builder::{RangedI64ValueParser, RangedU64ValueParser};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Run a published benchmark, or compare two runs of one.
#[derive(Args, Clone, Debug)]
pub struct BenchArguments {
    #[command(subcommand)]
    pub command: BenchCommand,
}

#[derive(Subcommand, Clone, Debug)]
pub enum BenchCommand {
    /// Records of twelve fields: read, insert, overwrite and update by key
    Product(ProductArguments),
    /// The ten most viewed of a section's articles, while view counts change
    News(NewsArguments),
    /// YCSB's core workloads: records of 1 KB, read, updated, inserted and scanned by key
    Ycsb(YcsbArguments),
    /// Transactions of four instances in four indexes each, all durable (fauna:// only)
    Calvin(RunArguments),
    /// Documents added to an index, and found by tag, number and word (redis:// only)
    Search(SearchArguments),
    /// Vectors added to an index with a graph and to a set, and the nearest of both with their
    /// recall (redis:// only)
    Vectors(VectorsArguments),
    /// Transactions of ten reads, writes or both on keys of 16 bytes; the target is a cluster file,
    /// or its content
    Keyvalue(KeyValueArguments),
    /// The ratio of two files of results, cell by cell
    Compare(CompareArguments),
}

#[derive(Args, Clone, Debug)]
pub struct ProductArguments {
    #[command(flatten)]
    pub run: RunArguments,
    /// The tests, in this order
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Test::ALL)]
    pub tests: Vec<Test>,
}

#[derive(Args, Clone, Debug)]
pub struct NewsArguments {
    #[command(flatten)]
    pub run: RunArguments,
    /// Keep the articles' scores after each request, so that CPU and requests per second are only
    /// the page's
    #[arg(long)]
    pub keep_scores: bool,
    /// Whether each loop keeps its connection, or opens one for each request, which is then timed
    /// with it
    #[arg(long, value_enum, default_value_t = Connections::Kept)]
    pub connections: Connections,
    /// Protocol spoken with the server that is started for the run
    #[arg(long, value_enum, default_value_t = NewsProtocol::Redis, conflicts_with = "target")]
    pub protocol: NewsProtocol,
    /// Over TLS 1.3, with a certificate made for the run
    #[arg(long, conflicts_with = "target")]
    pub tls: bool,
}

/// The protocols that have the page's query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NewsProtocol {
    Redis,
    Rest,
    Dynamodb,
    Fauna,
}

impl From<NewsProtocol> for Protocol {
    fn from(protocol: NewsProtocol) -> Protocol {
        match protocol {
            NewsProtocol::Redis => Protocol::Redis,
            NewsProtocol::Rest => Protocol::Rest,
            NewsProtocol::Dynamodb => Protocol::DynamoDb,
            NewsProtocol::Fauna => Protocol::Fauna,
        }
    }
}

/// How warm a client is: a program that runs on, or a function that just woke up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Connections {
    Kept,
    PerRequest,
}

#[derive(Args, Clone, Debug)]
pub struct YcsbArguments {
    #[command(flatten)]
    pub run: RunArguments,
    /// The workloads, in this order
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Workload::ALL)]
    pub workloads: Vec<Workload>,
    /// How many records of 1 KB are loaded before each
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub records: u64,
    /// How records are chosen; without it as the workload says
    #[arg(long, value_enum)]
    pub distribution: Option<Distribution>,
}

#[derive(Args, Clone, Debug)]
pub struct SearchArguments {
    #[command(flatten)]
    pub run: RunArguments,
    /// The tests, in this order
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = search::Test::ALL)]
    pub tests: Vec<search::Test>,
    /// How many documents are loaded
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub documents: u64,
}

#[derive(Args, Clone, Debug)]
pub struct VectorsArguments {
    #[command(flatten)]
    pub run: RunArguments,
    /// The tests, in this order
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = vectors::Test::ALL)]
    pub tests: Vec<vectors::Test>,
    /// How many vectors are loaded
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub vectors: u64,
    /// Components of a vector
    #[arg(long, default_value_t = 384, value_parser = clap::value_parser!(u64).range(2..=32_768))]
    pub dimensions: u64,
    /// EF_RUNTIME of FT.SEARCH and EF of VSIM [default: the server's own]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    pub candidates: Option<u64>,
}

#[derive(Args, Clone, Debug)]
pub struct KeyValueArguments {
    #[command(flatten)]
    pub run: RunArguments,
    /// The tests, in this order
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [KeyValueTest::Reads, KeyValueTest::Writes, KeyValueTest::Mixed])]
    pub tests: Vec<KeyValueTest>,
    /// How many keys there are
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub keys: u64,
    /// Operations of a transaction
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub operations: u64,
    /// Without a server: the engine in this process, called by one thread; --parallelism is then
    /// how many commits may wait for the disk
    #[arg(long, conflicts_with_all = ["target", "flush"])]
    pub in_process: bool,
}

/// The operations of a transaction of the key-value benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyValueTest {
    Reads,
    Writes,
    /// Nine reads for each write.
    Mixed,
}

impl KeyValueTest {
    pub fn name(self) -> &'static str {
        match self {
            KeyValueTest::Reads => "reads",
            KeyValueTest::Writes => "writes",
            KeyValueTest::Mixed => "90/10",
        }
    }

    pub fn writes_of(self, operations: u64) -> u64 {
        match self {
            KeyValueTest::Reads => 0,
            KeyValueTest::Writes => operations,
            KeyValueTest::Mixed => operations.div_ceil(10),
        }
    }
}

#[derive(Args, Clone, Debug)]
pub struct RunArguments {
    /// redis://[user:password@]host:port[/db], rest://[token@]host:port,
    /// dynamodb://[key:secret@]host:port[/region] or fauna://[secret@]host:port, or rediss, rests,
    /// dynamodbs, faunas over TLS; without it a server is started for the run
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// PEM file: the roots below which a target's certificate is believed [default: the public
    /// ones]
    #[arg(long, value_name = "FILE", requires = "target")]
    pub tls_roots: Option<PathBuf>,
    /// Numbers of closed loops to run each test with
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100], value_parser = parallelism())]
    pub parallelism: Vec<u32>,
    /// How long each test runs at each parallelism
    #[arg(long, default_value_t = 60, value_parser = seconds())]
    pub seconds: u64,
    /// Write the results here, as JSON and as a page
    #[arg(long, value_name = "DIRECTORY")]
    pub report: Option<PathBuf>,
    /// Seed of data and choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The server's process on this machine, if it cannot be found out
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Empty the target's database first, regardless of its content
    #[arg(long)]
    pub flush: bool,
}

#[derive(Args, Clone, Debug)]
pub struct CompareArguments {
    pub before: PathBuf,
    pub after: PathBuf,
}

fn parallelism() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000)
}

fn seconds() -> RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=86_400)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        bench: BenchArguments,
    }

    fn check(line: &str) -> Option<BenchCommand> {
        let words = std::iter::once("quartet").chain(line.split_whitespace());
        Command::try_parse_from(words).ok().map(|command| command.bench.command)
    }

    #[test]
    fn the_defaults_are_those_of_the_published_benchmark() {
        let Some(BenchCommand::Product(product)) = check("product") else {
            panic!("not product")
        };
        assert_eq!((product.run.parallelism, product.run.seconds), (vec![1, 10, 100], 60));
        assert_eq!(product.tests, Test::ALL);
    }

    #[test]
    fn lists_are_separated_by_commas() {
        let Some(BenchCommand::Product(product)) = check("product --tests update,read --parallelism 2,8") else {
            panic!("not product")
        };
        assert_eq!(
            (product.tests, product.run.parallelism),
            (vec![Test::Update, Test::Read], vec![2, 8])
        );
    }

    #[test]
    fn news_keeps_its_connections_by_default() {
        let connections = |line| match check(line) {
            Some(BenchCommand::News(news)) => news.connections,
            other => panic!("{other:?}"),
        };
        assert_eq!(connections("news"), Connections::Kept);
        assert_eq!(connections("news --connections per-request"), Connections::PerRequest);
    }

    #[test]
    fn ycsb_takes_workloads_by_their_letters() {
        let Some(BenchCommand::Ycsb(ycsb)) = check("ycsb --workloads c,a --distribution uniform --records 5") else {
            panic!("not ycsb")
        };
        assert_eq!(ycsb.workloads, [Workload::C, Workload::A]);
        assert_eq!((ycsb.distribution, ycsb.records), (Some(Distribution::Uniform), 5));
    }

    #[test]
    fn vectors_are_the_requested_vectors() {
        let Some(BenchCommand::Vectors(vectors)) = check("vectors --tests vsim,knn --vectors 7 --candidates 50") else {
            panic!("not vectors")
        };
        assert_eq!(vectors.tests, [vectors::Test::Vsim, vectors::Test::Knn]);
        assert_eq!(
            (vectors.vectors, vectors.dimensions, vectors.candidates),
            (7, 384, Some(50))
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "",
            "ycsb --records 0",
            "ycsb --workloads g",
            "calvin --workloads a",
            "news --parallelism 0",
            "news --seconds 0",
            "news --tests read",
            "news --protocol keyvalue",
            "news --tls --target redis://127.0.0.1",
            "news --tls-roots roots.pem",
            "product --tests walk",
            "keyvalue --keys 0",
            "search --documents 0",
            "search --tests vsim",
            "vectors --dimensions 1",
        ] {
            assert!(check(line).is_none(), "{line}");
        }
    }
}
