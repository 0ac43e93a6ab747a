//! Builds the Redis layers: the default database's layer at the start of the server, other layers
//! when a client connects.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, anyhow};
use quartet_engine::{Busy, PartitionId, Space};
use quartet_layer_redis::access::acl::{UserFile, parse_file};
use quartet_layer_redis::command::table::Table;
use quartet_layer_redis::command_set::Commands;
use quartet_layer_redis::config::Config;
use quartet_layer_redis::{ClientMemory, Directory, Identity, LongScripts, Redis};
use quartet_model::LayerId;
use quartet_tenancy::Database;

use crate::connections::tls::{ClientCertificates, TlsFiles};
use crate::layers::parts::Parts;
use crate::limits::memory::Budget;
use crate::observability::slow_requests::LayerOperation;
use crate::process::system;
use crate::redis::rdb_file::RdbFile;
use crate::redis::users::UsersOnDisk;
use crate::settings::{Data, Settings, appendfsync};
use crate::tenants::admission_control::RedisAdmissionControl;
use crate::tenants::users::{READER, UsersInDatabase};

/// Without free room, keys with a deadline are evicted first, then any: the meaning of a database's
/// `eviction`.
const EVICTION_POLICY: &str = "optimistic-volatile";

/// The parts that the Redis layers of all databases share.
pub struct RedisParts {
    commands: &'static Commands,
    pub identity: Identity,
    /// One for all databases of a partition, as they share the lock that a long script holds.
    pub long_scripts: Vec<Arc<LongScripts>>,
    /// One for all, as they share the machine.
    client_memory: Arc<ClientMemory>,
}

impl RedisParts {
    /// `tcp_port` is the port of the listener without TLS; 0 without such a listener.
    pub fn new(parts: &Parts, commands: &'static Commands, tcp_port: u16) -> RedisParts {
        let memory = parts.engine.memory().clone();
        RedisParts {
            commands,
            identity: identity(parts, tcp_port),
            long_scripts: parts.partitions.iter().map(|_| Arc::default()).collect(),
            client_memory: Arc::new(ClientMemory::new(client_bytes_max(parts.budget), memory)),
        }
    }

    /// The layer of the default database, which is the operator's.
    pub fn default(&self, parts: &Parts, directory: Box<dyn Directory>) -> Result<Redis> {
        let settings = &parts.settings;
        let space = parts.default_space(LayerId::Redis);
        let mut layer = self.layer(parts, PartitionId(0), space, self.identity.clone());
        layer.access.directory = Some(directory);
        layer.access.is_followed = parts.nodes.is_some();
        tell(settings, &layer.config);
        // A home's may have changed since the process started.
        let files = parts.tls.files();
        files.as_ref().unwrap_or(&settings.connections.tls).tell(&layer.config);
        if let Some(file) = settings.redis.config_file.clone() {
            for (name, value) in &file.parameters {
                let started = layer.config.start_with_file(name, value);
                started.map_err(|reason| anyhow::anyhow!("{}: redis.{name}: {reason}", file.path.display()))?;
            }
            layer.decide_on_changes();
            layer.process.write_parameters = Some(Box::new(move |parameters| (file.write)(&file.path, parameters)));
        }
        let tls = parts.tls.clone();
        let use_tls = move |named: [String; 4]| tls.change(tls_files(named));
        let named = ["tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-auth-clients"];
        use_tls(named.map(|name| layer.config.text_of(name))).context("TLS")?;
        layer.process.use_tls = Some(Box::new(move |named| {
            use_tls(named).map_err(|error| {
                tracing::error!("the certificate is unchanged, the new certificate cannot be used: {error:#}");
                format!("{error:#}")
            })
        }));
        if let Some(path) = &settings.redis.rdb {
            layer.process.rdb_file = Some(Box::new(RdbFile::new(path)));
        }
        match &settings.redis.users_file {
            Some(path) => read_users(&mut layer, UsersOnDisk::new(path.clone()))?,
            None if parts.partitions.has(PartitionId(0)) => keep_users_in_database(&mut layer, parts)?,
            // Another node is home of the default database.
            None => {}
        }
        if let Some(sha256) = settings.credentials.root_key() {
            layer.access.users.require_password(Some(sha256));
        }
        if layer.access.is_followed && parts.partitions.has(PartitionId(0)) {
            layer.has_stored_users()?;
        }
        Ok(layer)
    }

