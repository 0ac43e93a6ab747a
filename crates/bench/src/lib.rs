//! `quartet bench`: the published benchmarks, run against Quartet or any server that speaks the
//! same protocol.
//!
//! ```text
//! records    the data of each benchmark
//! workload   what to do: data and choices, from a seed
//! target     how a database does it, over its own protocol
//! measure    the closed loop around both, and its histograms
//! results    what came of it   ->  report (text), report_html (a page), JSON, compare
//! ```
//!
//! It is a client like any other: it knows no crate of the server, and a server is named by its
//! URL.

mod arguments;
mod byte_strings;
mod circumstances;
mod compare;
mod cpu;
mod embedded;
mod keyvalue;
mod measure;
mod published;
mod random;
mod records;
mod report;
mod report_files;
mod report_html;
mod results;
mod run;
mod svg;
mod targets;
mod workload;

pub use arguments::{
    BenchArguments, BenchCommand, CompareArguments, Connections, KeyValueArguments, KeyValueTest, NewsArguments,
    NewsProtocol, ProductArguments, RunArguments, SearchArguments, VectorsArguments, YcsbArguments,
};
pub use embedded::{EmbeddedServer, InProcess, OpenInProcess, Protocol, StartEmbedded, Wanted};
pub use results::{Bucket, Cell, Latency, Machine, Percentile, Results, Settings, TargetSummary};
pub use workload::product::Test as ProductTest;
pub use workload::search::Test as SearchTest;
pub use workload::vectors::Test as VectorsTest;
pub use workload::ycsb::Workload as YcsbWorkload;

/// Does what the command line says; prints results to stdout and progress to stderr.
///
/// # Errors
///
/// The target cannot be reached or holds data, nothing of a test succeeded, or the report cannot be
/// written. Requests that fail while others succeed are not an error but counted in the results.
pub fn run(arguments: BenchArguments, start_embedded: StartEmbedded, open: OpenInProcess) -> anyhow::Result<()> {
    match arguments.command {
        BenchCommand::Product(arguments) => run::product(arguments, start_embedded),
        BenchCommand::News(arguments) => run::news(arguments, start_embedded),
        BenchCommand::Ycsb(arguments) => run::ycsb(arguments, start_embedded),
        BenchCommand::Calvin(arguments) => run::calvin(arguments, start_embedded),
        BenchCommand::Search(arguments) => run::search(arguments, start_embedded),
        BenchCommand::Vectors(arguments) => run::vectors(arguments, start_embedded),
        BenchCommand::Keyvalue(arguments) => keyvalue::run(arguments, start_embedded, open),
        BenchCommand::Compare(arguments) => compare::compare(&arguments),
    }
}
