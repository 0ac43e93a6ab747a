//! Redis, as a layer: commands translated onto the ordered key space of one logical database.
//!
//! ```text
//!   bytes --Session--> arguments --table--> handler(Context) --Keyspace--> engine transaction
//!   bytes <--Session-- reply, and the version it has to wait for
//! ```
//!
//! Each command is one transaction; MULTI/EXEC is one transaction of several. A [`Session`] is one
//! connection without its socket: bytes in, bytes out. The socket's owner asks it for its next
//! event (more bytes, a durable version, a deadline, its mailbox). Time arrives with the
//! transaction.

pub mod access;
pub mod command;
pub mod commands;
pub mod config;
pub mod connections;
pub mod execution;
pub mod facts;
pub mod handler;
mod invariants;
pub mod keyspace;
pub mod layer;
pub mod observation;
mod opening;
pub mod replication;
pub mod scripting;
pub mod session;
#[cfg(test)]
pub mod testing;

pub use execution::feed::RedisChanges;
pub use facts::{DATABASES, REDIS_VERSION, REPLY_BYTES_MAX};
pub use invariants::RedisInvariants;
pub use layer::{Announcement, Identity, MODULES, Redis, Resources};
pub use session::{Received, Session};
