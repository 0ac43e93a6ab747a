//! Raw settings: flags and environment over one TOML file over defaults, the file's keys named as
//! the flags.
//!
//! The options of a listener, and those of each group of the server's own, are one struct in a file
//! of its own, which makes the struct of the same name of `quartet_server::Settings`.

mod backups;
mod cluster;
mod connections;
mod dynamodb;
mod fauna;
mod http;
mod keyvalue;
mod log;
mod memory;
mod redis;
mod sentinel;
mod storage;
mod telemetry;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Command};
use quartet_server::{Credentials, Data, Settings, TlsFiles};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::backups::BackupOptions;
use self::cluster::ClusterOptions;
use self::connections::ConnectionOptions;
use self::dynamodb::DynamoDbOptions;
use self::fauna::FaunaOptions;
use self::http::HttpOptions;
use self::keyvalue::KeyValueOptions;
use self::log::LogOptions;
use self::memory::MemoryOptions;
use self::redis::RedisOptions;
use self::sentinel::SentinelOptions;
pub use self::storage::DEFAULT_DATA;
use self::storage::StorageOptions;
use self::telemetry::TelemetryOptions;
use self::values::{one_of, read_secret};

/// Each option may also be in the file, under its name; a flag or variable wins over the file.
#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServeArguments {
    /// TOML file with the same options; an unknown key is an error
    #[arg(long, env = "QUARTET_CONFIG")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// For development, on loopback only: no password
    #[arg(long, env = "QUARTET_DEV")]
    dev: bool,
    /// Stops when standard input ends: for a test that starts a server and must not leave it
    /// running
    #[arg(long, env = "QUARTET_STOP_WITH_STDIN")]
    stop_with_stdin: bool,
    /// The root key [default: the key of the data directory, made at its first start]
    #[arg(long, env = "QUARTET_ROOT_KEY", hide_env_values = true)]
    root_key: Option<String>,
    /// File that holds the root key
    #[arg(long, env = "QUARTET_ROOT_KEY_FILE")]
    root_key_file: Option<PathBuf>,
    /// Seconds that stopping may take: letting replies go out, and the last checkpoint [default:
    /// 60]
    #[arg(long, env = "QUARTET_STOP_SECONDS")]
    stop_seconds: Option<u64>,
    /// Format of the server's own log: text or json [default: text]
    #[arg(long, env = "QUARTET_LOG_FORMAT", value_parser = ["text", "json"])]
    pub log_format: Option<String>,
    #[command(flatten, next_help_heading = "Data")]
    #[serde(flatten)]
    pub storage: StorageOptions,
    #[command(flatten, next_help_heading = "Log")]
    #[serde(flatten)]
    pub log: LogOptions,
    #[command(flatten, next_help_heading = "Cluster")]
    #[serde(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten, next_help_heading = "Memory")]
    #[serde(flatten)]
    pub memory: MemoryOptions,
    #[command(flatten, next_help_heading = "Backups")]
    #[serde(flatten)]
    pub backups: BackupOptions,
    #[command(flatten, next_help_heading = "Connections")]
    #[serde(flatten)]
    pub connections: ConnectionOptions,
    #[command(flatten, next_help_heading = "Reports")]
    #[serde(flatten)]
    pub telemetry: TelemetryOptions,
    #[command(flatten, next_help_heading = "Redis")]
    #[serde(flatten)]
    pub redis: RedisOptions,
    #[command(flatten, next_help_heading = "HTTP")]
    #[serde(flatten)]
    pub http: HttpOptions,
    #[command(flatten, next_help_heading = "DynamoDB")]
    #[serde(flatten)]
    pub dynamodb: DynamoDbOptions,
    #[command(flatten, next_help_heading = "FaunaDB")]
    #[serde(flatten)]
    pub fauna: FaunaOptions,
    #[command(flatten, next_help_heading = "Key-value layer")]
    #[serde(flatten)]
    pub keyvalue: KeyValueOptions,
    #[command(flatten, next_help_heading = "Sentinel")]
    #[serde(flatten)]
    pub sentinel: SentinelOptions,
}

impl ServeArguments {
    /// Merges these arguments over those of the configuration file, if one is named.
    pub fn with_file(mut self) -> Result<ServeArguments> {
        self.http.take_variables();
        let file = self.config.as_deref().map(read_file).transpose()?;
        let mut merged = match file {
            Some(file) => self.over(file)?,
            None => self,
        };
        read_secret("root-key", &mut merged.root_key, &merged.root_key_file)?;
        merged.http.read_secrets()?;
        merged.dynamodb.read_secrets()?;
        Ok(merged)
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

    fn named(&self) -> BTreeMap<String, Value> {
        let settings = self.given().expect("it was read from texts");
        let flat = settings.into_iter().flat_map(|(name, value)| match value {
            Value::Object(inner) => inner
                .into_iter()
                .map(|(parameter, value)| (format!("{name}.{parameter}"), value))
                .collect::<Vec<_>>(),
            value => vec![(name, value)],
        });
        flat.collect()
    }

    /// The options that are given, by the names of the file.
    fn given(&self) -> Result<serde_json::Map<String, Value>> {
        let Value::Object(mut all) = serde_json::to_value(self).context("an option that is no text")? else {
            unreachable!("a struct is an object");
        };
        all.retain(|_, value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Object(inner) => !inner.is_empty(),
            _ => true,
        });
        Ok(all)
    }

    fn over(self, file: ServeArguments) -> Result<ServeArguments> {
        let mut merged = file.given()?;
        merged.extend(self.given()?);
        let merged = serde_json::from_value(Value::Object(merged))?;
        Ok(ServeArguments {
            config: self.config,
            ..merged
        })
    }

