//! Makes the layers over one logical database: those of the default one when the server starts,
//! those of another when somebody comes in.

use std::sync::{Arc, OnceLock, Weak};

use anyhow::{Context, Result, anyhow};
use quartet_engine::{Busy, Engine, Space};
use quartet_layer_dynamodb::{DynamoDb, Throughput};
use quartet_layer_fauna::{Fauna, Fetch, RateLimits, RootSecret};
use quartet_layer_keyvalue::KeyValue;
use quartet_layer_redis::access::acl::{UserFile, parse_file};
use quartet_layer_redis::access::login_guard::LoginGuard;
use quartet_layer_redis::commands::table;
use quartet_layer_redis::{ClientMemory, Directory, LongScripts};
use quartet_layer_redis::{Identity, Redis};
use quartet_model::LayerId;
use quartet_tenancy::{DEFAULT_DATABASE, Database};
use tokio::sync::watch;

use crate::cluster::node::Shared;
use crate::connections::tls::{ClientCertificates, Tls, TlsFiles};
use crate::observability::durations::OfLayers;
use crate::observability::slow_requests::SlowRequests;
use crate::observability::telemetry::spans::Spans;
use crate::process::stop_request::StopRequest;
use crate::process::system;
use crate::redis::migration::Migrations;
use crate::redis::rdb_file::RdbFile;
use crate::redis::replica_of::ReplicaOf;
use crate::redis::users::UsersOnDisk;
use crate::settings::{DEVELOPMENT_SECRET, Settings, appendfsync};
use crate::tenants::admission_control::{RedisAdmissionControl, has_no_room};
use crate::tenants::users::{READER, UsersInDatabase};

/// Where there is no room, keys with a deadline go first, then any: what `eviction` of a database
/// means.
const EVICTION_POLICY: &str = "optimistic-volatile";

pub struct LayerMaker {
    pub engine: Arc<Engine>,
    pub settings: Arc<Settings>,
    pub stop: Arc<StopRequest>,
    /// The node of a cluster that this is, if it is one.
    pub nodes: Option<Weak<Shared>>,
    pub identity: Identity,
    /// The source of the memory budget.
    pub budget_source: &'static str,
    /// One for all, as they share the lock that a long script holds.
    pub long_scripts: Arc<LongScripts>,
    /// One for all, as they share the machine.
    pub client_memory: Arc<ClientMemory>,
    /// One for all, so that nobody gets more attempts by asking elsewhere.
    pub login_guard: Arc<LoginGuard>,
    pub migrations: Migrations,
    /// Asks each thread for what its allocator keeps for later.
    pub purges: watch::Sender<()>,
    /// Tells of requests that take long.
    pub slow_requests: Arc<SlowRequests>,
    /// Those of some requests, if a collector gets any.
    pub spans: Option<Arc<Spans>>,
    /// How long requests take.
    pub durations: OfLayers,
    /// One for all listeners.
    pub tls: Arc<Tls>,
    /// The server that the default database is a replica of.
    pub replica_of: ReplicaOf,
    /// Host and port at which DynamoDB's clients reach the server.
    pub dynamodb_endpoint: OnceLock<String>,
    /// One for all: it keeps its connections and knows which issuers to trust.
    pub fetch_issuer_keys: Arc<Fetch>,
}

impl LayerMaker {
    /// Notes how long a request took: by operation, by database, and in the log if it was slow.
    /// `place` is that of the operation among those that the layer measures; `None` is the default
    /// database.
    #[inline]
    pub fn note_request(
        &self,
        (layer, place): (&str, usize),
        database: Option<&Database>,
        micros: u64,
        shape: impl FnOnce() -> String,
    ) {
        let operations = self.durations.of(layer);
        operations.at(place).add(micros);
        self.durations.of_database(database).add(micros);
        self.note_slow(micros, (layer, operations.name(place)), database, shape);
    }

