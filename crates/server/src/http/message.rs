//! The input and output of a layer over HTTP, independent of the version of HTTP.

use std::borrow::Cow;
use std::time::Duration;

use opentelemetry::propagation::Extractor;
use quartet_engine::{Dependency, PartitionId, Reserved};

pub use httparse::Header;

/// The head of a request, borrowed from the input. Header names have any case.
#[derive(Clone, Copy, Debug)]
pub struct Head<'r> {
    pub method: &'r str,
    /// Path and query. For OPTIONS it may be `*`.
    pub target: &'r str,
    pub headers: &'r [Header<'r>],
}

impl<'r> Head<'r> {
    pub fn path(&self) -> &'r str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub fn query(&self) -> Option<&'r str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    /// The first header of this name, if it is text.
    pub fn header(&self, name: &str) -> Option<&'r str> {
        let value = self.values(name).next()?;
        text(value)
    }

    pub fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// Every header of this name, in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'r [u8]> {
        let named = self.headers.iter();
        let named = named.filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| header.value)
    }

    /// The headers that are text.
    pub fn texts(&self) -> impl Iterator<Item = (&'r str, &'r str)> {
        let headers = self.headers.iter();
        headers.filter_map(|header| Some((header.name, text(header.value)?)))
    }
}

/// A caller's trace is named by headers.
impl Extractor for Head<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.header(name)
    }

    fn keys(&self) -> Vec<&str> {
        self.texts().map(|(name, _)| name).collect()
    }
}

/// A request that has left its buffer, to be answered on another thread.
pub struct Kept {
    method: String,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Option<Vec<u8>>,
}

impl Kept {
    pub fn new(head: &Head<'_>, body: Option<&[u8]>) -> Kept {
        let headers = head.headers.iter();
        Kept {
            method: head.method.to_owned(),
            target: head.target.to_owned(),
            headers: headers
                .map(|header| (header.name.to_owned(), header.value.to_vec()))
                .collect(),
            body: body.map(<[u8]>::to_vec),
        }
    }

    pub fn with<T>(&self, answer: impl FnOnce(&Head<'_>, Option<&[u8]>) -> T) -> T {
        let headers = self.headers.iter().map(|(name, value)| Header { name, value });
        let headers: Vec<Header<'_>> = headers.collect();
        let head = Head {
            method: &self.method,
            target: &self.target,
            headers: &headers,
        };
        answer(&head, self.body.as_deref())
    }
}

fn text(value: &[u8]) -> Option<&str> {
    // Bytes above ASCII have no agreed meaning in a header (RFC 9110, 5.5).
    value.is_ascii().then(|| std::str::from_utf8(value).ok())?
}

/// Names in lower case, and values.
pub type Headers = Vec<(&'static str, Cow<'static, str>)>;

/// The answer, to be sent when `dependency` is durable and after `pause`.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Headers,
    pub body: Vec<u8>,
    pub dependency: Dependency,
    /// The partition of the dependency.
    pub partition: PartitionId,
    /// Nothing more is answered on the connection meanwhile.
    pub pause: Duration,
    pub credential: Credential,
    /// Counts the body, if its memory was taken before it was made.
    pub kept: Option<Reserved>,
    /// It tells of this node alone, and leaves whoever is home, though the sequencer is silent.
    pub is_of_the_node: bool,
    /// Nothing was executed: the partition is busy.
    pub is_busy: bool,
}

/// The credential that a request has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// None, or one that was not looked at.
    Absent,
    /// One that is wrong.
    Wrong,
    /// One that is right; or none was needed.
    Right,
}

impl Answer {
    /// An answer that depends on nothing.
    pub fn settled(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        Answer {
            status,
            headers: Headers::new(),
            body: body.into(),
            dependency: Dependency::ZERO,
            partition: PartitionId(0),
            pause: Duration::ZERO,
            credential: Credential::Absent,
            kept: None,
            is_of_the_node: false,
            is_busy: false,
        }
    }
}

/// Returns true for valid header text. A value derived from a client's input may be invalid: it is
/// left out.
pub fn is_header_value(value: &str) -> bool {
    value
        .bytes()
        .all(|byte| byte == b'\t' || (byte >= 0x20 && byte != 0x7f))
}

/// Returns true if an answer of this status has no body, and no length either (RFC 9110, 6.4.1).
pub fn is_bodiless(status: u16) -> bool {
    matches!(status, 100..200 | 204 | 304)
}
