//! Raw settings: flags and environment over one TOML file over defaults, the file's keys named as
//! the flags.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use quartet_engine::{Durability, StoreKind};
use quartet_server::{
    Announcement, ClientCertificates, ConfigFile, Credentials, Data, KeyValueLimits, Listen, RestTokens, Settings,
    Targets, TelemetrySettings, TlsFiles,
};
use serde::{Deserialize, Serialize};

use crate::config_file::{self, ParameterValue};

/// Where the data lies if nobody says otherwise.
pub const DEFAULT_DATA: &str = "quartet-data";

/// Each option may also stand in the file, under its name; a flag or variable wins over the file.
#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServeArguments {
    /// Directory that holds the log and the checkpoints, or "memory": nothing is kept [default:
    /// quartet-data]
    #[arg(long, env = "QUARTET_DATA")]
    data: Option<PathBuf>,
    /// Where rows are kept: memory, or ssd, for more than memory has [default: what the directory
    /// holds; memory for a new one]
    #[arg(long, env = "QUARTET_ENGINE", value_parser = ["memory", "ssd"])]
    engine: Option<String>,
    /// When a write is acknowledged: always (on disk), interval (synced every second), none
    /// [default: always]
    #[arg(long, env = "QUARTET_DURABILITY", value_parser = ["always", "interval", "none"])]
    durability: Option<String>,
    /// Which log orders the transactions [default: file]
    #[arg(long, env = "QUARTET_LOG", value_parser = ["file"])]
    log: Option<String>,
    /// TOML file with the same options; an unknown key is an error
    #[arg(long, env = "QUARTET_CONFIG")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// For development, on loopback only: no password
    #[arg(long, env = "QUARTET_DEV")]
    dev: bool,
    /// Stops when standard input ends: for a test that starts a server and must not leave it
    /// behind, however it ends
    #[arg(long, env = "QUARTET_STOP_WITH_STDIN")]
    stop_with_stdin: bool,
    /// The root key, instead of the one that the first start makes [default: the one of the data
    /// directory]
    #[arg(long, env = "QUARTET_ROOT_KEY", hide_env_values = true)]
    root_key: Option<String>,
    /// File that holds the root key
    #[arg(long, env = "QUARTET_ROOT_KEY_FILE")]
    root_key_file: Option<PathBuf>,
    /// Address of the Redis protocol, or "off" [default: 127.0.0.1:6379]
    #[arg(long, env = "QUARTET_LISTEN_REDIS")]
    listen_redis: Option<String>,
    /// Address of HTTP: Redis over REST, /metrics, /healthz, /readyz; or "off" [default:
    /// 127.0.0.1:8080]
    #[arg(long, env = "QUARTET_LISTEN_HTTP")]
    listen_http: Option<String>,
    /// Token of Redis over REST [default: the root key; with --dev any]
    #[arg(long, env = "QUARTET_REST_TOKEN", hide_env_values = true)]
    rest_token: Option<String>,
    /// File that holds the token of Redis over REST
    #[arg(long, env = "QUARTET_REST_TOKEN_FILE")]
    rest_token_file: Option<PathBuf>,
    /// Token of Redis over REST that may only read [default: none]
    #[arg(long, env = "QUARTET_REST_READ_ONLY_TOKEN", hide_env_values = true)]
    rest_read_only_token: Option<String>,
    /// File that holds the token of Redis over REST that may only read
    #[arg(long, env = "QUARTET_REST_READ_ONLY_TOKEN_FILE")]
    rest_read_only_token_file: Option<PathBuf>,
    /// Address of the DynamoDB protocol, or "off" [default: 127.0.0.1:8000]
    #[arg(long, env = "QUARTET_LISTEN_DYNAMODB")]
    listen_dynamodb: Option<String>,
    /// DynamoDB's access keys, as ID:SECRET, with commas between [default: made at the first start;
    /// with --dev any]
    #[arg(long, env = "QUARTET_DYNAMODB_ACCESS_KEYS", hide_env_values = true)]
    dynamodb_access_keys: Option<String>,
    /// File that holds DynamoDB's access keys
    #[arg(long, env = "QUARTET_DYNAMODB_ACCESS_KEYS_FILE")]
    dynamodb_access_keys_file: Option<PathBuf>,
    /// Whether DynamoDB's tables may consume no more than their provisioned units or maxima: on or
    /// off [default: on, with --dev off]
    #[arg(long, env = "QUARTET_DYNAMODB_THROTTLING", value_parser = ["on", "off"])]
    dynamodb_throttling: Option<String>,
    /// Whether each AWS region that a request is signed for has DynamoDB tables of its own:
    /// separate or shared [default: shared]
    #[arg(long, env = "QUARTET_DYNAMODB_REGIONS", value_parser = ["separate", "shared"])]
    dynamodb_regions: Option<String>,
    /// Buckets that DynamoDB's exports go to and imports come from, as NAME=FOLDER or
    /// NAME=s3://BUCKET/PREFIX, with commas between [default: none]
    #[arg(long, env = "QUARTET_DYNAMODB_BUCKETS")]
    dynamodb_buckets: Option<String>,
    /// Bytes that each of these buckets may hold, whoever wrote them: an export that would make it
    /// more fails [default: no limit]
    #[arg(long, env = "QUARTET_DYNAMODB_BUCKET_BYTES_MAX", value_parser = clap::value_parser!(u64).range(1..))]
    dynamodb_bucket_bytes_max: Option<u64>,
    /// Where backups go that an operator takes at the console, as NAME=FOLDER or
    /// NAME=s3://BUCKET/PREFIX, with commas between [default: none]
    #[arg(long, env = "QUARTET_BACKUP_TARGETS")]
    backup_targets: Option<String>,
    /// Folder in which data folders are made that an operator restores at the console [default:
    /// none]
    #[arg(long, env = "QUARTET_RESTORE_FOLDER")]
    restore_folder: Option<PathBuf>,
    /// Address of FaunaDB's protocol, or "off" [default: 127.0.0.1:8443]
    #[arg(long, env = "QUARTET_LISTEN_FAUNA")]
    listen_fauna: Option<String>,
    /// Address of the key-value protocol, for clients of FoundationDB; or "off" [default:
    /// 127.0.0.1:4500]
    #[arg(long, env = "QUARTET_LISTEN_KEYVALUE")]
    listen_keyvalue: Option<String>,
    /// Seconds that a version of the key-value layer stays readable [default: 5]
    #[arg(long, env = "QUARTET_KEYVALUE_READ_SECONDS")]
    keyvalue_read_seconds: Option<u64>,
    /// Most bytes that a transaction of the key-value layer may write, with its conflict ranges
    /// [default: 10000000]
    #[arg(long, env = "QUARTET_KEYVALUE_TRANSACTION_BYTES_MAX")]
    keyvalue_transaction_bytes_max: Option<usize>,
    /// FaunaDB's operations in a second for each key or token: READ,WRITE,COMPUTE [default: no
    /// limit]
    #[arg(long, env = "QUARTET_FAUNA_RATE_LIMITS")]
    fauna_rate_limits: Option<String>,
    /// PEM file: the certificates to trust where keys of FaunaDB's access providers are fetched,
    /// which may then be in private networks [default: the public ones]
    #[arg(long, env = "QUARTET_FAUNA_ISSUER_ROOTS")]
    fauna_issuer_roots: Option<PathBuf>,
    /// Address of the Redis protocol over TLS alone, or "off"; --listen-redis takes TLS beside
    /// clear text anyway where there is a certificate [default: off]
    #[arg(long, env = "QUARTET_LISTEN_REDIS_TLS")]
    listen_redis_tls: Option<String>,
    /// Whether Redis' protocol answers as a cluster of one node, for clients of clusters: off or
    /// emulated [default: off]
    #[arg(long, env = "QUARTET_REDIS_CLUSTER_MODE", value_parser = ["off", "emulated"])]
    redis_cluster_mode: Option<String>,
    /// HOST:PORT or HOST that clients of clusters and sentinels get [default: where they have
    /// connected]
    #[arg(long, env = "QUARTET_REDIS_ANNOUNCE")]
    redis_announce: Option<String>,
    /// Address of Sentinel's protocol, which names this server; or "off" [default: off]
    #[arg(long, env = "QUARTET_LISTEN_SENTINEL")]
    listen_sentinel: Option<String>,
    /// Name by which clients ask a sentinel for this server [default: mymaster]
    #[arg(long, env = "QUARTET_SENTINEL_MASTER_NAME")]
    sentinel_master_name: Option<String>,
    /// PEM file: the certificate of all listeners, with those above it; they take TLS then, beside
    /// clear text
    #[arg(long, env = "QUARTET_TLS_CERTIFICATE")]
    tls_certificate: Option<PathBuf>,
    /// PEM file: the key of that certificate
    #[arg(long, env = "QUARTET_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// PEM file: the roots of the certificates that clients show
    #[arg(long, env = "QUARTET_TLS_CLIENT_ROOTS")]
    tls_client_roots: Option<PathBuf>,
    /// Whether clients must show a certificate when they come over TLS: no, optional, yes [default:
    /// yes with --tls-client-roots, otherwise no]
    #[arg(long, env = "QUARTET_TLS_CLIENTS", value_parser = ["no", "optional", "yes"])]
    tls_clients: Option<String>,
    /// Threads that serve connections [default: one for every two cores]
    #[arg(long, env = "QUARTET_IO_THREADS")]
    io_threads: Option<usize>,
    /// Most open connections, of all listeners together; fewer if the limit on open files is lower
    /// [default: 10000]
    #[arg(long, env = "QUARTET_CONNECTIONS_MAX")]
    connections_max: Option<usize>,
    /// Most bytes of one request [default: 1073741824]
    #[arg(long, env = "QUARTET_REQUEST_BYTES_MAX")]
    request_bytes_max: Option<usize>,
    /// Milliseconds from which a request of any layer is logged, with its shape and no values; 0:
    /// none is [default: 1000]
    #[arg(long, env = "QUARTET_SLOW_REQUEST_MILLISECONDS")]
    slow_request_milliseconds: Option<u64>,
    /// URL of an OpenTelemetry collector that takes OTLP over HTTP, as http://127.0.0.1:4318: it
    /// gets metrics and spans [default: OTEL_EXPORTER_OTLP_ENDPOINT if that is set, otherwise none]
    #[arg(long, env = "QUARTET_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,
    /// Which share of the HTTP requests whose caller does not decide it by `traceparent` has spans,
    /// from 0 to 1 [default: 0.01]
    #[arg(long, env = "QUARTET_OTLP_SAMPLING_RATIO")]
    otlp_sampling_ratio: Option<f64>,
    /// Seconds between two reports of metrics to the collector [default: 60]
    #[arg(long, env = "QUARTET_OTLP_METRICS_SECONDS")]
    otlp_metrics_seconds: Option<u64>,
    /// Seconds that stopping may take: letting replies go out, and the last checkpoint [default:
    /// 60]
    #[arg(long, env = "QUARTET_STOP_SECONDS")]
    stop_seconds: Option<u64>,
    /// Seconds that a peer may take nothing of a reply before it is cut off [default: 60]
    #[arg(long, env = "QUARTET_OUTPUT_STALL_SECONDS")]
    output_stall_seconds: Option<u64>,
    /// Seconds that a new connection may take to authenticate [default: 5]
    #[arg(long, env = "QUARTET_AUTHENTICATION_SECONDS")]
    authentication_seconds: Option<u64>,
    /// Where MIGRATE may send keys and REPLICAOF may copy from: HOST:PORT, with commas between, or
    /// "any" [default: nowhere; with --dev any]
    #[arg(long, env = "QUARTET_MIGRATE_TARGETS")]
    migrate_targets: Option<String>,
    /// File of the default database's Redis users, a line for each as ACL LIST shows them; ACL LOAD
    /// reads it and ACL SAVE writes it [default: users.acl in the data directory]
    #[arg(long, env = "QUARTET_REDIS_USERS_FILE")]
    redis_users_file: Option<PathBuf>,
    /// RDB file that SAVE and BGSAVE write beside the checkpoint, which a Redis 7 loads [default:
    /// none]
    #[arg(long, env = "QUARTET_RDB")]
    rdb: Option<PathBuf>,
    /// Size of a log segment in bytes [default: 67108864]
    #[arg(long, env = "QUARTET_LOG_SEGMENT_BYTES")]
    log_segment_bytes: Option<u64>,
    /// Bytes of the log that are kept, beyond what the next start needs, for whoever reads it:
    /// backups, change feeds [default: 1073741824]
    #[arg(long, env = "QUARTET_LOG_RETENTION_BYTES")]
    log_retention_bytes: Option<u64>,
    /// Seconds that the log is kept for readers that are away, within those bytes [default: 300]
    #[arg(long, env = "QUARTET_LOG_RETENTION_SECONDS")]
    log_retention_seconds: Option<u64>,
    /// Bytes that the ssd engine keeps in memory of what it has read [default: a quarter of what
    /// the program itself, 56 MiB, leaves of --memory-bytes; 1 GiB at most]
    #[arg(long, env = "QUARTET_CACHE_BYTES")]
    cache_bytes: Option<u64>,
    /// Bytes of the log after which the ssd engine writes what has changed to its files; up to four
    /// times as many while it does. In memory, what has changed takes a quarter of --memory-bytes
    /// at most [default: 67108864]
    #[arg(long, env = "QUARTET_UNFLUSHED_BYTES")]
    unflushed_bytes: Option<u64>,
    /// Bytes of memory that the server may take; beyond them it evicts or refuses to grow. 0: no
    /// limit [default: four fifths of the control group's limit or of the machine's memory]
    #[arg(long, env = "QUARTET_MEMORY_BYTES")]
    memory_bytes: Option<u64>,
    /// Format of the server's own log: text or json [default: text]
    #[arg(long, env = "QUARTET_LOG_FORMAT", value_parser = ["text", "json"])]
    pub log_format: Option<String>,
    /// Parameters of Redis' CONFIG for the default database. They stand in the file only, where
    /// CONFIG REWRITE keeps them.
    #[arg(skip)]
    redis: BTreeMap<String, ParameterValue>,
}

