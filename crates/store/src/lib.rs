//! Ordered storage of rows: the interface that the engine reads and writes, and its
//! implementations.
//!
//! A store holds the latest row of every key and hands out snapshots: the whole store at that
//! moment, readable on any thread without a lock. It keeps no log and no clock and detects no
//! conflicts; its only notion of time is the version in each row. Ranges include their start and
//! exclude their end, and are empty when `start >= end`.
//!
//! A store on disk reflects the log up to a [`Position`], and opening applies the rest of the log.
//! A [`Flush`] advances it; it runs concurrently with reads and writes.
//!
//! | file              | what it is                                                         |
//! |-------------------|--------------------------------------------------------------------|
//! | `interface`       | the traits: what a store is                                        |
//! | `row`             | key, value and version behind one pointer; the only unsafe code    |
//! | `memory`          | the store in memory: the tree as an implementation of the traits   |
//! | `memory::tree`    | the persistent B+tree that counts                                  |
//! | `memory::run`     | a short sorted run of rows: the body of a tree node                |
//! | `ssd`             | the store on disk: a tree in files, and the changes since          |
//! | `checkpoint`      | a snapshot as a stream of checksummed bytes, and back              |
//! | `checkpoint::files` | checkpoints as files of a directory: the flush of `memory`       |
//! | `options`         | the settings of the store                                          |
//! | `partition_store` | one type for either kind of store                                  |
//! | `load`            | rows in key order on their way into an empty store                 |
//! | `hash`            | the hash by which replicas compare their states                    |
//! | `damage`          | descriptions of damage                                             |
//! | `salvage`         | the trustworthy rows of a damaged store                            |
//! | `conformance`     | the tests that every store must pass                               |

#![warn(missing_docs)]

pub mod checkpoint;
#[doc(hidden)]
pub mod conformance;
mod damage;
mod error;
mod hash;
mod interface;
mod load;
pub mod memory;
mod open_error;
mod options;
mod partition_store;
mod position;
mod prefetch;
mod row;
pub mod salvage;
mod ssd;

pub use checkpoint::files::FoundCheckpoint;
pub use error::StoreError;
pub use hash::{StateHasher, state_hash};
pub use interface::{Cleared, Flush, Flushed, Read, Snapshot, Store, Walk};
pub use load::PartitionLoad;
pub use memory::{MemoryBuilder, MemoryCleared, MemoryFlush, MemorySnapshot, MemoryStore};
pub use open_error::OpenError;
pub use options::{StoreKind, StoreOptions};
pub use partition_store::{
    Opened, PartitionCleared, PartitionFlush, PartitionFlushed, PartitionSnapshot, PartitionStore,
};
pub use position::Position;
pub use row::{Row, all_rows_bytes};
pub use ssd::{DiskUse, SsdCleared, SsdFlush, SsdFlushed, SsdOutdated, SsdSnapshot, SsdStore};
