//! How a database does what the workloads ask. One file a protocol.
//!
//! A connection belongs to the event loop of the thread that opened it. Its operations reuse their
//! buffers: on a machine shared with the server, whatever the load generator burns is missing from
//! the measured throughput.

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

/// The target that a URL names; a scheme with an `s` behind it is the same over TLS.
pub fn of_url(url: &str, trust: &Trust) -> anyhow::Result<Box<dyn Target>> {
    let (scheme, rest) = url.split_once("://").context("a target is SCHEME://HOST:PORT")?;
    Ok(match scheme {
        "redis" | "rediss" => Box::new(redis::RedisTarget::new(url, trust)?),
        "rest" | "rests" => Box::new(rest::RestTarget::new(rest, scheme == "rests", trust)?),
        "dynamodb" | "dynamodbs" => Box::new(dynamodb::DynamoDbTarget::new(rest, scheme == "dynamodbs", trust)?),
        "fauna" | "faunas" => Box::new(fauna::FaunaTarget::new(rest, scheme == "faunas", trust)?),
        _ => bail!("{scheme}:// is none of redis, rest, dynamodb and fauna, or those with an s for TLS"),
    })
}
