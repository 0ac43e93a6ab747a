//! `quartet import`: brings what another database holds to a running server, through that server's
//! own protocol.

mod observe;
mod records;
mod redis;
mod upstash;
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
    /// An Upstash database, over its REST API
    Upstash(upstash::UpstashArguments),
    /// An export of a DynamoDB table, in a folder or a bucket, or a live table
    Dynamodb(records::DynamoDbArguments),
    /// Documents of FaunaDB, a file for each collection
    Fauna(records::FaunaArguments),
    /// Keys and values, from a file
    Keyvalue(records::KeyValueImportArguments),
}

/// The code: 0 everything has arrived, 2 something was rejected, 3 both sides differ at the
/// cut-over.
pub fn import(arguments: ImportArguments) -> Result<ExitCode> {
    match arguments.source {
        Source::Redis(arguments) => redis::import(&arguments),
        Source::Upstash(arguments) => upstash::import(&arguments),
        Source::Dynamodb(arguments) => records::import_dynamodb(&arguments),
        Source::Fauna(arguments) => records::import_fauna(&arguments),
        Source::Keyvalue(arguments) => records::import_keyvalue(&arguments),
    }
}