    pub fn stop_limit(&self) -> Duration {
        Duration::from_secs(self.stop_seconds.unwrap_or(60))
    }

    /// The root key, if it was given.
    pub fn root_key(&self) -> Option<&str> {
        self.root_key.as_deref()
    }

    pub fn data(&self) -> Data {
        self.storage.data()
    }

    pub fn is_dev(&self) -> bool {
        self.dev
    }

    pub fn stops_with_stdin(&self) -> bool {
        self.stop_with_stdin
    }

    pub fn tls_files(&self) -> Result<TlsFiles> {
        self.connections.tls_files()
    }

    fn credentials(&self) -> Credentials {
        match self.root_key() {
            _ if self.dev => Credentials::None,
            Some(key) => Credentials::of_key(key),
            None => Credentials::Kept,
        }
    }

    pub fn validated(&self) -> Result<Settings> {
        one_of("log-format", &self.log_format, &["text", "json"])?;
        Ok(Settings {
            storage: self.storage.validated()?,
            log: self.log.validated()?,
            memory: self.memory.validated()?,
            backups: self.backups.validated()?,
            cluster: self.log.shared()?.map(|log| self.cluster.validated(log)).transpose()?,
            connections: self.connections.validated()?,
            telemetry: self.telemetry.validated()?,
            slow_requests: self.telemetry.slow_requests(),
            credentials: self.credentials(),
            status: crate::notify::status,
            show: crate::new_credentials::show,
            redis: self.redis.validated(self.config.as_deref(), self.dev)?,
            http: self.http.validated()?,
            dynamodb: self.dynamodb.validated(self.dev)?,
            fauna: self.fauna.validated()?,
            keyvalue: self.keyvalue.validated()?,
            sentinel: self.sentinel.validated()?,
        })
    }
}

/// The options whose values are secrets, as the command line spells them.
pub fn secrets() -> Vec<String> {
    let command = ServeArguments::augment_args(Command::new("serve"));
    let secret = command.get_arguments().filter(|option| option.is_hide_env_values_set());
    secret
        .filter_map(|option| option.get_long().map(|name| format!("--{name}")))
        .collect()
}

fn read_file(path: &Path) -> Result<ServeArguments> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse_file(&text).map_err(|(line, message)| anyhow::anyhow!("in {}, line {line}: {message}", path.display()))
}

/// Reads a file's text. An error is the number of a line, and a message on one line without the
/// line of the file, which may hold a secret.
fn parse_file(text: &str) -> Result<ServeArguments, (usize, String)> {
    let fault = |span: Option<std::ops::Range<usize>>, error: &toml::de::Error| {
        let before = span.map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..before].iter().filter(|byte| **byte == b'\n').count() + 1;
        (line, error.message().replace('\n', " "))
    };
    let settings: BTreeMap<toml::Spanned<String>, toml::Value> =
        toml::from_str(text).map_err(|error| fault(error.span(), &error))?;
    let mut table = toml::Table::new();
    for (name, value) in settings {
        // By itself first: an error in the whole table would not say where.
        let alone = toml::Table::from_iter([(name.get_ref().clone(), value.clone())]);
        ServeArguments::deserialize(alone).map_err(|error| fault(Some(name.span()), &error))?;
        table.insert(name.into_inner(), value);
    }
    ServeArguments::deserialize(table).map_err(|error| fault(None, &error))
}

#[cfg(test)]
mod tests {
    use quartet_engine::Durability;

    use super::*;

    fn parse(text: &str) -> ServeArguments {
        parse_file(text).unwrap_or_else(|fault| panic!("{fault:?}"))
    }

    #[test]
    fn an_error_in_the_file_has_its_line() {
        let line = |text| parse_file(text).err().map(|(line, _)| line);
        assert_eq!(line("listen-redis = \"off\""), None);
        assert_eq!(line("dev = true\nlisten-redsi = \"off\""), Some(2));
        assert_eq!(line("dev = true\n\nconnections-max = \"many\""), Some(3));
        assert_eq!(line("dev = true\ndata = "), Some(2));
        assert_eq!(line("[redis]\nmaxmemory = [1]"), Some(1));
        assert!(parse_file("root-key = [\"hidden\"]").is_err_and(|(_, message)| !message.contains("hidden")));
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = parse("durability = \"none\"\nconnections-max = 7\ndev = true\n[redis]\nhz = 20");
        let mut flags = ServeArguments::default();
        flags.storage.durability = Some("interval".into());
        let merged = flags.over(file).unwrap();
        assert!(merged.is_dev());
        assert_eq!(merged.redis.parameter("hz").as_deref(), Some("20"));
        let settings = merged.validated().unwrap();
        assert_eq!(
            (settings.storage.durability, settings.connections.connections_max),
            (Durability::Interval, 7)
        );
    }

    #[test]
    fn differences_are_named_as_in_the_file() {
        let (before, after) = (
            parse("stop-seconds = 5\nengine = \"ssd\""),
            parse("stop-seconds = 6\n[redis]\nhz = 20"),
        );
        assert_eq!(before.differences(&after), ["engine", "redis.hz", "stop-seconds"]);
        assert_eq!(before.differences(&before), Vec::<String>::new());
    }

    #[test]
    fn secrets_are_the_options_hidden_by_help() {
        let expected = [
            "--root-key",
            "--rest-token",
            "--rest-read-only-token",
            "--dynamodb-access-keys",
        ];
        assert_eq!(secrets(), expected);
    }
}
