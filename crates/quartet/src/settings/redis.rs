//! Options of Redis' layer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use quartet_server::{Announcement, ConfigFile, RedisSettings, RedisVersion, Targets};
use serde::{Deserialize, Serialize};

use super::values::{absolute, listen, one_of};
use crate::config_file::{self, ParameterValue};

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct RedisOptions {
    /// Address of the Redis protocol, or "off" [default: 127.0.0.1:6379]
    #[arg(long, env = "QUARTET_LISTEN_REDIS")]
    listen_redis: Option<String>,
    /// Address of the Redis protocol over TLS only, or "off"; --listen-redis takes TLS beside clear
    /// text anyway where there is a certificate [default: off]
    #[arg(long, env = "QUARTET_LISTEN_REDIS_TLS")]
    listen_redis_tls: Option<String>,
    /// Version of Redis reported to clients; many choose their commands by it: 8.2 or 7.4
    /// [default: 8.2]
    #[arg(long, env = "QUARTET_REDIS_VERSION", value_parser = ["8.2", "7.4"])]
    redis_version: Option<String>,
    /// Whether Redis' protocol answers as a cluster of one node, for clients of clusters: off or
    /// emulated [default: off]
    #[arg(long, env = "QUARTET_REDIS_CLUSTER_MODE", value_parser = ["off", "emulated"])]
    redis_cluster_mode: Option<String>,
    /// HOST:PORT or HOST that clients of clusters and sentinels get [default: where they have
    /// connected]
    #[arg(long, env = "QUARTET_REDIS_ANNOUNCE")]
    redis_announce: Option<String>,
    /// File of the default database's Redis users, a line for each as ACL LIST shows them; ACL LOAD
    /// reads it and ACL SAVE writes it [default: users.acl in the data directory]
    #[arg(long, env = "QUARTET_REDIS_USERS_FILE")]
    redis_users_file: Option<PathBuf>,
    /// Where MIGRATE may send keys and REPLICAOF may copy from: HOST:PORT, with commas between, or
    /// "any" [default: nowhere; with --dev any]
    #[arg(long, env = "QUARTET_MIGRATE_TARGETS")]
    migrate_targets: Option<String>,
    /// RDB file that SAVE and BGSAVE write beside the checkpoint, which a Redis 7 loads [default:
    /// none]
    #[arg(long, env = "QUARTET_RDB")]
    rdb: Option<PathBuf>,
    /// Parameters of Redis's CONFIG for the default database. They are only in the file, where
    /// CONFIG REWRITE keeps them.
    #[arg(skip)]
    #[serde(rename = "redis")]
    parameters: BTreeMap<String, ParameterValue>,
}

impl RedisOptions {
    /// `config` is the file that the server is started with.
    pub fn validated(&self, config: Option<&Path>, is_dev: bool) -> Result<RedisSettings> {
        one_of("redis-cluster-mode", &self.redis_cluster_mode, &["off", "emulated"])?;
        one_of("redis-version", &self.redis_version, &["8.2", "7.4"])?;
        let parameters = self.parameters.iter();
        let parameters = parameters.map(|(name, value)| (name.clone(), value.text()));
        Ok(RedisSettings {
            listen: listen("listen-redis", &self.listen_redis, "127.0.0.1:6379")?,
            listen_tls: listen("listen-redis-tls", &self.listen_redis_tls, "off")?,
            redis_version: match self.redis_version.as_deref() {
                Some("7.4") => RedisVersion::Redis7,
                _ => RedisVersion::Redis8,
            },
            emulates_cluster: self.redis_cluster_mode.as_deref() == Some("emulated"),
            announcement: self.announcement()?,
            migration_targets: self.migration_targets(is_dev)?,
            users_file: self.redis_users_file.as_deref().map(absolute),
            rdb: self.rdb.clone(),
            config_file: config.map(|path| ConfigFile {
                path: absolute(path),
                parameters: parameters.collect(),
                write: config_file::write_parameters,
            }),
        })
    }

    /// The value that the file gives to a parameter of CONFIG.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.parameters.get(name).map(ParameterValue::text)
    }

    fn announcement(&self) -> Result<Announcement> {
        let Some(announced) = self.redis_announce.as_deref() else {
            return Ok(Announcement::default());
        };
        let (host, port) = match announced.rsplit_once(':') {
            // An IPv6 address has colons of its own, and is in brackets before a port.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                let port = port
                    .parse()
                    .ok()
                    .with_context(|| format!("redis-announce: '{port}' is no port"))?;
                (host.trim_matches(['[', ']']), Some(port))
            }
            _ => (announced.trim_matches(['[', ']']), None),
        };
        anyhow::ensure!(!host.is_empty(), "redis-announce: a host is missing");
        Ok(Announcement {
            host: Some(host.to_owned()),
            port,
        })
    }

    fn migration_targets(&self, is_dev: bool) -> Result<Targets> {
        match &self.migrate_targets {
            Some(list) => list
                .parse()
                .map_err(|reason: String| anyhow::anyhow!("migrate-targets: {reason}")),
            None if is_dev => Ok(Targets::Any),
            None => Ok(Targets::Listed(Vec::new())),
        }
    }
}
