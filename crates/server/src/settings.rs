//! Validated settings of a server. The binary fills them from flags, environment and file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail};
use quartet_engine::{Durability, StoreKind};
use quartet_layer_fauna::Operations;
use quartet_layer_redis::Announcement;
use quartet_layer_redis::command::migration::Targets;
use quartet_layer_redis::config::Config;

use crate::connections::tls::TlsFiles;

/// Where the log and the checkpoints lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    Folder(PathBuf),
    /// Nowhere that outlives the process.
    Memory,
}

impl Data {
    /// The word `memory`, or a path.
    pub fn named(given: &Path) -> Data {
        match given.to_str() {
            Some("memory") => Data::Memory,
            _ => Data::Folder(given.to_owned()),
        }
    }

    pub fn folder(&self) -> Option<&Path> {
        match self {
            Data::Folder(path) => Some(path),
            Data::Memory => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub data: Data,
    pub durability: Durability,
    pub redis: Listen,
    pub http: Listen,
    pub dynamodb: Listen,
    pub fauna: Listen,
    pub keyvalue: Listen,
    /// Sentinel's protocol, for clients that ask one where the server is.
    pub sentinel: Listen,
    /// By which name they ask.
    pub sentinel_master_name: String,
    /// Redis' protocol answers as a cluster of one node.
    pub emulates_cluster: bool,
    /// The address that clients of clusters and sentinels get.
    pub announcement: Announcement,
    pub keyvalue_limits: quartet_layer_keyvalue::Options,
    /// FaunaDB's operations in a second for each credential; `None`: as many as anybody likes.
    pub fauna_rate_limits: Option<Operations>,
    /// Certificates of issuers of FaunaDB's access providers, trusted instead of the public ones;
    /// such issuers may have private addresses.
    pub fauna_issuer_roots: Option<PathBuf>,
    /// A listener of Redis' protocol that takes TLS alone.
    pub redis_tls: Listen,
    /// All listeners take TLS, beside clear text, if this names a certificate.
    pub tls: TlsFiles,
    pub credentials: Credentials,
    pub rest_tokens: RestTokens,
    /// DynamoDB's access keys and their secrets; none: any is accepted, and therefore only on
    /// loopback.
    pub access_keys: Vec<(String, String)>,
    /// DynamoDB's tables may consume no more than what they are provisioned with.
    pub dynamodb_throttling: bool,
    /// Each region that a credential names has DynamoDB tables of its own.
    pub dynamodb_regions_are_separate: bool,
    /// The buckets that exports go to and imports come from: names, and folders or `s3://`
    /// addresses.
    pub dynamodb_buckets: Vec<(String, String)>,
    /// An export is refused what would make a bucket hold more.
    pub dynamodb_bucket_bytes_max: Option<u64>,
    /// Where the server takes backups to when an operator asks it to: names, and folders or `s3://`
    /// addresses.
    pub backup_targets: Vec<(String, String)>,
    /// Where data folders are made that an operator restores.
    pub restore_folder: Option<PathBuf>,
    /// Threads that serve connections; `None`: one for every two cores. A thread that has more
    /// connections to serve at each wake-up spends less on each; the other cores are for the
    /// flusher, the kernel, and whoever else is on the machine.
    pub io_threads: Option<usize>,
    /// Most open connections, of all listeners together; CONFIG's `maxclients` starts with it.
    /// Fewer if the limit on open files is too low.
    pub connections_max: usize,
    /// Most bytes of requests that a connection may have waiting, one whole request included: what
    /// CONFIG's `client-query-buffer-limit` starts with.
    pub request_bytes_max: usize,
    /// How long a peer may take nothing of a reply before it is cut off.
    pub output_stall_timeout: Duration,
    /// How long a new connection may take to authenticate.
    pub authentication_timeout: Duration,
    pub log_segment_bytes: u64,
    /// The part of the log that is kept for readers although the next start does not need it: its
    /// largest size, and its age.
    pub log_retention_bytes: u64,
    pub log_retention: Duration,
    /// Which store; `None`: whichever the folder holds, the memory engine in an empty one.
    pub engine: Option<StoreKind>,
    /// Bytes of disk reads that the ssd engine caches; `None`: a share of the budget.
    pub cache_bytes: Option<u64>,
    /// How much of the log the ssd engine keeps the changes of in memory, before it writes them to
    /// its files.
    pub unflushed_bytes: u64,
    /// The process' memory budget in bytes; 0: as much as there is; `None`: four fifths of the
    /// memory available to it.
    pub memory_bytes: Option<u64>,
    /// The collector that gets metrics and spans; `None`: nobody does.
    pub telemetry: Option<TelemetrySettings>,
    /// Requests that take this long are logged.
    pub slow_requests: Option<Duration>,
    /// Tells whoever started the server, in a sentence, what it is doing.
    pub status: fn(&str),
    /// Gives the system back what the allocator keeps for later.
    pub purge: fn(),
    /// Where the operator's MIGRATE may send keys.
    pub migration_targets: Targets,
    pub config_file: Option<ConfigFile>,
    /// The file of Redis' users, if it is not the one in the data directory.
    pub users_file: Option<PathBuf>,
    /// The RDB file that SAVE and BGSAVE write beside the checkpoint.
    pub rdb: Option<PathBuf>,
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

/// The file that the server was started with.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    pub path: PathBuf,
    /// Parameters of Redis' CONFIG, with the values that they start with.
    pub parameters: Vec<(String, String)>,
    pub write: WriteParameters,
}

/// Gives parameters new values in the file at a path: CONFIG REWRITE.
pub type WriteParameters = fn(&Path, &[(&'static str, String)]) -> Result<(), String>;

/// Where a listener listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    Off,
    On(SocketAddr),
}

impl Listen {
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Listen::Off => None,
            Listen::On(address) => Some(address),
        }
    }
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        if text == "off" {
            return Ok(Listen::Off);
        }
        text.parse()
            .map(Listen::On)
            .map_err(|_| format!("'{text}' is neither ADDRESS:PORT nor \"off\""))
    }
}

/// Tokens of REST, besides those that users have by ACL; only their hashes are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestTokens {
    /// May do what `default` may. If there is one, a server that asks for no password still asks
    /// for it.
    pub standard: Option<[u8; 32]>,
    pub read_only: Option<[u8; 32]>,
}

