//! `quartet import`: brings what another database holds to a running server, through that server's own protocol.

mod redis;
mod watch;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

pub use redis::{ExportArguments, export};

#[derive(Args)]
pub struct ImportArguments {
    #[command(subcommand)]
    source: Source,
}

#[derive(Subcommand)]
enum Source {
    /// An RDB file, an append-only file, a folder of them, or a live server of Redis or Valkey
    Redis(redis::RedisArguments),
}

/// The code: 0 everything has arrived, 2 something was rejected, 3 both sides differ at the cut-over.
pub fn import(arguments: ImportArguments) -> Result<ExitCode> {
    match arguments.source {
        Source::Redis(arguments) => redis::import(&arguments),
    }
}
