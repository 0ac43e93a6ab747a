//! Requests and replies, independent of the transport.

use std::borrow::Cow;

use quartet_engine::{Busy, Dependency};
use quartet_model::Version;

use crate::language::api_version::ApiVersion;
use crate::language::error::{Code, Errors, Result};
use crate::language::json::{self, JsonError};
use crate::language::render;

/// A request as the transport received it. Header names may have any case.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    pub method: &'r str,
    /// With the query string.
    pub target: &'r str,
    pub headers: &'r [(&'r str, &'r str)],
    pub body: &'r [u8],
}

/// Why a request is not run.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// Its body is longer than may be.
    TooLarge,
    /// There have been more than may be, as the text says.
    TooMany(String),
    /// Something keeps the partition.
    Busy,
    /// There is no memory to read it.
    NoMemory,
}

/// Why a request was not answered, and nothing of it done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It must be answered where that may take long.
    TakesLong,
    /// The partition's lock is held; the request may be repeated once it is free.
    Busy,
}

impl From<Busy> for Unanswered {
    fn from(_: Busy) -> Unanswered {
        Unanswered::Busy
    }
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    pub body: String,
    /// The reply may be sent once this is durable.
    pub dependency: Dependency,
    /// The query's duration, from when it was looked at until its answer was written; zero for a
    /// request that is no query.
    pub duration_micros: u64,
    /// Set if the request must be repeated; the reply is for callers that do not.
    pub unanswered: Option<Unanswered>,
}

/// Reads the query in a body.
pub fn parse_body(body: &[u8]) -> Result<json::Json> {
    json::parse(body).map_err(|error| {
        let message = match error {
            JsonError::Empty => "No query provided.",
            JsonError::Invalid => "Request body is not valid JSON.",
            JsonError::TooDeep => "Request body JSON exceeds nesting limit.",
        };
        Errors::new(Code::InvalidExpression, message)
    })
}

/// An answer to what was not evaluated.
pub fn refusal(errors: &Errors) -> Reply {
    refusal_in(errors, 0, ApiVersion::V4)
}

/// The same in the words of a version of the protocol, as of a time in microseconds.
pub fn refusal_in(errors: &Errors, micros: u64, version: ApiVersion) -> Reply {
    Reply {
        status: errors.status(),
        headers: Vec::new(),
        body: render::errors(errors, micros, version),
        dependency: Version::ZERO,
        duration_micros: 0,
        unanswered: None,
    }
}