    /// The same at a node that is not home.
    pub fn at_replica(&self, parts: &Parts, directory: Box<dyn Directory>) -> Result<Redis> {
        let mut layer = self.layer(
            parts,
            PartitionId(0),
            parts.default_space(LayerId::Redis),
            self.identity.clone(),
        );
        layer.access.directory = Some(directory);
        let stored = UsersInDatabase::new(parts.engine.clone(), parts.default_space(LayerId::System));
        load_stored_users(&mut layer, stored)?;
        if let Some(sha256) = parts.settings.credentials.root_key() {
            layer.access.users.require_password(Some(sha256));
        }
        Ok(layer)
    }

    /// The layer of another database, inside its admission control.
    pub fn of_database(
        &self,
        parts: &Parts,
        database: &Arc<Database>,
        directory: Box<dyn Directory>,
    ) -> Result<Redis, Busy> {
        let identity = Identity {
            startup_bytes: 0,
            executable: String::new(),
            config_file: String::new(),
            ..self.identity.clone()
        };
        let mut layer = self.layer(parts, database.partition(), database.space(LayerId::Redis), identity);
        layer.access.directory = Some(directory);
        layer.access.realm = format!("{}/", database.definition().name).into();
        layer.access.admission_control = Some(Arc::new(RedisAdmissionControl::new(
            database.clone(),
            parts.engine_of(database).clone(),
        )));
        let stored = UsersInDatabase::new(parts.engine_of(database).clone(), database.space(LayerId::System));
        let has_users = stored.has_users()?;
        layer.access.user_file = Some(Box::new(stored));
        if has_users && let Err(error) = layer.load_users() {
            tracing::error!(
                database = database.definition().name,
                error,
                "users that cannot be read are left out"
            );
        }
        configure(&layer, database);
        if parts.replica.is_none() && parts.nodes.is_some() {
            layer.access.is_followed = true;
            layer.has_stored_users()?;
        }
        Ok(layer)
    }

    fn layer(&self, parts: &Parts, partition: PartitionId, space: Space, identity: Identity) -> Redis {
        let (stop, engine) = (parts.stop.clone(), parts.partitions.engine(partition).clone());
        let mut layer = Redis::new(engine, space, self.commands, identity, Box::new(move || stop.request()));
        layer.replica = parts.replica;
        let budget_source = parts.budget.source;
        layer.process.resources = Box::new(move || quartet_layer_redis::Resources {
            budget_source,
            ..system::used()
        });
        let purges = parts.purges.clone();
        let slow_requests = parts.slow_requests.clone();
        layer.process.slow = Some(Box::new(move |command, arguments, realm, micros| {
            let shape = || format!("{arguments} arguments");
            let operation = LayerOperation {
                layer: "redis",
                name: command,
            };
            slow_requests.note(micros, operation, || database_of(realm), shape);
        }));
        layer.process.purge = Box::new(move || purges.send_replace(()));
        layer.process.secret_digits = Some(Box::new(system::random_hexadecimal));
        layer.scripting.log = Arc::new(log_of_scripts);
        layer.scripting.long_scripts = self.long_scripts[parts.partitions.place(partition)].clone();
        layer.connections.clients.memory = self.client_memory.clone();
        layer.access.login_guard = parts.login_guard.clone();
        layer.process.migration_targets = parts.settings.redis.migration_targets.clone();
        layer
    }
}

/// Checks a parameter of the configuration file like a starting layer. The error has the fault of
/// its value.
pub fn check_parameter(settings: &Settings, name: &str, value: &str) -> Result<(), String> {
    let config = Config::default();
    tell(settings, &config);
    config.start_with_file(name, value)
}