    /// Tells of a request in the log if it took long. `None` is the default database.
    #[inline]
    pub fn note_slow(
        &self,
        micros: u64,
        request: (&str, &str),
        database: Option<&Database>,
        shape: impl FnOnce() -> String,
    ) {
        let name = || database.map_or_else(|| "default".into(), |database| database.definition().name.clone());
        self.slow_requests.note(micros, request, name, shape);
    }

    /// The layer of the default database, which is the operator's.
    pub fn default_redis(&self, directory: Box<dyn Directory>) -> Result<Redis> {
        let mut layer = self.redis(self.default_space(LayerId::Redis), self.identity.clone());
        layer.access.directory = Some(directory);
        self.settings.tell(&layer.config);
        if let Some(file) = self.settings.redis.config_file.clone() {
            for (name, value) in &file.parameters {
                let started = layer.config.start_with_file(name, value);
                started.map_err(|reason| anyhow::anyhow!("{}: redis.{name}: {reason}", file.path.display()))?;
            }
            layer.decide_on_changes();
            layer.process.write_parameters = Some(Box::new(move |parameters| (file.write)(&file.path, parameters)));
        }
        let tls = self.tls.clone();
        let use_tls = move |named: [String; 4]| tls.change(tls_files(named));
        let named = ["tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-auth-clients"];
        use_tls(named.map(|name| layer.config.text_of(name))).context("TLS")?;
        layer.process.use_tls = Some(Box::new(move |named| {
            use_tls(named).map_err(|error| {
                tracing::error!("the certificate stays as it was, the new one cannot be used: {error:#}");
                format!("{error:#}")
            })
        }));
        if let Some(path) = &self.settings.redis.rdb {
            layer.process.rdb_file = Some(Box::new(RdbFile::new(path)));
        }
        match &self.settings.redis.users_file {
            Some(path) => read_users(&mut layer, UsersOnDisk::new(path.clone()))?,
            None => self.keep_users_in_database(&mut layer)?,
        }
        if let Some(sha256) = self.settings.credentials.root_key() {
            layer.access.users.require_password(Some(sha256));
        }
        Ok(layer)
    }

    /// Lets the default database's layer keep its users as a row, and gives it those that are there.
    fn keep_users_in_database(&self, layer: &mut Redis) -> Result<()> {
        let kept = UsersInDatabase::new(self.engine.clone(), self.default_space(LayerId::System));
        if let Some(folder) = self.settings.storage.data.folder() {
            take_in_users(UsersOnDisk::in_directory(folder), &kept)?;
        }
        let has_users = kept.has_users()?;
        layer.access.user_file = Some(Box::new(kept));
        if has_users {
            let loaded = layer.load_users();
            loaded.map_err(|error| anyhow!("the users of the default database: {error}"))?;
        }
        Ok(())
    }

    /// The layer of another database, behind its admission control.
    pub fn redis_of(&self, database: &Arc<Database>, directory: Box<dyn Directory>) -> Result<Redis, Busy> {
        let identity = Identity {
            startup_bytes: 0,
            executable: String::new(),
            config_file: String::new(),
            ..self.identity.clone()
        };
        let mut layer = self.redis(database.space(LayerId::Redis), identity);
        layer.access.directory = Some(directory);
        layer.access.realm = format!("{}/", database.definition().name).into();
        layer.access.admission_control = Some(Arc::new(RedisAdmissionControl::new(
            database.clone(),
            self.engine.clone(),
        )));
        let kept = UsersInDatabase::new(self.engine.clone(), database.space(LayerId::System));
        let has_users = kept.has_users()?;
        layer.access.user_file = Some(Box::new(kept));
        if has_users && let Err(error) = layer.load_users() {
            tracing::error!(
                database = database.definition().name,
                error,
                "users that cannot be read are left out"
            );
        }
        configure(&layer, database);
        Ok(layer)
    }

