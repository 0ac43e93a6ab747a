//! Copies what another Redis holds: from an RDB file, an append-only file, or a live server that
//! takes us for its replica.
//!
//! ```text
//!   RDB file ---------- records --+
//!   append-only file -- records, then commands --+--> Carrier --transactions--> Target
//!   live server ------- records, then commands --+
//!   Upstash ----------- commands that make each key --+
//! ```
//!
//! A key arrives whole or not at all, and the position of the copy is written by the same
//! transaction as the keys up to it ([`progress`]), so a killed copy resumes at its position.
//! Refused requests are reported and left out; unknown input ends the copy. A target is anything
//! that takes requests and answers in order: a remote server, or a session of this one.
//!
//! Sockets and files are read by blocking calls: a copy has a thread of its own.

pub mod address;
pub mod append_only;
pub mod carrier;
pub mod commands;
pub mod connection;
pub mod cut_over;
pub mod error;
pub mod follow;
pub mod link;
pub mod progress;
pub mod records;
pub mod tls;
pub mod upstash;
pub mod users;
pub mod verify;
pub mod watcher;

pub use address::Address;
pub use error::Error;
