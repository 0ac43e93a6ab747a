//! Validated settings of a server. The binary fills them from flags, environment and file.
//!
//! A listener's settings are one struct, in a file of their own; the row of the listener in
//! `listeners` takes them from [`Settings`].

pub mod cluster;
mod dynamodb;
#[cfg(test)]
mod echo;
mod fauna;
mod http;
mod keyvalue;
mod listen;
mod redis;
mod sentinel;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use quartet_engine::{Durability, StoreKind};

pub use self::cluster::{ClusterSettings, NodeCertificates, node_id};
pub use self::dynamodb::{AccessKeys, DynamoDbSettings};
#[cfg(test)]
pub use self::echo::EchoSettings;
pub use self::fauna::{DEVELOPMENT_SECRET, FaunaSettings};
pub use self::http::{HttpSettings, RestTokens};
pub use self::keyvalue::KeyValueSettings;
pub use self::listen::{Credentials, Listen, Listening, NewCredentials};
pub use self::redis::{ConfigFile, RedisSettings, appendfsync};
pub use self::sentinel::SentinelSettings;
use crate::connections::tls::TlsFiles;

/// The location of the log and the checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    Folder(PathBuf),
    /// Nowhere that outlives the process.
    Memory,
}

impl Data {
    /// The word `memory`, or a path.
    pub fn named(path: &Path) -> Data {
        match path.to_str() {
            Some("memory") => Data::Memory,
            _ => Data::Folder(path.to_owned()),
        }
    }

    pub fn folder(&self) -> Option<&Path> {
        match self {
            Data::Folder(path) => Some(path),
            Data::Memory => None,
        }
    }
}

/// All settings: the server's own in groups, and a struct for each listener.
#[derive(Clone, Debug)]
pub struct Settings {
    pub storage: StorageSettings,
    pub log: LogSettings,
    pub memory: MemorySettings,
    pub backups: BackupSettings,
    /// `None`: the log is this server's own.
    pub cluster: Option<ClusterSettings>,
    pub connections: ConnectionSettings,
    /// The collector that gets metrics and spans; `None`: none does.
    pub telemetry: Option<TelemetrySettings>,
    /// Requests that take this long are logged.
    pub slow_requests: Option<Duration>,
    /// The credential of the default database, in every protocol but DynamoDB's.
    pub credentials: Credentials,
    /// Reports what the server is doing while it starts, in a sentence.
    pub status: fn(&str),
    /// Shows credentials that were made just now, this once.
    pub show: fn(&NewCredentials),
    pub redis: RedisSettings,
    pub http: HttpSettings,
    pub dynamodb: DynamoDbSettings,
    pub fauna: FaunaSettings,
    pub keyvalue: KeyValueSettings,
    pub sentinel: SentinelSettings,
    /// The toy's of `docs/contributing/layer.md`.
    #[cfg(test)]
    pub echo: EchoSettings,
}

/// The storage of rows, and the time at which a write is acknowledged.
#[derive(Clone, Debug)]
pub struct StorageSettings {
    pub data: Data,
    /// `None`: the folder's number of partitions, one in a new folder.
    pub partitions: Option<u32>,
    pub durability: Durability,
    /// The kind of store; `None`: the folder's kind, or the memory engine in an empty folder.
    pub engine: Option<StoreKind>,
    /// Bytes of disk reads that the ssd engine caches; `None`: a share of the budget.
    pub cache_bytes: Option<u64>,
    /// The log bytes whose changes the ssd engine keeps in memory before it writes them to its
    /// files.
    pub unflushed_bytes: u64,
}

/// The log of transactions.
#[derive(Clone, Debug)]
pub struct LogSettings {
    pub segment_bytes: u64,
    /// The largest size of the part of the log that is kept for readers although the next start
    /// does not need it.
    pub retention_bytes: u64,
    /// The greatest age of that part.
    pub retention: Duration,
}

/// The memory of the process.
#[derive(Clone, Debug)]
pub struct MemorySettings {
    /// The process's memory budget in bytes; 0: unlimited; `None`: four fifths of the memory
    /// available to it.
    pub bytes: Option<u64>,
    /// Returns the allocator's caches to the system.
    pub purge: fn(),
}

/// Backups and restores at an operator's request.
#[derive(Clone, Debug)]
pub struct BackupSettings {
    /// The targets of the server's backups: names, and folders or `s3://` addresses.
    pub targets: Vec<(String, String)>,
    /// The folder for data folders that an operator restores.
    pub restore_folder: Option<PathBuf>,
}