/// Sets the parameters that CONFIG GET shows of the settings. DEBUG is open to all clients if only
/// this machine can connect, and otherwise limited to this machine.
fn tell(settings: &Settings, config: &Config) {
    if let Some(folder) = settings.storage.data.folder() {
        let path = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        config.start_with("dir", path.display().to_string());
    }
    config.start_with("appendfsync", appendfsync(settings.storage.durability).into());
    // Parameters are signed; larger values have no use.
    let number = |setting: usize| i64::try_from(setting).unwrap_or(i64::MAX).to_string();
    let connections = &settings.connections;
    config.start_with("maxclients", number(connections.connections_max));
    let possible = i64::try_from(connections.connections_max).unwrap_or(i64::MAX);
    config.maxclients_possible.store(possible, Ordering::Relaxed);
    config.start_with("client-query-buffer-limit", number(connections.request_bytes_max));
    if let Some(address) = settings.redis.listen.address() {
        config.start_with("bind", address.ip().to_string());
        let debug = if address.ip().is_loopback() { "yes" } else { "local" };
        config.start_with("enable-debug-command", debug.into());
    }
}

fn identity(parts: &Parts, tcp_port: u16) -> Identity {
    let (settings, redis) = (&parts.settings, &parts.settings.redis);
    let config_file = redis.config_file.as_ref();
    Identity {
        quartet_version: env!("CARGO_PKG_VERSION").into(),
        redis_version: redis.redis_version,
        run_id: system::random_hexadecimal(40),
        process_id: std::process::id(),
        tcp_port,
        started_micros: parts.started_micros,
        startup_bytes: parts.startup_bytes,
        executable: system::executable(),
        config_file: config_file
            .map(|file| file.path.display().to_string())
            .unwrap_or_default(),
        keeps_data: settings.storage.data != Data::Memory,
        emulated_cluster: redis.emulates_cluster.then(|| redis.announcement.clone()),
    }
}

/// Upper bound on the buffers of all connections if `maxmemory-clients` is 0: a quarter of the
/// process' budget, and never so little that a few honest clients with large requests would be
/// closed.
fn client_bytes_max(budget: Budget) -> usize {
    const LEAST_BYTES: usize = 64 << 20;
    let quarter = budget.bytes.map_or(usize::MAX, |bytes| (bytes / 4) as usize);
    quarter.max(LEAST_BYTES)
}

/// The values of `tls-cert-file`, `tls-key-file`, `tls-ca-cert-file` and `tls-auth-clients`.
fn tls_files([certificate, key, client_roots, clients]: [String; 4]) -> TlsFiles {
    TlsFiles {
        certificate: certificate.into(),
        key: key.into(),
        client_roots: client_roots.into(),
        clients: ClientCertificates::parse(&clients).unwrap_or_default(),
    }
}

/// Makes the default database's layer keep its users as a row, and loads the existing users.
fn keep_users_in_database(layer: &mut Redis, parts: &Parts) -> Result<()> {
    let stored = UsersInDatabase::new(parts.engine.clone(), parts.default_space(LayerId::System));
    if let Some(folder) = parts.settings.storage.data.folder() {
        take_in_users(layer.table, UsersOnDisk::in_directory(folder), &stored)?;
    }
    load_stored_users(layer, stored)
}

fn load_stored_users(layer: &mut Redis, stored: UsersInDatabase) -> Result<()> {
    let has_users = stored.has_users()?;
    layer.access.user_file = Some(Box::new(stored));
    if has_users {
        let loaded = layer.load_users();
        loaded.map_err(|error| anyhow!("the users of the default database: {error}"))?;
    }
    Ok(())
}

