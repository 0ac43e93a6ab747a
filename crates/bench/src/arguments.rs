//! The command line of `quartet bench`.

use crate::workload::product::Test;
use clap::builder::{RangedI64ValueParser, RangedU64ValueParser};
use clap::{Args, Subcommand};
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
    News(RunArguments),
    /// The ratio of two product.json or news.json files, cell by cell
    Compare(CompareArguments),
}

#[derive(Args, Clone, Debug)]
pub struct ProductArguments {
    #[command(flatten)]
    pub run: RunArguments,
    /// Which tests, in which order
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Test::ALL)]
    pub tests: Vec<Test>,
}

#[derive(Args, Clone, Debug)]
pub struct RunArguments {
    /// redis://[user:password@]host:port[/db], dynamodb://[key:secret@]host:port[/region] or fauna://[secret@]host:port; without it a server is started for the run
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// Numbers of closed loops to run each test with
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100], value_parser = parallelism())]
    pub parallelism: Vec<u32>,
    /// How long each test runs at each parallelism
    #[arg(long, default_value_t = 60, value_parser = seconds())]
    pub seconds: u64,
    /// Write the results here, as JSON and as a page
    #[arg(long, value_name = "DIRECTORY")]
    pub report: Option<PathBuf>,
    /// What data and choices derive from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The server's process on this machine, if it cannot be found out
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Empty the target's database first, whatever it holds
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
    fn nonsense_is_refused() {
        for line in [
            "",
            "news --parallelism 0",
            "news --seconds 0",
            "news --tests read",
            "product --tests walk",
        ] {
            assert!(check(line).is_none(), "{line}");
        }
    }
}