impl ServeArguments {
    /// These arguments over those of the configuration file, if one is named.
    pub fn with_file(self) -> Result<ServeArguments> {
        let file = match &self.config {
            Some(path) => read_file(path)?,
            None => ServeArguments::default(),
        };
        self.over(file).with_secrets()
    }

    /// With the secrets that lie in files of their own.
    fn with_secrets(mut self) -> Result<ServeArguments> {
        let secrets = [
            ("root-key", &mut self.root_key, &self.root_key_file),
            ("rest-token", &mut self.rest_token, &self.rest_token_file),
            (
                "rest-read-only-token",
                &mut self.rest_read_only_token,
                &self.rest_read_only_token_file,
            ),
            (
                "dynamodb-access-keys",
                &mut self.dynamodb_access_keys,
                &self.dynamodb_access_keys_file,
            ),
        ];
        for (name, secret, file) in secrets {
            let Some(file) = file else { continue };
            anyhow::ensure!(secret.is_none(), "{name} and {name}-file are both given");
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("{name}-file: reading {}", file.display()))?;
            let text = text.trim_end_matches(['\r', '\n']);
            anyhow::ensure!(!text.is_empty(), "{name}-file: {} is empty", file.display());
            *secret = Some(text.to_owned());
        }
        Ok(self)
    }

    /// Returns the settings with another value in `other`, by the names of the file. Parameters of
    /// CONFIG are named `redis.NAME`.
    pub fn differences(&self, other: &ServeArguments) -> Vec<String> {
        let (ours, theirs) = (self.named(), other.named());
        let names = ours
            .keys()
            .chain(theirs.keys().filter(|name| !ours.contains_key(*name)));
        let mut differing: Vec<String> = names
            .filter(|name| ours.get(*name) != theirs.get(*name))
            .cloned()
            .collect();
        differing.sort();
        differing
    }

    fn named(&self) -> BTreeMap<String, toml::Value> {
        let table = toml::Table::try_from(self).expect("settings are a table");
        let flat = table.into_iter().flat_map(|(name, value)| match value {
            toml::Value::Table(inner) => inner
                .into_iter()
                .map(|(parameter, value)| (format!("{name}.{parameter}"), value))
                .collect::<Vec<_>>(),
            value => vec![(name, value)],
        });
        flat.collect()
    }

    /// The value that the file gives to a parameter of CONFIG.
    pub fn redis_parameter(&self, name: &str) -> Option<String> {
        self.redis.get(name).map(ParameterValue::text)
    }

    fn slow_requests(&self) -> Option<Duration> {
        let milliseconds = self.slow_request_milliseconds.unwrap_or(1000);
        (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
    }

    pub fn stop_limit(&self) -> Duration {
        Duration::from_secs(self.stop_seconds.unwrap_or(60))
    }

    /// The root key, if it was given.
    pub fn root_key(&self) -> Option<&str> {
        self.root_key.as_deref()
    }

    fn announcement(&self) -> Result<Announcement> {
        let Some(given) = self.redis_announce.as_deref() else {
            return Ok(Announcement::default());
        };
        let (host, port) = match given.rsplit_once(':') {
            // An address of IPv6 has colons of its own, and stands in brackets before a port.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                let port = port
                    .parse()
                    .ok()
                    .with_context(|| format!("redis-announce: '{port}' is no port"))?;
                (host.trim_matches(['[', ']']), Some(port))
            }
            _ => (given.trim_matches(['[', ']']), None),
        };
        anyhow::ensure!(!host.is_empty(), "redis-announce: a host is missing");
        Ok(Announcement {
            host: Some(host.to_owned()),
            port,
        })
    }

    fn over(self, file: ServeArguments) -> ServeArguments {
        ServeArguments {
            data: self.data.or(file.data),
            engine: self.engine.or(file.engine),
            durability: self.durability.or(file.durability),
            log: self.log.or(file.log),
            config: self.config,
            dev: self.dev || file.dev,
            stop_with_stdin: self.stop_with_stdin || file.stop_with_stdin,
            listen_redis: self.listen_redis.or(file.listen_redis),
            listen_http: self.listen_http.or(file.listen_http),
            rest_token: self.rest_token.or_else(|| variable(REST_TOKEN)).or(file.rest_token),
            rest_read_only_token: self
                .rest_read_only_token
                .or_else(|| variable(REST_READ_ONLY_TOKEN))
                .or(file.rest_read_only_token),
            listen_dynamodb: self.listen_dynamodb.or(file.listen_dynamodb),
            dynamodb_access_keys: self.dynamodb_access_keys.or(file.dynamodb_access_keys),
            dynamodb_throttling: self.dynamodb_throttling.or(file.dynamodb_throttling),
            dynamodb_regions: self.dynamodb_regions.or(file.dynamodb_regions),
            dynamodb_buckets: self.dynamodb_buckets.or(file.dynamodb_buckets),
            dynamodb_bucket_bytes_max: self.dynamodb_bucket_bytes_max.or(file.dynamodb_bucket_bytes_max),
            backup_targets: self.backup_targets.or(file.backup_targets),
            restore_folder: self.restore_folder.or(file.restore_folder),
            listen_fauna: self.listen_fauna.or(file.listen_fauna),
            listen_keyvalue: self.listen_keyvalue.or(file.listen_keyvalue),
            keyvalue_read_seconds: self.keyvalue_read_seconds.or(file.keyvalue_read_seconds),
            keyvalue_transaction_bytes_max: self
                .keyvalue_transaction_bytes_max
                .or(file.keyvalue_transaction_bytes_max),
            fauna_rate_limits: self.fauna_rate_limits.or(file.fauna_rate_limits),
            fauna_issuer_roots: self.fauna_issuer_roots.or(file.fauna_issuer_roots),
            tls_certificate: self.tls_certificate.or(file.tls_certificate),
            tls_key: self.tls_key.or(file.tls_key),
            tls_client_roots: self.tls_client_roots.or(file.tls_client_roots),
            tls_clients: self.tls_clients.or(file.tls_clients),
            root_key: self.root_key.or(file.root_key),
            root_key_file: self.root_key_file.or(file.root_key_file),
            rest_token_file: self.rest_token_file.or(file.rest_token_file),
            rest_read_only_token_file: self.rest_read_only_token_file.or(file.rest_read_only_token_file),
            dynamodb_access_keys_file: self.dynamodb_access_keys_file.or(file.dynamodb_access_keys_file),
            redis_cluster_mode: self.redis_cluster_mode.or(file.redis_cluster_mode),
            redis_announce: self.redis_announce.or(file.redis_announce),
            listen_sentinel: self.listen_sentinel.or(file.listen_sentinel),
            sentinel_master_name: self.sentinel_master_name.or(file.sentinel_master_name),
            listen_redis_tls: self.listen_redis_tls.or(file.listen_redis_tls),
            io_threads: self.io_threads.or(file.io_threads),
            connections_max: self.connections_max.or(file.connections_max),
            request_bytes_max: self.request_bytes_max.or(file.request_bytes_max),
            slow_request_milliseconds: self.slow_request_milliseconds.or(file.slow_request_milliseconds),
            otlp_endpoint: self.otlp_endpoint.or(file.otlp_endpoint),
            otlp_sampling_ratio: self.otlp_sampling_ratio.or(file.otlp_sampling_ratio),
            otlp_metrics_seconds: self.otlp_metrics_seconds.or(file.otlp_metrics_seconds),
            stop_seconds: self.stop_seconds.or(file.stop_seconds),
            output_stall_seconds: self.output_stall_seconds.or(file.output_stall_seconds),
            authentication_seconds: self.authentication_seconds.or(file.authentication_seconds),
            migrate_targets: self.migrate_targets.or(file.migrate_targets),
            redis_users_file: self.redis_users_file.or(file.redis_users_file),
            rdb: self.rdb.or(file.rdb),
            log_segment_bytes: self.log_segment_bytes.or(file.log_segment_bytes),
            log_retention_bytes: self.log_retention_bytes.or(file.log_retention_bytes),
            log_retention_seconds: self.log_retention_seconds.or(file.log_retention_seconds),
            cache_bytes: self.cache_bytes.or(file.cache_bytes),
            unflushed_bytes: self.unflushed_bytes.or(file.unflushed_bytes),
            memory_bytes: self.memory_bytes.or(file.memory_bytes),
            log_format: self.log_format.or(file.log_format),
            redis: file.redis,
        }
    }

    pub fn data(&self) -> Data {
        Data::named(self.data.as_deref().unwrap_or(Path::new(DEFAULT_DATA)))
    }

    /// The engine that was asked for.
    fn engine(&self) -> Result<Option<StoreKind>> {
        let named = self
            .engine
            .as_deref()
            .map(|name| StoreKind::parse(name).with_context(|| format!("engine: '{name}' is none of memory, ssd")));
        named.transpose()
    }

    pub fn is_dev(&self) -> bool {
        self.dev
    }

    pub fn stops_with_stdin(&self) -> bool {
        self.stop_with_stdin
    }

    /// The access keys that were given; `None` if none were.
    pub fn access_keys(&self) -> Result<Option<Vec<(String, String)>>> {
        self.dynamodb_access_keys.as_deref().map(access_keys).transpose()
    }

    /// The validated settings of a server whose clients show `credentials`, and DynamoDB's one of
    /// `access_keys`.
    pub fn validated(&self, credentials: Credentials, access_keys: Vec<(String, String)>) -> Result<Settings> {
        let engine = self.engine()?;
        one_of("log", &self.log, &["file"])?;
        one_of("dynamodb-throttling", &self.dynamodb_throttling, &["on", "off"])?;
        one_of("dynamodb-regions", &self.dynamodb_regions, &["separate", "shared"])?;
        one_of("redis-cluster-mode", &self.redis_cluster_mode, &["off", "emulated"])?;
        one_of("log-format", &self.log_format, &["text", "json"])?;
        let durability = self.durability.as_deref().unwrap_or("always");
        Ok(Settings {
            data: self.data(),
            durability: Durability::parse(durability)
                .with_context(|| format!("durability: '{durability}' is none of always, interval, none"))?,
            redis: listen("listen-redis", &self.listen_redis, "127.0.0.1:6379")?,
            http: listen("listen-http", &self.listen_http, "127.0.0.1:8080")?,
            dynamodb: listen("listen-dynamodb", &self.listen_dynamodb, "127.0.0.1:8000")?,
            fauna: listen("listen-fauna", &self.listen_fauna, "127.0.0.1:8443")?,
            keyvalue: listen("listen-keyvalue", &self.listen_keyvalue, "127.0.0.1:4500")?,
            keyvalue_limits: self.keyvalue_limits(),
            fauna_rate_limits: self.fauna_rate_limits.as_deref().map(rate_limits).transpose()?,
            fauna_issuer_roots: self.fauna_issuer_roots.clone(),
            redis_tls: listen("listen-redis-tls", &self.listen_redis_tls, "off")?,
            tls: self.tls_files()?,
            sentinel: listen("listen-sentinel", &self.listen_sentinel, "off")?,
            sentinel_master_name: self.sentinel_master_name.clone().unwrap_or_else(|| "mymaster".into()),
            emulates_cluster: self.redis_cluster_mode.as_deref() == Some("emulated"),
            announcement: self.announcement()?,
            credentials,
            rest_tokens: RestTokens::new(self.rest_token.as_deref(), self.rest_read_only_token.as_deref()),
            access_keys,
            dynamodb_throttling: self
                .dynamodb_throttling
                .as_deref()
                .map_or(!self.dev, |given| given == "on"),
            dynamodb_regions_are_separate: self.dynamodb_regions.as_deref() == Some("separate"),
            dynamodb_buckets: named_places("dynamodb-buckets", self.dynamodb_buckets.as_deref())?,
            dynamodb_bucket_bytes_max: self.dynamodb_bucket_bytes_max,
            backup_targets: named_places("backup-targets", self.backup_targets.as_deref())?,
            restore_folder: self.restore_folder.as_deref().map(absolute),
            io_threads: self.io_threads,
            connections_max: self.connections_max.unwrap_or(10_000),
            request_bytes_max: self.request_bytes_max.unwrap_or(1 << 30),
            output_stall_timeout: Duration::from_secs(self.output_stall_seconds.unwrap_or(60)),
            authentication_timeout: Duration::from_secs(self.authentication_seconds.unwrap_or(5)),
            log_segment_bytes: self.log_segment_bytes.unwrap_or(64 << 20),
            log_retention_bytes: self.log_retention_bytes.unwrap_or(1 << 30),
            log_retention: Duration::from_secs(self.log_retention_seconds.unwrap_or(300)),
            engine,
            cache_bytes: self.cache_bytes,
            unflushed_bytes: self.unflushed_bytes.unwrap_or(64 << 20),
            memory_bytes: self.memory_bytes,
            telemetry: self.telemetry()?,
            slow_requests: self.slow_requests(),
            status: crate::notify::status,
            purge: crate::allocator::purge,
            migration_targets: self.migration_targets()?,
            users_file: self.redis_users_file.as_deref().map(absolute),
            rdb: self.rdb.clone(),
            config_file: self.config.as_ref().map(|path| ConfigFile {
                path: absolute(path),
                parameters: self.redis_parameters(),
                write: config_file::write_parameters,
            }),
        })
    }
}

