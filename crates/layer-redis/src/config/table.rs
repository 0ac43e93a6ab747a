//! The table of parameters: name, alias, type with bounds, default, who may change it, and whether
//! Quartet acts on it.
//!
//! Names, types, bounds and defaults follow `CONFIG GET *` of Redis 7.0.15 (the listpack limits of
//! sets: 7.2), except where Quartet's truth differs: everything is logged (`appendonly`,
//! `appendfsync`), and DEBUG is allowed.

use std::sync::atomic::AtomicI64;

use crate::config::Config;

use Access::{Hidden, Immutable, Modifiable, Protected};
use Effect::{Kept, Number, Parsed, Read};
use Kind::{
    Boolean, BufferLimits, Choice, Fixed, Integer, KeyspaceEvents, Memory, MemoryOrPercent, OomScores, Password,
    Percentiles, SavePoints, Text, Words,
};

pub struct Parameter {
    pub name: &'static str,
    pub alias: Option<&'static str>,
    pub kind: Kind,
    pub default: &'static str,
    pub access: Access,
    pub effect: Effect,
}

/// The form of a value.
#[derive(Clone, Copy)]
pub enum Kind {
    /// `yes` or `no`.
    Boolean,
    Text,
    /// Smallest and largest value, both allowed.
    Integer(i64, i64),
    /// Bytes, optionally with a unit: `10mb`. Smallest and largest value, both allowed.
    Memory(i64, i64),
    /// Bytes, or a share of the memory: `10%`.
    MemoryOrPercent,
    Choice(&'static [&'static str]),
    /// One or several of these words; the first excludes the others.
    Words(&'static [&'static str]),
    /// Only the present value may be set; otherwise this error.
    Fixed(&'static str),
    Password,
    /// Pairs of seconds and changes.
    SavePoints,
    /// Groups of class, hard limit, soft limit, seconds.
    BufferLimits,
    /// Three scores.
    OomScores,
    /// Class characters, shown in a canonical order.
    KeyspaceEvents,
    /// Numbers from 0 to 100.
    Percentiles,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Modifiable,
    /// Shown only when requested by its whole name.
    Hidden,
    /// Decided when the server starts.
    Immutable,
    /// Could be used to write files where they do not belong.
    Protected,
}

#[derive(Clone, Copy)]
pub enum Effect {
    /// Commands consult this atomic.
    Number(fn(&Config) -> &AtomicI64),
    /// Kept as text, and handed to this function, which stores what the text says in atomics.
    Parsed(fn(&Config, &str)),
    /// Consulted as text, or by a handler of its own.
    Read,
    /// Stored and shown, without effect: Quartet has no such mechanism.
    Kept,
}

impl Parameter {
    /// Finds a parameter by its name or alias, letters in any case.
    pub fn find(name: &[u8]) -> Option<&'static Parameter> {
        PARAMETERS.iter().find(|parameter| {
            parameter
                .names()
                .any(|parameter_name| name.eq_ignore_ascii_case(parameter_name.as_bytes()))
        })
    }

    /// The name, and the alias if there is one.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.alias)
    }

    /// It says which certificates TLS uses.
    pub fn is_about_tls(&self) -> bool {
        matches!(
            self.name,
            "tls-cert-file" | "tls-key-file" | "tls-ca-cert-file" | "tls-auth-clients"
        )
    }

    /// Returns false for passwords of this server: ACL SAVE stores users. Credentials for other
    /// servers are stored, as in Redis.
    pub fn may_stand_in_a_file(&self) -> bool {
        !self.is_secret() || matches!(self.name, "masterauth" | "masteruser")
    }

    /// A value that MONITOR and SLOWLOG must not show.
    pub fn is_secret(&self) -> bool {
        matches!(
            self.name,
            "requirepass" | "masterauth" | "masteruser" | "tls-key-file-pass" | "tls-client-key-file-pass"
        )
    }
}

