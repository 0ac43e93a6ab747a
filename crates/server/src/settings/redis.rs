//! Settings of Redis' layer, and what its CONFIG says of all settings.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use quartet_engine::Durability;
use quartet_layer_redis::Announcement;
use quartet_layer_redis::command::migration::Targets;
use quartet_layer_redis::config::Config;

use super::{Credentials, Listen, Settings};

#[derive(Clone, Debug)]
pub struct RedisSettings {
    pub listen: Listen,
    /// A listener that takes TLS alone.
    pub listen_tls: Listen,
    /// The protocol answers as a cluster of one node.
    pub emulates_cluster: bool,
    /// The address that clients of clusters and sentinels get.
    pub announcement: Announcement,
    /// Where the operator's MIGRATE may send keys.
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
            emulates_cluster: false,
            announcement: Announcement::default(),
            migration_targets: Targets::Listed(Vec::new()),
            config_file: None,
            users_file: None,
            rdb: None,
        }
    }
}

impl Settings {
    /// Makes CONFIG GET say what was decided here. DEBUG is for everybody where only this machine
    /// can connect, and only for this machine where others can.
    pub fn tell(&self, config: &Config) {
        if let Some(folder) = self.storage.data.folder() {
            let path = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
            config.start_with("dir", path.display().to_string());
        }
        config.start_with("appendfsync", appendfsync(self.storage.durability).into());
        // Parameters are signed; nobody means more than that.
        let number = |setting: usize| i64::try_from(setting).unwrap_or(i64::MAX).to_string();
        let connections = &self.connections;
        config.start_with("maxclients", number(connections.connections_max));
        let possible = i64::try_from(connections.connections_max).unwrap_or(i64::MAX);
        config.maxclients_possible.store(possible, Ordering::Relaxed);
        config.start_with("client-query-buffer-limit", number(connections.request_bytes_max));
        connections.tls.tell(config);
        if let Some(address) = self.redis.listen.address() {
            config.start_with("bind", address.ip().to_string());
            let debug = if address.ip().is_loopback() { "yes" } else { "local" };
            config.start_with("enable-debug-command", debug.into());
        }
    }

    /// Returns the address that a user pastes into a client; the root key stands for itself.
    pub fn connection_string(&self, scheme: &str, address: SocketAddr) -> String {
        match self.credentials {
            Credentials::None => format!("{scheme}://{address}"),
            Credentials::Key { .. } | Credentials::Kept => format!("{scheme}://default:<root key>@{address}"),
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
mod tests {
    use super::*;
    use crate::settings::Data;

    fn told(redis: &str) -> Vec<String> {
        let mut settings = Settings::for_test();
        settings.storage.data = Data::Folder("some/data".into());
        settings.storage.durability = Durability::Interval;
        settings.redis.listen = redis.parse().unwrap();
        settings.credentials = Credentials::Key { sha256: [0; 32] };
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
