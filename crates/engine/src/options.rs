//! How a partition is opened, and why that may fail.

use std::sync::Arc;
use std::time::Duration;

use quartet_log::{LogError, ReplayProgress};
use quartet_store::{OpenError as StoreOpenError, StoreKind};

use crate::durability::memory::Memory;

/// The time at which a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// After its epoch is on disk.
    #[default]
    Always,
    /// At once; written to the log within 10 milliseconds and synced every second.
    Interval,
    /// At once; written to the log within 10 milliseconds. When it is synced is not promised; at
    /// present like `Interval`.
    None,
}

impl Durability {
    /// As settings spell it.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Always => "always",
            Durability::Interval => "interval",
            Durability::None => "none",
        }
    }

    /// The inverse of [`Durability::name`].
    pub fn parse(name: &str) -> Option<Durability> {
        [Durability::Always, Durability::Interval, Durability::None]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Room in the log, and as much beside it for a checkpoint, that only transactions may use
    /// which make the database smaller. A deletion takes about a hundred bytes. At most a quarter
    /// of the room that the log makes ahead.
    pub kept_bytes: u64,
    /// A checkpoint starts when the log holds this many bytes, or the size of the last checkpoint
    /// if that is larger.
    pub checkpoint_log_bytes: u64,
    /// The kind of store; `None` means the kind that the directory holds.
    pub store: Option<StoreKind>,
    /// Bytes of ssd store reads that are cached in memory.
    pub cache_bytes: u64,
    /// Log bytes since the ssd store's last flush at which a flush starts; the changes stay in
    /// memory until then. At four times this size, while a flush still runs, writes wait.
    pub unflushed_log_bytes: u64,
    /// Memory that what is not in the ssd store's files may take, in bytes, rows and the nodes that
    /// hold them. A flush starts at a sixth of it; beyond it, what would make the data larger waits
    /// ([`Admission::Later`](crate::Admission::Later)).
    pub unflushed_bytes_max: u64,
    /// Bytes of the log that are kept for present or future readers
    /// ([`LogReader`](crate::LogReader)) beyond the store's needs.
    pub log_retention_bytes: u64,
    /// Time for which the log is kept for future readers.
    pub log_retention: Duration,
    /// Size at which a transaction closes its epoch; at most 2 GiB. A few such epochs may wait in
    /// memory for the log, then transactions wait.
    pub epoch_bytes_max: usize,
    /// The memory of the process: the engines of one process are given the same.
    pub memory: Arc<Memory>,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            kept_bytes: 16 << 20,
            checkpoint_log_bytes: 256 << 20,
            store: None,
            cache_bytes: 256 << 20,
            unflushed_log_bytes: 64 << 20,
            unflushed_bytes_max: 1 << 30,
            log_retention_bytes: 1 << 30,
            log_retention: Duration::ZERO,
            epoch_bytes_max: 64 << 20,
            memory: Arc::default(),
        }
    }
}

/// Progress of opening.
#[derive(Clone, Copy, Debug)]
pub enum OpenProgress {
    /// Rows of the checkpoint that have been read.
    Checkpoint {
        /// How many.
        rows: u64,
    },
    /// Bytes of the log that have been replayed.
    Log {
        /// Replayed bytes.
        bytes: u64,
        /// In all.
        bytes_total: u64,
    },
}

impl From<ReplayProgress> for OpenProgress {
    fn from(read: ReplayProgress) -> OpenProgress {
        OpenProgress::Log {
            bytes: read.bytes_read,
            bytes_total: read.bytes_total,
        }
    }
}

/// Why a partition could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log could not be opened.
    #[error("{0}")]
    Log(LogError),
    /// The store could not be opened.
    #[error("{0}")]
    Store(#[from] StoreOpenError),
}

impl OpenError {
    /// Returns true if what was durable cannot be read back. Otherwise the disk or the program
    /// cannot read it, now or ever.
    pub fn is_damage(&self) -> bool {
        match self {
            OpenError::Log(error) => matches!(error, LogError::Damaged(_)),
            OpenError::Store(error) => error.is_damage(),
        }
    }
}