impl ServeArguments {
    fn redis_parameters(&self) -> Vec<(String, String)> {
        let parameters = self.redis.iter();
        parameters.map(|(name, value)| (name.clone(), value.text())).collect()
    }

    fn keyvalue_limits(&self) -> KeyValueLimits {
        let mut limits = KeyValueLimits::default();
        if let Some(seconds) = self.keyvalue_read_seconds {
            limits.read_window_micros = seconds.saturating_mul(1_000_000);
        }
        if let Some(bytes) = self.keyvalue_transaction_bytes_max {
            limits.transaction_bytes_max = bytes.min(KeyValueLimits::TRANSACTION_BYTES_MAX);
        }
        limits
    }

    pub fn tls_files(&self) -> Result<TlsFiles> {
        anyhow::ensure!(
            self.tls_certificate.is_some() == self.tls_key.is_some(),
            "tls-certificate and tls-key go together"
        );
        one_of("tls-clients", &self.tls_clients, &["no", "optional", "yes"])?;
        let path = |given: &Option<PathBuf>| given.as_deref().map(absolute).unwrap_or_default();
        let usual = if self.tls_client_roots.is_some() { "yes" } else { "no" };
        let clients = self.tls_clients.as_deref().unwrap_or(usual);
        Ok(TlsFiles {
            certificate: path(&self.tls_certificate),
            key: path(&self.tls_key),
            client_roots: path(&self.tls_client_roots),
            clients: ClientCertificates::parse(clients).expect("one of the words"),
        })
    }

