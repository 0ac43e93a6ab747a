//! The transaction engine: three ways in, one way out.
//!
//! ```text
//!   execute  short layer code under the partition's lock, at the latest state   --+
//!   run      optimistic closure on a snapshot, certified at commit, retried      --+--> effects --> epoch --> log
//!   commit   interactive transaction: read version, conflict ranges, mutations   --+
//! ```
//!
//! Effects are visible as soon as their transaction commits; a reply that depends on effects which the log has not yet
//! made durable must wait for them. Each way in therefore returns a [`Dependency`]: the newest version the answer depends on.
//! The caller sends the answer once [`Engine::durable`] has reached it, so nobody ever sees what a crash can take back.
//!
//! The flusher takes to the log the epoch that gathered while the previous one was being synced, so group commit needs no
//! timer. Who waits for something to be durable wakes it, not who writes: what is written in one go is synced in one go.
//! A failed write or sync is final: the failure callback stops the server. A full disk is not: what would not fit is refused
//! before it commits (`room`).

#![warn(missing_docs)]

mod attempt;
mod backlog;
mod busy;
mod change;
mod changes;
mod check;
mod convert;
mod engine;
mod epochs;
mod flusher;
mod frozen;
mod full_keys;
mod interactive;
mod invariants;
mod job;
mod lock;
mod log_reader;
mod log_readers;
mod memory;
mod mutation;
mod newest;
mod optimistic;
mod options;
mod partition;
mod parts;
mod pressure;
mod reader;
mod replay;
mod restore;
mod retention;
mod room;
mod run;
mod salvage;
mod shared;
mod space;
mod state;
mod statistics;
mod stored;
mod transaction;
mod watch;

pub use attempt::Stamp;
pub use busy::{BriefWaits, Busy, serve_on_this_thread};
pub use change::{Change, ChangeDecoder, Reach, Shown};
pub use check::{CheckReport, check};
pub use convert::convert;
pub use engine::Engine;
pub use flusher::CheckpointError;
pub use frozen::Frozen;
pub use interactive::{CommitError, CommitRequest};
pub use invariants::{Finding, Findings, Invariants, Judged, Repair, decoded};
pub use log_reader::{LogReadError, LogReader};
pub use log_readers::OnMore;
pub use memory::{Memory, Reserved};
pub use mutation::{Mutation, VERSIONSTAMP_BYTES, versionstamp};
pub use optimistic::OptimisticTransaction;
pub use options::{Durability, EngineOptions, OpenError, OpenProgress};
pub use partition::{ExecuteError, PartitionGuard};
pub use parts::Parts;
pub use pressure::Admission;
pub use reader::{Reader, RowValue, Visit};
pub use restore::{IsWanted, Restoration};
pub use run::RunError;
pub use salvage::{rebuild, salvage};
pub use space::{SPACE_BYTES, Space};
pub use state::Dependency;
pub use statistics::Statistics;
pub use transaction::{Transaction, UniqueId};
pub use watch::WatchId;

pub use quartet_log::LogRecord;
pub use quartet_store::salvage::{Damage, Lost, Salvaged};
pub use quartet_store::{DiskUse, FoundCheckpoint, StoreKind};
