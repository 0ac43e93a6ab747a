//! Redis, as a layer: commands translated onto the ordered key space of one logical database.
//!
//! ```text
//!   bytes --Session--> arguments --table--> handler(Context) --Keyspace--> engine transaction
//!   bytes <--Session-- reply, and the version it has to wait for
//! ```
//!
//! Each command is one transaction; MULTI/EXEC is one transaction of several. A [`Session`] is one
//! connection without its socket: bytes in, bytes out. It returns to the socket's owner its next
//! event (more bytes, a durable version, a deadline, its mailbox). Time is passed in with the
//! transaction.

pub mod access;
pub mod command;
pub mod command_set;
pub mod commands;
pub mod config;
mod connections;
pub mod execution;
mod facts;
mod handler;
mod invariants;
pub mod keyspace;
mod layer;
mod listed;
pub mod module;
pub mod module_api;
pub mod module_states;
mod observation;
mod opening;
pub mod replication;
mod scripting;
pub mod session;
pub mod testing;

pub use access::database_login::DatabaseLogin;
pub use commands::scripting::drop_interpreter;
pub use connections::client_memory::{ClientMemory, Counted};
pub use connections::clients::Client;
pub use execution::feed::RedisChanges;
pub use execution::long_run::LongRun;
pub use facts::{DATABASES, REPLY_BYTES_MAX, RedisVersion};
pub use handler::command_memory::CommandMemory;
pub use handler::outcome::{Deferred, ReplicaWait};
pub use invariants::RedisInvariants;
pub use keyspace::late_part::Made;
pub use layer::{Announcement, Directory, Identity, RdbFile, Redis, Resources};
pub use observation::latency::Histogram;
pub use observation::statistics::Statistics;
pub use scripting::long_scripts::LongScripts;
pub use session::Session;
pub use session::after::After;
pub use session::leaving::Left;
pub use session::received::{Next, Received};
