//! The protocol's headers, both ways.

use std::borrow::Cow;

use base64::Engine as _;
use quartet_model::push_hexadecimal;

use crate::evaluation::Cost;
use crate::language::api_version::ApiVersion;
use crate::language::error::{Code, Errors, Result};
use crate::language::json;
use crate::service::message::{Reply, Request};

const QUERY_TIMEOUT_MS_MAX: i64 = 600_000;
const RETRIES_MAX: u32 = 7;
const EXPOSED: &str = "x-txn-time, x-compute-ops, x-byte-read-ops, x-byte-write-ops, x-read-ops, x-write-ops, x-query-time, \
x-query-bytes-in, x-query-bytes-out, x-storage-bytes-read, x-storage-bytes-write, x-txn-retries, x-faunadb-build, \
x-fauna-tags, x-fauna-stream-id, x-faunadb-host, x-rate-limited-ops, traceparent";
const ALLOWED: &str = "Authorization, Content-Type, X-FaunaDB-API-Version, X-Last-Seen-Txn, X-Query-Timeout, \
X-Max-Retries-On-Contention, X-Fauna-Tags, traceparent, X-Driver-Env, X-Fauna-Driver, X-Runtime-Environment, \
X-Runtime-Environment-OS, X-NodeJS-Version, X-GO-Version, X-FaunaDB-Formatted-JSON";

/// The secret in the value of the header Authorization.
pub fn presented_secret(authorization: &str) -> Option<Cow<'_, str>> {
    let (scheme, credentials) = authorization.split_once(' ')?;
    let credentials = credentials.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(credentials.into());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    // A driver appended a colon to the base64, too.
    let credentials = credentials.strip_suffix(':').unwrap_or(credentials);
    let decoded = base64::engine::general_purpose::STANDARD.decode(credentials).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    Some(decoded.strip_suffix(':').unwrap_or(&decoded).to_owned().into())
}

/// The headers of a request, by names in any case.
pub struct RequestHeaders<'r> {
    headers: &'r [(&'r str, &'r str)],
}

impl<'r> RequestHeaders<'r> {
    pub fn new(headers: &'r [(&'r str, &'r str)]) -> RequestHeaders<'r> {
        RequestHeaders { headers }
    }

    pub fn get(&self, name: &str) -> Option<&'r str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value)
    }

    /// Returns the presented secret, by either scheme.
    pub fn secret(&self) -> Option<Cow<'r, str>> {
        presented_secret(self.get("authorization")?)
    }

    /// `check` has refused what is none.
    pub fn api_version(&self) -> ApiVersion {
        let version = self.get("x-faunadb-api-version").and_then(ApiVersion::parse);
        version.unwrap_or(ApiVersion::DEFAULT)
    }

    pub fn last_seen(&self) -> Option<u64> {
        self.get("x-last-seen-txn")?.parse().ok()
    }

    pub fn max_retries(&self) -> Option<u32> {
        self.get("x-max-retries-on-contention")?.parse().ok()
    }

    /// Milliseconds that the query may take.
    pub fn query_timeout_ms(&self) -> Option<u64> {
        self.get("x-query-timeout")?.parse().ok()
    }

    pub fn check(&self) -> Result<()> {
        self.check_one("x-faunadb-api-version", |version| match ApiVersion::parse(version) {
            Some(_) => None,
            None => Some(format!("Unsupported or invalid API version '{version}'.")),
        })?;
        // A driver sends `None` before its first query.
        self.check_one("x-last-seen-txn", |seen| {
            let is_known = seen == "None" || seen.parse::<i64>().is_ok();
            (!is_known).then(|| format!("Invalid timestamp '{seen}'."))
        })?;
        self.check_one("x-query-timeout", |timeout| match timeout.parse::<i64>() {
            Ok(..=0) => Some("Must be greater than 0.".to_owned()),
            Ok(..=QUERY_TIMEOUT_MS_MAX) => None,
            Ok(_) => Some(format!("Must be less than or equal to {QUERY_TIMEOUT_MS_MAX}.")),
            Err(_) => Some(format!("Invalid number '{timeout}'.")),
        })?;
        self.check_one("x-max-retries-on-contention", |retries| match retries.parse::<u32>() {
            Ok(..=RETRIES_MAX) => None,
            Ok(_) => Some(format!("Must be between 0 and {RETRIES_MAX}.")),
            Err(_) => Some(format!("Invalid number '{retries}'.")),
        })?;
        self.check_one("x-fauna-tags", |header| tags(header).err().map(str::to_owned))
    }

    /// Refuses a header in which something is wrong.
    fn check_one(&self, name: &str, wrong: impl FnOnce(&str) -> Option<String>) -> Result<()> {
        match self.get(name).and_then(wrong) {
            None => Ok(()),
            Some(reason) => {
                let message = format!("Invalid header '{name}': {reason}");
                Err(Errors::protocol(Code::BadRequest, message))
            }
        }
    }
}

