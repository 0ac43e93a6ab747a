//! State that all connections of one logical database share.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use quartet_engine::{Admission, Busy, Engine, FollowingPeriod, Space};
use quartet_model::DatabaseId;

use crate::access::acl::{UserFile, Users};
use crate::access::admission_control::AdmissionControl;
use crate::access::database_login::DatabaseLogin;
use crate::access::login_guard::LoginGuard;
use crate::command::migration::Targets;
use crate::command::table::Table;
use crate::config::{Change, Config, WriteParameters};
use crate::connections::blocking::Blocking;
use crate::connections::channels::Channels;
use crate::connections::clients::Clients;
use crate::connections::outbox::Outbox;
use crate::connections::pause::Pause;
use crate::connections::pending_disconnects::PendingDisconnects;
use crate::connections::tracking::Tracking;
use crate::facts::RedisVersion;
use crate::keyspace::KeyCount;
use crate::keyspace::changes::Changes;
use crate::keyspace::found_expired::FoundExpired;
use crate::keyspace::random::Random;
use crate::keyspace::recency::Recency;
use crate::module_states::ModuleStates;
use crate::observation::latency::LatencyEvents;
use crate::observation::slowlog::Slowlog;
use crate::observation::statistics::Statistics;
use crate::replication::{Follower, Replication};
use crate::scripting::long_scripts::LongScripts;
use crate::scripting::scripts::{LibraryMark, Scripts};

/// The log of `redis.log`: level from 0 (debug) to 3 (warning), and the line.
pub type Log = Arc<dyn Fn(u8, &str) + Send + Sync>;

/// State that all connections of one logical database share.
pub struct Redis {
    pub engine: Arc<Engine>,
    pub space: Space,
    /// Another node is home: the layer reads this node's replica, in this period, and never writes.
    /// It is busy for all that is for the home.
    pub replica: Option<FollowingPeriod>,
    /// Every command with its handler, and the modules: [`Redis::commands`] has the type.
    pub command_set: &'static (dyn Any + Send + Sync),
    pub table: &'static Table,
    pub config: Config,
    pub changes: Changes,
    /// The state of modules in this layer.
    pub module_states: ModuleStates,
    pub outbox: Outbox,
    /// The stream to replicas.
    pub replication: Replication,
    /// Longest reply of one command or transaction, and most that a command gathers for it: a
    /// request may name one value many times. DEBUG SET-REPLY-BYTES-MAX lowers it for tests.
    pub reply_bytes_max: AtomicUsize,
    /// The source of random choices.
    pub random: Random,
    pub expiry: Expiry,
    pub eviction: Eviction,
    pub connections: Connections,
    pub access: Access,
    pub observation: Observation,
    pub scripting: Scripting,
    pub process: Process,
}

/// Expiry of keys.
pub struct Expiry {
    /// DEBUG SET-ACTIVE-EXPIRE: the cycle removes expired keys.
    pub is_active: AtomicBool,
    /// Keys that a reader has found to be expired.
    pub found: FoundExpired,
}

/// How keys leave when memory is short.
pub struct Eviction {
    pub recency: Recency,
    /// Set if the last eviction found no key to remove.
    pub found_nothing: AtomicBool,
}

/// Counters and notes of the commands that ran.
pub struct Observation {
    pub statistics: Statistics,
    pub slowlog: Mutex<Slowlog>,
    pub large_requests: Mutex<Slowlog>,
    pub large_replies: Mutex<Slowlog>,
    pub latency: Mutex<LatencyEvents>,
    /// The key counts as of the last count, for callers that may not wait.
    pub key_counts: Mutex<Vec<KeyCount>>,
}

/// State that scripts of all connections share.
pub struct Scripting {
    /// The scripts that EVALSHA finds.
    pub scripts: Scripts,
    /// Keeps the libraries of this layer apart in the interpreters.
    pub library_mark: LibraryMark,
    /// The long-running script, if there is one.
    pub long_scripts: Arc<LongScripts>,
    /// DEBUG SET-DISABLE-DENY-SCRIPTS: scripts may call what they otherwise may not, but no
    /// scripts.
    pub scripts_call_all: AtomicBool,
    /// The log of scripts' `redis.log`. The server supplies it.
    pub log: Log,
}