impl RestTokens {
    pub fn new(standard: Option<&str>, read_only: Option<&str>) -> RestTokens {
        let hash = |token: &str| quartet_layer_redis::access::acl::password_hash(token.as_bytes());
        RestTokens {
            standard: standard.map(hash),
            read_only: read_only.map(hash),
        }
    }
}

/// The secret that every local setup of FaunaDB uses.
pub const DEVELOPMENT_SECRET: &str = "secret";

/// The credentials that a client has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// `--dev`: nothing, and therefore only on loopback.
    None,
    /// The root key; only its hash is kept.
    Key { sha256: [u8; 32] },
}

impl Settings {
    /// Refuses what would be unsafe or could not work.
    pub fn check(&self) -> Result<()> {
        let open = self.credentials == Credentials::None;
        let listeners = [
            ("redis", self.redis, open),
            ("redis over TLS", self.redis_tls, open),
            ("http", self.http, open),
            ("fauna", self.fauna, open),
            ("keyvalue", self.keyvalue, open),
            ("dynamodb", self.dynamodb, self.access_keys.is_empty()),
        ];
        for (name, listen, open) in listeners {
            let beyond_loopback = listen.address().is_some_and(|address| !address.ip().is_loopback());
            if beyond_loopback && open {
                bail!(
                    "refusing to listen for {name} on {} without credentials: --dev is for loopback only; \
                     start without --dev to get a root key",
                    listen.address().expect("an address that is beyond loopback")
                );
            }
        }
        Ok(())
    }

    /// Makes CONFIG GET say what was decided here. DEBUG is for everybody where only this machine
    /// can connect, and only for this machine where others can.
    pub fn tell(&self, config: &Config) {
        if let Some(folder) = self.data.folder() {
            let path = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
            config.start_with("dir", path.display().to_string());
        }
        config.start_with("appendfsync", appendfsync(self.durability).into());
        // Parameters are signed; nobody means more than that.
        let number = |setting: usize| i64::try_from(setting).unwrap_or(i64::MAX).to_string();
        config.start_with("maxclients", number(self.connections_max));
        let possible = i64::try_from(self.connections_max).unwrap_or(i64::MAX);
        config.maxclients_possible.store(possible, Ordering::Relaxed);
        config.start_with("client-query-buffer-limit", number(self.request_bytes_max));
        self.tls.tell(config);
        if let Some(address) = self.redis.address() {
            config.start_with("bind", address.ip().to_string());
            let debug = if address.ip().is_loopback() { "yes" } else { "local" };
            config.start_with("enable-debug-command", debug.into());
        }
    }

