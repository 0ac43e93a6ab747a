//! The transaction engine: three ways in, one way out.
//!
//! ```text
//!   execute  short layer code under the partition's lock, at the latest state   --+
//!   run      optimistic closure on a snapshot, certified at commit, retried      --+--> effects --> epoch --> log
//!   commit   interactive transaction: read version, conflict ranges, mutations   --+
//! ```
//!
//! Effects are visible as soon as their transaction commits; a reply that depends on effects which
//! the log has not yet made durable must wait for them. Each of the three therefore returns a
//! [`Dependency`]: the newest version the answer depends on. The caller sends the answer once
//! [`Engine::durable`] has reached it, so no client ever sees a write that a crash can undo.
//!
//! The flusher appends to the log the epoch that gathered while the previous one was being synced,
//! so group commit needs no timer. Readers that wait for durability wake the flusher; writers do
//! not: all writes of a round share one sync. A failed write or sync is final: the failure callback
//! stops the server. A full disk is not: a transaction that would not fit is refused before it
//! commits (`room`).

#![warn(missing_docs)]

mod admission;
mod certify;
mod change;
mod conflicts;
mod copy;
mod database_copy;
mod durability;
mod engine;
mod flusher;
mod invariants;
mod log_reader;
mod options;
mod own_log;
mod partition;
mod parts;
mod recovery;
mod repair;
mod replication;
mod space;
mod standing;

pub use admission::Admission;
pub use certify::attempt::Stamp;
pub use certify::interactive::{CommitError, CommitRequest};
pub use certify::mutation::{Mutation, VERSIONSTAMP_BYTES, versionstamp};
pub use certify::optimistic::OptimisticTransaction;
pub use certify::run::RunError;
pub use change::{Change, ChangeDecoder, Reach, Shown};
pub use copy::{CopyError, CopySource, CopyTarget};
pub use database_copy::{CopyFigures, DatabaseCopy, DatabaseCopyError};
pub use durability::log_readers::OnMore;
pub use durability::memory::{Memory, Reserved};
pub use durability::request_memory::RequestMemory;
pub use engine::Engine;
pub use flusher::CheckpointError;
pub use invariants::{Finding, Findings, Invariants, Repair, Verification, decoded};
pub use log_reader::{LogReadError, LogReader};
pub use options::{Durability, EngineOptions, OpenError, OpenProgress};
pub use own_log::{Founder, OwnLog};
pub use partition::busy::{BriefWaits, Busy, Listening, serve_on_this_thread};
pub use partition::frozen::Frozen;
pub use partition::hold_times::MeasuredHolds;
pub use partition::read_guard::{MustWrite, ReadGuard};
pub use partition::reader::{Reader, RowValue, Visit};
pub use partition::state::Dependency;
pub use partition::statistics::Statistics;
pub use partition::transaction::{Transaction, UniqueId};
pub use partition::watch::WatchId;
pub use partition::{ExecuteError, PartitionGuard};
pub use parts::Parts;
pub use recovery::check::{CheckReport, check};
pub use recovery::convert::convert;
pub use recovery::restore::{IsWanted, Restoration};
pub use recovery::salvage::{rebuild, salvage};
pub use replication::{MakeSequencer, Replicated, Waker};
pub use space::{SPACE_BYTES, Space};

pub use standing::{Arrival, Condition, FollowingPeriod, ReadArrival, Replication, Role, Settled, StateHash};

pub use quartet_log::LogRecord;
pub use quartet_log_replicated::PartitionId;
pub use quartet_store::salvage::{Damage, Lost, Salvaged};
pub use quartet_store::{DiskUse, FoundCheckpoint, Row, StoreKind, Walk};