/// The connections of all listeners.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// Threads that serve connections; `None`: one for every two cores. A thread that has more
    /// connections to serve at each wake-up spends less on each; the other cores are for the
    /// flusher, the kernel, and other programs on the machine.
    pub io_threads: Option<usize>,
    /// Most open connections, of all listeners together; CONFIG's `maxclients` starts with it.
    /// Fewer if the limit on open files is too low.
    pub connections_max: usize,
    /// Most bytes of requests that a connection may have waiting, one whole request included: what
    /// CONFIG's `client-query-buffer-limit` starts with.
    pub request_bytes_max: usize,
    /// Time for which a peer may take nothing of a reply before it is cut off.
    pub output_stall_timeout: Duration,
    /// How long a new connection may take to authenticate.
    pub authentication_timeout: Duration,
    /// All listeners take TLS, beside clear text, if this names a certificate.
    pub tls: TlsFiles,
    /// Clear text is refused on every listener.
    pub tls_only: bool,
}

/// Where metrics and spans are sent by OTLP.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetrySettings {
    /// Before `/v1/metrics` and `/v1/traces`.
    pub endpoint: String,
    /// Sent along with everything: credentials, usually.
    pub headers: Vec<(String, String)>,
    /// The share of requests without a caller's decision that have spans.
    pub sampling_ratio: f64,
    pub metrics_every: Duration,
}

impl Settings {
    /// Refuses what would be unsafe or could not work, at any of the listeners.
    pub fn check(&self, listeners: impl IntoIterator<Item = Listening>) -> Result<()> {
        for Listening { name, listen, is_open } in listeners {
            if let Some(address) = listen.address()
                && !address.ip().is_loopback()
                && is_open
            {
                bail!(
                    "refusing to listen for {name} on {address} without credentials: --dev is for loopback only; \
                     start without --dev to get a root key"
                );
            }
        }
        Ok(())
    }

    /// A listener with the server's credential, if there is one.
    pub fn listening(&self, name: &'static str, listen: Listen) -> Listening {
        Listening {
            name,
            listen,
            is_open: self.is_development(),
        }
    }

    /// True with `--dev`: no credential is needed.
    pub fn is_development(&self) -> bool {
        self.credentials == Credentials::None
    }
}

impl ConnectionSettings {
    pub fn io_threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.io_threads.unwrap_or_else(|| cores() / 2).max(1)
    }
}

#[cfg(test)]
impl Settings {
    /// A server in memory that listens nowhere.
    pub fn for_test() -> Settings {
        Settings {
            storage: StorageSettings {
                data: Data::Memory,
                partitions: None,
                durability: Durability::Always,
                engine: None,
                cache_bytes: Some(1 << 20),
                unflushed_bytes: 1 << 20,
            },
            log: LogSettings {
                segment_bytes: 1 << 20,
                retention_bytes: 0,
                retention: Duration::ZERO,
            },
            memory: MemorySettings {
                bytes: Some(0),
                purge: || {},
            },
            backups: BackupSettings {
                targets: Vec::new(),
                restore_folder: None,
            },
            cluster: None,
            connections: ConnectionSettings {
                io_threads: Some(2),
                connections_max: 100,
                request_bytes_max: 1 << 20,
                output_stall_timeout: Duration::ZERO,
                authentication_timeout: Duration::ZERO,
                tls: TlsFiles::default(),
                tls_only: false,
            },
            telemetry: None,
            slow_requests: None,
            credentials: Credentials::None,
            status: |_| {},
            show: |_| {},
            redis: RedisSettings::default(),
            http: HttpSettings::default(),
            dynamodb: DynamoDbSettings::default(),
            fauna: FaunaSettings::default(),
            keyvalue: KeyValueSettings::default(),
            sentinel: SentinelSettings::default(),
            echo: EchoSettings::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_needs_credentials() {
        let check = |address: &str, credentials| {
            let settings = Settings {
                credentials,
                ..Settings::for_test()
            };
            let listening = settings.listening("echo", address.parse().unwrap());
            settings.check([listening]).is_ok()
        };
        assert!(check("127.0.0.1:0", Credentials::None));
        assert!(check("off", Credentials::None));
        assert!(!check("0.0.0.0:0", Credentials::None));
        assert!(check("0.0.0.0:0", Credentials::Key { sha256: [0; 32] }));
    }
}
