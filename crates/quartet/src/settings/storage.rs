//! Options of the data directory and the engine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use quartet_engine::{Durability, StoreKind};
use quartet_server::{Data, StorageSettings};
use serde::{Deserialize, Serialize};

/// Each has threads and files of its own.
const PARTITIONS_MAX: i64 = 64;

/// The default data directory.
pub const DEFAULT_DATA: &str = "quartet-data";

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct StorageOptions {
    /// Directory that holds the log and the checkpoints, or "memory": nothing is kept [default:
    /// quartet-data]
    #[arg(long, env = "QUARTET_DATA")]
    data: Option<PathBuf>,
    /// Partitions of the data, each with its own log and lock: a database is whole in one. The
    /// number can grow, never shrink [default: the number of the directory; 1 in a new directory]
    #[arg(long, env = "QUARTET_PARTITIONS", value_parser = clap::value_parser!(u32).range(1..=PARTITIONS_MAX))]
    partitions: Option<u32>,
    /// Engine that stores the rows: memory, or ssd for more data than memory [default: the engine
    /// of the directory; memory for a new directory]
    #[arg(long, env = "QUARTET_ENGINE", value_parser = ["memory", "ssd"])]
    engine: Option<String>,
    /// When a write is acknowledged: always (on disk), interval (synced every second), none
    /// [default: always]
    #[arg(long, env = "QUARTET_DURABILITY", value_parser = ["always", "interval", "none"])]
    pub(super) durability: Option<String>,
    /// Bytes of the ssd engine's cache of nodes in memory [default: a quarter of --memory-bytes
    /// less the program's own 56 MiB; 1 GiB at most]
    #[arg(long, env = "QUARTET_CACHE_BYTES")]
    cache_bytes: Option<u64>,
    /// Bytes of the log after which the ssd engine writes what has changed to its files; up to four
    /// times as many while it does. In memory, what has changed takes a quarter of --memory-bytes
    /// at most [default: 67108864]
    #[arg(long, env = "QUARTET_UNFLUSHED_BYTES")]
    unflushed_bytes: Option<u64>,
}

impl StorageOptions {
    pub fn data(&self) -> Data {
        Data::named(self.data.as_deref().unwrap_or(Path::new(DEFAULT_DATA)))
    }

    pub fn validated(&self) -> Result<StorageSettings> {
        let durability = self.durability.as_deref().unwrap_or("always");
        Ok(StorageSettings {
            data: self.data(),
            partitions: self.partitions()?,
            durability: Durability::parse(durability)
                .with_context(|| format!("durability: '{durability}' is none of always, interval, none"))?,
            engine: self.engine()?,
            cache_bytes: self.cache_bytes,
            unflushed_bytes: self.unflushed_bytes.unwrap_or(64 << 20),
        })
    }

    /// Values from a configuration file lack the check of the command line.
    fn partitions(&self) -> Result<Option<u32>> {
        let is_possible = self
            .partitions
            .is_none_or(|count| (1..=PARTITIONS_MAX).contains(&i64::from(count)));
        ensure!(is_possible, "partitions: there are 1 to {PARTITIONS_MAX}");
        Ok(self.partitions)
    }

    /// The requested engine.
    fn engine(&self) -> Result<Option<StoreKind>> {
        let named = self
            .engine
            .as_deref()
            .map(|name| StoreKind::parse(name).with_context(|| format!("engine: '{name}' is none of memory, ssd")));
        named.transpose()
    }
}