    fn telemetry(&self) -> Result<Option<TelemetrySettings>> {
        let named = || variable(&["OTEL_EXPORTER_OTLP_ENDPOINT"]);
        let Some(endpoint) = self.otlp_endpoint.clone().or_else(named) else {
            return Ok(None);
        };
        anyhow::ensure!(
            endpoint.starts_with("http://") || endpoint.starts_with("https://"),
            "otlp-endpoint: '{endpoint}' does not begin with http:// or https://"
        );
        let sampling_ratio = self.otlp_sampling_ratio.unwrap_or(0.01);
        anyhow::ensure!(
            (0.0..=1.0).contains(&sampling_ratio),
            "otlp-sampling-ratio: {sampling_ratio} is not from 0 to 1"
        );
        let headers = variable(&["OTEL_EXPORTER_OTLP_HEADERS"]).unwrap_or_default();
        let headers = headers.split(',').filter_map(|header| header.split_once('='));
        let headers = headers.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        Ok(Some(TelemetrySettings {
            endpoint,
            headers: headers.collect(),
            sampling_ratio,
            metrics_every: Duration::from_secs(self.otlp_metrics_seconds.unwrap_or(60).max(1)),
        }))
    }

    fn migration_targets(&self) -> Result<Targets> {
        match &self.migrate_targets {
            Some(given) => given
                .parse()
                .map_err(|reason: String| anyhow::anyhow!("migrate-targets: {reason}")),
            None if self.dev => Ok(Targets::Any),
            None => Ok(Targets::Listed(Vec::new())),
        }
    }
}