    pub fn io_threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.io_threads.unwrap_or_else(|| cores() / 2).max(1)
    }

    /// Returns the lines that a user of `@upstash/redis` pastes into an environment.
    pub fn rest_variables(&self, url: &str) -> String {
        let token = match (&self.rest_tokens.standard, &self.credentials) {
            (Some(_), _) => "<the token given>",
            (None, Credentials::None) => "dev",
            (None, Credentials::Key { .. }) => "<root key>",
        };
        format!("UPSTASH_REDIS_REST_URL={url} UPSTASH_REDIS_REST_TOKEN={token}")
    }

    /// The line of a cluster file by which clients of FoundationDB find the server; the root key
    /// stands for itself.
    pub fn cluster_string(&self, address: SocketAddr) -> String {
        match self.credentials {
            Credentials::None => format!("quartet:dev@{address}"),
            Credentials::Key { .. } => format!("quartet:<root key>@{address}"),
        }
    }

    /// Returns the address that a user pastes into a client; the root key stands for itself.
    pub fn connection_string(&self, scheme: &str, address: SocketAddr) -> String {
        match self.credentials {
            Credentials::None => format!("{scheme}://{address}"),
            Credentials::Key { .. } => format!("{scheme}://default:<root key>@{address}"),
        }
    }
}

/// Redis' word for how durable an acknowledged write is.
pub fn appendfsync(durability: Durability) -> &'static str {
    match durability {
        Durability::Always => "always",
        Durability::Interval => "everysec",
        Durability::None => "no",
    }
}

#[cfg(test)]
impl Settings {
    /// A server in memory that listens nowhere.
    pub fn for_test() -> Settings {
        Settings {
            data: Data::Memory,
            durability: Durability::Always,
            redis: Listen::Off,
            http: Listen::Off,
            fauna: Listen::Off,
            keyvalue: Listen::Off,
            sentinel: Listen::Off,
            log_retention_bytes: 0,
            log_retention: Duration::ZERO,
            sentinel_master_name: String::new(),
            emulates_cluster: false,
            announcement: Announcement::default(),
            keyvalue_limits: quartet_layer_keyvalue::Options::default(),
            dynamodb: Listen::Off,
            fauna_rate_limits: None,
            fauna_issuer_roots: None,
            redis_tls: Listen::Off,
            tls: TlsFiles::default(),
            credentials: Credentials::None,
            rest_tokens: RestTokens::default(),
            access_keys: Vec::new(),
            dynamodb_throttling: false,
            dynamodb_regions_are_separate: false,
            dynamodb_buckets: Vec::new(),
            dynamodb_bucket_bytes_max: None,
            backup_targets: Vec::new(),
            restore_folder: None,
            io_threads: Some(2),
            connections_max: 100,
            request_bytes_max: 1 << 20,
            output_stall_timeout: Duration::ZERO,
            authentication_timeout: Duration::ZERO,
            log_segment_bytes: 1 << 20,
            engine: None,
            cache_bytes: Some(1 << 20),
            unflushed_bytes: 1 << 20,
            memory_bytes: Some(0),
            telemetry: None,
            slow_requests: None,
            status: |_| {},
            purge: || {},
            migration_targets: Targets::Any,
            users_file: None,
            rdb: None,
            config_file: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_addresses_or_off() {
        assert_eq!("off".parse(), Ok(Listen::Off));
        assert_eq!("127.0.0.1:0".parse::<Listen>().unwrap().address().unwrap().port(), 0);
        assert!("6379".parse::<Listen>().is_err());
    }

    fn told(redis: &str) -> Vec<String> {
        let settings = Settings {
            data: Data::Folder("some/data".into()),
            durability: Durability::Interval,
            redis: redis.parse().unwrap(),
            credentials: Credentials::Key { sha256: [0; 32] },
            ..Settings::for_test()
        };
        let config = Config::default();
        settings.tell(&config);
        ["dir", "appendfsync", "bind", "enable-debug-command"]
            .map(|name| config.text_of(name))
            .to_vec()
    }

    #[test]
    fn config_says_what_was_decided() {
        let here = std::env::current_dir().unwrap().join("some/data").display().to_string();
        assert_eq!(told("127.0.0.1:0"), [&here, "everysec", "127.0.0.1", "yes"]);
        assert_eq!(told("0.0.0.0:0"), [&here, "everysec", "0.0.0.0", "local"]);
        assert_eq!(told("[::1]:0"), [&here, "everysec", "::1", "yes"]);
    }
}
