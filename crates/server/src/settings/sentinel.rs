//! Settings of the listener that answers as a sentinel of Redis.

use super::listen::Listen;

#[derive(Clone, Debug, Default)]
pub struct SentinelSettings {
    /// Sentinel's protocol, for clients that query a sentinel for the server's address.
    pub listen: Listen,
    /// The name in clients' queries.
    pub master_name: String,
}