/// Replaces the users that are kept by those of a file in the data folder, and sets the file aside.
fn take_in_users(table: &'static Table, file: UsersOnDisk, stored: &UsersInDatabase) -> Result<()> {
    let Some(text) = file.read()? else {
        return Ok(());
    };
    let path = file.path().display().to_string();
    let parsed = parse_file(table, &text, true);
    parsed.map_err(|errors| anyhow!("the file of users {path}: {errors}"))?;
    stored.write(&text).with_context(|| format!("taking in {path}"))?;
    let aside = file.set_aside().with_context(|| format!("setting {path} aside"))?;
    tracing::info!("{path} was imported, and is {} now", aside.display());
    Ok(())
}

/// Loads users from the named file, which must exist, and makes the layer save them there.
fn read_users(layer: &mut Redis, file: UsersOnDisk) -> Result<()> {
    let path = file.path().display().to_string();
    layer.config.start_with("aclfile", path.clone());
    layer.access.user_file = Some(Box::new(file));
    let loaded = layer.load_users();
    loaded
        .map(drop)
        .map_err(|error| anyhow!("the file of users {path}: {error}"))
}

/// Makes a layer follow what is decided about its database.
pub fn configure(layer: &Redis, database: &Database) {
    let definition = database.definition();
    layer
        .access
        .users
        .require_password(Some(definition.credentials.token.0));
    layer
        .access
        .users
        .admit_reader(READER, definition.credentials.read_only_token.0);
    let config = &layer.config;
    config.start_with("appendfsync", appendfsync(definition.durability).into());
    // Up to twice the limit is read, so that the refusal can say what was sent.
    let query_bytes_max = database
        .limits
        .request_bytes()
        .map_or(i64::MAX as u64, |bytes| bytes.saturating_mul(2));
    let query_bytes_max = query_bytes_max.clamp(QUERY_BYTES_MIN, QUERY_BYTES_MAX);
    config.start_with("client-query-buffer-limit", query_bytes_max.to_string());
    let evicted_from = database.limits.stored_bytes().filter(|_| definition.eviction);
    config.start_with("maxmemory", evicted_from.unwrap_or(0).min(i64::MAX as u64).to_string());
    if definition.eviction && config.text_of("maxmemory-policy") == "noeviction" {
        config.start_with("maxmemory-policy", EVICTION_POLICY.into());
    }
}

const QUERY_BYTES_MIN: u64 = 1 << 20;
const QUERY_BYTES_MAX: u64 = 1 << 30;

/// The name of the database for a realm of users' names; the default database has an empty realm.
fn database_of(realm: &[u8]) -> String {
    match realm.strip_suffix(b"/") {
        Some(name) => String::from_utf8_lossy(name).into_owned(),
        None => "default".into(),
    }
}

/// The events that `redis.log` writes, at the levels of Redis: debug, verbose, notice, warning.
fn log_of_scripts(level: u8, line: &str) {
    match level {
        0 => tracing::trace!("script: {line}"),
        1 => tracing::debug!("script: {line}"),
        2 => tracing::info!("script: {line}"),
        _ => tracing::warn!("script: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use quartet_engine::Durability;

    use super::*;

    fn told(redis: &str) -> Vec<String> {
        let mut settings = Settings::for_test();
        settings.storage.data = Data::Folder("some/data".into());
        settings.storage.durability = Durability::Interval;
        settings.redis.listen = redis.parse().unwrap();
        settings.credentials = crate::settings::Credentials::Key { sha256: [0; 32] };
        let config = Config::default();
        tell(&settings, &config);
        ["dir", "appendfsync", "bind", "enable-debug-command"]
            .map(|name| config.text_of(name))
            .to_vec()
    }

    #[test]
    fn config_says_what_was_decided() {
        let current = std::env::current_dir().unwrap().join("some/data").display().to_string();
        assert_eq!(told("127.0.0.1:0"), [&current, "everysec", "127.0.0.1", "yes"]);
        assert_eq!(told("0.0.0.0:0"), [&current, "everysec", "0.0.0.0", "local"]);
        assert_eq!(told("[::1]:0"), [&current, "everysec", "::1", "yes"]);
    }
}
