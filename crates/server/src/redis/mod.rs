//! The listener of the Redis protocol: the entrance for clients, their connections, and the
//! conversations with other servers of the protocol.

mod connection;
pub(crate) mod entrance;
pub(crate) mod migration;
pub(crate) mod modules;
pub(crate) mod opening;
pub(crate) mod rdb_file;
pub(crate) mod replica_of;
pub(crate) mod replicas;
pub(crate) mod sentinel;
pub(crate) mod users;

use std::time::Duration;

use quartet_layer_redis::Redis;

use self::migration::Migrations;
use self::replica_of::ReplicaOf;

/// A connection that was silent for so long gives its buffers back until it speaks again.
const REST_AFTER: Duration = Duration::from_secs(2);

/// Makes the connections that are idle give their buffers back, and closes listeners that have not
/// read for too long.
pub fn tidy(layer: &Redis) {
    let rest_micros = REST_AFTER.as_micros() as u64;
    let now_micros = layer.engine.now_micros();
    layer
        .connections
        .clients
        .wake_idle(now_micros.saturating_sub(rest_micros));
    layer.enforce_soft_limits();
}

/// The protocols that the peers of a listener may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Clear text, and TLS beside it if there is a certificate.
    Both,
    TlsOnly,
}

/// With other servers of Redis' protocol.
#[derive(Default)]
pub struct Conversations {
    pub migrations: Migrations,
    /// The server that the default database is a replica of.
    pub replica_of: ReplicaOf,
}

/// The way in for clients that another home passes on.
pub const LISTENER: &str = "redis";

/// The answer to a client for which there is no place.
pub const NO_PLACE: &[u8] = b"-ERR max number of clients reached\r\n";

/// Writes a checkpoint, and the RDB file next to it if configured. Blocks while it does. The error
/// is a reply.
pub fn save(layer: &Redis) -> Result<(), String> {
    let written = layer.engine.checkpoint();
    written.map_err(|_| "ERR the checkpoint failed; see the server's log".to_owned())?;
    layer.write_rdb_file()
}