    fn redis(&self, space: Space, identity: Identity) -> Redis {
        let stop = self.stop.clone();
        let mut layer = Redis::new(self.engine.clone(), space, identity, Box::new(move || stop.request()));
        let budget_source = self.budget_source;
        layer.process.resources = Box::new(move || quartet_layer_redis::Resources {
            budget_source,
            ..system::used()
        });
        let purges = self.purges.clone();
        let slow_requests = self.slow_requests.clone();
        layer.process.slow = Some(Box::new(move |command, arguments, realm, micros| {
            let shape = || format!("{arguments} arguments");
            slow_requests.note(micros, ("redis", command), || database_of(realm), shape);
        }));
        layer.process.purge = Box::new(move || purges.send_replace(()));
        layer.process.secret_digits = Some(Box::new(system::random_hexadecimal));
        layer.scripting.log = Arc::new(log_of_scripts);
        layer.scripting.long_scripts = self.long_scripts.clone();
        layer.connections.clients.memory = self.client_memory.clone();
        layer.access.login_guard = self.login_guard.clone();
        layer.process.migration_targets = self.settings.redis.migration_targets.clone();
        layer
    }

    pub fn dynamodb(&self, space: Space) -> DynamoDb {
        let mut layer = DynamoDb::new(self.engine.clone(), space);
        if let Some(endpoint) = self.dynamodb_endpoint.get() {
            layer.endpoint.clone_from(endpoint);
        }
        if self.settings.dynamodb.throttling {
            layer.throughput = Arc::new(Throughput::limited());
        }
        layer.regions_are_separate = self.settings.dynamodb.regions_are_separate;
        layer
    }

    pub fn default_fauna(&self) -> Result<Fauna, Busy> {
        let root_key = self.settings.credentials.root_key();
        let root = root_key.map_or_else(|| RootSecret::of(DEVELOPMENT_SECRET), |sha256| RootSecret { sha256 });
        self.fauna(self.default_space(LayerId::Fauna), root)
    }

    pub fn fauna_of(&self, database: &Arc<Database>) -> Result<Fauna, Busy> {
        let root = RootSecret {
            sha256: database.definition().credentials.fauna_key.0,
        };
        let mut layer = self.fauna(database.space(LayerId::Fauna), root)?;
        layer.is_one_of_several = true;
        let (engine, database) = (self.engine.clone(), database.clone());
        layer.is_full = Box::new(move || has_no_room(&database, &engine).is_some());
        Ok(layer)
    }

    fn fauna(&self, space: Space, root: RootSecret) -> Result<Fauna, Busy> {
        let mut layer = Fauna::new(self.engine.clone(), space, root, Box::new(system::fill_random))?;
        let fetch = self.fetch_issuer_keys.clone();
        layer.key_sets.fetch = Some(Box::new(move |uri| fetch(uri)));
        layer.rate_limits = RateLimits::new(self.settings.fauna.rate_limits);
        Ok(layer)
    }

    pub fn default_keyvalue(&self) -> KeyValue {
        self.keyvalue(self.default_space(LayerId::KeyValue))
    }

    pub fn keyvalue(&self, space: Space) -> KeyValue {
        let mut instance = [0; 8];
        system::fill_random(&mut instance);
        let instance = u64::from_le_bytes(instance);
        KeyValue::new(self.engine.clone(), space, self.settings.keyvalue.limits, instance)
    }

    pub fn default_space(&self, layer: LayerId) -> Space {
        Space {
            database: DEFAULT_DATABASE,
            layer,
            durability: self.settings.storage.durability,
        }
    }
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

/// Replaces the users that are kept by those of a file in the data folder, and sets the file aside.
fn take_in_users(file: UsersOnDisk, kept: &UsersInDatabase) -> Result<()> {
    let Some(text) = file.read()? else {
        return Ok(());
    };
    let path = file.path().display().to_string();
    let parsed = parse_file(table(), &text, true);
    parsed.map_err(|errors| anyhow!("the file of users {path}: {errors}"))?;
    kept.write(&text).with_context(|| format!("taking in {path}"))?;
    let aside = file.set_aside().with_context(|| format!("setting {path} aside"))?;
    tracing::info!("{path} was taken in, and is {} now", aside.display());
    Ok(())
}

/// Gives the layer the users in the file that was named, which has to be there, and lets it keep
/// them there.
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

/// The name of the database whose users' names begin so; the default one's begin with nothing.
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