/// The connections, and each one's waits, subscriptions and cached keys.
pub struct Connections {
    /// The database is moving to another partition, or has moved: requests wait, and then continue
    /// in its layer there.
    pub is_held: AtomicBool,
    pub clients: Clients,
    pub blocking: Blocking,
    pub pause: Pause,
    pub channels: Channels,
    pub tracking: Tracking,
    /// Work of closed connections that waits for a long script to give the lock back.
    pub pending_disconnects: PendingDisconnects,
}

/// Access: the users, and their authentication.
pub struct Access {
    pub users: Users,
    /// The durable store of users, if there is one.
    pub user_file: Option<Box<dyn UserFile>>,
    /// Admits and counts the commands; `None` for the default database.
    pub admission_control: Option<Arc<dyn AdmissionControl>>,
    /// The prefix of this database's users' names in a token: `NAME/`, and nothing in the default
    /// database.
    pub realm: Vec<u8>,
    /// Maps passwords to logical databases; `None` if there is only this database.
    pub directory: Option<Box<dyn Directory>>,
    /// Slows down password guessing.
    pub login_guard: Arc<LoginGuard>,
    /// Other nodes read the users from their row.
    pub is_followed: bool,
}

/// Maps passwords to logical databases; a connection with such a password continues in that
/// database's layer.
pub trait Directory: Send + Sync {
    /// The database, and the user of it, that these may open. Quick, and takes no lock of the
    /// engine's.
    fn find(&self, name: &[u8], password: &[u8]) -> Option<DatabaseLogin>;

    /// The layer of a database; `None` if it was deleted. Must not be called with the partition's
    /// lock held.
    fn open(&self, database: DatabaseId) -> Result<Option<Arc<Redis>>, Busy>;

    /// Returns true if another process serves the database, and checks the credentials.
    fn is_elsewhere(&self, _database: DatabaseId) -> bool {
        false
    }
}

/// The file that SAVE writes beside the checkpoint. The server supplies it: the layer touches no
/// file.
pub trait RdbFile: Send + Sync {
    /// Writes everything that the layer's database holds, and blocks while it does. The error is a
    /// reply.
    fn write(&self, layer: &Redis) -> Result<(), String>;

    /// The time of the newest complete file, in microseconds since the Unix epoch; zero if none was
    /// written since the start.
    fn written_micros(&self) -> u64;
}

/// Supplied by the server: the layer queries no operating system and touches no file.
pub struct Process {
    pub identity: Identity,
    /// The targets that MIGRATE may send keys to, and the sources that REPLICAOF may follow.
    pub migration_targets: Targets,
    /// The server stops when this is called: SHUTDOWN.
    pub shutdown: Box<dyn Fn() + Send + Sync>,
    /// The process' resources, for INFO and MEMORY. The server supplies them: the layer queries no
    /// operating system.
    pub resources: Box<dyn Fn() -> Resources + Send + Sync>,
    /// Gives the system back what the allocator keeps for later: MEMORY PURGE.
    pub purge: Box<dyn Fn() + Send + Sync>,
    /// Returns unpredictable hexadecimal digits. The server supplies them.
    pub secret_digits: Option<Box<dyn Fn(usize) -> String + Send + Sync>>,
    /// Called with each command that SLOWLOG keeps: its name, the number of its arguments, the
    /// realm, and its microseconds.
    pub slow: Option<Box<Slow>>,
    /// Makes the server use the certificate that the parameters name. It may block; the error is
    /// for the server's log.
    pub use_tls: Option<Box<UseTls>>,
    /// Called by SAVE beside the checkpoint, if anything else is written.
    pub rdb_file: Option<Box<dyn RdbFile>>,
    /// The target of CONFIG REWRITE; none if the server was started without a configuration file.
    pub write_parameters: Option<Box<WriteParameters>>,
}

