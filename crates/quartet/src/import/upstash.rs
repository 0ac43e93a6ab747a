//! `quartet import upstash`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quartet_redis_copy::connection::Connection;
use quartet_redis_copy::upstash::{self, Rest};
use quartet_redis_copy::{Address, Error};

use super::redis::told;
use super::watch::Watch;

#[derive(Args)]
pub struct UpstashArguments {
    /// URL of the REST API of the database
    #[arg(long, env = "UPSTASH_REDIS_REST_URL")]
    from: String,
    /// Its token; the read-only one is enough
    #[arg(long, env = "UPSTASH_REDIS_REST_TOKEN", hide_env_values = true)]
    token: String,
    /// The target server, with the credential of the target database
    #[arg(
        long,
        env = "QUARTET_IMPORT_TO",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    to: Address,
    /// Copies into a target that is not empty, and replaces keys of the same name
    #[arg(long)]
    merge: bool,
    /// File that what was rejected is added to [default: standard error]
    #[arg(long)]
    rejected: Option<PathBuf>,
}

pub fn import(arguments: &UpstashArguments) -> Result<ExitCode> {
    let mut target = Connection::open_target(&arguments.to)?;
    let mut watch = Watch::new(arguments.rejected.as_deref(), false, false)?;
    let source = Rest::new(&arguments.from, &arguments.token);
    let outcome = upstash::copy(&source, &mut target, &mut watch, arguments.merge);
    watch.end();
    match outcome {
        Ok(copied) => Ok(told(copied, None)),
        Err(Error::Stopped) => {
            println!("{}", Error::Stopped);
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error.into()),
    }
}
