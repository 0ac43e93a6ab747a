//! Ordered storage of rows: what the engine reads and writes, and the engines behind it.
//!
//! A store holds the latest row of every key and hands out snapshots: the whole store as it was at
//! that moment, to be read on any thread without a lock. It keeps no log and no clock and judges no
//! conflicts; rows carry the version that wrote them, and that is all it knows of time. Ranges
//! include their start and exclude their end, and are empty when `start >= end`.
//!
//! A store on disk reaches up to a [`Position`] of the log, and is opened with that and the log's
//! rest. A [`Flush`] brings it forward; it runs beside reads and writes.
//!
//! | file              | what it is                                                         |
//! |-------------------|--------------------------------------------------------------------|
//! | `interface`       | the traits: what a store is                                        |
//! | `row`             | key, value and version behind one pointer; the only unsafe code    |
//! | `memory`          | the store in memory: the tree behind the traits above              |
//! | `memory::tree`    | the persistent B+tree that counts                                  |
//! | `memory::run`     | a short sorted run of rows: the body of a tree node                |
//! | `ssd`             | the store on disk: a tree in files, and what has changed since     |
//! | `checkpoint`      | a snapshot as a stream of checksummed bytes, and back              |
//! | `checkpoint::files` | checkpoints as files of a directory: the flush of `memory`       |
//! | `options`         | the settings that the store is opened with                         |
//! | `partition_store` | whichever store a data directory holds                             |
//! | `load`            | rows in key order on their way into an empty store                 |
//! | `hash`            | the hash by which replicas compare their states                    |
//! | `damage`          | what is said of damage                                             |
//! | `salvage`         | what of a damaged store can still be trusted                       |
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
