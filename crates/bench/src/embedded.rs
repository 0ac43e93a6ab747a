//! Servers and databases that the caller of this crate starts for a benchmark.

use std::any::Any;
use std::path::PathBuf;

/// A server that the caller started for the benchmark, in a process of its own so that its CPU time
/// can be separated from the load generator's. Dropping it stops the server.
pub struct EmbeddedServer {
    /// Such as `redis://127.0.0.1:40123`. Its data is the benchmark's to clear.
    pub url: String,
    pub pid: Option<u32>,
    /// PEM file: what its certificate is believed by, if it has one.
    pub tls_roots: Option<PathBuf>,
    /// Only its `Drop` matters.
    _stop: Box<dyn Any>,
}

impl EmbeddedServer {
    /// `stop` stops the server when it is dropped.
    pub fn new(url: String, pid: Option<u32>, stop: impl Any) -> EmbeddedServer {
        EmbeddedServer {
            url,
            pid,
            tls_roots: None,
            _stop: Box::new(stop),
        }
    }

    /// Its certificate is believed below the roots of this PEM file.
    pub fn trusted_by(mut self, roots: PathBuf) -> EmbeddedServer {
        self.tls_roots = Some(roots);
        self
    }
}

/// Starts the requested server with an empty database, when no target is given.
pub type StartEmbedded<'a> = &'a dyn Fn(Wanted) -> anyhow::Result<EmbeddedServer>;

/// The settings of the server that a benchmark starts for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub protocol: Protocol,
    /// It has a certificate, and its URL leads there over TLS.
    pub is_tls: bool,
    /// It requires credentials, which are in its URL.
    pub is_guarded: bool,
}

impl Wanted {
    /// In clear text, without credentials.
    pub fn plain(protocol: Protocol) -> Wanted {
        Wanted {
            protocol,
            is_tls: false,
            is_guarded: false,
        }
    }
}

/// A database in this process, for the key-value benchmark.
pub trait InProcess {
    /// Reads all keys at one version, and returns the number of present keys.
    fn read(&self, keys: &[[u8; 16]]) -> usize;

    /// Commits the rows as one transaction. Returns the argument for [`InProcess::is_durable`].
    fn write(&self, rows: &[([u8; 16], Vec<u8>)]) -> anyhow::Result<u64>;

    /// Returns whether the commit is on disk; the call makes it durable.
    fn is_durable(&self, commit: u64) -> bool;

    /// Waits until it is.
    fn wait_durable(&self, commit: u64) -> anyhow::Result<()>;
}

/// Opens an empty database in this process, which exists until it is dropped.
pub type OpenInProcess<'a> = &'a dyn Fn() -> anyhow::Result<Box<dyn InProcess>>;

/// The protocol between a benchmark and a server of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Redis,
    Rest,
    DynamoDb,
    Fauna,
    KeyValue,
}
