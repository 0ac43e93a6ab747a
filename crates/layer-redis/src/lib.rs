//! Redis, as a layer: commands translated onto the ordered key space of one logical database.
//!
//! ```text
//!   bytes --Session--> arguments --table--> handler(Context) --Keyspace--> engine transaction
//!   bytes <--Session-- reply, and the version it has to wait for
//! ```
//!
//! Each command is one transaction; MULTI/EXEC is one transaction of several. A [`Session`] is one connection without its
//! socket: bytes in, bytes out. Whoever owns the socket asks it what to wait for (more bytes, a durable version, a deadline,
//! its mailbox). Time arrives with the transaction.

pub mod acl;
pub mod admission_control;
pub mod after;
pub mod blocking;
pub mod changes;
pub mod channels;
pub mod client_memory;
pub mod clients;
pub mod command;
pub mod commands;
pub mod config;
pub mod connectionless;
pub mod context;
mod counting;
pub mod definition;
pub mod errors;
pub mod event_classes;
pub mod eviction_policy;
pub mod execution;
pub mod facts;
pub mod failure;
mod feed;
mod fixed;
pub mod found_expired;
pub mod glob;
pub mod image;
mod invariants;
pub mod key_flags;
pub mod keyspace;
pub mod latency;
pub mod layer;
pub mod login_guard;
pub mod long_double;
pub mod long_scripts;
pub mod mailbox;
pub mod migration;
mod opening;
pub mod outbox;
pub mod packed;
pub mod parse;
pub mod pause;
pub mod pending_disconnects;
pub mod places;
pub mod random;
pub mod rdb;
pub mod recency;
pub mod redaction;
pub mod repetition;
pub mod replication;
pub mod scan;
pub mod scripts;
pub mod session;
pub mod slowlog;
pub mod statistics;
pub mod string_value;
pub mod subscriptions;
pub mod table;
#[cfg(test)]
pub mod testing;
pub mod tracking;

pub use facts::{DATABASES, REDIS_VERSION, REPLY_BYTES_MAX};
pub use feed::RedisChanges;
pub use invariants::RedisInvariants;
pub use layer::{Announcement, Identity, MODULES, Redis, Resources};
pub use session::{Received, Session};
