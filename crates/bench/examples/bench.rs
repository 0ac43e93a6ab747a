//! `quartet bench` by itself, for a server that is already running: `cargo run --example bench --
//! product --target URL`.

use clap::Parser;
use quartet_bench::BenchArguments;

#[derive(Parser)]
#[command(name = "bench")]
struct Command {
    #[command(flatten)]
    bench: BenchArguments,
}

fn main() -> anyhow::Result<()> {
    let no_server = |_| anyhow::bail!("only the quartet binary can start a server: give a --target");
    let no_engine = || anyhow::bail!("only the quartet binary has an engine in its process: give a --target");
    quartet_bench::run(Command::parse().bench, &no_server, &no_engine)
}
