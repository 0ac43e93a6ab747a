//! Settings of the listener that answers as a sentinel of Redis.

use super::listen::Listen;

#[derive(Clone, Debug, Default)]
pub struct SentinelSettings {
    /// Sentinel's protocol, for clients that ask one where the server is.
    pub listen: Listen,
    /// By which name they ask.
    pub master_name: String,
}