/// Takes a slow command's name, the number of its arguments, the realm of the layer's users, and
/// its microseconds.
pub type Slow = dyn Fn(&'static str, usize, &[u8], u64) + Send + Sync;

/// Makes the server use these files: certificate, key, roots of clients' certificates; and what
/// `tls-auth-clients` says.
pub type UseTls = dyn Fn([String; 4]) -> Result<(), String> + Send + Sync;

/// The process' use of the machine. Zeros where it is not measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resources {
    /// Resident memory.
    pub rss_bytes: u64,
    pub machine_bytes: u64,
    /// The source of `memory_bytes` of the engine's budget.
    pub budget_source: &'static str,
    pub cpu_system_micros: u64,
    pub cpu_user_micros: u64,
}

/// The facts about this process in INFO and HELLO.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    pub quartet_version: String,
    pub redis_version: RedisVersion,
    /// Forty hexadecimal digits, new with each start.
    pub run_id: String,
    pub process_id: u32,
    pub tcp_port: u16,
    pub started_micros: u64,
    /// Resident memory before there were any data.
    pub startup_bytes: u64,
    /// The program's path.
    pub executable: String,
    pub config_file: String,
    /// True if writes outlive the process.
    pub keeps_data: bool,
    /// The server answers as a cluster of one node; what it announces as its address.
    pub emulated_cluster: Option<Announcement>,
}

/// The address that clients get; an absent part is the one they have connected to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    pub host: Option<String>,
    pub port: Option<u16>,
}

impl Announcement {
    /// The same host, for another listener.
    pub fn without_port(&self) -> Announcement {
        Announcement {
            host: self.host.clone(),
            port: None,
        }
    }
}

impl Identity {
    /// The name of the server's mode in HELLO and INFO.
    pub fn mode(&self) -> &'static str {
        match self.emulated_cluster {
            Some(_) => "cluster",
            None => "standalone",
        }
    }
}

impl Default for Expiry {
    fn default() -> Expiry {
        Expiry {
            is_active: true.into(),
            found: FoundExpired::default(),
        }
    }
}

impl Redis {
    /// Keeps the parameters that CONFIG SET has changed in the configuration file. Blocks while it
    /// writes; the error is a reply.
    pub fn rewrite_config(&self) -> Result<(), String> {
        let Some(write) = &self.process.write_parameters else {
            return Err("ERR The server is running without a config file".into());
        };
        write(&self.config.changed()).map_err(|error| format!("ERR Rewriting config file: {error}"))
    }

    /// Stores checked values, once the server uses the certificate that they name. Blocks while it
    /// is read; the error is a reply.
    pub fn change_tls(&self, changes: Vec<Change>) -> Result<(), String> {
        let named = ["tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-auth-clients"];
        let Some(first) = changes.iter().find(|change| change.parameter.is_about_tls()) else {
            return Ok(());
        };
        if let Some(use_tls) = &self.process.use_tls {
            use_tls(named.map(|name| self.config.text_after(name, &changes))).map_err(|reason| {
                format!(
                    "ERR CONFIG SET failed (possibly related to argument '{}') - Unable to update TLS configuration. \
                     Check server logs. ({reason})",
                    first.parameter.name
                )
            })?;
        }
        self.config.change(changes);
        self.decide_on_changes();
        Ok(())
    }

    /// Returns the memory in use: the process' base, the rows, and peers' bytes. For a database
    /// that is one of several, its own rows.
    pub fn used_bytes(&self) -> u64 {
        match self.access.admission_control {
            None => self.process.identity.startup_bytes + self.engine.memory().counted_bytes(),
            Some(_) => self.engine.stored_bytes(self.space.database),
        }
    }

    /// Returns the resources of the process. A single database of several sees only its own: the
    /// process's figures would reveal the others.
    pub fn resources(&self) -> Resources {
        match self.access.admission_control {
            None => (self.process.resources)(),
            Some(_) => Resources {
                rss_bytes: self.used_bytes(),
                ..Resources::default()
            },
        }
    }

