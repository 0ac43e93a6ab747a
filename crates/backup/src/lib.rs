//! Backups: taken from a running engine, kept in a folder or an object store, verified, and
//! restored to any version that they cover.
//!
//! ```text
//!   engine --Session--> frames --take--> parts and manifests in a Target --Archive--> restore --> data folder
//! ```
//!
//! A backup is a *base*, every row as of one version, and *log steps*, the records of the log
//! since. The files of a target are never changed: each step adds parts, and then the manifest that
//! names them. `docs/backup.md` has the bytes.

#![warn(missing_docs)]

mod archive;
mod database_rows;
mod error;
mod frame;
mod manifest;
mod passing;
mod restore;
mod session;
mod take;
mod target;
mod tree;

pub use archive::{Archive, Chain};
pub use database_rows::{DatabaseRows, PieceOfRows, read_rows};
pub use error::BackupError;
pub use manifest::{Anchor, DatabaseName, Kind, Manifest, Part};
pub use restore::{Restore, Restored, restore};
pub use session::{BackupStart, Session};
pub use take::{BackupOptions, BackupSummary, Gap, Progress, Source, take};
pub use target::{Target, open_shared, open_target, partition_address, partitions_in, state_partitions};
pub use tree::{Tree, open_tree};