const fn row(
    name: &'static str,
    alias: Option<&'static str>,
    kind: Kind,
    default: &'static str,
    access: Access,
    effect: Effect,
) -> Parameter {
    Parameter {
        name,
        alias,
        kind,
        default,
        access,
        effect,
    }
}

const INT_MIN: i64 = i32::MIN as i64;
const INT_MAX: i64 = i32::MAX as i64;
const UINT_MAX: i64 = u32::MAX as i64;

/// Every parameter, in the order of their names.
#[rustfmt::skip]
pub const PARAMETERS: &[Parameter] = &[
    row("acl-pubsub-default", None, Choice(&["allchannels", "resetchannels"]), "resetchannels", Modifiable, Parsed(Config::default_channels)),
    row("aclfile", None, Text, "", Immutable, Kept),
    row("acllog-max-len", None, Integer(0, i64::MAX), "128", Modifiable, Number(|config| &config.acllog_max_len)),
    row("active-defrag-cycle-max", None, Integer(1, 99), "25", Modifiable, Kept),
    row("active-defrag-cycle-min", None, Integer(1, 99), "1", Modifiable, Kept),
    row("active-defrag-ignore-bytes", None, Memory(1, i64::MAX), "104857600", Modifiable, Kept),
    row("active-defrag-max-scan-fields", None, Integer(1, i64::MAX), "1000", Modifiable, Kept),
    row("active-defrag-threshold-lower", None, Integer(0, 1000), "10", Modifiable, Kept),
    row("active-defrag-threshold-upper", None, Integer(0, 1000), "100", Modifiable, Kept),
    row("active-expire-effort", None, Integer(1, 10), "1", Modifiable, Kept),
    row("activedefrag", None, Boolean, "no", Modifiable, Kept),
    row("activerehashing", None, Boolean, "yes", Modifiable, Kept),
    row("always-show-logo", None, Boolean, "no", Immutable, Kept),
    row("aof-disable-auto-gc", None, Boolean, "no", Modifiable, Kept),
    row("aof-load-truncated", None, Boolean, "yes", Modifiable, Kept),
    row("aof-rewrite-incremental-fsync", None, Boolean, "yes", Modifiable, Kept),
    row("aof-timestamp-enabled", None, Boolean, "no", Modifiable, Kept),
    row("aof-use-rdb-preamble", None, Boolean, "yes", Modifiable, Kept),
    row("aof_rewrite_cpulist", None, Text, "", Immutable, Kept),
    row("appenddirname", None, Text, "appendonlydir", Immutable, Kept),
    row("appendfilename", None, Text, "appendonly.aof", Immutable, Kept),
    row("appendfsync", None, Choice(&["everysec", "always", "no"]), "always", Modifiable, Kept),
    row("appendonly", None, Boolean, "yes", Modifiable, Kept),
    row("auto-aof-rewrite-min-size", None, Memory(0, i64::MAX), "67108864", Modifiable, Kept),
    row("auto-aof-rewrite-percentage", None, Integer(0, INT_MAX), "100", Modifiable, Kept),
    row("bf-error-rate", None, Text, "0.01", Immutable, Kept),
    row("bf-expansion-factor", None, Integer(0, i64::MAX), "2", Immutable, Kept),
    row("bf-initial-size", None, Integer(0, i64::MAX), "100", Immutable, Kept),
    row("bgsave_cpulist", None, Text, "", Immutable, Kept),
    row("bind", None, Fixed("Failed to bind to specified addresses."), "* -::*", Modifiable, Read),
    row("bind-source-addr", None, Text, "", Modifiable, Kept),
    row("bio_cpulist", None, Text, "", Immutable, Kept),
    row("busy-reply-threshold", Some("lua-time-limit"), Integer(0, i64::MAX), "5000", Modifiable, Number(|config| &config.busy_reply_threshold)),
    row("cf-bucket-size", None, Integer(0, i64::MAX), "2", Immutable, Kept),
    row("cf-expansion-factor", None, Integer(0, i64::MAX), "1", Immutable, Kept),
    row("cf-initial-size", None, Integer(0, i64::MAX), "1024", Immutable, Kept),
    row("cf-max-expansions", None, Integer(0, i64::MAX), "32", Immutable, Kept),
    row("cf-max-iterations", None, Integer(0, i64::MAX), "20", Immutable, Kept),
    row("client-output-buffer-limit", None, BufferLimits, "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", Modifiable, Parsed(Config::limit_output)),
    row("client-query-buffer-limit", None, Memory(1 << 20, i64::MAX), "1073741824", Modifiable, Number(|config| &config.client_query_buffer_limit)),
    row("cluster-allow-pubsubshard-when-down", None, Boolean, "yes", Modifiable, Kept),
    row("cluster-allow-reads-when-down", None, Boolean, "no", Modifiable, Kept),
    row("cluster-allow-replica-migration", None, Boolean, "yes", Modifiable, Kept),
    row("cluster-announce-bus-port", None, Integer(0, 65535), "0", Modifiable, Kept),
    row("cluster-announce-hostname", None, Text, "", Modifiable, Kept),
    row("cluster-announce-ip", None, Text, "", Modifiable, Kept),
    row("cluster-announce-port", None, Integer(0, 65535), "0", Modifiable, Kept),
    row("cluster-announce-tls-port", None, Integer(0, 65535), "0", Modifiable, Kept),
    row("cluster-config-file", None, Text, "nodes.conf", Immutable, Kept),
    row("cluster-enabled", None, Boolean, "no", Immutable, Kept),
    row("cluster-link-sendbuf-limit", None, Memory(0, i64::MAX), "0", Modifiable, Kept),
    row("cluster-migration-barrier", None, Integer(0, INT_MAX), "1", Modifiable, Kept),
    row("cluster-node-timeout", None, Integer(0, i64::MAX), "15000", Modifiable, Kept),
    row("cluster-port", None, Integer(0, 65535), "0", Immutable, Kept),
    row("cluster-preferred-endpoint-type", None, Choice(&["ip", "hostname", "unknown-endpoint"]), "ip", Modifiable, Kept),
    row("cluster-replica-no-failover", Some("cluster-slave-no-failover"), Boolean, "no", Modifiable, Kept),
    row("cluster-replica-validity-factor", Some("cluster-slave-validity-factor"), Integer(0, INT_MAX), "10", Modifiable, Kept),
    row("cluster-require-full-coverage", None, Boolean, "yes", Modifiable, Kept),
    row("cluster-slot-stats-enabled", None, Boolean, "no", Immutable, Kept),
    row("commandlog-large-reply-max-len", None, Integer(0, i64::MAX), "128", Modifiable, Number(|config| &config.commandlog_large_reply_max_len)),
    row("commandlog-large-request-max-len", None, Integer(0, i64::MAX), "128", Modifiable, Number(|config| &config.commandlog_large_request_max_len)),
    row("commandlog-reply-larger-than", None, Integer(-1, i64::MAX), "1048576", Modifiable, Number(|config| &config.commandlog_reply_larger_than)),
    row("commandlog-request-larger-than", None, Integer(-1, i64::MAX), "1048576", Modifiable, Number(|config| &config.commandlog_request_larger_than)),
    row("crash-log-enabled", None, Boolean, "yes", Modifiable, Kept),
    row("crash-memcheck-enabled", None, Boolean, "yes", Modifiable, Kept),
    row("daemonize", None, Boolean, "no", Immutable, Kept),
    row("databases", None, Integer(1, INT_MAX), "16", Immutable, Read),
    row("dbfilename", None, Text, "dump.rdb", Protected, Kept),
    row("dir", None, Text, "", Protected, Kept),
    row("disable-thp", None, Boolean, "yes", Immutable, Kept),
    row("dynamic-hz", None, Boolean, "yes", Modifiable, Kept),
    row("enable-debug-command", None, Choice(&["no", "yes", "local"]), "yes", Immutable, Read),
    row("enable-module-command", None, Choice(&["no", "yes", "local"]), "no", Immutable, Kept),
    row("enable-protected-configs", None, Choice(&["no", "yes", "local"]), "no", Immutable, Kept),
    row("hash-max-listpack-entries", Some("hash-max-ziplist-entries"), Integer(0, i64::MAX), "512", Modifiable, Number(|config| &config.hash_max_listpack_entries)),
    row("hash-max-listpack-value", Some("hash-max-ziplist-value"), Memory(0, i64::MAX), "64", Modifiable, Number(|config| &config.hash_max_listpack_value)),
    row("hll-sparse-max-bytes", None, Memory(0, i64::MAX), "3000", Modifiable, Number(|config| &config.hll_sparse_max_bytes)),
    row("hz", None, Integer(0, INT_MAX), "10", Modifiable, Kept),
    row("ignore-warnings", None, Text, "", Modifiable, Kept),
    row("io-threads", None, Integer(1, 128), "1", Immutable, Kept),
    row("io-threads-do-reads", None, Boolean, "no", Immutable, Kept),
    row("jemalloc-bg-thread", None, Boolean, "yes", Modifiable, Kept),
    row("key-load-delay", None, Integer(INT_MIN, INT_MAX), "0", Hidden, Kept),
    row("latency-monitor-threshold", None, Integer(0, i64::MAX), "0", Modifiable, Number(|config| &config.latency_monitor_threshold)),
    row("latency-tracking", None, Boolean, "yes", Modifiable, Number(|config| &config.latency_tracking)),
    row("latency-tracking-info-percentiles", None, Percentiles, "50 99 99.9", Modifiable, Read),
    row("lazyfree-lazy-eviction", None, Boolean, "no", Modifiable, Kept),
    row("lazyfree-lazy-expire", None, Boolean, "no", Modifiable, Kept),
    row("lazyfree-lazy-server-del", None, Boolean, "no", Modifiable, Kept),
    row("lazyfree-lazy-user-del", None, Boolean, "no", Modifiable, Kept),
    row("lazyfree-lazy-user-flush", None, Boolean, "no", Modifiable, Kept),
    row("lfu-decay-time", None, Integer(0, INT_MAX), "1", Modifiable, Number(|config| &config.lfu_decay_time)),
    row("lfu-log-factor", None, Integer(0, INT_MAX), "10", Modifiable, Number(|config| &config.lfu_log_factor)),
    row("list-compress-depth", None, Integer(0, INT_MAX), "0", Modifiable, Kept),
    row("list-max-listpack-size", Some("list-max-ziplist-size"), Integer(INT_MIN, INT_MAX), "-2", Modifiable, Kept),
    row("loading-process-events-interval-bytes", None, Integer(1024, INT_MAX), "2097152", Hidden, Kept),
    row("logfile", None, Text, "", Immutable, Kept),
    row("loglevel", None, Choice(&["debug", "verbose", "notice", "warning"]), "notice", Modifiable, Kept),
    row("masterauth", None, Text, "", Modifiable, Kept),
    row("masteruser", None, Text, "", Modifiable, Kept),
    row("maxclients", None, Integer(1, UINT_MAX), "10000", Modifiable, Number(|config| &config.maxclients)),
    row("maxmemory", None, Memory(0, i64::MAX), "0", Modifiable, Number(|config| &config.maxmemory)),
    row("maxmemory-clients", None, MemoryOrPercent, "0", Modifiable, Kept),
    row("maxmemory-eviction-tenacity", None, Integer(0, 100), "10", Modifiable, Kept),
    row("maxmemory-policy", None, Choice(&["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction"]), "noeviction", Modifiable, Parsed(Config::evict_by)),
    row("maxmemory-samples", None, Integer(1, INT_MAX), "5", Modifiable, Number(|config| &config.maxmemory_samples)),
    row("min-replicas-max-lag", Some("min-slaves-max-lag"), Integer(0, INT_MAX), "10", Modifiable, Number(|config| &config.min_replicas_max_lag)),
    row("min-replicas-to-write", Some("min-slaves-to-write"), Integer(0, INT_MAX), "0", Modifiable, Number(|config| &config.min_replicas_to_write)),
    row("no-appendfsync-on-rewrite", None, Boolean, "no", Modifiable, Kept),
    row("notify-keyspace-events", None, KeyspaceEvents, "", Modifiable, Parsed(Config::notify_events)),
    row("oom-score-adj", None, Choice(&["no", "yes", "relative", "absolute"]), "no", Modifiable, Kept),
    row("oom-score-adj-values", None, OomScores, "0 200 800", Modifiable, Kept),
    row("pidfile", None, Text, "", Immutable, Kept),
    row("port", None, Fixed("Unable to listen on this port: it is chosen when the server starts."), "6379", Modifiable, Read),
    row("proc-title-template", None, Text, "{title} {listen-addr} {server-mode}", Modifiable, Kept),
    row("propagation-error-behavior", None, Choice(&["ignore", "panic", "panic-on-replicas"]), "ignore", Modifiable, Kept),
    row("protected-mode", None, Boolean, "yes", Modifiable, Kept),
    row("proto-max-bulk-len", None, Memory(1 << 20, i64::MAX), "536870912", Modifiable, Number(|config| &config.proto_max_bulk_len)),
    row("rdb-del-sync-files", None, Boolean, "no", Modifiable, Kept),
    row("rdb-key-save-delay", None, Integer(INT_MIN, INT_MAX), "0", Hidden, Kept),
    row("rdb-save-incremental-fsync", None, Boolean, "yes", Modifiable, Kept),
    row("rdbchecksum", None, Boolean, "yes", Immutable, Kept),
    row("rdbcompression", None, Boolean, "yes", Modifiable, Kept),
    row("repl-backlog-size", None, Memory(1, i64::MAX), "1048576", Modifiable, Kept),
    row("repl-backlog-ttl", None, Integer(0, i64::MAX), "3600", Modifiable, Kept),
    row("repl-disable-tcp-nodelay", None, Boolean, "no", Modifiable, Kept),
    row("repl-diskless-load", None, Choice(&["disabled", "on-empty-db", "swapdb"]), "disabled", Modifiable, Kept),
    row("repl-diskless-sync", None, Boolean, "yes", Modifiable, Kept),
    row("repl-diskless-sync-delay", None, Integer(0, INT_MAX), "5", Modifiable, Kept),
    row("repl-diskless-sync-max-replicas", None, Integer(0, INT_MAX), "0", Modifiable, Kept),
    row("repl-ping-replica-period", Some("repl-ping-slave-period"), Integer(1, INT_MAX), "10", Modifiable, Kept),
    row("repl-timeout", None, Integer(1, INT_MAX), "60", Modifiable, Kept),
    row("replica-announce-ip", Some("slave-announce-ip"), Text, "", Modifiable, Kept),
    row("replica-announce-port", Some("slave-announce-port"), Integer(0, 65535), "0", Modifiable, Kept),
    row("replica-announced", None, Boolean, "yes", Modifiable, Kept),
    row("replica-ignore-disk-write-errors", None, Boolean, "no", Modifiable, Kept),
    row("replica-ignore-maxmemory", Some("slave-ignore-maxmemory"), Boolean, "yes", Modifiable, Kept),
    row("replica-lazy-flush", Some("slave-lazy-flush"), Boolean, "no", Modifiable, Kept),
    row("replica-priority", Some("slave-priority"), Integer(0, INT_MAX), "100", Modifiable, Kept),
    row("replica-read-only", Some("slave-read-only"), Boolean, "yes", Modifiable, Kept),
    row("replica-serve-stale-data", Some("slave-serve-stale-data"), Boolean, "yes", Modifiable, Kept),
    row("replicaof", Some("slaveof"), Text, "", Immutable, Kept),
    row("requirepass", None, Password, "", Modifiable, Read),
    row("sanitize-dump-payload", None, Choice(&["no", "yes", "clients"]), "no", Modifiable, Kept),
    row("save", None, SavePoints, "", Modifiable, Kept),
    row("server_cpulist", None, Text, "", Immutable, Kept),
    row("search-cursor-max-idle", None, Integer(0, i64::MAX), "300000", Immutable, Kept),
    row("search-cursor-read-size", None, Integer(1, i64::MAX), "1000", Immutable, Kept),
    row("search-default-dialect", None, Integer(1, 4), "2", Modifiable, Number(|config| &config.search_default_dialect)),
    row("search-default-scorer", None, Text, "BM25STD", Immutable, Kept),
    row("search-enable-unstable-features", None, Boolean, "no", Modifiable, Kept),
    row("search-index-cursor-limit", None, Integer(0, i64::MAX), "128", Immutable, Kept),
    row("search-max-aggregate-results", None, Integer(0, i64::MAX), "1000000", Immutable, Kept),
    row("search-max-prefix-expansions", None, Integer(1, i64::MAX), "200", Immutable, Kept),
    row("search-max-search-results", None, Integer(0, i64::MAX), "1000000", Immutable, Kept),
    row("search-min-prefix", None, Integer(1, i64::MAX), "2", Immutable, Kept),
    row("search-min-stem-len", None, Integer(2, UINT_MAX), "4", Immutable, Kept),
    row("search-on-timeout", None, Choice(&["fail", "return"]), "fail", Modifiable, Parsed(Config::answer_parts)),
    row("search-partial-results", None, Boolean, "no", Modifiable, Number(|config| &config.search_partial_results)),
    row("search-timeout", None, Integer(0, INT_MAX), "500", Modifiable, Number(|config| &config.search_timeout)),
    row("set-max-intset-entries", None, Integer(0, i64::MAX), "512", Modifiable, Number(|config| &config.set_max_intset_entries)),
    row("set-max-listpack-entries", None, Integer(0, i64::MAX), "128", Modifiable, Kept),
    row("set-max-listpack-value", None, Memory(0, i64::MAX), "64", Modifiable, Kept),
    row("set-proc-title", None, Boolean, "no", Immutable, Kept),
    row("shutdown-on-sigint", None, Words(&["default", "save", "nosave", "now", "force"]), "default", Modifiable, Kept),
    row("shutdown-on-sigterm", None, Words(&["default", "save", "nosave", "now", "force"]), "default", Modifiable, Kept),
    row("shutdown-timeout", None, Integer(0, INT_MAX), "10", Modifiable, Kept),
    row("slowlog-log-slower-than", Some("commandlog-execution-slower-than"), Integer(-1, i64::MAX), "10000", Modifiable, Number(|config| &config.slowlog_log_slower_than)),
    row("slowlog-max-len", Some("commandlog-slow-execution-max-len"), Integer(0, i64::MAX), "128", Modifiable, Number(|config| &config.slowlog_max_len)),
    row("socket-mark-id", None, Integer(0, UINT_MAX), "0", Immutable, Kept),
    row("stop-writes-on-bgsave-error", None, Boolean, "yes", Modifiable, Kept),
    row("stream-node-max-bytes", None, Memory(0, i64::MAX), "4096", Modifiable, Number(|config| &config.stream_node_max_bytes)),
    row("stream-node-max-entries", None, Integer(0, i64::MAX), "100", Modifiable, Number(|config| &config.stream_node_max_entries)),
    row("supervised", None, Choice(&["upstart", "systemd", "auto", "no"]), "no", Immutable, Kept),
    row("syslog-enabled", None, Boolean, "no", Immutable, Kept),
    row("syslog-facility", None, Choice(&["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"]), "local0", Immutable, Kept),
    row("syslog-ident", None, Text, "redis", Immutable, Kept),
    row("tcp-backlog", None, Integer(0, INT_MAX), "511", Immutable, Kept),
    row("tcp-keepalive", None, Integer(0, INT_MAX), "300", Modifiable, Kept),
    row("timeout", None, Integer(0, INT_MAX), "0", Modifiable, Number(|config| &config.timeout)),
    row("tls-auth-clients", None, Choice(&["no", "yes", "optional"]), "no", Modifiable, Read),
    row("tls-ca-cert-dir", None, Text, "", Modifiable, Kept),
    row("tls-ca-cert-file", None, Text, "", Modifiable, Read),
    row("tls-cert-file", None, Text, "", Modifiable, Read),
    row("tls-ciphers", None, Text, "", Modifiable, Kept),
    row("tls-ciphersuites", None, Text, "", Modifiable, Kept),
    row("tls-client-cert-file", None, Text, "", Modifiable, Kept),
    row("tls-client-key-file", None, Text, "", Modifiable, Kept),
    row("tls-client-key-file-pass", None, Text, "", Modifiable, Kept),
    row("tls-cluster", None, Boolean, "no", Modifiable, Kept),
    row("tls-dh-params-file", None, Text, "", Modifiable, Kept),
    row("tls-key-file", None, Text, "", Modifiable, Read),
    row("tls-key-file-pass", None, Text, "", Modifiable, Kept),
    row("tls-port", None, Fixed("Unable to listen on this port: it is chosen when the server starts."), "0", Modifiable, Read),
    row("tls-prefer-server-ciphers", None, Boolean, "no", Modifiable, Kept),
    row("tls-protocols", None, Text, "", Modifiable, Kept),
    row("tls-replication", None, Boolean, "no", Modifiable, Kept),
    row("tls-session-cache-size", None, Integer(0, INT_MAX), "20480", Modifiable, Kept),
    row("tls-session-cache-timeout", None, Integer(0, INT_MAX), "300", Modifiable, Kept),
    row("tls-session-caching", None, Boolean, "yes", Modifiable, Kept),
    row("tracking-table-max-keys", None, Integer(0, i64::MAX), "1000000", Modifiable, Number(|config| &config.tracking_table_max_keys)),
    row("ts-chunk-size-bytes", None, Integer(0, i64::MAX), "4096", Immutable, Kept),
    row("ts-compaction-policy", None, Text, "", Immutable, Kept),
    row("ts-duplicate-policy", None, Choice(&["block", "first", "last", "min", "max", "sum"]), "block", Immutable, Kept),
    row("ts-encoding", None, Choice(&["compressed", "uncompressed"]), "compressed", Immutable, Kept),
    row("ts-ignore-max-time-diff", None, Integer(0, i64::MAX), "0", Immutable, Kept),
    row("ts-ignore-max-val-diff", None, Text, "0", Immutable, Kept),
    row("ts-retention-policy", None, Integer(0, i64::MAX), "0", Immutable, Kept),
    row("unixsocket", None, Text, "", Immutable, Kept),
    row("unixsocketperm", None, Integer(0, 0o777), "0", Immutable, Kept),
    row("use-exit-on-panic", None, Boolean, "no", Hidden, Kept),
    row("watchdog-period", None, Integer(0, INT_MAX), "0", Hidden, Kept),
    row("zset-max-listpack-entries", Some("zset-max-ziplist-entries"), Integer(0, i64::MAX), "128", Modifiable, Number(|config| &config.zset_max_listpack_entries)),
    row("zset-max-listpack-value", Some("zset-max-ziplist-value"), Memory(0, i64::MAX), "64", Modifiable, Number(|config| &config.zset_max_listpack_value)),];