/// The pairs of `x-fauna-tags`, or what is wrong with them.
fn tags(header: &str) -> std::result::Result<Vec<(&str, &str)>, &'static str> {
    if header.len() > 3000 {
        return Err("header is too long");
    }
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    let legal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    for pair in header.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or("invalid tags")?;
        let (key, value) = (key.trim(), value.trim());
        if !legal(key) || !legal(value) {
            return Err("invalid tags");
        }
        if key.len() > 40 {
            return Err("invalid key");
        }
        if value.len() > 80 {
            return Err("invalid value");
        }
        if pairs.iter().any(|(name, _)| *name == key) {
            return Err("duplicate key");
        }
        pairs.push((key, value));
    }
    match pairs.len() {
        26.. => Err("too many tags"),
        _ => Ok(pairs),
    }
}

/// A path with doubled and trailing slashes taken out: drivers concatenate.
pub fn plain_path(path: &str) -> Cow<'_, str> {
    if path == "/" {
        return path.into();
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("/{}", parts.join("/")).into()
}

/// Returns true if a request is for `Fauna::stream` to answer.
pub fn is_stream(request: &Request<'_>) -> bool {
    let path = request.target.split_once('?').map_or(request.target, |(path, _)| path);
    request.method == "POST" && plain_path(path) == "/stream"
}

/// A parameter of a query string, decoded.
pub fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
    let mut bytes = Vec::new();
    let mut encoded = value.bytes();
    while let Some(byte) = encoded.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                bytes.push((digit(encoded.next())? * 16 + digit(encoded.next())?) as u8);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

/// The answer to a browser's CORS preflight.
pub fn preflight(headers: &RequestHeaders<'_>) -> Reply {
    let mut reply = Reply {
        status: 200,
        headers: Vec::new(),
        body: String::new(),
        dependency: quartet_model::Version::ZERO,
        duration_micros: 0,
        unanswered: None,
    };
    if headers.get("origin").is_some() {
        reply.headers.push(("access-control-max-age", "86400".into()));
        reply
            .headers
            .push(("access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE".into()));
        reply.headers.push(("access-control-allow-headers", ALLOWED.into()));
    }
    reply
}

/// Writes the cost of a query, in both generations of headers.
pub fn metrics(
    reply: &mut Reply,
    cost: &Cost,
    version: quartet_model::Version,
    elapsed_ms: u64,
    bytes_in: usize,
    retries: u32,
) {
    let [reads, writes, computes] = cost.operations();
    let numbers = [
        ("x-txn-time", version.0),
        ("x-compute-ops", computes),
        ("x-byte-read-ops", reads),
        ("x-byte-write-ops", writes),
        ("x-read-ops", reads),
        ("x-write-ops", writes),
        ("x-query-time", elapsed_ms),
        ("x-query-bytes-in", bytes_in as u64),
        ("x-query-bytes-out", reply.body.len() as u64),
        ("x-storage-bytes-read", cost.bytes_read),
        ("x-storage-bytes-write", cost.bytes_written),
        ("x-txn-retries", u64::from(retries)),
    ];
    let text = |number: u64| match number {
        0 => "0".into(),
        1 => "1".into(),
        number => number.to_string().into(),
    };
    reply.headers.extend(numbers.map(|(name, number)| (name, text(number))));
}

/// Adds what every reply carries.
pub fn complete(mut reply: Reply, request: &RequestHeaders<'_>, trace: &[u8; 24]) -> Reply {
    if request.get("x-faunadb-formatted-json").is_some() {
        reply.body = json::indented(&reply.body);
    }
    let headers = &mut reply.headers;
    if !reply.body.is_empty() {
        headers.push(("content-type", "application/json;charset=utf-8".into()));
    }
    headers.push(("x-faunadb-build", concat!("quartet-", env!("CARGO_PKG_VERSION")).into()));
    headers.push(("traceparent", traceparent(request.get("traceparent"), trace).into()));
    if reply.status == 401 {
        headers.push(("www-authenticate", "Basic realm=\"Unauthorized\"".into()));
    }
    if let Some(Ok(mut pairs)) = request.get("x-fauna-tags").map(tags) {
        // They are returned in reverse order, which a driver's test requires.
        pairs.reverse();
        let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        headers.push(("x-fauna-tags", pairs.join(",").into()));
    }
    if let Some(origin) = request.get("origin") {
        headers.push(("access-control-allow-origin", origin.to_owned().into()));
        headers.push(("access-control-allow-credentials", "true".into()));
        headers.push(("access-control-expose-headers", EXPOSED.into()));
    }
    reply
}

/// W3C trace context: the caller's trace if it sent a valid one, otherwise a new trace; `fresh` has
/// the bytes of both ids.
fn traceparent(incoming: Option<&str>, fresh: &[u8; 24]) -> String {
    let mut header = String::with_capacity(55);
    header.push_str("00-");
    let flags = match incoming.and_then(valid_trace) {
        Some((trace, flags)) => {
            header.push_str(trace);
            flags
        }
        None => {
            push_hexadecimal(&mut header, &fresh[..16]);
            "00"
        }
    };
    header.push('-');
    push_hexadecimal(&mut header, &fresh[16..]);
    header.push('-');
    header.push_str(flags);
    header
}

/// The id of the trace and its flags.
fn valid_trace(incoming: &str) -> Option<(&str, &str)> {
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let set = |text: &str| text.bytes().any(|byte| byte != b'0');
    let mut parts = incoming.split('-');
    let [version, trace, span, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    let shape =
        parts.next().is_none() && is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    (shape && set(trace) && set(span) && version != "ff").then_some((trace, flags))
}
