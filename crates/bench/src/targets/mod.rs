//! Implementations of the workloads' operations. One file per protocol.
//!
//! A connection belongs to the event loop of the thread that opened it. Its operations reuse their
//! buffers: on a machine shared with the server, CPU used by the load generator reduces the
//! measured throughput.

mod dynamodb;
mod endpoint;
mod error;
mod fauna;
mod http;
mod redis;
mod reply;
mod rest;
mod socket;
mod target;
mod url;

use anyhow::{Context, bail};

pub use self::endpoint::Trust;
pub use self::error::OperationError;
pub use self::target::{Connection, Records, Searches, ServerDescription, Target};

/// The target of a URL; a scheme with an appended `s` is the same over TLS.
pub fn of_url(url: &str, trust: &Trust) -> anyhow::Result<Box<dyn Target>> {
    let (scheme, location) = url.split_once("://").context("a target is SCHEME://HOST:PORT")?;
    Ok(match scheme {
        "redis" | "rediss" => Box::new(redis::RedisTarget::new(url, trust)?),
        "rest" | "rests" => Box::new(rest::RestTarget::new(location, scheme == "rests", trust)?),
        "dynamodb" | "dynamodbs" => Box::new(dynamodb::DynamoDbTarget::new(location, scheme == "dynamodbs", trust)?),
        "fauna" | "faunas" => Box::new(fauna::FaunaTarget::new(location, scheme == "faunas", trust)?),
        _ => bail!("{scheme}:// is none of redis, rest, dynamodb and fauna, or those with an s for TLS"),
    })
}