    /// The same without the rows that only a snapshot holds.
    pub fn live_bytes(&self) -> u64 {
        match self.access.admission_control {
            None => self.process.identity.startup_bytes + self.engine.removable_bytes(),
            Some(_) => self.engine.stored_bytes(self.space.database),
        }
    }

    /// Commands that may need more memory are refused.
    pub fn is_out_of_memory(&self) -> bool {
        let memory = self.engine.memory();
        let process_is_short = match self.evicts_for_the_process() {
            // Rows that a checkpoint holds cannot be given back by evicting more.
            true => memory.is_nearly_gone() && !self.engine.give_up_checkpoint(),
            false => self.engine.admission() == Admission::Refused,
        };
        // As in Redis, commands continue while eviction does, though there is not enough room yet.
        process_is_short || self.eviction.found_nothing.load(Ordering::Relaxed) && self.should_evict()
    }

    /// There is more than `maxmemory` allows, which does not count on a replica, or than the
    /// process may take. One load while `maxmemory` is 0 and nothing may be evicted.
    #[inline]
    pub fn should_evict(&self) -> bool {
        let maxmemory = self.config.maxmemory.load(Ordering::Relaxed) as u64;
        let exceeds = maxmemory > 0 && !self.replication.is_replica() && self.bytes_against_maxmemory() > maxmemory;
        exceeds || self.evicts_for_the_process() && self.exceeds_what_the_process_may_take()
    }

    /// A database that is one of several loses no keys because others need room: its writes are
    /// refused instead. Likewise a database with rows in files, where removing them frees no
    /// memory.
    fn evicts_for_the_process(&self) -> bool {
        let is_own = self.access.admission_control.is_none() && !self.replication.is_replica();
        is_own && self.engine.is_all_in_memory() && self.eviction_policy().evicts()
    }

    fn exceeds_what_the_process_may_take(&self) -> bool {
        let memory = self.engine.memory();
        self.engine.removable_bytes() + memory.reserved_bytes() > memory.evicts_above()
    }

    fn bytes_against_maxmemory(&self) -> u64 {
        if self.eviction_policy().evicts() {
            self.live_bytes()
        } else {
            self.used_bytes()
        }
    }

    /// Returns the size of the buffers of all connections.
    pub fn client_bytes(&self) -> u64 {
        let clients = self.connections.clients.list();
        let bytes = clients.iter().map(|client| client.buffers.total() as u64);
        bytes.sum()
    }

    #[inline]
    pub fn reply_bytes_max(&self) -> usize {
        self.reply_bytes_max.load(Ordering::Relaxed)
    }

    /// Most memory that one reply may take, in bytes: a client that has one such reply to read is
    /// not yet one that is closed for what is kept for it.
    #[inline]
    pub fn reply_memory_max(&self) -> u64 {
        let client_limit = self
            .config
            .client_bytes_max()
            .map_or(u64::MAX, |bytes| bytes as u64 / 2);
        client_limit.min(self.engine.memory().request_bytes_max())
    }

    /// Fewer replicas have been heard of lately than `min-replicas-to-write` requires.
    pub fn lacks_replicas(&self) -> bool {
        let number = |field: &AtomicI64| field.load(Ordering::Relaxed).max(0) as u64;
        let replicas_min = number(&self.config.min_replicas_to_write);
        let lag_seconds = number(&self.config.min_replicas_max_lag);
        replicas_min > 0 && lag_seconds > 0 && self.good_replicas(lag_seconds) < replicas_min
    }

    fn good_replicas(&self, lag_seconds: u64) -> u64 {
        let since_micros = self.engine.now_micros().saturating_sub(lag_seconds * 1_000_000);
        let followers = self.replication.followers();
        let is_good = |follower: &&std::sync::Arc<Follower>| {
            follower.is_online.load(Ordering::Relaxed)
                && follower.acknowledged_micros.load(Ordering::Relaxed) >= since_micros
        };
        followers.iter().filter(is_good).count() as u64
    }
}
