//! The notes of COMMAND DOCS on commands that are not meant for applications any more, or never
//! were; observed of Redis 8.2.3.

/// The version since which a command is deprecated, and what to use instead.
pub fn deprecation(command: &str) -> Option<(&'static str, &'static str)> {
    let row = DEPRECATED.iter().find(|(name, ..)| *name == command);
    row.map(|(_, since, instead)| (*since, *instead))
}

/// The document's flag, if it has one.
pub fn doc_flag(command: &str) -> Option<&'static str> {
    match deprecation(command) {
        Some(_) => Some("deprecated"),
        None => OF_THE_SYSTEM.contains(&command).then_some("syscmd"),
    }
}

const OF_THE_SYSTEM: &[&str] = &["debug", "pfdebug", "pfselftest", "replconf", "restore-asking"];

#[rustfmt::skip]
const DEPRECATED: &[(&str, &str, &str)] = &[
    ("brpoplpush", "6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments"),
    ("cluster|slaves", "5.0.0", "`CLUSTER REPLICAS`"),
    ("cluster|slots", "7.0.0", "`CLUSTER SHARDS`"),
    ("georadius", "6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument"),
    ("georadius_ro", "6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument"),
    ("georadiusbymember", "6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments"),
    ("georadiusbymember_ro", "6.2.0", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments"),
    ("getset", "6.2.0", "`SET` with the `!GET` argument"),
    ("hmset", "4.0.0", "`HSET` with multiple field-value pairs"),
    ("psetex", "2.6.12", "`SET` with the `PX` argument"),
    ("quit", "7.2.0", "just closing the connection"),
    ("rpoplpush", "6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments"),
    ("setex", "2.6.12", "`SET` with the `EX` argument"),
    ("setnx", "2.6.12", "`SET` with the `NX` argument"),
    ("slaveof", "5.0.0", "`REPLICAOF`"),
    ("substr", "2.0.0", "`GETRANGE`"),
    ("zrangebylex", "6.2.0", "`ZRANGE` with the `BYLEX` argument"),
    ("zrangebyscore", "6.2.0", "`ZRANGE` with the `BYSCORE` argument"),
    ("zrevrange", "6.2.0", "`ZRANGE` with the `REV` argument"),
    ("zrevrangebylex", "6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments"),
    ("zrevrangebyscore", "6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments"),
];
