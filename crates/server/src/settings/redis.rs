//! Settings of Redis' layer.

use std::path::{Path, PathBuf};

use quartet_engine::Durability;
use quartet_layer_redis::command::migration::Targets;
use quartet_layer_redis::{Announcement, RedisVersion};

use super::listen::Listen;

#[derive(Clone, Debug)]
pub struct RedisSettings {
    pub listen: Listen,
    /// A listener for only TLS.
    pub listen_tls: Listen,
    /// The version of Redis reported to clients.
    pub redis_version: RedisVersion,
    /// The protocol answers as a cluster of one node.
    pub emulates_cluster: bool,
    /// The address that clients of clusters and sentinels get.
    pub announcement: Announcement,
    /// The targets of the operator's MIGRATE.
    pub migration_targets: Targets,
    pub config_file: Option<ConfigFile>,
    /// The file of the users, if it is not the one in the data directory.
    pub users_file: Option<PathBuf>,
    /// The RDB file that SAVE and BGSAVE write beside the checkpoint.
    pub rdb: Option<PathBuf>,
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

impl Default for RedisSettings {
    /// Listens nowhere.
    fn default() -> RedisSettings {
        RedisSettings {
            listen: Listen::Off,
            listen_tls: Listen::Off,
            redis_version: RedisVersion::default(),
            emulates_cluster: false,
            announcement: Announcement::default(),
            migration_targets: Targets::Listed(Vec::new()),
            config_file: None,
            users_file: None,
            rdb: None,
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