fn rate_limits(given: &str) -> Result<[u64; 3]> {
    let numbers: Option<Vec<u64>> = given.split(',').map(|number| number.trim().parse().ok()).collect();
    let limits = numbers.and_then(|numbers| numbers.try_into().ok());
    limits
        .filter(|limits: &[u64; 3]| !limits.contains(&0))
        .context("fauna-rate-limits: three numbers above zero, READ,WRITE,COMPUTE")
}

fn access_keys(given: &str) -> Result<Vec<(String, String)>> {
    let pairs = given.split(',').map(|pair| match pair.trim().split_once(':') {
        Some((id, secret)) if !id.is_empty() && !secret.is_empty() => Ok((id.to_owned(), secret.to_owned())),
        _ => anyhow::bail!("dynamodb-access-keys: an access key is ID:SECRET"),
    });
    pairs.collect()
}

/// Names by which places are asked for, with the places' addresses.
fn named_places(option: &str, given: Option<&str>) -> Result<Vec<(String, String)>> {
    let places = given.map(|given| given.split(',')).into_iter().flatten();
    let named = places.map(|place| match place.trim().split_once('=') {
        Some((name, address)) if !name.is_empty() && !address.is_empty() => Ok((name.to_owned(), address.to_owned())),
        _ => anyhow::bail!("{option}: each is NAME=FOLDER or NAME=s3://BUCKET/PREFIX"),
    });
    named.collect()
}

