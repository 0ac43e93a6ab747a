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
//! | room or file      | contents                                                             |
//! |-------------------|----------------------------------------------------------------------|
//! | `interface`       | the traits: what a store is                                          |
//! | `memory`          | the store in memory: rows behind one pointer (`row`, the only unsafe |
//! |                   | code), sorted runs of them (`run`), the counted B+tree (`tree`)      |
//! | `ssd`             | the store on disk: a tree in files, and the changes since            |
//! | `checkpoint`      | a snapshot as a stream of checksummed bytes, and back (`files`,      |
//! |                   | `load`); the trustworthy part of a damaged store (`salvage`)         |
//! | `partition_store` | the store that a data directory holds, of either kind                |
//! | `options`         | the options a store is opened with                                   |
//! | `hash`            | the hash by which replicas compare their states                      |
//! | `damage`          | reports of damage                                                    |
//! | `conformance`     | the tests that every store must pass                                 |

#![warn(missing_docs)]

pub mod checkpoint;
#[doc(hidden)]
pub mod conformance;
mod damage;
mod error;
mod hash;
mod interface;
pub mod memory;
mod open_error;
mod options;
mod partition_store;
mod position;
mod ssd;

pub use checkpoint::files::FoundCheckpoint;
pub use checkpoint::load::PartitionLoad;
pub use error::StoreError;
pub use hash::{StateHasher, state_hash};
pub use interface::{Cleared, Flush, Flushed, Read, Snapshot, Store};
pub use memory::row::{Row, all_rows_bytes};
pub use memory::{MemoryBuilder, MemoryCleared, MemoryFlush, MemorySnapshot, MemoryStore};
pub use open_error::OpenError;
pub use options::{StoreKind, StoreOptions};
pub use partition_store::{
    Opened, PartitionCleared, PartitionFlush, PartitionFlushed, PartitionSnapshot, PartitionStore,
};
pub use position::Position;
pub use ssd::{DiskUse, SsdCleared, SsdFlush, SsdFlushed, SsdOutdated, SsdSnapshot, SsdStore};
