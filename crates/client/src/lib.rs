//! A client of the key-value protocol: transactions that see their own writes, retries, watches.
//!
//! ```no_run
//! # async fn example() -> Result<(), quartet_client::ErrorCode> {
//! use quartet_client::{Cluster, Database};
//!
//! let database = Database::open(Cluster::read(None)?);
//! let count = database
//!     .run(async |transaction| {
//!         let count = transaction.get(b"count", false).await?;
//!         let count = count.map_or(0, |bytes| bytes.len()) + 1;
//!         transaction.set(b"count", &vec![0; count]);
//!         Ok(count)
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! The transaction lives here: it reads at a version of the server's, lays its own writes over what
//! it reads, and gathers what it read and wrote; a commit sends everything at once. Semantics,
//! limits and numbers of errors are FoundationDB's at API version 520 and later.
//!
//! | file          | what it is                                                            |
//! |---------------|-----------------------------------------------------------------------|
//! | `cluster`     | the cluster file: the server's address, and the credential             |
//! | `connection`  | one TCP connection, shared by all transactions, re-established when lost |
//! | `database`    | the shared connection, defaults of transactions, the number of watches |
//! | `transaction` | the operations of a transaction, up to its commit, and the retry loop    |
//! | `mutations`   | its writes in the order of the calls, as they are sent                 |
//! | `attempt`     | what a reset ends: the read version, what was read, what waits          |
//! | `reading`     | reads that merge what is stored with what the transaction has written   |
//! | `writes`      | what the transaction has written, as reads must see it                 |
//! | `mapper`      | the queries of a mapped range                                          |
//! | `conflicts`   | sets of key ranges                                                     |
//! | `options`     | the options of a transaction                                           |
//! | `special`     | keys that are computed here                                            |
//! | `system_keys` | system keys that describe a cluster                                    |
//! | `tls`         | TLS towards the server                                                 |
#![warn(missing_docs)]

mod attempt;
mod cluster;
mod conflicts;
mod connection;
mod database;
mod mapper;
mod mutations;
mod options;
mod reading;
mod special;
mod system_keys;
mod tls;
mod transaction;
mod writes;

pub use attempt::StoredValue;
pub use cluster::Cluster;
pub use database::Database;
pub use options::{DatabaseOption, TransactionOption};
pub use quartet_model::AtomicOperation;
pub use quartet_wire_keyvalue::{ErrorCode, MutationKind};
pub use reading::{RangeOptions, Rows, Selector};
pub use tls::TlsSettings;
pub use transaction::{ConflictKind, Mapped, MappedRow, MappedRows, Transaction};

pub(crate) const USER_KEYS_END: &[u8] = b"\xff";
pub(crate) const SYSTEM_KEYS_END: &[u8] = b"\xff\xff";
/// A client stamps it to invalidate the schemas that layers cache. All transactions may read it.
pub(crate) const METADATA_VERSION_KEY: &[u8] = b"\xff/metadataVersion";
const KEY_BYTES_MAX: usize = 10_000;
const SYSTEM_KEY_BYTES_MAX: usize = 30_000;
pub(crate) const VALUE_BYTES_MAX: usize = 100_000;

/// Longest key in the part of the key space that contains `key`, in bytes.
pub(crate) fn key_bytes_max(key: &[u8]) -> usize {
    match key.starts_with(USER_KEYS_END) {
        true => SYSTEM_KEY_BYTES_MAX,
        false => KEY_BYTES_MAX,
    }
}

/// The first key after `key`.
pub(crate) fn key_after(key: &[u8]) -> Vec<u8> {
    let mut after = Vec::with_capacity(key.len() + 1);
    after.extend_from_slice(key);
    after.push(0);
    after
}