/// Variables in which users of REST have their token already: Upstash's, Vercel's, and that of
/// serverless-redis-http.
const REST_TOKEN: &[&str] = &["UPSTASH_REDIS_REST_TOKEN", "KV_REST_API_TOKEN", "SRH_TOKEN"];
const REST_READ_ONLY_TOKEN: &[&str] = &["KV_REST_API_READ_ONLY_TOKEN"];

/// The first of these variables that is set, and not empty.
fn variable(names: &[&str]) -> Option<String> {
    let mut values = names.iter().filter_map(|name| std::env::var(name).ok());
    values.find(|value| !value.is_empty())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn read_file(path: &Path) -> Result<ServeArguments> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    // On one line, and without the line of the file, which may hold a secret.
    toml::from_str(&text).map_err(|error| {
        let before = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..before].iter().filter(|byte| **byte == b'\n').count() + 1;
        anyhow::anyhow!(
            "in {}, line {line}: {}",
            path.display(),
            error.message().replace('\n', " ")
        )
    })
}

fn listen(name: &str, given: &Option<String>, default: &str) -> Result<Listen> {
    let text = given.as_deref().unwrap_or(default);
    text.parse()
        .map_err(|reason: String| anyhow::anyhow!("{name}: {reason}"))
}

/// The file is not checked by the command line's parser.
fn one_of(name: &str, given: &Option<String>, known: &[&str]) -> Result<()> {
    match given.as_deref() {
        Some(word) if !known.contains(&word) => anyhow::bail!("{name}: '{word}' is none of {}", known.join(", ")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_an_error() {
        assert!(toml::from_str::<ServeArguments>("listen-redsi = \"off\"").is_err());
        assert!(toml::from_str::<ServeArguments>("listen-redis = \"off\"").is_ok());
    }

    #[test]
    fn flags_win_over_the_file() {
        let file: ServeArguments = toml::from_str("durability = \"none\"\nconnections-max = 7").unwrap();
        let flags = ServeArguments {
            durability: Some("interval".into()),
            ..ServeArguments::default()
        };
        let settings = flags.over(file).validated(Credentials::None, Vec::new()).unwrap();
        assert_eq!(
            (settings.durability, settings.connections_max),
            (Durability::Interval, 7)
        );
    }

    #[test]
    fn beyond_loopback_needs_credentials() {
        let open = ServeArguments {
            listen_redis: Some("0.0.0.0:0".into()),
            ..ServeArguments::default()
        };
        assert!(open.validated(Credentials::None, Vec::new()).unwrap().check().is_err());
        assert!(
            open.validated(Credentials::Key { sha256: [0; 32] }, Vec::new())
                .unwrap()
                .check()
                .is_ok()
        );
    }
}
